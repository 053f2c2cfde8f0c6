"""The shape of Laplace noise, a cheap factor whose 1-ball holds every hidden move.

A factor B (r, K) of r directions is represented by a left inverse C (K, r), C B = I for
K = r. A move p is the combination C p of the columns of B, so that ||C p||_1 bounds its
epsilon. The problem is not convex. The scales along given directions are optimised with
a certificate; the directions are improved by local searches from several starts. The
result is not worse than the best start, and a lower bound that holds for all factors
says how much a better search could still gain.

Factors are proposals. Whoever makes noise of one evaluates the noise, and enlarges it by
what rounding has left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.optimize import minimize

from ._barrier import ScaleProgram
from ._linalg import EPS
from .ellipsoid import Shape, enclosing_ellipsoid, gaussian_shape, weight_triangle

if TYPE_CHECKING:
    from .query import MoveBasis

#: Temperatures of the smoothed maximum, for every start and then for the best ones.
_COARSE = (0.3, 0.1, 0.03)
_FINE = (0.01, 0.003, 0.001, 0.0003)
#: Searches that are carried to the end.
_KEPT = 3
#: Points that one step of a search looks at.
_NEAR = 400
#: Relative cost below which two factors count as equal: round-off must not choose.
_CLEARLY = 1e-6
#: Relative size below which the search prices a direction that the weight leaves free,
#: so that an optimum exists.
_FREE_DIRECTION = 1e-6
#: Columns of a factor up to which it is offered though another one costs less for pure
#: differential privacy.
_MOST_COLUMNS = 128


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


def laplace_factors(basis: MoveBasis, rows: NDArray) -> tuple[list[NDArray], float]:
    """Find factors (r, K) for Laplace noise, the cheapest first, and a bound of the cost.

    One has r columns. The other is independent noise of one size on the published entries,
    cut to the span of the moves' responses: B = C^+ costs least among all B with B C = I,
    whatever the weight. With many columns, which take long to evaluate for a delta above
    0, it is returned only if it is the cheaper one.
    """
    shape = laplace_shape(basis, rows)
    triangle, _ = _priced(weight_triangle(rows))
    reached = basis.responses.any(axis=1)
    wide = _cut(basis.responses[reached], basis.coordinates)
    factors = [shape.factor]
    if _cost(wide, triangle) < _cost(shape.factor, triangle) * (1 - 1e-9):
        factors.insert(0, wide)
    elif wide.shape[1] <= _MOST_COLUMNS:
        factors.append(wide)
    return factors, shape.lower_bound


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
    anywhere. A cross-polytope lies in an ellipsoid with the same B B^T, so 2 tr(L L^T
    Sigma) of the cheapest ellipsoid around the points is a lower bound.
    """
    ellipsoid = enclosing_ellipsoid(points, weight_factor)
    of_points, _, _ = np.linalg.svd(points, full_matrices=False)
    of_weight, _, _ = np.linalg.svd(weight_factor, full_matrices=False)
    vectors, lengths, _ = np.linalg.svd(ellipsoid.factor)
    axes = vectors * lengths
    plain = []
    scaled = []
    coordinates = np.eye(len(points))
    for basis in (coordinates, of_points, of_weight, axes, ellipsoid.factor):
        inverse = np.linalg.inv(basis)
        prices = np.sum((weight_factor.T @ basis) ** 2, axis=0)
        plain.append(inverse)
        scaled.append(_scaled_best(inverse, points, prices))
    found = _search_around(ellipsoid.factor, scaled, points, weight_factor)
    factor = _cheapest([*plain, *scaled, *found], points, weight_factor)
    lower_bound = 2 * ellipsoid.lower_bound * (1 - 4 * EPS)
    return Shape(factor, float(lower_bound))


def _search_around(
    ellipsoid: NDArray, starts: list[NDArray], points: NDArray, weight_factor: NDArray
) -> list[NDArray]:
    """Search from each start, in coordinates that make the ellipsoid a ball.

    Coordinates, points and starts are rounded first. Otherwise round-off in the data,
    amplified by thousands of steps, would move the result by far more than the data
    moved.
    """
    scale = np.abs(points).max()
    unit_frame = _rounded(ellipsoid / scale, 20)
    frame = unit_frame * scale
    inside = np.round(np.linalg.solve(frame, points), 9)
    unit_weight = weight_factor / np.linalg.norm(weight_factor)
    root = unit_weight.T @ (frame / scale)
    weight = root.T @ root
    weight = weight / np.trace(weight)
    inverses = [_rounded(start @ frame, 20) for start in starts]
    found = _search(inverses, inside, weight)
    back = np.linalg.inv(frame)
    return [inverse @ back for inverse in found]


def _rounded(matrix: NDArray, bits: int) -> NDArray:
    """Round every entry to this many significant bits."""
    mantissa, exponent = np.frexp(matrix)
    integers = np.round(np.ldexp(mantissa, bits))
    return np.ldexp(integers, exponent - bits)


