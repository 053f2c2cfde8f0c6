"""What does an eavesdropper learn?

The best estimate of the secret from all that is published, in metres. A guarantee is
about pairs of secrets. This is the same promise in the units of the plant: how well
somebody who knows the model, the gains and the noise's law can place the vehicle. Run
it as ``python what_an_eavesdropper_learns.py [folder]``; the figure is written to the
folder.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import privcontrol as pc

VEHICLE, HORIZON = pc.plants.vehicle(), 100
SECRET = pc.StateAdjacency({"position": 1.0, "velocity": 0.2})
PRIOR = np.diag([10.0**2, 1.0**2])  # what is known beforehand: 10 m, 1 m/s
K, L = [[3.4240, 4.3095]], [[0.8266], [0.6973]]


def private_loop(epsilon):
    """The vehicle's loop at one privacy loss."""
    budget = pc.PrivacyBudget(epsilon=epsilon, delta=1e-2)
    noise = pc.design_output_noise(
        VEHICLE, horizon=HORIZON, budget=budget, adjacency=SECRET, models="exact"
    )
    return pc.private_loop(VEHICLE, K, L, noise)


def figure(folder):
    """Standard deviation of the error over time, for some privacy losses."""
    drawing, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    styles = {0.1: ("#009E73", "-"), 1.0: ("#CC79A7", "-."), 10.0: ("#E69F00", ":")}
    for epsilon, (color, line) in styles.items():
        loop = private_loop(epsilon)
        spy = pc.eavesdropper(loop, prior=PRIOR)
        print(f"epsilon = {epsilon:4}: {spy}")
        for ax, std in zip(axes, spy.std):
            ax.semilogy(
                loop.noise.timepts, std, line, color=color, label=f"ε = {epsilon:g}"
            )
    axes[1].set_ylim(0.05, 2)
    for ax, prior, state, unit in zip(
        axes, spy.prior_std, ("position", "velocity"), ("m", "m/s")
    ):
        ax.semilogy(loop.noise.timepts, prior, "k--", lw=1, label="without looking")
        ax.set(xlabel="Time [s]", ylabel=f"Error in {state}, 1 s.d. [{unit}]")
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter("")
        ax.grid(alpha=0.3, which="both")
    drawing.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=4,
        frameon=False,
    )
    drawing.savefig(folder / "what_an_eavesdropper_learns.png", dpi=150)
    plt.close(drawing)


def at_work(trials=2000):
    """The estimator run on trials: its errors are as large as stated, and a controller cannot change that."""
    loop = private_loop(1.0)
    spy = pc.eavesdropper(loop, prior=PRIOR)
    starts = np.random.default_rng(1).multivariate_normal([0, 0], PRIOR, size=trials)
    errors = []
    for seed, start in enumerate(starts):
        run = loop.simulate(initial_state=start, reference=[5.0, 0.0], rng=seed)
        errors.append((spy.estimate(run) - run.states[:2])[:, 0, 0])
    print(
        "errors of the estimate of the first state over",
        trials,
        "runs:",
        np.std(errors, axis=0).round(3),
    )
    print("stated:", spy.std[:, 0].round(3))


def again():
    """A second run from the same place is a second look at it."""
    guarantee = private_loop(1.0).guarantee
    for runs in (1, 2, 10):
        print(
            f"{runs:2d} runs from the same start: epsilon = {guarantee.released(runs).epsilon(1e-2):.2f}"
        )


if __name__ == "__main__":
    figure(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    at_work()
    again()
