"""Noise that neighbours share: guarantees and errors by dense covariances, exact numbers, and audits."""

import itertools
import math
import warnings

import control as ct
import mpmath
import networkx as nx
import numpy as np
import pytest
from consensus.networks import TEN_AGENTS, TEN_VALUES
from repeats import few

from privcontrol.consensus import (
    NodeAdjacency,
    PrivateConsensus,
    private_consensus,
    read_network,
    worst_coalition,
)
from privcontrol.consensus.message_noise import AgentNoise
from privcontrol.core import (
    DirectionAdjacency,
    GaussianNoise,
    LinearQuery,
    Mechanism,
    PrivacyBudget,
    PrivacyWarning,
    audit,
)

BUDGET = PrivacyBudget(epsilon=1.0, delta=1e-2)
KINDS = ("one", "pair")


def connected_graph(rng, nodes, density=0.4):
    while True:
        graph = nx.gnp_random_graph(nodes, density, seed=int(rng.integers(2**31)))
        if nx.is_connected(graph):
            return graph


def agents(graph, scales, pairwise_std, coalition, kind="one", radius=1.0):
    network = read_network(graph, weights="metropolis")
    adjacency = NodeAdjacency(radius, moves=kind)
    return PrivateConsensus(
        network, scales, adjacency, pairwise_std=pairwise_std, coalition=coalition
    )


def seen(graph, scales, pairwise_std, members):
    """All that a coalition and the eavesdropper see, as H x + F eta with dense F.

    Rows are all messages, then the noise that members drew and shared; the members' values
    are known and no move is about them.
    """
    n = len(graph)
    edges = [tuple(sorted(edge)) for edge in graph.edges]
    factor = np.zeros((n, n + len(edges)))
    factor[:, :n] = np.diag(np.broadcast_to(scales, n))
    for e, (i, j) in enumerate(edges):
        factor[i, n + e] = pairwise_std
        factor[j, n + e] = -pairwise_std
    known = list(members)
    known += [n + e for e, edge in enumerate(edges) if set(edge) & set(members)]
    H = np.vstack([np.eye(n), np.zeros((len(known), n))])
    F = np.vstack([factor, np.eye(factor.shape[1])[known]])
    return H, F


def dense_size(graph, scales, pairwise_std, members, moves):
    """y of the worst of some moves (n, M): the least noise that explains the same view."""
    H, F = seen(graph, scales, pairwise_std, members)
    shift = np.linalg.lstsq(F, H @ moves, rcond=1e-13)[0]
    assert np.abs(F @ shift - H @ moves).max() < 1e-8
    return np.linalg.norm(shift, axis=0).max()


def dense_moves(nodes, members, kind, radii):
    """All moves (n, M) of honest agents."""
    unit = np.eye(nodes)
    honest = [i for i in range(nodes) if i not in members]
    if kind == "one":
        return np.array([radii[i] * unit[i] for i in honest]).T
    columns = []
    for i, j in itertools.combinations(honest, 2):
        columns.append(radii[i] * unit[i] + radii[j] * unit[j])
        columns.append(radii[i] * unit[i] - radii[j] * unit[j])
    return np.array(columns).T


def check_against_all_that_is_seen(seeds, largest_coalition, kinds=("one",)):
    for seed in seeds:
        rng = np.random.default_rng(seed)
        nodes = int(rng.integers(3, 11))
        graph = connected_graph(rng, nodes)
        scales = rng.uniform(0.5, 2.0, nodes)
        radii = rng.uniform(0.5, 2.0, nodes)
        shared = 10 ** rng.uniform(-1, 2)
        for kind in kinds:
            needed = 1 if kind == "one" else 2
            most = min(largest_coalition, nodes - needed)
            for count in range(most + 1):
                group = agents(graph, scales, shared, count, kind, radii)
                worst = 0.0
                for members in itertools.combinations(range(nodes), count):
                    moves = dense_moves(nodes, members, kind, radii)
                    size = dense_size(graph, scales, shared, members, moves)
                    found = group.guarantee_for(coalition=list(members)).gdp
                    # pairs have the bound of the triangle inequality
                    most = 1 + 1e-8 if kind == "one" else 2.0
                    assert size * (1 - 1e-9) <= found <= size * most
                    worst = max(worst, found)
                promised = group.guarantee.gdp
                assert bool(group.guarantee.exact) == (kind == "one")
                members = worst_coalition(group)
                assert len(members) == count
                if kind == "pair":
                    assert worst * (1 - 1e-9) <= promised <= 2 * worst
                    continue
                assert promised == pytest.approx(worst, rel=1e-8)
                named = group.guarantee_for(coalition=list(members))
                # ties are named by their first coalition, equal up to rounding
                assert named.gdp == pytest.approx(promised, rel=2e-9)


