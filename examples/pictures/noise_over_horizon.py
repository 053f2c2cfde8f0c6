"""Noise against horizon, next to the signal.

How much noise hides one visit to a room, or one use of a tank that leaks and of one that
does not, over runs of 10 to 160 samples and, where the plant allows it, over a run of any
length. The dotted line is what the loop moves by itself: noise above it hides the secret
and the signal with it. A secret whose effect decays costs the same at every horizon; one that
it keeps needs noise that grows with the run.

Run it as ``python noise_over_horizon.py [folder]``; the figure is written to the folder.
"""

import sys
from pathlib import Path

import control as ct
import matplotlib.pyplot as plt
import numpy as np

import privcontrol as pc

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
HORIZONS = (10, 20, 40, 80, 160)


def room():
    """One stay of one person in a room, for at most an hour."""
    plant = ct.ss([[-3.1, 2.7], [0.18, -0.19]], [[1.7, 0.17], [0, 0]], [[1, 0]], 0,
                  inputs=["heat", "people"]).sample(0.25)  # fmt: skip
    lqg = {"Q": np.diag([1, 0]), "R": 0.02, "QN": np.diag([1e-2, 1e-4]), "RN": 1e-2}
    return plant, lqg | {"controls": ["heat"]}, "people", 1, "K"


def tank():
    """One use of 30 l within an hour from a tank that leaks a little."""
    plant = ct.ss([[-0.05]], [[1, -1]], 1, 0, inputs=["pump", "use"]).sample(0.25)
    lqg = {"Q": 1, "R": 1, "QN": 25, "RN": 4, "controls": ["pump"]}
    return plant, lqg, "use", 30, "l"


def store():
    """The same use from a tank that keeps every litre: its level is a sum of all uses."""
    plant = ct.ss(1, [[0.25, -0.25]], 1, 0, 0.25, inputs=["pump", "use"])
    lqg = {"Q": 1, "R": 1, "QN": 25, "RN": 4, "controls": ["pump"]}
    return plant, lqg, "use", 30, "l"


CASES = {
    "room, one visit": room,
    "leaking tank, one use": tank,
    "tight tank, one use": store,
}


def main(folder="."):
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
    for ax, (name, case) in zip(axes, CASES.items()):
        plant, lqg, signal, size, unit = case()
        secret = pc.DisturbanceAdjacency({signal: size}, duration=4)
        asked = {"budget": BUDGET, "adjacency": secret, "models": "exact"}
        public = pc.private_lqg(plant, **lqg)
        sizes = [
            pc.design_output_noise(plant, horizon=horizon, **asked).std.max()
            for horizon in HORIZONS
        ]
        ax.semilogx(HORIZONS, sizes, "o-", color="#D55E00", label="published noise")
        try:
            endless = pc.design_output_noise(plant, horizon=np.inf, **asked).std.max()
            ax.plot(400, endless, "D", color="#D55E00", label="published, any length")
        except ValueError as refusal:  # the tank keeps every use
            endless = np.inf
            print(f"{name}, any length: refused: {str(refusal)[:90]}...")
        pulse = np.zeros((2, 60))
        pulse[1, :4] = size
        shown = ct.forced_response(plant, U=pulse, squeeze=False).outputs
        own = np.sqrt(public.steady_state_error()[0])
        ax.axhline(own, color="black", ls=":", label="the loop's own std")
        ax.axhline(abs(shown).max(), color="black", label="the secret's effect")
        print(f"{name}: noise {sizes[0]:.3g} to {sizes[-1]:.3g}, without end "
              f"{endless:.3g}; own {own:.3g} {unit}")  # fmt: skip
        ax.set(
            title=name,
            xlabel="Horizon [samples]",
            ylabel=f"Std [{unit}]",
            ylim=(0, None),
        )
        ax.set_xticks([10, 40, 160, 400], ["10", "40", "160", "any"])
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
    entries = axes[0].get_legend_handles_labels()
    figure.legend(*entries, loc="outside lower center", ncols=4, frameon=False,
                  fontsize="small")  # fmt: skip
    figure.savefig(Path(folder) / "noise_over_horizon.png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
