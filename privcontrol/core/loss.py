"""The privacy losses of releases, the numbers behind a guarantee.

A loss is frozen data about one family of noise, or about several released together.
Each of its numbers is exact or an upper bound. The full curve delta(epsilon) of several
Laplace coordinates, of black boxes and of mixtures comes from the privacy-loss
distributions of dp-accounting (extra ``accounting``), rounded up. Without it the least of
several closed-form upper bounds stands in. All other numbers have a closed form.

Sizes accumulate as exact rationals and are rounded once, so that releases which fill a
budget to the last digit are neither refused nor let through.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri, ndtri_exp

from ._linalg import (
    EPS,
    column_norms,
    positive_integer,
    positive_number,
    real_array,
    round_up,
    smallest,
)
from .budget import PrivacyBudget
from .calibration import LARGEST_EPSILON, SMALLEST_DELTA, kappa_upper

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import PLDPmf

#: Most numbers of a Laplace loss for which every hidden move is kept. Of more, one
#: coordinate is the bound.
_KEPT = 1 << 16
#: Most moves that are looked for among all as those that no other one dominates.
_UNDOMINATED = 1024
#: Most moves whose curve is evaluated; the closed-form bound stands in for the others.
_EVALUATED = 64
#: Most coordinates of moves that are compared with each other.
_EXPANDED = 128
#: Points of a discretised loss within a standard deviation, and the most of all.
_RESOLUTION = 1024
_POINTS = 1 << 17
#: What the rounding errors of a Fourier transform may take from a delta.
_TRANSFORM = 1e-12
#: The tail of a discretised loss that is counted as failure.
_TAIL = 1e-15
#: Epsilon above which no smaller one is looked for.
_LARGEST = 1e6


# -- rationals and rounding ----------------------------------------------------------


def decimal(value: float) -> Fraction:
    """Return the decimal that a float prints as, so that ten times 0.1 make one."""
    return Fraction(repr(float(value)))


def float_up(value: Fraction) -> float:
    """Return the smallest float that, read as a decimal, is not below a rational."""
    nearest = float(value)
    if decimal(nearest) >= value:
        return nearest
    return math.nextafter(nearest, math.inf)


def root_up(value: Fraction) -> float:
    """Return the smallest float whose square is not below a rational."""
    if value == 0:
        return 0.0
    bits = value.numerator.bit_length() - value.denominator.bit_length()
    shift = bits // 2
    root = math.ldexp(math.sqrt(value / Fraction(4) ** shift), shift)
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    while Fraction(math.nextafter(root, 0.0)) ** 2 >= value:
        root = math.nextafter(root, 0.0)
    return root


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
    """One independent part of a release, about which a hidden move tells something.

    Its two laws may be exchanged, so that one curve serves both directions. Every number
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
    def delta(self, levels: ArrayLike) -> NDArray:
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

    def delta(self, levels: ArrayLike) -> NDArray:
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

    @abstractmethod
    def log_moment(self, order: float) -> float:
        """Return the log of E exp((order - 1) loss)."""

    def rdp(self, order: float) -> float:
        spread = order * self.size
        slack = 8 * EPS * (1 + spread)
        moment = self.log_moment(order) + slack
        divergence = moment / (order - 1)
        by_rho = order * self.zcdp * (1 + 4 * EPS)
        return min(divergence, by_rho, self.size)


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
            rho = shift * shift / 2 * series
            return rho * (1 + 8 * EPS)
        rho = shift + math.expm1(-shift)
        return rho * (1 + 1e-12)

    def log_moment(self, order: float) -> float:
        # Mironov (2017), Table II
        inverse = 1 / order
        share = 2 - inverse
        odds = (1 - inverse) / share
        likely = (order - 1) * self.size - math.log(share)
        unlikely = math.log(odds) - order * self.size
        return float(np.logaddexp(likely, unlikely))

    def delta(self, levels: ArrayLike) -> NDArray:
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

    def log_moment(self, order: float) -> float:
        unlikely = math.log1p(math.exp((1 - 2 * order) * self.size))
        odds = math.log1p(math.exp(-self.size))
        return (order - 1) * self.size + unlikely - odds

    def delta(self, levels: ArrayLike) -> NDArray:
        missing = np.minimum(np.subtract(levels, self.size), 0.0)
        odds = 1 + math.exp(-self.size)
        return np.abs(np.expm1(missing)) / odds * (1 + 8 * EPS)


