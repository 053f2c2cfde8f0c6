"""Controllers that a user gives: systems of python-control, and functions.

Linear systems are brought to the form of `Controller`. Functions such as an MPC or a
network, and a `ct.nlsys`, are called once per run and sample, and one run follows the
other. What they compute is post-processing, so the guarantee of the noise is that of
the loop. Exact moments, poles and design files of such loops do not exist.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NoReturn, Self

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._linalg import EPS, real_array
from ..systems.linear import reached_states
from ..systems.nonlinear import NonlinearPlant, is_nonlinear
from ..systems.plant import SampledSystem
from .controller import Controller, Law, ObserverFeedback, indexed
from .side import LinearSide, NonlinearSide

#: f(t, yhat, estimate, reference): the inputs (m,) at the time t in seconds.
Function = Callable[[float, NDArray, NDArray | None, NDArray | None], ArrayLike]
#: From the time, the estimates (n, trials) and the reference (n, 1) to the inputs.
UserLaw = Callable[[float, NDArray, NDArray], ArrayLike]

#: Steps that a system is given to settle, when it is asked for its linear steady state.
_SETTLING = 20_000


@dataclass(frozen=True, eq=False)
class OwnLaw(Law):
    """A controller of the user's own, in deviations from the point of a side.

    The user's code is given, and gives, whole signals.
    """

    side: LinearSide | NonlinearSide
    states: tuple[str, ...] = ()
    references: tuple[str, ...] = ()

    is_function = True

    def check_linear(self) -> NoReturn:
        """Refuse to be one linear system."""
        raise ValueError(
            "this loop's controller is a function, and not a linear system: it has no "
            "poles, no closed_loop, no exact moments and no design file; estimate "
            "them, loop.simulate(trials=1000)"
        )

    def decide(
        self, t: int, memory: NDArray, sensed: NDArray, reference: NDArray
    ) -> NDArray:
        """Return the inputs (m, 1) that it asks for, from one run's reading."""
        given = self._answer(t, memory, sensed, reference)
        try:
            asked = np.asarray(given, float)
        except (TypeError, ValueError):
            asked = np.empty((0, 0))
        m = len(self.side.controls)
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
        return asked.reshape(m, 1) - self.side.inputs

    def knowing(self, observer: ObserverFeedback) -> OwnLaw:
        """Return the controller with an estimate, if it takes one."""
        return self

    @abstractmethod
    def _answer(
        self, t: int, memory: NDArray, sensed: NDArray, reference: NDArray
    ) -> ArrayLike:
        """What the user's code returns."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FunctionLaw(OwnLaw):
    """A function f(t, yhat, estimate, reference), and what makes its estimate."""

    function: Function
    observer: ObserverFeedback | None = None

    @property
    def estimates(self) -> bool:  # type: ignore[override]
        """Whether the function is given an estimate."""
        return self.observer is not None

    @property
    def order(self) -> int:
        """Number of states of the observer."""
        return 0 if self.observer is None else self.observer.order

    def knowing(self, observer: ObserverFeedback) -> FunctionLaw:
        """Return the function with an estimate."""
        return replace(self, observer=observer, states=observer.states)

    def for_reference(self, reference: ArrayLike | None) -> Self:
        """The controller with a label for each reference of a run."""
        count = 0
        if reference is not None:
            count = len(np.atleast_1d(real_array(reference, "reference")))
        return replace(self, references=indexed("r", count))

    def _answer(
        self, t: int, memory: NDArray, sensed: NDArray, reference: NDArray
    ) -> ArrayLike:
        followed = reference[:, 0].copy() if self.references else None
        estimate = None
        if self.observer is not None:
            change = self.observer.estimate(t, memory, sensed)
            estimate = self.side.rest + change[:, 0]
        yhat = (sensed + self.side.outputs)[:, 0]
        return self.function(t * self.side.plant.step, yhat, estimate, followed)

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
    """A `ct.nlsys` from the published outputs, then references.

    ``reads`` and ``drives`` put its inputs and outputs in the loop's order.
    """

    system: NonlinearPlant
    reads: NDArray
    drives: list[int]

    @classmethod
    def of(
        cls, ctrl: ct.NonlinearIOSystem, side: LinearSide | NonlinearSide
    ) -> SystemLaw:
        """The controller of a system whose time is the plant's."""
        check_timebase(ctrl, side.plant)
        reads, drives = wiring(ctrl, side)
        states = state_names(ctrl, side.plant)
        references = indexed("r", ctrl.ninputs - len(side.outputs))
        system = NonlinearPlant.as_given(ctrl)
        places = np.argsort(reads)
        return cls(side, states, references, system=system, reads=places, drives=drives)

    def _given(
        self, t: int, memory: NDArray, sensed: NDArray, reference: NDArray
    ) -> tuple[float, NDArray, NDArray]:
        """The time, the state and the inputs of the system at sample t."""
        given = np.concatenate([sensed + self.side.outputs, reference])[self.reads, 0]
        return t * self.side.plant.step, memory[:, 0], given

    def _answer(
        self, t: int, memory: NDArray, sensed: NDArray, reference: NDArray
    ) -> ArrayLike:
        given = self._given(t, memory, sensed, reference)
        return self.system.read_outputs(*given)[self.drives]

    def follow(
        self,
        t: int,
        memory: NDArray,
        sensed: NDArray,
        acting: NDArray,
        reference: NDArray,
    ) -> NDArray:
        if not self.states:
            return memory
        given = self._given(t, memory, sensed, reference)
        return self.system.next_states(*given)[:, None]


