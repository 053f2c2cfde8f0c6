"""The pattern of signs that shows most: the largest w^T R w of w in {-1, 1}^k.

Up to `MOST_EXACT` signs all of them are gone through, by halves. Beyond that, any d with
diag(d) >= R bounds all patterns by sum d (the dual of the relaxation to unit vectors).
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core._linalg import EPS

#: Signs up to which all patterns are gone through.
MOST_EXACT = 24
_MOST_QUICK = 16
#: Signs up to which the relaxation is solved; of more the entries' sizes are added up.
_MOST_RELAXED = 200
#: Rows of a half that are held at once.
_ROWS = 256
#: Rounds of the relaxation, and the change of the bound at which it ends.
_MOST_ROUNDS = 200
_SETTLED = 1e-7


def largest_pattern(
    gram: NDArray, error: float = 0.0, *, quick: bool = False
) -> tuple[float, NDArray]:
    """Return an upper bound of w^T R w over all signs, and the best signs found (k,).

    ``gram`` (k, k) is symmetric, with entries as wrong as ``error``. ``quick`` is for one of
    many: the entries' sizes are added up where all patterns take more than a millisecond.
    """
    size = len(gram)
    whole = float(np.abs(gram).sum())
    if size <= (_MOST_QUICK if quick else MOST_EXACT):
        bound, signs = _by_halves(gram)
    elif size <= _MOST_RELAXED and not quick:
        bound, signs = _relaxed(gram)
    else:
        bound, signs = whole, _improved(gram, np.ones(size))
    rounding = 8 * size * EPS * whole
    return min(bound, whole) + rounding + size**2 * error, signs


def _patterns(count: int) -> NDArray:
    """Return all patterns of so many signs as rows (2^count, count)."""
    numbers = np.arange(1 << count)[:, None]
    return 1.0 - 2.0 * (numbers >> np.arange(count) & 1)


def _by_halves(gram: NDArray) -> tuple[float, NDArray]:
    """Return the largest value over all signs, and the signs."""
    half = len(gram) // 2
    first, second = _patterns(half), _patterns(len(gram) - half)
    own = np.einsum("ij,ij->i", first @ gram[:half, :half], first)
    others = np.einsum("ij,ij->i", second @ gram[half:, half:], second)
    across = 2 * gram[:half, half:] @ second.T
    largest = -math.inf
    for start in range(0, len(first), _ROWS):
        rows = slice(start, start + _ROWS)
        values = first[rows] @ across + own[rows, None] + others
        place = int(values.argmax())
        row, column = divmod(place, values.shape[1])
        if values[row, column] > largest:
            largest = float(values[row, column])
            signs = np.concatenate([first[start + row], second[column]])
    return largest, signs


def _relaxed(gram: NDArray) -> tuple[float, NDArray]:
    """Return sum d of a diag(d) >= R, and good signs, from unit vectors for the signs.

    Each vector in turn becomes the direction of what the others ask of it, whose length
    and the diagonal's entry make d.
    """
    size = len(gram)
    width = math.isqrt(2 * size) + 2
    vectors = np.cos(np.outer(np.arange(1, size + 1), np.arange(1, width + 1)))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    diagonal = np.diag(gram)
    lengths = np.zeros(size)
    total = math.inf
    for _ in range(_MOST_ROUNDS):
        for k in range(size):
            asked = gram[k] @ vectors - diagonal[k] * vectors[k]
            lengths[k] = math.sqrt(float(asked @ asked))
            if lengths[k] > 0:
                vectors[k] = asked / lengths[k]
        now = float(lengths.sum())
        if abs(now - total) <= _SETTLED * now:
            break
        total = now
    weights = diagonal + lengths
    missing = float(scipy.linalg.eigvalsh(gram - np.diag(weights))[-1])
    rounding = 16 * size * EPS * float(np.abs(gram).sum(axis=1).max() + weights.max())
    bound = float(weights.sum()) + size * max(missing + rounding, 0.0)
    starts = np.where(vectors.T >= 0, 1.0, -1.0)
    found = [_improved(gram, start) for start in (*starts, np.ones(size))]
    values = [float(signs @ gram @ signs) for signs in found]
    return bound, found[int(np.argmax(values))]


def _improved(gram: NDArray, signs: NDArray) -> NDArray:
    """Return signs of which no single one can be turned with a gain."""
    signs = signs.copy()
    diagonal = np.diag(gram)
    for _ in range(4 * len(gram)):
        gains = diagonal - signs * (gram @ signs)
        place = int(gains.argmax())
        if gains[place] <= EPS * float(np.abs(gram).max()):
            break
        signs[place] *= -1.0
    return signs
