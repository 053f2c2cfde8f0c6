"""The privacy losses of releases, the numbers behind a guarantee.

A loss is frozen data about releases with noise of one kind or of several.
Each of its numbers is exact or an upper bound. The full curve delta(epsilon) of several
Laplace coordinates, of black boxes and of mixtures comes from the privacy-loss
distributions of dp-accounting (extra ``accounting``), rounded up. Without it the least of
several closed-form upper bounds stands in. All other numbers have a closed form.

Sizes accumulate as exact rationals and are rounded once, so releases which fill a
budget to the last digit are neither refused nor let through.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial, reduce
from itertools import cycle
from operator import and_
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri, ndtri_exp

from ..numerics.checks import instance_of, positive_integer, positive_number, real_array
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import EPS, float_above, smallest
from ..numerics.saved import Saved, encode
from ..numerics.thresholds import BLOCK, FINE, LARGEST_SIZE, ROUNDED, SMALLEST
from .budget import LARGEST_EPSILON, PrivacyBudget, kappa_upper
from .joint import alone_gdp, joint_gdp
from .radial import (
    SMALLEST_SIZE,
    ball_delta,
    ball_divergence,
    ball_mean_loss,
    is_resolved,
    leak,
    truncated_delta,
)
from .walls import Wall

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import PLDPmf

#: Most numbers of a Laplace loss for which every hidden move is kept. Of more, one
#: coordinate is the bound.
KEPT = 1 << 16
#: Speed: most moves that are looked for among all as those that no other one dominates.
#: What these dominate is not evaluated.
_UNDOMINATED = 1024
#: Most moves whose curve is evaluated or whose mu is searched for, and moves by blocks that
#: are looked at one by one; a bound stands in for the others.
_EVALUATED = 64
#: Points of a discretised loss within a standard deviation, and the most of all.
_RESOLUTION = 1024
_POINTS = 1 << 17
#: What the rounding errors of a Fourier transform may take from a delta for each release,
#: whose number is the power of the transform. Against exact binomial sums of up to 3e7
#: releases they were 0.4 EPS for each.
_POWER = 8 * EPS
#: Of more releases these errors leave nothing to gain.
_CONVOLVED = 10**7
#: Speed: relative growth of a move at most where two are taken for one that is as large as
#: both in each block.
_MERGED = 1e-4
#: Most dimensions of radial noise that ends at a radius, and the largest size of moves for
#: which its curve is evaluated.
MOST_TRUNCATED = 2
_MOST_CUT = 100.0
#: Doubles are multiples of a smaller power of two than this one.
_FINEST = sys.float_info.mant_dig - sys.float_info.min_exp


# -- rationals and rounding ----------------------------------------------------------


def decimal(value: float) -> Fraction:
    """Return the decimal that a float prints as, so ten times 0.1 make one."""
    return Fraction(repr(float(value)))


def float_up(value: Fraction) -> float:
    """Return the smallest float that, read as a decimal, is not below a rational."""
    if value > sys.float_info.max:
        return math.inf
    nearest = float(value)
    if decimal(nearest) >= value:
        return nearest
    return math.nextafter(nearest, math.inf)


def root_up(value: Fraction) -> float:
    """Return the smallest float whose square is not below a rational."""
    square = math.ceil(value * 4**_FINEST)
    root = math.isqrt(square)
    if root * root < square:
        root += 1
    exact = Fraction(root, 2**_FINEST)
    if exact > sys.float_info.max:
        return math.inf
    nearest = float(exact)
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


def checked_delta(delta: float) -> float:
    """Return delta as a float in [0, 1)."""
    delta = positive_number(delta, "delta", zero=True)
    if delta >= 1:
        raise ValueError(f"delta: expected a probability in [0, 1), got {delta}")
    return delta


def _decimal_sum(counted: Iterable[tuple[float, int]]) -> Fraction:
    """Return the exact sum of decimals, each with how often it occurs."""
    return sum((decimal(value) * count for value, count in counted), Fraction(0))


# -- one coordinate ------------------------------------------------------------------


@dataclass(frozen=True)
class Coordinate(ABC):
    """One independent part of a release, which a hidden move shifts.

    Its two laws may be exchanged, so one curve serves both directions. Every number
    is rounded up.
    """

    size: float  # the shift in units of the noise, or epsilon

    @property
    @abstractmethod
    def gdp(self) -> float:
        """mu of Gaussian differential privacy."""

    @property
    @abstractmethod
    def zcdp(self) -> float:
        """rho of zero-concentrated differential privacy."""

    @abstractmethod
    def rdp(self, order: float) -> float:
        """Return the Renyi divergence of an order above 1."""

    @abstractmethod
    def delta(self, levels: ArrayLike) -> NDArray[np.float64]:
        """Return delta at these levels of epsilon."""

    @property
    def reach(self) -> float:
        """A level beyond which the loss need not be listed."""
        return self.size


class GaussianShift(Coordinate):
    """A Gaussian number of variance one that moves by ``size``."""

    @property
    def gdp(self) -> float:
        return self.size

    @property
    def zcdp(self) -> float:
        return self.size * self.size / 2

    def rdp(self, order: float) -> float:
        return order * self.zcdp

    def delta(self, levels: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(kappa_upper(levels, self.size))

    @property
    def reach(self) -> float:
        return self.zcdp + 9.5 * self.size


class _Bounded(Coordinate):
    """A coordinate whose loss never exceeds ``size``."""

    @property
    @abstractmethod
    def log_error(self) -> float:
        """The log of the probability at which the best test errs equally both ways."""

    @property
    def gdp(self) -> float:
        # 2 Phi^-1(1 - error), which the error demands, suffices for these two curves
        size = -2 * float(ndtri_exp(self.log_error))
        return size * (1 + 1e-12) + 64 * EPS

    def rdp(self, order: float) -> float:
        by_rho = order * self.zcdp * (1 + 4 * EPS)
        return min(by_rho, self.size)


class LaplaceShift(_Bounded):
    """A Laplace number of scale one that moves by ``size``.

    Its mu suffices: the trade-off function is exp(-a)/(4 alpha) between straight ends,
    for the shift a. In logarithms the middle is a line of slope -1 that touches the
    concave Gaussian curve at its fixed point. The ends are chords above the convex
    Gaussian curve.
    """

    @property
    def log_error(self) -> float:
        return -self.size / 2 - math.log(2)

    @property
    def zcdp(self) -> float:
        """a + exp(-a) - 1 for the shift a, the Renyi divergence at order 1.

        It bounds that of order alpha > 1 over alpha. With t = alpha - 1/2, (alpha - 1)
        times the divergence is log M(t) - a/2 for M(t) = cosh(a t) + sinh(a t) / (2 t), an
        entire function of t^2 of order 1/2 with negative zeros only. So log M is concave
        in t^2, below its tangent at t^2 = 1/4, and t^2 - 1/4 = alpha (alpha - 1).
        """
        shift = self.size
        if shift < 1e-3:  # the series stops at a positive term
            series = 1 - shift / 3 + shift * shift / 12
            return shift * shift / 2 * series * (1 + 8 * EPS)
        return (shift + math.expm1(-shift)) * (1 + 1e-12)

    def rdp(self, order: float) -> float:
        # Mironov (2017), Table II
        inverse = 1 / order
        share = 2 - inverse
        odds = (1 - inverse) / share
        likely = (order - 1) * self.size - math.log(share)
        unlikely = math.log(odds) - order * self.size
        slack = 8 * EPS * (1 + order * self.size)
        moment = float(np.logaddexp(likely, unlikely)) + slack
        return min(moment / (order - 1), super().rdp(order))

    def delta(self, levels: ArrayLike) -> NDArray[np.float64]:
        # 1 - exp((epsilon - a)/2) (Balle, Barthe and Gaboardi 2018)
        missing = np.minimum(np.subtract(levels, self.size) / 2, 0.0)
        return np.abs(np.expm1(missing)) * (1 + 8 * EPS)


class Response(_Bounded):
    """The answer to a yes-no question with odds e^epsilon (randomised response)."""

    @property
    def log_error(self) -> float:
        return -float(np.logaddexp(0.0, self.size))

    @property
    def zcdp(self) -> float:
        return self.size * self.size / 2

    def delta(self, levels: ArrayLike) -> NDArray[np.float64]:
        missing = np.minimum(np.subtract(levels, self.size), 0.0)
        odds = 1 + math.exp(-self.size)
        return np.abs(np.expm1(missing)) / odds * (1 + 8 * EPS)


@dataclass(frozen=True)
class RadialShift(_Bounded):
    """Some numbers of joint density exp(-|eta|), within a radius, that move by ``size``.

    Its curve is that given that neither of the two laws excludes the value. The chance
    that one does is the `leak`, which next to it counts as an open failure. One Laplace
    number that moves as far bounds the law without a radius, see `one_coordinate`, and a
    response every one.
    """

    dimension: int
    bound: float = math.inf

    def __post_init__(self) -> None:
        positive_number(self.size, "size")
        positive_integer(self.dimension, "dimension")
        if not self.bound > 0:
            raise ValueError(f"bound: expected a radius above 0, got {self.bound}")
        if self.is_cut and self.dimension > MOST_TRUNCATED:
            raise ValueError(
                f"dimension: expected at most {MOST_TRUNCATED} of truncated noise, got "
                f"{self.dimension}"
            )

    @property
    def is_cut(self) -> bool:
        """Return whether the law ends at a radius."""
        return self.bound < math.inf

    @cached_property
    def leak(self) -> float:
        """The probability that one of the laws gives what the other one cannot."""
        return leak(self.size, self.dimension, self.bound)

    @property
    def is_resolved(self) -> bool:
        """Return whether the curve is evaluated, and not bounded by another one's."""
        if self.is_cut:
            in_range = SMALLEST_SIZE <= self.size <= _MOST_CUT
            return in_range and self.size <= self.bound
        return is_resolved(self.size, self.dimension)

    @property
    def _above(self) -> _Bounded:
        """A coordinate whose curve is nowhere below."""
        return Response(self.size) if self.is_cut else LaplaceShift(self.size)

    @property
    def log_error(self) -> float:
        return self._above.log_error

    @cached_property
    def gdp(self) -> float:
        most = self._above.gdp
        return alone_gdp(self, most) if self.is_resolved else most

    @cached_property
    def zcdp(self) -> float:
        """The mean loss, which bounds the Renyi divergence of order alpha over alpha.

        The moments are, but for a factor, a g(w) + b g'(w) with positive a and b, for
        g(w) = I_k(q)/q^k in w = q^2, an entire function of order 1/2 with negative zeros
        only, and so are theirs. The argument is that of `LaplaceShift.zcdp`.
        """
        most = self._above.zcdp
        if self.is_cut or not self.is_resolved:
            return most
        return min(ball_mean_loss(self.size, self.dimension), most)

    def rdp(self, order: float) -> float:
        most = min(super().rdp(order), self._above.rdp(order))
        if self.is_cut or not self.is_resolved:
            return most
        return min(ball_divergence(self.size, self.dimension, order), most)

    def delta(self, levels: ArrayLike) -> NDArray[np.float64]:
        most = self._above.delta(levels)
        if not self.is_resolved:
            return most
        if self.is_cut:
            found = truncated_delta(levels, self.size, self.dimension, self.bound)
        else:
            found = ball_delta(levels, self.size, self.dimension)
        return np.fmin(found, most)


