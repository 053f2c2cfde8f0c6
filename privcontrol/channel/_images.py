"""Responses of all outputs over a horizon to hidden moves, and how far a triangular noise covers them.

Entries are rounded from balls, so that each is right to two units in its last place; the bounds of the triangular
solves count that too.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..core._linalg import EPS, round_up
from ..core.ellipsoid import solution_error
from ..core.errors import NotRealizableError
from ..core.moves import EllipsoidMoves
from ..trajectory.adjacency import StateMoves
from ..trajectory.disturbance import (
    DisturbanceAdjacency,
    JointAdjacency,
    disturbed_query,
    forced_outputs,
)
from ..trajectory.manifold import output_query, trajectory_manifold
from ..trajectory.powers import FreeResponse
from .parts import Correlated, White

_LARGEST_DOUBT = 1e-3


def disturbances(adjacency):
    """The parts of an adjacency that are about disturbances."""
    parts = adjacency.parts if isinstance(adjacency, JointAdjacency) else (adjacency,)
    return [part for part in parts if isinstance(part, DisturbanceAdjacency)]


def query_of(plant, horizon, adjacency):
    """What the plant publishes of the secret that an adjacency is about."""
    found = disturbances(adjacency)
    if not found:
        return output_query(plant, horizon)
    signals = dict.fromkeys(name for part in found for name in part.signals(plant))
    return disturbed_query(plant, horizon, tuple(signals))


@dataclass(frozen=True)
class Images:
    """Responses of all outputs to hidden moves: columns (T p, M) of single moves, and roots (T p, q) of balls."""

    points: np.ndarray
    balls: tuple
    exact: bool = True

    @classmethod
    def of(cls, adjacency, plant, horizon):
        """For any adjacency about trajectories or disturbances, each entry right to two units in the last place."""
        parts = (
            adjacency.parts if isinstance(adjacency, JointAdjacency) else (adjacency,)
        )
        points, balls, exact = [np.empty((horizon * len(plant.C), 0))], [], True
        for part in parts:
            images, ball, known = _images(part, plant, horizon)
            exact &= known
            (balls if ball else points).append(images)
        return cls(np.hstack(points), tuple(balls), exact)

    @property
    def moved(self):
        """Outputs (T p,) that some hidden move changes."""
        return np.hstack([self.points, *self.balls]).any(axis=1)

    def joined(self, other):
        """The images of both."""
        return Images(
            np.hstack([self.points, other.points]),
            self.balls + other.balls,
            self.exact and other.exact,
        )


def _images(adjacency, plant, horizon):
    """Images (T p, M) of one adjacency's moves, whether they span a ball, and whether they are exact."""
    if isinstance(adjacency, DisturbanceAdjacency):
        manifold = disturbed_query(plant, horizon, adjacency.signals(plant)).manifold
        starts = adjacency.starts(horizon)
        radii = adjacency.radii(plant)
        columns = starts[:, None] * len(radii) + np.arange(len(radii))
        images = []
        for shape in adjacency.shapes:
            every = forced_outputs(
                plant, manifold.entry, manifold.through, horizon, shape
            )
            chosen = every[:, columns.ravel()]
            images.append(chosen * np.tile(radii, len(starts)))
        return np.hstack(images), adjacency.norm == "l2", True
    moves = adjacency.moves(trajectory_manifold(plant, horizon))
    if isinstance(moves, StateMoves):
        return (
            moves.responses(plant.C, np.arange(moves.columns.shape[1])),
            False,
            moves.exact,
        )
    ball = isinstance(moves, EllipsoidMoves)
    columns = moves.factor if ball else moves.columns
    free = FreeResponse(plant.A, columns, 0, horizon - 1).outputs(plant.C)
    return free.reshape(horizon * len(plant.C), -1), ball, moves.exact


def images_of_models(adjacency, plants, horizon):
    """The images under the dynamics of every plant."""
    first, *others = (Images.of(adjacency, plant, horizon) for plant in plants)
    for other in others:
        first = first.joined(other)
    return first


def triangular_root(factor):
    """Lower triangular (m, m) with the covariance of factor (m, r), r >= m; rows of zeros stay so."""
    noisy, lower = factor.any(axis=1), np.zeros((len(factor), len(factor)))
    upper = scipy.linalg.qr(factor[noisy].T, mode="r")[0][: int(noisy.sum())]
    lower[np.ix_(noisy, noisy)] = (
        upper * np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None]
    ).T
    return lower


def shift_sizes(lower, images):
    """Upper bounds of ||Lambda^-1 s||_2 for each single move, then for each ball, for a triangular Lambda (m, m).

    Raises
    ------
    NotRealizableError
        If a move changes an output that has no noise.
    UncertifiableError
        If Lambda is too badly scaled.
    """
    noisy = lower.any(axis=1)
    if images.moved[~noisy].any():
        raise NotRealizableError(
            "the noise leaves a protected direction bare: a hidden move changes an output without noise"
        )
    lower = lower[np.ix_(noisy, noisy)]
    error = 2 * solution_error(
        lower
    )  # once for the solve, once for the last places of the images
    points = np.zeros(0)
    if images.points.shape[1]:
        points = np.linalg.norm(_bounded(lower, images.points[noisy], error), axis=0)
    balls = []
    for ball in images.balls:
        solved = scipy.linalg.solve_triangular(lower, ball[noisy], lower=True)
        doubt = np.linalg.norm(error @ np.abs(solved)) + 1e-13 * np.linalg.norm(solved)
        balls.append(np.linalg.norm(solved, 2) + doubt)
    return round_up(np.concatenate([points, balls]) * (1 + EPS * (len(lower) + 4)), 2)


def _bounded(lower, columns, error):
    solved = np.abs(scipy.linalg.solve_triangular(lower, columns, lower=True))
    return solved + error @ solved


def floored_root(parts, floor):
    """Triangular root of parts parts^T + diag(floor^2), and a relative bound of what its rounding does to a shift.

    The root is right to about a unit in the last place of its largest entry, which the floor bounds from below.
    """
    root = triangular_root(np.hstack([parts, np.diag(floor)]))
    return root, 16 * len(root) * EPS * (np.linalg.norm(root, 2) / floor.min()) ** 2


def dense_root(noise):
    """Triangular root (T p, T p) of a noise's covariance and a relative bound of what its rounding does to a shift.

    The root is None where double precision does not prove that the noise reaches every output that it changes.
    """
    if noise.consists_of(Correlated):
        return noise.part(Correlated).root, 0.0
    parts = noise.responses.reshape(noise.horizon * noise.outputs, -1)
    if noise.part(White):
        return floored_root(parts, np.tile(noise.scale, noise.horizon))
    noisy = parts.any(axis=1)
    if noisy.sum() > parts.shape[1]:
        return None, np.inf
    root = triangular_root(parts)
    singular = scipy.linalg.svdvals(root[np.ix_(noisy, noisy)])
    doubt = (
        16
        * len(root)
        * EPS
        * (singular[0] / max(singular[-1], np.finfo(float).tiny)) ** 2
    )
    return (root, doubt) if doubt < _LARGEST_DOUBT else (None, np.inf)
