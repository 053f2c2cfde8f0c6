"""Noise that is an autoregression, whose inverse ends: how far it hides long changes.

M = s / a(z^-1) for a polynomial a of degree p. What M leaves of a change is a(z^-1) G / s,
whose correlations are those of the plant's response, summed with the correlations of a. So
a shift takes matrices of the plant's size and polynomials, however many states M has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import scipy.linalg
from flint import arb_poly
from numpy.typing import NDArray

from ..numerics.balls import (
    CERTIFICATE_BITS,
    Ball,
    BallMatrix,
    enclosure,
    upper_float,
    working_bits,
)
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import EPS, float_above
from ..numerics.thresholds import ROUNDED
from ..privacy.repetition import Spacing, growth_apart
from ..secrets.secret import SecretInputs, SignalMoves, WindowMoves
from ..systems.linear import Autoregression
from ..systems.powers import Orbit
from ._levels import Levels, with_later
from ._patterns import largest_pattern
from ._whitened_response import (
    WhitenedResponse,
    in_enough_digits,
    is_known,
    largest_of,
)

#: More bits of a polynomial for each step of its order: the recursion may double twice.
_BITS_OF_A_STEP = 4
#: Lags of which correlations are evaluated, until all later ones are rounding, relative to
#: the energy, or the last number of lags.
_REACHES = (2**11, 2**13, 2**15)


def autoregression_for(covariances: NDArray[np.float64]) -> Autoregression:
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


def is_stable(coefficients: NDArray[np.float64]) -> bool:
    """Return whether 1 / a(z^-1) is proven to be stable, for a_1, ..., a_p (p,).

    It is where all p reflection coefficients are below one (Schur and Cohn). They lose
    digits with each step down, so there are as many more.
    """
    order = len(coefficients)
    with working_bits(CERTIFICATE_BITS + _BITS_OF_A_STEP * order):
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
    """Return whether a secret is about single changes of single signals alone.

    So are several changes at a distance, as far as `are_told_apart`.
    """
    single = all(len(window.columns) == 1 for window in secret.windows)
    others = secret.balls or secret.energies is not None
    if not single or others or len(secret.system.C) != 1:
        return False
    return not secret.several or (secret.all_apart and are_told_apart(secret))


def shift_behind_autoregression(noise: Autoregression, secret: SecretInputs) -> float:
    """Return a number that no privacy shift of single changes exceeds.

    Raises
    ------
    UncertifiableError
        If the secret's own response is not proven to be stable.
    """
    if secret.several:
        return _shift_of_several(noise, secret)

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


# -- several changes ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ChangesBehind:
    """What an autoregression leaves of changes of one signal.

    Attributes
    ----------
    square : float
        No change has a larger energy.
    products : ndarray, shape (T,)
        Bounds of the inner products of two changes that begin so many samples apart or
        more, the last one of those that are further apart as well.
    shape : tuple of float and ndarray (k,)
        A bound of the energy of a change of any shape, and its signs.
    levels : Levels or None
        The changes of a radius of one, if they are levels.
    size : float
        The largest squared radius.
    """

    square: float
    products: NDArray[np.float64]
    shape: tuple[float, NDArray[np.float64]]
    levels: Levels | None
    size: float

    #: A bound is certified when they are made.
    is_bounded: ClassVar[Literal[True]] = True

    @property
    def shift(self) -> float:
        """The largest shift of one change."""
        return math.sqrt(self.square)

    @property
    def of_any_shape(self) -> tuple[float, NDArray[np.float64]]:
        """A bound of the shift of a change of any shape, and its signs (k,)."""
        largest, signs = self.shape
        return math.sqrt(max(largest, self.square)), signs

    def of_several(self, spacing: Spacing) -> float:
        """Bound the shift of several changes at a distance."""
        last = len(self.products) - 1

        def correlation(lag: int) -> float:
            return float(self.products[min(lag, last)]) / self.square

        shift = self.shift * growth_apart(spacing, correlation)
        if self.levels is None or spacing.events == 1:
            return shift
        square = self.levels.square(spacing) * self.size
        return min(shift, math.sqrt(square) * (1 + 4 * EPS))


def are_told_apart(secret: SecretInputs) -> bool:
    """Return whether `changes_behind` says what several changes of a secret share.

    They are levels of one signal that are kept, or changes of any shape of it.
    """
    if not hides_by_correlations(secret.once) or secret.inputs != 1:
        return False
    for moves in secret.signals:
        is_level = all((shape == 1).all() for shape in moves.shapes)
        if not is_level or not (moves.lasting or moves.longest == 1):
            return False
    return True


def _shift_of_several(noise: Autoregression, secret: SecretInputs) -> float:
    """Return a number that no shift of several changes at a distance exceeds."""
    known = changes_behind(noise, secret)
    every: list[SignalMoves | WindowMoves] = [*secret.signals, *secret.windows]
    shifts = [known.of_several(each.spacing) for each in every]
    return float_above(max(shifts), 4)


def changes_behind(noise: Autoregression, secret: SecretInputs) -> ChangesBehind:
    """Return what is left of several changes of a secret of which that is known.

    With the correlations rho of impulses, changes v and w that begin m samples apart share
    sum v(i) w(j) rho(m + j - i).

    Raises
    ------
    UncertifiableError
        If the secret's own response is not proven to be stable.
    """
    longest = secret.longest
    radii = [float(moves.radius) for moves in secret.signals]
    radii += [float(window.radii[0]) for window in secret.windows]
    size = max(radii) ** 2

    def found(response: WhitenedResponse) -> ChangesBehind | None:
        for reach in _REACHES:
            beyond = _beyond(noise, response, reach - 2 * longest)
            energy = _correlations(noise, response, 0, 1)[0]
            if not (is_known(energy) and math.isfinite(beyond)):
                return None
            if beyond <= ROUNDED * upper_float(energy):
                break
        products = _correlations(noise, response, 0, reach)
        values, errors = enclosure(BallMatrix(reach, 1, products))
        rho, error = values[:, 0], float(errors.max())
        if not error <= ROUNDED * rho[0]:
            return None
        signs = largest_pattern(scipy.linalg.toeplitz(rho[:longest]), error)
        levels = None
        if secret.signals:
            levels = Levels(rho, error, longest, beyond)
            shared = np.maximum(*levels.shared)
        else:
            shared = _shared_by_any(rho, error, longest)
            shared = with_later(shared, longest**2 * beyond)
        counted = [
            _largest_square(products, moves) * Ball(moves.radius) ** 2
            for moves in secret.signals
        ]
        if secret.windows:
            counted.append(Ball(signs[0] * size))
        square = upper_float(largest_of(counted))
        shape = (signs[0] * size, signs[1])
        return ChangesBehind(square, shared * size, shape, levels, size)

    return in_enough_digits(secret.in_balls, found)


def _beyond(noise: Autoregression, response: WhitenedResponse, reach: int) -> float:
    """Bound the correlations of impulses at all lags from ``reach`` on.

    They sum those of the plant at p lags to both sides with those of a, and what is left
    of the plant's response by then bounds these.
    """
    A, b, _, d = response.system.matrices
    order = len(noise.coefficients)
    state = Orbit(A, b).at(max(reach - order - 1, 0))
    later = (state.transpose() * response.gramian * state)[0, 0]
    energy = (b.transpose() * response.gramian * b + d.transpose() * d)[0, 0]
    of_plant = (later.abs_upper() * energy.abs_upper()).sqrt()
    taps = Ball(1)
    for value in noise.coefficients.tolist():
        taps += Ball(abs(value))
    bound = of_plant * (taps / noise.std) ** 2
    return upper_float(bound) if bound.is_finite() else math.inf


def _shared_by_any(
    rho: NDArray[np.float64], error: float, longest: int
) -> NDArray[np.float64]:
    """Bound the products of changes of any shape within one, for each lag."""
    sizes = np.abs(rho) + error
    both = np.concatenate([sizes[:0:-1], sizes])
    steps = np.abs(np.arange(1 - longest, longest))
    sums = np.convolve(both, (longest - steps).astype(float), "valid")
    middle = len(rho) - longest  # of lag zero
    return sums[middle:] * (1 + 8 * longest * EPS)


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
    found = response.entered([column]).correlations(reach + 1)
    return [matrix[0, 0] for matrix in found]


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


def _of_shape(products: Sequence[Ball], values: NDArray[np.float64]) -> Ball:
    """Return the energy of what is left of a shape."""
    taps = [Ball(value) for value in values.tolist()]
    own = arb_poly(taps) * arb_poly(taps[::-1])
    middle = len(taps) - 1
    total = own[middle] * products[0]
    for lag in range(1, len(taps)):
        total += 2 * own[middle + lag] * products[lag]
    return total
