"""The shape of Laplace noise: a cheap factor whose 1-ball holds every hidden move.

A factor B (r, K) of r directions is represented by a left inverse C (K, r), C B = I for
K = r. A move p is the combination C p of the columns of B, so that ||C p||_1 bounds its
epsilon. The problem is not convex. The scales along given directions are optimised with
a certificate; the directions are improved by local searches from several starts. The
result is never worse than the best start, and a lower bound that holds for all factors
says how much a better search could still gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from ._linalg import EPS, real_array, round_up
from .ellipsoid import Shape, enclosing_ellipsoid, gaussian_shape, weight_triangle
from .errors import UncertifiableError

if TYPE_CHECKING:
    from .query import MoveBasis

#: Temperatures of the smoothed maximum, for every start and then for the best ones.
_COARSE = (0.3, 0.1, 0.03)
_FINE = (0.01, 0.003, 0.001, 0.0003)
#: Searches that are carried to the end.
_KEPT = 3
#: Points that one step of a search looks at.
_NEAR = 400
#: Entries of C up to which its directions are searched.
_SEARCHED = 4096
#: Relative cost below which two factors count as equal: round-off must not choose.
_CLEARLY = 1e-6
#: Relative size below which the search prices a direction that the weight leaves free,
#: so that an optimum exists.
_FREE_DIRECTION = 1e-6
#: The same for the squared price of one published entry.
_LEAST_PRICE = 1e-12
#: Columns of a factor up to which it is offered though another one costs less for pure
#: differential privacy.
_MOST_COLUMNS = 128


@dataclass(frozen=True)
class LaplaceShape:
    """A factor for Laplace noise of scale one, and what it costs.

    Attributes
    ----------
    factor : ndarray, shape (r, r)
        B with ||B^{-1} p||_1 <= 1 for every point, rounding errors included.
    cost : float
        2 tr(W B B^T), the weighted variance, rounded up: Laplace noise of scale 1 has
        variance 2.
    lower_bound : float or None
        No factor whatever costs less; None where only a given basis was scaled.
    active : ndarray of int
        Points whose norm is within 1e-6 of one.
    """

    factor: NDArray
    cost: float
    lower_bound: float | None
    active: NDArray

    @property
    def gap(self) -> float:
        """Relative distance of the cost from the lower bound, NaN without one."""
        if not self.lower_bound:
            return float("nan")
        return self.cost / self.lower_bound - 1


# -- shapes for the designs ----------------------------------------------------------


def laplace_shape(
    basis: MoveBasis, rows: NDArray, *, counted: int | None = None
) -> Shape:
    """A cheap cross-polytope around the moves of a basis; the variance 2 is counted.

    Parameters
    ----------
    basis : MoveBasis
    rows : ndarray, shape (q, r)
        H B for the basis responses B, with H^T H = W the weight of the cost.
    counted : int, optional
        The lower bound is for hiding the first so many moves, all by default.
    """
    triangle, free = _priced(weight_triangle(rows))
    found = enclosing_cross_polytope(basis.coordinates, triangle)
    if counted is None and found.lower_bound is not None and not free:
        return Shape(found.factor, found.lower_bound)
    ellipsoid = gaussian_shape(basis, rows, counted=counted)
    return Shape(found.factor, 2 * ellipsoid.lower_bound)


def laplace_factors(
    basis: MoveBasis, rows: NDArray, prices: NDArray
) -> tuple[list[NDArray], float]:
    """Factors (r, K) for Laplace noise, the cheapest first, and the least cost of any.

    One has r columns. The other is found from independent noise on the entries, whose
    variances cost ``prices`` (m,). With more than 128 columns it is returned only if it
    is the cheaper one, because it takes long to evaluate for a delta above 0.
    """
    shape = laplace_shape(basis, rows)
    triangle, _ = _priced(weight_triangle(rows))
    wide, cost = wide_factor(basis.responses, basis.coordinates, triangle, prices)
    square_cost = 2 * float(np.sum((triangle.T @ shape.factor) ** 2))
    if cost < square_cost * (1 - 1e-9):
        return [wide, shape.factor], shape.lower_bound
    if wide.shape[1] <= _MOST_COLUMNS:
        return [shape.factor, wide], shape.lower_bound
    return [shape.factor], shape.lower_bound


def _priced(triangle: NDArray) -> tuple[NDArray, bool]:
    """The weight's factor with a price for every direction, and whether one was free."""
    singular = scipy.linalg.svdvals(triangle)
    if singular[-1] >= _FREE_DIRECTION * singular[0]:
        return triangle, False
    size = len(triangle)
    least = _FREE_DIRECTION * singular[0] * np.eye(size)
    upper = scipy.linalg.qr(np.vstack([triangle.T, least]), mode="r")[0]
    return upper[:size].T, True


