"""Size noise that never leaves a bound: its shift and its leak keep the budget together.

Larger noise hides more, and leaves its bound more often. So a bound has a size of noise
that is just enough, or none. What a move does to the walls is known for one size and
follows for all others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..noise.bound import Bound
from ..noise.shift import certified_shift
from ..noise.within import walls_of
from ..numerics.checks import real_array, sample_count
from ..numerics.errors import PrivacyError
from ..numerics.linalg import smallest
from ..numerics.thresholds import FINE, LARGEST_FACTOR, ROUNDED
from ..privacy.budget import PrivacyBudget, kappa_upper
from ..privacy.horizon import Run
from ..privacy.walls import Wall
from ..systems.linear import Plant
from .designed import cheapest
from .problem import DesignProblem, Proposal
from .request import Request
from .table import sized

#: A limit of the noise at an output, or that and one of its change in a sample.
Limit = float | tuple[float, float]

#: Sizes of noise that are tried, relative to the next one.
_STEP = 0.98


def checked_bound(
    bound: ArrayLike | Mapping[str, Limit] | None,
    life: int | None,
    problem: DesignProblem,
    floor_is_open: bool,
    is_constrained: bool,
) -> Bound | None:
    """Return limits of each output, and the samples that are drawn ahead as one.

    Options that do not go with noise that never leaves a bound are refused.
    """
    request = problem.request
    if life is not None:
        life = sample_count(life, "life")
    if bound is None:
        if life is not None:
            raise ValueError(
                "life: it is about noise within a bound, which is drawn ahead as one; "
                "pass bound=, or leave life out"
            )
        if request.budget.leak:
            raise ValueError(
                "budget: a leak is for noise that never leaves a bound; pass bound=, or "
                "PrivacyBudget(gdp=) without a leak"
            )
        return None
    samples = request.horizon
    if life is not None and samples.ends and life != samples:
        raise ValueError(
            f"life: over a horizon the run is drawn ahead as one, of {samples} samples, "
            f"got {life}; leave life out, or pass horizon=np.inf"
        )
    budget = request.budget
    if budget.pure or (budget.gdp is not None and not budget.leak):
        raise PrivacyError(
            "budget: noise within a bound leaks, expected a delta > 0 or "
            "PrivacyBudget(gdp=..., leak=...)"
        )
    _check_bounded(request, floor_is_open, is_constrained)
    limits, changes = _limits(bound, problem.plant)
    return Bound(limits, changes, samples if life is None else Run(life))


def _limits(
    bound: ArrayLike | Mapping[str, Limit], plant: Plant
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return limits (p,) of the noise and of its change in a sample."""
    outputs = plant.outputs
    changes = np.full(len(outputs), math.inf)
    if not isinstance(bound, Mapping):
        given = real_array(bound, "bound")
        if given.ndim > 1 or given.size not in (1, len(outputs)):
            raise ValueError(
                f"bound: expected a number, {len(outputs)} of them, one for each output, or "
                f"a mapping by output name, got shape {given.shape}"
            )
        limits = np.broadcast_to(given, (len(outputs),)).copy()
    else:
        limits = np.full(len(outputs), math.inf)
        plant.check_outputs(bound, "bound")
        for name, limit in bound.items():
            k = outputs.index(name)
            pair = np.atleast_1d(real_array(limit, "bound"))
            if pair.shape not in ((1,), (2,)):
                raise ValueError(
                    "bound: expected a limit of the noise, or that and one of its change "
                    f"from one sample to the next, got {pair.size} numbers at {name}"
                )
            limits[k] = pair[0]
            changes[k] = pair[1] if pair.size == 2 else math.inf
    finite = np.concatenate([limits, changes])
    if not (finite > 0).all() or not np.isfinite(limits).any():
        raise ValueError("bound: expected numbers > 0, at least one of them finite")
    return limits, changes


def _check_bounded(request: Request, floor_is_open: bool, is_constrained: bool) -> None:
    """Refuse options that do not go with noise that never leaves a bound."""
    others = {
        "models": request.has_models,
        "resolution": request.resolution is not None,
        "floor": floor_is_open,
        "constraints": is_constrained,
    }
    given = [name for name, is_given in others.items() if is_given]
    if given:
        raise PrivacyError(
            f"bound: it is for the exact plant and a noise of its own, got {given[0]}; "
            "moves that the past chooses, as those of a region and of readings on a grid, "
            "void it"
        )
    if not request.family.endswith("gaussian"):
        raise PrivacyError(
            f"bound: Gaussian noise is kept within a bound, got family={request.family!r}; "
            'family="truncated" hides one or two directions of a state within a bound'
        )


