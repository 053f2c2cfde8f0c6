"""Row vectors that are known exactly and enclosed by doubles.

This is the arithmetic behind the enumeration of circuits. Every minor is decided by a
running error bound. Where that bound does not suffice it is decided in balls, and zeros in
integers. Nothing is zero because it is small.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._balls import Ball, BallMatrix, Integer, IntegerMatrix, working_bits
from ..errors import UncertifiableError

#: Half a unit in the last place of a double, relative to it.
UNIT = 2.0**-53

#: An entry counts as known once it exceeds its error bound this many times.
DECIDED = 2.0**33

#: Rows of integers, each with its common denominator.
IntegerTable = list[tuple[list[Integer], Integer]]


class ExactRows(ABC):
    """Row vectors that are known exactly, with floats that enclose them and exact minors on demand.

    Row i is 2^exponent[i] (value[i] + e) with abs(e) <= 2^-53 bound[i] and value[i] of size 1. An entry of
    `bound` is 0 only where the exact entry is.

    A subclass says what the rows are: `balls(precision)` lists rows of k balls that contain the exact entries, to
    about this precision in bits, and `integers(index)` integer rows that are dependent iff the rows with these
    indices are.
    """

    def __init__(self, precision: int) -> None:
        self.precision = precision
        self._cache: dict[int, list[list[Ball]]] = {}
        self._buffers: dict[int, NDArray] = {}
        self.exponent, self.value, spread, nonzero = self.enclosures()
        self.dimension = nonzero.shape[1]
        self.roundings = (
            self.dimension * (self.dimension + 3) / 2 + 3
        ) * UNIT  # of rows, minors and their product
        # a product of k nonzero bounds stays above 2^-900, so that no underflow passes for a zero
        self.bound = (
            np.maximum(
                np.abs(self.value) + 2.0**54 * spread, 2.0 ** -(900 // self.dimension)
            )
            * nonzero
        )
        self._columns = (
            np.ascontiguousarray(self.value.T),
            np.ascontiguousarray(self.bound.T),
        )

    @abstractmethod
    def balls(self, precision: int) -> list[list[Ball]]:
        """The rows as balls at a precision in bits."""

    @abstractmethod
    def integers(self, index: Sequence[int]) -> list[list[Integer]]:
        """Chosen rows as integers, each up to a common factor of its own."""

    def enclosures(self) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """Exponents (n,) and, of the rows divided by these powers of two: floats, their errors, and what is not 0."""
        with working_bits(self.precision):
            rows = self.balls(self.precision)
            top = np.array([max(abs(float(x.mid())) for x in row) for row in rows])
            nonzero = np.array([[not x.is_zero() for x in row] for row in rows])
            self.exponent = _exponents(top, nonzero)
            rows = self._normalised(self.precision, rows)
        value, spread = (
            np.array([[float(f(x)) for x in row] for row in rows])
            for f in (Ball.mid, Ball.rad)
        )
        return self.exponent, value, spread, nonzero

    def targets(self, index: NDArray, radius: NDArray) -> Targets:
        """The rows with these indices, and the sizes 2^exponent / radius that their entries stand for."""
        with np.errstate(over="ignore"):
            factor = np.ldexp(1.0, self.exponent[index]) / radius
        if not ((factor > 2.0**-960) & (factor < 2.0**960)).all():
            raise UncertifiableError(
                "a radius is too far from the size of its entry; rescale the entries"
            )
        return Targets(index, self.value[index], self.bound[index], factor)

    def minor(self, index: Sequence[int]) -> float:
        """Determinant of k rows divided by their powers of two: 0.0 iff singular, else good to one ulp."""
        precision, k = self.precision, self.dimension
        undecided = True
        while True:
            with working_bits(precision):
                rows = self._normalised(precision)
                determinant = BallMatrix(
                    k, k, [x for i in index for x in rows[i]]
                ).det()
                if determinant.is_zero():
                    return 0.0
                if determinant.rel_accuracy_bits() >= 60:
                    return _in_range(float(determinant.mid()))
            if undecided and IntegerMatrix(self.integers(index)).det() == 0:
                return 0.0
            undecided, precision = False, 2 * precision

    def cofactors(self, base: NDArray) -> tuple[NDArray, Cofactors]:
        """The independent ones of the row sets `base` (k - 1, B), and the `Cofactors` orthogonal to them."""
        value, size = (
            _last_row_cofactors(columns, base, sign)
            for columns, sign in zip(self._columns, (-1.0, 1.0))
        )
        drop = []
        for column in np.flatnonzero(~(np.abs(value) > 2.0**-10 * size).any(axis=0)):
            index = base[:, column].tolist()
            if not size[:, column].any() or IntegerMatrix(
                self.integers(index)
            ).rank() < len(index):
                drop.append(column)
            else:
                value[:, column], size[:, column] = self._exact_cofactors(index)
        if drop:
            base, value, size = (
                np.delete(x, drop, axis=1) for x in (base, value, size)
            )
        exponent = np.frexp(size.max(axis=0))[1]
        unit = np.ldexp(1.0, -exponent)
        value *= unit
        size *= unit
        size *= self.roundings
        return base, Cofactors(value, size, exponent)

    def entries(
        self,
        targets: Targets,
        base: NDArray,
        cofactors: Cofactors,
        position: NDArray,
        classes: Any = None,
    ) -> Entries:
        """Entries of the circuits of the row sets `base` (k - 1, B), each decided.

        `position[i]` is the place of row i among the targets, negative where it is absent; rows of equal
        `classes` are parallel.
        """
        shape = (len(targets.index), base.shape[1])
        value, error, low, ratio = (self.buffer(i, shape) for i in range(4))
        np.matmul(targets.value, cofactors.value, out=value)
        np.matmul(targets.bound, cofactors.error, out=error)
        own = position[base]
        line, column = np.nonzero(own >= 0)
        value[own[line, column], column] = error[own[line, column], column] = 0
        for held in base if classes is not None else ():
            parallel = classes[targets.index, None] == classes[held]
            value[parallel] = error[parallel] = 0
        np.abs(value, out=low)
        with np.errstate(divide="ignore", invalid="ignore"):
            np.divide(low, error, out=ratio)
        flagged = np.flatnonzero(~(ratio > DECIDED))
        np.subtract(low, error, out=low)
        flat_value, flat_error, flat_low = value.ravel(), error.ravel(), low.ravel()
        flat_low[flagged] = np.inf
        flagged = flagged[flat_error[flagged] > 0]
        for place in flagged:
            line, column = divmod(int(place), base.shape[1])
            index = (*base[:, column].tolist(), int(targets.index[line]))
            exact = float(np.ldexp(self.minor(index), -cofactors.exponent[column]))
            if exact:
                flat_low[place] = abs(exact) * (1 - 4 * UNIT)
            flat_value[place], flat_error[place] = exact, 4 * UNIT * abs(exact)
        low *= targets.factor[:, None]
        if low.min(initial=1.0) < 2.0**-960:
            raise UncertifiableError(
                "a protected entry moves by less than 2^-960 of its radius; shorten the horizon"
            )
        return Entries(value, error, low, len(flagged))

    def buffer(self, name: int, shape: tuple[int, int]) -> NDArray:
        """Working memory that is reused from block to block: fresh pages would cost more than the arithmetic."""
        count = shape[0] * shape[1]
        if len(self._buffers.get(name, ())) < count:
            self._buffers[name] = np.empty(count)
        return self._buffers[name][:count].reshape(shape)

    def _exact_cofactors(self, index: Sequence[int]) -> tuple[NDArray, NDArray]:
        """Cofactors of independent rows by balls, as a value and its error in units of 2^-53."""
        precision, k = self.precision, self.dimension
        while True:
            with working_bits(precision):
                rows = [self._normalised(precision)[i] for i in index]
                balls = _orthogonal(rows, k)
                value = np.array([float(x.mid()) for x in balls])
                spread = np.array([float(x.rad()) for x in balls])
            if spread.max() < 2.0**-60 * np.abs(value).max():
                return value, np.abs(value) + 2.0**54 * spread
            precision *= 2

    def _normalised(
        self, precision: int, rows: list[list[Ball]] | None = None
    ) -> list[list[Ball]]:
        """The rows as balls of this precision, divided by their powers of two."""
        if precision not in self._cache:
            with working_bits(precision):
                units = [Ball((1, -int(e))) for e in self.exponent]
                rows = self.balls(precision) if rows is None else rows
                self._cache[precision] = [
                    [x * unit for x in row] for row, unit in zip(rows, units)
                ]
        return self._cache[precision]


class IntegerRows(ExactRows):
    """Rows given as pairs (integers, common denominator), followed by the k unit vectors."""

    def __init__(self, whole: IntegerTable) -> None:
        k = len(whole[0][0])
        self._whole: Any = [
            *whole,
            *([[Integer(i == j) for j in range(k)], Integer(1)] for i in range(k)),
        ]
        super().__init__(192)

    def balls(self, precision: int) -> list[list[Ball]]:
        return [[Ball(x) / common for x in row] for row, common in self._whole]

    def integers(self, index: Sequence[int]) -> list[list[Integer]]:
        return [self._whole[i][0] for i in index]

    def classes(self, n: int) -> NDArray:
        """For each of the first n rows the first one that is parallel to it; -1 for zero rows."""
        first: dict[tuple[int, ...], int] = {}
        labels = np.arange(n)
        for i in range(n):
            (row,) = self.integers([i])
            lead = next((x for x in row if x), 0)
            common = gcd(*(int(x) for x in row)) * (1 if lead > 0 else -1)
            labels[i] = (
                first.setdefault(tuple(int(x) // common for x in row), i)
                if lead
                else -1
            )
        return labels


@dataclass(frozen=True)
class Targets:
    """Rows whose products with a circuit's z are wanted: indices, values, error units, and size over radius."""

    index: np.ndarray
    value: np.ndarray
    bound: np.ndarray
    factor: np.ndarray

    def part(self, part: Any) -> Targets:
        """A slice of the targets."""
        return Targets(
            self.index[part], self.value[part], self.bound[part], self.factor[part]
        )


