"""The privacy loss of releases: the numbers behind a guarantee, each exact or an upper bound.

A loss is frozen data about one family of noise, or about several released together. What has a closed form is computed
from it: Gaussian noise, pure epsilon of Laplace noise, one Laplace coordinate, and sums of Renyi divergences. The full
curve delta(epsilon) of several Laplace coordinates, of black boxes and of mixtures comes from the privacy-loss
distributions of dp-accounting, rounded up. Where that package is not installed (extra ``accounting``), or costs more
than it gives, the least of several closed-form upper bounds stands in.

Sizes accumulate as exact rationals and are rounded once, so that releases which fill a budget to the last digit are
neither refused nor let through.
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from itertools import product
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfinv, ndtr, ndtri, ndtri_exp
from scipy.stats import binom

from ._linalg import EPS, positive_integer, positive_number, real_array, round_up
from .budget import PrivacyBudget
from .calibration import LARGEST_EPSILON, SMALLEST_DELTA, kappa_inverse, kappa_upper

#: Most numbers of a Laplace loss for which every hidden move is kept; beyond, the moves that no other one dominates.
_KEPT = 1 << 16
#: Most moves that are kept then, or that two losses about unlike moves are paired to; beyond, one bound for all.
_ROWS = 4096
#: Most moves whose curve is evaluated; the closed-form bound stands in for the others.
_EVALUATED = 64
#: Most coordinates of moves that are compared with each other.
_EXPANDED = 128
#: Most answers of black boxes that are listed one by one.
_ANSWERS = 1 << 14
#: Points of a discretised loss within one standard deviation of the total: a first try, and the last.
_RESOLUTIONS = (128, 1024)
#: Most points of a discretised loss.
_POINTS = 1 << 17
#: What the rounding errors of a Fourier transform may take from a delta, and the tail that is counted as failure.
_TRANSFORM = 1e-12
_TAIL = 1e-15


# --- rationals and rounding -----------------------------------------------------------------------------------------


def decimal(value: float) -> Fraction:
    """The shortest decimal that the float stands for, exactly: ten times 0.1 make one."""
    return Fraction(repr(float(value)))


def float_up(value: Fraction) -> float:
    """The smallest float that, read as a decimal, is not below the rational `value`."""
    nearest = float(value)
    return nearest if decimal(nearest) >= value else math.nextafter(nearest, math.inf)


def root_up(value: Fraction) -> float:
    """The smallest float whose square is not below the rational `value`."""
    if value == 0:
        return 0.0
    shift = (value.numerator.bit_length() - value.denominator.bit_length()) // 2
    root = math.ldexp(math.sqrt(value / Fraction(4) ** shift), shift)
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    while Fraction(math.nextafter(root, 0.0)) ** 2 >= value:
        root = math.nextafter(root, 0.0)
    return root


def checked_delta(delta: float) -> float:
    """`delta` as a float in [0, 1)."""
    delta = positive_number(delta, "delta", zero=True)
    if delta >= 1:
        raise ValueError(f"delta: expected a probability in [0, 1), got {delta}")
    return delta


def with_failure(failure: float, delta: float) -> float:
    """1 - (1 - failure)(1 - delta), rounded up."""
    joint = failure + (1 - failure) * min(delta, 1.0)
    return float(min(joint * (1 + 4 * EPS), 1.0))


# --- bounds in closed form ------------------------------------------------------------------------------------------


def _orders(epsilon: float, rho: float, count: int = 57) -> NDArray:
    """Renyi orders around the best one for a loss of about `rho`-zCDP."""
    centre = max((epsilon + rho) / (2 * rho), 1.001)
    orders = centre * np.geomspace(0.7, 1.4, count)
    return orders[orders > 1]


def _converted(epsilon: float, orders: NDArray, divergences: NDArray) -> float:
    """The least delta that Renyi divergences promise (Canonne, Kamath, Steinke 2020), rounded up."""
    logs = (
        (orders - 1) * (divergences - epsilon)
        - np.log(orders - 1)
        + orders * np.log1p(-1 / orders)
    )
    least = float(np.exp(min(float(logs.min()), 0.0))) * (1 + 1e-9)
    return min(1.0, max(least, SMALLEST_DELTA))  # exp may underflow


def concentrated_delta(epsilon: float, rho: float) -> float:
    """A delta that rho-zCDP promises at epsilon, by the best of some Renyi orders."""
    if rho == 0:
        return 0.0
    orders = _orders(epsilon, rho)
    return _converted(epsilon, orders, orders * rho)


def concentrated_epsilon(delta: float, rho: float) -> float:
    """rho + 2 sqrt(rho log(1/delta)), an epsilon that rho-zCDP promises (Bun, Steinke 2016, Proposition 1.3)."""
    if delta == 0:
        return math.inf
    return float((rho + 2 * math.sqrt(rho * -math.log(delta))) * (1 + 8 * EPS))


def laplace_gdp(shift: float) -> float:
    """mu of one Laplace coordinate, 2 Phi^-1(1 - exp(-a/2)/2), rounded up.

    It is what epsilon = 0 demands, and it suffices. The trade-off function of the shift is exp(-a)/(4 alpha) between
    two straight ends. In logarithms the middle is a line of slope -1 that touches the concave Gaussian curve at its
    fixed point. The ends are chords from that line to (0, 1) and (1, 0), above the convex Gaussian curve.
    """
    if shift == 0:
        return 0.0
    if shift < 1:
        size = math.sqrt(8) * float(erfinv(-math.expm1(-shift / 2)))
    else:
        size = -2 * float(ndtri_exp(-shift / 2 - math.log(2)))
    return size * (1 + 64 * EPS)


def laplace_zcdp(shift: float) -> float:
    """rho of one Laplace coordinate, a + exp(-a) - 1, rounded up.

    It is the Renyi divergence at order 1 and bounds that of order alpha over alpha for all alpha > 1. With
    t = alpha - 1/2, (alpha - 1) times the divergence is log M(t) - a/2 for M(t) = cosh(a t) + sinh(a t)/(2 t), an
    entire function of t^2 of order 1/2 with negative zeros only. Hence log M is concave in t^2, below its tangent at
    t^2 = 1/4, and t^2 - 1/4 = alpha (alpha - 1).
    """
    if shift < 1e-3:  # the series stops at a positive term
        return shift * shift / 2 * (1 - shift / 3 + shift * shift / 12) * (1 + 8 * EPS)
    return (shift + math.expm1(-shift)) * (1 + 1e-12)


def _laplace_rdp(orders: NDArray, shift: float) -> NDArray:
    """Renyi divergences of one Laplace coordinate (Mironov 2017, Table II), rounded up.

    log((alpha exp((alpha - 1) a) + (alpha - 1) exp(-alpha a)) / (2 alpha - 1)) / (alpha - 1); never above a, nor above
    alpha times rho.
    """
    up = (orders - 1) * shift
    down = -orders * shift
    with np.errstate(over="ignore"):
        small = orders * np.expm1(up) + (orders - 1) * np.expm1(down)
        logs = np.log1p(small / (2 * orders - 1))
    large = up + np.log(orders / (2 * orders - 1))
    large += np.log1p((orders - 1) / orders * np.exp(down - up))
    logs = np.where(up > 30, large, logs)
    divergences = (logs + 8 * EPS * (logs + orders * shift)) / (orders - 1)
    return np.minimum(divergences, np.minimum(orders * laplace_zcdp(shift), shift))


def _response_gdp(epsilon: float) -> float:
    """mu of randomised response, 2 Phi^-1(e^eps/(1 + e^eps)), rounded up."""
    if epsilon == 0:
        return 0.0
    return -2 * float(ndtri_exp(-np.logaddexp(0.0, epsilon))) * (1 + 1e-12)


def _response_rdp(orders: NDArray, epsilon: float) -> NDArray:
    """Renyi divergences of randomised response, rounded up; never above alpha eps^2/2 or eps."""
    logs = (
        (orders - 1) * epsilon
        + np.log1p(np.exp((1 - 2 * orders) * epsilon))
        - math.log1p(math.exp(-epsilon))
    )
    divergences = (logs + 8 * EPS * (orders * epsilon + 2)) / (orders - 1)
    square = orders * epsilon * epsilon / 2 * (1 + 4 * EPS)
    return np.minimum(divergences, np.minimum(square, epsilon))


# --- one product of releases ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Product:
    """What one hidden move costs: Laplace shifts, a Gaussian shift and black boxes, all independent.

    The two laws of a pair of neighbours may be exchanged throughout: reflecting each coordinate about the middle of
    its shift exchanges them, for Laplace and for Gaussian coordinates and for randomised response.

    Attributes
    ----------
    shifts : tuple of (shift, count)
        Laplace shifts over scales, positive.
    gaussian : float
        Gaussian shift over standard deviation.
    boxes : tuple of (epsilon, delta, count)
        Releases of which only (epsilon, delta) is known.
    """

    shifts: tuple = ()
    gaussian: float = 0.0
    boxes: tuple = ()

    @cached_property
    def failure(self) -> float:
        """The probability that some black box fails openly, 1 - prod(1 - delta), rounded up."""
        if any(delta == 1 for _, delta, _ in self.boxes):
            return 1.0
        total = sum((decimal(d) * n for _, d, n in self.boxes), Fraction(0))
        logs = math.fsum(n * math.log1p(-d) for _, d, n in self.boxes)
        joint = -math.expm1(logs) * (1 + 8 * EPS)
        return float(min(float_up(total), joint, 1.0))

    @cached_property
    def pure(self) -> float:
        """The epsilon at which only the failures remain; infinite beside Gaussian noise."""
        if self.gaussian > 0:
            return math.inf
        return float_up(self.bounded)

    @cached_property
    def bounded(self) -> Fraction:
        """The largest loss of all that is not Gaussian, exactly."""
        laplace = sum((decimal(a) * n for a, n in self.shifts), Fraction(0))
        return laplace + sum((decimal(e) * n for e, _, n in self.boxes), Fraction(0))

    @cached_property
    def gdp(self) -> float:
        """mu: the root of the sum of the squares; infinite where a black box may fail."""
        if self.failure:
            return math.inf
        sizes = [math.sqrt(n) * laplace_gdp(a) for a, n in self.shifts]
        sizes += [math.sqrt(n) * _response_gdp(e) for e, _, n in self.boxes]
        return math.hypot(*sizes, self.gaussian) * (1 + 16 * EPS)

    @cached_property
    def zcdp(self) -> float:
        """rho: the sum; infinite where a black box may fail."""
        return math.inf if self.failure else self._rho

    @cached_property
    def _rho(self) -> float:
        """rho of the answers, given that no black box fails; above what may underflow."""
        parts = [n * laplace_zcdp(a) for a, n in self.shifts]
        parts += [n * e * e / 2 for e, _, n in self.boxes]
        return math.fsum((*parts, self.gaussian**2 / 2)) * (1 + 8 * EPS) + 1e-300

    def rdp(self, orders: NDArray) -> NDArray:
        """Renyi divergences of the answers, given that no black box fails."""
        total = orders * (self.gaussian**2 / 2 + 1e-300)
        for shift, count in self.shifts:
            total = total + count * _laplace_rdp(orders, shift)
        for epsilon, _, count in self.boxes:
            total = total + count * _response_rdp(orders, epsilon)
        return total * (1 + 8 * EPS)

    @cached_property
    def coordinates(self) -> int:
        """Number of Laplace coordinates."""
        return sum(count for _, count in self.shifts)

    @property
    def closed(self) -> bool:
        """Whether the closed form of `ceiling` is the curve itself."""
        if self.boxes:
            return False
        if self.gaussian > 0:
            return not self.shifts
        return self.coordinates <= 1

    def ceiling(self, epsilon: float) -> float:
        """The least of several closed-form upper bounds of delta; the curve itself where `closed`."""
        if epsilon >= self.pure:
            return self.failure
        if self.closed and self.shifts:
            return _one_coordinate_delta(epsilon, self.shifts[0][0])
        if self.closed:
            return float(kappa_upper(epsilon, self.gaussian))
        bounds = [1.0]
        if not self.failure:
            bounds.append(float(kappa_upper(epsilon, self.gdp)))
        orders = _orders(epsilon, self._rho)
        bounds.append(_converted(epsilon, orders, self.rdp(orders)))
        largest = float_up(self.bounded)
        if self.gaussian == 0:
            # randomised response bounds every pure epsilon, and one coordinate every Laplace one
            gain = -math.expm1(epsilon - largest) * (1 + 8 * EPS)
            bounds.append(gain / (1 + math.exp(-largest)) * (1 + 8 * EPS))
            if not self.boxes:
                bounds.append(_one_coordinate_delta(epsilon, largest))
        elif epsilon > largest:
            left = math.nextafter(epsilon - largest, 0.0)
            bounds.append(float(kappa_upper(left, self.gaussian)))
        return with_failure(self.failure, max(min(bounds), SMALLEST_DELTA))

    def holds(self, epsilon: float, delta: float) -> bool:
        """Whether (epsilon, delta) is known to hold."""
        return self.delta(epsilon, delta) <= delta

    def delta(self, epsilon: float, enough: float = 0.0) -> float:
        """An upper bound of delta; the search for a sharper one ends once it is at most `enough`."""
        least = self.ceiling(epsilon)
        if least <= enough or self.closed or epsilon >= self.pure:
            return least
        if not self.shifts and self.gaussian == 0:
            listed = _listed_answers(self.boxes)
            if listed is not None:
                return min(least, _answers_delta(epsilon, listed, self.failure))
        for resolution in _RESOLUTIONS:
            distribution = _distribution(self, resolution)
            if distribution is None or least <= enough:
                break
            found = float(distribution.get_delta_for_epsilon(epsilon))
            found = max(found * (1 + 1e-9) + _TRANSFORM, SMALLEST_DELTA)
            least = min(least, with_failure(self.failure, found))
        return least


def _one_coordinate_delta(epsilon: float, shift: float) -> float:
    """1 - exp((epsilon - a)/2), the curve of one Laplace coordinate (Balle, Barthe, Gaboardi 2018), rounded up."""
    if epsilon >= shift:
        return 0.0
    return -math.expm1((epsilon - shift) / 2) * (1 + 8 * EPS)


@lru_cache(maxsize=64)
def _listed_answers(boxes: tuple) -> tuple[NDArray, NDArray] | None:
    """Losses and probabilities of every joint answer of randomised responses, rounded up; None if too many.

    Their law gives the least delta(epsilon) that holds for all releases of these numbers (Kairouz, Oh, Viswanath 2015;
    Murtagh, Vadhan 2016 for unequal numbers).
    """
    if math.prod(count + 1 for _, _, count in boxes) > _ANSWERS:
        return None
    losses, masses = np.zeros(1), np.ones(1)
    for epsilon, _, count in boxes:
        yes = np.arange(count + 1)
        loss = (2.0 * yes - count) * epsilon
        loss = loss + 32 * EPS * np.abs(loss)
        probability = 1 / (1 + math.exp(-epsilon))
        mass = binom.pmf(yes, count, probability) * (1 + 1e-11)
        losses = np.add.outer(losses, loss).ravel()
        masses = np.multiply.outer(masses, mass).ravel()
    return losses, masses


def _answers_delta(epsilon: float, listed: tuple, failure: float) -> float:
    losses, masses = listed
    excess = np.dot(masses, -np.expm1(np.minimum(epsilon - losses, 0.0)))
    return with_failure(failure, max(float(excess) * (1 + 1e-11), SMALLEST_DELTA))


# --- privacy-loss distributions -------------------------------------------------------------------------------------


@cache
def _accounting() -> Any:
    """dp-accounting's discretised losses, or None where the package is not installed."""
    try:
        from dp_accounting.pld import pld_pmf
    except ImportError:
        return None
    return pld_pmf


