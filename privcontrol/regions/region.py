"""Regions: sets of plants of which the true one is one, and how far noise hides it there.

A new kind of region is a class. It says which plants it holds and what a guarantee takes
for granted. Designs, guarantees and files ask it nothing else. Here are boxes of plants,
whose entries are known to within half-widths, and the convex combinations of given
plants, one of them or others at every sample.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import control as ct
import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike, NDArray

from ..core.adjacency import Adjacency
from ..noise.parts import Correlated, NoisePart, Structured
from ..noise.shift import Shift, certified_shift
from ..numerics.checks import (
    Seed,
    generator,
    instance_of,
    positive_integer,
    positive_number,
    real_array,
    sequence_of,
)
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import EPS, round_up
from ..numerics.objects import ByContent, CheckedFields
from ..numerics.saved import Saved
from ..numerics.thresholds import ROUNDED
from ..privacy.guarantee import shown
from ..privacy.horizon import Horizon, horizon_of
from ..secrets.secret import UncertainMoves
from ..secrets.secrets import Secrets
from ..systems.linear import LinearSystem, Plant
from .halving import MOST_ENTRIES, Glance, largest_shift, signs
from .near import shift_nearby

#: Uncertain entries up to which a box is the polytope of its corners.
_MOST_OF_POLYTOPE = 5
#: Corners, drawn at random, that stand for all where there are too many.
_STANDING = 3


class PlantRegion(CheckedFields, Saved, ABC):
    """Plants with the same names, of which the true one is one, or varies among them.

    Attributes
    ----------
    varying : bool
        Whether the plant may change from sample to sample.
    assumptions : tuple of str
        What must hold for the plant to be in the region. Every guarantee says it.
    miss : float
        Probability that the plant is not in the region. Every guarantee adds it to delta.
    """

    varying: bool
    assumptions: tuple[str, ...]
    miss: float
    plant_data: Plant  # the Plant to design for

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that identify a region, a start of a SHA-256 sum.

        The order of a polytope's vertices and its nominal plant do not count.
        """
        digest = hashlib.sha256(self._described())
        if self.miss:
            digest.update(repr(self.miss).encode())
        return digest.hexdigest()[:12]

    @abstractmethod
    def _described(self) -> bytes:
        """All that tells the region from others."""

    @property
    @abstractmethod
    def clause(self) -> str:
        """Return the assumptions of a guarantee for the region on the plant."""

    @property
    def clauses(self) -> tuple[str, ...]:
        """The clause and the assumptions."""
        return (self.clause, *self.assumptions)

    def contains(self, sys: ct.StateSpace | Plant) -> bool:
        """Return whether a plant is in the region, for polytopes to nine digits.

        Parameters
        ----------
        sys : control.StateSpace

        Returns
        -------
        bool
            False also if names or sampling time differ.

        Examples
        --------
        >>> import privcontrol as pc
        >>> box = pc.PlantBox(pc.plants.vehicle(), A=[[0.001, 0], [0, 0]])
        >>> box.contains(pc.plants.vehicle())
        True
        """
        plant = Plant.of(sys)
        return is_alike(self.plant_data, plant) and self._holds(plant)

    @abstractmethod
    def _holds(self, plant: Plant) -> bool:
        """Return whether the matrices of a plant are in the region."""

    def check_holds(self, plant: Plant) -> None:
        """Make sure that the plant which noise is designed for is in the region.

        Raises
        ------
        control.ControlDimension
            If the outputs or the sampling time are others.
        ValueError
            If the plant is outside.
        """
        self.plant_data.check_model_of(plant)
        if not self.contains(plant):
            raise ValueError(
                f"models: the plant {plant.name} is not in the {type(self).__name__}, so "
                "nothing would be promised for it; pass models.nominal as sys, or "
                "widen the region"
            )

    @abstractmethod
    def plants(self, adjacency: Adjacency) -> tuple[Plant, ...]:
        """Vertices of a polytope that contains all that the region knows of a secret."""

    def is_one(self, adjacency: Adjacency) -> bool:
        """Return whether all plants of the region answer to a secret as one."""
        return len(self.plants(adjacency)) == 1

    def standing(self, adjacency: Adjacency) -> tuple[Plant, ...]:
        """Return a few plants of the region, from which a design for a secret starts."""
        return self.plants(adjacency)

    def shift(
        self,
        parts: Sequence[NoisePart],
        adjacency: Adjacency,
        horizon: float,
        largest: float = math.inf,
    ) -> Shift:
        """Certify how far Gaussian noise hides a secret of every plant of the region.

        The plant may be another convex combination of `plants` at every sample. A region
        of plants that stay the same may have a closer bound.

        Parameters
        ----------
        parts : sequence of NoisePart
            Their sum is the noise.
        adjacency : Adjacency
        horizon : int or inf
        largest : float, optional
            A bound above it is of no use, and may be given as inf.

        Raises
        ------
        UncertifiableError
            If no bound is verified.
        ValueError
            If the noise or the secret has no bound, with the reason.
        """
        horizon = _checked(parts, adjacency, horizon)
        plants = self.plants(adjacency)
        several = not self.is_one(adjacency)
        return certified_shift(
            parts, adjacency, plants, horizon, varying=several, largest=largest
        )


