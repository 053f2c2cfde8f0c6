"""Changes of any shape within a number of samples in a row, and what noise leaves of them.

A change w of k samples, each within the radius, is a sum of impulses, whose whitened
responses have the Gram matrix R (k, k). It is shifted by w^T R w, which is convex, so the
largest shift is that of some signs: the largest w^T R w over w in {-1, 1}^k. Signals that
change together are more entries of w.

Over a horizon R belongs to the window's first sample. Without one R is a Toeplitz matrix of
the products rho(m) of responses that begin m samples apart, known from the plant's
Gramian. Up to 24 entries all signs are gone through. Of more, any d with diag(d) >= R bounds
them by sum d. A Cholesky factor in doubles of a slightly smaller matrix proves that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..numerics.balls import (
    Ball,
    enclosure,
    upper_float,
)
from ..numerics.linalg import EPS, float_above, largest_later
from ..numerics.thresholds import NEGLIGIBLE
from ..privacy.repetition import Spacing
from ..secrets.secret import SignalMoves, WindowMoves, Windows
from ._apart import (
    LagBounds,
    are_few,
    bounds_apart,
    largest_along_run,
    several_together,
)
from ._patterns import MOST_RELAXED, PatternSearch, largest_pattern
from ._whitened_response import WhitenedResponse

# -- without a horizon -------------------------------------------------------------------


def square_of_window(response: WhitenedResponse, window: WindowMoves) -> Ball:
    """Return a bound of the squared shift of a change of any shape.

    The bound is the largest value up to `MOST_EXACT` entries. A ball that is not
    finite says that it takes more digits.
    """
    values, error = _products(response, window, window.longest)
    largest = float(np.abs(values).max())
    if not error <= NEGLIGIBLE * largest:
        return Ball(math.inf) if largest else Ball(0)
    if window.size > MOST_RELAXED:
        # |R| summed is no less, and takes no search
        return Ball(_sum_of_sizes(values, error))
    return Ball(largest_pattern(_toeplitz(values), error)[0])


def _products(
    response: WhitenedResponse, window: WindowMoves, count: int
) -> tuple[NDArray[np.float64], float]:
    """Return correlations (k, q, q) of the responses to impulses, and the largest error.

    The impulses are those of the window's signals, as large as their radii.
    """
    entered = response.entered(window.columns, window.radii.tolist())
    values = []
    largest = 0.0
    for matrix in entered.correlations(count):
        value, errors = enclosure(matrix)
        values.append(value)
        largest = max(largest, float(np.max(errors)))
    return np.stack(values), largest


def _toeplitz(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Gram matrix (k q, k q), by time and then by signal."""
    count, inputs, _ = values.shape
    lags = np.subtract.outer(np.arange(count), np.arange(count))
    blocks = np.where(
        (lags >= 0)[:, :, None, None],
        values[np.abs(lags)],
        values[np.abs(lags)].swapaxes(2, 3),
    )
    matrix = blocks.swapaxes(1, 2).reshape(count * inputs, count * inputs)
    return (matrix + matrix.T) / 2


def _sum_of_sizes(values: NDArray[np.float64], error: float) -> float:
    """Return the sum of |R|, rounded up."""
    count = len(values)
    sizes = (np.abs(values) + error).sum(axis=(1, 2))
    times = 2.0 * np.arange(count, 0, -1)
    times[0] = count
    return float_above(float(times @ sizes) * (1 + 8 * count * EPS), 2)


def square_of_windows(
    response: WhitenedResponse, windows: Sequence[WindowMoves]
) -> Ball:
    """Return a bound of the squared shift of changes of a group that may come together."""
    squares = [square_of_window(response, window) for window in windows]
    for square in squares:
        if not square.is_finite():
            return square
    largest = max(squares, key=lambda square: square.upper())
    spacing = Spacing.joint([window.spacing for window in windows])
    if spacing.events == 1 or not largest > 0:
        return largest
    if not spacing.is_apart:
        return largest * spacing.events**2
    bounds = WindowBounds(response, windows, spacing.separation)
    above = upper_float(largest)
    return Ball(several_together(above, bounds.at, spacing.lags))