@lru_cache(maxsize=32)
def _distribution(releases: Product, resolution: int) -> Any:
    """The composed, discretised loss of a product, given that no black box fails; None without dp-accounting.

    The grid is a power of two, so that the parts of a growing product are found in the cache.
    """
    if _accounting() is None:
        return None
    parts: list[tuple] = [(_laplace_curve, a, a, n) for a, n in releases.shifts]
    parts += [(_response_curve, e, e, n) for e, _, n in releases.boxes if e > 0]
    spread = math.sqrt(2 * releases._rho)
    step = spread / resolution
    if parts:
        number = sum(count for *_, count in parts)
        mean = math.sqrt(sum(n * size**2 for _, size, _, n in parts) / number)
        step = min(step, 16 * mean / resolution)
    if releases.gaussian > 0:
        y = releases.gaussian
        parts.append((_gaussian_curve, y, y * y / 2 + 9.5 * y, 1))
    reach = max(reach for _, _, reach, _ in parts)
    total = (
        min(float(releases.bounded), 12 * spread + spread**2) + 20 * releases.gaussian
    )
    step = max(step, 2 * max(reach, total) / _POINTS)
    step = 2.0 ** math.floor(math.log2(step))
    composed = None
    for curve, size, reach, count in parts:
        pmf = _discretised(curve, size, reach, step)
        if count > 1:
            pmf = pmf.self_compose(count, tail_mass_truncation=_TAIL)
        if composed is None:
            composed = pmf
        else:
            composed = composed.compose(pmf, tail_mass_truncation=_TAIL)
    return composed


