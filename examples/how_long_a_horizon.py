"""How long a horizon can I afford?

Three plants, and how the noise that hides their states grows with the run: "a state at
any one time" includes the last sample, and a small move there may have been a huge one
at the start. Run it as ``python how_long_a_horizon.py [folder]``; the figure is written
to the folder.
"""

import sys
import warnings
from pathlib import Path

import control as ct
import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import block_diag

import privcontrol as pc

COLORS = ("#009E73", "#999999", "#E69F00", "#CC79A7", "#56B4E9")
HORIZONS = (5, 10, 20, 50, 100, 200)
BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
STORE = ct.ss(1, 1, 1, 0, 1, states=["level"], name="store")
ROOM = ct.ss(0.9, 0.1, 1, 0, 1, states=["temperature"], name="room")

CASES = {
    "a store's level": (STORE, pc.StateAdjacency({"level": 1.0})),
    "a vehicle's position": (pc.plants.vehicle(), pc.StateAdjacency({"position": 1.0})),
    "its velocity too": (
        pc.plants.vehicle(),
        pc.StateAdjacency({"position": 1.0, "velocity": 1.0}),
    ),
    "a room's temperature": (ROOM, pc.StateAdjacency({"temperature": 1.0})),
    "the same, first 5 samples": (
        ROOM,
        pc.StateAdjacency({"temperature": 1.0}, times=range(5)),
    ),
}


def growth(folder):
    """The least noise over the horizon, and why it grows."""
    figure, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    scale = 1 / pc.core.kappa_inverse(BUDGET.epsilon, BUDGET.delta)
    for (name, (plant, adjacency)), color, marker in zip(
        CASES.items(), COLORS, "osD^v"
    ):
        result = pc.horizon_growth(plant, adjacency, HORIZONS)
        line = "--" if "position" in name else "-"
        ax.loglog(
            HORIZONS,
            scale * result.least_noise,
            line,
            color=color,
            marker=marker,
            markersize=4,
            label=name,
        )
        print(
            f"{name}: at least {scale * result.least_noise[-1]:.3g} over {HORIZONS[-1]} samples"
        )
        for reason in result.explanations:
            print("   ", reason)
    ax.set(
        xlabel="Horizon [samples]",
        ylabel="Least rms noise [unit of the output]",
        ylim=(0.3, 1e5),
    )
    ax.set_xticks(HORIZONS, HORIZONS)
    ax.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    figure.savefig(folder / "how_long_a_horizon.png", dpi=150)
    plt.close(figure)


def what_to_do():
    """Fresh noise for each half of a run costs more than one draw for all of it.

    A move of the start is another move of the middle, so the budgets of two windows do not
    add as those of two releases do. Both are one release for the whole run.
    """
    vehicle, adjacency = (
        pc.plants.vehicle(),
        pc.StateAdjacency({"position": 1.0, "velocity": 1.0}),
    )
    print("\n200 samples of the vehicle, noise rms [m]:")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pc.PrivacyWarning)
        whole = pc.design_output_noise(
            vehicle, horizon=200, budget=BUDGET, adjacency=adjacency
        )
        half = pc.design_output_noise(
            vehicle, horizon=100, budget=BUDGET, adjacency=adjacency
        )
    of_half = half.process.responses.reshape(100, -1)
    run = pc.output_query(vehicle, 200)

    def excess(size):
        both = block_diag(size * of_half, size * of_half)
        together = pc.Mechanism(run, pc.GaussianNoise(both)).guarantee(adjacency)
        return together.gdp / whole.guarantee.gdp

    size = excess(1.0)  # the shift is inversely proportional to the noise
    variances = np.sum(of_half**2, axis=1)
    print(f"  one draw for the run: {np.sqrt(np.mean(whole.stds**2)):.1f}")
    print(f"  two windows of the same budget: {size * np.sqrt(np.mean(variances)):.1f}")
    print(f"  (their shift is now {excess(size):.3f} times that of the one draw)")


if __name__ == "__main__":
    growth(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    what_to_do()
