"""Runs of a linear plant and a linear controller, side by side.

With the innovation i = s - C_z z of a controller of states z,

    x+ = A x + B u + w,    z+ = A_z z + B_z u + advance i,

where u and i are a few rows of (x, z) and of what drives the loop. A small loop is one
matrix for each sample. In a large one A and A_z are multiplied block by block, and what u
and i add has low rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from ..numerics.linalg import product
from ..numerics.thresholds import BLOCK
from .controller import Form, Law
from .side import LinearSide, NonlinearSide

#: Returns the signals (size, k) of the first k runs at a sample. The others have none.
Source = Callable[[int], NDArray[np.float64]]
#: Takes a sample, and states and drives there, to what is published and the next states.
Step = Callable[[int, NDArray[np.float64], NDArray[np.float64]], object]

#: Speed: multiplications of a sample that pay for the calls of several products.
_SAVED = 100_000
#: Speed: states up to which neighbouring blocks are multiplied as one.
_BLOCK = 32


def drive_sizes(side: LinearSide | NonlinearSide, law: Law) -> dict[str, int]:
    """Return the numbers of signals of all that drives a loop, by name."""
    return {
        "reference": len(law.references),
        "exogenous": len(side.free),
        "noise": len(side.outputs),
        "disturbance": side.order,
    }


def has_form(side: LinearSide | NonlinearSide, law: Law) -> TypeGuard[LinearSide]:
    """Return whether a `LinearRun` takes a plant and a controller."""
    return isinstance(side, LinearSide) and not side.varies and law.has_form


@dataclass(frozen=True, eq=False)
class Moves:
    """The matrices of a loop at some samples, from N states and d signals that drive it.

    Attributes
    ----------
    own : ndarray, shape (N, N)
        What the states become by themselves.
    direct : ndarray, shape (N, d)
        What the drives add to the next states, past u and the innovation.
    onto : ndarray, shape (T or 1, p + m + p, N + d)
        From states and drives to yhat, u and the innovation.
    into : ndarray, shape (T or 1, N, m + p)
        From u and the innovation to the next states.
    width : int
        Number of states and of those drives that differ between runs, which come first.
    """

    own: NDArray[np.float64]
    direct: NDArray[np.float64]
    onto: NDArray[np.float64]
    into: NDArray[np.float64]
    width: int

    @classmethod
    def of(
        cls,
        side: LinearSide,
        form: Form,
        entering: Mapping[str, int],
        shared: Mapping[str, int],
    ) -> Moves:
        """Return the matrices for drives by name, with their numbers of signals."""
        plant = side.plant.at(0)
        n = side.order
        size = n + len(form.A)
        drives = [*entering.items(), *shared.items()]
        width = size + sum(entering.values())
        total = width + sum(shared.values())
        own = np.zeros((size, size))
        own[:n, :n] = plant.A
        own[n:, n:] = form.A
        direct = np.zeros((size, total))
        sensed = np.zeros((1, len(plant.C), total))
        sensed[..., :n] = plant.C
        asked = np.zeros((len(form.G), form.G.shape[1], total))
        asked[..., n:size] = form.G
        start = size
        for name, count in drives:
            place = slice(start, start + count)
            start = place.stop
            if name == "noise":
                sensed[..., place] = np.eye(count)
            elif name == "exogenous":
                sensed[..., place] = plant.D[:, side.free]
                direct[:n, place] = plant.B[:, side.free]
            elif name == "disturbance":
                direct[:n, place] = np.eye(count)
            else:
                direct[n:, place] = form.F
                asked[..., place] = form.H
        innovation = sensed.copy()
        innovation[..., n:size] -= form.C
        acting = asked + form.D @ innovation
        yhat = sensed + side.through @ acting
        onto = _joined(yhat, acting, innovation, axis=1)
        by_input = np.vstack([side.B, form.B])[None]
        by_innovation = np.pad(form.advance, ((0, 0), (n, 0), (0, 0)))
        into = _joined(by_input, by_innovation, axis=2)
        return cls(own, direct[:, size:], onto, into, width)

    @property
    def told(self) -> int:
        """Number p + m of signals that are published."""
        rows = self.onto.shape[1]
        outputs = rows - self.into.shape[2]
        return rows - outputs

    @cached_property
    def whole(self) -> NDArray[np.float64]:
        """From states and drives that differ to yhat, u and the next states."""
        size = len(self.own)
        heard = self.onto[..., : self.width]
        after = self.into @ heard[:, -self.into.shape[2] :]
        after[..., :size] += self.own
        after[..., size:] += self.direct[:, : self.width - size]
        return _joined(heard[:, : self.told], after, axis=1)

    def answers(self, shared: NDArray[np.float64]) -> NDArray[np.float64]:
        """What yhat, u and the next states owe to drives (T, k, 1) that runs share."""
        first = self.width
        heard = self.onto[..., first:] @ shared
        after = self.into @ heard[:, -self.into.shape[2] :]
        after = after + self.direct[:, first - len(self.own) :] @ shared
        return _joined(heard[:, : self.told], after, axis=1)

    def step(self, samples: int, runs: int) -> Step:
        """Return what takes states and drives that differ to the next sample.

        Blocks are multiplied apart where that saves time, and no such drive adds to the
        next states past u and the innovation.
        """
        size = len(self.own)
        width = self.width
        blocks = diagonal_blocks(self.own)
        apart = self.onto.shape[1] * width + self.into.shape[2] * size
        apart += sum((block.stop - block.start) ** 2 for block in blocks)
        saved = (self.told + size) * width - apart
        if saved * runs < _SAVED or self.direct[:, : width - size].any():
            whole = _each(self.whole, samples)
            return lambda t, now, after: product(whole[t], now, out=after)
        told = self.told
        entering = self.into.shape[2]
        onto = _each(self.onto[..., :width].copy(), samples)
        into = _each(self.into, samples)
        parts = _stacked(self.own, blocks)
        heard = np.empty((self.onto.shape[1], runs))
        added = np.empty((size, runs))

        def step(t: int, now: NDArray[np.float64], after: NDArray[np.float64]) -> None:
            product(onto[t], now, out=heard)
            after[:told] = heard[:told]
            states = after[told:]
            for rows, part in parts:
                shape = (len(part), -1, runs)
                product(part, now[rows].reshape(shape), out=states[rows].reshape(shape))
            states += product(into[t], heard[-entering:], out=added)

        return step


@dataclass(frozen=True, eq=False)
class LinearRun:
    """The samples of a run, and what drives them.

    Attributes
    ----------
    side, law : LinearSide, Law
        What `has_form`.
    entering : tuple of str
        Drives that differ between the runs that are side by side.
    shared : dict of str to ndarray, shapes (T, size, 1)
        Drives that they have in common.
    samples, first : int
        Number of samples T, and the first one.
    """

    side: LinearSide
    law: Law
    entering: tuple[str, ...]
    shared: Mapping[str, NDArray[np.float64]]
    samples: int
    first: int = 0

    @cached_property
    def _sizes(self) -> dict[str, int]:
        """Signals of the drives that differ, but for disturbances, which are added."""
        sizes = drive_sizes(self.side, self.law)
        return {name: sizes[name] for name in self.entering if name != "disturbance"}

    @cached_property
    def _common(self) -> dict[str, NDArray[np.float64]]:
        """Drives that runs have in common, and that are not zero."""
        return {name: drive for name, drive in self.shared.items() if drive.any()}

    @cached_property
    def _only(self) -> Moves:
        return self._moves(range(self.samples))

    def _moves(self, part: range) -> Moves:
        """Return the matrices at some samples."""
        form = self.law.form(slice(self.first + part.start, self.first + part.stop))
        common = {name: drive.shape[1] for name, drive in self._common.items()}
        return Moves.of(self.side, form, self._sizes, common)

    def _parts(self) -> Iterator[tuple[range, Moves]]:
        """Yield stretches of samples with their matrices, which are kept if they are few."""
        width = self.side.order + self.law.order + sum(self._sizes.values())
        length = max(1, BLOCK // width**2)
        if self.samples <= length:
            yield range(self.samples), self._only
            return
        for start in range(0, self.samples, length):
            part = range(start, min(start + length, self.samples))
            yield part, self._moves(part)

    def steps(
        self, start: NDArray[np.float64], sources: Mapping[str, Source]
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Yield states (N, q) and what is published (p + m, q), sample by sample.

        The states after the last sample come last, with what was published before them.
        The next step overwrites both. ``sources`` tell the drives that differ, by name,
        and are asked once for every sample, in order.
        """
        size, runs = start.shape
        n = self.side.order
        told = len(self.side.outputs) + len(self.side.controls)
        heights = list(self._sizes.values())
        now, after = (_Sample(told, n, size, heights, runs) for _ in range(2))
        now.states[...] = start
        push = sources.get("disturbance")
        others = [sources[name] for name in self._sizes]
        for part, moves in self._parts():
            step = moves.step(len(part), runs)
            common = [drive[part.start : part.stop] for drive in self._common.values()]
            if common:
                answers = moves.answers(np.concatenate(common, axis=1))
            for k, t in enumerate(part):
                for source, place in zip(others, now.drives, strict=True):
                    drive = source(t)
                    place[:, : drive.shape[1]] = drive
                step(k, now.entering, after.answer)
                if common:
                    after.answer += answers[k]
                if push is not None:
                    drive = push(t)
                    after.plant[:, : drive.shape[1]] += drive
                yield now.states, after.told
                now, after = after, now
        yield now.states, after.told


