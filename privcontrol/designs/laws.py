"""Which laws of noise keep a budget, and which of them costs least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..core.ball_noise import RADIAL_LAWS
from ..core.query_design import LAWS, LawOption
from ..numerics.errors import UncertifiableError
from ..numerics.thresholds import ALIKE
from ..systems.linear import Plant
from .designed import cheapest, designed
from .output_noise import OutputNoise
from .problem import DesignProblem, Weight, finished
from .region_design import with_cheapest_floor
from .request import Request
from .structured import tangent_noise
from .table import OF_RADIAL, check_covered, sized


def laws_for(request: Request) -> tuple[str, ...]:
    """Return the laws that may keep a budget as it was asked, none where it is Gaussian's.

    "truncated" is among them however many directions the secret moves in.
    """
    budget = request.budget
    covered = not any(refusal.refuses(request) for refusal in OF_RADIAL)
    if not covered or request.factor is not None or not budget.epsilon:
        return ()
    if request.floor is not None:
        return () if budget.pure else ("gaussian", "ball", "truncated")
    return ("laplace", "ball") if budget.pure else LAWS


def options_of(request: Request, plant: Plant, weight: Weight) -> tuple[LawOption, ...]:
    """Return the laws that keep a budget, cheapest first, none where one is possible."""
    found = []
    for law in laws_for(request):
        try:
            noise = designed(replace(request, family=law), plant, weight=weight)
        except ValueError:  # more directions than the law is for
            continue
        option = LawOption.of(law, noise.design, request.releases)
        if request.floor is not None:
            # no number of releases is known at which it turns
            option = replace(option, budget=None)
        found.append(option)
    return tuple(sorted(found, key=lambda option: option.cost))


def cheapest_law(laws: Sequence[LawOption]) -> str:
    """Return the law of least cost, of those that are alike the best known one."""
    least = laws[0].cost * (1 + ALIKE)
    names = {option.law for option in laws if option.cost <= least}
    return next(law for law in LAWS if law in names)


def beside_cheapest_floor(
    plant: Plant, request: Request, weight: Weight, compares: bool
) -> tuple[OutputNoise, tuple[LawOption, ...]]:
    """Return the noise of the cheapest law, each with its own floor, and all laws."""
    floored = replace(request, floor=np.ones(plant.output_count))
    several = laws_for(floored) if compares else ()
    found: dict[str, OutputNoise] = {}
    for law in several or (request.family,):
        if law in RADIAL_LAWS:
            check_covered(floored, OF_RADIAL)
        asked = replace(request, family=law)
        problem = DesignProblem(plant, asked, weight)
        searched = problem
        if problem.is_radial and asked.factor is None:
            # the shape is that without a floor, whatever the floor is
            shape = tangent_noise(problem, 1.0).factor
            searched = replace(problem, request=replace(asked, factor=shape))
        try:
            best = cheapest(problem, with_cheapest_floor(searched, sized))
        except (ValueError, UncertifiableError):
            if not found:
                raise
            continue  # more directions than the law is for
        asked = replace(asked, floor=best.parts[-1].white)
        found[law] = finished(replace(problem, request=asked), best)
    least = min(found, key=lambda law: found[law].design.cost)
    if not several:
        return found[least], ()
    options = []
    for law, noise in found.items():
        option = LawOption.of(law, noise.design, request.releases)
        options.append(replace(option, budget=None))
    return found[least], tuple(sorted(options, key=lambda option: option.cost))
