"""Covariances of least cost under a user's own constraints, found by CVXPY.

A solver proposes a covariance and multipliers. What they are worth is certified
elsewhere: the noise by its privacy loss, its cost by the dual of the enclosing ellipsoid
for the weight that the multipliers tilt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from .errors import PrivacyError, UncertifiableError

#: Relative amount by which a returned covariance may miss a constraint.
TOLERANCE = 1e-6
#: Relative variance added to all entries, so that the factor is not singular.
_PADDING = 1e-9
_ROUNDS = 50


@dataclass(frozen=True)
class Proposal:
    """A factor (m, m) of a covariance, and what its constraints cost.

    tr(tilt Gamma) + offset, in the unit of the cost, is at most zero for every covariance
    Gamma that satisfies the constraints. `check` raises an error if one misses them.
    """

    factor: NDArray
    tilt: NDArray
    offset: float
    check: Callable[[NDArray], None]


def propose(
    responses: NDArray,
    is_ball: bool,
    weight: NDArray,
    constraints: Callable[[Any], Any],
) -> Proposal:
    """Find the cheapest covariance that hides moves with a shift of one, by CVXPY.

    The ``responses`` (m, M) are what the moves change, or the axes of a ball of moves.
    ``weight`` is (m, m). ``constraints`` maps a CVXPY expression (m, m) for the covariance
    to a list of constraints.
    """
    cp: Any = import_module("cvxpy")  # takes seconds

    size = len(responses)
    largest = np.abs(responses).max(axis=1)
    units = np.where(largest > 0, largest, largest.max())
    points = responses / units[:, None]
    X: Any = cp.Variable((size, size), PSD=True)
    own = _constraints(constraints, cp.multiply(np.outer(units, units), X), cp)
    price = weight * np.outer(units, units)
    total = np.trace(price)
    cost = cp.Minimize(cp.sum(cp.multiply(price / total, X)))
    _, _, order = scipy.linalg.qr(points, mode="economic", pivoting=True)
    chosen = order[:size].tolist()  # points that span, to start from
    for _ in range(_ROUNDS):
        # matrix inequalities for shifts of at most one (DPAM Algorithm 1)
        blocks = [points] if is_ball else [points[:, [k]] for k in chosen]
        hidden = []
        for block in blocks:
            identity = np.eye(block.shape[1])
            hidden.append(cp.bmat([[X, block], [block.T, identity]]) >> 0)
        _solve(cp.Problem(cost, [*own, *hidden]), cp)
        covariance = X.value + _PADDING * np.abs(np.diag(X.value)).max() * np.eye(size)
        lower = np.linalg.cholesky((covariance + covariance.T) / 2)
        if is_ball:
            break
        sizes = np.linalg.norm(np.linalg.solve(lower, points), axis=0)
        sizes[chosen] = 0.0
        worst = np.argsort(-sizes, kind="stable")[: max(4, size)]
        worst = worst[sizes[worst] > 1 + 1e-7]
        if not len(worst):
            break
        chosen = [*chosen, *worst.tolist()]
    tilt, offset = _multiplied(own, X, cp)

    def check(covariance: NDArray) -> None:
        X.save_value(covariance / np.outer(units, units))
        for constraint in own:
            _require(constraint, X)

    factor = units[:, None] * lower
    tilt = total * tilt / np.outer(units, units)
    return Proposal(factor, tilt, total * offset, check)


def _constraints(constraints: Callable, covariance: Any, cp: Any) -> list[Any]:
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
    if isinstance(own, cp.constraints.constraint.Constraint):
        own = [own]
    if not isinstance(own, (list, tuple)):
        raise TypeError(
            "constraints: expected the function to return a list of CVXPY constraints, "
            f"got {type(own).__name__}"
        )
    for constraint in own:
        if not isinstance(constraint, cp.constraints.constraint.Constraint):
            raise TypeError(
                "constraints: expected CVXPY constraints in the list, got "
                f"{type(constraint).__name__}"
            )
        if not constraint.is_dcp():
            raise ValueError(f"constraints: expected convex ones, got {constraint}")
    return list(own)


def _solve(problem: Any, cp: Any) -> None:
    try:
        problem.solve(solver=cp.CLARABEL)
    except (cp.SolverError, ValueError) as error:
        raise UncertifiableError(
            f"constraints: CVXPY found no covariance ({type(error).__name__}); rescale "
            "the data, or relax the constraints"
        ) from None
    if problem.status in ("infeasible", "infeasible_inaccurate"):
        raise PrivacyError(
            "constraints: no Gaussian noise of this budget satisfies them; relax a "
            "ceiling, protect less, or allow a larger budget"
        )
    if problem.status not in ("optimal", "optimal_inaccurate"):
        raise UncertifiableError(
            f"constraints: CVXPY reports {problem.status}; rescale the data, or relax "
            "the constraints"
        )


def _multiplied(own: list[Any], X: Any, cp: Any) -> tuple[NDArray, float]:
    """Return a matrix and a number with <matrix, X> + number <= 0 under the constraints.

    They are the sum of the multiplied constraints, linearised at X, which a convex
    function is nowhere below. Constraints of other cones are left out, which is safe.
    """
    inequalities = (cp.constraints.Inequality, cp.constraints.NonPos)
    equalities = (cp.constraints.Equality, cp.constraints.Zero)
    tilt = np.zeros(X.shape)
    offset = 0.0
    for constraint in own:
        multiplier = constraint.dual_value
        if multiplier is None or not isinstance(constraint, inequalities + equalities):
            continue
        if isinstance(constraint, inequalities):
            multiplier = np.maximum(multiplier, 0.0)
        slope = _slope(constraint, X)
        if slope is None:
            continue
        flat = np.ravel(multiplier, order="F")
        value = np.ravel(np.asarray(constraint.expr.value, float), order="F")
        matrix = np.reshape(slope @ flat, X.shape, order="F")
        tilt += (matrix + matrix.T) / 2
        offset += float(flat @ value - np.sum(matrix * X.value))
    return tilt, offset


def _slope(constraint: Any, X: Any) -> Any:
    """Return the gradient of a constraint's expression at X, None if unknown."""
    slope = constraint.expr.grad.get(X)
    if slope is not None and np.isscalar(slope):
        return np.full((X.size, 1), slope)
    return slope


def _require(constraint: Any, X: Any) -> None:
    """Raise an error if a constraint is missed by more than the tolerance."""
    values = [np.abs(arg.value).max() for arg in constraint.args if arg.size]
    deviations = np.sqrt(np.abs(np.diag(X.value)))
    natural = np.ravel(np.outer(deviations, deviations), order="F")
    if hasattr(constraint, "expr"):
        slope = _slope(constraint, X)
        if slope is not None:
            values.append(float(np.max(natural @ np.abs(slope))))
    missed = float(np.max(constraint.violation()))
    if not missed <= TOLERANCE * max(values, default=1.0):
        raise UncertifiableError(
            f"constraints: {constraint} is missed by {missed:.1e}; rescale the data, or "
            "relax the constraints"
        )
