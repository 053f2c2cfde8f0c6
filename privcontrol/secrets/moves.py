"""Moves of a plant's initial state in ball arithmetic, from its past and its future."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from ..core._balls import (
    Ball,
    BallMatrix,
    ball_matrix,
    block_balls,
    midpoints,
    working_bits,
)
from ..core._linalg import EPS, one_of, real_array, round_up
from ..core.errors import UncertifiableError
from ..core.moves import FiniteMoves, Moves, Query
from ..systems.plant import Plant
from ..systems.powers import FreeResponse
from .manifold import OutputQuery

#: Numbers of windows of the free response that are copied at a time.
_MOST_COPIED = 1 << 22


@dataclass(frozen=True, eq=False)
class BallMoves(FiniteMoves):
    """Moves of the initial state as balls (n, M), from which ``columns`` are rounded."""

    matrix: BallMatrix
    bits: int = field(kw_only=True)  # working precision of the balls

    @classmethod
    def side_by_side(cls, parts: Sequence[Moves]) -> BallMoves:
        """The moves of several sets, as exact as each of them is."""
        columns = np.hstack([part.vectors for part in parts])
        rows = range(len(columns))
        bits = max(part.bits for part in parts)
        with working_bits(bits):
            blocks = [ball_matrix(part.balls(rows)) for part in parts]
        return BallMoves(
            columns,
            block_balls([blocks]),
            bits=bits,
            exact=all(part.exact for part in parts),
            errors=_roundings(columns),
        )

    def balls(self, rows: Iterable[int]) -> list[list[Ball]]:
        """Chosen rows of the moves as a table of balls."""
        table = self.matrix.tolist()
        return [table[int(row)] for row in rows]


@dataclass(frozen=True, eq=False)
class StateMoves(BallMoves):
    """Moves mu_k A^-j e_k of the initial state.

    ``free`` holds A^t e_k for the protected k, and for delayed outputs that follow, then
    that are held. Column i is the move of column ``sources[i]`` of it at ``times[i]`` by
    mu ``scales[i]``, all of shape (M,). A window of the run that starts ``start`` samples
    later sees it as a move mu_k A^(start - j) e_k of its own first state. At t = 0 delayed
    outputs may follow or be held; later they can only follow.
    """

    free: FreeResponse
    times: NDArray
    sources: NDArray
    scales: NDArray
    start: int
    horizon: int

    @classmethod
    def of(
        cls,
        plant: Plant,
        index: Sequence[int],
        radii: NDArray,
        times: NDArray,
        start: int,
        horizon: int,
    ) -> StateMoves:
        """The moves of some states at some times, from a window that begins at ``start``."""
        back = max(int(times.max()) - start, 0)
        forward = max(start + horizon - 1 - int(times.min()), 0)
        axes = np.eye(plant.order)[:, index]
        free = FreeResponse(plant.A, axes, back, forward, bool(times.max() > 0))
        count = len(index)
        times, sources = np.repeat(times, count), np.tile(np.arange(count), len(times))
        if free.held:
            first = np.flatnonzero(times == 0)
            times = np.append(times, times[first])
            sources = np.append(sources, count + sources[first])
        states = free.columns(start - times, sources)
        scales = radii[sources % count]
        matrix = _scaled_columns(states, scales, free.bits)
        columns = midpoints(matrix)
        if not np.isfinite(columns).all():
            raise UncertifiableError(
                f"hiding a move at t = {times.max()} needs a move of the initial state "
                "beyond 1e308: a mode of the plant contracts too fast for this horizon; "
                "shorten it, or protect fewer times (StateAdjacency(times=...))"
            )
        columns.flags.writeable = False
        moves = cls(
            columns,
            matrix,
            free,
            times,
            sources,
            scales,
            start,
            horizon,
            bits=free.bits,
            errors=_roundings(columns),
        )
        silent = np.flatnonzero(~columns.any(axis=1)).tolist()
        # a rounded zero would pass for a state that never moves
        if any(ball != 0 for row in moves.balls(silent) for ball in row):
            raise UncertifiableError(
                f"hiding a move at t = {times.max()} needs a move of the initial state "
                "below 1e-323: rescale the states, or protect earlier times "
                "(StateAdjacency(times=...))"
            )
        return moves

    def output_responses(self, query: Query) -> tuple[NDArray, NDArray]:
        """The responses from the plant's past and future, not from rounded moves."""
        if not isinstance(query, OutputQuery):
            return super().output_responses(query)
        every = np.arange(self.columns.shape[1])
        responses = self.responses(query.plant.C, every)
        return responses, 4 * EPS * np.abs(responses)

    def ball_responses(self, query: Query) -> tuple[BallMatrix, NDArray]:
        responses, errors = self.output_responses(query)
        return ball_matrix(responses), errors

    def sensitivity(self, query: Query, norm: float = 2) -> float:
        if not isinstance(query, OutputQuery):
            return super().sensitivity(query, norm)
        return float(self.output_sizes(query.plant.C, norm).max())

    @property
    def radii(self) -> NDArray:
        """mu of each protected state (q,)."""
        return self.scales[: self.axes.shape[1]]

    @property
    def axes(self) -> NDArray:
        """Unit vectors (n, q) of the protected states."""
        return self.free.axes

    def stretched(self, gains: NDArray) -> StateMoves:
        """The same moves, each times its own gain."""
        columns = real_array(self.columns * gains, "moves", copy=False)
        matrix = _scaled_columns(self.matrix, gains, self.bits)
        scales = self.scales * gains
        return replace(self, columns=columns, matrix=matrix, scales=scales)

    def responses(self, C: NDArray, columns: NDArray) -> NDArray:
        """O_T z (T p, M) of chosen moves, as windows of one long free response."""
        return self._windows(self.free.outputs(C), columns)

    def _windows(self, long: NDArray, columns: NDArray) -> NDArray:
        """The window (T p, M) that each move has in a free response (times, p, q)."""
        starts = self.free.back + self.start - self.times[columns]
        index = starts + np.arange(self.horizon)[:, None]
        windows = long[index, :, self.sources[columns]] * self.scales[columns, None]
        return windows.swapaxes(1, 2).reshape(-1, len(columns))

    def output_sizes(self, C: NDArray, norm: float) -> NDArray:
        """||O_T z|| of every move (M,), rounded up."""
        one_of(norm, "norm", (1, 2, np.inf))
        long = self.free.outputs(C)
        top = np.abs(long).max()
        if not np.isfinite(top * self.scales.max()):
            raise UncertifiableError(
                "the free response exceeds 1e308 within the horizon; shorten the horizon"
            )
        if top == 0:
            return np.zeros(len(self.times))
        step = max(1, _MOST_COPIED // (self.horizon * len(C)))
        sizes = []
        for first in range(0, len(self.times), step):
            some = np.arange(first, min(first + step, len(self.times)))
            sizes.append(
                np.linalg.norm(self._windows(long / top, some), ord=norm, axis=0)
            )
        rounding = 4 * EPS * (self.horizon + 1) * len(C)
        return round_up(top * np.concatenate(sizes) * (1 + rounding))


def _roundings(columns: NDArray) -> NDArray:
    """Bounds of the errors of rounded numbers, of which zeros are exact."""
    return np.where(columns == 0, 0.0, np.spacing(np.abs(columns)))


def _scaled_columns(matrix: BallMatrix, scales: NDArray, bits: int) -> BallMatrix:
    """The columns of a matrix (n, M), each times its own number."""
    balls = [Ball(scale) for scale in scales.tolist()]
    with working_bits(bits):
        pairs = zip(matrix.entries(), cycle(balls))
        entries = [entry * scale for entry, scale in pairs]
    return BallMatrix(matrix.nrows(), matrix.ncols(), entries)
