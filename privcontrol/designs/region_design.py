"""Noise for all plants of a box or of a polytope.

For a plant that stays the same, noise is designed for corners of the region, certified for
all of it, and designed again for a smaller budget until that meets the one asked for. For a
plant that varies, and without a horizon, noise is drawn again at every sample. It is
filtered for the worst vertices, or white, whichever is cheaper, and scaled to the budget
that is certified for every sequence of vertices.

The cheapest white floor is searched for as well, for all models and the grid at once. A
large floor costs by itself. A small one leaves much of the budget to what the models and
the sensor's grid add, so the structured part grows. The cost of the best design for a
given floor is convex in the floor's variances, so a search along one factor of all floors
finds the least one, and quadratic models of the cost do where each output has its own.
What a search compares are rough designs; the best floor then gets a sharp one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import combinations, count
from typing import Any, ClassVar

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from ..noise.grid import grid_shift
from ..noise.parts import Correlated, Filtered, NoisePart, White
from ..noise.shift import Shift, certified_shift
from ..numerics.errors import PrivacyError, UncertifiableError
from ..numerics.linalg import float_above, shortened
from ..numerics.progress import piece, search_round
from ..numerics.thresholds import FEW_ROUNDS, ROUNDED, SMALLEST
from ..privacy.budget import PrivacyBudget, scale_to_budget
from ..regions.region import Compared, PlantPolytope, near_shift
from ..secrets.decaying import endless_secret
from ..secrets.modes import growing_mode
from ..secrets.secret import SecretInputs
from ..systems.linear import (
    LinearSystem,
    Plant,
    impulse_energies,
    spectral_radius,
    sum_of,
)
from .endless_design import stationary_design
from .problem import (
    GAP_OF_A_TRY,
    DesignProblem,
    Filter,
    Proposal,
    Rough,
    price_of,
    white_cost,
)
from .request import Request

#: Least and largest power of the budget's shift with which the certified one is taken to grow.
_SLOPES = (0.2, 2.0)
#: Speed: how far a secant step goes, in steps. One that ends a millionth short of the
#: budget costs another design and another bound over the region.
_PAST = 1.01
#: Excess of scaled noise over its budget from which on it is given up.
_HOPELESS = 10.0
#: Cost relative to its bound up to which noise for one of the plants is good enough.
_CLOSE = 1.25
#: Vertices for which the shape of filtered noise is optimised.
_MOST_SHAPED = 6
#: Steps in which a floor is raised until there is noise, in logarithms.
_STEP = math.log(4.0)
_FEW_STEPS, _MOST_STEPS = 3, 40
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

_REMEMBERED = (
    "models: no bound for runs of any length is found, since at an extreme of the models "
    "the secret drives a mode that does not decay; the largest one there is {}. "
    "Narrow the models, for identified plants by more samples or known entries, or "
    "protect over a finite horizon with a white floor"
)
_FAR = "models: the plants are too far from one for noise that is designed for that"
_DEARER = "models: noise of this kind costs more than another kind"

#: Sizes noise for a problem, whose floor is given.
Size = Callable[[DesignProblem], Proposal]
#: Certifies the shift of noise for a region.
ShiftOf = Callable[[Request, Sequence[NoisePart]], float]
#: Parts of noise, each with its least and largest size.
Candidate = tuple[tuple[NoisePart, float, float], ...]
#: Parts of one size, and the shift that they leave.
PartsAndShift = tuple[tuple[NoisePart, ...], float]


# -- plants that stay the same -----------------------------------------------------------


def of_region(problem: DesignProblem, size: Size) -> Proposal:
    """Noise for any one plant of a region.

    ``size`` sizes noise for a problem with a list of plants.

    Raises
    ------
    UncertifiableError
        If no smaller budget makes the certified shift small enough.
    """
    standing = problem.request.standing
    return _meeting_budget(problem, size, standing, shift_in_region)


def _meeting_budget(
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
    return _beside_grid(request, parts, found)


def _beside_grid(request: Request, parts: Sequence[NoisePart], found: Shift) -> float:
    """A shift, and the sensor grid's contribution to it."""
    grid = grid_shift(parts, request.resolution, request.horizon)
    return float(found.beside_grid(grid).gdp)