def region_of(models: object) -> PlantRegion | None:
    """The region that models are, or were identified with, None for other models."""
    region = getattr(models, "box", models)
    return region if isinstance(region, PlantRegion) else None


# -- what makers of regions share --------------------------------------------------------


def is_alike(first: Plant, other: Plant) -> bool:
    """Return whether two plants have the same names and sampling time."""
    named = (first.states, first.inputs, first.outputs, first.dt)
    return named == (other.states, other.inputs, other.outputs, other.dt)


def checked_clauses(assumptions: object) -> tuple[str, ...]:
    """Clauses of a guarantee, as texts."""
    if isinstance(assumptions, str) or not isinstance(assumptions, (list, tuple)):
        raise TypeError(
            f"assumptions: expected a list of texts, got {type(assumptions).__name__}"
        )
    for clause in assumptions:
        if not isinstance(clause, str) or not clause:
            raise TypeError("assumptions: expected texts, got something else")
    return tuple(assumptions)


def checked_miss(miss: float) -> float:
    """The probability that a region does not hold."""
    miss = positive_number(miss, "miss", zero=True)
    if miss > 0.5:
        raise ValueError(f"miss: expected a probability of at most 0.5, got {miss}")
    return miss


def exception_of(miss: float) -> str:
    """Return what a clause about a region says of the probability that it misses."""
    if not miss:
        return ""
    return f", but for a probability of {shown(miss)}, counted in delta"


def matrix_of(plant: Plant) -> NDArray[np.float64]:
    """[A B; C D], shape (n + p, n + m)."""
    return np.block([[plant.A, plant.B], [plant.C, plant.D]])


def with_matrix(plant: Plant, matrix: NDArray[np.float64]) -> Plant:
    """A plant with another [A B; C D]."""
    n = plant.order
    return replace(
        plant,
        A=real_array(matrix[:n, :n], "A"),
        B=real_array(matrix[:n, n:], "B"),
        C=real_array(matrix[n:, :n], "C"),
        D=real_array(matrix[n:, n:], "D"),
    )


# -- convex combinations of plants -----------------------------------------------------


class _Nominal:
    """The keyword ``nominal``, kept as ``plant_data`` and read as a StateSpace."""

    def __get__(
        self, polytope: PlantPolytope | None, owner: type | None = None
    ) -> ct.StateSpace | None:
        return None if polytope is None else polytope.plant_data.statespace()

    def __set__(self, polytope: PlantPolytope, given: object) -> None:
        polytope.__dict__["plant_data"] = given


