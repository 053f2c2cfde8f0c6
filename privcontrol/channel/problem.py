"""What every design of output noise starts from, and what it comes to.

A design takes a `DesignProblem` and returns `SizedNoise`: parts of the noise that meet the
budget, with their privacy loss and their cost. `DesignProblem.finished` makes output noise
with a guarantee from it. It is the only place where guarantees of designs are made.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._linalg import real_array
from ..core.design import NoiseDesign, quoted
from ..core.ellipsoid import weight_root
from ..core.errors import PrivacyError
from ..core.guarantee import PrivacyGuarantee, Scope
from ..core.loss import PrivacyLoss
from ..core.mechanism import Mechanism
from ..core.moves import Moves
from ..core.noise import Noise, family_of
from ..trajectory.disturbance import PlantQuery, query_of
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


class Pricing(Protocol):
    """Something that prices output noise, such as a `PrivateLoop`."""

    def noise_weight(self, horizon: float) -> Any:
        """The map of `weight_root_of`, without a horizon a `LinearSystem`."""


@dataclass(frozen=True)
class DesignProblem:
    """A request for a plant, with what designs ask about it again and again.

    ``weight_root`` maps columns B (T p, r) of output noise to H B with H^T H = W, so that
    the squares of its entries add up to the cost.
    """

    plant: Plant
    request: "NoiseRequest"
    query: PlantQuery
    weight: ArrayLike | Pricing | None
    weight_root: WeightRoot

    @classmethod
    def of(
        cls,
        plant: Plant,
        request: "NoiseRequest",
        weight: ArrayLike | Pricing | None,
    ) -> "DesignProblem":
        """The problem of a request with a horizon."""
        query = query_of(plant, request.horizon, request.adjacency)
        root = weight_root_of(weight, len(plant.C), request.horizon)
        return cls(plant, request, query, weight, root)

    @property
    def horizon(self) -> int:
        return self.request.horizon

    @cached_property
    def family(self) -> type[Noise]:
        """The law of the noise, whether structured or independent."""
        return family_of(self.request.family.removeprefix("iid-"))

    @cached_property
    def moves(self) -> Moves:
        """The hidden moves under the nominal plant."""
        return self.request.adjacency.moves(self.query.manifold)

    @property
    def plants(self) -> tuple[Plant, ...]:
        """The nominal plant and all models. Moves must be hidden under each of them."""
        return self.request.plants(self.plant)

    @cached_property
    def allowed(self) -> float:
        """The largest shift that the budget allows to a move."""
        request = self.request
        return self.family.allowed_shift(request.budget, request.releases)

    def size_for(self, loss: PrivacyLoss) -> float:
        """How many times larger noise of a loss is to be, so that it meets the budget."""
        shift = loss.gdp if self.family.shift_norm == 2 else loss.pure
        return shift / self.allowed

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
            f"the budget allows {self.allowed:.3g}; raise the floor to several times "
            f"{self.grid / self.allowed:.3g} of its size, or pass a finer resolution"
        )

    def cost(self, columns: NDArray) -> float:
        """tr(W B B^T) of output noise with the factor B (T p, r)."""
        return float(np.sum(self.weight_root(columns) ** 2))

    def white_cost(self, sizes: NDArray, block: int = 256) -> float:
        """tr(W diag(sizes^2)), by blocks of columns."""
        if self.weight is None:
            return float(np.sum(sizes**2))
        total = 0.0
        for start in range(0, len(sizes), block):
            own = sizes[start : start + block]
            units = np.eye(len(sizes), len(own), -start)
            columns = self.weight_root(units)
            total += float(np.sum((columns * own) ** 2))
        return total

    def finished(self, sized: "SizedNoise") -> OutputNoise:
        """Output noise with the guarantee that its loss amounts to."""
        guarantee = guarantee_of(
            self.query.manifold,
            self.request,
            sized.loss,
            sized.assumptions,
            sized.caveats,
        )
        lower_bound = sized.lower_bound
        if lower_bound > sized.cost:  # by rounding
            lower_bound = sized.cost
        design = NoiseDesign(
            Mechanism(self.query, sized.noise),
            guarantee,
            sized.cost,
            lower_bound,
            sized.attained,
            sized.tangent_factor,
        )
        return OutputNoise(
            self.plant,
            self.horizon,
            self.family.family,
            sized.parts,
            guarantee,
            design,
            self.request,
        )


@dataclass(frozen=True)
class SizedNoise:
    """Noise that meets the budget of a problem, and what is known of it.

    ``noise`` is the same as ``parts``, for the core's mechanisms: a factor for all outputs
    (T p). ``cost`` is tr(W Gamma), and ``lower_bound`` that of any such noise, NaN if it
    is unknown. ``attained`` are tangent moves (k, s) that attain the loss, and
    ``tangent_factor`` is S (n, r) of structured noise.
    """

    parts: tuple[NoisePart, ...]
    noise: Noise
    loss: PrivacyLoss
    cost: float
    lower_bound: float = math.nan
    attained: NDArray | None = None
    tangent_factor: NDArray | None = None
    assumptions: tuple[str, ...] = ("A and C exact", *RUN_ASSUMPTIONS)
    caveats: tuple[str, ...] = ()


class PlantData(Protocol):
    """The data of a plant's run, such as a `TrajectoryManifold`."""

    @property
    def plant(self) -> Plant: ...

    @property
    def horizon(self) -> float: ...


