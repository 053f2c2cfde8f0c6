"""Price output noise: by its outputs, by all samples of a run, or by a loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..noise.parts import Pricing
from ..numerics.checks import real_array
from ..numerics.ellipsoid import weight_root
from ..numerics.thresholds import BLOCK
from ..privacy.horizon import Horizon
from ..systems.linear import LinearSystem

WeightRoot = Callable[[NDArray[np.float64]], NDArray[np.float64]]
#: Price of the noise, the trace of its covariance by default.
Weight = ArrayLike | Pricing | None


@dataclass(frozen=True, eq=False)
class Price:
    """Price the covariance Gamma of output noise at tr(W Gamma).

    Attributes
    ----------
    weight : array_like, Pricing or None
        The prices of every sample's outputs, shape (p,) or (p, p); the prices of all
        samples of a run, shape (T p, T p); or a loop, at its own cost. None prices all outputs at one.
    outputs : int
        Number of outputs p.
    horizon : Run or Endless
        Samples T of the run.
    """

    weight: Weight
    outputs: int
    horizon: Horizon

    @cached_property
    def root(self) -> WeightRoot:
        """The map from columns B (T p, r) of noise of a run to H B with H^T H = W."""
        weight, horizon = self.weight, self.horizon.count()
        size = horizon * self.outputs
        if isinstance(weight, Pricing):
            return weight.noise_weight(horizon)
        if weight is None:
            return weight_root(None, size)
        priced = real_array(weight, "weight")
        if priced.shape == (size, size) and horizon > 1:
            return weight_root(priced, size)
        root = self.of_sample.D

        def of_every_sample(columns: NDArray[np.float64]) -> NDArray[np.float64]:
            frames = columns.reshape(horizon, self.outputs, -1)
            priced = np.tensordot(root, frames, (1, 1))
            return priced.reshape(len(root) * horizon, columns.shape[1])

        return of_every_sample

    @cached_property
    def of_sample(self) -> LinearSystem:
        """H with the mean cost |H gamma|^2 of a sample of stationary noise gamma.

        Raises
        ------
        ValueError
            If the prices are not of one sample's outputs.
        """
        weight, outputs = self.weight, self.outputs
        if isinstance(weight, Pricing):
            found = weight.noise_weight(math.inf)
            if isinstance(found, ct.StateSpace):  # of a weight that is no loop
                return LinearSystem(found.A, found.B, found.C, found.D)
            return found
        if weight is None:
            return LinearSystem.gain(np.eye(outputs))
        prices = real_array(weight, "weight")
        if prices.shape not in ((outputs,), (outputs, outputs)):
            raise ValueError(
                f"weight: expected shape ({outputs},) or ({outputs}, {outputs}) for "
                "every sample, a loop, or over a horizon (T p, T p) for all samples; got "
                f"{prices.shape}"
            )
        full = np.diag(prices) if prices.ndim == 1 else prices
        return LinearSystem.gain(weight_root(full, outputs)(np.eye(outputs)))

    def cost(self, columns: NDArray[np.float64]) -> float:
        """Return tr(W B B^T) of noise of a run with the factor B (T p, r)."""
        return float(np.sum(self.root(columns) ** 2))

    def of_white(self, sizes: NDArray[np.float64]) -> float:
        """Return tr(W diag(sizes^2)) of independent noise of these sizes (T p,)."""
        if self.weight is None:
            return float(np.sum(sizes**2))
        total = 0.0
        width = max(1, BLOCK // max(1, len(sizes)))
        for start in range(0, len(sizes), width):
            own = sizes[start : start + width]
            total += self.cost(np.eye(len(sizes), len(own), -start) * own)
        return total
