"""Enclose output noise in real numbers, more narrowly the more random bits there are.

Every sample is a sum of standard entries eta, and its factors are enclosed to as many
bits as the entries are known. They come from the numbers for which the guarantee was
certified, such as C A^t S, and not from their rounded products.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import partial, singledispatch

import numpy as np
from numpy.typing import NDArray

from ..core._linalg import (
    Ball,
    BallMatrix,
    Rational,
    RationalMatrix,
    ball_matrix,
    diagonal_balls,
    rational_matrix,
    working_bits,
)
from ..core.errors import PrivacyError, UncertifiableError
from ..core.release import (
    ENTRIES,
    FIRST_BITS,
    Factor,
    StandardEntry,
    SystemBits,
    nearest_count,
    nearest_integer,
    noise_balls,
    settled,
)
from ..systems.linear import LinearSystem
from ..systems.powers import largest_gain
from .parts import (
    Correlated,
    Driven,
    Filtered,
    NoisePart,
    Structured,
    SummedNoise,
    White,
)

#: Working precision, in bits, beyond which the powers of A are given up.
_MOST_BITS = 1 << 18

#: Bits of a state's standard deviation to which it is kept.
_STATE_BITS = 160
_MORE_BITS_OF_STATES = 128
#: Samples over which the rounding of states is negligible, and what that means for y.
_LONGEST_RUN = 1e18
_NEGLIGIBLE = 1e-15

#: A row of noise: the factor of each entry of eta that takes part in it, by number.
Row = dict[int, Factor]
Entries = dict[int, StandardEntry]
#: The factors of entries with consecutive numbers, a row for each output.
Factors = Sequence[Sequence[Factor]]


class ExactNoise:
    """The samples of output noise as enclosures, in time order.

    Entries are numbered. Those that are drawn once come first, then those of each
    sample in turn.
    """

    def __init__(self, noise: SummedNoise) -> None:
        self.once = noise.total.once
        self.width = noise.total.width
        self.outputs = noise.outputs
        self.entries: Entries = {}
        if noise.family not in ENTRIES:
            raise PrivacyError(
                f"noise: a gateway publishes Gaussian or Laplace noise, got {noise.family!r} "
                "noise, whose entries share one length; publish a whole run with "
                "noise.design.release"
            )
        self._entry = ENTRIES[noise.family]
        self._source = SystemBits()
        self._parts: list[ExactPart] = []
        first = 0
        fresh = self.once
        for part in noise.parts:
            exact = exact_part(part)
            exact.first = first
            exact.fresh = fresh
            exact.step = self.width
            self._parts.append(exact)
            first += part.once
            fresh += part.width
        self._states = [part for part in self._parts if isinstance(part, _State)]
        for state in self._states:
            state.check_rounding(noise.total.white)

    @property
    def has_memory(self) -> bool:
        """Return whether a sample depends on the entries of earlier samples."""
        return any(part.has_memory for part in self._parts)

    @property
    def has_state(self) -> bool:
        """Return whether a sample depends on earlier ones through a state."""
        return bool(self._states)

    @property
    def remembers(self) -> bool:
        """Return whether a sample depends on what was drawn for earlier ones."""
        return self.has_memory or self.has_state

    def numbers(self, start: int, stop: int) -> range:
        """Return the numbers of the entries that samples start .. stop - 1 add."""
        return range(self.once + start * self.width, self.once + stop * self.width)

    def draw(self, numbers: Iterable[int]) -> Entries:
        """Return fresh entries, which are not yet part of the noise."""
        entries = {number: self._entry(self._source) for number in numbers}
        if self.has_state:
            for entry in entries.values():
                entry.refine(_MORE_BITS_OF_STATES)
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

    def sample(self, t: int) -> list[Ball | None]:
        """Return enclosures of gamma(t) by output, None where there is no noise."""
        counts = [entry.count for entry in self.entries.values()]
        bits = max(counts, default=FIRST_BITS)
        rows = self.rows(t, bits)
        noisy = [i for i, row in enumerate(rows) if row]
        sample: list[Ball | None] = [None] * self.outputs
        if not noisy:
            return sample
        offsets = [Rational(0)] * self.outputs
        for state in self._states:
            more = state.offset(t, self.entries)
            offsets = [a + b for a, b in zip(offsets, more)]
        balls = noise_balls([rows[i] for i in noisy], self.entries)
        with working_bits(2 * bits):
            for i, ball in zip(noisy, balls):
                sample[i] = ball + Ball(offsets[i])
        return sample

    def rows(self, t: int, bits: int) -> list[Row]:
        """Return the factors of gamma(t), accurate to so many bits, by output."""
        rows: list[Row] = [{} for _ in range(self.outputs)]
        for part in self._parts:
            for start, factors in part.at(t, bits):
                for row, values in zip(rows, factors):
                    row.update(_numbered(values, start))
        return rows


class ExactPart(ABC):
    """One part of the noise, which gives the factors of its entries at a sample.

    ``first`` is the number of the first entry that is drawn once, ``fresh`` that of the
    first entry of sample 0, and ``step`` the number of entries of all parts a sample.
    """

    has_memory = False
    first: int
    fresh: int
    step: int

    def start(self, t: int) -> int:
        """Return the number of the first of the part's entries of sample t."""
        return self.fresh + t * self.step

    @abstractmethod
    def at(self, t: int, bits: int) -> Iterator[tuple[int, Factors]]:
        """Yield factors of gamma(t) with the number of their first entry."""

    def forget_before(self, t: int) -> None:
        """Drop what no sample from t on depends on."""
        return None


