"""Privacy loss of foreign releases, known by (epsilon, delta) alone, and of mixtures of families.

A foreign release is replaced by the worst mechanism of its (epsilon, delta), which is known explicitly; whatever it
is composed with, the result bounds the truth (Kairouz, Oh, Viswanath 2015; Zhu, Dong, Wang 2022, Theorem 10).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import expit, ndtri_exp

from .._linalg import EPS, positive_integer, positive_number
from ..calibration import SMALLEST_DELTA, kappa_upper
from .gaussian import GaussianLoss, PrivacyLoss, checked_delta, decimal, float_up
from .laplace import LaplaceLoss, laplace_delta
from .laplace_numbers import epsilon_upper

#: Points kept of the law of black-box answers.
_POINTS = 1 << 14
#: Evaluations of a Laplace curve when it is averaged over such a law.
_LEVELS = 49


@dataclass(frozen=True)
class BlackBoxLoss(PrivacyLoss):
    """The loss of releases of which only (epsilon, delta) is known, composed optimally.

    The worst mechanism of (epsilon, delta) fails openly with probability delta and otherwise answers a yes-no
    question with odds e^epsilon (randomised response). Their product gives the least delta(epsilon) that holds for
    all mechanisms of these numbers (Kairouz, Oh, Viswanath 2015; Murtagh, Vadhan 2016 for unequal numbers): never
    above basic or advanced composition.

    Parameters
    ----------
    pairs : tuple of (epsilon, delta, count)
        Distinct pairs, sorted. Numbers mean the decimals that they print as.
    """

    pairs: tuple
    family = "black-box"
    exact = False
    active = ()
    resolution = 1e-9

    def __post_init__(self):
        total = {}
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

    @cached_property
    def pure(self):
        """The epsilon at which only the failures remain: the sum."""
        return float_up(sum((decimal(e) * n for e, _, n in self.pairs), Fraction(0)))

    @cached_property
    def failure(self):
        """The probability that some release fails openly, 1 - prod(1 - delta), rounded up."""
        if any(d == 1 for _, d, _ in self.pairs):
            return 1.0
        total = float_up(sum((decimal(d) * n for _, d, n in self.pairs), Fraction(0)))
        joint = -math.expm1(math.fsum(n * math.log1p(-d) for _, d, n in self.pairs)) * (
            1 + 8 * EPS
        )
        return float(min(total, joint, 1.0))

    @property
    def law(self):
        """Losses and probabilities of the answers, both rounded up; losses increase."""
        return _law(tuple((e, n) for e, _, n in self.pairs))

    def delta(self, epsilon):
        epsilon = positive_number(epsilon, "epsilon", zero=True)
        if epsilon >= self.pure:
            return self.failure
        losses, masses = self.law
        excess = np.dot(masses, -np.expm1(np.minimum(epsilon - losses, 0.0))) * (
            1 + 8 * EPS * len(losses)
        )
        return with_failure(
            self.failure, max(float(excess), SMALLEST_DELTA)
        )  # masses may underflow

    def epsilon(self, delta):
        delta = checked_delta(delta)
        return (
            math.inf if delta < self.failure else min(super().epsilon(delta), self.pure)
        )

    @property
    def gdp(self):
        """sqrt of the sum of (2 Phi^-1(e^eps/(1 + e^eps)))^2; infinite where delta > 0, for failures have no mu."""
        sizes = [
            (-2 * ndtri_exp(-np.logaddexp(0.0, e)) if e else 0.0)
            for e, _, _ in self.pairs
        ]
        squares = math.fsum(n * mu * mu for (_, _, n), mu in zip(self.pairs, sizes))
        return math.inf if self.failure else math.sqrt(squares) * (1 + 1e-12)

    @property
    def zcdp(self):
        """Sum of eps^2/2 (Bun, Steinke 2016, Proposition 1.4)."""
        return (
            math.inf
            if self.failure
            else math.fsum(n * e * e / 2 for e, _, n in self.pairs) * (1 + 8 * EPS)
        )

    def rdp(self, alpha):
        return (
            math.inf
            if self.failure
            else math.fsum(n * _response_rdp(alpha, e) for e, _, n in self.pairs)
        )

    def combine(self, other):
        return BlackBoxLoss(self.pairs + other.pairs)

    def repeated(self, count):
        return BlackBoxLoss(
            tuple(
                (e, d, n * positive_integer(count, "count")) for e, d, n in self.pairs
            )
        )

    def scaled(self, factor):
        """ceil(factor) steps: c eps and delta (1 + e^eps + ... + e^((c-1) eps)) (IP Proposition 4)."""
        steps = math.ceil(factor)
        return (
            self
            if steps <= 1
            else BlackBoxLoss(
                tuple((*_chained(e, d, steps), n) for e, d, n in self.pairs)
            )
        )

    def to_dict(self):
        return {"family": "black-box", "pairs": [list(pair) for pair in self.pairs]}

    @classmethod
    def from_dict(cls, data):
        """The loss that `to_dict` wrote."""
        return cls(tuple(map(tuple, data["pairs"])))


@dataclass(frozen=True)
class MixedLoss(PrivacyLoss):
    """The loss of releases of several families: at most one composed loss of each.

    Laplace beside Gaussian is computed, not bounded, and exact where the same moves are worst; black boxes average
    delta(epsilon - loss) over the law of their loss.
    """

    parts: tuple
    resolution = 1e-5

    def _part(self, kind):
        return next((part for part in self.parts if isinstance(part, kind)), None)

    @property
    def family(self):
        names = [part.family for part in self.parts]
        return f"{', '.join(names[:-1])} and {names[-1]}"

    @property
    def failure(self):
        return max(part.failure for part in self.parts)

    @property
    def active(self):
        return tuple(
            sorted(set.intersection(*(set(part.active) for part in self.parts)))
        )

    @property
    def exact(self):
        gaussian, laplace = self._part(GaussianLoss), self._part(LaplaceLoss)
        known = not self._part(BlackBoxLoss) and gaussian.exact and laplace.exact
        return bool(
            known
            and {laplace.moves[row] for row in laplace.candidates}
            <= set(gaussian.active)
        )

    @cached_property
    def pure(self):
        """The epsilon at which only failures remain: the sum, infinite beside Gaussian noise."""
        gaussian, laplace, boxes = map(self._part, _ORDER)
        if gaussian is not None and gaussian.gdp > 0:
            return math.inf
        return float_up(
            decimal(laplace.pure if laplace else 0.0)
            + decimal(boxes.pure if boxes else 0.0)
        )

    def delta(self, epsilon):
        epsilon = positive_number(epsilon, "epsilon", zero=True)
        boxes = self._part(BlackBoxLoss)
        if epsilon >= self.pure:
            return self.failure
        if boxes is None:
            return self._known(epsilon)
        losses, masses = boxes.law
        levels = np.nextafter(epsilon - losses, -np.inf)
        average = float(np.dot(masses, self._known_at(levels, masses))) * (
            1 + 8 * EPS * len(losses)
        )
        return with_failure(
            boxes.failure, max(average, SMALLEST_DELTA)
        )  # masses may underflow

    def _known(self, epsilon):
        gaussian, laplace = self._part(GaussianLoss), self._part(LaplaceLoss)
        if laplace is None or gaussian is None:
            return (laplace or gaussian).delta(epsilon)
        return laplace_delta(epsilon, laplace, gaussian.gdp)

    def _known_at(self, levels, masses):
        """Upper bounds on delta of the known part at decreasing levels, also negative ones."""
        if self._part(LaplaceLoss) is None:
            return _reflected(
                levels, kappa_upper(np.abs(levels), self._part(GaussianLoss).gdp)
            )
        cut = (
            np.cumsum(masses[::-1])[::-1] <= 1e-14
        )  # too rare to be worth more than delta = 1
        start = min(int(np.searchsorted(np.cumsum(masses), 1e-4)), len(levels) - 1)
        stop = max(int(np.count_nonzero(~cut)) - 1, start)
        grid = levels[start : stop + 1]
        if len(grid) > _LEVELS:
            grid = np.linspace(grid[0], grid[-1], _LEVELS)
        values = _reflected(
            grid, np.array([self._known(abs(float(level))) for level in grid])
        )
        # delta is convex in e^level and decreasing: chords are above it, and so is the value at a lower level
        left = np.clip(
            np.searchsorted(-grid, -levels, side="right"), 1, max(len(grid) - 1, 1)
        )
        low, high = grid[np.minimum(left, len(grid) - 1)], grid[left - 1]
        span = np.where(high > low, np.expm1(np.minimum(high - low, 700.0)), 1.0)
        share = np.clip(np.expm1(np.minimum(levels - low, 700.0)) / span, 0.0, 1.0)
        below, above = values[np.minimum(left, len(grid) - 1)], values[left - 1]
        chord = below + share * (above - below) + 4 * EPS * below
        return np.where(levels < grid[-1], 1.0, np.minimum(chord, 1.0))

    def epsilon(self, delta):
        delta = checked_delta(delta)
        gaussian, laplace, boxes = map(self._part, _ORDER)
        if delta <= self.failure:
            return self.pure if delta == self.failure else math.inf
        if boxes is None and laplace.array is not None:
            return min(epsilon_upper(delta, laplace.array, gaussian.gdp), self.pure)
        return min(super().epsilon(delta), self.pure)

    @property
    def gdp(self):
        return math.sqrt(math.fsum(part.gdp**2 for part in self.parts)) * (1 + 4 * EPS)

    @property
    def zcdp(self):
        return math.fsum(part.zcdp for part in self.parts) * (1 + 4 * EPS)

    def rdp(self, alpha):
        return math.fsum(part.rdp(alpha) for part in self.parts) * (1 + 4 * EPS)

    def combine(self, other):
        total = self
        for part in other.parts:
            total = composed(total, part)
        return total

    def repeated(self, count):
        return MixedLoss(tuple(part.repeated(count) for part in self.parts))

    def scaled(self, factor):
        return MixedLoss(tuple(part.scaled(factor) for part in self.parts))

    def to_dict(self):
        return {"family": "mixed", "parts": [part.to_dict() for part in self.parts]}

    @classmethod
    def from_dict(cls, data):
        """The loss that `to_dict` wrote."""
        return cls(tuple(map(loss_from_dict, data["parts"])))


_ORDER = (GaussianLoss, LaplaceLoss, BlackBoxLoss)
_LOSSES = {
    "Gaussian": GaussianLoss,
    "Laplace": LaplaceLoss,
    "black-box": BlackBoxLoss,
    "mixed": MixedLoss,
}


def loss_from_dict(data):
    """The loss that some ``to_dict`` wrote."""
    return _LOSSES[data["family"]].from_dict(data)


def parts_of(loss):
    """The loss as a tuple of losses of one family each."""
    return loss.parts if isinstance(loss, MixedLoss) else (loss,)


def composed(first, second):
    """The loss of two releases of the same secret together."""
    total = {type(part): part for part in parts_of(first)}
    for part in parts_of(second):
        mine = total.get(type(part))
        total[type(part)] = part if mine is None else mine.combine(part)
    parts = tuple(total[kind] for kind in _ORDER if kind in total)
    return parts[0] if len(parts) == 1 else MixedLoss(parts)


def with_failure(failure, delta):
    """1 - (1 - failure)(1 - delta), rounded up."""
    return float(min((failure + (1 - failure) * min(delta, 1.0)) * (1 + 4 * EPS), 1.0))


def _response_rdp(alpha, epsilon):
    """Renyi divergence of randomised response, rounded up; never above alpha eps^2/2 or eps."""
    if alpha == math.inf:
        return epsilon
    value = (
        (alpha - 1) * epsilon
        + math.log1p(math.exp((1 - 2 * alpha) * epsilon))
        - math.log1p(math.exp(-epsilon))
    )
    value = (value + 8 * EPS * (alpha * epsilon + 2)) / (alpha - 1)
    return min(value, alpha * epsilon * epsilon / 2 * (1 + 4 * EPS), epsilon)


def _chained(epsilon, delta, steps):
    """(steps eps, delta (e^(steps eps) - 1)/(e^eps - 1)), rounded up; the ratio is `steps` at eps = 0."""
    total = float_up(decimal(epsilon) * steps)
    if delta == 0:
        return total, 0.0
    if epsilon == 0:
        return total, min(float_up(decimal(delta) * steps), 1.0)
    if total > 700:
        return total, 1.0
    return total, min(
        delta
        * (math.expm1(total) / math.expm1(epsilon))
        * (1 + 16 * EPS * (1 + total)),
        1.0,
    )


def _reflected(levels, values):
    """delta at the levels from delta at their sizes, rounded up: the two laws may be exchanged."""
    return np.where(
        levels < 0, 1 - np.exp(np.minimum(levels, 0.0)) * (1 - values) + 2 * EPS, values
    )


@lru_cache(maxsize=64)
def _law(groups):
    law = np.zeros(1), np.ones(1)
    for epsilon, count in groups:
        law = _sum(law, _answers(epsilon, count))
    losses, masses = law
    return losses + 64 * EPS * losses[-1], masses


def _answers(epsilon, count):
    """Loss and law of `count` randomised responses, by repeated squaring; all terms are positive."""
    power = np.array([-epsilon, epsilon]), expit([-epsilon, epsilon]) * (1 + 4 * EPS)
    total = None
    while count:
        if count & 1:
            total = power if total is None else _sum(total, power)
        count >>= 1
        power = _sum(power, power) if count else power
    return total


def _sum(first, second):
    """The law of a sum of two independent losses, rounded up."""
    if len(first[0]) * len(second[0]) > 1 << 21:
        first, second = (
            _coarser(*first, _POINTS // 16),
            _coarser(*second, _POINTS // 16),
        )
    losses = np.add.outer(first[0], second[0]).ravel()
    masses = np.multiply.outer(first[1], second[1]).ravel()
    order = np.argsort(losses)
    losses, masses = losses[order], masses[order] * (1 + 2 * EPS)
    starts = np.flatnonzero(np.r_[True, np.diff(losses) > 1e-13 * np.abs(losses[-1])])
    ends = np.r_[starts[1:], len(losses)] - 1
    merged = np.add.reduceat(masses, starts) * (1 + EPS * (ends - starts))
    return _coarser(losses[ends], merged, _POINTS)


def _coarser(losses, masses, points):
    """At most `points` losses, each moved up to the next point of an even grid."""
    if len(losses) <= points:
        return losses, masses
    grid = np.linspace(losses[0], losses[-1], points)
    grid[-1] = losses[-1]
    place = np.minimum(np.searchsorted(grid, losses), points - 1)
    return grid, np.bincount(place, masses, points) * (1 + EPS * len(losses))
