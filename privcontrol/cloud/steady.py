"""Steady-state cost and error of loops that never stop, and observers for their noise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..channel._lti import LinearSystem
from ..channel.design import designed
from ..channel.endless_noise import EndlessNoise
from ..trajectory.plant import Plant
from .checks import Weights, root
from .controller import ObserverFeedback
from .gains import NO_KALMAN_GAIN
from .moments import LoopCost

if TYPE_CHECKING:
    from .loop import PrivateLoop

#: Turns of gains and noise in a co-design.
_TURNS = 20


def knowing_observer(
    plant: Plant,
    driven: list[int],
    K: NDArray,
    weights: Weights,
    noise: EndlessNoise,
    form: str,
) -> ObserverFeedback:
    """State feedback from the Kalman filter of the plant and the noise's state together.

    The noise moves its own state and the output at once, so that process and measurement noise
    are correlated: their covariance is B D^T of the noise.
    """
    model = noise.model
    n = plant.order
    k = model.order
    A = scipy.linalg.block_diag(plant.A, model.A)
    C = np.hstack([plant.C, model.C])
    disturbed = weights.G @ weights.QN @ weights.G.T
    process = scipy.linalg.block_diag(disturbed, model.B @ model.B.T)
    measurement = weights.RN + model.D @ model.D.T
    cross = np.vstack([np.zeros((n, len(C))), model.B @ model.D.T])
    try:
        covariance = scipy.linalg.solve_discrete_are(
            A.T, C.T, process, measurement, s=cross
        )
    except np.linalg.LinAlgError:
        covariance = None
    if covariance is None:
        raise ValueError(NO_KALMAN_GAIN)
    innovation = C @ covariance @ C.T + measurement
    advance = np.linalg.solve(innovation, (A @ covariance @ C.T + cross).T).T
    correct = np.linalg.solve(innovation, C @ covariance).T
    if form == "predictor":
        correct = np.zeros_like(correct)
        gain = advance
    else:
        gain = correct
    names = tuple(f"gammahat[{i}]" for i in range(k))
    return ObserverFeedback.knowing(
        plant, driven, K, gain, form, A, C, correct, advance, names
    )


def lqg_without_horizon(loop: PrivateLoop, noise: EndlessNoise) -> PrivateLoop:
    """The loop with the noise and the observer that knows it, the state feedback kept."""
    given = loop.law
    if not isinstance(given, ObserverFeedback):
        raise TypeError("loop: expected an observer with a state feedback")
    law = knowing_observer(
        loop.plant, list(loop.controls), given.K, loop.weights, noise, given.form
    )
    return replace(loop, law=law, K=law.K, L=law.L, noise=noise)


def steady_state_cost(loop: PrivateLoop) -> LoopCost:
    """Expected cost of a sample in steady state, with zero reference."""
    sources = _sources(loop, loop.weights.cost_root)
    disturbance = 0.0
    privacy = 0.0
    for name, source in sources.items():
        energy = float(source.energies().sum())
        if name == "privacy":
            privacy = energy
        else:
            disturbance += energy
    return LoopCost(0.0, disturbance, privacy)


def steady_state_error(loop: PrivateLoop) -> NDArray:
    """E x_i^2 (n,) in steady state, with zero reference."""
    n = loop.plant.order
    m = len(loop.controls)
    total = np.zeros(n)
    for source in _sources(loop, np.eye(n, n + m)).values():
        total += source.variances()
    return total


def _sources(loop: PrivateLoop, rows: NDArray) -> dict[str, LinearSystem]:
    """Rows of (x, u) as systems of the white sources QN, RN and output noise."""
    sensed = loop.dynamics.steady(rows)
    sources = {}
    if loop.QN is not None:
        entry = loop.dynamics.B["disturbance"] @ loop.G @ root(loop.QN)
        still = np.zeros((len(rows), entry.shape[1]))
        sources["process"] = LinearSystem(sensed.A, entry, sensed.C, still)
    if loop.RN is not None:
        sources["measurement"] = sensed.after(LinearSystem.gain(root(loop.RN)))
    if loop.noise is not None:
        if not isinstance(loop.noise, EndlessNoise):
            raise ValueError(
                f"noise: it ends after {loop.noise.horizon} samples, so that the loop has no "
                "steady state; design noise with horizon=np.inf, or ask for cost() and "
                "mean_square_error()"
            )
        sources["privacy"] = sensed.after(loop.noise.model)
    return sources


def codesigned_without_horizon(
    public: PrivateLoop, noise: EndlessNoise, tolerance: float
) -> PrivateLoop:
    """Observer and noise chosen for each other in turns, as long as the cost falls."""
    loop = lqg_without_horizon(public, noise)
    before = loop.steady_state_cost().total
    history = [("separate design", before)]
    for _ in range(_TURNS):
        shaped: Any = designed(noise.request, loop.plant, weight=loop)
        reshaped = lqg_without_horizon(loop, shaped)
        after = reshaped.steady_state_cost().total
        if not after < before:
            break
        loop = reshaped
        history.append(("noise and observer", after))
        if after > before * (1 - tolerance):
            break
        before = after
    return replace(loop, history=tuple(history))
