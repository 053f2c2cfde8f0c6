"""Controllers that are functions of what is published: an MPC, a network, a `ct.nlsys`.

They are called once per run and sample, and one run follows the other. What they
compute is post-processing, so the guarantee of the noise is that of the loop. Exact
moments, poles and design files of such loops do not exist.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Self

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._linalg import real_array
from ..designs.output_noise import OutputNoise
from ..systems.plant import Plant
from .checks import Weights
from .controller import BaseLaw, Law, ObserverFeedback, check_timebase, indexed, wiring
from .kalman import is_dense, knowledge_of
from .nonlinear import NonlinearTruth
from .regulator import LqgDesign

#: f(t, yhat, estimate, reference): the inputs (m,) at the time t in seconds.
Function = Callable[[float, NDArray, NDArray | None, NDArray | None], ArrayLike]


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnLaw(BaseLaw, ABC):
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

    varies = True
    is_function = True

    @property
    def estimates(self) -> bool:
        """Whether the user's code is given an estimate."""
        return self.observer is not None

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

    def for_reference(self, reference: ArrayLike | None) -> Self:
        """The controller with a label for each reference of a run."""
        count = 0
        if reference is not None:
            count = len(np.atleast_1d(real_array(reference, "reference")))
        return replace(self, references=indexed("r", count))

    def decide(
        self, t: int, memory: NDArray, told: NDArray, reference: NDArray
    ) -> NDArray:
        """Return the inputs (m, 1) that it asks for at sample t, told the reading (p, 1)."""
        yhat = (told + self.outputs)[:, 0]
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
        told: NDArray,
        acting: NDArray,
        reference: NDArray,
    ) -> NDArray:
        """Its next states (k, 1)."""
        return memory

    def knowing(self, observer: ObserverFeedback) -> OwnLaw:
        """Return the controller with an estimate, if it takes one."""
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

    @property
    def order(self) -> int:
        """Number of states of the observer."""
        return 0 if self.observer is None else self.observer.order

    def knowing(self, observer: ObserverFeedback) -> FunctionLaw:
        """Return the function with an estimate."""
        return replace(self, observer=observer, states=observer.states)

    def _answer(
        self, t: int, memory: NDArray, yhat: NDArray, reference: NDArray
    ) -> Any:
        followed = reference.copy() if self.references else None
        estimate = None
        if self.observer is not None:
            column = memory[:, None]
            sensed = yhat[:, None] - self.outputs
            told = self.observer.told(t, column, sensed)
            change = self.observer.estimate(t, column, told)
            estimate = self.rest + change[:, 0]
        return self.function(t * self.step, yhat, estimate, followed)

    def follow(
        self,
        t: int,
        memory: NDArray,
        told: NDArray,
        acting: NDArray,
        reference: NDArray,
    ) -> NDArray:
        if self.observer is None:
            return memory
        learned = self.observer.told(t, memory, told)
        return self.observer.follow(t, memory, learned, acting, reference)


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
            states = indexed("xc", ctrl.nstates)
        return cls(
            states=states,
            references=indexed("r", ctrl.ninputs - len(plant.C)),
            update=ctrl.updfcn if states else _still,
            read=ctrl.outfcn,
            params=dict(ctrl.params),
            reads=np.argsort(reads),
            drives=np.array(drives),
            **point,
        )

    def for_reference(self, reference: ArrayLike | None) -> Self:
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
        told: NDArray,
        acting: NDArray,
        reference: NDArray,
    ) -> NDArray:
        seen = np.concatenate([told + self.outputs, reference])
        given = seen[self.reads, 0]
        moved = self.update(t * self.step, memory[:, 0], given, dict(self.params))
        return np.reshape(moved, memory.shape)


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnDesign(LqgDesign):
    """Hold the public prior of a controller of the user's own, whose gains are its own."""

    own: OwnLaw

    def law(
        self,
        plant: Plant,
        controls: list[int],
        weights: Weights,
        noise: OutputNoise | None,
        samples: float | None = None,
    ) -> Law:
        """Return it with the filter that knows the noise, given QN, RN and a prior."""
        if self.P0 is not None and (weights.QN is None or weights.RN is None):
            raise ValueError(
                "P0: the estimate that starts from it needs the covariances of the "
                "plant's disturbances and readings; pass QN and RN"
            )
        if noise is None or weights.QN is None or weights.RN is None:
            return self.own
        if self.P0 is None and is_dense(noise):
            return self.own
        known = knowledge_of(plant, weights, noise, self.P0)
        none = np.zeros((len(controls), plant.order))
        given = (plant, controls, none, self.form, self.tracked, noise.horizon)
        return self.own.knowing(known.law(*given))


def _still(t: float, states: NDArray, inputs: NDArray, params: Any) -> NDArray:
    """The update of a system without states."""
    return states


def own_law(
    controller: Any, plant: Plant, controls: list[int], truth: NonlinearTruth | None
) -> OwnLaw:
    """The controller of a function or a `ct.nlsys`.

    `ValueError` if what is published at a sample would depend on the controller's
    answer.
    """
    if plant.D[:, controls].any():
        raise ValueError(
            "controller: the plant passes an input that the controller drives on at "
            "once, so what is published would depend on the controller's answer "
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