def guarantee_of(
    data: PlantData,
    request: "NoiseRequest",
    loss: PrivacyLoss,
    assumptions: tuple[str, ...],
    caveats: tuple[str, ...] = (),
) -> PrivacyGuarantee:
    """The guarantee of a loss for what was requested, quoted at the budget's delta."""
    scope = Scope.of(
        request.adjacency,
        data,
        assumptions=assumptions + request.clauses,
        caveats=caveats,
        models=request.fingerprints(data.plant),
    )
    return quoted(PrivacyGuarantee(loss, scope), request.budget)


# -- clauses of guarantees ---------------------------------------------------------------


def assumed(problem: DesignProblem, matrices: str = "A and C") -> tuple[str, ...]:
    """What a guarantee takes for granted of the plant, and of the run."""
    clause = f"{matrices} exact"
    count = len(problem.request.models)
    if count:
        clause = model_clause(count, "the nominal plant or of ", matrices)
    return (clause, *RUN_ASSUMPTIONS)


def uncovered(
    plant: Plant, horizon: int, factor: NDArray, padded: bool = False
) -> tuple[str, ...]:
    """What structured noise does not cover and the outputs tell."""
    seen = seen_states(plant, horizon)
    noisy = factor.any(axis=1)
    for _ in range(plant.order):
        noisy = noisy | (plant.A != 0)[:, noisy].any(axis=1)
    told = [plant.states[k] for k in np.flatnonzero(seen & ~noisy)]
    if np.array_equal(plant.A @ factor, factor):  # one offset for the whole horizon
        told.append("all differences over time")
    if told:
        what = (
            f"{' and '.join(told)}, which no noise covers and the outputs tell exactly"
        )
    elif padded:
        what = (
            "what lies outside the span of the protected moves, which the outputs tell "
            "almost exactly"
        )
    elif factor.shape[1] < np.count_nonzero(seen):
        what = "what lies outside the span of the noise, which the outputs tell exactly"
    else:
        return (NOT_FREE,)
    return (NOT_FREE, what)


# -- the price of noise ------------------------------------------------------------------


def weight_root_of(weight: Any, outputs: int, horizon: int) -> WeightRoot:
    """The map from B (T p, r) to H B with H^T H = W, of an array or of a loop.

    An array of shape (p,) or (p, p) is the price of every sample's outputs.
    """
    size = horizon * outputs
    if hasattr(weight, "noise_weight"):
        return weight.noise_weight(horizon)
    if weight is None:
        return weight_root(None, size)
    prices = real_array(weight, "weight")
    if prices.shape == (outputs,):
        prices = np.diag(prices)
    elif prices.shape == (size, size) and horizon > 1:
        return weight_root(prices, size)
    elif prices.shape != (outputs, outputs):
        raise ValueError(
            f"weight: expected shape ({outputs},) or ({outputs}, {outputs}) for every "
            f"sample alike, or ({size}, {size}) for all of them, got {prices.shape}"
        )
    of_one_sample = weight_root(prices, outputs)

    def of_every_sample(columns: NDArray) -> NDArray:
        _, count = columns.shape
        frames = columns.reshape(horizon, outputs, count)
        by_output = frames.swapaxes(0, 1)
        priced = of_one_sample(by_output.reshape(outputs, horizon * count))
        return priced.reshape(len(priced) * horizon, count)

    return of_every_sample