def _cut(inverse: NDArray, points: NDArray) -> NDArray:
    """Return C^+ times the largest ||C p||_1 (DPAM Algorithm 2, for a square C)."""
    size = np.linalg.norm(inverse, axis=0)
    scaled = scipy.linalg.pinv(inverse / size)
    pseudo_inverse = scaled / size[:, None]
    norms = np.abs(inverse @ points).sum(axis=0)
    return pseudo_inverse * norms.max()


def _scaled_best(inverse: NDArray, points: NDArray, prices: NDArray) -> NDArray:
    """Scale the rows of C best, for columns of B that cost these prices."""
    scales, _ = best_scales(np.abs(inverse @ points).T, prices)
    return inverse * scales[:, None]


def _cheapest(
    inverses: list[NDArray], points: NDArray, weight_factor: NDArray
) -> NDArray:
    """Cut a factor from each C, and return the first that no other one beats clearly."""
    factors = [_cut(inverse, points) for inverse in inverses]
    costs = [_cost(factor, weight_factor) for factor in factors]
    limit = min(costs) * (1 + _CLEARLY)
    cheap = [k for k, cost in enumerate(costs) if cost <= limit]
    first = cheap[0]
    return factors[first]


# -- the search for directions -------------------------------------------------------


def _search(
    starts: Sequence[NDArray], points: NDArray, weight: NDArray
) -> list[NDArray]:
    """Return left inverses C (K, r) that lower tr(W (C^T C)^{-1}) max_i ||C p_i||_1^2.

    All starts are searched coarsely, and the best ones to the end.
    """
    if points.shape[0] == 1:  # every direction is the same
        return []
    coarse = []
    for start in starts:
        try:
            coarse.append(_descend(start, points, weight, _COARSE))
        except np.linalg.LinAlgError:  # so skew that rounding made it singular
            continue
    coarse.sort(key=lambda pair: round(pair[1], 6))
    fine = []
    for inverse, _ in coarse[:_KEPT]:
        try:
            inverse, _ = _descend(inverse, points, weight, _FINE)
        except np.linalg.LinAlgError:
            continue
        if np.isfinite(inverse).all():
            fine.append(inverse)
    return fine


def _descend(
    inverse: NDArray, points: NDArray, weight: NDArray, temperatures: Sequence[float]
) -> tuple[NDArray, float]:
    """Lower the cost of C by BFGS on its ever less smoothed logarithm, and return both.

    Each descent is in coordinates in which its start has orthonormal columns, rounded so
    that round-off in the data moves the result by little more than the data moved.
    """
    value = np.inf
    method = "BFGS" if inverse.size <= 64 else "L-BFGS-B"
    for temperature in temperatures:
        start, frame = scipy.linalg.qr(inverse, mode="economic")
        moved = frame @ points
        norms = np.abs(start @ moved).sum(axis=0)
        near = np.argsort(-norms, kind="stable")[:_NEAR]
        inverse_frame = scipy.linalg.solve_triangular(frame, np.eye(len(frame)))
        priced = inverse_frame.T @ weight @ inverse_frame
        nearest = np.round(moved[:, near] / norms.max(), 9)
        unit_weight = np.round(priced / np.trace(priced), 12)
        result = minimize(
            _smoothed_cost,
            np.round(start, 12).ravel(),
            (nearest, unit_weight, temperature),
            method,
            jac=True,
            options={"maxiter": 100, "gtol": 1e-6},
        )
        inverse = result.x.reshape(start.shape) @ frame
        value = result.fun
    return inverse, value


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


# -- the best scales along given directions ------------------------------------------


def best_scales(loads: NDArray, prices: NDArray) -> tuple[NDArray, float]:
    """Minimise sum_k c_k / p_k^2 over p > 0 subject to loads @ p <= 1.

    The ``loads`` (M, r) are not negative, the ``prices`` c (r,) positive. Returns p (r,)
    and a lower bound of the minimum, the dual value
    (sum_k c_k^(1/3) (loads^T w)_k^(2/3))^3 of probability weights w on the rows. Of many
    rows only those that bind are optimised.
    """
    p = np.cbrt(prices / loads.mean(axis=0))
    load = loads @ p
    rows = np.argsort(-load, kind="stable")[:_NEAR]
    while True:
        near = loads[rows]
        start = p / (2 * (near @ p).max())
        p = ScaleProgram(prices, near).central_path(start)[-1]
        load = loads @ p
        worst = np.argsort(-load, kind="stable")[:_NEAR]
        violated = worst[load[worst] > 1]
        new = np.setdiff1d(violated, rows)
        if not new.size:  # at the latest when every row is in
            break
        rows = np.concatenate([rows, new])
    weights = 1 / (1 - near @ p)
    weights = weights / weights.sum()
    pull = near.T @ weights
    parts = np.cbrt(prices * pull**2)
    return p / load.max(), float(parts.sum() ** 3)
