"""What every design of output noise starts from, and what it comes to.

A design takes a `DesignProblem` and returns `SizedNoise`: parts of the noise that meet the
budget, with their privacy loss and their cost. `finished` makes output noise with a
guarantee from it. It is the only place where guarantees of designs are made.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core._linalg import real_array
from ..core.design import NoiseDesign, quoted
from ..core.ellipsoid import weight_root
from ..core.guarantee import PrivacyGuarantee, Scope
from ..core.mechanism import Mechanism
from ..core.moves import Moves
from ..core.noise import Noise, family_of
from ..trajectory.manifold import RUN_ASSUMPTIONS
from ..trajectory.plant import Plant
from ..trajectory.powers import seen_states
from ._responses import shift_of_resolution
from .certify import model_clause
from .output_noise import OutputNoise
from .parts import NoisePart

if TYPE_CHECKING:
    from .design import NoiseRequest

NOT_FREE = (
    "anything but a free response of the plant, such as a disturbance during the run"
)

WeightRoot = Callable[[NDArray], NDArray]


@dataclass(frozen=True)
class DesignProblem:
    """A request for a plant, with what designs ask about it again and again.

    ``weight_root`` maps columns B (T p, r) of output noise to H B with H^T H = W, so that
    the squares of its entries add up to the cost.
    """

    plant: Plant
    request: "NoiseRequest"
    query: Any
    weight: object
    weight_root: WeightRoot

    @classmethod
    def of(cls, query: Any, request: "NoiseRequest", weight: object) -> "DesignProblem":
        """The problem of a query about the outputs of a plant."""
        root = weight_root_of(weight, query)
        return cls(query.manifold.plant, request, query, weight, root)

    @property
    def horizon(self) -> int:
        return self.request.horizon

    @property
    def family(self) -> type[Noise]:
        """The law of the noise, whether structured or independent."""
        return family_of(self.request.family.removeprefix("iid-"))

    @cached_property
    def moves(self) -> Moves:
        """The hidden moves under the nominal plant."""
        return self.request.adjacency.moves(self.query.manifold)

    @cached_property
    def plants(self) -> tuple[Plant, ...]:
        """The nominal plant and all models. Moves must be hidden under each of them."""
        return (self.plant, *self.request.models)

    @cached_property
    def allowed(self) -> float:
        """The largest shift that the budget allows to a move."""
        request = self.request
        return self.family.allowed_shift(
            request.budget, request.method, request.releases
        )

    @property
    def floor_std(self) -> NDArray:
        """Standard deviations (p,) of the white floor, zero without one."""
        if self.request.floor is None:
            return np.zeros(len(self.plant.C))
        return self.request.floor

    @cached_property
    def floor(self) -> NDArray:
        """Standard deviations (T p,) of the white floor."""
        return np.tile(self.floor_std, self.horizon)

    @cached_property
    def grid(self) -> float:
        """What the sensor's grid adds to every shift beside the floor."""
        resolution = self.request.resolution
        return shift_of_resolution(resolution, self.floor_std, self.horizon, norm=2)

    def cost(self, columns: NDArray) -> float:
        """tr(W B B^T) of output noise with the factor B (T p, r)."""
        return float(np.sum(self.weight_root(columns) ** 2))

    def white_cost(self, sizes: NDArray, block: int = 256) -> float:
        """tr(W diag(sizes^2)), by blocks of columns."""
        if self.weight is None:
            return float(np.sum(sizes**2))
        total = 0.0
        for start in range(0, len(sizes), block):
            width = min(block, len(sizes) - start)
            columns = self.weight_root(np.eye(len(sizes), width, -start))
            total += float(np.sum((columns * sizes[start : start + width]) ** 2))
        return total


@dataclass(frozen=True)
class SizedNoise:
    """Noise that meets the budget of a problem, and what is known of it."""

    parts: tuple[NoisePart, ...]
    noise: (
        Noise  # the same as a factor for all outputs (T p), for the core's mechanisms
    )
    loss: Any
    cost: float  # tr(W Gamma)
    lower_bound: float = math.nan  # of the cost of such noise, NaN if it is unknown
    attained: NDArray | None = None  # tangent moves (k, s) that attain the loss
    tangent_factor: NDArray | None = None  # S (n, r) of structured noise
    assumptions: tuple[str, ...] = ("A and C exact", *RUN_ASSUMPTIONS)
    caveats: tuple[str, ...] = ()


