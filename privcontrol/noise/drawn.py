"""Enclose noise in real numbers, more narrowly the more random bits there are.

Every sample is a sum of standard entries eta, and its factors are enclosed to as many
bits as the entries are known. They come from the numbers for which the guarantee was
certified, such as C A^t S, and not from their rounded products.

Parts are made of matrices here, and of nothing else: a device that publishes needs
neither the plant nor the promise. `privcontrol.noise.exact` makes them of a noise, and
`DrawnNoise.recipe` writes them into the file of a gateway.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..numerics.balls import (
    Ball,
    BallMatrix,
    Rational,
    RationalMatrix,
    ball_matrix,
    diagonal_balls,
    rational,
    rational_matrix,
    working_bits,
)
from ..numerics.errors import UncertifiableError
from ..numerics.saved import decode, encode
from ..privacy.law import BlockLaw
from ..privacy.release import (
    ENTRIES,
    FIRST_BITS,
    MORE_BITS,
    ROUGH_WORKING_BITS,
    Factor,
    StandardEntry,
    SystemBits,
    nearest_count,
    nearest_integer,
    noise_balls,
    settled,
)

#: Working precision, in bits, beyond which the powers of A are given up.
_MOST_BITS = 1 << 18

#: Speed: samples whose entries and responses are computed together.
TOGETHER = 16

#: Bits of a state's standard deviation to which it is kept. The first bits of an entry
#: decide nearly all roundings to the coarse grid, and those to the fine one take more.
COARSE_BITS = 112
FINE_BITS = 160

#: A row of noise: the factor of each entry of eta that takes part in it, by number.
Row = dict[int, Factor]
Entries = dict[int, StandardEntry]
#: The factors of entries with consecutive numbers, a row for each output.
Factors = Sequence[Sequence[Factor]]


class Unbounded:
    """How noise without a bound is drawn: as its samples need it."""

    #: By which rule the noise is kept within its bound, if runs depend on one.
    rule: ClassVar[str | None] = None

    @property
    def ahead(self) -> int:
        """Number of samples that are drawn when a run begins, and kept until it ends."""
        return 0

    def spans(self, start: int, stop: int) -> list[range]:
        """Return the samples that are drawn together, span by span.

        They are those for the noise of samples start .. stop - 1 that are not drawn when
        the run begins.
        """
        return [range(start, stop)]


class DrawnNoise:
    """The samples of noise as enclosures, in time order.

    Entries are numbered. Those that are drawn once come first, then those of each
    sample in turn.
    """

    #: Where noise is kept within a bound, and how it is drawn there.
    room: Unbounded = Unbounded()

    def drawn_within(self, numbers: Sequence[int]) -> Entries:
        """Return fresh entries that are within the room."""
        return self.draw(numbers)

    def drawn_for(self, spans: Iterable[range]) -> Entries:
        """Return fresh entries of those spans of samples that were not drawn before."""
        fresh: Entries = {}
        for span in spans:
            numbers = self.numbers(span.start, span.stop)
            if numbers and numbers[-1] not in self.entries:
                missing = [n for n in numbers if n not in self.entries]
                fresh |= self.drawn_within(missing)
        return fresh

    def __init__(self, family: str, outputs: int, parts: Sequence[ExactPart]) -> None:
        self.family = family
        self.outputs = outputs
        self.once = sum(part.once for part in parts)
        self.width = sum(part.width for part in parts)
        self.entries: Entries = {}
        self._entry = ENTRIES[family]
        self._source = SystemBits()
        self._parts = parts
        first = 0
        fresh = self.once
        for part in parts:
            part.first = first
            part.fresh = fresh
            part.step = self.width
            first += part.once
            fresh += part.width
        self._states = [part for part in parts if isinstance(part, StatePart)]
        #: Whether a sample depends on the entries of earlier samples.
        self.has_memory = any(part.has_memory for part in parts)
        #: Whether it depends on earlier ones through a state.
        self.has_state = bool(self._states)
        #: Whether it depends on what was drawn for earlier ones.
        self.remembers = self.has_memory or self.has_state

    def recipe(self) -> dict[str, Any] | None:
        """Return what `made` makes it of again, or None if a part cannot be written."""
        parts = [part.recipe() for part in self._parts]
        if None in parts:
            return None
        return {"family": self.family, "outputs": self.outputs, "parts": parts}

    @classmethod
    def made(cls, recipe: Mapping[str, Any]) -> DrawnNoise:
        """Return the noise of a recipe."""
        parts = []
        for written in recipe["parts"]:
            matrices = {name: decode(value) for name, value in written.items()}
            parts.append(_KINDS[matrices.pop("part")](**matrices))
        return DrawnNoise(recipe["family"], recipe["outputs"], parts)

    def numbers(self, start: int, stop: int) -> range:
        """Return the numbers of the entries that samples start .. stop - 1 add."""
        return range(self.once + start * self.width, self.once + stop * self.width)

    def draw(self, numbers: Iterable[int]) -> Entries:
        """Return fresh entries, which are not yet part of the noise."""
        entries = {number: self._entry(self._source) for number in numbers}
        for part in self._parts:
            while not part.accepts(entries):
                for number in range(part.first, part.first + part.once):
                    entries[number] = self._entry(self._source)
        if any(state.bits > COARSE_BITS for state in self._states):
            for entry in entries.values():
                entry.refine(2 * MORE_BITS)
        return entries

    def restore(self, number: int, value: int, count: int) -> None:
        """Restore an entry of which these bits were drawn before."""
        self.entries[number] = self._entry(self._source, value, count)

    def forget_before(self, t: int) -> None:
        """Drop what no sample from t on depends on."""
        for part in self._parts:
            part.forget_before(t)
        if self.has_memory:
            return
        first = self.once + t * self.width
        for number in [k for k in self.entries if self.once <= k < first]:
            del self.entries[number]

    def states(self, t: int) -> list[list[str]]:
        """Return the states before sample t, as texts."""
        found = [state.before(t, self.entries) for state in self._states]
        return [[str(value) for value in values] for values in found]

    def restore_states(self, t: int, states: Sequence[Sequence[str]]) -> None:
        """Restore states that were kept."""
        for state, texts in zip(self._states, states, strict=True):
            values = [Rational(*map(int, text.split("/"))) for text in texts]
            state.known = {t: values}

    def samples(self, times: range) -> dict[int, list[Ball | None]]:
        """Return enclosures of gamma at consecutive samples, in less time together.

        They are rough, unless there is a state, which needs all bits of its entries.
        """
        if self.has_state:
            return {t: self.sample(t) for t in times}
        with working_bits(ROUGH_WORKING_BITS):
            for number in self.numbers(times.start, times.stop):
                self.entries[number].rough()
        return {t: self.sample(t, rough=True) for t in times}

    def sample(self, t: int, *, rough: bool = False) -> list[Ball | None]:
        """Return enclosures of gamma(t) by output, None where there is no noise.

        Rough ones, of noise without a state, take less time.
        """
        bits = self._known_bits(t)
        rows = self.rows(t, bits)
        balls = noise_balls(rows, self.entries, rough=rough)
        for state in self._states:
            offset = state.offset(t, self.entries)
            with working_bits(2 * bits):
                balls = [ball + more for ball, more in zip(balls, offset, strict=True)]
        noisy = [bool(row) or self.has_state for row in rows]
        return [ball if one else None for ball, one in zip(balls, noisy, strict=True)]

    def _known_bits(self, t: int) -> int:
        """Return the most bits of an entry that takes part in gamma(t)."""
        numbers: Iterable[int] = self.entries
        if not self.has_memory:
            numbers = [*range(self.once), *self.numbers(t, t + 1)]
        known = [self.entries[k].count for k in numbers if k in self.entries]
        return max(known, default=FIRST_BITS)

    def rows(self, t: int, bits: int) -> list[Row]:
        """Return the factors of gamma(t), accurate to so many bits, by output."""
        rows: list[Row] = [{} for _ in range(self.outputs)]
        for part in self._parts:
            for start, factors in part.at(t, bits):
                for row, values in zip(rows, factors, strict=True):
                    row.update(part.row(values, start, self.entries))
        return rows


class ExactPart(ABC):
    """One part of the noise, which gives the factors of its entries at a sample.

    ``first`` is the number of the first entry that is drawn once, ``fresh`` that of the
    first entry of sample 0, and ``step`` the number of entries of all parts a sample.
    """

    has_memory = False
    name: ClassVar[str | None] = None
    once: int  # entries that are drawn once
    width: int  # entries of each sample
    first: int
    fresh: int
    step: int

    def start(self, t: int) -> int:
        """Return the number of the first of the part's entries of sample t."""
        return self.fresh + t * self.step

    @abstractmethod
    def at(self, t: int, bits: int) -> Iterator[tuple[int, Factors]]:
        """Yield factors of gamma(t) with the number of their first entry."""

    def row(self, values: Sequence[Factor], start: int, entries: Entries) -> Row:
        """Return the factors of one output by the numbers of their entries."""
        return _numbered(values, start)

    def accepts(self, entries: Entries) -> bool:
        """Return whether fresh entries are of the part's law; others are drawn again."""
        return True

    def forget_before(self, t: int) -> None:
        """Drop what no sample from t on depends on."""
        return

    def recipe(self) -> dict[str, Any] | None:
        """Return its matrices by the names that its constructor knows, as JSON."""
        return None


