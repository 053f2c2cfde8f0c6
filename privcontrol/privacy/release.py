"""Exact releases, the correctly rounded values of a query plus noise in real numbers.

Guarantees are about real numbers. Noise in double precision does not have them: the
last bits of a sum reveal something about its terms (Mironov 2012). A release made here is
the real number F x + Lambda eta, enclosed in intervals that are refined until they
decide how it is rounded, and rounded once. Rounding is post-processing, so the
guarantee of the ideal mechanism holds unchanged.

The random bits are the operating system's. There is no seed.
"""

from __future__ import annotations

import math
import secrets
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import pairwise
from numbers import Number, Rational as RationalNumber
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, TypeVar

import lazy_loader
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..numerics.balls import (
    Ball,
    Integer,
    Rational,
    RationalMatrix,
    rational,
    rational_matrix,
    working_bits,
)
from ..numerics.checks import instance_of, one_of, real_array
from ..numerics.thresholds import SMALLEST

if TYPE_CHECKING:
    import scipy.sparse
else:
    scipy = lazy_loader.load("scipy")  # a device that only publishes does without it

#: Bits of an entry of eta that are drawn at first. The nearest double needs 53 of them
#: and as many more as the sum cancels, so one release in 2^60 asks for more.
FIRST_BITS = 128

#: Bits drawn on top of them where they do not decide a rounding.
MORE_BITS = 64

#: Bits of working precision beyond those of the entries of eta.
_GUARD_BITS = 64

#: Speed: bits of an entry that a rough interval of it looks at, and the bits in which it
#: is computed.
_ROUGH_BITS, ROUGH_WORKING_BITS = 64, 80
_ROUGH_END = 1 << _ROUGH_BITS
#: Speed: half the length of the interval in which a rough one is sought.
_SOUGHT = 2.0**-30

#: Share of a step, and of a number, that round-off may leave between it and the grid.
_OFF_GRID = rational(1e-6)
_ROUND_OFF = rational(2.0**-52)
_HALF = Rational(1, 2)
_NORMAL = NormalDist()
_ROOT_OF_HALF = math.sqrt(0.5)

#: What an entry of eta is multiplied with.
Factor = Rational | Ball | float
Decision = TypeVar("Decision", float, int)


# -- random bits ---------------------------------------------------------------------


class BitSource(ABC):
    """Where random bits come from."""

    @abstractmethod
    def bits(self, count: int) -> int:
        """Return the next ``count`` bits as an integer in 0 .. 2^count - 1."""


class SystemBits(BitSource):
    """Random bits of the operating system."""

    def bits(self, count: int) -> int:
        return secrets.randbits(count)


SYSTEM_BITS = SystemBits()


