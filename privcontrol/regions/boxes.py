"""Boxes of plants: all plants whose entries are known to within half-widths.

The largest shift under all of them is bounded by boxes that are halved until bounds meet.
The response to a hidden move is expanded to first order about the middle of a box. The norm
in which privacy is measured is convex, so the linear part is worst at a corner, and
the rest is bounded by matrices of absolute values. Where the bounds do not meet, the worst
box is halved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, lru_cache, partial, reduce
from itertools import product
from typing import Any

import control as ct
import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from ..core._linalg import (
    EPS,
    Seed,
    generator,
    positive_integer,
    positive_number,
    real_array,
    round_up,
)
from ..core._objects import ByContent
from ..core._progress import piece
from ..core.adjacency import Adjacency
from ..core.errors import UncertifiableError
from ..noise.parts import NoisePart, PartSum
from ..noise.shift import Shift
from ..secrets.adjacency import StateMoves
from ..secrets.disturbance import DisturbanceAdjacency, disturbances
from ..secrets.manifold import trajectory_manifold
from ..secrets.secret import as_secret
from ..systems.linear import LinearSystem, Plant, beside, queue_of
from ..systems.powers import FreeResponse, delayed_inputs, delayed_outputs
from .region import (
    PlantRegion,
    checked_clauses,
    checked_miss,
    exception_of,
    least_bound,
    matrix_of,
    with_matrix,
)

#: Uncertain entries of which all corners are gone through.
_MOST_ENTRIES = 8
#: Boxes at which the search ends, with few entries and with more of them, and how many of
#: these go through all of their corners.
_MOST_BOXES = 65
_MOST_WIDE_BOXES = 17
_MOST_ROUGH_BOXES = 9
_TURNED = 4
#: Relative distance of the two bounds at which no box is halved any more.
_SHARP = 1e-3
#: Relative rounding of norms, and corners that are looked at together.
_ROUNDED = 1e-12
_AT_ONCE = 32
#: Uncertain entries up to which a box is the polytope of its corners.
_MOST_OF_POLYTOPE = 5
#: Corners, drawn at random, that stand for all where there are too many, and for the
#: dense designs of disturbances, whose time grows with the square of their number.
_STANDING = 12
_STANDING_DENSE = 3
#: Factor between a bound and what some plant attains up to which no other bound is tried.
#: The second one is for boxes of so many entries that the other bound is for a region
#: much wider than the box.
_CLOSE = 1.1
_POOR = 10.0


@dataclass(frozen=True, eq=False)
class PlantBox(ByContent, PlantRegion):
    """Hold all plants whose matrices lie within half-widths of a nominal plant's.

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

    sys: ct.StateSpace | Plant
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
            plant_data=plant,
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
        if not self._spread.any():
            raise ValueError(
                "A, B, C, D: expected at least one uncertain entry, got none"
            )

    @classmethod
    def around(
        cls,
        sys: ct.StateSpace | Plant,
        *,
        relative: float | None = None,
        absolute: float | None = None,
    ) -> PlantBox:
        """Return the box that knows every nonzero entry of A to D within an error.

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
        matrix = matrix_of(plant)
        widths = np.maximum(share * np.abs(matrix), size)
        return cls._of(plant, np.where(matrix != 0, widths, 0.0))

    @classmethod
    def _of(cls, plant: Plant, spread: NDArray) -> PlantBox:
        """The box around a plant with half-widths (n + p, n + m) of [A B; C D]."""
        n = plant.order
        upper, lower = np.split(spread, [n])
        return cls(
            plant, A=upper[:, :n], B=upper[:, n:], C=lower[:, :n], D=lower[:, n:]
        )

    @cached_property
    def _spread(self) -> NDArray:
        """Half-widths (n + p, n + m) of [A B; C D]."""
        return np.block([[self.A, self.B], [self.C, self.D]])

    @property
    def nominal(self) -> ct.StateSpace:
        """The plant in the middle."""
        return self.sys.statespace()

    def _described(self) -> bytes:
        widths = self._spread + 0.0  # makes zeros positive
        parts = (self.sys.fingerprint, self.assumptions, widths.tobytes())
        return repr(parts).encode()

    @property
    def clause(self) -> str:
        """The assumption of a guarantee for the box about the plant."""
        names = [name for name in "ABCD" if name in "AC" or getattr(self, name).any()]
        *others, last = names
        count = len(self.widths)
        box = f"{', '.join(others)} and {last} within a box of {count} intervals"
        return box + exception_of(self.miss)

    @property
    def widths(self) -> NDArray:
        """Half-widths (k,) of the uncertain entries, row by row of [A B; C D]."""
        return self._spread[self._spread > 0]

    def _mattering(self, adjacency: Adjacency) -> NDArray:
        """Mask (n + p, n + m) of uncertain entries on which the response to a secret depends."""
        secret: set[str] = set()
        for part in disturbances(adjacency):
            secret.update(part.signals(self.sys))
        enters = [name in secret for name in self.sys.inputs]
        return (self._spread > 0) & np.append(np.ones(self.sys.order, bool), enters)

    def at(self, offsets: ArrayLike) -> ct.StateSpace:
        """Return the plant at given offsets of the uncertain entries from the middle."""
        return self._moved(self._spread > 0, np.asarray(offsets)).statespace()

    def corners(self) -> list[ct.StateSpace]:
        """Return the plants at the corners, as for ``models=box.corners()``.

        Raises
        ------
        ValueError
            If more than 8 entries are uncertain: there would be too many corners.
        """
        count = len(self.widths)
        if count > _MOST_ENTRIES:
            raise ValueError(
                f"corners: expected at most {_MOST_ENTRIES} uncertain entries, got {count}"
            )
        return [self.at(corner * self.widths) for corner in signs(count)]

    def sampled(self, count: int, rng: Seed = None) -> list[ct.StateSpace]:
        """Return up to 256 corners and ``count`` plants drawn at random.

        A guarantee for them is SAMPLED: it covers these plants only.

        Parameters
        ----------
        count : int
        rng : None, int, SeedSequence or Generator, optional
        """
        size = (positive_integer(count, "count"), len(self.widths))
        draws = generator(rng).uniform(-1, 1, size)
        plants = self.corners() if len(self.widths) <= _MOST_ENTRIES else []
        return plants + [self.at(offsets) for offsets in draws * self.widths]

    def _holds(self, plant: Plant) -> bool:
        distance = np.abs(matrix_of(plant) - matrix_of(self.sys))
        return bool((distance <= self._spread).all())

    def standing(self, adjacency: Adjacency) -> tuple[Plant, ...]:
        """Return corners in the entries that matter to a secret, always the same ones."""
        entries = self._mattering(adjacency)
        count = int(entries.sum())
        if count <= _MOST_OF_POLYTOPE:
            return self.plants(adjacency)
        standing = _STANDING_DENSE if disturbances(adjacency) else _STANDING
        corners = generator(0).choice([-1.0, 1.0], size=(standing, count))
        offsets = corners * self._spread[entries]
        return tuple(self._moved(entries, offset) for offset in offsets)

    def plants(self, adjacency: Adjacency) -> tuple[Plant, ...]:
        """Return vertices of a polytope around all that the box knows of a secret.

        They are the corners of the entries that matter to it. With more than five such
        entries they are two for each, of the cross-polytope around the box.
        """
        entries = self._mattering(adjacency)
        widths = self._spread[entries]
        count = len(widths)
        sizes = np.abs(matrix_of(self.sys)[entries])
        widths = widths + EPS * (sizes + count * widths)  # vertices are rounded
        if count > _MOST_OF_POLYTOPE:
            corners = count * np.vstack([np.eye(count), -np.eye(count)])
        else:
            corners = signs(count)
        return tuple(self._moved(entries, corner * widths) for corner in corners)

    def _moved(self, entries: NDArray, offsets: NDArray) -> Plant:
        """The plant whose entries of a mask are moved by offsets."""
        matrix = matrix_of(self.sys)
        matrix[entries] += offsets
        return with_matrix(self.sys, matrix)

    def shift(
        self,
        parts: Sequence[NoisePart],
        adjacency: Adjacency,
        horizon: float,
        rough: bool = False,
    ) -> Shift:
        # a plant that may vary is more, and its bound may still be the closer one
        varied = super().shift
        if horizon == math.inf:
            return varied(parts, adjacency, horizon)
        few = self._mattering(adjacency).sum() <= _MOST_OF_POLYTOPE
        return least_bound(
            [
                partial(halved, self, parts, adjacency, int(horizon), rough),
                lambda: (varied(parts, adjacency, horizon).value, 0.0),
            ],
            enough=_CLOSE if few else _POOR,
        )


def box_around(plants: Sequence[Plant]) -> PlantBox:
    """The smallest box that contains some plants, its half-widths rounded up."""
    every = np.array([matrix_of(plant) for plant in plants])
    low = every.min(axis=0)
    high = every.max(axis=0)
    middle = (low + high) / 2
    widths = np.maximum(high - middle, middle - low)
    widths = np.where(widths > 0, round_up(widths), 0.0)
    return PlantBox._of(with_matrix(plants[0], middle), widths)


def halved(
    box: PlantBox,
    parts: Sequence[NoisePart],
    adjacency: Adjacency,
    horizon: int,
    rough: bool = False,
) -> tuple[float, float]:
    """A bound of y for every plant of a box, and one that some plant attains."""
    moves = [_moves_of(part, box, horizon) for part in adjacency.parts]
    return largest_shift(moves, parts, horizon, rough)


# -- hidden moves as free responses of uncertain plants ----------------------------------


@lru_cache(maxsize=4)
def _moves_of(part: Adjacency, box: PlantBox, horizon: int) -> UncertainMoves:
    """The moves of one part of an adjacency.

    A change of a disturbance is a free response as well: that of the plant with a queue of
    the values to come, in which entries of B and D are entries of the dynamics and the
    readout.
    """
    if isinstance(part, DisturbanceAdjacency):
        return _queued(part, box, horizon)
    matrix = np.vstack([box.sys.A, box.sys.C])
    spread = np.vstack([box.A, box.C])
    moves = part.moves(trajectory_manifold(box.sys, horizon))
    if not isinstance(moves, StateMoves):
        if not as_secret(part).suits_any_plant:
            raise ValueError(
                "models: a PlantBox is bounded for moves that do not depend on the plant, "
                'such as those of a StateAdjacency with charts="times"; pass corners and '
                "a list of plants for others"
            )
        return UncertainMoves(
            matrix,
            spread,
            moves.vectors,
            np.zeros(1, int),
            horizon,
            is_ball=moves.is_ball,
        )
    axes = moves.axes * moves.radii
    every = UncertainMoves(matrix, spread, axes, moves.times, horizon)
    return _without_delays(every) if every.back else every


def _without_delays(moves: UncertainMoves) -> UncertainMoves:
    """Return moves without delayed inputs, which they leave as they are.

    Raises
    ------
    ValueError
        If the box makes other states of the delayed inputs.
    """
    A = moves.matrix[: moves.order]
    if delayed_outputs(A).any():
        raise ValueError(
            "models: a PlantBox with delayed outputs is bounded for times=0; leave the "
            "delay of the outputs out, since what is published later is as private"
        )
    delays = delayed_inputs(A)
    if moves.spread[: moves.order][delays][:, ~delays].any():
        raise ValueError(
            "models: a half-width makes a delayed input depend on other states, "
            "so that these cannot be moved alone; leave its row of A out"
        )
    outputs = np.ones(len(moves.matrix) - moves.order, dtype=bool)
    kept = np.ix_(np.append(~delays, outputs), ~delays)
    return replace(
        moves,
        matrix=moves.matrix[kept],
        spread=moves.spread[kept],
        axes=moves.axes[~delays],
    )


def _queued(part: DisturbanceAdjacency, box: PlantBox, horizon: int) -> UncertainMoves:
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
    queue = reduce(beside, [queue_of(count)] * len(signals))
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
    return UncertainMoves(
        np.vstack([queued.A, queued.C]),
        np.vstack([widths.A, widths.C]),
        np.column_stack(axes),
        part.starts(horizon),
        horizon,
        forwards=True,
        is_ball=part.norm == "l2",
    )


# -- the largest shift, by halving -------------------------------------------------------


def signs(count: int) -> NDArray:
    """All rows (2^count, count) of -1 and 1."""
    return np.array(list(product((-1.0, 1.0), repeat=count)))


def largest_shift(
    every: Sequence[UncertainMoves],
    parts: Sequence[NoisePart],
    horizon: int,
    rough: bool = False,
) -> tuple[float, float]:
    """Return a certified upper bound of y under every plant, and one that is attained.

    With up to 8 uncertain entries boxes are halved until the bound is at most 0.1 % above
    what some plant attains, or there are 65 boxes, 9 for a rough bound. With more entries the corners are too
    many. What all but the widest four move the outputs by is added up then.

    Raises
    ------
    ValueError
        If the noise has no white floor.
    UncertifiableError
        If the bound is not finite.
    """
    if not PartSum(parts).white.all():
        raise ValueError(
            "models: a PlantBox needs Gaussian noise with a white floor (floor=...)"
        )
    whitening = _Whitening.of(parts, horizon)
    bounds = [_halved(moves, whitening, rough) for moves in every]
    upper, lower = np.max(bounds, axis=0)
    return float(upper), float(lower)


@dataclass(frozen=True, eq=False)
class _Box:
    """A box of offsets, what a plant in it attains, and bounds for all of them.

    ``bounds`` are those of each hidden move, or of the whole ball of them. ``split`` is
    the entry that moves the outputs most.
    """

    middle: NDArray
    widths: NDArray
    attained: float
    bounds: NDArray
    split: int

    @property
    def bound(self) -> float:
        """The largest of the bounds."""
        return float(self.bounds.max())

    @property
    def halves(self) -> list[tuple[NDArray, NDArray]]:
        """Middles and half-widths of the two halves."""
        step = np.zeros_like(self.widths)
        step[self.split] = self.widths[self.split] / 2
        narrow = self.widths - step
        return [(self.middle - step, narrow), (self.middle + step, narrow)]


def _halved(
    moves: UncertainMoves, whitening: _Whitening, rough: bool
) -> tuple[float, float]:
    """Return the bound for one part of an adjacency, and what some plant attains."""
    entries = len(moves.widths)
    most = _MOST_BOXES if entries <= _MOST_ENTRIES else _MOST_WIDE_BOXES
    if rough:
        most = _MOST_ROUGH_BOXES
    start = np.full(1 if moves.is_ball else moves.count, np.inf)
    boxes = [_bounded(moves, whitening, np.zeros(entries), moves.widths, start)]
    lower = boxes[0].attained
    while True:
        worst = max(boxes, key=lambda box: box.bound)
        if worst.bound <= lower * (1 + _SHARP) or not entries or len(boxes) >= most:
            break
        boxes.remove(worst)
        # what attains less everywhere in a box than something does decides nothing
        counted = np.where(worst.bounds > lower, worst.bounds, 0.0)
        with piece(len(boxes), most):
            for middle, widths in worst.halves:
                half = _bounded(moves, whitening, middle, widths, counted)
                lower = max(lower, half.attained)
                boxes.append(half)
    upper = max(worst.bound, lower)
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
    def of(cls, parts: Sequence[NoisePart], horizon: int) -> _Whitening:
        floor = np.tile(PartSum(parts).white, horizon)
        columns = PartSum(parts).responses(horizon).reshape(len(floor), -1)
        white = columns / floor[:, None]
        directions, sizes, _ = scipy.linalg.svd(white, full_matrices=False)
        shrink = 1 / np.sqrt(1 + sizes**2)
        return cls(floor, directions, shrink)

    def sizes(self, columns: NDArray) -> NDArray:
        """Norms (.., M) of outputs (.., T p, M) in units of the floor, at least y."""
        return np.linalg.norm(columns / self.floor[:, None], axis=-2)

    def apply(self, columns: NDArray) -> NDArray:
        """Columns whose norms are y, of outputs (.., T p, M)."""
        white = columns / self.floor[:, None]
        inside = self.directions.T @ white
        return white - self.directions @ ((1 - self.shrink)[:, None] * inside)

    @property
    def rounding(self) -> float:
        """What floating point may add to those norms, over `sizes`."""
        count = self.directions.shape[1] + 8
        return float(32 * EPS * count * np.sqrt(len(self.floor)))

    @property
    def error(self) -> float:
        """Relative error of the norms from rounded directions and sizes."""
        largest = 1 / self.shrink.min(initial=1.0)
        return 1e-12 + 16 * EPS * len(self.floor) * (1 + largest)


def _bounded(
    moves: UncertainMoves,
    whitening: _Whitening,
    middle: NDArray,
    widths: NDArray,
    before: NDArray,
) -> _Box:
    """Return a box with its bounds for moves that had positive ones in a larger box.

    What the linear part has at a corner, less what it leaves out there, is attained.
    """
    left_out, linear = _expanded(moves, tuple(middle.tolist()), tuple(widths.tolist()))
    counted = np.arange(moves.count) if moves.is_ball else np.flatnonzero(before)
    responses = moves.outputs(linear, counted)
    sizes = whitening.sizes(responses)
    beyond = whitening.sizes(moves.outputs(left_out, counted))
    rest = moves.joined(beyond + whitening.rounding * sizes.sum(axis=0))
    widest = np.argsort(-sizes[1:].max(axis=1), kind="stable")
    white, *slopes = whitening.apply(responses[[0, *(1 + widest)]])
    turned = len(slopes) if len(slopes) <= _MOST_ENTRIES else _TURNED
    attained = moves.worst_corner(white, slopes[:turned])
    worst = attained + sum(moves.size(slope) for slope in slopes[turned:])
    lower = (attained - rest).max(initial=0.0) * (1 - whitening.error)
    bounds = np.zeros_like(before)
    bounds[before > 0] = (worst + rest) * (1 + whitening.error)
    split = int(widest[0]) if slopes else 0
    return _Box(middle, widths, float(lower), bounds, split)


# -- free responses of uncertain plants ---------------------------------------------------


@dataclass(frozen=True, eq=False)
class UncertainMoves:
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
    def count(self) -> int:
        """Number M of moves."""
        return len(self.times) * self.axes.shape[1]

    @property
    def back(self) -> int:
        """Samples before the move that it changes."""
        return 0 if self.forwards else int(self.times.max())

    def size(self, columns: NDArray) -> NDArray:
        """The norm of each column, or the largest one of a ball's."""
        if self.is_ball:
            return np.array([np.linalg.norm(columns, 2) * (1 + _ROUNDED)])
        return np.linalg.norm(columns, axis=0)

    def worst_corner(self, middle: NDArray, slopes: Sequence[NDArray]) -> NDArray:
        """The largest of the sizes of middle + sum of +-slopes, all of shape (T p, M).

        Norms follow from inner products. The largest of all corners is at least the root of
        the mean of their squares, so rounding is small beside it.
        """
        turns = signs(len(slopes))
        if self.is_ball:
            stacked = np.reshape(slopes, (-1, *middle.shape))
            return _largest_norm(middle, stacked, turns)
        columns = np.transpose([middle, *slopes], (2, 0, 1))
        products = columns @ columns.swapaxes(1, 2)
        every = np.column_stack([np.ones(len(turns)), turns])
        squares = np.sum(every @ products * every, axis=2)
        return np.sqrt(squares.max(axis=1)) * (1 + _ROUNDED)

    def joined(self, errors: NDArray) -> NDArray:
        """What errors (M,) of the columns add to those sizes."""
        if self.is_ball:
            return np.array([np.linalg.norm(errors)])
        return errors

    @cached_property
    def places(self) -> NDArray:
        """Where the outputs (T p, M) of moves stand in a flat response, -1 before a move."""
        outputs = np.arange(len(self.matrix) - self.order)
        directions = np.arange(self.axes.shape[1])
        samples = self.back - self.times + np.arange(self.horizon)[:, None]
        every = samples[:, None, :, None]
        rows = every * len(outputs) + outputs[:, None, None]
        places = np.where(every < 0, -1, rows * len(directions) + directions)
        return places.reshape(-1, self.count)

    def outputs(self, long: NDArray, counted: NDArray) -> NDArray:
        """Outputs (.., T p, k) of some moves, from responses at t = -back .. forward."""
        flat = long.reshape(*long.shape[:-3], -1)
        none = np.zeros((*flat.shape[:-1], 1))
        return np.append(flat, none, axis=-1)[..., self.places[:, counted]]


