"""Noise for any one plant of a region, which stays the same during the run.

Noise is designed for corners of the region, certified for all of it, and designed again for
a smaller budget until that meets the one asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..noise.parts import Correlated, NoisePart, White
from ..noise.shift import Shift
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import shortened
from ..numerics.progress import search_round
from ..numerics.thresholds import FEW_ROUNDS, ROUNDED
from ..privacy.budget import PrivacyBudget, scale_to_budget
from .problem import GAP_OF_A_TRY, DesignProblem, Proposal, Rough
from .request import Request

#: Clip for d log(certified shift) / d log(target shift) in the secant step.
_SLOPES = (0.2, 2.0)
#: Speed: how far a secant step goes, in steps. One that ends a millionth short of the
#: budget costs another design and another bound over the region.
_PAST = 1.01

#: Sizes noise for a problem, whose floor is given.
Size = Callable[[DesignProblem], Proposal]
#: Certifies the shift of noise for a region.
ShiftOf = Callable[[Request, Sequence[NoisePart]], float]


def of_region(problem: DesignProblem, size: Size) -> Proposal:
    """Noise for any one plant of a region.

    ``size`` sizes noise for a problem with a list of plants.

    Raises
    ------
    UncertifiableError
        If no smaller budget makes the certified shift small enough.
    """
    standing = problem.request.standing
    return meeting_budget(problem, size, standing, shift_in_region)


def meeting_budget(
    problem: DesignProblem,
    size: Size,
    standing: Request,
    shift_of: ShiftOf,
) -> Proposal:
    """Noise for a request that stands for a region, until the region's shift is allowed."""
    request = problem.request
    allowed = request.allowed_shift
    target = allowed
    slope = 1.0
    lower_bound = math.nan
    tried: list[tuple[float, float]] = []
    rough: Rough | None = None  # noise for the budget itself may be all that it takes
    for rounds in range(FEW_ROUNDS):
        budget = PrivacyBudget(gdp=target)
        is_scaled = request.scale or rounds > 0  # a factor that is given is tried first
        asked = replace(standing, budget=budget, releases=1, scale=is_scaled)
        nearby = replace(problem, request=asked, rough=rough)
        with search_round(2 * rounds):
            sized = size(nearby)
        if request.factor is not None:
            target = min(target, nearby.certify(sized.parts).gdp)
        if rounds == 0:
            lower_bound = min(sized.lower_bound, sized.cost)
        with search_round(2 * rounds + 1):
            shift = shift_of(request, sized.parts)
        if shift <= allowed:
            return replace(sized, lower_bound=lower_bound)
        if rough is None:
            is_sharp = not request.secret.is_dense
            rough = Rough(ROUNDED if is_sharp else GAP_OF_A_TRY)
        tried.append((math.log(target), math.log(shift)))
        past = 1.0
        if rounds > 0:  # the secant through the last two shifts
            run, rise = np.diff(tried[-2:], axis=0)[0]
            slope = float(np.clip(rise / run, *_SLOPES))
            past = _PAST
        target *= (allowed / shift * (1 - ROUNDED)) ** (past / slope)
    raise UncertifiableError(
        f"models: the certified bound over the region, {shift:.3g}, does not come down to "
        f"the allowed {allowed:.3g}; narrow the region, or raise the floor"
    )


def shift_in_region(request: Request, parts: Sequence[NoisePart]) -> float:
    """The certified shift of noise for all plants of a region and the sensor's grid."""
    region: Any = request.region
    found = region.shift(parts, request.adjacency, request.horizon)
    return beside_grid(request, parts, found)


def beside_grid(request: Request, parts: Sequence[NoisePart], found: Shift) -> float:
    """A shift, and the sensor grid's contribution to it."""
    grid = request.grid_shift(parts)
    return float(found.beside_grid(grid).gdp)


def scaled_to_region(
    problem: DesignProblem,
    sized: Proposal,
    size: Callable[[DesignProblem], Proposal],
) -> Proposal:
    """Noise that is scaled, floor and all, until it meets the budget.

    Its bound holds for noise with this floor for the plants that represent the region.
    The noise is an exact multiple of the noise that is certified first, so no box is
    halved again.
    """
    request = problem.request
    allowed = request.allowed_shift
    short = replace(sized, parts=tuple(map(_shortened, sized.parts)))

    def evaluated(gain: float) -> tuple[Proposal, float]:
        scaled = short.scaled(float(shortened(gain, 27, np.ceil)))
        return scaled, shift_in_region(request, scaled.parts) / allowed

    _, start = evaluated(1.0)
    start *= 1 + ROUNDED
    if request.factor is not None and not request.scale:
        start = max(start, 1.0)
    found, _, excess = scale_to_budget(evaluated, start)
    if not excess <= 1:
        raise UncertifiableError(
            "models: the noise does not meet its budget when evaluated back; narrow the "
            "region"
        )
    floor = found.parts[-1].white
    least = size(replace(problem, request=replace(request.standing, floor=floor)))
    bound = min(least.lower_bound, least.cost)
    return Proposal(found.parts, found.cost, bound)


def _shortened(part: NoisePart) -> NoisePart:
    """Noise of a run whose numbers leave digits for the digits of a factor."""
    if isinstance(part, Correlated):
        return replace(part, root=shortened(part.root, 26))
    if isinstance(part, White):
        return replace(part, scale=shortened(part.scale, 26))
    return part
