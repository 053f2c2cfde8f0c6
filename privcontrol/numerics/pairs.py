"""Arrays of sums of two doubles, with bounds of their errors.

Balls prove any number of digits, at a microsecond an entry. Where thirty digits suffice,
pairs of doubles prove them for a million entries at once. Whoever asks looks at the bounds,
and takes balls where they are too wide.

Examples
--------
>>> product = Pairs.exact(np.array([[0.1]])) @ Pairs.exact(np.array([[3.0, 0.0]]))
>>> product.high
array([[0.3, 0. ]])
>>> bool(0 < product.error[0, 0] < 1e-29), float(product.error[0, 1])
(True, 0.0)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .balls import BallMatrix, ball_matrix, enclosure, midpoints
from .linalg import EPS, round_up
from .thresholds import CACHED, LARGEST_SIZE, NEAREST, SMALLEST

#: Relative error of what is rounded twice.
_TWICE_ROUNDED = (EPS / 2) ** 2
#: Errors are zero or at least as large, so no product of two of them is zero.
_LEAST_ERROR = math.sqrt(SMALLEST)
#: Above the roundings of bounds.
_ABOVE = 1 + math.sqrt(EPS)
#: Speed: entries of a product that are made at once. A dozen arrays of them are in use.
_AT_ONCE = CACHED // 2


@dataclass(frozen=True)
class Pairs:
    """Numbers within ``error`` of ``high + low``, arrays (m, k), ``high`` the nearest double.

    An error is zero only if the pair is exact, and inf if nothing is known.
    """

    high: NDArray[np.float64]
    low: NDArray[np.float64]
    error: NDArray[np.float64]

    @classmethod
    def exact(cls, values: NDArray[np.float64]) -> Pairs:
        """Return doubles as they are."""
        none = np.zeros_like(values)
        return cls(values, none, none)

    @classmethod
    def of_balls(cls, matrix: BallMatrix) -> Pairs:
        """Return what encloses a matrix of balls."""
        high = midpoints(matrix)
        low, error = enclosure(matrix - ball_matrix(high))
        return cls(high, low, _as_error(error))

    @property
    def is_sharp(self) -> bool:
        """Return whether each pair tells its nearest double, and zeros are exact."""
        return bool((self.error <= NEAREST * np.abs(self.high)).all())

    @cached_property
    def is_moderate(self) -> bool:
        """Whether products of these numbers lose nothing but what bounds tell."""
        fits = (self.sizes == 0) | (self.sizes > 1 / LARGEST_SIZE)
        fits &= (self.sizes < LARGEST_SIZE) & (self.error < LARGEST_SIZE)
        return bool(fits.all())

    @cached_property
    def sizes(self) -> NDArray[np.float64]:
        """|high|."""
        return np.abs(self.high)

    @cached_property
    def halves(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The halves of ``high`` of `_split`."""
        return _split(self.high)

    def columns(self, chosen: slice) -> Pairs:
        """Return some columns."""
        return Pairs(self.high[:, chosen], self.low[:, chosen], self.error[:, chosen])

    def rows(self, chosen: NDArray[np.intp] | slice) -> Pairs:
        """Return some rows."""
        return Pairs(self.high[chosen], self.low[chosen], self.error[chosen])

    def upper(self) -> NDArray[np.float64]:
        """Return doubles (m, k) that no absolute value exceeds."""
        sizes = np.abs(self.high)
        beyond = np.copysign(1.0, self.high) * self.low + self.error
        total = sizes + beyond * (1 + 2 * EPS)
        return np.where(beyond <= 0, sizes, round_up(total))

    def scaled(self, scales: NDArray[np.float64]) -> Pairs:
        """Return the columns, each times a double, given (k,)."""
        if (scales == 1).all():
            return self
        factors = Pairs.exact(scales)
        if not (self.is_moderate and factors.is_moderate):
            return _unknown(self.high.shape)
        high = self.high * scales
        low = _lost(self.halves, factors.halves, high) + self.low * scales
        error = 8 * _TWICE_ROUNDED * np.abs(high) + self.error * factors.sizes
        return _joined(high, low, _as_error(error * _ABOVE))

    def __matmul__(self, other: Pairs) -> Pairs:
        """Return the product of (m, n) and (n, k), with the errors of both.

        Nothing is known of it unless all numbers are moderate. With u = 2^-53 and S the sum
        of sizes, terms add at most u^2 S of their own. Low parts are those of n products,
        of n - 1 sums and 2 n crossed terms. They sum to at most (n + 2) u S, in 2 n sums,
        and the crossed terms have lost at most 4 n u^2 S before. That is below
        2 (n + 3)^2 u^2 S.
        """
        if not (self.is_moderate and other.is_moderate):
            return _unknown((len(self.high), other.high.shape[1]))
        low = self.high @ other.low
        low += self.low @ other.high
        high = np.zeros_like(low)
        own, others = self.halves, other.halves
        for j in range(len(other.high)):
            column = (slice(None), j, None)
            term = self.high[column] * other.high[j]
            halves = (own[0][column], own[1][column])
            low += _lost(halves, (others[0][j], others[1][j]), term)
            if j == 0:
                high = term
                continue
            total = high + term
            low += _lost_in_sum(high, term, total)
            high = total
        return _joined(high, low, self._error_with(other))

    def _error_with(self, other: Pairs) -> NDArray[np.float64]:
        """Return bounds of the errors of the product with another one, of moderate sizes."""
        own = 4 * (len(other.high) + 4) ** 2 * _TWICE_ROUNDED * self.sizes + self.error
        error = (own * _ABOVE) @ other.sizes
        error += ((self.sizes + self.error) * _ABOVE) @ other.error
        return _as_error(error)

    def read_product(
        self, other: Pairs, read: Callable[[Pairs], NDArray[np.float64]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what is read of each entry of a product, and bounds of their errors."""
        shape = (len(self.high), other.high.shape[1])
        found, error = np.empty(shape), np.empty(shape)
        for where, left, right in self._pieces(other):
            piece = left @ right
            found[where], error[where] = read(piece), piece.error
        return found, error

    def nearest_to_product(self, other: Pairs) -> NDArray[np.float64] | None:
        """Return the doubles nearest to a product, None where it does not tell them all."""
        nearest = np.empty((len(self.high), other.high.shape[1]))
        for where, left, right in self._pieces(other):
            piece = left @ right
            if not piece.is_sharp:
                return None
            nearest[where] = piece.high
        return nearest

    def tells_product(self, other: Pairs) -> bool:
        """Return whether a product is certain to be sharp, in a fraction of its time.

        It looks at entries that are rounded to doubles all along. They differ from the
        nearest ones by (2 n + 4) u S, below a hundredth of an error over `NEAREST`.
        """
        for _, left, right in self._pieces(other):
            if not (left.is_moderate and right.is_moderate):
                return False
            sizes = np.abs(left.high @ right.high)
            if not (2 * left._error_with(right) <= NEAREST * sizes).all():
                return False
        return True

    def _pieces(self, other: Pairs) -> Iterator[tuple[Any, Pairs, Pairs]]:
        """Yield where pieces of a product stand that stay in a cache, and their factors."""
        height, width = len(self.high), other.high.shape[1]
        wide = min(width, _AT_ONCE)
        tall = max(1, _AT_ONCE // max(1, wide))
        for left in range(0, width, max(1, wide)):
            some = slice(left, left + wide)
            right = other.columns(some)
            for top in range(0, height, tall):
                rows = slice(top, top + tall)
                yield (rows, some), self.rows(rows), right


def _unknown(shape: tuple[int, ...]) -> Pairs:
    """Return pairs of which nothing is known."""
    return Pairs(np.zeros(shape), np.zeros(shape), np.full(shape, np.inf))


def _as_error(error: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return bounds that are zero or large enough for products of them."""
    if error.min(initial=np.inf) >= _LEAST_ERROR:
        return error
    return np.where(error > 0, np.maximum(error, _LEAST_ERROR), error)


def _split(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two halves of doubles, whose products with other halves are exact (Dekker)."""
    large = (2.0**27 + 1) * values
    upper = large - (large - values)
    return upper, values - upper


def _lost(
    left: tuple[NDArray[np.float64], NDArray[np.float64]],
    right: tuple[NDArray[np.float64], NDArray[np.float64]],
    product: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return a product of numbers in halves less the rounded one, exactly."""
    rest = left[0] * right[0]
    rest -= product
    rest += left[0] * right[1]
    rest += left[1] * right[0]
    rest += left[1] * right[1]
    return rest


def _lost_in_sum(
    left: NDArray[np.float64], right: NDArray[np.float64], total: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return left plus right less their rounded sum, exactly (Knuth)."""
    part = total - left
    rest = total - part
    np.subtract(left, rest, out=rest)
    rest += right - part
    return rest


def _joined(
    high: NDArray[np.float64], low: NDArray[np.float64], error: NDArray[np.float64]
) -> Pairs:
    """Return pairs of high + low, with the nearest double first."""
    total = high + low
    return Pairs(total, _lost_in_sum(high, low, total), error)
