"""Output noise in real numbers: enclosures of gamma(t) that more random bits narrow.

Every sample is a sum of standard entries eta, and its factors are enclosed to as many bits
as the entries are known. They come from the numbers for which the guarantee was certified,
such as C A^t S, and not from their rounded products.
"""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from ..core._balls import Ball, BallMatrix, Rational, ball_matrix, working_bits
from ..core.errors import UncertifiableError
from ..core.release import ENTRIES, FIRST_BITS, StandardEntry, SystemBits, noise_balls
from .output_noise import OutputNoise
from .parts import Correlated, Driven, NoisePart, Structured, White

#: Working precision, in bits, beyond which the powers of A are given up.
_MOST_BITS = 1 << 18

#: A row of noise: the factor of each entry of eta that takes part in it, by number.
Row = dict[int, Rational | float]


class ExactNoise:
    """The samples of output noise as enclosures.

    Entries are numbered: those that are drawn once come first, then those of each sample
    in turn.

    Parameters
    ----------
    noise : OutputNoise
    """

    def __init__(self, noise: OutputNoise) -> None:
        self.once = noise.once
        self.width = noise.width
        self.outputs = noise.outputs
        self.entries: dict[int, StandardEntry] = {}
        self._entry = ENTRIES[noise.family]
        self._source = SystemBits()
        self._rows: list[_Rows] = []
        first, fresh = 0, 0
        for part in noise.parts:
            self._rows.append(_rows_of(part, first, self.once + fresh, self.width))
            first += part.once
            fresh += part.width

    @property
    def has_memory(self) -> bool:
        """Whether a sample depends on the entries of earlier samples."""
        return any(rows.has_memory for rows in self._rows)

    def numbers(self, start: int, stop: int) -> range:
        """Numbers of the entries that samples start .. stop - 1 add."""
        return range(self.once + start * self.width, self.once + stop * self.width)

    def draw(self, numbers: range) -> dict[int, StandardEntry]:
        """Fresh entries, which are not yet part of the noise."""
        return {number: self._entry(self._source) for number in numbers}

    def restore(self, number: int, value: int, count: int) -> None:
        """Take up an entry of which these bits were drawn before."""
        self.entries[number] = self._entry(self._source, value, count)

    def forget_before(self, t: int) -> None:
        """Drop the entries of earlier samples, unless later ones depend on them."""
        if self.has_memory:
            return
        first = self.once + t * self.width
        for number in [k for k in self.entries if self.once <= k < first]:
            del self.entries[number]

    def sample(self, t: int) -> list[Ball | None]:
        """Enclosures of gamma(t), one for each output; None where there is no noise."""
        bits = max((entry.count for entry in self.entries.values()), default=FIRST_BITS)
        rows = self.rows(t, bits)
        noisy = [row for row in rows if row]
        balls = iter(noise_balls(noisy, self.entries)) if noisy else iter(())
        return [next(balls) if row else None for row in rows]

    def rows(self, t: int, bits: int) -> list[Row]:
        """The factors of gamma(t), one row for each output."""
        rows: list[Row] = [{} for _ in range(self.outputs)]
        for part in self._rows:
            for row, more in zip(rows, part.at(t, bits)):
                row.update(more)
        return rows


class _Rows(ABC):
    """The factors of one part of the noise."""

    has_memory = False

    @abstractmethod
    def at(self, t: int, bits: int) -> list[Row]:
        """Factors of the part's entries at sample t, accurate to so many bits."""


def _rows_of(part: NoisePart, first: int, fresh: int, width: int) -> _Rows:
    """The rows of a part whose entries begin at these numbers."""
    if isinstance(part, Structured):
        return _StructuredRows(part, first)
    if isinstance(part, Driven):
        return _DrivenRows(part, fresh, width)
    if isinstance(part, Correlated):
        return _CorrelatedRows(part, fresh, width)
    if isinstance(part, White):
        return _WhiteRows(part, fresh, width)
    raise TypeError(
        f"noise: expected parts that can be released exactly, got {type(part).__name__}"
    )


