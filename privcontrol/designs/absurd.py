"""Warn of noise that is large beside what its secret does, and refuse useless noise.

Noise that hides a state at any time of a long run may be thousands of times what the secret
itself does to an output. Users who ask for that usually mean something else.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.adjacency import Adjacency
from ..core.errors import PrivacyError, PrivacyWarning
from ..core.loss import PrivacyLoss, by_kind
from ..secrets.modes import Mode, growing_mode, modes
from ..secrets.secret import as_secret
from ..systems.linear import Plant
from .output_noise import OutputNoise
from .request import one_per_output

#: Noise of more than this many times the secret's effect is worth a warning, or refused.
_LARGE = 1e2
_ABSURD = 1e4


def check_size(
    noise: OutputNoise, max_std: ArrayLike | Mapping[str, float] | None
) -> None:
    """Compare noise with ``max_std``, by default with the effect of its secret.

    From 100 times the effect it warns, and from 10,000 times it raises a `PrivacyError`.
    """
    if max_std is not None:
        _check_limit(noise, _limits(max_std, noise.plant_data))
        return
    effects = effects_of(noise.request.adjacency, noise.plant_data, noise.horizon)
    seen = effects > 0
    ratios = np.divide(noise.std, effects, out=np.zeros(len(effects)), where=seen)
    worst = int(ratios.argmax())
    if ratios[worst] < _LARGE:
        return
    text = (
        f"the noise at {noise.plant_data.outputs[worst]} has a standard deviation of "
        f"{noise.std[worst]:.4g}, {ratios[worst]:.2g} times what the secret does to it "
        f"within the first samples ({effects[worst]:.4g}). {_way_out(noise)}"
    )
    if ratios[worst] < _ABSURD:
        warnings.warn(text, PrivacyWarning, stacklevel=3)
        return
    raise PrivacyError(f"{text}. max_std=np.inf designs this noise all the same")


def effects_of(adjacency: Adjacency, plant: Plant, horizon: float) -> NDArray:
    """Return the largest effects (p,) of a secret on each output.

    They count for n + 1 samples of a plant with n states, after a change that lasts has
    ended. Moves of data (x(0), ..., x(T - 1)) need the horizon T that they are of.
    """
    samples = plant.order + 1
    length = samples if horizon == math.inf else int(horizon)
    every = [as_secret(part).starting(plant, length) for part in adjacency.parts]
    return np.max([inputs.effects(samples) for inputs in every], axis=0)


def _way_out(noise: OutputNoise) -> str:
    """Return the mode that makes the noise large, and what to do about it."""
    adjacency = noise.request.adjacency
    found: list[Mode] = []
    for part in adjacency.parts:
        if noise.horizon != math.inf:
            found += modes(noise.plant_data, part, [noise.horizon])
    if found:
        worst = max(found, key=lambda mode: mode.sizes[-1])
        if worst.growth > _LARGE / 10:
            explanation = worst.explanation(int(noise.horizon))
            return explanation[0].upper() + explanation[1:]
    forgets, narrower = "never forgets the secret", ""
    if noise.request.region is not None:
        forgets = "forgets the secret slowly, or never under some of the models"
        narrower = ", narrow the models"
    radius = np.abs(np.linalg.eigvals(noise.plant_data.A)).max()
    if radius >= 1 or narrower:
        return (
            f"The mode {growing_mode(noise.plant_data)} {forgets}: close a local loop "
            f"around it (with_local_loop), shorten the horizon{narrower}, or raise the "
            "budget's epsilon or delta"
        )
    return (
        "Raise the budget's epsilon or delta, or protect a secret that is less: fewer "
        "times, a shorter change, or what enters during the run (DisturbanceAdjacency, "
        "with horizon=np.inf for noise that lasts)"
    )


# -- a limit that the user gives ---------------------------------------------------------


def _limits(max_std: ArrayLike | Mapping[str, float], plant: Plant) -> NDArray:
    """Return limits (p,), infinite where there is none."""
    outputs = plant.outputs
    if isinstance(max_std, Mapping):
        unknown = [str(name) for name in max_std if name not in outputs]
        if unknown:
            raise ValueError(
                f"max_std: {', '.join(unknown)} is no output of the plant; known outputs: "
                f"{', '.join(outputs)}"
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


def _check_limit(noise: OutputNoise, limits: NDArray) -> None:
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


def _looser_budget(noise: OutputNoise, ratio: float) -> str:
    """Return a budget under which noise ``ratio`` times smaller is enough, in words."""
    request = noise.request
    loss = by_kind(noise.guarantee.loss)[0].repeated(request.releases)
    if noise.family == "laplace":
        return f"epsilon = {loss.pure * ratio:.3g}"
    shift = loss.gdp * ratio
    budget = request.without_miss().budget
    if budget.gdp is not None:
        return f"a budget of gdp = {shift:.3g}"
    epsilon = PrivacyLoss.gaussian(shift).epsilon(budget.delta)
    if not math.isfinite(epsilon):
        return f"a budget of gdp = {shift:.3g}"
    return f"epsilon = {epsilon:.3g} at delta = {budget.delta:g}"