@singledispatch
def exact_part(part: NoisePart) -> ExactPart:
    """Return a part of noise as a gateway publishes it.

    Another family of noise registers its own, ``@exact_part.register(Family)``.
    """
    raise PrivacyError(
        f"noise: expected parts that can be published exactly, got {part}; register "
        "how with privcontrol.noise.exact.exact_part"
    )


@exact_part.register(Structured)
class _Structured(ExactPart):
    def __init__(self, part: Structured) -> None:
        self._frames = _Responses(part.plant, ball_matrix(part.factor))

    def at(self, t: int, bits: int) -> Iterator[tuple[int, Factors]]:
        yield self.first, self._frames.at(t, bits).tolist()

    def forget_before(self, t: int) -> None:
        self._frames.forget_before(t)


@exact_part.register(Driven)
class _Driven(ExactPart):
    has_memory = True

    def __init__(self, part: Driven) -> None:
        with working_bits():  # enough for products of two doubles
            sizes = diagonal_balls(part.sizes.tolist())
            self._through = ball_matrix(part.response.D) * sizes
            entering = ball_matrix(part.response.B) * sizes
        self._frames = _Responses(part.response, entering)

    def at(self, t: int, bits: int) -> Iterator[tuple[int, Factors]]:
        yield self.start(t), self._through.tolist()
        for s in range(t):
            yield self.start(s), self._frames.at(t - s - 1, bits).tolist()


@exact_part.register(Correlated)
class _Correlated(ExactPart):
    has_memory = True

    def __init__(self, part: Correlated) -> None:
        self._part = part

    def at(self, t: int, bits: int) -> Iterator[tuple[int, Factors]]:
        p = self._part.outputs
        rows = self._part.root[t * p : (t + 1) * p]
        for s in range(t + 1):
            yield self.start(s), rows[:, s * p : (s + 1) * p].tolist()


@exact_part.register(White)
class _White(ExactPart):
    def __init__(self, part: White) -> None:
        self._factors = np.diag(part.scale).tolist()

    def at(self, t: int, bits: int) -> Iterator[tuple[int, Factors]]:
        yield self.start(t), self._factors


