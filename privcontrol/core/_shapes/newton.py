"""Interior-point Newton method for the dual of the enclosing-ellipsoid problem on a set of working points.

The dual maximises 2 t(lam) - sum(lam) over lam >= 0, where t is the trace of the Sigma that solves Sigma W Sigma =
sum_i lam_i p_i p_i^T. Everything happens in coordinates in which that Sigma is the identity and W is diagonal, so
directions whose costs differ by twenty decades are treated alike. The results are proposals: nothing here is certified.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import lapack

from .._linalg import EPS

_LEAST_PRICE = 1e-12  # relative; pricing a nearly free direction so adds at most this much, times r, to the gap
_DIRECT_SPREAD = (
    1e-6  # below this ratio of costs an eigendecomposition loses the cheap directions
)
_FEATURE_SIZE = 32  # largest r whose r (r + 1) / 2 products of coordinates are formed
_MANY = 4  # times as many points as features, above which Newton steps are solved among the features
_KERNEL_TOL = (
    1e-3  # relative error of the low-rank Cauchy kernel: it only shapes the Newton step
)


@dataclass
class Iterate:
    """Working points in coordinates where Sigma = I and W = diag(cost), with their multipliers.

    `points` is (r, s), `basis` (r, r) maps these coordinates back to the caller's, `inverse` is its inverse, or None
    where every point is a working point and none is left to be mapped; `multiplier` (s,) is lam and `slack` (s,) approximates 1 - |points|^2. `weight_factor` is L, up to scale.
    """

    points: np.ndarray
    cost: np.ndarray
    basis: np.ndarray
    inverse: np.ndarray
    multiplier: np.ndarray
    slack: np.ndarray
    weight_factor: np.ndarray
    iterations: int = 0

    def squares(self):
        """Squared norms |q_i|^2 = p_i^T Sigma^{-1} p_i."""
        return np.einsum("ij,ij->j", self.points, self.points)

    def ceiling(self):
        """Upper bounds 1 / (q_i^T W^{-1} q_i) on the multipliers, since lam_i q_i q_i^T <= W: their natural scale."""
        squared = self.points**2
        return np.minimum(self.cost.sum(), 1 / (squared / self.cost[:, None]).sum(0))

    def gap(self, largest=None):
        """Relative duality gap, given the largest of |q_i|^2 (default: over the working points).

        The dual value t(lam)^2 / sum(lam) is taken to first order around Sigma = I, in case `balance` was not exact.
        """
        squares = self.squares()
        largest = squares.max() if largest is None else largest
        total = self.cost.sum()
        trace = (total + self.multiplier @ squares) / 2
        return largest * total * self.multiplier.sum() / trace**2 - 1

    def surcharge(self):
        """Relative cost that `reprice` has added to nearly free directions."""
        return 1 - np.sum((self.weight_factor.T @ self.basis) ** 2) / self.cost.sum()

    def transform(self, forward, backward):
        """Change coordinates by q -> forward q, where backward = forward^{-1}."""
        self.points = forward @ self.points
        self.inverse = None if self.inverse is None else forward @ self.inverse
        self.basis = self.basis @ backward

    def rescale(self, factor):
        """Multiply lam by factor^2, and Sigma with it by factor."""
        self.multiplier = self.multiplier * factor**2
        self.cost = self.cost * factor
        self.points = self.points / np.sqrt(factor)
        self.inverse = None if self.inverse is None else self.inverse / np.sqrt(factor)
        self.basis = self.basis * np.sqrt(factor)


def reprice(it):
    """Rotate W to diagonal form afresh, pricing directions that cost next to nothing at `_LEAST_PRICE`.

    That price then stays, until this is called again: a price that followed every step would spoil Newton's method.
    """
    vector, root, _ = np.linalg.svd(it.basis.T @ it.weight_factor, full_matrices=False)
    it.transform(vector.T, vector)
    it.cost = np.maximum(root, np.sqrt(_LEAST_PRICE) * root[0]) ** 2


def balance(it, tol, direct=0.0, max_steps=60):
    """Move to the coordinates where Sigma = I solves Sigma W Sigma = M(lam) and W is diagonal, to relative `tol`.

    The first step is the closed form W^{-1/2} (W^{1/2} M W^{1/2})^{1/2} W^{-1/2} unless the costs are too spread for
    it, and the last one if its rounding errors are expected below `direct`; the others are Newton steps Sigma = (M + W)_ab / (w_a + w_b), positive definite by the Schur product
    theorem and convergent from anywhere, which keep the relative accuracy of every direction.
    """
    if it.cost.min() < 1e-3 * _LEAST_PRICE * it.cost.max():
        reprice(it)
    for step in range(max_steps):
        weighted = it.points * np.sqrt(it.multiplier)
        moment, root = weighted @ weighted.T, np.sqrt(it.cost)
        error = np.abs(moment / root / root[:, None] - np.eye(len(root))).max()
        if error <= tol:
            return
        if step == 0 and it.cost.min() > _DIRECT_SPREAD * it.cost.max():
            value, vector = np.linalg.eigh(root[:, None] * moment * root)
            value = np.sqrt(value)
            if value[0] > _DIRECT_SPREAD * value[-1]:  # also False for NaN
                it.cost = value
                scale = np.sqrt(value)
                it.transform(
                    (vector / scale).T * root, (vector * scale) / root[:, None]
                )
                if EPS * (value[-1] / value[0]) ** 2 <= max(tol / 10, direct):
                    return
                continue
        total = it.cost[:, None] + it.cost
        lower = np.linalg.cholesky((moment + np.diag(it.cost)) / total)
        _, value, vector = np.linalg.svd(root[:, None] * lower)
        it.cost = value**2
        it.transform(vector @ np.linalg.inv(lower), lower @ vector.T)


@lru_cache(maxsize=16)
def _pairs(size):
    """Rows and columns of the upper triangle, and what a product of coordinates counts there."""
    rows, columns = np.triu_indices(size)
    return rows, columns, np.where(rows == columns, 1.0, np.sqrt(2.0))


def _features(it, weights):
    """Products q_a q_b sqrt(weight) / sqrt(w_a + w_b), (r (r + 1) / 2, s).

    With unit weights their Gram matrix is minus the Hessian of the dual.
    """
    rows, columns, count = _pairs(len(it.cost))
    points = it.points * weights**0.25
    return (
        points[rows]
        * points[columns]
        * (count / np.sqrt(it.cost[rows] + it.cost[columns]))[:, None]
    )


def _cauchy_factors(cost):
    """Vectors f_k with sum_k f_k f_k^T = 1 / (w_a + w_b) up to `_KERNEL_TOL`, by pivoted Cholesky."""
    root = np.sqrt(cost)
    kernel = 2 * np.outer(root, root) / (cost[:, None] + cost)
    factors = np.zeros((0, len(cost)))
    residual = np.ones(len(cost))
    while len(factors) < len(cost) and residual.max() > _KERNEL_TOL:
        pivot = np.argmax(residual)
        row = (kernel[pivot] - factors[:, pivot] @ factors) / np.sqrt(residual[pivot])
        factors = np.vstack([factors, row])
        residual = residual - row**2
    return factors / np.sqrt(2 * cost)


def _hessian(it):
    """Minus the Hessian of the dual, sum_ab q_ia q_ib q_ja q_jb / (w_a + w_b), (s, s)."""
    if len(it.cost) <= _FEATURE_SIZE:
        features = _features(it, np.ones(it.points.shape[1]))
        return features.T @ features
    largest = it.cost.max()  # keeps single precision within its range
    points = it.points.astype(np.float32)
    hessian = np.zeros((points.shape[1],) * 2, np.float32)
    for factor in _cauchy_factors(it.cost / largest).astype(np.float32):
        gram = (points * factor[:, None]).T @ points
        gram *= gram
        hessian += gram
    return hessian.astype(float) / largest


def _factorise(matrix):
    """Lower Cholesky factor of a positive semidefinite matrix, with the least ridge that lets it exist."""
    size, ridge = len(matrix), 0.0
    scale = matrix.trace() / size
    while True:
        lower, info = lapack.dpotrf(matrix, lower=1)
        if info == 0:
            return lower
        if not (np.isfinite(scale) and ridge < 1e-2):
            raise np.linalg.LinAlgError("Newton matrix is not positive definite")
        ridge = max(1e-14, 30 * ridge)
        matrix = matrix + ridge * scale * np.eye(size)


def newton_solver(it):
    """A function (target) -> (d_slack, d_multiplier) that solves the linearised optimality conditions.

    They are slack_i = 1 - |q_i|^2 and slack_i lam_i = target_i.
    """
    slack, lam = it.slack, it.multiplier
    residual = 1 - it.squares() - slack
    inverse = newton_inverse(it)

    def solve(target):
        d_lam = inverse(target / lam - (slack + residual))
        return target / lam - slack * (1 + d_lam / lam), d_lam

    return solve


def newton_inverse(it):
    """A function that applies (H + diag(slack / lam))^{-1}, H minus the Hessian of the dual.

    Where H is a Gram matrix of few features, in their dimension: there its rank is what costs, not the points.
    """
    size, count = it.points.shape
    if size <= _FEATURE_SIZE and _MANY * size * (size + 1) // 2 < count:
        ratio = it.multiplier / it.slack
        features, root = _features(it, ratio), np.sqrt(ratio)
        lower = _factorise(features @ features.T + np.eye(len(features)))

        def inverse(right):
            right = root * right
            return root * (
                right - lapack.dpotrs(lower, features @ right, lower=1)[0] @ features
            )
    else:
        root = np.sqrt(it.multiplier)
        matrix = _hessian(it) * root * root[:, None]
        matrix.flat[:: count + 1] += it.slack
        lower = _factorise(matrix)

        def inverse(right):
            return root * lapack.dpotrs(lower, root * right, lower=1)[0]

    return inverse


def _step_length(value, change, fraction):
    """Largest step up to 1 that leaves at least 1 - `fraction` of every positive value."""
    return min(1.0, fraction / max((-change / value).max(), fraction))


def optimise(it, tol, max_iterations=80):
    """Mehrotra predictor-corrector steps until the gap on the working points is at most `tol`, or no longer falls.

    The complementarity targets follow `Iterate.ceiling`, so that points in cheap directions converge like the others.
    """
    best, least, stalled = vars(it).copy(), np.inf, 0
    for _ in range(max_iterations):
        gap = it.gap()
        stalled = (
            stalled + 1 if gap > 0.9 * least and min(gap, 1e4 * least) < 1e-6 else 0
        )
        if gap < least:
            best, least = vars(it).copy(), gap
        if gap <= tol or stalled >= 8:
            break
        _step(it, tol, gap)
    vars(it).update(
        best | {"iterations": it.iterations}
    )  # rounding may have the last word


def _step(it, tol, gap):
    """One predictor-corrector step from a relative duality gap."""
    lam, slack, ceiling = it.multiplier, it.slack, it.ceiling()
    mean = np.mean(slack * lam / ceiling)
    solve = newton_solver(it)
    d_slack, d_lam = solve(np.zeros_like(lam))
    along, across = _step_length(slack, d_slack, 1.0), _step_length(lam, d_lam, 1.0)
    predicted = np.mean((slack + along * d_slack) * (lam + across * d_lam) / ceiling)
    centre = max(
        mean * min(1.0, max(predicted, 0.0) / mean) ** 3,
        0.01 * tol * it.cost.sum() / ceiling.sum(),
    )
    d_slack, d_lam = solve(centre * ceiling - along * across * d_slack * d_lam)
    fraction = min(0.999, max(0.9, 1 - gap))
    it.slack = slack + _step_length(slack, d_slack, fraction) * d_slack
    it.multiplier = lam + _step_length(lam, d_lam, fraction) * d_lam
    it.iterations += 1
    balance(it, max(1e-12, min(1e-2, 0.1 * gap)), 10 * tol)
