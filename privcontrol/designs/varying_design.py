"""Noise for a plant that varies between the vertices of a region, or without a horizon.

It is drawn again at every sample: filtered for the worst vertices, or white, whichever is
cheaper, and scaled to the budget that is certified for every sequence of vertices.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, ClassVar

import numpy as np

from ..noise.parts import Filtered, NoisePart, White
from ..noise.shift import Shift, certified_shift
from ..numerics.errors import PrivacyError, UncertifiableError
from ..numerics.linalg import float_above
from ..numerics.progress import piece, search_round
from ..privacy.budget import scale_to_budget
from ..regions.region import PlantPolytope, near_shift
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
from .floor_search import beside_some_floor
from .problem import DesignProblem, Filter, Proposal
from .region_design import Size, beside_grid, meeting_budget
from .request import Request

#: Cost relative to its bound up to which noise for one of the plants is good enough.
_CLOSE = 1.25
#: Vertices for which the shape of filtered noise is optimised.
_MOST_SHAPED = 6

_REMEMBERED = (
    "models: no bound for runs of any length is found, since at an extreme of the models "
    "the secret drives a mode that does not decay; the largest one there is {}. "
    "Narrow the models, for identified plants by more samples or known entries, or "
    "protect over a finite horizon with a white floor"
)
_FAR = "models: the plants are too far from one for noise that is designed for that"
_DEARER = "models: noise of this kind costs more than another kind"

#: Parts of noise, each with its least and largest size.
Candidate = tuple[tuple[NoisePart, float, float], ...]
#: Parts of one size, and the shift that they leave.
PartsAndShift = tuple[tuple[NoisePart, ...], float]


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
            return beside_some_floor(problem, size, _near_shift)
        return meeting_budget(problem, size, request.alone, _near_shift)
    except (ValueError, PrivacyError, UncertifiableError):
        return None


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
    return beside_grid(request, parts, Shift(near))


@dataclass(frozen=True, eq=False)
class _Task(ABC):
    """State a request for a plant that varies, with the secret under each vertex."""

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
        """Return noise with its cost and the bounds that are known."""

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

        Optimal noise for levels makes up for their two ends together. Where the plant
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
        """The secret of the worst plants together, and the secret of the nominal plant."""
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

        (parts, _), _, excess = scale_to_budget(evaluated, size)
        if not excess <= 1:
            raise UncertifiableError(
                "models: the noise does not meet its budget when evaluated back; raise "
                "the floor, or narrow the region"
            )
        return self.proposal(parts)

    def shift(self, parts: tuple[NoisePart, ...], largest: float = math.inf) -> float:
        """The certified shift of noise, the sensor's grid included.

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
        grid = request.grid_shift(parts)
        return float_above(found.value + grid)

    def _filtered(
        self, parts: tuple[NoisePart, ...], cost: float, bound: float
    ) -> Proposal:
        """Return noise whose first part is filtered."""
        secret = self.secrets[0].scaled_system
        return Proposal(parts, cost, bound, Filter(secret), cost / bound - 1)


class _OfRun(_Task):
    """Noise of a run, which begins at rest. Its cost is the sum over the samples."""

    is_stationary = False

    def price(self) -> LinearSystem:
        outputs = self.plant.output_count
        try:
            return self.problem.price.of_sample
        except (ValueError, PrivacyError):  # no price of one sample
            return LinearSystem.gain(np.eye(outputs))

    def cost(self, parts: tuple[NoisePart, ...]) -> float:
        problem, horizon = self.problem, self.problem.horizon
        cost = 0.0
        for part in parts:
            cost += problem.price.of_white(np.tile(part.white, horizon))
            if isinstance(part, Filtered):
                responses = part.responses(horizon)
                cost += problem.price.cost(responses.reshape(problem.query.size, -1))
        return cost

    def proposal(self, parts: tuple[NoisePart, ...]) -> Proposal:
        cost = self.cost(parts)
        if isinstance(parts[0], Filtered):
            return self._filtered(parts, cost, math.nan)
        return Proposal(parts, cost)


class _OfAnyLength(_Task):
    """Noise without a horizon. Its cost is the mean cost of a sample."""

    is_stationary = True

    def price(self) -> LinearSystem:
        return self.problem.price.of_sample

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
