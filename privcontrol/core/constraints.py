"""The cheapest covariance under a user's own convex constraints, by CVXPY."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..numerics.errors import PrivacyError, UncertifiableError
from ..numerics.progress import search_round
from ..numerics.thresholds import CERTAIN, MOST_ROUNDS, THINNEST

if TYPE_CHECKING:
    from cvxpy import Expression, Problem
    from cvxpy.constraints.constraint import Constraint


def cheapest_factor(
    points: NDArray[np.float64],
    balls: Sequence[NDArray[np.float64]],
    weight: NDArray[np.float64],
    constraints: Callable[[Any], Any],
) -> tuple[NDArray[np.float64], Callable[[NDArray[np.float64]], None]]:
    """Find the cheapest factor (m, m) of noise that hides moves with a shift of one.

    ``points`` (m, M) are what single moves change, ``balls`` (m, q) the axes of what balls
    of moves change. ``weight`` is (m, m). ``constraints`` maps a CVXPY expression (m, m) for the covariance
    to a list of constraints; a function that checks a covariance (m, m) comes second.
    """
    cp = import_module("cvxpy")  # takes seconds
    size = len(points)
    largest = np.abs(np.hstack([points, *balls])).max(axis=1)
    units = np.where(largest > 0, largest, largest.max())
    scale = np.outer(units, units)
    points = points / units[:, None]
    X = cp.Variable((size, size), PSD=True)
    own = _constraints(constraints, cp.multiply(scale, X), cp)

    whole = [
        _hidden(X, ball / units[:, None], np.eye(ball.shape[1]), cp) for ball in balls
    ]
    price = weight * scale
    cost = cp.Minimize(cp.sum(cp.multiply(price / np.trace(price), X)))
    chosen = _spanning(points)
    for number in range(MOST_ROUNDS):
        single = []
        if chosen:
            squares = cp.Variable((len(chosen),) * 2, symmetric=True)
            hidden = _hidden(X, points[:, chosen], squares, cp)
            single = [hidden, cp.diag(squares) <= 1]
        with search_round(number):
            _solve(cp.Problem(cost, [*own, *whole, *single]), cp)
        covariance = X.value + THINNEST * np.abs(np.diag(X.value)).max() * np.eye(size)
        lower = np.linalg.cholesky((covariance + covariance.T) / 2)
        sizes = np.linalg.norm(np.linalg.solve(lower, points), axis=0)
        sizes[chosen] = 0.0
        worst = np.argsort(-sizes, kind="stable")[: max(4, size)]
        worst = worst[sizes[worst] > 1 + 1e-7]
        if not len(worst):
            break
        chosen = [*chosen, *worst.tolist()]
    return units[:, None] * lower, partial(_check, X, own, scale)


def _spanning(points: NDArray[np.float64]) -> list[int]:
    """Return points (m, M) that span all of them, to begin with."""
    if not points.size:
        return []
    _, _, order = scipy.linalg.qr(points, mode="economic", pivoting=True)
    return list(order[: len(points)].tolist())


def _hidden(
    X: Expression, block: NDArray[np.float64], squares: Any, cp: ModuleType
) -> Any:
    """Return the matrix inequality of DPAM Algorithm 1: block^T X^-1 block <= squares."""
    return cp.bmat([[X, block], [block.T, squares]]) >> 0


def _check(
    X: Any,
    constraints: Sequence[Any],
    scale: NDArray[np.float64],
    covariance: NDArray[np.float64],
) -> None:
    """Raise an error if a covariance, which is ``scale`` times X, misses a constraint."""
    deviations = np.sqrt(np.diag(covariance))
    X.save_value(np.outer(deviations, deviations) / scale)  # what may cancel
    sizes = [_largest(constraint) for constraint in constraints]
    X.save_value(covariance / scale)
    for constraint, size in zip(constraints, sizes, strict=True):
        missed = float(np.max(constraint.violation()))
        if not missed <= CERTAIN * max(size, _largest(constraint)):
            raise UncertifiableError(
                f"constraints: {constraint} is missed by {missed:.1e}; rescale the "
                "data, or relax the constraints"
            )


def _largest(constraint: Constraint) -> float:
    """Return the largest number on either side of a constraint."""
    sides = [np.abs(side.value).max() for side in constraint.args if side.size]
    return float(max(sides, default=1.0))


def _constraints(
    constraints: Callable[..., Any], covariance: Expression, cp: ModuleType
) -> list[Any]:
    """Return the user's constraints, checked."""
    if not callable(constraints):
        raise TypeError(
            "constraints: expected a function of the covariance, got "
            f"{type(constraints).__name__}; write lambda Gamma: [Gamma[0, 0] <= 1]"
        )
    try:
        own = constraints(covariance)
    except Exception as error:
        raise ValueError(
            f"constraints: the function raised {type(error).__name__}: {error}"
        ) from error
    kind = cp.constraints.constraint.Constraint
    if isinstance(own, kind):
        own = [own]
    if not isinstance(own, list | tuple) or not all(isinstance(c, kind) for c in own):
        raise TypeError(
            "constraints: expected the function to return a list of CVXPY constraints, "
            f"got {own!r}"
        )
    for constraint in own:
        if not constraint.is_dcp():
            raise ValueError(f"constraints: expected convex ones, got {constraint}")
    return list(own)


def _solve(problem: Problem, cp: ModuleType) -> None:
    try:
        problem.solve(solver=cp.CLARABEL)  # type: ignore[no-untyped-call]
        status = problem.status
    except (cp.SolverError, ValueError) as error:
        status = type(error).__name__
    if status.startswith("infeasible"):
        raise PrivacyError(
            "constraints: no Gaussian noise of this budget satisfies them; relax a "
            "ceiling, protect less, or allow a larger budget"
        )
    if not status.startswith("optimal"):
        raise UncertifiableError(
            f"constraints: CVXPY reports {status}; rescale the data, or relax the "
            "constraints"
        )
