"""Tanaka et al. 2017, directed information.

The channel z = M x + noise of least information rate at a given cost, by a semidefinite
program. It is no guarantee of differential privacy. Here its shape, at twice the cost
of known states, is scaled to the budget, which it then meets.
"""

import sys

import comparison
import control as ct
import cvxpy as cp
import numpy as np

SOURCE = """ACC 2017 (arXiv 1705.02802), program as in IEEE TAC 2018 (Tanaka, Esfahani, Mitter)
no adjacency; adversary: sees messages and inputs; measure: nats a step of the states"""


def channel(A, B, Q, R, W, most):
    """(rate, information of the channel C'V^-1 C) at a cost of at most ``most``."""
    S = ct.dare(A, B, Q, R)[0]
    price = R + B.T @ S @ B
    K = np.linalg.solve(price, B.T @ S @ A)
    P, Pi = (cp.Variable((len(A), len(A)), PSD=True) for _ in range(2))
    ahead = A @ P @ A.T + W
    constraints = [
        ahead - P >> 0,
        cp.trace(K.T @ price @ K @ P) + np.trace(W @ S) <= most,
        cp.bmat([[P - Pi, P @ A.T], [A @ P, ahead]]) >> 0,
    ]
    rate = cp.Minimize(-cp.log_det(Pi) / 2 + np.linalg.slogdet(W)[1] / 2)
    try:
        cp.Problem(rate, constraints).solve(solver=cp.CLARABEL)
    except cp.SolverError as failure:
        raise ValueError(f"the semidefinite program failed: {failure}") from None
    if P.value is None:
        raise ValueError("the semidefinite program has no solution at this cost")
    before = A @ P.value @ A.T + W
    nats = (np.linalg.slogdet(before)[1] - np.linalg.slogdet(P.value)[1]) / 2
    return nats, np.linalg.inv(P.value) - np.linalg.inv(before)


def design(plant, secret, budget):
    A, C = plant.sys.A, plant.sys.C
    if plant.Q is None or len(C) != len(A):
        raise ValueError("expected a loop whose readings are its whole state")
    B = plant.sys.B[:, : len(plant.R)]
    S = ct.dare(A, B, plant.Q, plant.R)[0]
    most = 2 * np.trace(S @ plant.QN)
    model = A, B, plant.Q, plant.R, plant.QN
    nats, information = channel(*model, most)
    sizes, vectors = np.linalg.eigh(information)
    keep = sizes > 1e-6 * sizes[-1]
    M = np.sqrt(sizes[keep])[:, None] * vectors[:, keep].T @ np.linalg.inv(C)
    shape = np.kron(np.eye(plant.horizon), M)
    promise = f"the shape of {nats:.3g} nats a step"
    return plant.released(secret, budget, H=shape, instead=promise)


def golden():
    """Scalar, a = 1.3, B = Q = R = 1, W = 0.5, cost at most 3: closed form and program."""
    one = np.eye(1)
    a, W = 1.3, 0.5
    rate, _ = channel(a * one, one, one, one, W * one, 3.0)
    S = ct.dare(a * one, one, one, one)[0].item()
    P = (3.0 - W * S) / ((a * S / (1 + S)) ** 2 * (1 + S))
    return [
        ("closed form", np.log(a**2 + W / P) / 2, "0.42433253"),
        ("semidefinite program", rate, "0.424333"),
        ("cost without end: log 1.3", channel(a * one, one, one, one, W * one, 1e3)[0],
         "0.26"),
    ]  # fmt: skip


if __name__ == "__main__":
    comparison.main(sys.modules[__name__])
