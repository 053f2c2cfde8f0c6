"""Limits that noise never passes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..numerics.objects import ByContent
from ..numerics.saved import Saved
from ..privacy.horizon import NO_HORIZON, Horizon, horizon_of


@dataclass(frozen=True, eq=False)
class Bound(ByContent, Saved):
    """Limits of noise at each output, which it never passes.

    Attributes
    ----------
    limits : ndarray, shape (p,)
        Of its absolute value, infinite where there is none.
    changes : ndarray, shape (p,)
        Of its change from one sample to the next, infinite where there is none.
    samples : Horizon
        Of a run that is drawn ahead as one; none for blocks of innovations.
    """

    limits: NDArray[np.float64]
    changes: NDArray[np.float64]
    samples: Horizon = NO_HORIZON

    def __post_init__(self) -> None:
        object.__setattr__(self, "samples", horizon_of(self.samples))

    def share(self, gamma: NDArray[np.float64]) -> float:
        """Return the largest part of a limit that noise (T, p) reaches."""
        parts = np.abs(gamma) / self.limits
        steps = np.abs(np.diff(gamma, axis=0)) / self.changes
        return float(max(parts.max(), steps.max(initial=0.0)))

    def share_of_size(self, sizes: NDArray[np.float64]) -> float:
        """Return the largest part of a limit that noise of sizes (p,) at most reaches."""
        return float(max((sizes / self.limits).max(), (2 * sizes / self.changes).max()))

    def scaled(self, factor: float) -> Bound:
        """Return limits that are as many times as far."""
        return Bound(self.limits * factor, self.changes * factor, self.samples)
