"""The privacy shift of noise over runs of any length, certified in ball arithmetic.

Noise gamma = M nu from white nu hides a change of the secret by what is left of it after M is
undone: the shift is the energy of the response of V = M^-1 G to the change. Energies over all
times come from the observability Gramian of V, summed in ball arithmetic with a bound of the
tail. That the tail is small proves V stable. Noise of bounded size hides what the plant
forgets. A secret that the plant remembers for ever, or that grows in it, is refused with
the mode by name and with what to do.

Several changes may come in one run. Let s_1, ..., s_k be what is left of them, whitened. No
change is larger than y, and c(tau) bounds the inner product of two that begin tau samples
apart or more. Then

    |sum s_a|^2 <= k y^2 + 2 sum over m = 1 .. k - 1 of (k - m) c(t_m),

since in the order of time k - m pairs are m places apart, which are t_m samples at least.
That is m b if any two changes begin at least b samples apart. Otherwise at most one change
begins at each of q inputs and at each sample, so m + 1 changes in a row take (m + 1) / q
samples, rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core._linalg import (
    EPS,
    Ball,
    BallMatrix,
    ball_matrix,
    enclosure,
    float_above,
    frobenius_norm,
    largest_eigenvalue,
    upper_float,
    working_bits,
)
from ..core.adjacency import Adjacency
from ..core.errors import PrivacyError, UncertifiableError
from ..secrets.disturbance import disturbances
from ..secrets.modes import growing_mode
from ..secrets.secret import (
    Apart,
    SecretInputs,
    SignalMoves,
    as_secret,
    secret_inputs,
    seen_of,
)
from ..systems.linear import LinearSystem, Plant
from ..systems.powers import largest_gain

#: Working bits, one after the other.
_PRECISIONS = (256, 512, 1024, 2048, 4096)
_MOST_DOUBLINGS = 64
#: The part of the Gramian that its tail may have.
_TAIL = Ball((1, -160))
#: Bits to which an energy must be known.
_KNOWN_BITS = 44
#: Values of a matrix, and bounds of their errors.
Enclosed = tuple[NDArray, NDArray]

#: Lags beyond the separation up to which products are evaluated one by one.
_MOST_LAGS = 2000
#: Bound of all later products, relative to the largest energy, below which that suffices.
_UNCORRELATED = 1e-5
#: Shapes of a change, above which nothing is made of their distance.
_MOST_SHAPES = 200
_LATER_STATES = (
    "models: a state at a later time fixes what came before it through the inverse of the "
    "plant, which is not known if the plant may vary; protect the initial state "
    "(StateAdjacency(..., times=0)), or what enters during the run with a "
    "DisturbanceAdjacency"
)
NO_NOISE = (
    "no hidden move changes what is published: no noise is needed for this adjacency"
)
#: Distance from the unit circle below which a mode counts as one that does not decay.
UNDAMPED = 1e-9


# -- secrets that the plant forgets --------------------------------------------------------


def endless_secret(adjacency: Adjacency, plant: Plant) -> SecretInputs:
    """Return the secret of an adjacency, refused if the plant never forgets it."""
    if any(part.times is not None for part in disturbances(adjacency)):
        raise ValueError(
            "times: without a horizon a disturbance may change at any time; leave "
            "times out, or design for a finite horizon"
        )
    inputs = secret_inputs(adjacency, plant)
    kept = seen_of([inputs])
    _check_forgotten(plant, kept)
    (secret,) = _keeping([inputs], kept)
    return secret


def secrets_of(
    adjacency: Adjacency, vertices: Sequence[Plant]
) -> tuple[SecretInputs, ...]:
    """Return the secret under each vertex, with the same states in all.

    Raises
    ------
    ValueError
        If a state at a later time is secret.
    PrivacyError
        If no output depends on the secret.
    """
    if not all(as_secret(part).suits_any_plant for part in adjacency.parts):
        raise ValueError(_LATER_STATES)
    every = [secret_inputs(adjacency, plant) for plant in vertices]
    kept = seen_of(every)
    if not kept.any():  # a plant whose secret no output sees has one state at zero
        kept[0] = True
    return _keeping(every, kept)


def _keeping(every: Sequence[SecretInputs], kept: NDArray) -> tuple[SecretInputs, ...]:
    """Return secrets with some states (n,) alone, refused if no output sees them."""
    secrets = tuple(inputs.keeping(kept) for inputs in every)
    systems = [secret.system for secret in secrets]
    if not any(system.C.any() or system.D.any() for system in systems):
        raise PrivacyError(NO_NOISE)
    return secrets


def _is_unseen(A: NDArray, C: NDArray) -> bool:
    """Return whether no output sees any mode on the unit circle or outside it."""
    values, vectors = np.linalg.eig(A)
    is_lasting = np.abs(values) > 1 - UNDAMPED
    shown = np.abs(C @ vectors[:, is_lasting])
    return shown.max() <= UNDAMPED * np.abs(C).max()


def _check_forgotten(plant: Plant, kept: NDArray) -> None:
    """Refuse a plant whose kept states (n,) do not all decay, by the mode's name."""
    A = plant.A[np.ix_(kept, kept)]
    sizes = np.abs(np.linalg.eigvals(A))
    radius = sizes.max(initial=0.0)
    if radius > 1 - UNDAMPED:
        states = tuple(np.array(plant.states)[kept])
        mode = growing_mode(replace(plant, A=A, states=states))
        kind = "unstable mode" if radius > 1 + UNDAMPED else "mode that never decays"
        if _is_unseen(A, plant.C[:, kept]):
            raise ValueError(
                f"horizon: the plant has the {kind} {mode}, which no output sees but for "
                "rounding errors; write the plant without it, for example with differences "
                "of states in place of the states"
            )
        raise ValueError(
            f"horizon: the secret drives the {kind} {mode}, which the outputs see, and no "
            "noise of bounded size hides it for ever. Design for a finite horizon; protect "
            "an input that the plant forgets, with duration= for a change that lasts; or "
            "stabilise the mode by a local loop and take the closed loop as the plant"
        )


