"""Bounds of what is left of a secret over runs of any length, where a plant varies.

If a matrix P >= 0 obeys P >= A^T P A + C^T C at every vertex, then the energy of the outputs
after a state z is at most z^T P z, for any sequence of vertices. What comes some samples
later is bounded by smaller matrices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..numerics.balls import (
    CERTIFICATE_BITS,
    Ball,
    BallMatrix,
    ball_matrix,
    is_positive_definite,
    midpoints,
    upper_float,
    working_bits,
)
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import EPS, float_above
from ..numerics.objects import ByContent
from ..numerics.saved import Saved
from ..numerics.thresholds import NEGLIGIBLE, ROUNDED
from ..privacy.repetition import Spacing, growth_apart
from ..secrets.secret import SecretInputs
from ..systems.linear import LEAP, impulse_energies, observability_gramian
from ._program import GivenUp, Program, is_proven, solved
from ._vertices import (
    FAINT,
    VaryingSecret,
    envelope,
    is_stable,
    orthonormal,
    root_diagonal,
)

#: What every inequality is solved with to spare, in coordinates in which the mean plant has
#: the P of ones, and a privacy shift of one. The first one is above most solvers' errors.
_MARGINS = (1e-7, 1e-9, 1e-5)

_UNSTABLE = (
    "models: no bound for runs of any length exists or was found: the plant may vary so "
    "that a hidden change does not decay. Narrow the models, take out those that are "
    "unstable, or protect over a finite horizon with a white floor"
)


def varying_shift(secret: VaryingSecret, largest: float) -> float:
    """Return a number that no privacy shift exceeds, over runs of any length.

    It is inf if the search finds out that it would be above ``largest``.

    Raises
    ------
    UncertifiableError
        If no bound is verified.
    """
    with working_bits(CERTIFICATE_BITS):
        try:
            return _bounded(secret, largest).shift
        except GivenUp:
            return math.inf


class _Bounded(NamedTuple):
    """A verified bound of the shift, and the P that shows it."""

    shift: float
    scaled: VaryingSecret  # in the coordinates and units of P
    size: float  # the unit
    form: NDArray[np.float64]  # P


def _bounded(secret: VaryingSecret, largest: float) -> _Bounded:
    """Return a verified bound of the privacy shift.

    Raises
    ------
    GivenUp
        If it would be above ``largest``.
    UncertifiableError
        If no bound is verified.
    """
    mean = secret.mean
    matrices = [midpoints(vertex.A) for vertex in secret.vertices]
    if not all(map(is_stable, [mean.A, *matrices])):
        raise UncertifiableError(_UNSTABLE)
    # coordinates in which the mean plant has P = I, and its privacy shift
    gramian = observability_gramian(mean)
    basis = orthonormal(gramian, 1 / root_diagonal(gramian), FAINT)
    energies = impulse_energies(mean) * secret.radii**2
    size = float(np.sqrt(energies.max())) or 1.0
    scaled = secret.transformed(basis * size, size)
    program = replace(Program.of(scaled), most=(largest / size) ** 2)
    for margin in _MARGINS:
        found = solved(program, margin)
        square = None if found is None else program.verified(found)
        if found is not None and square is not None:
            shift = Ball(square).sqrt() * Ball(size)
            bound = float_above(upper_float(shift))
            return _Bounded(bound, scaled, size, found["P"])
    raise UncertifiableError(_UNSTABLE)


@dataclass(frozen=True, eq=False)
class Fading(ByContent, Saved):
    """Bound what is left of a change, sample by sample after it began, where a plant varies.

    Attributes
    ----------
    shift : float
        No change is shifted by more.
    whole : float
        The largest shift of an impulse of the radius.
    impulses : ndarray, shape (N,)
        The shift by what comes later than m samples after it, for m = 0 .. N - 1. Falling.
    factor : float
        What comes another N samples later shifts by so much less.
    values : ndarray, shape (L,)
        The largest values of a change, relative to the radius.
    """

    shift: float
    whole: float
    impulses: NDArray[np.float64]
    factor: float
    values: NDArray[np.float64]

    def after(self, lag: int) -> float:
        """Bound the shift by what comes ``lag`` samples after a change began, or later.

        What two changes share is at most that times the shift of the second one.
        """
        passed = lag - np.arange(len(self.values))
        sizes = np.where(passed > 0, self._after_impulse(passed - 1), self.whole)
        left = float(self.values @ sizes) * (1 + len(sizes) * EPS)
        return min(left, self.shift)

    def of_several(self, spacing: Spacing) -> float:
        """Bound the shift of several changes at a distance."""

        def correlation(lag: int) -> float:
            return self.after(lag) / self.shift

        return self.shift * growth_apart(spacing, correlation)

    @property
    def of_any_shape(self) -> float:
        """A bound of the shift of a change with any values within the largest one."""
        count = len(self.values)
        lags = np.arange(1, count)
        shared = (count - lags) @ self._after_impulse(lags - 1)
        square = self.whole * (count * self.whole + 2 * float(shared))
        return math.sqrt(square) * float(self.values.max()) * (1 + 2 * count * EPS)

    def _after_impulse(self, lags: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return bounds for numbers of samples, falling: F^q times those of the first N."""
        times, places = np.divmod(np.maximum(lags, 0), len(self.impulses))
        bounds = self.factor**times * self.impulses[places]
        is_later = times > 0
        last = self.impulses[-1] * self.factor ** (times[is_later] - 1)
        bounds[is_later] = np.minimum(bounds[is_later], last)
        return bounds * (1 + ROUNDED)


