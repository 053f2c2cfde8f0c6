"""Publish private outputs for readings, one sample at a time."""

from __future__ import annotations

import logging
import math
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock, main_thread
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._linalg import (
    Ball,
    Rational,
    instance_of,
    positive_integer,
    real_array,
    round_up,
)
from ..core._objects import as_path, decode, encode
from ..core._store import (
    FileStore,
    Here,
    Kind,
    MemoryStore,
    Store,
    in_transaction,
    this_process,
)
from ..core.errors import PrivacyError, UncertifiableError, warn_user
from ..core.guarantee import EXACTLY, PrivacyGuarantee, released
from ..core.ledger import PrivacyLedger, another_copy
from ..core.release import (
    StandardEntry,
    Step,
    check_counted,
    exact_numbers,
    on_steps,
    roundings,
    step_size,
    step_sizes,
)
from ..designs.output_noise import OutputNoise, guarantee_on_grid
from ..noise.exact import Entries, ExactNoise
from ..noise.parts import sample_index

if TYPE_CHECKING:
    import pandas as pd

_LOG = logging.getLogger("privcontrol")

_FORMAT = "privcontrol gateway 4"

_KIND = Kind(
    "gateway",
    0o600,
    "nothing is published. A new gateway that continues the run publishes another "
    "window of it: see start in Gateway",
)
#: Most samples in a block. A block lasts about a second.
_LARGEST_BLOCK = 256
#: A finite run has at least so many blocks, unless it is faster than its samples.
_LEAST_BLOCKS = 16
#: Longest jump over samples on which the later noise depends. It takes some seconds.
_LONGEST_JUMP = 50_000
#: What a finite horizon takes for granted of the samples before it.
_ANEW = "the run begins again with this gateway"
_CONTINUED = "earlier windows of the run are counted together with this one"
_UNPLANNED_GRID = (
    "resolution: the noise was not designed for readings on a grid, so the gateway "
    "promises less than the noise: gateway.guarantee says what; "
)
_COVERED = "pass resolution= to design_output_noise too, with a floor"
_NEVER_COVERED = (
    "noise without a horizon covers no grid, so design for a finite horizon where the "
    "step is not small beside the noise"
)
_LAST_BITS = "what the last bits of readings in floating point tell besides"
_REAL_READINGS = "readings that are real numbers and not the doubles next to them"
#: Bits of an entry beyond which a rounding is not going to be decided.
_MOST_BITS = 1 << 12


_here = Here()


@dataclass(frozen=True)
class _Block:
    """Samples whose random bits are kept, with enclosures of their noise."""

    start: int
    stop: int
    samples: dict[int, list[Ball | None]]


class _AtOnce(Executor):
    """Do work in the thread that asks for it, where no other one can start."""

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:  # as a thread keeps it, until it is asked for
            done.set_exception(error)
        return done


def _worker() -> Executor:
    """Return what draws noise ahead: a thread of its own, where one can start."""
    pool = ThreadPoolExecutor(1, "privcontrol gateway")
    if not main_thread().is_alive():  # no thread starts any more; it says so
        return pool
    try:
        pool.submit(int).result()
    except RuntimeError:
        pool.shutdown(wait=False, cancel_futures=True)
        return _AtOnce()
    return pool


