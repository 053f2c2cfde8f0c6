"""Guarantees over whole intervals of plants, whose entries are known to within half-widths.

The response to a hidden move is expanded to first order about the middle of a box. The norm
in which privacy is measured is convex, so that the linear part is worst at a corner, and
the rest is bounded by matrices of absolute values. Boxes are halved until upper and lower
bounds meet. Where they do not, nothing is certified.

A change of a disturbance is a free response as well: that of the plant with a queue of the
values to come, in which entries of B and D are entries of the dynamics and the readout.
"""

import hashlib
import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import control as ct
import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core._balls import midpoints, working_bits
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
from ..trajectory.disturbance import DisturbanceAdjacency, disturbances
from ..trajectory.manifold import trajectory_manifold
from ..trajectory.plant import Plant
from ..trajectory.powers import FreeResponse, delayed_inputs, delayed_outputs
from .polytope import (
    PlantPolytope,
    checked_clauses,
    checked_miss,
    exception_of,
    is_alike,
    statespace_of,
)

if TYPE_CHECKING:
    from .output_noise import OutputNoise

_MOST_ENTRIES = 8
_MOST_BOXES = 600
_MOST_WIDE_BOXES = 40  # with more uncertain entries than corners can be gone through
#: Relative distance of the two bounds at which no box is halved any more, and the same
#: after many halvings.
_SHARP = 1e-3
_BLUNT = 1e-2
_MANY_BOXES = 400
#: Uncertain entries up to which a box is the polytope of its corners.
_MOST_OF_POLYTOPE = 5

Entry = tuple[str, int, int]


