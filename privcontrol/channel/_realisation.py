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
    hankel, following = _hankel_matrices(phase[1:length], length)
    if not hankel.any():
        return LinearSystem.gain(coefficients[0])
    left, values, right = _leading(hankel, most)
    kept = values > _ROUNDING * values[0]
    root = np.sqrt(values[kept])
    reach = root[:, None] * right[kept]
    onto_states = left[:, kept] / root
    from_inputs = right[kept].T / root
    later = np.hstack(list(coefficients[1:length]))
    A = onto_states.T @ following @ from_inputs
    B = reach[:, : coefficients.shape[2]]
    C = later @ from_inputs[: later.shape[1]]
    return LinearSystem(A, B, C, coefficients[0])


def _hankel_matrices(series: NDArray, length: int) -> list[NDArray]:
    """The block Hankel matrix of a series that is zero from some sample on, and the next."""
    _, outputs, inputs = series.shape
    padded = np.zeros((2 * length, outputs, inputs))
    padded[: len(series)] = series
    rows = np.arange(length)
    lags = rows[:, None] + rows
    shape = (length * outputs, length * inputs)
    stacks = (padded[lags], padded[lags + 1])
    return [stack.swapaxes(1, 2).reshape(shape) for stack in stacks]


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
    inverse = np.linalg.inv(identity + warp * system.A)
    A = (system.A + warp * identity) @ inverse
    C = system.C @ inverse
    fed_through = warp * C @ system.B
    entry = (1 - warp**2) * inverse @ system.B
    return LinearSystem(A, entry, C, system.D - fed_through)


def _leading(matrix: NDArray, count: int) -> tuple[NDArray, NDArray, NDArray]:
    """The largest singular values and their vectors, in decreasing order."""
    size = min(matrix.shape)
    if size <= max(_DENSE, 2 * count):
        left, values, right = scipy.linalg.svd(matrix, full_matrices=False)
    else:
        start = np.ones(size)  # ARPACK would draw one at random
        left, values, right = scipy.sparse.linalg.svds(matrix, count, v0=start)
    largest = np.argsort(-values)[:count]
    return left[:, largest], values[largest], right[largest]