class Gateway:
    """Publish the outputs of a plant with exact noise, and survive being killed.

    Before its first sample is published the ledger is charged, once however often the
    gateway is resumed. Random bits come from the operating system. They are drawn ahead
    in blocks of samples, and are on the disk before a sample of their block is
    published. After a crash the gateway goes on behind the last sample that could have
    been published: no sample is published twice, and no noise is drawn twice. Threads
    may share a gateway. Processes may not: one process at a time holds the file, by a
    lock on a file ``path.lock`` beside it.

    Parameters
    ----------
    noise : OutputNoise
    path : str or Path, optional
        File that keeps the noise, as secret as the plant's outputs; mode 0600. Without
        it the gateway ends with its process.
    ledger : PrivacyLedger, optional
        Is charged ``guarantee`` before the first sample, and notes how far the gateway
        has come, with a mark that its file holds too. So an older copy of the file is
        refused, and of copies in use one alone goes on. From then on the file needs this
        ledger: see `resume`.
    start : int, optional
        Sample of the run at which the noise begins, if the gateway continues a run that
        another one published with noise of its own. Such windows do not add: a
        `Mechanism` with their factors as blocks of one matrix counts them together.
    grid : number or sequence of p numbers, optional
        Publish multiples of this step; by default the nearest doubles.
    resolution : number or sequence of p numbers, optional
        Readings are multiples of this step, and others are rounded to the nearest
        multiple. If the noise was not designed for it, ``guarantee`` counts what the
        grid adds, or says that it does not cover the grid.
    floating : bool, optional
        Accept readings in floating point. The last bits of sums of doubles can exclude
        a neighbour with certainty, so noise that gives no output independent noise of
        its own (a ``floor``) needs a ``resolution`` or a ``grid``. Otherwise the
        guarantee says that it is about real numbers only.
    note : str, optional
        For the ledger's history. Keep private values out of it.
    block : int, optional
        Samples in a block, by default as many as are asked for in about a second, and
        at most 256. A crash may cost two blocks.

    Raises
    ------
    FileExistsError
        If the path exists; `resume` continues it.
    OSError
        If the file cannot be made, or if a journal of a deleted file stands beside it.
    PrivacyError
        If the noise has no floor, and there is neither a ``resolution`` nor a ``grid``.
    TypeError, ValueError
        If an argument is not what it should be.

    Examples
    --------
    >>> import privcontrol as pc
    >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=100,
    ...     budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
    ...     adjacency=pc.StateAdjacency({"position": 1.0}))
    >>> with pc.Gateway(noise, grid=0.001) as gateway:
    ...     published = gateway.publish(-20.0)
    >>> published.shape, gateway.remaining
    ((1,), 99)
    """

    def __init__(
        self,
        noise: OutputNoise,
        *,
        path: str | Path | None = None,
        ledger: PrivacyLedger | None = None,
        start: int = 0,
        grid: Step | Sequence[Step] | None = None,
        resolution: Step | Sequence[Step] | None = None,
        floating: bool = False,
        note: str = "",
        block: int | None = None,
    ) -> None:
        instance_of(noise, OutputNoise, "noise", "design_output_noise(sys, ...)")
        instance_of(note, str, "note", "note='line 3'")
        instance_of(floating, bool, "floating", "floating=True")
        noise = _in_window(on_grid(noise, resolution), start)
        if grid is None and resolution is None and not noise.total.white.all():
            noise = _in_floating_point(noise, floating)
        opening = {
            "format": _FORMAT,
            "identity": secrets.token_hex(16),
            "note": note,
            "grid": _texts(grid, "grid", noise.outputs),
            "resolution": _texts(resolution, "resolution", noise.outputs),
            "block": None if block is None else positive_integer(block, "block"),
            "noise": encode(replace(noise, request=None)),
        }
        state = {
            "charged": ledger is None,
            "committed": 0,  # samples before it may have been published
            "unused": None,  # after a clean end the first sample that was not
            "once": None,
            "ledger": None if ledger is None else ledger.identity,
            "marks": [None],  # the ledger has one of them
        }
        exact = ExactNoise(noise)  # before a file is made
        if path is None:
            self._begin(noise, exact, MemoryStore(_KIND, opening, state), ledger)
            return
        store = FileStore(as_path(path), _KIND)
        if not store.create(opening, state):
            raise FileExistsError(
                f"path: a gateway exists at {str(store.path)!r}; Gateway.resume(path) "
                "continues it"
            )
        store.hold()
        self._begin(noise, exact, store, ledger)

    @classmethod
    def resume(
        cls,
        path: str | Path,
        *,
        ledger: PrivacyLedger | None = None,
        known: int | None = None,
        unguarded: bool = False,
    ) -> Gateway:
        """Continue a gateway's file, behind the last sample that it may have published.

        After `close` that is the next one. After a kill it lies behind what was drawn
        ahead.

        Parameters
        ----------
        path : str or Path
        ledger : PrivacyLedger, optional
            Is charged before the gateway goes on, unless it was. A file that was made or
            continued with a ledger needs that ledger, which knows how far the gateway
            has come: without it a copy of the file would publish the same noise again.
        known : int, optional
            An earlier `next_index`, kept elsewhere. A file that is behind it is an
            older copy, and is refused.
        unguarded : bool, optional
            Continue without the ledger that the file needs, or with another one that
            takes its place. You then answer for it that no copy of the file went on.

        Raises
        ------
        FileNotFoundError
            If there is no file.
        OSError
            If another process uses it, or it cannot be written.
        PrivacyError
            If the file is behind ``known`` or the ledger, the ledger noted another copy
            of it, or the file needs its ledger and ``unguarded`` is not set.
        ValueError
            If it is no gateway, was altered, or may not have been charged.
        """
        instance_of(unguarded, bool, "unguarded", "unguarded=True")
        store = FileStore(as_path(path), _KIND)
        if not store.path.is_file():
            raise FileNotFoundError(
                "path: expected the file of a gateway, got none at "
                f"{str(store.path)!r}; Gateway(noise, path=...) makes one. Where a run "
                "goes on, it is another window of it: see start in Gateway"
            )
        try:
            store.hold()
            opening = store.entries()[0]
            if opening.get("format") != _FORMAT:
                raise ValueError(
                    "path: expected the file of a gateway of this version, got another "
                    f"one at {path!s}"
                )
            noise = decode(opening["noise"])
            gateway = cls.__new__(cls)
            draws = gateway._begin(noise, ExactNoise(noise), store, ledger)
            if known is not None:
                known = sample_index(known, "known", math.inf)
                if gateway._unused < known:
                    raise another_copy(known)
            gateway._check_guard(unguarded)
            gateway._restore(draws)
            if ledger is not None:
                gateway._noted(ledger)
        except BaseException:
            store.close()
            raise
        return gateway

    def _begin(
        self,
        noise: OutputNoise,
        exact: ExactNoise,
        store: Store,
        ledger: PrivacyLedger | None,
    ) -> list[dict]:
        """Set all attributes, and return what was drawn before."""
        self._noise = noise
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
            self._steps = step_sizes(self._resolution, "resolution", noise.outputs)
        self._grid = opening["grid"]
        self._rounding = roundings(self._grid, noise.outputs)
        self._least_block = opening["block"] or _block_size(noise)
        self._largest_block = opening["block"] or _LARGEST_BLOCK
        self._ledger = ledger
        self._owes = True  # until this ledger is known to hold the charge
        self._process = this_process()
        self._next = 0
        self._block: _Block | None = None
        self._size = self._least_block  # of the next block
        self._taken = math.nan  # when the first sample of the block was asked for
        self._ahead: Future[_Block] | None = None
        # It alone draws and writes, so nothing interrupts it: signals go to the main
        # thread, which only waits.
        self._worker = _worker()
        self._closed = False
        self._lock = Lock()
        return draws

    @property
    def noise(self) -> OutputNoise:
        """The noise that is published."""
        return self._noise

    @property
    def identity(self) -> str:
        """The name that tells this gateway's noise from that of any other."""
        return self._identity

    def _restore(self, draws: list[dict]) -> None:
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

    def _check_guard(self, unguarded: bool) -> None:
        """Raise an error if the file needs a ledger that is not there."""
        if not self._state["charged"] and self._ledger is None:
            raise ValueError(
                "ledger: the gateway was made with a ledger and may not have been "
                "charged; pass it: Gateway.resume(path, ledger=ledger)"
            )
        needed = self._state["ledger"]
        if needed is None or unguarded:
            return
        if self._ledger is None or self._ledger.identity != needed:
            came = "none" if self._ledger is None else "another one"
            raise PrivacyError(
                "ledger: expected the ledger that this gateway's file was used with, "
                f"which refuses copies of the file, got {came}: pass it "
                "(ledger=ledger; the command's --ledger). If it is lost and no copy of "
                "the file was ever used, say so: unguarded=True (the command's "
                "--unguarded)"
            )

    def _noted(self, ledger: PrivacyLedger) -> str | None:
        """Return the mark in the ledger, which must be one of the file's.

        A ledger that takes the place of the file's own one has none.
        """
        state = self._state
        is_own = state["ledger"] in (None, ledger.identity)
        marks = state["marks"] if is_own else [None]
        reached, mark = ledger.reached(self._identity)
        if self._committed < reached or mark not in marks:
            raise another_copy(reached)
        return mark

    @property
    def _state(self) -> dict:
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
    def guarantee(self) -> PrivacyGuarantee:
        """The promise of the whole run, and what it assumes of the run before it."""
        promise = released(self._noise.guarantee, EXACTLY)
        scope = promise.scope
        if self._noise.horizon == math.inf:
            return promise  # the noise begins in its stationary law
        continued = scope.window is not None and scope.window[0] > 0
        clause = _CONTINUED if continued else _ANEW
        assumptions = (*scope.assumptions, clause)
        return replace(promise, scope=replace(scope, assumptions=assumptions))

    @property
    def remaining(self) -> int | float:
        """Number of samples that can still be published, inf without a horizon."""
        return self._noise.horizon - self._next

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
    ) -> NDArray:
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
            that interrupted a call of this thread, in a forked process, and in a thread
            that goes on after the main thread has ended.
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
        _here.frame = sys._getframe()
        try:
            with self._lock:
                t = self._checked_index(index)
                block = self._block_of(t)
                self._next = t + 1  # an interrupted call loses its sample
                rounded = []
                for i, enclosure in enumerate(block.samples[t]):
                    rounded.append(self._rounded(values[i], enclosure, t, i))
                return np.array(rounded)
        finally:
            _here.frame = None

    def publish_frame(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Publish a table of readings, a row for each sample from the next one on.

        Parameters
        ----------
        frame : pandas.DataFrame
            With the plant's output names as columns. Numbers are values, never counts.

        Returns
        -------
        pandas.DataFrame
            With the same index, and the outputs in the plant's order.

        Raises
        ------
        ValueError
            If columns are missing or more than the outputs, an entry is no finite
            number, or the rows do not fit into the horizon; nothing was published.
        """
        names = list(self._noise.plant_data.outputs)
        if not hasattr(frame, "columns"):
            raise TypeError(
                f"frame: expected a pandas.DataFrame, got a {type(frame).__name__}; "
                "publish(y) takes one reading"
            )
        if sorted(frame.columns) != sorted(names):
            raise ValueError(
                f"frame: expected the columns {', '.join(names)}, got others; select "
                "them with frame[[...]]"
            )
        if len(frame) > self.remaining:
            raise ValueError(
                f"frame: expected at most {self.remaining} rows, which are left of the "
                f"horizon, got {len(frame)}"
            )
        try:
            columns = frame[names].to_numpy(float)
        except (TypeError, ValueError, OverflowError):  # their texts show entries
            columns = None
        if columns is None:  # outside the handler, so nothing refers to that error
            raise ValueError(
                "frame: expected columns of finite numbers, got an entry that is none; "
                "clean the data first"
            )
        values = real_array(columns, "frame")
        published = [self.publish(row) for row in values]
        table = np.reshape(published, values.shape)
        return type(frame)(table, index=frame.index, columns=names)

    def _rounded(
        self, value: Rational, enclosure: Ball | None, t: int, output: int
    ) -> float:
        """Round the sum of a reading and the noise of an output."""
        rounding = self._rounding[output]
        if enclosure is None:
            return rounding.number(value)
        rounded = rounding.ball(value, enclosure)
        while rounded is None:
            narrower = self._submit(self._narrower, t, output).result()
            rounded = rounding.ball(value, narrower)
        return rounded

    def _reading(
        self, y: ArrayLike | Mapping[str, float], counts: bool
    ) -> list[Rational]:
        """Return the reading as rational numbers."""
        names = self._noise.plant_data.outputs
        if isinstance(y, Mapping):
            if set(y) != set(names):
                of = self._noise.plant_data.elsewhere
                hints = [of(name) for name in y if name not in names]
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
        if self._steps is None:
            return values
        return on_steps(values, self._steps, counts=counts)

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

    def _submit(self, work: Callable[..., Any], *arguments: object) -> Future[Any]:
        """Let the gateway's thread do something."""
        try:
            return self._worker.submit(work, *arguments)
        except RuntimeError as error:  # close() was checked before
            raise PrivacyError(
                "the main thread has ended, and with it the thread that draws noise: "
                "nothing more is published. Let the main thread wait for the threads "
                "that publish"
            ) from error

    def _checked_index(self, index: int | None) -> int:
        if self._closed:
            raise PrivacyError(
                "the gateway is closed; Gateway.resume(path) continues it"
            )
        self._store.check_place()
        if index is None:
            index = self._next
        index = sample_index(index, "index", math.inf)
        if index < self._next:
            raise PrivacyError(
                f"index: sample {index} was passed, the next one is {self._next}; the "
                "same noise on another reading would publish their difference"
            )
        horizon = self._noise.horizon
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
                self._ahead = self._submit(self._prepared, t, self._size, t)
            # interrupted here or later, the next call finds the block again
            drawn = self._ahead
            wait([drawn])
            if drawn.exception() is None:
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
        if self._ahead is None and block.stop < self._noise.horizon:
            self._ahead = self._submit(
                self._prepared, block.stop, self._size, block.start
            )
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
        stop = int(min(max(start + size, self._committed), self._noise.horizon))
        # where later noise depends on it, that of the samples before t is drawn too
        first = self._unused if self._exact.remembers else start
        numbers = self._exact.numbers(first, stop)
        self._commit(numbers, first, stop)
        known = {number: self._exact.entries[number].count for number in numbers}
        samples = {}
        for k in range(start, stop):
            samples[k] = self._exact.sample(k)
            time.sleep(0)  # lets a sample be published meanwhile
        for number, count in known.items():
            entry = self._exact.entries[number]
            if entry.count > count:
                self._keep(number, entry)
        self._exact.forget_before(oldest)
        return _Block(start, stop, samples)

    def _open(self) -> None:
        """Charge the ledger, then keep what is drawn once."""
        if self._owes and self._ledger is not None:
            self._ledger.charge(self.guarantee, self._note, identity=self._identity)
            self._owes = False
        if self._state["once"] is None:
            fresh = self._exact.draw(range(self._exact.once))
            self._write(fresh, charged=True, once=_bits(fresh.values()))

    def _commit(self, numbers: range, start: int, stop: int) -> None:
        """Draw entries, and keep them before they are used."""
        exact = self._exact
        fresh = exact.draw(
            [number for number in numbers if number not in exact.entries]
        )
        draw = self._draw(numbers, start, fresh)
        forget = not exact.has_memory
        self._write(fresh, draw, forget=forget, committed=stop, unused=None)

    def _draw(self, numbers: range, start: int, fresh: Entries) -> dict:
        """Return what the file has to hold of entries from a sample on."""
        exact = self._exact
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
        numbers = self._exact.numbers(unused, self._committed)
        forget = not self._exact.has_memory
        draw = self._draw(numbers, unused, {}) if forget else None
        self._write({}, draw, forget=forget, unused=unused)

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
        draw: dict | None = None,
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
            ledger.reach(self._identity, self._committed, *state["marks"])

    def _narrower(self, t: int, output: int) -> Ball:
        """Return a narrower enclosure of the noise of one output, from more bits."""
        bits = max(entry.count for entry in self._exact.entries.values())
        row = self._exact.rows(t, bits)[output]
        for number in row:
            entry = copy(self._exact.entries[number])
            if entry.count >= _MOST_BITS:
                raise UncertifiableError(
                    f"sample {t}: {_MOST_BITS} bits do not decide how it is rounded; "
                    "it is published without noise up to rounding; choose another grid"
                )
            entry.refine()
            self._keep(number, entry)
        enclosure = self._exact.sample(t)[output]
        if enclosure is None:
            raise UncertifiableError(f"sample {t}: the noise of an output vanished")
        return enclosure

    # --------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return what may be shown, which is no reading and nothing of the noise."""
        path = self._store.path
        return {
            "identity": self._identity,
            "path": None if path is None else str(path),
            "next_index": self._next,
            "remaining": self.remaining,
            "grid": self._grid,
            "resolution": self._resolution,
            "charged": self._state["charged"],
            "closed": self._closed,
            "guarantee": str(self.guarantee),
        }

    def close(self) -> None:
        """Stop publishing, and let another process continue with the file.

        It continues with the next sample. In a forked process this does nothing to the
        file, which is its parent's.

        Raises
        ------
        PrivacyError
            In a handler of signals that interrupted a call of this thread.
        """
        if this_process() != self._process:
            self._closed = True
            return
        self._check_caller()
        _here.frame = sys._getframe()
        try:
            with self._lock:
                self._end()
        finally:
            _here.frame = None

    def _end(self) -> None:
        """Give back what was drawn ahead, and let go of the file."""
        ends_here = not self._closed
        self._closed = True
        try:
            if ends_here and self._store.path is not None:
                self._submit(self._give_back, self._next).result()
        except (OSError, ValueError, MemoryError) as error:
            _LOG.warning(
                "gateway %s: the samples from %d on that were drawn ahead are lost: %s",
                self._identity[:8],
                self._next,
                error,
            )
        finally:
            self._worker.shutdown(wait=True)
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

    def __repr__(self) -> str:
        left = "no horizon"
        if self.remaining != math.inf:
            left = f"{self.remaining} samples remaining"
        return f"Gateway({self.noise!r}, {left})"


def _bits(entries: Iterable[StandardEntry]) -> list[str]:
    """Return value and count of the bits of entries, as texts."""
    return [f"{entry.value:x}/{entry.count}" for entry in entries]


def _in_floating_point(noise: OutputNoise, accepted: bool) -> OutputNoise:
    """Return noise whose guarantee is about real numbers, if that is accepted."""
    if not accepted:
        raise PrivacyError(
            "resolution: expected the step of the sensor's readings, got none, and the "
            "noise has no floor: the last bits of readings in floating point exclude a "
            "neighbour with certainty. Pass resolution= or grid= (the command's "
            "--resolution, --grid), design the noise with a floor, or accept it with "
            "floating=True"
        )
    scope = noise.guarantee.scope
    scope = replace(
        scope,
        assumptions=(*scope.assumptions, _REAL_READINGS),
        caveats=(*scope.caveats, _LAST_BITS),
    )
    return replace(noise, guarantee=replace(noise.guarantee, scope=scope))


def _block_size(noise: OutputNoise) -> int:
    """Samples in a second, and no more than a part of the horizon."""
    largest = min(_LARGEST_BLOCK, noise.horizon // _LEAST_BLOCKS)
    return int(max(min(round(1 / noise.plant_data.step), largest), 1))


def _in_window(noise: OutputNoise, start: int) -> OutputNoise:
    """The noise with the guarantee of a window that begins at this sample."""
    start = sample_index(start, "start", math.inf)
    if start == 0:
        return noise
    if noise.horizon == math.inf:
        raise ValueError(
            "start: noise without a horizon begins in its stationary law at any "
            "sample; leave start out, and the ledger counts each beginning as a release"
        )
    return replace(noise, guarantee=noise.guarantee.in_window(start), promised=None)


def on_grid(
    noise: OutputNoise, resolution: Step | Sequence[Step] | None
) -> OutputNoise:
    """The noise with its guarantee for readings on a grid.

    A grid coarser than the one that the noise was designed for is refused. Of noise
    that was not designed for any the guarantee becomes weaker, with a warning.
    """
    given = None
    if resolution is not None:
        given = step_sizes(resolution, "resolution", noise.outputs)
    designed = getattr(noise.request, "resolution", None)
    if designed is None:
        if given is None:
            return noise
        way_out = _NEVER_COVERED if noise.horizon == math.inf else _COVERED
        warn_user(_UNPLANNED_GRID + way_out)
        steps = round_up([float(step) for step in given])
        return replace(noise, guarantee=guarantee_on_grid(noise, steps), promised=None)
    allowed = [step_size(step, "resolution") for step in np.ravel(designed).tolist()]
    if given is None:
        raise ValueError(
            "resolution: the noise was designed for readings on a grid; pass its step, "
            f"resolution={[str(step) for step in allowed]}"
        )
    if any(mine > planned for mine, planned in zip(given, allowed)):
        raise ValueError(
            "resolution: expected steps no larger than those that the noise was "
            f"designed for, {[str(step) for step in allowed]}, got "
            f"{[str(step) for step in given]}"
        )
    return noise


def _texts(
    steps: Step | Sequence[Step] | None, name: str, outputs: int
) -> list[str] | None:
    """Steps as texts that mean them exactly."""
    if steps is None:
        return None
    return [str(step) for step in step_sizes(steps, name, outputs)]
