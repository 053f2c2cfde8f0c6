"""Publish readings with noise that was drawn exactly, one sample at a time.

A publisher knows the matrices of its noise, the names of its outputs and its file. What
the noise promises, and of what plant, it need not know: so the command of a device starts
without python-control and SciPy. `Gateway` adds the promise and the ledger.
"""

from __future__ import annotations

import hashlib
import logging
import math
import secrets
import time
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..noise.drawn import TOGETHER, DrawnNoise, Entries
from ..numerics.balls import DECIDING_BITS, Ball, Rational
from ..numerics.checks import sample_index
from ..numerics.errors import PrivacyError, UncertifiableError
from ..numerics.saved import as_path, decode
from ..privacy.release import (
    StandardEntry,
    Step,
    check_counted,
    exact_numbers,
    on_steps,
    plain_numbers,
    roundings,
    step_sizes,
)
from ..privacy.store import (
    FileStore,
    Here,
    Kind,
    Store,
    another_copy,
    in_transaction,
    this_process,
)
from .worker import Task, Worker

if TYPE_CHECKING:
    from ..privacy.ledger import PrivacyLedger

_LOG = logging.getLogger("privcontrol")

FORMAT = "privcontrol gateway 4"

KIND = Kind(
    "gateway",
    0o600,
    "nothing is published. A new gateway that continues the run publishes another "
    "window of it: see start in Gateway",
)
#: Most samples in a block. A block lasts about a second.
LARGEST_BLOCK = 256
#: Speed: most samples in a block where those before it took less than a second.
_LARGEST_OF_FAST = 1024
#: Speed: seconds for which noise is evaluated before a sample that waits is published.
_PASSING_ON = 5e-4
#: A finite run has at least so many blocks, unless it is faster than its samples.
LEAST_BLOCKS = 16
#: Longest jump over samples on which the later noise depends. It takes some seconds.
_LONGEST_JUMP = 50_000
#: Speed: seconds for which a device takes its file to be where it saw it.
_SEEN = 2e-3


_here = Here()


@dataclass(frozen=True)
class _Block:
    """Samples whose random bits are kept, with enclosures of their noise."""

    start: int
    stop: int
    samples: dict[int, list[Ball | None]]


class Signals(NamedTuple):
    """What the outputs are called, seconds between two samples, and how many there are."""

    names: tuple[str, ...]
    step: float
    horizon: float


