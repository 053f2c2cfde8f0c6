"""Where do drones meet that hide where they started?

Eight drones in the plane agree on the centre of their formation, and fly to their
places around it. Where each one started, within 10 m, stays hidden from all who hear the radio. Neighbours share noise that cancels, so the centre is off by as much as a
trusted curator's would be; with independent noise it is off by three times as much. Run
it as ``python formation.py [folder]``; the figure is written to the folder.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import privcontrol as pc

DRONES = 8
BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
ANGLES = 2 * np.pi * np.arange(DRONES) / DRONES
OFFSETS = 60.0 * np.column_stack([np.cos(ANGLES), np.sin(ANGLES)])
STEPS = 20


def teams(graph):
    """Independent noise, and noise that neighbours share."""
    request = {"weights": "metropolis", "dimension": 2}
    alone = pc.private_consensus(graph, BUDGET, 10.0, **request)
    shared = pc.private_consensus(
        graph, BUDGET, 10.0, pairwise_std="auto", coalition=0, **request
    )
    return {"independent noise": alone, "noise that cancels": shared}


def main(folder="."):
    graph = nx.circulant_graph(DRONES, [1, 2])
    start = np.random.default_rng(4).uniform([250, 150], [550, 450], (DRONES, 2))
    drawing, axes = plt.subplots(1, 2, figsize=(9.5, 4.4), layout="constrained")
    styles = (("#CC79A7", "--"), ("#009E73", "-"))
    for (name, team), (color, line) in zip(teams(graph).items(), styles):
        # agreed positions of the centre: what each drone thinks, less its own place
        response = team.simulate(start - OFFSETS, STEPS, trials=200, rng=0)
        centres = response.outputs[:2, :, -1].T
        exact = np.sqrt(team.limit_mean_square_error() / DRONES)
        axes[0].plot(*centres.T, ".", color=color, ms=4, label=f"centre, {name}")
        rms = np.sqrt(team.mean_square_error(start - OFFSETS, STEPS) / DRONES)
        axes[1].plot(rms, color=color, ls=line, label=name)
        axes[1].axhline(exact, color=color, ls=":", lw=1)
        axes[1].text(20, 1.05 * exact, "its limit", color=color, ha="right")
        print(f"{name:20} {exact:6.2f} m rms, {team.guarantee.gdp:.4f}-GDP")
    places = start.mean(axis=0) + OFFSETS
    axes[0].plot(*start.T, "k^", ms=6, label="start, secret")
    axes[0].plot(
        *places.T, "o", color="0.6", mfc="none", label="place, if all were published"
    )
    for first, last in zip(start, places):
        axes[0].plot(*np.transpose([first, last]), color="0.85", lw=0.8, zorder=0)
    axes[0].set(xlabel="East [m]", ylabel="North [m]", aspect="equal")
    axes[1].set(xlabel="Step", ylabel="rms error of the centre [m]", yscale="log")
    axes[1].set_xticks(range(0, 21, 5))
    for ax in axes:
        ax.legend(frameon=False, fontsize="small")
    drawing.savefig(Path(folder) / "formation.png", dpi=150)
    plt.close(drawing)


if __name__ == "__main__":
    main(*sys.argv[1:])
