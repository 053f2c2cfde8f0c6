"""Lipschitz constants of networks along an affine manifold."""

from collections.abc import Sequence

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from privcontrol.core._linalg import EPS, real_array, round_up, sequence_of
from privcontrol.core.adjacency import checked_manifold
from privcontrol.core.errors import UncertifiableError
from privcontrol.core.lipschitz.bound import LipschitzBound
from privcontrol.core.lipschitz.feedforward import feedforward_lipschitz
from privcontrol.core.manifold import AffineManifold


def lipschitz_along(
    manifold: AffineManifold,
    weights: Sequence[ArrayLike],
    *,
    method: str = "sdp",
    slopes: tuple[float, float] = (0, 1),
) -> LipschitzBound:
    """Bound a network's 2-norm gain for moves along a manifold, from above.

    The first layer sees of a tangent move what the orthogonal projection onto the
    manifold's directions leaves of it. The bound is that of the network whose first
    weight is projected, and a term for the rounding of the projection.

    Parameters
    ----------
    manifold : AffineManifold
        Where the inputs live.
    weights, method, slopes
        As for `feedforward_lipschitz`.

    Returns
    -------
    LipschitzBound
        With p = q = 2, at most that of the whole space up to rounding.

    Raises
    ------
    ValueError
        If the first weight does not take the manifold's data.
    UncertifiableError
        If the manifold's directions are too nearly parallel for double precision.

    Examples
    --------
    >>> shares = AffineManifold([[1.0, 1.0]])
    >>> weights = [[[3.0, 3.1]], [[1.0]]]  # sees the public total, little else
    >>> bound = lipschitz_along(shares, weights)
    >>> round(bound, 4), round(feedforward_lipschitz(weights), 4)
    (0.0707, 4.3139)
    """
    kernel = checked_manifold(manifold).kernel
    size = manifold.size
    layers = sequence_of(weights, "weights", "matrices")
    first = real_array(layers[0], "weights[0]", shape=(None, size))
    basis, _ = scipy.linalg.qr(kernel / np.linalg.norm(kernel, axis=0), mode="economic")
    projected = first @ basis @ basis.T
    rest = layers[1:]
    bound = feedforward_lipschitz([projected, *rest], method=method, slopes=slopes)
    behind = feedforward_lipschitz(
        [np.eye(len(first)), *rest], method="product", slopes=slopes
    )
    missed = _missed(first, projected, kernel, manifold.kernel_error)
    return LipschitzBound(
        float(round_up(bound + behind * missed, 4)), p=2, q=2, method=bound.method
    )


def _missed(
    first: NDArray, projected: NDArray, kernel: NDArray, kernel_error: float
) -> float:
    """Bound of ||(first - projected) v|| / ||v|| for tangent moves v, rounding included."""
    rounding = 8 * EPS * (len(kernel) + 4)
    difference = first - projected
    sizes = np.linalg.norm(first) + np.linalg.norm(projected)
    length = float(np.linalg.norm(kernel))
    left = np.linalg.norm(difference @ kernel) + rounding * sizes * length
    stray = kernel_error * np.sqrt(kernel.size)
    left += stray * sizes
    least = float(scipy.linalg.svdvals(kernel)[-1]) - rounding * length - stray
    if least <= 0:
        raise UncertifiableError(
            "the manifold's directions are too nearly parallel for double precision; "
            "rescale the data"
        )
    return float(left / least)
