"""Privacy loss of releases: the numbers behind a guarantee, each exact or an upper bound.

A loss is frozen data about one family of laws: Gaussian here, Laplace, foreign releases and mixtures in the modules
beside this one. Sizes accumulate as exact rationals and are rounded once, so that releases which fill a
budget to the last digit are neither refused nor let through.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .._linalg import EPS, positive_integer, positive_number, round_up
from ..calibration import LARGEST_EPSILON, SMALLEST_DELTA, kappa_inverse, kappa_upper


def decimal(value):
    """The shortest decimal that the float stands for, exactly: ten times 0.1 make one."""
    return Fraction(repr(float(value)))


def float_up(value):
    """The smallest float that, read as a decimal, is not below the rational `value`."""
    nearest = float(value)
    return nearest if decimal(nearest) >= value else math.nextafter(nearest, math.inf)


def root_up(value):
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


def concentrated_delta(epsilon, rho):
    """A delta that rho-zCDP promises at epsilon, by the best of some Renyi orders (Canonne, Kamath, Steinke 2020)."""
    if rho == 0:
        return 0.0
    order = np.maximum((epsilon + rho) / (2 * rho), 1.001) * np.geomspace(0.7, 1.4, 57)
    order = order[order > 1]
    logs = (
        (order - 1) * (order * rho - epsilon)
        - np.log(order - 1)
        + order * np.log1p(-1 / order)
    )
    return min(
        1.0, max(float(np.exp(min(logs.min(), 0.0))) * (1 + 1e-9), SMALLEST_DELTA)
    )  # exp may underflow


def concentrated_epsilon(delta, rho):
    """rho + 2 sqrt(rho log(1/delta)), an epsilon that rho-zCDP promises (Bun, Steinke 2016, Proposition 1.3)."""
    return (
        float((rho + 2 * math.sqrt(rho * -math.log(delta))) * (1 + 8 * EPS))
        if delta > 0
        else math.inf
    )


def checked_delta(delta):
    """`delta` as a float in [0, 1)."""
    delta = positive_number(delta, "delta", zero=True)
    if delta >= 1:
        raise ValueError(f"delta: expected a probability in [0, 1), got {delta}")
    return delta


class PrivacyLoss(ABC):
    """The trade-off curve of a release; a subclass is one family of laws.

    Every subclass also has ``family`` (its name), ``exact`` (whether delta(epsilon) is attained by a hidden move),
    ``active`` (indices of the hidden moves that do), ``gdp`` and ``zcdp``.
    """

    #: Relative resolution of `epsilon` where it is found by halving.
    resolution = 1e-12
    #: Below this delta, or at it beside Gaussian noise, no epsilon is finite (but for delta = 0).
    failure = 0.0

    @abstractmethod
    def delta(self, epsilon):
        """Smallest known delta for which (epsilon, delta) holds."""

    @abstractmethod
    def rdp(self, alpha):
        """Renyi divergence of order alpha > 1."""

    @abstractmethod
    def combine(self, other):
        """The loss of both releases together, `other` of the same family."""

    @abstractmethod
    def repeated(self, count):
        """The loss of `count` releases by this very mechanism."""

    @abstractmethod
    def scaled(self, factor):
        """The loss for moves `factor` (a rational) times as large."""

    @abstractmethod
    def to_dict(self):
        """JSON-ready form."""

    def epsilon(self, delta):
        """Smallest known epsilon for which (epsilon, delta) holds, where it is read off the curve; else infinity."""
        delta = checked_delta(delta)
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, 1.0
        while self.delta(high) > delta:
            low, high = high, 2 * high
            if high > 1e6:
                return math.inf
        while high - low > self.resolution * high:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high

    def satisfies(self, budget):
        """Whether the budget holds: its (epsilon, delta), or its GDP for the whole curve."""
        if budget.gdp is not None:
            return self.gdp <= budget.gdp
        return self.delta(budget.epsilon) <= budget.delta


@dataclass(frozen=True)
class GaussianLoss(PrivacyLoss):
    """The loss of a Gaussian mechanism: exactly y-GDP, and everything follows from y (DPAM eq. (7)).

    ``active`` holds the indices of the hidden moves that attain y: two releases compose exactly when one move is
    worst in both, and otherwise sqrt(y1^2 + y2^2) is an upper bound. ``proportional`` says that y is linear in the
    size of the move, as it is for affine queries and for Lipschitz bounds; it is False for a sensitivity known at
    one radius only. ``square`` is the exact sum of squares behind y.
    """

    gdp: float
    active: tuple = ()
    exact: bool = True
    proportional: bool = True
    square: Fraction | None = None
    family = "Gaussian"

    def __post_init__(self):
        object.__setattr__(self, "gdp", positive_number(self.gdp, "gdp", zero=True))
        if self.square is None:
            object.__setattr__(self, "square", Fraction(self.gdp) ** 2)
        elif Fraction(self.gdp) ** 2 < self.square:
            raise ValueError(
                f"gdp: expected at least the root of the sum of squares, got {self.gdp}"
            )

    def delta(self, epsilon):
        return min(
            float(
                kappa_upper(positive_number(epsilon, "epsilon", zero=True), self.gdp)
            ),
            1.0,
        )

    def satisfies(self, budget):
        if budget.gdp is not None:
            return self.gdp <= budget.gdp
        if (
            self.gdp == 0
            or budget.delta < SMALLEST_DELTA
            or budget.epsilon > LARGEST_EPSILON
        ):
            return self.delta(budget.epsilon) <= budget.delta
        return bool(self.gdp <= kappa_inverse(budget.epsilon, budget.delta))

    def epsilon(self, delta):
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
        while high - low > 2 * np.spacing(
            high
        ):  # kappa_inverse rounds down: the upper end always satisfies delta
            middle = 0.5 * (low + high)
            low, high = (
                (low, middle)
                if kappa_inverse(middle, delta) >= self.gdp
                else (middle, high)
            )
        return float(high)

    @property
    def zcdp(self):
        return float(round_up(0.5 * self.gdp * self.gdp, 2)) if self.gdp else 0.0

    def rdp(self, alpha):
        return (
            float(round_up(0.5 * alpha * self.gdp * self.gdp, 3)) if self.gdp else 0.0
        )

    def combine(self, other):
        shared = tuple(sorted(set(self.active) & set(other.active)))
        square = self.square + other.square
        exact = (
            self.exact
            and other.exact
            and (bool(shared) or 0 in (self.square, other.square))
        )
        return GaussianLoss(
            root_up(square),
            shared,
            exact,
            self.proportional and other.proportional,
            square,
        )

    def repeated(self, count):
        square = self.square * positive_integer(count, "count")
        return GaussianLoss(
            root_up(square), self.active, self.exact, self.proportional, square
        )

    def scaled(self, factor):
        exact = self.exact and (self.proportional or factor == 1)
        if (
            not self.proportional
        ):  # a path of ceil(factor) steps, each no longer than the known one
            factor = Fraction(math.ceil(max(factor, 1)))
        square = self.square * factor**2
        return GaussianLoss(
            root_up(square), self.active, exact, self.proportional, square
        )

    def to_dict(self):
        flags = {"exact": self.exact, "proportional": self.proportional}
        return {
            "family": "Gaussian",
            "gdp": self.gdp,
            "active": list(self.active),
            **flags,
            "square": str(self.square),
        }

    @classmethod
    def from_dict(cls, data):
        """The loss that `to_dict` wrote."""
        square = Fraction(data["square"])
        return cls(
            data["gdp"],
            tuple(data["active"]),
            data["exact"],
            data["proportional"],
            square,
        )