class Publisher:
    """Publish a plant's outputs with noise from a file that a `Gateway` made.

    Threads may share a publisher. Processes may not: one process at a time holds the
    file. `taken_up` makes one.
    """

    def _begin(
        self,
        signals: Signals,
        exact: DrawnNoise,
        store: Store,
        ledger: PrivacyLedger | None,
    ) -> list[dict[str, Any]]:
        """Set all attributes, and return what was drawn before."""
        self._signals = signals
        self._exact = exact
        self._store = store
        # what is written from now on is found before the next sample
        self._known = store.snapshot()
        opening, *draws = store.entries()
        self._identity = opening["identity"]
        self._note = opening["note"]
        self._resolution = opening["resolution"]
        self._steps: list[Rational] | None = None
        if self._resolution is not None:
            self._steps = step_sizes(self._resolution, "resolution", exact.outputs)
        self._grid = opening["grid"]
        self._rounding = roundings(self._grid, exact.outputs)
        self._least_block = opening["block"] or _block_size(signals)
        self._largest_block = opening["block"] or _LARGEST_OF_FAST
        self._ledger = ledger
        self._owes = True  # until this ledger is known to hold the charge
        self._process = this_process()
        self._next = 0
        self._block: _Block | None = None
        self._size = self._least_block  # of the next block
        self._taken = math.nan  # when the first sample of the block was asked for
        self._looked = -math.inf  # when the file was last seen in its place
        self._trust = 0.0  # seconds for which it is taken to be there still
        self._ahead: Task | None = None
        # It alone draws and writes, so nothing interrupts it: signals go to the main
        # thread, which only waits.
        self._worker = Worker()
        self._closed = False
        self._lock = Lock()
        return draws

    @property
    def identity(self) -> str:
        """The name that distinguishes this gateway's noise from any other."""
        return self._identity

    @property
    def signals(self) -> Signals:
        """Names of the outputs, the step and the horizon."""
        return self._signals

    def _check_steps(
        self, grid: Step | list[str] | None, resolution: Step | list[str] | None
    ) -> None:
        """Refuse a grid or a resolution that the file was not made with.

        Parameters
        ----------
        grid, resolution : number, or list of str
            Steps of the published and of the sensor's values; None asks nothing.

        Raises
        ------
        PrivacyError
            If the file was made with others.
        """
        for name, given in (("grid", grid), ("resolution", resolution)):
            if given is None:
                continue
            kept = self._grid if name == "grid" else self._resolution
            wanted = step_sizes(given, name, len(self._signals.names))
            if [str(step) for step in wanted] != kept:
                raise PrivacyError(
                    f"--{name}: the file at {str(self._store.path)!r} was made with "
                    f"{kept}; leave --{name} out, or pass the same"
                )

    def _check_known(self, known: int | None) -> None:
        """Refuse a file that is behind an index that is known elsewhere."""
        if known is None:
            return
        known = sample_index(known, "known", math.inf)
        if self._unused < known:
            raise another_copy(known)

    def _restore(self, draws: list[dict[str, Any]]) -> None:
        """Restore what was drawn before."""
        once = {"first": 0, "bits": self._state["once"] or [], "states": []}
        for draw in [once, *draws]:
            for number, text in enumerate(draw["bits"], draw["first"]):
                value, count = text.split("/")
                self._exact.restore(number, int(value, 16), int(count))
            if draw["states"]:
                self._exact.restore_states(draw["start"], draw["states"])
        self._next = self._unused
        if not self._exact.has_state:
            self._exact.forget_before(self._unused)
        _LOG.info("gateway %s resumed at sample %d", self._identity[:8], self._next)

    @property
    def _state(self) -> dict[str, Any]:
        return self._known.state

    @property
    def _committed(self) -> int:
        """Samples before this one were drawn, and may have been published."""
        return self._state["committed"]

    @property
    def _unused(self) -> int:
        """The first sample that was certainly not published."""
        unused = self._state["unused"]
        return self._committed if unused is None else unused

    @property
    def remaining(self) -> int | float:
        """Number of samples that can still be published, inf without a horizon."""
        return self._signals.horizon - self._next

    @property
    def next_index(self) -> int:
        """Index of the next sample."""
        return self._next

    @property
    def longest_jump(self) -> int | float:
        """Most samples ahead of the next one, inf where no noise depends on them."""
        return _LONGEST_JUMP if self._exact.remembers else math.inf

    def publish(
        self,
        y: ArrayLike | Mapping[str, float],
        index: int | None = None,
        *,
        counts: bool = False,
    ) -> NDArray[np.float64]:
        """Return the private output for a reading.

        Parameters
        ----------
        y : array_like, shape (p,), or mapping
            The plant's outputs at this sample: a number where there is one output, or a
            mapping by output name. A number is a value in the output's unit, whatever
            its type: 24, 24.0 and Fraction(24) are the same reading.
        index : int, optional
            Of the sample, if earlier ones were lost; the next one by default. It cannot
            go back.
        counts : bool, optional
            The numbers are integers that count steps of ``resolution``, as an
            analogue-to-digital converter gives them.

        Returns
        -------
        ndarray, shape (p,)

        Raises
        ------
        PrivacyError
            After the horizon, for an index that was passed, and where the ledger knows
            that another copy of the file has published further. In a handler of signals
            that interrupted a call of this thread, and in a forked process.
        BudgetExceededError
            If the ledger does not cover the run; nothing was published.
        OSError
            If the file cannot be written or is gone; nothing was published.
        ValueError, TypeError
            If the reading is no vector of p finite numbers (True and False are none),
            a count is no integer or has no ``resolution``, or the index is too far
            ahead. No message holds an entry.
        """
        values = self._reading(y, counts)
        self._check_caller()
        with _here.entered(), self._lock:
            return np.array(self._published(values, index))

    def _publish_each(
        self,
        readings: Iterable[tuple[int, list[float]]],
        published: list[list[float]],
    ) -> None:
        """Do as `publish` for readings with their indices.

        Each result is appended when it is known, so an error leaves those before it.
        """
        self._check_caller()
        with _here.entered(), self._lock:
            for index, y in readings:
                values = self._reading(y, counts=False)
                published.append(self._published(values, index))

    def _published(self, values: list[Rational], index: int | None) -> list[float]:
        """Return the private output for exact readings, inside the lock."""
        t = self._checked_index(index)
        block = self._block_of(t)
        self._next = t + 1  # an interrupted call loses its sample
        rounded = []
        for i, enclosure in enumerate(block.samples[t]):
            rounded.append(self._rounded(values[i], enclosure, t, i))
        return rounded

    def _rounded(
        self, value: Rational, enclosure: Ball | None, t: int, output: int
    ) -> float:
        """Round the sum of a reading and the noise of an output."""
        rounding = self._rounding[output]
        if enclosure is None:
            return rounding.number(value)
        rounded = rounding.ball(value, enclosure)
        work = self._enclosed
        while rounded is None:
            narrower = self._worker.do(work, t, output)
            rounded = rounding.ball(value, narrower)
            work = self._narrower
        return rounded

    def _reading(
        self, y: ArrayLike | Mapping[str, float], counts: bool
    ) -> list[Rational]:
        """Return the reading as rational numbers."""
        names = self._signals.names
        if isinstance(y, list) and not counts and len(y) == len(names):
            values = plain_numbers(y)
            if values is not None:
                return self._on_steps(values, counts)
        if isinstance(y, Mapping):
            if set(y) != set(names):
                hints = [self._hint(name) for name in y if name not in names]
                raise ValueError(
                    f"y: expected the outputs {', '.join(names)}, got other names"
                    f"{max(hints, default='', key=len)}"
                )
            y = [y[name] for name in names]
        check_counted(counts, self._resolution)
        values, doubles = exact_numbers(y, "y", whole=counts)
        is_number = len(names) == 1 and doubles.ndim == 0
        if not is_number and doubles.shape != (len(names),):
            raise ValueError(
                f"y: expected shape ({len(names)},), one number for each output, got "
                f"{doubles.shape}"
            )
        return self._on_steps(values, counts)

    def _on_steps(self, values: list[Rational], counts: bool) -> list[Rational]:
        if self._steps is None:
            return values
        return on_steps(values, self._steps, counts=counts)

    def _hint(self, name: str) -> str:
        """Return what a name that is no output may be."""
        return ""

    def _charge(self) -> None:
        """Pay for the run before its first sample, once."""

    def _noted(self, ledger: PrivacyLedger) -> str | None:
        """Return the mark in the ledger, which must be one of the file's.

        A ledger that takes the place of the file's own one has none.
        """
        state = self._state
        is_own = state["ledger"] in (None, ledger.identity)
        marks = state["marks"] if is_own else [None]
        reached, mark = ledger._reached(self._identity)
        if self._committed < reached or mark not in marks:
            raise another_copy(reached)
        return mark

    def _check_caller(self) -> None:
        # before any lock, which a fork may have copied, and which the call that a signal
        # interrupted may hold
        if this_process() != self._process:
            raise PrivacyError(
                "a gateway belongs to the process that made it, and its noise must not "
                "be used in two; make it after the fork"
            )
        if _here.is_interrupted or in_transaction():
            raise PrivacyError(
                "a handler of signals called a gateway in the middle of another call "
                "that it would wait for: let the handler set a flag, and publish in the "
                "main loop"
            )

    def _checked_index(self, index: int | None) -> int:
        if self._closed:
            raise PrivacyError(
                "the gateway is closed; Gateway.resume(path) continues it"
            )
        now = time.monotonic()
        if not now - self._looked < self._trust:
            self._store.check_place()
            self._looked = now
        if index is None:
            index = self._next
        index = sample_index(index, "index", math.inf)
        if index < self._next:
            raise PrivacyError(
                f"index: sample {index} was passed, the next one is {self._next}; the "
                "same noise on another reading would publish their difference"
            )
        horizon = self._signals.horizon
        if index >= horizon:
            raise PrivacyError(
                f"the horizon of {horizon} samples is over, and nothing protects what "
                "follows: design noise for a longer horizon, or without one "
                "(horizon=np.inf), of which a restart is counted as one more release; a "
                "second gateway that continues the run is another window of it, start=..."
            )
        if index - self._next > self.longest_jump:
            raise ValueError(
                f"index: expected at most {self._next + _LONGEST_JUMP}, "
                f"{_LONGEST_JUMP} samples ahead, got {index}: later noise depends on "
                "all that is passed over. If it is right, get there in several jumps"
            )
        return index

    def _block_of(self, t: int) -> _Block:
        """Return the block of a sample. The one behind it is drawn meanwhile."""
        owes = self._owes
        while self._block is None or self._block.stop <= t:
            if self._ahead is None:
                self._ahead = Task(self._prepared, t, self._size, t)
            # interrupted here or later, the next call finds the block again
            drawn = self._ahead
            self._worker.finish(drawn)
            if drawn.error is None:
                self._take(drawn.result())
            self._ahead = None
            drawn.result()
        if owes and not self._owes:  # the other thread must not wait for a log's lock
            _LOG.info("gateway %s charged", self._identity[:8])
        block = self._block
        if t < block.start:
            self._next = block.start
            raise PrivacyError(
                f"index: sample {t} is lost: its noise was kept and could then not be "
                "computed, because an error or an interruption ended that call; the "
                f"next one is {block.start}"
            )
        if self._ahead is None and block.stop < self._signals.horizon:
            self._ahead = Task(self._prepared, block.stop, self._size, block.start)
            self._worker.ask(self._ahead)
        return block

    def _take(self, block: _Block) -> None:
        """Go on to a block. The next one lasts a second at the rate of the last one."""
        now = time.monotonic()
        if self._block is not None:
            rate = (self._block.stop - self._block.start) / max(now - self._taken, 1e-9)
            self._size = int(min(max(rate, self._least_block), self._largest_block))
        self._block = block
        self._taken = now
        name = self._identity[:8]
        _LOG.debug("gateway %s drew samples %d to %d", name, block.start, block.stop)

    # -- in the thread that draws and writes -----------------------------------------

    def _prepared(self, t: int, size: int, oldest: int) -> _Block:
        """Return the block from sample t on, kept before it is evaluated.

        The oldest sample is the first that may still be published.
        """
        self._open()
        start = max(self._unused, t)
        # what was drawn before a clean end, and not published, is drawn no second time
        stop = int(min(max(start + size, self._committed), self._signals.horizon))
        # where later noise depends on it, that of the samples before t is drawn too
        first = self._unused if self._exact.remembers else start
        numbers = self._exact.numbers(first, stop)
        self._commit(first, stop)
        known = {number: self._exact.entries[number].count for number in numbers}
        samples: dict[int, list[Ball | None]] = {}
        begun = time.monotonic()
        for k in range(start, stop, TOGETHER):
            samples |= self._exact.samples(range(k, min(k + TOGETHER, stop)))
            if time.monotonic() - begun > _PASSING_ON:
                time.sleep(0)  # lets a sample be published meanwhile
                begun = time.monotonic()
        for number, count in known.items():
            entry = self._exact.entries[number]
            if entry.count > count:
                self._keep(number, entry)
        self._exact.forget_before(oldest)
        return _Block(start, stop, samples)

    def _open(self) -> None:
        """Charge the ledger, then keep what is drawn once."""
        self._charge()
        if self._state["once"] is not None:
            return
        exact = self._exact
        ahead = exact.numbers(0, exact.room.ahead)
        fresh = exact.drawn_within(range(ahead.stop))
        draw = None
        if ahead:
            later = _bits(fresh[number] for number in ahead)
            draw = {"start": 0, "first": ahead.start, "bits": later, "states": []}
        once = _bits(fresh[number] for number in range(exact.once))
        self._write(fresh, draw, charged=True, once=once)

    def _commit(self, start: int, stop: int) -> None:
        """Draw entries of samples start .. stop - 1, and keep them before they are used."""
        spans = self._exact.room.spans(start, stop)
        fresh = self._exact.drawn_for(spans)
        draw = self._draw(start, spans, fresh)
        self._write(fresh, draw, forget=self._forgets, committed=stop, unused=None)

    @property
    def _forgets(self) -> bool:
        """Whether the file needs no entries of samples that were published."""
        return not (self._exact.has_memory or self._exact.room.ahead)

    def _draw(self, start: int, spans: list[range], fresh: Entries) -> dict[str, Any]:
        """Return what the file has to hold of spans of samples from a sample on."""
        exact = self._exact
        numbers = exact.numbers(start, spans[-1].stop if spans else start)
        draw = {"start": start, "first": numbers.start, "bits": [], "states": []}
        if exact.remembers:
            entries = exact.entries | fresh
            draw["bits"] = _bits(entries[number] for number in numbers)
        if not exact.has_memory:
            draw["states"] = exact.states(start)
        return draw

    def _give_back(self, unused: int) -> None:
        """Note the first sample that was not published, at a clean end.

        Entries that were drawn for it and later ones stay as they are.
        """
        if unused == self._unused:
            return
        self._store.check_place()
        draw = None
        if self._forgets:
            spans = self._exact.room.spans(unused, self._committed)
            draw = self._draw(unused, spans, {})
        self._write({}, draw, forget=self._forgets, unused=unused)

    def _keep(self, number: int, entry: StandardEntry) -> None:
        """Keep an entry of which more bits were drawn."""
        fresh = {number: entry}
        bits = _bits([entry])
        if number >= self._exact.once:
            self._write(fresh, {"first": number, "bits": bits, "states": []})
            return
        once = list(self._state["once"])
        once[number : number + 1] = bits
        self._write(fresh, once=once)

    def _write(
        self,
        fresh: Entries,
        draw: dict[str, Any] | None = None,
        *,
        forget: bool = False,
        **changes: object,
    ) -> None:
        """Keep fresh entries and changes of the state before they are used.

        The file gets a mark, then the ledger notes it in place of the one before. So they
        agree wherever this is cut off, and the ledger agrees with no copy of the file
        that went another way.
        """
        state = self._state | changes
        ledger = self._ledger
        if ledger is not None:
            state["marks"] = [self._noted(ledger), secrets.token_hex(16)]
            state["ledger"] = ledger.identity
        known = self._store.append(self._known, draw, state, forget=forget)
        if known is None:
            raise PrivacyError(
                f"path: the file of the gateway at {str(self._store.path)!r} was "
                "written by somebody else, or a write of this process did not end: "
                "nothing is published. Close the gateway and resume it"
            )
        self._known = known
        self._exact.entries.update(fresh)
        if ledger is not None:
            ledger._reach(self._identity, self._committed, *state["marks"])

    def _enclosed(self, t: int, output: int) -> Ball:
        """Return an enclosure of the noise of one output from all bits that are drawn."""
        enclosure = self._exact.sample(t)[output]
        if enclosure is None:
            raise UncertifiableError(f"sample {t}: the noise of an output vanished")
        return enclosure

    def _narrower(self, t: int, output: int) -> Ball:
        """Return a narrower enclosure of the noise of one output, from more bits."""
        bits = max(entry.count for entry in self._exact.entries.values())
        row = self._exact.rows(t, bits)[output]
        for number in row:
            entry = copy(self._exact.entries[number])
            if entry.count >= DECIDING_BITS:
                raise UncertifiableError(
                    f"sample {t}: {DECIDING_BITS} bits do not decide how it is rounded; "
                    "it is published without noise up to rounding; choose another grid"
                )
            entry.refine()
            self._keep(number, entry)
        return self._enclosed(t, output)

    def close(self) -> None:
        """Stop publishing, and let another process continue with the file.

        It continues with the next sample. In a forked process this does nothing to the
        file, which is its parent's.

        Raises
        ------
        PrivacyError
            In a handler of signals that interrupted a call of this thread.

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> gateway = pc.Gateway(noise, grid=0.001)
        >>> published = gateway.publish(-20.0)
        >>> gateway.close()
        """
        if this_process() != self._process:
            self._closed = True
            return
        self._check_caller()
        with _here.entered(), self._lock:
            self._end()

    def _end(self) -> None:
        """Give back what was drawn ahead, and let go of the file."""
        ends_here = not self._closed
        self._closed = True
        try:
            if ends_here and self._store.path is not None:
                self._worker.do(self._give_back, self._next)
        except (OSError, ValueError, MemoryError) as error:
            _LOG.warning(
                "gateway %s: the samples from %d on that were drawn ahead are lost: %s",
                self._identity[:8],
                self._next,
                error,
            )
        finally:
            self._worker.end()
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError(
            "a gateway cannot be copied or sent to another process: its noise would be "
            "used twice; give it a path, close it and resume it there"
        )


