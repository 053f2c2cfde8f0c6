"""The shape of Laplace noise: a factor whose cross-polytope holds every protected move, at little weighted variance.

The problem is not convex. The scales along given directions are optimised exactly, with a certificate; the directions
are improved by a local search from several starts. The result is never worse than the best start, and a lower bound
that holds for all factors says how much a better search could still gain.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from .._linalg import EPS, real_array, round_up
from ..errors import UncertifiableError
from .ellipsoid import enclosing_ellipsoid

_COARSE, _FINE = (
    (0.3, 0.1, 0.03),
    (0.01, 0.003, 0.001, 0.0003),
)  # temperatures for every start, and for the best
_SEARCHED = 400  # points that a step of the search looks at
_KEPT = 2  # searches carried to the end


@dataclass(frozen=True)
class LaplaceShape:
    """A factor for Laplace noise of scale one, and what it costs.

    Attributes
    ----------
    factor : ndarray, shape (r, r)
        B with ||B^{-1} p||_1 <= 1 for every point, rounding errors included.
    cost : float
        2 tr(W B B^T), the weighted variance, rounded up: Laplace noise of scale 1 has variance 2.
    lower_bound : float or None
        No factor whatever costs less; None where only a given basis was scaled.
    active : ndarray of int
        Points whose norm is within 1e-6 of one.
    """

    factor: np.ndarray
    cost: float
    lower_bound: float | None
    active: np.ndarray

    @property
    def gap(self):
        """Relative distance of the cost from the lower bound (NaN without one); the optimum lies between them."""
        return self.cost / self.lower_bound - 1 if self.lower_bound else float("nan")


def laplace_shape(points, weight_factor=None, *, basis=None):
    """The factor B of least 2 tr(W B B^T) that a local search finds with ||B^{-1} p_i||_1 <= 1 for all points.

    With `basis` the result is sigma times the basis, sigma = max_i ||basis^{-1} p_i||_1: Algorithm 2 of DPAM, with
    the inverse in the place of the printed transpose. Otherwise the columns of B may point anywhere, which includes
    every rotation of an orthonormal basis. A cross-polytope lies in an ellipsoid with the same B B^T, so 2 tr(W Sigma)
    of the cheapest ellipsoid around the points is a lower bound.

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
        If the points do not span, or points or basis are so nearly singular that no factor can be certified.

    Examples
    --------
    >>> shape = laplace_shape([[3.0, 0.0], [4.0, 1.0]])
    >>> round(shape.cost, 1), round(shape.lower_bound, 1)
    (51.0, 50.7)
    >>> round(laplace_shape([[3.0, 0.0], [4.0, 1.0]], basis=[[0.1, 0.0], [0.0, 0.1]]).cost, 3)
    196.0

    References
    ----------
    DPAM, Theorem 2, eq. (10), and Algorithm 2, eqs. (14) and (15).
    """
    points = real_array(points, "points", ndim=2, copy=False)
    size = len(points)
    weight_factor = np.eye(size) if weight_factor is None else weight_factor
    weight_factor = real_array(
        weight_factor, "weight_factor", shape=(size, None), copy=False
    )
    if basis is not None:
        basis = real_array(basis, "basis", shape=(size, size), copy=False)
        return _certify(basis, points, weight_factor, None)
    ellipsoid = enclosing_ellipsoid(points, weight_factor)
    lower_bound = float(2 * ellipsoid.lower_bound * (1 - 4 * EPS))
    starts = _directions(points, weight_factor, ellipsoid.factor)
    plain = [
        factor
        for start in starts
        for factor in (start, _along(start, points, weight_factor))
    ]
    best = min(
        (_certify(B, points, weight_factor, lower_bound) for B in plain),
        key=lambda shape: shape.cost,
    )
    searched = (
        _search(points, weight_factor, ellipsoid.factor, starts) if size > 1 else []
    )
    searched = [
        _certify(_along(B, points, weight_factor), points, weight_factor, lower_bound)
        for B in searched
    ]
    # Round-off must not choose between equals: a start stays unless beaten clearly, then the first good one wins.
    least = min((shape.cost for shape in searched), default=np.inf)
    if least >= best.cost * (1 - 1e-6):
        return best
    return next(
        shape
        for shape in searched
        if shape.cost <= least * (1 + 1e-6) and shape.cost <= best.cost
    )


def best_scales(loads, costs):
    """The p > 0 that minimises sum_k c_k / p_k^2 subject to loads @ p <= 1, and a lower bound on the minimum.

    The bound is the dual value of any probability weights w on the rows: (sum_k c_k^(1/3) (loads^T w)_k^(2/3))^3.
    Of many rows only those that bind are passed to the interior-point method.
    """
    p = np.cbrt(costs / loads.mean(axis=0))
    rows = np.argsort(-(loads @ p), kind="stable")[:_SEARCHED]
    while True:
        p, bound = _interior_point(loads[rows], costs)
        load = loads @ p
        worst = np.argsort(-load, kind="stable")[:_SEARCHED]
        new = np.setdiff1d(worst[load[worst] > 1 + 1e-12], rows)
        if not new.size:
            return p / load.max(), bound
        rows = np.concatenate([rows, new])


def _interior_point(loads, costs):
    """Primal-dual path following in x = log p, where cost and constraints are convex and the scales of p harmless."""
    unit = np.cbrt(costs / loads.mean(axis=0))
    unit /= (loads @ unit).max()
    price = np.sum(costs / unit**2)
    loads, costs = loads * unit, costs / unit**2 / price
    x, slack = np.full(len(costs), np.log(0.5)), 1 - loads.sum(axis=1) / 2
    multiplier = 1 / slack / len(slack)
    best, least, bound, shrink = x, np.inf, 0.0, 0.1
    for _ in range(200):
        terms, moved = costs * np.exp(-2 * x), loads * np.exp(x)
        load, pull = moved.sum(axis=1), moved.T @ multiplier
        value = terms.sum() * load.max() ** 2
        bound = max(
            bound,
            np.sum(np.cbrt(costs * (loads.T @ (multiplier / multiplier.sum())) ** 2))
            ** 3,
        )
        best, least = (x, value) if value < least else (best, least)
        if least <= bound * (1 + 1e-12):
            break
        target, excess = shrink * (multiplier @ slack) / len(slack), load + slack - 1
        hessian = np.diag(4 * terms + pull) + (moved.T * (multiplier / slack)) @ moved
        push = (target + multiplier * (excess - slack)) / slack
        even = 1 / np.sqrt(np.diag(hessian))
        try:
            step = even * np.linalg.solve(
                even[:, None] * hessian * even,
                even * (2 * terms - pull - moved.T @ push),
            )
        except (
            np.linalg.LinAlgError
        ):  # rounding has the last word; `best` and `bound` stand
            break
        fall = excess + moved @ step
        rise = push + multiplier / slack * (moved @ step)
        forward = 0.99 / max(0.99, np.max(fall / slack), np.abs(step).max())
        # A nearly free coordinate follows the path by steps of at most 1/2 in x: wait for it.
        shrink = 0.1 if forward * np.abs(step).max() < 0.2 and forward > 0.5 else 0.5
        x, slack = x + forward * step, slack - forward * fall
        multiplier = multiplier + rise * 0.99 / max(0.99, np.max(-rise / multiplier))
    return np.exp(best) * unit, bound * price


def _along(basis, points, weight_factor):
    """The basis with its columns scaled best."""
    costs = np.sum((weight_factor.T @ basis) ** 2, axis=0)
    scales, _ = best_scales(np.abs(np.linalg.solve(basis, points)).T, costs)
    return basis / scales


def _directions(points, weight_factor, ellipsoid):
    """Starting bases: the axes, the singular vectors of points and weight, the ellipsoid's axes and its own factor."""
    singular = np.linalg.svd(points, full_matrices=False)[0]
    priced = np.linalg.svd(weight_factor, full_matrices=False)[0]
    vectors, lengths, _ = np.linalg.svd(ellipsoid)
    return [np.eye(len(points)), singular, priced, vectors * lengths, ellipsoid]


