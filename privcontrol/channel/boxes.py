"""Guarantees over whole intervals of plants, whose entries are known to within half-widths.

The response to a hidden move is expanded to first order about the middle of a box. The norm
in which privacy is measured is convex, so that the linear part is worst at a corner, and
the rest is bounded by matrices of absolute values. Boxes are halved until upper and lower
bounds meet. Where they do not, nothing is certified.

A change of a disturbance is a free response as well: that of the plant with a queue of the
values to come, in which entries of B and D are entries of the dynamics and the readout.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import control as ct
import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

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
from ..trajectory.disturbance import (
    DisturbanceAdjacency,
    disturbances,
)
from ..trajectory.manifold import trajectory_manifold
from ..trajectory.plant import Plant
from ..trajectory.powers import FreeResponse, delayed_inputs, delayed_outputs
from .polytope import (
    PlantPolytope,
    PlantRegion,
    checked_clauses,
    checked_miss,
    exception_of,
    with_matrices,
)
from .summed import SummedNoise

#: Uncertain entries of which all corners are gone through.
_MOST_ENTRIES = 8
_MOST_BOXES = 600
_MOST_WIDE_BOXES = 16  # with more uncertain entries, of which halving helps little
#: Relative distance of the two bounds at which no box is halved any more.
_SHARP = 1e-3
#: Uncertain entries up to which a box is the polytope of its corners.
_MOST_OF_POLYTOPE = 5
#: Corners, drawn at random, that stand for all where there are too many.
_STANDING = 12

Entry = tuple[str, int, int]


@dataclass(frozen=True)
class PlantBox(PlantRegion):
    """All plants whose matrices lie within given half-widths of a nominal plant's.

    The plant is one of them for the whole run. One that varies is a `PlantPolytope`.

    Parameters
    ----------
    sys : control.StateSpace
        The middle, with n states, m inputs and p outputs.
    A, C, B, D : array_like, shapes (n, n), (p, n), (n, m) and (p, m), optional
        Half-widths, not negative; zero by default. B and D matter if a disturbance is
        secret.
    assumptions, miss : optional
        As for a `PlantPolytope`.

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

    varying = False

    def __post_init__(self) -> None:
        plant = Plant.of(self.sys)
        self._set(
            sys=plant,
            assumptions=checked_clauses(self.assumptions),
            miss=checked_miss(self.miss),
        )
        for name in "ABCD":
            given = getattr(self, name)
            middle = getattr(plant, name)
            widths = np.zeros_like(middle) if given is None else real_array(given, name)
            if widths.shape != middle.shape:
                raise ct.ControlDimension(
                    f"{name}: expected half-widths of shape {middle.shape}, "
                    f"got {widths.shape}"
                )
            if (widths < 0).any():
                raise ValueError(
                    f"{name}: expected half-widths >= 0, got a negative one"
                )
            self._set(**{name: widths})
        if not self.entries:
            raise ValueError(
                "A, B, C, D: expected at least one uncertain entry, got none"
            )

    @classmethod
    def around(
        cls, sys: Any, *, relative: float | None = None, absolute: float | None = None
    ) -> PlantBox:
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
    def containing(cls, polytope: PlantPolytope) -> PlantBox:
        """The smallest box that contains a polytope, its half-widths rounded up."""
        widths: dict[str, Any] = {}
        middles: dict[str, NDArray] = {}
        for name in "ABCD":
            every = np.array([getattr(plant, name) for plant in polytope.vertices])
            low = every.min(axis=0)
            high = every.max(axis=0)
            middle = (low + high) / 2
            width = np.maximum(high - middle, middle - low)
            middles[name] = middle
            widths[name] = np.where(width > 0, round_up(width), 0.0)
        return cls(with_matrices(polytope.vertices[0], middles), **widths)

    @property
    def plant_data(self) -> Plant:
        return self.sys

    @property
    def nominal(self) -> ct.StateSpace:
        """The plant in the middle."""
        return self.sys.statespace()

    def _described(self) -> bytes:
        parts = [self.sys.fingerprint.encode()]
        for widths in (self.A, self.C, self.B, self.D):
            same = widths + 0.0  # makes zeros positive
            parts.append(same.tobytes())
        parts.append(repr(self.assumptions).encode())
        return b"".join(parts)

    @property
    def clause(self) -> str:
        """What a guarantee for the box takes for granted of the plant."""
        names = ["A", "C"]
        for name in "BD":
            if getattr(self, name).any():
                names.append(name)
        *others, last = sorted(names)
        count = len(self.entries)
        box = f"{', '.join(others)} and {last} within a box of {count} intervals"
        return box + exception_of(self.miss)

    @property
    def entries(self) -> list[Entry]:
        """(matrix, row, column) of each uncertain entry."""
        found: list[Entry] = []
        for name in "ACBD":
            for i, j in np.argwhere(getattr(self, name)).tolist():
                found.append((name, i, j))
        return found

    def entries_for(self, adjacency: Adjacency) -> list[Entry]:
        """The uncertain entries on which the response to a secret depends."""
        secret: set[str] = set()
        for part in disturbances(adjacency):
            secret.update(part.signals(self.sys))
        inputs = self.sys.inputs
        return [
            (name, i, j)
            for name, i, j in self.entries
            if name in "AC" or inputs[j] in secret
        ]

    @property
    def widths(self) -> NDArray:
        """Half-widths of the uncertain entries."""
        return _values(self, self.entries)

    def at(self, offsets: ArrayLike) -> ct.StateSpace:
        """The plant (`StateSpace`) at given offsets of the uncertain entries from the middle."""
        return self._moved(self.entries, np.asarray(offsets)).statespace()

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
        return [self.at(signs * self.widths) for signs in _signs(len(self.entries))]

    def sampled(self, count: int, rng: Seed = None) -> list[ct.StateSpace]:
        """Up to 256 corners and ``count`` plants drawn at random.

        A guarantee for them is SAMPLED: it covers these plants only.

        Parameters
        ----------
        count : int
        rng : None, int, SeedSequence or Generator, optional
        """
        size = (positive_integer(count, "count"), len(self.widths))
        draws = generator(rng).uniform(-1, 1, size)
        plants = []
        if len(self.entries) <= _MOST_ENTRIES:
            plants = self.corners()
        for offsets in draws * self.widths:
            plants.append(self.at(offsets))
        return plants

    def _holds(self, plant: Plant) -> bool:
        for name in "ABCD":
            distance = np.abs(getattr(plant, name) - getattr(self.sys, name))
            if (distance > getattr(self, name)).any():
                return False
        return True

    def standing(self, adjacency: Adjacency) -> tuple[Plant, ...]:
        """Corners in the entries that matter to a secret, always the same ones."""
        entries = self.entries_for(adjacency)
        if len(entries) <= _MOST_OF_POLYTOPE:
            return self.plants(adjacency)
        signs = generator(0).choice([-1.0, 1.0], size=(_STANDING, len(entries)))
        offsets = signs * _values(self, entries)
        return tuple(self._moved(entries, offset) for offset in offsets)

    def plants(self, adjacency: Adjacency) -> tuple[Plant, ...]:
        """Vertices of a polytope that contains all that the box knows of a secret.

        They are the corners of the entries that matter to it. With more than five such
        entries they are two for each, of the cross-polytope around the box.
        """
        entries = self.entries_for(adjacency)
        widths = _values(self, entries)
        sizes = np.abs(_values(self.sys, entries))
        count = len(entries)
        widths = widths + EPS * (sizes + count * widths)  # vertices are rounded
        signs = _signs(count)
        if count > _MOST_OF_POLYTOPE:
            signs = count * np.vstack([np.eye(count), -np.eye(count)])
        return tuple(self._moved(entries, sign * widths) for sign in signs)

    def _moved(self, entries: Sequence[Entry], offsets: NDArray) -> Plant:
        """The plant whose entries are moved by offsets."""
        matrices = {}
        for name in "ABCD":
            matrices[name] = getattr(self.sys, name).copy()
        for (name, i, j), offset in zip(entries, offsets):
            matrices[name][i, j] += offset
        return with_matrices(self.sys, matrices)


