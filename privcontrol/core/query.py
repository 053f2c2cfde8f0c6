"""Linear queries: the published data, and their response to moves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from numpy.typing import ArrayLike, NDArray

from ..numerics.balls import (
    FINE_BITS,
    BallMatrix,
    Rational,
    RationalMatrix,
    ball_matrix,
    is_quick,
    rational_matrix,
    working_bits,
)
from ..numerics.checks import one_of, real_array
from ..numerics.ellipsoid import MoveBasis
from ..numerics.errors import (
    PrivacyError,
    UncertifiableError,
)
from ..numerics.linalg import EPS, column_norms, rank_tolerance
from ..numerics.objects import Frozen, array_identity
from .adjacency import Adjacency, checked_adjacency, checked_manifold
from .manifold import AffineManifold, Moves, kernel_error

NO_NOISE = (
    "no hidden move changes the published data: no noise is needed for this adjacency; "
    "publish F x as it is, or check the query and the adjacency"
)


class LinearQuery(Frozen):
    """Publish F x of the x on a manifold (DPAM eq. (2)).

    A query is immutable, and equal to a query of the same F and manifold.

    Parameters
    ----------
    F : array_like, sparse matrix or LinearOperator, shape (m, n)
        The published data are F x, before noise.
    manifold : AffineManifold, optional
        Where the data live; all of R^n by default.

    Attributes
    ----------
    matrix : ndarray, sparse array or LinearOperator, shape (m, n)
        F.
    manifold : AffineManifold

    Raises
    ------
    ValueError
        If F does not have one column for each entry of the data, or holds NaN.
    TypeError
        If the manifold is none, or F is not real.

    See Also
    --------
    AffineManifold, Mechanism, output_query

    Examples
    --------
    >>> query = LinearQuery([[1.0, 0.0], [0.0, 1.0]], AffineManifold([[1.0, 1.0]]))
    >>> query.response.shape
    (2, 1)
    """

    matrix: Any
    manifold: AffineManifold

    def __init__(
        self,
        F: ArrayLike | scipy.sparse.sparray | scipy.sparse.linalg.LinearOperator,
        manifold: AffineManifold | None = None,
    ) -> None:
        matrix = _checked_matrix(F)
        if manifold is None:
            manifold = AffineManifold.from_kernel(np.eye(matrix.shape[1]))
        checked_manifold(manifold)
        if matrix.shape[1] != manifold.size:
            raise ValueError(
                f"F: expected {manifold.size} columns, one an entry of the manifold's "
                f"data, got {matrix.shape}"
            )
        self._set(matrix=matrix, manifold=manifold)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions of a guarantee about the query, in addition to the manifold."""
        return ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size} entries of {self.manifold!r})"

    def _identity(self) -> tuple[object, ...]:
        if isinstance(self.matrix, np.ndarray):
            return (array_identity(self.matrix), self.manifold)
        if not isinstance(self.matrix, scipy.sparse.linalg.LinearOperator):
            canonical = self.matrix.copy()
            canonical.sum_duplicates()
            canonical.eliminate_zeros()
            parts = (canonical.data, canonical.indices, canonical.indptr)
            return (canonical.shape, *(part.tobytes() for part in parts), self.manifold)
        return (id(self.matrix), self.manifold)

    @property
    def size(self) -> int:
        """Number of published entries m."""
        return self.matrix.shape[0]

    @cached_property
    def response(self) -> NDArray[np.float64]:
        """G = F N (m, k), the response of the published entries to a tangent move."""
        return real_array(self.matrix @ self.manifold.kernel, "F N")

    @cached_property
    def rounding(self) -> NDArray[np.float64]:
        """Bounds (m, k) of the errors of G; times |z| those of the product G z, too."""
        bounds = self._error_bounds(abs(self.manifold.kernel))
        error = kernel_error(self.manifold)
        if error:
            ones = np.ones((self.manifold.size, 1))
            bounds = bounds + error / EPS * self._error_bounds(ones)
        return bounds

    def sensitivity(self, adjacency: Adjacency, norm: float = 2) -> float:
        """Return sup ||G z|| over the hidden moves, rounded up.

        Parameters
        ----------
        adjacency : Adjacency
        norm : {2, 1, inf}, optional
            2 for Gaussian noise, 1 for Laplace noise.

        Returns
        -------
        float
            In the norm that is asked for, in the units of the query.

        Raises
        ------
        ValueError
            If the norm is another one, or the adjacency does not fit the manifold.
        TypeError
            If the adjacency is none.

        Examples
        --------
        >>> from privcontrol.core import *
        >>> round(LinearQuery([[1.0, 1.0]]).sensitivity(BallAdjacency(2.0)), 6)
        2.828427
        """
        one_of(norm, "norm", (1, 2, np.inf))
        moves = checked_adjacency(adjacency).moves(self.manifold)
        return moves.sensitivity(self, norm)

    def _applied(
        self, data: NDArray[np.float64], errors: NDArray[np.float64] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return F v for data-space moves v (n, M), and bounds of the errors.

        ``errors`` (n, M) are bounds of those of the moves.
        """
        values = self.matrix @ data
        bounds = self._error_bounds(np.abs(data))
        if errors is None:
            return values, bounds
        rounding = 1 + EPS * (self.manifold.size + 4)
        return values, bounds + self._sizes @ errors * rounding

    @property
    def _sizes(self) -> Any:
        """|F|, dense or sparse."""
        if isinstance(self.matrix, scipy.sparse.linalg.LinearOperator):
            return self._operator_sizes
        return abs(self.matrix)

    @cached_property
    def _operator_sizes(self) -> NDArray[np.float64]:
        """|F| of a LinearOperator."""
        return np.abs(self.matrix @ np.eye(self.manifold.size))

    def _ball_product(
        self, data: NDArray[np.float64] | Sequence[Sequence[Rational]]
    ) -> BallMatrix | None:
        """Return F v (m, M) as balls for exact data-space moves v.

        ``data`` holds them as doubles (n, M), or as M columns of n rationals. The result
        is None if F is a LinearOperator, or if the product would take long.
        """
        if isinstance(self.matrix, scipy.sparse.linalg.LinearOperator):
            return None
        count = data.shape[1] if isinstance(data, np.ndarray) else len(data)
        if not is_quick(self.size, self.manifold.size, count):
            return None
        matrix = self.matrix
        if not isinstance(matrix, np.ndarray):
            matrix = matrix.toarray()
        with working_bits(FINE_BITS):
            if isinstance(data, np.ndarray):
                return ball_matrix(matrix) * ball_matrix(data)
            columns = RationalMatrix([list(column) for column in data]).transpose()
            return ball_matrix(rational_matrix(matrix) * columns)

    def _error_bounds(self, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bound the errors (m, M) of the products of F with columns.

        ``sizes`` (n, M) are the absolute values of the columns. Each sum of a
        LinearOperator may have met a whole column.
        """
        terms = self.manifold.size
        sums = self._sizes @ sizes
        if isinstance(self.matrix, scipy.sparse.linalg.LinearOperator):
            sums = np.broadcast_to(column_norms(sums), sums.shape)
        elif not isinstance(self.matrix, np.ndarray):
            terms = int(np.diff(self.matrix.indptr).max(initial=0))
        return EPS * (terms + self.manifold.dimension + 4) * sums

    def _move_basis(self, moves: Moves) -> MoveBasis:
        """Choose a `MoveBasis`, of as many moves as directions need noise."""
        responses, errors = moves.output_responses(self)
        largest = np.abs(responses).max(axis=1)
        # In the other rows rounding has left a residue of zero.
        told = largest > 2 * errors.max(axis=1)
        if not told.any():
            self._refuse_untold(moves)
        responses = np.where(told[:, None], responses, 0.0)
        # Rows are brought to one size: which directions there are is no matter of units.
        units = largest[told, None]
        scaled = responses[told] / units
        noise = column_norms(errors[told] / units).max()
        triangle, order = scipy.linalg.qr(scaled, mode="r", pivoting=True)
        diagonal = np.abs(np.diag(triangle))
        smallest = rank_tolerance(scaled, diagonal) + noise
        rank = int(np.sum(diagonal > smallest))
        basis = order[:rank]
        others = order[rank:]
        upper = triangle[:rank, :rank]
        coordinates = np.zeros((rank, len(order)))
        coordinates[np.arange(rank), basis] = 1.0
        coordinates[:, others] = scipy.linalg.solve_triangular(
            upper, triangle[:rank, rank:]
        )
        return MoveBasis(moves.vectors[:, basis], responses[:, basis], coordinates)

    def _refuse_untold(self, moves: Moves) -> NoReturn:
        """Say of moves whose responses are zero in doubles whether they are zero."""
        if not moves.sensitivity(self):
            raise PrivacyError(NO_NOISE)
        raise UncertifiableError(
            "the hidden moves cancel in the query up to rounding: double precision cannot "
            "distinguish their effect from zero; publish less, or rescale the data"
        )


def _checked_matrix(F: Any) -> Any:
    """Return F as a read-only array, a sparse array of its own, or a LinearOperator."""
    if isinstance(F, scipy.sparse.linalg.LinearOperator):
        return F
    is_sparse = scipy.sparse.issparse(F)
    if is_sparse:
        matrix = F.tocsr(copy=True)
        real_array(matrix.data, "F", copy=False)
        matrix = matrix.astype(float, copy=False)
        matrix.data.flags.writeable = False
    else:
        matrix = real_array(F, "F")
    if len(matrix.shape) != 2 or not all(matrix.shape):
        raise ValueError(
            f"F: expected shape (m, n), got {matrix.shape}; write a single published "
            "entry as [[...]]"
        )
    return matrix


def checked_query(query: object) -> LinearQuery:
    """Return the query itself, or raise an error that says how to write one."""
    if isinstance(query, LinearQuery):
        return query
    raise TypeError(
        "query: expected a LinearQuery as first argument, got "
        f"{type(query).__name__}; write LinearQuery(F, manifold)"
    )
