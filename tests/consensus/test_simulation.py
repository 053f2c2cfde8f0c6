"""Simulated consensus: one seed, the same numbers everywhere, signals by name, and memory that stays small."""

import pickle
import tracemalloc
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import control as ct
import numpy as np
import pytest
from consensus.networks import TEN_AGENTS, TEN_VALUES, large_graph, random_graph, star

from privcontrol.consensus import private_consensus
from privcontrol.core import PrivacyBudget, PrivacyWarning

BUDGET = PrivacyBudget(epsilon=1.0, delta=1e-2)
GAUSSIAN = private_consensus(TEN_AGENTS, BUDGET, 1.0)
LAPLACE = private_consensus(
    TEN_AGENTS, PrivacyBudget(epsilon=1.0), 1.0, family="laplace"
)
BY_FAMILY = {"gaussian": GAUSSIAN, "laplace": LAPLACE}


def test_outputs_are_the_messages_and_states_are_beside_them_by_agent_name():
    response = GAUSSIAN.simulate(TEN_VALUES, 20, trials=7, rng=0)
    assert response.outputs.shape == response.states.shape == (10, 7, 21)
    assert response.output_labels == [str(node) for node in range(1, 11)]
    noise = response.outputs["3"] - response.states["3"]
    assert np.allclose(noise, noise[:, :1], atol=1e-12)  # one draw, kept
    assert response.guarantee == GAUSSIAN.guarantee
    assert response.time[-1] == 20
    assert np.allclose(response.states[:, :, 0].T, TEN_VALUES, atol=1e-12)


def test_who_reads_states_that_stay_apart_is_told_once_to_read_the_messages():
    shared = private_consensus(
        TEN_AGENTS, BUDGET, 1.0, pairwise_std="auto", coalition=0
    )
    response = shared.simulate(TEN_VALUES, 60, trials=20, rng=0)
    assert np.ptp(response.states[:, 0, -1]) > 50 * np.ptp(response.outputs[:, 0, -1])
    response = shared.simulate(TEN_VALUES, 60, trials=20, rng=0)
    with pytest.warns(PrivacyWarning, match=r"Read the messages \(response.outputs"):
        _ = response.states
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _ = response.states
        _ = response.mean("states")
        _ = GAUSSIAN.simulate(TEN_VALUES, 60, trials=20, rng=0).states
        _ = shared.simulate(TEN_VALUES, 60, trials=20, rng=0).outputs
        _ = repr(response), response.published, response.squared_error("state")


def test_squared_errors_are_those_of_the_signals():
    response = LAPLACE.simulate(TEN_VALUES, 15, trials=30, rng=3)
    for readout in ("message", "state"):
        with pytest.raises(ValueError, match="read-only"):
            response.squared_error(readout)[0] = 0.0
    for readout, signals in (("message", response.outputs), ("state", response.states)):
        direct = ((np.asarray(signals) - 15) ** 2).sum(axis=0)
        assert np.allclose(
            response.squared_error(readout), direct, rtol=1e-10, atol=1e-9
        )
    mean, error = response.mean_square_error()
    assert np.allclose(
        error, response.squared_error().std(axis=0, ddof=1) / np.sqrt(30)
    )
    assert np.allclose(mean, response.squared_error().mean(axis=0))


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_a_trial_is_the_forced_response_of_the_state_space_model(family):
    consensus = BY_FAMILY[family]
    response, system = (
        consensus.simulate(TEN_VALUES, 25, trials=4, rng=0),
        consensus.to_statespace(),
    )
    assert system.output_labels == response.output_labels
    assert system.input_labels == response.input_labels
    for k in range(4):
        direct = ct.forced_response(
            system,
            response.time,
            response.inputs[:, k],
            np.r_[TEN_VALUES, np.zeros(10)],
        )
        assert np.allclose(direct.outputs, response.outputs[:, k], atol=1e-11)
        assert np.allclose(direct.states[:10], response.states[:, k], atol=1e-11)