class _Written(ExactPart):
    """A part that keeps the matrices that it is made of."""

    def __init__(self, **matrices: NDArray[np.float64] | float) -> None:
        self._matrices = matrices

    def recipe(self) -> dict[str, Any]:
        return {"part": self.name, **encode(self._matrices)}


class _DrawnOnce(_Written):
    """C A^t S eta, of entries that are drawn once, whose law is said by more numbers.

    With a leading axis of samples A and C are those of a plant that varies.
    """

    width = 0

    def __init__(
        self,
        A: NDArray[np.float64],
        C: NDArray[np.float64],
        S: NDArray[np.float64],
        **law: NDArray[np.float64] | float,
    ) -> None:
        super().__init__(A=A, C=C, S=S, **law)
        self.once = S.shape[1]
        self._frames = _Responses(A, C, ball_matrix(S))

    def at(self, t: int, bits: int) -> Iterator[tuple[int, Factors]]:
        yield self.first, self._frames.at(t, bits)

    def forget_before(self, t: int) -> None:
        self._frames.forget_before(t)


class StructuredPart(_DrawnOnce):
    """C A^t S eta, of independent entries."""

    name = "structured"

    def __init__(
        self, A: NDArray[np.float64], C: NDArray[np.float64], S: NDArray[np.float64]
    ) -> None:
        super().__init__(A, C, S)