def test_guarantees_are_those_of_all_that_is_seen():
    check_against_all_that_is_seen(range(6), 2, KINDS)


def test_guarantees_of_12_graphs_are_those_of_all_that_is_seen():
    """The same on 200 graphs: tests/stress/graphs_with_shared_noise.py."""
    check_against_all_that_is_seen(range(100, 112), 3)


@pytest.mark.parametrize("ratio", [1e2, 1e5, 1e8])
def test_sizes_are_rounded_up_and_sharp_whatever_the_ratio_of_the_noises(ratio):
    """Second route: the inverse of the covariance with 60 digits."""
    for graph in (nx.path_graph(12), nx.star_graph(9), nx.complete_graph(7)):
        n = len(graph)
        scales = np.random.default_rng(n).uniform(0.5, 2.0, n)
        with mpmath.workdps(60):
            covariance = mpmath.zeros(n)
            for i in range(n):
                covariance[i, i] += mpmath.mpf(float(scales[i])) ** 2
            for i, j in graph.edges:
                covariance[i, i] += mpmath.mpf(ratio) ** 2
                covariance[j, j] += mpmath.mpf(ratio) ** 2
                covariance[i, j] -= mpmath.mpf(ratio) ** 2
                covariance[j, i] -= mpmath.mpf(ratio) ** 2
            inverse = covariance**-1
            exact = [mpmath.sqrt(inverse[i, i]) for i in range(n)]
            group = agents(graph, scales, ratio, 0)
            for i in range(n):
                found = mpmath.mpf(group.guarantee_for(node=i).gdp)
                assert exact[i] <= found <= exact[i] * (1 + mpmath.mpf("1e-10"))


def test_an_arbitrary_flow_bounds_the_size_from_above(monkeypatch):
    """Mutated flows cost more and never less: the certificate does not trust its solver."""
    graph = nx.cycle_graph(8)
    exact = agents(graph, 1.0, 30.0, 0).guarantee.gdp
    lstsq = np.linalg.lstsq

    def wrong(*problem, **options):
        least, *others = lstsq(*problem, **options)
        rng = np.random.default_rng(0)
        return least + 1e-2 * rng.standard_normal(least.shape), *others

    monkeypatch.setattr(np.linalg, "lstsq", wrong)
    assert agents(graph, 1.0, 30.0, 0).guarantee.gdp > exact * (1 + 1e-6)


@pytest.mark.parametrize("nodes, coalition", [(10, 0), (10, 2), (60, 0), (60, 1)])
def test_much_shared_noise_leaves_the_average_of_the_honest_agents(nodes, coalition):
    """y tends to mu / (s sqrt(n - c)) where no coalition cuts the network."""
    graph = nx.random_regular_graph(4, nodes, seed=2)
    assert nx.node_connectivity(graph) > coalition
    group = agents(graph, 0.7, 1e5, coalition, radius=2.0)
    limit = 2.0 / (0.7 * math.sqrt(nodes - coalition))
    assert limit < group.guarantee.gdp < limit * (1 + 1e-4)


@pytest.mark.parametrize(
    "nodes, degree",
    few([(10, 4), (10, 10), (100, 4), (100, 10), (10_000, 4), (10_000, 10)], of=5),
)
def test_auto_is_as_accurate_as_a_central_curator_within_one_percent(nodes, degree):
    if nodes == degree:
        degree = nodes - 1
    graph = nx.random_regular_graph(min(degree, nodes - 1), nodes, seed=1)
    group = private_consensus(
        graph, BUDGET, 1.0, weights="metropolis", pairwise_std="auto", coalition=0
    )
    curator = 1.0 / group.guarantee.gdp  # noise of the sum at the same guarantee
    error = group.limit_mean_square_error()
    assert 1 <= error * nodes / (nodes * (curator / nodes) ** 2) / nodes < 1.0101
    assert group.guarantee.satisfies(BUDGET)
    alone = private_consensus(graph, BUDGET, 1.0, weights="metropolis")
    assert alone.limit_mean_square_error() / error > 0.99 * nodes


