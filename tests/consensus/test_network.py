"""Networks: what is accepted, what is refused and why, and the rate of convergence."""

import tracemalloc

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sparse
from consensus.networks import TEN_AGENTS, large_graph, random_graph
from repeats import few

from privcontrol.consensus import network as network_module, read_network
from privcontrol.plants import ten_agent_graph

PATH = np.array([[0, 0.3, 0], [0.3, 0, 0.3], [0, 0.3, 0]])
SQUARE = 0.5 * nx.to_numpy_array(nx.cycle_graph(4))


def test_the_ten_agent_graph_is_the_paper_s():
    network = read_network(ten_agent_graph())
    assert network.nodes == tuple(range(1, 11))
    assert network.edges == 14
    assert network.rate == pytest.approx(0.8256939, abs=5e-8)
    assert (
        sorted(weight for *_, weight in TEN_AGENTS.edges(data="weight")) == [0.25] * 14
    )
    full = [
        node for node, degree in TEN_AGENTS.degree if degree == 4
    ]  # row sum 1: the paper asks for less
    assert full == [2, 5, 7, 10]


@pytest.mark.parametrize(
    "kind",
    [
        np.asarray,
        sparse.csr_matrix,
        sparse.coo_array,
        sparse.lil_matrix,
        np.ndarray.tolist,
    ],
)
def test_dense_and_sparse_matrices_and_graphs_give_the_same_network(kind):
    dense = nx.to_numpy_array(TEN_AGENTS)
    network = read_network(kind(dense))
    assert np.array_equal(
        network.iteration.toarray(), read_network(TEN_AGENTS).iteration.toarray()
    )
    assert np.array_equal(
        network.laplacian.toarray(), nx.laplacian_matrix(TEN_AGENTS).toarray()
    )


def test_a_diagonal_is_no_link():
    assert np.array_equal(
        read_network(PATH + np.diag([5.0, 2.0, 1.0])).iteration.toarray(),
        read_network(PATH).iteration.toarray(),
    )


@pytest.mark.parametrize("weights", ["metropolis", "max-degree"])
def test_degree_weights_need_no_weights_and_follow_their_formula(weights):
    graph = nx.barbell_graph(4, 2)
    matrix = read_network(graph, weights=weights).iteration.toarray()
    degree = dict(graph.degree)
    for i, j in graph.edges:
        largest = (
            max(degree[i], degree[j])
            if weights == "metropolis"
            else max(degree.values())
        )
        assert matrix[i, j] == 1 / (1 + largest)
    assert np.allclose(matrix.sum(axis=0), 1, rtol=1e-15)
    assert (np.diag(matrix) > 0).all()


@pytest.mark.parametrize("seed", few(range(5), of=2))
def test_rate_is_the_second_largest_modulus_densely_and_by_lanczos(seed, monkeypatch):
    network = read_network(random_graph(60, seed), weights="metropolis")
    modulus = np.sort(np.abs(np.linalg.eigvals(network.iteration.toarray())))[-2]
    assert network.rate == pytest.approx(modulus, rel=1e-12)
    monkeypatch.setattr(network_module, "DENSE_NODES", 10)
    assert read_network(
        random_graph(60, seed), weights="metropolis"
    ).rate == pytest.approx(modulus, rel=1e-7)


def test_slow_modes_do_not_mix_with_the_consensus_mode():
    weak = np.zeros((4, 4))
    weak[0, 1] = weak[1, 0] = weak[2, 3] = weak[3, 2] = 0.3
    weak[1, 2] = weak[2, 1] = 1e-14
    values, vectors = read_network(weak).spectrum
    assert values[-1] == 1
    assert np.allclose(vectors.T @ vectors, np.eye(4), atol=1e-12)


