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
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._linalg import one_of, positive_integer, real_array, round_up
from ..core.adjacency import Adjacency
from ..core.errors import UncertifiableError
from ..core.loss import PrivacyLoss
from ..core.manifold import AffineManifold
from ..core.moves import FiniteMoves
from ..core.noise import Noise

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


class NodeAdjacency(Adjacency):
    """Hide moves of a network's initial values at one node, or at two.

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
    dimension : int, optional
        Each node's value is a vector of so many entries, and moves in a ball of its
        radius.

    Raises
    ------
    ValueError
        If a radius is not positive and finite, or an option is unknown.

    Examples
    --------
    >>> NodeAdjacency(1.0)
    NodeAdjacency('the initial value of one node moves by at most 1')
    """

    def __init__(
        self, radius: ArrayLike, *, moves: str = "one", dimension: int = 1
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
        self.dimension = positive_integer(dimension, "dimension")
        self.node: int | None = None  # position of a node that takes part in all moves
        self.label = ""  # its name
        self.is_named = False  # whether the name stands for one secret in any network

    def of_node(self, position: int, label: str, is_named: bool) -> NodeAdjacency:
        """Return the moves in which the node at a ``position`` takes part.

        ``label`` is its name. If ``is_named``, the name stands for the same secret in
        any network, and the position is left out of the description.
        """
        radius = self.radius
        if self.kind == "one" and not isinstance(radius, float):
            radius = float(radius[position])
        found = NodeAdjacency(radius, moves=self.kind, dimension=self.dimension)
        found.node = position
        found.label = label
        found.is_named = is_named and self.kind == "one"
        return found

    def radii(self, nodes: int) -> NDArray:
        """Return the radius (n,) of each node; a ``ValueError`` if they do not fit."""
        nodes = positive_integer(nodes, "nodes")
        if not isinstance(self.radius, float) and len(self.radius) != nodes:
            raise ValueError(
                f"radius: expected one number or {nodes}, one for each node, got "
                f"{len(self.radius)}"
            )
        return np.broadcast_to(self.radius, (nodes,))

    def with_moves(self, moves: str) -> NodeAdjacency:
        """Return other moves of the same radius, of any node."""
        return NodeAdjacency(self.radius, moves=moves, dimension=self.dimension)

    def move_of(self, node: int) -> int:
        """Return the number of a node's move, one in all networks if it is named."""
        return 0 if self.is_named else node

    def loss(
        self, family: type[Noise], scales: NDArray, members: Sequence[int] = ()
    ) -> PrivacyLoss:
        """Return the loss of noise of a ``family`` and independent ``scales`` (n,).

        The ``members`` of a coalition do not move. One candidate for the worst move
        dominates all others entrywise, except for a known total with unequal radii.
        There every node leads a candidate, compensated by the node that has least
        noise.
        """
        n = len(scales)
        radii = self.radii(n)
        if math.isinf(float(radii.max()) / float(scales.min())):
            raise UncertifiableError(
                "scales: expected noise that floats can compare with the radius, got a "
                "radius more than 1e308 times as large; use more noise"
            )
        sizes = round_up(radii / scales)
        honest = np.delete(np.arange(n), members)
        leaders = honest
        if self.kind == "one":
            if self.node is not None:
                leaders = np.array([self.node])
            exposed = sizes[leaders]
            largest = exposed.max()
            tied = leaders[exposed == largest][:MOST_TIES].tolist()
            moves = tuple(self.move_of(node) for node in tied)
            return family.loss_of_columns(np.array([[largest]]), moves[:1], moves)
        exposed = sizes if self.kind == "pair" else 1 / scales
        most_first = np.argsort(-exposed[honest], kind="stable")
        first, second = honest[most_first[:2]]
        if self.node is not None:
            leaders = np.array([self.node])
        elif self.kind == "pair" or isinstance(self.radius, float):
            leaders = np.array([first])
        others = np.where(leaders == first, second, first)
        reach = radii[others] if self.kind == "pair" else radii[leaders]
        rows = np.stack([sizes[leaders], round_up(reach / scales[others])])
        numbers = (leaders * n + others).tolist()
        worst = int(np.linalg.norm(rows, axis=0).argmax())
        return family.loss_of_columns(rows, numbers, (numbers[worst],))

    def moves(self, manifold: AffineManifold) -> FiniteMoves:
        """Return all moves as columns, for a general `Mechanism` on a small network.

        Raises
        ------
        ValueError
            For vectors, above 200 nodes, or if the manifold excludes the moves (a known
            total excludes those of one node).
        """
        n = manifold.size
        if self.dimension > 1 or n > LISTED_NODES:
            raise ValueError(
                f"expected values of dimension 1 and at most {LISTED_NODES} nodes to "
                f"list all moves, got dimension {self.dimension} and {n} nodes; use "
                "PrivateConsensus.guarantee"
            )
        radii = self.radii(n)
        own = np.diag(radii)
        if self.kind == "one":
            return FiniteMoves(manifold.tangent(own))
        i, j = np.triu_indices(n, 1)
        if self.kind == "pair":
            columns = np.hstack([own[:, i] + own[:, j], own[:, i] - own[:, j]])
        else:
            unit = np.eye(n)
            columns = (unit[:, i] - unit[:, j]) * np.maximum(radii[i], radii[j])
        return FiniteMoves(manifold.tangent(columns))

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
            f"the initial value of {who} moves by at most {size} and that of another "
            "one by the opposite amount"
        )

    def caveats(self, manifold: AffineManifold) -> tuple[str, ...]:
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
        """Return a JSON-ready public description; a digest stands for many radii."""
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
            if not self.is_named:
                public["position"] = self.node
        return public

    def __repr__(self) -> str:
        return f"NodeAdjacency({self.statement!r})"
