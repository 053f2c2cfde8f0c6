"""Second routes to the truth: dense, slow, or in many digits; none of them calls the code that it checks."""

import warnings

import cvxpy as cp
import mpmath as mp
import numpy as np
from scipy.signal import fftconvolve
from scipy.stats import norm

DIGITS = 60


def kappa(epsilon, y):
    """DPAM eq. (7), in 50 digits."""
    with mp.workdps(50):
        y = mp.mpf(y)
        tail = mp.exp(epsilon) * mp.ncdf(-y / 2 - epsilon / y)
        return float(mp.ncdf(y / 2 - epsilon / y) - tail)


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
        A, C = matrix(A), matrix(C)
        ahead = squares_of_powers(A, C, horizon)
        first = max(times)
        back = squares_of_powers(A**-1, C, first + 1) if first else [ahead[0]]
        # of outputs from A^-j e_k to A^(T - 1 - j) e_k
        squares = [*back[:0:-1], *ahead]
        best = mp.mpf(0)
        for k, radius in enumerate(radii):
            sums = [mp.mpf(0)]
            for square in squares:
                sums.append(sums[-1] + square[k])
            for j in times:
                total = sums[first - j + horizon] - sums[first - j]
                best = max(best, mp.mpf(float(radius)) * mp.sqrt(total))
        return best


def squares_of_powers(A, C, count):
    """The squared norms of the columns of C A^m, for m below ``count``."""
    columns, squares = C, []
    for _ in range(count):
        squares.append(
            [sum(entry**2 for entry in columns[:, k]) for k in range(A.rows)]
        )
        columns = columns * A
    return squares


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
    below = {(t, s): noise.covariance(t, s) for t in range(T) for s in range(t + 1)}
    rows = [
        [below[t, s] if s <= t else below[s, t].T for s in range(T)] for t in range(T)
    ]
    return np.block(rows)


def laplace_law(shift, step, up):
    """The loss of one Laplace shift on the grid k * step, k = -K .. K: cell masses, each moved up or down.

    Under P it is `shift` with probability 1/2, minus that with exp(-shift)/2, and between them has the distribution
    function exp((l - shift)/2)/2.
    """
    last = int(np.ceil(shift / step)) + 1
    edges = np.clip(np.arange(-last, last + 1) * step, -shift, shift)
    cells = np.diff(np.exp((edges - shift) / 2) / 2)
    masses = np.zeros(2 * last + 1)
    masses[1:] += cells if up else 0.0
    masses[:-1] += 0.0 if up else cells
    above, below = np.ceil(shift / step), np.floor(shift / step)
    masses[last + int(above if up else below)] += 0.5
    masses[last - int(below if up else above)] += np.exp(-shift) / 2
    return masses


def gaussian_law(y, step, up):
    """The loss of a Gaussian shift, N(y^2/2, y^2), on the same kind of grid, and the mass beyond it."""
    last = int(np.ceil((y * y / 2 + 9 * y) / step)) + 1
    edges = np.arange(-last, last + 1) * step
    cells = np.diff(norm.cdf((edges - y * y / 2) / y))
    masses = np.zeros(2 * last + 1)
    masses[1:] += cells if up else 0.0
    masses[:-1] += 0.0 if up else cells
    return masses, norm.sf((edges[-1] - y * y / 2) / y)


def delta_bounds(epsilon, shifts, y=0.0, points=1 << 14):
    """Lower and upper bounds of delta for Laplace shifts (r,) or (J, r) and a Gaussian shift, the worst of J moves.

    Each loss is rounded down and up to a grid, and the laws are convolved one after the other.
    """
    moves = np.sort(np.atleast_2d(np.abs(shifts)), axis=1)
    parts = np.broadcast_to(y, len(moves))
    different = np.unique(np.column_stack([moves, parts]), axis=0)
    moves, parts = different[:, :-1], different[:, -1]
    each = [
        [_convolved(epsilon, move[move > 0], part, points, up) for up in (False, True)]
        for move, part in zip(moves, parts)
    ]
    return tuple(np.max(each, axis=0))


def _convolved(epsilon, shifts, y, points, up):
    step = (shifts.sum() + y * (y / 2 + 9)) / points
    if not step:
        return 0.0
    law, beyond = np.ones(1), 0.0
    for shift in shifts:
        law = fftconvolve(law, laplace_law(shift, step, up))
    if y:
        masses, beyond = gaussian_law(y, step, up)
        law = fftconvolve(law, masses)
    losses = (np.arange(len(law)) - len(law) // 2) * step
    gain = -np.expm1(np.minimum(epsilon - losses, 0.0))
    found = float(gain @ np.maximum(law, 0.0)) + (beyond if up else 0.0)
    return found * (1 + 1e-9) + 1e-13 if up else found * (1 - 1e-9) - 1e-13