# -- one row of coordinates ----------------------------------------------------------

Key = TypeVar("Key")


def _merged(counted: Iterable[tuple[Key, int]]) -> tuple[tuple[Key, int], ...]:
    """Return every key once with how often it occurs, largest first."""
    total: Counter[Key] = Counter()
    for key, count in counted:
        total[key] += count
    return tuple(sorted(total.items(), reverse=True))


def _times(
    counted: Iterable[tuple[Key, int]], count: int
) -> tuple[tuple[Key, int], ...]:
    """Return keys that occur `count` times as often."""
    return tuple((key, n * count) for key, n in counted)


@encode.register
def _(value: Fraction) -> str:
    return str(value)


@dataclass(frozen=True)
class Product(Saved):
    """Hold what one hidden move costs in independent releases.

    Of black boxes only (epsilon, delta) is known. The worst of them fails openly with
    probability delta, and is randomised response otherwise. Those of epsilon = 0 stand
    for assumptions, such as that a run stays in a region, which may fail together with
    anything else.
    """

    _omitted = ("radial", "walls")

    #: (Laplace shift over scale, count), largest first.
    shifts: tuple[tuple[float, int], ...] = ()
    #: The square of the Gaussian shift over standard deviation.
    square: Fraction = Fraction(0)
    #: ((epsilon, delta), count), largest first.
    boxes: tuple[tuple[tuple[float, float], int], ...] = ()
    #: ((shift over scale, dimension, radius), count) of radial noise, largest first.
    radial: tuple[tuple[tuple[float, int, float], int], ...] = ()
    #: (wall of Gaussian noise that is kept within, count), largest first.
    walls: tuple[tuple[Wall, int], ...] = ()

    @classmethod
    def _restored(cls, saved: dict[str, Any]) -> Product:
        square = str(saved["square"])
        if "e" in square.lower() or Fraction(square) < 0:
            raise ValueError("square: expected a fraction of integers >= 0")
        for shift, count in saved["shifts"]:
            positive_number(shift, "shift")
            positive_integer(count, "count")
        known = PrivacyLoss.black_box((*pair, count) for pair, count in saved["boxes"])
        radial = saved.get("radial", ())
        for law, count in radial:
            RadialShift(*law)
            positive_integer(count, "count")
        walls = saved.get("walls", ())
        for wall, count in walls:
            instance_of(wall, Wall, "walls")
            positive_integer(count, "count")
        boxes = known.rows[0].boxes
        return cls(saved["shifts"], Fraction(square), boxes, radial, walls)

    def __add__(self, other: Product) -> Product:
        return Product(
            _merged(self.shifts + other.shifts),
            self.square + other.square,
            _merged(self.boxes + other.boxes),
            _merged(self.radial + other.radial),
            _merged(self.walls + other.walls),
        )

    def released(self, count: int) -> Product:
        """Return the cost of as many releases like these."""
        return Product(
            _times(self.shifts, count),
            self.square * count,
            _times(self.boxes, count),
            _times(self.radial, count),
            _times(self.walls, count),
        )

    def scaled(
        self, factor: Fraction, proportional: bool, nearer: float | None = None
    ) -> Product:
        """Return the cost of a move ``factor`` times as large.

        It is a path of ceil(factor) steps, each no longer than the known one (IP
        Proposition 4). What is not proportional to the move costs as much as the path.
        Walls are come nearer to by as many times as much, or ``nearer`` times.
        """
        steps = max(1, math.ceil(factor))
        size = float_up(factor)
        shifts = [(float_above(shift * size, 2), n) for shift, n in self.shifts]
        boxes = [(_chained(*pair, steps), n) for pair, n in self.boxes]
        radial = [
            ((float_above(shift * size, 2), dimension, rate), n)
            for (shift, dimension, rate), n in self.radial
        ]
        losses = [shift for shift, _ in shifts] + [epsilon for (epsilon, _), _ in boxes]
        losses += [shift for (shift, *_), _ in radial]
        if math.inf in losses:
            raise UncertifiableError(
                "expected an epsilon below 1.8e308 of moves this large, got more; choose "
                "a smaller radius"
            )
        scale = factor if proportional else Fraction(steps)
        square = self.square * scale**2
        times = float_above(size if nearer is None else nearer)
        walls = [(wall.scaled(times), n) for wall, n in self.walls]
        return Product(
            tuple(shifts), square, tuple(boxes), tuple(radial), _merged(walls)
        )

    def covers(self, other: Product, rounding: Fraction) -> bool:
        """Return whether it costs at least as much as another row, up to rounding.

        The k-th largest shift is compared with the k-th largest one. Walls are compared by
        what they leak together: they may be placed and counted in more than one way.
        """
        less = 1 - float(rounding)
        if self.boxes != other.boxes or self.square < other.square * (1 - rounding):
            return False
        leaks = {n: leak for leak, n in self._leaks}
        if any(leaks.get(n, 0.0) < less * leak for leak, n in other._leaks):
            return False
        if len(self.radial) != len(other.radial):
            return False
        for (own, n), (its, many) in zip(self.radial, other.radial, strict=True):
            if n != many or own[1:] != its[1:] or own[0] < less * its[0]:
                return False
        sizes, counts = self._table
        its_sizes, its_counts = other._table
        places = np.searchsorted(counts.cumsum(), its_counts.cumsum())
        levels = np.append(sizes, 0.0)
        allowed = float(rounding) * levels.max()
        return bool((its_sizes <= levels[places] + allowed).all())

    @property
    def _table(self) -> NDArray[np.float64]:
        """The Laplace shifts and their counts (2, k), largest first."""
        return np.array(sorted(self.shifts, reverse=True), float).reshape(-1, 2).T

    @cached_property
    def _gaussian(self) -> float:
        """The Gaussian shift over standard deviation."""
        return root_up(self.square)

    @cached_property
    def bounded(self) -> tuple[tuple[Coordinate, int], ...]:
        """The coordinates of bounded loss, each with how often it occurs."""
        laplace = [(LaplaceShift(shift), n) for shift, n in self.shifts]
        answers = [(Response(epsilon), n) for (epsilon, _), n in self.boxes if epsilon]
        return (*laplace, *answers, *self._radial)

    @cached_property
    def _radial(self) -> tuple[tuple[RadialShift, int], ...]:
        """The coordinates of radial noise, each with how often it occurs."""
        return tuple((RadialShift(*law), n) for law, n in self.radial)

    @cached_property
    def coordinates(self) -> tuple[tuple[Coordinate, int], ...]:
        """All coordinates, each with how often it occurs."""
        if self.square:
            return (*self.bounded, (GaussianShift(self._gaussian), 1))
        return self.bounded

    @cached_property
    def _leaks(self) -> list[tuple[float, int]]:
        """The leak of each draw of noise that is kept within walls, with its count."""
        by_count: dict[int, float] = {}
        for wall, n in self.walls:
            by_count[n] = by_count.get(n, 0.0) + wall.leak
        rounding = 1 + 4 * EPS * len(self.walls)
        return [(min(leak * rounding, 1.0), n) for n, leak in by_count.items()]

    @cached_property
    def _failures(self) -> tuple[float, float]:
        """1 - prod(1 - delta) of black boxes, and the sum of delta of assumptions."""
        assumed = [(delta, n) for (epsilon, delta), n in self.boxes if not epsilon]
        others = [(delta, n) for (epsilon, delta), n in self.boxes if epsilon]
        others += [(one.leak, n) for one, n in self._radial if one.leak]
        others += self._leaks
        log_rest = math.fsum(
            n * math.log1p(-min(delta, 1 - EPS)) for delta, n in others
        )
        joint = -math.expm1(log_rest) * (1 + 8 * EPS)
        total = float_up(_decimal_sum(others))
        return min(total, joint, 1.0), float_up(_decimal_sum(assumed))

    def failing(self, delta: float = 0.0) -> float:
        """Return the delta of all, from that of all but failures, rounded up."""
        independent, added = self._failures
        if delta > 0:
            joint = independent + (1 - independent) * min(delta, 1.0)
            independent = joint * (1 + 4 * EPS)
        total = independent + added
        if independent > 0 and added > 0:
            total *= 1 + 2 * EPS
        return min(total, 1.0)

    @cached_property
    def largest(self) -> Fraction:
        """The largest loss of all that is not Gaussian, exactly."""
        return _decimal_sum((one.size, n) for one, n in self.bounded)

    @cached_property
    def pure(self) -> float:
        """The epsilon at which only the failures remain, or inf with Gaussian noise."""
        return math.inf if self.square else float_up(self.largest)

    @cached_property
    def rough_gdp(self) -> float:
        """mu given that no black box fails, by the root of the sum of squares."""
        if not self.bounded:
            return self._gaussian
        coordinates = self.coordinates
        if len(self.radial) > 1:  # of which each takes long
            blocks = [(one._above, n) for one, n in self._radial]
            coordinates = (*blocks, *(c for c in coordinates if c not in self._radial))
        sizes = [math.sqrt(n) * one.gdp for one, n in coordinates]
        return math.hypot(*sizes) * (1 + 16 * EPS)

    @cached_property
    def gdp(self) -> float:
        """mu given that no black box fails, by the joint law of bounded losses.

        Gaussian noise adds its square.
        """
        if not self.bounded:
            return self._gaussian
        joint = math.hypot(joint_gdp(self.bounded), self._gaussian)
        return min(joint * (1 + 4 * EPS), self.rough_gdp)

    @cached_property
    def zcdp(self) -> float:
        """rho given that no black box fails."""
        return _sum_up([n * one.zcdp for one, n in self.coordinates])

    def rdp(self, order: float) -> float:
        """Return the Renyi divergence given that no black box fails."""
        return _sum_up([n * one.rdp(order) for one, n in self.coordinates], order)

    @property
    def _closed(self) -> bool:
        """Return whether `ceiling` is the curve itself, that of one coordinate."""
        alone = not self.boxes and not self.walls
        return alone and sum(n for _, n in self.coordinates) <= 1

    def ceiling(self, epsilon: float) -> float:
        """Return the least of several closed-form upper bounds of delta."""
        if epsilon >= self.pure:
            return self.failing()
        if self._closed:
            one, _ = self.coordinates[0]
            return self.failing(min(float(one.delta(epsilon)), 1.0))
        bounds = [1.0, float(kappa_upper(epsilon, self.rough_gdp))]
        if not self.square:
            # a response bounds every pure epsilon, and one coordinate every Laplace one
            is_cut = any(one.is_cut for one, _ in self._radial)
            kind = Response if self.boxes or is_cut else LaplaceShift
            bounds.append(float(kind(self.pure).delta(epsilon)))
        elif epsilon > float_up(self.largest):
            left = math.nextafter(epsilon - float_up(self.largest), 0.0)
            bounds.append(float(kappa_upper(left, self._gaussian)))
        if self._beside_radial is not None and epsilon > self._beside_radial:
            # what the others lose at most raises each probability by no more
            ((one, _),) = self._radial
            left = math.nextafter(epsilon - self._beside_radial, 0.0)
            bounds.append(float(one.delta(left)))
        return self.failing(max(min(bounds), SMALLEST))

    @cached_property
    def _beside_radial(self) -> float | None:
        """What all but one radial coordinate lose at most, None if there is more."""
        if self.square or sum(n for _, n in self._radial) != 1:
            return None
        ((one, _),) = self._radial
        return float_up(self.largest - decimal(one.size))

    def delta(self, epsilon: float) -> float:
        """Return an upper bound of delta, sharp where dp-accounting is installed."""
        least = self.ceiling(epsilon)
        count = sum(n for _, n in self.coordinates)
        errors = max(FINE, _POWER * count)
        if self._closed or epsilon >= self.pure or least <= errors:
            return least
        if count > _CONVOLVED or self.zcdp > LARGEST_EPSILON:
            return least
        distribution = _distribution(self)
        if distribution is None:
            return least
        sharper = max(float(distribution.get_delta_for_epsilon(epsilon)), 0.0)
        return min(least, self.failing(sharper * (1 + ROUNDED) + errors))


