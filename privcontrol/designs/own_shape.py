"""Scale structured noise of the user's own shape to the budget.

DPAM's Theorem 3 holds for every Sigma that satisfies eq. (22), and Theorem 1 for every
Lambda whose column space contains the responses to the hidden moves. A noise that somebody
already uses, or the sigma C A^t eta of DPAM-short's Algorithm 1, can so be priced
and put in a loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core._constrained import cheapest_factor
from ..core._linalg import rank_tolerance, round_up
from ..core.errors import NotRealizableError, PrivacyError
from ..noise.shift import Shift
from ..secrets.secret import Responses, all_responses
from .correlated import NO_NOISE, dense_noise, least_scale, scaled_to_fit
from .problem import DesignProblem, SizedNoise
from .robust import beside_floor, excess_of, of_all_models, shift_beside_floor

#: Relative part of a response that may lie outside Lambda's column space. The padding of
#: the root covers it, and its cost is in the certified shift.
_COVERED = 1e-8


def own_shape(problem: DesignProblem) -> SizedNoise:
    """Structured noise S of the request's shape that just meets the budget."""
    request = problem.request
    shape = np.asarray(request.factor)
    if len(shape) != problem.plant.order:
        return _own_lambda(problem, shape)
    if request.floor is not None:
        return _beside_floor(problem, shape)
    excess = excess_of(problem, shape)
    if not excess > 0:
        raise PrivacyError(
            "no output depends on the protected states within the horizon: no noise is "
            "needed"
        )
    return of_all_models(problem, shape * float(round_up(excess, 4)))


def _own_lambda(problem: DesignProblem, shape: NDArray) -> SizedNoise:
    """Noise Lambda eta over one horizon, with eta in a causal order."""
    request = problem.request
    responses = all_responses(request.adjacency, problem.plants, problem.horizon)
    if not responses.moved.any():
        raise PrivacyError(NO_NOISE)
    if request.floor is None:
        _check_covered(shape, responses)
    fitting = scaled_to_fit(problem, shape, responses)
    return dense_noise(problem, fitting, responses)


def constrained_shape(
    problem: DesignProblem, constraints: Callable[[Any], Any]
) -> tuple[NDArray, Callable[[NDArray], None]]:
    """Find the cheapest Lambda (T p, T p) whose covariance satisfies constraints.

    A function that checks the covariance (T p, T p) of the noise comes second.
    """
    request = problem.request
    if request.floor is not None or request.family != "gaussian":
        raise ValueError(
            "constraints: expected Gaussian noise without a floor; write the floor as a "
            "constraint, Gamma - floor**2 * np.eye(len) >> 0"
        )
    responses = all_responses(request.adjacency, problem.plants, problem.horizon)
    if not responses.moved.any():
        raise PrivacyError(NO_NOISE)
    allowed = problem.allowed
    root = problem.weight_root(np.eye(len(responses.points)))
    return cheapest_factor(
        responses.points / allowed,
        [ball / allowed for ball in responses.balls],
        root.T @ root,
        constraints,
    )


def _check_covered(shape: NDArray, responses: Responses) -> None:
    """Raise `NotRealizableError` if a response leaves Lambda's column space."""
    sizes = np.linalg.norm(shape, axis=1)
    scaled = shape / np.where(sizes > 0, sizes, 1.0)[:, None]
    basis, values, _ = scipy.linalg.svd(scaled, full_matrices=False)
    basis = basis[:, values > rank_tolerance(scaled, values)]
    moves = np.hstack([responses.points, *responses.balls])
    moves = moves / np.where(sizes > 0, sizes, 1.0)[:, None]
    left = np.linalg.norm(moves - basis @ (basis.T @ moves), axis=0)
    if (left > _COVERED * np.linalg.norm(moves, axis=0)).any():
        raise NotRealizableError(
            "factor: a hidden move changes the outputs in a direction that is not in the "
            "column space of Lambda (DPAM eq. (8)); add the column, or a white floor"
        )


def _beside_floor(problem: DesignProblem, shape: NDArray) -> SizedNoise:
    """Noise of a shape, as small as the budget allows beside the floor."""

    def shift(scale: float) -> Shift:
        return shift_beside_floor(problem, shape * scale)

    def meets(scale: float) -> bool:
        return math.sqrt(shift(scale).squares.max()) <= problem.allowed_beside_grid

    scale = least_scale(meets)
    return beside_floor(problem, shape * scale, shift(scale))
