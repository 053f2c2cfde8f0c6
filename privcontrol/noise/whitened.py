"""How large the responses to hidden moves are, as they are and whitened by a dense root.

The noise of a run is one triangular root Lambda (T p, T p) of its covariance. It is solved
with doubles, and every size is raised by what they may be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from ..core.manifold import EllipsoidMoves
from ..numerics.ellipsoid import solution_error
from ..numerics.errors import NotRealizableError
from ..numerics.linalg import EPS, column_norms, round_up
from ..numerics.thresholds import LARGEST_EXCESS, MANY_DIMENSIONS
from ..secrets.run_moves import RunMoves
from ..secrets.secret import Responses
from ..secrets.secrets import Secrets
from ..systems.linear import Plant
from ._apart import largest_apart
from ._windows import largest_of_windows
from .parts import Correlated, NoisePart, PartSum

#: Speed: parts at most that zeros keep apart in a large root.
_MOST_PARTS = 64
#: Rows and columns, as an index, and what they are solved to, with bounds of its errors.
_Places = tuple[NDArray[np.intp], ...]
_Solved = tuple[NDArray[np.float64], NDArray[np.float64]]


def output_sizes(
    secret: Secrets, plant: Plant, horizon: int, norm: int
) -> tuple[NDArray[np.float64], bool]:
    """Bound the norms of the responses to moves, and say whether they are attained."""
    if len(secret.parts) == 1 and not secret.disturbances:
        (moves,) = secret.moves(plant, horizon)
        if isinstance(moves, RunMoves):
            return moves.output_sizes(plant, norm), True
    responses = secret.responses([plant], horizon)
    exact = responses.exact
    sizes = column_norms(responses.points, norm).tolist()
    for ball in responses.balls:
        sizes.append(EllipsoidMoves.largest(ball, norm))
        exact &= norm != 1 or len(ball) == 1
    for apart in responses.apart:
        if norm == 2:
            unit = np.abs(apart.columns).max() or 1.0  # its square may be no double
            sizes.append(unit * largest_apart(apart, apart.columns / unit, 0.0))
        else:
            largest = np.linalg.norm(apart.columns, 1)
            sizes.append(apart.spacing.events * float(largest))
    for windows in responses.windows:
        exact = False
        unit = np.abs(windows.columns).max() or 1.0
        scaled = windows.columns / unit
        if norm == 2:
            sizes.append(unit * largest_of_windows(windows, scaled, 0.0)[0])
        else:
            sums = np.abs(scaled).sum(axis=0)
            most = max(float(sums[index].sum()) for index in windows.index)
            sizes.append(unit * windows.spacing.events * most)
    rounding = 4 * EPS * len(responses.points)
    return np.array(sizes) * (1 + rounding), exact


def shift_sizes(
    lower: NDArray[np.float64], responses: Responses
) -> NDArray[np.float64]:
    """Return upper bounds of ||Lambda^-1 s||_2 of each single move, then of each ball.

    Lambda (m, m) is triangular. A move of an output without noise is an error.
    """
    if responses.moved[~lower.any(axis=1)].any():
        raise NotRealizableError(
            "the noise does not cover a protected direction: a hidden move changes an output "
            "without noise"
        )
    whitened = Whitening(lower)
    sizes: list[float] = []
    if responses.points.shape[1]:
        squares = np.zeros(responses.points.shape[1])
        for (_, own), (solved, wrong) in whitened.parts(responses.points):
            squares[own] += np.sum((np.abs(solved) + wrong) ** 2, axis=0)
        sizes += np.sqrt(squares).tolist()
    for ball in responses.balls:
        solved, wrong = whitened(ball)
        slack = np.linalg.norm(wrong) + 1e-13 * np.linalg.norm(solved)
        size = np.linalg.norm(solved, 2) + slack
        sizes.append(float(size))
    for apart in responses.apart:
        solved, wrong = whitened(apart.columns)
        sizes.append(largest_apart(apart, solved, wrong))
    for windows in responses.windows:
        solved, wrong = whitened(windows.columns)
        sizes.append(largest_of_windows(windows, solved, wrong)[0])
    rounding = 1 + EPS * (len(lower) + 4)
    return round_up(np.array(sizes) * rounding, 2)


class Whitening:
    """Take columns to Lambda^-1 times them, and to bounds of the errors.

    Lambda (m, m) is triangular. Rows without noise are left out. Rows that exact zeros keep
    apart are solved for apart, and equal blocks share the bound of their errors.
    """

    def __init__(self, lower: NDArray[np.float64]) -> None:
        self._noisy = lower.any(axis=1)
        root = lower[np.ix_(self._noisy, self._noisy)]
        self._blocks: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
        self._kinds: list[tuple[NDArray[np.intp], int]] = []
        for rows in _rows_apart(root):
            block = root[np.ix_(rows, rows)]
            kind = _first_equal(block, [one for one, _ in self._blocks])
            if kind == len(self._blocks):
                # once for the solve, once for the last places of the responses
                self._blocks.append((block, 2 * solution_error(block)))
            self._kinds.append((rows, kind))

    def __call__(
        self, columns: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        entries = columns[self._noisy]
        if len(self._kinds) == 1:
            return self._solved(0, entries)
        every, wrong = np.zeros_like(entries), np.zeros_like(entries)
        for own, found in self.parts(columns):
            every[own], wrong[own] = found
        return every, wrong

    def parts(self, columns: NDArray[np.float64]) -> Iterator[tuple[_Places, _Solved]]:
        """Yield rows and columns of what is not zero, with what they are taken to."""
        entries = columns[self._noisy]
        done: list[tuple[int, NDArray[np.float64], _Solved]] = []
        for rows, kind in self._kinds:
            own = np.ix_(rows, np.flatnonzero(entries[rows].any(axis=0)))
            given = entries[own]
            alike = [one for one in done if one[0] == kind]
            number = _first_equal(given, [one for _, one, _ in alike])
            if number == len(alike):
                alike.append((kind, given, self._solved(kind, given)))
                done.append(alike[-1])
            yield own, alike[number][2]

    def _solved(self, kind: int, entries: NDArray[np.float64]) -> _Solved:
        block, error = self._blocks[kind]
        found = scipy.linalg.solve_triangular(block, entries, lower=True)
        return found, error @ np.abs(found)


def _first_equal(
    matrix: NDArray[np.float64], others: Sequence[NDArray[np.float64]]
) -> int:
    """Return the position of the first equal matrix, and their number if there is none."""
    equal = (k for k, one in enumerate(others) if np.array_equal(one, matrix))
    return next(equal, len(others))


def _rows_apart(root: NDArray[np.float64]) -> list[NDArray[np.intp]]:
    """Return the rows of each part of a large matrix (m, m) that exact zeros keep apart."""
    everything = [np.arange(len(root))]
    if len(root) < MANY_DIMENSIONS:
        return everything
    links = scipy.sparse.csr_array(root != 0)
    count, labels = connected_components(links, directed=False)
    if count > _MOST_PARTS:
        return everything
    return [np.flatnonzero(labels == k) for k in range(count)]


def triangular_root(factor: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return L (m, m), triangular, with the covariance and zero rows of a factor."""
    size = len(factor)
    noisy = factor.any(axis=1)
    rows = factor[noisy]
    (triangle,) = scipy.linalg.qr(rows.T, mode="r")
    upper = triangle[: len(rows)]
    upper[np.diag(upper) < 0] *= -1.0
    lower = np.zeros((size, size))
    lower[np.ix_(noisy, noisy)] = upper.T
    return lower


