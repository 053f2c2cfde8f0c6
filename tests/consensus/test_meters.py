"""The example of meters in processes: kills, lost and late datagrams, and the numbers of the simulation."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import privcontrol as pc
from privcontrol.consensus import private_consensus

SCRIPT = Path(__file__).parents[2] / "examples" / "agents" / "neighbourhood_meters.py"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="the example forks"),
]


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("neighbourhood_meters", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.ROUNDS = 40
    return module


def group_of(graph):
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-3)
    options = {"weights": "metropolis", "pairwise_std": "auto", "coalition": 2}
    return private_consensus(graph, budget, radius=1.0, **options)


def test_thirty_kills_change_no_message(example, tmp_path):
    graph, loads = example.neighbourhood()
    group = group_of(graph)
    heard, killed = example.run(group, loads, tmp_path, kills=30)
    assert killed == 30
    assert all(len(messages) == 1 for messages in heard.values())
    y = np.array([example.first_message(tmp_path, node) for node in graph])
    for step in range(example.ROUNDS + 1):
        said = [heard.get((node, step)) for node in graph]
        for exact, messages in zip(y, said):
            if messages:
                assert max(messages) == pytest.approx(exact, abs=1e-11)
        y = group.network.iteration @ y


def test_dead_meters_are_repaired(example, tmp_path):
    graph, loads = example.neighbourhood()
    group = group_of(graph)
    heard, _ = example.run(group, loads, tmp_path, missing=(2, 7))
    stay = [node for node in graph if node not in (2, 7)]
    assert all((node, 0) not in heard for node in (2, 7))
    last = np.array([max(heard[node, example.ROUNDS]) for node in stay])
    mean = np.mean([loads[node] for node in stay])
    assert abs(last.mean() - mean) < 6 * group.scales[0] / np.sqrt(10)
