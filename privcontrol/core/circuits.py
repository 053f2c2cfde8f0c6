"""Circuits of an affine manifold, which are the moves of DPAM Definition 4.

A circuit is a tangent vector of smallest support. Whether an entry of it is zero decides
which moves exist at all, so that no tolerance is safe. The numbers of the constraints, or
of a given kernel, are read as exact rationals.

Few circuits are computed in integers. Many circuits of a manifold with few degrees of
freedom are computed in doubles with error bounds, and those near a zero are decided in
integers. Entries that no constraint ties together are treated apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb, gcd

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from ._balls import (
    IntegerMatrix,
    Rational,
    RationalMatrix,
    rational,
    rational_matrix,
)
from ._circuit_rows import UNIT, CircuitMoves, MatrixRows, row_sets, worst_moves
from .errors import UncertifiableError

#: What the circuits of a manifold may take, by an estimate.
MOST_SECONDS = 300.0

#: Candidates are computed in integers if that takes no longer than this, by an estimate.
_EXACT_SECONDS = 3.0

#: Entries up to which a block of moves keeps its rationals.
_MOST_RATIONALS = 30_000

#: Moves of one block.
_BLOCK = 2000

#: Entries of a block of doubles, which fit into a processor's cache.
_CACHED = 2**17

#: A vector of integers or rationals as its support and the entries there.
Sparse = tuple[Sequence[int], Sequence]


@dataclass(frozen=True, eq=False)
class CircuitBlock:
    """Worst moves (n, M) along some circuits, in data space, and bounds of their errors.

    Each is scaled as in `CircuitMoves`. ``moves`` holds them as rationals, if they are few.
    """

    data: NDArray
    errors: NDArray
    moves: list[Sparse] | None = None


@dataclass(frozen=True, eq=False)
class Component:
    """Entries of a manifold that its constraints, or its kernel, tie to no others.

    ``table`` holds the constraints (q, n), or a kernel (n, k) if ``by_kernel``, and
    ``dimension`` is k as found in floating point.
    """

    index: NDArray
    table: RationalMatrix
    by_kernel: bool
    dimension: int

    @property
    def count(self) -> int:
        """Number of candidates, an upper bound on the circuits."""
        if not self.dimension:
            return 0
        return comb(len(self.index), self.dimension - 1)

    @property
    def exact_seconds(self) -> float:
        """Estimated time of the circuits in integers."""
        size = len(self.index)
        width = min(self.dimension - 1, size - self.dimension)
        return min(self.count, 10**15) * (2e-5 + 2e-7 * width**3 + 1e-6 * size)

    @property
    def float_seconds(self) -> float:
        """Estimated time of the circuits in doubles."""
        work = self.dimension * 2.0 ** min(self.dimension, 900) + len(self.index)
        return 5e-9 * min(self.count, 10**15) * work

    @property
    def seconds(self) -> float:
        """Estimated time of the shorter way."""
        return min(self.exact_seconds, self.float_seconds)

    @cached_property
    def kernel(self) -> RationalMatrix:
        """The given kernel (n, k), or one whose coordinates are entries.

        Raises
        ------
        UncertifiableError
            If the exact rank of the constraints is not the one found in floating point.
        """
        if self.by_kernel:
            return self.table
        dependent, free, ties = self._reduced
        rows = [[Rational(0)] * len(free) for _ in self.index]
        for place, entry in enumerate(free):
            rows[entry][place] = Rational(1)
        for entry, tie in zip(dependent, ties, strict=True):
            rows[entry] = tie
        return RationalMatrix(len(rows), len(free), [x for row in rows for x in row])

    @cached_property
    def _reduced(self) -> tuple[list[int], list[int], list[list[Rational]]]:
        """Entries that depend on free ones, the free ones, and how they do."""
        table = self.table.transpose() if self.by_kernel else self.table
        echelon, rank = table.rref()
        rows = echelon.table()[:rank]
        pivots = [_first_nonzero(row) for row in rows]
        others = sorted(set(range(len(self.index))) - set(pivots))
        ties = [[row[j] for j in others] for row in rows]
        if self.by_kernel:
            return others, pivots, [list(column) for column in zip(*ties, strict=True)]
        if len(others) != self.dimension:
            raise UncertifiableError(
                f"of {len(self.index)} entries D ties {rank} to others in exact "
                f"arithmetic and {len(self.index) - self.dimension} in floating point: "
                "drop the constraints that repeat others up to rounding, or give the "
                "kernel (AffineManifold.from_kernel)"
            )
        return pivots, others, [[-x for x in row] for row in ties]

    def constraint_rows(self) -> list[list[Rational]]:
        """Rows (q, n) of independent constraints."""
        dependent, free, ties = self._reduced
        rows = []
        for entry, tie in zip(dependent, ties, strict=True):
            row = [Rational(0)] * len(self.index)
            row[entry] = Rational(1)
            for j, x in zip(free, tie, strict=True):
                row[j] = -x
            rows.append(row)
        return rows

    def circuits(self) -> Iterator[Sparse]:
        """All circuits, as integers without a common divisor."""
        found = set()
        ties = len(self.index) - self.dimension
        by_supports = ties < self.dimension
        for circuit in self._by_supports() if by_supports else self._by_held_entries():
            support = circuit[0]
            if support not in found:
                found.add(support)
                yield circuit

    def _by_supports(self) -> Iterator[Sparse]:
        """Each set of q + 1 entries that the constraints leave one direction."""
        size = len(self.index)
        width = size - self.dimension + 1
        columns: list = [[]] * size
        if width > 1:
            whole, _ = RationalMatrix(self.constraint_rows()).numer_denom()
            columns = whole.transpose().tolist()
        for support in combinations(range(size), width):
            rows = [list(row) for row in zip(*(columns[j] for j in support))]
            direction = null_vector(rows, width)
            if direction is not None:
                places, entries = sparse(direction)
                yield tuple(support[i] for i in places), entries

    def _by_held_entries(self) -> Iterator[Sparse]:
        """Each set of k - 1 entries whose holding leaves one direction."""
        whole, _ = self.kernel.numer_denom()
        rows = whole.tolist()
        for held in combinations(rows, self.dimension - 1):
            direction = null_vector(list(held), self.dimension)
            if direction is not None:
                move = whole * IntegerMatrix(self.dimension, 1, direction)
                yield sparse(_primitive(move.entries()))

    def blocks(self, radius: NDArray) -> Iterator[CircuitBlock]:
        """Worst moves of the component's entries for radii (n,), 0 if not protected."""
        if not self.dimension or not (radius > 0).any():
            yield rounded_block([], len(self.index))
        elif self.exact_seconds <= max(_EXACT_SECONDS, 2 * self.float_seconds):
            yield from self._exact_blocks(radius)
        else:
            yield from self._float_blocks(radius)

    def _exact_blocks(self, radius: NDArray) -> Iterator[CircuitBlock]:
        radii = [rational(mu) for mu in radius.tolist()]
        moves: list[Sparse] = []
        for circuit in self.circuits():
            move = worst_move(circuit, radii)
            if move is not None:
                moves.append(move)
            if len(moves) == _BLOCK:
                yield rounded_block(moves, len(self.index))
                moves = []
        if moves:
            yield rounded_block(moves, len(self.index))

    def _float_blocks(self, radius: NDArray) -> Iterator[CircuitBlock]:
        for block in matrix_moves(self.kernel, radius):
            yield CircuitBlock(block.moves, block.errors)


