"""Mechanisms add noise to what a linear query publishes, and know what that promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..numerics.balls import Rational, RationalMatrix, rational, rational_matrix
from ..numerics.checks import generator, positive_integer
from ..numerics.errors import answer
from ..privacy.guarantee import PrivacyGuarantee, Scope
from ..privacy.release import (
    StandardEntry,
    Step,
    exact_data,
    exact_product,
    exact_release,
    on_grid,
)
from .adjacency import Adjacency, checked_adjacency
from .ball_noise import BallNoise
from .covered import Covered
from .manifold import Moves
from .noise import LaplaceNoise, Noise
from .query import LinearQuery, checked_query

#: What every release of this package's mechanisms takes for granted.
FRESH = "every release draws new noise"

#: What to do about a query, a LinearOperator of the user's, that fails on the data.
_PUBLIC_TRIAL = "Try the query on public data of this shape"


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
    def _covered(self) -> Covered:
        """What the noise covers of the query."""
        return Covered(self.query, self.noise)

    @property
    def padding(self) -> NDArray[np.float64] | None:
        """Sizes (m,) of the independent noise that a release adds to ``noise``.

        It is of the noise's family, 2^-26 (Gaussian) or 2^-20 (Laplace) of each entry's
        own, and next to radial noise of Laplace's. None if the noise reaches every direction or is independent.
        """
        return self._covered.padding

    def release(
        self,
        x: ArrayLike,
        *,
        size: int | None = None,
        rng: int | np.random.SeedSequence | np.random.Generator | None = None,
        grid: Step | Sequence[Step] | None = None,
        resolution: Step | Sequence[Step] | None = None,
        counts: bool = False,
    ) -> NDArray[np.float64]:
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
        factor: NDArray[np.float64] | RationalMatrix,
        *,
        size: int | None,
        grid: Step | Sequence[Step] | None,
        resolution: Step | Sequence[Step] | None,
        counts: bool,
    ) -> NDArray[np.float64]:
        """Publish F x + factor eta and the padding, rounded once.

        ``factor`` (m, r) is what the noise's own is the rounding of. ``size``,
        ``grid``, ``resolution`` and ``counts`` are as for `release`.
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
    ) -> tuple[list[Rational], NDArray[np.float64]]:
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
        """Return the guarantee of the release (DPAM Theorems 1 and 2).

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
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
        return self._covered.shifts(moves, certified=certified)


def diagonal_of(noise: BallNoise) -> RationalMatrix:
    """Return the matrix (r, r) that makes entries of radial noise of its `entries`."""
    size = noise.dimension
    table = [[Rational(0)] * size for _ in range(size)]
    for place, unit in enumerate(noise.units):
        table[place][place] = unit
    return RationalMatrix(table)


def beside(
    factor: NDArray[np.float64] | RationalMatrix, sizes: NDArray[np.float64]
) -> RationalMatrix:
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
    loss = mechanism._covered.loss(moves)
    scope = Scope.of(
        adjacency,
        query.manifold,
        assumptions=query.assumptions or (FRESH,),
        caveats=mechanism._covered.published(),
    )
    quoted_delta = 0.0 if loss.epsilon(0.0) < np.inf else 1e-5
    return PrivacyGuarantee(loss, scope, quoted_delta=quoted_delta)
