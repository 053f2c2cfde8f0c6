"""Evaluate the mean-square error of private consensus, exactly or with an interval.

With y(t) = (I - L)^t (x(0) + gamma) and x(t) = y(t) - gamma both readouts are sums over
the modes of I - L. Where these cannot be computed, random probes estimate the trace
that the noise contributes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

from ..core._linalg import one_of, positive_integer, positive_number
from ..core._random import Seed, generator
from .noise import AgentNoise
from .simulation import READOUTS, propagate, trial_block

#: Share of the error probability that goes to a bound of the rate, and its products.
_RATE_SHARE = 0.1
_RATE_PRODUCTS = 60

#: Steps beyond this are no simulation of averaging, but a slip.
MOST_STEPS = 10**7


@dataclass(frozen=True, eq=False)
class MeanSquareErrorEstimate:
    """Hold a mean-square error that was estimated by random probes.

    Its interval is proven for every number of probes.

    Attributes
    ----------
    value, lower, upper : ndarray, shape (steps + 1,)
        At each step separately, the interval holds the exact value with probability at
        least `confidence`.
    confidence : float
    probes : int

    Examples
    --------
    >>> import numpy as np
    >>> ends = np.array([1.0, 2.0])
    >>> MeanSquareErrorEstimate(1.1 * ends, ends, 1.2 * ends, 0.99, 50).probes
    50
    """

    value: NDArray
    lower: NDArray
    upper: NDArray
    confidence: float
    probes: int


def step_count(steps: int) -> int:
    """A number of averaging steps of at least one."""
    if positive_integer(steps, "steps") > MOST_STEPS:
        raise ValueError(f"steps: expected at most {MOST_STEPS}, got {steps}")
    return int(steps)


def deviation_from_mean(x: NDArray) -> tuple[NDArray, NDArray]:
    """x - mean(x) over the nodes, (n, d), and mean(x), (d,), correctly rounded."""
    columns = x.reshape(len(x), -1)
    average = np.array([math.fsum(column) / len(x) for column in columns.T])
    return columns - average, average


def exact_error(
    noise: AgentNoise, deviation: NDArray, steps: int, readout: str
) -> NDArray:
    """E sum_i |readout_i(t) - mean(x(0))|^2, t = 0 .. steps, by the spectrum of I - L.

    The deviation (n, d) is x(0) - mean(x(0)).
    """
    one_of(readout, "readout", READOUTS)
    values, vectors = noise.network.spectrum
    initial = np.sum((vectors.T @ deviation) ** 2, axis=1)
    initial[-1] = 0.0  # the deviation has no average
    variance = deviation.shape[1] * noise.modal_variance(vectors)
    error = np.empty(steps + 1)
    for t in range(steps + 1):
        power = values**t
        gain = power if readout == "message" else 1 - power
        error[t] = initial @ power**2 + variance @ gain**2
    return error


def limit_error(noise: AgentNoise, readout: str) -> float:
    """The limit of `exact_error` for many steps.

    The messages keep the variance of the noise's average, on every node. The states
    keep the rest of the noise. What neighbours share is no part of the average.
    """
    one_of(readout, "readout", READOUTS)
    average = float(noise.own_variance.sum()) / len(noise.scales)
    if readout == "message":
        return average
    return float(noise.variance.sum()) - average


def estimated_error(
    noise: AgentNoise,
    deviation: NDArray,
    steps: int,
    readout: str,
    *,
    probes: int,
    confidence: float,
    rng: Seed,
) -> MeanSquareErrorEstimate:
    """`exact_error` for networks of any size, with a random trace for the noise.

    A probe contributes ||(I - L)^t g||^2, with g drawn like Gaussian noise, and the
    mean over probes estimates the trace (Girard 1989; Hutchinson 1990). The consensus
    mode, which would dominate its variance, is split off and added exactly.
    """
    one_of(readout, "readout", READOUTS)
    probes = positive_integer(probes, "probes")
    if not positive_number(confidence, "confidence") < 1:
        raise ValueError(
            f"confidence: expected a probability in (0, 1), got {confidence}"
        )
    draws = generator(rng)
    iteration = noise.network.iteration
    probed = propagate(
        noise.as_gaussian(),
        np.zeros((len(deviation), 1)),
        np.zeros(1),
        steps,
        probes,
        rng=draws,
        errors_only=True,
    )
    mean = probed[readout].mean(axis=0)
    failure = 1 - confidence
    gain = _gain_bound(iteration, steps, readout, _RATE_SHARE * failure, draws)
    largest = noise.spread * gain
    log_odds = math.log(2 / (1 - _RATE_SHARE) / failure)
    lower, upper = trace_interval(mean, largest, probes, log_odds)
    exact = np.empty(steps + 1)
    for t in range(steps + 1):
        exact[t] = np.sum(deviation**2)
        deviation = iteration @ deviation
    entries = deviation.shape[1]  # with noise of the same law
    if readout == "message":
        exact += entries * limit_error(noise, "message")
    value, low, high = (exact + entries * trace for trace in (mean, lower, upper))
    return MeanSquareErrorEstimate(value, low, high, confidence, probes)


def _gain_bound(
    iteration: sparse.csr_array,
    steps: int,
    readout: str,
    failure: float,
    rng: np.random.Generator,
) -> NDArray:
    """An upper bound (steps + 1,) of the largest gain of the noise's energy in a mode.

    For messages, whose gain is that of (I - L)^2t without the consensus mode, it holds
    with probability 1 - failure. For states it holds surely, by Gershgorin's circles.
    """
    times = np.arange(steps + 1)
    if readout == "message":
        rate = _rate_bound(iteration, failure, rng)
        return np.maximum(rate ** (2 * times), 1e-300)  # below round-off, but not zero
    circles = 2 * iteration.diagonal() - 1
    most_negative = max(-1.0, float(circles.min()))
    overshoot = max(0.0, -most_negative)
    return (1 + overshoot**times) ** 2


def _rate_bound(
    iteration: sparse.csr_array, failure: float, rng: np.random.Generator
) -> float:
    """A number that exceeds the rate alpha with probability 1 - failure.

    Of m Gaussian vectors the slowest mode keeps alpha^2q chi2_m of the energy after q
    products, and all of them together keep no less.
    """
    n = iteration.shape[0]
    block = trial_block(n)
    vectors = rng.standard_normal((n, block))
    vectors -= vectors.mean(axis=0)
    for _ in range(_RATE_PRODUCTS):
        vectors = iteration @ vectors
    energy = float(np.sum(vectors**2))
    rate = (energy / chi2.ppf(failure, block)) ** (0.5 / _RATE_PRODUCTS)
    return min(1.0, max(0.1, rate))


def trace_interval(
    mean: NDArray, largest: ArrayLike, probes: int, log_odds: float
) -> tuple[NDArray, NDArray]:
    """Ends of the interval of traces that do not exclude a mean over so many probes.

    By Chernoff's bound a mean r T of trace T, with eigenvalues of at most a, has a
    probability of at most exp(-m k (r - 1 - log r) / 2) for m probes and k = max(1, T /
    a), on its side of r = 1.
    """
    tiny = np.finfo(float).tiny
    surplus = 2 * log_odds / probes

    def is_excluded(trace: NDArray) -> NDArray:
        ratio = np.maximum(mean, tiny) / np.maximum(trace, tiny)
        counted = np.maximum(1, trace / largest)
        return counted * (ratio - 1 - np.log(ratio)) > surplus

    def end(outer: NDArray) -> NDArray:
        """Excluded end of an interval from the mean to where exclusion is certain."""
        inner = mean
        for _ in range(64):
            middle = 0.5 * (inner + outer)
            out = is_excluded(middle)
            inner = np.where(out, inner, middle)
            outer = np.where(out, middle, outer)
        return outer

    return end(np.zeros_like(mean)), end(mean * math.exp(1 + surplus))
