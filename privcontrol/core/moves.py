"""Sets of tangent moves, the differences between data sets that must look alike.

A set holds finitely many moves, or a ball. Both kinds answer the same questions: how large
the worst shift is, how a query responds, and which moves attain the worst.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ._balls import Ball, BallMatrix, ball_matrix, upper_bounds
from ._linalg import EPS, column_norms, round_up

_BLOCK = 1 << 22  # entries of one block of images: 32 MB

#: Relative error of a response above which ball arithmetic is asked for a smaller one.
_SHARP = 1e-10

#: Attaining moves that a loss names.
_MOST_NAMED = 64


def attaining(sizes: NDArray) -> tuple[int, ...]:
    """Return the indices (at most 64) of the moves that attain the largest size."""
    largest = sizes >= sizes.max() * (1 - 1e-9)
    indices = np.flatnonzero(largest)[:_MOST_NAMED]
    return tuple(indices.tolist())


def spanned(rows: NDArray, others: NDArray, tolerance: float = 1e-9) -> NDArray:
    """Return a mask (n,) of the rows (n, k) that are combinations of others (q, k)."""
    sizes = column_norms(others.T)
    present = sizes > 0
    unit = others[present] / sizes[present, None]
    _, s, vt = scipy.linalg.svd(unit, full_matrices=False)
    large = s > tolerance * s.max(initial=0.0)
    basis = vt[large]
    along = rows @ basis.T
    rest = rows - along @ basis
    small = tolerance * column_norms(rows.T)
    return column_norms(rest.T) <= small


class Query(Protocol):
    """The part of a `LinearQuery` that moves ask for."""

    @property
    def size(self) -> int: ...

    @property
    def response(self) -> NDArray: ...

    @property
    def rounding(self) -> NDArray: ...

    def applied(
        self, data: NDArray, errors: NDArray | None
    ) -> tuple[NDArray, NDArray]: ...

    def ball_product(self, data: NDArray | Sequence) -> BallMatrix | None: ...


class Moves(ABC):
    """A set of tangent moves. What must be hidden is its convex hull with signs.

    Below, "shifts" are the images (r, M) of `vectors` under any linear map, such as the
    whitening of a noise.
    """

    #: Whether `vectors` are the axes of a ball rather than single moves.
    is_ball: ClassVar[bool] = False

    #: False where the set is an outer bound of what must be hidden.
    exact: bool

    @property
    @abstractmethod
    def vectors(self) -> NDArray:
        """The moves, or the axes of the ball, in tangent coordinates (k, M)."""

    @abstractmethod
    def sizes(self, shifts: NDArray, norm: float = 2) -> NDArray:
        """Return the norms (M,) of the moves' shifts, of a ball the largest (1,).

        They are above the roundings of their sums.
        """

    @abstractmethod
    def enlarged(self, shifts: NDArray, errors: NDArray) -> NDArray:
        """Return shifts as large as any within the bounds of their errors."""

    def worst_shift(self, shifts: NDArray, norm: float = 2) -> float:
        """Return the largest norm of the shift of a move, rounded up."""
        return float(round_up(self.sizes(shifts, norm).max(), 2))

    def attaining(self, shifts: NDArray, norm: float = 2) -> tuple[int, ...]:
        """Return the indices of `vectors` with the largest shifts, none of a ball."""
        return attaining(self.sizes(shifts, norm))

    def sensitivity(self, query: Query, norm: float = 2) -> float:
        """Return the largest norm of a query's response to a move, rounded up."""
        responses = self.enlarged(*self.output_responses(query))
        return self.worst_shift(responses, norm) if responses.any() else 0.0

    @property
    def moved(self) -> NDArray:
        """Mask (k,) of the tangent coordinates that some move may change."""
        return np.any(self.vectors, axis=1)

    def attained(self, indices: Sequence[int]) -> NDArray:
        """Return the moves (k, s) with these indices, of a ball its axes."""
        return self.vectors[:, list(indices)]

    def output_responses(self, query: Query) -> tuple[NDArray, NDArray]:
        """Return the responses (m, M) of a query to `vectors`, and bounds of their errors."""
        responses = query.response @ self.vectors
        return responses, query.rounding @ np.abs(self.vectors)

    def ball_responses(self, query: Query) -> tuple[BallMatrix, NDArray]:
        """Return `output_responses` as balls, and bounds of the errors beyond them."""
        responses, errors = self.output_responses(query)
        return ball_matrix(responses), errors

    #: Working precision that `balls` is good for.
    bits: int = 320

    def balls(self, rows: Iterable[int]) -> list[list[Ball]]:
        """Return chosen rows of `vectors` as a table of balls."""
        return ball_matrix(self.vectors[list(rows)]).tolist()


