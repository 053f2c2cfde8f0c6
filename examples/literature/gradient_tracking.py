"""How private is distributed optimisation by gradient tracking?

Ten agents fit one regression: f_i(x) = x'H_i x / 2 - g_i'x, H_i public, one agent's g_i
may move by 0.02 in l2. Gradient tracking sends x_i and the tracked gradient s_i,

    x_i+ = x_i + sum_j w_ij (y_j - y_i) - a s_i,
    s_i+ = s_i + sum_j w_ij (z_j - z_i) + H_i (x_i+ - x_i),    s_i(0) = H_i x_i(0) - g_i,

with messages y = x + noise, z = s + noise. Who sees all messages knows what a move does
to its agent alone: ds+ = (I - a H_i) ds, dx+ = dx - a ds, so each further round costs.
*What holds:* noise of `private_consensus` on g_i, drawn once before tracking begins;
what is sent later is computed from it, for any number of rounds. *What does not:* the
same kept draw on the messages, which hides a constant and not what dx does, and noise
that fades, whose loss grows without end. Run it as ``python gradient_tracking.py
[folder]``.

Next to it: decaying Laplace noise and steps (Huang, Mitra, Vaidya 2015, from memory),
and truncated Laplace noise on g_i (as in a paper on least squares whose abstract alone
was read; its mechanism is that of Geng and others 2020).
"""

import math
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import averaging
import matplotlib.pyplot as plt
import numpy as np

import privcontrol as pc

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
MOVE = 0.02
STEP = 0.05
ROUNDS = (10, 20, 40, 80, 160, 320)


@dataclass(frozen=True)
class Regression:
    """Local Hessians (n, d, d), gradients at zero (n, d) and weights W (n, n)."""

    H: np.ndarray
    g: np.ndarray
    W: np.ndarray

    @cached_property
    def optimum(self):
        return np.linalg.solve(self.H.mean(axis=0), self.g.mean(axis=0))

    def relative(self, error):
        """A sum of squared errors over all agents, relative to the optimum's square."""
        return error / len(self.g) / np.sum(self.optimum**2)


def example(seed=0, agents=10, samples=20, size=2):
    """Agents of the papers' graph with data of their own about one parameter vector."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(agents, samples, size))
    b = A @ np.ones(size) + 0.1 * rng.normal(size=(agents, samples))
    H = np.einsum("nsi,nsj->nij", A, A) / samples
    g = np.einsum("nsi,ns->ni", A, b) / samples
    return Regression(H, g, averaging.ten_agents().network.iteration.toarray())


def tracked(problem):
    """F, G and the start of z+ = F z + G (noise on x, noise on s), z = (x, s)."""
    n, d = problem.g.shape
    mix = np.kron(problem.W, np.eye(d))
    spread = mix - np.eye(n * d)
    H = np.zeros((n, d, n, d))
    H[range(n), :, range(n)] = problem.H
    H = H.reshape(n * d, n * d)
    to_x = np.hstack([mix, -STEP * np.eye(n * d)])
    back = H @ (to_x - np.eye(n * d, 2 * n * d))
    F = np.vstack([to_x, back + np.hstack([0 * mix, mix])])
    G = np.block([[spread, 0 * spread], [H @ spread, spread]])
    return F, G, np.concatenate([np.zeros(n * d), -problem.g.ravel()])


def moved(problem, rounds):
    """What a unit move adds to the agent's x and s (n, rounds, d, d), messages held."""
    n, d = problem.g.shape
    ds = np.repeat(-np.eye(d)[None], n, axis=0)
    dx = np.zeros_like(ds)
    states, gradients = [], []
    for _ in range(rounds):
        states.append(dx)
        gradients.append(ds)
        ahead = dx - STEP * ds
        ds = ds + problem.H @ (ahead - dx)
        dx = ahead
    return np.stack(states, axis=1), np.stack(gradients, axis=1)


def shift(problem, stds_x, stds_s):
    """Exact gdp of all messages of so many rounds, for noise of these sizes."""
    dx, ds = moved(problem, len(stds_x))
    dx = dx / np.asarray(stds_x)[:, None, None]
    ds = ds / np.asarray(stds_s)[:, None, None]
    both = np.concatenate([dx, ds], axis=1)
    stacked = both.reshape(len(both), -1, both.shape[-1])
    return MOVE * np.linalg.norm(stacked, 2, axis=(1, 2)).max()


def fresh(problem, rounds, fading=1.0):
    """Error after so many rounds with fresh noise of the least size for the budget."""
    sizes = fading ** np.arange(rounds)
    scale = shift(problem, sizes, sizes) / BUDGET.shift()
    F, G, z = tracked(problem)
    P = np.zeros_like(F)
    for size in sizes:
        z = F @ z
        P = F @ P @ F.T + (scale * size) ** 2 * G @ G.T
    count = problem.g.size
    bias = z[:count].reshape(problem.g.shape) - problem.optimum
    return problem.relative(np.sum(bias**2) + np.trace(P[:count, :count]))


def perturbed(problem, rounds, variance):
    """Error of tracking from g_i + noise whose mean over agents has this variance."""
    F, _, z = tracked(problem)
    for _ in range(rounds):
        z = F @ z
    bias = z[: problem.g.size].reshape(problem.g.shape) - problem.optimum
    inverse = np.linalg.inv(problem.H.mean(axis=0))
    noise = len(problem.g) * variance * np.sum(inverse**2)  # once all agree
    return problem.relative(np.sum(bias**2) + noise)


