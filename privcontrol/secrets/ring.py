"""Plants of units around a ring, each coupled to its neighbours on both sides alike.

Such a plant is the same from each unit. With blocks A_d from the unit d places away, A_d =
A_-d, the waves around the ring do not mix: wave k is a system of the size of one unit with

    A(k) = sum_d A_d cos(2 pi k d / N),

and B, C and D alike. Each wave but 0 and N / 2 comes twice, as a cosine and as a sine. A
plant need not be symmetric to the last digit. `Ring` says how far it is from one that is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..numerics.linalg import EPS
from ..numerics.thresholds import ROUNDED, SYMMETRIC
from ..systems.linear import LinearSystem, Stacks
from .secret import SecretInputs

#: Units of the smallest ring: three are all neighbours of each other.
FEWEST = 4
#: Roundings of a cosine whose angle is rounded, with a margin.
_OF_COSINE = 16


def waves_of(count: int) -> NDArray[np.intp]:
    """Return how often each wave around N units comes: (1, 2, .., 2, 1 or 2)."""
    waves = np.arange(count // 2 + 1)
    return np.where((waves == 0) | (2 * waves == count), 1, 2)


@dataclass(frozen=True, eq=False)
class Ring:
    """A plant of N units around a ring, next to one that is given.

    Attributes
    ----------
    count : int
        N.
    systems : tuple of LinearSystem
        Of the waves 0 .. N / 2, from one input to one output, exact as they are.
    secret : SecretInputs
        The changes of one unit's input, as those of a system with one input.
    distances : tuple of float
        Bounds of the spectral norms of what A, B, C and D differ by.
    """

    count: int
    systems: tuple[LinearSystem, ...]
    secret: SecretInputs
    distances: tuple[float, float, float, float]

    @classmethod
    def near(cls, system: LinearSystem, one: SecretInputs) -> Ring | None:
        """Return the ring next to a plant, None where it is no such plant.

        The outputs are those of the units in their order around the ring, and the states
        of a unit stand together, or those that are alike. The inputs have any order, since
        the secret is a change of any one of them.
        """
        N = system.input_count
        m, others = divmod(system.order, N)
        if N < FEWEST or system.output_count != N or others:
            return None
        by_unit = np.arange(system.order).reshape(N, m)
        by_kind = np.arange(system.order).reshape(m, N).T
        for places in (by_unit, by_kind):
            found = _around(_with_inputs_in_order(system, places), places)
            if found is not None:
                return cls(N, found[0], one, found[1])
        return None

    @property
    def sizes(self) -> NDArray[np.intp]:
        """How often each wave comes (N / 2 + 1,)."""
        return waves_of(self.count)

    @cached_property
    def stacks(self) -> Stacks:
        """A, B, C and D of all waves, with those in front."""
        matrices = zip(*(system.matrices for system in self.systems), strict=True)
        A, B, C, D = map(np.stack, matrices)
        return A, B, C, D

    def effects(self, samples: int) -> float:
        """Return the largest effect of a change of a unit on its own output."""
        count = self.secret.longest + samples
        A, B, C, D = self.stacks
        shares = self.sizes / self.count
        impulse = np.empty(count)
        impulse[0] = shares @ D[:, 0, 0]
        states = B
        for t in range(1, count):
            impulse[t] = shares @ (C @ states)[:, 0, 0]
            states = A @ states
        found = []
        for moves in self.secret.signals:
            found += [moves.radius * np.convolve(impulse, v) for v in moves.variants]
        for window in self.secret.windows:
            within = np.convolve(np.abs(impulse), np.ones(window.longest))
            found.append(window.radii[0] * within)
        return max(float(np.abs(effect[:count]).max()) for effect in found)


def _with_inputs_in_order(
    system: LinearSystem, places: NDArray[np.intp]
) -> LinearSystem:
    """Return the system with the input of each unit in turn, by the states that it moves.

    It is unchanged where two inputs move the same unit most.
    """
    A, B, C, D = system.matrices
    moved = np.linalg.norm(B[places], axis=1)  # (N units, N inputs)
    units = moved.argmax(axis=0)
    if (np.sort(units) != np.arange(len(units))).any():
        return system
    order = np.argsort(units)
    return LinearSystem(A, B[:, order], C, D[:, order])


def _around(
    system: LinearSystem, places: NDArray[np.intp]
) -> tuple[tuple[LinearSystem, ...], tuple[float, float, float, float]] | None:
    """Return the waves' systems for states (N, m), and how far they are from the plant."""
    N = len(places)
    states, units = places.ravel(), np.arange(N)
    A, B, C, D = system.matrices
    stacks = []
    distances = []
    for matrix, rows, columns in (
        (A, states, states),
        (B, states, units),
        (C, units, states),
        (D, units, units),
    ):
        blocks = matrix[np.ix_(rows, columns)].reshape(N, len(rows) // N, N, -1)
        stack, distance = _waves(blocks)
        if distance > SYMMETRIC * np.abs(stack).max(initial=0.0) * N:
            return None
        stacks.append(stack)
        distances.append(distance)
    systems = tuple(LinearSystem(*matrices) for matrices in zip(*stacks, strict=True))
    of_A, of_B, of_C, of_D = distances
    return systems, (of_A, of_B, of_C, of_D)


def _waves(blocks: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return the waves' matrices for blocks (N, a, N, b), and their distance from these."""
    N = len(blocks)
    units = np.arange(N)
    around = np.array([blocks[units, :, (units + d) % N].mean(axis=0) for d in units])
    around = (around + around[-units]) / 2
    cosines = np.cos(2 * np.pi / N * (np.outer(units[: N // 2 + 1], units) % N))
    waves = np.tensordot(cosines, around, 1)
    # |E| <= |E|_F of what is not symmetric, and the rounding of the sums over d
    away = np.array([blocks[k] - around[units - k].swapaxes(0, 1) for k in units])
    sizes = np.linalg.norm(around, axis=(1, 2)).sum()
    wrong = np.linalg.norm(away) + (N + _OF_COSINE) * EPS * sizes
    return waves, float(wrong * (1 + ROUNDED))
