"""Find out whether noise is of a size that is useful.

Noise that hides a state at any one time of a long run may be thousands of times what the
secret itself does to an output. Users who ask for that usually mean something else. They
are warned, or refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..noise.process import SummedNoise
from ..numerics.errors import PrivacyError, warn_user
from ..privacy.loss import PrivacyLoss, by_kind
from ..privacy.sentences import about
from ..secrets.effects import LOOKED_AT, effects_of, first_effects, growth_of
from ..secrets.modes import Mode, growing_mode, modes
from ..systems.linear import Plant, spectral_radius
from .request import Request, one_per_output

#: Noise of more than this many times the secret's effect is worth a warning, or refused.
_LARGE = 1e2
_ABSURD = 1e4


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
    secret, plant = noise.request.secret, noise.plant_data
    for samples in (plant.order + 1, LOOKED_AT):  # the first ones mostly suffice
        effects = effects_of(secret, plant, noise.horizon, samples)
        seen = effects > 0
        ratios = np.divide(noise.std, effects, out=np.zeros(len(effects)), where=seen)
        worst = int(ratios.argmax())
        if ratios[worst] < _LARGE:
            return
    growth = ", growth of unstable modes apart," if growth_of(plant) > 1 else ""
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
        f"{noise.std[worst]:.4g}, {about(ratios[worst])} times the most that {secret.one_move} does "
        f"to it{growth} within {min(noise.horizon, LOOKED_AT)} samples "
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
        effects = effects_of(request.secret, plant, horizon)
        limits = _ABSURD * effects
    else:
        limits = _limits(max_std, plant)
    limits = np.where(limits > 0, limits, math.inf)
    hidden = request.allowed_shift
    largest = hidden * math.sqrt(horizon * len(limits)) * (1 + 1e-6)
    for model in request.standing.models:
        for part in request.secret.parts:
            with np.errstate(over="ignore", invalid="ignore"):
                effects = first_effects(part, model, horizon)
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
                f"needs noise of {about(ratios[worst] / largest)} times the largest useful "
                f"standard deviation or more ({limits[worst]:.3g} at this output). "
                f"{way}, for identified plants by more samples, larger inputs or known "
                "entries, or shorten the horizon. max_std=np.inf designs this noise all "
                "the same"
            )


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


def _limits(
    max_std: ArrayLike | Mapping[str, float], plant: Plant
) -> NDArray[np.float64]:
    """Return limits (p,), infinite where there is none."""
    if isinstance(max_std, Mapping):
        plant.check_outputs(max_std, "max_std")
        max_std = [max_std.get(name, math.inf) for name in plant.outputs]
    try:
        infinite = np.asarray(max_std) == math.inf
    except Exception:  # `one_per_output` says what is wrong
        infinite = np.array(False)
    known = np.where(infinite, 1.0, max_std) if infinite.any() else max_std
    sizes = one_per_output(known, "max_std", plant)
    if sizes is None:
        raise ValueError("max_std: expected numbers > 0, or np.inf for no limit")
    return np.where(infinite, math.inf, sizes)


def _check_limit(noise: SummedNoise, limits: NDArray[np.float64]) -> None:
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
