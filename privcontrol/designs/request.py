"""Requests for output noise, checked before anything is designed, and their results.

Noise that hides a state at any one time of a long run may be thousands of times what the
secret itself does to an output. Users who ask for that usually mean something else. They
are warned, or refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.adjacency import Adjacency
from ..core.ball_noise import RADIAL_LAWS
from ..core.noise import FAMILIES
from ..noise.process import SummedNoise
from ..noise.shift import World
from ..noise.within import Bound
from ..numerics.checks import (
    instance_of,
    one_of,
    positive_integer,
    positive_number,
    real_array,
)
from ..numerics.errors import PrivacyError, warn_user
from ..numerics.objects import CheckedFields
from ..numerics.saved import Saved
from ..numerics.thresholds import FINE, LARGEST_SIZE, MOST_HELD, ON_CIRCLE
from ..privacy.budget import PrivacyBudget, checked_budget
from ..privacy.horizon import Horizon, horizon_of
from ..privacy.loss import PrivacyLoss, by_kind
from ..regions.identified import IdentifiedPlant
from ..regions.region import PlantRegion, region_of
from ..secrets.disturbance import DisturbanceAdjacency, JointAdjacency, disturbances
from ..secrets.fleet import parted, symmetric_plant
from ..secrets.modes import Mode, growing_mode, modes
from ..secrets.secret import all_responses, as_secret
from ..secrets.states import InitialStateAdjacency, StateAdjacency
from ..systems.linear import Plant, spectral_radius
from ..systems.varying import Plants, VaryingPlant, plant_of, repeated

_FAMILIES = (*FAMILIES, *(f"iid-{name}" for name in FAMILIES), *RADIAL_LAWS)

#: Noise of more than this many times the secret's effect is worth a warning, or refused.
_LARGE = 1e2
_ABSURD = 1e4
#: Samples of a run within which models are found to need absurd noise.
_LOOKED_AT = 2000
#: States from which on a plant is looked at unit by unit.
_MANY_STATES = 40

#: What ``models`` may be.
Models = Sequence[Plants] | PlantRegion | IdentifiedPlant | str | None


@dataclass(frozen=True)
class Request(Saved, CheckedFields):
    """Hold what a noise is, or was, designed for: a frozen plan that designs nothing.

    These are all arguments of `design_output_noise` but the plant, the weight and
    ``max_std``, checked. Those that are about a plant come by `of_plant`.
    """

    horizon: Horizon
    budget: PrivacyBudget
    adjacency: Adjacency
    family: str = "gaussian"
    releases: int = 1
    floor: NDArray | None = None
    models: tuple[Plant, ...] = ()
    region: PlantRegion | None = None
    resolution: NDArray | None = None
    factor: NDArray | None = None
    order: int | None = None
    gap: float = 0.01
    scale: bool = False  # whether a factor is scaled to the budget exactly
    bound: Bound | None = None  # what the noise never leaves
    blocks: tuple[int, ...] = ()  # independent radial ones of a factor's columns

    def _saved_fields(self) -> dict[str, object]:
        saved = super()._saved_fields()
        for name in ("bound", "blocks"):
            if not saved[name]:  # so a file says nothing of what it does not have
                del saved[name]
        return saved

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

    def fingerprints(self, nominal: Plant) -> list[str]:
        """Return those of the models that a guarantee for the request is about."""
        if self.region is not None:
            return [self.region.fingerprint]
        return [plant.fingerprint for plant in self.plants(nominal)]

    @property
    def clauses(self) -> tuple[str, ...]:
        """Return what the guarantee says about the sensor's grid."""
        clauses: tuple[str, ...] = ()
        if self.bound is not None:
            clauses = (
                "noise drawn again, never clipped, until it is within its bound",
            )
        if self.resolution is None:
            return clauses
        steps = ", ".join(f"{step:g}" for step in self.resolution)
        return (*clauses, f"readings on a grid of {steps}")

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
        """The request for the nominal plant alone, with what the region's miss leaves."""
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


def of_periods(
    plant: VaryingPlant, adjacency: Adjacency, models: Models
) -> tuple[Plant, Adjacency, Models]:
    """Return plant, secret and models of a run of any length, one sample a period.

    Raises
    ------
    ValueError
        If the period is too long, or a period's inputs do not describe the secret: a
        change of one signal at one sample, or a displaced first state.
    """
    lifted = plant.lifted()
    secrets = [_of_periods(part, plant) for part in adjacency.parts]
    if isinstance(models, list | tuple):
        others: list[Plant] = []
        for model in models:
            other = plant_of(model, math.inf, name="models")
            if isinstance(other, VaryingPlant) and other.samples != plant.samples:
                raise ValueError(
                    f"models: expected lists of {plant.samples} plants, one for each "
                    f"sample of the period, got {other.samples}"
                )
            if not isinstance(other, VaryingPlant):
                other = repeated(other, plant.samples)
            others.append(other.lifted())
        models = others
    return lifted, joined(secrets), models


