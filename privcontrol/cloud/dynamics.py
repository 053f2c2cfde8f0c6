"""The loop's recursion: plant and controller take turns, sample by sample.

Signals have one layout inside: (time, signal, run). Runs are trials of a simulation, or
columns of a map. Where nothing varies the loop is one linear system, and the recursion is
that of its matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core._linalg import product
from ..trajectory.linear import LinearSystem
from ..trajectory.plant import Plant
from .controller import Law

#: Takes the time index, the controller's memory (k, q), what it senses (p, q) and the
#: inputs (m, q) that it asks for; returns those that act.
Actuator = Callable[[int, NDArray, NDArray, NDArray], NDArray]

#: Multiplications of a sample up to which all samples together, in log2(T) turns, take less time than one by one.
_DOUBLED = 1000
#: Samples that are computed together, so that they stay in the cache.
_STRETCH = 2048


class Side(Protocol):
    """A plant as the recursion sees it, with the point about which its controller acts."""

    order: int
    exogenous: int
    inputs: NDArray  # (m, 1), of the inputs that are driven
    outputs: NDArray  # (p, 1)
    through: NDArray  # (p, m), from these inputs to the outputs

    def read(self, t: int, state: NDArray, exogenous: NDArray) -> NDArray:
        """The outputs (p, q) without what the driven inputs add at once."""

    def move(
        self, t: int, state: NDArray, acting: NDArray, exogenous: NDArray
    ) -> NDArray:
        """The next states (n, q)."""


class LinearSide:
    """A linear plant some inputs of which are driven."""

    def __init__(self, plant: Plant, controls: list[int]) -> None:
        others = [i for i in range(plant.B.shape[1]) if i not in controls]
        self.order = plant.order
        self.exogenous = len(others)
        self.inputs = np.zeros((len(controls), 1))
        self.outputs = np.zeros((len(plant.C), 1))
        self.through = plant.D[:, controls]
        self._A = plant.A
        self._C = plant.C
        self._B = plant.B[:, controls]
        self._entry = plant.B[:, others]
        self._direct = plant.D[:, others]

    def read(self, t: int, state: NDArray, exogenous: NDArray) -> NDArray:
        return product(self._C, state) + self._direct @ exogenous

    def move(
        self, t: int, state: NDArray, acting: NDArray, exogenous: NDArray
    ) -> NDArray:
        moved = product(self._A, state) + product(self._B, acting)
        return moved + self._entry @ exogenous


def stepped(
    side: Side,
    law: Law,
    initial: NDArray,
    drives: Mapping[str, NDArray],
    samples: int,
    actuator: Actuator | None = None,
    first: int = 0,
) -> tuple[NDArray, NDArray]:
    """States (T + 1, N, q) and published signals (T, p + m, q), from sample ``first`` on.

    The plant is read, the controller decides, and both move on. Drives are those of
    `ClosedLoop`. An ``actuator`` replaces the inputs that the controller asks for.
    """
    n = side.order
    p = len(side.outputs)
    m = len(side.inputs)
    widths = [drive.shape[2] for drive in drives.values()]
    runs = max(initial.shape[1], *widths, 1)
    states = np.empty((samples + 1, len(initial), runs))
    published = np.empty((samples, p + m, runs))
    states[0] = initial
    still = np.zeros((samples, 1, 1))
    references = drives.get("reference", np.zeros((samples, len(law.references), 1)))
    free = drives.get("exogenous", np.zeros((samples, side.exogenous, 1)))
    noise = drives.get("noise", still)
    disturbance = drives.get("disturbance", still)
    for k in range(samples):
        t = first + k
        state, memory = np.split(states[k], [n])
        reading = side.read(t, state, free[k]) + noise[k]
        sensed = reading - side.outputs
        asked = law.decide(t, memory, sensed, references[k]) + side.inputs
        if actuator is not None:
            asked = actuator(t, memory, sensed, asked)
        published[k, p:] = asked
        acting = published[k, p:]
        published[k, :p] = reading + product(side.through, acting)
        change = acting - side.inputs
        states[k + 1, n:] = law.follow(t, memory, sensed, change, references[k])
        moved = side.move(t, state, acting, free[k])
        states[k + 1, :n] = moved + disturbance[k]
    return states, published


class Rows(NamedTuple):
    """Rows whose squares add up to a cost: of (x, u) at each sample, of x after the last."""

    each: NDArray  # (k, n + m)
    last: NDArray  # (k, n)


@dataclass(frozen=True, eq=False)
class LoopDynamics:
    """A linear plant in a loop with a controller, whose gains may vary."""

    plant: Plant
    controls: tuple[int, ...]
    law: Law

    @property
    def size(self) -> int:
        """Number N of states of plant and controller."""
        return self.plant.order + self.law.order

    @cached_property
    def fixed(self) -> ClosedLoop:
        """The loop as one linear system. `ValueError` where its gains vary."""
        self.law.check_linear()
        if self.law.varies:
            raise ValueError(
                "the gains of this loop vary from sample to sample: it has no poles and "
                "no steady state; loop.system is a ct.nlsys with the time"
            )
        return self.at(0)

    def at(self, t: int) -> ClosedLoop:
        """The loop at sample t as one linear system, from its answers to units."""
        self.law.check_linear()
        side = LinearSide(self.plant, list(self.controls))
        p = len(self.plant.C)
        widths = {
            "reference": len(self.law.references),
            "noise": p,
            "disturbance": side.order,
            "exogenous": side.exogenous,
        }
        size = self.size
        count = size + sum(widths.values())
        drives = {}
        places = {}
        start = size
        for name, width in widths.items():
            drives[name] = np.eye(width, count, start)[None]
            places[name] = slice(start, start + width)
            start += width
        units = np.eye(size, count)
        states, published = stepped(side, self.law, units, drives, 1, first=t)
        return ClosedLoop(
            A=states[1][:, :size],
            C=published[0][:, :size],
            B={name: states[1][:, place] for name, place in places.items()},
            D={name: published[0][:, place] for name, place in places.items()},
            order=side.order,
            outputs=p,
        )

    def run(
        self,
        initial: NDArray,
        drives: Mapping[str, NDArray],
        samples: int,
        actuator: Actuator | None = None,
        first: int = 0,
    ) -> tuple[NDArray, NDArray]:
        """States and published signals of runs side by side, as `stepped` returns them."""
        if actuator is None and not self.law.varies:
            return self.fixed.run(initial, drives, samples)
        side = LinearSide(self.plant, list(self.controls))
        return stepped(side, self.law, initial, drives, samples, actuator, first)

    def errors(
        self,
        rows: Rows,
        drives: Mapping[str, NDArray],
        samples: int,
        initial: NDArray | None = None,
    ) -> NDArray:
        """Rows of (x, u) of runs side by side, as (T + 1, k, q), from rest by default."""
        if initial is None:
            initial = np.zeros((self.size, 1))
        n = self.plant.order
        states, published = self.run(initial, drives, samples)
        errors = np.empty((samples + 1, len(rows.each), states.shape[2]))
        errors[:-1] = rows.each[:, :n] @ states[:-1, :n]
        errors[:-1] += rows.each[:, n:] @ published[:, len(self.plant.C) :]
        errors[-1] = rows.last @ states[-1, :n]
        return errors

    def variances(
        self,
        rows: Rows,
        factors: Mapping[str, NDArray],
        samples: int,
        source: LinearSystem | None = None,
        start: NDArray | None = None,
    ) -> NDArray:
        """Variances (T + 1, k) of rows that white noise causes, by the covariance of all states.

        It enters drives by factors, after a ``source`` with the covariance ``start`` of its
        first state.
        """
        n = self.plant.order
        order = 0 if source is None else source.order
        covariance = np.zeros((self.size + order, self.size + order))
        if start is not None:
            covariance[:order, :order] = start
        found = np.empty((samples + 1, len(rows.each)))
        for t in range(samples):
            system = self.at(t).sensed(rows.each, factors)
            if source is not None:
                system = system.after(source)
            direct = np.sum(system.D**2, axis=1)
            found[t] = np.sum(system.C @ covariance * system.C, axis=1) + direct
            covariance = system.A @ covariance @ system.A.T + system.B @ system.B.T
        states = covariance[order : order + n, order : order + n]
        found[-1] = np.sum(rows.last @ states * rows.last, axis=1)
        return found


def clipped(limits: NDArray | None) -> Actuator | None:
    """The actuator that keeps each input within its limits (m, 2), if there are any."""
    if limits is None:
        return None
    low, high = np.hsplit(limits, 2)

    def actuator(t: int, memory: NDArray, sensed: NDArray, asked: NDArray) -> NDArray:
        return np.clip(asked, low, high)

    return actuator


@dataclass(frozen=True, eq=False)
class ClosedLoop:
    """zeta+ = A zeta + B_d d, published = C zeta + D_d d, with zeta = (x, x_c) of N = n + k states.

    Published are yhat (p), then the inputs u (m) that the controller drives. The drives d are, by name:

    ``reference`` r, for the controller; ``noise`` (p), what is added to the outputs (measurement noise and gamma);
    ``disturbance`` w (n), added to x+; ``exogenous``, the inputs that the controller does not drive. ``order`` is n,
    ``outputs`` is p.
    """

    A: NDArray
    C: NDArray
    B: dict[str, NDArray]
    D: dict[str, NDArray]
    order: int
    outputs: int

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

    def sensed(
        self, rows: NDArray, factors: Mapping[str, NDArray] | None = None
    ) -> LinearSystem:
        """From output noise, or from what enters drives by factors, to rows (k, n + m) of (x, u)."""
        n = self.order
        p = self.outputs
        by_input = rows[:, n:]
        C = by_input @ self.C[p:]
        C[:, :n] += rows[:, :n]
        if factors is None:
            factors = {"noise": np.eye(p)}
        B = np.hstack([self.B[drive] @ factor for drive, factor in factors.items()])
        D = np.hstack([self.D[drive][p:] @ factor for drive, factor in factors.items()])
        return LinearSystem(self.A, B, C, by_input @ D)

    def steady(self, rows: NDArray) -> LinearSystem:
        """The system `sensed` of a loop that must be stable."""
        if not self.stable:
            radius = np.abs(self.poles).max()
            raise ValueError(
                f"the loop is not stable (spectral radius {radius:.6g}), and has no steady state; "
                "choose gains that stabilise it, or a finite horizon"
            )
        return self.sensed(rows)

    def run(
        self,
        initial: NDArray,
        drives: Mapping[str, NDArray],
        samples: int,
    ) -> tuple[NDArray, NDArray]:
        """States (T + 1, N, q) and published signals (T, p + m, q) of runs side by side.

        ``initial`` is (N, q or 1), drives are (T or more, size, q or 1), zero where left out.
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
        march(self.A, states)
        published += product(self.C, states[:-1])
        return states, published


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
