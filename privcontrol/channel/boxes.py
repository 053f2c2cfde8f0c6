"""Guarantees over whole intervals of plants: entries of A and C known to within a half-width each.

The response to a hidden move is expanded to first order about the middle of a box; the norm that privacy is in is
convex, so that the linear part is worst at a corner, and the rest is bounded by matrices of absolute values. Boxes are
halved until upper and lower bounds meet. Where they do not, nothing is certified.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import control as ct
import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core._linalg import (
    EPS,
    positive_integer,
    positive_number,
    real_array,
    round_up,
)
from ..core._random import Seed, generator
from ..core.adjacency import Adjacency
from ..core.errors import UncertifiableError
from ..trajectory.adjacency import StateAdjacency
from ..trajectory.manifold import free_outputs, trajectory_manifold
from ..trajectory.plant import Plant
from ..trajectory.powers import FreeResponse
from .parts import Structured, White

if TYPE_CHECKING:
    from .output_noise import OutputNoise

_MOST_ENTRIES = 8
_MOST_BOXES = 2000
_MOST_WIDE_BOXES = 40  # with more uncertain entries than corners can be gone through
_SHARP = 1e-3  # relative distance of the two bounds at which no box is halved any more


@dataclass(frozen=True)
class PlantBox:
    """All plants whose entries of A and C lie within given half-widths of a nominal plant's.

    Parameters
    ----------
    sys : control.StateSpace
        The middle.
    A, C : array_like, shapes (n, n) and (p, n), optional
        Half-widths, not negative; zero by default.

    Raises
    ------
    control.ControlDimension
        If a half-width has another shape.
    ValueError
        If one is negative, or none is positive.

    Examples
    --------
    >>> import privcontrol as pc
    >>> box = pc.PlantBox(pc.plants.vehicle(), A=[[0.001, 0], [0, 0]])
    >>> [float(plant.A[0, 0]) for plant in box.corners()]
    [0.999, 1.001]
    """

    sys: Any
    A: Any = None
    C: Any = None

    def __post_init__(self) -> None:
        plant = Plant.of(self.sys)
        object.__setattr__(self, "sys", plant)
        for name in "AC":
            given, middle = getattr(self, name), getattr(plant, name)
            widths = np.zeros_like(middle) if given is None else real_array(given, name)
            if widths.shape != middle.shape:
                raise ct.ControlDimension(
                    f"{name}: expected half-widths of shape {middle.shape}, got {widths.shape}"
                )
            if (widths < 0).any():
                raise ValueError(
                    f"{name}: expected half-widths >= 0, got a negative one"
                )
            object.__setattr__(self, name, widths)
        if not self.entries:
            raise ValueError("A, C: expected at least one uncertain entry, got none")

    @classmethod
    def around(
        cls, sys: Any, *, relative: float | None = None, absolute: float | None = None
    ) -> PlantBox:
        """The box in which every nonzero entry of A and C is known to within an error.

        Parameters
        ----------
        sys : control.StateSpace
            The middle.
        relative : float, optional
            Half-width of an entry, as a share of its size.
        absolute : float, optional
            Half-width in the entry's own unit; of both the larger one is taken.

        Raises
        ------
        ValueError
            If neither is given, or one is negative.

        Examples
        --------
        >>> import privcontrol as pc
        >>> box = pc.PlantBox.around(pc.plants.vehicle(), relative=1e-3)
        >>> box.A
        array([[0.001 , 0.0001],
               [0.    , 0.001 ]])
        """
        if relative is None and absolute is None:
            raise ValueError("relative, absolute: expected one of them, got neither")
        plant = Plant.of(sys)
        share = 0.0 if relative is None else positive_number(relative, "relative")
        size = 0.0 if absolute is None else positive_number(absolute, "absolute")
        widths = []
        for matrix in (plant.A, plant.C):
            each = np.maximum(share * np.abs(matrix), size)
            widths.append(np.where(matrix != 0, each, 0.0))
        return cls(sys, *widths)

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that tell boxes apart, by the plant in the middle and the half-widths."""
        digest = hashlib.sha256(self.sys.fingerprint.encode())
        for widths in (self.A, self.C):
            digest.update(np.ascontiguousarray(widths + 0.0).tobytes())
        return digest.hexdigest()[:12]

    @property
    def entries(self) -> list[tuple[str, int, int]]:
        """(matrix, row, column) of each uncertain entry."""
        return [
            (name, int(i), int(j))
            for name in "AC"
            for i, j in zip(*np.nonzero(getattr(self, name)))
        ]

    @property
    def widths(self) -> NDArray:
        """Half-widths of the uncertain entries."""
        return np.array([getattr(self, name)[i, j] for name, i, j in self.entries])

    def at(self, offsets: NDArray) -> ct.StateSpace:
        """The plant (`StateSpace`) at given offsets of the uncertain entries from the middle."""
        (A, C), plant = self.matrices(offsets), self.sys
        labels = dict(
            states=list(plant.states),
            inputs=list(plant.inputs),
            outputs=list(plant.outputs),
        )
        return ct.ss(A, plant.B, C, plant.D, plant.dt, name=plant.name, **labels)

    def corners(self) -> list[ct.StateSpace]:
        """The plants at the corners, for `design_output_noise(models=box.corners())`.

        Raises
        ------
        ValueError
            If more than 8 entries are uncertain: there would be too many corners.
        """
        if len(self.entries) > _MOST_ENTRIES:
            raise ValueError(
                f"corners: expected at most {_MOST_ENTRIES} uncertain entries, "
                f"got {len(self.entries)}"
            )
        return [
            self.at(np.array(signs) * self.widths)
            for signs in product((-1, 1), repeat=len(self.entries))
        ]

    def sampled(self, count: int, rng: Seed = None) -> list[ct.StateSpace]:
        """Up to 256 corners and ``count`` plants drawn at random.

        A guarantee for them is SAMPLED: it covers these plants only.

        Parameters
        ----------
        count : int
        rng : None, int, SeedSequence or Generator, optional
        """
        draws = generator(rng).uniform(
            -1, 1, (positive_integer(count, "count"), len(self.widths))
        )
        corners = self.corners() if len(self.entries) <= _MOST_ENTRIES else []
        return [*corners, *(self.at(draw * self.widths) for draw in draws)]

    def matrices(self, offsets: NDArray) -> tuple[NDArray, NDArray]:
        """A and C at given offsets."""
        found = {"A": self.sys.A.copy(), "C": self.sys.C.copy()}
        for (name, i, j), offset in zip(self.entries, offsets):
            found[name][i, j] += offset
        return found["A"], found["C"]