class SeededBits(BitSource):
    """Bits of a generator, for simulations."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def bits(self, count: int) -> int:
        length = -(-count // 8)
        drawn = int.from_bytes(self._rng.bytes(length), "big")
        return drawn >> (8 * length - count)


class StandardEntry(ABC):
    """One standard random number, known as precisely as the bits that were drawn for it.

    A uniform number U lies in [value, value + 1] 2^-count. The entry is a monotone
    function of it. ``count`` bits may have been drawn before.
    """

    def __init__(self, source: BitSource, value: int = 0, count: int = 0) -> None:
        self._source = source
        self._known: Ball | None = None
        self._roughly: Ball | None = None
        self.value = value
        self.count = count
        if count == 0:
            self.refine(FIRST_BITS)

    def refine(self, count: int = MORE_BITS) -> None:
        """Draw more bits of the same number."""
        self.value = (self.value << count) | self._source.bits(count)
        self.count += count
        self._known = None
        self._roughly = None

    def ball(self) -> Ball:
        """Return an interval of the number, infinite where U may still be 0 or 1."""
        if self._known is None:
            with working_bits(self.count + _GUARD_BITS):
                self._known = self._enclosure()
        return self._known

    def rough(self) -> Ball:
        """Return an interval that may be wider than `ball`, and takes less time.

        It is computed at the working precision of the caller, for which few bits are
        enough.
        """
        if self._known is not None:
            return self._known
        if self._roughly is None:
            self._roughly = self._rough_enclosure() or self.ball()
        return self._roughly

    def _rough_enclosure(self) -> Ball | None:
        """Return a rough interval, or None where there is no quick way to one."""
        return None

    @abstractmethod
    def _enclosure(self) -> Ball:
        """Return the interval at the working precision."""

    def _near(self, integer: int) -> Ball:
        """Return the ball (integer +- 1) 2^-count."""
        return Ball(Ball((integer, -self.count)), Ball((1, -self.count)))


class GaussianEntry(StandardEntry):
    """A standard Gaussian number, sqrt(2) erfinv(2 U - 1)."""

    def _enclosure(self) -> Ball:
        offset = 2 * self.value + 1 - (1 << self.count)
        return Ball(2).sqrt() * self._near(offset).erfinv()

    def _rough_enclosure(self) -> Ball | None:
        """Return an interval by one step of Newton's method in intervals.

        With f = erf - u, which grows, and a midpoint z, all roots of f in Z lie in
        z - f(z) / f'(Z). Where that is part of Z, there is one.
        """
        if self.count < _ROUGH_BITS:
            return None
        value = self.value >> (self.count - _ROUGH_BITS)
        # U or 1 - U, whichever is smaller: a double is next to it
        tail = min(value, _ROUGH_END - 1 - value)
        middle = _NORMAL.inv_cdf((tail + 0.5) / _ROUGH_END) * _ROOT_OF_HALF
        if tail != value:
            middle = -middle
        uniform = Ball(2 * value + 1 - _ROUGH_END, 1) * _ROUGH_UNIT
        sought = Ball(middle, _SOUGHT)
        slope = (sought * sought).exp() * _HALF_ROOT_OF_PI
        found = middle + (uniform - Ball(middle).erf()) * slope
        return found * _ROOT_OF_TWO if sought.contains(found) else None


class LaplaceEntry(StandardEntry):
    """A Laplace number of scale one. The first bit is its sign, the others give -log U."""

    def _enclosure(self) -> Ball:
        others = self.count - 1
        negative = self.value >> others
        rest = self.value - (negative << others)
        size = -self._near(2 * rest + 1).log()
        return -size if negative else size


with working_bits(ROUGH_WORKING_BITS):
    _ROUGH_UNIT = Ball((1, -_ROUGH_BITS))
    _ROOT_OF_TWO = Ball(2).sqrt()
    _HALF_ROOT_OF_PI = Ball.pi().sqrt() / 2

ENTRIES: dict[str, type[StandardEntry]] = {
    "gaussian": GaussianEntry,
    "laplace": LaplaceEntry,
}


# -- rounding ------------------------------------------------------------------------


class Rounding:
    """Rounds real numbers to multiples of a step, or to the nearest double. Ties are even.

    Numbers beyond the range of doubles become the largest one.
    """

    def __init__(self, step: Rational | None = None) -> None:
        self.step = step

    def number(self, value: Rational) -> float:
        """Round a rational number."""
        if self.step is None:
            return nearest_double(value)
        return nearest_double(nearest_integer(value / self.step) * self.step)

    def ball(self, offset: Rational, ball: Ball) -> float | None:
        """Round a number in offset + ball, None if the ball does not decide it."""
        if self.step is not None:
            count = nearest_count(offset, ball, self.step)
            return None if count is None else nearest_double(count * self.step)
        if not ball.is_finite():
            return None
        low, high, unit = _ends(ball)
        lowest = nearest_double(offset + Rational(low, unit))
        return (
            lowest if lowest == nearest_double(offset + Rational(high, unit)) else None
        )


def nearest_count(offset: Rational, ball: Ball, step: Rational) -> int | None:
    """Return the multiple of a step nearest to offset + ball, None if undecided.

    Speed: in integers, since every sample of a gateway passes here.
    """
    if not ball.is_finite():
        return None
    low, high, unit = _ends(ball)
    # the ends over the step are (of_offset + end factor) / divisor
    below, inverse = int(offset.q), int(step.q)
    of_offset = int(offset.p) * unit * inverse
    factor = below * inverse
    divisor = below * unit * int(step.p)
    lowest = _nearest_quotient(of_offset + low * factor, divisor)
    highest = _nearest_quotient(of_offset + high * factor, divisor)
    return lowest if lowest == highest else None


def _nearest_quotient(top: int, bottom: int) -> int:
    """Return the integer nearest to a quotient, ties to even."""
    nearest, rest = divmod(2 * top + bottom, 2 * bottom)
    return nearest - 1 if rest == 0 and nearest % 2 else nearest


def _ends(ball: Ball) -> tuple[int, int, int]:
    """Return the ends of a finite ball as two integers over a third one."""
    middle, power = map(int, ball.mid().man_exp())
    radius, its_power = map(int, ball.rad().man_exp())
    least = min(power, its_power, 0)
    middle <<= power - least
    radius <<= its_power - least
    return middle - radius, middle + radius, 1 << -least


def nearest_double(value: Rational) -> float:
    """Return the double nearest to a rational number, ties to even, zero unsigned."""
    try:
        return int(value.p) / int(value.q) + 0.0
    except OverflowError:
        largest = sys.float_info.max
        return largest if value > 0 else -largest


def nearest_integer(value: Rational) -> Integer:
    """Return the integer nearest to a rational number, ties to even."""
    above = value + _HALF
    nearest = above.floor()
    if above == nearest and int(nearest) % 2 == 1:  # an odd tie
        return nearest - 1
    return nearest


# -- data ----------------------------------------------------------------------------


#: A positive number: a float means the decimal number that Python prints for it.
Step = float | str | Decimal | Fraction

#: Steps that doubles come near to, which have at most so many digits before the point.
#: Digits before the point that steps may have, and behind it: doubles come near to these.
_MOST_DIGITS = -round(math.log10(SMALLEST))
_LARGEST_STEP = Fraction(10**_MOST_DIGITS)


def step_size(value: object, name: str) -> Rational:
    """Return a grid's step as an exact rational number.

    A float means the decimal number that Python prints for it, so 0.001 is
    1/1000 and not the double next to it.
    """
    if isinstance(value, (float, np.floating)):
        value = repr(float(value))
    elif isinstance(value, np.integer):
        value = int(value)
    readable = (str, Decimal, RationalNumber)
    if isinstance(value, bool) or not isinstance(value, readable):
        raise TypeError(
            f"{name}: expected a number, a Fraction or a text such as '0.001', got "
            f"{type(value).__name__}"
        )
    try:
        if isinstance(value, str) and "/" not in value:
            value = Decimal(value)
        if isinstance(value, Decimal) and abs(value.adjusted()) > _MOST_DIGITS:
            value = 0  # a Fraction of it could fill the memory
        step = Fraction(value)
    except (ValueError, ArithmeticError):
        step = Fraction(0)
    if not 1 / _LARGEST_STEP <= step <= _LARGEST_STEP:
        raise ValueError(
            f"{name}: expected a step > 0, between 1e-300 and 1e300, got another one"
        )
    return Rational(step.numerator, step.denominator)


def step_sizes(value: Step | Sequence[Step], name: str, count: int) -> list[Rational]:
    """Return a step for each of ``count`` entries, from one for all or a sequence."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        steps = [step_size(step, name) for step in value]
    else:
        steps = [step_size(value, name)] * count
    if len(steps) != count:
        raise ValueError(
            f"{name}: expected one step, or one for each of {count} entries, got "
            f"{len(steps)}"
        )
    return steps


