"""Moves of the states of a plant that varies, in balls.

Entry k of the state at time j, moved by mu_k with the others held, is the move
mu_k Phi(j, 0)^-1 e_k of the initial state (DPAM Theorem 3, with Phi(j, 0) in the place
of A^j). Nothing is shared between times, so there are T products and no windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..core.manifold import Query
from ..numerics.balls import (
    Ball,
    BallMatrix,
    RationalMatrix,
    ball_matrix,
    block_balls,
    midpoints,
    upper_float,
    working_bits,
)
from ..numerics.checks import check_room, one_of
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import EPS, round_up
from ..systems.linear import Plant
from ..systems.transitions import (
    first_singular,
    gramian_of_run,
    moved_back,
    run_responses,
    spanned_back,
)
from ..systems.varying import VaryingPlant
from .run_moves import BallMoves, RunMoves, roundings

_FASTER = "protect fewer times (StateAdjacency(times=...)), or shorten the horizon"


def check_invertible(plant: VaryingPlant, samples: int) -> None:
    """Refuse moves after the first sample of a plant that is singular before it.

    Raises
    ------
    ValueError
        If A_t is singular for some t < samples, which is decided exactly.
    """
    t = first_singular(plant, samples)
    if t is not None:
        raise ValueError(
            f"A of {plant.name} is singular at sample {t}: a state at a later time cannot "
            "always be moved on its own, and the transition matrix has no inverse. Protect "
            "the initial state (StateAdjacency(..., times=0) or InitialStateAdjacency), or "
            "a disturbance (DisturbanceAdjacency); delays make a plant singular"
        )


@dataclass(frozen=True, eq=False)
class VaryingMoves(BallMoves, RunMoves):
    """Moves mu_k Phi(j, 0)^-1 e_k of the initial state, from which ``columns`` are rounded.

    Column i is the move of state ``sources[i]`` at ``times[i]`` by ``scales[i]``.
    """

    plant: VaryingPlant = field(kw_only=True)
    times: NDArray[np.intp] = field(kw_only=True)
    sources: NDArray[np.intp] = field(kw_only=True)
    scales: NDArray[np.float64] = field(kw_only=True)
    horizon: int = field(kw_only=True)

    @classmethod
    def of(
        cls,
        plant: VaryingPlant,
        index: Sequence[int],
        radii: NDArray[np.float64],
        times: NDArray[np.intp],
        horizon: int,
    ) -> VaryingMoves:
        """Return the moves of some states at some times."""
        if times.max() > 0:
            check_invertible(plant, int(times.max()))
        axes = np.eye(plant.order)[:, index] * radii
        blocks, bits = moved_back(plant, axes, times.tolist())
        with working_bits(bits):
            matrix = block_balls([blocks])
        columns = midpoints(matrix)
        if not np.isfinite(columns).all():
            raise UncertifiableError(
                f"hiding a move at t = {times.max()} needs a move of the initial state "
                "beyond 1e308: the plant contracts too fast for this horizon; shorten it, "
                "or protect fewer times (StateAdjacency(times=...))"
            )
        count = len(index)
        columns.flags.writeable = False
        return cls(
            columns,
            matrix,
            bits=bits,
            errors=roundings(columns),
            plant=plant,
            times=np.repeat(times, count),
            sources=np.tile(np.asarray(index), len(times)),
            scales=np.tile(radii, len(times)),
            horizon=horizon,
        )

    def spanning(self) -> RationalMatrix:
        times = np.unique(self.times).tolist()
        if not times[-1]:
            return super().spanning()
        index = self.sources[self.times == times[0]]
        return spanned_back(self.plant, np.eye(self.plant.order)[:, index], times)

    def responses(
        self, plant: Plant, columns: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """C_t Phi(t, j) mu_k e_k (T p, M) of chosen moves, rounded from balls."""
        axes = np.eye(self.plant.order)[:, self.sources[columns]] * self.scales[columns]
        size = self.horizon * self.plant.output_count * len(columns)
        check_room(4 * size, f"horizon: {len(columns)} hidden moves", _FASTER)
        found = run_responses(self.plant, axes, self.times[columns], self.horizon)
        return found.reshape(-1, len(columns))

    def output_sizes(self, plant: Plant, norm: float) -> NDArray[np.float64]:
        """||O_T z|| of every move (M,), rounded up; for the 2-norm by the Gramian."""
        one_of(norm, "norm", (1, 2, np.inf))
        if norm != 2:
            every = self.responses(plant, np.arange(len(self.times)))
            rounding = 1 + 4 * EPS * len(every)
            return np.linalg.norm(every, norm, axis=0) * rounding
        with working_bits(self.bits):
            weights = [Ball(1)] * self.plant.output_count
            gram = gramian_of_run(self.plant, weights, self.horizon)
            images = gram * self.matrix
            table = zip(
                self.matrix.transpose().tolist(),
                images.transpose().tolist(),
                strict=True,
            )
            squares = [
                sum((a * b for a, b in zip(z, w, strict=True)), Ball(0))
                for z, w in table
            ]
            found = [upper_float(square.abs_upper().sqrt()) for square in squares]
        sizes = np.array(found)
        return np.where(sizes > 0, round_up(sizes, 2), 0.0)  # zero is exact

    def output_responses(
        self, query: Query
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        plant = getattr(query, "plant", None)
        if plant != self.plant:
            return super().output_responses(query)
        responses = self.responses(self.plant, np.arange(len(self.times)))
        return responses, 4 * EPS * np.abs(responses)

    def ball_responses(self, query: Query) -> tuple[BallMatrix, NDArray[np.float64]]:
        responses, errors = self.output_responses(query)
        return ball_matrix(responses), errors
