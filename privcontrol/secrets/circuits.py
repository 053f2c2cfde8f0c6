"""Circuits of a plant's trajectories x(t) = A^t z.

For a nonsingular A the circuit of a set of entries that starts at time 0 is v(t) = A^t z
for all t. Its shift by s is the window -s, ..., T-1-s of the same v, so all shifts
share one pass. A singular A has no such shifts, and its circuits are enumerated plainly.
All of this is exact; moves are rounded once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._balls import (
    Ball,
    Integer,
    IntegerMatrix,
    RationalMatrix,
    rational,
    rational_matrix,
    working_bits,
)
from ..core._linalg import positive_integer, real_array
from ..core.circuits import (
    MOST_SECONDS,
    ROUNDED,
    TINY,
    Component,
    Sparse,
    blocks_of,
    chart_moves,
    null_vector,
    radii,
    refuse_long,
    rounded,
    sparse,
)
from ..core.errors import UncertifiableError
from ..core.moves import FiniteMoves

#: Relative error of an entry that is rounded once, scaled and multiplied.
_ROUNDED = 2.0**-49

#: Sets of entries whose circuits are multiplied at once.
_BLOCK = 256


def trajectory_circuit_moves(
    A: ArrayLike,
    horizon: int,
    radius: ArrayLike,
    *,
    charts: str | Iterable = "all",
) -> Iterator[FiniteMoves]:
    """Worst moves of Definition 4 over trajectories of x(t+1) = A x(t) + known input.

    There are about C(T n, n - 1) of them, none of which is stored. Entry m of x(t) has the
    index t n + m. The doubles of A (n, n) are taken as exact. ``radius`` is one for all,
    (n,) per state, or (T, n) per time and state, which is slower. ``charts`` are free sets
    of entries, or "all" of them. A ``ValueError`` refuses what takes more than 10 s.

    Examples
    --------
    In DPAM's vehicle the positions at two successive times tie the velocity:

    >>> blocks = trajectory_circuit_moves([[1, 0.125], [0, 1]], 100, 1.0)
    >>> float(max(abs(found.columns[1]).max() for found in blocks))  # doctest: +ELLIPSIS
    8.0000000...
    """
    A = real_array(A, "A", ndim=2)
    if A.shape[0] != A.shape[1] or not A.size:
        raise ValueError(f"A: expected a square matrix, got shape {A.shape}")
    n = len(A)
    horizon = positive_integer(horizon, "horizon")
    radius = radii(radius, (horizon, n))
    exact = rational_matrix(A)
    if not isinstance(charts, str):
        sizes = [rational(mu) for mu in radius.ravel().tolist()]
        moves = chart_moves(_stack(exact, horizon), sizes, list(charts))
        return iter([_first_state([sparse(move) for move in moves], n, n)])
    if charts != "all":
        raise ValueError(
            f"charts: expected 'all' or a list of index sets, got {charts!r}"
        )
    if n == 1 or exact.det() == 0 or (radius != radius[0]).any():
        whole = Component(np.arange(horizon * n), _stack(exact, horizon), True, n)
        refuse_long([whole])
        size = horizon * n
        blocks = blocks_of(whole.worst_moves(radius.ravel()), size)
        return (_first_state(block, size, n) for block in blocks)
    # an estimate; integers grow with the horizon
    sets = comb(n * horizon, n - 1) - comb(n * (horizon - 1), n - 1)
    seconds = sets * n * horizon * (4e-6 + 5e-8 * horizon)
    if seconds > MOST_SECONDS:
        raise ValueError(
            f"the circuits of {n} states over {horizon} samples ({sets:,} sets of "
            f"entries) would take more than {MOST_SECONDS:g} seconds: use a shorter "
            'horizon, or charts="times"'
        )
    return _shared_moves(exact, horizon, radius[0])


def _first_state(moves: list[Sparse], size: int, n: int) -> FiniteMoves:
    """Exact moves of so many entries as moves of x(0)."""
    initial = rounded(moves, size)[:n]
    return FiniteMoves(initial, errors=np.abs(initial) * ROUNDED)


def count_trajectory_circuits(n: int, horizon: int) -> int:
    """The number C(T n, n - 1) of candidates of n states and T samples."""
    return comb(n * horizon, n - 1)


def _stack(A: RationalMatrix, horizon: int) -> RationalMatrix:
    """The kernel of the trajectories, the powers of A below each other."""
    rows = []
    power = A**0
    for _ in range(horizon):
        rows += power.tolist()
        power = power * A
    return RationalMatrix(rows)


def _powers(A: RationalMatrix, count: int) -> Iterator[tuple[IntegerMatrix, Integer]]:
    """Yield the powers A^0, A^1, ... as integers and their common denominators."""
    step, denominator = A.numer_denom()
    whole, common = step**0, denominator**0
    for _ in range(count):
        yield whole, common
        whole = whole * step
        common = common * denominator


def _shared_moves(
    A: RationalMatrix, horizon: int, radius: NDArray
) -> Iterator[FiniteMoves]:
    """Yield the worst moves of all shifts of the sets that start at time 0."""
    n = A.nrows()
    past = list(_powers(A.inv(), horizon))
    powers = [*past[:0:-1], *_powers(A, horizon)]
    rows = []
    for whole, _ in powers[horizon - 1 :]:
        rows += whole.tolist()
    starts = combinations(range(n * horizon), n - 1)
    sets = (held for held in starts if held[0] < n)
    while block := list(islice(sets, _BLOCK)):
        found = []
        for held in block:
            direction = null_vector([rows[i] for i in held], n)
            if direction is not None:
                found.append((held[-1] // n, direction))
        if not found:
            continue
        last = np.array([time for time, _ in found])
        states = _states(powers, [z for _, z in found])
        least = _loads(states, radius)
        origin = horizon - 1
        before = np.minimum.accumulate(least[origin::-1])
        after = np.minimum.accumulate(least[origin:])
        for shift in range(horizon):
            # the window from -shift to horizon - 1 - shift
            smallest = np.minimum(before[shift], after[origin - shift])
            seen = (last + shift < horizon) & (smallest < np.inf)
            if seen.any():
                yield _scaled(states[origin - shift][:, seen], smallest[seen])


def _states(powers: Sequence, directions: list[list[int]]) -> NDArray:
    """Return the states A^t z (times, n, M) in units of the largest entry of each z."""
    columns = IntegerMatrix(directions).transpose()
    n = columns.nrows()
    largest = [max(map(abs, z)) for z in directions]
    values = []
    with working_bits(64):
        for whole, common in powers:
            units = [1 / Ball(common * size) for size in largest] * n
            entries = (whole * columns).entries()
            rounded = [float(x * unit) for x, unit in zip(entries, units)]
            if any(x and not 1e-290 < abs(v) < 1e290 for x, v in zip(entries, rounded)):
                raise UncertifiableError(
                    "the entries of a move span more than 290 decades; shorten the "
                    "horizon or rescale the entries"
                )
            values.append(np.reshape(rounded, (n, -1)))
    return np.array(values)


def _loads(states: NDArray, radius: NDArray) -> NDArray:
    """Return the least size (times, M) of a protected state that moves, in its radius."""
    protected = radius > 0
    entries = np.abs(states[:, protected])
    with np.errstate(over="ignore", under="ignore"):
        loads = entries / radius[protected, None]
    if not np.isfinite(loads).all() or (loads[entries > 0] < TINY).any():
        raise UncertifiableError(
            "a radius is too far from the size of its entry; rescale the entries"
        )
    loads[loads == 0] = np.inf
    return loads.min(axis=1, initial=np.inf)


def _scaled(states: NDArray, least: NDArray) -> FiniteMoves:
    """Return moves (n, B) whose least load of a protected entry becomes one."""
    with np.errstate(over="ignore", under="ignore"):
        moves = states * ((1 + _ROUNDED / 4) / least)
    if (np.abs(moves[states != 0]) < TINY).any():
        raise UncertifiableError(
            "a move leaves the range of double precision; rescale the entries"
        )
    return FiniteMoves(moves, errors=np.abs(moves) * _ROUNDED)
