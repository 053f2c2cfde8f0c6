"""The privacy shift of noise over runs of any length, certified in ball arithmetic.

Noise gamma = M nu from white nu hides a change of the secret by what is left of it after M is
inverted: the shift is the energy of the response of V = M^-1 G to the change. Energies over all
times come from the observability Gramian of V, summed in ball arithmetic with a bound of the
tail. That the tail is small proves V stable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from numpy.typing import NDArray

from ..numerics.balls import (
    CERTIFICATE_BITS,
    DECIDING_BITS,
    Ball,
    BallMatrix,
    diagonal_balls,
    frobenius_norm,
    largest_eigenvalue,
    upper_float,
    working_bits,
)
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import float_above
from ..numerics.thresholds import DOUBLINGS, NEGLIGIBLE
from ..secrets.secret import SecretInputs, SignalMoves
from ..systems.gain import largest_gain
from ..systems.linear import LinearSystem
from ._apart import square_of_several
from ._windows import square_of_windows

T = TypeVar("T")

#: The part of the Gramian that its tail may have.
_TAIL = Ball((1, -160))


def shift_behind(noise: LinearSystem, secret: SecretInputs) -> float:
    """Return a number that no privacy shift exceeds, over runs of any length.

    ``noise`` is M, square with a nonsingular D. Signals of bounded energy ask for an M
    without states.

    Raises
    ------
    UncertifiableError
        If M^-1 G is not proven to be stable.
    """
    if secret.energies is not None:
        inverted = noise.inverse().after(secret.scaled_system)
        gain = largest_gain(inverted)
        return float_above(gain * (1 + 1e-13), 4)

    def left() -> LinearSystem:
        return noise.in_balls().inverse().after(secret.in_balls())

    return shift_of_system(left, secret)


def joint_shift(first: float, *others: float) -> float:
    """Return the largest shift of a sum of noises, each of which hides a secret.

    1 / (s^T Gamma^-1 s) is superadditive in Gamma, so the squares of the reciprocals
    of the shifts add up for every move s.
    """
    shift = first
    for other in others:
        shift = float_above((shift**-2 + other**-2) ** -0.5, 4)
    return shift


def shift_of_system(left: Callable[[], LinearSystem], secret: SecretInputs) -> float:
    """Return a number that no privacy shift exceeds, from what is left of a secret.

    ``left()`` is V = M^-1 G in balls of the working bits.
    """

    def largest(response: WhitenedResponse) -> float | None:
        squares = response.squares(secret)
        if not all(is_known(square) for square in squares):
            return None
        return max(upper_float(square.sqrt()) for square in squares)

    return in_enough_digits(left, largest)


def in_enough_digits(
    left: Callable[[], LinearSystem], evaluate: Callable[[WhitenedResponse], T | None]
) -> T:
    """Return what is evaluated of a whitened response, with as many bits as that takes.

    ``evaluate`` returns None if it takes more.

    Raises
    ------
    UncertifiableError
        If no number of bits is enough.
    """
    bits = CERTIFICATE_BITS
    while bits < DECIDING_BITS:
        bits *= 2
        with working_bits(bits):
            try:
                found = evaluate(WhitenedResponse.of(left()))
            except ArithmeticError:  # these are too few bits
                continue
            if found is not None:
                return found
    raise UncertifiableError(
        "the noise's inverse together with the plant is not proven to be stable: a slow "
        "mode of the plant is too close to the unit circle for the noise's order, or "
        "moves of the secret cancel to rounding errors, as those between inputs of nearly "
        "equal effect; ask for another order, a larger gap, or a finite horizon"
    )


def is_known(square: Ball) -> bool:
    """Return whether the ball is finite and narrow."""
    if not square.is_finite():
        return False
    return bool(square.rad() <= square.abs_upper() * Ball(NEGLIGIBLE))


@dataclass(frozen=True, eq=False)
class WhitenedResponse:
    """V = M^-1 G in ball arithmetic, with its observability Gramian."""

    system: LinearSystem
    gramian: BallMatrix

    @classmethod
    def of(cls, system: LinearSystem) -> WhitenedResponse:
        """Return V with its Gramian.

        Raises
        ------
        ArithmeticError
            If the sum over time is not seen to end.
        """
        gramian = system.C.transpose() * system.C
        power = system.A
        for _ in range(DOUBLINGS):
            square = sum_of_squares(power)
            if not square.is_finite():
                break
            if square < _TAIL:
                # at most this is left out in norm, and so in every entry
                tail = square * frobenius_norm(gramian) / (1 - square)
                order = gramian.nrows()
                slack = Ball(0, tail.abs_upper())
                return cls(
                    system, gramian + BallMatrix(order, order, [slack] * order**2)
                )
            gramian = gramian + power.transpose() * gramian * power
            power = power * power
        raise ArithmeticError("the energy over all times is not seen to be finite")

    def squares(self, secret: SecretInputs) -> list[Ball]:
        """Return the largest squared shift of each ball, and of each group."""
        squares = [self._ball_square(columns) for columns in secret.balls]
        for group in {moves.group for moves in secret.signals}:
            members = [moves for moves in secret.signals if moves.group == group]
            squares.append(self._group_square(members))
        for group in {window.group for window in secret.windows}:
            windows = [window for window in secret.windows if window.group == group]
            squares.append(square_of_windows(self.system, self.gramian, windows))
        return squares

    def _group_square(self, members: Sequence[SignalMoves]) -> Ball:
        """Return the largest squared shift of changes that may come together."""
        largest = largest_of([self.largest_square(moves) for moves in members])
        events = max(moves.spacing.events for moves in members)
        if events == 1 or not largest.is_finite():
            return largest
        return square_of_several(self.system, self.gramian, members, largest)

    def largest_square(self, moves: SignalMoves) -> Ball:
        """Return the largest squared shift of some changes of one input."""
        counted = []
        for shape in moves.shapes:
            energies = self._shape_energies(moves.column, shape, moves.rounded)
            counted += energies if moves.lasting else energies[-1:]
        return largest_of(counted) * Ball(float(moves.radius)) ** 2

    def _shape_energies(
        self, column: int, shape: NDArray, is_rounded: bool
    ) -> list[Ball]:
        """Return the energy for every beginning of a shape, the whole one last."""
        _, entry, _, through = self.system.entered_by([column]).matrices
        state = BallMatrix(entry.nrows(), 1)
        during = Ball(0)
        energies = []
        for value, following in zip(
            shape, self._following(entry, shape, is_rounded), strict=True
        ):
            response = self.system.C * state + through * Ball(float(value))
            during += sum_of_squares(response)
            state = following
            later = state.transpose() * self.gramian * state
            energies.append(during + later[0, 0])
        return energies

    def _following(
        self, entry: BallMatrix, shape: NDArray, is_rounded: bool
    ) -> Iterator[BallMatrix]:
        """Yield the state after each value of a shape.

        An entry that is rounded is as wide at any number of bits, and wider with each step
        by A. So it is met once, by the sum of powers that the values add up to.
        """
        order = entry.nrows()
        if not is_rounded:
            state = BallMatrix(order, 1)
            for value in shape:
                state = self.system.A * state + entry * Ball(float(value))
                yield state
            return
        sums = BallMatrix(order, order)
        for value in shape:
            sums = self.system.A * sums + diagonal_balls([Ball(float(value))] * order)
            yield sums * entry

    def _ball_square(self, columns: Sequence[int]) -> Ball:
        """Return the largest squared shift of an impulse of norm one at some inputs."""
        _, entry, _, through = self.system.entered_by(columns).matrices
        later = entry.transpose() * self.gramian * entry
        return largest_eigenvalue(later + through.transpose() * through)


def largest_of(values: Sequence[Ball]) -> Ball:
    """Return the ball that reaches highest, or one of which nothing is known."""
    for value in values:
        if not value.is_finite():
            return value
    return max(values, key=lambda value: value.upper())


def sum_of_squares(matrix: BallMatrix) -> Ball:
    entries = matrix.entries()
    row = BallMatrix(1, len(entries), entries)
    return (row * row.transpose())[0, 0]
