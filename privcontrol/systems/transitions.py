"""Transition matrices of plants that vary, in balls and in rationals.

Phi(t, s) = A_{t-1} ... A_s has no powers and no doubling: everything here goes one sample
after the other. Accuracy is relative to the largest entry of a column, as for the powers
of a constant A.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..numerics.balls import (
    Ball,
    BallMatrix,
    Rational,
    RationalMatrix,
    ball_matrix,
    block_balls,
    diagonal_balls,
    enclosure,
    is_accurate,
    midpoints,
    rational_matrix,
    working_bits,
)
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import EPS
from .linear import LEAP, VaryingSystem

T = TypeVar("T")

#: Bits to which every column is known, relative to its largest entry.
ACCURATE_BITS = 180
_ACCURATE = Ball((1, -ACCURATE_BITS))
FIRST_BITS = 320
MOST_BITS = FIRST_BITS << 9
#: Rationals grow with every sample. Beyond so many numbers nothing is decided with them.
_MOST_RATIONALS = 3000


def accurate_columns(matrix: BallMatrix) -> int:
    """The number of columns before the first one that is not accurate."""
    known = matrix * Ball(0, _ACCURATE / 4)
    if known.contains(matrix - matrix.mid()):
        return matrix.ncols()
    is_known = [_is_accurate(column) for column in matrix.transpose().tolist()]
    return [*is_known, False].index(False)


def _is_accurate(column: list[Ball]) -> bool:
    """Return whether a column is known to `ACCURATE_BITS`.

    Radii and sizes are compared as balls, since doubles could overflow.
    """
    widest = max([entry.rad() for entry in column])
    largest = max([entry.abs_upper() for entry in column])
    return bool(2 * widest <= largest * _ACCURATE)


class _Lost(Exception):
    """The working precision does not carry what is computed."""


def _made_once(
    stack: NDArray[np.float64], made: Callable[[NDArray[np.float64]], T]
) -> Callable[[int], T]:
    """Return a function from a sample to what is made of its matrix, once of equal ones."""
    known: dict[bytes, T] = {}

    def at(t: int) -> T:
        content = stack[t].tobytes()
        if content not in known:
            known[content] = made(stack[t])
        return known[content]

    return at


def sample_matrices(stack: NDArray[np.float64]) -> Callable[[int], BallMatrix]:
    """Return a function from a sample to its matrix in balls."""
    if not stack[0].size:
        return lambda t: BallMatrix(*stack[t].shape)
    return _made_once(stack, ball_matrix)


def first_singular(system: VaryingSystem, samples: int) -> int | None:
    """Return the first sample whose A_t is singular, exactly, None without one."""

    def is_singular(A: NDArray[np.float64]) -> bool:
        return bool(rational_matrix(A).det() == 0)

    at = _made_once(system.along[0], is_singular)
    return next((t for t in range(samples) if at(t)), None)


def _inverses(system: VaryingSystem) -> Callable[[int], BallMatrix]:
    """Return a function from a sample to the inverse of A_t, at the working precision."""

    def inverse(A: NDArray[np.float64]) -> BallMatrix:
        try:
            return ball_matrix(A).inv()
        except ZeroDivisionError:
            raise _Lost from None

    return _made_once(system.along[0], inverse)


def _with_enough_bits(
    computed: Callable[[], list[BallMatrix]], samples: int
) -> tuple[list[BallMatrix], int]:
    """Return what a function computes, at the first precision that carries it."""
    bits = FIRST_BITS
    while bits <= MOST_BITS:
        with working_bits(bits):
            try:
                return computed(), bits
            except _Lost:
                bits *= 2
    raise UncertifiableError(
        f"sys: its transition matrices over {samples} samples are beyond {MOST_BITS}-bit "
        "arithmetic: the horizon is too long for this plant; shorten the horizon, or "
        "protect fewer times (StateAdjacency(times=...))"
    )


def _checked(matrix: BallMatrix) -> BallMatrix:
    if accurate_columns(matrix) < matrix.ncols():
        raise _Lost
    return matrix


def moved_back(
    system: VaryingSystem, axes: NDArray[np.float64], times: Sequence[int]
) -> tuple[list[BallMatrix], int]:
    """Return Phi(j, 0)^-1 V as balls (n, q) for increasing times j, and their bits."""
    wanted = set(times)
    last = max(times)

    def going_back() -> list[BallMatrix]:
        inverse = _inverses(system)
        begun = ball_matrix(axes)
        whole = ball_matrix(np.eye(len(axes)))
        found = []
        for j in range(last + 1):
            if j in wanted:
                found.append(_checked(whole * begun))
            elif j % LEAP == 0:
                _checked(whole)
            if j < last:
                whole = whole * inverse(j)
        return found

    return _with_enough_bits(going_back, last + 1)


class _Seen:
    """Outputs of columns, as far as they are known as well as doubles.

    A state may be known to its largest entry, of which outputs see next to nothing. What
    is below `ACCURATE_BITS` of a column's largest output so far counts as known, such as
    zeros whose terms cancel. ``first`` (M,) is what takes its place before.
    """

    def __init__(self, first: NDArray[np.float64]) -> None:
        self._first = first
        self._largest = np.zeros(len(first))

    def rounded(self, seen: BallMatrix, columns: slice) -> NDArray[np.float64]:
        """Return outputs (p, K) of some columns at a sample, rounded from balls."""
        largest = self._largest[columns]
        if is_accurate(seen):
            values = midpoints(seen)
        else:
            values, errors = enclosure(seen)
            sizes = np.where(largest > 0, largest, self._first[columns])
            known = np.maximum(EPS * np.abs(values), 2.0**-ACCURATE_BITS * sizes)
            if not (errors <= known).all():
                raise _Lost
        own = np.abs(values).max(axis=0, initial=0.0)
        self._largest[columns] = np.maximum(largest, own)
        return values


def run_responses(
    system: VaryingSystem,
    axes: NDArray[np.float64],
    times: NDArray[np.intp],
    samples: int,
) -> NDArray[np.float64]:
    """Return C_t Phi(t, j) v (T, p, M) for columns v (n, M) at times j, before them too.

    Each entry is rounded from its ball. Before its time the state is that of the same run.
    """
    order = np.argsort(times, kind="stable")
    outputs = np.zeros((samples, system.output_count, len(times)))
    A = sample_matrices(system.along[0])
    C = sample_matrices(system.along[2])
    gain = np.abs(system.along[2]).max(initial=0.0)
    seen = _Seen(gain * np.abs(axes[:, order]).max(axis=0, initial=0.0))

    def kept(t: int, columns: slice, state: BallMatrix) -> None:
        outputs[t][:, order[columns]] = seen.rounded(C(t) * state, columns)

    def entering(t: int) -> list[BallMatrix]:
        own = order[times[order] == t]
        return [ball_matrix(axes[:, own])] if own.size else []

    def forward() -> list[BallMatrix]:
        moving: list[BallMatrix] = []
        for t in range(samples):
            moving += entering(t)
            if not moving:
                continue
            state = block_balls([moving])
            kept(t, slice(state.ncols()), state)
            if t % LEAP == 0 or t == samples - 1:
                _checked(state)
            moving = [A(t) * state]
        return []

    def backward() -> list[BallMatrix]:
        inverse = _inverses(system)
        moving: list[BallMatrix] = []
        for t in range(int(times.max()) - 1, -1, -1):
            moving = [*entering(t + 1), *moving]
            state = inverse(t) * block_balls([moving])
            kept(t, slice(-state.ncols(), None), state)
            if t % LEAP == 0:
                _checked(state)
            moving = [state]
        return []

    _with_enough_bits(forward, samples)
    if times.max() > 0:
        _with_enough_bits(backward, samples)
    return outputs


def forced_responses(
    system: VaryingSystem, samples: int, shape: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the responses (T p, T q) to inputs of one shape, by start and input.

    Lower block triangular and time-major; each entry is rounded from its ball.
    """
    p, q = system.output_count, system.input_count
    outputs = np.zeros((samples, p, samples * q))
    A, B, C, D = map(sample_matrices, system.along)
    of_input = [np.abs(matrix).max(initial=0.0) for matrix in system.along[1:]]
    first = (of_input[0] * of_input[1] + of_input[2]) * np.abs(shape).max(initial=0.0)
    seen = _Seen(np.full(samples * q, first))

    def forward() -> list[BallMatrix]:
        state = None
        for t in range(samples):
            count = (t + 1) * q
            acting = np.zeros((q, count))
            for k in range(min(len(shape), t + 1)):
                start = (t - k) * q
                acting[:, start : start + q] = shape[k] * np.eye(q)
            now = ball_matrix(acting)
            fresh = BallMatrix(system.order, q)
            state = fresh if state is None else block_balls([[state, fresh]])
            outputs[t][:, :count] = seen.rounded(
                C(t) * state + D(t) * now, slice(count)
            )
            state = A(t) * state + B(t) * now
        if state is not None:
            _checked(state)
        return []

    _with_enough_bits(forward, samples)
    return outputs.reshape(samples * p, samples * q)


