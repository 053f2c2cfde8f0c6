"""What does one aggregate of a fleet cost?

Many users, x+ = a x + w and y = x + v each; the estimate of the sum of their states is
published, and one user's arrival, which lifts its state by 1 and fades, is the secret.
Users alike are one plant with an individual's move. Unlike users are their covariances,
added up: T x T, for any number of them. Without a curator everybody adds a share of the
noise, and neighbours noise that cancels in the sum. Run it as ``python fleet.py
[folder]``; the figure is written to the folder.
"""

import math
import sys
from pathlib import Path

import control as ct
import input_perturbation
import matplotlib.pyplot as plt
import numpy as np
import optimum
import ours
import output_perturbation
import own_noise
import scipy.linalg
import zero_forcing
from comparison import LinearLoop, compare

import privcontrol as pc

HORIZON = 48
BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-5)
ARRIVAL = pc.DisturbanceAdjacency(1.0, inputs=["arrival"])
READINGS = pc.DisturbanceAdjacency(1.0, inputs=["error"], norm="l2")
METHODS = [
    optimum,
    ours,
    input_perturbation,
    output_perturbation,
    zero_forcing,
    own_noise,
]


def alike(users, pole=0.9, W=0.2, V=0.01, horizon=HORIZON):
    """The sum of users alike: one plant, and what moves it is one user's."""
    plant = ct.ss(pole, [[1, 0]], 1, [[0, 1]], 1, inputs=["arrival", "error"])
    one = np.eye(1)
    start = users * W / (1 - pole**2) * one
    return LinearLoop(plant, horizon, users * W * one, users * V * one, start, L=one)


def without_curator(loop, budget, users, secret=ARRIVAL):
    """White noise that hides each user's own readings, of which the sum has n times."""
    std = loop.sensitivity(secret) / budget.shift()
    return loop.cost(users * std**2 * np.eye(loop.horizon))


def cancelling(noise, users, common):
    """Worst user's information about its arrival on a ring of users, and the sum's noise.

    Each user adds a share 1/n of the noise Gamma, and shares noise common^2 Gamma with
    each neighbour, which one adds and the other subtracts: Gamma times I/n + common^2 L.
    """
    own = np.ones(users) / users
    ring = 2 - 2 * np.cos(2 * np.pi * np.arange(users) / users)  # eigenvalues of L
    exposure = np.mean(1 / (own + common**2 * ring))
    return exposure, noise * own.sum()


class Unlike:
    """Users with poles of their own: the sum's covariances, n T^2 work and no n^3."""

    def __init__(self, poles, W=0.2, V=0.01, horizon=HORIZON):
        lags = np.abs(np.subtract.outer(np.arange(horizon), np.arange(horizon)))
        powers = poles[:, None] ** np.arange(horizon)
        self.states = (powers * (W / (1 - poles**2))[:, None]).sum(axis=0)[lags]
        self.readings = self.states + len(poles) * V * np.eye(horizon)
        self.arrivals = powers

    def error(self, noise):
        """Sum over time of the variance of the sum's estimate from what was read."""
        total = np.linalg.cholesky(self.readings + noise)
        known = np.tril(np.linalg.solve(total, self.states).T)
        return float(np.trace(self.states) - np.sum(known**2))

    def shift(self, noise):
        """The largest shift of any user's arrival, which is seen a sample later."""
        seen = len(noise) - 1
        lower = np.linalg.cholesky(noise[1:, 1:])
        shifts = []
        for start in range(seen):
            moved = np.zeros((seen, len(self.arrivals)))
            moved[start:] = self.arrivals[:, : seen - start].T
            whitened = scipy.linalg.solve_triangular(lower, moved, lower=True)
            shifts.append(np.linalg.norm(whitened, axis=0).max())
        return max(shifts)


def unlike(users):
    """Least noise for the slowest user, scaled until it hides the worst of all."""
    poles = np.linspace(0.5, 0.95, users)
    fleet = Unlike(poles)
    slow = pc.design_output_noise(
        alike(1, poles[-1]).sys,
        horizon=HORIZON,
        budget=BUDGET,
        adjacency=ARRIVAL,
        models="exact",
    )
    noise = slow.design.noise.covariance
    worst = fleet.shift(noise) / BUDGET.shift()
    white = fleet.shift(np.eye(HORIZON)) / BUDGET.shift()
    private = fleet.error(noise * worst**2)
    plain = fleet.error(white**2 * np.eye(HORIZON))
    return fleet.error(0 * np.eye(HORIZON)), private, plain, worst


def golden():
    """The ten users of the two-block filter, whose readings are the secret: 1.0567161."""
    budget = pc.PrivacyBudget(epsilon=math.log(3), delta=0.05)
    totals = []
    for horizon in (60, 61):
        loop = alike(10, horizon=horizon)
        totals.append(optimum.design(loop, READINGS, budget).cost)
    return [("one more sample of ten users", totals[1] - totals[0], "1.0567161")]


def figure(folder):
    """Root-mean-square error per user against the number of users."""
    drawing, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
    numbers = np.array([10, 30, 100, 300, 1000, 3000])
    curves = {"no privacy": [], "this library": [], "white noise on the sum": []}
    curves["white noise by each user"] = []
    for users in numbers:
        loop = alike(users)
        curves["no privacy"].append(loop.cost(np.zeros((HORIZON, HORIZON))))
        curves["this library"].append(ours.design(loop, ARRIVAL, BUDGET).cost)
        white = input_perturbation.design(loop, ARRIVAL, BUDGET).cost
        curves["white noise on the sum"].append(white)
        local = without_curator(loop, BUDGET, users)
        curves["white noise by each user"].append(local)
    styles = (("0.5", "."), ("#009E73", "o"), ("#CC79A7", "s"), ("#E69F00", "^"))
    for (name, curve), (color, marker) in zip(curves.items(), styles):
        rms = np.sqrt(np.array(curve) / HORIZON) / numbers
        ax.loglog(numbers, rms, color=color, marker=marker, label=name)
    ax.set(xlabel="Users", ylabel="rms error of the mean state")
    ax.legend(frameon=False, fontsize="small")
    ax.grid(alpha=0.3)
    drawing.savefig(Path(folder) / "fleet.png", dpi=150)
    plt.close(drawing)


def main(folder="."):
    loop = alike(100)
    print("100 users alike, one of whom arrives:")
    compare(loop, ARRIVAL, BUDGET, METHODS)
    public = loop.cost(np.zeros((HORIZON, HORIZON)))
    print(f"{'no privacy':40} {public:8.5g}")
    local = without_curator(loop, BUDGET, 100)
    print(f"{'white noise by each user':40} {local:8.5g}  no curator")
    exposure, share = cancelling(1.0, 100, 10.0)
    print(
        f"Noise that cancels on a ring, 10 times the own: the sum's variance is {share:.4g}"
        f"\n  times the curator's, and a user's shift {np.sqrt(exposure):.4f} times"
    )
    public, private, plain, worst = unlike(1000)
    print(
        f"1,000 users unlike: {private:.6g}, white noise {plain:.6g}, none {public:.6g}"
    )
    print(f"  the slowest user's noise hides all others: {worst:.6f} of the budget")
    figure(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