@lru_cache(maxsize=128)
def _discretised(curve: Callable, size: float, reach: float, step: float) -> Any:
    """A curve as a loss on the grid whose curve connects the dots, and is therefore above it.

    Doroshenko, Ghazi, Kamath, Kumar, Manurangsi, Connect the Dots (2022).
    """
    last = math.ceil(reach / step)
    places = np.arange(-last, last + 1)
    levels = places * step
    ahead = curve(np.abs(levels), size)
    # delta at negative levels follows from that at their sizes, because the two laws may be exchanged
    behind = 1 - np.exp(np.minimum(levels, 0.0)) * (1 - ahead)
    deltas = np.clip(np.where(levels < 0, behind, ahead), 0.0, 1.0)
    deltas = np.minimum.accumulate(deltas)
    module = _accounting()
    pmf = module.create_pmf_pessimistic_connect_dots(step, places, deltas)
    if isinstance(pmf, module.SparsePLDPmf):  # only dense ones compose with each other
        return pmf.to_dense_pmf()
    return pmf


def _laplace_curve(levels: NDArray, shift: float) -> NDArray:
    return -np.expm1(np.minimum((levels - shift) / 2, 0.0)) * (1 + 4 * EPS)


def _gaussian_curve(levels: NDArray, y: float) -> NDArray:
    return kappa_upper(levels, y)