# -- one product of releases ---------------------------------------------------------


@dataclass(frozen=True)
class Product:
    """What one hidden move costs in independent releases.

    Of black boxes only (epsilon, delta) is known. The worst of them fails openly with
    probability delta, and is randomised response otherwise.
    """

    shifts: tuple = ()  # (Laplace shift over scale, count)
    gaussian: float = 0.0  # Gaussian shift over standard deviation
    boxes: tuple = ()  # (epsilon, delta, count)

    @cached_property
    def bounded(self) -> tuple[tuple[Coordinate, int], ...]:
        """The coordinates of bounded loss, each with how often it occurs."""
        laplace = [(LaplaceShift(shift), count) for shift, count in self.shifts]
        answers = [(Response(e), count) for e, _, count in self.boxes if e > 0]
        return (*laplace, *answers)

    @cached_property
    def coordinates(self) -> tuple[tuple[Coordinate, int], ...]:
        """All coordinates, each with how often it occurs."""
        if self.gaussian > 0:
            return (*self.bounded, (GaussianShift(self.gaussian), 1))
        return self.bounded

    @cached_property
    def failure(self) -> float:
        """The probability that some black box fails, rounded up."""
        return self.failing(0.0)

    @cached_property
    def _failures(self) -> tuple[float, float]:
        """The probability 1 - prod(1 - delta) of black boxes, and that of assumptions.

        Boxes of epsilon = 0 stand for assumptions, such as that a run stays in a region.
        They may fail together with anything else, so that their probabilities are added.
        """
        independent: list[tuple[float, int]] = []
        assumed: list[tuple[float, int]] = []
        for epsilon, delta, count in self.boxes:
            kind = independent if epsilon > 0 else assumed
            kind.append((delta, count))
        added = float_up(_decimal_sum(assumed))
        if 1.0 in dict(independent):
            return 1.0, added
        total = float_up(_decimal_sum(independent))
        logs = [count * math.log1p(-delta) for delta, count in independent]
        log_rest = math.fsum(logs)
        joint = -math.expm1(log_rest) * (1 + 8 * EPS)
        return float(min(total, joint, 1.0)), added

    def failing(self, delta: float) -> float:
        """Return the delta of all, from that of all but failures, rounded up."""
        independent, added = self._failures
        if delta > 0:
            joint = independent + (1 - independent) * min(delta, 1.0)
            independent = joint * (1 + 4 * EPS)
        total = independent + added
        if independent > 0 and added > 0:
            total *= 1 + 2 * EPS
        return float(min(total, 1.0))

    @cached_property
    def largest(self) -> Fraction:
        """The largest loss of all that is not Gaussian, exactly."""
        return _decimal_sum((one.size, count) for one, count in self.bounded)

    @cached_property
    def pure(self) -> float:
        """The epsilon at which only the failures remain, or inf beside Gaussian noise."""
        if self.gaussian > 0:
            return math.inf
        return float_up(self.largest)

    @cached_property
    def gdp(self) -> float:
        """mu given that no black box fails, the root of the sum of squares."""
        sizes = [math.sqrt(count) * one.gdp for one, count in self.coordinates]
        return math.hypot(*sizes) * (1 + 16 * EPS)

    @cached_property
    def zcdp(self) -> float:
        """rho given that no black box fails, the sum, above what may underflow."""
        parts = [count * one.zcdp for one, count in self.coordinates]
        least = 1e-300 if parts else 0.0
        return math.fsum(parts) * (1 + 8 * EPS) + least

    def rdp(self, order: float) -> float:
        """Return the Renyi divergence given that no black box fails."""
        parts = [count * one.rdp(order) for one, count in self.coordinates]
        least = order * 1e-300 if parts else 0.0
        return math.fsum(parts) * (1 + 8 * EPS) + least

    @property
    def closed(self) -> bool:
        """Whether `ceiling` is the curve itself, that of one coordinate."""
        return not self.boxes and sum(count for _, count in self.coordinates) <= 1

    def ceiling(self, epsilon: float) -> float:
        """Return the least of several closed-form upper bounds of delta."""
        if epsilon >= self.pure:
            return self.failure
        if self.closed:
            one, _ = self.coordinates[0]
            return float(one.delta(epsilon))
        bounds = [1.0, float(kappa_upper(epsilon, self.gdp))]
        if self.gaussian == 0:
            # a response bounds every pure epsilon, and one coordinate every Laplace one
            kind = Response if self.boxes else LaplaceShift
            bounds.append(float(kind(self.pure).delta(epsilon)))
        elif epsilon > float_up(self.largest):
            left = math.nextafter(epsilon - float_up(self.largest), 0.0)
            bounds.append(float(kappa_upper(left, self.gaussian)))
        return self.failing(max(min(bounds), SMALLEST_DELTA))

    def delta(self, epsilon: float) -> float:
        """Return an upper bound of delta, sharp where dp-accounting is installed."""
        least = self.ceiling(epsilon)
        if self.closed or epsilon >= self.pure:
            return least
        distribution = _distribution(self)
        if distribution is None:
            return least
        sharper = float(distribution.get_delta_for_epsilon(epsilon))
        sharper = max(sharper * (1 + 1e-9) + _TRANSFORM, SMALLEST_DELTA)
        return min(least, self.failing(sharper))

    def holds(self, epsilon: float, delta: float) -> bool:
        """Return whether (epsilon, delta) is known to hold, asking for no more."""
        return self.ceiling(epsilon) <= delta or self.delta(epsilon) <= delta

    def least_epsilon(self, delta: float, low: float) -> float:
        """Return the smallest known epsilon that is not below `low`."""
        if self.holds(low, delta):
            return low

        def holds(epsilon: float) -> bool:
            return self.holds(epsilon, delta)

        first = max(2 * low, 1.0)
        found = smallest(holds, low, first, tolerance=1e-12, limit=_LARGEST)
        return min(found, self.pure)


