"""Agents that run by themselves: their messages, what they share, kills, losses, dropouts and repairs."""

import math
import os
import pickle
import threading

import networkx as nx
import numpy as np
import pytest
import scipy.stats
from consensus.networks import TEN_AGENTS, TEN_VALUES
from repeats import few

from privcontrol.consensus import (
    Agent,
    NodeAdjacency,
    PrivateConsensus,
    pair_keys,
    private_consensus,
    read_network,
)
from privcontrol.core import PrivacyBudget, PrivacyError
from privcontrol.privacy.release import BitSource
from privcontrol.privacy.store import FileStore

BUDGET = PrivacyBudget(epsilon=1.0, delta=1e-2)
SHARED = private_consensus(TEN_AGENTS, BUDGET, 1.0, pairwise_std=30.0, coalition=1)
VALUES = dict(zip(TEN_AGENTS, TEN_VALUES))


def made(consensus, keys=None, values=VALUES):
    keys = keys or dict.fromkeys(consensus.nodes)
    return {k: consensus.agent(k, values[k], keys[k]) for k in consensus.nodes}


def round_of(agents, lost=()):
    """One synchronous round; ``lost`` are pairs (sender, receiver)."""
    messages = {node: agent.message() for node, agent in agents.items()}
    for node, agent in agents.items():
        heard = {}
        for sender in agent.neighbours:
            if sender in messages and (sender, node) not in lost:
                heard[sender] = messages[sender]
        agent.update(heard)


def spoken(agents):
    return np.array([agent.message() for agent in agents.values()])


@pytest.mark.parametrize("truth", [True, np.True_, [True, 2.0], np.array([False])])
def test_a_truth_value_is_no_value_of_an_agent(truth):
    pair = private_consensus(np.array([[0, 0.25], [0.25, 0]]), BUDGET, 1.0)
    with pytest.raises(TypeError, match="value: expected real numbers, got bool"):
        pair.agent(0, truth)


class NegativeBits(BitSource):
    """The same bits each time, of which the first one makes Laplace noise negative."""

    def bits(self, count):
        return 1 << (count - 1) | 12345


def test_values_that_no_double_holds_are_as_far_apart_as_they_are(monkeypatch):
    """Doubles next to 2^53 and 2^53 + 1 are equal, those next to its double 2 apart."""
    monkeypatch.setattr("privcontrol.consensus.agent.SYSTEM_BITS", NegativeBits())
    pair = private_consensus(
        [[0, 0.25], [0.25, 0]], PrivacyBudget(epsilon=1), 1.0, family="laplace"
    )
    values = [2**53 + k for k in range(4)]
    messages = [pair.agent(0, value).message() for value in values]
    assert np.diff(messages).tolist() == [1, 1, 1]


def test_agents_compute_what_the_simulation_computes():
    agents = made(SHARED, pair_keys(SHARED.network))
    y = spoken(agents)
    for _ in range(60):
        y = SHARED.network.iteration @ y
        round_of(agents)
    assert np.allclose(spoken(agents), y, rtol=0, atol=1e-10)
    assert agents[1].steps == 60
    assert len(agents[1].published) == 61


@pytest.mark.usefixtures("repeated_bits")
def test_shared_noise_cancels_and_own_noise_stays():
    keys = pair_keys(SHARED.network)
    errors = []
    for _ in range(80):
        first = spoken(made(SHARED, keys))
        errors.append(first.mean() - TEN_VALUES.mean())
    spread = SHARED.scales[0] / math.sqrt(10)
    assert abs(np.mean(errors)) < 5 * spread / math.sqrt(80)
    assert np.std(errors) == pytest.approx(spread, rel=5 / math.sqrt(2 * 80))
    apart = np.std(spoken(made(SHARED, keys)) - TEN_VALUES)
    assert apart > 10 * spread


def test_a_message_is_the_same_however_often_it_is_asked():
    agent = made(SHARED, pair_keys(SHARED.network))[4]
    assert len({agent.message() for _ in range(10)}) == 1
    before = agent.message()
    agent.update({})
    assert agent.message() == before
    assert agent.steps == 1
    agent.update({agent.neighbours[0]: before + 1.0})
    assert agent.message() == pytest.approx(before + 0.25)


