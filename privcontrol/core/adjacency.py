"""Adjacencies say which moves of the private data must stay hidden.

An adjacency names the secret and its radius, and becomes a set of tangent moves on a
manifold. Which one is chosen decides what a guarantee means, and is written into it.
"""

from __future__ import annotations

import hashlib
import math
import operator
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from numbers import Real
from typing import Any, NoReturn, cast

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..numerics.balls import rational_matrix
from ..numerics.checks import (
    checked_norm,
    instance_of,
    moderate_number,
    one_of,
    real_array,
    sequence_of,
)
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import EPS, float_above
from ..numerics.objects import array_identity
from ..numerics.thresholds import CERTAIN, MOST_NAMED
from ..privacy.hidden import Hidden, no_adjacency, rounded_down
from .manifold import (
    AffineManifold,
    EllipsoidMoves,
    FiniteMoves,
    Moves,
    spanned,
)

#: Candidates for the corners of a box on a manifold that are gone through.
_MOST_CORNERS = 200_000

#: A radius as adjacencies hold it.
Radius = float | tuple[float, ...] | Mapping[str, float]

#: An entry of the data by index or label.
Entry = int | str


class Adjacency(Hidden):
    """State which pairs of private data must be indistinguishable.

    A subclass says which moves it hides, and states itself in words. Adjacencies do not
    change, and are equal if their descriptions are.

    See Also
    --------
    ManifoldAdjacency, BallAdjacency, DirectionAdjacency

    Examples
    --------
    >>> from privcontrol.core import AffineManifold, DirectionAdjacency
    >>> adjacency = DirectionAdjacency([[1.0], [-1.0]])
    >>> adjacency.moves(AffineManifold([[1.0, 1.0]])).vectors.shape
    (1, 1)
    """

    @abstractmethod
    def moves(self, manifold: AffineManifold) -> Moves:
        """Return the hidden moves in tangent coordinates.

        Parameters
        ----------
        manifold : AffineManifold
            Where the data lie.

        Returns
        -------
        Moves
            In tangent coordinates (k,) of the manifold.

        Examples
        --------
        >>> from privcontrol.core import *
        >>> pair = AffineManifold.from_kernel([[1.0], [-1.0]])
        >>> DirectionAdjacency([[2.0], [-2.0]]).moves(pair).columns.round(9)
        array([[2.]])
        """

    @property
    def parts(self) -> tuple[Adjacency, ...]:
        """The adjacencies that this one joins, itself unless it is a joint one."""
        return (self,)


@dataclass(frozen=True, eq=False, repr=False)
class DirectionAdjacency(Adjacency):
    """Hide explicit moves of the data, which lead from one data set to the other.

    Parameters
    ----------
    directions : array_like, shape (n, M)
        Public moves in data space, in the data's units, tangent to the manifold that they
        are used with. Their convex combinations are hidden too.

    Raises
    ------
    ValueError
        If the array is no matrix, or a column is zero.

    See Also
    --------
    BallAdjacency, ManifoldAdjacency

    Examples
    --------
    >>> DirectionAdjacency([[1.0], [-1.0]])
    DirectionAdjacency(1 direction in R^2)
    """

    directions: NDArray[np.float64]

    def __post_init__(self) -> None:
        moves = real_array(self.directions, "directions")
        if moves.ndim != 2:
            raise ValueError(
                "directions: expected shape (n, M), one column a move, got "
                f"{moves.shape}; write a single move as [[...], [...]] or move[:, None]"
            )
        if not moves.size or not np.any(moves, axis=0).all():
            raise ValueError(
                f"directions: expected nonzero columns (n, M), got shape {moves.shape} "
                "with an empty or zero column"
            )
        object.__setattr__(self, "directions", moves)

    def moves(self, manifold: AffineManifold) -> FiniteMoves:
        if len(self.directions) != checked_manifold(manifold).size:
            raise ValueError(
                f"directions: expected {manifold.size} rows, one an entry of the data, "
                f"got {len(self.directions)}"
            )
        return FiniteMoves(manifold.tangent(self.directions), data=self.directions)

    @property
    def statement(self) -> str:
        count = self.directions.shape[1]
        if count == 1:
            return "the data move along the given direction"
        return f"the data move along one of {count} given directions"

    def caveats(self, manifold: AffineManifold) -> tuple[str, ...]:
        return ("any other move, such as two of these at once",)

    def to_dict(self) -> dict[str, Any]:
        _, content = array_identity(self.directions)
        return {
            "type": "DirectionAdjacency",
            "shape": list(self.directions.shape),
            "sha256": hashlib.sha256(content).hexdigest(),
        }

    def __repr__(self) -> str:
        size, count = self.directions.shape
        plural = "" if count == 1 else "s"
        return f"DirectionAdjacency({count} direction{plural} in R^{size})"


