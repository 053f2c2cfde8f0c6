"""The cheapest ellipsoid around a set of points, certified from both sides.

This is the heart of noise design: the covariance of least weighted trace that hides
every move. A Newton method on a small working set of points proposes. The answer is then
checked against all points, and against the dual, with bounds on every rounding error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import blas, lapack, qr

from .checks import real_array
from .errors import UncertifiableError
from .linalg import EPS, one_thread
from .progress import search_round
from .thresholds import (
    ALIKE,
    CACHED,
    FEW_ROUNDS,
    LARGEST_EXCESS,
    MANY_DIMENSIONS,
    MOST_ROUNDS,
    NEGLIGIBLE,
    ROUGH,
    ROUNDED,
)

#: Of two. Nearer to the end of the doubles a factor could be rounded to less than it
#: must be.
_MAX_EXPONENT = 900
#: Speed: multiplicative updates in hundreds of dimensions between two looks at all points.
#: Those of the least weight rest until then.
_LOOK_AROUND = 8
#: Power of a scaling (two is Newton's where no two points share a direction), and what is
#: kept of the last one.
_POWER = 1.9
_MOMENTUM = 0.65
#: Speed: dimensions from which on an integral takes the place of factors.
_WIDE = 64
#: How many times fewer moves than dimensions a search over some times has.
_THINNED = 4
#: Least weight with which a search begins, relative to the largest.
_LIGHTEST = 1e-4


@dataclass(frozen=True)
class Shape:
    """A factor whose unit ball holds every move, and a certificate of how cheap it is.

    Attributes
    ----------
    factor : ndarray, shape (n, r)
        S of the covariance S S^T.
    lower_bound : float
        No covariance around the moves costs less, nor does noise of the law at hand. NaN
        if nothing is known.
    cost : float
        tr(W S S^T), rounded up, NaN where it was not computed.
    support, weights : ndarray, shape (s,)
        Indices of moves which, with these probabilities, prove the bound, if they are
        known.
    """

    factor: NDArray[np.float64]
    lower_bound: float
    cost: float = math.nan
    support: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, int))
    weights: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    @property
    def gap(self) -> float:
        """Certified relative gap, cost / lower_bound - 1."""
        return self.cost / self.lower_bound - 1


@one_thread
def enclosing_ellipsoid(
    points: ArrayLike,
    weight_factor: NDArray[np.float64] | None = None,
    *,
    tol: float = 1e-9,
) -> Shape:
    """The ellipsoid of least weighted trace that holds every point.

    Its factor (r, r) is S with ||S^{-1} p||_2 <= 1 for every point, exactly and in
    floating point. The rows of S, suitably permuted, are lower triangular.

    Minimises tr(W Sigma) subject to p_i^T Sigma^{-1} p_i <= 1 for all i. Any probability
    weights w give the lower bound t(w)^2, t the nuclear norm of L^T P diag(sqrt(w)), W =
    L L^T, and the best weights attain it. This is the optimal covariance behind the
    matrix inequality of DPAM Algorithm 1, for a Gaussian mechanism with unit privacy
    shift. The duality is classical in optimal experiment design (A-optimality).

    The points (r, M) must span all r dimensions; p and -p are the same constraint.
    ``weight_factor`` (r, q), q >= r, is L, not zero, by default the identity. ``tol`` is
    the relative gap to reach; rounding, or the iteration limit, may leave a larger one.
    Points that span so narrowly that double precision cannot
    certify the factor are an `UncertifiableError`.

    Examples
    --------
    >>> found = enclosing_ellipsoid([[3.0, 0.0, 1.0], [0.0, 2.0, 1.0]])
    >>> (found.factor @ found.factor.T).round(6) + 0.0
    array([[9., 0.],
           [0., 4.]])
    >>> found.gap < 1e-9, found.support.tolist()
    (True, [0, 1])
    """
    points = np.ascontiguousarray(points, float)
    if weight_factor is None:
        weight_factor = np.eye(len(points))
    tallest = np.maximum(points.max(axis=1), -points.min(axis=1))
    exponent = np.frexp(tallest)[1][:, None]
    if np.abs(exponent).max() > _MAX_EXPONENT:
        raise UncertifiableError(
            "hidden moves: expected sizes between 1e-270 and 1e270, got larger or "
            "smaller; choose other units"
        )
    # powers of two change no digit, and keep squares within the range of a double
    scaled_points = np.ldexp(points, -exponent)
    scaled_weight = np.ldexp(weight_factor, exponent)
    with np.errstate(all="ignore"):
        try:
            found = _search(scaled_points, scaled_weight, tol)
        except np.linalg.LinAlgError:
            raise _narrow(points) from None
        found.basis = np.ldexp(found.basis, exponent)
        return _certify(points, weight_factor, found)


# -- shapes for the designs ----------------------------------------------------------


@dataclass(frozen=True)
class MoveBasis:
    """A basis of large volume among the moves, in which all have small coordinates."""

    moves: NDArray[np.float64]  # the basis moves (k, r)
    responses: NDArray[np.float64]  # the query's responses to them (m, r)
    coordinates: NDArray[np.float64]  # all moves in that basis (r, M)


def gaussian_shape(
    basis: MoveBasis,
    rows: NDArray[np.float64],
    tol: float = 1e-9,
    *,
    counted: int | None = None,
) -> Shape:
    """Find the cheapest ellipsoid around the moves of a basis.

    ``rows`` (q, r) is H B for the basis responses B, with H^T H = W, and ``tol`` the gap
    at which the search ends. The lower bound is for hiding the first ``counted`` moves,
    all by default. The others are held as well.
    """
    triangle = weight_triangle(rows)
    found = enclosing_ellipsoid(basis.coordinates, triangle, tol=tol)
    if counted is None:
        return found
    counts = found.support < counted
    if not counts.any():
        return Shape(found.factor, 0.0)
    support = basis.coordinates[:, found.support[counts]]
    lower_bound = cost_below(triangle, support, found.weights[counts])
    return Shape(found.factor, lower_bound)


def weight_root(
    weight: ArrayLike | None, size: int
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """A function B -> H B with H^T H = W, the identity if W is None.

    The function takes columns (m, r), or a vector (m,) that represents a diagonal
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

    def rooted(columns: NDArray[np.float64]) -> NDArray[np.float64]:
        if columns.ndim == 1:
            return root * columns
        return root @ columns

    return rooted


