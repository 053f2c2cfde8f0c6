"""Adjacency: which moves of the private data must stay hidden.

An adjacency names the secret and its radius, and resolves against a manifold to a set of tangent moves. Which one is
chosen decides what a guarantee means: it is written into every guarantee.
"""

import hashlib
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, product
from numbers import Real

import numpy as np
import scipy.linalg
from flint import fmpq, fmpq_mat

from ._linalg import EPS, one_of, positive_number, real_array
from ._random import generator
from .errors import UncertifiableError
from .moves import (
    MOST_ENTRIES,
    MOST_MOVES,
    EllipsoidMoves,
    FiniteMoves,
    StreamedMoves,
    spanned,
)

#: Entries that a statement names; of more it gives the number.
_MOST_NAMED = 5


class Adjacency(ABC):
    """Which pairs of private data must look alike.

    A subclass says which moves it hides and states itself in words; guarantees carry that statement.

    Examples
    --------
    >>> from privcontrol.core import AffineManifold, DirectionAdjacency
    >>> adjacency = DirectionAdjacency([[1.0], [-1.0]])
    >>> isinstance(adjacency, Adjacency), adjacency.moves(AffineManifold([[1.0, 1.0]])).columns.shape
    (True, (1, 1))
    """

    @abstractmethod
    def moves(self, manifold):
        """The hidden moves in tangent coordinates: `FiniteMoves`, `StreamedMoves` or `EllipsoidMoves`."""

    @property
    @abstractmethod
    def statement(self):
        """One public clause: what moves, and by how much."""

    @abstractmethod
    def to_dict(self):
        """JSON-ready public description; equal descriptions mean equal adjacencies."""

    @property
    def parts(self):
        """The adjacencies that this one joins: itself, unless it is a joint one."""
        return (self,)

    def caveats(self, manifold):
        """Sentences on what this adjacency does not hide, for the guarantee's text."""
        return ()

    def __eq__(self, other):
        return isinstance(other, Adjacency) and self.to_dict() == other.to_dict()

    def __hash__(self):
        return hash(repr(self.to_dict()))


@dataclass(frozen=True, eq=False, repr=False)
class DirectionAdjacency(Adjacency):
    """Explicit moves of the data, already scaled: x and x' are adjacent if they differ by one of them.

    Parameters
    ----------
    directions : array_like, shape (n, M)
        Moves in data space, in the data's units; each must be tangent to the manifold it is used with. They are
        public. Smaller moves along the same line, and convex combinations, are hidden too.

    Examples
    --------
    >>> DirectionAdjacency([[1.0], [-1.0]])
    DirectionAdjacency(1 direction in R^2)
    """

    directions: np.ndarray

    def __post_init__(self):
        if np.ndim(self.directions) == 1:
            raise ValueError(
                f"directions: expected shape (n, M), one column a move, got {np.shape(self.directions)}; write a single "
                "move as [[...], [...]] or move[:, None]"
            )
        moves = real_array(self.directions, "directions", ndim=2)
        if not moves.size or not np.any(moves, axis=0).all():
            raise ValueError(
                f"directions: expected nonzero columns (n, M), got shape {moves.shape} with an empty or zero column"
            )
        object.__setattr__(self, "directions", moves)

    def moves(self, manifold):
        if len(self.directions) != manifold.size:
            raise ValueError(
                f"directions: expected {manifold.size} rows, one an entry of the data, got {len(self.directions)}"
            )
        return FiniteMoves(manifold.tangent(self.directions), data=self.directions)

    @property
    def statement(self):
        count = self.directions.shape[1]
        return f"the data move along {'the' if count == 1 else 'one of ' + str(count)} given direction{'s' * (count > 1)}"

    def caveats(self, manifold):
        return ("any other move, such as two of these at once",)

    def to_dict(self):
        digest = hashlib.sha256(
            np.ascontiguousarray(self.directions).tobytes()
        ).hexdigest()
        return {
            "type": "DirectionAdjacency",
            "shape": list(self.directions.shape),
            "sha256": digest,
        }

    def __repr__(self):
        n, count = self.directions.shape
        return f"DirectionAdjacency({count} direction{'s' * (count != 1)} in R^{n})"


