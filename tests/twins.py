"""Two lags of which a loop reads the sum, for tests of noise that is chosen for it."""

import math

import control as ct
import numpy as np

import privcontrol as pc
from privcontrol.loop.optimum import expected_total

TIGHT = pc.PrivacyBudget(epsilon=1.0, delta=1e-5)
#: Two lags of which the loop reads the sum, and the secret is each at the start.
TWINS = ct.ss(
    0.9 * np.eye(2), [[0.5], [0.5]], np.eye(2), 0, 1.0, states=["first", "second"]
)
EACH = pc.StateAdjacency({"first": 1.0, "second": 1.0}, times=[0])
WEIGHTS = {"Q": np.ones((2, 2)), "R": 1.0, "QN": 0.01, "RN": 0.01, "P0": 4.0}
#: The sum by itself: what enters both and what disturbs them adds up.
SUM = ct.ss(0.9, 1, 1, 0, 1.0, states=["sum"])


def designed(family, plant=TWINS, adjacency=EACH, budget=TIGHT, **options):
    options = {"horizon": 20, "models": "exact", "max_std": np.inf, **options}
    return pc.design_output_noise(
        plant, budget=budget, adjacency=adjacency, family=family, **options
    )


def quiet_cost(noise, plant=TWINS, weights=WEIGHTS):
    """The cost with noise of a millionth, which the price leaves out."""
    return expected_total(pc.private_lqg(plant, noise=noise.with_std(1e-6), **weights))


def price_of_sum(variance):
    """The price of one number of noise of a variance in the loop of the sum alone."""
    noise = designed("gaussian", SUM, pc.StateAdjacency({"sum": 1.0}, times=[0]))
    weights = {"Q": 1.0, "R": 1.0, "QN": 0.02, "RN": 0.02, "P0": 8.0}
    loop = pc.private_lqg(SUM, noise=noise.with_std(math.sqrt(variance)), **weights)
    return expected_total(loop) - quiet_cost(noise, SUM, weights)


def private_loop(family, cap=10.0, noise=None, weights=WEIGHTS, plant=TWINS):
    noise = designed("gaussian") if noise is None else noise
    return pc.private_lqg(
        plant, noise=noise, codesign=True, family=family, cap=cap, **weights
    )