# -- what is left of one change ------------------------------------------------------------


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
        undone = noise.inverse().after(secret.scaled_system)
        gain = largest_gain(undone)
        return float_above(gain * (1 + 1e-13), 4)

    def left() -> LinearSystem:
        return noise.in_balls().inverse().after(secret.in_balls())

    return shift_of_system(left, secret)


def joint_shift(first: float, second: float) -> float:
    """Return the largest shift of a sum of two noises, each of which hides a secret.

    1 / (s^T Gamma^-1 s) is superadditive in Gamma, so the squares of the reciprocals
    of the shifts add up for every move s.
    """
    information = first**-2 + second**-2
    return float_above(information**-0.5, 4)


def shift_of_system(left: Callable[[], LinearSystem], secret: SecretInputs) -> float:
    """Return a number that no privacy shift exceeds, from what is left of a secret.

    ``left()`` is V = M^-1 G in balls of the working bits.
    """
    for bits in _PRECISIONS:
        with working_bits(bits):
            try:
                squares = WhitenedResponse.of(left()).squares(secret)
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
    """Return whether the ball is finite and narrow."""
    if not square.is_finite():
        return False
    widest = square.abs_upper() * Ball((1, -_KNOWN_BITS))
    return bool(square.rad() <= widest)


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
        for _ in range(_MOST_DOUBLINGS):
            square = _sum_of_squares(power)
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
        return squares

    def _group_square(self, members: Sequence[SignalMoves]) -> Ball:
        """Return the largest squared shift of changes that may come together."""
        largest = _largest([self._largest_square(moves) for moves in members])
        events = max(moves.events for moves in members)
        if events == 1 or not largest.is_finite():
            return largest
        return square_of_several(self.system, self.gramian, members, largest)

    def _largest_square(self, moves: SignalMoves) -> Ball:
        """Return the largest squared shift of some changes of one input."""
        counted = []
        for shape in moves.shapes:
            energies = self._shape_energies(moves.column, shape)
            counted += energies if moves.lasting else energies[-1:]
        return _largest(counted) * Ball(float(moves.radius)) ** 2

    def _shape_energies(self, column: int, shape: NDArray) -> list[Ball]:
        """Return the energy for every beginning of a shape, the whole one last."""
        _, entry, _, through = self.system.entered_by([column]).matrices
        state = BallMatrix(entry.nrows(), 1)
        during = Ball(0)
        energies = []
        for value in shape:
            size = Ball(float(value))
            response = self.system.C * state + through * size
            during += _sum_of_squares(response)
            state = self.system.A * state + entry * size
            later = state.transpose() * self.gramian * state
            energies.append(during + later[0, 0])
        return energies

    def _ball_square(self, columns: Sequence[int]) -> Ball:
        """Return the largest squared shift of an impulse of norm one at some inputs."""
        _, entry, _, through = self.system.entered_by(columns).matrices
        later = entry.transpose() * self.gramian * entry
        return largest_eigenvalue(later + through.transpose() * through)


