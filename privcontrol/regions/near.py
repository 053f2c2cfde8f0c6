"""The shift of all plants near one, which may be another of them at every sample.

A plant that varies answers to a hidden move as the nominal one does, and to what its
matrices differ by, which enters the state and the outputs at every sample. The entries of
these differences are at most the half-widths of a box times the sizes of the states. Each
of them is hidden as a move of its own would be, so a varying plant adds at most the sum of
their sizes to the nominal shift. This needs no semidefinite program, and holds for noise
that is drawn for the whole run beside a floor. It is close where the plants are, since it
adds up what may cancel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..noise.parts import NoisePart, PartSum
from ..numerics.linalg import EPS, float_above
from ..numerics.thresholds import MOST_HELD
from ..secrets.secret import UncertainMoves
from ..systems.powers import FreeResponse
from .halving import Whitening, outputs_of


def shift_nearby(
    every: Sequence[UncertainMoves], parts: Sequence[NoisePart], horizon: int
) -> float:
    """Bound the shift of all plants within a box that vary at every sample.

    ``every`` has the moves of each part of an adjacency. The bound is infinite for moves
    that change the past, and where it is above what the floor leaves of the nominal plant:
    a bound of the floor alone is closer then.
    """
    is_small = all(_numbers(moves) <= MOST_HELD for moves in every)
    forwards = all(moves.back == 0 and moves.times.min() == 0 for moves in every)
    if not (is_small and forwards and PartSum(parts).white.all()):
        return math.inf
    whitening = Whitening.of(parts, horizon)
    bound = 0.0
    of_floor = 0.0
    for moves in every:
        nearby = _Nearby.of(moves)
        bound = max(bound, nearby.shift(whitening))
        of_floor = max(of_floor, nearby.shift_of_floor(whitening))
    return float_above(bound / whitening.unit, 2) if bound < of_floor else math.inf


def _numbers(moves: UncertainMoves) -> int:
    """The size of the largest table of a bound."""
    outputs = len(moves.matrix) - moves.order
    kicks = moves.horizon * (moves.order + outputs)
    return kicks * max(moves.count, moves.horizon * outputs)


@dataclass(frozen=True, eq=False)
class _Nearby:
    """Responses to moves and to differences of the plants, whatever the noise.

    Attributes
    ----------
    nominal : ndarray, shape (T p, M)
        Outputs of the nominal plant after each move.
    kicks : ndarray, shape (T p, K)
        Its outputs after a unit step of an uncertain state or output at a sample.
    sizes : ndarray, shape (M, K)
        Bounds of these steps after each move.
    is_ball : bool
        Whether the moves are those of a ball.
    """

    nominal: NDArray[np.float64]
    kicks: NDArray[np.float64]
    sizes: NDArray[np.float64]
    is_ball: bool

    @staticmethod
    @lru_cache(maxsize=8)  # a design asks again and again, for other noise
    def of(moves: UncertainMoves) -> _Nearby:
        n = moves.order
        A, C = np.split(moves.matrix, [n])
        spread_A, spread_C = np.split(moves.spread, [n])
        T, p = moves.horizon, len(C)
        start = np.hstack([np.eye(n), moves.axes])
        free = FreeResponse.of(A, start, 0, T - 1, rounded=True)
        outputs = free.outputs(C)
        states, steps = _reached(free.states(), spread_A)
        read = spread_C @ states
        entered = np.flatnonzero(spread_A.any(axis=1))
        every = UncertainMoves(
            moves.matrix,
            moves.spread,
            np.eye(n)[:, entered],
            np.arange(T),
            T,
            forwards=True,
        )
        kicked = outputs_of(every, outputs[:, :, entered], np.arange(every.count))
        nominal = outputs_of(moves, outputs[:, :, n:], np.arange(moves.count))
        sizes = np.hstack([_after(moves, steps[:, entered]), _after(moves, read)])
        # each sample sums up to T n sizes of those before it, and reads n of them
        sizes *= 1 + EPS * (T + 1) * (T + 2) * (n + 2)
        return _Nearby(
            nominal, np.hstack([kicked, np.eye(T * p)]), sizes, moves.is_ball
        )

    def shift(self, whitening: Whitening) -> float:
        """Bound what any sequence of plants leaves, beside all of the noise."""
        white = whitening.in_units(self.nominal)
        rounded = whitening.rounding * np.linalg.norm(white, axis=0)
        turned = whitening.apply(white)
        kicks = whitening.in_units(self.kicks)
        hidden = np.linalg.norm(whitening.apply(kicks), axis=0)
        hidden = hidden + whitening.rounding * np.linalg.norm(kicks, axis=0)
        summed = 1 + EPS * (len(hidden) + 8)
        rest = (self.sizes @ hidden + rounded) * summed
        if not np.isfinite(rest).all():
            return math.inf
        # norms of T p or of M numbers
        error = (1 + 2 * EPS * (sum(turned.shape) + 8)) * (1 + whitening.error)
        if self.is_ball:
            return float(np.linalg.norm(turned, 2) + np.linalg.norm(rest)) * error
        return float((np.linalg.norm(turned, axis=0) + rest).max()) * error

    def shift_of_floor(self, whitening: Whitening) -> float:
        """What the nominal plant leaves beside the floor alone."""
        white = whitening.in_units(self.nominal)
        if self.is_ball:
            return float(np.linalg.norm(white, 2))
        return float(np.linalg.norm(white, axis=0).max())


def _reached(
    states: NDArray[np.float64], spread: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bounds (T, n, q) of the states after moves, and of what differences add to them.

    ``states`` (T, n, n + q) has A^t and the nominal states. With P their sizes and S the
    half-widths of A, r(t + 1) = S X(t) and X(t) = P(t) + sum |A^(t-s)| r(s).
    """
    n = len(spread)
    # balls are known to 180 bits of the largest entry of their column
    largest = np.abs(states).max(axis=1, keepdims=True)
    sizes = np.abs(states) * (1 + 1e-14) + 1e-50 * largest
    kernel = sizes[:, :, :n]
    reached = sizes[:, :, n:].copy()
    steps = np.zeros_like(reached)
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(1, len(states)):
            steps[t] = spread @ reached[t - 1]
            before = kernel[:t][::-1]
            reached[t] += np.tensordot(before, steps[1 : t + 1], axes=((0, 2), (0, 1)))
    return np.nan_to_num(reached, nan=np.inf), np.nan_to_num(steps, nan=np.inf)


def _after(moves: UncertainMoves, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sizes (M, T k) at each sample of a run, from those (T, k, q) since a move."""
    T, entries, directions = sizes.shape
    shifted = np.zeros((len(moves.times), directions, T, entries))
    since = sizes.transpose(2, 0, 1)
    for place, start in zip(shifted, moves.times.tolist(), strict=True):
        place[:, start:] = since[:, : T - start]
    return shifted.reshape(moves.count, T * entries)
