"""An LQG autopilot of a vectored-thrust aircraft, made private by a few lines.

The aircraft is python-control's own example (Astrom and Murray, Feedback Systems, section 7.3): six states, two
thrusters, its position and attitude are measured and sent to a ground station that flies it. The lines that end in
``# +`` are all that privacy adds to the script. Two figures follow: what privacy costs, and over which horizon it can
be had.

Run it as ``python aircraft_private_lqg.py [folder]``; the figures are written to the folder.
"""

import sys
import warnings
from pathlib import Path

import control as ct
import matplotlib.pyplot as plt
import numpy as np

import privcontrol as pc  # +

DT, SAMPLES = 0.05, 160
STATES = ["x", "y", "theta", "vx", "vy", "omega"]


def aircraft(m=4.0, J=0.0475, r=0.25, g=9.8, c=0.05):
    """The aircraft in hover: states in m, rad and per second; inputs lateral and vertical thrust in N."""
    A = np.zeros((6, 6))
    A[:3, 3:] = np.eye(3)
    A[3, 2:4], A[4, 4] = (-g, -c / m), -c / m
    B = np.zeros((6, 2))
    B[3, 0], B[4, 1], B[5, 0] = 1 / m, 1 / m, r / J
    hover = ct.ss(A, B, np.eye(3, 6), np.zeros((3, 2))).sample(DT)
    names = {"states": STATES, "inputs": ["F1", "F2"], "outputs": ["mx", "my", "mtheta"], "name": "aircraft"}
    return ct.ss(hover.A, hover.B, hover.C, hover.D, DT, **names)


Q, R = np.diag([1.0, 1.0, 20.0, 1.0, 1.0, 0.5]), 0.1 * np.eye(2)
QN, RN = np.diag([1e-8, 1e-8, 1e-8, 1e-4, 1e-4, 1e-4]), np.diag([1e-3, 1e-3, 1e-4])
GOAL, START = np.array([4.0, 1.0, 0, 0, 0, 0]), np.array([-1.0, 0.5, 0, 0, 0, 0])
SECRET = pc.StateAdjacency({"x": 0.5, "y": 0.5, "vx": 0.05, "vy": 0.05}, times=range(20))
BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-3)


def script(plant):
    """The LQG script: gains, loop, simulation. Without its marked lines it is a plain python-control script."""
    K, _, _ = ct.dlqr(plant, Q, R)
    L, _, _ = ct.dlqe(plant.A, np.eye(6), plant.C, QN, RN)
    loop = pc.private_loop(plant, K, L, Q=Q, R=R, QN=QN, RN=RN)  # +
    request = {"horizon": SAMPLES, "budget": BUDGET, "adjacency": SECRET}  # +
    noise = pc.design_output_noise(plant, **request, weight=loop)  # +
    loop = loop.with_noise(noise)  # +
    drawn = {"disturbance": "design", "measurement_noise": "design"}
    return loop, loop.simulate(reference=GOAL, initial_state=START, **drawn, trials=500, rng=0)  # +


def public_run(plant, loop):
    """The flight without privacy noise, by python-control alone."""
    public = loop.with_noise(None).closed_loop
    inputs = np.zeros((public.ninputs, SAMPLES))
    inputs[:6] = GOAL[:, None]
    return ct.forced_response(public, loop.noise.timepts, inputs, np.concatenate([START, np.zeros(6)]))


def flight_figure(folder, plant):
    """The private flights beside the public one, and what the ground station sees."""
    loop, response = script(plant)
    public = public_run(plant, loop)
    figure, axes = plt.subplots(2, 2, sharex=True, figsize=(8, 4.6), layout="constrained")
    for row, (state, output, unit) in enumerate((("x", "yhat[0]", "m"), ("y", "yhat[1]", "m"))):
        for axis, traces, title in (
            (axes[row, 0], response.states[state], f"{state} [{unit}]"),
            (axes[row, 1], response.outputs[output], f"published {state} [{unit}]"),
        ):
            axis.fill_between(response.time, *np.quantile(traces, [0.05, 0.95], axis=0), alpha=0.25, lw=0,
                              label="5\N{EN DASH}95 % of 500 private flights")  # fmt: skip
            axis.plot(response.time, traces[:4].T, "C0", lw=0.7)
            axis.plot(public.time, public.states[row], "k--", lw=1.2, label="without privacy")
            axis.axhline(GOAL[row], color="0.5", lw=0.7)
            axis.set_ylabel(title)
            axis.margins(x=0)
            axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("Time [s]")
    axes[0, 0].set_title("what the aircraft does")
    axes[0, 1].set_title("what the ground station sees")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(folder / "aircraft_flights.png", dpi=150)
    print(loop.guarantee)
    cost = loop.cost(reference=GOAL, initial_state=START, disturbance="design", measurement_noise="design")
    print(f"cost {cost.total:.4g}: regulation {cost.regulation:.4g}, disturbance {cost.disturbance:.3g}, "
          f"privacy {cost.privacy:.4g}")  # fmt: skip


def tradeoff_figure(folder, plant, epsilons=12):
    """Cost against epsilon for structured, loop-optimal and independent noise, over the same horizon."""
    result = pc.tradeoff(
        plant, Q, R, QN, RN, horizon=SAMPLES, adjacency=SECRET, delta=BUDGET.delta,
        epsilons=np.logspace(-1, 1, epsilons), reference=GOAL, initial_state=START,
    )  # fmt: skip
    plot = result.plot()
    plot.figure.savefig(folder / "aircraft_tradeoff.png", dpi=150)
    nearest = np.abs(result.epsilons - 1).argmin()
    for design in result.costs:
        print(f"epsilon {result.epsilons[nearest]:.3g}, {design}: cost {result.total(design)[nearest]:.4g}")


def horizon_figure(folder, plant):
    """Noise that hides each secret, against the horizon, mode by mode."""
    horizons = np.unique(np.logspace(0.5, 3, 26).astype(int))
    secrets = [
        ("where it is: x or y by 1 m", pc.StateAdjacency({"x": 1.0, "y": 1.0})),
        ("how it moves: vx or vy by 0.2 m/s", pc.StateAdjacency({"vx": 0.2, "vy": 0.2})),
        ("how it tilts: theta by 0.01 rad", pc.StateAdjacency({"theta": 0.01})),
    ]
    figure, axes = plt.subplots(1, 3, sharey=True, figsize=(11, 3.8), layout="constrained")
    for axis, (title, secret) in zip(axes, secrets):
        growth = pc.horizon_growth(plant, secret, horizons)
        growth.plot(axis)
        axis.set_title(title, fontsize="medium")
        for sentence in growth.explanations:
            print(f"{title}: {sentence}")
    for axis in axes[1:]:
        axis.set_ylabel("")
    figure.savefig(folder / "aircraft_horizon.png", dpi=150)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    warnings.simplefilter("default", pc.PrivacyWarning)
    vtol = aircraft()
    flight_figure(folder, vtol)
    tradeoff_figure(folder, vtol)
    horizon_figure(folder, vtol)