# -- one column for each direction ---------------------------------------------------


def enclosing_cross_polytope(
    points: ArrayLike,
    weight_factor: ArrayLike | None = None,
    *,
    basis: ArrayLike | None = None,
) -> LaplaceShape:
    """The cheapest factor B that a search finds with ||B^{-1} p_i||_1 <= 1 for all points.

    Its cost is 2 tr(W B B^T). With `basis` the result is sigma times the basis, sigma =
    max_i ||basis^{-1} p_i||_1: Algorithm 2 of DPAM, with the inverse in the place of the
    printed transpose. Otherwise the columns of B may point anywhere. A cross-polytope
    lies in an ellipsoid with the same B B^T, so 2 tr(W Sigma) of the cheapest ellipsoid
    around the points is a lower bound.

    Parameters
    ----------
    points : array_like, shape (r, M)
        The moves p_i as columns, which must span; p and -p are the same constraint.
    weight_factor : array_like, shape (r, q), q >= r, optional
        L with W = L L^T positive definite; the identity by default.
    basis : array_like, shape (r, r), optional
        Directions, and relative scales, to be kept; its overall scale does not matter.

    Returns
    -------
    LaplaceShape

    Raises
    ------
    ValueError
        If an argument has the wrong shape or is not finite.
    UncertifiableError
        If the points do not span, or points or basis are so nearly singular that no
        factor can be certified.

    Examples
    --------
    >>> points = [[3.0, 0.0], [4.0, 1.0]]
    >>> shape = enclosing_cross_polytope(points)
    >>> round(shape.cost, 1), round(shape.lower_bound, 1)
    (51.0, 50.7)
    >>> basis = [[0.1, 0.0], [0.0, 0.1]]
    >>> round(enclosing_cross_polytope(points, basis=basis).cost, 3)
    196.0

    References
    ----------
    DPAM, Theorem 2, eq. (10), and Algorithm 2, eqs. (14) and (15).
    """
    moves = real_array(points, "points", ndim=2, copy=False)
    size = len(moves)
    if weight_factor is None:
        weight_factor = np.eye(size)
    weight = real_array(weight_factor, "weight_factor", shape=(size, None), copy=False)
    if basis is not None:
        given = real_array(basis, "basis", shape=(size, size), copy=False)
        return _certify(given, moves, weight, None)
    ellipsoid = enclosing_ellipsoid(moves, weight)
    lower_bound = float(2 * ellipsoid.lower_bound * (1 - 4 * EPS))

    def certified(factor: NDArray) -> LaplaceShape:
        return _certify(factor, moves, weight, lower_bound)

    starts = _directions(moves, weight, ellipsoid.factor)
    shapes = []
    for start in starts:
        shapes.append(certified(start))
        shapes.append(certified(_scaled_best(start, moves, weight)))
    best = min(shapes, key=lambda shape: shape.cost)
    if size == 1:
        return best
    searched = []
    for factor in _search_around(moves, weight, ellipsoid.factor, starts):
        searched.append(certified(_scaled_best(factor, moves, weight)))
    # a start stays unless it is beaten clearly, and then the first good one wins
    least = min((shape.cost for shape in searched), default=np.inf)
    if least >= best.cost * (1 - _CLEARLY):
        return best
    good = [s for s in searched if s.cost <= min(least * (1 + _CLEARLY), best.cost)]
    return good[0]


def _scaled_best(basis: NDArray, points: NDArray, weight_factor: NDArray) -> NDArray:
    """The basis with its columns scaled best."""
    costs = np.sum((weight_factor.T @ basis) ** 2, axis=0)
    loads = np.abs(np.linalg.solve(basis, points)).T
    scales, _ = best_scales(loads, costs)
    return basis / scales