@dataclass(frozen=True, eq=False, repr=False)
class PlantPolytope(ByContent, PlantRegion):
    """Hold all convex combinations of given plants, its vertices.

    The matrices (A, B, C, D) of a plant inside are convex combinations of the vertices'
    matrices. The weights of a time-varying plant may change at every sample, and may
    depend on past outputs. This covers nonlinear plants: the difference of two runs
    obeys a linear time-varying plant within the Jacobians.

    Parameters
    ----------
    vertices : sequence of StateSpace
        Discrete-time plants with the same names of states, inputs and outputs and the same
        sampling time.
    varying : bool, optional
        Whether the plant may change from sample to sample. If not, it is one plant of the
        polytope for the whole run.
    nominal : StateSpace, optional
        The plant to design for; the mean of the vertices by default.
    assumptions : sequence of str, optional
        Conditions for the plant to be in the polytope, such as the region that a
        nonlinear plant stays in. Every guarantee says it.
    miss : float, optional
        Probability that the plant is not in the polytope. Every guarantee adds it to delta.

    Raises
    ------
    control.ControlArgument
        If a vertex is not a discrete-time StateSpace.
    control.ControlDimension
        If the sizes of two vertices differ.
    ValueError
        If there is no vertex, or names or sampling times differ.
    TypeError
        If ``vertices`` is no sequence, or ``varying`` no bool.

    See Also
    --------
    PlantBox, jacobian_polytope, design_output_noise

    Examples
    --------
    >>> import control as ct, privcontrol as pc
    >>> names = dict(states=["air"], inputs=["people"], outputs=["temperature"])
    >>> closed = ct.ss(0.9, 1.0, 1.0, 0.0, 300.0, **names)
    >>> window_open = ct.ss(0.8, 1.0, 1.0, 0.0, 300.0, **names)
    >>> room = pc.PlantPolytope([closed, window_open])
    >>> room
    PlantPolytope(2 vertices, varying)
    >>> half_open = ct.ss(0.85, 1.0, 1.0, 0.0, 300.0, **names)
    >>> room.contains(half_open)
    True
    """

    vertices: tuple[Any, ...]
    _: KW_ONLY
    varying: bool = True
    nominal: ct.StateSpace | None = field(default=None, compare=False)
    assumptions: tuple[str, ...] = ()
    miss: float = 0.0
    plant_data: Plant = field(init=False)

    def __post_init__(self) -> None:
        vertices = _plants_of(self.vertices)
        if not isinstance(self.varying, (bool, np.bool_)):
            raise TypeError(
                f"varying: expected True or False, got {type(self.varying).__name__}"
            )
        weights = np.full(len(vertices), 1 / len(vertices))
        nominal = _weighted(vertices, weights)
        if self.plant_data is not None:
            nominal = Plant.of(self.plant_data)
            _check_alike(vertices[0], nominal, "nominal")
        self._set(
            vertices=vertices,
            varying=bool(self.varying),
            plant_data=nominal,
            assumptions=checked_clauses(self.assumptions),
            miss=checked_miss(self.miss),
        )

    def _saved_fields(self) -> dict[str, object]:
        return super()._saved_fields() | {"nominal": self.plant_data}

    def _described(self) -> bytes:
        vertices = sorted({plant.fingerprint for plant in self.vertices})
        return repr((vertices, self.varying, self.assumptions)).encode()

    @property
    def clause(self) -> str:
        """The assumption of a guarantee for the polytope about the plant."""
        count = len(self.vertices)
        manner = "at every sample" if self.varying else "the same for the whole run"
        exception = exception_of(self.miss)
        return f"A, B, C and D between {count} given plants, {manner}{exception}"

    def plants(self, adjacency: Adjacency) -> tuple[Plant, ...]:
        """Return the vertices, for any secret."""
        return self.vertices

    def shift(
        self,
        parts: Sequence[NoisePart],
        adjacency: Adjacency,
        horizon: float,
        largest: float = math.inf,
    ) -> Shift:
        horizon = _checked(parts, adjacency, horizon)
        if self.varying and not self.is_one(adjacency):
            near = near_shift(self, parts, adjacency, horizon)
            if near < math.inf:
                return Shift(near)
        if self.varying or not horizon.ends or len(self.vertices) == 1:
            return super().shift(parts, adjacency, horizon, largest)
        # a plant that stays the same is also one of the smallest box around the polytope
        return halved(self._hull, parts, adjacency, int(horizon))

    @cached_property
    def _hull(self) -> PlantBox:
        """The smallest box that contains all plants."""
        return box_around(self.vertices)

    def _holds(self, plant: Plant) -> bool:
        columns = np.column_stack([matrix_of(each).ravel() for each in self.vertices])
        ones = np.ones(len(self.vertices))
        largest = float(np.abs(columns).max())
        scale = max(largest, np.finfo(float).tiny)
        stacked = np.vstack([columns / scale, ones])
        entries = matrix_of(plant).ravel() / scale
        wanted = np.append(entries, 1.0)
        weights, _ = scipy.optimize.nnls(stacked, wanted)
        errors = stacked @ weights - wanted
        distance = np.abs(errors).max()
        return bool(distance <= ROUNDED)

    def at(self, weights: ArrayLike) -> ct.StateSpace:
        """Return the plant of given weights.

        Parameters
        ----------
        weights : array_like, shape (number of vertices,)
            Not negative, with the sum one.

        Returns
        -------
        control.StateSpace

        Raises
        ------
        ValueError
            If a weight is negative, or their sum is not one.

        Examples
        --------
        >>> import control as ct, privcontrol as pc
        >>> room = pc.PlantPolytope([ct.ss(a, 1.0, 1.0, 0.0, 300.0) for a in (0.8, 0.9)])
        >>> round(float(room.at([0.5, 0.5]).A[0, 0]), 6)
        0.85
        """
        shares = real_array(weights, "weights", shape=(len(self.vertices),))
        if (shares < 0).any() or abs(shares.sum() - 1) > ROUNDED:
            raise ValueError(
                "weights: expected numbers >= 0 whose sum is 1, got a sum of "
                f"{shares.sum():.6g} and a least one of {shares.min():.3g}"
            )
        return _weighted(self.vertices, shares).statespace()

    def sampled(self, count: int, rng: Seed = None) -> list[ct.StateSpace]:
        """Return the vertices, and plants inside drawn at random.

        A guarantee for them covers these plants only.

        Parameters
        ----------
        count : int
        rng : None, int, SeedSequence or Generator, optional

        Returns
        -------
        list of control.StateSpace

        Examples
        --------
        >>> import control as ct, privcontrol as pc
        >>> room = pc.PlantPolytope([ct.ss(a, 1.0, 1.0, 0.0, 300.0) for a in (0.8, 0.9)])
        >>> len(room.sampled(3, rng=0))
        5
        """
        source = generator(rng)
        size = positive_integer(count, "count")
        ones = np.ones(len(self.vertices))
        plants = list(self.vertices)
        for shares in source.dirichlet(ones, size):
            plants.append(_weighted(self.vertices, shares))
        return [plant.statespace() for plant in plants]

    def __repr__(self) -> str:
        manner = "varying" if self.varying else "constant"
        return f"PlantPolytope({len(self.vertices)} vertices, {manner})"


