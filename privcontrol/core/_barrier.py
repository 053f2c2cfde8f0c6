"""Small convex programs by a barrier method.

It proposes points of the central path, whose worth the caller proves. For the semidefinite
programs of `PairProgram` a general solver would need the fourth power of the size in
memory; here the Newton system has one row for each variable.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

STAGES = 40  # the weight of the cost grows in each
STEPS = 30  # of Newton's method in one stage; about 6 are used
GAP = 1e-10  # relative gap of the cost at which the path ends


class Program(ABC):
    """The minimum of a convex cost over x > 0 and a convex set with a barrier."""

    #: Parameter of the barrier.
    order: int
    #: By how much the weight of the cost grows from stage to stage.
    growth: ClassVar[float] = 8.0

    @abstractmethod
    def cost(self, x: NDArray) -> float:
        """What is to be minimised."""

    @abstractmethod
    def barrier(self, x: NDArray) -> float:
        """The barrier at a positive x, infinite outside of the set."""

    @abstractmethod
    def derivatives(self, x: NDArray, weight: float) -> tuple[NDArray, NDArray]:
        """Gradient and Hessian of the weighted cost and the barrier, relative to x."""

    def central_path(self, point: NDArray) -> list[NDArray]:
        """Strictly feasible points, from a first one, whose cost tends to its minimum.

        The last one is within `GAP` of it, unless double precision ends the path.
        """
        weight = self.order / self.cost(point)
        path = [point]
        for _ in range(STAGES):
            for _ in range(STEPS):
                try:
                    with np.errstate(over="ignore"):
                        gradient, hessian = self.derivatives(point, weight)
                    factor = scipy.linalg.cho_factor(hessian)
                except (np.linalg.LinAlgError, ValueError):
                    return path
                step = -scipy.linalg.cho_solve(factor, gradient)
                decrement = float(-gradient @ step)
                if decrement <= 1e-4:
                    break
                moved = self._search(point, weight, step, decrement)
                if moved is None:
                    break
                point = moved
            path.append(point)
            if self.order / weight < GAP * self.cost(point):
                break
            weight *= self.growth
        return path

    def _search(
        self, point: NDArray, weight: float, step: NDArray, decrement: float
    ) -> NDArray | None:
        """A backtracked step with a fair share of the promised decrease.

        Returns None if round-off hides the decrease.
        """
        here = self._value(point, weight)
        length = 1.0
        while length > 1e-8:
            candidate = point * (1 + length * step)
            if self._value(candidate, weight) <= here - 0.1 * length * decrement:
                if decrement < 0.1:
                    return candidate
                # away from the boundary: no slack falls below 0.3 of what it was
                return point * (1 + 0.7 * length * step)
            length /= 2
        return None

    def _value(self, x: NDArray, weight: float) -> float:
        if not (x > 0).all():
            return np.inf
        return weight * self.cost(x) + self.barrier(x)


@dataclass(frozen=True, eq=False)
class PairProgram(Program):
    """min prices'x subject to x > 0 and P(x) = L X R' + R X L' - Q > 0.

    X is diagonal and repeats each variable in as many columns of L and R as `widths` says.
    """

    prices: NDArray  # (k,)
    left: NDArray  # L
    right: NDArray  # R
    widths: NDArray  # (k,)
    constant: NDArray  # Q

    @property
    def order(self) -> int:  # type: ignore[override]
        return len(self.constant) + len(self.prices)

    def cost(self, x: NDArray) -> float:
        return float(self.prices @ x)

    def _matrix(self, x: NDArray) -> NDArray:
        """P(x)."""
        product = (self.left * np.repeat(x, self.widths)) @ self.right.T
        return product + product.T - self.constant

    def barrier(self, x: NDArray) -> float:
        try:
            factor = np.linalg.cholesky(self._matrix(x))
        except np.linalg.LinAlgError:
            return np.inf
        return float(-2 * np.log(np.diag(factor)).sum() - np.log(x).sum())

    def derivatives(self, x: NDArray, weight: float) -> tuple[NDArray, NDArray]:
        factor = np.linalg.cholesky(self._matrix(x))
        sides = np.hstack([self.left, self.right])
        solved = scipy.linalg.solve_triangular(factor, sides, lower=True)
        left, right = np.hsplit(solved, 2)
        cross = left.T @ right
        starts = np.cumsum(self.widths) - self.widths
        slope = np.add.reduceat(-2 * np.diag(cross), starts)
        slope += weight * self.prices
        gradient = slope * x - 1
        left_gram = left.T @ left
        right_gram = right.T @ right
        products = left_gram * right_gram
        products += cross * cross.T
        by_row = np.add.reduceat(2 * products, starts, axis=0)
        curvature = np.add.reduceat(by_row, starts, axis=1)
        hessian = curvature * np.outer(x, x)
        hessian += np.eye(len(x))
        return gradient, hessian


@dataclass(frozen=True, eq=False)
class ScaleProgram(Program):
    """min sum_k prices_k / x_k^2 subject to x > 0 and loads x < 1."""

    growth: ClassVar[float] = 40.0

    prices: NDArray  # (k,)
    loads: NDArray  # (M, k), not negative

    @property
    def order(self) -> int:  # type: ignore[override]
        return len(self.loads)

    def cost(self, x: NDArray) -> float:
        return float(np.sum(self.prices / x**2))

    def barrier(self, x: NDArray) -> float:
        slack = 1 - self.loads @ x
        if not (slack > 0).all():
            return np.inf
        return float(-np.log(slack).sum())

    def derivatives(self, x: NDArray, weight: float) -> tuple[NDArray, NDArray]:
        shares = self.loads * x
        slack = 1 - shares.sum(axis=1)
        pushed = shares / slack[:, None]
        pull = weight * self.prices / x**2
        gradient = pushed.sum(axis=0) - 2 * pull
        hessian = pushed.T @ pushed + np.diag(6 * pull)
        return gradient, hessian
