"""Run Monte-Carlo trials in blocks, serially or on any ``concurrent.futures.Executor``.

The numbers depend on the seed alone. Every block has its own generator and is computed at
full size, for any executor, its workers and the number of trials asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import closing
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .core._linalg import Seed, check_memory, generator, positive_integer
from .core._progress import progress_bar

#: Workers of an executor that does not say how many it has.
_MANY_WORKERS = 64


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

    Block i draws from child i of one seed, so ``trials=k`` is bit for bit the
    beginning of ``trials=n``. The first exception cancels the blocks that have not
    started, and the executor stays open.

    ``task(generator, block, keep)`` returns arrays by name with the trials on axis 0, or
    None for an absent one. The first ``keep`` trials count, with the bits that they have in
    a whole block. Process pools pickle the task. Each block gets its part of the arrays in
    ``data`` as a keyword.

    Other sizes of ``block`` are other numbers, so it must depend on the problem, never
    on ``trials`` or the workers.

    Examples
    --------
    >>> def task(generator, block, keep):
    ...     return {"eta": generator.standard_normal((block, 2))}
    >>> run_trials(task, 500, rng=0)["eta"].shape
    (500, 2)
    """
    trials = positive_integer(trials, "trials")
    entropy = draw_entropy(rng)
    if executor is not None:
        task = _sent_once(task, checked_executor(executor))

    def made() -> Iterator[tuple]:
        for index, start in enumerate(range(0, trials, block)):
            keep = min(block, trials - start)
            parts = {}
            for name, array in (data or {}).items():
                parts[name] = array[start : start + keep]
            yield task, entropy, block, keep, index, parts

    jobs = made()
    if executor is None:
        results = _in_turn(jobs)
    else:
        results = _in_flight(jobs, executor)
    output: dict[str, Any] = {}
    with progress_bar(trials, progress) as bar, closing(results):
        for index, arrays in results:
            start = index * block
            keep = min(block, trials - start)
            for name, array in arrays.items():
                if array is None or len(array) == trials:
                    output[name] = array  # absent, or the only block
                    continue
                if name not in output:
                    shape = (trials, *array.shape[1:])
                    check_memory(math.prod(shape), "trials")
                    output[name] = np.empty_like(array, shape=shape)
                output[name][start : start + keep] = array[:keep]
            del arrays, array  # before the next block needs the memory
            bar.update(keep)
    return output


def _run_block(
    task: Callable, entropy: list[int], block: int, keep: int, index: int, data: Mapping
) -> dict[str, NDArray | None]:
    """What the task returns with child ``index`` of ``SeedSequence(entropy)``."""
    child = np.random.SeedSequence(entropy, spawn_key=(index,))
    return task(np.random.default_rng(child), block, keep, **data)


def _sent_once(task: Callable, executor: Executor) -> Any:
    """Return the task, or where dask's workers find it, who else get it every time."""
    client = getattr(executor, "_client", None)
    if client is None:
        return task
    return client.scatter([task], broadcast=True, hash=False)[0]


def _in_turn(jobs: Iterable[tuple]) -> Generator[tuple[int, Any]]:
    """Yield blocks one after the other, computed here."""
    for index, job in enumerate(jobs):
        yield index, _run_block(*job)


def _in_flight(jobs: Iterable[tuple], executor: Executor) -> Generator[tuple[int, Any]]:
    """Yield blocks as they complete, a few for each worker at a time.

    Those not started are cancelled when one fails or the consumer stops.
    """
    workers = getattr(executor, "_max_workers", None) or _MANY_WORKERS
    limit = 2 * workers + 1
    queue = iter(enumerate(jobs))
    pending: dict[Future, int] = {}
    try:
        while True:
            for index, job in islice(queue, limit - len(pending)):
                pending[executor.submit(_run_block, *job)] = index
            if not pending:
                return
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            while done:
                future = done.pop()
                yield pending.pop(future), future.result()
    finally:
        for future in pending:
            future.cancel()


def checked_executor(executor: object) -> Executor:
    if isinstance(executor, Executor):
        return executor
    hint = "ProcessPoolExecutor(max_workers=2)"
    if hasattr(executor, "get_executor"):
        hint = "its get_executor()"
    raise TypeError(
        "executor: expected a concurrent.futures.Executor, got "
        f"{type(executor).__name__}; pass e.g. {hint}"
    )
