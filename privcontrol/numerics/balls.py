"""Ball arithmetic: enclosures that contain the exact result of every operation.

A ball is a midpoint with a radius. Doubles and rationals enter as exact numbers.
Comparisons of balls are true only if they are proven, so ``not a <= b`` means "not
proven" and never "greater". Nobody else imports their types, precision and conversions
from python-flint.

Examples
--------
>>> with working_bits(128):
...     inverse = ball_matrix([[1.0, 1.0], [1.0, 3.0]]).inv()
>>> midpoints(inverse)
array([[ 1.5, -0.5],
       [-0.5,  0.5]])
>>> rational(0.1) > rational(1) / 10  # the double 0.1 exceeds one tenth
True
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, SupportsInt

import lazy_loader
import numpy as np
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat, fmpz, fmpz_mat, nmod_mat
from numpy.typing import ArrayLike, NDArray

from .linalg import round_up

if TYPE_CHECKING:
    import scipy.linalg
else:
    scipy = lazy_loader.load("scipy")  # a device that only publishes does without it

Ball = arb
BallMatrix = arb_mat
Rational = fmpq
RationalMatrix = fmpq_mat
Integer = fmpz
IntegerMatrix = fmpz_mat

ResidueMatrix = nmod_mat

#: Residues are taken modulo this prime.
_PRIME = (1 << 61) - 1
#: Relative radius below which an entry is as good as known to a double.
_KNOWN = arb((1, -64))

#: Speed: rows below which a triangle is not inverted by blocks.
_FEW_ROWS = 16

#: Bits in which the certificates below are computed. Doubles have 53, and the balls
#: lose about log2(n) of them in a product of n by n matrices.
CERTIFICATE_BITS = 128

#: Bits after which what is undecided stays so: it is a tie.
DECIDING_BITS = 1 << 12
#: Bits for products of doubles that nearly cancel.
FINE_BITS = 400

_LOCK = threading.RLock()


def is_quick(*lengths: int) -> bool:
    """Return whether a product of these lengths takes a few tenths of a second at most."""
    return math.prod(lengths) <= 10**6


class working_bits:
    """Compute with this many bits inside the block.

    python-flint has one precision for the whole process. Other threads therefore wait
    until the block ends. Blocks may be nested.
    """

    __slots__ = ("_before", "_bits", "_lock")

    def __init__(self, bits: int = CERTIFICATE_BITS) -> None:
        self._bits = bits

    def __enter__(self) -> None:
        self._lock = _LOCK
        self._lock.acquire()
        self._before = ctx.prec
        ctx.prec = self._bits

    def __exit__(self, *error: object) -> None:
        ctx.prec = self._before
        self._lock.release()


def current_bits() -> int:
    """Return with how many bits is computed."""
    return int(ctx.prec)


def _fresh_lock() -> None:
    global _LOCK
    _LOCK = threading.RLock()


# A thread of the parent that holds the lock does not exist in the child.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fresh_lock)


def rational(value: float | int | Rational) -> Rational:
    """Return the exact rational number that a double or an integer is."""
    if isinstance(value, fmpq):
        return value
    if isinstance(value, fmpz):
        return fmpq(value)
    return fmpq(*value.as_integer_ratio())


def rational_matrix(array: ArrayLike) -> RationalMatrix:
    """Return the exact rational matrix that a matrix (m, n) of doubles is."""
    array = np.atleast_2d(np.asarray(array, float))
    rows, columns = array.shape
    return fmpq_mat(rows, columns, [rational(x) for x in array.ravel().tolist()])


def residues(array: ArrayLike) -> ResidueMatrix:
    """Return a matrix (m, n) of doubles modulo a prime; they are integers over 2^k."""
    array = np.atleast_2d(np.asarray(array, float))
    parts, powers = np.frexp(array.ravel())
    tops = (parts * 2.0**53).astype(np.int64).tolist()  # a double has as many bits
    scales = {k: pow(2, k - 53, _PRIME) for k in set(powers.tolist())}
    pairs = zip(tops, powers.tolist(), strict=True)
    entries = [top * scales[k] % _PRIME for top, k in pairs]
    rows, columns = array.shape
    return nmod_mat(rows, columns, entries, _PRIME)


def inverse_balls(matrix: NDArray[np.float64]) -> BallMatrix:
    """Return the inverse (n, n) of a matrix of doubles, in balls.

    A triangular one, whose rows may stand in any order, is inverted by its blocks. It
    raises a ``ZeroDivisionError`` where the working bits show no inverse.
    """
    size = len(matrix)
    latest = size - 1 - np.argmax(matrix[:, ::-1] != 0, axis=1)
    order = np.argsort(latest)
    lower = matrix[order]
    if np.triu(lower, 1).any():
        return ball_matrix(matrix).inv()
    places = np.argsort(order).tolist()
    return submatrix(_inverse_by_blocks(lower), range(size), places)


def _inverse_by_blocks(lower: NDArray[np.float64]) -> BallMatrix:
    """Return the inverse (n, n) of a lower triangular matrix."""
    half = len(lower) // 2
    if half < _FEW_ROWS:
        return ball_matrix(lower).inv()
    first = _inverse_by_blocks(lower[:half, :half])
    last = _inverse_by_blocks(lower[half:, half:])
    across = last * ball_matrix(-lower[half:, :half]) * first
    none = arb_mat(half, len(lower) - half)
    return block_balls([[first, none], [across, last]])


def residue_rank(entries: Sequence[SupportsInt], width: int) -> int:
    """Return the rank of rows of residues, a lower bound of that of the numbers."""
    rows = len(entries) // width
    return int(nmod_mat(rows, width, list(map(int, entries)), _PRIME).rank())


def ball_matrix(
    source: ArrayLike | RationalMatrix | Sequence[Sequence[Ball | Rational]],
) -> BallMatrix:
    """Return a matrix of balls from doubles (m, n), rationals, or rows of balls.

    Doubles are exact. Rationals are enclosed at the working precision. A vector (n,) of
    doubles becomes one row.
    """
    if isinstance(source, (arb_mat, fmpq_mat, fmpz_mat)):
        return arb_mat(source)
    if isinstance(source, (list, tuple)):
        rows_given = [row for row in source if isinstance(row, (list, tuple))]
        if any(isinstance(x, (arb, fmpq, fmpz)) for row in rows_given for x in row):
            return arb_mat([list(row) for row in source])
    array = np.atleast_2d(np.asarray(source, float))
    rows, columns = array.shape
    return arb_mat(rows, columns, array.ravel().tolist())


def identity_balls(size: int) -> BallMatrix:
    """Return the identity matrix of this size."""
    return diagonal_balls([1.0] * size)


def diagonal_balls(values: Sequence[float | Ball]) -> BallMatrix:
    """Return the diagonal matrix of doubles or balls."""
    matrix = arb_mat(len(values), len(values))
    for i, value in enumerate(values):
        matrix[i, i] = arb(value)
    return matrix


def submatrix(
    matrix: BallMatrix, rows: Sequence[int], columns: Sequence[int]
) -> BallMatrix:
    """Return some rows and columns of a ball matrix, in the given order."""
    table = matrix.tolist()  # many times as fast as to ask for each entry
    entries = [table[i][j] for i in rows for j in columns]
    return arb_mat(len(rows), len(columns), entries)


def block_balls(blocks: Sequence[Sequence[BallMatrix]]) -> BallMatrix:
    """Return the ball matrix of blocks, given row by row as in `numpy.block`."""
    entries: list[Ball] = []
    height = 0
    for block_row in blocks:
        tables = [block.tolist() for block in block_row]
        for lines in zip(*tables, strict=True):
            height += 1
            for line in lines:
                entries += line
    width = sum(block.ncols() for block in blocks[0])
    return arb_mat(height, width, entries)


def midpoints(matrix: BallMatrix) -> NDArray[np.float64]:
    """Return the nearest doubles (m, n) of the midpoints of a ball matrix."""
    return _shaped(list(map(float, matrix.entries())), matrix)


def enclosure(matrix: BallMatrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the midpoints (m, n) as doubles, and bounds (m, n) of their errors."""
    values = midpoints(matrix)
    left = matrix - ball_matrix(values)
    sizes = [entry.abs_upper() for entry in left.entries()]
    nearest = _shaped(list(map(float, sizes)), matrix)
    above = round_up(np.where(np.isnan(nearest), np.inf, nearest))
    if nearest.all():
        return values, above
    # zero is no rounding error, and whoever asks for noise must not take it for one
    exact = _shaped([float(size == 0) for size in sizes], matrix)
    return values, np.where(exact, 0.0, above)


