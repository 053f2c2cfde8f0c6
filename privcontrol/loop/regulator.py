"""The LQ regulator, by its recursion or by the Riccati equation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..numerics.linalg import nonzero
from ..numerics.objects import ByContent
from ..numerics.thresholds import LEAST_PRICE
from ..secrets.modes import unseen_mode
from ..systems.linear import (
    LinearSystem,
    root,
)
from ..systems.varying import VaryingPlant
from .side import LinearSide, Weights


@dataclass(frozen=True, eq=False)
class Regulation(ByContent):
    """Pose the LQ problem of the plant and the sums of r - yhat of tracked outputs.

    ``cost`` is [[Q, N], [N', R]] of size n + j + m, ``weight`` that of the state after
    the run, None for the solution of the Riccati equation. Where plant or weights vary,
    ``every`` holds the problem of each sample, and the others are those of the last one.
    """

    A: NDArray[np.float64]
    B: NDArray[np.float64]
    cost: NDArray[np.float64]
    weight: NDArray[np.float64] | None
    every: tuple[Regulation, ...] = ()

    @classmethod
    def of(
        cls,
        side: LinearSide,
        weights: Weights,
        terminal: NDArray[np.float64] | None,
        tracked: Mapping[int, float],
    ) -> Regulation:
        """Return the problem with the prices of the sums of ``tracked`` outputs."""
        count = weights.samples
        if isinstance(side.plant, VaryingPlant):
            count = side.plant.samples
        if count is None:
            return cls._of_sample(side, side.plant, weights.cost, terminal, tracked)
        constant = None if weights.samples is not None else weights.cost
        every = []
        for t in range(count):
            now = side.plant.at(t)
            cost = weights.at(t).cost if constant is None else constant
            every.append(cls._of_sample(side, now, cost, terminal, tracked))
        return replace(every[-1], every=tuple(every))

    @classmethod
    def _of_sample(
        cls,
        side: LinearSide,
        plant: LinearSystem,
        cost: NDArray[np.float64],
        terminal: NDArray[np.float64] | None,
        tracked: Mapping[int, float],
    ) -> Regulation:
        n = plant.order
        picked = list(tracked)
        j = len(picked)
        A = np.eye(n + j)
        A[:n, :n] = plant.A
        A[n:, :n] = -plant.C[picked]
        driven = plant.B[:, side.driven]
        B = np.vstack([driven, -side.through[picked]])
        if not j:
            return cls(A, B, cost, terminal)
        last = n + driven.shape[1]
        cost = scipy.linalg.block_diag(cost, np.diag(list(tracked.values())))
        # the sums stand between states and inputs
        order = np.r_[:n, last : last + j, n:last]
        return cls(A, B, cost[np.ix_(order, order)], terminal)

    @property
    def settled(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The gain (m, n + j) of ``ct.dlqr``, and its Riccati equation's solution."""
        return _settled(replace(self, weight=None, every=()))

    @property
    def terminal(self) -> NDArray[np.float64]:
        """The weight (n + j, n + j) of the state after the run."""
        return self.settled[1] if self.weight is None else self.weight

    def gains(self, samples: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return gains K_t (T, m, n + j), and roots W_t of the price of an error.

        An error e of the estimate at t adds |W_t e|^2 to the cost of the rest of the
        run.
        """
        n, m = self.B.shape
        both = np.hstack([self.A, self.B])
        cost = self.cost
        gains = np.empty((samples, m, n))
        prices = np.empty((samples, m, n))
        value = self.terminal
        for t in reversed(range(samples)):
            if self.every:
                now = self.every[t]
                both = np.hstack([now.A, now.B])
                cost = now.cost
            stage = cost + both.T @ value @ both
            by_input = stage[n:, n:]
            sizes = nonzero(np.sqrt(np.maximum(np.diag(by_input), 0.0)))
            units = np.outer(sizes, sizes)
            inverse = _inverse_of(by_input / units) / units
            gains[t] = inverse @ stage[n:, :n]
            prices[t] = root(by_input).T @ gains[t]
            value = stage[:n, :n] - gains[t].T @ stage[n:, :n]
            value = (value + value.T) / 2
        return gains, prices


@lru_cache(maxsize=4)  # a loop asks again for each noise, and to price its errors
def _settled(task: Regulation) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Solve a problem without a horizon."""
    n = len(task.A)
    gain, value, poles = riccati(task.A, task.B, task.cost)
    if not np.abs(poles).max() < 1:
        names = [f"state {k}" for k in range(n)]
        unreached = unseen_mode(task.A.T, task.B.T, names)
        run = (
            ". A run with a horizon and a prior P0 needs none: pass terminal=0, the "
            "cost of the run alone, or another weight of x(T)"
        )
        if unreached:
            raise ValueError(
                "no stabilising feedback gain: (A, B) is not stabilisable, as the "
                f"inputs do not reach the mode {unreached}, which does not decay; "
                "add an input, or let a local loop stabilise it (with_local_loop)"
                f"{run}"
            )
        raise ValueError(
            "no stabilising feedback gain: (A, B) must be stabilisable, Q must "
            "weigh every mode that does not decay by itself, and R should be "
            f"positive definite{run}"
        )
    for found in (gain, value):  # which others get as well
        found.flags.writeable = False
    return gain, value


def _inverse_of(matrix: NDArray[np.float64]) -> NDArray[np.floating]:
    """The pseudo-inverse of a symmetric matrix, by hand for one number."""
    if matrix.shape == (1, 1):
        return 1 / matrix if matrix[0, 0] else matrix
    return np.linalg.pinv(matrix, hermitian=True)


def riccati(
    A: NDArray[np.float64], B: NDArray[np.float64], cost: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.inexact]]:
    """Gain (m, n), solution (n, n) and poles of an LQ problem, infinite without any.

    Where states or inputs are in units far apart it is solved again, in units in which
    the first solution is one.
    """
    n = len(A)
    both = np.hstack([A, B])
    units = np.ones(len(cost))
    for _ in range(2):
        near = both * units / units[:n, None]
        weights = cost * np.outer(units, units)
        try:
            value = scipy.linalg.solve_discrete_are(
                near[:, :n],
                near[:, n:],
                weights[:n, :n],
                weights[n:, n:],
                s=weights[:n, n:],
            )
            stage = weights + near.T @ value @ near
            gain = np.linalg.solve(stage[n:, n:], stage[n:, :n])
            poles = np.linalg.eigvals(near[:, :n] - near[:, n:] @ gain)
        except ValueError:  # also of a singular matrix, or of one that is not finite
            return cost[n:, :n], cost[:n, :n], np.full(1, np.inf)
        states, inputs = np.split(units, [n])
        found = value / states / states[:, None]
        gain = gain * inputs[:, None] / states
        sizes = nonzero(np.append(np.diag(value), np.diag(stage)[n:]))
        if sizes.min() > LEAST_PRICE * sizes.max():  # no price or variance is lost
            break
        units = units / np.sqrt(sizes)
    return np.asarray(gain, float), found, poles
