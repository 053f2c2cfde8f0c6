"""Realise a series of coefficients as a state-space system of low order.

The Hankel matrix of the coefficients has the system's Hankel singular values. Its leading
singular vectors give the balanced realisation, of which the first states are kept
(Kung 1978; Moore 1981).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from numpy.typing import NDArray

from ..systems.linear import LinearSystem

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
    constant = coefficients[0]
    if not hankel.any():
        return LinearSystem.gain(constant)
    left, values, right = _leading(hankel, most)
    kept = values > _ROUNDING * values[0]
    root = np.sqrt(values[kept])
    rows = right[kept]
    reach = root[:, None] * rows
    onto_states = left[:, kept] / root
    from_inputs = rows.T / root
    later = np.hstack(list(coefficients[1:length]))
    A = onto_states.T @ following @ from_inputs
    _, inputs = constant.shape
    B = reach[:, :inputs]
    C = later @ from_inputs[: later.shape[1]]
    return LinearSystem(A, B, C, constant)


def _hankel_matrices(series: NDArray, length: int) -> list[NDArray]:
    """The block Hankel matrix of a series that is zero from some sample on, and the next."""
    _, outputs, inputs = series.shape
    padded = np.zeros((2 * length, outputs, inputs))
    padded[: len(series)] = series
    times = np.arange(length)
    lags = np.add.outer(times, times)
    shape = (length * outputs, length * inputs)
    matrices = []
    for stack in (padded[lags], padded[lags + 1]):
        blocks = stack.swapaxes(1, 2)
        matrices.append(blocks.reshape(shape))
    return matrices


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
    A, B, C, D = system.matrices
    identity = np.eye(system.order)
    inverse = np.linalg.inv(identity + warp * A)
    shifted = A + warp * identity
    dynamics = shifted @ inverse
    entry = (1 - warp**2) * inverse @ B
    reading = C @ inverse
    fed_through = warp * reading @ B
    return LinearSystem(dynamics, entry, reading, D - fed_through)


def _leading(matrix: NDArray, count: int) -> tuple[NDArray, NDArray, NDArray]:
    """The largest singular values and their vectors, in decreasing order."""
    size = min(matrix.shape)
    if size <= max(_DENSE, 2 * count):
        left, values, right = scipy.linalg.svd(matrix, full_matrices=False)
    else:
        start = np.ones(size)  # ARPACK would draw one at random
        left, values, right = scipy.sparse.linalg.svds(matrix, count, v0=start)
    order = np.argsort(-values)
    largest = order[:count]
    return left[:, largest], values[largest], right[largest]
