"""Checks of arguments, tolerances, directed rounding and balls, the one home of each.

Every rank, root and calibrated size in the package errs the same way, towards more noise.

A ball is a midpoint with a radius and contains the exact result of every operation.
Doubles and rationals enter as exact numbers. Comparisons of balls are true only if they
are proven, so ``not a <= b`` means "not proven" and never "greater". Nobody else imports
their types, precision and conversions from python-flint.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ContextDecorator, contextmanager
from functools import cached_property
from numbers import Real
from pathlib import Path
from threading import Lock, get_ident
from typing import Any

import numpy as np
import scipy.linalg
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat, fmpz, fmpz_mat
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import OpenBLASController, ThreadpoolController

EPS = np.finfo(float).eps

#: Multiply-adds that OpenBLAS gives to one thread. Above, the last bits depend on the
#: number of threads.
ONE_THREAD = 2**18


def product(left: NDArray, right: NDArray, out: NDArray | None = None) -> NDArray:
    """Return ``left @ right`` in bits that do not depend on the threads of BLAS.

    The left one is a matrix, the right one a matrix or a stack of them.
    """
    inner, columns = right.shape[-2:]
    if out is None:
        if len(left) * inner * columns <= ONE_THREAD:
            return left @ right
        shape = (*right.shape[:-2], len(left), columns)
        out = np.empty(shape)
    row = max(1, inner * columns)
    step = max(1, ONE_THREAD // row)
    for start in range(0, len(left), step):
        rows = slice(start, start + step)
        np.matmul(left[rows], right, out=out[..., rows, :])
    return out


#: Numbers that one result holds at most, 32 GB.
_MOST_NUMBERS = 1 << 32


def check_memory(numbers: int, name: str) -> None:
    """Refuse results of more numbers than a machine holds, by the argument's name."""
    if numbers > _MOST_NUMBERS:
        raise ValueError(
            f"{name}: the results would have {numbers:.1e} numbers where {_MOST_NUMBERS:.1e} "
            "is the limit; ask for fewer at a time, with another seed for each"
        )


def check_room(numbers: int, what: str, instead: str) -> None:
    """Refuse work in doubles for which this machine has too little free memory.

    Raises
    ------
    MemoryError
        With what the work needs, what there is, and what to do ``instead``.
    """
    free = _free_bytes()
    if 8 * numbers > free:
        raise MemoryError(
            f"{what} needs about {8 * numbers / 1e9:.3g} GB of memory where "
            f"{free / 1e9:.3g} GB are free; {instead}"
        )


def _free_bytes() -> float:
    """Free memory where the system tells it, and infinity elsewhere."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return math.inf
    for line in lines:
        if line.startswith("MemAvailable"):
            return 1024.0 * int(line.split()[1])
    return math.inf


class _OneThread(ContextDecorator):
    """BLAS on one thread, while any thread of Python is inside.

    NumPy and SciPy bring a pool of threads each, which hold each other up: designs take
    up to fifteen times as long with two threads as with one. These pools are the
    process's, those of OpenMP a thread's own. Where threadpoolctl lets only one thread
    set them, each lets go at once, since the last to leave may be another.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside: list[int] = []

    @cached_property
    def _pools(self) -> ThreadpoolController:
        return ThreadpoolController()

    def _let_go(self) -> None:
        # older versions let every thread set the pools, and lack it
        if hasattr(OpenBLASController, "clear_controlling_thread"):
            OpenBLASController.clear_controlling_thread()

    def __enter__(self) -> None:
        thread = get_ident()
        with self._lock:
            if thread not in self._inside:
                limits = self._pools.limit(limits=1, user_api="blas")
                self._let_go()
                if not self._inside:
                    self._limits = limits
            self._inside.append(thread)

    def __exit__(self, *error: object) -> None:
        thread = get_ident()
        with self._lock:
            self._inside.remove(thread)
            if thread not in self._inside:
                self._limits.restore_original_limits()
                if self._inside:
                    shared = self._pools.select(threading_layer="pthreads")
                    shared.limit(limits=1, user_api="blas")
                self._let_go()


