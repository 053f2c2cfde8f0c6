"""Trials of consensus in cache-sized blocks: one sparse product a step for many trials at once.

Everything is centred: d(t) = y(t) - mean(x(0)) obeys d(t+1) = (I - L) d(t), because constants are kept by the
iteration, and the states follow from the messages as x = y - gamma. A step of a large network is computed by parts of
its rows, on several threads; the parts, and with them all numbers, do not depend on the threads.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np


def _standard_laplace(generator, size):
    return generator.laplace(size=size)


#: Standard entries of each family: variance 1, and scale 1 (variance 2).
STANDARD = {
    "gaussian": np.random.Generator.standard_normal,
    "laplace": _standard_laplace,
}

READOUTS = ("message", "state")

_BLOCK_NUMBERS = (
    1 << 21
)  # numbers in a block of messages: 16 MB, half of a last-level cache
_PART_NUMBERS = (
    1 << 19
)  # numbers in a part of its rows: smaller ones stay closer, but each part reads all messages
_PARTS = 12  # at most, for the same reason

#: Numbers whose squares are summed side by side: a block has few columns, and short inner loops are slow.
_SIDE_BY_SIDE = 640


def trial_block(nodes):
    """Trials in a block: a function of the network's size only, between 10 and 250.

    Ten trials fill a cache line and a bit, which amortises the irregular access to a large network; decimal sizes
    leave no block half used at the numbers of trials that people ask for.
    """
    return next(
        (size for size in (250, 100, 50, 20) if size * nodes <= _BLOCK_NUMBERS), 10
    )


def row_parts(iteration, block):
    """Pairs of a slice of rows and the matrix (csc_array) of these rows, with like numbers of entries.

    By columns a product reads the messages in their order, and its irregular access, to the sums, stays within the part:
    a tenth faster than by rows for 100,000 nodes, twice as fast for 1,000,000. The sums have the same order and bits.
    """
    count = min(_PARTS, -(-iteration.shape[0] * block // _PART_NUMBERS))
    edges = np.unique(
        np.searchsorted(iteration.indptr, iteration.nnz * np.arange(count + 1) // count)
    )
    return [(slice(a, b), iteration[a:b].tocsc()) for a, b in pairwise(edges.tolist())]


def available_cores():
    """Cores that this process may use."""
    return (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )


@dataclass(frozen=True, repr=False)
class Propagation:
    """A block of trials of y(t+1) = (I - L) y(t), y(0) = x(0) + gamma, as a task for ``run_trials``.

    Attributes
    ----------
    parts : list of (slice, csc_array)
        I - L, from `row_parts`.
    deviation : ndarray, shape (n,)
        x(0) - mean(x(0)).
    average : float
    scales : ndarray, shape (n,)
    family : str
    steps : int
    kept : int
        Number of trials of a block whose signals are wanted at every step.
    last : bool
        Where none are, return the last messages.
    centred : bool
        Remove the average of the noise, whose error is known exactly.
    threads : int
        Threads that share the parts of a step; no number depends on them.
    """

    parts: list
    deviation: np.ndarray
    average: float
    scales: np.ndarray
    family: str
    steps: int
    kept: int = 0
    last: bool = True
    centred: bool = False
    threads: int = 1

    def __call__(self, generator, block):
        noise, eta = self._draw(generator, block)
        d, following = self.deviation[:, None] + noise, np.empty_like(noise)
        errors = {readout: np.zeros((block, self.steps + 1)) for readout in READOUTS}
        shape = (block, len(d), self.steps + 1)
        messages, states = (
            (np.empty(shape), np.empty(shape)) if self.kept else (None, None)
        )

        def advance(part):
            """The rows of d(t) in this part, kept where wanted, and what they add to the squared errors."""
            rows, weights = part
            state = weights @ d if t else d[rows].copy()
            message = following[rows]
            message[:] = state
            state -= noise[rows]
            if self.kept:  # memory of the trials beyond is never touched
                np.add(
                    message.T[: self.kept],
                    self.average,
                    out=messages[: self.kept, rows, t],
                )
                np.add(
                    state.T[: self.kept], self.average, out=states[: self.kept, rows, t]
                )
            return _column_energies(message), _column_energies(state)

        with _mapping(min(self.threads, len(self.parts))) as each:
            for t in range(self.steps + 1):
                for energies in each(advance, self.parts):
                    for readout, energy in zip(READOUTS, energies):
                        errors[readout][:, t] += energy
                d, following = following, d
        if self.last and not self.kept:
            messages = np.add(d.T, self.average, out=following.reshape(d.T.shape))[
                :, :, None
            ]
        return {
            "messages": messages,
            "states": states,
            "eta": eta if self.kept else None,
            **errors,
        }

    def _draw(self, generator, block):
        """gamma (n, block) and, where signals are kept, the standard entries (block, n) behind it."""
        noise = STANDARD[self.family](generator, size=(len(self.scales), block))
        eta = noise.T.copy() if self.kept else None
        noise *= self.scales[:, None]
        if self.centred:
            noise -= noise.mean(axis=0)
        return noise, eta


@contextmanager
def _mapping(threads):
    """``map``, on a number of threads."""
    if threads == 1:
        yield map
        return
    with ThreadPoolExecutor(threads) as pool:
        yield pool.map


def _column_energies(columns):
    """Sums of squares down the columns of a contiguous array."""
    count, trials = columns.shape
    together = _SIDE_BY_SIDE // trials
    if together < 8 or count < together:
        return np.einsum("ij,ij->j", columns, columns)
    whole = count - count % together
    wide, rest = columns[:whole].reshape(-1, together * trials), columns[whole:]
    energies = np.einsum("ij,ij->j", wide, wide).reshape(together, trials).sum(axis=0)
    return energies + np.einsum("ij,ij->j", rest, rest)
