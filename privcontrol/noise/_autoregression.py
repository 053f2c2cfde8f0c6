"""Noise that is an autoregression, whose inverse ends: how far it hides long changes.

M = s / a(z^-1) for a polynomial a of degree p. What M leaves of a change is a(z^-1) G / s,
whose correlations are those of the plant's response, summed with the correlations of a. So
a shift takes matrices of the plant's size and polynomials, however many states M has.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg
from flint import arb_poly
from numpy.typing import NDArray

from ..numerics.balls import Ball, BallMatrix, enclosure, upper_float, working_bits
from ..numerics.errors import UncertifiableError
from ..secrets.secret import SecretInputs, SignalMoves
from ..systems.linear import Autoregression
from ._endless import WhitenedResponse, in_enough_digits, is_known, largest_of
from ._patterns import largest_pattern

_FIRST_BITS = 128
_BITS_OF_A_STEP = 4


def autoregression_for(covariances: NDArray) -> Autoregression:
    """Return the autoregression with these covariances at lags 0 to p (Levinson).

    It is stable where they are those of a spectrum, and rounding leaves it so.

    Raises
    ------
    UncertifiableError
        If it is not proven to be stable.
    """
    first, later = covariances[:-1], covariances[1:]
    weights = scipy.linalg.solve_toeplitz(first, later)
    variance = float(covariances[0] - weights @ later)
    if not (variance > 0 and is_stable(-weights)):
        raise UncertifiableError(
            "order: the best noise vanishes to rounding at some frequency; ask for a lower "
            "order"
        )
    return Autoregression.of(-weights, float(np.sqrt(variance)))


def is_stable(coefficients: NDArray) -> bool:
    """Return whether 1 / a(z^-1) is proven to be stable, for a_1, ..., a_p (p,).

    It is where all p reflection coefficients are below one (Schur and Cohn). They lose
    digits with each step down, so there are as many more.
    """
    order = len(coefficients)
    with working_bits(_FIRST_BITS + _BITS_OF_A_STEP * order):
        taps = [Ball(1), *map(Ball, coefficients.tolist())]
        for degree in range(order, 0, -1):
            reflection = taps[degree]
            left = 1 - reflection**2
            if not left > 0:
                return False
            taps = [
                (taps[lag] - reflection * taps[degree - lag]) / left
                for lag in range(degree)
            ]
    return True


def hides_by_correlations(secret: SecretInputs) -> bool:
    """Return whether a secret is about single changes of single signals alone."""
    single = all(len(window.columns) == 1 for window in secret.windows)
    others = secret.balls or secret.several or secret.energies is not None
    return single and not others and len(secret.system.C) == 1


def shift_behind_autoregression(noise: Autoregression, secret: SecretInputs) -> float:
    """Return a number that no privacy shift of single changes exceeds.

    Raises
    ------
    UncertifiableError
        If the secret's own response is not proven to be stable.
    """

    def largest(response: WhitenedResponse) -> float | None:
        found = []
        for moves in secret.signals:
            lags = max(map(len, moves.shapes))
            products = _correlations(noise, response, moves.column, lags)
            found.append(_largest_square(products, moves) * Ball(moves.radius) ** 2)
        for window in secret.windows:
            (column,) = window.columns
            products = _correlations(noise, response, column, window.longest)
            radius = Ball(float(window.radii[0]))
            found.append(_square_of_any_shape(products, radius))
        square = largest_of(found)
        return upper_float(square.sqrt()) if is_known(square) else None

    return in_enough_digits(secret.in_balls, largest)


def _correlations(
    noise: Autoregression, response: WhitenedResponse, column: int, lags: int
) -> list[Ball]:
    """Return the correlations at lags 0 .. lags - 1 of what is left of a unit change."""
    size = Ball(noise.std)
    taps = [Ball(1), *(Ball(value) for value in noise.coefficients.tolist())]
    own = arb_poly(taps) * arb_poly(taps[::-1])
    degree = len(taps) - 1
    reach = degree + lags
    plant = _of_plant(response, column, reach)
    both = arb_poly([*plant[:0:-1], *plant]) * own
    middle = reach + degree
    return [both[middle + lag] / size**2 for lag in range(lags)]


def _of_plant(response: WhitenedResponse, column: int, reach: int) -> list[Ball]:
    """Return the correlations at lags 0 .. reach of the plant's response to an impulse."""
    A, b, C, d = response.system.entered_by([column]).matrices
    energy = b.transpose() * response.gramian * b + d.transpose() * d
    found = [energy[0, 0]]
    echo = (A.transpose() * response.gramian * b + C.transpose() * d).transpose()
    state = b
    for _ in range(reach):
        found.append((echo * state)[0, 0])
        state = A * state
    return found


def _largest_square(products: Sequence[Ball], moves: SignalMoves) -> Ball:
    """Return the largest energy of what is left of the shapes of a radius of one."""
    counted = []
    for shape in moves.shapes:
        if moves.lasting and (shape == 1).all():
            counted += _of_pulses(products, len(shape))
            continue
        for values in moves.beginnings(shape):
            counted.append(_of_shape(products, values))
    return largest_of(counted)


def _square_of_any_shape(products: Sequence[Ball], radius: Ball) -> Ball:
    """Bound the energy of what is left of a change of any shape within a radius."""
    scaled = [product * radius**2 for product in products]
    values, errors = enclosure(BallMatrix(len(scaled), 1, scaled))
    gram = scipy.linalg.toeplitz(values[:, 0])
    found, _ = largest_pattern(gram, float(errors.max()))
    return Ball(found)


def _of_pulses(products: Sequence[Ball], longest: int) -> list[Ball]:
    """Return the energies of pulses of one up to so many samples."""
    energies = []
    total = Ball(0)
    row = -products[0]
    for lag in range(longest):
        row += 2 * products[lag]
        total += row
        energies.append(total)
    return energies


def _of_shape(products: Sequence[Ball], values: NDArray) -> Ball:
    """Return the energy of what is left of a shape."""
    taps = [Ball(value) for value in values.tolist()]
    own = arb_poly(taps) * arb_poly(taps[::-1])
    middle = len(taps) - 1
    total = own[middle] * products[0]
    for lag in range(1, len(taps)):
        total += 2 * own[middle + lag] * products[lag]
    return total