@dataclass(frozen=True)
class PlantBox:
    """All plants whose matrices lie within given half-widths of a nominal plant's.

    The plant is one of them for the whole run. One that varies is a `PlantPolytope`.

    Parameters
    ----------
    sys : control.StateSpace
        The middle, with n states, m inputs and p outputs.
    A, C, B, D : array_like, shapes (n, n), (p, n), (n, m) and (p, m), optional
        Half-widths, not negative; zero by default. B and D matter if a disturbance is
        secret.
    assumptions : sequence of str, optional
        What must hold for the plant to be in the box. Every guarantee for it says so.
    miss : float, optional
        Probability that the plant is not in the box. Every guarantee adds it to delta.

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
    B: Any = None
    D: Any = None
    _: KW_ONLY
    assumptions: tuple[str, ...] = ()
    miss: float = 0.0

    def __post_init__(self) -> None:
        plant = Plant.of(self.sys)
        object.__setattr__(self, "sys", plant)
        object.__setattr__(self, "assumptions", checked_clauses(self.assumptions))
        object.__setattr__(self, "miss", checked_miss(self.miss))
        for name in "ABCD":
            given = getattr(self, name)
            middle = getattr(plant, name)
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
            raise ValueError(
                "A, B, C, D: expected at least one uncertain entry, got none"
            )

    @classmethod
    def around(
        cls, sys: Any, *, relative: float | None = None, absolute: float | None = None
    ) -> "PlantBox":
        """The box in which every nonzero entry of A, B, C and D is known to within an error.

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
        widths: dict[str, Any] = {}
        for name in "ABCD":
            matrix = getattr(plant, name)
            each = np.maximum(share * np.abs(matrix), size)
            widths[name] = np.where(matrix != 0, each, 0.0)
        return cls(sys, **widths)

    @classmethod
    def containing(cls, polytope: PlantPolytope) -> "PlantBox":
        """The smallest box that contains a polytope, its half-widths rounded up."""
        widths: dict[str, Any] = {}
        middles: dict[str, Any] = {}
        for name in "ABCD":
            every = np.array([getattr(plant, name) for plant in polytope.vertices])
            low, high = every.min(axis=0), every.max(axis=0)
            middle = (low + high) / 2
            width = np.maximum(high - middle, middle - low)
            middles[name] = real_array(middle, name)
            widths[name] = np.where(width > 0, round_up(width), 0.0)
        first = polytope.vertices[0]
        middle_plant = replace(first, **middles)
        return cls(
            middle_plant,
            **widths,
            assumptions=polytope.assumptions,
            miss=polytope.miss,
        )

    @property
    def nominal(self) -> Plant:
        """The plant in the middle."""
        return self.sys

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that tell boxes apart.

        By the plant in the middle, the half-widths, and the assumptions.
        """
        digest = hashlib.sha256(self.sys.fingerprint.encode())
        for widths in (self.A, self.C, self.B, self.D):
            digest.update(np.ascontiguousarray(widths + 0.0).tobytes())
        digest.update(repr(self.assumptions).encode())
        if self.miss:
            digest.update(repr(self.miss).encode())
        return digest.hexdigest()[:12]

    @property
    def clause(self) -> str:
        """What a guarantee for the box takes for granted of the plant."""
        names = [name for name in "ABCD" if getattr(self, name).any() or name in "AC"]
        matrices = f"{', '.join(names[:-1])} and {names[-1]}"
        exception = exception_of(self.miss)
        return f"{matrices} within a box of {len(self.entries)} intervals{exception}"

    @property
    def entries(self) -> list[Entry]:
        """(matrix, row, column) of each uncertain entry."""
        return [
            (name, int(i), int(j))
            for name in "ACBD"
            for i, j in zip(*np.nonzero(getattr(self, name)))
        ]

    def entries_for(self, adjacency: Adjacency) -> list[Entry]:
        """The uncertain entries on which the response to a secret depends."""
        secret = {
            self.sys.inputs.index(name)
            for part in disturbances(adjacency)
            for name in part.signals(self.sys)
            if name in self.sys.inputs
        }
        return [
            (name, i, j) for name, i, j in self.entries if name in "AC" or j in secret
        ]

    @property
    def widths(self) -> NDArray:
        """Half-widths of the uncertain entries."""
        return np.array([getattr(self, name)[i, j] for name, i, j in self.entries])

    def at(self, offsets: NDArray) -> ct.StateSpace:
        """The plant (`StateSpace`) at given offsets of the uncertain entries from the middle."""
        return statespace_of(self._moved(self.entries, offsets))

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

    def contains(self, sys: Any) -> bool:
        """Whether a plant is in the box.

        Parameters
        ----------
        sys : control.StateSpace

        Returns
        -------
        bool
            False also if names or sampling time differ.
        """
        plant = Plant.of(sys)
        middle = self.sys
        if not is_alike(middle, plant):
            return False
        return all(
            bool(
                (
                    np.abs(getattr(plant, name) - getattr(middle, name))
                    <= getattr(self, name)
                ).all()
            )
            for name in "ABCD"
        )

    def corners_for(self, adjacency: Adjacency, most: int) -> tuple[Plant, ...]:
        """Corners in the entries that matter to a secret.

        Parameters
        ----------
        adjacency : Adjacency
            The secret.
        most : int
            Number of corners where there are too many; always the same ones.
        """
        entries = self.entries_for(adjacency)
        widths = np.array([getattr(self, name)[i, j] for name, i, j in entries])
        count = len(entries)
        if count <= _MOST_OF_POLYTOPE:
            signs = np.array(list(product((-1.0, 1.0), repeat=count)))
        else:
            signs = generator(0).choice([-1.0, 1.0], size=(most, count))
        return tuple(self._moved(entries, sign * widths) for sign in signs)

    def plants(self, adjacency: Adjacency) -> tuple[Plant, ...]:
        """Vertices of a polytope that contains all that the box knows of a secret.

        They are the corners of the entries that matter to it. Of more than five such
        entries they are those of the cross-polytope around the box, two for each, which is
        as many times wider as there are entries.
        """
        entries = self.entries_for(adjacency)
        widths = np.array([getattr(self, name)[i, j] for name, i, j in entries])
        # the matrices of a vertex are rounded
        sizes = np.array([abs(getattr(self.sys, name)[i, j]) for name, i, j in entries])
        widths = widths + EPS * (sizes + len(entries) * widths)
        count = len(entries)
        if count == 0:
            return (self.sys,)
        if count <= _MOST_OF_POLYTOPE:
            signs = np.array(list(product((-1.0, 1.0), repeat=count)))
        else:
            signs = count * np.vstack([np.eye(count), -np.eye(count)])
        return tuple(self._moved(entries, sign * widths) for sign in signs)

    def _moved(self, entries: Sequence[Entry], offsets: NDArray) -> Plant:
        """The plant whose entries are moved by offsets."""
        matrices = {name: getattr(self.sys, name).copy() for name in "ABCD"}
        for (name, i, j), offset in zip(entries, offsets):
            matrices[name][i, j] += offset
        fixed = {name: real_array(matrix, name) for name, matrix in matrices.items()}
        return replace(self.sys, **fixed)


def largest_shift(
    noise: "OutputNoise", box: PlantBox, adjacency: Adjacency
) -> tuple[float, float]:
    """A certified upper bound of y for every plant of a box, and what one attains.

    With up to 8 uncertain entries boxes are halved until the bound is at most 0.1 % above
    what some plant attains, or 1 % after 400 boxes, and no longer than 600 boxes. With more
    entries the corners are too many, and the linear part is bounded by the sum of the
    slopes' norms.

    Raises
    ------
    ValueError
        If the noise has no white floor, or the adjacency is of another kind.
    UncertifiableError
        If the bound is not finite.
    """
    if noise.family != "gaussian" or not noise.white.all():
        raise ValueError(
            "models: a PlantBox needs Gaussian noise with a white floor (floor=...)"
        )
    whitening = _Whitening.of(noise)
    bounds = [
        _largest_of(_Moves.of(part, box, noise.horizon), whitening)
        for part in adjacency.parts
    ]
    uppers, lowers = zip(*bounds)
    return max(uppers), max(lowers)


def _largest_of(moves: "_Moves", whitening: "_Whitening") -> tuple[float, float]:
    """The bound for one part of an adjacency, by halving boxes, and what is attained."""
    lower, upper = 0.0, np.inf
    boxes: list[tuple] = []
    few = len(moves.entries) <= _MOST_ENTRIES
    waiting = [(np.zeros(len(moves.entries)), moves.widths)]
    for count in range(0, _MOST_BOXES if few else _MOST_WIDE_BOXES, 2):
        for i, (middle, widths) in enumerate(waiting):
            attained, bound, halved = _bounds(moves, whitening, middle, widths)
            lower = max(lower, attained)
            heapq.heappush(boxes, (-bound, count + i, middle, widths, halved))
        before, upper = upper, -boxes[0][0]
        sharp = _SHARP if count < _MANY_BOXES else _BLUNT
        if upper <= lower * (1 + sharp) or not len(moves.entries):
            return float(round_up(upper)), lower
        if not few and before - upper < _SHARP * upper < np.inf:
            break  # halving one of many entries does not help
        _, _, middle, widths, halved = heapq.heappop(boxes)
        step = np.zeros_like(widths)
        step[halved] = widths[halved] / 2
        waiting = [(middle - step, widths - step), (middle + step, widths - step)]
    if np.isfinite(upper):
        return float(round_up(upper)), lower
    raise UncertifiableError(
        "models: the guarantee over the box cannot be certified down to what "
        f"some plant in it attains, {lower:.3g}: narrow the half-widths or the uncertain "
        "entries, or pass box.sampled(count), whose guarantee covers the sampled plants only"
    )


@dataclass(frozen=True)
class _Whitening:
    """The map of outputs whose norms are y, and y <= ||s / floor|| for every s.

    With the other parts of the noise, in units of the floor, as U diag(s) V^T, it shrinks
    the directions U by 1 / sqrt(1 + s^2).
    """

    floor: NDArray
    directions: NDArray
    shrink: NDArray

    @classmethod
    def of(cls, noise: "OutputNoise") -> "_Whitening":
        floor = np.tile(noise.white, noise.horizon)
        parts = noise.responses.reshape(len(floor), -1)
        U, s, _ = scipy.linalg.svd(parts / floor[:, None], full_matrices=False)
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
        count = self.directions.shape[1] + 8
        return 32 * EPS * count * np.sqrt(len(self.floor)) * size

    @property
    def error(self) -> float:
        """Relative error of the norms from rounded directions and sizes."""
        largest = 1 / self.shrink.min(initial=1.0)
        return 16 * EPS * len(self.floor) * (1 + largest)


def _bounds(
    moves: "_Moves", whitening: _Whitening, middle: NDArray, widths: NDArray
) -> tuple[float, float, int]:
    """What the middle and a corner of a box attain, an upper bound, the entry to halve.

    That is the entry which moves the outputs most, in units of the floor.
    """
    expansion = _Expansion.of(moves, middle)
    # the middle is rounded
    reach = widths + 4 * EPS * (np.abs(middle) + np.abs(moves.nominal))
    base, *slopes = (moves.outputs(part) for part in expansion.responses())
    rest = moves.outputs(expansion.remainder(reach)) / whitening.floor[:, None]
    beyond = np.linalg.norm(rest, axis=0)
    for size, part in zip((1.0, *reach), (base, *slopes)):
        beyond = beyond + size * whitening.rounding(part)
    white = whitening.apply(base)
    white_slopes = [whitening.apply(slope) for slope in slopes]
    sizes = np.linalg.norm(white, axis=0)
    linear = _worst_of_linear_part(white, white_slopes, reach, moves.size)
    worst = (linear + moves.joined(beyond)).max()
    # a corner towards which the largest response grows
    column = int(np.argmax(sizes))
    grows = [white[:, column] @ slope[:, column] for slope in white_slopes]
    corner = moves.response_at(middle + np.sign(grows) * widths)
    attained = max(moves.size(white).max(), moves.size(whitening.apply(corner)).max())
    error = 1e-12 + whitening.error
    moved = [
        width * np.linalg.norm(slope / whitening.floor[:, None], axis=0).max()
        for width, slope in zip(widths, slopes)
    ]
    halved = int(np.argmax([*moved, 0.0]))
    return float(attained * (1 - error)), float(worst * (1 + error)), halved


def _worst_of_linear_part(
    base: NDArray,
    slopes: Sequence[NDArray],
    widths: NDArray,
    size: Callable[[NDArray], NDArray],
) -> NDArray:
    """Sizes that base + sum of offsets times slopes stays below within the widths."""
    worst = size(base)
    if len(slopes) > _MOST_ENTRIES:
        for width, slope in zip(widths, slopes):
            worst = worst + width * size(slope)
        return worst
    for signs in product((-1, 1), repeat=len(slopes)):
        corner = base.copy()
        for sign, width, slope in zip(signs, widths, slopes):
            corner += sign * width * slope
        worst = np.maximum(worst, size(corner))
    return worst


# -- hidden moves as free responses of uncertain plants ----------------------------------


@dataclass(frozen=True)
class _Moves:
    """Free responses C A^t V of a plant with uncertain entries, and when they begin.

    Attributes
    ----------
    A, C, axes : ndarray
        V (n, q) are scaled moves of the state.
    entries : list of (matrix, row, column)
        The uncertain ones, with half-widths (k,) and nominal values (k,).
    times : ndarray
        Samples at which the state is moved.
    forwards : bool
        Whether the move changes nothing before its time. A state that is moved at a time
        was another one before as well.
    is_ball : bool
        Whether any combination of the moves of Euclidean norm one is hidden.
    """

    A: NDArray
    C: NDArray
    axes: NDArray
    entries: list[Entry]
    widths: NDArray
    nominal: NDArray
    times: NDArray
    horizon: int
    forwards: bool = False
    is_ball: bool = False

    @classmethod
    def of(cls, part: Adjacency, box: PlantBox, horizon: int) -> "_Moves":
        """The moves of one part of an adjacency."""
        entries = box.entries_for(part)
        widths = np.array([getattr(box, name)[i, j] for name, i, j in entries])
        nominal = np.array([getattr(box.sys, name)[i, j] for name, i, j in entries])
        A, C = box.sys.A, box.sys.C
        if isinstance(part, DisturbanceAdjacency):
            A, C, axes, entries = _queued(part, box.sys, entries)
            times = part.starts(horizon)
            is_ball = part.norm == "l2"
            return cls(
                A, C, axes, entries, widths, nominal, times, horizon, True, is_ball
            )
        moves: Any = part.moves(trajectory_manifold(box.sys, horizon))
        if not isinstance(part, StateAdjacency):
            times = np.zeros(1, int)
            return cls(
                A,
                C,
                moves.vectors,
                entries,
                widths,
                nominal,
                times,
                horizon,
                is_ball=moves.is_ball,
            )
        if part.charts != "times":
            raise ValueError(
                'models: a PlantBox is bounded for charts="times"; pass corners and a list '
                "of plants for all charts"
            )
        axes = moves.axes * moves.radii
        every = cls(A, C, axes, entries, widths, nominal, moves.times, horizon)
        return every.without_delays() if every.back else every

    def without_delays(self) -> "_Moves":
        """The same without delayed inputs, which the moves leave as they are.

        Raises
        ------
        ValueError
            If the box makes other states of the delayed inputs.
        """
        delays = delayed_inputs(self.A)
        if delayed_outputs(self.A).any():
            raise ValueError(
                "models: a PlantBox with delayed outputs is bounded for times=0; leave the "
                "delay of the outputs out, since what is published later is as private"
            )
        kept = np.flatnonzero(~delays)
        place = {int(state): k for k, state in enumerate(kept)}
        inside = []
        for k, (name, i, j) in enumerate(self.entries):
            if name == "A" and delays[i] and not delays[j]:
                raise ValueError(
                    "models: a half-width makes a delayed input depend on other states, "
                    "so that these cannot be moved alone; leave its row of A out"
                )
            if not delays[j]:
                inside.append(k)
        entries = []
        for k in inside:
            name, i, j = self.entries[k]
            entries.append((name, place[i] if name == "A" else i, place[j]))
        return replace(
            self,
            A=self.A[np.ix_(kept, kept)],
            C=self.C[:, kept],
            axes=self.axes[kept],
            entries=entries,
            widths=self.widths[inside],
            nominal=self.nominal[inside],
        )

    @property
    def back(self) -> int:
        """Samples before the move that it changes."""
        return 0 if self.forwards else int(self.times.max())

    @property
    def forward(self) -> int:
        """Samples after the move that are seen."""
        return self.horizon - 1 - int(self.times.min())

    def size(self, columns: NDArray) -> NDArray:
        """The norm of each column, or the largest one of a ball's."""
        if self.is_ball:
            return np.array([np.linalg.norm(columns, 2) * (1 + 1e-12)])
        return np.linalg.norm(columns, axis=0)

    def joined(self, errors: NDArray) -> NDArray:
        """What errors (M,) of the columns add to those sizes."""
        if self.is_ball:
            return np.array([np.linalg.norm(errors)])
        return errors

    def matrices(self, offsets: NDArray) -> tuple[NDArray, NDArray]:
        """A and C at given offsets of the entries."""
        moved = {"A": self.A.copy(), "C": self.C.copy()}
        for (name, i, j), offset in zip(self.entries, offsets):
            moved[name][i, j] += offset
        return moved["A"], moved["C"]

    def response_at(self, offsets: NDArray) -> NDArray:
        """Outputs (T p, M) of every move at given offsets."""
        A, C = self.matrices(offsets)
        return self.outputs(
            FreeResponse(A, self.axes, self.back, self.forward).outputs(C)
        )

    def outputs(self, long: NDArray) -> NDArray:
        """Outputs (T p, M) of every move, from a response at t = -back .. forward."""
        samples = np.arange(self.horizon)
        index = self.back - self.times[:, None] + samples
        frames = np.where((index >= 0)[:, :, None, None], long[index], 0.0)
        return frames.transpose(1, 2, 0, 3).reshape(self.horizon * long.shape[1], -1)


