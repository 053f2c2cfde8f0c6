"""Guarantees over whole intervals of plants, whose entries are known to within half-widths.

The response to a hidden move is expanded to first order about the middle of a box. The norm
in which privacy is measured is convex, so the linear part is worst at a corner, and
the rest is bounded by matrices of absolute values. Boxes are halved until upper and lower
bounds meet. Where they do not, nothing is certified.

A change of a disturbance is a free response as well: that of the plant with a queue of the
values to come, in which entries of B and D are entries of the dynamics and the readout.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, lru_cache, reduce
from itertools import product
from typing import Any

import control as ct
import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from ..core._frozen import ByContent
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
from ..noise.summed import SummedNoise
from ..secrets.adjacency import StateAdjacency
from ..secrets.disturbance import (
    DisturbanceAdjacency,
    disturbances,
)
from ..secrets.manifold import trajectory_manifold
from ..systems.linear import LinearSystem
from ..systems.plant import Plant
from ..systems.powers import FreeResponse, delayed_inputs, delayed_outputs
from .polytope import (
    PlantPolytope,
    PlantRegion,
    checked_clauses,
    checked_miss,
    exception_of,
    with_matrices,
)

#: Uncertain entries of which all corners are gone through.
_MOST_ENTRIES = 8
_MOST_BOXES = 128
#: The same with more entries, and how many of these go through all of their corners.
_MOST_WIDE_BOXES = 32
_TURNED = 4
#: Relative distance of the two bounds at which no box is halved any more.
_SHARP = 1e-3
#: Uncertain entries up to which a box is the polytope of its corners.
_MOST_OF_POLYTOPE = 5
#: Corners, drawn at random, that stand for all where there are too many.
_STANDING = 12

Entry = tuple[str, int, int]


@dataclass(frozen=True, eq=False)
class PlantBox(ByContent, PlantRegion):
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
    """Return a certified upper bound of y for every plant of a box, and one that is attained.

    With up to 8 uncertain entries boxes are halved until the bound is at most 0.1 % above
    what some plant attains, or there are 128 boxes. With more entries the corners are too
    many. What all but the widest four move the outputs by is added up then.

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
    found = [
        _halved(_moves_of(part, box, noise.horizon), whitening)
        for part in adjacency.parts
    ]
    upper, lower = np.max(found, axis=0)
    return float(upper), float(lower)


def _halved(moves: _Moves, whitening: _Whitening) -> tuple[float, float]:
    """Return the bound for one part of an adjacency, and what some plant attains."""
    lower = 0.0
    boxes: list[tuple] = []
    entries = len(moves.widths)
    most = _MOST_BOXES if entries <= _MOST_ENTRIES else _MOST_WIDE_BOXES
    waiting = [(np.zeros(entries), moves.widths)]
    count = 0
    while True:
        for middle, widths in waiting:
            attained, bound, split = _bounds(moves, whitening, middle, widths)
            lower = max(lower, attained)
            heapq.heappush(boxes, (-bound, count, middle, widths, split))
            count += 1
        upper = -boxes[0][0]
        if upper <= lower * (1 + _SHARP) or not entries or count >= most:
            break
        _, _, middle, widths, split = heapq.heappop(boxes)
        step = np.zeros_like(widths)
        step[split] = widths[split] / 2
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
        shrink = 1 / np.sqrt(1 + sizes**2)
        return cls(floor, directions, shrink)

    def sizes(self, columns: NDArray) -> NDArray:
        """Norms (M,) of outputs (T p, M) in units of the floor, at least y."""
        return np.linalg.norm(columns / self.floor[:, None], axis=0)

    def apply(self, columns: NDArray) -> NDArray:
        """Columns whose norms are y, of outputs (T p, M)."""
        white = columns / self.floor[:, None]
        inside = self.directions.T @ white
        outside = white - self.directions @ inside
        return np.vstack([outside, self.shrink[:, None] * inside])

    def rounding(self, columns: NDArray) -> NDArray:
        """What floating point may add to those norms (M,)."""
        count = self.directions.shape[1] + 8
        return 32 * EPS * count * np.sqrt(len(self.floor)) * self.sizes(columns)

    @property
    def error(self) -> float:
        """Relative error of the norms from rounded directions and sizes."""
        largest = 1 / self.shrink.min(initial=1.0)
        return 1e-12 + 16 * EPS * len(self.floor) * (1 + largest)