def _sum_up(parts: list[float], order: float = 1.0) -> float:
    """Return a sum rounded up, above what may underflow."""
    least = order * 1e-300 if parts else 0.0
    try:
        return math.fsum(parts) * (1 + 8 * EPS) + least
    except OverflowError:
        return math.inf


def _chained(epsilon: float, delta: float, steps: int) -> tuple[float, float]:
    """Return (steps eps, delta (e^(steps eps) - 1)/(e^eps - 1)), rounded up."""
    if steps == 1:
        return epsilon, delta
    total = float_up(decimal(epsilon) * steps)
    if delta == 0:
        return total, 0.0
    if epsilon == 0:  # where the ratio is `steps`
        return total, min(float_up(decimal(delta) * steps), 1.0)
    if total > 700:
        return total, 1.0
    ratio = math.expm1(total) / math.expm1(epsilon) * (1 + 16 * EPS * (1 + total))
    return total, min(delta * ratio, 1.0)


# -- privacy-loss distributions ------------------------------------------------------


@lru_cache(maxsize=2 * _EVALUATED)  # fewer would be made again at every epsilon
def _distribution(releases: Product) -> PLDPmf | None:
    """Return the discretised loss, given that no black box fails.

    The grid is a power of two, so parts of a growing product are in the cache.
    Returns None if dp-accounting is not installed.
    """
    spread = math.sqrt(2 * releases.zcdp)
    step = spread / _RESOLUTION
    if releases.bounded:
        number = sum(n for _, n in releases.bounded)
        squares = sum(n * one.size * one.size for one, n in releases.bounded)
        step = min(step, 16 * math.sqrt(squares / number) / _RESOLUTION)
    likely = min(float(releases.largest), 12 * spread + spread**2)
    total = likely + 20 * releases._gaussian
    reach = max(one.reach for one, _ in releases.coordinates)
    step = max(step, 2 * max(reach, total) / _POINTS)
    step = 2.0 ** math.floor(math.log2(step))
    joint = None
    for one, count in releases.coordinates:
        try:
            pmf = _discretised(one, step)
        except ImportError:
            return None
        if count > 1:
            pmf = pmf.self_compose(count, tail_mass_truncation=EPS)
        if joint is None:
            joint = pmf
        else:
            joint = joint.compose(pmf, tail_mass_truncation=EPS)
    return joint