def gramian_of_run(
    system: VaryingSystem, weights: Sequence[Ball], samples: int
) -> BallMatrix:
    """Return the sum over t of (C_t Phi)^T diag(weights) C_t Phi, at the working bits."""
    A = sample_matrices(system.along[0])
    C = sample_matrices(system.along[2])
    diagonal = diagonal_balls(weights)
    # backwards, X_t = C_t^T W C_t + A_t^T X_{t+1} A_t stays n by n and symmetric
    total = BallMatrix(system.order, system.order)
    for t in range(samples - 1, -1, -1):
        step, read = A(t), C(t)
        total = step.transpose() * total * step
        total = total + read.transpose() * diagonal * read
    return total


# -- what the zeros show, and what rationals decide --------------------------------------


def seen_of_run(system: VaryingSystem, samples: int) -> NDArray[np.bool_]:
    """Mask (n,) of the first sample's states that some output of a run can see.

    It follows from the zeros of A_t and C_t alone.
    """
    A, _, C, _ = system.along
    seen = np.zeros(system.order, bool)
    for t in range(samples - 1, -1, -1):
        seen = C[t].any(axis=0) | (A[t] != 0).T[:, seen].any(axis=1)
    return seen


def reached_of_run(
    system: VaryingSystem, start: NDArray[np.bool_], samples: int
) -> NDArray[np.bool_]:
    """Mask (n,) of the states that noise in some first states reaches within a run."""
    A = system.along[0]
    now = reached = start
    for t in range(samples - 1):
        now = (A[t] != 0)[:, now].any(axis=1)
        reached = reached | now
    return reached


