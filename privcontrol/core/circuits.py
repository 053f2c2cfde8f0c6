"""Circuits of an affine manifold, which are the moves of DPAM Definition 4.

A circuit is a tangent vector of smallest support. Whether an entry of it is zero decides
which moves exist at all, so that no tolerance is safe. The numbers of the constraints, or
of a given kernel, are read as exact rationals, and circuits are computed in integers.
Entries that no constraint ties together are treated apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice, repeat
from math import comb

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from ._balls import (
    Ball,
    Integer,
    IntegerMatrix,
    Rational,
    RationalMatrix,
    rational,
    rational_matrix,
    working_bits,
)
from .errors import UncertifiableError

#: What the circuits of a manifold may take, by an estimate.
MOST_SECONDS = 10.0

#: Entries of all moves up to which they are kept as rationals, and of a block of doubles.
_MOST_RATIONALS = 30_000
_BLOCK = 2**19

#: Relative error of an entry that is rounded once, scaled and multiplied.
ROUNDED = 2.0**-49

#: The smallest double of full precision.
_TINY = float(np.finfo(float).tiny)

#: A vector of integers or rationals as its support and the entries there.
Sparse = tuple[Sequence[int], Sequence]


@dataclass(frozen=True, eq=False)
class CircuitMoves:
    """A block of worst moves (n, M), one column per circuit, with bounds of their errors.

    Each is scaled so that some protected entry moves by its radius, and no other protected
    entry of its support by less than its own. Some multiple, at least one, of every worst
    move lies within the `errors`, which are ``relative`` to the entries. ``exact`` holds
    the moves as rationals, if they are few.
    """

    moves: NDArray
    exact: list | None = None
    relative: float = ROUNDED

    def __post_init__(self) -> None:
        if not np.isfinite(self.moves).all():
            raise UncertifiableError(
                "a move leaves the range of double precision; shorten the horizon or "
                "rescale the entries"
            )

    @property
    def errors(self) -> NDArray:
        """Bounds (n, M) of the errors, zero where nothing moves."""
        return np.abs(self.moves) * self.relative


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
        size = len(self.index)
        tied = size - self.dimension
        terms = min(tied, self.dimension)
        work = 20e-6 + 1e-6 * (tied + 1) * terms
        return min(self.count, 10**15) * work

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

    def _candidates(self) -> Iterator[Sequence[int]]:
        """Yield the sets of q + 1 entries, by what they hold or by what they leave out."""
        size = len(self.index)
        left_out = self.dimension - 1
        if 2 * left_out >= size:
            yield from combinations(range(size), size - left_out)
            return
        every = range(size)
        for held in combinations(every, left_out):
            yield [entry for entry in every if entry not in held]

    def circuits(self) -> Iterator[Sparse]:
        """All circuits, as integers.

        Each set of q + 1 entries is tried as a support. The dependent entries outside it
        tie those of its free entries that it moves.
        """
        free, kernel = self._reduced
        place = {entry: j for j, entry in enumerate(free)}
        dependent = [i for i in range(len(self.index)) if i not in place]
        rows = kernel.numer_denom()[0].tolist()
        found = set()
        for candidate in self._candidates():
            inside = set(candidate)
            moving = [place[entry] for entry in candidate if entry in place]
            held = [entry for entry in dependent if entry not in inside]
            ties = [[rows[i][j] for j in moving] for i in held]
            direction = null_vector(ties, len(moving))
            if direction is None:
                continue
            move = []
            for i in candidate:
                row = rows[i]
                terms = [row[j] * x for j, x in zip(moving, direction)]
                move.append(sum(terms, Integer(0)))
            support = tuple(i for i, x in zip(candidate, move) if x)
            if support not in found:
                found.add(support)
                yield support, [x for x in move if x]

    def blocks(self, radius: NDArray) -> Iterator[CircuitMoves]:
        """Worst moves of the component's entries for radii (n,), 0 if not protected."""
        size = len(self.index)
        if not self.dimension or not (radius > 0).any():
            yield rounded_moves([], size)
        elif self.count * size <= _MOST_RATIONALS:
            radii = [rational(mu) for mu in radius.tolist()]
            moves = (worst_move(circuit, radii) for circuit in self.circuits())
            yield rounded_moves([move for move in moves if move], size)
        else:
            circuits = self.circuits()
            while block := list(islice(circuits, _BLOCK // size + 1)):
                yield _float_moves(block, radius)


def _float_moves(circuits: list[Sparse], radius: NDArray) -> CircuitMoves:
    """Return the worst moves along some circuits for radii (n,) in doubles."""
    sizes = np.zeros((len(radius), len(circuits)))
    for column, (support, entries) in enumerate(circuits):
        largest = max(abs(x) for x in entries)
        unit = 1 / Ball(largest)
        sizes[list(support), column] = floats(entries, repeat(unit))
    least = in_radii(sizes, radius).min(axis=0, initial=np.inf)
    seen = least < np.inf
    return scaled_moves(sizes[:, seen], least[seen])


def in_radii(sizes: NDArray, radius: NDArray) -> NDArray:
    """Return sizes (..., n, B) of protected entries in their radii, inf where nothing moves."""
    protected = radius > 0
    entries = np.abs(sizes[..., protected, :])
    with np.errstate(over="ignore", under="ignore"):
        loads = entries / radius[protected, None]
    if not np.isfinite(loads).all() or (loads[entries > 0] < _TINY).any():
        raise UncertifiableError(
            "a radius is too far from the size of its entry; rescale the entries"
        )
    loads[loads == 0] = np.inf
    return loads


def scaled_moves(sizes: NDArray, least: NDArray) -> CircuitMoves:
    """Return moves (n, B) whose least load of a protected entry becomes one."""
    with np.errstate(over="ignore", under="ignore"):
        moves = sizes * ((1 + ROUNDED / 4) / least)
    if (np.abs(moves[sizes != 0]) < _TINY).any():
        raise UncertifiableError(
            "a move leaves the range of double precision; rescale the entries"
        )
    return CircuitMoves(moves)


def floats(entries: Sequence[Integer], units: Iterable[Ball]) -> list[float]:
    """Return integers times their units, each rounded once.

    Raises
    ------
    UncertifiableError
        If one that is not zero leaves the range of double precision.
    """
    with working_bits(64):
        values = [float(x * unit) for x, unit in zip(entries, units)]
    for value, entry in zip(values, entries):
        if entry and not 1e-290 < abs(value) < 1e290:
            raise UncertifiableError(
                "the entries of a move span more than 290 decades; shorten the horizon "
                "or rescale the entries"
            )
    return values


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
        if not (np.abs(values) > _TINY).all():
            raise UncertifiableError(
                "a move leaves the range of double precision; rescale the entries"
            )
        data[list(support), column] = values
    few = size * len(moves) <= _MOST_RATIONALS
    return CircuitMoves(data, moves if few else None, 2.0**-52)


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
