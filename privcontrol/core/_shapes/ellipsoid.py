"""The cheapest ellipsoid around a set of points, certified from both sides.

This is the heart of noise design: the covariance of least weighted trace that hides every move. A Newton method on
a small working set proposes; the answer is then checked against all points, and against the dual, with bounds on
every rounding error. Points that double precision cannot tell from a thinner set are refused.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, qr

from .._linalg import positive_number, real_array
from ..errors import UncertifiableError
from .certificate import certified_factor, cost_above, cost_below
from .newton import Iterate, balance, optimise, reprice

_CHUNK = 16384  # points per pass, so that a pass stays in cache
_PRESELECTED = 1024  # points that the first, cheap steps look at; 8 r if that is more
_ALL_PRESELECTED = 12  # dimensions up to which all of them make the first working set
_MAX_ROUNDS = 60
_MAX_EXPONENT = 900  # of two: nearer to the end of the doubles a factor could be rounded to less than it must be
_MAX_CONDITION = 1e14  # of the points, after scaling each coordinate

_NARROW = (
    "points: expected columns that span all {size} dimensions, got {count} points that double precision cannot "
    "tell from a thinner set; drop the directions in which nothing moves, or pass points in better separated "
    "coordinates"
)


@dataclass(frozen=True)
class EnclosingEllipsoid:
    """An ellipsoid that holds every point, and a certificate of how far from cheapest it is.

    Attributes
    ----------
    factor : ndarray, shape (r, r)
        S with Sigma = S S^T and ||S^{-1} p||_2 <= 1 for every point, exactly and in floating point. Its rows, suitably
        permuted, are lower triangular.
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

    factor: np.ndarray
    cost: float
    lower_bound: float
    support: np.ndarray
    weights: np.ndarray
    iterations: int
    converged: bool

    @property
    def gap(self):
        """Certified relative gap, cost / lower_bound - 1."""
        return self.cost / self.lower_bound - 1


def enclosing_ellipsoid(points, weight_factor=None, *, tol=1e-9):
    """The ellipsoid of least weighted trace that holds every point.

    Minimises tr(W Sigma) subject to p_i^T Sigma^{-1} p_i <= 1 for all i. Any probability weights w give the lower
    bound t(w)^2, t the nuclear norm of L^T P diag(sqrt(w)), W = L L^T, and the best weights attain it.

    Parameters
    ----------
    points : array_like, shape (r, M)
        The points p_i as columns; p and -p are the same constraint. They must span all r dimensions.
    weight_factor : array_like, shape (r, q), q >= r, optional
        L with W = L L^T positive definite; the identity by default.
    tol : float, optional
        Relative gap to reach.

    Returns
    -------
    EnclosingEllipsoid
        With `converged` False where rounding, or the iteration limit, left a larger gap; the gap reported is true.

    Raises
    ------
    ValueError
        If an argument has the wrong shape or is not finite.
    UncertifiableError
        If the points do not span, or so narrowly that double precision cannot certify the factor.

    Notes
    -----
    This is the optimal covariance behind the matrix inequality of DPAM Algorithm 1, for a Gaussian mechanism with
    unit privacy shift; the duality is classical in optimal experiment design (A-optimality).

    Examples
    --------
    >>> import numpy as np
    >>> found = enclosing_ellipsoid([[3.0, 0.0, 1.0], [0.0, 2.0, 1.0]])
    >>> (found.factor @ found.factor.T).round(6) + 0.0
    array([[9., 0.],
           [0., 4.]])
    >>> found.gap < 1e-9, found.support.tolist()
    (True, [0, 1])
    """
    points = np.ascontiguousarray(real_array(points, "points", ndim=2, copy=False))
    size = len(points)
    weight_factor = np.eye(size) if weight_factor is None else weight_factor
    weight_factor = real_array(
        weight_factor, "weight_factor", shape=(size, None), copy=False
    )
    if weight_factor.shape[1] < size:
        raise ValueError(
            f"weight_factor: expected at least {size} columns, got shape {weight_factor.shape}; the weight must be "
            "positive definite, add a small multiple of the identity to it"
        )
    tol = positive_number(tol, "tol")
    if points.size == 0:
        raise ValueError(
            f"points: expected at least one point of at least one dimension, got shape {points.shape}"
        )
    if not weight_factor.any():
        raise ValueError(
            "weight_factor: expected a positive definite weight, got zero; leave it out for the identity"
        )
    exponent = np.frexp(np.maximum(points.max(1), -points.min(1)))[1][:, None]
    if np.abs(exponent).max() > _MAX_EXPONENT:
        raise UncertifiableError(
            "points: expected coordinates between 1e-270 and 1e270, got larger or smaller; rescale"
        )
    # powers of two change no digit, and keep squares within the range of a double
    index, found = _search(
        np.ldexp(points, -exponent), np.ldexp(weight_factor, exponent), tol
    )
    found.basis = np.ldexp(found.basis, exponent)
    with np.errstate(all="ignore"):
        return _certify(points, weight_factor, index, found, tol)


