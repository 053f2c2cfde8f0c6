"""Powers of A in ball arithmetic: what a plant did before, and what it will do, with rigorous error bounds.

A^-t spans hundreds of decades, and privacy hinges on the small components beside the large ones. Ball arithmetic
(python-flint) carries as many digits as that needs and proves them, at a cost of microseconds a step.
"""

import math

import numpy as np
from flint import arb, arb_mat, fmpq, fmpq_mat

from ..core._precision import working_bits
from ..core.errors import UncertifiableError

#: Digits to which every column is known relative to its largest entry: far beyond any double-precision use.
_ACCURATE_BITS = 180
_MOST_BITS = 320 << 9
_TELLING_BITS = (
    1 << 13
)  # from here on the digits that a sample costs are known: transients of doubles are over
_EXACT_INVERSE = (
    24  # states up to which A is inverted in rationals, which keeps its exact zeros
)


def ball_matrix(array):
    """Doubles as exact balls."""
    return arb_mat([[arb(float(x)) for x in row] for row in np.atleast_2d(array)])


def midpoints(matrix):
    """Nearest doubles (rows, columns) of a ball matrix."""
    values = np.array([float(x.mid()) for x in matrix.entries()])
    return values.reshape(matrix.nrows(), matrix.ncols())


def upper_bounds(matrix):
    """Doubles (rows, columns) that no absolute value in a ball matrix exceeds."""
    values = np.array([float(x.abs_upper()) for x in matrix.entries()])
    return np.nextafter(values.reshape(matrix.nrows(), matrix.ncols()), np.inf)


def upper(ball):
    """The float that nothing in the ball exceeds."""
    return math.nextafter(float(ball.upper()), math.inf)


def seen_states(plant, horizon):
    """Which states (n,) some output can see within the horizon, by the zeros of A and C alone."""
    links, seen = plant.A != 0, (plant.C != 0).any(axis=0)
    for _ in range(min(plant.order, horizon - 1)):
        seen = seen | links[seen].any(axis=0)
    return seen


def is_singular(A):
    """Whether the matrix of doubles A is singular, decided exactly."""
    return _rationals(A).det() == 0


def tell_apart(plant, rows, horizon):
    """Whether the outputs over a horizon differ for any two values of these states, the others held; decided exactly.

    Beyond 24 states it is not decided, and False.
    """
    if plant.order > _EXACT_INVERSE:
        return False
    A, frame = _rationals(plant.A), _rationals(plant.C)
    stack = []
    for _ in range(min(plant.order, horizon)):
        stack += [[row[int(k)] for k in rows] for row in frame.table()]
        frame = frame * A
    return fmpq_mat(stack).rref()[1] == len(rows)


def _rationals(array):
    """Doubles as exact rationals."""
    return fmpq_mat(
        [[fmpq(*float(x).as_integer_ratio()) for x in row] for row in array]
    )


def _inverse(A):
    if len(A) > _EXACT_INVERSE:
        return ball_matrix(A).inv()
    return arb_mat(
        [[arb(entry) for entry in row] for row in _rationals(A).inv().table()]
    )


class FreeResponse:
    """The vectors A^t V for t = -back .. forward, as ball matrices (n, q) accurate to `_ACCURATE_BITS`.

    Parameters
    ----------
    A : ndarray, shape (n, n)
        Nonsingular if ``back`` is positive.
    V : ndarray, shape (n, q)
    back, forward : int

    Raises
    ------
    UncertifiableError
        If the plant is so stiff that even very long numbers do not carry its powers.
    """

    def __init__(self, A, V, back, forward):
        self.back, self.bits = back, 320
        before = (0, 0)
        while True:
            with working_bits(self.bits):
                past, future = self._propagate(A, V, back, forward)
            if (len(past), len(future)) == (back, forward):
                self.states = [*past[::-1], ball_matrix(V), *future]
                return
            self._give_up(before, (len(past), len(future)), (back, forward))
            before = len(past), len(future)
            self.bits *= 2

    @staticmethod
    def _propagate(A, V, back, forward):
        """A^-t V and A^t V for t = 1, 2, .., as far as they are accurate."""
        try:
            past = _orbit(_inverse(A), ball_matrix(V), back) if back else []
        except ZeroDivisionError:  # not invertible at this precision
            past = []
        return past, _orbit(ball_matrix(A), ball_matrix(V), forward) if len(
            past
        ) == back else []

    def _give_up(self, before, reached, wanted):
        """Refuse what so many digits did not reach, as soon as it is clear that no allowed number of them will."""
        for was, now, want, sign in zip(before, reached, wanted, "-+"):
            gained = now - was
            lost = (
                self.bits / 2 / gained if gained > 0 else np.inf
            )  # bits that a sample costs
            beyond = self.bits >= _MOST_BITS or (
                gained > 0 and self.bits + (want - now) * lost > 2 * _MOST_BITS
            )
            if now < want and self.bits >= _TELLING_BITS and beyond:
                reach = (
                    f", which reaches about {sign}{int(now + (_MOST_BITS - self.bits) / lost)}"
                    if gained > 0
                    else ""
                )
                cause = (
                    "the horizon is too long for this plant"
                    if gained > 0
                    else "A is too close to singular"
                )
                raise UncertifiableError(
                    f"A^t for t = {sign}1 .. {sign}{want} is beyond {_MOST_BITS}-bit arithmetic{reach}: {cause}; "
                    "shorten the horizon, or protect fewer times (StateAdjacency(times=...))"
                )

    def at(self, t):
        """A^t V as balls (n, q)."""
        return self.states[t + self.back]

    def outputs(self, C):
        """C A^t V as doubles, shape (times, p, q), each entry rounded from its ball."""
        gain, largest = ball_matrix(C), float(np.abs(C).max())
        return np.array(
            [midpoints(self._product(gain, state, largest)) for state in self.states]
        )

    def _product(self, gain, state, largest):
        """gain state to many digits: the working precision is one for all threads, another one may lower it."""
        while True:
            with working_bits(self.bits):
                product = gain * state
            allowed = largest * upper_bounds(state).max(axis=0) * 2.0**-100
            widest = np.array(
                [
                    [float(product[i, j].rad()) for j in range(product.ncols())]
                    for i in range(product.nrows())
                ]
            )
            if not (widest > allowed).any():
                return product


def _orbit(step, state, count):
    """step state, step^2 state, .. (at most ``count`` of them), up to the last one that is accurate."""
    states = []
    for _ in range(count):
        state = step * state
        if not _accurate(state):
            break
        states.append(state)
    return states


def _accurate(matrix):
    """Compared as balls: doubles would overflow, and an overflow proves nothing."""
    for column in range(matrix.ncols()):
        entries = [matrix[row, column] for row in range(matrix.nrows())]
        widest, largest = (
            max(2 * x.rad() for x in entries),
            max(x.abs_upper() for x in entries),
        )
        if not widest <= largest * arb((1, -_ACCURATE_BITS)):
            return False
    return True
