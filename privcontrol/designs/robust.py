"""Noise that keeps its guarantee when the model is not exact.

Structured noise alone leaves every direction outside the column space of O_T uncovered,
and a plant that differs from its model moves into them. A white floor covers all
directions. Gamma = O_T Sigma O_T^T + diag(floor^2), and the two are designed together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..noise.parts import NoisePart, Structured, White
from ..noise.shift import Shift, certified_shift
from ..numerics.ellipsoid import Shape, enclosing_ellipsoid, weight_triangle
from ..numerics.errors import PrivacyError, UncertifiableError
from ..numerics.linalg import EPS, nonzero
from ..numerics.progress import piece, search_round
from ..numerics.thresholds import LARGEST_EXCESS, MOST_ROUNDS, ROUNDED, UNSEEN
from ..privacy.budget import scale_to_budget
from ..systems.linear import Plant
from ..systems.powers import seen_states
from .problem import GAP_OF_A_TRY, STEEPEST, DesignProblem, Proposal, Rough
from .state_factor import structured_factor

#: Rounds of ellipsoids where the dimension is large and each round costs seconds.
_FEW_ROUNDS = 4
_LARGE = 24
#: Speed: directions of a ball that reach this far into the ellipsoid may later touch it.
_NEAR = 1 - 1e-2
#: How much sharper the next ellipsoid is than it has to be.
_SHARPER = 0.1
#: Divide and conquer, the default, fails to converge on some nearly orthogonal matrices.
_DRIVER: Final = "gesvd"


# -- several models without a floor ------------------------------------------------------


def of_all_models(problem: DesignProblem, factor: NDArray[np.float64]) -> Proposal:
    """Structured noise of a given S, as large as the worst model asks for.

    Raises
    ------
    NotRealizableError
        If a hidden move leaves the column space of the noise under some model.
    """
    return alone(problem, factor * max(excess_of(problem, factor), 1.0))


def alone(problem: DesignProblem, factor: NDArray[np.float64]) -> Proposal:
    """Structured noise S as it is."""
    responses = problem.plant.free_response(factor, problem.horizon)
    cost = problem.family.unit_variance * problem.price.cost(responses)
    return Proposal((Structured(problem.plant, factor),), cost)


def excess_of(problem: DesignProblem, factor: NDArray[np.float64]) -> float:
    """Return the factor by which structured noise S alone must grow to meet the budget."""
    parts = (Structured(problem.plant, factor),)
    return problem.excess(problem.certify(parts))


# -- structured noise with a floor -------------------------------------------------------


def floored(problem: DesignProblem) -> Proposal:
    """The least costly sum of structured noise and the requested floor."""
    allowed = problem.allowed_beside_grid
    white = problem.price.of_white(problem.floor)
    fitted = _joint(problem, allowed)
    if fitted is None and not problem.moves.is_ball and not problem.request.models:
        fitted = _apart(problem, allowed, white)
    if fitted is None:
        raise UncertifiableError(
            "the noise exceeds its budget when evaluated back: the hidden moves are too "
            "far apart in size for double precision; protect fewer times, or shorten the "
            "horizon"
        )
    sized = beside_floor(problem, fitted.factor)
    bound = max(white, white + fitted.lower_bound) * (1 - 1e-12)
    return replace(sized, lower_bound=bound)


def beside_floor(problem: DesignProblem, factor: NDArray[np.float64]) -> Proposal:
    """Structured noise S, without the floor."""
    parts: tuple[NoisePart, ...] = (White(problem.floor_std),)
    if factor.shape[1]:
        parts = (Structured(problem.plant, factor), *parts)
    responses = problem.plant.free_response(factor, problem.horizon)
    cost = problem.price.of_white(problem.floor) + problem.price.cost(responses)
    return Proposal(parts, cost)


def _joint(problem: DesignProblem, allowed: float) -> Shape | None:
    """The joint design, with a bound of its cost beyond the floor's.

    None if none is certified.
    """
    try:
        with piece(0, 2):
            cover = _cover_of(problem, allowed)
            factor, covered, discount = cover.solve(problem.rough)
    except UncertifiableError:  # moves that double precision does not separate
        return None
    with piece(1, 2):
        fitted = _enlarged(problem, factor, allowed)
    return None if fitted is None else Shape(fitted, covered - discount)


def _apart(problem: DesignProblem, allowed: float, white: float) -> Shape | None:
    """The design for moves so far apart in size that the floor is negligible.

    The structured noise is that without a floor. Any S has M^-1 + S S^T around the moves,
    M^-1 being the floor as seen through the outputs, of cost at most that of the floor.
    Its own cost beyond the floor is at least the bound of the design without one, less the
    cost of the floor.
    """
    found = structured_factor(
        problem.plant, problem.moves, problem.horizon, problem.price.root, allowed
    )
    fitted = _enlarged(problem, found.factor, allowed)
    return None if fitted is None else Shape(fitted, found.lower_bound - white)


def _enlarged(
    problem: DesignProblem, factor: NDArray[np.float64], allowed: float
) -> NDArray[np.float64] | None:
    """S, enlarged until every certified shift is below the allowed one."""
    most = 1 + STEEPEST * LARGEST_EXCESS if factor.shape[1] else 1.0

    def evaluated(size: float) -> tuple[Shift, float]:
        found = shift_beside_floor(problem, factor * size)
        excess = float(np.sqrt(found.squares.max()) / allowed * (1 + 1e-15))
        return found, 1 + STEEPEST * (excess - 1)  # the floor keeps its size

    if problem.rough is not None:
        _, excess = evaluated(1.0)
        return factor if excess <= most else None
    _, size, excess = scale_to_budget(evaluated, 1.0, largest_excess=most)
    return factor * size if excess <= 1 else None


def shift_beside_floor(problem: DesignProblem, factor: NDArray[np.float64]) -> Shift:
    """Return how far structured noise S and the floor hide all moves.

    Of a rough design the nominal plant shows whether double precision told the moves apart.
    """
    parts = (Structured(problem.plant, factor), White(problem.floor_std))
    adjacency = problem.request.adjacency
    plants = problem.plants if problem.rough is None else (problem.plant,)
    return certified_shift(parts, adjacency, plants, problem.horizon)


@dataclass(frozen=True)
class _Cover:
    """Hold what structured noise must cover in addition to the floor, in whitened coordinates.

    Points (r, M) and balls are in coordinates of ``basis`` (n, r), with the cost of
    L (r, r), ``weight``. ``core`` is R^-1, R of the QR factors of the whitened responses. Its
    ball is the floor as seen through the outputs. What covers it by R P R^T = I + Sigma
    leaves the structured noise Sigma.
    """

    basis: NDArray[np.float64]
    weight: NDArray[np.float64]
    core: NDArray[np.float64]
    points: NDArray[np.float64]
    balls: tuple[NDArray[np.float64], ...]

    def solve(self, rough: Rough | None) -> tuple[NDArray[np.float64], float, float]:
        """S (n, r), a bound on tr(W (Sigma + M^-1)) in these coordinates, and tr(W M^-1)."""
        balls = [self.core, *self.balls]
        found = covering_ellipsoid(self.points, balls, self.weight, rough=rough)
        root = remainder(found.factor, self.core)
        discount = float(np.sum((self.weight.T @ self.core) ** 2))
        return self.basis @ root, found.lower_bound, discount


def _cover_of(problem: DesignProblem, allowed: float) -> _Cover:
    """The covering problem, in coordinates of directions that the outputs see.

    Moves of a state have free responses. What the floor leaves of O z follows from n x n
    matrices, for any horizon.
    """
    basis = _seen_basis(problem)
    responses = problem.plant.free_response(basis, problem.horizon)
    weight = weight_triangle(problem.price.root(responses))
    responses = responses / problem.floor[:, None]
    Q, triangle = scipy.linalg.qr(responses, mode="economic")
    core = scipy.linalg.solve_triangular(triangle, np.eye(len(triangle)))
    points: list[NDArray[np.float64]] = []
    balls: list[NDArray[np.float64]] = []
    for model in problem.plants:
        inside, outside = _beside(Q, model, problem)
        for moves in problem.request.secret.moves(model, problem.horizon):
            within = _ball_within if moves.is_ball else _within
            seen = inside @ moves.vectors
            covered = core @ within(seen, outside @ moves.vectors, allowed)
            if moves.is_ball:
                balls.append(covered)
            else:
                points.append(covered)
    every = np.hstack([np.empty((len(core), 0)), *points])
    if not every.any() and not any(ball.any() for ball in balls):
        raise PrivacyError(
            "no output depends on the protected states within the horizon: no noise is "
            "needed"
        )
    return _Cover(basis, weight, core, every, tuple(balls))


def _beside(
    Q: NDArray[np.floating], model: Plant, problem: DesignProblem
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Coordinates in Q of a model's whitened responses, and a root of what is orthogonal to it."""
    free = model.free_response(np.eye(model.order), problem.horizon)
    free = free / problem.floor[:, None]
    inside = Q.T @ free
    _, outside = scipy.linalg.qr(free - Q @ inside, mode="raw", overwrite_a=True)
    return inside, outside


