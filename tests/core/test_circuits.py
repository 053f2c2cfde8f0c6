"""Circuits, the worst moves of a manifold, in exact rational arithmetic.

Those of kernels and plants are compared with Definition 4 of DPAM read literally, every
index set d. Those of constraints, in supports of q + 1 entries, are compared with minimal
supports found one by one.
"""

import time
import tracemalloc
from fractions import Fraction
from itertools import combinations
from math import comb

import control as ct
import mpmath
import numpy as np
import pytest
from flint import fmpq, fmpq_mat
from repeats import few

import privcontrol as pc
from privcontrol.core import (
    AffineManifold,
    LinearQuery,
    UncertifiableError,
    manifold as circuits_module,
)
from privcontrol.core.manifold import (
    Component,
    FiniteMoves,
    kernel_error,
    rounded,
    stretched,
)
from privcontrol.numerics.linalg import EPS
from privcontrol.secrets import trajectory as trajectories

VEHICLE = np.array([[1, 0.1], [0, 1]])
ROTATION = np.array([[np.cos(1), -np.sin(1)], [np.sin(1), np.cos(1)]])
SLACK = Fraction(1) + Fraction(1, 2**31)


def rational(matrix):
    """The floats of a matrix, exactly."""
    matrix = np.atleast_2d(np.asarray(matrix, float))
    return fmpq_mat(
        *matrix.shape, [fmpq(*x.as_integer_ratio()) for x in matrix.ravel().tolist()]
    )


def circuit_moves(N, radius):
    """The moves of the manifold with this kernel, rounded to doubles."""
    kernel = rational(N)
    whole = Component(np.arange(len(N)), kernel, True, kernel.ncols())
    sizes = np.nan_to_num(np.broadcast_to(radius, len(N)))
    data, _ = rounded(stretched(whole.circuits(), sizes), len(N))
    return [FiniteMoves(data, errors=np.abs(data) * EPS)]


def trajectory_circuit_moves(A, horizon, radius, charts="all"):
    """The moves of trajectories, with one radius for all or some of states or times."""
    A = np.array(A, float)
    sizes = np.nan_to_num(np.broadcast_to(radius, (horizon, len(A))))
    return [trajectories.trajectory_circuit_moves(A, horizon, sizes, charts)]


def stack(A, horizon):
    """[I; A; ...; A^{T-1}], exactly."""
    return fmpq_mat(
        [row for t in range(horizon) for row in (rational(A) ** t).tolist()]
    )


def rows(matrix, index):
    return fmpq_mat(
        len(index),
        matrix.ncols(),
        [matrix[i, j] for i in index for j in range(matrix.ncols())],
    )


def unit(vector):
    """The direction of a vector, as a key, and its length in units of that key's first entry."""
    lead = next(x for x in vector if x != 0)
    return tuple((int((x / lead).p), int((x / lead).q)) for x in vector), abs(lead)


def definition_4(N, radius):
    """Definition 4 in tangent coordinates: {direction of z: length of the longest move}, over all sets d."""
    n, k = N.nrows(), N.ncols()
    free = next(c for c in combinations(range(n), k) if rows(N, c).det() != 0)
    inverse = rows(N, free).inv()
    tied = [i for i in range(n) if i not in free]
    D = fmpq_mat(n - k, n)  # x_tied - N_tied N_free^{-1} x_free = 0
    for r, i in enumerate(tied):
        product = rows(N, [i]) * inverse
        D[r, i] = 1
        for c, j in enumerate(free):
            D[r, j] = -product[0, c]
    longest = {}
    for d in combinations(range(n), n - k):
        D_d = fmpq_mat(n - k, n - k, [D[r, i] for r in range(n - k) for i in d])
        if d and D_d.det() == 0:
            continue
        for i in set(range(n)) - set(d):
            if not radius[i] > 0:
                continue
            move = [fmpq(j == i) for j in range(n)]
            if d:
                column = D_d.inv() * fmpq_mat(n - k, 1, [D[r, i] for r in range(n - k)])
                for r, j in enumerate(d):
                    move[j] = -column[r, 0]
            mu = fmpq(*float(radius[i]).as_integer_ratio())
            z = inverse * fmpq_mat(k, 1, [move[j] * mu for j in free])
            key, length = unit(z.entries())
            longest[key] = max(longest.get(key, length), length)
    return longest


