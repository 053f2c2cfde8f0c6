"""Estimate the mean-square error of private consensus, and weigh it against privacy.

With y(t) = (I - L)^t (x(0) + gamma) and x(t) = y(t) - gamma both readouts are sums over
the modes of I - L. Where these cannot be computed, random probes estimate the trace
that the noise contributes. The optimal noise is weighed by the limit of the total error
over all nodes, with independent noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

from ..core._linalg import (
    Seed,
    generator,
    one_of,
    positive_integer,
    positive_number,
    real_array,
    round_up,
)
from ..core.budget import PrivacyBudget, checked_budget
from ..core.loss import checked_delta
from ..core.noise import family_of
from .noise import READOUTS, AgentNoise
from .simulation import propagate, trial_block

#: Share of the error probability that goes to a bound of the rate, and its products.
_RATE_SHARE = 0.1
_RATE_PRODUCTS = 60

#: Steps beyond this are no simulation of averaging, but a slip.
MOST_STEPS = 10**7

#: Whose loss is to be least: the worst node's, or that of all nodes together.
OBJECTIVES = ("worst", "total")


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
    """`PrivateConsensus.mean_square_error` for networks of any size, with a random trace for the noise.

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
        exact += entries * noise.limit_error("message")
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


# -- accuracy against privacy ------------------------------------------------------------


def _error_per_variance(nodes: int, readout: str) -> float:
    """Limit of the total error over the sum of all nodes' noise variances."""
    one_of(readout, "readout", READOUTS)
    if positive_integer(nodes, "nodes") < 2:
        raise ValueError(f"nodes: expected at least two, got {nodes}")
    if readout == "message":
        return 1 / nodes
    return 1 - 1 / nodes


def optimal_consensus_epsilon(
    mse: float,
    nodes: int,
    radius: float,
    *,
    delta: float = 0.0,
    family: str = "gaussian",
    readout: str = "message",
) -> float:
    """Return the least epsilon with which private consensus reaches an accuracy.

    With equal noise sigma the total error in the limit is v sigma^2 (message readout)
    or v (n-1) sigma^2 (state readout), v = 1 (Gaussian) or 2 (Laplace). The privacy
    shift, epsilon of Laplace noise, is mu / sigma.

    Parameters
    ----------
    mse : float
        Accepted mean-square error, total over the nodes, in squared units of the
        initial values.
    nodes : int
        n, at least 2.
    radius : float
        mu: how far one node's initial value may move.
    delta : float, optional
        In [0, 1); Gaussian noise needs delta > 0.
    family : {"gaussian", "laplace"}, optional
    readout : {"message", "state"}, optional
        What each agent uses: its message, or its state, which is n - 1 times less
        accurate.

    Returns
    -------
    float
        Rounded up (DPAM section 6.2, whose epsilon_op has n for the n - 1 of the state
        readout).

    Examples
    --------
    >>> round(optimal_consensus_epsilon(2.0, 10, 1.0, family="laplace"), 12)
    1.0
    >>> round(optimal_consensus_epsilon(3.5263, 10, 1.0, delta=1e-2), 3)
    1.0
    """
    mse = positive_number(mse, "mse")
    radius = positive_number(radius, "radius")
    per_variance = _error_per_variance(nodes, readout)
    law = family_of(family)
    delta = checked_delta(delta)
    if law.needs_delta and delta == 0:
        raise ValueError(
            "delta: Gaussian noise needs delta > 0, got 0; pass delta=..., or "
            "family='laplace'"
        )
    variance = mse / (nodes * per_variance)
    shift = radius / math.sqrt(variance / law.unit_variance)
    if not math.isfinite(shift):
        raise ValueError(
            "radius: expected one that floats can compare with the error, got one more "
            "than 1e308 times as large"
        )
    return law.loss_of_size(float(round_up(shift, 4))).epsilon(delta)


def optimal_consensus_error(
    budget: PrivacyBudget,
    nodes: int,
    radius: float,
    *,
    family: str = "gaussian",
    readout: str = "message",
) -> float:
    """Return the least total mean-square error in the limit that a budget allows.

    It is the inverse of `optimal_consensus_epsilon`.

    Parameters
    ----------
    budget : PrivacyBudget
        Laplace noise meets (epsilon, 0) and makes no use of a delta.
    nodes, radius, family, readout
        As for `optimal_consensus_epsilon`.

    Examples
    --------
    >>> from privcontrol.core import PrivacyBudget
    >>> budget = PrivacyBudget(epsilon=1.0, delta=1e-2)
    >>> round(optimal_consensus_error(budget, 10, 1.0), 4)
    3.5264
    """
    checked_budget(budget)
    per_variance = _error_per_variance(nodes, readout)
    radius = positive_number(radius, "radius")
    law = family_of(family)
    scale = float(round_up(radius / law.allowed_shift(budget)))
    return float(per_variance * law.unit_variance * nodes * scale * scale)


def optimal_consensus_scales(
    mse: float,
    radii: ArrayLike,
    *,
    objective: str = "worst",
    family: str = "gaussian",
    readout: str = "message",
) -> NDArray:
    """Return noise scales of unequal nodes that reach an accuracy at the least loss.

    That is the worst node's shift max mu_i / sigma_i, or the loss of all nodes moving
    together: sum (mu_i / sigma_i)^2 (Gaussian, twice the zCDP parameter) or sum
    mu_i / sigma_i (Laplace, epsilon). By the stationarity of the Lagrangian sigma_i is
    in proportion to mu_i^p with p = 1 (worst), 1/2 (Gaussian total), 1/3 (Laplace
    total).

    Parameters
    ----------
    mse : float
        Total mean-square error in the limit, in squared units of the initial values.
    radii : array_like, shape (n,)
        mu_i: how far each node's initial value may move.
    objective : {"worst", "total"}, optional
    family, readout
        As for `optimal_consensus_epsilon`.

    Returns
    -------
    ndarray, shape (n,)
        For ``PrivateConsensus(network, scales, adjacency, family=family)``.

    Examples
    --------
    >>> optimal_consensus_scales(10.0, [1.0, 1.0, 4.0], objective="worst").round(3)
    array([1.291, 1.291, 5.164])
    >>> optimal_consensus_scales(10.0, [1.0, 1.0, 4.0], objective="total").round(3)
    array([2.236, 2.236, 4.472])
    """
    mse = positive_number(mse, "mse")
    moves = real_array(radii, "radii", ndim=1)
    n = len(moves)
    law = family_of(family)
    factor = law.unit_variance * _error_per_variance(n, readout)
    if not (moves > 0).all():
        raise ValueError(
            f"radii: expected {n} positive numbers, got {int((moves <= 0).sum())} that "
            "are not"
        )
    power = 1.0
    if one_of(objective, "objective", OBJECTIVES) == "total":
        power = law.shift_norm / (law.shift_norm + 2)
    scales = (moves / moves.max()) ** power
    return scales * math.sqrt(mse / factor / float(scales @ scales))