def finished(problem: DesignProblem, sized: SizedNoise) -> OutputNoise:
    """Output noise with the guarantee that its loss amounts to."""
    request = problem.request
    query = problem.query
    guarantee = guarantee_of(
        query, request, sized.loss, sized.assumptions, sized.caveats
    )
    lower_bound = sized.lower_bound
    if lower_bound > sized.cost:  # by rounding
        lower_bound = sized.cost
    design = NoiseDesign(
        Mechanism(query, sized.noise),
        guarantee,
        sized.cost,
        lower_bound,
        sized.attained,
        sized.tangent_factor,
    )
    return OutputNoise(
        problem.plant,
        problem.horizon,
        problem.family.family,
        sized.parts,
        guarantee,
        design,
        request,
    )


def guarantee_of(
    query: Any,
    request: "NoiseRequest",
    loss: Any,
    assumptions: tuple[str, ...],
    caveats: tuple[str, ...] = (),
) -> PrivacyGuarantee:
    """The guarantee of a loss for what was requested, quoted at the budget's delta."""
    scope = Scope.of(
        request.adjacency,
        query.manifold,
        assumptions=assumptions + request.clauses,
        caveats=caveats,
        models=request.fingerprints(query.manifold.plant),
    )
    return quoted(PrivacyGuarantee(loss, scope), request.budget)


# -- clauses of guarantees ---------------------------------------------------------------


def assumed(problem: DesignProblem, matrices: str = "A and C") -> tuple[str, ...]:
    """What a guarantee takes for granted of the plant, and of the run."""
    count = len(problem.request.models)
    if count:
        return (
            model_clause(count, "the nominal plant or of ", matrices),
            *RUN_ASSUMPTIONS,
        )
    return (f"{matrices} exact", *RUN_ASSUMPTIONS)


def uncovered(
    plant: Plant, horizon: int, factor: NDArray, padded: bool = False
) -> tuple[str, ...]:
    """What structured noise does not cover and the outputs tell."""
    seen = seen_states(plant, horizon)
    noisy = factor.any(axis=1)
    for _ in range(plant.order):
        noisy = noisy | (plant.A != 0)[:, noisy].any(axis=1)
    told = [name for name, bare in zip(plant.states, seen & ~noisy) if bare]
    if np.array_equal(plant.A @ factor, factor):  # one offset for the whole horizon
        told.append("all differences over time")
    outside = "what lies outside the span of the"
    if told:
        what = f"{' and '.join(told)}, which no noise covers and the outputs tell"
        return (NOT_FREE, f"{what} exactly")
    if padded:
        return (
            NOT_FREE,
            f"{outside} protected moves, which the outputs tell almost exactly",
        )
    if factor.shape[1] < np.count_nonzero(seen):
        return (NOT_FREE, f"{outside} noise, which the outputs tell exactly")
    return (NOT_FREE,)


# -- the price of noise ------------------------------------------------------------------


def weight_root_of(weight: Any, query: Any) -> WeightRoot:
    """The map from B to H B with H^T H = W, of an array or of a loop.

    An array of shape (p,) or (p, p) is the price of every sample's outputs.
    """
    horizon = query.manifold.horizon
    if hasattr(weight, "noise_weight"):
        return weight.noise_weight(horizon)
    if weight is None:
        return weight_root(None, query.size)
    outputs = query.size // horizon
    weight = real_array(weight, "weight")
    shape = weight.shape
    if shape not in ((outputs,), (outputs, outputs)):
        if shape == (query.size, query.size):
            return weight_root(weight, query.size)
        raise ValueError(
            f"weight: expected shape ({outputs},) or ({outputs}, {outputs}) for every "
            f"sample alike, or ({query.size}, {query.size}) for all of them, got {shape}"
        )
    prices = np.diag(weight) if len(shape) == 1 else weight
    each = weight_root(prices, outputs)

    def of_every_sample(columns: NDArray) -> NDArray:
        frames = np.reshape(columns, (horizon, outputs, columns.shape[1]))
        frames = frames.swapaxes(0, 1)
        priced = each(frames.reshape(outputs, horizon * columns.shape[1]))
        return priced.reshape(len(priced) * horizon, columns.shape[1])

    return of_every_sample
