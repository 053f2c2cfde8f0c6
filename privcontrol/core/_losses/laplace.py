"""Privacy loss of Laplace releases: which hidden moves can be worst, and how that composes move by move.

The numbers of one product of Laplace laws come from the profile module; here are the sets of moves, kept small by
dropping what is dominated and, where too many remain, by rounding up.
"""

import hashlib
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from .._linalg import EPS, positive_integer, positive_number, real_array, round_up
from ..calibration import kappa_upper
from .gaussian import PrivacyLoss, checked_delta, concentrated_delta, decimal, float_up
from .laplace_numbers import delta_bounds, epsilon_upper, gdp_upper, rdp, zcdp_upper

#: Up to this many numbers all moves are kept, so that they compose exactly.
_KEPT = 4096
#: Up to this many rows, and numbers in all, the moves that can be worst are kept; beyond, one bound.
_ROWS, _NUMBERS = 4096, 1 << 18
#: More hidden moves than this are remembered by a fingerprint of which row covers which move.
_COVER = 1024
#: More Laplace coordinates than this are evaluated through Gaussian and concentrated differential privacy.
_COORDINATES = 128


@dataclass(frozen=True)
class LaplaceLoss(PrivacyLoss):
    """The loss of a Laplace mechanism: the shifts over scales of every hidden move that can be worst (DPAM Theorem 2).

    Which move is worst depends on epsilon, so one row of shifts is kept for each move. Releases compose move by move,
    by concatenation. Of many moves only those are kept that no other one dominates, coordinate by coordinate, and the
    others are known by the row that covers them.

    Moves in the hull of the given ones cost no more: the minimum of the densities p(x) and e^eps p(x - s) is
    log-concave in (x, s), hence so is its integral over x, which is 1 - delta (Prekopa); the Renyi divergences are
    convex in s.

    Parameters
    ----------
    shifts : tuple of J tuples
        Distinct columns of shifts over scales, rounded up; made by `of`.
    counts : tuple of int
        How often each column occurs.
    moves : tuple of int
        For each row the hidden move that attains it (its number in ``adjacency.moves(manifold)``), or -1 for a bound.
    cover : tuple, str or None
        For each hidden move the row that bounds it; a fingerprint of that where they are many; None if unknown.
    exact : bool
        Whether every row is attained and few enough coordinates are counted to evaluate them all.
    proportional : bool
        As for `GaussianLoss`.
    """

    shifts: tuple
    counts: tuple
    moves: tuple
    cover: tuple | str | None
    exact: bool = True
    proportional: bool = True
    family = "Laplace"

    @classmethod
    def of(cls, shifts, *, exact=True, proportional=True):
        """From shifts over scales |Lambda^+ G z| (r, M), column m for the m-th hidden move of the adjacency.

        ``exact=False`` marks columns that are bounds, such as one number that bounds the 1-norm of every shift.
        """
        shifts = np.abs(real_array(shifts, "shifts", ndim=2)).T
        ones, moves = (
            (1,) * shifts.shape[1],
            np.arange(len(shifts)) if exact else np.full(len(shifts), -1),
        )
        return _pruned(shifts, ones, moves, np.arange(len(shifts)), exact, proportional)

    @cached_property
    def _worst_sum(self):
        return _largest_sum(np.array(self.shifts), self.counts)

    @cached_property
    def pure(self):
        """The epsilon of (epsilon, 0), rounded up."""
        return float_up(self._worst_sum[0])

    @cached_property
    def candidates(self):
        """Numbers of the rows that no other row dominates."""
        return _maximal(np.array(self.shifts), np.array(self.counts), len(self.shifts))[
            0
        ]

    @cached_property
    def array(self):
        """Candidates (J, r), every column as often as it occurs; None where they are too many to convolve."""
        few = sum(self.counts) <= _COORDINATES
        return (
            np.repeat(np.array(self.shifts)[self.candidates], self.counts, axis=1)
            if few
            else None
        )

    @property
    def active(self):
        return tuple(
            sorted(
                self.moves[row] for row in self._worst_sum[1] if self.moves[row] >= 0
            )
        )

    def delta(self, epsilon):
        epsilon = positive_number(epsilon, "epsilon", zero=True)
        return 0.0 if epsilon >= self.pure else laplace_delta(epsilon, self, 0.0)

    def epsilon(self, delta):
        delta = checked_delta(delta)
        if delta == 0:
            return self.pure
        return min(
            epsilon_upper(delta, self.array)
            if self.array is not None
            else super().epsilon(delta),
            self.pure,
        )

    @property
    def gdp(self):
        return math.sqrt(self._worst(lambda a: gdp_upper([a]) ** 2)) * (1 + 4 * EPS)

    @property
    def zcdp(self):
        return self._worst(lambda a: zcdp_upper([a]))

    def rdp(self, alpha):
        return self._worst(lambda a: rdp(alpha, [a]))

    def _worst(self, function):
        """max over rows of sum_j function(a_j), rounded up."""
        values = {a: function(a) for row in self.shifts for a in row}
        worst = max(
            math.fsum(n * values[a] for a, n in zip(row, self.counts))
            for row in self.shifts
        )
        return worst * (1 + 4 * EPS)

    def combine(self, other):
        first, second, cover = _paired(self, other)
        rows = np.hstack([np.array(self.shifts)[first], np.array(other.shifts)[second]])
        columns, place = np.unique(rows, axis=1, return_inverse=True)
        counts = np.zeros(columns.shape[1], int)
        np.add.at(counts, place.ravel(), self.counts + other.counts)
        mine, theirs = np.array(self.moves)[first], np.array(other.moves)[second]
        moves = np.where(mine == theirs, mine, -1)
        proportional = self.proportional and other.proportional
        return _pruned(
            columns, counts, moves, cover, self.exact and other.exact, proportional
        )

    def repeated(self, count):
        counts = tuple(n * positive_integer(count, "count") for n in self.counts)
        return replace(
            self, counts=counts, exact=self.exact and sum(counts) <= _COORDINATES
        )

    def scaled(self, factor):
        if factor == 1:
            return self
        if self.proportional:
            rows = round_up(np.array(self.shifts) * float(factor), 2)
            rows[np.array(self.shifts) == 0] = 0.0
            rows = tuple(map(tuple, rows.tolist()))
            return LaplaceLoss(
                rows, self.counts, self.moves, self.cover, self.exact, True
            )
        if factor < 1:
            return replace(self, exact=False)
        return one_coordinate(
            float_up(self._worst_sum[0] * math.ceil(factor)), proportional=False
        )  # ceil(factor) steps

    def to_dict(self):
        cover = list(self.cover) if isinstance(self.cover, tuple) else self.cover
        data = {
            "family": "Laplace",
            "shifts": [list(row) for row in self.shifts],
            "counts": list(self.counts),
        }
        data |= {
            "moves": list(self.moves),
            "cover": cover,
            "exact": self.exact,
            "proportional": self.proportional,
        }
        return data

    @classmethod
    def from_dict(cls, data):
        """The loss that `to_dict` wrote."""
        cover = (
            tuple(data["cover"]) if isinstance(data["cover"], list) else data["cover"]
        )
        rows = tuple(map(tuple, data["shifts"]))
        return cls(
            rows,
            tuple(data["counts"]),
            tuple(data["moves"]),
            cover,
            data["exact"],
            data["proportional"],
        )


