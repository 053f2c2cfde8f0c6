"""From the spectrum of noise to linear systems of low order that make it.

The spectrum is factored, and the Hankel matrix of the factor's phase gives a balanced
realisation, of which the first states are kept (Kung 1978; Moore 1981). `Realisation` holds
it and hands out the system of each order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from numpy.typing import NDArray

from ..numerics.errors import UncertifiableError
from ..numerics.thresholds import FINE, ON_CIRCLE, ROUNDED
from ..systems.linear import LinearSystem, spectral_radius
from .spectrum import FrequencyGrid, adjoint, scaled_columns

#: Largest order that is looked for, for each output.
_MOST_STATES = 48
#: Relative size of the last coefficients of a resolved factor, as a part of the gap.
_RESOLVED = 1e-5
#: White noise added to a spectrum that almost vanishes somewhere, as a part of the gap.
FLOOR = 0.1
#: Largest size of a Hankel matrix; what comes later is cut off.
_LARGEST_HANKEL = 1200
#: Speed: size of a Hankel matrix up to which all of its singular values are computed.
_DENSE = 500

#: Why none of the orders that were tried will do.
NOT_STABLE = (
    "order: no noise of this order hides the secret, since its inverse is not stable; ask "
    "for another order, or leave it out"
)


@dataclass(frozen=True, eq=False)
class Realisation:
    """A balanced system in the variable of a grid, whose first states make noise of low order.

    Attributes
    ----------
    balanced : LinearSystem
        In the grid's variable s.
    warp : float
        Of the grid.
    """

    balanced: LinearSystem
    warp: float

    @classmethod
    def of(
        cls,
        grid: FrequencyGrid,
        spectrum: NDArray[np.inexact],
        gap: float,
        added: float = 0.0,
    ) -> Realisation:
        """Return that of a spectrum (N/2 + 1, r, r), for noise within a gap of it.

        White noise of a share ``added`` of each output's variance is added to the spectrum.
        Where that almost vanishes, the coefficients decay slowly. If they do not end within
        the grid, more white noise is added.
        """
        means = np.diag(np.diag(grid.mean(spectrum)))
        factor, phase = outer_factors(grid, spectrum + added * means)
        tail = max(_tail(factor), _tail(phase))
        if tail >= _RESOLVED * gap and added < FLOOR * gap:
            factor, phase = outer_factors(grid, spectrum + FLOOR * gap * means)
        most = _MOST_STATES * spectrum.shape[1]
        balanced = balanced_realisation(factor, phase, most, _RESOLVED * gap)
        return cls(balanced, grid.warp)

    @property
    def order(self) -> int:
        """The largest order."""
        return self.balanced.order

    def stable(self, orders: Iterable[int]) -> Iterator[LinearSystem]:
        """Yield the systems in z of some orders that are stable, and whose inverse is."""
        for order in orders:
            system = unwarped(truncated(self.balanced, order), self.warp)
            radii = spectral_radius(system), spectral_radius(system.inverse())
            if max(radii) < 1:
                yield system


def coarser(gap: float) -> Iterator[float]:
    """Yield shares of white noise to add for noise within a gap, each larger by far."""
    while gap <= 1:
        yield FLOOR * gap
        gap /= FLOOR


# -- factors of a spectrum ---------------------------------------------------------------


def spectral_factor(
    grid: FrequencyGrid, spectrum: NDArray[np.inexact]
) -> NDArray[np.float64]:
    """Return coefficients (N/2, r, r) of the outer M with M M^* = S (Wilson 1972).

    M is a series in s^-1. It and its inverse are causal and stable. The iteration starts
    from the outer factors of the diagonal, so a scalar spectrum is factored at once.
    """
    identity = np.eye(spectrum.shape[1])
    diagonals = np.einsum("kii->ki", spectrum).real
    logarithms = grid.coefficients(np.log(diagonals))
    outer = np.exp(grid.values(_causal(logarithms)))
    factor = scaled_columns(identity, outer)
    for _ in range(60):
        left = np.linalg.solve(factor, spectrum)
        ratio = adjoint(np.linalg.solve(factor, adjoint(left)))
        residual = np.abs(ratio - identity).max()
        if residual < FINE:
            break
        sum_of_halves = grid.coefficients(ratio + identity)
        factor = factor @ grid.values(_causal(sum_of_halves))
    return grid.causal_coefficients(factor)


def _causal(coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the part with nonnegative powers of s^-1, and half of the constant."""
    part = coefficients.copy()
    part[0] *= 0.5
    half = len(part) // 2
    part[half] *= 0.5
    part[half + 1 :] = 0.0
    return part