# -- privacy-loss distributions ------------------------------------------------------


@lru_cache(maxsize=32)
def _distribution(releases: Product) -> PLDPmf | None:
    """Return the discretised loss, given that no black box fails.

    The grid is a power of two, so that parts of a growing product are in the cache.
    Returns None if dp-accounting is not installed.
    """
    spread = math.sqrt(2 * releases.zcdp)
    step = spread / _RESOLUTION
    if releases.bounded:
        number = sum(count for _, count in releases.bounded)
        squares = sum(count * one.size * one.size for one, count in releases.bounded)
        step = min(step, 16 * math.sqrt(squares / number) / _RESOLUTION)
    likely = min(float(releases.largest), 12 * spread + spread**2)
    total = likely + 20 * releases.gaussian
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
            pmf = pmf.self_compose(count, tail_mass_truncation=_TAIL)
        if joint is None:
            joint = pmf
        else:
            joint = joint.compose(pmf, tail_mass_truncation=_TAIL)
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


class PrivacyLoss(ABC):
    """The trade-off curve of a release. A subclass is one family of laws."""

    #: Name of the family.
    family: str
    #: Whether delta(epsilon) is attained by a hidden move.
    exact: bool
    #: Indices of the hidden moves that are worst.
    active: tuple
    #: Whether a shift is linear in the size of the move, see `scaled`.
    proportional = True

    @abstractmethod
    def products(self) -> Iterable[Product]:
        """Return what each hidden move costs, or bounds of it."""

    def combine(self, other: Self) -> PrivacyLoss:
        """Return the loss of both releases together, `other` of the same family."""
        return composed(self, other)

    @abstractmethod
    def repeated(self, count: int) -> PrivacyLoss:
        """Return the loss of `count` releases by this very mechanism."""

    @abstractmethod
    def scaled(self, factor: Fraction) -> PrivacyLoss:
        """Return the loss for moves `factor` (a rational) times as large."""

    def to_dict(self) -> dict:
        """Return a JSON-ready form, from which `loss_from_dict` restores the loss."""
        own: Any = self  # subclasses are dataclasses, this base is none
        data = {"family": self.family}
        for field in fields(own):
            data[field.name] = _as_lists(getattr(self, field.name))
        return data

    @classmethod
    def from_dict(cls, data: dict) -> Self:
        """Return the loss that `to_dict` wrote."""
        own: Any = cls
        values = {field.name: _as_tuples(data[field.name]) for field in fields(own)}
        return cls(**values)

    def anonymous(self) -> PrivacyLoss:
        """Drop the numbers of the moves, which are not those of another secret."""
        return self

    @property
    def parts(self) -> tuple[PrivacyLoss, ...]:
        """Losses of one family each."""
        return (self,)

    @property
    def exact_measures(self) -> tuple[str, ...]:
        """Names of the privacy measures that a hidden move attains."""
        return ("delta", "epsilon", "rdp", "zcdp") if self.exact else ()

    def attains(self, delta: float) -> bool:
        """Return whether a hidden move attains `epsilon` at this delta."""
        return self.exact

    @cached_property
    def _products(self) -> tuple[Product, ...]:
        return tuple(dict.fromkeys(self.products()))

    @cached_property
    def pure(self) -> float:
        """The epsilon at which only failures remain, rounded up."""
        return max(one.pure for one in self._products)

    @cached_property
    def failure(self) -> float:
        """The delta below which no epsilon is finite (but for delta = 0)."""
        return max(one.failure for one in self._products)

    @cached_property
    def gdp(self) -> float:
        """mu of Gaussian differential privacy, or inf where a black box may fail."""
        if self.failure:
            return math.inf
        return max(one.gdp for one in self._products)

    @cached_property
    def zcdp(self) -> float:
        """rho of zero-concentrated differential privacy, or inf."""
        if self.failure:
            return math.inf
        return max(one.zcdp for one in self._products)

    def rdp(self, alpha: float) -> float:
        """Return the Renyi divergence of order alpha > 1, or inf."""
        if self.failure:
            return math.inf
        if alpha == math.inf:
            return self.pure
        order = float(alpha)
        return max(one.rdp(order) for one in self._products)

    def delta(self, epsilon: float) -> float:
        """Return the smallest known delta for which (epsilon, delta) holds."""
        epsilon = positive_number(epsilon, "epsilon", zero=True)
        bounded = [(one.ceiling(epsilon), one) for one in self._products]
        bounded.sort(key=lambda pair: -pair[0])
        worst = 0.0
        for rank, (ceiling, one) in enumerate(bounded):
            if ceiling <= worst:
                break
            if rank == _EVALUATED:
                return ceiling
            worst = max(worst, one.delta(epsilon))
        return worst

    def epsilon(self, delta: float) -> float:
        """Return the smallest known epsilon for which (epsilon, delta) holds, or inf."""
        delta = checked_delta(delta)
        if delta <= self.failure:
            return self.pure if delta == self.failure else math.inf
        epsilon = 0.0
        for one in sorted(self._products, key=lambda one: -one.zcdp):
            epsilon = one.least_epsilon(delta, epsilon)
        return epsilon

    def satisfies(self, budget: PrivacyBudget) -> bool:
        """Return whether a budget holds, its pair or its GDP for the whole curve."""
        if budget.gdp is not None:
            return self.gdp <= budget.gdp
        epsilon, delta = budget.pair
        undecided = [one for one in self._products if one.ceiling(epsilon) > delta]
        if len(undecided) > _EVALUATED:
            return False
        return all(one.delta(epsilon) <= delta for one in undecided)

    def detection(self, false_alarm: float) -> float:
        """Return how often a test with this rate of false alarms detects a move at most.

        (epsilon, delta) bounds it by exp(epsilon) a + delta and by 1 - exp(-epsilon) (1 -
        a - delta). The least over many epsilon is returned, and never more than mu of
        Gaussian differential privacy allows.
        """
        levels, deltas = self._curve
        odds = np.exp(levels)
        by_false_alarms = odds * false_alarm + deltas
        by_misses = 1 - (1 - false_alarm - deltas) / odds
        least = float(np.minimum(by_false_alarms, by_misses).min())
        if self.gdp < math.inf:
            least = min(least, gaussian_detection(false_alarm, self.gdp))
        least = max(least * (1 + 8 * EPS), false_alarm)
        return min(least, 1.0)

    @cached_property
    def _curve(self) -> tuple[NDArray, NDArray]:
        """Some epsilon, as far as they tell something, and their delta."""
        delta = min(max(1e-9, 2 * self.failure), 0.5)
        reach = self.epsilon(delta)
        if not math.isfinite(reach):
            reach = 1.0
        levels = np.linspace(0.0, min(reach, 700.0), 65)
        deltas = [self.delta(float(level)) for level in levels]
        return levels, np.array(deltas)


