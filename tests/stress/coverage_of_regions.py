"""How often confidence regions of identified plants hold the true plant.

    python tests/stress/coverage_of_regions.py [fits]

For each way of recording: the share of 10,000 fits in which the ellipsoids of all rows, and
the box, hold the truth. Fits that are refused, since the inputs excite too little, count as
held, because no claim is made for them.
"""

import sys
from collections.abc import Callable
from functools import partial

import control as ct
import numpy as np

import privcontrol as pc

LEVELS = (0.90, 0.95, 0.99)
A = np.array([[0.9, 0.2], [-0.1, 0.8]])
B = np.array([[0.5], [1.0]])
NOISE = np.array([[0.2, 0.0], [0.05, 0.3]])  # a root of the covariance of w
TRUTH = ct.ss(A, B, np.eye(2), 0, 1.0)
ARX = ((1.5, -0.6), (1.0, 0.4), 0.3)
ARX_TRUTH = ct.ss([[1.5, 1.0], [-0.6, 0.0]], [[1.0], [0.4]], [[1.0, 0.0]], 0, 1.0)


def run(rng: np.random.Generator, samples: int, gain: np.ndarray) -> tuple:
    """States and inputs of one run, u = -gain x + a signal of unit size."""
    x = np.zeros((2, samples))
    u = rng.normal(size=(1, samples))
    w = NOISE @ rng.normal(size=(2, samples))
    for t in range(samples - 1):
        u[:, t] -= gain @ x[:, t]
        x[:, t + 1] = A @ x[:, t] + B @ u[:, t] + w[:, t]
    return x, u


def independent(rng: np.random.Generator) -> Callable:
    """Sixty runs of one step each, from states that were set."""
    before = rng.normal(size=(60, 2, 1))
    u = rng.normal(size=(60, 1, 2))
    after = A @ before + B @ u[:, :, :1] + NOISE @ rng.normal(size=(60, 2, 1))
    states = np.concatenate([before, after], axis=2)
    return partial(pc.identify_states, TRUTH, list(states), list(u), data="independent")


def open_loop(rng: np.random.Generator) -> Callable:
    """One run of 300 samples with inputs that are independent of the noise."""
    x, u = run(rng, 300, np.zeros((1, 2)))
    return partial(pc.identify_states, TRUTH, x, u, data="open-loop")


def feedback(rng: np.random.Generator) -> Callable:
    """One run of 200 samples in closed loop."""
    x, u = run(rng, 200, np.array([[0.3, 0.4]]))
    return partial(pc.identify_states, TRUTH, x, u)


def outputs(rng: np.random.Generator) -> Callable:
    """One run of 400 samples of an ARX plant of order two, in open loop."""
    own, driven, std = ARX
    y = np.zeros(400)
    u = rng.normal(size=400)
    e = std * rng.normal(size=400)
    for t in range(2, 400):
        y[t] = own[0] * y[t - 1] + own[1] * y[t - 2]
        y[t] += driven[0] * u[t - 1] + driven[1] * u[t - 2] + e[t]
    return partial(
        pc.identify_outputs, y[None, :], u[None, :], order=2, dt=1.0, data="open-loop"
    )


CASES = (
    (independent, TRUTH),
    (open_loop, TRUTH),
    (outputs, ARX_TRUTH),
    (feedback, TRUTH),
)


def coverage(case: Callable, truth: ct.StateSpace, fits: int, seed: int = 1) -> dict:
    """By level: fits whose ellipsoids and whose box hold the truth, and refused ones."""
    rng = np.random.default_rng(seed)
    counts = {level: np.zeros(3, dtype=int) for level in LEVELS}
    for _ in range(fits):
        identify = case(rng)
        for level in LEVELS:
            try:
                found = identify(confidence=level)
            except ValueError:
                counts[level] += 1
                continue
            counts[level] += (found.contains(truth), found.box_contains(truth), False)
    return counts


def main(fits: int = 10_000) -> None:
    """Print a table."""
    print(f"{fits} fits; one standard deviation at 90, 95, 99 %:", end=" ")
    print(", ".join(f"{100 * (q * (1 - q) / fits) ** 0.5:.2f} %" for q in LEVELS))
    for case, truth in CASES:
        for level, counts in coverage(case, truth, fits).items():
            region, box, _ = counts / fits
            print(
                f"{case.__name__:12} {level:.0%}: ellipsoids {region:.2%}, box {box:.2%}, "
                f"{counts[2]} refused",
                flush=True,
            )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
