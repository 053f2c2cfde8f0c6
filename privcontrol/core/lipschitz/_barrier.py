"""Barrier method for small semidefinite programs whose Newton system is cheap to write down. It proposes points of
the central path; what they prove is for ball arithmetic to say."""

import numpy as np
import scipy.linalg

STAGES = 40  # the weight of the cost grows by FACTOR in each
FACTOR = 8.0
STEPS = 30  # of Newton's method in one stage; about 6 are used


def central_path(cost, barrier, derivatives, point, *, order, gap):
    """Strictly feasible points whose linear cost tends to its minimum, the last within `gap` (relative) of it.

    `barrier` is self-concordant of parameter `order` and infinite outside the set, `derivatives` gives its gradient
    and Hessian; all variables are positive and the start `point` is strictly feasible. The path ends early where
    double precision does.
    """
    weight = order / (cost @ point)
    path = [point]
    for _ in range(STAGES):
        for _ in range(STEPS):
            step, decrement = _newton(cost, derivatives, point, weight)
            if step is None:
                return path
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


def _newton(cost, derivatives, point, weight):
    """The Newton step relative to the point, and the squared decrement; (None, 0) where it cannot be computed."""
    try:
        gradient, hessian = derivatives(point)
        gradient = (gradient + weight * cost) * point
        step = -scipy.linalg.cho_solve(
            scipy.linalg.cho_factor(hessian * np.outer(point, point)), gradient
        )
    except (np.linalg.LinAlgError, ValueError):
        return None, 0.0
    return step, -gradient @ step


def _search(cost, barrier, point, step, weight, decrement):
    """A backtracked step with a fair share of the promised decrease; None where round-off hides it."""
    here, length = weight * (cost @ point) + barrier(point), 1.0
    while length > 1e-8:
        candidate = point * (1 + length * step)
        if (candidate > 0).all():
            if (
                weight * (cost @ candidate) + barrier(candidate)
                <= here - 0.1 * length * decrement
            ):
                return candidate
        length /= 2
    return None


def minus_log_det(matrix):
    """-log det of a symmetric matrix, infinite where it is not positive definite."""
    try:
        return -2 * np.log(np.diag(np.linalg.cholesky(matrix))).sum()
    except np.linalg.LinAlgError:
        return np.inf