def _bounds(
    moves: _Moves, whitening: _Whitening, middle: NDArray, widths: NDArray
) -> tuple[float, float, int]:
    """Return (attained, upper bound, entry to split) for a box.

    That entry moves the outputs most, in units of the floor. What the linear part has at a
    corner, less what it leaves out there, is attained.
    """
    expansion = _expanded(moves, tuple(middle.tolist()), tuple(widths.tolist()))
    base, left_out, *slopes = map(moves.outputs, expansion)
    beyond = whitening.sizes(left_out) + whitening.rounding(base)
    for slope in slopes:
        beyond = beyond + whitening.rounding(slope)
    reach = np.array([whitening.sizes(slope).max() for slope in slopes])
    widest = np.argsort(-reach, kind="stable")
    white = whitening.apply(base)
    white_slopes = [whitening.apply(slopes[k]) for k in widest]
    turned = white_slopes
    if len(slopes) > _MOST_ENTRIES:
        turned = white_slopes[:_TURNED]
    attained = moves.size(white)
    for signs in _signs(len(turned)):
        corner = sum(map(np.multiply, signs, turned), white)
        attained = np.maximum(attained, moves.size(corner))
    worst = attained
    for slope in white_slopes[len(turned) :]:
        worst = worst + moves.size(slope)
    rest = moves.joined(beyond)
    lower = (attained - rest).max(initial=0.0) * (1 - whitening.error)
    upper = (worst + rest).max() * (1 + whitening.error)
    return float(lower), float(upper), int(widest[0]) if slopes else 0


# -- hidden moves as free responses of uncertain plants ----------------------------------


