"""Search for the white floor beside which noise costs least.

A large floor costs by itself. Beside a small one the models and the sensor's grid
take much of the budget, so the structured part grows. The cost of the best design for a
given floor is convex in the floor's variances, so a search along one factor of all floors
finds the least one, and quadratic models of the cost do where each output has its own.
The search compares rough designs; the best floor then gets a sharp one.

For a region, noise is designed for the plants that represent it, and scaled together with
its floor until it covers the region. So a floor takes one design and one certified bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, count
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from ..numerics.errors import PrivacyError, UncertifiableError
from ..numerics.progress import piece, search_round
from ..numerics.thresholds import FEW_ROUNDS, ROUNDED, SMALLEST
from ..privacy.budget import scale_to_budget
from ..regions.region import Compared
from .problem import GAP_OF_A_TRY, DesignProblem, Proposal, Rough
from .region_design import ShiftOf, Size, beside_grid, scaled_to_region

#: Steps in which a floor is raised until there is noise, in logarithms.
_STEP = math.log(4.0)
#: Logarithms of the least and largest floors that are tried, relative to the first one
#: with a design, and how sharply the cheapest one is located among them.
_LOWEST, _HIGHEST, _FLOOR_SHARP = -math.log(1e3), math.log(30.0), 0.1
#: The same for a region, whose bounds take longer: the first one and the largest one
#: relative to independent noise, and the least one relative to the first.
_FIRST, _ABOVE, _BELOW, _COARSE = -2.5, 1.0, -4.4, 0.2
#: Gap up to which the bound of designs for regions, whose gap is that of the request,
#: stands for the least cost.
_NEAR = 1e-2
#: Speed: logarithms of floors between which the first models of the cost are made, and the
#: longest step.
_WIDE, _LONGEST = 0.4, 2.0


def with_cheapest_floor(problem: DesignProblem, size: Size) -> Proposal:
    """Noise with the floor at which it is cheapest.

    One search scales all outputs alike. With several outputs another one follows, but
    for dense noise in a region: it covers the plants that represent it on its own.

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
    is_covered = request.secret.is_dense and request.factor is None
    outputs = problem.plant.output_count
    apart = outputs > 1 and not (is_covered and (in_region or not has_grid))
    standing = replace(problem, request=request.standing)
    with piece(0, 3 if in_region else 1):
        nominal = replace(problem, request=request.alone)
        largest = np.log(_independent(nominal, size))
        start = largest + _FIRST
        if apart or not in_region:
            gap = request.gap if in_region else GAP_OF_A_TRY
            search = _Search(standing, size, largest, gap=gap)
            search.along_all(_LOWEST, _HIGHEST, _WIDE if apart else _FLOOR_SHARP)
            if apart:
                search.apart(_COARSE if in_region else _FLOOR_SHARP)
            start = search.logs
    if not in_region:
        return search.sharp()

    region: Any = request.region
    compared = Compared(region, request.adjacency, request.horizon)

    def excess(sized: Proposal) -> float:
        found = compared.shift(sized.parts)
        return beside_grid(request, sized.parts, found) / request.allowed_shift

    with piece(1, 3):
        search = _Search(standing, size, start, excess, request.gap)
        search.coarsely(largest)
    with piece(2, 3):
        rough = replace(search.rough, gap=ROUNDED)
        sized = search.sharp(rough)
        return scaled_to_region(replace(problem, rough=rough), sized, size)


def beside_some_floor(
    problem: DesignProblem, size: Size, shift_of: ShiftOf
) -> Proposal:
    """Noise for plants that are close to one, with the floor at which it is cheapest.

    It is designed for the nominal plant, and ``shift_of`` certifies it for all of them.
    """
    request = problem.request
    allowed = request.allowed_shift

    def excess(sized: Proposal) -> float:
        return shift_of(request, sized.parts) / allowed

    nominal = replace(problem, request=request.alone)
    largest = np.log(_independent(nominal, size))
    search = _Search(nominal, size, largest + _FIRST, excess, request.gap)
    search.coarsely(largest)
    sized = search.best

    def evaluated(gain: float) -> tuple[Proposal, float]:
        larger = sized.scaled(gain)
        return larger, excess(larger)

    found, _, left = scale_to_budget(evaluated, excess(sized) * (1 + ROUNDED))
    if not left <= 1:
        raise UncertifiableError(
            "floor: the noise does not meet its budget when evaluated back"
        )
    floor = found.parts[-1].white
    least = size(replace(problem, request=replace(request.alone, floor=floor)))
    return replace(found, lower_bound=min(least.lower_bound, least.cost))


def _independent(problem: DesignProblem, size: Size) -> NDArray[np.float64]:
    """Sizes (p,) of the independent noise that hides the secret."""
    alone = replace(
        problem.request, family="iid-gaussian", resolution=None, factor=None
    )
    (part,) = size(replace(problem, request=alone)).parts
    return part.white


