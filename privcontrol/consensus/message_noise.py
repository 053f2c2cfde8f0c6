"""Say which initial values must be indistinguishable, draw noise, and bound what messages reveal.

The secret is the vector x(0) in R^n of a network's initial values. The worst move
against independent noise is found in O(n). Nothing of size n x n is formed, except by
`NodeAdjacency.moves` for general mechanisms on small networks.

The noise of all agents is gamma = s eta + s_D B Delta, with independent standard
entries. B (n, m) is the incidence matrix of the network: of each shared draw one end
adds what the other end subtracts (Sabater, Bellet, Ramon 2022). Shared noise hides
values and leaves their sum alone.

A coalition knows the values and noises of its members, so the noise that the other,
honest agents share with them hides nothing. The noise of the honest agents has
covariance Sigma = diag(s^2) + s_D^2 L, with L the Laplacian of the network among them
(weight one on every edge). A move z of honest values is y-GDP with y^2 = z^T Sigma^-1
z, exactly.

Upper bounds come from flows. Let a move flow along the edges and be absorbed at the
nodes: f on the edges and a = z - B f at the nodes. Then y^2 <= sum a_i^2 / s_i^2 + sum
f_e^2 / s_D^2 for every flow, with equality for the best one (Thomson's principle). So
an inaccurate flow costs privacy on paper and never in truth, and its cost is a sum of
squares that floating point evaluates well.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.sparse.linalg import spsolve

from ..core.adjacency import Adjacency
from ..core.ball_noise import RADIAL_LAWS, BallNoise
from ..core.manifold import MOST_ATTAINING, AffineManifold, FiniteMoves, attaining
from ..core.noise import FAMILIES, GaussianNoise, Noise, family_of
from ..numerics.arguments import helpful_fields
from ..numerics.checks import (
    instance_of,
    one_of,
    positive_integer,
    positive_number,
    real_array,
)
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import EPS, round_up
from ..numerics.thresholds import BLOCK, LARGEST_SIZE, MOST_HELD, ROUNDED
from ..privacy.hidden import rounded_down
from ..privacy.loss import PrivacyLoss
from .network import Network, core_of, unit_graph

MOVES = ("one", "pair", "known-total")

#: `NodeAdjacency.moves` lists up to n (n - 1) columns of length n.
LISTED_NODES = int(MOST_HELD ** (1 / 3))

#: What each agent uses: its message y_i or its state x_i.
READOUTS = ("message", "state")

#: Multiplications that an exact evaluation may take, some seconds.
EXACT_WORK = 6e9

#: Shared noise at most, over an agent's own draw: sums of doubles keep the latter.
MOST_SHARED = 1 / ROUNDED

#: Excess over the limit of infinite shared noise at which ``"auto"`` stops, in
#: variance.
AUTO_EXCESS = 0.01

#: What a unit move costs at most: absorption, and the sum of squared flows.
Costs = tuple[NDArray[np.float64] | float, NDArray[np.float64] | float]


# -- hidden moves ------------------------------------------------------------------------


@dataclass(frozen=True)
class InitialValues:
    """Describe the domain of a guarantee's secret, without an n x n basis."""

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


