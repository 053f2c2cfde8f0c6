"""Structured noise over a white floor: what keeps a guarantee when the model is not exact.

Gamma = O_T Sigma O_T^T + diag(floor^2) at every sample. Structured noise alone leaves every direction outside the
column space of O_T bare, and a plant that differs from its model moves into them; the floor covers all directions, and
the two are designed together.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..core._linalg import round_up
from ..core._loss import GaussianLoss
from ..core._shapes import _weight_factor
from ..core.design import NoiseDesign, allowed_shift, worst_data_moves
from ..core.errors import PrivacyError, UncertifiableError
from ..core.mechanism import Mechanism
from ..core.moves import EllipsoidMoves, attaining
from ..core.noise import GaussianNoise
from ..trajectory._balls import seen_states
from ..trajectory.manifold import free_outputs
from ._common import assumptions, guarantee_of, white_cost
from ._cover import covering_ellipsoid, remainder
from ._images import Images
from .models import state_sizes
from .noise import OutputNoise

_LARGEST_EXCESS = 1e-3
#: Directions of the state that the outputs see this much worse than others carry no structured noise of their own.
_SEEN = 1e-10
_HIDDEN = ("anything but a free response of the plant, such as a disturbance during the run",)


class FlooredNoise(GaussianNoise):
    """gamma = structured eta + diag(floor) zeta for the core's mechanisms; its factor (m, r + m) is formed on access."""

    def __init__(self, structured, floor):
        self.structured, self.floor = structured, floor

    @property
    def size(self):
        return len(self.floor)

    @property
    def factor(self):
        return np.hstack([self.structured, np.diag(self.floor)])


class _FlooredMechanism(Mechanism):
    """A mechanism that does not form the factor of its noise until it is asked for draws or shifts."""

    def __post_init__(self):
        if self.query.size != self.noise.size:
            raise ValueError(f"noise: expected {self.query.size} entries, got {self.noise.size}")

    def guarantee(self, adjacency):
        return Mechanism(self.query, GaussianNoise(self.noise.factor)).guarantee(adjacency)


def floored_noise(query, request, half, weight):
    """The least costly sum of structured noise and the requested floor that meets the budget, as `OutputNoise`."""
    plant, horizon = query.plant, query.manifold.horizon
    allowed = allowed_shift(request.budget, request.method, request.releases)
    floor = np.tile(request.floor, horizon)
    problem = _Problem.of(plant, horizon, request, allowed, floor)
    for least in (1e-4, 1e-7):  # directions that hardly exceed the floor, with and without
        factor, extra, discount = problem.solve(half, least)
        fitted = _fitted(factor, query, request, allowed)
        if fitted is not None:
            break
    if fitted is None:
        raise UncertifiableError(
            "the noise exceeds its budget when evaluated back: the hidden moves are too far apart in size for double "
            "precision; protect fewer times, or shorten the horizon"
        )
    factor, sizes, exact = fitted
    finite = exact and len(request.plants(plant)) == 1 and sizes.ndim == 1
    moves = request.adjacency.moves(query.manifold)
    ball = isinstance(moves, EllipsoidMoves)
    loss = GaussianLoss(float(round_up(np.sqrt(sizes.max()))), attaining(sizes) if finite and not ball else (), exact)
    responses = free_outputs(plant, factor, horizon)
    white = white_cost(half, floor, weight)
    cost = white + float(np.sum(half(responses) ** 2))
    guarantee = guarantee_of(query, request, loss, assumptions(request), _HIDDEN)
    worst = np.empty((query.manifold.size, 0))
    if loss.active or (ball and finite):
        worst = worst_data_moves(query, moves, guarantee)
    mechanism = _FlooredMechanism(query, FlooredNoise(responses, floor))
    lower_bound = min((white + extra - discount) * (1 - 1e-12), cost)
    design = NoiseDesign(mechanism, guarantee, cost, max(lower_bound, white * (1 - 1e-12)), worst, factor)
    kept = factor if factor.shape[1] else None
    return OutputNoise(plant, horizon, "gaussian", kept, request.floor, guarantee, design)


