"""A neural-network controller in somebody else's cloud: hide each measurement from it, or from whoever reads its commands?

A double integrator (position in m, velocity in m/s, force in N on 1 kg, every 0.1 s) is brought to rest by a network
with two hidden layers of tanh. Input perturbation sends noisy measurements to the cloud; output perturbation evaluates
the network where the measurement is known, and publishes noisy commands. In both cases each single measurement is
hidden to within the radius, by itself; the trajectory as a whole is not, since its samples resemble each other.

Run it as ``python neural_controller_in_the_cloud.py [folder]``; the figures are written to the folder.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from privcontrol.core import PrivacyBudget
from privcontrol.core.inference import ClippedNetwork, InputPerturbation, OutputPerturbation
from privcontrol.core.lipschitz import feedforward_lipschitz

A, B = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([0.005, 0.1])
Q, R = np.eye(2), 0.5  # cost per m^2, per (m/s)^2, and per N^2
RADIUS, DELTA = 0.1, 1e-5  # of (position / 1 m, velocity / 1 m/s), in the 2-norm
TRIALS, HORIZON = 2000, 100
EPSILONS = np.geomspace(0.25, 20, 10)
STYLES = {
    "input perturbation": ("C0", "o", "-"),
    "output perturbation, LipSDP": ("C3", "D", "-"),
    "output perturbation, product bound": ("C1", "^", "--"),
}


def controller(file=Path(__file__).parent / "data" / "controller.npz"):
    """The shipped network, from measurements (batch, 2) to forces (batch, 1), clipped to 5 m and 5 m/s."""
    with np.load(file) as arrays:
        weights, biases = ([arrays[f"{k}.{name}"].astype(float) for k in (0, 2, 4)] for name in ("weight", "bias"))
    return ClippedNetwork(weights, biases, low=-5, high=5, activation="tanh")


def constants(network):
    """Lipschitz bounds from measurement to force: by LipSDP and by the product of the layers' norms."""
    weights = network.weights
    return {
        "LipSDP": feedforward_lipschitz(weights),
        "product": feedforward_lipschitz(weights, method="product"),
    }


def steepest(network):
    """The largest slope at half a million points: no constant can be below it."""
    grid = np.stack(np.meshgrid(*[np.linspace(-5, 5, 701)] * 2), axis=-1).reshape(-1, 2)
    step = 1e-6
    slopes = [(network(grid + step * e) - network(grid - step * e)) / (2 * step) for e in np.eye(2)]
    return float(np.linalg.norm(np.hstack(slopes), axis=1).max())


def mechanisms(network, bounds, epsilon):
    """The three ways to run the controller at this budget for each measurement."""
    budget, options = PrivacyBudget(epsilon=epsilon, delta=DELTA), {"radius": RADIUS}
    ways = (
        InputPerturbation(network, budget, **options),
        OutputPerturbation(network, budget, lipschitz=bounds["LipSDP"], **options),
        OutputPerturbation(network, budget, lipschitz=bounds["product"], **options),
    )
    return dict(zip(STYLES, ways))


def simulate(control, trials=TRIALS, rng=0):
    """Trajectories (trials, T, 2), forces (trials, T) and costs (trials,), from 2 m at rest, forces limited to 2 N."""
    rng = np.random.default_rng(rng)
    x = np.tile([2.0, 0.0], (trials, 1))
    states, forces = np.empty((trials, HORIZON, 2)), np.empty((trials, HORIZON))
    for t in range(HORIZON):
        u = np.clip(control(x, rng), -2, 2)[:, 0]
        states[:, t], forces[:, t] = x, u
        x = x @ A.T + u[:, None] * B
    cost = np.einsum("kti,ij,ktj->k", states, Q, states) + R * (forces**2).sum(axis=1)
    return states, forces, cost


