"""Mechanisms add noise to what a linear query publishes, and know what that promises.

If the noise has fewer directions than there are published entries, every hidden move has
to respond within the column space of its factor. Doubles hardly ever lie there exactly,
and the least deviation would be published without noise. Such a mechanism therefore adds
independent noise, a tiny share of each entry's own, as padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from numpy.typing import ArrayLike, NDArray

from ..numerics.balls import (
    FINE_BITS,
    Rational,
    RationalMatrix,
    ball_matrix,
    enclosure,
    is_quick,
    midpoints,
    rational,
    rational_matrix,
    working_bits,
)
from ..numerics.checks import generator, positive_integer
from ..numerics.errors import (
    NotRealizableError,
    UncertifiableError,
    answer,
)
from ..numerics.linalg import EPS, column_norms, float_above
from ..numerics.thresholds import (
    CERTAIN,
    LARGEST_EXCESS,
    MOST_ROUNDS,
    NEAREST,
    SHARP,
    UNSEEN,
)
from ..privacy.guarantee import PrivacyGuarantee, Scope
from ..privacy.loss import PrivacyLoss, composed
from ..privacy.release import (
    StandardEntry,
    Step,
    exact_data,
    exact_product,
    exact_release,
    on_grid,
)
from .adjacency import Adjacency, checked_adjacency, listed
from .ball_noise import BallNoise
from .manifold import Moves, spanned
from .noise import LaplaceNoise, Noise, shifts_within, times, whiten
from .query import LinearQuery, checked_query

#: Size of the padding of an entry relative to its own noise, by the norm of shifts. What
#: is left to it adds to a shift linearly in the 1-norm and by its square in the 2-norm.
_PADDING = {1: 2.0**-20, 2: 2.0**-26}


#: What every release of this package's mechanisms takes for granted.
FRESH = "every release draws new noise"

#: What to do about a query, a LinearOperator of the user's, that fails on the data.
_PUBLIC_TRIAL = "Try the query on public data of this shape"


@dataclass(frozen=True)
class _Solution:
    """Shifts u of responses s = Lambda u + rest, with what is known of the rest."""

    shifts: NDArray  # u (r, M)
    errors: NDArray  # bounds of their errors
    rest: NDArray  # its size (m, M)
    bounds: NDArray  # and the errors of that


@dataclass(frozen=True)
class Mechanism:
    """Release M(x) = F x + gamma on an affine manifold (DPAM eq. (2)).

    A mechanism is immutable, and equal to one of the same query and noise.

    Parameters
    ----------
    query : LinearQuery
    noise : GaussianNoise, LaplaceNoise or BallNoise
        One noisy entry for each published entry.

    Raises
    ------
    ValueError
        If the sizes of query and noise differ.
    TypeError
        If one is of another type.

    See Also
    --------
    LinearQuery, GaussianNoise, LaplaceNoise, design_gaussian, design_laplace

    Examples
    --------
    >>> from privcontrol.core import GaussianNoise
    >>> mechanism = Mechanism(LinearQuery([[1.0]]), GaussianNoise([2.0]))
    >>> mechanism.release([5.0], size=3, rng=0).shape
    (3, 1)
    """

    query: LinearQuery
    noise: Noise

    def __post_init__(self) -> None:
        checked_query(self.query)
        if not isinstance(self.noise, Noise):
            raise TypeError(
                "noise: expected GaussianNoise, LaplaceNoise or BallNoise, got "
                f"{type(self.noise).__name__}; write GaussianNoise(factor)"
            )
        if self.query.size != self.noise.size:
            raise ValueError(
                f"noise: expected {self.query.size} entries, one for each published "
                f"entry, got {self.noise.size}"
            )

    @cached_property
    def padding(self) -> NDArray | None:
        """Sizes (m,) of the independent noise that a release adds to ``noise``.

        It is of the noise's family, 2^-26 (Gaussian) or 2^-20 (Laplace) of each entry's
        own, and next to radial noise of Laplace's. None if the noise reaches every direction or is independent.
        """
        if self.noise.is_independent or self._rank == self.noise.size:
            return None
        return padding_of(self.noise)

    def release(
        self,
        x: ArrayLike,
        *,
        size: int | None = None,
        rng: int | np.random.SeedSequence | np.random.Generator | None = None,
        grid: Step | Sequence[Step] | None = None,
        resolution: Step | Sequence[Step] | None = None,
        counts: bool = False,
    ) -> NDArray:
        """Publish F x + gamma, exactly without `rng` and simulated with it.

        Without `rng` the release is the real number F x + gamma, with random bits of the
        operating system, rounded once, and the guarantee holds for it. With `rng` it is a
        simulation in double precision, repeatable and fast. It must not be published,
        because its last bits reveal something about x.

        Parameters
        ----------
        x : array_like, shape (n,)
            The private data, on the manifold. Noise of low rank does not hide how far
            rounded data are from the constraints: publish on a much coarser `grid`
            then.
        size : int, optional
            Number of releases (m,), stacked. Each one counts in the composition.
        rng : int, SeedSequence or Generator, optional
            For a simulation.
        grid : number or sequence of m numbers, optional
            Publish multiples of this step; by default the nearest doubles. A float
            means the decimal number that Python prints for it.
        resolution : number or sequence of n numbers, optional
            The data are multiples of this step, but for round-off; others are refused.
            A number of any type is a value.
        counts : bool, optional
            The data are integers that count steps of the resolution.

        Returns
        -------
        ndarray, shape (m,) or (size, m)
            In the units of the query.

        Raises
        ------
        ValueError
            If x has the wrong length, is not finite, is off the manifold (see
            `AffineManifold.project`) or off the grid, or a step is not positive. No
            message shows x.
        TypeError
            If x is not real, or the query is a LinearOperator, whose products are
            rounded, and `rng` is None.
        RuntimeError
            If the query is a LinearOperator that raised an exception. Its text is
            withheld.
        """
        if rng is not None:
            _, doubles = self._data(x, resolution, counts)
            answers = answer(
                lambda x: self.query.matrix @ x, "query", _PUBLIC_TRIAL, doubles
            )
            rng = generator(rng)
            gamma = self.noise.sample(size, rng)
            if self.padding is not None:
                family = type(self.noise)
                if isinstance(self.noise, BallNoise):
                    family = LaplaceNoise
                gamma = gamma + family(self.padding).sample(size, rng)
            return on_grid(answers + gamma, grid)
        return self.release_exactly(
            x,
            self.noise.factor,
            size=size,
            grid=grid,
            resolution=resolution,
            counts=counts,
        )

    def release_exactly(
        self,
        x: ArrayLike,
        factor: NDArray | RationalMatrix,
        *,
        size: int | None,
        grid: Step | Sequence[Step] | None,
        resolution: Step | Sequence[Step] | None,
        counts: bool,
    ) -> NDArray:
        """Publish F x + factor eta and the padding, rounded once.

        ``factor`` (m, r) is what the noise's own is the rounding of. ``size``, ``grid``,
        ``resolution`` and ``counts`` are those of `release`.
        """
        exact, _ = self._data(x, resolution, counts)
        noise = self.noise
        if isinstance(noise, BallNoise):
            if not isinstance(factor, RationalMatrix):
                factor = rational_matrix(factor)
            factor = factor * diagonal_of(noise)
        if self.padding is not None:
            factor = beside(factor, self.padding)
        column = RationalMatrix(len(exact), 1, exact)
        answers = exact_product(self.query.matrix, column).entries()
        family = "laplace" if isinstance(noise, BallNoise) else noise.family
        draws = 1 if size is None else positive_integer(size, "size", zero=True)
        released = np.empty((draws, self.query.size))
        for row in released:
            drawn: list[StandardEntry] = []
            if isinstance(noise, BallNoise):
                drawn = noise.entries()
            row[:] = exact_release(answers, factor, family, grid=grid, eta=drawn)
        return released[0] if size is None else released

    def _data(
        self, x: ArrayLike, resolution: Step | Sequence[Step] | None, counts: bool
    ) -> tuple[list[Rational], NDArray]:
        """Return the data as rational numbers and as doubles, checked."""
        manifold = self.query.manifold
        exact, doubles = exact_data(x, "x", resolution, counts=counts)
        if doubles.shape != (manifold.size,):
            raise ValueError(
                f"x: expected shape ({manifold.size},), got {doubles.shape}"
            )
        if not manifold.contains(doubles):
            raise ValueError(
                "x is off the manifold D x + b = 0 (D x = c is b = -c): the guarantee does "
                "not cover it; check the constraints. Data that miss them by rounding can "
                "be projected first: x = manifold.project(x)"
            )
        return exact, doubles

    def guarantee(self, adjacency: Adjacency) -> PrivacyGuarantee:
        """Return what the release promises (DPAM Theorems 1 and 2), and what not.

        Parameters
        ----------
        adjacency : Adjacency
            The moves that Gaussian or Laplace noise is to hide.

        Returns
        -------
        PrivacyGuarantee
            For one release.

        Raises
        ------
        TypeError
            If the adjacency is none.
        NotRealizableError
            If the noise misses a protected direction.
        UncertifiableError
            If double precision cannot determine how well the noise hides the moves.

        Examples
        --------
        >>> from privcontrol.core import *
        >>> mechanism = Mechanism(LinearQuery([[1.0]]), GaussianNoise([2.0]))
        >>> round(mechanism.guarantee(DirectionAdjacency([[1.0]])).gdp, 6)
        0.5
        """
        moves = checked_adjacency(adjacency).moves(self.query.manifold)
        return guarantee_of(self, adjacency, moves)

    def shifts(
        self, moves: Moves, *, certified: bool = True
    ) -> tuple[NDArray, NDArray]:
        """Return the shifts Lambda^+ G z (r, M) of the moves z, and bounds of the errors.

        What a move leaves to the padding is counted in its column. Shifts that are not
        known well enough are refused, if ``certified`` is set.

        Raises
        ------
        NotRealizableError
            If a hidden move leaves the column space of the noise (DPAM eq. (8)).
        UncertifiableError
            If double precision cannot decide it.
        """
        if self.padding is not None:
            solution = self._solution(moves, in_balls=True)
            padded = self._left(moves, solution, certified)
            shifts = solution.shifts
            if not isinstance(self.noise, BallNoise):  # else see `left`
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

    def _bounds(self, solution: _Solution) -> NDArray:
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

    def left(self, moves: Moves) -> float:
        """Return what moves leave at most to the Laplace padding of radial noise."""
        if self.padding is None:
            return 0.0
        padded = self._left(moves, self._solution(moves, in_balls=True), True)
        most = padded.sum() if moves.is_ball else padded.max()
        return float_above(most, 2)

    def _left(self, moves: Moves, solution: _Solution, certified: bool) -> NDArray:
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

    def _folded(self, moves: Moves, shifts: NDArray, padded: NDArray) -> NDArray:
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

    def _padded_sizes(self, rest: NDArray) -> NDArray:
        """Return the shifts (M,) of what is left to the padding."""
        padding = np.reshape(np.asarray(self.padding), (-1, 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            units = np.where(rest > 0, rest / padding, 0.0)
            sizes = column_norms(units, padding_norm(self.noise))
            return sizes * (1 + EPS * len(rest))

    def _refuse_bare(self, moves: Moves, bare: NDArray) -> None:
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

    def _published(self) -> tuple[str, ...]:
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
        if scipy.sparse.issparse(kernel):
            kernel = kernel.toarray()
        determined = spanned(kernel, left[told]) & kernel.any(axis=1)
        words = "anything outside the noise's column space, which is published exactly"
        names = [manifold.labels[i] for i in np.flatnonzero(determined)]
        if names:
            words += f": {listed(names, 'others', 'and')} among it"
        return (words,)


def padding_of(noise: Noise) -> NDArray:
    """Return the sizes (m,) of the `Mechanism.padding` of a factor (m, r)."""
    sizes = noise.std if isinstance(noise, BallNoise) else column_norms(noise.factor.T)
    return _PADDING[padding_norm(noise)] * sizes


def padding_norm(noise: Noise) -> int:
    """Return the norm of shifts of the padding."""
    return 1 if isinstance(noise, BallNoise) else noise.shift_norm


def diagonal_of(noise: BallNoise) -> RationalMatrix:
    """Return the matrix (r, r) that makes entries of radial noise of its `entries`."""
    size = noise.dimension
    table = [[Rational(0)] * size for _ in range(size)]
    for place, unit in enumerate(noise.units):
        table[place][place] = unit
    return RationalMatrix(table)


def beside(factor: NDArray | RationalMatrix, sizes: NDArray) -> RationalMatrix:
    """Add a column to a factor (m, r) for each independent size that is not 0."""
    if not isinstance(factor, RationalMatrix):
        factor = rational_matrix(factor)
    table = factor.tolist()
    for noisy in np.flatnonzero(sizes).tolist():
        for row, entries in enumerate(table):
            size = float(sizes[row]) if row == noisy else 0.0
            entries.append(rational(size))
    return RationalMatrix(table)


def guarantee_of(
    mechanism: Mechanism, adjacency: Adjacency, moves: Moves
) -> PrivacyGuarantee:
    """Return what a release promises for an adjacency whose moves are known."""
    query = mechanism.query
    noise = mechanism.noise
    shifts = moves.enlarged(*mechanism.shifts(moves))
    full_rank = noise.is_independent or mechanism._rank == noise.factor.shape[1]
    loss = noise.loss(shifts, moves, full_rank)
    if isinstance(noise, BallNoise):
        left = mechanism.left(moves)
        if left:
            loss = composed(loss, PrivacyLoss.laplace([[left]]))
    scope = Scope.of(
        adjacency,
        query.manifold,
        assumptions=query.assumptions or (FRESH,),
        caveats=mechanism._published(),
    )
    quoted_delta = 0.0 if loss.epsilon(0.0) < np.inf else 1e-5
    return PrivacyGuarantee(loss, scope, quoted_delta=quoted_delta)
