"""Laws of the standard entries of noise: Gaussian, Laplace, ball, blocks and truncated.

A law is apart from the shape that the entries are multiplied with. All of these are
Gaussian given some random sizes, a share of the variance for each entry, so tails of sums
with Gaussian numbers are tails of Gaussian numbers in the mean over the shares.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import lazy_loader
import numpy as np
from numpy.typing import NDArray

from ..numerics.linalg import column_norms

if TYPE_CHECKING:
    import scipy.special
else:
    scipy = lazy_loader.load("scipy")  # a device that only publishes does without it

#: Cells of a share's distribution while its tail falls by a factor e. Each counts with its
#: largest share, and what is beyond the last one with all.
_CELLS = 24
#: Sizes at which a tail is evaluated. The next larger one is returned.
_SIZES = 200


class Law(ABC):
    """The joint law of standard entries eta, independent of what they are multiplied with."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What ``family=`` calls it."""

    @property
    @abstractmethod
    def unit_variance(self) -> float:
        """Variance of one entry."""

    @abstractmethod
    def standard(
        self, rng: np.random.Generator, shape: tuple[int, ...]
    ) -> NDArray[np.float64]:
        """Draw entries of a ``shape`` from the generator ``rng``.

        The last axis is that of entries with a joint law.
        """

    # -- tails -------------------------------------------------------------------------

    @abstractmethod
    def shares(
        self, tails: NDArray[np.float64], count: int
    ) -> tuple[NDArray[np.float64], float]:
        """Return shares k of the variance that are exceeded with probabilities ``tails``.

        Given k, ``count`` entries are Gaussian numbers of at most k times the variance.
        The law is at most so many times, the second number, as likely as that mixture.
        """

    def _mixture(
        self, tail: float, count: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return shares, the last one infinite, with probabilities that bound the law's."""
        last = 1e-4 * tail
        cells = math.ceil(_CELLS * math.log(1 / last))
        tails = np.geomspace(1.0, last, cells + 1)
        shares, times = self.shares(tails[1:], count)
        masses = np.append(tails[:-1] - tails[1:], tails[-1])
        return np.append(shares, np.inf), times * masses

    def multiple(self, tail: float, count: int) -> float:
        """Return m with P(|e| > m std of e) <= ``tail``, rounded up.

        e is a combination of ``count`` entries and of independent Gaussian numbers, whose
        part of the variance is not known.
        """
        shares, masses = self._mixture(tail, count)
        roots = np.sqrt(np.maximum(shares, 1.0))

        def chance(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
            return 2 * scipy.special.ndtr(-sizes[:, None] / roots) @ masses

        return float(_least_sizes(chance, np.array([tail]))[0])

    def radii(
        self, tails: NDArray[np.float64], count: int, *, alone: bool
    ) -> NDArray[np.float64]:
        """Return c with P(|F^-1/2 v| > c) <= each of the ``tails``, rounded up.

        v is the vector (count,) of entries of variance one, plus independent Gaussian
        numbers of the covariance F - I. ``alone`` says that there are none, F = I.
        """
        shares, masses = self._mixture(float(min(tails)), count)
        if not alone:
            shares = np.maximum(shares, 1.0)

        def chance(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
            return _beyond(sizes[:, None] ** 2 / shares, count) @ masses

        return _least_sizes(chance, tails)


@dataclass(frozen=True)
class GaussianLaw(Law):
    """Independent standard normal entries."""

    name = "gaussian"
    unit_variance = 1.0

    def standard(
        self, rng: np.random.Generator, shape: tuple[int, ...]
    ) -> NDArray[np.float64]:
        """Draw entries of a ``shape`` from the generator ``rng``."""
        return rng.standard_normal(shape)

    def shares(
        self, tails: NDArray[np.float64], count: int
    ) -> tuple[NDArray[np.float64], float]:
        return np.ones(len(tails)), 1.0

    def multiple(self, tail: float, count: int) -> float:
        return -float(scipy.special.ndtri(tail / 2))

    def radii(
        self, tails: NDArray[np.float64], count: int, *, alone: bool
    ) -> NDArray[np.float64]:
        return np.sqrt(scipy.special.chdtri(count, tails))


@dataclass(frozen=True)
class LaplaceLaw(Law):
    """Independent Laplace entries of scale one, Gaussian given an exponential variance."""

    name = "laplace"
    unit_variance = 2.0

    def standard(
        self, rng: np.random.Generator, shape: tuple[int, ...]
    ) -> NDArray[np.float64]:
        """Draw entries of a ``shape`` from the generator ``rng``."""
        return rng.laplace(size=shape)

    def shares(
        self, tails: NDArray[np.float64], count: int
    ) -> tuple[NDArray[np.float64], float]:
        # the largest of as many exponential numbers: 1 - (1 - e^-k)^count = tail
        each = -np.expm1(np.log1p(-tails) / count)
        return -np.log(each), 1.0

    def multiple(self, tail: float, count: int) -> float:
        """Return m as `Law.multiple` does, by Chernoff's bound where that is smaller.

        Of all combinations of variance one a single entry has the largest moment
        generating function, 1 / (1 - s^2/2), since -log(1 - x) is convex and 0 at 0.
        """

        def chance(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
            s = (np.sqrt(1 + 2 * sizes**2) - 1) / sizes
            return 2 * np.exp(-s * sizes - np.log1p(-(s**2) / 2))

        chernoff = float(_least_sizes(chance, np.array([tail]))[0])
        return min(chernoff, super().multiple(tail, count))


@dataclass(frozen=True)
class BallLaw(Law):
    """Entries of joint density exp(-|eta|), within a radius where there is a ``bound``.

    They are Gaussian numbers times the length of ``dimension`` + 1 others.
    """

    dimension: int
    bound: float = math.inf

    @property
    def name(self) -> str:
        return "truncated" if self.is_cut else "ball"

    @property
    def is_cut(self) -> bool:
        """Whether no entries lie beyond a radius."""
        return self.bound < math.inf

    @cached_property
    def kept(self) -> float:
        """The share of the law without a bound that lies within it."""
        return float(scipy.special.gammainc(self.dimension, self.bound))

    @cached_property
    def unit_variance(self) -> float:
        r = self.dimension
        return (r + 1) * float(scipy.special.gammainc(r + 2, self.bound)) / self.kept

    def standard(
        self, rng: np.random.Generator, shape: tuple[int, ...]
    ) -> NDArray[np.float64]:
        if not shape[-1]:  # nothing is drawn
            return np.zeros(shape)
        if len(shape) == 1:
            return self.standard(rng, (1, *shape))[0]
        eta = self._unbounded(rng, shape[0])
        beyond = np.flatnonzero(column_norms(eta.T) > self.bound)
        while beyond.size:
            eta[beyond] = self._unbounded(rng, len(beyond))
            left = column_norms(eta[beyond].T) > self.bound
            beyond = beyond[left]
        return eta

    def _unbounded(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        r = self.dimension
        lengths = np.sqrt(rng.chisquare(r + 1, size=count))
        return rng.standard_normal((count, r)) * lengths[:, None]

    def shares(
        self, tails: NDArray[np.float64], count: int
    ) -> tuple[NDArray[np.float64], float]:
        # what is within the bound is at most 1 / kept times as likely as without it
        lengths = scipy.special.chdtri(self.dimension + 1, tails)
        return lengths / self.unit_variance, 1 / self.kept

    def radii(
        self, tails: NDArray[np.float64], count: int, *, alone: bool
    ) -> NDArray[np.float64]:
        """Return c as `Law.radii` does, never more than where all entries are the largest.

        |F^-1/2 v| is at most |eta| plus the length of Gaussian numbers of less than the
        covariance I.
        """
        found = super().radii(tails, count, alone=alone)
        largest = self.bound / math.sqrt(self.unit_variance)
        rest = 0.0 if alone else np.sqrt(scipy.special.chdtri(count, tails))
        return np.minimum(found, largest + rest)


@dataclass(frozen=True)
class BlockLaw(Law):
    """Independent blocks of entries, each of a `BallLaw` of so many, of variance one."""

    sizes: tuple[int, ...]

    name = "ball"
    unit_variance = 1.0

    @cached_property
    def units(self) -> tuple[float, ...]:
        """What the entries of each block of density exp(-|eta|) are multiplied with."""
        return tuple(1 / math.sqrt(size + 1) for size in self.sizes)

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """Which entries each block has."""
        ends = list(accumulate(self.sizes))
        return tuple(map(slice, [0, *ends[:-1]], ends))

    def standard(
        self, rng: np.random.Generator, shape: tuple[int, ...]
    ) -> NDArray[np.float64]:
        """Draw entries of a ``shape`` from the generator ``rng``."""
        drawn = []
        for size, unit in zip(self.sizes, self.units, strict=True):
            drawn.append(unit * BallLaw(size).standard(rng, (*shape[:-1], size)))
        return np.concatenate(drawn, axis=-1)

    def lengths(self, entries: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the lengths (blocks, M) of blocks of entries (r, M), before their unit."""
        found = []
        for block, unit in zip(self.blocks, self.units, strict=True):
            found.append(column_norms(entries[block]) / unit)
        return np.array(found)

    def shares(
        self, tails: NDArray[np.float64], count: int
    ) -> tuple[NDArray[np.float64], float]:
        # one of the blocks exceeds its share with at most the sum of their tails
        each = tails / len(self.sizes)
        found = [
            scipy.special.chdtri(size + 1, each) / (size + 1)
            for size in set(self.sizes)
        ]
        return np.max(found, axis=0), 1.0


def _beyond(squares: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return P(|g|^2 > each of the ``squares``) of ``count`` standard normal numbers.

    Of one and two in closed form, which takes a tenth of the time.
    """
    if count == 1:
        return scipy.special.erfc(np.sqrt(squares / 2))
    if count == 2:
        return np.exp(-squares / 2)
    return scipy.special.chdtrc(count, squares)


def _least_sizes(
    chance: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    tails: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the least sizes whose chance is at most each tail, rounded up."""

    def at(size: float) -> float:
        return float(chance(np.array([size]))[0])

    high = low = 1.0
    while at(high) > tails.min():
        high *= 1.5
    while at(low) <= tails.max():
        low /= 1.5
    sizes = np.geomspace(low, high, _SIZES)
    chances = np.minimum.accumulate(chance(sizes))
    return sizes[np.searchsorted(-chances, -tails)]