def floored_root(
    parts: NDArray[np.float64], floor: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Return the root of parts parts^T + diag(floor^2), and its relative error."""
    together = np.hstack([parts, np.diag(floor)])
    root = triangular_root(together)
    stds = column_norms(root.T)
    return root, _error_of(root, (stds / floor).max())


def _error_of(root: NDArray[np.float64], condition: float) -> float:
    """Return by what part of it a shift may be wrong for the rounding of its root.

    The root is that of M + E for the rows M of the noise, each row of E being some units
    in the last place of that row's length (Higham 2002, Theorem 19.4). So no shift is more
    than ||E|| / s wrong, with the least singular value s of M, both for rows of length one.
    ``condition`` is at least 1 / s.
    """
    return float(16 * len(root) * EPS * condition)


def dense_root(
    parts: Sequence[NoisePart], horizon: int
) -> tuple[NDArray[np.float64] | None, float]:
    """Return the root (T p, T p) of the covariance of a run, and its relative error.

    It is None if double precision does not prove that all changed outputs have noise.
    """
    first = parts[0]
    if len(parts) == 1 and isinstance(first, Correlated):
        return first.root, 0.0
    total = PartSum(parts)
    white = np.tile(total.white, horizon)
    columns = total.responses(horizon).reshape(len(white), -1)
    if white.all():
        return floored_root(columns, white)
    noisy = columns.any(axis=1)
    if noisy.sum() > columns.shape[1]:
        return None, np.inf
    root = triangular_root(columns)
    inner = root[np.ix_(noisy, noisy)]
    stds = column_norms(inner.T)
    least = float(np.linalg.norm(inner / stds[:, None], -2))
    error_bound = _error_of(root, 1 / least) if least else np.inf
    if not error_bound < LARGEST_EXCESS:
        return None, np.inf
    return root, error_bound
