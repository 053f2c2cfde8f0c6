"""How do a thousand agents agree privately?

How accurate is the average, for which privacy, and which signal do they read? A random
geometric network, heterogeneous budgets, one draw of noise per agent. Run it as
``python thousand_agents.py [folder]``; the figure is written to the folder.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import privcontrol as pc
from privcontrol.consensus import optimal_consensus_epsilon, plot_error

AGENTS = 1000
STEPS = 400
RADIUS = 1.0  # K


def network():
    """A connected random geometric graph, and a measurement of each agent: 20 °C, give or take 5 K."""
    graph = nx.random_geometric_graph(AGENTS, 0.08, seed=3)
    return graph, 20 + 5 * np.random.default_rng(0).standard_normal(AGENTS)


def budgets(graph):
    """One agent in five is shy."""
    shy = pc.PrivacyBudget(epsilon=0.2, delta=1e-5)
    open_minded = pc.PrivacyBudget(epsilon=1.0, delta=1e-5)
    return {node: shy if node % 5 == 0 else open_minded for node in graph}


def main(folder="."):
    graph, values = network()
    agents = pc.private_consensus(graph, budgets(graph), RADIUS, weights="metropolis")
    print(
        f"{AGENTS} agents, {graph.number_of_edges()} links, alpha = {agents.rate:.4f}"
    )
    for node in (0, 1):
        print(
            f"agent {node}: sigma = {agents.scales[node]:.2f} K, epsilon = {agents.guarantee_for(node=node).epsilon(1e-5):.2f}"
        )

    response = agents.simulate(values, STEPS, trials=100, rng=0, keep_states=False)
    estimate = response.outputs[:, :, -1]
    print(
        f"average {values.mean():.3f} °C; agents' answers over 100 runs: {estimate.mean():.3f} +- {estimate.std():.3f} °C"
    )
    for readout in ("message", "state"):
        limit = agents.limit_mean_square_error(readout=readout)
        least = optimal_consensus_epsilon(
            limit, AGENTS, RADIUS, delta=1e-5, readout=readout
        )
        print(
            f"  {readout:8s} rms error per agent {np.sqrt(limit / AGENTS):6.3f} K (equal budgets: epsilon = {least:.3f})"
        )

    plot_error(agents, values, STEPS, response=response).set_ylabel(
        "Total mean-square error [K²]"
    )
    plt.gcf().savefig(Path(folder) / "thousand_agents.png", dpi=150)
    plt.close("all")


if __name__ == "__main__":
    main(*sys.argv[1:])
