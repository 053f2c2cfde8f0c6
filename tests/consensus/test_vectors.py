"""Values that are vectors: one guarantee by dense covariances, runs, agents and bounds."""

import itertools
import math

import control as ct
import networkx as nx
import numpy as np
import pytest

import privcontrol as pc
from privcontrol.consensus import NodeAdjacency, PrivateConsensus, read_network

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
GRAPH = nx.random_regular_graph(3, 8, seed=2)
VALUES = np.random.default_rng(3).normal(size=(8, 2))


def agents(dimension=2, **options):
    return pc.private_consensus(
        GRAPH, BUDGET, 1.0, weights="metropolis", dimension=dimension, **options
    )


def dense_shift(consensus, members, kind):
    """Largest shift of moves in balls of radius 1, by the covariance of all entries."""
    honest = [i for i in range(8) if i not in members]
    adjacency = nx.to_numpy_array(GRAPH)[np.ix_(honest, honest)]
    laplacian = np.diag(adjacency.sum(axis=0)) - adjacency
    scales = consensus.scales[honest]
    covariance = np.diag(scales**2) + consensus.pairwise_std**2 * laplacian
    d = consensus.dimension
    information = np.linalg.inv(np.kron(covariance, np.eye(d)))
    angles = np.linspace(0, 2 * np.pi, 9)[:-1]
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    moves = []
    for i in range(len(honest)):
        for first in circle:
            move = np.zeros((len(honest), d))
            move[i] = first
            if kind == "one":
                moves.append(move.ravel())
                continue
            for j, second in itertools.product(range(i), circle):
                both = move.copy()
                both[j] = second
                moves.append(both.ravel())
    moves = np.array(moves)
    return math.sqrt(np.einsum("ki,ij,kj->k", moves, information, moves).max())


@pytest.mark.parametrize("kind", ["one", "pair"])
@pytest.mark.parametrize("coalition", [0, 1, 2])
def test_the_guarantee_is_the_worst_of_all_coalitions(coalition, kind):
    """Every coalition of a graph of eight, moves in eight directions of the plane."""
    shared = agents(pairwise_std=3.0, coalition=coalition, moves=kind)
    worst = max(
        dense_shift(shared, members, kind)
        for members in itertools.combinations(range(8), coalition)
    )
    if kind == "one":
        assert shared.guarantee.gdp == pytest.approx(worst, rel=1e-9)
    assert worst <= shared.guarantee.gdp * (1 + 1e-9) < 2 * worst
    assert worst <= BUDGET.shift() * (1 + 1e-9)


def test_independent_noise_hides_a_ball_as_it_hides_a_number():
    plane, line = agents(), agents(1)
    assert np.array_equal(plane.scales, line.scales)
    assert plane.guarantee.gdp == line.guarantee.gdp
    assert plane.guarantee.gdp == pytest.approx(dense_shift(plane, (), "one"))
    assert "at most 1 (2-norm)" in plane.guarantee.sentence
    with pytest.raises(ValueError, match="do not add"):
        _ = plane.guarantee + line.guarantee


