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
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Pairs:
    """Numbers within ``error`` of ``high + low``, arrays (m, k), ``high`` the nearest double.

    An error is zero only if the pair is exact, and inf if nothing is known.
    """

    high: NDArray
    low: NDArray
    error: NDArray

    @classmethod
    def exact(cls, values: NDArray) -> Pairs:
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

    def columns(self, chosen: NDArray | slice) -> Pairs:
        """Return some columns."""
        return Pairs(self.high[:, chosen], self.low[:, chosen], self.error[:, chosen])

    def rows(self, chosen: NDArray | slice) -> Pairs:
        """Return some rows."""
        return Pairs(self.high[chosen], self.low[chosen], self.error[chosen])

    def upper(self) -> NDArray:
        """Return doubles (m, k) that no absolute value exceeds."""
        sizes = np.abs(self.high)
        beyond = np.copysign(1.0, self.high) * self.low + self.error
        return np.where(beyond <= 0, sizes, round_up(sizes + round_up(beyond)))

    def scaled(self, scales: NDArray) -> Pairs:
        """Return the columns, each times a double, given (k,)."""
        if (scales == 1).all():
            return self
        if not (self._is_moderate() and Pairs.exact(scales)._is_moderate()):
            return self._unknown(self.high.shape)
        high = self.high * scales
        low = _lost(self.high, scales, high) + self.low * scales
        error = 8 * _TWICE_ROUNDED * np.abs(high) + self.error * np.abs(scales)
        return _joined(high, low, error * _ABOVE)

    def __matmul__(self, other: Pairs) -> Pairs:
        """Return the product of (m, n) and (n, k), with the errors of both."""
        shape = (len(self.high), other.high.shape[1])
        if not (self._is_moderate() and other._is_moderate()):
            return self._unknown(shape)
        high, low, error = np.empty(shape), np.empty(shape), np.empty(shape)
        by_rows = shape[0] > shape[1]
        step = max(1, CACHED // min(shape))
        for start in range(0, max(shape), step):
            some = slice(start, start + step)
            if by_rows:
                where = (some, slice(None))
                found = _product(self.rows(some), other)
            else:
                where = (slice(None), some)
                found = _product(self, other.columns(some))
            high[where], low[where], error[where] = found.high, found.low, found.error
        return Pairs(high, low, error)

    def _is_moderate(self) -> bool:
        """Return whether products of these numbers lose nothing but what bounds tell."""
        sizes = np.abs(self.high)
        fits = (sizes == 0) | ((sizes > 1 / LARGEST_SIZE) & (sizes < LARGEST_SIZE))
        return bool((fits & (self.error < LARGEST_SIZE)).all())

    @staticmethod
    def _unknown(shape: tuple[int, ...]) -> Pairs:
        return Pairs(np.zeros(shape), np.zeros(shape), np.full(shape, np.inf))


def _as_error(error: NDArray) -> NDArray:
    """Return bounds that are zero or large enough for products of them."""
    return np.where(error > 0, np.maximum(error, _LEAST_ERROR), error)


def _split(values: NDArray) -> tuple[NDArray, NDArray]:
    """Return two halves of doubles, whose products with other halves are exact (Dekker)."""
    large = (2.0**27 + 1) * values
    upper = large - (large - values)
    return upper, values - upper


def _lost(left: NDArray, right: NDArray, product: NDArray) -> NDArray:
    """Return left times right less its rounded product, exactly."""
    return _lost_of(_split(left), _split(right), product)


def _lost_of(
    left: tuple[NDArray, NDArray], right: tuple[NDArray, NDArray], product: NDArray
) -> NDArray:
    """Return `_lost` of numbers in halves."""
    rest = left[0] * right[0]
    rest -= product
    rest += left[0] * right[1]
    rest += left[1] * right[0]
    rest += left[1] * right[1]
    return rest


def _lost_in_sum(left: NDArray, right: NDArray, total: NDArray) -> NDArray:
    """Return left plus right less their rounded sum, exactly (Knuth)."""
    part = total - left
    rest = total - part
    np.subtract(left, rest, out=rest)
    rest += right - part
    return rest


def _joined(high: NDArray, low: NDArray, error: NDArray) -> Pairs:
    """Return pairs of high + low, with the nearest double first."""
    total = high + low
    return Pairs(total, _lost_in_sum(high, low, total), _as_error(error))


def _product(left: Pairs, right: Pairs) -> Pairs:
    """Return a product of moderate numbers.

    With u = 2^-53 and S the sum of sizes, terms add at most 9 u^2 S of their own, and the sum
    of low parts, which is below (n + 4) u S, at most 2 n roundings.
    """
    inner = len(right.high)
    high = np.zeros((len(left.high), right.high.shape[1]))
    low = np.zeros_like(high)
    halves = _split(right.high)
    for j in range(inner):
        column = left.high[:, j, None]
        term = column * right.high[j]
        small = _lost_of(_split(column), (halves[0][j], halves[1][j]), term)
        crossed = column * right.low[j]
        crossed += left.low[:, j, None] * right.high[j]
        small += crossed
        total = high + term
        small += _lost_in_sum(high, term, total)
        low += small
        high = total
    tall, wide = np.abs(left.high), np.abs(right.high)
    error = 4 * (inner + 4) ** 2 * _TWICE_ROUNDED * (tall @ wide)
    error += left.error @ (wide * _ABOVE + right.error)
    error += (tall * _ABOVE) @ right.error
    return _joined(high, low, error * _ABOVE)
