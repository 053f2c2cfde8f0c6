"""Shifts of several changes, and of changes of any shape, behind one noise.

Runs are of any length.

The same certified responses that give the shift of one change give that of several (see
``_apart``), and of a change of any shape within the radius r over at most k samples. With
R (k, k) the Gram matrix of the responses to unit changes at k samples in a row, times r^2,
that is the root of the largest w^T R w over signs w, since the value is convex in the change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..numerics.balls import (
    Ball,
    BallMatrix,
    current_bits,
    enclosure,
    upper_float,
    working_bits,
)
from ..numerics.errors import UncertifiableError
from ..privacy.repetition import Spacing, growth_apart
from ..secrets.secret import SignalMoves, WindowMoves
from ._apart import LagBounds, bounds_apart
from ._patterns import largest_pattern
from ._varying import Inverted
from ._whitened_response import (
    WhitenedResponse,
    in_enough_digits,
    is_known,
    largest_of,
)
from ._windows import WindowBounds, square_of_window


@dataclass(frozen=True, eq=False)
class ChangesLeft:
    """The whitened responses to changes of one plant's signals, behind one noise."""

    noise: Inverted

    @property
    def _signals(self) -> tuple[SignalMoves, ...]:
        return self.noise.secrets[0].signals

    @property
    def _windows(self) -> tuple[WindowMoves, ...]:
        return self.noise.secrets[0].windows

    @cached_property
    def _measured(self) -> tuple[int, WhitenedResponse, float]:
        """The bits that it takes, the response in balls, and the largest square of one."""

        def measured(
            response: WhitenedResponse,
        ) -> tuple[int, WhitenedResponse, float] | None:
            squares = [response.largest_square(moves) for moves in self._signals]
            for window in self._windows:
                squares.append(square_of_window(response, window))
            found = largest_of(squares)
            if not is_known(found):
                return None
            return current_bits(), response, upper_float(found)

        return in_enough_digits(self.noise.whitened, measured)

    @property
    def square(self) -> float:
        """The largest squared shift of one change."""
        return self._measured[2]

    @property
    def is_bounded(self) -> bool:
        """Whether a bound of that is certified."""
        try:
            return self.square > 0
        except UncertifiableError:
            return False

    @property
    def shift(self) -> float:
        """The largest shift of one change."""
        return math.sqrt(self.square)

    @cached_property
    def _tables(self) -> dict[int, LagBounds | WindowBounds]:
        """Bounds of products, by the first lag of each table."""
        return {}

    def _from(self, first: int) -> LagBounds | WindowBounds:
        """Return bounds of the products of changes at a lag and all later ones."""
        known = [lag for lag in self._tables if lag <= first]
        if known:
            return self._tables[max(known)]
        bits, response, square = self._measured
        with working_bits(bits):
            if self._windows:
                self._tables[first] = WindowBounds(response, self._windows, first)
            else:
                self._tables[first] = bounds_apart(
                    response, self._signals, first, square
                )
        return self._tables[first]

    def of_several(self, spacing: Spacing) -> float:
        """Return a bound of the shift of several changes at a distance."""
        if spacing.events == 1:
            return self.shift
        bounds = self._from(spacing.separation)
        growth = growth_apart(spacing, lambda lag: bounds.at(lag) / self.square)
        return self.shift * growth

    @cached_property
    def of_any_shape(self) -> tuple[float, NDArray[np.float64]]:
        """A bound of the shift of a change of any shape, and its pattern (k,)."""
        bits, response, square = self._measured
        found = []
        for moves in self._signals:
            with working_bits(bits):
                values, error = _shared(response, moves)
            found.append(largest_pattern(scipy.linalg.toeplitz(values), error))
        largest, signs = max(found, key=lambda each: each[0])
        return math.sqrt(max(largest, square)), signs


def _shared(
    response: WhitenedResponse, moves: SignalMoves
) -> tuple[NDArray[np.float64], float]:
    """Return products of a signal's responses at lags 0 .. k - 1, and their error."""
    products = response.entered([moves.column]).correlations(moves.longest)
    square = Ball(float(moves.radius)) ** 2
    scaled = [matrix[0, 0] * square for matrix in products]
    values, errors = enclosure(BallMatrix(len(scaled), 1, scaled))
    return values[:, 0], float(errors.max())