def gaussian_detection(false_alarm: float, y: float) -> float:
    """Return Phi(Phi^-1(false_alarm) + y), rounded up."""
    quantile = float(ndtri(false_alarm))
    slack = 8 * EPS * (1 + abs(quantile) + y)
    power = float(ndtr(quantile + y + slack))
    power = power * (1 + 16 * EPS)
    return min(power, 1.0)


@dataclass(frozen=True)
class GaussianLoss(PrivacyLoss):
    """The loss of a Gaussian mechanism, which is exactly y-GDP (DPAM eq. (7)).

    Two releases compose exactly if one move is worst in both. Otherwise sqrt(y1^2 + y2^2)
    is an upper bound. ``proportional`` says that y is linear in the size of the move, as
    for affine queries and Lipschitz bounds, and not known at one radius only.
    """

    gdp: float = 0.0  # y
    active: tuple = ()  # the hidden moves that attain y
    exact: bool = True
    proportional: bool = True
    square: Fraction = Fraction(0)  # the exact sum of squares behind y
    family = "Gaussian"

    def __post_init__(self) -> None:
        y = positive_number(self.gdp, "gdp", zero=True)
        square = Fraction(self.square) or Fraction(y) ** 2
        if Fraction(y) ** 2 < square:
            raise ValueError(
                f"gdp: expected at least the root of the sum of squares, got {y}"
            )
        object.__setattr__(self, "gdp", y)
        object.__setattr__(self, "square", square)

    @classmethod
    def from_dict(cls, data: dict) -> GaussianLoss:
        if "e" in str(data["square"]).lower():
            raise ValueError(
                "square: expected a fraction of integers, got another text"
            )
        return super().from_dict(data)

    @classmethod
    def of_columns(cls, shifts: NDArray, active: tuple[int, ...] = ()) -> GaussianLoss:
        """Return the loss of the longest column of shifts (r, M), its square exact."""
        norms = column_norms(shifts)
        longest = shifts[:, norms >= norms.max() * (1 - 1e-12)]
        sums = []
        for column in longest.T.tolist():
            squares = [Fraction(a) ** 2 for a in column]
            sums.append(sum(squares, Fraction(0)))
        square = max(sums)
        return cls(root_up(square), active, square=square)

    def products(self) -> Iterable[Product]:
        return (Product(gaussian=self.gdp),)

    @property
    def exact_measures(self) -> tuple[str, ...]:
        return (*super().exact_measures, "gdp") if self.exact else ()

    def satisfies(self, budget: PrivacyBudget) -> bool:
        if super().satisfies(budget):
            return True
        if budget.gdp is not None or budget.pair[1] < SMALLEST_DELTA:
            return False
        # designs fill a budget up to this shift
        return budget.pair[0] <= LARGEST_EPSILON and self.gdp <= budget.shift()

    def combine(self, other: Self) -> GaussianLoss:
        shared = set(self.active) & set(other.active)
        square = self.square + other.square
        exact = self.exact and other.exact
        exact &= bool(shared) or 0 in (self.square, other.square)
        return GaussianLoss(
            root_up(square),
            tuple(sorted(shared)),
            exact,
            self.proportional and other.proportional,
            square,
        )

    def repeated(self, count: int) -> GaussianLoss:
        square = self.square * positive_integer(count, "count")
        return replace(self, gdp=root_up(square), square=square)

    def scaled(self, factor: Fraction) -> GaussianLoss:
        exact = self.exact and (self.proportional or factor == 1)
        if not self.proportional:
            # a path of ceil(factor) steps, each no longer than the known one
            factor = Fraction(max(1, math.ceil(factor)))
        square = self.square * factor**2
        return replace(self, gdp=root_up(square), exact=exact, square=square)

    def as_bound(self) -> GaussianLoss:
        """Return the same numbers as upper bounds."""
        return replace(self, exact=False)

    def anonymous(self) -> GaussianLoss:
        return replace(self, active=(), exact=False)