@pytest.mark.slow
def test_two_holders_of_a_secret_compute_the_same_standard_normal_numbers(monkeypatch):
    """5,000 secrets: their distance to the normal law, and their second moment."""
    network = read_network(nx.path_graph(2), weights="metropolis")
    pair = PrivateConsensus(
        network, 1e-6, NodeAdjacency(1.0), pairwise_std=1.0, coalition=0
    )
    draws = []
    for k in range(5000):
        key = k.to_bytes(32, "big")
        first = pair.agent(0, 0.0, {1: key}).message()
        if k < 100:
            # who draws fewer bits at first, and asks for more, has the same number
            monkeypatch.setattr("privcontrol.privacy.release.FIRST_BITS", 7)
            second = pair.agent(1, 0.0, {0: key}).message()
            monkeypatch.undo()
            assert abs(first + second) < 1e-5
        draws.append(first)
    assert scipy.stats.kstest(draws, "norm").pvalue > 1e-2
    assert abs(np.mean(np.square(draws)) - 1) < 5 * math.sqrt(2 / 5000) < 0.19


@pytest.mark.usefixtures("repeated_bits")
def test_the_noise_of_first_messages_is_the_one_that_is_promised():
    """One agent's own noise over 1,000 starts with the same secrets."""
    keys = pair_keys(SHARED.network)[1]
    silent = PrivateConsensus(
        SHARED.network, 1e-6, SHARED.adjacency, pairwise_std=30.0, coalition=1
    )
    shared = silent.agent(1, 0.0, keys).message()
    own = [SHARED.agent(1, 5.0, keys).message() - 5.0 - shared for _ in range(1000)]
    scale = SHARED.scales[0]
    assert scipy.stats.kstest(np.array(own) / scale, "norm").pvalue > 1e-7
    ratio = np.mean(np.square(own)) / scale**2
    assert abs(ratio - 1) < 5 * math.sqrt(2 / 1000) < 0.9**-2 - 1  # 10 % less is seen


@pytest.mark.usefixtures("repeated_bits")
def test_laplace_agents_share_nothing():
    group = private_consensus(
        TEN_AGENTS, PrivacyBudget(epsilon=1), 1.0, family="laplace"
    )
    noise = [group.agent(1, 0.0).message() for _ in range(1200)]
    assert scipy.stats.kstest(noise, "laplace").pvalue > 1e-7
    # 3 deviations of the mean of |noise|, which is 1; 10 % off is as far
    assert abs(np.mean(np.abs(noise)) - 1) < 3 / math.sqrt(1200) < 0.1


def test_lost_messages_move_the_average_as_the_docstring_says():
    agents = made(SHARED, pair_keys(SHARED.network))
    y = dict(zip(agents, spoken(agents)))
    both = {(1, 2), (2, 1)}
    round_of(agents, lost=both)
    assert spoken(agents).mean() == pytest.approx(np.mean(list(y.values())), abs=1e-12)
    y = dict(zip(agents, spoken(agents)))
    round_of(agents, lost={(1, 2)})  # 2 misses the message of 1
    moved = spoken(agents).mean() - np.mean(list(y.values()))
    assert moved == pytest.approx(0.25 * (y[2] - y[1]) / 10, abs=1e-12)


@pytest.mark.usefixtures("repeated_bits")
def test_random_losses_leave_the_average_right_in_the_mean():
    rng = np.random.default_rng(0)
    moved = []
    for _ in range(60):
        agents = made(SHARED, pair_keys(SHARED.network))
        start = spoken(agents).mean()
        for _ in range(15):
            lost = set()
            for a, b in TEN_AGENTS.edges:
                for link in ((a, b), (b, a)):
                    if rng.random() < 0.3:
                        lost.add(link)
            round_of(agents, lost)
        moved.append(spoken(agents).mean() - start)
    assert abs(np.mean(moved)) < 4 * np.std(moved) / math.sqrt(60)
    assert np.std(moved) > 0.1  # what one run is off by