@dataclass(frozen=True)
class Cofactors:
    """Vectors z (k, B) orthogonal to sets of rows, divided by 2^exponent, and the errors to which rounding leads:
    an entry that is the product of a row with z errs by at most the row's `bound` times `error`."""

    value: np.ndarray
    error: np.ndarray
    exponent: np.ndarray

    def part(self, part: Any) -> Cofactors:
        """Some of the vectors."""
        return Cofactors(self.value[:, part], self.error[:, part], self.exponent[part])


@dataclass(frozen=True)
class Entries:
    """Entries (targets, B) of circuits, without their factors: value and error; with them: `low`, a lower
    bound of the size, infinite at zeros. `resolved` entries took exact arithmetic."""

    value: np.ndarray
    error: np.ndarray
    low: np.ndarray
    resolved: int


def _exponents(top: NDArray, nonzero: NDArray) -> NDArray:
    """Exponents of rows with these largest entries."""
    if not (top < 2.0**900).all() or (nonzero.any(axis=1) & (top < 2.0**-900)).any():
        raise UncertifiableError(
            "the rows of the kernel span more than the 540 decades that double precision carries; "
            "shorten the horizon, restrict the protected times, or rescale the entries"
        )
    return np.frexp(top)[1]


def _orthogonal(rows: list[list[Ball]], k: int) -> list[Ball]:
    """Cofactors of the last row under k - 1 rows of balls.

    Those that vanish follow from one that does not: balls of singular determinants need not shrink with the precision.
    """
    minors = [
        (-1) ** (k - 1 + j) * BallMatrix([row[:j] + row[j + 1 :] for row in rows]).det()
        for j in range(k)
    ]
    lead = max(range(k), key=lambda j: float(minors[j].abs_lower()))
    try:
        solution = BallMatrix([row[:lead] + row[lead + 1 :] for row in rows]).solve(
            BallMatrix([[row[lead]] for row in rows])
        )
    except ZeroDivisionError:  # at this precision
        return minors
    others = [-x * minors[lead] for x in solution.entries()]
    return [*others[:lead], minors[lead], *others[lead:]]