def outer_factors(
    grid: FrequencyGrid, spectrum: NDArray[np.inexact]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Factor a spectrum: the outer M (N/2, r, r), and the causal part of its phase.

    The phase is (W^*)^-1 M, with M M^* = S = W^* W.
    """
    factor = spectral_factor(grid, spectrum)
    transposed = spectral_factor(grid, spectrum.conj())
    right = grid.values(transposed.swapaxes(1, 2))
    values = grid.values(factor)
    phase = np.linalg.solve(adjoint(right), values)
    return factor, grid.causal_coefficients(phase)


def outer_factor(system: LinearSystem) -> LinearSystem:
    """Return the square F with a stable inverse and F^* F = H^* H for a system H with states.

    It is the return difference of the regulator of H's outputs, whose inputs cost nothing
    (Anderson and Moore 1979, section 9.3, of the dual system).

    Raises
    ------
    UncertifiableError
        If H vanishes in some direction at a frequency.
    """
    A, B, C, D = system.matrices
    try:
        X = scipy.linalg.solve_discrete_are(A, B, C.T @ C, D.T @ D, s=C.T @ D)
        square = B.T @ X @ B + D.T @ D
        root = np.linalg.cholesky((square + square.T) / 2).T
        gains = scipy.linalg.cho_solve((root, False), B.T @ X @ A + D.T @ C)
        factor = LinearSystem(A, B, root @ gains, root)
        is_stable = spectral_radius(factor.inverse()) < 1 - ON_CIRCLE
    except (np.linalg.LinAlgError, ValueError):
        is_stable = False
    if not is_stable:
        raise UncertifiableError(NOT_STABLE)
    return factor


def _tail(coefficients: NDArray[np.float64]) -> float:
    """Return the largest of the last coefficients relative to all."""
    if not np.isfinite(coefficients).all():
        return np.inf
    sizes = np.abs(coefficients)
    last = sizes[-len(sizes) // 16 :]
    return float(last.max() / sizes.max())


# -- systems of low order ----------------------------------------------------------------


def balanced_realisation(
    coefficients: NDArray[np.float64],
    phase: NDArray[np.float64],
    most: int,
    negligible: float,
) -> LinearSystem:
    """Return a stochastically balanced realisation of the series M = sum of m_k s^-k.

    Truncating it errs little relative to M, at every frequency, and leaves M and its
    inverse stable. The phase is (W^*)^-1 M, with M M^* = W^* W and W outer. Its causal part
    has the A and B of M, and its Hankel singular values are the canonical correlations of
    past and future (Desai and Pal 1984; Green 1988). There are at most ``most`` states.
    """
    longest = max(_length(coefficients, negligible), _length(phase, negligible))
    length = min(longest, _LARGEST_HANKEL // phase.shape[1])
    padded = np.zeros((2 * length, *phase.shape[1:]))
    padded[: length - 1] = phase[1:length]
    steps = np.arange(length)
    places = np.add.outer(steps, steps)
    hankel = _block_matrix(padded[places])
    following = _block_matrix(padded[places + 1])
    constant = coefficients[0]
    if not hankel.any():
        return LinearSystem.gain(constant)
    left, values, right = _leading(hankel, most)
    kept = values > ROUNDED * values[0]
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


def _block_matrix(blocks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the matrix (L p, L q) of blocks (L, L, p, q)."""
    rows, columns, outputs, inputs = blocks.shape
    return blocks.swapaxes(1, 2).reshape(rows * outputs, columns * inputs)


def _length(coefficients: NDArray[np.float64], negligible: float) -> int:
    """Return the number of coefficients up to the last one that is not negligible."""
    sizes = np.abs(coefficients).max(axis=(1, 2))
    (large,) = np.nonzero(sizes > negligible * sizes.max())
    return 1 + int(large[-1])


def truncated(system: LinearSystem, order: int) -> LinearSystem:
    """Return the first states of a balanced realisation."""
    A, B, C, D = system.matrices
    return LinearSystem(A[:order, :order], B[:order], C[:, :order], D)


def unwarped(system: LinearSystem, warp: float) -> LinearSystem:
    """Return the system in z of a system in s, where z = (s + b) / (1 + b s)."""
    A, B, C, D = system.matrices
    identity = np.eye(system.order)
    inverse = np.linalg.inv(identity + warp * A)
    shifted = A + warp * identity
    dynamics = shifted @ inverse
    entry = (1 - warp**2) * inverse @ B
    reading = C @ inverse
    fed_through = warp * reading @ B
    return LinearSystem(dynamics, entry, reading, D - fed_through)


def _leading(
    matrix: NDArray[np.float64], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the largest singular values and their vectors, in decreasing order."""
    size = min(matrix.shape)
    factors: tuple[NDArray[Any], ...]
    if size <= max(_DENSE, 2 * count):
        factors = scipy.linalg.svd(matrix, full_matrices=False)
    else:
        # the same for every design, and generic: copies of one system are symmetric, and
        # a symmetric start would never leave what they have in common
        start = np.random.default_rng(0).normal(size=size)
        factors = scipy.sparse.linalg.svds(matrix, count, v0=start)
    left, values, right = map(np.asarray, factors)
    largest = np.argsort(-values)[:count]
    return left[:, largest], values[largest], right[largest]
