"""Radial noise: densities exp(-|eta|) in r dimensions, whole or cut off at a radius.

Two of these laws, one moved by s, are compared in coordinates whose foci are their
centres: u = |eta - s e| + |eta| and v = |eta - s e| - |eta|, the privacy loss. There the
law of the loss factors. With h = v / s its density is proportional to

    exp(v/2) [(1 - h^2)^((r-3)/2) M_(r/2) + (1 - h^2)^((r-1)/2) M_(r/2-1)],

where M_k is the integral of exp(-s x/2) (x^2 - 1)^(k-1/2) over x > 1, a Bessel function,
and over 1 < x < (2 R - s |h|)/s inside the radius R of both laws. So delta is one integral
of a smooth positive function over an angle, and the Renyi divergences have closed forms.

The worst move of a ball is on its boundary, because the density is radial and falls
outwards. The numbers are rounded up by far more than the quadrature errs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaln, gammainc, gammaln, ive, kve

from ..numerics.checks import positive_integer, positive_number
from ..numerics.linalg import EPS, smallest
from ..numerics.thresholds import CACHED, FINE, ROUNDED, SMALLEST
from .budget import LARGEST_EPSILON

#: Nodes of a quadrature.
_NODES = 128
#: Sizes and dimensions between which the quadratures are that precise. Elsewhere one
#: Laplace number bounds the loss.
SMALLEST_SIZE = 1e-6
_LARGEST_SIZE = 600.0
_MOST_DIMENSIONS = 256


@cache
def rule() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights of Gauss and Legendre on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return (nodes + 1) / 2, weights / 2


def is_resolved(size: float, dimension: int) -> bool:
    """Return whether the law of the loss is known more sharply than by one number's."""
    in_range = SMALLEST_SIZE <= size <= _LARGEST_SIZE
    return 1 < dimension <= _MOST_DIMENSIONS and in_range


# -- the law without a radius -----------------------------------------------------------


@lru_cache(maxsize=4096)
def _weights(size: float, dimension: int) -> tuple[float, float]:
    """Return the factors of (1 - h^2)^((r-3)/2) and (1 - h^2)^((r-1)/2), times exp(s/2).

    The density of h = v / s is exp((v - s)/2) times their sum.
    """
    half = size / 2
    # area of the sphere S^(r-2) over that of S^(r-1) is 1 / B(1/2, (r-1)/2)
    constant = dimension * math.log(half) - gammaln(dimension)
    constant -= betaln(0.5, (dimension - 1) / 2)
    factors = []
    for order in (dimension / 2, dimension / 2 - 1):
        log_moment = gammaln(order + 0.5) - math.log(math.pi) / 2
        log_moment += order * math.log(2 / half) + _log_bessel(order, half)
        factors.append(math.exp(constant + log_moment))
    return factors[0], factors[1]


def _log_bessel(order: float, x: float) -> float:
    """Return the logarithm of exp(x) K_order(x), of values beyond the doubles too.

    Those have orders far above x, where the series at zero loses no digits
    (DLMF 10.31.1): its terms fall by x^2 / 4 / k / (order - k), until they are less than
    rounding.
    """
    value = float(kve(order, x))
    if value < math.inf:
        return math.log(value)
    total = term = 1.0
    k = 0
    while abs(term) > EPS * total:
        k += 1
        term *= -(x**2) / (4 * k * (order - k))
        total += term
    power = order * math.log(2 / x)
    return float(x + gammaln(order) - math.log(2) + power + math.log(total))


def ball_delta(levels: ArrayLike, size: float, dimension: int) -> NDArray[np.float64]:
    """Return delta at levels of the loss of moves by ``size``, rounded up.

    For what `is_resolved`; 0 where the loss does not reach the level.
    """
    wide, narrow = _weights(size, dimension)

    def density(angles: NDArray[np.float64]) -> NDArray[np.float64]:
        sines = np.sin(angles)
        return wide * sines ** (dimension - 2) + narrow * sines**dimension

    return np.minimum(_expected_excess(levels, size, density) * (1 + ROUNDED), 1.0)


