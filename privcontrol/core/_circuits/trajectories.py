"""Circuits of a trajectory x(t) = A^t z: the rows e_m^T A^t of a set and of its time shifts share one pass.

For nonsingular A the circuit of a row set that starts at time 0 is v(t) = A^t z for all t, and its shift by s
is the window -s, ..., T-1-s of the same v; the worst scale of a window is a running minimum. A singular A has
no such shifts and is enumerated plainly.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
import scipy.linalg
from flint import acb_mat, arb, arb_mat, ctx, fmpq_mat, fmpz_mat, fmpz_poly
from numpy.typing import ArrayLike, NDArray

from .._balls import (
    Ball,
    BallMatrix,
    Integer,
    IntegerMatrix,
    Rational,
    RationalMatrix,
    rational,
    working_bits,
)
from .._linalg import positive_integer, real_array
from ..circuits import chart_moves, rounded_block, sparse
from ..errors import UncertifiableError
from .enumeration import CircuitMoves, chunks, enumerate_moves, radii
from .exact_rows import UNIT, ExactRows, IntegerRows, integer_rows


def trajectory_circuit_moves(
    A: ArrayLike,
    horizon: int,
    radius: ArrayLike,
    *,
    charts: Any = "all",
    block: int = 256,
) -> Iterator[CircuitMoves]:
    """Worst moves of Definition 4 over the trajectories of x(t+1) = A x(t) + known input, z = x(0).

    Entry m of x(t) has the index t n + m. `horizon` T counts the samples t = 0, ..., T-1; there are about
    C(T n, n - 1) moves, none of which is stored.

    Parameters
    ----------
    A : array_like, shape (n, n)
        State matrix; its floats are taken as exact. A sampling period that is a power of two keeps
        the zeros that a continuous-time model has.
    horizon : int
        Number of samples T.
    radius : float or array_like, shape (n,) or (T, n)
        mu per state, or per time and state (enumerated plainly: slower); NaN or 0 is not protected.
    charts : "all" or sequence of sets of n integers
        As for `circuit_moves`; the block of time j, [j n, ..., j n + n - 1], gives z = mu_m A^{-j} e_m.
    block : int
        Row sets per block; each yields up to T moves.

    Returns
    -------
    iterator of CircuitMoves

    Raises
    ------
    ValueError
        If A is not square, a radius is negative, or the rows of a chart are dependent.
    UncertifiableError
        If A^t spans more decades than double precision holds.

    Examples
    --------
    The vehicle of DPAM: holding the positions at two successive times ties the velocity to them.

    >>> blocks = trajectory_circuit_moves([[1, 0.125], [0, 1]], 100, 1.0)
    >>> float(max(abs(found.moves[1]).max() for found in blocks))  # doctest: +ELLIPSIS
    8.0000000...

    Sources
    -------
    DPAM, Definition 4 and section 5.
    """
    A = real_array(A, "A", ndim=2)
    if A.shape[0] != A.shape[1] or not A.size:
        raise ValueError(f"A: expected a square matrix, got shape {A.shape}")
    n, horizon, block = (
        len(A),
        positive_integer(horizon, "horizon"),
        positive_integer(block, "block"),
    )
    radius = radii(radius, (horizon, n))
    if isinstance(charts, str) and charts != "all":
        raise ValueError(
            f"charts: expected 'all' or a list of index sets, got {charts!r}"
        )
    whole, common = _integer_matrix(A)
    if charts != "all":
        return iter([_chart_block(whole, common, horizon, radius.ravel(), charts)])
    if n == 1 or whole.det() == 0 or (radius != radius[0]).any():
        return enumerate_moves(
            IntegerRows(_power_rows(whole, common, horizon)), radius.ravel()
        )
    return _shifted_moves(
        _TrajectoryRows(whole, common, horizon), horizon, radius[0], block
    )


def _chart_block(
    whole: IntegerMatrix,
    common: Integer,
    horizon: int,
    radius: NDArray,
    charts: Any,
) -> CircuitMoves:
    """The moves of given charts, each entry rounded from its rational."""
    rows = [
        [Rational(x, denominator) for x in row]
        for row, denominator in _power_rows(whole, common, horizon)
    ]
    moves = chart_moves(rows, [rational(mu) for mu in radius.tolist()], charts)
    block = rounded_block([sparse(move) for move in moves], whole.nrows())
    count = len(moves)
    held = [
        [i for i in chart if i != moved]
        for chart in charts
        for moved in chart
        if radius[moved] > 0
    ]
    base = np.array(held, int).reshape(count, whole.nrows() - 1).T
    return CircuitMoves(
        block.data, block.errors, base, np.zeros(count, int), np.arange(count)
    )


def count_trajectory_circuits(n: int, horizon: int) -> int:
    """Number of candidate row sets of a trajectory of n states, T samples: C(T n, n - 1)."""
    return comb(positive_integer(n, "n") * positive_integer(horizon, "horizon"), n - 1)


def _integer_matrix(A: NDArray) -> tuple[IntegerMatrix, Integer]:
    """Integers and a common denominator that are A, exactly."""
    rows = integer_rows(A)
    common = max(c for _, c in rows)
    return fmpz_mat([[x * (common // c) for x in row] for row, c in rows]), common


def _power_rows(
    whole: IntegerMatrix, common: Integer, horizon: int
) -> list[tuple[list[Integer], Integer]]:
    """Rows of [I; A; ...; A^{T-1}], exactly, as pairs (integers, common denominator)."""
    rows, power = [], whole**0
    for t in range(horizon):
        rows += [(row, common**t) for row in power.tolist()]
        power = power * whole
    return rows


class _TrajectoryRows(ExactRows):
    """Rows e_m^T A^t S for t = -(T-1), ..., T-1, time-major; S separates modes of different growth."""

    def __init__(self, whole: IntegerMatrix, common: Integer, horizon: int) -> None:
        self._whole, self._horizon, self._order = whole, horizon, whole.nrows()
        self._A, self._powers = fmpq_mat(whole) / common, [whole**0]
        precision = _precision(self._A, horizon)
        with working_bits(precision):
            self._basis = _separating_basis(self._A, horizon)
        super().__init__(precision)

    def balls(self, precision: int) -> list[list[Ball]]:
        """A^t S by balls, backwards and forwards."""
        forward, backward = _balls(self._A), _balls(self._A.inv())
        ahead, behind = [self._basis], [self._basis]
        for _ in range(self._horizon - 1):
            ahead.append(forward * ahead[-1])
            behind.append(backward * behind[-1])
        return [row for power in behind[:0:-1] + ahead for row in power.tolist()]

    def integers(self, index: Sequence[int]) -> list[list[Integer]]:
        """Integer rows with these indices, shifted together so that the earliest is at time 0."""
        n, times = self._order, [i // self._order for i in index]
        while len(self._powers) <= max(times) - min(times):
            self._powers.append(self._powers[-1] * self._whole)
        return [
            [self._powers[t - min(times)][i % n, j] for j in range(n)]
            for t, i in zip(times, index)
        ]

    def parallels(self):
        """For every state m the least t > 0 at which e_m^T A^t is parallel to a row of time 0, else T.

        Returns these lags, and labels of the rows that are equal for rows so related at any time.
        """
        n, origin = self._order, (self._horizon - 1) * self._order
        value, bound = self.value[origin:], self.bound[origin:]
        a, b = np.triu_indices(n, 1)
        lags, partner = np.full(n, self._horizon), np.arange(n)
        for row, state in product(range(n), range(n)):
            left, right = (
                value[row, a] * value[state::n, b],
                value[row, b] * value[state::n, a],
            )
            size = (
                bound[row, a] * bound[state::n, b] + bound[row, b] * bound[state::n, a]
            )
            for t in np.flatnonzero(
                (np.abs(left - right) <= 8 * UNIT * size).all(axis=1)
            ):
                if t >= lags[state]:
                    break
                index = [origin + row, origin + int(t) * n + state]
                if t and (
                    not size[t].any() or fmpz_mat(self.integers(index)).rank() == 1
                ):
                    lags[state], partner[state] = t, row
        labels = np.arange(len(self.value)).reshape(-1, n)
        for t in range(len(labels)):
            for m in np.flatnonzero(lags <= min(t, self._horizon - 1)):
                labels[t, m] = labels[t - lags[m], partner[m]]
        return lags, labels.ravel()


def _base_sets(n: int, horizon: int, lags: NDArray) -> Iterator[tuple[int, ...]]:
    """Sets of n - 1 rows that start at time 0, in the order of their last time, without redundant rows.

    A row that is parallel to an earlier one in the horizon spans nothing of its own.
    """
    yield from combinations(range(n), n - 1)
    if n == 2:
        return
    allowed = [t * n + m for t in range(horizon) for m in range(n) if t < lags[m]]
    for place, last in enumerate(allowed[n:], n):
        for first in range(n):
            for middle in combinations(
                allowed[first + 1 : place] if n > 3 else (), n - 3
            ):
                yield (first, *middle, last)


def _shifted_moves(rows, horizon, radius, block):
    """Blocks of moves: every base set with all the shifts that keep it inside the horizon."""
    n = rows.dimension
    protected = np.flatnonzero(radius > 0)
    index = np.arange((2 * horizon - 1) * n)
    sizes = np.where(radius > 0, radius, 1.0)
    targets = rows.targets(index, np.tile(sizes, 2 * horizon - 1))
    size = (targets.factor.reshape(-1, n) * sizes)[:horizon, :, None]
    origin = (horizon - 1) * n
    lags, classes = rows.parallels()
    classes = classes if (lags < horizon).any() else None
    for base in chunks(_base_sets(n, horizon, lags), n - 1, block):
        shifts = horizon - int(base.max(axis=0).min()) // n
        window = targets.part(slice((horizon - shifts) * n, None))
        base, cofactors = rows.cofactors(base + origin)
        if not base.shape[1]:
            continue
        entries = rows.entries(
            window, base, cofactors, index - (horizon - shifts) * n, classes
        )
        base = base - origin
        low = entries.low.reshape(-1, n, base.shape[1])
        least = _window_minima(
            low if len(protected) == n else low[:, protected], horizon, shifts
        )
        valid = np.isfinite(least)
        valid &= (
            np.arange(shifts)[:, None]
            >= shifts - horizon + base.max(axis=0, initial=0) // n
        )
        place, column = np.nonzero(valid)
        value = entries.value[: shifts * n].reshape(shifts, n, -1)
        error = entries.error[: shifts * n].reshape(shifts, n, -1)
        scale = (1 + 24 * UNIT) / least
        moves = np.empty((n, len(place)))
        errors = np.empty((n, len(place)))
        with np.errstate(over="ignore"):
            for m in range(n):
                units = size[horizon - shifts :, m] * scale
                moves[m] = (value[:, m] * units)[valid]
                errors[m] = (error[:, m] * units)[valid]
        errors += 8 * UNIT * np.abs(moves)
        shift = (shifts - 1 - place) * n
        yield CircuitMoves(moves, errors, base, shift, column)


def _window_minima(low: NDArray, horizon: int, shifts: int) -> NDArray:
    """Minima over the windows -s, ..., T-1-s, for s = shifts-1, ..., 0, of sizes (times, states, B)."""
    least = low.min(axis=1, initial=np.inf)
    for i in range(shifts - 3, -1, -1):
        np.minimum(least[i], least[i + 1], out=least[i])
    for i in range(shifts, len(least)):
        np.minimum(least[i], least[i - 1], out=least[i])
    window = least[horizon - 1 :].copy()
    np.minimum(window[:-1], least[: shifts - 1], out=window[:-1])
    return window


def _balls(matrix: RationalMatrix) -> BallMatrix:
    return arb_mat([[arb(x) for x in row] for row in matrix.tolist()])


def _precision(A: RationalMatrix, horizon: int) -> int:
    """Bits that leave 60 correct ones in A^t, t = -T..T, by the growth of the sizes of A and its inverse."""
    dense = np.array([[float(arb(x)) for x in row] for row in A.tolist()])
    inverse = np.array([[float(arb(x)) for x in row] for row in A.inv().tolist()])
    if not np.isfinite(inverse).all():
        raise UncertifiableError(
            "the inverse of A exceeds double precision; declare its structural zeros or rescale"
        )
    growth = [
        np.abs(np.linalg.eigvals(x)).max()
        for x in (np.abs(dense), np.abs(inverse), dense, inverse)
    ]
    bits = horizon * np.log2([growth[0] * growth[3], growth[1] * growth[2]]).max()
    return 192 + int(np.clip(bits, 0, 2**16))


def _separating_basis(A, horizon):
    """An exact invertible S whose columns span invariant subspaces of separate growth, or the identity.

    Circuits do not depend on S; with the modes apart, their minors cancel less.
    """
    n = A.nrows()
    identity = arb_mat(n, n, [int(i == j) for i in range(n) for j in range(n)])
    whole = fmpz_poly([int(x) for x in A.charpoly().numer().coeffs()])
    roots = sorted(
        (r for root, times in whole.complex_roots() for r in [root] * times),
        key=lambda r: float(abs(r)),
    )
    growth = horizon * np.log2([float(abs(r)) for r in roots])
    groups = np.split(np.arange(n), 1 + np.flatnonzero(np.diff(growth) > 10))
    if len(groups) == 1:
        return identity
    state, columns = acb_mat(_balls(A)), []
    for group in groups:
        projector = acb_mat(identity)
        for j in set(range(n)) - set(group.tolist()):
            projector = projector * (state - roots[j] * acb_mat(identity))
        projector = [[x.real.mid() for x in row] for row in projector.tolist()]
        dense = np.array([[float(x) for x in row] for row in projector])
        pivots = scipy.linalg.qr(
            dense / np.maximum(np.abs(dense).max(axis=0), 1e-300),
            mode="r",
            pivoting=True,
        )[1]
        columns += [
            _rounded([row[p] for row in projector]) for p in pivots[: len(group)]
        ]
    basis = arb_mat([list(row) for row in zip(*columns)])
    dense = np.array([[float(x) for x in row] for row in basis.tolist()])
    if np.linalg.cond(dense) > 1e8 or basis.det().contains(0):
        return identity
    # Row 0 of a base set carries the fastest mode; make the others equal halfway through the horizon.
    centred = [arb((1, int(min(growth[1] - g, 0)) // 2)) for g in growth]
    return basis * arb_mat(
        n, n, [centred[i] if i == j else arb(0) for i in range(n) for j in range(n)]
    )


def _rounded(column: Sequence[Ball]) -> list[Ball]:
    """A column scaled to size 1, its round-off taken for zero; any exact choice is a valid basis vector."""
    unit = 1 / max(abs(x) for x in column)
    floor = arb((1, -(ctx.prec // 2)))
    return [(x * unit).mid() if abs(x * unit) > floor else arb(0) for x in column]
