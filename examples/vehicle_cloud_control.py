"""How much does it cost a vehicle to hide its position from the cloud that drives it?

The vehicle, gains and reference of DPAM section 5.3: the paper's Figures 2 and 3, with the paper's calibration rule
beside the exact one; then the same in the user's own way for a plant with 6 states, 2 inputs and 2 outputs.

Run it as ``python vehicle_cloud_control.py [folder]``; the figures are written to the folder.
"""

import sys
from pathlib import Path

import control as ct
import matplotlib.pyplot as plt
import numpy as np

import privcontrol as pc

HORIZON, DELTA = 100, 1e-2
K, L = [[3.4240, 4.3095]], [[0.8266], [0.6973]]
STEPS = np.arange(HORIZON)
REFERENCE = np.array([np.tanh(STEPS), 1 - np.abs(np.tanh(STEPS - 9))])
START = [-20.0, 0.0]
POSITION = pc.StateAdjacency({"position": 1.0})


def private_vehicle(epsilon, **design):
    """The paper's loop with noise for a budget (epsilon, 1e-2)."""
    budget = pc.PrivacyBudget(epsilon=epsilon, delta=DELTA)
    vehicle = pc.plants.vehicle()
    noise = pc.design_output_noise(vehicle, horizon=HORIZON, budget=budget, adjacency=POSITION, **design)
    return pc.private_loop(vehicle, K, L, noise)


def tracking_errors(folder):
    """Figure 2: tracking errors over time, and their mean square: 500 trials beside the exact curve."""
    loop = private_vehicle(1.0)
    response = loop.simulate(reference=REFERENCE, initial_state=START, trials=500, rng=0)
    exact = loop.mean_square_error(reference=REFERENCE, initial_state=START)
    figure, axes = plt.subplots(2, 2, sharex=True, figsize=(8, 4.6), layout="constrained")
    for i, (unit, square) in enumerate((("m", "m²"), ("m/s", "m²/s²"))):
        error = response.states[i] - REFERENCE[i]
        spread = (error**2).std(axis=0) / np.sqrt(len(error))
        left, right = axes[i]
        left.fill_between(
            response.time, *np.quantile(error, [0.05, 0.95], axis=0), alpha=0.25, label="5-95 % of 500 trials"
        )
        left.plot(response.time, error[:3].T, color="C0", lw=0.7)
        left.set_ylabel(f"{response.state_labels[i]} error [{unit}]")
        low, high = np.maximum((error**2).mean(axis=0) + np.outer([-3, 3], spread), 1e-6)
        right.fill_between(response.time, low, high, color="C0", alpha=0.4, label="500 trials, ± 3 standard errors")
        right.semilogy(response.time, exact[i], "k", lw=1, label="exact")
        right.set(ylabel=f"mean square [{square}]", ylim=(1e-4 if i else 0.5, 1e3))
    for axis in axes.flat:
        axis.grid(alpha=0.3)
    for axis in axes[0]:
        axis.legend(fontsize=8)
    for axis in axes[1]:
        axis.set_xlabel("Time [s]")
    figure.savefig(folder / "vehicle_tracking_errors.png", dpi=150)
    print(loop.guarantee)


def error_against_epsilon(folder):
    """Figure 3: mean-square error at the last sample against epsilon, by noise shape and by calibration rule."""
    epsilons = np.logspace(-1, 1, 25)
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    for family, color in (("gaussian", "C0"), ("iid-gaussian", "C1")):
        for method, line in (("lenypappas", "--"), ("analytic", "-")):
            loops = [private_vehicle(epsilon, family=family, method=method) for epsilon in epsilons]
            errors = [loop.mean_square_error(reference=REFERENCE, initial_state=START)[:, -1] for loop in loops]
            shape = "structured" if family == "gaussian" else "i.i.d."
            rule = "exact rule" if method == "analytic" else "paper's rule"
            for axis, error in zip(axes, np.transpose(errors)):
                axis.loglog(epsilons, error, line, color=color, label=f"{shape}, {rule}")
    for axis, name, unit in zip(axes, ("position", "velocity"), ("m²", "m²/s²")):
        axis.set(xlabel="privacy loss ε (δ = 0.01)", ylabel=f"mean-square {name} error [{unit}]")
        axis.grid(alpha=0.3, which="both")
    axes[0].legend(fontsize=8)
    figure.savefig(folder / "vehicle_error_against_epsilon.png", dpi=150)
    for method in ("lenypappas", "analytic"):
        errors = [private_vehicle(1.0, family=f, method=method) for f in ("gaussian", "iid-gaussian")]
        errors = [loop.mean_square_error(reference=REFERENCE, initial_state=START)[:, -1] for loop in errors]
        print(f"epsilon = 1, {method}: mean-square error at t = 99, (position, velocity):")
        print(f"  structured ({errors[0][0]:.4g}, {errors[0][1]:.3g}), i.i.d. ({errors[1][0]:.4g}, {errors[1][1]:.3g})")


def own_plant(folder):
    """Three carts on springs, forces on the outer two, their positions measured; the middle cart is private."""
    stiffness, damping = np.array([[-2.0, 1, 0], [1, -2, 1], [0, 1, -2]]), -0.3 * np.eye(3)
    continuous = ct.ss(
        np.block([[np.zeros((3, 3)), np.eye(3)], [stiffness, damping]]),
        np.vstack([np.zeros((3, 2)), [[1, 0], [0, 0], [0, 1]]]),
        [[1, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]],
        np.zeros((2, 2)),
        states=["q1", "q2", "q3", "v1", "v2", "v3"],
        inputs=["f1", "f3"],
        outputs=["y1", "y3"],
        name="carts",
    )
    sampled = continuous.sample(0.1)
    plant = ct.ss(sampled, states=continuous.state_labels, inputs=["f1", "f3"], outputs=["y1", "y3"], name="carts")
    Q, R, QN, RN = np.eye(6), 0.1 * np.eye(2), 1e-4 * np.eye(6), 1e-3 * np.eye(2)
    gain, observer = ct.dlqr(plant, Q, R)[0], ct.dlqe(plant.A, np.eye(6), plant.C, QN, RN)[0]
    public = pc.private_loop(plant, gain, observer, Q=Q, R=R, QN=QN, RN=RN)
    noise = pc.design_output_noise(
        plant,
        horizon=60,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-3),
        adjacency=pc.StateAdjacency({"q2": 0.1}, times=range(10)),
        weight=public,
    )
    loop = public.with_noise(noise)
    response = loop.simulate(
        reference=[0.5, 0.5, 0.5, 0, 0, 0],
        feedforward=[0.5, 0.5],  # what the springs need at the reference
        initial_state=[1, 0, -1, 0, 0, 0],
        disturbance="design",
        measurement_noise="design",
        trials=500,
        rng=0,
    )
    response.band_plot(["q1", "q2", "q3"])
    plt.gcf().savefig(folder / "carts_private_loop.png", dpi=150)
    print(loop.guarantee)
    print("largest closed-loop pole:", np.abs(loop.closed_loop.poles()).max().round(4))


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    tracking_errors(folder)
    error_against_epsilon(folder)
    own_plant(folder)
