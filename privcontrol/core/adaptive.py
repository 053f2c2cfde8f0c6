"""Release data, take a public answer and the next data, under one budget.

Data arrive in steps (DPAM eq. (11)). After each release somebody may act on what was
published, and the next data depend on it in a known way: D x + b(Y) = 0, where b(Y)
follows from public numbers. Queries and noise may be chosen from them as well. What was
agreed before the first release is the manifold's D, the hidden moves, and a budget for the
whole run.
"""

from __future__ import annotations

import threading
from decimal import ROUND_FLOOR
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..numerics.balls import rational
from ..numerics.checks import instance_of, real_array
from ..numerics.errors import BudgetExceededError, PrivacyError
from ..numerics.linalg import EPS, float_above, round_up
from ..numerics.thresholds import ROUNDED, SHARP
from ..privacy.budget import PrivacyBudget, checked_budget
from ..privacy.guarantee import PrivacyGuarantee, Scope, shown
from ..privacy.release import Step, exact_data
from ..privacy.store import this_process
from .adjacency import Adjacency, checked_adjacency, checked_manifold
from .manifold import AffineManifold
from .mechanism import FRESH, Mechanism
from .noise import Noise, family_of
from .one_draw import OneDraw
from .query import LinearQuery

_PUBLIC_ANSWERS = (
    "the offsets, the queries and the noise of each step were computed from earlier "
    "publications, and from nothing else of the data"
)

_DRAWN_ONCE = "the noise drawn once for the run"