def _seen_basis(problem: DesignProblem) -> NDArray[np.float64]:
    """Columns (n, r) of states that the outputs see, each about as well as the floor."""
    plant = problem.plant
    seen = np.flatnonzero(seen_states(plant, problem.horizon))
    if not seen.size:
        raise PrivacyError(
            "no output depends on the protected states within the horizon: nothing of "
            "them is published, and no noise is needed"
        )
    unit = np.eye(plant.order)[:, seen]
    free = plant.free_response(unit, problem.horizon)
    whitened = free / problem.floor[:, None]
    sizes = np.linalg.norm(whitened, axis=0)
    if not np.isfinite(sizes).all():
        raise UncertifiableError(
            "the free response exceeds 1e308 within the horizon; shorten the horizon"
        )
    sizes = nonzero(sizes)
    _, s, vt = scipy.linalg.svd(whitened / sizes, full_matrices=False)
    keep = s > UNSEEN * s[0]
    directions = vt[keep].T / s[keep]
    basis = np.zeros((plant.order, directions.shape[1]))
    basis[seen] = directions / sizes[:, None]
    return basis


def _within(
    inside: NDArray[np.float64], outside: NDArray[np.float64], allowed: float
) -> NDArray[np.float64]:
    """Return what the floor alone leaves of whitened responses to the structured noise.

    They have coordinates ``inside`` (r, M) in the column space of the noise, and
    ``outside`` (n, M) orthogonal to it.
    """
    left = allowed**2 - _squares(outside)
    if inside.size and not left.min() > 0:
        beside = np.linalg.norm(outside, axis=0).max()
        factor = beside / allowed
        if beside <= ROUNDED * np.linalg.norm(inside, axis=0).max():
            raise UncertifiableError(
                "floor: the largest hidden moves are so large next to it that their "
                "rounding exceeds the moves that it hides; leave the floor out, or raise it by "
                f"about {factor:.3g}"
            )
        raise PrivacyError(
            "floor: some hidden move of a model leaves the nominal plant's column space "
            f"by {factor:.3g} times the move that the floor hides; raise the floor by about that "
            "factor"
        )
    return inside / np.sqrt(left)