def _queued(
    part: DisturbanceAdjacency, plant: Plant, entries: Sequence[Entry]
) -> tuple[NDArray, NDArray, NDArray, list[Entry]]:
    """The plant with a queue for each secret signal, of the values that are still to come.

    Returns A, C, the starts (0, radius times shape) and the entries in them.
    """
    signals = part.signals(plant)
    count = max(len(shape) for shape in part.shapes)
    first = [plant.order + k * count for k in range(len(signals))]
    size = plant.order + count * len(signals)
    A = np.zeros((size, size))
    C = np.zeros((len(plant.C), size))
    A[: plant.order, : plant.order] = plant.A
    C[:, : plant.order] = plant.C
    column_of = {}
    axes = []
    for name, column, radius in zip(signals, first, part.radii(plant)):
        A[column : column + count, column : column + count] = np.eye(count, k=1)
        if name in plant.inputs:
            given = plant.inputs.index(name)
            column_of[given] = column
            A[: plant.order, column] = plant.B[:, given]
            C[:, column] = plant.D[:, given]
        else:
            A[plant.states.index(name), column] = 1.0
        for shape in part.shapes:
            start = np.zeros(size)
            start[column : column + len(shape)] = radius * shape
            axes.append(start)
    renamed = {"B": "A", "D": "C"}
    placed = [
        (renamed[name], i, column_of[j]) if name in renamed else (name, i, j)
        for name, i, j in entries
    ]
    return A, C, np.column_stack(axes), placed


