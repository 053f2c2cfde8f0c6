"""From a checked request to its noise, which is independent noise where that costs less."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import control as ct

from ..numerics.errors import PrivacyError, UncertifiableError, warn_user
from ..numerics.linalg import one_thread
from ..numerics.thresholds import ALIKE
from ..systems.linear import Plant
from .finished import finished
from .long_design import least_cost_of_white
from .output_noise import OutputNoise
from .price import Weight
from .problem import DesignProblem, Proposal
from .request import Request
from .table import sized


@one_thread
def designed(
    request: Request,
    sys: ct.StateSpace | Plant,
    *,
    weight: Weight = None,
    **changes: Any,
) -> OutputNoise:
    """Design noise for a request, up to the arguments given, without warnings."""
    request = replace(request, **changes)
    if request.bound is not None:
        raise PrivacyError(
            "bound: other designs than design_output_noise (codesign, design.price) choose "
            "noise without a bound; design noise for the loop with weight=loop and bound="
        )
    problem = DesignProblem(Plant.of(sys), request, weight)
    return finished(problem, cheapest(problem, sized(problem)))


def cheapest(problem: DesignProblem, found: Proposal) -> Proposal:
    """Return independent noise in place of a design that costs more.

    A `PrivacyWarning` says where the gap that was asked for is missed.
    """
    request = problem.request
    other = _independent(problem, found)
    if other is not None:
        gap = other.cost / found.lower_bound - 1
        alike = other.bounded(found.lower_bound)
        unit_bound = found.unit_bound
        found = replace(alike, gap=min(found.gap, gap), unit_bound=unit_bound)
    if found.gap > request.gap:
        reason = "no noise that was tried comes closer"
        if request.region is not None:
            reason = (
                "the bound is for plants that stay the same, the guarantee for every "
                "sequence of plants of the region; over a finite horizon less noise may do"
            )
        elif request.secret.events > 1:
            reason = "the bound and the guarantee count the joint effect of changes in part only"
        elif request.order is not None:
            reason = (
                f"none of order {request.order} or less that was tried comes closer"
            )
        warn_user(
            f"the noise costs {100 * found.gap:.3g} % more than the lower bound, where "
            f"gap={request.gap:g} was asked for: {reason}"
        )
    return found


def _independent(problem: DesignProblem, found: Proposal) -> Proposal | None:
    """Return independent noise of the same promise, None if it does not cost less."""
    request = problem.request
    is_own = request.factor is not None or request.family.startswith("iid-")
    is_own |= problem.is_radial
    was_tried = request.has_models and request.drawn_afresh
    known = found.filter
    was_tried |= known is not None and known.symmetry is not None  # unit by unit
    most = found.cost * (1 - ALIKE)
    # of a grid a larger floor lets less through, and the bound is for the floor asked for
    is_best = request.resolution is None and most <= found.lower_bound
    if is_own or was_tried or is_best:
        return None
    lasts = request.horizon.ends and request.secret.come_once
    if lasts and not problem.varies:
        if least_cost_of_white(problem) >= most:
            return None
    alone = replace(request, family=f"iid-{request.family}")
    requests = [alone.standing]
    if request.region is not None:  # whose bound takes longer
        requests.append(alone)
    for asked in requests:
        try:
            other = sized(replace(problem, request=asked))
        except (PrivacyError, UncertifiableError):
            return None
        if other.cost >= most:
            return None
    return other