def _search(points, weight_factor, tol):
    """Indices of the working points and the iterate that solves the problem up to rounding."""
    size = len(points)
    with np.errstate(all="ignore"):
        try:
            index, it = _start(points, weight_factor)
            target = tol / 8 if it.inverse is None else max(1e-3, tol / 8)
            for _ in range(_MAX_ROUNDS):
                optimise(it, target)
                if it.surcharge() > tol / 16:
                    reprice(it)
                    balance(it, 1e-3)
                    continue
                if it.inverse is None:  # no other points
                    break
                squares = _squares(it.inverse, points)
                gap = it.gap(squares.max())
                if gap <= tol / 4:
                    break
                index, added = _exchange(it, index, points, squares, gap)
                if not added and target <= tol / 8:
                    break
                target = max(tol / 8, 1e-2 * min(target, gap))
        except np.linalg.LinAlgError:
            raise UncertifiableError(
                _NARROW.format(size=size, count=points.shape[1])
            ) from None
    return index, it


def _whitening(points):
    """Lower triangular T with the rows of T^{-1} points orthonormal, by blocked QR, and its inverse.

    Raises
    ------
    UncertifiableError
        If the points do not span, after scaling each coordinate.
    """
    size, count = points.shape
    narrow = UncertifiableError(_NARROW.format(size=size, count=count))
    if count < size:
        raise narrow
    blocks = count // _CHUNK
    stack = [points[:, blocks * _CHUNK :].T]
    for k in range(blocks):
        stack.append(np.linalg.qr(points[:, k * _CHUNK : (k + 1) * _CHUNK].T, mode="r"))
    lower = np.linalg.qr(np.vstack(stack) if blocks else stack[0], mode="r").T
    inverse, info = lapack.dtrtri(lower, lower=1)
    # with the rows of T scaled to one, the Frobenius norms of it and its inverse; the first is sqrt(size)
    condition = np.sqrt(size) * np.linalg.norm(inverse * np.linalg.norm(lower, axis=1))
    if info or not condition < _MAX_CONDITION * size:
        raise narrow
    return lower, inverse


