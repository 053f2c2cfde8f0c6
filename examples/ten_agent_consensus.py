"""Private average consensus of ten agents: DPAM section 6.3, Figures 5, 6 and 7, with the exact curves over them.

Run it as ``python ten_agent_consensus.py [folder]``; it prints the numbers and writes three figures. The noise is the
paper's own, ``method="lenypappas"``; the exact rule needs 26 %, 59 % and 88 % less of it for the same privacy.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import networkx as nx
from matplotlib.lines import Line2D

from privcontrol.consensus import plot_error, plot_network, plot_trajectories, private_consensus
from privcontrol.core import PrivacyBudget
from privcontrol.plants import ten_agent_graph

EPSILONS = (1.0, 0.1, 0.01)
COLORS = ("#0072B2", "#D55E00", "#009E73")
STEPS, TRIALS = 40, 500


def networks(family):
    """The paper's three budgets, with its noise."""
    delta = 1e-2 if family == "gaussian" else 0.0
    for epsilon in EPSILONS:
        budget = PrivacyBudget(epsilon=epsilon, delta=delta)
        yield epsilon, private_consensus(ten_agent_graph(), budget, radius=1.0, family=family, method="lenypappas")


def figure_5(values):
    """Mean errors of the agents over 500 runs, beside the network."""
    _, consensus = next(networks("gaussian"))
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", width_ratios=[1, 1.6])
    plot_network(consensus, ax=left)
    response = consensus.simulate(values, STEPS // 2, trials=TRIALS, rng=5)
    plot_trajectories(consensus, response, values, ax=right)
    return figure


def figure_of_errors(family, values):
    """Figures 6 (Gaussian) and 7 (Laplace): the paper's state readout with its bound, and the message readout."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.9), layout="constrained", sharey=True)
    for (epsilon, consensus), color in zip(networks(family), COLORS):
        response = consensus.simulate(values, STEPS, trials=TRIALS, rng=6, keep_states=False)
        for ax, readout in zip(axes, ("state", "message")):
            style = {"response": response, "bound": readout == "state", "color": color}
            plot_error(consensus, values, STEPS, readouts=(readout,), ax=ax, **style)
            ax.get_legend().remove()
        print(
            f"{family:8} epsilon {epsilon:5}: sigma {consensus.scales[0]:8.4f}, limit of the total mean-square error "
            f"{consensus.limit_mean_square_error(readout='state'):10.3f} (state), bound "
            f"{consensus.limit_error_bound():10.3f}, {consensus.limit_mean_square_error():9.4f} (message)"
        )
    axes[0].set_title("States $x_i$, the paper's readout", fontsize="medium")
    axes[1].set_title("Messages $y_i$, the same privacy", fontsize="medium")
    axes[1].set_ylabel("")
    budgets = [Line2D([], [], color=c, label=rf"$\varepsilon$ = {e:g}") for e, c in zip(EPSILONS, COLORS)]
    points = {"marker": "o", "markersize": 3, "markerfacecolor": "white", "linestyle": "none"}
    kinds = [
        Line2D([], [], color="black", label="exact"),
        Line2D([], [], color="black", label=f"{TRIALS} runs, two standard errors", **points),
        Line2D([], [], color="black", linestyle=(0, (5, 3)), linewidth=1, label="bound on the limit (Proposition 1)"),
    ]
    figure.legend(handles=budgets + kinds, loc="outside lower center", ncols=6, fontsize="small", frameon=False)
    return figure


def main(folder="."):
    graph = ten_agent_graph()
    values = nx.get_node_attributes(graph, "initial_value")
    _, consensus = next(networks("gaussian"))
    print(f"alpha = {consensus.rate:.7f}, average of the initial values = {sum(values.values()) / 10:g}")
    print(consensus.guarantee)
    figures = {
        "5": figure_5(values),
        "6": figure_of_errors("gaussian", values),
        "7": figure_of_errors("laplace", values),
    }
    for name, figure in figures.items():
        figure.savefig(Path(folder) / f"ten_agent_figure_{name}.png", dpi=150)
        plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