@pytest.mark.parametrize("pairwise_std", ["auto", 0.5, 20.0])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("coalition", [0, 2])
def test_a_design_meets_its_budget_and_wastes_nothing(pairwise_std, kind, coalition):
    graph = nx.petersen_graph()
    options = {"weights": "metropolis", "moves": kind, "coalition": coalition}
    group = private_consensus(graph, BUDGET, 1.0, pairwise_std=pairwise_std, **options)
    assert group.guarantee.satisfies(BUDGET)
    less = PrivateConsensus(
        group.network,
        group.scales * (1 - 1e-6),
        group.adjacency,
        pairwise_std=group.pairwise_std * (1 - 1e-6 * (pairwise_std == "auto")),
        coalition=coalition,
    )
    assert not less.guarantee.satisfies(BUDGET)


def test_85_agents_are_evaluated_against_every_coalition():
    """Of 85 agents each is a coalition; the evaluation takes 7e8 multiplications."""
    assert agents(nx.circulant_graph(85, [1, 2]), 1.0, 300.0, 1).guarantee.exact


def test_each_node_keeps_its_own_budget_and_radius():
    budgets = {
        node: PrivacyBudget(epsilon=0.2 + 0.1 * node, delta=1e-2) for node in TEN_AGENTS
    }
    radii = {node: 1.0 + node / 10 for node in TEN_AGENTS}
    group = private_consensus(TEN_AGENTS, budgets, radii, pairwise_std=5.0, coalition=1)
    met = [
        group.guarantee_for(node=node).satisfies(budgets[node]) for node in TEN_AGENTS
    ]
    assert all(met)
    shifts = [group.guarantee_for(node=node).gdp for node in TEN_AGENTS]
    assert min(shifts) < max(shifts)


def test_more_colluders_learn_more_and_a_neighbourhood_learns_all_but_the_own_noise():
    graph = nx.random_regular_graph(3, 12, seed=0)
    group = agents(graph, 1.0, 50.0, 0)
    around = list(graph[0])
    sizes = []
    for count in range(4):
        guarantee = group.guarantee_for(node=0, coalition=around[:count])
        sizes.append(guarantee.gdp)
    assert sizes == sorted(sizes)
    assert sizes[0] < 0.31
    assert sizes[3] == pytest.approx(1.0, rel=1e-9)  # mu / s: independent noise


def test_a_coalition_that_cuts_the_network_leaves_the_guarantee_of_the_component():
    """Two triangles joined by node 6: without it each has three agents."""
    graph = nx.Graph([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 6), (6, 3)])
    group = agents(graph, 1.0, 1e5, 1)
    cut = group.guarantee_for(coalition=[6])
    assert cut.gdp == pytest.approx(1 / math.sqrt(3), rel=1e-6)
    assert group.guarantee_for(coalition=[]).gdp == pytest.approx(
        1 / math.sqrt(7), rel=1e-6
    )
    assert worst_coalition(group) in [(2,), (3,)]  # of a triangle two are left
    assert group.guarantee.gdp == pytest.approx(1 / math.sqrt(2), rel=1e-6)
    assert "worst coalition [" in group.guarantee.sentence


def test_one_honest_agent_has_its_own_noise_and_nobody_to_hide_is_refused():
    group = agents(nx.complete_graph(4), 2.0, 100.0, 3)
    assert group.guarantee.gdp == pytest.approx(0.5, rel=1e-12)
    with pytest.raises(ValueError, match="at most 3 of 4 agents"):
        agents(nx.complete_graph(4), 2.0, 100.0, 4)
    with pytest.raises(ValueError, match="at most 2 of 4 agents"):
        agents(nx.complete_graph(4), 2.0, 100.0, 3, kind="pair")
    with pytest.raises(ValueError, match="at most 3 of 4 agents"):
        group.guarantee_for(coalition=range(4))
    with pytest.raises(ValueError, match="no member of the coalition"):
        group.guarantee_for(node=1, coalition=[1])


