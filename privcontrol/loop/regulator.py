"""From weights, a prior and noise to the gains of an LQG loop.

The regulator is that of the LQ recursion. The observer is the Kalman filter that knows
the prior of x(0) and the law of the noise, or that of the papers, with constant gains.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property

import control as ct
import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core._files import Saved
from ..core.errors import PrivacyWarning
from ..designs.output_noise import OutputNoise
from ..noise.parts import White
from ..secrets.modes import unseen_mode
from .checks import Weights, present, root
from .controller import Law, ObserverFeedback
from .kalman import Knowledge, Step, is_dense, knowledge_of
from .own_law import FunctionLaw, OwnLaw
from .side import LinearSide


def constant_filter(
    side: LinearSide, weights: Weights, noise: OutputNoise | None
) -> Step:
    """Return the filter of ``ct.dlqe``, which knows independent noise and no other."""
    return Knowledge.of(side.plant, weights, noise, None, kind=White).settled()


@dataclass(frozen=True, eq=False)
class LqgDesign(Saved):
    """Hold what an LQG loop was designed for, so it can be designed for other noise.

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
        side: LinearSide,
        weights: Weights,
        noise: OutputNoise | None,
        samples: float | None = None,
    ) -> Law:
        """Return the controller for a noise, or without it for some samples."""
        if noise is not None:
            samples = noise.horizon
        K = self.regulator(side, weights, samples)
        if samples == math.inf or (self.is_kalman and samples is not None):
            known = knowledge_of(side.plant, weights, noise, self.P0)
            return known.law(side, K, self.form, self.tracked, samples)
        step = constant_filter(side, weights, noise)
        L = step.correct if self.form == "filter" else step.advance
        return ObserverFeedback.of(side, K, L, self.form, self.tracked)

    def regulator(
        self,
        side: LinearSide,
        weights: Weights,
        samples: float | None,
    ) -> NDArray:
        """Return K (m, n + j), or (T, m, n + j) for another terminal weight.

        The weight of constant gains is the solution of the Riccati equation.
        """
        task = Regulation.of(side, weights, self)
        if self.terminal is None or samples in (None, math.inf) or not self.is_kalman:
            return task.settled[0]
        return task.gains(int(samples or 0))[0]

    @property
    def is_kalman(self) -> bool:
        """Whether its filter knows the prior and the noise."""
        return self.estimator == "kalman"


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnDesign(LqgDesign):
    """Hold the public prior of a controller of the user's own, with its own gains."""

    own: OwnLaw

    def law(
        self,
        side: LinearSide,
        weights: Weights,
        noise: OutputNoise | None,
        samples: float | None = None,
    ) -> Law:
        """Return it with the filter that knows the noise, given QN, RN and a prior."""
        is_unknown = weights.QN is None or weights.RN is None
        if self.P0 is not None and is_unknown:
            raise ValueError(
                "P0: the estimate that starts from it needs the covariances of the "
                "plant's disturbances and readings; pass QN and RN"
            )
        if noise is None or is_unknown:
            return self.own
        if self.P0 is None and is_dense(noise):
            if isinstance(self.own, FunctionLaw):
                warnings.warn(
                    "controller: its estimate is None, since beside this noise an "
                    "estimate needs the public covariance of x(0); pass P0",
                    PrivacyWarning,
                    stacklevel=2,
                )
            return self.own
        known = knowledge_of(side.plant, weights, noise, self.P0)
        none = np.zeros_like(side.B.T)
        observer = known.law(side, none, self.form, self.tracked, noise.horizon)
        return self.own.knowing(observer)


@dataclass(frozen=True, eq=False)
class Regulation:
    """Pose the LQ problem of the plant and the sums of r - yhat of tracked outputs.

    ``cost`` is [[Q, N], [N', R]] of size n + j + m, ``weight`` that of the state after
    the run, None for the solution of the Riccati equation.
    """

    A: NDArray
    B: NDArray
    cost: NDArray
    weight: NDArray | None

    @classmethod
    def of(cls, side: LinearSide, weights: Weights, design: LqgDesign) -> Regulation:
        """Return the problem of a design."""
        plant = side.plant
        n = plant.order
        picked = list(design.tracked)
        j = len(picked)
        A = np.eye(n + j)
        A[:n, :n] = plant.A
        A[n:, :n] = -plant.C[picked]
        B = np.vstack([side.B, -side.through[picked]])
        cost = scipy.linalg.block_diag(
            present(weights.Q, "Q"), np.diag(design.prices), present(weights.R, "R")
        )
        if weights.N is not None:
            cost[:n, n + j :] = weights.N
            cost[n + j :, :n] = weights.N.T
        return cls(A, B, cost, design.terminal)

    @cached_property
    def settled(self) -> tuple[NDArray, NDArray]:
        """The gain (m, n + j) of ``ct.dlqr``, and its Riccati equation's solution."""
        n = len(self.A)
        weights = (self.cost[:n, :n], self.cost[n:, n:], self.cost[:n, n:])
        try:
            gain, value, poles = ct.dlqr(self.A, self.B, *weights, method="scipy")
        except (ValueError, ct.ControlArgument):
            poles = [np.inf]
        if not np.abs(poles).max() < 1:
            names = [f"state {k}" for k in range(n)]
            unreached = unseen_mode(self.A.T, self.B.T, names)
            if unreached:
                raise ValueError(
                    "no stabilising feedback gain: (A, B) is not stabilisable, as the "
                    f"inputs do not reach the mode {unreached}, which does not decay; "
                    "add an input, or let a local loop stabilise it (with_local_loop)"
                )
            raise ValueError(
                "no stabilising feedback gain: (A, B) must be stabilisable, Q must "
                "weigh every mode that does not decay by itself, and R should be "
                "positive definite"
            )
        return gain, value

    @property
    def terminal(self) -> NDArray:
        """The weight (n + j, n + j) of the state after the run."""
        return self.settled[1] if self.weight is None else self.weight

    def gains(self, samples: int) -> tuple[NDArray, NDArray]:
        """Return gains K_t (T, m, n + j), and roots W_t of the price of an error.

        An error e of the estimate at t adds |W_t e|^2 to the cost of the rest of the
        run.
        """
        n, m = self.B.shape
        both = np.hstack([self.A, self.B])
        gains = np.empty((samples, m, n))
        prices = np.empty((samples, m, n))
        value = self.terminal
        for t in reversed(range(samples)):
            stage = self.cost + both.T @ value @ both
            by_input = stage[n:, n:]
            gains[t] = np.linalg.pinv(by_input, hermitian=True) @ stage[n:, :n]
            prices[t] = root(by_input).T @ gains[t]
            value = stage[:n, :n] - gains[t].T @ stage[n:, :n]
            value = (value + value.T) / 2
        return gains, prices
