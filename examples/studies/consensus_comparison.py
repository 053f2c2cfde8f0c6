"""How good is private consensus beside the literature?

The library's algorithm and four others on the same graph, with the same adjacency, rounds and seeds. Run it as
``python consensus_comparison.py [folder]``; it prints the numbers and writes one figure. Every algorithm is read
where it is best: the agents' states, their last messages, or the average of their states over the second half. For 60
rounds phi = 0.98 suits Mo and Murray's noise best; their own example has 0.9.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from privcontrol.consensus import (
    FreshNoise,
    HuangMitraDullerud,
    KeptNoise,
    MoMurray,
    NozariTallapragadaCortes,
    read_network,
)
from privcontrol.core import kappa_inverse
from privcontrol.plants import ten_agent_graph

ROUNDS = 60
TRIALS = 500
RADIUS = 1.0
DELTA = 1e-2
EPSILONS = np.geomspace(0.1, 10, 7)


def algorithms(network):
    """Name, algorithm, and how to draw it."""
    noise = (network, ROUNDS)
    return {
        "laplace": [
            ("fresh noise in every message", FreshNoise(*noise), ("#E69F00", "s", "-")),
            (
                "Huang et al. 2012, s = 1/2",
                HuangMitraDullerud(*noise, step=0.5),
                ("#D55E00", "^", "-"),
            ),
            (
                "Huang et al. 2012, s = 9/10",
                HuangMitraDullerud(*noise, step=0.9),
                ("#CC79A7", "v", "-"),
            ),
            (
                "Nozari et al. 2017, optimal",
                NozariTallapragadaCortes(*noise),
                ("#009E73", "D", "-"),
            ),
            (
                "one draw kept (this library)",
                KeptNoise(*noise),
                ("#0072B2", "o", (0, (4, 4))),
            ),
        ],
        "gaussian": [
            (
                "fresh noise in every message",
                FreshNoise(*noise, family="gaussian"),
                ("#E69F00", "s", "-"),
            ),
            ("Mo, Murray 2017, φ = 0.9", MoMurray(*noise), ("black", "P", "-")),
            (
                "Mo, Murray 2017, φ = 0.98",
                MoMurray(*noise, decay=0.98),
                ("0.5", "X", "-"),
            ),
            (
                "one draw kept (this library)",
                KeptNoise(*noise, family="gaussian"),
                ("#0072B2", "o", "-"),
            ),
        ],
    }


def plot_errors(ax, family, entries, values):
    """Total mean-square error at the last round against epsilon: exact lines, simulated points."""
    shifts = EPSILONS if family == "laplace" else kappa_inverse(EPSILONS, DELTA)
    for name, algorithm, (color, marker, style) in entries:
        calibrated = [algorithm.calibrated(shift, RADIUS) for shift in shifts]
        exact = [entry.mean_square_error(values) for entry in calibrated]
        readout = min(exact[0], key=exact[0].get)
        simulated = [
            entry.squared_error(values, trials=TRIALS, rng=0)[readout].mean()
            for entry in calibrated
        ]
        ax.plot(
            EPSILONS,
            [error[readout] for error in exact],
            color=color,
            linestyle=style,
            linewidth=1.3,
        )
        ax.plot(
            EPSILONS,
            simulated,
            color=color,
            marker=marker,
            markersize=4,
            linestyle="none",
        )
        ax.plot(
            [],
            [],
            color=color,
            marker=marker,
            markersize=4,
            linewidth=1.3,
            label=f"{name} [{readout}]",
        )
        one = algorithm.calibrated(1.0, RADIUS)
        print(
            f"{family:8} {name:30} best readout {readout:8} error at a loss of 1: "
            f"{one.mean_square_error(values)[readout]:10.3f}, noise {one.scale:.4g}"
        )
    title = (
        r"Laplace, $\delta$ = 0"
        if family == "laplace"
        else rf"Gaussian, $\delta$ = {DELTA:g}"
    )
    ax.set(xscale="log", yscale="log", xlabel=r"$\varepsilon$ of all messages")
    ax.set_title(title, fontsize="medium")
    ax.legend(fontsize="x-small", frameon=False, loc="upper right")


def plot_rounds(ax, groups):
    """Privacy loss of t rounds over that of the first message, at a fixed size of the noise."""
    rounds = np.arange(1, ROUNDS + 1)
    for family, norm, style in (("laplace", 1, "-"), ("gaussian", 2, (0, (5, 2)))):
        for name, algorithm, (color, _, _) in groups[family]:
            loss = [np.linalg.norm(algorithm.shifts[:t], norm) for t in rounds]
            if (
                "Nozari" in name
                or "9/10" in name
                or (family == "gaussian" and "kept" in name)
            ):
                continue  # on or near another line
            label = name.replace("kept (this library)", "kept, and Nozari et al.")
            label += "" if "kept" in name else f", {family.capitalize()}"
            ax.plot(
                rounds, loss, color=color, linestyle=style, linewidth=1.3, label=label
            )
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="Rounds",
        ylabel="Loss of all messages / loss of the first",
    )
    ax.set_title("Noise of a fixed size", fontsize="medium")
    ax.legend(fontsize="x-small", frameon=False)


def main(folder="."):
    graph = ten_agent_graph()
    network = read_network(graph)
    values = dict(graph.nodes(data="initial_value"))
    groups = algorithms(network)
    figure, axes = plt.subplots(1, 3, figsize=(12.5, 4), layout="constrained")
    for ax, (family, entries) in zip(axes, groups.items()):
        plot_errors(ax, family, entries, values)
    axes[0].set_ylabel(f"Total mean-square error after {ROUNDS} rounds")
    axes[1].sharey(axes[0])
    plot_rounds(axes[2], groups)
    leak = MoMurray(network, ROUNDS)
    print(
        f"Mo, Murray: an eavesdropper of all links knows x(0) to {1 / np.linalg.norm(leak.shifts):.2g} noise "
        f"deviations after {ROUNDS} rounds: no differential privacy without a limit on the rounds"
    )
    figure.savefig(Path(folder) / "consensus_comparison.png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