def scaled_to_region(
    problem: DesignProblem,
    sized: Proposal,
    size: Callable[[DesignProblem], Proposal],
) -> Proposal:
    """Noise that is larger, floor and all, by what it takes to meet the budget.

    Its bound is that of noise with this floor for the plants that represent the region.
    The noise is an exact multiple of what is certified first, so nothing is halved again.
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
    """Noise of a run whose numbers leave room for those of a factor."""
    if isinstance(part, Correlated):
        return replace(part, root=shortened(part.root, 26))
    if isinstance(part, White):
        return replace(part, scale=shortened(part.scale, 26))
    return part


# -- plants that vary --------------------------------------------------------------------


def of_varying_plant(problem: DesignProblem, size: Size) -> Proposal:
    """Noise for every sequence of vertices.

    It is drawn again at every sample, or it is the noise for one plant, made larger until
    it covers the others. That is cheaper where they are close to that one, and nothing
    else is tried then. ``size`` sizes noise for one plant.

    Raises
    ------
    UncertifiableError
        If no noise is certified, with the cause that the last one named.
    """
    best = _near_one(problem, size)
    if best is not None and best.cost <= best.lower_bound * _CLOSE:
        return best
    task = _Task.of(problem)
    refusal: Exception | None = None
    with search_round(0):
        candidates = list(task.candidates())
    pieces = len(candidates) + 1
    for number, candidate in enumerate(candidates, start=1):
        most = math.inf if best is None else best.cost
        try:
            with piece(number, pieces):
                sized = task.meeting(candidate, most)
        except UncertifiableError as error:
            refusal = error
            continue
        if best is None or sized.cost < best.cost:
            best = sized
    if best is None:
        raise refusal or UncertifiableError("models: no noise is certified")
    return best


def _near_one(problem: DesignProblem, size: Size) -> Proposal | None:
    """Noise for one plant that covers all over a run, None where it does not."""
    request = problem.request
    if not isinstance(request.region, PlantPolytope) or not request.horizon.ends:
        return None
    if request.family != "gaussian":
        return None
    try:
        if request.floor is None:
            return _beside_some_floor(problem, size)
        return _meeting_budget(problem, size, request.alone, _near_shift)
    except (ValueError, PrivacyError, UncertifiableError):
        return None


def _beside_some_floor(problem: DesignProblem, size: Size) -> Proposal:
    """Noise for plants that are close to one, with the floor at which it is cheapest."""
    request = problem.request
    allowed = request.allowed_shift

    def excess(sized: Proposal) -> float:
        return _near_shift(request, sized.parts) / allowed

    nominal = replace(problem, request=request.alone)
    largest = np.log(_independent(nominal, size))
    search = _Search(nominal, size, largest + _FIRST, excess, request.gap)
    highest = max(float((largest - search.logs).max()), 0.0) + _ABOVE
    search.along_all(_BELOW, highest, _COARSE)
    sized = search.best

    def evaluated(gain: float) -> tuple[Proposal, float]:
        larger = sized.scaled(gain)
        return larger, excess(larger)

    found, _, left = scale_to_budget(evaluated, excess(sized) * (1 + ROUNDED))
    if not left <= 1:
        raise UncertifiableError(_FAR)
    floor = found.parts[-1].white
    least = size(replace(problem, request=replace(request.alone, floor=floor)))
    return replace(found, lower_bound=min(least.lower_bound, least.cost))


def _near_shift(request: Request, parts: Sequence[NoisePart]) -> float:
    """The shift of noise for plants that are close to one, and the sensor's grid.

    Raises
    ------
    UncertifiableError
        If they are not.
    """
    region: Any = request.region
    near = near_shift(region, parts, request.adjacency, request.horizon)
    if near == math.inf:
        raise UncertifiableError(_FAR)
    return _beside_grid(request, parts, Shift(near))


@dataclass(frozen=True, eq=False)
class _Task(ABC):
    """State what is asked for, with the secret under each plant."""

    problem: DesignProblem
    secrets: tuple[SecretInputs, ...]

    #: Whether the noise has one law at all samples, from the first on.
    is_stationary: ClassVar[bool]

    @staticmethod
    def of(problem: DesignProblem) -> _Task:
        request = problem.request
        kind = _OfRun if request.horizon.ends else _OfAnyLength
        secrets: list[SecretInputs] = []
        if request.region is None:
            for model in problem.plants:
                secrets += request.secret.under([model])
            return kind(problem, tuple(secrets))
        if not problem.plant.order:
            raise ValueError(
                "models: noise that is drawn again at every sample covers a region of "
                "plants with states; for plants without any pass a list of them, such as "
                "models=box.corners(), or a finite horizon"
            )
        vertices = request.region.plants(request.adjacency)
        for vertex, secret in zip(
            vertices, request.secret.under(vertices), strict=True
        ):
            decays = spectral_radius(secret.system) < 1
            if kind is _OfAnyLength and not decays:
                raise UncertifiableError(_REMEMBERED.format(growing_mode(vertex)))
            secrets.append(secret)
        return kind(problem, tuple(secrets))

    @abstractmethod
    def price(self) -> LinearSystem:
        """Return the price of a sample, for which noise is shaped."""

    @abstractmethod
    def cost(self, parts: tuple[NoisePart, ...]) -> float:
        """Return the cost of noise."""

    @abstractmethod
    def proposal(self, parts: tuple[NoisePart, ...]) -> Proposal:
        """Return noise with what is known of it."""

    @property
    def plant(self) -> Plant:
        return self.problem.plant

    @property
    def request(self) -> Request:
        return self.problem.request

    @property
    def allowed(self) -> float:
        """The largest privacy shift that the budget allows."""
        return self.request.allowed_shift

    @cached_property
    def shapes(self) -> list[Proposal]:
        """Filtered noise that is optimal for plants that stay the same, if there is any.

        One is for the worst of them together, and one for the nominal plant alone. The
        bound of the latter's shift is often tighter, since its order is lower.
        """
        return self._optimal_for(*self._representing)

    @cached_property
    def wider(self) -> list[Proposal]:
        """Noise that hides several levels as if they were of any shape.

        What is optimal for levels makes up for their two ends together. Where the plant
        varies between them it does not, so this noise is often the smaller one.
        """
        found = []
        for secret in self._representing:
            if secret.several_apart and any(
                each.longest > 1 for each in secret.signals
            ):
                found += self._optimal_for(secret.in_any_shape)
        return found

    @cached_property
    def _representing(self) -> list[SecretInputs]:
        """The secret of the worst plants together, and that of the nominal one."""
        forgetful = all(spectral_radius(secret.system) < 1 for secret in self.secrets)
        energetic = self.secrets[0].energies is not None
        if energetic or not forgetful or self.request.family != "gaussian":
            return []
        sizes = [impulse_energies(each.scaled_system).max() for each in self.secrets]
        worst = np.argsort(sizes)[::-1][:_MOST_SHAPED]
        systems = [self.secrets[k].system for k in worst]
        together = SecretInputs.side_by_side(
            [self.secrets[k] for k in worst], reduce(sum_of, systems)
        )
        return [together, *self.request.secret.under([self.plant])]

    def _optimal_for(self, *secrets: SecretInputs) -> list[Proposal]:
        price = self.price()
        order, gap = self.request.order, self.request.gap
        designs = []
        for secret in secrets:
            with suppress(ValueError, UncertifiableError):
                found = stationary_design(
                    secret, self.allowed, price, order=order, gap=gap
                )
                designs.append(found)
        return designs

    def candidates(self) -> Iterator[Candidate]:
        """Noise of any size: white, filtered, or with the secret through the plant.

        A floor that was asked for is never smaller than that.
        """
        kept: Candidate = ()
        raised: Candidate = ((White(np.ones(self.plant.output_count)), 0.0, math.inf),)
        if self.request.floor is not None:
            floor = White(self.request.floor)
            kept = ((floor, 1.0, 1.0),)
            raised = ((floor, 1.0, math.inf),)
        yield raised
        if self.request.family != "gaussian":
            return
        energies = self.secrets[0].energies
        if energies is not None and kept:
            nominal = endless_secret(self.request.secret, self.plant)
            sizes = LinearSystem.gain(np.diag(energies / self.allowed))
            driven = Filtered(sizes, nominal.system, self.is_stationary)
            yield ((driven, 0.0, math.inf), *raised)
        for shaped in (*self.shapes, *self.wider):
            (part,) = shaped.parts
            if isinstance(part, Filtered) and part.response is None:
                filtered = replace(part, starts_stationary=self.is_stationary)
                yield ((filtered, 0.0, math.inf), *kept)

    def parts(self, candidate: Candidate, size: float) -> tuple[NoisePart, ...]:
        """The parts of a candidate of some size, as far as each may be scaled."""
        return tuple(
            part.scaled(float(np.clip(size, low, high)))
            for part, low, high in candidate
        )

    def _largest_size(self, candidate: Candidate, most: float) -> float:
        """A size above which a candidate costs more than ``most``."""
        once, doubled = (self.cost(self.parts(candidate, size)) for size in (1.0, 2.0))
        scaled = (doubled - once) / 3
        kept = once - scaled
        if scaled <= 0:
            return math.inf
        return math.sqrt(max(most - kept, 0.0) / scaled)

    def meeting(self, candidate: Candidate, most: float) -> Proposal:
        """The noise of a candidate that meets the budget.

        The shift of noise is inversely proportional to its size, except where a floor
        keeps its own; then the rest is larger still.

        Raises
        ------
        UncertifiableError
            If none is certified that costs at most ``most``.
        """
        largest = self._largest_size(candidate, most)
        shift = self.shift(self.parts(candidate, 1.0), self.allowed * largest)
        size = float_above(shift / self.allowed, 8)
        if size > largest:
            raise UncertifiableError(_DEARER)

        def evaluated(size: float) -> tuple[PartsAndShift, float]:
            parts = self.parts(candidate, size)
            shift = self.shift(parts)
            return (parts, shift), shift / self.allowed

        (parts, _), _, excess = scale_to_budget(
            evaluated, size, largest_excess=_HOPELESS
        )
        if not excess <= 1:
            raise UncertifiableError(
                "models: the noise does not meet its budget when evaluated back; raise "
                "the floor, or narrow the region"
            )
        return self.proposal(parts)

    def shift(self, parts: tuple[NoisePart, ...], largest: float = math.inf) -> float:
        """The certified shift of noise, that of the sensor's grid included.

        One above ``largest`` is of no use, and may be given as inf.
        """
        request = self.request
        first = parts[0]
        enters = first.drive is not None and first.drive[0] is not None
        own = parts if enters else parts[:1]
        if request.region is None:
            plants = request.plants(self.plant)
            found = certified_shift(
                own, request.adjacency, plants, math.inf, largest=largest
            )
        else:
            found = request.region.shift(
                own, request.adjacency, request.horizon, largest=largest
            )
        grid = grid_shift(parts, request.resolution, request.horizon)
        return float_above(found.value + grid)

    def _filtered(
        self, parts: tuple[NoisePart, ...], cost: float, bound: float
    ) -> Proposal:
        """Return noise whose first part is filtered."""
        secret = self.secrets[0].scaled_system
        return Proposal(parts, cost, bound, Filter(secret), cost / bound - 1)


class _OfRun(_Task):
    """Noise of a run, which begins at rest and costs what all samples do."""

    is_stationary = False

    def price(self) -> LinearSystem:
        outputs = self.plant.output_count
        try:
            return price_of(self.problem.weight, outputs)
        except (ValueError, PrivacyError):  # no price of one sample
            return LinearSystem.gain(np.eye(outputs))

    def cost(self, parts: tuple[NoisePart, ...]) -> float:
        problem, horizon = self.problem, self.problem.horizon
        cost = 0.0
        for part in parts:
            cost += white_cost(problem, np.tile(part.white, horizon))
            if isinstance(part, Filtered):
                responses = part.responses(horizon)
                cost += problem.cost(responses.reshape(problem.query.size, -1))
        return cost

    def proposal(self, parts: tuple[NoisePart, ...]) -> Proposal:
        cost = self.cost(parts)
        if isinstance(parts[0], Filtered):
            return self._filtered(parts, cost, math.nan)
        return Proposal(parts, cost)


class _OfAnyLength(_Task):
    """Noise without a horizon, which costs what a sample does."""

    is_stationary = True

    def price(self) -> LinearSystem:
        return price_of(self.problem.weight, self.plant.output_count)

    def cost(self, parts: tuple[NoisePart, ...]) -> float:
        price = self.price()
        models: Any = [part.model for part in parts]
        return sum(
            float(impulse_energies(price.after(model)).sum()) for model in models
        )

    def proposal(self, parts: tuple[NoisePart, ...]) -> Proposal:
        cost = self.cost(parts)
        first, *others = parts
        if isinstance(first, White):
            first = Filtered(LinearSystem.gain(np.diag(first.scale)))
        # every one is a bound, since all of these plants are to be covered
        bounds = [shaped.lower_bound for shaped in self.shapes]
        bound = max(bounds, default=math.nan)
        return self._filtered((first, *others), cost, bound)


# -- the cheapest floor ------------------------------------------------------------------
#
# For a region, noise is designed for the plants that represent it, and scaled together with
# its floor to what the region asks for. So a floor takes one design and one certified bound.


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
        return _beside_grid(request, sized.parts, found) / request.allowed_shift

    with piece(1, 3):
        search = _Search(standing, size, start, excess, request.gap)
        highest = max(float((largest - search.logs).max()), 0.0) + _ABOVE
        search.along_all(_BELOW, highest, _COARSE)
    with piece(2, 3):
        rough = replace(search.rough, gap=ROUNDED)
        sized = search.sharp(rough)
        return scaled_to_region(replace(problem, rough=rough), sized, size)


def _independent(problem: DesignProblem, size: Size) -> NDArray:
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
    logs: NDArray

    def __init__(
        self,
        problem: DesignProblem,
        size: Size,
        start: NDArray,
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
        for tried in range(1, _MOST_STEPS):
            if self._cost(start) < math.inf:
                break
            start = start + _STEP
            if tried == _FEW_STEPS:  # under some model far more noise is needed
                of_all = np.log(_independent(problem, size))
                start = np.maximum(start, of_all + _FIRST)
        else:
            raise self._refusal or UncertifiableError("floor: no floor gives a design")
        self._dear = 1e3 * self._lowest_cost

    def _cost(self, logs: NDArray) -> float:
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

    def _height(self, logs: NDArray) -> float:
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


def _least_of_model(slopes: NDArray, bends: NDArray) -> NDArray:
    """The step (k,) to where slopes (k,) and second derivatives (k, k) have their least.

    Where it bends down, as much is taken to bend up. No step is longer than `_LONGEST`.
    """
    values, axes = np.linalg.eigh(bends)
    along = axes.T @ slopes
    steps = -along / np.maximum(np.abs(values), np.abs(along) / _LONGEST + SMALLEST)
    return axes @ steps