def orthogonal(matrix, k):
    """The vector orthogonal to k - 1 independent rows."""
    if k == 1:
        return [fmpq(1)]
    echelon, rank = matrix.rref()
    assert rank == k - 1
    pivots = [next(j for j in range(k) if echelon[i, j] != 0) for i in range(rank)]
    (free,) = set(range(k)) - set(pivots)
    z = [fmpq(0)] * k
    z[free] = fmpq(1)
    for i, j in enumerate(pivots):
        z[j] = -echelon[i, free]
    return z


def elementary_vectors(N, radius):
    """The moves of Definition 4 by eq. (5) of DPAM, one set of k - 1 rows after the other, exactly."""
    longest = {}
    for held in combinations(range(N.nrows()), N.ncols() - 1):
        if rows(N, held).rank() == N.ncols() - 1:
            z = fmpq_mat(N.ncols(), 1, orthogonal(rows(N, held), N.ncols()))
            sizes = [
                abs(x) / fmpq(*float(mu).as_integer_ratio())
                for x, mu in zip((N * z).entries(), radius)
                if mu > 0
            ]
            if any(sizes):
                key, length = unit(z.entries())
                longest[key] = length / min(x for x in sizes if x)
    return longest


def multiple_within(move, errors, exact):
    """The multiples [low, high] of an exact move that lie within the errors of another."""
    low, high = Fraction(0), SLACK
    for got, error, want in zip(move, errors, exact):
        got, error = Fraction(got), Fraction(error)
        if want == 0:
            assert abs(got) <= error
            continue
        ends = sorted(((got - error) / want, (got + error) / want))
        low, high = max(low, ends[0]), min(high, ends[1])
    return low, high


def check(N, blocks, radius, truth=definition_4):
    """Equality of the two sets of moves: of each move a multiple from 1 to 1 + 2^-31 lies within the errors."""
    moves = {}
    for key, length in truth(N, radius).items():
        z = fmpq_mat(N.ncols(), 1, [fmpq(p, q) * length for p, q in key])
        moves[key] = [Fraction(int(x.p), int(x.q)) for x in (N * z).entries()]
    found = set()
    for block in blocks:
        for move, errors in zip(block.columns.T.tolist(), block.errors.T.tolist()):
            fits = []
            for key, whole in moves.items():
                exact = whole[: len(move)]  # the first entries
                if [x != 0 for x in exact] == [x != 0 for x in move]:
                    lead = next(i for i, x in enumerate(exact) if x)
                    sign = 1 if (move[lead] > 0) == (exact[lead] > 0) else -1
                    turned = [sign * x for x in move]
                    low, high = multiple_within(turned, errors, exact)
                    if low <= high and high >= 1:
                        fits.append(key)
            assert len(fits) == 1
            found.update(fits)
            assert max(errors) <= 2.0**-30 * max(map(abs, move))
    assert found == moves.keys()


def random_manifold(rng):
    n = int(rng.integers(1, 9))
    k = int(rng.integers(1, n + 1))
    while True:
        kind = rng.integers(4)
        if kind == 0:
            N = rng.integers(-2, 3, (n, k)).astype(float)
        elif kind == 1:
            N = rng.standard_normal((n, k)) * (rng.random((n, k)) < 0.7)
        elif kind == 2:
            N = np.round(rng.standard_normal((n, k)), 1)
        else:
            N = rng.standard_normal((n, k)) * 10.0 ** rng.integers(-30, 30, (n, 1))
        N[rng.random(n) < 0.1] = 0  # pinned entries
        if rational(N).rank() == k:
            return N


def test_circuits_are_definition_4_on_200_random_manifolds():
    rng = np.random.default_rng(0)
    for _ in range(200):
        N = random_manifold(rng)
        radius = np.where(
            rng.random(len(N)) < 0.8,
            rng.choice([1.0, 0.3, 7.0], len(N)),
            rng.choice([0.0, np.nan]),
        )
        check(rational(N), circuit_moves(N, radius), np.nan_to_num(radius))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_flats_parallel_rows_and_far_radii_leave_every_move(seed):
    """Generic rows next to rows in common planes, radii and rows over many decades, blocks of all sizes."""
    rng = np.random.default_rng(seed)
    k = 3 + seed % 2
    N = rng.standard_normal((26 if k == 3 else 17, k))
    N[:9] = rng.integers(-3, 4, (9, k))
    N[:9, 0] = 0
    N[6:12, -1] = 0
    N[13] = 3 * N[14]
    N = rng.permutation(
        N * np.ldexp(1.0, rng.integers(-60, 60, (len(N), 1)) * (seed % 4 > 1))
    )
    radius = rng.choice([1.0, 0.3, 0.0], len(N)) * 10.0 ** (
        rng.uniform(-9, 9, len(N)) * (seed % 4 > 0)
    )
    check(rational(N), circuit_moves(N, radius), radius, elementary_vectors)


