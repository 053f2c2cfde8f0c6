"""Mo, Murray 2017, noise that sums to zero.

Gaussian w(0) = v(0), w(t) = phi^t v(t) - phi^(t-1) v(t-1), h = s = 1: the average is
exact. Who sees all messages holds the readings x(0) + phi^t v(t), so the loss grows
without end; against one curious agent the measure is the variance of its estimate.
"""

import sys

import averaging
import comparison
import numpy as np

SOURCE = """Privacy preserving average consensus, IEEE TAC 62(2), 753-765
no adjacency; adversary: one curious agent with its neighbours' messages"""


def algorithm(rounds, phi=0.9):
    """Their rule, phi in (0, 1)."""
    fading = phi ** np.arange(rounds + 1)
    mixing = np.diag(fading) - np.diag(fading[:-1], -1)
    return averaging.Algorithm(mixing, share=1.0, family="gaussian")


def design(plant, secret, budget):
    return algorithm(plant.rounds, phi=0.98).entry(plant, secret, budget)


def curious(W, agent, rounds, phi=0.9):
    """Variances (n - 1,) of an agent's estimates of the others' values, sigma = 1."""
    rule = algorithm(rounds - 1, phi)
    n = len(W)
    noise = np.eye(rounds * n).reshape(rounds, n, -1)
    F = rule.run(W, np.zeros((n, rounds * n)), noise)[0]
    H = rule.run(W, np.eye(n), np.zeros((rounds, n, n)))[0]
    heard = [j for j in np.flatnonzero(W[agent]) if j != agent]
    others = [j for j in range(n) if j != agent]
    unknown = [t * n + j for t in range(rounds) for j in others]
    rows = F[:, heard].reshape(rounds * len(heard), -1)[:, unknown]
    columns = H[:, heard].reshape(len(rows), n)[:, others]
    whitened = np.linalg.lstsq(rows @ rows.T, columns, rcond=None)[0]
    return np.diag(np.linalg.inv(columns.T @ whitened))


def golden():
    """Their five agents, agent 5 curious, 60 rounds; and who sees everything."""
    W = np.array([[2, 1, 0, 0, 1], [1, 2, 1, 0, 0], [0, 1, 2, 0, 1], [0, 0, 0, 3, 1],
                  [1, 0, 1, 1, 1]]) / 4  # fmt: skip
    variances = curious(W, 4, 60)
    shift = np.linalg.norm(algorithm(60).shifts)
    return [
        ("variance of agent 1", variances[0], "0.37218"),
        ("variance of agent 2", variances[1], "1.48872"),
        ("variance of agent 3", variances[2], "0.37218"),
        ("variance of agent 4, disclosed", variances[3], "7.6e-7"),
        ("gdp of 60 rounds against who sees all", shift,
         float(np.sqrt((0.9**-120 - 1) / (0.9**-2 - 1)))),
    ]  # fmt: skip


if __name__ == "__main__":
    comparison.main(sys.modules[__name__])