def within_bound(
    problem: DesignProblem, bound: Bound
) -> tuple[DesignProblem, Proposal]:
    """Return the problem over the samples that are drawn as one, and noise for it.

    The size and the leak of the noise without a bound are solved for together.
    """
    request = problem.request
    free = replace(request, bound=None)
    if request.budget.leak:
        free = replace(free, budget=PrivacyBudget(gdp=request.budget.gdp))
    unbounded = replace(problem, request=free)
    found = cheapest(unbounded, sized(unbounded))
    if found.parts[0].of_units:
        raise PrivacyError(
            "bound: noise of so many units is not kept within a bound together; design for "
            "the plant of one unit"
        )
    if bound.samples < request.horizon:
        # an order is for no horizon
        request = replace(request, horizon=bound.samples, order=None)
    gain = _gain_within(unbounded, found, request)
    return replace(problem, request=request), found.scaled(gain)


def _gain_within(problem: DesignProblem, found: Proposal, request: Request) -> float:
    """Return how many times as large noise just keeps the budget within its bound.

    Raises
    ------
    PrivacyError
        If none does; it says the least bound.
    """
    bound = request.bound
    if bound is None:
        raise ValueError("bound: expected limits of the noise, got none")
    plants = request.plants(problem.plant)
    horizon = problem.request.horizon
    shift = certified_shift(found.parts, request.adjacency, plants, horizon).value
    walls = walls_of(found.parts, request.secret, plants, bound, shift)
    keeps = _Keeping(request.budget_left, request.releases, shift)
    gain = keeps.largest(walls)
    if gain is not None:
        return (1 + ROUNDED) / gain
    least = _least_factor(keeps, walls)
    names = []
    if least is not None:
        for name, limit in zip(
            problem.plant.outputs, bound.limits.tolist(), strict=True
        ):
            if limit < math.inf:
                names.append(f"{name}: {limit * least:.4g}")
    hint = f"the least one in these proportions is {', '.join(names)}" if names else ""
    raise PrivacyError(
        f"bound: no size of this noise keeps {request.budget} within it; "
        f"{hint or 'a hidden move goes beyond it'}. Raise the bound or the budget, or "
        "protect a smaller radius"
    )


class _Keeping:
    """Whether noise of a size keeps a budget together with its leak."""

    def __init__(self, budget: PrivacyBudget, releases: int, shift: float) -> None:
        self._budget = budget
        self._releases = releases
        self._shift = shift
        self._most = budget.leak if budget.gdp is not None else budget.pair[1]

    def _leak(self, walls: Sequence[Wall], gain: float) -> float:
        """Return the leak of noise ``gain`` times as small, one where it is too much."""
        leak = 0.0
        for wall in walls:  # the nearest come first
            leak += wall.beside(gain).leak
            if leak >= self._most:
                return 1.0
        leak = min(leak * (1 + ROUNDED), 1.0)
        return -math.expm1(self._releases * math.log1p(-min(leak, 1 - 1e-15)))

    def holds(self, walls: Sequence[Wall], gain: float) -> bool:
        """Return whether noise ``gain`` times as small keeps it."""
        budget = self._budget
        leak = self._leak(walls, gain)
        y = self._shift * gain * math.sqrt(self._releases) * (1 + ROUNDED)
        if budget.gdp is not None:
            return leak * (1 + ROUNDED) <= budget.leak and y <= budget.gdp * (
                1 + 2 * ROUNDED
            )
        epsilon, delta = budget.pair
        if leak >= delta:
            return False
        total = leak + (1 - leak) * float(kappa_upper(epsilon, y))
        return total * (1 + ROUNDED) <= delta

    def largest(self, walls: Sequence[Wall]) -> float | None:
        """Return the largest gain that keeps it, at most one, None if there is none."""
        gain = 1.0
        while not self.holds(walls, gain):
            if self._leak(walls, gain) >= self._most * (1 - 3 * ROUNDED):
                return None  # larger noise leaks more
            gain *= _STEP
        if gain == 1.0:
            return gain
        factor = smallest(
            lambda factor: self.holds(walls, 1 / factor),
            _STEP / gain,
            1 / gain,
            tolerance=FINE,
            limit=1 / gain,
        )
        return 1 / factor if factor < math.inf else gain


def _least_factor(keeps: _Keeping, walls: Sequence[Wall]) -> float | None:
    """Return by how much walls must be farther, None where that is not found."""

    def farther(factor: float) -> list[Wall]:
        return [
            Wall(wall.radius * factor, wall.move, wall.count, wall.dimension)
            for wall in walls
        ]

    low, high = 1.0, 2.0
    while keeps.largest(farther(high)) is None:
        low, high = high, 2 * high
        if high > LARGEST_FACTOR:
            return None
    for _ in range(14):
        middle = math.sqrt(low * high)
        if keeps.largest(farther(middle)) is None:
            low = middle
        else:
            high = middle
    return high
