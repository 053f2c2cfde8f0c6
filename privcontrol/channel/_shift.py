"""The privacy shift of noise without a horizon, certified in ball arithmetic.

Noise gamma = M nu from white nu hides a change of the secret by what is left of it after M is
undone: the shift is the energy of the response of V = M^-1 G to the change. Energies over all
times come from the observability Gramian of V, summed in ball arithmetic with a bound of the
tail. That the tail is small proves V stable.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core._balls import (
    Ball,
    BallMatrix,
    ball_matrix,
    block_balls,
    diagonal_balls,
    largest_eigenvalue,
    submatrix,
    upper_float,
    working_bits,
)
from ..core.errors import UncertifiableError
from ._lti import LinearSystem

_BITS = 256
_MOST_BITS = 4096
_MOST_DOUBLINGS = 64
#: The part of the Gramian that its tail may have.
_TAIL = Ball((1, -160))
#: Bits to which an energy must be known.
_KNOWN_BITS = 44
#: Lags up to which several events are told apart.
_MOST_LAGS = 2000


class BallSystem(NamedTuple):
    """x(t+1) = A x(t) + B w(t), v(t) = C x(t) + D w(t), in balls."""

    A: BallMatrix
    B: BallMatrix
    C: BallMatrix
    D: BallMatrix


@dataclass(frozen=True, eq=False)
class SignalMoves:
    """Changes of one secret input.

    Attributes
    ----------
    column : int
        Which input of the secret's system.
    radius : float
        Size of the change, in the input's unit.
    shapes : tuple of ndarray
        Shapes (k,) of the change over time, scaled by the radius.
    lasting : bool
        Whether every beginning of a shape is a change as well.
    group : int
        Secret that the input belongs to: changes of one group may come together.
    events : int
        Number of changes of the group in one run, each at its own time and input.
    rounded : bool
        Whether the entries of this input's column of B and D are rounded.
    """

    column: int
    radius: float
    shapes: tuple = (np.ones(1),)
    lasting: bool = False
    group: int = 0
    events: int = 1
    rounded: bool = False

    @property
    def is_impulse(self) -> bool:
        """Whether the change is one sample long and of the radius."""
        return all(np.array_equal(shape, [1.0]) for shape in self.shapes)


def certified_shift(
    noise: LinearSystem,
    secret: LinearSystem,
    signals: tuple[SignalMoves, ...],
    balls: tuple[tuple[int, ...], ...] = (),
) -> float:
    """A number that no privacy shift exceeds, over runs of any length.

    Parameters
    ----------
    noise : LinearSystem
        M, square with nonsingular D; its matrices are taken as exact.
    secret : LinearSystem
        G, from the secret's inputs to the outputs.
    signals : sequence of SignalMoves
    balls : sequence of tuple of int
        Inputs of which any impulse of Euclidean norm one is hidden.

    Raises
    ------
    UncertifiableError
        If M^-1 G is not proven to be stable.
    """
    rounded = {moves.column for moves in signals if moves.rounded}
    return shift_of_system(
        lambda: undone(noise, balls_of(secret, rounded)), signals, balls
    )


def shift_of_system(
    left: Callable[[], BallSystem],
    signals: tuple[SignalMoves, ...],
    balls: tuple[tuple[int, ...], ...] = (),
) -> float:
    """A number that no privacy shift exceeds, from what is left of a secret.

    ``left()`` is V = M^-1 G with the working bits.
    """
    bits = _BITS
    while bits <= _MOST_BITS:
        with working_bits(bits):
            try:
                response = WhitenedResponse.of(left())
            except ZeroDivisionError:  # D is not invertible with so few digits
                response = None
            if response is not None:
                squares = response.signal_squares(signals)
                squares += [response.ball_square(columns) for columns in balls]
                if all(_known(square) for square in squares):
                    return max(upper_float(square.sqrt()) for square in squares)
        bits *= 2
    raise UncertifiableError(
        "the noise's inverse together with the plant is not proven to be stable: a slow "
        "mode of the plant is too close to the unit circle for the noise's order; ask "
        "for another order, or a larger gap"
    )


def _known(square: Ball) -> bool:
    """Whether the ball is finite and narrow."""
    if not square.is_finite():
        return False
    return bool(square.rad() <= square.abs_upper() * Ball((1, -_KNOWN_BITS)))


@dataclass(frozen=True, eq=False)
class WhitenedResponse:
    """V = M^-1 G in ball arithmetic, with its observability Gramian up to a tail."""

    A: BallMatrix
    B: BallMatrix
    C: BallMatrix
    D: BallMatrix
    gramian: BallMatrix
    tail: Ball

    @classmethod
    def of(cls, left: BallSystem) -> "WhitenedResponse | None":
        """V with its Gramian, or None if the sum over time is not seen to end."""
        A, B, C, D = left
        gramian = C.transpose() * C
        power = A
        for _ in range(_MOST_DOUBLINGS):
            square = _sum_of_squares(power)
            if not square.is_finite():
                return None
            if square < _TAIL:
                tail = square * _sum_of_squares(gramian).sqrt() / (1 - square)
                return cls(A, B, C, D, gramian, Ball(tail.abs_upper()))
            gramian = gramian + power.transpose() * gramian * power
            power = power * power
        return None

    def energy(self, state: BallMatrix) -> Ball:
        """Energy of all outputs from a state (n, 1) on."""
        inside = (state.transpose() * self.gramian * state)[0, 0]
        return inside + _sum_of_squares(state) * Ball(0, 1) * self.tail

    def signal_squares(self, signals: tuple[SignalMoves, ...]) -> list[Ball]:
        """The largest squared shift of each secret signal, its events included."""
        squares = []
        for moves in signals:
            alone = self.largest_square(moves)
            squares.append(alone * moves.events**2)
        for group in {moves.group for moves in signals if moves.events > 1}:
            members = [k for k, moves in enumerate(signals) if moves.group == group]
            largest = max((squares[k] for k in members), key=lambda x: x.upper())
            if all(signals[k].is_impulse for k in members):
                radii = {signals[k].column: signals[k].radius for k in members}
                apart = self.events_square(radii, signals[members[0]].events)
                if apart is not None and apart.upper() < largest.upper():
                    largest = apart
            for k in members:
                squares[k] = largest
        return squares

    def largest_square(self, moves: SignalMoves) -> Ball:
        """The largest squared shift of some changes of one input."""
        largest = Ball(0)
        for shape in moves.shapes:
            energies = self.shape_energies(moves.column, shape)
            counted = energies if moves.lasting else energies[-1:]
            largest = max([largest, *counted], key=lambda energy: energy.upper())
        return largest * Ball(float(moves.radius)) ** 2

    def shape_energies(self, column: int, shape: NDArray) -> list[Ball]:
        """Energies of the responses to every beginning of a shape, the whole one last."""
        entry = _chosen(self.B, (column,))
        through = _chosen(self.D, (column,))
        state = BallMatrix(self.A.nrows(), 1)
        during = Ball(0)
        energies = []
        for value in shape:
            size = Ball(float(value))
            output = self.C * state + through * size
            during += _sum_of_squares(output)
            state = self.A * state + entry * size
            energies.append(during + self.energy(state))
        return energies

    def events_square(self, radii: dict[int, float], events: int) -> Ball | None:
        """The largest squared shift of several impulses at different times and inputs.

        With unit impulses v_a at slots a, ||sum of s_a v_a||^2 is at most the sum over a of
        ||v_a||^2 and the largest |<v_a, v_b>|, b another slot. Returns None if correlations of
        distant slots decay too slowly to be listed.
        """
        inputs = tuple(radii)
        sizes = diagonal_balls([float(radii[i]) for i in inputs])
        entry = _chosen(self.B, inputs) * sizes
        through = _chosen(self.D, inputs) * sizes
        own = through.transpose() * through + entry.transpose() * self.gramian * entry
        slack = Ball(0, 1) * _sum_of_squares(entry) * self.tail
        reader = through.transpose() * self.C
        reader = reader + entry.transpose() * self.gramian * self.A
        others: list[list[Ball]] = [[] for _ in inputs]
        for i, row in enumerate(own.tolist()):
            others[i] += [abs(x) for j, x in enumerate(row) if j != i]
        longest = max(own[i, i].upper() for i in range(len(inputs)))
        state = entry
        for _ in range(_MOST_LAGS):
            beyond = self._remaining(state, longest)
            smallest = [_last_counted(found, events - 1) for found in others]
            if all(beyond <= limit for limit in smallest):
                break
            for i, row in enumerate((reader * state).tolist()):
                for j, entry_of_pair in enumerate(row):
                    size = abs(entry_of_pair + slack)
                    others[i].append(size)  # the other input moves later
                    others[j].append(size)  # or earlier
            state = self.A * state
        else:
            return None
        largest = Ball(0)
        for i, found in enumerate(others):
            counted = sorted((x.upper() for x in found), reverse=True)[: events - 1]
            row_sum = own[i, i] + slack + sum(counted, Ball(0))
            largest = max(largest, row_sum, key=lambda ball: ball.upper())
        return largest * events

    def _remaining(self, state: BallMatrix, longest: Ball) -> Ball:
        """A bound of the correlations of an impulse with all that come so late."""
        energies = state.transpose() * self.gramian * state
        slack = _sum_of_squares(state) * self.tail
        largest = max(energies[i, i].abs_upper() for i in range(state.ncols()))
        return ((largest + slack) * longest).sqrt().upper()

    def ball_square(self, columns: tuple[int, ...]) -> Ball:
        """The largest squared shift of an impulse of norm one at some inputs."""
        entry = _chosen(self.B, columns)
        through = _chosen(self.D, columns)
        form = entry.transpose() * self.gramian * entry
        form = form + through.transpose() * through
        slack = _sum_of_squares(entry) * self.tail
        return largest_eigenvalue(form) + slack * Ball(0, 1)


def balls_of(system: LinearSystem, rounded: Collection[int] = ()) -> BallSystem:
    """A system in balls. The columns of rounded inputs have the radius of their last place."""
    return BallSystem(
        ball_matrix(system.A),
        _columns(system.B, rounded),
        ball_matrix(system.C),
        _columns(system.D, rounded),
    )


def undone(noise: LinearSystem, secret: BallSystem) -> BallSystem:
    """V = M^-1 G: what is left of a secret when noise with a square M is undone.

    Raises
    ------
    ZeroDivisionError
        If D of the noise is not invertible with so few bits.
    """
    D = ball_matrix(noise.D).inv()
    undone_B = ball_matrix(noise.B) * D
    undone_C = -(D * ball_matrix(noise.C))
    undone_A = ball_matrix(noise.A) - undone_B * ball_matrix(noise.C)
    corner = BallMatrix(secret.A.nrows(), noise.order)
    A = block_balls([[secret.A, corner], [undone_B * secret.C, undone_A]])
    B = block_balls([[secret.B], [undone_B * secret.D]])
    C = block_balls([[D * secret.C, undone_C]])
    return BallSystem(A, B, C, D * secret.D)


def _last_counted(found: list[Ball], count: int) -> Ball:
    """The smallest of so many largest sizes, below zero where there are fewer."""
    if len(found) < count:
        return Ball(-1)
    return sorted((x.lower() for x in found), reverse=True)[count - 1]


def _columns(array: NDArray, rounded: Collection[int]) -> BallMatrix:
    """Doubles as balls, where rounded columns have the radius of their last place."""
    matrix = ball_matrix(array)
    for j in rounded:
        for i in range(matrix.nrows()):
            value = float(array[i, j])
            matrix[i, j] = Ball(value, math.ldexp(abs(value), -52))
    return matrix


def _chosen(matrix: BallMatrix, columns: tuple[int, ...]) -> BallMatrix:
    return submatrix(matrix, range(matrix.nrows()), columns)


def _sum_of_squares(matrix: BallMatrix) -> Ball:
    return sum((entry * entry for entry in matrix.entries()), Ball(0))
