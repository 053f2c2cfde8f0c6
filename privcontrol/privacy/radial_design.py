"""Sizes of radial and Laplace noise that meet a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

from scipy.optimize import minimize_scalar

from ..numerics.errors import PrivacyError
from ..numerics.linalg import EPS, float_above, smallest
from ..numerics.thresholds import CERTAIN, ROUGH
from .budget import (
    PrivacyBudget,
    kappa_upper,
)
from .joint import PRECISION, joint_delta
from .law import BallLaw
from .loss import MOST_TRUNCATED, PrivacyLoss, RadialShift, scaled
from .radial import ball_rate, truncated_radius

#: Releases up to which laws are compared.
_MOST_RELEASES = 64


@dataclass(frozen=True)
class RadialSize:
    """Rate and radius of radial noise that hides moves of one."""

    dimension: int
    rate: float
    bound: float = math.inf

    @property
    def law(self) -> BallLaw:
        """The law of ``rate`` times the noise."""
        return BallLaw(self.dimension, self.rate * self.bound)

    @property
    def variance(self) -> float:
        """Variance of each number of the noise."""
        return self.law.unit_variance / self.rate**2

    @property
    def loss(self) -> PrivacyLoss:
        """What one release reveals of a move of one."""
        return PrivacyLoss.radial(self.rate, self.dimension, self.law.bound)


def radial_size(
    law: str, budget: PrivacyBudget, dimension: int, releases: int = 1
) -> RadialSize:
    """Return the size of "ball" or "truncated" noise that meets a budget."""
    if law == "ball":
        return RadialSize(dimension, ball_rate_of(budget, dimension, releases))
    return truncation_of(budget, dimension, releases)


def least_radial_size(
    budget: PrivacyBudget, dimension: int, releases: int
) -> RadialSize:
    """Return the size of the radial noise of least variance that meets a budget."""
    sizes = [radial_size("ball", budget, dimension, releases)]
    if dimension <= MOST_TRUNCATED:
        sizes.append(radial_size("truncated", budget, dimension, releases))
    return min(sizes, key=lambda size: size.variance)


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
    found = smallest(meets, 0.0, 1 / start, tolerance=PRECISION, limit=2e300)
    return math.nextafter(1 / found, 0.0)


def truncation_of(
    budget: PrivacyBudget, dimension: int, releases: int = 1
) -> RadialSize:
    """Return the size of truncated noise that meets a budget for moves of one.

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
def _truncation(budget: PrivacyBudget, dimension: int, releases: int) -> RadialSize:
    """Return `truncation_of` a checked budget."""
    least = budget.laplace_epsilon(releases)
    share = math.nextafter(budget.pair[1] / releases, 0.0)
    basic = RadialSize(dimension, least, truncated_radius(least, share, dimension))
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
        lambda rate: _truncated_variance(
            RadialSize(dimension, rate, radius(rate, ROUGH))
        ),
        bounds=(least, most),
        method="bounded",
        options={"xatol": ROUGH * most},
    )
    rate = float(found.x)
    own = RadialSize(dimension, rate, radius(rate, PRECISION))
    return min(own, basic, key=_truncated_variance)


def _radial_delta(budget: PrivacyBudget, size: RadialSize, releases: int) -> float:
    """Return delta of moves of one at a budget's epsilon, for radial noise of a size."""
    one = RadialShift(size.rate, size.dimension, size.law.bound)
    rest = math.exp(releases * math.log1p(-min(one.leak, 1 - EPS)))
    return 1 - rest * (1 - joint_delta(one, releases, budget.pair[0]))


def _truncation_within(budget: PrivacyBudget, variance: float, releases: int) -> bool:
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
            return _truncated_variance(RadialSize(1, rate, reach / rate)) >= variance

        reach = smallest(is_wide, 0.0, 1.0, tolerance=PRECISION, limit=1e6)
        if reach < rate:  # it ends within the move
            return 1.0
        return _radial_delta(budget, RadialSize(1, rate, reach / rate), releases)

    found = minimize_scalar(
        excess,
        bounds=(least, most),
        method="bounded",
        options={"xatol": ROUGH * (most - least)},
    )
    return float(found.fun) <= delta


