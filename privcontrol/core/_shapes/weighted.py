"""The shape of noise around a spanner's moves: what a Gaussian or Laplace factor looks like before it is sized.

A shape holds every move in its unit ball, the 2-ball for Gaussian and the 1-ball for Laplace noise, and costs as
little as can be certified. Sizing it to a budget is the designer's business.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from .._linalg import real_array
from .certificate import cost_below
from .cross_polytope import laplace_shape as enclosing_cross_polytope
from .ellipsoid import enclosing_ellipsoid
from .wide import wide_factor


def half_weight(weight, size):
    """A function B -> H B with H^T H = W; the weight's own dimension squared is not formed for the identity.

    A vector stands for a diagonal matrix, as in a noise factor; the squares of what comes back sum to the cost.
    """
    if weight is None:
        return lambda columns: columns
    weight = real_array(weight, "weight")
    if weight.ndim == 1:
        raise ValueError(
            f"weight: expected shape ({size}, {size}), got {weight.shape}; write np.diag(weight) for prices of entries"
        )
    W = real_array(weight, "weight", shape=(size, size))
    if np.abs(W - W.T).max() > 1e-10 * np.abs(W).max():
        raise ValueError("weight: expected a symmetric matrix; pass (W + W.T) / 2")
    values, vectors = scipy.linalg.eigh(W)
    if values[0] < -1e-10 * max(values[-1], 0.0) or values[-1] <= 0:
        raise ValueError(
            f"weight: expected a positive semidefinite matrix, got smallest eigenvalue {values[0]:.3g}"
        )
    half = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    return lambda columns: half * columns if columns.ndim == 1 else half @ columns


#: Relative size below which the search prices a direction that the weight leaves free, so that an optimum exists.
_FREE_DIRECTION = 1e-6

#: Columns of a factor up to which it is offered though another one costs less for pure differential privacy.
_MOST_COLUMNS = 128


@dataclass(frozen=True)
class Shape:
    """Factor (r, r) in a spanner's coordinates whose unit ball holds every move, and the least cost of any."""

    factor: np.ndarray
    lower_bound: float


def gaussian_shape(spanner, rows, tol=1e-9, *, counted=None):
    """The cheapest ellipsoid around a spanner's moves, cost tr(W Gamma) with ``rows`` = H B, H^T H = W.

    The lower bound is for hiding the first ``counted`` moves, all by default; the others are held as well.
    """
    factor = _weight_factor(rows)
    found = enclosing_ellipsoid(spanner.coordinates, factor, tol=tol)
    if counted is None:
        return Shape(found.factor, found.lower_bound)
    counts = found.support < counted
    support, weights = found.support[counts], found.weights[counts]
    return Shape(
        found.factor,
        cost_below(factor, spanner.coordinates[:, support], weights)
        if len(support)
        else 0.0,
    )


def _weight_factor(rows):
    """L (r, r) with L L^T = rows^T rows."""
    triangle = scipy.linalg.qr(rows, mode="r")[0][: rows.shape[1]]
    if not triangle.any():
        raise ValueError(
            "weight: it prices no direction of the noise (W G z = 0 for every hidden move); use another weight"
        )
    return np.vstack(
        [triangle, np.zeros((rows.shape[1] - len(triangle), rows.shape[1]))]
    ).T


def laplace_shape(spanner, rows, *, counted=None):
    """The cheapest cross-polytope that a local search finds around a spanner's moves; the variance 2 is counted."""
    factor, free = _priced(_weight_factor(rows))
    found = enclosing_cross_polytope(spanner.coordinates, factor)
    if counted is None and not free:
        return Shape(found.factor, found.lower_bound)
    return Shape(
        found.factor, 2 * gaussian_shape(spanner, rows, counted=counted).lower_bound
    )


def laplace_factors(spanner, rows, prices):
    """Factors (r, K) for Laplace noise in order of cost, and the least cost of any, whatever its number of columns.

    One of r columns, and one found from independent noise on the entries, whose variances cost ``prices`` (m,); of more
    than 128 columns only where it is the cheaper one, as it takes long to evaluate for a delta above 0.
    """
    shape = laplace_shape(spanner, rows)
    weight_factor, _ = _priced(_weight_factor(rows))
    wide, cost = wide_factor(
        spanner.responses, spanner.coordinates, weight_factor, prices
    )
    beaten = cost < 2 * np.sum((weight_factor.T @ shape.factor) ** 2) * (
        1 - 1e-9
    )  # round-off must not choose
    if beaten:
        return (wide, shape.factor), shape.lower_bound
    return (
        (shape.factor, wide) if wide.shape[1] <= _MOST_COLUMNS else (shape.factor,)
    ), shape.lower_bound


def _priced(weight_factor):
    """The weight's factor with a price for every direction, and whether one was free."""
    singular = scipy.linalg.svdvals(weight_factor)
    if singular[-1] >= _FREE_DIRECTION * singular[0]:
        return weight_factor, False
    least = _FREE_DIRECTION * singular[0] * np.eye(len(weight_factor))
    return scipy.linalg.qr(np.vstack([weight_factor.T, least]), mode="r")[0][
        : len(weight_factor)
    ].T, True