def _largest_norm(middle: NDArray, slopes: NDArray, turns: NDArray) -> NDArray:
    """The largest norm (1,) of middle + sum of +-slopes, all of shape (m, n).

    The turns that raise the norm to first order lead to a corner. No other one is worse if
    its Gram matrix is below the square of that norm.
    """
    if len(middle) < middle.shape[1]:
        middle = middle.T
        slopes = slopes.swapaxes(1, 2)
    corner = middle
    largest = 0.0
    while True:
        left, sizes, right = np.linalg.svd(corner, full_matrices=False)
        if sizes[0] <= largest * (1 + _ROUNDED):
            break
        largest = float(sizes[0])
        rises = left[:, 0] @ slopes @ right[0]
        corner = middle + np.tensordot(np.where(rises < 0, -1.0, 1.0), slopes, 1)
    above = np.eye(middle.shape[1]) * (1 + _ROUNDED)
    for first in range(0, len(turns), _AT_ONCE):
        corners = middle + np.tensordot(turns[first : first + _AT_ONCE], slopes, 1)
        grams = corners.swapaxes(1, 2) @ corners
        try:
            np.linalg.cholesky(largest**2 * above - grams)
        except np.linalg.LinAlgError:
            worst = np.linalg.eigvalsh(grams)[:, -1].max()
            largest = max(largest, float(np.sqrt(worst)))
    return np.array([largest * (1 + 2 * _ROUNDED)])