@dataclass(frozen=True, eq=False)
class ManifoldAdjacency(Adjacency):
    """Hide moves of one entry by at most mu, the free others held (DPAM Definition 4).

    Two data sets are adjacent if they differ by a circuit v, a tangent vector of
    minimal support, some protected entry i of which moves by at most mu_i. The worst
    move has the scale max mu_i / |v_i|, so a tiny v_i makes a huge move: this adjacency
    is discontinuous in the constraints. Zeros are decided exactly. For plants prefer
    the block charts of `StateAdjacency`. All charts cost C(n, q + 1) candidates for q
    constraints on n entries, and more than 10 s of work is refused.

    Parameters
    ----------
    radius : float, array_like (n,) or (protected entries,), or mapping by label
        mu in the units of each entry. A mapping protects the named entries only.
    charts : "all" or sequence of sequences of int, optional
        Free sets of k entries, one protected of which moves while the others are held.
    entries : sequence of int or str, optional
        The protected entries, by index or label. All by default.

    Raises
    ------
    ValueError
        If a radius is not positive, an entry is unknown, or a chart is not free.

    See Also
    --------
    BallAdjacency, DirectionAdjacency, AffineManifold

    Examples
    --------
    >>> from privcontrol.core import AffineManifold, LinearQuery
    >>> manifold = AffineManifold([[1.0, 1.0, 1.0]])
    >>> query = LinearQuery([[1.0, 0, 0], [0, 1.0, 0]], manifold)
    >>> round(query.sensitivity(ManifoldAdjacency(1.0)), 6)
    1.414214
    >>> ManifoldAdjacency({"a": 0.05, "b": 0.1}).statement
    'a by at most 0.05 or b by at most 0.1, with what the public constraints move along'
    """

    radius: Any
    charts: str | Sequence[Sequence[int]] = "all"
    entries: tuple[Entry, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.charts, str):
            one_of(self.charts, "charts", ("all",))
        else:
            object.__setattr__(self, "charts", _checked_charts(self.charts))
        object.__setattr__(self, "radius", public_radius(self.radius))
        if self.entries is None:
            return
        if isinstance(self.radius, Mapping):
            raise ValueError(
                "radius already names the protected entries; drop entries, or pass an "
                "array of radii"
            )
        entries = sequence_of(self.entries, "entries", "indices or names")
        for k, entry in enumerate(entries):
            if not isinstance(entry, (int, str, np.integer)):
                raise TypeError(
                    f"entries: expected indices or names, got {type(entry).__name__}"
                )
            if isinstance(entry, np.integer):
                entries[k] = int(entry)
        object.__setattr__(self, "entries", tuple(entries))

    def _protected(self, size: int) -> tuple[Sequence[Entry], Sequence[float]]:
        """Return the protected ones of so many entries, and a radius for each."""
        if isinstance(self.radius, Mapping):
            return tuple(self.radius), tuple(self.radius.values())
        entries = range(size) if self.entries is None else self.entries
        if isinstance(self.radius, float):
            return entries, (self.radius,) * len(entries)
        return entries, self.radius

    def radii(self, manifold: AffineManifold) -> NDArray[np.float64]:
        """Return mu of every entry (n,), zero where it is not protected.

        Raises
        ------
        ValueError
            If the radii do not fit the entries, or a protected entry is unknown, public
            or named twice.
        """
        entries, values = self._protected(checked_manifold(manifold).size)
        index = [_position(manifold, entry) for entry in entries]
        if len(values) != len(index) or not index:
            raise ValueError(
                f"radius: expected {len(index)} radii, one a protected entry (at least "
                f"one), got {len(values)}"
            )
        radii = np.zeros(manifold.size)
        radii[index] = values
        if np.count_nonzero(radii) < len(index):
            raise ValueError(
                "entries: an entry is named twice; name each protected entry once"
            )
        pinned = [
            label for label in manifold.pinned if radii[_position(manifold, label)]
        ]
        chosen = self.entries is not None or isinstance(self.radius, Mapping)
        if pinned and chosen:
            raise ValueError(
                f"the manifold determines {', '.join(pinned[:5])}: a public entry cannot "
                "be protected"
            )
        return radii

    def moves(self, manifold: AffineManifold) -> Moves:
        manifold = checked_manifold(manifold)
        return manifold.circuit_moves(self.radii(manifold), self.charts)

    @property
    def statement(self) -> str:
        chart = ""
        if not isinstance(self.charts, str):
            chart = f" in one of {len(self.charts)} given free sets of entries"
        return f"{self._sizes()}{chart}, with what the public constraints move along"

    def _sizes(self) -> str:
        """Return which entries move, each by how much."""
        if isinstance(self.radius, float):
            named = self.entries
            who = "one entry" if named is None else listed(_names(named), "others")
            return f"{who} by at most {rounded_down(self.radius)}"
        entries, radii = self._protected(len(self.radius))
        pairs = zip(_names(entries), radii, strict=True)
        clauses = [f"{name} by at most {rounded_down(mu)}" for name, mu in pairs]
        rest = radii[MOST_NAMED:]
        if len(rest) > 1:
            sizes = f"{rounded_down(min(rest))} to {rounded_down(max(rest))}"
            others = f"one of {len(rest)} others by at most its radius ({sizes})"
            clauses[MOST_NAMED:] = [others]
        return " or ".join(clauses)

    def caveats(self, manifold: AffineManifold) -> tuple[str, ...]:
        protected = self.radii(manifold) > 0
        clauses = []
        if manifold.dimension > 1:
            clauses.append("two such moves at once")
        held = spanned(manifold.kernel, manifold.kernel[protected])
        loose = [manifold.labels[i] for i in np.flatnonzero(~held & ~protected)]
        if loose:
            entries = "entry" if np.count_nonzero(protected) == 1 else "entries"
            moved = listed(loose, "more")
            clauses.append(
                f"moves of {moved} that leave the protected {entries} in place"
            )
        return tuple(clauses)

    def to_dict(self) -> dict[str, Any]:
        charts: object = self.charts
        if not isinstance(self.charts, str):
            charts = [list(chart) for chart in self.charts]
        entries = None if self.entries is None else list(self.entries)
        radius = self.radius
        return {
            "type": "ManifoldAdjacency",
            "radius": list(radius) if isinstance(radius, tuple) else radius,
            "charts": charts,
            "entries": entries,
        }