@pytest.mark.usefixtures("repeated_bits")
def test_a_missing_agent_leaves_its_shared_noise_until_it_is_repaired():
    off, repaired = [], []
    for _ in range(60):
        agents = made(SHARED, pair_keys(SHARED.network))
        del agents[8], agents[5]  # never sent a message
        average = np.mean([VALUES[node] for node in agents])
        off.append(spoken(agents).mean() - average)
        for agent in agents.values():
            agent.repair([5, 8])
            agent.repair([8])  # a second time changes nothing
        repaired.append(spoken(agents).mean() - average)
    assert np.std(off) > 5.0
    own = SHARED.scales[0] / math.sqrt(8)
    assert np.std(repaired) == pytest.approx(own, rel=5 / math.sqrt(2 * 60))


def test_who_was_heard_is_not_repaired(tmp_path):
    """Else what is shared is published: a claim of .5325 was 1.71 in truth."""
    keys = pair_keys(SHARED.network)[3]
    agent = SHARED.agent(3, 7.0, keys, path=tmp_path / "agent")
    heard, silent = agent.neighbours[:2]
    agent.update({heard: 100.0})
    before = agent.published
    with pytest.raises(PrivacyError, match="has heard"):
        agent.repair([silent, heard])
    again = SHARED.agent(3, 7.0, keys, path=tmp_path / "agent")
    with pytest.raises(PrivacyError, match="has heard"):
        again.repair([heard])
    assert agent.published == again.published == before
    again.repair([silent])


def test_a_first_message_that_comes_after_a_repair_is_refused(tmp_path):
    """It moved the average by noise that nothing cancels any more, without a word."""
    keys = pair_keys(SHARED.network)
    agent = SHARED.agent(3, 7.0, keys[3], path=tmp_path / "agent")
    late, other = agent.neighbours[:2]
    before = agent.message()
    agent.repair([late])
    after = agent.message()
    again = SHARED.agent(3, 7.0, keys[3], path=tmp_path / "agent")
    for one in (agent, again):
        with pytest.raises(PrivacyError, match=f"shares with {late}, who must send no"):
            one.update({late: 100.0, other: 5.0})
        assert one.published == (before, after)
    again.update({other: 5.0})


def test_threads_that_ask_first_hear_one_message():
    """20 agents, 16 threads behind a barrier each."""
    keys = pair_keys(SHARED.network)[3]
    for _ in range(20):
        agent = SHARED.agent(3, 7.0, keys)
        barrier = threading.Barrier(16)
        messages = []

        def ask(agent=agent, barrier=barrier, messages=messages):
            barrier.wait()
            messages.append(agent.message())

        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(messages)) == 1
        assert agent.published == (messages[0],)


def test_a_fork_does_not_speak_for_an_agent():
    agent = SHARED.agent(3, 7.0, pair_keys(SHARED.network)[3])
    uses = (agent.message, lambda: agent.update({}), lambda: agent.repair([]))
    child = os.fork()
    if child == 0:
        refused = 0
        for use in uses:
            try:
                use()
            except PrivacyError as error:
                refused += "after the fork" in str(error)
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(uses)


def test_who_has_not_spoken_must_not_once_others_repair():
    agent = made(SHARED, pair_keys(SHARED.network))[1]
    with pytest.raises(PrivacyError, match="no message yet"):
        agent.repair([2])


def test_an_agent_that_was_killed_goes_on_with_its_messages(tmp_path):
    path = tmp_path / "agent"
    keys = pair_keys(SHARED.network)[3]
    agent = SHARED.agent(3, 7.0, keys, path=path)
    first = agent.message()
    agent.update({agent.neighbours[0]: 100.0})
    agent.repair([agent.neighbours[1]])
    again = SHARED.agent(3, 7.0, keys, path=path)
    assert again.published == agent.published
    assert again.published[0] == first
    last = again.message()
    again.repair([agent.neighbours[1]])
    assert again.message() == last
    assert (path.stat().st_mode & 0o777) == 0o600
    assert float.hex(7.0).encode() not in path.read_bytes()


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "agent"
    keys = pair_keys(SHARED.network)[3]
    SHARED.agent(3, 7.0, keys, path=path).message()
    whole = path.read_bytes()
    place = whole.index(b"0x1.")
    for content in (
        b"",
        b"garbage\n",
        whole[:1000],
        whole[:place] + b"0x0." + whole[place + 4 :],
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="file of an agent"):
            SHARED.agent(3, 7.0, keys, path=path)