@dataclass(frozen=True, eq=False)
class ManifoldAdjacency(Adjacency):
    """DPAM Definition 4: a free set of entries, one of which moves by at most mu, the manifold moves the rest.

    Two data sets are adjacent if they differ by a circuit (a vector of minimal support that is tangent to the
    manifold) some protected entry i of which moves by at most mu_i. The worst move along a circuit v has the scale
    max mu_i / |v_i| over the protected entries of its support, so that a tiny v_i makes a huge move: this adjacency
    is discontinuous in the constraints. Zeros are decided exactly; for plants prefer the block charts of
    `StateAdjacency`. All charts cost C(n, q + 1) candidates for q constraints on n entries; what would take more than
    minutes is refused, and `DirectionAdjacency` or `BallAdjacency` hide given moves, or all up to a length.

    Parameters
    ----------
    radius : float, array_like (n,) or (protected entries,), or mapping by label
        mu in the units of each entry. With a mapping only the named entries are protected.
        The guarantee's text names the radii, up to five of them.
    charts : "all" or sequence of sequences of int, optional
        Free index sets: in a chart {i, ...} of k entries one protected entry moves, the others are held.
    entries : sequence of int or str, optional
        The protected entries, by index or label; all by default.

    Raises
    ------
    ValueError
        If a radius is not positive, an entry is unknown, or a chart is not free.

    Examples
    --------
    >>> from privcontrol.core import AffineManifold, LinearQuery
    >>> query = LinearQuery([[1.0, 0, 0], [0, 1.0, 0]], AffineManifold([[1.0, 1.0, 1.0]]))
    >>> round(query.sensitivity(ManifoldAdjacency(1.0)), 6)
    1.414214
    >>> ManifoldAdjacency({"a": 0.05, "b": 0.1}).statement
    'a by at most 0.05 or b by at most 0.1, with what the public constraints move along'
    """

    radius: object
    charts: object = "all"
    entries: tuple | None = None

    def __post_init__(self):
        if isinstance(self.charts, str):
            one_of(self.charts, "charts", ("all",))
        else:
            charts = tuple(
                tuple(operator.index(i) for i in chart) for chart in self.charts
            )
            if not charts:
                raise ValueError(
                    'charts: expected "all" or at least one set of entries, got none'
                )
            object.__setattr__(self, "charts", charts)
        object.__setattr__(self, "radius", public_radius(self.radius))
        if self.entries is not None:
            object.__setattr__(self, "entries", tuple(self.entries))

    def radii(self, manifold):
        """mu of every entry (n,), zero where it is not protected."""
        if isinstance(self.radius, Mapping):
            if self.entries is not None:
                raise ValueError(
                    "radius already names the protected entries; drop entries, or pass an array of radii"
                )
            index, values = (
                _entry_index(manifold, self.radius),
                list(self.radius.values()),
            )
        else:
            index = _entry_index(
                manifold, range(manifold.size) if self.entries is None else self.entries
            )
            values = (
                [self.radius] * len(index)
                if np.ndim(self.radius) == 0
                else list(self.radius)
            )
        if len(values) != len(index) or not index:
            raise ValueError(
                f"radius: expected {len(index)} radii, one a protected entry (at least one), got {len(values)}"
            )
        if len(set(index)) < len(index):
            raise ValueError(
                "entries: an entry is named twice; name each protected entry once"
            )
        pinned = [
            manifold.labels[i] for i in index if manifold.labels[i] in manifold.pinned
        ]
        if pinned and (self.entries is not None or isinstance(self.radius, Mapping)):
            raise ValueError(
                f"the manifold determines {', '.join(pinned[:5])}: a public entry cannot be protected"
            )
        out = np.zeros(manifold.size)
        out[index] = values
        return out

    def moves(self, manifold):
        return circuit_moves(manifold, self.radii(manifold), self.charts)

    def sampled_lower_bound(self, query, *, samples, rng=None, norm=2):
        """A LOWER bound of the query's sensitivity from random charts: it proves that noise is too small, never enough."""
        manifold, rng, best = query.manifold, generator(rng), 0.0
        radii = self.radii(manifold)
        for _ in range(samples):
            chart = rng.choice(manifold.size, manifold.dimension, replace=False)
            try:
                (block,) = manifold.circuit_moves(radii, [chart])
            except ValueError:  # not a free set
                continue
            best = (
                max(best, block.worst(query.response, norm).value)
                if block.columns.size
                else best
            )
        return best

    @property
    def statement(self):
        chart = (
            ""
            if isinstance(self.charts, str)
            else f" in one of {len(self.charts)} given free sets of entries"
        )
        return f"{self._sizes()}{chart}, with what the public constraints move along"

    def _sizes(self):
        """Which entries move, each by how much."""
        named = (
            None
            if self.entries is None
            else [x if isinstance(x, str) else f"entry {x}" for x in self.entries]
        )
        if isinstance(self.radius, float):
            return f"{'one entry' if named is None else listed(named, 'others')} by at most {self.radius:g}"
        radii = list(
            self.radius.values() if isinstance(self.radius, Mapping) else self.radius
        )
        names = (
            self.radius
            if isinstance(self.radius, Mapping)
            else named or [f"entry {i}" for i in range(len(radii))]
        )
        parts = [f"{name} by at most {mu:g}" for name, mu in zip(names, radii)]
        if len(rest := radii[_MOST_NAMED:]) > 1:
            parts[_MOST_NAMED:] = [
                f"one of {len(rest)} others by at most its radius ({min(rest):g} to {max(rest):g})"
            ]
        return " or ".join(parts)

    def caveats(self, manifold):
        radii = self.radii(manifold)
        caveats = ("two such moves at once",) if manifold.dimension > 1 else ()
        loose = _loose(manifold, radii > 0)
        if not loose:
            return caveats
        held = (
            "the protected entry"
            if np.count_nonzero(radii) == 1
            else "the protected entries"
        )
        return (
            *caveats,
            f"moves of {listed(loose, 'more')} that leave {held} in place",
        )

    def to_dict(self):
        radius = (
            self.radius
            if isinstance(self.radius, (float, Mapping))
            else list(self.radius)
        )
        charts = (
            self.charts
            if isinstance(self.charts, str)
            else [list(chart) for chart in self.charts]
        )
        entries = None if self.entries is None else list(self.entries)
        return {
            "type": "ManifoldAdjacency",
            "radius": radius,
            "charts": charts,
            "entries": entries,
        }