one_thread = _OneThread()


def round_up(value: ArrayLike, ulps: int = 1) -> Any:
    """Return the float (array) `ulps` steps above `value`."""
    above = np.asarray(value, float)
    for _ in range(ulps):
        above = np.nextafter(above, np.inf)
    return above[()]


def float_above(value: ArrayLike, ulps: int = 1) -> float:
    """Return the float `ulps` steps above a number."""
    return float(round_up(value, ulps))


def smallest(
    meets: Callable[[float], bool],
    low: float,
    high: float,
    *,
    tolerance: float,
    limit: float,
) -> float:
    """Return the smallest number above `low` that meets a condition, from above.

    The condition holds from some number on, and `high` is a first guess of it. The result
    is precise to a relative `tolerance`. It is infinite if `limit` does not meet it.
    """
    while not meets(high):
        if high >= limit:
            return math.inf
        low = high
        high = min(2 * high, limit)
    while high - low > tolerance * high + 1e-300:  # no number is between subnormals
        middle = 0.5 * (low + high)
        if meets(middle):
            high = middle
        else:
            low = middle
    return high


def column_norms(matrix: NDArray, norm: float = 2) -> NDArray:
    """Return the norms (M,) of columns, even where a square leaves the doubles."""
    with np.errstate(over="ignore"):
        sizes = np.linalg.norm(matrix, ord=norm, axis=0)
    extreme = np.flatnonzero(~((sizes > 1e-140) & (sizes < 1e140)))
    if extreme.size:
        part = matrix[:, extreme]
        exponent = np.frexp(np.abs(part).max(axis=0, initial=0.0))[1]
        near_one = np.linalg.norm(np.ldexp(part, -exponent), ord=norm, axis=0)
        sizes[extreme] = np.ldexp(near_one, exponent)
    return sizes


def rank_tolerance(matrix: NDArray, singular_values: NDArray) -> float:
    """Return the largest singular value that round-off makes of zero."""
    largest = np.max(singular_values, initial=0.0)
    return 8 * EPS * max(matrix.shape) * largest


def real_array(
    value: object,
    name: str,
    *,
    ndim: int | None = None,
    shape: tuple[int | None, ...] | None = None,
    copy: bool = True,
) -> NDArray:
    """Return a finite real array, copied and read-only.

    ``shape`` may hold None for a free length. A ``TypeError`` refuses what is not real, a
    ``ValueError`` what is not finite, is masked, has another shape or cannot be read. No
    message holds an entry.
    """
    if np.ma.is_masked(value):
        raise ValueError(
            f"{name}: expected every entry, got a masked array; fill it or leave the "
            "masked entries out"
        )
    try:
        array = np.array(value, copy=copy or None)
    except Exception as error:  # what a user's object raises
        kind = type(error).__name__
        array = None
    if array is None:  # outside the handler, so nothing refers to that error
        raise ValueError(
            f"{name}: expected a rectangular array of real numbers, got a "
            f"{type(value).__name__} that numpy cannot read ({kind}; its text is "
            "withheld, it may show the input); pass rows of equal length"
        )
    if isinstance(value, Mapping):
        raise TypeError(
            f"{name}: expected an array of real numbers, got a {type(value).__name__}; "
            "pass them without names, as a list in the order of the signals"
        )
    if array.dtype.kind not in "buif":
        raise TypeError(f"{name}: expected real numbers, got dtype {array.dtype}")
    array = array.astype(float, copy=False)
    if ndim is not None and array.ndim != ndim:
        raise ValueError(
            f"{name}: expected {ndim} dimension(s), got an array of shape {array.shape}"
        )
    if shape is not None and not _fits(array.shape, shape):
        lengths = ["any" if want is None else str(want) for want in shape]
        words = ", ".join(lengths) + "," * (len(lengths) == 1)
        raise ValueError(f"{name}: expected shape ({words}), got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name}: expected finite numbers, got NaN or infinity; clean the data first"
        )
    if copy:
        array.flags.writeable = False
    return array


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    """Return whether an array has the wanted lengths, None being any."""
    pairs = zip(wanted, shape)
    same_rank = len(shape) == len(wanted)
    return same_rank and all(want in (None, got) for want, got in pairs)


