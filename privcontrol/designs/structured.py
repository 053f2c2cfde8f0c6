"""Structured noise of least cost, and independent noise."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..core.noise import around_ball
from ..noise.grid import shift_of_resolution
from ..noise.parts import Structured, White
from ..noise.whitened import output_sizes
from ..numerics.ellipsoid import Shape
from ..numerics.errors import PrivacyError
from ..numerics.linalg import float_above
from ..numerics.progress import piece
from ..numerics.thresholds import ROUNDED
from ..secrets.distinguished import distinguished
from ..secrets.secret import NO_NOISE
from .problem import DesignProblem, Proposal
from .robust import excess_of, of_all_models
from .state_factor import structured_factor


def structured(problem: DesignProblem) -> Proposal:
    """Structured noise of least cost for the exact model.

    Models that share the column space of the noise make it larger.
    """
    family = problem.family
    tangent = tangent_noise(problem, problem.allowed)
    if problem.request.models:
        return of_all_models(problem, tangent.factor)
    part = Structured(problem.plant, tangent.factor)
    factor = part.responses(problem.horizon).reshape(problem.query.size, -1)
    cost = family.unit_variance * problem.price.cost(factor)
    lower_bound = tangent.lower_bound
    # The bound of Laplace noise is for pure differential privacy, and one above the cost
    # says that the weight lost its digits.
    is_pure = problem.budget.delta == 0
    if (family.shift_norm == 1 and not is_pure) or lower_bound > cost * (1 + ROUNDED):
        lower_bound = math.nan
    unit_bound = tangent.lower_bound * problem.allowed**2 / family.unit_variance
    if problem.moves.is_ball:
        unit_bound = problem.price.cost(
            problem.plant.free_response(problem.moves.vectors, problem.horizon)
        )
    unit_bound *= 1 - 1e-12
    return Proposal((part,), cost, lower_bound, unit_bound=unit_bound)


def tangent_noise(problem: DesignProblem, allowed: float) -> Shape:
    """S of the least cost that hides every move with a shift of ``allowed``."""
    family = problem.family
    with piece(0, 2):
        moves = problem.moves
    if moves.is_ball:
        return _around_ball(problem, moves.vectors, allowed)
    with piece(1, 2):
        return structured_factor(
            problem.plant,
            moves,
            problem.horizon,
            problem.price.root,
            allowed,
            shape=family.shape,
            norm=family.shift_norm,
        )


def _around_ball(
    problem: DesignProblem, axes: NDArray[np.float64], allowed: float
) -> Shape:
    """S = E times the size that hides every direction of the ball with axes E.

    For Gaussian noise E E^T / y*^2 is below every other covariance that hides the ball.
    """
    responses = problem.plant.free_response(axes, problem.horizon)
    if not responses.any():
        raise PrivacyError(NO_NOISE)
    if problem.family.shift_norm == 1:
        return _cross_polytope(problem, allowed)
    lower_bound = problem.price.cost(responses) / allowed**2 * (1 - 1e-12)
    return Shape(
        axes * (1 + 1e-13) / allowed, lower_bound
    )  # above the loss's roundings


def _cross_polytope(problem: DesignProblem, allowed: float) -> Shape:
    """S of the cheapest cross-polytope around the ball, in what outputs distinguish."""
    told = distinguished(problem.hidden, problem.plant, problem.horizon).vectors
    responses = problem.plant.free_response(told, problem.horizon)
    found = around_ball(problem.price.root(responses))
    factor = told @ found.factor
    size = excess_of(problem, factor) * problem.allowed / allowed
    bound = found.lower_bound / allowed**2
    return Shape(
        factor * size * (1 + 1e-13), bound if problem.hidden.exact else math.nan
    )


def independent(problem: DesignProblem) -> Proposal:
    """Independent noise of one size on every sample and output, or of that of the floor."""
    request = problem.request
    family = problem.family
    norm = family.shift_norm
    norms = []
    for plant in problem.plants:
        of_plant, _ = output_sizes(request.secret, plant, problem.horizon, norm)
        norms.append(of_plant)
    every = np.concatenate(norms)
    if not every.any():
        raise PrivacyError(NO_NOISE)
    ones = np.ones(problem.plant.output_count)
    shift = float(every.max())
    shift += shift_of_resolution(request.resolution, ones, problem.horizon, norm)
    size = float_above(shift / problem.allowed, 2)
    sizes = np.maximum(size, problem.floor_std)
    scale = np.tile(sizes, problem.horizon)
    cost = family.unit_variance * problem.price.of_white(scale)
    return Proposal((White(sizes),), cost)
