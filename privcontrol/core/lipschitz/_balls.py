"""The ball arithmetic of `privcontrol.core._balls` as the Lipschitz bounds use it."""

import math
from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _balls
from .._balls import (
    Ball,
    BallMatrix,
    ball_matrix,
    frobenius_norm,
    is_positive_definite,
    midpoints,
    row_sum_norm,
    spectral_norm,
    working_bits,
)
from ..errors import UncertifiableError

__all__ = [
    "ball",
    "diagonal",
    "frobenius_norm",
    "is_positive_definite",
    "midpoint",
    "precise",
    "row_sum_norm",
    "spectral_norm",
    "upper_float",
]

PRECISION = _balls.CERTIFICATE_BITS


def precise() -> AbstractContextManager:
    """A context in which balls carry ``PRECISION`` bits."""
    return working_bits(PRECISION)


def ball(matrix: ArrayLike) -> BallMatrix:
    """The float matrix as exact balls."""
    return ball_matrix(np.asarray(matrix, float))


def midpoint(matrix: BallMatrix) -> NDArray:
    """The midpoints of a ball matrix, rounded to floats."""
    return midpoints(matrix)


def diagonal(values: ArrayLike) -> BallMatrix:
    """The diagonal ball matrix of a float vector."""
    return ball(np.diag(values))


def upper_float(value: Ball) -> float:
    """The smallest float that is certainly at least the ball `value`."""
    number = _balls.upper_float(value)
    if math.isinf(number) and value.is_nan():
        raise UncertifiableError(
            "ball arithmetic lost all digits of this bound; rescale the model"
        )
    return number
