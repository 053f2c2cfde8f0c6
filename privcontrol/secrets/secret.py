"""Tell what a hidden change adds to the outputs of a plant.

`Responses` are the outputs' differences over a horizon. `SecretInputs` are the same change
as inputs of a linear system, for runs of any length and for plants that vary.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core._linalg import (
    BallMatrix,
    RationalMatrix,
    ball_matrix,
    rational_matrix,
    working_bits,
)
from ..core._objects import ByContent, Saved
from ..core.adjacency import Adjacency
from ..core.manifold import AffineManifold, Moves
from ..systems.linear import LinearSystem, Plant, reached_states, response_from_rest
from ..systems.powers import FreeResponse
from .manifold import TrajectoryManifold, trajectory_manifold

#: Lengths of a lasting change among which the shape of the noise is optimised.
MOST_LENGTHS = 40

#: Makes moves as balls, some columns (n, m) at a time.
Blocks = Callable[[], Iterable[BallMatrix]]


@dataclass(frozen=True)
class Apart:
    """Responses (T p, M) to changes, several of which may come in one run at a distance.

    ``starts`` (M,) are the samples at which they begin. Any two of the ``events`` begin at
    least ``separation`` samples apart, each with either sign.
    """

    columns: NDArray
    starts: NDArray
    events: int
    separation: int


@dataclass(frozen=True)
class Responses:
    """Columns (T p, M) for single moves, and roots (T p, q) for balls of moves.

    Changes of which several come apart are single moves too, as large as their sums would
    be if they shared no sample. What they share makes the sums larger.
    """

    points: NDArray
    balls: tuple[NDArray, ...] = ()
    exact: bool = True
    apart: tuple[Apart, ...] = ()

    @classmethod
    def of(cls, columns: NDArray, is_ball: bool, exact: bool = True) -> Responses:
        """Return the responses to single moves, or to the ball that they span."""
        if is_ball:
            return cls(np.empty((len(columns), 0)), (columns,), exact)
        return cls(columns, (), exact)

    @classmethod
    def several(
        cls, columns: NDArray, starts: NDArray, events: int, separation: int
    ) -> Responses:
        """Return the responses to as many changes at a distance as the run has room for."""
        fitting = 1 + int(starts.max() - starts.min()) // separation
        apart = Apart(columns, starts, min(events, fitting), separation)
        return cls(columns * np.sqrt(apart.events), (), False, (apart,))

    @classmethod
    def joined(cls, found: Sequence[Responses]) -> Responses:
        """Return the responses to the moves of several secrets, or of several plants."""
        points = np.hstack([each.points for each in found])
        balls = tuple(ball for each in found for ball in each.balls)
        apart = tuple(several for each in found for several in each.apart)
        return cls(points, balls, all(each.exact for each in found), apart)

    @property
    def moved(self) -> NDArray:
        """Mask (T p,) of the outputs that some hidden move changes."""
        return np.any(np.hstack([self.points, *self.balls]), axis=1)


@dataclass(frozen=True, eq=False)
class SignalMoves(ByContent, Saved):
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
    events : int
        Number of changes of the group in one run, each at its own time and input.
    separation : int
        Samples from the beginning of one of them to that of the next one at least.
    rounded : bool
        Whether the entries of this input's column of B and D are rounded.
    """

    column: int
    radius: float
    shapes: tuple[NDArray, ...] = (np.ones(1),)
    lasting: bool = False
    group: int = 0
    events: int = 1
    separation: int = 0
    rounded: bool = False

    def beginnings(self, shape: NDArray) -> list[NDArray]:
        """Return every beginning of a shape that is a change, the shape last."""
        first = 1 if self.lasting else len(shape)
        return [shape[:length] for length in range(first, len(shape) + 1)]

    @property
    def longest(self) -> int:
        """Largest number of samples of a shape."""
        return max(map(len, self.shapes))

    @property
    def variants(self) -> list[NDArray]:
        """The shapes, or at most `MOST_LENGTHS` beginnings of each one that lasts."""
        variants = []
        for shape in self.shapes:
            found = self.beginnings(shape)
            if len(found) > MOST_LENGTHS:
                spread = np.geomspace(1, len(found), MOST_LENGTHS)
                lengths = np.unique(np.round(spread).astype(int))
                found = [found[length - 1] for length in lengths]
            variants += found
        return variants

    def transforms(self, z: NDArray) -> NDArray:
        """Return sums (N, K) of the samples v(t) z^-t of each variant at points z (N,)."""
        delay = 1 / z
        transforms = [np.polyval(variant[::-1], delay) for variant in self.variants]
        return np.transpose(transforms)


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
    """

    system: LinearSystem
    signals: tuple[SignalMoves, ...] = ()
    balls: tuple[tuple[int, ...], ...] = ()
    energies: NDArray | None = None

    @classmethod
    def of_moves(
        cls, plant: Plant, columns: NDArray, is_ball: bool, rounded: bool = True
    ) -> SecretInputs:
        """Return moves (n, M) of the initial state, or their ball, as impulses."""
        inputs = range(columns.shape[1])
        still = np.zeros((len(plant.C), len(inputs)))
        system = LinearSystem(plant.A, columns, plant.C, still)
        if is_ball:
            return cls(system, (), (tuple(inputs),))
        return cls(system, tuple(SignalMoves(k, 1.0, rounded=rounded) for k in inputs))

    @classmethod
    def of_parts(cls, secrets: Sequence[SecretInputs]) -> SecretInputs:
        """Return the secrets of one plant side by side, each a group of its own."""
        A, _, C, _ = secrets[0].system.matrices
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
        first = 0
        for k, secret in enumerate(secrets):
            for moves in secret.signals:
                group = k if apart else moves.group
                column = moves.column + first
                signals.append(replace(moves, column=column, group=group))
            for index in secret.balls:
                balls.append(tuple(column + first for column in index))
            first += secret.inputs
        energies = secrets[0].energies
        return cls(system, tuple(signals), tuple(balls), energies)

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
        if self.energies is not None:
            sizes = self.energies
        return self.system.after(LinearSystem.gain(np.diag(sizes)))

    def in_balls(self) -> LinearSystem:
        """Return G in balls, the columns of rounded inputs as wide as their rounding."""
        rounded = {moves.column for moves in self.signals if moves.rounded}
        return self.system.in_balls(rounded)

    @property
    def longest(self) -> int:
        """Largest number of samples of a shape."""
        return max([moves.longest for moves in self.signals], default=1)

    def keeping(self, states: NDArray) -> SecretInputs:
        """Return the secret with the states of a mask (n,) alone."""
        A, B, C, D = self.system.matrices
        system = LinearSystem(A[np.ix_(states, states)], B[states], C[:, states], D)
        return replace(self, system=system)

    def changes(self, horizon: int) -> NDArray:
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

    def effects(self, samples: int) -> NDArray:
        """Return the largest effects (p,) until so many samples after the longest change."""
        count = self.longest + samples
        impulse = self.scaled_system.impulse_response(count)
        balls = list(self.balls)
        if self.energies is not None:
            balls.append(tuple(range(self.inputs)))
        frames = [np.linalg.norm(impulse[:, :, list(ball)], axis=2) for ball in balls]
        if self.signals:
            responses = response_from_rest(self.system, self.changes(count))
            frames.append(np.abs(responses).max(axis=2))
        return np.max(frames, axis=(0, 1))


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

    matrix: NDArray
    spread: NDArray
    axes: NDArray
    times: NDArray
    horizon: int
    forwards: bool = False
    is_ball: bool = False

    @property
    def order(self) -> int:
        """Number n of states."""
        return self.matrix.shape[1]

    @cached_property
    def entries(self) -> tuple[NDArray, NDArray]:
        """Rows and columns (k,) of the uncertain entries."""
        rows, columns = np.nonzero(self.spread)
        return rows, columns

    @property
    def widths(self) -> NDArray:
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
    move_times: tuple[int, ...] | None = (0,)
    #: Whether the moves of the initial state are the same under every plant.
    suits_any_plant: bool = True
    #: Whether it enters during the run, so noise is correlated over the whole horizon.
    enters_the_run: bool = False
    #: Whether it is a ball of states, or of signals of bounded energy, whenever they come.
    is_ball: bool = False
    #: Whether a larger set of changes stands for it, so what is hidden is a bound.
    is_covered: bool = False
    #: Whether a change of few lengths comes once, whenever it starts.
    is_plain_change: bool = False

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
        moves = self.moves(trajectory_manifold(plant, horizon))
        return SecretInputs.of_moves(plant, moves.vectors, moves.is_ball)

    def responses(self, plant: Plant, horizon: int) -> Responses:
        """Return what the hidden moves add to a ``plant``'s outputs, rounded from balls."""
        moves = self.moves(trajectory_manifold(plant, horizon))
        free = FreeResponse(plant.A, moves.vectors, 0, horizon - 1)
        columns = free.outputs(plant.C).reshape(horizon * len(plant.C), -1)
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
        if not self.suits_any_plant:
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

    def balls_from(
        self, manifold: TrajectoryManifold, start: int, length: int
    ) -> tuple[Blocks, int]:
        """Return moves of a run as those of its state at ``start`` (n, M), and their bits.

        The run is of the trajectory ``manifold``; ``length`` samples are published from
        ``start`` on. The moves come in blocks of columns, since many do not fit in memory.
        """
        plant = manifold.plant
        free = FreeResponse(plant.A, np.eye(plant.order), 0, start)
        moves = self.moves(manifold)
        bits = max(free.bits, moves.bits)
        with working_bits(bits):
            initial = ball_matrix(moves.balls(range(plant.order)))
            vectors = free.at(start) * initial
        return lambda: [vectors], bits

    def spanning(self, manifold: TrajectoryManifold) -> RationalMatrix:
        """Return rational columns (n, k) whose span holds every move of the first state."""
        return rational_matrix(self.moves(manifold).vectors)


