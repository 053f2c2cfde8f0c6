"""Structured noise of least cost or of the user's own shape, and independent noise.

DPAM's Theorem 3 holds for every Sigma that satisfies eq. (22), and Theorem 1 for every
Lambda whose column space contains the responses to the hidden moves. A noise that somebody
already uses, or the sigma C A^t eta of DPAM-short's Algorithm 1, can so be priced
and put in a loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core.blocks import blocks_under_weight
from ..core.constraints import cheapest_factor
from ..core.mechanism import padding_of
from ..core.noise import LaplaceNoise
from ..noise._endless import NO_NOISE
from ..noise.grid import shift_of_resolution
from ..noise.parts import Blocks, DrawnOnce, Radial, Structured, White
from ..noise.shift import beside_radial, certified_shift, shifts_apart
from ..noise.whitened import output_sizes
from ..numerics.ellipsoid import Shape
from ..numerics.errors import NotRealizableError, PrivacyError, UncertifiableError
from ..numerics.linalg import float_above, rank_tolerance, smallest
from ..numerics.progress import piece
from ..numerics.thresholds import ROUNDED
from ..privacy.joint import PRECISION
from ..privacy.loss import PrivacyLoss
from ..privacy.radial_design import (
    RadialSize,
    ball_rate_of,
    blocks_size,
    radial_size,
    truncation_beside,
)
from ..secrets.hiding import coordinates_in
from ..secrets.secret import Responses, all_responses
from .correlated import dense_noise, evaluated, least_scale, scaled_to_fit
from .problem import DesignProblem, Proposal, white_cost
from .robust import beside_floor, excess_of, of_all_models, shift_beside_floor
from .state_factor import structured_factor

#: Relative part of a response that may lie outside Lambda's column space. The padding of
#: the root covers it, and its cost is in the certified shift.
_COVERED = 1e-8
#: How much larger radial noise may become by the floor's share of the budget.
_MOST_GROWTH = 1e6


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
    cost = family.unit_variance * problem.cost(factor)
    lower_bound = tangent.lower_bound
    # The bound of Laplace noise is for pure differential privacy, and one above the cost
    # says that the weight lost its digits.
    is_pure = problem.budget.delta == 0
    if (family.shift_norm == 1 and not is_pure) or lower_bound > cost * (1 + ROUNDED):
        lower_bound = math.nan
    unit_bound = tangent.lower_bound * problem.allowed**2 / family.unit_variance
    if problem.moves.is_ball:
        unit_bound = problem.cost(
            problem.plant.free_response(problem.moves.vectors, problem.horizon)
        )
    unit_bound *= 1 - 1e-12
    return Proposal((part,), cost, lower_bound, unit_bound=unit_bound)


def radial(problem: DesignProblem) -> Proposal:
    """Structured noise of a radial law, in the shape of the cheapest Gaussian noise.

    Where a weight hardly reads some direction, independent blocks are taken if they cost
    less. A shape of the request, such as that of a loop's optimum, is scaled to the budget.
    """
    if problem.request.blocks:
        return _in_blocks(problem)
    shape = problem.request.factor
    unit_bound = math.nan
    if shape is None:
        tangent = tangent_noise(problem, 1.0)
        shape, unit_bound = tangent.factor, tangent.lower_bound
    else:
        shape = shape * shift_of_shape(problem, shape)
    unit = unit_radial(problem, shape)
    size = 1 + 1e-12  # above the roundings of the shift
    part = replace(unit, factor=unit.factor * size)
    factor = part.responses(problem.horizon).reshape(problem.query.size, -1)
    cost = part.law.unit_variance * problem.cost(factor)
    # the entries of Gaussian noise of this variance, times the shape
    bound = radial_variance(problem, shape.shape[1]) * unit_bound * (1 - 1e-12)
    if bound > cost:
        bound = math.nan
    found = [Proposal((part,), cost, bound, unit_bound=unit_bound)]
    if problem.request.factor is None and problem.law == "ball":
        for proposal in _under_weight(problem, shape):
            found.append(replace(proposal, unit_bound=unit_bound))
    return min(found, key=lambda proposal: proposal.cost)


def _under_weight(problem: DesignProblem, shape: NDArray) -> list[Proposal]:
    """Return noise in independent blocks for a weight that hardly reads some direction.

    ``shape`` (n, r) is the cheapest Gaussian noise that hides moves with a shift of one.
    """
    if problem.weight is None or problem.moves.is_ball or shape.shape[1] < 2:
        return []
    least = tangent_noise(replace(problem, weight=None), 1.0).factor
    rows = least.any(axis=1)
    inside = np.linalg.solve(shape[rows], least[rows])
    responses = problem.plant.free_response(least, problem.horizon)
    found = blocks_under_weight(
        coordinates_in(least, problem.moves),
        inside.T @ inside,
        problem.weight_root(responses),
    )
    proposals = []
    for blocks in found:
        asked = replace(
            problem.request,
            factor=least @ np.linalg.inv(blocks.rows),
            scale=True,
            blocks=blocks.sizes,
        )
        with suppress(UncertifiableError):
            proposals.append(_in_blocks(replace(problem, request=asked)))
    return proposals


def _in_blocks(problem: DesignProblem) -> Proposal:
    """Return independent blocks of radial noise of the request's shape."""
    request = problem.request
    if request.factor is None:
        raise ValueError("blocks: expected a factor whose columns they are")
    unit = Blocks(problem.plant, request.factor, request.blocks)
    loss = problem.certify((unit,))
    gain = blocks_size(loss, problem.budget, request.releases)
    part = unit.scaled(float_above(gain, 4))
    factor = part.responses(problem.horizon).reshape(problem.query.size, -1)
    return Proposal((part,), problem.cost(factor))