@pytest.mark.parametrize("keep_states", [True, False])
def test_the_numbers_depend_on_the_seed_alone(keep_states):
    def run(trials, **options):
        return GAUSSIAN.simulate(
            TEN_VALUES, 6, trials=trials, rng=5, keep_states=keep_states, **options
        )

    whole = run(600)
    for trials in (1, 249, 251, 599):
        fewer = run(trials)
        assert np.array_equal(fewer.outputs, whole.outputs[:, :trials])
        assert np.array_equal(
            fewer.squared_error("state"), whole.squared_error("state")[:trials]
        )
    with ThreadPoolExecutor(2) as threads:
        assert np.array_equal(run(600, executor=threads).outputs, whole.outputs)
    with ProcessPoolExecutor(2) as processes:
        assert np.array_equal(run(600, executor=processes).outputs, whole.outputs)


def test_keeping_the_states_changes_no_number():
    kept = GAUSSIAN.simulate(TEN_VALUES, 9, trials=40, rng=2)
    light = GAUSSIAN.simulate(TEN_VALUES, 9, trials=40, rng=2, keep_states=False)
    assert light.outputs.shape == (10, 40, 1)
    assert light.time == [9]
    assert len(light.steps) == 10
    assert np.array_equal(light.outputs[:, :, 0], kept.outputs[:, :, -1])
    assert np.array_equal(light.squared_error(), kept.squared_error())
    with pytest.raises(ValueError, match="keep_states=True"):
        _ = light.states


LARGE_VALUES = np.random.default_rng(0).normal(size=20_000)


def large_consensus():
    return private_consensus(
        large_graph(20_000, 80_000), BUDGET, 1.0, weights="metropolis"
    )


def test_the_numbers_of_a_large_network_do_not_depend_on_its_executor():
    """20,000 nodes take two parts a step."""
    consensus = large_consensus()
    few = {"trials": 60, "rng": 1, "keep_states": False}
    found = consensus.simulate(LARGE_VALUES, 4, **few)
    with ThreadPoolExecutor(2) as threads:
        others = [consensus.simulate(LARGE_VALUES, 4, executor=threads, **few)]
    others.append(consensus.simulate(LARGE_VALUES, 4, trials=60, rng=1))
    for other in others:
        assert np.array_equal(other.outputs[:, :, -1], found.outputs[:, :, -1])
        for of in ("message", "state"):
            assert np.array_equal(other.squared_error(of), found.squared_error(of))


@pytest.mark.parametrize(
    "graph", [large_graph(20_000, 80_000), star(20_000)], ids=["random", "star"]
)
def test_parts_of_a_large_network_make_the_whole_iteration(graph):
    consensus = private_consensus(graph, BUDGET, 1.0, weights="metropolis")
    response = consensus.simulate(LARGE_VALUES, 5, trials=3, rng=2)
    messages, states = np.asarray(response.outputs), np.asarray(response.states)
    noise, average = messages[:, :, 0] - LARGE_VALUES[:, None], LARGE_VALUES.mean()
    direct = messages[:, :, 0]
    for t in range(6):
        assert np.allclose(messages[:, :, t], direct, rtol=0, atol=1e-13)
        assert np.allclose(states[:, :, t], direct - noise, rtol=0, atol=1e-13)
        assert np.allclose(
            response.squared_error()[:, t],
            ((direct - average) ** 2).sum(axis=0),
            rtol=1e-11,
        )
        assert np.allclose(
            response.squared_error("state")[:, t],
            ((direct - noise - average) ** 2).sum(axis=0),
            rtol=1e-11,
        )
        direct = direct - consensus.laplacian @ direct


