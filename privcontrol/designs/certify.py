"""Certify what noise promises as it is, for its own plant or for several models.

The noise is drawn from the nominal plant, and the secret's response is the true plant's.
`privcontrol.noise.shift` and the regions say how far it is hidden. Here that becomes a
promise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from numpy.typing import NDArray

from ..core._linalg import round_up
from ..core.adjacency import Adjacency
from ..core.budget import PrivacyBudget
from ..core.design import NoiseDesign
from ..core.errors import PrivacyError
from ..core.guarantee import PrivacyGuarantee, Scope
from ..core.loss import PrivacyLoss, by_kind, composed, family_in_words
from ..core.mechanism import Mechanism
from ..core.noise import family_of
from ..noise.shift import certified_loss, grid_shift
from ..noise.summed import SummedNoise
from ..regions.region import PlantRegion, region_of
from ..secrets.disturbance import query_of
from ..secrets.manifold import RUN_ASSUMPTIONS
from ..systems.plant import Plant

NoiseT = TypeVar("NoiseT", bound=SummedNoise)

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
    plant (DPAM Theorem 1).
    """
    adjacency = _adjacency_of(noise, adjacency)
    region = region_of(models)
    if region is not None:
        region.plant_data.check_outputs_of(noise.plant_data, "models")
        loss = region_loss(noise, region, adjacency)
        found = _guarantee(
            noise, loss, adjacency, (region.fingerprint,), region.clauses
        )
        return with_miss(found, region.miss)
    if not isinstance(models, (list, tuple)):
        models = [models]
    plants = [Plant.of(model) for model in models]
    if not plants:
        raise ValueError("models: expected at least one plant")
    for plant in plants:
        plant.check_outputs_of(noise.plant_data, "models")
    loss = _loss_under(noise, plants, adjacency)
    fingerprints = tuple(sorted({plant.fingerprint for plant in plants}))
    return _guarantee(
        noise, loss, adjacency, fingerprints, (model_clause(len(plants)),)
    )


def region_loss(
    noise: SummedNoise, region: PlantRegion, adjacency: Adjacency
) -> PrivacyLoss:
    """The privacy loss of noise as it is, for all plants of a region.

    That the plant may be outside is not counted.
    """
    if noise.family != "gaussian":
        raise ValueError(
            f"models: a region of plants needs Gaussian noise, got family={noise.family!r}"
        )
    shift = region.shift(noise.parts, adjacency, _horizon_of(noise))
    return shift.beside_grid(grid_of(noise))


def _loss_under(
    noise: SummedNoise, plants: Sequence[Plant], adjacency: Adjacency
) -> PrivacyLoss:
    """The privacy loss of noise as it is, under each of several plants."""
    return certified_loss(
        noise.parts,
        adjacency,
        plants,
        _horizon_of(noise),
        family=noise.family,
        resolution=_resolution_of(noise),
    )


def _resolution_of(noise: SummedNoise) -> NDArray | None:
    return None if noise.request is None else noise.request.resolution


def grid_of(noise: SummedNoise) -> float:
    """What the grid of the sensor adds to every shift, zero without any."""
    return grid_shift(
        noise.parts, _resolution_of(noise), noise.horizon, family=noise.family
    )


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
    for other in by_kind(noise.guarantee.loss)[1:]:  # a region that may miss the plant
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
    if family_in_words(loss) == "Gaussian":
        return PrivacyBudget(gdp=together.gdp)
    return PrivacyBudget(epsilon=float(round_up(together.epsilon(0.0), 2)))


def own_loss(noise: SummedNoise) -> PrivacyLoss:
    """The loss of noise for its own request, all models included."""
    request = noise.request
    if request.region is not None:
        return region_loss(noise, request.region, request.adjacency)
    return _loss_under(noise, request.plants(noise.plant_data), request.adjacency)


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
    own, *others = by_kind(noise.guarantee.loss)
    loss: PrivacyLoss
    if noise.family == "gaussian":
        try:
            grid = grid_shift(noise.parts, steps, noise.horizon)
        except PrivacyError:
            return None
        loss = PrivacyLoss.gaussian(float(round_up(own.gdp + grid, 2)), (), False)
    elif noise.total.white.all():
        grid = grid_shift(noise.parts, steps, noise.horizon, family=noise.family)
        shift = float(round_up(own.epsilon(0.0) + grid, 2))
        loss = family_of(noise.family).loss_of_size(shift)
    else:
        return None
    for other in others:  # a region that may miss the plant
        loss = composed(loss, other)
    return loss
