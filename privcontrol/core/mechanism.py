"""A mechanism is a query plus noise: it releases data, and it knows what the release promises."""

from dataclasses import dataclass

import numpy as np

from ._linalg import EPS, column_norms, real_array, round_up
from ._losses.gaussian import GaussianLoss
from ._losses.laplace import LaplaceLoss, one_coordinate
from .errors import NotRealizableError, UncertifiableError
from .guarantee import PrivacyGuarantee, Scope
from .moves import EllipsoidMoves, attaining
from .noise import GaussianNoise, LaplaceNoise, Noise
from .query import LinearQuery

#: A part of a move further than this (relative) off the column space of the noise is unprotected. Larger than the
#: residue that rounding leaves in a product of well-scaled factors, far smaller than a direction that was left out.
_REALIZABLE = 1e-10

#: Relative error of a shift beyond which nothing is certified, and the shift (in units of the noise) that needs no digits.
_CERTAIN, _NEGLIGIBLE = 1e-6, 1e-6


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
        TypeError
            If x is complex or not numeric.
        """
        manifold = self.query.manifold
        if np.shape(x) != (manifold.size,):
            raise ValueError(f"x: expected shape ({manifold.size},), got {np.shape(x)}")
        x = real_array(x, "x", copy=False)
        if not manifold.contains(x):
            raise ValueError(
                "x is off the manifold D x + b = 0: the guarantee does not cover it; check the constraints"
            )
        return self.query.matrix @ x + self.noise.sample(size, rng)

    def shifts(self, moves):
        """Lambda^+ G z for the moves, what the noise must hide in units of the noise, and bounds of its errors.

        Raises
        ------
        NotRealizableError
            If a hidden move leaves the column space of the noise (DPAM eq. (8)); it names the direction.
        UncertifiableError
            If the noise is so badly scaled, or the query cancels so much, that double precision cannot tell.
        """
        columns = moves.factor if isinstance(moves, EllipsoidMoves) else moves.columns
        images, doubt = self.query.images(moves)
        shifts, bare, errors = self._whitened(images, doubt)
        bad = np.flatnonzero(bare.any(axis=0))
        if len(bad):
            direction = self.query.manifold.kernel @ columns[:, bad[0]]
            label = self.query.manifold.labels[int(np.abs(direction).argmax())]
            raise NotRealizableError(
                f"the noise leaves a protected direction bare: {len(bad)} of {columns.shape[1]} hidden moves (the first one "
                f"moves {label} most) leave the column space of the noise factor and would be published exactly; "
                "add noise in this direction, or protect less",
                direction,
            )
        error, size = column_norms(errors).max(), column_norms(shifts).max()
        if error > _CERTAIN * max(size, _NEGLIGIBLE):
            raise UncertifiableError(
                f"double precision cannot certify the guarantee: what the noise must hide is known to {error:.1e} of {size:.1e}; "
                "rescale the data, or protect fewer directions"
            )
        return shifts, errors

    def _whitened(self, images, doubt):
        """`Noise.whiten`, with True for each published entry (m, M) that an image changes and the noise does not reach."""
        shifts, bare, errors = self.noise.whiten(images, doubt)
        factor, reach = np.abs(self.noise.factor), errors + _REALIZABLE * np.abs(shifts)
        # entry by entry: units differ, and a small entry may be all there is to hide
        reach = factor[:, None] * reach if factor.ndim == 1 else factor @ reach
        return shifts, bare > reach + 2 * doubt + _REALIZABLE * np.abs(images), errors

    def guarantee(self, adjacency):
        """What the release promises (DPAM Theorems 1 and 2), as a `PrivacyGuarantee`.

        Raises
        ------
        NotRealizableError
            If the noise misses a protected direction.
        """
        moves = adjacency.moves(self.query.manifold)
        shifts = _outward(*self.shifts(moves), isinstance(moves, EllipsoidMoves))
        scope = Scope.of(adjacency, self.query.manifold, caveats=self._published())
        loss = loss_of(type(self.noise), shifts, moves, self._full_rank())
        return PrivacyGuarantee(loss, scope, quoted_delta=0.0 if loss.epsilon(0.0) < np.inf else 1e-5)

    def _full_rank(self):
        factor = self.noise.factor
        return factor.ndim == 1 or np.linalg.matrix_rank(factor) == factor.shape[1]

    def _published(self):
        response, doubt = self.query.response, self.query.rounding
        if self.noise.factor.ndim == 1 and self.noise.factor.all():
            return ()
        if self._whitened(response, doubt)[1].any():
            return ("anything outside the noise's column space, which is published exactly",)
        return ()


def _outward(shifts, errors, ball):
    """Shifts enlarged by their errors; those of a ball's axes all alike, so that their largest combination is."""
    if not ball:
        return shifts + np.copysign(errors, shifts)
    size = np.linalg.norm(shifts, 2)
    return shifts * (1 + np.linalg.norm(errors) / size) if size else errors


def loss_of(law, shifts, moves, full_rank=True):
    """The privacy loss of a noise law for shifts Lambda^+ G z (r, M) of the moves, rounded up."""
    return _LOSSES[law](shifts, moves, full_rank)


def _gaussian_loss(shifts, moves, full_rank):
    """Exactly y-GDP, y the largest 2-norm of a shift (DPAM Theorem 1)."""
    if isinstance(moves, EllipsoidMoves):
        return GaussianLoss(float(round_up(np.linalg.norm(shifts, 2) * (1 + 1e-14))), exact=moves.exact)
    sizes = column_norms(shifts) * (1 + EPS * (len(shifts) + 2))
    return GaussianLoss(float(round_up(sizes.max(), 2)), attaining(sizes), moves.exact)


def _laplace_loss(shifts, moves, full_rank):
    """Product Laplace laws, exact for a factor of full column rank (DPAM Theorem 2)."""
    if isinstance(moves, EllipsoidMoves):
        return one_coordinate(EllipsoidMoves(shifts).worst(np.eye(len(shifts)), 1).value * (1 + 1e-14))
    return LaplaceLoss.of(shifts, exact=moves.exact and full_rank)


_LOSSES = {GaussianNoise: _gaussian_loss, LaplaceNoise: _laplace_loss}