def positive_number(value: object, name: str, *, zero: bool = False) -> float:
    """Return a finite float that is positive (or, with `zero`, not negative)."""
    if isinstance(value, bool) or not isinstance(
        value, (int, float, np.integer, np.floating)
    ):
        raise TypeError(f"{name}: expected a real number, got {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:  # of an integer
        number = math.inf
    is_zero = zero and number == 0
    if not (math.isfinite(number) and (number > 0 or is_zero)):
        least = ">= 0" if zero else "> 0"
        raise ValueError(f"{name}: expected a finite number {least}, got {number}")
    return number


def positive_integer(value: object, name: str, *, zero: bool = False) -> int:
    """Return an integer of at least one (or, with `zero`, not negative)."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        kind = "a whole number of samples" if name == "horizon" else "an integer"
        raise TypeError(f"{name}: expected {kind}, got {type(value).__name__}")
    if abs(int(value)) > 2**53:
        raise ValueError(f"{name}: expected an integer from 1 to 2^53")
    least = 0 if zero else 1
    if value < least:
        raise ValueError(f"{name}: expected an integer >= {least}, got {value}")
    return int(value)


def quoted(value: object) -> str:
    """Return a value's text for a message, which Python refuses for huge integers."""
    try:
        return repr(value)
    except ValueError:
        return f"a huge {type(value).__name__}"


def one_of(value: object, name: str, known: tuple) -> Any:
    """Return a value among the known options, or raise an error that lists them."""
    plain = isinstance(value, str | Real) and not isinstance(value, bool | np.bool_)
    if plain and value in known:
        return value
    options = ", ".join(map(repr, known))
    got = quoted(value) if plain else f"a {type(value).__name__}"
    raise ValueError(f"{name}: expected one of {options}, got {got}")


def instance_of(value: object, kind: type, name: str, example: str = "") -> Any:
    """Return an object of a class, or raise an error that names what is expected."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        expected = f"{article} {kind.__name__}"
        if example:
            expected += f" such as {example}"
        raise TypeError(f"{name}: expected {expected}, got {type(value).__name__}")
    return value


def sequence_of(value: object, name: str, what: str) -> list:
    """Return the entries of a list, tuple, range, set or array as a list."""
    known = (list, tuple, range, set, frozenset, np.ndarray)
    if not isinstance(value, known) or (
        isinstance(value, np.ndarray) and value.ndim == 0
    ):
        raise TypeError(
            f"{name}: expected a sequence of {what}, got {type(value).__name__}"
        )
    return list(value)


# -- randomness ---------------------------------------------------------------------

#: What `generator` takes. None asks the operating system.
Seed = (
    int
    | Sequence[int]
    | np.random.SeedSequence
    | np.random.BitGenerator
    | np.random.Generator
    | None
)


def generator(rng: Seed) -> np.random.Generator:
    """Return a numpy Generator from what ``np.random.default_rng`` accepts.

    A seed that is refused is never shown, because it determines the noise.
    """
    if isinstance(rng, np.random.RandomState):
        raise TypeError(
            "rng: expected a seed or a Generator, got the legacy RandomState; use "
            "np.random.default_rng(seed)"
        )
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
    raise kind(  # outside, so numpy's error, which shows the seed, is not its context
        "rng: expected None, non-negative integers, a SeedSequence, BitGenerator or "
        f"Generator, got {type(rng).__name__} that numpy refuses; see np.random.default_rng"
    )


# -- ball arithmetic -------------------------------------------------------------------

Ball = arb
BallMatrix = arb_mat
Rational = fmpq
RationalMatrix = fmpq_mat
Integer = fmpz
IntegerMatrix = fmpz_mat

#: Bits in which the certificates below are computed. Doubles have 53, and the balls
#: lose about log2(n) of them in a product of n by n matrices.
CERTIFICATE_BITS = 128

#: Bits for products of doubles that nearly cancel.
FINE_BITS = 400

_MOST_PRODUCTS = 10**6

#: A trace above which no product in a Cholesky factorisation matters that underflows.
_LEAST_TRACE = 1e-200
_LOCK = threading.RLock()


def is_quick(*lengths: int) -> bool:
    """Return whether a product of these lengths takes a few tenths of a second at most."""
    return math.prod(lengths) <= _MOST_PRODUCTS


# -- precision -----------------------------------------------------------------------


@contextmanager
def working_bits(bits: int = CERTIFICATE_BITS) -> Iterator[None]:
    """Compute with this many bits inside the block.

    python-flint has one precision for the whole process. Other threads therefore wait
    until the block ends. Blocks may be nested.
    """
    with _LOCK, ctx.workprec(bits):
        yield


def current_bits() -> int:
    """Return with how many bits is computed."""
    return int(ctx.prec)


def _fresh_lock() -> None:
    global _LOCK
    _LOCK = threading.RLock()


# A thread of the parent that holds the lock does not exist in the child.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fresh_lock)


# -- exact numbers -------------------------------------------------------------------


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


# -- from numbers to balls -----------------------------------------------------------


def ball_matrix(source: ArrayLike | RationalMatrix | Sequence) -> BallMatrix:
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


# -- from balls to doubles -----------------------------------------------------------


def midpoints(matrix: BallMatrix) -> NDArray:
    """Return the nearest doubles (m, n) of the midpoints of a ball matrix."""
    return _shaped(list(map(float, matrix.entries())), matrix)


def enclosure(matrix: BallMatrix) -> tuple[NDArray, NDArray]:
    """Return the midpoints (m, n) as doubles, and bounds (m, n) of their errors."""
    values = midpoints(matrix)
    left = matrix - ball_matrix(values)
    sizes = [entry.abs_upper() for entry in left.entries()]
    nearest = _shaped(list(map(float, sizes)), matrix)
    above = round_up(np.where(np.isnan(nearest), np.inf, nearest))
    # zero is no rounding error, and whoever asks for noise must not take it for one
    exact = _shaped([float(size == 0) for size in sizes], matrix)
    return values, np.where(exact, 0.0, above)


def upper_bounds(matrix: BallMatrix) -> NDArray:
    """Return doubles (m, n) that no absolute value in a ball matrix exceeds."""
    values = [upper_float(entry.abs_upper()) for entry in matrix.entries()]
    return _shaped(values, matrix)


def _shaped(values: list[float], matrix: BallMatrix) -> NDArray:
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


# -- norms ---------------------------------------------------------------------------


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


# -- definiteness --------------------------------------------------------------------


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


def _has_cholesky_factor(matrix: BallMatrix) -> bool:
    """Return whether doubles prove it (Rump, BIT 46, 2006, Theorem 2.3).

    M is definite if floating point factorises M - c I with c at least (n + 1) units of
    rounding times the trace. What lies within the balls is counted twice, for symmetry.
    """
    middle = midpoints(matrix)
    size = len(middle)
    trace = middle.trace()
    if not np.isfinite(middle).all() or not trace > _LEAST_TRACE:
        return False
    rest = np.linalg.norm(upper_bounds(matrix - ball_matrix(middle)))
    margin = 2 * (size + 8) * np.finfo(float).eps * trace + 2 * rest
    if not margin < trace:
        return False
    try:
        np.linalg.cholesky(middle - margin * np.eye(size))
    except np.linalg.LinAlgError:
        return False
    return True


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