@helpful_fields("NodeAdjacency(1.0) hides moves of one value by as much")
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

    See Also
    --------
    private_consensus, consensus.Network

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
        self.radius: float | NDArray[np.float64] = given
        if np.ptp(given) == 0:
            self.radius = float(given.flat[0])
        self.kind = one_of(moves, "moves", MOVES)
        self.dimension = positive_integer(dimension, "dimension")
        self.node: int | None = None  # position of a node that takes part in all moves
        self.label = ""  # its name
        self.is_named = False  # whether the name denotes one secret in any network

    def _of_node(self, position: int, label: str, is_named: bool) -> NodeAdjacency:
        """Return the moves in which the node at a ``position`` takes part.

        ``label`` is its name. If ``is_named``, the name denotes the same secret in
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

    def radii(self, nodes: int) -> NDArray[np.float64]:
        """Return the radius (n,) of each node; a ``ValueError`` if they do not fit."""
        nodes = positive_integer(nodes, "nodes")
        if not isinstance(self.radius, float) and len(self.radius) != nodes:
            raise ValueError(
                f"radius: expected one number or {nodes}, one for each node, got "
                f"{len(self.radius)}"
            )
        return np.broadcast_to(self.radius, (nodes,))

    def _with_moves(self, moves: str) -> NodeAdjacency:
        """Return other moves of the same radius, of any node."""
        return NodeAdjacency(self.radius, moves=moves, dimension=self.dimension)

    def _move_of(self, node: int) -> int:
        """Return the number of a node's move, one in all networks if it is named."""
        return 0 if self.is_named else node

    def loss(
        self,
        family: type[Noise] | BallNoise,
        scales: NDArray[np.float64],
        members: Sequence[int] = (),
    ) -> PrivacyLoss:
        """Return the loss of noise of a ``family`` and independent ``scales`` (n,).

        The ``members`` of a coalition do not move. One candidate for the worst move
        dominates all others entrywise, except for a known total with unequal radii.
        There every node leads a candidate, compensated by the node that has least
        noise, and a certain node moves with every other one, whichever leads.
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
            tied = leaders[exposed == largest][:MOST_ATTAINING].tolist()
            moves = tuple(self._move_of(node) for node in tied)
            return family.loss_of_columns(np.array([[largest]]), moves[:1], moves)
        exposed = sizes if self.kind == "pair" else 1 / scales
        most_first = np.argsort(-exposed[honest], kind="stable")
        first, second = honest[most_first[:2]]
        if self.node is not None:
            leaders = np.array([self.node])
        elif not self._has_leaders:
            leaders = np.array([first])
        others = np.where(leaders == first, second, first)
        if self.node is not None and self._has_leaders:
            others = honest[honest != self.node]
        own = radii[leaders]
        reach = radii[others]
        if self.kind == "known-total":
            own = reach = np.maximum(own, reach)
        rows = round_up(np.stack([own / scales[leaders], reach / scales[others]]))
        numbers = (leaders * n + others).tolist()
        worst = int(np.linalg.norm(rows, axis=0).argmax())
        return family.loss_of_columns(rows, numbers, (numbers[worst],))

    @property
    def _has_leaders(self) -> bool:
        """Return whether the node of the larger radius leads two that keep a known total."""
        return self.kind == "known-total" and not isinstance(self.radius, float)

    def moves(self, manifold: AffineManifold) -> FiniteMoves:
        """Return all moves as columns, for a general `Mechanism` on a small network.

        Parameters
        ----------
        manifold : AffineManifold
            Of the network's values, one entry a node.

        Returns
        -------
        FiniteMoves
            Columns (k, M) in the manifold's tangent coordinates.

        Raises
        ------
        ValueError
            For vectors, above 322 nodes, or if the manifold excludes the moves (a known
            total excludes those of one node).

        Examples
        --------
        >>> from privcontrol.core import AffineManifold
        >>> NodeAdjacency(1.0).moves(AffineManifold.from_kernel(np.eye(3))).columns.shape
        (3, 3)
        """
        instance_of(manifold, AffineManifold, "manifold", "mechanism.query.manifold")
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
            size = rounded_down(self.radius)
        else:
            size = f"its radius ({len(self.radius)} radii)"
        if self.dimension > 1:
            size += " (2-norm)"
        who = "one node"
        both = "two nodes"
        if self.node is not None:
            who = f"node {self.label}"
            both = f"{who} and of another one"
        if self.kind == "one":
            return f"the initial value of {who} moves by at most {size}"
        if self.kind == "pair":
            return f"the initial values of {both} move together, each by at most {size}"
        if self.node is not None and self._has_leaders:
            return (
                f"the initial values of {both} move by opposite amounts, of at most the "
                "larger one of their radii"
            )
        return (
            f"the initial value of {who} moves by at most {size} and that of another "
            "one by the opposite amount"
        )

    def caveats(self, manifold: AffineManifold) -> tuple[str, ...]:
        """Return the caveats of the adjacency, such as several secrets at once."""
        if self.kind == "one":
            return (
                "two nodes that move together",
                "one node's move if the total of the initial values is public",
            )
        if self.kind == "pair":
            return ("three nodes or more that move together",)
        return ("the total of the initial values",)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready public description; a digest represents many radii.

        Returns
        -------
        dict
            Strings, numbers and lists of them.

        Examples
        --------
        >>> NodeAdjacency(1.0).to_dict()["type"]
        'NodeAdjacency'
        """
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


# -- noise ----------------------------------------------------------------------


