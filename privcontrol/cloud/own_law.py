"""Controllers that are functions of what is published: an MPC, a network, a `ct.nlsys`.

They are called once per run and sample, and one run follows the other. What they compute is
post-processing, so that the guarantee of the noise is that of the loop. Exact moments,
poles and design files of such loops do not exist.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._linalg import real_array
from ..trajectory.plant import Plant
from .controller import ObserverFeedback, check_timebase, wiring
from .dynamics import LinearSide, clipped, stepped
from .kalman import Knowledge
from .nonlinear import NonlinearTruth, nonlinear_run
from .signals import LoopSignals, drawn_start, trial_drives

if TYPE_CHECKING:
    from .loop import PrivateLoop

#: f(t, yhat, estimate, reference): the inputs (m,) at the time t in seconds.
Function = Callable[[float, NDArray, NDArray | None, NDArray | None], ArrayLike]


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnLaw(ABC):
    """A controller of the user's own, in deviations from the point about which it acts.

    Attributes
    ----------
    step : float
        Length of a sample.
    inputs, outputs : ndarray, shapes (m, 1), (p, 1)
        That point; the user's code is given, and gives, whole signals.
    references : tuple of str
        Labels of its references, (r,).
    states : tuple of str
        Labels of its states, (k,).
    observer : ObserverFeedback or None
        What makes the estimate that it is given.
    """

    step: float
    inputs: NDArray
    outputs: NDArray
    references: tuple[str, ...] = ()
    states: tuple[str, ...] = ()

    observer: ObserverFeedback | None = None

    #: It is no linear system that stays the same.
    varies = True

    @property
    def order(self) -> int:
        """Number of states k."""
        return len(self.states)

    def check_linear(self) -> NoReturn:
        """Refuse to be one linear system."""
        raise ValueError(
            "this loop's controller is a function, and not a linear system: it has no "
            "poles, no closed_loop, no exact moments and no design file; estimate them, "
            "loop.simulate(trials=1000)"
        )

    def for_reference(self, reference: ArrayLike | None) -> OwnLaw:
        """The controller with a label for each reference of a run."""
        count = 0
        if reference is not None:
            count = len(np.atleast_1d(real_array(reference, "reference")))
        return replace(self, references=_numbered("r", count))

    def decide(
        self, t: int, memory: NDArray, sensed: NDArray, reference: NDArray
    ) -> NDArray:
        """The inputs (m, 1) that it asks for at sample t, from what is sensed (p, 1)."""
        yhat = (sensed + self.outputs)[:, 0]
        given = self._answer(t, memory[:, 0], yhat, reference[:, 0])
        try:
            asked = np.asarray(given, float)
        except (TypeError, ValueError):
            asked = np.empty((0, 0))
        m = len(self.inputs)
        if asked.size != m or asked.shape not in ((), (m,), (m, 1)):
            raise ValueError(
                f"controller: expected {m} inputs, shape ({m},), got "
                f"{type(given).__name__} of shape {np.shape(given)} at sample {t}"
            )
        if not np.isfinite(asked).all():
            raise ValueError(
                f"controller: expected finite inputs, got others at sample {t}; an "
                "optimisation may be infeasible there: soften its constraints"
            )
        return asked.reshape(m, 1) - self.inputs

    def follow(
        self,
        t: int,
        memory: NDArray,
        sensed: NDArray,
        acting: NDArray,
        reference: NDArray,
    ) -> NDArray:
        """Its next states (k, 1)."""
        return memory

    def for_loop(self, loop: PrivateLoop) -> OwnLaw:
        """The controller in a loop whose noise may be another."""
        return self

    @abstractmethod
    def _answer(
        self, t: int, memory: NDArray, yhat: NDArray, reference: NDArray
    ) -> Any:
        """What the user's code returns."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FunctionLaw(OwnLaw):
    """A function f(t, yhat, estimate, reference).

    The observer's states are counted from the state ``rest`` (n,).
    """

    function: Function
    rest: NDArray

    def for_loop(self, loop: PrivateLoop) -> FunctionLaw:
        """The function with the Kalman filter that knows the loop's noise and prior."""
        observer = _observer(loop)
        states = () if observer is None else observer.states
        return replace(self, observer=observer, states=states)

    def _answer(
        self, t: int, memory: NDArray, yhat: NDArray, reference: NDArray
    ) -> Any:
        followed = reference.copy() if self.references else None
        estimate = None
        if self.observer is not None:
            sensed = yhat[:, None] - self.outputs
            change = self.observer.estimate(t, memory[:, None], sensed)
            estimate = self.rest + change[:, 0]
        return self.function(t * self.step, yhat, estimate, followed)

    def follow(
        self,
        t: int,
        memory: NDArray,
        sensed: NDArray,
        acting: NDArray,
        reference: NDArray,
    ) -> NDArray:
        if self.observer is None:
            return memory
        return self.observer.follow(t, memory, sensed, acting, reference)


