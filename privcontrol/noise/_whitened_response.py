"""The whitened response to a secret, over runs of any length, in ball arithmetic.

Noise gamma = M nu from white nu leaves V = M^-1 G of a secret that enters the outputs by G.
Energies over all times come from the observability Gramian of V, summed in ball arithmetic
with a bound of the tail. That the tail is small proves V stable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..numerics.balls import (
    CERTIFICATE_BITS,
    DECIDING_BITS,
    Ball,
    BallMatrix,
    diagonal_balls,
    frobenius_norm,
    largest_eigenvalue,
    working_bits,
)
from ..numerics.errors import UncertifiableError
from ..numerics.thresholds import DOUBLINGS, NEGLIGIBLE
from ..secrets.secret import SignalMoves
from ..systems.linear import LinearSystem
from ..systems.powers import Orbit

T = TypeVar("T")

#: The part of the Gramian that its tail may have.
_TAIL = Ball((1, -160))


@dataclass(frozen=True, eq=False)
class WhitenedResponse:
    """V = M^-1 G in ball arithmetic, with its observability Gramian."""

    system: LinearSystem
    gramian: BallMatrix

    @classmethod
    def of(cls, system: LinearSystem) -> WhitenedResponse:
        """Return V with its Gramian, of a system in balls.

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

    def entered(
        self, columns: Sequence[int], sizes: Sequence[float] | None = None
    ) -> WhitenedResponse:
        """Return the response to some inputs, each in units of its size, by default one."""
        system = self.system.entered_by(list(columns))
        if sizes is not None:
            units = diagonal_balls(list(sizes))
            A, B, C, D = system.matrices
            system = LinearSystem(A, B * units, C, D * units)
        return replace(self, system=system)

    def correlations(self, count: int) -> list[BallMatrix]:
        """Return products rho (q, q) of the responses to impulses, lag by lag.

        rho(m)[i, j] is the product of the response to input i with that to input j that
        begins m samples earlier: E^T A^(m-1) B with E = A^T Q B + C^T D for m >= 1, and
        B^T Q B + D^T D for m = 0, with the observability Gramian Q.
        """
        A, B, C, D = self.system.matrices
        onward = A.transpose() * self.gramian * B + C.transpose() * D
        echo = onward.transpose()
        orbit = Orbit(A, B)
        found = [B.transpose() * self.gramian * B + D.transpose() * D]
        for lag in range(count - 1):
            found.append(echo * orbit.at(lag))
        return found

    def largest_square(self, moves: SignalMoves) -> Ball:
        """Return the largest squared shift of some changes of one input."""
        counted = []
        for shape in moves.shapes:
            energies = self._shape_energies(moves.column, shape, moves.rounded)
            counted += energies if moves.lasting else energies[-1:]
        return largest_of(counted) * Ball(float(moves.radius)) ** 2

    def _shape_energies(
        self, column: int, shape: NDArray[np.float64], is_rounded: bool
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
        self, entry: BallMatrix, shape: NDArray[np.float64], is_rounded: bool
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

    def ball_square(self, columns: Sequence[int]) -> Ball:
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


def in_enough_digits(
    left: Callable[[], LinearSystem], evaluate: Callable[[WhitenedResponse], T | None]
) -> T:
    """Evaluate a whitened response with as many bits as that takes.

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