class _StructuredRows(_Rows):
    def __init__(self, part: Structured, first: int) -> None:
        self._frames = _Responses(part.plant.A, part.plant.C, part.factor)
        self._first = first

    def at(self, t: int, bits: int) -> list[Row]:
        frame = self._frames.at(t, bits)
        return [_numbered(row, self._first) for row in frame.tolist()]


class _DrivenRows(_Rows):
    has_memory = True

    def __init__(self, part: Driven, fresh: int, width: int) -> None:
        self._frames = _Responses(part.plant.A, part.plant.C, part.entry)
        self._through = ball_matrix(part.through)
        self._sizes = part.sizes.tolist()
        self._fresh = fresh
        self._width = width

    def at(self, t: int, bits: int) -> list[Row]:
        rows: list[Row] = [{} for _ in range(self._through.nrows())]
        for s in range(t + 1):
            frame = self._through if s == t else self._frames.at(t - s - 1, bits)
            start = self._fresh + s * self._width
            with working_bits(2 * bits):
                for row, values in zip(rows, frame.tolist()):
                    scaled = [value * size for value, size in zip(values, self._sizes)]
                    row.update(_numbered(scaled, start))
        return rows


class _CorrelatedRows(_Rows):
    has_memory = True

    def __init__(self, part: Correlated, fresh: int, width: int) -> None:
        self._root = part.root
        self._outputs = part.outputs
        self._fresh = fresh
        self._width = width

    def at(self, t: int, bits: int) -> list[Row]:
        p = self._outputs
        rows: list[Row] = []
        for values in self._root[t * p : (t + 1) * p].tolist():
            row: Row = {}
            for s in range(t + 1):
                start = self._fresh + s * self._width
                row.update(_numbered(values[s * p : (s + 1) * p], start))
            rows.append(row)
        return rows


class _WhiteRows(_Rows):
    def __init__(self, part: White, fresh: int, width: int) -> None:
        self._scale = part.scale.tolist()
        self._fresh = fresh
        self._width = width

    def at(self, t: int, bits: int) -> list[Row]:
        start = self._fresh + t * self._width
        return [
            _numbered([size], start + i) if size else {}
            for i, size in enumerate(self._scale)
        ]


def _numbered(values: list, start: int) -> Row:
    """Factors by the numbers of their entries; exact zeros are left out."""
    return {start + k: value for k, value in enumerate(values) if value != 0}


class _Responses:
    """C A^t V as balls that are as accurate as asked for."""

    def __init__(self, A: NDArray, C: NDArray, V: NDArray) -> None:
        self._step = ball_matrix(A)
        self._gain = ball_matrix(C)
        self._start = ball_matrix(np.asarray(V, float))
        self._precision = 0
        self._restart(2 * FIRST_BITS)

    def _restart(self, precision: int) -> None:
        self._precision = precision
        self._state = self._start
        self._frames: list[BallMatrix] = []

    def at(self, t: int, bits: int) -> BallMatrix:
        """C A^t V (p, q)."""
        if self._precision < 2 * bits:
            self._restart(2 * bits)
        while len(self._frames) <= t:
            with working_bits(self._precision):
                if not _is_accurate(self._state, bits):
                    if 2 * self._precision > _MOST_BITS:
                        raise UncertifiableError(
                            f"A^t for t = {t} is beyond {_MOST_BITS}-bit arithmetic; "
                            "shorten the horizon"
                        )
                    self._restart(2 * self._precision)
                    continue
                self._frames.append(self._gain * self._state)
                self._state = self._step * self._state
        return self._frames[t]


def _is_accurate(state: BallMatrix, bits: int) -> bool:
    """Whether the radii are below the largest entry by this many bits."""
    entries = state.entries()
    widest = max(entry.rad() for entry in entries)
    largest = max(entry.abs_upper() for entry in entries)
    return bool(widest <= largest * Ball((1, -bits)))
