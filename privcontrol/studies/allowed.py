"""How much louder a loop's noise may be within a cost and errors that are allowed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..loop.data import LoopData
from ..loop.moments import Expected
from ..numerics.checks import one_of, positive_number
from ..numerics.linalg import smallest
from ..numerics.thresholds import ROUNDED
from .candidates import louder


@dataclass(frozen=True, eq=False)
class Allowed:
    """What a loop may cost, and how large its mean square errors may be.

    Attributes
    ----------
    expected : Expected
        What costs and errors are expected over.
    cost : float
    squares : ndarray, shape (n, 1)
        By state, infinite where any error is allowed.
    """

    expected: Expected
    cost: float
    squares: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        expected: Expected,
        cost: float | None,
        rms: Mapping[str, float] | None,
        states: tuple[str, ...],
    ) -> Allowed:
        """Return the limits on a cost and on errors of some states, both optional."""
        if not isinstance(rms, Mapping | None):
            raise TypeError(
                "rms: expected a mapping of states to errors, such as "
                f"{{'position': 0.5}}, got {type(rms).__name__}"
            )
        most = math.inf if cost is None else positive_number(cost, "cost")
        squares = np.full((len(states), 1), np.inf)
        for state, error in (rms or {}).items():
            limit = positive_number(error, f"rms[{state!r}]")
            squares[states.index(one_of(state, "rms", states))] = limit**2
        return cls(expected, most, squares)

    def keeps(self, loop: LoopData) -> bool:
        """Return whether a loop costs and errs no more than this."""
        return self._room(loop) >= 1 - ROUNDED

    def largest(self, loop: LoopData) -> float:
        """Return the factor that a loop's noise may grow by, 0 where none was found.

        A filter that knows the noise is another one for larger noise. It is better for
        the cost, and may be worse for a single state.
        """
        room = self._room(loop)
        has_errors = np.isfinite(self.squares).any()
        if room in (0, math.inf) or not has_errors or not loop.knows_noise:
            return room

        def is_enough(reduction: float) -> bool:
            return self.keeps(louder(loop, room / reduction))

        return room / smallest(
            is_enough, 1.0, 1.0, tolerance=ROUNDED, limit=1 / ROUNDED
        )

    def _room(self, loop: LoopData) -> float:
        """Return the factor that the noise may grow by with the filter as it is.

        It is 0 where no size is allowed.
        """
        cost = self.expected.cost(loop)
        quiet, noisy = self.expected.errors(loop)
        spare = self.cost - cost.regulation - cost.disturbance
        left = np.append(self.squares - quiet, spare)
        added = np.append(noisy, cost.privacy)
        if left.min() < 0:
            return 0.0
        used = added > 0
        return math.sqrt(np.min(left[used] / added[used], initial=math.inf))
