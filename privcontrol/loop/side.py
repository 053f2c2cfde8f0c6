"""A linear plant as the loop's recursion sees it, some inputs of which are driven.

`NonlinearSide` is another. Arrays of signals are (signals, runs).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..core._linalg import product
from ..systems.plant import Plant


@dataclass(frozen=True, eq=False)
class LinearSide:
    """A linear plant whose inputs ``controls`` are driven."""

    plant: Plant
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
        count = self.plant.B.shape[1]
        return [k for k in range(count) if k not in self.controls]

    @property
    def driven_labels(self) -> list[str]:
        """Labels of the inputs that the controller drives."""
        return [self.plant.inputs[k] for k in self.controls]

    @property
    def free_labels(self) -> list[str]:
        """Labels of the others."""
        return [self.plant.inputs[k] for k in self.free]

    @cached_property
    def inputs(self) -> NDArray:
        """The point (m, 1) about which the controller drives them, zero."""
        return np.zeros((len(self.controls), 1))

    @cached_property
    def outputs(self) -> NDArray:
        """The outputs (p, 1) there, zero."""
        return np.zeros((len(self.plant.C), 1))

    @cached_property
    def B(self) -> NDArray:
        """From the driven inputs to the next states, (n, m)."""
        return self.plant.B[:, self.driven]

    @cached_property
    def through(self) -> NDArray:
        """From the driven inputs to the outputs, (p, m)."""
        return self.plant.D[:, self.driven]

    def read(self, t: int, state: NDArray, exogenous: NDArray) -> NDArray:
        """Return the outputs (p, q) without what the driven inputs add at once."""
        at_once = self.plant.D[:, self.free] @ exogenous
        return product(self.plant.C, state) + at_once

    def move(
        self, t: int, state: NDArray, acting: NDArray, exogenous: NDArray
    ) -> NDArray:
        """Return the next states (n, q)."""
        moved = product(self.plant.A, state) + product(self.B, acting)
        return moved + self.plant.B[:, self.free] @ exogenous
