"""Describe secrets of a run that never ends, and how the outputs respond to them.

Noise of bounded size hides what the plant forgets. A secret that the plant remembers for ever,
or that grows in it, is refused with the mode by name and with what to do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.adjacency import Adjacency
from ..core.errors import PrivacyError
from ..core.moves import EllipsoidMoves
from ..trajectory.adjacency import InitialStateAdjacency, StateAdjacency
from ..trajectory.disturbance import (
    DisturbanceAdjacency,
)
from ..trajectory.linear import LinearSystem
from ..trajectory.manifold import trajectory_manifold
from ..trajectory.modes import growing_mode
from ..trajectory.plant import Plant
from ._shift import SignalMoves
from ._spectrum import Responses

#: Distance from the unit circle below which a mode counts as one that does not decay.
_UNDAMPED = 1e-9


@dataclass(frozen=True, eq=False)
class EndlessSecret:
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
    signals: tuple[SignalMoves, ...]
    balls: tuple[tuple[int, ...], ...]
    energies: NDArray | None

    @classmethod
    def of(cls, adjacency: Adjacency, plant: Plant) -> "EndlessSecret":
        """The secret that an adjacency describes, refused if the plant never forgets it."""
        inputs = _Inputs(adjacency, plant)
        kept = _kept_states([inputs])
        _check_forgotten(plant, kept)
        secret = inputs.secret(kept)
        if not (secret.system.D.any() or secret.system.order):
            raise PrivacyError(
                "no hidden move changes what is published: no noise is needed for this "
                "adjacency"
            )
        return secret

    @classmethod
    def of_vertices(
        cls, adjacency: Adjacency, plants: Sequence[Plant]
    ) -> list["EndlessSecret"]:
        """The secret under each of several plants, with the same states in all.

        Nothing is asked of the modes. A plant whose secret no output sees has one state
        that stays at zero.
        """
        every = [_Inputs(adjacency, plant) for plant in plants]
        kept = _kept_states(every)
        if not kept.any():
            kept[0] = True
        return [inputs.secret(kept) for inputs in every]

    @property
    def inputs(self) -> int:
        """Number of secret inputs."""
        return self.system.D.shape[1]

    @property
    def scaled_system(self) -> LinearSystem:
        """G with inputs in units of their radii."""
        sizes = np.ones(self.inputs)
        for moves in self.signals:
            sizes[moves.column] = moves.radius
        if self.energies is not None:
            sizes = self.energies
        return self.system.after(LinearSystem.gain(np.diag(sizes)))

    @property
    def longest(self) -> int:
        """Largest number of samples of a shape."""
        shapes = [shape for moves in self.signals for shape in moves.shapes]
        return max(map(len, shapes), default=1)

    def responses(self, z: NDArray, system: LinearSystem) -> Responses:
        """Responses of a system to all moves at points z (N,).

        Several events count as if they were far apart, which they may be.
        """
        response = system.frequency_response(z)
        count, outputs, _ = response.shape
        points = np.zeros((count, outputs, 0), complex)
        for moves in self.signals:
            size = moves.radius * np.sqrt(moves.events)
            column = size * response[:, :, [moves.column]]
            transforms = moves.transforms(z)
            moved = column * transforms[:, None]
            points = np.concatenate([points, moved], axis=2)
        balls = [response[:, :, list(columns)] for columns in self.balls]
        return Responses(points, balls)

    def changes(self, horizon: int) -> NDArray:
        """Single moves as signals (T, q, M), which begin at the first sample."""
        changes = []
        for moves in self.signals:
            for variant in moves.variants:
                change = np.zeros((horizon, self.inputs))
                during = variant[:horizon]
                change[: len(during), moves.column] = moves.radius * during
                changes.append(change)
        return np.stack(changes, axis=2)


class _Inputs:
    """Secret inputs of all parts of an adjacency, side by side."""

    def __init__(self, adjacency: Adjacency, plant: Plant) -> None:
        self.plant = plant
        self.entry = np.zeros((plant.order, 0))
        self.through = np.zeros((len(plant.C), 0))
        self._signals: list[SignalMoves] = []
        self._balls: list[tuple[int, ...]] = []
        self._energies: NDArray | None = None
        for group, part in enumerate(adjacency.parts):
            if isinstance(part, DisturbanceAdjacency):
                self._add_disturbance(part, group)
            elif isinstance(part, (StateAdjacency, InitialStateAdjacency)):
                self._add_state(part, group)
            else:
                raise TypeError(
                    "adjacency: expected a DisturbanceAdjacency, an InitialStateAdjacency "
                    "or a StateAdjacency of the first samples without a horizon, got "
                    f"{type(part).__name__}"
                )
        if self._energies is not None and len(adjacency.parts) > 1:
            raise ValueError(
                'adjacency: norm="l2" without a horizon is designed alone; design for it '
                "alone (with its radius it hides single changes of the same inputs too), or "
                "give the other parts as a duration"
            )

    def secret(self, kept: NDArray) -> EndlessSecret:
        """The secret whose responses are those of the states of a mask (n,)."""
        A = self.plant.A[np.ix_(kept, kept)]
        B = self.entry[kept]
        C = self.plant.C[:, kept]
        system = LinearSystem(A, B, C, self.through)
        signals = tuple(self._signals)
        balls = tuple(self._balls)
        return EndlessSecret(system, signals, balls, self._energies)

    def _enter(self, entry: NDArray, through: NDArray) -> range:
        """Add inputs by their columns of B and D, and return their numbers."""
        _, first = self.entry.shape
        self.entry = np.hstack([self.entry, entry])
        self.through = np.hstack([self.through, through])
        _, end = self.entry.shape
        return range(first, end)

    def _add_disturbance(self, part: DisturbanceAdjacency, group: int) -> None:
        if part.times is not None:
            raise ValueError(
                "times: without a horizon a disturbance may change at any time; leave times "
                "out, or design for a finite horizon"
            )
        secret = part.system(self.plant)
        inputs = self._enter(secret.B, secret.D)
        radii = part.radii(self.plant)
        if part.norm == "l2":
            self._energies = radii
            return
        shapes = part.profiles
        lasting = shapes is None
        if shapes is None:
            shapes = (np.ones(part.duration),)
        for column, radius in zip(inputs, radii.tolist()):
            moves = SignalMoves(column, radius, shapes, lasting, group, part.events)
            self._signals.append(moves)

    def _add_state(self, part: Adjacency, group: int) -> None:
        times: tuple[int, ...] = (0,)
        if isinstance(part, StateAdjacency):
            if part.times is None:
                raise ValueError(
                    "times: without a horizon a state is protected at the first samples "
                    "only, since a small move late in the run was a large one at its start; "
                    "pass times=0, or protect what enters during the run with a "
                    "DisturbanceAdjacency"
                )
            if part.charts != "times":
                raise ValueError(
                    'charts: the moves of charts="all" depend on the horizon; use '
                    'charts="times", or design for a finite horizon'
                )
            times = part.times
        moves: Any = part.moves(trajectory_manifold(self.plant, max(times) + 1))
        is_ball = isinstance(moves, EllipsoidMoves)
        columns = moves.factor if is_ball else moves.columns
        still = np.zeros((len(self.plant.C), columns.shape[1]))
        inputs = self._enter(columns, still)
        if is_ball:
            self._balls.append(tuple(inputs))
            return
        for column in inputs:
            self._signals.append(SignalMoves(column, 1.0, group=group, rounded=True))


def _kept_states(every: Sequence[_Inputs]) -> NDArray:
    """Mask (n,) of the states that a secret reaches and an output sees, by exact zeros.

    Of several plants any one may act at any sample.
    """
    order = every[0].plant.order
    links = np.zeros((order, order), bool)
    entered = np.zeros(order, bool)
    seen = np.zeros(order, bool)
    for inputs in every:
        links |= inputs.plant.A != 0
        entered |= inputs.entry.any(axis=1)
        seen |= inputs.plant.C.any(axis=0)
    return _reached(links, entered) & _reached(links.T, seen)


def _reached(links: NDArray, start: NDArray) -> NDArray:
    """Mask (n,) of the states that a path along links reaches from a start."""
    reached = start
    for _ in range(len(links)):
        reached = reached | links[:, reached].any(axis=1)
    return reached


def _check_forgotten(plant: Plant, kept: NDArray) -> None:
    """Refuse a plant some of whose kept states (n,) do not decay, by the mode's name."""
    A = plant.A[np.ix_(kept, kept)]
    radius = np.abs(np.linalg.eigvals(A)).max(initial=0.0)
    if radius > 1 - _UNDAMPED:
        states = tuple(np.array(plant.states)[kept])
        mode = growing_mode(replace(plant, A=A, states=states))
        kind = "unstable mode" if radius > 1 + _UNDAMPED else "mode that never decays"
        raise ValueError(
            f"horizon: the secret drives the {kind} {mode}, which the outputs see, and no "
            "noise of bounded size hides it for ever. Design for a finite horizon; protect "
            "an input that the plant forgets, with duration= for a change that lasts; or "
            "stabilise the mode by a local loop and take the closed loop as the plant"
        )