def _expected_excess(
    levels: ArrayLike,
    size: float,
    density: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Integrate 1 - exp(level - v) over the losses v = s cos(angle) above levels.

    ``density`` is that of the angle, over exp((v - s)/2).
    """
    every = np.atleast_1d(np.asarray(levels, float))
    nodes, weights = rule()
    found = []
    count = CACHED // len(nodes)
    for begin in range(0, len(every), count):
        chosen = np.minimum(every[begin : begin + count], size)
        ends = np.arccos(chosen / size)[:, None]
        angles = ends * nodes
        masses = density(angles) * np.exp(-size * np.sin(angles / 2) ** 2)
        # v - level, as a product that does not cancel
        above = 2 * size * np.sin((ends - angles) / 2) * np.sin((ends + angles) / 2)
        found.append(ends[:, 0] * ((masses * -np.expm1(-above)) @ weights))
    return np.concatenate(found).reshape(np.shape(levels))


def ball_divergence(size: float, dimension: int, order: float) -> float:
    """Return the Renyi divergence of an ``order`` above 1, rounded up.

    The moment is an integral of exp(q h) (1 - h^2)^(k - 1/2) over h, another Bessel
    function.
    """
    wide, narrow = _weights(size, dimension)
    q = size * (order - 0.5)
    # The integral is sqrt(pi) Gamma(k + 1/2) (2/q)^k I_k(q).
    logs: list[float] = []
    for factor, index in ((wide, dimension / 2 - 1), (narrow, dimension / 2)):
        bessel = float(ive(index, q))
        if not bessel > 0:  # q is far below the index
            return math.inf
        log_integral = math.log(math.pi) / 2 + float(gammaln(index + 0.5))
        log_integral += index * math.log(2 / q) + math.log(bessel)
        logs.append(math.log(factor) + log_integral)
    # exp(q - s/2): of ive and of the factors
    moment = float(np.logaddexp(logs[0], logs[1])) + q - size / 2
    rounding = 1e-11 * (1 + q)
    return (moment + rounding) / (order - 1)


def ball_mean_loss(size: float, dimension: int) -> float:
    """Return the mean of the loss, the divergence at order 1, rounded up.

    It is the integral of v (1 - exp(-v)) times the density over v > 0, since the density
    at -v is exp(-v) times that at v.
    """
    wide, narrow = _weights(size, dimension)
    nodes, weights = rule()
    end = math.pi / 2
    angles = end * nodes
    sines = np.sin(angles)
    density = wide * sines ** (dimension - 2) + narrow * sines**dimension
    density *= np.exp(-size * np.sin(angles / 2) ** 2)
    losses = size * np.cos(angles)
    integral = end * float(weights @ (density * losses * -np.expm1(-losses)))
    return integral * (1 + ROUNDED)


# -- the law within a radius ------------------------------------------------------------


def leak(size: float, dimension: int, bound: float) -> float:
    """Return P(|eta - s e| > R) for |eta| <= R, rounded up.

    It is the chance that one of two laws gives what the other one cannot. ``bound`` is R.
    """
    if bound == math.inf or not size:
        return 0.0
    if size >= 2 * bound:
        return 1.0
    if dimension == 1:
        # of the half line that is left, and beyond the centre where s > R
        inside = -math.expm1(-bound)
        if size <= bound:
            left = math.exp(size - bound) * -math.expm1(-size)
        else:
            left = 2 * inside - math.exp(-(size - bound)) * -math.expm1(
                size - 2 * bound
            )
        return chance_of(left / (2 * inside), size)
    nodes, weights = rule()
    start = abs(bound - size)
    span = bound - start
    distances = start + span * nodes**2
    steps = 2 * span * nodes * weights
    cosines = (distances**2 + size**2 - bound**2) / (2 * distances * size)
    shares = _below(np.clip(cosines, -1.0, 1.0), dimension)
    logs = (dimension - 1) * np.log(distances) - distances - gammaln(dimension)
    outside = float(steps @ (np.exp(logs) * shares))
    inside = float(gammainc(dimension, bound))
    if size > bound:
        outside += float(gammainc(dimension, start))
    return chance_of(outside / inside, size)


def chance_of(share: float, size: float, rounding: float = ROUNDED) -> float:
    """Return the chance of what a shift of some size excludes, rounded up.

    It is zero for no shift alone, also where doubles end.
    """
    least = SMALLEST if size else 0.0
    return min(max(share * (1 + rounding), least), 1.0)


def _below(cosines: NDArray[np.float64], dimension: int) -> NDArray[np.float64]:
    """Return the distribution function of one coordinate of a uniform direction."""
    half = (dimension - 1) / 2
    return np.asarray(betainc(half, half, (1 + cosines) / 2))


def truncated_delta(
    levels: ArrayLike, size: float, dimension: int, bound: float
) -> NDArray[np.float64]:
    """Return delta at levels given that neither law excludes the value, rounded up.

    In one or two dimensions, with a ``bound`` R of at least the size.
    """
    if dimension == 1:
        gaps = np.maximum(np.subtract(size, levels), 0.0)
        missing = -np.expm1(-gaps / 2)
        tail = -math.expm1(size - bound)  # of the shared values beyond the centre
        masses = tail * -np.expm1(-gaps) + missing**2
        shared = tail - math.expm1(-bound)
        return np.minimum(masses / shared * (1 + ROUNDED), 1.0)

    def density(angles: NDArray[np.float64]) -> NDArray[np.float64]:
        wide, narrow = _cut_moments(size, bound, np.cos(angles))
        return wide + narrow * np.sin(angles) ** 2

    masses = _expected_excess(levels, size, density)
    shared = float(gammainc(2, bound)) * (1 - leak(size, 2, bound))
    return np.minimum(masses / shared * (1 + ROUNDED), 1.0)


def _cut_moments(
    size: float, bound: float, shares: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what `_weights` does of two dimensions, within a radius, at h >= 0."""
    nodes, weights = rule()
    reach = np.arccosh((2 * bound - size * shares) / size)
    angles = reach[..., None] * nodes
    density = np.exp(-size * np.sinh(angles / 2) ** 2)
    narrow = reach * (density @ weights)
    wide = reach * ((density * np.sinh(angles) ** 2) @ weights)
    constant = (size / 2) ** 2 / math.pi
    return constant * wide, constant * narrow


# -- sizes for a budget -----------------------------------------------------------------


def ball_rate(epsilon: float, delta: float, dimension: int) -> float:
    """Return the rate of the ball law that hides moves by at most one, rounded down.

    Noise of density proportional to exp(-rate |eta|) in ``dimension`` numbers makes all
    moves of length one (epsilon, delta)-private. Of all rates this is the largest, within
    rounding; the variance of each number is (dimension + 1) / rate^2.

    Parameters
    ----------
    epsilon : float
        At most 10,000, and positive where delta is 0.
    delta : float
        In [0, 1). Zero gives the rate epsilon.
    dimension : int
        How many numbers the noise has.

    Returns
    -------
    float
        Per length of the largest move.

    Raises
    ------
    ValueError
        If a number is out of range.
    TypeError
        If an argument is no number.

    See Also
    --------
    core.BallNoise, core.truncated_radius

    Examples
    --------
    >>> ball_rate(1.0, 0.0, 2)
    1.0
    >>> rate = ball_rate(1.0, 1e-2, 2)
    >>> round(rate, 4), round(3**0.5 / rate, 4)
    (1.0871, 1.5932)
    """
    epsilon, delta, dimension = _checked(epsilon, delta, dimension)
    # one number's rate is good in any dimension: its curve is above
    rate = epsilon - 2 * math.log1p(-delta)
    rate *= 1 - 8 * EPS
    if delta == 0:
        return epsilon
    if not is_resolved(rate, dimension):
        return max(rate, epsilon)

    def meets(size: float) -> bool:
        if not is_resolved(1 / size, dimension):
            return 1 / size < SMALLEST_SIZE
        return float(ball_delta(epsilon, 1 / size, dimension)) <= delta

    start = 1 / rate
    largest = 1 / _LARGEST_SIZE
    found = smallest(meets, largest, start, tolerance=FINE, limit=2 * start)
    return float(max(1 / found * (1 - 4 * EPS), epsilon))


def truncated_radius(epsilon: float, delta: float, dimension: int) -> float:
    """Return the radius at which the ball law of rate epsilon may end, rounded up.

    Noise of density proportional to exp(-epsilon |eta|) on |eta| <= radius makes all moves
    of length at most one (epsilon, delta)-private: within both laws the loss is at most
    epsilon, and delta is the chance to be outside of the other one.

    Parameters
    ----------
    epsilon, delta, dimension
        As in `ball_rate`, with both numbers of the budget above 0 and a delta so small
        that the radius is at least the move.

    Returns
    -------
    float
        In lengths of the largest move.

    Raises
    ------
    ValueError
        If a number is out of range.
    TypeError
        If an argument is no number.

    See Also
    --------
    core.ball_rate, core.BallNoise

    Examples
    --------
    >>> round(truncated_radius(1.0, 1e-2, 1), 4)
    4.4649
    """
    epsilon, delta, dimension = _checked(epsilon, delta, dimension)
    if not epsilon or not delta:
        raise ValueError(
            "truncated noise needs an epsilon and a delta above 0, got "
            f"({epsilon:g}, {delta:g}); take the ball law for delta = 0"
        )

    def meets(bound: float) -> bool:
        return leak(epsilon, dimension, bound) <= delta

    if meets(epsilon):
        raise ValueError(
            f"delta: {delta:g} is so large that the noise would end within the move; "
            "choose a smaller one"
        )
    start = epsilon - math.log(delta) + 2.0 * dimension
    bound = smallest(meets, epsilon, start, tolerance=FINE, limit=1e6)
    return float(bound / epsilon * (1 + 8 * EPS))


def _checked(epsilon: float, delta: float, dimension: int) -> tuple[float, float, int]:
    """Return the arguments of a budget for a law in some dimensions."""
    epsilon = positive_number(epsilon, "epsilon", zero=True)
    delta = positive_number(delta, "delta", zero=True)
    dimension = positive_integer(dimension, "dimension")
    if epsilon > LARGEST_EPSILON:
        raise ValueError(
            f"epsilon: expected at most {LARGEST_EPSILON:g}, got {epsilon}"
        )
    if delta >= 1 or 0 < delta < SMALLEST:
        raise ValueError(
            f"delta: expected 0, or a number from {SMALLEST:g} to below 1, got {delta}"
        )
    if 0 < epsilon < SMALLEST:
        raise ValueError(
            f"epsilon: expected 0, or a number from {SMALLEST:g}, got {epsilon}"
        )
    if epsilon == 0 == delta:
        raise ValueError("epsilon and delta are both 0: raise one of them")
    return epsilon, delta, dimension
