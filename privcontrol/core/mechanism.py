"""A mechanism is a query plus noise: it releases data, and it knows what the release promises."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from ._balls import Rational, RationalMatrix
from ._linalg import column_norms
from ._withheld import answer
from .adjacency import checked_adjacency, listed
from .errors import NotRealizableError, UncertifiableError
from .guarantee import PrivacyGuarantee, Scope
from .moves import spanned
from .noise import Noise
from .query import LinearQuery
from .release import Step, exact_data, on_grid, release_query

#: A part of a move further than this (relative) off the column space of the noise is unprotected. Larger than the
#: residue that rounding leaves in a product of well-scaled factors, far smaller than a direction that was left out.
#: In ball arithmetic only the entries of the factor have been rounded.
_REALIZABLE, _RESIDUE = 1e-10, 1e-13

#: Relative error of a shift beyond which nothing is certified, and the shift (in units of the noise) that needs no digits.
_CERTAIN, _NEGLIGIBLE = 1e-6, 1e-6

#: What every release of this package's mechanisms takes for granted.
FRESH = "every release draws its noise afresh"

#: What to do about a query, a LinearOperator of the user's, that fails on the data.
_PUBLIC_TRIAL = "Try the query on public data of this shape"

#: Relative error of a shift above which ball arithmetic is asked for a smaller one: it would be paid for in noise.
_SHARP = 1e-10


@dataclass(frozen=True)
class Mechanism:
    """The release M(x) = F x + gamma on an affine manifold (DPAM eq. (3)).

    Parameters
    ----------
    query : LinearQuery
    noise : GaussianNoise or LaplaceNoise
        One noisy entry for each published entry.

    Raises
    ------
    ValueError
        If the sizes of query and noise differ.
    TypeError
        If one is of another type; says how to write it.

    Examples
    --------
    >>> mechanism = Mechanism(LinearQuery([[1.0]]), GaussianNoise([2.0]))
    >>> mechanism.release([5.0], size=3, rng=0).shape
    (3, 1)
    """

    query: LinearQuery
    noise: Noise

    def __post_init__(self):
        checked_query(self.query)
        if not isinstance(self.noise, Noise):
            raise TypeError(
                f"noise: expected GaussianNoise or LaplaceNoise, got {type(self.noise).__name__}; write GaussianNoise(factor)"
            )
        if self.query.size != self.noise.size:
            raise ValueError(
                f"noise: expected {self.query.size} entries, one for each published entry, got {self.noise.size}"
            )

    def release(
        self,
        x: ArrayLike,
        *,
        size: int | None = None,
        rng: int | np.random.SeedSequence | np.random.Generator | None = None,
        grid: Step | Sequence[Step] | None = None,
        resolution: Step | Sequence[Step] | None = None,
    ) -> NDArray:
        """Publish F x + gamma: exactly without `rng`, simulated with it.

        Without `rng` the release is the real number F x + gamma, with noise from random
        bits of the operating system, rounded once. The guarantee holds for it as it
        stands. With `rng` it is a simulation in double precision: repeatable, fast, and
        not to be published, because its last bits tell something about x.

        Parameters
        ----------
        x : array_like, shape (n,)
            The private data; they must lie on the manifold. Doubles are taken as the
            numbers they are. Where the data satisfy their constraints only up to
            rounding, this rounding is not hidden by noise of low rank: publish on a
            `grid` that is much coarser.
        size : int, optional
            Number of releases (m,) stacked along the first axis. Each one counts in the
            composition.
        rng : int, SeedSequence or Generator, optional
            For a simulation.
        grid : number or sequence of m numbers, optional
            Publish multiples of this step; by default the nearest doubles. A float
            stands for the decimal number that Python prints for it.
        resolution : number or sequence of n numbers, optional
            The data are multiples of this step. Integers are counts of it, as an
            analogue-to-digital converter gives them; other numbers are rounded to the
            nearest multiple.

        Raises
        ------
        ValueError
            If x has the wrong length, is not finite or is off the manifold, or a step is
            not positive. No message holds an entry of x. Data that miss the constraints
            by rounding: see `AffineManifold.project`.
        TypeError
            If x is complex or not numeric, or the query is a LinearOperator and `rng` is
            None: its products are rounded as it likes.
        RuntimeError
            If the query is a LinearOperator that raised an exception; its text is
            withheld, it may show x.
        """
        if rng is not None:
            _, doubles = self._data(x, resolution)
            answers = answer(
                lambda x: self.query.matrix @ x, "query", _PUBLIC_TRIAL, doubles
            )
            return on_grid(answers + self.noise.sample(size, rng), grid)
        return self.release_exactly(
            x, self.noise.factor, size=size, grid=grid, resolution=resolution
        )

    def release_exactly(
        self,
        x: ArrayLike,
        factor: NDArray | RationalMatrix,
        *,
        size: int | None,
        grid: Step | Sequence[Step] | None,
        resolution: Step | Sequence[Step] | None,
    ) -> NDArray:
        """F x + factor eta, rounded once; the factor may be given as rational numbers."""
        exact, _ = self._data(x, resolution)
        family = self.noise.family
        return release_query(
            self.query.matrix, exact, factor, family, size=size, grid=grid
        )

    def _data(
        self, x: ArrayLike, resolution: Step | Sequence[Step] | None
    ) -> tuple[list[Rational], NDArray]:
        """The data as rational numbers and as doubles, checked."""
        manifold = self.query.manifold
        exact, doubles = exact_data(x, "x", resolution)
        if doubles.shape != (manifold.size,):
            raise ValueError(
                f"x: expected shape ({manifold.size},), got {doubles.shape}"
            )
        if not manifold.contains(doubles):
            raise ValueError(
                "x is off the manifold D x + b = 0 (D x = c is b = -c): the guarantee does not cover it; check the "
                "constraints. Data that miss them by rounding can be projected first: x = manifold.project(x)"
            )
        return exact, doubles

    def shifts(self, moves, *, certified=True):
        """Lambda^+ G z for the moves, what the noise must hide in units of the noise, and bounds of its errors.

        Raises
        ------
        NotRealizableError
            If a hidden move leaves the column space of the noise (DPAM eq. (8)); it names the direction.
        UncertifiableError
            If `certified`, and the noise is so badly scaled, or the query cancels so much, that double precision cannot
            tell.
        """
        columns = moves.vectors
        images, doubt = moves.output_responses(self.query)
        shifts, bare, errors = self._whitened(images, doubt)
        doubtful = column_norms(errors).max() > _SHARP * column_norms(shifts).max()
        if doubtful and self.noise.factor.ndim == 2:
            exact, beyond = moves.ball_responses(self.query)
            found = self.noise.whiten_in_balls(exact, beyond)
            if found is not None:
                shifts, bare, errors = (
                    found[0],
                    self._bare(*found, images, beyond, _RESIDUE),
                    found[2],
                )
        bad = np.flatnonzero(bare.any(axis=0))
        if len(bad):
            direction = self.query.manifold.kernel @ columns[:, bad[0]]
            label = self.query.manifold.labels[int(np.abs(direction).argmax())]
            raise NotRealizableError(
                f"the noise leaves a protected direction bare: {len(bad)} of {columns.shape[1]} hidden moves (the first one "
                f"moves {label} most) leave the column space of the noise factor and would be published exactly; "
                "add noise in this direction, or protect less",
                direction,
            )
        error, size = column_norms(errors).max(), column_norms(shifts).max()
        if certified and error > _CERTAIN * max(size, _NEGLIGIBLE):
            raise UncertifiableError(
                f"double precision cannot certify this noise by its covariance: the shifts are known to {error:.1e} of "
                f"{size:.1e}; rescale the data. The noise of a plant has its own guarantee, certified in ball arithmetic: "
                "noise.guarantee"
            )
        return shifts, errors

    def _whitened(self, images, doubt):
        """`Noise.whiten`, with True for each published entry (m, M) that an image changes and the noise does not reach."""
        shifts, left, errors = self.noise.whiten(images, doubt)
        return shifts, self._bare(shifts, left, errors, images, doubt), errors

    def _bare(self, shifts, left, errors, images, doubt, residue=_REALIZABLE):
        """Where |image - Lambda shift| is too much for rounding: entry by entry, as units differ and all may be in one."""
        factor, reach = np.abs(self.noise.factor), errors + residue * np.abs(shifts)
        reach = factor[:, None] * reach if factor.ndim == 1 else factor @ reach
        return left > reach + 2 * doubt + residue * np.abs(images)

    def guarantee(self, adjacency):
        """What the release promises (DPAM Theorems 1 and 2), as a `PrivacyGuarantee`.

        Its text says what is not hidden: moves of entries that are not protected, several moves at once, and what the
        noise does not reach, with the entries of the data that are published exactly.

        Raises
        ------
        TypeError
            If the adjacency is none.
        NotRealizableError
            If the noise misses a protected direction.
        """
        return guarantee_of(
            self, checked_adjacency(adjacency), adjacency.moves(self.query.manifold)
        )

    @cached_property
    def _rank(self):
        factor = self.noise.factor
        return (
            np.count_nonzero(factor)
            if factor.ndim == 1
            else np.linalg.matrix_rank(factor)
        )

    def _published(self):
        """What is published exactly, for the guarantee's text."""
        response, doubt = self.query.response, self.query.rounding
        if self._rank == self.query.size:
            return ()
        shifts, bare, _ = self._whitened(response, doubt)
        if not bare.any():
            return ()
        factor = self.noise.factor
        left = response - (
            factor[:, None] * shifts if factor.ndim == 1 else factor @ shifts
        )
        manifold = self.query.manifold
        kernel = manifold.kernel
        if scipy.sparse.issparse(kernel):
            kernel = kernel.toarray()
        told = spanned(kernel, left[bare.any(axis=1)]) & kernel.any(axis=1)
        labels = [manifold.labels[i] for i in np.flatnonzero(told)]
        names = f": {listed(labels, 'others', 'and')} among it" if labels else ""
        return (
            f"anything outside the noise's column space, which is published exactly{names}",
        )


def checked_query(query):
    """The query itself, or a ``TypeError`` that says how to write one."""
    if isinstance(query, LinearQuery):
        return query
    raise TypeError(
        f"query: expected a LinearQuery as first argument, got {type(query).__name__}; write LinearQuery(F, manifold)"
    )


def guarantee_of(mechanism, adjacency, moves):
    """What a release promises for an adjacency whose moves are known."""
    query = mechanism.query
    factor = mechanism.noise.factor
    shifts = moves.enlarged(*mechanism.shifts(moves))
    full_rank = factor.ndim == 1 or mechanism._rank == factor.shape[1]
    loss = mechanism.noise.loss(shifts, moves, full_rank)
    scope = Scope.of(
        adjacency,
        query.manifold,
        assumptions=query.assumptions or (FRESH,),
        caveats=mechanism._published(),
    )
    return PrivacyGuarantee(
        loss, scope, quoted_delta=0.0 if loss.epsilon(0.0) < np.inf else 1e-5
    )
