"""Circuits of an affine manifold, which are the moves of DPAM Definition 4.

A circuit is a tangent vector of smallest support. Whether an entry of it is zero decides
which moves exist at all, so that no tolerance is safe. The numbers of the constraints, or
of a given kernel, are read as exact rationals.

Few circuits are computed in integers. Many are computed in doubles with error bounds, and
what is near a zero is decided in integers (`_circuit_rows`). Entries that no constraint
ties together are treated apart.
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
from ._circuit_rows import (
    UNIT,
    CircuitMoves,
    MatrixRows,
    row_sets,
    support_moves,
    worst_moves,
)
from .errors import UncertifiableError

#: What the circuits of a manifold may take, by an estimate.
MOST_SECONDS = 300.0

#: Entries of all moves up to which they are computed in integers and kept as rationals.
_MOST_RATIONALS = 30_000

#: Entries of a block of doubles, which fit into a processor's cache.
_CACHED = 2**16

#: A vector of integers or rationals as its support and the entries there.
Sparse = tuple[Sequence[int], Sequence]


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
    def _by_supports(self) -> bool:
        """Whether the constraints are fewer than the kernel's columns."""
        return len(self.index) < 2 * self.dimension

    @property
    def seconds(self) -> float:
        """Estimated time of the circuits."""
        terms = min(self.dimension, len(self.index) - self.dimension, 900)
        work = len(self.index) + terms * 2.0**terms
        return 1e-8 * min(self.count, 10**15) * work

    @property
    def kernel(self) -> RationalMatrix:
        """The given kernel (n, k), or one whose coordinates are entries.

        Raises
        ------
        UncertifiableError
            If the exact rank of the constraints is not the one found in floating point.
        """
        return self.table if self.by_kernel else self._reduced[1]

    @cached_property
    def _reduced(self) -> tuple[list[int], RationalMatrix]:
        """Free entries, and the kernel (n, k) whose coordinates they are."""
        size = len(self.index)
        if self.by_kernel and self.dimension == size:
            return list(range(size)), self.table**0
        table = self.table.transpose() if self.by_kernel else self.table
        echelon, rank = table.rref()
        rows = echelon.table()[:rank]
        pivots = [_first_nonzero(row) for row in rows]
        if self.by_kernel:
            return pivots, RationalMatrix(rows).transpose()
        free = sorted(set(range(size)) - set(pivots))
        if len(free) != self.dimension:
            raise UncertifiableError(
                f"of {size} entries D ties {rank} to others in exact arithmetic and "
                f"{size - self.dimension} in floating point: drop the constraints that "
                "repeat others up to rounding, or give the kernel "
                "(AffineManifold.from_kernel)"
            )
        kernel = RationalMatrix(size, len(free))
        for place, entry in enumerate(free):
            kernel[entry, place] = Rational(1)
            for pivot, row in zip(pivots, rows, strict=True):
                kernel[pivot, place] = -row[entry]
        return free, kernel

    def _constraint_rows(self) -> list[list[int]]:
        """Independent constraints (q, n), each a row of integers."""
        free, kernel = self._reduced
        size = len(self.index)
        if not self.by_kernel and self.table.nrows() == size - len(free):
            rows = self.table.tolist()
        else:
            rows = []
            for entry in sorted(set(range(size)) - set(free)):
                row = [Rational(0)] * size
                row[entry] = Rational(1)
                for place, other in enumerate(free):
                    row[other] = -kernel[entry, place]
                rows.append(row)
        whole = [RationalMatrix([row]).numer_denom()[0] for row in rows]
        return [_primitive(row.entries()) for row in whole]

    def circuits(self) -> Iterator[Sparse]:
        """All circuits, as integers without a common divisor.

        Each set of q + 1 entries is tried as a support. The dependent entries outside it
        tie those of its free entries that it moves.
        """
        size = len(self.index)
        free, kernel = self._reduced
        dependent = sorted(set(range(size)) - set(free))
        rows = kernel.numer_denom()[0].tolist()
        found = set()
        for candidate in combinations(range(size), len(dependent) + 1):
            moving = [j for j, entry in enumerate(free) if entry in candidate]
            held = [entry for entry in dependent if entry not in candidate]
            ties = [[rows[i][j] for j in moving] for i in held]
            direction = null_vector(ties, len(moving))
            if direction is None:
                continue
            move = [0] * size
            for i in candidate:
                terms = [rows[i][j] * x for j, x in zip(moving, direction)]
                move[i] = int(sum(terms))
            circuit = sparse(_primitive(move))
            support = circuit[0]
            if support not in found:
                found.add(support)
                yield circuit

    def blocks(self, radius: NDArray) -> Iterator[CircuitMoves]:
        """Worst moves of the component's entries for radii (n,), 0 if not protected."""
        size = len(self.index)
        if not self.dimension or not (radius > 0).any():
            yield rounded_moves([], size)
        elif self.count * size <= _MOST_RATIONALS or self.dimension == size:
            radii = [rational(mu) for mu in radius.tolist()]
            moves = (worst_move(circuit, radii) for circuit in self.circuits())
            yield rounded_moves([move for move in moves if move], size)
        else:
            yield from self.float_blocks(radius)

    def float_blocks(self, radius: NDArray) -> Iterator[CircuitMoves]:
        """`blocks` in doubles with error bounds, by the shorter way."""
        if not self._by_supports:
            yield from matrix_moves(self.kernel, radius)
            return
        size = len(self.index)
        columns = RationalMatrix(IntegerMatrix(self._constraint_rows())).transpose()
        width = columns.ncols() + 1
        sets = row_sets(combinations(range(size), width), width, _CACHED // size + 1)
        blocks = support_moves(MatrixRows(columns), radius, sets)
        yield from _each_once(blocks, width)


def matrix_moves(
    kernel: RationalMatrix, radius: NDArray, block: int | None = None
) -> Iterator[CircuitMoves]:
    """Worst moves of a kernel's manifold in doubles, ``block`` row sets at a time."""
    rows = MatrixRows(kernel)
    nonzero = rows.classes[rows.classes >= 0]
    labels = np.unique(nonzero).tolist()
    held = combinations(labels, rows.dimension - 1)
    size = block or _CACHED // len(radius) + 1
    moves = worst_moves(rows, radius, 1, held, size)
    width = len(radius) - rows.dimension + 1
    yield from _each_once(moves, width)


def _each_once(blocks: Iterator[CircuitMoves], width: int) -> Iterator[CircuitMoves]:
    """Leave out circuits that came before, which move less than ``width`` entries."""
    seen: set[bytes] = set()
    for block in blocks:
        moved = block.moves != 0
        if np.count_nonzero(moved) == width * moved.shape[1]:
            yield block
            continue
        short = np.flatnonzero(moved.sum(axis=0) < width)
        supports = np.packbits(moved[:, short], axis=0).T
        new = np.ones(block.moves.shape[1], bool)
        for column, support in zip(short.tolist(), map(bytes, supports)):
            new[column] = support not in seen
            seen.add(support)
        yield block if new.all() else block.part(new)


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
    """The moves N_d^-1 e_i mu_i of each chart d and each protected entry i of it."""
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


def rounded_moves(moves: list[Sparse], size: int) -> CircuitMoves:
    """Exact moves as doubles (n, M), with bounds of their rounding errors."""
    data = np.zeros((size, len(moves)))
    for column, (support, entries) in enumerate(moves):
        try:
            values = np.array([int(x.p) / int(x.q) for x in entries])
        except OverflowError:
            values = np.array([np.inf])
        if not (np.abs(values) > np.finfo(float).tiny).all():
            raise UncertifiableError(
                "a move leaves the range of double precision; rescale the entries"
            )
        data[list(support), column] = values
    few = size * len(moves) <= _MOST_RATIONALS
    relative = np.full(len(moves), 2 * UNIT)
    return CircuitMoves(data, relative, exact=moves if few else None)


def null_vector(rows: list, width: int) -> list[int] | None:
    """The direction of ``width`` integers orthogonal to the rows, if there is one only."""
    if width == 1:
        return [1]
    echelon, denominator, rank = IntegerMatrix(rows).rref()
    if rank != width - 1:
        return None
    table = echelon.table()
    pivots = [_first_nonzero(row) for row in table]
    (free,) = set(range(width)) - set(pivots)
    direction = [int(denominator)] * width
    for row, pivot in zip(table, pivots, strict=True):
        direction[pivot] = -int(row[free])
    return direction


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