def _ball_within(
    inside: NDArray[np.float64], outside: NDArray[np.float64], allowed: float
) -> NDArray[np.float64]:
    """A root of the least structured noise that hides a ball together with the floor.

    With root = Q X + Y, the demand root^T (I + Q Sigma Q^T)^-1 root <= y^2 is
    X^T (I + Sigma)^-1 X <= y^2 - Y^T Y, X ``inside`` and Y^T Y that of ``outside``.
    """
    left = allowed**2 * np.eye(inside.shape[1]) - outside.T @ outside
    try:
        triangle = scipy.linalg.cholesky(left, lower=True)
    except np.linalg.LinAlgError:
        raise PrivacyError(
            "floor: some hidden move of a model leaves the nominal plant's column space "
            "further than the floor hides; raise the floor"
        ) from None
    return scipy.linalg.solve_triangular(triangle, inside.T, lower=True).T


# -- the cheapest ellipsoid around points and ellipsoids ---------------------------------
#
# A white floor, and an l2 ball of secrets, ask that the covariance be at least a given one.
# Such an ellipsoid is the hull of its boundary points. Those that matter are found where the
# ellipsoid around the points so far is too narrow.


def covering_ellipsoid(
    points: NDArray[np.float64],
    balls: Sequence[NDArray[np.float64]],
    weight_factor: NDArray[np.float64],
    *,
    tol: float = ROUNDED,
    rough: Rough | None = None,
) -> Shape:
    """The ellipsoid of least weighted trace around points (r, M) and ellipsoids E u, ||u|| <= 1, of roots E (r, q).

    It has the least tr(W Sigma), W = L L^T, subject to p^T Sigma^-1 p <= 1 and
    E E^T <= Sigma, up to rounding. Points may be missing if a ball spans all dimensions.
    A ``rough`` one begins where the last one touched, and goes on to what sticks out.
    """
    if rough is not None:
        tol = max(tol, rough.gap)
    if not balls:
        return enclosing_ellipsoid(points, weight_factor, tol=tol)
    is_large = len(points) > _LARGE
    rounds = _FEW_ROUNDS if is_large else MOST_ROUNDS
    held: NDArray[np.intp] = np.arange(points.shape[1])
    units = []
    for ball in balls:  # the axes alone make the cheapest ellipsoid around the ball
        _, _, vt = scipy.linalg.svd(weight_factor.T @ ball, full_matrices=False)
        units.append(vt.T)
    if rough is not None and rough.fits(points, balls):
        held = rough.points
        units = units if is_large else list(rough.units)
    best = balls[0]
    lower_bound = 0.0
    cheapest = np.inf
    sharpness = max(GAP_OF_A_TRY, tol / 4)
    for count in range(rounds):
        chosen = [points[:, held]]
        chosen += [ball @ unit for ball, unit in zip(balls, units, strict=True)]
        with search_round(count):
            found = enclosing_ellipsoid(np.hstack(chosen), weight_factor, tol=sharpness)
        lower_bound = max(lower_bound, found.lower_bound)
        factor = found.factor
        counts = [part.shape[1] for part in chosen]
        weights = np.zeros(sum(counts))
        weights[found.support] = found.weights
        of_held, *of_units = np.split(weights, np.cumsum(counts)[:-1])
        held = held[of_held > 0]
        is_violated = False
        for k, ball in enumerate(balls):
            root = units[k] * np.sqrt(of_units[k])
            units[k] = _axes(root)
            _, s, vt = _svd(np.linalg.solve(found.factor, ball))
            if s[0] > 1 + max(tol, sharpness) / 8:  # less is cheaply enlarged
                is_violated = True
                units[k] = np.hstack([units[k], vt[s > 1].T])
                if not is_large:
                    turns = _turns(root, vt[s > _NEAR].T, sharpness)
                    units[k] = np.hstack([units[k], turns])
            factor = _reaching(factor, ball)
        sizes = np.sqrt(_squares(np.linalg.solve(factor, points)))
        if (sizes > 1).any():  # no longer among those chosen
            is_violated = True
            held = np.union1d(held, np.flatnonzero(sizes > 1))
            factor = factor * sizes.max()
        cost = float(np.sum((weight_factor.T @ factor) ** 2))
        if cost < cheapest:
            best = factor
            cheapest = cost
        gap = cheapest / lower_bound - 1
        if gap <= tol or (not is_violated and sharpness <= tol / 4):
            break
        reached = gap if is_large else min(gap, sharpness)
        sharpness = max(tol / 4, _SHARPER * reached)
    if rough is not None:
        rough.points = held
        rough.units = units
    return Shape(best, lower_bound)


