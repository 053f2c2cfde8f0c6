"""Requests for output noise, checked before anything is designed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.adjacency import Adjacency
from ..core.ball_noise import RADIAL_LAWS
from ..core.noise import FAMILIES
from ..noise.bound import Bound
from ..noise.certify import World
from ..noise.grid import grid_shift
from ..noise.parts import NoisePart
from ..numerics.checks import (
    instance_of,
    one_of,
    positive_integer,
    positive_number,
    real_array,
)
from ..numerics.objects import CheckedFields
from ..numerics.saved import Saved
from ..numerics.thresholds import FINE, LARGEST_SIZE
from ..privacy.budget import PrivacyBudget, checked_budget
from ..privacy.guarantee import ON_GRID
from ..privacy.horizon import Horizon, horizon_of
from ..regions.identified import IdentifiedPlant
from ..regions.region import PlantRegion, region_of
from ..secrets.joint import JointAdjacency
from ..secrets.secrets import Secrets
from ..systems.linear import Plant
from ..systems.varying import Plants, plant_of

_FAMILIES = (*FAMILIES, *(f"iid-{name}" for name in FAMILIES), *RADIAL_LAWS)

#: What ``models`` may be.
Models = Sequence[Plants] | PlantRegion | IdentifiedPlant | str | None


@dataclass(frozen=True)
class Request(Saved, CheckedFields):
    """Hold the request of a noise: a frozen plan that designs nothing.

    These are all arguments of `design_output_noise` but the plant, the weight and
    ``max_std``, checked. Those that are about a plant come by `of_plant`.
    """

    _omitted = ("bound", "blocks")

    horizon: Horizon
    budget: PrivacyBudget
    adjacency: Adjacency
    family: str = "gaussian"
    releases: int = 1
    floor: NDArray[np.float64] | None = None
    models: tuple[Plant, ...] = ()
    region: PlantRegion | None = None
    resolution: NDArray[np.float64] | None = None
    factor: NDArray[np.float64] | None = None
    order: int | None = None
    gap: float = 0.01
    scale: bool = False  # whether a factor is scaled to the budget exactly
    bound: Bound | None = None  # what the noise never leaves
    blocks: tuple[int, ...] = ()  # independent radial ones of a factor's columns

    def __post_init__(self) -> None:
        one_of(self.family, "family", _FAMILIES)
        checked_budget(self.budget)
        horizon = horizon_of(self.horizon)
        if horizon.ends and self.order is not None:
            raise ValueError(
                "order: noise of a given order is designed without a horizon; pass "
                "horizon=np.inf, or leave order out"
            )
        order = self.order
        if order is not None and not (isinstance(order, int) and order == 0):
            order = positive_integer(order, "order")
        instance_of(self.scale, bool, "scale")
        self._set(
            horizon=horizon,
            adjacency=joined(self.adjacency),
            releases=positive_integer(self.releases, "releases"),
            order=order,
            gap=_checked_gap(self.gap),
        )

    def of_plant(
        self,
        plant: Plant,
        *,
        floor: ArrayLike | str,
        models: Models,
        resolution: ArrayLike,
        factor: ArrayLike | None,
        covariance: ArrayLike | None,
        scale: bool,
    ) -> Request:
        """Return the request with arguments that are about a plant, checked."""
        covered, region = _checked_models(models, plant, self.horizon)
        if not self.horizon.ends and any(each.varies for each in (plant, *covered)):
            raise ValueError(
                "models: lists of plants without a horizon go with a list as sys, whose "
                "period all of them have; pass lists for both, or the number of samples of "
                "a run"
            )
        if scale and factor is None and covariance is None:
            raise ValueError(
                "scale: it is about your own factor or covariance; pass one of them, or "
                "leave scale out"
            )
        return replace(
            self,
            floor=_checked_floor(floor, plant, self.family),
            models=covered,
            region=region,
            resolution=one_per_output(resolution, "resolution", plant),
            factor=_checked_factor(factor, covariance, plant, self),
            scale=scale,
        )

    @cached_property
    def secret(self) -> Secrets:
        """What the adjacency hides, part by part."""
        return Secrets(self.adjacency)

    @property
    def miss(self) -> float:
        """Probability that the region does not hold, zero without one."""
        return 0.0 if self.region is None else self.region.miss

    @property
    def budget_left(self) -> PrivacyBudget:
        """The budget without the part of delta that the region's miss takes.

        Noise is designed for it, and `promised` adds the miss to what the noise leaves.

        Raises
        ------
        ValueError
            If it leaves nothing.
        """
        spent = self.releases * self.miss
        budget = self.budget
        if not spent:
            return budget
        delta = budget.delta or 0.0
        if budget.gdp is not None or not delta > spent:
            raise ValueError(
                f"budget: the models miss the plant with a probability of {spent:g}, which "
                "is part of delta; pass epsilon and a larger delta, or models that miss it "
                "less often (of an identified plant, with a higher confidence)"
            )
        left = float(np.nextafter(delta - spent, 0.0))
        return PrivacyBudget(epsilon=budget.epsilon, delta=left)

    @property
    def allowed_shift(self) -> float:
        """The largest privacy shift that the budget allows to Gaussian noise."""
        return self.budget_left.shift(self.releases)

    @property
    def has_models(self) -> bool:
        """Return whether more plants than the nominal one are to be covered."""
        return bool(self.models) or self.region is not None

    def plants(self, nominal: Plant) -> tuple[Plant, ...]:
        """Return the nominal plant and all models, under which moves are hidden."""
        return (nominal, *self.models)

    def world(self, nominal: Plant) -> World:
        """Return the runs and plants in which a promise for the request must hold."""
        plants = self.plants(nominal)
        return World(plants, self.horizon, self.region, self.resolution, self.bound)

    def grid_shift(self, parts: Sequence[NoisePart]) -> float:
        """Bound the sensor grid's contribution to the shift of noise of some parts."""
        return grid_shift(parts, self.resolution, self.horizon)

    def fingerprints(self, nominal: Plant) -> list[str]:
        """Return those of the models that a guarantee for the request is about."""
        if self.region is not None:
            return [self.region.fingerprint]
        return [plant.fingerprint for plant in self.plants(nominal)]

    @property
    def clauses(self) -> tuple[str, ...]:
        """Return the guarantee's clause about the sensor's grid."""
        clauses: tuple[str, ...] = ()
        if self.bound is not None:
            clauses = (
                "noise drawn again, never clipped, until it is within its bound",
            )
        if self.resolution is None:
            return clauses
        steps = ", ".join(f"{step:g}" for step in self.resolution)
        return (*clauses, f"{ON_GRID}{steps}")

    @property
    def drawn_afresh(self) -> bool:
        """Return whether noise is asked for that is drawn again at every sample.

        So it is for a plant that may vary, and for models without a horizon.
        """
        varies = self.region is not None and self.region.varying
        return not self.horizon.ends or (varies and not self.is_one)

    @property
    def is_one(self) -> bool:
        """Return whether a region's plants answer to the secret as one, which needs no floor."""
        return self.region is not None and self.region.is_one(self.adjacency)

    @property
    def alone(self) -> Request:
        """The request for the nominal plant, with the budget less the region's miss."""
        return replace(self, region=None, models=(), budget=self.budget_left)

    @property
    def standing(self) -> Request:
        """The request for plants that represent its region, where a design starts."""
        if self.region is None:
            return self
        return replace(self.alone, models=self.region.standing(self.adjacency))


