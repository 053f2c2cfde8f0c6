"""Publish private outputs for readings, one sample at a time."""

import logging
import math
import os
import secrets
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from time import sleep
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._balls import Ball
from ..core._files import as_path, decode, encode
from ..core._linalg import instance_of, positive_integer, real_array, round_up
from ..core.errors import PrivacyError, PrivacyWarning, UncertifiableError
from ..core.guarantee import EXACTLY, PrivacyGuarantee
from ..core.ledger import PrivacyLedger
from ..core.release import Step, exact_data, roundings, step_size, step_sizes
from ._exact import ExactNoise
from ._gateway_store import Draw, FileStore, MemoryStore
from ._noise_data import noise_to_dict
from ._noise_files import noise_from_dict
from .certify import guarantee_on_grid
from .output_noise import OutputNoise, sample_index

_LOG = logging.getLogger("privcontrol")

_FORMAT = "privcontrol gateway 1"

#: Most samples in a block. A block lasts about a second.
_LARGEST_BLOCK = 256
#: A finite run is at least so many blocks. A crash costs two of them at most.
_LEAST_BLOCKS = 16
#: What a finite horizon takes for granted of the samples before it.
_ANEW = "the run begins anew with this gateway"
_CONTINUED = "earlier windows of the run are counted with windows_guarantee"
_UNPLANNED_GRID = (
    "resolution: the noise was not designed for readings on a grid, so that the gateway "
    "promises less than the noise: gateway.guarantee says what; pass resolution= to "
    "design_output_noise too, with a floor"
)
#: Bits of an entry beyond which a rounding is not going to be decided.
_MOST_BITS = 1 << 12


@dataclass(frozen=True)
class _Block:
    """Samples whose random bits are committed, with enclosures of their noise."""

    start: int
    stop: int
    samples: dict[int, list[Ball | None]]


