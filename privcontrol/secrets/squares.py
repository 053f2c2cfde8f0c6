"""Certified bounds of how far noise shifts hidden moves, in as few digits as tell them.

Of many moves all but those near the largest one are bounded in doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..core.manifold import Moves
from ..numerics.balls import (
    DECIDING_BITS,
    Ball,
    BallMatrix,
    enclosure,
    identity_balls,
    largest_eigenvalue,
    upper_bounds,
    upper_float,
    working_bits,
)
from ..numerics.errors import NotRealizableError
from ..numerics.linalg import EPS, float_above
from ..numerics.thresholds import (
    CACHED,
    CERTAIN,
    FINE,
    MANY_DIMENSIONS,
    ROUNDED,
    SMALLEST,
)
from ..systems.linear import Plant
from ..systems.transitions import ACCURATE_BITS, FIRST_BITS
from .hiding import NoiseForm, Pairing, Split
from .state_moves import StateMoves

#: What a move does not know of its small entries, relative to its largest one.
_LOST = 2.0 ** (2 - ACCURATE_BITS)


def squares_of(
    form: NoiseForm | Split, hidden: Moves, plant: Plant
) -> NDArray[np.float64]:
    """Return certified y^2 of each move of a run, or of the worst one of a ball."""
    bits = max(FIRST_BITS, hidden.bits)
    pairing = form.pairing_under(hidden, plant)
    bounds = near = None
    blocks = hidden.blocks
    if isinstance(hidden, StateMoves):
        found = _below_largest(hidden, pairing, bits)
        if found is not None:
            bounds, near = found
            if not len(near):
                return bounds
            blocks = hidden.picked(near).blocks

    def evaluate() -> Iterator[Ball]:
        sides = pairing()
        for block in blocks():
            left, right = sides(block)
            if hidden.is_ball:
                yield largest_eigenvalue(left.transpose() * right)
                continue
            count = block.ncols()
            sums = [Ball(0)] * count
            pairs = zip(left.entries(), right.entries(), strict=True)
            for k, (x, y) in enumerate(pairs):
                sums[k % count] += x * y
            yield from sums

    squares = certified(evaluate, bits)
    if bounds is None:
        return squares
    bounds[near] = squares
    return bounds


def _below_largest(
    hidden: StateMoves, form: Callable[[], Pairing], bits: int
) -> tuple[NDArray[np.float64], NDArray[np.intp]] | None:
    """Return bounds of y^2 (M,) in doubles, and the moves of which they are not enough.

    Those are near the largest one, or have no sharp bound. None where there are many.
    Errors of products are bounded as in Higham, "Accuracy and Stability of Numerical
    Algorithms" (2002), section 3.1.
    """
    columns = hidden.columns
    count = columns.shape[1]
    if count < MANY_DIMENSIONS:
        return None
    try:
        with working_bits(bits):
            left, right = form()(identity_balls(len(columns)))
            sides = [enclosure(left)]
            sides.append(sides[0] if right is left else enclosure(right))
    except ZeroDivisionError:  # these are too few bits
        return None
    lower, upper = np.empty(count), np.empty(count)
    step = max(1, CACHED // max(len(columns), len(sides[0][0])))
    with np.errstate(all="ignore"):
        for start in range(0, count, step):
            some = slice(start, start + step)
            middle, error = _squares(sides, columns[:, some])
            np.subtract(middle, error, out=lower[some])
            np.add(middle, error, out=upper[some])
    largest = lower.max()
    if not np.isfinite(upper).all() or not largest > SMALLEST:
        return None
    width = upper - lower
    is_near = upper >= largest * (1 - CERTAIN)
    if 2 * np.count_nonzero(is_near) > len(upper):  # as of an integrator, which stays
        is_near = width > FINE * largest
    near = np.flatnonzero(is_near | (width > ROUNDED * largest))
    if 2 * len(near) > len(upper):
        return None
    return np.maximum(upper, 0.0), near


def _squares(
    sides: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
    columns: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return y^2 (m,) of moves (n, m) and bounds of their errors, from a pairing's maps."""
    # rounded, from balls that know `ACCURATE_BITS` of the largest entry
    wrong = EPS * np.abs(columns) + _LOST * np.abs(columns).max(axis=0) + SMALLEST
    left = _images(*sides[0], columns, wrong)
    right = left if sides[1] is sides[0] else _images(*sides[1], columns, wrong)
    width = left[1] * np.abs(right[0]) + np.abs(left[0]) * right[1]
    width += left[1] * right[1] + SMALLEST
    products = left[0] * right[0]
    steps = (len(products) + 8) * EPS
    error = (width + steps * (np.abs(products) + width)).sum(axis=0) * (1 + 2 * steps)
    middle = products.sum(axis=0)
    error += 5 * EPS * (np.abs(middle) + error)  # of these sums
    return middle, error


