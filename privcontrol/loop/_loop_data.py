"""A private loop as data: plant, controller, noise, and what follows from them.

What simulates, prices or shows a loop needs no more than this. The doors to all that
stand on `PrivateLoop`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._frozen import freeze_arrays
from ..core.guarantee import PrivacyGuarantee
from ..designs.output_noise import OutputNoise
from ..noise._noise_data import noise_to_dict, to_data
from ..regions.jacobian import Region
from ..systems.linear import LinearSystem
from ..systems.plant import Plant
from .checks import Weights, check_noise, root, span
from .controller import Controller, Law, ObserverFeedback, general_controller, indexed
from .dynamics import LoopDynamics, Rows
from .nonlinear import NonlinearTruth
from .regulator import LqgDesign, Regulation
from .side import LinearSide

KIND = "private loop"


@dataclass(frozen=True, repr=False, eq=False)
class LoopData:
    """The parts of a `PrivateLoop`, whose attributes it describes."""

    plant: Plant
    law: Law
    noise: OutputNoise | None
    weights: Weights
    controls: tuple[int, ...]
    name: str
    form: str = ""
    history: tuple = ()
    truth: NonlinearTruth | None = None
    design: LqgDesign | None = None

    def __post_init__(self) -> None:
        freeze_arrays(self)
        if self.noise is not None:
            check_noise(self.plant, self.noise)
            if self.truth is not None:
                self.truth.check_noise(self.noise, self.controls)

    # -- the plant and its noise -------------------------------------------------------

    @property
    def rest(self) -> NDArray:
        """The state (n,) about which the controller acts; zero for linear plants."""
        if self.truth is not None:
            return self.truth.states
        return np.zeros(self.plant.order)

    @property
    def region(self) -> Region:
        """Where the guarantee for a nonlinear plant holds.

        `ValueError` for a linear one or without noise.
        """
        if self.truth is None:
            raise ValueError("region: the plant of this loop is linear")
        return self.truth.check_noise(self.private_noise, self.controls)

    @cached_property
    def side(self) -> LinearSide:
        """The plant with the inputs that the controller drives."""
        return LinearSide(self.plant, self.controls)

    @property
    def exogenous(self) -> tuple[int, ...]:
        """The inputs of the plant that the controller does not drive."""
        count = self.plant.B.shape[1]
        return tuple(k for k in range(count) if k not in self.controls)

    @property
    def driven_labels(self) -> list[str]:
        """Labels of the inputs that the controller drives."""
        return [self.plant.inputs[k] for k in self.controls]

    @property
    def free_labels(self) -> list[str]:
        """Labels of the exogenous inputs."""
        return [self.plant.inputs[k] for k in self.exogenous]

    @property
    def private_noise(self) -> OutputNoise:
        """The noise. `ValueError` if the loop has none."""
        if self.noise is None:
            raise ValueError(
                "the loop has no noise, and so no guarantee: design some with "
                "design_output_noise and pass it to with_noise; the public loop is "
                ".system, for ct.forced_response"
            )
        return self.noise

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The privacy guarantee of everything that the loop publishes over the horizon.

        `ValueError` without noise.
        """
        return self.private_noise.guarantee

    @property
    def never_ends(self) -> bool:
        """Whether the noise has no horizon."""
        return self.noise is not None and self.noise.horizon == math.inf

    # -- the controller ----------------------------------------------------------------

    @property
    def observer(self) -> ObserverFeedback | None:
        """The controller, where it is an observer with a state feedback."""
        return self.law if isinstance(self.law, ObserverFeedback) else None

    @property
    def tracked(self) -> tuple[int, ...]:
        """The outputs with integral action."""
        return () if self.observer is None else self.observer.tracked

    @property
    def followed_outputs(self) -> tuple[int, ...]:
        """The outputs that follow the references, one each, as far as that is known.

        Those with integral action, and all where the controller acts on r - yhat.
        """
        if isinstance(self.law, Controller) and self.law.acts_on_errors:
            return tuple(range(len(self.plant.C)))
        return self.tracked

    @property
    def follows_states(self) -> bool:
        """Whether the reference is one for the plant's states (and inputs)."""
        return self.observer is not None and not self.tracked

    @property
    def known_design(self) -> LqgDesign:
        """What the loop was designed for. `ValueError` unless `private_lqg` made it."""
        if self.design is None:
            raise ValueError("expected a loop that private_lqg made")
        return self.design

    @property
    def knows_noise(self) -> bool:
        """Whether the design has another filter for each noise."""
        return self.design is not None and (self.design.is_kalman or self.never_ends)

    @property
    def regulation(self) -> Regulation:
        """The regulator's problem of the design."""
        return Regulation.of(self.side, self.weights, self.known_design)

    @property
    def prior_mean(self) -> NDArray:
        """The public mean (n,) of x(0), the point at rest without one."""
        if self.design is None or self.design.initial_state is None:
            return self.rest
        return self.design.initial_state

    @property
    def start(self) -> NDArray:
        """States (N,) of plant and controller at the mean of the prior."""
        n = self.plant.order
        start = np.zeros(self.dynamics.size)
        start[:n] = self.prior_mean
        if self.law.estimates:
            start[n : 2 * n] = self.prior_mean - self.rest
        return start

    # -- other loops of the same plant -------------------------------------------------

    def with_noise(self, noise: OutputNoise | None) -> Self:
        """The same loop with other noise (or None), and with the filter that knows it.

        Loops whose observer knows no noise keep theirs.
        """
        loop = replace(self, noise=noise)
        return replace(loop, law=loop.law_for(noise)) if loop.knows_noise else loop

    def law_for(self, noise: OutputNoise | None, samples: int | None = None) -> Law:
        """The controller of the design for a noise, or without it for some samples."""
        return self.known_design.law(self.side, self.weights, noise, samples)

    def with_gains(self, K: NDArray, L: NDArray) -> Self:
        """The same observer loop with other gains K (m, n) and L (n, p)."""
        law = ObserverFeedback.of(self.side, K, L, self.form)
        design = self.design
        if design is not None:
            design = replace(design, estimator="observer")
        return replace(self, law=law, design=design)

    def idle(self) -> Self:
        """The same plant without control, u = 0, and without noise."""
        nothing = np.zeros_like(self.side.through.T)
        still = ct.ss([], [], [], nothing, self.plant.dt)
        law = general_controller(self.side, still)
        return replace(self, law=law, noise=None, form="")

    # -- the recursion -----------------------------------------------------------------

    @cached_property
    def dynamics(self) -> LoopDynamics:
        """The recursion of plant and controller."""
        return LoopDynamics(self.side, self.law)

    @cached_property
    def cost_rows(self) -> Rows:
        """Rows whose squares add up to the cost, and to that of the last state."""
        each = self.weights.cost_root
        n = self.plant.order
        last = np.zeros((len(each), n))
        if self.design is not None:
            last[:n] = root(self.regulation.terminal[:n, :n]).T
        return Rows(each, last)

    def noise_weight(
        self, horizon: float
    ) -> Callable[[ArrayLike], NDArray] | LinearSystem:
        """The map from output noise to the cost that it adds over a horizon.

        It takes output-noise columns (T p, r) to H columns with |H gamma|^2 = sum of
        x'Q x + u'R u + 2 x'N u, where x and u are the loop's response to gamma alone.
        With an infinite horizon it is the `LinearSystem` H itself. `ValueError` if the
        loop has no Q and R, or is not stable and the horizon infinite.
        """
        self.law.check_linear()
        rows = self.cost_rows
        if not self.law.varies:
            rows = Rows(rows.each, 0 * rows.last)
        samples = span(horizon)
        p = len(self.plant.C)
        if samples == math.inf:
            return self.dynamics.steady(rows.each, {"noise": np.eye(p)})
        samples = int(samples)

        def half(columns: ArrayLike) -> NDArray:
            gamma = np.asarray(columns).reshape(samples, p, -1)
            added = self.dynamics.errors(rows, {"noise": gamma}, samples)
            return added.reshape(-1, added.shape[2])

        return half

    def refuse_moments(self, name: str) -> None:
        """Raise a `ValueError` if plant or controller are nonlinear."""
        self.law.check_linear()
        if self.truth is not None:
            raise ValueError(
                f"{name}: exact moments are those of a linear plant, and this one is "
                "nonlinear; estimate them, loop.simulate(trials=1000).mse(target), or "
                "make the loop of the linear plant that the noise was designed for"
            )

    # -- names and files ---------------------------------------------------------------

    @property
    def input_labels(self) -> list[str]:
        """References (``xd[i]`` and ``ud[i]``, or ``r[i]``), free inputs, ``eta[i]``."""
        labels = [*self.law.references, *self.free_labels]
        if self.noise is not None:
            labels += indexed("eta", self.noise.total.channels)
        return labels

    @property
    def output_labels(self) -> list[str]:
        """``yhat[i]``, then the labels of the inputs that the controller drives."""
        return [*indexed("yhat", len(self.plant.C)), *self.driven_labels]

    @property
    def state_labels(self) -> list[str]:
        """The plant's labels, then the controller's (``xhat[i]`` of an observer)."""
        return [*self.plant.states, *self.law.states]

    def to_dict(self) -> dict[str, Any]:
        """Plant, controller, noise, weights and names, for a design file.

        Of gains that vary only what they are designed for is written. `ValueError`
        where plant or controller are functions.
        """
        functions = ""
        if self.law.is_function:
            functions = "the controller's functions"
        elif self.truth is not None:
            functions = "the functions of a nonlinear plant"
        if functions:
            raise ValueError(
                f"save: {functions} cannot be written to a file; save the noise, "
                "loop.noise.save(path)"
            )
        data = _values(self)
        del data["truth"]
        data["plant"] = to_data(self.plant)
        if self.noise is not None:
            data["noise"] = noise_to_dict(self.noise)
        data["weights"] = _values(self.weights)
        data["law"] = None
        if not self.law.varies:
            data["law"] = {"type": type(self.law).__name__, **_values(self.law)}
        if self.design is not None:
            data["design"] = _values(self.design)
        data["history"] = [list(step) for step in self.history]
        return data


def _values(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}
