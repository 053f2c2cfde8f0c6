"""Norms of a matrix between l_p spaces.

Six of the nine pairs are polynomial. The norms inf -> 1, inf -> 2 and 2 -> 1 are NP-hard:
they are found by brute force when small and bounded by a verified semidefinite dual
otherwise.
"""

import math
from collections.abc import Iterator

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from privcontrol.core._balls import (
    Ball,
    BallMatrix,
    ball_matrix,
    block_balls,
    diagonal_balls,
    is_positive_definite,
    spectral_norm,
    upper_float,
    working_bits,
)
from privcontrol.core._barrier import PairProgram
from privcontrol.core._linalg import EPS, one_of, real_array
from privcontrol.core.lipschitz.bound import NORMS, LipschitzBound

#: Brute force over 2^15 sign vectors takes a few milliseconds.
SIGNS = 16
#: Relative; far above the round-off of a float norm of fewer than 10^7 entries.
PRUNE = 1e-8


def induced_norm(M: ArrayLike, p: float, q: float) -> LipschitzBound:
    """The norm of a matrix from the p-norm to the q-norm, never below the truth.

    It is sup ||M x||_q / ||x||_p. That of one pair of norms does not bound another:
    [[1, 1], [0, 0]] has l1 gain 1 and l2 gain sqrt 2.

    Parameters
    ----------
    M : array_like, (m, n)
        The matrix, a row for each output: of a linear scikit-learn model ``coef_``, or
        ``coef_[None]`` if it is 1-D.
    p, q : {1, 2, inf}
        Norm of the inputs and of the outputs.

    Returns
    -------
    LipschitzBound
        ``.method`` says how: "columns" (p = 1), "rows" (q = inf), "spectral" (2 -> 2) and
        "signs", a brute force over at most 16 signs, are exact up to upward rounding.
        "grothendieck" is an upper bound, at most pi/2 times the norm for inf -> 2 and
        2 -> 1 (Nesterov 1998) and 1.79 times for inf -> 1; a few percent in practice.

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
    """
    array = real_array(M, "M")
    if array.ndim == 1:
        raise ValueError(
            f"M: expected a matrix (outputs, inputs), got shape {array.shape}; write "
            "M[None], such as coef_[None], for a single output"
        )
    matrix = real_array(array, "M", ndim=2)
    one_of(p, "p", NORMS)
    one_of(q, "q", NORMS)
    if not matrix.any():
        return LipschitzBound(0.0, p=p, q=q, method="zero")
    value, method = _norm(matrix, p, q)
    return LipschitzBound(value, p=p, q=q, method=method)


def _norm(M: NDArray, p: float, q: float) -> tuple[float, str]:
    """The norm, and how it was found."""
    if p == 1:
        return _largest(M.T, q), "columns"
    if q == math.inf:
        return _largest(M, {2: 2, math.inf: 1}[p]), "rows"
    if p == q == 2:
        return upper_float(spectral_norm(ball_matrix(M))), "spectral"
    if p == 2:  # 2 -> 1 is the dual of inf -> 2
        M = M.T
        q = 2
    if q == 1 and M.shape[0] < M.shape[1]:  # the norm inf -> 1 is its own dual
        M = M.T
    if M.shape[1] <= SIGNS:
        return _brute_force(M, q), "signs"
    return _grothendieck(M, q), "grothendieck"


def _largest(vectors: NDArray, norm: float) -> float:
    """The largest norm of the rows, measured in balls for candidates that floats choose."""
    entries = np.abs(vectors)
    scaled = entries / entries.max()
    sizes = np.linalg.norm(scaled, norm, axis=1)
    candidates = vectors[sizes >= sizes.max() * (1 - PRUNE)]
    with working_bits():
        balls = [_vector_norm(row, norm) for row in candidates.tolist()]
        return max(upper_float(ball) for ball in balls)


def _vector_norm(vector: list[float], norm: float) -> Ball:
    if norm == math.inf:
        return arb(max(map(abs, vector)))
    balls = [arb(entry) for entry in vector]
    if norm == 1:
        return sum(map(abs, balls), arb(0))
    squares = [ball * ball for ball in balls]
    return sum(squares, arb(0)).sqrt()


def _power_of_two(M: NDArray) -> float:
    """A power of two close to the largest entry, to keep squares from overflowing."""
    return 2.0 ** (math.frexp(np.abs(M).max())[1] - 1)


def _brute_force(M: NDArray, q: float) -> float:
    """The largest ||M s||_q over signs s, which by convexity is that over the cube."""
    scale = _power_of_two(M)
    M = M / scale
    best = 0.0
    for signs in _sign_vectors(M.shape[1]):
        sizes = np.linalg.norm(M @ signs, q, axis=0)
        best = max(best, float(sizes.max()))
    row_sums = np.abs(M).sum(axis=1)
    size = float(np.linalg.norm(row_sums, q))
    slack = 2 * (sum(M.shape) + 4) * EPS * size
    return math.nextafter((best + slack) * scale, math.inf)


def _sign_vectors(size: int) -> Iterator[NDArray]:
    """Blocks of columns of signs; the first sign is 1, since s and -s give the same."""
    free = np.arange(size - 1)
    count = 2 ** len(free)
    for start in range(0, count, 1024):
        end = min(start + 1024, count)
        codes = np.arange(start, end)
        bits = (codes >> free[:, None]) & 1
        yield np.vstack([np.ones(len(codes)), 1 - 2 * bits])


def _grothendieck(M: NDArray, q: float) -> float:
    """max s' G s <= sum(d) for every diagonal d with diag(d) >= G.

    For q = 2, ||M s||_2^2 = s' M'M s. For q = 1, 2 t' M s = (t, s)' G (t, s).
    """
    scale = _power_of_two(M)
    m, n = M.shape
    with working_bits():
        exact = ball_matrix(M) / arb(scale)
        M = M / scale
        if q == 2:
            G = M.T @ M
            exact = exact.transpose() * exact
        else:
            G = np.block([[np.zeros((m, m)), M], [M.T, np.zeros((n, n))]])
            top = [BallMatrix(m, m), exact]
            exact = block_balls([top, [exact.transpose(), BallMatrix(n, n)]])
        diagonal = _verified_diagonal(G, exact)
        balls = [arb(entry) for entry in diagonal.tolist()]
        total = sum(balls, arb(0))
        bound = total.sqrt() if q == 2 else total / 2
        return upper_float(bound * arb(scale))


def _verified_diagonal(G: NDArray, exact: BallMatrix) -> NDArray:
    """A diagonal d of nearly least sum with diag(d) - G proven positive definite."""
    d = _least_diagonal(G)
    margin = 1e-12 * d.max()
    while not is_positive_definite(diagonal_balls(d.tolist()) - exact):
        d = d + margin
        margin *= 10  # ends: d dominates the row sums of |G| sooner or later
    return d


def _least_diagonal(G: NDArray) -> NDArray:
    """min sum(d) subject to diag(d) > G, by a barrier method."""
    n = len(G)
    eye = np.eye(n)
    program = PairProgram(
        prices=np.ones(n),
        left=eye,
        right=eye / 2,
        widths=np.ones(n, int),
        constant=G,
    )
    largest = np.linalg.eigvalsh(G)[-1]
    start = np.full(n, 1.1 * largest)
    return program.central_path(start)[-1]