@dataclass(frozen=True)
class _Expansion:
    """Responses of moves about a point of a box, with their slopes and what these leave out.

    ``outputs`` and ``states`` hold C A^t and A^t at t = -back .. forward, then their
    products with the moves V, as columns (n + q).
    """

    moves: _Moves
    C: NDArray
    outputs: NDArray
    states: NDArray

    @classmethod
    def of(cls, moves: _Moves, middle: NDArray) -> "_Expansion":
        A, C = moves.matrices(middle)
        start = np.hstack([np.eye(len(A)), moves.axes])
        free = FreeResponse(A, start, moves.back, moves.forward)
        with working_bits(free.bits):
            states = np.array([midpoints(state) for state in free.states])
        return cls(moves, C, free.outputs(C), states)

    def responses(self) -> Iterator[NDArray]:
        """The response (times, p, q), then its derivative by each uncertain entry.

        The derivative of A^t by an entry is the sum of A^(t-1-s) E A^s, E being one there,
        and that of A^-t the sum of -A^(s-t) E A^(-s-1), for s = 0 .. t-1.
        """
        n = len(self.moves.A)
        back = self.moves.back
        kernel, signal = self.outputs[:, :, :n], self.states[:, :, n:]
        yield self.outputs[:, :, n:]
        for name, i, j in self.moves.entries:
            slope = np.zeros_like(self.outputs[:, :, n:])
            if name == "C":
                slope[:, i] = signal[:, j]
            else:
                later = _convolved(kernel[back:-1, :, i], signal[back:-1, j])
                slope[back + 1 :] = later
                if back:
                    past = slice(back - 1, None, -1)
                    earlier = _convolved(kernel[past, :, i], signal[past, j])
                    slope[past] = -earlier
            yield slope

    def remainder(self, widths: NDArray) -> NDArray:
        """Entrywise bounds of what the first order leaves out, for offsets within ``widths``."""
        moves = self.moves
        n = len(moves.A)
        back = moves.back
        spread_A = np.zeros_like(moves.A)
        spread_C = np.zeros_like(moves.C)
        for (name, i, j), width in zip(moves.entries, widths):
            matrix = spread_A if name == "A" else spread_C
            matrix[i, j] = width
        # balls are known to 180 bits of the largest entry of their column
        largest = np.abs(self.states).max(axis=1, keepdims=True)
        sizes = np.abs(self.states) * (1 + 1e-14) + 1e-50 * largest
        read = np.abs(self.outputs[:, :, :n]) * (1 + 1e-14)
        read = read + 1e-50 * np.abs(self.C) @ sizes[:, :, :n]
        none = np.zeros((n, n))
        future = _left_out(sizes[back:], read[back:], spread_A, none, spread_C)
        if not back:
            return future
        # |A^-1| and its first and higher orders
        inverse = sizes[back - 1, :, :n]
        ratio = inverse @ spread_A
        if not np.linalg.norm(ratio, 2) < 0.5:
            past = np.full((back, *future.shape[1:]), np.inf)
            return np.concatenate([past, future])
        first = ratio @ inverse
        higher = ratio @ ratio @ np.abs(np.linalg.inv(np.eye(n) - ratio)) @ inverse
        past = _left_out(
            sizes[back::-1], read[back::-1], first, higher * (1 + 1e-9), spread_C
        )
        return np.concatenate([past[:0:-1], future])