@dataclass(frozen=True, eq=False)
class BlockLaw(Law):
    """A function of the estimates (n, trials), called for whole blocks of trials."""

    observer: ObserverFeedback
    function: UserLaw
    step: float

    varies = True
    estimates = True

    @property
    def states(self) -> tuple[str, ...]:  # type: ignore[override]
        """Labels of the observer's states."""
        return self.observer.states

    @property
    def references(self) -> tuple[str, ...]:  # type: ignore[override]
        """Labels of the observer's references."""
        return self.observer.references

    @property
    def order(self) -> int:
        """Number of states of the observer."""
        return self.observer.order

    def decide(
        self, t: int, memory: NDArray, sensed: NDArray, reference: NDArray
    ) -> NDArray:
        estimate = self.observer.estimate(t, memory, sensed)
        n, block = estimate.shape
        m = len(self.observer.through.T)
        answer = self.function(t * self.step, estimate, reference[:n])
        inputs = np.asarray(answer, float)
        if inputs.shape == (m,):
            inputs = inputs[:, None]
        if inputs.shape not in ((m, 1), (m, block)):
            raise ValueError(
                f"controller: expected an array of shape ({m}, {block}) (inputs, "
                f"trials), or ({m},) for all trials alike, got {inputs.shape}; it is "
                f"called for blocks of {block} trials at once, with xhat of shape "
                f"{estimate.shape}, however many trials are asked for"
            )
        return np.broadcast_to(inputs, (m, block))

    def follow(
        self,
        t: int,
        memory: NDArray,
        sensed: NDArray,
        acting: NDArray,
        reference: NDArray,
    ) -> NDArray:
        return self.observer.follow(t, memory, sensed, acting, reference)


def law_of(
    controller: ct.InputOutputSystem | Function,
    linear: LinearSide,
    side: LinearSide | NonlinearSide,
) -> Law:
    """The controller u = controller (yhat, r) of a system, or of a function.

    `ValueError` if what is published at a sample would depend on the answer to it.
    """
    if is_nonlinear(controller):
        controller = settled(controller) or controller
    is_system = isinstance(controller, ct.InputOutputSystem)
    is_function = callable(controller) and not is_system
    if not is_function and not is_nonlinear(controller):
        return general_controller(linear, controller)
    if linear.through.any():
        raise ValueError(
            "controller: the plant passes an input that the controller drives on at "
            "once, so what is published would depend on the controller's answer "
            "to it; delay that input by one sample (with_delays)"
        )
    if isinstance(controller, ct.NonlinearIOSystem):
        return SystemLaw.of(controller, side)
    return FunctionLaw(side, function=controller)


def general_controller(side: LinearSide, ctrl: ct.InputOutputSystem) -> Controller:
    """The controller u = ctrl (yhat, r) of any linear discrete-time system."""
    plant = side.plant
    system = linear_system(ctrl, "controller")
    for matrix in (system.A, system.B, system.C, system.D):
        real_array(matrix, "controller", copy=False)
    check_timebase(system, plant)
    inputs, outputs = wiring(system, side)
    through = side.through
    p, m = through.shape
    B, F = np.hsplit(system.B[:, inputs], [p])
    D, H = np.hsplit(system.D[np.ix_(outputs, inputs)], [p])
    rounding = 8 * EPS * max(p, m) * np.abs(through) @ np.abs(D)
    if (np.abs(through @ D) > rounding).any():
        raise ValueError(
            "controller: the loop is not well posed, because the plant and the "
            "controller both pass their input on at once (D_plant D_controller is not "
            "zero): what is published at t would depend on itself. Delay the "
            "controller by one sample, or remove one feedthrough"
        )
    solved = np.linalg.inv(np.eye(m) - D @ through)
    return Controller(
        A=system.A,
        B=B,
        E=B @ through,
        F=F,
        C=solved @ system.C[outputs],
        D=solved @ D,
        H=solved @ H,
        states=state_names(system, plant),
        references=indexed("r", system.ninputs - p),
    )


def linear_system(ctrl: object, name: str) -> ct.StateSpace:
    """Return a linear system as a StateSpace."""
    if isinstance(ctrl, ct.StateSpace):
        return ctrl
    if isinstance(ctrl, ct.TransferFunction):
        return ct.ss(ctrl, inputs=ctrl.input_labels, outputs=ctrl.output_labels)
    raise ct.ControlArgument(
        f"{name}: expected a StateSpace or a TransferFunction in discrete time, got "
        f"{type(ctrl).__name__}; ctrl.linearize makes one of a nonlinear system"
    )


