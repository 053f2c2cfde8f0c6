"""Bound the shift of several changes in one run.

Let s_1, ..., s_k be what is left of k changes, whitened. No change is larger than y, and
c(tau) bounds the inner product of two that begin tau samples apart or more. Then

    |sum s_a|^2 <= k y^2 + 2 sum over m = 1 .. k - 1 of (k - m) c(t_m),

since in the order of time k - m pairs are m places apart, which are t_m samples at least.
That is m b if any two changes begin at least b samples apart. Otherwise at most one change
begins at each of q inputs and at each sample, so m + 1 changes in a row take (m + 1) / q
samples, rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..core._balls import Ball, BallMatrix, ball_matrix, enclosure, upper_float
from ..core._linalg import EPS
from ..secrets.secret import Apart, SignalMoves
from ..systems.linear import LinearSystem

#: Values of a matrix, and bounds of their errors.
Enclosed = tuple[NDArray, NDArray]

#: Lags beyond the separation up to which products are evaluated one by one.
_MOST_LAGS = 2000
#: Bound of all later products, relative to the largest energy, below which that suffices.
_UNCORRELATED = 1e-5
#: Shapes of a change, above which nothing is made of their distance.
_MOST_SHAPES = 200


def _together(
    square: float, largest: Callable[[int], float], lags: Sequence[int]
) -> float:
    """Return the bound of the module's head from y^2, c and t_m, or k^2 y^2 if less."""
    events = len(lags) + 1
    total = events * square
    for m, lag in enumerate(lags, start=1):
        total += 2 * (events - m) * largest(lag)
    return float(min(total, events**2 * square) * (1 + 4 * events * EPS))


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
    wrong = float(np.linalg.norm(errors, axis=0).max())
    size = float(np.linalg.norm(columns, axis=0).max()) * (1 + entries * EPS)
    rounding = (entries + 4) * EPS * size**2
    slack = wrong * (2 * size + wrong) + rounding
    by_lag = np.zeros(int(np.ptp(apart.starts)) + 1)
    for start in np.unique(apart.starts):
        same = columns[:, apart.starts == start]
        products = np.abs(same.T @ columns).max(axis=0)
        lags = np.abs(apart.starts - start)
        np.maximum.at(by_lag, lags, products)
    later = _largest_from(by_lag) + slack
    square = size**2 + slack
    lags = range(apart.separation, apart.events * apart.separation, apart.separation)
    total = _together(square, lambda lag: later[lag], lags)
    return float(np.sqrt(total)) * (1 + 4 * EPS)


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
    bounds = _by_lag(system, gramian, changes, lags[0], square, columns)
    later = _largest_from(bounds)

    def from_lag(lag: int) -> float:
        return float(later[min(lag - lags[0], len(later) - 1)])

    return Ball(_together(square, from_lag, lags))


def _changes(members: Sequence[SignalMoves], inputs: int) -> tuple[NDArray, NDArray]:
    """Return every change as a signal (L, q, S) over the longest one, and its input (S,)."""
    longest = max(len(shape) for moves in members for shape in moves.shapes)
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
    """Return bounds of |<s_a, s_b>| at each lag from ``first``, the last for all later ones.

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
        echoes.append(C.transpose() * response + A.transpose() * echoes[-1])
    during = [enclosure(response) for response in responses]
    length = len(changes)
    for _ in range(first - length):
        states = A * states
    bounds = []
    beyond = square
    for lag in range(first, first + _MOST_LAGS):
        left = max(length - lag, 0)
        response = during[lag:]
        later = [*response, enclosure(states)]
        rest = _products([*response, enclosure(gramian * states)], later)
        bound = float(np.sqrt(square * np.diag(rest).max()))
        if not bound <= 2 * beyond:  # the digits are used up
            break
        beyond = min(beyond, bound)
        if beyond <= _UNCORRELATED * square:
            break
        products = _products(later, [*during[:left], enclosure(echoes[length - left])])
        if lag == 0:  # no two changes of one input begin at once
            products[columns[:, None] == columns] = 0.0
        bounds.append(min(float(products.max()), beyond))
        if lag >= length:
            states = A * states
    return np.array([*bounds, beyond]) * (1 + 16 * EPS)


def _products(left: Sequence[Enclosed], right: Sequence[Enclosed]) -> NDArray:
    """Return bounds of |X^T Y|, of matrices that are stacked from enclosed ones."""
    X, X_errors = (np.vstack(parts) for parts in zip(*left))
    Y, Y_errors = (np.vstack(parts) for parts in zip(*right))
    X_size = np.abs(X)
    X_errors = X_errors + 2 * len(X) * EPS * X_size  # that of the product as well
    beside = X_errors.T @ (np.abs(Y) + Y_errors)
    return np.abs(X.T @ Y) + X_size.T @ Y_errors + beside