@dataclass(frozen=True)
class LaplaceLoss(PrivacyLoss):
    """The loss of a Laplace mechanism (DPAM Theorem 2).

    Which move is worst depends on epsilon. So one row of shifts is kept for each move,
    and releases compose move by move.

    Moves in the hull of the given ones cost no more. The minimum of the densities p(x)
    and e^eps p(x - s) is log-concave in (x, s), hence so is its integral over x, which is
    1 - delta (Prekopa). The Renyi divergences are convex in s.
    """

    rows: tuple  # for each move (shift over scale, count), rounded up, largest first
    moves: tuple  # for each row the move that attains it, or -1 for a bound
    aligned: bool = True  # whether there is a row for every hidden move, in order
    attained: bool = True  # whether every row is attained
    family = "Laplace"

    @classmethod
    def of(cls, shifts: ArrayLike, *, exact: bool = True) -> LaplaceLoss:
        """Return the loss of shifts over scales (r, M), a column for each hidden move.

        ``exact=False`` marks columns that are bounds.
        """
        columns = np.abs(real_array(shifts, "shifts", ndim=2)).T
        count = len(columns)
        moves = tuple(range(count)) if exact else (-1,) * count
        if np.count_nonzero(columns) > _KEPT:
            largest = max(_decimal_sum(_row(column)) for column in columns)
            worst = columns.sum(axis=1).argmax()
            bound = one_coordinate(float_up(largest))
            return replace(bound, moves=(moves[worst],), aligned=False)
        rows = tuple(map(_row, columns))
        return cls(rows, moves, attained=exact)

    def products(self) -> Iterable[Product]:
        return (Product(row) for row in self.worst_rows)

    @cached_property
    def worst_rows(self) -> tuple:
        """Rows that no other one dominates, as far as that is cheap to tell."""
        rows = tuple(dict.fromkeys(self.rows))
        length = max(sum(count for _, count in row) for row in rows)
        if len(rows) < 3 or length > _EXPANDED:
            return rows
        columns = np.zeros((len(rows), length))
        for place, row in enumerate(rows):
            shifts: list[float] = []
            for shift, count in row:
                shifts += [shift] * count
            columns[place, : len(shifts)] = shifts
        kept = _undominated(columns)
        return tuple(rows[place] for place in kept)

    @cached_property
    def exact(self) -> bool:  # type: ignore[override]
        return self.attained and all(one.closed for one in self._products)

    @property
    def exact_measures(self) -> tuple[str, ...]:
        if self.exact:
            return super().exact_measures
        return ("rdp", "zcdp") if self.attained else ()

    def attains(self, delta: float) -> bool:
        return self.exact or (delta == 0 and self.attained)

    @cached_property
    def active(self) -> tuple:  # type: ignore[override]
        """The hidden moves with the largest sum of shifts."""
        sums = {row: Product(row).largest for row in set(self.rows)}
        largest = max(sums.values())
        worst = set()
        for row, move in zip(self.rows, self.moves):
            if move >= 0 and sums[row] == largest:
                worst.add(move)
        return tuple(sorted(worst))

    def combine(self, other: Self) -> LaplaceLoss:
        are_single = len(self.rows) == len(other.rows) == 1
        aligned = self.aligned and other.aligned
        if not are_single and not (aligned and len(self.rows) == len(other.rows)):
            largest = decimal(self.pure) + decimal(other.pure)
            return one_coordinate(float_up(largest))
        rows = []
        for mine, theirs in zip(self.rows, other.rows):
            shifts = Counter(dict(mine))
            shifts.update(dict(theirs))
            rows.append(tuple(sorted(shifts.items(), reverse=True)))
        both = LaplaceLoss(tuple(rows), self.moves, aligned)
        if self.moves != other.moves:
            return both.anonymous()
        return replace(both, attained=self.attained and other.attained)

    def repeated(self, count: int) -> LaplaceLoss:
        count = positive_integer(count, "count")
        rows = tuple(tuple((a, n * count) for a, n in row) for row in self.rows)
        return replace(self, rows=rows)

    def scaled(self, factor: Fraction) -> LaplaceLoss:
        if factor == 1:
            return self
        size = float(factor)
        rows = []
        for row in self.rows:
            rows.append(tuple((float(round_up(a * size, 2)), n) for a, n in row))
        return replace(self, rows=tuple(rows))

    def as_bound(self) -> LaplaceLoss:
        """Return the same numbers as upper bounds."""
        return replace(self, attained=False)

    def renumbered(self, moves: tuple[int, ...]) -> LaplaceLoss:
        """Name the moves by the entries of `moves`, which are not all there are."""
        named = tuple(moves[i] if i >= 0 else -1 for i in self.moves)
        return replace(self, moves=named, aligned=False)

    def anonymous(self) -> LaplaceLoss:
        moves = (-1,) * len(self.moves)
        return replace(self, moves=moves, aligned=False, attained=False)

    @classmethod
    def from_dict(cls, data: dict) -> LaplaceLoss:
        loss = super().from_dict(data)
        for shift, count in (pair for row in loss.rows for pair in row):
            positive_number(shift, "shift")
            positive_integer(count, "count")
        return loss