#: After the class is made: dataclasses would take it for the default.
PlantPolytope.nominal = _Nominal()


def _plants_of(vertices: object) -> tuple[Plant, ...]:
    """Vertices as plants that are alike in all but their matrices."""
    if isinstance(vertices, (str, ct.InputOutputSystem)) or not isinstance(
        vertices, Sequence
    ):
        raise TypeError(
            "vertices: expected a list of StateSpace, such as [closed, window_open], "
            f"got {type(vertices).__name__}"
        )
    plants = tuple(Plant.of(vertex) for vertex in vertices)
    if not plants:
        raise ValueError("vertices: expected at least one plant, got none")
    for plant in plants[1:]:
        _check_alike(plants[0], plant, "vertices")
    return plants


def _check_alike(first: Plant, other: Plant, name: str) -> None:
    """Make sure that two plants differ in their matrices only."""
    if first.A.shape != other.A.shape or first.D.shape != other.D.shape:
        raise ct.ControlDimension(
            f"{name}: expected plants of the same size, got {first.order} and "
            f"{other.order} states, {len(first.inputs)} and {len(other.inputs)} inputs, "
            f"{len(first.outputs)} and {len(other.outputs)} outputs"
        )
    if not is_alike(first, other):
        raise ValueError(
            f"{name}: expected plants with the same dt and the same names of states, "
            "inputs and outputs; pass states=, inputs= and outputs= to ct.ss"
        )


def _weighted(plants: Sequence[Plant], weights: NDArray[np.float64]) -> Plant:
    """The mean plant with the names of the first one."""
    every = np.array([matrix_of(plant) for plant in plants])
    return with_matrix(plants[0], np.tensordot(weights, every, axes=1))