def _search(points, weight_factor, ellipsoid, starts):
    """Bases found by descent from each start, in coordinates that make the ellipsoid a ball.

    Coordinates, points and starts are rounded first: round-off in the data, amplified by thousands of steps, would
    otherwise move the result by far more than the data moved. Feasibility is restored afterwards, on the true points.
    """
    scale = np.abs(points).max()
    frame = _rounded(ellipsoid / scale, 20) * scale
    coordinates = np.round(np.linalg.solve(frame, points), 9)
    priced = np.linalg.qr(
        (weight_factor.T / np.linalg.norm(weight_factor)) @ (frame / scale), mode="r"
    )
    root = np.round(priced / np.sqrt(np.sum(priced**2)), 12)
    coarse = []
    for start in starts:
        try:
            inverse = np.linalg.inv(
                _along(np.linalg.solve(frame, start), coordinates, priced.T)
            )
            coarse.append(_descend(_rounded(inverse, 20), coordinates, root, _COARSE))
        except np.linalg.LinAlgError:  # a start so skew that rounding made it singular
            continue
    coarse.sort(key=lambda pair: round(pair[1], 6))
    return [
        frame @ np.linalg.inv(_descend(inverse, coordinates, root, _FINE)[0])
        for inverse, _ in coarse[:_KEPT]
    ]


