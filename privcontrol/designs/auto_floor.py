"""The white floor that makes a design cheapest, for all of its models and its grid at once.

A large floor costs by itself. A small one leaves much of the budget to what the models and
the sensor's grid add, so the structured part grows. The cost of the best design for a
given floor is convex in the floor's variances, so scipy's searches find the least one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from ..core._progress import piece
from ..core.errors import PrivacyError, UncertifiableError
from ..systems.plant import Plant
from .output_noise import OutputNoise
from .request import Request

#: Designs noise for a request, with the same plant and weight.
Design = Callable[[Request], OutputNoise]

#: Designs that one search makes, Powell's method for each output, and one for a region.
_OF_A_SEARCH, _OF_POWELL, _OF_A_REGION = 20, 80, 12
_STEP = math.log(4.0)
_MOST_STEPS = 40
#: Logarithms of the least and largest floors that are tried, relative to the first one
#: with a design, and how sharply the cheapest one is located among them.
_LOWEST, _HIGHEST, _SHARP = -math.log(1e3), math.log(30.0), 0.05
_FLAT = 1e-4
#: Noise for a region may cost this share more than for the plants that stand for it.
_ENOUGH = 0.01
_COARSE = 0.2


def with_cheapest_floor(
    plant: Plant,
    request: Request,
    design: Design,
) -> OutputNoise:
    """The design for a request with the floor at which it is cheapest.

    One search scales all outputs alike. With several outputs Powell's method follows.

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
    outputs = len(plant.C)
    standing = request.without_miss().standing
    nominal = replace(
        standing,
        family="iid-gaussian",
        models=(),
        resolution=None,
        factor=None,
    )
    expected = _OF_A_SEARCH + _OF_POWELL * (outputs if outputs > 1 else 0)
    pieces = 1 if request.region is None else 1 + _OF_A_REGION
    with piece(0, pieces):
        with piece(0, expected):
            start = np.log(design(nominal).total.white)
        search = _Search(standing, design, start, count(1), expected)
        search.along_all(_LOWEST, _HIGHEST, _SHARP)
        if outputs > 1:
            search.apart()
    if request.region is None:
        return search.best
    of_plants = search.best.design.cost
    search = _Search(request, design, search.logs, count(1), pieces)
    if search.best.design.cost > of_plants * (1 + _ENOUGH):
        search.upwards()
        search.along_all(-_STEP, _STEP, _COARSE)
    return search.best


class _Search:
    """The cheapest design so far, and the logarithms (p,) of its floor."""

    best: OutputNoise
    logs: NDArray

    def __init__(
        self,
        request: Request,
        design: Design,
        start: NDArray,
        numbers: Iterator[int],
        expected: int,
    ) -> None:
        """Raise the floor from a start until there is a design.

        Designs have ``numbers``, of which so many are expected.
        """
        self._numbers = numbers
        self._expected = expected
        self._request = request
        self._design = design
        self._refusal: Exception | None = None
        self._lowest_cost = math.inf
        for _ in range(_MOST_STEPS):
            if self._cost(start) < math.inf:
                break
            start = start + _STEP
        else:
            raise self._refusal or UncertifiableError("floor: no floor gives a design")
        self._dear = 1e3 * self._lowest_cost

    def _cost(self, logs: NDArray) -> float:
        """Cost of the design with the floor exp(logs), infinite if there is none."""
        try:
            with piece(next(self._numbers), self._expected):
                noise = self._design(replace(self._request, floor=np.exp(logs)))
        except (PrivacyError, UncertifiableError) as error:
            self._refusal = error
            return math.inf
        cost = noise.design.cost
        if cost < self._lowest_cost:
            self._lowest_cost = cost
            self.best = noise
            self.logs = logs
        return cost

    def _height(self, logs: NDArray) -> float:
        """The cost, or a large number that falls towards the larger floors."""
        slope = 1 + np.exp(-np.mean(logs - self.logs) / 10)
        return min(self._cost(logs), float(self._dear * slope))

    def upwards(self) -> None:
        """Raise the floors of all outputs as long as that saves something."""
        before = math.inf
        while self._lowest_cost < before * (1 - _FLAT):
            before = self._lowest_cost
            self._cost(self.logs + _STEP)

    def along_all(self, low: float, high: float, sharp: float) -> None:
        """Search for a factor of the floors of all outputs, between two logarithms."""
        logs = self.logs
        scipy.optimize.minimize_scalar(
            lambda step: self._height(logs + step),
            bounds=(low, high),
            method="bounded",
            options={"xatol": sharp},
        )

    def apart(self) -> None:
        """Search for the floor of each output."""
        bounds = np.column_stack([self.logs + _LOWEST, self.logs + _HIGHEST])
        scipy.optimize.minimize(
            self._height,
            self.logs,
            method="Powell",
            bounds=bounds,
            options={"xtol": _SHARP, "ftol": _FLAT},
        )
