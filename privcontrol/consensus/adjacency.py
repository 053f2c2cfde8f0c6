"""Say which initial values of a network must look alike.

The secret is the vector x(0) in R^n of a network's initial values. The worst move
against independent noise is found in O(n). Nothing of size n x n is formed, except by
`NodeAdjacency.moves` for general mechanisms on small networks.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._linalg import instance_of, one_of, positive_integer, real_array
from ..core.adjacency import Adjacency
from ..core.errors import UncertifiableError
from ..core.loss import PrivacyLoss
from ..core.moves import FiniteMoves
from ..core.noise import family_of

MOVES = ("one", "pair", "known-total")

#: `NodeAdjacency.moves` lists up to n (n - 1) columns of length n.
LISTED_NODES = 200

#: Positions of moves that attain a shift are told up to this number.
MOST_TIES = 64


@dataclass(frozen=True)
class InitialValues:
    """What a guarantee says about the domain of its secret, without an n x n basis."""

    nodes: int
    known_total: bool = False
    names: str = ""  # a fingerprint of the nodes and their order
    coalition: str = ""  # against whom alone the guarantee holds, if not against any
    node: str = ""  # of whose value alone it is, in any network

    #: Initial values are no trajectory. The guarantee covers any number of steps.
    horizon: ClassVar[None] = None

    @property
    def size(self) -> int:
        """Number of entries of the secret."""
        return self.nodes

    @property
    def dimension(self) -> int:
        """Dimension of the moves that the public total, if any, leaves possible."""
        return self.nodes - self.known_total

    @property
    def domain(self) -> str:
        """One public line."""
        line = f"initial values of {self.nodes} nodes"
        if self.node:
            line = f"the initial value of node {self.node}"
        if self.names:
            line += f" [{self.names}]"
        if self.known_total:
            line += " whose total is public"
        if self.coalition:
            line += f", towards {self.coalition}"
        return line


class NodeShifts(NamedTuple):
    """Candidates for the worst move, each a row of shifts over noise scales."""

    sizes: NDArray  # (J, 1 or 2), rounded up
    moves: tuple[int, ...]  # i for a node, i n + j for two
    worst: tuple[int, ...]  # those of the largest 2-norm, with ties

    def loss(self, family: str) -> PrivacyLoss:
        """Return the privacy loss of noise of this family against these moves."""
        return family_of(family).loss_of_columns(self.sizes.T, self.moves, self.worst)


def quotient_up(numerator: ArrayLike, denominator: ArrayLike) -> NDArray:
    """The smallest floats that are at least the exact quotients of positive floats.

    The residual of the rounded quotient is exact (Dekker 1971).
    """
    # of numbers in [1/2, 1): nothing overflows or underflows
    top, up = np.frexp(numerator)
    bottom, down = np.frexp(denominator)
    quotient = top / bottom
    product = quotient * bottom
    a, b = _halves(quotient)
    c, d = _halves(bottom)
    lost = ((a * c - product) + a * d + b * c) + b * d
    is_below = (product - top) + lost < 0
    quotient = _raised(quotient, is_below)
    with np.errstate(over="ignore"):
        scaled = np.ldexp(quotient, up - down)
        is_below = np.ldexp(scaled, down - up) < quotient
        return _raised(scaled, is_below)


def _raised(values: NDArray, chosen: NDArray) -> NDArray:
    """Floats with the chosen ones replaced by the next larger."""
    return np.where(chosen, np.nextafter(values, np.inf), values)


def _halves(value: NDArray) -> tuple[NDArray, NDArray]:
    """A float as the sum of two of half its length (Veltkamp 1968)."""
    shifted = 134217729.0 * value
    high = shifted - (shifted - value)
    return high, value - high


class NodeAdjacency(Adjacency):
    """Initial values of a network that differ at one node, or at two.

    Parameters
    ----------
    radius : float or array_like, shape (n,)
        mu: largest change of a node's initial value, in its unit; one for all nodes, or
        one for each.
    moves : {"one", "pair", "known-total"}, optional
        ``one``: one node's value moves by at most its radius. ``pair``: two nodes'
        values move, each by at most its own radius and in any direction.
        ``known-total``: the sum of the initial values is public, so one node moves by
        at most its radius and another one by the opposite amount, the minimal moves on
        the affine manifold {sum x(0) = total} (DPAM Definition 4).
    node : int, optional
        Position of a node: only moves in which this node moves by at most its radius.
        Of a node known by name ask `PrivateConsensus.guarantee_of`.
    label : str, optional
        The node's name for the statement.
    dimension : int, optional
        Each node's value is a vector of so many entries, and moves in a ball of its
        radius.
    named : bool, optional
        The node is known by its label in any network, and its position is left out of
        the description. So its guarantees in several networks add.

    Raises
    ------
    ValueError
        If a radius is not positive and finite, an option is unknown, or the node is no
        position.

    Examples
    --------
    >>> NodeAdjacency(1.0)
    NodeAdjacency('the initial value of one node moves by at most 1')
    """

    def __init__(
        self,
        radius: ArrayLike,
        *,
        moves: str = "one",
        node: int | None = None,
        label: str | None = None,
        dimension: int = 1,
        named: bool = False,
    ) -> None:
        given = real_array(radius, "radius")
        if given.ndim > 1 or not given.size:
            raise ValueError(
                "radius: expected a positive number, or one for each node, got shape "
                f"{given.shape}"
            )
        if not given.min() > 0:
            several = f" among {given.size} radii" if given.ndim else ""
            raise ValueError(
                f"radius: expected a positive number, got {given.min():g}{several}"
            )
        self.radius: float | NDArray = given
        if np.ptp(given) == 0:
            self.radius = float(given.flat[0])
        self.kind = one_of(moves, "moves", MOVES)
        self.node = None if node is None else _position(node)
        self.label = str(node if label is None else label)
        self.dimension = positive_integer(dimension, "dimension")
        self.named = instance_of(named, bool, "named")

    def radii(self, nodes: int) -> NDArray:
        """Radius (n,) of each node, or a ``ValueError`` if there are more or fewer radii."""
        nodes = positive_integer(nodes, "nodes")
        if not isinstance(self.radius, float) and len(self.radius) != nodes:
            raise ValueError(
                f"radius: expected one number or {nodes}, one for each node, got "
                f"{len(self.radius)}"
            )
        if self.node is not None and self.node >= nodes:
            raise ValueError(
                f"node: expected a position below {nodes}, the number of nodes, got "
                f"{self.node}"
            )
        return np.broadcast_to(self.radius, (nodes,))

    def with_moves(self, moves: str) -> NodeAdjacency:
        """Other moves of the same radius, of any node."""
        return NodeAdjacency(self.radius, moves=moves, dimension=self.dimension)

    def move_of(self, node: int) -> int:
        """Number of the move of a node, the same in every network if it is named."""
        return 0 if self.named else node

    def shifts(self, scales: ArrayLike, members: Sequence[int] = ()) -> NodeShifts:
        """Moves of which one is worst against independent noise of these scales (n,).

        The `members` of a coalition do not move. One candidate dominates all others
        entrywise, except for a known total with unequal radii. There every node leads a
        candidate, compensated by the node that has least noise.
        """
        noise = real_array(scales, "scales", ndim=1)
        if not (noise.size and (noise > 0).all()):
            raise ValueError("scales: expected a positive number for each node")
        n = len(noise)
        radii = self.radii(n)
        sizes = quotient_up(radii, noise)
        if math.isinf(float(radii.max()) / float(noise.min())):
            raise UncertifiableError(
                "scales: expected noise that floats can compare with the radius, got a "
                "radius more than 1e308 times as large; use more noise"
            )
        honest = np.delete(np.arange(n), members)
        if self.kind == "one":
            return self._single_shift(sizes, honest)
        if len(honest) < 2:
            raise ValueError(
                f"scales: expected at least two nodes for moves={self.kind!r}, got {n}"
            )
        exposed = -noise
        if self.kind == "pair":
            exposed = sizes
        most_first = np.argsort(-exposed[honest], kind="stable")
        first, second = honest[most_first[:2]]
        is_symmetric = self.kind == "pair" or np.ndim(self.radius) == 0
        leaders = honest
        if self.node is not None:
            leaders = np.array([self.node])
        elif is_symmetric:
            leaders = np.array([first])
        others = np.where(leaders == first, second, first)
        ends = np.column_stack([leaders, others])
        if is_symmetric:
            ends.sort(axis=1)
            rows = sizes[ends]
        else:
            compensated = quotient_up(radii[leaders], noise[others])
            rows = np.column_stack([sizes[leaders], compensated])
        moves = ends @ [n, 1]
        worst = int(np.linalg.norm(rows, axis=1).argmax())
        return NodeShifts(rows, tuple(moves.tolist()), (int(moves[worst]),))

    def _single_shift(self, sizes: NDArray, honest: NDArray) -> NodeShifts:
        """The worst move of one honest node, from the shifts over scales of all nodes."""
        if self.node is not None:
            move = (self.move_of(self.node),)
            return NodeShifts(sizes[[[self.node]]], move, move)
        exposed = sizes[honest]
        largest = exposed.max()
        ties = honest[exposed == largest][:MOST_TIES]
        moves = tuple(ties.tolist())
        return NodeShifts(np.array([[largest]]), moves[:1], moves)

    def moves(self, manifold: Any) -> FiniteMoves:
        """All moves as columns, for a general `Mechanism` on a small network.

        Raises
        ------
        ValueError
            Above 200 nodes, or if the manifold excludes the moves (a known total
            excludes those of one node).
        """
        if self.dimension > 1:
            raise ValueError(
                f"expected values of dimension 1 to list moves, got {self.dimension}; use "
                "PrivateConsensus.guarantee"
            )
        n = manifold.size
        if n > LISTED_NODES:
            raise ValueError(
                f"expected at most {LISTED_NODES} nodes to list all moves, got {n}; use "
                "PrivateConsensus.guarantee"
            )
        radii = self.radii(n)
        unit = np.eye(n)
        columns: list[NDArray] = []
        if self.kind == "one":
            columns = list(unit * radii)
            if self.node is not None:
                columns = [columns[self.node]]
            return FiniteMoves(manifold.tangent(np.array(columns).T))
        for i, j in combinations(range(n), 2):
            if self.node not in (None, i, j):
                continue
            if self.kind == "pair":
                columns.append(radii[i] * unit[i] + radii[j] * unit[j])
                columns.append(radii[i] * unit[i] - radii[j] * unit[j])
            else:
                radius = max(radii[i], radii[j])
                if self.node is not None:
                    radius = radii[self.node]
                columns.append(radius * (unit[i] - unit[j]))
        return FiniteMoves(manifold.tangent(np.array(columns).T))

    @property
    def statement(self) -> str:
        """The moves in words, with the radius."""
        if isinstance(self.radius, float):
            size = f"{self.radius:g}"
        else:
            size = f"its radius ({len(self.radius)} radii)"
        if self.dimension > 1:
            size += f" in the 2-norm of its {self.dimension} entries"
        who = "one node"
        both = "two nodes"
        if self.node is not None:
            who = f"node {self.label}"
            both = f"{who} and of another one"
        if self.kind == "one":
            return f"the initial value of {who} moves by at most {size}"
        if self.kind == "pair":
            return f"the initial values of {both} move together, each by at most {size}"
        return (
            f"the initial value of {who} moves by at most {size} and that of another one "
            "by the opposite amount"
        )

    def caveats(self, manifold: Any) -> tuple[str, ...]:
        """Return what the adjacency leaves open, such as several secrets at once."""
        if self.kind == "one":
            return (
                "two nodes that move together",
                "one node's move if the total of the initial values is public",
            )
        if self.kind == "pair":
            return ("three nodes or more that move together",)
        return ("the total of the initial values",)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready public description, in which a digest stands for many radii."""
        public: dict[str, Any] = {"type": "NodeAdjacency", "moves": self.kind}
        if isinstance(self.radius, float):
            public["radius"] = self.radius
        else:
            digest = hashlib.sha256(self.radius.tobytes()).hexdigest()
            public["radius"] = {"nodes": len(self.radius), "sha256": digest}
        if self.dimension > 1:
            public["dimension"] = self.dimension
        if self.node is not None:
            public["node"] = self.label
            if not self.named:
                public["position"] = self.node
        return public

    def __repr__(self) -> str:
        return f"NodeAdjacency({self.statement!r})"


def _position(node: Any) -> int:
    """A node's position, refusing names."""
    is_number = isinstance(node, int | float | np.integer)
    is_whole = is_number and 0 <= node < 2**53 and node == int(node)
    if is_whole and not isinstance(node, bool):
        return int(node)
    kind = ValueError if is_number else TypeError
    raise kind(
        "node: expected a position 0, 1, ..., got "
        f"{type(node).__name__}; for a node's name ask guarantee_of(name)"
    )
