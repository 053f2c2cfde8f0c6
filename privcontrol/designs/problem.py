"""The problem that a design of output noise solves, and the proposal that it returns.

A design takes a `DesignProblem` and returns a `Proposal`: parts of the noise, with their
cost and a bound of it. `finished` has them certified and makes output noise of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..core.ball_noise import RADIAL_LAWS
from ..core.manifold import Moves
from ..core.noise import GaussianNoise, Noise, family_of
from ..noise.certify import certify
from ..noise.grid import shift_of_resolution
from ..noise.parts import NoisePart, White
from ..numerics.ellipsoid import Weights
from ..numerics.errors import PrivacyError, UncertifiableError
from ..numerics.thresholds import LARGEST_SIZE
from ..privacy.budget import PrivacyBudget
from ..privacy.loss import PrivacyLoss
from ..secrets.distinguished import distinguished
from ..secrets.secret import NO_NOISE, Responses
from ..secrets.trajectory import PlantQuery
from ..systems.linear import LinearSystem, Plant
from .price import Price, Weight
from .request import Request
from .windowed import Weighted

#: How much faster noise beside a floor has to grow than its excess.
STEEPEST = 4
#: Gap of designs and ellipsoids that are only compared.
GAP_OF_A_TRY = 1e-4


@dataclass
class Rough:
    """The relative gap of designs that a search compares, and where the last one touched.

    Attributes
    ----------
    gap : float
    points : ndarray
        Indices of points that touch the ellipsoid around them.
    units : list of ndarray, shape (q, k)
        Unit vectors whose images by the roots (r, q) of balls touch it. None of them
        before the first design.
    """

    gap: float
    points: NDArray[np.intp] = field(default_factory=lambda: np.arange(0))
    units: Sequence[NDArray[np.float64]] = ()

    def fits(
        self, points: NDArray[np.float64], balls: Sequence[NDArray[np.float64]]
    ) -> bool:
        """Return whether there are as many points (r, M), and balls of such roots (r, q)."""
        in_range = self.points.max(initial=-1) < points.shape[1]
        dimensions = [len(unit) for unit in self.units]
        return in_range and dimensions == [ball.shape[1] for ball in balls]


@dataclass(frozen=True)
class DesignProblem:
    """A request for a plant, which answers the questions that all designs ask."""

    plant: Plant
    request: Request
    weight: Weight = None
    #: For designs that a search only compares. They are not certified.
    rough: Rough | None = None
    #: The weights at which the last dense design for these plants ended.
    begun: Weights = field(default_factory=Weights, compare=False, repr=False)

    @cached_property
    def query(self) -> PlantQuery:
        """From the data to the outputs over the horizon."""
        return self.request.secret.query(self.plant, self.horizon)

    @cached_property
    def price(self) -> Price:
        """The price of the noise."""
        return Price(self.weight, self.plant.output_count, self.request.horizon)

    @property
    def horizon(self) -> int:
        """Number of samples T; a ``ValueError`` for noise without a horizon."""
        return self.request.horizon.count()

    @cached_property
    def family(self) -> type[Noise]:
        """The law of the noise, whether structured or independent.

        Radial noise is shaped and sized as Gaussian noise is.
        """
        return GaussianNoise if self.is_radial else family_of(self.law)

    @property
    def law(self) -> str:
        """The law's name."""
        return self.request.family.removeprefix("iid-")

    @property
    def is_radial(self) -> bool:
        """Return whether all entries of the noise share one length."""
        return self.law in RADIAL_LAWS

    @cached_property
    def hidden(self) -> Moves:
        """The hidden moves under the nominal plant."""
        return self.request.adjacency.moves(self.query.manifold)

    @cached_property
    def moves(self) -> Moves:
        """The same, of no more states than outputs tell where the noise's numbers count.

        Laplace noise keeps the axes of a ball, along which it is certified.
        """
        moves = self.hidden
        is_kept = moves.is_ball and not self.is_radial
        if self.law == "gaussian" or is_kept or self.request.secret.disturbances:
            return moves
        return distinguished(moves, self.plant, self.horizon)

    @property
    def responses(self) -> Responses:
        """The outputs' responses to all hidden moves, of which there must be some."""
        responses = self.request.secret.responses(self.plants, self.horizon)
        if not responses.moved.any():
            raise PrivacyError(NO_NOISE)
        return responses

    @property
    def plants(self) -> tuple[Plant, ...]:
        """The nominal plant and all models. Moves must be hidden under each of them."""
        return self.request.plants(self.plant)

    @property
    def varies(self) -> bool:
        """Return whether one of the plants varies from sample to sample."""
        return any(plant.varies for plant in self.plants)

    @cached_property
    def budget(self) -> PrivacyBudget:
        """The budget of the noise, less the probability that the region misses."""
        return self.request.budget_left

    @cached_property
    def allowed(self) -> float:
        """The largest shift that the budget allows to a move."""
        request = self.request
        shift = self.family.allowed_shift(self.budget, request.releases)
        if not 1 / LARGEST_SIZE < shift < LARGEST_SIZE:
            raise UncertifiableError(
                f"budget: it allows a shift of {shift:.3g}, and double precision cannot "
                "certify noise of that size; pass a budget nearer to one"
            )
        return shift

    @property
    def floor_std(self) -> NDArray[np.float64]:
        """Standard deviations (p,) of the white floor, zero without one."""
        if self.request.floor is None:
            return np.zeros(self.plant.output_count)
        return self.request.floor

    @cached_property
    def floor(self) -> NDArray[np.float64]:
        """Standard deviations (T p,) of the white floor."""
        return np.tile(self.floor_std, self.horizon)

    @cached_property
    def grid(self) -> float:
        """Return the sensor grid's contribution to every shift, next to the floor."""
        resolution = self.request.resolution
        return shift_of_resolution(resolution, self.floor_std, self.horizon, norm=2)

    @cached_property
    def allowed_beside_grid(self) -> float:
        """The shift that is left for the moves when a sensor's grid adds some."""
        if self.grid == 0:
            return self.allowed
        left = float(np.nextafter(self.allowed - self.grid, 0))
        if left > 0.01 * self.allowed:
            return left
        raise PrivacyError(
            f"floor: the sensor's grid alone has a privacy shift of {self.grid:.3g} where "
            f"the budget allows {self.allowed:.3g}; multiply the floor by more "
            f"than {self.grid / self.allowed:.3g}, or pass a finer resolution"
        )

    def certify(self, parts: Sequence[NoisePart]) -> PrivacyLoss:
        """Return the loss of noise for this request."""
        request = self.request
        world = request.world(self.plant)
        return certify(parts, request.adjacency, world, self.law)

    def excess(self, loss: PrivacyLoss) -> float:
        """Return how many times too small noise of a loss is."""
        if self.is_radial:
            return 1.0  # their sizes miss a budget by rounding only
        shift = loss.shift if self.family.shift_norm == 2 else loss.pure
        return shift / self.allowed


