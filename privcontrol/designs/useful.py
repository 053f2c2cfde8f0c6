"""Find out whether noise is of a size that is useful.

Noise that hides a state at any one time of a long run may be thousands of times what the
secret itself does to an output. Users who ask for that usually mean something else. They
are warned, or refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.adjacency import Adjacency
from ..noise.process import SummedNoise
from ..numerics.errors import PrivacyError, warn_user
from ..numerics.thresholds import MOST_HELD, ON_CIRCLE
from ..privacy.horizon import Horizon
from ..privacy.loss import PrivacyLoss, by_kind
from ..secrets.disturbance import DisturbanceAdjacency
from ..secrets.fleet import parted, symmetric_plant
from ..secrets.modes import Mode, growing_mode, modes
from ..secrets.secret import Secret
from ..secrets.secrets import Secrets
from ..systems.linear import Plant, spectral_radius
from ..systems.varying import VaryingPlant
from .request import Request, one_per_output

#: Noise of more than this many times the secret's effect is worth a warning, or refused.
_LARGE = 1e2
_ABSURD = 1e4
#: Samples of a run within which models are found to need absurd noise.
_LOOKED_AT = 2000
#: States from which on a plant is looked at unit by unit.
_MANY_STATES = 40


def check_size(
    noise: SummedNoise,
    max_std: ArrayLike | Mapping[str, float] | None,
    weighted: bool = False,
) -> None:
    """Compare noise with ``max_std``, by default with the effect of its secret.

    ``weighted`` noise was designed with a weight, which may price some of it at nothing.

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
    subject = one_move_of(adjacency)
    way_out = _way_out(noise)
    if weighted:
        way_out = (
            "Where weight= prices noise at next to nothing, as a loop does at the end of "
            "its run, it may be as large: leave weight= out for noise of least variance. "
            f"Otherwise {way_out[0].lower()}{way_out[1:]}"
        )
    request = noise.request
    is_free = request.floor is not None and not request.has_models
    if is_free and request.resolution is None:  # what nothing but the request needs
        floor = float(request.floor[worst])
        if floor >= _LARGE * effects[worst]:
            way_out = f"The floor alone is {floor:.4g} there: lower floor="
    text = (
        f"the noise at {plant.outputs[worst]} has a standard deviation of "
        f"{noise.std[worst]:.4g}, {ratios[worst]:.2g} times the most that {subject} does "
        f"to it{growth} within {min(noise.horizon, _LOOKED_AT)} samples "
        f"({effects[worst]:.4g}). {way_out}"
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
        for part in request.secret.parts:
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


def _first_effects(part: Secret, model: Plant, horizon: int) -> NDArray:
    """Return effects (p,) of a secret under a model, those of its first samples."""
    if isinstance(model, VaryingPlant):
        return _effects_along(part, model, horizon)
    inputs = part.starting(model, horizon)
    after = min(horizon, _LOOKED_AT) - inputs.longest
    return inputs.effects(after) if after > 0 else np.zeros(model.output_count)


def effects_of(
    adjacency: Adjacency, plant: Plant, horizon: Horizon, samples: int = _LOOKED_AT
) -> NDArray:
    """Return the largest effects (p,) of a secret on each output over some samples.

    Of several changes they are those of one. They are those of n + 1 samples after the
    longest change, or more, for a plant with n states. Later ones, up to so many
    ``samples`` and the horizon, count without the growth of unstable modes: with a
    spectral radius rho > 1, A / rho takes the place of A. Moves of data
    (x(0), ..., x(T - 1)) need the horizon T that they are of. Of a plant that varies
    they are those of n + 1 samples after each time at which the secret may move.
    """
    if not horizon.ends and plant.order > _MANY_STATES:
        effects = _effects_of_units(adjacency, plant, horizon, samples)
        if effects is not None:
            return effects
    parts = Secrets(adjacency).parts
    if isinstance(plant, VaryingPlant):
        found = [_effects_along(part, plant, int(horizon)) for part in parts]
        return np.max(found, axis=0)
    first = plant.order + 1
    length = horizon.count_or(first)
    growth = growth_of(plant)
    found = []
    for part in parts:
        inputs = part.starting(plant, length)
        found.append(inputs.effects(first))
        held = plant.output_count * sum(len(moves.shapes) for moves in inputs.signals)
        later = min(horizon, samples, MOST_HELD // max(held, 1)) - inputs.longest
        if not isinstance(
            part, DisturbanceAdjacency
        ):  # the impulse comes one sample before
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


def _effects_along(part: Secret, plant: VaryingPlant, horizon: int) -> NDArray:
    """Return the largest effects (p,) of a secret on each output of a plant that varies."""
    if isinstance(part, DisturbanceAdjacency):
        found = part.responses(plant, horizon)
        return found.effects.reshape(horizon, plant.output_count).max(axis=0)
    times = np.arange(horizon) if part._move_times is None else part._move_times
    now = np.asarray(times, dtype=int)
    A, _, C, _ = plant.along
    moves = part._first_moves(plant, horizon).vectors
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


def one_move_of(adjacency: Adjacency) -> str:
    """Return what `effects_of` are about, in words."""
    several = Secrets(adjacency).events > 1
    return "one change of the secret" if several else "the secret"


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
        "Raise the budget's epsilon or delta, or protect a smaller secret: fewer times, a "
        "shorter change, or a disturbance during the run (DisturbanceAdjacency, with "
        "horizon=np.inf for runs of any length)"
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