def fading(problem, rounds, q, p, first=0.5):
    """Huang, Mitra, Vaidya: steps a q^t, Laplace noise b p^t, with pure epsilon."""
    n, d = problem.g.shape
    steps = first * q ** np.arange(rounds)
    size = math.sqrt(d) * MOVE  # in l1
    b = size / BUDGET.laplace_epsilon() * np.sum(steps / p ** np.arange(1, rounds + 1))
    mix = np.kron(problem.W, np.eye(d))
    x, P = np.zeros(n * d), np.zeros((n * d, n * d))
    for t, step in enumerate(steps):
        local = np.zeros((n, d, n, d))
        local[range(n), :, range(n)] = np.eye(d) - step * problem.H
        F = local.reshape(n * d, n * d) @ mix
        x = F @ x + step * problem.g.ravel()
        noise = 2 * (b * p**t) ** 2 * (t > 0)  # the first values are public
        P = F @ (P + noise * np.eye(n * d)) @ F.T
    bias = x.reshape(n, d) - problem.optimum
    return problem.relative(np.sum(bias**2) + np.trace(P))


def best_fading(problem, rounds):
    """The least error over a grid of their two rates."""
    rates = [(q, p) for q in (0.7, 0.8, 0.9, 0.95) for p in (0.9, 0.95, 0.98) if q < p]
    return min(fading(problem, rounds, q, p) for q, p in rates)


def truncated_variance(epsilon, delta, move):
    """Variance of Laplace noise cut off at A = s log(1 + (e^eps - 1)/(2 delta))."""
    s = move / epsilon
    end = math.log1p(math.expm1(epsilon) / (2 * delta))  # A / s
    mass = -math.expm1(-end)
    return s**2 * (2 - math.exp(-end) * (end**2 + 2 * end + 2)) / mass


def curves(problem):
    """Relative mean-square error by method, for each number of rounds."""
    n, d = problem.g.shape
    own = (MOVE / BUDGET.shift()) ** 2
    cut = truncated_variance(BUDGET.epsilon / d, BUDGET.delta / d, MOVE)
    methods = {
        "no privacy": lambda T: perturbed(problem, T, 0.0),
        "noise that cancels, on g": lambda T: perturbed(problem, T, own / n**2),
        "one draw kept, on g": lambda T: perturbed(problem, T, own / n),
        "truncated Laplace, on g": lambda T: perturbed(problem, T, cut / n),
        "fresh noise in all messages": lambda T: fresh(problem, T),
        "fading noise in all messages": lambda T: fresh(problem, T, 0.98),
        "Huang et al. 2015, best rates": lambda T: best_fading(problem, T),
    }
    return {name: [f(T) for T in ROUNDS] for name, f in methods.items()}


def kept_draw(problem, rounds=10):
    """Ask for the guarantee of one kept draw on the messages: there is none."""
    dx, ds = moved(problem, rounds)
    told = np.concatenate([dx[0], ds[0]], axis=1).reshape(
        rounds, -1, problem.g.shape[1]
    )
    flat = told.reshape(-1, problem.g.shape[1])
    kept = np.tile(np.eye(told.shape[1]), (rounds, 1))
    mechanism = pc.Mechanism(pc.LinearQuery(flat), pc.GaussianNoise(kept))
    return mechanism.guarantee(pc.BallAdjacency(MOVE))


def main(folder="."):
    problem = example()
    found = curves(problem)
    print(
        "relative mean-square error after rounds   "
        + "".join(f"{T:>9}" for T in ROUNDS)
    )
    for name, errors in found.items():
        print(f"{name:42}" + "".join(f"{error:9.2g}" for error in errors))
    std = MOVE / BUDGET.shift() * (1 + 1e-9)
    drawn_once = pc.Mechanism(
        pc.LinearQuery(np.eye(2)), pc.GaussianNoise(std * np.eye(2))
    )
    promise = drawn_once.guarantee(pc.BallAdjacency(MOVE))
    print(f"one draw kept, on g, any number of rounds: {promise.gdp:.4f}-GDP, exact")
    losses = [shift(problem, np.ones(T), np.ones(T)) for T in ROUNDS]
    print(f"{'gdp of fresh noise of size 1':42}" + "".join(f"{x:9.3f}" for x in losses))
    try:
        kept_draw(problem)
    except pc.NotRealizableError as refusal:
        print(f"one kept draw on the messages is refused: {str(refusal)[:60]}...")
    drawing, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
    colors = ("0.5", "#E69F00", "#009E73", "#8C510A", "#999999", "#56B4E9", "#CC79A7")
    for (name, errors), color, marker in zip(found.items(), colors, "ovs^Dp*"):
        ax.loglog(ROUNDS, errors, color=color, marker=marker, ms=5, label=name)
    ax.set(xlabel="Rounds", ylabel="Relative mean-square error", ylim=(1e-5, None))
    ax.legend(frameon=False, fontsize="x-small")
    ax.grid(alpha=0.3)
    drawing.savefig(Path(folder) / "gradient_tracking.png", dpi=150)
    plt.close(drawing)


if __name__ == "__main__":
    main(*sys.argv[1:])
