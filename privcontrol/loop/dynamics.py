"""The loop's recursion: plant and controller take turns, sample by sample.

Signals have one layout inside: (time, signal, run). Runs are trials of a simulation, or
columns of a map. Where nothing varies the loop is one linear system, and the recursion
is that of its matrices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..numerics.linalg import product
from ..systems.linear import LinearSystem, narrowed, spectral_radius
from .controller import Law
from .side import LinearSide, NonlinearSide, at_sample
from .stepping import LinearRun, Source, drive_sizes, has_form

#: Speed: multiplications of a sample up to which all samples together, in log2(T) turns,
#: take less time than one by one.
_DOUBLED = 1000
#: Speed: columns of a root, relative to its rows, up to which none are joined.
_WIDEST = 3
#: A loop that starts at zero.
AT_REST = np.zeros((0, 1))
#: What drives a loop, by name: white factors, or signals (T, size, runs).
Drives = Mapping[str, NDArray[np.float64]]


class Rows(NamedTuple):
    """Rows of (x, u) at each sample, of x after the last, whose squares are a cost."""

    each: NDArray[np.float64]  # (k, n + m), or (T, k, n + m) where they vary
    last: NDArray[np.float64]  # (k, n)

    @property
    def height(self) -> int:
        """Number k of rows."""
        return self.each.shape[-2]

    @property
    def weighed(self) -> NDArray[np.bool_]:
        """Mask (n + m,) of what some row weighs."""
        every = self.each.reshape(-1, self.each.shape[-1])
        return np.any(every, axis=0)

    def during(
        self, states: NDArray[np.float64], published: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the rows (T, k, q) at the samples of a run."""
        order = self.last.shape[1]
        each = self.each if self.each.ndim == 2 else self.each[: len(published)]
        by_state, by_input = np.split(each, [order], axis=-1)
        acting = published[:, published.shape[1] - by_input.shape[-1] :]
        return by_state @ states[:-1, :order] + by_input @ acting

    def at(
        self, t: int, states: NDArray[np.float64], published: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the rows (k, q) at sample t."""
        order = self.last.shape[1]
        by_state, by_input = np.split(at_sample(self.each, t), [order], axis=-1)
        acting = published[len(published) - by_input.shape[-1] :]
        return product(by_state, states[:order]) + product(by_input, acting)

    def after(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the last rows (.., k, q) of some states."""
        return self.last @ states[..., : self.last.shape[1], :]


@dataclass(frozen=True, eq=False)
class LoopDynamics:
    """A plant in a loop with a controller, whose gains may vary.

    States are those of plant and controller, N = n + k. Published are yhat (p), then
    the inputs u (m) that the controller drives. The drives are, by name: ``reference``
    r, for the controller; ``noise`` (p), what is added to the outputs (measurement
    noise and gamma); ``disturbance`` w (n), added to x+; ``exogenous``, the inputs that
    the controller does not drive.
    """

    side: LinearSide | NonlinearSide
    law: Law

    @property
    def size(self) -> int:
        """Number N of states of plant and controller."""
        return self.side.order + self.law.order

    @property
    def outputs(self) -> int:
        """Number p of outputs."""
        return len(self.side.outputs)

    @cached_property
    def places(self) -> dict[str, slice]:
        """Places of the drives among the inputs of `at`."""
        places = {}
        start = 0
        for name, width in drive_sizes(self.side, self.law).items():
            places[name] = slice(start, start + width)
            start += width
        return places

    @property
    def varies(self) -> bool:
        """Return whether plant or controller vary from sample to sample."""
        return self.side.varies or self.law.varies

    def at(self, t: int) -> LinearSystem:
        """Return the loop at sample t as one system from all drives, by `places`."""
        if self.varies:
            return self._of_units(t)
        return self._settled

    @cached_property
    def _settled(self) -> LinearSystem:
        return self._of_units(0)

    def _of_units(self, t: int) -> LinearSystem:
        """Return the system of a sample, made of the answers to units."""
        self.law.check_linear()
        size = self.size
        units = np.eye(size + self.places["disturbance"].stop)
        drives = {}
        for name, place in self.places.items():
            drives[name] = units[None, size:][:, place]
        (_, published), (states, _) = self._turns(units[:size], drives, 1, None, t)
        A, B = np.hsplit(states, [size])
        C, D = np.hsplit(published, [size])
        return LinearSystem(A, B, C, D)

    @property
    def fixed(self) -> LinearSystem:
        """The system `at` any sample. `ValueError` where gains vary."""
        self.law.check_linear()
        if self.varies:
            raise ValueError(
                "the gains of this loop, or its plant, vary from sample to sample: it has no poles "
                "and no steady state; loop.system is a ct.nlsys with the time"
            )
        return self._settled

    @property
    def stable(self) -> bool:
        """Return whether all poles of `fixed` are inside the unit circle."""
        system = self.fixed
        return bool(np.isfinite(system.A).all()) and spectral_radius(system) < 1

    def sensed(
        self, t: int, rows: NDArray[np.float64], factors: Drives
    ) -> LinearSystem:
        """Return the map from what enters drives by factors to rows of (x, u), at t."""
        system = self.at(t)
        n = self.side.order
        unit = np.eye(system.input_count)
        rows = at_sample(rows, t)
        into = []
        for name, factor in factors.items():
            into.append(unit[:, self.places[name]] @ at_sample(factor, t))
        entering = np.hstack(into)
        answers = np.vstack([np.eye(n, self.size), system.C[self.outputs :]])
        D = rows[:, n:] @ system.D[self.outputs :] @ entering
        return LinearSystem(system.A, system.B @ entering, rows @ answers, D)

    def steady(self, rows: NDArray[np.float64], factors: Drives) -> LinearSystem:
        """Return the map `sensed` of a loop that must be stable."""
        if not self.stable:
            radius = spectral_radius(self.fixed)
            raise ValueError(
                f"the loop is not stable (spectral radius {radius:.6g}), and has no "
                "steady state; choose gains that stabilise it, or a finite horizon"
            )
        return self.sensed(0, rows, factors)

    def run(
        self,
        initial: NDArray[np.float64],
        drives: Drives,
        samples: int,
        limits: NDArray[np.float64] | None = None,
        first: int = 0,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Run side by side from sample ``first`` on.

        Parameters
        ----------
        initial : ndarray, shape (N, q or 1)
            It may leave out the controller's states, which are zero then.
        drives : dict of str to ndarray, shapes (T or more, size, q or 1)
            Zero where left out.
        samples : int
        limits : ndarray, shape (m, 2), optional
            Least and largest values of the inputs.
        first : int, optional

        Returns
        -------
        states, published : ndarray, shapes (T + 1, N, q), (T, p + m, q)
        """
        start = self._start(initial, drives)
        if self._is_small(start, limits):
            return self._together(start, drives, samples)
        states = np.empty((samples + 1, *start.shape))
        count = self.outputs + len(self.side.inputs)
        published = np.empty((samples, count, start.shape[1]))
        steps = self._steps(start, drives, samples, limits, first)
        for t, (state, told) in enumerate(steps):
            states[t] = state
            if t < samples:
                published[t] = told
        return states, published

    def _start(
        self, initial: NDArray[np.float64], drives: Drives
    ) -> NDArray[np.float64]:
        """Return the first states (N, q) of as many runs as there are."""
        widths = [drive.shape[2] for drive in drives.values()]
        start = np.zeros((self.size, max(initial.shape[1], *widths, 1)))
        start[: len(initial)] = initial
        return start

    def _is_small(
        self, start: NDArray[np.float64], limits: NDArray[np.float64] | None
    ) -> bool:
        """Return whether all samples are computed together."""
        if limits is not None or not has_form(self.side, self.law):
            return False
        return not self.varies and self.size**2 * start.shape[1] <= _DOUBLED

    def _steps(
        self,
        start: NDArray[np.float64],
        drives: Drives,
        samples: int,
        limits: NDArray[np.float64] | None = None,
        first: int = 0,
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Yield states (N, q) and what is published (p + m, q), sample by sample.

        The states after the last sample come last, with what was published before them.
        The next step may overwrite both.
        """
        if limits is not None or not has_form(self.side, self.law):
            yield from self._turns(start, drives, samples, limits, first)
            return
        sources: dict[str, Source] = {}
        shared = {}
        for name, drive in drives.items():
            if drive.shape[2] == 1:
                shared[name] = drive[:samples]
            else:
                sources[name] = drive.__getitem__
        taken = LinearRun(self.side, self.law, tuple(sources), shared, samples, first)
        yield from taken.steps(start, sources)

    def _together(
        self, start: NDArray[np.float64], drives: Drives, samples: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Run a few runs of a small loop that does not vary, all samples at a time."""
        system = self.fixed
        states = np.zeros((samples + 1, *start.shape))
        published = np.zeros((samples, len(system.C), start.shape[1]))
        states[0] = start
        for name, drive in drives.items():
            place = self.places[name]
            acting = drive[:samples]
            states[1:] += product(system.B[:, place], acting)
            published += product(system.D[:, place], acting)
        march(system.A, states)
        published += product(system.C, states[:-1])
        return states, published

    def _turns(
        self,
        state: NDArray[np.float64],
        drives: Drives,
        samples: int,
        limits: NDArray[np.float64] | None,
        first: int,
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Read the plant, let the controller decide, and move both on."""
        side = self.side
        law = self.law
        n = side.order
        p = self.outputs
        acting_on = {}
        for name, place in self.places.items():
            still = np.zeros((samples, place.stop - place.start, 1))
            acting_on[name] = drives.get(name, still)
        told = np.zeros((p + len(side.inputs), state.shape[1]))
        for k in range(samples):
            t = first + k
            physical, memory = state[:n], state[n:]
            free = acting_on["exogenous"][k]
            reference = acting_on["reference"][k]
            reading = side.read(t, physical, free) + acting_on["noise"][k]
            sensed = reading - side.outputs
            acting = law.decide(t, memory, sensed, reference) + side.inputs
            if limits is not None:
                acting = np.clip(acting, limits[:, :1], limits[:, 1:])
            told[p:] = acting
            acting = told[p:]
            told[:p] = reading + product(side.through, acting)
            yield state, told
            change = acting - side.inputs
            after = np.empty_like(state)
            after[n:] = law.follow(t, memory, sensed, change, reference)
            moved = side.move(t, physical, acting, free)
            after[:n] = moved + acting_on["disturbance"][k]
            state = after
        yield state, told

    def errors(
        self,
        rows: Rows,
        drives: Drives,
        samples: int,
        initial: NDArray[np.float64] = AT_REST,
    ) -> NDArray[np.float64]:
        """Return rows of (x, u) of runs side by side, (T + 1, k, q), from rest."""
        start = self._start(initial, drives)
        if self._is_small(start, None):
            states, published = self._together(start, drives, samples)
            during = rows.during(states, published)
            return np.concatenate([during, rows.after(states[-1:])])
        found = np.empty((samples + 1, rows.height, start.shape[1]))
        for t, (state, told) in enumerate(self._steps(start, drives, samples)):
            found[t] = rows.at(t, state, told) if t < samples else rows.after(state)
        return found

    def variances(
        self,
        rows: Rows,
        factors: Drives,
        samples: int,
        source: LinearSystem | None = None,
        start: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Return variances (T + 1, k) of rows that white noise causes.

        It enters drives by factors, after a ``source`` with the root ``start`` of the
        covariance of its first state. A root of the covariance of all states is carried
        on: where the plant's and the estimate's variances nearly cancel, their squares
        would lose what is left.
        """
        n = self.side.order
        order = 0 if source is None else source.order
        size = self.size + order
        spread = np.zeros((size, 0))
        if start is not None:
            spread = np.zeros((size, start.shape[1]))
            spread[:order] = start
        found = np.empty((samples + 1, rows.height))
        for t in range(samples):
            system = self.sensed(t, rows.each, factors)
            if source is not None:
                system = system.after(source)
            direct = np.sum(system.D**2, axis=1)
            found[t] = np.sum((system.C @ spread) ** 2, axis=1) + direct
            spread = np.hstack([system.A @ spread, system.B])
            if spread.shape[1] > _WIDEST * size:
                spread = narrowed(spread)
        found[-1] = np.sum((rows.last @ spread[order : order + n]) ** 2, axis=1)
        return found


def march(A: NDArray[np.float64], states: NDArray[np.float64]) -> None:
    """Add A states[t] to states[t + 1] in place, for one sample after the other.

    ``states`` (T, N, q) holds the initial state, then what the drives add at each
    sample. All samples march together: after a turn, each holds what the last
    2, 4, 8, ... samples brought.
    """
    samples, order, runs = states.shape
    powers = [A]
    with np.errstate(over="ignore", invalid="ignore"):
        while 2 ** len(powers) < samples:
            powers.append(powers[-1] @ powers[-1])
    if np.isfinite(powers[-1]).all():
        for turn, power in enumerate(powers):
            step = 2**turn
            states[step:] += power @ states[:-step]
        return
    moved = np.empty((order, runs))
    for t in range(samples - 1):
        states[t + 1] += product(A, states[t], out=moved)