@dataclass(frozen=True, eq=False)
class BallAdjacency(Adjacency):
    """Data sets on the manifold that differ by at most a radius in a norm: ||x - x'||_p <= radius (IP Definition 1).

    The 2-ball is an ellipsoid of tangent moves; the 1-ball has the manifold's circuits, scaled to the radius, as
    vertices (on all of R^n the unit vectors); the box is enumerated while that is small. Where the enumeration is
    out of reach the ball is covered by a 2-ball, and every guarantee from it is marked as an upper bound.

    Parameters
    ----------
    radius : float
        Radius in the data's units.
    norm : {1, 2, inf}, optional
        p.

    Examples
    --------
    >>> from privcontrol.core import LinearQuery
    >>> round(LinearQuery([[1.0, 1.0]]).sensitivity(BallAdjacency(0.5)), 6)
    0.707107
    """

    radius: float
    norm: float = 2

    def __post_init__(self):
        object.__setattr__(self, "radius", positive_number(self.radius, "radius"))
        object.__setattr__(
            self, "norm", float(one_of(self.norm, "norm", (1, 2, np.inf)))
        )

    def moves(self, manifold):
        if self.norm == 1 and manifold.circuit_count() <= MOST_MOVES:
            blocks = manifold.circuit_moves(np.ones(manifold.size))
            circuits = FiniteMoves.joined(blocks, manifold.dimension)
            return circuits.of_length(self.radius)
        if self.norm == np.inf:
            corners = _box_vertices(manifold.kernel)
            if corners is not None:
                return FiniteMoves(self.radius * corners)
        # ||v||_2 <= ||v||_1 and ||v||_2 <= sqrt(n) ||v||_inf
        radius = self.radius * (np.sqrt(manifold.size) if self.norm == np.inf else 1.0)
        triangle = scipy.linalg.qr(manifold.kernel, mode="r")[0][: manifold.dimension]
        error = (
            8
            * EPS
            * manifold.dimension
            * np.linalg.cond(triangle / np.linalg.norm(triangle, axis=0))
        )
        if error > 1e-6:
            raise UncertifiableError(
                "the manifold's directions are too nearly parallel for double precision to place a ball on it; rescale the "
                "data, or hide explicit directions (DirectionAdjacency)"
            )
        return EllipsoidMoves(
            radius * (1 + error) * scipy.linalg.inv(triangle), exact=self.norm == 2
        )

    @property
    def statement(self):
        return f"the data move by at most {self.radius:g} in the {self.norm:g}-norm"

    def to_dict(self):
        return {"type": "BallAdjacency", "radius": self.radius, "norm": str(self.norm)}


