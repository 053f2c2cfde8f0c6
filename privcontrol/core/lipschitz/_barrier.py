"""Small semidefinite programs by a barrier method.

It proposes points of the central path. What they prove is for ball arithmetic to say. A
general solver needs the fourth power of the size in memory for these programs; here the
Newton system has one row for each variable.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

STAGES = 40  # the weight of the cost grows by FACTOR in each
FACTOR = 8.0
STEPS = 30  # of Newton's method in one stage; about 6 are used
GAP = 1e-9  # relative gap of the cost at which the path ends


@dataclass(frozen=True, eq=False)
class Program:
    """min cost'x subject to x > 0 and P(x) = L X R' + R X L' - Q > 0.

    X is diagonal and repeats each variable in as many columns of L and R as `widths` says.
    """

    cost: NDArray  # (k,)
    left: NDArray  # L
    right: NDArray  # R
    widths: NDArray  # (k,)
    constant: NDArray  # Q

    @property
    def order(self) -> int:
        """Parameter of the self-concordant barrier."""
        return len(self.constant) + len(self.cost)

    def matrix(self, x: NDArray) -> NDArray:
        """P(x)."""
        product = (self.left * np.repeat(x, self.widths)) @ self.right.T
        return product + product.T - self.constant

    def value(self, x: NDArray, weight: float) -> float:
        """The weighted cost and the barrier, infinite outside of the set."""
        if not (x > 0).all():
            return np.inf
        try:
            factor = np.linalg.cholesky(self.matrix(x))
        except np.linalg.LinAlgError:
            return np.inf
        barrier = -2 * np.log(np.diag(factor)).sum() - np.log(x).sum()
        return weight * (self.cost @ x) + barrier

    def newton_step(self, x: NDArray, weight: float) -> tuple[NDArray, float]:
        """Newton's step relative to x, and the decrease that it promises."""
        factor = np.linalg.cholesky(self.matrix(x))
        sides = np.hstack([self.left, self.right])
        solved = scipy.linalg.solve_triangular(factor, sides, lower=True)
        left, right = np.hsplit(solved, 2)
        cross = left.T @ right
        starts = np.cumsum(self.widths) - self.widths
        slope = np.add.reduceat(-2 * np.diag(cross), starts)
        curvature = 2 * ((left.T @ left) * (right.T @ right) + cross * cross.T)
        curvature = np.add.reduceat(np.add.reduceat(curvature, starts, 0), starts, 1)
        gradient = (slope + weight * self.cost) * x - 1
        hessian = curvature * np.outer(x, x) + np.eye(len(x))
        step = -scipy.linalg.cho_solve(scipy.linalg.cho_factor(hessian), gradient)
        return step, float(-gradient @ step)


def central_path(program: Program, point: NDArray) -> list[NDArray]:
    """Strictly feasible points, from a first one, whose cost tends to its minimum.

    The last one is within `GAP` of it, unless double precision ends the path.
    """
    weight = program.order / (program.cost @ point)
    path = [point]
    for _ in range(STAGES):
        for _ in range(STEPS):
            try:
                step, decrement = program.newton_step(point, weight)
            except (np.linalg.LinAlgError, ValueError):
                return path
            if decrement <= 1e-4:
                break
            moved = _search(program, point, weight, step, decrement)
            if moved is None:
                break
            point = moved
        path.append(point)
        if program.order / weight < GAP * (program.cost @ point):
            break
        weight *= FACTOR
    return path


def _search(
    program: Program, point: NDArray, weight: float, step: NDArray, decrement: float
) -> NDArray | None:
    """A backtracked step with a fair share of the promised decrease.

    Returns None if round-off hides the decrease.
    """
    here = program.value(point, weight)
    length = 1.0
    while length > 1e-8:
        candidate = point * (1 + length * step)
        if program.value(candidate, weight) <= here - 0.1 * length * decrement:
            if decrement < 0.1:
                return candidate
            # away from the boundary: no eigenvalue falls below 0.3 of what it was
            return point * (1 + 0.7 * length * step)
        length /= 2
    return None