def _in_range(minor: float) -> float:
    if abs(minor) < 2.0**-900:
        raise UncertifiableError(
            "a minor of the kernel is below 2^-900; shorten the horizon"
        )
    return minor


def _last_row_cofactors(columns: NDArray, base: NDArray, sign: float) -> NDArray:
    """Cofactors (k, B) of the last row of k x k matrices whose other rows are columns of `columns` (k, n).

    The sign 1 gives permanents.
    """
    k = len(columns)
    minors: dict[tuple[int, ...], NDArray] = {(): np.ones(base.shape[1])}
    for depth, held in enumerate(base):
        row = columns.take(held, axis=1)
        minors = {
            s: _expanded(row, minors, s, sign) if depth else row[s[0]]
            for s in combinations(range(k), depth + 1)
        }
    whole = tuple(range(k))
    return np.array(
        [sign ** (k - 1 + j) * minors[whole[:j] + whole[j + 1 :]] for j in whole]
    )


def _expanded(
    row: NDArray,
    minors: dict[tuple[int, ...], NDArray],
    subset: tuple[int, ...],
    sign: float,
) -> NDArray:
    """A minor by its last row, from the minors of the rows above."""
    total = row[subset[-1]] * minors[subset[:-1]]
    for place in reversed(range(len(subset) - 1)):
        term = row[subset[place]] * minors[subset[:place] + subset[place + 1 :]]
        if sign < 0 and (len(subset) - place) % 2 == 0:
            total -= term
        else:
            total += term
    return total


def integer_rows(matrix: NDArray) -> IntegerTable:
    """The rows of a float matrix, exactly, as pairs (integers, common denominator)."""
    rows = []
    for row in matrix.tolist():
        ratios = [x.as_integer_ratio() for x in row]
        common = max((q for _, q in ratios), default=1)  # powers of two
        rows.append(([Integer(p * (common // q)) for p, q in ratios], Integer(common)))
    return rows
