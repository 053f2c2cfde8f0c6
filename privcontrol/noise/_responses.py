"""Evaluate responses of all outputs to hidden moves, and how far noise covers them.

Responses are rounded from balls, so each entry is right to two units in its last
place. The bounds of the triangular solves count that too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core._linalg import EPS, round_up
from ..core.adjacency import Adjacency
from ..core.ellipsoid import solution_error
from ..core.errors import NotRealizableError
from ..core.moves import EllipsoidMoves
from ..secrets.disturbance import disturbances
from ..secrets.manifold import trajectory_manifold
from ..secrets.moves import StateMoves
from ..secrets.secret import Responses, all_responses
from ..systems.plant import Plant
from ._separated import largest_apart
from .parts import Correlated, NoisePart, PartSum

_LARGEST_ERROR_BOUND = 1e-3


def output_sizes(
    adjacency: Adjacency, plant: Plant, horizon: int, norm: int
) -> tuple[NDArray, bool]:
    """Norms of the responses to the moves, or a bound for a ball, and whether attained."""
    if len(adjacency.parts) == 1 and not disturbances(adjacency):
        moves = adjacency.moves(trajectory_manifold(plant, horizon))
        if isinstance(moves, StateMoves):
            return moves.output_sizes(plant.C, norm), True
    responses = all_responses(adjacency, plant, horizon)
    exact = responses.exact
    sizes = np.linalg.norm(responses.points, ord=norm, axis=0).tolist()
    for ball in responses.balls:
        sizes.append(EllipsoidMoves.largest(ball, norm))
        exact &= norm != 1 or len(ball) == 1
    for apart in responses.apart:
        if norm == 2:
            sizes.append(largest_apart(apart, apart.columns, 0.0))
        else:
            sizes.append(apart.events * float(np.linalg.norm(apart.columns, 1)))
    rounding = 4 * EPS * len(responses.points)
    return np.array(sizes) * (1 + rounding), exact


def triangular_root(factor: NDArray) -> NDArray:
    """Lower triangular (m, m) with the covariance and zero rows of a factor (m, r)."""
    size = len(factor)
    noisy = factor.any(axis=1)
    (triangle,) = scipy.linalg.qr(factor[noisy].T, mode="r")
    upper = triangle[: np.count_nonzero(noisy)]
    is_negative = np.diag(upper) < 0
    upper[is_negative] *= -1.0
    lower = np.zeros((size, size))
    lower[np.ix_(noisy, noisy)] = upper.T
    return lower


def shift_sizes(lower: NDArray, responses: Responses) -> NDArray:
    """Upper bounds of ||Lambda^-1 s||_2 of each single move, then of each ball.

    Lambda (m, m) is triangular. A move of an output without noise is an error.
    """
    noisy = lower.any(axis=1)
    if responses.moved[~noisy].any():
        raise NotRealizableError(
            "the noise does not cover a protected direction: a hidden move changes an output "
            "without noise"
        )
    lower = lower[np.ix_(noisy, noisy)]
    # once for the solve, once for the last places of the responses
    error = 2 * solution_error(lower)
    points = np.zeros(0)
    if responses.points.shape[1]:
        solved = _solve(lower, responses.points[noisy])
        points = np.linalg.norm(np.abs(solved) + error @ np.abs(solved), axis=0)
    balls: list[Any] = []
    for ball in responses.balls:
        solved = _solve(lower, ball[noisy])
        bound = np.linalg.norm(error @ np.abs(solved)) + 1e-13 * np.linalg.norm(solved)
        balls.append(np.linalg.norm(solved, 2) + bound)
    for apart in responses.apart:
        solved = _solve(lower, apart.columns[noisy])
        balls.append(largest_apart(apart, solved, error @ np.abs(solved)))
    sizes = np.concatenate([points, balls])
    return round_up(sizes * (1 + EPS * (len(lower) + 4)), 2)


def _solve(lower: NDArray, columns: NDArray) -> NDArray:
    return scipy.linalg.solve_triangular(lower, columns, lower=True)


def floored_root(parts: NDArray, floor: NDArray) -> tuple[NDArray, float]:
    """Triangular root of parts parts^T + diag(floor^2), and its relative error bound.

    The root is right to about a unit in the last place of its largest entry.
    """
    root = triangular_root(np.hstack([parts, np.diag(floor)]))
    condition = np.linalg.norm(root, 2) / floor.min()
    return root, 16 * len(root) * EPS * condition**2


def dense_root(
    parts: Sequence[NoisePart], horizon: int
) -> tuple[NDArray | None, float]:
    """Triangular root (T p, T p) of the covariance of a run, and its relative error bound.

    It is None if double precision does not prove that all changed outputs have noise.
    """
    if len(parts) == 1 and isinstance(parts[0], Correlated):
        return parts[0].root, 0.0
    white = np.tile(PartSum(parts).white, horizon)
    columns = PartSum(parts).responses(horizon).reshape(len(white), -1)
    if white.all():
        return floored_root(columns, white)
    noisy = columns.any(axis=1)
    if noisy.sum() > columns.shape[1]:
        return None, np.inf
    root = triangular_root(columns)
    singular = scipy.linalg.svdvals(root[np.ix_(noisy, noisy)])
    condition = singular[0] / max(singular[-1], np.finfo(float).tiny)
    error_bound = 16 * len(root) * EPS * condition**2
    if not error_bound < _LARGEST_ERROR_BOUND:
        return None, np.inf
    return root, error_bound