REFUSED = {
    "no coalition": ({"pairwise_std": 1.0}, "coalition: expected the number of agents"),
    "auto, no coalition": ({"pairwise_std": "auto"}, "coalition: expected the number"),
    "Laplace": (
        {"pairwise_std": 1.0, "coalition": 0, "family": "laplace"},
        "noise that neighbours share is Gaussian",
    ),
    "negative": ({"pairwise_std": -1.0, "coalition": 0}, "pairwise_std"),
    "other word": ({"pairwise_std": "much", "coalition": 0}, "'auto'"),
    "negative coalition": ({"pairwise_std": 1.0, "coalition": -1}, "coalition"),
    "all": ({"pairwise_std": 1.0, "coalition": 10}, "at most 9 of 10 agents"),
    "a known total": (
        {"pairwise_std": "auto", "coalition": 0, "moves": "known-total"},
        "'one' or 'pair' where neighbours share noise",
    ),
    "out of proportion": ({"pairwise_std": 1e12, "coalition": 0}, "at most 1e\\+09"),
}


@pytest.mark.parametrize("options, message", REFUSED.values(), ids=REFUSED)
def test_unfit_shared_noise_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        private_consensus(TEN_AGENTS, BUDGET, 1.0, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_of_large_networks_hold_and_are_not_called_exact(kind, monkeypatch):
    """The bounds of large networks, computed for small ones whose truth is known."""

    def sizes(group, **options):
        found = [group.guarantee_for(node=node, **options) for node in group.nodes]
        return np.array([guarantee.gdp for guarantee in found])

    cases = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        nodes = int(rng.integers(4, 12))
        graph = connected_graph(rng, nodes, 0.6)
        scales = rng.uniform(0.5, 2.0, nodes)
        shared = 10 ** rng.uniform(-1, 3)
        for count in range(3 if nodes > 4 else 2):
            options = (graph, scales, shared, count, kind)
            exact = agents(*options)
            outsider = exact.guarantee_for(coalition=[])
            cases.append((options, sizes(exact), sizes(exact, coalition=[]), outsider))
    monkeypatch.setattr("privcontrol.consensus.message_noise.EXACT_WORK", 0.0)
    gains = []
    for options, to_any, to_outsider, outsider in cases:
        group = agents(*options)
        assert not group.guarantee.exact
        bounds = sizes(group), sizes(group, coalition=[])
        for bound, exact in zip(bounds, (to_any, to_outsider)):
            assert (bound >= exact * (1 - 1e-12)).all()
        if kind == "one":
            assert (bounds[0] <= (1 + 1e-12) / group.scales).all()
        gains.append(bounds[1].max() / outsider.gdp)
    assert np.median(gains) < 1.2


@pytest.mark.slow
def test_a_large_network_that_no_coalition_cuts_gains_from_all_honest_agents():
    graph = nx.random_regular_graph(5, 300, seed=0)
    assert nx.node_connectivity(graph) == 5
    group = private_consensus(
        graph, BUDGET, 1.0, weights="metropolis", pairwise_std="auto", coalition=2
    )
    assert not group.guarantee.exact
    alone = private_consensus(graph, BUDGET, 1.0, weights="metropolis")
    ratio = alone.limit_mean_square_error() / group.limit_mean_square_error()
    assert 0.98 * 298 < ratio < 298
    some = group.guarantee_for(coalition=[0, 1])
    assert some.exact
    assert some.gdp < group.guarantee.gdp
    # a given noise: flows as along a path through the 298 who are left
    given = agents(graph, 1.0, 300.0, 2)
    left_out = np.arange(1, 298) / 298
    square = 1 / 298 + ((1 - left_out) ** 2).sum() / 300.0**2
    assert given.guarantee.gdp**2 == pytest.approx(square, rel=1e-9)


def test_a_large_network_without_a_cut_node_hides_from_one_agent_behind_all_others():
    graph = nx.random_regular_graph(4, 3000, seed=1)
    group = private_consensus(
        graph, BUDGET, 1.0, weights="metropolis", pairwise_std="auto", coalition=1
    )
    alone = private_consensus(graph, BUDGET, 1.0, weights="metropolis")
    ratio = alone.limit_mean_square_error() / group.limit_mean_square_error()
    assert 0.98 * 2999 < ratio < 2999


def test_a_network_of_large_degrees_may_still_be_cut():
    """Cliques that share two agents: every agent has five neighbours or more."""
    first, second = nx.complete_graph(50), nx.complete_graph(range(48, 98))
    group = agents(nx.compose(first, second), 1.0, 1e4, 2)
    cut = group.guarantee_for(coalition=[48, 49]).gdp
    assert cut > 0.99 / math.sqrt(48)
    assert cut * (1 - 1e-9) <= group.guarantee.gdp < 1 / math.sqrt(46)


def test_sums_of_guarantees_are_exact_only_if_one_move_and_coalition_attain_both():
    graph = nx.cycle_graph(6)
    group = agents(graph, np.linspace(1, 2, 6), 5.0, 1)
    assert group.guarantee.exact
    assert not (group.guarantee + group.guarantee).exact
    assert group.guarantee.released(2).exact
    outsider = agents(graph, np.linspace(1, 2, 6), 5.0, 0)
    assert (outsider.guarantee + outsider.guarantee).exact
    certain = group.guarantee_for(coalition=[2])
    assert (certain + certain).exact
    with pytest.raises(ValueError, match="do not add"):
        certain + group.guarantee_for(coalition=[3])
    with pytest.raises(ValueError, match="do not add"):
        certain + group.guarantee


def test_the_guarantee_names_its_adversary_and_what_it_takes_for_granted():
    text = agents(nx.cycle_graph(6), 1.0, 5.0, 2).guarantee.sentence
    for words in (
        "at most 2 agents share their knowledge",
        "worst coalition [1 5]",
        "over a private channel",
        "the noise that SHAKE-256 makes of a secret counts as random",
        "drops out before its first message",
    ):
        assert words in text
    outsider = agents(nx.cycle_graph(6), 1.0, 5.0, 0).guarantee.sentence
    assert "no agent shares its knowledge" in outsider
    certain = agents(nx.cycle_graph(6), 1.0, 5.0, 0).guarantee_for(coalition=[1])
    assert "towards an eavesdropper with the agents 1" in str(certain)
    graph = nx.relabel_nodes(nx.cycle_graph(6), {k: f"meter {k}" for k in range(6)})
    options = {"weights": "metropolis", "pairwise_std": 5.0, "coalition": 1}
    planes = private_consensus(graph, BUDGET, 0.5, dimension=2, **options)
    hides = str(planes.guarantee_for(coalition=["meter 3", "meter 5"])).splitlines()[2]
    assert "with the agents meter 3, meter 5, the initial value" in hides
    short = nx.convert_node_labels_to_integers(graph)
    planes = private_consensus(short, BUDGET, 0.5, dimension=2, **options)
    hides = str(planes.guarantee_for(coalition=[3, 5])).splitlines()[2]
    assert "with the agents 3, 5, the" in hides
    assert "at most 0.5 (2-norm)" in hides


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_independent_noise_hides_from_certain_agents_as_from_all(family):
    group = private_consensus(TEN_AGENTS, PrivacyBudget(epsilon=1.0, delta=1e-2), 1.0, family=family)  # fmt: skip
    assert group.guarantee_for(coalition=[1, 2]).rdp(2.0) == group.guarantee.rdp(2.0)
    unequal = PrivateConsensus(group.network, np.arange(1.0, 11.0), group.adjacency, family=family)  # fmt: skip
    spared = unequal.guarantee_for(coalition=[1])  # the node with least noise colludes
    assert spared.epsilon(1e-2) < unequal.guarantee.epsilon(1e-2)
    assert spared.rdp(2.0) == pytest.approx(unequal.guarantee_for(node=2).rdp(2.0))


def test_exact_errors_are_those_of_the_dense_covariance():
    group = agents(TEN_AGENTS, np.linspace(0.5, 2, 10), 3.0, 0)
    W = group.network.iteration.toarray()
    L = nx.laplacian_matrix(TEN_AGENTS, weight=None).toarray()
    covariance = np.diag(group.scales**2) + 9.0 * L
    deviation = TEN_VALUES - TEN_VALUES.mean()
    for t in (0, 1, 5, 40):
        power = np.linalg.matrix_power(W, t)
        for readout, gain in (("message", power), ("state", np.eye(10) - power)):
            exact = ((power @ deviation) ** 2).sum()
            exact += np.trace(gain @ covariance @ gain.T)
            found = group.mean_square_error(TEN_VALUES, 40, readout=readout)[t]
            assert found == pytest.approx(exact, rel=1e-10)
    far = group.mean_square_error(TEN_VALUES, 400)[-1]
    assert group.limit_mean_square_error() == pytest.approx(far, rel=1e-9)
    far = group.mean_square_error(TEN_VALUES, 400, readout="state")[-1]
    limit = group.limit_mean_square_error(readout="state")
    assert limit == pytest.approx(far, rel=1e-9)
    assert group.noise.variance.sum() == pytest.approx(np.trace(covariance))


def test_simulated_noise_has_the_covariance_and_errors_that_are_promised():
    group = agents(TEN_AGENTS, np.linspace(0.5, 2, 10), 3.0, 0)
    trials = 40_000
    response = group.simulate(TEN_VALUES, 30, trials=trials, rng=0)
    noise = np.asarray(response.outputs)[:, :, 0] - TEN_VALUES[:, None]
    L = nx.laplacian_matrix(TEN_AGENTS, weight=None).toarray()
    covariance = np.diag(group.scales**2) + 9.0 * L
    found = noise @ noise.T / trials
    diagonal = np.diag(covariance)
    spread = np.sqrt((np.outer(diagonal, diagonal) + covariance**2) / trials)
    assert (np.abs(found - covariance) < 5 * spread).all()
    exact = group.mean_square_error(TEN_VALUES, 30)
    mean, error = response.mean_square_error()
    assert (np.abs(mean - exact) < 5 * error).all()
    estimate = group.estimate_mean_square_error(TEN_VALUES, 30, rng=1)
    assert (estimate.lower <= exact).all()
    assert (exact <= estimate.upper).all()


def test_trials_are_runs_of_the_state_space_model_and_prefixes_of_each_other():
    group = agents(TEN_AGENTS, 1.0, 3.0, 0)
    response = group.simulate(TEN_VALUES, 12, trials=3, rng=4)
    system = group.to_statespace()
    assert system.ninputs == 10 + TEN_AGENTS.number_of_edges()
    assert "delta[1,2]" in system.input_labels
    start = np.r_[TEN_VALUES, np.zeros(10)]
    run = ct.forced_response(system, response.time, response.inputs[:, 1], start)
    assert np.allclose(run.outputs, response.outputs[:, 1], atol=1e-9)
    few = group.simulate(TEN_VALUES, 12, trials=1, rng=4, keep_states=False)
    assert np.array_equal(few.outputs[:, 0, 0], response.outputs[:, 0, -1])


def test_the_numbers_of_many_edges_come_in_parts(monkeypatch):
    """Parts of 40 numbers: what each edge draws is added to one end and taken from the other."""
    group = agents(nx.random_regular_graph(4, 50, seed=0), 1e-8, 2.0, 0)
    monkeypatch.setattr("privcontrol.consensus.message_noise.BLOCK", 40)
    noise, entries = group.noise.draw(np.random.default_rng(0), 7, keep=True)
    assert entries.shape == (7, 50 + 100)
    first, second = group.network.links
    direct = np.zeros((50, 7))
    np.add.at(direct, first, 2.0 * entries[:, 50:].T)
    np.add.at(direct, second, -2.0 * entries[:, 50:].T)
    assert np.allclose(noise, direct, atol=1e-7)


def coalition_mechanism(graph, scales, pairwise_std, members, reused=False):
    """What honest agents show beyond what the coalition knows, as a mechanism.

    With ``reused`` two runs of the same noise are seen, in the second of which neighbours
    take the shared noise with the opposite sign.
    """
    honest = [i for i in graph if i not in members]
    edges = list(graph.subgraph(honest).edges)
    h = len(honest)
    incidence = np.zeros((h, len(edges)))
    for e, (i, j) in enumerate(edges):
        incidence[honest.index(i), e] = pairwise_std
        incidence[honest.index(j), e] = -pairwise_std
    own = np.diag(scales[honest])
    if not reused:
        query = np.eye(h)
        factor = np.hstack([own, incidence])
    else:
        query = np.vstack([np.eye(h), np.eye(h)])
        blank = np.zeros((h, h))
        factor = np.block([[own, blank, incidence], [blank, own, -incidence]])
    return Mechanism(LinearQuery(query), GaussianNoise(factor))


@pytest.mark.slow
def test_an_audit_passes_the_truth_and_fails_reused_or_smaller_noise():
    """200,000 trials at a confidence of 99.9 %: 10 % less own noise, or shared noise that
    is used in two runs, of which a fresh draw each is claimed."""
    graph = nx.cycle_graph(6)
    scales = np.full(6, 0.5)
    group = agents(graph, scales, 20.0, 1)
    move = DirectionAdjacency(np.eye(5)[:, :1])
    members = [5]
    claim = group.guarantee_for(node=0, coalition=members)
    options = {"trials": 200_000, "rng": 0}

    def passes(scales, guarantee, reused=False):
        mechanism = coalition_mechanism(graph, scales, 20.0, members, reused)
        claim = PrivacyBudget(epsilon=guarantee.epsilon(1e-2), delta=1e-2)
        return audit(mechanism, move, claim=claim, **options).passed

    assert passes(scales, claim)
    assert not passes(0.9 * scales, claim)
    assert not passes(scales, claim.released(2), reused=True)


def test_repaired_dropouts_count_as_members_of_the_coalition():
    """What the others' repaired messages tell, together with what is shared with the missing."""
    graph = nx.petersen_graph()
    scales = np.full(10, 1.0)
    group = agents(graph, scales, 8.0, 2)
    missing, member = 3, 7
    edges = [tuple(sorted(edge)) for edge in graph.edges]
    stay = [i for i in range(10) if i != missing]
    H, F = seen(graph, scales, 8.0, [member])
    rows = [i for i in range(len(H)) if i != missing]  # no message of the missing agent
    told = [10 + e for e, edge in enumerate(edges) if missing in edge]
    F = np.vstack([F[rows], np.eye(F.shape[1])[told]])
    H = np.vstack([H[rows], np.zeros((len(told), 10))])
    for node in stay:
        if node != member:
            shift = np.linalg.lstsq(F, H[:, node], rcond=1e-13)[0]
            promised = group.guarantee_for(node=node, coalition=[missing, member]).gdp
            assert np.linalg.norm(shift) == pytest.approx(promised, rel=1e-9)
            assert promised <= group.guarantee.gdp


def test_a_weight_lost_in_rounding_links_both_ends_or_none():
    """Of a link that only one end knew the other end would leave the noise out."""
    weights = np.array([[0, 0.5, 1e-14], [0.5, 0, 0.25], [0, 0.25, 0]])
    for graph in (weights, weights.T):
        network = read_network(graph)
        matrix = network.iteration.toarray()
        assert (matrix == matrix.T).all()
        linked = [set(network._neighbours(k)) for k in range(3)]
        for i, j in itertools.permutations(range(3), 2):
            assert (j in linked[i]) == (i in linked[j])
        ends = {frozenset(link) for link in zip(*map(np.ndarray.tolist, network.links))}
        assert ends == {frozenset((i, j)) for i in range(3) for j in linked[i]}


def test_noise_that_a_coalition_takes_out_warns():
    """Two surround every agent of a ring, and none of a wheel: shared noise or not."""
    options = {"weights": "metropolis", "pairwise_std": "auto", "coalition": 2}
    with pytest.warns(
        PrivacyWarning, match=r"a coalition of 2: in addition the agents draw 100.0% of"
    ):
        ring = private_consensus(nx.cycle_graph(7), BUDGET, 1.0, **options)
    alone = private_consensus(nx.cycle_graph(7), BUDGET, 1.0, weights="metropolis")
    assert ring.scales == pytest.approx(alone.scales, rel=1e-9)
    few = options | {"pairwise_std": 1e-3}
    with pytest.warns(PrivacyWarning, match="more pairwise_std"):
        private_consensus(nx.complete_graph(7), BUDGET, 1.0, **few)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wheel = private_consensus(nx.wheel_graph(7), BUDGET, 1.0, **options)
    assert wheel.scales.max() < 0.9 * alone.scales.max()


def test_a_coalition_is_evaluated_once_for_all_nodes(monkeypatch):
    """For every node again, a figure of 500 took half an hour."""
    group = agents(nx.cycle_graph(7), 1.0, 5.0, 2)
    asked = []

    evaluated = AgentNoise.exposure_to

    def counted(noise, members):
        asked.append(members)
        return evaluated(noise, members)

    monkeypatch.setattr(AgentNoise, "exposure_to", counted)
    first = [group.guarantee_for(node=k, coalition=[0, 3]).gdp for k in (1, 2, 4, 5, 6)]
    assert asked == [(0, 3)]
    for k in range(20):
        group.guarantee_for(coalition=[k % 7, (k + 1) % 7])
    assert len(group._adversaries) <= 8
    again = [group.guarantee_for(node=k, coalition=[0, 3]).gdp for k in (1, 2, 4, 5, 6)]
    assert again == first


def weakly_linked(agents_of_core, degree, weak, links, seed=0):
    """A regular core, and a few agents more with fewer links to it."""
    graph = nx.random_regular_graph(degree, agents_of_core, seed=seed)
    rng = np.random.default_rng(seed)
    for k in range(weak):
        ends = rng.choice(agents_of_core, links, replace=False)
        graph.add_edges_from((agents_of_core + k, int(end)) for end in ends)
    return graph


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_of_a_core_hold_against_every_coalition(kind, monkeypatch):
    """Coalitions within the core, outside it and across, by all that they see."""
    graph = weakly_linked(8, 4, 3, 2)
    scales = np.random.default_rng(1).uniform(0.5, 2.0, 11)
    monkeypatch.setattr("privcontrol.consensus.message_noise.EXACT_WORK", 0.0)
    for shared in (0.5, 3.0, 300.0):
        group = agents(graph, scales, shared, 2, kind)
        bounds = [group.guarantee_for(node=node).gdp for node in range(11)]
        worst = np.zeros(11)
        for members in itertools.combinations(range(11), 2):
            moves = dense_moves(11, members, kind, np.ones(11))
            for move in moves.T[:, :, None]:
                size = dense_size(graph, scales, shared, members, move)
                moved = move[:, 0] != 0
                worst[moved] = np.maximum(worst[moved], size)
        assert (np.array(bounds) >= worst * (1 - 1e-9)).all()
        if kind == "one" and shared > 100:
            # six of the core are left at least, and two links of the others are cut
            least = np.sort(scales[:8] ** 2)[:6].sum()
            assert np.allclose(bounds[:8], 1 / math.sqrt(least), rtol=1e-3)
            assert np.allclose(bounds[8:], 1 / scales[8:])


@pytest.mark.parametrize("pairwise_std", ["auto", 3.0])
@pytest.mark.parametrize("kind", KINDS)
def test_agents_with_few_links_pay_for_themselves(pairwise_std, kind):
    graph = weakly_linked(8, 4, 2, 1)
    options = {"weights": "metropolis", "moves": kind, "coalition": 1}
    with pytest.warns(PrivacyWarning, match=r"2 of 10 agents \(8, 9\) draw"):
        group = private_consensus(
            graph, BUDGET, 1.0, pairwise_std=pairwise_std, **options
        )
    shared = group.noise.pairwise_std
    allowed = BUDGET.shift()
    for members in itertools.combinations(range(10), 1):
        moves = dense_moves(10, members, kind, np.ones(10))
        size = dense_size(graph, group.scales, shared, members, moves)
        assert size <= allowed * (1 + 1e-9)
    share = group.scales / (1 / allowed)
    assert share[:8].max() < 0.8 * share[8:].min()
    assert (share[8:] > 0.99).all()


def test_seven_weak_agents_of_200_leave_the_others_the_noise_of_their_core():
    graph = weakly_linked(193, 6, 7, 2)
    options = {"weights": "metropolis", "pairwise_std": 5.0, "coalition": 3}
    with pytest.warns(PrivacyWarning, match=r"7 of 200 agents \(193, 194, 195"):
        group = private_consensus(graph, BUDGET, 1.0, **options)
    core = private_consensus(graph.subgraph(range(193)), BUDGET, 1.0, **options)
    alone = private_consensus(graph, BUDGET, 1.0, weights="metropolis")
    assert group.guarantee.satisfies(BUDGET)
    assert group.scales[:193] == pytest.approx(core.scales, rel=1e-6)
    assert group.scales[193:] == pytest.approx(alone.scales[193:], rel=1e-6)
    assert core.scales.max() < 0.6 * alone.scales.min()