def _convolved(kernel: NDArray, signal: NDArray) -> NDArray:
    """Sums over s <= t of kernel (T, p) at t - s and signal (T, q) at s, as (T, p, q)."""
    samples = np.arange(len(kernel))
    lags = samples[:, None] - samples
    table = np.where((lags >= 0)[:, :, None], kernel[lags], 0.0)
    return np.tensordot(table, signal, axes=(1, 0))


def _left_out(
    states: NDArray, read: NDArray, first: NDArray, higher: NDArray, moved: NDArray
) -> NDArray:
    """Bounds (T, p, q) of the second and higher orders of the responses of moves.

    Sizes of S^t and of S^t V stand in ``states`` (T, n, n + q), those of C S^t in ``read``
    (T, p, n). The step S is known to within a first and a higher order, C to within
    ``moved``. With P, L and R the sizes of a state's value, first order and rest,

        L(t) = sum |S^(t-1-s)| first P(s),
        R(t) = sum |S^(t-1-s)| (first (L + R) + higher (P + L + R))(s),

    and likewise for the outputs. What rounding adds to the slopes is counted as well.
    """
    n = states.shape[1]
    powers = states[:, :, :n]
    values = states[:, :, n:]
    shape = values.shape
    L, R, forced = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    out = np.zeros((len(states), read.shape[1], shape[2]))
    rounding = 4 * EPS * (len(states) + 8)
    with np.errstate(over="ignore", invalid="ignore"):
        entering = first @ values
        for t in range(len(states)):
            if t:
                L[t] = _summed(powers[t - 1 :: -1], entering[:t])
                R[t] = _summed(powers[t - 1 :: -1], forced[:t])
                linear = _summed(read[t - 1 :: -1], entering[:t])
                out[t] = _summed(read[t - 1 :: -1], forced[:t]) + rounding * linear
            later = L[t] + R[t]
            out[t] += moved @ later
            forced[t] = first @ later + higher @ (values[t] + later)
    return np.where(np.isfinite(out), out, np.inf) * (1 + 1e-9)


def _summed(matrices: NDArray, columns: NDArray) -> NDArray:
    """The sum of products of matrices (t, k, n) with columns (t, n, q)."""
    return np.tensordot(matrices, columns, axes=((0, 2), (0, 1)))
