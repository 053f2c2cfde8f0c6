"""Releases of one run, with public answers in between (DPAM eq. (11)).

Data arrive in steps. After each release somebody may act on what was published, and the
next data depend on it in a known way: D x + b(Y) = 0, where b(Y) follows from public
numbers. Queries and noise may be chosen from them as well. What was agreed before the
first release is the manifold's D, the hidden moves, and a budget for the whole run.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._linalg import EPS, column_norms, real_array, round_up
from .adjacency import Adjacency, checked_adjacency, checked_manifold
from .budget import PrivacyBudget, checked_budget
from .errors import BudgetExceededError
from .guarantee import PrivacyGuarantee, Scope
from .manifold import AffineManifold
from .mechanism import FRESH, Mechanism
from .noise import Noise, family_of
from .query import LinearQuery
from .release import Step

_PUBLIC_ANSWERS = (
    "the offsets, the queries and the noise of each step were computed from what was "
    "published before, and from nothing else of the data"
)

#: Relative size up to which data may miss a constraint by rounding.
_ON_MANIFOLD = 1e-9

#: Relative share of what remains that is left to the rounding of shifts.
_SHARE_OF_ROUNDING = 1e-11


class AdaptiveReleases:
    """Data, a release, a public answer, the next data: one run under one budget.

    Two runs that publish the same numbers differ by a tangent move z of the manifold,
    whatever the answers b(Y) were. A release shows Lambda^+ F N z of it, which is added
    up for each hidden move (squared for Gaussian noise). A release that would take a move
    beyond the budget is refused, so that the budget holds for the whole run, even where an
    adversary chooses queries and noise.

    Parameters
    ----------
    manifold : AffineManifold
        All data of the run, made of constraints D. Its own b is not used: each offset
        arrives with the data.
    adjacency : Adjacency
        The moves to be hidden.
    budget : PrivacyBudget
        For everything that is published in the run.
    family : {"gaussian", "laplace"}, optional
        Of the noise of all releases. Laplace noise uses epsilon only.

    Attributes
    ----------
    published : tuple of ndarray

    Raises
    ------
    ValueError
        If the manifold was made of a kernel, or no noise of the family meets the budget.
    TypeError
        If an argument is of another type.

    References
    ----------
    DPAM, eq. (11), offsets b(Y). Smith and Thakurta (2022), arXiv 2210.17520, the filter.

    Examples
    --------
    A shop hides its stock to ten units. A supplier sees noisy levels only.

    >>> from privcontrol.core import *
    >>> days = AffineManifold([[-1.0, 1.0]])  # stock on day 1 = day 0 + delivery
    >>> secret = DirectionAdjacency([[10.0], [10.0]])
    >>> run = AdaptiveReleases(days, secret, PrivacyBudget(epsilon=1.0, delta=1e-2))
    >>> run.extend([120.0])
    >>> level = run.release([[1.0]], GaussianNoise([30.0]), rng=0)
    >>> delivery = max(0.0, 150.0 - level.item())
    >>> run.extend([120.0 + delivery], offset=[-delivery])
    >>> again = run.release([[0.0, 1.0]], GaussianNoise([30.0]), rng=1)
    >>> round(run.spent, 4), round(run.remaining, 4)
    (0.4714, 0.2477)
    """

    def __init__(
        self,
        manifold: AffineManifold,
        adjacency: Adjacency,
        budget: PrivacyBudget,
        *,
        family: str = "gaussian",
    ) -> None:
        constraint = checked_manifold(manifold)._constraint
        if constraint is None:
            raise ValueError(
                "manifold: expected one made of constraints, AffineManifold(D), got one "
                "made of a kernel; the offsets b(Y) belong to the rows of D"
            )
        self._D = constraint[0]
        self._family = family_of(family)
        self._manifold = manifold
        self._adjacency = checked_adjacency(adjacency)
        self._moves = adjacency.moves(manifold)
        self._limit = self._family.allowed_shift(checked_budget(budget))
        self._shown = np.zeros(1)
        self._data = np.zeros(0)
        self._published: list[NDArray] = []

    def __repr__(self) -> str:
        return (
            f"AdaptiveReleases({len(self._data)} of {self._manifold.size} entries there, "
            f"{len(self._published)} releases, {self.remaining:.4g} remaining)"
        )

    @property
    def published(self) -> tuple[NDArray, ...]:
        """The releases so far, in order."""
        return tuple(release.copy() for release in self._published)

    @property
    def spent(self) -> float:
        """Largest shift that the releases so far show of a hidden move, rounded up."""
        return self._size(self._shown)

    @property
    def remaining(self) -> float:
        """Shift that one more release may show of any hidden move, rounded down."""
        norm = self._family.shift_norm
        rest = max(0.0, self._limit**norm - float(self._shown.max()))
        return rest ** (1 / norm) * (1 - _SHARE_OF_ROUNDING)

    def extend(self, entries: ArrayLike, offset: ArrayLike = ()) -> None:
        """Take in the next private ``entries`` (k,) of the data.

        Parameters
        ----------
        entries : array_like, shape (k,)
        offset : array_like, shape (q,)
            b(Y) of the constraints whose last entry is among these, in the order of D's
            rows. It is public, computed from `published` alone.

        Raises
        ------
        ValueError
            If there are more entries than the manifold has, the offset has another
            length, or the data miss a constraint. No message holds an entry.
        """
        fresh = real_array(entries, "entries")
        start = len(self._data)
        left = self._manifold.size - start
        if fresh.ndim != 1 or not 0 < len(fresh) <= left:
            raise ValueError(
                f"entries: expected between 1 and {left} entries in one dimension, got "
                f"shape {fresh.shape}"
            )
        data = np.concatenate([self._data, fresh])
        rows = self._completed(start, len(data))
        known = real_array(offset, "offset", shape=(len(rows),))
        terms = rows[:, : len(data)] * data
        missed = np.abs(terms.sum(axis=1) + known)
        sizes = np.abs(terms).sum(axis=1) + np.abs(known)
        if (missed > _ON_MANIFOLD * sizes).any():
            raise ValueError(
                "entries: off the manifold D x + b = 0 (D x = c is b = -c): the guarantee "
                "does not cover them; check D and the offset"
            )
        self._data = data

    def release(
        self,
        F: ArrayLike,
        noise: Noise,
        *,
        rng: int | np.random.SeedSequence | np.random.Generator | None = None,
        grid: Step | None = None,
    ) -> NDArray:
        """Publish F x + gamma of the entries so far, if the budget allows it.

        Parameters
        ----------
        F : array_like, shape (m, k)
            One column for each entry that is there. Public, as is the noise.
        noise : GaussianNoise or LaplaceNoise
        rng, grid
            As for `Mechanism.release`.

        Returns
        -------
        ndarray, shape (m,)

        Raises
        ------
        BudgetExceededError
            If the release would take a hidden move beyond the budget. Nothing was
            published.
        NotRealizableError
            If the noise misses a protected direction.
        ValueError
            If F or the noise does not fit.
        """
        mechanism, shown = self._with(F, noise)
        size = self._size(shown)
        if size > self._limit:
            raise BudgetExceededError(
                f"this release would show {size:.4g} of a hidden move, in units of the "
                f"noise, and the budget allows {self._limit:.4g}; publish less, or with "
                "more noise"
            )
        # What fails from here on counts as published.
        self._shown = shown
        answer = mechanism.release(self._data, rng=rng, grid=grid)
        self._published.append(answer)
        return answer.copy()

    def can_release(self, F: ArrayLike, noise: Noise) -> bool:
        """Return whether the budget allows this release. Nothing is published."""
        _, shown = self._with(F, noise)
        return self._size(shown) <= self._limit

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """What the whole run promises, however its releases are chosen: the budget."""
        loss = self._family.loss_of_size(self._limit)
        scope = Scope.of(
            self._adjacency, self._manifold, assumptions=(FRESH, _PUBLIC_ANSWERS)
        )
        quoted = self._family.quoted_delta
        return PrivacyGuarantee(loss, scope, quoted_delta=quoted)

    def _completed(self, start: int, stop: int) -> NDArray:
        """Return the constraints whose last entry is among those from start to stop."""
        places = np.arange(1, self._D.shape[1] + 1)
        last = np.max((self._D != 0) * places, axis=1, initial=0)
        return self._D[(last > start) & (last <= stop)]

    def _with(self, F: ArrayLike, noise: Noise) -> tuple[Mechanism, NDArray]:
        """Return the mechanism of a release, and what moves would have shown after it."""
        count = len(self._data)
        matrix = real_array(F, "F", shape=(None, count))
        if not isinstance(noise, self._family):
            raise TypeError(
                f"noise: expected {self._family.__name__}, the family of this run, got "
                f"{type(noise).__name__}"
            )
        padded = np.zeros((len(matrix), self._manifold.size))
        padded[:, :count] = matrix
        judged = Mechanism(LinearQuery(padded, self._manifold), noise)
        shifts = self._moves.enlarged(*judged.shifts(self._moves))
        norm = self._family.shift_norm
        if self._moves.is_ball:
            sizes = np.array([self._moves.worst_shift(shifts, norm)])
        else:
            sizes = column_norms(shifts, norm)
        sizes = sizes * (1 + EPS * (len(shifts) + 4))
        shown = round_up(self._shown + sizes**norm, 2)
        return Mechanism(LinearQuery(matrix), noise), shown

    def _size(self, shown: NDArray) -> float:
        """Return the largest shift of sums that `_with` made, rounded up."""
        largest = float(shown.max())
        if self._family.shift_norm == 1 or largest == 0:
            return largest
        return float(round_up(np.sqrt(largest)))