def test_rows_with_equal_rounded_quotients_are_not_taken_for_parallel():
    N = np.array([[1 + 2.0**-52, 1.0], [1.0, 1 - 2.0**-52], [1.0, 0.0]])
    assert N[0, 1] / N[0, 0] == N[1, 1] / N[1, 0]
    check(rational(N), circuit_moves(N, 1.0), np.ones(3))


@pytest.mark.parametrize("seed", few([*range(7), *range(8, 12), 7], of=3))
def test_trajectory_circuits_are_definition_4(seed):
    rng = np.random.default_rng(seed)
    n, horizon = [(1, 6), (2, 7), (3, 4), (4, 3)][seed % 4]
    A = (
        np.round(rng.standard_normal((n, n)), 1)
        if seed < 8
        else rng.integers(-1, 2, (n, n)).astype(float)
    )
    if seed % 3 == 0:
        A[:, 0] = A[:, -1]  # singular for n > 1
    radius = rng.choice([0.0, 1.0, 0.7], n)
    full = np.tile(radius, horizon)
    check(stack(A, horizon), trajectory_circuit_moves(A, horizon, radius), full)
    full = rng.choice([0.0, 1.0, 0.7], (horizon, n))
    check(
        stack(A, horizon),
        trajectory_circuit_moves(A, horizon, full),
        full.ravel(),
    )


def test_blocks_all_of_whose_row_sets_are_dependent_give_no_moves():
    A = np.kron(np.eye(2), [[1, 0.5], [0.25, 1]])
    check(stack(A, 3), trajectory_circuit_moves(A, 3, 1.0), np.ones(12))
    N = np.vstack(
        [np.eye(4)[:2], [[1, 1, 0, 0], [1, 2, 0, 0]], np.eye(4)[2:], [[1, 1, 1, 1]]]
    )
    check(rational(N), circuit_moves(N, 1.0), np.ones(7))


def test_a_plant_with_an_input_delay_is_enumerated_plainly():
    A = [[1, 0.25, 0], [0, 1, 0.25], [0, 0, 0]]
    check(stack(A, 6), trajectory_circuit_moves(A, 6, 1.0), np.ones(18))
    moves = np.hstack([block.columns for block in trajectory_circuit_moves(A, 30, 1.0)])
    assert moves.shape[1] < 200 < comb(90, 2)


@pytest.mark.parametrize("n, horizon", few([(2, 40), (3, 12), (4, 6)], of=2))
def test_shared_shifts_change_no_move(n, horizon):
    """Against a radius that differs by one ulp, which has no shifts to share."""
    A = np.round(np.random.default_rng(3).standard_normal((n, n)), 1)
    radius = np.linspace(1, 2, n)
    full = np.tile(radius, (horizon, 1))
    full[0, 0] = np.nextafter(full[0, 0], 0)
    shared, plain = (
        np.hstack(
            [block.columns for block in trajectory_circuit_moves(A, horizon, each)]
        )
        for each in (radius, full)
    )
    for moves in (shared, plain):
        moves *= np.sign(moves[0])
    shared, plain = (np.unique(moves.round(9), axis=1) for moves in (shared, plain))
    np.testing.assert_allclose(shared, plain, atol=2e-9)


