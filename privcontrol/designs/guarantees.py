"""Guarantees of output noise as it is: for other plants, secrets and sensors.

The noise stays, and `privcontrol.noise.certify` says what it is worth where something else is
known than when it was designed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import control as ct
import numpy as np
from numpy.typing import NDArray

from ..core.adjacency import Adjacency
from ..core.noise import family_of
from ..noise.certify import NO_BOUND, World, certify
from ..noise.grid import grid_shift
from ..noise.process import SummedNoise
from ..numerics.errors import PrivacyError
from ..numerics.linalg import float_above
from ..privacy.guarantee import ON_GRID, PrivacyGuarantee, Scope
from ..privacy.horizon import Horizon, horizon_of
from ..privacy.loss import (
    BLACK_BOX,
    GAUSSIAN,
    RADIAL,
    PrivacyLoss,
    by_kind,
    composed,
)
from ..regions.region import region_of
from ..secrets.secrets import Secrets
from ..secrets.trajectory import RUN_ASSUMPTIONS
from ..systems.varying import plant_of
from .request import Models, joined

#: How the clauses begin that say what is known of the plant's matrices.
_ABOUT_MATRICES = ("A and C ", "A, B and C ", "A, B, C and D ")


def own_loss(noise: SummedNoise) -> PrivacyLoss:
    """Return the loss of noise for its own request, all models included.

    That the plant may be outside the request's region is not counted.
    """
    request = noise.request
    world = request.world(noise.plant_data)
    return certify(noise.parts, request.adjacency, world, noise.family)


def guarantee_of_models(
    noise: SummedNoise,
    models: ct.StateSpace | Models,
    adjacency: Adjacency | Sequence[Adjacency] | None,
) -> PrivacyGuarantee:
    """Return the guarantee when the true plant is any of several models.

    It is about the secret of the request unless another adjacency is given.
    """
    # y^2 = s^T Gamma^-1 s for the model's response s and this covariance Gamma, as it
    # was designed for the nominal plant (DPAM Theorem 1)
    if adjacency is not None:
        secret = joined(adjacency)
    elif noise.request is not None:
        secret = noise.request.adjacency
    else:
        raise ValueError(
            "adjacency: this noise records no adjacency; pass adjacency=..."
        )
    # infinite for noise without a horizon
    horizon = horizon_of(noise.guarantee.scope.horizon or noise.horizon)
    region = region_of(models)
    plants = []
    if region is None:
        several = models if isinstance(models, (list, tuple)) else [models]
        is_flat = len(several) and isinstance(several[0], ct.StateSpace)
        if noise.plant_data.varies and is_flat:
            several = [models]  # a list is one model, as the plant is
        plants = [plant_of(model, horizon, name="models") for model in several]
        if not plants:
            raise ValueError("models: expected at least one plant")
    for plant in plants if region is None else [region.plant_data]:
        plant.check_model_of(noise.plant_data)
    resolution = None if noise.request is None else noise.request.resolution
    world = World(tuple(plants), horizon, region, resolution, noise.kept)
    loss = certify(noise.parts, secret, world, noise.family)
    scope = _scope_of(noise, secret)
    matrices = matrices_of(Secrets(secret), horizon)
    clauses: Sequence[str] = (model_clause(len(plants), "", matrices),)
    fingerprints = tuple(sorted({plant.fingerprint for plant in plants}))
    if region is not None:
        clauses = region.clauses
        fingerprints = (region.fingerprint,)
    kept = [text for text in scope.assumptions if not text.startswith(_ABOUT_MATRICES)]
    scope = replace(scope, assumptions=(*clauses, *kept), models=fingerprints)
    found = replace(noise.guarantee, loss=loss, scope=scope, correlations=None)
    return found if region is None else with_miss(found, region.miss)


def matrices_of(secret: Secrets, horizon: Horizon) -> str:
    """Return which matrices of the plant a promise is about: B where a signal enters."""
    return "A, B and C" if secret.is_dense or not horizon.ends else "A and C"


def model_clause(count: int, nominal: str, matrices: str) -> str:
    """Return the assumption that the plant is one of several."""
    models = "one given model" if count == 1 else f"one of {count} models"
    return f"{matrices} those of {nominal}{models}"


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
    data = Secrets(adjacency).data(noise.plant_data, noise.horizon)
    return Scope.of(adjacency, data, assumptions=(*RUN_ASSUMPTIONS, *clauses))


def with_miss(guarantee: PrivacyGuarantee, miss: float) -> PrivacyGuarantee:
    """Add the probability that a region does not hold to the guarantee's delta.

    Where the region does not hold, nothing is promised.
    """
    if not miss:
        return guarantee
    loss = composed(guarantee.loss, PrivacyLoss.black_box(((0.0, miss, 1),)))
    quoted_delta = min(guarantee.quoted_delta + miss, 0.999)
    return replace(guarantee, loss=loss, quoted_delta=quoted_delta)


def beside_miss(guarantee: PrivacyGuarantee, loss: PrivacyLoss) -> PrivacyLoss:
    """Add the region's miss that a guarantee counts to another loss."""
    for other in by_kind(guarantee.loss):
        if other.kinds == (BLACK_BOX,):
            loss = composed(loss, other)
    return loss


def guarantee_on_grid(
    noise: SummedNoise, steps: NDArray[np.float64]
) -> PrivacyGuarantee:
    """Return the guarantee for readings on a grid that noise was not designed for.

    Noise that does not cover a full step at every output and sample keeps its promise for
    a sensor that does not round, and the guarantee says so.
    """
    if noise.kept is not None:
        raise PrivacyError(NO_BOUND)
    promise = noise.guarantee
    scope = promise.scope
    grid = ", ".join(f"{step:g}" for step in steps)
    loss = None
    if noise.horizon.ends and noise.horizon == scope.horizon:
        loss = _loss_on_grid(noise, steps)
    if loss is None:
        scope = replace(
            scope,
            assumptions=(*scope.assumptions, "readings that were not rounded"),
            caveats=(
                *scope.caveats,
                f"the additional leak of readings on a grid of {grid}",
            ),
        )
        return replace(promise, scope=scope)
    assumptions = (*scope.assumptions, f"{ON_GRID}{grid}")
    return replace(promise, loss=loss, scope=replace(scope, assumptions=assumptions))


def _loss_on_grid(noise: SummedNoise, steps: NDArray[np.float64]) -> PrivacyLoss | None:
    """Return the loss of noise and a grid, None if the noise does not cover it."""
    try:
        family = "gaussian" if noise.process.is_mixed else noise.family
        grid = grid_shift(noise.parts, steps, noise.horizon, family=family)
    except PrivacyError:
        return None
    if noise.process.is_mixed:  # the floor's share of the loss grows
        shares = {each.kinds[0]: each for each in by_kind(noise.guarantee.loss)}
        left = shares[GAUSSIAN].gdp if GAUSSIAN in shares else 0.0
        rest = PrivacyLoss.gaussian(float_above(left + grid, 2), (), False)
        return composed(shares[RADIAL], rest)
    own = by_kind(noise.guarantee.loss)[0]
    size = own.gdp if noise.family == "gaussian" else own.epsilon(0.0)
    loss = family_of(noise.family).loss_of_size(float_above(size + grid, 2))
    return beside_miss(noise.guarantee, loss)
