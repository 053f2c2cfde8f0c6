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
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri, ndtri_exp

from ._frozen import as_lists, as_tuples
from ._linalg import (
    EPS,
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
    """Return the decimal that a float prints as, so ten times 0.1 make one."""
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

    shifts: tuple = ()  # (Laplace shift over scale, count), largest first
    square: Fraction = Fraction(0)  # of the Gaussian shift over standard deviation
    boxes: tuple = ()  # (epsilon, delta, count), sorted

    def __add__(self, other: Product) -> Product:
        shifts = Counter(dict(self.shifts))
        shifts.update(dict(other.shifts))
        boxes: Counter = Counter()
        for epsilon, delta, count in self.boxes + other.boxes:
            boxes[epsilon, delta] += count
        return Product(
            tuple(sorted(shifts.items(), reverse=True)),
            self.square + other.square,
            tuple((*pair, count) for pair, count in sorted(boxes.items())),
        )

    def repeated(self, count: int) -> Product:
        """Return the cost of as many releases like these."""
        shifts = tuple((a, n * count) for a, n in self.shifts)
        boxes = tuple((e, d, n * count) for e, d, n in self.boxes)
        return Product(shifts, self.square * count, boxes)

    def scaled(self, factor: Fraction, steps: int, proportional: bool) -> Product:
        """Return the cost of a move ``factor`` times as large, a path of some steps.

        What is not proportional to the move costs as much as the whole path.
        """
        size = float(factor)
        stretched = [(float(round_up(a * size, 2)), n) for a, n in self.shifts]
        chained = [(*_chained(e, d, steps), n) for e, d, n in self.boxes]
        scale = factor if proportional else Fraction(steps)
        return Product(tuple(stretched), self.square * scale**2, tuple(chained))

    @cached_property
    def gaussian(self) -> float:
        """The Gaussian shift over standard deviation."""
        return root_up(self.square)

    @cached_property
    def bounded(self) -> tuple[tuple[Coordinate, int], ...]:
        """The coordinates of bounded loss, each with how often it occurs."""
        laplace = [(LaplaceShift(shift), count) for shift, count in self.shifts]
        answers = [(Response(e), count) for e, _, count in self.boxes if e > 0]
        return (*laplace, *answers)

    @cached_property
    def coordinates(self) -> tuple[tuple[Coordinate, int], ...]:
        """All coordinates, each with how often it occurs."""
        if self.square:
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
        They may fail together with anything else, so their probabilities are added.
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
        return math.inf if self.square else float_up(self.largest)

    @cached_property
    def gdp(self) -> float:
        """mu given that no black box fails, the root of the sum of squares."""
        if not self.bounded:
            return self.gaussian
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
        if not self.square:
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


# -- privacy-loss distributions ------------------------------------------------------


@lru_cache(maxsize=32)
def _distribution(releases: Product) -> PLDPmf | None:
    """Return the discretised loss, given that no black box fails.

    The grid is a power of two, so parts of a growing product are in the cache.
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

GAUSSIAN = "Gaussian"
LAPLACE = "Laplace"
BLACK_BOX = "black-box"

#: The kinds of noise, and where a product holds its numbers.
_KINDS = {GAUSSIAN: "square", LAPLACE: "shifts", BLACK_BOX: "boxes"}


@dataclass(frozen=True)
class PrivacyLoss:
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
    def gaussian(
        cls,
        shift: float,
        active: tuple[int, ...] = (),
        exact: bool = True,
        *,
        proportional: bool = True,
    ) -> PrivacyLoss:
        """Return the loss of Gaussian noise whose largest privacy shift is y.

        ``active`` moves attain it. Without ``proportional`` it is known at one radius only,
        and not linear in the size of the move as for affine queries.
        """
        square = Fraction(positive_number(shift, "gdp", zero=True)) ** 2
        return cls.of_square(square, active, exact, proportional=proportional)

    @classmethod
    def of_square(
        cls,
        square: Fraction,
        active: tuple[int, ...] = (),
        exact: bool = True,
        *,
        proportional: bool = True,
    ) -> PrivacyLoss:
        """Return `gaussian` for the exact square of the shift."""
        row = Product(square=square)
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
        if np.count_nonzero(columns) > _KEPT:
            largest = max(_decimal_sum(_row(column)) for column in columns)
            worst = columns.sum(axis=1).argmax()
            return replace(one_coordinate(float_up(largest)), moves=(names[worst],))
        rows = tuple(Product(_row(column)) for column in columns)
        return cls(rows, names, (LAPLACE,), exact, moves is None)

    @classmethod
    def black_box(cls, pairs: Iterable[tuple[float, float, int]]) -> PrivacyLoss:
        """Return the loss of releases known by (epsilon, delta), with their counts."""
        row = Product()
        for epsilon, delta, count in pairs:
            epsilon = positive_number(epsilon, "epsilon", zero=True)
            delta = positive_number(delta, "delta", zero=True)
            if delta > 1:
                raise ValueError(f"delta: expected at most 1, got {delta}")
            count = positive_integer(count, "count")
            row = row + Product(boxes=((epsilon, delta, count),))
        return cls((row,), ((),), (BLACK_BOX,), False)

    def to_dict(self) -> dict:
        """Return a JSON-ready form, from which `loss_from_dict` restores the loss."""
        data = {
            field.name: as_lists(getattr(self, field.name)) for field in fields(self)
        }
        rows = [[row.shifts, row.square, row.boxes] for row in self.rows]
        return data | {"rows": as_lists(rows)}

    def repeated(self, count: int) -> PrivacyLoss:
        """Return the loss of `count` releases by this very mechanism."""
        count = positive_integer(count, "count")
        return replace(self, rows=tuple(row.repeated(count) for row in self.rows))

    def scaled(self, factor: Fraction) -> PrivacyLoss:
        """Return the loss for moves `factor` (a rational) times as large.

        A longer move is a path of ceil(factor) steps, each no longer than the known one
        (IP Proposition 4).
        """
        if factor == 1:
            return self
        steps = max(1, math.ceil(factor))
        rows = [row.scaled(factor, steps, self.proportional) for row in self.rows]
        attained = self.attained and self.proportional
        return replace(self, rows=tuple(rows), attained=attained)

    def as_bound(self) -> PrivacyLoss:
        """Return the same numbers as upper bounds."""
        return replace(self, attained=False)

    def anonymous(self) -> PrivacyLoss:
        """Drop the numbers of the moves, which are not those of another secret."""
        moves = ((),) * len(self.rows)
        return replace(self, moves=moves, aligned=False, attained=False)

    @property
    def parts(self) -> tuple[PrivacyLoss, ...]:
        """Losses of one kind of noise each."""
        if len(self.kinds) == 1:
            return (self,)
        return tuple(map(self._part, self.kinds))

    def _part(self, kind: str) -> PrivacyLoss:
        name = _KINDS[kind]
        rows = tuple(Product(**{name: getattr(row, name)}) for row in self.rows)
        if kind != LAPLACE:  # in all rows alike
            rows = rows[:1]
        return replace(self, rows=rows, moves=self.moves[: len(rows)], kinds=(kind,))

    @property
    def family(self) -> str:
        """The kinds of noise in words."""
        names = list(self.kinds)
        only_fails = not any(epsilon for epsilon, _, _ in self.rows[0].boxes)
        if len(names) > 1 and names[-1] == BLACK_BOX and only_fails:
            names.pop()
        *others, last = names
        return f"{', '.join(others)} and {last}" if others else last

    @cached_property
    def active(self) -> tuple[int, ...]:
        """The hidden moves that are known as worst, those with the largest shifts."""
        sums = {row: row.largest for row in self.rows}
        largest = max(sums.values())
        worst: set[int] = set()
        for row, moves in zip(self.rows, self.moves):
            if sums[row] == largest:
                worst.update(moves)
        return tuple(sorted(worst))

    @cached_property
    def exact(self) -> bool:
        """Whether delta(epsilon) is attained by a hidden move."""
        return self.attained and all(one.closed for one in self.products)

    @property
    def exact_measures(self) -> tuple[str, ...]:
        """Names of the privacy measures that a hidden move attains."""
        if not self.exact:
            return ("rdp", "zcdp") if self.attained else ()
        measures = ("delta", "epsilon", "rdp", "zcdp")
        return (*measures, "gdp") if self.kinds == (GAUSSIAN,) else measures

    def attains(self, delta: float) -> bool:
        """Return whether a hidden move attains `epsilon` at this delta."""
        return self.exact or (delta == 0 and self.attained)

    @cached_property
    def products(self) -> tuple[Product, ...]:
        """Rows that no other one dominates, as far as that is cheap to tell."""
        rows = tuple(dict.fromkeys(self.rows))
        length = max(sum(count for _, count in row.shifts) for row in rows)
        if len(rows) < 3 or length > _EXPANDED:
            return rows
        columns = np.zeros((len(rows), length))
        for place, row in enumerate(rows):
            shifts: list[float] = []
            for shift, count in row.shifts:
                shifts += [shift] * count
            columns[place, : len(shifts)] = shifts
        return tuple(rows[place] for place in _undominated(columns))

    @cached_property
    def pure(self) -> float:
        """The epsilon at which only failures remain, rounded up."""
        return max(one.pure for one in self.products)

    @cached_property
    def failure(self) -> float:
        """The delta below which no epsilon is finite (but for delta = 0)."""
        return max(one.failure for one in self.products)

    @cached_property
    def gdp(self) -> float:
        """mu of Gaussian differential privacy, or inf where a black box may fail."""
        if self.failure:
            return math.inf
        return max(one.gdp for one in self.products)

    @cached_property
    def zcdp(self) -> float:
        """rho of zero-concentrated differential privacy, or inf."""
        if self.failure:
            return math.inf
        return max(one.zcdp for one in self.products)

    def rdp(self, alpha: float) -> float:
        """Return the Renyi divergence of order alpha > 1, or inf."""
        if self.failure:
            return math.inf
        if alpha == math.inf:
            return self.pure
        order = float(alpha)
        return max(one.rdp(order) for one in self.products)

    def delta(self, epsilon: float) -> float:
        """Return the smallest known delta for which (epsilon, delta) holds."""
        epsilon = positive_number(epsilon, "epsilon", zero=True)
        bounded = [(one.ceiling(epsilon), one) for one in self.products]
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
        if self._holds(0.0, delta):
            return 0.0
        found = smallest(
            lambda epsilon: self._holds(epsilon, delta),
            0.0,
            1.0,
            tolerance=1e-12,
            limit=_LARGEST,
        )
        return min(found, self.pure)

    def _holds(self, epsilon: float, delta: float) -> bool:
        """Return whether (epsilon, delta) is known to hold, asking for no more."""
        undecided = [one for one in self.products if one.ceiling(epsilon) > delta]
        if len(undecided) > _EVALUATED:
            return False
        return all(one.delta(epsilon) <= delta for one in undecided)

    def satisfies(self, budget: PrivacyBudget) -> bool:
        """Return whether a budget holds, its pair or its GDP for the whole curve."""
        if budget.gdp is not None:
            return self.gdp <= budget.gdp
        epsilon, delta = budget.pair
        if self._holds(epsilon, delta):
            return True
        if self.kinds != (GAUSSIAN,) or delta < SMALLEST_DELTA:
            return False
        # designs fill a budget up to this shift
        return epsilon <= LARGEST_EPSILON and self.gdp <= budget.shift()

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


def one_coordinate(epsilon: float) -> PrivacyLoss:
    """Return the loss of one Laplace coordinate, which bounds all of this pure epsilon.

    Along a path from one data set to its neighbour the probability p of any event obeys p'
    <= min(p, 1 - p) per unit of pure epsilon. The flow of p' = min(p, 1 - p) is the shift
    of a Laplace law along its quantiles, the trade-off curve of one coordinate.
    """
    row = Product(_row(np.array([epsilon])))
    return PrivacyLoss((row,), ((),), (LAPLACE,), attained=False)


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


def composed(first: PrivacyLoss, second: PrivacyLoss) -> PrivacyLoss:
    """Return the loss of two releases of the same secret together.

    It is attained where noise of one kind is, and some move attains both losses.
    """
    lengths = {len(first.rows), len(second.rows)} - {1}
    if len(lengths) > 1 or (lengths and not (first.aligned and second.aligned)):
        if len(first.rows) > 1 and len(second.rows) > 1:
            return composed(_one_row(first), _one_row(second))
    count = max(lengths, default=1)
    rows = []
    moves = []
    attained = first.attained and second.attained and first.kinds == second.kinds
    for i in range(count):
        mine = min(i, len(first.rows) - 1)
        its = min(i, len(second.rows) - 1)
        both = first.rows[mine] + second.rows[its]
        shared = set(first.moves[mine]) & set(second.moves[its])
        attained &= bool(shared) or both in (first.rows[mine], second.rows[its])
        rows.append(both)
        moves.append(tuple(sorted(shared)))
    kinds = first.kinds + second.kinds
    return PrivacyLoss(
        tuple(rows),
        tuple(moves),
        tuple(kind for kind in _KINDS if kind in kinds),
        attained,
        first.aligned and second.aligned,
        first.proportional and second.proportional,
    )


def _one_row(loss: PrivacyLoss) -> PrivacyLoss:
    """Return one row that bounds all moves, with one coordinate for those of Laplace."""
    worst = max(loss.rows, key=lambda row: row.largest)
    largest = float_up(_decimal_sum(worst.shifts))
    row = replace(worst, shifts=_row(np.array([largest])))
    return replace(loss.anonymous(), rows=(row,), moves=((),))


def loss_from_dict(data: dict) -> PrivacyLoss:
    """Return the loss that ``PrivacyLoss.to_dict`` wrote."""
    values = {field.name: as_tuples(data[field.name]) for field in fields(PrivacyLoss)}
    rows = []
    for shifts, square, boxes in values["rows"]:
        if "e" in str(square).lower():
            raise ValueError(
                "square: expected a fraction of integers, got another text"
            )
        for shift, count in shifts:
            positive_number(shift, "shift")
            positive_integer(count, "count")
        known = PrivacyLoss.black_box(boxes).rows[0].boxes
        rows.append(Product(shifts, Fraction(square), known))
        if rows[-1].square < 0:
            raise ValueError("square: expected a number >= 0, got a negative one")
    if not rows or len(rows) != len(values["moves"]):
        raise ValueError(
            f"rows: expected {len(values['moves'])}, at least one, got {len(rows)}"
        )
    if not values["kinds"] or not set(values["kinds"]) <= set(_KINDS):
        raise ValueError(f"kinds: expected some of {', '.join(_KINDS)}")
    return PrivacyLoss(**values | {"rows": tuple(rows)})
