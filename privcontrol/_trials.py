"""Monte-Carlo trials in blocks of fixed size, serially or on any ``concurrent.futures.Executor``.

The numbers depend on the seed alone: every block has its own generator and is computed at full size, whatever
the executor, its workers and the number of trials asked for. Nothing here charges a privacy budget.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, wait
from contextlib import closing, nullcontext
from dataclasses import dataclass
from itertools import islice
from os import cpu_count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .core._linalg import positive_integer
from .core._random import Seed, generator


def draw_entropy(rng: Seed) -> list[int]:
    """One 128-bit seed from whatever ``np.random.default_rng`` accepts; None asks the operating system.

    A Generator advances by this one draw, however many trials follow. A seed that is refused is never shown:
    it determines the noise.

    Raises
    ------
    TypeError
        For the legacy ``RandomState`` and for anything else that is no seed.
    ValueError
        For a negative seed.
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
    """Run `trials` Monte-Carlo trials of `task` in blocks, the same numbers on every executor.

    Block i draws from child i of one seed (``SeedSequence.spawn``), is always computed at full size and then
    cut: ``trials=k`` is, bit for bit, the beginning of ``trials=n``. At most a few blocks per worker are in
    flight. The first exception propagates and cancels the blocks that have not started; the executor stays
    open.

    Parameters
    ----------
    task : callable
        ``task(generator, block)`` returns one block: a dict or a tuple of arrays with the trials on axis 0,
        or None for an absent array. Process pools and clusters pickle it: use a module-level function, a
        partial of one or a dataclass of arrays (python-control systems cannot be pickled).
    trials : int
        Number of trials.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Source of the one seed.
    executor : concurrent.futures.Executor, optional
        Threads, processes, loky, ``dask.distributed.Client.get_executor()``. None runs in this thread.
    progress : bool, optional
        Show a tqdm bar that counts trials.
    block : int, optional
        Trials per block. Other blocks are other numbers: derive it from the problem, never
        from `trials` or the workers.
    data : mapping of str to ndarray, optional
        Given arrays with the trials on axis 0. Each block gets its part as a keyword, filled up with zeros to the
        full block.
    partial : bool, optional
        The task is ``task(generator, block, keep)`` and returns the first ``keep`` trials of its block, with the bits
        that they have in the whole block. Given arrays are not filled up then. It saves the memory of the others.

    Returns
    -------
    dict or tuple of ndarray
        What `task` returns, with `trials` entries on axis 0, in the memory order of the blocks. A single block
        of which more than half is used is returned without a copy.

    Raises
    ------
    TypeError
        If `rng`, `executor` or `progress` is of another kind, or `task` returns neither a dict nor a tuple.
    ValueError
        If a block has other than `block` trials, or other names, shapes or dtypes than the first block.
    ImportError
        If `progress` is True and tqdm is not installed.

    Examples
    --------
    >>> def task(generator, block):
    ...     return {"eta": generator.standard_normal((block, 2))}
    >>> run_trials(task, 500, rng=0)["eta"].shape
    (500, 2)
    """
    trials, block = positive_integer(trials, "trials"), positive_integer(block, "block")
    data = _checked_data(data or {}, trials)
    jobs = _Jobs(task, draw_entropy(rng), block, trials, data, partial)
    if executor is None:
        results = _serial(jobs)
    else:
        results = _in_flight(jobs, _checked_executor(executor))
    output = _Output(trials, block, partial)
    with _progress_bar(trials, progress) as bar, closing(results):
        for index, arrays in results:
            output.store(index, arrays)
            del arrays  # before the next block needs the memory
            bar.update(min(block, trials - index * block))
    return output.collected()


@dataclass(frozen=True)
class _Jobs:
    """The blocks of a run: what each is called with."""

    task: Callable
    entropy: list
    block: int
    trials: int
    data: Mapping[str, NDArray]
    partial: bool

    def __len__(self) -> int:
        return -(-self.trials // self.block)

    def of(self, index: int) -> tuple:
        """The arguments of `_run_block` for block ``index``."""
        start = index * self.block
        keep = min(self.block, self.trials - start)
        sizes = {}
        if self.partial:
            sizes["keep"] = keep
        parts = {}
        for name, array in self.data.items():
            part = array[start : start + keep]
            if not self.partial:
                filling = np.zeros((self.block - keep, *part.shape[1:]))
                part = np.concatenate([part, filling])
            parts[name] = part
        return self.task, self.entropy, self.block, index, sizes | parts


def _run_block(
    task: Callable, entropy: list[int], block: int, index: int, keywords: Any
) -> Any:
    """Block `index`, drawn from child `index` of the seed, as ``SeedSequence(entropy).spawn`` makes it."""
    child = np.random.SeedSequence(entropy, spawn_key=(index,))
    return task(np.random.default_rng(child), block, **keywords)


def _checked_data(data: Mapping[str, NDArray], trials: int) -> Mapping[str, NDArray]:
    for name, array in data.items():
        if len(array) != trials:
            raise ValueError(
                f"data: expected {trials} trials on axis 0 of {name!r}, got {len(array)}"
            )
    return data


def _serial(jobs: _Jobs) -> Generator[tuple[int, Any]]:
    """Blocks one after another, in this thread."""
    for index in range(len(jobs)):
        yield index, _run_block(*jobs.of(index))


def _in_flight(jobs: _Jobs, executor: Executor) -> Generator[tuple[int, Any]]:
    """Blocks as they complete; those not started are cancelled when one fails or the consumer stops."""
    limit = 2 * _workers(executor) + 1
    queue = iter(range(len(jobs)))
    pending: dict[Any, int] = {}
    try:
        while True:
            for index in islice(queue, limit - len(pending)):
                pending[executor.submit(_run_block, *jobs.of(index))] = index
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
    """Workers: the standard library's pools and loky hold the number, dask's client tells; else a guess."""
    count = getattr(executor, "_max_workers", None)
    client: Any = getattr(executor, "_client", None)
    if count is None and hasattr(client, "nthreads"):
        count = sum(client.nthreads().values())
    return count if isinstance(count, int) and count > 0 else max(16, cpu_count() or 1)


def _checked_executor(executor: Any) -> Executor:
    if isinstance(executor, Executor):
        return executor
    hint = (
        "its get_executor()"
        if hasattr(executor, "get_executor")
        else "ProcessPoolExecutor(max_workers=2)"
    )
    raise TypeError(
        f"executor: expected a concurrent.futures.Executor, got {type(executor).__name__}; pass e.g. {hint}"
    )


class _NoBar:
    """The bar that is not shown."""

    def update(self, trials: int) -> None:
        """Draw nothing."""


def _progress_bar(trials: int, progress: bool) -> Any:
    if not isinstance(progress, bool):
        raise TypeError(
            f"progress: expected True or False, got {type(progress).__name__}"
        )
    if not progress:
        return nullcontext(_NoBar())
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError(
            "progress=True draws a tqdm bar: pip install tqdm, or leave progress=False"
        ) from error
    return tqdm(total=trials, unit="trial")


class _Output:
    """Collects blocks, in any order, into arrays that are allocated when the first one arrives."""

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
            self.kind, self.layout = type(result), layout
            self.arrays = {name: self._allocate(array) for name, array in named.items()}
        if layout != self.layout or type(result) is not self.kind:
            raise ValueError(
                f"task: expected the arrays {self.layout} of the first block again, got {layout}"
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
                    f"task: expected an array with the block's {expected} trials on axis 0 for {name!r}, "
                    f"got {type(array).__name__} of shape {np.shape(array)}; blocks are cut afterwards"
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
