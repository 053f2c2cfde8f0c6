"""Affine manifolds, the public constraints D x + b = 0 of the data, and their moves.

Everything downstream works in tangent coordinates z, x = origin + N z, so nothing of
the data's own dimension squared is ever formed. Entries that the manifold pins are public
and are refused by name.

Moves are the differences between data sets that must be indistinguishable. A set holds finitely
many of them, or a ball. Both kinds answer the same questions: how large the worst shift
is, how a query responds, and which moves attain the worst.

Circuits are the moves of DPAM Definition 4, tangent vectors of smallest support. Whether
an entry of one is zero decides which moves exist at all, so no tolerance is safe. The
numbers of the constraints, or of a given kernel, are read as exact rationals, and
circuits are computed in integers.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, combinations
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from ..numerics.balls import (
    Ball,
    BallMatrix,
    Integer,
    IntegerMatrix,
    Rational,
    RationalMatrix,
    ball_matrix,
    rational,
    rational_matrix,
    upper_bounds,
    working_bits,
)
from ..numerics.checks import one_of, positive_integer, quoted, real_array, sequence_of
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import EPS, column_norms, float_above, rank_tolerance, round_up
from ..numerics.objects import Frozen, array_identity
from ..numerics.thresholds import (
    BLOCK,
    LARGEST_SIZE,
    MOST_HELD,
    PATIENCE,
    ROUNDED,
    SHARP,
    THINNEST,
)

# -- moves -----------------------------------------------------------------------------

#: Attaining moves that a loss names.
MOST_ATTAINING = 64
#: Ellipsoids that the 1-norm of a ball's image is bounded with.
_ELLIPSOIDS = 6


def attaining(sizes: NDArray[np.float64]) -> tuple[int, ...]:
    """Return the indices (at most 64) of the moves that attain the largest norm."""
    largest = sizes >= sizes.max() * (1 - 1e-9)
    indices = np.flatnonzero(largest)[:MOST_ATTAINING]
    return tuple(indices.tolist())


def spanned(
    rows: NDArray[np.float64], others: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return a mask (n,) of the rows (n, k) that are combinations of others (q, k)."""
    sizes = column_norms(others.T)
    present = sizes > 0
    unit = others[present] / sizes[present, None]
    _, s, vt = scipy.linalg.svd(unit, full_matrices=False)
    large = s > ROUNDED * s.max(initial=0.0)
    basis = vt[large]
    along = rows @ basis.T
    rest = rows - along @ basis
    return column_norms(rest.T) <= ROUNDED * column_norms(rows.T)