@dataclass(frozen=True, eq=False)
class _OfData(Secret):
    """Moves of a plant's trajectory that an adjacency about any data names."""

    adjacency: Adjacency
    suits_any_plant = False

    def moves(self, manifold: AffineManifold) -> Moves:
        return self.adjacency.moves(manifold)

    @property
    def statement(self) -> str:
        return self.adjacency.statement

    def to_dict(self) -> dict[str, Any]:
        return self.adjacency.to_dict()

    def entering(self, plant: Plant) -> SecretInputs:
        raise TypeError(
            "adjacency: expected a DisturbanceAdjacency, an InitialStateAdjacency "
            "or a StateAdjacency of the first samples without a horizon, got "
            f"{type(self.adjacency).__name__}"
        )


def as_secret(adjacency: Adjacency) -> Secret:
    """Return an adjacency as a secret of a plant."""
    return adjacency if isinstance(adjacency, Secret) else _OfData(adjacency)


@lru_cache(maxsize=2)  # a search for a floor asks again and again
def all_responses(
    adjacency: Adjacency, plants: Plant | Sequence[Plant], horizon: int
) -> Responses:
    """Return the responses to all moves under the dynamics of each of some plants."""
    if isinstance(plants, Plant):
        plants = (plants,)
    secrets = [as_secret(part) for part in adjacency.parts]
    found = [part.responses(plant, horizon) for plant in plants for part in secrets]
    return Responses.joined(found)


def secret_inputs(adjacency: Adjacency, plant: Plant) -> SecretInputs:
    """Return all parts of an adjacency as inputs of a plant.

    Raises
    ------
    TypeError
        If a part is about other data than those of a plant.
    ValueError
        If a part depends on a horizon, or is hidden by its energy beside others.
    """
    found = [as_secret(part).entering(plant) for part in adjacency.parts]
    if len(found) > 1 and any(each.energies is not None for each in found):
        raise ValueError(
            'adjacency: norm="l2" without a horizon is designed alone; design for it '
            "alone (with its radius it hides single changes of the same inputs too), or "
            "give the other parts as a duration"
        )
    return SecretInputs.of_parts(found)


def seen_of(secrets: Iterable[SecretInputs]) -> NDArray:
    """Return the mask (n,) of states that a secret reaches and an output sees.

    It follows from exact zeros. Of several plants any one may act at any sample.
    """
    systems = [secret.system for secret in secrets]
    links = np.any([system.A != 0 for system in systems], axis=0)
    entered = np.any([system.B.any(axis=1) for system in systems], axis=0)
    seen = np.any([system.C.any(axis=0) for system in systems], axis=0)
    return reached_states(links, entered) & reached_states(links.T, seen)
