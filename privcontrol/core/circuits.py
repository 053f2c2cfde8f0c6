"""Circuits of an affine manifold: the moves of DPAM Definition 4.

A circuit is a tangent vector of smallest support. Whether an entry of it is zero decides
which moves exist at all, so that no tolerance is safe. The numbers of the constraints, or
of a given kernel, are read as exact rationals.

Few circuits are computed in integers. Many circuits of a manifold with few degrees of
freedom are computed in doubles with error bounds, and those near a zero are decided in
integers (see `privcontrol.core._circuits`). Entries that no constraint ties together are
treated apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb, gcd, lcm

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ._balls import (
    Integer,
    IntegerMatrix,
    Rational,
    RationalMatrix,
    rational,
    rational_matrix,
)
from ._circuits.enumeration import enumerate_moves
from ._circuits.exact_rows import UNIT, IntegerRows
from .errors import UncertifiableError

#: What the circuits of a manifold may take, by an estimate.
MOST_SECONDS = 300.0

#: Candidates are computed in integers if that takes no longer than this, by an estimate.
_EXACT_SECONDS = 3.0

#: Entries up to which a block of moves keeps its rationals.
_MOST_RATIONALS = 30_000

#: Moves of one block.
_BLOCK = 2000


#: A vector of integers or rationals as its support and the entries there.
Sparse = tuple[Sequence[int], Sequence]


@dataclass(frozen=True, eq=False)
class CircuitBlock:
    """Worst moves along some circuits, in data space.

    Attributes
    ----------
    data : ndarray, shape (n, M)
        The moves. Each is scaled so that one protected entry moves by its radius, and no
        other protected entry of its support by less than its own radius.
    errors : ndarray, shape (n, M)
        Bounds of the errors of ``data``. Some multiple, at least one, of every worst move
        lies within them.
    moves : list of M pairs (support, rationals), or None
        The moves themselves, where they are few.
    """

    data: NDArray
    errors: NDArray
    moves: list[Sparse] | None = None


@dataclass(frozen=True, eq=False)
class Component:
    """Entries of a manifold that its constraints, or its kernel, tie to no others.

    Attributes
    ----------
    index : ndarray of int, shape (n,)
        The entries.
    table : RationalMatrix
        Constraints (q, n), or a kernel (n, k) if ``by_kernel``.
    by_kernel : bool
    dimension : int
        Degrees of freedom k, as found in floating point.
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
    def reduced(self) -> tuple[list[int], list[int], list[list[Rational]]]:
        """Entries that depend on free ones, the free ones, and how they do.

        Raises
        ------
        UncertifiableError
            If the exact rank of the constraints is not the one found in floating point.
        """
        table = self.table.transpose() if self.by_kernel else self.table
        echelon, rank = table.rref()
        rows = echelon.table()[:rank]
        pivots = [next(j for j, x in enumerate(row) if x != 0) for row in rows]
        others = sorted(set(range(len(self.index))) - set(pivots))
        ties = [[row[j] for j in others] for row in rows]
        if self.by_kernel:
            return others, pivots, [list(column) for column in zip(*ties)]
        if len(others) != self.dimension:
            raise UncertifiableError(
                f"of {len(self.index)} entries D ties {rank} to others in exact "
                f"arithmetic and {len(self.index) - self.dimension} in floating point: "
                "drop the constraints that repeat others up to rounding, or give the "
                "kernel (AffineManifold.from_kernel)"
            )
        return pivots, others, [[-x for x in row] for row in ties]

    def chart_data(self, radii: Sequence[Rational], charts: Sequence) -> list[Sparse]:
        """Moves of given free sets of entries, see `chart_moves`."""
        rows = self.kernel_rows()
        kernel = RationalMatrix(rows)
        moves = []
        for coordinates in chart_moves(rows, radii, charts):
            column = RationalMatrix(len(coordinates), 1, coordinates)
            moves.append(sparse((kernel * column).entries()))
        return moves

    def kernel_rows(self) -> list[list[Rational]]:
        """Rows (n, k) of the given kernel, or of one whose coordinates are entries."""
        if self.by_kernel:
            return self.table.table()
        dependent, free, ties = self.reduced
        rows: list[list[Rational]] = [[] for _ in self.index]
        for place, entry in enumerate(free):
            rows[entry] = [Rational(int(i == place)) for i in range(len(free))]
        for entry, row in zip(dependent, ties, strict=True):
            rows[entry] = row
        return rows

    def constraint_rows(self) -> list[list[Rational]]:
        """Rows (q, n) of independent constraints."""
        dependent, free, ties = self.reduced
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
        if ties < self.dimension:
            candidates = self._by_supports()
        else:
            candidates = self._by_held_entries()
        for circuit in candidates:
            support = circuit[0]
            if support not in found:
                found.add(support)
                yield circuit

    def _by_supports(self) -> Iterator[Sparse]:
        """Each set of q + 1 entries that the constraints leave one direction."""
        columns = list(zip(*map(integer_row, self.constraint_rows())))
        size = len(self.index)
        width = size - self.dimension + 1
        for support in combinations(range(size), width):
            rows = zip(*(columns[j] for j in support)) if columns else []
            direction = null_vector([list(row) for row in rows], width)
            if direction is not None:
                places, entries = sparse(direction)
                yield tuple(support[i] for i in places), entries

    def _by_held_entries(self) -> Iterator[Sparse]:
        """Each set of k - 1 entries whose holding leaves one direction."""
        rows = self.kernel_rows()
        common = [integer_row(row) for row in rows]
        scales = [_common_denominator(row) for row in rows]
        total = lcm(*scales)
        whole = IntegerMatrix(
            [[int(x.p) * (total // int(x.q)) for x in row] for row in rows]
        )
        for held in combinations(range(len(rows)), self.dimension - 1):
            direction = null_vector([common[i] for i in held], self.dimension)
            if direction is not None:
                column = IntegerMatrix(self.dimension, 1, direction)
                entries = [int(x) for x in (whole * column).entries()]
                divisor = gcd(*entries)
                yield sparse([x // divisor for x in entries])

    def blocks(self, radius: NDArray) -> Iterator[CircuitBlock]:
        """Worst moves of the component's entries; radius (n,), 0 if not protected."""
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
        rows = self.kernel_rows()
        whole = []
        for row in rows:
            common = _common_denominator(row)
            entries = [Integer(int(x.p) * (common // int(x.q))) for x in row]
            whole.append((entries, Integer(common)))
        floats = np.array([[float_of(x) for x in row] for row in rows])
        sizes = np.abs(floats)
        for block in enumerate_moves(IntegerRows(whole), radius):
            data = floats @ block.moves
            magnitude = sizes @ np.abs(block.moves)
            rounding = UNIT * (self.dimension + 4) * magnitude
            errors = (sizes @ block.errors) * (1 + 1e-12) + rounding
            yield CircuitBlock(data, errors)


def split(kernel: NDArray, constraint: NDArray | None) -> list[Component]:
    """The components of {x* + N z}, or of {x : D x + b = 0} with an orthonormal N."""
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
    rows: list[list[Rational]], radii: Sequence[Rational], charts: Sequence
) -> list[list[Rational]]:
    """z = N_d^{-1} e_i mu_i for every chart d and every protected entry i of it.

    ``rows`` are those of the kernel N (n, k).

    Raises
    ------
    ValueError
        If a chart is no free set of entries.
    """
    size = len(rows)
    dimension = len(rows[0])
    moves = []
    for chart in charts:
        chart = [int(i) for i in chart]
        distinct = len(set(chart)) == len(chart) == dimension
        if not distinct or min(chart) < 0 or max(chart) >= size:
            raise ValueError(
                f"charts: expected sets of {dimension} distinct entries of "
                f"0..{size - 1}, got {chart}"
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


def null_vector(rows: list[list[int]], width: int) -> list[int] | None:
    """The direction of ``width`` integers orthogonal to the rows, if there is one only."""
    if width == 1:
        return [1]
    echelon, denominator, rank = IntegerMatrix(rows).rref()
    if rank != width - 1:
        return None
    direction = [0] * width
    table = echelon.table()
    pivots = [next(j for j, x in enumerate(row) if x != 0) for row in table[:rank]]
    (free,) = set(range(width)) - set(pivots)
    direction[free] = int(denominator)
    for row, pivot in zip(table, pivots):
        direction[pivot] = -int(row[free])
    divisor = gcd(*direction)
    return [x // divisor for x in direction]


def sparse(entries: Sequence) -> Sparse:
    """The support of a vector, and the entries there."""
    support = tuple(j for j, x in enumerate(entries) if x)
    return support, [entries[j] for j in support]


def integer_row(row: Sequence[Rational]) -> list[int]:
    """The integers without a common divisor that are proportional to rationals."""
    common = _common_denominator(row)
    whole = [int(x.p) * (common // int(x.q)) for x in row]
    divisor = gcd(*whole) or 1
    return [x // divisor for x in whole]


def float_of(value: Rational) -> float:
    """The nearest double; inf beyond their range."""
    try:
        return int(value.p) / int(value.q)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _common_denominator(row: Sequence[Rational]) -> int:
    return lcm(*(int(x.q) for x in row))