def roundings(grid: Step | Sequence[Step] | None, count: int) -> list[Rounding]:
    """Return how each of ``count`` entries is rounded."""
    if grid is None:
        return [Rounding()] * count
    return [Rounding(step) for step in step_sizes(grid, "grid", count)]


#: Numbers of Python that are taken as they are where a double would be next to them.
_EXACT = (RationalNumber, Decimal, np.longdouble)


def exact_data(
    x: ArrayLike,
    name: str,
    resolution: Step | Sequence[Step] | None = None,
    *,
    counts: bool = False,
    rounds: bool = False,
) -> tuple[list[Rational], NDArray[np.float64]]:
    """Return private data as exact rationals in a flat list, and the doubles next to them.

    An entry of any type is a value: see `exact_numbers`. With a ``resolution`` (one
    step, or one for each entry) it is the multiple that it is next to, and an entry off the
    grid is refused: rounding would carry data that are a little apart a whole step apart.
    With ``rounds`` it is rounded. With ``counts`` entries are integers, which count steps.
    No error message holds an entry.
    """
    check_counted(counts, resolution)
    values, doubles = exact_numbers(x, name, whole=counts)
    if resolution is None:
        return values, doubles
    steps = step_sizes(resolution, "resolution", len(values))
    multiples = on_steps(values, steps, counts=counts)
    if not (counts or rounds):
        _check_on_grid(values, multiples, steps, name)
    nearest = np.array([nearest_double(value) for value in multiples])
    return multiples, nearest.reshape(doubles.shape)


def _check_on_grid(
    values: Sequence[Rational],
    multiples: Sequence[Rational],
    steps: Sequence[Rational],
    name: str,
) -> None:
    """Refuse values that are no multiples of their steps, but for round-off."""
    for value, multiple, step in zip(values, multiples, steps, strict=True):
        if abs(value - multiple) > _OFF_GRID * step + _ROUND_OFF * abs(value):
            raise ValueError(
                f"{name}: expected multiples of the resolution, got an entry between two: "
                "rounded, data that are a little apart could be a whole step apart, which "
                "the guarantee does not count. Leave resolution out and publish on a grid, "
                "or round first and hide a step more"
            )