def radial_beside_floor(problem: DesignProblem) -> Proposal:
    """Radial noise of the shape of the cheapest Gaussian noise, and the requested floor.

    Under the nominal plant the radial part hides all by itself. What another plant's moves
    leave of it, and the sensor's grid, the floor hides, and the losses of both compose.
    Nothing is claimed of the cost.
    """
    request = problem.request
    shape = request.factor
    if shape is None:
        shape = tangent_noise(problem, 1.0).factor
    unit = Radial(problem.plant, shape)
    floor = White(problem.floor_std)
    world = request.world(problem.plant)
    size, left = shifts_apart(unit, floor, request.adjacency, world)
    size, left = float_above(size, 4), float_above(left, 4)
    _check_left(problem, left)
    if problem.law == "ball":
        beside = RadialSize(unit.once, _ball_beside(problem, unit, left))
    else:
        beside = truncation_beside(problem.budget, unit.once, left, request.releases)
    gain = size / beside.rate * (1 + 1e-12)
    part = replace(unit, factor=shape * gain, bound=beside.law.bound)
    responses = part.responses(problem.horizon).reshape(problem.query.size, -1)
    cost = part.law.unit_variance * problem.cost(responses)
    return Proposal((part, floor), cost + white_cost(problem, problem.floor))


def _ball_beside(problem: DesignProblem, unit: Radial, left: float) -> float:
    """Return the largest rate of the ball law that is allowed given a shift of the floor."""
    releases = problem.request.releases

    def meets(scale: float) -> bool:
        loss = beside_radial(unit, 1 / scale, left)
        return loss.released(releases).satisfies(problem.budget)

    start = 1 / ball_rate_of(problem.budget, unit.once, releases)
    return 1 / smallest(
        meets, 0.0, start, tolerance=PRECISION, limit=_MOST_GROWTH * start
    )