def test_a_second_process_of_the_same_agent_does_not_speak(tmp_path):
    path = tmp_path / "agent"
    keys = pair_keys(SHARED.network)[3]
    one, two = (SHARED.agent(3, 7.0, keys, path=path) for _ in range(2))
    one.message()
    with pytest.raises(PrivacyError, match="another process"):
        two.message()
    again = SHARED.agent(3, 7.0, keys, path=path)
    one.update({})
    with pytest.raises(PrivacyError, match="another process"):
        again.update({})
    assert len(SHARED.agent(3, 7.0, keys, path=path).published) == 2


def test_who_goes_on_at_once_with_a_new_file_speaks_alone(tmp_path, monkeypatch):
    """Another process read the first message, and answered, before its sender did."""
    path = tmp_path / "agent"
    keys = pair_keys(SHARED.network)[3]
    sender = SHARED.agent(3, 7.0, keys, path=path)
    others = []

    def created(store, entry, state):
        made = create(store, entry, state)
        if made:
            others.append(SHARED.agent(3, 7.0, keys, path=path))
            others[0].update({})
        return made

    create = FileStore.create
    monkeypatch.setattr(FileStore, "create", created)
    with pytest.raises(PrivacyError, match="another process speaks"):
        sender.message()
    with pytest.raises(PrivacyError, match="another process speaks"):
        sender.update({})
    assert sender.published == ()
    assert others[0].steps == 1
    assert others[0].message() == others[0].published[0]


def test_a_file_is_for_one_agent_and_one_run(tmp_path):
    """It spoke an agent's messages for another one, and took out noise of another run.

    The guarantee is that of the noise behind the message, so no other one goes on either.
    """
    keys = pair_keys(SHARED.network)
    fresh = pair_keys(SHARED.network)
    unit = NodeAdjacency(1.0)
    less = {"pairwise_std": 29.0, "coalition": 1}
    single = private_consensus(TEN_AGENTS, BUDGET, 1.0)
    planar = private_consensus(TEN_AGENTS, BUDGET, 1.0, dimension=2)
    laplace = private_consensus(TEN_AGENTS, BUDGET, 1.0, family="laplace")
    agents = {
        "shared": lambda path: SHARED.agent(3, 7.0, keys[3], path=path),
        "another agent": lambda path: SHARED.agent(4, 7.0, keys[4], path=path),
        "another run": lambda path: SHARED.agent(3, 7.0, fresh[3], path=path),
        "less shared noise": lambda path: PrivateConsensus(
            SHARED.network, SHARED.scales, unit, **less
        ).agent(3, 7.0, keys[3], path=path),
        "single": lambda path: single.agent(3, 7.0, path=path),
        "a vector": lambda path: planar.agent(3, [7.0, 8.0], path=path),
        "another family": lambda path: laplace.agent(3, 7.0, path=path),
        "other noise": lambda path: PrivateConsensus(
            single.network, 2 * single.scales, unit
        ).agent(3, 7.0, path=path),
    }
    for case, speaks in agents.items():
        path = tmp_path / case
        message = speaks(path).message()
        for other, made in agents.items():
            if other == case:
                assert np.all(made(path).message() == message)
                continue
            with pytest.raises(PrivacyError, match="that of another agent or run"):  # noqa: PT012 - fail() names the case
                made(path)
                pytest.fail(f"{case}: {other}")


def test_a_design_that_is_made_again_differs_by_rounding(tmp_path):
    """With other threads of BLAS, or on another machine, and its agents go on."""
    path = tmp_path / "agent"
    keys = pair_keys(SHARED.network)[3]
    message = SHARED.agent(3, 7.0, keys, path=path).message()
    for rounding in (1 - 1e-14, 1 + 1e-14):
        again = PrivateConsensus(
            SHARED.network,
            SHARED.scales * rounding,
            NodeAdjacency(1.0),
            pairwise_std=SHARED.pairwise_std * rounding,
            coalition=1,
        )
        assert again.agent(3, 7.0, keys, path=path).message() == message