def _of_periods(secret: Adjacency, plant: VaryingPlant) -> Adjacency:
    """Return a secret of the plant as one of its lifted plant."""
    if isinstance(secret, InitialStateAdjacency):
        return secret
    if isinstance(secret, StateAdjacency) and secret._move_times == (0,):
        return secret
    if not isinstance(secret, DisturbanceAdjacency) or not _is_one_sample(secret):
        raise ValueError(
            "adjacency: a list of plants without a horizon hides one change of one signal "
            "at one sample (DisturbanceAdjacency(radius)), or a displaced first state "
            "(times=0): what spans samples of two periods is no input of one. Pass a "
            "horizon for other secrets"
        )
    radii = secret.radii(plant)
    signals = secret.signals(plant)
    states = [name for name in signals if name not in plant.inputs]
    if states:
        raise ValueError(
            f"adjacency: {', '.join(states)} is a state, which signals enter at each sample "
            "of a period; without a horizon a list of plants takes inputs, so give it one "
            "there (a column of B)"
        )
    named = zip(signals, radii.tolist(), strict=True)
    return DisturbanceAdjacency(
        {f"{name}@{t}": size for name, size in named for t in range(plant.samples)}
    )


def _is_one_sample(secret: DisturbanceAdjacency) -> bool:
    """Return whether a secret is one change of one signal at any one sample."""
    is_plain = (secret.norm, secret.duration, secret.events) == ("single", 1, 1)
    is_shaped = secret.is_moving or secret.together or secret.profiles is not None
    return is_plain and not is_shaped and secret.times is None


def one_per_output(value: ArrayLike, name: str, plant: Plant) -> NDArray | None:
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


def _checked_floor(floor: ArrayLike | str, plant: Plant, family: str) -> NDArray | None:
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
) -> NDArray | None:
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


def _root_of(covariance: NDArray) -> NDArray:
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


# -- is the noise of a size that is useful -----------------------------------------------


def check_size(
    noise: SummedNoise, max_std: ArrayLike | Mapping[str, float] | None
) -> None:
    """Compare noise with ``max_std``, by default with the effect of its secret.

    From 100 times the effect it warns, and from 10,000 times it raises a `PrivacyError`.
    The effect is the largest one over the run, without the growth of unstable modes. A
    design is of no use whose noise is that much larger.
    """
    if max_std is not None:
        _check_limit(noise, _limits(max_std, noise.plant_data))
        return
    adjacency, plant = noise.request.adjacency, noise.plant_data
    for samples in (plant.order + 1, _LOOKED_AT):  # the first ones mostly suffice
        effects = effects_of(adjacency, plant, noise.horizon, samples)
        seen = effects > 0
        ratios = np.divide(noise.std, effects, out=np.zeros(len(effects)), where=seen)
        worst = int(ratios.argmax())
        if ratios[worst] < _LARGE:
            return
    growth = ", growth of unstable modes apart," if growth_of(plant) > 1 else ""
    text = (
        f"the noise at {plant.outputs[worst]} has a standard deviation of "
        f"{noise.std[worst]:.4g}, {ratios[worst]:.2g} times the most that the secret does "
        f"to it{growth} within {min(noise.horizon, _LOOKED_AT)} samples "
        f"({effects[worst]:.4g}). {_way_out(noise)}"
    )
    if ratios[worst] < _ABSURD:
        warn_user(text)
        return
    raise PrivacyError(f"{text}. max_std=np.inf designs this noise all the same")


