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
from itertools import combinations
from math import comb

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
from .errors import UncertifiableError

#: What the circuits of a manifold may take, by an estimate.
MOST_SECONDS = 10.0

#: Numbers of all moves up to which they are stored, and kept as rationals.
_MOST_NUMBERS = 50_000_000
_MOST_RATIONALS = 30_000

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
        """Yield all circuits once, as integers.

        Tangent coordinates are some free entries. Each set of k - 1 entries is held, and
        the dependent ones in it tie the free ones outside.
        """
        if not self.dimension:
            return
        echelon, rank = self.kernel.transpose().rref()
        basis = echelon.table()[:rank]
        rows = RationalMatrix(basis).transpose().numer_denom()[0].tolist()
        place = {_first_nonzero(column): j for j, column in enumerate(basis)}
        found = set()
        for held in combinations(range(len(rows)), rank - 1):
            others = sorted(set(range(len(rows))).difference(held))
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
                yield self.index[list(support)].tolist(), [x for x in move if x]


def split(source: NDArray, freedom: NDArray | None) -> list[Component]:
    """Return the components of entries that the rows of a source (q, n) tie together.

    The source holds constraints of a manifold, and ``freedom`` (n,) the diagonal of the
    projector on its tangents, which splits too, with the dimension as its trace. Or the
    source is a kernel's transpose, without a freedom.
    """
    links = scipy.sparse.csr_array(source != 0, dtype=float)
    labels = scipy.sparse.csgraph.connected_components(links.T @ links)[1]
    components = []
    for label in range(labels.max() + 1):
        index = np.flatnonzero(labels == label)
        part = source[:, index]
        part = part[part.any(axis=1)]
        if freedom is None:
            component = Component(index, rational_matrix(part.T), True, len(part))
        else:
            dimension = round(float(freedom[index].sum()))
            component = Component(index, rational_matrix(part), False, dimension)
        components.append(component)
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


def stretched(moves: Iterable[Sparse], radii: NDArray) -> Iterator[Sparse]:
    """Yield the largest move along each circuit for radii (n,), 0 if not protected.

    Some protected entry moves by its radius, and no other one that moves by less than
    its own.
    """
    sizes = [rational(mu) for mu in radii.tolist()]
    for support, entries in moves:
        pairs = [(sizes[j], abs(x)) for j, x in zip(support, entries) if sizes[j] > 0]
        if pairs:
            scale = max(mu / x for mu, x in pairs)
            yield support, [scale * x for x in entries]


def chart_moves(
    kernel: RationalMatrix, radii: NDArray, charts: Iterable[Iterable[int]]
) -> list[Sparse]:
    """Return the moves N_d^-1 e_i mu_i of each chart d and each protected entry i of it.

    They are tangent coordinates.
    """
    rows = kernel.tolist()
    dimension = kernel.ncols()
    moves = []
    for entries in charts:
        chart = [int(i) for i in entries]
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
        columns = square.inv().transpose().tolist()
        for i, column in zip(chart, columns):
            if radii[i] > 0:
                moves.append(sparse([x * rational(radii[i]) for x in column]))
    return moves


def rounded(
    moves: Iterable[Sparse], size: int
) -> tuple[NDArray, list[list[Rational]] | None]:
    """Return exact moves as doubles (n, M) within a relative `ROUNDED`.

    If they are few, they are returned as rationals, too.
    """
    columns: list[NDArray] = []
    exact: list[list[Rational]] = []
    for support, entries in moves:
        places = list(support)
        column = np.zeros(size)
        try:
            column[places] = [int(x.p) / int(x.q) for x in entries]
        except OverflowError:
            column[places] = np.inf
        refuse_range(column[places])
        columns.append(column)
        if len(columns) * size > _MOST_NUMBERS:
            raise ValueError(
                f"the manifold has more than {len(columns):,} circuits, more than can be "
                "stored. Protect fewer entries or times, or hide explicit moves "
                "(DirectionAdjacency)"
            )
        if len(columns) * size <= _MOST_RATIONALS:
            dense = [Rational(0)] * size
            for j, x in zip(support, entries):
                dense[j] = x
            exact.append(dense)
    data = np.array(columns).reshape(-1, size).T
    return data, exact if len(exact) == len(columns) else None


def refuse_range(entries: NDArray) -> None:
    """Raise an error if numbers that are not zero leave the range of the doubles."""
    sizes = np.abs(entries)
    if not ((TINY < sizes) & (sizes < np.inf)).all():
        raise UncertifiableError(
            "a move leaves the range of double precision; shorten the horizon or "
            "rescale the entries"
        )


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
