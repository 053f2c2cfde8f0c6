"""How often the boxes of identified plants hold the true plant.

    python tests/stress/coverage_of_regions.py [fits] [case ...]

For each way of recording: the share of fits whose box holds the truth.
"""

import sys
from collections.abc import Callable, Sequence
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


def open_loop(rng: np.random.Generator, samples: int = 300) -> Callable:
    """One run with inputs that are independent of the noise."""
    x, u = run(rng, samples, np.zeros((1, 2)))
    return partial(pc.identify_states, TRUTH, x, u, data="open-loop")


def feedback(rng: np.random.Generator, samples: int = 300) -> Callable:
    """One run in closed loop."""
    x, u = run(rng, samples, np.array([[0.3, 0.4]]))
    return partial(pc.identify_states, TRUTH, x, u)


def outputs(rng: np.random.Generator, samples: int = 400) -> Callable:
    """One run of an ARX plant of order two, in open loop."""
    own, driven, std = ARX
    y = np.zeros(samples)
    u = rng.normal(size=samples)
    e = std * rng.normal(size=samples)
    for t in range(2, samples):
        y[t] = own[0] * y[t - 1] + own[1] * y[t - 2]
        y[t] += driven[0] * u[t - 1] + driven[1] * u[t - 2] + e[t]
    return partial(
        pc.identify_outputs, y[None, :], u[None, :], order=2, dt=1.0, data="open-loop"
    )


LONG = 3000
CASES = {
    "independent": (independent, TRUTH),
    "open-loop": (open_loop, TRUTH),
    "feedback": (feedback, TRUTH),
    "outputs": (outputs, ARX_TRUTH),
    "long-open-loop": (partial(open_loop, samples=LONG), TRUTH),
    "long-feedback": (partial(feedback, samples=LONG), TRUTH),
    "long-outputs": (partial(outputs, samples=LONG), ARX_TRUTH),
}


def coverage(case: Callable, truth: ct.StateSpace, fits: int, seed: int = 1) -> dict:
    """Fits whose box holds the truth, by level."""
    rng = np.random.default_rng(seed)
    counts = dict.fromkeys(LEVELS, 0)
    for _ in range(fits):
        identify = case(rng)
        for level in LEVELS:
            counts[level] += identify(confidence=level).contains(truth)
    return counts


def main(fits: int = 10_000, names: Sequence[str] = tuple(CASES)) -> None:
    """Print a table."""
    print(f"{fits} fits; one standard deviation at 90, 95, 99 %:", end=" ")
    print(", ".join(f"{100 * (q * (1 - q) / fits) ** 0.5:.2f} %" for q in LEVELS))
    for name in names:
        counts = coverage(*CASES[name], fits)
        shares = (f"{level:.0%}: {count / fits:.2%}" for level, count in counts.items())
        print(f"{name:15} {', '.join(shares)}", flush=True)


if __name__ == "__main__":
    given = sys.argv[1:]
    main(int(given[0]) if given else 10_000, given[1:] or tuple(CASES))
