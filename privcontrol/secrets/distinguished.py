"""Moves of the initial state as the outputs of a run distinguish them.

Where outputs do not distinguish two states, as in a run with fewer readings than states,
moves can be held against each other: O z = O P z, where P z moves only as many states as
outputs tell apart. Gaussian noise costs the same for z as for P z. Noise of another law
costs more the more numbers it has.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core.manifold import EllipsoidMoves, Moves
from ..numerics.balls import (
    Ball,
    BallMatrix,
    RationalMatrix,
    ball_matrix,
    midpoints,
    working_bits,
)
from ..numerics.thresholds import NEAREST, UNSEEN
from ..systems.linear import Plant, narrowed
from ..systems.powers import distinguishes_all, seen_states, told_directions
from .run_moves import BallMoves, roundings


def distinguished(moves: Moves, plant: Plant, horizon: int) -> Moves:
    """Return moves with the same responses that move no more states than outputs tell.

    They are the moves themselves where outputs distinguish all states that these move, and
    where that is not decided: of plants that vary, and beyond 24 states.
    """
    rows = np.flatnonzero(moves.moved & seen_states(plant, horizon))
    if plant.varies or not len(rows) or _tells_all(plant, horizon):
        return moves
    told = told_directions(plant, horizon)
    if told is None:
        return moves
    columns = _picked(told, rows)
    # designs leave out states that nobody sees, but not of balls
    count = np.count_nonzero(moves.moved) if moves.is_ball else len(rows)
    if columns.rank() == count:
        return moves
    sizes = np.abs(moves.vectors[rows]).max(axis=1)
    rows = rows[_largest_first(midpoints(ball_matrix(columns.table())) * sizes)]
    reduced, rank = _picked(told, rows).rref()
    same = RationalMatrix(reduced.table()[:rank])  # what each state is in the kept ones
    kept = []
    for line in same.table():
        kept.append(rows[next(k for k, entry in enumerate(line) if entry != 0)])
    with working_bits(moves.bits):
        matrix = BallMatrix(same) * ball_matrix(moves.balls(rows))
    found = midpoints(matrix)
    if moves.is_ball:
        found = narrowed(found)
    full = np.zeros((plant.order, found.shape[1]))
    full[kept] = found
    if moves.is_ball:
        return EllipsoidMoves(full, exact=moves.exact)
    widest = max(entry.rad() for entry in matrix.entries())
    if not widest <= NEAREST * np.abs(found).max():  # they are large where unseen
        return moves
    still = [Ball(0)] * found.shape[1]
    of_kept = dict(zip(kept, matrix.tolist(), strict=True))
    table = [of_kept.get(row, still) for row in range(plant.order)]
    return BallMoves(
        full,
        ball_matrix(table),
        bits=moves.bits,
        exact=moves.exact,
        errors=roundings(full),
    )


def told_rank(moves: Moves, plant: Plant, horizon: int) -> int | None:
    """Return in how many directions moves change the outputs, None where it is not decided."""
    if _tells_all(plant, horizon):
        columns = moves.vectors[moves.moved]
        units = np.abs(columns).max(axis=1, keepdims=True)
        if _rank(columns / units) == len(columns):
            return len(columns)
    told = told_directions(plant, horizon)
    if told is None:
        return None
    return int((told * moves.spanning()).rank())


def _picked(told: RationalMatrix, rows: NDArray[np.intp]) -> RationalMatrix:
    """Return the columns of some states."""
    places = rows.tolist()
    return RationalMatrix([[line[k] for k in places] for line in told.table()])


def _rank(rows: NDArray[np.float64]) -> int:
    """Return the rank of rows, of which no small one is sure."""
    values = np.linalg.svd(rows, compute_uv=False)
    return int(np.count_nonzero(values > UNSEEN * values[0]))


def _tells_all(plant: Plant, horizon: int) -> bool:
    """Return whether it is proven quickly that outputs distinguish all states."""
    samples = min(plant.order, horizon)
    return not plant.varies and distinguishes_all(plant, samples)


def _largest_first(columns: NDArray[np.float64]) -> NDArray[np.integer]:
    """Return the order of columns in which a pivoted QR factorisation takes them."""
    return scipy.linalg.qr(columns, mode="r", pivoting=True)[1]
