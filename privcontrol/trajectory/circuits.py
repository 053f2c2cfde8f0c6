"""Circuits of a plant's trajectories x(t) = A^t z.

For a nonsingular A the circuit of a set of entries that starts at time 0 is v(t) = A^t z
for all t. Its shift by s is the window -s, ..., T-1-s of the same v, so that all shifts
share one pass. A singular A has no such shifts, and its circuits are enumerated plainly.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations
from math import comb
from typing import Any

import numpy as np
import scipy.linalg
from flint import acb_mat, ctx, fmpz_poly
from numpy.typing import ArrayLike, NDArray

from ..core._balls import (
    Ball,
    BallMatrix,
    Integer,
    IntegerMatrix,
    Rational,
    RationalMatrix,
    ball_matrix,
    diagonal_balls,
    identity_balls,
    midpoints,
    rational,
    rational_matrix,
    working_bits,
)
from ..core._circuit_rows import CircuitMoves, Row, Rows, worst_moves
from ..core._linalg import positive_integer, real_array
from ..core.circuits import chart_moves, matrix_moves, radii, rounded_moves, sparse

#: Growth in bits over the horizon beyond which two modes are kept apart.
_APART = 10


def trajectory_circuit_moves(
    A: ArrayLike,
    horizon: int,
    radius: ArrayLike,
    *,
    charts: str | Iterable = "all",
    block: int = 256,
) -> Iterator[CircuitMoves]:
    """Worst moves of Definition 4 over trajectories of x(t+1) = A x(t) + known input.

    There are about C(T n, n - 1) of them, none of which is stored. Entry m of x(t) has the
    index t n + m. The doubles of A (n, n) are taken as exact. ``radius`` is one for all,
    (n,) per state, or (T, n) per time and state, which is slower. ``charts`` are free sets
    of entries, or "all" of them. A block of sets of entries yields up to T moves for each.

    Examples
    --------
    In DPAM's vehicle the positions at two successive times tie the velocity:

    >>> blocks = trajectory_circuit_moves([[1, 0.125], [0, 1]], 100, 1.0)
    >>> float(max(abs(found.moves[1]).max() for found in blocks))  # doctest: +ELLIPSIS
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
        return iter([rounded_moves([sparse(move) for move in moves], n)])
    if charts != "all":
        raise ValueError(
            f"charts: expected 'all' or a list of index sets, got {charts!r}"
        )
    if n == 1 or exact.det() == 0 or (radius != radius[0]).any():
        return _plain_moves(_stack(exact, horizon), radius.ravel(), n)
    rows = _TrajectoryRows(exact, horizon)
    block = positive_integer(block, "block")
    return worst_moves(rows, radius[0], horizon, _base_sets(rows, horizon), block)


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


def _plain_moves(
    kernel: RationalMatrix, radius: NDArray, order: int
) -> Iterator[CircuitMoves]:
    """The first entries of the moves of a manifold with this kernel."""
    for block in matrix_moves(kernel, radius):
        yield replace(block, moves=block.moves[:order])