def largest_shift(noise: OutputNoise, box: PlantBox, adjacency: Adjacency) -> float:
    """A certified upper bound of y for every plant of a box.

    With up to 8 uncertain entries it is at most 0.1 % above one that some plant attains.
    With more the corners are too many, and the linear part is bounded by the sum of the
    slopes' norms.

    Raises
    ------
    ValueError
        If the noise has no white floor, or parts that hide disturbances, or the adjacency is not a `StateAdjacency`.
    UncertifiableError
        If the bounds do not meet within 2000 boxes, or the bound is not finite.
    """
    if not noise.part(White) or not noise.consists_of(Structured, White):
        raise ValueError(
            "models: a PlantBox needs noise with a white floor (floor=...), and no part for disturbances"
        )
    if not isinstance(adjacency, StateAdjacency):
        raise ValueError(
            "models: a PlantBox is bounded for a StateAdjacency; pass corners and a list of plants otherwise"
        )
    judge = _Whitened.of(noise)
    lower = 0.0
    boxes: list[tuple] = []
    few = len(box.entries) <= _MOST_ENTRIES
    moves = adjacency.moves(trajectory_manifold(box.sys, noise.horizon))
    waiting = [(np.zeros(len(box.entries)), box.widths)]
    for count in range(0, _MOST_BOXES if few else _MOST_WIDE_BOXES, 2):
        for i, (middle, widths) in enumerate(waiting):
            attained, bound = _bounds(box, moves, judge, middle, widths)
            lower = max(lower, attained)
            heapq.heappush(boxes, (-bound, count + i, middle, widths))
        if -boxes[0][0] <= lower * (1 + _SHARP):
            return float(round_up(-boxes[0][0]))
        _, _, middle, widths = heapq.heappop(boxes)
        step = np.where(
            np.arange(len(widths)) == int(np.argmax(widths / box.widths)),
            widths / 2,
            0.0,
        )
        waiting = [(middle - step, widths - step), (middle + step, widths - step)]
    if not few and np.isfinite(boxes[0][0]):
        return float(round_up(-boxes[0][0]))
    raise UncertifiableError(
        f"the certified bound over the box, {-boxes[0][0]:.3g}, does not come down to what some plant in it attains, "
        f"{lower:.3g}: narrow the half-widths or the uncertain entries, or pass box.sampled(count), whose guarantee covers "
        "the sampled plants only"
    )