def _response_curve(levels: NDArray, epsilon: float) -> NDArray:
    gain = -np.expm1(np.minimum(levels - epsilon, 0.0)) / (1 + math.exp(-epsilon))
    return gain * (1 + 4 * EPS)


_Kind = TypeVar("_Kind")


# --- losses ---------------------------------------------------------------------------------------------------------


class PrivacyLoss(ABC):
    """The trade-off curve of a release; a subclass is one family of laws.

    Every subclass also has ``family`` (its name), ``exact`` (whether delta(epsilon) is attained by a hidden move) and
    ``active`` (indices of the hidden moves that are worst).
    """

    family: str
    exact: bool
    active: tuple
    #: Whether a shift is linear in the size of the move, see `scaled`.
    proportional = True

    @abstractmethod
    def products(self) -> Iterable[Product]:
        """What each hidden move costs, or bounds of it."""

    @abstractmethod
    def combine(self, other: Self) -> "PrivacyLoss":
        """The loss of both releases together, `other` of the same family."""

    @abstractmethod
    def repeated(self, count: int) -> "PrivacyLoss":
        """The loss of `count` releases by this very mechanism."""

    @abstractmethod
    def scaled(self, factor: Fraction) -> "PrivacyLoss":
        """The loss for moves `factor` (a rational) times as large."""

    @abstractmethod
    def to_dict(self) -> dict:
        """JSON-ready form."""

    def anonymous(self) -> "PrivacyLoss":
        """The loss without the numbers of its moves: they are not those of another secret."""
        return self

    @property
    def parts(self) -> tuple:
        """Losses of one family each."""
        return (self,)

    @property
    def exact_measures(self) -> tuple[str, ...]:
        """Names of the privacy measures that a hidden move attains; the others are upper bounds."""
        return ("delta", "epsilon", "rdp", "zcdp") if self.exact else ()

    def attains(self, delta: float) -> bool:
        """Whether `epsilon` at this delta is attained by a hidden move."""
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
        """Below this delta, or at it beside Gaussian noise, no epsilon is finite (but for delta = 0)."""
        return max(one.failure for one in self._products)

    @cached_property
    def gdp(self) -> float:
        """mu of Gaussian differential privacy; infinite if there is none."""
        return max(one.gdp for one in self._products)

    @cached_property
    def zcdp(self) -> float:
        """rho of zero-concentrated differential privacy; infinite if there is none."""
        return max(one.zcdp for one in self._products)

    def rdp(self, alpha: float) -> float:
        """Renyi divergence of order alpha > 1."""
        if self.failure:
            return math.inf
        if alpha == math.inf:
            return self.pure
        orders = np.array([float(alpha)])
        return max(float(one.rdp(orders)[0]) for one in self._products)

    def delta(self, epsilon: float) -> float:
        """Smallest known delta for which (epsilon, delta) holds, rounded up."""
        epsilon = positive_number(epsilon, "epsilon", zero=True)
        worst = 0.0
        for rank, (ceiling, one) in enumerate(self._by_ceiling(epsilon)):
            if ceiling <= worst:
                break
            if rank == _EVALUATED:
                return ceiling
            worst = max(worst, one.delta(epsilon))
        return worst

    def _by_ceiling(self, epsilon: float) -> list[tuple[float, Product]]:
        """The products with their closed-form bounds of delta, the largest first."""
        bounded = [(one.ceiling(epsilon), one) for one in self._products]
        return sorted(bounded, key=lambda pair: -pair[0])

    def _holds(self, epsilon: float, delta: float) -> bool:
        """Whether (epsilon, delta) is known to hold; asks for no more than that."""
        if delta == 0:
            return epsilon >= self.pure and self.failure == 0
        open_ones = [
            one for ceiling, one in self._by_ceiling(epsilon) if ceiling > delta
        ]
        if len(open_ones) > _EVALUATED:
            return False
        return all(one.holds(epsilon, delta) for one in open_ones)

    def epsilon(self, delta: float) -> float:
        """Smallest known epsilon for which (epsilon, delta) holds, rounded up; infinite if none does."""
        delta = checked_delta(delta)
        if delta <= self.failure:
            return self.pure if delta == self.failure else math.inf
        epsilon = 0.0
        for one in sorted(self._products, key=lambda one: -one._rho):
            if one.holds(epsilon, delta):
                continue
            epsilon = _least_epsilon(one, delta, epsilon)
            if epsilon == math.inf:
                break
        return epsilon

    def satisfies(self, budget: PrivacyBudget) -> bool:
        """Whether the budget holds: its (epsilon, delta), or its GDP for the whole curve."""
        if budget.gdp is not None:
            return self.gdp <= budget.gdp
        return self._holds(*budget.pair)

    def detection(self, false_alarm: float) -> float:
        """How often a test with this rate of false alarms detects a hidden move at most, rounded up.

        (epsilon, delta) bounds it by exp(epsilon) a + delta and by 1 - exp(-epsilon) (1 - a - delta); the least over
        many epsilon is returned, and never more than mu of Gaussian differential privacy allows.
        """
        levels, deltas = self._curve
        by_false_alarms = np.exp(levels) * false_alarm + deltas
        by_misses = 1 - np.exp(-levels) * (1 - false_alarm - deltas)
        bounds = [1.0, float(by_false_alarms.min()), float(by_misses.min())]
        if self.gdp < math.inf:
            bounds.append(gaussian_detection(false_alarm, self.gdp))
        return min(max(min(bounds) * (1 + 8 * EPS), false_alarm), 1.0)

    @cached_property
    def _curve(self) -> tuple[NDArray, NDArray]:
        """Some epsilon, as far as they tell something, and their delta."""
        reach = self.epsilon(min(max(1e-9, 2 * self.failure), 0.5))
        if not math.isfinite(reach):
            reach = 1.0
        levels = np.linspace(0.0, min(reach, 700.0), 65)
        return levels, np.array([self.delta(float(level)) for level in levels])