# -- boxes -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PlantBox(ByContent, PlantRegion):
    """Hold all plants whose matrices lie within half-widths of a nominal plant's.

    The plant is one of them for the whole run. For a time-varying plant use a
    `PlantPolytope`.

    Parameters
    ----------
    sys : control.StateSpace
        The middle, with n states, m inputs and p outputs.
    A, C, B, D : array_like or float, shapes (n, n), (p, n), (n, m) and (p, m), optional
        Half-widths, not negative; zero by default. A number is the half-width of every
        entry, zeros of the plant included; `around` takes zeros as exact. B and D matter
        if a disturbance is secret.
    assumptions, miss : optional
        As for a `PlantPolytope`.

    Raises
    ------
    control.ControlDimension
        If a half-width has another shape.
    ValueError
        If one is negative, or none is positive.

    See Also
    --------
    PlantPolytope, identify_outputs, identify_states, design_output_noise

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
            widths = real_array(0.0 if given is None else given, name)
            if widths.ndim == 0:
                widths = np.full_like(middle, widths)
            if widths.shape != middle.shape:
                raise ct.ControlDimension(
                    f"{name}: expected half-widths of shape {middle.shape}, or one number "
                    f"for every entry, got {widths.shape}"
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

    def __repr__(self) -> str:
        widths = self.widths
        return (
            f"PlantBox({len(widths)} uncertain entr{'y' if len(widths) == 1 else 'ies'}, "
            f"half-widths up to {widths.max():g})"
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

        Returns
        -------
        PlantBox
            Entries that are zero are known exactly.

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
    def _of(cls, plant: Plant, spread: NDArray[np.float64]) -> PlantBox:
        """The box around a plant with half-widths (n + p, n + m) of [A B; C D]."""
        n = plant.order
        upper, lower = np.split(spread, [n])
        return cls(
            plant, A=upper[:, :n], B=upper[:, n:], C=lower[:, :n], D=lower[:, n:]
        )

    @cached_property
    def _spread(self) -> NDArray[np.float64]:
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
        box += ", the same for the whole run"
        return box + exception_of(self.miss)

    @property
    def widths(self) -> NDArray[np.float64]:
        """Half-widths (k,) of the uncertain entries, row by row of [A B; C D]."""
        return self._spread[self._spread > 0]

    def _mattering(self, adjacency: Adjacency) -> NDArray[np.bool_]:
        """Mask (n + p, n + m) of uncertain entries on which the response to a secret depends."""
        secret = Secrets(adjacency).signals(self.sys)
        enters = [name in secret for name in self.sys.inputs]
        return (self._spread > 0) & np.append(np.ones(self.sys.order, bool), enters)

    def at(self, offsets: ArrayLike) -> ct.StateSpace:
        """Return the plant at given offsets of the uncertain entries from the middle.

        Parameters
        ----------
        offsets : array_like
            One for each entry of [A B; C D] whose half-width is positive, row by row.

        Returns
        -------
        control.StateSpace
            With the names and the sampling time of the middle.

        Examples
        --------
        >>> import privcontrol as pc
        >>> box = pc.PlantBox(pc.plants.vehicle(), A=[[0.001, 0], [0, 0]])
        >>> float(box.at([0.001]).A[0, 0])
        1.001
        """
        entries = self._spread > 0
        moved = real_array(offsets, "offsets", shape=(int(entries.sum()),))
        return self._moved(entries, moved).statespace()

    def corners(self) -> list[ct.StateSpace]:
        """Return the plants at the corners, as for ``models=box.corners()``.

        Returns
        -------
        list of control.StateSpace
            Two to the power of the number of uncertain entries.

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

        Returns
        -------
        list of control.StateSpace

        Examples
        --------
        >>> import privcontrol as pc
        >>> box = pc.PlantBox(pc.plants.vehicle(), A=[[0.001, 0], [0, 0]])
        >>> len(box.sampled(3, rng=0))
        5
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
        corners = generator(0).choice([-1.0, 1.0], size=(_STANDING, count))
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

    def _moved(self, entries: NDArray[np.bool_], offsets: NDArray[np.float64]) -> Plant:
        """The plant whose entries of a mask are moved by offsets."""
        matrix = matrix_of(self.sys)
        matrix[entries] += offsets
        return with_matrix(self.sys, matrix)

    def shift(
        self,
        parts: Sequence[NoisePart],
        adjacency: Adjacency,
        horizon: float,
        largest: float = math.inf,
    ) -> Shift:
        horizon = _checked(parts, adjacency, horizon)
        if not horizon.ends:
            return super().shift(parts, adjacency, horizon, largest)
        return halved(self, parts, adjacency, int(horizon))


