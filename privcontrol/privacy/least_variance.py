"""The least variance of an additive law under an epsilon and delta, from below.

Whatever the law of X, hiding a move of exactly one in both orders means that no test phi
of values reveals more than the budget, so for all lambda >= 0 and 0 <= y, z <= lambda

    E X^2 >= min_x { x^2 + y(x) - e^eps y(x+1) + z(x) - e^eps z(x-1) } - 2 lambda delta.

Only x and x + k for integers k meet, so y and z are found on the integers plus an offset
u, by a linear program for each of some offsets with one lambda. Between two offsets they
are interpolated: there the minimum of the braces less u^2 is at least the chord's. The
programs are only a search; what is returned is evaluated, with its rounding.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.optimize import linprog

from ..numerics.linalg import EPS
from .budget import PrivacyBudget

#: Offsets of the lattice, up to the symmetric half.
_OFFSETS = (0.0, 0.015, 0.03, 0.045, 0.06, 0.08, 0.1, 0.15, 0.25, 0.5)
#: Those for which lambda is found.
_TOGETHER = _OFFSETS[:-2:2]
#: Points at most to one side of a lattice. Coarser lattices hide longer moves.
_MOST_POINTS = 150
#: Epsilon beyond which three points are enough for a rough bound.
_LARGEST = 20.0


@lru_cache(maxsize=256)
def least_variance(epsilon: float, delta: float) -> float:
    """Return a bound of the variance of a number that hides moves of exactly one.

    No additive law of less variance hides them with (epsilon, delta) in both orders. It is
    rounded down, by less than 1 % where epsilon is at most 20. Along each direction in
    which noise of any law hides a move, its projection hides the move's.

    Examples
    --------
    >>> round(least_variance(1.0, 0.0) ** 0.5, 4), round(least_variance(1.0, 1e-2) ** 0.5, 4)
    (1.357, 1.2313)
    """
    if delta == 0:  # the geometric law on the integers
        if epsilon > 1400:
            return 0.0
        return 1 / (2 * math.sinh(epsilon / 2) ** 2) * (1 - 1e-12)
    if epsilon > _LARGEST:
        # P(1/2 < X < 3/2) >= e^-eps (P(-1/2 < X < 1/2) - delta), and the mirror image
        return math.exp(-epsilon) * (1 - delta) / 2 * (1 - 1e-12)
    steps = math.ceil(_points(epsilon, delta) / _MOST_POINTS)
    if steps == 1:
        return _of_lattice(epsilon, delta)
    # a move of so many steps is hidden with steps eps
    total = steps * epsilon
    ratio = math.expm1(total) / math.expm1(epsilon) if epsilon else float(steps)
    several = min(delta * ratio * (1 + 1e-12), 1.0)
    return max(steps**2 * _of_lattice(total * (1 + EPS), several), 0.0)


def least_law_variance(budget: PrivacyBudget, releases: int) -> float:
    """Return the least variance of any law that keeps a budget for moves of exactly one.

    The mean of k releases is a number of a k-th of the variance that keeps the budget by
    itself. Purely, each of them keeps a k-th of epsilon. It is rounded down.
    """
    epsilon, delta = budget.pair
    if delta == 0:
        return least_variance(epsilon / releases * (1 + 1e-15), 0.0)
    return releases * least_variance(epsilon, delta) * (1 - 1e-15)


def _points(epsilon: float, delta: float) -> int:
    """Return about how far the law of least variance reaches."""
    odds = math.expm1(epsilon) / epsilon if epsilon else 1.0
    reach = odds / (2 * delta)
    if epsilon:
        reach = math.log1p(epsilon * reach) / epsilon
    return math.ceil(reach) + 4


def _of_lattice(epsilon: float, delta: float) -> float:
    """Return the bound from a lattice of step one."""
    if delta >= 1:
        return 0.0
    program = _Program(epsilon, _points(epsilon, delta))
    # where rounding hides the best lambda, which costs nothing, that of the unit will do
    return _at_price(program, program.price(delta) or program.unit, delta)


def _at_price(program: _Program, price: float, delta: float) -> float:
    """Return the bound of one lambda."""
    values = []
    for offset in _OFFSETS:
        values.append(program.evaluated(offset, price, program.tests(offset, price)))
    least = min(_least_between(*pair) for pair in _intervals(values))
    spent = 2 * price * delta
    rounding = 4 * EPS * (abs(least) + spent)
    return max(float(least - spent - rounding), 0.0)


def _intervals(values: list[float]) -> list[tuple[float, float, float, float]]:
    return list(zip(_OFFSETS, _OFFSETS[1:], values, values[1:], strict=False))


def _least_between(low: float, high: float, first: float, last: float) -> float:
    """Return the least of a chord plus u^2 over low <= u <= high."""
    slope = (last - first) / (high - low)
    lowest = min(max(-slope / 2, low), high)
    return first + slope * (lowest - low) + lowest**2


class _Program:
    """max t: t <= k^2 + 2 u k + y_k - e^eps y_(k+1) + z_k - e^eps z_(k-1), y, z <= lambda.

    Beyond ``reach`` to the left y is constant and z zero, and to the right it is the other
    way round. Costs are in units near the least variance: it is below that without a
    delta, and below the square of the reach.
    """

    def __init__(self, epsilon: float, reach: int) -> None:
        self.odds = math.exp(epsilon) * (1 + 4 * EPS)
        pure = least_variance(epsilon, 0.0) if epsilon else math.inf
        self.unit = min(pure, float(reach**2))
        self.places = np.arange(-reach - 1, reach + 2)
        self.count = len(self.places) - 1
        #: The least k^2 + 2 u k of the places that are left out.
        self.beyond = (reach + 2.0) * (reach + 1.0)

    def _rows(self) -> scipy.sparse.csr_array:
        """Return the constraints' rows, one for each place, and for those left out."""
        rows = len(self.places)
        # y has the first of the places too, and z the last one
        y, after = (scipy.sparse.eye_array(rows, self.count, k=k) for k in (0, 1))
        z, before = (scipy.sparse.eye_array(rows, self.count, k=k) for k in (-1, -2))
        of_y = self.odds * after - y
        of_z = self.odds * before - z
        constant = np.zeros((2, 2 * self.count))
        constant[0, 0] = constant[1, -1] = self.odds - 1
        changing = scipy.sparse.csr_array(scipy.sparse.hstack([of_y, of_z]))
        held = scipy.sparse.csr_array(constant)
        return scipy.sparse.csr_array(scipy.sparse.vstack([changing, held]))

    def _squares(self, offset: float) -> NDArray[np.float64]:
        """Return k^2 + 2 u k for each row."""
        squares = self.places**2 + 2 * offset * self.places
        return np.append(squares, [self.beyond, self.beyond]) / self.unit

    def price(self, delta: float) -> float:
        """Return the best lambda for some offsets together, 0 where none is found.

        The unknowns are t, lambda, and then y and z of each offset.
        """
        own = self._rows()
        count = own.shape[1] * len(_TOGETHER)
        shared = scipy.sparse.csr_array([[1.0, 0.0]] * own.shape[0])
        caps = scipy.sparse.hstack(
            [
                scipy.sparse.csr_array([[0.0, -1.0]] * count),
                scipy.sparse.eye_array(count),
            ]
        )
        rows = scipy.sparse.hstack(
            [
                scipy.sparse.vstack([shared] * len(_TOGETHER)),
                scipy.sparse.block_diag([own] * len(_TOGETHER)),
            ]
        )
        squares = [self._squares(u) + u**2 / self.unit for u in _TOGETHER]
        objective = np.zeros(2 + count)
        objective[:2] = -1.0, 2 * delta
        found = linprog(
            objective,
            A_ub=scipy.sparse.vstack([rows, caps]).tocsr(),
            b_ub=np.concatenate([*squares, np.zeros(count)]),
            bounds=[(None, None)] + [(0.0, None)] * (1 + count),
        )
        return 0.0 if found.x is None else max(float(found.x[1]), 0.0) * self.unit

    def tests(self, offset: float, price: float) -> NDArray[np.float64]:
        """Return y before z for one lambda and offset, zeros where none are found."""
        rows = self._rows()
        first = scipy.sparse.csr_array(np.ones((rows.shape[0], 1)))
        given = price / self.unit
        objective = np.zeros(1 + rows.shape[1])
        objective[0] = -1.0
        # its stub knows no sparse matrix
        found = linprog(  # type: ignore[call-overload]
            objective,
            A_ub=scipy.sparse.csr_array(scipy.sparse.hstack([first, rows])),
            b_ub=self._squares(offset),
            bounds=[(None, None)] + [(0.0, given)] * rows.shape[1],
        )
        if found.x is None:
            return np.zeros(rows.shape[1])
        return np.clip(found.x[1:] * self.unit, 0.0, price)

    def evaluated(
        self, offset: float, price: float, tests: NDArray[np.float64]
    ) -> float:
        """Return min k^2 + 2 u k + y_k - e^eps y_(k+1) + z_k - e^eps z_(k-1), from below."""
        y, z = tests.reshape(2, -1)
        k = self.places
        told = np.append(y, 0.0) - self.odds * np.append(y[1:], [0.0, 0.0])
        told += np.append(0.0, z) - self.odds * np.append([0.0, 0.0], z[:-1])
        rounding = 8 * EPS * (k**2 + 2 * price * (1 + self.odds))
        inside = k**2 + 2 * offset * k + told - rounding
        constant = max(y[0], z[-1]) * (self.odds - 1) * (1 + 8 * EPS)
        return min(float(inside.min()), self.beyond * (1 - EPS) - constant)
