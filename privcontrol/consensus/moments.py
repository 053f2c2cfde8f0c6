"""Mean-square error of private consensus: exact by modes, and for large networks an estimate with a proven interval.

With y(t) = (I - L)^t (x(0) + gamma) and x(t) = y(t) - gamma both readouts are sums over the modes of I - L. Where
these cannot be computed, random probes estimate the trace that the noise contributes.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from .._trials import run_trials
from ..core._linalg import one_of, positive_integer, positive_number
from ..core.noise import generator
from ._propagation import READOUTS, Propagation, available_cores, row_parts, trial_block

#: Share of the error probability, and number of products, spent on a bound of the rate for the message readout.
_RATE_SHARE, _RATE_PRODUCTS = 0.1, 60


@dataclass(frozen=True, eq=False)
class MeanSquareErrorEstimate:
    """A mean-square error that was estimated by random probes, with an interval proven for every number of probes.

    Attributes
    ----------
    value, lower, upper : ndarray, shape (steps + 1,)
        At each step separately, the interval holds the exact value with probability at least `confidence`.
    confidence : float
    probes : int

    Examples
    --------
    >>> import numpy as np, privcontrol as pc
    >>> agents = pc.private_consensus(pc.plants.ten_agent_graph(), pc.PrivacyBudget(epsilon=1, delta=1e-2), 1.0)
    >>> estimate = agents.estimate_mean_square_error(pc.plants.ten_agent_values(), 20, rng=0)
    >>> exact = agents.mean_square_error(pc.plants.ten_agent_values(), 20)
    >>> bool((estimate.lower <= exact).all() and (exact <= estimate.upper).all())
    True
    """

    value: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    confidence: float
    probes: int


def exact_error(network, noise_variance, deviation, steps, readout):
    """E sum_i (readout_i(t) - mean(x(0)))^2 for t = 0 .. steps, from the spectrum of I - L.

    Parameters
    ----------
    network : Network
    noise_variance : ndarray, shape (n,)
        Variance of each node's noise: sigma^2 (Gaussian), 2 sigma^2 (Laplace).
    deviation : ndarray, shape (n,)
        x(0) - mean(x(0)).
    steps : int
    readout : {"message", "state"}
    """
    one_of(readout, "readout", READOUTS)
    values, vectors = network.spectrum
    initial = (vectors.T @ deviation) ** 2
    initial[-1] = 0.0  # the deviation has no average
    gains = noise_variance @ vectors**2
    error = np.empty(steps + 1)
    for t in range(steps + 1):
        power = values**t
        noise = power if readout == "message" else 1 - power
        error[t] = initial @ power**2 + gains @ noise**2
    return error


def limit_error(noise_variance, readout):
    """The limit of `exact_error` for many steps: sum / n (message), (1 - 1/n) sum (state).

    DPAM Proposition 1 (iii) bounds the second by the sum.
    """
    n = len(noise_variance)
    share = 1 / n if one_of(readout, "readout", READOUTS) == "message" else 1 - 1 / n
    return float(share * noise_variance.sum())


def estimated_error(
    network,
    noise_variance,
    deviation,
    steps,
    readout,
    *,
    probes=50,
    confidence=0.99,
    rng=None,
):
    """`exact_error` for networks of any size: exact in x(0), with a stochastic trace for the noise.

    A Gaussian probe g contributes ||(I - L)^t D g||^2, D^2 the noise's variances, whose mean over probes estimates the
    trace; the consensus mode, which would dominate its variance, is split off and added exactly. The interval inverts
    Chernoff's bound: a mean q over m probes of trace T and largest eigenvalue at most a has
    P(q >= r T) and P(q <= r T) below exp(-m k (r - 1 - log r) / 2), k = max(1, T/a), on its side of r = 1. For the
    message readout a falls with the steps, by a bound on the rate that uses up a tenth of the error probability.

    Parameters
    ----------
    network, noise_variance, deviation, steps, readout
        As in `exact_error`.
    probes : int, optional
        m. Each costs as much as a trial.
    confidence : float, optional
        Probability, in (0, 1), with which the interval at one step holds the exact value.
    rng : None, int, SeedSequence or Generator, optional

    Returns
    -------
    MeanSquareErrorEstimate

    References
    ----------
    Girard (1989), Numerische Mathematik 56, and Hutchinson (1990) for the estimator.
    """
    one_of(readout, "readout", READOUTS)
    probes = positive_integer(probes, "probes")
    if not positive_number(confidence, "confidence") < 1:
        raise ValueError(
            f"confidence: expected a probability in (0, 1), got {confidence}"
        )
    rng, scales = generator(rng), np.sqrt(noise_variance)
    options = {"last": False, "centred": True, "threads": available_cores()}
    block = trial_block(len(scales))
    parts = row_parts(network.iteration, block)
    task = Propagation(
        parts, np.zeros(len(scales)), 0.0, scales, "gaussian", steps, **options
    )
    q = run_trials(task, probes, rng=rng, block=block)[readout].mean(axis=0)
    largest = noise_variance.max() * _gain_bound(
        network.iteration, steps, readout, _RATE_SHARE * (1 - confidence), rng
    )
    log_odds = math.log(2 / (1 - _RATE_SHARE) / (1 - confidence))
    lower, upper = (
        _trace_bound(q, largest, probes, log_odds, side) for side in (-1, 1)
    )
    exact = _initial_error(network.iteration, deviation, steps)
    if readout == "message":
        exact = exact + noise_variance.mean()
    return MeanSquareErrorEstimate(
        exact + q, exact + lower, exact + upper, confidence, probes
    )


def _initial_error(iteration, deviation, steps):
    """||(I - L)^t (x(0) - mean)||^2 for t = 0 .. steps."""
    error = np.empty(steps + 1)
    for t in range(steps + 1):
        deviation = iteration @ deviation if t else deviation
        error[t] = deviation @ deviation
    return error


def _gain_bound(iteration, steps, readout, failure, rng):
    """Largest eigenvalue of (I - L)^2t without the consensus mode, or of (I - (I - L)^t)^2, bounded from above.

    The first holds with probability 1 - failure, the second surely, by Gershgorin's circles.
    """
    if readout == "message":
        decay = _rate_bound(iteration, failure, rng) ** (2 * np.arange(steps + 1))
        return np.maximum(decay, 1e-300)  # below round-off, but not zero
    smallest = max(-1.0, float((2 * iteration.diagonal() - 1).min()))
    return (1 + max(0.0, -smallest) ** np.arange(steps + 1)) ** 2


def _rate_bound(iteration, failure, rng):
    """A number that exceeds the rate alpha with probability 1 - failure.

    Of m Gaussian vectors the slowest mode keeps alpha^2q chi2_m of the energy after q products, and all of them
    together keep no less.
    """
    n = iteration.shape[0]
    block = trial_block(n)
    vectors = rng.standard_normal((n, block))
    vectors -= vectors.mean(axis=0)
    for _ in range(_RATE_PRODUCTS):
        vectors = iteration @ vectors
    energy = float(np.sum(vectors**2))
    return min(
        1.0, max(0.1, (energy / chi2.ppf(failure, block)) ** (0.5 / _RATE_PRODUCTS))
    )


def _trace_bound(q, largest, probes, log_odds, side):
    """The end of the confidence interval below (side = -1) or above (side = 1) the estimate q, by bisection."""
    inner, outer = q.copy(), np.zeros_like(q) if side < 0 else q.copy()
    positive = np.maximum(q, np.finfo(float).tiny)

    def excluded(trace):
        ratio = positive / np.maximum(trace, np.finfo(float).tiny)
        evidence = (
            probes / 2 * np.maximum(1, trace / largest) * (ratio - 1 - np.log(ratio))
        )
        return evidence > log_odds

    while side > 0 and not (done := excluded(outer) | (q == 0)).all():
        outer = np.where(done, outer, 2 * outer)
    for _ in range(64):
        middle = 0.5 * (inner + outer)
        out = excluded(middle)
        inner, outer = np.where(out, inner, middle), np.where(out, middle, outer)
    return outer