def _values(of: PlantBox | Plant, entries: Sequence[Entry]) -> NDArray:
    """Some entries of the matrices of a box or of a plant."""
    return np.array([getattr(of, name)[i, j] for name, i, j in entries])


def _signs(count: int) -> NDArray:
    """All rows (2^count, count) of -1 and 1, of few entries."""
    if count > _MOST_ENTRIES:
        return np.empty((0, count))
    return np.array(list(product((-1.0, 1.0), repeat=count)))


def largest_shift(
    noise: SummedNoise, box: PlantBox, adjacency: Adjacency
) -> tuple[float, float]:
    """A certified upper bound of y for every plant of a box, and what one attains.

    With up to 8 uncertain entries boxes are halved until the bound is at most 0.1 % above
    what some plant attains, or there are 600 boxes. With more entries the corners are too
    many, and the linear part is bounded by the sum of the slopes' norms.

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
    uppers, lowers = [], []
    for part in adjacency.parts:
        moves = _Moves.of(part, box, noise.horizon)
        upper, lower = _halved(moves, whitening)
        uppers.append(upper)
        lowers.append(lower)
    return max(uppers), max(lowers)


def _halved(moves: _Moves, whitening: _Whitening) -> tuple[float, float]:
    """The bound for one part of an adjacency, by halving boxes, and what is attained."""
    lower = 0.0
    boxes: list[tuple] = []
    entries = len(moves.widths)
    most = _MOST_BOXES if entries <= _MOST_ENTRIES else _MOST_WIDE_BOXES
    waiting = [(np.zeros(entries), moves.widths)]
    count = 0
    while True:
        for middle, widths in waiting:
            attained, bound, halved = _bounds(moves, whitening, middle, widths)
            lower = max(lower, attained)
            heapq.heappush(boxes, (-bound, count, middle, widths, halved))
            count += 1
        upper = -boxes[0][0]
        if upper <= lower * (1 + _SHARP) or not entries or count >= most:
            break
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
    def of(cls, noise: SummedNoise) -> _Whitening:
        floor = np.tile(noise.white, noise.horizon)
        columns = noise.responses.reshape(len(floor), -1)
        white = columns / floor[:, None]
        directions, sizes, _ = scipy.linalg.svd(white, full_matrices=False)
        variances = 1 + sizes**2
        shrink = 1 / np.sqrt(variances)
        return cls(floor, directions, shrink)

    def in_floors(self, columns: NDArray) -> NDArray:
        """Outputs (T p, M) in units of the floor."""
        return columns / self.floor[:, None]

    def sizes(self, columns: NDArray) -> NDArray:
        """Norms (M,) of outputs (T p, M) in units of the floor, at least y."""
        return np.linalg.norm(self.in_floors(columns), axis=0)

    def apply(self, columns: NDArray) -> NDArray:
        """Columns whose norms are y, of outputs (T p, M)."""
        white = self.in_floors(columns)
        inside = self.directions.T @ white
        outside = white - self.directions @ inside
        shrunk = self.shrink[:, None] * inside
        return np.vstack([outside, shrunk])

    def rounding(self, columns: NDArray) -> NDArray:
        """What floating point may add to those norms (M,)."""
        count = self.directions.shape[1] + 8
        return 32 * EPS * count * np.sqrt(len(self.floor)) * self.sizes(columns)

    @property
    def error(self) -> float:
        """Relative error of the norms from rounded directions and sizes."""
        largest = 1 / self.shrink.min(initial=1.0)
        return 16 * EPS * len(self.floor) * (1 + largest)


def _bounds(
    moves: _Moves, whitening: _Whitening, middle: NDArray, widths: NDArray
) -> tuple[float, float, int]:
    """What the middle and a corner of a box attain, an upper bound, the entry to halve.

    That is the entry which moves the outputs most, in units of the floor.
    """
    expansion = _Expansion.of(moves, middle)
    reach = widths + 4 * EPS * (np.abs(middle) + moves.sizes)  # the middle is rounded
    base, *slopes = map(moves.outputs, expansion.responses())
    left_out = moves.outputs(expansion.remainder(reach))
    beyond = whitening.sizes(left_out)
    beyond = beyond + whitening.rounding(base)
    moved = []
    for width, slope in zip(reach, slopes):
        beyond = beyond + width * whitening.rounding(slope)
        moved.append(width * whitening.sizes(slope).max())
    moved.append(0.0)
    halved = int(np.argmax(moved))
    white = whitening.apply(base)
    white_slopes = [whitening.apply(slope) for slope in slopes]
    linear = _worst_of_linear_part(moves, white, white_slopes, reach)
    worst = linear + moves.joined(beyond)
    corner = middle + _directions_of_growth(white, white_slopes) * widths
    at_corner = whitening.apply(moves.response_at(corner))
    attained = max(moves.size(white).max(), moves.size(at_corner).max())
    error = 1e-12 + whitening.error
    lower = float(attained * (1 - error))
    upper = float(worst.max() * (1 + error))
    return lower, upper, halved


def _directions_of_growth(base: NDArray, slopes: Sequence[NDArray]) -> NDArray:
    """Signs (k,) of the offsets with which the largest response grows."""
    sizes = np.linalg.norm(base, axis=0)
    largest = int(np.argmax(sizes))
    response = base[:, largest]
    growth = [response @ slope[:, largest] for slope in slopes]
    return np.sign(growth)


def _worst_of_linear_part(
    moves: _Moves, base: NDArray, slopes: Sequence[NDArray], widths: NDArray
) -> NDArray:
    """Sizes that base + sum of offsets times slopes stays below within the widths."""
    worst = moves.size(base)
    if len(slopes) > _MOST_ENTRIES:
        for width, slope in zip(widths, slopes):
            worst = worst + width * moves.size(slope)
        return worst
    for offsets in _signs(len(slopes)) * widths:
        corner = base.copy()
        for offset, slope in zip(offsets, slopes):
            corner += offset * slope
        worst = np.maximum(worst, moves.size(corner))
    return worst


# -- hidden moves as free responses of uncertain plants ----------------------------------


@dataclass(frozen=True)
class _Moves:
    """Free responses C A^t V of a plant with uncertain entries, and when they begin.

    Attributes
    ----------
    matrix, spread : ndarray, shape (n + p, n)
        [A; C], and half-widths of its entries.
    axes : ndarray, shape (n, q)
        Scaled moves V of the state.
    times : ndarray
        Samples at which the state is moved.
    forwards : bool
        Whether the move changes nothing before its time. A state that is moved at a time
        was another one before as well.
    is_ball : bool
        Whether any combination of the moves of Euclidean norm one is hidden.
    """

    matrix: NDArray
    spread: NDArray
    axes: NDArray
    times: NDArray
    horizon: int
    forwards: bool = False
    is_ball: bool = False

    @classmethod
    def of(cls, part: Adjacency, box: PlantBox, horizon: int) -> _Moves:
        """The moves of one part of an adjacency."""
        if isinstance(part, DisturbanceAdjacency):
            return _queued(part, box, horizon)
        matrix = np.vstack([box.sys.A, box.sys.C])
        spread = np.vstack([box.A, box.C])
        moves: Any = part.moves(trajectory_manifold(box.sys, horizon))
        if not isinstance(part, StateAdjacency):
            start = np.zeros(1, int)
            vectors = moves.vectors
            return cls(matrix, spread, vectors, start, horizon, is_ball=moves.is_ball)
        if part.charts != "times":
            raise ValueError(
                'models: a PlantBox is bounded for charts="times"; pass corners and a list '
                "of plants for all charts"
            )
        axes = moves.axes * moves.radii
        every = cls(matrix, spread, axes, moves.times, horizon)
        return every.without_delays() if every.back else every

    def without_delays(self) -> _Moves:
        """The same without delayed inputs, which the moves leave as they are.

        Raises
        ------
        ValueError
            If the box makes other states of the delayed inputs.
        """
        A = self.matrix[: self.order]
        if delayed_outputs(A).any():
            raise ValueError(
                "models: a PlantBox with delayed outputs is bounded for times=0; leave the "
                "delay of the outputs out, since what is published later is as private"
            )
        delays = delayed_inputs(A)
        if self.spread[: self.order][delays][:, ~delays].any():
            raise ValueError(
                "models: a half-width makes a delayed input depend on other states, "
                "so that these cannot be moved alone; leave its row of A out"
            )
        outputs = np.ones(len(self.matrix) - self.order, dtype=bool)
        kept = np.ix_(np.append(~delays, outputs), ~delays)
        return replace(
            self,
            matrix=self.matrix[kept],
            spread=self.spread[kept],
            axes=self.axes[~delays],
        )

    @property
    def order(self) -> int:
        """Number n of states."""
        return self.matrix.shape[1]

    @cached_property
    def entries(self) -> tuple[NDArray, NDArray]:
        """Rows and columns (k,) of the uncertain entries."""
        rows, columns = np.nonzero(self.spread)
        return rows, columns

    @property
    def widths(self) -> NDArray:
        """Half-widths (k,) of the uncertain entries."""
        return self.spread[self.entries]

    @property
    def sizes(self) -> NDArray:
        """Sizes (k,) of the uncertain entries."""
        return np.abs(self.matrix[self.entries])

    @property
    def back(self) -> int:
        """Samples before the move that it changes."""
        return 0 if self.forwards else int(self.times.max())

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

    def free(self, offsets: NDArray, start: NDArray) -> tuple[FreeResponse, NDArray]:
        """Free responses of given states at given offsets of the entries, and C."""
        moved = self.matrix.copy()
        moved[self.entries] += offsets
        A, C = np.split(moved, [self.order])
        first = int(self.times.min())
        forward = self.horizon - 1 - first
        return FreeResponse(A, start, self.back, forward), C

    def response_at(self, offsets: NDArray) -> NDArray:
        """Outputs (T p, M) of every move at given offsets."""
        free, C = self.free(offsets, self.axes)
        return self.outputs(free.outputs(C))

    def outputs(self, long: NDArray) -> NDArray:
        """Outputs (T p, M) of every move, from a response at t = -back .. forward."""
        starts = self.back - self.times
        index = starts[:, None] + np.arange(self.horizon)
        frames = long[index]  # (move, sample, output, axis)
        frames[index < 0] = 0.0
        by_sample = frames.transpose(1, 2, 0, 3)
        rows = self.horizon * long.shape[1]
        return by_sample.reshape(rows, -1)


def _queued(part: DisturbanceAdjacency, box: PlantBox, horizon: int) -> _Moves:
    """Moves of the plant with a queue for each secret signal, of its values to come."""
    plant = box.sys
    n = plant.order
    signals = part.signals(plant)
    secret = part.system(plant)
    entering = np.vstack([secret.B, secret.D])
    uncertain = np.zeros_like(entering)
    for k, name in enumerate(signals):
        if name in plant.inputs:
            j = plant.inputs.index(name)
            uncertain[:, k] = np.append(box.B[:, j], box.D[:, j])
    count = max(len(shape) for shape in part.shapes)
    queues = count * len(signals)
    shift = np.kron(np.eye(len(signals)), np.eye(count, k=1))
    axes = []
    for k, radius in enumerate(part.radii(plant)):
        first = n + k * count
        for shape in part.shapes:
            start = np.zeros(n + queues)
            start[first : first + len(shape)] = radius * shape
            axes.append(start)
    nominal = np.vstack([plant.A, plant.C])
    widths = np.vstack([box.A, box.C])
    return _Moves(
        _with_queues(nominal, entering, shift),
        _with_queues(widths, uncertain, np.zeros_like(shift)),
        np.column_stack(axes),
        part.starts(horizon),
        horizon,
        forwards=True,
        is_ball=part.norm == "l2",
    )


def _with_queues(own: NDArray, entry: NDArray, queues: NDArray) -> NDArray:
    """Rows of the plant's states, of the queues and of the outputs.

    ``own`` is [A; C], the heads of the queues enter by ``entry``.
    """
    order = own.shape[1]
    size = len(queues)
    length = size // entry.shape[1]
    heads = np.zeros((len(own), size))
    heads[:, ::length] = entry
    zeros = np.zeros((size, order))
    beside = np.hstack([own, heads])
    below = np.hstack([zeros, queues])
    states, outputs = np.split(beside, [order])
    return np.vstack([states, below, outputs])


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
    def of(cls, moves: _Moves, middle: NDArray) -> _Expansion:
        unit = np.eye(moves.order)
        start = np.hstack([unit, moves.axes])
        free, C = moves.free(middle, start)
        return cls(moves, C, free.outputs(C), free.states())

    def responses(self) -> Iterator[NDArray]:
        """The response (times, p, q), then its derivative by each uncertain entry.

        The derivative of A^t by an entry is the sum of A^(t-1-s) E A^s, E being one there,
        and that of A^-t the sum of -A^(s-t) E A^(-s-1), for s = 0 .. t-1.
        """
        n = self.moves.order
        back = self.moves.back
        past = slice(back - 1, None, -1)
        kernel = self.outputs[:, :, :n]
        signal = self.states[:, :, n:]
        yield self.outputs[:, :, n:]
        for row, column in zip(*self.moves.entries):
            slope = np.zeros_like(self.outputs[:, :, n:])
            if row >= n:
                slope[:, row - n] = signal[:, column]
                yield slope
                continue
            enters = signal[:, column]
            leaves = kernel[:, :, row]
            slope[back + 1 :] = _convolved(leaves[back:-1], enters[back:-1])
            if back:
                slope[past] = -_convolved(leaves[past], enters[past])
            yield slope

    def remainder(self, widths: NDArray) -> NDArray:
        """Entrywise bounds of what the first order leaves out, for offsets within ``widths``."""
        moves = self.moves
        n = moves.order
        back = moves.back
        spread = np.zeros_like(moves.spread)
        spread[moves.entries] = widths
        spread_A = spread[:n]
        spread_C = spread[n:]
        # balls are known to 180 bits of the largest entry of their column
        largest = np.abs(self.states).max(axis=1, keepdims=True)
        sizes = np.abs(self.states) * (1 + 1e-14) + 1e-50 * largest
        read = np.abs(self.outputs[:, :, :n]) * (1 + 1e-14)
        read = read + 1e-50 * np.abs(self.C) @ sizes[:, :, :n]
        none = np.zeros((n, n))
        future = _left_out(sizes[back:], read[back:], spread_A, none, spread_C)
        if not back:
            return future
        orders = _orders_of_inverse(sizes[back - 1, :, :n], spread_A)
        if orders is None:
            _, outputs, count = future.shape
            past = np.full((back, outputs, count), np.inf)
            return np.concatenate([past, future])
        past = _left_out(sizes[back::-1], read[back::-1], *orders, spread_C)
        return np.concatenate([past[:0:-1], future])


def _orders_of_inverse(
    inverse: NDArray, spread: NDArray
) -> tuple[NDArray, NDArray] | None:
    """Bounds of the first and higher orders of A^-1, from |A^-1| and the half-widths of A.

    None if the half-widths are too large.
    """
    ratio = inverse @ spread
    if not np.linalg.norm(ratio, 2) < 0.5:
        return None
    first = ratio @ inverse
    series = np.abs(np.linalg.inv(np.eye(len(ratio)) - ratio))
    higher = ratio @ ratio @ series @ inverse * (1 + 1e-9)
    return first, higher


def _convolved(kernel: NDArray, signal: NDArray) -> NDArray:
    """Sums over s <= t of kernel (T, p) at t - s and signal (T, q) at s, as (T, p, q)."""
    samples = np.arange(len(kernel))
    lags = samples[:, None] - samples
    past = (lags >= 0)[:, :, None]
    table = np.where(past, kernel[lags], 0.0)
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
    samples, outputs, n = read.shape
    powers = states[:, :, :n]
    values = states[:, :, n:]
    forced = np.zeros_like(values)
    out = np.zeros((samples, outputs, values.shape[2]))
    rounding = 4 * EPS * (samples + 8)
    with np.errstate(over="ignore", invalid="ignore"):
        entering = first @ values
        for t, value in enumerate(values):
            later = np.zeros_like(value)  # L + R
            if t:
                kernel = powers[t - 1 :: -1]
                linear = _summed(kernel, entering[:t])
                later = linear + _summed(kernel, forced[:t])
                kernel = read[t - 1 :: -1]
                linear = _summed(kernel, entering[:t])
                out[t] = _summed(kernel, forced[:t]) + rounding * linear
            out[t] += moved @ later
            forced[t] = first @ later + higher @ (value + later)
    bounds = np.where(np.isfinite(out), out, np.inf)
    return bounds * (1 + 1e-9)


def _summed(matrices: NDArray, columns: NDArray) -> NDArray:
    """The sum of products of matrices (t, k, n) with columns (t, n, q)."""
    return np.tensordot(matrices, columns, axes=((0, 2), (0, 1)))
