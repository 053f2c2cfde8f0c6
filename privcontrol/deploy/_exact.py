"""Enclose output noise in real numbers, more narrowly the more random bits there are.

Every sample is a sum of standard entries eta, and its factors are enclosed to as many
bits as the entries are known. They come from the numbers for which the guarantee was
certified, such as C A^t S, and not from their rounded products.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core._balls import (
    Ball,
    BallMatrix,
    Rational,
    RationalMatrix,
    ball_matrix,
    rational,
    rational_matrix,
    working_bits,
)
from ..core.errors import PrivacyError, UncertifiableError
from ..core.release import (
    ENTRIES,
    FIRST_BITS,
    StandardEntry,
    SystemBits,
    nearest_count,
    nearest_integer,
    noise_balls,
)
from ..designs.output_noise import OutputNoise
from ..noise.parts import Correlated, Driven, Filtered, NoisePart, Structured, White
from ..systems.linear import LinearSystem, spectral_radius

#: Working precision, in bits, beyond which the powers of A are given up.
_MOST_BITS = 1 << 18

#: Bits of a state's standard deviation to which it is kept.
_STATE_BITS = 160
_MORE_BITS_OF_STATES = 128
#: Samples over which the rounding of states is negligible, and what that means for y.
_LONGEST_RUN = 1e18
_NEGLIGIBLE = 1e-15
#: Terms of the gain from the rounding of a state that are summed.
_SUMMED = 10_000

#: A row of noise: the factor of each entry of eta that takes part in it, by number.
Row = dict[int, Rational | float]
Entries = dict[int, StandardEntry]


class ExactNoise:
    """The samples of output noise as enclosures, in time order.

    Entries are numbered. Those that are drawn once come first, then those of each
    sample in turn.
    """

    def __init__(self, noise: OutputNoise) -> None:
        self.once = noise.total.once
        self.width = noise.total.width
        self.outputs = noise.outputs
        self.entries: Entries = {}
        self._entry = ENTRIES[noise.family]
        self._source = SystemBits()
        self._rows: list[_Rows] = []
        first = 0
        fresh = 0
        for part in noise.parts:
            rows = _ROWS[type(part)](part, noise, first, self.once + fresh)
            self._rows.append(rows)
            first += part.once
            fresh += part.width

    @property
    def has_memory(self) -> bool:
        """Whether a sample depends on the entries of earlier samples."""
        return any(rows.has_memory for rows in self._rows)

    @property
    def has_state(self) -> bool:
        """Whether a sample depends on earlier ones through a state."""
        return any(rows.has_state for rows in self._rows)

    @property
    def remembers(self) -> bool:
        """Whether a sample depends on what was drawn for earlier ones."""
        return self.has_memory or self.has_state

    def numbers(self, start: int, stop: int) -> range:
        """Numbers of the entries that samples start .. stop - 1 add."""
        return range(self.once + start * self.width, self.once + stop * self.width)

    def draw(self, numbers: range) -> dict[int, StandardEntry]:
        """Fresh entries, which are not yet part of the noise."""
        entries = {number: self._entry(self._source) for number in numbers}
        if self.has_state:
            for entry in entries.values():
                entry.refine(_MORE_BITS_OF_STATES)
        return entries

    def restore(self, number: int, value: int, count: int) -> None:
        """Take up an entry of which these bits were drawn before."""
        self.entries[number] = self._entry(self._source, value, count)

    def forget_before(self, t: int) -> None:
        """Drop what no sample from t on depends on."""
        for rows in self._rows:
            rows.forget_before(t)
        if self.has_memory:
            return
        first = self.once + t * self.width
        for number in [k for k in self.entries if self.once <= k < first]:
            del self.entries[number]

    def states(self, t: int) -> list[list[str]]:
        """The states of all parts before sample t, as texts."""
        return [rows.state(t, self.entries) for rows in self._rows]

    def restore_states(self, t: int, states: Sequence[Sequence[str]]) -> None:
        """Take up states that were kept."""
        for rows, state in zip(self._rows, states):
            rows.restore_state(t, state)

    def sample(self, t: int) -> list[Ball | None]:
        """Enclosures of gamma(t), one for each output, None where there is no noise."""
        counts = [entry.count for entry in self.entries.values()]
        bits = max(counts, default=FIRST_BITS)
        rows = self.rows(t, bits)
        noisy = [i for i, row in enumerate(rows) if row]
        sample: list[Ball | None] = [None] * self.outputs
        if not noisy:
            return sample
        offsets = [Rational(0)] * self.outputs
        for part in self._rows:
            more = part.offset(t, self.entries)
            offsets = [a + b for a, b in zip(offsets, more)]
        balls = noise_balls([rows[i] for i in noisy], self.entries)
        with working_bits(2 * bits):
            for i, ball in zip(noisy, balls):
                sample[i] = ball + Ball(offsets[i])
        return sample

    def rows(self, t: int, bits: int) -> list[Row]:
        """The factors of gamma(t), one row for each output."""
        rows: list[Row] = [{} for _ in range(self.outputs)]
        for part in self._rows:
            for row, more in zip(rows, part.at(t, bits)):
                row.update(more)
        return rows


class _Rows(ABC):
    """The factors of one part of the noise.

    ``first`` is the number of the first entry that is drawn once, and ``fresh`` that of
    the first entry of sample 0.
    """

    has_memory = False
    has_state = False

    def __init__(self, part: Any, noise: OutputNoise, first: int, fresh: int) -> None:
        self.part = part
        self.first = first
        self._fresh = fresh
        self._width = noise.total.width
        self._outputs = noise.outputs

    def start(self, t: int) -> int:
        """Number of the first of the part's entries of sample t."""
        return self._fresh + t * self._width

    @abstractmethod
    def at(self, t: int, bits: int) -> list[Row]:
        """Factors of the part's entries at sample t, accurate to so many bits."""

    def offset(self, t: int, entries: Entries) -> list[Rational]:
        """What the part's state adds to sample t."""
        return [Rational(0)] * self._outputs

    def state(self, t: int, entries: Entries) -> list[str]:
        """The part's state before sample t."""
        return []

    def restore_state(self, t: int, state: Sequence[str]) -> None:
        """Take up a state."""
        if state:
            raise ValueError("path: the file holds a state of noise that has none")

    def forget_before(self, t: int) -> None:
        """Drop states before sample t."""
        return None