def one_coordinate(epsilon, *, proportional=True):
    """The loss of one Laplace coordinate with shift `epsilon`: it bounds every Laplace release of that pure epsilon.

    Along the straight path from one data set to its neighbour the probability p of any event obeys
    p' <= min(p, 1 - p) per unit of pure epsilon, and so does a path of several steps. The flow of p' = min(p, 1 - p)
    is the shift of a Laplace law along its quantiles, that is the trade-off curve of one coordinate.
    """
    return LaplaceLoss.of([[epsilon]], exact=False, proportional=proportional)


def laplace_delta(epsilon, laplace, gaussian):
    """delta of Laplace coordinates beside an independent Gaussian release, rounded up."""
    if laplace.array is not None:
        return delta_bounds(epsilon, laplace.array, gaussian)[1]
    gdp = math.hypot(laplace.gdp, gaussian) * (1 + 4 * EPS)
    rho = (laplace.zcdp + 0.5 * gaussian**2) * (1 + 4 * EPS)
    return min(float(kappa_upper(epsilon, gdp)), concentrated_delta(epsilon, rho))


def _paired(a, b):
    """Rows of both losses that meet in one hidden move, and the cover of the pairs."""
    everywhere = np.arange(len(a.shifts)), np.arange(len(b.shifts))
    if a.cover is not None and a.cover == b.cover:
        return everywhere[0], everywhere[0], a.cover
    if (
        isinstance(a.cover, tuple)
        and isinstance(b.cover, tuple)
        and len(a.cover) == len(b.cover)
    ):
        pairs, cover = np.unique(
            np.array([a.cover, b.cover]).T, axis=0, return_inverse=True
        )
        return pairs[:, 0], pairs[:, 1], cover.ravel()
    pairs = np.array(np.meshgrid(*everywhere, indexing="ij")).reshape(2, -1)
    alone = a.cover if len(b.shifts) == 1 else b.cover if len(a.shifts) == 1 else None
    return pairs[0], pairs[1], alone