def fading(secret: VaryingSecret) -> Fading:
    """Bound what is left of a change of a secret, over runs of any length.

    With P >= A^T P A + C^T C and P_0 = P, matrices P_(m+1) >= A^T P_m A at every vertex bound
    the energy that comes m samples later by z^T P_m z. From P_N <= F^2 P on they bound it by
    F^2 times what came N samples earlier.

    Raises
    ------
    UncertifiableError
        If no bound is verified.
    """
    with working_bits(CERTIFICATE_BITS):
        found = _bounded(secret, math.inf)
        vertices = found.scaled.vertices
        plain = [midpoints(vertex.A) for vertex in vertices]
        form = found.form
        impulses: list[float] = []
        while True:
            impulses.append(found.size * _largest_impulse(found.scaled, form, False))
            right = envelope([A.T @ form @ A for A in plain])
            later = right + NEGLIGIBLE * np.trace(right) * np.eye(len(right))
            after, before = ball_matrix(later), ball_matrix(form)
            nothing = BallMatrix(1, secret.order)
            if not all(is_proven(after, before, each.A, nothing) for each in vertices):
                break
            form = later
            if len(impulses) == LEAP:
                break
        factor = _proven_factor(form, found.form) if len(impulses) > 1 else 1.0
        whole = found.size * _largest_impulse(found.scaled, found.form, True)
    falling = np.minimum.accumulate(impulses) * (1 + 2 * EPS)
    return Fading(found.shift, whole, falling, factor, _largest_values(secret.secret))


def _largest_impulse(
    left: VaryingSecret, form: NDArray[np.float64], at_once: bool
) -> float:
    """Return the largest root of b^T P b of impulses of the radius, and of d^T d at once."""
    value = ball_matrix(form)
    found = []
    for columns, radii in _impulses(left.secret):
        total = Ball(0)
        for column, radius in zip(columns, radii, strict=True):
            squares = []
            for vertex in left.vertices:
                _, b, _, d = vertex.entered_by([column]).matrices
                square = (b.transpose() * value * b)[0, 0]
                if at_once:
                    square += (d.transpose() * d)[0, 0]
                squares.append(upper_float(square.abs_upper().sqrt()))
            total += Ball(max(squares)) * Ball(radius)
        found.append(upper_float(total))
    return float_above(max(found), 2)


def _impulses(secret: SecretInputs) -> list[tuple[list[int], list[float]]]:
    """Return the inputs of impulses that come together, and their radii."""
    alone = [([moves.column], [float(moves.radius)]) for moves in secret.signals]
    several = [
        (list(window.columns), np.asarray(window.radii).tolist())
        for window in secret.windows
    ]
    return [*alone, *several]


def _largest_values(secret: SecretInputs) -> NDArray[np.float64]:
    """Return the largest size of each value of a change, relative to the radius."""
    values = np.zeros(secret.longest)
    for moves in secret.signals:
        for shape in moves.shapes:
            first = values[: len(shape)]
            np.maximum(first, np.abs(shape), out=first)
    for window in secret.windows:
        values[: window.longest] = np.maximum(values[: window.longest], 1.0)
    return values


def _proven_factor(later: NDArray[np.float64], form: NDArray[np.float64]) -> float:
    """Return an F below one with P_N <= F^2 P, or one where none is proven."""
    try:
        largest = float(scipy.linalg.eigh(later, form, eigvals_only=True)[-1])
    except np.linalg.LinAlgError:
        return 1.0
    factor = math.sqrt(max(largest, 0.0)) * (1 + ROUNDED) + ROUNDED
    if not factor < 1:
        return 1.0
    spare = ball_matrix(form) * Ball(factor) ** 2 - ball_matrix(later)
    return factor if is_positive_definite(spare) else 1.0
