"""Second routes to the truth: dense, slow, or in many digits; none of them calls the code that it checks."""

import warnings

import cvxpy as cp
import mpmath as mp
import numpy as np

DIGITS = 60


def least_cost(images, allowed, weight=None):
    """min tr(W Gamma) over Gaussian noises with ||Gamma^(-1/2) s|| <= allowed, by CVXPY and Clarabel.

    ``images`` (m, M) are the images of the moves; they are reduced to a basis of their span first.
    """
    basis = np.linalg.svd(images, full_matrices=False)
    rank = int(np.sum(basis[1] > 1e-10 * basis[1][0]))
    U = basis[0][:, :rank]
    points = U.T @ images / allowed
    W = U.T @ (np.eye(len(images)) if weight is None else weight) @ U
    whiten = np.linalg.cholesky(
        points @ points.T
    )  # coordinates in which the points spread evenly
    points, W = np.linalg.solve(whiten, points), whiten.T @ W @ whiten
    scale = np.trace(W)
    P = cp.Variable((rank, rank), symmetric=True)
    inside = [cp.sum(cp.multiply(P, np.outer(p, p))) <= 1 for p in points.T]
    cost = cp.matrix_frac(np.linalg.cholesky(W / scale), P)
    problem = cp.Problem(cp.Minimize(cost), inside)
    with (
        warnings.catch_warnings()
    ):  # it reports that it stalls below 1e-10, which is well enough
        warnings.simplefilter("ignore", UserWarning)
        problem.solve(
            solver=cp.CLARABEL,
            tol_gap_abs=1e-11,
            tol_gap_rel=1e-11,
            tol_feas=1e-11,
            max_iter=500,
        )
    return problem.value * scale


def matrix(array):
    """Doubles as an mpmath matrix, exactly."""
    return mp.matrix(np.atleast_2d(array).tolist())


def state_moves(A, radii, times):
    """mu_k A^-j e_k as mpmath columns, for all k with a radius and all times j."""
    A, moves = matrix(A), []
    inverse = A**-1 if max(times) else None
    power = mp.eye(A.rows)
    for j in range(max(times) + 1):
        if j in times:
            moves += [
                mp.mpf(float(mu)) * power[:, k] for k, mu in enumerate(radii) if mu
            ]
        if inverse is not None:
            power = inverse * power
    return moves


def output_sensitivity(A, C, radii, times, horizon):
    """sup ||O_T z|| over state moves in many digits."""
    with mp.workdps(DIGITS + 20 * horizon // 10):
        best = mp.mpf(0)
        A, C = matrix(A), matrix(C)
        for state in state_moves(A.tolist(), radii, times):
            total = mp.mpf(0)
            for _ in range(horizon):
                total += mp.norm(C * state) ** 2
                state = A * state
            best = max(best, mp.sqrt(total))
        return best


def privacy_shift(A, factor, radii, times):
    """sup ||S^-1 z|| over state moves in many digits, for a square factor S."""
    with mp.workdps(DIGITS + 2 * len(times)):
        S = matrix(factor)
        return max(mp.norm(mp.lu_solve(S, z)) for z in state_moves(A, radii, times))


def dense_observability(A, C, horizon):
    """[C; C A; ...] by matrix powers."""
    return np.vstack([C @ np.linalg.matrix_power(A, t) for t in range(horizon)])


def shift(covariance, images):
    """sup sqrt(s^T Gamma^+ s) over columns s, through a dense pseudo-inverse."""
    inverse = np.linalg.pinv(covariance, rcond=1e-12, hermitian=True)
    return np.sqrt(np.einsum("im,ij,jm->m", images, inverse, images)).max()


def is_below(smaller, larger, tol=1e-9):
    """Whether larger - smaller is positive semidefinite, up to a relative tolerance."""
    return np.linalg.eigvalsh(larger - smaller)[0] >= -tol * np.abs(larger).max()


def stacked_covariance(noise):
    """Covariance (T p, T p) of output noise over its horizon, block by block."""
    T = noise.horizon
    return np.block([[noise.covariance(t, s) for s in range(T)] for t in range(T)])
