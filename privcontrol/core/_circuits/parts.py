"""Parts of a manifold that nothing ties to each other, and of each the shorter way to its circuits.

The ways are sets of k - 1 entries of a kernel that are held, best for few degrees of freedom k, and sets of q + 1
entries of which the q constraints leave one direction, best for few constraints. Where both are long nothing starts.
"""

from dataclasses import dataclass
from functools import cached_property
from math import comb, lcm

import numpy as np
import scipy.linalg
import scipy.sparse
from flint import arb, arb_mat, fmpq, fmpq_mat, fmpz

from .._balls import working_bits
from .._linalg import EPS
from ..errors import UncertifiableError
from .enumeration import count_circuits, enumerate_moves
from .exact_rows import FloatRows, IntegerRows, integer_rows
from .supports import MOST_MINORS, support_moves

#: What the circuits of a manifold may take, by an estimate.
MOST_SECONDS = 300.0


@dataclass(frozen=True, eq=False)
class Part:
    """Entries of a manifold that its constraints, or its kernel, tie to no others.

    Attributes
    ----------
    index : ndarray of int, shape (n,)
        The entries.
    columns : ndarray of int, shape (K,)
        The tangent coordinates that move them.
    kernel : ndarray, shape (n, K)
        How they do.
    constraint : ndarray, shape (q, n), or None
        D where the part is given by it; its kernel is then orthonormal as a whole. Else the kernel is exact.
    dimension : int
        Degrees of freedom k of the part.
    """

    index: np.ndarray
    columns: np.ndarray
    kernel: np.ndarray
    constraint: np.ndarray | None
    dimension: int

    @property
    def count(self):
        """Number of candidates, an upper bound on the circuits."""
        return count_circuits(len(self.index), self.dimension) if self.dimension else 0

    @property
    def seconds(self):
        """Estimates of the times that holding entries and choosing supports take."""
        n, k, count = len(self.index), self.dimension, min(self.count, 10**15)
        q = n - k
        held = 5e-9 * count * (k * 2.0 ** min(k, 900) + n)
        if (n >= 30 and q >= k) or comb(n, min(q, n // 2)) > MOST_MINORS:
            return held, np.inf
        exact = (
            3e-5 if q > 10 else 3e-6
        )  # 30 us for a minor that needs exact arithmetic: all do, or one in ten
        table = sum(j * comb(n, j) for j in range(q + 1))
        return held, exact * comb(n, q) + 1e-8 * (table + (q + 1 + k) * count)

    @cached_property
    def form(self):
        """Exactly: entries that depend on free ones, the free ones, and the rational table that says how."""
        by_kernel = self.constraint is None
        table, rank = rational(self.kernel.T if by_kernel else self.constraint).rref()
        table = table.table()[:rank]
        pivots = [next(j for j, x in enumerate(row) if x != 0) for row in table]
        others = [j for j in range(len(self.index)) if j not in set(pivots)]
        ties = [[x[j] for j in others] for x in table]
        if by_kernel:
            return others, pivots, [list(column) for column in zip(*ties)]
        if len(others) != self.dimension:
            raise UncertifiableError(
                f"of {len(self.index)} entries D ties {rank} to others in exact arithmetic and "
                f"{len(self.index) - self.dimension} in floating point: drop the constraints that repeat others up to "
                "rounding, or give the kernel (AffineManifold.from_kernel)"
            )
        return pivots, others, [[-x for x in row] for row in ties]

    def rows(self):
        """The rows of a kernel whose coordinates are the free entries, as pairs (integers, common denominator)."""
        dependent, free, ties = self.form
        rows = [None] * len(self.index)
        for place, j in enumerate(free):
            rows[j] = ([fmpz(i == place) for i in range(len(free))], fmpz(1))
        for j, row in zip(dependent, ties):
            rows[j] = _whole(row)
        return rows

    def constraints(self):
        """Independent constraints as lists of integers: every dependent entry is a combination of the free ones."""
        dependent, free, ties = self.form
        constraints = []
        for j, row in zip(dependent, ties):
            entries, common = _whole(row)
            whole = [fmpz(0)] * len(self.index)
            for i, x in zip([j, *free], [common, *(-x for x in entries)]):
                whole[i] = x
            constraints.append(whole)
        return constraints

    def circuits(self, radius):
        """Blocks (K, M) of worst moves in the part's tangent coordinates; radius (n,), 0 if not protected."""
        if not self.dimension or not (radius > 0).any():
            yield np.empty((len(self.columns), 0))
        elif np.argmin(self.seconds):
            yield from self._by_supports(radius)
        elif self.constraint is None:
            for block in enumerate_moves(
                FloatRows(self.kernel, integer_rows(self.kernel)), radius
            ):
                yield block.moves
        else:
            rows = self.rows()
            coordinates = self.coordinates(rows)
            for block in enumerate_moves(IntegerRows(rows), radius):
                yield coordinates @ block.moves

    def coordinates(self, rows):
        """Tangent coordinates of the columns of a basis given by its `rows`: the kernel of D is orthonormal."""
        return self.kernel.T @ np.array(
            [[int(x) / int(common) for x in row] for row, common in rows]
        )

    def _by_supports(self, radius):
        left = (
            left_inverse(self.kernel)
            if self.constraint is None
            else np.ascontiguousarray(self.kernel.T)
        )
        for support, moves in support_moves(
            self.constraints(), radius, max(32, min(4000, 2**20 // len(radius)))
        ):
            tangent = np.zeros((len(left), moves.shape[1]))
            for held, size in zip(support, moves):
                tangent += left.take(held, axis=1) * size
            yield tangent


def split(kernel, constraint=None):
    """The parts of {x* + N z}, or of {x : D x + b = 0} with an orthonormal kernel N (n, k), as a list of `Part`."""
    pattern = kernel.T if constraint is None else constraint
    q = len(pattern)
    graph = scipy.sparse.csr_array(pattern != 0)
    graph = scipy.sparse.block_array([[None, graph], [graph.T, None]], format="csr")
    label = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
    parts = []
    for part in np.unique(label[q:]):
        (lines,), (index,) = (
            np.nonzero(label[:q] == part),
            np.nonzero(label[q:] == part),
        )
        if constraint is None:
            parts.append(
                Part(index, lines, kernel[np.ix_(index, lines)], None, len(lines))
            )
        else:  # the projector N N^T is one of parts, too, and its trace the dimension
            dimension = round(float((kernel[index] ** 2).sum()))
            columns = np.arange(kernel.shape[1])
            parts.append(
                Part(
                    index,
                    columns,
                    kernel[index],
                    constraint[np.ix_(lines, index)],
                    dimension,
                )
            )
    return parts


def refuse_long(parts):
    """A ``ValueError`` where the circuits of these parts would take longer than anyone waits."""
    if sum(min(part.seconds) for part in parts) > MOST_SECONDS:
        part = max(parts, key=lambda part: min(part.seconds))
        n, k = len(part.index), part.dimension
        raise ValueError(
            f"the circuits of {n} entries tied by {n - k} constraints ({part.count:,} candidates) would take more than "
            f"{MOST_SECONDS / 60:g} minutes: hide explicit moves (DirectionAdjacency) or all moves up to a length "
            "(BallAdjacency) instead, or name charts"
        )


def rational(matrix):
    """A float matrix as exact rationals."""
    return fmpq_mat(
        *matrix.shape, [fmpq(*x.as_integer_ratio()) for x in np.ravel(matrix).tolist()]
    )


def left_inverse(kernel):
    """C (k, n) with C N = I, from k rows of N (n, k) of large volume; its entries are right to an ulp.

    Raises
    ------
    UncertifiableError
        If rounding in C v may change the data's move N C v by more than 1e-6.
    """
    n, k = kernel.shape
    row = np.frexp(np.abs(kernel).max(axis=1))[1][
        :, None
    ]  # units do not matter; powers of two change no digit
    scaled = np.ldexp(kernel, -row)
    column = np.frexp(np.abs(scaled).max(axis=0))[1]
    scaled = np.ldexp(scaled, -column)
    free = scipy.linalg.qr(scaled.T, mode="r", pivoting=True)[1][:k]
    with working_bits(192):
        inverse = (
            arb_mat([[arb(x) for x in line] for line in scaled[free].tolist()])
            .inv()
            .tolist()
        )
        doubt = np.array([[float(x.rad()) for x in line] for line in inverse])
        inverse = np.array([[float(x.mid()) for x in line] for line in inverse])
    inverse[np.abs(inverse) <= doubt] = 0.0
    reach = (np.abs(scaled) @ np.abs(inverse)).max()
    if not reach * EPS * (n - k + 4) < 1e-6 or doubt.max() > 2.0**-60 * EPS:
        raise UncertifiableError(
            "the columns of the kernel are too nearly parallel for double precision to place its circuits; give the "
            "constraints (AffineManifold) or a better basis"
        )
    left = np.zeros((k, n))
    left[:, free] = np.ldexp(inverse, -column[:, None] - row[free].T)
    return left


def _whole(row):
    """Rationals as integers and their common denominator."""
    common = lcm(*(int(x.q) for x in row))
    return [fmpz(x.p) * (common // int(x.q)) for x in row], fmpz(common)