REFUSED = {
    "disconnected": (
        sparse.block_diag([PATH, PATH]),
        {},
        "connected network, got 2 components",
    ),
    "isolated node": (np.pad(PATH, (0, 1)), {}, "connected network, got 2 components"),
    "no edges": (nx.empty_graph(3), {}, "without an edge"),
    "directed graph": (
        nx.DiGraph([(0, 1), (1, 0)]),
        {},
        "undirected graph, got a directed one",
    ),
    "directed matrix": (np.triu(PATH), {}, "symmetric weights"),
    "negative": (-PATH, {}, "got 4 negative entries"),
    "Laplacian": (np.diag([0.3, 0.6, 0.3]) - PATH, {}, "not a Laplacian"),
    "not convergent": (
        SQUARE,
        {},
        "does not converge on these weights: I - L has the eigenvalue -1 ",
    ),
    "bipartite": (nx.to_numpy_array(nx.hypercube_graph(3)) / 3, {}, "eigenvalue -1 "),
    "divergent": (4 * PATH, {}, "row sums below 1"),
    "not square": (np.ones((2, 3)), {}, "square weight matrix"),
    "one node": (np.ones((1, 1)), {}, "at least two nodes"),
    "not finite": (np.where(PATH > 0, np.nan, 0), {}, "finite"),
    "infinite, sparse": (sparse.csr_array(np.where(PATH > 0, np.inf, 0)), {}, "finite"),
    "unweighted": (
        nx.path_graph(3),
        {},
        "2 of 2 edges have no attribute 'weight'.*metropolis",
    ),
    "unknown rule": (
        PATH,
        {"weights": "uniform"},
        "'given', 'metropolis', 'max-degree'",
    ),
    "names alike": (nx.Graph([(1, "1", {"weight": 0.3})]), {}, "differ as strings"),
    "attribute not finite": (
        nx.Graph([(0, 1, {"weight": float("inf")})]),
        {},
        "edge weights: expected finite",
    ),
}


@pytest.mark.parametrize("graph, options, message", REFUSED.values(), ids=REFUSED)
def test_each_unfit_graph_has_its_own_error(graph, options, message):
    with pytest.raises(ValueError, match=message):
        read_network(graph, **options)


@pytest.mark.parametrize("seed", few(range(40), of=8))
def test_what_is_accepted_converges_and_what_is_refused_does_not(seed):
    """Small graphs with row sums at and around 1, against the dense spectrum."""
    rng = np.random.default_rng(seed)
    edges = nx.to_numpy_array(
        nx.connected_watts_strogatz_graph(6, 2 + 2 * (seed % 2), 0.3, seed=seed)
    )
    matrix = edges / edges.sum(axis=1).max() * rng.choice([0.9, 1.0, 1.2, 1.6])
    modulus = np.sort(
        np.abs(np.linalg.eigvalsh(np.eye(6) - np.diag(matrix.sum(axis=1)) + matrix))
    )[-2]
    if modulus < 1 - 1e-9:
        assert read_network(matrix).rate == pytest.approx(modulus, abs=1e-12)
    else:
        with pytest.raises(ValueError, match="does not converge"):
            read_network(matrix)


def test_decimal_weights_with_row_sum_one_are_not_refused():
    complete = 0.1 * (np.ones((11, 11)) - np.eye(11))  # ten weights of 0.1
    assert read_network(complete).rate == pytest.approx(0.1, abs=1e-12)


