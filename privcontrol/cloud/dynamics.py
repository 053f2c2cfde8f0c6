"""The closed loop as one linear system, and the one recursion that everything is computed with.

Signals have one layout inside: (time, signal, run). Runs are trials of a simulation, or columns of a map.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..channel._lti import LinearSystem
from ..core._linalg import product
from ..trajectory.plant import Plant
from .controller import Controller

#: Takes the time index, the states (N, q) and the published signals (p + m, q); returns the inputs (m, q) that act.
Actuator = Callable[[int, NDArray, NDArray], NDArray]

#: Multiplications of a sample up to which all samples together, in log2(T) turns, take less time than one by one.
_DOUBLED = 1000
#: Samples that are computed together, so that they stay in the cache.
_STRETCH = 2048


@dataclass(frozen=True, eq=False)
class ClosedLoop:
    """zeta+ = A zeta + B_d d, published = C zeta + D_d d, with zeta = (x, x_c) of N = n + k states.

    Published are yhat (p), then the inputs u (m) that the controller drives. The drives d are, by name:

    ``reference`` r, for the controller; ``noise`` (p), what is added to the outputs (measurement noise and gamma);
    ``disturbance`` w (n), added to x+; ``exogenous``, the inputs that the controller does not drive; ``actuation``
    (m), the difference between the inputs that act and those that the controller asks for. ``order`` is n,
    ``outputs`` is p.
    """

    A: NDArray
    C: NDArray
    B: dict[str, NDArray]
    D: dict[str, NDArray]
    order: int
    outputs: int

    @classmethod
    def of(
        cls, plant: Plant, controls: list[int], controller: Controller
    ) -> "ClosedLoop":
        """The loop of a plant and the controller that drives some of its inputs."""
        n = plant.order
        p = len(plant.C)
        m = len(controls)
        k = controller.order
        references = controller.F.shape[1]
        others = [i for i in range(plant.B.shape[1]) if i not in controls]
        through = plant.D[:, controls]
        sense = np.hstack([plant.C, np.zeros((p, k))])
        act = np.hstack([controller.D @ plant.C, controller.C])
        by_input = np.vstack([plant.B[:, controls], controller.E])
        by_sense = np.vstack([np.zeros((n, p)), controller.B])
        free = scipy.linalg.block_diag(plant.A, controller.A)
        # What each drive does at once: to the states, to what is sensed, and to the inputs.
        direct = {
            "reference": np.vstack([np.zeros((n, references)), controller.F]),
            "disturbance": np.vstack([np.eye(n), np.zeros((k, n))]),
            "exogenous": np.vstack([plant.B[:, others], np.zeros((k, len(others)))]),
        }
        sensed = {"noise": np.eye(p), "exogenous": plant.D[:, others]}
        asked = {"reference": controller.H, "actuation": np.eye(m)}
        widths = {
            "reference": references,
            "noise": p,
            "disturbance": n,
            "exogenous": len(others),
            "actuation": m,
        }
        into = {}
        onto = {}
        for name, width in widths.items():
            seen = sensed.get(name, np.zeros((p, width)))
            given = asked.get(name, np.zeros((m, width))) + controller.D @ seen
            moved = direct.get(name, np.zeros((n + k, width)))
            into[name] = moved + by_sense @ seen + by_input @ given
            onto[name] = np.vstack([seen + through @ given, given])
        return cls(
            A=free + by_sense @ sense + by_input @ act,
            C=np.vstack([sense + through @ act, act]),
            B=into,
            D=onto,
            order=n,
            outputs=p,
        )

    @cached_property
    def poles(self) -> NDArray:
        """Eigenvalues of the loop, (N,)."""
        return np.linalg.eigvals(self.A)

    @property
    def stable(self) -> bool:
        """Whether all poles are inside the unit circle."""
        if not np.isfinite(self.A).all():
            return False
        return bool(np.abs(self.poles).max(initial=0.0) < 1)

    def sensed(self, rows: NDArray) -> LinearSystem:
        """From output noise to rows (k, n + m) of (x, u)."""
        n = self.order
        p = self.outputs
        by_input = rows[:, n:]
        C = by_input @ self.C[p:]
        C[:, :n] += rows[:, :n]
        through = self.D["noise"]
        D = by_input @ through[p:]
        return LinearSystem(self.A, self.B["noise"], C, D)

    def steady(self, rows: NDArray) -> LinearSystem:
        """The system `sensed` of a loop that must be stable."""
        if not self.stable:
            radius = np.abs(self.poles).max()
            raise ValueError(
                f"the loop is not stable (spectral radius {radius:.6g}), and has no steady state; "
                "choose gains that stabilise it, or a finite horizon"
            )
        return self.sensed(rows)

    def errors(
        self,
        rows: NDArray,
        drives: Mapping[str, NDArray],
        samples: int,
        initial: NDArray | None = None,
    ) -> NDArray:
        """Rows (k, n + m) applied to (x, u) of runs side by side, as (T, k, q), from rest by default."""
        if initial is None:
            initial = np.zeros((len(self.A), 1))
        return self.weighted(rows, *self.run(initial, drives, samples))

    def weighted(self, rows: NDArray, states: NDArray, published: NDArray) -> NDArray:
        """Rows (k, n + m) applied to (x, u), as (T, k, q), of what `run` returns."""
        n = self.order
        by_state = rows[:, :n] @ states[:-1, :n]
        return by_state + rows[:, n:] @ published[:, self.outputs :]

    def run(
        self,
        initial: NDArray,
        drives: Mapping[str, NDArray],
        samples: int,
        actuator: Actuator | None = None,
        first: int = 0,
    ) -> tuple[NDArray, NDArray]:
        """States (T + 1, N, q) and published signals (T, p + m, q) of runs side by side, from sample ``first`` on.

        ``initial`` is (N, q or 1), drives are (T or more, size, q or 1), zero where left out. An ``actuator`` replaces
        the inputs that the controller asks for.
        """
        widths = [drive.shape[2] for drive in drives.values()]
        runs = max(initial.shape[1], *widths, 1)
        states = np.zeros((samples + 1, len(self.A), runs))
        published = np.zeros((samples, len(self.C), runs))
        states[0] = initial
        for name, drive in drives.items():
            acting = drive[:samples]
            states[1:] += product(self.B[name], acting)
            published += product(self.D[name], acting)
        if actuator is None:
            march(self.A, states)
            published += product(self.C, states[:-1])
        else:
            self._march_actuated(states, published, actuator, first)
        return states, published

    def _march_actuated(
        self, states: NDArray, published: NDArray, actuator: Callable, first: int
    ) -> None:
        """The same recursion, where the inputs that act are not those that the controller asks for."""
        p = self.outputs
        through = self.D["actuation"][:p]
        into = self.B["actuation"]
        for t, now in enumerate(states[:-1]):
            sent = published[t]
            sent += product(self.C, now)
            acting = actuator(first + t, now, sent)
            change = acting - sent[p:]
            sent[:p] += product(through, change)
            sent[p:] = acting
            following = states[t + 1]
            following += product(self.A, now)
            following += product(into, change)


def march(A: NDArray, states: NDArray) -> NDArray:
    """Add A states[t] to states[t + 1] in place, for one sample after the other.

    ``states`` (T, N, q) holds the initial state, then what the drives add at each sample. Runs from the last sample
    to the first are marched as ``march(A.T, states[::-1])``.
    """
    samples, order, runs = states.shape
    if order * order * runs <= _DOUBLED:
        powers = _doubled_powers(A, min(samples, _STRETCH))
        if np.isfinite(powers[-1]).all():
            for start in range(0, samples - 1, _STRETCH - 1):
                _march_doubling(powers, states[start : start + _STRETCH])
            return states
    moved = np.empty((order, runs))
    for t in range(samples - 1):
        states[t + 1] += product(A, states[t], out=moved)
    return states


def _march_doubling(powers: list[NDArray], states: NDArray) -> None:
    """The same for all samples of a stretch together. After a turn, each holds what the last 2, 4, 8, ... samples brought."""
    samples, order, runs = states.shape
    by_signal = states.transpose(1, 0, 2)
    columns = by_signal.reshape(order, samples * runs)
    step = runs
    for power in powers:
        earlier = columns[:, :-step]
        columns[:, step:] += product(power, earlier)
        step *= 2
    together = columns.reshape(order, samples, runs)
    states[:] = together.transpose(1, 0, 2)


def _doubled_powers(A: NDArray, samples: int) -> list[NDArray]:
    """A, A^2, A^4, ... below the number of samples. The last one is not finite if one of them overflows."""
    powers = [A]
    with np.errstate(over="ignore", invalid="ignore"):
        while 2 ** len(powers) < samples:
            powers.append(powers[-1] @ powers[-1])
    return powers
