"""Which adjacency do I need?

What each of them hides, and what it costs, for one vehicle over ten seconds. An
adjacency says which pairs of secrets must be indistinguishable. Too narrow a choice publishes
what you forgot; too wide a one drowns the loop in noise. Run it as ``python
which_adjacency.py [folder]``; the figure is written to the folder.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import privcontrol as pc

VEHICLE, HORIZON = pc.plants.vehicle(), 100
BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)

CHOICES = {
    "where it starts": pc.StateAdjacency({"position": 1.0}, times=0),
    "where it is": pc.StateAdjacency({"position": 1.0}),
    "where, and how fast at first": pc.StateAdjacency(
        {"position": 1.0, "velocity": 0.5}, times=0
    ),
    "where or how fast, at one time": pc.StateAdjacency(
        {"position": 1.0, "velocity": 0.5}
    ),
    "the first state in a ball": pc.InitialStateAdjacency(
        {"position": 1.0, "velocity": 0.5}
    ),
}


def compare():
    """One row for each choice: the noise, and what an eavesdropper is left with."""
    print(
        "secret                           noise rms [m]   what the eavesdropper's error is, at best (1 s.d.)"
    )
    noises = {}
    for name, adjacency in CHOICES.items():
        noise = pc.design_output_noise(
            VEHICLE,
            horizon=HORIZON,
            budget=BUDGET,
            adjacency=adjacency,
            models="exact",
        )
        rms = np.sqrt(np.mean([noise.covariance(t) for t in range(HORIZON)]))
        position, velocity = pc.eavesdropper(noise).std.min(axis=1)
        print(
            f"{name:32s} {rms:13.2f}   position {position:6.3f} m, velocity {velocity:.3f} m/s"
        )
        noises[name] = noise
    return noises


def definition_4():
    """DPAM Definition 4 also moves the position at one sample while it is held at the next: a velocity of 10 m/s."""
    print(
        "\nDPAM Definition 4, whose moves include 1 m between one sample and the next, with all radii 1:"
    )
    for samples in (2, 5, 10):
        query = pc.output_query(VEHICLE, samples)
        blocks, circuits = (
            query.sensitivity(a(1.0)) for a in (pc.StateAdjacency, pc.ManifoldAdjacency)
        )
        print(
            f"  {samples:2d} samples: sensitivity {circuits:7.1f} against {blocks:6.1f} of the block charts"
        )


def figure(noises, folder):
    """The size of the noise over time."""
    drawing, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    styles = (
        ("#009E73", "-"),
        ("#999999", "--"),
        ("#E69F00", "-."),
        ("#CC79A7", "-"),
        ("#56B4E9", ":"),
    )
    for (name, noise), (color, line) in zip(noises.items(), styles):
        sizes = [np.sqrt(noise.covariance(t).item()) for t in range(HORIZON)]
        ax.plot(noise.timepts, sizes, color=color, ls=line, label=name)
    ax.set(
        xlabel="Time [s]", ylabel="Standard deviation of the noise [m]", ylim=(0, None)
    )
    ax.grid(alpha=0.3)
    drawing.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    drawing.savefig(folder / "which_adjacency.png", dpi=150)
    plt.close(drawing)


if __name__ == "__main__":
    noises = compare()
    definition_4()
    figure(noises, Path(sys.argv[1] if len(sys.argv) > 1 else "."))