@lru_cache(maxsize=128)
def _discretised(coordinate: Coordinate, step: float) -> PLDPmf:
    """Return a loss on a grid whose curve connects the dots, and is therefore above.

    Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, Connect the Dots (2022).
    """
    from dp_accounting.pld import pld_pmf

    last = math.ceil(coordinate.reach / step)
    places = np.arange(-last, last + 1)
    levels = places * step
    ahead = coordinate.delta(np.abs(levels))
    # delta at negative levels, because the two laws may be exchanged
    behind = 1 - np.exp(np.minimum(levels, 0.0)) * (1 - ahead)
    deltas = np.clip(np.where(levels < 0, behind, ahead), 0.0, 1.0)
    deltas = np.minimum.accumulate(deltas)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, places, deltas)
    if isinstance(pmf, pld_pmf.SparsePLDPmf):  # only dense ones compose with each other
        return pmf.to_dense_pmf()
    return pmf


# -- losses --------------------------------------------------------------------------

GAUSSIAN = "Gaussian"
LAPLACE = "Laplace"
RADIAL = "radial"
BLACK_BOX = "black-box"

#: The kinds of noise, and where a product holds its numbers.
_KINDS = {
    GAUSSIAN: "square",  # and walls
    LAPLACE: "shifts",
    RADIAL: "radial",
    BLACK_BOX: "boxes",
}