def test_an_agent_goes_on_where_its_network_has_changed(tmp_path):
    """Whom it heard is known by name: what it shares with them is never taken out.

    In its file neighbours were places among those of the old network.
    """
    star = read_network(nx.star_graph(4), weights="metropolis")
    fewer = read_network(nx.star_graph([0, 2, 3, 4]), weights="metropolis")
    other = read_network(nx.star_graph([0, 4, 9]), weights="metropolis")
    alone = PrivateConsensus(star, 1.0, NodeAdjacency(1.0)).agent(
        0, 5.0, path=tmp_path / "alone"
    )
    alone.update({2: 1.0, 4: 2.0})
    again = PrivateConsensus(other, 1.0, NodeAdjacency(1.0)).agent(
        0, 5.0, path=tmp_path / "alone"
    )
    assert again.published == alone.published
    keys = pair_keys(star)[0]
    path = tmp_path / "shared"

    def hub(network, keys):
        shared = {"pairwise_std": 30.0, "coalition": 0}
        group = PrivateConsensus(network, 1.0, NodeAdjacency(1.0), **shared)
        return group.agent(0, 5.0, keys, path=path)

    hub(star, keys).update({2: 1.0})
    with pytest.raises(PrivacyError, match="has heard 2,"):
        hub(fewer, keys).repair([2])
    hub(star, keys).repair([3])
    again = hub(fewer, keys)
    message = again.message()
    again.repair([1, 3])  # no neighbour any more, and taken out before
    assert again.message() == message
    again.repair([4])
    assert again.message() != message
    with pytest.raises(PrivacyError, match="with this noise"):
        hub(other, keys | {9: bytes(32)})  # shares nothing with the newcomer


def test_messages_from_the_end_of_the_doubles_are_refused():
    """Two of them made a NaN of the agent's message for ever."""
    agent = private_consensus(TEN_AGENTS, BUDGET, 1.0).agent(3, 5.0)
    message = agent.message()
    far = dict.fromkeys(agent.neighbours, np.finfo(float).max)
    agent.update(far)
    last = agent.message()
    assert np.isfinite(last)
    assert last > message
    with pytest.raises(ValueError, match="leave out who sends others"):
        agent.update({k: -number for k, number in far.items()})
    assert agent.published == (message, last)


def test_agents_show_no_secret(tmp_path):
    keys = pair_keys(SHARED.network)[3]
    agent = SHARED.agent(3, 771.23, keys)
    assert "771" not in repr(agent)
    assert not any(str(key) in repr(agent) for key in keys.values())
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(agent)
    for wrong in ([771.23, 0.0], np.nan, "771.23"):
        with pytest.raises((TypeError, ValueError)) as caught:
            SHARED.agent(3, wrong, keys)
        assert "771" not in str(caught.value)


def test_secrets_are_asked_for_and_checked():
    keys = pair_keys(SHARED.network)[1]
    assert keys[2] == pair_keys(SHARED.network)[1][2] or len(keys[2]) == 32
    with pytest.raises(TypeError, match="pair_keys"):
        SHARED.agent(1, 0.0)
    with pytest.raises(ValueError, match="got none or others for"):
        SHARED.agent(1, 0.0, dict(list(keys.items())[:1]))
    with pytest.raises(ValueError, match="32 secret bytes for each of"):
        SHARED.agent(1, 0.0, dict.fromkeys(keys, b"abc"))
    with pytest.raises(ValueError, match="32 secret bytes for each of"):
        SHARED.agent(1, 0.0, dict.fromkeys(keys, 32))
    with pytest.raises(ValueError, match="one twice"):
        SHARED.agent(1, 0.0, dict.fromkeys(keys, b"a" * 32))
    with pytest.raises(ValueError, match="name of one of the network's 10 nodes"):
        SHARED.agent(11, 0.0, keys)
    with pytest.raises(ValueError, match="neighbours of 1 only"):
        SHARED.agent(1, 0.0, keys).update({7: 1.0})
    with pytest.raises(TypeError, match="noise: expected an AgentNoise"):
        Agent(SHARED, 1, 0.0, keys)