def check_models(
    request: Request, plant: Plant, max_std: ArrayLike | Mapping[str, float] | None
) -> None:
    """Refuse models under which only noise above ``max_std`` hides the secret.

    A change r of T p outputs has a shift of at least |r| / sqrt(T p) in units of the
    noise's standard deviations, since (r^T r)^2 <= r^T Gamma r r^T Gamma^-1 r.
    """
    horizon = request.horizon
    laplace = request.family.endswith("laplace")
    if not (request.has_models and horizon.ends) or laplace:
        return
    if max_std is None:
        effects = effects_of(request.adjacency, plant, horizon)
        limits = _ABSURD * effects
    else:
        limits = _limits(max_std, plant)
    limits = np.where(limits > 0, limits, math.inf)
    hidden = request.allowed_shift
    largest = hidden * math.sqrt(horizon * len(limits)) * (1 + 1e-6)
    for model in request.standing.models:
        for part in request.adjacency.parts:
            with np.errstate(over="ignore", invalid="ignore"):
                effects = _first_effects(part, model, horizon)
                ratios = effects / limits
            worst = int(ratios.argmax())
            if ratios[worst] <= largest:
                continue
            way = "Narrow the models"
            if not model.varies and np.abs(np.linalg.eigvals(model.A)).max() >= 1:
                way = (
                    f"Its mode {growing_mode(model)} does not decay: close a local loop "
                    "around it (with_local_loop), narrow the models"
                )
            raise PrivacyError(
                f"models: under one of them the secret changes {plant.outputs[worst]} by "
                f"{effects[worst]:.3g} within {horizon} samples. To hide it some output "
                f"needs noise of {ratios[worst] / largest:.2g} times the largest useful "
                f"standard deviation or more ({limits[worst]:.3g} at this output). "
                f"{way}, for identified plants by more samples, larger inputs or known "
                "entries, or shorten the horizon. max_std=np.inf designs this noise all "
                "the same"
            )


def _first_effects(part: Adjacency, model: Plant, horizon: int) -> NDArray:
    """Return effects (p,) of a secret under a model, those of its first samples."""
    if isinstance(model, VaryingPlant):
        return _effects_along(part, model, horizon)
    inputs = as_secret(part).starting(model, horizon)
    after = min(horizon, _LOOKED_AT) - inputs.longest
    return inputs.effects(after) if after > 0 else np.zeros(model.output_count)


