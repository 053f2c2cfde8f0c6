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

from ..core._linalg import EPS
from ..core._progress import piece
from ..core.ellipsoid import Shape, enclosing_ellipsoid

_ROUNDS = 60
_FEW_ROUNDS = 4  # where the dimension is large and each round costs seconds
_LARGE = 24
_USUAL_ROUNDS = 5
#: Rounds after which this gap will do around more ellipsoids than a floor and a secret:
#: models, of which a few stand for many.
_LATE = 4
_LATE_GAP = 2e-5
#: Directions of a ball that reach this far into the ellipsoid may come to touch it.
_NEAR = 1 - 1e-2
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
    rounds = _FEW_ROUNDS if is_large else _ROUNDS
    held = points
    units = []
    for ball in balls:  # the axes alone make the cheapest ellipsoid around the ball
        _, _, vt = scipy.linalg.svd(weight_factor.T @ ball, full_matrices=False)
        units.append(vt.T)
    best = balls[0]
    lower_bound = 0.0
    cheapest = np.inf
    sharpness = max(_COARSE, tol / 4)
    for count in range(rounds):
        chosen = [held, *(ball @ unit for ball, unit in zip(balls, units))]
        with piece(count, _USUAL_ROUNDS):
            found = enclosing_ellipsoid(np.hstack(chosen), weight_factor, tol=sharpness)
        lower_bound = max(lower_bound, found.lower_bound)
        factor = found.factor
        counts = [part.shape[1] for part in chosen]
        weights = np.zeros(sum(counts))
        weights[found.support] = found.weights
        of_held, *of_units = np.split(weights, np.cumsum(counts)[:-1])
        held = held[:, of_held > 0]
        is_violated = False
        for k, ball in enumerate(balls):
            root = units[k] * np.sqrt(of_units[k])
            _, s, vt = _svd(np.linalg.solve(found.factor, ball))
            added = [_axes(root)]
            if s[0] > 1 + max(tol, sharpness) / 8:  # less is cheaply enlarged
                is_violated = True
                added.append(vt[s > 1].T)
                if not is_large:
                    added.append(_turns(root, vt[s > _NEAR].T, sharpness))
            units[k] = np.hstack(added)
            factor = _enlarged(factor, ball)
        sizes = np.linalg.norm(np.linalg.solve(factor, points), axis=0)
        if (sizes > 1).any():  # no longer among those chosen
            is_violated = True
            held = np.hstack([held, points[:, sizes > 1]])
            factor = factor * sizes.max()
        cost = float(np.sum((weight_factor.T @ factor) ** 2))
        if cost < cheapest:
            best = factor
            cheapest = cost
        gap = cheapest / lower_bound - 1
        if gap <= tol or (not is_violated and sharpness <= tol / 4):
            break
        if count >= _LATE and len(balls) > 2 and gap <= _LATE_GAP:
            break
        sharpness = max(tol / 4, _SHARPER * min(gap, sharpness))
    return Shape(best, lower_bound)


def _enlarged(factor: NDArray, ball: NDArray) -> NDArray:
    """The factor, larger only in the directions in which a ball sticks out."""
    U, s, _ = _svd(np.linalg.solve(factor, ball))
    lacking = np.maximum(s, 1.0) - 1
    return factor + (factor @ U * lacking) @ U.T


def _svd(matrix: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    return scipy.linalg.svd(matrix, full_matrices=False, lapack_driver=_DRIVER)


def _axes(root: NDArray) -> NDArray:
    """Orthonormal columns (q, k) that may carry the ellipsoid in place of others.

    With the others times roots of their weights, ``root``, the axes of root root^T have
    the same sum of u u^T and so prove the same bound. They are at most q.
    """
    axes, sizes, _ = _svd(root)
    return axes[:, sizes >= EPS * sizes[0]]


def _turns(root: NDArray, near: NDArray, least: float) -> NDArray:
    """Unit vectors by which the matrix root root^T (q, q) of weights turns in a subspace.

    They are the axes of the matrix in the span of ``near`` (q, k), and the sums and
    differences of each two of them, each as long as the root of its weight, or of
    ``least`` of the largest: between a large and a small axis, weights turn little.
    """
    inside = near.T @ root
    values, axes = scipy.linalg.eigh(inside @ inside.T)
    smallest = least * values[-1] if values[-1] > 0 else 1.0
    scaled = near @ axes * np.sqrt(np.maximum(values, smallest))
    directions = [scaled]
    for one, other in combinations(scaled.T[:, :, None], 2):
        directions += [one + other, one - other]
    turned = np.hstack(directions)
    return turned / np.linalg.norm(turned, axis=0)


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