def test_without_states_the_memory_is_that_of_a_few_message_vectors():
    """20,000 nodes, 100 trials of 12 steps: the signals of all steps would take 0.4 GB."""
    consensus = large_consensus()
    tracemalloc.start()
    response = consensus.simulate(
        LARGE_VALUES, 12, trials=100, rng=0, keep_states=False
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    block = 8 * 20_000 * 100
    assert response.outputs.nbytes == 8 * 20_000 * 100
    assert peak < response.outputs.nbytes + 4 * block + 5e6


def test_one_trial_of_a_larger_network_keeps_one_trial():
    consensus = private_consensus(
        random_graph(3000, 0, 0.002), BUDGET, 1.0, weights="metropolis"
    )
    values = np.random.default_rng(0).normal(size=3000)
    one = consensus.simulate(values, 40, rng=0)
    two = consensus.simulate(values, 40, trials=2, rng=0)
    assert one.outputs.shape == (3000, 1, 41)
    assert np.array_equal(one.outputs, two.outputs[:, :1])
    assert np.array_equal(one.states, two.states[:, :1])


def test_initial_values_may_come_by_node_and_the_seed_by_a_generator():
    by_node = dict(zip(TEN_AGENTS.nodes, TEN_VALUES))
    a = GAUSSIAN.simulate(by_node, 3, rng=np.random.default_rng(4))
    b = GAUSSIAN.simulate(TEN_VALUES, 3, rng=np.random.default_rng(4))
    assert np.array_equal(a.outputs, b.outputs)


def test_consensus_and_responses_pickle():
    again = pickle.loads(pickle.dumps(GAUSSIAN))
    assert np.array_equal(
        again.simulate(TEN_VALUES, 3, rng=0).outputs,
        GAUSSIAN.simulate(TEN_VALUES, 3, rng=0).outputs,
    )
    response = GAUSSIAN.simulate(TEN_VALUES, 3, trials=4, rng=0)
    again = pickle.loads(pickle.dumps(response))
    assert np.array_equal(again.squared_error(), response.squared_error())
    assert again.guarantee == response.guarantee


def test_the_noise_has_its_family_s_law():
    """100,000 draws a node: the second and fourth moment within five standard errors, and not those of noise 10 % off."""
    for family, kurtosis, eighth in (("gaussian", 3, 105), ("laplace", 6, 2520)):
        consensus = BY_FAMILY[family]
        response = consensus.simulate(np.zeros(10), 1, trials=100_000, rng=9)
        noise = (
            np.asarray(response.outputs)[:, :, 0]
            / np.sqrt(consensus.noise.variance)[:, None]
        )
        assert (
            abs((noise**2).mean() - 1) < 5 * np.sqrt((kurtosis - 1) / noise.size) < 0.02
        )
        assert (
            abs((noise**4).mean() - kurtosis)
            < 5 * np.sqrt((eighth - kurtosis**2) / noise.size)
            < 0.27 * kurtosis
        )
        assert abs(np.corrcoef(noise) - np.eye(10)).max() < 5 / np.sqrt(100_000)


REFUSED = {
    "too few values": (
        TEN_VALUES[:9],
        {},
        "initial_values: expected shape .10,., one number for each node, got .9,.",
    ),
    "a value missing": (
        dict.fromkeys(range(1, 10), 0.0),
        {},
        "initial_values: expected one entry",
    ),
    "not finite": (
        np.r_[np.nan, TEN_VALUES[1:]],
        {},
        "initial_values: expected finite",
    ),
    "no steps": (TEN_VALUES, {"steps": 0}, "steps"),
    "no trials": (TEN_VALUES, {"trials": 0}, "trials"),
}


@pytest.mark.parametrize("values, options, message", REFUSED.values(), ids=REFUSED)
def test_each_unfit_argument_has_its_own_error_and_shows_no_private_value(
    values, options, message
):
    with pytest.raises(ValueError, match=message) as caught:
        GAUSSIAN.simulate(values, **({"steps": 3} | options))
    assert "100" not in str(caught.value)
    assert "80" not in str(caught.value)


def test_the_response_s_text_is_public():
    response = GAUSSIAN.simulate(TEN_VALUES, 3, trials=2, rng=0)
    assert "2 trials of 4 samples" in repr(response)
    budget = PrivacyBudget(epsilon=1.0, delta=0.01)
    truncated = private_consensus(TEN_AGENTS, budget, 1.0, family="truncated")
    assert repr(truncated).endswith("truncated noise, epsilon = 1 at delta = 0.01)")
    assert repr(GAUSSIAN) == (
        "PrivateConsensus(10 nodes, 14 edges, gaussian noise, 0.5326-GDP)"
    )


def test_a_response_counts_its_trials_and_samples():
    last = GAUSSIAN.simulate(TEN_VALUES, 5, rng=0, keep_states=False)
    assert "1 trial of 1 sample, outputs" in repr(last)
    assert "2 trials of 6 samples" in repr(GAUSSIAN.simulate(TEN_VALUES, 5, trials=2))