def check_counted(counts: object, resolution: object) -> None:
    """Refuse counts without a resolution whose steps they count."""
    instance_of(counts, bool, "counts", "counts=True")
    if counts and resolution is None:
        raise ValueError(
            "counts: expected a resolution whose steps are counted, got none; pass "
            "resolution= too, or leave counts out where the numbers are values"
        )


def on_steps(
    values: Sequence[Rational], steps: Sequence[Rational], *, counts: bool
) -> list[Rational]:
    """Return the multiples of steps that values are next to, or that they count."""
    multiples = []
    for value, step in zip(values, steps, strict=True):
        count = value if counts else nearest_integer(value / step)
        multiples.append(count * step)
    return multiples


def exact_numbers(
    x: ArrayLike, name: str, *, whole: bool = False
) -> tuple[list[Rational], NDArray[np.float64]]:
    """Return numbers as exact rationals in a flat list, and the doubles next to them.

    24, 24.0, ``numpy.int64(24)`` and ``Fraction(24)`` are the same number. ``whole`` asks
    for integers.

    Raises
    ------
    TypeError
        If an entry is a truth value, or no integer where those are asked for.
    ValueError
        If an entry is not finite. No message holds an entry.
    """
    if isinstance(x, list) and x and not whole:
        plain = plain_numbers(x)
        if plain is not None:
            return plain, np.array(x)
    entries = _entries(x)
    check_no_truth(entries, name)
    doubles = real_array(_readable(x), name)
    flat = doubles.ravel().tolist()
    if not all(isinstance(entry, Number) for entry in entries):  # arrays, lists of them
        entries = [number for part in entries for number in np.ravel(part).tolist()]
        check_no_truth(entries, name)
    values = []
    for entry, double in zip(entries, flat, strict=True):
        if isinstance(entry, int | np.integer):
            values.append(rational(int(entry)))
        elif whole:
            raise TypeError(
                f"{name}: expected integers, counts of the resolution's steps, got "
                f"{type(entry).__name__}; leave counts=True out where the numbers are "
                "values"
            )
        elif isinstance(entry, _EXACT) and double != 0:  # else it may fill the memory
            if not isinstance(entry, RationalNumber):
                entry = Fraction(*entry.as_integer_ratio())
            values.append(Rational(int(entry.numerator), int(entry.denominator)))
        else:
            values.append(rational(double))
    return values, doubles


def plain_numbers(entries: list[Any]) -> list[Rational] | None:
    """Return finite doubles as exact rationals, or None where one is something else."""
    return (
        [rational(double) for double in entries]
        if all(map(_is_plain, entries))
        else None
    )


def _is_plain(entry: object) -> bool:
    """Return whether an entry is a finite double, as a device reads them."""
    return type(entry) is float and math.isfinite(entry)


def check_no_truth(entries: Sequence[object], name: str) -> None:
    """Refuse truth values among private data: nobody knows which number they are."""
    for entry in entries:
        if isinstance(entry, bool) or getattr(entry, "dtype", None) == np.dtype(bool):
            raise TypeError(
                f"{name}: expected real numbers, got bool; write 1.0 and 0.0 where they "
                "are the values"
            )


def _entries(x: object) -> list[Any]:
    """Return the entries of nested lists, or all else as one entry."""
    if not isinstance(x, list | tuple):
        return [x]
    entries = []
    for part in x:
        entries += _entries(part)
    return entries


def _readable(x: Any) -> Any:
    """Return nested lists with doubles for numbers that numpy takes for objects."""
    if isinstance(x, list | tuple):
        return [_readable(part) for part in x]
    if isinstance(x, _EXACT) and not isinstance(x, np.integer | bool):
        try:
            return float(x)
        except (OverflowError, ValueError):  # too large, or a signalling NaN
            return math.inf
    return x


# -- releases ------------------------------------------------------------------------


