"""What a list of plants is without a horizon: one plant, of which a sample is a period."""

from __future__ import annotations

import math

from ..core.adjacency import Adjacency
from ..secrets.secrets import Secrets
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
    secrets = Secrets(adjacency).over_periods(plant)
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
