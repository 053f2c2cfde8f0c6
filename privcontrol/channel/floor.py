"""Structured noise over a white floor: what keeps a guarantee when the model is not exact.

Gamma = O_T Sigma O_T^T + diag(floor^2) at every sample. Structured noise alone leaves every direction outside the
column space of O_T bare, and a plant that differs from its model moves into them; the floor covers all directions, and
the two are designed together.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..core._linalg import round_up
from ..core.design import NoiseDesign, allowed_shift, worst_data_moves
from ..core.ellipsoid import weight_triangle
from ..core.errors import PrivacyError, UncertifiableError
from ..core.loss import GaussianLoss
from ..core.mechanism import Mechanism
from ..core.moves import EllipsoidMoves, attaining
from ..core.noise import GaussianNoise
from ..trajectory._exact_design import spanner_of, structured_factor
from ..trajectory.manifold import free_outputs, trajectory_manifold
from ..trajectory.powers import seen_states
from ._common import assumptions, guarantee_of, white_cost
from ._cover import covering_ellipsoid, remainder
from ._images import Images
from .models import state_sizes
from .output_noise import OutputNoise
from .parts import NoisePart, Structured, White

_LARGEST_EXCESS = 1e-3
#: Directions of the state that the outputs see this much worse than others carry no structured noise of their own.
_SEEN = 1e-10
_HIDDEN = (
    "anything but a free response of the plant, such as a disturbance during the run",
)


class FlooredNoise(GaussianNoise):
    """gamma = structured eta + diag(floor) zeta for the core's mechanisms; its factor (m, r + m) is formed on access."""

    def __init__(self, structured, floor):
        self._set(structured=structured, floor=floor)

    def __reduce__(self):
        return FlooredNoise, (self.structured, self.floor)

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
            raise ValueError(
                f"noise: expected {self.query.size} entries, got {self.noise.size}"
            )

    def guarantee(self, adjacency):
        return Mechanism(self.query, GaussianNoise(self.noise.factor)).guarantee(
            adjacency
        )


def floored_noise(query, request, half, weight):
    """The least costly sum of structured noise and the requested floor that meets the budget, as `OutputNoise`."""
    plant, horizon = query.plant, query.manifold.horizon
    allowed = allowed_shift(request.budget, request.method, request.releases)
    floor = np.tile(request.floor, horizon)
    moves = request.adjacency.moves(query.manifold)
    ball = isinstance(moves, EllipsoidMoves)
    white = white_cost(half, floor, weight)
    found = _joint(query, request, half, allowed, floor)
    if found is None and not ball and not request.models:
        found = _apart(query, request, half, allowed, white)
    if found is None:
        raise UncertifiableError(
            "the noise exceeds its budget when evaluated back: the hidden moves are too far apart in size for double "
            "precision; protect fewer times, or shorten the horizon"
        )
    factor, sizes, exact, beyond = found
    finite = exact and len(request.plants(plant)) == 1 and sizes.ndim == 1
    loss = GaussianLoss(
        float(round_up(np.sqrt(sizes.max()))),
        attaining(sizes) if finite and not ball else (),
        exact,
    )
    responses = free_outputs(plant, factor, horizon)
    cost = white + float(np.sum(half(responses) ** 2))
    guarantee = guarantee_of(query, request, loss, assumptions(request), _HIDDEN)
    worst = np.empty((query.manifold.size, 0))
    if loss.active or (ball and finite):
        worst = worst_data_moves(query, moves, guarantee)
    mechanism = _FlooredMechanism(query, FlooredNoise(responses, floor))
    lower_bound = min(max(white, white + beyond) * (1 - 1e-12), cost)
    design = NoiseDesign(mechanism, guarantee, cost, lower_bound, worst, factor)
    parts: tuple[NoisePart, ...] = (White(request.floor),)
    if factor.shape[1]:
        parts = (Structured(plant, factor), *parts)
    return OutputNoise(plant, horizon, "gaussian", parts, guarantee, design)


def _joint(query, request, half, allowed, floor):
    """S of the joint design, its squares and whether exact, and a bound on the cost beyond the floor's; None if none is
    certified."""
    problem = _Problem.of(query.plant, query.manifold.horizon, request, allowed, floor)
    if problem is None:
        return None
    for least in (
        1e-4,
        1e-7,
    ):  # without and with directions that hardly exceed the floor
        factor, covered, discount = problem.solve(half, least)
        fitted = _fitted(factor, query, request, allowed)
        if fitted is not None:
            return *fitted, covered - discount
    return None


def _apart(query, request, half, allowed, white):
    """The same for moves so far apart in size that the floor is nothing beside the noise that they need anyway.

    The structured noise is that without a floor. Any S has M^-1 + S S^T around the moves, M^-1 being the floor as seen
    through the outputs, of cost at most that of the floor: its own cost beyond the floor is at least the bound of the
    design without one, less the cost of the floor.
    """
    plant, horizon = query.plant, query.manifold.horizon
    found = structured_factor(
        plant, request.adjacency.moves(query.manifold), horizon, half, allowed
    )
    fitted = _fitted(found.factor, query, request, allowed)
    return None if fitted is None else (*fitted, found.lower_bound - white)