class RadialPart(_DrawnOnce):
    """C A^t S eta of entries eta of radial law, r Gaussian numbers times one length.

    The length is that of r + 1 other Gaussian numbers, which are entries too. With a
    ``bound`` above 0 there is no eta beyond that radius.
    """

    name = "radial"

    def __init__(
        self,
        A: NDArray[np.float64],
        C: NDArray[np.float64],
        S: NDArray[np.float64],
        bound: float,
    ) -> None:
        super().__init__(A, C, S, bound=bound)
        self._rank = S.shape[1]
        self.once = 2 * self._rank + 1
        self._bound = bound

    def row(self, values: Sequence[Factor], start: int, entries: Entries) -> Row:
        own = _numbered(values, start)
        if not own:
            return own
        numbers = self._of_length
        bits = 2 * max(entries[number].count for number in numbers)
        with working_bits(bits):
            length = _length_of(entries, numbers)
            row: Row = {number: Ball(factor) * length for number, factor in own.items()}
        # so whoever asks for more bits of the row draws more of the length as well
        return row | dict.fromkeys(numbers, Rational(0))

    def accepts(self, entries: Entries) -> bool:
        if not self._bound or self.first not in entries:
            return True
        numbers = range(self.first, self.first + self._rank)
        while True:
            with working_bits(2 * entries[self.first].count):
                size = _length_of(entries, numbers)
                size = size * _length_of(entries, self._of_length)
            most = Ball(rational(self._bound))
            if size.is_finite() and (size <= most or size > most):
                return bool(size <= most)
            for number in (*numbers, *self._of_length):
                entries[number].refine()

    @property
    def _of_length(self) -> range:
        """The numbers of the entries whose length is the factor of all others."""
        return range(self.first + self._rank, self.first + self.once)


class BlockPart(_DrawnOnce):
    """C A^t S eta of independent blocks of radial entries, each of variance one.

    A block is Gaussian numbers times one length, that of one more of them, over the root of
    their count. ``sizes`` are those of the blocks, in the order of the columns of S.
    """

    name = "blocks"

    def __init__(
        self,
        A: NDArray[np.float64],
        C: NDArray[np.float64],
        S: NDArray[np.float64],
        sizes: NDArray[np.float64],
    ) -> None:
        super().__init__(A, C, S, sizes=sizes)
        self._law = BlockLaw(tuple(map(int, sizes)))
        self.once = 2 * S.shape[1] + len(self._law.sizes)

    def row(self, values: Sequence[Factor], start: int, entries: Entries) -> Row:
        row: Row = {}
        lengths = start + len(values)
        for block, unit in zip(self._law.blocks, self._law.units, strict=True):
            numbers = range(lengths, lengths + block.stop - block.start + 1)
            lengths = numbers.stop
            own = _numbered(values[block], start + block.start)
            if not own:
                continue
            with working_bits(2 * max(entries[number].count for number in numbers)):
                length = _length_of(entries, numbers) * Ball(rational(unit))
                row |= {number: Ball(factor) * length for number, factor in own.items()}
            # so whoever asks for more bits of the row draws more of the length as well
            row |= dict.fromkeys(numbers, Rational(0))
        return row