def _least_epsilon(one: Product, delta: float, low: float) -> float:
    """The smallest known epsilon of one product above `low`, at which delta does not hold."""
    high = max(2 * low, 1.0)
    while not one.holds(high, delta):
        low, high = high, 2 * high
        if high > 1e6:
            return one.pure
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        if one.holds(middle, delta):
            high = middle
        else:
            low = middle
    return min(high, one.pure)


def gaussian_detection(false_alarm: float, y: float) -> float:
    """Phi(Phi^-1(false_alarm) + y), rounded up."""
    quantile = float(ndtri(false_alarm))
    slack = 8 * EPS * (1 + abs(quantile) + y)
    return min(float(ndtr(quantile + y + slack)) * (1 + 16 * EPS), 1.0)


@dataclass(frozen=True)
class GaussianLoss(PrivacyLoss):
    """The loss of a Gaussian mechanism: exactly y-GDP, and everything follows from y (DPAM eq. (7)).

    ``active`` holds the indices of the hidden moves that attain y: two releases compose exactly when one move is
    worst in both, and otherwise sqrt(y1^2 + y2^2) is an upper bound. ``proportional`` says that y is linear in the
    size of the move, as it is for affine queries and for Lipschitz bounds; it is False for a sensitivity known at
    one radius only. ``square`` is the exact sum of squares behind y.
    """

    gdp: float = 0.0
    active: tuple = ()
    exact: bool = True
    proportional: bool = True
    square: Fraction = Fraction(0)
    family = "Gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "gdp", positive_number(self.gdp, "gdp", zero=True))
        if self.square == 0:
            object.__setattr__(self, "square", Fraction(self.gdp) ** 2)
        elif Fraction(self.gdp) ** 2 < self.square:
            raise ValueError(
                f"gdp: expected at least the root of the sum of squares, got {self.gdp}"
            )

    def products(self) -> Iterable[Product]:
        return (Product(gaussian=self.gdp),)

    @property
    def exact_measures(self) -> tuple[str, ...]:
        return (*super().exact_measures, "gdp") if self.exact else ()

    def satisfies(self, budget: PrivacyBudget) -> bool:
        if budget.gdp is not None or self.gdp == 0:
            return super().satisfies(budget)
        epsilon, delta = budget.pair
        if delta < SMALLEST_DELTA or epsilon > LARGEST_EPSILON:
            return self.delta(epsilon) <= delta
        return bool(self.gdp <= budget.shift())

    def epsilon(self, delta: float) -> float:
        delta = checked_delta(delta)
        if self.gdp == 0:
            return 0.0
        if delta < SMALLEST_DELTA or kappa_inverse(LARGEST_EPSILON, delta) < self.gdp:
            return concentrated_epsilon(delta, self.zcdp)
        if self.gdp <= kappa_inverse(0.0, delta):
            return 0.0
        low, high = 0.0, 1.0
        while kappa_inverse(min(high, LARGEST_EPSILON), delta) < self.gdp:
            low, high = high, 2 * high
        high = min(high, LARGEST_EPSILON)
        # kappa_inverse rounds down, so that the upper end always satisfies delta
        while high - low > 2 * np.spacing(high):
            middle = 0.5 * (low + high)
            if kappa_inverse(middle, delta) >= self.gdp:
                high = middle
            else:
                low = middle
        return float(high)

    @property
    def zcdp(self) -> float:  # type: ignore[override]
        return float(round_up(0.5 * self.gdp * self.gdp, 2)) if self.gdp else 0.0

    def rdp(self, alpha: float) -> float:
        if not self.gdp:
            return 0.0
        return float(round_up(0.5 * alpha * self.gdp * self.gdp, 3))

    def detection(self, false_alarm: float) -> float:
        return gaussian_detection(false_alarm, self.gdp)

    def combine(self, other: Self) -> "GaussianLoss":
        shared = tuple(sorted(set(self.active) & set(other.active)))
        square = self.square + other.square
        exact = self.exact and other.exact
        exact &= bool(shared) or 0 in (self.square, other.square)
        proportional = self.proportional and other.proportional
        return GaussianLoss(root_up(square), shared, exact, proportional, square)

    def repeated(self, count: int) -> "GaussianLoss":
        square = self.square * positive_integer(count, "count")
        return replace(self, gdp=root_up(square), square=square)

    def scaled(self, factor: Fraction) -> "GaussianLoss":
        exact = self.exact and (self.proportional or factor == 1)
        if not self.proportional:
            # a path of ceil(factor) steps, each no longer than the known one
            steps = 1 if factor <= 1 else math.ceil(factor)
            factor = Fraction(steps)
        square = self.square * factor**2
        return replace(self, gdp=root_up(square), exact=exact, square=square)

    def as_bound(self) -> "GaussianLoss":
        """The same numbers, called upper bounds."""
        return replace(self, exact=False)

    def anonymous(self) -> "GaussianLoss":
        return replace(self, active=(), exact=False)

    def to_dict(self) -> dict:
        return {
            "family": "Gaussian",
            "gdp": self.gdp,
            "active": list(self.active),
            "exact": self.exact,
            "proportional": self.proportional,
            "square": str(self.square),
        }

    @classmethod
    def from_dict(cls, data: dict) -> "GaussianLoss":
        """The loss that `to_dict` wrote."""
        active = tuple(data["active"])
        square = Fraction(data["square"])
        return cls(data["gdp"], active, data["exact"], data["proportional"], square)


