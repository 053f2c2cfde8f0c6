"""Laplace noise of more columns than directions: that of the published entries, cut to the span of the moves' images.

A left inverse C (K, r) stands for its factor B (r, K): B = C^+ costs least among all B with B C = I, whatever the weight,
as B B^T = C^+ C^+^T + Z Z^T for B = C^+ + Z with Z C = 0. A move p is the combination C p of B's columns, so that
||C p||_1 bounds its epsilon. The results are proposals: the designer certifies the noise that is made of them.
"""

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

from .cross_polytope import best_scales

_SEARCHED = 4096  # entries of C beyond which scales and directions are left as they are
_TEMPERATURES = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
_NEAR = 400  # points that a step of the search looks at
_LEAST_PRICE = 1e-12  # relative; a free entry is priced so that its best scale exists


def wide_factor(responses, points, weight_factor, prices):
    """The cheapest factor (r, K), K at most m, found from independent noise on the m entries; and its cost.

    Starts are equal scales and the best scales of the entries; cut to the span, each costs at most what it did. From
    there a local search goes on, and only what it improves is kept.

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
        With max_i ||factor^+ p_i||_1 = 1 up to rounding.
    cost : float
    """
    reached = responses.any(axis=1)
    rows, prices = responses[reached], prices[reached]
    inverses = [rows]
    if rows.size <= _SEARCHED:
        prices = np.maximum(prices, _LEAST_PRICE * prices.max())
        scales, _ = best_scales(np.abs(rows @ points).T, prices)
        inverses.append(rows * scales[:, None])
        inverses += (
            _descended(inverses, points, weight_factor) if len(points) > 1 else []
        )
    factors = [_factor(inverse, points) for inverse in inverses]
    costs = [2 * float(np.sum((weight_factor.T @ factor) ** 2)) for factor in factors]
    # Round-off must not choose between equals: a start stays unless beaten clearly.
    first = next(k for k, cost in enumerate(costs) if cost <= min(costs) * (1 + 1e-6))
    return factors[first], costs[first]


def _factor(inverse, points):
    """C^+ times the largest ||C p||_1."""
    size = np.linalg.norm(inverse, axis=0)
    return (
        scipy.linalg.pinv(inverse / size)
        / size[:, None]
        * np.abs(inverse @ points).sum(axis=0).max()
    )


def _descended(starts, points, weight_factor):
    """Left inverses found by descent from each start."""
    found = []
    for start in starts:
        try:
            found.append(_descend(start, points, weight_factor))
        except np.linalg.LinAlgError:  # so skew that rounding made it singular
            continue
    return [inverse for inverse in found if np.isfinite(inverse).all()]


def _descend(inverse, points, weight_factor):
    """C that lowers tr(W (C^T C)^{-1}) max_i ||C p_i||_1^2, by BFGS on a smoothed logarithm, ever less smoothed.

    In coordinates in which the start has orthonormal columns, rounded so that round-off in the data moves the result by
    little more than the data moved.
    """
    start, frame = scipy.linalg.qr(inverse, mode="economic")
    moved = frame @ points
    moved = np.round(moved / np.abs(start @ moved).sum(axis=0).max(), 9)
    priced = scipy.linalg.solve_triangular(frame, weight_factor, trans="T")
    weight = np.round(priced @ priced.T / np.sum(priced**2), 12)
    found = np.round(start, 12)
    for temperature in _TEMPERATURES:
        norms = np.abs(found @ moved).sum(axis=0)
        found = found / norms.max()
        near = np.argsort(-norms, kind="stable")[:_NEAR]
        arguments = moved[:, near], weight, temperature
        options = {"maxiter": 100, "gtol": 1e-6}
        found = minimize(
            _smoothed_cost,
            found.ravel(),
            arguments,
            "L-BFGS-B",
            jac=True,
            options=options,
        ).x
        found = found.reshape(start.shape)
    return found @ frame


def _smoothed_cost(entries, points, weight, temperature):
    """log tr(W (C^T C)^{-1}) + 2 log max_i ||C p_i||_1 and its gradient in C."""
    C = entries.reshape(-1, len(points))
    gram = np.linalg.inv(C.T @ C)
    pull = gram @ weight @ gram
    cost = np.trace(gram @ weight)
    if not 0 < cost < np.inf:
        raise np.linalg.LinAlgError("C has lost its rank to rounding")
    images = C @ points
    smooth = np.hypot(images, temperature / len(C))
    norms = smooth.sum(axis=0)
    shares = np.exp((norms - norms.max()) / temperature)
    top = norms.max() + temperature * np.log(shares.sum())
    gradient = (
        images / smooth * (shares / shares.sum())
    ) @ points.T / top - C @ pull / cost
    return np.log(cost) + 2 * np.log(top), 2 * gradient.ravel()
