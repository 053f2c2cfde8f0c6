"""Linear queries: what is published before noise, and how much a hidden move changes it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from ._linalg import one_of, rank_tolerance, real_array
from .errors import PrivacyError
from .manifold import AffineManifold


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
        if not (scipy.sparse.issparse(F) or isinstance(F, scipy.sparse.linalg.LinearOperator)):
            F = real_array(F, "F", ndim=2)
        elif scipy.sparse.issparse(F):
            real_array(F.tocsr().data, "F", copy=False)
        if manifold is None:
            manifold = AffineManifold.from_kernel(np.eye(F.shape[1]))
        if F.shape[1] != manifold.size:
            raise ValueError(f"F: expected {manifold.size} columns, one an entry of the manifold's data, got {F.shape}")
        self.matrix = F
        self.manifold = manifold

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
        worst = adjacency.moves(self.manifold).worst(self.response, norm)
        # a product of this size errs by at most k roundings an entry
        return float(worst.value * (1 + 4 * self.manifold.dimension * np.finfo(float).eps))

    def spanner(self, moves):
        """A `Spanner` of finitely many moves; its rank is the number of directions that need noise.

        Raises
        ------
        PrivacyError
            If no hidden move changes what is published, so that there is nothing to design.
        """
        Z = moves.columns
        images = self.response @ Z
        size = np.linalg.norm(images, axis=0)
        if not size.max() > 0:
            raise PrivacyError("no hidden move changes what is published: no noise is needed for this adjacency")
        _, R, order = scipy.linalg.qr(images, mode="economic", pivoting=True)
        diagonal = np.abs(np.diag(R))
        rank = int(np.sum(diagonal > rank_tolerance(images, diagonal)))
        basis = images[:, order[:rank]]
        coordinates = scipy.linalg.lstsq(basis, images)[0]
        return Spanner(Z[:, order[:rank]], basis, coordinates)
