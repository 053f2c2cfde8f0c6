"""Le Ny, Pappas 2014, output perturbation.

White noise on the output of the filter, here on the estimates that the loop's cost
weighs. Its size follows from the filter's gain over the horizon, at most its H-infinity
norm.
"""

import sys

import comparison
import control as ct
import numpy as np

SOURCE = """Differentially private filtering, IEEE TAC 59(2), 341-354 (arXiv 1407.5553)
adjacency: one participant's signal in an l2 ball; adversary: sees all that is published"""


def design(plant, secret, budget):
    return plant.released(secret, budget, H=plant.filter)


def toeplitz(sys, horizon):
    """The map (T p, T m) from inputs to outputs over a horizon."""
    markov = [sys.D]
    state = sys.B
    for _ in range(horizon - 1):
        markov.append(sys.C @ state)
        state = sys.A @ state
    p, m = sys.D.shape
    response = np.array([*markov, np.zeros_like(sys.D)])
    lags = np.subtract.outer(np.arange(horizon), np.arange(horizon))
    dense = response[np.where(lags < 0, horizon, lags)]
    return dense.transpose(0, 2, 1, 3).reshape(horizon * p, horizon * m)


def golden():
    """Sensitivities: the H-infinity norm from below, and a vector sample's Gramian."""
    A, B = np.array([[0.9, 0.2], [0.0, 0.5]]), np.array([[0.3, 1.0], [1.0, -0.4]])
    C, D = np.array([[1.0, 0.5]]), np.array([[0.2, 0.1]])
    whole = toeplitz(ct.ss(A, B, C, D, 1), 300)
    gramian = ct.dlyap(A.T, C.T @ C)
    event = np.sqrt(np.linalg.eigvalsh(D.T @ D + B.T @ gramian @ B)[-1])
    lag = ct.ss(0.9, 1, 1, 0, 1)
    return [
        ("one event: largest norm of a sample's response",
         np.linalg.norm(whole[:, :2], 2), float(event)),
        ("l2 signal, T = 800: the lag's norm, 10 at all times",
         np.linalg.norm(toeplitz(lag, 800), 2), "10.0"),
    ]  # fmt: skip


if __name__ == "__main__":
    comparison.main(sys.modules[__name__])
