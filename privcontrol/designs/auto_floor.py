"""The white floor that makes a design cheapest, for all of its models and its grid at once.

A large floor costs by itself. A small one leaves much of the budget to what the models and
the sensor's grid add, so the structured part grows. The cost of the best design for a
given floor is convex in the floor's variances, so scipy's searches find the least one.

For a region, noise is designed for the plants that stand for it, and scaled together with
its floor to what the region asks for. So a floor takes one design and one certified bound.
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
from .problem import DesignProblem, SizedNoise, is_dense
from .region_design import scaled_to_region, shift_in_region

#: Sizes noise for a problem, whose floor is given.
Size = Callable[[DesignProblem], SizedNoise]

#: Designs that a search along all outputs makes, and Powell's method for each output.
_OF_A_SEARCH, _OF_POWELL = 12, 20
_STEP = math.log(4.0)
_MOST_STEPS = 40
#: Logarithms of the least and largest floors that are tried, relative to the first one
#: with a design, and how sharply the cheapest one is located among them.
_LOWEST, _HIGHEST, _SHARP = -math.log(1e3), math.log(30.0), 0.05
_FLAT = 1e-4
#: The same for a region, whose bounds take longer: the first one and the largest one
#: relative to independent noise, and the least one relative to the first.
_FIRST, _ABOVE, _BELOW, _COARSE = -2.5, 1.0, -4.4, 0.2


def with_cheapest_floor(problem: DesignProblem, size: Size) -> SizedNoise:
    """Noise with the floor at which it is cheapest.

    One search scales all outputs alike. With several outputs Powell's method follows, but
    for dense noise in a region: it covers the plants that stand for that on its own.

    Raises
    ------
    ValueError
        If there are no models and no resolution. The cheapest floor is none then.
    PrivacyError, UncertifiableError
        If no floor gives a design, with the cause that the last design named.
    """
    request = problem.request
    in_region = request.region is not None
    has_grid = request.resolution is not None
    if not request.has_models and not has_grid:
        raise ValueError(
            'floor: "auto" is the cheapest floor for models or for a resolution, and got '
            "neither; pass models=PlantBox.around(sys, relative=1e-3), or the plants that "
            "it may be"
        )
    standing = replace(problem, request=request.standing)
    is_covered = is_dense(request.adjacency) and request.factor is None
    outputs = len(problem.plant.C)
    apart = outputs > 1 and not (is_covered and (in_region or not has_grid))
    searches = 1 + (in_region and apart)
    expected = _OF_A_SEARCH * searches + _OF_POWELL * outputs * apart
    numbers = count(1)
    with piece(0, expected):
        largest = np.log(_independent(problem, size))
    start = largest + _FIRST
    if apart or not in_region:
        search = _Search(standing, size, largest, numbers, expected)
        search.along_all(_LOWEST, _HIGHEST, _SHARP)
        if apart:
            search.apart()
        start = search.logs
    if not in_region:
        return search.best

    def excess(sized: SizedNoise) -> float:
        shift = shift_in_region(request, sized.parts, rough=True)
        return shift / request.allowed_shift

    search = _Search(standing, size, start, numbers, expected, excess)
    highest = float((largest - search.logs).max()) + _ABOVE
    search.along_all(_BELOW, highest, _COARSE)
    return scaled_to_region(problem, search.best, size)


def _independent(problem: DesignProblem, size: Size) -> NDArray:
    """Sizes (p,) of the independent noise that hides the secret of the nominal plant."""
    alone = replace(
        problem.request,
        family="iid-gaussian",
        models=(),
        region=None,
        resolution=None,
        factor=None,
    )
    (part,) = size(replace(problem, request=alone)).parts
    return part.white


class _Search:
    """The cheapest noise so far, and the logarithms (p,) of its floor.

    It costs what it does when it is larger by its ``excess``, floor and all.
    """

    best: SizedNoise
    logs: NDArray

    def __init__(
        self,
        problem: DesignProblem,
        size: Size,
        start: NDArray,
        numbers: Iterator[int],
        expected: int,
        excess_of: Callable[[SizedNoise], float] = lambda sized: 1.0,
    ) -> None:
        """Raise the floor from a start until there is noise.

        Designs have ``numbers``, of which so many are expected.
        """
        self._numbers = numbers
        self._expected = expected
        self._problem = problem
        self._size = size
        self._excess_of = excess_of
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
        """Cost of the noise with the floor exp(logs), infinite if there is none."""
        request = replace(self._problem.request, floor=np.exp(logs))
        try:
            with piece(next(self._numbers), self._expected):
                sized = self._size(replace(self._problem, request=request))
                if sized.cost >= self._lowest_cost:  # an excess is one or more
                    return sized.cost
                excess = self._excess_of(sized)
        except (PrivacyError, UncertifiableError) as error:
            self._refusal = error
            return math.inf
        cost = sized.cost * excess**2
        if cost < self._lowest_cost:
            self._lowest_cost = cost
            self.best = sized
            self.logs = logs
        return cost

    def _height(self, logs: NDArray) -> float:
        """The cost, or a large number that falls towards the larger floors."""
        slope = 1 + np.exp(-np.mean(logs - self.logs) / 10)
        return min(self._cost(logs), float(self._dear * slope))

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