def _squares(columns: NDArray[np.floating]) -> NDArray[np.float64]:
    """The squared norms of columns, without a copy of them."""
    return np.einsum("ij,ij->j", columns, columns)


def _reaching(
    factor: NDArray[np.float64], ball: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The factor, larger only in the directions in which a ball sticks out."""
    U, s, _ = _svd(np.linalg.solve(factor, ball))
    lacking = np.maximum(s, 1.0) - 1
    return factor + (factor @ U * lacking) @ U.T


def _svd(
    matrix: NDArray[np.floating],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    return scipy.linalg.svd(matrix, full_matrices=False, lapack_driver=_DRIVER)


def _axes(root: NDArray[np.float64]) -> NDArray[np.float64]:
    """Orthonormal columns (q, k) that may carry the ellipsoid in place of others.

    With the others times roots of their weights, ``root``, the axes of root root^T have
    the same sum of u u^T and so prove the same bound. They are at most q.
    """
    axes, sizes, _ = _svd(root)
    return axes[:, sizes >= EPS * sizes[0]]


def _turns(
    root: NDArray[np.float64], near: NDArray[np.float64], least: float
) -> NDArray[np.float64]:
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


def remainder(
    factor: NDArray[np.float64], ball: NDArray[np.float64], least: float = 1e-7
) -> NDArray[np.float64]:
    """A root X of factor factor^T - ball ball^T, without directions below ``least``."""
    inside = np.linalg.solve(factor, ball)
    U, s, _ = scipy.linalg.svd(inside)
    left = np.ones(len(factor))
    rest = np.maximum(1 - s**2, 0.0)
    left[: len(s)] = np.sqrt(rest)
    keep = left > least
    columns = U[:, keep] * left[keep]
    return factor @ columns
