"""What noise leaks that never leaves a bound.

Gaussian noise e is kept within a symmetric convex set K by drawing it again, never by
clipping it. A hidden move shifts it by t, and what shows it for sure is a draw that the
other run cannot have had. With the probability of that, the leak, anything may be revealed.
Otherwise the two laws are at most |t|-GDP apart. So for every epsilon

    delta(epsilon) <= leak + (1 - leak) delta_G(epsilon; |t|).

A wall is one of the sets that K is the intersection of, |h' e| <= c std(h' e), or a ball
of some dimensions. Its leak is that of a standard Gaussian number, or vector, within c of
zero that moves by a. The leaks of walls add up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import chdtr, gammaln, ndtr

from ..numerics.checks import positive_integer, positive_number
from ..numerics.saved import Saved
from ..numerics.thresholds import ROUNDED
from .radial import chance_of, rule

#: Moves below which a leak is bounded by its density at the wall.
_TINY = 1e-5


@dataclass(frozen=True, order=True)
class Wall(Saved):
    """Hold ``count`` walls at ``radius`` that a move comes nearer to by ``move``.

    Attributes
    ----------
    radius : float
        c, in standard deviations of the noise before it is kept within.
    move : float
        a, in the same unit.
    count : float
        How many such walls there are. It need not be whole, where one represents many.
    dimension : int
        Of the ball, one for a pair of walls.
    """

    radius: float
    move: float
    count: float = 1.0
    dimension: int = 1

    def __post_init__(self) -> None:
        positive_number(self.radius, "radius")
        positive_number(self.move, "move", zero=True)
        positive_number(self.count, "count", zero=True)
        positive_integer(self.dimension, "dimension")

    @property
    def leak(self) -> float:
        """The probability that a draw shows for sure which run it is of, rounded up."""
        if self.dimension > 1:
            one = ball_leak(self.radius, self.move, self.dimension)
        else:
            one = slab_leak(self.radius, self.move)
        if one >= 1:  # whatever the count, which may be a part of one
            return 1.0
        return min(one * self.count * (1 + ROUNDED), 1.0)

    def scaled(self, factor: float) -> Wall:
        """Return the walls for moves ``factor`` times as large."""
        return Wall(self.radius, self.move * factor, self.count, self.dimension)

    def beside(self, gain: float) -> Wall:
        """Return the walls for noise that is ``gain`` times as small."""
        return Wall(self.radius * gain, self.move * gain, self.count, self.dimension)


def slab_leak(radius: float, move: float) -> float:
    """Return [Q(c - a) - Q(c)] / (1 - 2 Q(c)), one from a = c on, rounded up."""
    if move >= radius:
        return 1.0
    kept = float(ndtr(radius) - ndtr(-radius))
    if move < _TINY * min(1.0, 1 / radius):
        density = math.exp(-((radius - move) ** 2) / 2) / math.sqrt(2 * math.pi)
        lost = move * density
    else:
        lost = float(ndtr(move - radius) - ndtr(-radius))
    return chance_of(lost / kept, move)


@lru_cache(maxsize=4096)
def ball_leak(radius: float, move: float, dimension: int) -> float:
    """Return P(|e - t| > c given |e| <= c) for |t| = a in some dimensions, rounded up.

    The ball's part along t, where the other dimensions have the length r, is a pair of
    walls at sqrt(c^2 - r^2).
    """
    if move >= 2 * radius:
        return 1.0
    others = dimension - 1
    kept = float(chdtr(dimension, radius**2))
    if not kept > 0:
        return 1.0
    nodes, weights = rule()
    # r = c sin(angle), in which the walls are at c cos(angle); from the second angle on
    # the whole line between them is lost
    ends = np.array([0.0, math.acos(move / (2 * radius)), math.pi / 2])
    spans = np.diff(ends)[:, None]
    angles = (ends[:-1, None] + spans * nodes).ravel()
    weights = (spans * weights).ravel()
    lengths = radius * np.sin(angles)
    walls = radius * np.cos(angles)
    log_density = (
        (others - 1) * np.log(lengths)
        - lengths**2 / 2
        - (others / 2 - 1) * math.log(2)
        - gammaln(others / 2)
    )
    lost = ndtr(np.minimum(walls, move - walls)) - ndtr(-walls)
    together = np.exp(log_density) * lost * walls * weights
    return chance_of(float(together.sum()) / kept, move, 10 * ROUNDED)


def kept_share(wall_radius: float, dimension: int = 1) -> float:
    """Return the probability that noise is within one wall, rounded down."""
    return float(chdtr(dimension, wall_radius**2)) * (1 - ROUNDED)
