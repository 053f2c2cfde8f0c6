"""The privacy shift of noise without a horizon, certified in ball arithmetic.

Noise gamma = M nu from white nu hides a change of the secret by what is left of it after M is
undone: the shift is the energy of the response of V = M^-1 G to the change. Energies over all
times come from the observability Gramian of V, summed in ball arithmetic with a bound of the
tail. That the tail is small proves V stable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from numpy.typing import NDArray

from ..core._balls import (
    Ball,
    BallMatrix,
    frobenius_norm,
    largest_eigenvalue,
    upper_float,
    working_bits,
)
from ..core._linalg import round_up
from ..core.errors import UncertifiableError
from ..secrets.secret import SecretInputs, SignalMoves
from ..systems.gain import largest_gain
from ..systems.linear import LinearSystem
from ._separated import square_of_several

#: Working bits, one after the other.
_PRECISIONS = (256, 512, 1024, 2048, 4096)
_MOST_DOUBLINGS = 64
#: The part of the Gramian that its tail may have.
_TAIL = Ball((1, -160))
#: Bits to which an energy must be known.
_KNOWN_BITS = 44


def shift_behind(noise: LinearSystem, secret: SecretInputs) -> float:
    """A number that no privacy shift exceeds, over runs of any length.

    ``noise`` is M, square with a nonsingular D. Signals of bounded energy ask for an M
    without states.

    Raises
    ------
    UncertifiableError
        If M^-1 G is not proven to be stable.
    """
    if secret.energies is not None:
        undone = noise.inverse().after(secret.scaled_system)
        gain = largest_gain(undone)
        return float(round_up(gain * (1 + 1e-13), 4))

    def left() -> LinearSystem:
        return noise.in_balls().inverse().after(secret.in_balls())

    return shift_of_system(left, secret.signals, secret.balls)


def joint_shift(first: float, second: float) -> float:
    """The largest shift of a sum of two noises, each of which hides a secret.

    1 / (s^T Gamma^-1 s) is superadditive in Gamma, so the squares of the reciprocals
    of the shifts add up for every move s.
    """
    return float(round_up((first**-2 + second**-2) ** -0.5, 4))


def shift_of_system(
    left: Callable[[], LinearSystem],
    signals: Sequence[SignalMoves],
    balls: Sequence[tuple[int, ...]] = (),
) -> float:
    """A number that no privacy shift exceeds, from what is left of a secret.

    ``left()`` is V = M^-1 G in balls of the working bits.
    """
    for bits in _PRECISIONS:
        with working_bits(bits):
            try:
                squares = WhitenedResponse.of(left()).squares(signals, balls)
            except ArithmeticError:  # these are too few bits
                continue
            if all(_is_known(square) for square in squares):
                return max(upper_float(square.sqrt()) for square in squares)
    raise UncertifiableError(
        "the noise's inverse together with the plant is not proven to be stable: a slow "
        "mode of the plant is too close to the unit circle for the noise's order; ask "
        "for another order, or a larger gap"
    )


def _is_known(square: Ball) -> bool:
    """Whether the ball is finite and narrow."""
    if not square.is_finite():
        return False
    return bool(square.rad() <= square.abs_upper() * Ball((1, -_KNOWN_BITS)))


@dataclass(frozen=True, eq=False)
class WhitenedResponse:
    """V = M^-1 G in ball arithmetic, with its observability Gramian."""

    system: LinearSystem
    gramian: BallMatrix

    @classmethod
    def of(cls, system: LinearSystem) -> WhitenedResponse:
        """V with its Gramian.

        Raises
        ------
        ArithmeticError
            If the sum over time is not seen to end.
        """
        gramian = system.C.transpose() * system.C
        power = system.A
        for _ in range(_MOST_DOUBLINGS):
            square = _sum_of_squares(power)
            if not square.is_finite():
                break
            if square < _TAIL:
                # at most this is left out in norm, and so in every entry
                tail = square * frobenius_norm(gramian) / (1 - square)
                order = gramian.nrows()
                slack = [Ball(0, tail.abs_upper())] * order**2
                return cls(system, gramian + BallMatrix(order, order, slack))
            gramian = gramian + power.transpose() * gramian * power
            power = power * power
        raise ArithmeticError("the energy over all times is not seen to be finite")

    def squares(
        self, signals: Sequence[SignalMoves], balls: Sequence[tuple[int, ...]]
    ) -> list[Ball]:
        """The largest squared shifts of each group of signals, and of each ball."""
        squares = [self._ball_square(columns) for columns in balls]
        for group in {moves.group for moves in signals}:
            members = [moves for moves in signals if moves.group == group]
            squares.append(self._group_square(members))
        return squares

    def _group_square(self, members: Sequence[SignalMoves]) -> Ball:
        """The largest squared shift of changes that may come together."""
        largest = _largest([self._largest_square(moves) for moves in members])
        if all(moves.events == 1 for moves in members) or not largest.is_finite():
            return largest
        return square_of_several(self.system, self.gramian, members, largest)

    def _largest_square(self, moves: SignalMoves) -> Ball:
        """The largest squared shift of some changes of one input."""
        counted = []
        for shape in moves.shapes:
            energies = self._shape_energies(moves.column, shape)
            counted += energies if moves.lasting else energies[-1:]
        return _largest(counted) * Ball(float(moves.radius)) ** 2

    def _shape_energies(self, column: int, shape: NDArray) -> list[Ball]:
        """Energies of the responses to every beginning of a shape, the whole one last."""
        _, entry, _, through = self.system.entered_by([column]).matrices
        state = BallMatrix(entry.nrows(), 1)
        during = Ball(0)
        energies = []
        for value in shape:
            size = Ball(float(value))
            during += _sum_of_squares(self.system.C * state + through * size)
            state = self.system.A * state + entry * size
            later = state.transpose() * self.gramian * state
            energies.append(during + later[0, 0])
        return energies

    def _ball_square(self, columns: Sequence[int]) -> Ball:
        """The largest squared shift of an impulse of norm one at some inputs."""
        _, entry, _, through = self.system.entered_by(columns).matrices
        later = entry.transpose() * self.gramian * entry
        return largest_eigenvalue(later + through.transpose() * through)


def _largest(values: Sequence[Ball]) -> Ball:
    """The ball that reaches highest, one of which nothing is known before all others."""
    for value in values:
        if not value.is_finite():
            return value
    return max(values, key=lambda value: value.upper())


def _sum_of_squares(matrix: BallMatrix) -> Ball:
    return sum((entry * entry for entry in matrix.entries()), Ball(0))
