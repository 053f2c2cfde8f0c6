"""Circuits from the constraints, in supports of q + 1 entries: against minimal supports found one by one in rationals."""

import tracemalloc
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from flint import fmpq, fmpq_mat

from privcontrol.core import (
    AffineManifold,
    LinearQuery,
    UncertifiableError,
    manifold as circuits_module,
)
from privcontrol.core.manifold import kernel_error


def rational(matrix):
    return fmpq_mat(
        *matrix.shape, [fmpq(*x.as_integer_ratio()) for x in matrix.ravel().tolist()]
    )


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
        for x, rounded, error in zip(exact, data.tolist(), errors.tolist()):
            assert abs(x - Fraction(rounded)) <= Fraction(error)
            assert error <= 2.0**-52 * abs(rounded) + 1e-320
        support = tuple(j for j, x in enumerate(exact) if x)
        assert support not in found
        sign = 1 if exact[support[0]] > 0 else -1
        found[support] = [sign * exact[j] for j in support]
    return found


@pytest.mark.parametrize("n", range(2, 9))
def test_circuits_are_the_minimal_supports_exactly_and_each_comes_once(n):
    rng = np.random.default_rng(n)
    for q in range(1, n + 1):
        for _ in range(12 if n < 8 else 4):
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
            assert low <= high and high >= 1
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
    assert (0, 1) in found and (0, 2) not in found


def test_few_constraints_on_many_entries_take_no_more_than_their_moves():
    """The work is two minors for each pair of entries, not 2^149 terms."""
    manifold = AffineManifold(np.ones((1, 150)), [-1.0])
    tracemalloc.start()
    moves = manifold.circuit_moves(np.full(150, 0.05))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    sizes = np.linalg.norm(moves.columns, axis=0)
    np.testing.assert_allclose(sizes, 0.05 * np.sqrt(2), rtol=1e-12)
    assert moves.columns.shape[1] == 11175 and peak < 5 * moves.data.nbytes


@pytest.mark.parametrize(
    "basis", ["differences", "from the first", "generic", "orthonormal"]
)
def test_shares_given_by_a_kernel(basis):
    n, rng = 40, np.random.default_rng(0)
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


def test_moves_beyond_double_precision_are_refused():
    manifold = AffineManifold([[1.0, 2.0**-700]], pinned="keep")
    with pytest.raises(UncertifiableError, match="range of double precision"):
        manifold.circuit_moves(np.array([1e300, 0.0]))


def test_the_kernels_error_bounds_its_distance_from_the_exact_tangent_space():
    rng = np.random.default_rng(3)
    for size in (3, 6, 12):
        D = rng.standard_normal((2, size)) * 10.0 ** rng.integers(-6, 6, (2, 1))
        manifold = AffineManifold(D)
        exact = rational(D)
        gram = (exact * exact.transpose()).inv()
        across = exact.transpose() * (gram * (exact * rational(manifold.kernel)))
        worst = max(abs(Fraction(int(x.p), int(x.q))) for x in across.entries())
        assert worst <= Fraction(kernel_error(manifold)) <= max(2 * worst, 1e-300)


@pytest.mark.parametrize("way", WAYS[1:])
@pytest.mark.parametrize("seed", range(6))
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
