"""Linear queries: what is published before noise, and how much a hidden move changes it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from flint import arb_mat

from ._linalg import EPS, column_norms, one_of, rank_tolerance, real_array
from ._shapes.exact import exact_product, is_small
from .errors import PrivacyError, UncertifiableError
from .manifold import AffineManifold
from .moves import EllipsoidMoves, FiniteMoves

NO_NOISE = (
    "no hidden move changes what is published: no noise is needed for this adjacency; publish F x as it is, or check the "
    "query and the adjacency"
)


@dataclass(frozen=True)
class Spanner:
    """A basis taken from the moves themselves, in which every move has small coordinates.

    ``moves`` (k, r) are the basis moves, ``responses`` (m, r) their images under the query, ``coordinates`` (r, M)
    all moves in that basis. Near-maximal volume keeps the coordinates near one, whatever the spread of the moves.
    """

    moves: np.ndarray
    responses: np.ndarray
    coordinates: np.ndarray


class LinearQuery:
    """The query x -> F x on a manifold (DPAM eq. (3)).

    Parameters
    ----------
    F : array_like, sparse matrix or LinearOperator, shape (m, n)
        What is published, before noise.
    manifold : AffineManifold, optional
        Where the data live; all of R^n by default.

    Raises
    ------
    ValueError
        If F does not have one column for each entry of the data, or holds NaN.

    Examples
    --------
    >>> query = LinearQuery([[1.0, 0.0], [0.0, 1.0]], AffineManifold([[1.0, 1.0]]))
    >>> query.response.shape
    (2, 1)
    """

    def __init__(self, F, manifold=None):
        if not (
            scipy.sparse.issparse(F)
            or isinstance(F, scipy.sparse.linalg.LinearOperator)
        ):
            if np.ndim(F) == 1:
                raise ValueError(
                    f"F: expected shape (m, n), got {np.shape(F)}; write a single published entry as [[...]]"
                )
            F = real_array(F, "F", ndim=2)
        elif scipy.sparse.issparse(F):
            F = F.tocsr(copy=True)
            real_array(F.data, "F", copy=False)
        if manifold is None:
            manifold = AffineManifold.from_kernel(np.eye(F.shape[1]))
        if not isinstance(manifold, AffineManifold):
            raise TypeError(
                f"manifold: expected an AffineManifold, got {type(manifold).__name__}; write AffineManifold(D, b)"
            )
        if F.shape[1] != manifold.size:
            raise ValueError(
                f"F: expected {manifold.size} columns, one an entry of the manifold's data, got {F.shape}"
            )
        self.matrix = F
        self.manifold = manifold

    def __repr__(self):
        return f"{type(self).__name__}({self.size} entries of {self.manifold!r})"

    @property
    def size(self):
        """Number of published entries m."""
        return self.matrix.shape[0]

    @cached_property
    def response(self):
        """G = F N (m, k): how the published entries answer to a tangent move."""
        return real_array(self.matrix @ self.manifold.kernel, "F N")

    def sensitivity(self, adjacency, norm=2):
        """sup ||G z|| over the hidden moves, rounded up.

        Parameters
        ----------
        adjacency : Adjacency
        norm : {1, 2, inf}, optional
            Norm in which the published entries are measured: 2 for Gaussian, 1 for Laplace noise.
        """
        one_of(norm, "norm", (1, 2, np.inf))
        moves = adjacency.moves(self.manifold)
        if getattr(moves, "data", None) is not None:
            images, doubt = self.images(moves)
            value = column_norms(np.abs(images) + doubt, norm).max()
        else:
            worst = moves.worst(self.response, norm)
            value = worst.value + self._slack(moves, worst, norm)
        return float(value * (1 + 4 * EPS * (self.manifold.dimension + 1)))

    def images(self, moves):
        """Images (m, M) of moves (of a ball: of its axes), and bounds (m, M) of their rounding errors.

        Moves that were given in data space are taken there: their tangent coordinates are rounded.
        """
        if getattr(moves, "data", None) is not None:
            images = self.matrix @ moves.data
            return images, self._doubt(np.abs(moves.data), images)
        columns = moves.factor if isinstance(moves, EllipsoidMoves) else moves.columns
        return self.response @ columns, self.rounding @ np.abs(columns)

    def ball_images(self, moves):
        """`images` as a matrix of balls, and bounds (m, M) of their errors beyond those: none where F z is formed exactly."""
        data = getattr(moves, "data", None)
        if (
            data is not None
            and isinstance(self.matrix, np.ndarray)
            and is_small(self.size, *data.shape)
        ):
            return exact_product(self.matrix, data), np.zeros(
                (self.size, data.shape[1])
            )
        images, doubt = self.images(moves)
        return arb_mat(images.tolist()), doubt

    @cached_property
    def rounding(self):
        """Bounds (m, k) of the rounding errors of G, and per unit of each tangent coordinate those of G z."""
        doubt = self._doubt(abs(self.manifold.kernel), self.response)
        if self.manifold.kernel_error:
            doubt = (
                doubt
                + self.manifold.kernel_error
                * self._doubt(np.ones((self.manifold.size, 1)), doubt)
                / EPS
            )
        return doubt

    def _doubt(self, sizes, values):
        """Bounds of the rounding errors of products ``values`` of F with columns of the given entrywise sizes."""
        F, terms = self.matrix, self.manifold.size
        if isinstance(
            F, scipy.sparse.linalg.LinearOperator
        ):  # its sums are its own: each may have met a whole column
            sizes = np.broadcast_to(column_norms(values), values.shape)
        else:
            terms = (
                int(np.diff(F.indptr).max(initial=0))
                if scipy.sparse.issparse(F)
                else terms
            )
            sizes = abs(F) @ sizes
        return EPS * (terms + self.manifold.dimension + 4) * sizes

    def _slack(self, moves, worst, norm):
        """A bound of what rounding may have hidden of the largest image."""
        if isinstance(moves, FiniteMoves):
            return FiniteMoves(np.abs(moves.columns)).worst(self.rounding, norm).value
        if isinstance(moves, EllipsoidMoves):
            sizes = np.linalg.norm(self.rounding @ np.abs(moves.factor), axis=1)
        else:  # a stream is gone through once: its worst move speaks for all
            sizes = self.rounding @ np.abs(worst.move)
        return float(np.linalg.norm(sizes, norm))

    def spanner(self, moves):
        """A `Spanner` of finitely many moves; its rank is the number of directions that need noise.

        Raises
        ------
        PrivacyError
            If no hidden move changes what is published, so that there is nothing to design.
        UncertifiableError
            If double precision cannot tell whether one does.
        """
        images, doubt = self.images(moves)
        if not images.any():
            raise PrivacyError(NO_NOISE)
        largest = np.abs(images).max(axis=1)
        seen = largest > 2 * doubt.max(
            axis=1
        )  # in the other rows rounding has left a residue of zero
        if not seen.any():
            raise UncertifiableError(
                "what the hidden moves change cancels in the query up to rounding: double precision cannot tell it from "
                "zero; publish less, or rescale the data"
            )
        images = np.where(seen[:, None], images, 0.0)
        # the units of the published entries do not matter: rows of equal size decide which directions there are
        scaled, doubt = (
            images[seen] / largest[seen, None],
            doubt[seen] / largest[seen, None],
        )
        R, order = scipy.linalg.qr(scaled, mode="r", pivoting=True)
        diagonal = np.abs(np.diag(R))
        rank = int(
            np.sum(
                diagonal > rank_tolerance(scaled, diagonal) + column_norms(doubt).max()
            )
        )
        basis, others = order[:rank], order[rank:]
        coordinates = np.zeros((rank, len(order)))
        coordinates[np.arange(rank), basis] = 1.0
        coordinates[:, others] = scipy.linalg.solve_triangular(
            R[:rank, :rank], R[:rank, rank:]
        )
        return Spanner(moves.columns[:, basis], images[:, basis], coordinates)