@dataclass(frozen=True, eq=False)
class FiniteMoves(Moves):
    """Tangent moves z_1 .. z_M.

    Where the moves were found in data space, their tangent coordinates are rounded, and
    nothing is computed from those.
    """

    columns: NDArray  # the moves in tangent coordinates (k, M)
    exact: bool = field(default=True, kw_only=True)
    #: The moves in data space (n, M).
    data: NDArray | None = field(default=None, kw_only=True)
    #: Bounds of the errors of `data`, or of `columns` without data.
    errors: NDArray | None = field(default=None, kw_only=True)
    #: `data` as M columns of exact rationals.
    rationals: list | None = field(default=None, kw_only=True, repr=False)

    @property
    def vectors(self) -> NDArray:
        return self.columns

    def sizes(self, shifts: NDArray, norm: float = 2) -> NDArray:
        return column_norms(shifts, norm) * (1 + EPS * (len(shifts) + 2))

    def enlarged(self, shifts: NDArray, errors: NDArray) -> NDArray:
        return shifts + np.copysign(errors, shifts)

    def output_responses(self, query: Query) -> tuple[NDArray, NDArray]:
        if self.data is None:
            responses, bounds = super().output_responses(query)
            if self.errors is not None:
                bounds = bounds + np.abs(query.response) @ self.errors
                bounds = bounds + query.rounding @ self.errors
            return responses, bounds
        return query.applied(self.data, self.errors)

    def ball_responses(self, query: Query) -> tuple[BallMatrix, NDArray]:
        source = self.data if self.errors is None else self.rationals
        if source is not None:
            product = query.ball_product(source)
            if product is not None:
                return product, np.zeros((query.size, self.columns.shape[1]))
        return super().ball_responses(query)

    @property
    def moved(self) -> NDArray:
        moved = np.any(self.columns, axis=1)
        if self.errors is not None and self.data is None:
            moved = moved | self.errors.any(axis=1)
        return moved

    def balls(self, rows: Iterable[int]) -> list[list[Ball]]:
        rows = list(rows)
        if self.data is not None or self.errors is None:
            return super().balls(rows)
        values = self.columns[rows].tolist()
        errors = self.errors[rows].tolist()
        return [list(map(Ball, *pair)) for pair in zip(values, errors)]

    def sensitivity(self, query: Query, norm: float = 2) -> float:
        largest = 0.0
        for part in self._blocks(query.size):
            responses, errors = part.output_responses(query)
            if (errors > _SHARP * np.abs(responses).max()).any():
                balls, errors = part.ball_responses(query)
                responses = upper_bounds(balls)
            responses = np.abs(responses) + errors
            if responses.any():
                largest = max(largest, part.worst_shift(responses, norm))
        return largest

    def _blocks(self, rows: int) -> Iterable[FiniteMoves]:
        """Cut the moves into blocks whose images of this many rows fit in memory."""
        step = max(1, _BLOCK // max(rows, 1))
        for start in range(0, self.columns.shape[1], step):
            block = slice(start, start + step)
            yield FiniteMoves(
                self.columns[:, block],
                exact=self.exact,
                data=None if self.data is None else self.data[:, block],
                errors=None if self.errors is None else self.errors[:, block],
                rationals=None if self.rationals is None else self.rationals[block],
            )


@dataclass(frozen=True, eq=False)
class EllipsoidMoves(Moves):
    """Tangent moves z = E u with ||u||_2 <= 1 and E of shape (k, q)."""

    is_ball: ClassVar[bool] = True

    factor: NDArray
    exact: bool = field(default=True, kw_only=True)

    @property
    def vectors(self) -> NDArray:
        return self.factor

    @staticmethod
    def largest(image: NDArray, norm: float = 2) -> float:
        """Return the largest norm of ``image @ u`` over the unit ball.

        It is an upper bound in the 1-norm for several rows, where the maximum is NP-hard.
        """
        if norm == 2:
            return float(np.linalg.norm(image, 2))
        rows = np.linalg.norm(image, axis=1)
        if norm == np.inf:
            return float(rows.max())
        return float(min(math.sqrt(len(image)) * np.linalg.norm(image, 2), rows.sum()))

    def sizes(self, shifts: NDArray, norm: float = 2) -> NDArray:
        rounding = 1e-14 + 4 * EPS * len(shifts)
        return np.array([self.largest(shifts, norm) * (1 + rounding)])

    def attaining(self, shifts: NDArray, norm: float = 2) -> tuple[int, ...]:
        return ()

    def enlarged(self, shifts: NDArray, errors: NDArray) -> NDArray:
        size = np.linalg.norm(shifts, 2)
        if not size:
            return errors
        # in every norm that is asked for
        share = math.sqrt(len(shifts)) * np.linalg.norm(errors) / size
        return shifts * (1 + share)

    def attained(self, indices: Sequence[int]) -> NDArray:
        return self.factor
