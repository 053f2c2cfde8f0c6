"""Events of which the time is secret, or the signal, rather than whether they happen.

An event at t in one run and at t + k in the other moves the outputs by (1 - z^-k) G, which
is the response of (1 - z^-1) G to a pulse of k samples. A simple pole of G at one is a zero
of 1 - z^-1 too, so tanks, stores and meters hide the time of an event in runs of any
length. The pole is taken away exactly: where a state only keeps its value, by the exact
zeros that this leaves, otherwise by rational arithmetic. A second pole at one, and every
other mode that does not decay, stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ..numerics.balls import (
    Ball,
    BallMatrix,
    Rational,
    RationalMatrix,
    ball_matrix,
    block_balls,
    identity_balls,
    rational_matrix,
)
from ..numerics.thresholds import MOST_STATES_IN_BALLS, ON_CIRCLE
from ..systems.linear import LinearSystem, queue_of, spectral_radius

#: Exact matrices A, E and C of what is left of a system without its poles at one.
Parts = tuple[RationalMatrix, RationalMatrix, RationalMatrix]


# -- the difference of a response ---------------------------------------------------------


def difference_of(system: LinearSystem) -> LinearSystem:
    """Return (1 - z^-1) G, in arrays or in balls, with G's last input as first states.

    It is F + z^-1 (C E - F + C (A - I) (z I - A)^-1 E), so the outputs do not see a state
    whose column of A is a unit vector.
    """
    A, E, C, F = system.matrices
    if isinstance(A, np.ndarray):
        n, q = E.shape
        slower = A - np.eye(n)
        onward = np.block([[np.zeros((q, q + n))], [E, A]])
        entry = np.vstack([np.eye(q), np.zeros((n, q))])
        return LinearSystem(onward, entry, np.hstack([C @ E - F, C @ slower]), F)
    n, q = E.nrows(), E.ncols()
    still = A - identity_balls(n)
    return LinearSystem(
        block_balls([[BallMatrix(q, q), BallMatrix(q, n)], [E, A]]),
        block_balls([[identity_balls(q)], [BallMatrix(n, q)]]),
        block_balls([[C * E - F, C * still]]),
        F,
    )


def difference_without_one(system: LinearSystem) -> LinearSystem:
    """Return (1 - z^-1) G of arrays, without all simple poles at one, rounded."""
    parts = _without_one(system)
    if parts is None:
        return difference_of(system)
    A, E, C = (_rounded(part) for part in parts)
    _, B, C0, F = system.matrices
    n, q = E.shape
    onward = np.block([[np.zeros((q, q + n))], [E, A]])
    entry = np.vstack([np.eye(q), np.zeros((n, q))])
    return LinearSystem(onward, entry, np.hstack([C0 @ B - F, C]), F)


def exact_difference(system: LinearSystem, without_one: bool) -> LinearSystem:
    """Return the same in balls of the working precision, for a system of arrays."""
    exact = system.in_balls()
    parts = _without_one(system) if without_one else None
    if parts is None:
        return difference_of(exact)
    A, E, C = (ball_matrix(part) for part in parts)
    n, q = E.nrows(), E.ncols()
    onward = block_balls([[BallMatrix(q, q), BallMatrix(q, n)], [E, A]])
    entry = block_balls([[identity_balls(q)], [BallMatrix(n, q)]])
    direct = exact.C * exact.B - exact.D
    return LinearSystem(onward, entry, block_balls([[direct, C]]), exact.D)


@lru_cache(maxsize=16)
def _without_one(system: LinearSystem) -> Parts | None:
    """Return what C (A - I) sees of (z I - A)^-1 E, without the eigenvalue one.

    With the kernel V and the range R of A - I the states are V v + R r, and C (A - I) does
    not see v. None where one is no eigenvalue, or a defective one.
    """
    if system.order > MOST_STATES_IN_BALLS:
        return None
    A = rational_matrix(system.A)
    n = system.order
    slower = A - rational_matrix(np.eye(n))
    reduced, rank = slower.rref()
    if rank == n:
        return None
    pivots = _pivots(reduced, rank)
    kernel = _kernel(reduced, pivots, n)
    columns = slower.transpose().tolist()
    span = [columns[k] for k in pivots]
    basis = RationalMatrix([*kernel, *span]).transpose()
    if basis.det() == 0:
        return None
    back = basis.inv()
    onward = back * A * basis
    entering = back * rational_matrix(system.B)
    seen = rational_matrix(system.C) * slower * basis
    kept = range(n - rank, n)
    if not kept:
        return None
    return (
        RationalMatrix([[onward[i, j] for j in kept] for i in kept]),
        RationalMatrix(
            [[entering[i, j] for j in range(entering.ncols())] for i in kept]
        ),
        RationalMatrix([[seen[i, j] for j in kept] for i in range(seen.nrows())]),
    )


def _pivots(reduced: RationalMatrix, rank: int) -> list[int]:
    """Return the columns of the leading entries of a reduced row echelon form."""
    table = reduced.tolist()
    return [next(j for j, x in enumerate(row) if x != 0) for row in table[:rank]]


def _kernel(
    reduced: RationalMatrix, pivots: Sequence[int], size: int
) -> list[list[Rational]]:
    """Return a basis of the kernel of a reduced row echelon form, vector by vector."""
    table = reduced.tolist()
    basis = []
    for free in sorted(set(range(size)) - set(pivots)):
        vector = [table[0][0] * 0 for _ in range(size)]
        vector[free] += 1
        for row, pivot in enumerate(pivots):
            vector[pivot] -= table[row][free]
        basis.append(vector)
    return basis


def _rounded(matrix: RationalMatrix) -> NDArray[np.float64]:
    """Return the doubles next to the entries of a rational matrix."""
    rows, columns = matrix.nrows(), matrix.ncols()
    values = [float(Ball(entry).mid()) for entry in matrix.entries()]
    return np.array(values).reshape(rows, columns)


def is_exact(system: LinearSystem) -> bool:
    """Return whether the matrices of `difference_of` are exact in doubles."""
    A, E, C, F = map(rational_matrix, system.matrices)
    difference = difference_of(system)
    slower = A - rational_matrix(np.eye(system.order))
    direct = C * E - F
    q = system.input_count
    exact = [direct, C * slower]
    rounded = [difference.C[:, :q], difference.C[:, q:]]
    return all(
        rational_matrix(near) == far for near, far in zip(rounded, exact, strict=True)
    )


def still_lasts(system: LinearSystem, seen: NDArray[np.bool_]) -> bool:
    """Return whether states (n,) of a difference hold a mode next to the unit circle."""
    kept = LinearSystem(system.A[np.ix_(seen, seen)], *system.matrices[1:])
    return spectral_radius(kept) > 1 - ON_CIRCLE


# -- events on one signal or another ------------------------------------------------------


def either_signal(
    system: LinearSystem, radii: NDArray[np.float64]
) -> tuple[LinearSystem, bool]:
    """Return mu_i G e_i - mu_j G e_j of all pairs of signals, and whether it is rounded."""
    pairs = list(combinations(range(len(radii)), 2))
    choice = np.zeros((len(radii), len(pairs)))
    for column, (first, second) in enumerate(pairs):
        choice[first, column] = radii[first]
        choice[second, column] = -radii[second]
    return _mixed(system, choice)


def _mixed(
    system: LinearSystem, choice: NDArray[np.float64]
) -> tuple[LinearSystem, bool]:
    """Return a system whose inputs are combined, and whether an entry was rounded."""
    exact = rational_matrix(choice)
    B = rational_matrix(system.B) * exact if system.order else None
    D = rational_matrix(system.D) * exact
    rounded_B = system.B[:, :0] if B is None else _rounded(B)
    if B is None:
        rounded_B = np.zeros((0, choice.shape[1]))
    rounded_D = _rounded(D)
    alike = rational_matrix(rounded_D) == D
    if B is not None:
        alike = alike and rational_matrix(rounded_B) == B
    return LinearSystem(system.A, rounded_B, system.C, rounded_D), not alike


def either_time(
    system: LinearSystem, radii: NDArray[np.float64], moved: int
) -> tuple[LinearSystem, bool]:
    """Return the changes mu_i z^-a G e_i - mu_j z^-b G e_j, as inputs of one system.

    One of a and b is zero, the other one at most ``moved``. What comes later waits in a
    queue of its signal.
    """
    count = len(radii)
    queues = [queue_of(moved)] * count
    waiting = np.kron(np.eye(count), queues[0].A)
    leaving = np.kron(np.eye(count), queues[0].C)
    n = system.order
    onward = np.block(
        [[waiting, np.zeros((count * moved, n))], [system.B @ leaving, system.A]]
    )
    readout = np.hstack([system.D @ leaving, system.C])
    at_once = []
    later = []
    for first in range(count):
        for second in range(count):
            for delay in range(moved + 1):
                if delay == 0 and second <= first:
                    continue
                now = np.zeros(count)
                now[first] = radii[first]
                queued = np.zeros(count * moved)
                if delay:
                    # the first of a queue leaves one sample after the event
                    queued[second * moved + delay - 1] = -radii[second]
                else:
                    now[second] = -radii[second]
                at_once.append(now)
                later.append(queued)
    entering, is_rounded = _mixed(system, np.array(at_once).T)
    entry = np.vstack([np.array(later).T, entering.B])
    return LinearSystem(onward, entry, readout, entering.D), is_rounded


# -- responses over a horizon ---------------------------------------------------------------


def moved_columns(
    forced: NDArray[np.float64], signals: int, moved: int
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return the changes of events that are moved, and the samples at which they begin.

    ``forced`` (m, T q) are the responses to an event at each sample and signal,
    time-major. An event that is moved beyond the horizon leaves the run.
    """
    frames = forced.reshape(len(forced), -1, signals)
    samples = frames.shape[1]
    columns = []
    starts = []
    for later in range(1, min(moved, samples - 1) + 1):
        moves = frames[:, :-later] - frames[:, later:]
        columns.append(moves.reshape(len(forced), -1))
        starts.append(np.repeat(np.arange(samples - later), signals))
    leaving = np.arange(max(samples - moved, 0), samples)
    columns.append(frames[:, leaving].reshape(len(forced), -1))
    starts.append(np.repeat(leaving, signals))
    return np.hstack(columns), np.concatenate(starts)


def other_columns(
    forced: NDArray[np.float64], signals: int, moved: int
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return the changes of events on another signal, up to ``moved`` samples later.

    They are those of an event at one signal and of one at another signal that is no
    earlier; see `moved_columns`.
    """
    frames = forced.reshape(len(forced), -1, signals)
    samples = frames.shape[1]
    columns = []
    starts = []
    for first in range(signals):
        for second in range(signals):
            for later in range(min(moved, samples - 1) + 1):
                if first == second or (later == 0 and second < first):
                    continue
                early = frames[:, : samples - later, first]
                columns.append(early - frames[:, later:, second])
                starts.append(np.arange(samples - later))
    return np.hstack(columns), np.concatenate(starts)