def _check_left(problem: DesignProblem, left: float) -> None:
    """Refuse a floor that what radial noise leaves of the moves exceeds by itself."""
    loss = PrivacyLoss.gaussian(left, (), False).released(problem.request.releases)
    if loss.satisfies(problem.budget):
        return
    allowed = problem.allowed
    raise PrivacyError(
        "floor: what the models and the grid leave to the floor is "
        f"{left / allowed:.3g} times what the floor hides; raise the floor by more than "
        "that factor"
    )


def unit_radial(problem: DesignProblem, shape: NDArray) -> Radial:
    """Return the noise of a shape (n, r) that hides every move with a shift of one."""
    request = problem.request
    size = radial_size(problem.law, problem.budget, shape.shape[1], request.releases)
    return Radial(problem.plant, shape / size.rate, size.law.bound)


def radial_variance(problem: DesignProblem, dimension: int) -> float:
    """Return the variance of each of some numbers whose moves are within a unit ball."""
    unit = unit_radial(problem, np.eye(problem.plant.order, dimension))
    return unit.law.unit_variance * float(unit.factor.max()) ** 2


def shift_of_shape(problem: DesignProblem, shape: NDArray) -> float:
    """Return the largest shift of a hidden move in units of structured noise S."""
    parts = (Structured(problem.plant, shape),)
    adjacency = problem.request.adjacency
    return certified_shift(parts, adjacency, problem.plants, problem.horizon).value


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
            problem.weight_root,
            allowed,
            shape=family.shape,
            norm=family.shift_norm,
        )


def _around_ball(problem: DesignProblem, axes: NDArray, allowed: float) -> Shape:
    """S = E times the size that hides every direction of the ball with axes E.

    For Gaussian noise E E^T / y*^2 is below every other covariance that hides the ball. For
    Laplace noise the largest 1-norm of a unit vector, sqrt(q), is hidden in each
    coordinate, and nothing is claimed of its cost.
    """
    count = axes.shape[1]
    responses = problem.plant.free_response(axes, problem.horizon)
    if not responses.any():
        raise PrivacyError(NO_NOISE)
    if problem.family.shift_norm == 2:
        worst = 1.0
        lower_bound = problem.cost(responses) / allowed**2 * (1 - 1e-12)
    else:
        worst = math.sqrt(count)
        lower_bound = math.nan
    size = worst / allowed * (1 + 1e-13)  # above the roundings of the loss
    return Shape(axes * size, lower_bound)


def independent(problem: DesignProblem) -> Proposal:
    """Independent noise of one size on every sample and output, or of that of the floor."""
    request = problem.request
    family = problem.family
    norm = family.shift_norm
    norms = []
    for plant in problem.plants:
        of_plant, _ = output_sizes(request.adjacency, plant, problem.horizon, norm)
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
    cost = family.unit_variance * white_cost(problem, scale)
    return Proposal((White(sizes),), cost)


# -- shapes of the user's own ------------------------------------------------------------


def own_shape(problem: DesignProblem) -> Proposal:
    """Structured noise S of the request's shape that meets the budget.

    S is kept where it meets it, unless the request wants it scaled.
    """
    request = problem.request
    shape = np.asarray(request.factor)
    if len(shape) != problem.plant.order:
        own = _own_laplace if problem.law == "laplace" else _own_lambda
        return own(problem, shape)
    if request.floor is not None:
        return _beside_floor(problem, shape)
    with piece(0, 2):
        excess = excess_of(problem, shape)
    if not excess > np.finfo(float).tiny:  # what bounds zero is smaller
        raise PrivacyError(
            "no output depends on the protected states within the horizon: no noise is "
            "needed"
        )
    size = float_above(excess, 4)
    if not request.scale:
        size = max(size, 1.0)
    with piece(1, 2):
        return of_all_models(problem, shape * size)