class Query(Protocol):
    """The part of a `LinearQuery` that moves ask for."""

    @property
    def size(self) -> int: ...

    @property
    def response(self) -> NDArray[np.float64]: ...

    @property
    def rounding(self) -> NDArray[np.float64]: ...

    def _applied(
        self, data: NDArray[np.float64], errors: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...

    def _ball_product(
        self, data: NDArray[np.float64] | Sequence[Any]
    ) -> BallMatrix | None: ...


class Moves(ABC):
    """A set of tangent moves. What must be hidden is its convex hull with signs.

    Below, "shifts" are the images (r, M) of `vectors` under any linear map, such as the
    whitening of a noise.
    """

    #: Whether `vectors` are the axes of a ball rather than single moves.
    is_ball: ClassVar[bool] = False

    #: False where the set is an outer bound of what must be hidden.
    exact: bool

    @property
    @abstractmethod
    def vectors(self) -> NDArray[np.float64]:
        """The moves, or the axes of the ball, in tangent coordinates (k, M)."""

    @abstractmethod
    def sizes(
        self, shifts: NDArray[np.float64], norm: float = 2
    ) -> NDArray[np.float64]:
        """Return the norms (M,) of the moves' shifts, of a ball the largest (1,).

        They are above the roundings of their sums.
        """

    @abstractmethod
    def enlarged(
        self, shifts: NDArray[np.float64], errors: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return shifts as large as any within the bounds of their errors."""

    def worst_shift(self, shifts: NDArray[np.float64], norm: float = 2) -> float:
        """Return the largest norm of the shift of a move, rounded up."""
        return float_above(self.sizes(shifts, norm).max(), 2)

    def attaining(
        self, shifts: NDArray[np.float64], norm: float = 2
    ) -> tuple[int, ...]:
        """Return the indices of `vectors` with the largest shifts, none of a ball."""
        return attaining(self.sizes(shifts, norm))

    def sensitivity(self, query: Query, norm: float = 2) -> float:
        """Return the largest norm of a query's response to a move, rounded up."""
        responses = self.enlarged(*self.output_responses(query))
        return self.worst_shift(responses, norm) if responses.any() else 0.0

    @property
    def moved(self) -> NDArray[np.bool_]:
        """Mask (k,) of the tangent coordinates that some move may change."""
        return np.any(self.vectors, axis=1)

    def attained(self, indices: Sequence[int]) -> NDArray[np.float64]:
        """Return the moves (k, s) with these indices, of a ball its axes."""
        return self.vectors[:, list(indices)]

    def output_responses(
        self, query: Query
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the responses (m, M) of a query to `vectors`, and bounds of their errors."""
        responses = query.response @ self.vectors
        return responses, query.rounding @ np.abs(self.vectors)

    def ball_responses(self, query: Query) -> tuple[BallMatrix, NDArray[np.float64]]:
        """Return `output_responses` as balls, and bounds of the errors beyond them."""
        responses, errors = self.output_responses(query)
        return ball_matrix(responses), errors

    #: Working precision that `balls` is good for.
    bits: int = 320

    def balls(self, rows: Iterable[int]) -> list[list[Ball]]:
        """Return chosen rows of `vectors` as a table of balls."""
        return ball_matrix(self.vectors[list(rows)]).tolist()

    def blocks(self) -> Iterable[BallMatrix]:
        """Yield `vectors` as balls, some columns (k, m) at a time."""
        yield ball_matrix(self.balls(range(len(self.vectors))))

    def spanning(self) -> RationalMatrix:
        """Return rational columns whose span holds every move."""
        return rational_matrix(self.vectors)


@dataclass(frozen=True, eq=False)
class FiniteMoves(Moves):
    """Tangent moves z_1 .. z_M.

    Where the moves were found in data space, their tangent coordinates are rounded, and
    nothing is computed from those.
    """

    columns: NDArray[np.float64]  # the moves in tangent coordinates (k, M)
    exact: bool = field(default=True, kw_only=True)
    #: The moves in data space (n, M).
    data: NDArray[np.float64] | None = field(default=None, kw_only=True)
    #: Bounds of the errors of `data`, or of `columns` without data.
    errors: NDArray[np.float64] | None = field(default=None, kw_only=True)
    #: `data` as M columns of exact rationals.
    rationals: list[Any] | None = field(default=None, kw_only=True, repr=False)

    @property
    def vectors(self) -> NDArray[np.float64]:
        return self.columns

    def sizes(
        self, shifts: NDArray[np.float64], norm: float = 2
    ) -> NDArray[np.float64]:
        return column_norms(shifts, norm) * (1 + EPS * (len(shifts) + 2))

    def enlarged(
        self, shifts: NDArray[np.float64], errors: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        grown = np.abs(shifts) + errors
        # an error below a unit of rounding would vanish in this sum
        above = np.where(errors > 0, round_up(grown), grown)
        return np.copysign(above, shifts)

    def output_responses(
        self, query: Query
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self.data is None:
            responses, bounds = super().output_responses(query)
            if self.errors is not None:
                bounds = bounds + np.abs(query.response) @ self.errors
                bounds = bounds + query.rounding @ self.errors
            return responses, bounds
        return query._applied(self.data, self.errors)

    def ball_responses(self, query: Query) -> tuple[BallMatrix, NDArray[np.float64]]:
        source = self.data if self.errors is None else self.rationals
        product = None if source is None else query._ball_product(source)
        if product is None:
            return super().ball_responses(query)
        return product, np.zeros((query.size, self.columns.shape[1]))

    @property
    def moved(self) -> NDArray[np.bool_]:
        moved = np.any(self.columns, axis=1)
        if self.errors is not None and self.data is None:
            moved = moved | self.errors.any(axis=1)
        return moved

    def balls(self, rows: Iterable[int]) -> list[list[Ball]]:
        rows = list(rows)
        if self.data is not None or self.errors is None:
            return super().balls(rows)
        pairs = zip(
            self.columns[rows].tolist(), self.errors[rows].tolist(), strict=True
        )
        return [list(map(Ball, *pair)) for pair in pairs]

    def sensitivity(self, query: Query, norm: float = 2) -> float:
        largest = 0.0
        for part in self._blocks(query.size):
            responses, errors = part.output_responses(query)
            if (errors > SHARP * np.abs(responses).max()).any():
                balls, errors = part.ball_responses(query)
                responses = upper_bounds(balls)
            responses = np.abs(responses) + errors
            if responses.any():
                largest = max(largest, part.worst_shift(responses, norm))
        return largest

    def _blocks(self, rows: int) -> Iterable[FiniteMoves]:
        """Cut the moves into blocks whose images of this many rows fit in memory."""
        step = max(1, BLOCK // max(rows, 1))
        for start in range(0, self.columns.shape[1], step):
            block = slice(start, start + step)
            yield FiniteMoves(
                self.columns[:, block],
                exact=self.exact,
                data=None if self.data is None else self.data[:, block],
                errors=None if self.errors is None else self.errors[:, block],
                rationals=None if self.rationals is None else self.rationals[block],
            )


@dataclass(frozen=True, eq=False)
class EllipsoidMoves(Moves):
    """Tangent moves z = E u with ||u||_2 <= 1 and E of shape (k, q)."""

    is_ball: ClassVar[bool] = True

    factor: NDArray[np.float64]
    exact: bool = field(default=True, kw_only=True)

    @property
    def vectors(self) -> NDArray[np.float64]:
        return self.factor

    @staticmethod
    def largest(image: NDArray[np.float64], norm: float = 2) -> float:
        """Return the largest norm of ``image @ u`` over the unit ball.

        In the 1-norm, where the maximum is NP-hard, it is an upper bound, mostly within 2 %.
        By Cauchy and Schwarz (sum |g_i u|)^2 <= sum d_i times sum (g_i u)^2 / d_i for any
        sizes d > 0. They are those of the rows on an ellipsoid that follows the largest
        images.
        """
        # a power of two changes no digit, and keeps squares within the doubles
        exponent = np.frexp(np.abs(image).max())[1]
        image = np.ldexp(image, -exponent)
        rows = np.linalg.norm(image, axis=1)
        if norm == 2:
            size = np.linalg.norm(image, 2)
        elif norm == np.inf:
            size = rows.max()
        else:
            size = rows.sum()
            on_ellipsoid = image = image[rows > 0]
            if len(image) > 1:  # exact where rows are orthogonal
                rows = rows[rows > 0]
                units = image / rows[:, None]
                size = min(size, np.linalg.norm(rows) * np.linalg.norm(units, 2))
            for _ in range(_ELLIPSOIDS if len(image) > 1 else 0):
                sizes = np.linalg.norm(on_ellipsoid, axis=1)
                roots = np.sqrt(np.maximum(sizes, THINNEST * sizes.max()))[:, None]
                bound = np.linalg.norm(roots) * np.linalg.norm(image / roots, 2)
                size = min(size, bound)
                _, values, axes = np.linalg.svd(
                    on_ellipsoid / roots, full_matrices=False
                )
                on_ellipsoid = on_ellipsoid @ (axes.T * np.sqrt(values))
        return float(np.ldexp(size, exponent))

    def sizes(
        self, shifts: NDArray[np.float64], norm: float = 2
    ) -> NDArray[np.float64]:
        rounding = 1e-14 + 4 * EPS * len(shifts)
        return np.array([self.largest(shifts, norm) * (1 + rounding)])

    def attaining(
        self, shifts: NDArray[np.float64], norm: float = 2
    ) -> tuple[int, ...]:
        return ()

    def enlarged(
        self, shifts: NDArray[np.float64], errors: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        size = np.linalg.norm(shifts, 2)
        if not size:
            return errors
        # in every norm that is asked for
        share = math.sqrt(len(shifts)) * _length(errors.ravel()) / size
        return shifts * (1 + share)

    def attained(self, indices: Sequence[int]) -> NDArray[np.float64]:
        return self.factor


# -- circuits --------------------------------------------------------------------------

#: Numbers of all moves up to which they are kept as rationals.
_MOST_RATIONALS = 30_000

#: A vector of integers or rationals as its support and the entries there.
Sparse = tuple[Sequence[int], Sequence[Any]]


@dataclass(frozen=True, eq=False)
class Component:
    """Entries of a manifold that its constraints, or its kernel, tie to no others.

    ``table`` holds the constraints (q, n), or a kernel (n, k) if ``by_kernel``, and
    ``dimension`` is k as found in floating point.
    """

    index: NDArray[np.intp]
    table: RationalMatrix
    by_kernel: bool
    dimension: int

    @property
    def count(self) -> int:
        """Number of candidates, an upper bound on the circuits."""
        if not self.dimension:
            return 0
        return math.comb(len(self.index), self.dimension - 1)

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
        place = {sparse(column)[0][0]: j for j, column in enumerate(basis)}
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
                terms = [rows[i][j] * x for j, x in zip(moving, direction, strict=True)]
                move.append(sum(terms, Integer(0)))
            support = tuple(i for i, x in zip(others, move, strict=True) if x)
            if support not in found:
                found.add(support)
                yield self.index[list(support)].tolist(), [x for x in move if x]


def split(
    source: NDArray[np.float64], freedom: NDArray[np.float64] | None
) -> list[Component]:
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
    if sum(component.seconds for component in components) <= PATIENCE:
        return
    worst = max(components, key=lambda component: component.seconds)
    size = len(worst.index)
    raise ValueError(
        f"the circuits of {size} entries tied by {size - worst.dimension} constraints "
        f"({worst.count:,} candidates) would take more than {PATIENCE:g} "
        "seconds: hide explicit moves (DirectionAdjacency) or all moves up to a length "
        "(BallAdjacency) instead, or name charts"
    )


def stretched(moves: Iterable[Sparse], radii: NDArray[np.float64]) -> Iterator[Sparse]:
    """Yield the largest move along each circuit for radii (n,), 0 if not protected.

    Some protected entry moves by its radius, and no other one that moves by less than
    its own.
    """
    sizes = [rational(mu) for mu in radii.tolist()]
    for support, entries in moves:
        pairs = [
            (sizes[j], abs(x))
            for j, x in zip(support, entries, strict=True)
            if sizes[j] > 0
        ]
        if pairs:
            scale = max(mu / x for mu, x in pairs)
            yield support, [scale * x for x in entries]


def chart_moves(
    kernel: RationalMatrix, radii: NDArray[np.float64], charts: Iterable[Iterable[int]]
) -> list[Sparse]:
    """Return the moves N_d^-1 e_i mu_i of each chart d and each protected entry i of it.

    They are tangent coordinates.
    """
    rows = kernel.tolist()
    dimension = kernel.ncols()
    moves = []
    for entries in sequence_of(charts, "charts", "sets of positions"):
        positions = sequence_of(entries, "charts", "positions")
        chart = [positive_integer(i, "charts", zero=True) for i in positions]
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
        for i, column in zip(chart, columns, strict=True):
            if radii[i] > 0:
                moves.append(sparse([x * rational(radii[i]) for x in column]))
    return moves


def rounded(
    moves: Iterable[Sparse], size: int
) -> tuple[NDArray[np.float64], list[list[Rational]] | None]:
    """Return exact moves as doubles (n, M) within a relative `EPS`.

    If they are few, they are returned as rationals, too.
    """
    columns: list[NDArray[np.float64]] = []
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
        if len(columns) * size > MOST_HELD:
            raise ValueError(
                f"the manifold has more than {len(columns):,} circuits, more than can be "
                "stored. Protect fewer entries or times, or hide explicit moves "
                "(DirectionAdjacency)"
            )
        if len(columns) * size <= _MOST_RATIONALS:
            dense = [Rational(0)] * size
            for j, x in zip(support, entries, strict=True):
                dense[j] = x
            exact.append(dense)
    data = np.array(columns).reshape(-1, size).T
    return data, exact if len(exact) == len(columns) else None


def refuse_range(entries: NDArray[np.float64]) -> None:
    """Raise an error if numbers that are not zero leave the range of the doubles."""
    sizes = np.abs(entries)
    if not ((sizes > np.finfo(float).tiny) & (sizes < np.inf)).all():
        raise UncertifiableError(
            "a move leaves the range of double precision; shorten the horizon or "
            "rescale the entries"
        )


def null_vector(rows: list[Any], width: int) -> list[int] | None:
    """The direction of ``width`` integers orthogonal to the rows, if there is one only."""
    if width == 1:
        return [1]
    basis, free = IntegerMatrix(rows).nullspace()
    if free != 1:
        return None
    return [int(row[0]) for row in basis.tolist()]


def sparse(entries: Sequence[Any]) -> Sparse:
    """The support of a vector, and the entries there."""
    support = tuple(j for j, x in enumerate(entries) if x)
    return support, [entries[j] for j in support]


# -- manifolds -------------------------------------------------------------------------

#: Entries of the constraints up to which the kernel's error is computed in balls, and of
#: the kernel up to which its sums are.
_MOST_EXACT = 2_500

#: Speed: entries for each nonzero one above which moves are multiplied as sparse ones.
_MOST_SPARSE = 16


class AffineManifold(Frozen):
    """Describe the x with D x + b = 0, as an eavesdropper knows too (DPAM Definition 3).

    A manifold is immutable, and equal to one of the same constraints and labels.

    Parameters
    ----------
    D : array_like or sparse matrix, shape (q, n)
        Constraint matrix, one row a constraint. It need not have full row rank.
    b : array_like, shape (q,), optional
        Offset, zero by default. A constraint D x = c has b = -c.
    labels : sequence of str, optional
        Names of the n entries; ``x[0]``, ``x[1]``, ... by default.
    pinned : {"raise", "keep"}, optional
        Treatment of entries that the constraints determine, which are public.

    Attributes
    ----------
    kernel : ndarray, shape (n, k)
        N, a basis of the tangent space; orthonormal unless given to `from_kernel`.
    origin : ndarray, shape (n,)
        A point of the manifold.
    labels : tuple of str
    pinned : tuple of str
        Labels of the entries that the constraints determine.

    Raises
    ------
    ValueError
        If the constraints contradict each other, leave no freedom, or pin an entry (with
        ``pinned="raise"``).

    See Also
    --------
    LinearQuery, trajectory_manifold, ManifoldAdjacency

    Examples
    --------
    Two salaries whose sum is known:

    >>> manifold = AffineManifold([[1.0, 1.0]], [-100.0])
    >>> manifold.size, manifold.dimension, manifold.contains([40.0, 60.0])
    (2, 1, True)
    """

    kernel: NDArray[np.float64]
    origin: NDArray[np.float64]
    labels: tuple[str, ...]
    pinned: tuple[str, ...]

    #: D and b, where the manifold was made of them.
    _constraint: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    #: The same in units in which the largest entry of a row is about one.
    _levels: tuple[NDArray[np.float64], NDArray[np.float64]]
    _estimated_error: float = 0.0

    #: Number of samples of a trajectory; None where the data are no trajectory.
    horizon: int | None = None

    def __init__(
        self,
        D: ArrayLike | scipy.sparse.sparray,
        b: ArrayLike | None = None,
        *,
        labels: Sequence[str] | None = None,
        pinned: str = "raise",
    ) -> None:
        dense: Callable[..., Any] | None = getattr(D, "toarray", None)
        ties = real_array(D if dense is None else dense(), "D")
        if ties.ndim != 2:
            raise ValueError(
                f"D: expected shape (q, n), got {ties.shape}; write a single constraint "
                "as [[...]]"
            )
        count = len(ties)
        if b is None:
            b = np.zeros(count)
        offset = real_array(b, "b", shape=(count,))
        # The units of constraints do not matter, and powers of two change no digit.
        exponents = np.frexp(np.abs(ties).max(axis=1, initial=0.0))[1]
        rows = np.ldexp(ties, -exponents[:, None])
        levels = np.ldexp(offset, -exponents)
        _, sizes, vt = scipy.linalg.svd(rows, full_matrices=True)
        rank = int(np.sum(sizes > rank_tolerance(ties, sizes)))
        condition = float(sizes[0] / sizes[rank - 1]) if rank else 0.0
        origin = -scipy.linalg.lstsq(rows, levels)[0]
        self._set(_constraint=(ties, offset), _levels=(rows, levels))
        if not self._is_level(origin, 0.0, 1e3 * EPS * max(ties.shape)):
            raise ValueError(
                "D x + b = 0 has no solution: the constraints contradict each other"
            )
        error = 8 * EPS * math.sqrt(max(ties.shape)) * condition
        self._set(_estimated_error=error)
        tolerance = 64 * EPS * ties.shape[1]
        self._complete(vt[rank:].T, origin, labels, pinned, tolerance)

    @classmethod
    def from_kernel(
        cls,
        N: ArrayLike,
        origin: ArrayLike | None = None,
        *,
        labels: Sequence[str] | None = None,
        pinned: str = "raise",
    ) -> AffineManifold:
        """Return the manifold {origin + N z}, and keep the kernel basis N (n, k).

        The ``origin`` (n,) is zero by default. The rest is as for the class.

        Parameters
        ----------
        N : array_like, shape (n, k)
            Basis of the tangent space, of full column rank.
        origin : array_like, shape (n,), optional
            A point of the manifold, zero by default.
        labels, pinned : optional
            As for the class.

        Returns
        -------
        AffineManifold
            Of dimension k, in n entries.

        Raises
        ------
        ValueError
            If N does not have full column rank, or pins an entry (with
            ``pinned="raise"``).

        Examples
        --------
        >>> AffineManifold.from_kernel([[1.0], [-1.0]], [40.0, 60.0]).contains([50.0, 50.0])
        True
        """
        self = cls.__new__(cls)
        kernel = real_array(N, "N", ndim=2)
        if not kernel.size:
            raise ValueError(
                f"N: expected at least one column, got an array of shape {kernel.shape}"
            )
        lengths = column_norms(kernel)
        lengths[lengths == 0] = 1.0
        if not ((lengths > 1 / LARGEST_SIZE) & (lengths < LARGEST_SIZE)).all():
            raise ValueError(
                f"N: expected columns of lengths between {1 / LARGEST_SIZE:g} and "
                f"{LARGEST_SIZE:g}, got shorter or longer ones; rescale them"
            )
        sizes = scipy.linalg.svdvals(kernel / lengths)
        if len(sizes) < kernel.shape[1] or sizes[-1] <= rank_tolerance(kernel, sizes):
            raise ValueError(
                "N: expected independent columns, got an array of shape "
                f"{kernel.shape} with dependent ones"
            )
        if origin is None:
            origin = np.zeros(len(kernel))
        start = real_array(origin, "origin", shape=(len(kernel),))
        self._complete(kernel, start, labels, pinned, 0.0)
        return self

    def _complete(
        self,
        N: NDArray[np.float64],
        origin: NDArray[np.float64],
        labels: Sequence[str] | None,
        pinned: str,
        tolerance: float,
    ) -> None:
        """Set what both ways of construction share. Rows up to a tolerance are pinned."""
        one_of(pinned, "pinned", ("raise", "keep"))
        size = len(N)
        if labels is None:
            labels = [f"x[{i}]" for i in range(size)]
        names = tuple(map(_name, sequence_of(labels, "labels", "names")))
        if len(names) != size or len(set(names)) != size:
            raise ValueError(
                f"labels: expected {size} different names, got {len(names)} "
                f"({len(set(names))} different)"
            )
        if not N.shape[1]:
            raise ValueError(
                "the constraints determine every entry: nothing is private on this "
                "manifold"
            )
        still = np.abs(N).max(axis=1) <= tolerance
        fixed = tuple(names[i] for i in np.flatnonzero(still))
        if fixed and pinned == "raise":
            more = " ..." if len(fixed) > 5 else ""
            raise ValueError(
                f"the manifold determines {', '.join(fixed[:5])}{more}: these entries "
                'are public; leave them out of the data, or pass pinned="keep"'
            )
        self._set(
            labels=names,
            kernel=real_array(N, "N"),
            origin=real_array(origin, "origin"),
            pinned=fixed,
        )

    @property
    def D(self) -> NDArray[np.float64]:
        """The constraints' matrix (q, n) as given; for a given kernel, rows across it."""
        return self._equations[0]

    @property
    def b(self) -> NDArray[np.float64]:
        """The constraints' offset (q,) in D x + b = 0.

        Examples
        --------
        >>> manifold = AffineManifold([[1.0, -2.0]], [3.0])
        >>> manifold.D, manifold.b
        (array([[ 1., -2.]]), array([3.]))
        """
        return self._equations[1]

    @cached_property
    def _equations(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """D and b; of a given kernel, an orthonormal basis of what is normal to it."""
        if self._constraint is not None:
            return self._constraint
        across = scipy.linalg.qr(self._orthonormal[0])[0][:, self.dimension :].T
        return real_array(across, "D"), real_array(-across @ self.origin, "b")

    def __getstate__(self) -> dict[str, Any]:
        # components hold rationals, which do not pickle
        return {k: v for k, v in self.__dict__.items() if k != "_components"}

    def _identity(self) -> tuple[object, ...]:
        given = self._constraint is None
        arrays = self._constraint or (self.kernel, self.origin)
        return (given, self.labels, *(array_identity(array) for array in arrays))

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}(size={self.size}, dimension={self.dimension})"

    @property
    def size(self) -> int:
        """Number of entries n of the data."""
        return len(self.kernel)

    @property
    def dimension(self) -> int:
        """Dimension k of the tangent space."""
        return self.kernel.shape[1]

    @cached_property
    def domain(self) -> str:
        """One public line, of sizes and a fingerprint, that distinguishes manifolds.

        The fingerprint is of D (or of a given kernel) and the labels, not of b. Guarantees
        whose fingerprints differ are about different secrets and do not add.
        """
        source = self.kernel if self._constraint is None else self._constraint[0]
        shape, content = array_identity(source)
        content += repr((shape, self.labels)).encode()
        digest = hashlib.sha256(content).hexdigest()
        return (
            f"manifold of dimension {self.dimension} in R^{self.size} [{digest[:12]}]"
        )

    # -- points and tangents -----------------------------------------------------------

    @cached_property
    def _orthonormal(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """An orthonormal basis Q (n, k) of the tangents, and a kernel inverse (k, n)."""
        if self._constraint is not None:
            return self.kernel, self.kernel.T
        scales = np.linalg.norm(self.kernel, axis=0)
        unit = self.kernel / scales
        Q, R = scipy.linalg.qr(unit, mode="economic")
        inverse = scipy.linalg.solve_triangular(R, Q.T)
        return Q, inverse / scales[:, None]

    def tangent(self, moves: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return tangent coordinates (k, M) of moves N z (n, M), else a `ValueError`.

        Parameters
        ----------
        moves : ndarray, shape (n, M)
            Differences of two points of the manifold, as columns.

        Returns
        -------
        ndarray, shape (k, M)
            Without unit: combinations of the basis, one column for each move.

        Examples
        --------
        >>> import numpy as np
        >>> pair = AffineManifold.from_kernel([[1.0], [-1.0]])
        >>> pair.tangent(np.array([[2.0], [-2.0]])).round(9)
        array([[2.]])
        """
        moves = real_array(moves, "directions", shape=(self.size, None))
        Q, _ = self._orthonormal
        left = column_norms(moves - Q @ (Q.T @ moves))
        bad = np.flatnonzero(left > ROUNDED * column_norms(moves))
        if len(bad):
            raise ValueError(
                f"directions: column {bad[0]} is not a move along the manifold (its "
                "constraints exclude it); two data sets on the manifold differ by N z "
                "only"
            )
        return self._coordinates(moves)

    def _coordinates(self, moves: NDArray[np.float64]) -> NDArray[np.float64]:
        """Tangent coordinates (k, M) of tangent moves (n, M), up to rounding."""
        _, inverse = self._orthonormal
        if _MOST_SPARSE * np.count_nonzero(moves) < moves.size:
            return np.asarray(scipy.sparse.csr_array(moves.T) @ inverse.T).T
        return inverse @ moves

    def residual(self, x: ArrayLike) -> float:
        """Return the norm of D x + b, or the distance of x (n,) where a kernel is given.

        Parameters
        ----------
        x : array_like, shape (n,)

        Returns
        -------
        float
            Not negative, zero on the manifold; a distance is in the unit of x.

        Examples
        --------
        >>> AffineManifold([[1.0, 1.0]], [-100.0]).residual([40.0, 59.0])
        1.0
        """
        point = self._point(x)
        if self._constraint is not None:
            D, b = self._constraint
            with np.errstate(over="ignore"):
                return _length(D @ point + b)
        Q, _ = self._orthonormal
        move = point - self.origin
        return _length(move - Q @ (Q.T @ move))

    def contains(self, x: ArrayLike, *, rtol: float = 1e-9) -> bool:
        """Return whether x (n,) lies on the manifold up to a relative tolerance.

        Parameters
        ----------
        x : array_like, shape (n,)
        rtol : float, optional
            Tolerance, relative to the size of the terms.

        Returns
        -------
        bool
        """
        point = self._point(x)
        away = _length(self.origin)
        if self._constraint is not None:
            return self._is_level(point, away, rtol)
        return self.residual(point) <= rtol * (_length(point) + away) < math.inf

    def _is_level(self, point: NDArray[np.float64], away: float, rtol: float) -> bool:
        """Return whether a point meets every constraint, up to its own terms' relative rtol."""
        rows, levels = self._levels
        with np.errstate(over="ignore"):
            misses = np.abs(rows @ point + levels)
            terms = column_norms(rows.T) * (_length(point) + away) + np.abs(levels)
        return bool(((misses <= rtol * terms) & (terms < np.inf)).all())

    def project(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return the point of the manifold that is nearest to x (n,) in the 2-norm.

        It prepares data that were rounded off the manifold. The guarantee is about the
        projected data: two projected data sets must be neighbours. Points at a distance
        r are projected to points at most r apart, so a `BallAdjacency` keeps its
        radius. A move of one raw entry moves several projected ones, which a
        `ManifoldAdjacency` need not hide.

        Parameters
        ----------
        x : array_like, shape (n,)
            Data near the manifold.

        Returns
        -------
        ndarray, shape (n,)
            In the units of x.

        Examples
        --------
        >>> shares = AffineManifold([[1.0, 1.0, 1.0]], [-1.0])
        >>> rounded = [0.333, 0.333, 0.333]
        >>> shares.contains(rounded), shares.contains(shares.project(rounded))
        (False, True)
        """
        point = self._point(x)
        Q, _ = self._orthonormal
        return self.origin + Q @ (Q.T @ (point - self.origin))

    def _point(self, x: ArrayLike) -> NDArray[np.float64]:
        """Private data (n,), checked without showing them."""
        point = real_array(x, "x")
        if point.shape != (self.size,):
            raise ValueError(f"x: expected shape ({self.size},), got {point.shape}")
        return point

    # -- circuits ----------------------------------------------------------------------

    def circuit_moves(
        self, radii: NDArray[np.float64], charts: str | Iterable[Iterable[int]] = "all"
    ) -> FiniteMoves:
        """Return the worst moves of DPAM Definition 4 for ``radii`` (n,), 0 if unprotected.

        The candidates are C(n, k - 1) = C(n, q + 1) for q constraints on n entries,
        summed over groups of entries that no constraint ties together. ``charts`` may be
        free sets of k entries, one of which moves while the others are held.

        Parameters
        ----------
        radii : ndarray, shape (n,)
            How much each entry may move, in its unit; zero where it is not protected.
        charts : "all" or iterable of sets of int, optional
            Free sets of k entries, by their positions.

        Returns
        -------
        FiniteMoves
            Columns in tangent coordinates, (k, M).

        Raises
        ------
        ValueError
            If all charts would take longer than some seconds, or a chart is not free.
        UncertifiableError
            If the constraints' rank in exact arithmetic is not their rank in floating
            point.

        Examples
        --------
        >>> import numpy as np
        >>> pair = AffineManifold.from_kernel([[1.0], [-1.0]])
        >>> pair.circuit_moves(np.array([2.0, 3.0])).columns
        array([[3.]])
        """
        radii = self._sizes(radii)
        if isinstance(charts, str):
            one_of(charts, "charts", ("all",))
            refuse_long(self._components)
            parts = [part for part in self._components if radii[part.index].any()]
            circuits = chain.from_iterable(part.circuits() for part in parts)
            return self._finite(stretched(circuits, radii))
        given = self._constraint is None
        source = rational_matrix(self.kernel if given else self.D)
        every = np.arange(self.size)
        kernel = Component(every, source, given, self.dimension).kernel
        moves = []
        for support, entries in chart_moves(kernel, radii, charts):
            column = RationalMatrix(self.dimension, 1)
            for j, x in zip(support, entries, strict=True):
                column[j, 0] = x
            moves.append(sparse((kernel * column).entries()))
        return self._finite(moves)

    def _sizes(self, radii: ArrayLike) -> NDArray[np.float64]:
        """Radii (n,), of which none is negative."""
        sizes = real_array(radii, "radii", shape=(self.size,))
        if (sizes < 0).any():
            raise ValueError("radii: expected numbers >= 0, got a negative one")
        return sizes

    def ball_vertices(self, radii: NDArray[np.float64]) -> FiniteMoves | None:
        """Return the vertices of the 1-ball, which are scaled circuits.

        The ball is sum abs(v_i) / radii_i <= 1. None if the circuits would take
        long.

        Parameters
        ----------
        radii : ndarray, shape (n,)
            How much each entry may move, in its unit; zero where it may not.

        Returns
        -------
        FiniteMoves or None
            Columns in tangent coordinates, (k, M).

        Examples
        --------
        >>> import numpy as np
        >>> pair = AffineManifold.from_kernel([[1.0], [-1.0]])
        >>> pair.ball_vertices(np.array([2.0, 2.0])).columns.round(9)
        array([[1.]])
        """
        radii = self._sizes(radii)
        if sum(part.seconds for part in self._components) > PATIENCE:
            return None
        moves = []
        for part in self._components:
            for support, entries in part.circuits():
                sizes = [rational(radii[i]) for i in support]
                if not all(sizes):  # an entry of it may not move
                    continue
                scale = 1 / sum(
                    abs(x) / size for x, size in zip(entries, sizes, strict=True)
                )
                moves.append((support, [scale * x for x in entries]))
        return self._finite(moves)

    def _finite(self, moves: Iterable[Sparse]) -> FiniteMoves:
        """Exact moves of the data, also as rationals if they are few."""
        data, rationals = rounded(moves, self.size)
        errors = np.abs(data) * EPS
        columns = self._coordinates(data)
        return FiniteMoves(columns, data=data, errors=errors, rationals=rationals)

    @cached_property
    def _components(self) -> list[Component]:
        if self._constraint is None:
            return split(self.kernel.T, None)
        return split(self._constraint[0], (self.kernel**2).sum(axis=1))


def _name(label: object) -> str:
    """Return an entry's label as text, which Python refuses for huge integers."""
    try:
        return str(label)
    except ValueError:
        raise ValueError(
            f"labels: expected names, got {quoted(label)}; write short texts"
        ) from None


def _length(vector: NDArray[np.float64]) -> float:
    """The 2-norm of a vector of any size that a double can hold."""
    return float(column_norms(vector[:, None])[0])


def kernel_error(manifold: AffineManifold) -> float:
    """Bound the errors of the kernel's entries, which are zero where it is as given.

    The kernel less its part across the constraints is tangent. That part is computed
    in balls, or for large constraints estimated from their condition.
    """
    if manifold._constraint is None:
        return 0.0
    constraints, _ = manifold._constraint
    if constraints.size > _MOST_EXACT:
        return manifold._estimated_error
    echelon, rank = rational_matrix(constraints).rref()
    if rank != manifold.size - manifold.dimension:
        return manifold._estimated_error
    if not rank:
        return 0.0
    with working_bits(256):
        ties = ball_matrix(RationalMatrix(echelon.table()[:rank]))
        across = ties.transpose()
        steps = (ties * across).solve(ties * ball_matrix(manifold.kernel))
        if manifold.kernel.size <= _MOST_EXACT:
            return float(upper_bounds(across * steps).max())
        sums = upper_bounds(across) @ upper_bounds(steps)
        return float(sums.max()) * (1 + EPS * (rank + 2))
