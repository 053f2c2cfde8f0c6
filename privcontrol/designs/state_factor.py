"""The least costly structured noise that hides moves of a state, in ball arithmetic.

The moves of a trajectory differ in size by hundreds of decades. Their coordinates are
taken in ball arithmetic, in a basis of the moves themselves, so the design problem
is well scaled. The finished factor S is then checked against every move in balls. What
the check does not prove is not returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core.manifold import Moves
from ..numerics.balls import (
    CERTIFICATE_BITS,
    BallMatrix,
    ball_matrix,
    block_balls,
    inverse_balls,
    midpoints,
    submatrix,
    upper_bounds,
    working_bits,
)
from ..numerics.ellipsoid import MoveBasis, Shape, gaussian_shape
from ..numerics.errors import PrivacyError, UncertifiableError
from ..numerics.linalg import EPS, column_norms, consecutive, float_above
from ..numerics.pairs import Pairs
from ..numerics.progress import piece
from ..numerics.thresholds import (
    LARGEST_EXCESS,
    LARGEST_SIZE,
    MOST_ROUNDS,
    NEAREST,
    SHARP,
    THINNEST,
)
from ..secrets.modes import growing_mode
from ..secrets.run_moves import RunMoves
from ..secrets.state_moves import StateMoves
from ..systems.linear import Plant
from ..systems.powers import seen_states

#: Beyond this coordinate the basis is so badly chosen that weights carry no digits.
_LARGEST_COORDINATE = 1e3


def structured_factor(
    plant: Plant,
    moves: Moves,
    horizon: int,
    weight_root: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    allowed: float,
    *,
    shape: Callable[..., Shape] = gaussian_shape,
    norm: float = 2,
) -> Shape:
    """The least costly S for finitely many moves whose shifts do not exceed ``allowed``.

    ``weight_root`` maps output columns B (T p, r) to H B with H^T H = W. ``shape`` and
    ``norm`` are those of the noise's family, 2 for Gaussian and 1 for Laplace noise.

    Raises
    ------
    PrivacyError
        If no protected move reaches an output.
    UncertifiableError
        If no factor in double precision has the promised guarantee.
    """
    # what no hidden move changes, or no output sees, needs no noise, exactly
    rows = np.flatnonzero(moves.moved & seen_states(plant, horizon))
    if not len(rows):
        raise PrivacyError(
            "no output depends on the protected states within the horizon: nothing of "
            "them is published, and no noise is needed"
        )
    designs = []
    lower_bounds = [0.0]
    largest_response = 0.0
    for padding in (0.0, THINNEST):
        with piece(0, 3):
            problem = _Problem(plant, moves, rows, padding)
            basis = problem.move_basis(horizon)
        if basis is None:
            continue
        response = float(np.abs(basis.responses).max())
        largest_response = max(largest_response, response)
        if response > LARGEST_SIZE:
            continue
        weighted = weight_root(basis.responses)
        counted = moves.vectors.shape[1] if padding else None
        with piece(1, 3):
            found = shape(basis, weighted, counted=counted)
        lower_bounds.append(found.lower_bound)
        factor = basis.moves @ found.factor * float_above(1 / allowed, 2)
        with piece(2, 3):
            shifts = problem.shifts(factor)
        excess = moves.worst_shift(shifts, norm) / allowed
        if excess < 1 + LARGEST_EXCESS:
            cost = float(np.sum((weighted @ found.factor) ** 2)) * excess**2
            designs.append((cost, problem, factor, shifts))
        if excess < 1 + SHARP:
            break
    if not designs:
        raise _uncertified(plant, moves, horizon, largest_response)
    _, problem, factor, shifts = min(designs, key=lambda design: design[0])
    factor = problem.enlarged(factor, shifts, allowed, norm)
    full = np.zeros((plant.order, len(rows)))
    full[rows] = factor
    lower_bound = max(lower_bounds) / allowed**2
    return Shape(full, lower_bound)


def _uncertified(
    plant: Plant, moves: Moves, horizon: int, largest_response: float
) -> UncertifiableError:
    """The error of a design without a certified factor, with its cause."""
    vectors = moves.vectors
    if plant.varies:
        return UncertifiableError(
            f"over {horizon} samples this plant, which varies, makes hidden moves and their "
            "responses so different in size that double precision cannot certify noise for "
            "all of them. Shorten the horizon, or protect fewer states or fewer times "
            "(StateAdjacency(times=...))"
        )
    moderate = np.abs(vectors).max() < math.sqrt(LARGEST_SIZE)
    if largest_response > LARGEST_SIZE and moderate:
        return UncertifiableError(
            f"over {horizon} samples the outputs' response to a hidden move grows to "
            f"{largest_response:.1e}, because of the unstable mode "
            f"{growing_mode(plant)}: double precision cannot certify noise of that size. "
            "Shorten the horizon, or protect other states"
        )
    sizes = np.linalg.norm(vectors, axis=0)
    return UncertifiableError(
        f"the hidden moves of the initial state span sizes from {sizes.min():.1e} to "
        f"{sizes.max():.1e} over the horizon of {horizon} samples: double precision "
        "cannot certify noise for both. Shorten the horizon, protect fewer states, or "
        "fewer times (StateAdjacency(times=...))"
    )


def _pivots(columns: NDArray[np.float64]) -> NDArray[np.integer]:
    """The order in which a pivoted QR factorisation takes columns (r, M), which it changes."""
    return scipy.linalg.lapack.dgeqp3(columns, overwrite_a=True)[1] - 1


class _Problem:
    """The hidden moves and the padding, as balls (r, M), for the states with noise."""

    def __init__(
        self, plant: Plant, moves: Moves, rows: NDArray[np.intp], padding: float
    ) -> None:
        self.plant = plant
        self.moves = moves
        self.rows = rows
        self.columns = moves.vectors[consecutive(rows)]
        self.count = self.columns.shape[1]
        #: The moves where pairs of doubles tell them, without padding.
        self.told = None
        if isinstance(moves, StateMoves) and moves.free.is_long and not padding:
            self.told = moves
        self.extra = np.zeros((len(rows), 0))
        if padding:
            self.extra = np.diag(padding * np.abs(self.columns).max(axis=1))
            self.columns = np.hstack([self.columns, self.extra])

    @cached_property
    def hidden(self) -> BallMatrix:
        """The moves without the padding."""
        with working_bits(self.moves.bits):
            return ball_matrix(self.moves.balls(self.rows))

    @cached_property
    def balls(self) -> BallMatrix:
        """The moves and the padding."""
        if not self.extra.size:
            return self.hidden
        with working_bits(self.moves.bits):
            return block_balls([[self.hidden, ball_matrix(self.extra)]])

    def _square(self, basis: NDArray[np.integer]) -> BallMatrix:
        """Some of the moves and the padding (r, r)."""
        if self.told is None:
            return submatrix(self.balls, range(len(self.rows)), basis.tolist())
        with working_bits(self.moves.bits):
            return ball_matrix(self.told.picked(basis).balls(self.rows))

    def move_basis(self, horizon: int) -> MoveBasis | None:
        """A `MoveBasis` of large volume, with coordinates from balls.

        Returns None if the moves do not span the rows, or nearly so.
        """
        scale = np.abs(self.columns).max(axis=1)[:, None]
        if self.columns.shape[1] < len(self.rows) or not scale.all():
            return None
        basis = _pivots(self.columns / scale)[: len(self.rows)]
        scaled = self.columns[:, basis] / scale
        if not scaled.any(axis=0).all():
            return None
        unit = scaled / column_norms(scaled)
        if np.linalg.cond(unit) > 1 / EPS:  # no factor in doubles could carry it
            return None
        coordinates = self._coordinates(basis)
        if coordinates is None:
            return None
        if not np.abs(coordinates).max() <= _LARGEST_COORDINATE:
            return None
        responses = self._responses(basis, horizon)
        return MoveBasis(self.columns[:, basis], responses, coordinates)

    def _coordinates(self, basis: NDArray[np.integer]) -> NDArray[np.float64] | None:
        """All moves in those of a basis (r, M), None if these may be dependent."""
        if len(basis) == self.columns.shape[1]:  # there are no others
            return np.eye(len(basis))[np.argsort(basis)].T
        square = self._square(basis)
        coordinates = self._solved_in_pairs(square, lambda solved: solved.high)
        if coordinates is not None:
            return coordinates
        solved = self._sharp(lambda: square.solve(self.balls))
        return None if solved is None else midpoints(solved)

    def _responses(
        self, basis: NDArray[np.integer], horizon: int
    ) -> NDArray[np.float64]:
        """O_T z of the basis columns (T p, r), from the plant's free response if known."""
        states = np.zeros((self.plant.order, len(basis)))
        states[self.rows] = self.columns[:, basis]
        if not isinstance(self.moves, RunMoves):
            return self.plant.free_response(states, horizon)
        is_move = basis < self.count  # or padding
        if is_move.all():
            return self.moves.responses(self.plant, basis)
        responses = self.plant.free_response(states * ~is_move, horizon)
        responses[:, is_move] = self.moves.responses(self.plant, basis[is_move])
        return responses

    def shifts(self, factor: NDArray[np.float64]) -> NDArray[np.float64]:
        """Upper bounds (r, M) of |S^-1 z| for the doubles of a factor (r, r)."""
        bounds = self._solved_in_pairs(ball_matrix(factor), Pairs.upper)
        if bounds is not None:
            return bounds
        solved = self._sharp(lambda: self._entries(factor))
        if solved is None:
            return np.full((len(self.rows), self.count), np.inf)
        return upper_bounds(solved)

    def _entries(self, factor: NDArray[np.float64]) -> BallMatrix:
        """S^-1 z (r, M) of every move, at the working bits."""
        inverse = inverse_balls(factor)
        return inverse if self.hidden == inverse**0 else inverse * self.hidden

    def _solved_in_pairs(
        self, matrix: BallMatrix, read: Callable[[Pairs], NDArray[np.float64]]
    ) -> NDArray[np.float64] | None:
        """What is read of the moves in a matrix's columns, where pairs tell them sharply."""
        if self.told is None:
            return None
        with working_bits(self.moves.bits), suppress(ZeroDivisionError):
            chosen = ball_matrix(np.eye(self.plant.order)[self.rows])
            solved = self.told.read_images(matrix.inv() * chosen, read)
            if solved is None:
                return None
            found, error = solved
            if error.max() <= NEAREST * np.abs(found).max():
                return found
        return None

    def _sharp(self, solve: Callable[[], BallMatrix]) -> BallMatrix | None:
        """What ``solve`` returns at as few bits as will do, None where no bits do."""
        for bits in (min(CERTIFICATE_BITS, self.moves.bits), self.moves.bits):
            with working_bits(bits):
                try:
                    solved = solve()
                except ZeroDivisionError:
                    continue
            widest = max(entry.rad() for entry in solved.entries())
            is_sharp = widest <= NEAREST * np.abs(midpoints(solved)).max()
            if bits == self.moves.bits or is_sharp:
                return solved
        return None

    def enlarged(
        self,
        factor: NDArray[np.float64],
        shifts: NDArray[np.float64],
        allowed: float,
        norm: float,
    ) -> NDArray[np.float64]:
        """The factor scaled until its shifts are certified.

        Rounding the factor changes the shifts of thin directions in either direction. So
        each pass adds what the last one missed, and a few units of rounding more.
        """
        for step in range(MOST_ROUNDS):
            ratio = self.moves.worst_shift(shifts, norm) / allowed
            is_wasteful = step == 0 and ratio < 1 - SHARP
            if ratio <= 1 and not is_wasteful:
                return factor
            margin = EPS * len(factor) * 4.0 ** min(step + 1, 20)
            factor = factor * float_above(ratio, 4) * (1 + margin)
            shifts = self.shifts(factor)
        raise UncertifiableError(
            "the noise does not meet its budget when evaluated back: the hidden moves are "
            "too far apart in size for double precision; protect fewer times, or shorten "
            "the horizon"
        )