@dataclass(frozen=True)
class Filter:
    """Hold the certificate of noise whose first part is a linear system.

    ``secret``, ``weights`` and ``symmetry`` go into the `StationaryDesign` once the noise
    is certified.
    """

    secret: LinearSystem | None = None
    weights: Weighted | None = None
    symmetry: str | None = None


@dataclass(frozen=True)
class Proposal:
    """Noise that a design proposes, and bounds of its cost. It promises nothing.

    ``cost`` is tr(W Gamma), of a sample where there is no horizon, and ``lower_bound`` that
    of any such noise, NaN if it is unknown. ``filter`` is None where the first part is no
    linear system. ``gap`` is the relative distance to the bound of the part of the noise
    that the ``gap`` of a request is about, zero of other noise. ``unit_bound`` is, of noise
    that is not Gaussian, the least cost of Gaussian noise that hides moves with a shift of
    one.
    """

    parts: tuple[NoisePart, ...]
    cost: float
    lower_bound: float = math.nan
    filter: Filter | None = None
    gap: float = 0.0
    unit_bound: float = math.nan

    @classmethod
    def filtered(
        cls, part: NoisePart, cost: float, lower_bound: float, known: Filter
    ) -> Proposal:
        """Return the noise of a linear system, of which the ``gap`` of a request is."""
        return cls((part,), cost, lower_bound, known, cost / lower_bound - 1)

    def bounded(self, bound: float) -> Proposal:
        """Return the same noise with another bound of its cost, if it is below that."""
        return replace(self, lower_bound=bound if bound <= self.cost else math.nan)

    def scaled(self, gain: float) -> Proposal:
        """Return all of the noise ``gain`` times as large, with the bound of its shift."""
        parts = tuple(part.scaled(gain) for part in self.parts)
        cost, bound = self.cost * gain**2, self.lower_bound * gain**2
        return replace(self, parts=parts, cost=cost, lower_bound=bound)

    def grown(self, gain: float) -> Proposal:
        """Return the noise ``gain`` times as large, with a floor that keeps its size."""
        parts = []
        for part in self.parts:
            is_floor = isinstance(part, White) and len(self.parts) > 1
            parts.append(part if is_floor else part.scaled(gain))
        return replace(self, parts=tuple(parts), cost=self.cost * gain**2)