def told_of_run(system: VaryingSystem, samples: int) -> RationalMatrix | None:
    """Rows (k, n) that span what the outputs of a run reveal of x(0), exactly.

    None where rationals of the samples that it takes would grow too long.
    """
    order = system.order
    state = rational_matrix(np.eye(order))
    rows: list[list[Rational]] = []
    for t in range(samples):
        if t * order > _MOST_RATIONALS:
            return None
        now = system.at(t)
        if now.C.any():
            read = (rational_matrix(now.C) * state).table()
            found, rank = RationalMatrix(rows + read).rref()
            rows = found.table()[:rank]
        if len(rows) == order:
            break
        state = rational_matrix(now.A) * state
    return RationalMatrix(rows) if rows else RationalMatrix(0, order, [])


def spanned_back(
    system: VaryingSystem, axes: NDArray[np.float64], times: Sequence[int]
) -> RationalMatrix:
    """Rational columns that span Phi(j, 0)^-1 V for all times j.

    Raises
    ------
    UncertifiableError
        If rationals of so many samples would grow too long.
    """
    last = max(times)
    if last * system.order > _MOST_RATIONALS:
        raise UncertifiableError(
            f"factor: over {last + 1} samples of a plant that varies it is not decided "
            "whether the moves stay in the span of fewer columns than states; pass a "
            "factor whose rows are independent, or a floor"
        )
    wanted = set(times)
    begun = rational_matrix(axes)
    inverse = rational_matrix(np.eye(system.order))
    rows: list[list[Rational]] = []
    for j in range(last + 1):
        if j in wanted:
            moves = (inverse * begun).transpose().table()
            found, rank = RationalMatrix(rows + moves).rref()
            rows = found.table()[:rank]
            if len(rows) == system.order:
                break
        if j < last:
            inverse = inverse * rational_matrix(system.at(j).A).inv()
    return RationalMatrix(rows).transpose()


def stack_of_run(system: VaryingSystem, samples: int) -> RationalMatrix:
    """Phi(t, 0) for t = 0 .. T-1 below each other, exactly."""
    state = rational_matrix(np.eye(system.order))
    entries: list[Rational] = []
    for t in range(samples):
        entries += state.entries()
        state = rational_matrix(system.at(t).A) * state
    return RationalMatrix(samples * system.order, system.order, entries)
