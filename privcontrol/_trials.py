"""Monte-Carlo trials in blocks of fixed size, serially or on any ``concurrent.futures.Executor``.

The numbers depend on the seed alone: every block has its own generator and is computed at full size, whatever
the executor, its workers and the number of trials asked for. Nothing here charges a privacy budget.
"""

from concurrent.futures import FIRST_COMPLETED, Executor, wait
from contextlib import closing, nullcontext
from itertools import islice
from os import cpu_count

import numpy as np

from .core._linalg import positive_integer
from .core._random import generator


def draw_entropy(rng):
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
    task, trials, *, rng=None, executor=None, progress=False, block=256, data=None
):
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
    job = (task, draw_entropy(rng), block)
    blocks = range(-(-trials // block))
    results = (
        _serial(job, blocks, data)
        if executor is None
        else _in_flight(job, blocks, data, _checked_executor(executor))
    )
    output = _Output(trials, block)
    with _progress_bar(trials, progress) as bar, closing(results):
        for index, arrays in results:
            output.store(index, arrays)
            del arrays  # before the next block needs the memory
            bar.update(min(block, trials - index * block))
    return output.collected()


def _run_block(task, entropy, block, index, data):
    """Block `index`, drawn from child `index` of the seed, as ``SeedSequence(entropy).spawn`` makes it."""
    return task(
        np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(index,))),
        block,
        **data,
    )


def _checked_data(data, trials):
    for name, array in data.items():
        if len(array) != trials:
            raise ValueError(
                f"data: expected {trials} trials on axis 0 of {name!r}, got {len(array)}"
            )
    return data


def _part(data, block, index):
    """The rows of block `index` of every given array, at full block size."""
    parts = {
        name: array[index * block : (index + 1) * block] for name, array in data.items()
    }
    return {
        name: np.concatenate([part, np.zeros((block - len(part), *part.shape[1:]))])
        for name, part in parts.items()
    }


def _serial(job, blocks, data):
    """Blocks one after another, in this thread."""
    for index in blocks:
        yield index, _run_block(*job, index, _part(data, job[2], index))


def _in_flight(job, blocks, data, executor):
    """Blocks as they complete; those not started are cancelled when one fails or the consumer stops."""
    limit, queue, pending = 2 * _workers(executor) + 1, iter(blocks), {}
    try:
        while True:
            for index in islice(queue, limit - len(pending)):
                pending[
                    executor.submit(_run_block, *job, index, _part(data, job[2], index))
                ] = index
            if not pending:
                return
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            while done:
                future = done.pop()
                yield pending.pop(future), future.result()
    finally:
        for future in pending:
            future.cancel()


def _workers(executor):
    """Workers: the standard library's pools and loky hold the number, dask's client tells; else a guess."""
    count = getattr(executor, "_max_workers", None)
    client = getattr(executor, "_client", None)
    if count is None and hasattr(client, "nthreads"):
        count = sum(client.nthreads().values())
    return count if isinstance(count, int) and count > 0 else max(16, cpu_count() or 1)


def _checked_executor(executor):
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

    def update(self, trials):
        """Draw nothing."""


def _progress_bar(trials, progress):
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

    def __init__(self, trials, block):
        self.trials, self.block = trials, block
        self.kind = self.layout = self.arrays = None

    def store(self, index, result):
        named = self._named(result)
        layout = {
            name: None if array is None else (array.shape, array.dtype)
            for name, array in named.items()
        }
        if self.arrays is None:
            self.kind, self.layout = type(result), layout
            self.arrays = {name: self._allocate(array) for name, array in named.items()}
        if layout != self.layout or type(result) is not self.kind:
            raise ValueError(
                f"task: expected the arrays {self.layout} of the first block again, got {layout}"
            )
        if self.trials > self.block:
            start = index * self.block
            for name, array in named.items():
                if array is not None:
                    self.arrays[name][start : start + self.block] = array[
                        : self.trials - start
                    ]

    def collected(self):
        return (
            tuple(self.arrays.values()) if issubclass(self.kind, tuple) else self.arrays
        )

    def _named(self, result):
        if not isinstance(result, (dict, tuple)):
            raise TypeError(
                f"task: expected a dict or a tuple of arrays, got {type(result).__name__}"
            )
        named = result if isinstance(result, dict) else dict(enumerate(result))
        for name, array in named.items():
            if array is not None and (
                not isinstance(array, np.ndarray) or array.shape[:1] != (self.block,)
            ):
                raise ValueError(
                    f"task: expected an array with the block's {self.block} trials on axis 0 for {name!r}, "
                    f"got {type(array).__name__} of shape {np.shape(array)}; blocks are cut afterwards"
                )
        return named

    def _allocate(self, array):
        if array is None:
            return None
        if self.trials > self.block:
            return np.empty_like(array, shape=(self.trials, *array.shape[1:]))
        kept = array[: self.trials]
        return (
            kept if 2 * self.trials > self.block else kept.copy()
        )  # a view would keep the whole block alive
