"""The pattern of signs that shows most: the largest w^T R w of w in {-1, 1}^k.

Up to `MOST_EXACT` signs all of them are gone through, by halves. Beyond that, any d with
diag(d) >= R bounds all patterns by sum d (the dual of the relaxation to unit vectors, at
most pi / 2 above the largest value).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..numerics.balls import is_definite_around
from ..numerics.linalg import EPS
from ..numerics.thresholds import ALIKE, BLOCK, MOST_ROUNDS, MOST_SIGNS, SHARP

#: Signs up to which all patterns are gone through, by halves.
MOST_EXACT = 2 * MOST_SIGNS
#: Those for one of many matrices.
_MOST_QUICK = 16
#: Signs up to which the relaxation is solved; of more the entries' sizes are added up.
MOST_RELAXED = 400


def largest_pattern(
    gram: NDArray[np.float64], error: float = 0.0, *, quick: bool = False
) -> tuple[float, NDArray[np.float64]]:
    """Return an upper bound of w^T R w over all signs, and the best signs found (k,).

    ``gram`` (k, k) is symmetric, with entries as wrong as ``error``. ``quick`` is for one of
    many: the entries' sizes are added up where all patterns take more than a millisecond.
    """
    size = len(gram)
    whole = float(np.abs(gram).sum())
    if size <= (_MOST_QUICK if quick else MOST_EXACT):
        bound, signs = _by_halves(gram)
    elif size <= MOST_RELAXED and not quick:
        bound, signs = _relaxed(gram)
    else:
        bound, (signs,) = whole, _improved(gram, np.ones((1, size)))
    rounding = 8 * size * EPS * whole
    return min(bound, whole) + rounding + size**2 * error, signs


@lru_cache(maxsize=MOST_SIGNS + 1)
def _patterns(count: int) -> NDArray[np.float64]:
    """Return all patterns of so many signs as rows (2^count, count), not to be changed."""
    numbers = np.arange(1 << count)[:, None]
    bits = numbers >> np.arange(count) & 1
    found = 1.0 - 2.0 * bits.astype(float)
    found.flags.writeable = False
    return found


def _by_halves(gram: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Return the largest value over all signs, and the signs, of which the first is one."""
    half = (len(gram) + 1) // 2
    first, second = _patterns(half)[::2], _patterns(len(gram) - half)
    own = np.einsum("ij,ij->i", first @ gram[:half, :half], first)
    others = np.einsum("ij,ij->i", second @ gram[half:, half:], second)
    across = 2 * gram[:half, half:] @ second.T
    largest = -math.inf
    count = BLOCK // len(second)
    for start in range(0, len(first), count):
        rows = slice(start, start + count)
        values = first[rows] @ across + own[rows, None] + others
        place = int(values.argmax())
        row, column = divmod(place, values.shape[1])
        if values[row, column] > largest:
            largest = float(values[row, column])
            signs = np.concatenate([first[start + row], second[column]])
    return largest, signs