@dataclass(frozen=True, eq=False)
class BallAdjacency(Adjacency):
    """Hide data sets that differ by at most a radius in a norm.

    That is ||x - x'||_p <= mu (IP Definition 1). The 2-ball is exact, and so are the
    1-ball, whose vertices are circuits, and small boxes. Every other ball is covered by
    a 2-ball: its guarantees are marked as upper bounds, and designs know no lower bound.

    Parameters
    ----------
    radius : float or sequence of float
        Radius in the data's unit, or one for each entry, in its own unit: then
        ||v||_p <= 1 with v_i = (x_i - x'_i) / mu_i.
    norm : float, optional
        p, from 1 to inf.

    Raises
    ------
    ValueError
        If a radius is not positive, or p is below 1. When moves are computed: if there
        is neither one radius nor one for each entry.

    See Also
    --------
    DirectionAdjacency, ManifoldAdjacency, design_gaussian

    Examples
    --------
    >>> from privcontrol.core import LinearQuery
    >>> round(LinearQuery([[1.0, 1.0]]).sensitivity(BallAdjacency(0.5)), 6)
    0.707107
    """

    radius: float | Sequence[float]
    norm: float = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", ball_radius(self.radius))
        object.__setattr__(self, "norm", float(checked_norm(self.norm)))

    def moves(self, manifold: AffineManifold) -> Moves:
        checked_manifold(manifold)
        radii = np.broadcast_to(self.radius, self._entries(manifold.size))
        if self.norm == 1:
            vertices = manifold.ball_vertices(radii)
            if vertices is not None:
                return vertices
        units = manifold.kernel / radii[:, None]
        if self.norm == np.inf:
            corners = _box_corners(units)
            if corners is not None:
                return FiniteMoves(corners)
        return self._around(units)

    def _entries(self, size: int) -> int:
        """Return the number of the data's entries, which that of radii must be."""
        radius = self.radius
        if isinstance(radius, tuple) and len(radius) != size:
            raise ValueError(
                f"radius: expected one number, or one for each of {size} entries, got "
                f"{len(radius)}"
            )
        return size

    def _around(self, units: NDArray[np.float64]) -> EllipsoidMoves:
        """Return the 2-ball, or one that covers the p-ball, from N / mu (n, k).

        ||v||_2 <= ||v||_p for p <= 2, and ||v||_2 <= n^(1/2 - 1/p) ||v||_p for others.
        """
        size, dimension = units.shape
        triangle = scipy.linalg.qr(units, mode="r")[0][:dimension]
        lengths = np.linalg.norm(triangle, axis=0)
        directions = triangle / lengths
        condition = np.linalg.cond(directions)
        error = 8 * EPS * dimension * condition
        if error > CERTAIN:
            raise UncertifiableError(
                "the manifold's directions are too nearly parallel for double precision "
                "to place a ball on it; rescale the data, or hide explicit directions "
                "(DirectionAdjacency)"
            )
        wider = float_above(size ** max(0.0, 0.5 - 1 / self.norm), 4)
        inverse = scipy.linalg.inv(directions) / lengths[:, None]
        factor = wider * (1 + error) * inverse
        return EllipsoidMoves(factor, exact=self.norm == 2)

    @property
    def statement(self) -> str:
        radius = self.radius
        if not isinstance(radius, tuple):
            size = rounded_down(cast("float", radius))
            return f"the data move by at most {size} in the {self.norm:g}-norm"
        sizes = listed(map(rounded_down, radius), "other radii", "and")
        if self.norm == math.inf:
            return (
                f"the entries of the data move by at most {sizes}, one radius for each"
            )
        return (
            f"the data move by at most 1 in the {self.norm:g}-norm, each entry in a unit "
            f"of its own: {sizes}"
        )

    def to_dict(self) -> dict[str, Any]:
        radius = self.radius
        return {
            "type": "BallAdjacency",
            "radius": list(radius) if isinstance(radius, tuple) else radius,
            "norm": str(self.norm),
        }


