"""Checks of arguments, tolerances and directed rounding, the one home of each.

Every rank, root and calibrated size in the package errs the same way, towards more noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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


def round_up(value: ArrayLike, ulps: int = 1) -> Any:
    """Return the float (array) `ulps` steps above `value`."""
    above = np.asarray(value, float)
    for _ in range(ulps):
        above = np.nextafter(above, np.inf)
    return above[()]


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
    while high - low > tolerance * high:
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
    if array.dtype.kind not in "buif":
        raise TypeError(f"{name}: expected real numbers, got dtype {array.dtype}")
    array = array.astype(float, copy=False)
    if ndim is not None and array.ndim != ndim:
        raise ValueError(
            f"{name}: expected {ndim} dimension(s), got an array of shape {array.shape}"
        )
    if shape is not None:
        _check_shape(array, name, shape)
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name}: expected finite numbers, got NaN or infinity; clean the data first"
        )
    if copy:
        array.flags.writeable = False
    return array


def _check_shape(array: NDArray, name: str, shape: tuple[int | None, ...]) -> None:
    """Raise an error if an array has another shape."""
    pairs = zip(shape, array.shape)
    if array.ndim == len(shape) and all(want in (None, got) for want, got in pairs):
        return
    lengths = ["any" if want is None else str(want) for want in shape]
    words = ", ".join(lengths)
    if len(lengths) == 1:
        words += ","
    raise ValueError(f"{name}: expected shape ({words}), got {array.shape}")


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


def one_of(value: object, name: str, known: tuple) -> Any:
    """Return a value among the known options, or raise an error that lists them."""
    plain = isinstance(value, str | Real) and not isinstance(value, bool | np.bool_)
    if plain and value in known:
        return value
    options = ", ".join(map(repr, known))
    got = f"a {type(value).__name__}"
    if plain:
        got = repr(value)
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
