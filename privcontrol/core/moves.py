"""Sets of tangent moves: what an adjacency comes to on a manifold.

Finitely many columns (the vertices of what must be hidden), a stream of them too long to store, or an ellipsoid.
Each answers one question: the worst image under a matrix.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.linalg

from ._circuits.hull import extreme_moves
from ._linalg import column_norms

_BLOCK = 1 << 22  # entries of one block of images: 32 MB

#: Moves that are stored; of a longer stream only those are kept whose hull holds it.
MOST_MOVES = 2_000_000

#: Candidates that a stream may go through: about a minute.
MOST_CANDIDATES = 50_000_000


def attaining(sizes):
    """Indices (at most 64) of the moves that attain the largest size."""
    return tuple(np.flatnonzero(sizes >= sizes.max() * (1 - 1e-9))[:64].tolist())


def spanned(rows, others, tolerance=1e-9):
    """Which rows (n, k) are combinations of other rows (q, k), up to a relative tolerance, as a mask (n,)."""
    sizes = column_norms(others.T)
    _, s, vt = scipy.linalg.svd(
        others[sizes > 0] / sizes[sizes > 0, None], full_matrices=False
    )
    vt = vt[s > tolerance * s.max(initial=0.0)]
    return column_norms((rows - rows @ vt.T @ vt).T) <= tolerance * column_norms(rows.T)


class Worst(NamedTuple):
    """The largest norm that a move can reach, the tangent move (k,) that does, and whether it is attained."""

    value: float
    move: np.ndarray
    exact: bool


@dataclass(frozen=True)
class FiniteMoves:
    """Tangent moves z_1 .. z_M as columns (k, M); the hidden set is the hull of +-z_i."""

    columns: np.ndarray
    #: False where the moves are an outer bound of the hidden set, so that its numbers are upper bounds.
    exact: bool = field(default=True, kw_only=True)
    #: The same moves (n, M) in data space where they were given there; their tangent coordinates are rounded.
    data: np.ndarray | None = field(default=None, kw_only=True)

    def worst(self, matrix, norm=2):
        """The largest norm of ``matrix @ z`` over the moves."""
        step = max(1, _BLOCK // max(matrix.shape[0], 1))
        best, index = -1.0, 0
        for start in range(0, self.columns.shape[1], step):
            sizes = column_norms(matrix @ self.columns[:, start : start + step], norm)
            if sizes.max() > best:
                best, index = float(sizes.max()), start + int(sizes.argmax())
        return Worst(best, self.columns[:, index], self.exact)


@dataclass(frozen=True)
class EllipsoidMoves:
    """Tangent moves z = E u with ||u||_2 <= 1; E is (k, q)."""

    factor: np.ndarray
    exact: bool = field(default=True, kw_only=True)

    def worst(self, matrix, norm=2):
        """The largest norm of ``matrix @ z``; for the 1-norm an upper bound (the maximum is NP-hard)."""
        image = matrix @ self.factor
        if norm == np.inf:
            row = int(np.linalg.norm(image, axis=1).argmax())
            direction = image[row] / max(
                np.linalg.norm(image[row]), np.finfo(float).tiny
            )
            return Worst(
                float(np.linalg.norm(image[row])), self.factor @ direction, self.exact
            )
        _, s, vt = scipy.linalg.svd(image, full_matrices=False)
        if norm == 2:
            return Worst(float(s[0]), self.factor @ vt[0], self.exact)
        bound = min(np.sqrt(len(image)) * s[0], np.linalg.norm(image, axis=1).sum())
        return Worst(float(bound), self.factor @ vt[0], self.exact and len(image) == 1)


@dataclass(frozen=True)
class StreamedMoves:
    """Tangent moves that come in blocks (k, B), ``blocks()`` starts them anew; about ``count`` of them."""

    blocks: Callable
    count: int
    exact: bool = field(default=True, kw_only=True)

    @cached_property
    def columns(self):
        """Moves (k, M) whose hull holds the whole stream, longer than theirs by less than 1e-8.

        Raises
        ------
        ValueError
            If there are too many to go through, or too many to keep; says what to do.
        """
        if self.count > MOST_CANDIDATES:
            raise ValueError(
                f"the manifold has up to {self.count:,} circuits, more than the {MOST_CANDIDATES:,} that can be gone through. "
                "Protect fewer entries or times, use StateAdjacency for a plant (block charts), or look at "
                "sampled_lower_bound, which is a lower bound only"
            )
        return extreme_moves(self.blocks(), limit=MOST_MOVES)

    def worst(self, matrix, norm=2):
        """The largest norm of ``matrix @ z`` over the moves, block by block in constant memory."""
        found = (
            FiniteMoves(block).worst(matrix, norm)
            for block in self.blocks()
            if block.size
        )
        return max(found, key=lambda worst: worst.value)
