"""Certify what noise promises as it is, for its own plant or for several models.

The noise is drawn from the nominal plant, and the secret's response is the true plant's.
What leaves the column space of structured noise is published, unless there is a white
floor. Whether it leaves is decided in rational numbers, and sizes are certified in ball
arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import control as ct
import numpy as np
from numpy.typing import NDArray

from ..core._linalg import round_up
from ..core.adjacency import Adjacency
from ..core.budget import PrivacyBudget
from ..core.design import NoiseDesign
from ..core.errors import NotRealizableError, PrivacyError, UncertifiableError
from ..core.guarantee import PrivacyGuarantee, Scope
from ..core.loss import PrivacyLoss, composed
from ..core.mechanism import Mechanism
from ..core.noise import family_of
from ..noise._responses import (
    dense_root,
    laplace_loss,
    shift_of_resolution,
    shift_sizes,
)
from ..noise.parts import Driven, NoisePart, Structured, White
from ..noise.summed import SummedNoise
from ..regions.boxes import PlantBox, largest_shift
from ..regions.identified import IdentifiedPlant
from ..regions.polytope import PlantPolytope
from ..regions.varying import VaryingProblem
from ..secrets._forms import LEAVES, NoiseForm, laplace_shifts, window_squares
from ..secrets.disturbance import (
    DisturbanceAdjacency,
    disturbances,
    query_of,
)
from ..secrets.manifold import RUN_ASSUMPTIONS, trajectory_manifold
from ..secrets.secret import all_responses
from ..systems.gain import system_gain
from ..systems.linear import LinearSystem
from ..systems.plant import Plant

NoiseT = TypeVar("NoiseT", bound=SummedNoise)

#: Factor between a bound and what some plant attains up to which no other bound is tried.
#: The second one is for boxes of so many entries that the other bound is for a region
#: much wider than the box.
_CLOSE = 1.1
_POOR = 10.0

#: How the clauses begin that say what is known of the plant's matrices.
_ABOUT_MATRICES = ("A and C ", "A, B and C ", "A, B, C and D ")


def model_clause(count: int, nominal: str = "", matrices: str = "A and C") -> str:
    """The assumption that the plant is one of several."""
    models = "one given model" if count == 1 else f"one of {count} models"
    return f"{matrices} those of {nominal}{models}"


def models_guarantee(
    noise: SummedNoise, models: Any, *, adjacency: Adjacency | None = None
) -> PrivacyGuarantee:
    """`OutputNoise.guarantee_for`.

    For each model and each hidden move, y^2 = s^T Gamma^-1 s with s the model's response to
    its own move and Gamma the covariance of the noise, as it was designed for the nominal
    plant (DPAM Theorem 1). It is computed with n x n matrices in ball arithmetic, for any
    horizon.
    """
    if isinstance(models, IdentifiedPlant):
        models = models.box
    adjacency = _adjacency_of(noise, adjacency)
    if isinstance(models, (PlantBox, PlantPolytope)):
        models.plant_data.check_outputs_of(noise.plant_data, "models")
        loss = region_loss(noise, models, adjacency)
        found = _guarantee(
            noise, loss, adjacency, (models.fingerprint,), models.clauses
        )
        return with_miss(found, models.miss)
    if not isinstance(models, (list, tuple)):
        models = [models]
    plants = [Plant.of(model) for model in models]
    if not plants:
        raise ValueError("models: expected at least one plant")
    for plant in plants:
        plant.check_outputs_of(noise.plant_data, "models")
    loss = certified_loss(noise, plants, adjacency)
    fingerprints = tuple(sorted({plant.fingerprint for plant in plants}))
    return _guarantee(
        noise, loss, adjacency, fingerprints, (model_clause(len(plants)),)
    )


def region_loss(
    noise: SummedNoise, region: PlantBox | PlantPolytope, adjacency: Adjacency
) -> PrivacyLoss:
    """The privacy loss of noise as it is, for all plants of a box or of a polytope.

    A plant that stays the same is one that may vary, and one of the smallest box around
    the polytope. The best bound is taken. That the plant may be outside is not counted.
    """
    horizon = _horizon_of(noise)
    vertices = region.plants(adjacency)
    bounds = []
    refusals: list[Exception] = []
    is_close = False
    if not region.varying and horizon != math.inf:
        if isinstance(region, PlantBox):
            box = region
        else:
            box = PlantBox.containing(region)
        try:
            bound, attained = largest_shift(noise, box, adjacency)
            bounds.append(bound)
            corners = 2 ** len(box.entries_for(adjacency))
            limit = _CLOSE if len(vertices) == corners else _POOR
            is_close = box is region and bound <= limit * attained
        except (ValueError, UncertifiableError) as error:
            refusals.append(error)
    if not is_close:
        try:
            problem = VaryingProblem.of(noise, vertices, adjacency)
            bounds.append(problem.shift(horizon))
        except (ValueError, UncertifiableError) as error:
            refusals.append(error)
    if not bounds:
        raise refusals[0]
    return _with_grid(noise, PrivacyLoss.gaussian(min(bounds), (), False))


def with_miss(guarantee: PrivacyGuarantee, miss: float) -> PrivacyGuarantee:
    """A guarantee for a region, with the probability that it does not hold in delta.

    Where the region does not hold, nothing is promised.
    """
    if not miss:
        return guarantee
    loss = composed(guarantee.loss, PrivacyLoss.black_box(((0.0, miss, 1),)))
    quoted_delta = min(guarantee.quoted_delta + miss, 0.999)
    return replace(guarantee, loss=loss, quoted_delta=quoted_delta)


def _horizon_of(noise: SummedNoise) -> float:
    """Samples that the guarantee covers, infinite for noise without a horizon."""
    horizon = noise.guarantee.scope.horizon
    return noise.horizon if horizon is None else horizon


def _adjacency_of(noise: SummedNoise, adjacency: Adjacency | None) -> Adjacency:
    if adjacency is None:
        if noise.request is None:
            raise ValueError(
                "adjacency: this noise records no adjacency; pass adjacency=..."
            )
        return noise.request.adjacency
    if not isinstance(adjacency, Adjacency):
        raise TypeError(
            "adjacency: expected an Adjacency such as StateAdjacency, "
            f"got {type(adjacency).__name__}"
        )
    return adjacency


def _guarantee(
    noise: SummedNoise,
    loss: Any,
    adjacency: Adjacency,
    fingerprints: tuple[str, ...],
    of_models: tuple[str, ...],
) -> PrivacyGuarantee:
    old = noise.guarantee
    if noise.request is not None and adjacency == noise.request.adjacency:
        kept = [
            clause
            for clause in old.scope.assumptions
            if not clause.startswith(_ABOUT_MATRICES)
        ]
        assumptions = (*of_models, *kept)
        scope = replace(old.scope, assumptions=assumptions, models=fingerprints)
        return replace(old, loss=loss, scope=scope)
    if old.scope.horizon == math.inf:
        raise ValueError(
            "adjacency: noise without a horizon has a guarantee for the secret that it "
            "was designed for; design it for this one"
        )
    clauses = () if noise.request is None else noise.request.clauses
    assumptions = (*of_models, *RUN_ASSUMPTIONS, *clauses)
    manifold = query_of(noise.plant_data, noise.horizon, adjacency).manifold
    scope = Scope.of(adjacency, manifold, assumptions=assumptions, models=fingerprints)
    return PrivacyGuarantee(loss, scope, 1, old.quoted_delta)


def recertified(noise: NoiseT, gain: float) -> NoiseT:
    """Noise that was scaled by a gain, with the guarantee that it has now.

    Its design keeps the certificate: cost and bound grow with the square of the gain.
    """
    request = noise.request
    if request is None:
        raise ValueError("this noise records no adjacency; design it again")
    old = noise.design
    if not isinstance(old, NoiseDesign):
        raise ValueError(
            "with_std: filtered noise is not scaled here; the standard deviation is "
            "inversely proportional to the gdp of a budget, so design for "
            "PrivacyBudget(gdp=...)"
        )
    loss = own_loss(noise)
    allowed = _budget_of(loss, request.releases)
    for other in noise.guarantee.loss.parts[1:]:  # a region that may miss the plant
        loss = composed(loss, other)
        delta = request.budget.delta
        least = loss.repeated(request.releases).epsilon(delta)
        allowed = PrivacyBudget(epsilon=max(least, 1e-9), delta=delta)
    request = replace(request, budget=allowed)
    guarantee = replace(noise.guarantee, loss=loss)
    tangent_factor = old.tangent_factor
    if tangent_factor is not None:
        tangent_factor = tangent_factor * gain
    scaled = family_of(noise.family)(old.mechanism.noise.factor * gain)
    design = replace(
        old,
        mechanism=Mechanism(old.mechanism.query, scaled),
        guarantee=guarantee,
        cost=old.cost * gain**2,
        lower_bound=old.lower_bound * gain**2,
        tangent_factor=tangent_factor,
    )
    return replace(
        noise, guarantee=guarantee, design=design, request=request, promised=None
    )


def _budget_of(loss: Any, releases: int) -> PrivacyBudget:
    """The budget that so many releases of a loss just meet."""
    together = loss.repeated(releases)
    if loss.family == "Gaussian":
        return PrivacyBudget(gdp=together.gdp)
    return PrivacyBudget(epsilon=float(round_up(together.epsilon(0.0), 2)))


def own_loss(noise: SummedNoise) -> PrivacyLoss:
    """The loss of noise for its own request, all models included."""
    request = noise.request
    if request.region is not None:
        return region_loss(noise, request.region, request.adjacency)
    plants = request.plants(noise.plant_data)
    if noise.family == "laplace" and noise.part(White):
        return laplace_loss(
            request.adjacency, plants, noise.horizon, noise.white, request.resolution
        )
    return certified_loss(noise, plants, request.adjacency)


# -- losses ------------------------------------------------------------------------------


def certified_loss(
    noise: SummedNoise, plants: Sequence[Plant], adjacency: Adjacency
) -> Any:
    """The privacy loss of noise as it is, under each of several plants."""
    if noise.family == "laplace":
        if noise.part(Structured) is None:
            raise ValueError(
                "models: independent Laplace noise is not specific to a model; redesign "
                "with models=[...]"
            )
        return structured_loss(noise.form, plants, adjacency, noise.family)
    if noise.guarantee.scope.horizon == math.inf:
        shifts = [
            VaryingProblem.of(noise, [plant], adjacency).shift(math.inf)
            for plant in plants
        ]
        return _with_grid(noise, PrivacyLoss.gaussian(max(shifts), (), False))
    found = _under_all(plants, lambda plant: squares_of(noise, plant, adjacency))
    return _with_grid(noise, _loss_of_squares(*found))


def _under_all(
    plants: Sequence[Plant], squares_of: Callable[[Plant], tuple[NDArray, bool]]
) -> tuple[NDArray, bool]:
    """Bounds of y^2 of all moves under each of several plants, and whether attained."""
    found = [squares_of(plant) for plant in plants]
    squares = np.concatenate([squares for squares, _ in found])
    return squares, all(exact for _, exact in found)


def _loss_of_squares(squares: NDArray, exact: bool) -> PrivacyLoss:
    return PrivacyLoss.gaussian(float(round_up(np.sqrt(squares.max()))), (), exact)


def resolution_shift(noise: SummedNoise) -> float:
    """What the grid of the sensor adds to every shift, zero without any."""
    request = noise.request
    if request is None or request.resolution is None:
        return 0.0
    if noise.family == "laplace":
        return shift_of_resolution(request.resolution, noise.white, noise.horizon, 1)
    return grid_shift(noise.parts, request.resolution, noise.horizon)


def grid_shift(parts: Sequence[NoisePart], resolution: NDArray, horizon: int) -> float:
    """What a sensor's grid adds to the shift of Gaussian noise at most.

    Two readings differ by up to a step h_i more than the outputs do, at each of T samples.
    Beside a white floor f that is at most the root of the sum of (h_i / f_i)^2. Filtered
    noise M nu leaves at most sqrt(T p) times the largest gain of M^-1 diag(h). Of several
    parts the smallest bound holds.

    Raises
    ------
    PrivacyError
        If no part is drawn again at every output and sample.
    """
    bounds = []
    white = np.sqrt(sum(part.white**2 for part in parts))
    if white.all():
        bounds.append(shift_of_resolution(resolution, white, horizon, 2))
    for part in parts:
        if part.square is not None and not isinstance(part, White):
            left = part.square.inverse().after(LinearSystem.gain(np.diag(resolution)))
            system = ct.ss(left.A, left.B, left.C, left.D, True)
            count = horizon * len(resolution)
            gain = float(system_gain(system)) * math.sqrt(count)
            bounds.append(float(round_up(gain * (1 + 1e-9))))
    if not bounds:
        raise PrivacyError(
            "resolution: readings on a grid need noise that is drawn again at every "
            "output and sample; add a white floor (floor=...)"
        )
    return min(bounds)


def guarantee_on_grid(noise: SummedNoise, steps: NDArray) -> PrivacyGuarantee:
    """The guarantee of noise for readings on a grid that it was not designed for.

    Noise that does not cover a full step at every output and sample keeps its promise for
    a sensor that does not round, and the guarantee says so.
    """
    promise = noise.guarantee
    scope = promise.scope
    grid = ", ".join(f"{step:g}" for step in steps)
    loss = None
    if scope.horizon == noise.horizon and noise.horizon != math.inf:
        loss = _loss_on_grid(noise, steps)
    if loss is None:
        scope = replace(
            scope,
            assumptions=(*scope.assumptions, "readings that were not rounded"),
            caveats=(*scope.caveats, f"what readings on a grid of {grid} tell besides"),
        )
        return replace(promise, scope=scope)
    assumptions = (*scope.assumptions, f"readings on a grid of {grid}")
    return replace(promise, loss=loss, scope=replace(scope, assumptions=assumptions))


def _loss_on_grid(noise: SummedNoise, steps: NDArray) -> PrivacyLoss | None:
    """The loss of noise and a grid together, None if the noise does not cover the grid."""
    own, *others = noise.guarantee.loss.parts
    loss: PrivacyLoss
    if noise.family == "gaussian":
        try:
            grid = grid_shift(noise.parts, steps, noise.horizon)
        except PrivacyError:
            return None
        loss = PrivacyLoss.gaussian(float(round_up(own.gdp + grid, 2)), (), False)
    elif noise.white.all():
        grid = shift_of_resolution(steps, noise.white, noise.horizon, 1)
        shift = float(round_up(own.epsilon(0.0) + grid, 2))
        loss = family_of(noise.family).loss_of_size(shift)
    else:
        return None
    for other in others:  # a region that may miss the plant
        loss = composed(loss, other)
    return loss


def _with_grid(noise: SummedNoise, loss: PrivacyLoss) -> PrivacyLoss:
    grid = resolution_shift(noise)
    if grid == 0:
        return loss
    return PrivacyLoss.gaussian(float(round_up(loss.gdp + grid)), (), False)


def squares_under_all(
    form: NoiseForm, plants: Sequence[Plant], adjacency: Adjacency
) -> tuple[NDArray, bool]:
    """Return certified y^2 of secrets about states, and whether they are attained."""
    every = []
    exact = True
    for plant in plants:
        manifold = trajectory_manifold(plant, form.horizon)
        for part in adjacency.parts:
            every.append(window_squares([form], part, manifold))
            exact &= part.moves(manifold).exact
    return np.concatenate(every), exact


def structured_loss(
    form: NoiseForm, plants: Sequence[Plant], adjacency: Adjacency, family: str
) -> Any:
    """Return the loss of structured noise under each of several plants."""
    if family == "gaussian":
        return _loss_of_squares(*squares_under_all(form, plants, adjacency))
    every = []
    for plant in plants:
        manifold = trajectory_manifold(plant, form.horizon)
        for part in adjacency.parts:
            every.append(laplace_shifts(form, part, manifold))
    return PrivacyLoss.laplace(np.hstack(every), exact=False)


def squares_of(
    noise: SummedNoise, plant: Plant, adjacency: Adjacency
) -> tuple[NDArray, bool]:
    """Upper bounds of y^2 of the moves under a plant, and whether they are attained."""
    if noise.consists_of(Structured, White) and not disturbances(adjacency):
        return squares_under_all(noise.form, [plant], adjacency)
    driven = noise.part(Driven)
    if driven is not None and len(noise.parts) == 1:
        shift = _driven_shift(driven, plant, adjacency)
        if shift is not None:
            return np.array([shift**2 * (1 + 1e-15)]), False
    root, error_bound = dense_root(noise)
    if root is None:
        raise NotRealizableError(LEAVES.format(name=plant.name))
    responses = all_responses(adjacency, plant, noise.horizon)
    sizes = shift_sizes(root, responses) * (1 + error_bound)
    return sizes**2 * (1 + 1e-15), responses.exact


def _driven_shift(part: Driven, plant: Plant, adjacency: Adjacency) -> float | None:
    """The largest shift of the entries of driven noise, for any zeros of the plant.

    A change dw of the signal that drives the noise is a shift of eta by dw / sizes. Where
    several enter alike, the variances of the noise add up, and so do the squared radii of
    one ball. None if the plant is another one, or other signals change.
    """
    same_A = np.array_equal(plant.A, part.response.A)
    same_C = np.array_equal(plant.C, part.response.C)
    if not (same_A and same_C):
        return None
    if not isinstance(adjacency, DisturbanceAdjacency) or adjacency.events > 1:
        return None
    variances: dict[bytes, float] = {}
    for column, size in zip(_columns(part.response), part.sizes):
        variances[column] = variances.get(column, 0.0) + size**2
    squares: dict[bytes, float] = {}
    radii = adjacency.radii(plant)
    for column, radius in zip(_columns(adjacency.system(plant)), radii):
        if column not in variances:
            return None
        together = squares.get(column, 0.0)
        if adjacency.norm == "l2":
            squares[column] = together + radius**2
        else:
            squares[column] = max(together, radius**2)
    worst = max(squares[column] / variances[column] for column in squares)
    longest = max(np.linalg.norm(shape) for shape in adjacency.shapes)
    return float(round_up(math.sqrt(worst) * longest * (1 + 1e-14), 2))


def _columns(system: LinearSystem) -> list[bytes]:
    """Bytes for each input, which are equal for inputs that enter alike."""
    columns = np.vstack([system.B, system.D]).T + 0.0  # makes zeros positive
    return [column.tobytes() for column in columns]
