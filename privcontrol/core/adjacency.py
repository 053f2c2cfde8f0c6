"""Adjacency: which moves of the private data must stay hidden.

An adjacency resolves against a manifold to a set of tangent moves: finitely many columns (the vertices of what
must be hidden) or an ellipsoid. Everything later asks such a set one question: the worst image under a matrix.
"""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg

from ._linalg import real_array

_BLOCK = 1 << 22  # entries of one block of images: 32 MB


class Worst(NamedTuple):
    """The largest norm that a move can reach, the tangent move (k,) that does, and whether it is attained."""

    value: float
    move: np.ndarray
    exact: bool


@dataclass(frozen=True)
class FiniteMoves:
    """Tangent moves z_1 .. z_M as columns (k, M); the hidden set is the hull of +-z_i."""

    columns: np.ndarray

    def worst(self, matrix, norm=2):
        """The largest norm of ``matrix @ z`` over the moves."""
        step = max(1, _BLOCK // max(matrix.shape[0], 1))
        best, index = -1.0, 0
        for start in range(0, self.columns.shape[1], step):
            sizes = np.linalg.norm(matrix @ self.columns[:, start : start + step], ord=norm, axis=0)
            if sizes.max() > best:
                best, index = float(sizes.max()), start + int(sizes.argmax())
        return Worst(best, self.columns[:, index], True)


@dataclass(frozen=True)
class EllipsoidMoves:
    """Tangent moves z = E u with ||u||_2 <= 1; E is (k, q)."""

    factor: np.ndarray

    def worst(self, matrix, norm=2):
        """The largest norm of ``matrix @ z``; for the 1-norm an upper bound (the maximum is NP-hard)."""
        image = matrix @ self.factor
        if norm == np.inf:
            row = int(np.linalg.norm(image, axis=1).argmax())
            direction = image[row] / max(np.linalg.norm(image[row]), np.finfo(float).tiny)
            return Worst(float(np.linalg.norm(image[row])), self.factor @ direction, True)
        _, s, vt = scipy.linalg.svd(image, full_matrices=False)
        if norm == 2:
            return Worst(float(s[0]), self.factor @ vt[0], True)
        bound = min(np.sqrt(len(image)) * s[0], np.linalg.norm(image, axis=1).sum())
        return Worst(float(bound), self.factor @ vt[0], len(image) == 1)


class Adjacency(ABC):
    """Which pairs of private data must look alike.

    A subclass says which moves it hides and states itself in words; guarantees carry that statement.
    """

    @abstractmethod
    def moves(self, manifold):
        """The hidden moves in tangent coordinates: `FiniteMoves` or `EllipsoidMoves`."""

    @property
    @abstractmethod
    def statement(self):
        """One public clause: what moves, and by how much."""

    @abstractmethod
    def to_dict(self):
        """JSON-ready public description; equal descriptions mean equal adjacencies."""

    def caveats(self, manifold):
        """Sentences on what this adjacency does not hide, for the guarantee's text."""
        return ()

    def __eq__(self, other):
        return isinstance(other, Adjacency) and self.to_dict() == other.to_dict()

    def __hash__(self):
        return hash(repr(self.to_dict()))


@dataclass(frozen=True, eq=False, repr=False)
class DirectionAdjacency(Adjacency):
    """Explicit moves of the data, already scaled: x and x' are adjacent if they differ by one of them.

    Parameters
    ----------
    directions : array_like, shape (n, M)
        Moves in data space, in the data's units; each must be tangent to the manifold it is used with. They are
        public. Smaller moves along the same line, and convex combinations, are hidden too.

    Examples
    --------
    >>> DirectionAdjacency([[1.0], [-1.0]])
    DirectionAdjacency(1 direction in R^2)
    """

    directions: np.ndarray

    def __post_init__(self):
        moves = real_array(self.directions, "directions", ndim=2)
        if not moves.size or not np.any(moves, axis=0).all():
            raise ValueError(
                f"directions: expected nonzero columns (n, M), got shape {moves.shape} with an empty or zero column"
            )
        object.__setattr__(self, "directions", moves)

    def moves(self, manifold):
        if len(self.directions) != manifold.size:
            raise ValueError(
                f"directions: expected {manifold.size} rows, one an entry of the data, got {len(self.directions)}"
            )
        return FiniteMoves(manifold.tangent(self.directions))

    @property
    def statement(self):
        count = self.directions.shape[1]
        return (
            f"the data move along {'the' if count == 1 else 'one of ' + str(count)} given direction{'s' * (count > 1)}"
        )

    def to_dict(self):
        digest = hashlib.sha256(np.ascontiguousarray(self.directions).tobytes()).hexdigest()
        return {"type": "DirectionAdjacency", "shape": list(self.directions.shape), "sha256": digest}

    def __repr__(self):
        n, count = self.directions.shape
        return f"DirectionAdjacency({count} direction{'s' * (count != 1)} in R^{n})"
