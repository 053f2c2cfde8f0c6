"""Let one thread of a gateway draw and write, whatever interrupts a caller that waits.

Handlers of signals run in the main thread, between any two steps of it, and may raise an
error, as Ctrl-C does. A future or a condition of Python then may keep a lock for ever, and
whoever waits for it hangs. Here a caller waits for one plain lock, and what it asked for
may be asked for again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any


class Task:
    """Work that is done once, however often it is asked for."""

    def __init__(self, work: Callable[..., Any], *arguments: object) -> None:
        self.is_done = False
        self.error: BaseException | None = None
        self._value: Any = None
        self._work = partial(work, *arguments)
        self._under_way = Lock()
        self._under_way.acquire()

    def run(self) -> None:
        """Do the work, and keep its result or its error."""
        if self.is_done:
            return
        self.error = None
        try:
            self._value = self._work()
        except BaseException as error:
            self.error = error
        self.is_done = True
        self._under_way.release()

    def wait(self) -> None:
        """Wait until the work is done."""
        if not self.is_done:
            self._under_way.acquire()

    def result(self) -> Any:
        """Return what the work returned, or raise its error."""
        try:
            if self.error is not None:
                raise self.error
            return self._value
        finally:
            del self  # else the error holds this frame, and the frame the error


class Worker:
    """A thread that does one task after the other, or the caller where none can start."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        # it does not keep a process alive that forgets to close its gateway
        thread = Thread(
            target=_work, args=(self._tasks,), name="privcontrol gateway", daemon=True
        )
        self._has_thread = True
        try:
            thread.start()
        except RuntimeError:
            self._has_thread = False
        self._last = weakref.finalize(self, self._tasks.put, None)

    def ask(self, task: Task) -> None:
        """Let a task be done, after those that were asked for before."""
        if self._has_thread:
            self._tasks.put(task)
        else:
            task.run()

    def finish(self, task: Task) -> None:
        """Wait for a task, which an interruption may have kept from being asked for."""
        if not task.is_done:
            self.ask(task)
            task.wait()

    def do(self, work: Callable[..., Any], *arguments: object) -> Any:
        """Return what work returns that is done after all that was asked for before."""
        task = Task(work, *arguments)
        self.finish(task)
        return task.result()

    def end(self) -> None:
        """Wait for all that was asked for, and end the thread."""
        if self._last.alive:
            self.do(int)
            self._last()


def _work(tasks: SimpleQueue[Task | None]) -> None:
    """Do tasks until there are no more."""
    while True:
        task = tasks.get()
        if task is None:
            return
        task.run()
        del task  # it holds what it was asked by