def _rounded(matrix, bits):
    """Every entry rounded to this many significant bits."""
    mantissa, exponent = np.frexp(matrix)
    return np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits)


def _descend(inverse, points, root, temperatures):
    """C = B^-1 that lowers ||root B||_F^2 max_i ||C p_i||_1^2, and the logarithm that it reached.

    BFGS on a smoothed logarithm, ever less smoothed.
    """
    size = len(points)
    for temperature in temperatures:
        norms = np.abs(inverse @ points).sum(axis=0)
        inverse = inverse / norms.max()
        near = np.argsort(-norms, kind="stable")[:_SEARCHED]
        images, factor = inverse @ points[:, near], np.linalg.inv(inverse)
        found = minimize(
            _smoothed_cost,
            np.eye(size).ravel(),
            args=(images, root @ factor, temperature),
            jac=True,
            method="BFGS" if size <= 8 else "L-BFGS-B",
            options={"maxiter": 100, "gtol": 1e-6},
        )
        inverse = found.x.reshape(size, size) @ inverse
    return inverse, found.fun


def _smoothed_cost(entries, images, priced, temperature):
    """2 log ||root B||_F + 2 log max_i ||C p_i||_1 and its gradient in D, at C = D C_0 and root B = priced D^-1."""
    D = entries.reshape(len(images), -1)
    inverse = np.linalg.inv(D)
    column = priced @ inverse
    pull = column.T @ column
    moved = D @ images
    smooth = np.hypot(moved, temperature / len(D))
    norms = smooth.sum(axis=0)
    weights = np.exp((norms - norms.max()) / temperature)
    top = norms.max() + temperature * np.log(weights.sum())
    gradient = (
        moved / smooth * (weights / weights.sum())
    ) @ images.T / top - pull @ inverse.T / np.trace(pull)
    return np.log(np.trace(pull)) + 2 * np.log(top), 2 * gradient.ravel()


def _certify(basis, points, weight_factor, lower_bound):
    """The basis times the least scalar that provably makes every norm at most one."""
    factor = basis
    for _ in range(8):
        norms, bound = _norms(factor, points)
        if bound <= 1 and factor is not basis:
            break
        factor = factor * round_up(bound, 4)
    size, terms = weight_factor.shape
    moved = np.abs(weight_factor.T @ factor) + size * EPS * (
        np.abs(weight_factor.T) @ np.abs(factor)
    )
    cost = float(2 * np.sum(moved**2) * (1 + (size * terms + 8) * EPS))
    return LaplaceShape(factor, cost, lower_bound, np.flatnonzero(norms >= 1 - 1e-6))


def _norms(factor, points):
    """||factor^-1 p||_1 of every point, and an upper bound on the largest that covers all rounding errors.

    With an approximate inverse C and E = I - C B: ||B^-1 p||_1 <= ||C p||_1 / (1 - ||E||_1).
    """
    size = len(points)
    tallest = np.abs(points).max(axis=1)
    unit = np.exp2(-np.round(np.log2(np.where(tallest > 0, tallest, 1.0))))[
        :, None
    ]  # exact: powers of two
    factor, points = factor * unit, points * unit
    try:
        inverse = np.linalg.inv(factor)
    except np.linalg.LinAlgError:
        raise UncertifiableError(
            f"basis: expected {size} independent columns, got a singular matrix"
        ) from None
    slack = (size + 2) * EPS * (np.abs(inverse) @ np.abs(factor))
    residual = np.max(np.sum(np.abs(np.eye(size) - inverse @ factor) + slack, axis=0))
    if not residual < 0.5:
        raise UncertifiableError(
            f"basis of {size} columns: too nearly singular for double precision to certify the noise; "
            "choose better separated directions"
        )
    norms = np.abs(inverse @ points).sum(axis=0)
    excess = (2 * size + 2) * EPS * (np.abs(inverse) @ np.abs(points)).sum(axis=0)
    return norms, float(np.max(norms + excess) / (1 - residual) * (1 + 4 * EPS))