def _directions(
    points: NDArray, weight_factor: NDArray, ellipsoid: NDArray
) -> list[NDArray]:
    """Bases to start from.

    They are the axes, the singular vectors of points and weight, the axes of the
    ellipsoid and its own factor.
    """
    of_points = np.linalg.svd(points, full_matrices=False)[0]
    of_weight = np.linalg.svd(weight_factor, full_matrices=False)[0]
    vectors, lengths, _ = np.linalg.svd(ellipsoid)
    return [np.eye(len(points)), of_points, of_weight, vectors * lengths, ellipsoid]


def _search_around(
    points: NDArray, weight_factor: NDArray, ellipsoid: NDArray, starts: list[NDArray]
) -> list[NDArray]:
    """Bases found by search from each start, in coordinates that make the ellipsoid a ball.

    Coordinates, points and starts are rounded first. Otherwise round-off in the data,
    amplified by thousands of steps, would move the result by far more than the data
    moved. Feasibility is restored afterwards, on the true points.
    """
    scale = np.abs(points).max()
    frame = _rounded(ellipsoid / scale, 20) * scale
    coordinates = np.round(np.linalg.solve(frame, points), 9)
    unit_weight = weight_factor / np.linalg.norm(weight_factor)
    upper = scipy.linalg.qr(unit_weight.T @ (frame / scale), mode="r")[0][: len(frame)]
    inverses = []
    for start in starts:
        try:
            inside = _scaled_best(np.linalg.solve(frame, start), coordinates, upper.T)
            inverses.append(_rounded(np.linalg.inv(inside), 20))
        except np.linalg.LinAlgError:  # so skew that rounding made it singular
            continue
    weight = upper.T @ upper
    found = _search(inverses, coordinates, weight / np.trace(weight))
    return [frame @ np.linalg.inv(inverse) for inverse in found]


def _rounded(matrix: NDArray, bits: int) -> NDArray:
    """Every entry rounded to this many significant bits."""
    mantissa, exponent = np.frexp(matrix)
    return np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits)


def _certify(
    basis: NDArray, points: NDArray, weight_factor: NDArray, lower_bound: float | None
) -> LaplaceShape:
    """The basis times the least scalar that provably makes every norm at most one."""
    norms, bound = _norms(basis, points)
    factor = basis * round_up(bound, 4)
    for _ in range(8):
        norms, bound = _norms(factor, points)
        if bound <= 1:
            break
        factor = factor * round_up(bound, 4)
    else:
        raise UncertifiableError(
            "points: double precision cannot certify a factor around them; rescale them"
        )
    size, terms = weight_factor.shape
    rounding = size * EPS * (np.abs(weight_factor.T) @ np.abs(factor))
    squares = (np.abs(weight_factor.T @ factor) + rounding) ** 2
    cost = float(2 * np.sum(squares) * (1 + (size * terms + 8) * EPS))
    return LaplaceShape(factor, cost, lower_bound, np.flatnonzero(norms >= 1 - 1e-6))


def _norms(factor: NDArray, points: NDArray) -> tuple[NDArray, float]:
    """||B^-1 p||_1 of every point, and a bound of the largest that covers all rounding.

    With an approximate inverse C and E = I - C B: ||B^-1 p||_1 <= ||C p||_1 / (1 -
    ||E||_1).
    """
    size = len(points)
    tallest = np.abs(points).max(axis=1)
    tallest = np.where(tallest > 0, tallest, 1.0)
    unit = np.exp2(-np.round(np.log2(tallest)))[:, None]  # powers of two are exact
    factor = factor * unit
    points = points * unit
    try:
        inverse = np.linalg.inv(factor)
    except np.linalg.LinAlgError:
        raise UncertifiableError(
            f"basis: expected {size} independent columns, got a singular matrix"
        ) from None
    slack = (size + 2) * EPS * (np.abs(inverse) @ np.abs(factor))
    error = np.abs(np.eye(size) - inverse @ factor) + slack
    residual = error.sum(axis=0).max()
    if not residual < 0.5:
        raise UncertifiableError(
            f"basis of {size} columns: too nearly singular for double precision to "
            "certify the noise; choose better separated directions"
        )
    norms = np.abs(inverse @ points).sum(axis=0)
    excess = (2 * size + 2) * EPS * (np.abs(inverse) @ np.abs(points)).sum(axis=0)
    bound = np.max(norms + excess) / (1 - residual) * (1 + 4 * EPS)
    return norms, float(bound)