@dataclass(frozen=True, eq=False, kw_only=True)
class SystemLaw(OwnLaw):
    """The functions of a `ct.nlsys` from the published outputs, then references.

    ``reads`` and ``drives`` put its inputs and outputs in the loop's order.
    """

    update: Callable[..., Any]
    read: Callable[..., Any] | None
    params: Mapping[str, Any]
    reads: NDArray
    drives: NDArray

    @classmethod
    def of(
        cls, ctrl: ct.NonlinearIOSystem, plant: Plant, controls: list[int], **point: Any
    ) -> SystemLaw:
        """The controller of a system whose time is the plant's."""
        check_timebase(ctrl, plant)
        reads, drives = wiring(ctrl, plant, controls)
        states = tuple(ctrl.state_labels)
        if set(states) & set(plant.states):
            states = _numbered("xc", ctrl.nstates)
        return cls(
            states=states,
            references=_numbered("r", ctrl.ninputs - len(plant.C)),
            update=ctrl.updfcn if states else _still,
            read=ctrl.outfcn,
            params=dict(ctrl.params),
            reads=np.argsort(reads),
            drives=np.array(drives),
            **point,
        )

    def for_reference(self, reference: ArrayLike | None) -> OwnLaw:
        return self

    def _answer(
        self, t: int, memory: NDArray, yhat: NDArray, reference: NDArray
    ) -> Any:
        if self.read is None:
            return memory[self.drives]
        given = np.concatenate([yhat, reference])[self.reads]
        answer = self.read(t * self.step, memory.copy(), given, dict(self.params))
        return np.ravel(answer)[self.drives]

    def follow(
        self,
        t: int,
        memory: NDArray,
        sensed: NDArray,
        acting: NDArray,
        reference: NDArray,
    ) -> NDArray:
        seen = np.concatenate([sensed + self.outputs, reference])
        given = seen[self.reads, 0]
        moved = self.update(t * self.step, memory[:, 0], given, dict(self.params))
        return np.reshape(moved, memory.shape)


def _observer(loop: PrivateLoop) -> ObserverFeedback | None:
    """The filter of a loop with QN, RN and noise, without a feedback, else None."""
    plant = loop.plant
    noise = loop.noise
    weights = loop.weights
    P0 = None if loop.design is None else loop.design.P0
    if P0 is not None and (weights.QN is None or weights.RN is None):
        raise ValueError(
            "P0: the estimate that starts from it needs the covariances of the plant's "
            "disturbances and readings; pass QN and RN"
        )
    if noise is None or weights.QN is None or weights.RN is None:
        return None
    if P0 is None and any(part.model is None for part in noise.parts):
        return None
    known = Knowledge.of(plant, weights, noise, P0)
    correct, advance = known.gains(noise.horizon)
    controls = list(loop.controls)
    none = np.zeros((len(controls), plant.order))
    return ObserverFeedback.knowing(
        plant, controls, none, known.A, known.C, correct, advance
    )


def _numbered(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}[{i}]" for i in range(count))


def _still(t: float, states: NDArray, inputs: NDArray, params: Any) -> NDArray:
    """The update of a system without states."""
    return states


def own_law(
    controller: Any, plant: Plant, controls: list[int], truth: NonlinearTruth | None
) -> OwnLaw:
    """The controller of a function or a `ct.nlsys`.

    `ValueError` if what is published at a sample would depend on the controller's answer.
    """
    if plant.D[:, controls].any():
        raise ValueError(
            "controller: the plant passes an input that the controller drives on at "
            "once, so that what is published would depend on the controller's answer "
            "to it; delay that input by one sample (with_delays)"
        )
    point: dict[str, Any] = {
        "step": plant.step,
        "inputs": np.zeros((len(controls), 1)),
        "outputs": np.zeros((len(plant.C), 1)),
    }
    if truth is not None:
        point["inputs"] = truth.inputs[controls, None]
        point["outputs"] = truth.outputs[:, None]
    if isinstance(controller, ct.NonlinearIOSystem):
        return SystemLaw.of(controller, plant, controls, **point)
    rest = np.zeros(plant.order) if truth is None else truth.states
    return FunctionLaw(function=controller, rest=rest, **point)


@dataclass(frozen=True, eq=False)
class OwnTrials:
    """Trials of a loop with the user's own controller, one after the other."""

    loop: PrivateLoop
    law: OwnLaw
    limits: NDArray | None
    signals: LoopSignals

    def __call__(
        self, generator: np.random.Generator, block: int, keep: int, **data: NDArray
    ) -> dict[str, NDArray]:
        noise = self.loop.private_noise
        samples = self.signals.samples
        eta = noise.draw(generator, keep)
        begun = drawn_start(generator, self.signals.start, block)
        stretches = trial_drives(
            noise, self.signals, generator, eta, block, samples, data
        )
        _, drives = next(stretches)
        runs = []
        for k in range(keep):
            own = {}
            for name, drive in drives.items():
                own[name] = drive if drive.shape[2] == 1 else drive[:, :, [k]]
            initial = self.signals.initial.copy()
            initial[: len(self.signals.start), 0] += self.signals.start @ begun[k]
            runs.append(self._run(own, initial))
        out = {name: np.concatenate([run[name] for run in runs]) for name in runs[0]}
        return {**out, "eta": eta}

    def _run(self, drives: dict[str, NDArray], initial: NDArray) -> dict[str, NDArray]:
        """States, published signals, and for a nonlinear plant whether it left its region."""
        loop = self.loop
        samples = self.signals.samples
        if loop.truth is not None:
            return nonlinear_run(loop, self.limits, self.signals, drives, initial)
        side = LinearSide(loop.plant, list(loop.controls))
        actuator = clipped(self.limits)
        went, sent = stepped(side, self.law, initial, drives, samples, actuator)
        return {"states": went[:-1].T, "published": sent.T}