def _relaxed(gram: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Return sum d of a diag(d) >= R, and good signs, from unit vectors for the signs."""
    weights, vectors = relaxation(gram)
    starts = np.where(vectors.T >= 0, 1.0, -1.0)
    found = _improved(gram, np.vstack([starts, np.ones(len(gram))]))
    values = np.einsum("ij,ij->i", found @ gram, found)
    return bound_of(gram, weights), found[values.argmax()]


def relaxation(
    gram: NDArray[np.float64], vectors: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return d (k,), nearly with diag(d) >= R and the least sum, and unit vectors (k, w).

    Each vector in turn becomes the direction of what the others ask of it, whose length
    and the diagonal's entry make d. The search begins with ``vectors``, where given.
    """
    size = len(gram)
    if vectors is None:
        width = math.isqrt(2 * size) + 2
        vectors = np.cos(np.outer(np.arange(1, size + 1), np.arange(1, width + 1)))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors.copy()
    diagonal = np.diag(gram)
    lengths = np.zeros(size)
    total = math.inf
    for _ in range(MOST_ROUNDS):
        for k in range(size):
            asked = gram[k] @ vectors - diagonal[k] * vectors[k]
            lengths[k] = math.sqrt(float(asked @ asked))
            if lengths[k] > 0:
                vectors[k] = asked / lengths[k]
        now = float(lengths.sum())
        if abs(now - total) <= ALIKE * now:
            break
        total = now
    return diagonal + lengths, vectors


def bound_of(gram: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Return an upper bound of w^T R w over all signs, from nearly diag(weights) >= R.

    The weights grow by what a Cholesky factor in doubles needs to prove the inequality. The
    bound is infinite where it does not.
    """
    size = len(gram)
    spare = np.diag(weights) - gram
    if not spare.any():
        return float(weights.sum())
    rounding = EPS * float(np.linalg.norm(spare))
    missing = max(-float(scipy.linalg.eigvalsh(spare)[0]), 0.0)
    trace = float(spare.trace()) + size * missing
    missing += 5 * ((size + 8) * EPS * trace + rounding)
    if not is_definite_around(spare + missing * np.eye(size), rounding):
        return math.inf
    return float(weights.sum()) + size * missing


class PatternSearch:
    """The largest value over all signs of several matrices that are much alike.

    What bounds one of them mostly shows that the next one is not larger.

    Attributes
    ----------
    largest : float
        An upper bound of all values so far.
    attained : float
        What some signs attain, a lower bound of the largest value.
    signs : ndarray or None
        Those of the matrix with that bound, as far as they are known.
    """

    def __init__(self) -> None:
        self.largest = self.attained = 0.0
        self.signs: NDArray[np.float64] | None = None
        self._known: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
        self._last: tuple[NDArray[np.float64], float] | None = None

    def add(self, gram: NDArray[np.float64], error: float) -> None:
        """Look at a matrix (k, k) with entries as wrong as ``error``."""
        size = len(gram)
        slack = 8 * size * EPS * float(np.abs(gram).sum()) + size**2 * error
        if self._is_bounded(gram, slack) or self._is_near(gram, slack):
            return
        if _MOST_QUICK < size <= MOST_RELAXED:
            start = None
            if self._known and len(self._known[-1][0]) == size:
                start = self._known[-1][1]
            self._known.append(relaxation(gram, start))
            if self._is_bounded(gram, slack):
                return
        found, signs = largest_pattern(gram, error)
        self._last = gram, found
        if found > self.largest:
            self.largest, self.signs = found, signs
            self.attained = max(self.attained, float(signs @ gram @ signs) - slack)

    def _is_bounded(self, gram: NDArray[np.float64], slack: float) -> bool:
        """Return whether what is known proves that no value is above the largest one."""
        if float(np.abs(gram).sum()) + slack <= self.largest:
            return True
        if not self._known or len(self._known[-1][0]) != len(gram):
            return False
        return bound_of(gram, self._known[-1][0]) + slack <= self.largest

    def _is_near(self, gram: NDArray[np.float64], slack: float) -> bool:
        """Return whether it shows no more than the last matrix that was searched.

        No value of R is above the largest one of R' by more than a bound of R - R'. The
        largest value grows by that, which is worth no search of its own.
        """
        if self._last is None or len(self._last[0]) != len(gram):
            return False
        searched, found = self._last
        rise = bound_of(gram - searched, np.zeros(len(gram)))
        if rise + slack > SHARP * found:
            return False
        self.largest = max(self.largest, found + rise + slack)
        return True


def largest_signs(
    gram: NDArray[np.float64], starts: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the largest values of w^T R w that are found, and their signs (S, k).

    All signs are looked at where there are few, and else what single turns make of
    ``starts`` (S, k) and of R's largest axes.
    """
    size = len(gram)
    if size <= MOST_SIGNS:
        signs = _patterns(size)[::2]
    else:
        _, axes = np.linalg.eigh(gram)
        ends = np.where(axes.T >= 0, 1.0, -1.0)
        signs = _improved(gram, np.vstack([starts, ends]))
    values = np.einsum("ij,ij->i", signs @ gram, signs)
    order = np.argsort(-values)
    return values[order], signs[order]


def _improved(
    gram: NDArray[np.float64], signs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return signs (S, k) of which no single one can be turned with a gain."""
    signs = signs.copy()
    diagonal = np.diag(gram)
    least = EPS * float(np.abs(gram).max())
    rows = np.arange(len(signs))
    for _ in range(4 * len(gram)):
        gains = diagonal - signs[rows] * (signs[rows] @ gram)
        places = gains.argmax(axis=1)
        is_better = gains[np.arange(len(rows)), places] > least
        rows, places = rows[is_better], places[is_better]
        if not len(rows):
            break
        signs[rows, places] *= -1.0
    return signs
