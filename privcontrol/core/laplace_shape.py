"""The shape of Laplace noise, a cheap factor whose 1-ball holds every hidden move.

A factor B (r, r) is represented by its inverse C. A move p is the combination C p of the
columns of B, so ||C p||_1 is its epsilon. The problem is not convex. A descent improves the best of some bases that
Algorithm 2 of DPAM scales, and a lower bound that holds for all factors says how much a
better search could still gain.

Factors are proposals. Whoever makes noise of one evaluates the noise, and enlarges it by
what rounding has left.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.optimize import minimize

from ._linalg import EPS
from .ellipsoid import Shape, enclosing_ellipsoid, gaussian_shape, weight_triangle
from .query import MoveBasis

#: Temperatures of the smoothed maximum.
_TEMPERATURES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
#: Points that one step of a search looks at.
_NEAR = 400
#: Relative cost below which two factors count as equal: round-off must not choose.
_CLEARLY = 1e-6
#: Relative size below which the search prices a direction that the weight leaves free,
#: so that an optimum exists.
_FREE_DIRECTION = 1e-6


# -- shapes for the designs ----------------------------------------------------------


def laplace_shape(
    basis: MoveBasis, rows: NDArray, *, counted: int | None = None
) -> Shape:
    """Find a cheap cross-polytope around the moves of a basis.

    ``rows`` and ``counted`` are those of `Noise.shape`. The variance 2 of a Laplace number
    is counted in the lower bound.
    """
    triangle, free = _priced(weight_triangle(rows))
    shape = enclosing_cross_polytope(basis.coordinates, triangle)
    if counted is None and not free:
        return shape
    ellipsoid = gaussian_shape(basis, rows, counted=counted)
    return Shape(shape.factor, 2 * ellipsoid.lower_bound)


def _priced(triangle: NDArray) -> tuple[NDArray, bool]:
    """Price every direction in a weight's factor, and say whether one was free."""
    singular = scipy.linalg.svdvals(triangle)
    least = _FREE_DIRECTION * singular[0]
    if singular[-1] >= least:
        return triangle, False
    size = len(triangle)
    both = np.vstack([triangle.T, least * np.eye(size)])
    upper = scipy.linalg.qr(both, mode="r")[0]
    return upper[:size].T, True


def _cost(factor: NDArray, weight_factor: NDArray) -> float:
    """Return 2 tr(L L^T B B^T), the weighted variance of Laplace noise."""
    return 2 * float(np.sum((weight_factor.T @ factor) ** 2))


# -- one column for each direction ---------------------------------------------------


def enclosing_cross_polytope(points: NDArray, weight_factor: NDArray) -> Shape:
    """Find a cheap factor B (r, r) with ||B^{-1} p||_1 <= 1 for all points p (r, M).

    With L ``weight_factor`` (r, q) the cost is 2 tr(L L^T B B^T) (DPAM Theorem 2, eq.
    (10)). Algorithm 2 of DPAM scales a given B, the columns of this one may point
    anywhere: a descent starts from the cheapest of some bases. A cross-polytope lies in
    an ellipsoid with the same B B^T, so 2 tr(L L^T Sigma) of the cheapest ellipsoid around
    the points is a lower bound.
    """
    ellipsoid = enclosing_ellipsoid(points, weight_factor)
    of_points, _, _ = np.linalg.svd(points, full_matrices=False)
    of_weight, _, _ = np.linalg.svd(weight_factor, full_matrices=False)
    vectors, lengths, _ = np.linalg.svd(ellipsoid.factor)
    inverses = [np.linalg.inv(ellipsoid.factor)]
    for basis in (np.eye(len(points)), of_points, of_weight, vectors * lengths):
        inverse = np.linalg.inv(basis)
        inverses.append(inverse)
        widths = np.abs(inverse @ points).max(axis=1)
        inverses.append(inverse / np.maximum(widths, EPS * widths.max())[:, None])
    factors = [_cut(inverse, points) for inverse in inverses]
    best = _cheapest(factors, weight_factor)
    if len(points) > 1:  # else every direction is the same
        found = _descend(inverses[best], ellipsoid.factor, points, weight_factor)
        if found is not None:
            factors = [factors[best], _cut(found, points)]
            best = _cheapest(factors, weight_factor)
    lower_bound = 2 * ellipsoid.lower_bound * (1 - 4 * EPS)
    return Shape(factors[best], float(lower_bound))


