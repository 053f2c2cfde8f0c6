"""Powers of A in ball arithmetic: what a plant did before, and what it will do.

A^-t spans hundreds of decades, and privacy hinges on the small components beside the
large ones. Ball arithmetic carries as many digits as that needs and proves them, at a
cost of microseconds a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._balls import (
    Ball,
    BallMatrix,
    RationalMatrix,
    ball_matrix,
    block_balls,
    midpoints,
    rational_matrix,
    submatrix,
    working_bits,
)
from ..core.errors import UncertifiableError
from .linear import LinearSystem, Matrix, queue_of, reached_states
from .plant import Plant

#: Bits to which every column is known, relative to its largest entry.
_ACCURATE_BITS = 180
_ACCURATE = Ball((1, -_ACCURATE_BITS))
_FIRST_BITS = 320
_MOST_BITS = _FIRST_BITS << 9

#: Bits that are kept of a state once it is known. The powers of a long horizon need
#: thousands of bits on the way.
_KEPT_BITS = _FIRST_BITS

#: States that are moved on at once.
_BLOCK = 64

#: From here on the digits that a sample costs are known: transients of doubles are over.
_TELLING_BITS = 1 << 13

#: States up to which A is inverted in rationals, which keeps its exact zeros.
_MOST_RATIONAL_STATES = 24


def seen_states(plant: Plant, horizon: int) -> NDArray:
    """Mask (n,) of the states that some output can see within the horizon.

    It follows from the zeros of A and C alone.
    """
    seen = plant.C.any(axis=0)
    return reached_states(plant.A.T != 0, seen, min(plant.order, horizon - 1))


def delayed_inputs(A: NDArray) -> NDArray:
    """Mask (n,) of the states that only inputs and other such states drive.

    They are inputs of up to n samples ago. It follows from the zeros of A alone.
    """
    driven = A != 0
    delays = np.zeros(len(A), dtype=bool)
    for _ in range(len(A)):
        delays = ~driven[:, ~delays].any(axis=1)
    return delays


def delayed_outputs(A: NDArray) -> NDArray:
    """Mask (n,) of other states that drive only each other, such as readings of the past."""
    return delayed_inputs(A.T) & ~delayed_inputs(A)


def backward(A: NDArray, *, exact: bool = False) -> tuple[Any, Any]:
    """One step back in time, and the delayed outputs that belong to the other states.

    Both are square matrices (n, n) of rationals or balls. They act on states that are no
    delays. Delayed inputs are zero. Delayed outputs x_f = F x are what the plant has
    brought about for ever, F A = A_f F + A_fx with A_f nilpotent.
    """
    follows = delayed_outputs(A)
    moved = np.flatnonzero(~follows & ~delayed_inputs(A))
    later = np.flatnonzero(follows)
    matrix: Callable = ball_matrix
    if exact or len(moved) <= _MOST_RATIONAL_STATES:
        matrix = rational_matrix
    inverse = matrix(A[np.ix_(moved, moved)]).inv()
    entering = matrix(A[np.ix_(later, moved)])
    among = matrix(A[np.ix_(later, later)])
    following = entering * inverse
    for _ in later:
        following = (entering + among * following) * inverse
    past = following * inverse
    step = type(inverse)(len(A), len(A))
    follow = type(inverse)(len(A), len(A))
    for column, j in enumerate(moved.tolist()):
        follow[j, j] = 1
        for row, i in enumerate(moved.tolist()):
            step[i, j] = inverse[row, column]
        for row, i in enumerate(later.tolist()):
            follow[i, j] = following[row, column]
            step[i, j] = past[row, column]
    return step, follow


def tell_apart(plant: Plant, rows: NDArray, horizon: int) -> bool:
    """Whether the outputs tell any two values of these states apart, the others held.

    It is decided exactly. Beyond 24 states it is not decided, and the answer is False.
    """
    seen = told_directions(plant, horizon)
    if seen is None:
        return False
    columns = [[row[int(k)] for k in rows] for row in seen.table()]
    return RationalMatrix(columns).rank() == len(rows)


def told_directions(plant: Plant, horizon: int) -> RationalMatrix | None:
    """Rows (k, n) that span what the outputs tell of the initial state, in rationals.

    They are C A^t, exactly. None beyond 24 states.
    """
    if plant.order > _MOST_RATIONAL_STATES:
        return None
    every = rational_matrix(np.eye(plant.order))
    return rational_response(plant, every, min(plant.order, horizon))


def rational_response(
    plant: Plant, states: RationalMatrix, samples: int
) -> RationalMatrix:
    """C A^t X (T p, r) of a plant, exactly."""
    A = rational_matrix(plant.A)
    return exact_response(A, rational_matrix(plant.C), states, samples)


def exact_response(A: Matrix, C: Matrix, states: Matrix, samples: int) -> Matrix:
    """C A^t X (T p, r), time-major, of matrices of balls or of rationals."""
    entries: list[Any] = []
    for _ in range(samples):
        entries += (C * states).entries()
        states = A * states
    return type(states)(samples * C.nrows(), states.ncols(), entries)


class FreeResponse:
    """The vectors A^t V (n, q) for t = -back .. forward, as ball matrices.

    Each is accurate to `_ACCURATE_BITS`. If ``back`` is positive, A is nonsingular but for
    delays, and V is zero for delayed inputs. If ``followed`` and there are delayed outputs,
    V stands there twice: with these as what the other states in V have brought about, then
    as it was given (``held``). An ``UncertifiableError`` says that the plant is so
    stiff that even very long numbers do not carry its powers.
    """

    def __init__(
        self, A: NDArray, V: NDArray, back: int, forward: int, followed: bool = False
    ) -> None:
        if back and V[delayed_inputs(A)].any():
            raise UncertifiableError(
                "A^-t does not exist for moves of delayed inputs; protect the initial "
                "state, or what enters the plant"
            )
        self._A = A
        self._forward = forward
        self.back = back
        self.bits = _FIRST_BITS
        self.axes = V
        self.held = followed and bool(delayed_outputs(A).any())
        wanted = (back, forward)
        reached_before = (0, 0)
        while True:
            with working_bits(self.bits):
                start = ball_matrix(V)
                if self.held:
                    following = ball_matrix(backward(A)[1]) * start
                    start = block_balls([[following, start]])
                self._width = start.ncols()
                past = self._past_of(start)
                reached = (self._samples(past), 0)
                if reached[0] == back:
                    reached = (back, self._samples(self._future_of(start)))
            if reached == wanted:
                self._start = start
                self._known = [*past, start]
                self._known_ends = _ends(self._known)
                return
            self._refuse_hopeless(reached_before, reached, wanted)
            reached_before = reached
            self.bits *= 2

    def _samples(self, blocks: Iterable[BallMatrix]) -> int:
        return sum(block.ncols() for block in blocks) // self._width

    def _past_of(self, start: BallMatrix) -> list[BallMatrix]:
        """A^-t V for t = 1, 2, .., as far as they are accurate."""
        if not self.back:
            return []
        try:
            step = ball_matrix(backward(self._A)[0])
        except ZeroDivisionError:  # not invertible at this precision
            return []
        return list(_orbit(step, start, self.back * self._width))

    def _future_of(self, start: BallMatrix) -> Iterator[BallMatrix]:
        """A^t V for t = 1, 2, .., as far as they are accurate."""
        return _orbit(ball_matrix(self._A), start, self._forward * self._width)

    @cached_property
    def _blocks(self) -> list[BallMatrix]:
        """All states. Few ask for the future, which takes as much memory as the past."""
        with working_bits(self.bits):
            return [*self._known, *self._future_of(self._start)]

    @cached_property
    def _block_ends(self) -> NDArray:
        return _ends(self._blocks)

    def _refuse_hopeless(
        self,
        before: tuple[int, int],
        reached: tuple[int, int],
        wanted: tuple[int, int],
    ) -> None:
        """Raise as soon as no allowed number of digits will reach the wanted times."""
        if self.bits < _TELLING_BITS:
            return
        for was, now, want, sign in zip(before, reached, wanted, "-+", strict=True):
            if now >= want:
                continue
            gained = now - was
            if gained <= 0:
                if self.bits >= _MOST_BITS:
                    raise _beyond(sign, want, "", "A is too close to singular")
                continue
            bits_per_sample = self.bits / 2 / gained
            expected = self.bits + (want - now) * bits_per_sample
            if self.bits >= _MOST_BITS or expected > 2 * _MOST_BITS:
                reach = int(now + (_MOST_BITS - self.bits) / bits_per_sample)
                cause = "the horizon is too long for this plant"
                raise _beyond(sign, want, f", which reaches about {sign}{reach}", cause)

    def _places(self, times: NDArray) -> NDArray:
        """Where each time stands: the past comes first, its latest time at its head."""
        return np.where(times < 0, -1 - times, self.back + times)

    def at(self, t: int) -> BallMatrix:
        """A^t V as balls (n, q)."""
        sources = np.arange(self._width)
        times = np.full(self._width, t)
        return self.columns(times, sources, np.ones(self._width))

    def columns(self, times: NDArray, sources: NDArray, scales: NDArray) -> BallMatrix:
        """Columns (n, M) of A^t V, each of its own time and source, times its own number."""
        places = self._places(times) * self._width + sources
        is_past = not (times > 0).any()
        every = self._known if is_past else self._blocks
        ends = self._known_ends if is_past else self._block_ends
        homes = np.searchsorted(ends, places, side="right")
        within = places - np.append(0, ends)[homes]
        blocks = [every[home] for home in homes.tolist()]
        with working_bits(self.bits):
            chosen = list(zip(blocks, within.tolist(), map(Ball, scales.tolist())))
            rows = range(len(self.axes))
            return BallMatrix(
                [[x[i, k] * scale for x, k, scale in chosen] for i in rows]
            )

    def states(self) -> NDArray:
        """A^t V as doubles, shape (times, n, q), each entry rounded from its ball."""
        return self._in_time(self._blocks)

    def outputs(self, C: NDArray) -> NDArray:
        """C A^t V as doubles, shape (times, p, q), each entry rounded from its ball."""
        with working_bits(self.bits):
            matrix = ball_matrix(C)
            return self._in_time([matrix * block for block in self._blocks])

    def _in_time(self, blocks: list[BallMatrix]) -> NDArray:
        side_by_side = np.hstack([midpoints(block) for block in blocks])
        frames = side_by_side.reshape(len(side_by_side), -1, self._width)
        forward = frames.shape[1] - self.back
        places = self._places(np.arange(-self.back, forward))
        return np.ascontiguousarray(frames.swapaxes(0, 1)[places])


def response_to_shape(
    system: LinearSystem, samples: int, shape: ArrayLike = (1.0,)
) -> NDArray:
    """The response (T, p, q) to inputs of one shape from sample 0 on, rounded from balls."""
    queue = queue_of(np.size(shape))
    start = np.append(shape, np.zeros(system.order))[:, None]
    every = []
    for k in range(system.input_count):
        queued = system.entered_by([k]).after(queue)
        response = FreeResponse(queued.A, start, 0, samples - 1)
        every.append(response.outputs(queued.C))
    return np.concatenate(every, axis=2)


def _ends(blocks: list[BallMatrix]) -> NDArray:
    """Where each block ends when they stand side by side."""
    return np.cumsum([block.ncols() for block in blocks])


def _beyond(sign: str, want: int, reach: str, cause: str) -> UncertifiableError:
    return UncertifiableError(
        f"A^t for t = {sign}1 .. {sign}{want} is beyond {_MOST_BITS}-bit arithmetic"
        f"{reach}: {cause}; shorten the horizon, or protect fewer times "
        "(StateAdjacency(times=...))"
    )


def _orbit(step: BallMatrix, start: BallMatrix, count: int) -> Iterator[BallMatrix]:
    """step start, step^2 start, .. side by side, up to the last accurate state.

    There are at most ``count`` columns. The states of a block, moved on by as many
    samples, are the next block. Powers of such moves come from each other in the same way.
    """
    rows = range(start.nrows())
    width = start.ncols()
    block = step * start
    leap = step
    while block.ncols() < min(_BLOCK * width, count):
        block = block_balls([[block, leap * block]])
        leap = leap * leap
    powers = [leap**0]
    for k, first in enumerate(range(0, count, block.ncols())):
        if k == len(powers):
            powers += [leap * power for power in powers]
            leap = leap * leap
        if count - first < block.ncols():
            block = submatrix(block, rows, range(count - first))
        latest = powers[k] * block
        with working_bits(_KEPT_BITS):
            latest = latest * 1
        accurate = _accurate_columns(latest) // width * width
        if accurate < latest.ncols():
            yield submatrix(latest, rows, range(accurate))
            return
        yield latest


def _accurate_columns(matrix: BallMatrix) -> int:
    """The number of columns before the first one that is not accurate."""
    known = matrix * Ball(0, _ACCURATE / 4)
    if known.contains(matrix - matrix.mid()):
        return matrix.ncols()
    columns = matrix.transpose().tolist()
    return next((k for k, x in enumerate(columns) if not _is_accurate(x)), len(columns))


def _is_accurate(column: list[Ball]) -> bool:
    """Whether a column is known to `_ACCURATE_BITS`.

    Radii and sizes are compared as balls, since doubles could overflow.
    """
    widest = max([entry.rad() for entry in column])
    largest = max([entry.abs_upper() for entry in column])
    return bool(2 * widest <= largest * _ACCURATE)
