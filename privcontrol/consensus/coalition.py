"""Bound what an eavesdropper and a coalition learn where neighbours share noise.

The coalition knows the values and noises of its members, so the noise that the other,
honest agents share with them hides nothing. The noise of the honest agents has
covariance Sigma = diag(s^2) + s_D^2 L, with L the Laplacian of the network among them
(weight one on every edge). A move z of honest values is y-GDP with y^2 = z^T Sigma^-1
z, exactly (Sabater, Bellet, Ramon 2022).

Upper bounds come from flows. Let a move flow along the edges and be absorbed at the
nodes: f on the edges and a = z - B f at the nodes. Then y^2 <= sum a_i^2 / s_i^2 + sum
f_e^2 / s_D^2 for every flow, with equality for the best one (Thomson's principle). So
an inaccurate flow costs privacy on paper and never in truth, and its cost is a sum of
squares that floating point evaluates well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import scipy.linalg
import scipy.sparse as sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import (
    breadth_first_order,
    connected_components,
    laplacian,
)
from scipy.sparse.linalg import spsolve

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

#: Excess over the limit of infinite shared noise at which ``"auto"`` stops, in
#: variance.
AUTO_EXCESS = 0.01

#: What a unit move costs at most: absorption, and the sum of squared flows.
Costs = tuple[NDArray | float, NDArray | float]


@dataclass(frozen=True, eq=False)
class Exposure:
    """How well the worst coalition tells moves of each node apart.

    ``sizes`` (n,) are y of the worst move in which a node takes part, rounded up, and 0
    for members of the coalition. ``choice`` (n,) says which of the ``coalitions``
    exposes the node most, and ``exact`` (n,) whether the size is attained.
    """

    sizes: NDArray
    choice: NDArray
    coalitions: Sequence[tuple[int, ...]]  # positions of their members
    exact: NDArray

    @property
    def ties(self) -> tuple[int, ...]:
        """Positions of the nodes that are exposed most, up to rounding."""
        largest = np.flatnonzero(self.sizes >= self.sizes.max() * (1 - _TIED))
        return tuple(largest[:MOST_TIES].tolist())

    @property
    def worst(self) -> int:
        """Position of the first of them."""
        return self.ties[0]

    def coalition(self, position: int | None = None) -> tuple[int, ...]:
        """The coalition that exposes a node most, the most exposed one by default."""
        if position is None:
            position = self.worst
        return tuple(self.coalitions[self.choice[position]])


def exposure_to(
    noise: AgentNoise, adjacency: NodeAdjacency, members: Sequence[int]
) -> Exposure:
    """Exposure of the honest agents to one coalition."""
    n = len(noise.scales)
    honest = Honest(noise, members)
    is_small = _is_exact(len(honest.scales), len(honest.first))
    radii = adjacency.radii(n)[honest.inside]
    if is_small:
        found = honest.sizes(radii, adjacency.kind)
    else:
        star = star_costs(honest.scales, honest.first, honest.second, 0)
        costs = [honest.tree_costs(), star]
        roots = _least_roots(honest.scales, noise.pairwise_std, costs)
        found = _moved(radii, roots, adjacency.kind)
    sizes = np.zeros(n)
    sizes[honest.inside] = found
    choice = np.zeros(n, dtype=int)
    return Exposure(sizes, choice, [tuple(members)], np.full(n, is_small))


def exposure_to_any(
    noise: AgentNoise,
    adjacency: NodeAdjacency,
    count: int,
    among: Sequence[tuple[int, ...]] = (),
) -> Exposure:
    """Exposure to the worst coalition of `count` agents, bounded in large networks.

    In small ones it may be asked for the worst `among` certain coalitions.
    """
    if count == 0:
        return exposure_to(noise, adjacency, ())
    if not can_enumerate(noise, count):
        return _bounded(noise, adjacency, count)
    n = len(noise.scales)
    coalitions = among or list(combinations(range(n), count))
    sizes = np.zeros(n)
    choice = np.zeros(n, dtype=int)
    for k, members in enumerate(coalitions):
        found = exposure_to(noise, adjacency, members).sizes
        choice[found > sizes * (1 + _TIED)] = k
        sizes = np.maximum(sizes, found)
    return Exposure(sizes, choice, coalitions, np.ones(n, dtype=bool))


def can_enumerate(noise: AgentNoise, count: int) -> bool:
    """Whether all coalitions of so many agents can be evaluated in some seconds."""
    n = len(noise.scales)
    return _is_exact(n - count, noise.network.edges, math.comb(n, count))


def _is_exact(nodes: int, edges: int, times: int = 1) -> bool:
    """Whether so many exact evaluations of a network of this size are feasible."""
    work = 1e6 + 10.0 * nodes**3 + nodes**2 * edges
    return times * work <= EXACT_WORK and nodes * (nodes + edges) <= _EXACT_ENTRIES


def _bounded(noise: AgentNoise, adjacency: NodeAdjacency, count: int) -> Exposure:
    """Upper bounds of the exposure to any coalition of `count` agents.

    A node with so few neighbours is left alone by a coalition that holds them all, and
    then its own noise is all that hides it.
    """
    n = len(noise.scales)
    costs = [star_costs(noise.scales, *noise.links, count)]
    everywhere = spread_costs(noise, count)
    if everywhere is not None:
        costs.append(everywhere)
    roots = _least_roots(noise.scales, noise.pairwise_std, costs)
    sizes = _moved(adjacency.radii(n), roots, adjacency.kind)
    is_alone = noise.degrees <= count
    exact = is_alone & (adjacency.kind == "one")
    exposure = Exposure(sizes, np.zeros(n, dtype=int), [()], exact)
    around = tuple(noise.network.neighbours(exposure.worst))
    if len(around) > count:
        return exposure
    choice = np.zeros(n, dtype=int)
    choice[exposure.worst] = 1
    return replace(exposure, choice=choice, coalitions=[(), around])


def _least_roots(scales: NDArray, pairwise_std: float, costs: list[Costs]) -> NDArray:
    """The least y (h,) of a unit move by flows of these costs, or absorbed at once."""
    squares = 1 / scales**2
    for absorbed, flows in costs:
        square = absorbed + flows / pairwise_std**2
        squares = np.minimum(squares, square)
    return np.sqrt(squares) * (1 + 32 * EPS)


def _moved(radii: NDArray, roots: NDArray, kind: str) -> NDArray:
    """Bounds (h,) for moves by the radii, from the sizes (h,) of unit moves of one node.

    Moves of two nodes are bounded by the triangle inequality.
    """
    own = radii * roots
    if kind == "one":
        return own
    partner = own if kind == "pair" else roots
    second, largest = np.partition(partner, -2)[-2:]
    others = np.where(partner == largest, second, largest)
    if kind == "pair":
        return own + others
    return radii * (roots + others)


class Honest:
    """The network among the agents who are no members of a coalition, and their noise."""

    def __init__(self, noise: AgentNoise, members: Sequence[int]) -> None:
        inside = np.ones(len(noise.scales), dtype=bool)
        inside[list(members)] = False
        place = np.cumsum(inside) - 1
        first, second = noise.links
        linked = inside[first] & inside[second]
        self.inside = inside  # which of all agents are honest, h of them
        self.scales = noise.scales[inside]
        self.pairwise_std = noise.pairwise_std
        self.first = place[first[linked]]  # ends of the edges among them
        self.second = place[second[linked]]
        self.graph = unit_graph(self.first, self.second, len(self.scales))
        self.parts, self.part = connected_components(self.graph, directed=False)

    def normal(self) -> NDArray:
        """The Laplacian (h, h), relative to the scales of the noise."""
        matrix = laplacian(self.graph.toarray())
        return matrix / np.outer(self.scales, self.scales)

    def flow_gram(self) -> tuple[NDArray, NDArray]:
        """A matrix G (h, h) with z^T G z above z^T Sigma^-1 z, nearly equal to it.

        Its entries are inner products of the best flows of unit moves. The second array
        (h,) bounds the norms of their errors.
        """
        column = self.scales[:, None]
        identity = np.eye(len(column))
        incidence = identity[:, self.first] - identity[:, self.second]
        flow = self._best_flows()
        absorbed = identity - incidence @ flow
        cost_of_flow = flow / self.pairwise_std
        cost_of_rest = absorbed / column
        rows = np.vstack([cost_of_flow, cost_of_rest])
        ends = np.abs(incidence)
        most_links = ends.sum(axis=1).max()
        throughput = 1 + ends @ np.abs(flow)
        error = (most_links + 3) * EPS * throughput / column
        error_norms = np.linalg.norm(error, axis=0)
        return rows.T @ rows, error_norms * (1 + 1e-6)

    def _best_flows(self) -> NDArray:
        """Flows (m, h) on the edges that cost unit moves of each agent least, nearly."""
        variance = self.pairwise_std**2
        values, vectors = scipy.linalg.eigh(self.normal() * variance)
        # the first mode of each part is in proportion to the scales and has no flow
        moving = slice(self.parts, None)
        stiffness = np.maximum(values[moving], 0.0)
        modes = vectors[:, moving] / self.scales[:, None]
        softened = modes / (1 + stiffness)
        potential = softened @ modes.T
        drop = potential[self.first] - potential[self.second]
        return variance * drop

    def sizes(self, radii: NDArray, kind: str) -> NDArray:
        """Sizes (h,) of the worst moves by these radii, from dense matrices."""
        gram, error = self.flow_gram()
        squares = np.diag(gram)
        rounding = (len(gram) + len(self.first) + 20) * EPS
        roots = np.sqrt(squares * (1 + rounding)) + error
        up = 1 + 16 * EPS
        if kind == "one":
            return radii * roots * up
        # the worst pair goes the same way: no entry of an inverse is negative
        own = radii[:, None]
        others = radii if kind == "pair" else -own
        pairs = own**2 * squares[:, None] + others**2 * squares
        pairs += 2 * own * others * gram
        size = np.abs(others)
        norms = own * roots[:, None] + size * roots
        errors = own * error[:, None] + size * error
        largest = np.maximum(pairs, 0.0) + rounding * norms**2
        bounds = np.sqrt(largest) + errors
        np.fill_diagonal(bounds, 0.0)
        return bounds.max(axis=1) * up

    def slowest_cost(self) -> float:
        """The flow over the absorption, at most, of a move that spreads over its part."""
        weight = self.scales**2
        if self.parts == len(weight):
            return 0.0
        place = [self.parts, self.parts]
        slowest = scipy.linalg.eigvalsh(self.normal(), subset_by_index=place)[0]
        return (weight.sum() / weight.min() - 1) / slowest

    def tree_costs(self) -> Costs:
        """Costs (h,) of a unit move that flows along a tree and is absorbed everywhere.

        It is absorbed in proportion to s^2, which costs 1 / sum s^2 over the part. The
        sum of squared flows is found for the tree re-rooted at every agent in turn.
        """
        h = len(self.scales)
        weight = self.scales**2
        total = self._over_part(weight)
        to_parent, is_child = self._tree()
        below = spsolve(to_parent.T.tocsc(), weight / total)
        squares = (below * is_child) ** 2
        of_hub = self._over_part(squares)
        # re-rooted at a child, its link carries what is not below it
        gains = np.where(is_child, 1 - 2 * below, of_hub)
        flows = np.maximum(spsolve(to_parent, gains), 0.0)
        slack = 16 * EPS * h * (1 + flows.max())
        return (1 + h * EPS) / total, flows + slack

    def _over_part(self, values: NDArray) -> NDArray:
        """Sums (h,) of values (h,) over the part that each agent belongs to."""
        return np.bincount(self.part, weights=values)[self.part]

    def _tree(self) -> tuple[sparse.csc_array, NDArray]:
        """Differences (h, h) to the parent in a tree of each part, and who has one.

        A tree starts at an agent with most links.
        """
        h = len(self.scales)
        degrees = np.diff(self.graph.indptr)
        by_links = np.argsort(degrees, kind="stable")
        hubs = np.empty(self.parts, dtype=int)
        hubs[self.part[by_links]] = by_links
        # a further node h joins the parts
        first = np.append(self.first, hubs)
        second = np.append(self.second, np.full(self.parts, h))
        joined = unit_graph(first, second, h + 1)
        _, parents = breadth_first_order(joined, h, directed=False)
        is_child = parents[:h] != h
        children = np.flatnonzero(is_child)
        ends = (children, parents[children])
        ones = np.ones(len(children))
        climb = sparse.coo_array((ones, ends), shape=(h, h))
        to_parent = sparse.eye_array(h) - climb
        return to_parent.tocsc(), is_child


def ample_pairwise_std(noise: AgentNoise, count: int) -> float:
    """Shared noise that brings the agents within `AUTO_EXCESS` of its limit.

    More of it would lower the square of y by this share at most, for any coalition of
    `count` agents knows; in large networks, the square of the bound.
    """
    needed = 0.0
    if can_enumerate(noise, count):
        for members in combinations(range(len(noise.scales)), count):
            needed = max(needed, Honest(noise, members).slowest_cost())
    else:
        costs: Costs | None = None
        if count:
            costs = spread_costs(noise, count)
        else:
            costs = Honest(noise, ()).tree_costs()
        if costs is None:
            costs = star_costs(noise.scales, *noise.links, count)
        absorbed, flows = costs
        needed = float(np.max(flows / absorbed))
    largest = float(noise.scales.max())
    return max(math.sqrt(needed / AUTO_EXCESS), largest)


def star_costs(scales: NDArray, first: NDArray, second: NDArray, count: int) -> Costs:
    """Costs (n,) of unit moves that flow to the neighbours that a coalition leaves.

    Any neighbours may be left, so each counts as the one with least noise.
    """
    n = len(scales)
    weight = scales**2
    ends = np.concatenate([first, second])
    opposite = np.concatenate([second, first])
    degrees = np.bincount(ends, minlength=n)
    left = np.maximum(degrees - count, 0)
    least = np.full(n, np.inf)
    np.minimum.at(least, ends, weight[opposite])
    least[left == 0] = 0.0
    total = weight + left * least
    flow = least / total
    slack = 1 + 16 * EPS
    return slack / total, slack * left * flow**2


def spread_costs(noise: AgentNoise, count: int) -> Costs | None:
    """Costs of a unit move that spreads over all whom any coalition leaves.

    Returns None if a coalition of this size may cut the network, or if that is not
    known. The flows are bounded along a path through all honest agents, and by the
    algebraic connectivity, of which every agent that leaves takes at most one (Fiedler
    1973).
    """
    n = len(noise.scales)
    honest = n - count
    if honest < 2:
        return None
    weight = np.sort(noise.scales**2)
    least = weight[:honest].sum()
    lengths = math.inf
    if noise.network.is_connected_without(count):
        # of the subtrees of any tree the k-th largest leaves out k agents at least
        left_out = np.cumsum(weight[: honest - 1]) / weight[count:].sum()
        lengths = float(((1 - left_out) ** 2).sum())
    connectivity = noise.network.algebraic_connectivity - count
    if connectivity > 0:
        lengths = min(lengths, (1 + float(weight[-1] / least)) / connectivity)
    if lengths == math.inf:
        return None
    slack = 1 + 8 * n * EPS
    return slack / least, slack * lengths
