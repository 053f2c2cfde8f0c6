"""Several changes of a secret signal in one run, and what they have in common.

Let s_1, ..., s_k be what is left of them, whitened. No change is larger than y, and c(tau)
bounds the inner product of two that begin tau samples apart or more. Then

    |sum s_a|^2 <= k y^2 + 2 sum over m = 1 .. k - 1 of (k - m) c(t_m),

since in the order of time k - m pairs are m places apart, which are t_m samples at least.
That is m b if any two changes begin at least b samples apart. Otherwise at most one change
begins at each of q inputs and at each sample, so m + 1 changes in a row take (m + 1) / q
samples, rounded up.

Over a run that is not long, what each change shares with each other one is known. Let Q_a
be the square of change a, P_ac bound its product with change c, and t_a be its start. Then
up to j changes of which a is the first one have a squared sum of at most

    V_j(a) = Q_a + max of 2 P_ac + V_(j-1)(c) over all c with t_c >= t_a + b
             + 2 sum over m = 2 .. j - 1 of max P_ac over all c with t_c >= t_a + m b,

for the next one is some c, and the one m places later starts at t_a + m b or later. Where
there is no such c, nothing is added.

Powers of A come from squares of it. Balls that go on by A, sample by sample, wrap: with 256
bits nothing is known of them after a hundred samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..numerics.balls import Ball, BallMatrix, ball_matrix, enclosure, upper_float
from ..numerics.linalg import EPS, largest_later
from ..numerics.thresholds import DOUBLINGS, NEGLIGIBLE, SETTLING
from ..privacy.repetition import Spacing
from ..secrets.secret import Apart, SignalMoves
from ..systems.linear import LEAP
from ..systems.powers import Orbit
from ._whitened_response import WhitenedResponse

#: Values of a matrix, and bounds of their errors.
Enclosed = tuple[NDArray[np.float64], NDArray[np.float64]]

#: Shapes and lengths of changes above which nothing is made of their distance.
_MOST_CHANGES = 200
#: Speed: pairs of changes of a run times how many come, up to which each pair counts.
_MOST_STEPS = 4 * 10**6


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


def largest_apart(
    apart: Apart, columns: NDArray[np.float64], error: NDArray[np.float64] | float
) -> float:
    """Return an upper bound of the 2-norm of any sum of changes over a horizon.

    ``columns`` (m, M) are the changes of ``apart`` whitened, with entries as wrong as
    ``error``.
    """
    starts = apart.starts
    if are_few(starts, apart.spacing):
        _, slack = _size_and_error(columns, error)
        products = np.abs(columns.T @ columns) + slack
        total = largest_along_run(np.diag(products), products, starts, apart.spacing)
    else:
        later, _, square = products_by_lag(columns, starts, error)
        lags = apart.spacing.lags
        total = several_together(square, lambda lag: later[lag], lags)
    return math.sqrt(total) * (1 + 4 * EPS)


def are_few(starts: NDArray[np.intp], spacing: Spacing) -> bool:
    """Return whether changes are so few that each is compared with each other one."""
    return len(starts) ** 2 * spacing.events <= _MOST_STEPS


def largest_along_run(
    squares: NDArray[np.float64],
    products: NDArray[np.float64],
    starts: NDArray[np.intp],
    spacing: Spacing,
) -> float:
    """Return the bound V of the module's head for all placements of changes.

    ``squares`` (M,) and ``products`` (M, M) bound those of changes that begin at ``starts``
    (M,).
    """
    order = np.argsort(starts, kind="stable")
    starts, squares = starts[order], squares[order]
    shared = 2 * products[np.ix_(order, order)]
    later = largest_later(shared.T).T
    is_next = starts >= starts[:, None] + spacing.separation
    shared[~is_next] = -np.inf
    beyond = np.zeros(len(starts))
    total = squares
    for lag in spacing.lags:
        if lag > spacing.separation:
            first = np.searchsorted(starts, starts + lag)
            fits = first < len(starts)
            beyond[fits] += later[fits, first[fits]]
        then = (shared + total).max(axis=1)
        total = squares + beyond + np.maximum(then, 0.0)
    return float(total.max()) * (1 + 8 * spacing.events * EPS)


def products_by_lag(
    columns: NDArray[np.float64],
    starts: NDArray[np.intp],
    error: NDArray[np.float64] | float,
) -> tuple[NDArray[np.float64], float, float]:
    """Bound the inner products of changes over a horizon, and their largest square.

    Returns bounds for each lag of their starts (M,) and all later ones, and the largest
    square from below and from above.
    """
    size, slack = _size_and_error(columns, error)
    by_lag = np.zeros(np.ptp(starts) + 1)
    for start in np.unique(starts):
        same = columns[:, starts == start]
        products = np.abs(same.T @ columns)
        lags = np.abs(starts - start)
        np.maximum.at(by_lag, lags, products.max(axis=0))
    later = largest_later(by_lag) + slack
    return later, float(size**2 - 2 * slack), float(size**2 + slack)


def _size_and_error(
    columns: NDArray[np.float64], error: NDArray[np.float64] | float
) -> tuple[float, float]:
    """Bound the 2-norms of columns, and the errors of their inner products."""
    entries = len(columns)
    errors = np.broadcast_to(error, columns.shape)
    wrong = np.linalg.norm(errors, axis=0).max()
    size = np.linalg.norm(columns, axis=0).max() * (1 + entries * EPS)
    rounding = (entries + 4) * EPS * size**2
    return size, wrong * (2 * size + wrong) + rounding


def square_of_several(
    response: WhitenedResponse, members: Sequence[SignalMoves], largest: Ball
) -> Ball:
    """Return a bound of the squared shift of several changes, in runs of any length.

    ``largest`` is the squared shift of one change.
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
    bounds = bounds_apart(response, members, lags[0], square)
    return Ball(several_together(square, bounds.at, lags))


