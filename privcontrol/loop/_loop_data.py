"""A private loop as data: plant, controller, noise, and what follows from them.

What simulates, prices or shows a loop needs no more than this. The doors to all that
stand on `PrivateLoop`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._objects import Saved, freeze_arrays
from ..core.guarantee import PrivacyGuarantee
from ..designs.output_noise import OutputNoise
from ..systems.linear import LinearSystem
from .checks import Weights, check_noise, root, span
from .controller import Law, ObserverFeedback
from .dynamics import LoopDynamics, Rows
from .lqg import LqgDesign, Regulation
from .side import LinearSide, NonlinearSide


@dataclass(frozen=True, repr=False, eq=False)
class LoopData(Saved):
    """The parts of a `PrivateLoop`, whose attributes it describes."""

    side: LinearSide
    law: Law
    noise: OutputNoise | None
    weights: Weights
    name: str
    form: str = ""
    history: tuple = ()
    truth: NonlinearSide | None = None
    design: LqgDesign | None = None

    def __post_init__(self) -> None:
        freeze_arrays(self)
        if self.noise is not None:
            check_noise(self.side.plant, self.noise)
            if self.truth is not None:
                self.truth.check_noise(self.noise)

    @property
    def plant(self) -> ct.StateSpace:
        """The plant."""
        return self.side.plant.statespace()

    @property
    def simulated(self) -> LinearSide | NonlinearSide:
        """The plant that is simulated, the nonlinear one where there is one."""
        return self.truth or self.side

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

    @property
    def observer(self) -> ObserverFeedback | None:
        """The controller, where it is an observer with a state feedback."""
        return self.law if isinstance(self.law, ObserverFeedback) else None

    @property
    def known_design(self) -> LqgDesign:
        """The design of the loop. `ValueError` unless `private_lqg` made it."""
        if self.design is None:
            raise ValueError("expected a loop that private_lqg made")
        return self.design

    @property
    def knows_noise(self) -> bool:
        """Whether the design has another filter for each noise."""
        return self.design is not None and (self.design.is_kalman or self.never_ends)

    def _saved_fields(self) -> dict[str, object]:
        """Return plant, controller, noise, weights and names, for a design file.

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
        saved = super()._saved_fields()
        del saved["truth"], saved["side"]
        saved["law"] = None if self.law.varies else self.law
        return {"plant": self.side.plant, "controls": self.side.controls, **saved}

    @classmethod
    def _restored(cls, saved: dict[str, Any]) -> Self:
        side = LinearSide(saved.pop("plant"), saved.pop("controls"))
        if saved["law"] is None:
            known = (side, saved["weights"], saved["noise"])
            saved["law"] = saved["design"].law(*known)
        return cls(side, **saved)

    def with_noise(self, noise: OutputNoise | None) -> Self:
        """Return the loop with other noise (or None), and the filter that knows it.

        Loops whose observer knows no noise keep theirs.
        """
        loop = replace(self, noise=noise)
        if not loop.knows_noise:
            return loop
        law = loop.known_design.law(self.side, self.weights, noise)
        return replace(loop, law=law)

    @cached_property
    def dynamics(self) -> LoopDynamics:
        """The recursion of plant and controller."""
        return LoopDynamics(self.side, self.law)

    @cached_property
    def cost_rows(self) -> Rows:
        """Rows whose squares add up to the cost, and to that of the last state."""
        each = self.weights.cost_root
        n = self.side.order
        last = np.zeros((len(each), n))
        if self.design is not None:
            last[:n] = root(regulation(self).terminal[:n, :n]).T
        return Rows(each, last)

    def noise_weight(
        self, horizon: float
    ) -> Callable[[ArrayLike], NDArray] | LinearSystem:
        """Return the map from output noise to the cost that it adds over a horizon.

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
        p = len(self.side.outputs)
        if samples == math.inf:
            return self.dynamics.steady(rows.each, {"noise": np.eye(p)})
        samples = int(samples)

        def half(columns: ArrayLike) -> NDArray:
            gamma = np.asarray(columns).reshape(samples, p, -1)
            added = self.dynamics.errors(rows, {"noise": gamma}, samples)
            return added.reshape(-1, added.shape[2])

        return half


def regulation(loop: LoopData) -> Regulation:
    """Return the regulator's problem of a loop's design."""
    return Regulation.of(loop.side, loop.weights, loop.known_design)


def refuse_moments(loop: LoopData, name: str) -> None:
    """Raise a `ValueError` if plant or controller are nonlinear."""
    loop.law.check_linear()
    if loop.truth is not None:
        raise ValueError(
            f"{name}: exact moments are those of a linear plant, and this one is "
            "nonlinear; estimate them, loop.simulate(trials=1000).mse(target), or "
            "make the loop of the linear plant that the noise was designed for"
        )