def _largest(values: Sequence[Ball]) -> Ball:
    """Return the ball that reaches highest, or one of which nothing is known."""
    for value in values:
        if not value.is_finite():
            return value
    return max(values, key=lambda value: value.upper())


def _sum_of_squares(matrix: BallMatrix) -> Ball:
    return sum((entry * entry for entry in matrix.entries()), Ball(0))


# -- several changes in one run ------------------------------------------------------------


def _together(
    square: float, largest: Callable[[int], float], lags: Sequence[int]
) -> float:
    """Return the bound of the module's head from y^2, c and t_m, or k^2 y^2 if less."""
    events = len(lags) + 1
    total = events * square
    for m, lag in enumerate(lags, start=1):
        total += 2 * (events - m) * largest(lag)
    least = min(total, events**2 * square)
    return float(least * (1 + 4 * events * EPS))


def _largest_from(by_lag: NDArray) -> NDArray:
    """Return the largest value at each lag or later."""
    return np.maximum.accumulate(by_lag[::-1])[::-1]


def largest_apart(apart: Apart, columns: NDArray, error: NDArray | float) -> float:
    """Return an upper bound of the 2-norm of any sum of changes over a horizon.

    ``columns`` (m, M) are the changes of ``apart`` whitened, with entries as wrong as
    ``error``.
    """
    entries = len(columns)
    errors = np.broadcast_to(error, columns.shape)
    wrong = np.linalg.norm(errors, axis=0).max()
    size = np.linalg.norm(columns, axis=0).max() * (1 + entries * EPS)
    rounding = (entries + 4) * EPS * size**2
    slack = wrong * (2 * size + wrong) + rounding
    starts = apart.starts
    by_lag = np.zeros(np.ptp(starts) + 1)
    for start in np.unique(starts):
        same = columns[:, starts == start]
        products = np.abs(same.T @ columns)
        lags = np.abs(starts - start)
        np.maximum.at(by_lag, lags, products.max(axis=0))
    later = _largest_from(by_lag) + slack
    square = float(size**2 + slack)
    step = apart.separation
    lags = range(step, apart.events * step, step)
    total = _together(square, lambda lag: later[lag], lags)
    return math.sqrt(total) * (1 + 4 * EPS)


def square_of_several(
    system: LinearSystem,
    gramian: BallMatrix,
    members: Sequence[SignalMoves],
    largest: Ball,
) -> Ball:
    """Return a bound of the squared shift of several changes, in runs of any length.

    ``system`` is what is left of the secret, in balls, ``gramian`` its observability
    Gramian, and ``largest`` the squared shift of one change.
    """
    events = max(moves.events for moves in members)
    separation = min(moves.separation for moves in members)
    inputs = len({moves.column for moves in members})
    lags = []
    for m in range(1, events):
        # at most one change begins at each input and sample
        samples = math.ceil((m + 1) / inputs)
        lags.append(max(m * separation, samples - 1))
    square = upper_float(largest)
    changes, columns = _changes(members, system.input_count)
    if len(columns) > _MOST_SHAPES:
        return Ball(_together(square, lambda lag: square, lags))
    bounds = _by_lag(
        system,
        gramian,
        changes,
        lags[0],
        square,
        columns,
    )
    later = _largest_from(bounds)

    def from_lag(lag: int) -> float:
        place = min(lag - lags[0], len(later) - 1)
        return float(later[place])

    return Ball(_together(square, from_lag, lags))


