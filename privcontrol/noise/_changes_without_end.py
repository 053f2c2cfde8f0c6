"""Several changes in runs of any length, and changes of any shape.

Noise without a horizon leaves of a change what V = M^-1 G makes of it. The same certified
responses that give the shift of one change give that of several (see ``_apart``), and of a
change of any shape within the radius r over at most k samples. With R (k, k) the Gram matrix
of the responses to unit changes at k samples in a row, times r^2, that is the root of the
largest w^T R w over signs w, since the value is convex in the change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from ..numerics.objects import ByContent
from ..numerics.thresholds import MOST_STATES_IN_BALLS
from ..privacy.repetition import Correlations, Spacing, growth_apart
from ..secrets.secret import SignalMoves, WindowMoves
from ..secrets.secrets import Secrets
from ..systems.linear import Autoregression, Plant, spectral_radius
from ._apart import LagBounds, are_many, bounds_apart
from ._autoregression import ChangesBehind, are_told_apart, changes_behind
from ._endless import joint_shift
from ._patterns import largest_pattern
from ._varying import Inverted, inverted
from ._whitened_response import (
    WhitenedResponse,
    in_enough_digits,
    is_known,
    largest_of,
)
from ._windows import WindowBounds, square_of_window
from .fleet import CoupledUnits, SeparateUnits
from .parts import NoisePart


def changes_without_end(
    parts: Sequence[NoisePart], secret: Secrets, plants: Sequence[Plant]
) -> EndlessChanges | None:
    """Return what noise without a horizon leaves, None where that is not told."""
    if any(isinstance(part, (CoupledUnits, SeparateUnits)) for part in parts):
        return None
    noises = []
    for plant in plants:
        (inputs,) = secret.under([plant])
        if are_many(inputs.signals):
            return None
        found = [each for each in inverted(parts, [inputs]) if each is not None]
        for each in found:
            system = each.secrets[0].system
            if each.response is not None or not spectral_radius(system) < 1:
                return None
            if each.square.order > MOST_STATES_IN_BALLS and not _is_long(each):
                return None
        noises.append(tuple(found))
    return EndlessChanges(tuple(noises))


@dataclass(frozen=True, eq=False)
class EndlessChanges(ByContent, Correlations):
    """Hold what is left of changes after noise without a horizon is inverted.

    Attributes
    ----------
    noises : tuple of tuple of Inverted
        For each plant that may be the true one the independent noises that hide it.
    """

    noises: tuple[tuple[Inverted, ...], ...]

    def __getstate__(self) -> dict[str, object]:
        return {"noises": self.noises}  # without what was evaluated, which is in balls

    @cached_property
    def _left(self) -> tuple[tuple[_Left | ChangesBehind, ...], ...]:
        """What each noise leaves of the changes, without noises of which no bound is known."""
        every = []
        for noises in self.noises:
            found: list[_Left | ChangesBehind] = []
            for k, noise in enumerate(noises):
                left = _by_lags(noise) or _Left(noise)
                if k == 0 or left.is_bounded:
                    found.append(left)
            every.append(tuple(found))
        return tuple(every)

    @cached_property
    def _shift(self) -> float:
        """The shift of one change."""
        return max(joint_shift(*[left.shift for left in lefts]) for lefts in self._left)

    def growth(self, spacing: Spacing) -> float:
        shifts = []
        for lefts in self._left:
            shifts.append(joint_shift(*[left.of_several(spacing) for left in lefts]))
        return max(shifts) / self._shift

    def any_shape(self) -> tuple[float, NDArray]:
        shifts = []
        patterns = []
        for lefts in self._left:
            found = [left.of_any_shape for left in lefts]
            shifts.append(joint_shift(*[shift for shift, _ in found]))
            patterns.append(found[0][1])
        worst = int(np.argmax(shifts))
        return max(shifts[worst] / self._shift, 1.0), patterns[worst]


@dataclass(frozen=True, eq=False)
class _Left:
    """What one noise leaves of the changes of one plant's signals."""

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
    def of_any_shape(self) -> tuple[float, NDArray]:
        """A bound of the shift of a change of any shape, and its pattern (k,)."""
        bits, response, square = self._measured
        found = []
        for moves in self._signals:
            with working_bits(bits):
                values, error = _shared(response, moves)
            found.append(largest_pattern(scipy.linalg.toeplitz(values), error))
        largest, signs = max(found, key=lambda each: each[0])
        return math.sqrt(max(largest, square)), signs


def _by_lags(noise: Inverted) -> ChangesBehind | None:
    """Return what a long autoregression leaves, which is known by its correlations.

    None for other noise.
    """
    shaping = noise.square
    if not isinstance(shaping, Autoregression) or not _is_long(noise):
        return None
    return changes_behind(shaping, noise.secrets[0].once)


def _is_long(noise: Inverted) -> bool:
    """Return whether noise is a long autoregression."""
    is_plain = isinstance(noise.square, Autoregression) and noise.response is None
    return (
        is_plain
        and noise.square.order > MOST_STATES_IN_BALLS
        and are_told_apart(noise.secrets[0])
    )


def _shared(response: WhitenedResponse, moves: SignalMoves) -> tuple[NDArray, float]:
    """Return products of a signal's responses at lags 0 .. k - 1, and their error."""
    products = response.entered([moves.column]).correlations(moves.longest)
    square = Ball(float(moves.radius)) ** 2
    scaled = [matrix[0, 0] * square for matrix in products]
    values, errors = enclosure(BallMatrix(len(scaled), 1, scaled))
    return values[:, 0], float(errors.max())
