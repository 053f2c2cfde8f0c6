"""Enclose points and given ellipsoids in the cheapest ellipsoid.

A white floor, and an l2 ball of secrets, ask that the covariance be at least a given one.
Such an ellipsoid is the hull of its boundary points. Those that matter are found where the
ellipsoid around the points so far is too narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core._progress import piece
from ..core.ellipsoid import Shape, enclosing_ellipsoid

_ROUNDS = 60
_FEW_ROUNDS = 4  # where the dimension is large and each round costs seconds
_LARGE = 24
_USUAL_ROUNDS = 5
#: Rounds after which this gap will do around more ellipsoids than a floor and a secret:
#: models, of which a few stand for many.
_LATE = 10
_LATE_GAP = 1e-4
#: Gap of the first ellipsoid, and how much sharper the next one is than it has to be.
_COARSE = 1e-4
_SHARPER = 0.1
#: Divide and conquer, the default, fails to converge on some nearly orthogonal matrices.
_DRIVER = "gesvd"


def covering_ellipsoid(
    points: NDArray,
    balls: Sequence[NDArray],
    weight_factor: NDArray,
    *,
    tol: float = 1e-9,
) -> Shape:
    """The ellipsoid of least weighted trace around points (r, M) and ellipsoids E u, ||u|| <= 1, of roots E (r, q).

    It has the least tr(W Sigma), W = L L^T, subject to p^T Sigma^-1 p <= 1 and
    E E^T <= Sigma, up to rounding. Points may be missing if a ball spans all dimensions.
    """
    if not balls:
        found = enclosing_ellipsoid(points, weight_factor, tol=tol)
        return Shape(found.factor, found.lower_bound)
    is_large = len(points) > _LARGE
    rounds = _ROUNDS
    near = 1 - 1e-3
    if is_large:
        rounds = _FEW_ROUNDS
        near = 1.0
    chosen = np.hstack([points, *(_axes(ball, weight_factor) for ball in balls)])
    best = balls[0]
    lower_bound = 0.0
    cheapest = np.inf
    sharpness = max(_COARSE, tol / 4)
    for count in range(rounds):
        with piece(count, _USUAL_ROUNDS):
            found = enclosing_ellipsoid(chosen, weight_factor, tol=sharpness)
        lower_bound = max(lower_bound, found.lower_bound)
        factor = found.factor
        violated = []
        for ball in balls:
            _, s, vt = _svd(np.linalg.solve(found.factor, ball))
            if (s > 1).any():
                widest = _directions(vt[s > near].T, is_large)
                violated.append(ball @ widest)
            factor = _enlarged(factor, ball)
        sizes = np.linalg.norm(np.linalg.solve(factor, points), axis=0)
        if (sizes > 1).any():  # no longer among those chosen
            violated.append(points[:, sizes > 1])
            factor = factor * sizes.max()
        cost = float(np.sum((weight_factor.T @ factor) ** 2))
        if cost < cheapest:
            best = factor
            cheapest = cost
        gap = cheapest / lower_bound - 1
        if gap <= tol or (not violated and sharpness <= tol / 4):
            break
        if count >= _LATE and len(balls) > 2 and gap <= _LATE_GAP:
            break
        # the points that carry the ellipsoid so far give its bound again
        chosen = np.hstack([chosen[:, found.support], *violated])
        sharpness = max(tol / 4, _SHARPER * min(gap, sharpness))
    return Shape(best, lower_bound)


def _enlarged(factor: NDArray, ball: NDArray) -> NDArray:
    """The factor, larger only in the directions in which a ball sticks out."""
    U, s, _ = _svd(np.linalg.solve(factor, ball))
    lacking = np.maximum(s, 1.0) - 1
    return factor + (factor @ U * lacking) @ U.T


def _svd(matrix: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    return scipy.linalg.svd(matrix, full_matrices=False, lapack_driver=_DRIVER)


def _axes(ball: NDArray, weight_factor: NDArray) -> NDArray:
    """Boundary points of a ball that alone make the cheapest ellipsoid around it."""
    _, _, vt = scipy.linalg.svd(weight_factor.T @ ball, full_matrices=False)
    return ball @ vt.T


def _directions(vectors: NDArray, large: bool) -> NDArray:
    """Unit vectors whose squares span those of a subspace, or a basis of a large one."""
    directions = [vectors]
    if not large:
        for one, other in combinations(vectors.T[:, :, None], 2):
            directions.append((one + other) / np.sqrt(2))
            directions.append((one - other) / np.sqrt(2))
    return np.hstack(directions)


def remainder(factor: NDArray, ball: NDArray, least: float = 1e-7) -> NDArray:
    """A root X of factor factor^T - ball ball^T, without directions below ``least``."""
    inside = np.linalg.solve(factor, ball)
    U, s, _ = scipy.linalg.svd(inside)
    left = np.ones(len(factor))
    rest = np.maximum(1 - s**2, 0.0)
    left[: len(s)] = np.sqrt(rest)
    keep = left > least
    columns = U[:, keep] * left[keep]
    return factor @ columns