def _changes(members: Sequence[SignalMoves], inputs: int) -> tuple[NDArray, NDArray]:
    """Return every change as a signal (L, q, S), and its input (S,)."""
    longest = max(moves.longest for moves in members)
    changes = []
    columns = []
    for moves in members:
        for shape in moves.shapes:
            for values in moves.beginnings(shape):
                change = np.zeros((longest, inputs))
                change[: len(values), moves.column] = moves.radius * values
                changes.append(change)
                columns.append(moves.column)
    return np.stack(changes, axis=2), np.array(columns)


def _by_lag(
    system: LinearSystem,
    gramian: BallMatrix,
    changes: NDArray,
    first: int,
    square: float,
    columns: NDArray,
) -> NDArray:
    """Bound |<s_a, s_b>| at each lag from ``first``, in the end for all later ones.

    With h_i(t) the response to change i, X its states when it is over, at t = L, Q the
    Gramian and W(s) = sum over t of (A^T)^t C^T h(t + s), which begins with W(L) = Q X,

        <s_i, s_j> = sum over t < L - tau of h_i(t + tau)^T h_j(t) + x_i^T W_j(L - tau)

    for tau <= L. Later x_i goes on by A^(tau - L), and W_j(0) stays. All products from tau
    on are at most y times what is left of a response from tau on, by Cauchy and Schwarz.
    """
    A, B, C, D = system.matrices
    states = BallMatrix(A.nrows(), changes.shape[2])
    responses = []
    for values in changes:
        entering = ball_matrix(values)
        responses.append(C * states + D * entering)
        states = A * states + B * entering
    echoes = [gramian * states]
    for response in reversed(responses):
        later_on = A.transpose() * echoes[-1]
        echoes.append(C.transpose() * response + later_on)
    during = [enclosure(response) for response in responses]
    length = len(changes)
    for _ in range(first - length):
        states = A * states
    heard = [enclosure(echo) for echo in echoes]
    bounds = []
    beyond = square
    for lag in range(first, first + _MOST_LAGS):
        left = max(length - lag, 0)
        response = during[lag:]
        later = [*response, enclosure(states)]
        rest = _products([*response, enclosure(gramian * states)], later)
        largest = np.diag(rest).max()
        bound = math.sqrt(square * largest)
        if not bound <= 2 * beyond:  # the digits are used up
            break
        beyond = min(beyond, bound)
        if beyond <= _UNCORRELATED * square:
            break
        products = _products(later, [*during[:left], heard[length - left]])
        if lag == 0:  # no two changes of one input begin at once
            products[columns[:, None] == columns] = 0.0
        bounds.append(min(float(products.max()), beyond))
        if lag >= length:
            states = A * states
    bounds.append(beyond)
    return np.array(bounds) * (1 + 16 * EPS)


def _products(left: Sequence[Enclosed], right: Sequence[Enclosed]) -> NDArray:
    """Return bounds of |X^T Y|, of matrices that are stacked from enclosed ones."""
    X, X_errors = map(np.vstack, zip(*left))
    Y, Y_errors = map(np.vstack, zip(*right))
    X_size = np.abs(X)
    X_errors = X_errors + 2 * len(X) * EPS * X_size  # that of the product as well
    Y_largest = np.abs(Y) + Y_errors
    wrong = X_size.T @ Y_errors + X_errors.T @ Y_largest
    return np.abs(X.T @ Y) + wrong
