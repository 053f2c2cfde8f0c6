"""Noise of many units, which is drawn and certified unit by unit, or mode by mode.

`SeparateUnits` is noise of units that nothing connects. `AlikeUnits` is noise of units that are coupled
all to all alike: one filter for what a unit differs by from the mean, and one for the mean. `ring`
has noise of units around a ring. All would be linear systems of thousands of states.

What `AlikeUnits` leaves of a change of one unit of a symmetric plant is in two orthogonal parts,
with 1 / N and 1 - 1 / N of the square. A plant that is near to it, with A, B, C and D at
distances a, b, c and d, moves its states by x = x_s + K w, where K = (z I - A_s)^-1 and
w = (A - A_s) x + (B - B_s) q. So for a |K| < 1

    |w| <= (a |x_s| + b |q|) / (1 - a |K|),

and what the noise leaves of the change differs by at most
|M^-1 C_s K| |w| + |M^-1| (c |x| + d |q|). The gains are those of the modes.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core.adjacency import Adjacency
from ..numerics.balls import Ball, BallMatrix, block_balls
from ..numerics.checks import check_memory, positive_integer
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import float_above
from ..numerics.objects import ByContent
from ..numerics.saved import Saved
from ..numerics.thresholds import ROUNDED
from ..secrets.fleet import (
    Symmetric,
    Units,
    apart_by,
    parted,
    symmetric_plant,
    whole_of,
)
from ..secrets.ring import Ring
from ..secrets.secret import SecretInputs
from ..secrets.secrets import Secrets
from ..systems.gain import largest_gain
from ..systems.linear import LinearSystem, Plant
from ._endless import shift_of_system
from ._varying import shift_between
from .parts import Filtered, NoisePart, Stream


class CoupledUnits(NoisePart):
    """Noise for one output of each of N units that are coupled, mode by mode.

    Attributes
    ----------
    count : int
        N.
    """

    of_units = True

    count: int

    @property
    @abstractmethod
    def order(self) -> int:
        """Number of states of all units."""

    @abstractmethod
    def shift(self, adjacency: Adjacency, plant: Plant) -> float:
        """Return a number that no privacy shift exceeds, in runs of any length."""

    @abstractmethod
    def scaled(self, gain: float) -> Self:
        """Return the noise ``gain`` times as large."""

    @property
    @abstractmethod
    def phrase(self) -> str:
        """What the noise makes use of."""


@dataclass(frozen=True, eq=False)
class AlikeUnits(CoupledUnits):
    """M_own (nu - mean nu) + M_mean (mean nu) for one output of each of N units.

    Attributes
    ----------
    own, mean : LinearSystem
        With one input, one output and a stable inverse. The noise is stationary.
    count : int
        N.
    """

    own: LinearSystem
    mean: LinearSystem
    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", positive_integer(self.count, "count"))
        for system in (self.own, self.mean):
            if system.D.shape != (1, 1):
                raise ValueError(
                    "own, mean: expected systems from one input to one output"
                )
            for matrix in system.matrices:
                matrix.flags.writeable = False

    @cached_property
    def _filters(self) -> tuple[Filtered, Filtered]:
        return Filtered(self.own), Filtered(self.mean)

    @cached_property
    def model(self) -> LinearSystem:
        N, root = self.count, math.sqrt(self.count)
        n = N * self.own.order + self.mean.order
        check_memory(2 * n * (n + N), "noise")
        among = np.full((N, N), 1 / N)
        within = np.eye(N) - among
        ones = np.full((N, 1), 1 / root)
        own, mean = self.own, self.mean
        return LinearSystem(
            scipy.linalg.block_diag(np.kron(np.eye(N), own.A), mean.A),
            np.vstack([np.kron(within, own.B), np.kron(ones.T, mean.B)]),
            np.hstack([np.kron(np.eye(N), own.C), np.kron(ones, mean.C)]),
            within * own.D + among * mean.D,
        )

    @property
    def order(self) -> int:
        return self.count * self.own.order + self.mean.order

    def shift(self, adjacency: Adjacency, plant: Plant) -> float:
        return shift_behind_modes(self, adjacency, plant)

    @property
    def phrase(self) -> str:
        return f"{self.count} equal units, 2 modes"

    @property
    def once(self) -> int:
        own, mean = self._filters
        return self.count * own.once + mean.once

    @property
    def width(self) -> int:
        return self.count

    @property
    def state_root(self) -> NDArray[np.float64]:
        own, mean = self._filters
        within = np.eye(self.count) - 1 / self.count
        roots = np.kron(within, own.state_root), mean.state_root
        return scipy.linalg.block_diag(*roots)

    def _started(
        self, first: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return states (trials, N, k) and (trials, 1, k) from entries (trials, once)."""
        own, mean = self._filters
        count = self.count * own.once
        entries = first[:, :count].reshape(len(first), self.count, own.once)
        entries = entries - entries.mean(axis=1, keepdims=True)
        common = first[:, None, count:]
        return entries @ own.state_root.T, common @ mean.state_root.T

    def _run(
        self,
        states: tuple[NDArray[np.float64], NDArray[np.float64]],
        fresh: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Return samples (trials, T, N) and the states after entries of that shape."""
        trials, samples, N = fresh.shape
        average = fresh.mean(axis=2, keepdims=True)
        differences = np.moveaxis(fresh - average, 2, 1)
        own, mean = states
        each, own = self.own.run(
            own.reshape(trials * N, -1), differences.reshape(trials * N, samples, 1)
        )
        common, mean = self.mean.run(mean[:, 0], average * math.sqrt(N))
        gamma = np.moveaxis(each.reshape(trials, N, samples), 1, 2)
        gamma = gamma + common / math.sqrt(N)
        return gamma, (own.reshape(trials, N, -1), mean[:, None])

    def signal(
        self, first: NDArray[np.float64], fresh: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return self._run(self._started(first), fresh)[0]

    def stream(self, first: NDArray[np.float64]) -> Stream:
        states = self._started(first[None])

        def advance(fresh: NDArray[np.float64]) -> NDArray[np.float64]:
            nonlocal states
            gamma, states = self._run(states, fresh[None])
            return gamma[0]

        return advance

    @property
    def white(self) -> NDArray[np.float64]:
        return np.zeros(self.count)

    def covariance(self, t: int, s: int) -> NDArray[np.float64]:
        own, mean = (float(one.covariance(t, s)[0, 0]) for one in self._filters)
        among = np.full((self.count, self.count), (mean - own) / self.count)
        return among + own * np.eye(self.count)

    def variances(self, horizon: int) -> NDArray[np.float64]:
        own, mean = (one.variances(horizon) for one in self._filters)
        each = own + (mean - own) / self.count
        return np.repeat(each, self.count, axis=1)

    def scaled(self, gain: float) -> AlikeUnits:
        return replace(self, own=self.own.scaled(gain), mean=self.mean.scaled(gain))

    def __str__(self) -> str:
        orders = f"orders {self.mean.order} and {self.own.order}"
        return f"filtered by 2 modes of {self.count} units, of {orders}"


@dataclass(frozen=True, eq=False)
class UnitNoise(ByContent, Saved):
    """Noise of equal units, independent from one to the next.

    Attributes
    ----------
    part : NoisePart
        Of one unit.
    places : ndarray, shape (N, p)
        The outputs of each unit.
    """

    part: NoisePart
    places: NDArray[np.number]

    def __post_init__(self) -> None:
        places = np.asarray(self.places)
        if places.ndim != 2 or not len(places) or (places != places.astype(int)).any():
            raise ValueError("places: expected the outputs of each unit, as (N, p)")
        places = places.astype(int)
        places.flags.writeable = False
        object.__setattr__(self, "places", places)

    @property
    def count(self) -> int:
        """Number N of units."""
        return len(self.places)


@dataclass(frozen=True, eq=False)
class SeparateUnits(NoisePart):
    """Noise of units that nothing connects, group by group of equal ones.

    Attributes
    ----------
    groups : tuple of UnitNoise
    outputs : int
        Number of the plant's outputs. Those of no unit have no noise.
    """

    of_units = True

    groups: tuple[UnitNoise, ...]
    outputs: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "outputs", positive_integer(self.outputs, "outputs"))
        every = np.concatenate([group.places.ravel() for group in self.groups])
        inside = (every >= 0).all() and (every < self.outputs).all()
        if not inside or len(np.unique(every)) < len(every):
            raise ValueError(
                "groups: expected different outputs for all units, each of the plant's"
            )

    @property
    def is_bare(self) -> bool:
        """Whether some output has no noise."""
        return sum(group.places.size for group in self.groups) < self.outputs

    @cached_property
    def model(self) -> LinearSystem:
        units = [
            (group.part.model, places)
            for group in self.groups
            for places in group.places
        ]
        known = [(system, places) for system, places in units if system is not None]
        n = sum(system.order for system, _ in known)
        check_memory(2 * n * (n + self.outputs), "noise")
        return whole_of(known, self.outputs)

    @property
    def once(self) -> int:
        return sum(group.count * group.part.once for group in self.groups)

    @property
    def width(self) -> int:
        return sum(group.count * group.part.width for group in self.groups)

    @property
    def state_root(self) -> NDArray[np.float64]:
        roots = []
        for group in self.groups:
            roots += [group.part.state_root] * group.count
        return scipy.linalg.block_diag(*roots)

    def _shared_out(
        self, first: NDArray[np.float64], fresh: NDArray[np.float64]
    ) -> list[tuple[UnitNoise, NDArray[np.float64], NDArray[np.float64]]]:
        """Return each group with its entries (..., N, once) and (..., T, N, width)."""
        found = []
        once = width = 0
        for group in self.groups:
            per_unit = group.part.once, group.part.width
            ends = once + group.count * per_unit[0], width + group.count * per_unit[1]
            own_first = first[..., once : ends[0]]
            own_fresh = fresh[..., width : ends[1]]
            shape = (group.count, per_unit[0]), (group.count, per_unit[1])
            found.append(
                (
                    group,
                    own_first.reshape(*first.shape[:-1], *shape[0]),
                    own_fresh.reshape(*fresh.shape[:-1], *shape[1]),
                )
            )
            once, width = ends
        return found

    def signal(
        self, first: NDArray[np.float64], fresh: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        trials, samples, _ = fresh.shape
        gamma = np.zeros((trials, samples, self.outputs))
        for group, own_first, own_fresh in self._shared_out(first, fresh):
            runs = trials * group.count
            units = np.moveaxis(own_fresh, 2, 1).reshape(runs, samples, -1)
            found = group.part.signal(own_first.reshape(runs, -1), units)
            found = found.reshape(trials, group.count, samples, -1)
            gamma[:, :, group.places] = np.moveaxis(found, 1, 2)
        return gamma

    def stream(self, first: NDArray[np.float64]) -> Stream:
        none = np.empty((0, self.width))
        streams = [
            group.part.streams(own_first)
            for group, own_first, _ in self._shared_out(first, none)
        ]

        def advance(fresh: NDArray[np.float64]) -> NDArray[np.float64]:
            gamma = np.zeros((len(fresh), self.outputs))
            shared = self._shared_out(np.empty(self.once), fresh)
            for units, (group, _, own_fresh) in zip(streams, shared, strict=True):
                gamma[:, group.places] = np.moveaxis(
                    units(np.moveaxis(own_fresh, 1, 0)), 0, 1
                )
            return gamma

        return advance

    @property
    def white(self) -> NDArray[np.float64]:
        return np.zeros(self.outputs)

    def covariance(self, t: int, s: int) -> NDArray[np.float64]:
        total = np.zeros((self.outputs, self.outputs))
        for group in self.groups:
            own = group.part.covariance(t, s)
            for places in group.places:
                total[np.ix_(places, places)] = own
        return total

    def variances(self, horizon: int) -> NDArray[np.float64]:
        total = np.zeros((horizon, self.outputs))
        for group in self.groups:
            total[:, group.places] = group.part.variances(horizon)[:, None]
        return total

    def scaled(self, gain: float) -> SeparateUnits:
        groups = tuple(
            replace(group, part=group.part.scaled(gain)) for group in self.groups
        )
        return replace(self, groups=groups)

    def __str__(self) -> str:
        count = sum(group.count for group in self.groups)
        kinds = len(self.groups)
        first = str(self.groups[0].part) if kinds == 1 else f"{kinds} kinds"
        return f"{count} units apart, {first}"


# -- what is certified ------------------------------------------------------------------------

_NOT_APART = (
    "models: the noise is that of units that nothing connects, and nothing is known of how "
    "far it hides a plant in which something does; design for that plant"
)
NOT_ALIKE = (
    "models: the noise is that of units that are coupled alike, and this plant's are too "
    "different ({}) for its modes; design for that plant"
)


def units_of(
    parts: Sequence[NoisePart], adjacency: Adjacency, plant: Plant
) -> list[tuple[NoisePart, Units]] | None:
    """Return noise and secret of each kind of unit, None for noise of one system.

    Raises
    ------
    UncertifiableError
        If noise of several units does not go with the units of the plant.
    """
    (part, *others) = parts
    if isinstance(part, SeparateUnits) and not others:
        return _kinds_of(part, adjacency, plant)
    if others or not isinstance(part, Filtered) or part.response is not None:
        return None
    if part.system.output_count == 1:
        return None
    units = parted(adjacency, plant)
    if units is None or sum(unit.count for unit in units) < 2:
        return None
    places = [outputs for unit in units for outputs in unit.outputs]
    systems = apart_by(part.shaping, places)
    if systems is None:
        return None
    owners = [unit for unit in units for _ in unit.outputs]
    found: dict[tuple[object, int], tuple[NoisePart, Units]] = {}
    for system, unit in zip(systems, owners, strict=True):
        found[system, id(unit)] = (Filtered(system), unit)
    return list(found.values())


def _kinds_of(
    part: SeparateUnits, adjacency: Adjacency, plant: Plant
) -> list[tuple[NoisePart, Units]]:
    """Return the noise of groups with the units of a plant that it is for."""
    units = parted(adjacency, plant)
    if units is None:
        raise UncertifiableError(_NOT_APART)
    noises = {
        tuple(places): group.part
        for group in part.groups
        for places in group.places.tolist()
    }
    found: dict[tuple[object, int], tuple[NoisePart, Units]] = {}
    for unit in units:
        for outputs in unit.outputs.tolist():
            noise = noises.get(tuple(outputs))
            if noise is None:
                raise UncertifiableError(_NOT_APART)
            found[id(noise), id(unit)] = (noise, unit)
    return list(found.values())


def shift_behind_modes(part: AlikeUnits, adjacency: Adjacency, plant: Plant) -> float:
    """Return a number that no privacy shift of units that are coupled alike exceeds.

    Raises
    ------
    UncertifiableError
        If the plant is too far from a symmetric one, or a mode is not proven stable.
    """
    near = symmetric_plant(adjacency, plant)
    if not isinstance(near, Symmetric) or near.count != part.count:
        raise UncertifiableError(NOT_ALIKE.format("in their number or entries"))

    def left() -> LinearSystem:
        root = Ball(part.count).sqrt()
        sizes = 1 / root, Ball(part.count - 1).sqrt() / root
        every = []
        for noise, system, size in zip(
            (part.mean, part.own), near.systems, sizes, strict=True
        ):
            found = noise.in_balls().inverse().after(system.in_balls())
            every.append(found.scaled(size))
        return _stacked(every)

    shift = shift_of_system(left, near.secret)
    return float_above(shift + _beyond(part, near), 4)


def _stacked(systems: Sequence[LinearSystem]) -> LinearSystem:
    """Return two systems in balls with one input for both, and the outputs of each."""
    first, second = systems
    corner = BallMatrix(first.order, second.order)
    unseen = BallMatrix(first.output_count, second.order)
    return LinearSystem(
        block_balls([[first.A, corner], [corner.transpose(), second.A]]),
        block_balls([[first.B], [second.B]]),
        block_balls(
            [
                [first.C, unseen],
                [BallMatrix(second.output_count, first.order), second.C],
            ]
        ),
        block_balls([[first.D], [second.D]]),
    )


def _beyond(part: AlikeUnits, near: Symmetric) -> float:
    """Bound what the plant's distance from a symmetric one adds to a shift."""
    states, entered, seen, whitening = 0.0, 0.0, 0.0, 0.0
    for noise, system in zip((part.mean, part.own), near.systems, strict=True):
        inverse = noise.inverse()
        n = system.order
        whitening = max(whitening, largest_gain(inverse))
        if not n:
            continue
        free = LinearSystem(system.A, np.eye(n), np.eye(n), np.zeros((n, n)))
        states = max(states, largest_gain(free))
        entered = max(entered, largest_gain(free.after(LinearSystem.gain(system.B))))
        shown = LinearSystem(system.A, np.eye(n), system.C, np.zeros((1, n)))
        seen = max(seen, largest_gain(inverse.after(shown)))
    return beyond_symmetry(near, states, entered, seen, whitening)


def beyond_symmetry(
    near: Symmetric | Ring, states: float, entered: float, seen: float, whitening: float
) -> float:
    """Bound what the plant's distance from a symmetric one adds to a shift.

    The gains are those of the modes: |K|, |K B_s|, |M^-1 C_s K| and |M^-1|.
    """
    of_A, of_B, of_C, of_D = near.distances
    around = float_above(of_A * states)
    if not around < 1:
        raise UncertifiableError(NOT_ALIKE.format(f"A by {of_A:.2g}"))
    size = _largest_change(near.secret)
    moved = (of_A * entered + of_B) / (1 - around)
    reached = entered + states * moved
    added = seen * moved + whitening * (of_C * reached + of_D)
    return added * size * (1 + ROUNDED)


def _largest_change(secret: SecretInputs) -> float:
    """Bound the norm of a change of one unit's signal."""
    sizes = [
        moves.radius * float(np.linalg.norm(shape))
        for moves in secret.signals
        for shape in moves.shapes
    ]
    sizes += [
        math.sqrt(window.longest) * float(window.radii.max())
        for window in secret.windows
    ]
    return max(sizes)


def shift_of_unit(noise: NoisePart, adjacency: Adjacency, plant: Plant) -> float:
    """Return a number that no privacy shift of a unit exceeds, in runs of any length."""
    if isinstance(noise, CoupledUnits):
        return noise.shift(adjacency, plant)
    return shift_between([noise], Secrets(adjacency).under([plant]), math.inf)


def shift_of_fleet(
    parts: Sequence[NoisePart], adjacency: Adjacency, plant: Plant
) -> float | None:
    """Return the same of noise of several units, None for noise of one system."""
    if len(parts) == 1 and isinstance(parts[0], CoupledUnits):
        return parts[0].shift(adjacency, plant)
    units = units_of(parts, adjacency, plant)
    if units is None:
        return None
    return max(
        shift_of_unit(noise, unit.adjacency, unit.plant) for noise, unit in units
    )