def test_vehicle_full_definition_4_is_one_over_the_sampling_period_times_the_block_charts():
    for horizon in [*range(2, 12), 30, 100, 300, 1000]:
        moves = np.hstack(
            [block.columns for block in trajectory_circuit_moves(VEHICLE, horizon, 1.0)]
        )
        worst = np.abs(moves[1]).max()
        assert 10.0 <= worst <= 10.0 * (1 + 1e-14)
        speeding = moves[:, moves[1] != 0]
        charts = [[2 * t, 2 * t + 1] for t in range(horizon)]
        (block,) = trajectory_circuit_moves(
            VEHICLE, horizon, [np.nan, 1.0], charts=charts
        )
        expected = 10 * block.columns[0] / block.columns[1]
        np.testing.assert_allclose(
            np.sort(10 * speeding[0] / speeding[1]), np.sort(expected), rtol=1e-13
        )
        np.testing.assert_allclose(np.abs(speeding[1]), 10, rtol=1e-13)
        np.testing.assert_array_equal(moves[0, moves[1] == 0] != 0, True)
        np.testing.assert_allclose(np.abs(moves[0, moves[1] == 0]), 1, rtol=1e-13)


def test_the_chart_of_two_successive_positions_moves_the_velocity_by_the_inverse_sampling_period():
    (found,) = trajectory_circuit_moves(VEHICLE, 2, [1.0, np.nan], charts=[[0, 2]])
    exact = 1 / Fraction(0.1)
    velocity = np.abs(found.columns[1]).max()
    error = Fraction(found.errors.max())
    assert velocity == 10.0
    assert abs(Fraction(velocity) - exact) <= error < 1e-14


@pytest.mark.slow
@pytest.mark.parametrize("horizon, growth", [(10, 7), (30, 226), (1000, 33174)])
def test_rotation_worst_circuit_grows_with_the_horizon_while_the_block_charts_stay_at_one(
    horizon, growth
):
    worst = max(
        np.linalg.norm(b.columns, axis=0).max()
        for b in trajectory_circuit_moves(ROTATION, horizon, 1.0)
    )
    assert round(worst) == growth
    charts = [[2 * t, 2 * t + 1] for t in range(horizon)]
    (blocks,) = trajectory_circuit_moves(ROTATION, horizon, 1.0, charts=charts)
    np.testing.assert_allclose(np.linalg.norm(blocks.columns, axis=0), 1, rtol=1e-12)


def test_no_tolerance_separates_the_zeros_and_none_is_used():
    """Exact zeros whose computed minors exceed true nonzero minors: the answer is still Definition 4."""
    rng = np.random.default_rng(1)
    noise, signal = [], []
    for _ in range(20):
        ill = rng.integers(-(2**21), 2**21, (3, 1)) @ rng.integers(
            -9, 10, (1, 3)
        ) + rng.integers(-9, 10, (3, 3))
        base = rng.integers(-9, 10, (4, 3)) @ ill
        N = np.vstack(
            [base, base[0] + base[1], base[2] - 2 * base[1], base[0] - 3 * base[3]]
        ).astype(float)
        N[-1] *= 1 + 2.0**-52 * rng.integers(1, 4, 3)
        if rational(N).rank() < 3 or np.abs(N).max() >= 2**53:
            continue
        for index in combinations(range(7), 3):
            scale = np.prod(np.linalg.norm(N[list(index)], axis=1))
            exact = rows(rational(N), index).det()
            value = abs(float(np.linalg.det(N[list(index)]))) / scale if scale else 0.0
            (noise if exact == 0 else signal).append(
                value if exact == 0 else abs(int(exact.p) / int(exact.q)) / scale
            )
        check(rational(N), circuit_moves(N, 1.0), np.ones(7))
    assert max(noise) > 10 * min(signal) > 0


def test_a_nonzero_minor_far_below_double_precision_is_no_zero():
    rng = np.random.default_rng(2)
    lower, upper, last = (
        np.tril(rng.integers(-(2**15), 2**15, (4, 4)), -1) + np.eye(4) for _ in range(3)
    )
    unimodular = (
        lower @ upper.T @ last
    )  # exact: integers below 2^53 whose determinant is 1
    assert np.abs(unimodular).max() < 2**53
    assert rational(unimodular).det() == 1
    N = np.vstack([unimodular, unimodular[0] + unimodular[1], rng.integers(-9, 9, 4)])
    check(rational(N), circuit_moves(N, 1.0), np.ones(6))


