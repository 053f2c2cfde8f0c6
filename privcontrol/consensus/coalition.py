"""Bound what an eavesdropper and a coalition learn where neighbours share noise.

The coalition knows the values and noises of its members, so that the noise that the other,
honest agents share with them hides nothing. The noise of the honest agents has covariance
Sigma = diag(s^2) + s_D^2 L, with L the Laplacian of the network among them (weight one on
every edge). A move z of honest values is y-GDP with y^2 = z^T Sigma^-1 z, exactly
(Sabater, Bellet, Ramon 2022).

Upper bounds come from flows. Let a move flow along the edges and be absorbed at the nodes:
f on the edges and a = z - B f at the nodes. Then y^2 <= sum a_i^2 / s_i^2 + sum f_e^2 / s_D^2
for every flow, with equality for the best one (Thomson's principle). So an inaccurate flow
costs privacy on paper and never in truth, and its cost is a sum of squares that floating
point evaluates well.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Self

import numpy as np
import scipy.linalg
import scipy.sparse as sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import (
    breadth_first_order,
    connected_components,
    depth_first_order,
    laplacian,
    maximum_flow,
)

from ..core._linalg import EPS
from .adjacency import MOST_TIES, NodeAdjacency
from .network import unit_graph
from .noise import AgentNoise

#: Multiplications that an exact evaluation may take, some seconds.
EXACT_WORK = 6e9
#: Entries of the largest matrix that it may form.
_EXACT_ENTRIES = 1e7
#: Sizes that differ by no more, relatively, count as equal where one is named.
_TIED = 1e-9
#: Vertex connectivity is checked up to this product of nodes and edges.
_CONNECTIVITY_WORK = 3e6

#: Excess over the limit of infinite shared noise at which ``"auto"`` stops, in variance.
AUTO_EXCESS = 0.01


@dataclass(frozen=True, eq=False)
class Exposure:
    """How well the worst coalition tells moves of each node apart.

    ``sizes`` (n,) are y of the worst move in which a node takes part, rounded up, and 0 for
    members of the coalition. ``choice`` (n,) says which of the ``coalitions`` exposes the
    node most, and ``exact`` (n,) whether the size is attained.
    """

    sizes: NDArray
    choice: NDArray
    coalitions: Sequence[tuple[int, ...]]  # positions of their members
    exact: NDArray

    @property
    def worst(self) -> int:
        """Position of the first node that is exposed most, up to rounding."""
        return self.ties[0]

    @property
    def ties(self) -> tuple[int, ...]:
        """Positions of nodes that are exposed as much."""
        return tuple(_largest(self.sizes)[:MOST_TIES].tolist())

    def coalition(self, position: int | None = None) -> tuple[int, ...]:
        """The coalition that exposes a node most, the most exposed one by default."""
        if position is None:
            position = self.worst
        return tuple(self.coalitions[self.choice[position]])


def _largest(sizes: NDArray) -> NDArray:
    """Positions of the largest sizes, up to rounding that differs between processors."""
    return np.flatnonzero(sizes >= sizes.max() * (1 - _TIED))


def exposure_to(
    noise: AgentNoise, adjacency: NodeAdjacency, members: Sequence[int]
) -> Exposure:
    """Exposure of the honest agents to one coalition, where noise is Gaussian."""
    honest = Honest.without(noise, members)
    is_small = _is_exact(len(honest.nodes), len(honest.first))
    if is_small:
        sizes = honest.exact_sizes(adjacency)
    else:
        sizes = honest.bounded_sizes(adjacency)
    choice = np.zeros(len(sizes), dtype=int)
    exact = np.full(len(sizes), is_small)
    return Exposure(sizes, choice, [tuple(members)], exact)


def exposure_to_any(
    noise: AgentNoise, adjacency: NodeAdjacency, count: int
) -> Exposure:
    """Exposure to the worst coalition of `count` agents, bounded in large networks."""
    if count == 0:
        return exposure_to(noise, adjacency, ())
    if can_enumerate(noise, count):
        tried = list(combinations(range(len(noise.scales)), count))
        return exposure_among(noise, adjacency, tried)
    return _bounded(noise, adjacency, count)


def exposure_among(
    noise: AgentNoise, adjacency: NodeAdjacency, tried: Sequence[tuple[int, ...]]
) -> Exposure:
    """The exact exposure to the worst of some coalitions in a small network."""
    sizes = np.zeros(len(noise.scales))
    choice = np.zeros(len(sizes), dtype=int)
    for k, members in enumerate(tried):
        found = Honest.without(noise, members).exact_sizes(adjacency)
        choice[found > sizes * (1 + _TIED)] = k
        sizes = np.maximum(sizes, found)
    return Exposure(sizes, choice, tried, np.ones(len(sizes), dtype=bool))


def can_enumerate(noise: AgentNoise, count: int) -> bool:
    """Whether all coalitions of so many agents can be evaluated in some seconds."""
    n = len(noise.scales)
    return _is_exact(n - count, noise.network.edges, math.comb(n, count))


def _is_exact(nodes: int, edges: int, times: int = 1) -> bool:
    """Whether so many exact evaluations of a network of this size are feasible."""
    work = 1e6 + 10.0 * nodes**3 + nodes**2 * edges
    return times * work <= EXACT_WORK and nodes * (nodes + edges) <= _EXACT_ENTRIES


@dataclass(frozen=True, eq=False)
class Honest:
    """The network among the honest agents, and their noise."""

    total: int  # agents of the whole network
    nodes: NDArray  # positions (h,) of the honest ones in it
    scales: NDArray  # (h,)
    pairwise_std: float
    first: NDArray  # ends (m,) of the edges, as positions among the honest agents
    second: NDArray

    @classmethod
    def without(cls, noise: AgentNoise, members: Sequence[int]) -> Self:
        """Those who are no members of a coalition."""
        n = len(noise.scales)
        honest = np.ones(n, dtype=bool)
        honest[list(members)] = False
        first, second = noise.links
        if not noise.pairwise_std:
            first = second = first[:0]
        everyone = cls(n, np.arange(n), noise.scales, noise.pairwise_std, first, second)
        return everyone.among(honest)

    def among(self, inside: NDArray) -> Self:
        """The network among some of these agents, whose positions here become `nodes`."""
        inner = inside[self.first] & inside[self.second]
        place = np.cumsum(inside) - 1
        return replace(
            self,
            total=len(inside),
            nodes=np.flatnonzero(inside),
            scales=self.scales[inside],
            first=place[self.first[inner]],
            second=place[self.second[inner]],
        )

    def graph(self) -> sparse.csr_array:
        """Adjacency matrix (h, h) of the honest agents, with ones."""
        return unit_graph(self.first, self.second, len(self.nodes))

    def components(self) -> list[Self]:
        """The connected parts of the network."""
        count, part = connected_components(self.graph(), directed=False)
        return [self.among(part == k) for k in range(count)]

    def normal(self) -> NDArray:
        """The Laplacian (h, h), relative to the scales of the noise."""
        matrix = laplacian(self.graph().toarray())
        return matrix / np.outer(self.scales, self.scales)

    def flow_gram(self) -> tuple[NDArray, NDArray]:
        """A matrix G (h, h) with z^T G z above z^T Sigma^-1 z, nearly equal to it.

        Its entries are inner products of the best flows of unit moves. The second array
        (h,) bounds the norms of their errors.
        """
        h = len(self.nodes)
        gram = np.zeros((h, h))
        error = np.zeros(h)
        for part in self.components():
            block, bound = part._connected_gram()
            gram[np.ix_(part.nodes, part.nodes)] = block
            error[part.nodes] = bound
        return gram, error

    def _connected_gram(self) -> tuple[NDArray, NDArray]:
        """`flow_gram` of a connected network."""
        h = len(self.nodes)
        scales = self.scales
        if not len(self.first):
            return np.diag(1 / scales**2), np.zeros(h)
        identity = np.eye(h)
        incidence = identity[:, self.first] - identity[:, self.second]
        values, vectors = scipy.linalg.eigh(self.normal() * self.pairwise_std**2)
        # the first mode, which is in proportion to the scales, has no flow
        modes = vectors[:, 1:] / scales[:, None]
        potential = (modes / (1 + np.maximum(values[1:], 0.0))) @ modes.T
        drop = potential[self.first] - potential[self.second]
        flow = self.pairwise_std**2 * drop
        absorbed = identity - incidence @ flow
        throughput = 1 + np.abs(incidence) @ np.abs(flow)
        degree = np.abs(incidence).sum(axis=1).max()
        error = (degree + 3) * EPS * throughput / scales[:, None]
        rows = np.vstack([flow / self.pairwise_std, absorbed / scales[:, None]])
        return rows.T @ rows, np.sqrt((error**2).sum(axis=0)) * (1 + 1e-6)

    def exact_sizes(self, adjacency: NodeAdjacency) -> NDArray:
        """The sizes of an `Exposure`, from dense matrices."""
        gram, error = self.flow_gram()
        radii = adjacency.radii(self.total)[self.nodes]
        diagonal = np.diag(gram)
        rounding = (len(gram) + len(self.first) + 20) * EPS
        roots = np.sqrt(diagonal * (1 + rounding)) + error
        if adjacency.kind == "one":
            return self._everyone(radii * roots)
        if adjacency.kind == "pair":
            # the worst of two moves go the same way: no entry of an inverse is negative
            led = radii**2 * diagonal
            squares = np.add.outer(led, led) + 2 * np.outer(radii, radii) * gram
            norms = np.add.outer(radii * roots, radii * roots)
            errors = np.add.outer(radii * error, radii * error)
        else:
            squares = np.add.outer(diagonal, diagonal) - 2 * gram
            squares *= radii[:, None] ** 2
            norms = radii[:, None] * np.add.outer(roots, roots)
            errors = radii[:, None] * np.add.outer(error, error)
        pairs = np.sqrt(np.maximum(squares, 0.0) + rounding * norms**2) + errors
        np.fill_diagonal(pairs, 0.0)
        return self._everyone(pairs.max(axis=1, initial=0.0))

    def bounded_sizes(self, adjacency: NodeAdjacency) -> NDArray:
        """Upper bounds of `exact_sizes` for networks of any size."""
        star = star_costs(self.scales, self.first, self.second, 0)
        costs = [self.tree_costs(), star]
        squares = _least_squares(self.scales, self.pairwise_std, costs)
        radii = adjacency.radii(self.total)[self.nodes]
        return self._everyone(_moved(radii, np.sqrt(squares), adjacency.kind))

    def _everyone(self, sizes: NDArray) -> NDArray:
        """Sizes (n,) of all agents from those of the honest ones, rounded up."""
        everyone = np.zeros(self.total)
        everyone[self.nodes] = sizes * (1 + 16 * EPS)
        return everyone

    def tree_costs(self) -> tuple[NDArray, NDArray]:
        """Costs (h,) of a unit move that flows along a tree and is absorbed everywhere.

        It is absorbed in proportion to s^2, which costs 1 / sum s^2 over the component, the
        first array. The second one is the sum of squared flows, with the tree re-rooted at
        every agent in turn.
        """
        h = len(self.nodes)
        graph = self.graph()
        degrees = np.diff(graph.indptr)
        _, component = connected_components(graph, directed=False)
        weight = self.scales**2
        total = np.bincount(component, weights=weight)[component]
        lengths = np.zeros(h)
        seen = np.zeros(h, dtype=bool)
        for root in np.argsort(-degrees, kind="stable").tolist():
            if seen[root]:
                continue
            order, parent = breadth_first_order(graph, root, directed=False)
            seen[order] = True
            below = (weight / total).tolist()
            children = order[1:].tolist()
            parents = parent[order[1:]].tolist()
            for u, p in zip(reversed(children), reversed(parents)):
                below[p] += below[u]
            cost = {root: math.fsum(below[u] ** 2 for u in children)}
            for u, p in zip(children, parents):
                cost[u] = cost[p] + 1 - 2 * below[u]
            lengths[order] = [cost[u] for u in order.tolist()]
            if seen.all():
                break
        slack = 8 * EPS * h * (1 + np.abs(lengths).max())
        return (1 + h * EPS) / total, np.maximum(lengths, 0.0) + slack


def _least_squares(
    scales: NDArray, pairwise_std: float, costs: Sequence[tuple]
) -> NDArray:
    """The least y^2 (h,) of a unit move by flows of these costs, or absorbed at once."""
    squares = 1 / scales**2
    for shares, lengths in costs:
        squares = np.minimum(squares, shares + lengths / pairwise_std**2)
    return squares


def _moved(radii: NDArray, roots: NDArray, kind: str) -> NDArray:
    """Bounds (h,) for moves by the radii, from the sizes (h,) of unit moves of one node.

    Moves of two nodes are bounded by the triangle inequality.
    """
    if kind == "one":
        return radii * roots
    partner = radii * roots if kind == "pair" else roots
    second, first = np.argsort(partner)[-2:]
    largest = np.full(len(roots), partner[first])
    largest[first] = partner[second]
    if kind == "pair":
        return radii * roots + largest
    return radii * (roots + largest)


def _bounded(noise: AgentNoise, adjacency: NodeAdjacency, count: int) -> Exposure:
    """Upper bounds of the exposure to any coalition of `count` agents.

    A node with so few neighbours is left alone by a coalition that holds them all, and
    then its own noise is all that hides it. Otherwise the exposure is the least of the
    bounds of `star_costs` and `spread_costs`.
    """
    n = len(noise.scales)
    costs: list[tuple] = [star_costs(noise.scales, *noise.links, count)]
    everywhere = spread_costs(noise, count)
    if everywhere is not None:
        costs.append(everywhere)
    squares = _least_squares(noise.scales, noise.pairwise_std, costs)
    roots = np.sqrt(squares) * (1 + 16 * EPS)
    sizes = _moved(adjacency.radii(n), roots, adjacency.kind)
    worst = int(_largest(sizes)[0])
    around = tuple(noise.network.neighbours(worst))
    choice = np.zeros(n, dtype=int)
    choice[worst] = 1
    cut = around if len(around) <= count else ()
    is_alone = noise.degrees <= count
    exact = is_alone & (adjacency.kind == "one")
    return Exposure(sizes, choice, [(), cut], exact)


def ample_pairwise_std(noise: AgentNoise, count: int) -> float:
    """Shared noise that brings the agents within `AUTO_EXCESS` of its limit.

    More of it would lower the square of y by this share at most, whatever a coalition of
    `count` agents knows; in large networks, the square of the bound.
    """
    unit = replace(noise, pairwise_std=1.0)
    if can_enumerate(noise, count):
        needed = 0.0
        for members in combinations(range(len(noise.scales)), count):
            honest = Honest.without(unit, members)
            for part in honest.components():
                if len(part.nodes) > 1:
                    weight = part.scales**2
                    normal = part.normal()
                    slowest = scipy.linalg.eigvalsh(normal, subset_by_index=[1, 1])[0]
                    rest = weight.sum() / weight.min() - 1
                    needed = max(needed, rest / slowest)
    else:
        costs: tuple | None = None
        if count:
            costs = spread_costs(unit, count)
        else:
            costs = Honest.without(unit, ()).tree_costs()
        if costs is None:
            costs = star_costs(noise.scales, *noise.links, count)
        shares, lengths = costs
        needed = float(np.max(lengths / shares))
    largest = float(noise.scales.max())
    return max(math.sqrt(needed / AUTO_EXCESS), largest)


def star_costs(
    scales: NDArray, first: NDArray, second: NDArray, count: int
) -> tuple[NDArray, NDArray]:
    """Costs (n,) of unit moves that flow to the neighbours that a coalition leaves.

    They are the cost of absorption and the sum of squared flows. Any neighbours may be
    left, so that each counts as the one with least noise.
    """
    n = len(scales)
    weight = scales**2
    degrees = np.bincount(np.concatenate([first, second]), minlength=n)
    left = np.maximum(degrees - count, 0)
    least = np.full(n, np.inf)
    np.minimum.at(least, first, weight[second])
    np.minimum.at(least, second, weight[first])
    least[left == 0] = 0.0
    total = weight + left * least
    slack = 1 + 16 * EPS
    return slack / total, slack * left * (least / total) ** 2


def spread_costs(noise: AgentNoise, count: int) -> tuple[float, float] | None:
    """Cost of a unit move that spreads over all whom any coalition leaves.

    Returns absorption and sum of squared flows, or None if a coalition of this size may
    cut the network, or if that is not known. The flows are bounded along a path through all
    honest agents, and by the algebraic connectivity, of which every agent that leaves takes
    at most one (Fiedler 1973).
    """
    n = len(noise.scales)
    honest = n - count
    if honest < 2:
        return None
    weight = np.sort(noise.scales**2)
    least = weight[:honest].sum()
    lengths = [math.inf]
    if is_connected_without(noise, count):
        # of the subtrees of any tree the k-th largest leaves out k agents at least
        left_out = np.cumsum(weight[: honest - 1]) / weight[count:].sum()
        lengths.append(float(((1 - left_out) ** 2).sum()))
    connectivity = algebraic_connectivity(noise) - count
    if connectivity > 0:
        lengths.append((1 + float(weight[-1] / least)) / connectivity)
    if min(lengths) == math.inf:
        return None
    slack = 1 + 8 * n * EPS
    return slack / least, slack * min(lengths)


def algebraic_connectivity(noise: AgentNoise) -> float:
    """A lower bound of the second smallest eigenvalue of the unit Laplacian.

    It is 0 where the network is too large to compute it.
    """
    h = len(noise.scales)
    if 10.0 * h**3 > EXACT_WORK:
        return 0.0
    matrix = laplacian(noise.network.unit_graph.toarray())
    value = scipy.linalg.eigvalsh(matrix, subset_by_index=[1, 1])[0]
    rounding = 10 * h * EPS * matrix.diagonal().max()
    return float(value - rounding)


def is_connected_without(noise: AgentNoise, count: int) -> bool:
    """Whether the network is known to stay connected without any `count` agents.

    One agent is looked for among the cut nodes. Several are by Menger's theorem as Even
    (1975) uses it: count + 1 agents are joined by so many disjoint paths to each other, and
    each further agent to those before it.
    """
    first, second = noise.links
    n = len(noise.scales)
    degrees = noise.degrees
    if degrees.min() <= count or n - count < 2:
        return False
    if degrees.min() + 1 - count > (n - count) / 2:
        return True  # two components would be too large
    if count == 1:
        return not has_cut_node(noise.network.unit_graph)
    if float(n) * len(first) > _CONNECTIVITY_WORK:
        return False
    hubs = np.argsort(-degrees, kind="stable")[: count + 1].tolist()
    adjacent = set(zip(first.tolist(), second.tolist()))
    for a, b in combinations(sorted(hubs), 2):
        paths = n if (a, b) in adjacent else _disjoint_paths(n, first, second, [a], b)
        if paths <= count:
            return False
    for node in range(n):
        if node not in hubs:
            if _disjoint_paths(n, first, second, hubs, node) <= count:
                return False
            hubs.append(node)
    return True


def has_cut_node(graph: sparse.csr_array) -> bool:
    """Whether some node of a connected graph joins parts that fall asunder without it.

    In a depth-first tree such a node has a subtree whose edges lead no higher than to the
    node (Hopcroft and Tarjan 1973). True also where this is not known.
    """
    n = graph.shape[0]
    order, parent = depth_first_order(graph, 0, directed=False)
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    upper = sparse.triu(graph, k=1, format="coo")
    ends = np.sort(place[np.stack([upper.row, upper.col])], axis=0)
    highest = np.arange(n)
    np.minimum.at(highest, ends[1], ends[0])
    above = np.zeros(n, dtype=np.int64)
    above[1:] = place[parent[order[1:]]]
    parents = above.tolist()
    reach = highest.tolist()
    last = list(range(n))  # of each subtree
    for v in range(n - 1, 0, -1):
        p = parents[v]
        reach[p] = min(reach[p], reach[v])
        last[p] = max(last[p], last[v])
    if (ends[1] > np.array(last)[ends[0]]).any():
        return True  # no depth-first tree: nothing is known
    children_of_root = parents[1:].count(0)
    return children_of_root > 1 or any(
        parents[v] > 0 and reach[v] >= parents[v] for v in range(1, n)
    )


def _disjoint_paths(
    n: int, first: NDArray, second: NDArray, sources: list[int], target: int
) -> int:
    """Number of paths from some nodes to another that share no inner node.

    From several sources each one starts a path at most.
    """
    enter = 2 * np.arange(n, dtype=np.int32)
    leave = enter + 1
    start = 2 * n
    through = np.ones(n, dtype=np.int32)
    through[target] = n
    if len(sources) == 1:
        through[sources[0]] = n
    rows = np.concatenate([enter, leave[first], leave[second], [start] * len(sources)])
    columns = np.concatenate([leave, enter[second], enter[first], enter[sources]])
    links = np.ones(2 * len(first), dtype=np.int32)
    begin = np.full(len(sources), n if len(sources) == 1 else 1, dtype=np.int32)
    capacity = np.concatenate([through, links, begin])
    shape = (2 * n + 1, 2 * n + 1)
    graph = sparse.csr_array((capacity, (rows, columns)), shape=shape)
    return int(maximum_flow(graph, start, int(enter[target])).flow_value)
