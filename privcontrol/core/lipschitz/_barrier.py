"""Small semidefinite programs by a barrier method.

It proposes points of the central path. What they prove is for ball arithmetic to say. A
general solver needs the fourth power of the size in memory for these programs; here the
Newton system has one row for each variable.
"""

from collections.abc import Callable

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

STAGES = 40  # the weight of the cost grows by FACTOR in each
FACTOR = 8.0
STEPS = 30  # of Newton's method in one stage; about 6 are used

Barrier = Callable[[NDArray], float]
Derivatives = Callable[[NDArray], tuple[NDArray, NDArray]]


def central_path(
    cost: NDArray,
    barrier: Barrier,
    derivatives: Derivatives,
    point: NDArray,
    *,
    order: int,
    gap: float,
) -> list[NDArray]:
    """Strictly feasible points whose linear cost tends to its minimum.

    The last one is within `gap` (relative) of it, unless double precision ends the path.
    `barrier` is self-concordant of parameter `order` and infinite outside the set, and
    `derivatives` gives its gradient and Hessian. All variables are positive, and the
    start `point` is strictly feasible.
    """
    weight = order / (cost @ point)
    path = [point]
    for _ in range(STAGES):
        for _ in range(STEPS):
            try:
                gradient, hessian = derivatives(point)
                gradient = (gradient + weight * cost) * point
                scaled = scipy.linalg.cho_factor(hessian * np.outer(point, point))
                step = -scipy.linalg.cho_solve(scaled, gradient)
            except (np.linalg.LinAlgError, ValueError):
                return path
            decrement = -gradient @ step
            if decrement <= 1e-6:
                break
            moved = _search(cost, barrier, point, step, weight, decrement)
            if moved is None:
                break
            point = moved
        path.append(point)
        if order / weight < gap * (cost @ point):
            break
        weight *= FACTOR
    return path


def _search(
    cost: NDArray,
    barrier: Barrier,
    point: NDArray,
    step: NDArray,
    weight: float,
    decrement: float,
) -> NDArray | None:
    """A backtracked relative step with a fair share of the promised decrease.

    Returns None if round-off hides the decrease.
    """
    here = weight * (cost @ point) + barrier(point)
    length = 1.0
    while length > 1e-8:
        candidate = point * (1 + length * step)
        if (candidate > 0).all():
            value = weight * (cost @ candidate) + barrier(candidate)
            if value <= here - 0.1 * length * decrement:
                return candidate
        length /= 2
    return None


def minus_log_det(matrix: NDArray) -> float:
    """-log det of a symmetric matrix, infinite if it is not positive definite."""
    try:
        return -2 * np.log(np.diag(np.linalg.cholesky(matrix))).sum()
    except np.linalg.LinAlgError:
        return np.inf