def one_coordinate(epsilon: float) -> LaplaceLoss:
    """Return the loss of one Laplace coordinate, which bounds all of this pure epsilon.

    Along a path from one data set to its neighbour the probability p of any event obeys p'
    <= min(p, 1 - p) per unit of pure epsilon. The flow of p' = min(p, 1 - p) is the shift
    of a Laplace law along its quantiles, the trade-off curve of one coordinate.
    """
    return LaplaceLoss((_row(np.array([epsilon])),), (-1,), attained=False)


def _row(shifts: NDArray) -> tuple:
    """Return positive shifts with their counts, largest first."""
    counted = Counter(shifts[shifts > 0].tolist())
    return tuple(sorted(counted.items(), reverse=True))


def _undominated(columns: NDArray) -> list[int]:
    """Return the rows (J, r) that no other row dominates, and more if they are many.

    A coordinate with the smaller shift is a post-processing of the larger one, and the
    order of independent coordinates does not matter. So sorted rows are compared.
    """
    rows = -np.sort(-columns, axis=1)
    left = np.argsort(-rows.sum(axis=1), kind="stable")
    kept: list[int] = []
    while left.size and len(kept) < _UNDOMINATED:
        kept.append(int(left[0]))
        above = (rows[left] > rows[left[0]]).any(axis=1)
        left = left[above]
    return kept + left.tolist()


