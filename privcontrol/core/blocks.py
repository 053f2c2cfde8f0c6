"""The independent blocks of radial noise that cost least.

A loop, or a weight, often reads one direction of a secret only. Noise of one radial law hides
all of them with one length, and pays for the number of directions. Independent blocks b of
r_b rows L_b, such as those of one number of Laplace noise, pay for their own number only:

    eta = L c,    max_i sum_b sqrt((r_b + 1) / 2) |L_b c_i| <= 1,

make the variance of the noise 2 U (L'L)^-1 U' / epsilon^2 for moves U c_i. Rows of L that
nobody reads may be small, and then cost next to nothing. The rows are searched for by descent
from several starts. Nothing is claimed of the cost: the problem is not convex.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ..numerics.errors import UncertifiableError
from ..numerics.linalg import EPS
from ..numerics.thresholds import ALIKE
from .noise import MOST_NEAR, TEMPERATURES, enclosing_cross_polytope

#: Weights of the barrier, relative to the value, while the 1-norms are smoothed by
#: `TEMPERATURES` of the largest one.
_BARRIERS = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
#: Speed: times the least cost beyond which a descent is left after each smoothing.
_HOPEFUL = (math.inf, math.inf, 1.3, 1.1, 1.03, 1.01, 1.0)
#: Random turns of the Gaussian optimum that are tried, in addition to fixed ones.
_TURNS = 4

#: Directions up to which all ways to part them into blocks are tried.
_MOST_PARTED = 4

#: Largest noise of a direction that a weight does not read, over the least noise.
CAP_OF_UNREAD = 1000.0
#: Price of a direction, over that of the dearest, up to which a weight hardly reads it.
_HARDLY_READ = 0.01
#: Speed: kinds of blocks that are returned to be certified, those of least cost.
_CERTIFIED = 2

#: From X = L'L to the cost, and to minus its gradient.
Priced = Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]


@dataclass(frozen=True)
class _Norm:
    """The sum of the lengths of blocks of rows times a move, weighed by their sizes."""

    sizes: tuple[int, ...]

    @cached_property
    def _starts(self) -> NDArray[np.intp]:
        return np.cumsum([0, *self.sizes[:-1]])

    @cached_property
    def _weights(self) -> NDArray[np.float64]:
        return np.sqrt((np.array(self.sizes) + 1) / 2)

    def of(
        self, images: NDArray[np.float64], smoothing: float = 0.0
    ) -> NDArray[np.float64]:
        """Return norms (M,) of images (r, M) of moves, a little larger if smooth."""
        return self._weights @ self._lengths(images, smoothing)

    def with_slope(
        self, images: NDArray[np.float64], smoothing: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return smooth norms, and their slopes (r, M) in the images."""
        lengths = self._lengths(images, smoothing)
        steep = np.repeat(self._weights[:, None] / lengths, self.sizes, axis=0)
        return self._weights @ lengths, images * steep

    def _lengths(
        self, images: NDArray[np.float64], smoothing: float
    ) -> NDArray[np.float64]:
        squares = np.add.reduceat(images**2, self._starts, axis=0)
        return np.sqrt(squares + (smoothing / len(self.sizes)) ** 2)

    def filled(
        self, rows: NDArray[np.float64], moves: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return rows of norm 1 with blocks as large as they may be for little.

        Blocks that move little by themselves take half of what the others leave, so noise
        that nobody reads is not larger than it has to be.
        """
        images = rows @ moves
        each = self._weights[:, None] * self._lengths(images, 0.0)
        rows = rows.copy()
        for block, size in enumerate(self.sizes):
            left = 1 + ALIKE - (each.sum(axis=0) - each[block])
            gain = max(1.0, float((left / np.maximum(each[block], EPS)).min()) / 2)
            each[block] *= gain
            start = self._starts[block]
            rows[start : start + size] *= gain
        return self.normed(rows, moves)

    def normed(
        self, rows: NDArray[np.float64], moves: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return rows whose largest norm of a move is one."""
        return rows / self.of(rows @ moves).max()


@dataclass(frozen=True)
class FoundBlocks:
    """Hold blocks of so many rows L each, of norm 1 at most, and what their noise costs."""

    cost: float
    sizes: tuple[int, ...]
    rows: NDArray[np.float64]


def cheapest_blocks(
    priced: Priced,
    moves: NDArray[np.float64],
    shape: NDArray[np.float64],
    cap: float,
    rank: int,
) -> list[FoundBlocks]:
    """Return the cheapest kinds of two or more blocks, the best one first.

    No direction has noise of more than ``cap`` times the least, and so many are read as
    the ``rank`` says. The other arguments are those of `cheapest_rows`.
    """
    found = []
    for sizes in partitions(len(shape), rank):
        # moves too far apart in size for one kind may do for another
        with suppress(np.linalg.LinAlgError, UncertifiableError):
            rows, cost = cheapest_rows(priced, moves, shape, cap**-2, sizes)
            if cost < math.inf:
                rows = _Norm(sizes).filled(rows, moves)
                found.append(FoundBlocks(cost, sizes, rows))
    return sorted(found, key=lambda blocks: blocks.cost)[:_CERTIFIED]


def blocks_under_weight(
    moves: NDArray[np.float64],
    shape: NDArray[np.float64],
    priced_rows: NDArray[np.float64],
) -> list[FoundBlocks]:
    """Return the cheapest blocks for a weight that hardly reads some direction, if any.

    Coordinates are those in which the noise of least variance is the unit ball: moves
    (r, M) in it, the Gaussian optimum ``shape`` X (r, r) under the weight, and rows (q, r)
    H T with H'H the weight and T the factor of that noise. Where the weight reads all
    directions none are searched for, since the search takes far longer than a design.
    """
    count = len(moves)
    weight = priced_rows.T @ priced_rows
    prices = np.linalg.eigvalsh(weight)
    rank = int(np.count_nonzero(prices > _HARDLY_READ * prices[-1]))
    if rank in (0, count):
        return []
    if np.linalg.matrix_rank(moves) < count:
        return []  # some directions hide rounding only

    def priced(X: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        inverse = np.linalg.inv(X)
        return float(np.sum(weight * inverse)), inverse @ weight @ inverse

    return cheapest_blocks(priced, moves, shape, CAP_OF_UNREAD, rank)


def rank_read(information: NDArray[np.float64], cap: float) -> int:
    """Return in how many directions noise is nearer to the least than to its cap."""
    values = np.linalg.eigvalsh(information)
    return max(1, int(np.count_nonzero(values > 1 / cap)))


def partitions(count: int, rank: int) -> list[tuple[int, ...]]:
    """Return the sizes of two or more blocks in which ``count`` rows are tried.

    They are all there are in few directions. In more of them blocks have the ``rank`` of
    what is read and the rest, or one row each.
    """
    if count <= _MOST_PARTED:
        return [sizes for sizes in _parted(count, count) if len(sizes) > 1]
    found = [(1,) * count]
    if rank < count:
        found += [(rank, count - rank), (rank, *(1,) * (count - rank))]
    return list(dict.fromkeys(found))


def _parted(count: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to part a number into numbers that do not grow."""
    if not count:
        yield ()
    for first in range(min(count, largest), 0, -1):
        for rest in _parted(count - first, first):
            yield first, *rest


def cheapest_rows(
    priced: Priced,
    moves: NDArray[np.float64],
    shape: NDArray[np.float64],
    least: float,
    sizes: tuple[int, ...] | None = None,
) -> tuple[NDArray[np.float64], float]:
    """Return L (r, r) of norm 1 at most for all moves (r, M), L'L >= least I, and its cost.

    ``shape`` (r, r) is the Gaussian optimum X, with c_i' X c_i <= 1. Blocks have so many
    rows each, by default one.
    """
    norm = _Norm((1,) * len(shape) if sizes is None else sizes)
    search = _Search(norm, priced, moves, least)
    with np.errstate(all="ignore"):
        tried = list(_starts(norm, moves, shape, least))
        for stage in range(len(TEMPERATURES)):
            tried = [search.descended(rows, stage) for rows in tried]
            costs = np.array([search.cost(rows) for rows in tried])
            near = costs <= _HOPEFUL[stage] * costs.min(initial=math.inf)
            tried = [rows for rows, kept in zip(tried, near, strict=True) if kept]
    if not tried:
        return np.zeros_like(shape), math.inf
    best = min(tried, key=search.cost)
    return norm.normed(best, moves), search.cost(best)


def _starts(
    norm: _Norm, moves: NDArray[np.float64], shape: NDArray[np.float64], least: float
) -> Iterator[NDArray[np.float64]]:
    """Yield rows to start from, far enough above the least information."""
    count = len(shape)
    values, vectors = np.linalg.eigh(shape)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    rng = np.random.default_rng(0)
    turns = [np.eye(count), vectors]
    if len(norm.sizes) < count:
        turns.append(np.eye(count)[::-1])  # other blocks have the largest rows
    for _ in range(_TURNS):
        turns.append(np.linalg.qr(rng.standard_normal((count, count)))[0])
    inverse = np.linalg.inv(enclosing_cross_polytope(moves, np.eye(count)).factor)
    for rows in (*(turn @ root for turn in turns), inverse):
        left, sizes, right = np.linalg.svd(norm.normed(rows, moves))
        smallest = math.sqrt(math.sqrt(least) * sizes[0])  # half of the way to it
        # what makes small rows larger makes the norm larger too
        for _ in range(20):
            rows = norm.normed(left * np.maximum(sizes, smallest) @ right, moves)
            left, sizes, right = np.linalg.svd(rows)
            if sizes[-1] ** 2 > least * (1 + 1e-3):
                yield rows
                break


@dataclass(frozen=True)
class _Search:
    """Descents to rows of little cost, with less and less smoothing."""

    norm: _Norm
    priced: Priced
    moves: NDArray[np.float64]
    least: float

    def cost(self, rows: NDArray[np.float64]) -> float:
        """Return the cost of rows of norm 1, infinite where noise exceeds its cap."""
        rows = self.norm.normed(rows, self.moves)
        X = rows.T @ rows
        if not np.linalg.eigvalsh(X)[0] >= self.least:
            return math.inf
        return self.priced(X)[0]

    def descended(self, rows: NDArray[np.float64], stage: int) -> NDArray[np.float64]:
        """Return rows of less cost, with the smoothing of a stage."""
        unit, _ = self.priced(rows.T @ rows)
        rows = self.norm.normed(rows, self.moves)
        norms = self.norm.of(rows @ self.moves)
        near = self.moves[:, np.argsort(-norms, kind="stable")[:MOST_NEAR]]
        found = minimize(
            replace(self, moves=near).objective,
            rows.ravel(),
            (TEMPERATURES[stage], _BARRIERS[stage], unit),
            jac=True,
        )
        return found.x.reshape(rows.shape) if math.isfinite(found.fun) else rows

    def objective(
        self,
        entries: NDArray[np.float64],
        smoothing: float,
        barrier: float,
        unit: float,
    ) -> tuple[float, NDArray[np.float64]]:
        """Return the cost in a ``unit`` with its barrier, and the gradient in L."""
        rows = entries.reshape(-1, len(self.moves))
        size, turned = self._size(rows, smoothing)
        X = rows.T @ rows / size**2
        inside = X - self.least * np.eye(len(X))
        values = np.linalg.eigvalsh(inside)
        if not values[0] > 0:
            return math.inf, np.zeros(entries.size)
        cost, steep = self.priced(X)
        total = cost / unit - barrier * float(np.log(values).sum())
        steep = steep / unit + barrier * np.linalg.inv(inside)
        slope = -2 * rows @ steep / size**2
        slope += 2 * float(np.sum(steep * X)) / size * turned
        return total, slope.ravel()

    def _size(
        self, rows: NDArray[np.float64], smoothing: float
    ) -> tuple[float, NDArray[np.float64]]:
        """Return a smooth size above the largest norm of L c_i, and its gradient in L."""
        norms, slopes = self.norm.with_slope(rows @ self.moves, smoothing)
        shares = np.exp((norms - norms.max()) / smoothing)
        total = float(shares.sum())
        top = float(norms.max()) + smoothing * math.log(total)
        return top, (slopes * (shares / total)) @ self.moves.T