def _images(
    matrix: NDArray[np.float64],
    errors: NDArray[np.float64],
    columns: NDArray[np.float64],
    wrong: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return M Z (r, M), and bounds of its errors from those of M and Z."""
    sizes = np.abs(matrix)
    entries = np.abs(columns)
    known = sizes @ wrong + errors @ (entries + wrong)
    steps = (len(columns) + 4) * EPS
    rounding = steps * (sizes @ entries)
    bounds = (known + rounding) * (1 + 2 * steps) + SMALLEST
    return matrix @ columns, bounds


def laplace_shifts(form: NoiseForm, hidden: Moves, plant: Plant) -> NDArray[np.float64]:
    """Return bounds of the sizes of the shifts (r, M) of noise without a scale, by move.

    Of several choices of entries that make a move, those of the smaller sum are taken.
    """
    sizes = []
    with working_bits(hidden.bits):
        every = [shifts() for shifts in _maps_to_entries(form, hidden, plant)]
        for moves in hidden.blocks():
            found = [upper_bounds(shifts * moves) for shifts in every]
            least = np.argmin([each.sum(axis=0) for each in found], axis=0)
            sizes.append(np.choose(least, found))
    return np.hstack(sizes)


def laplace_size(form: NoiseForm, ball: Moves, plant: Plant) -> float:
    """Return a bound of the sum of a shift's sizes, for all moves of a ball."""
    sizes = []
    with working_bits(ball.bits):
        (axes,) = ball.blocks()
        for shifts in _maps_to_entries(form, ball, plant):
            values, errors = enclosure(shifts() * axes)
            if not np.isfinite(errors).all():
                sizes.append(np.inf)
                continue
            # no coordinate of a point of the unit ball is above one
            sizes.append(ball.sizes(values, 1).max() + errors.sum())
    return float_above(min(sizes) * (1 + EPS * len(values)), 2)


def _maps_to_entries(
    form: NoiseForm, hidden: Moves, plant: Plant
) -> list[Callable[[], BallMatrix]]:
    """Return choices of a map from a move to entries of the noise that make its outputs.

    Outputs that do not reveal all states leave a choice: entries that make the states of
    the move, or those of least energy.
    """
    maps = [form.map_under(hidden, plant)]
    if form.plant == plant and not plant.varies:
        still = np.zeros_like(plant.B)
        told = replace(plant, C=np.eye(plant.order), D=still, outputs=plant.states)
        with suppress(NotRealizableError):
            maps.append(replace(form, plant=told).map_under(hidden, told))
    return maps


def certified(evaluate: Callable[[], Iterable[Ball]], bits: int) -> NDArray[np.float64]:
    """Upper bounds of the balls that ``evaluate()`` returns, at a sharp precision."""
    while True:
        with working_bits(bits):
            try:
                bounds = np.fromiter(map(_bounds, evaluate()), np.dtype((float, 2)))
            except ZeroDivisionError:  # these are too few bits
                bounds = np.full((1, 2), np.inf)
        values, widths = bounds.T
        sharp = np.isfinite(values).all() and (widths <= ROUNDED * values.max()).all()
        if sharp or bits >= DECIDING_BITS:
            return np.maximum(values, 0.0)
        bits *= 2


def _bounds(ball: Ball) -> tuple[float, float]:
    """The upper end of a ball, and its width."""
    return upper_float(ball), float((2 * ball.rad()).upper())
