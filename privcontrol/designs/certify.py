"""Certify what noise promises as it is, for its own plant or for several models.

The noise is drawn from the nominal plant, and the secret's response is the true plant's.
`privcontrol.noise.shift` and the regions say how far it is hidden. Here that becomes a
promise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from numpy.typing import NDArray

from ..core._linalg import round_up
from ..core.adjacency import Adjacency
from ..core.budget import PrivacyBudget
from ..core.design import NoiseDesign
from ..core.errors import PrivacyError
from ..core.guarantee import PrivacyGuarantee, Scope
from ..core.loss import PrivacyLoss, by_kind, composed
from ..core.mechanism import Mechanism
from ..core.noise import family_of
from ..noise.parts import SummedNoise
from ..noise.shift import certified_loss, grid_shift
from ..regions.region import PlantRegion, region_of
from ..secrets.disturbance import query_of
from ..secrets.manifold import RUN_ASSUMPTIONS
from ..systems.linear import Plant
from .request import Models, joined

NoiseT = TypeVar("NoiseT", bound=SummedNoise)

#: How the clauses begin that say what is known of the plant's matrices.
_ABOUT_MATRICES = ("A and C ", "A, B and C ", "A, B, C and D ")


# -- losses of noise as it is ------------------------------------------------------------


def own_loss(noise: SummedNoise) -> PrivacyLoss:
    """Return the loss of noise for its own request, all models included."""
    request = noise.request
    plants = request.plants(noise.plant_data)
    return _loss_under(noise, request.adjacency, plants, request.region)


def _loss_under(
    noise: SummedNoise,
    adjacency: Adjacency,
    plants: Sequence[Plant],
    region: PlantRegion | None,
) -> PrivacyLoss:
    """Return the loss of noise as it is, under several plants or all of a region.

    That the plant may be outside the region is not counted.
    """
    # infinite for noise without a horizon
    horizon = noise.guarantee.scope.horizon or noise.horizon
    if region is None:
        family, resolution = noise.family, _resolution_of(noise)
        return certified_loss(
            noise.parts,
            adjacency,
            plants,
            horizon,
            family=family,
            resolution=resolution,
        )
    if noise.family != "gaussian":
        raise ValueError(
            f"models: a region of plants needs Gaussian noise, got family={noise.family!r}"
        )
    return region.shift(noise.parts, adjacency, horizon).beside_grid(grid_of(noise))


def _resolution_of(noise: SummedNoise) -> NDArray | None:
    return None if noise.request is None else noise.request.resolution


def grid_of(noise: SummedNoise) -> float:
    """Return what the grid of the sensor adds to every shift, zero without any."""
    return grid_shift(
        noise.parts, _resolution_of(noise), noise.horizon, family=noise.family
    )


# -- promises ----------------------------------------------------------------------------


def model_clause(count: int, nominal: str = "", matrices: str = "A and C") -> str:
    """Return the assumption that the plant is one of several."""
    models = "one given model" if count == 1 else f"one of {count} models"
    return f"{matrices} those of {nominal}{models}"


def models_guarantee(
    noise: SummedNoise,
    models: Models,
    *,
    adjacency: Adjacency | Sequence[Adjacency] | None = None,
) -> PrivacyGuarantee:
    """Return what `OutputNoise.guarantee_for` promises.

    For each model and each hidden move, y^2 = s^T Gamma^-1 s with s the model's response to
    its own move and Gamma the covariance of the noise, as it was designed for the nominal
    plant (DPAM Theorem 1).
    """
    adjacency = _adjacency_of(noise, adjacency)
    region = region_of(models)
    plants = []
    if region is None:
        several = models if isinstance(models, (list, tuple)) else [models]
        plants = [Plant.of(model) for model in several]
        if not plants:
            raise ValueError("models: expected at least one plant")
    for plant in plants if region is None else [region.plant_data]:
        plant.check_outputs_of(noise.plant_data, "models")
    loss = _loss_under(noise, adjacency, plants, region)
    scope = _scope_of(noise, adjacency)
    clauses: Sequence[str] = (model_clause(len(plants)),)
    fingerprints = tuple(sorted({plant.fingerprint for plant in plants}))
    if region is not None:
        clauses = region.clauses
        fingerprints = (region.fingerprint,)
    assumptions = [
        clause for clause in scope.assumptions if not clause.startswith(_ABOUT_MATRICES)
    ]
    scope = replace(scope, assumptions=(*clauses, *assumptions), models=fingerprints)
    found = replace(noise.guarantee, loss=loss, scope=scope)
    return found if region is None else with_miss(found, region.miss)


def _adjacency_of(
    noise: SummedNoise, adjacency: Adjacency | Sequence[Adjacency] | None
) -> Adjacency:
    if adjacency is None:
        if noise.request is None:
            raise ValueError(
                "adjacency: this noise records no adjacency; pass adjacency=..."
            )
        return noise.request.adjacency
    return joined(adjacency)


def _scope_of(noise: SummedNoise, adjacency: Adjacency) -> Scope:
    """Return the scope of a promise about an adjacency, its own one if that is it."""
    own = noise.guarantee.scope
    if noise.request is not None and adjacency == noise.request.adjacency:
        return own
    if own.horizon == math.inf:
        raise ValueError(
            "adjacency: noise without a horizon has a guarantee for the secret that it "
            "was designed for; design it for this one"
        )
    clauses = () if noise.request is None else noise.request.clauses
    manifold = query_of(noise.plant_data, noise.horizon, adjacency).manifold
    return Scope.of(adjacency, manifold, assumptions=(*RUN_ASSUMPTIONS, *clauses))


def with_miss(guarantee: PrivacyGuarantee, miss: float) -> PrivacyGuarantee:
    """Add the probability that a region does not hold to the guarantee's delta.

    Where the region does not hold, nothing is promised.
    """
    if not miss:
        return guarantee
    loss = composed(guarantee.loss, PrivacyLoss.black_box(((0.0, miss, 1),)))
    quoted_delta = min(guarantee.quoted_delta + miss, 0.999)
    return replace(guarantee, loss=loss, quoted_delta=quoted_delta)


def _beside_miss(guarantee: PrivacyGuarantee, loss: PrivacyLoss) -> PrivacyLoss:
    """Add the region's miss that a guarantee counts to another loss."""
    for other in by_kind(guarantee.loss)[1:]:
        loss = composed(loss, other)
    return loss


