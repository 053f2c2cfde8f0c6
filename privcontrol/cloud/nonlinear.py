"""Loops around a nonlinear plant: the plant itself is simulated, its controller is linear.

The controller and the noise belong to a linearisation of the plant. The guarantee is the
one of the noise over the polytope of the plant's Jacobians, and says nothing of runs that
leave its region.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import control as ct
import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from ..channel.jacobian import JacobianPolytope, Region
from ..channel.output_noise import OutputNoise
from ..core._frozen import ByContent
from ..core.errors import PrivacyWarning
from ..trajectory.nonlinear import NonlinearPlant
from ..trajectory.plant import Plant
from .checks import matrix
from .dynamics import clipped, stepped
from .signals import LoopSignals, trial_drives

if TYPE_CHECKING:
    from .loop import PrivateLoop

#: How far a trial among many may be from the same trial alone.
_SAME = 1e-9
#: Probability below which more trials have left the region than was stated.
_UNLIKELY = 0.01


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
        """The truth from a system, and from ``ct.OperatingPoint`` or (states, inputs)."""
        plant = NonlinearPlant.of(sys)
        states = np.zeros(plant.order)
        inputs = np.zeros(len(plant.inputs))
        if operating_point is not None:
            states, inputs = _point(operating_point, plant)
        outputs = plant.read_outputs(0.0, states, inputs)
        if not np.isfinite(outputs).all():
            raise ValueError(
                "operating_point: the plant's outputs are not finite there; pass "
                "operating_point=(states, inputs), such as ct.find_operating_point gives"
            )
        return cls(plant, states, inputs, outputs)

    def check_noise(self, noise: OutputNoise, controls: tuple[int, ...]) -> Region:
        """The region for which noise was designed over this plant's Jacobians. `ValueError` if it was not."""
        box = getattr(noise.request, "region", None)
        if isinstance(box, JacobianPolytope) and box.plant is None:
            raise ValueError(
                "noise: a design file holds no functions, so that nothing is known of "
                "this plant; design the noise anew for jacobian_polytope(sys, region)"
            )
        if not isinstance(box, JacobianPolytope) or box.plant != self.plant:
            raise ValueError(
                "noise: it hides nothing of this nonlinear plant, since it was designed "
                "for linear ones; pass models=jacobian_polytope(sys, region) to its "
                "design, with the very sys of this loop"
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
        """The plant's function on columns of trials. What it raises for a single one may show the state."""
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
            "noise: a loop around a nonlinear plant needs noise from design_output_noise "
            f"(with models=jacobian_polytope(sys, region)), got {type(noise).__name__}"
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


@dataclass(frozen=True, eq=False)
class NonlinearTrials:
    """All trials of a block step by step, with the plant's own functions.

    Whole columns of trials are passed to the functions where they take them. Two trials
    are computed alone as well. If they differ, the functions mix trials, and the block is
    computed trial by trial.
    """

    loop: PrivateLoop
    truth: NonlinearTruth
    limits: NDArray | None
    signals: LoopSignals

    def __call__(
        self, generator: np.random.Generator, block: int, keep: int, **data: NDArray
    ) -> dict[str, NDArray]:
        noise = self.loop.private_noise
        samples = self.signals.samples
        eta = noise.draw(generator, keep)
        stretches = trial_drives(
            noise, self.signals, generator, eta, block, samples, data
        )
        _, drives = next(stretches)
        out = None
        with suppress(Exception):  # the functions take one trial at a time only
            with np.errstate(all="ignore"):
                out = self._run(drives, block)
        if out is None or not self._agrees(out, drives, {0, keep - 1}):
            alone = [self._run_alone(drives, k) for k in range(keep)]
            out = {}
            for name in alone[0]:
                out[name] = np.concatenate([run[name] for run in alone])
        kept = {name: array[:keep] for name, array in out.items()}
        return {**kept, "eta": eta}

    def _agrees(
        self, out: dict[str, NDArray], drives: dict[str, NDArray], picked: set[int]
    ) -> bool:
        """Whether some trials of a block come out as they do alone."""
        for k in picked:
            alone = self._run_alone(drives, k)
            for name in alone:
                expected = alone[name][0]
                size = _SAME * max(1.0, float(np.abs(expected).max(initial=0.0)))
                same = np.isclose(out[name][k], expected, _SAME, size, equal_nan=True)
                if not same.all():
                    return False
        return True

    def _run_alone(self, drives: dict[str, NDArray], k: int) -> dict[str, NDArray]:
        """Trial k of a block."""
        own = {}
        for name, drive in drives.items():
            own[name] = drive
            if drive.shape[2] > 1:
                own[name] = drive[:, :, k : k + 1]
        return self._run(own, 1)

    def _run(self, drives: dict[str, NDArray], count: int) -> dict[str, NDArray]:
        """States, published signals, and whether a trial left the region."""
        initial = np.repeat(self.signals.initial, count, axis=1)
        return nonlinear_run(self.loop, self.limits, self.signals, drives, initial)


def nonlinear_run(
    loop: PrivateLoop,
    limits: NDArray | None,
    signals: LoopSignals,
    drives: dict[str, NDArray],
    initial: NDArray,
) -> dict[str, NDArray]:
    """States and published signals of runs side by side, and which of them left the region."""
    side = NonlinearSide(loop, signals.timepts)
    samples = signals.samples
    actuator = clipped(limits)
    went, sent = stepped(side, loop.law, initial, drives, samples, actuator)
    left = np.zeros(initial.shape[1], bool)
    free = drives.get("exogenous", np.zeros((samples, side.exogenous, 1)))
    for t in range(samples):
        inputs = side.all_inputs(sent[t, len(side.outputs) :], free[t])
        left |= loop.region.outside(went[t, : side.order], inputs)
    return {"states": went[:-1].T, "published": sent.T, "left": left}


class NonlinearSide:
    """A nonlinear plant some inputs of which are driven, see `Side`."""

    def __init__(self, loop: PrivateLoop, timepts: NDArray) -> None:
        truth: Any = loop.truth
        self.order = truth.plant.order
        self.driven = list(loop.controls)
        self.free = list(loop.exogenous)
        self.exogenous = len(self.free)
        self.inputs = truth.inputs[self.driven, None]
        self.outputs = truth.outputs[:, None]
        self.through = np.zeros((len(self.outputs), len(self.inputs)))
        self._truth = truth
        self._times = timepts.tolist()

    def all_inputs(self, acting: NDArray, exogenous: NDArray) -> NDArray:
        """The plant's inputs, in its own order."""
        inputs = np.repeat(self._truth.inputs[:, None], acting.shape[1], axis=1)
        inputs[self.driven] = acting
        if self.free:
            inputs[self.free] = exogenous
        return inputs

    def read(self, t: int, state: NDArray, exogenous: NDArray) -> NDArray:
        at_rest = np.repeat(self.inputs, state.shape[1], axis=1)
        inputs = self.all_inputs(at_rest, exogenous)
        function = self._truth.plant.read_outputs
        return self._truth.called(function, self._times[t], state, inputs)

    def move(
        self, t: int, state: NDArray, acting: NDArray, exogenous: NDArray
    ) -> NDArray:
        inputs = self.all_inputs(acting, exogenous)
        function = self._truth.plant.next_states
        return self._truth.called(function, self._times[t], state, inputs)


def warn_of_left_region(left: NDArray, loop: PrivateLoop) -> None:
    """`PrivacyWarning` where more trials left the region than the guarantee counts."""
    count = int(left.sum())
    region = loop.region
    counted = loop.private_noise.request.miss
    if binom.sf(count - 1, len(left), counted) < _UNLIKELY:
        warnings.warn(
            f"{count} of {len(left)} trials left the region "
            f"{region.text()}: the guarantee counts such runs "
            f"with a probability of {counted:g}. Choose a larger region, limit the inputs "
            "with saturation=, make the region invariant, or state a larger probability "
            "(leaving=); response.left_region tells the trials",
            PrivacyWarning,
            stacklevel=5,
        )


def refuse_moments(loop: PrivateLoop, what: str) -> None:
    """`ValueError` if the loop's plant or controller is nonlinear: nobody knows its moments."""
    loop.law.check_linear()
    if loop.truth is not None:
        raise ValueError(
            f"{what}: exact moments are those of a linear plant, and this one is "
            "nonlinear; estimate them, loop.simulate(trials=1000).mse(target), or make "
            "the loop of the linear plant that the noise was designed for"
        )
