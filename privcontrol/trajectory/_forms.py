"""How far output noise hides moves of a state, in ball arithmetic.

Let Gamma = O S S^T O^T + F^2, with F the independent part of the noise, and let s = O' z be
the outputs of a plant with another A' and C'. Woodbury's identity makes s^T Gamma^-1 s a
quadratic form in z. Its Gramians are sums over time of n x n matrices, formed by doubling,
so that no T x T matrix appears. Balls carry as many digits as the cancellation takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core._balls import (
    Ball,
    BallMatrix,
    ball_matrix,
    diagonal_balls,
    identity_balls,
    submatrix,
    upper_float,
    working_bits,
)
from ..core.adjacency import Adjacency
from ..core.errors import NotRealizableError, UncertifiableError
from ..core.moves import FiniteMoves
from .adjacency import StateAdjacency
from .manifold import TrajectoryManifold
from .plant import Plant
from .powers import FreeResponse, seen_states

_BITS = 320
_MOST_BITS = 1 << 12


def gramian(
    A: NDArray, C: NDArray, weights: Sequence[Ball], horizon: int
) -> BallMatrix:
    """sum over t < horizon of (C A^t)^T diag(weights) C A^t, by doubling."""
    outputs = ball_matrix(C)
    step = ball_matrix(A)
    part = outputs.transpose() * diagonal_balls(weights) * outputs
    total = 0 * part
    power = identity_balls(len(A))
    # part is the sum over 2^k samples, and step is A^(2^k)
    while horizon:
        if horizon & 1:
            total = total + power.transpose() * part * power
            power = power * step
        horizon >>= 1
        if horizon:
            part = part + step.transpose() * part * step
            step = step * step
    return total


@dataclass(frozen=True)
class NoiseForm:
    """The noise C A^t S eta + diag(scale) zeta(t) over a horizon.

    ``factor`` S (n, r) and ``scale`` (p,) may be None, but not both.
    """

    plant: Plant
    horizon: int
    factor: NDArray | None
    scale: NDArray | None

    def shifts(self, moves: BallMatrix) -> BallMatrix:
        """S^-1 z (r, M) for moves z (n, M) of the noise's own plant without a scale.

        Raises
        ------
        NotRealizableError
            If a move changes an output and is outside the span of S.
        UncertifiableError
            If that cannot be decided from the zeros of S.
        """
        factor = np.asarray(self.factor)
        rows = np.flatnonzero(factor.any(axis=1))
        seen = np.flatnonzero(seen_states(self.plant, self.horizon))
        every = range(moves.ncols())
        for row in np.setdiff1d(seen, rows).tolist():
            if any(not moves[row, column] == 0 for column in every):
                raise NotRealizableError(
                    "the noise does not cover a protected direction: a hidden move changes "
                    f"{self.plant.states[row]}, on which it puts no noise; design it for "
                    "these moves"
                )
        if len(rows) != factor.shape[1]:
            raise UncertifiableError(
                f"the noise has {factor.shape[1]} entries on {len(rows)} states: whether "
                "a move of them is in its span is not decided by zeros; add a white "
                "floor, or protect every one of these states"
            )
        chosen = submatrix(moves, rows.tolist(), every)
        try:
            return ball_matrix(factor[rows]).solve(chosen)
        except ZeroDivisionError:
            raise UncertifiableError(
                "the noise's factor is singular to working precision; add a white floor"
            ) from None

    def form(self, A: NDArray, C: NDArray) -> BallMatrix:
        """K (n', n') with s^T Gamma^-1 s = z^T K z for s = C A^t z, t = 0 .. T-1.

        It needs an independent part of the noise.
        """
        scale = np.asarray(self.scale)
        precision = [1 / Ball(size) ** 2 for size in scale.tolist()]
        if self.factor is None or not self.factor.size:
            return gramian(A, C, precision, self.horizon)
        both = scipy.linalg.block_diag(self.plant.A, A)
        outputs = np.hstack([self.plant.C, C])
        total = gramian(both, outputs, precision, self.horizon)
        order = self.plant.order
        own = range(order)
        other = range(order, len(both))
        factor = ball_matrix(self.factor)
        across = factor.transpose()
        cross = across * submatrix(total, own, other)
        inner = across * submatrix(total, own, own) * factor
        inner = inner + identity_balls(inner.nrows())
        hidden = cross.transpose() * inner.solve(cross)
        return submatrix(total, other, other) - hidden

    def gram(
        self, moves: BallMatrix, A: NDArray | None = None, C: NDArray | None = None
    ) -> BallMatrix:
        """Z^T K Z (M, M) for moves Z (n', M) of the state of a plant (A, C).

        The plant is the noise's own by default.
        """
        if self.scale is None:
            shifts = self.shifts(moves)
            return shifts.transpose() * shifts
        return moves.transpose() * self._form(A, C) * moves

    def squares(
        self, moves: BallMatrix, A: NDArray | None = None, C: NDArray | None = None
    ) -> list[Ball]:
        """s^T Gamma^-1 s of each move."""
        if self.scale is None:
            left = self.shifts(moves)
            right = left
        else:
            left = moves
            right = self._form(A, C) * moves
        rows = range(left.nrows())
        return [
            sum((left[i, m] * right[i, m] for i in rows), Ball(0))
            for m in range(moves.ncols())
        ]

    def _form(self, A: NDArray | None, C: NDArray | None) -> BallMatrix:
        own = self.plant
        return self.form(own.A if A is None else A, own.C if C is None else C)


def certified(
    evaluate: Callable[[], Sequence[Ball]], bits: int = _BITS, tol: float = 1e-9
) -> NDArray:
    """Upper bounds of the balls that ``evaluate()`` returns, at a sharp precision."""
    while True:
        with working_bits(bits):
            try:
                balls = evaluate()
            except ZeroDivisionError:  # these are too few bits
                balls = [Ball("nan")]
            values = np.array([upper_float(ball) for ball in balls])
            widths = np.array([float((2 * ball.rad()).upper()) for ball in balls])
        sharp = np.isfinite(values).all() and (widths <= tol * values.max()).all()
        if sharp or bits >= _MOST_BITS:
            return np.maximum(values, 0.0)
        bits *= 2


def moved(
    adjacency: Adjacency, manifold: TrajectoryManifold, start: int, horizon: int
) -> tuple[BallMatrix, int]:
    """Moves of a run as moves of its state at ``start`` (n, M), and their bits."""
    plant = manifold.plant
    if isinstance(adjacency, StateAdjacency) and adjacency.charts == "times":
        window = adjacency.moves_from(manifold, start, horizon)
        return window.matrix, window.bits
    moves = adjacency.moves(manifold)
    if isinstance(moves, FiniteMoves) and moves.errors is not None:
        free = FreeResponse(plant.A, np.eye(plant.order), 0, start)
        with working_bits(free.bits):
            initial = ball_matrix(moves.balls(range(plant.order)))
            return free.at(start) * initial, free.bits
    free = FreeResponse(plant.A, moves.vectors, 0, start)
    return free.at(start), free.bits