@exact_part.register(Filtered)
class _State(ExactPart):
    """The state xi(t+1) = A xi(t) + B eta(t), rounded to a fine grid after each step.

    Rounding follows a rule that looks at the state only. It changes the shift by at
    most sqrt(T) times twice the largest rounding error times the gain from state to
    whitened output, which is evaluated once and must be negligible.
    """

    def __init__(self, part: Filtered) -> None:
        self.known: dict[int, list[Rational]] = {}
        self._part = part
        system = part.system
        self._onward = rational_matrix(system.A)
        self._gain = rational_matrix(system.C)
        self._driven = system.B.tolist()
        self._through = system.D.tolist()
        largest = np.sqrt(np.diag(part.state_covariance).max(initial=0.0))
        self._grid = Rational(2) ** (math.frexp(largest)[1] - _STATE_BITS)

    def check_rounding(self, floor: NDArray) -> None:
        """Refuse noise in which the rounding of the state could be seen.

        A floor (p,) hides it, and so does the noise itself, where a system undoes it.
        """
        part = self._part
        order = part.system.order
        if not order:
            return
        # from errors of the state to what is left of them
        left = []
        if floor.all():
            seen = part.system.C / floor[:, None]
            left.append((part.system.A, seen))
        if part.response is None:
            shaping = part.shaping
            left.append((shaping.inverse().A, np.linalg.solve(shaping.D, shaping.C)))
        if not left:
            raise PrivacyError(
                "noise: the rounding of its state would be seen, because its outputs "
                "outnumber the secret signals; add a white floor (floor=...)"
            )
        error = 2 * math.sqrt(order) * float(self._grid) * math.sqrt(_LONGEST_RUN)
        for A, C in left:
            still = np.zeros((len(C), order))
            gain = largest_gain(LinearSystem(A, np.eye(order), C, still))
            if gain * error < _NEGLIGIBLE:
                return
        raise PrivacyError(
            "noise: the rounding of its state is not negligible, because its inverse is "
            "almost unstable or the floor vanishes beside it; raise the white floor "
            "(floor=...)"
        )

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
            root = self._part.state_root.tolist()
            still = [Rational(0)] * len(root)
            self.known[0] = self._rounded(still, root, self.first, entries)
        last = max(s for s in self.known if s <= t)
        while last < t:
            state = self.known[last]
            moved = (self._onward * RationalMatrix(len(state), 1, state)).entries()
            start = self.start(last)
            last += 1
            self.known[last] = self._rounded(moved, self._driven, start, entries)
        return self.known[t]

    def _rounded(
        self, values: list[Rational], factors: Factors, start: int, entries: Entries
    ) -> list[Rational]:
        """Return values + factors of entries, rounded to the grid once it is decided."""
        state = []
        for value, own in zip(values, factors):
            row = _numbered(own, start)
            if row:
                decide = partial(nearest_count, value, step=self._grid)
                count = settled(row, entries, decide)
            else:
                count = nearest_integer(value / self._grid)
            state.append(count * self._grid)
        return state

    def forget_before(self, t: int) -> None:
        self.known = {s: x for s, x in self.known.items() if s >= t}


def _numbered(values: Sequence[Factor], start: int) -> Row:
    """Return factors by the numbers of their entries, without exact zeros."""
    return {start + k: value for k, value in enumerate(values) if value != 0}


class _Responses:
    """C A^t V of a system as balls that are as accurate as asked for."""

    def __init__(self, system: LinearSystem, V: BallMatrix) -> None:
        self._step = ball_matrix(system.A)
        self._gain = ball_matrix(system.C)
        self._start = V
        self._precision = 2 * FIRST_BITS
        self._frames: dict[int, BallMatrix] = {}
        self._state = V  # A^t V
        self._reached = -1  # its time

    def forget_before(self, t: int) -> None:
        """Drop earlier frames."""
        self._frames = {s: frame for s, frame in self._frames.items() if s >= t}

    def at(self, t: int, bits: int) -> BallMatrix:
        """Return C A^t V (p, q)."""
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
    """Return whether the radii are below the largest entry by this many bits."""
    entries = state.entries()
    widest = max(entry.rad() for entry in entries)
    largest = max(entry.abs_upper() for entry in entries)
    part = Ball((1, -bits))
    return bool(widest <= largest * part)