def cost_figure(network, bounds, path):
    """Mean cost of the closed loop against epsilon, with its standard error."""
    public = float(simulate(lambda x, rng: network(x), 1)[2][0])
    costs = {name: [] for name in STYLES}
    for epsilon in EPSILONS:
        for name, mechanism in mechanisms(network, bounds, epsilon).items():
            costs[name].append(simulate(mechanism)[2])
    figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
    for name, samples in costs.items():
        color, marker, line = STYLES[name]
        mean, error = np.mean(samples, axis=1), np.std(samples, axis=1) / np.sqrt(TRIALS)
        axis.errorbar(EPSILONS, mean, 2 * error, label=name, color=color, marker=marker, ls=line, ms=4, capsize=2)
    axis.axhline(public, color="k", lw=0.8, label="no privacy")
    axis.set(
        xscale="log", yscale="log", xlabel="ε for each measurement (radius 0.1, δ = 1e-5)", ylabel="closed-loop cost"
    )
    axis.set_xticks([0.25, 0.5, 1, 2, 5, 10, 20], ["0.25", "0.5", "1", "2", "5", "10", "20"])
    axis.grid(alpha=0.3, which="both")
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return public, {name: np.mean(samples, axis=1) for name, samples in costs.items()}


def trajectory_figure(network, bounds, path, epsilon=2.0):
    """Positions and forces over time: the 5-95 % band of the trials, and one of them."""
    time = 0.1 * np.arange(HORIZON)
    public = simulate(lambda x, rng: network(x), 1)
    figure, axes = plt.subplots(2, 3, figsize=(9, 4.4), sharex=True, sharey="row", layout="constrained")
    for column, (name, mechanism) in zip(axes.T, mechanisms(network, bounds, epsilon).items()):
        states, forces, _ = simulate(mechanism)
        for axis, signal, plain in zip(column, (states[:, :, 0], forces), (public[0][0, :, 0], public[1][0])):
            axis.fill_between(time, *np.quantile(signal, [0.05, 0.95], axis=0), color=STYLES[name][0], alpha=0.25, lw=0)
            axis.plot(time, signal[0], color=STYLES[name][0], lw=0.8)
            axis.plot(time, plain, "k--", lw=0.8)
            axis.grid(alpha=0.3)
        column[0].set_title(name, fontsize=9)
        column[1].set_xlabel("Time [s]")
    axes[0, 0].set_ylabel("position [m]")
    axes[1, 0].set_ylabel("force [N]")
    figure.suptitle(
        f"5-95 % of {TRIALS} trials, one of them, and the public loop (dashed); ε = {epsilon:g}", fontsize=9
    )
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(folder):
    network = controller()
    bounds = constants(network)
    print(f"Lipschitz constant of the controller [N per unit]: steepest slope {steepest(network):.3f}, "
          f"LipSDP {bounds['LipSDP']:.3f}, product {bounds['product']:.3f}")  # fmt: skip
    for half in (1.0, 0.3, 0.1):
        box = ClippedNetwork(network.weights, network.biases, -half, half, "tanh")
        print(f"  measurements clipped to {half:g} m and {half:g} m/s: {box.lipschitz():.3f}")
    for mechanism in list(mechanisms(network, bounds, 2.0).values())[:2]:
        print(
            f"\n{type(mechanism).__name__}, noise of standard deviation {mechanism.scale:.3f}\n  {mechanism.guarantee}"
        )
        epsilon = mechanism.guarantee.repeated(HORIZON).epsilon(DELTA)
        print(f"  one secret offset in all {HORIZON} measurements would cost epsilon = {epsilon:.1f}")
    public, costs = cost_figure(network, bounds, folder / "neural_controller_cost.png")
    trajectory_figure(network, bounds, folder / "neural_controller_trajectories.png")
    print(f"\nclosed-loop cost, mean of {TRIALS} trials (without privacy {public:.2f})")
    print(f"{'epsilon':36}" + "".join(f"{epsilon:9.3g}" for epsilon in EPSILONS))
    for name, means in costs.items():
        print(f"{name:36}" + "".join(f"{mean:9.2f}" for mean in means))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
