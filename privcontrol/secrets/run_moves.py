"""Moves of a run's initial state as balls, and what their outputs are asked for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..core.manifold import FiniteMoves, Moves
from ..numerics.balls import Ball, BallMatrix, ball_matrix, block_balls, working_bits
from ..systems.linear import Plant


class RunMoves(FiniteMoves):
    """Base of moves whose responses are those of a plant's past and future.

    They are not computed from rounded moves of the initial state.
    """

    @abstractmethod
    def responses(
        self, plant: Plant, columns: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """Return the outputs (T p, M) of chosen moves."""

    @abstractmethod
    def output_sizes(self, plant: Plant, norm: float) -> NDArray[np.float64]:
        """Return bounds (M,) of the norms of the outputs of all moves."""


@dataclass(frozen=True, eq=False)
class BallMoves(FiniteMoves):
    """Moves of the initial state as balls (n, M), from which ``columns`` are rounded."""

    matrix: BallMatrix
    bits: int = field(kw_only=True)  # working precision of the balls

    @classmethod
    def side_by_side(cls, parts: Sequence[Moves]) -> BallMoves:
        """The moves of several sets, as exact as each of them is."""
        columns = np.hstack([part.vectors for part in parts])
        rows = range(len(columns))
        bits = max(part.bits for part in parts)
        with working_bits(bits):
            blocks = [ball_matrix(part.balls(rows)) for part in parts]
        return BallMoves(
            columns,
            block_balls([blocks]),
            bits=bits,
            exact=all(part.exact for part in parts),
            errors=roundings(columns),
        )

    def blocks(self) -> Iterable[BallMatrix]:
        yield self.matrix

    def balls(self, rows: Iterable[int]) -> list[list[Ball]]:
        """Chosen rows of the moves as a table of balls."""
        table = self.matrix.tolist()
        return [table[int(row)] for row in rows]


def roundings(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bounds of the errors of rounded numbers, of which zeros are exact."""
    errors = np.abs(columns)
    np.spacing(errors, out=errors)
    errors[columns == 0] = 0.0
    return errors
