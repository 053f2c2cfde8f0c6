"""Show how far a long computation is."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Event, Thread, Timer
from time import monotonic
from typing import Any

from .errors import PrivacyWarning, frame_of_user
from .thresholds import PATIENCE

#: Seconds after which a bar is worth showing.
SHORT = 2.0
#: Speed: seconds between two looks at a clock, or at signals.
BETWEEN_LOOKS = 0.2
#: Rounds that a search is taken to have before it, however many it has had.
_EXPECTED = 4


class _NoBar:
    """The bar that is not shown."""

    def update(self, count: int) -> None:
        """Draw nothing."""


def progress_bar(
    total: int | None,
    progress: bool,
    unit: str = "trial",
    faster: str = "",
    **options: object,
) -> Any:
    """A context with ``update(count)``: a tqdm bar with the time that is left, or nothing.

    In place of a bar it warns once after ten seconds if it knows what would be ``faster``.

    Raises
    ------
    TypeError
        If `progress` is neither True nor False.
    ImportError
        If a bar is wanted and tqdm is not installed.
    """
    if not isinstance(progress, bool):
        raise TypeError(
            f"progress: expected True or False, got {type(progress).__name__}"
        )
    if not progress:
        return _noted(f"{unit}s have", faster) if faster else nullcontext(_NoBar())
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError(
            "progress=True draws a tqdm bar: pip install tqdm, or leave progress=False"
        ) from error
    return tqdm(total=total, unit=unit, **options)


@contextmanager
def _noted(subject: str, faster: str) -> Iterator[_NoBar]:
    """Warn once after ten seconds, with what would be ``faster``."""
    text = f"the {subject} taken {PATIENCE:g} s so far; {faster}"
    frame = frame_of_user()
    place = [frame.f_code.co_filename, frame.f_lineno]
    note = Timer(PATIENCE, warnings.warn_explicit, [text, PrivacyWarning, *place])
    note.daemon = True
    with suppress(RuntimeError):  # where no thread can start there is no word
        note.start()
    try:
        yield _NoBar()
    finally:
        note.cancel()


@dataclass
class _Stretch:
    """The part of a bar that a piece of work is, and what is done of the whole bar."""

    start: float
    length: float
    done: list[float]


_STRETCH: ContextVar[_Stretch | None] = ContextVar("stretch", default=None)


@contextmanager
def piece(k: int, count: int) -> Iterator[None]:
    """Show on the bar in hand, if any, that this is the k-th of about ``count`` pieces.

    Pieces within this one divide its own stretch of the bar. Those beyond ``count`` are
    part of the last one.
    """
    last = count - 1
    with _between(min(k, last) / count, min(k + 1, count) / count, k < last):
        yield


@contextmanager
def search_round(k: int) -> Iterator[None]:
    """Tell the bar in hand, if any, that this is round k of a search of unknown length."""
    with _between(k / (k + _EXPECTED), (k + 1) / (k + 1 + _EXPECTED), True):
        yield


@contextmanager
def _between(start: float, end: float, is_done: bool) -> Iterator[None]:
    """Work on a part of the stretch in hand, which may be done afterwards."""
    whole = _STRETCH.get()
    if whole is None:
        yield
        return
    length = whole.length * (end - start)
    begin = whole.start + whole.length * start
    whole.done[0] = max(whole.done[0], begin)
    token = _STRETCH.set(_Stretch(begin, length, whole.done))
    try:
        yield
    finally:
        _STRETCH.reset(token)
    if is_done:
        whole.done[0] = max(whole.done[0], begin + length)


@contextmanager
def timed_bar(progress: bool, faster: str) -> Iterator[None]:
    """A bar that counts the seconds of a design, and those that its pieces say are left.

    It is shown when two seconds have passed.

    Warns
    -----
    PrivacyWarning
        Without a bar, after ten seconds, with what would be ``faster``.
    """
    shown = progress_bar(None, progress, "s", desc="design", delay=SHORT)
    if not progress:
        with _noted("design has", faster):
            yield
        return
    stopped = Event()
    whole = _Stretch(0.0, 1.0, [0.0])
    token = _STRETCH.set(whole)
    with shown as bar:

        def follow() -> None:
            start = monotonic()
            counted = 0
            while not stopped.wait(BETWEEN_LOOKS):
                passed = int(monotonic() - start)
                if whole.done[0] > 0:
                    bar.total = max(round(passed / whole.done[0]), passed + 1)
                bar.update(passed - counted)
                counted = passed

        thread = Thread(target=follow, name="privcontrol progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            _STRETCH.reset(token)
            stopped.set()
            thread.join()
        bar.total = bar.n  # it may end after fewer pieces than expected