def _pruned(rows, counts, moves, cover, exact, proportional):
    """The loss of rows (J, c) with column counts, few enough of them kept; `moves` attain them."""
    used = rows.any(axis=0)
    rows, counts = rows[:, used], np.asarray(counts, int)[used]
    if rows.size <= _KEPT:
        kept = place = np.arange(len(rows))
    else:
        kept, place = _maximal(rows, counts, min(_ROWS, _NUMBERS // len(counts)))
    if not len(kept):  # too many: one coordinate bounds them all
        rows, counts = (
            np.array([[float_up(_largest_sum(rows, counts)[0])]]),
            np.ones(1, int),
        )
        kept, moves = np.zeros(1, int), np.full(1, -1)
    if isinstance(cover, str):
        cover = hashlib.sha256(cover.encode() + place.tobytes()).hexdigest()[:32]
    elif cover is not None:
        cover = place[np.asarray(cover, int)]
        many = len(cover) > _COVER
        cover = (
            hashlib.sha256(cover.tobytes()).hexdigest()[:32]
            if many
            else tuple(cover.tolist())
        )
    chosen = tuple(np.asarray(moves)[kept].tolist())
    attained = bool(exact) and min(chosen) >= 0 and int(counts.sum()) <= _COORDINATES
    shifts = tuple(map(tuple, rows[kept].tolist()))
    return LaplaceLoss(
        shifts, tuple(counts.tolist()), chosen, cover, attained, proportional
    )


def _largest_sum(rows, counts):
    """The largest sum of shifts, exactly, and the rows that have it."""
    rough = rows @ np.asarray(counts, float)
    near = np.flatnonzero(rough >= rough.max() * (1 - 1e-9))
    sums = [
        sum((decimal(a) * int(n) for a, n in zip(rows[row], counts)), Fraction(0))
        for row in near
    ]
    worst = max(sums)
    return worst, [int(row) for row, total in zip(near, sums) if total == worst]


def _maximal(rows, counts, limit):
    """Rows that no other row dominates, none if more than `limit`, and for each row which of those bounds it.

    A coordinate with the smaller shift is a post-processing of the larger one, coordinates are independent, and
    their order does not matter: dominance may be tested on sorted coordinates.
    """
    counts = np.asarray(counts, int)  # of no columns as well
    if counts.sum() <= _COORDINATES:
        rows = -np.sort(-np.repeat(rows, counts, axis=1), axis=1)
        counts = np.ones(rows.shape[1])
    left = np.argsort(-(rows @ counts), kind="stable")
    kept, place = [], np.zeros(len(rows), int)
    while left.size:
        if len(kept) == limit:
            return np.array([], int), np.zeros(len(rows), int)
        below = (rows[left] <= rows[left[0]]).all(axis=1)
        below[0] = True
        place[left[below]] = len(kept)
        kept.append(left[0])
        left = left[~below]
    return np.array(kept), place
