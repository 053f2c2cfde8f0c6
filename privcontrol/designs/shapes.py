"""Costs of other shapes of a hidden change."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..core.adjacency import Adjacency
from ..secrets.disturbance import DisturbanceAdjacency
from ..systems.linear import Plant
from .designed import designed
from .output_noise import OutputNoise
from .price import Weight
from .request import Request, joined


def priced_by_shape(noise: OutputNoise, weight: Weight) -> OutputNoise:
    """Return the noise with a design that finds the price of other shapes of its change."""
    secrets = noise.request.adjacency.parts
    lasting = [part for part in secrets if _is_lasting(part)]
    design = noise.design
    if not lasting or design is None:
        return noise
    own = {part.shape for part in lasting}
    known = {own.pop(): noise.std} if len(own) == 1 else {}
    shapes = partial(_prices, noise.plant_data, noise.request, weight, known)
    return replace(noise, design=replace(design, shapes=shapes))


def _is_lasting(secret: Adjacency) -> bool:
    """Return whether a secret is a change that may be a level or of any shape."""
    if not isinstance(secret, DisturbanceAdjacency) or secret.duration == 1:
        return False
    return not (secret.is_moving or secret.together)


def _prices(
    plant: Plant,
    request: Request,
    weight: Weight,
    known: dict[str, NDArray[np.float64]],
) -> dict[str, NDArray[np.float64]]:
    """Return standard deviations (p,) of noise for both shapes of a change."""
    prices: dict[str, NDArray[np.float64]] = {}
    for shape in ("level", "any"):
        if shape in known:
            prices[shape] = known[shape]
            continue
        parts = []
        for part in request.adjacency.parts:
            parts.append(replace(part, shape=shape) if _is_lasting(part) else part)
        other = designed(request, plant, weight=weight, adjacency=joined(parts))
        prices[shape] = other.std
    return prices