@pytest.mark.parametrize(
    "A", [VEHICLE, ROTATION, [[0.5, 0.2, 0], [0, 1, 0.3], [0.1, 0, 0.9]]]
)
def test_time_blocks_as_charts_are_the_backward_powers(A):
    n, horizon, radius = len(A), 30, np.linspace(0.5, 2, len(A))
    charts = [range(t * n, t * n + n) for t in range(horizon)]
    (found,) = trajectory_circuit_moves(A, horizon, radius, charts=charts)
    with mpmath.workdps(60):
        inverse = mpmath.inverse(mpmath.matrix(np.asarray(A).tolist()))
        for t in range(horizon):
            exact = np.array((inverse**t).tolist(), float).reshape(n, n) * radius
            np.testing.assert_allclose(
                found.columns[:, t * n : t * n + n], exact, rtol=1e-15
            )


def test_three_states_over_fifty_samples_take_a_second():
    rng = np.random.default_rng(3)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    A = turn @ np.diag([0.9, 0.95, 1.0]) @ turn.T
    radius = np.linspace(1, 2, 3)
    count = 0
    worst = []
    for block in trajectory_circuit_moves(A, 50, radius):
        count += block.columns.shape[1]
        worst.append(block.columns[:, np.abs(block.columns).max(axis=0).argmax()])
    assert count == comb(150, 2)
    with mpmath.workdps(60):  # two entries stay, and no other one moves by less than 1
        exact = mpmath.matrix(A.tolist())
        for z in worst[::75]:
            x = mpmath.matrix(z.tolist())
            sizes = []
            for _ in range(50):
                sizes += [float(abs(x[m]) / radius[m]) for m in range(3)]
                x = exact * x
            low = np.sort(sizes)
            assert low[1] < 1e-9
            assert low[2] == pytest.approx(1, rel=1e-9)


def test_what_takes_too_long_is_refused_before_it_starts():
    for n, horizon in ((4, 100), (3, 300)):
        with pytest.raises(ValueError, match="more than 10 seconds"):
            trajectory_circuit_moves(np.eye(n) + np.tri(n) / 8, horizon, 1.0)


def test_moves_beyond_double_precision_are_refused():
    with pytest.raises(UncertifiableError, match="leaves the range of double"):
        list(trajectory_circuit_moves([[0.01, 1], [0, 1]], 300, 1.0))
    with pytest.raises(UncertifiableError, match="leaves the range of double"):
        list(circuit_moves(np.array([[1e-150], [1.0]]), [1e200, np.nan]))
    with pytest.raises(UncertifiableError, match="leaves the range of double"):
        list(trajectory_circuit_moves(VEHICLE / 8, 60, [1e280, np.nan]))


def test_responses_to_trajectory_circuits_are_within_their_bounds():
    """The errors of the moves are counted in those of the outputs."""
    plant = ct.ss(VEHICLE, [[0], [1]], [[1, 0]], 0, 0.1)
    query = pc.output_query(plant, 6)
    moves = pc.StateAdjacency(1.0, charts="all").moves(query.manifold)
    larger = FiniteMoves(moves.columns, errors=1e-3 * np.abs(moves.columns))
    _, bounds = larger.output_responses(query)
    shifted = np.abs(query.response) @ (1e-3 * np.abs(moves.columns))
    assert (bounds >= shifted).all()
    assert (bounds <= 1.01 * shifted + 1e-9).all()
    _, plain = moves.output_responses(query)
    assert (plain < 1e-9 * np.abs(moves.columns).max() * 10).all()


# -- of constraints ----------------------------------------------------------------------


def minimal_supports(D, radius):
    """{support: exact worst move, its first entry positive}, by the definition of a circuit of ker D."""
    exact, n, found = rational(D), D.shape[1], {}
    for size in range(1, n + 1):
        for support in combinations(range(n), size):
            if any(set(less) <= set(support) for less in found):
                continue
            part = fmpq_mat(
                len(D), size, [exact[r, j] for r in range(len(D)) for j in support]
            )
            echelon, rank = part.rref()
            if rank == size:
                continue
            move = [
                Fraction(-int(echelon[r, size - 1].p), int(echelon[r, size - 1].q))
                for r in range(rank)
            ] + [1]
            found[support] = [x / move[0] for x in move]
    scaled = {}
    for support, move in found.items():
        if any(radius[j] > 0 for j in support):
            scale = max(
                Fraction(radius[j]) / abs(x)
                for j, x in zip(support, move)
                if radius[j] > 0
            )
            scaled[support] = [scale * x for x in move]
    return scaled


