"""A mechanism is a query plus noise: it releases data, and it knows what the release promises."""

from dataclasses import dataclass

import numpy as np

from ._linalg import EPS, round_up
from ._loss import GaussianLoss
from ._product_loss import LaplaceLoss, one_coordinate
from .errors import NotRealizableError, UncertifiableError
from .guarantee import PrivacyGuarantee, Scope
from .moves import EllipsoidMoves, attaining
from .noise import GaussianNoise, LaplaceNoise, Noise
from .query import LinearQuery

#: A part of a move further than this (relative) off the column space of the noise is unprotected. Larger than the
#: residue that rounding leaves in a product of well-scaled factors, far smaller than a direction that was left out.
_REALIZABLE = 1e-10


@dataclass(frozen=True)
class Mechanism:
    """The release M(x) = F x + gamma on an affine manifold (DPAM eq. (3)).

    Parameters
    ----------
    query : LinearQuery
    noise : GaussianNoise or LaplaceNoise
        One noisy entry for each published entry.

    Raises
    ------
    ValueError
        If the sizes of query and noise differ.

    Examples
    --------
    >>> mechanism = Mechanism(LinearQuery([[1.0]]), GaussianNoise([2.0]))
    >>> mechanism.release([5.0], size=3, rng=0).shape
    (3, 1)
    """

    query: LinearQuery
    noise: Noise

    def __post_init__(self):
        if type(self.noise) not in _LOSSES:
            raise TypeError(f"noise: expected GaussianNoise or LaplaceNoise, got {type(self.noise).__name__}")
        if self.query.size != self.noise.size:
            raise ValueError(
                f"noise: expected {self.query.size} entries, one for each published entry, got {self.noise.size}"
            )

    def release(self, x, *, size=None, rng=None):
        """Publish F x + gamma.

        Parameters
        ----------
        x : array_like, shape (n,)
            The private data; they must lie on the manifold.
        size : int, optional
            Number of releases (m,) stacked along the first axis. Each one counts in the composition.
        rng : None, int, SeedSequence or Generator, optional

        Raises
        ------
        ValueError
            If x has the wrong length, is not finite or is off the manifold; the message holds no entry of x.
        """
        manifold = self.query.manifold
        if np.shape(x) != (manifold.size,):
            raise ValueError(f"x: expected shape ({manifold.size},), got {np.shape(x)}")
        if not np.isfinite(x).all():
            raise ValueError("x: expected finite numbers, got NaN or infinity")
        if not manifold.contains(x):
            raise ValueError(
                "x is off the manifold D x + b = 0: the guarantee does not cover it; check the constraints"
            )
        return self.query.matrix @ np.asarray(x, float) + self.noise.sample(size, rng)

    def shifts(self, moves):
        """Lambda^+ G z for the moves: what the noise must hide, in units of the noise.

        Raises
        ------
        NotRealizableError
            If a hidden move leaves the column space of the noise (DPAM eq. (8)); it names the direction.
        UncertifiableError
            If the noise is so badly scaled that double precision cannot tell.
        """
        columns = moves.factor if isinstance(moves, EllipsoidMoves) else moves.columns
        images = self.query.response @ columns
        shifts, off, conditioning = self.noise.whiten(images)
        bad = np.flatnonzero(off > _REALIZABLE * np.linalg.norm(images, axis=0))
        if len(bad):
            direction = self.query.manifold.kernel @ columns[:, bad[0]]
            label = self.query.manifold.labels[int(np.abs(direction).argmax())]
            raise NotRealizableError(
                f"the noise leaves a protected direction bare: {len(bad)} of {columns.shape[1]} hidden moves (the first one "
                f"moves {label} most) leave the column space of the noise factor and would be published exactly; "
                "add noise in this direction, or protect less",
                direction,
            )
        error = 8 * EPS * (shifts.shape[0] + self.query.manifold.dimension) * conditioning
        if error > 1e-6:
            raise UncertifiableError(
                f"the noise factor spans sizes {conditioning:.1e} apart: double precision cannot certify its guarantee; "
                "rescale the data, or protect fewer directions"
            )
        return shifts, error

    def guarantee(self, adjacency):
        """What the release promises (DPAM Theorems 1 and 2), as a `PrivacyGuarantee`.

        Raises
        ------
        NotRealizableError
            If the noise misses a protected direction.
        """
        moves = adjacency.moves(self.query.manifold)
        shifts, error = self.shifts(moves)
        scope = Scope.of(adjacency, self.query.manifold, caveats=self._published())
        loss = loss_of(type(self.noise), shifts * (1 + error), moves, self._full_rank())
        return PrivacyGuarantee(loss, scope, quoted_delta=0.0 if loss.epsilon(0.0) < np.inf else 1e-5)

    def _full_rank(self):
        factor = self.noise.factor
        return factor.ndim == 1 or np.linalg.matrix_rank(factor) == factor.shape[1]

    def _published(self):
        rank = self.noise.size if self.noise.factor.ndim == 1 else self.noise.factor.shape[1]
        if rank < min(self.query.size, self.query.manifold.dimension):
            return ("anything outside the noise's column space, which is published exactly",)
        return ()


def loss_of(law, shifts, moves, full_rank=True):
    """The privacy loss of a noise law for shifts Lambda^+ G z (r, M) of the moves, rounded up."""
    return _LOSSES[law](shifts, moves, full_rank)


def _gaussian_loss(shifts, moves, full_rank):
    """Exactly y-GDP, y the largest 2-norm of a shift (DPAM Theorem 1)."""
    if isinstance(moves, EllipsoidMoves):
        return GaussianLoss(float(round_up(np.linalg.norm(shifts, 2) * (1 + 1e-14))), exact=moves.exact)
    sizes = np.linalg.norm(shifts, axis=0)
    return GaussianLoss(float(round_up(sizes.max(), 2)), attaining(sizes), moves.exact)


def _laplace_loss(shifts, moves, full_rank):
    """Product Laplace laws, exact for a factor of full column rank (DPAM Theorem 2)."""
    if isinstance(moves, EllipsoidMoves):
        return one_coordinate(EllipsoidMoves(shifts).worst(np.eye(len(shifts)), 1).value * (1 + 1e-14))
    return LaplaceLoss.of(shifts, exact=moves.exact and full_rank)


_LOSSES = {GaussianNoise: _gaussian_loss, LaplaceNoise: _laplace_loss}