# -- one column for each published entry ---------------------------------------------


def wide_factor(
    responses: NDArray, points: NDArray, weight_factor: NDArray, prices: NDArray
) -> tuple[NDArray, float]:
    """The cheapest factor (r, K), K at most m, found from independent noise, and its cost.

    Independent noise on the m entries is cut to the span of the moves' images: B = C^+
    costs least among all B with B C = I, whatever the weight, as B B^T = C^+ C^+^T +
    Z Z^T for B = C^+ + Z with Z C = 0. Starts are equal scales and the best scales of
    the entries; cut to the span, each costs at most what it did. From there a search
    goes on, and only what it improves is kept.

    Parameters
    ----------
    responses : ndarray, shape (m, r)
        Published entries of the r coordinates' unit vectors.
    points : ndarray, shape (r, M)
        The moves in these coordinates.
    weight_factor : ndarray, shape (r, q), q >= r
        L; the cost is 2 tr(L L^T B B^T).
    prices : ndarray, shape (m,)
        What independent noise of variance one costs in each entry.

    Returns
    -------
    factor : ndarray, shape (r, K)
        With max_i ||factor^+ p_i||_1 = 1 up to rounding. It is a proposal: the designer
        certifies the noise that is made of it.
    cost : float
    """
    reached = responses.any(axis=1)
    rows = responses[reached]
    inverses = [rows]
    if rows.size <= _SEARCHED:
        paid = np.maximum(prices[reached], _LEAST_PRICE * prices[reached].max())
        scales, _ = best_scales(np.abs(rows @ points).T, paid)
        inverses.append(rows * scales[:, None])
        if len(points) > 1:
            inverses += _search(inverses, points, weight_factor @ weight_factor.T)
    factors = [_cut(inverse, points) for inverse in inverses]
    costs = [2 * float(np.sum((weight_factor.T @ factor) ** 2)) for factor in factors]
    # a start stays unless it is beaten clearly
    limit = min(costs) * (1 + _CLEARLY)
    first = next(k for k, cost in enumerate(costs) if cost <= limit)
    return factors[first], costs[first]


def _cut(inverse: NDArray, points: NDArray) -> NDArray:
    """C^+ times the largest ||C p||_1."""
    size = np.linalg.norm(inverse, axis=0)
    pseudo_inverse = scipy.linalg.pinv(inverse / size) / size[:, None]
    return pseudo_inverse * np.abs(inverse @ points).sum(axis=0).max()


# -- the search for directions -------------------------------------------------------


def _search(
    starts: Sequence[NDArray], points: NDArray, weight: NDArray
) -> list[NDArray]:
    """Left inverses C (K, r) that lower tr(W (C^T C)^{-1}) max_i ||C p_i||_1^2.

    All starts are searched coarsely, and the best ones to the end.
    """
    coarse = []
    for start in starts:
        try:
            coarse.append(_descend(start, points, weight, _COARSE))
        except np.linalg.LinAlgError:  # so skew that rounding made it singular
            continue
    coarse.sort(key=lambda pair: round(pair[1], 6))
    found = []
    for inverse, _ in coarse[:_KEPT]:
        try:
            inverse, _ = _descend(inverse, points, weight, _FINE)
        except np.linalg.LinAlgError:
            continue
        if np.isfinite(inverse).all():
            found.append(inverse)
    return found


