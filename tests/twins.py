"""Plants of which a loop or a weight reads a part, for tests of noise that is chosen for it."""

import math

import control as ct
import numpy as np

import privcontrol as pc
from privcontrol.loop.moments import expected_total

TIGHT = pc.PrivacyBudget(epsilon=1.0, delta=1e-5)
#: Two lags of which the loop reads the sum, and the secret is each at the start.
TWINS = ct.ss(
    0.9 * np.eye(2), [[0.5], [0.5]], np.eye(2), 0, 1.0, states=["first", "second"]
)
EACH = pc.StateAdjacency({"first": 1.0, "second": 1.0}, times=[0])
WEIGHTS = {"Q": np.ones((2, 2)), "R": 1.0, "QN": 0.01, "RN": 0.01, "P0": 4.0}
#: The sum by itself: what enters both and what disturbs them adds up.
SUM = ct.ss(0.9, 1, 1, 0, 1.0, states=["sum"])
COS, SIN = math.cos(0.9), math.sin(0.9)
#: Two states that turn, so a move at any time is one of many directions, and a lag.
TURNING = ct.ss(
    [[COS, -SIN, 0], [SIN, COS, 0], [0, 0, 0.8]],
    [[1.0], [0.5], [1.0]],
    np.eye(3),
    0,
    1.0,
    states=["east", "north", "lag"],
)
ANY_TIME = pc.StateAdjacency({"east": 1.0, "north": 1.0, "lag": 1.0})
SAMPLES = 12


def designed(family, plant=TWINS, adjacency=EACH, budget=TIGHT, **options):
    options = {"horizon": 20, "models": "exact", "max_std": np.inf, **options}
    return pc.design_output_noise(
        plant, budget=budget, adjacency=adjacency, family=family, **options
    )


def quiet_cost(noise, plant=TWINS, weights=WEIGHTS):
    """The cost with noise of a millionth, which the price leaves out."""
    quiet = pc.private_lqg(plant, noise=noise.with_std(1e-6), **weights)
    return expected_total(quiet.data)


def price_of_sum(variance):
    """The price of one number of noise of a variance in the loop of the sum alone."""
    noise = designed("gaussian", SUM, pc.StateAdjacency({"sum": 1.0}, times=[0]))
    weights = {"Q": 1.0, "R": 1.0, "QN": 0.02, "RN": 0.02, "P0": 8.0}
    loop = pc.private_lqg(SUM, noise=noise.with_std(math.sqrt(variance)), **weights)
    return expected_total(loop.data) - quiet_cost(noise, SUM, weights)


def private_loop(family, cap=10.0, noise=None, weights=WEIGHTS, plant=TWINS):
    noise = designed("gaussian") if noise is None else noise
    return pc.private_lqg(
        plant, noise=noise, codesign=True, family=family, cap=cap, **weights
    )


def moved_entries(noise, plant, samples):
    """Entries (r, M) that make up for each move, by dense least squares."""
    responses = noise.process.responses.reshape(samples * plant.noutputs, -1)
    moves = []
    for time in range(samples):
        powers = [np.linalg.matrix_power(plant.A, t - time) for t in range(samples)]
        moves.append(np.vstack([plant.C @ power for power in powers]))
    moved = np.hstack(moves)
    entries, *_ = np.linalg.lstsq(responses, moved, rcond=None)
    np.testing.assert_allclose(responses @ entries, moved, atol=1e-7 * moved.max())
    return entries