class Gateway:
    """Publish the outputs of a plant with exact noise, and survive being killed.

    Before its first sample is published the ledger is charged, once however often the
    gateway is resumed. Random bits come from the operating system. They are drawn ahead in
    blocks of samples, and are on the disk before a sample of their block is published.
    After a crash the gateway goes on behind the last sample that could have been
    published: no sample is published twice, and no noise is drawn twice.

    Parameters
    ----------
    noise : OutputNoise
    path : str or Path, optional
        File that keeps the noise, as secret as the plant's outputs; mode 0600. Without it
        the gateway ends with its process.
    ledger : PrivacyLedger, optional
        Is charged ``guarantee`` before the first sample.
    start : int, optional
        Sample of the run at which the noise begins, if the gateway continues a run that
        another one published with noise of its own. Such windows do not add, and
        `windows_guarantee` counts them together. Noise from `design_windows` knows its
        window.
    grid : number or sequence of p numbers, optional
        Publish multiples of this step; by default the nearest doubles.
    resolution : number or sequence of p numbers, optional
        Readings are multiples of this step. Integers are counts of it, as an
        analogue-to-digital converter gives them; other numbers are rounded to the nearest
        multiple. If the noise was not designed for it, ``guarantee`` counts what the grid
        adds, or says that it does not cover the grid.
    note : str, optional
        For the ledger's history. Keep private values out of it.
    block : int, optional
        Samples in a block, about a second by default. A crash may cost two blocks.

    Raises
    ------
    FileExistsError
        If the path exists; `resume` takes it up.
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
        note: str = "",
        block: int | None = None,
    ) -> None:
        instance_of(noise, OutputNoise, "noise", "design_output_noise(sys, ...)")
        instance_of(note, str, "note", "note='line 3'")
        noise = _in_window(_on_grid(noise, resolution), start)
        if block is None:
            block = _block_size(noise)
        opening = {
            "format": _FORMAT,
            "identity": secrets.token_hex(16),
            "note": note,
            "grid": _texts(grid, "grid", noise.outputs),
            "resolution": _texts(resolution, "resolution", noise.outputs),
            "block": positive_integer(block, "block"),
            "charged": ledger is None,
            "noise": encode(noise_to_dict(replace(noise, request=None))),
        }
        if path is None:
            self._begin(noise, opening, MemoryStore(), ledger)
        else:
            store = FileStore(as_path(path).absolute(), opening)
            self._begin(noise, opening, store, ledger)

    @classmethod
    def resume(
        cls, path: str | Path, *, ledger: PrivacyLedger | None = None
    ) -> "Gateway":
        """Take up a gateway's file, behind the last sample that it may have published.

        Parameters
        ----------
        path : str or Path
        ledger : PrivacyLedger, optional
            Where the gateway is charged. It is needed if the gateway was made with one and
            was stopped before its charge was noted.

        Raises
        ------
        FileNotFoundError
            If there is no file.
        OSError
            If another process uses it, or it cannot be written.
        ValueError
            If it is no gateway, was altered, or needs the ledger.
        """
        store = FileStore(as_path(path).absolute())
        try:
            opening = store.records[0]
            if opening.get("format") != _FORMAT:
                raise ValueError(
                    f"path: expected the file of a gateway, got another one at {path!s}"
                )
            noise = noise_from_dict(decode(opening["noise"]))
            gateway = cls.__new__(cls)
            gateway._begin(noise, opening, store, ledger)
            gateway._take_up(store.records[1:])
        except BaseException:
            store.close()
            raise
        return gateway

    def _begin(
        self,
        noise: OutputNoise,
        opening: dict,
        store: FileStore | MemoryStore,
        ledger: PrivacyLedger | None,
    ) -> None:
        self._noise = noise
        self._identity = opening["identity"]
        self._note = opening["note"]
        self._resolution = opening["resolution"]
        self._rounding = roundings(opening["grid"], noise.outputs)
        self._block_size = opening["block"]
        self._charged = opening["charged"]
        self._ledger = ledger
        self._store = store
        self._process = os.getpid()
        self._exact = ExactNoise(noise)
        self._drawn = False
        self._next = 0
        self._committed = 0
        self._block: _Block | None = None
        self._ahead: Future[_Block] | None = None
        self._worker: ThreadPoolExecutor | None = None
        self._closed = False
        self._drawing = Lock()

    @property
    def noise(self) -> OutputNoise:
        """The noise that is published."""
        return self._noise

    @property
    def identity(self) -> str:
        """What tells this gateway's noise from that of any other."""
        return self._identity

    def _take_up(self, records: list[dict]) -> None:
        """What the file says was charged and drawn."""
        for record in records:
            if record.get("charged"):
                self._charged = True
                continue
            draw = Draw.from_dict(record)
            for number, (value, count) in enumerate(draw.bits, draw.first):
                self._exact.restore(number, value, count)
            if draw.states:
                self._exact.restore_states(draw.start, draw.states)
            self._drawn = True
            self._committed = max(self._committed, draw.stop)
        self._next = self._committed
        if not self._exact.has_state:
            self._exact.forget_before(self._committed)
        if not self._charged and self._ledger is None:
            raise ValueError(
                "ledger: the gateway was made with a ledger and may not have been charged;"
                " pass it: Gateway.resume(path, ledger=ledger)"
            )
        _LOG.info("gateway %s resumed at sample %d", self.identity[:8], self._next)

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """What the whole run promises, and what it assumes of the run before it."""
        promise = self.noise.guarantee.released(EXACTLY)
        scope = promise.scope
        if self.noise.horizon == math.inf:
            return promise  # the noise begins in its stationary law
        continued = scope.window is not None and scope.window[0] > 0
        clause = _CONTINUED if continued else _ANEW
        assumptions = (*scope.assumptions, clause)
        return replace(promise, scope=replace(scope, assumptions=assumptions))

    @property
    def remaining(self) -> int | float:
        """Number of samples that can still be published, inf without a horizon."""
        return self.noise.horizon - self._next

    @property
    def next_index(self) -> int:
        """Index of the next sample."""
        return self._next

    def publish(
        self, y: ArrayLike | Mapping[str, float], index: int | None = None
    ) -> NDArray:
        """The private output for a reading.

        Parameters
        ----------
        y : array_like, shape (p,), or mapping
            The plant's outputs at this sample: a number where there is one output, or a
            mapping by output name.
        index : int, optional
            Of the sample, if earlier ones were lost; the next one by default. It cannot go
            back.

        Returns
        -------
        ndarray, shape (p,)

        Raises
        ------
        PrivacyError
            After the horizon, and for an index that was passed.
        BudgetExceededError
            If the ledger does not cover the run; nothing was published.
        OSError
            If the file cannot be written; nothing was published.
        ValueError, TypeError
            If the reading is no vector of p finite numbers. No message holds an entry.
        """
        values = self._reading(y)
        t = self._checked_index(index)
        self._open()
        block = self._block_of(t)
        self._next = t + 1
        published = []
        for i, (value, enclosure) in enumerate(zip(values, block.samples[t])):
            rounding = self._rounding[i]
            if enclosure is None:
                published.append(rounding.number(value))
                continue
            rounded = rounding.ball(value, enclosure)
            while rounded is None:
                rounded = rounding.ball(value, self._narrower(t, i))
            published.append(rounded)
        return np.array(published)

    def _reading(self, y: ArrayLike | Mapping[str, float]) -> list:
        """The reading as rational numbers."""
        names = self.noise.plant.outputs
        reading: Any = y
        if isinstance(y, Mapping):
            if set(y) != set(names):
                raise ValueError(
                    f"y: expected the outputs {', '.join(names)}, got other names"
                )
            reading = [y[name] for name in names]
        elif len(names) == 1 and real_array(y, "y").ndim == 0:
            reading = [y]
        exact, doubles = exact_data(reading, "y", self._resolution)
        if doubles.shape != (len(names),):
            raise ValueError(
                f"y: expected shape ({len(names)},), one number for each output, got "
                f"{doubles.shape}"
            )
        return exact

    def _checked_index(self, index: int | None) -> int:
        if self._closed:
            raise PrivacyError(
                "the gateway is closed; Gateway.resume(path) takes it up"
            )
        if os.getpid() != self._process:
            raise PrivacyError(
                "a gateway belongs to the process that made it, and its noise must not be"
                " used in two; make it after the fork"
            )
        if index is None:
            index = self._next
        index = sample_index(index, "index", math.inf)
        if index < self._next:
            raise PrivacyError(
                f"index: sample {index} was passed, the next one is {self._next}; the "
                "same noise on another reading would publish their difference"
            )
        horizon = self.noise.horizon
        if index >= horizon:
            raise PrivacyError(
                f"the horizon of {horizon} samples is over, and nothing protects what "
                "follows: design noise for a longer horizon, or without one "
                "(horizon=np.inf), or further windows with design_windows; a second "
                "gateway that continues the run is another window of it, start=..."
            )
        return index

    def _open(self) -> None:
        """Charge the ledger, then commit what is drawn once."""
        if not self._charged and self._ledger is not None:
            self._ledger.charge(self.guarantee, self._note, identity=self.identity)
            self._store.append({"charged": True})
            self._charged = True
            _LOG.info("gateway %s charged", self.identity[:8])
        if not self._drawn:
            self._commit(range(self._exact.once), 0, 0)
            self._drawn = True

    def _commit(self, numbers: range, start: int, stop: int) -> None:
        """Draw entries, and keep them before they are used."""
        fresh = self._exact.draw(numbers)
        bits = tuple((entry.value, entry.count) for entry in fresh.values())
        draw = Draw(start, stop, numbers.start, bits)
        if stop == 0:
            self._store.append(draw.to_dict())
        elif self._exact.has_memory:
            self._store.append(draw.to_dict(), block=start)
        else:
            states = tuple(tuple(state) for state in self._exact.states(start))
            if not self._exact.has_state:
                bits = ()  # no later sample depends on them
            draw = replace(draw, bits=bits, states=states)
            self._store.append(draw.to_dict(), block=start, forget=start)
        self._exact.entries.update(fresh)
        self._committed = max(self._committed, stop)

    def _keep(self, number: int) -> None:
        """Keep an entry of which more bits were drawn."""
        entry = self._exact.entries[number]
        bits = ((entry.value, entry.count),)
        record = Draw(0, 0, number, bits).to_dict()
        block = None
        if number >= self._exact.once:
            block = self._committed
        self._store.append(record, block=block)

    def _block_of(self, t: int) -> _Block:
        """The block of a sample. The one behind it is drawn meanwhile."""
        while self._block is None or self._block.stop <= t:
            ahead = self._ahead
            self._ahead = None
            self._block = self._prepared() if ahead is None else ahead.result()
        block = self._block
        if t < block.start:  # its block failed after it was committed
            self._next = block.start
            raise PrivacyError(
                f"index: sample {t} is lost, because its noise could not be computed; the "
                f"next one is {block.start}"
            )
        if self._ahead is None and block.stop < self.noise.horizon:
            if self._worker is None:
                self._worker = ThreadPoolExecutor(1, "privcontrol gateway")
            self._ahead = self._worker.submit(self._prepared)
        return block

    def _prepared(self) -> _Block:
        """The block behind all that was drawn, committed before it is evaluated."""
        with self._drawing:
            start = self._committed
            stop = int(min(start + self._block_size, self.noise.horizon))
            self._exact.forget_before(start - self._block_size)
            numbers = self._exact.numbers(start, stop)
            self._commit(numbers, start, stop)
            known = {number: self._exact.entries[number].count for number in numbers}
            samples = {}
            for t in range(start, stop):
                samples[t] = self._exact.sample(t)
                sleep(0)  # lets a sample be published meanwhile
            for number, count in known.items():
                if self._exact.entries[number].count > count:
                    self._keep(number)
        _LOG.debug("gateway %s drew samples %d to %d", self.identity[:8], start, stop)
        return _Block(start, stop, samples)

    def _narrower(self, t: int, output: int) -> Ball:
        """A narrower enclosure of the noise of one output, from more bits."""
        with self._drawing:  # the next block uses the same entries
            bits = max(entry.count for entry in self._exact.entries.values())
            row = self._exact.rows(t, bits)[output]
            for number in row:
                entry = self._exact.entries[number]
                if entry.count >= _MOST_BITS:
                    raise UncertifiableError(
                        f"sample {t}: {_MOST_BITS} bits do not decide how it is rounded; "
                        "it is published without noise up to rounding; choose another grid"
                    )
                entry.refine()
                self._keep(number)
            enclosure = self._exact.sample(t)[output]
        if enclosure is None:
            raise UncertifiableError(f"sample {t}: the noise of an output vanished")
        return enclosure

    def status(self) -> dict[str, Any]:
        """What may be shown of the gateway, which is no reading and nothing of its noise."""
        path = self._store.path
        return {
            "identity": self.identity,
            "path": None if path is None else str(path),
            "next_index": self._next,
            "remaining": self.remaining,
            "charged": self._charged,
            "closed": self._closed,
            "guarantee": str(self.guarantee),
        }

    def close(self) -> None:
        """Stop publishing, and let another process take up the file."""
        self._closed = True
        if self._worker is not None:
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