@lru_cache(maxsize=512)  # a design asks again and again, for noise of other sizes
def _expanded(
    moves: UncertainMoves, middle: tuple[float, ...], widths: tuple[float, ...]
) -> tuple[NDArray, NDArray]:
    """Responses (times, p, q) of moves about a point of a box, for t = -back .. forward.

    The first array bounds what the first order leaves out in the box. The second one
    (1 + k, times, p, q) has the response of the plant in the middle, and the slopes by
    each uncertain entry, times its half-width. The derivative of A^t by an entry is the sum of A^(t-1-s) E A^s, E being one
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
    left_out = _left_out(moves, C, outputs, states, reach)
    linear = np.zeros((1 + len(reach), *left_out.shape))
    linear[0] = outputs[:, :, n:]
    past = slice(back - 1, None, -1)
    signal = states[:, :, n:]
    for slope, row, column, width in zip(linear[1:], *moves.entries, reach):
        enters = width * signal[:, column]
        if row >= n:
            slope[:, row - n] = enters
        else:
            leaves = outputs[:, :, row]
            slope[back + 1 :] = _convolved(leaves[back:-1], enters[back:-1])
            if back:
                slope[past] = -_convolved(leaves[past], enters[past])
    return left_out, linear


def _convolved(kernel: NDArray, signal: NDArray) -> NDArray:
    """Sums over s <= t of kernel (T, p) at t - s and signal (T, q) at s, as (T, p, q)."""
    samples = np.arange(len(kernel))
    lags = samples[:, None] - samples
    past = (lags >= 0)[:, :, None]
    table = np.where(past, kernel[lags], 0.0)
    return np.tensordot(table, signal, axes=(1, 0))


def _left_out(
    moves: UncertainMoves, C: NDArray, outputs: NDArray, states: NDArray, reach: NDArray
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
