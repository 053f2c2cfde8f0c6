"""The cheapest ellipsoid around a set of points, certified from both sides.

This is the heart of noise design: the covariance of least weighted trace that hides
every move. A Newton method on a small working set of points proposes. The answer is then
checked against all points, and against the dual, with bounds on every rounding error.
Points that double precision cannot tell from a thinner set are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import blas, lapack, qr

from ._balls import ball_matrix, enclosure, working_bits
from ._linalg import EPS, positive_number, real_array
from .errors import UncertifiableError

if TYPE_CHECKING:
    from .query import MoveBasis

#: Points per pass, so that a pass stays in cache.
_CHUNK = 16384
#: Points that the first, cheap steps look at; 8 r if that is more.
_PRESELECTED = 1024
#: Dimensions up to which all of them make the first working set, and Newton steps are
#: solved among the products of coordinates, which then are few beside the points.
_FEW_DIMENSIONS = 12
#: Dimensions up to which Newton steps are exact.
_EXACT_STEPS = 32
_MAX_ROUNDS = 60
#: Newton steps for one working set, exact ones, and others, which may never reach a tight
#: tolerance.
_MOST_STEPS = 80
_FEW_STEPS = 25
#: Of two. Nearer to the end of the doubles a factor could be rounded to less than it
#: must be.
_MAX_EXPONENT = 900
#: Condition of the points, after scaling each coordinate.
_MAX_CONDITION = 1e14

#: Relative price of a direction that costs nothing. It adds at most this much, times r,
#: to the gap.
_LEAST_PRICE = 1e-12
#: Steps of `balance`, which takes a few.
_MOST_BALANCES = 60
#: Distance below which Newton steps of `balance` that no longer halve it are rounding.
_STALLED = 1e-6
#: Slack, and share of the largest multipliers, with which points start again after W has
#: been priced afresh.
_AFRESH = 1e-2
#: Relative errors of the kernel of Newton steps, exact or not.
_KERNEL_TOLS = (1e-10, 1e-3)

_PRECISION = 200  # bits
#: Products of numbers beyond which ball arithmetic takes too long.
_EXACT_SIZE = 10**7
#: Relative enlargement of all directions that a thin one may cause before it is enlarged
#: instead.
_NEGLIGIBLE = 1e-11
#: Relative error of a coordinate of S^{-1} p beyond which nothing is certified.
_MAX_ERROR = 1e-2


@dataclass(frozen=True)
class EnclosingEllipsoid:
    """An ellipsoid that holds every point, and a certificate of how cheap it is.

    Attributes
    ----------
    factor : ndarray, shape (r, r)
        S with Sigma = S S^T and ||S^{-1} p||_2 <= 1 for every point, exactly and in
        floating point. Its rows, suitably permuted, are lower triangular.
    cost : float
        tr(W Sigma), rounded up.
    lower_bound : float
        No feasible Sigma costs less; rounded down.
    support : ndarray of int, shape (s,)
        Points that carry the dual certificate; at the optimum they lie on the boundary.
    weights : ndarray, shape (s,)
        Their probability weights.
    iterations : int
        Newton steps taken.
    converged : bool
        Whether `gap` met the tolerance.
    """

    factor: NDArray
    cost: float
    lower_bound: float
    support: NDArray
    weights: NDArray
    iterations: int
    converged: bool

    @property
    def gap(self) -> float:
        """Certified relative gap, cost / lower_bound - 1."""
        return self.cost / self.lower_bound - 1


def enclosing_ellipsoid(
    points: ArrayLike, weight_factor: ArrayLike | None = None, *, tol: float = 1e-9
) -> EnclosingEllipsoid:
    """The ellipsoid of least weighted trace that holds every point.

    Minimises tr(W Sigma) subject to p_i^T Sigma^{-1} p_i <= 1 for all i. Any probability
    weights w give the lower bound t(w)^2, t the nuclear norm of L^T P diag(sqrt(w)), W =
    L L^T, and the best weights attain it.

    Parameters
    ----------
    points : array_like, shape (r, M)
        The points p_i as columns; p and -p are the same constraint. They must span all r
        dimensions.
    weight_factor : array_like, shape (r, q), q >= r, optional
        L with W = L L^T positive definite; the identity by default.
    tol : float, optional
        Relative gap to reach.

    Returns
    -------
    EnclosingEllipsoid
        With `converged` False where rounding, or the iteration limit, left a larger gap;
        the gap reported is true.

    Raises
    ------
    ValueError
        If an argument has the wrong shape or is not finite.
    UncertifiableError
        If the points do not span, or so narrowly that double precision cannot certify
        the factor.

    Notes
    -----
    This is the optimal covariance behind the matrix inequality of DPAM Algorithm 1, for
    a Gaussian mechanism with unit privacy shift; the duality is classical in optimal
    experiment design (A-optimality).

    Examples
    --------
    >>> found = enclosing_ellipsoid([[3.0, 0.0, 1.0], [0.0, 2.0, 1.0]])
    >>> (found.factor @ found.factor.T).round(6) + 0.0
    array([[9., 0.],
           [0., 4.]])
    >>> found.gap < 1e-9, found.support.tolist()
    (True, [0, 1])
    """
    tol = positive_number(tol, "tol")
    points = np.ascontiguousarray(real_array(points, "points", ndim=2, copy=False))
    if points.size == 0:
        raise ValueError(
            "points: expected at least one point of at least one dimension, got shape "
            f"{points.shape}"
        )
    weight = _checked_weight_factor(weight_factor, len(points))
    tallest = np.maximum(points.max(axis=1), -points.min(axis=1))
    exponent = np.frexp(tallest)[1][:, None]
    if np.abs(exponent).max() > _MAX_EXPONENT:
        raise UncertifiableError(
            "points: expected coordinates between 1e-270 and 1e270, got larger or "
            "smaller; rescale"
        )
    # powers of two change no digit, and keep squares within the range of a double
    scaled_points = np.ldexp(points, -exponent)
    scaled_weight = np.ldexp(weight, exponent)
    with np.errstate(all="ignore"):
        try:
            index, found = _search(scaled_points, scaled_weight, tol)
        except np.linalg.LinAlgError:
            raise _narrow(points) from None
        found.basis = np.ldexp(found.basis, exponent)
        return _certify(points, weight, index, found, tol)


def _checked_weight_factor(weight_factor: ArrayLike | None, size: int) -> NDArray:
    if weight_factor is None:
        return np.eye(size)
    weight = real_array(weight_factor, "weight_factor", shape=(size, None), copy=False)
    if weight.shape[1] < size:
        raise ValueError(
            f"weight_factor: expected at least {size} columns, got shape "
            f"{weight.shape}; the weight must be positive definite, add a small "
            "multiple of the identity to it"
        )
    if not weight.any():
        raise ValueError(
            "weight_factor: expected a positive definite weight, got zero; leave it out "
            "for the identity"
        )
    return weight


# -- shapes for the designs ----------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """A factor in the coordinates of a `MoveBasis` whose unit ball holds every move.

    ``lower_bound`` is the least cost of any such factor.
    """

    factor: NDArray
    lower_bound: float


def gaussian_shape(
    basis: MoveBasis, rows: NDArray, tol: float = 1e-9, *, counted: int | None = None
) -> Shape:
    """The cheapest ellipsoid around the moves of a basis.

    ``rows`` (q, r) is H B for the basis responses B, with H^T H = W, and ``tol`` the gap
    at which the search ends. The lower bound is for hiding the first ``counted`` moves,
    all by default. The others are held as well.
    """
    triangle = weight_triangle(rows)
    found = enclosing_ellipsoid(basis.coordinates, triangle, tol=tol)
    if counted is None:
        return Shape(found.factor, found.lower_bound)
    counts = found.support < counted
    if not counts.any():
        return Shape(found.factor, 0.0)
    support = basis.coordinates[:, found.support[counts]]
    lower_bound = cost_below(triangle, support, found.weights[counts])
    return Shape(found.factor, lower_bound)


def weight_root(weight: ArrayLike | None, size: int) -> Callable[[NDArray], NDArray]:
    """A function B -> H B with H^T H = W, the identity if W is None.

    The function takes columns (m, r), or a vector (m,) that stands for a diagonal
    matrix, as in a noise factor. The squares of what it returns sum to the cost.
    """
    if weight is None:
        return lambda columns: columns
    W = real_array(weight, "weight")
    if W.ndim == 1:
        raise ValueError(
            f"weight: expected shape ({size}, {size}), got {W.shape}; write "
            "np.diag(weight) for prices of entries"
        )
    W = real_array(W, "weight", shape=(size, size))
    if np.abs(W - W.T).max() > 1e-10 * np.abs(W).max():
        raise ValueError("weight: expected a symmetric matrix; pass (W + W.T) / 2")
    values, vectors = scipy.linalg.eigh(W)
    if values[0] < -1e-10 * max(values[-1], 0.0) or values[-1] <= 0:
        raise ValueError(
            "weight: expected a positive semidefinite matrix, got smallest eigenvalue "
            f"{values[0]:.3g}"
        )
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T

    def rooted(columns: NDArray) -> NDArray:
        if columns.ndim == 1:
            return root * columns
        return root @ columns

    return rooted


def weight_triangle(rows: NDArray) -> NDArray:
    """L (r, r) with L L^T = rows^T rows."""
    size = rows.shape[1]
    upper = qr(rows, mode="r")[0][:size]
    if not upper.any():
        raise ValueError(
            "weight: it prices no direction of the noise (W G z = 0 for every hidden "
            "move); use another weight"
        )
    missing = np.zeros((size - len(upper), size))
    return np.vstack([upper, missing]).T


# -- the search over working points --------------------------------------------------


@dataclass
class Iterate:
    """Working points in coordinates where Sigma = I and W = diag(cost).

    ``basis`` (r, r) maps the points (r, s) back to the caller's coordinates, ``inverse``
    is its inverse. ``slack`` (s,) approximates 1 - |q_i|^2, ``multiplier`` (s,) is lam, and
    ``weight_factor`` (r, q) is L in the caller's coordinates, up to scale.
    """

    points: NDArray
    cost: NDArray
    basis: NDArray
    inverse: NDArray
    multiplier: NDArray
    slack: NDArray
    weight_factor: NDArray
    iterations: int = 0

    def squares(self) -> NDArray:
        """Squared norms |q_i|^2 = p_i^T Sigma^{-1} p_i."""
        return np.einsum("ij,ij->j", self.points, self.points)

    def ceiling(self) -> NDArray:
        """Upper bounds 1 / (q_i^T W^{-1} q_i) on the multipliers, their natural scale.

        They follow from lam_i q_i q_i^T <= W.
        """
        inverses = (self.points**2 / self.cost[:, None]).sum(axis=0)
        return np.minimum(self.cost.sum(), 1 / inverses)

    def gap(self, largest: float | None = None) -> float:
        """Relative duality gap, given the largest |q_i|^2 (by default of working points).

        The dual value t(lam)^2 / sum(lam) is taken to first order around Sigma = I, in
        case `balance` was not exact.
        """
        squares = self.squares()
        if largest is None:
            largest = squares.max()
        total = self.cost.sum()
        trace = (total + self.multiplier @ squares) / 2
        return largest * total * self.multiplier.sum() / trace**2 - 1

    def surcharge(self) -> float:
        """Relative cost that `reprice` has added to nearly free directions."""
        true_cost = np.sum((self.weight_factor.T @ self.basis) ** 2)
        return 1 - true_cost / self.cost.sum()

    def transform(self, forward: NDArray, backward: NDArray) -> None:
        """Change coordinates by q -> forward q, where backward = forward^{-1}."""
        self.points = forward @ self.points
        self.inverse = forward @ self.inverse
        self.basis = self.basis @ backward

    def rescale(self, factor: float) -> None:
        """Multiply lam by factor^2, and Sigma with it by factor."""
        root = np.sqrt(factor)
        self.multiplier = self.multiplier * factor**2
        self.cost = self.cost * factor
        self.points = self.points / root
        self.inverse = self.inverse / root
        self.basis = self.basis * root

    def recentre(self, least: float) -> None:
        """Raise slacks, and multipliers by scale, to at least this, for Newton to move."""
        balance(self, 1e-3)
        self.rescale(self.squares().max())
        self.slack = np.maximum(1 - self.squares(), least)
        self.multiplier = np.maximum(self.multiplier, least * self.ceiling())
        balance(self, 1e-3)

    def keep(self, chosen: NDArray) -> None:
        """Drop all working points but the chosen ones."""
        self.points = self.points[:, chosen]
        self.multiplier = self.multiplier[chosen]
        self.slack = self.slack[chosen]


def _search(
    points: NDArray, weight_factor: NDArray, tol: float
) -> tuple[NDArray, Iterate]:
    """Indices of the working points, and the solution up to rounding."""
    index, it = _start(points, weight_factor)
    is_all = len(index) == points.shape[1] <= _few(len(points))
    target = tol / 8 if is_all else max(1e-3, tol / 8)
    surcharge = np.inf
    for _ in range(_MAX_ROUNDS):
        optimise(it, target)
        before, surcharge = surcharge, it.surcharge()
        if tol / 4 < surcharge < before / 2:
            reprice(it)
            it.recentre(_AFRESH)
            continue
        if is_all:
            break
        squares = _squares(it.inverse, points)
        gap = it.gap(squares.max())
        if gap <= tol / 4:
            break
        index, added = _exchange(it, index, points, squares, gap)
        if not added and target <= tol / 8:
            break
        target = max(tol / 8, 1e-2 * min(target, gap))
        surcharge = np.inf
    return index, it


def _narrow(points: NDArray) -> UncertifiableError:
    size, count = points.shape
    return UncertifiableError(
        f"points: expected columns that span all {size} dimensions, got {count} points "
        "that double precision cannot tell from a thinner set; drop the directions in "
        "which nothing moves, or pass points in better separated coordinates"
    )


def _whitening(points: NDArray) -> tuple[NDArray, NDArray]:
    """Lower triangular T with the rows of T^{-1} points orthonormal, and its inverse."""
    size, count = points.shape
    if count < size:
        raise _narrow(points)
    triangles = []
    for k in range(0, count, _CHUNK):
        triangles.append(np.linalg.qr(points[:, k : k + _CHUNK].T, mode="r"))
    lower = np.asarray(np.linalg.qr(np.vstack(triangles), mode="r")).T
    inverse, info = lapack.dtrtri(lower, lower=1)
    # with the rows of T scaled to one, the Frobenius norm of T is sqrt(size)
    scaled_inverse = inverse * np.linalg.norm(lower, axis=1)
    condition = np.sqrt(size) * np.linalg.norm(scaled_inverse)
    if info or not condition < _MAX_CONDITION * size:
        raise _narrow(points)
    return lower, inverse


def _preselected(inverse: NDArray, points: NDArray) -> NDArray:
    """Indices of the points that stick out most and of some others; none is zero."""
    size, count = points.shape
    index = np.arange(count)
    half = max(_PRESELECTED // 2, 4 * size)
    if count > 2 * half:
        outermost = np.argpartition(_squares(inverse, points), count - half)[-half:]
        index = np.union1d(outermost, index[:: count // half])
    return index[points[:, index].any(axis=0)]


def _start(points: NDArray, weight_factor: NDArray) -> tuple[NDArray, Iterate]:
    """A first working set, with multipliers from a few multiplicative updates."""
    size, count = points.shape
    lower, inverse = _whitening(points)
    index = _preselected(inverse, points)
    inside = inverse @ points[:, index]
    even = np.full(len(index), 1 / len(index))
    limit = count if size <= _FEW_DIMENSIONS else 4 * size
    scaled_weight = weight_factor / np.abs(lower.T @ weight_factor).max()
    it = Iterate(
        points=inside,
        cost=np.ones(size),
        basis=lower,
        inverse=inverse,
        multiplier=even,
        slack=even,
        weight_factor=scaled_weight,
    )
    reprice(it)
    for _ in range(3):
        balance(it, 0.1)
        it.multiplier = it.multiplier * it.squares()
    keep = np.argsort(-it.squares())
    if limit < len(keep):
        # the outermost alone may lie in a plane
        span = qr(it.points, mode="r", pivoting=True)[1][:size]
        keep = np.union1d(keep[:limit], span)
    it.keep(keep)
    it.recentre(_AFRESH)
    return index[keep], it


def _squares(inverse: NDArray, points: NDArray) -> NDArray:
    """|inverse p_i|^2 for every point, in chunks."""
    count = points.shape[1]
    squares = np.empty(count)
    for k in range(0, count, _CHUNK):
        inside = inverse @ points[:, k : k + _CHUNK]
        np.einsum("ij,ij->j", inside, inside, out=squares[k : k + _CHUNK])
    return squares


def _apart(inside: NDArray, squares: NDArray, limit: int) -> list[int]:
    """Positions of at most `limit` points in different directions, the first of each."""
    unit = inside / np.sqrt(squares)
    free = np.ones(len(squares), bool)
    chosen: list[int] = []
    while free.any() and len(chosen) < limit:
        first = int(np.argmax(free))
        chosen.append(first)
        free &= (unit[:, first] @ unit) ** 2 < 0.95
        free[first] = False
    return chosen


def _few(size: int) -> int:
    """A number of working points not worth reducing; size (size + 1) / 2 are enough."""
    return max(128, 2 * size * (size + 1))


def _exchange(
    it: Iterate, index: NDArray, points: NDArray, squares: NDArray, gap: float
) -> tuple[NDArray, bool]:
    """Add the worst violator of each direction, and drop points that no longer matter."""
    size = len(points)
    if len(index) > _few(size):
        matters = it.multiplier > 1e-2 * it.slack * it.ceiling()
        index = index[matters]
        it.keep(matters)
        balance(it, 1e-3)
    squares[index] = 0.0
    candidate = np.flatnonzero(squares > 1)
    if not len(candidate):
        return index, False
    most = 4 * _PRESELECTED
    if len(candidate) > most:
        candidate = candidate[np.argpartition(squares[candidate], -most)[-most:]]
    candidate = candidate[np.argsort(squares[candidate])[::-1]]
    inside = it.inverse @ points[:, candidate]
    limit = max(32, size * (size + 1) // 2)
    chosen = _apart(inside, squares[candidate], limit)
    added = candidate[chosen]
    it.points = np.hstack([it.points, inside[:, chosen]])
    it.multiplier = np.append(it.multiplier, np.zeros(len(chosen)))
    it.recentre(min(0.1, gap))
    return np.append(index, added), True


# -- Newton's method on the working points -------------------------------------------
#
# The dual maximises 2 t(lam) - sum(lam) over lam >= 0, where t is the trace of the Sigma
# that solves Sigma W Sigma = sum_i lam_i p_i p_i^T. Everything happens in coordinates in
# which that Sigma is the identity and W is diagonal, so that directions whose costs
# differ by twenty decades are treated alike. The results are proposals: nothing here is
# certified.


def reprice(it: Iterate) -> None:
    """Rotate W to diagonal form afresh, and price directions that cost next to nothing.

    The price then stays until this is called again. A price that followed every step
    would spoil Newton's method.
    """
    vector, root, _ = np.linalg.svd(it.basis.T @ it.weight_factor, full_matrices=False)
    it.transform(vector.T, vector)
    it.cost = np.maximum(root, np.sqrt(_LEAST_PRICE) * root[0]) ** 2


def balance(it: Iterate, tol: float, direct: float = 0.0) -> None:
    """Move to coordinates where Sigma = I solves Sigma W Sigma = M(lam), W diagonal.

    A closed form comes first. It is the last step if its rounding errors are expected
    below `direct`. The others are Newton steps Sigma = (M + W)_ab / (w_a + w_b), positive
    definite by the Schur product theorem, which keep the relative accuracy of every
    direction. They end where rounding leaves no more to gain.
    """
    if it.cost.min() < 1e-3 * _LEAST_PRICE * it.cost.max():
        reprice(it)
    previous = np.inf
    for step in range(_MOST_BALANCES):
        weighted = it.points * np.sqrt(it.multiplier)
        moment = weighted @ weighted.T
        root = np.sqrt(it.cost)
        relative = moment / root / root[:, None]
        distance = np.abs(relative - np.eye(len(root))).max()
        stalled = previous < _STALLED and distance > previous / 2
        if distance <= tol or stalled:
            return
        previous = distance
        if step == 0:
            value, vector = _geometric_mean(root, weighted)
            if value[-1] > 0:  # False for NaN
                scale = np.sqrt(value)
                it.cost = value
                forward = (vector / scale).T * root
                it.transform(forward, (vector * scale) / root[:, None])
                if EPS * (value[0] / value[-1]) ** 2 <= max(tol / 10, direct):
                    return
                continue
        total = it.cost[:, None] + it.cost
        lower = np.linalg.cholesky((moment + np.diag(it.cost)) / total)
        _, value, rotation = np.linalg.svd(root[:, None] * lower)
        it.cost = value**2
        it.transform(rotation @ np.linalg.inv(lower), lower @ rotation.T)


def _geometric_mean(root: NDArray, weighted: NDArray) -> tuple[NDArray, NDArray]:
    """Eigenvalues, falling, and eigenvectors of (R Z Z^T R)^{1/2}, R = diag(root).

    They are those of a triangle with the dear rows first, which keeps most digits of the
    cheap ones. In R Z Z^T R itself the small ones would drown.
    """
    order = np.argsort(-root)
    rows = root[order, None] * weighted[order]
    left, value, _ = np.linalg.svd(np.asarray(np.linalg.qr(rows.T, mode="r")).T)
    vector = np.empty_like(left)
    vector[order] = left
    return value, vector


def _cauchy_factors(cost: NDArray) -> NDArray:
    """Vectors f_k with sum_k f_k f_k^T = 1 / (w_a + w_b), by pivoted Cholesky."""
    tol = _KERNEL_TOLS[len(cost) > _EXACT_STEPS]
    root = np.sqrt(cost)
    kernel = 2 * np.outer(root, root) / (cost[:, None] + cost)
    factors = np.zeros((0, len(cost)))
    residual = np.ones(len(cost))
    while len(factors) < len(cost) and residual.max() > tol:
        pivot = np.argmax(residual)
        row = kernel[pivot] - factors[:, pivot] @ factors
        row = row / np.sqrt(residual[pivot])
        factors = np.vstack([factors, row])
        residual = residual - row**2
    return factors / np.sqrt(2 * cost)


def _factorise(matrix: NDArray) -> NDArray:
    """Lower Cholesky factor of a positive semidefinite matrix, with the least ridge."""
    size = len(matrix)
    scale = matrix.trace() / size
    ridge = 0.0
    while True:
        lower, info = lapack.dpotrf(matrix, lower=1)
        if info == 0:
            return lower
        if not (np.isfinite(scale) and ridge < 1e-2):
            raise np.linalg.LinAlgError("Newton matrix is not positive definite")
        ridge = max(1e-14, 30 * ridge)
        matrix = matrix + ridge * scale * np.eye(size)


def newton_inverse(it: Iterate) -> Callable[[NDArray], NDArray]:
    """A function that applies (H + diag(slack / lam))^{-1}, H minus the Hessian."""
    if len(it.cost) <= _FEW_DIMENSIONS:
        return _inverse_among_products(it)
    return _inverse_among_points(it)


def _inverse_among_products(it: Iterate) -> Callable[[NDArray], NDArray]:
    """The inverse in the r (r + 1) / 2 products of coordinates, whose Gram matrix is H.

    A product q_a q_b counts 1 / (w_a + w_b), and twice for a below b.
    """
    ratio = it.multiplier / it.slack
    root = np.sqrt(ratio)
    first, second = np.triu_indices(len(it.cost))
    count = np.where(first == second, 1.0, 2.0)
    prices = np.sqrt(count / (it.cost[first] + it.cost[second]))
    products = it.points[first] * it.points[second] * prices[:, None] * root
    lower = _factorise(products @ products.T + np.eye(len(products)))

    def inverse(right: NDArray) -> NDArray:
        right = root * right
        solved = lapack.dpotrs(lower, products @ right, lower=1)[0]
        return root * (right - solved @ products)

    return inverse


def _inverse_among_points(it: Iterate) -> Callable[[NDArray], NDArray]:
    """The inverse in the s points, H_ij = sum_ab q_ia q_ib q_ja q_jb / (w_a + w_b)."""
    hessian = np.diag(it.slack)
    points = it.points * np.sqrt(np.sqrt(it.multiplier))
    for factor in _cauchy_factors(it.cost):
        gram = (points * factor[:, None]).T @ points
        gram *= gram
        hessian += gram
    root = np.sqrt(it.multiplier)
    lower = _factorise(hessian)

    def inverse(right: NDArray) -> NDArray:
        return root * lapack.dpotrs(lower, root * right, lower=1)[0]

    return inverse


def _step_length(value: NDArray, change: NDArray, fraction: float) -> float:
    """Largest step up to 1 that leaves at least 1 - `fraction` of every positive value."""
    return min(1.0, fraction / max((-change / value).max(), fraction))


def optimise(it: Iterate, tol: float) -> None:
    """Predictor-corrector steps until the gap on the working points is at most `tol`.

    Mehrotra's method, stopped as well where the gap no longer falls. The targets of
    complementarity follow `Iterate.ceiling`, so that points in cheap directions converge
    like the others.
    """
    is_exact = len(it.cost) <= _EXACT_STEPS
    best = vars(it).copy()
    least = np.inf
    stalled = 0
    for _ in range(_MOST_STEPS if is_exact else _FEW_STEPS):
        gap = it.gap()
        if gap > 0.9 * least and min(gap, 1e4 * least) < 1e-6:
            stalled += 1
        else:
            stalled = 0
        if gap < least:
            best = vars(it).copy()
            least = gap
        if gap <= tol or stalled >= 8:
            break
        _step(it, tol, gap)
    # rounding may have the last word: go back to the best
    vars(it).update(best | {"iterations": it.iterations})


def _step(it: Iterate, tol: float, gap: float) -> None:
    """One predictor-corrector step from a relative duality gap.

    The linearised conditions are slack_i = 1 - |q_i|^2 and slack_i lam_i = target_i.
    """
    lam = it.multiplier
    slack = it.slack
    ceiling = it.ceiling()
    mean = np.mean(slack * lam / ceiling)
    residual = 1 - it.squares() - slack
    inverse = newton_inverse(it)

    def direction(target: NDArray) -> tuple[NDArray, NDArray]:
        d_lam = inverse(target / lam - (slack + residual))
        return target / lam - slack * (1 + d_lam / lam), d_lam

    d_slack, d_lam = direction(np.zeros_like(lam))
    along = _step_length(slack, d_slack, 1.0)
    across = _step_length(lam, d_lam, 1.0)
    moved = (slack + along * d_slack) * (lam + across * d_lam)
    predicted = np.mean(moved / ceiling)
    shrunk = mean * min(1.0, max(predicted, 0.0) / mean) ** 3
    centre = max(shrunk, 0.01 * tol * it.cost.sum() / ceiling.sum())
    d_slack, d_lam = direction(centre * ceiling - along * across * d_slack * d_lam)
    fraction = min(0.999, max(0.9, 1 - gap))
    it.slack = slack + _step_length(slack, d_slack, fraction) * d_slack
    it.multiplier = lam + _step_length(lam, d_lam, fraction) * d_lam
    it.iterations += 1
    balance(it, max(1e-12, min(1e-2, 0.1 * gap)), 10 * tol)


# -- the certificate -----------------------------------------------------------------
#
# The computed solution x of a triangular system S x = p solves (S + dS) x = p exactly
# with |dS| <= gamma(r) |S|, entry by entry and whatever the scaling of the rows; `gamma`
# is twice the textbook constant r u / (1 - r u).


def _certify(
    points: NDArray, weight_factor: NDArray, index: NDArray, it: Iterate, tol: float
) -> EnclosingEllipsoid:
    """The result, with every bound rounded outwards and checked on all points."""
    factor = certified_factor(points, weight_factor, it.basis)
    squares = it.squares()
    share = it.multiplier / it.ceiling() * (it.cost.sum() / it.multiplier.sum())
    carries = share > 1 - squares / squares.max()
    order = np.argsort(index[carries])
    support = index[carries][order]
    weights = it.multiplier[carries][order]
    weights = weights / weights.sum()
    cost = cost_above(weight_factor, factor)
    lower_bound = cost_below(weight_factor, points[:, support], weights)
    if not 1e-280 < lower_bound <= cost < np.inf:
        raise UncertifiableError(
            "points, weight_factor: expected a cost that a double can hold, got one "
            "beyond its range; rescale them"
        )
    for array in (factor, support, weights):
        array.flags.writeable = False
    converged = bool(cost <= lower_bound * (1 + tol))
    return EnclosingEllipsoid(
        factor, cost, lower_bound, support, weights, it.iterations, converged
    )


def gamma(operations: int) -> float:
    """Relative error bound of a chain of this many operations, in any order.

    It is twice the textbook bound: EPS is two unit roundoffs.
    """
    return (operations + 4) * EPS


def row_permuted_triangle(basis: NDArray) -> tuple[NDArray, NDArray]:
    """An order and L, lower triangular of positive diagonal, with L L^T = basis basis^T.

    The rows of basis are taken in that order. Column pivoting sorts them by what each
    adds: no entry exceeds the diagonal entry of its column, so that Gaussian elimination
    with partial pivoting of the factor is plain substitution in this order.
    """
    upper, order = qr(basis.T, mode="r", pivoting=True)
    signs = np.where(np.diag(upper) < 0, -1.0, 1.0)
    return order, (upper * signs[:, None]).T


def solution_error(lower: NDArray) -> NDArray:
    """E, nonnegative (r, r), with |x - S^{-1} p| <= E |x| for the computed x of S x = p."""
    size = len(lower)
    inverse, info = lapack.dtrtri(lower, lower=1)
    if info:
        product = np.full_like(lower, np.inf)
    else:
        product = np.abs(inverse) @ np.abs(lower)
    error = gamma(size) * product
    if not error.sum(axis=1).max() <= _MAX_ERROR:  # also catches NaN
        raise UncertifiableError(
            f"points: expected {size} dimensions that double precision can separate, got "
            "points whose coordinates in their enclosing ellipsoid are uncertain by more "
            "than one percent; pass points in coordinates that separate their scales"
        )
    # |S^{-1}| <= (I - R)^{-1} |inverse| with R >= |I - inverse S|
    rounding = gamma(size) * (product + np.eye(size))
    residual = np.abs(np.eye(size) - inverse @ lower) + rounding
    return np.linalg.inv(np.eye(size) - residual) @ error * (1 + 1e-6)


def certified_factor(
    points: NDArray, weight_factor: NDArray, basis: NDArray
) -> NDArray:
    """S with S S^T close to basis basis^T, and ||S^{-1} p||_2 <= 1 for every point.

    Each column is first enlarged on account of its own rounding error, balanced against
    its share of the cost, so that a thin direction beside long ones does not enlarge the
    long ones. Then all are enlarged by the worst point.
    """
    order, lower = row_permuted_triangle(basis)
    error = solution_error(lower)
    enlarged = _enlargement(error, weight_factor[order].T @ lower)
    largest = _largest_norm(lower, points[order], error, enlarged)
    factor = np.empty_like(lower)
    factor[order] = lower * (enlarged * (largest * (1 + gamma(2 * len(lower) + 8))))
    return factor


def _enlargement(error: NDArray, columns: NDArray) -> NDArray:
    """Factors (r,) by which to enlarge weighted directions with errors of coordinates."""
    price = np.einsum("ij,ij->j", columns, columns)
    uncertainty = np.linalg.norm(error, axis=1)
    share = np.sqrt(np.maximum(price / price.sum(), 1e-300))
    # enlarging squares by 1 + t costs share^2 t, and leaves the others to be enlarged by
    # uncertainty^2 / t
    squares = 1 + np.minimum(uncertainty / share, uncertainty**2 / _NEGLIGIBLE)
    return np.maximum(1 + uncertainty, np.sqrt(squares))


def thickening(factor: NDArray, weigh: Callable[[NDArray], NDArray]) -> NDArray | None:
    """T (r, r) with which factor @ T hides what factor hides, however it is rounded.

    T is orthogonal but for its scales. A direction that is thin beside others is tilted
    by rounding their entries. It is made so much thicker, at no cost that shows, that
    the tilt does not matter. ``weigh`` maps columns to those whose squares sum to the
    cost. The answer is None if no direction is that thin.
    """
    size = factor.shape[1]
    upper = qr(factor.T, mode="r", pivoting=True)[0][:, :size]
    inverse, info = lapack.dtrtri(upper)
    error = gamma(0) * (np.abs(inverse).T @ np.abs(upper).T)  # of rounding each entry
    if info or not error.max() > _NEGLIGIBLE:
        return None
    rotation = qr(factor.T, mode="economic", pivoting=True)[0]
    return rotation * _enlargement(error, weigh(factor @ rotation))


def _largest_norm(
    lower: NDArray, points: NDArray, error: NDArray, enlarged: NDArray
) -> float:
    """max ||diag(1 / enlarged) x|| over all x within the error of the computed S^{-1} p."""
    largest = 0.0
    for k in range(0, points.shape[1], _CHUNK):
        chunk = points[:, k : k + _CHUNK].T
        solution = blas.dtrsm(1.0, lower, chunk, side=1, lower=1, trans_a=1).T
        solution = np.abs(solution)
        bound = (solution + error @ solution) / enlarged[:, None]
        squares = np.einsum("ij,ij->j", bound, bound)
        largest = np.maximum(largest, squares.max())  # keeps a NaN
    if not np.isfinite(largest):
        raise UncertifiableError(
            "points: expected sizes that a double can hold, got an overflow; rescale them"
        )
    return math.sqrt(largest)


def _product(left: NDArray, right: NDArray) -> tuple[NDArray, NDArray]:
    """left @ right and bounds of its errors, in balls where doubles cancel too much."""
    value = left @ right
    error = gamma(len(right)) * (np.abs(left) @ np.abs(right))
    cancels = np.linalg.norm(error) > _NEGLIGIBLE * np.linalg.norm(value)
    if cancels and value.size * len(right) <= _EXACT_SIZE:
        with working_bits(_PRECISION):
            return enclosure(ball_matrix(left) * ball_matrix(right))
    return value, error


def cost_above(weight_factor: NDArray, factor: NDArray) -> float:
    """||L^T S||_F^2 = tr(W S S^T), rounded up."""
    value, error = _product(weight_factor.T, factor)
    squares = ((np.abs(value) + error) ** 2).sum(axis=1)
    return float(math.fsum(squares.tolist()) * (1 + gamma(value.shape[1])))


def cost_below(weight_factor: NDArray, points: NDArray, weights: NDArray) -> float:
    """||A||_*^2 for A = L^T P diag(sqrt(w)), rounded down.

    It is at least <Y, A>^2 / ||Y||_2^2 for any Y, here one close to the polar factor.
    """
    root = np.sqrt(weights)
    value, error = _product(weight_factor.T, points)
    matrix = value * root
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    polar = left @ right
    lost = np.abs(polar) * (error * root + gamma(len(polar)) * np.abs(matrix))
    columns = (polar * matrix).sum(axis=0) - lost.sum(axis=0)
    inner = max(math.fsum(columns.tolist()), 0.0)
    orthonormal = polar if len(polar) <= polar.shape[1] else polar.T
    bound = inner / math.sqrt(_norm_squared(orthonormal))
    return float(bound * bound / math.fsum((root**2).tolist()) * (1 - 16 * EPS))


def _norm_squared(rows: NDArray) -> float:
    """Upper bound of the squared spectral norm of a matrix with nearly orthonormal rows."""
    gram = rows @ rows.T
    error = gamma(rows.shape[1]) * gram.trace()  # of the Gram matrix, in Frobenius norm
    return (float(np.abs(gram).sum(axis=1).max()) + error) * (1 + gamma(rows.size))
