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
) -> dict[str, Any]:
    """Run trials of a task in blocks, with the same numbers on every executor.

    Block i draws from child i of one seed, so that ``trials=k`` is bit for bit the
    beginning of ``trials=n``. The first exception cancels the blocks that have not
    started, and the executor stays open.

    ``task(generator, block, keep)`` returns arrays by name with the trials on axis 0, or
    None for an absent one. The first ``keep`` trials count, with the bits that they have in
    a whole block. Process pools pickle the task. Each block gets its part of the arrays in
    ``data`` as a keyword.

    Other sizes of ``block`` are other numbers, so that it must depend on the problem, never
    on ``trials`` or the workers.

    Examples
    --------
    >>> def task(generator, block, keep):
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
    jobs = _Jobs(task, draw_entropy(rng), block, trials, data)
    if executor is None:
        results = ((index, _run_block(*jobs[index])) for index in range(len(jobs)))
    else:
        results = _in_flight(jobs, checked_executor(executor))
    output: dict[str, Any] = {}
    with progress_bar(trials, progress) as bar, closing(results):
        for index, arrays in results:
            start = index * block
            keep = min(block, trials - start)
            _check_block(arrays, keep)
            if not output:
                output = {name: _room(arrays[name], trials, block) for name in arrays}
            if trials > block:
                _store(arrays, output, slice(start, start + keep))
            del arrays  # before the next block needs the memory
            bar.update(keep)
    return output


@dataclass(frozen=True)
class _Jobs:
    """The arguments of `_run_block` for each block of a run."""

    task: Callable
    entropy: list
    block: int
    trials: int
    data: Mapping[str, NDArray]

    def __len__(self) -> int:
        return -(-self.trials // self.block)

    def __getitem__(self, index: int) -> tuple:
        start = index * self.block
        keep = min(self.block, self.trials - start)
        parts = {name: array[start : start + keep] for name, array in self.data.items()}
        return self.task, self.entropy, self.block, keep, index, parts


def _run_block(
    task: Callable, entropy: list[int], block: int, keep: int, index: int, data: Any
) -> Any:
    """What the task returns with child ``index`` of ``SeedSequence(entropy)``."""
    child = np.random.SeedSequence(entropy, spawn_key=(index,))
    return task(np.random.default_rng(child), block, keep, **data)


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
                pending[executor.submit(_run_block, *jobs[index])] = index
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


def checked_executor(executor: Any) -> Executor:
    if isinstance(executor, Executor):
        return executor
    hint = "ProcessPoolExecutor(max_workers=2)"
    if hasattr(executor, "get_executor"):
        hint = "its get_executor()"
    raise TypeError(
        "executor: expected a concurrent.futures.Executor, got "
        f"{type(executor).__name__}; pass e.g. {hint}"
    )


def _check_block(arrays: Any, keep: int) -> None:
    if not isinstance(arrays, dict):
        raise TypeError(f"task: expected a dict of arrays, got {type(arrays).__name__}")
    for name, array in arrays.items():
        if array is not None and len(array) < keep:
            raise ValueError(
                f"task: expected an array with the block's {keep} trials on axis 0 for "
                f"{name!r}, got shape {array.shape}"
            )


def _room(array: NDArray | None, trials: int, block: int) -> NDArray | None:
    """An array for all trials, which is the first block's own where there is one only."""
    if array is None:
        return None
    if trials > block:
        return np.empty_like(array, shape=(trials, *array.shape[1:]))
    if 2 * trials > len(array):
        return array[:trials]
    return array[:trials].copy()  # a view would keep the whole block alive


def _store(arrays: dict, output: dict, rows: slice) -> None:
    """Copy a block's trials into the rows of the output."""
    for name, place in output.items():
        array = arrays.get(name)
        if place is None and array is None:
            continue
        if place is None or array is None or place.shape[1:] != array.shape[1:]:
            raise ValueError(
                f"task: expected {name!r} of the shape that it has in the first block"
            )
        place[rows] = array[: rows.stop - rows.start]