def _checked(parts: object, adjacency: object, horizon: float) -> Horizon:
    """Return the horizon, and refuse one for which no shift can be certified."""
    for part in sequence_of(parts, "parts", "parts of noise"):
        instance_of(part, NoisePart, "parts", "noise.parts")
    instance_of(adjacency, Adjacency, "adjacency", "StateAdjacency")
    return horizon_of(horizon)


def box_around(plants: Sequence[Plant]) -> PlantBox:
    """The smallest box that contains some plants, its half-widths rounded up."""
    every = np.array([matrix_of(plant) for plant in plants])
    return box_between(plants[0], every.min(axis=0), every.max(axis=0))


def box_between(
    plant: Plant, low: NDArray[np.float64], high: NDArray[np.float64]
) -> PlantBox:
    """The box of all [A B; C D] between two, with the names of a plant."""
    middle = (low + high) / 2
    widths = np.maximum(high - middle, middle - low)
    widths = np.where(widths > 0, round_up(widths), 0.0)
    return PlantBox._of(with_matrix(plant, middle), widths)


def halved(
    box: PlantBox, parts: Sequence[NoisePart], adjacency: Adjacency, horizon: int
) -> Shift:
    """Certify the shift for every plant of a box, by halving it."""
    moves = _moves_in(box, adjacency, horizon)
    return Shift(largest_shift(moves, tuple(parts), horizon))


class Compared:
    """Say about how far noise that is only compared hides a secret of a region's plants."""

    def __init__(
        self, region: PlantRegion, adjacency: Adjacency, horizon: Horizon
    ) -> None:
        self._certified = partial(
            region.shift, adjacency=adjacency, horizon=float(horizon)
        )
        self._glance: Glance | None = None
        if isinstance(region, PlantPolytope) and len(region.vertices) > 1:
            region = region if region.varying else region._hull
        if horizon.ends and isinstance(region, PlantBox):
            run = int(horizon)
            self._glance = Glance(_moves_in(region, adjacency, run), run)

    def shift(self, parts: Sequence[NoisePart]) -> Shift:
        """Return a number near the certified shift, that one where no boxes are halved."""
        if self._glance is None:
            return self._certified(parts)
        return Shift(self._glance.shift(parts))


def _moves_in(
    box: PlantBox, adjacency: Adjacency, horizon: int
) -> tuple[UncertainMoves, ...]:
    """The moves of each part of an adjacency under all plants of a box."""
    return tuple(_moves_of(part, box, horizon) for part in adjacency.parts)


def near_shift(
    region: PlantPolytope,
    parts: Sequence[NoisePart],
    adjacency: Adjacency,
    horizon: Horizon,
) -> float:
    """Bound the shift of noise that is drawn for a run, beside a floor.

    It is infinite where the floor alone has a closer bound, and for noise that is drawn
    again at every sample, for which semidefinite programs find bounds.
    """
    is_of_run = any(isinstance(part, Structured | Correlated) for part in parts)
    if not (horizon.ends and is_of_run):
        return math.inf
    run = int(horizon)
    try:
        moves = _moves_in(region._hull, adjacency, run)
        return shift_nearby(moves, parts, run)
    except (ValueError, UncertifiableError):  # moves that depend on the plant
        return math.inf


@lru_cache(maxsize=4)
def _moves_of(part: Adjacency, box: PlantBox, horizon: int) -> UncertainMoves:
    """The moves of one part of an adjacency under all plants of a box."""
    widths = LinearSystem(box.A, box.B, box.C, box.D)
    (secret,) = Secrets(part).parts
    return secret.uncertain(box.sys, widths, horizon)