# -- noise that changes ------------------------------------------------------------------


def recertified(noise: NoiseT, gain: float) -> NoiseT:
    """Return noise that was scaled by a gain, with the guarantee that it has now.

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
    loss = _beside_miss(noise.guarantee, own_loss(noise))
    together = loss.repeated(request.releases)
    delta = request.budget.delta if len(by_kind(loss)) > 1 else 0.0
    if delta or noise.family != "gaussian":
        least = float(round_up(together.epsilon(delta), 2))
        allowed = PrivacyBudget(epsilon=max(least, 1e-9), delta=delta)
    else:
        allowed = PrivacyBudget(gdp=together.gdp)
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
    request = replace(request, budget=allowed)
    return replace(
        noise, guarantee=guarantee, design=design, request=request, promised=None
    )


def guarantee_on_grid(noise: SummedNoise, steps: NDArray) -> PrivacyGuarantee:
    """Return the guarantee for readings on a grid that noise was not designed for.

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
    """Return the loss of noise and a grid, None if the noise does not cover it."""
    try:
        grid = grid_shift(noise.parts, steps, noise.horizon, family=noise.family)
    except PrivacyError:
        return None
    own = by_kind(noise.guarantee.loss)[0]
    size = own.gdp if noise.family == "gaussian" else own.epsilon(0.0)
    loss = noise.law.loss_of_size(float(round_up(size + grid, 2)))
    return _beside_miss(noise.guarantee, loss)
