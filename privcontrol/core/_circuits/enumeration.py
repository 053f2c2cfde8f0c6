"""Circuits (elementary vectors) of a manifold {x* + N z}: every move of Definition 4, in bounded memory.

An entry of a circuit is a k x k minor of N, and whether that minor is zero decides whether a move exists at
all, so no tolerance is safe. Floats are read as exact rationals; each minor is decided by a running error
bound, and where that bound does not suffice by ball arithmetic and, for zeros, by integer arithmetic.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, islice
from math import comb

import numpy as np
from flint import arb, ctx, fmpz_mat

from .._balls import working_bits
from .._linalg import positive_integer, real_array
from ..errors import UncertifiableError
from .exact_rows import UNIT, FloatRows, integer_rows
from .screen import Referee, Screen


@dataclass(frozen=True)
class CircuitMoves:
    """A block of worst moves, one column per circuit (up to sign; a circuit may come more than once).

    Attributes
    ----------
    moves : ndarray, shape (k, M)
        Tangent moves z, scaled so that one protected entry of N z moves by exactly its radius and no other
        protected entry of the support by less than its own. Every entry is exactly zero where the true one
        is, and elsewhere at least as large as the true one and at most 2^-31 (relative) larger, typically
        1e-12 (an entry below 1e-300 may underflow).
    smallest : float
        The smallest nonzero minor met, relative to the sum of the absolute values of its terms: 1 says that
        nothing cancelled, 1e-13 that a tolerance of 1e-12 would have made an error. Above 1e-6 a lower bound.
    base, shift : ndarray, shapes (k - 1, B) and (M,)
        The rows that define the circuits and what is to be added to them, see `zeros`.
    column : ndarray, shape (M,)
        The column of `base` that belongs to each move.
    """

    moves: np.ndarray
    smallest: float
    base: np.ndarray
    shift: np.ndarray
    column: np.ndarray

    def __post_init__(self):
        if not np.isfinite(self.moves).all():
            raise UncertifiableError(
                "a move leaves the range of double precision; shorten the horizon"
            )

    @cached_property
    def zeros(self):
        """Entries of the data that each circuit leaves unchanged and that determine it, shape (k - 1, M)."""
        return self.base[:, self.column] + self.shift


def count_circuits(n, k):
    """Number of candidate sets of k - 1 rows out of n, an upper bound on the circuits of an (n, k) kernel.

    Examples
    --------
    >>> count_circuits(400, 4)
    10586800
    """
    return comb(positive_integer(n, "n"), positive_integer(k, "k") - 1)


def circuit_moves(kernel, radius, *, charts="all", structural_zeros=None, block=4000):
    """Worst moves of manifold adjacency over {x* + N z}, as blocks of tangent vectors.

    A pair is adjacent in the sense of Definition 4 iff its difference is an elementary vector v = N z of
    range(N) some entry i of which moves by at most mu_i, so the worst move along v has the scale
    max mu_i / abs(v_i) over the protected entries of the support.

    Parameters
    ----------
    kernel : array_like, shape (n, k)
        N, of rank k; its floats are taken as exact. Zero rows (entries that the manifold pins) never move.
    radius : float or array_like, shape (n,)
        mu, in the units of each entry; NaN or 0 says that the entry is not protected.
    charts : "all" or sequence of sets of k integers
        Definition 4 in full, or only the given free sets d: one protected entry i of d moves by mu_i, the
        other entries of d are held, z = N_d^{-1} e_i mu_i.
    structural_zeros : array_like of bool, shape (n, k), optional
        Entries of N that are zero in truth, whatever round-off has left there.
    block : int
        Circuits per block, at most.

    Returns
    -------
    iterator of CircuitMoves

    Raises
    ------
    ValueError
        If N lacks full column rank, a radius is negative, or the rows of a chart are dependent.
    UncertifiableError
        If the rows differ by more decades than double precision holds.

    Examples
    --------
    Example 2 of DPAM: D = [1, -2, 0], radius 1.

    >>> (found,) = circuit_moves([[2, 0], [1, 0], [0, 1]], 1.0)
    >>> abs(found.moves.round(6)).T.tolist()
    [[0.0, 1.0], [1.0, 0.0]]

    Sources
    -------
    DPAM, Definition 4 and eq. (5).
    """
    kernel = masked(real_array(kernel, "kernel", ndim=2), structural_zeros, "kernel")
    n, k = kernel.shape
    radius = radii(radius, (n,))
    rows = integer_rows(kernel)
    if k == 0 or fmpz_mat([row for row, _ in rows]).rank() < k:
        raise ValueError(
            f"kernel: expected full column rank {k}, got less; drop the dependent columns"
        )
    block = positive_integer(block, "block")
    if not isinstance(charts, str):
        return iter([chart_moves(rows, radius, charts)])
    if charts != "all":
        raise ValueError(
            f"charts: expected 'all' or a list of index sets, got {charts!r}"
        )
    return enumerate_moves(FloatRows(kernel, rows), radius, block)


def enumerate_moves(rows, radius, block=4000):
    """Plain enumeration: every set of k - 1 pairwise independent rows among the first `len(radius)` ones.

    The last k of `rows` are the unit vectors, whose entries are those of z.
    """
    n, k = len(radius), rows.dimension
    classes = rows.classes(n)
    protected = _worst_of_parallel(rows, classes, radius)
    targets = rows.targets(
        np.r_[protected, n : n + k], np.r_[radius[protected], np.ones(k)]
    )
    position = np.full(n, -1)
    position[classes[protected]] = np.arange(len(protected))
    screen, referee = (
        Screen(targets.part(np.s_[:-k])),
        Referee(rows, targets, position, classes[protected]),
    )
    for base in row_sets(np.unique(classes[classes >= 0]), k - 1, block):
        base, cofactors = rows.cofactors(base)
        least, ratio = screen.least(cofactors, position[base])
        moves, smallest = cofactors.outward(), ratio * rows.roundings
        for columns, entries in referee.entries(
            base, cofactors, np.flatnonzero(np.isnan(least))
        ):
            least[columns] = entries.low[:-k].min(axis=0, initial=np.inf)
            moves[:, columns] = entries.outward(np.s_[-k:]) * targets.factor[-k:, None]
            smallest = min(smallest, entries.smallest)
        moving = np.flatnonzero(np.isfinite(least))
        with np.errstate(over="ignore"):
            moves = moves.take(moving, axis=1) * ((1 + 24 * UNIT) / least[moving])
        yield CircuitMoves(
            moves, min(smallest, 1.0), base, np.zeros(len(moving), int), moving
        )


def row_sets(labels, width, size):
    """Sets of `width` labels as arrays (width, at most `size`), in lexicographic order."""
    if width == 0:
        yield np.empty((0, 1), int)
        return
    count = len(labels)
    for head in chunks(
        combinations(range(count), width - 1),
        width - 1,
        max(1, 16 * size // max(count, 1)),
    ):
        more = count - 1 - head[-1] if width > 1 else np.array([count])
        last = np.arange(more.sum()) + np.repeat(count - more.cumsum(), more)
        sets = labels[np.vstack([head.repeat(more, axis=1), last])]
        for start in range(0, len(last), size):
            yield sets[:, start : start + size]


def _worst_of_parallel(rows, classes, radius):
    """Of each class of parallel rows the protected one with the least size over radius, which decides for all.

    They come in the order of these sizes.
    """
    candidates = np.flatnonzero((radius > 0) & (classes >= 0))
    size = np.abs(rows.value[candidates]).max(axis=1)
    order = candidates[
        np.argsort(
            np.ldexp(size, rows.exponent[candidates]) / radius[candidates],
            kind="stable",
        )
    ]
    return order[np.sort(np.unique(classes[order], return_index=True)[1])]


def chunks(tuples, width, size):
    """Integer arrays (width, at most `size`) from an iterator of tuples; width 0 makes one empty column."""
    if width == 0:
        yield np.empty((0, 1), int)
        return
    while (flat := np.fromiter(chain.from_iterable(islice(tuples, size)), int)).size:
        yield np.ascontiguousarray(flat.reshape(-1, width).T)


def chart_moves(rows, radius, charts):
    """N_d^{-1} e_i mu_i for every chart d and every protected i in d, rounded away from zero.

    `rows` are those of N as pairs (integers, common denominator).
    """
    n, k = len(rows), len(rows[0][0])
    moves, base = [], []
    for chart in charts:
        chart = [int(i) for i in chart]
        if len(set(chart)) != k or len(chart) != k or min(chart) < 0 or max(chart) >= n:
            raise ValueError(
                f"charts: expected sets of {k} distinct entries of 0..{n - 1}, got {chart}"
            )
        matrix = fmpz_mat([rows[i][0] for i in chart])
        if matrix.det() == 0:
            raise ValueError(
                f"charts: the entries {chart} are not free, the manifold ties them; drop this set"
            )
        for place, i in enumerate(chart):
            if radius[i] > 0:
                over, under = radius[i].item().as_integer_ratio()
                column = matrix.solve(
                    fmpz_mat(k, 1, [rows[i][1] * (j == place) for j in range(k)])
                ).entries()
                moves.append([_outward(x.p * over, x.q * under) for x in column])
                base.append(chart[:place] + chart[place + 1 :])
    moves = np.array(moves, float).reshape(-1, k).T
    base = np.array(base, int).reshape(-1, k - 1).T
    return CircuitMoves(
        moves, 1.0, base, np.zeros(moves.shape[1], int), np.arange(moves.shape[1])
    )


def _outward(over, under):
    """The float nearest to a ratio of integers that is not smaller in magnitude."""
    if over == 0:
        return 0.0
    with working_bits(256):
        size = abs(arb(over) / arb(under))
        while (
            size.rel_accuracy_bits() < 60
        ):  # the precision is one for all threads: another one may have lowered it
            ctx.prec = 256
            size = abs(arb(over) / arb(under))
        upper, middle = size.upper(), float(size.mid())
        if not 2.0**-1000 < middle < 2.0**1000:
            raise UncertifiableError(
                "a move leaves the range of double precision; shorten the horizon"
            )
        p, q = middle.as_integer_ratio()
        if arb(middle) < upper and abs(over) * q > abs(under) * p:
            middle = float(np.nextafter(middle, np.inf))
    return middle if (over > 0) == (under > 0) else -middle


def masked(matrix, structural_zeros, name):
    """The matrix with its declared zeros forced."""
    if structural_zeros is None:
        return matrix
    mask = np.asarray(structural_zeros)
    if mask.dtype != bool or mask.shape != matrix.shape:
        raise ValueError(
            f"structural_zeros: expected booleans of the shape {matrix.shape} of {name}, "
            f"got {mask.dtype} of shape {mask.shape}"
        )
    return np.where(mask, 0.0, matrix)


def radii(radius, shape):
    """Radii broadcast to `shape`, zero where not protected."""
    radius = np.nan_to_num(np.asarray(radius, float), nan=0.0, posinf=np.inf)
    if not np.isfinite(radius).all() or (radius < 0).any():
        raise ValueError(
            "radius: expected finite numbers >= 0, NaN or 0 for an entry that is not protected"
        )
    try:
        return np.broadcast_to(radius, shape)
    except ValueError:
        raise ValueError(
            f"radius: expected a number or shape {shape}, got shape {radius.shape}"
        ) from None