class WindowBounds:
    """Bounds of the inner product of two changes of any shape, by how far apart they start.

    With c(tau) a bound of the product of two impulses that begin tau samples apart or more,
    it is sum over |m| < k of (k - |m|) c(|tau + m|), times the pairs of signals that change
    together.
    """

    def __init__(
        self, response: WhitenedResponse, windows: Sequence[WindowMoves], first: int
    ) -> None:
        self._longest = max(window.longest for window in windows)
        self._pairs = max(len(window.columns) for window in windows) ** 2
        impulses = []
        energies = []
        for window in windows:
            values, error = _products(response, window, 1)
            energies.append(float(np.abs(values).max()) + error)
            for column, radius in zip(
                window.columns, window.radii.tolist(), strict=True
            ):
                impulses.append(SignalMoves(column, radius))
        self._energy = max(energies) * (1 + 4 * EPS)
        self._first = max(first - self._longest + 1, 1)
        self._bounds: LagBounds = bounds_apart(
            response, impulses, self._first, self._energy
        )

    def at(self, lag: int) -> float:
        """Return the bound for a lag, no less than the first one, and all later ones."""
        k = self._longest
        steps = np.arange(1 - k, k)
        apart = np.abs(lag + steps)
        known = self._bounds.all_at(np.maximum(apart, self._first))
        ones = np.where(apart >= self._first, known, self._energy)
        total = float((k - np.abs(steps)) @ ones)
        return total * self._pairs * (1 + 8 * k * EPS)


# -- over a horizon ----------------------------------------------------------------------


def largest_of_windows(
    windows: Windows, solved: NDArray[np.float64], wrong: NDArray[np.float64] | float
) -> tuple[float, NDArray[np.float64] | None]:
    """Bound the 2-norm of all changes of any shape over a horizon.

    ``solved`` (m, N) are the responses of ``windows`` whitened, with entries as wrong as
    ``wrong``. The best signs that were found come second.
    """
    error = product_error(solved, wrong)
    search = search_in(windows, solved, error)
    square = search.largest
    if windows.spacing.events > 1:
        sizes = np.abs(solved.T @ solved) + error
        square = _largest_of_several(windows, sizes, square)
    return math.sqrt(square) * (1 + 4 * EPS), search.signs


def _largest_of_several(
    windows: Windows, sizes: NDArray[np.float64], square: float
) -> float:
    """Bound the square of several changes at a distance, of one change being ``square``.

    ``sizes`` (N, N) are the absolute products of impulses.
    """
    if are_few(windows.starts, windows.spacing):
        products = np.minimum(_products_of_windows(windows, sizes), square)
        starts = windows.starts
        return largest_along_run(np.diag(products), products, starts, windows.spacing)
    later = windows_by_lag(windows, sizes)
    lags = windows.spacing.lags
    return several_together(square, lambda lag: float(later[lag]), lags)


def search_in(
    windows: Windows, solved: NDArray[np.float64], error: float
) -> PatternSearch:
    """Return the search for the largest change, whose products are as wrong as ``error``."""
    search = PatternSearch()
    for index in windows.index:
        columns = solved[:, index]
        search.add(columns.T @ columns, error)
    return search


def squares_of(
    windows: Windows, solved: NDArray[np.float64], error: float
) -> NDArray[np.float64]:
    """Bound the squared shift of a change of each window, quickly, with all signs of few."""
    found = []
    for index in windows.index:
        columns = solved[:, index]
        found.append(largest_pattern(columns.T @ columns, error, quick=True)[0])
    return np.array(found)


def product_error(
    solved: NDArray[np.float64], wrong: NDArray[np.float64] | float
) -> float:
    """Bound the errors of products of whitened columns."""
    size = float(np.linalg.norm(solved, axis=0).max())
    errors = np.broadcast_to(wrong, solved.shape)
    doubt = float(np.linalg.norm(errors, axis=0).max())
    return doubt * (2 * size + doubt) + (len(solved) + 4) * EPS * size**2


def windows_by_lag(windows: Windows, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bound products of two changes for each lag of their starts (T,) and all later ones.

    ``sizes`` (N, N) are the absolute products of impulses.
    """
    starts = windows.starts
    lags = np.abs(np.subtract.outer(starts, starts))
    by_lag = np.zeros(int(lags.max()) + 1)
    together = _products_of_windows(windows, sizes)
    np.maximum.at(by_lag, lags.ravel(), together.ravel())
    return largest_later(by_lag)


def _products_of_windows(
    windows: Windows, sizes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Bound products (W, W) of changes of each two windows, from those of impulses."""
    held = np.zeros((len(windows.index), len(sizes)))
    for row, index in zip(held, windows.index, strict=True):
        row[index] = 1.0
    rounding = 1 + 4 * len(sizes) * EPS
    return np.asarray(held @ sizes @ held.T) * rounding
