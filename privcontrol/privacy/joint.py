"""mu of Gaussian differential privacy of several bounded losses together.

The root of the sum of squares of what each coordinate has on its own is a bound, and up to
25 % above the smallest one: a Laplace number that moves by a small a is 1.253 a-GDP, and
many of them behave like a Gaussian number that moves by a sqrt(n). Here the losses are
put on a grid from above, convolved, and compared with Gaussian curves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from ..numerics.linalg import EPS, smallest
from ..numerics.thresholds import LARGEST_SIZE, ROUNDED
from .budget import kappa_of_levels

#: Coordinates whose distribution is found as one, the largest first.
_TOGETHER = 32
#: The largest epsilon of a group, up to which no double underflows.
_LARGEST = 300.0
#: Steps of the grid in the root of the sum of squares of a group's epsilons. A coordinate's
#: variance grows by at most a step's square, so mu by less than 3e-4 of itself.
_STEPS = 256
#: The same of coordinates alike, whose delta is compared with a budget.
_FINE_STEPS = 1024
#: Levels at which the curves are compared.
_LEVELS = 129
#: Relative precision of mu, of a rate and of a size that take a convolution at each trial.
PRECISION = 1e-5


class BoundedLoss(Protocol):
    """A coordinate of symmetric loss, never above ``size``."""

    @property
    def size(self) -> float:
        """The largest loss."""

    @property
    def gdp(self) -> float:
        """mu of this coordinate alone."""

    def delta(self, levels: ArrayLike) -> NDArray[np.float64]:
        """Return delta at these levels of epsilon, at least zero."""


Counted = tuple[BoundedLoss, int]


def joint_gdp(counted: Sequence[Counted]) -> float:
    """Return mu of independent coordinates, each with how often it occurs, rounded up.

    mu of a group of them follows from its distribution, and the squares of groups add
    (:cite:t:`DongRothSu2022`, Corollary 3.3).
    """
    sizes = [math.sqrt(times) * _group_gdp(group) for group, times in _groups(counted)]
    return math.hypot(*sizes) * (1 + 64 * EPS)


def alone_gdp(one: BoundedLoss, most: float) -> float:
    """Return mu of one coordinate by its curve, at most ``most``, which is known."""
    if not 1 / LARGEST_SIZE <= one.size <= _LARGEST:
        return most
    levels, deltas = _curve([(one, 1)])

    def holds(mu: float) -> bool:
        return _is_below_gaussian(levels, deltas, mu)

    if not holds(most):
        return most
    return smallest(holds, 0.0, most, tolerance=PRECISION, limit=most)


def joint_delta(one: BoundedLoss, count: int, epsilon: float) -> float:
    """Return delta of ``count`` independent coordinates alike at a level, rounded up.

    It is within 1e-4 of itself, and takes a few milliseconds for some coordinates.
    """
    if count == 1:
        return float(one.delta(epsilon))
    if one.size > _LARGEST:
        return 1.0
    step = math.sqrt(count) * one.size / _FINE_STEPS
    own = _on_grid(one, step)
    masses = np.ones(1)
    for bit in f"{count:b}":
        masses = np.convolve(masses, masses)
        if bit == "1":
            masses = np.convolve(masses, own)
    losses = step * (np.arange(len(masses)) - len(masses) // 2)
    beyond = losses[losses > epsilon]
    excess = np.exp(epsilon) * np.expm1(beyond - epsilon)  # e^l - e^epsilon
    return min(float(masses[losses > epsilon] @ excess) * (1 + ROUNDED), 1.0)


def _groups(counted: Sequence[Counted]) -> list[tuple[tuple[Counted, ...], int]]:
    """Return groups of coordinates near in size, each with how often it occurs."""
    found: list[tuple[list[Counted], int]] = []
    group: list[Counted] = []
    room = _TOGETHER
    for one, count in sorted(counted, key=lambda pair: -pair[0].size):
        if count >= _TOGETHER:
            full, count = divmod(count, _TOGETHER)
            found.append(([(one, _TOGETHER)], full))
        if not count:
            continue
        if not group or count > room:
            group = []
            room = _TOGETHER
            found.append((group, 1))
        group.append((one, count))
        room -= count
    return [(tuple(group), times) for group, times in found]


@lru_cache(maxsize=256)
def _group_gdp(group: tuple[Counted, ...]) -> float:
    """Return mu of one group, at most the root of the sum of squares."""
    alone = math.hypot(*(math.sqrt(count) * one.gdp for one, count in group))
    alone *= 1 + 64 * EPS
    largest = math.fsum(count * one.size for one, count in group)
    tiny = group[-1][0].size < 1 / LARGEST_SIZE
    if sum(count for _, count in group) == 1 or tiny or largest > _LARGEST:
        return alone
    levels, deltas = _curve(group)

    def holds(mu: float) -> bool:
        return _is_below_gaussian(levels, deltas, mu)

    if not holds(alone):
        return alone
    return smallest(holds, 0.0, alone, tolerance=PRECISION, limit=alone)


def _curve(group: Sequence[Counted]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return levels from 0 to the largest loss, and a delta of the group at each.

    Between two levels delta is at most linear in e^epsilon, in which it is convex.
    """
    spread = math.hypot(*(math.sqrt(count) * one.size for one, count in group))
    step = spread / _STEPS
    masses = np.ones(1)
    for one, count in group:
        own = _on_grid(one, step)
        for _ in range(count):
            masses = np.convolve(masses, own)  # of positive numbers, by their sums
    half = len(masses) // 2
    levels = step * np.arange(half + 1)
    # sum of m_j (e^l_j - e^l) over l_j > l, added up from the largest loss
    beyond = np.cumsum(masses[:half:-1])[::-1]
    rises = np.exp(levels[:-1]) * np.expm1(step)
    deltas = np.append(np.cumsum((rises * beyond)[::-1])[::-1], 0.0)
    stride = max(1, half // (_LEVELS - 1))
    chosen = np.unique([*range(0, half, stride), half])
    return levels[chosen], deltas[chosen] * (1 + ROUNDED)


def _on_grid(one: BoundedLoss, step: float) -> NDArray[np.float64]:
    """Return masses (2 k + 1,) of the smaller law at losses -k step, ..., k step.

    The curve of these masses is linear in e^epsilon between the grid's points, where it is
    that of the coordinate. So it is above it in between (Doroshenko, Ghazi, Kamath, Kumar
    and Manurangsi, Connect the Dots, 2022).
    """
    last = math.ceil(one.size / step)
    levels = step * np.arange(-last, last + 1)
    ahead = one.delta(np.abs(levels))
    # delta(-l) = 1 - e^-l + e^-l delta(l), because the two laws may be exchanged
    deltas = np.where(levels < 0, -np.expm1(levels) + np.exp(levels) * ahead, ahead)
    deltas[-1] = 0.0
    slopes = np.diff(deltas) / (np.exp(levels[:-1]) * np.expm1(step))
    # below the grid the slope is -1, and above it 0
    masses = np.diff(np.concatenate([[-1.0], slopes, [0.0]]))
    return np.maximum(masses, 0.0)


def _is_below_gaussian(
    levels: NDArray[np.float64], deltas: NDArray[np.float64], mu: float
) -> bool:
    """Return whether a curve that is convex in e^epsilon is below that of mu-GDP.

    So is the Gaussian curve convex, with the slope -Phi(-epsilon / mu - mu / 2), and
    below its chord by at most a quarter of the interval times the change of slope.
    """
    allowed = kappa_of_levels(levels, mu)
    tails = -levels / mu - mu / 2
    starts = levels[:-1]
    steeper = np.exp(starts + log_ndtr(tails[:-1]))
    flatter = np.exp(starts + log_ndtr(tails[1:]))
    quarter = np.expm1(np.diff(levels)) / 4
    sag = quarter * np.abs(steeper - flatter) * (1 + ROUNDED)
    lower = allowed * (1 - ROUNDED)
    left = deltas[:-1] + sag <= lower[:-1]
    right = deltas[1:] + sag <= lower[1:]
    return bool(left.all() and right.all())