def weight_triangle(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """L (r, r) with L L^T = rows^T rows."""
    size = rows.shape[1]
    _, upper = qr(rows, mode="raw")  # "r" adds as many zeros as there are rows
    if not upper.any():
        raise ValueError(
            "weight: it prices no direction of the noise (W G z = 0 for every hidden "
            "move); use another weight"
        )
    missing = np.zeros((size - len(upper), size))
    return np.vstack([upper, missing]).T


# -- a shape within a percent, in hundreds of dimensions -----------------------------


@dataclass
class Weights:
    """Logarithms of weights with which a search begins, and at which it ended.

    Attributes
    ----------
    points : ndarray, shape (M,)
    balls : list of ndarray, shape (q, q)
        Symmetric, with the matrix weights of balls as their exponentials.
    """

    points: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    balls: list[NDArray[np.float64]] = field(default_factory=list)

    def fit(
        self, points: NDArray[np.float64], balls: Sequence[NDArray[np.float64]]
    ) -> bool:
        """Return whether they are of as many points (r, M) and balls of roots (r, q)."""
        sizes = [len(logs) for logs in self.balls]
        of_balls = [root.shape[1] for root in balls]
        return len(self.points) == points.shape[1] and sizes == of_balls

    def propose(self, weights: NDArray[np.float64]) -> None:
        """Take weights (M,) that are near the best ones for some points."""
        self.points = np.log(weights)
        self.balls = []

    def even(
        self, points: NDArray[np.float64], balls: Sequence[NDArray[np.float64]]
    ) -> None:
        """Take the same weight for all points and in all directions of balls."""
        self.points = np.zeros(points.shape[1])
        self.balls = [np.zeros((root.shape[1], root.shape[1])) for root in balls]

    def keep(
        self, points: NDArray[np.float64], balls: Sequence[NDArray[np.float64]]
    ) -> None:
        """Take those at which a search ended, none of them far below the largest.

        The next search is for a like shape, whose best weights may be others.
        """
        largest = [points.max(initial=-np.inf)]
        largest += [np.linalg.eigvalsh(logs)[-1] for logs in balls]
        top = max(largest)
        least = math.log(_LIGHTEST)
        self.points = np.maximum(points - top, least)
        self.balls = []
        for logs in balls:
            values, axes = np.linalg.eigh(logs)
            self.balls.append((axes * np.maximum(values - top, least)) @ axes.T)


class _BallWeight:
    """The matrix weight exp(L) of a ball of root E (r, q), and its last step.

    The weights of a point p and of a ball enter K = w p p^T + E exp(L) E^T. What
    p^T Sigma^-1 p is for a point, G = E^T Sigma^-1 E is for a ball, and the logarithm of
    its weight grows by powers of log G.
    """

    def __init__(self, root: NDArray[np.float64], logs: NDArray[np.float64]) -> None:
        self.root = root
        self.logs = logs
        self.values, self.axes = np.linalg.eigh(self.logs)
        self._step = np.zeros_like(self.logs)

    def shares(self, largest: float) -> NDArray[np.float64]:
        """The eigenvalues (q,) of exp(L), relative to a largest one."""
        return np.exp(self.values - largest)

    def columns(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """The axes of the ball (r, q), each times the root of its share."""
        return self.root @ (self.axes * np.sqrt(shares))

    def look(
        self, vectors: NDArray[np.float64], spread: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the eigenvalues (k,) above one of G for Sigma = V diag(spread) V^T.

        The moves E a (r, k) of their axes a come second.
        """
        inside = vectors.T @ self.root / np.sqrt(spread)[:, None]
        self._limits, self._limit_axes = np.linalg.eigh(inside.T @ inside)
        outside = self._limits > 1
        return self._limits[outside], self.root @ self._limit_axes[:, outside]

    def scale(self) -> None:
        """Scale the weight by a power of G, with momentum."""
        logs = np.log(np.maximum(self._limits, EPS))
        slope = (self._limit_axes * logs) @ self._limit_axes.T
        if np.sum(self._step * slope) < 0:
            self._step = np.zeros_like(slope)
        self._step = _MOMENTUM * self._step + _POWER * slope
        values, self.axes = np.linalg.eigh(self.logs + self._step)
        self.values = np.maximum(values, math.log(NEGLIGIBLE))
        self.logs = (self.axes * self.values) @ self.axes.T


@dataclass(frozen=True, eq=False)
class _Cover:
    """A covariance s Sigma + R R^T that holds all moves, Sigma = V diag(spread) V^T.

    A move p with c = p^T Sigma^-1 p above s is held once R has the column
    (1 - s / c)^1/2 p. So are the moves E a of a ball, for eigenvectors a of
    E^T Sigma^-1 E with eigenvalues c, and with them all of the ball.
    """

    vectors: NDArray[np.float64]  # V (r, r)
    spread: NDArray[np.float64]  # of s Sigma (r,)
    columns: NDArray[np.float64]  # R (r, k)
    cost: float  # its trace

    @classmethod
    def cheapest(
        cls,
        vectors: NDArray[np.float64],
        spread: NDArray[np.float64],
        moves: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
    ) -> _Cover:
        """The one with the best s, at least one, from several c (M,) with moves (r, M).

        The trace is convex in s, and linear between two c. Its slope is tr Sigma less the
        sum of |p|^2 / c over all c above s.
        """
        outside = [limits > 1 for limits, _ in moves]
        limits = np.concatenate(
            [c[out] for (c, _), out in zip(moves, outside, strict=True)]
        )
        points = np.hstack(
            [p[:, out] for (_, p), out in zip(moves, outside, strict=True)]
        )
        total = spread.sum()
        squares = np.einsum("ij,ij->j", points, points)
        order = np.argsort(-limits)
        slopes = total - np.cumsum((squares / limits)[order])
        count = np.count_nonzero(slopes >= 0)
        size = limits[order[count]] if count < len(order) else 1.0
        held = order[:count]
        shares = 1 - size / limits[held]
        cost = float(size * total + squares[held] @ shares)
        return cls(vectors, size * spread, points[:, held] * np.sqrt(shares), cost)

    def factor(self, floor: float) -> NDArray[np.float64]:
        """A root (r, r), beside a floor one of orthogonal columns, none of them shorter."""
        inside = self.vectors.T @ self.columns
        if not floor:
            root = self.vectors * np.sqrt(self.spread)
            inside /= np.sqrt(self.spread)[:, None]
            return root @ np.linalg.cholesky(np.eye(len(root)) + inside @ inside.T)
        values, axes = np.linalg.eigh(np.diag(self.spread) + inside @ inside.T)
        return self.vectors @ (axes * np.sqrt(np.maximum(values, floor**2)))


class _Weighing:
    """Weights of points and balls in the course of a `rough_shape`.

    Points of little weight that an ellipsoid holds rest: only the ``active`` ones count.
    """

    def __init__(self, balls: Sequence[NDArray[np.float64]], begun: Weights) -> None:
        self.logs = begun.points.copy()
        pairs = zip(balls, begun.balls, strict=True)
        self.balls = [_BallWeight(root, matrix) for root, matrix in pairs]
        self.active = np.arange(len(self.logs))
        self._step = np.zeros(len(self.logs))

    def weighted(self, near: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return columns X with X X^T = K, for the active points and weights of sum one."""
        logs = self.logs[self.active]
        tops = [logs.max(initial=-np.inf), *(ball.values[-1] for ball in self.balls)]
        shares = np.exp(logs - max(tops))
        of_balls = [ball.shares(max(tops)) for ball in self.balls]
        every = shares.sum() + sum(each.sum() for each in of_balls)
        columns = [near * np.sqrt(shares / every)]
        for ball, each in zip(self.balls, of_balls, strict=True):
            columns.append(ball.columns(each / every))
        return np.hstack(columns)

    def choose(self, limits: NDArray[np.float64]) -> None:
        """Go on with points that weigh, and those that stick out by their limits (M,)."""
        weighs = self.logs > self.logs.max(initial=-np.inf) + math.log(NEGLIGIBLE)
        self.active = np.flatnonzero(weighs | (limits > 1))

    def scale(self, limits: NDArray[np.float64]) -> None:
        """Scale the weights by powers of the limits of active points, with momentum."""
        active = self.active
        slope = np.log(np.maximum(limits, EPS))
        onward = self._step[active]
        self._step[active] = np.where(onward * slope < 0, 0.0, _MOMENTUM * onward)
        self._step[active] += _POWER * slope
        moved = self.logs[active] + self._step[active]
        self.logs[active] = np.maximum(moved, math.log(NEGLIGIBLE))
        for ball in self.balls:
            ball.scale()


def rough_shape(
    points: NDArray[np.float64],
    tol: float,
    *,
    floor: float = 0.0,
    enough: float | None = None,
    updates: int = 300,
    balls: Sequence[NDArray[np.float64]] = (),
    begun: Weights | None = None,
) -> Shape:
    """A covariance of nearly least trace with p^T Sigma^-1 p <= 1 for points (r, M).

    The factor holds the points up to rounding, and the weights are those at the end.
    It is at least ``floor``^2 in every direction, and at least E E^T for the roots E
    (r, q) of ``balls``. For weights w_i and K = sum of
    w_i p_i p_i^T, tr(Sigma) + tr(K Sigma^-1) - sum of w_i has its minimum, a lower bound
    of every cost, at Sigma = max(floor^2, K^1/2). A multiple of it holds all points, with
    the few that stick out added (`_Cover`). At the optimum c_i = p_i^T Sigma^-1 p_i is one
    for all weights that are not zero, so the weights are scaled by powers of the c_i, with
    momentum. Some 15 eigenvalue problems make the gap a percent, for any r. The search ends
    at a gap of ``tol``, at a bound of ``enough`` (then there is no factor), when a cost
    shows that there is no such bound, or after ``updates``. It begins with the weights that
    ``begun`` has for as many points and balls, or with even ones, and leaves its own
    there. One ball alone needs no search.
    """
    size, count = points.shape
    if not count and len(balls) == 1:
        return _around_ball(balls[0], floor)
    if begun is None:
        begun = Weights()
    if not begun.fit(points, balls):
        begun.even(points, balls)
    search = _Weighing(balls, begun)
    bound = 0.0
    best: _Cover | None = None
    for update in range(1, updates + 1):
        near = points[:, search.active]
        weighted = search.weighted(near)
        kernel = blas.dsyrk(1.0, weighted, lower=1)
        with search_round(update):
            values, vectors = scipy.linalg.eigh(kernel, driver="evd")
        rounding = gamma(weighted.shape[1] + 8 * size) * kernel.trace()
        certain = np.maximum(values - rounding, 0.0)
        values = np.maximum(values, EPS * values[-1])
        total = _best_total(values, floor)
        bound = max(bound, _bound_of_spread(total * certain, floor) - total)
        if enough is not None and bound >= enough:
            break
        spread = np.maximum(np.sqrt(total * values), floor**2)
        limits = (1 / spread) @ (vectors.T @ near) ** 2
        looks = [ball.look(vectors, spread) for ball in search.balls]
        cover = _Cover.cheapest(vectors, spread, [(limits, near), *looks])
        ending = max(bound * (1 + tol), enough or 0.0)
        if cover.cost <= ending or update % _LOOK_AROUND == 0:
            if len(search.active) < count:
                limits = (1 / spread) @ (vectors.T @ points) ** 2
                cover = _Cover.cheapest(vectors, spread, [(limits, points), *looks])
            if best is None or cover.cost < best.cost:
                best = cover
            search.choose(limits)
            limits = limits[search.active]
        if best is not None and best.cost <= ending:
            break
        search.scale(limits)
    begun.keep(search.logs, [ball.logs for ball in search.balls])
    found = Shape(np.zeros((size, 0)), bound, np.inf)
    if best is not None:
        factor = found.factor if enough else best.factor(floor)
        found = Shape(factor, bound, best.cost)
    if balls:
        return found
    shares = np.exp(search.logs - search.logs.max())
    weights = shares / shares.sum()
    return replace(found, support=np.arange(count), weights=weights)


def _around_ball(root: NDArray[np.float64], floor: float) -> Shape:
    """The covariance of least trace that is at least E E^T, and ``floor``^2.

    No other one has a smaller variance along any eigenvector of E E^T.
    """
    vectors, sizes, _ = scipy.linalg.svd(root)
    squares = np.zeros(len(root))
    squares[: len(sizes)] = sizes**2
    rounding = gamma(8 * sum(root.shape)) * squares.sum()
    variances = np.maximum(squares + rounding, floor**2)
    least = np.maximum(squares - rounding, floor**2)
    lower_bound = float(least.sum() * (1 - ROUNDED))
    return Shape(vectors * np.sqrt(variances), lower_bound, float(variances.sum()))


def rough_shape_over_time(
    points: NDArray[np.float64],
    tol: float,
    *,
    period: int,
    floor: float = 0.0,
    begun: Weights | None = None,
) -> Shape:
    """The `rough_shape` of points whose weights hardly change from one to the next.

    Each is followed by ``period`` - 1 others, such as moves of other signals at the same
    time, and then by its like. A search over some times proposes weights for all, unless
    ``begun`` has weights for as many points.
    """
    if begun is None:
        begun = Weights()
    if not begun.fit(points, ()):
        weights = _weights_over_time(points, tol, period, floor)
        if weights is not None:
            begun.propose(weights)
    return rough_shape(points, tol, floor=floor, begun=begun)


def _weights_over_time(
    points: NDArray[np.float64], tol: float, period: int, floor: float
) -> NDArray[np.float64] | None:
    """Weights (M,) from a search over some times, None where it would save nothing."""
    size, count = points.shape
    groups = count // period
    if size < MANY_DIMENSIONS or count != groups * period or count > 2 * size:
        return None
    stride = -(-_THINNED * count // size)
    times = np.append(np.arange(0, groups - 1, stride), groups - 1)
    if len(times) < 3:
        return None
    chosen = (times[:, None] * period + np.arange(period)).ravel()
    (triangle,) = qr(points[:, chosen], mode="r")
    thinned = np.asarray(triangle[: len(chosen)], float)
    if not thinned.any():
        return None
    with search_round(0):
        fewer = rough_shape_over_time(thinned, tol, period=period, floor=floor)
    # the first and the last time weigh what they do among fewer, all others less
    weights = fewer.weights.reshape(-1, period)
    least = _LIGHTEST * weights.mean()
    lengths = (times[2:] - times[:-2]) / 2
    inner = np.log(np.maximum(weights[1:-1] / lengths[:, None], least))
    every = np.arange(groups)
    logs = [np.interp(every, times[1:-1], kind) for kind in inner.T]
    spread = np.exp(np.transpose(logs))
    spread[[0, -1]] = np.maximum(weights[[0, -1]], least)
    return spread.ravel()


def _best_total(values: NDArray[np.float64], floor: float) -> float:
    """The sum of weights with the largest bound, from eigenvalues of their mean K.

    Its root solves sum of k / max(floor^2, root k^1/2) = 1. A sum with too many free
    directions is too large, so these become fewer. It is zero where the floor does.
    """
    roots = np.sqrt(values)
    free = np.ones(len(values), bool)
    while free.any():
        held = values[~free].sum() / floor**2 if floor else 0.0
        root = roots[free].sum() / (1 - held)
        still = free & (root * roots > floor**2)
        if still.sum() == free.sum():
            return float(root**2)
        free = still
    return 0.0


def _bound_of_spread(values: NDArray[np.float64], floor: float) -> float:
    """The least sum of s + k / s, s >= floor^2, for values k, rounded down."""
    sizes = np.maximum(np.sqrt(values), floor**2)
    sizes = sizes[sizes > 0]
    return float(np.sum(sizes + values[-len(sizes) :] / sizes) * (1 - ROUNDED))


# -- the search over working points --------------------------------------------------


@dataclass
class _Iterate:
    """Working points in coordinates where Sigma = I and W = diag(cost).

    ``basis`` (r, r) maps the points (r, s) back to the caller's coordinates, ``inverse``
    is its inverse. ``slack`` (s,) approximates 1 - |q_i|^2, ``multiplier`` (s,) is lam, and
    ``index`` (s,) numbers the points among all.
    """

    points: NDArray[np.float64]
    cost: NDArray[np.float64]
    basis: NDArray[np.float64]
    inverse: NDArray[np.float64]
    multiplier: NDArray[np.float64]
    slack: NDArray[np.float64]
    index: NDArray[np.intp]

    def squares(self) -> NDArray[np.float64]:
        """Squared norms |q_i|^2 = p_i^T Sigma^{-1} p_i."""
        return np.einsum("ij,ij->j", self.points, self.points)

    def ceiling(self) -> NDArray[np.float64]:
        """Upper bounds 1 / (q_i^T W^{-1} q_i) on the multipliers, their natural scale.

        They follow from lam_i q_i q_i^T <= W.
        """
        inverses = (1 / self.cost) @ self.points**2
        return np.minimum(self.cost.sum(), 1 / inverses)

    def gap(self, largest: float) -> float:
        """Relative duality gap, given the largest |q_i|^2 of the points that count.

        The cost is tr(W) times the largest, the dual value tr(W)^2 / sum(lam).
        """
        return largest * self.multiplier.sum() / self.cost.sum() - 1

    def balance(self) -> None:
        """Move to coordinates where Sigma = I solves Sigma W Sigma = M(lam), W diagonal.

        With R = diag(cost)^{1/2} and M = Z Z^T, R Sigma R is the root of (R Z)(R Z)^T.
        One-sided Jacobi rotations keep the digits of its cheap directions.
        """
        root = np.sqrt(self.cost)
        Z = self.points * np.sqrt(self.multiplier)
        rows = Z.T * root
        found = lapack.dgejsv(rows, joba=0, jobu=3, jobv=0)
        sizes, _, vectors, scales, _, info = found
        cost = sizes * (scales[0] / scales[1])
        if info or not cost[-1] > 0:  # also catches NaN
            raise np.linalg.LinAlgError("the working points do not span")
        self.cost = cost
        spread = np.sqrt(cost)
        forward = (vectors / spread).T * root
        backward = (vectors * spread) / root[:, None]
        self.move(forward, backward)

    def move(self, forward: NDArray[np.float64], backward: NDArray[np.float64]) -> None:
        """Change coordinates by q -> forward q, where backward = forward^{-1}."""
        self.points = forward @ self.points
        self.inverse = forward @ self.inverse
        self.basis = self.basis @ backward

    def recentre(self, least: float) -> None:
        """Raise slacks, and multipliers by scale, to at least this, for Newton to move.

        Sigma first grows until it holds all points.
        """
        self.balance()
        largest = self.squares().max()
        root = np.sqrt(largest)
        self.multiplier = self.multiplier * largest**2
        self.cost = self.cost * largest
        self.points = self.points / root
        self.inverse = self.inverse / root
        self.basis = self.basis * root
        self.slack = np.maximum(1 - self.squares(), least)
        self.multiplier = np.maximum(self.multiplier, least * self.ceiling())
        self.balance()

    def add(
        self, points: NDArray[np.float64], index: NDArray[np.intp], least: float
    ) -> None:
        """Add working points to those chosen among all (r, M)."""
        if not len(index):
            return
        self.points = np.hstack([self.points, self.inverse @ points[:, index]])
        self.multiplier = np.append(self.multiplier, np.zeros(len(index)))
        self.index = np.append(self.index, index)
        self.recentre(least)


def _search(
    points: NDArray[np.float64], weight_factor: NDArray[np.float64], tol: float
) -> _Iterate:
    """Working points, and the solution up to rounding."""
    it = _start(points, weight_factor, tol)
    finest = tol / 8
    target = max(1e-3, min(1e-2, 30 * finest))
    for _ in range(MOST_ROUNDS):
        _optimise(it, target)
        squares = _squares(it.inverse, points)
        gap = it.gap(squares.max())
        if gap <= tol / 4:
            break
        added = _worst_of_each_direction(it, points, squares)
        if not len(added) and target == finest:
            break
        it.add(points, added, min(0.1, gap))
        target = max(finest, 1e-2 * min(target, gap))
    return it


def _narrow(points: NDArray[np.float64]) -> UncertifiableError:
    size, count = points.shape
    return UncertifiableError(
        f"hidden moves: expected some in each of {size} dimensions, got {count} that "
        "double precision cannot distinguish from moves in fewer; leave out states or "
        "entries that hardly move, or choose units in which radii are of similar size"
    )


def _whitening(
    points: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower triangular T with the rows of T^{-1} points orthonormal, and its inverse."""
    size, count = points.shape
    if count < size:
        raise _narrow(points)
    triangles = []
    for k in range(0, count, CACHED):
        triangles.append(np.linalg.qr(points[:, k : k + CACHED].T, mode="r"))
    lower = np.asarray(np.linalg.qr(np.vstack(triangles), mode="r")).T
    inverse, info = lapack.dtrtri(lower, lower=1)
    # with the rows of T scaled to one, the Frobenius norm of T is sqrt(size)
    scaled_inverse = inverse * np.linalg.norm(lower, axis=1)
    condition = np.sqrt(size) * np.linalg.norm(scaled_inverse)
    if info or not condition * EPS < size:
        raise _narrow(points)
    return lower, inverse


def _start(
    points: NDArray[np.float64], weight_factor: NDArray[np.float64], tol: float
) -> _Iterate:
    """A first working set, with multipliers from one multiplicative update."""
    size = len(points)
    lower, inverse = _whitening(points)
    vectors, roots, _ = np.linalg.svd(lower.T @ weight_factor, full_matrices=False)
    # each price adds its root to the gap, which free directions do not need smaller
    least = (min(tol, 1.0) / size) ** 2
    prices = np.maximum((roots / roots[0]) ** 2, least)
    inverse = vectors.T @ inverse
    index = _first_points(inverse, points)
    count = len(index)
    it = _Iterate(
        points=inverse @ points[:, index],
        cost=prices,
        basis=lower @ vectors,
        inverse=inverse,
        multiplier=np.ones(count),
        slack=np.ones(count),
        index=index,
    )
    it.balance()
    it.multiplier = it.multiplier * it.squares()
    it.recentre(1e-2)
    return it


def _first_points(
    inverse: NDArray[np.float64], points: NDArray[np.float64]
) -> NDArray[np.intp]:
    """Indices of points that stick out most, and of some that span; none is zero."""
    size, count = points.shape
    inside = inverse @ points
    squares = np.einsum("ij,ij->j", inside, inside)
    first = 4 * size
    chosen = np.arange(min(first, count))
    if first < count:
        spanning = _spanning(inside)
        outermost = np.argpartition(-squares, first)[:first]
        # those alone may lie in a plane
        chosen = np.union1d(outermost, spanning)
    return chosen[squares[chosen] > 0]


def _spanning(rest: NDArray[np.float64]) -> list[int]:
    """Indices of r columns that span, each the farthest from the span of those before.

    It takes what lies in that span off the columns (r, M).
    """
    farthest, axis = _farthest(rest)
    chosen = [farthest]
    while len(chosen) < len(rest):
        along = axis @ rest
        for row, share in zip(rest, axis, strict=True):
            row -= share * along
        farthest, axis = _farthest(rest)
        chosen.append(farthest)
    return chosen


def _farthest(points: NDArray[np.float64]) -> tuple[int, NDArray[np.float64]]:
    """Which of some points is the farthest from zero, and its direction."""
    squares = np.einsum("ij,ij->j", points, points)
    farthest = int(squares.argmax())
    return farthest, points[:, farthest] / np.sqrt(squares[farthest])


def _squares(
    inverse: NDArray[np.float64], points: NDArray[np.float64]
) -> NDArray[np.float64]:
    """|inverse p_i|^2 for every point, in chunks."""
    count = points.shape[1]
    squares = np.empty(count)
    for k in range(0, count, CACHED):
        inside = inverse @ points[:, k : k + CACHED]
        np.einsum("ij,ij->j", inside, inside, out=squares[k : k + CACHED])
    return squares


def _worst_of_each_direction(
    it: _Iterate, points: NDArray[np.float64], squares: NDArray[np.float64]
) -> NDArray[np.intp]:
    """Indices of points that stick out, the farthest of each direction."""
    size = len(points)
    squares[it.index] = 0.0
    outside = np.flatnonzero(squares > 1)
    order = np.argsort(-squares[outside])
    outside = outside[order[:CACHED]]
    inside = it.inverse @ points[:, outside]
    unit = inside / np.sqrt(squares[outside])
    free = np.ones(len(outside), bool)
    chosen: list[int] = []
    limit = max(32, size * (size + 1) // 2)
    while free.any() and len(chosen) < limit:
        first = int(np.argmax(free))
        chosen.append(first)
        free &= (unit[:, first] @ unit) ** 2 < 0.95
        free[first] = False
    return outside[chosen]


# -- Newton's method on the working points -------------------------------------------
#
# The dual maximises 2 t(lam) - sum(lam) over lam >= 0, where t is the trace of the Sigma
# that solves Sigma W Sigma = sum_i lam_i p_i p_i^T. Everything happens in coordinates in
# which that Sigma is the identity and W is diagonal, so directions whose costs
# differ by twenty decades are treated alike. The results are proposals: nothing here is
# certified.


def _optimise(it: _Iterate, tol: float) -> None:
    """Newton steps until the gap on the working points is at most `tol`.

    They end as well where the gap no longer falls, and go back to the best then.
    """
    best = vars(it).copy()
    least = np.inf
    stalled = 0
    for _ in range(MOST_ROUNDS):
        gap = it.gap(it.squares().max())
        stalled += 1
        if gap < 0.9 * least or min(gap, 1e4 * least) > ALIKE:
            stalled = 0
        if gap < least:
            best = vars(it).copy()
            least = gap
        if gap <= tol or stalled > FEW_ROUNDS:
            break
        _step(it, tol, gap)
    vars(it).update(best)


def _step(it: _Iterate, tol: float, gap: float) -> None:
    """One predictor-corrector step of Mehrotra's method, from a relative duality gap.

    The linearised conditions are slack_i = 1 - |q_i|^2 and slack_i lam_i = target_i. The
    targets follow `_Iterate.ceiling`, so points in cheap directions converge like
    the others.
    """
    lam = it.multiplier
    slack = it.slack
    ceiling = it.ceiling()
    mean = float(np.mean(slack * lam / ceiling))
    residual = 1 - it.squares() - slack
    root = np.sqrt(lam)
    lower = _factorise(_newton_matrix(it))

    def direction(
        target: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        right = target / lam - (slack + residual)
        d_lam = root * lapack.dpotrs(lower, root * right, lower=1)[0]
        return target / lam - slack * (1 + d_lam / lam), d_lam

    d_slack, d_lam = direction(np.zeros_like(lam))
    along = _step_length(slack, d_slack, 1.0)
    across = _step_length(lam, d_lam, 1.0)
    next_slack = slack + along * d_slack
    next_lam = lam + across * d_lam
    predicted = float(np.mean(next_slack * next_lam / ceiling))
    share = min(1.0, max(predicted, 0.0) / mean)
    least = 0.01 * tol * it.cost.sum() / ceiling.sum()
    centre = max(mean * share**3, least)
    bend = along * across * d_slack * d_lam
    d_slack, d_lam = direction(centre * ceiling - bend)
    fraction = min(0.999, max(0.9, 1 - gap))
    along = _step_length(slack, d_slack, fraction)
    across = _step_length(lam, d_lam, fraction)
    it.slack = slack + along * d_slack
    it.multiplier = lam + across * d_lam
    it.balance()


def _step_length(
    value: NDArray[np.float64], change: NDArray[np.float64], fraction: float
) -> float:
    """Largest step up to 1 that leaves at least 1 - `fraction` of every positive value."""
    return min(1.0, fraction / max((-change / value).max(), fraction))


def _newton_matrix(it: _Iterate) -> NDArray[np.float64]:
    """diag(slack) + D H D, D = diag(lam)^{1/2}, with H minus the Hessian.

    H_ij = sum_ab q_ia q_ib q_ja q_jb / (w_a + w_b).
    """
    matrix = np.diag(it.slack)
    points = it.points * np.sqrt(np.sqrt(it.multiplier))
    grams = _grams_of_factors if len(points) < _WIDE else _grams_of_decays
    for gram in grams(points, it.cost):
        gram *= gram
        matrix += gram
    return matrix


def _grams_of_factors(
    points: NDArray[np.float64], cost: NDArray[np.float64]
) -> Iterator[NDArray[np.float64]]:
    """Matrices whose squares, entry by entry, add up to the sum over a and b.

    BLAS computes one triangle only, half of the product.
    """
    for factor in _cauchy_factors(cost):
        scaled = points * np.sqrt(np.abs(factor))[:, None]
        raised = factor > 0
        gram = blas.dsyrk(1.0, scaled[raised].T, lower=1)
        gram = blas.dsyrk(
            -1.0, scaled[~raised].T, beta=1.0, c=gram, lower=1, overwrite_c=1
        )
        yield gram.T


def _grams_of_decays(
    points: NDArray[np.float64], cost: NDArray[np.float64]
) -> Iterator[NDArray[np.float64]]:
    """`_grams_of_factors` from 1 / (w_a + w_b) = int exp(-(w_a + w_b) s) ds.

    A sum over log s, in steps of one, misses some thousandths. In a step few rows are
    between those whose exp(-w s) is one, which stay, and those where it is zero.
    """
    order = np.argsort(cost)
    cost = cost[order]
    points = points[order]
    first = math.log(ROUGH / (2 * cost[-1]))
    last = math.log(-math.log(ROUGH) / (2 * cost[0]))
    sizes = np.exp(np.arange(first, last + 1))
    count = points.shape[1]
    whole = np.zeros((count, count), order="F")
    done = 0
    for s in sizes[::-1]:
        small, large = np.searchsorted(cost, [ROUGH / s, -math.log(ROUGH) / s])
        still = points[done:small].T
        whole = blas.dsyrk(1.0, still, beta=1.0, c=whole, lower=1, overwrite_c=1)
        done = small
        decay = np.exp(-cost[small:large] * s / 2)
        between = (points[small:large] * decay[:, None]).T
        gram = blas.dsyrk(1.0, between, beta=1.0, c=whole, lower=1)
        gram *= math.sqrt(s)
        yield gram.T


def _cauchy_factors(cost: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors f_k with sum_k f_k f_k^T = 1 / (w_a + w_b), few of them."""
    root = np.sqrt(cost)
    kernel = 2 * np.outer(root, root) / (cost[:, None] + cost)
    values, vectors = np.linalg.eigh(kernel)
    large = values > ROUGH
    factors = vectors[:, large] * np.sqrt(values[large])
    return factors.T / np.sqrt(2 * cost)


def _factorise(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lower Cholesky factor of a positive semidefinite matrix, with the least ridge."""
    size = len(matrix)
    scale = matrix.trace() / size
    ridge = 0.0
    while True:
        lower, info = lapack.dpotrf(matrix.T, lower=1)  # symmetric, by columns
        if info == 0:
            return lower
        if not (np.isfinite(scale) and ridge < 1e-2):
            raise np.linalg.LinAlgError("Newton matrix is not positive definite")
        ridge = max(1e-14, 30 * ridge)
        matrix = matrix + ridge * scale * np.eye(size)


# -- the certificate -----------------------------------------------------------------
#
# The computed solution x of a triangular system S x = p solves (S + dS) x = p exactly
# with |dS| <= gamma(r) |S|, entry by entry and for any scaling of the rows; `gamma`
# is twice the textbook constant r u / (1 - r u).


def _certify(
    points: NDArray[np.float64], weight_factor: NDArray[np.float64], it: _Iterate
) -> Shape:
    """The result, with every bound rounded outwards and checked on all points."""
    factor = certified_factor(points, it.basis)
    squares = it.squares()
    mean = it.multiplier.sum() / it.cost.sum()
    share = it.multiplier / (it.ceiling() * mean)
    carries = share > 1 - squares / squares.max()
    order = np.argsort(it.index[carries])
    support = it.index[carries][order]
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
    return Shape(factor, lower_bound, cost, support, weights)


def gamma(operations: int) -> float:
    """Relative error bound of a chain of this many operations, in any order.

    It is twice the textbook bound: EPS is two unit roundoffs.
    """
    return (operations + 4) * EPS


def row_permuted_triangle(
    basis: NDArray[np.float64],
) -> tuple[NDArray[np.integer], NDArray[np.float64]]:
    """An order and L, lower triangular of positive diagonal, with L L^T = basis basis^T.

    The rows of basis are taken in that order. Column pivoting sorts them by what each
    adds: no entry exceeds the diagonal entry of its column, so Gaussian elimination
    with partial pivoting of the factor is plain substitution in this order.
    """
    upper, order = qr(basis.T, mode="r", pivoting=True)
    signs = np.where(np.diag(upper) < 0, -1.0, 1.0)
    return order, np.asarray(upper * signs[:, None], float).T


def solution_error(lower: NDArray[np.float64]) -> NDArray[np.float64]:
    """E, nonnegative (r, r), with |x - S^{-1} p| <= E |x| for the computed x of S x = p."""
    size = len(lower)
    inverse, info = lapack.dtrtri(lower, lower=1)
    if info:
        product = np.full_like(lower, np.inf)
    else:
        product = blas.dtrmm(1.0, np.abs(inverse), np.abs(lower), lower=1)
    error = gamma(size) * product
    if not error.sum(axis=1).max() <= LARGEST_EXCESS:  # also catches NaN
        raise UncertifiableError(
            f"points: expected {size} dimensions that double precision can separate, got "
            "points whose coordinates in their enclosing ellipsoid are uncertain by more "
            "than a thousandth; pass points in coordinates that separate their scales"
        )
    # |S^{-1}| <= (I - R)^{-1} |inverse| with R >= |I - inverse S|
    rounding = gamma(size) * (product + np.eye(size))
    product = blas.dtrmm(1.0, inverse, lower, lower=1)
    residual = np.abs(np.eye(size) - product) + rounding
    # no entry of the right side is negative, so substitution adds up positive numbers
    return blas.dtrsm(1.0, np.eye(size) - residual, error, lower=1) * (1 + 1e-6)


def certified_factor(
    points: NDArray[np.float64], basis: NDArray[np.float64]
) -> NDArray[np.float64]:
    """S with S S^T close to basis basis^T, and ||S^{-1} p||_2 <= 1 for every point.

    It is enlarged by the largest norm within the errors of the computed coordinates.
    """
    order, lower = row_permuted_triangle(basis)
    error = solution_error(lower)
    largest = 0.0
    for k in range(0, points.shape[1], CACHED):
        chunk = points[order, k : k + CACHED].T
        solution = blas.dtrsm(1.0, lower, chunk, side=1, lower=1, trans_a=1).T
        solution = np.abs(solution)
        bound = solution + error @ solution
        squares = np.einsum("ij,ij->j", bound, bound)
        largest = np.maximum(largest, squares.max())  # keeps a NaN
    if not np.isfinite(largest):
        raise UncertifiableError(
            "points: expected sizes that a double can hold, got an overflow; rescale them"
        )
    factor = np.empty_like(lower)
    rounding = 1 + gamma(2 * len(lower) + 8)
    factor[order] = lower * (math.sqrt(largest) * rounding)
    return factor


def cost_above(
    weight_factor: NDArray[np.float64], factor: NDArray[np.float64]
) -> float:
    """||L^T S||_F^2 = tr(W S S^T), rounded up."""
    product = weight_factor.T @ factor
    terms = np.abs(weight_factor.T) @ np.abs(factor)
    error = gamma(len(factor)) * terms
    largest = np.abs(product) + error
    cost = np.sum(largest**2)
    rounding = gamma(product.size)
    return float(cost * (1 + rounding))


def cost_below(
    weight_factor: NDArray[np.float64],
    points: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> float:
    """||A||_*^2 for A = L^T P diag(sqrt(w)), rounded down.

    It is at least <Y, A>^2 / ||Y||_2^2 for any Y, here one close to the polar factor.
    """
    root = np.sqrt(weights)
    product = weight_factor.T @ points
    matrix = product * root
    terms = np.abs(weight_factor.T) @ np.abs(points)
    error = gamma(len(points) + 2) * terms * root
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    polar = left @ right
    inner_terms = polar * matrix
    inner = math.fsum(inner_terms.ravel().tolist())
    lost = np.sum(np.abs(polar) * error)
    lost *= 1 + gamma(polar.size)
    orthonormal = polar
    if len(polar) > polar.shape[1]:
        orthonormal = polar.T
    certain = max(inner * (1 - 4 * EPS) - lost, 0.0)
    bound = certain**2 / _norm_squared(orthonormal)
    total = math.fsum((root**2).tolist())
    return float(bound / total * (1 - 16 * EPS))


def _norm_squared(rows: NDArray[np.float64]) -> float:
    """Upper bound of the squared spectral norm of a matrix with nearly orthonormal rows."""
    gram = rows @ rows.T
    _, width = rows.shape
    error = gamma(width) * gram.trace()  # of the Gram matrix, in Frobenius norm
    sums = np.abs(gram).sum(axis=1)
    bound = float(sums.max() + error)
    return bound * (1 + gamma(rows.size))
