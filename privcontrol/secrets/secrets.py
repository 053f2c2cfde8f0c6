"""All secrets of an adjacency, with answers to designs and certificates.

A user passes one adjacency, or a joint one of several parts. `Secrets` is made of it where a
question comes up, so no design, certificate or loop looks at the parts' classes itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.adjacency import Adjacency
from ..core.manifold import AffineManifold, Moves
from ..privacy.horizon import Horizon
from ..systems.linear import Plant
from ..systems.varying import VaryingPlant
from .disturbance import OF_ONE_PLANT, DisturbanceAdjacency
from .disturbed import DisturbedManifold, DisturbedQuery, EndlessData
from .secret import MOST_LENGTHS, Responses, Secret, SecretInputs, keeping, seen_of
from .states import InitialStateAdjacency
from .trajectory import OutputQuery, PlantManifold, PlantQuery, trajectory_manifold

_LATER_STATES = (
    "models: a state at a later time fixes earlier ones through the inverse of the plant, "
    "which is not known if the plant may vary; protect the initial state "
    "(StateAdjacency(..., times=0)), or a disturbance with a DisturbanceAdjacency"
)


@dataclass(frozen=True)
class Secrets:
    """The parts of an adjacency as secrets of a plant.

    Attributes
    ----------
    adjacency : Adjacency
    """

    adjacency: Adjacency

    @cached_property
    def parts(self) -> tuple[Secret, ...]:
        """The secrets of which any one may move."""
        return tuple(_as_secret(part) for part in self.adjacency.parts)

    @cached_property
    def disturbances(self) -> tuple[DisturbanceAdjacency, ...]:
        """The parts that enter the plant during the run."""
        return tuple(
            part for part in self.parts if isinstance(part, DisturbanceAdjacency)
        )

    @property
    def hides_start(self) -> bool:
        """Whether some of the moves are of states, at given times."""
        return len(self.disturbances) < len(self.parts)

    @property
    def is_covered(self) -> bool:
        """Whether noise is designed for a larger set of moves than is asked for."""
        return any(part.window is not None for part in self.disturbances)

    @property
    def is_dense(self) -> bool:
        """Whether it takes noise that is correlated over the whole horizon.

        So it does for disturbances, and for balls of states next to other moves.
        """
        if self.disturbances:
            return True
        starts = [p for p in self.parts if isinstance(p, InitialStateAdjacency)]
        return len(self.parts) > 1 and any(part.norm == 2 for part in starts)

    @property
    def is_energy_ball(self) -> bool:
        """Whether it is any signal of bounded energy over the whole horizon."""
        if len(self.disturbances) != 1 or self.hides_start:
            return False
        (part,) = self.disturbances
        return part.norm == "l2" and part.times is None

    @property
    def come_once(self) -> bool:
        """Whether there are only changes that come once, whenever they start."""
        for part in self.disturbances:
            if part.norm != "single" or part.times is not None or part.events > 1:
                return False
        return not self.hides_start

    @property
    def mixes_shapes(self) -> bool:
        """Whether some changes have any shape, and others a given one."""
        return len({part.is_varying for part in self.disturbances}) > 1

    @property
    def of_any_shape(self) -> bool:
        """Whether all changes have any shape within their size."""
        return all(part.is_varying for part in self.disturbances)

    @property
    def of_few_shapes(self) -> bool:
        """Whether all changes have one of so few given shapes that each is followed."""
        for part in self.disturbances:
            if part.is_varying or part.duration > MOST_LENGTHS:
                return False
        return True

    @property
    def move_in_time(self) -> bool:
        """Whether the time of an event is hidden, not that it happens."""
        return any(part.moved for part in self.disturbances)

    @property
    def longest(self) -> int:
        """Samples of the longest change."""
        return max(len(shape) for part in self.disturbances for shape in part.shapes)

    @property
    def events(self) -> int:
        """Largest number of changes that may come in one run."""
        return max([part.events for part in self.disturbances], default=1)

    @property
    def one_move(self) -> str:
        """The moves of one event, in words."""
        return "one change of the secret" if self.events > 1 else "the secret"

    def signals(self, plant: Plant) -> tuple[str, ...]:
        """Return the names of the signals at which a secret enters, as a plant's labels."""
        every = [part.signals(plant) for part in self.disturbances]
        return tuple(dict.fromkeys(name for names in every for name in names))

    def moves(self, plant: Plant, horizon: int) -> list[Moves]:
        """Return the moves of a plant's trajectory, part by part, for secrets of states."""
        manifold = trajectory_manifold(plant, horizon)
        return [part.moves(manifold) for part in self.parts]

    def query(self, plant: Plant, horizon: int) -> PlantQuery:
        """Return the map from the data that hold the secret to a plant's outputs."""
        if not self.disturbances:
            return OutputQuery(trajectory_manifold(plant, horizon))
        return DisturbedQuery(DisturbedManifold(plant, horizon, self.signals(plant)))

    def data(self, plant: Plant, horizon: Horizon) -> PlantManifold | EndlessData:
        """Return the data that hold the secret, of runs of a horizon."""
        if not horizon.ends:
            return EndlessData(plant)
        return self.query(plant, int(horizon)).manifold

    def responses(self, plants: Sequence[Plant], horizon: int) -> Responses:
        """Return the responses to all moves under the dynamics of each of some plants."""
        return _responses(self, tuple(plants), int(horizon))

    def one_by_one(self, plant: Plant, horizon: int) -> list[Responses]:
        """Return a plant's responses to single changes, part by part, with their starts."""
        return [_single(part).responses(plant, horizon) for part in self.disturbances]

    def levels(self, plant: Plant, horizon: int) -> Iterator[Level]:
        """Yield the parts whose changes are levels that are kept for several samples."""
        for part in self.disturbances:
            is_level = part.profiles is None and part.duration > 1
            if not is_level or part.is_moving or part.is_varying:
                continue
            unit = replace(part, duration=1, times=None)
            starts = replace(part, events=1).starts(horizon)
            (apart,) = _single(unit).responses(plant, horizon).apart
            yield Level(apart.columns, starts, part.duration)

    @property
    def simplest(self) -> list[Secret]:
        """Of each part those changes that one signal makes, at one level, for a short time."""
        found: list[Secret] = []
        for part in self.disturbances:
            simple = part
            if part.profiles is None and not part.is_moving:
                duration = min(part.duration, MOST_LENGTHS)
                simple = replace(part, shape="level", together=False, duration=duration)
            found.append(simple)
        return found

    def over_periods(self, plant: VaryingPlant) -> list[Adjacency]:
        """Return the parts as secrets of the plant whose samples are a plant's periods.

        Raises
        ------
        ValueError
            If a period's inputs do not describe a part.
        """
        return [part._over_periods(plant) for part in self.parts]

    def entering(self, plant: Plant) -> SecretInputs:
        """Return all parts as inputs of a plant.

        Raises
        ------
        TypeError
            If a part is about other data than a plant's.
        ValueError
            If a part depends on a horizon, or is hidden by its energy together with others.
        """
        found = [part.entering(plant) for part in self.parts]
        if len(found) > 1 and any(each.energies is not None for each in found):
            raise ValueError(
                'adjacency: norm="l2" without a horizon is designed alone; design for it '
                "alone (with its radius it hides single changes of the same inputs too), or "
                "give the other parts as a duration"
            )
        return SecretInputs.of_parts(found)

    def under(self, plants: Sequence[Plant]) -> tuple[SecretInputs, ...]:
        """Return all parts as inputs of each of some plants, with the same states in all.

        Raises
        ------
        ValueError
            If a state at a later time is secret.
        PrivacyError
            If no output depends on the secret.
        """
        if not all(part._suits_any_plant for part in self.parts):
            raise ValueError(_LATER_STATES)
        if len(plants) > 1 and self.move_in_time:
            raise ValueError(OF_ONE_PLANT)
        every = [self.entering(plant) for plant in plants]
        kept = seen_of(every)
        if len(every) > 1 and not kept.any():
            kept[0] = True  # bounds for plants that vary are about states
        return keeping(every, kept)