def _descend(
    inverse: NDArray, points: NDArray, weight: NDArray, temperatures: Sequence[float]
) -> tuple[NDArray, float]:
    """C, and the logarithm of what it costs, by BFGS on an ever less smoothed logarithm.

    In coordinates in which the start has orthonormal columns, rounded so that round-off
    in the data moves the result by little more than the data moved.
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
        result = minimize(
            _smoothed_cost,
            np.round(start, 12).ravel(),
            (
                np.round(moved[:, near] / norms.max(), 9),
                np.round(priced / np.trace(priced), 12),
                temperature,
            ),
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
    """log tr(W (C^T C)^{-1}) + 2 log max_i ||C p_i||_1 and its gradient in C."""
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
    top = norms.max() + temperature * np.log(shares.sum())
    slopes = images / smooth * (shares / shares.sum())
    gradient = slopes @ points.T / top - C @ (priced @ inverse_gram) / cost
    return np.log(cost) + 2 * np.log(top), 2 * gradient.ravel()


# -- the best scales along given directions ------------------------------------------


def best_scales(loads: NDArray, costs: NDArray) -> tuple[NDArray, float]:
    """The p > 0 that minimises sum_k c_k / p_k^2 subject to loads @ p <= 1.

    Of many rows only those that bind are passed to the interior-point method.

    Parameters
    ----------
    loads : ndarray, shape (M, r)
        Nonnegative.
    costs : ndarray, shape (r,)
        Positive.

    Returns
    -------
    scales : ndarray, shape (r,)
    bound : float
        A lower bound of the minimum: the dual value (sum_k c_k^(1/3) (loads^T w)_k^(2/3)
        )^3 of probability weights w on the rows.
    """
    p = np.cbrt(costs / loads.mean(axis=0))
    rows = np.argsort(-(loads @ p), kind="stable")[:_NEAR]
    while True:
        p, bound = _interior_point(loads[rows], costs)
        load = loads @ p
        worst = np.argsort(-load, kind="stable")[:_NEAR]
        new = np.setdiff1d(worst[load[worst] > 1 + 1e-12], rows)
        if not new.size:  # at the latest when every row is in
            return p / load.max(), bound
        rows = np.concatenate([rows, new])


def _interior_point(loads: NDArray, costs: NDArray) -> tuple[NDArray, float]:
    """`best_scales` for few rows, by primal-dual path following in x = log p.

    There cost and constraints are convex, and the scales of p do no harm.
    """
    unit = np.cbrt(costs / loads.mean(axis=0))
    unit /= (loads @ unit).max()
    price = np.sum(costs / unit**2)
    loads = loads * unit
    costs = costs / unit**2 / price
    x = np.full(len(costs), np.log(0.5))
    slack = 1 - loads.sum(axis=1) / 2
    multiplier = 1 / slack / len(slack)
    best = x
    least = np.inf
    bound = 0.0
    shrink = 0.1
    for _ in range(200):
        terms = costs * np.exp(-2 * x)
        moved = loads * np.exp(x)
        load = moved.sum(axis=1)
        pull = moved.T @ multiplier
        value = terms.sum() * load.max() ** 2
        if value < least:
            best = x
            least = value
        weights = multiplier / multiplier.sum()
        bound = max(bound, np.cbrt(costs * (loads.T @ weights) ** 2).sum() ** 3)
        if least <= bound * (1 + 1e-12):
            break
        # Newton's step for 2 terms = moved^T multiplier and slack multiplier = target
        target = shrink * (multiplier @ slack) / len(slack)
        excess = load + slack - 1
        hessian = np.diag(4 * terms + pull)
        hessian += (moved.T * (multiplier / slack)) @ moved
        push = (target + multiplier * (excess - slack)) / slack
        even = 1 / np.sqrt(np.diag(hessian))
        right = 2 * terms - pull - moved.T @ push
        try:
            step = np.linalg.solve(even[:, None] * hessian * even, even * right)
        except np.linalg.LinAlgError:
            break  # rounding has the last word: `best` and `bound` stand
        step *= even
        fall = excess + moved @ step
        rise = push + multiplier / slack * (moved @ step)
        forward = 0.99 / max(0.99, np.max(fall / slack), np.abs(step).max())
        # a nearly free coordinate follows the path by steps of at most 1/2: wait for it
        on_the_path = forward * np.abs(step).max() < 0.2 and forward > 0.5
        shrink = 0.1 if on_the_path else 0.5
        x = x + forward * step
        slack = slack - forward * fall
        multiplier = multiplier + rise * 0.99 / max(0.99, np.max(-rise / multiplier))
    return np.exp(best) * unit, bound * price
