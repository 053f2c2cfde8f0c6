"""Radial noise, whose entries share one length: alone, in blocks, or beside a floor.

Its shape is that of the cheapest Gaussian noise, or one of the request.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..core.blocks import blocks_under_weight
from ..noise.certify import beside_radial, shifts_apart
from ..noise.parts import Blocks, Radial, Structured, White
from ..noise.shift import certified_shift
from ..numerics.errors import PrivacyError, UncertifiableError
from ..numerics.linalg import float_above, smallest
from ..numerics.thresholds import LARGEST_FACTOR
from ..privacy.joint import PRECISION
from ..privacy.loss import PrivacyLoss
from ..privacy.radial_design import (
    RadialSize,
    ball_rate_of,
    blocks_size,
    radial_size,
    truncation_beside,
)
from ..secrets.distinguished import told_rank
from ..secrets.hiding import coordinates_in
from .problem import DesignProblem, Proposal
from .structured import tangent_noise


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
    cost = part.law.unit_variance * problem.price.cost(factor)
    # the entries of Gaussian noise of this variance, times the shape
    told = told_rank(problem.hidden, problem.plant, problem.horizon)
    bound = math.nan
    if told is not None:
        bound = radial_variance(problem, told) * unit_bound * (1 - 1e-12)
    if bound > cost:
        bound = math.nan
    found = [Proposal((part,), cost, bound, unit_bound=unit_bound)]
    if problem.request.factor is None and problem.law == "ball":
        for proposal in _under_weight(problem, shape):
            found.append(replace(proposal, unit_bound=unit_bound))
    return min(found, key=lambda proposal: proposal.cost)


def _under_weight(problem: DesignProblem, shape: NDArray[np.float64]) -> list[Proposal]:
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
        problem.price.root(responses),
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
    return Proposal((part,), problem.price.cost(factor))


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
    size, left = shifts_apart(unit, floor, request.secret, world)
    size, left = float_above(size, 4), float_above(left, 4)
    _check_left(problem, left)
    if problem.law == "ball":
        beside = RadialSize(unit.once, _ball_beside(problem, unit, left))
    else:
        beside = truncation_beside(problem.budget, unit.once, left, request.releases)
    gain = size / beside.rate * (1 + 1e-12)
    part = replace(unit, factor=shape * gain, bound=beside.law.bound)
    responses = part.responses(problem.horizon).reshape(problem.query.size, -1)
    cost = part.law.unit_variance * problem.price.cost(responses)
    return Proposal((part, floor), cost + problem.price.of_white(problem.floor))


def _ball_beside(problem: DesignProblem, unit: Radial, left: float) -> float:
    """Return the largest rate of the ball law that is allowed given a shift of the floor."""
    releases = problem.request.releases

    def meets(scale: float) -> bool:
        loss = beside_radial(unit, 1 / scale, left)
        return loss.released(releases).satisfies(problem.budget)

    start = 1 / ball_rate_of(problem.budget, unit.once, releases)
    return 1 / smallest(
        meets, 0.0, start, tolerance=PRECISION, limit=LARGEST_FACTOR * start
    )


def _check_left(problem: DesignProblem, left: float) -> None:
    """Refuse a floor that what radial noise leaves of the moves exceeds by itself."""
    loss = PrivacyLoss.gaussian(left, (), False).released(problem.request.releases)
    if loss.satisfies(problem.budget):
        return
    allowed = problem.allowed
    raise PrivacyError(
        "floor: the moves that the models and the grid leave to the floor are "
        f"{left / allowed:.3g} times the ones that it hides; raise the floor by more than "
        "that factor"
    )


def unit_radial(problem: DesignProblem, shape: NDArray[np.float64]) -> Radial:
    """Return the noise of a shape (n, r) that hides every move with a shift of one."""
    request = problem.request
    size = radial_size(problem.law, problem.budget, shape.shape[1], request.releases)
    return Radial(problem.plant, shape / size.rate, size.law.bound)


def radial_variance(problem: DesignProblem, dimension: int) -> float:
    """Return the variance of each of some numbers whose moves are within a unit ball."""
    unit = unit_radial(problem, np.eye(problem.plant.order, dimension))
    return unit.law.unit_variance * float(unit.factor.max()) ** 2


def shift_of_shape(problem: DesignProblem, shape: NDArray[np.float64]) -> float:
    """Return the largest shift of a hidden move in units of structured noise S."""
    parts = (Structured(problem.plant, shape),)
    adjacency = problem.request.adjacency
    return certified_shift(parts, adjacency, problem.plants, problem.horizon).value
