"""The figures show the numbers that they claim to show, and the examples run."""

import warnings
from pathlib import Path

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import networkx as nx
from consensus.networks import TEN_AGENTS, TEN_VALUES, random_graph

from privcontrol.consensus import (
    plot_error,
    plot_network,
    private_consensus,
)
from privcontrol.core import PrivacyBudget, PrivacyWarning

EXAMPLES = Path(__file__).parents[2] / "examples"
BUDGETS = [PrivacyBudget(epsilon=0.2 * i, delta=1e-2) for i in range(1, 11)]
CONSENSUS = private_consensus(TEN_AGENTS, BUDGETS, 1.0)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_errors_show_the_exact_curves_the_bound_and_the_measured_points():
    response = CONSENSUS.simulate(TEN_VALUES, 12, trials=40, rng=0, keep_states=False)
    ax = plot_error(CONSENSUS, TEN_VALUES, 12, response=response)
    curves = {line.get_label(): line.get_ydata() for line in ax.lines}
    assert np.allclose(
        curves["message readout"], CONSENSUS.mean_square_error(TEN_VALUES, 12)
    )
    assert np.allclose(
        curves["state readout"],
        CONSENSUS.mean_square_error(TEN_VALUES, 12, readout="state"),
    )
    assert curves["bound of the limit (states)"][0] == CONSENSUS.noise.variance.sum()
    points = [container.lines[0].get_ydata() for container in ax.containers]
    assert np.allclose(points[0], response.mean_square_error()[0])


def test_two_runs_on_one_figure_are_told_apart_by_name_and_their_readouts_by_the_line():
    ax, one = plt.subplots()[1], CONSENSUS.simulate(TEN_VALUES, 8, rng=0)
    for label, color, response in (("gaussian", "C0", one), ("laplace", "C1", None)):
        plot_error(
            CONSENSUS, TEN_VALUES, 8, response=response, label=label, color=color, ax=ax
        )
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    for run in ("gaussian", "laplace"):
        assert {
            f"{run}: message readout",
            f"{run}: state readout",
            f"{run}: bound of the limit (states)",
        } <= set(shown)
    assert [name for name in shown if "trial" in name] == ["gaussian: over 1 trial"]
    lines = {line.get_label(): line for line in ax.lines}
    styles = {
        lines[f"gaussian: {name}"].get_linestyle()
        for name in ("message readout", "state readout")
    }
    assert styles == {"-", "--"}
    assert lines["gaussian: state readout"].get_color() == "C0"


def test_the_legend_of_a_figure_of_its_own_stands_below_the_axes():
    ax = plot_error(CONSENSUS, TEN_VALUES, 8)
    ax.figure.canvas.draw()
    (legend,) = ax.figure.legends
    assert legend.get_window_extent().y1 < ax.get_tightbbox().y0


def test_errors_of_large_networks_are_estimates_with_their_band(monkeypatch):
    monkeypatch.setattr("privcontrol.consensus.figures.DENSE_NODES", 20)
    consensus = private_consensus(
        random_graph(60, 0), BUDGETS[3], 1.0, weights="metropolis"
    )
    values = np.random.default_rng(0).normal(size=60)
    ax = plot_error(consensus, values, 8, readouts=("message",))
    found = consensus.estimate_mean_square_error(values, 8, rng=0)
    assert np.allclose(ax.lines[0].get_ydata(), found.value)
    assert len(ax.collections) == 1


def test_the_network_shows_each_node_s_epsilon():
    ax = plot_network(CONSENSUS)
    nodes = ax.collections[1]
    assert np.allclose(
        nodes.get_array(), [budget.epsilon for budget in BUDGETS], rtol=1e-9
    )
    assert [text.get_text() for text in ax.texts] == [str(node) for node in TEN_AGENTS]
    equal = plot_network(private_consensus(TEN_AGENTS, BUDGETS[0], 1.0))
    assert "= 0.2 at" in equal.get_title()


@pytest.fixture
def radios():
    """Thirty radios with names, on a line."""
    return nx.relabel_nodes(nx.path_graph(30), {i: f"radio-{i:02d}" for i in range(30)})


def drawn(graph, **options):
    """Places of the nodes in the figure, and its names."""
    ax = plot_network(
        private_consensus(graph, BUDGETS[3], 1.0, weights="metropolis"), **options
    )
    return np.asarray(ax.collections[1].get_offsets()), ax.texts


def test_nodes_stand_where_the_caller_puts_them(radios):
    places = {name: (i, i % 3) for i, name in enumerate(radios)}
    assert np.array_equal(drawn(radios, pos=places)[0], list(places.values()))
    assert np.array_equal(
        drawn(radios, pos=list(places.values()))[0], list(places.values())
    )
    del places["radio-07"]
    with pytest.raises(ValueError, match="pos: expected .* 1 missing .'radio-07'."):
        drawn(radios, pos=places)


def test_names_stand_on_their_nodes_and_many_are_left_out(radios):
    texts = drawn(radios)[1]
    assert not any(text.get_clip_on() for text in texts)  # nor cut at the edge
    assert [text.get_text() for text in texts] == list(radios)
    assert all(text.get_path_effects() for text in texts)
    radios.add_edge("radio-29", "radio-30")
    assert drawn(radios)[1][:] == []


def test_figures_ask_for_agents_and_their_response():
    for attempt in (plot_network, lambda graph: plot_error(graph, TEN_VALUES, 5)):
        with pytest.raises(
            TypeError,
            match=r"a PrivateConsensus such as private_consensus\(graph.*, got Graph",
        ):
            attempt(TEN_AGENTS)


def test_a_network_too_large_to_draw_says_so():
    consensus = private_consensus(
        random_graph(501, 0, 0.001), BUDGETS[0], 1.0, weights="metropolis"
    )
    with pytest.raises(ValueError, match="at most 500 nodes to draw"):
        plot_network(consensus)


def test_plots_leave_states_out_unless_they_are_named():
    """What a reader would take for the agents' result are their private, noisy states."""
    shared = private_consensus(
        TEN_AGENTS, BUDGETS[0], 1.0, pairwise_std=9.0, coalition=0
    )
    response = shared.simulate(TEN_VALUES, 8, trials=30, rng=0)
    labels = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for draw in (response.plot, response.band_plot):
            axes = draw().axes.flat
            labels[draw.__name__] = [ax.get_ylabel() for ax in axes]
            plt.close("all")
    names = [f"node {node}" for node in range(1, 11)]
    assert labels == {"plot": names[:6], "band_plot": names}
    with pytest.warns(PrivacyWarning):
        response.band_plot("states.3")
