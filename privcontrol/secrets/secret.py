"""State the effect of a hidden change on the outputs of a plant.

`Responses` are the outputs' differences over a horizon. `SecretInputs` are the same change
as inputs of a linear system, for runs of any length and for plants that vary.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..core.adjacency import Adjacency
from ..core.manifold import Moves
from ..numerics.balls import (
    submatrix,
)
from ..numerics.errors import PrivacyError
from ..numerics.objects import ByContent
from ..numerics.saved import Saved
from ..privacy.repetition import ONCE, Spaced, Spacing
from ..systems.linear import (
    LinearSystem,
    Plant,
    VaryingSystem,
    reached_states,
    response_from_rest,
)
from ..systems.powers import FreeResponse
from ..systems.transitions import run_responses
from ..systems.varying import VaryingPlant
from .moving import (
    difference_of,
    difference_without_one,
    exact_difference,
    is_exact,
    still_lasts,
)
from .run_moves import RunMoves
from .trajectory import trajectory_manifold

#: Lengths of a lasting change for which noise of a run may be of low order, and those
#: among which the shape of the noise is optimised.
MOST_LENGTHS = 40
MOST_VARIANTS = 128
NO_NOISE = (
    "no hidden move changes the published data: no noise is needed for this adjacency"
)


@dataclass(frozen=True)
class Apart:
    """Responses (T p, M) to changes, several of which may come in one run at a distance.

    ``starts`` (M,) are the samples at which they begin. Each may have either sign.
    """

    columns: NDArray[np.float64]
    starts: NDArray[np.intp]
    spacing: Spacing


@dataclass(frozen=True)
class Windows:
    """Responses (T p, N) to impulses, of which all signs within a window may come together.

    Attributes
    ----------
    columns : ndarray, shape (T p, N)
        Responses to impulses as large as their radii.
    index : tuple of ndarray
        The columns of each window.
    starts : ndarray
        The samples at which the windows begin.
    spacing : Spacing
        How many windows of one run may hold a change, and how far apart.
    """

    columns: NDArray[np.float64]
    index: tuple[NDArray[np.intp], ...]
    starts: NDArray[np.intp]
    spacing: Spacing = ONCE


@dataclass(frozen=True, eq=False)
class Responses:
    """Columns (T p, M) for moves that come alone, and roots (T p, q) for balls of moves.

    Changes of which several come in one run are ``apart``. Changes of any shape come as the
    ``windows`` that they fill.
    """

    points: NDArray[np.float64]
    balls: tuple[NDArray[np.float64], ...] = ()
    exact: bool = True
    apart: tuple[Apart, ...] = ()
    windows: tuple[Windows, ...] = ()

    @classmethod
    def of(
        cls, columns: NDArray[np.float64], is_ball: bool, exact: bool = True
    ) -> Responses:
        """Return the responses to single moves, or to the ball that they span."""
        if is_ball:
            return cls(np.empty((len(columns), 0)), (columns,), exact)
        return cls(columns, (), exact)

    @classmethod
    def several(
        cls, columns: NDArray[np.float64], starts: NDArray[np.intp], spacing: Spacing
    ) -> Responses:
        """Return the responses to as many changes at a distance as the run has room for."""
        apart = Apart(columns, starts, spacing.within(int(np.ptp(starts))))
        return cls(np.empty((len(columns), 0)), (), False, (apart,))

    @classmethod
    def joined(cls, found: Sequence[Responses]) -> Responses:
        """Return the responses to the moves of several secrets, or of several plants."""
        if len(found) == 1:
            return found[0]
        points = np.hstack([each.points for each in found])
        balls = tuple(ball for each in found for ball in each.balls)
        apart = tuple(several for each in found for several in each.apart)
        windows = tuple(several for each in found for several in each.windows)
        exact = all(each.exact for each in found)
        return cls(points, balls, exact, apart, windows)

    @cached_property
    def singles(self) -> NDArray[np.float64]:
        """Columns (T p, N) for single moves, and for changes of which several come.

        Those are as large as their sums would be if they shared no sample. What they share
        makes the sums larger.
        """
        together = [
            several.columns * np.sqrt(several.spacing.events) for several in self.apart
        ]
        return np.hstack([self.points, *together])

    @property
    def around_windows(self) -> list[NDArray[np.float64]]:
        """Roots of balls that hold the changes of each window."""
        balls = []
        for several in self.windows:
            for index in several.index:
                size = np.sqrt(len(index)) * several.spacing.events
                balls.append(several.columns[:, index] * size)
        return balls

    @property
    def moved(self) -> NDArray[np.bool_]:
        """Mask (T p,) of the outputs that some hidden move changes."""
        shaped = (several.columns for several in self.windows)
        each = [np.any(part, axis=1) for part in (self.singles, *self.balls, *shaped)]
        return np.any(each, axis=0)

    @property
    def effects(self) -> NDArray[np.float64]:
        """The largest change (T p,) of each output by a single change."""
        found = [np.abs(self.singles).max(axis=1, initial=0.0)]
        found += [np.linalg.norm(ball, axis=1) for ball in self.balls]
        for several in self.windows:
            sizes = np.abs(several.columns)
            found += [sizes[:, index].sum(axis=1) for index in several.index]
        return np.max(found, axis=0)


@dataclass(frozen=True, eq=False)
class SignalMoves(Spaced, ByContent):
    """Changes of one secret input.

    Attributes
    ----------
    column : int
        Which input of the secret's system.
    radius : float
        Size of the change, in the input's unit.
    shapes : tuple of ndarray
        Shapes (k,) of the change over time, scaled by the radius.
    lasting : bool
        Whether every beginning of a shape is a change as well.
    group : int
        Secret that the input belongs to: changes of one group may come together.
    spacing : Spacing
        Of the changes of the group in one run, each at its own time and input.
    rounded : bool
        Whether the entries of this input's column of B and D are rounded.
    """

    column: int
    radius: float
    shapes: tuple[NDArray[np.float64], ...] = (np.ones(1),)
    lasting: bool = False
    group: int = 0
    spacing: Spacing = ONCE
    rounded: bool = False

    def beginnings(self, shape: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return every beginning of a shape that is a change, the shape last."""
        first = 1 if self.lasting else len(shape)
        return [shape[:length] for length in range(first, len(shape) + 1)]

    @property
    def longest(self) -> int:
        """Largest number of samples of a shape."""
        return max(map(len, self.shapes))

    @property
    def variants(self) -> list[NDArray[np.float64]]:
        """The shapes, or at most `MOST_VARIANTS` beginnings of each one that lasts."""
        variants = []
        for shape in self.shapes:
            found = self.beginnings(shape)
            if len(found) > MOST_VARIANTS:
                spread = np.geomspace(1, len(found), MOST_VARIANTS)
                lengths = np.unique(np.round(spread).astype(int))
                found = [found[length - 1] for length in lengths]
            variants += found
        return variants

    def transforms(self, z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Return sums (N, K) of the samples v(t) z^-t of each variant at points z (N,)."""
        delay = 1 / z
        transforms = [np.polyval(variant[::-1], delay) for variant in self.variants]
        return np.transpose(transforms)


@dataclass(frozen=True, eq=False)
class WindowMoves(Spaced, ByContent):
    """Changes of any shape within a number of samples in a row.

    Attributes
    ----------
    columns : tuple of int
        Inputs of the secret's system that change together.
    radii : ndarray, shape (q,)
        Largest change of each of them at a sample, in the input's unit.
    longest : int
        Number k of samples.
    group : int
    spacing : Spacing
        As of `SignalMoves`.
    """

    columns: tuple[int, ...]
    radii: NDArray[np.float64]
    longest: int
    group: int = 0
    spacing: Spacing = ONCE

    @property
    def size(self) -> int:
        """Number k q of values of a change."""
        return self.longest * len(self.columns)


@dataclass(frozen=True, eq=False)
class SecretInputs(ByContent, Saved):
    """Secret inputs of a plant, with the changes of them that must be hidden.

    The moves of an initial state enter as impulses. The output after x(0) = z is the
    response to an impulse z on the state, one sample later.

    Attributes
    ----------
    system : LinearSystem
        G, from all secret inputs to the outputs.
    signals : tuple of SignalMoves
        Changes of single inputs.
    balls : tuple of tuple of int
        Inputs of which any impulse of Euclidean norm one is hidden.
    energies : ndarray, shape (q,), or None
        Radii, if all signals of weighted energy one are hidden.
    windows : tuple of WindowMoves
        Changes of any shape.
    origin : LinearSystem or None
        The system of which ``system`` is the difference (1 - z^-1) G, where that is
        rounded. Balls are made from it.
    without_one : bool
        Whether its poles at one are taken away by rational arithmetic.
    kept : ndarray, shape (k,), or None
        Mask of the states of that difference which ``system`` has.
    """

    system: LinearSystem
    signals: tuple[SignalMoves, ...] = ()
    balls: tuple[tuple[int, ...], ...] = ()
    energies: NDArray[np.float64] | None = None
    windows: tuple[WindowMoves, ...] = ()
    origin: LinearSystem | None = None
    without_one: bool = False
    kept: NDArray[np.bool_] | None = None

    @classmethod
    def of_differences(
        cls, system: LinearSystem, signals: tuple[SignalMoves, ...]
    ) -> SecretInputs:
        """Return changes of the inputs of (1 - z^-1) G, for a system G."""
        found = cls(difference_of(system), signals)
        seen = seen_of([found])
        if still_lasts(found.system, seen):
            difference = difference_without_one(system)
            every = np.ones(difference.order, bool)
            return cls(difference, signals, origin=system, without_one=True, kept=every)
        if is_exact(system):
            return found
        return replace(found, origin=system, kept=np.ones(len(seen), bool))

    def _saved_fields(self) -> dict[str, object]:
        saved = super()._saved_fields()
        if self.origin is None:
            for name in ("origin", "without_one", "kept"):
                del saved[name]
        return saved

    @classmethod
    def of_moves(
        cls, plant: Plant, columns: NDArray[np.float64], is_ball: bool
    ) -> SecretInputs:
        """Return moves (n, M) of the initial state, or their ball, as impulses."""
        inputs = range(columns.shape[1])
        still = np.zeros((plant.output_count, len(inputs)))
        system = LinearSystem(plant.A, columns, plant.C, still)
        if is_ball:
            return cls(system, (), (tuple(inputs),))
        return cls(system, tuple(SignalMoves(k, 1.0, rounded=True) for k in inputs))

    @classmethod
    def of_parts(cls, secrets: Sequence[SecretInputs]) -> SecretInputs:
        """Return the secrets of one plant side by side, each a group of its own."""
        if len(secrets) == 1:
            return secrets[0]
        A, _, C, _ = secrets[0].system.matrices
        for secret in secrets:
            if secret.origin is not None or secret.system.A.shape != A.shape:
                raise ValueError(
                    "adjacency: without a horizon an event that is moved is designed "
                    "alone; design for it alone, or over a finite horizon"
                )
        B = np.hstack([secret.system.B for secret in secrets])
        D = np.hstack([secret.system.D for secret in secrets])
        return cls.side_by_side(secrets, LinearSystem(A, B, C, D), apart=True)

    @classmethod
    def side_by_side(
        cls, secrets: Sequence[SecretInputs], system: LinearSystem, apart: bool = False
    ) -> SecretInputs:
        """Return the changes of several secrets as those of a system's inputs in turn.

        Those of secrets ``apart`` do not come together.
        """
        signals: list[SignalMoves] = []
        balls: list[tuple[int, ...]] = []
        windows: list[WindowMoves] = []
        first = 0
        for k, secret in enumerate(secrets):
            for moves in secret.signals:
                group = k if apart else moves.group
                column = moves.column + first
                signals.append(replace(moves, column=column, group=group))
            for index in secret.balls:
                balls.append(tuple(column + first for column in index))
            for window in secret.windows:
                columns = tuple(column + first for column in window.columns)
                group = k if apart else window.group
                windows.append(replace(window, columns=columns, group=group))
            first += secret.inputs
        energies = secrets[0].energies
        return cls(system, tuple(signals), tuple(balls), energies, tuple(windows))

    @property
    def once(self) -> SecretInputs:
        """The same secret with one change in a run."""
        return replace(
            self,
            signals=tuple(replace(moves, spacing=ONCE) for moves in self.signals),
            windows=tuple(replace(window, spacing=ONCE) for window in self.windows),
        )

    @property
    def in_any_shape(self) -> SecretInputs:
        """The same secret with changes of any shape in the place of single inputs' levels."""
        windows = []
        for moves in self.signals:
            columns, radii = (moves.column,), np.array([moves.radius])
            length, group = moves.longest, moves.group
            windows.append(WindowMoves(columns, radii, length, group, moves.spacing))
        return replace(self, signals=(), windows=(*self.windows, *windows))

    @property
    def several(self) -> bool:
        """Whether several changes may come in one run."""
        return any(moves.spacing.events > 1 for moves in self._changes)

    @property
    def several_apart(self) -> bool:
        """Whether several changes may come, at a distance."""
        return any(moves.spacing.is_apart for moves in self._changes)

    @property
    def all_apart(self) -> bool:
        """Whether all changes of which several may come do so at a distance."""
        several = [moves for moves in self._changes if moves.spacing.events > 1]
        return all(moves.spacing.is_apart for moves in several)

    @property
    def _changes(self) -> tuple[SignalMoves | WindowMoves, ...]:
        return (*self.signals, *self.windows)

    @property
    def inputs(self) -> int:
        """Number of secret inputs."""
        return self.system.input_count

    @property
    def scaled_system(self) -> LinearSystem:
        """G with inputs in units of their radii."""
        sizes = np.ones(self.inputs)
        for moves in self.signals:
            sizes[moves.column] = moves.radius
        for window in self.windows:
            sizes[list(window.columns)] = window.radii
        if self.energies is not None:
            sizes = self.energies
        return self.system.after(LinearSystem.gain(np.diag(sizes)))

    def in_balls(self) -> LinearSystem:
        """Return G in balls, the columns of rounded inputs as wide as their rounding."""
        if self.origin is not None and self.kept is not None:
            exact = exact_difference(self.origin, self.without_one)
            kept = np.flatnonzero(self.kept).tolist()
            A, B, C, D = exact.matrices
            rows, columns = range(C.nrows()), range(B.ncols())
            return LinearSystem(
                submatrix(A, kept, kept),
                submatrix(B, kept, columns),
                submatrix(C, rows, kept),
                D,
            )
        rounded = {moves.column for moves in self.signals if moves.rounded}
        return self.system.in_balls(rounded)

    @property
    def longest(self) -> int:
        """Largest number of samples of a shape."""
        return max([moves.longest for moves in self._changes], default=1)

    def keeping(self, states: NDArray[np.bool_]) -> SecretInputs:
        """Return the secret with the states of a mask (n,) alone."""
        A, B, C, D = self.system.matrices
        system = LinearSystem(A[np.ix_(states, states)], B[states], C[:, states], D)
        if self.kept is None:
            return replace(self, system=system)
        kept = self.kept.copy()
        kept[kept] = states
        return replace(self, system=system, kept=kept)

    def changes(self, horizon: int) -> NDArray[np.float64]:
        """Return single moves as signals (T, q, M), which begin at the first sample."""
        changes = []
        for moves in self.signals:
            for variant in moves.variants:
                change = np.zeros((horizon, self.inputs))
                during = variant[:horizon]
                change[: len(during), moves.column] = moves.radius * during
                changes.append(change)
        return np.stack(changes, axis=2)

    def largest_norm(self, samples: int) -> float:
        """Return the largest norm of a response to one change at the first sample."""
        responses = response_from_rest(self.system, self.changes(samples))
        return float(np.linalg.norm(responses, axis=(0, 1)).max())

    def effects(self, samples: int) -> NDArray[np.float64]:
        """Return the largest effects (p,) until so many samples after the longest change."""
        count = self.longest + samples
        impulse = self.scaled_system.impulse_response(count)
        balls = list(self.balls)
        if self.energies is not None:
            balls.append(tuple(range(self.inputs)))
        frames = [np.linalg.norm(impulse[:, :, list(ball)], axis=2) for ball in balls]
        if self.signals:
            frames.append(self._largest_responses(count))
        for window in self.windows:
            sizes = np.abs(impulse[:, :, list(window.columns)]).sum(axis=2)
            until = np.cumsum(sizes, axis=0)
            until[window.longest :] -= until[: -window.longest]
            frames.append(until)
        return np.max(frames, axis=(0, 1))

    def _largest_responses(self, samples: int) -> NDArray[np.float64]:
        """Return the largest response (T, p) to a single move."""
        if self.longest > 1:
            responses = response_from_rest(self.system, self.changes(samples))
            return np.abs(responses).max(axis=2)
        # a change of one sample, such as of the initial state, is an impulse
        columns = [moves.column for moves in self.signals]
        sizes = []
        for moves in self.signals:
            sizes.append(moves.radius * max(abs(float(v[0])) for v in moves.shapes))
        impulse = self.system.impulse_response(samples)
        return np.abs(impulse[:, :, columns] * sizes).max(axis=2)


@dataclass(frozen=True, eq=False)
class UncertainMoves:
    """Free responses C A^t V of a plant with uncertain entries, and when they begin.

    Attributes
    ----------
    matrix, spread : ndarray, shape (n + p, n)
        [A; C], and half-widths of its entries.
    axes : ndarray, shape (n, q)
        Scaled moves V of the state.
    times : ndarray
        Samples at which the state is moved.
    forwards : bool
        Whether the move changes nothing before its time. A state that is moved at a time
        was another one before as well.
    is_ball : bool
        Whether any combination of the moves of Euclidean norm one is hidden.
    """

    matrix: NDArray[np.float64]
    spread: NDArray[np.float64]
    axes: NDArray[np.float64]
    times: NDArray[np.intp]
    horizon: int
    forwards: bool = False
    is_ball: bool = False

    @property
    def order(self) -> int:
        """Number n of states."""
        return self.matrix.shape[1]

    @cached_property
    def entries(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows and columns (k,) of the uncertain entries."""
        rows, columns = np.nonzero(self.spread)
        return rows, columns

    @property
    def widths(self) -> NDArray[np.float64]:
        """Half-widths (k,) of the uncertain entries."""
        return self.spread[self.entries]

    @property
    def count(self) -> int:
        """Number M of moves."""
        return len(self.times) * self.axes.shape[1]

    @property
    def back(self) -> int:
        """Samples before the move that it changes."""
        return 0 if self.forwards else int(self.times.max())


class Secret(Adjacency):
    """Base of the adjacencies about signals and states of a plant.

    What a subclass does not say itself follows from its moves of the trajectory.
    """

    #: Samples at one of which the moves of `starting` may come, None for all.
    _move_times: tuple[int, ...] | None = (0,)
    #: Whether the moves of the initial state are the same under every plant.
    _suits_any_plant: bool = True

    @abstractmethod
    def entering(self, plant: Plant) -> SecretInputs:
        """Return the hidden moves as inputs of a plant whose run need not end.

        Raises
        ------
        ValueError
            If they depend on a horizon.
        """

    def starting(self, plant: Plant, horizon: int) -> SecretInputs:
        """Return the hidden moves of the first sample under a ``plant`` as inputs."""
        moves = self._first_moves(plant, horizon)
        return SecretInputs.of_moves(plant, moves.vectors, moves.is_ball)

    def _first_moves(self, plant: Plant, horizon: int) -> Moves:
        """Return moves of a ``plant``'s state over a ``horizon``, at one of `_move_times`."""
        return self.moves(trajectory_manifold(plant, horizon))

    def _over_periods(self, plant: VaryingPlant) -> Adjacency:
        """Return the secret as one of the plant whose samples are a plant's periods.

        Raises
        ------
        ValueError
            If a period's inputs do not describe it.
        """
        raise ValueError(
            "adjacency: a list of plants without a horizon hides one change of one signal "
            "at one sample (DisturbanceAdjacency(radius)), or a displaced first state "
            "(times=0): a change over samples of two periods is no input of one. Pass a "
            "horizon for other secrets"
        )

    def responses(self, plant: Plant, horizon: int) -> Responses:
        """Return a ``plant``'s output responses to the hidden moves, from balls."""
        moves = self.moves(trajectory_manifold(plant, horizon))
        if isinstance(moves, RunMoves):
            return Responses(moves.responses(plant, np.arange(len(moves.vectors.T))))
        if isinstance(plant, VaryingSystem):
            starts = np.zeros(moves.vectors.shape[1], int)
            every = run_responses(plant, moves.vectors, starts, horizon)
            columns = every.reshape(horizon * plant.output_count, -1)
            return Responses.of(columns, moves.is_ball, moves.exact)
        free = FreeResponse.of(plant.A, moves.vectors, 0, horizon - 1)
        columns = free.outputs(plant.C).reshape(horizon * plant.output_count, -1)
        return Responses.of(columns, moves.is_ball, moves.exact)

    def uncertain(
        self, plant: Plant, widths: LinearSystem, horizon: int
    ) -> UncertainMoves:
        """Return the hidden moves of every plant within ``widths`` of a ``plant``.

        Raises
        ------
        ValueError
            If they depend on the plant.
        """
        if not self._suits_any_plant:
            raise ValueError(
                "models: a PlantBox is bounded for moves that do not depend on the plant, "
                'such as those of a StateAdjacency with charts="times"; pass corners and '
                "a list of plants for others"
            )
        moves = self.moves(trajectory_manifold(plant, horizon))
        return UncertainMoves(
            np.vstack([plant.A, plant.C]),
            np.vstack([widths.A, widths.C]),
            moves.vectors,
            np.zeros(1, int),
            horizon,
            is_ball=moves.is_ball,
        )


def seen_of(secrets: Iterable[SecretInputs]) -> NDArray[np.bool_]:
    """Return the mask (n,) of states that a secret reaches and an output sees.

    It follows from exact zeros. Of several plants any one may act at any sample.
    """
    systems = [secret.system for secret in secrets]
    links = np.any([system.A != 0 for system in systems], axis=0)
    entered = np.any([system.B.any(axis=1) for system in systems], axis=0)
    seen = np.any([system.C.any(axis=0) for system in systems], axis=0)
    return reached_states(links, entered) & reached_states(links.T, seen)


def keeping(
    every: Sequence[SecretInputs], kept: NDArray[np.bool_]
) -> tuple[SecretInputs, ...]:
    """Return secrets with some states (n,) alone, refused if no output sees them."""
    secrets = tuple(inputs.keeping(kept) for inputs in every)
    systems = [secret.system for secret in secrets]
    if not any(system.C.any() or system.D.any() for system in systems):
        raise PrivacyError(NO_NOISE)
    return secrets