@dataclass(frozen=True)
class _Problem:
    """Points (r, M) and balls to cover by R P R^T = I + (whitened Sigma), in coordinates of ``basis`` (n, r).

    ``triangle`` is R (r, r) of the QR factors of the whitened responses to the basis.
    """

    basis: np.ndarray
    responses: np.ndarray
    triangle: np.ndarray
    points: np.ndarray
    balls: tuple

    @classmethod
    def of(cls, plant, horizon, request, allowed, floor):
        images = [Images.of(request.adjacency, model, horizon) for model in request.plants(plant)]
        if not any(part.moved.any() for part in images):
            raise PrivacyError("no output depends on the protected states within the horizon: no noise is needed")
        basis = _seen_basis(plant, horizon, floor)
        responses = free_outputs(plant, basis, horizon)
        Q, triangle = scipy.linalg.qr(responses / floor[:, None], mode="economic")
        points, balls = [], []
        for part in images:
            points.append(_within(Q, part.points / floor[:, None], allowed))
            balls += [_ball_within(Q, ball / floor[:, None], allowed) for ball in part.balls]
        return cls(basis, responses, triangle, np.hstack(points), tuple(balls))

    def solve(self, half, least):
        """S (n, r), the bound on tr(W (Sigma + M^-1)) in these coordinates, and tr(W M^-1)."""
        r = len(self.triangle)
        core = np.eye(r)  # the floor as seen through the outputs, in whitened coordinates
        unit = scipy.linalg.solve_triangular(self.triangle, core)
        priced = half(self.responses @ unit)
        found = covering_ellipsoid(self.points, [core, *self.balls], _weight_factor(priced))
        root = remainder(found.factor, core, least)
        return self.basis @ unit @ root, found.lower_bound, float(np.sum(priced**2))


def _within(Q, columns, allowed):
    """Points of the covering problem for whitened images: what the floor alone leaves to the structured noise."""
    inside = Q.T @ columns
    outside = np.linalg.norm(columns - Q @ inside, axis=0)
    left = allowed**2 - outside**2
    if columns.size and not left.min() > 0:
        raise PrivacyError(
            f"floor: some hidden move of a model leaves the nominal plant's column space by {outside.max() / allowed:.3g} times "
            "what the floor hides; raise the floor by about that factor"
        )
    return inside / np.sqrt(left)


def _ball_within(Q, root, allowed):
    """A root of the least covariance of structured noise and floor, as seen through Q, that hides a ball.

    With root = Q X + Y, the demand root^T (I + Q Sigma Q^T)^-1 root <= y^2 is X^T (I + Sigma)^-1 X <= y^2 - Y^T Y.
    """
    inside = Q.T @ root
    outside = root - Q @ inside
    left = allowed**2 * np.eye(root.shape[1]) - outside.T @ outside
    try:
        return scipy.linalg.solve_triangular(scipy.linalg.cholesky(left, lower=True), inside.T, lower=True).T
    except np.linalg.LinAlgError:
        raise PrivacyError(
            "floor: some hidden move of a model leaves the nominal plant's column space further than the floor hides; raise "
            "the floor"
        ) from None


def _seen_basis(plant, horizon, floor):
    """Columns (n, r) of states that the outputs see, each about as well as a unit of the floor."""
    rows = np.flatnonzero(seen_states(plant, horizon))
    whitened = free_outputs(plant, np.eye(plant.order)[:, rows], horizon) / floor[:, None]
    sizes = np.linalg.norm(whitened, axis=0)
    if not np.isfinite(sizes).all():
        raise UncertifiableError("the free response exceeds 1e308 within the horizon; shorten the horizon")
    _, s, vt = scipy.linalg.svd(whitened / sizes, full_matrices=False)
    keep = s > _SEEN * s[0]
    basis = np.zeros((plant.order, int(keep.sum())))
    basis[rows] = vt[keep].T / s[keep] / sizes[:, None]
    return basis


def _fitted(factor, query, request, allowed):
    """The factor, enlarged until every certified y^2 is below the allowed one, with those squares; or None."""
    for _ in range(20):
        found = [state_sizes(query.plant, request, factor, model) for model in request.plants(query.plant)]
        squares, exact = np.concatenate([part for part, _ in found]), all(known for _, known in found)
        excess = float(np.sqrt(squares.max()) / allowed)
        if excess * (1 + 1e-15) <= 1:
            return factor, squares, exact
        if excess > 1 + _LARGEST_EXCESS or not factor.shape[1]:
            break
        factor = factor * (1 + 4 * (excess - 1) + 1e-15)
    return None
