"""The data and the outputs of a plant that disturbances enter."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from ..core.adjacency import Adjacency
from ..core.manifold import EllipsoidMoves, FiniteMoves, Moves
from ..numerics.checks import (
    real_array,
)
from ..systems.linear import (
    LinearSystem,
    Plant,
    VaryingSystem,
    by_sample,
    stacks_of,
)
from ..systems.powers import response_to_shape
from ..systems.transitions import forced_responses
from .trajectory import (
    RUN_ASSUMPTIONS,
    PlantManifold,
    PlantQuery,
    TrajectoryManifold,
    trajectory_manifold,
)


class DisturbedManifold(PlantManifold):
    """The data (x(0), w(0), ..., w(T-1)) of a plant that secret signals enter.

    They are all of R^(n + T q), and the trajectory follows from them and the public
    inputs. ``system`` leads from w to the outputs.
    """

    signals: tuple[str, ...]
    system: LinearSystem
    trajectory: TrajectoryManifold

    def __init__(self, plant: Plant, horizon: int, signals: tuple[str, ...]) -> None:
        signals = tuple(signals)
        self._set(
            plant=plant,
            horizon=horizon,
            signals=signals,
            system=entered_by_signals(plant, signals),
            trajectory=trajectory_manifold(plant, horizon),
            pinned=(),
        )

    def _identity(self) -> tuple[object, ...]:
        return (self.domain,)

    @property
    def size(self) -> int:
        return self.plant.order + self.horizon * len(self.signals)

    @property
    def dimension(self) -> int:
        return self.size

    @cached_property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        """``position(0)``, then the signals such as ``occupancy(3)``, time-major."""
        later = (f"{name}({t})" for t in range(self.horizon) for name in self.signals)
        return (*(f"{state}(0)" for state in self.plant.states), *later)

    @property
    def kernel(self) -> scipy.sparse.csr_array:  # type: ignore[override]
        """The sparse identity, since nothing ties the data to each other."""
        return scipy.sparse.eye_array(self.size, format="csr")

    @property
    def origin(self) -> NDArray[np.float64]:  # type: ignore[override]
        return np.zeros(self.size)

    @property
    def _orthonormal(self) -> tuple[Any, Any]:
        return self.kernel, self.kernel

    def embedded(self, adjacency: Adjacency) -> Moves:
        """Moves of the trajectory as moves of these data, the signals held."""
        moves = adjacency.moves(self.trajectory)
        part = moves.vectors
        held = np.zeros((self.size - len(part), part.shape[1]))
        columns = np.vstack([part, held])
        kind = EllipsoidMoves if moves.is_ball else FiniteMoves
        return kind(columns, exact=moves.exact)

    @cached_property
    def domain(self) -> str:
        digest = hashlib.sha256()
        for matrix in _matrices_of(self.plant, self.system):
            digest.update(np.ascontiguousarray(matrix).tobytes())
        digest.update(repr((self.plant.states, self.signals)).encode())
        count = f"{len(self.signals)} signal"
        if len(self.signals) > 1:
            count += "s"
        return (
            f"initial state and {count} into a plant with {self.plant.order} states over "
            f"{self.horizon} samples [{digest.hexdigest()[:12]}]"
        )


def _matrices_of(plant: Plant, system: LinearSystem) -> tuple[NDArray[np.float64], ...]:
    """Return A of a plant, and B and D from the secret signals, for its domain."""
    _, B, _, D = stacks_of(system)
    return stacks_of(plant)[0], B, D


@dataclass(frozen=True, eq=False)
class EndlessData:
    """The data of a run of any length, for the scope of its guarantee."""

    plant: Plant
    horizon: float = math.inf

    @property
    def trajectory(self) -> TrajectoryManifold:
        """The first sample's manifold, which names the states."""
        return trajectory_manifold(self.plant, 1)

    @property
    def domain(self) -> str:
        """Initial state and secret signals of a plant, of which there is no end."""
        states = self.plant.order
        return (
            f"initial state and signals of a plant with {states} states over any number of "
            f"samples [{self.plant.fingerprint}]"
        )


class DisturbedQuery(PlantQuery):
    """Hold the map from the initial state and the secret signals to the outputs."""

    manifold: DisturbedManifold

    @property
    def assumptions(self) -> tuple[str, ...]:
        return ("A, B and C exact", *RUN_ASSUMPTIONS)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The dense response (T p, n + T q) to data that are their own coordinates."""
        return self.response

    @cached_property
    def response(self) -> NDArray[np.float64]:
        """The observability stack next to the shifted impulse responses."""
        manifold = self.manifold
        stack = self.plant.free_response(np.eye(self.plant.order), manifold.horizon)
        forced = forced_outputs(manifold.system, manifold.horizon)
        return real_array(np.hstack([stack, forced]), "C A^t", copy=False)


def forced_outputs(
    system: LinearSystem, horizon: int, shape: ArrayLike = (1.0,)
) -> NDArray[np.float64]:
    """The outputs' response to changes of inputs of one shape, at each time and input.

    Lower block triangular (T p, T q); each entry is rounded from a ball.
    """
    if isinstance(system, VaryingSystem):
        return forced_responses(system, horizon, np.asarray(shape, float))
    return causal_map(response_to_shape(system, horizon, shape))


def causal_map(impulse: NDArray[np.float64]) -> NDArray[np.float64]:
    """The lower block triangular map (T p, T q) with an impulse response (T, p, q)."""
    horizon, p, q = impulse.shape
    every = np.zeros((horizon, p, horizon, q))
    for t in range(horizon):
        so_far = impulse[t::-1]
        every[t, :, : t + 1] = so_far.swapaxes(0, 1)
    shape = (horizon * p, horizon * q)
    return every.reshape(shape)


def entered_by_signals(plant: Plant, signals: Sequence[str]) -> LinearSystem:
    """The system from signals, each the name of an input or of a state, to the outputs."""
    names = (*plant.inputs, *plant.states)
    index = [names.index(name) for name in signals]

    def entered(now: LinearSystem) -> LinearSystem:
        entry = np.hstack([now.B, np.eye(now.order)])
        through = np.hstack([now.D, np.zeros(now.C.shape)])
        return LinearSystem(now.A, entry[:, index], now.C, through[:, index])

    return by_sample(entered, plant)