class _StructuredRows(_Rows):
    @cached_property
    def _frames(self) -> _Responses:
        return _Responses(self.part.plant, self.part.factor)

    def at(self, t: int, bits: int) -> list[Row]:
        frame = self._frames.at(t, bits)
        return [_numbered(row, self.first) for row in frame.tolist()]

    def forget_before(self, t: int) -> None:
        self._frames.forget_before(t)


class _DrivenRows(_Rows):
    has_memory = True

    @cached_property
    def _frames(self) -> _Responses:
        return _Responses(self.part.response, self.part.response.B)

    @cached_property
    def _through(self) -> BallMatrix:
        return ball_matrix(self.part.response.D)

    def at(self, t: int, bits: int) -> list[Row]:
        rows: list[Row] = [{} for _ in range(self._outputs)]
        sizes = self.part.sizes.tolist()
        for s in range(t + 1):
            frame = self._frame(t - s, bits)
            start = self.start(s)
            with working_bits(2 * bits):
                for row, values in zip(rows, frame.tolist()):
                    scaled = [value * size for value, size in zip(values, sizes)]
                    row.update(_numbered(scaled, start))
        return rows

    def _frame(self, lag: int, bits: int) -> BallMatrix:
        """What a disturbance adds to the outputs so many samples later."""
        if lag == 0:
            return self._through
        return self._frames.at(lag - 1, bits)


class _CorrelatedRows(_Rows):
    has_memory = True

    def at(self, t: int, bits: int) -> list[Row]:
        p = self._outputs
        rows: list[Row] = []
        for values in self.part.root[t * p : (t + 1) * p].tolist():
            row: Row = {}
            for s in range(t + 1):
                row.update(_numbered(values[s * p : (s + 1) * p], self.start(s)))
            rows.append(row)
        return rows


class _WhiteRows(_Rows):
    def at(self, t: int, bits: int) -> list[Row]:
        start = self.start(t)
        sizes = enumerate(self.part.scale.tolist())
        return [_numbered([size], start + i) for i, size in sizes]


