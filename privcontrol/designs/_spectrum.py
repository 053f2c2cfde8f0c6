"""Find the spectrum of the cheapest noise without a horizon, and a bound of any noise.

The noise gamma has a spectrum S(w), its cost is the mean of tr(W S) over the circle, and it
hides a move with response g(w) if the mean of g^* S^-1 g is at most y^2. This is the
problem of the cheapest enclosing ellipsoid at every frequency, coupled by the means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core._linalg import EPS
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
        """The grid on which functions with these poles are resolved to double precision.

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
        """Weights (N/2 + 1,) with sum one of the mean over the circle of a real function."""
        distances = np.abs(1 + self.warp * self._even)
        stretch = (1 - self.warp**2) / distances**2
        weights = stretch / self.count
        weights[1:-1] *= 2  # the lower half of the circle
        return weights

    def mean(self, values: NDArray) -> NDArray:
        """Mean over the circle of real parts, along the first axis."""
        return np.tensordot(self.weights, values.real, 1)

    def coefficients(self, values: NDArray) -> NDArray:
        """Real coefficients (N, ...) of the powers s^-k, from values at the points."""
        return np.fft.irfft(values, self.count, axis=0)

    def causal_coefficients(self, values: NDArray) -> NDArray:
        """Those (N/2, ...) of the powers s^0, s^-1, ..."""
        return self.coefficients(values)[: self.count // 2]

    def values(self, coefficients: NDArray) -> NDArray:
        """Values at the points of a series in s^-1 with real coefficients (at most N, ...)."""
        return np.fft.rfft(coefficients, self.count, axis=0)


class Multipliers(NamedTuple):
    """Lagrange multipliers with sum one: (M,) of single moves, and a matrix of each ball."""

    points: NDArray
    balls: list[NDArray]


@dataclass(frozen=True)
class BestSpectrum:
    """The spectrum of least cost for a privacy shift of one."""

    spectrum: NDArray  # S (N/2 + 1, r, r), which hides every move with that shift
    cost: float  # mean of tr(W S)
    lower_bound: float  # of the cost of any spectrum that hides the moves
    multipliers: Multipliers  # prove the bound


class Responses(NamedTuple):
    """Responses (N/2 + 1, r, M) to single moves, and O (N/2 + 1, r, k) to balls O a, |a| <= 1."""

    points: NDArray
    balls: list[NDArray]

    @classmethod
    def of(
        cls, secret: SecretInputs, system: LinearSystem, points: NDArray
    ) -> Responses:
        """The responses of a system to all moves at points z (N,).

        Several events count as if they were far apart, which they may be.
        """
        response = frequency_response(system, points)
        count, outputs, _ = response.shape
        moved = [np.zeros((count, outputs, 0), complex)]
        for moves in secret.signals:
            size = moves.radius * np.sqrt(moves.events)
            column = size * response[:, :, [moves.column]]
            moved.append(column * moves.transforms(points)[:, None])
        balls = [response[:, :, list(columns)] for columns in secret.balls]
        return cls(np.concatenate(moved, axis=2), balls)

    def seen_through(self, maps: NDArray) -> Responses:
        """What maps (N/2 + 1, q, r) make of the responses."""
        return Responses(maps @ self.points, [maps @ ball for ball in self.balls])

    def even_multipliers(self) -> Multipliers:
        """Multipliers that are alike for all moves and balls."""
        count = self.points.shape[2]
        share = 1 / (count + len(self.balls))
        matrices = []
        for ball in self.balls:
            size = ball.shape[2]
            matrices.append(share / size * np.eye(size))
        return Multipliers(np.full(count, share), matrices)

    def kernel(self, multipliers: Multipliers) -> NDArray:
        """The sum of l_i g_i g_i^* and of O Z O^*."""
        weighted = self.points * multipliers.points
        kernel = weighted @ _adjoint(self.points)
        for ball, matrix in zip(self.balls, multipliers.balls):
            kernel = kernel + ball @ matrix @ _adjoint(ball)
        return kernel

    def squares(self, grid: FrequencyGrid) -> tuple[NDArray, list[NDArray]]:
        """Mean squares (M,) of single moves, and the mean Gram matrices of balls."""
        points = grid.mean(np.sum(np.abs(self.points) ** 2, axis=1))
        return points, [grid.mean(_adjoint(ball) @ ball) for ball in self.balls]

    def largest_square(self, grid: FrequencyGrid) -> float:
        """The largest mean square of a move."""
        points, forms = self.squares(grid)
        return _largest(points, forms)


def best_spectrum(
    grid: FrequencyGrid,
    weight: NDArray,
    responses: Responses,
    tol: float,
    updates: int = 500,
) -> BestSpectrum:
    """The spectrum S of least mean tr(W S) that hides moves with responses g.

    For multipliers l_i >= 0 with sum one the cost is at least (mean tr K^1/2)^2,
    K = W^1/2 (sum l_i g_i g_i^*) W^1/2, and S = W^-1/2 K^1/2 W^-1/2 attains it if its
    constraints c_i, the means of g_i^* S^-1 g_i, are all alike. So the multipliers are
    scaled by their constraints until they are. It ends at the relative gap ``tol``.
    """
    root, safe_root, inverse_root = _hermitian_roots(weight)
    priced = responses.seen_through(safe_root)
    multipliers = priced.even_multipliers()
    power = 1.9  # two would be a Newton step if the moves shared no frequency
    bound = 0.0
    least = np.inf
    for _ in range(updates):
        values, vectors = np.linalg.eigh(priced.kernel(multipliers))
        roots = np.sqrt(np.maximum(values, 0.0))
        reached = float(grid.mean(roots.sum(axis=1)))
        if reached < bound:
            power = 1.0
        else:
            bound = reached
            bounding = multipliers
        roots = np.maximum(roots, _NOTHING * roots.max())
        whitening = _adjoint(vectors / np.sqrt(roots)[:, None, :])
        limits, forms = priced.seen_through(whitening).squares(grid)
        worst = _largest(limits, forms)
        cost = float(grid.mean(roots.sum(axis=1))) * worst
        if cost < least:
            least = cost
            middle = (vectors * worst * roots[:, None, :]) @ _adjoint(vectors)
        if least <= bound**2 * (1 + tol):
            break
        scaled_forms = [form / worst for form in forms]
        multipliers = _updated(multipliers, limits / worst, scaled_forms, power)
    spectrum = inverse_root @ middle @ inverse_root
    # the bound is that of the true price, whose small eigenvalues are not raised
    kernel = responses.seen_through(root).kernel(bounding)
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(kernel), 0.0))
    bound = float(grid.mean(values.sum(axis=1)))
    return BestSpectrum(spectrum, least, min(bound**2, least), bounding)


