"""Degue, Le Ny 2017, two-block filter.

Readings y of many users are mixed to D y, white noise is added, and a Kalman filter
estimates. D is static; the best one is a semidefinite program in M = D'D. The value
that counts is the Riccati equation's for the D that was found, with noise for that D.
"""

import sys
import warnings

import comparison
import control as ct
import cvxpy as cp
import numpy as np

import privcontrol as pc

SOURCE = """arXiv 1707.08919, code cipherlab-poly/PrivateDynamicData.jl
adjacency: one user's readings in an l2 ball; adversary: sees all estimates"""


def best_mixing(A, C, W, V, L, users, kappa):
    """D with max_i ||D E_i|| <= 1, E_i (p, p_i) the user's readings times its radius."""
    n, p = len(A), len(C)
    X, Omega, P = (cp.Variable((k, k), symmetric=True) for k in (len(L), n, p))
    inverse = np.linalg.inv(W)
    spread = V - V @ P @ V
    state = Omega + A.T @ inverse @ A
    constraints = [
        P >> 0,
        cp.bmat([[X, L], [L.T, Omega]]) >> 0,
        cp.bmat([[C.T @ P @ C - Omega + inverse, inverse @ A], [A.T @ inverse, state]])
        >> 0,
    ]
    for E in users:
        own = E.T @ np.linalg.solve(V, E)
        size = np.eye(E.shape[1]) / kappa**2
        constraints.append(cp.bmat([[size + own, E.T], [E, spread]]) >> 0)
    problem = cp.Problem(cp.Minimize(cp.trace(X)), constraints)
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
    with warnings.catch_warnings():  # what D is worth is computed again
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        problem.solve(solver=cp.CLARABEL, **tight)
    noise = V - V @ P.value @ V
    M = np.linalg.inv((noise + noise.T) / 2) - np.linalg.inv(V)
    sizes, vectors = np.linalg.eigh(M)
    candidates = []
    for least in (1e-2, 1e-4, 1e-6):  # the program's digits end somewhere
        keep = sizes > least * sizes[-1]
        D = np.sqrt(sizes[keep])[:, None] * vectors[:, keep].T
        norms = [np.linalg.norm(D @ E, 2) for E in users]
        candidates.append(D / max(norms))
        filled = sum(E @ E.T / np.sum(E**2) / size for E, size in zip(users, norms))
        candidates.append(D @ filled / max(np.linalg.norm(E, 2) for E in users))
    scores = [score(A, C, W, V, L, D, users, kappa) for D in candidates]
    return problem.value, candidates[int(np.argmin(scores))]


def score(A, C, W, V, L, D, users, kappa):
    """Mean-square error of a mixing with the noise that it needs."""
    sensitivity = max(np.linalg.norm(D @ E, 2) for E in users)
    return filtered(A, C, W, V, L, D, kappa * sensitivity)


def filtered(A, C, W, V, L, D, std):
    """Mean-square error of L x, stationary, from D y + white noise of this size."""
    mixed = D @ C
    noise = D @ V @ D.T + std**2 * np.eye(len(D))
    P = ct.dare(A.T, mixed.T, W, (noise + noise.T) / 2)[0]
    gain = P @ mixed.T @ np.linalg.inv(mixed @ P @ mixed.T + noise)
    return np.trace(L @ (P - gain @ mixed @ P) @ L.T)


def design(plant, secret, budget):
    if not isinstance(secret, list):
        raise ValueError("one user: D = I, which is input perturbation")
    L = plant.regulator[1][0]
    users = [
        plant.sys.D[:, [plant.sys.find_input(i) for i in s.inputs]] for s in secret
    ]
    radii = [np.sqrt(plant.query(s).sensitivity(s) ** 2) for s in secret]
    users = [E * radius for E, radius in zip(users, radii)]
    model = plant.sys.A, plant.sys.C, plant.QN, plant.RN, L
    D = best_mixing(*model, users, 1 / budget.shift())[1]
    return plant.released(secret, budget, H=np.kron(np.eye(plant.horizon), D))


def golden():
    """Ten users at (ln 3, 0.05), and the same as a shared input's LQG problem."""
    one = np.eye(10)
    A, W, V, L = 0.9 * one, 0.2 * one, 0.01 * one, np.ones((1, 10))
    users = list(one[:, :, None])
    model = A, one, W, V, L
    kappa = pc.core.gaussian_std(np.log(3), 0.05, method="lenypappas")
    exact = pc.core.gaussian_std(np.log(3), 0.05)
    value, D = best_mixing(*model, users, kappa)
    B, R = np.ones((10, 1)), np.array([[0.5]])
    S = ct.dare(A, B, one, R)[0]
    K = np.linalg.solve(R + B.T @ S @ B, B.T @ S @ A)
    root = np.sqrt(R + B.T @ S @ B) @ K
    floor = np.trace(S @ W)
    lqg = A, one, W, V, root
    return [
        ("no privacy", filtered(*model, one, 0.0), "0.0954071"),
        ("semidefinite program", value, "1.6244783"),
        ("its D", score(*model, D, users, kappa), "1.62447833"),
        ("D = 1'", filtered(*model, L, kappa), "1.62447833328"),
        ("D = I", filtered(*model, one, kappa), "5.1394810"),
        ("D = 1', exact calibration", filtered(*model, L, exact), "1.0567161"),
        ("LQG, D = 1'", floor + filtered(*lqg, L, kappa), "9.8118023"),
        ("LQG, D = I", floor + filtered(*lqg, one, kappa), "10.0939370"),
        ("LQG, known states", floor, "9.6814122"),
    ]


if __name__ == "__main__":
    comparison.main(sys.modules[__name__])
