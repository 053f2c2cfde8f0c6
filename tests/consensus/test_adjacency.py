"""Secrets by name: a node that was in several networks; and what is said where names, positions or sizes do not fit."""

import json

import networkx as nx
import numpy as np
import pytest
from consensus.networks import TEN_AGENTS, TEN_VALUES

from privcontrol.consensus import (
    NodeAdjacency,
    PrivateConsensus,
    private_consensus,
    read_network,
)
from privcontrol.core import (
    DirectionAdjacency,
    GaussianNoise,
    LaplaceNoise,
    LinearQuery,
    Mechanism,
    PrivacyBudget,
    PrivacyGuarantee,
    PrivacyLedger,
    chain,
    compose_sequential,
)

BUDGET = PrivacyBudget(epsilon=1.0, delta=1e-3)
NOISES = {"gaussian": GaussianNoise, "laplace": LaplaceNoise}
RADII = {0: 0.5, 1: 1.0, 2: 1.5, 3: 2.0}
ALL, REST = (
    nx.path_graph(4),
    nx.path_graph([1, 2, 3]),
)  # node 0 leaves: every other one is at another position


def network(graph, radius=None, seed=0, moves="one", family="gaussian"):
    """Agents with unequal noise, on a graph or a matrix."""
    found = read_network(graph, weights="metropolis")
    radius = [RADII[node] for node in found.nodes] if radius is None else radius
    scales = np.random.default_rng(seed).uniform(0.5, 4, len(found))
    return PrivateConsensus(
        found, scales, NodeAdjacency(radius, moves=moves), family=family
    )


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
@pytest.mark.parametrize("node", [1, 2, 3])
def test_guarantees_of_a_node_add_when_another_one_leaves(family, node):
    """Second route: both networks as one release of the four initial values, each with its own draw of noise."""
    before, after = (
        network(ALL, seed=1, family=family),
        network(REST, seed=2, family=family),
    )
    both = before.guarantee_for(node=node) + after.guarantee_for(node=node)
    noise = NOISES[family](np.r_[before.scales, after.scales])
    joint = Mechanism(LinearQuery(np.vstack([np.eye(4), np.eye(4)[1:]])), noise)
    move = RADII[node] * np.eye(4)[:, [node]]
    truth = joint.guarantee(DirectionAdjacency(move))
    assert both.releases == 2
    assert both.exact
    assert truth.exact
    for delta in (0.0, 1e-4, 0.1) if family == "laplace" else (1e-6, 1e-3, 0.1):
        assert both.epsilon(delta) == pytest.approx(truth.epsilon(delta), rel=1e-9)
    for epsilon in (0.0, 0.5, 2.0):
        assert both.delta(epsilon) == pytest.approx(truth.delta(epsilon), rel=1e-9)


def test_a_node_pays_for_its_own_radius_whatever_those_of_the_others():
    before, after = network(ALL), network(REST, [9.0, 1.5, 7.0])
    assert before.guarantee_for(node=2).scope == after.guarantee_for(node=2).scope
    assert (
        before.guarantee_for(node=2).scope.statement
        == "the initial value of node 2 moves by at most 1.5"
    )
    assert before.guarantee_for(node=2).gdp == pytest.approx(
        1.5 / before.scales[2], rel=1e-15
    )


def test_a_node_s_account_holds_over_networks_and_files(tmp_path):
    first, second = (
        private_consensus(graph, BUDGET, 1.0, weights="metropolis")
        for graph in (ALL, REST)
    )
    ledger = PrivacyLedger(
        PrivacyBudget(epsilon=1.6, delta=1e-3), path=tmp_path / "node_2.db"
    )
    ledger.charge(first.guarantee_for(node=2))
    ledger.charge(second.guarantee_for(node=2))
    assert ledger.spent.gdp == pytest.approx(
        np.sqrt(2) * first.guarantee_for(node=2).gdp, rel=1e-14
    )
    with pytest.raises(ValueError, match="node 3"):
        ledger.charge(first.guarantee_for(node=3))
    stored = json.loads(json.dumps(first.guarantee_for(node=2).to_dict()))
    assert (
        PrivacyGuarantee.from_dict(stored) + second.guarantee_for(node=2)
        == ledger.spent
    )


def test_what_is_not_the_same_node_s_move_does_not_add():
    before, matrix = network(ALL), nx.to_numpy_array(ALL)
    others = {
        "another node": network(REST).guarantee_for(node=3),
        "another radius": network(REST, 1.0).guarantee_for(node=2),
        "any node": before.guarantee,
        "the row of a matrix": network(matrix).guarantee_for(node=2),
        "this node and another one": network(ALL, moves="pair").guarantee_for(node=2),
    }
    for case, other in others.items():
        with pytest.raises(ValueError, match="do not add"):  # noqa: PT012 - fail() names the case
            before.guarantee_for(node=2) + other
            pytest.fail(case)


