"""Trials of consensus in cache-sized blocks: one sparse product a step for many trials at once.

Everything is centred: d(t) = y(t) - mean(x(0)) obeys d(t+1) = (I - L) d(t), because constants are kept by the
iteration, and the states follow from the messages as x = y - gamma.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse


def _standard_laplace(generator, size):
    return generator.laplace(size=size)


#: Standard entries of each family: variance 1, and scale 1 (variance 2).
STANDARD = {"gaussian": np.random.Generator.standard_normal, "laplace": _standard_laplace}

_BLOCK_NUMBERS = 1 << 20  # numbers in a block of messages: 8 MB, the last-level cache's share of one core


def trial_block(nodes):
    """Trials in a block: a function of the network's size only, between 10 and 250.

    Ten trials fill a cache line and a bit, which amortises the irregular access to a large network; decimal sizes
    leave no block half used at the numbers of trials that people ask for.
    """
    return next((size for size in (250, 100, 50, 20) if size * nodes <= _BLOCK_NUMBERS), 10)


@dataclass(frozen=True, repr=False)
class Propagation:
    """A block of trials of y(t+1) = (I - L) y(t), y(0) = x(0) + gamma, as a task for ``run_trials``.

    Attributes
    ----------
    iteration : csr_array, shape (n, n)
        I - L.
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
    """

    iteration: sparse.csr_array
    deviation: np.ndarray
    average: float
    scales: np.ndarray
    family: str
    steps: int
    kept: int = 0
    last: bool = True
    centred: bool = False

    def __call__(self, generator, block):
        noise, eta = self._draw(generator, block)
        d = self.deviation[:, None] + noise
        errors = {readout: np.empty((block, self.steps + 1)) for readout in ("message", "state")}
        shape = (block, len(d), self.steps + 1)
        messages, states = (np.empty(shape), np.empty(shape)) if self.kept else (None, None)
        difference = np.empty_like(d)
        for t in range(self.steps + 1):
            if t:
                d = self.iteration @ d
            np.subtract(d, noise, out=difference)
            errors["message"][:, t] = _column_energies(d)
            errors["state"][:, t] = _column_energies(difference)
            if self.kept:  # memory of the trials beyond is never touched
                np.add(d.T[: self.kept], self.average, out=messages[: self.kept, :, t])
                np.add(difference.T[: self.kept], self.average, out=states[: self.kept, :, t])
        if self.last and not self.kept:
            messages = np.add(d.T, self.average, order="C")[:, :, None]
        return {"messages": messages, "states": states, "eta": eta if self.kept else None, **errors}

    def _draw(self, generator, block):
        """gamma (n, block) and, where signals are kept, the standard entries (block, n) behind it."""
        noise = STANDARD[self.family](generator, size=(len(self.scales), block))
        eta = noise.T.copy() if self.kept else None
        noise *= self.scales[:, None]
        if self.centred:
            noise -= noise.mean(axis=0)
        return noise, eta


def _column_energies(columns):
    return np.einsum("ij,ij->j", columns, columns)
