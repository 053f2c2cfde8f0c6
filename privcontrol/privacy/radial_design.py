"""Rates and radii of radial noise that meet a budget."""

from __future__ import annotations

import math
from functools import lru_cache

from scipy.optimize import minimize_scalar

from ..numerics.errors import PrivacyError
from ..numerics.linalg import EPS, smallest
from .budget import (
    PrivacyBudget,
    kappa_upper,
)
from .joint import joint_delta
from .law import BallLaw
from .loss import MOST_TRUNCATED, PrivacyLoss, RadialShift
from .radial import ball_rate, truncated_radius

#: Relative precision of the rate of radial noise for several releases.
_RATE_PRECISION = 1e-5
#: Rates of truncated noise for several releases that are tried, and the relative precision
#: of the radius at which they are compared.
_RATES_TRIED = 8
_ROUGH_RADIUS = 1e-3
#: Share of a budget that truncated noise with a floor leaves, above all roundings.
_SPARED = 1e-6


def ball_rate_of(budget: PrivacyBudget, dimension: int, releases: int) -> float:
    """Return the largest rate of radial noise that meets a budget for moves of one."""
    if budget.pure:
        return budget.laplace_epsilon(releases)
    if budget.epsilon is not None and releases == 1:
        return ball_rate(*budget.pair, dimension)

    def meets(scale: float) -> bool:
        loss = PrivacyLoss.radial(1 / scale, dimension).released(releases)
        return loss.satisfies(budget)

    start = max(budget.laplace_epsilon(releases), budget.delta or 0.0)
    found = smallest(meets, 0.0, 1 / start, tolerance=_RATE_PRECISION, limit=2e300)
    return math.nextafter(1 / found, 0.0)


def truncation_of(
    budget: PrivacyBudget, dimension: int, releases: int = 1
) -> tuple[float, float]:
    """Return rate and radius of truncated noise that meets a budget for moves of one.

    Several releases of one number compose by convolution. Of the rates between the
    budget's share and that of the law without a radius the one of least variance is taken.
    In two dimensions each release has its share of epsilon and delta: there the law
    without a radius is within 1 % of the best one.
    """
    if budget.epsilon is None or not budget.delta:
        raise ValueError(
            'family: "truncated" needs a budget of epsilon and a delta above 0, got '
            f"{budget!r}"
        )
    if dimension > MOST_TRUNCATED:
        raise ValueError(
            f'family: "truncated" is for moves in at most {MOST_TRUNCATED} directions, got '
            f'{dimension}; take "ball"'
        )
    return _truncation(budget, dimension, releases)


@lru_cache(maxsize=64)
def _truncation(
    budget: PrivacyBudget, dimension: int, releases: int
) -> tuple[float, float]:
    """Return `truncation_of` a checked budget."""
    least = budget.laplace_epsilon(releases)
    share = math.nextafter(budget.pair[1] / releases, 0.0)
    basic = least, truncated_radius(least, share, dimension)
    if releases == 1 or dimension > 1:
        return basic

    def radius(rate: float, precision: float) -> float:
        def meets(bound: float) -> bool:
            loss = PrivacyLoss.radial(rate, dimension, rate * bound).released(releases)
            return loss.satisfies(budget)

        # the leaks of all releases leave no smaller one
        low = 0.5 * truncated_radius(rate, share, dimension)
        return smallest(meets, low, 2.2 * low, tolerance=precision, limit=40 * low)

    most = ball_rate_of(budget, dimension, releases)
    if not least < most:  # but for rounding, where delta is tiny
        return basic
    found = minimize_scalar(
        lambda rate: truncated_variance(dimension, rate, radius(rate, _ROUGH_RADIUS)),
        bounds=(least, most),
        method="bounded",
        options={"maxiter": _RATES_TRIED, "xatol": 1e-3 * most},
    )
    rate = float(found.x)
    own = rate, radius(rate, _RATE_PRECISION)
    return min(own, basic, key=lambda pair: truncated_variance(dimension, *pair))


def radial_delta(
    budget: PrivacyBudget, dimension: int, rate: float, bound: float, releases: int
) -> float:
    """Return delta of moves of one at a budget's epsilon, for radial noise of a radius."""
    one = RadialShift(rate, dimension, rate * bound)
    rest = math.exp(releases * math.log1p(-min(one.leak, 1 - EPS)))
    return 1 - rest * (1 - joint_delta(one, releases, budget.pair[0]))


def truncation_within(budget: PrivacyBudget, variance: float, releases: int) -> bool:
    """Return whether truncated noise of one number and a variance meets a budget.

    That of any rate between the budget's share and the rate of the whole law of this
    variance, whose noise is not cut. At each rate the variance says the radius.
    """
    delta = budget.pair[1]
    least, most = budget.laplace_epsilon(releases), math.sqrt(2 / variance)
    if not least < most:
        return False

    def excess(rate: float) -> float:
        def is_wide(reach: float) -> bool:
            return truncated_variance(1, rate, reach / rate) >= variance

        reach = smallest(is_wide, 0.0, 1.0, tolerance=_RATE_PRECISION, limit=1e6)
        if reach < rate:  # it ends within the move
            return 1.0
        return radial_delta(budget, 1, rate, reach / rate, releases)

    found = minimize_scalar(
        excess,
        bounds=(least, most),
        method="bounded",
        options={"maxiter": 2 * _RATES_TRIED, "xatol": _ROUGH_RADIUS * (most - least)},
    )
    return float(found.fun) <= delta


def truncation_beside(
    budget: PrivacyBudget, dimension: int, left: float, releases: int = 1
) -> tuple[float, float]:
    """Return rate and radius of truncated noise next to a shift ``left`` of Gaussian noise.

    The loss within both laws is at most the rate, and delta is the Gaussian's own at the
    rest of epsilon, and the leak. Of all shares of epsilon the one of least variance is
    taken.
    """
    alone = truncation_of(budget, dimension, releases)
    if not left:
        return alone
    epsilon, delta = budget.pair
    shift = left * math.sqrt(releases) * (1 + 1e-12)

    def leaks(rest: float) -> float:
        return delta * (1 - _SPARED) - float(kappa_upper(rest, shift))

    def law(rest: float) -> tuple[float, float]:
        rate = (epsilon - rest) / releases * (1 - _SPARED)
        return rate, truncated_radius(rate, leaks(rest) / releases, dimension)

    limit = epsilon * (1 - _SPARED)
    least = smallest(
        lambda rest: leaks(rest) > _SPARED * delta,
        0.0,
        limit,
        tolerance=_ROUGH_RADIUS,
        limit=limit,
    )
    if not least < limit:
        raise PrivacyError(
            "floor: it leaves truncated noise nearly nothing of the budget; raise the "
            'floor, or pass family="ball"'
        )
    found = minimize_scalar(
        lambda log: truncated_variance(dimension, *law(math.exp(log))),
        bounds=(math.log(least), math.log(limit)),
        method="bounded",
        options={"xatol": _ROUGH_RADIUS},
    )
    return law(math.exp(found.x))


def truncated_variance(dimension: int, rate: float, bound: float) -> float:
    """Return the variance of a number of truncated noise of a rate and a radius."""
    if bound == math.inf:
        return math.inf
    return BallLaw(dimension, rate * bound).unit_variance / rate**2
