"""Kawano, Cao 2020, input observability.

White noise on the outputs hides an l2 ball of initial states *and* inputs. Its size is
the largest singular value of [O N]: the less the inputs are observable, the less noise.
"""

import sys

import comparison
import control as ct
import numpy as np
from output_perturbation import toeplitz

import privcontrol as pc

SOURCE = """IEEE TAC 65(9), 3863-3878 (arXiv 1901.07384); Automatica 127 (2021)
adjacency: initial state and inputs in one l2 ball; adversary: sees all outputs"""


def stacked(sys_, horizon):
    """[O N] (T p, n + T m), from the initial state and all inputs to all outputs."""
    powers = [np.eye(sys_.nstates)]
    for _ in range(horizon - 1):
        powers.append(sys_.A @ powers[-1])
    free = np.vstack([sys_.C @ power for power in powers])
    return np.hstack([free, toeplitz(sys_, horizon)])


def design(plant, secret, budget):
    """The ball (x0, U) of the paper, as large as the radius that the secret names."""
    radius = getattr(secret, "radius", None)
    if isinstance(secret, list) or np.ndim(radius) or isinstance(radius, dict):
        raise ValueError("expected one radius for the ball of initial state and inputs")
    size = np.linalg.norm(stacked(plant.sys, plant.horizon), 2)
    std = float(radius) * size / budget.shift() * (1 + 1e-9)
    factor = std * np.eye(plant.horizon * plant.sys.noutputs)
    instead = "hides initial state and inputs together"
    entry = plant.evaluated(secret, factor, instead=instead)
    if entry.guarantee.gdp > budget.shift():
        raise ValueError(
            "the ball of initial state and inputs does not hold this secret"
        )
    return entry


def golden():
    """Exact shift of the worst direction; N_T grows to the H-infinity norm."""
    vehicle = pc.plants.vehicle()
    both = stacked(vehicle, 40)
    worst = np.linalg.svd(both)[2][0]
    lag = ct.ss(0.8, 1, 0.2, 0, 1)
    norms = [np.linalg.norm(toeplitz(lag, T), 2) for T in (10, 100, 500)]
    return [
        ("the worst direction is attained", np.linalg.norm(both @ worst),
         float(np.sqrt(np.linalg.eigvalsh(both.T @ both)[-1]))),
        ("||N_T|| at T = 500: unit DC gain needs the noise of r", norms[2], "1.000"),
        ("it increases with T", float(norms[0] < norms[1] < norms[2]), "1"),
    ]  # fmt: skip


if __name__ == "__main__":
    comparison.main(sys.modules[__name__])