def _law_of(
    family: str, bound: float, adjacency: NodeAdjacency
) -> type[Noise] | BallNoise:
    """Return the law of an agent's own noise, in units of its scale."""
    one_of(family, "family", (*FAMILIES, *RADIAL_LAWS))
    if (family == "truncated") != (bound < math.inf):
        raise ValueError(
            f"bound: expected a radius with family='truncated' and none otherwise, got "
            f"{bound:g} with {family!r}"
        )
    if family in RADIAL_LAWS:
        if adjacency.kind != "one":
            raise ValueError(
                f"family: {family!r} hides the value of one agent at a time, got "
                f"moves={adjacency.kind!r}; pass family='gaussian'"
            )
        return BallNoise(np.eye(adjacency.dimension), rate=1.0, bound=bound)
    if adjacency.dimension > 1 and family != "gaussian":
        raise ValueError(
            "family: expected 'gaussian' or 'ball' for vectors, whose ball Laplace noise "
            f"of each entry hides poorly, got {family!r}"
        )
    return family_of(family)


@dataclass(frozen=True, eq=False, repr=False)
class AgentNoise:
    """Noise of all agents, one draw each and one for each edge."""

    family: type[Noise] | BallNoise
    scales: NDArray[np.float64]  # (n,) of the noise that agents draw alone
    pairwise_std: float  # of what two neighbours share
    network: Network

    @classmethod
    def of(
        cls,
        network: Network,
        scales: ArrayLike,
        adjacency: NodeAdjacency,
        *,
        family: str,
        bound: float,
        pairwise_std: float,
    ) -> AgentNoise:
        """Return noise of one law that hides an adjacency, checked.

        Shared noise is Gaussian, and not so large that floats lose the rest.
        """
        law = _law_of(family, bound, adjacency)
        n = len(network)
        given = real_array(scales, "scales")
        if given.shape not in ((), (n,)) or not (given > 0).all():
            raise ValueError(
                f"scales: expected a positive number, or {n}, one for each node, got "
                f"shape {given.shape}; a node without noise publishes its initial value"
            )
        scales = real_array(np.broadcast_to(given, (n,)), "scales")
        shared = positive_number(pairwise_std, "pairwise_std", zero=True)
        if shared and family != "gaussian":
            raise ValueError(
                "pairwise_std: noise that neighbours share is Gaussian, got "
                f"family={family!r}; take family='gaussian', or pairwise_std=0"
            )
        least = scales.min()
        is_safe = least > 1 / LARGEST_SIZE and scales.max() < LARGEST_SIZE
        if shared and (shared > MOST_SHARED * least or not is_safe):
            raise ValueError(
                f"pairwise_std: expected at most {MOST_SHARED:g} times the noise that an "
                f"agent draws alone, of 1e-100 to 1e100, got {shared:g} for "
                f"{least:.3g}; more of it hides no better"
            )
        return cls(law, scales, shared, network)

    @property
    def is_resolved(self) -> bool:
        """Whether doubles keep each agent's own draw next to the noise that it shares."""
        return bool(self.pairwise_std <= MOST_SHARED * self.scales.min())

    @property
    def own_variance(self) -> NDArray[np.float64]:
        """Variance (n,) of each agent's own noise."""
        return self.family.unit_variance * self.scales**2

    @property
    def variance(self) -> NDArray[np.float64]:
        """Variance (n,) of each agent's noise."""
        if not self.pairwise_std:
            return self.own_variance
        return self.own_variance + self.pairwise_std**2 * self.degrees

    def limit_error(self, readout: str) -> float:
        """Return the limit of the mean-square error for many steps, of one entry.

        The messages keep the variance of the noise's average, on every node. The states
        keep the rest of the noise. What neighbours share is no part of the average.
        """
        one_of(readout, "readout", READOUTS)
        average = float(self.own_variance.sum()) / len(self.scales)
        if readout == "message":
            return average
        return float(self.variance.sum()) - average

    @cached_property
    def degrees(self) -> NDArray[np.intp]:
        """Number (n,) of neighbours of each agent."""
        ends = np.concatenate(self.links)
        return np.bincount(ends, minlength=len(self.scales))

    @property
    def spread(self) -> float:
        """An upper bound of the largest eigenvalue of the covariance."""
        own = float(self.own_variance.max())
        if not self.pairwise_std:
            return own
        first, second = self.links
        of_links = self.degrees[first] + self.degrees[second]
        return own + self.pairwise_std**2 * float(of_links.max())

    def modal_variance(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Variances (k,) of the noise along the columns of a matrix (n, k)."""
        variance = self.own_variance @ vectors**2
        if self.pairwise_std:
            incidence = self._incidence(*self.links)
            shared = (vectors * (incidence @ incidence.T @ vectors)).sum(axis=0)
            variance += self.pairwise_std**2 * np.maximum(shared, 0.0)
        return variance

    @cached_property
    def links(self) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Positions of the two ends of every edge, of which the first one adds."""
        return self.network.links

    def without_weights(self) -> AgentNoise:
        """Return what `draw` needs: nothing of the network where no noise is shared."""
        if self.pairwise_std:
            return self
        n = len(self.scales)
        return replace(self, network=Network(range(n), sparse.csr_array((n, n))))

    def draw(
        self, rng: np.random.Generator, count: int, keep: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Draw gamma (n, count), and standard entries (count, entries) to be kept."""
        noise = self._entries(rng, count)
        kept = [noise.T.copy()] if keep else []
        noise *= self.scales[:, None]
        if self.pairwise_std:
            first, second = self.links
            step = max(1, BLOCK // count)
            for start in range(0, len(first), step):
                part = slice(start, start + step)
                incidence = self._incidence(first[part], second[part])
                delta = self.family.standard(rng, (incidence.shape[1], count))
                noise += self.pairwise_std * (incidence @ delta)
                if keep:
                    kept.append(delta.T.copy())
        return noise, np.hstack(kept) if keep else None

    def _entries(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Draw standard entries (n, count) of each agent's own noise.

        Those of one vector stand next to each other.
        """
        law = self.family
        n = len(self.scales)
        if not isinstance(law, BallNoise):
            return law.standard(rng, (n, count))
        vectors = law.standard(rng, (n * count // law.dimension, law.dimension))
        return vectors.reshape(n, count)

    def as_gaussian(self) -> AgentNoise:
        """Gaussian noise of the same variances."""
        return replace(self, family=GaussianNoise, scales=np.sqrt(self.own_variance))

    def factor(self) -> NDArray[np.float64]:
        """Dense (n, n + m), gamma = factor @ entries; (n,) for independent noise."""
        if not self.pairwise_std:
            return self.scales
        incidence = self._incidence(*self.links)
        shared = self.pairwise_std * incidence.toarray()
        return np.hstack([np.diag(self.scales), shared])

    def _incidence(
        self, first: NDArray[np.integer], second: NDArray[np.integer]
    ) -> sparse.csc_array:
        """Return the matrix (n, m) with 1 at (first[e], e) and -1 at (second[e], e)."""
        m = len(first)
        rows = np.stack([first, second], axis=1).ravel()
        entries = np.tile([1.0, -1.0], m)
        starts = np.arange(0, 2 * m + 1, 2, dtype=rows.dtype)
        return sparse.csc_array((entries, rows, starts), shape=(len(self.scales), m))

    @property
    def labels(self) -> list[str]:
        """Names ``eta[node]``, then ``delta[node,node]``, of the standard entries."""
        labels = self.network.labels
        names = [f"eta[{label}]" for label in labels]
        if self.pairwise_std:
            first, second = self.links
            for i, j in zip(first.tolist(), second.tolist(), strict=True):
                names.append(f"delta[{labels[i]},{labels[j]}]")
        return names

    # -- what a coalition learns --

    def exposure_to(self, members: Sequence[int]) -> Exposure:
        """Return the exposure of the honest agents to one coalition."""
        n = len(self.scales)
        honest = _Honest(self, members)
        is_small = self._is_exact(len(members))
        roots = np.zeros(n)
        if is_small:
            roots[honest.inside] = honest.exact_roots()
        else:
            star = _star_costs(honest.scales, honest.first, honest.second, 0)
            costs = [honest.tree_costs(), star]
            roots[honest.inside] = _least_roots(honest.scales, self.pairwise_std, costs)
        return Exposure(roots, np.zeros(n, dtype=int), [tuple(members)], is_small)

    def exposure_to_any(
        self, count: int, among: Sequence[tuple[int, ...]] = ()
    ) -> Exposure:
        """Return the exposure to the worst coalition of `count` agents, or a bound of it.

        Large networks have the bound. In small ones it may be asked for the worst `among`
        certain coalitions.
        """
        if count == 0:
            return self.exposure_to(())
        n = len(self.scales)
        roots = np.zeros(n)
        choice = np.zeros(n, dtype=int)
        if not self._is_exact(count, math.comb(len(self.scales), count)):
            costs = [_star_costs(self.scales, *self.links, count)]
            everywhere = self._spread_costs(count)
            if everywhere is not None:
                costs.append(everywhere)
            roots = _least_roots(self.scales, self.pairwise_std, costs)
            return Exposure(roots, choice, [()], False)
        coalitions = among or list(combinations(range(n), count))
        for k, members in enumerate(coalitions):
            found = self.exposure_to(members).roots
            choice[found > roots * (1 + ROUNDED)] = k
            roots = np.maximum(roots, found)
        return Exposure(roots, choice, coalitions, True)

    def ample_pairwise_std(self, count: int) -> float:
        """Return shared noise that brings the agents within `AUTO_EXCESS` of its limit.

        More of it would lower the square of y by this share at most, for any coalition of
        `count` agents; in large networks, the square of the bound.
        """
        costs: list[Costs] = []
        if count == 0 or self._is_exact(count, math.comb(len(self.scales), count)):
            for members in combinations(range(len(self.scales)), count):
                costs.append(_Honest(self, members).tree_costs())
        else:
            everywhere = self._spread_costs(count)
            star = _star_costs(self.scales, *self.links, count)
            costs.append(star if everywhere is None else everywhere)
        needed = max(float(np.max(flows / absorbed)) for absorbed, flows in costs)
        return max(math.sqrt(needed / AUTO_EXCESS), float(self.scales.max()))

    def _is_exact(self, count: int, times: int = 1) -> bool:
        """Return whether so many coalitions of some agents can be evaluated in some seconds."""
        nodes = len(self.scales) - count
        edges = self.network.edges
        work = 1e6 + 10.0 * nodes**3 + nodes**2 * edges
        return times * work <= EXACT_WORK and nodes * (nodes + edges) <= MOST_HELD

    def _spread_costs(self, count: int) -> Costs | None:
        """Costs (n,) of unit moves that spread over all whom any coalition leaves.

        Moves of a core spread within it, and others are not absorbed (infinite costs). The
        core has more neighbours for each of its agents than a coalition has members.
        A coalition with fewer members in it leaves all flows that a larger one leaves.
        Returns None if a coalition of this size may cut it, or if that is not known. Of the
        subtrees of any tree the k-th largest leaves out k agents at least, which bounds the
        flows as along a path through all honest agents.
        """
        inside, connectivity = core_of(self.network, count)
        core = np.flatnonzero(inside)
        if len(core) < count + 2 or connectivity <= count:
            return None
        honest = len(core) - count
        weight = np.sort(self.scales[core] ** 2)
        least = weight[:honest].sum()
        left_out = np.cumsum(weight[: honest - 1]) / weight[count:].sum()
        slack = 1 + 8 * len(weight) * EPS
        absorbed = np.full(len(self.scales), np.inf)
        absorbed[core] = slack / least
        return absorbed, slack * float(((1 - left_out) ** 2).sum())


# -- what a coalition learns -----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Exposure:
    """Hold how well the worst coalition distinguishes unit moves of each node.

    ``roots`` (n,) are y of a unit move of each node, rounded up, and 0 for members of
    the coalition. ``choice`` (n,) says which of the ``coalitions`` exposes the node
    most, and ``exact`` whether the roots are attained.
    """

    roots: NDArray[np.float64]
    choice: NDArray[np.intp]
    coalitions: Sequence[tuple[int, ...]]  # positions of their members
    exact: bool

    def sizes(self, adjacency: NodeAdjacency) -> NDArray[np.float64]:
        """Sizes (n,) of the worst moves that each node takes part in, rounded up.

        Moves of two nodes are bounded by the triangle inequality.
        """
        own = adjacency.radii(len(self.roots)) * self.roots * (1 + 4 * EPS)
        if adjacency.kind == "one":
            return own
        second, largest = np.partition(own, -2)[-2:]
        return own + np.where(own == largest, second, largest)

    def worst(self, adjacency: NodeAdjacency) -> tuple[int, ...]:
        """Positions of the nodes that are exposed most, up to rounding."""
        sizes = self.sizes(adjacency)
        return attaining(sizes)

    def coalition(self, position: int) -> tuple[int, ...]:
        """The coalition that exposes a node most."""
        return tuple(self.coalitions[self.choice[position]])


def _least_roots(
    scales: NDArray[np.float64], pairwise_std: float, costs: list[Costs]
) -> NDArray[np.float64]:
    """The least y (h,) of a unit move by flows of these costs, or absorbed at once."""
    squares = 1 / scales**2
    for absorbed, flows in costs:
        squares = np.minimum(squares, absorbed + flows / pairwise_std / pairwise_std)
    return np.sqrt(squares) * (1 + 32 * EPS)


class _Honest:
    """The network among the agents outside a coalition, and their noise."""

    def __init__(self, noise: AgentNoise, members: Sequence[int]) -> None:
        inside = np.ones(len(noise.scales), dtype=bool)
        inside[list(members)] = False
        place = np.cumsum(inside) - 1
        first, second = noise.links
        linked = inside[first] & inside[second]
        self.inside = inside  # which of all agents are honest, h of them
        self.scales = noise.scales[inside]
        self.pairwise_std = noise.pairwise_std
        self.first = place[first[linked]]  # ends of the m edges among them
        self.second = place[second[linked]]

    def exact_roots(self) -> NDArray[np.float64]:
        """y (h,) of unit moves, from dense matrices, rounded up.

        The flow that minimizes |f|^2 / s_D^2 + |(z - B f) / s|^2 follows from the
        least noise w with [s_D B, diag(s)] w = z. In any case its cost is an upper
        bound.
        """
        column = self.scales[:, None]
        identity = np.eye(len(column))
        incidence = identity[:, self.first] - identity[:, self.second]
        factor = np.hstack([self.pairwise_std * incidence, identity * column])
        least = np.linalg.lstsq(factor, identity, rcond=EPS)[0]
        flow = self.pairwise_std * least[: len(self.first)]
        rest = (identity - incidence @ flow) / column
        squares = ((flow / self.pairwise_std) ** 2).sum(axis=0) + (rest**2).sum(axis=0)
        ends = np.abs(incidence)
        throughput = 1 + ends @ np.abs(flow)
        most_links = ends.sum(axis=1).max()
        error = (most_links + 3) * EPS * np.linalg.norm(throughput / column, axis=0)
        rounding = (len(column) + len(self.first) + 20) * EPS
        return np.sqrt(squares * (1 + rounding)) + error * (1 + 1e-6)

    def tree_costs(self) -> Costs:
        """Costs (h,) of a unit move that flows along a tree and is absorbed everywhere.

        It is absorbed in proportion to s^2, which costs 1 / sum s^2 over the part of
        the network that hangs together. The sum of squared flows is found for the tree
        re-rooted at every agent in turn.
        """
        h = len(self.scales)
        graph = unit_graph(self.first, self.second, h)
        parts, part = connected_components(graph, directed=False)

        def over_part(values: NDArray[np.float64]) -> NDArray[np.float64]:
            sums = np.bincount(part, weights=values)
            return sums.astype(float, copy=False)[part]

        # a tree of each part starts at an agent with most links, and a further node h
        # joins the trees
        hubs = np.empty(parts, dtype=int)
        by_links = np.argsort(np.diff(graph.indptr), kind="stable")
        hubs[part[by_links]] = by_links
        first = np.append(self.first, hubs)
        second = np.append(self.second, np.full(parts, h))
        joined = unit_graph(first, second, h + 1)
        parents = breadth_first_order(joined, h, directed=False)[1][:h]
        is_child = parents != h
        children = np.flatnonzero(is_child)
        ends = (children, parents[children])
        climb = sparse.coo_array((np.ones(len(children)), ends), shape=(h, h))
        to_parent = (sparse.eye_array(h) - climb).tocsc()
        weight = self.scales**2
        total = over_part(weight)
        below = spsolve(to_parent.T.tocsc(), weight / total)
        # re-rooted at a child, its link carries what is not below it
        of_hub = over_part((below * is_child) ** 2)
        flows = spsolve(to_parent, np.where(is_child, 1 - 2 * below, of_hub))
        flows = np.maximum(flows, 0.0)
        slack = 16 * EPS * h * (1 + flows.max())
        return (1 + h * EPS) / total, flows + slack


def _star_costs(
    scales: NDArray[np.float64],
    first: NDArray[np.integer],
    second: NDArray[np.integer],
    count: int,
) -> Costs:
    """Costs (n,) of unit moves that flow to the neighbours that a coalition leaves.

    Any neighbours may be left, so each counts as the one with least noise.
    """
    n = len(scales)
    weight = scales**2
    ends = np.concatenate([first, second])
    opposite = np.concatenate([second, first])
    left = np.maximum(np.bincount(ends, minlength=n) - count, 0)
    least = np.full(n, np.inf)
    np.minimum.at(least, ends, weight[opposite])
    least[left == 0] = 0.0
    total = weight + left * least
    slack = 1 + 16 * EPS
    return slack / total, slack * left * (least / total) ** 2
