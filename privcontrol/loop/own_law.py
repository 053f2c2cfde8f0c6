"""Controllers that are functions of what is published: an MPC, a network, a `ct.nlsys`.

They are called once per run and sample, and one run follows the other. What they
compute is post-processing, so the guarantee of the noise is that of the loop. Exact
moments, poles and design files of such loops do not exist.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Self

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._linalg import real_array
from ..core.errors import PrivacyWarning
from ..designs.output_noise import OutputNoise
from .checks import Weights
from .controller import (
    Law,
    ObserverFeedback,
    check_timebase,
    indexed,
    state_names,
    wiring,
)
from .kalman import is_dense, knowledge_of
from .nonlinear import NonlinearTruth
from .regulator import LqgDesign
from .side import LinearSide

#: f(t, yhat, estimate, reference): the inputs (m,) at the time t in seconds.
Function = Callable[[float, NDArray, NDArray | None, NDArray | None], ArrayLike]


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnLaw(Law):
    """A controller of the user's own, in deviations from the point about which it acts.

    Attributes
    ----------
    step : float
        Length of a sample.
    inputs, outputs : ndarray, shapes (m, 1), (p, 1)
        That point; the user's code is given, and gives, whole signals.
    observer : ObserverFeedback or None
        What makes the estimate that it is given.
    """

    step: float
    inputs: NDArray
    outputs: NDArray
    references: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    observer: ObserverFeedback | None = None

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
        given = self._answer(t, memory, sensed, reference[:, 0])
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

    def knowing(self, observer: ObserverFeedback) -> OwnLaw:
        """Return the controller with an estimate, if it takes one."""
        return self

    @abstractmethod
    def _answer(
        self, t: int, memory: NDArray, sensed: NDArray, reference: NDArray
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
    ) -> Any:
        followed = reference.copy() if self.references else None
        estimate = None
        if self.observer is not None:
            change = self.observer.estimate(t, memory, sensed)
            estimate = self.rest + change[:, 0]
        yhat = (sensed + self.outputs)[:, 0]
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

    update: Callable[..., Any] | None
    read: Callable[..., Any] | None
    params: Mapping[str, Any]
    reads: NDArray
    drives: NDArray

    @classmethod
    def of(
        cls, ctrl: ct.NonlinearIOSystem, side: LinearSide, **point: Any
    ) -> SystemLaw:
        """The controller of a system whose time is the plant's."""
        check_timebase(ctrl, side.plant)
        reads, drives = wiring(ctrl, side)
        return cls(
            states=state_names(ctrl, side.plant),
            references=indexed("r", ctrl.ninputs - len(side.outputs)),
            update=ctrl.updfcn,
            read=ctrl.outfcn,
            params=dict(ctrl.params),
            reads=np.argsort(reads),
            drives=np.array(drives),
            **point,
        )

    def _called(
        self,
        function: Callable[..., Any],
        t: int,
        memory: NDArray,
        sensed: NDArray,
        reference: NDArray,
    ) -> Any:
        """What a function of the system returns at sample t."""
        yhat = (sensed + self.outputs)[:, 0]
        given = np.concatenate([yhat, reference])[self.reads]
        return function(t * self.step, memory[:, 0].copy(), given, dict(self.params))

    def _answer(
        self, t: int, memory: NDArray, sensed: NDArray, reference: NDArray
    ) -> Any:
        if self.read is None:
            return memory[self.drives, 0]
        answer = self._called(self.read, t, memory, sensed, reference)
        return np.ravel(answer)[self.drives]

    def follow(
        self,
        t: int,
        memory: NDArray,
        sensed: NDArray,
        acting: NDArray,
        reference: NDArray,
    ) -> NDArray:
        if self.update is None or not self.states:
            return memory
        moved = self._called(self.update, t, memory, sensed, reference[:, 0])
        return np.reshape(moved, memory.shape)


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnDesign(LqgDesign):
    """Hold the public prior of a controller of the user's own, with its own gains."""

    own: OwnLaw

    def law(
        self,
        side: LinearSide,
        weights: Weights,
        noise: OutputNoise | None,
        samples: float | None = None,
    ) -> Law:
        """Return it with the filter that knows the noise, given QN, RN and a prior."""
        is_unknown = weights.QN is None or weights.RN is None
        if self.P0 is not None and is_unknown:
            raise ValueError(
                "P0: the estimate that starts from it needs the covariances of the "
                "plant's disturbances and readings; pass QN and RN"
            )
        if noise is None or is_unknown:
            return self.own
        if self.P0 is None and is_dense(noise):
            if isinstance(self.own, FunctionLaw):
                warnings.warn(
                    "controller: its estimate is None, since beside this noise an "
                    "estimate needs the public covariance of x(0); pass P0",
                    PrivacyWarning,
                    stacklevel=2,
                )
            return self.own
        known = knowledge_of(side.plant, weights, noise, self.P0)
        none = np.zeros_like(side.B.T)
        observer = known.law(side, none, self.form, self.tracked, noise.horizon)
        return self.own.knowing(observer)


def own_law(controller: Any, side: LinearSide, truth: NonlinearTruth | None) -> OwnLaw:
    """The controller of a function or a `ct.nlsys`.

    `ValueError` if what is published at a sample would depend on the controller's
    answer.
    """
    if side.through.any():
        raise ValueError(
            "controller: the plant passes an input that the controller drives on at "
            "once, so what is published would depend on the controller's answer "
            "to it; delay that input by one sample (with_delays)"
        )
    point: dict[str, Any] = {"inputs": side.inputs, "outputs": side.outputs}
    rest = np.zeros(side.order)
    if truth is not None:
        point["inputs"] = truth.inputs[side.driven, None]
        point["outputs"] = truth.outputs[:, None]
        rest = truth.states
    point["step"] = side.plant.step
    if isinstance(controller, ct.NonlinearIOSystem):
        return SystemLaw.of(controller, side, **point)
    return FunctionLaw(function=controller, rest=rest, **point)