@dataclass(frozen=True)
class BlackBoxLoss(PrivacyLoss):
    """The loss of releases of which only (epsilon, delta) is known, composed optimally.

    The worst mechanism of (epsilon, delta) fails openly with probability delta and
    otherwise is randomised response. Their product bounds delta(epsilon) of all
    mechanisms of these numbers, whatever they are composed with (Kairouz, Oh and
    Viswanath 2015; Zhu, Dong and Wang 2022, Theorem 10).
    """

    pairs: tuple  # distinct (epsilon, delta, count), decimals as they print, sorted
    family = "black-box"
    proportional = False
    exact = False
    active = ()

    def __post_init__(self) -> None:
        total: Counter = Counter()
        for epsilon, delta, count in self.pairs:
            epsilon = positive_number(epsilon, "epsilon", zero=True)
            delta = positive_number(delta, "delta", zero=True)
            total[epsilon, delta] += positive_integer(count, "count")
        pairs = tuple((*pair, count) for pair, count in sorted(total.items()))
        if not pairs or max(delta for _, delta, _ in pairs) > 1:
            raise ValueError(
                "pairs: expected (epsilon, delta, count) with delta at most 1, got "
                f"{self.pairs}"
            )
        object.__setattr__(self, "pairs", pairs)

    def products(self) -> Iterable[Product]:
        return (Product(boxes=self.pairs),)

    def combine(self, other: Self) -> BlackBoxLoss:
        return BlackBoxLoss(self.pairs + other.pairs)

    def repeated(self, count: int) -> BlackBoxLoss:
        count = positive_integer(count, "count")
        pairs = [(e, d, n * count) for e, d, n in self.pairs]
        return BlackBoxLoss(tuple(pairs))

    def scaled(self, factor: Fraction) -> BlackBoxLoss:
        """Return the loss of a path of ceil(factor) steps (IP Proposition 4)."""
        steps = math.ceil(factor)
        if steps <= 1:
            return self
        chained = [(*_chained(e, d, steps), n) for e, d, n in self.pairs]
        return BlackBoxLoss(tuple(chained))


