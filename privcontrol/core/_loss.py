"""Privacy loss of one release or of several: the numbers behind a guarantee, each exact or an upper bound."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ._linalg import positive_number, round_up
from .calibration import kappa, kappa_inverse


class PrivacyLoss(ABC):
    """The trade-off curve of a release; a subclass is one family of laws."""

    #: Name of the family, for the guarantee's sentence.
    family = ""
    #: Whether the curve is attained by some hidden move, or only an upper bound.
    exact = True

    @abstractmethod
    def delta(self, epsilon):
        """Smallest known delta for which (epsilon, delta) holds."""

    @abstractmethod
    def epsilon(self, delta):
        """Smallest known epsilon for which (epsilon, delta) holds; infinite if there is none."""

    @abstractmethod
    def rdp(self, alpha):
        """Renyi divergence of order alpha > 1."""

    @abstractmethod
    def compose(self, other):
        """The loss of both releases together, or NotImplemented."""

    @abstractmethod
    def to_dict(self):
        """JSON-ready form."""


@dataclass(frozen=True)
class GaussianLoss(PrivacyLoss):
    """The loss of a Gaussian mechanism: exactly y-GDP, and everything follows from y (DPAM eq. (7)).

    ``active`` holds the indices of the hidden moves that attain y: two releases compose exactly when one move is
    worst in both, and otherwise sqrt(y1^2 + y2^2) is an upper bound.
    """

    gdp: float
    active: tuple = ()
    exact: bool = True
    family = "Gaussian"

    def __post_init__(self):
        positive_number(self.gdp, "gdp", zero=True)

    def delta(self, epsilon):
        epsilon = positive_number(epsilon, "epsilon", zero=True)
        return min(float(round_up(kappa(epsilon, self.gdp) * (1 + 1e-14))), 1.0)

    def satisfies(self, budget):
        return self.gdp == 0 or (budget.delta > 0 and self.gdp <= kappa_inverse(budget.epsilon, budget.delta))

    def epsilon(self, delta):
        if not 0 <= delta < 1:
            raise ValueError(f"delta: expected a probability in [0, 1), got {delta}")
        if self.gdp == 0 or (delta > 0 and self.gdp <= kappa_inverse(0.0, delta)):
            return 0.0
        if delta == 0:
            return math.inf
        low, high = 0.0, 1.0
        while kappa_inverse(high, delta) < self.gdp:
            low, high = high, 2 * high
        while high - low > 2 * np.spacing(high):  # kappa_inverse rounds down: the upper end always satisfies delta
            middle = 0.5 * (low + high)
            low, high = (low, middle) if kappa_inverse(middle, delta) >= self.gdp else (middle, high)
        return float(high)

    @property
    def zcdp(self):
        return float(round_up(0.5 * self.gdp**2, 2))

    def rdp(self, alpha):
        return float(round_up(0.5 * alpha * self.gdp**2, 3))

    def compose(self, other):
        if not isinstance(other, GaussianLoss):
            return NotImplemented
        shared = tuple(sorted(set(self.active) & set(other.active)))
        exact = self.exact and other.exact and bool(shared)
        return GaussianLoss(float(round_up(math.hypot(self.gdp, other.gdp))), shared, exact)

    def to_dict(self):
        return {"family": "Gaussian", "gdp": self.gdp, "active": list(self.active), "exact": self.exact}
