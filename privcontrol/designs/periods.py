"""What a list of plants is without a horizon: one plant, of which a sample is a period."""

from __future__ import annotations

import math

from ..core.adjacency import Adjacency
from ..secrets.disturbance import DisturbanceAdjacency
from ..secrets.states import InitialStateAdjacency, StateAdjacency
from ..systems.linear import Plant
from ..systems.varying import VaryingPlant, plant_of, repeated
from .request import Models, joined


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
    if isinstance(secret, StateAdjacency) and secret.times == (0,):
        return secret
    if not isinstance(secret, DisturbanceAdjacency) or not _is_one_sample(secret):
        raise ValueError(
            "adjacency: a list of plants without a horizon hides one change of one signal "
            "at one sample (DisturbanceAdjacency(radius)), or a displaced first state "
            "(times=0): a change over samples of two periods is no input of one. Pass a "
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