@dataclass(frozen=True)
class LaplaceLoss(PrivacyLoss):
    """The loss of a Laplace mechanism: the shifts over scales of every hidden move that can be worst (DPAM Theorem 2).

    Which move is worst depends on epsilon, so one row of shifts is kept for each move, and releases compose move by
    move. Of very many moves only those are kept that no other one dominates, coordinate by coordinate.

    Moves in the hull of the given ones cost no more: the minimum of the densities p(x) and e^eps p(x - s) is
    log-concave in (x, s), hence so is its integral over x, which is 1 - delta (Prekopa); the Renyi divergences are
    convex in s.

    Parameters
    ----------
    rows : tuple of tuples of (shift, count)
        For each move the shifts over scales, rounded up, largest first, and how often each occurs; made by `of`.
    moves : tuple of int
        For each row the hidden move that attains it (its number in ``adjacency.moves(manifold)``), or -1 for a bound.
    aligned : bool
        Whether there is one row for every hidden move, in order.
    attained : bool
        Whether every row is attained.
    proportional : bool
        As for `GaussianLoss`.
    """

    rows: tuple
    moves: tuple
    aligned: bool = True
    attained: bool = True
    proportional: bool = True
    family = "Laplace"

    @classmethod
    def of(
        cls, shifts: ArrayLike, *, exact: bool = True, proportional: bool = True
    ) -> "LaplaceLoss":
        """From shifts over scales |Lambda^+ G z| (r, M), column m for the m-th hidden move of the adjacency.

        ``exact=False`` marks columns that are bounds, such as one number that bounds the 1-norm of every shift.
        """
        columns = np.abs(real_array(shifts, "shifts", ndim=2)).T
        moves = np.arange(len(columns)) if exact else np.full(len(columns), -1)
        aligned = True
        if np.count_nonzero(columns) > _KEPT:
            kept = _undominated(columns)
            if kept is None:
                largest = float_up(max(Product(_row(c)).bounded for c in columns))
                return one_coordinate(largest, proportional=proportional)
            columns, moves, aligned = columns[kept], moves[kept], False
        rows = tuple(_row(column) for column in columns)
        return cls(rows, tuple(moves.tolist()), aligned, exact, proportional)

    def products(self) -> Iterable[Product]:
        return (Product(row) for row in self.worst_rows)

    @cached_property
    def worst_rows(self) -> tuple:
        """Rows that no other one dominates, as far as that is cheap to say: their losses are those of all."""
        rows = tuple(dict.fromkeys(self.rows))
        length = max(sum(n for _, n in row) for row in rows)
        if len(rows) < 3 or length > _EXPANDED:
            return rows
        columns = np.zeros((len(rows), length))
        for place, row in enumerate(rows):
            shifts = [a for a, n in row for _ in range(n)]
            columns[place, : len(shifts)] = shifts
        kept = _undominated(columns)
        return rows if kept is None else tuple(rows[place] for place in kept)

    @cached_property
    def exact(self) -> bool:  # type: ignore[override]
        return self.attained and all(one.coordinates <= 1 for one in self._products)

    @property
    def exact_measures(self) -> tuple[str, ...]:
        if self.exact:
            return super().exact_measures
        return ("rdp", "zcdp") if self.attained else ()

    def attains(self, delta: float) -> bool:
        return self.exact or (delta == 0 and self.attained)

    @cached_property
    def active(self) -> tuple:  # type: ignore[override]
        """Hidden moves with the largest sum of shifts."""
        sums = {row: Product(row).bounded for row in set(self.rows)}
        largest = max(sums.values())
        pairs = zip(self.moves, self.rows)
        worst = {move for move, row in pairs if sums[row] == largest and move >= 0}
        return tuple(sorted(worst))

    def combine(self, other: Self) -> "LaplaceLoss":
        attained = self.attained and other.attained
        proportional = self.proportional and other.proportional
        mine, theirs = zip(self.rows, self.moves), zip(other.rows, other.moves)
        together = self.aligned and other.aligned and len(self.rows) == len(other.rows)
        if together:
            pairs = list(zip(mine, theirs))
        elif len(self.rows) * len(other.rows) > _ROWS:
            largest = decimal(self.pure) + decimal(other.pure)
            return one_coordinate(float_up(largest), proportional=proportional)
        else:
            pairs = list(product(mine, theirs))
        rows = tuple(_merged(first[0], second[0]) for first, second in pairs)
        moves = tuple(
            first[1] if first[1] == second[1] else -1 for first, second in pairs
        )
        attained &= min(moves) >= 0
        return LaplaceLoss(rows, moves, together, attained, proportional)

    def repeated(self, count: int) -> "LaplaceLoss":
        count = positive_integer(count, "count")
        rows = tuple(tuple((a, n * count) for a, n in row) for row in self.rows)
        return replace(self, rows=rows)

    def scaled(self, factor: Fraction) -> "LaplaceLoss":
        if factor == 1:
            return self
        if self.proportional:
            size = float(factor)
            rows = tuple(
                tuple((float(round_up(a * size, 2)), n) for a, n in row)
                for row in self.rows
            )
            return replace(self, rows=rows)
        if factor < 1:
            return replace(self, attained=False)
        steps = math.ceil(factor)
        largest = float_up(max(one.bounded for one in self._products) * steps)
        return one_coordinate(largest, proportional=False)

    def as_bound(self) -> "LaplaceLoss":
        """The same numbers, called upper bounds."""
        return replace(self, attained=False)

    def anonymous(self) -> "LaplaceLoss":
        moves = (-1,) * len(self.moves)
        return replace(self, moves=moves, aligned=False, attained=False)

    def to_dict(self) -> dict:
        return {
            "family": "Laplace",
            "rows": [[list(pair) for pair in row] for row in self.rows],
            "moves": list(self.moves),
            "aligned": self.aligned,
            "attained": self.attained,
            "proportional": self.proportional,
        }

    @classmethod
    def from_dict(cls, data: dict) -> "LaplaceLoss":
        """The loss that `to_dict` wrote."""
        rows = tuple(
            tuple(
                (positive_number(a, "shift"), positive_integer(n, "count"))
                for a, n in row
            )
            for row in data["rows"]
        )
        flags = (data["aligned"], data["attained"], data["proportional"])
        return cls(rows, tuple(data["moves"]), *flags)


