"""Circuits by their supports: of q constraints every q + 1 entries that the rest determines give one circuit.

Its entries are the q x q minors of the constraint matrix, D_S without one column each. A table of all minors serves
all circuits, so that few constraints on many entries cost little. Each minor is decided as those of the kernel are.
"""

from math import comb, factorial, gcd, prod

import numpy as np
from flint import fmpz

from ..errors import UncertifiableError
from .enumeration import row_sets
from .exact_rows import DECIDED, UNIT, IntegerRows

#: Minors that a table may hold: its memory stays below 200 MB.
MOST_MINORS = 2**22


def support_moves(constraints, radius, block=4000):
    """Worst moves of DPAM Definition 4 along the circuits of {v : D v = 0}, as blocks of supports and entries.

    Parameters
    ----------
    constraints : list of q lists of n fmpz
        D, with independent rows.
    radius : ndarray, shape (n,)
        mu, 0 for an entry that is not protected.
    block : int
        Circuits per block, at most.

    Yields
    ------
    support : ndarray of int, shape (q + 1, M)
        Entries that a circuit may move, ascending. Every circuit some protected entry of which moves comes once.
    moves : ndarray, shape (q + 1, M)
        By how much: exactly 0 where the circuit does not move the entry, elsewhere at least as much as the true worst
        move (up to its sign) and at most 2^-31 (relative) more.

    Raises
    ------
    UncertifiableError
        If the entries or the radii span more decades than double precision holds.

    Examples
    --------
    Of three shares whose sum is known two move, one up and one down:

    >>> from flint import fmpz
    >>> ((support, moves),) = support_moves([[fmpz(1)] * 3], np.ones(3))
    >>> support.T.tolist(), moves.round(6).T.tolist()
    ([[0, 1], [0, 2], [1, 2]], [[1.0, -1.0], [1.0, -1.0], [1.0, -1.0]])
    """
    n, q = len(radius), len(constraints)
    minors = _Minors(constraints, n)
    with np.errstate(divide="ignore", over="ignore"):
        factor = minors.weight / radius
    if not ((factor[radius > 0] > 2.0**-960) & (factor[radius > 0] < 2.0**960)).all():
        raise UncertifiableError(
            "a radius is too far from the size of its entry; rescale the entries"
        )
    sign = (-1.0) ** np.arange(q + 1)[:, None]
    for support in row_sets(np.arange(n), q + 1, block):
        place = minors.places(support)
        value, error = minors.value[place] * sign, minors.error[place]
        fresh = minors.fresh(support, value != 0)
        support, value, error = support[:, fresh], value[:, fresh], error[:, fresh]
        low = np.full(value.shape, np.inf)
        np.multiply(np.abs(value) - error, factor[support], out=low, where=value != 0)
        least = low.min(axis=0)
        if least.min(initial=1.0) < 2.0**-960:
            raise UncertifiableError(
                "a protected entry moves by less than 2^-960 of its radius; rescale the entries"
            )
        moving = np.isfinite(least)
        support, value, error, least = (
            support[:, moving],
            value[:, moving],
            error[:, moving],
            least[moving],
        )
        with np.errstate(over="ignore"):
            moves = (
                (np.abs(value) + error)
                * minors.weight[support]
                * ((1 + 24 * UNIT) / least)
            )
        if not np.isfinite(moves).all():
            raise UncertifiableError(
                "a move leaves the range of double precision; rescale the entries"
            )
        yield support, np.copysign(moves, value)


class _Minors:
    """All q x q minors of a q x n matrix, in the order of `places`, with columns j multiplied by `weight[j]`.

    Each `value` is 0 exactly where the minor is, and else errs by at most `error`, less than 2^-33 of it.
    """

    def __init__(self, constraints, n):
        q = len(constraints)
        self._binomials = np.array(
            [[comb(i, j) for j in range(q + 2)] for i in range(n)]
        )
        self._starts = np.cumsum(
            [0, *(comb(n, m) for m in range(q + 1))]
        )  # short supports, by their number of entries
        self._met = np.zeros(self._starts[-1], bool)
        self.value, self.error, self.weight = np.ones(1), np.zeros(1), np.ones(n)
        if q:
            reduced = [_reduced(row) for row in constraints]
            largest = [int(max(abs(x) for x in row)) for row in reduced]
            bits = [size.bit_length() for size in largest]
            rows = [
                [x * fmpz(2) ** (max(bits) - b) for x in row]
                for row, b in zip(reduced, bits)
            ]
            self._rows = IntegerRows(
                [([row[j] for row in rows], fmpz(2) ** max(bits)) for j in range(n)]
            )
            self.weight = np.ldexp(1.0, -self._rows.exponent[:n])
            self._expand(
                n, q, exact=factorial(q) * prod(largest) <= 2**53
            )  # whole numbers that doubles hold

    def places(self, sets):
        """Where the minors (q + 1, B) of sets of q + 1 columns without their i-th are: by the last column, and so on."""
        width = len(sets)
        before = self._binomials[sets, np.arange(1, width + 1)[:, None]].cumsum(axis=0)
        behind = self._binomials[sets, np.arange(width)[:, None]][::-1].cumsum(axis=0)[
            ::-1
        ]
        place = np.zeros_like(sets)
        place[1:] += before[:-1]
        place[:-1] += behind[1:]
        return place

    def fresh(self, sets, moved):
        """Which sets (q + 1, B) are the first with their circuit, `moved` being the entries that it moves."""
        size = moved.sum(axis=0)
        fresh = size == len(sets)
        (short,) = np.nonzero((size > 0) & ~fresh)
        moved, position = moved[:, short], moved[:, short].cumsum(axis=0)
        key = self._starts[size[short]] + (
            self._binomials[sets[:, short], position] * moved
        ).sum(axis=0)
        key, first = np.unique(key, return_index=True)
        first = first[~self._met[key]]
        self._met[key] = True
        fresh[short[first]] = True
        return fresh

    def _expand(self, n, q, exact):
        """Minors of the first j rows from those of the first j - 1, by the last row."""
        value, bound = self._rows.value[:n], self._rows.bound[:n]
        minors = sizes = np.ones(1)
        for j in range(1, q + 1):
            below = minors, sizes
            minors, sizes = np.empty((2, comb(n, j)))
            for sets in row_sets(np.arange(n), j, 2**16):
                place = self.places(sets)
                own = place[-1] + self._binomials[sets[-1], j]
                sign = (-1.0) ** np.arange(j - 1, -1, -1)[:, None]
                minors[own] = (value[sets, j - 1] * below[0][place] * sign).sum(axis=0)
                sizes[own] = (bound[sets, j - 1] * below[1][place]).sum(axis=0)
        self.value, self.error = (
            minors,
            sizes * (0.0 if exact else self._rows.roundings),
        )
        if not exact:
            self._decide(n, q)

    def _decide(self, n, q):
        """Exact minors in place of those near zero."""
        doubt = ~(np.abs(self.value) > DECIDED * self.error)
        self.value[doubt & (self.error == 0)] = 0.0
        doubt &= self.error > 0
        for sets in row_sets(np.arange(n), q, 2**16) if doubt.any() else ():
            own = self._binomials[sets, np.arange(1, q + 1)[:, None]].sum(axis=0)
            for column in np.flatnonzero(doubt[own]):
                minor = self._rows.minor(sets[:, column].tolist())
                self.value[own[column]], self.error[own[column]] = (
                    minor,
                    4 * UNIT * abs(minor),
                )


def _reduced(row):
    """A nonzero row of integers divided by what they have in common."""
    common = gcd(*(int(x) for x in row))
    return [x // common for x in row]