class AdaptiveReleases:
    """Release data, take a public answer and the next data, under one budget.

    Two runs that publish the same numbers differ by a tangent move z of the manifold,
    for any answers b(Y). A release shows Lambda^+ F N z of it, which is added
    up for each hidden move (squared for Gaussian noise). Where eta is drawn once, the
    releases are one, with their F and Lambda stacked, as in the paper. A release that
    would take a move beyond the budget is refused, so the budget holds for the whole run,
    even where an adversary chooses queries and noise. The draw and the rest of the budget
    stay in this object: a copy, a pickle and a fork publish nothing more.

    Parameters
    ----------
    manifold : AffineManifold
        All data of the run, made of constraints D. Its own b is not used: each offset
        arrives with the data. With `trajectory_manifold` the data of a release are the
        state x(t) (n,), and the offset is B u(t-1).
    adjacency : Adjacency
        The moves to be hidden.
    budget : PrivacyBudget
        For everything that is published in the run.
    family : {"gaussian", "laplace"}, optional
        Of the noise of all releases. Laplace noise uses epsilon only.
    fresh : bool, optional
        Whether each release draws its own eta. If not, it is drawn once, at the first
        release, and release t brings its factor Lambda_t (m_t, r), always with the same r.

    Attributes
    ----------
    published : tuple of ndarray

    Raises
    ------
    ValueError
        If the manifold was made of a kernel and is no trajectory's, or no noise of the
        family meets the budget.
    TypeError
        If an argument is of another type.

    See Also
    --------
    Mechanism, PrivacyLedger

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

    One number of noise hides all days as well as the first (with 1e-9 left for rounding):

    >>> run = AdaptiveReleases(days, secret, PrivacyBudget(gdp=0.5), fresh=False)
    >>> run.extend([120.0])
    >>> level = run.release([[1.0]], GaussianNoise([[20.01]]), rng=0)
    >>> delivery = max(0.0, 150.0 - level.item())
    >>> run.extend([120.0 + delivery], offset=[-delivery])
    >>> again = run.release([[0.0, 1.0]], GaussianNoise([[20.01]]), rng=0)
    >>> round(run.spent, 4), abs(again - level - delivery).item() < 1e-4
    (0.4998, True)
    """

    def __init__(
        self,
        manifold: AffineManifold,
        adjacency: Adjacency,
        budget: PrivacyBudget,
        *,
        family: str = "gaussian",
        fresh: bool = True,
    ) -> None:
        given = checked_manifold(manifold)._constraint is not None
        if not given and manifold.horizon is None:
            raise ValueError(
                "manifold: expected one made of constraints, AffineManifold(D), got one "
                "made of a kernel; the offsets b(Y) belong to the rows of D"
            )
        self._fresh = instance_of(fresh, bool, "fresh")
        self._owner = this_process()
        self._turn = threading.Lock()
        self._family = family_of(family)
        self._draw = OneDraw(self._family)
        self._manifold = manifold
        self._adjacency = checked_adjacency(adjacency)
        self._moves = adjacency.moves(manifold)
        self._limit = self._family.allowed_shift(checked_budget(budget))
        self._shown = np.zeros(1)
        self._data = np.zeros(0)
        self._published: list[NDArray[np.float64]] = []

    def __repr__(self) -> str:
        left = shown(self.remaining, ROUND_FLOOR)
        return (
            f"AdaptiveReleases({len(self._data)} of {self._manifold.size} entries there, "
            f"{len(self._published)} releases, {left} remaining)"
        )

    def __getstate__(self) -> dict[str, Any]:
        kept = set(self.__dict__) - {"_draw", "_moves", "_turn"}
        return {name: self.__dict__[name] for name in kept} | {"_owner": None}

    @property
    def published(self) -> tuple[NDArray[np.float64], ...]:
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
        return rest ** (1 / norm) * (1 - SHARP)

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
            If there are more entries than the manifold has, an entry is no double, the
            offset has another length, or the data miss a constraint. No message holds an
            entry.
        """
        exact, fresh = exact_data(entries, "entries")
        if exact != [rational(double) for double in fresh.ravel().tolist()]:
            raise ValueError(
                "entries: expected numbers that doubles hold, got one that would be "
                "rounded, and numbers near it would be taken further apart than they are; "
                "round them yourself, and hide as much more"
            )
        start = len(self._data)
        left = self._manifold.size - start
        if fresh.ndim != 1 or not 0 < len(fresh) <= left:
            raise ValueError(
                f"entries: expected between 1 and {left} entries in one dimension, got "
                f"shape {fresh.shape}"
            )
        horizon = self._manifold.horizon
        if horizon is not None and horizon * len(fresh) != self._manifold.size:
            raise ValueError(
                f"entries: expected the {self._manifold.size // horizon} states of one "
                f"sample, got {len(fresh)}"
            )
        data = np.concatenate([self._data, fresh])
        # the constraints whose last entry is among the new ones
        D = self._manifold.D
        later = [(D[:, end:] != 0).any(axis=1) for end in (start, len(data))]
        rows = D[later[0] & ~later[1]]
        known = real_array(offset, "offset", shape=(len(rows),))
        terms = rows[:, : len(data)] * data
        missed = np.abs(terms.sum(axis=1) + known)
        sizes = np.abs(terms).sum(axis=1) + np.abs(known)
        if (missed > ROUNDED * sizes).any():
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
    ) -> NDArray[np.float64]:
        """Publish F x + gamma of the entries so far, if the budget allows it.

        Parameters
        ----------
        F : array_like, shape (m, k)
            One column for each entry that is there, or for each state of the last sample
            of a trajectory. Public, as is the noise.
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
            If F or the noise does not fit; or if only some releases of one draw have rng.
        PrivacyError
            If this is a copy of a run, or belongs to a process before a fork.
        """
        if self._owner != this_process():
            raise PrivacyError(
                "this copy of a run has neither its noise nor its budget; publish with the "
                "object that made the first release, in its own process"
            )
        with self._turn:
            return self._release(F, noise, rng, grid)

    def _release(
        self,
        F: ArrayLike,
        noise: Noise,
        rng: int | np.random.SeedSequence | np.random.Generator | None,
        grid: Step | None,
    ) -> NDArray[np.float64]:
        """Publish F x + gamma, while no other thread does."""
        data = self._data  # all that is there now
        matrix, judged, shown = self._with(F, noise, len(data))
        size = self._size(shown)
        if size > self._limit:
            raise BudgetExceededError(
                f"this release would show {size:.4g} of a hidden move, in units of the "
                f"noise, and the budget allows {self._limit:.4g}; publish less, or with "
                "more noise"
            )
        if not self._fresh:
            self._draw.begin(noise, rng)
        # What fails from here on counts as published.
        self._shown = shown
        data = data[len(data) - matrix.shape[1] :]
        if self._fresh:
            mechanism = Mechanism(LinearQuery(matrix), noise)
            answer = mechanism.release(data, rng=rng, grid=grid)
        else:
            answer = self._draw.release(judged, matrix, noise, data, grid)
        self._published.append(answer)
        return answer.copy()

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The promise of the whole run, however its releases are chosen: the budget."""
        loss = self._family.loss_of_size(self._limit)
        draws = FRESH if self._fresh else _DRAWN_ONCE
        scope = Scope.of(
            self._adjacency, self._manifold, assumptions=(draws, _PUBLIC_ANSWERS)
        )
        quoted = self._family.quoted_delta
        return PrivacyGuarantee(loss, scope, quoted_delta=quoted)

    def _with(
        self, F: ArrayLike, noise: Noise, count: int
    ) -> tuple[NDArray[np.float64], Mechanism, NDArray[np.float64]]:
        """Return F, what a release is judged by, and what moves would have shown after it.

        It is about the first ``count`` entries, and is judged by itself, or by all releases
        so far where they share a draw.
        """
        horizon = self._manifold.horizon
        width = count if horizon is None else self._manifold.size // horizon
        matrix = real_array(F, "F", shape=(None, min(width, count)))
        if not isinstance(noise, self._family):
            raise TypeError(
                f"noise: expected {self._family.__name__}, the family of this run, got "
                f"{type(noise).__name__}"
            )
        padded = np.zeros((len(matrix), self._manifold.size))
        padded[:, count - matrix.shape[1] : count] = matrix
        judged = Mechanism(LinearQuery(padded, self._manifold), noise)
        shown_before = self._shown
        if not self._fresh:
            judged = self._draw.stacked(judged)
            shown_before = np.zeros(1)
        shifts = self._moves.enlarged(*judged.shifts(self._moves))
        norm = self._family.shift_norm
        sizes = self._moves.sizes(shifts, norm) * (1 + 2 * EPS)
        return matrix, judged, round_up(shown_before + sizes**norm, 2)

    def _size(self, shown: NDArray[np.float64]) -> float:
        """Return the largest shift of sums that `_with` made, rounded up."""
        largest = float(shown.max())
        if self._family.shift_norm == 1 or largest == 0:
            return largest
        return float_above(np.sqrt(largest))
