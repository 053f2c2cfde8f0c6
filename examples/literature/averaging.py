"""What consensus algorithms share: one rule, its exact guarantee and its exact error.

    y(t) = x(t) + w(t),    x(t+1) = x(t) + h (W y(t) - y(t) + s w(t)),    w = scale M eta

with averaging weights W = I - L, a step h, a share s, and standard noise eta that M
mixes over time. If one value moves by d, then w(t) = -d |1 - h s|^t explains the same
messages: who sees all of them knows exactly what noise of M^-1 |1 - h s|^t hides.
"""

from dataclasses import dataclass, replace

import comparison
import numpy as np
import scipy.linalg

import privcontrol as pc
from privcontrol.consensus import Network


@dataclass(frozen=True)
class Averaging:
    """A network whose agents want the mean of their values, after some rounds."""

    network: Network
    values: np.ndarray
    rounds: int = 60


@dataclass(frozen=True)
class Algorithm:
    """The rule above. ``mixing`` is M, (rounds + 1, k), lower triangular."""

    mixing: np.ndarray
    step: float = 1.0
    share: float = 0.0
    family: str = "laplace"
    scale: float = 1.0

    @property
    def shifts(self):
        """By how much a unit move displaces each standard noise of rounds 0 .. T-1."""
        sent, drawn = len(self.mixing) - 1, self.mixing.shape[1]
        used = min(sent, drawn)
        fading = abs(1 - self.step * self.share) ** np.arange(used)
        square = self.mixing[:used, :used]
        return scipy.linalg.solve_triangular(square, fading, lower=True)

    def run(self, W, initial, noise):
        """Messages and states (T + 1, n, runs) for standard noise (k, n, runs)."""
        w = self.scale * np.tensordot(self.mixing, noise, 1)
        messages, states = np.empty_like(w), np.empty_like(w)
        x = initial
        for t in range(len(w)):
            states[t] = x
            messages[t] = x + w[t]
            x = x + self.step * (W @ messages[t] - messages[t] + self.share * w[t])
        return messages, states

    def readouts(self, W, initial, noise):
        """What an agent may use at the end."""
        messages, states = self.run(W, initial, noise)
        late = states[len(states) // 2 :].mean(axis=0)
        return {"state": states[-1], "message": messages[-1], "average": late}

    def errors(self, plant):
        """Exact expected sum of squared errors about the mean, by readout."""
        W = plant.network.iteration
        n, draws = len(plant.values), self.mixing.shape[1]
        quiet = np.zeros((draws, n, 1))
        means = self.readouts(W, plant.values[:, None], quiet)
        each = np.eye(draws * n).reshape(draws, n, -1)
        gains = self.readouts(W, np.zeros((n, draws * n)), each)
        variance = 2.0 if self.family == "laplace" else 1.0
        errors = {}
        for name, gain in gains.items():
            bias = means[name] - plant.values.mean()
            errors[name] = float(np.sum(bias**2) + variance * np.sum(gain**2))
        return errors

    def guarantee(self, secret, agents):
        """Of all messages: every value is published with each shift, under standard noise."""
        told = np.kron(self.shifts[:, None], np.eye(agents))
        sizes = np.full(len(told), self.scale)
        laplace = self.family == "laplace"
        noise = pc.LaplaceNoise(sizes) if laplace else pc.GaussianNoise(sizes)
        return pc.Mechanism(pc.LinearQuery(told), noise).guarantee(secret)

    def calibrated(self, budget, radius):
        """The same with the least noise that meets the budget."""
        if self.family == "laplace":
            allowed = budget.laplace_epsilon()
        else:
            allowed = budget.shift()
        order = 1 if self.family == "laplace" else 2
        loss = radius * np.linalg.norm(self.shifts, order)
        return replace(self, scale=loss / allowed * (1 + 1e-9))

    def entry(self, plant, secret, budget):
        """The calibrated algorithm at its best readout."""
        louder = self.calibrated(budget, secret.radius)
        errors = louder.errors(plant)
        readout = min(errors, key=errors.get)
        guarantee = louder.guarantee(secret, len(plant.values))
        return comparison.Entry(
            errors[readout], louder.scale, guarantee, f"read: {readout}"
        )


def closed_forms(algorithm, plant, variance, epsilon):
    """Golden rows: loss of all messages and the variance of the agreed average."""
    error = replace(algorithm, family="laplace").errors(plant)["state"]
    return [
        ("epsilon at d = c = 1", float(np.sum(algorithm.shifts)), float(epsilon)),
        ("n times the variance of the limit", error, float(variance)),
    ]


def ten_agents(rounds=60):
    """The ten agents of the papers, all of value 0."""
    network = pc.consensus.read_network(pc.plants.ten_agent_graph())
    return Averaging(network, np.zeros(10), rounds)
