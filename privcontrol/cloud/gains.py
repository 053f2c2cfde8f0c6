"""Gains from the Riccati equations, as ``ct.dlqr`` and ``ct.dlqe`` have them."""

import control as ct
import numpy as np
from numpy.typing import NDArray

from ..channel.output_noise import OutputNoise
from ..trajectory.plant import Plant
from .checks import Weights, present

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
    except (np.linalg.LinAlgError, ct.ControlArgument):
        poles = [np.inf]
    if not np.abs(poles).max() < 1:
        raise ValueError(NO_KALMAN_GAIN)
    if form == "filter":
        innovation = plant.C @ covariance @ plant.C.T + RN
        gain = np.linalg.solve(innovation, plant.C @ covariance).T
    return gain, covariance


def feedback_gain_of(plant: Plant, driven: list[int], weights: Weights) -> NDArray:
    """The state feedback K (m, n) of ``ct.dlqr`` for the inputs that are driven."""
    return regulator_gain(
        plant.A,
        plant.B[:, driven],
        present(weights.Q, "Q"),
        present(weights.R, "R"),
        weights.N,
    )


def regulator_gain(
    A: NDArray, B: NDArray, Q: NDArray, R: NDArray, N: NDArray | None
) -> NDArray:
    """The state feedback of ``ct.dlqr``."""
    cross = [] if N is None else [N]
    try:
        gain, _, poles = ct.dlqr(A, B, Q, R, *cross, method="scipy")
    except (np.linalg.LinAlgError, ct.ControlArgument):
        poles = [np.inf]
    if not np.abs(poles).max() < 1:
        raise ValueError(
            "no stabilising feedback gain: (A, B) must be stabilisable, Q must weigh "
            "every mode that does not decay by itself, and R should be positive definite"
        )
    return gain