def exact_product(
    matrix: NDArray[np.float64] | scipy.sparse.csr_array, columns: RationalMatrix
) -> RationalMatrix:
    """Multiply a dense or sparse matrix of doubles with rationals, without rounding."""
    if isinstance(matrix, np.ndarray):
        return rational_matrix(matrix) * columns
    is_sparse = scipy.sparse.issparse(matrix)
    if not is_sparse:
        raise TypeError(
            f"query: expected a matrix for an exact release, got {type(matrix).__name__}"
            ", whose products are rounded; pass a dense or sparse matrix, or pass rng= "
            "for a simulation"
        )
    entries = matrix.tocsr()
    factors = columns.tolist()
    product = []
    for start, stop in pairwise(entries.indptr.tolist()):
        row = rational_matrix(entries.data[None, start:stop])
        met = [factors[j] for j in entries.indices[start:stop].tolist()]
        if met:
            product += (row * RationalMatrix(met)).tolist()
        else:
            product.append([Rational(0)] * columns.ncols())
    return RationalMatrix(product)


def exact_release(
    values: Sequence[Rational],
    factor: NDArray[np.floating] | RationalMatrix,
    family: str,
    *,
    grid: Step | Sequence[Step] | None = None,
    source: BitSource | Sequence[BitSource] = SYSTEM_BITS,
    eta: Sequence[StandardEntry] = (),
) -> NDArray[np.float64]:
    """Publish values + factor eta in real numbers, rounded once.

    The ``values`` (m,) are rationals. A ``factor`` (m,) represents a diagonal matrix. The
    independent standard entries eta are of a ``family`` of noise. By default the nearest
    doubles are published, and multiples of a ``grid`` otherwise. There is one ``source``
    of bits for all entries of eta, or one for each. The first entries are those in
    ``eta``, which were drawn before.

    Examples
    --------
    >>> import numpy as np
    >>> values, _ = exact_data([20.25, 1.0], "x", resolution=0.25)
    >>> released = exact_release(values, np.array([2.0, 0.0]), "gaussian", grid=0.25)
    >>> (released[0] / 0.25).is_integer(), float(released[1])
    (True, 1.0)
    """
    entry = ENTRIES[one_of(family, "family", tuple(ENTRIES))]
    rounding = roundings(grid, len(values))
    rows, width = _sparse_rows(factor)
    if isinstance(source, BitSource):
        source = [source] * width
    entries = dict(enumerate(eta))
    for k in range(len(entries), width):
        entries[k] = entry(source[k])
    released = np.empty(len(values))
    for i, row in enumerate(rows):
        if row:
            decide = partial(rounding[i].ball, values[i])
            released[i] = settled(row, entries, decide)
        else:
            released[i] = rounding[i].number(values[i])
    return released


def settled(
    row: Mapping[int, Factor],
    entries: Mapping[int, StandardEntry],
    decide: Callable[[Ball], Decision | None],
) -> Decision:
    """Return what the noise of a row decides, after as many more bits as that takes."""
    while True:
        (noise,) = noise_balls([row], entries)
        decision = decide(noise)
        if decision is not None:
            return decision
        for k in row:
            entries[k].refine()


def on_grid(
    values: NDArray[np.float64], grid: Step | Sequence[Step] | None
) -> NDArray[np.float64]:
    """Round values (.., m) of a simulation to multiples of a step."""
    if grid is None:
        return values
    steps = step_sizes(grid, "grid", values.shape[-1])
    sizes = np.array([nearest_double(step) for step in steps])
    return np.round(values / sizes) * sizes


def noise_balls(
    rows: Sequence[Mapping[int, Factor]],
    entries: Mapping[int, StandardEntry],
    *,
    rough: bool = False,
) -> list[Ball]:
    """Enclose the noise of rows, each a mapping from entry to factor, in balls."""
    used = {k: entries[k] for row in rows for k in row}
    bits = ROUGH_WORKING_BITS
    if not rough:
        bits = max([entry.count for entry in used.values()], default=0) + _GUARD_BITS
    with working_bits(bits):
        eta = {k: one.rough() if rough else one.ball() for k, one in used.items()}
        totals = []
        for row in rows:
            total = Ball(0)
            for k, size in row.items():
                total = total + Ball(size) * eta[k]
            totals.append(total)
        return totals


def _sparse_rows(
    factor: NDArray[np.floating] | RationalMatrix,
) -> tuple[list[dict[int, Factor]], int]:
    """Return the nonzero entries of each row of a factor, and its number of columns."""
    if isinstance(factor, np.ndarray) and factor.ndim == 1:
        sizes = factor.tolist()
        diagonal = [{k: size} if size != 0 else {} for k, size in enumerate(sizes)]
        return diagonal, len(sizes)
    table = factor.tolist()
    rows = []
    for row in table:
        rows.append({k: size for k, size in enumerate(row) if size != 0})
    return rows, len(table[0])
