"""Adjacency of initial values: which nodes may move together, and what a publicly known total excludes.

The secret is the vector x(0) in R^n of a network's initial values. The worst move against independent noise is found
in O(n); nothing of size n x n is formed, except by `NodeAdjacency.moves` for general mechanisms on small networks.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ..core._linalg import one_of, real_array
from ..core._losses.gaussian import GaussianLoss, root_up
from ..core._losses.laplace import LaplaceLoss
from ..core.adjacency import Adjacency, FiniteMoves
from ..core.errors import UncertifiableError

MOVES = ("one", "pair", "known-total")

#: `NodeAdjacency.moves` lists up to n (n - 1) columns of length n.
LISTED_NODES = 200


@dataclass(frozen=True)
class InitialValues:
    """What a guarantee says about the domain of its secret, without an n x n basis.

    ``names`` tells apart secrets whose entries belong to other nodes, or to the same ones in another order.
    """

    nodes: int
    known_total: bool = False
    names: str = ""

    #: Initial values are no trajectory: the guarantee covers any number of steps.
    horizon = None

    @property
    def size(self):
        """Number of entries of the secret."""
        return self.nodes

    @property
    def dimension(self):
        """Dimension of the moves that the public total, if any, leaves possible."""
        return self.nodes - self.known_total

    @property
    def domain(self):
        """One public line."""
        names = f" [{self.names}]" if self.names else ""
        return (
            f"initial values of {self.nodes} nodes{names}"
            + " whose total is public" * self.known_total
        )


@dataclass(frozen=True)
class NamedValue:
    """The domain of a guarantee about one named node: its initial value, whatever network the node is in."""

    name: str
    size = dimension = 1
    horizon = None

    @property
    def domain(self):
        """One public line."""
        return f"the initial value of node {self.name}"


def node_values(network, value, name):
    """`Network.per_node`, with a word for a mapping whose keys are of another type than the nodes' names."""
    if (
        isinstance(value, Mapping)
        and value
        and not any(key in network.index for key in value)
    ):
        theirs, ours = (
            ", ".join(sorted({type(key).__name__ for key in keys}))
            for keys in (value, network.nodes)
        )
        if theirs != ours:
            raise ValueError(
                f"{name}: expected the names of the {len(network)} nodes as keys, which are of type {ours}, got "
                f"{len(value)} keys of type {theirs}"
            )
    return network.per_node(value, name)


def initial_values(network, value):
    """x(0) as an array (n,) in the network's order, from an array or a mapping by node."""
    x = real_array(node_values(network, value, "initial_values"), "initial_values")
    if x.shape != (len(network),):
        raise ValueError(
            f"initial_values: expected shape ({len(network)},), one number for each node, got {x.shape}"
        )
    return x


class NodeShifts(NamedTuple):
    """Candidates for the worst move, each a row of shifts over noise scales (J, 1 or 2), rounded up.

    ``moves`` are the indices of the candidates (i for a node, i n + j for two); ``worst`` those of the largest 2-norm,
    with ties.
    """

    sizes: np.ndarray
    moves: tuple
    worst: tuple

    def loss(self, family):
        """The privacy loss of noise of this family, ``gaussian`` or ``laplace``, against these moves."""
        if family == "gaussian":
            norms = np.linalg.norm(self.sizes, axis=1)
            longest = self.sizes[norms >= norms.max() * (1 - 1e-12)]
            square = max(sum(Fraction(float(a)) ** 2 for a in row) for row in longest)
            return GaussianLoss(root_up(square), self.worst, square=square)
        loss = LaplaceLoss.of(
            self.sizes.T
        )  # candidates, not all moves: name them, and what they cover is unknown
        return replace(
            loss,
            moves=tuple(self.moves[i] if i >= 0 else -1 for i in loss.moves),
            cover=None,
        )