class _Search:
    """The cheapest noise so far, and the logarithms (p,) of its floor.

    It costs what it does when it is larger by its ``excess``, floor and all.
    """

    best: Proposal
    logs: NDArray[np.float64]

    def __init__(
        self,
        problem: DesignProblem,
        size: Size,
        start: NDArray[np.float64],
        excess_of: Callable[[Proposal], float] = lambda sized: 1.0,
        gap: float = GAP_OF_A_TRY,
    ) -> None:
        """Raise the floor from a start until there is noise."""
        self._numbers = count(1)
        self.rough = Rough(gap)
        self._problem = replace(problem, rough=self.rough)
        self._flat = gap
        self._size = size
        self._excess_of = excess_of
        self._refusal: Exception | None = None
        self._lowest_cost = math.inf
        for tried in range(FEW_ROUNDS):
            if self._cost(start) < math.inf:
                break
            start = start + _STEP
            if tried == 0:  # under some model far more noise is needed
                of_all = np.log(_independent(problem, size))
                start = np.maximum(start, of_all + _FIRST)
        else:
            raise self._refusal or UncertifiableError("floor: no floor gives a design")
        self._dear = 1e3 * self._lowest_cost

    def _cost(self, logs: NDArray[np.float64]) -> float:
        """Cost of the noise with the floor exp(logs), infinite if there is none."""
        request = replace(self._problem.request, floor=np.exp(logs))
        try:
            with search_round(next(self._numbers)):
                sized = self._size(replace(self._problem, request=request))
                # of a rough design the bound is the nearer one to the least cost
                is_near = sized.cost <= sized.lower_bound * (1 + _NEAR)
                cost = sized.lower_bound if is_near else sized.cost
                if cost >= self._lowest_cost:  # an excess is one or more
                    return cost
                cost *= self._excess_of(sized) ** 2
        except (PrivacyError, UncertifiableError) as error:
            self._refusal = error
            return math.inf
        if cost < self._lowest_cost:
            self._lowest_cost = cost
            self.best = sized
            self.logs = logs
        return cost

    def _height(self, logs: NDArray[np.float64]) -> float:
        """The cost, or a large number that falls towards the larger floors."""
        slope = 1 + np.exp(-np.mean(logs - self.logs) / 10)
        return min(self._cost(logs), float(self._dear * slope))

    def sharp(self, rough: Rough | None = None) -> Proposal:
        """The noise with the best floor, certified unless it is still to be scaled."""
        request = replace(self._problem.request, floor=np.exp(self.logs))
        return self._size(replace(self._problem, request=request, rough=rough))

    def along_all(self, low: float, high: float, sharp: float) -> None:
        """Search for a factor of the floors of all outputs, between two logarithms."""
        logs = self.logs
        scipy.optimize.minimize_scalar(
            lambda step: self._height(logs + step),
            bounds=(low, high),
            method="bounded",
            options={"xatol": sharp},
        )

    def coarsely(self, largest: NDArray[np.float64]) -> None:
        """Search for a factor of all floors, where a certified bound takes long.

        ``largest`` (p,) has the logarithms of independent noise, hardly above which the
        floor is not sought.
        """
        highest = max(float((largest - self.logs).max()), 0.0) + _ABOVE
        self.along_all(_BELOW, highest, _COARSE)

    def apart(self, narrow: float) -> None:
        """Search for the floor of each output, by quadratic models of the cost.

        A model has differences of the cost in both senses for each output. How two outputs
        bend it together is found once. The next one is about the best floors so far, and
        the last one as ``narrow`` in logarithms.
        """
        outputs = len(self.logs)
        bends = np.zeros((outputs, outputs))
        width = _WIDE
        for number in range(FEW_ROUNDS):
            centre = self.logs
            least = self._lowest_cost
            steps = width * np.eye(outputs)
            above = np.array([self._height(centre + step) for step in steps])
            below = np.array([self._height(centre - step) for step in steps])
            if number == 0:
                for i, j in combinations(range(outputs), 2):
                    both = self._height(centre + steps[i] + steps[j])
                    bend = (both - above[i] - above[j] + least) / width**2
                    bends[i, j] = bends[j, i] = bend
            np.fill_diagonal(bends, (above - 2 * least + below) / width**2)
            step = _least_of_model((above - below) / (2 * width), bends)
            self._height(centre + step)
            is_near = np.abs(step).max() < width / 3
            is_flat = least - self._lowest_cost <= self._flat * least
            if is_near or is_flat:
                width /= 4
            if width < narrow:
                break


def _least_of_model(
    slopes: NDArray[np.float64], bends: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The step (k,) to where slopes (k,) and second derivatives (k, k) have their least.

    Where it bends down, as much is taken to bend up. No step is longer than `_LONGEST`.
    """
    values, axes = np.linalg.eigh(bends)
    along = axes.T @ slopes
    steps = -along / np.maximum(np.abs(values), np.abs(along) / _LONGEST + SMALLEST)
    return axes @ steps
