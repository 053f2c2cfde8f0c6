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
    DisturbedManifold,
)
from ..trajectory.manifold import trajectory_manifold
from ..trajectory.modes import growing_mode
from ..trajectory.plant import Plant
from ._lti import LinearSystem
from ._shift import SignalMoves
from ._spectrum import Responses

#: Distance from the unit circle below which a mode counts as one that does not decay.
_UNDAMPED = 1e-9
#: Lengths of a lasting change among which the shape of the noise is optimised.
MOST_LENGTHS = 40

_INSTEAD = {
    "times": (
        "times: without a horizon a disturbance may change at any time; leave times out, "
        "or design for a finite horizon"
    ),
    "state times": (
        "times: without a horizon a state is protected at the first samples only, since a "
        "small move late in the run was a large one at its start; pass times=0, or protect "
        "what enters during the run with a DisturbanceAdjacency"
    ),
    "charts": (
        'charts: the moves of charts="all" depend on the horizon; use charts="times", or design '
        "for a finite horizon"
    ),
    "energy": (
        'adjacency: norm="l2" without a horizon is designed alone; design for it alone '
        "(with its radius it hides single changes of the same inputs too), or give the "
        "other parts as a duration"
    ),
}


@dataclass(frozen=True, eq=False)
class EndlessSecret:
    """Secret inputs of a plant, with the changes of them that must be hidden.

    The moves of an initial state enter as impulses. The output after x(0) = z is the
    response to an impulse z on the state, one sample later.
    """

    system: LinearSystem  # G, from all secret inputs to the outputs
    signals: tuple  # SignalMoves, changes of single inputs
    balls: tuple  # inputs of which any impulse of Euclidean norm one is hidden
    energies: (
        NDArray | None
    )  # radii (q,) if all signals of weighted energy one are hidden

    @classmethod
    def of(cls, adjacency: Adjacency, plant: Plant) -> "EndlessSecret":
        """The secret that an adjacency describes, refused if the plant never forgets it."""
        collected = _Collected(adjacency, plant)
        system = collected.system()
        if not (system.D.any() or system.order):
            raise PrivacyError(
                "no hidden move changes what is published: no noise is needed for this "
                "adjacency"
            )
        return collected.secret(system)

    @classmethod
    def of_vertices(
        cls, adjacency: Adjacency, plants: Sequence[Plant]
    ) -> list["EndlessSecret"]:
        """The secret under each of several plants, with the same states in all.

        Nothing is asked of the modes. A plant whose secret no output sees has one state
        that stays at zero.
        """
        every = [_Collected(adjacency, plant) for plant in plants]
        kept = kept_states(
            [plant.A for plant in plants],
            [np.hstack(collected.entries) for collected in every],
            [plant.C for plant in plants],
        )
        if not kept.any():
            kept[0] = True
        return [collected.secret(collected.reduced(kept)) for collected in every]

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

    def responses(self, z: NDArray, system: LinearSystem) -> Responses:
        """Responses of a system to all moves at points z (N,).

        Several events count as if they were far apart, which they may be. Of the lengths of
        a lasting change there are at most some forty.
        """
        response = system.frequency_response(z)
        points = [np.zeros((*response.shape[:2], 0), complex)]
        for moves in self.signals:
            size = moves.radius * np.sqrt(moves.events)
            column = size * response[:, :, moves.column, None]
            points.append(column * _shape_values(moves, z)[:, None, :])
        balls = [response[:, :, list(columns)] for columns in self.balls]
        return Responses(np.concatenate(points, axis=2), balls)


def _shape_values(moves: SignalMoves, z: NDArray) -> NDArray:
    """The z-transforms (N, M) of the shapes of a change."""
    values = []
    for shape in moves.shapes:
        delays = z[:, None] ** -np.arange(len(shape))
        partial = np.cumsum(delays * shape, axis=1)
        lengths = np.array([len(shape)])
        if moves.lasting:
            spread = np.geomspace(1, len(shape), min(len(shape), MOST_LENGTHS))
            lengths = np.unique(np.round(spread).astype(int))
            if len(shape) <= MOST_LENGTHS:
                lengths = np.arange(1, len(shape) + 1)
        values.append(partial[:, lengths - 1])
    return np.concatenate(values, axis=1)


