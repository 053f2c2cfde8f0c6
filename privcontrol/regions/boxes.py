"""Boxes of plants: all plants whose entries are known to within half-widths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, lru_cache, partial, reduce
from typing import Any

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._frozen import ByContent
from ..core._linalg import (
    EPS,
    Seed,
    generator,
    positive_integer,
    positive_number,
    real_array,
    round_up,
)
from ..core.adjacency import Adjacency
from ..noise.parts import NoisePart
from ..noise.shift import Shift
from ..secrets.adjacency import StateMoves
from ..secrets.disturbance import DisturbanceAdjacency, disturbances
from ..secrets.manifold import trajectory_manifold
from ..secrets.secret import as_secret
from ..systems.linear import LinearSystem, beside, queue_of
from ..systems.plant import Plant
from ..systems.powers import delayed_inputs, delayed_outputs
from ._halving import MOST_ENTRIES, UncertainMoves, largest_shift, signs
from .region import (
    PlantRegion,
    checked_clauses,
    checked_miss,
    exception_of,
    least_bound,
    matrix_of,
    with_matrix,
)

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
        if not self._spread.any():
            raise ValueError(
                "A, B, C, D: expected at least one uncertain entry, got none"
            )

    @classmethod
    def around(
        cls, sys: Any, *, relative: float | None = None, absolute: float | None = None
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
    def plant_data(self) -> Plant:
        return self.sys

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
        if count > MOST_ENTRIES:
            raise ValueError(
                f"corners: expected at most {MOST_ENTRIES} uncertain entries, got {count}"
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
        plants = self.corners() if len(self.widths) <= MOST_ENTRIES else []
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
        self, parts: Sequence[NoisePart], adjacency: Adjacency, horizon: float
    ) -> Shift:
        # a plant that may vary is more, and its bound may still be the closer one
        varied = super().shift
        if horizon == math.inf:
            return varied(parts, adjacency, horizon)
        few = self._mattering(adjacency).sum() <= _MOST_OF_POLYTOPE
        return least_bound(
            [
                partial(halved, self, parts, adjacency, int(horizon)),
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
    box: PlantBox, parts: Sequence[NoisePart], adjacency: Adjacency, horizon: int
) -> tuple[float, float]:
    """A bound of y for every plant of a box, and one that some plant attains."""
    moves = [_moves_of(part, box, horizon) for part in adjacency.parts]
    return largest_shift(moves, parts, horizon)


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
    moves: Any = part.moves(trajectory_manifold(box.sys, horizon))
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
