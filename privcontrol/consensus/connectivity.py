"""Tell whether a network stays connected when some agents leave it.

Graphs are adjacency matrices (n, n) with ones, of connected networks.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sparse
from scipy.sparse.csgraph import depth_first_order, laplacian, maximum_flow

from ..core._linalg import EPS

#: The algebraic connectivity of larger networks is not computed, which takes seconds.
_LARGEST_SPECTRUM = 840
#: Disjoint paths are counted up to this product of nodes, links and agents.
_LARGEST_COUNT = 1e7


def algebraic_connectivity(graph: sparse.csr_array) -> float:
    """A lower bound of the second smallest eigenvalue of the Laplacian.

    It is 0 where the network is too large to compute it.
    """
    n = graph.shape[0]
    if n > _LARGEST_SPECTRUM:
        return 0.0
    matrix = laplacian(graph.toarray())
    value = scipy.linalg.eigvalsh(matrix, subset_by_index=[1, 1])[0]
    rounding = 10 * n * EPS * matrix.diagonal().max()
    return float(value - rounding)


def is_connected_without(graph: sparse.csr_array, count: int) -> bool:
    """Return whether the network is known to stay connected without any `count` agents.

    One agent is looked for among the cut nodes. Several are by Menger's theorem: one of
    count + 1 hubs stays, and is cut from a stranger only if fewer than count + 1
    disjoint paths lead there.
    """
    n = graph.shape[0]
    degrees = np.diff(graph.indptr)
    fewest = degrees.min()
    if fewest <= count or n - count < 2:
        return False
    if fewest + 1 - count > (n - count) / 2:
        return True  # two components would be too large
    if count == 1:
        return not has_cut_node(graph)
    if float(n) * graph.nnz / 2 * (count + 1) > _LARGEST_COUNT:
        return False
    # each agent is an arc from its entry to its exit, which one path may take
    entry = 2 * np.arange(n, dtype=np.int32)
    leave = entry + 1
    links = graph.tocoo()
    tails = np.concatenate([entry, leave[links.row]])
    heads = np.concatenate([leave, entry[links.col]])
    capacity = np.ones(len(tails), dtype=np.int32)
    arcs = sparse.csr_array((capacity, (tails, heads)), shape=(2 * n, 2 * n))
    for hub in np.argsort(-degrees, kind="stable")[: count + 1].tolist():
        is_stranger = graph[[hub]].toarray().ravel() == 0
        is_stranger[hub] = False
        for stranger in np.flatnonzero(is_stranger):
            paths = maximum_flow(arcs, int(leave[hub]), int(entry[stranger]))
            if paths.flow_value <= count:
                return False
    return True


def has_cut_node(graph: sparse.csr_array) -> bool:
    """Whether some node joins parts that fall asunder without it.

    In a depth-first tree such a node has a subtree whose edges lead no higher than to
    the node (Hopcroft and Tarjan 1973). True also where this is not known.
    """
    n = graph.shape[0]
    order, parent = depth_first_order(graph, 0, directed=False)
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    links = sparse.triu(graph, k=1, format="coo")
    ends = np.stack([place[links.row], place[links.col]])
    higher, lower = np.sort(ends, axis=0)
    highest = np.arange(n)
    np.minimum.at(highest, lower, higher)
    above = place[parent[order[1:]]]
    parents = [0, *above.tolist()]
    reach = highest.tolist()
    last = list(range(n))  # of each subtree
    for v in reversed(range(1, n)):
        p = parents[v]
        reach[p] = min(reach[p], reach[v])
        last[p] = max(last[p], last[v])
    if (lower > np.array(last)[higher]).any():
        return True  # no depth-first tree: nothing is known
    return any(reach[v] >= parents[v] for v in range(2, n))