def random_constraints(rng, n, q):
    """Generic, sparse, whole or decimal numbers; with equal, parallel, dependent and zero columns, in many units."""
    kind = rng.integers(4)
    D = (
        rng.standard_normal((q, n))
        if kind
        else rng.integers(-2, 3, (q, n)).astype(float)
    )
    D = np.round(D, 1) if kind == 1 else D
    D *= rng.random((q, n)) < rng.choice([1.0, 0.7])
    a, b, c = rng.integers(n, size=3)
    D[:, a] = rng.choice([1.0, -3.0, 0.0]) * D[:, b]
    if rng.random() < 0.4:
        D[:, c] = D[:, a] + D[:, b]
    if rng.random() < 0.3 and q > 1:
        D[0] = 2 * D[1]
    if kind == 3:
        D = (
            D
            * np.ldexp(1.0, rng.integers(-60, 60, n))
            * np.ldexp(1.0, rng.integers(-60, 60, (q, 1)))
        )
    return D


def exact_moves(manifold, radius):
    """{support: exact worst move, its first entry positive}; each circuit comes once."""
    found = {}
    moves = manifold.circuit_moves(radius)
    for move, data, errors in zip(moves.rationals, moves.data.T, moves.errors.T):
        exact = [Fraction(int(x.p), int(x.q)) for x in move]
        for x, double, error in zip(exact, data.tolist(), errors.tolist()):
            assert abs(x - Fraction(double)) <= Fraction(error)
            assert error <= 2.0**-52 * abs(double) + 1e-320
        support = tuple(j for j, x in enumerate(exact) if x)
        assert support not in found
        sign = 1 if exact[support[0]] > 0 else -1
        found[support] = [sign * exact[j] for j in support]
    return found


@pytest.mark.parametrize("n", range(2, 9))
def test_circuits_are_the_minimal_supports_exactly_and_each_comes_once(n):
    rng = np.random.default_rng(n)
    for q in range(1, n + 1):
        for _ in range(6 if n < 8 else 3):
            D = random_constraints(rng, n, q)
            radius = rng.choice([0.0, 0.3, 1.0, 7e5], n)
            exact = rational(D).rank()
            if exact == n or exact != np.linalg.matrix_rank(D):
                continue
            try:
                manifold = AffineManifold(D, pinned="keep")
                found = exact_moves(manifold, radius)
            except UncertifiableError:  # ranks that rounding decides
                continue
            truth = minimal_supports(D, radius)
            assert found.keys() == truth.keys()
            for support, move in found.items():
                want = truth[support]
                sign = 1 if want[0] > 0 else -1
                assert move == [sign * x for x in want]


def data_moves(manifold, radius):
    """{support: data move with a positive first entry}; the same circuit may come more than once, but not differ."""
    found = {}
    for move in (manifold.kernel @ manifold.circuit_moves(radius).columns).T:
        support = tuple(
            np.flatnonzero(np.abs(move) > 1e-9 * np.abs(move).max()).tolist()
        )
        move = move * np.sign(move[support[0]])
        np.testing.assert_allclose(
            move,
            found.setdefault(support, move),
            rtol=1e-7,
            atol=1e-9 * np.abs(move).max(),
        )
    return found


def same(found, truth, n):
    assert found.keys() == truth.keys()
    for support, move in truth.items():
        dense = np.zeros(n)
        dense[list(support)] = np.array(move, float)
        np.testing.assert_allclose(
            found[support], dense, rtol=1e-9, atol=1e-9 * np.abs(dense).max()
        )


@pytest.mark.parametrize("count, kept", [(300, True), (301, False)])
def test_moves_of_up_to_30_000_numbers_are_kept_as_rationals(count, kept):
    moves = [((k % 100,), [fmpq(1, 3)]) for k in range(count)]
    columns, exact = rounded(moves, 100)
    assert columns.shape == (100, count)
    assert (exact is not None) == kept


def always(way, monkeypatch):
    """Keep circuits as rationals, or round them to doubles."""
    monkeypatch.setattr(
        circuits_module, "_MOST_RATIONALS", 10**9 if way == "rationals" else 0
    )


WAYS = ["rationals", "doubles"]