class _TrajectoryRows(Rows):
    """Rows e_m^T A^t S for t = -(T-1), ..., T-1, time-major.

    Circuits do not depend on the basis S. It keeps modes of different growth apart, so
    that doubles decide more.
    """

    def __init__(self, A: RationalMatrix, horizon: int) -> None:
        self._order = A.nrows()
        self._first = horizon - 1
        self._whole, self._common = A.numer_denom()
        self._determinant = A.det()
        basis = _separating_basis(A, horizon)
        self._basis, self._basis_common = basis.numer_denom()
        self._powers = [self._whole**0]
        past = list(_orbit(A.inv(), self._basis, self._basis_common, horizon))
        future = _orbit(A, self._basis, self._basis_common, horizon)
        times = [*past[:0:-1], *future]
        super().__init__(chain.from_iterable(times))

    def integers(self, index: Sequence[int]) -> tuple[IntegerMatrix, Rational]:
        """Rows as integers, shifted in time so that the earliest is at time 0."""
        n = self._order
        times = [i // n - self._first for i in index]
        earliest = min(times)
        ages = [t - earliest for t in times]
        while len(self._powers) <= max(ages):
            self._powers.append(self._powers[-1] * self._whole)
        rows = [
            self._powers[age].tolist()[i % n]
            for age, i in zip(ages, index, strict=True)
        ]
        scale = self._common ** sum(ages) * self._basis_common ** len(rows)
        factor = self._determinant**earliest / scale
        return IntegerMatrix(rows) * self._basis, factor


def _orbit(
    step: RationalMatrix, start: IntegerMatrix, common: Integer, count: int
) -> Iterator[list[Row]]:
    """Rows of ``start / common`` and of what up to ``count - 1`` steps make of it."""
    whole, denominator = step.numer_denom()
    for _ in range(count):
        yield [(row, common) for row in start.tolist()]
        start = whole * start
        common = common * denominator


def _base_sets(rows: _TrajectoryRows, horizon: int) -> Iterator[tuple[int, ...]]:
    """Sets of n - 1 rows that start at time 0, in the order of their last time.

    A row that is parallel to an earlier one in the horizon spans nothing of its own.
    """
    n = rows.dimension
    yield from combinations(range(n), n - 1)
    if n == 2:
        return
    classes = rows.classes[(horizon - 1) * n :]
    later = np.sort(np.unique(classes, return_index=True)[1])[n:].tolist()
    for place, last in enumerate(later):
        earlier = [*range(n), *later[:place]]
        for subset in combinations(earlier, n - 2):
            if subset[0] >= n:
                break
            yield (*subset, last)


def _separating_basis(A: RationalMatrix, horizon: int) -> RationalMatrix:
    """An invertible S whose columns span invariant subspaces of separate growth.

    It is the identity where there are none, or where S is badly conditioned.
    """
    n = A.nrows()
    identity = A**0
    sizes = [float(abs(root)) for root in _roots(A)]
    growth = horizon * np.log2(sizes)
    cuts = 1 + np.flatnonzero(np.diff(growth) > _APART)
    if not len(cuts):
        return identity
    spread = float(growth[-1] - growth[0])
    with working_bits(192 + int(min(2 * spread, 2**16))):
        roots = _roots(A)
        columns = []
        for group in np.split(np.arange(n), cuts):
            others = [root for j, root in enumerate(roots) if j not in group]
            columns += _invariant_columns(A, others, len(group))
        basis = ball_matrix(columns).transpose()
        if basis.det().contains(0) or np.linalg.cond(midpoints(basis)) > 1e8:
            return identity
        # Column 0 decays fastest. The others get its size halfway through the horizon.
        centred = [Ball((1, int(min(growth[1] - g, 0)) // 2)) for g in growth]
        basis = basis * diagonal_balls(centred)
    entries = [x.fmpq() for x in basis.entries()]
    return RationalMatrix(n, n, entries)


def _roots(A: RationalMatrix) -> list:
    """The eigenvalues as balls, by their sizes."""
    polynomial = fmpz_poly([int(x) for x in A.charpoly().numer().coeffs()])
    roots: list[Any] = []
    factors: Any = polynomial.complex_roots()
    for root, times in factors:
        roots += [root] * times
    return sorted(roots, key=lambda root: float(abs(root)))


def _invariant_columns(A: RationalMatrix, others: list, count: int) -> list[list[Ball]]:
    """Columns of size one that span the space of the eigenvalues that are not others.

    Entries at the size of the rounding become zero. Any exact choice is a basis.
    """
    n = A.nrows()
    identity = acb_mat(identity_balls(n))
    state = acb_mat(BallMatrix(A))
    projector = identity
    for root in others:
        projector = projector * (state - root * identity)
    columns = projector.real.mid().transpose().tolist()
    dense = midpoints(projector.real)
    sizes = np.maximum(np.abs(dense).max(axis=0), 1e-300)
    pivots = scipy.linalg.qr(dense / sizes, mode="r", pivoting=True)[1]
    chosen = []
    floor = Ball((1, -(ctx.prec // 2)))
    for pivot in pivots[:count].tolist():
        column = columns[pivot]
        largest = max(abs(x) for x in column)
        scaled = [(x / largest).mid() for x in column]
        chosen.append([x if abs(x) > floor else Ball(0) for x in scaled])
    return chosen
