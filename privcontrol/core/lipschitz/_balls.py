"""Rigorous linear algebra in ball arithmetic: LAPACK proposes a factor, balls prove what follows from it. Nothing
here trusts a floating-point result, and a proof that fails is reported as such, never guessed."""

import math

import numpy as np
import scipy.linalg
from flint import arb, arb_mat

from privcontrol.core.errors import UncertifiableError

from .._precision import working_bits

PRECISION = (
    128  # bits: the balls lose about log2(n) of them, the float factors spoil 53
)


def precise():
    """A context in which balls carry ``PRECISION`` bits (with fewer they are wider, and still right)."""
    return working_bits(PRECISION)


def ball(matrix):
    """The float matrix as exact balls."""
    matrix = np.atleast_2d(np.asarray(matrix, float))
    return arb_mat(*matrix.shape, matrix.ravel().tolist())


def midpoint(matrix):
    """The midpoints of a ball matrix, rounded to floats."""
    return np.array([float(entry) for entry in matrix.entries()]).reshape(
        matrix.nrows(), matrix.ncols()
    )


def diagonal(values):
    """The diagonal ball matrix of a float vector."""
    return ball(np.diag(values))


def upper_float(value):
    """The smallest float that is certainly at least the ball `value`."""
    upper = value.upper()
    number = float(upper)
    if math.isnan(number):
        raise UncertifiableError(
            "ball arithmetic lost all digits of this bound; rescale the model"
        )
    while math.isfinite(number) and not arb(number) >= upper:
        number = math.nextafter(number, math.inf)
    return number


def row_sum_norm(matrix):
    """The largest absolute row sum of a ball matrix, from above, as an exact ball."""
    return max(
        sum((abs(entry) for entry in row), arb(0)).upper() for row in matrix.tolist()
    )


def frobenius_norm(matrix):
    """The Frobenius norm of a ball matrix, as a ball."""
    return sum((entry * entry for entry in matrix.entries()), arb(0)).sqrt()


def spectral_norm(matrix):
    """An upper bound (exact ball) of the largest singular value of every matrix in a ball matrix.

    With a computed SVD and B = U diag(s): ||M|| <= ||B|| ||V|| + ||M - B V'||_F, and the Gram matrices of B
    and V are so nearly diagonal that their row sums lose a few units of round-off only.
    """
    left, singular, right = scipy.linalg.svd(midpoint(matrix), full_matrices=False)
    with precise():
        left, right = ball(left * singular), ball(right)
        spread = row_sum_norm(left.transpose() * left) * row_sum_norm(
            right * right.transpose()
        )
        return (spread.sqrt() + frobenius_norm(matrix - left * right)).upper()


def is_positive_definite(matrix):
    """Whether every symmetric matrix in a ball matrix is *proven* positive definite.

    For R the float inverse of a Cholesky factor, R M R' is nearly I; when it is diagonally dominant, it and
    hence M are positive definite. False means: not proven.
    """
    try:
        factor = np.linalg.cholesky(midpoint(matrix))
        inverse = scipy.linalg.solve_triangular(factor, np.eye(len(factor)), lower=True)
    except (np.linalg.LinAlgError, ValueError):
        return False
    if not np.isfinite(inverse).all():
        return False
    with precise():
        inverse = ball(inverse)
        rows = (inverse * matrix * inverse.transpose()).tolist()
        return all(
            row[i] > sum((abs(entry) for j, entry in enumerate(row) if j != i), arb(0))
            for i, row in enumerate(rows)
        )
