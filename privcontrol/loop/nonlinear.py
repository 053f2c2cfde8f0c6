"""Loops around a nonlinear plant, which is simulated itself.

The controller and the noise belong to a linearisation of the plant. The guarantee is
the one of the noise over the polytope of the plant's Jacobians, and says nothing of
runs that leave its region.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import control as ct
import numpy as np
from numpy.typing import NDArray

from ..core._frozen import ByContent
from ..designs.output_noise import OutputNoise
from ..regions.jacobian import JacobianPolytope, Region
from ..systems.nonlinear import NonlinearPlant
from ..systems.plant import Plant
from .checks import matrix


@dataclass(frozen=True, eq=False)
class NonlinearTruth(ByContent):
    """A nonlinear plant in a loop, and the point about which its controller acts.

    Attributes
    ----------
    plant : NonlinearPlant
    states, inputs, outputs : ndarray, shapes (n,), (m,), (p,)
        The operating point.
    """

    plant: NonlinearPlant
    states: NDArray
    inputs: NDArray
    outputs: NDArray

    @classmethod
    def of(cls, sys: Any, operating_point: Any) -> NonlinearTruth:
        """The truth of a system, and ``ct.OperatingPoint`` or (states, inputs)."""
        plant = NonlinearPlant.of(sys)
        states = np.zeros(plant.order)
        inputs = np.zeros(len(plant.inputs))
        if operating_point is not None:
            states, inputs = _point(operating_point, plant)
        outputs = plant.read_outputs(0.0, states, inputs)
        if not np.isfinite(outputs).all():
            raise ValueError(
                "operating_point: the plant's outputs are not finite there; pass "
                "operating_point=(states, inputs), such as ct.find_operating_point "
                "gives"
            )
        return cls(plant, states, inputs, outputs)

    def check_noise(self, noise: OutputNoise, controls: tuple[int, ...]) -> Region:
        """The region for which noise was designed over this plant's Jacobians.

        `ValueError` if it was not.
        """
        box = getattr(noise.request, "region", None)
        if isinstance(box, JacobianPolytope) and box.plant is None:
            raise ValueError(
                "noise: a design file holds no functions, so nothing is known of "
                "this plant; design the noise again for jacobian_polytope(sys, region)"
            )
        if not isinstance(box, JacobianPolytope) or box.plant != self.plant:
            raise ValueError(
                "noise: it hides nothing of this nonlinear plant, since it was "
                "designed for linear ones; pass models=jacobian_polytope(sys, region) "
                "to its design, with the very sys of this loop"
            )
        columns = [self.plant.order + k for k in controls]
        through = slice(self.plant.order, None)
        if box.low[through, columns].any() or box.high[through, columns].any():
            raise ValueError(
                "sys: an output of this plant depends at once on an input that the "
                "controller drives; delay that input by one sample"
            )
        return box.region

    def called(
        self, function: Callable, t: float, states: NDArray, inputs: NDArray
    ) -> NDArray:
        """The plant's function on columns of trials.

        What it raises for a single one may show the state.
        """
        if states.shape[1] > 1:
            return function(t, states, inputs)
        kind = ""
        try:
            return function(t, states[:, 0], inputs[:, 0])[:, None]
        except Exception as error:
            kind = type(error).__name__
        raise RuntimeError(
            f"{self.plant.name}: the plant's function raised {kind} at t = {t:g}; its "
            "text is withheld, it may show the state"
        )


def _point(given: Any, plant: NonlinearPlant) -> tuple[NDArray, NDArray]:
    """States and inputs of an operating point."""
    if isinstance(given, ct.OperatingPoint):
        given = (given.states, given.inputs)
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise TypeError(
            "operating_point: expected a ct.OperatingPoint or (states, inputs), got "
            f"{type(given).__name__}"
        )
    states, inputs = map(np.atleast_1d, given)
    return (
        matrix(states, "operating_point states", (plant.order,)),
        matrix(inputs, "operating_point inputs", (len(plant.inputs),)),
    )


def linear_part(sys: Any, noise: Any) -> Plant:
    """The linear plant that a nonlinear plant's noise was designed for."""
    plant = NonlinearPlant.of(sys)
    if not isinstance(noise, OutputNoise):
        raise TypeError(
            "noise: a loop around a nonlinear plant needs noise from "
            "design_output_noise (with models=jacobian_polytope(sys, region)), got "
            f"{type(noise).__name__}"
        )
    linear = noise.plant_data
    for kind in ("states", "inputs", "outputs", "dt"):
        if getattr(linear, kind) != getattr(plant, kind):
            raise ValueError(
                f"noise: it was designed for a plant with other {kind}; design it for "
                "jacobian_polytope(sys, region).nominal, or sys.linearize(x, u, "
                "copy_names=True)"
            )
    return linear


class NonlinearSide:
    """A nonlinear plant some inputs of which are driven.

    Its functions take the times of the samples, and whole columns of runs.
    """

    def __init__(
        self,
        truth: NonlinearTruth,
        controls: tuple[int, ...],
        region: Region,
        times: NDArray,
    ) -> None:
        self.order = truth.plant.order
        self.driven = list(controls)
        count = len(truth.plant.inputs)
        self.free = [k for k in range(count) if k not in controls]
        self.inputs = truth.inputs[self.driven, None]
        self.outputs = truth.outputs[:, None]
        self.through = np.zeros((len(self.outputs), len(self.inputs)))
        self._truth = truth
        self._region = region
        self._times = times.tolist()

    def _all_inputs(self, acting: NDArray, exogenous: NDArray) -> NDArray:
        """The plant's inputs, in its own order."""
        inputs = np.repeat(self._truth.inputs[:, None], acting.shape[1], axis=1)
        inputs[self.driven] = acting
        if self.free:
            inputs[self.free] = exogenous
        return inputs

    def read(self, t: int, state: NDArray, exogenous: NDArray) -> NDArray:
        at_rest = np.repeat(self.inputs, state.shape[1], axis=1)
        inputs = self._all_inputs(at_rest, exogenous)
        function = self._truth.plant.read_outputs
        return self._truth.called(function, self._times[t], state, inputs)

    def move(
        self, t: int, state: NDArray, acting: NDArray, exogenous: NDArray
    ) -> NDArray:
        inputs = self._all_inputs(acting, exogenous)
        function = self._truth.plant.next_states
        return self._truth.called(function, self._times[t], state, inputs)

    def left(self, states: NDArray, acting: NDArray, exogenous: NDArray) -> NDArray:
        """Return which runs left the region (q,).

        Arrays are (T, n, q), (T, m, q) and (T, free inputs, q or 1).
        """
        found = np.zeros(states.shape[2], bool)
        for state, inputs, free in zip(states, acting, exogenous):
            found |= self._region.outside(state, self._all_inputs(inputs, free))
        return found