def one_coordinate(epsilon: float, *, proportional: bool = True) -> LaplaceLoss:
    """The loss of one Laplace coordinate with shift `epsilon`: it bounds every Laplace release of that pure epsilon.

    Along the straight path from one data set to its neighbour the probability p of any event obeys
    p' <= min(p, 1 - p) per unit of pure epsilon, and so does a path of several steps. The flow of p' = min(p, 1 - p)
    is the shift of a Laplace law along its quantiles, that is the trade-off curve of one coordinate.
    """
    return LaplaceLoss.of([[epsilon]], exact=False, proportional=proportional)


def _row(shifts: NDArray) -> tuple:
    """Positive shifts with their counts, largest first."""
    counted = Counter(shifts[shifts > 0].tolist())
    return tuple(sorted(counted.items(), reverse=True))


def _merged(first: tuple, second: tuple) -> tuple:
    """Two rows of shifts as one."""
    counted = Counter(dict(first))
    counted.update(dict(second))
    return tuple(sorted(counted.items(), reverse=True))


def _undominated(columns: NDArray) -> list[int] | None:
    """Numbers of the rows (J, r) that no other row dominates; None if they are more than `_ROWS`.

    A coordinate with the smaller shift is a post-processing of the larger one, coordinates are independent, and
    their order does not matter: dominance may be tested on sorted coordinates.
    """
    rows = -np.sort(-columns, axis=1)
    left = np.argsort(-rows.sum(axis=1), kind="stable")
    kept: list[int] = []
    while left.size:
        if len(kept) == _ROWS:
            return None
        kept.append(int(left[0]))
        above = (rows[left] > rows[left[0]]).any(axis=1)
        left = left[above]
    return kept


