"""The walls that moves come nearer to, counted so that they leak no less than every move."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numerics.thresholds import ROUNDED
from ..privacy.walls import Wall
from ._shared_limits import COMPARED

#: Logarithms of density between two radii at which walls are counted together, first,
#: and by what part of the distance that grows. The last radius, relative to the first.
_APART = 0.03
_GROWING = 0.1
_LAST = 1.6
#: Moves that walls are counted for, relative to the next one, and how many.
_LEVEL = 0.9
_LEVELS = 30
#: Walls of a move that are counted one by one. The others count as many of the largest.
_ALONE = 48


def leak_of(walls: Sequence[Wall]) -> float:
    """Return the leak of walls together, rounded up."""
    return min(math.fsum(wall.leak for wall in walls) * (1 + ROUNDED), 1.0)


def envelope(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sizes (T,), falling, that dominate those (T, M) of every move in order.

    A wall's leak is convex and grows with the move, so theirs dominate too.
    """
    ordered = -np.sort(-sizes, axis=0)
    return ordered.max(axis=1) * (1 + ROUNDED)


def walls_at(
    radius: float, moves: NDArray[np.float64], dimension: int = 1
) -> list[Wall]:
    """Return walls at a radius that are come nearer to by falling moves (T,)."""
    if not moves.size or not moves[0] > 0:
        return []
    if radius - moves[0] < 1:
        return [passed(radius, float(moves[0]), dimension)]
    walls = [Wall(radius, move, 1.0, dimension) for move in moves[:_ALONE].tolist()]
    rest = moves[_ALONE:]
    if rest.size and rest[0] > 0:
        count = float(rest.sum() / rest[0])
        walls.append(Wall(radius, float(rest[0]), count * (1 + ROUNDED), dimension))
    return [wall for wall in walls if wall.move > 0]


def passed(radius: float, move: float, dimension: int = 1) -> Wall:
    """Return a wall that leaks all, for one that leaks so much that smaller noise may more."""
    return Wall(radius, max(move, 2 * radius), 1.0, dimension)


class CountedWalls:
    """Walls that changes come nearer to, counted at few radii and for few moves.

    A wall counts at the next smaller radius, and a move between two levels in parts at
    both. The leak L falls with the radius and is convex in the move, so neither makes it
    smaller. With the counts N(b, j) of a change, of all walls up to radius b that it moves
    by level j or more, the leaks of its walls are the sum of N(b, j) times

        L(b, j) - L(b, j + 1) - L(b + 1, j) + L(b + 1, j + 1) >= 0,

    which is no less than zero since a leak grows the slower, the farther its wall is. So
    walls leak at least as much as every change if none of their N(b, j) is smaller.
    """

    def __init__(self, radii: NDArray[np.float64], largest: float) -> None:
        """Count at ``radii`` (P,) of places, and for moves up to the largest."""
        order = np.argsort(radii, kind="stable")
        self._places = order[: np.isfinite(radii).sum()]
        rising = radii[self._places]
        # in proportion, so that walls of noise of another size are counted alike
        edges = [COMPARED]
        while edges[-1] < _LAST * COMPARED:
            gap = _APART + _GROWING * (edges[-1] ** 2 - COMPARED**2) / 2
            edges.append(math.sqrt(edges[-1] ** 2 + 2 * gap))
        bins = np.searchsorted(edges, rising / rising[0] * COMPARED, side="right")
        self._starts = np.flatnonzero(np.diff(bins, prepend=-1))
        self._bins = np.repeat(
            np.arange(len(self._starts)), np.diff(self._starts, append=len(bins))
        )
        self.radii = rising[self._starts]
        self.levels = largest * (1 + ROUNDED) * _LEVEL ** np.arange(_LEVELS)
        self.counts = np.zeros((len(self.radii), _LEVELS))

    def include(self, moves: NDArray[np.float64]) -> None:
        """Count what changes (blocks, P, M) move, if it is more than what is counted."""
        moved = np.minimum(moves[:, self._places], self.levels[0])
        least = self.levels[-1]
        block, place, change = np.nonzero(moved > least)
        sizes = moved[block, place, change]
        upper = np.searchsorted(-self.levels, -sizes, side="right") - 1
        upper = np.minimum(upper, _LEVELS - 2)
        high = self.levels[upper]
        low = self.levels[upper + 1]
        shares = (sizes - low) / (high - low)
        shape = (len(self.radii), _LEVELS, moves.shape[2])

        def counted(
            levels: NDArray[np.intp], parts: NDArray[np.float64]
        ) -> NDArray[np.float64]:
            index = (self._bins[place], levels, change)
            flat = np.ravel_multi_index(index, shape)
            # its stub takes the sums of weights for counts
            sums: NDArray[Any] = np.bincount(flat, parts, math.prod(shape))
            return sums.reshape(shape)

        count = counted(upper, shares) + counted(upper + 1, 1 - shares)
        or_more = np.cumsum(count, axis=1)
        # of the least level smaller moves count too, in parts
        parts = np.minimum(moved, least).sum(axis=0) / least
        or_more[:, -1] = np.add.reduceat(parts, self._starts, axis=0)
        up_to_radius = np.cumsum(or_more, axis=0)
        self.counts = np.maximum(self.counts, up_to_radius.max(axis=2))

    def walls(self) -> list[Wall]:
        """Return walls whose counts are nowhere smaller."""
        found = []
        before = np.zeros(_LEVELS)
        for radius, counts in zip(self.radii.tolist(), self.counts, strict=True):
            more = np.maximum.accumulate(np.maximum(counts - before, 0.0))
            before = before + more
            for move, count in zip(
                self.levels.tolist(), np.diff(more, prepend=0.0).tolist(), strict=True
            ):
                if count > 0:
                    found.append(Wall(radius, move, count * (1 + ROUNDED)))
        found.sort(key=lambda wall: wall.radius - wall.move)
        if found and found[0].radius - found[0].move < 1:
            return [passed(found[0].radius, found[0].move)]
        return found


def for_events(walls: Sequence[Wall], events: int) -> tuple[Wall, ...]:
    """Return walls that several changes of a run move together."""
    return tuple(wall.scaled(float(events)) for wall in walls)


def joined(
    first: NDArray[np.float64], second: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the larger of two falling sequences, place by place."""
    length = max(len(first), len(second))
    padded = [np.pad(each, (0, length - len(each))) for each in (first, second)]
    return np.maximum(*padded)