@pytest.mark.parametrize("weights", ["given", "metropolis", "max-degree"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_reading_leaves_the_caller_s_matrix_alone_and_stores_32_bit_indices(
    weights, index
):
    matrix = sparse.csr_array(PATH + np.diag([5.0, 0.0, 1.0]))
    matrix.indices, matrix.indptr = (
        matrix.indices.astype(index),
        matrix.indptr.astype(index),
    )
    before = [array.copy() for array in (matrix.data, matrix.indices, matrix.indptr)]
    iteration = read_network(matrix, weights=weights).iteration
    assert all(
        map(np.array_equal, before, (matrix.data, matrix.indices, matrix.indptr))
    )
    assert not np.shares_memory(iteration.data, matrix.data)
    assert iteration.indices.dtype == iteration.indptr.dtype == np.int32


def test_a_large_network_is_read_in_the_memory_of_a_few_networks():
    graph = large_graph(20_000, 180_000)
    tracemalloc.start()
    iteration = read_network(graph, weights="metropolis").iteration
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * (
        iteration.data.nbytes + iteration.indices.nbytes + iteration.indptr.nbytes
    )


def test_another_edge_attribute_can_hold_the_weights():
    graph = nx.path_graph(3)
    nx.set_edge_attributes(graph, 0.25, "gain")
    assert read_network(graph, weight="gain").iteration[0, 1] == 0.25


def test_a_network_is_read_like_its_graph():
    graph = nx.relabel_nodes(nx.wheel_graph(6), dict(enumerate("abcdef")))
    network = read_network(graph, weights="metropolis")
    again = read_network(network)
    assert again.nodes == network.nodes
    assert (again.iteration != network.iteration).nnz == 0
    other = read_network(network, weights="max-degree").iteration
    assert (other != read_network(graph, weights="max-degree").iteration).nnz == 0


def test_paths_are_counted_in_small_networks_and_cut_nodes_found_in_large_ones():
    """Each agent of a circulant graph has the nearest two on both sides, so four paths."""
    found = {}
    for nodes in (200, 460):
        graph = nx.circulant_graph(nodes, [1, 2])
        found[nodes] = read_network(graph, weights="metropolis").connectivity
    assert found == {200: 4, 460: 2}
    for nodes, connectivity in ((60_000, 2), (510_000, 1)):
        assert read_network(ring(nodes, 0.25)).connectivity == connectivity


def test_dense_networks_tell_their_connectivity_by_their_degrees():
    """Two parts of n - k agents have 2 d + 2 > n - k neighbours, more than there are."""
    whole = nx.complete_graph(100)
    assert read_network(whole, weights="metropolis").connectivity == 99
    pairs = nx.complement(nx.circulant_graph(100, [50]))  # all but one neighbour
    assert read_network(pairs, weights="metropolis").connectivity == 98
    few = nx.complement(nx.circulant_graph(100, [1, 2]))
    assert read_network(few, weights="metropolis").connectivity == 92  # of 95
    halves = nx.complete_graph(60)
    halves.add_edges_from((i + 59, j + 59) for i, j in nx.complete_graph(60).edges)
    assert read_network(halves, weights="metropolis").connectivity == 1


def test_a_spectrum_of_up_to_4000_nodes_is_computed():
    values, _ = read_network(ring(420, 0.25)).spectrum
    assert values[0] == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(ValueError, match="expected at most 4000 nodes"):
        _ = read_network(ring(4001, 0.25)).spectrum


def ring(nodes, weight):
    k = np.arange(nodes)
    ends = (np.append(k, k), np.append((k + 1) % nodes, (k - 1) % nodes))
    return sparse.coo_array((np.full(2 * nodes, weight), ends), shape=(nodes, nodes))


@pytest.mark.parametrize("weight", [1 / 3, 0.49999])
def test_the_rate_of_a_long_ring_is_that_of_its_closed_form(weight):
    """At the last weight it is the eigenvalue at the other end that is slowest."""
    nodes = 60_001
    cosines = np.cos(2 * np.pi * np.array([1, nodes // 2]) / nodes)
    eigenvalues = 1 - 2 * weight * (1 - cosines)
    found = read_network(ring(nodes, weight)).rate
    assert 1 - found == pytest.approx(1 - np.abs(eigenvalues).max(), rel=1e-6)


@pytest.mark.parametrize("few", [0.0, 1e9])
def test_rates_by_factors_and_by_products_agree(monkeypatch, few):
    """A grid of unequal weights, whose spectrum is computed densely."""
    rng = np.random.default_rng(0)
    grid = nx.grid_2d_graph(12, 9)
    for *_, data in grid.edges(data=True):
        data["weight"] = rng.uniform(0.05, 0.24)
    dense = read_network(grid).rate
    monkeypatch.setattr(network_module, "DENSE_NODES", 10)
    monkeypatch.setattr(network_module, "_FEW_EDGES", few)
    assert read_network(grid).rate == pytest.approx(dense, rel=1e-8)
