"""Noise with the floor at which it is cheapest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .designed import cheapest
from .floor_search import with_cheapest_floor
from .problem import DesignProblem, Proposal
from .structured import tangent_noise
from .table import OF_RADIAL, check_covered, sized


def beside_cheapest_floor(problem: DesignProblem) -> tuple[DesignProblem, Proposal]:
    """Return the problem with the floor at which its noise is cheapest, and the noise."""
    request = problem.request
    searched = problem
    if problem.is_radial:
        ones = np.ones(problem.plant.output_count)
        check_covered(replace(request, floor=ones), OF_RADIAL)
    if problem.is_radial and request.factor is None:
        # the shape is that without a floor, whatever the floor is
        shape = tangent_noise(problem, 1.0).factor
        searched = replace(problem, request=replace(request, factor=shape))
    found = cheapest(problem, with_cheapest_floor(searched, sized))
    request = replace(request, floor=found.parts[-1].white)
    return replace(problem, request=request), found
