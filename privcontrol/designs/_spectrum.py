"""Find the spectrum of the cheapest noise without a horizon, and a system that has it.

The noise gamma has a spectrum S(w), its cost is the mean of tr(W S) over the circle, and it
hides a move with response g(w) if the mean of g^* S^-1 g is at most y^2. This is the
problem of the cheapest enclosing ellipsoid at every frequency, coupled by the means. The
best spectrum is factored, and the Hankel matrix of the factor's phase gives a balanced
realisation, of which the first states are kept (Kung 1978; Moore 1981).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from numpy.typing import NDArray

from ..core._linalg import EPS
from ..core._progress import piece
from ..secrets.secret import SecretInputs
from ..systems.linear import LinearSystem, frequency_response

_SMALLEST_GRID = 2**9
_LARGEST_GRID = 2**16
#: Points for each oscillation of a shape's spectrum, and how many they may make.
_POINTS_OF_A_WAVE = 8
_MOST_FOR_SHAPES = 2**13
#: Relative size below which an eigenvalue of a spectrum counts as zero.
_NOTHING = 1e-13
#: Relative root of a price below which noise is not made cheaper still.
_SMALLEST_PRICE = 1e-6
#: Relative residual at which Wilson's iteration ends.
_FACTORED = 1e-12
#: Updates of multipliers that mostly do.
_USUAL_UPDATES = 40
#: Hankel singular values below this part of the largest are rounding.
_ROUNDING = 1e-9
#: Largest size of a Hankel matrix; what comes later is cut off.
_LARGEST_HANKEL = 1200
#: Size of a Hankel matrix up to which all of its singular values are computed.
_DENSE = 500


# -- points on the unit circle -----------------------------------------------------------


@dataclass(frozen=True)
class FrequencyGrid:
    """Points on the upper half of the unit circle, denser where slow poles need it.

    With z = (s + b) / (1 + b s), points even in s are dense in z around 1 for b > 0. The
    map sends the disc to itself, so causal stays causal and outer stays outer. A pole
    p becomes (p - b) / (1 - b p). One number b brings 0.999 and 0 to plus and minus 0.956.
    """

    warp: float  # b, between -1 and 1
    count: int  # N on the whole circle, a power of two

    @classmethod
    def fitting(cls, poles: NDArray, longest: int = 1) -> FrequencyGrid:
        """Return the grid that resolves functions with these poles to double precision.

        So are the spectra of shapes of at most ``longest`` samples, which oscillate.
        """
        poles = np.append(poles, 0.0)
        tries = np.tanh(np.linspace(-6, 6, 601))[:, None]
        radii = np.abs((poles - tries) / (1 - tries * poles)).max(axis=1)
        best = int(radii.argmin())
        warp = float(tries[best, 0])
        widest = (1 + abs(warp)) / (1 - abs(warp))  # distance of points, to the mean
        enough = min(_POINTS_OF_A_WAVE * longest * widest, _MOST_FOR_SHAPES)
        count = _SMALLEST_GRID
        while count < _LARGEST_GRID:
            if radii[best] ** count <= EPS and count >= enough:
                break
            count *= 2
        return cls(warp, count)

    @property
    def points(self) -> NDArray:
        """z (N/2 + 1,) on the unit circle."""
        return (self._even + self.warp) / (1 + self.warp * self._even)

    @property
    def _even(self) -> NDArray:
        """s (N/2 + 1,), at even distances on the unit circle."""
        angles = 2 * np.pi * np.arange(self.count // 2 + 1) / self.count
        return np.exp(1j * angles)

    @cached_property
    def weights(self) -> NDArray:
        """Weights (N/2 + 1,), of sum one, of a real function's mean over the circle."""
        distances = np.abs(1 + self.warp * self._even)
        stretch = (1 - self.warp**2) / distances**2
        weights = stretch / self.count
        weights[1:-1] *= 2  # the lower half of the circle
        return weights

    def mean(self, values: NDArray) -> NDArray:
        """Return the mean over the circle of real parts, along the first axis."""
        return np.tensordot(self.weights, values.real, 1)

    def coefficients(self, values: NDArray) -> NDArray:
        """Return real coefficients (N, ...) of the powers s^-k, from values."""
        return np.fft.irfft(values, self.count, axis=0)

    def causal_coefficients(self, values: NDArray) -> NDArray:
        """Return those (N/2, ...) of the powers s^0, s^-1, ..."""
        return self.coefficients(values)[: self.count // 2]

    def values(self, coefficients: NDArray) -> NDArray:
        """Return values of a series in s^-1 with real coefficients (at most N, ...)."""
        return np.fft.rfft(coefficients, self.count, axis=0)


# -- the best spectrum -------------------------------------------------------------------


@dataclass(frozen=True)
class BestSpectrum:
    """The spectrum of least cost for a privacy shift of one."""

    spectrum: NDArray  # S (N/2 + 1, r, r), which hides every move with that shift
    cost: float  # mean of tr(W S)
    lower_bound: float  # of the cost of any spectrum that hides the moves
    multipliers: NDArray  # of the single moves, which prove the bound


class Responses(NamedTuple):
    """Responses (N/2 + 1, r, K) to single moves, then to the axes of balls.

    The columns O of a ball are those of its moves O a, |a| <= 1.
    """

    columns: NDArray
    balls: tuple[slice, ...] = ()

    @classmethod
    def of(
        cls, secret: SecretInputs, system: LinearSystem, points: NDArray
    ) -> Responses:
        """Return the responses of a system to all moves at points z (N,).

        Several events count as if they were far apart, which they may be.
        """
        response = frequency_response(system, points)
        columns = []
        for moves in secret.signals:
            size = moves.radius * np.sqrt(moves.events)
            column = size * response[:, :, [moves.column]]
            columns.append(column * moves.transforms(points)[:, None])
        balls = []
        count = sum(column.shape[2] for column in columns)
        for index in secret.balls:
            columns.append(response[:, :, list(index)])
            balls.append(slice(count, count + len(index)))
            count += len(index)
        return cls(np.concatenate(columns, axis=2), tuple(balls))

    def forms(self, grid: FrequencyGrid) -> tuple[NDArray, list[NDArray]]:
        """Return the columns' mean squares (K,), and each ball's mean Gram matrix."""
        forms = []
        for ball in self.balls:
            axes = self.columns[:, :, ball]
            forms.append(grid.mean(_adjoint(axes) @ axes))
        return grid.mean(np.sum(np.abs(self.columns) ** 2, axis=1)), forms

    def largest_square(self, grid: FrequencyGrid) -> float:
        """Return the largest mean square of a move."""
        return _largest(*self.forms(grid))


def _largest(squares: NDArray, forms: list[NDArray]) -> float:
    largest = [np.linalg.eigvalsh(form)[-1] for form in forms]
    return float(max([*squares, *largest]))


def best_spectrum(
    grid: FrequencyGrid,
    weight: NDArray,
    responses: Responses,
    tol: float,
    updates: int = 500,
) -> BestSpectrum:
    """Return the spectrum S of least mean tr(W S) that hides moves with responses g.

    For multipliers l_i >= 0 with sum one the cost is at least (mean tr K^1/2)^2,
    K = W^1/2 (sum l_i g_i g_i^*) W^1/2, and S = W^-1/2 K^1/2 W^-1/2 attains it if its
    constraints c_i, the means of g_i^* S^-1 g_i, are all alike. So the multipliers are
    scaled by their constraints until they are, those of a ball as Z^1/2 C Z^1/2, whose
    axes the ball's columns follow. It ends at the relative gap ``tol``.
    """
    root, safe_root, inverse_root = _hermitian_roots(weight)
    multipliers = _even_multipliers(responses)
    power = 1.9  # two would be a Newton step if the moves shared no frequency
    bound = 0.0
    least = np.inf
    for update in range(updates):
        kernel = (responses.columns * multipliers) @ _adjoint(responses.columns)
        with piece(update, _USUAL_UPDATES):
            values, vectors = np.linalg.eigh(safe_root @ kernel @ safe_root)
        roots = np.sqrt(np.maximum(values, 0.0))
        reached = float(grid.mean(roots.sum(axis=1)))
        if reached < bound:
            power = 1.0
        else:
            bound = reached
            bounding = (kernel, multipliers)
        roots = np.maximum(roots, _NOTHING * roots.max())
        whitening = _adjoint(vectors / np.sqrt(roots)[:, None, :]) @ safe_root
        left = responses._replace(columns=whitening @ responses.columns)
        squares, forms = left.forms(grid)
        worst = _largest(squares, forms)
        cost = float(grid.mean(roots.sum(axis=1))) * worst
        if cost < least:
            least = cost
            middle = (vectors * worst * roots[:, None, :]) @ _adjoint(vectors)
        if least <= bound**2 * (1 + tol):
            break
        scaled = multipliers * (squares / worst) ** power
        columns = responses.columns.copy()
        for ball, form in zip(responses.balls, forms):
            sizes = np.sqrt(multipliers[ball])
            values, axes = np.linalg.eigh(form / worst * np.outer(sizes, sizes))
            scaled[ball] = np.maximum(values, 0.0)
            columns[:, :, ball] = columns[:, :, ball] @ axes
        multipliers = scaled / scaled.sum()
        responses = responses._replace(columns=columns)
    spectrum = inverse_root @ middle @ inverse_root
    # the bound is that of the true price, whose small eigenvalues are not raised
    kernel, multipliers = bounding
    values = np.maximum(np.linalg.eigvalsh(root @ kernel @ root), 0.0)
    bound = float(grid.mean(np.sqrt(values).sum(axis=1)))
    singles = responses.balls[0].start if responses.balls else len(multipliers)
    return BestSpectrum(spectrum, least, min(bound**2, least), multipliers[:singles])


def _even_multipliers(responses: Responses) -> NDArray:
    """Return multipliers (K,) that are alike for all moves and balls."""
    multipliers = np.ones(responses.columns.shape[2])
    for ball in responses.balls:
        multipliers[ball] /= ball.stop - ball.start
    return multipliers / multipliers.sum()


def _hermitian_roots(weight: NDArray) -> list[NDArray]:
    """Return W^1/2, the same with small eigenvalues raised, and the inverse of that."""
    values, vectors = np.linalg.eigh(weight)
    roots = np.sqrt(np.maximum(values, 0.0))
    raised = np.maximum(roots, _SMALLEST_PRICE * roots.max())
    rows = _adjoint(vectors)
    matrices = []
    for sizes in (roots, raised, 1 / raised):
        matrices.append((vectors * sizes[:, None, :]) @ rows)
    return matrices


def _adjoint(stack: NDArray) -> NDArray:
    """Return conjugate transposes of a stack of matrices."""
    return stack.conj().swapaxes(-1, -2)


# -- factors of a spectrum ---------------------------------------------------------------


def spectral_factor(grid: FrequencyGrid, spectrum: NDArray) -> NDArray:
    """Return coefficients (N/2, r, r) of the outer M with M M^* = S (Wilson 1972).

    M is a series in s^-1. It and its inverse are causal and stable. The iteration starts
    from the outer factors of the diagonal, so a scalar spectrum is factored at once.
    """
    size = spectrum.shape[1]
    factor = np.zeros_like(spectrum)
    for i in range(size):
        logarithm = grid.coefficients(0.5 * np.log(spectrum[:, i, i].real))
        factor[:, i, i] = np.exp(grid.values(_causal(logarithm) * 2))
    for _ in range(60):
        left = np.linalg.solve(factor, spectrum)
        ratio = _adjoint(np.linalg.solve(factor, _adjoint(left)))
        residual = np.abs(ratio - np.eye(size)).max()
        if residual < _FACTORED:
            break
        sum_of_halves = grid.coefficients(ratio + np.eye(size))
        factor = factor @ grid.values(_causal(sum_of_halves))
    return grid.causal_coefficients(factor)


def _causal(coefficients: NDArray) -> NDArray:
    """Return the part with nonnegative powers of s^-1, and half of the constant."""
    part = coefficients.copy()
    part[0] *= 0.5
    half = len(part) // 2
    part[half] *= 0.5
    part[half + 1 :] = 0.0
    return part


def outer_factors(grid: FrequencyGrid, spectrum: NDArray) -> tuple[NDArray, NDArray]:
    """Factor a spectrum: the outer M (N/2, r, r), and the causal part of its phase.

    The phase is (W^*)^-1 M, with M M^* = S = W^* W.
    """
    factor = spectral_factor(grid, spectrum)
    transposed = spectral_factor(grid, spectrum.conj())
    right = grid.values(transposed.swapaxes(1, 2))
    phase = np.linalg.solve(_adjoint(right), grid.values(factor))
    return factor, grid.causal_coefficients(phase)


# -- systems of low order ----------------------------------------------------------------


def balanced_realisation(
    coefficients: NDArray, phase: NDArray, most: int, negligible: float = 1e-10
) -> LinearSystem:
    """Return a stochastically balanced realisation of the series M = sum of m_k s^-k.

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
    """Return the block Hankel matrix of a series that ends, and the next one."""
    _, outputs, inputs = series.shape
    padded = np.zeros((2 * length, outputs, inputs))
    padded[: len(series)] = series
    rows = np.lib.stride_tricks.sliding_window_view(padded, length, axis=0)
    blocks = rows.swapaxes(2, 3)  # of so many columns after each row
    shape = (length * outputs, length * inputs)
    return [blocks[first:][:length].reshape(shape) for first in (0, 1)]


def _length(coefficients: NDArray, negligible: float) -> int:
    """Return the number of coefficients up to the last one that is not negligible."""
    sizes = np.abs(coefficients).max(axis=(1, 2))
    return 1 + int(np.flatnonzero(sizes > negligible * sizes.max())[-1])


def truncated(system: LinearSystem, order: int) -> LinearSystem:
    """Return the first states of a balanced realisation."""
    A = system.A[:order, :order]
    return LinearSystem(A, system.B[:order], system.C[:, :order], system.D)


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


def _leading(matrix: NDArray, count: int) -> tuple[NDArray, NDArray, NDArray]:
    """Return the largest singular values and their vectors, in decreasing order."""
    size = min(matrix.shape)
    if size <= max(_DENSE, 2 * count):
        left, values, right = scipy.linalg.svd(matrix, full_matrices=False)
    else:
        start = np.ones(size)  # ARPACK would draw one at random
        left, values, right = scipy.sparse.linalg.svds(matrix, count, v0=start)
    order = np.argsort(-values)
    largest = order[:count]
    return left[:, largest], values[largest], right[largest]