class _FilteredRows(_Rows):
    """The state xi(t+1) = A xi(t) + B eta(t), rounded to a fine grid after each step.

    Rounding follows a rule that looks at the state only. It changes the shift by at
    most sqrt(T) times twice the largest rounding error times the gain from state to
    whitened output, which is evaluated once and must be negligible.
    """

    has_state = True

    def __init__(
        self, part: Filtered, noise: OutputNoise, first: int, fresh: int
    ) -> None:
        super().__init__(part, noise, first, fresh)
        system = part.system
        self._step = rational_matrix(system.A)
        self._entry = system.B.tolist()
        self._gain = system.C.tolist()
        self._through = system.D.tolist()
        self._states: dict[int, list[Rational]] = {}
        largest = np.sqrt(np.diag(part.state_covariance).max(initial=0.0))
        self._grid = Rational(2) ** (math.frexp(largest)[1] - _STATE_BITS)
        # beside a floor every sample has independent noise of its own
        if system.order and not noise.total.white.all():
            self._check_rounding(part, float(self._grid))

    @staticmethod
    def _check_rounding(part: Filtered, grid: float) -> None:
        """Refuse noise in which the rounding of the state could be seen."""
        shaping = part.shaping
        if part.response is not None:
            raise PrivacyError(
                "noise: the rounding of its state would be seen, because its outputs "
                "outnumber the secret signals; add a white floor (floor=...)"
            )
        inverse = shaping.inverse()
        gain = LinearSystem(
            inverse.A,
            np.eye(inverse.order),
            np.linalg.solve(shaping.D, shaping.C),
            np.zeros((len(shaping.D), inverse.order)),
        )
        samples = min(60 / max(1.0 - spectral_radius(inverse), 1e-12), _SUMMED)
        response = gain.impulse_response(int(samples) + 2)
        size = 2 * float(np.linalg.norm(response, axis=(1, 2)).sum())
        error = math.sqrt(inverse.order) * grid
        if not size * error * math.sqrt(_LONGEST_RUN) < _NEGLIGIBLE:
            raise PrivacyError(
                "noise: the rounding of its state is not negligible, because its "
                "inverse is almost unstable; add a white floor (floor=...)"
            )

    def at(self, t: int, bits: int) -> list[Row]:
        return [_numbered(row, self.start(t)) for row in self._through]

    def offset(self, t: int, entries: Entries) -> list[Rational]:
        state = self._reached(t, entries)
        offsets = []
        for row in self._gain:
            terms = [rational(c) * x for c, x in zip(row, state)]
            offsets.append(sum(terms, Rational(0)))
        return offsets

    def _reached(self, t: int, entries: Entries) -> list[Rational]:
        """The state before sample t, from the last one that is known."""
        if not self._states:
            root = self.part.state_root.tolist()
            rows = [_numbered(row, self.first) for row in root]
            still = [Rational(0)] * len(rows)
            self._states[0] = self._rounded(still, rows, entries)
        last = max(s for s in self._states if s <= t)
        while last < t:
            state = self._states[last]
            column = RationalMatrix(len(state), 1, state)
            moved = (self._step * column).entries()
            rows = [_numbered(row, self.start(last)) for row in self._entry]
            last += 1
            self._states[last] = self._rounded(moved, rows, entries)
        return self._states[t]

    def _rounded(
        self, values: list[Rational], rows: list[Row], entries: Entries
    ) -> list[Rational]:
        """values + rows of entries, each rounded to the grid once it is decided."""
        state = []
        for value, row in zip(values, rows):
            count = None if row else nearest_integer(value / self._grid)
            while count is None:
                (ball,) = noise_balls([row], entries)
                count = nearest_count(value, ball, self._grid)
                if count is None:
                    for number in row:
                        entries[number].refine()
            state.append(count * self._grid)
        return state

    def state(self, t: int, entries: Entries) -> list[str]:
        return [str(value) for value in self._reached(t, entries)]

    def restore_state(self, t: int, state: Sequence[str]) -> None:
        self._states = {t: [Rational(*map(int, x.split("/"))) for x in state]}

    def forget_before(self, t: int) -> None:
        self._states = {s: x for s, x in self._states.items() if s >= t}


_ROWS: dict[type[NoisePart], type[_Rows]] = {
    Structured: _StructuredRows,
    Driven: _DrivenRows,
    Correlated: _CorrelatedRows,
    White: _WhiteRows,
    Filtered: _FilteredRows,
}


def _numbered(values: list, start: int) -> Row:
    """Factors by the numbers of their entries, without exact zeros."""
    return {start + k: value for k, value in enumerate(values) if value != 0}


class _Responses:
    """C A^t V of a system as balls that are as accurate as asked for."""

    def __init__(self, system: LinearSystem, V: NDArray) -> None:
        self._step = ball_matrix(system.A)
        self._gain = ball_matrix(system.C)
        self._start = ball_matrix(V)
        self._precision = 2 * FIRST_BITS
        self._frames: dict[int, BallMatrix] = {}
        self._state = self._start  # A^t V
        self._reached = -1  # its time

    def forget_before(self, t: int) -> None:
        """Drop earlier frames."""
        self._frames = {s: frame for s, frame in self._frames.items() if s >= t}

    def at(self, t: int, bits: int) -> BallMatrix:
        """C A^t V (p, q)."""
        if self._precision < 2 * bits:
            self._restart(2 * bits)
        while t not in self._frames:
            with working_bits(self._precision):
                if t == self._reached + 1 and t > 0:
                    state = self._step * self._state
                else:
                    state = self._step**t * self._start
                if _is_accurate(state, bits):
                    self._state = state
                    self._reached = t
                    self._frames[t] = self._gain * state
                    break
            if 2 * self._precision > _MOST_BITS:
                raise UncertifiableError(
                    f"A^t for t = {t} is beyond {_MOST_BITS}-bit arithmetic; shorten "
                    "the horizon"
                )
            self._restart(2 * self._precision)
        return self._frames[t]

    def _restart(self, precision: int) -> None:
        self._precision = precision
        self._frames = {}
        self._reached = -1


def _is_accurate(state: BallMatrix, bits: int) -> bool:
    """Whether the radii are below the largest entry by this many bits."""
    entries = state.entries()
    widest = max(entry.rad() for entry in entries)
    largest = max(entry.abs_upper() for entry in entries)
    part = Ball((1, -bits))
    return bool(widest <= largest * part)
