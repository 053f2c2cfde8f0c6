"""The spectrum of a secret's effect, and the cheapest one of noise that hides it.

A `FrequencyGrid` has the points, `Responses` what the outputs show of each move there, and
`best_spectrum` finds the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from ..noise._patterns import largest_signs
from ..numerics.linalg import EPS
from ..numerics.thresholds import LEAST_PRICE
from ..secrets.secret import SecretInputs
from ..systems.linear import frequency_response
from .windowed import (
    BestSpectrum,
    SpectrumProblem,
    WindowResponse,
    WindowsOnCircle,
)

_SMALLEST_GRID = 2**9
_LARGEST_GRID = 2**16
#: Points for each oscillation of a shape's spectrum, and how many they may make.
_POINTS_OF_A_WAVE = 8
_MOST_FOR_SHAPES = 2**14


# -- points on the unit circle -----------------------------------------------------------


def _warped(
    poles: NDArray[np.inexact],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return warps (N,) that are tried, and the largest size of a pole under each."""
    warps = np.tanh(np.linspace(-6, 6, 601))
    every = np.append(poles, 0.0)
    moved = (every - warps[:, None]) / (1 - warps[:, None] * every)
    return warps, np.abs(moved).max(axis=1)


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
    def fitting(cls, poles: NDArray[np.inexact], longest: int) -> FrequencyGrid:
        """Return the grid that resolves functions with these poles to double precision.

        So are the spectra of shapes of at most ``longest`` samples, which oscillate.
        """
        tries, radii = _warped(poles)
        best = int(radii.argmin())
        warp = float(tries[best])
        widest = (1 + abs(warp)) / (1 - abs(warp))  # distance of points, to the mean
        enough = min(_POINTS_OF_A_WAVE * longest * widest, _MOST_FOR_SHAPES)
        count = _SMALLEST_GRID
        while count < _LARGEST_GRID:
            if radii[best] ** count <= EPS and count >= enough:
                break
            count *= 2
        return cls(warp, count)

    @classmethod
    def fitting_shapes(cls, poles: NDArray[np.inexact], longest: int) -> FrequencyGrid:
        """Return the smallest grid that resolves poles and shapes all around the circle.

        It is less dense where slow poles are than that of `fitting`, and denser elsewhere.
        """
        tries, radii = _warped(poles)
        widest = (1 + np.abs(tries)) / (1 - np.abs(tries))
        count = _SMALLEST_GRID
        while count < _LARGEST_GRID:
            does = radii**count <= EPS
            does &= _POINTS_OF_A_WAVE * longest * widest <= count
            if does.any():
                radii = np.where(does, radii, np.inf)
                break
            count *= 2
        return cls(float(tries[radii.argmin()]), count)

    @property
    def points(self) -> NDArray[np.complex128]:
        """z (N/2 + 1,) on the unit circle."""
        even = self._even
        return (even + self.warp) / (1 + self.warp * even)

    @property
    def _even(self) -> NDArray[np.complex128]:
        """s (N/2 + 1,), at even distances on the unit circle."""
        steps = np.arange(self.count // 2 + 1)
        angles = 2 * np.pi * steps / self.count
        return np.exp(1j * angles)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Weights (N/2 + 1,), of sum one, of a real function's mean over the circle."""
        distances = np.abs(1 + self.warp * self._even)
        stretch = (1 - self.warp**2) / distances**2
        weights = stretch / self.count
        weights[1:-1] *= 2  # the lower half of the circle
        return weights

    def mean(self, values: NDArray[np.inexact]) -> NDArray[np.float64]:
        """Return the mean over the circle of real parts, along the first axis."""
        return np.tensordot(self.weights, values.real, 1)

    def covariances(
        self, spectrum: NDArray[np.inexact], lags: int
    ) -> NDArray[np.float64]:
        """Return the covariances (lags + 1,) of a positive spectrum (N/2 + 1,).

        Where slow poles make the points dense around 1 they are far apart around -1, so
        their own mean would miss what oscillates as much as the covariance of a long lag.
        """
        count = _LARGEST_GRID
        while count < _POINTS_OF_A_WAVE * lags:
            count *= 2
        z = np.exp(1j * np.linspace(0, np.pi, count // 2 + 1))
        places = np.angle((z - self.warp) / (1 - self.warp * z))
        angles = np.angle(self._even)
        between = CubicSpline(angles, np.log(spectrum), bc_type="clamped")
        values = np.exp(between(places.clip(angles[0], angles[-1])))
        return np.fft.irfft(values)[: lags + 1]

    def coefficients(self, values: NDArray[np.inexact]) -> NDArray[np.float64]:
        """Return real coefficients (N, ...) of the powers s^-k, from values."""
        return np.fft.irfft(values, self.count, axis=0)

    def causal_coefficients(self, values: NDArray[np.inexact]) -> NDArray[np.float64]:
        """Return those (N/2, ...) of the powers s^0, s^-1, ..."""
        return self.coefficients(values)[: self.count // 2]

    def values(self, coefficients: NDArray[np.float64]) -> NDArray[np.complex128]:
        """Return values of a series in s^-1 with real coefficients (at most N, ...)."""
        return np.fft.rfft(coefficients, self.count, axis=0)


# -- the best spectrum -------------------------------------------------------------------


class Responses(NamedTuple):
    """Responses (N/2 + 1, r, K) to single moves, to the axes of each ball, and in windows.

    The columns O of a ball are those of its moves O a, |a| <= 1.
    """

    columns: NDArray[np.inexact]
    balls: tuple[NDArray[np.inexact], ...] = ()
    windows: tuple[WindowResponse, ...] = ()

    @classmethod
    def of(cls, secret: SecretInputs, points: NDArray[np.complex128]) -> Responses:
        """Return the responses to all moves at points z (N,).

        Several events count as if they were far apart, which they may be.
        """
        response = frequency_response(secret.system, points)
        columns = []
        for moves in secret.signals:
            size = moves.radius * np.sqrt(moves.spacing.events)
            column = size * response[:, :, [moves.column]]
            transforms = moves.transforms(points)
            columns.append(column * transforms[:, None])
        balls = tuple(response[:, :, list(index)] for index in secret.balls)
        windows = []
        for window in secret.windows:
            sizes = np.asarray(window.radii) * np.sqrt(window.spacing.events)
            powers = points[:, None] ** -np.arange(window.longest)
            own = response[:, :, list(window.columns)] * sizes
            windows.append(WindowResponse(own, powers))
        none = np.empty((*response.shape[:2], 0))
        every = np.concatenate([none, *columns], axis=2)
        return cls(every, balls, tuple(windows))

    def through(
        self, change: Callable[[NDArray[np.inexact]], NDArray[np.inexact]]
    ) -> Responses:
        """Return the responses behind a linear map at each frequency."""
        windows = []
        for window in self.windows:
            windows.append(replace(window, columns=change(window.columns)))
        balls = tuple(map(change, self.balls))
        return Responses(change(self.columns), balls, tuple(windows))

    def largest_square(self, grid: FrequencyGrid) -> float:
        """Return the largest mean square of a move."""
        squares = grid.mean(np.sum(np.abs(self.columns) ** 2, axis=1)).tolist()
        for axes in self.balls:
            form = grid.mean(adjoint(axes) @ axes)
            squares.append(np.linalg.eigvalsh(form)[-1])
        for window in self.windows:
            products = window.products(grid)
            values, _ = largest_signs(products, np.ones((1, len(products))))
            squares.append(values[0])
        return float(max(squares))


def best_spectrum(
    grid: FrequencyGrid,
    weight: NDArray[np.inexact],
    responses: Responses,
    gap: float,
    enough: float = np.inf,
    start: NDArray[np.float64] | None = None,
) -> BestSpectrum:
    """Return the spectrum of least mean tr(W S) that hides moves with some responses.

    With changes of any shape the search ends at a bound of ``enough``. It begins with
    weights ``start`` (K,) of single moves, by default all alike.
    """
    root, safe_root, inverse_root = _hermitian_roots(weight)
    priced = responses.through(partial(np.matmul, safe_root))
    windows = WindowsOnCircle(priced.windows)
    problem = SpectrumProblem(grid, priced.columns, windows, priced.balls)
    # the bound is that of the true price, whose small eigenvalues are not raised
    found = problem.solve(gap, root @ inverse_root, enough, start)
    spectrum = inverse_root @ found.spectrum @ inverse_root
    cost = float(grid.mean(np.einsum("kij,kji->k", weight, spectrum)))
    bound = min(found.lower_bound, cost)
    return found._replace(spectrum=spectrum, lower_bound=bound)


def _hermitian_roots(weight: NDArray[np.inexact]) -> list[NDArray[np.inexact]]:
    """Return W^1/2, the same with small eigenvalues raised, and the inverse of that."""
    values, vectors = np.linalg.eigh(weight)
    roots = np.sqrt(np.maximum(values, 0.0))
    raised = np.maximum(roots, LEAST_PRICE * roots.max())
    rows = adjoint(vectors)
    every = (roots, raised, 1 / raised)
    return [scaled_columns(vectors, sizes) @ rows for sizes in every]


def scaled_columns(
    stack: NDArray[np.inexact], sizes: NDArray[np.inexact]
) -> NDArray[np.inexact]:
    """Return a stack of matrices with columns multiplied by sizes (N, r)."""
    return stack * sizes[:, None, :]


def adjoint(stack: NDArray[np.inexact]) -> NDArray[np.inexact]:
    """Return conjugate transposes of a stack of matrices."""
    return stack.conj().swapaxes(-1, -2)