def joined(adjacency: Adjacency | Sequence[Adjacency]) -> Adjacency:
    """Return the adjacency, or all of a list of them as one."""
    if isinstance(adjacency, (list, tuple)):
        adjacency = adjacency[0] if len(adjacency) == 1 else JointAdjacency(adjacency)
    if not isinstance(adjacency, Adjacency):
        raise TypeError(
            "adjacency: expected an Adjacency such as StateAdjacency, "
            f"got {type(adjacency).__name__}"
        )
    return adjacency


def _checked_models(
    models: Models, nominal: Plant, horizon: float
) -> tuple[tuple[Plant, ...], PlantRegion | None]:
    """Return plants with the nominal one's outputs, or a region around it."""
    if isinstance(models, str):
        one_of(models, "models", ("exact",))
        return (), None
    region = region_of(models)
    if region is not None and nominal.varies:
        raise ValueError(
            "models: a region holds plants around one StateSpace, and covers every "
            "sequence of them, got a list of plants as sys; pass the region with its "
            "nominal plant, or lists of plants as models"
        )
    if region is not None:
        region.check_holds(nominal)
        return (), region
    if models is None:
        return (), None
    if not isinstance(models, (list, tuple)):
        raise TypeError(
            "models: expected a list of StateSpace, such as [sys] or box.corners(), "
            f"got {type(models).__name__}"
        )
    flat = [model for model in models if isinstance(model, ct.StateSpace)]
    if nominal.varies and len(flat) > 1 and len(flat) == len(models):
        raise ct.ControlArgument(
            "models: expected lists of plants, one list for each model, since sys is a list, "
            "got a list of plants; pass models=[that list] if it is one model"
        )
    plants = tuple(plant_of(model, horizon, name="models") for model in models)
    for plant in plants:
        plant.check_model_of(nominal)
    return plants, None


