"""How noise covers what hidden moves change, and what is left to its padding.

If the noise has fewer directions than there are published entries, every hidden move has
to respond within the column space of its factor. Doubles hardly ever lie there exactly,
and the least deviation would be published without noise. Such a mechanism therefore adds
independent noise, a tiny share of each entry's own, as padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numerics.balls import (
    FINE_BITS,
    ball_matrix,
    enclosure,
    is_quick,
    midpoints,
    working_bits,
)
from ..numerics.errors import NotRealizableError, UncertifiableError
from ..numerics.linalg import EPS, column_norms, float_above
from ..numerics.thresholds import (
    CERTAIN,
    LARGEST_EXCESS,
    MOST_ROUNDS,
    NEAREST,
    SHARP,
    UNSEEN,
)
from ..privacy.loss import PrivacyLoss, composed
from .adjacency import listed
from .ball_noise import BallNoise
from .manifold import Moves, spanned
from .noise import Noise, shifts_within, times, whiten
from .query import LinearQuery

#: Size of the padding of an entry relative to its own noise, by the norm of shifts. What
#: is left to it adds to a shift linearly in the 1-norm and by its square in the 2-norm.
_PADDING = {1: 2.0**-20, 2: 2.0**-26}


@dataclass(frozen=True)
class _Solution:
    """Shifts u of responses s = Lambda u + rest, with what is known of the rest."""

    shifts: NDArray[np.float64]  # u (r, M)
    errors: NDArray[np.float64]  # bounds of their errors
    rest: NDArray[np.float64]  # its size (m, M)
    bounds: NDArray[np.float64]  # and the errors of that


@dataclass(frozen=True)
class Covered:
    """What a query publishes, as far as noise covers it."""

    query: LinearQuery
    noise: Noise

    @cached_property
    def padding(self) -> NDArray[np.float64] | None:
        """`Mechanism.padding`."""
        if self.noise.is_independent or self._rank == self.noise.size:
            return None
        return padding_of(self.noise)

    def loss(self, moves: Moves) -> PrivacyLoss:
        """Return the loss of a release for moves, with what is left to the padding."""
        noise = self.noise
        shifts = moves.enlarged(*self.shifts(moves))
        full_rank = noise.is_independent or self._rank == noise.factor.shape[1]
        loss = noise.loss(shifts, moves, full_rank)
        if isinstance(noise, BallNoise):
            left = self._left_to_laplace(moves)
            if left:
                loss = composed(loss, PrivacyLoss.laplace([[left]]))
        return loss

    def shifts(
        self, moves: Moves, *, certified: bool = True
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """`Mechanism.shifts`."""
        if self.padding is not None:
            solution = self._solution(moves, in_balls=True)
            padded = self._left(moves, solution, certified)
            shifts = solution.shifts
            if not isinstance(self.noise, BallNoise):  # else see `loss`
                shifts = self._folded(moves, shifts, padded)
            return shifts, solution.errors
        solution = self._solution(moves)
        bounds = self._bounds(solution)
        size = column_norms(solution.shifts).max()
        if column_norms(bounds).max() > SHARP * size:
            finer = self._solution(moves, in_balls=True)
            sharper = self._bounds(finer)
            if column_norms(sharper).max() <= column_norms(bounds).max():
                solution = finer
                bounds = sharper
                size = column_norms(solution.shifts).max()
        if self.noise.is_independent:
            bare = solution.rest > solution.bounds
            self._refuse_bare(moves, bare[self.noise.factor == 0].any(axis=0))
        error = column_norms(bounds).max()
        # a shift below CERTAIN, in units of the noise, needs no digits
        if certified and error > CERTAIN * max(size, CERTAIN):
            raise UncertifiableError(
                "double precision cannot certify this noise by its covariance: the "
                f"shifts are known to {error:.1e} of {size:.1e}; rescale the data. The "
                "noise of a plant has its own guarantee, certified in ball arithmetic: "
                "noise.guarantee"
            )
        return solution.shifts, bounds

    def _bounds(self, solution: _Solution) -> NDArray[np.float64]:
        """Bound the errors (r, M) of shifts, for noise in every direction."""
        left = solution.rest + solution.bounds
        return solution.errors + shifts_within(self.noise, left)

    def _solution(self, moves: Moves, in_balls: bool = False) -> _Solution:
        """Solve Lambda u = s for the moves' responses s, in balls if that is quick.

        There the rest is made small by corrections, each the solution for the last rest.
        """
        noise = self.noise
        responses, errors = moves.output_responses(self.query)
        in_balls = in_balls and is_quick(*noise.factor.shape, sum(responses.shape))
        if in_balls:
            balls, beyond = moves.ball_responses(self.query)
            responses, errors = enclosure(balls)
            errors = errors + beyond
        shifts = whiten(noise, responses)
        if not in_balls or noise.is_independent:
            rest = np.abs(responses - times(noise.factor, shifts))
            magnified = times(np.abs(noise.factor), np.abs(shifts))
            terms = 1 if noise.is_independent else len(shifts)
            rounding = EPS * (terms + 3) * (magnified + np.abs(responses))
            return _Solution(shifts, np.zeros(shifts.shape), rest, errors + rounding)
        with working_bits(FINE_BITS):
            factor = ball_matrix(noise.factor)
            solution = ball_matrix(shifts)
            for _ in range(MOST_ROUNDS):
                left = midpoints(balls - factor * solution)
                correction = whiten(noise, left)
                solution = solution + ball_matrix(correction)
                if np.abs(correction).max() <= NEAREST * np.abs(shifts).max():
                    break
            shifts, errors = enclosure(solution)
            rest, bounds = enclosure(balls - factor * solution)
        return _Solution(shifts, errors, np.abs(rest), bounds + beyond)

    def _left_to_laplace(self, moves: Moves) -> float:
        """Return what moves leave at most to the Laplace padding of radial noise."""
        if self.padding is None:
            return 0.0
        padded = self._left(moves, self._solution(moves, in_balls=True), True)
        most = padded.sum() if moves.is_ball else padded.max()
        return float_above(most, 2)

    def _left(
        self, moves: Moves, solution: _Solution, certified: bool
    ) -> NDArray[np.float64]:
        """Return the shifts (M,) of what a solution leaves to the padding.

        Any u with rest = s - Lambda u is a solution [u, rest / padding] for the padded
        noise, so its norm bounds the shift, for any rounding of u.
        """
        shifts = solution.shifts
        norm = self.noise.shift_norm
        padded = self._padded_sizes(solution.rest + solution.bounds)
        allowed = LARGEST_EXCESS * np.maximum(column_norms(shifts, norm), CERTAIN)
        if (padded > allowed).any():
            rest = np.maximum(solution.rest - solution.bounds, 0.0)
            self._refuse_bare(moves, self._padded_sizes(rest) > allowed)
            if certified or not np.isfinite(padded).all():
                raise UncertifiableError(
                    "double precision cannot decide whether the hidden moves lie in the "
                    "column space of the noise; rescale the data, or add noise in every "
                    "direction"
                )
        return padded

    def _folded(
        self, moves: Moves, shifts: NDArray[np.float64], padded: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return shifts that count what is left to the padding.

        In the 1-norm the largest entry grows: one Laplace entry with the sum of two shifts
        hides less than the two.
        """
        joined = np.hypot if self.noise.shift_norm == 2 else np.add
        if moves.is_ball:
            whole = max(float(np.linalg.norm(shifts, 2)), np.finfo(float).tiny)
            return shifts * joined(1.0, padded.sum() / whole)
        columns = np.arange(shifts.shape[1])
        places = np.abs(shifts).argmax(axis=0), columns
        grown = joined(np.abs(shifts[places]), padded)
        folded = np.array(shifts)
        folded[places] = np.copysign(grown, shifts[places])
        return folded

    def _padded_sizes(self, rest: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the shifts (M,) of what is left to the padding."""
        padding = np.reshape(np.asarray(self.padding), (-1, 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            units = np.where(rest > 0, rest / padding, 0.0)
            sizes = column_norms(units, padding_norm(self.noise))
            return sizes * (1 + EPS * len(rest))

    def _refuse_bare(self, moves: Moves, bare: NDArray[np.bool_]) -> None:
        """Raise if a hidden move (mask (M,)) changes what no noise covers."""
        columns = np.flatnonzero(bare)
        if not len(columns):
            return
        manifold = self.query.manifold
        direction = manifold.kernel @ moves.vectors[:, columns[0]]
        label = manifold.labels[int(np.abs(direction).argmax())]
        raise NotRealizableError(
            f"the noise does not cover a protected direction: {len(columns)} of "
            f"{moves.vectors.shape[1]} hidden moves (the first one moves {label} most) "
            "leave the column space of the noise factor and would be published exactly; "
            "add noise in this direction, or protect less",
            direction,
        )

    @cached_property
    def _rank(self) -> int:
        factor = self.noise.factor
        if self.noise.is_independent:
            return int(np.count_nonzero(factor))
        sizes = column_norms(factor.T)
        noisy = sizes > 0
        return int(np.linalg.matrix_rank(factor[noisy] / sizes[noisy, None]))

    def published(self) -> tuple[str, ...]:
        """Return what is published exactly, for the guarantee's text."""
        if self._rank == self.query.size:
            return ()
        manifold = self.query.manifold
        response = self.query.response
        shifts = whiten(self.noise, response)
        factor = self.noise.factor
        left = response - times(factor, shifts)
        covered = times(np.abs(factor), np.abs(shifts)) + np.abs(response)
        explained = UNSEEN * covered + 2 * column_norms(self.query.rounding)
        told = (np.abs(left) > explained).any(axis=1)
        if not told.any():
            return ()
        kernel: Any = manifold.kernel
        if not isinstance(kernel, np.ndarray):
            kernel = kernel.toarray()
        determined = spanned(kernel, left[told]) & kernel.any(axis=1)
        words = "anything outside the noise's column space, which is published exactly"
        names = [manifold.labels[i] for i in np.flatnonzero(determined)]
        if names:
            words += f": {listed(names, 'others', 'and')} among it"
        return (words,)


def padding_of(noise: Noise) -> NDArray[np.float64]:
    """Return the sizes (m,) of the `Mechanism.padding` of a factor (m, r)."""
    sizes = noise.std if isinstance(noise, BallNoise) else column_norms(noise.factor.T)
    return _PADDING[padding_norm(noise)] * sizes


def padding_norm(noise: Noise) -> int:
    """Return the norm of shifts of the padding."""
    return 1 if isinstance(noise, BallNoise) else noise.shift_norm