def quotient_up(numerator, denominator):
    """The smallest floats that are at least the exact quotients of positive floats.

    The residual of the rounded quotient is exact (Dekker 1971), so that a quotient that is a float stays what it is.

    Examples
    --------
    >>> quotient_up(1.0, np.array([4.0, 3.0])) - np.array([0.25, 1 / 3]) > 0
    array([False,  True])
    """
    (numerator, up), (denominator, down) = map(
        np.frexp, np.broadcast_arrays(numerator, denominator)
    )
    quotient = (
        numerator / denominator
    )  # of numbers in [1/2, 1): nothing overflows or underflows
    product = quotient * denominator
    (a, b), (c, d) = _halves(quotient), _halves(denominator)
    residual = (product - numerator) + (((a * c - product) + a * d + b * c) + b * d)
    quotient = np.where(residual < 0, np.nextafter(quotient, np.inf), quotient)
    with np.errstate(over="ignore"):
        scaled = np.ldexp(quotient, up - down)
        return np.where(
            np.ldexp(scaled, down - up) < quotient, np.nextafter(scaled, np.inf), scaled
        )


def _halves(value):
    """A float as the sum of two of half its length (Veltkamp 1968)."""
    shifted = 134217729.0 * value
    high = shifted - (shifted - value)
    return high, value - high