def one_per_output(
    value: ArrayLike, name: str, plant: Plant
) -> NDArray[np.float64] | None:
    """Return sizes (p,) from one number or one per output, None if they are zero."""
    outputs = plant.output_count
    sizes = real_array(value, name)
    if sizes.ndim == 0:
        size = positive_number(float(sizes), name, zero=True)
        if size == 0:
            return None
        sizes = real_array(np.full(outputs, size), name)
    if sizes.shape != (outputs,) or not (sizes > 0).all():
        raise ValueError(
            f"{name}: expected one positive number, or {outputs} of them, one per output, "
            f"got shape {sizes.shape}"
        )
    largest = float(sizes.max())
    if LARGEST_SIZE < largest < math.inf:
        raise ValueError(
            f"{name}: expected sizes up to {LARGEST_SIZE:g}, got {largest:g}; choose "
            "another unit"
        )
    return sizes


def _checked_gap(gap: object) -> float:
    """Return a relative distance that doubles can show."""
    size = positive_number(gap, "gap")
    if size < FINE:
        raise ValueError(
            f"gap: expected at least {FINE:g}, got {size:g}; rounding hides less"
        )
    return size


def _checked_floor(
    floor: ArrayLike | str, plant: Plant, family: str
) -> NDArray[np.float64] | None:
    """Return standard deviations (p,), None without a floor or before its choice."""
    is_chosen = isinstance(floor, str)
    sizes = None
    if is_chosen:
        one_of(floor, "floor", ("auto",))
    else:
        sizes = one_per_output(floor, "floor", plant)
    is_covered = family in ("gaussian", *RADIAL_LAWS)
    if (is_chosen or sizes is not None) and not is_covered:
        raise ValueError(
            "floor: a white floor is added to Gaussian and to radial noise, got "
            f"family={family!r}; leave it out"
        )
    return sizes


def _checked_factor(
    factor: ArrayLike | None,
    covariance: ArrayLike | None,
    plant: Plant,
    request: Request,
) -> NDArray[np.float64] | None:
    """Return S (n, r) or Lambda (T p, r) of a shape of the user's own, or None."""
    if factor is None and covariance is None:
        return None
    if factor is not None and covariance is not None:
        raise ValueError("factor, covariance: expected one of them, got both")
    family = request.family
    if family not in FAMILIES:
        raise ValueError(
            f"factor, covariance: they shape structured noise, got family={family!r}"
        )
    if factor is not None:
        shape = real_array(factor, "factor", ndim=2)
        size = request.horizon * plant.output_count
        if len(shape) not in (plant.order, size):
            raise ValueError(
                f"factor: expected S with {plant.order} rows, one per state, or Lambda "
                f"with {size:g}, one per sample and output, got shape {shape.shape}"
            )
        if not shape.any():
            raise ValueError("factor: expected an entry that is not zero")
        return shape
    return _root_of(real_array(covariance, "covariance", shape=(plant.order,) * 2))


def _root_of(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return S (n, r) with S S^T the covariance, zero rows for states without noise."""
    if np.abs(covariance - covariance.T).max() > 1e-10 * np.abs(covariance).max():
        raise ValueError(
            "covariance: expected a symmetric matrix; pass (Sigma + Sigma.T) / 2"
        )
    noisy = np.flatnonzero(np.diag(covariance))
    silent = np.setdiff1d(np.arange(len(covariance)), noisy)
    if not len(noisy) or covariance[silent].any():
        raise ValueError("covariance: expected a positive semidefinite matrix")
    try:
        root = np.linalg.cholesky(covariance[np.ix_(noisy, noisy)])
    except np.linalg.LinAlgError:
        raise ValueError(
            "covariance: expected a positive definite matrix on the states with noise; "
            "pass factor=S with S S^T for a covariance of lower rank"
        ) from None
    factor = np.zeros((len(covariance), len(noisy)))
    factor[noisy] = root
    return factor