def is_accurate(matrix: BallMatrix) -> bool:
    """Return whether each entry is known as well as a double, zeros exactly."""
    return bool((matrix * arb(0, _KNOWN)).contains(matrix - matrix.mid()))


def upper_bounds(matrix: BallMatrix) -> NDArray[np.float64]:
    """Return doubles (m, n) that no absolute value in a ball matrix exceeds."""
    values = [upper_float(entry.abs_upper()) for entry in matrix.entries()]
    return _shaped(values, matrix)


def _shaped(values: list[float], matrix: BallMatrix) -> NDArray[np.float64]:
    """Return the entries of a matrix of the same shape as an array."""
    return np.array(values, float).reshape(matrix.nrows(), matrix.ncols())


def upper_float(value: Ball | Rational) -> float:
    """Return a double that nothing in the ball exceeds, inf if nothing is known.

    It is the smallest one where the working precision is well above that of doubles.
    """
    bound = arb(value).upper()
    number = float(bound)
    if number != number:  # not a number
        return math.inf
    while not bound <= number:
        number = math.nextafter(number, math.inf)
    return number


def row_sum_norm(matrix: BallMatrix) -> Ball:
    """Return the largest absolute row sum, from above, as an exact ball."""
    return max(sum((abs(x) for x in row), arb(0)).upper() for row in matrix.tolist())


def frobenius_norm(matrix: BallMatrix) -> Ball:
    """Return the Frobenius norm, from above, as a ball."""
    sizes = [entry.abs_upper() for entry in matrix.entries()]
    return sum((size * size for size in sizes), arb(0)).sqrt()