def test_rows_of_matrices_have_no_names_and_pairs_keep_to_their_network():
    """Row 2 is another agent's once row 0 is gone; and a partner that left cannot move along."""
    matrix = nx.to_numpy_array(ALL)
    four, same = (
        network(matrix).guarantee_for(node=2),
        network(matrix, seed=1).guarantee_for(node=2),
    )
    assert (four + same).releases == 2
    with pytest.raises(
        ValueError, match="initial values of 4 nodes against initial values of 3 nodes"
    ):
        four + network(matrix[1:, 1:], [1.0, 1.5, 1.5]).guarantee_for(node=2)
    for moves in ("pair", "known-total"):
        pair, rest = (
            network(graph, 1.5, moves=moves).guarantee_for(node=2)
            for graph in (ALL, REST)
        )
        with pytest.raises(ValueError, match="do not add"):
            pair + rest


def test_a_node_s_guarantees_at_two_radii_add_at_the_smaller_one():
    near, far = (
        network(ALL).guarantee_for(node=2),
        network(REST, 3.0, seed=2).guarantee_for(node=2),
    )
    assert compose_sequential(near, far) == near + chain(far, 1.5)
    assert chain(far, 1.5).gdp == pytest.approx(far.gdp / 2, rel=1e-14)


NAMED = nx.relabel_nodes(nx.path_graph(6), {i: f"radio-{i:02d}" for i in range(6)})
REFUSED = {
    "radius zero": (
        dict(radius=0),
        ValueError,
        r"radius: expected a positive number, got 0$",
    ),
    "radius negative": (
        dict(radius=-1.0),
        ValueError,
        r"expected a positive number, got -1$",
    ),
    "one radius zero": (
        dict(radius=[1, 1, 0, 1, 1, 1]),
        ValueError,
        r"expected a positive number, got 0 among 6 radii",
    ),
    "radii in a table": (
        dict(radius=np.ones((6, 1))),
        ValueError,
        r"or one for each node, got shape \(6, 1\)",
    ),
    "radii by number": (
        dict(radius=dict.fromkeys(range(6), 1.0)),
        ValueError,
        "got 6 missing .'radio-00', .* and 6 that are no nodes",
    ),
    "budgets by number": (
        dict(budget={3: BUDGET}),
        ValueError,
        "6 missing .* and 1 that are no nodes",
    ),
    "a bare pair": (
        dict(budget=(1.0, 1e-3)),
        TypeError,
        r"write PrivacyBudget\(epsilon=1.0, delta=1e-3\)",
    ),
    "weights as a matrix": (
        dict(weights=nx.to_numpy_array(NAMED)),
        TypeError,
        "expected one of 'given', 'metropolis', 'max-degree', got ndarray; pass a matrix of weights as the graph",
    ),
}


@pytest.mark.parametrize("options, kind, message", REFUSED.values(), ids=REFUSED)
def test_each_unfit_argument_is_told_what_to_be(options, kind, message):
    with pytest.raises(kind, match=message):
        private_consensus(
            NAMED,
            **{"budget": BUDGET, "radius": 1.0, "weights": "metropolis"} | options,
        )


def test_values_by_number_or_of_another_length_are_told_the_names_and_the_shape_but_no_value():
    agents = private_consensus(NAMED, BUDGET, 1.0, weights="metropolis")
    unfit = {
        "6 missing .'radio-00', .* and 6 that are no nodes": dict.fromkeys(
            range(6), 71.5
        ),
        r"expected shape \(6,\), one number for each node, got \(5,\)": np.full(
            5, 71.5
        ),
        "1 missing .'radio-05'. and 1 that are no nodes": dict.fromkeys(
            [*agents.nodes[:5], 5], 71.5
        ),
    }
    for message, values in unfit.items():
        for use in (
            agents.simulate,
            agents.mean_square_error,
            agents.error_bound,
            agents.path_error_bound,
            agents.mean_error,
            lambda values, steps: agents.limit_error_bound(values),
        ):
            with pytest.raises(ValueError, match=message) as caught:
                use(values, 3)
            assert "71.5" not in str(caught.value)


def test_a_name_is_no_radius():
    with pytest.raises(TypeError, match="radius: expected real numbers"):
        NodeAdjacency("radio-05")


def test_a_graph_is_no_network_and_a_radius_no_adjacency():
    with pytest.raises(
        TypeError,
        match=r"expected a Network such as read_network\(graph\), got Graph",
    ):
        PrivateConsensus(TEN_AGENTS, 2.0, NodeAdjacency(1.0))
    with pytest.raises(
        TypeError,
        match=r"expected a NodeAdjacency such as NodeAdjacency\(radius\), got float",
    ):
        PrivateConsensus(read_network(TEN_AGENTS), 2.0, 1.0)


def test_bounds_take_values_by_node():
    agents = private_consensus(TEN_AGENTS, BUDGET, 1.0)
    by_name = dict(reversed(list(zip(TEN_AGENTS.nodes, TEN_VALUES))))
    assert np.array_equal(
        agents.error_bound(by_name, 5), agents.error_bound(TEN_VALUES, 5)
    )
