"""Central accuracy without a centre, and what a coalition learns

Forty agents average their values. With independent noise the variance of the result is
forty times that of a trusted curator who makes the same promise. With noise that
neighbours share, and that cancels in the sum, it comes within one percent of the
curator's. The agents need some more steps, until the shared noise has cancelled.

On the right, what two agents who pool what they know learn of each of the others, where
neighbours share noise of 3 K only. They are the worst pair for this network. More
shared noise makes the agents more similar.

Run it as ``python central_accuracy.py [folder]``; the figure is written to the folder.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import privcontrol as pc
from privcontrol.consensus import (
    plot_error,
    plot_network,
    private_consensus,
    worst_coalition,
)

AGENTS = 40
STEPS = 120
RADIUS = 1.0  # K
TRIALS = 400
BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-3)


def network():
    """Agents in the plane, and their values in K."""
    graph = nx.random_geometric_graph(AGENTS, 0.33, seed=27)
    return graph, 2 * np.random.default_rng(8).standard_normal(AGENTS)


def draw_errors(ax, graph, values):
    """Mean-square error against the steps at equal guarantees towards an outsider."""
    alone = private_consensus(graph, BUDGET, RADIUS, weights="metropolis")
    shared = private_consensus(
        graph, BUDGET, RADIUS, weights="metropolis", pairwise_std="auto", coalition=0
    )
    curator = RADIUS**2 / alone.guarantee.gdp**2 / AGENTS
    for name, agents, color in (
        ("independent noise", alone, "#CC79A7"),
        ("shared noise", shared, "#009E73"),
    ):
        response = agents.simulate(values, STEPS, trials=TRIALS, rng=0)
        kind = {"readouts": ("message",), "label": name, "color": color}
        plot_error(agents, values, STEPS, response=response, ax=ax, **kind)
        limit = agents.limit_mean_square_error()
        print(
            f"{name:18} own {agents.scales[0]:6.3f} K, shared {agents.pairwise_std:6.2f} K, "
            f"{agents.guarantee.gdp:.4f}-GDP, limit {limit / curator:6.3f} of the curator's"
        )
    ax.lines[0].set_linestyle((0, (5, 2)))  # distinguished without colours
    style = {"color": "black", "linestyle": (0, (1, 1.5)), "linewidth": 1.4}
    ax.axhline(curator, label="trusted curator", **style)
    ax.set(title="The same promise to an eavesdropper", xlim=(0, STEPS))
    ax.set_ylabel("Total mean-square error [K²]")
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small", frameon=False)


def draw_coalition(ax, graph):
    """Epsilon of every agent towards the worst pair of the others."""
    agents = private_consensus(
        graph, BUDGET, RADIUS, weights="metropolis", pairwise_std=3.0, coalition=2
    )
    pair = worst_coalition(agents)
    plot_network(agents, coalition=pair, ax=ax)
    ax.set_title("What the worst pair learns of the others")
    known = [
        agents.guarantee_for(node=node, coalition=pair).epsilon(BUDGET.delta)
        for node in graph
        if node not in pair
    ]
    print(
        f"worst pair {pair}: epsilon {max(known):.3f} for the most exposed of the others, "
        f"{min(known):.3f} for the least; own noise {agents.scales[0]:.3f} K"
    )


def main(folder="."):
    graph, values = network()
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10, 4.2), layout="constrained", width_ratios=(1.1, 1)
    )
    draw_errors(left, graph, values)
    draw_coalition(right, graph)
    figure.savefig(Path(folder) / "central_accuracy.png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
