"""The Kalman filter where some readings carry no noise, in many digits.

There a reading may reveal a direction of plant and noise exactly, and its covariance is
singular. What is known exactly must then be distinguished from what is known well: in double
precision the rounding of earlier samples passes for information. So covariances are
carried on in `_BITS` bits, together with the rounding of the data: noise of the size
of the last place of every double. A combination of readings whose variance is not above
that rounding reveals nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..numerics.balls import Ball, BallMatrix, ball_matrix, midpoints, working_bits
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import EPS, nonzero
from ..numerics.thresholds import SHARP
from ..systems.linear import LinearSystem

#: Bits of the covariances. Rounding that grows sixteenfold at each of 200 samples stays
#: below that of doubles.
_BITS = 1024
#: Roundings of its terms below which a number is zero, and of the data below which a reading
#: reveals nothing.
ROUNDINGS = 64


@dataclass(frozen=True, eq=False)
class ExactReading:
    """What one sample reveals, with N states and p readings, of which k are news.

    Attributes
    ----------
    before, after, ahead : BallMatrix, shapes (N, N)
        Covariances of the errors of the prediction, of the estimate, and of the next
        prediction.
    correct, advance : BallMatrix, shapes (N, p)
        Gains on the innovation, of the estimate and of the next prediction.
    news : BallMatrix, shape (k, p)
        Combinations of the innovation that are independent, of variance one.
    exact : BallMatrix, shape (p - k, p)
        The other combinations, which are zero.
    """

    before: BallMatrix
    after: BallMatrix
    ahead: BallMatrix
    correct: BallMatrix
    advance: BallMatrix
    news: BallMatrix
    exact: BallMatrix


def exact_readings(
    system: LinearSystem, start: NDArray[np.float64], samples: int, lost: Container[int]
) -> Iterator[ExactReading]:
    """Yield the filter's steps from the root ``start`` (N, k) of a covariance.

    At ``lost`` samples nothing is read. `UncertifiableError` where rounding of the data
    grows to what the readings reveal.
    """
    with working_bits(_BITS):
        begun = ball_matrix(start)
        covariance = begun * begun.transpose()
    rounded = np.diag(EPS**2 * np.sum(start**2, axis=1))
    # what is known exactly has a size too, that of what it is made of
    largest = np.zeros(system.order)
    entering = np.hstack([start, system.at(0).B])
    for t in range(min(system.order + 1, samples)):
        largest = np.maximum(largest, np.linalg.norm(entering, axis=1))
        entering = system.at(t).A @ entering
    for t in range(samples):
        A, G, C, F = system.at(t).matrices
        sizes = np.sqrt(np.maximum(np.diag(midpoints(covariance)), 0.0))
        terms = np.abs(C) @ sizes + np.linalg.norm(F, axis=1)
        errors = C @ rounded @ C.T + np.diag((EPS * terms) ** 2)
        with working_bits(_BITS):
            step = _read(system.at(t), covariance, errors, t in lost)
        yield step
        gain = midpoints(step.advance)
        moved = np.abs(A) @ sizes + np.linalg.norm(G, axis=1) + np.abs(gain) @ terms
        largest = np.maximum(largest, moved)
        kept = A - gain @ C
        rounded = kept @ rounded @ kept.T + np.diag((EPS * moved) ** 2)
        if (np.diag(rounded) > SHARP * largest**2).any():
            raise UncertifiableError(
                f"RN: after {t + 1} samples double precision does not hold the state that "
                "readings without noise reveal: the filter of this plant makes rounding errors "
                "grow. Pass an RN > 0, such as the variance of the sensor's last digit"
            )
        covariance = step.ahead


class SeenExactly(NamedTuple):
    """Hold how one sample sees a vector eta (r,) that adds C A^t S eta to all readings.

    Errors (N, r) of the state by eta ``before`` and ``after`` the reading, rows (k, r)
    of eta in the ``news``, and rows of eta that are read without noise, relative to
    their rounding.
    """

    before: NDArray[np.float64]
    after: NDArray[np.float64]
    news: NDArray[np.float64]
    exact: NDArray[np.float64]


def seen_exactly(
    system: LinearSystem, columns: NDArray[np.float64], readings: Iterator[ExactReading]
) -> Iterator[SeenExactly]:
    """Yield how samples see eta, with ``columns`` (N, r) for S."""
    sizes = np.zeros(len(columns))
    with working_bits(_BITS):
        response = moved = ball_matrix(columns)  # A^t S
    for t, reading in enumerate(readings):
        now = system.at(t)
        with working_bits(_BITS):
            A = ball_matrix(now.A)
            C = ball_matrix(now.C)
            read = C * response
            corrected = (response - reading.correct * read).mid()
            before = midpoints(moved - response)
            after = midpoints(moved - corrected)
            news = midpoints(reading.news * read)
            exact = midpoints(reading.exact * read)
            combined = np.abs(midpoints(reading.exact))
            responded = midpoints(response)
            response = (A * corrected).mid()
            moved = (A * moved).mid()
        sizes = np.maximum(sizes, np.linalg.norm(responded, axis=1))
        terms = EPS * combined @ np.abs(now.C) @ sizes
        scaled = exact / nonzero(terms)[:, None]
        yield SeenExactly(before, after, news, scaled)


def _read(
    system: LinearSystem,
    covariance: BallMatrix,
    errors: NDArray[np.float64],
    lost: bool,
) -> ExactReading:
    """One reading, which reveals nothing more than its errors (p, p) by rounding."""
    A, G, C, F = map(ball_matrix, system.matrices)
    seen = covariance * C.transpose()
    moved = (A * seen + G * F.transpose()).mid()
    if lost:
        news = exact = ball_matrix(np.zeros((0, len(errors))))
    else:
        news, exact = _independent(C * seen + F * F.transpose(), errors)
    told = news.transpose() * news
    correct = (seen * told).mid()
    advance = (moved * told).mid()
    after = _symmetric(covariance - correct * seen.transpose())
    ahead = A * covariance * A.transpose() + G * G.transpose()
    ahead = _symmetric(ahead - advance * moved.transpose())
    return ExactReading(covariance, after, ahead, correct, advance, news, exact)


def _independent(
    variances: BallMatrix, errors: NDArray[np.float64]
) -> tuple[BallMatrix, BallMatrix]:
    """Combinations of signals of variance one, and those without variance.

    The signal that stands out of its errors most is taken out of all others, as long
    as one stands out of its errors at all.
    """
    size = len(errors)
    table = variances.mid().tolist()
    combined = ball_matrix(np.eye(size)).tolist()
    errors = errors.copy()
    left = list(range(size))
    news = []
    while left:
        clear = [_ratio(float(table[i][i]), errors[i, i]) for i in left]
        best = max(clear)
        if best <= ROUNDINGS**2:
            break
        k = left.pop(clear.index(best))
        variance = table[k][k]
        news.append([entry / variance.sqrt() for entry in combined[k]])
        for i in left:
            share = (table[i][k] / variance).mid()
            table[i] = [
                (a - share * b).mid() for a, b in zip(table[i], table[k], strict=True)
            ]
            pairs = zip(combined[i], combined[k], strict=True)
            combined[i] = [(a - share * b).mid() for a, b in pairs]
            errors[i] -= float(share) * errors[k]
            errors[:, i] -= float(share) * errors[:, k]
    exact = [combined[i] for i in left]
    return _rows(news, size), _rows(exact, size)


def _ratio(variance: float, error: float) -> float:
    """A variance relative to that of its error."""
    if error > 0:
        return variance / error
    return math.inf if variance > 0 else 0.0


def _rows(rows: list[list[Ball]], width: int) -> BallMatrix:
    """Rows of balls as a matrix, also where there are none."""
    return ball_matrix(rows) if rows else ball_matrix(np.zeros((0, width)))


def _symmetric(matrix: BallMatrix) -> BallMatrix:
    return ((matrix + matrix.transpose()) * 0.5).mid()
