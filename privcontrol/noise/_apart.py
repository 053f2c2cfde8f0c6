"""Several changes of a secret signal in one run, and what they have in common.

Let s_1, ..., s_k be what is left of them, whitened. No change is larger than y, and c(tau)
bounds the inner product of two that begin tau samples apart or more. Then

    |sum s_a|^2 <= k y^2 + 2 sum over m = 1 .. k - 1 of (k - m) c(t_m),

since in the order of time k - m pairs are m places apart, which are t_m samples at least.
That is m b if any two changes begin at least b samples apart. Otherwise at most one change
begins at each of q inputs and at each sample, so m + 1 changes in a row take (m + 1) / q
samples, rounded up.

Powers of A come from squares of it. Balls that go on by A, sample by sample, wrap: with 256
bits nothing is known of them after a hundred samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..numerics.balls import Ball, BallMatrix, ball_matrix, enclosure, upper_float
from ..numerics.linalg import EPS, largest_later
from ..numerics.thresholds import DOUBLINGS, NEGLIGIBLE, SETTLING
from ..privacy.repetition import Spacing
from ..secrets.secret import Apart, SignalMoves
from ..systems.linear import LEAP, LinearSystem
from ..systems.powers import Orbit

#: Values of a matrix, and bounds of their errors.
Enclosed = tuple[NDArray, NDArray]

#: Shapes and lengths of changes above which nothing is made of their distance.
_MOST_CHANGES = 200


def several_together(
    square: float, largest: Callable[[int], float], lags: Sequence[int]
) -> float:
    """Return the bound of the module's head from y^2, c and t_m, or k^2 y^2 if less."""
    events = len(lags) + 1
    total = events * square
    for m, lag in enumerate(lags, start=1):
        total += 2 * (events - m) * largest(lag)
    least = min(total, events**2 * square)
    return float(least * (1 + 4 * events * EPS))


def largest_apart(apart: Apart, columns: NDArray, error: NDArray | float) -> float:
    """Return an upper bound of the 2-norm of any sum of changes over a horizon.

    ``columns`` (m, M) are the changes of ``apart`` whitened, with entries as wrong as
    ``error``.
    """
    starts = apart.starts
    later, _, square = products_by_lag(columns, starts, error)
    lags = apart.spacing.lags
    total = several_together(square, lambda lag: later[lag], lags)
    return math.sqrt(total) * (1 + 4 * EPS)


def products_by_lag(
    columns: NDArray, starts: NDArray, error: NDArray | float
) -> tuple[NDArray, float, float]:
    """Bound the inner products of changes over a horizon, and their largest square.

    Returns bounds for each lag of their starts (M,) and all later ones, and the largest
    square from below and from above.
    """
    entries = len(columns)
    errors = np.broadcast_to(error, columns.shape)
    wrong = np.linalg.norm(errors, axis=0).max()
    size = np.linalg.norm(columns, axis=0).max() * (1 + entries * EPS)
    rounding = (entries + 4) * EPS * size**2
    slack = wrong * (2 * size + wrong) + rounding
    by_lag = np.zeros(np.ptp(starts) + 1)
    for start in np.unique(starts):
        same = columns[:, starts == start]
        products = np.abs(same.T @ columns)
        lags = np.abs(starts - start)
        np.maximum.at(by_lag, lags, products.max(axis=0))
    later = largest_later(by_lag) + slack
    return later, float(size**2 - 2 * slack), float(size**2 + slack)


def correlations(
    system: LinearSystem, gramian: BallMatrix, count: int
) -> list[BallMatrix]:
    """Return products rho (q, q) of a system's responses to impulses, lag by lag.

    rho(m)[i, j] is the product of the response to input i with that to input j that
    begins m samples earlier: E^T A^(m-1) B with E = A^T Q B + C^T D for m >= 1, and
    B^T Q B + D^T D for m = 0, with the observability Gramian Q.
    """
    A, B, C, D = system.matrices
    onward = A.transpose() * gramian * B + C.transpose() * D
    echo = onward.transpose()
    orbit = Orbit(A, B)
    found = [B.transpose() * gramian * B + D.transpose() * D]
    for lag in range(count - 1):
        found.append(echo * orbit.at(lag))
    return found


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
    spacing = Spacing.joint([moves.spacing for moves in members])
    inputs = len({moves.column for moves in members})
    lags = []
    for m in range(1, spacing.events):
        # at most one change begins at each input and sample
        samples = math.ceil((m + 1) / inputs)
        lags.append(max(m * spacing.separation, samples - 1))
    square = upper_float(largest)
    if are_many(members):
        return Ball(several_together(square, lambda lag: square, lags))
    bounds = bounds_apart(system, gramian, members, lags[0], square)
    return Ball(several_together(square, bounds.at, lags))