def _box_vertices(kernel, most=200_000):
    """Vertices (k, M), one of each pair +-z, of {z : ||N z||_inf <= 1}, or None where there are too many candidates."""
    n, k = kernel.shape
    if math.comb(n, k) * 2 ** (k - 1) > most:
        return None
    signs = np.array([(1, *rest) for rest in product((1, -1), repeat=k - 1)], float).T
    found = []
    for rows in combinations(range(n), k):
        square = kernel[list(rows)]
        conditioning = np.linalg.cond(square)
        if conditioning > 1e8:
            if (
                fmpq_mat(
                    [
                        [fmpq(*x.as_integer_ratio()) for x in row]
                        for row in square.tolist()
                    ]
                ).det()
                == 0
            ):
                continue
            return None  # a vertex that double precision does not place
        error = 1e-15 * k * conditioning
        vertices = np.linalg.solve(square, signs)
        found.append(
            vertices[:, np.abs(kernel @ vertices).max(axis=0) <= 1 + error]
            * (1 + error)
        )
    return np.hstack(found)


def circuit_moves(manifold, radii, charts="all"):
    """The moves of Definition 4 for radii (n,) of the entries, stored, or streamed where they are many."""
    if isinstance(charts, str):
        count = manifold.circuit_count()
        if count > MOST_MOVES or count * manifold.entries_per_move > MOST_ENTRIES:
            return StreamedMoves(lambda: manifold.circuit_moves(radii), count)
    blocks = manifold.circuit_moves(radii, charts)
    return FiniteMoves.joined(blocks, manifold.dimension)


def _loose(manifold, protected):
    """Labels of the entries that can move, by more than rounding, while the protected ones (a mask) stay."""
    held = spanned(manifold.kernel, manifold.kernel[protected])
    return [manifold.labels[i] for i in np.flatnonzero(~held & ~protected)]


def listed(names, rest, last="or"):
    """Names in words, "a, b or c", and of many the first few: "a, b, c, d, e or 7 others"."""
    names = list(names)
    if len(names) > _MOST_NAMED + 1:
        names[_MOST_NAMED:] = [f"{len(names) - _MOST_NAMED} {rest}"]
    return f" {last} ".join(([", ".join(names[:-1])] if names[1:] else []) + names[-1:])


def checked_adjacency(adjacency):
    """The adjacency itself, or a ``TypeError`` that says how to write one."""
    if isinstance(adjacency, Adjacency):
        return adjacency
    hint = "such as ManifoldAdjacency, BallAdjacency or DirectionAdjacency; mind the order of the arguments"
    if isinstance(adjacency, (Real, Mapping)):
        hint = "a radius? write ManifoldAdjacency(radius) or BallAdjacency(radius)"
    raise TypeError(
        f"adjacency: expected an Adjacency, got {type(adjacency).__name__}; {hint}"
    )


def _entry_index(manifold, entries):
    """Positions of entries given by index or label."""
    index = []
    for entry in entries:
        if isinstance(entry, str) and entry in manifold.labels:
            index.append(manifold.labels.index(entry))
        elif (
            isinstance(entry, (int, np.integer))
            and not isinstance(entry, bool)
            and 0 <= entry < manifold.size
        ):
            index.append(int(entry))
        else:
            raise ValueError(
                f"entries: {entry!r} is no entry of the data; there are {manifold.size}, such as {manifold.labels[0]!r}"
            )
    return index


class _Radii(dict):
    """Radii by name that do not change: an adjacency states them, and guarantees are compared by them."""

    def _fixed(self, *arguments, **named):
        raise TypeError("the radii of an adjacency are fixed; make another adjacency")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = (
        clear
    ) = _fixed

    def __reduce__(self):
        return _Radii, (dict(self),)


def public_radius(radius):
    """A radius as the adjacencies hold it: a float, a tuple of floats, or a dict by name.

    In the order of the names: equal adjacencies number their moves alike, and releases compose move by move.
    """
    if isinstance(radius, Mapping):
        named = {
            str(name): positive_number(mu, f"radius[{name!r}]")
            for name, mu in radius.items()
        }
        if len(named) < len(radius):
            raise ValueError(
                "radius: expected different names, got two that read alike"
            )
        return _Radii(sorted(named.items()))
    if np.ndim(radius) == 0:
        return positive_number(radius, "radius")
    return tuple(
        positive_number(float(mu), "radius")
        for mu in real_array(radius, "radius", ndim=1)
    )
