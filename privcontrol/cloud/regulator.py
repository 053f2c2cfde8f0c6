"""From weights, a prior and noise to the gains of an LQG loop.

The regulator is that of the LQ recursion. The observer is the Kalman filter that knows the
prior of x(0) and the law of the noise, or that of the papers, with constant gains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..channel.output_noise import OutputNoise
from ..trajectory.plant import Plant
from .checks import Weights, present
from .controller import ObserverFeedback
from .gains import observer_gain, regulator_gain, regulator_gains
from .kalman import DenseKnowledge, Knowledge, is_dense, noise_covariance


@dataclass(frozen=True, eq=False)
class LqgDesign:
    """What an LQG loop was designed for, so that other noise can take the old one's place.

    Attributes
    ----------
    estimator : {"kalman", "observer"}
    form : {"filter", "predictor"}
    P0 : ndarray, shape (n, n), or None
        Public covariance of x(0).
    initial_state : ndarray, shape (n,), or None
        Public mean of x(0).
    terminal : ndarray, shape (n + j, n + j), or None
        Weight of the state after the run; None is the solution of the Riccati equation.
    tracked : tuple of int
        The outputs with integral action.
    prices : tuple of float
        Weights of their sums.
    cap : float
        Largest noise of a co-design, relative to what one move needs.
    """

    estimator: str
    form: str
    P0: NDArray | None = None
    initial_state: NDArray | None = None
    terminal: NDArray | None = None
    tracked: tuple[int, ...] = ()
    prices: tuple[float, ...] = ()
    cap: float = 10.0

    def law(
        self,
        plant: Plant,
        controls: list[int],
        weights: Weights,
        noise: OutputNoise | None,
        samples: float | None = None,
    ) -> ObserverFeedback:
        """The controller for a noise, or without noise for a number of samples."""
        if noise is not None:
            samples = noise.horizon
        K = self.regulator(plant, controls, weights, samples)
        if self.is_kalman and noise is not None and is_dense(noise):
            dense = DenseKnowledge.of(plant, weights, noise_covariance(noise), self.P0)
            return dense.law(controls, K, self.form, self.tracked)
        if samples == math.inf or (self.is_kalman and samples is not None):
            known = Knowledge.of(plant, weights, noise, self.P0)
            correct, advance = known.gains(samples)
        else:
            L, _ = observer_gain(plant, weights, noise, self.form)
            return ObserverFeedback.of(plant, controls, K, L, self.form, self.tracked)
        if self.form == "predictor":
            correct = np.zeros_like(correct)
        return ObserverFeedback.knowing(
            plant, controls, K, known.A, known.C, correct, advance, self.tracked
        )

    def regulator(
        self,
        plant: Plant,
        controls: list[int],
        weights: Weights,
        samples: float | None,
    ) -> NDArray:
        """K (m, n + j), or (T, m, n + j) for another terminal weight than the Riccati equation's."""
        task = Regulation.of(plant, controls, weights, self)
        if self.terminal is None or samples in (None, math.inf) or not self.is_kalman:
            return task.gain
        return task.gains(self.terminal, int(samples or 0))[0]

    @property
    def is_kalman(self) -> bool:
        """Whether its filter knows the prior and the noise."""
        return self.estimator == "kalman"


@dataclass(frozen=True, eq=False)
class Regulation:
    """The plant and the sums of r - yhat of tracked outputs, with the cost of both.

    ``cost`` is [[Q, N], [N', R]] of size n + j + m.
    """

    A: NDArray
    B: NDArray
    cost: NDArray

    @classmethod
    def of(
        cls, plant: Plant, controls: list[int], weights: Weights, design: LqgDesign
    ) -> Regulation:
        """The problem of a design."""
        n = plant.order
        picked = list(design.tracked)
        j = len(picked)
        A = np.eye(n + j)
        A[:n, :n] = plant.A
        A[n:, :n] = -plant.C[picked]
        B = np.vstack([plant.B[:, controls], -plant.D[np.ix_(picked, controls)]])
        cost = scipy.linalg.block_diag(
            present(weights.Q, "Q"), np.diag(design.prices), present(weights.R, "R")
        )
        if weights.N is not None:
            cost[:n, n + j :] = weights.N
            cost[n + j :, :n] = weights.N.T
        return cls(A, B, cost)

    @cached_property
    def _settled(self) -> tuple[NDArray, NDArray]:
        n = len(self.A)
        return regulator_gain(
            self.A, self.B, self.cost[:n, :n], self.cost[n:, n:], self.cost[:n, n:]
        )

    @property
    def gain(self) -> NDArray:
        """K (m, n + j) of ``ct.dlqr``."""
        return self._settled[0]

    @property
    def value(self) -> NDArray:
        """The solution (n + j, n + j) of its Riccati equation."""
        return self._settled[1]

    def terminal(self, design: LqgDesign) -> NDArray:
        """The weight (n + j, n + j) of the state after the run."""
        return self.value if design.terminal is None else design.terminal

    def gains(self, terminal: NDArray, samples: int) -> tuple[NDArray, NDArray]:
        """Gains and prices of errors of a run, see `regulator_gains`."""
        return regulator_gains(self.A, self.B, self.cost, terminal, samples)