def truncation_beside(
    budget: PrivacyBudget, dimension: int, left: float, releases: int = 1
) -> RadialSize:
    """Return the size of truncated noise next to a shift ``left`` of Gaussian noise.

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
        return delta * (1 - CERTAIN) - float(kappa_upper(rest, shift))

    def size(rest: float) -> RadialSize:
        rate = (epsilon - rest) / releases * (1 - CERTAIN)
        radius = truncated_radius(rate, leaks(rest) / releases, dimension)
        return RadialSize(dimension, rate, radius)

    limit = epsilon * (1 - CERTAIN)
    least = smallest(
        lambda rest: leaks(rest) > CERTAIN * delta,
        0.0,
        limit,
        tolerance=ROUGH,
        limit=limit,
    )
    if not least < limit:
        raise PrivacyError(
            "floor: it leaves truncated noise nearly nothing of the budget; raise the "
            'floor, or pass family="ball"'
        )
    found = minimize_scalar(
        lambda log: _truncated_variance(size(math.exp(log))),
        bounds=(math.log(least), math.log(limit)),
        method="bounded",
        options={"xatol": ROUGH},
    )
    return size(math.exp(found.x))


def _truncated_variance(size: RadialSize) -> float:
    """Return the variance of truncated noise, infinity where no radius would do."""
    return math.inf if size.bound == math.inf else size.variance


@lru_cache(maxsize=64)
def turning_point(law: str, budget: PrivacyBudget, dimension: int) -> int | None:
    """Return from how many releases on Gaussian noise of a shape is smaller."""
    is_larger = partial(_is_larger, law, budget, dimension)
    below, count, step = 0, 1, 1
    if law == "truncated" and dimension == 1:
        # its best rate and radius are no worse than the ball law, which is quickly sized
        ball = turning_point("ball", budget, dimension)
        if ball is None:
            return None
        below, count = ball - 1, ball
    while not is_larger(count):
        below, count, step = count, count + step, 2 * step
        if count > _MOST_RELEASES:
            return None
    while count - below > 1:
        middle = (below + count) // 2
        if is_larger(middle):
            count = middle
        else:
            below = middle
    return count


def _is_larger(law: str, budget: PrivacyBudget, dimension: int, count: int) -> bool:
    """Return whether radial noise of so many releases has more variance than Gaussian noise."""
    variance = 1 / budget.shift(count) ** 2
    if law == "ball":
        size = RadialSize(dimension, math.sqrt((dimension + 1) / variance))
        return _radial_delta(budget, size, count) > budget.pair[1]
    share = budget.laplace_epsilon(count), budget.pair[1] / count
    shares = PrivacyBudget(epsilon=share[0], delta=share[1])
    if _truncated_variance(truncation_of(shares, dimension)) <= variance:
        return False
    if dimension > 1:  # of which each release has its share
        return True
    return not _truncation_within(budget, variance, count)


def laplace_size(loss: PrivacyLoss, budget: PrivacyBudget, releases: int) -> float:
    """Return the least multiple of a Laplace factor that meets a budget.

    ``loss`` is that of one release with the factor as it is, the budget that of all
    ``releases``.
    """
    pure = loss.pure * releases
    allowed = budget.laplace_epsilon()
    if budget.pure:
        return float_above(pure / allowed, 2)

    def meets(size: float) -> bool:
        smaller = scaled(loss, Fraction(1) / Fraction(size))
        return smaller.released(releases).satisfies(budget)

    if budget.delta is not None:
        allowed = max(allowed, budget.delta)
    high = float(pure / allowed)
    if not math.isfinite(high):
        return high
    return smallest(meets, 0.0, high, tolerance=1e-6, limit=high * 2.0**60)


def blocks_size(loss: PrivacyLoss, budget: PrivacyBudget, releases: int) -> float:
    """Return nearly the least multiple of a factor of blocks that meets a budget.

    One Laplace number that moves by what all blocks lose together bounds one release. A
    loss that is spread over several numbers may be larger, as that of one radial law is.
    """
    if releases > 1:
        return laplace_size(loss, budget, releases)
    high = float(loss.pure / ball_rate_of(budget, 1, 1))
    most = max(r for row in loss.rows for (_, r, _), _ in row.radial)
    low = float(loss.pure / ball_rate_of(budget, most, 1))
    if low > high * (1 - ROUGH):
        return high

    def meets(size: float) -> bool:
        return scaled(loss, Fraction(1) / Fraction(size)).satisfies(budget)

    return smallest(meets, low, high, tolerance=ROUGH, limit=2 * high)