class _Collected:
    """Secret inputs of all parts of an adjacency, side by side."""

    def __init__(self, adjacency: Adjacency, plant: Plant) -> None:
        self.plant = plant
        self.entries: list[NDArray] = []
        self.throughs: list[NDArray] = []
        self.signals: list[SignalMoves] = []
        self.balls: list[tuple[int, ...]] = []
        self.energies: NDArray | None = None
        for group, part in enumerate(adjacency.parts):
            if isinstance(part, DisturbanceAdjacency):
                self._add_disturbance(part, group)
            elif isinstance(part, (StateAdjacency, InitialStateAdjacency)):
                self._add_state(part)
            else:
                raise TypeError(
                    "adjacency: expected a DisturbanceAdjacency, an InitialStateAdjacency "
                    "or a StateAdjacency of the first samples without a horizon, got "
                    f"{type(part).__name__}"
                )
        if self.energies is not None and len(adjacency.parts) > 1:
            raise ValueError(_INSTEAD["energy"])

    def secret(self, system: LinearSystem) -> EndlessSecret:
        """The secret whose responses are those of a system."""
        signals = tuple(self.signals)
        return EndlessSecret(system, signals, tuple(self.balls), self.energies)

    @property
    def count(self) -> int:
        return sum(entry.shape[1] for entry in self.entries)

    def _add_disturbance(self, part: DisturbanceAdjacency, group: int) -> None:
        if part.times is not None:
            raise ValueError(_INSTEAD["times"])
        signals = part.signals(self.plant)
        manifold = DisturbedManifold(self.plant, 1, signals)
        first = self.count
        self.entries.append(manifold.entry)
        self.throughs.append(manifold.through)
        radii = part.radii(self.plant)
        if part.norm == "l2":
            self.energies = radii
            return
        shapes = part.profiles
        lasting = shapes is None
        if shapes is None:
            shapes = (np.ones(part.duration),)
        for column, radius in enumerate(radii.tolist(), first):
            moves = SignalMoves(column, radius, shapes, lasting, group, part.events)
            self.signals.append(moves)

    def _add_state(self, part: Adjacency) -> None:
        times = (0,)
        if isinstance(part, StateAdjacency):
            if part.times is None:
                raise ValueError(_INSTEAD["state times"])
            if part.charts != "times":
                raise ValueError(_INSTEAD["charts"])
            times = part.times
        moves: Any = part.moves(trajectory_manifold(self.plant, max(times) + 1))
        first = self.count
        ball = isinstance(moves, EllipsoidMoves)
        columns = moves.factor if ball else moves.columns
        inputs = range(first, first + columns.shape[1])
        self.entries.append(columns)
        self.throughs.append(np.zeros((len(self.plant.C), columns.shape[1])))
        if ball:
            self.balls.append(tuple(inputs))
            return
        for column in inputs:
            self.signals.append(SignalMoves(column, 1.0, rounded=True))

    def system(self) -> LinearSystem:
        """G without the states that no secret reaches or no output sees, by exact zeros."""
        plant = self.plant
        kept = kept_states([plant.A], [np.hstack(self.entries)], [plant.C])
        A = plant.A[np.ix_(kept, kept)]
        radius = np.abs(np.linalg.eigvals(A)).max(initial=0.0)
        if radius > 1 - _UNDAMPED:
            states = tuple(np.array(plant.states)[kept])
            part = replace(plant, A=A, states=states)
            raise ValueError(_not_forgotten(growing_mode(part), radius))
        return self.reduced(kept)

    def reduced(self, kept: NDArray) -> LinearSystem:
        """G with the states of a mask (n,) only."""
        plant = self.plant
        A = plant.A[np.ix_(kept, kept)]
        entry = np.hstack(self.entries)[kept]
        return LinearSystem(A, entry, plant.C[:, kept], np.hstack(self.throughs))


def kept_states(
    dynamics: Sequence[NDArray], entries: Sequence[NDArray], readouts: Sequence[NDArray]
) -> NDArray:
    """Mask (n,) of the states that a secret reaches and an output sees, by exact zeros.

    Of several plants any one may act at any sample.
    """
    links = np.any(list(dynamics), axis=0)
    entered = np.any(np.hstack(entries), axis=1)
    seen = np.any(np.vstack(readouts), axis=0)
    return _reached(links, entered) & _reached(links.T, seen)


def _reached(links: NDArray, start: NDArray) -> NDArray:
    """Mask (n,) of the states that a path along links reaches from a start."""
    reached = start
    for _ in range(len(links)):
        reached = reached | links[:, reached].any(axis=1)
    return reached


def _not_forgotten(mode: str, radius: float) -> str:
    kind = "unstable mode" if radius > 1 + _UNDAMPED else "mode that never decays"
    return (
        f"horizon: the secret drives the {kind} {mode}, which the outputs see, and no noise of "
        "bounded size hides it for ever. Design for a finite horizon; protect an input that the "
        "plant forgets, with duration= for a change that lasts; or stabilise the mode by a local "
        "loop and take the closed loop as the plant"
    )