def matrix_moves(
    kernel: RationalMatrix, radius: NDArray, block: int | None = None
) -> Iterator[CircuitMoves]:
    """Worst moves in doubles of the manifold with this kernel, in data space.

    Every set of k - 1 rows is tried, no two of them parallel, ``block`` sets at a time.
    """
    rows = MatrixRows(kernel)
    labels = np.unique(rows.classes[rows.classes >= 0])
    held = combinations(labels.tolist(), rows.dimension - 1)
    size = block or max(_CACHED // len(radius), 1)
    sets = row_sets(held, rows.dimension - 1, size)
    seen: set[bytes] = set()
    for moves in worst_moves(rows, radius, 1, sets):
        yield moves.part(_unseen(moves, seen))


def _unseen(block: CircuitMoves, seen: set[bytes]) -> NDArray:
    """Mask of the circuits that have not come before, and ``seen`` learns of them.

    Only circuits with more zeros than are held come from several sets.
    """
    zero = (block.moves == 0) & (block.errors == 0)
    new = np.ones(zero.shape[1], bool)
    for column in np.flatnonzero(zero.sum(axis=0) > len(block.base)):
        support = np.packbits(zero[:, column]).tobytes()
        new[column] = support not in seen
        seen.add(support)
    return new


def radii(radius: ArrayLike, shape: tuple[int, ...]) -> NDArray:
    """Radii broadcast to a shape, zero where not protected."""
    sizes = np.nan_to_num(np.asarray(radius, float), nan=0.0, posinf=np.inf)
    if not np.isfinite(sizes).all() or (sizes < 0).any():
        raise ValueError(
            "radius: expected finite numbers >= 0, NaN or 0 for an entry that is not "
            "protected"
        )
    try:
        return np.broadcast_to(sizes, shape)
    except ValueError:
        raise ValueError(
            f"radius: expected a number or shape {shape}, got shape {sizes.shape}"
        ) from None


def split(kernel: NDArray, constraint: NDArray | None) -> list[Component]:
    """Components of the manifold with this kernel, or with a constraint matrix D."""
    pattern = kernel.T if constraint is None else constraint
    count = len(pattern)
    links = scipy.sparse.csr_array(pattern != 0)
    graph = scipy.sparse.block_array([[None, links], [links.T, None]], format="csr")
    labels = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
    components = []
    for label in np.unique(labels[count:]):
        lines = np.flatnonzero(labels[:count] == label)
        index = np.flatnonzero(labels[count:] == label)
        if constraint is None:
            table = rational_matrix(kernel[np.ix_(index, lines)])
            dimension = len(lines)
        else:
            table = rational_matrix(constraint[np.ix_(lines, index)])
            # The projector N N^T splits, too. Its trace is the dimension.
            dimension = round(float((kernel[index] ** 2).sum()))
        components.append(Component(index, table, constraint is None, dimension))
    return components


def refuse_long(components: Sequence[Component]) -> None:
    """Raise a ``ValueError`` if the circuits would take longer than anyone waits."""
    if sum(component.seconds for component in components) <= MOST_SECONDS:
        return
    worst = max(components, key=lambda component: component.seconds)
    size = len(worst.index)
    raise ValueError(
        f"the circuits of {size} entries tied by {size - worst.dimension} constraints "
        f"({worst.count:,} candidates) would take more than {MOST_SECONDS / 60:g} "
        "minutes: hide explicit moves (DirectionAdjacency) or all moves up to a length "
        "(BallAdjacency) instead, or name charts"
    )


def chart_moves(
    kernel: RationalMatrix, radii: Sequence[Rational], charts: Sequence
) -> list[list[Rational]]:
    """The moves z = N_d^-1 e_i mu_i of every chart d and every protected entry i of it.

    Raises
    ------
    ValueError
        If a chart is no free set of entries.
    """
    rows = kernel.tolist()
    dimension = kernel.ncols()
    moves = []
    for chart in charts:
        chart = [int(i) for i in chart]
        distinct = len(set(chart)) == len(chart) == dimension
        if not distinct or min(chart) < 0 or max(chart) >= len(rows):
            raise ValueError(
                f"charts: expected sets of {dimension} distinct entries of "
                f"0..{len(rows) - 1}, got {chart}"
            )
        square = RationalMatrix([rows[i] for i in chart])
        if square.det() == 0:
            raise ValueError(
                f"charts: the entries {chart} are not free, the manifold ties them; "
                "drop this set"
            )
        inverse = square.inv()
        for place, i in enumerate(chart):
            if radii[i] > 0:
                column = [inverse[j, place] * radii[i] for j in range(dimension)]
                moves.append(column)
    return moves


def worst_move(circuit: Sparse, radii: Sequence[Rational]) -> Sparse | None:
    """The largest move along a circuit, or None if it moves no protected entry."""
    support, entries = circuit
    scale = Rational(0)
    for j, x in zip(support, entries, strict=True):
        if radii[j] > 0:
            scale = max(scale, radii[j] / abs(x))
    if scale == 0:
        return None
    return support, [scale * x for x in entries]


def rounded_block(moves: list[Sparse], size: int) -> CircuitBlock:
    """Exact moves as doubles (n, M), with bounds of their rounding errors."""
    data = np.zeros((size, len(moves)))
    errors = np.zeros((size, len(moves)))
    tiny = np.finfo(float).smallest_subnormal
    for column, (support, entries) in enumerate(moves):
        rows = list(support)
        values = np.array([float_of(x) for x in entries])
        data[rows, column] = values
        errors[rows, column] = UNIT * np.abs(values) + tiny
    if not np.isfinite(data).all():
        raise UncertifiableError(
            "a move leaves the range of double precision; rescale the entries"
        )
    few = size * len(moves) <= _MOST_RATIONALS
    return CircuitBlock(data, errors, moves if few else None)


def null_vector(rows: list, width: int) -> list[int] | None:
    """The direction of ``width`` integers orthogonal to the rows, if there is one only."""
    if width == 1:
        return [1]
    echelon, denominator, rank = IntegerMatrix(rows).rref()
    if rank != width - 1:
        return None
    direction = [0] * width
    table = echelon.table()[:rank]
    pivots = [_first_nonzero(row) for row in table]
    (free,) = set(range(width)) - set(pivots)
    direction[free] = int(denominator)
    for row, pivot in zip(table, pivots, strict=True):
        direction[pivot] = -int(row[free])
    return _primitive(direction)


def _primitive(entries: Sequence) -> list[int]:
    """Integers divided by their greatest common divisor."""
    whole = [int(x) for x in entries]
    divisor = gcd(*whole)
    return [x // divisor for x in whole]


def _first_nonzero(row: Sequence) -> int:
    return next(j for j, x in enumerate(row) if x != 0)


def sparse(entries: Sequence) -> Sparse:
    """The support of a vector, and the entries there."""
    support = tuple(j for j, x in enumerate(entries) if x)
    return support, [entries[j] for j in support]


def float_of(value: Rational) -> float:
    """The nearest double, infinite beyond their range."""
    try:
        return int(value.p) / int(value.q)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