@dataclass(frozen=True)
class BlackBoxLoss(PrivacyLoss):
    """The loss of releases of which only (epsilon, delta) is known, composed optimally.

    The worst mechanism of (epsilon, delta) fails openly with probability delta and otherwise answers a yes-no
    question with odds e^epsilon (randomised response). Their product bounds delta(epsilon) of all mechanisms of these
    numbers, whatever they are composed with (Kairouz, Oh, Viswanath 2015; Zhu, Dong, Wang 2022, Theorem 10).

    Parameters
    ----------
    pairs : tuple of (epsilon, delta, count)
        Distinct pairs, sorted. Numbers mean the decimals that they print as.
    """

    pairs: tuple
    family = "black-box"
    exact = False
    active = ()

    def __post_init__(self) -> None:
        total: dict = {}
        for epsilon, delta, count in self.pairs:
            pair = (
                positive_number(epsilon, "epsilon", zero=True),
                positive_number(delta, "delta", zero=True),
            )
            total[pair] = total.get(pair, 0) + positive_integer(count, "count")
        pairs = tuple((*pair, count) for pair, count in sorted(total.items()))
        if not pairs or max(delta for _, delta, _ in pairs) > 1:
            raise ValueError(
                f"pairs: expected (epsilon, delta, count) with delta at most 1, got {self.pairs}"
            )
        object.__setattr__(self, "pairs", pairs)

    def products(self) -> Iterable[Product]:
        return (Product(boxes=self.pairs),)

    def combine(self, other: Self) -> "BlackBoxLoss":
        return BlackBoxLoss(self.pairs + other.pairs)

    def repeated(self, count: int) -> "BlackBoxLoss":
        count = positive_integer(count, "count")
        return BlackBoxLoss(tuple((e, d, n * count) for e, d, n in self.pairs))

    def scaled(self, factor: Fraction) -> "BlackBoxLoss":
        """ceil(factor) steps: c eps and delta (1 + e^eps + ... + e^((c-1) eps)) (IP Proposition 4)."""
        steps = math.ceil(factor)
        if steps <= 1:
            return self
        return BlackBoxLoss(
            tuple((*_chained(e, d, steps), n) for e, d, n in self.pairs)
        )

    def to_dict(self) -> dict:
        return {"family": "black-box", "pairs": [list(pair) for pair in self.pairs]}

    @classmethod
    def from_dict(cls, data: dict) -> "BlackBoxLoss":
        """The loss that `to_dict` wrote."""
        return cls(tuple(map(tuple, data["pairs"])))


def _chained(epsilon: float, delta: float, steps: int) -> tuple[float, float]:
    """(steps eps, delta (e^(steps eps) - 1)/(e^eps - 1)), rounded up; the ratio is `steps` at eps = 0."""
    total = float_up(decimal(epsilon) * steps)
    if delta == 0:
        return total, 0.0
    if epsilon == 0:
        return total, min(float_up(decimal(delta) * steps), 1.0)
    if total > 700:
        return total, 1.0
    ratio = math.expm1(total) / math.expm1(epsilon) * (1 + 16 * EPS * (1 + total))
    return total, min(delta * ratio, 1.0)


@dataclass(frozen=True)
class MixedLoss(PrivacyLoss):
    """The loss of releases of several families: at most one composed loss of each."""

    losses: tuple[PrivacyLoss, ...]

    @property
    def parts(self) -> tuple:
        return self.losses

    def _part(self, kind: type[_Kind]) -> _Kind | None:
        for part in self.losses:
            if isinstance(part, kind):
                return part
        return None

    def products(self) -> Iterable[Product]:
        product = Product()
        gaussian, laplace = self._part(GaussianLoss), self._part(LaplaceLoss)
        boxes = self._part(BlackBoxLoss)
        if gaussian is not None:
            product = replace(product, gaussian=gaussian.gdp)
        if boxes is not None:
            product = replace(product, boxes=boxes.pairs)
        if laplace is None:
            return (product,)
        return (replace(product, shifts=row) for row in laplace.worst_rows)

    @property
    def family(self) -> str:  # type: ignore[override]
        names = [part.family for part in self.losses]
        return f"{', '.join(names[:-1])} and {names[-1]}"

    @property
    def active(self) -> tuple:  # type: ignore[override]
        each = [set(part.active) for part in self.losses]
        return tuple(sorted(set.intersection(*each)))

    @property
    def exact(self) -> bool:  # type: ignore[override]
        return False

    @property
    def exact_measures(self) -> tuple[str, ...]:
        gaussian, laplace = self._part(GaussianLoss), self._part(LaplaceLoss)
        if gaussian is None or laplace is None or len(self.losses) > 2:
            return ()
        if not (gaussian.exact and laplace.attained):
            return ()
        worst = set(laplace.moves) <= set(gaussian.active)
        return ("rdp", "zcdp") if worst else ()

    def combine(self, other: PrivacyLoss) -> PrivacyLoss:
        return composed(self, other)

    def repeated(self, count: int) -> "MixedLoss":
        return MixedLoss(tuple(part.repeated(count) for part in self.losses))

    def scaled(self, factor: Fraction) -> "MixedLoss":
        return MixedLoss(tuple(part.scaled(factor) for part in self.losses))

    def anonymous(self) -> "MixedLoss":
        return MixedLoss(tuple(part.anonymous() for part in self.losses))

    def to_dict(self) -> dict:
        return {"family": "mixed", "parts": [part.to_dict() for part in self.losses]}

    @classmethod
    def from_dict(cls, data: dict) -> "MixedLoss":
        """The loss that `to_dict` wrote."""
        return cls(tuple(map(loss_from_dict, data["parts"])))


_ORDER = (GaussianLoss, LaplaceLoss, BlackBoxLoss)
_LOSSES: dict[str, Any] = {
    "Gaussian": GaussianLoss,
    "Laplace": LaplaceLoss,
    "black-box": BlackBoxLoss,
    "mixed": MixedLoss,
}


def loss_from_dict(data: dict) -> PrivacyLoss:
    """The loss that some ``to_dict`` wrote."""
    return _LOSSES[data["family"]].from_dict(data)


def composed(first: PrivacyLoss, second: PrivacyLoss) -> PrivacyLoss:
    """The loss of two releases of the same secret together."""
    total = {type(part): part for part in first.parts}
    for part in second.parts:
        mine = total.get(type(part))
        total[type(part)] = part if mine is None else mine.combine(part)
    parts = tuple(total[kind] for kind in _ORDER if kind in total)
    return parts[0] if len(parts) == 1 else MixedLoss(parts)
