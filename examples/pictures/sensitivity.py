"""Sensitivity with and without privacy.

What the noise of the gate does to a loop, by frequency. On the left the sensitivity S,
from a disturbance at the output to the output: the gate adds a signal to the loop and no
dynamics, so S changes only by the filter that is designed for the noise. On the right the
amplitude spectra at the output of the room: its own noise, and what the gate adds through
the complementary sensitivity T, for a visit of up to three hours that is hidden in a run
of any length.

Run it as ``python sensitivity.py [folder]``; the figure is written to the folder.
"""

import sys
from pathlib import Path

import control as ct
import matplotlib.pyplot as plt
import numpy as np

import privcontrol as pc

TRUE, PUBLISHED = "black", "#D55E00"
room = ct.ss(
    [[-3.1, 2.7], [0.18, -0.19]],
    [[1.7, 0.17], [0, 0]],
    [[1, 0]],
    0,
    states=["air", "walls"],
    inputs=["heat", "people"],
    outputs=["T"],
).sample(0.25)
lqg = {"Q": np.diag([1, 0]), "R": 0.02, "QN": np.diag([1e-2, 1e-4]), "RN": 1e-3}
public = pc.private_lqg(room, **lqg, controls=["heat"])
noise = pc.design_output_noise(
    room,
    horizon=np.inf,
    budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
    adjacency=pc.DisturbanceAdjacency({"people": 1}, duration=12, shape="any"),
    models="exact",
)
private = public.with_noise(noise)


def main(folder="."):
    angles = np.geomspace(2e-3, np.pi, 400)  # radians a sample
    frequencies = angles / (2 * np.pi * room.dt)  # cycles an hour
    points = np.exp(1j * angles)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    plant = np.array([room(point)[0, 0] for point in points])
    for loop, style, label in ((public, "--", "public"), (private, "-", "private")):
        control = loop.controller
        law = control[control.output_labels.index("heat"), 0]
        open_loop = -plant * np.array([law(point) for point in points])
        S, T = 1 / (1 + open_loop), open_loop / (1 + open_loop)
        left.loglog(frequencies, abs(S), style, color="#009E73", label=f"S, {label}")
        left.loglog(frequencies, abs(T), style, color="#CC79A7", label=f"T, {label}")
        print(f"{label}: peak of S {abs(S).max():.3f}, of T {abs(T).max():.3f}")
    gamma = np.array([np.linalg.norm(noise.system(point)) for point in points])
    right.loglog(frequencies, gamma, color=PUBLISHED, label="published noise")
    felt = abs(T) * gamma
    right.loglog(frequencies, felt, color=TRUE, label="what the room feels of it")
    shown = np.array([room(point)[0, 1] for point in points])
    stay = abs(np.exp(-1j * np.outer(angles, np.arange(12))).sum(axis=1))
    right.loglog(frequencies, abs(shown) * stay, "k:", label="one visit of 3 h")
    left.set(ylabel="Magnitude", ylim=(0.01, 3))
    right.set(ylabel="Amplitude spectrum [K]", ylim=(3e-3, 5))
    for ax in (left, right):
        ax.set_xlabel("Frequency [1/h]")
        ax.grid(alpha=0.3)
        ax.legend(frameon=False, fontsize="small", loc="lower center")
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(folder) / "sensitivity.png", dpi=150)
    plt.close(figure)
    print(private.guarantee)


if __name__ == "__main__":
    main(*sys.argv[1:])
