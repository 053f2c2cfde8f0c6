"""Changes beyond the promised one: several in one run, and changes of any shape.

Over a horizon the whitened responses to all changes are compared as they are. Noise without
a horizon leaves of a change what V = M^-1 G makes of it. The same certified responses that
give the shift of one change give that of several (see ``_apart``), and of a change of any
shape within the radius r over at most k samples. Where a plant varies only the energies are
known that are left of a change some samples later (see ``_varying``). With R (k, k) the Gram matrix
of the responses to unit changes at k samples in a row, times r^2, that is the root of the
largest w^T R w over signs w, since the value is convex in the change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core.adjacency import Adjacency
from ..numerics.balls import (
    Ball,
    BallMatrix,
    current_bits,
    enclosure,
    upper_float,
    working_bits,
)
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import EPS
from ..numerics.objects import ByContent
from ..privacy.horizon import Horizon
from ..privacy.repetition import Correlations, growth_apart, growth_of_run
from ..secrets.disturbance import DisturbanceAdjacency, disturbances
from ..secrets.secret import Apart, SignalMoves, WindowMoves
from ..systems.linear import Autoregression, Plant, spectral_radius
from ._apart import LagBounds, Powers, are_many, bounds_apart, products_by_lag
from ._autoregression import ChangesBehind, are_told_apart, changes_behind
from ._endless import (
    WhitenedResponse,
    in_enough_digits,
    is_known,
    joint_shift,
    largest_of,
    secrets_of,
)
from ._patterns import largest_pattern
from ._varying import Fading, Inverted, inverted
from ._windows import (
    WindowBounds,
    product_error,
    search_in,
    square_of_window,
    squares_of,
    windows_by_lag,
)
from .fleet import CoupledUnits, SeparateUnits
from .parts import Filtered, NoisePart
from .whitened import dense_root, whitened_by

#: What takes responses to whitened ones and bounds of their errors.
Whitening = Callable[[NDArray], tuple[NDArray, NDArray]]

#: States of the noise above which only one change is bounded, but of an autoregression.
_MOST_STATES = 64
#: Entries of a run, and those times the lengths of a change, above which nothing is either.
_MOST_ENTRIES = 600
_MOST_COLUMNS = 8000
#: Samples of a change of any shape beyond which products count as large as energies.
_MOST_LAGS = 1000


def further_changes(
    parts: Sequence[NoisePart],
    adjacency: Adjacency,
    plants: Sequence[Plant],
    horizon: Horizon,
    claimed: float,
) -> Correlations | None:
    """Return what Gaussian noise leaves of several changes, and of changes of any shape.

    ``claimed`` is the shift that is promised. None where only one change is bounded:
    secrets other than changes of single signals, moved events next to others, noise and
    floor that share a change between them, plants that only the noise steadies, very many
    lengths, and runs whose whitened responses take seconds.
    """
    change = adjacency.change
    if change is None or change.energy:
        return None
    if len({part.is_varying for part in disturbances(adjacency)}) > 1:
        return None
    if len(adjacency.parts) > 1 and any(part.moved for part in disturbances(adjacency)):
        return None  # moved events may change places, which the others' words hide
    if not horizon.ends:
        return _endless_changes(parts, adjacency, plants)
    entries = int(horizon) * plants[0].output_count
    lengths = change.longest if change.varying else 1
    if entries > _MOST_ENTRIES or entries * (lengths or 1) > _MOST_COLUMNS:
        return None
    several = claimed if change.events > 1 else None
    return _RunOfChanges(tuple(parts), adjacency, tuple(plants), int(horizon), several)


def changes_of_region(
    parts: Sequence[NoisePart],
    adjacency: Adjacency,
    plants: Sequence[Plant],
    horizon: Horizon,
    claimed: float,
) -> Correlations | None:
    """Return what Gaussian noise leaves of several changes where a plant varies.

    ``plants`` are the vertices of what it varies between, and ``claimed`` is the shift that
    is promised. None where no more is known than of one change, as of noise that is drawn
    once.
    """
    change = adjacency.change
    if change is None or change.energy or not claimed > 0:
        return None
    if len({part.is_varying for part in disturbances(adjacency)}) > 1:
        return None
    if not all(part.drive is not None or part.white.all() for part in parts):
        return None
    secrets = secrets_of(adjacency, plants)
    if are_many(secrets[0].signals):
        return None
    noises = [each for each in inverted(parts, secrets) if each is not None]
    is_one = all(
        len(noise.secrets) == 1 for noise in noises
    )  # all plants answer as one
    if is_one and not horizon.ends:
        return _endless_changes(parts, adjacency, plants[:1])
    several = claimed if change.events > 1 and change.separation else None
    unit = None if several else claimed / change.events
    begins = [isinstance(part, Filtered) and part.starts_stationary for part in parts]
    is_from_rest = change.events == 1 and not any(begins)
    return _RegionOfChanges(tuple(noises), horizon, unit, is_from_rest, several)


def _endless_changes(
    parts: Sequence[NoisePart], adjacency: Adjacency, plants: Sequence[Plant]
) -> EndlessChanges | None:
    """Return what noise without a horizon leaves, None where that is not told."""
    if any(isinstance(part, (CoupledUnits, SeparateUnits)) for part in parts):
        return None
    noises = []
    for plant in plants:
        (secret,) = secrets_of(adjacency, [plant])
        if are_many(secret.signals):
            return None
        found = [each for each in inverted(parts, [secret]) if each is not None]
        for each in found:
            system = each.secrets[0].system
            if each.response is not None or not spectral_radius(system) < 1:
                return None
            if each.square.order > _MOST_STATES and not _is_long(each):
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
    def _left(self) -> tuple[tuple[_Left | _LeftByLags, ...], ...]:
        """What each noise leaves of the changes, without noises of which no bound is known."""
        every = []
        for noises in self.noises:
            found: list[_Left | _LeftByLags] = []
            for k, noise in enumerate(noises):
                left: _Left | _LeftByLags
                left = _LeftByLags(noise) if _is_long(noise) else _Left(noise)
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
                squares.append(
                    square_of_window(response.system, response.gramian, window)
                )
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
        whole = (response.system, response.gramian)
        with working_bits(bits):
            if self._windows:
                self._tables[first] = WindowBounds(*whole, self._windows, first)
            else:
                self._tables[first] = bounds_apart(*whole, self._signals, first, square)
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


def _is_long(noise: Inverted) -> bool:
    """Return whether noise is a long autoregression, which is known by its correlations."""
    is_plain = isinstance(noise.square, Autoregression) and noise.response is None
    return (
        is_plain
        and noise.square.order > _MOST_STATES
        and are_told_apart(noise.secrets[0])
    )


@dataclass(frozen=True, eq=False)
class _LeftByLags:
    """What a long autoregression leaves of the changes of one signal of a plant."""

    noise: Inverted

    is_bounded = True

    @cached_property
    def _changes(self) -> ChangesBehind:
        noise = self.noise.square
        if not isinstance(noise, Autoregression):
            raise TypeError(f"noise: expected an autoregression, got {noise!r}")
        return changes_behind(noise, self.noise.secrets[0].once)

    @property
    def shift(self) -> float:
        """The largest shift of one change."""
        return math.sqrt(self._changes.square)

    def of_several(self, count: int, separation: int) -> float:
        """Return a bound of the shift of several changes at a distance."""
        if count == 1:
            return self.shift
        return self._changes.of_several(count, separation)

    @property
    def of_any_shape(self) -> tuple[float, NDArray]:
        """A bound of the shift of a change of any shape, and its pattern (k,)."""
        largest, signs = self._changes.shape
        return math.sqrt(max(largest, self._changes.square)), signs


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


# -- over a horizon ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ChangesOfRun(ByContent, Correlations):
    """Hold what is left of changes of a run, relative to the largest one.

    Attributes
    ----------
    products : ndarray, shape (T,)
        Bounds of the inner products of changes, for each lag and all later ones.
    shape : float
        A bound of the shift of a change of any shape.
    worst : ndarray, shape (k,)
        Its signs.
    sizes : ndarray, shape (T,), or None
        Bounds of the shifts of the changes that begin at each sample, none above one. None
        where only the largest one is known.
    several : float or None
        The shift that is promised of several changes. None where it is about one.
    """

    _omitted = ("sizes", "several")

    products: NDArray
    shape: float
    worst: NDArray
    sizes: NDArray | None = None
    several: float | None = None

    def promised(self, events: int, separation: int) -> float:
        bound = self.growth(events, separation)
        return bound if self.several is None else min(bound, self.several)

    def growth(self, count: int, separation: int) -> float:
        fitting = 1 + (len(self.products) - 1) // separation
        products = self.products
        count = min(count, fitting)
        bound = growth_apart(count, separation, lambda lag: float(products[lag]))
        if self.sizes is None:
            return bound
        return min(bound, growth_of_run(self.sizes, products, count, separation))

    def any_shape(self) -> tuple[float, NDArray]:
        return self.shape, self.worst


@dataclass(frozen=True, eq=False)
class _RunOfChanges(ByContent, Correlations):
    """Hold the noise, the secret and the plants of a run, until they are asked for."""

    parts: tuple[NoisePart, ...]
    adjacency: Adjacency
    plants: tuple[Plant, ...]
    horizon: int
    several: float | None = None

    def growth(self, count: int, separation: int) -> float:
        return self.settled().growth(count, separation)

    def promised(self, events: int, separation: int) -> float:
        return self.settled().promised(events, separation)

    def any_shape(self) -> tuple[float, NDArray]:
        return self.settled().any_shape()

    def settled(self) -> ChangesOfRun:
        return self._settled

    @property
    def _secrets(self) -> list[DisturbanceAdjacency]:
        return disturbances(self.adjacency)

    @cached_property
    def _settled(self) -> ChangesOfRun:
        root, error_bound = dense_root(self.parts, self.horizon)
        longest = max(len(shape) for part in self._secrets for shape in part.shapes)
        if root is None:  # too little is known of the responses to compare them
            return ChangesOfRun(np.ones(self.horizon), float(longest), np.ones(longest))
        whitened = whitened_by(root)
        products = np.zeros(self.horizon)
        squares = np.zeros(self.horizon)
        least = largest_shape = 0.0
        worst = np.ones(longest)
        for plant in self.plants:
            later, square, each = self._products(plant, whitened)
            products[: len(later)] = np.maximum(products[: len(later)], later)
            squares = np.maximum(squares, each)
            least = max(least, square)
            for gram, error in self._grams(plant, whitened):
                if float(np.abs(gram).sum()) <= largest_shape:
                    continue
                found, signs = largest_pattern(gram, error, quick=True)
                if found > largest_shape:
                    largest_shape, worst = found, signs
        # both sides as wrong as the root
        doubt = ((1 + error_bound) / (1 - error_bound)) ** 2 * (1 + 1e-14)
        if not least > 0:
            return ChangesOfRun(np.ones(self.horizon), float(longest), np.ones(longest))
        shape = max(math.sqrt(largest_shape / least * doubt), 1.0)
        sizes = np.sqrt(np.minimum(squares / least * doubt, 1.0))
        several = self.several
        if several is not None:
            several /= math.sqrt(least * doubt)
        return ChangesOfRun(products / least * doubt, shape, worst, sizes, several)

    def _products(
        self, plant: Plant, whitened: Whitening
    ) -> tuple[NDArray, float, NDArray]:
        """Bound the products of changes by their lag, and the squares by their starts (T,).

        Between them comes the largest square from below.
        """
        squares = np.zeros(self.horizon)
        if not self._secrets[0].is_varying:
            columns, starts = self._levels(plant)
            solved, wrong = whitened(columns)
            later, square, largest = products_by_lag(solved, starts, wrong)
            own = np.einsum("ij,ij->j", solved, solved) + (largest - square)
            np.maximum.at(squares, starts, own)
            return later, square, squares
        later = np.zeros(self.horizon)
        square = 0.0
        for part in self._secrets:
            every = replace(part, events=2, separation=1)
            (windows,) = every.responses(plant, self.horizon).windows
            solved, wrong = whitened(windows.columns)
            error = product_error(solved, wrong)
            square = max(square, search_in(windows, solved, error).attained)
            own = windows_by_lag(windows, np.abs(solved.T @ solved) + error)
            later[: len(own)] = np.maximum(later[: len(own)], own)
            np.maximum.at(squares, windows.starts, squares_of(windows, solved, error))
        return later, square, squares

    def _levels(self, plant: Plant) -> tuple[NDArray, NDArray]:
        """Return the responses (T p, M) to all changes of a plant, and their starts (M,)."""
        every = [_one_by_one(part, plant, self.horizon) for part in self._secrets]
        return (
            np.hstack([apart.columns for apart in every]),
            np.concatenate([apart.starts for apart in every]),
        )

    def _grams(
        self, plant: Plant, whitened: Whitening
    ) -> Iterator[tuple[NDArray, float]]:
        """Yield products of whitened responses to unit changes in a row, and their error."""
        for part in self._secrets:
            is_level = part.profiles is None and part.duration > 1
            if not is_level or part.is_moving or part.is_varying:
                continue
            unit = replace(part, duration=1, times=None)
            solved, wrong = whitened(_one_by_one(unit, plant, self.horizon).columns)
            size = float(np.linalg.norm(solved, axis=0).max())
            doubt = float(np.linalg.norm(wrong, axis=0).max())
            error = doubt * (2 * size + doubt) + (len(solved) + 4) * EPS * size**2
            at = solved.reshape(len(solved), self.horizon, -1)
            for start in replace(part, events=1).starts(self.horizon).tolist():
                rows = at[:, start : start + part.duration]
                for signal in range(at.shape[2]):
                    row = rows[:, :, signal]
                    yield row.T @ row, error


def _one_by_one(part: DisturbanceAdjacency, plant: Plant, horizon: int) -> Apart:
    """Return the responses to single changes, with their starts."""
    several = replace(part, events=2, separation=part.moved + 1)
    (apart,) = several.responses(plant, horizon).apart
    return apart


# -- where a plant varies ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ChangesOfRegion(ByContent, Correlations):
    """Hold how what is left of a change fades, however a plant varies within a region.

    Attributes
    ----------
    noises : tuple of Fading
        Behind each of the independent noises.
    unit : float or None
        The shift that is promised over the number of changes that it is about, which may
        be less than follows from ``noises``. None where it is what does, and of changes
        that keep a distance.
    most : int or None
        Samples of the run, None where it has no end.
    several : float or None
        The shift that is promised of several changes that keep a distance.
    """

    _omitted = ("unit", "most", "several")

    noises: tuple[Fading, ...]
    unit: float | None = None
    most: int | None = None
    several: float | None = None

    @property
    def _one(self) -> float:
        """The shift of one change, as far as a promise says it."""
        shift = _together([noise.shift for noise in self.noises])
        return shift if self.unit is None else min(shift, self.unit)

    def growth(self, count: int, separation: int) -> float:
        if self.most is not None:
            count = min(count, 1 + (self.most - 1) // separation)
        shifts = [noise.of_several(count, separation) for noise in self.noises]
        return min(_together(shifts) / self._one, float(count))

    def promised(self, events: int, separation: int) -> float:
        bound = self.growth(events, separation)
        return bound if self.several is None else min(bound, self.several / self._one)

    def any_shape(self) -> tuple[float, NDArray]:
        shift = _together([noise.of_any_shape for noise in self.noises])
        count = len(self.noises[0].values)
        return float(np.clip(shift / self._one, 1.0, count)), np.ones(count)


@dataclass(frozen=True, eq=False)
class _RegionOfChanges(ByContent, Correlations):
    """Hold how the noises of a region are undone, until it is asked for."""

    noises: tuple[Inverted, ...]
    horizon: Horizon
    unit: float | None
    is_from_rest: bool
    several: float | None = None

    def growth(self, count: int, separation: int) -> float:
        return self.settled().growth(count, separation)

    def promised(self, events: int, separation: int) -> float:
        return self.settled().promised(events, separation)

    def any_shape(self) -> tuple[float, NDArray]:
        return self.settled().any_shape()

    def settled(self) -> ChangesOfRegion:
        return self._settled

    @cached_property
    def _settled(self) -> ChangesOfRegion:
        found = tuple(_fading_of(self.noises))
        most = int(self.horizon) if self.horizon.ends else None
        unit = self.unit if self.is_from_rest else None
        if most is not None and unit is not None and len(found) == 1:
            # the promise may follow from what comes within the run alone
            (fading,) = found
            found = (replace(fading, shift=min(fading.shift, unit)),)
        return ChangesOfRegion(found, self.unit, most, self.several)


def _fading_of(noises: Sequence[Inverted]) -> Iterator[Fading]:
    """Yield how a change fades behind each noise, as far as the shift counts them."""
    first, *others = noises
    yield first.fading()
    if first.response is not None:  # the floor is in it already
        return
    for other in others:
        with suppress(UncertifiableError):
            yield other.fading()
