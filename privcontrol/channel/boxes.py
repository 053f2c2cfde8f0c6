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
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
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
from ..core.ellipsoid import solution_error
from ..core.errors import UncertifiableError
from ..trajectory.adjacency import StateAdjacency
from ..trajectory.disturbance import DisturbanceAdjacency, disturbances
from ..trajectory.manifold import free_outputs, trajectory_manifold
from ..trajectory.plant import Plant
from ..trajectory.powers import FreeResponse
from ._responses import dense_root
from .parts import Structured, White
from .polytope import PlantPolytope, checked_clauses, is_alike, statespace_of

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
#: States of the plants, with their derivatives, whose responses are computed together.
_MOST_CHAINED = 60
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

    def __post_init__(self) -> None:
        plant = Plant.of(self.sys)
        object.__setattr__(self, "sys", plant)
        object.__setattr__(self, "assumptions", checked_clauses(self.assumptions))
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
        return cls(middle_plant, **widths, assumptions=polytope.assumptions)

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
        return digest.hexdigest()[:12]

    @property
    def clause(self) -> str:
        """What a guarantee for the box takes for granted of the plant."""
        names = [name for name in "ABCD" if getattr(self, name).any() or name in "AC"]
        matrices = f"{', '.join(names[:-1])} and {names[-1]}"
        return f"{matrices} within a box of {len(self.entries)} intervals"

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