@dataclass(frozen=True, eq=False)
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

    def without_delays(self) -> _Moves:
        """Return the same without delayed inputs, which the moves leave as they are.

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

    def outputs(self, long: NDArray) -> NDArray:
        """Outputs (T p, M) of every move, from a response at t = -back .. forward."""
        starts = self.back - self.times
        index = starts[:, None] + np.arange(self.horizon)
        frames = long[index]  # (move, sample, output, axis)
        frames[index < 0] = 0.0
        by_sample = frames.transpose(1, 2, 0, 3)
        rows = self.horizon * long.shape[1]
        return by_sample.reshape(rows, -1)


@lru_cache(maxsize=4)
def _moves_of(part: Adjacency, box: PlantBox, horizon: int) -> _Moves:
    """The moves of one part of an adjacency."""
    if isinstance(part, DisturbanceAdjacency):
        return _queued(part, box, horizon)
    matrix = np.vstack([box.sys.A, box.sys.C])
    spread = np.vstack([box.A, box.C])
    moves: Any = part.moves(trajectory_manifold(box.sys, horizon))
    if not isinstance(part, StateAdjacency):
        start = np.zeros(1, int)
        vectors = moves.vectors
        return _Moves(matrix, spread, vectors, start, horizon, is_ball=moves.is_ball)
    if part.charts != "times":
        raise ValueError(
            'models: a PlantBox is bounded for charts="times"; pass corners and a list '
            "of plants for all charts"
        )
    axes = moves.axes * moves.radii
    every = _Moves(matrix, spread, axes, moves.times, horizon)
    return every.without_delays() if every.back else every


def _queued(part: DisturbanceAdjacency, box: PlantBox, horizon: int) -> _Moves:
    """Moves of the plant with a queue for each secret signal, of its values to come."""
    plant = box.sys
    signals = part.signals(plant)
    secret = part.system(plant)
    places = [k for k, name in enumerate(signals) if name in plant.inputs]
    columns = [plant.inputs.index(signals[k]) for k in places]
    B = np.zeros_like(secret.B)
    D = np.zeros_like(secret.D)
    B[:, places] = box.B[:, columns]
    D[:, places] = box.D[:, columns]
    count = max(len(shape) for shape in part.shapes)
    queue = reduce(LinearSystem.beside, [LinearSystem.queue(count)] * len(signals))
    still = replace(queue, A=np.zeros_like(queue.A))
    queued = secret.after(queue)
    widths = LinearSystem(box.A, B, box.C, D).after(still)
    axes = []
    for k, radius in enumerate(part.radii(plant)):
        for shape in part.shapes:
            start = np.zeros(queued.order)
            values = part.events * radius * shape
            start[k * count : k * count + len(shape)] = values
            axes.append(start)
    return _Moves(
        np.vstack([queued.A, queued.C]),
        np.vstack([widths.A, widths.C]),
        np.column_stack(axes),
        part.starts(horizon),
        horizon,
        forwards=True,
        is_ball=part.norm == "l2",
    )


@lru_cache(maxsize=512)  # a design asks again and again, for noise of other sizes
def _expanded(
    moves: _Moves, middle: tuple[float, ...], widths: tuple[float, ...]
) -> list[NDArray]:
    """Responses (times, p, q) of moves about a point of a box, for t = -back .. forward.

    The first one is that of the plant in the middle. The second one bounds what the first
    order leaves out in the box. Then come the slopes by each uncertain entry, times its
    half-width. The derivative of A^t by an entry is the sum of A^(t-1-s) E A^s, E being one
    there, and that of A^-t the sum of -A^(s-t) E A^(-s-1), for s = 0 .. t-1.
    """
    n = moves.order
    back = moves.back
    matrix = moves.matrix.copy()
    matrix[moves.entries] += middle
    A, C = np.split(matrix, [n])
    forward = moves.horizon - 1 - int(moves.times.min())
    start = np.hstack([np.eye(n), moves.axes])
    free = FreeResponse(A, start, back, forward)
    outputs = free.outputs(C)
    states = free.states()
    sizes = np.abs(middle) + np.abs(moves.matrix[moves.entries])
    reach = np.array(widths) + 4 * EPS * sizes  # the middle is rounded
    found = [outputs[:, :, n:], _left_out(moves, C, outputs, states, reach)]
    past = slice(back - 1, None, -1)
    signal = states[:, :, n:]
    for row, column, width in zip(*moves.entries, reach):
        slope = np.zeros_like(found[0])
        enters = width * signal[:, column]
        if row >= n:
            slope[:, row - n] = enters
        else:
            leaves = outputs[:, :, row]
            slope[back + 1 :] = _convolved(leaves[back:-1], enters[back:-1])
            if back:
                slope[past] = -_convolved(leaves[past], enters[past])
        found.append(slope)
    return found


def _convolved(kernel: NDArray, signal: NDArray) -> NDArray:
    """Sums over s <= t of kernel (T, p) at t - s and signal (T, q) at s, as (T, p, q)."""
    samples = np.arange(len(kernel))
    lags = samples[:, None] - samples
    past = (lags >= 0)[:, :, None]
    table = np.where(past, kernel[lags], 0.0)
    return np.tensordot(table, signal, axes=(1, 0))


def _left_out(
    moves: _Moves, C: NDArray, outputs: NDArray, states: NDArray, reach: NDArray
) -> NDArray:
    """Bounds (times, p, q) of what the first order leaves out, for offsets within reach."""
    n = moves.order
    back = moves.back
    spread = np.zeros_like(moves.spread)
    spread[moves.entries] = reach
    spread_A, spread_C = np.split(spread, [n])
    # balls are known to 180 bits of the largest entry of their column
    largest = np.abs(states).max(axis=1, keepdims=True)
    sizes = np.abs(states) * (1 + 1e-14) + 1e-50 * largest
    read = np.abs(outputs[:, :, :n]) * (1 + 1e-14)
    read = read + 1e-50 * np.abs(C) @ sizes[:, :, :n]
    none = np.zeros((n, n))
    future = _higher_orders(sizes[back:], read[back:], spread_A, none, spread_C)
    if not back:
        return future
    orders = _orders_of_inverse(sizes[back - 1, :, :n], spread_A)
    if orders is None:
        past = np.full((back, *future.shape[1:]), np.inf)
        return np.concatenate([past, future])
    past = _higher_orders(sizes[back::-1], read[back::-1], *orders, spread_C)
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


def _higher_orders(
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
    samples, _, n = read.shape
    kernel = np.concatenate([states[:, :, :n], read], axis=1)
    values = states[:, :, n:]
    forced = np.zeros_like(values)
    out = np.zeros((samples, read.shape[1], values.shape[2]))
    rounding = 4 * EPS * (samples + 8)
    with np.errstate(over="ignore", invalid="ignore"):
        entering = first @ values
        for t, value in enumerate(values):
            before = kernel[:t][::-1]
            linear = np.tensordot(before, entering[:t], axes=((0, 2), (0, 1)))
            rest = np.tensordot(before, forced[:t], axes=((0, 2), (0, 1)))
            later = linear[:n] + rest[:n]
            out[t] = rest[n:] + rounding * linear[n:] + moved @ later
            forced[t] = first @ later + higher @ (value + later)
    bounds = np.where(np.isfinite(out), out, np.inf)
    return bounds * (1 + 1e-9)
