"""Run Monte-Carlo trials in blocks, serially or on any ``concurrent.futures.Executor``.

The numbers depend on the seed alone. Every block has its own generator and is computed at
full size, whatever the executor, its workers and the number of trials asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, wait
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from os import cpu_count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .core._linalg import positive_integer
from .core._progress import progress_bar
from .core._random import Seed, generator


def draw_entropy(rng: Seed) -> list[int]:
    """Draw one 128-bit seed, by which a generator advances however many trials follow.

    A seed that is refused is never shown, because it determines the noise.
    """
    return generator(rng).integers(2**32, size=4, dtype=np.uint32).tolist()


def run_trials(
    task: Callable,
    trials: int,
    *,
    rng: Seed = None,
    executor: Executor | None = None,
    progress: bool = False,
    block: int = 256,
    data: Mapping[str, NDArray] | None = None,
    partial: bool = False,
) -> Any:
    """Run trials of a task in blocks, with the same numbers on every executor.

    Block i draws from child i of one seed and is cut after it was computed at full size, so
    that ``trials=k`` is bit for bit the beginning of ``trials=n``. The first exception
    cancels the blocks that have not started, and the executor stays open.

    ``task(generator, block)`` returns a dict or a tuple of arrays with the trials on axis
    0, or None for an absent array. Process pools pickle it. Each block gets its part of the
    arrays in ``data`` as a keyword, filled up with zeros to the full block. With
    ``partial`` the task is called with ``keep`` too. It returns that many trials, with the
    bits that they have in the whole block, and given arrays are not filled up.

    Other sizes of ``block`` are other numbers, so that it must depend on the problem, never
    on ``trials`` or the workers.

    Examples
    --------
    >>> def task(generator, block):
    ...     return {"eta": generator.standard_normal((block, 2))}
    >>> run_trials(task, 500, rng=0)["eta"].shape
    (500, 2)
    """
    trials = positive_integer(trials, "trials")
    block = positive_integer(block, "block")
    data = data or {}
    for name, array in data.items():
        if len(array) != trials:
            raise ValueError(
                f"data: expected {trials} trials on axis 0 of {name!r}, got {len(array)}"
            )
    jobs = _Jobs(task, draw_entropy(rng), block, trials, data, partial)
    if executor is None:
        results = ((index, jobs.run(index)) for index in range(len(jobs)))
    else:
        results = _in_flight(jobs, _checked_executor(executor))
    output = _Output(trials, block, partial)
    with progress_bar(trials, progress) as bar, closing(results):
        for index, arrays in results:
            output.store(index, arrays)
            del arrays  # before the next block needs the memory
            bar.update(min(block, trials - index * block))
    return output.collected()


@dataclass(frozen=True)
class _Jobs:
    """What the task is called with for each block of a run."""

    task: Callable
    entropy: list
    block: int
    trials: int
    data: Mapping[str, NDArray]
    partial: bool

    def __len__(self) -> int:
        return -(-self.trials // self.block)

    def arguments(self, index: int) -> tuple:
        """The arguments of `_run_block` for block ``index``."""
        start = index * self.block
        keep = min(self.block, self.trials - start)
        keywords: dict[str, Any] = {}
        if self.partial:
            keywords["keep"] = keep
        for name, array in self.data.items():
            part = array[start : start + keep]
            if not self.partial:
                filling = np.zeros((self.block - keep, *part.shape[1:]))
                part = np.concatenate([part, filling])
            keywords[name] = part
        return self.task, self.entropy, self.block, index, keywords

    def run(self, index: int) -> Any:
        """What the task returns for block ``index``."""
        return _run_block(*self.arguments(index))


def _run_block(
    task: Callable, entropy: list[int], block: int, index: int, keywords: Any
) -> Any:
    """What the task returns with child ``index`` of ``SeedSequence(entropy)``."""
    child = np.random.SeedSequence(entropy, spawn_key=(index,))
    return task(np.random.default_rng(child), block, **keywords)


def _in_flight(jobs: _Jobs, executor: Executor) -> Generator[tuple[int, Any]]:
    """Yield blocks as they complete, a few for each worker at a time.

    Those not started are cancelled when one fails or the consumer stops.
    """
    limit = 2 * _workers(executor) + 1
    queue = iter(range(len(jobs)))
    pending: dict[Any, int] = {}
    try:
        while True:
            for index in islice(queue, limit - len(pending)):
                pending[executor.submit(_run_block, *jobs.arguments(index))] = index
            if not pending:
                return
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            while done:
                future = done.pop()
                yield pending.pop(future), future.result()
    finally:
        for future in pending:
            future.cancel()


def _workers(executor: Any) -> int:
    """Number of workers of a standard pool, loky or dask, a guess for others."""
    count = getattr(executor, "_max_workers", None)
    client: Any = getattr(executor, "_client", None)
    if count is None and hasattr(client, "nthreads"):
        count = sum(client.nthreads().values())
    if isinstance(count, int) and count > 0:
        return count
    return max(16, cpu_count() or 1)


def _checked_executor(executor: Any) -> Executor:
    if isinstance(executor, Executor):
        return executor
    hint = "ProcessPoolExecutor(max_workers=2)"
    if hasattr(executor, "get_executor"):
        hint = "its get_executor()"
    raise TypeError(
        "executor: expected a concurrent.futures.Executor, got "
        f"{type(executor).__name__}; pass e.g. {hint}"
    )


class _Output:
    """Collects blocks, in any order, in arrays of the shape of the first one."""

    def __init__(self, trials: int, block: int, partial: bool) -> None:
        self.trials = trials
        self.block = block
        self.partial = partial
        self.kind: Any = None
        self.layout: Any = None
        self.arrays: Any = None

    def store(self, index: int, result: Any) -> None:
        """File the arrays of block ``index``."""
        start = index * self.block
        keep = min(self.block, self.trials - start)
        expected = keep if self.partial else self.block
        named = self._named(result, expected)
        layout = {}
        for name, array in named.items():
            layout[name] = None if array is None else (array.shape[1:], array.dtype)
        if self.arrays is None:
            self.kind = type(result)
            self.layout = layout
            self.arrays = {name: self._allocate(array) for name, array in named.items()}
        if layout != self.layout or type(result) is not self.kind:
            raise ValueError(
                f"task: expected the arrays {self.layout} of the first block again, got "
                f"{layout}"
            )
        if self.trials > self.block:
            for name, array in named.items():
                if array is not None:
                    self.arrays[name][start : start + keep] = array[:keep]

    def collected(self) -> Any:
        """All arrays, as the task returned them."""
        if issubclass(self.kind, tuple):
            return tuple(self.arrays.values())
        return self.arrays

    def _named(self, result: Any, expected: int) -> Mapping[Any, NDArray | None]:
        if not isinstance(result, (dict, tuple)):
            raise TypeError(
                f"task: expected a dict or a tuple of arrays, got {type(result).__name__}"
            )
        named: Any = result
        if isinstance(result, tuple):
            named = dict(enumerate(result))
        for name, array in named.items():
            if array is None:
                continue
            if not isinstance(array, np.ndarray) or array.shape[:1] != (expected,):
                raise ValueError(
                    f"task: expected an array with the block's {expected} trials on axis 0 "
                    f"for {name!r}, got {type(array).__name__} of shape {np.shape(array)}; "
                    "blocks are cut afterwards"
                )
        return named

    def _allocate(self, array: NDArray | None) -> NDArray | None:
        if array is None:
            return None
        if self.trials > self.block:
            return np.empty_like(array, shape=(self.trials, *array.shape[1:]))
        kept = array[: self.trials]
        if 2 * self.trials > len(array):
            return kept
        return kept.copy()  # a view would keep the whole block alive