def largest_shift(noise: "OutputNoise", box: PlantBox, adjacency: Adjacency) -> float:
    """A certified upper bound of y for every plant of a box.

    With up to 8 uncertain entries boxes are halved until it is at most 0.1 % above what
    some plant attains, or 1 % after 400 boxes, and no longer than 600 boxes. With more
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
    judge = _judge_of(noise)
    return max(
        _largest_of(_Moves.of(part, box, noise.horizon), judge)
        for part in adjacency.parts
    )


def _largest_of(moves: "_Moves", judge: "_Judge") -> float:
    """The bound for one part of an adjacency, by halving boxes."""
    lower, upper = 0.0, np.inf
    boxes: list[tuple] = []
    few = len(moves.entries) <= _MOST_ENTRIES
    waiting = [(np.zeros(len(moves.entries)), moves.widths)]
    for count in range(0, _MOST_BOXES if few else _MOST_WIDE_BOXES, 2):
        for i, (middle, widths) in enumerate(waiting):
            attained, bound = _bounds(moves, judge, middle, widths)
            lower = max(lower, attained)
            heapq.heappush(boxes, (-bound, count + i, middle, widths))
        before, upper = upper, -boxes[0][0]
        sharp = _SHARP if count < _MANY_BOXES else _BLUNT
        if upper <= lower * (1 + sharp) or not len(moves.entries):
            return float(round_up(upper))
        if not few and before - upper < _SHARP * upper < np.inf:
            break  # halving one of many entries does not help
        _, _, middle, widths = heapq.heappop(boxes)
        step = np.where(
            np.arange(len(widths)) == int(np.argmax(widths / moves.widths)),
            widths / 2,
            0.0,
        )
        waiting = [(middle - step, widths - step), (middle + step, widths - step)]
    if np.isfinite(upper):
        return float(round_up(upper))
    raise UncertifiableError(
        f"the certified bound over the box, {upper:.3g}, does not come down to what "
        f"some plant in it attains, {lower:.3g}: narrow the half-widths or the uncertain "
        "entries, or pass box.sampled(count), whose guarantee covers the sampled plants only"
    )


# -- the norm in which privacy is measured -----------------------------------------------


@dataclass(frozen=True)
class _Whitened:
    """The norm of outputs in which privacy is measured: y = ||apply(s)||, and y <= ||s / floor|| for every s."""

    floor: np.ndarray
    directions: np.ndarray
    shrink: np.ndarray

    @classmethod
    def of(cls, noise: Any) -> "_Whitened":
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


@dataclass(frozen=True)
class _Dense:
    """The same norm, for noise beside a floor of any other parts, by a triangular root."""

    floor: np.ndarray
    root: np.ndarray
    solution_error: np.ndarray
    error_bound: float

    @classmethod
    def of(cls, noise: Any) -> "_Dense":
        root, error_bound = dense_root(noise)
        if root is None:
            raise UncertifiableError(
                "models: the noise is too badly scaled for double precision; raise the "
                "floor"
            )
        floor = np.tile(noise.white, noise.horizon)
        return cls(floor, root, 2 * solution_error(root), error_bound)

    def apply(self, columns: NDArray) -> NDArray:
        return scipy.linalg.solve_triangular(self.root, columns, lower=True)

    def rounding(self, columns: NDArray) -> NDArray:
        solved = np.abs(self.apply(columns))
        error = self.solution_error @ solved + self.error_bound * solved
        return np.linalg.norm(error + 16 * EPS * solved, axis=0)


_Judge = _Whitened | _Dense


def _judge_of(noise: "OutputNoise") -> _Judge:
    if noise.consists_of(Structured, White):
        return _Whitened.of(noise)
    return _Dense.of(noise)


def _bounds(
    moves: "_Moves", judge: _Judge, middle: NDArray, widths: NDArray
) -> tuple[float, float]:
    """What the middle of a box attains, and an upper bound of y for all of it."""
    expansion = _Expansion.of(moves, middle)
    # the middle is rounded
    widths = widths + 4 * EPS * (np.abs(middle) + np.abs(moves.nominal))
    parts = [
        moves.outputs(response) for response in (expansion.base, *expansion.slopes)
    ]
    base, *slopes = (judge.apply(part) for part in parts)
    rest = moves.outputs(expansion.remainder(widths)) / judge.floor[:, None]
    beyond = np.linalg.norm(rest, axis=0)
    for size, part in zip((1.0, *widths), parts):
        beyond = beyond + size * judge.rounding(part)
    if moves.is_ball:
        # any unit combination of the columns
        attained = np.linalg.norm(base, 2)
        worst = _worst_of_linear_part(base, slopes, widths, _spectral)
        bound = (worst + np.linalg.norm(beyond)) * (1 + 1e-12)
        return float(attained * (1 - 1e-12)), float(bound)
    worst = _worst_of_linear_part(base, slopes, widths, _of_columns)
    attained = np.linalg.norm(base, axis=0).max()
    return float(attained), float((worst + beyond).max() * (1 + 1e-12))


def _of_columns(columns: NDArray) -> NDArray:
    return np.linalg.norm(columns, axis=0)


def _spectral(columns: NDArray) -> NDArray:
    return np.array(np.linalg.norm(columns, 2) * (1 + 1e-12))


def _worst_of_linear_part(
    base: NDArray, slopes: Sequence[NDArray], widths: NDArray, size: Any
) -> NDArray:
    """Sizes that base + sum of offsets times slopes stays below within the widths."""
    if len(slopes) > _MOST_ENTRIES:
        worst = size(base)
        for width, slope in zip(widths, slopes):
            worst = worst + width * size(slope)
        return worst
    worst = np.zeros_like(size(base))
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
    forwards: bool
    is_ball: bool

    @classmethod
    def of(cls, part: Adjacency, box: PlantBox, horizon: int) -> "_Moves":
        """The moves of one part of an adjacency."""
        entries = box.entries_for(part)
        widths = np.array([getattr(box, name)[i, j] for name, i, j in entries])
        nominal = np.array([getattr(box.sys, name)[i, j] for name, i, j in entries])
        known: dict[str, Any] = dict(widths=widths, nominal=nominal, horizon=horizon)
        A, C = box.sys.A, box.sys.C
        if isinstance(part, DisturbanceAdjacency):
            A, C, axes, entries = _queued(part, box.sys, entries)
            return cls(
                A,
                C,
                axes,
                entries,
                times=part.starts(horizon),
                forwards=True,
                is_ball=part.norm == "l2",
                **known,
            )
        moves: Any = part.moves(trajectory_manifold(box.sys, horizon))
        if isinstance(part, StateAdjacency) and part.charts == "times":
            axes = moves.axes * moves.radii
            times, is_ball = moves.times, False
        elif isinstance(part, StateAdjacency):
            raise ValueError(
                'models: a PlantBox is bounded for charts="times"; pass corners and a list '
                "of plants for all charts"
            )
        else:
            axes, times, is_ball = moves.vectors, np.zeros(1, int), moves.is_ball
        return cls(
            A, C, axes, entries, times=times, forwards=False, is_ball=is_ball, **known
        )

    @property
    def back(self) -> int:
        """Samples before the move that it changes."""
        return 0 if self.forwards else int(self.times.max())

    @property
    def forward(self) -> int:
        """Samples after the move that are seen."""
        return self.horizon - 1 - int(self.times.min())

    def matrices(self, offsets: NDArray) -> tuple[NDArray, NDArray]:
        """A and C at given offsets of the entries."""
        moved = {"A": self.A.copy(), "C": self.C.copy()}
        for (name, i, j), offset in zip(self.entries, offsets):
            moved[name][i, j] += offset
        return moved["A"], moved["C"]

    def outputs(self, long: NDArray) -> NDArray:
        """Outputs (T p, M) of every move, from a response at t = -back .. forward."""
        frames = []
        for time in self.times:
            first = self.back - int(time)
            frame = np.zeros((self.horizon, *long.shape[1:]))
            begin = max(-first, 0)
            frame[begin:] = long[first + begin : first + self.horizon]
            frames.append(frame.reshape(-1, long.shape[2]))
        return np.hstack(frames)


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
    """Responses (times, p, q) of moves about a point of a box, and their slopes."""

    moves: _Moves
    matrices: tuple[NDArray, NDArray]
    base: NDArray
    slopes: tuple[NDArray, ...]

    @classmethod
    def of(cls, moves: _Moves, middle: NDArray) -> "_Expansion":
        A, C = moves.matrices(middle)
        inner = [entry for entry in moves.entries if entry[0] == "A"]
        together = max(_MOST_CHAINED // len(A) - 1, 1)
        derivatives: list[NDArray] = []
        for first in range(0, max(len(inner), 1), together):
            chained = inner[first : first + together]
            base, states, found = _derivatives(moves, A, C, chained)
            derivatives += found
        of_inner = iter(derivatives)
        slopes = []
        for name, i, j in moves.entries:
            if name == "A":
                slopes.append(next(of_inner))
                continue
            slope = np.zeros_like(base)
            slope[:, i] = states[:, j]
            slopes.append(slope)
        return cls(moves, (A, C), base, tuple(slopes))

    def remainder(self, widths: NDArray) -> NDArray:
        """Entrywise bounds of what the first order leaves out, for offsets within ``widths``."""
        A, C = self.matrices
        spread = {"A": np.zeros_like(A), "C": np.zeros_like(C)}
        for (name, i, j), width in zip(self.moves.entries, widths):
            spread[name][i, j] = width
        axes, back = self.moves.axes, self.moves.back
        count = len(self.base) - back
        future = np.minimum(
            _majorants(A, C, spread, axes, count, inverse=False),
            _majorants(A, C, spread, axes, count, inverse=False, rotated=False),
        )
        if not back:
            return future
        past = _majorants(A, C, spread, axes, back + 1, inverse=True)
        return np.concatenate([past[:0:-1], future])


def _derivatives(
    moves: _Moves, A: NDArray, C: NDArray, inner: Sequence[Entry]
) -> tuple[NDArray, NDArray, list[NDArray]]:
    """Outputs and states of the moves, and the outputs' derivatives by entries of A.

    A plant and its derivative are a plant of twice as many states.
    """
    n = len(A)
    chain = np.kron(np.eye(1 + len(inner)), A)
    for k, (_, i, j) in enumerate(inner):
        chain[n * (k + 1) + i, j] = 1.0
    start = np.vstack([moves.axes, np.zeros((n * len(inner), moves.axes.shape[1]))])
    readout = np.vstack([np.kron(np.eye(1 + len(inner)), C), np.eye(n, len(chain))])
    response = FreeResponse(chain, start, moves.back, moves.forward)
    ends = len(C) * np.arange(1, 2 + len(inner))
    base, *found, states = np.split(response.outputs(readout), ends, axis=1)
    return base, states, found


def _majorants(
    A: NDArray,
    C: NDArray,
    spread: Mapping[str, NDArray],
    axes: NDArray,
    count: int,
    *,
    inverse: bool,
    rotated: bool = True,
) -> NDArray:
    """Bounds (count, p, q) of the second and higher orders of C A^(+-t) V, t = 0 .. count - 1.

    They are in Schur coordinates if ``rotated``, or else in those of the balanced plant,
    in which nothing is lost if A has no negative entries.

    With |J_0| <= a, |J_1| <= b, |J_2| <= c for the step's value, first order and rest, the state's parts obey
    P' = a P, L' = a L + b P, R' = a R + b (L + R) + c (P + L + R), entry by entry; nothing is subtracted.
    """
    n = len(A)
    _, scale = scipy.linalg.matrix_balance(A, permute=False, separate=True)
    balance = scale[0]
    triangle, basis = A * balance / balance[:, None], np.eye(n)
    if rotated:
        triangle, basis = scipy.linalg.schur(triangle, output="complex")
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
