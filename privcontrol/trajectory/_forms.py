"""How far output noise hides moves of a state, in ball arithmetic: s^T Gamma^-1 s without a T x T matrix.

With Gamma = O S S^T O^T + F^2, F the independent part of the noise, and s = O' z the outputs of a plant with another
A' and C', Woodbury's identity makes s^T Gamma^-1 s a quadratic form in z. Its Gramians are sums over time of n x n
matrices, formed by doubling; balls carry as many digits as the cancellation takes, and prove them.
"""

from dataclasses import dataclass

import numpy as np
from flint import arb, arb_mat

from ..core._balls import (
    ball_matrix,
    upper_float,
    working_bits,
)
from ..core.errors import NotRealizableError, UncertifiableError
from .adjacency import StateAdjacency
from .powers import FreeResponse, seen_states

_BITS = 320
_MOST_BITS = 1 << 12


def gramian(A, C, precision, horizon):
    """sum over t < horizon of (C A^t)^T diag(precision) C A^t as balls, by doubling."""
    A, C = ball_matrix(A), ball_matrix(C)
    weighted = arb_mat(
        [
            [weight * C[row, column] for column in range(C.ncols())]
            for row, weight in enumerate(precision)
        ]
    )
    total, power = (
        arb_mat(A.nrows(), A.nrows()),
        arb_mat([[int(i == j) for j in range(A.nrows())] for i in range(A.nrows())]),
    )
    part, step = C.transpose() * weighted, A  # of 2^k samples, and A^(2^k)
    while horizon:
        if horizon & 1:
            total += power.transpose() * part * power
            power = power * step
        horizon >>= 1
        if horizon:
            part = part + step.transpose() * part * step
            step = step * step
    return total


@dataclass(frozen=True)
class NoiseForm:
    """The noise C A^t S eta + diag(scale) zeta(t) over a horizon, as what it does to moves of a state.

    ``factor`` S (n, r) or None, ``scale`` (p,) or None, not both None.
    """

    plant: object
    horizon: int
    factor: np.ndarray | None
    scale: np.ndarray | None

    def shifts(self, moves):
        """S^-1 z as balls (r, M) for moves z (n, M) of the noise's own plant, without an independent part.

        Raises
        ------
        NotRealizableError
            If a move changes an output and is outside the span of S.
        UncertifiableError
            If that cannot be decided from the zeros of S.
        """
        rows = np.flatnonzero(self.factor.any(axis=1))
        bare = np.setdiff1d(np.flatnonzero(seen_states(self.plant, self.horizon)), rows)
        for row in map(int, bare):
            if any(not moves[row, column] == 0 for column in range(moves.ncols())):
                raise NotRealizableError(
                    f"the noise leaves a protected direction bare: a hidden move changes {self.plant.states[row]}, on "
                    "which it puts no noise; design it for these moves"
                )
        if len(rows) != self.factor.shape[1]:
            raise UncertifiableError(
                f"the noise has {self.factor.shape[1]} entries on {len(rows)} states: whether a move of them is in its span "
                "is not decided by zeros; add a white floor, or protect every one of these states"
            )
        chosen = arb_mat(
            [
                [moves[int(row), column] for column in range(moves.ncols())]
                for row in rows
            ]
        )
        try:
            return ball_matrix(self.factor[rows]).solve(chosen)
        except ZeroDivisionError:
            raise UncertifiableError(
                "the noise's factor is singular to working precision; add a white floor"
            ) from None

    def form(self, A, C):
        """K (n', n') as balls with s^T Gamma^-1 s = z^T K z for s = C A^t z, t = 0 .. T-1; needs an independent part."""
        n, S = self.plant.order, self.factor
        precision = [1 / arb(float(size)) ** 2 for size in self.scale]
        if S is None or not S.size:
            return gramian(A, C, precision, self.horizon)
        both = np.block(
            [[self.plant.A, np.zeros((n, len(A)))], [np.zeros((len(A), n)), A]]
        )
        total = gramian(both, np.hstack([self.plant.C, C]), precision, self.horizon)

        def part(first, second):
            return arb_mat([[total[i, j] for j in second] for i in first])

        own, other = range(n), range(n, n + len(A))
        factor = ball_matrix(S)
        cross = factor.transpose() * part(own, other)
        inner = factor.transpose() * part(own, own) * factor
        for i in range(inner.nrows()):
            inner[i, i] += 1
        return part(other, other) - cross.transpose() * inner.solve(cross)

    def gram(self, moves, A=None, C=None):
        """Z^T K Z as balls (M, M) for moves Z (n', M) of the state of a plant (A, C), the noise's own by default."""
        if self.scale is None:
            shifts = self.shifts(moves)
            return shifts.transpose() * shifts
        return moves.transpose() * self._form(A, C) * moves

    def squares(self, moves, A=None, C=None):
        """s^T Gamma^-1 s of each move as a list of balls."""
        if self.scale is None:
            left = right = self.shifts(moves)
        else:
            left, right = moves, self._form(A, C) * moves
        rows = range(left.nrows())
        return [
            sum((left[i, m] * right[i, m] for i in rows), arb(0))
            for m in range(moves.ncols())
        ]

    def _form(self, A, C):
        return self.form(
            self.plant.A if A is None else A, self.plant.C if C is None else C
        )


def certified(evaluate, bits=_BITS, tol=1e-9):
    """Upper bounds (floats) of the balls that ``evaluate()`` returns, at a precision that makes them sharp."""
    while True:
        with working_bits(bits):
            balls = evaluate()
            values = np.array([upper_float(ball) for ball in balls])
            doubt = np.array([float((2 * ball.rad()).upper()) for ball in balls])
        sharp = np.isfinite(values).all() and (doubt <= tol * values.max()).all()
        if sharp or bits >= _MOST_BITS:
            return np.maximum(values, 0.0)
        bits *= 2


def moved(adjacency, manifold, start, horizon):
    """Moves of the run's trajectory as moves of its state at ``start``, as balls (n, M), and their precision in bits."""
    if isinstance(adjacency, StateAdjacency):
        moves = adjacency.moves(manifold, window=(start, horizon))
        with working_bits(moves.free.bits):
            return arb_mat(moves.balls(range(manifold.plant.order))), moves.free.bits
    moves = adjacency.moves(manifold)
    free = FreeResponse(manifold.plant.A, moves.vectors, 0, start)
    return free.at(start), free.bits
