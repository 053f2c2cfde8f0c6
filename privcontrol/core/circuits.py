"""Circuits of an affine manifold, which are the moves of DPAM Definition 4.

A circuit is a tangent vector of smallest support. Whether an entry of it is zero decides
which moves exist at all, so no tolerance is safe. The numbers of the constraints, or
of a given kernel, are read as exact rationals, and circuits are computed in integers.
Entries that no constraint ties together are treated apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice
from math import comb

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from ._balls import (
    Integer,
    IntegerMatrix,
    Rational,
    RationalMatrix,
    rational,
    rational_matrix,
)
from .errors import UncertifiableError

#: What the circuits of a manifold may take, by an estimate.
MOST_SECONDS = 10.0

#: Entries of a block of doubles.
_BLOCK = 2**19

#: Relative error of an entry that is rounded once.
ROUNDED = 2.0**-52

#: The smallest double of full precision.
TINY = float(np.finfo(float).tiny)

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
    def seconds(self) -> float:
        """Estimated time of the circuits."""
        tied = len(self.index) - self.dimension
        work = 20e-6 + 1e-6 * (tied + 1) * (2 + min(tied, self.dimension))
        return min(self.count, 10**15) * work

    @cached_property
    def kernel(self) -> RationalMatrix:
        """The given kernel (n, k), or one of the constraints.

        Raises
        ------
        UncertifiableError
            If the exact rank of the constraints is not the one found in floating point.
        """
        if self.by_kernel:
            return self.table
        size = len(self.index)
        columns, free = self.table.numer_denom()[0].nullspace()
        if free != self.dimension:
            raise UncertifiableError(
                f"of {size} entries D ties {size - free} to others in exact arithmetic "
                f"and {size - self.dimension} in floating point: drop the constraints "
                "that repeat others up to rounding, or give the kernel "
                "(AffineManifold.from_kernel)"
            )
        return RationalMatrix([row[:free] for row in columns.tolist()])

    def circuits(self) -> Iterator[Sparse]:
        """All circuits, as integers.

        Tangent coordinates are some free entries. Each set of k - 1 entries is held, and
        the dependent ones in it tie the free ones outside.
        """
        echelon, rank = self.kernel.transpose().rref()
        reduced = RationalMatrix(echelon.table()[:rank]).transpose()
        rows = reduced.numer_denom()[0].tolist()
        free = [_first_nonzero(column) for column in echelon.table()[:rank]]
        place = {entry: j for j, entry in enumerate(free)}
        found = set()
        for left_out in combinations(range(len(rows)), rank - 1):
            held = set(left_out)
            others = [i for i in range(len(rows)) if i not in held]
            moving = [place[i] for i in others if i in place]
            ties = [[rows[i][j] for j in moving] for i in held if i not in place]
            direction = null_vector(ties, len(moving))
            if direction is None:
                continue
            move = []
            for i in others:
                terms = [rows[i][j] * x for j, x in zip(moving, direction)]
                move.append(sum(terms, Integer(0)))
            support = tuple(i for i, x in zip(others, move) if x)
            if support not in found:
                found.add(support)
                yield support, [x for x in move if x]

    def worst_moves(self, radius: NDArray) -> Iterator[Sparse]:
        """The largest move along each circuit for radii of all entries, 0 if not protected.

        Some protected entry moves by its radius, and no other one that moves by less than
        its own. Entries are numbered as in the whole manifold.
        """
        sizes = [rational(mu) for mu in radius[self.index].tolist()]
        if not self.dimension or not any(sizes):
            return
        places = self.index.tolist()
        for support, entries in self.circuits():
            scale = Rational(0)
            for j, x in zip(support, entries):
                if sizes[j] > 0:
                    scale = max(scale, sizes[j] / abs(x))
            if scale > 0:
                yield [places[j] for j in support], [scale * x for x in entries]


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
        f"({worst.count:,} candidates) would take more than {MOST_SECONDS:g} "
        "seconds: hide explicit moves (DirectionAdjacency) or all moves up to a length "
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


def blocks_of(moves: Iterable[Sparse], size: int) -> Iterator[list[Sparse]]:
    """Cut moves of so many entries into blocks that fit in memory, at least one."""
    moves = iter(moves)
    step = _BLOCK // size + 1
    yield list(islice(moves, step))
    while block := list(islice(moves, step)):
        yield block


def rounded(moves: list[Sparse], size: int) -> NDArray:
    """Exact moves as doubles (n, M), within a relative `ROUNDED`."""
    data = np.zeros((size, len(moves)))
    for column, (support, entries) in enumerate(moves):
        try:
            values = np.array([int(x.p) / int(x.q) for x in entries])
        except OverflowError:
            values = np.array([np.inf])
        if not ((TINY < np.abs(values)) & (np.abs(values) < np.inf)).all():
            raise UncertifiableError(
                "a move leaves the range of double precision; shorten the horizon or "
                "rescale the entries"
            )
        data[list(support), column] = values
    return data


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


def _first_nonzero(row: Sequence) -> int:
    return next(j for j, x in enumerate(row) if x != 0)


def sparse(entries: Sequence) -> Sparse:
    """The support of a vector, and the entries there."""
    support = tuple(j for j, x in enumerate(entries) if x)
    return support, [entries[j] for j in support]