def _length_of(entries: Entries, numbers: Iterable[int]) -> Ball:
    """Return an interval of the root of the sum of squares of entries."""
    total = Ball(0)
    for number in numbers:
        ball = entries[number].ball()
        total = total + ball * ball
    return total.sqrt()


class DrivenPart(_Written):
    """The response of (A, B, C, D) to sizes * eta, of entries of each sample."""

    name = "driven"
    once = 0
    has_memory = True

    def __init__(
        self,
        A: NDArray[np.float64],
        B: NDArray[np.float64],
        C: NDArray[np.float64],
        D: NDArray[np.float64],
        sizes: NDArray[np.float64],
    ) -> None:
        super().__init__(A=A, B=B, C=C, D=D, sizes=sizes)
        self.width = len(sizes)
        with working_bits():  # enough for products of two doubles
            scale = diagonal_balls(sizes.tolist())
            self._through = ball_matrix(D) * scale
            entering = ball_matrix(B) * scale
        self._frames = _Responses(A, C, entering)

    def at(self, t: int, bits: int) -> Iterator[tuple[int, Factors]]:
        yield self.start(t), self._through.tolist()
        for s in range(t):
            yield self.start(s), self._frames.at(t - s - 1, bits)


class CorrelatedPart(ExactPart):
    """A lower triangular root (T p, T p) times the entries of all samples.

    It is not written: a root is as large as the design.
    """

    once = 0
    has_memory = True

    def __init__(self, root: NDArray[np.float64], outputs: int) -> None:
        self.width = outputs
        self._root = root

    def at(self, t: int, bits: int) -> Iterator[tuple[int, Factors]]:
        p = self.width
        rows = self._root[t * p : (t + 1) * p]
        for s in range(t + 1):
            yield self.start(s), rows[:, s * p : (s + 1) * p].tolist()


class WhitePart(_Written):
    """Entries of each sample, of a scale (p,)."""

    name = "white"
    once = 0

    def __init__(self, scale: NDArray[np.float64]) -> None:
        super().__init__(scale=scale)
        self.width = len(scale)
        self._factors = np.diag(scale).tolist()

    def at(self, t: int, bits: int) -> Iterator[tuple[int, Factors]]:
        yield self.start(t), self._factors


class StatePart(_Written):
    """The state xi(t+1) = A xi(t) + B eta(t), rounded to a fine grid after each step.

    Rounding follows a rule that looks at the state only. It changes the shift by at
    most sqrt(T) times twice the largest rounding error times the gain from state to
    whitened output, which is evaluated once and must be negligible.

    ``root`` is that of the covariance of xi(0), and ``largest`` its largest standard
    deviation when it is stationary; it is kept to so many ``bits`` of that.
    """

    name = "filtered"

    def __init__(
        self,
        A: NDArray[np.float64],
        B: NDArray[np.float64],
        C: NDArray[np.float64],
        D: NDArray[np.float64],
        root: NDArray[np.float64],
        largest: float,
        bits: int = COARSE_BITS,
    ) -> None:
        super().__init__(A=A, B=B, C=C, D=D, root=root, largest=largest, bits=bits)
        self.bits = bits
        self.once = root.shape[1]
        self.width = B.shape[1]
        self.known: dict[int, list[Rational]] = {}
        # an autoregression moves its states along
        self._onward = [
            [(j, value) for j, value in enumerate(row) if value != 0]
            for row in rational_matrix(A).tolist()
        ]
        self._gain = rational_matrix(C)
        self._driven = B.tolist()
        self._through = D.tolist()
        self._root = root.tolist()
        self.grid = Rational(2) ** (math.frexp(largest)[1] - bits)

    def at(self, t: int, bits: int) -> Iterator[tuple[int, Factors]]:
        yield self.start(t), self._through

    def offset(self, t: int, entries: Entries) -> list[Rational]:
        """Return what the state adds to sample t."""
        state = self.before(t, entries)
        column = RationalMatrix(len(state), 1, state)
        return (self._gain * column).entries()

    def before(self, t: int, entries: Entries) -> list[Rational]:
        """Return the state before sample t, from the last one that is known."""
        if not self.known:
            root = self._root
            still = [Rational(0)] * len(root)
            self.known[0] = self._rounded(still, root, self.first, entries)
        last = t
        if t not in self.known:  # in time order, so the last one serves nearly always
            last = next(s for s in reversed(self.known) if s <= t)
        while last < t:
            state = self.known[last]
            moved = [
                sum((value * state[j] for j, value in row), Rational(0))
                for row in self._onward
            ]
            start = self.start(last)
            last += 1
            self.known[last] = self._rounded(moved, self._driven, start, entries)
        return self.known[t]

    def _rounded(
        self, values: list[Rational], factors: Factors, start: int, entries: Entries
    ) -> list[Rational]:
        """Return values + factors of entries, rounded to the grid once it is decided."""
        state = []
        for value, own in zip(values, factors, strict=True):
            row = _numbered(own, start)
            if row:
                decide = partial(nearest_count, value, step=self.grid)
                count = settled(row, entries, decide)
            else:
                count = int(nearest_integer(value / self.grid))
            state.append(count * self.grid)
        return state

    def forget_before(self, t: int) -> None:
        self.known = {s: x for s, x in self.known.items() if s >= t}