@dataclass(frozen=True)
class _Whitened:
    """The norm of outputs in which privacy is measured: y = ||apply(s)||, and y <= ||s / floor|| for every s."""

    floor: np.ndarray
    directions: np.ndarray
    shrink: np.ndarray

    @classmethod
    def of(cls, noise: Any) -> _Whitened:
        floor = np.tile(noise.scale, noise.horizon)
        if noise.factor is None:
            return cls(floor, np.empty((len(floor), 0)), np.empty(0))
        responses = free_outputs(noise.plant, noise.factor, noise.horizon)
        U, s, _ = scipy.linalg.svd(responses / floor[:, None], full_matrices=False)
        return cls(floor, U, 1 / np.sqrt(1 + s**2))

    def apply(self, columns: NDArray) -> NDArray:
        """Columns whose norms are y, of outputs (T p, M)."""
        white = columns / self.floor[:, None]
        inside = self.directions.T @ white
        return np.vstack(
            [white - self.directions @ inside, self.shrink[:, None] * inside]
        )

    def rounding(self, columns: NDArray) -> NDArray:
        """What floating point may add to those norms (M,)."""
        size = np.linalg.norm(columns / self.floor[:, None], axis=0)
        return (
            32 * EPS * (self.directions.shape[1] + 8) * np.sqrt(len(self.floor)) * size
        )