def _block_size(noise: OutputNoise) -> int:
    """Samples in a second, and no more than a part of the horizon."""
    largest = min(_LARGEST_BLOCK, noise.horizon // _LEAST_BLOCKS)
    return int(max(min(round(1 / noise.plant.step), largest), 1))


def _in_window(noise: OutputNoise, start: int) -> OutputNoise:
    """The noise with the guarantee of a window that begins at this sample of the run."""
    start = sample_index(start, "start", math.inf)
    if start == 0:
        return noise
    if noise.horizon == math.inf:
        raise ValueError(
            "start: noise without a horizon begins in its stationary law at any sample; "
            "leave start out, and the ledger counts each beginning as a release"
        )
    return replace(noise, guarantee=noise.guarantee.in_window(start), promised=None)


def _on_grid(
    noise: OutputNoise, resolution: Step | Sequence[Step] | None
) -> OutputNoise:
    """The noise with its guarantee for readings on a grid.

    A grid coarser than the one that the noise was designed for is refused. Of noise that
    was not designed for any the guarantee becomes weaker, with a warning.
    """
    given = None
    if resolution is not None:
        given = step_sizes(resolution, "resolution", noise.outputs)
    designed = getattr(noise.request, "resolution", None)
    if designed is None:
        if given is None:
            return noise
        warnings.warn(_UNPLANNED_GRID, PrivacyWarning, stacklevel=3)
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
            "resolution: expected steps no larger than those that the noise was designed "
            f"for, {[str(step) for step in allowed]}, got {[str(step) for step in given]}"
        )
    return noise


def _texts(
    steps: Step | Sequence[Step] | None, name: str, outputs: int
) -> list[str] | None:
    """Steps as texts that mean them exactly."""
    if steps is None:
        return None
    return [str(step) for step in step_sizes(steps, name, outputs)]