@pytest.mark.parametrize("way", WAYS)
def test_circuits_of_a_manifold_are_those_of_its_constraints_every_way(
    way, monkeypatch
):
    always(way, monkeypatch)
    rng = np.random.default_rng(0)
    for _ in range(60):
        n = int(rng.integers(2, 8))
        D = rng.integers(-2, 3, (int(rng.integers(1, n)), n)).astype(float)
        D[:, rng.integers(n)] = D[:, rng.integers(n)]
        radius = np.where(rng.random(n) < 0.7, rng.choice([0.5, 3.0], n), 0.0)
        if np.linalg.matrix_rank(D) == n:
            continue
        manifold, truth = AffineManifold(D, pinned="keep"), minimal_supports(D, radius)
        same(data_moves(manifold, radius), truth, n)


@pytest.mark.parametrize("way", WAYS[1:])
def test_moves_in_doubles_are_exact_ones_within_their_errors(way, monkeypatch):
    """Zeros are exact, and some multiple of each move, from 1 to 1 + 2^-31, lies within the errors."""
    always(way, monkeypatch)
    rng = np.random.default_rng(5)
    for _ in range(60):
        n = int(rng.integers(4, 8))
        D = random_constraints(rng, n, int(rng.integers(1, n)))
        radius = rng.choice([0.0, 0.3, 1.0, 7e5], n)
        rank = rational(D).rank()
        if rank == n or rank != np.linalg.matrix_rank(D):
            continue
        truth = minimal_supports(D, radius)
        try:
            blocks = AffineManifold(D, pinned="keep").circuit_moves(radius)
        except UncertifiableError:  # ranks that rounding decides
            continue
        found = set()
        for data, errors in zip(np.abs(blocks.data).T, blocks.errors.T):
            support = tuple(np.flatnonzero(data).tolist())
            low, high = Fraction(0), 1 + Fraction(1, 2**31)
            for j, want in zip(support, truth[support], strict=True):
                value, error = Fraction(data[j]), Fraction(errors[j])
                assert error <= value / 2**30
                low = max(low, (value - error) / abs(want))
                high = min(high, (value + error) / abs(want))
            assert low <= high
            assert high >= 1
            assert support not in found
            found.add(support)
        assert found == truth.keys()


@pytest.mark.parametrize("way", WAYS[1:])
def test_entries_that_only_integers_know_keep_their_sign(way, monkeypatch):
    """The minor of the first two columns is -2^-45, far below what doubles decide."""
    always(way, monkeypatch)
    D = np.array([[1.0, 1.0 + 2.0**-45, 3.3, 0.7, 1.5], [1.0, 1.0, 0.9, 2.2, 0.3]])
    radius = np.ones(5)
    truth = minimal_supports(D, radius)
    manifold = AffineManifold(D, pinned="keep")
    moves = manifold.circuit_moves(radius).data
    for move in moves.T:
        support = tuple(np.flatnonzero(move).tolist())
        signs = [1 if x > 0 else -1 for x in truth[support]]
        assert (
            np.sign(move[list(support)])
            == np.sign(move[support[0]]) * np.array(signs) * signs[0]
        ).all()
    assert moves.shape[1] == len(truth)


def test_zeros_of_decimals_and_minors_far_below_double_precision_are_told_apart():
    # 3 * 0.3 is not 0.9, and 2 * 0.3 is 0.6
    D = np.array([[0.1, 0.2, 0.3, 1.0, 0.0], [0.3, 0.6, 0.9, 1.0, 1.0]])
    # independent of the second row by one digit
    D = np.vstack([D, D[1] + 2.0**-30 * np.eye(5)[3]])
    found = exact_moves(AffineManifold(D, pinned="keep"), np.ones(5))
    assert found.keys() == minimal_supports(D, np.ones(5)).keys()
    assert (0, 1) in found
    assert (0, 2) not in found


@pytest.mark.slow
def test_few_constraints_on_many_entries_take_no_more_than_their_moves():
    """The work is two minors for each pair of entries, not 2^149 terms."""
    manifold = AffineManifold(np.ones((1, 150)), [-1.0])
    tracemalloc.start()
    moves = manifold.circuit_moves(np.full(150, 0.05))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    sizes = np.linalg.norm(moves.columns, axis=0)
    np.testing.assert_allclose(sizes, 0.05 * np.sqrt(2), rtol=1e-12)
    assert moves.columns.shape[1] == 11175
    assert peak < 5 * moves.data.nbytes


