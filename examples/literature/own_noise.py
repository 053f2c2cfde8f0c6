"""Wang et al. 2023, own noise.

The initial state is the secret, and the plant's disturbances hide it. White noise on
the readings adds what is missing. The guarantee counts on the law of the disturbances,
which other methods treat as if the adversary knew them.
"""

import sys

import comparison
import numpy as np
from kawano_cao import stacked
from scipy.optimize import brentq

import privcontrol as pc

SOURCE = """Automatica 2023 (arXiv 2008.10193)
adjacency: initial states in an l2 ball; adversary: sees all outputs, knows the model"""


def design(plant, secret, budget):
    own = comparison.LinearLoop(
        plant.sys, plant.horizon, plant.QN, plant.RN, 0 * plant.P0, plant.Q, plant.R
    ).covariances[1]
    allowed = budget.shift()

    def guarantee(std):
        total = own + std**2 * np.eye(len(own))
        return plant.guarantee(secret, np.linalg.cholesky(total))

    std = 0.0
    if guarantee(0.0).gdp > allowed:
        enough = plant.sensitivity(secret) / allowed * (1 + 1e-6)
        target = allowed * (1 - 1e-9)
        std = brentq(lambda x: guarantee(x).gdp - target, 0.0, enough, rtol=1e-12)
    noise = std**2 * np.eye(len(own))
    counted = "counts the plant's own noise"
    return comparison.Entry(plant.cost(noise), std, guarantee(std), counted)


def recursion(sys_, QN, RN, samples):
    """J = O' Sigma^-1 O: J <- C'R^-1 C + A'J(I + Q J)^-1 A, once for each sample."""
    A, C = sys_.A, sys_.C
    J = np.zeros_like(A)
    for _ in range(samples):
        J = C.T @ np.linalg.solve(RN, C) + A.T @ J @ np.linalg.solve(
            np.eye(len(A)) + QN @ J, A
        )
    return J


def golden():
    """mu^2 of the vehicle's initial position, by the recursion and by all samples."""
    vehicle = pc.plants.vehicle()
    QN, RN = np.diag([1e-4, 1e-2]), np.array([[1e-2]])
    J = recursion(vehicle, QN, RN, 40)
    own = comparison.LinearLoop(vehicle, 40, QN, RN, np.zeros((2, 2))).covariances[1]
    free = stacked(vehicle, 40)[:, :2]
    dense = free.T @ np.linalg.solve(own, free)
    return [
        ("mu^2 of a position 1 m off, recursion", J[0, 0], float(dense[0, 0])),
        ("of any initial state in the unit ball", np.linalg.eigvalsh(J)[-1],
         float(np.linalg.eigvalsh(dense)[-1])),
    ]  # fmt: skip


if __name__ == "__main__":
    comparison.main(sys.modules[__name__])