def effects_of(
    adjacency: Adjacency, plant: Plant, horizon: Horizon, samples: int = _LOOKED_AT
) -> NDArray:
    """Return the largest effects (p,) of a secret on each output over some samples.

    They are those of n + 1 samples after the longest change, or more, for a plant with n
    states. Later ones, up to so many ``samples`` and the horizon, count without the growth
    of unstable modes: with a spectral radius rho > 1, A / rho takes the place of A. Moves
    of data (x(0), ..., x(T - 1)) need the horizon T that they are of. Of a plant that varies
    they are those of n + 1 samples after each time at which the secret may move.
    """
    if not horizon.ends and plant.order > _MANY_STATES:
        effects = _effects_of_units(adjacency, plant, horizon, samples)
        if effects is not None:
            return effects
    if isinstance(plant, VaryingPlant):
        parts = adjacency.parts
        found = [_effects_along(part, plant, int(horizon)) for part in parts]
        return np.max(found, axis=0)
    first = plant.order + 1
    length = horizon.count_or(first)
    growth = growth_of(plant)
    found = []
    for part in adjacency.parts:
        secret = as_secret(part)
        inputs = secret.starting(plant, length)
        found.append(inputs.effects(first))
        held = plant.output_count * sum(len(moves.shapes) for moves in inputs.signals)
        later = min(horizon, samples, MOST_HELD // max(held, 1)) - inputs.longest
        if not disturbances(part):  # the impulse comes one sample before
            later += 1
        if later > first:
            system = inputs.system
            steady = replace(system, A=system.A / growth)
            found.append(replace(inputs, system=steady).effects(int(later)))
    return np.max(found, axis=0)


def _effects_of_units(
    adjacency: Adjacency, plant: Plant, horizon: Horizon, samples: int
) -> NDArray | None:
    """Return the effects on each output where a plant is one of many units, else None."""
    units = parted(adjacency, plant)
    if units is None:
        return None
    effects = np.zeros(plant.output_count)
    for kind in units:
        near = symmetric_plant(kind.adjacency, kind.plant)
        if near is not None:
            first = near.systems[0].order + 1
            effects[kind.outputs] = near.effects(max(samples, first))
        elif kind.plant.order < plant.order:
            own = effects_of(kind.adjacency, kind.plant, horizon, samples)
            effects[kind.outputs] = own
        else:
            return None
    return effects


def _effects_along(part: Adjacency, plant: VaryingPlant, horizon: int) -> NDArray:
    """Return the largest effects (p,) of a secret on each output of a plant that varies."""
    secret = as_secret(part)
    if disturbances(part):
        found = all_responses(part, (plant,), horizon)
        return found.effects.reshape(horizon, plant.output_count).max(axis=0)
    times = np.arange(horizon) if secret._move_times is None else secret._move_times
    now = np.asarray(times, dtype=int)
    A, _, C, _ = plant.along
    moves = secret._first_moves(plant, horizon).vectors
    states = np.tile(moves, (len(now), 1, 1))
    effects = np.zeros(plant.output_count)
    for _ in range(plant.order + 1):
        states, now = states[now < horizon], now[now < horizon]
        if not now.size:
            break
        seen = np.abs(C[now] @ states).max(axis=(0, 2), initial=0.0)
        effects = np.maximum(effects, seen)
        states = A[now] @ states
        now = now + 1
    return effects


def growth_of(plant: Plant) -> float:
    """Return the spectral radius of an unstable plant, one of others and of integrators.

    It is one of a plant that varies, too.
    """
    if plant.varies:
        return 1.0
    radius = float(np.abs(np.linalg.eigvals(plant.A)).max(initial=0.0))
    return radius if radius > (1 + ON_CIRCLE) else 1.0


def _way_out(noise: SummedNoise) -> str:
    """Return the mode that makes the noise large, and what to do about it."""
    adjacency = noise.request.adjacency
    found: list[Mode] = []
    for part in adjacency.parts:
        if noise.horizon.ends:
            found += modes(noise.plant_data, part, [noise.horizon])
    if found:
        worst = max(found, key=lambda mode: mode.sizes[-1])
        if worst.growth > _LARGE / 10:
            explanation = worst.explanation(int(noise.horizon))
            return explanation[0].upper() + explanation[1:]
    decay, narrower = "does not decay", ""
    if noise.request.region is not None:
        decay = "decays slowly, or under some of the models not at all"
        narrower = ", narrow the models"
    growing = not noise.plant_data.varies
    growing = growing and spectral_radius(noise.plant_data) >= 1
    if growing or narrower:
        return (
            f"The mode {growing_mode(noise.plant_data)} {decay}: close a local loop "
            f"around it (with_local_loop), shorten the horizon{narrower}, or raise the "
            "budget's epsilon or delta"
        )
    return (
        "Raise the budget's epsilon or delta, or protect a secret that is less: fewer "
        "times, a shorter change, or what enters during the run (DisturbanceAdjacency, "
        "with horizon=np.inf for noise that lasts)"
    )


def _limits(max_std: ArrayLike | Mapping[str, float], plant: Plant) -> NDArray:
    """Return limits (p,), infinite where there is none."""
    outputs = plant.outputs
    if isinstance(max_std, Mapping):
        unknown = [str(name) for name in max_std if name not in outputs]
        if unknown:
            raise ValueError(
                f"max_std: {', '.join(unknown)} is no output of the plant; known outputs: "
                f"{', '.join(outputs)}{plant.elsewhere(unknown[0])}"
            )
        max_std = [max_std.get(name, math.inf) for name in outputs]
    try:
        infinite = np.asarray(max_std) == math.inf
    except Exception:  # `one_per_output` says what is wrong
        infinite = np.array(False)
    known = np.where(infinite, 1.0, max_std) if infinite.any() else max_std
    sizes = one_per_output(known, "max_std", plant)
    if sizes is None:
        raise ValueError("max_std: expected numbers > 0, or np.inf for no limit")
    return np.where(infinite, math.inf, sizes)


def _check_limit(noise: SummedNoise, limits: NDArray) -> None:
    ratios = noise.std / limits
    worst = int(ratios.argmax())
    ratio = float(ratios[worst])
    if ratio <= 1 + 1e-12:
        return
    raise PrivacyError(
        f"max_std: the noise at {noise.plant_data.outputs[worst]} has a standard deviation of "
        f"{noise.std[worst]:.4g} where {limits[worst]:.4g} is the limit. A radius "
        f"{1 / ratio:.3g} times as large meets it, or {_looser_budget(noise, ratio)}; so "
        "may fewer protected times (StateAdjacency(times=...)), or a DisturbanceAdjacency "
        "if the secret enters during the run"
    )


def _looser_budget(noise: SummedNoise, ratio: float) -> str:
    """Return a budget under which noise ``ratio`` times smaller is enough, in words."""
    request = noise.request
    loss = by_kind(noise.guarantee.loss)[0].released(request.releases)
    if noise.family != "gaussian":
        return f"epsilon = {loss.pure * ratio:.3g}"
    shift = loss.gdp * ratio
    budget = request.budget_left
    if budget.gdp is not None:
        return f"a budget of gdp = {shift:.3g}"
    epsilon = PrivacyLoss.gaussian(shift).epsilon(budget.delta)
    if not math.isfinite(epsilon):
        return f"a budget of gdp = {shift:.3g}"
    return f"epsilon = {epsilon:.3g} at delta = {budget.delta:g}"