def settled(ctrl: ct.NonlinearIOSystem) -> ct.StateSpace | None:
    """The linear system of one that carries a covariance, which is taken as settled.

    None if inputs reach all of its states, or if it is not linear. A warning says that
    the covariance's start counts for nothing.
    """
    if not ctrl.nstates or not ct.isdtime(ctrl, strict=True):
        return None
    rest = np.zeros(ctrl.nstates)
    silence = np.zeros(ctrl.ninputs)
    for _ in range(_SETTLING):
        before = rest
        rest = ctrl.dynamics(0, before, silence)
        if np.abs(rest - before).max() <= 4 * EPS * np.abs(rest).max():
            break
    if not np.isfinite(rest).all():
        return None
    # differences of a linear map are exact for any step, so the step may be one
    linear = ctrl.linearize(rest, silence, eps=1.0)
    reached = reached_states(linear.A != 0, linear.B.any(axis=1))
    if reached.all():
        return None
    A = linear.A[np.ix_(reached, reached)]
    B = linear.B[reached]
    C = linear.C[:, reached]
    # random inputs from rest, past all transients of a few states
    rng = np.random.default_rng(0)
    state = rest
    followed = np.zeros(len(A))
    for _ in range(3 + 2 * ctrl.nstates):
        sent = rng.normal(size=ctrl.ninputs)
        expected = ctrl.output(0, state, sent)
        answer = C @ followed + linear.D @ sent
        if not np.allclose(answer, expected, 0, 1e-8 * np.abs(expected).max(initial=1)):
            return None
        state = ctrl.dynamics(0, state, sent)
        followed = A @ followed + B @ sent
    warnings.warn(
        "controller: the covariance that it carries is taken as settled, and a P0 that "
        "was passed to ct.create_estimator_iosystem counts for nothing; "
        "private_lqg(P0=...) has the filter that starts from a prior",
        stacklevel=5,
    )
    names = [ctrl.state_labels[k] for k in np.flatnonzero(reached)]
    labels = {"inputs": ctrl.input_labels, "outputs": ctrl.output_labels}
    return ct.ss(A, B, C, linear.D, ctrl.dt, states=names, **labels)


def state_names(system: ct.InputOutputSystem, plant: SampledSystem) -> tuple[str, ...]:
    """Labels of a controller's states, others where the plant has one of them."""
    names = tuple(system.state_labels)
    if set(names) & set(plant.states):
        return indexed("xc", len(names))
    return names


def check_timebase(system: ct.InputOutputSystem, plant: SampledSystem) -> None:
    """Refuse a controller whose sampling time is not the plant's."""
    if system.dt is None and not system.nstates:
        return  # a gain has no sampling time
    if system.dt is None or system.dt == 0:
        raise ct.ControlArgument(
            f"controller: expected discrete time with dt = {plant.dt}, got dt = "
            f"{system.dt}; discretise it with controller.sample({plant.step:g}), or "
            "state its dt when you make it"
        )
    if system.dt is True or plant.dt is True or np.isclose(system.dt, plant.dt, 1e-9):
        return
    ratio = system.dt / plant.step
    advice = "design it for the sampling time of the plant"
    if ratio > 1 and np.isclose(ratio, round(ratio), 1e-9):
        advice = (
            f"it runs {round(ratio)} times slower: such a loop is periodic, not time "
            f"invariant. Sample the plant with {system.dt:g} s, and design the noise "
            "for that plant"
        )
    raise ct.ControlArgument(
        f"controller: expected dt = {plant.dt} as the plant, got {system.dt}; {advice}"
    )


def wiring(
    system: ct.InputOutputSystem, side: LinearSide | NonlinearSide
) -> tuple[list[int], list[int]]:
    """The system's inputs (yhat, references) and outputs in the loop's order.

    They are found by name where the names tell, else they stay as given.
    """
    plant = side.plant
    p, m = side.through.shape
    if system.ninputs < p:
        raise ct.ControlDimension(
            f"controller: expected the {p} published outputs as inputs, then "
            f"references, got {system.ninputs} inputs"
        )
    if system.noutputs != m:
        raise ct.ControlDimension(
            f"controller: expected {m} outputs, one for each input that it drives, got "
            f"{system.noutputs}"
        )
    inputs = list(range(system.ninputs))
    outputs = list(range(m))
    for names in (indexed("yhat", p), plant.outputs):
        if set(names) <= set(system.input_labels):
            first = [system.input_labels.index(name) for name in names]
            inputs = first + [k for k in range(system.ninputs) if k not in first]
    driven = side.driven_labels
    if set(driven) == set(system.output_labels):
        outputs = [system.output_labels.index(name) for name in driven]
    return inputs, outputs