class NodeAdjacency(Adjacency):
    """Initial values of a network that differ at one node, or at two.

    Parameters
    ----------
    radius : float or array_like, shape (n,)
        mu: largest change of a node's initial value, in its unit; one for all nodes, or one for each.
    moves : {"one", "pair", "known-total"}, optional
        ``one``: one node's value moves by at most its radius. ``pair``: two nodes' values move, each by at most its own
        radius and in any direction. ``known-total``: the sum of the initial values is public, so that one node moves by
        at most its radius and another one by the opposite amount, the minimal moves on the affine manifold
        {sum x(0) = total} (DPAM Definition 4).
    node : int, optional
        Position of a node: only moves in which this node moves by at most its radius. Of a node known by name ask
        `PrivateConsensus.guarantee_of`.
    label : str, optional
        The node's name for the statement.

    Raises
    ------
    ValueError
        If a radius is not positive and finite, an option is unknown, or the node is no position.

    Examples
    --------
    >>> NodeAdjacency(1.0)
    NodeAdjacency('the initial value of one node moves by at most 1')
    """

    def __init__(self, radius, *, moves="one", node=None, label=None):
        radius = real_array(radius, "radius")
        if radius.ndim > 1 or not radius.size:
            raise ValueError(
                f"radius: expected a positive number, or one for each node, got shape {radius.shape}"
            )
        if not radius.min() > 0:
            several = f" among {radius.size} radii" if radius.ndim else ""
            raise ValueError(
                f"radius: expected a positive number, got {radius.min():g}{several}"
            )
        self.radius = (
            radius if radius.ndim and np.ptp(radius) else float(radius.flat[0])
        )
        self.kind = one_of(moves, "moves", MOVES)
        self.node = None if node is None else _position(node)
        self.label = str(node) if label is None else str(label)

    def radii(self, nodes):
        """Radius of each of n nodes.

        Raises
        ------
        ValueError
            If the adjacency has radii for another number of nodes.
        """
        if np.ndim(self.radius) and len(self.radius) != nodes:
            raise ValueError(
                f"radius: expected one number or {nodes}, one for each node, got {len(self.radius)}"
            )
        if self.node is not None and self.node >= nodes:
            raise ValueError(
                f"node: expected a position below {nodes}, the number of nodes, got {self.node}"
            )
        return np.broadcast_to(self.radius, (nodes,))

    def shifts(self, scales):
        """Against independent noise of these scales (n,): moves of which one is worst, whatever the privacy measure.

        One candidate dominates all others entrywise, except for a known total with unequal radii: there every node
        leads a candidate, compensated by the node that has least noise.
        """
        n = len(scales)
        radii = self.radii(n)
        sizes = quotient_up(radii, scales)
        if math.isinf(float(radii.max()) / float(scales.min())):
            raise UncertifiableError(
                "scales: expected noise that floats can compare with the radius, got a radius more than 1e308 times as "
                "large; use more noise"
            )
        if self.kind == "one":
            node = int(sizes.argmax()) if self.node is None else self.node
            ties = (
                np.flatnonzero(sizes == sizes[node])[:64].tolist()
                if self.node is None
                else [node]
            )
            return NodeShifts(sizes[[[node]]], (node,), tuple(ties))
        first, second = np.argsort(
            -sizes if self.kind == "pair" else scales, kind="stable"
        )[:2]
        symmetric = self.kind == "pair" or np.ndim(self.radius) == 0
        if self.node is not None:
            leaders = np.array([self.node])
        else:
            leaders = np.array([first]) if symmetric else np.arange(n)
        others = np.where(leaders == first, second, first)
        if symmetric:
            pair = np.sort(np.column_stack([leaders, others]))
            return NodeShifts(sizes[pair], *[(int(pair[0, 0] * n + pair[0, 1]),)] * 2)
        rows = np.column_stack(
            [sizes[leaders], quotient_up(radii[leaders], scales[others])]
        )
        moves = tuple((leaders * n + others).tolist())
        worst = int(np.linalg.norm(rows, axis=1).argmax())
        return NodeShifts(rows, moves, moves[worst : worst + 1])

    def moves(self, manifold):
        """All moves as columns, for a general `Mechanism` on a small network.

        Raises
        ------
        ValueError
            Above 200 nodes, or if the manifold excludes the moves (a known total excludes those of one node).
        """
        n = manifold.size
        if n > LISTED_NODES:
            raise ValueError(
                f"expected at most {LISTED_NODES} nodes to list all moves, got {n}; use PrivateConsensus.guarantee"
            )
        radii, unit = self.radii(n), np.eye(n)
        if self.kind == "one":
            columns = [radii[i] * unit[i] for i in range(n) if self.node in (None, i)]
        else:
            columns = [
                column
                for pair in combinations(range(n), 2)
                if self.node is None or self.node in pair
                for column in self._pair(pair, radii, unit)
            ]
        return FiniteMoves(manifold.tangent(np.array(columns).T))

    def _pair(self, pair, radii, unit):
        i, j = pair
        if self.kind == "known-total":
            radius = (
                radii[self.node] if self.node is not None else max(radii[i], radii[j])
            )
            return [radius * (unit[i] - unit[j])]
        return [
            radii[i] * unit[i] + radii[j] * unit[j],
            radii[i] * unit[i] - radii[j] * unit[j],
        ]

    @property
    def statement(self):
        """The moves in words, with the radius."""
        size = (
            f"{self.radius:g}"
            if np.ndim(self.radius) == 0
            else f"its radius ({len(self.radius)} radii)"
        )
        who = "one node" if self.node is None else f"node {self.label}"
        if self.kind == "one":
            return f"the initial value of {who} moves by at most {size}"
        if self.kind == "pair":
            both = (
                "two nodes"
                if self.node is None
                else f"node {self.label} and of another one"
            )
            return f"the initial values of {both} move together, each by at most {size}"
        return f"the initial value of {who} moves by at most {size} and that of another one by the opposite amount"

    def caveats(self, manifold):
        """What one node's adjacency leaves open: several secrets at once, and a public total."""
        if self.kind == "one":
            return (
                "two nodes that move together",
                "one node's move if the total of the initial values is public",
            )
        if self.kind == "pair":
            return ("three nodes or more that move together",)
        return ("the total of the initial values",)

    def to_dict(self):
        radius = self.radius
        if np.ndim(radius):
            radius = {
                "nodes": len(radius),
                "sha256": hashlib.sha256(radius.tobytes()).hexdigest(),
            }
        public = {"type": "NodeAdjacency", "moves": self.kind, "radius": radius}
        return (
            public
            if self.node is None
            else public | {"node": self.label, "position": self.node}
        )

    def __repr__(self):
        return f"NodeAdjacency({self.statement!r})"


class NamedNode(NodeAdjacency):
    """One node's initial value that moves by at most a radius, all others held; the node's name says which.

    Its description holds no position, so that guarantees of one node in several networks add. That is sequential
    composition: each network draws its own noise, and each release hides a move of this value by the radius whatever
    the other values are.
    """

    def __init__(self, radius, node, name):
        super().__init__(radius, node=node, label=name)

    def shifts(self, scales):
        """As `NodeAdjacency.shifts`; the node's move is the only one, number 0, in every network."""
        return super().shifts(scales)._replace(moves=(0,), worst=(0,))

    def to_dict(self):
        return {
            name: entry
            for name, entry in super().to_dict().items()
            if name != "position"
        }


def _position(node):
    """A node's position, refusing names."""
    if isinstance(node, (int, np.integer)) and not isinstance(node, bool) and node >= 0:
        return int(node)
    raise (ValueError if isinstance(node, (int, float, np.number)) else TypeError)(
        f"node: expected a position 0, 1, ..., got {node!r}; for a node's name ask guarantee_of(name)"
    )