@pytest.mark.parametrize(
    "basis", ["differences", "from the first", "generic", "orthonormal"]
)
def test_shares_given_by_a_kernel(basis):
    n, rng = 25, np.random.default_rng(0)
    N = (
        np.eye(n)[:, :-1] - np.eye(n)[:, 1:]
        if basis == "differences"
        else np.vstack([-np.ones(n - 1), np.eye(n - 1)])
    )
    if basis == "generic":
        N = N @ np.round(rng.standard_normal((n - 1, n - 1)) * 2**20) / 2**20
    manifold = AffineManifold.from_kernel(
        AffineManifold(np.ones((1, n))).kernel if basis == "orthonormal" else N
    )
    found = data_moves(manifold, np.full(n, 0.05))
    assert len(found) == n * (n - 1) // 2
    for (i, j), move in found.items():
        np.testing.assert_allclose(
            move, 0.05 * (np.eye(n)[i] - np.eye(n)[j]), rtol=1e-9, atol=1e-12
        )


def test_moves_along_constraints_beyond_double_precision_are_refused():
    manifold = AffineManifold([[1.0, 2.0**-700]], pinned="keep")
    with pytest.raises(UncertifiableError, match="range of double precision"):
        manifold.circuit_moves(np.array([1e300, 0.0]))


def test_the_kernels_error_bounds_its_distance_from_the_exact_tangent_space():
    rng = np.random.default_rng(3)
    for rows, size in ((2, 3), (2, 6), (2, 12), (20, 24)):
        units = 10.0 ** rng.integers(-6, 6, (rows, 1))
        D = rng.standard_normal((rows, size)) * units
        manifold = AffineManifold(D)
        exact = rational(D)
        gram = (exact * exact.transpose()).inv()
        across = exact.transpose() * (gram * (exact * rational(manifold.kernel)))
        worst = max(abs(Fraction(int(x.p), int(x.q))) for x in across.entries())
        assert worst <= Fraction(kernel_error(manifold)) <= max(2 * worst, 1e-300)


@pytest.mark.parametrize("way", WAYS[1:])
@pytest.mark.parametrize("seed", few(range(6), of=2))
def test_responses_to_circuits_in_doubles_are_within_their_bounds(
    seed, way, monkeypatch
):
    """Against the same circuits in rationals, for queries that nearly cancel some of them."""
    rng = np.random.default_rng(seed)
    D = np.round(rng.standard_normal((3, 7)), 2)
    manifold, radius = AffineManifold(D), rng.choice([1.0, 0.3], 7)
    truth = minimal_supports(D, radius)
    always(way, monkeypatch)
    moves = AffineManifold(D).circuit_moves(radius)
    assert moves.rationals is None
    for _, move in list(truth.items())[:20]:
        target = np.zeros(7)
        support = next(key for key, value in truth.items() if value is move)
        target[list(support)] = np.array(move, float)
        F = rng.standard_normal((2, 7))
        F -= np.outer(F @ target, target) / (target @ target)
        query = LinearQuery(F, manifold)
        responses, bounds = moves.output_responses(query)
        assert (bounds <= 1e-9 * np.abs(F).sum() * np.abs(moves.data).max()).all()
        for response, bound, data in zip(responses.T, bounds.T, moves.data.T):
            key = tuple(np.flatnonzero(np.abs(data) > 1e-7 * np.abs(data).max()))
            sign = 1 if data[key[0]] * float(truth[key][0]) > 0 else -1
            for value, error, row in zip(response, bound, F.tolist()):
                exact = sum(
                    Fraction(row[j]) * x for j, x in zip(key, truth[key], strict=True)
                )
                # the move in doubles may be longer by 2^-31
                slack = Fraction(error) + abs(exact) * Fraction(1, 2**31)
                assert abs(Fraction(value) - sign * exact) <= slack


@pytest.mark.parametrize(
    "A",
    [[[0.9]], [[0.5, 0.5], [0.5, 0.5]], [[0.9, 0.1], [0.0, 0.8]]],
    ids=["one state", "singular", "shared shifts"],
)
def test_a_horizon_beyond_ten_seconds_is_refused_before_any_power_is_taken(A):
    start = time.process_time()
    with pytest.raises(ValueError, match="shorter horizon"):
        trajectory_circuit_moves(A, 100_000, 1.0)
    assert time.process_time() - start < 1.0