def _largest(points: NDArray, forms: Sequence[NDArray]) -> float:
    largest = [np.linalg.eigvalsh(form)[-1] for form in forms]
    return float(max([*points, *largest]))


def _updated(
    multipliers: Multipliers, limits: NDArray, forms: list[NDArray], power: float
) -> Multipliers:
    """Multipliers scaled by their constraints, those of a ball as Z^1/2 C Z^1/2."""
    points = multipliers.points * limits**power
    total = points.sum()
    matrices = []
    for matrix, form in zip(multipliers.balls, forms):
        values, vectors = np.linalg.eigh(matrix)
        sizes = np.sqrt(np.maximum(values, 0.0))
        root = (vectors * sizes) @ vectors.T
        scaled = root @ form @ root
        total += np.trace(scaled)
        matrices.append(scaled)
    return Multipliers(points / total, [matrix / total for matrix in matrices])


def _hermitian_roots(weight: NDArray) -> list[NDArray]:
    """W^1/2, the same with small eigenvalues raised, and the inverse of that."""
    values, vectors = np.linalg.eigh(weight)
    roots = np.sqrt(np.maximum(values, 0.0))
    raised = np.maximum(roots, _SMALLEST_PRICE * roots.max())
    rows = _adjoint(vectors)
    matrices = []
    for sizes in (roots, raised, 1 / raised):
        matrices.append((vectors * sizes[:, None, :]) @ rows)
    return matrices


def _adjoint(stack: NDArray) -> NDArray:
    """Conjugate transposes of a stack of matrices."""
    return stack.conj().swapaxes(-1, -2)


def spectral_factor(grid: FrequencyGrid, spectrum: NDArray) -> NDArray:
    """Coefficients (N/2, r, r) of the outer M with M M^* = S (Wilson 1972).

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
    """The part with nonnegative powers of s^-1, and half of the constant."""
    part = coefficients.copy()
    part[0] *= 0.5
    half = len(part) // 2
    part[half] *= 0.5
    part[half + 1 :] = 0.0
    return part


def outer_factors(grid: FrequencyGrid, spectrum: NDArray) -> tuple[NDArray, NDArray]:
    """Coefficients (N/2, r, r) of the outer M, and of the causal part of its phase.

    The phase is (W^*)^-1 M, with M M^* = S = W^* W.
    """
    factor = spectral_factor(grid, spectrum)
    transposed = spectral_factor(grid, spectrum.conj())
    right = grid.values(transposed.swapaxes(1, 2))
    phase = np.linalg.solve(_adjoint(right), grid.values(factor))
    return factor, grid.causal_coefficients(phase)
