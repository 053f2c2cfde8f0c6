"""The figures show the numbers that they claim to show, and the examples run."""

import runpy
from pathlib import Path

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from consensus.networks import TEN_AGENTS, TEN_VALUES, random_graph

from privcontrol.consensus import (
    plot_error,
    plot_network,
    plot_trajectories,
    plots,
    private_consensus,
)
from privcontrol.core import PrivacyBudget

EXAMPLES = Path(__file__).parents[2] / "examples"
BUDGETS = [PrivacyBudget(epsilon=0.2 * i, delta=1e-2) for i in range(1, 11)]
CONSENSUS = private_consensus(TEN_AGENTS, BUDGETS, 1.0)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_trajectories_show_every_agent_s_mean_and_the_exact_one():
    response = CONSENSUS.simulate(TEN_VALUES, 12, trials=40, rng=0)
    ax = plot_trajectories(CONSENSUS, response, TEN_VALUES)
    lines = [line.get_ydata() for line in ax.lines]
    assert len(lines) == 20
    assert np.allclose(lines[:10], response.mean("states") - 15)
    assert np.allclose(lines[10:], CONSENSUS.mean_error(TEN_VALUES, 12))
    messages = plot_trajectories(CONSENSUS, response, TEN_VALUES, readout="message")
    assert np.allclose(messages.lines[3].get_ydata(), np.asarray(response.outputs)[3].mean(axis=0) - 15)


def test_errors_show_the_exact_curves_the_bound_and_the_measured_points():
    response = CONSENSUS.simulate(TEN_VALUES, 12, trials=40, rng=0, keep_states=False)
    ax = plot_error(CONSENSUS, TEN_VALUES, 12, response=response)
    curves = {line.get_label(): line.get_ydata() for line in ax.lines}
    assert np.allclose(curves["message readout"], CONSENSUS.mean_square_error(TEN_VALUES, 12))
    assert np.allclose(curves["state readout"], CONSENSUS.mean_square_error(TEN_VALUES, 12, readout="state"))
    assert curves["bound"][0] == CONSENSUS.limit_error_bound()
    points = [container.lines[0].get_ydata() for container in ax.containers]
    assert np.allclose(points[0], response.mean_square_error()[0])


def test_errors_of_large_networks_are_estimates_with_their_band(monkeypatch):
    monkeypatch.setattr(plots, "DENSE_NODES", 20)
    consensus = private_consensus(random_graph(60, 0), BUDGETS[3], 1.0, weights="metropolis")
    values = np.random.default_rng(0).normal(size=60)
    ax = plot_error(consensus, values, 8, bound=False)
    found = consensus.estimate_mean_square_error(values, 8, rng=0)
    assert np.allclose(ax.lines[0].get_ydata(), found.value)
    assert len(ax.collections) == 2


def test_the_network_shows_each_node_s_epsilon():
    ax = plot_network(CONSENSUS)
    nodes = ax.collections[1]
    assert np.allclose(nodes.get_array(), [budget.epsilon for budget in BUDGETS], rtol=1e-9)
    assert [text.get_text() for text in ax.texts] == [str(node) for node in TEN_AGENTS]
    equal = plot_network(private_consensus(TEN_AGENTS, BUDGETS[0], 1.0))
    assert "= 0.2 at" in equal.get_title()


def test_a_network_too_large_to_draw_says_so():
    consensus = private_consensus(random_graph(501, 0, 0.001), BUDGETS[0], 1.0, weights="metropolis")
    with pytest.raises(ValueError, match="at most 500 nodes to draw"):
        plot_network(consensus)


def test_the_comparison_example_draws_its_figure(tmp_path, capsys):
    runpy.run_path(str(EXAMPLES / "studies" / "consensus_comparison.py"))["main"](tmp_path)
    text = capsys.readouterr().out
    assert text.count("best readout") == 9 and "no differential privacy without a limit" in text
    assert (tmp_path / "consensus_comparison.png").stat().st_size > 20_000
