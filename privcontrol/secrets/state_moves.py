"""Moves of the initial state, from its past and its future."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..core.manifold import FiniteMoves, Query
from ..numerics.balls import (
    Ball,
    BallMatrix,
    RationalMatrix,
    ball_matrix,
    midpoints,
    rational_matrix,
)
from ..numerics.checks import one_of
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import EPS, round_up
from ..numerics.pairs import Pairs
from ..numerics.progress import piece
from ..numerics.thresholds import CACHED
from ..systems.linear import Plant
from ..systems.powers import FreeResponse, backward
from .run_moves import RunMoves, roundings
from .trajectory import OutputQuery


@dataclass(frozen=True, eq=False)
class StateMoves(RunMoves):
    """Moves mu_k A^-j e_k of the initial state, from which ``columns`` are rounded.

    ``free`` holds A^t e_k for the protected k, and for delayed outputs that follow, then
    that are held. Column i is the move of column ``sources[i]`` of it at ``times[i]`` by
    mu ``scales[i]``, all of shape (M,). At t = 0 delayed outputs may follow or be held;
    later they can only follow.
    """

    free: FreeResponse
    times: NDArray[np.intp]
    sources: NDArray[np.intp]
    scales: NDArray[np.float64]
    horizon: int
    radii: NDArray[np.float64] = field(kw_only=True)  # mu of each protected state (q,)
    bits: int = field(kw_only=True)  # working precision of the balls

    @classmethod
    def of(
        cls,
        plant: Plant,
        index: Sequence[int],
        radii: NDArray[np.float64],
        times: NDArray[np.intp],
        horizon: int,
    ) -> StateMoves:
        """The moves of some states at some times of a run."""
        back = int(times.max())
        forward = horizon - 1 - int(times.min())
        axes = np.eye(plant.order)[:, index]
        with piece(0, 2):
            free = FreeResponse.of(plant.A, axes, back, forward, bool(times.max() > 0))
        count = len(index)
        # views where one state is protected
        shape = (len(times), count)
        times = np.broadcast_to(times[:, None], shape).reshape(-1)
        sources = np.broadcast_to(np.arange(count), shape).reshape(-1)
        scales = np.broadcast_to(radii, shape).reshape(-1)
        if free.held:
            first = np.flatnonzero(times == 0)
            times = np.append(times, times[first])
            sources = np.append(sources, count + sources[first])
            scales = np.append(scales, scales[first])
        with piece(1, 2):
            every = free.nearest_past(radii)
            if every is None:
                columns, vanish = _rounded_blocks(free, -times, sources, scales)
            else:
                columns = every[:, free.past_places(times, sources)]
                vanish = False  # numbers of moderate size round to none
        if not np.isfinite(columns).all():
            raise UncertifiableError(
                f"hiding a move at t = {times.max()} needs a move of the initial state "
                "beyond 1e308: a mode of the plant contracts too fast for this horizon; "
                "shorten it, or protect fewer times (StateAdjacency(times=...))"
            )
        if vanish:
            raise UncertifiableError(
                f"hiding a move at t = {times.max()} needs a move of the initial state "
                "below 1e-323: rescale the states, or protect earlier times "
                "(StateAdjacency(times=...))"
            )
        columns.flags.writeable = False
        return cls(
            columns,
            free,
            times,
            sources,
            scales,
            horizon,
            radii=radii,
            bits=free.bits,
        )

    def blocks(self) -> Iterator[BallMatrix]:
        return _in_blocks(self.free, -self.times, self.sources, self.scales)

    def spanning(self) -> RationalMatrix:
        """Return a Krylov space of the inverse of A, which holds the moves at every time."""
        first, last = int(self.times.min()), int(self.times.max())
        if not last:
            return super().spanning()
        axes = rational_matrix(self.axes)
        inverse, follow = backward(self.free.step, exact=True)
        moves = [] if first else axes.transpose().table()  # delayed outputs are held
        earlier = inverse**first * follow * axes
        for _ in range(min(len(self.columns), last - first + 1)):
            moves += earlier.transpose().table()
            earlier = inverse * earlier
        return RationalMatrix(moves).transpose()

    def read_images(
        self, matrix: BallMatrix, read: Callable[[Pairs], NDArray[np.float64]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """What is read of pairs M z (r, M) of all moves, and their errors; None if not long."""
        every = self.free.read_past(matrix, self.radii, read)
        if every is None:
            return None
        found, error = every
        places = self.free.past_places(self.times, self.sources)
        return found[:, places], error[:, places]

    def picked(self, index: NDArray[np.integer]) -> StateMoves:
        """Some of the moves."""
        return replace(
            self,
            columns=self.columns[:, index],
            times=self.times[index],
            sources=self.sources[index],
            scales=self.scales[index],
        )

    def balls(self, rows: Iterable[int]) -> list[list[Ball]]:
        """Chosen rows of the moves as a table of balls."""
        chosen = [int(row) for row in rows]
        table: list[list[Ball]] = [[] for _ in chosen]
        for block in self.blocks():
            entries = block.tolist()
            for line, row in zip(table, chosen, strict=True):
                line += entries[row]
        return table

    def output_responses(
        self, query: Query
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The responses from the plant's past and future, not from rounded moves."""
        if not isinstance(query, OutputQuery):
            return self._rounded.output_responses(query)
        every = np.arange(self.columns.shape[1])
        responses = self.responses(query.plant, every)
        return responses, 4 * EPS * np.abs(responses)

    def ball_responses(self, query: Query) -> tuple[BallMatrix, NDArray[np.float64]]:
        responses, errors = self.output_responses(query)
        return ball_matrix(responses), errors

    def sensitivity(self, query: Query, norm: float = 2) -> float:
        if not isinstance(query, OutputQuery):
            return self._rounded.sensitivity(query, norm)
        return float(self.output_sizes(query.plant, norm).max())

    @property
    def _rounded(self) -> FiniteMoves:
        """The moves as rounded numbers, for queries of other data than outputs."""
        return FiniteMoves(self.columns, errors=roundings(self.columns))

    @property
    def axes(self) -> NDArray[np.float64]:
        """Unit vectors (n, q) of the protected states."""
        return self.free.axes

    def responses(
        self, plant: Plant, columns: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """O_T z (T p, M) of chosen moves, as windows of one long free response."""
        times = self.times[columns]
        last = self.horizon - 1
        back = int(times.max(initial=0))
        forward = last - int(times.min(initial=last))
        return self._windows(self.free.outputs(plant.C, back, forward), columns, back)

    def _windows(
        self, long: NDArray[np.float64], columns: NDArray[np.integer], back: int
    ) -> NDArray[np.float64]:
        """The window (T p, M) that each move has in a response (times, p, q) from -back on."""
        windows = np.empty((self.horizon, long.shape[1], len(columns)))
        for k, column in enumerate(columns.tolist()):
            start = back - self.times[column]
            window = long[start : start + self.horizon, :, self.sources[column]]
            np.multiply(window, self.scales[column], out=windows[:, :, k])
        return windows.reshape(-1, len(columns))

    def output_sizes(self, plant: Plant, norm: float) -> NDArray[np.float64]:
        """||O_T z|| of every move (M,), rounded up."""
        one_of(norm, "norm", (1, 2, np.inf))
        C = plant.C
        long = self.free.outputs(C)
        top = np.abs(long).max(axis=(0, 1))  # of each source, so no square underflows
        if not np.isfinite(top.max() * self.scales.max()):
            raise UncertifiableError(
                "the free response exceeds 1e308 within the horizon; shorten the horizon"
            )
        top[top == 0] = 1.0
        # a window is the end of one block of the response and the start of the next
        join = np.maximum if norm == np.inf else np.add
        power = 2 if norm == 2 else 1
        samples = join.reduce(np.abs(long / top) ** power, axis=1)
        missing = -len(samples) % self.horizon
        padded = np.pad(samples, ((0, missing), (0, 0)))
        blocks = padded.reshape(-1, self.horizon, padded.shape[1])
        until = join.accumulate(blocks, axis=1).reshape(padded.shape)
        since = join.accumulate(blocks[:, ::-1], axis=1)[:, ::-1].reshape(padded.shape)
        starts = self.free.back - self.times
        last = until[starts + self.horizon - 1, self.sources]
        of_next = np.where(starts % self.horizon > 0, last, 0.0)
        sizes = join(since[starts, self.sources], of_next) ** (1 / power)
        rounding = 4 * EPS * (self.horizon + 1) * len(C)
        sizes *= top[self.sources] * self.scales * (1 + rounding)
        return np.where(sizes > 0, round_up(sizes), 0.0)


def _rounded_blocks(
    free: FreeResponse,
    times: NDArray[np.intp],
    sources: NDArray[np.intp],
    scales: NDArray[np.float64],
) -> tuple[NDArray[np.float64], bool]:
    """Return scaled columns (n, M) as doubles, and whether a row that moves rounds to zero.

    It would pass for a state that never moves.
    """
    columns = np.empty((len(free.axes), len(times)))
    moving = np.zeros(len(columns), dtype=bool)
    done = 0
    for block in _in_blocks(free, times, sources, scales):
        rounded = midpoints(block)
        columns[:, done : done + block.ncols()] = rounded
        done += block.ncols()
        moving |= rounded.any(axis=1)
        still = np.flatnonzero(~moving)
        table = block.tolist() if still.size else []
        for row in still:
            moving[row] = any(entry != 0 for entry in table[row])
    return columns, bool((moving & ~columns.any(axis=1)).any())


def _in_blocks(
    free: FreeResponse,
    times: NDArray[np.intp],
    sources: NDArray[np.intp],
    scales: NDArray[np.float64],
) -> Iterator[BallMatrix]:
    """Scaled columns of a free response, as many at a time as fit in little memory."""
    at_once = max(1, CACHED // len(free.step))
    count = -(-len(times) // at_once)
    for k in range(count):
        some = slice(k * at_once, (k + 1) * at_once)
        with piece(k, count):
            block = free.columns(times[some], sources[some], scales[some])
        yield block