def are_many(members: Sequence[SignalMoves]) -> bool:
    """Return whether there are too many shapes and lengths to compare each with each."""
    count = 0
    for moves in members:
        for shape in moves.shapes:
            count += len(shape) if moves.lasting else 1
    return count > _MOST_CHANGES


def bounds_apart(
    system: LinearSystem,
    gramian: BallMatrix,
    members: Sequence[SignalMoves],
    first: int,
    square: float,
) -> LagBounds:
    """Bound the inner product of any two changes at each lag from ``first`` on.

    ``square`` is the largest squared shift of one change.
    """
    changes, columns = _changes(members, system.input_count)
    return _lag_bounds(system, gramian, changes, first, square, columns)


@dataclass(frozen=True, eq=False)
class LagBounds:
    """Upper bounds of c, by the samples that two changes begin apart.

    Attributes
    ----------
    lags : ndarray, shape (K,)
        Rising.
    bounds : ndarray, shape (K,)
        Falling: each holds for its lag and all later ones.
    """

    lags: NDArray
    bounds: NDArray

    def at(self, lag: int) -> float:
        """Return the bound for a lag, no less than the first one, and all later ones."""
        return float(self.all_at(np.array([lag]))[0])

    def all_at(self, lags: NDArray) -> NDArray:
        """Return the bounds for several lags."""
        places = np.searchsorted(self.lags, lags, side="right") - 1
        return np.asarray(self.bounds[places])


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


def _lag_bounds(
    system: LinearSystem,
    gramian: BallMatrix,
    changes: NDArray,
    first: int,
    square: float,
    columns: NDArray,
) -> LagBounds:
    """Bound |<s_a, s_b>| of changes (L, q, S) at each lag from ``first`` on.

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
    backwards = A.transpose()
    echoes = [gramian * states]
    for response in reversed(responses):
        later_on = backwards * echoes[-1]
        echoes.append(C.transpose() * response + later_on)
    during = [enclosure(response) for response in responses]
    at_end = states
    ended = enclosure(states)
    weighed = enclosure(gramian * states)
    length = len(changes)
    found = []
    beyond = square
    for lag in range(first, length):
        response = during[lag:]
        later = [*response, ended]
        left = np.diag(_products([*response, weighed], later)).max()
        beyond = min(beyond, math.sqrt(square * left))
        products = _products(later, [*during[: length - lag], enclosure(echoes[lag])])
        if lag == 0:  # no two changes of one input begin at once
            products[columns[:, None] == columns] = 0.0
        found.append(min(float(products.max()), beyond))

    heard = []
    echo = echoes[-1]
    for _ in range(LEAP):
        heard.append(enclosure(echo))
        echo = backwards * echo
    values, errors = zip(*heard, strict=True)
    together = np.hstack(values), np.hstack(errors)

    def largest_after(then: BallMatrix, ended: Enclosed) -> float:
        """Bound all products from the time on at which these are the states."""
        left = np.diag(_products([enclosure(gramian * then)], [ended])).max()
        return math.sqrt(square * left)

    orbit = Orbit(A, at_end)
    samples = max(first - length, 0)
    for _ in range(0, SETTLING, LEAP):
        states = orbit.at(samples)
        ended = enclosure(states)
        bound = largest_after(states, ended)
        if not bound <= 2 * beyond:  # the digits are used up
            break
        beyond = min(beyond, bound)
        if beyond <= NEGLIGIBLE * square:
            break
        products = _products([ended], [together])
        by_lag = products.reshape(len(products), LEAP, -1).max(axis=(0, 2))
        found += np.minimum(by_lag, beyond).tolist()
        samples += LEAP

    lags = list(range(first, first + len(found) + 1))
    found.append(beyond)
    for _ in range(DOUBLINGS):
        if beyond <= NEGLIGIBLE * square:
            break
        samples = 2 * samples + 1
        states = orbit.at(samples)
        bound = largest_after(states, enclosure(states))
        if not bound <= 2 * beyond:
            break
        beyond = min(beyond, bound)
        lags.append(length + samples)
        found.append(beyond)
    bounds = largest_later(np.array(found)) * (1 + 16 * EPS)
    return LagBounds(np.array(lags), bounds)


def _products(left: Sequence[Enclosed], right: Sequence[Enclosed]) -> NDArray:
    """Return bounds of |X^T Y|, of matrices that are stacked from enclosed ones."""
    X, X_errors = map(np.vstack, zip(*left, strict=True))
    Y, Y_errors = map(np.vstack, zip(*right, strict=True))
    X_size = np.abs(X)
    X_errors = X_errors + 2 * len(X) * EPS * X_size  # that of the product as well
    Y_largest = np.abs(Y) + Y_errors
    wrong = X_size.T @ Y_errors + X_errors.T @ Y_largest
    return np.abs(X.T @ Y) + wrong
