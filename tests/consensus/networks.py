"""Networks that the consensus tests share."""

import numpy as np
import scipy.sparse as sparse

from privcontrol.plants import ten_agent_graph, ten_agent_values

TEN_AGENTS = ten_agent_graph()
TEN_VALUES = ten_agent_values()


def random_graph(nodes, seed, density=0.1):
    """Adjacency of a connected random graph: a ring and random chords, unit weights."""
    rng = np.random.default_rng(seed)
    chords = np.triu(rng.random((nodes, nodes)) < density, 1)
    ring = np.roll(np.eye(nodes, dtype=bool), 1, axis=1)
    return sparse.csr_array((chords | chords.T | ring | ring.T).astype(float))


def large_graph(nodes, chords):
    """A ring and this many random chords, sparse, with unit weights."""
    rng, ring = np.random.default_rng(0), np.arange(nodes)
    i = np.r_[ring, rng.integers(nodes, size=chords)]
    j = np.r_[(ring + 1) % nodes, rng.integers(nodes, size=chords)]
    half = sparse.coo_array((np.ones(len(i)), (i, j)), shape=(nodes, nodes)).tocsr()
    return half + half.T


def star(nodes):
    """A hub, node 0, and its neighbours, sparse, with unit weights."""
    rays = sparse.coo_array(
        (np.ones(nodes - 1), (np.zeros(nodes - 1, int), np.arange(1, nodes))),
        shape=(nodes, nodes),
    )
    return (rays + rays.T).tocsr()
