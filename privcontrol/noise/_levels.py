"""Several levels of one signal, and what they share behind noise without a horizon.

With the correlations rho of what is left of impulses, levels of k and l samples of which the
second one begins m samples later share the sum of rho(m + j - i) over i < k and j < l. Each
is a difference of double sums of rho. A dynamic program goes through the changes in the
order of time. It knows the length of the last one and the signs of the last few.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..numerics.linalg import EPS, largest_later
from ..numerics.objects import ByContent
from ..privacy.repetition import Spacing

#: Changes of which the sign is known, and number of sums above which nothing is told apart.
_SIGNED = 3
_MOST_SUMS = 10**8


class LevelProducts:
    """Inner products of levels, from correlations (T,) at lags from zero on."""

    def __init__(self, correlations: NDArray[np.float64]) -> None:
        self.both = np.concatenate([correlations[:0:-1], correlations])
        once = np.cumsum(self.both)
        self._twice = np.concatenate([[0.0, 0.0], np.cumsum(once)])
        self._zero = len(correlations) + 1  # of the double sum at lag zero
        largest = float(np.abs(np.cumsum(np.abs(self.both))).max())
        self.rounding = 8 * len(self.both) ** 2 * EPS * largest

    def __call__(
        self, first: NDArray[np.intp], second: NDArray[np.intp], lags: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """Return what levels of some lengths share, of which the second one is later."""
        at = self._zero + lags
        later = self._twice[at + second - 1] - self._twice[at - 1]
        earlier = self._twice[at + second - first - 1] - self._twice[at - first - 1]
        return later - earlier

    def are_any(
        self, values: NDArray[np.bool_], lags: NDArray[np.intp], longest: int
    ) -> NDArray[np.bool_]:
        """Return at which lags any value is true of those that the longest levels sum."""
        counts = np.concatenate([[0], np.cumsum(values)])
        at = self._zero + lags
        return counts[at + longest - 2] > counts[at - longest - 1]


@dataclass(frozen=True, eq=False)
class Levels(ByContent):
    """Levels of radius one and at most so many samples.

    Attributes
    ----------
    correlations : ndarray, shape (T,)
        Of what is left of impulses, at lags from zero on.
    error : float
        Of each of them at most.
    longest : int
        Samples of a level at most.
    beyond : float
        No correlation at a lag of T - 2 k or more is larger.
    """

    correlations: NDArray[np.float64]
    error: float
    longest: int
    beyond: float

    @cached_property
    def _products(self) -> LevelProducts:
        return LevelProducts(self.correlations)

    @property
    def _wrong(self) -> float:
        """Bound of the errors of a product."""
        return self.longest**2 * self.error + self._products.rounding

    @cached_property
    def shared(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bounds (T - k + 1,) of what two levels share that begin so far apart or more.

        Those of levels of one sign come first, then those of opposite signs. Where no two
        correlations that are summed have opposite signs, the longest levels share most.
        """
        products, longest = self._products, np.array(self.longest)
        lags = np.arange(len(self.correlations) - self.longest)
        whole = products(longest, longest, lags)
        largest = np.maximum(whole, 0.0)
        least = np.minimum(whole, 0.0)
        is_mixed = products.are_any(products.both > 0, lags, self.longest)
        is_mixed &= products.are_any(products.both < 0, lags, self.longest)
        every = [np.array(length) for length in range(1, self.longest + 1)]
        for first, second in itertools.product(every, repeat=2):
            own = products(first, second, lags[is_mixed])
            largest[is_mixed] = np.maximum(largest[is_mixed], own)
            least[is_mixed] = np.minimum(least[is_mixed], own)
        further = self.longest**2 * self.beyond
        return (
            with_later(largest + self._wrong, further),
            with_later(self._wrong - least, further),
        )

    def at(self, lag: int) -> NDArray[np.float64]:
        """Return both bounds (2,) at a lag."""
        alike, opposed = self.shared
        place = min(lag, len(alike) - 1)
        return np.array([alike[place], opposed[place]])

    @cached_property
    def _energies(self) -> NDArray[np.float64]:
        """Bounds (k,) of the energies of levels, by their lengths."""
        every = np.arange(1, self.longest + 1)
        return self._products(every, every, np.zeros_like(every)) + self._wrong

    def _in_a_row(
        self, separation: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bound (k, k) what levels share that follow one another, by their lengths.

        Those of levels of one sign come first.
        """
        near = separation + 2 * self.longest
        near = min(near, len(self.correlations) - self.longest)
        later = self.at(max(near, separation))
        alike, opposed = (np.full((self.longest, self.longest), own) for own in later)
        every = np.arange(1, self.longest + 1)
        for lag in range(separation, near):
            own = self._products(every[:, None], every[None, :], np.array(lag))
            alike = np.maximum(alike, own + self._wrong)
            opposed = np.maximum(opposed, self._wrong - own)
        return alike, opposed

    def square(self, spacing: Spacing) -> float:
        """Bound the energy of several levels at a distance. It may be infinite.

        Each shares with the one before what their lengths and signs say, and with earlier
        ones what their signs say, as far as these are known.
        """
        count = spacing.events
        signed = min(count - 1, _SIGNED)
        patterns = 1 << signed
        sums_of_pair = count * patterns + 2 * self.longest
        if sums_of_pair * self.longest**2 > _MOST_SUMS:
            return math.inf
        shared = np.array([self.at(lag) for lag in spacing.lags])
        in_a_row = self._in_a_row(spacing.separation)
        # whether each of the last ones has another sign than plus
        differs = np.arange(patterns)[:, None] >> np.arange(signed) & 1
        earlier = np.where(differs, shared[:signed, 1], shared[:signed, 0])[:, 1:]
        # the largest sum, by the length of the last level and the signs of the last ones
        sums = np.repeat(self._energies[:, None], patterns, axis=1)
        for known in range(1, count):
            gain = 2 * earlier[:, : known - 1].sum(axis=1)
            sums = self._with_another(sums, gain, in_a_row)
        places = np.arange(signed + 1, count)
        further = float(np.dot(count - places, shared[signed:].max(axis=1, initial=0)))
        return (float(sums.max()) + 2 * further) * (1 + 16 * count * EPS)

    def _with_another(
        self,
        sums: NDArray[np.float64],
        gain: NDArray[np.float64],
        in_a_row: tuple[NDArray[np.float64], NDArray[np.float64]],
    ) -> NDArray[np.float64]:
        """Return the largest sums (k, patterns) with one more level, by its length and sign.

        ``gain`` (patterns,) is what a level of plus sign shares with those before the last
        one, and ``in_a_row`` what it shares with that. The sign of the earliest level that
        was known is forgotten.
        """
        alike, opposed = (2 * each for each in in_a_row)
        patterns = len(gain)
        best = np.empty((2, self.longest, patterns))
        for sign, gains in enumerate([gain, gain[::-1]]):
            for pattern in range(patterns):
                is_same = pattern & 1 == sign
                shared = alike if is_same else opposed
                most = (sums[:, [pattern]] + shared).max(axis=0)
                best[sign, :, pattern] = most + self._energies + gains[pattern]
        ended = best.reshape(2, self.longest, 2, -1).max(axis=2)
        return np.moveaxis(ended, 0, 2).reshape(self.longest, -1)


def with_later(shared: NDArray[np.float64], further: float) -> NDArray[np.float64]:
    """Return bounds of what is shared at a lag and all later ones, ``further`` after them."""
    return largest_later(np.append(shared, further)) * (1 + 16 * EPS)
