"""Gains from the Riccati equations, as ``ct.dlqr`` and ``ct.dlqe`` have them."""

from __future__ import annotations

import control as ct
import numpy as np
from numpy.typing import NDArray

from ..channel.output_noise import OutputNoise
from ..trajectory.plant import Plant
from .checks import Weights, present, root

NO_KALMAN_GAIN = (
    "no stabilising Kalman gain: (A, C) must be detectable, QN (with G) must excite "
    "every mode that does not decay by itself, and RN should be positive definite"
)


def observer_gain(
    plant: Plant, weights: Weights, noise: OutputNoise | None, form: str
) -> tuple[NDArray, NDArray]:
    """Gain L (n, p) of the form and predicted covariance (n, n) of the Kalman filter that knows independent noise."""
    RN = present(weights.RN, "RN")
    if noise is not None and noise.scale is not None:
        RN = RN + noise.unit_variance * np.diag(noise.scale**2)
    try:
        gain, covariance, poles = ct.dlqe(
            plant.A, weights.G, plant.C, weights.QN, RN, method="scipy"
        )
    except (ValueError, ct.ControlArgument):
        poles = [np.inf]
    if not np.abs(poles).max() < 1:
        raise ValueError(NO_KALMAN_GAIN)
    if form == "filter":
        innovation = plant.C @ covariance @ plant.C.T + RN
        gain = np.linalg.solve(innovation, plant.C @ covariance).T
    return gain, covariance


def regulator_gains(
    A: NDArray, B: NDArray, cost: NDArray, terminal: NDArray, samples: int
) -> tuple[NDArray, NDArray]:
    """Gains K_t (T, m, n) of the LQ recursion, and roots W_t (T, m, n) of the price of an error.

    An error e of the estimate at t adds |W_t e|^2 to the cost of the rest of the run.
    ``cost`` is [[Q, N], [N', R]], ``terminal`` the weight of the state after the run.
    """
    n, m = B.shape
    both = np.hstack([A, B])
    gains = np.empty((samples, m, n))
    prices = np.empty((samples, m, n))
    value = terminal
    for t in reversed(range(samples)):
        stage = cost + both.T @ value @ both
        by_input = stage[n:, n:]
        gains[t] = np.linalg.pinv(by_input, hermitian=True) @ stage[n:, :n]
        prices[t] = root(by_input).T @ gains[t]
        value = stage[:n, :n] - gains[t].T @ stage[n:, :n]
        value = (value + value.T) / 2
    return gains, prices


def regulator_gain(
    A: NDArray, B: NDArray, Q: NDArray, R: NDArray, N: NDArray | None
) -> tuple[NDArray, NDArray]:
    """The state feedback of ``ct.dlqr``, and the solution of its Riccati equation."""
    cross = [] if N is None else [N]
    try:
        gain, value, poles = ct.dlqr(A, B, Q, R, *cross, method="scipy")
    except (ValueError, ct.ControlArgument):
        poles = [np.inf]
    if not np.abs(poles).max() < 1:
        raise ValueError(
            "no stabilising feedback gain: (A, B) must be stabilisable, Q must weigh "
            "every mode that does not decay by itself, and R should be positive definite"
        )
    return gain, value
