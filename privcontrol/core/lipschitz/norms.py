"""Norms of a matrix between l_p spaces. Six of the nine pairs are polynomial; inf -> 1, inf -> 2 and 2 -> 1 are
NP-hard: they are found by brute force when small and bounded by a verified semidefinite dual otherwise."""

import math

import numpy as np
import scipy.linalg
from flint import arb, arb_mat

from privcontrol.core._balls import (
    ball_matrix,
    diagonal_balls,
    is_positive_definite,
    spectral_norm,
    upper_float,
    working_bits,
)
from privcontrol.core._linalg import EPS, one_of, real_array
from privcontrol.core.lipschitz._barrier import central_path, minus_log_det
from privcontrol.core.lipschitz.bound import NORMS, LipschitzBound

SIGNS = 16  # brute force over 2^15 sign vectors takes a few milliseconds
PRUNE = (
    1e-8  # relative; far above the round-off of a float norm of fewer than 10^7 entries
)


def induced_norm(M, p, q):
    r""":math:`\|M\|_{p \to q} = \sup_x \|M x\|_q / \|x\|_p`, exact where polynomial, never below the truth.

    Parameters
    ----------
    M : array_like, (m, n)
        The matrix, a row for each output: of a linear scikit-learn model ``coef_``, or ``coef_[None]`` if it is 1-D.
    p, q : {1, 2, inf}
        Norm of the inputs and of the outputs.

    Returns
    -------
    LipschitzBound
        ``.method`` says how: "columns" (p = 1), "rows" (q = inf) and "spectral" (2 -> 2) are exact up to upward
        rounding, and so is "signs", the brute force over sign vectors for at most 16 of them. "grothendieck"
        is an upper bound: at most pi/2 = 1.58 times the norm for inf -> 2 and 2 -> 1, and at most 1.79 times for
        inf -> 1, in theory; a few percent in practice.

    Raises
    ------
    ValueError
        If M is not a finite matrix, or p or q is not 1, 2 or inf.

    Examples
    --------
    >>> [float(induced_norm([[1, 1], [0, 0]], p, p)) for p in (1, np.inf)]
    [1.0, 2.0]
    >>> induced_norm([[1, 1], [1, -1]], np.inf, 1).method
    'signs'

    Notes
    -----
    The norm of IP's sensitivity for a linear model; the constant of one norm does not bound that of another
    ([[1, 1], [0, 0]] has l1 gain 1 and l2 gain sqrt 2). The semidefinite dual is as tight as Nesterov (1998) and
    Grothendieck's inequality say; its certificate is verified in ball arithmetic.
    """
    if np.ndim(M) == 1:
        raise ValueError(
            f"M: expected a matrix (outputs, inputs), got shape {np.shape(M)}; write M[None], such as coef_[None], for a "
            "single output"
        )
    M = real_array(M, "M", ndim=2)
    p, q = one_of(p, "p", NORMS), one_of(q, "q", NORMS)
    value, method = _norm(M, p, q) if M.any() else (0.0, "zero")
    return LipschitzBound(value, p=p, q=q, method=method)


def _norm(M, p, q):
    if p == 1:
        return _largest(M.T, q), "columns"
    if q == math.inf:
        return _largest(M, {2: 2, math.inf: 1}[p]), "rows"
    if p == q == 2:
        return upper_float(spectral_norm(ball_matrix(M))), "spectral"
    if p == 2:  # 2 -> 1 is the dual of inf -> 2
        M, q = M.T, 2
    if q == 1 and M.shape[0] < M.shape[1]:  # the norm inf -> 1 is its own dual
        M = M.T
    if M.shape[1] <= SIGNS:
        return _brute_force(M, q), "signs"
    return _grothendieck(M, q), "grothendieck"


def _largest(vectors, norm):
    """The largest norm of the rows: floats choose the candidates, balls measure them."""
    scaled = np.abs(vectors) / np.abs(vectors).max()
    sizes = np.linalg.norm(scaled, norm, axis=1)
    with working_bits():
        return max(
            upper_float(_vector_norm(row, norm))
            for row in vectors[sizes >= sizes.max() * (1 - PRUNE)].tolist()
        )


def _vector_norm(vector, norm):
    if norm == math.inf:
        return arb(max(map(abs, vector)))
    if norm == 1:
        return sum((arb(abs(entry)) for entry in vector), arb(0))
    return sum((arb(entry) * arb(entry) for entry in vector), arb(0)).sqrt()


def _power_of_two(M):
    """A power of two close to the largest entry, to keep squares from overflowing."""
    return 2.0 ** (math.frexp(np.abs(M).max())[1] - 1)


def _brute_force(M, q):
    """max ||M s||_q over s in {-1, 1}^n, where the supremum over the cube is attained by convexity."""
    scale = _power_of_two(M)
    M = M / scale
    count = M.shape[1] - 1  # s and -s give the same
    best = 0.0
    for start in range(0, 2**count, 1024):
        codes = np.arange(start, min(start + 1024, 2**count))
        signs = np.vstack(
            [np.ones(len(codes)), 1 - 2 * ((codes >> np.arange(count)[:, None]) & 1)]
        )
        best = max(best, np.linalg.norm(M @ signs, q, axis=0).max())
    slack = 2 * (sum(M.shape) + 4) * EPS * np.linalg.norm(np.abs(M).sum(axis=1), q)
    return math.nextafter((best + slack) * scale, math.inf)


def _grothendieck(M, q):
    """max s' G s <= sum(d) for every diagonal d with diag(d) >= G, at its (nearly) least and then proven."""
    scale = _power_of_two(M)
    m, n = M.shape
    with working_bits():
        exact, M = ball_matrix(M) / arb(scale), M / scale
        if q == 2:  # ||M s||_2^2 = s' M'M s
            G, exact = M.T @ M, exact.transpose() * exact
        else:  # 2 t' M s = (t, s)' G (t, s)
            G = np.block([[np.zeros((m, m)), M], [M.T, np.zeros((n, n))]])
            exact = arb_mat(
                [[0] * m + row for row in exact.tolist()]
                + [row + [0] * n for row in exact.transpose().tolist()]
            )
        diag = _verified_diagonal(G, exact)
        total = sum((arb(entry) for entry in diag.tolist()), arb(0))
        return upper_float((total.sqrt() if q == 2 else total / 2) * arb(scale))


def _verified_diagonal(G, exact):
    """A diagonal d of nearly least sum with diag(d) - G proven positive definite."""
    d = _least_diagonal(G)
    margin = 1e-12 * d.max()
    while not is_positive_definite(diagonal_balls(d) - exact):
        d = d + margin
        margin *= 10  # ends: d dominates the row sums of |G| sooner or later
    return d


def _least_diagonal(G):
    """min sum(d) subject to diag(d) > G, by a barrier method."""

    def barrier(d):
        return minus_log_det(np.diag(d) - G)

    def derivatives(d):
        inverse = scipy.linalg.cho_solve(
            scipy.linalg.cho_factor(np.diag(d) - G), np.eye(len(d))
        )
        return -np.diag(inverse), inverse**2

    start = np.full(len(G), 1.1 * np.linalg.eigvalsh(G)[-1])
    return central_path(
        np.ones(len(G)), barrier, derivatives, start, order=len(G), gap=1e-9
    )[-1]