def _preselected(inverse, points):
    """Indices of the points that stick out most and of a sample of all the others; no point that is zero."""
    size, count = points.shape
    index = np.arange(count)
    half = max(_PRESELECTED // 2, 4 * size)
    if count > 2 * half:
        outermost = np.argpartition(_squares(inverse, points), count - half)[-half:]
        index = np.union1d(outermost, index[:: count // half])
    return index[points[:, index].any(0)]


def _start(points, weight_factor):
    """A first working set, with multipliers from a few multiplicative updates."""
    size, count = points.shape
    lower, inverse = _whitening(points)
    index = _preselected(inverse, points)
    inside, even = inverse @ points[:, index], np.full(len(index), 1 / len(index))
    limit = count if size <= _ALL_PRESELECTED else 4 * size
    others = count > min(limit, _few(size))
    scaled = weight_factor / np.abs(lower.T @ weight_factor).max()
    it = Iterate(
        inside, np.ones(size), lower, inverse if others else None, even, even, scaled
    )
    reprice(it)
    for _ in range(
        3 if len(index) > size else 0
    ):  # at least `size` points matter: there may be none to choose
        balance(it, 0.1)
        it.multiplier = it.multiplier * it.squares()
    balance(it, 1e-3)
    it.rescale(it.squares().max())
    squares = it.squares()
    keep = np.argsort(-squares)
    if limit < len(keep):  # the outermost alone may lie in a plane, or close together
        apart = _apart(it.points[:, keep], squares[keep], limit)
        span = qr(it.points, mode="r", pivoting=True)[1][:size]
        keep = np.unique(np.concatenate([keep[: limit // 2], keep[apart], span]))
    it.points, squares = it.points[:, keep], squares[keep]
    it.multiplier = np.maximum(it.multiplier[keep], 1e-3 * it.ceiling())
    it.slack = np.maximum(1 - squares, 0.1)
    balance(it, 1e-3)
    return index[keep], it


def _squares(inverse, points):
    """|inverse p_i|^2 for every point, in chunks."""
    count = points.shape[1]
    squares = np.empty(count)
    for k in range(0, count, _CHUNK):
        inside = inverse @ points[:, k : k + _CHUNK]
        np.einsum("ij,ij->j", inside, inside, out=squares[k : k + _CHUNK])
    return squares


def _apart(inside, squares, limit):
    """Positions of at most `limit` points that lie in different directions, the first ones of each."""
    unit = inside / np.sqrt(squares)
    free, chosen = np.ones(len(squares), bool), []
    while free.any() and len(chosen) < limit:
        chosen.append(np.argmax(free))
        free &= (unit[:, chosen[-1]] @ unit) ** 2 < 0.95
        free[chosen[-1]] = False
    return chosen


def _few(size):
    """A number of working points that is not worth reducing: the optimum rests on size (size + 1) / 2 at most."""
    return max(128, 2 * size * (size + 1))


def _exchange(it, index, points, squares, gap):
    """Add the worst violators, one for each direction that they lie in, and drop points that no longer matter."""
    size = len(points)
    if len(index) > _few(size):
        keep = it.multiplier > 1e-2 * it.slack * it.ceiling()
        index, it.points = index[keep], it.points[:, keep]
        it.multiplier, it.slack = it.multiplier[keep], it.slack[keep]
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
    chosen = _apart(inside, squares[candidate], max(32, size * (size + 1) // 2))
    floor = min(0.1, gap)
    it.points = np.hstack([it.points, inside[:, chosen]])
    it.slack = np.maximum(np.append(it.slack, 1 - squares[candidate[chosen]]), floor)
    it.multiplier = np.append(it.multiplier, np.zeros(len(chosen)))
    it.multiplier = np.maximum(it.multiplier, floor * it.ceiling())
    balance(it, 1e-3)
    return np.append(index, candidate[chosen]), True


def _certify(points, weight_factor, index, it, tol):
    """The result, with every bound rounded outwards and checked on all points."""
    factor = certified_factor(points, weight_factor, it.basis)
    squares = it.squares()
    share = it.multiplier / it.ceiling() * (it.cost.sum() / it.multiplier.sum())
    support = share > 1 - squares / squares.max()
    weights = it.multiplier[support] / it.multiplier[support].sum()
    cost = cost_above(weight_factor, factor)
    lower_bound = cost_below(weight_factor, points[:, index[support]], weights)
    if not 1e-280 < lower_bound <= cost < np.inf:
        raise UncertifiableError(
            "points, weight_factor: expected a cost that a double can hold, got one beyond its range; rescale them"
        )
    order = np.argsort(index[support])
    support, weights = index[support][order], weights[order]
    for array in (factor, support, weights):
        array.flags.writeable = False
    converged = bool(cost <= lower_bound * (1 + tol))
    return EnclosingEllipsoid(
        factor, cost, lower_bound, support, weights, it.iterations, converged
    )