def are_many(members: Sequence[SignalMoves]) -> bool:
    """Return whether there are too many shapes and lengths to compare each with each."""
    count = 0
    for moves in members:
        for shape in moves.shapes:
            count += len(shape) if moves.lasting else 1
    return count > _MOST_CHANGES


def bounds_apart(
    response: WhitenedResponse,
    members: Sequence[SignalMoves],
    first: int,
    square: float,
) -> LagBounds:
    """Bound the inner product of any two changes at each lag from ``first`` on.

    ``square`` is the largest squared shift of one change.
    """
    changes, columns = _changes(members, response.system.input_count)
    return _lag_bounds(response, changes, first, square, columns)


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

    lags: NDArray[np.intp]
    bounds: NDArray[np.float64]

    def at(self, lag: int) -> float:
        """Return the bound for a lag, no less than the first one, and all later ones."""
        return float(self.all_at(np.array([lag]))[0])

    def all_at(self, lags: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the bounds for several lags."""
        places = np.searchsorted(self.lags, lags, side="right") - 1
        return np.asarray(self.bounds[places])


def _changes(
    members: Sequence[SignalMoves], inputs: int
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
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
    response: WhitenedResponse,
    changes: NDArray[np.float64],
    first: int,
    square: float,
    columns: NDArray[np.intp],
) -> LagBounds:
    """Bound |<s_a, s_b>| of changes (L, q, S) at each lag from ``first`` on.

    With h_i(t) the response to change i, X its states when it is over, at t = L, Q the
    Gramian and W(s) = sum over t of (A^T)^t C^T h(t + s), which begins with W(L) = Q X,

        <s_i, s_j> = sum over t < L - tau of h_i(t + tau)^T h_j(t) + x_i^T W_j(L - tau)

    for tau <= L. Later x_i goes on by A^(tau - L), and W_j(0) stays. All products from tau
    on are at most y times what is left of a response from tau on, by Cauchy and Schwarz.
    """
    answers = _Answers(response, changes)
    length = len(changes)
    found = []
    beyond = square
    for lag in range(first, length):
        left, products = answers.during(lag)
        beyond = min(beyond, math.sqrt(square * left))
        if lag == 0:  # no two changes of one input begin at once
            products[columns[:, None] == columns] = 0.0
        found.append(min(float(products.max()), beyond))
    samples = max(first - length, 0)
    for _ in range(0, SETTLING, LEAP):
        left, ended = answers.after(samples)
        bound = math.sqrt(square * left)
        if not bound <= 2 * beyond:  # the digits are used up
            break
        beyond = min(beyond, bound)
        if beyond <= NEGLIGIBLE * square:
            break
        found += np.minimum(answers.going_on(ended), beyond).tolist()
        samples += LEAP
    lags = list(range(first, first + len(found) + 1))
    found.append(beyond)
    for _ in range(DOUBLINGS):
        if beyond <= NEGLIGIBLE * square:
            break
        samples = 2 * samples + 1
        left, _ = answers.after(samples)
        bound = math.sqrt(square * left)
        if not bound <= 2 * beyond:
            break
        beyond = min(beyond, bound)
        lags.append(length + samples)
        found.append(beyond)
    bounds = largest_later(np.array(found)) * (1 + 16 * EPS)
    return LagBounds(np.array(lags), bounds)


class _Answers:
    """The responses h(t) to changes (L, q, S), the states X after them and W, in balls."""

    def __init__(
        self, response: WhitenedResponse, changes: NDArray[np.float64]
    ) -> None:
        A, B, C, D = response.system.matrices
        states = BallMatrix(A.nrows(), changes.shape[2])
        responses = []
        for values in changes:
            entering = ball_matrix(values)
            responses.append(C * states + D * entering)
            states = A * states + B * entering
        self._backwards = A.transpose()
        self._gramian = response.gramian
        self._orbit = Orbit(A, states)  # from the end of the changes on
        self._responses = [enclosure(heard) for heard in responses]
        self._echoes = [self._gramian * states]  # W(L) first
        for heard in reversed(responses):
            later_on = self._backwards * self._echoes[-1]
            self._echoes.append(C.transpose() * heard + later_on)

    @cached_property
    def _ended(self) -> Enclosed:
        return enclosure(self._orbit.at(0))

    @cached_property
    def _weighed(self) -> Enclosed:
        return enclosure(self._echoes[0])

    @cached_property
    def _last_echoes(self) -> Enclosed:
        """(A^T)^t W(0) for t = 0 .. LEAP - 1, side by side."""
        heard = []
        echo = self._echoes[-1]
        for _ in range(LEAP):
            heard.append(enclosure(echo))
            echo = self._backwards * echo
        values, errors = zip(*heard, strict=True)
        return np.hstack(values), np.hstack(errors)

    def during(self, lag: int) -> tuple[float, NDArray[np.float64]]:
        """Bound |<s_a, s_b>| (S, S) at a ``lag`` of less than L samples.

        What is left of a change that long after it began, squared, comes first.
        """
        response = self._responses[lag:]
        later = [*response, self._ended]
        left = np.diag(_products([*response, self._weighed], later)).max()
        earlier = self._responses[: len(response)]
        products = _products(later, [*earlier, enclosure(self._echoes[lag])])
        return float(left), products

    def after(self, samples: int) -> tuple[float, Enclosed]:
        """Bound the square of what is left of a change so many samples after its end.

        The states at that time come second.
        """
        states = self._orbit.at(samples)
        ended = enclosure(states)
        weighed = enclosure(self._gramian * states)
        return float(np.diag(_products([weighed], [ended])).max()), ended

    def going_on(self, ended: Enclosed) -> NDArray[np.float64]:
        """Bound |<s_a, s_b>| (LEAP,) at the lag that led to these states, and later ones."""
        products = _products([ended], [self._last_echoes])
        by_lag = products.reshape(len(products), LEAP, -1).max(axis=(0, 2))
        return np.asarray(by_lag)


def _products(
    left: Sequence[Enclosed], right: Sequence[Enclosed]
) -> NDArray[np.float64]:
    """Return bounds of |X^T Y|, of matrices that are stacked from enclosed ones."""
    X, X_errors = map(np.vstack, zip(*left, strict=True))
    Y, Y_errors = map(np.vstack, zip(*right, strict=True))
    X_size = np.abs(X)
    X_errors = X_errors + 2 * len(X) * EPS * X_size  # that of the product as well
    Y_largest = np.abs(Y) + Y_errors
    wrong = X_size.T @ Y_errors + X_errors.T @ Y_largest
    return np.abs(X.T @ Y) + wrong
