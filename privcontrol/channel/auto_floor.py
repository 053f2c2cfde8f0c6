"""The white floor that makes a design cheapest, for all of its models and its grid at once.

A large floor costs by itself. A small one leaves much of the budget to what the models and
the sensor's grid add, so that the structured part grows. The cost of the best design for a
given floor is convex in the floor's variances, and the least one is found by line searches.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from ..core.errors import PrivacyError, UncertifiableError
from ..trajectory.plant import Plant
from .output_noise import OutputNoise
from .region_design import standing_for

if TYPE_CHECKING:
    from .design import NoiseRequest

#: Designs noise for a request, with the same plant and weight.
Design = Callable[["NoiseRequest"], OutputNoise]

_STEP = math.log(4.0)
#: Logarithmic width of the bracket at which a line search ends.
_SHARP = 0.04
#: A search downwards ends where four times less floor saves no more than this.
_FLAT = 1e-4
_MOST_STEPS = 40
_MOST_SWEEPS = 6
#: Share by which noise for a region may cost more than for the plants that stand for it,
#: and the width of the line search otherwise.
_ENOUGH = 0.01
_COARSE = 0.3
#: What stands for infinite costs, as a multiple of a finite one.
_DEAR = 1e3


def with_cheapest_floor(
    plant: Plant, request: "NoiseRequest", design: Design
) -> OutputNoise:
    """The design for a request with the floor at which it is cheapest.

    One line search scales all outputs alike. With several outputs a search for each of
    them follows, and one along what a sweep has changed, until a sweep gains nothing.

    Raises
    ------
    ValueError
        If there are no models and no resolution. The cheapest floor is none then.
    PrivacyError, UncertifiableError
        If no floor gives a design, with the cause that the last design named.
    """
    if not request.has_models and request.resolution is None:
        raise ValueError(
            'floor: "auto" is the cheapest floor for models or for a resolution, and got '
            "neither; pass models=PlantBox.around(sys, relative=1e-3), or the plants that "
            "it may be"
        )
    search = _Search(standing_for(request), design)
    outputs = len(plant.C)
    logs = search.along(search.start(outputs), np.ones(outputs))
    for _ in range(_MOST_SWEEPS if outputs > 1 else 0):
        before = logs
        for axis in np.eye(outputs):
            logs = search.along(logs, axis)
        if search.cost(logs) > search.cost(before) * (1 - _FLAT):
            break
        logs = search.along(logs, logs - before)
    if request.region is not None:
        # scaled where the region costs more than the plants that stand for it
        of_plants = search.cost(logs)
        search = _Search(request, design)
        if search.cost(logs) > of_plants * (1 + _ENOUGH):
            logs = search.along(search.raised(logs), np.ones(outputs), _COARSE)
    search.cost(logs)
    return search.known[logs.tobytes()]


class _Search:
    """Costs of designs by the logarithms of their floors; infinite where there is none."""

    def __init__(self, request: "NoiseRequest", design: Design) -> None:
        self.request = request
        self.design = design
        self.known: dict[bytes, Any] = {}
        self.refusal: Exception | None = None

    def cost(self, logs: NDArray) -> float:
        """Cost of the design with the floor exp(logs)."""
        key = logs.tobytes()
        if key not in self.known:
            request = replace(self.request, floor=np.exp(logs))
            self.known[key] = None
            try:
                self.known[key] = self.design(request)
            except (PrivacyError, UncertifiableError) as error:
                self.refusal = error
        noise = self.known[key]
        return math.inf if noise is None else noise.design.cost

    def start(self, outputs: int) -> NDArray:
        """Logarithms (p,) of a floor with which there is a design.

        The first one tried is that of independent noise for the nominal plant.
        """
        nominal = replace(
            self.request,
            family="iid-gaussian",
            models=(),
            region=None,
            resolution=None,
            factor=None,
        )
        return self.raised(np.log(self.design(nominal).white))

    def raised(self, logs: NDArray) -> NDArray:
        """Logarithms of a floor, raised until there is a design."""
        for _ in range(_MOST_STEPS):
            if self.cost(logs) < math.inf:
                return logs
            logs = logs + _STEP
        raise self.refusal or UncertifiableError("floor: no floor gives a design")

    def along(
        self, logs: NDArray, direction: NDArray, sharp: float = _SHARP
    ) -> NDArray:
        """The cheapest logs + u direction, to within a width."""

        def at(u: float) -> float:
            return self.cost(logs + u * direction)

        scale = 1 / np.abs(direction).max()
        low, middle, high = self._bracket(at, _STEP * scale)
        if low == high:
            return logs + middle * direction
        found = scipy.optimize.minimize_scalar(
            lambda u: min(at(u), _DEAR * at(middle)),
            bounds=(low, high),
            method="bounded",
            options={"xatol": sharp * scale},
        )
        cheapest = min((middle, float(found.x)), key=at)
        return logs + cheapest * direction

    def _bracket(
        self, at: Callable[[float], float], step: float
    ) -> tuple[float, float, float]:
        """Three points of which the middle one is the cheapest, or where it is flat."""
        if at(step) < at(0.0):
            low, middle, sign = 0.0, step, 1
        else:
            low, middle, sign = step, 0.0, -1
        for _ in range(_MOST_STEPS):
            tried = middle + sign * step
            saved = at(middle) - at(tried)
            if not saved > 0:
                return min(low, tried), middle, max(low, tried)
            if saved <= _FLAT * at(middle):
                return tried, tried, tried
            low, middle = middle, tried
        return middle, middle, middle
