"""Does an MPC keep its constraints behind the gate?

A cart in a hall drives to a place that it cannot reach: as near to the shelf and to the
ramp as they may come. Its position is secret, and the MPC in the cloud reads it with
nearly a metre of noise. What a public prior of the start leaves of that noise is known,
and so are margins: distances that the truth keeps from the prediction during the whole
run, but for 1 % of all runs. Run it as ``python mpc_behind_the_gate.py [folder]
[trials]``; the figure is written to the folder.
"""

import sys
from pathlib import Path

import control as ct
import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import privcontrol as pc

STEP, HORIZON, AHEAD = (
    0.5,
    40,
    10,
)  # seconds, samples of a run, samples that are planned
WALLS = np.array([[1.0, 0.0], [0.6, 0.8]])  # what the cart keeps below LIMITS [m]
LIMITS = np.array([8.0, 7.0])
GOAL, START = np.array([9.0, 5.0]), np.zeros(2)
PROBABILITY = 0.01

cart = ct.ss(np.eye(2), STEP * np.eye(2), np.eye(2), 0, STEP, states=["east", "north"],
             inputs=["v_east", "v_north"], outputs=["y_east", "y_north"])  # fmt: skip
noise = pc.design_output_noise(
    cart,
    horizon=HORIZON,
    budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
    adjacency=pc.StateAdjacency(0.5),
    models="exact",
)
KNOWN = {"P0": 0.3**2, "initial_state": START, "QN": 0.01**2, "RN": 0.02**2}


class Planner:
    """An MPC: parametrised once, solved by Clarabel at every sample."""

    def __init__(self, margins):
        self.margins = margins  # (walls, T)
        self.now = cp.Parameter(2)
        self.below = cp.Parameter((len(WALLS), AHEAD))
        self.path, self.speed = cp.Variable((2, AHEAD)), cp.Variable((2, AHEAD))
        before = cp.hstack([cp.reshape(self.now, (2, 1), order="F"), self.path[:, :-1]])
        away = self.path - GOAL[:, None]
        self.problem = cp.Problem(
            cp.Minimize(cp.sum_squares(away) + 0.5 * cp.sum_squares(self.speed)),
            [
                self.path == before + STEP * self.speed,
                WALLS @ self.path <= self.below,
                cp.abs(self.speed) <= 1.5,
            ],
        )

    def __call__(self, t, yhat, estimate, reference):
        # where it will be at the samples to come, of which the last is kept
        ahead = round(t / STEP) + 1 + np.arange(AHEAD)
        kept = self.margins[:, np.minimum(ahead, HORIZON - 1)]
        self.now.value, self.below.value = estimate, LIMITS[:, None] - kept
        self.problem.solve(solver=cp.CLARABEL)
        return self.speed.value[:, 0]


def loop_with(margins):
    return pc.private_loop(cart, controller=Planner(margins), noise=noise, **KNOWN)


none = np.zeros((len(WALLS), HORIZON))
each = PROBABILITY / len(WALLS)
STYLES = {True: ("#CC79A7", "--", "hits a wall"), False: ("#009E73", "-", "hits none")}
margins = np.array([loop_with(none).margins(d, probability=each) for d in WALLS])
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
trials = int(sys.argv[2]) if len(sys.argv) > 2 else 30

figure, axes = plt.subplots(1, 2, figsize=(7.6, 3.4), layout="constrained", sharey=True)
for ax, (name, used) in zip(
    axes, {"estimate as truth": none, "margins": margins}.items()
):
    response = loop_with(used).simulate(
        initial_state="design", disturbance="design", measurement_noise="design",
        trials=trials, rng=0)  # fmt: skip
    east, north = response.states[:2]
    beyond = np.einsum("wi,ikt->kwt", WALLS, response.states[:2]) - LIMITS[:, None]
    hits = (beyond > 0).any(axis=(1, 2))
    print(f"{name}: {hits.sum()} of {trials} runs hit a wall")
    for k in range(min(trials, 30)):
        color, line, label = STYLES[hits[k]]
        ax.plot(east[k], north[k], line, color=color, linewidth=0.8, label=label)
    ax.axvspan(LIMITS[0], 11, color="0.85")
    across = np.array([-2.0, 11.0])
    ramp = (LIMITS[1] - WALLS[1, 0] * across) / WALLS[1, 1]
    ax.fill_between(across, ramp, 12, color="0.85")
    ax.plot(*GOAL, "k+", markersize=9)
    for place, word in {
        (8.6, 1.0): "shelf",
        (4.6, 6.0): "ramp",
        (8.7, 5.3): "goal",
    }.items():
        ax.text(*place, word, color="0.3")
    ax.set(title=f"{name}: {hits.mean():.0%} hit", xlabel="east [m]", xlim=(-1.5, 10),
           ylim=(-1.5, 7), aspect="equal")  # fmt: skip
axes[0].set_ylabel("north [m]")
entries = dict(zip(*axes[0].get_legend_handles_labels()[::-1]))
axes[0].legend(entries.values(), entries.keys(), fontsize="small", frameon=False)
print(
    f"margins {margins[:, 1].round(2)} m after a sample, {margins[:, -1].round(2)} m at the end"
)
print(loop_with(margins).guarantee)
figure.savefig(folder / "mpc_behind_the_gate.png", dpi=150)