def test_simulated_runs_have_the_exact_error_and_mean():
    shared = agents(pairwise_std=2.0, coalition=1)
    response = shared.simulate(VALUES, 6, trials=4000, rng=0)
    assert response.outputs.shape == response.states.shape == (16, 4000, 7)
    assert list(response.output_labels)[:3] == ["0[0]", "0[1]", "1[0]"]
    for readout in ("message", "state"):
        mean, error = response.mean_square_error(readout)
        exact = shared.mean_square_error(VALUES, 6, readout=readout)
        assert (np.abs(mean - exact) < 4.5 * error + 1e-9).all()
        by_signals = response.outputs if readout == "message" else response.states
        off = by_signals - np.tile(VALUES.mean(axis=0), 8)[:, None, None]
        assert np.allclose((off**2).sum(axis=0), response.squared_error(readout))
        limit = shared.mean_square_error(VALUES, 400, readout=readout)[-1]
        assert shared.limit_mean_square_error(readout=readout) == pytest.approx(limit)
    step = shared.network.iteration.toarray()
    expected = [np.linalg.matrix_power(step, t) @ VALUES for t in range(7)]
    expected = np.array(expected).reshape(7, -1).T
    bias = np.asarray(response.outputs).mean(axis=1) - expected
    assert np.abs(bias).max() < 5 * 4.0 / math.sqrt(4000)
    mean = expected - np.tile(VALUES.mean(axis=0), len(VALUES))[:, None]
    np.testing.assert_allclose(shared.mean_error(VALUES, 6), mean, atol=1e-12)
    bound = shared.path_error_bound(VALUES, 6)
    assert (bound**2 >= shared.mean_square_error(VALUES, 6, readout="state")).all()
    assert shared.limit_error_bound(VALUES) >= shared.limit_mean_square_error(
        readout="state"
    )
    decay = shared.rate ** np.arange(7)
    spread = np.sum((VALUES - VALUES.mean(axis=0)) ** 2)
    drawn = (1 + decay) ** 2 * 2 * shared.noise.variance.sum()
    bound = shared.error_bound(VALUES, 6)
    assert np.allclose(bound, decay**2 * spread + drawn)
    assert (bound >= shared.mean_square_error(VALUES, 6, readout="state")).all()


def test_an_estimate_holds_the_exact_error():
    shared = agents(pairwise_std=2.0, coalition=1)
    exact = shared.mean_square_error(VALUES, 5)
    found = shared.estimate_mean_square_error(VALUES, 5, probes=200, rng=1)
    assert (found.lower <= exact).all()
    assert (exact <= found.upper).all()
    assert np.allclose(found.value, exact, rtol=0.2)


def test_the_system_repeats_a_simulated_run():
    shared = agents(pairwise_std=2.0, coalition=1)
    response = shared.simulate(VALUES, 5, trials=2, rng=0)
    system = shared.to_statespace()
    start = np.concatenate([VALUES.ravel(), np.zeros(16)])
    again = ct.forced_response(system, response.time, response.inputs[:, 1], start)
    assert np.allclose(again.outputs, response.outputs[:, 1], atol=1e-9)


@pytest.mark.usefixtures("repeated_bits")
@pytest.mark.slow
def test_agents_agree_on_the_mean_of_their_vectors(tmp_path):
    """What neighbours share cancels in every entry; a started agent goes on from its file."""
    shared = agents(pairwise_std=50.0, coalition=0)
    keys = pc.consensus.pair_keys(shared.network)
    team = {}
    for node, value in enumerate(VALUES):
        path = tmp_path / f"{node}.jsonl"
        team[node] = shared.agent(node, value, keys[node], path=path)
    for _ in range(200):
        sent = {node: one.message() for node, one in team.items()}
        for node, one in team.items():
            one.update({other: sent[other] for other in GRAPH[node]})
    final = np.array([one.message() for one in team.values()])
    assert np.ptp(final, axis=0).max() < 1e-6
    own = shared.scales[0] / math.sqrt(8)
    assert np.abs(final[0] - VALUES.mean(axis=0)).max() < 5 * own < 2
    first = np.array([one.published[0] for one in team.values()])
    assert abs(np.corrcoef((first - VALUES).T)[0, 1]) < 0.95  # entries have their own
    again = shared.agent(3, VALUES[3], keys[3], path=tmp_path / "3.jsonl")
    assert np.array_equal(again.message(), team[3].message())
    assert again.steps == team[3].steps


def test_what_does_not_fit_vectors_is_refused():
    network = read_network(GRAPH, weights="metropolis")
    with pytest.raises(ValueError, match="gaussian"):
        PrivateConsensus(
            network, 1.0, NodeAdjacency(1.0, dimension=2), family="laplace"
        )
    with pytest.raises(ValueError, match=r"expected shape \(8, 2\), one vector"):
        agents().simulate(VALUES[:, 0], 3)
    with pytest.raises(ValueError, match="expected 2 numbers"):
        agents().agent(0, 1.0)
    with pytest.raises(ValueError, match="dimension"):
        agents(0)
    with pytest.raises(ValueError, match="dimension 1"):
        agents().mechanism.guarantee(agents().adjacency)
