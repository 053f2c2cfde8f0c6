"""Liu, Kawano, Cao 2024, stochastic quantiser.

A reading between two multiples of a step d is published as one of them, the nearer one
more often, so that its mean is the reading: rounding is the noise. What two runs publish
differs with probability at most the sum of their distances over d, (0, delta).
"""

import sys

import comparison
import numpy as np
import scipy.stats

import privcontrol as pc

SOURCE = """arXiv 2403.03048
adjacency: initial states whose outputs stay within a distance; adversary: all readings"""


def total_variation(first, second, step):
    """Total variation of the rounded readings of two values."""
    grid = np.arange(np.floor(min(first, second) / step) - 1, np.ceil(max(first, second) / step) + 2)  # fmt: skip
    weights = [np.maximum(1 - np.abs(x / step - grid), 0) for x in (first, second)]
    return np.abs(np.subtract(*weights)).sum() / 2


def step_for(response, delta):
    """The step d with sum |s_t| / d = delta: at most the total variation of a run."""
    return np.abs(response).sum() / delta


def design(plant, secret, budget):
    """The largest response decides the step; its error is at most d^2 / 4 a reading."""
    if budget.delta == 0 or not isinstance(secret, pc.StateAdjacency):
        raise ValueError("expected moves of a state and a budget with delta > 0")
    query = pc.output_query(plant.sys, plant.horizon)
    largest = query.sensitivity(secret, 1)
    step = largest / budget.delta
    noise = step**2 / 4 * np.eye(query.size)
    promise = pc.PrivacyGuarantee.black_box(
        pc.PrivacyBudget(epsilon=0.0, delta=budget.delta), secret
    )
    instead = f"(0, {budget.delta:g}), steps of {step:.3g}"
    return comparison.Entry(plant.cost(noise), step / 2, promise, instead)


def golden():
    """One reading, the worst place of it; then 60 readings of a constant shift of one."""
    places = np.linspace(0, 1, 201)
    worst = max(total_variation(x, x + 0.3, 1.0) for x in places)
    shifted = np.ones(60)
    mine = step_for(shifted, 0.2)
    one_draw = 1 / (
        2 * scipy.stats.norm.ppf(0.6)
    )  # Gaussian, (0, 0.2), kept for the run
    return [
        ("total variation of a shift by 0.3 steps, worst place", worst, "0.3000"),
        ("largest std of the quantiser, (0, 0.2) over 60 readings", mine / 2, "150.0"),
        ("its mean over places, d / sqrt 6", mine / np.sqrt(6), "122.5"),
        ("std of independent Gaussian noise, (0, 0.2)", np.sqrt(60) * one_draw, "15.3"),
        ("std of one draw for the run, (0, 0.2)", one_draw, "1.97"),
    ]  # fmt: skip


if __name__ == "__main__":
    comparison.main(sys.modules[__name__])
