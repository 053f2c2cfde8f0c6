"""Lipschitz constants with their norms, and the norms of a matrix between l_p spaces."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from .._balls import (
    Ball,
    ball_matrix,
    spectral_norm,
    upper_float,
    working_bits,
)
from .._linalg import one_of, positive_number, real_array

#: Relative; far above the round-off of a float norm of fewer than 10^7 entries.
PRUNE = 1e-8


class LipschitzBound(float):
    """Hold a certified Lipschitz constant with its norms, a float.

    It bounds sup ||f(x) - f(x')||_q / ||x - x'||_p from above. The input norm p is that of
    the radius, and the output norm q that of the noise: 2 for Gaussian and 1 for Laplace
    noise (IP Definitions 1, 3 and 4). Arithmetic with it gives plain floats.

    Parameters
    ----------
    value : float
        The bound, finite and >= 0.
    p, q : float
        Norm of the inputs and of the outputs: 1, 2 or inf.
    method : str
        How the bound was found.

    Raises
    ------
    ValueError
        If the value is negative, infinite or NaN, or a norm is another one.

    Examples
    --------
    >>> gain = LipschitzBound(1.5, p=2, q=1, method="signs")
    >>> gain, 2 * gain
    (LipschitzBound(1.5, p=2, q=1, method='signs'), 3.0)
    """

    __slots__ = ("method", "p", "q")
    p: float
    q: float
    method: str

    def __new__(
        cls, value: float, *, p: float, q: float, method: str
    ) -> LipschitzBound:
        number = positive_number(value, "Lipschitz bound", zero=True)
        self = super().__new__(cls, number)
        object.__setattr__(self, "p", checked_norm(p, "p"))
        object.__setattr__(self, "q", checked_norm(q, "q"))
        object.__setattr__(self, "method", method)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"LipschitzBound is frozen: {name} cannot be set; build another bound"
        )

    def __repr__(self) -> str:
        norms = f"p={self.p}, q={self.q}"
        return f"LipschitzBound({float(self)!r}, {norms}, method={self.method!r})"

    def __reduce__(self) -> tuple:
        norms = {"p": self.p, "q": self.q}
        return partial(LipschitzBound, **norms, method=self.method), (float(self),)


def checked_norm(norm: float, name: str = "norm") -> float:
    """Return the p of a p-norm that has a closed form, checked."""
    return one_of(norm, name, (1, 2, math.inf))


def induced_norm(M: ArrayLike, p: float, q: float) -> LipschitzBound:
    """Bound the norm of a matrix from the p-norm to the q-norm, never below the truth.

    It is sup ||M x||_q / ||x||_p. That of one pair of norms does not bound another:
    [[1, 1], [0, 0]] has l1 gain 1 and l2 gain sqrt 2.

    Parameters
    ----------
    M : array_like, (m, n)
        The matrix, a row for each output: of a linear scikit-learn model ``coef_``, or
        ``coef_[None]`` if it is 1-D.
    p, q : float
        Norm of the inputs and of the outputs: 1, 2 or inf, with p = 1, q = inf or p = q.

    Returns
    -------
    LipschitzBound
        ``.method`` says how. "columns" (p = 1), "rows" (q = inf) and "spectral" (2 -> 2)
        are exact up to upward rounding.

    Raises
    ------
    ValueError
        If M is not a finite matrix, p or q is another number, or the norm is NP-hard, as
        it is for other pairs.

    Examples
    --------
    >>> [float(induced_norm([[1, 1], [0, 0]], p, p)) for p in (1, np.inf)]
    [1.0, 2.0]
    """
    array = real_array(M, "M")
    if array.ndim == 1:
        raise ValueError(
            f"M: expected a matrix (outputs, inputs), got shape {array.shape}; write "
            "M[None], such as coef_[None], for a single output"
        )
    matrix = real_array(array, "M", ndim=2)
    p = checked_norm(p, "p")
    q = checked_norm(q, "q")
    if not matrix.any():
        return LipschitzBound(0.0, p=p, q=q, method="zero")
    value, method = _norm(matrix, p, q)
    return LipschitzBound(value, p=p, q=q, method=method)


def _norm(M: NDArray, p: float, q: float) -> tuple[float, str]:
    """Return the norm, and how it was found."""
    if p == 1 or M.shape[1] == 1:
        return _largest(M.T, q), "columns"
    if q == math.inf or len(M) == 1:  # Hoelder's inequality is attained
        return _largest(M, {2: 2, math.inf: 1}[p]), "rows"
    if p != q:
        raise ValueError(
            f"p, q: the norm from p={p:g} to q={q:g} is NP-hard; take p = 1, q = inf or "
            "p = q, such as p = q = 2 for Gaussian noise and p = q = 1 for Laplace noise"
        )
    return upper_float(spectral_norm(ball_matrix(M))), "spectral"


def _largest(vectors: NDArray, norm: float) -> float:
    """Return the largest norm of the rows, in balls for candidates that floats choose."""
    entries = np.abs(vectors)
    scaled = entries / entries.max()
    sizes = np.linalg.norm(scaled, norm, axis=1)
    candidates = vectors[sizes >= sizes.max() * (1 - PRUNE)]
    with working_bits():
        balls = [_vector_norm(row, norm) for row in candidates.tolist()]
        return max(upper_float(ball) for ball in balls)


def _vector_norm(vector: list[float], norm: float) -> Ball:
    sizes = [arb(abs(entry)) for entry in vector if entry]
    if norm == math.inf:
        return max(sizes, default=arb(0))
    if norm == 1:
        return sum(sizes, arb(0))
    return sum([size * size for size in sizes], arb(0)).sqrt()