def _chained(epsilon: float, delta: float, steps: int) -> tuple[float, float]:
    """Return (steps eps, delta (e^(steps eps) - 1)/(e^eps - 1)), rounded up."""
    total = float_up(decimal(epsilon) * steps)
    if delta == 0:
        return total, 0.0
    if epsilon == 0:  # where the ratio is `steps`
        return total, min(float_up(decimal(delta) * steps), 1.0)
    if total > 700:
        return total, 1.0
    ratio = math.expm1(total) / math.expm1(epsilon) * (1 + 16 * EPS * (1 + total))
    return total, min(delta * ratio, 1.0)


@dataclass(frozen=True)
class MixedLoss(PrivacyLoss):
    """The loss of releases of several families, at most one composed loss of each."""

    losses: tuple[PrivacyLoss, ...]
    exact = False

    @property
    def parts(self) -> tuple:
        return self.losses

    def products(self) -> Iterable[Product]:
        joint = Product()
        rows: tuple = ((),)
        for part in self.losses:
            if isinstance(part, GaussianLoss):
                joint = replace(joint, gaussian=part.gdp)
            elif isinstance(part, BlackBoxLoss):
                joint = replace(joint, boxes=part.pairs)
            elif isinstance(part, LaplaceLoss):
                rows = part.worst_rows
        return (replace(joint, shifts=row) for row in rows)

    @property
    def family(self) -> str:  # type: ignore[override]
        named = []
        for part in self.losses:
            only_fails = isinstance(part, BlackBoxLoss) and part.pure == 0
            if not only_fails:
                named.append(part.family)
        *names, last = named
        if not names:
            return last
        return f"{', '.join(names)} and {last}"

    @property
    def active(self) -> tuple:  # type: ignore[override]
        each = [set(part.active) for part in self.losses]
        return tuple(sorted(set.intersection(*each)))

    def repeated(self, count: int) -> MixedLoss:
        return MixedLoss(tuple(part.repeated(count) for part in self.losses))

    def scaled(self, factor: Fraction) -> MixedLoss:
        return MixedLoss(tuple(part.scaled(factor) for part in self.losses))

    def anonymous(self) -> MixedLoss:
        return MixedLoss(tuple(part.anonymous() for part in self.losses))

    def to_dict(self) -> dict:
        return {"family": "mixed", "parts": [part.to_dict() for part in self.losses]}

    @classmethod
    def from_dict(cls, data: dict) -> MixedLoss:
        return cls(tuple(map(loss_from_dict, data["parts"])))


_ORDER = (GaussianLoss, LaplaceLoss, BlackBoxLoss)
_LOSSES: dict[str, Any] = {
    "Gaussian": GaussianLoss,
    "Laplace": LaplaceLoss,
    "black-box": BlackBoxLoss,
    "mixed": MixedLoss,
}


def _as_lists(value: object) -> Any:
    """Return a field of a loss in terms of JSON."""
    if isinstance(value, tuple):
        return [_as_lists(entry) for entry in value]
    return str(value) if isinstance(value, Fraction) else value


def _as_tuples(value: object) -> Any:
    """Return a field of a loss from terms of JSON."""
    if isinstance(value, list):
        return tuple(_as_tuples(entry) for entry in value)
    return value


def loss_from_dict(data: dict) -> PrivacyLoss:
    """Return the loss that some ``to_dict`` wrote."""
    return _LOSSES[data["family"]].from_dict(data)


def composed(first: PrivacyLoss, second: PrivacyLoss) -> PrivacyLoss:
    """Return the loss of two releases of the same secret together."""
    total = {type(part): part for part in first.parts}
    for part in second.parts:
        kind = type(part)
        if kind in total:
            part = total[kind].combine(part)
        total[kind] = part
    if len(total) == 1:
        return part
    return MixedLoss(tuple(total[kind] for kind in _ORDER if kind in total))
