"""Yazdani et al. 2022, private LQ.

Every agent adds white noise to what it sends of its own state; the cloud runs LQG. The
secret is the state's trajectory, in an l2 ball of radius b, so the noise is that of
s1(C) b, for the b that moves of a secret reach.
"""

import dataclasses
import sys

import comparison
import control as ct
import numpy as np

SOURCE = """Differentially private LQ control, IEEE TAC (arXiv 1807.05082, 1709.02862)
adjacency: one agent's state trajectory in an l2 ball; adversary: cloud, other agents"""


def design(plant, secret, budget):
    sys_ = plant.sys
    n, m = sys_.nstates, sys_.ninputs
    whole = ct.ss(
        sys_.A,
        sys_.B,
        np.eye(n),
        np.zeros((n, m)),
        sys_.dt,
        inputs=sys_.input_labels,
        states=sys_.state_labels,
    )
    states = dataclasses.replace(plant, sys=whole, RN=np.eye(n))
    radius = states.sensitivity(secret)
    gain = np.linalg.norm(sys_.C, 2)
    std = gain * radius / budget.shift() * (1 + 1e-9)
    entry = plant.evaluated(secret, std * np.eye(plant.horizon * len(sys_.C)))
    hidden = f"hides every state trajectory within {radius:.3g} in l2"
    return dataclasses.replace(entry, instead=hidden)


def golden():
    """The cost of privacy of two agents lies between two bounds; the sensitivity."""
    A = np.array([[1.0, 0.1], [0.0, 0.95]])
    C = np.array([[2.0, 0.3], [0.1, 1.0]])
    W, N, std = 0.1 * np.eye(2), np.array([[2.0, 0.5], [0.5, 1.0]]), 1.5
    P = ct.dare(A.T, C.T, W, std**2 * np.eye(2))[0]
    information = C.T @ C / std**2
    cost = np.trace(N @ np.linalg.inv(np.linalg.inv(P) + information))
    lower = np.trace(N @ np.linalg.inv(np.linalg.inv(W) + information))
    upper = np.trace(N @ np.linalg.inv(information))
    move = np.linalg.svd(C)[2][0]
    return [
        ("lower bound over cost, at most 1", min(1.0, lower / cost), lower / cost),
        ("cost over upper bound, at most 1", min(1.0, cost / upper), cost / upper),
        ("||C x|| of the worst x in the unit ball", np.linalg.norm(C @ move),
         float(np.linalg.norm(C, 2))),
    ]  # fmt: skip


if __name__ == "__main__":
    comparison.main(sys.modules[__name__])