def _own_lambda(problem: DesignProblem, shape: NDArray) -> Proposal:
    """Noise Lambda eta over one horizon, with eta in a causal order."""
    request = problem.request
    with piece(0, 4):
        responses = all_responses(request.adjacency, problem.plants, problem.horizon)
    if not responses.moved.any():
        raise PrivacyError(NO_NOISE)
    if request.floor is None:
        with piece(1, 4):
            _check_covered(shape, responses)
    with piece(2, 4):
        fitting = shape
        if request.scale or not _fits(problem, shape, responses):
            fitting = scaled_to_fit(problem, shape, responses)
    with piece(3, 4):
        return dense_noise(problem, fitting, responses)


def _own_laplace(problem: DesignProblem, shape: NDArray) -> Proposal:
    """Noise Lambda eta over one horizon, with all of eta drawn at its start.

    Where Lambda has fewer directions than outputs and samples, a move's response lies in
    its column space up to rounding at best. The padding of `Mechanism` is then part of it.
    """
    responses = all_responses(
        problem.request.adjacency, problem.plants, problem.horizon
    )
    if not responses.moved.any():
        raise PrivacyError(NO_NOISE)
    if responses.windows or responses.apart:
        raise PrivacyError(
            "adjacency: Laplace noise of your own Lambda hides one change of a listed shape, "
            'got changes of any shape or several; pass family="gaussian", or profiles'
        )
    _check_covered(shape, responses)
    if not shape.any(axis=1).all():
        raise NotRealizableError(
            "factor: expected Laplace noise at every sample and output, got rows of zeros in "
            "Lambda, which publish exactly; add a column that is small there"
        )
    noise = LaplaceNoise(shape)
    if np.linalg.matrix_rank(shape / noise.std[:, None]) < len(shape):
        shape = np.hstack([shape, np.diag(padding_of(noise))])
    part = DrawnOnce(shape, problem.plant.output_count)
    size = float_above(problem.excess(problem.certify((part,))), 4)
    if not problem.request.scale:
        size = max(size, 1.0)
    part = part.scaled(size)
    return Proposal((part,), noise.unit_variance * problem.cost(part.columns))


def _fits(problem: DesignProblem, shape: NDArray, responses: Responses) -> bool:
    """Return whether Lambda as given meets the budget, with the floor."""
    _, sizes = evaluated(problem, shape, responses)
    return bool(sizes.max() <= problem.allowed_beside_grid)


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
        [ball / allowed for ball in (*responses.balls, *responses.around_windows)],
        root.T @ root,
        constraints,
    )


def _check_covered(shape: NDArray, responses: Responses) -> None:
    """Raise `NotRealizableError` if a response leaves Lambda's column space."""
    sizes = np.linalg.norm(shape, axis=1)
    scaled = shape / np.where(sizes > 0, sizes, 1.0)[:, None]
    basis, values, _ = scipy.linalg.svd(scaled, full_matrices=False)
    basis = basis[:, values > rank_tolerance(scaled, values)]
    shaped = [several.columns for several in responses.windows]
    moves = np.hstack([responses.points, *responses.balls, *shaped])
    moves = moves / np.where(sizes > 0, sizes, 1.0)[:, None]
    left = np.linalg.norm(moves - basis @ (basis.T @ moves), axis=0)
    if (left > _COVERED * np.linalg.norm(moves, axis=0)).any():
        raise NotRealizableError(
            "factor: a hidden move changes the outputs in a direction that is not in the "
            "column space of Lambda (DPAM eq. (8)); add the column, or a white floor of "
            "Gaussian noise"
        )


def _beside_floor(problem: DesignProblem, shape: NDArray) -> Proposal:
    """Noise of a shape, as small as the budget allows with the floor."""

    def excess(scale: float) -> float:
        found = shift_beside_floor(problem, shape * scale)
        return found.beside_grid(problem.grid).gdp / problem.allowed

    is_kept = not problem.request.scale and excess(1.0) <= 1
    scaled = shape if is_kept else shape * least_scale(excess)
    return beside_floor(problem, scaled)
