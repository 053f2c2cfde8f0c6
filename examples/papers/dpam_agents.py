"""The ten private agents of DPAM section 6.3.

Figures 5, 6 and 7 share them. The paper reads the states x_i and calibrates by a
sufficient bound; next to it stand the messages y_i, which are public already, with
Gaussian noise calibrated by eq. (7) itself.
"""

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D

from privcontrol.consensus import plot_error, private_consensus
from privcontrol.core import PrivacyBudget, gaussian_std
from privcontrol.plants import ten_agent_graph, ten_agent_values

EPSILONS = (1.0, 0.1, 0.01)
COLORS = ("#009E73", "#CC79A7", "#E69F00")
STEPS = 30
TRIALS = 500
READINGS = {
    "state": ("lenypappas", "reading the states $x_i$"),
    "message": ("analytic", "reading the messages $y_i$"),
}


def agents(epsilon, method, family="gaussian"):
    """The network with noise for the paper's budget and radius 1."""
    budget = PrivacyBudget(epsilon=epsilon)
    if family == "gaussian":
        budget = PrivacyBudget(gdp=1 / gaussian_std(epsilon, 1e-2, method=method))
    return private_consensus(ten_agent_graph(), budget, radius=1.0, family=family)


def error_figure(family):
    """Total mean-square errors over the steps for the three budgets: first the paper's panel with its bounds."""
    values = ten_agent_values()
    figure, axes = plt.subplots(
        1, 2, figsize=(9, 4.2), layout="constrained", sharey=True
    )
    for axis, (readout, (method, title)) in zip(axes, READINGS.items()):
        for epsilon, color in zip(EPSILONS, COLORS):
            network = agents(epsilon, method, family)
            response = network.simulate(
                values, STEPS, trials=TRIALS, rng=6, keep_states=False
            )
            style = {
                "response": response,
                "color": color,
                "ax": axis,
            }
            plot_error(network, values, STEPS, readouts=(readout,), **style)
            limit = network.limit_mean_square_error(readout=readout)
            line = f"{readout:8s} epsilon {epsilon:5g}: sigma {network.scales[0]:8.4f}"
            line += f", limit {limit:11.4f}"
            if readout == "state":
                bound = network.noise.variance.sum()
                line += f", bound of Proposition 1 {bound:11.4f}"
            print(line)
            label = {"color": color, "ha": "right", "va": "top", "fontsize": "small"}
            axis.text(STEPS - 0.5, 0.8 * limit, f"ε = {epsilon:g}", **label)
        axis.set_ylim(bottom=1)
        axis.get_legend().remove()
        axis.set(
            title=title,
            ylabel=r"E$\|\mathbf{x}(t) - \mathbf{1}\bar x\|^2$"
            if readout == "state"
            else "",
        )
        axis.set_xticks(range(0, STEPS + 1, 10))
        axis.grid(alpha=0.3)
    axes[1].set_ylabel(r"E$\|\mathbf{y}(t) - \mathbf{1}\bar x\|^2$")
    figure.legend(
        handles=_legend(),
        loc="outside lower center",
        ncols=3,
        fontsize="small",
        frameon=False,
    )
    return figure


def _legend():
    budgets = [
        Line2D([], [], color=c, label=f"ε = {e:g}") for e, c in zip(EPSILONS, COLORS)
    ]
    points = {
        "marker": "o",
        "markersize": 3,
        "markerfacecolor": "white",
        "linestyle": "none",
    }
    kinds = [
        Line2D([], [], color="black", label="exact"),
        Line2D(
            [], [], color="black", label=f"{TRIALS} runs, two standard errors", **points
        ),
        Line2D(
            [],
            [],
            color="black",
            linestyle=":",
            linewidth=1,
            label="bound of Proposition 1",
        ),
    ]
    return [handle for pair in zip(budgets, kinds) for handle in pair]
