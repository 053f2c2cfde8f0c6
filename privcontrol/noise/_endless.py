"""The privacy shift of noise over runs of any length, certified in ball arithmetic.

Noise gamma = M nu from white nu hides a change of the secret by what is left of it after M is
inverted: the shift is the energy of the response of V = M^-1 G to the change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..numerics.balls import Ball, upper_float
from ..numerics.linalg import float_above
from ..secrets.secret import SecretInputs, SignalMoves
from ..systems.gain import largest_gain
from ..systems.linear import LinearSystem
from ._apart import square_of_several
from ._whitened_response import (
    WhitenedResponse,
    in_enough_digits,
    is_known,
    largest_of,
)
from ._windows import square_of_windows


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
        squares = _squares(response, secret)
        if not all(is_known(square) for square in squares):
            return None
        return max(upper_float(square.sqrt()) for square in squares)

    return in_enough_digits(left, largest)


def _squares(response: WhitenedResponse, secret: SecretInputs) -> list[Ball]:
    """Return the largest squared shift of each ball, and of each group of changes."""
    squares = [response.ball_square(columns) for columns in secret.balls]
    for group in {moves.group for moves in secret.signals}:
        members = [moves for moves in secret.signals if moves.group == group]
        squares.append(_group_square(response, members))
    for group in {window.group for window in secret.windows}:
        windows = [window for window in secret.windows if window.group == group]
        squares.append(square_of_windows(response, windows))
    return squares


def _group_square(response: WhitenedResponse, members: Sequence[SignalMoves]) -> Ball:
    """Return the largest squared shift of changes that may come together."""
    largest = largest_of([response.largest_square(moves) for moves in members])
    events = max(moves.spacing.events for moves in members)
    if events == 1 or not largest.is_finite():
        return largest
    return square_of_several(response, members, largest)
