"""DPAM Figure 5, mean errors of ten private agents

On the network of Figure 4: the mean of x_i - x* over 500 runs with the paper's noise,
sigma = 2.5244 for epsilon = 1 and delta = 0.01. The mean hides what a single run is off
by. So next to it stands where 90 % of the runs of agent 1 are, for the state that the
paper reads, and for the message that it could read at no loss of privacy. Run it as
``python dpam_figure_5.py [folder]``.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from dpam_agents import READINGS, TRIALS, agents

from privcontrol.consensus import plot_network
from privcontrol.plants import ten_agent_values


def draw_means(ax, network, response, values):
    """Mean errors of all agents over the runs, and (I - L)^t (x(0) - mean) over them."""
    exact = [values - values.mean()]
    for _ in response.time[1:]:
        exact.append(network.network.iteration @ exact[-1])
    for agent, error in zip(network.nodes, response.mean("states") - values.mean()):
        ax.plot(response.time, error, linewidth=1.3, label=str(agent))
    lines = ax.plot(response.time, exact, color="black", linestyle=":", linewidth=0.9)
    lines[-1].set_label("exact")
    ax.set(xlabel="Step $t$")


folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
values = ten_agent_values()
figure, (graph, left, right) = plt.subplots(
    1, 3, figsize=(11, 3.9), layout="constrained", width_ratios=(0.8, 1.4, 1)
)
for (readout, (method, title)), color in zip(READINGS.items(), ("#F2BF99", "#009E73")):
    network = agents(1.0, method)
    response = network.simulate(values, 30, trials=TRIALS, rng=5)
    if readout == "state":
        plot_network(network, ax=graph)
        draw_means(left, network, response, values)
        promised = network.guarantee
        print(promised)
        print(f"at delta = 0.01: epsilon = {promised.epsilon(0.01):.4f}")
        print(f"average {values.mean():g}, alpha = {network.rate:.7f}")
    signals = (
        np.asarray(response.states if readout == "state" else response.outputs)[0]
        - values.mean()
    )
    label = f"{title}, noise {network.scales[0]:.4f}"
    right.fill_between(
        response.time,
        *np.quantile(signals, [0.05, 0.95], axis=0),
        color=color,
        lw=0,
        label=label,
    )
    print(
        f"agent 1, {readout}: mean error {signals[:, -1].mean():+.3f}, standard deviation {signals[:, -1].std():.3f}"
    )

graph.set_title("Figure 4: the network")
left.set(
    title="Figure 5: mean errors, the paper's noise",
    ylabel=r"E$[x_i(t) - x^\star]$, 500 runs",
    xticks=range(0, 16, 5),
    xlim=(0, 15),
)
left.legend(fontsize="x-small", title="agent", ncols=4, frameon=False)
right.set(
    title="Where 90 % of 500 runs are",
    xlabel="Step $t$",
    ylabel="Error of agent 1",
)
right.set(xticks=range(0, 31, 5), xlim=(0, 30))
right.legend(fontsize="small", frameon=False)
for axis in (left, right):
    axis.grid(alpha=0.3)
figure.savefig(folder / "dpam_figure_5.png", dpi=150)
