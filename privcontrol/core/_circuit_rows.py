"""Circuits in doubles with error bounds, and in integers where these do not decide.

An entry of a circuit is a minor of the rows of the kernel. Whether it is zero decides which
moves exist at all. Doubles with a running error bound decide nearly all entries, and
determinants of integers decide the others. Nothing is zero because it is small.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._balls import (
    Ball,
    Integer,
    IntegerMatrix,
    Rational,
    RationalMatrix,
    working_bits,
)
from .errors import UncertifiableError

#: Half a unit in the last place of a double, relative to it.
UNIT = 2.0**-53

#: An entry counts as known once its error is at most this part of it.
_DECIDED = 2.0**-33

#: Sizes that leave room for products of doubles.
_LEAST_SIZE = 2.0**-960
_LEAST_MINOR = 2.0**-900

#: Row sets whose cofactors are computed at once.
_MOST_SETS = 2**12

#: A prime below 2^31, modulo which parallel rows look alike.
_PRIME = 2**31 - 1

#: Integers and their common denominator.
Row = tuple[Sequence[Integer], Integer]


@dataclass(frozen=True, eq=False)
class CircuitMoves:
    """A block of worst moves (n, M), one column per circuit, with bounds of their errors.

    A circuit may come more than once. Each move is scaled so that some protected entry
    moves by its radius, and no other protected entry of its support by less than its own.
    Some multiple, at least one, of every worst move lies within the `errors`, which are
    ``relative`` (M,) to the entries. ``exact`` holds the moves as rationals, if they are
    few. The rest says which rows of a kernel are held, see `zeros`.
    """

    moves: NDArray
    relative: NDArray
    base: Any = None
    shift: Any = None
    column: Any = None
    exact: list | None = None

    def __post_init__(self) -> None:
        if not np.isfinite(self.moves).all():
            raise UncertifiableError(
                "a move leaves the range of double precision; shorten the horizon or "
                "rescale the entries"
            )

    @property
    def errors(self) -> NDArray:
        """Bounds (n, M) of the errors, zero where nothing moves."""
        return np.abs(self.moves) * self.relative

    def part(self, chosen: NDArray) -> "CircuitMoves":
        """Some of the moves in doubles."""
        moves = self.moves[:, chosen]
        relative = self.relative[chosen]
        if self.base is None:
            return CircuitMoves(moves, relative)
        shift = self.shift[chosen]
        return CircuitMoves(moves, relative, self.base, shift, self.column[chosen])

    @property
    def zeros(self) -> NDArray:
        """Entries (k - 1, M) that determine each circuit by staying unchanged."""
        return self.base[:, self.column] + self.shift


class Rows(ABC):
    """Row vectors with k entries, known exactly and enclosed by doubles.

    Row i is 2^exponent[i] (value[i] + e) with |e| <= 2^-53 bound[i]. The exponents are
    multiples of 64, so that the sizes of value[i] lie within 2^-33 and 2^33. An entry of
    ``bound`` is zero only where the exact entry is.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._memory: dict[int, NDArray] = {}
        exponents = []
        values = []
        residues = []
        nonzero = []
        with working_bits():
            for numbers, common in rows:
                bits = max(x.bit_length() for x in numbers) - common.bit_length()
                exponent = 64 * round(bits / 64)
                unit = Ball((1, -exponent)) / common
                exponents.append(exponent)
                values.append([float(x * unit) for x in numbers])
                residues.append([int(x % _PRIME) for x in numbers])
                nonzero.append([x != 0 for x in numbers])
        self.exponent = np.array(exponents)
        self.value = np.array(values)
        self._residues = residues
        k = self.value.shape[1]
        self.dimension = k
        #: Relative errors of rows, minors and their product; 0 of small whole numbers.
        self.roundings = (k * (k + 3) / 2 + 3) * UNIT
        moving = np.array(nonzero)
        if (np.abs(self.exponent[moving.any(axis=1)]) > 900).any():
            raise UncertifiableError(
                "the rows of the kernel span more than the 540 decades that double "
                "precision carries; shorten the horizon, restrict the protected times, "
                "or rescale the entries"
            )
        # A product of k nonzero bounds stays above 2^-900: no underflow passes for zero.
        floor = 2.0 ** -(900 // self.dimension)
        self.bound = np.maximum(np.abs(self.value) * (1 + 2.0**-40), floor) * moving

    @cached_property
    def _columns(self) -> tuple[NDArray, NDArray]:
        return np.ascontiguousarray(self.value.T), np.ascontiguousarray(self.bound.T)

    @abstractmethod
    def integers(self, index: Sequence[int]) -> tuple[IntegerMatrix, Rational]:
        """Integers that span chosen rows, and the ratio of determinants of k rows."""

    def minor(self, index: Sequence[int]) -> float:
        """The determinant of k rows over their powers of two, rounded once from exact."""
        whole, factor = self.integers(index)
        determinant = whole.det() * factor
        if determinant == 0:
            return 0.0
        exponent = int(self.exponent[list(index)].sum())
        value = self._rounded(determinant, -exponent)
        if abs(value) < _LEAST_MINOR:
            raise UncertifiableError(
                "a minor of the kernel is below 2^-900; shorten the horizon"
            )
        return value

    @staticmethod
    def _rounded(value: Rational, exponent: int) -> float:
        with working_bits():
            return float(Ball(value) * Ball((1, exponent)))

    @cached_property
    def classes(self) -> NDArray:
        """Find for each row the first one that is parallel to it, -1 for zero rows."""
        latest: dict[tuple, list[int]] = {}
        labels = np.full(len(self.value), -1)
        for i, row in enumerate(self._residues):
            if not self.bound[i].any():
                continue
            lead = next((x for x in row if x), 1)
            inverse = pow(lead, -1, _PRIME)
            alike = latest.setdefault(tuple(x * inverse % _PRIME for x in row), [])
            labels[i] = i
            for place, j in enumerate(alike):
                if self._are_parallel(j, i):
                    labels[i] = labels[j]
                    alike[place] = i
                    break
            if labels[i] == i:
                alike.append(i)
        return labels

    def _are_parallel(self, i: int, j: int) -> bool:
        return self.integers([i, j])[0].rank() == 1

    def cofactors(self, base: NDArray) -> tuple[NDArray, "Cofactors"]:
        """The independent ones of row sets (k - 1, B), and vectors orthogonal to them."""
        values, bounds = self._columns
        held_values = [values.take(held, axis=1) for held in base]
        held_bounds = [bounds.take(held, axis=1) for held in base]
        value = _cofactors(held_values, -1.0)
        size = _cofactors(held_bounds, 1.0)
        if self.roundings:
            decided = (np.abs(value) > 2.0**-10 * size).any(axis=0)
            for column in np.flatnonzero(~decided):
                exact = self._exact_cofactors(base[:, column].tolist())
                value[:, column] = exact
                size[:, column] = np.abs(exact)
        independent = value.any(axis=0)
        value = value[:, independent]
        size = size[:, independent]
        _, exponent = np.frexp(size.max(axis=0, initial=0.0))
        unit = np.ldexp(1.0, -exponent)
        error = size * unit * self.roundings
        cofactors = Cofactors(value * unit, error, exponent)
        return base[:, independent], cofactors

    def _exact_cofactors(self, index: Sequence[int]) -> list[float]:
        """Cofactors of rows by determinants of integers, zeros if they are dependent."""
        k = self.dimension
        whole, factor = self.integers(index)
        table = whole.tolist()
        exponent = int(self.exponent[list(index)].sum())
        cofactors = []
        for j in range(k):
            unit = [int(i == j) for i in range(k)]
            cofactor = IntegerMatrix([*table, unit]).det() * factor
            cofactors.append(self._rounded(cofactor, -exponent))
        return cofactors

    def entries(
        self, base: NDArray, cofactors: "Cofactors", start: int
    ) -> tuple[NDArray, NDArray, NDArray]:
        """Products of the rows from ``start`` on with cofactors of row sets (k - 1, B).

        They come with their sizes, infinite for zeros, and a bound (B,) of the relative
        errors of each column, at most 2^-33. They are valid until the next call.
        """
        count = base.shape[1]
        shape = (len(self.value) - start, count)
        value, size, doubt = (self._scratch(i, shape) for i in range(3))
        np.matmul(self.value[start:], cofactors.value, out=value)
        np.matmul(self.bound[start:], cofactors.error, out=doubt)
        np.abs(value, out=size)
        zeros = [(base - start, np.arange(count))]
        if self._has_parallel_rows:
            for held_class in self.classes[base]:
                zeros.append((self.classes[start:, None] == held_class).nonzero())
        for held in zeros:
            value[held] = 0.0
            size[held] = np.inf

        def exact(row: int, column: int) -> float:
            minor = self.minor([*base[:, column].tolist(), start + row])
            return float(np.ldexp(minor, -cofactors.exponent[column]))

        return value, size, _settle(value, size, doubt, exact)

    def null_vectors(self, support: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """The combinations (k + 1, B) of k + 1 rows that vanish, as `entries` gives them.

        Each is over the product of its other rows' powers of two.
        """
        values, bounds = self._columns
        value = _cofactors([column[support] for column in values], -1.0)
        doubt = _cofactors([column[support] for column in bounds], 1.0)
        doubt *= self.roundings
        size = np.abs(value)

        def exact(row: int, column: int) -> float:
            others = np.delete(support[:, column], row).tolist()
            return (-1) ** (self.dimension + row) * self.minor(others)

        return value, size, _settle(value, size, doubt, exact)

    def _scratch(self, name: int, shape: tuple[int, int]) -> NDArray:
        """Memory that blocks share, since fresh pages cost more than the arithmetic."""
        count = math.prod(shape)
        memory = self._memory.get(name)
        if memory is None or len(memory) < count:
            memory = np.empty(count)
            self._memory[name] = memory
        return memory[:count].reshape(shape)

    @cached_property
    def _has_parallel_rows(self) -> bool:
        nonzero = self.classes[self.classes >= 0]
        return len(np.unique(nonzero)) < len(nonzero)


@dataclass(frozen=True)
class Cofactors:
    """Vectors (k, B) orthogonal to rows; products err by ``bound`` times ``error``."""

    value: NDArray
    error: NDArray
    exponent: NDArray

    def part(self, columns: slice) -> "Cofactors":
        """The vectors of some of the row sets."""
        exponent = self.exponent[columns]
        return Cofactors(self.value[:, columns], self.error[:, columns], exponent)


class MatrixRows(Rows):
    """The rows of a matrix of rationals, up to a common factor."""

    def __init__(self, matrix: RationalMatrix) -> None:
        whole, common = matrix.numer_denom()
        self._whole = whole.tolist()
        columns = whole.transpose().tolist()
        largest = math.prod(max(abs(int(x)) for x in column) for column in columns)
        small = math.factorial(len(columns)) * largest <= 2**53
        self._common = Integer(1) if small else common
        super().__init__((row, self._common) for row in self._whole)
        if small:  # doubles hold all sums of products
            self.roundings = 0.0

    def integers(self, index: Sequence[int]) -> tuple[IntegerMatrix, Rational]:
        rows = IntegerMatrix([self._whole[i] for i in index])
        return rows, 1 / Rational(self._common) ** len(index)


def worst_moves(
    rows: Rows,
    radius: NDArray,
    horizon: int,
    held: Iterable[Sequence[int]],
    block: int,
) -> Iterator[CircuitMoves]:
    """Worst moves along the circuits of row sets, and along their shifts in time.

    ``rows`` are those of the times -(T-1), ..., T-1, time-major, and ``radius`` (n,) is
    that of the entries of one time. The sets of k - 1 ``held`` rows start at time 0. A set
    shifted by s moves the same trajectory, seen at the times -s, ..., T-1-s. Without time
    T is 1. A block of moves comes from ``block`` sets.
    """
    n = len(radius)
    origin = (horizon - 1) * n
    protected = np.flatnonzero(radius > 0)
    unit = np.ldexp(1.0, rows.exponent)[:, None]
    factor = _in_radii(unit, np.tile(radius, 2 * horizon - 1)[:, None])
    blocks = _cofactor_blocks(rows, held, origin, block)
    for base, cofactors in blocks:
        last = base.max(axis=0, initial=0) // n
        shifts = horizon - int(last.min())
        start = (horizon - shifts) * n
        values, sizes, error = rows.entries(base + origin, cofactors, start)
        _multiply(sizes, factor[start:])
        by_time = sizes.reshape(-1, n, len(last))
        if len(protected) < n:
            by_time = by_time[:, protected]
        least = by_time.min(axis=1, initial=np.inf)
        _refuse_small(least)
        least = _window_minima(least, horizon, shifts)
        latest = horizon - 1 - last  # shift of a set that ends with the horizon
        shift = np.arange(shifts)[::-1]
        is_seen = shift[:, None] <= latest
        valid = np.isfinite(least) & is_seen
        place, column = np.nonzero(valid)
        entries = values[: shifts * n]
        with np.errstate(over="ignore"):
            scale = (1 + 24 * UNIT) / (least * (1 - error))
            _multiply(entries, unit[start : horizon * n])
            entries = entries.reshape(shifts, n, -1)
            moves = _chosen(entries, scale, valid)
        relative = (error + 12 * UNIT)[column]
        yield CircuitMoves(moves, relative, base, shift[place] * n, column)


def _cofactor_blocks(
    rows: Rows, held: Iterable[Sequence[int]], origin: int, block: int
) -> Iterator[tuple[NDArray, "Cofactors"]]:
    """Independent row sets (k - 1, at most ``block``), and their cofactors."""
    size = max(block, _MOST_SETS)
    for sets in row_sets(held, rows.dimension - 1, size):
        base, cofactors = rows.cofactors(sets + origin)
        base = base - origin
        for first in range(0, base.shape[1], block):
            part = slice(first, first + block)
            yield base[:, part], cofactors.part(part)


def _multiply(entries: NDArray, factor: NDArray) -> None:
    """Multiply in place, unless by ones."""
    if (factor != 1).any():
        entries *= factor


def support_moves(
    rows: Rows, radius: NDArray, supports: Iterable[NDArray]
) -> Iterator[CircuitMoves]:
    """Worst moves along the circuits of supports (q + 1, B), ascending in each column.

    The ``rows`` (n, q) are the columns of the constraints. Entry j of the circuit of a
    support is, up to its sign, the minor of the support's other rows.
    """
    n = len(radius)
    unit = np.ldexp(1.0, -rows.exponent)[:, None]
    factor = _in_radii(unit, radius[:, None])
    factor[radius == 0] = np.inf
    for support in supports:
        value, size, error = rows.null_vectors(support)
        least = (size * factor[support, 0]).min(axis=0)
        _refuse_small(least)
        moving = np.isfinite(least)
        support = support[:, moving]
        error = error[moving]
        with np.errstate(over="ignore"):
            scale = (1 + 24 * UNIT) / (least[moving] * (1 - error))
            value = value[:, moving] * (unit[support, 0] * scale)
        moves = np.zeros((n, support.shape[1]))
        np.put_along_axis(moves, support, value, axis=0)
        yield CircuitMoves(moves, error + 12 * UNIT)


def _settle(
    value: NDArray,
    size: NDArray,
    doubt: NDArray,
    exact: Callable[[int, int], float],
) -> NDArray:
    """Put exact entries (n, B) in place of those near zero, and infinite sizes for zeros.

    Entries err by at most ``doubt``, which is lost, and are zero where it is. Returns
    bounds (B,) of the relative errors of the others, at most 2^-33.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        np.divide(doubt, size, out=doubt)
    error = doubt.max(axis=0, initial=0.0)  # NaN where an entry and its bound are 0
    doubtful = np.flatnonzero(~(error <= _DECIDED))
    few = doubt[:, doubtful]
    row, place = np.nonzero(~(few <= _DECIDED))
    column = doubtful[place]
    unknown = few[row, place] > 0
    few[row, place] = 0.0
    error[doubtful] = few.max(axis=0, initial=0.0)
    size[row, column] = np.inf
    pairs = zip(row[unknown].tolist(), column[unknown].tolist())
    for i, j in pairs:
        value[i, j] = exact(i, j)
        size[i, j] = abs(value[i, j]) or np.inf
    return error


def _in_radii(unit: NDArray, radius: NDArray) -> NDArray:
    """Units of the entries, in radii where they are protected."""
    with np.errstate(over="ignore"):
        factor = unit / np.where(radius > 0, radius, 1.0)
    if not ((factor > _LEAST_SIZE) & (factor < 1 / _LEAST_SIZE)).all():
        raise UncertifiableError(
            "a radius is too far from the size of its entry; rescale the entries"
        )
    return factor


def _refuse_small(least: NDArray) -> None:
    """Raise if a protected entry moves by next to nothing of its radius."""
    if least.min(initial=1.0) < _LEAST_SIZE:
        raise UncertifiableError(
            "a protected entry moves by less than 2^-960 of its radius; shorten the "
            "horizon or rescale the entries"
        )


def _chosen(entries: NDArray, scale: NDArray, valid: NDArray) -> NDArray:
    """The scaled entries (n, M) of the valid moves, for those of all times (times, n, B)."""
    if valid.all():
        scaled = entries * scale[:, None]
        return scaled.swapaxes(0, 1).reshape(entries.shape[1], -1)
    columns = []
    for m in range(entries.shape[1]):
        scaled = entries[:, m] * scale
        columns.append(scaled[valid])
    return np.array(columns)


def _window_minima(least: NDArray, horizon: int, shifts: int) -> NDArray:
    """Minima (shifts, B) over the windows -s, ..., T-1-s, for s = shifts-1, ..., 0."""
    before = np.minimum.accumulate(least[shifts - 1 :: -1], axis=0)[::-1]
    after = np.minimum.accumulate(least[shifts - 1 :], axis=0)[horizon - shifts :]
    return np.minimum(before, after)


def row_sets(sets: Iterable[Sequence[int]], width: int, size: int) -> Iterator[NDArray]:
    """Sets of ``width`` row numbers as arrays (width, at most ``size``)."""
    if width == 0:
        yield np.empty((0, 1), int)
        return
    flat = chain.from_iterable(sets)
    while (block := np.fromiter(islice(flat, size * width), int)).size:
        yield np.ascontiguousarray(block.reshape(-1, width).T)


def _cofactors(rows: Sequence[NDArray], sign: float) -> NDArray:
    """Cofactors (k, B) of the last row under k - 1 rows (k, B); sign 1: permanents."""
    k = len(rows) + 1
    minors: dict[tuple[int, ...], Any] = {(): 1.0}
    for depth, row in enumerate(rows):
        longer: dict[tuple[int, ...], Any] = {}
        for subset in combinations(range(k), depth + 1):
            total = 0.0
            for place, j in enumerate(subset):
                minor = minors[_without(subset, place)]
                total = total + sign ** (depth - place) * row[j] * minor
            longer[subset] = total
        minors = longer
    every = tuple(range(k))
    signed = []
    for j in every:
        minor = minors[_without(every, j)]
        signed.append(sign ** (k - 1 + j) * minor)
    return np.array(signed).reshape(k, -1)


def _without(numbers: tuple[int, ...], place: int) -> tuple[int, ...]:
    return numbers[:place] + numbers[place + 1 :]
