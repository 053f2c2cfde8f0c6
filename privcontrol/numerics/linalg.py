"""Products with the same bits on every machine, tolerances and directed rounding.

Every rank, root and calibrated size in the package errs the same way, towards more noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ContextDecorator
from functools import cached_property
from threading import Lock, get_ident
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import OpenBLASController, ThreadpoolController

EPS = np.finfo(float).eps

#: Multiply-adds that OpenBLAS gives to one thread. Above, the last bits depend on the
#: number of threads.
ONE_THREAD = 2**18


def product(
    left: NDArray[np.float64],
    right: NDArray[np.float64],
    out: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return ``left @ right`` in bits that do not depend on the threads of BLAS.

    Each is a matrix or a stack of them.
    """
    inner, columns = right.shape[-2:]
    height = left.shape[-2]
    if out is None:
        if height * inner * columns <= ONE_THREAD:
            return left @ right
        stacked = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        out = np.empty((*stacked, height, columns))
    if height * inner * columns <= ONE_THREAD:
        return np.matmul(left, right, out=out)
    across = _part(columns, ONE_THREAD // max(1, inner))
    down = _part(height, ONE_THREAD // max(1, inner * across))
    for first in range(0, columns, across):
        own = slice(first, first + across)
        for start in range(0, height, down):
            rows = slice(start, start + down)
            np.matmul(left[..., rows, :], right[..., own], out=out[..., rows, own])
    return out


def _part(count: int, most: int) -> int:
    """Return the length of parts of about the same size, of at most so many."""
    return -(-count // -(-count // max(1, most)))


class _OneThread(ContextDecorator):
    """BLAS on one thread, while any thread of Python is inside.

    NumPy and SciPy bring a pool of threads each, which hold each other up: designs take
    up to fifteen times as long with two threads as with one. These pools are the
    process's, those of OpenMP a thread's own. Where threadpoolctl lets only one thread
    set them, each lets go at once, since the last to leave may be another.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside: list[int] = []

    @cached_property
    def _pools(self) -> ThreadpoolController:
        return ThreadpoolController()

    def _let_go(self) -> None:
        # older versions let every thread set the pools, and lack it
        if hasattr(OpenBLASController, "clear_controlling_thread"):
            OpenBLASController.clear_controlling_thread()

    def __enter__(self) -> None:
        thread = get_ident()
        with self._lock:
            if thread not in self._inside:
                limits = self._pools.limit(limits=1, user_api="blas")
                self._let_go()
                if not self._inside:
                    self._limits = limits
            self._inside.append(thread)

    def __exit__(self, *error: object) -> None:
        thread = get_ident()
        with self._lock:
            self._inside.remove(thread)
            if thread not in self._inside:
                self._limits.restore_original_limits()
                if self._inside:
                    shared = self._pools.select(threading_layer="pthreads")
                    shared.limit(limits=1, user_api="blas")
                self._let_go()


one_thread = _OneThread()


def consecutive(index: NDArray[np.intp]) -> NDArray[np.intp] | slice:
    """Return the slice that indices one after the other are, which copies nothing."""
    if not len(index) or index[-1] - index[0] != len(index) - 1:
        return index
    if not (index[1:] > index[:-1]).all():
        return index
    return slice(int(index[0]), int(index[-1]) + 1)


def round_up(value: ArrayLike, ulps: int = 1) -> Any:
    """Return the float (array) `ulps` steps above `value`."""
    above = np.asarray(value, float)
    for _ in range(ulps):
        above = np.nextafter(above, np.inf)
    return above[()]


def float_above(value: ArrayLike, ulps: int = 1) -> float:
    """Return the float `ulps` steps above a number."""
    return float(round_up(value, ulps))


def shortened(value: ArrayLike, bits: int, rounding: np.ufunc = np.rint) -> Any:
    """Return the float (array) of so many bits nearest to `value`, or above it by `np.ceil`.

    The product of numbers of 26 and of 27 bits is exact.
    """
    mantissa, exponent = np.frexp(value)
    return np.ldexp(rounding(np.ldexp(mantissa, bits)), exponent - bits)


def smallest(
    meets: Callable[[float], bool],
    low: float,
    high: float,
    *,
    tolerance: float,
    limit: float,
) -> float:
    """Return the smallest number above `low` that meets a condition, from above.

    The condition holds from some number on, and `high` is a first guess of it. The result
    is precise to a relative `tolerance`. It is infinite if `limit` does not meet it.
    """
    while not meets(high):
        if high >= limit:
            return math.inf
        low = high
        high = min(2 * high, limit)
    while high - low > tolerance * high + 1e-300:  # no number is between subnormals
        middle = 0.5 * (low + high)
        if meets(middle):
            high = middle
        else:
            low = middle
    return high


def column_norms(matrix: NDArray[np.float64], norm: float = 2) -> NDArray[np.float64]:
    """Return the norms (M,) of columns, even where a square leaves the doubles."""
    with np.errstate(over="ignore"):
        sizes = np.linalg.norm(matrix, ord=norm, axis=0)
    extreme = np.flatnonzero(~((sizes > 1e-140) & (sizes < 1e140)))
    if extreme.size:
        part = matrix[:, extreme]
        exponent = np.frexp(np.abs(part).max(axis=0, initial=0.0))[1]
        near_one = np.linalg.norm(np.ldexp(part, -exponent), ord=norm, axis=0)
        sizes[extreme] = np.ldexp(near_one, exponent)
    return sizes


def nonzero(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sizes to divide by, one in the place of zero."""
    return np.where(sizes > 0, sizes, 1.0)


def largest_later(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest value at each place (T,) or later."""
    return np.maximum.accumulate(values[::-1])[::-1]


def rank_tolerance(
    matrix: NDArray[np.float64], singular_values: NDArray[np.float64]
) -> float:
    """Return the largest singular value that round-off makes of zero."""
    largest = np.max(singular_values, initial=0.0)
    return 8 * EPS * max(matrix.shape) * largest
