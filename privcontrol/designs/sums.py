"""Sums of several levels at a distance, as moves that a spectrum must hide.

Each level may be as long as one change, have either sign, and begin at the least distance
from the one before or later. For the best spectrum so far a search improves one level
after the other. The sums that it finds are moves, so they join the ones
of which the bound of the cost is made, until none shows more than is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..noise._levels import LevelProducts
from ..numerics.progress import piece
from ..numerics.thresholds import ALIKE, FEW_ROUNDS, ROUGH
from ..privacy.repetition import Spacing
from ..secrets.secret import Apart
from ..systems.linear import LEAP
from .windowed import BestSpectrum, Circle

#: Levels of a sum, if there are more than the second number of them. Then as many sums as
#: fit are far apart from one another.
_TOGETHER = (8, 12)
#: Speed: sums found before from which a search begins.
_KNOWN = 3
#: Speed: weight of a new sum to begin with.
_NEW = 0.02


@dataclass(frozen=True)
class LevelSum:
    """Levels with their starts, lengths and signs (m,)."""

    starts: NDArray[np.intp]
    lengths: NDArray[np.intp]
    signs: NDArray[np.floating]

    def transform(self, z: NDArray[np.inexact]) -> NDArray[np.inexact]:
        """Return the sum (N,) of the samples v(t) z^-t at points z (N,)."""
        ends = self.starts + self.lengths
        shape = np.zeros(int(ends.max()))
        for start, end, sign in zip(self.starts, ends, self.signs, strict=True):
            shape[start:end] += sign
        return np.polyval(shape[::-1], 1 / z)


@dataclass(frozen=True)
class LevelSums:
    """Sums of levels of one signal that may come in one run.

    Attributes
    ----------
    longest : int
        Samples of a level at most.
    spacing : Spacing
        Of the levels of a run.
    """

    longest: int
    spacing: Spacing

    @property
    def count(self) -> int:
        """Levels of a sum."""
        least, most = _TOGETHER
        events = self.spacing.events
        if events <= most:
            return events
        return max(range(least, most + 1), key=lambda m: events // m * m)

    @property
    def times(self) -> int:
        """Sums that a run has room for."""
        return self.spacing.events // self.count

    @property
    def span(self) -> int:
        """Samples of a sum at the least distance."""
        return (self.count - 1) * self.spacing.separation + self.longest

    @property
    def reach(self) -> int:
        """Lags that two levels of a sum may have."""
        apart = self.spacing.separation + 2 * self.longest
        return self.count * apart + 2 * self.longest

    def largest(
        self, correlations: NDArray[np.float64], known: Sequence[LevelSum] = ()
    ) -> list[tuple[float, LevelSum]]:
        """Return squares and sums that no change of one level enlarges.

        ``correlations`` (`reach`,) are those of what is left of an impulse. The search
        begins with the longest levels of one sign and of alternating signs, and with sums
        that are ``known``.
        """
        products = LevelProducts(correlations)
        steps = np.arange(self.count)
        longest = np.full(self.count, self.longest)
        starts = [
            LevelSum(steps * self.spacing.separation, longest, signs)
            for signs in (np.ones(self.count), (-1.0) ** steps)
        ]
        return [self._improved(start, products) for start in [*starts, *known]]

    def _improved(
        self, start: LevelSum, products: LevelProducts
    ) -> tuple[float, LevelSum]:
        """Return a sum of which each level is the best beside the others, and its square."""
        starts, lengths = start.starts.copy(), start.lengths.copy()
        signs = start.signs.copy()
        every = np.arange(1, self.longest + 1)
        own = products(every, every, np.zeros_like(every))
        square = 0.0
        while True:
            before = square
            for k in range(self.count):
                times = self._times(starts, k)
                beside = np.zeros((len(times), self.longest))
                for other in np.delete(np.arange(self.count), k):
                    lags = starts[other] - times
                    each = products(every, lengths[other], lags[:, None])
                    beside += signs[other] * each
                gains = own + 2 * np.abs(beside)
                place, length = np.unravel_index(gains.argmax(), gains.shape)
                starts[k] = times[place]
                lengths[k] = every[length]
                signs[k] = 1.0 if beside[place, length] >= 0 else -1.0
            lags = starts[None, :] - starts[:, None]
            pairs = products(lengths[:, None], lengths[None, :], lags)
            square = float(signs @ pairs @ signs)
            if square <= before * (1 + ALIKE):
                return square, LevelSum(starts - starts[0], lengths, signs)

    def _times(self, starts: NDArray[np.intp], k: int) -> NDArray[np.intp]:
        """Return when a level may begin between its neighbours."""
        if k == 0:
            last = starts[1] - self.spacing.separation
            return np.arange(last - self.longest, last + 1)
        first = starts[k - 1] + self.spacing.separation
        last = first + self.longest
        if k + 1 < self.count:
            last = min(last, starts[k + 1] - self.spacing.separation)
        return np.arange(first, last + 1)


def sums_of_run(whitened: NDArray[np.float64], changes: Apart) -> NDArray[np.float64]:
    """Return signs (M, S) of changes whose sums show much, and keep their distance.

    ``whitened`` (m, M) are the changes. Each begins a sum, which takes the change that
    shows most beside those that it has, as long as one fits into the run.
    """
    products = whitened.T @ whitened
    squares = np.diag(products)
    starts = changes.starts
    apart = np.abs(np.subtract.outer(starts, starts)) >= changes.spacing.separation
    every = np.arange(len(products))
    signs = np.eye(len(products))
    beside = products.copy()
    free = apart.copy()
    for _ in range(changes.spacing.events - 1):
        gains = np.where(free, squares + 2 * np.abs(beside), -np.inf)
        best = gains.argmax(axis=1)
        size = np.where(beside[every, best] >= 0, 1.0, -1.0)
        size[~free[every, best]] = 0.0
        signs[every, best] += size
        beside += size[:, None] * products[best]
        free &= apart[best]
    first = signs[every, (signs != 0).argmax(axis=1)]
    return np.unique(signs * first[:, None], axis=0).T


def with_sums(
    circle: Circle,
    response: NDArray[np.inexact],
    sums: LevelSums,
    columns: NDArray[np.inexact],
    solved: Callable[[NDArray[np.inexact], NDArray[np.float64] | None], BestSpectrum],
    tol: float,
) -> BestSpectrum:
    """Return the best spectrum that hides sums of levels as well as other moves.

    Parameters
    ----------
    circle : Circle
        Frequencies that resolve what a sum is after so many samples.
    response : ndarray, shape (N,)
        Of the one output to an impulse of the radius.
    sums : LevelSums
        The sums.
    columns : ndarray, shape (N, 1, K)
        Responses to the other moves.
    solved : callable
        Takes responses, and weights to begin with, to the best spectrum for them.
    tol : float
        Relative excess of a sum's square that is left.
    """
    energy = np.abs(response) ** 2
    found = best = solved(columns, None)
    known: list[LevelSum] = []
    for update in range(FEW_ROUNDS):
        left = energy / found.spectrum[:, 0, 0].real
        correlations = _correlations(circle, left, sums.reach)
        added = []
        largest = sums.largest(correlations, known[-_KNOWN:])
        for square, each in largest:
            if square * sums.times > 1 + tol:
                known.append(each)
                size = np.sqrt(sums.times) * response * each.transform(circle.points)
                added.append(size[:, None])
        if not added:
            break
        singles = found.weights.singles
        kept = singles > ROUGH * singles.max()
        columns = np.dstack([columns[:, :, kept], *added])
        weights = np.append(singles[kept], np.full(len(added), _NEW))
        with piece(update, FEW_ROUNDS):
            found = solved(columns, weights / weights.sum())
        best = max(best, found, key=lambda each: each.lower_bound)
    return best


def _correlations(
    circle: Circle, values: NDArray[np.float64], count: int
) -> NDArray[np.float64]:
    """Return the means (count,) over the circle of values times z^m."""
    angles = np.angle(circle.points)
    weighted = circle.weights * values
    steps = np.arange(0, count, LEAP)
    within = np.exp(1j * np.outer(angles, np.arange(LEAP)))
    blocks = [(weighted * np.exp(1j * step * angles)) @ within for step in steps]
    return np.concatenate(blocks).real[:count]
