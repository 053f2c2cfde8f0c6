"""The contribution of a sensor's grid to the shift of noise.

Readings that are rounded to steps h differ by up to h more than the outputs do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..core.noise import family_of
from ..numerics.errors import PrivacyError
from ..numerics.linalg import float_above
from ..numerics.thresholds import ROUNDED
from ..systems.gain import largest_gain
from ..systems.linear import LinearSystem
from .parts import NoisePart, PartSum


def grid_shift(
    parts: Sequence[NoisePart],
    resolution: NDArray[np.float64] | None,
    horizon: float,
    family: str = "gaussian",
) -> float:
    """Bound a sensor grid's contribution to the shift of noise, zero without a grid.

    Two readings differ by up to a step h_i more than the outputs do, at each of T samples.
    With a white floor f that is at most the norm of all h_i / f_i. Filtered Gaussian
    noise M nu leaves at most sqrt(T p) times the largest gain of M^-1 diag(h). Of several
    parts the smallest bound holds.

    Raises
    ------
    PrivacyError
        If no part is drawn again at every output and sample.
    """
    if resolution is None:
        return 0.0
    run = int(horizon)
    white = PartSum(parts).white
    bounds = []
    if white.all():
        norm = family_of(family).shift_norm
        bounds.append(shift_of_resolution(resolution, white, run, norm))
    for part in parts:
        if part.drive is not None and part.drive[0] is None:
            _, shaping = part.drive
            steps = LinearSystem.gain(np.diag(resolution))
            left = shaping.inverse().after(steps)
            entries = run * len(resolution)
            bound = largest_gain(left) * math.sqrt(entries)
            bounds.append(float_above(bound * (1 + ROUNDED)))
    if not bounds:
        raise PrivacyError(
            "resolution: readings on a grid need noise that is drawn again at every "
            "output and sample; add a white floor (floor=...)"
        )
    return min(bounds)


def shift_of_resolution(
    resolution: NDArray[np.float64] | None,
    sizes: NDArray[np.float64],
    horizon: int,
    norm: int,
) -> float:
    """Return the largest contribution of a sensor's grid to every shift, rounded up.

    Two readings on a grid h differ by up to h more than the outputs do, at each sample.
    Independent noise of the given sizes (p,) whitens that to (h / size) at each of T p
    entries. Other parts of the noise can only lower it.
    """
    if resolution is None:
        return 0.0
    entries = np.tile(resolution / sizes, horizon)
    rounding = 1 + 1e-15 * len(entries)
    size = np.linalg.norm(entries, ord=norm)
    return float_above(size * rounding, 2)
