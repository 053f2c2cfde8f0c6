"""Show how far a long computation is."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import Event, Thread, Timer
from time import monotonic
from typing import Any

from .errors import PrivacyWarning

#: Seconds after which a design without a bar says what would be faster.
PATIENCE = 10.0
#: Seconds after which a bar is worth showing, and between two looks at the clock.
SHORT = 2.0
_PERIOD = 0.2


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
    note = Timer(PATIENCE, warnings.warn, [text, PrivacyWarning])
    note.daemon = True
    note.start()
    try:
        yield _NoBar()
    finally:
        note.cancel()


@contextmanager
def timed_bar(progress: bool, label: str, faster: str = "") -> Iterator[None]:
    """A bar that counts the seconds of work that does not know how far it is.

    It is shown when two seconds have passed.

    Warns
    -----
    PrivacyWarning
        Without a bar, after ten seconds, with what would be ``faster``.
    """
    shown = progress_bar(None, progress, "s", desc=label, delay=SHORT)
    if not progress:
        with _noted(f"{label} has", faster):
            yield
        return
    stopped = Event()
    with shown as bar:

        def follow() -> None:
            start = monotonic()
            counted = 0
            while not stopped.wait(_PERIOD):
                passed = int(monotonic() - start)
                bar.update(passed - counted)
                counted = passed

        thread = Thread(target=follow, name="privcontrol progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()
