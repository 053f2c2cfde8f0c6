"""All weighted means of given plants, one of them or others at every sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

import control as ct
import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike, NDArray

from ..core._linalg import Seed, generator, positive_integer, real_array
from ..core._objects import ByContent
from ..core.adjacency import Adjacency
from ..noise.parts import NoisePart
from ..noise.shift import Shift
from ..systems.linear import Plant
from .boxes import box_around, halved
from .region import (
    PlantRegion,
    checked_clauses,
    checked_miss,
    exception_of,
    is_alike,
    least_bound,
    matrix_of,
    with_matrix,
)

#: Distance of a plant to the polytope, relative to the size of the matrices, up to which
#: it counts as inside.
_INSIDE = 1e-9


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
    """Hold all weighted means of given plants, its vertices.

    The matrices (A, B, C, D) of a plant inside are the sum of those of the vertices with
    weights >= 0 that add up to one. A plant that varies may have other weights at every
    sample, also such as depend on what was published before. A nonlinear plant is one: two
    of its runs differ as a linear plant does that varies within the plant's Jacobians.

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
        What must hold for the plant to be in the polytope, such as the region that a
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
        rough: bool = False,
    ) -> Shift:
        # a plant that stays the same is also one of the smallest box around the polytope
        varied = super().shift
        if self.varying or horizon == math.inf or len(self.vertices) == 1:
            return varied(parts, adjacency, horizon)
        box = box_around(self.vertices)
        return least_bound(
            [
                partial(halved, box, parts, adjacency, int(horizon), rough),
                lambda: (varied(parts, adjacency, horizon).value, 0.0),
            ]
        )

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
        return bool(distance <= _INSIDE)

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
        """
        shares = real_array(weights, "weights", shape=(len(self.vertices),))
        if (shares < 0).any() or abs(shares.sum() - 1) > 1e-9:
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


def _weighted(plants: Sequence[Plant], weights: NDArray) -> Plant:
    """The mean plant with the names of the first one."""
    every = np.array([matrix_of(plant) for plant in plants])
    return with_matrix(plants[0], np.tensordot(weights, every, axes=1))