_KINDS: Mapping[str, Any] = {
    kind.name: kind
    for kind in (
        StructuredPart,
        RadialPart,
        BlockPart,
        DrivenPart,
        WhitePart,
        StatePart,
    )
}


def _numbered(values: Sequence[Factor], start: int) -> Row:
    """Return factors by the numbers of their entries, without exact zeros."""
    return {start + k: value for k, value in enumerate(values) if value != 0}


class _Responses:
    """C A^t V of a system as balls that are as accurate as asked for."""

    def __init__(
        self, A: NDArray[np.float64], C: NDArray[np.float64], V: BallMatrix
    ) -> None:
        self._varies = A.ndim == 3
        self._steps = [ball_matrix(one) for one in A.reshape(-1, *A.shape[-2:])]
        self._gains = [ball_matrix(one) for one in C.reshape(-1, *C.shape[-2:])]
        self._start = V
        self._precision = 2 * FIRST_BITS
        self._frames: dict[int, list[list[Ball]]] = {}
        self._state = V  # A^t V
        self._reached = -1  # its time

    def forget_before(self, t: int) -> None:
        """Drop earlier frames."""
        self._frames = {s: frame for s, frame in self._frames.items() if s >= t}

    def at(self, t: int, bits: int) -> list[list[Ball]]:
        """Return C A^t V (p, q)."""
        if self._precision < 2 * bits:
            self._restart(2 * bits)
        while t not in self._frames:
            with working_bits(self._precision):
                if self._goes_on(t, bits):
                    break
            if 2 * self._precision > _MOST_BITS:
                raise UncertifiableError(
                    f"A^t for t = {t} is beyond {_MOST_BITS}-bit arithmetic; shorten "
                    "the horizon"
                )
            self._restart(2 * self._precision)
        return self._frames[t]

    def _goes_on(self, t: int, bits: int) -> bool:
        """Add frames from sample t on, and return whether it is accurate there."""
        if t == self._reached + 1 and t > 0:
            first = self._steps[self._place(t - 1)] * self._state
        else:
            first = self._from_start(t)
        if not _is_accurate(first, bits):
            return False
        self._add(t, first)
        stop = t + TOGETHER
        if self._varies:
            stop = min(stop, len(self._gains))
        states = [first]
        for s in range(t, stop - 1):
            states.append(self._steps[self._place(s)] * states[-1])
        if _is_accurate(states[-1], bits):
            for s, state in enumerate(states[1:], t + 1):
                self._add(s, state)
        return True

    def _add(self, t: int, state: BallMatrix) -> None:
        """Add the frame of a state A^t V."""
        self._state = state
        self._reached = t
        self._frames[t] = (self._gains[self._place(t)] * state).tolist()

    def _place(self, t: int) -> int:
        """Return where the matrices of sample t stand."""
        return t if self._varies else 0

    def _from_start(self, t: int) -> BallMatrix:
        """Return A^t V, or A_{t-1} ... A_0 V."""
        if not self._varies:
            return self._steps[0] ** t * self._start
        state = self._start
        for step in self._steps[:t]:
            state = step * state
        return state

    def _restart(self, precision: int) -> None:
        self._precision = precision
        self._frames = {}
        self._reached = -1


def _is_accurate(state: BallMatrix, bits: int) -> bool:
    """Return whether the radii are below the largest entry by this many bits."""
    entries = state.entries()
    widest = max([entry.rad() for entry in entries])
    largest = max([entry.abs_upper() for entry in entries])
    part = Ball((1, -bits))
    return bool(widest <= largest * part)