class _Sample:
    """What is published, the states and the drives of a sample, below each other."""

    def __init__(
        self, told: int, order: int, size: int, drives: list[int], runs: int
    ) -> None:
        end = told + size
        rows = np.zeros((end + sum(drives), runs))
        self.told = rows[:told]
        self.answer = rows[:end]
        self.entering = rows[told:]
        self.states = rows[told:end]
        self.plant = rows[told : told + order]
        ends = accumulate([end, *drives])
        self.drives = [rows[start:stop] for start, stop in pairwise(ends)]


def diagonal_blocks(matrix: NDArray[np.float64]) -> list[slice]:
    """Return the diagonal blocks of a square matrix outside which it is zero.

    Neighbours that are small together count as one.
    """
    filled = (matrix != 0) | (matrix != 0).T
    size = len(matrix)
    np.fill_diagonal(filled, True)
    last = size - 1 - np.argmax(filled[:, ::-1], axis=1)
    reached = np.maximum.accumulate(last)
    blocks: list[slice] = []
    start = 0
    for stop in np.flatnonzero(reached == np.arange(size)) + 1:
        if blocks and stop - blocks[-1].start <= _BLOCK:
            start = blocks.pop().start
        blocks.append(slice(start, int(stop)))
        start = int(stop)
    return blocks


def _stacked(
    matrix: NDArray[np.float64], blocks: list[slice]
) -> list[tuple[slice, NDArray[np.float64]]]:
    """Return stacks (k, n, n) of neighbouring blocks of one size, and their rows."""
    found: list[tuple[slice, NDArray[np.float64]]] = []
    for block in blocks:
        part = matrix[block, block][None]
        if found and found[-1][1].shape[1:] == part.shape[1:]:
            rows, others = found.pop()
            block = slice(rows.start, block.stop)
            part = np.concatenate([others, part])
        found.append((block, part.copy()))
    return found


def _each(matrices: NDArray[np.float64], samples: int) -> NDArray[np.float64]:
    """Return a matrix for each sample, from as many or one."""
    return np.broadcast_to(matrices, (samples, *matrices.shape[1:]))


def _joined(*stacks: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Return stacks (T or 1, .., ..) beside or below each other."""
    samples = max(map(len, stacks))
    return np.concatenate([_each(stack, samples) for stack in stacks], axis=axis)