# -- all that is seen of running agents --------------------------------------------------


class Named(BitSource):
    """Bits that say only whose they are."""

    def __init__(self, key, entry=0):
        self.key = bytes(key)

    def bits(self, count):
        raise AssertionError("no bit is drawn here")


class Linear:
    """Runs of agents as a linear map of their values and of all standard entries."""

    def __init__(self, group, keys, script):
        self.group = group
        self.keys = keys
        self.script = script
        self.entries = {}  # by secret, and of who speaks

    def release(self, values, factor, family, *, source):
        """Take the place of exact_release, with these entries."""
        eta = [self.entries.get(getattr(bits, "key", "own"), 0.0) for bits in source]
        numbers = [int(value.p) / int(value.q) for value in values]
        return np.array(numbers) + factor @ eta

    def messages(self, values, own, shared):
        """All messages in the order of the script."""
        agents = {i: self.group.agent(i, values[i], self.keys[i]) for i in own}
        sent = {i: [] for i in own}
        seen = []
        for i, task, given in self.script:
            self.entries = {**shared, "own": own[i]}
            if task == "repair":
                agents[i].repair(given)
            elif task == "update":
                heard = {j: sent[j][-late] for j, late in given if late <= len(sent[j])}
                agents[i].update(heard)
            seen.append(agents[i].message())
            sent[i].append(seen[-1])
        return np.array(seen)


def random_script(rng, graph, gone):
    """First messages, a repair of who is gone, and steps with late and lost messages."""
    alive = [i for i in graph if i not in gone]
    script = [(int(i), "send", None) for i in rng.permutation(alive)]
    script += [(i, "repair", gone) for i in alive if gone]
    for _ in range(3):
        for i in rng.permutation(alive).tolist():
            near = [j for j in graph[i] if j in alive and rng.random() < 0.7]
            given = [(j, int(rng.integers(1, 3))) for j in near]
            script.append((i, "update", given))
    return script


@pytest.mark.parametrize("seed", few(range(8), of=4))
def test_what_a_coalition_sees_of_running_agents_is_what_is_promised(seed, monkeypatch):
    """The least noise that explains a move, from the covariance of all messages.

    Agents drop out before their first message, others repair, and messages come late or
    never. Members know their own noise and what is shared with them.
    """
    rng = np.random.default_rng(seed)
    n = 4 + seed % 4
    graph = nx.cycle_graph(n)
    graph.add_edge(0, n // 2)
    gone = [1] if seed % 2 else []
    members = sorted({*gone, 3})
    group = PrivateConsensus(
        read_network(graph, weights="metropolis"),
        rng.uniform(0.5, 2.0, n),
        NodeAdjacency(1.0),
        pairwise_std=float(rng.uniform(0.2, 20.0)),
        coalition=len(members),
    )
    keys = pair_keys(group.network)
    run = Linear(group, keys, random_script(rng, graph, gone))
    monkeypatch.setattr("privcontrol.consensus.agent.SharedBits", Named)
    monkeypatch.setattr("privcontrol.consensus.agent.exact_release", run.release)
    edges = [tuple(sorted(edge)) for edge in graph.edges]
    unit = np.eye(n)
    zero = np.zeros(n)
    still = dict(enumerate(zero))
    H = np.array([run.messages(e, still, {}) for e in unit]).T
    columns = [run.messages(zero, dict(enumerate(e)), {}) for e in unit]
    columns += [run.messages(zero, still, {keys[i][j]: 1.0}) for i, j in edges]
    known = members + [n + k for k, e in enumerate(edges) if set(e) & set(members)]
    F = np.vstack([np.array(columns).T, np.eye(n + len(edges))[known]])
    H = np.vstack([H, np.zeros((len(known), n))])
    for node in set(graph) - set(members):
        least = np.linalg.lstsq(F, H[:, node], rcond=1e-11)[0]
        assert F @ least == pytest.approx(H[:, node], abs=1e-9)
        promised = group.guarantee_for(node=node, coalition=members).gdp
        assert np.linalg.norm(least) == pytest.approx(promised, rel=1e-8)