def _bounds(
    box: PlantBox, moves: Any, judge: _Whitened, middle: NDArray, widths: NDArray
) -> tuple[float, float]:
    """What the middle of a box attains, and an upper bound of y for all of it."""
    expansion = _Expansion.of(box, moves, middle, len(judge.floor) // len(box.sys.C))
    widths = widths + 4 * EPS * (
        np.abs(middle) + np.abs(_nominal(box))
    )  # the middle is rounded
    base, *slopes = (
        judge.apply(expansion.windows(part))
        for part in (expansion.base, *expansion.slopes)
    )
    rest = np.linalg.norm(
        expansion.windows(expansion.remainder(widths)) / judge.floor[:, None], axis=0
    )
    rest += sum(
        size * judge.rounding(expansion.windows(part))
        for size, part in zip((1.0, *widths), (expansion.base, *expansion.slopes))
    )
    worst = _worst_of_linear_part(base, slopes, widths)
    return float(np.linalg.norm(base, axis=0).max()), float(
        (worst + rest).max() * (1 + 1e-12)
    )


def _worst_of_linear_part(
    base: NDArray, slopes: Sequence[NDArray], widths: NDArray
) -> NDArray:
    """Norms (M,) that base + sum of offsets times slopes stays below within the widths."""
    if len(slopes) > _MOST_ENTRIES:
        worst = np.linalg.norm(base, axis=0)
        for size, slope in zip(widths, slopes):
            worst = worst + size * np.linalg.norm(slope, axis=0)
        return worst
    worst = np.zeros(base.shape[1])
    for signs in product((-1, 1), repeat=len(slopes)):
        corner = base.copy()
        for sign, size, slope in zip(signs, widths, slopes):
            corner += sign * size * slope
        worst = np.maximum(worst, np.linalg.norm(corner, axis=0))
    return worst


def _nominal(box: PlantBox) -> NDArray:
    return np.array([getattr(box.sys, name)[i, j] for name, i, j in box.entries])


@dataclass(frozen=True)
class _Expansion:
    """C A^t V for t = -back .. forward about a point of a box: values and slopes (times, p, q), the scaled moves V."""

    box: PlantBox
    matrices: tuple
    horizon: int
    back: int
    times: np.ndarray
    axes: np.ndarray
    base: np.ndarray
    slopes: tuple

    @classmethod
    def of(cls, box: PlantBox, moves: Any, middle: NDArray, horizon: int) -> _Expansion:
        A, C = box.matrices(middle)
        n, axes, times = len(A), moves.axes * moves.radii, moves.times
        back, forward = int(times.max()), horizon - 1 - int(times.min())
        inner = [entry for entry in box.entries if entry[0] == "A"]
        chain = np.kron(np.eye(1 + len(inner)), A)
        for k, (_, i, j) in enumerate(inner):
            chain[n * (k + 1) + i, j] = 1.0
        start = np.vstack([axes, np.zeros((n * len(inner), axes.shape[1]))])
        readout = np.vstack([np.kron(np.eye(1 + len(inner)), C), np.eye(n, len(chain))])
        *outputs, states = np.split(
            FreeResponse(chain, start, back, forward).outputs(readout),
            len(C) * np.arange(1, 2 + len(inner)),
            axis=1,
        )
        base, *slopes = outputs
        for _, i, j in box.entries[len(inner) :]:
            slope = np.zeros_like(base)
            slope[:, i] = states[:, j]
            slopes.append(slope)
        return cls(box, (A, C), horizon, back, times, axes, base, tuple(slopes))

    def windows(self, long: NDArray) -> NDArray:
        """Outputs (T p, M) of every move, from a long response."""
        pages = [
            long[self.back - j : self.back - j + self.horizon].reshape(
                -1, long.shape[2]
            )
            for j in self.times
        ]
        return np.hstack(pages)

    def remainder(self, widths: NDArray) -> NDArray:
        """Entrywise bounds of what the first order leaves out, for offsets within ``widths``."""
        A, C = self.matrices
        spread = {"A": np.zeros_like(A), "C": np.zeros_like(C)}
        for (name, i, j), width in zip(self.box.entries, widths):
            spread[name][i, j] = width
        forward = len(self.base) - self.back
        future = _majorants(A, C, spread, self.axes, forward, inverse=False)
        if not self.back:
            return future
        past = _majorants(A, C, spread, self.axes, self.back + 1, inverse=True)
        return np.concatenate([past[:0:-1], future])


def _majorants(
    A: NDArray,
    C: NDArray,
    spread: Mapping[str, NDArray],
    axes: NDArray,
    count: int,
    *,
    inverse: bool,
) -> NDArray:
    """Bounds (count, p, q) of the second and higher orders of C A^(+-t) V, t = 0 .. count - 1, in Schur coordinates.

    With |J_0| <= a, |J_1| <= b, |J_2| <= c for the step's value, first order and rest, the state's parts obey
    P' = a P, L' = a L + b P, R' = a R + b (L + R) + c (P + L + R), entry by entry; nothing is subtracted.
    """
    n = len(A)
    _, scale = scipy.linalg.matrix_balance(A, permute=False, separate=True)
    balance = scale[0]
    triangle, basis = scipy.linalg.schur(
        A * balance / balance[:, None], output="complex"
    )
    slack = 1e-13 * n * np.linalg.norm(triangle)
    into = np.abs(basis.conj().T) + 1e-13 * n
    back = np.abs(basis) + 1e-13 * n
    H = into @ (spread["A"] * balance / balance[:, None]) @ back
    a, b, c = np.abs(triangle) + slack, H, np.zeros((n, n))
    if inverse:
        with np.errstate(all="ignore"):
            solved = np.abs(scipy.linalg.solve_triangular(triangle, np.eye(n)))
            a = (
                solved @ (np.eye(n) + 1e-12 * np.abs(triangle) @ solved)
                + solved @ (slack * np.ones((n, n))) @ solved * 2
            )
        ratio = a @ H
        if not np.linalg.norm(ratio, 2) < 0.5:
            return np.full((count, len(C), axes.shape[1]), np.inf)
        b, c = ratio @ a, ratio @ ratio @ np.abs(np.linalg.inv(np.eye(n) - ratio)) @ a
    seen, moved = np.abs(C * balance) @ back, (spread["C"] * balance) @ back
    P = into @ (np.abs(axes) / balance[:, None])
    L, R, out = (
        np.zeros_like(P),
        np.zeros_like(P),
        np.empty((count, len(C), axes.shape[1])),
    )
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(count):
            out[t] = seen @ R + moved @ (L + R)
            P, L, R = a @ P, a @ L + b @ P, a @ R + b @ (L + R) + c @ (P + L + R)
    return np.where(np.isfinite(out), out, np.inf) * (1 + 1e-9)
