"""How good is private consensus, compared with the literature?

The library's algorithm and four others on the same graph, with the same adjacency and
rounds, each read where it is best: the agents' states, their last messages, or the
average of their states over the second half. For 60 rounds phi = 0.98 suits Mo and
Murray's noise best; their own example has 0.9. Run it as ``python
consensus_comparison.py [folder]``; the figure is written to the folder.
"""

import sys
from dataclasses import replace
from pathlib import Path

import averaging
import huang
import matplotlib.pyplot as plt
import mo_murray
import nozari
import numpy as np
import one_draw

import privcontrol as pc

RADIUS = 1.0
DELTA = 1e-2
EPSILONS = np.geomspace(0.1, 10, 7)
PLANT = averaging.ten_agents()
FRESH = averaging.Algorithm(np.eye(PLANT.rounds + 1))

T = PLANT.rounds
LAPLACE = {
    "fresh noise in every message": (FRESH, "#999999", "-"),
    "Huang et al. 2012, s = 1/2": (huang.algorithm(T), "#CC79A7", "-"),
    "Huang et al. 2012, s = 9/10": (huang.algorithm(T, 0.9), "#56B4E9", "-"),
    "Nozari et al. 2017, optimal": (nozari.algorithm(T), "#E69F00", "-"),
    "one draw kept (this library)": (one_draw.algorithm(T), "#009E73", "--"),
}
GAUSSIAN = {
    "fresh noise in every message": (replace(FRESH, family="gaussian"), "#999999", "-"),
    "Mo, Murray 2017, φ = 0.9": (mo_murray.algorithm(T), "black", "-"),
    "Mo, Murray 2017, φ = 0.98": (mo_murray.algorithm(T, 0.98), "#56B4E9", "-"),
    "one draw kept (this library)": (
        one_draw.algorithm(T, "gaussian"),
        "#009E73",
        "--",
    ),
}


def legend_below(ax):
    """A legend in one column, where it covers no curve."""
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2)}
    ax.legend(frameon=False, fontsize="small", **place)


def plot_errors(ax, algorithms, delta):
    """Exact total mean-square error at the last round against epsilon."""
    budgets = [pc.PrivacyBudget(epsilon=epsilon, delta=delta) for epsilon in EPSILONS]
    for (name, (algorithm, color, style)), marker in zip(algorithms.items(), "osD^v"):
        errors = [algorithm.calibrated(b, RADIUS).errors(PLANT) for b in budgets]
        readout = min(errors[0], key=errors[0].get)
        curve = [error[readout] for error in errors]
        label = f"{name} [{readout}]"
        ax.plot(
            EPSILONS, curve, color=color, ls=style, marker=marker, ms=4, label=label
        )
        middle = curve[len(curve) // 2]
        print(f"delta {delta:4g}  {label:42} error at epsilon = 1: {middle:11.3f}")
    ax.set(xscale="log", yscale="log", xlabel=r"$\varepsilon$ of all messages")
    ax.set_title(rf"$\delta$ = {delta:g}", fontsize="medium")
    legend_below(ax)


def plot_rounds(ax):
    """Loss of t rounds over that of the first message, at a fixed size of the noise."""
    rounds = np.arange(1, T + 1)
    drawn = {
        "fresh, Laplace": (FRESH, 1, "#999999", "-"),
        "Huang et al., s = 1/2, Laplace": (huang.algorithm(T), 1, "#CC79A7", "-."),
        "one draw kept, and Nozari et al.": (nozari.algorithm(T), 1, "#009E73", ":"),
        "fresh, Gaussian": (FRESH, 2, "#999999", "--"),
        "Mo, Murray, φ = 0.9, Gaussian": (mo_murray.algorithm(T), 2, "black", "--"),
        "Mo, Murray, φ = 0.98, Gaussian": (
            mo_murray.algorithm(T, 0.98),
            2,
            "#56B4E9",
            "--",
        ),
    }
    for name, (algorithm, order, color, style) in drawn.items():
        loss = [np.linalg.norm(algorithm.shifts[:t], order) for t in rounds]
        ax.plot(rounds, loss, color=color, ls=style, label=name)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="Rounds",
        ylabel="Loss relative to the first round",
    )
    ax.set_title("Noise of a fixed size", fontsize="medium")
    legend_below(ax)


def main(folder="."):
    figure, axes = plt.subplots(1, 3, figsize=(10, 4.8), layout="constrained")
    plot_errors(axes[0], LAPLACE, 0.0)
    plot_errors(axes[1], GAUSSIAN, DELTA)
    axes[0].set_ylabel(f"Total mean-square error after {T} rounds")
    axes[1].sharey(axes[0])
    plot_rounds(axes[2])
    known = 1 / np.linalg.norm(mo_murray.algorithm(T).shifts)
    print(f"Mo, Murray: who sees all links knows x(0) to {known:.2g} deviations of the")
    print(f"noise after {T} rounds; without a limit on the rounds nothing is private")
    figure.savefig(Path(folder) / "consensus_comparison.png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
