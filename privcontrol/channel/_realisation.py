"""Realise a series of coefficients as a state-space system of low order.

The Hankel matrix of the coefficients has the system's Hankel singular values. Its leading
singular vectors give the balanced realisation, of which the first states are kept
(Kung 1978; Moore 1981).
"""

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from numpy.typing import NDArray

from ._lti import LinearSystem

#: Hankel singular values below this part of the largest are rounding.
_ROUNDING = 1e-9
#: Largest size of a Hankel matrix; what comes later is cut off.
_LARGEST_HANKEL = 1200
#: Size of a Hankel matrix up to which all of its singular values are computed.
_DENSE = 500


def balanced_realisation(
    coefficients: NDArray, phase: NDArray, most: int, negligible: float = 1e-10
) -> LinearSystem:
    """A stochastically balanced realisation of the series M = sum of m_k s^-k.

    Truncating it errs little relative to M, at every frequency, and leaves M and its
    inverse stable. The phase is (W^*)^-1 M, with M M^* = W^* W and W outer. Its causal part
    has the A and B of M, and its Hankel singular values are the canonical correlations of
    past and future (Desai and Pal 1984; Green 1988). There are at most ``most`` states.
    """
    longest = max(_length(coefficients, negligible), _length(phase, negligible))
    length = min(longest, _LARGEST_HANKEL // phase.shape[1])
    inputs = coefficients.shape[2]
    later = np.zeros((2 * length, *phase.shape[1:]))
    later[: length - 1] = phase[1:length]
    if not later.any():
        return LinearSystem.gain(coefficients[0])
    rows = np.arange(length)
    lags = rows[:, None] + rows
    left, values, right = _leading(_blocks(later[lags]), most)
    kept = int(np.sum(values > _ROUNDING * values[0]))
    left = left[:, :kept]
    right = right[:kept]
    root = np.sqrt(values[:kept])
    shifted = _blocks(later[lags + 1])
    A = (left.T @ shifted @ right.T) / root[:, None] / root
    B = root[:, None] * right[:, :inputs]
    following = np.zeros((length, *coefficients.shape[1:]))
    following[: length - 1] = coefficients[1:length]
    C = _blocks(following[None]) @ right.T / root
    return LinearSystem(A, B, C, coefficients[0])


def _length(coefficients: NDArray, negligible: float) -> int:
    """Number of coefficients up to the last one that is not negligible."""
    sizes = np.abs(coefficients).max(axis=(1, 2))
    return 1 + int(np.flatnonzero(sizes > negligible * sizes.max())[-1])


def truncated(system: LinearSystem, order: int) -> LinearSystem:
    """The first states of a balanced realisation."""
    A = system.A[:order, :order]
    return LinearSystem(A, system.B[:order], system.C[:, :order], system.D)


def unwarped(system: LinearSystem, warp: float) -> LinearSystem:
    """The system in z of a system in s, where z = (s + b) / (1 + b s)."""
    identity = np.eye(system.order)
    mixed = np.linalg.inv(identity + warp * system.A)
    A = (system.A + warp * identity) @ mixed
    B = (1 - warp**2) * mixed @ system.B
    C = system.C @ mixed
    D = system.D - warp * C @ system.B
    return LinearSystem(A, B, C, D)


def _blocks(stack: NDArray) -> NDArray:
    """The block matrix (a c, b d) of a stack (a, b, c, d)."""
    rows, columns, outputs, inputs = stack.shape
    return stack.swapaxes(1, 2).reshape(rows * outputs, columns * inputs)


def _leading(matrix: NDArray, count: int) -> tuple[NDArray, NDArray, NDArray]:
    """The largest singular values and their vectors, in decreasing order."""
    if min(matrix.shape) <= max(_DENSE, 2 * count):
        left, values, right = scipy.linalg.svd(matrix, full_matrices=False)
        return left[:, :count], values[:count], right[:count]
    start = np.ones(min(matrix.shape))  # ARPACK would draw one at random
    left, values, right = scipy.sparse.linalg.svds(matrix, count, v0=start)
    order = np.argsort(-values)
    return left[:, order], values[order], right[order]