def _cheapest(factors: list[NDArray], weight_factor: NDArray) -> int:
    """Return the place of the first factor that no other one beats clearly."""
    costs = np.array([_cost(factor, weight_factor) for factor in factors])
    return int(np.argmax(costs <= costs.min() * (1 + _CLEARLY)))


def _cut(inverse: NDArray, points: NDArray) -> NDArray:
    """Return C^+ times the largest ||C p||_1 (DPAM Algorithm 2, for a square C)."""
    size = np.linalg.norm(inverse, axis=0)
    scaled = scipy.linalg.pinv(inverse / size)
    pseudo_inverse = scaled / size[:, None]
    norms = np.abs(inverse @ points).sum(axis=0)
    return pseudo_inverse * norms.max()


# -- the search for directions -------------------------------------------------------


def _descend(
    start: NDArray, ellipsoid: NDArray, points: NDArray, weight_factor: NDArray
) -> NDArray | None:
    """Return an inverse C that lowers tr(W (C^T C)^{-1}) max_i ||C p_i||_1^2, if any.

    Coordinates make the ellipsoid a ball. They, the points and the start are rounded
    first. Otherwise round-off in the data, amplified by hundreds of steps, would move the
    result by far more than the data moved.
    """
    scale = np.abs(points).max()
    unit_frame = _rounded(ellipsoid / scale, 20)
    frame = unit_frame * scale
    inside = np.round(np.linalg.solve(frame, points), 9)
    root = weight_factor.T @ unit_frame
    weight = root.T @ root
    weight = np.round(weight / np.trace(weight), 12)
    inverse = start @ frame
    for temperature in _TEMPERATURES:
        norms = np.abs(inverse @ inside).sum(axis=0)
        inverse = np.round(inverse / norms.max(), 9)
        near = np.argsort(-norms, kind="stable")[:_NEAR]
        try:
            result = minimize(
                _smoothed_cost,
                inverse.ravel(),
                (inside[:, near], weight, temperature),
                "BFGS" if inverse.size <= 64 else "L-BFGS-B",
                jac=True,
                options={"maxiter": 200, "gtol": 1e-6},
            )
        except np.linalg.LinAlgError:  # so skew that rounding made it singular
            return None
        inverse = result.x.reshape(inverse.shape)
    return inverse @ np.linalg.inv(frame)


def _rounded(matrix: NDArray, bits: int) -> NDArray:
    """Round every entry to this many significant bits."""
    mantissa, exponent = np.frexp(matrix)
    integers = np.round(np.ldexp(mantissa, bits))
    return np.ldexp(integers, exponent - bits)


def _smoothed_cost(
    entries: NDArray, points: NDArray, weight: NDArray, temperature: float
) -> tuple[float, NDArray]:
    """Return log tr(W (C^T C)^{-1}) + 2 log max_i ||C p_i||_1 and its gradient in C."""
    C = entries.reshape(-1, len(points))
    inverse_gram = np.linalg.inv(C.T @ C)
    priced = inverse_gram @ weight
    cost = np.trace(priced)
    if not 0 < cost < np.inf:
        raise np.linalg.LinAlgError("C has lost its rank to rounding")
    images = C @ points
    smooth = np.hypot(images, temperature / len(C))
    norms = smooth.sum(axis=0)
    shares = np.exp((norms - norms.max()) / temperature)
    total = shares.sum()
    top = norms.max() + temperature * np.log(total)
    slopes = images / smooth * (shares / total)
    gradient = slopes @ points.T / top
    gradient -= C @ (priced @ inverse_gram) / cost
    value = np.log(cost) + 2 * np.log(top)
    return value, 2 * gradient.ravel()
