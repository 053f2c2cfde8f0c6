"""Changes beyond the promised one: several in one run, and changes of any shape.

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

from ..core._linalg import (
    Ball,
    BallMatrix,
    current_bits,
    enclosure,
    upper_float,
    working_bits,
)
from ..core._objects import ByContent
from ..core.adjacency import Adjacency
from ..core.errors import UncertifiableError
from ..core.repetition import Correlations, growth_apart
from ..secrets.secret import SignalMoves
from ..systems.linear import Plant, spectral_radius
from ._apart import LagBounds, Powers, bounds_apart, count_changes
from ._endless import (
    WhitenedResponse,
    in_enough_digits,
    is_known,
    joint_shift,
    largest_of,
    secrets_of,
)
from ._patterns import largest_pattern
from ._varying import Undone, undone
from .parts import NoisePart

#: Changes of all lengths and signals above which nothing is made of their distance.
_MOST_CHANGES = 200
#: Samples of a change of any shape beyond which products count as large as energies.
_MOST_LAGS = 1000


def endless_changes(
    parts: Sequence[NoisePart], adjacency: Adjacency, plants: Sequence[Plant]
) -> EndlessChanges | None:
    """Return what noise without a horizon leaves of several changes, and of any shape.

    None where only one change is bounded: secrets other than changes of single signals,
    noise and floor that share a change between them, plants that only the noise steadies,
    and very many lengths.
    """
    change = adjacency.change
    if change is None or change.energy:
        return None
    noises = []
    for plant in plants:
        (secret,) = secrets_of(adjacency, [plant])
        if count_changes(secret.signals) > _MOST_CHANGES:
            return None
        found = [each for each in undone(parts, [secret]) if each is not None]
        for each in found:
            system = each.secrets[0].system
            if each.response is not None or not spectral_radius(system) < 1:
                return None
        noises.append(tuple(found))
    return EndlessChanges(tuple(noises))


@dataclass(frozen=True, eq=False)
class EndlessChanges(ByContent, Correlations):
    """Hold what is left of changes after noise without a horizon is undone.

    Attributes
    ----------
    noises : tuple of tuple of Undone
        For each plant that may be the true one the independent noises that hide it.
    """

    noises: tuple[tuple[Undone, ...], ...]

    def __getstate__(self) -> dict[str, object]:
        return {"noises": self.noises}  # without what was evaluated, which is in balls

    @cached_property
    def _left(self) -> tuple[tuple[_Left, ...], ...]:
        """What each noise leaves of the changes, without noises of which no bound is known."""
        every = []
        for noises in self.noises:
            found = []
            for k, noise in enumerate(noises):
                left = _Left(noise)
                if k == 0 or left.is_bounded:
                    found.append(left)
            every.append(tuple(found))
        return tuple(every)

    @cached_property
    def _shift(self) -> float:
        """The shift of one change."""
        return max(_together([left.shift for left in lefts]) for lefts in self._left)

    def growth(self, count: int, separation: int) -> float:
        shifts = []
        for lefts in self._left:
            shifts.append(
                _together([left.of_several(count, separation) for left in lefts])
            )
        return max(shifts) / self._shift

    def any_shape(self) -> tuple[float, NDArray]:
        shifts = []
        patterns = []
        for lefts in self._left:
            found = [left.of_any_shape for left in lefts]
            shifts.append(_together([shift for shift, _ in found]))
            patterns.append(found[0][1])
        worst = int(np.argmax(shifts))
        return max(shifts[worst] / self._shift, 1.0), patterns[worst]


def _together(shifts: Sequence[float]) -> float:
    """Return the shift behind independent noises of these shifts."""
    least = shifts[0]
    for shift in shifts[1:]:
        least = joint_shift(least, shift)
    return least


@dataclass(frozen=True, eq=False)
class _Left:
    """What one noise leaves of the changes of one plant's signals."""

    noise: Undone

    @property
    def _signals(self) -> tuple[SignalMoves, ...]:
        return self.noise.secrets[0].signals

    @cached_property
    def _measured(self) -> tuple[int, WhitenedResponse, float]:
        """The bits that it takes, the response in balls, and the largest square of one."""

        def measured(
            response: WhitenedResponse,
        ) -> tuple[int, WhitenedResponse, float] | None:
            found = largest_of(
                [response.largest_square(moves) for moves in self._signals]
            )
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
    def _tables(self) -> dict[int, LagBounds]:
        """Bounds of products, by the first lag of each table."""
        return {}

    def _from(self, first: int) -> LagBounds:
        """Return bounds of the products of changes at a lag and all later ones."""
        known = [lag for lag in self._tables if lag <= first]
        if known:
            return self._tables[max(known)]
        bits, response, square = self._measured
        with working_bits(bits):
            self._tables[first] = bounds_apart(
                response.system, response.gramian, self._signals, first, square
            )
        return self._tables[first]

    def of_several(self, count: int, separation: int) -> float:
        """Return a bound of the shift of several changes at a distance."""
        if count == 1:
            return self.shift
        bounds = self._from(separation)
        growth = growth_apart(
            count, separation, lambda lag: bounds.at(lag) / self.square
        )
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


def _shared(response: WhitenedResponse, moves: SignalMoves) -> tuple[NDArray, float]:
    """Return products of a signal's responses at lags 0 .. k - 1, and their error.

    With b and d the signal's columns, <h, h shifted by m> = b^T (A^T)^(m-1) (A^T Q b + C^T d)
    for m >= 1, and b^T Q b + d^T d for m = 0.
    """
    A, b, C, d = response.system.entered_by([moves.column]).matrices
    radius = Ball(float(moves.radius))
    echo = A.transpose() * response.gramian * b + C.transpose() * d
    energy = b.transpose() * response.gramian * b + d.transpose() * d
    powers = Powers(A)
    states = [powers.times(m, b) for m in range(min(moves.longest, _MOST_LAGS) - 1)]
    products: list[Ball] = [energy[0, 0]]
    products += [(state.transpose() * echo)[0, 0] for state in states]
    scaled = BallMatrix(len(products), 1, [each * radius**2 for each in products])
    values, errors = enclosure(scaled)
    further = np.full(moves.longest - len(products), abs(values[0, 0]))
    return np.concatenate([values[:, 0], further]), float(errors.max())