@dataclass(frozen=True, eq=False)
class Level:
    """The changes of a level over a run, made of unit changes at all samples and signals.

    Attributes
    ----------
    columns : ndarray, shape (T p, T q)
        Responses of the outputs to unit changes of one sample, time-major.
    starts : ndarray of int
        Samples at which the level may begin.
    duration : int
        Samples for which it is kept at most.
    """

    columns: NDArray[np.float64]
    starts: NDArray[np.intp]
    duration: int


def _single(part: DisturbanceAdjacency) -> DisturbanceAdjacency:
    """Return the same changes with the starts of single ones, as several have them."""
    return replace(part, events=2, separation=part.moved + 1)


@lru_cache(maxsize=2)  # a search for a floor asks again and again
def _responses(secret: Secrets, plants: tuple[Plant, ...], horizon: int) -> Responses:
    found = [
        part.responses(plant, horizon) for plant in plants for part in secret.parts
    ]
    return Responses.joined(found)


@dataclass(frozen=True, eq=False)
class _OfData(Secret):
    """Moves of a plant's trajectory that an adjacency about any data names."""

    adjacency: Adjacency
    _suits_any_plant = False

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


def _as_secret(adjacency: Adjacency) -> Secret:
    """Return an adjacency as a secret of a plant."""
    return adjacency if isinstance(adjacency, Secret) else _OfData(adjacency)
