"""Checks of arguments and of the machine's memory, the one home of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from .thresholds import LARGEST_SIZE

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
    """Free memory where the system reports it, and infinity elsewhere."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return math.inf
    for line in lines:
        if line.startswith("MemAvailable"):
            return 1024.0 * int(line.split()[1])
    return math.inf


def real_array(
    value: object,
    name: str,
    *,
    ndim: int | None = None,
    shape: tuple[int | None, ...] | None = None,
    copy: bool = True,
) -> NDArray[np.float64]:
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
    if all(hasattr(value, part) for part in ("outputs", "states", "inputs", "time")):
        raise TypeError(
            f"{name}: expected an array of real numbers, got a {type(value).__name__}; "
            "pass its .states, .outputs or .inputs"
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
    if len(shape) != len(wanted):
        return False
    pairs = zip(wanted, shape, strict=True)
    return all(want in (None, got) for want, got in pairs)


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


def moderate_number(radius: object, name: str) -> float:
    """Return a radius whose squares, and those of noise for it, are doubles."""
    size = positive_number(radius, name)
    if not 1 / LARGEST_SIZE <= size <= LARGEST_SIZE:
        raise ValueError(
            f"{name}: expected a size between {1 / LARGEST_SIZE:g} and "
            f"{LARGEST_SIZE:g}, got {size:g}; choose another unit"
        )
    return size


def checked_norm(norm: float, name: str = "norm") -> float:
    """Return the p of a p-norm, checked."""
    try:
        p = math.inf if norm == math.inf else positive_number(norm, name)
    except (TypeError, ValueError):
        p = 0.0
    if p < 1:
        raise ValueError(
            f"{name}: expected a number from 1 to inf, got {quoted(norm)}; below 1 there "
            "is no norm"
        )
    return int(p) if float(p).is_integer() else float(p)


def sample_count(value: object, name: str, *, zero: bool = False) -> int:
    """Return a number of samples, a `positive_integer` that a user may give in seconds."""
    if not _is_integer(value):
        in_seconds = isinstance(value, float) and math.isfinite(value)
        cure = "; it counts samples, pass round(seconds / dt)" if in_seconds else ""
        raise TypeError(
            f"{name}: expected a whole number of samples, got {type(value).__name__}{cure}"
        )
    return positive_integer(value, name, zero=zero)


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def positive_integer(value: object, name: str, *, zero: bool = False) -> int:
    """Return an integer of at least one (or, with `zero`, not negative)."""
    if not _is_integer(value):
        raise TypeError(f"{name}: expected an integer, got {type(value).__name__}")
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


def one_of(value: object, name: str, known: tuple[Any, ...]) -> Any:
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


def sequence_of(value: object, name: str, what: str) -> list[Any]:
    """Return the entries of a list, tuple, range, set or array as a list."""
    known = (list, tuple, range, set, frozenset, np.ndarray)
    if not isinstance(value, known) or (
        isinstance(value, np.ndarray) and value.ndim == 0
    ):
        raise TypeError(
            f"{name}: expected a sequence of {what}, got {type(value).__name__}"
        )
    return list(value)


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


def sample_index(index: int, name: str, horizon: float) -> int:
    """Return a sample index within a horizon."""
    if not 0 <= whole_index(index, name) < horizon:
        raise ValueError(
            f"{name}: expected a sample index in 0 .. {horizon - 1}, got {quoted(index)}"
        )
    return int(index)


def whole_index(index: int, name: str) -> int:
    """Return an integer of Python or NumPy, or raise an error."""
    if isinstance(index, bool) or not isinstance(index, (int, np.integer)):
        raise TypeError(
            f"{name}: expected a sample index, got {type(index).__name__}; "
            "to get indices from seconds divide by dt"
        )
    return int(index)