@dataclass(frozen=True)
class _Problem:
    """Points (r, M) and balls to cover, in coordinates of ``basis`` (n, r) with ``responses`` (T p, r) to it.

    ``core`` is R^-1, R of the QR factors of the whitened responses: its ball is the floor as seen through the outputs,
    and what covers it by R P R^T = I + Sigma, in whitened coordinates, leaves the structured noise Sigma.
    """

    basis: np.ndarray
    responses: np.ndarray
    core: np.ndarray
    points: np.ndarray
    balls: tuple

    @classmethod
    def of(cls, plant, horizon, request, allowed, floor):
        moves = request.adjacency.moves(trajectory_manifold(plant, horizon))
        found = (
            None
            if isinstance(moves, EllipsoidMoves)
            else _spanned(plant, moves, horizon, floor)
        )
        if found is None and not isinstance(moves, EllipsoidMoves):
            return None
        if found is None:
            basis, coordinates = _seen_basis(plant, horizon, floor), None
            responses = free_outputs(plant, basis, horizon)
        else:
            basis, responses, coordinates = found
        Q, triangle = scipy.linalg.qr(responses / floor[:, None], mode="economic")
        core = scipy.linalg.solve_triangular(triangle, np.eye(len(triangle)))
        points, balls = [] if coordinates is None else [coordinates / allowed], []
        for model in request.plants(plant) if coordinates is None else request.models:
            images = Images.of(request.adjacency, model, horizon)
            points.append(core @ _within(Q, images.points / floor[:, None], allowed))
            balls += [
                core @ _ball_within(Q, ball / floor[:, None], allowed)
                for ball in images.balls
            ]
        points = np.hstack(points)
        if not any(part.any() for part in (points, *balls)):
            raise PrivacyError(
                "no output depends on the protected states within the horizon: no noise is needed"
            )
        return cls(basis, responses, core, points, tuple(balls))

    def solve(self, half, least):
        """S (n, r), the bound on tr(W (Sigma + M^-1)) in these coordinates, and tr(W M^-1)."""
        priced = half(self.responses)
        found = covering_ellipsoid(
            self.points, [self.core, *self.balls], weight_triangle(priced)
        )
        root = remainder(found.factor, self.core, least)
        return (
            self.basis @ root,
            found.lower_bound,
            float(np.sum((priced @ self.core) ** 2)),
        )


def _spanned(plant, moves, horizon, floor):
    """Basis (n, r) of hidden moves and of other states that the outputs see, its responses, and the moves' coordinates.

    However far apart the moves are in size, their coordinates are not. None where the outputs hardly tell two of the
    basis apart.
    """
    found = spanner_of(plant, moves, horizon)
    if found is None:
        return None
    rows, spanner = found
    others = np.setdiff1d(np.flatnonzero(seen_states(plant, horizon)), rows)
    basis = np.zeros((plant.order, len(rows) + len(others)))
    basis[rows, : len(rows)] = spanner.moves
    basis[others, len(rows) + np.arange(len(others))] = 1.0
    responses = np.hstack(
        [spanner.responses, free_outputs(plant, basis[:, len(rows) :], horizon)]
    )
    white = responses / floor[:, None]
    sizes = np.linalg.norm(white, axis=0)
    if (
        not np.isfinite(sizes).all()
        or not sizes.all()
        or scipy.linalg.svdvals(white / sizes)[-1] < _SEEN
    ):
        return None
    coordinates = np.vstack(
        [spanner.coordinates, np.zeros((len(others), spanner.coordinates.shape[1]))]
    )
    return basis, responses, coordinates


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
        return scipy.linalg.solve_triangular(
            scipy.linalg.cholesky(left, lower=True), inside.T, lower=True
        ).T
    except np.linalg.LinAlgError:
        raise PrivacyError(
            "floor: some hidden move of a model leaves the nominal plant's column space further than the floor hides; raise "
            "the floor"
        ) from None


def _seen_basis(plant, horizon, floor):
    """Columns (n, r) of states that the outputs see, each about as well as a unit of the floor."""
    rows = np.flatnonzero(seen_states(plant, horizon))
    whitened = (
        free_outputs(plant, np.eye(plant.order)[:, rows], horizon) / floor[:, None]
    )
    sizes = np.linalg.norm(whitened, axis=0)
    if not np.isfinite(sizes).all():
        raise UncertifiableError(
            "the free response exceeds 1e308 within the horizon; shorten the horizon"
        )
    _, s, vt = scipy.linalg.svd(whitened / sizes, full_matrices=False)
    keep = s > _SEEN * s[0]
    basis = np.zeros((plant.order, int(keep.sum())))
    basis[rows] = vt[keep].T / s[keep] / sizes[:, None]
    return basis


def _fitted(factor, query, request, allowed):
    """The factor, enlarged until every certified y^2 is below the allowed one, with those squares; or None."""
    for _ in range(20):
        found = [
            state_sizes(query.plant, request, factor, model)
            for model in request.plants(query.plant)
        ]
        squares, exact = (
            np.concatenate([part for part, _ in found]),
            all(known for _, known in found),
        )
        excess = float(np.sqrt(squares.max()) / allowed)
        if excess * (1 + 1e-15) <= 1:
            return factor, squares, exact
        if excess > 1 + _LARGEST_EXCESS or not factor.shape[1]:
            break
        factor = factor * (1 + 4 * (excess - 1) + 1e-15)
    return None