@dataclass(frozen=True)
class PrivacyLoss(Saved):
    """The trade-off curve of releases, as what they cost each hidden move.

    Which move is worst depends on epsilon. So there is a row of independent coordinates
    for each move, and releases compose move by move. A single row bounds all moves.

    Gaussian noise is exactly y-GDP (DPAM eq. (7)), and the row of its worst move is that
    of all.

    Laplace noise (DPAM Theorem 2) hides the moves in the hull of the given ones at no more
    cost. The minimum of the densities p(x) and e^eps p(x - s) is log-concave in (x, s),
    hence so is its integral over x, which is 1 - delta (Prekopa). The Renyi divergences
    are convex in s.

    Of black boxes only (epsilon, delta) is known. The worst mechanism of such a pair fails
    openly with probability delta and otherwise is randomised response. Their product
    bounds delta(epsilon) of all mechanisms of these numbers, no matter what they are composed
    with (Kairouz, Oh and Viswanath 2015; Zhu, Dong and Wang 2022, Theorem 10).
    """

    rows: tuple[Product, ...]
    moves: tuple[tuple[int, ...], ...]  # for each row those that attain it
    kinds: tuple[str, ...]  # of noise, in the order of _KINDS
    attained: bool = True  # whether every row is attained
    aligned: bool = True  # whether there is a row for every hidden move, in order
    proportional: bool = True  # whether y is linear in the size of the move

    @classmethod
    def _restored(cls, saved: dict[str, Any]) -> PrivacyLoss:
        loss = cls(**saved)
        if not loss.rows or len(loss.rows) != len(loss.moves):
            raise ValueError(
                f"rows: expected {len(loss.moves)}, at least one, got {len(loss.rows)}"
            )
        for row in loss.rows:
            instance_of(row, Product, "rows")
        if not loss.kinds or not set(loss.kinds) <= set(_KINDS):
            raise ValueError(f"kinds: expected some of {', '.join(_KINDS)}")
        return loss

    @classmethod
    def gaussian(
        cls,
        shift: float,
        active: tuple[int, ...] = (),
        exact: bool = True,
        *,
        proportional: bool = True,
        walls: Iterable[Wall] = (),
    ) -> PrivacyLoss:
        """Return the loss of Gaussian noise whose largest privacy shift is y.

        ``active`` moves attain it. Without ``proportional`` it is known at one radius only,
        and not linear in the size of the move as for affine queries. ``walls``
        are those that the noise is kept within.
        """
        square = Fraction(positive_number(shift, "gdp", zero=True)) ** 2
        kept = _merged((wall, 1) for wall in walls)
        row = Product(square=square, walls=kept)
        exact = exact and not kept
        return cls((row,), (active,), (GAUSSIAN,), exact, proportional=proportional)

    @classmethod
    def laplace(
        cls,
        shifts: ArrayLike,
        *,
        exact: bool = True,
        moves: Iterable[int] | None = None,
    ) -> PrivacyLoss:
        """Return the loss of shifts over scales (r, M), a column for each hidden move.

        ``exact=False`` marks columns that are bounds. ``moves`` are the numbers of the
        columns' moves where these are not all there are.
        """
        columns = np.abs(real_array(shifts, "shifts", ndim=2)).T
        numbers = range(len(columns)) if moves is None else moves
        names = tuple((move,) if exact else () for move in numbers)
        if np.count_nonzero(columns) > KEPT:
            largest = max(_decimal_sum(_row(column)) for column in columns)
            worst = columns.sum(axis=1).argmax()
            return replace(one_coordinate(float_up(largest)), moves=(names[worst],))
        rows = tuple(Product(_row(column)) for column in columns)
        return cls(rows, names, (LAPLACE,), exact, moves is None)

    @classmethod
    def radial(
        cls,
        size: float,
        dimension: int,
        bound: float = math.inf,
        active: tuple[int, ...] = (),
        exact: bool = True,
    ) -> PrivacyLoss:
        """Return the loss of radial noise whose largest shift over scale is ``size``.

        Of radial laws that fall outwards the longest move is the worst at every epsilon.
        ``active`` moves attain it.

        Raises
        ------
        ValueError
            If a number is out of range, or truncated noise has more than two dimensions.
        """
        size = positive_number(size, "size", zero=True)
        dimension = positive_integer(dimension, "dimension")
        known = cls((Product(),), (active,), (RADIAL,), exact)
        if not size:
            return known
        one = RadialShift(size, dimension, bound)
        sharp = one.is_resolved or (dimension == 1 and not one.is_cut)
        law = (size, dimension, float(bound))
        row = Product(radial=((law, 1),))
        return replace(known, rows=(row,), attained=exact and sharp)

    @classmethod
    def blocks(cls, sizes: ArrayLike, dimensions: Sequence[int]) -> PrivacyLoss:
        """Return the loss of independent blocks of radial noise, a bound.

        ``sizes`` (blocks, M) are the shifts over scale of each block, a column for each
        hidden move. Their density is log-concave, so these hide the hull of the moves
        too, as those of Laplace noise do.
        """
        columns = real_array(sizes, "sizes", ndim=2).T
        left = np.unique(columns, axis=0)[::-1]
        kept: list[NDArray[np.float64]] = []
        # a block that moves less is a post-processing of one that moves more
        while left.size and len(kept) < _EVALUATED:
            worst = left[left.sum(axis=1).argmax()]
            kept.append(worst)
            left = left[(left > worst).any(axis=1)]
        if left.size:
            one = cls.radial(
                float_above(columns.sum(axis=1).max(), columns.shape[1]), 1
            )
            return replace(one, attained=False, aligned=False)
        rows = []
        for column in _merged_moves(kept):
            laws = zip(column.tolist(), dimensions, strict=True)
            moved = [((size, int(r), math.inf), 1) for size, r in laws if size]
            rows.append(Product(radial=tuple(moved)))
        return cls(tuple(rows), ((),) * len(rows), (RADIAL,), False, False)

    @classmethod
    def black_box(cls, pairs: Iterable[tuple[float, float, int]]) -> PrivacyLoss:
        """Return the loss of releases known by (epsilon, delta), with their counts."""
        boxes = []
        for epsilon, delta, count in pairs:
            pair = (
                positive_number(epsilon, "epsilon", zero=True),
                positive_number(delta, "delta", zero=True),
            )
            if delta > 1:
                raise ValueError(f"delta: expected at most 1, got {delta}")
            boxes.append((pair, positive_integer(count, "count")))
        return cls((Product(boxes=_merged(boxes)),), ((),), (BLACK_BOX,), False)

    def released(self, count: int) -> PrivacyLoss:
        """Return the loss of `count` releases by this very mechanism."""
        count = positive_integer(count, "count")
        return replace(self, rows=tuple(row.released(count) for row in self.rows))

    @cached_property
    def _products(self) -> tuple[Product, ...]:
        """Rows that no other one dominates, as far as that is cheap to decide."""
        rows = tuple(dict.fromkeys(self.rows))
        length = max(sum(n for _, n in row.shifts) for row in rows)
        if len(rows) < 3 or len(rows) * length > BLOCK:
            return rows
        if any(row.radial != rows[0].radial for row in rows):
            return rows  # only shifts are compared
        columns = np.zeros((len(rows), length))
        for column, row in zip(columns, rows, strict=True):
            shifts = [shift for shift, n in row.shifts for _ in range(n)]
            column[: len(shifts)] = shifts
        # a coordinate with the smaller shift is a post-processing of the larger one
        left = np.argsort(-columns.sum(axis=1), kind="stable")
        kept: list[int] = []
        while left.size and len(kept) < _UNDOMINATED:
            kept.append(int(left[0]))
            left = left[(columns[left] > columns[left[0]]).any(axis=1)]
        return tuple(rows[place] for place in [*kept, *left.tolist()])

    @cached_property
    def pure(self) -> float:
        """The epsilon at which only failures remain, rounded up."""
        return max(one.pure for one in self._products)

    @cached_property
    def failure(self) -> float:
        """The delta below which no epsilon is finite (but for delta = 0)."""
        return max(one.failing() for one in self._products)

    @property
    def excludes(self) -> bool:
        """Whether noise ends somewhere, so that a value may exclude a secret."""
        cut = any(
            bound < math.inf for row in self.rows for (*_, bound), _ in row.radial
        )
        return cut or any(row.walls for row in self.rows)

    @cached_property
    def shift(self) -> float:
        """mu of Gaussian differential privacy given that nothing leaks or fails."""
        return max(one.gdp for one in self._products)

    @cached_property
    def summed_deltas(self) -> Fraction:
        """The sum of the deltas of black boxes, exactly, of the move with the largest one."""
        return max(
            _decimal_sum((delta, n) for (_, delta), n in row.boxes)
            for row in self._products
        )

    @cached_property
    def gdp(self) -> float:
        """mu of Gaussian differential privacy, or inf where a black box may fail."""
        if self.failure:
            return math.inf
        worst = 0.0
        ordered = sorted(self._products, key=lambda one: -one.rough_gdp)
        for rank, one in enumerate(ordered):
            if one.rough_gdp <= worst:
                break
            if rank == _EVALUATED:
                return one.rough_gdp
            worst = max(worst, one.gdp)
        return worst

    @cached_property
    def zcdp(self) -> float:
        """rho of zero-concentrated differential privacy, or inf."""
        return math.inf if self.failure else max(one.zcdp for one in self._products)

    def rdp(self, alpha: float) -> float:
        """Return the Renyi divergence of order alpha > 1, or inf."""
        if self.failure:
            return math.inf
        if alpha == math.inf:
            return self.pure
        return max(one.rdp(float(alpha)) for one in self._products)

    def delta(self, epsilon: float) -> float:
        """Return the smallest known delta for which (epsilon, delta) holds."""
        return self._worst(positive_number(epsilon, "epsilon", zero=True), 0.0)

    @cached_property
    def _pairs(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Many epsilons, and the delta of each of them.

        Where something may fail, the last one leaves nothing but failures.
        """
        reach = self.epsilon(min(max(1e-9, 2 * self.failure), 0.5))
        levels = np.linspace(0.0, min(reach, 700.0), 65)
        if self.failure and self.pure < 700.0:
            levels = np.append(levels, self.pure)
        deltas = np.array([self.delta(level) for level in levels.tolist()])
        return levels, deltas

    def _worst(self, epsilon: float, least: float) -> float:
        """Return the largest delta of a move, or `least` if none is larger."""
        bounded = [(one.ceiling(epsilon), one) for one in self._products]
        bounded.sort(key=lambda pair: -pair[0])
        worst = least
        for rank, (ceiling, one) in enumerate(bounded):
            if ceiling <= worst:
                break
            if rank == _EVALUATED:
                return ceiling
            worst = max(one.delta(epsilon), worst)  # nan, if it were one, stays
        return worst

    def epsilon(self, delta: float) -> float:
        """Return the smallest known epsilon for which (epsilon, delta) holds, or inf."""
        delta = checked_delta(delta)
        if delta <= self.failure:
            return self.pure if delta == self.failure else math.inf
        if self._holds(0.0, delta):
            return 0.0
        holds = partial(self._holds, delta=delta)
        found = smallest(holds, 0.0, 1.0, tolerance=1e-12, limit=LARGEST_SIZE)
        return min(found, self.pure)

    def _holds(self, epsilon: float, delta: float) -> bool:
        """Return whether (epsilon, delta) is known to hold, asking for no more."""
        return self._worst(epsilon, delta) <= delta

    def satisfies(self, budget: PrivacyBudget) -> bool:
        """Return whether a budget holds, its pair or its GDP for the whole curve."""
        if budget.gdp is not None:
            if not budget.leak:
                return self.gdp <= budget.gdp
            return self.shift <= budget.gdp and self.failure <= budget.leak
        epsilon, delta = budget.pair
        if self._holds(epsilon, delta):
            return True
        if self.kinds != (GAUSSIAN,) or delta < SMALLEST:
            return False
        # designs fill a budget up to this shift
        return epsilon <= LARGEST_EPSILON and self.gdp <= budget.shift()

    def within(self, walls: Iterable[Wall]) -> PrivacyLoss:
        """Return the loss of the same Gaussian noise, kept within walls."""
        kept = _merged((wall, 1) for wall in walls)
        rows = tuple(replace(row, walls=kept) for row in self.rows)
        return replace(self, rows=rows, attained=False)


def one_coordinate(epsilon: float) -> PrivacyLoss:
    """Return the loss of one Laplace coordinate, which bounds all of this pure epsilon.

    Along a path from one data set to its neighbour the probability p of any event obeys p'
    <= min(p, 1 - p) per unit of pure epsilon. The flow of p' = min(p, 1 - p) is the shift
    of a Laplace law along its quantiles, the trade-off curve of one coordinate.
    """
    row = Product(_row(np.array([epsilon])))
    return PrivacyLoss((row,), ((),), (LAPLACE,), attained=False)


def _row(shifts: NDArray[np.float64]) -> tuple[tuple[float, int], ...]:
    """Return positive shifts with their counts, largest first."""
    return _merged((shift, 1) for shift in shifts[shifts > 0].tolist())


# -- losses together -----------------------------------------------------------------


def composed(first: PrivacyLoss, second: PrivacyLoss) -> PrivacyLoss:
    """Return the loss of two releases of the same secret together.

    It is attained where noise of one kind is, and some move attains both losses.
    """
    aligned = first.aligned and second.aligned
    is_alike = aligned and len(first.rows) == len(second.rows)
    if not is_alike and len(first.rows) > 1 and len(second.rows) > 1:
        is_of_blocks = _differs_in_blocks(first) or _differs_in_blocks(second)
        if is_of_blocks and len(first.rows) * len(second.rows) <= _EVALUATED:
            return _paired(first, second)
        return composed(_one_row(first), _one_row(second))
    if len(first.rows) < len(second.rows):
        first, second = second, first
    rows = []
    moves = []
    attained = first.attained and second.attained and first.kinds == second.kinds
    theirs = cycle(zip(second.rows, second.moves, strict=True))
    own = zip(first.rows, first.moves, strict=True)
    for (row, names), (other, its_names) in zip(own, theirs, strict=False):
        both = row + other
        shared = set(names) & set(its_names)
        attained &= bool(shared) or both in (row, other)
        rows.append(both)
        moves.append(tuple(sorted(shared)))
    return PrivacyLoss(
        tuple(rows),
        tuple(moves),
        tuple(kind for kind in _KINDS if kind in first.kinds + second.kinds),
        attained,
        aligned,
        first.proportional and second.proportional,
    )


def _paired(first: PrivacyLoss, second: PrivacyLoss) -> PrivacyLoss:
    """Return the loss of two releases whose rows stand for moves each in its own way.

    A move is within some row of the first and some row of the second.
    """
    alone = [replace(first, rows=(row,), moves=((),)) for row in first.rows]
    both = [row for one in alone for row in composed(one, second).rows]
    rows = tuple(dict.fromkeys(both))
    known = composed(alone[0], second)
    return replace(known, rows=rows, moves=((),) * len(rows), attained=False)


def _differs_in_blocks(loss: PrivacyLoss) -> bool:
    """Return whether moves come with different shifts of radial noise."""
    return any(row.radial != loss.rows[0].radial for row in loss.rows)


def _one_row(loss: PrivacyLoss) -> PrivacyLoss:
    """Return one row that bounds all moves, with one coordinate for those of Laplace."""
    largest = float_up(max(_decimal_sum(row.shifts) for row in loss.rows))
    shifts = _row(np.array([largest]))
    row = replace(loss.rows[0], shifts=shifts, radial=_one_radial(loss.rows))
    return anonymous(replace(loss, rows=(row,)))


def _one_radial(
    rows: Sequence[Product],
) -> tuple[tuple[tuple[float, int, float], int], ...]:
    """Return radial shifts that bound those of each row.

    Those in which rows differ are taken for numbers of Laplace noise, which show at least
    as much. The k-th largest one is that of the row where it is largest.
    """
    counted = [Counter(dict(row.radial)) for row in rows]
    shared = reduce(and_, counted)
    tables = []
    for own in counted:
        left = sorted(((law[0], n) for law, n in (own - shared).items()), reverse=True)
        tables.append(np.array(left, float).reshape(-1, 2).T)
    ends = np.unique(np.concatenate([counts.cumsum() for _, counts in tables]))
    starts = np.append(0.0, ends)[:-1]
    largest = np.zeros(len(ends))
    for sizes, counts in tables:
        places = np.searchsorted(counts.cumsum(), starts, side="right")
        largest = np.maximum(largest, np.append(sizes, 0.0)[places])
    lengths = (ends - starts).astype(int)
    others = zip(largest.tolist(), lengths.tolist(), strict=True)
    return _merged([*shared.items(), *(((size, 1, math.inf), n) for size, n in others)])


def _merged_moves(moves: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """Return fewer moves (blocks,), one of which each move does not exceed in any block.

    Moves come with decreasing sums, and none grows its own by more than a little.
    """
    merged: list[NDArray[np.float64]] = []
    most: list[float] = []
    for move in moves:
        for place, other in enumerate(merged):
            both = np.maximum(move, other)
            if both.sum() <= most[place]:
                merged[place] = both
                break
        else:
            merged.append(move)
            most.append(float(move.sum()) * (1 + _MERGED))
    return merged


def scaled(
    loss: PrivacyLoss, factor: Fraction, nearer: float | None = None
) -> PrivacyLoss:
    """Return the loss for moves `factor` times as large, see `Product.scaled`."""
    if factor == 1:
        return loss
    rows = tuple(row.scaled(factor, loss.proportional, nearer) for row in loss.rows)
    return replace(loss, rows=rows, attained=loss.attained and loss.proportional)


def anonymous(loss: PrivacyLoss) -> PrivacyLoss:
    """Drop the numbers of the moves, which are not those of another secret."""
    moves = ((),) * len(loss.rows)
    return replace(loss, moves=moves, aligned=False, attained=False)


def by_kind(loss: PrivacyLoss) -> tuple[PrivacyLoss, ...]:
    """Return losses of one kind of noise each."""
    if len(loss.kinds) == 1:
        return (loss,)
    parts = []
    for kind in loss.kinds:
        name = _KINDS[kind]
        names = (name, "walls") if kind == GAUSSIAN else (name,)
        rows = tuple(
            Product(**{each: getattr(row, each) for each in names}) for row in loss.rows
        )
        if kind not in (LAPLACE, RADIAL):  # in all rows alike
            rows = rows[:1]
        moves = loss.moves[: len(rows)]
        parts.append(replace(loss, rows=rows, moves=moves, kinds=(kind,)))
    return tuple(parts)


# -- what is known of a loss ---------------------------------------------------------


def family_in_words(loss: PrivacyLoss) -> str:
    """Return the kinds of noise, without boxes that represent assumptions about it."""
    answers = any(epsilon for (epsilon, _), _ in loss.rows[0].boxes)
    names = [name for name in loss.kinds if name != BLACK_BOX or answers]
    *others, last = names or [BLACK_BOX]
    return f"{', '.join(others)} and {last}" if others else last


def worst_moves(loss: PrivacyLoss) -> tuple[int, ...]:
    """Return the hidden moves that are known as worst, those with the largest shifts."""
    largest = max(row.largest for row in loss.rows)
    worst: set[int] = set()
    for row, moves in zip(loss.rows, loss.moves, strict=True):
        if row.largest == largest:
            worst.update(moves)
    return tuple(sorted(worst))


def exact_measures(loss: PrivacyLoss) -> tuple[str, ...]:
    """Return the names of the privacy measures that a hidden move attains."""
    if not loss.attained:
        return ()
    if not all(one._closed for one in loss._products):
        return ("rdp", "zcdp")
    measures = ("delta", "epsilon", "rdp", "zcdp")
    return (*measures, "gdp") if loss.kinds == (GAUSSIAN,) else measures


def attains(loss: PrivacyLoss, delta: float) -> bool:
    """Return whether a hidden move attains `epsilon` at this delta."""
    return "epsilon" in exact_measures(loss) or (delta == 0 and loss.attained)


def detection(loss: PrivacyLoss, false_alarm: float) -> float:
    """Return how often a test with this rate of false alarms detects a move at most.

    (epsilon, delta) bounds it by exp(epsilon) a + delta and by 1 - exp(-epsilon) (1 -
    a - delta). The least over many epsilon is returned, and never more than mu of
    Gaussian differential privacy allows.
    """
    if any(row.walls for row in loss.rows) and loss.kinds == (GAUSSIAN,):
        # F32: the laws share 1 - leak, and are y-GDP there
        leak, kept = loss.failure, 1 - loss.failure
        if false_alarm >= kept:
            return 1.0
        shared = gaussian_detection(min(false_alarm / kept, 1 - EPS), loss.shift)
        return min((leak + kept * shared) * (1 + 8 * EPS), 1.0)
    levels, deltas = loss._pairs
    odds = np.exp(levels)
    by_false_alarms = odds * false_alarm + deltas
    by_misses = 1 - (1 - false_alarm - deltas) / odds + 4 * EPS
    least = float(np.minimum(by_false_alarms, by_misses).min())
    if loss.gdp < math.inf:
        least = min(least, gaussian_detection(false_alarm, loss.gdp))
    least = max(least * (1 + 8 * EPS), false_alarm)
    return min(least, 1.0)


def gaussian_detection(false_alarm: float, y: float) -> float:
    """Return Phi(Phi^-1(false_alarm) + y), rounded up."""
    quantile = float(ndtri(false_alarm))
    slack = 8 * EPS * (1 + abs(quantile) + y)
    power = float(ndtr(quantile + y + slack))
    return min(power * (1 + 16 * EPS), 1.0)
