"""How much a secret changes the outputs of a plant, at most.

Whether noise is of a size that is useful is judged by that.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..numerics.thresholds import MOST_HELD, ON_CIRCLE
from ..privacy.horizon import Horizon
from ..systems.linear import Plant
from ..systems.varying import VaryingPlant
from .disturbance import DisturbanceAdjacency
from .fleet import parted, symmetric_plant
from .secret import Secret
from .secrets import Secrets

#: Samples of a run at most whose effects are looked at.
LOOKED_AT = 2000


def effects_of(
    secret: Secrets, plant: Plant, horizon: Horizon, samples: int = LOOKED_AT
) -> NDArray[np.float64]:
    """Return the largest effects (p,) of a secret on each output over some samples.

    Of several changes they are those of one. They are those of n + 1 samples after the
    longest change, or more, for a plant with n states. Later ones, up to so many
    ``samples`` and the horizon, count without the growth of unstable modes: with a
    spectral radius rho > 1, A / rho takes the place of A. Moves of data
    (x(0), ..., x(T - 1)) need the horizon T that they are of. Of a plant that varies
    they are those of n + 1 samples after each time at which the secret may move.
    """
    if not horizon.ends:
        effects = _effects_of_units(secret, plant, horizon, samples)
        if effects is not None:
            return effects
    if isinstance(plant, VaryingPlant):
        run = int(horizon)
        found = [_effects_along(part, plant, run) for part in secret.parts]
        return np.max(found, axis=0)
    first = plant.order + 1
    length = horizon.count_or(first)
    growth = growth_of(plant)
    found = []
    for part in secret.parts:
        inputs = part.starting(plant, length)
        found.append(inputs.effects(first))
        held = plant.output_count * sum(len(moves.shapes) for moves in inputs.signals)
        later = min(horizon, samples, MOST_HELD // max(held, 1)) - inputs.longest
        if part not in secret.disturbances:  # the impulse comes one sample before
            later += 1
        if later > first:
            system = inputs.system
            steady = replace(system, A=system.A / growth)
            found.append(replace(inputs, system=steady).effects(int(later)))
    return np.max(found, axis=0)


def first_effects(part: Secret, model: Plant, horizon: int) -> NDArray[np.float64]:
    """Return effects (p,) of a secret under a model, those of its first samples."""
    if isinstance(model, VaryingPlant):
        return _effects_along(part, model, horizon)
    inputs = part.starting(model, horizon)
    after = min(horizon, LOOKED_AT) - inputs.longest
    return inputs.effects(after) if after > 0 else np.zeros(model.output_count)


def _effects_of_units(
    secret: Secrets, plant: Plant, horizon: Horizon, samples: int
) -> NDArray[np.float64] | None:
    """Return the effects on each output where a plant is one of many units, else None."""
    units = parted(secret.adjacency, plant)
    if units is None:
        return None
    effects = np.zeros(plant.output_count)
    for kind in units:
        near = symmetric_plant(kind.adjacency, kind.plant)
        if near is not None:
            first = near.systems[0].order + 1
            effects[kind.outputs] = near.effects(max(samples, first))
        elif kind.plant.order < plant.order:
            own = effects_of(Secrets(kind.adjacency), kind.plant, horizon, samples)
            effects[kind.outputs] = own
        else:
            return None
    return effects


def _effects_along(
    part: Secret, plant: VaryingPlant, horizon: int
) -> NDArray[np.float64]:
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


def growth_of(plant: Plant) -> float:
    """Return the spectral radius of an unstable plant, one of others and of integrators.

    It is one of a plant that varies, too.
    """
    if plant.varies:
        return 1.0
    radius = float(np.abs(np.linalg.eigvals(plant.A)).max(initial=0.0))
    return radius if radius > (1 + ON_CIRCLE) else 1.0
