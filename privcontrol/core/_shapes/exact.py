"""Moves in units of a noise factor, in ball arithmetic: what double precision cannot tell when directions differ much.

A factor and moves of doubles are exact numbers, however thin their thinnest direction; only what is computed from them
is rounded. Problems too large for ball arithmetic are left to floating point.
"""

import math

import flint
import numpy as np

from .._balls import working_bits
from .._linalg import EPS

_PRECISION = 400  # bits
_MOST_PRODUCTS = 10**6
_ERROR = 1 + 4 * EPS  # room for the rounding of sums of error bounds


def is_small(*lengths):
    """Whether ball arithmetic takes at most a few tenths of a second for this product of lengths."""
    return math.prod(lengths) <= _MOST_PRODUCTS


def exact_product(left, right):
    """left @ right (m, M) of doubles as a matrix of balls."""
    with working_bits(_PRECISION):
        return flint.arb_mat(left.tolist()) * flint.arb_mat(right.tolist())


def exact_shifts(factor, images, doubt):
    """Lambda^+ s (r, M) for images s (m, M) in ball arithmetic.

    Parameters
    ----------
    factor : ndarray, shape (m, r)
        Lambda, of full column rank.
    images : flint.arb_mat, shape (m, M)
    doubt : ndarray, shape (m, M)
        Bounds of the errors of the images beyond their balls.

    Returns
    -------
    (shifts, bare, errors) or None
        The nearest doubles, what is certainly left |s - Lambda shifts| (m, M), and bounds of the errors of ``shifts``. None where
        the columns of Lambda are dependent.
    """
    with working_bits(_PRECISION):
        balls = flint.arb_mat(factor.tolist())
        try:
            inverse = (balls.transpose() * balls).inv() * balls.transpose()
        except ZeroDivisionError:
            return None
        exact = inverse * images
        shifts, errors = _doubles(exact)
        bare, rounding = _doubles(images - balls * exact)
        inverse, slack = _doubles(inverse)
    errors = (
        errors + (np.abs(inverse) + slack) @ doubt * (1 + 2 * EPS * len(doubt))
    ) * _ERROR
    return (
        (shifts, np.maximum(np.abs(bare) - rounding, 0.0), errors)
        if np.isfinite(errors).all()
        else None
    )


def _doubles(balls):
    """The nearest doubles of a matrix of balls, and bounds of their errors."""
    shape = balls.nrows(), balls.ncols()
    entries = balls.entries()
    value = np.array([float(ball.mid()) for ball in entries]).reshape(shape)
    error = np.array([float(ball.rad()) for ball in entries]).reshape(shape)
    return value, error * _ERROR + EPS * np.abs(value)