def taken_up(
    path: str | Path, design: str, *, known: int | None = None
) -> Publisher | None:
    """Continue a gateway's file, or return None where that takes a whole `Gateway`.

    It does where the file was made for another design than the one with this digest, or
    is used with a ledger, and for noise that is written as no recipe. Errors are those of
    `Gateway.resume`.
    """
    store = FileStore(as_path(path), KIND)
    try:
        store.hold()
        opening = store.entries()[0]
        state = store.snapshot().state
        needs_ledger = state["ledger"] is not None or not state["charged"]
        recipe = opening.get("recipe")
        of_this = opening.get("format") == FORMAT and opening.get("design") == design
        if needs_ledger or recipe is None or not of_this:
            store.close()
            return None
        publisher = Publisher.__new__(Publisher)
        names, step, horizon = decode(recipe["signals"])
        exact = DrawnNoise.made(recipe["noise"])
        draws = publisher._begin(Signals(names, step, horizon), exact, store, None)
        publisher._trust = _SEEN
        publisher._check_known(known)
        publisher._restore(draws)
    except BaseException:
        store.close()
        raise
    return publisher


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 sum of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _bits(entries: Iterable[StandardEntry]) -> list[str]:
    """Return value and count of the bits of entries, as texts."""
    return [f"{entry.value:x}/{entry.count}" for entry in entries]


def _block_size(signals: Signals) -> int:
    """Samples in a second, and no more than a part of the horizon."""
    largest = min(LARGEST_BLOCK, signals.horizon // LEAST_BLOCKS)
    rate = round(1 / max(signals.step, 1 / LARGEST_BLOCK))
    return int(max(min(rate, largest), 1))
