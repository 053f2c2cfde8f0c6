"""How blocks divide a limit of the noise between what they make now, soon and later."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtr

from ..numerics.thresholds import MOST_ROUNDS, ROUNDED

#: The deviations at which walls of a block are compared: leaks are small from here on.
COMPARED = 5.0
#: Part of the common multiple of all walls that an innovation's own wall has at least.
_LEAST = 0.9
#: Sizes of the ball of a state that are tried, relative to the one before, and how many.
_WIDER = 1.02
_WIDTHS = 40
#: Part of the tails that a second wall saves, if there is one.
_EARNED = 0.3


def shared_limits(
    own: NDArray[np.float64],
    near: NDArray[np.float64],
    far: NDArray[np.float64],
    limits: NDArray[np.float64],
    order: int,
) -> tuple[NDArray[np.float64], float]:
    """Return radii (2 BLOCK, views) of the walls of own and near, and that of the ball.

    All are in deviations. ``limits`` (BLOCK, views) are infinite where there is none.
    """
    walls = np.isfinite(limits) & (own + near + far > 0)
    radii = np.full((2, *walls.shape), math.inf)
    own, near, far = own[walls], near[walls], far[walls]
    # all walls and the ball at as many deviations would be possible as well
    common = float((limits[walls] / (own + near + far)).min())
    limits = limits[walls] * (COMPARED / common)
    least, ball = math.inf, COMPARED
    found = radii[:, walls]
    for width in COMPARED * _WIDER ** np.arange(_WIDTHS):
        rest = limits - width * far
        if (rest < COMPARED * (_LEAST * own + near) * (1 - ROUNDED)).any():
            break
        pair = _divided(own, near, rest, width)
        tails = float(2 * ndtr(-pair).sum())
        tails += float(chdtrc(order, width**2)) if order else 0.0
        if tails < least:
            least, ball, found = tails, float(width), pair
    radii[:, walls] = found
    return radii.reshape(-1, walls.shape[1]) * (common / COMPARED), ball * (
        common / COMPARED
    )


def _divided(
    own: NDArray[np.float64],
    near: NDArray[np.float64],
    rest: NDArray[np.float64],
    ball: float,
) -> NDArray[np.float64]:
    """Return radii (2, N) of two walls that divide ``rest``, with the least tails.

    They are least where the densities at the radii are in proportion to the deviations.
    Where the ball holds the second part cheaply enough that has no wall, and an infinite
    radius.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.full_like(own, _LEAST * COMPARED)
        high = np.maximum((rest - COMPARED * near) / own, low)
        for _ in range(MOST_ROUNDS):
            middle = (low + high) / 2
            other = (rest - middle * own) / near
            is_low = (middle**2 - other**2) / 2 < np.log(near / own)
            low = np.where(is_low, middle, low)
            high = np.where(is_low, high, middle)
        first = np.where(own > 0, low, math.inf)
        second = (rest - np.where(own > 0, low * own, 0.0)) / near
        alone = (rest - ball * near) / own
    alone = np.where(own > 0, alone, np.where(rest < ball * near, -math.inf, math.inf))
    second = np.where(near > 0, second, math.inf)
    tails = ndtr(-first) + ndtr(-second)
    cheaper = (second >= ball) | (ndtr(-alone) <= tails * (1 + _EARNED))
    cheaper &= alone >= _LEAST * COMPARED
    return np.where(cheaper, [alone, np.full_like(alone, math.inf)], [first, second])
