"""My controller is a network in the cloud: where does the noise go?

A double integrator (position in m, velocity in m/s, force in N on 1 kg, every 0.1 s) is
brought to rest by a network with two hidden layers of tanh. Input perturbation sends
noisy measurements to the cloud; output perturbation evaluates the network where the
measurement is known, and publishes noisy forces. Both hide each single measurement to
within the radius, by itself; the trajectory as a whole they do not, since its samples
resemble each other.

Run it as ``python network_in_the_cloud.py [folder]``; the figure is written to the
folder.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from privcontrol.core import (
    ClippedNetwork,
    InputPerturbation,
    OutputPerturbation,
    PrivacyBudget,
    feedforward_lipschitz,
)

RADIUS = 0.1  # of (position / 1 m, velocity / 1 m/s), 2-norm
DELTA = 1e-5
TRIALS = 1000
HORIZON = 100
NAMES = ("input perturbation", "output perturbation", "with a loose constant")
STYLES = dict(zip(NAMES, (("#009E73", "o-"), ("#CC79A7", "D--"), ("#999999", "^-."))))


def controller(file=Path(__file__).parent / "data" / "controller.npz"):
    """The shipped network, from measurements (batch, 2) to forces (batch, 1), clipped to 5 m and 5 m/s."""
    with np.load(file) as arrays:
        weights = [arrays[f"{k}.weight"].astype(float) for k in (0, 2, 4)]
        biases = [arrays[f"{k}.bias"].astype(float) for k in (0, 2, 4)]
    return ClippedNetwork(weights, biases, low=-5, high=5, activation="tanh")


def mechanisms(network, bounds, epsilon):
    """Three ways to run the controller at this budget for each measurement, by two Lipschitz bounds [N per unit]."""
    budget, options = PrivacyBudget(epsilon=epsilon, delta=DELTA), {"radius": RADIUS}
    outputs = [
        OutputPerturbation(network, budget, lipschitz=bound, **options)
        for bound in bounds
    ]
    return dict(zip(STYLES, (InputPerturbation(network, budget, **options), *outputs)))


def simulate(control, trials=TRIALS, rng=0):
    """Positions (trials, T) in m and costs (trials,), from 2 m at rest, forces limited to 2 N."""
    rng = np.random.default_rng(rng)
    x = np.tile([2.0, 0.0], (trials, 1))
    cost = np.zeros(trials)
    positions = np.empty((trials, HORIZON))
    for t in range(HORIZON):
        u = np.clip(control(x, rng), -2, 2)[:, 0]
        positions[:, t] = x[:, 0]
        cost = cost + (x**2).sum(axis=1) + 0.5 * u**2
        x = x @ np.array([[1.0, 0.1], [0.0, 1.0]]).T + u[:, None] * np.array(
            [0.005, 0.1]
        )
    return positions, cost


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    epsilons = np.array([0.25, 0.5, 1, 2, 5, 10, 20])
    network = controller()
    bounds = [
        feedforward_lipschitz(network.weights, method=method)
        for method in ("sdp", "product")
    ]
    print(
        f"Lipschitz constant of the network: {bounds[0]:.3f} N per unit, by the product of norms {bounds[1]:.3f}"
    )
    path, public = (signal[0] for signal in simulate(lambda x, rng: network(x), 1))
    choices = [mechanisms(network, bounds, epsilon) for epsilon in epsilons]
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.9), layout="constrained")
    for name, (color, style) in STYLES.items():
        means = [simulate(choice[name])[1].mean() for choice in choices]
        left.loglog(epsilons, means, style, color=color, ms=4, label=name)
        at_two = choices[3][name]
        band = np.quantile(simulate(at_two)[0], [0.05, 0.95], axis=0)
        right.plot(0.1 * np.arange(HORIZON), band.T, style[1:], color=color, lw=1.2)
        print(
            f"{name:22s} noise {at_two.scale:.3f}, cost {means[3]:6.1f} at epsilon = 2 (public {public:.1f})"
        )
    print(
        f"one offset in all measurements would cost epsilon = {at_two.guarantee.released(HORIZON).epsilon(DELTA):.1f}"
    )
    left.axhline(public, color="black", ls=":", label="no privacy")
    right.plot(0.1 * np.arange(HORIZON), path, "k:")
    left.set(
        xlabel="ε for each measurement (radius 0.1, δ = 1e-5)",
        ylabel="Closed-loop cost, mean of 1000 runs",
    )
    left.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    right.set(
        xlabel="Time [s]", ylabel="Position [m]", title="5–95 % of 1000 runs at ε = 2"
    )
    left.grid(alpha=0.3)
    right.grid(alpha=0.3)
    figure.legend(
        *left.get_legend_handles_labels(),
        loc="outside lower center",
        ncols=4,
        frameon=False,
    )
    figure.savefig(folder / "network_in_the_cloud.png", dpi=150)
