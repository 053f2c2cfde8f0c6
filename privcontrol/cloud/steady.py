"""Steady-state cost and error of loops that never stop, and observers for their noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..channel.endless_noise import EndlessNoise
from ..trajectory.linear import LinearSystem
from .checks import root
from .moments import LoopCost

if TYPE_CHECKING:
    from .loop import PrivateLoop

#: Turns of gains and noise in a co-design.
_TURNS = 20


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
    sensed = loop.dynamics.fixed.steady(rows)
    sources = {}
    if loop.QN is not None:
        entry = loop.dynamics.fixed.B["disturbance"] @ loop.G @ root(loop.QN)
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
