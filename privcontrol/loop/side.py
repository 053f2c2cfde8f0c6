"""Plants as the loop's recursion sees them, some inputs of which are driven.

Arrays of signals are (signals, runs). The controller and the noise of a loop around a
nonlinear plant belong to a linearisation of it, and the nonlinear one is simulated. The
guarantee is the one of the noise over the polytope of the plant's Jacobians, and says
nothing of runs that leave its region.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._linalg import product
from ..core._objects import ByContent, freeze_arrays
from ..designs.output_noise import OutputNoise
from ..regions.jacobian import JacobianPolytope, Region
from ..systems.nonlinear import NonlinearPlant
from ..systems.plant import Plant, SampledSystem
from .checks import matrix

#: The point about which a controller acts, a pair being (states, inputs).
OperatingPoint: TypeAlias = ct.OperatingPoint | tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True, eq=False)
class Side(ByContent):
    """A plant whose inputs ``controls`` are driven.

    Its controller acts about a point, with the states ``rest`` (n,), the driven inputs
    ``inputs`` (m, 1) and the outputs ``outputs`` (p, 1). ``read`` returns outputs
    (p, q) without what the driven inputs add at once, ``move`` the next states (n, q).
    """

    plant: SampledSystem
    controls: tuple[int, ...]

    @property
    def order(self) -> int:
        """Number n of states."""
        return self.plant.order

    @cached_property
    def driven(self) -> list[int]:
        """The inputs that the controller drives."""
        return list(self.controls)

    @cached_property
    def free(self) -> list[int]:
        """The inputs that it does not drive."""
        count = len(self.plant.inputs)
        return [k for k in range(count) if k not in self.controls]

    @property
    def driven_labels(self) -> list[str]:
        """Labels of the inputs that the controller drives."""
        return [self.plant.inputs[k] for k in self.controls]

    @property
    def free_labels(self) -> list[str]:
        """Labels of the others."""
        return [self.plant.inputs[k] for k in self.free]


@dataclass(frozen=True, eq=False)
class LinearSide(Side):
    """A linear plant, whose controller acts about zero."""

    plant: Plant

    @cached_property
    def rest(self) -> NDArray:
        return np.broadcast_to(0.0, self.order)

    @cached_property
    def inputs(self) -> NDArray:
        return np.broadcast_to(0.0, (len(self.controls), 1))

    @cached_property
    def outputs(self) -> NDArray:
        return np.broadcast_to(0.0, (len(self.plant.C), 1))

    @cached_property
    def B(self) -> NDArray:
        """From the driven inputs to the next states, (n, m)."""
        return self.plant.B[:, self.driven]

    @cached_property
    def through(self) -> NDArray:
        """From the driven inputs to the outputs, (p, m)."""
        return self.plant.D[:, self.driven]

    def read(self, t: int, state: NDArray, exogenous: NDArray) -> NDArray:
        at_once = self.plant.D[:, self.free] @ exogenous
        return product(self.plant.C, state) + at_once

    def move(
        self, t: int, state: NDArray, acting: NDArray, exogenous: NDArray
    ) -> NDArray:
        moved = product(self.plant.A, state) + product(self.B, acting)
        return moved + self.plant.B[:, self.free] @ exogenous


@dataclass(frozen=True, eq=False)
class NonlinearSide(Side):
    """A nonlinear plant, and the operating point about which its controller acts.

    ``held`` (M,) are all inputs there. No output depends at once on a driven input.
    """

    plant: NonlinearPlant
    rest: NDArray
    held: NDArray
    outputs: NDArray

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @classmethod
    def of(
        cls,
        sys: ct.NonlinearIOSystem,
        controls: tuple[int, ...],
        operating_point: OperatingPoint | None,
    ) -> NonlinearSide:
        """The plant at ``ct.OperatingPoint`` or (states, inputs), zero by default."""
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
        return cls(plant, controls, states, inputs, outputs[:, None])

    @cached_property
    def inputs(self) -> NDArray:
        return self.held[self.driven, None]

    @cached_property
    def through(self) -> NDArray:
        return np.zeros((len(self.outputs), len(self.controls)))

    def check_noise(self, noise: OutputNoise) -> Region:
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
        columns = [self.order + k for k in self.controls]
        through = slice(self.order, None)
        if box.low[through, columns].any() or box.high[through, columns].any():
            raise ValueError(
                "sys: an output of this plant depends at once on an input that the "
                "controller drives; delay that input by one sample"
            )
        return box.region

    def read(self, t: int, state: NDArray, exogenous: NDArray) -> NDArray:
        inputs = self._all_inputs(self.inputs, exogenous, state)
        return self._called(self.plant.read_outputs, t, state, inputs)

    def move(
        self, t: int, state: NDArray, acting: NDArray, exogenous: NDArray
    ) -> NDArray:
        inputs = self._all_inputs(acting, exogenous, state)
        return self._called(self.plant.next_states, t, state, inputs)

    def left(
        self, region: Region, states: NDArray, acting: NDArray, exogenous: NDArray
    ) -> NDArray:
        """Return which runs left a region (q,).

        Arrays are (T, n, q), (T, m, q) and (T, free inputs, q or 1).
        """
        found = np.zeros(states.shape[2], bool)
        for state, inputs, free in zip(states, acting, exogenous):
            found |= region.outside(state, self._all_inputs(inputs, free, state))
        return found

    def _all_inputs(
        self, acting: NDArray, exogenous: NDArray, state: NDArray
    ) -> NDArray:
        """The plant's inputs in its own order, for as many runs as states."""
        inputs = np.repeat(self.held[:, None], state.shape[1], axis=1)
        inputs[self.driven] = acting
        inputs[self.free] = exogenous
        return inputs

    def _called(
        self, function: Callable, t: int, states: NDArray, inputs: NDArray
    ) -> NDArray:
        """The plant's function on columns of trials.

        What it raises for a single one may show the state.
        """
        time = t * self.plant.step
        if states.shape[1] > 1:
            return function(time, states, inputs)
        kind = ""
        try:
            return function(time, states[:, 0], inputs[:, 0])[:, None]
        except Exception as error:
            kind = type(error).__name__
        raise RuntimeError(
            f"{self.plant.name}: the plant's function raised {kind} at t = {time:g}; "
            "its text is withheld, it may show the state"
        )


def _point(given: OperatingPoint, plant: NonlinearPlant) -> tuple[NDArray, NDArray]:
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


def linear_part(sys: ct.NonlinearIOSystem, noise: OutputNoise | None) -> Plant:
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