def spectral_norm(matrix: BallMatrix) -> Ball:
    """Return the largest singular value, from above, as an exact ball.

    With a computed singular value decomposition M ~ B V and B = U diag(s), the norm is
    at most ||B|| ||V|| + ||M - B V||_F. The Gram matrices of B and V are so nearly
    diagonal that their row sums lose a few units of rounding only.
    """
    middle = midpoints(matrix)
    if not np.isfinite(middle).all():
        return arb.pos_inf()
    left, sizes, right = scipy.linalg.svd(middle, full_matrices=False)
    with working_bits(max(CERTIFICATE_BITS, ctx.prec)):
        scaled = ball_matrix(left * sizes)
        rotation = ball_matrix(right)
        square = row_sum_norm(scaled.transpose() * scaled)
        square = square * row_sum_norm(rotation * rotation.transpose())
        rest = frobenius_norm(matrix - scaled * rotation)
        return (square.sqrt() + rest).upper()


def is_positive_definite(matrix: BallMatrix) -> bool:
    """Return whether every symmetric matrix in a ball matrix is *proven* definite.

    A Cholesky factor in doubles of a slightly smaller matrix is a proof. Then R M R^T, R
    the inverse of such a factor, is nearly the identity and is tested for dominance.
    Otherwise elimination in balls decides.
    """
    return (
        _has_cholesky_factor(matrix)
        or _dominates_after_scaling(matrix)
        or _has_positive_pivots(matrix)
    )


def largest_eigenvalue(matrix: BallMatrix) -> Ball:
    """Return a ball whose upper end bounds the largest eigenvalue of symmetric matrices.

    The matrix is a symmetric matrix of doubles S plus a rest. The computed eigenvalue
    of S is enlarged until ``bound I - S`` is proven positive definite. The radius of
    the ball is the Frobenius norm of the rest, so a wide ball asks for more bits.
    """
    middle = midpoints(matrix)
    if not np.isfinite(middle).all():
        return arb.pos_inf()
    middle = (middle + middle.T) / 2
    size = float(np.linalg.norm(middle))
    estimate = float(np.linalg.eigvalsh(middle)[-1])
    with working_bits(max(CERTIFICATE_BITS, ctx.prec)):
        exact = ball_matrix(middle)
        rest = frobenius_norm(matrix - exact).upper()
        for relative in (1e-15, 1e-13, 1e-11, 1e-9):
            bound = arb(estimate + relative * len(middle) * size)
            if is_positive_definite(bound * identity_balls(len(middle)) - exact):
                return arb(bound, rest)
        return arb(frobenius_norm(exact).upper(), rest)


def is_definite_around(middle: NDArray[np.float64], distance: float) -> bool:
    """Return whether doubles prove definite all symmetric matrices near a symmetric one.

    They are those whose difference has at most the Frobenius norm ``distance``. M is
    definite if floating point factorises M - c I with c at least (n + 1) units of rounding
    times the trace (Rump, BIT 46, 2006, Theorem 2.3).
    """
    size = len(middle)
    trace = float(middle.trace())
    # of a larger trace no product matters that underflows
    if not np.isfinite(middle).all() or not trace > 1e-200:
        return False
    margin = 2 * (size + 8) * np.finfo(float).eps * trace + 2 * distance
    if not margin < trace:
        return False
    try:
        np.linalg.cholesky(middle - margin * np.eye(size))
    except np.linalg.LinAlgError:
        return False
    return True


def _has_cholesky_factor(matrix: BallMatrix) -> bool:
    """Return whether doubles prove it. What lies within the balls counts twice, for symmetry."""
    middle = midpoints(matrix)
    if not np.isfinite(middle).all():
        return False
    rest = np.linalg.norm(upper_bounds(matrix - ball_matrix(middle)))
    return is_definite_around(middle, float(rest))


def _dominates_after_scaling(matrix: BallMatrix) -> bool:
    """Return whether R M R^T is proven diagonally dominant, see `is_positive_definite`."""
    try:
        factor = np.linalg.cholesky(midpoints(matrix))
        identity = np.eye(len(factor))
        inverse = scipy.linalg.solve_triangular(factor, identity, lower=True)
    except (np.linalg.LinAlgError, ValueError):
        return False
    if not np.isfinite(inverse).all():
        return False
    with working_bits(max(CERTIFICATE_BITS, ctx.prec)):
        scaling = ball_matrix(inverse)
        rows = (scaling * matrix * scaling.transpose()).tolist()
        for i, row in enumerate(rows):
            others = sum((abs(x) for j, x in enumerate(row) if j != i), arb(0))
            if not row[i] > others:
                return False
    return True


def _has_positive_pivots(matrix: BallMatrix) -> bool:
    """Return whether elimination below the diagonal meets positive pivots only."""
    rows = matrix.tolist()
    for j, row in enumerate(rows):
        pivot = row[j]
        if not pivot > 0:
            return False
        for i in range(j + 1, len(rows)):
            ratio = rows[i][j] / pivot
            for k in range(j + 1, i + 1):
                rows[i][k] = rows[i][k] - ratio * rows[k][j]
    return True