def ball_radius(radius: object) -> float | tuple[float, ...]:
    """Return the radius of a ball, or one for each entry, checked."""
    if isinstance(radius, list | tuple | np.ndarray):
        every = real_array(radius, "radius")
        if not every.size or every.ndim != 1:
            raise ValueError(
                "radius: expected a number, or one for each entry in a list, got shape "
                f"{every.shape}"
            )
        return tuple(moderate_number(size, "radius") for size in every.tolist())
    return moderate_number(radius, "radius")


def _box_corners(units: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return the corners +-z of {z : ||units z||_inf <= 1}, None if not placed."""
    size, dimension = units.shape
    if math.comb(size, dimension) * 2 ** (dimension - 1) > _MOST_CORNERS:
        return None
    signs = [(1, *rest) for rest in product((1, -1), repeat=dimension - 1)]
    right = np.array(signs, float).T
    corners = []
    for rows in combinations(range(size), dimension):
        square = units[list(rows)]
        condition = np.linalg.cond(square)
        if condition > 1e8:
            if rational_matrix(square).det() == 0:
                continue
            return None
        error = 1e-15 * dimension * condition
        candidates = np.linalg.solve(square, right)
        inside = np.abs(units @ candidates).max(axis=0) <= 1 + error
        corners.append(candidates[:, inside] * (1 + error))
    return np.hstack(corners)


def _names(entries: Iterable[object]) -> list[str]:
    """Return the names of entries given by index or label."""
    return [x if isinstance(x, str) else f"entry {x}" for x in entries]


def listed(names: Iterable[str], rest: str, last: str = "or") -> str:
    """Return "a, b or c" for names, and "a, ... or 7 others" for many."""
    names = list(names)
    more = len(names) - MOST_NAMED
    if more > 1:
        names[MOST_NAMED:] = [f"{more} {rest}"]
    if len(names) == 1:
        return names[0]
    first = ", ".join(names[:-1])
    return f"{first} {last} {names[-1]}"


def checked_adjacency(adjacency: object) -> Adjacency:
    """Return the adjacency itself, or raise an error that says how to write one."""
    if isinstance(adjacency, Adjacency):
        return adjacency
    raise no_adjacency(adjacency)


def checked_manifold(manifold: object) -> AffineManifold:
    """Return the manifold itself, or raise a ``TypeError``."""
    return instance_of(manifold, AffineManifold, "manifold", "AffineManifold(D, b)")


def _checked_charts(charts: Iterable[Iterable[int]]) -> tuple[tuple[int, ...], ...]:
    """Return charts as tuples of indices, at least one."""
    try:
        checked = tuple(tuple(map(operator.index, chart)) for chart in charts)
    except Exception as error:  # what a user's object raises
        raise TypeError(
            f"charts: expected sets of integers; {type(error).__name__}: {error}"
        ) from None
    if not checked:
        raise ValueError(
            'charts: expected "all" or at least one set of entries, got none'
        )
    return checked


def _position(manifold: AffineManifold, entry: Entry) -> int:
    """Return the position of an entry given by index or label."""
    if isinstance(entry, str) and entry in manifold.labels:
        return manifold.labels.index(entry)
    numbered = not isinstance(entry, (bool, str))
    if numbered and 0 <= int(entry) < manifold.size:
        return int(entry)
    raise ValueError(
        f"entries: {entry!r} is no entry of the data; there are {manifold.size}, such as "
        f"{manifold.labels[0]!r}"
    )


class _Radii(dict[str, float]):
    """Radii by name that do not change, since guarantees are compared by them."""

    def _refuse(self, *arguments: object, **named: object) -> NoReturn:
        raise TypeError("the radii of an adjacency are fixed; make another adjacency")

    __setitem__ = __delitem__ = __ior__ = _refuse
    update = setdefault = pop = popitem = clear = _refuse

    def __reduce__(self) -> tuple[object, ...]:
        return _Radii, (dict(self),)


def public_radius(radius: object) -> Radius:
    """Return a radius as adjacencies hold it, a float, a tuple of floats or a dict.

    A dict is sorted by name, so equal adjacencies number their moves alike.
    """
    if isinstance(radius, Mapping):
        named = {}
        for name, mu in radius.items():
            named[str(name)] = _one_radius(mu, f"radius[{name!r}]")
        if len(named) < len(radius):
            raise ValueError(
                "radius: expected different names, got two that read alike"
            )
        return _Radii(sorted(named.items()))
    if isinstance(radius, Real):
        return moderate_number(radius, "radius")
    radii = real_array(radius, "radius")
    if radii.ndim == 0:
        return moderate_number(float(radii), "radius")
    if radii.ndim != 1:
        raise ValueError(
            f"radius: expected a number or one dimension, got shape {radii.shape}"
        )
    return tuple(_one_radius(mu, "radius") for mu in radii.tolist())


def _one_radius(radius: object, name: str) -> float:
    """Return one of several radii, checked."""
    if isinstance(radius, Real) and radius == 0:
        raise ValueError(
            f"{name}: expected a finite number > 0, got 0; name only what is secret, as "
            "in {'position': 1.0}"
        )
    return moderate_number(radius, name)
