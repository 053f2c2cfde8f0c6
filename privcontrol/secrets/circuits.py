"""Circuits of a plant's trajectories x(t) = A^t z.

For a nonsingular A the circuit of a set of entries that starts at time 0 is v(t) = A^t z
for all t. Its shift by s is the window -s, ..., T-1-s of the same v, so all shifts
share one pass. A singular A has no such shifts, and its circuits are enumerated plainly.
All of this is exact; moves are rounded once.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from ..core._balls import (
    Ball,
    Integer,
    IntegerMatrix,
    RationalMatrix,
    rational_matrix,
    working_bits,
)
from ..core.manifold import (
    MOST_SECONDS,
    ROUNDED,
    Component,
    Sparse,
    chart_moves,
    null_vector,
    refuse_long,
    refuse_range,
    rounded,
    stretched,
)
from ..core.moves import FiniteMoves

#: Relative error of an entry that is rounded once, scaled and multiplied.
_ROUNDED = 2.0**-49


def trajectory_circuit_moves(
    A: NDArray,
    horizon: int,
    radii: NDArray,
    charts: str | Iterable[Iterable[int]] = "all",
) -> FiniteMoves:
    """Return the worst moves of Definition 4 over trajectories of x(t+1) = A x(t) + input.

    There are about C(T n, n - 1) of them, as moves of x(0). Entry m of x(t) has the index
    t n + m. The doubles of A (n, n) are taken as exact. ``radii`` (T, n) that vary in time
    are slower. ``charts`` are free sets of entries, or "all" of them. A ``ValueError``
    refuses what takes more than 10 s.

    Examples
    --------
    In DPAM's vehicle the positions at two successive times tie the velocity:

    >>> A = np.array([[1, 0.125], [0, 1]])
    >>> found = trajectory_circuit_moves(A, 100, np.ones((100, 2)))
    >>> float(abs(found.columns[1]).max())  # doctest: +ELLIPSIS
    8.0000000...
    """
    n = len(A)
    exact = rational_matrix(A)
    if not isinstance(charts, str):
        stack = _stack(_powers(exact, horizon))
        return _first_state(chart_moves(stack, radii.ravel(), charts), n, n)
    if n == 1 or exact.det() == 0 or (radii != radii[0]).any():
        stack = _stack(_powers(exact, horizon))
        whole = Component(np.arange(horizon * n), stack, True, n)
        refuse_long([whole])
        moves = stretched(whole.circuits(), radii.ravel())
        return _first_state(moves, horizon * n, n)
    # an estimate; integers grow with the horizon
    sets = comb(n * horizon, n - 1) - comb(n * (horizon - 1), n - 1)
    seconds = sets * n * horizon * (4e-6 + 5e-8 * horizon)
    if seconds > MOST_SECONDS:
        raise ValueError(
            f"the circuits of {n} states over {horizon} samples ({sets:,} sets of "
            f"entries) would take more than {MOST_SECONDS:g} seconds: use a shorter "
            'horizon, or the block charts of StateAdjacency(..., charts="times")'
        )
    columns = _shared_moves(exact, horizon, radii[0])
    return FiniteMoves(columns, errors=np.abs(columns) * _ROUNDED)


def _first_state(moves: Iterable[Sparse], size: int, n: int) -> FiniteMoves:
    """Exact moves of so many entries as moves of x(0)."""
    initial = rounded(moves, size)[0][:n]
    return FiniteMoves(initial, errors=np.abs(initial) * ROUNDED)


def _powers(A: RationalMatrix, count: int) -> list[tuple[IntegerMatrix, Integer]]:
    """Return the powers A^0, A^1, ... as integers and their common denominators."""
    step, denominator = A.numer_denom()
    powers = [(step**0, denominator**0)]
    for _ in range(count - 1):
        whole, common = powers[-1]
        powers.append((whole * step, common * denominator))
    return powers


def _stack(powers: list[tuple[IntegerMatrix, Integer]]) -> RationalMatrix:
    """Return the kernel of the trajectories, the powers below each other."""
    rows = []
    for whole, common in powers:
        rows += (RationalMatrix(whole) / common).tolist()
    return RationalMatrix(rows)


def _shared_moves(A: RationalMatrix, horizon: int, radius: NDArray) -> NDArray:
    """Return the worst moves (n, M) of all shifts of the sets that start at time 0."""
    n = A.nrows()
    future = _powers(A, horizon)
    rows = [row for whole, _ in future for row in whole.tolist()]
    last = []
    directions = []
    for held in combinations(range(n * horizon), n - 1):
        if held[0] >= n:
            break
        direction = null_vector([rows[i] for i in held], n)
        if direction is not None:
            last.append(held[-1] // n)
            directions.append(direction)
    past = _powers(A.inv(), horizon)
    states = _states([*past[:0:-1], *future], directions)
    protected = radius > 0
    with np.errstate(over="ignore", under="ignore"):
        loads = np.abs(states[:, protected]) / radius[protected, None]
    moving = states[:, protected] != 0
    refuse_range(loads[moving])
    least = np.where(moving, loads, np.inf).min(axis=1, initial=np.inf)
    origin = horizon - 1
    before = np.minimum.accumulate(least[origin::-1])
    after = np.minimum.accumulate(least[origin:])
    found = []
    for shift in range(horizon):
        # the window from -shift to horizon - 1 - shift
        smallest = np.minimum(before[shift], after[origin - shift])
        seen = (np.array(last) + shift < horizon) & (smallest < np.inf)
        first = states[origin - shift][:, seen]
        with np.errstate(over="ignore", under="ignore"):
            moves = first * ((1 + _ROUNDED / 4) / smallest[seen])
        refuse_range(moves[first != 0])
        found.append(moves)
    return np.hstack(found)


def _states(
    powers: list[tuple[IntegerMatrix, Integer]], directions: list[list[int]]
) -> NDArray:
    """Return the states A^t z (times, n, M) in units of the largest entry of each z."""
    columns = IntegerMatrix(directions).transpose()
    largest = [max(map(abs, z)) for z in directions]
    values = []
    with working_bits(64):
        for whole, common in powers:
            units = [1 / Ball(common * size) for size in largest] * columns.nrows()
            entries = (whole * columns).entries()
            states = np.array([float(x * unit) for x, unit in zip(entries, units)])
            refuse_range(states[[bool(x) for x in entries]])
            values.append(states.reshape(-1, len(directions)))
    return np.array(values)
