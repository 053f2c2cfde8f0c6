"""Queries, noise and adjacencies in units that lie far apart, at the ends of the doubles, and mislabelled.

What double precision cannot tell is refused; what is promised holds for the numbers as they are given.
"""

from fractions import Fraction
from itertools import combinations

import control as ct
import mpmath
import mpmath as mp
import numpy as np
import oracles
import pytest
import scipy.sparse
from flint import fmpq, fmpq_mat
from repeats import few

import privcontrol as pc
from privcontrol.core import NotRealizableError, PrivacyError
from privcontrol.core.manifold import EllipsoidMoves, FiniteMoves, kernel_error

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)


def text(guarantee):
    """The text of a guarantee on one line."""
    return " ".join(guarantee.explain().split())


def plane(factor):
    """Two entries, published with this Gaussian noise."""
    return pc.Mechanism(pc.LinearQuery(np.eye(2)), pc.GaussianNoise(factor))


@pytest.mark.parametrize(
    "factor", [[1e6, 0.0], [[1e6], [0.0]], [[1e200], [0.0]], [[1e-200], [0.0]]]
)
@pytest.mark.parametrize("small", [1e-6, 1e-12, 1e-20])
def test_an_entry_without_noise_is_bare_however_small_its_move(factor, small):
    size = np.abs(factor).max()
    with pytest.raises(NotRealizableError):
        plane(factor).guarantee(pc.DirectionAdjacency([[size], [size * small]]))


def test_two_directions_are_two_whatever_the_units():
    """(1, u) and (1, -u) need noise of rank two: what is designed hides both, or nothing is."""
    for unit in 10.0 ** -np.arange(0, 20):
        adjacency = pc.DirectionAdjacency([[1.0, 1.0], [unit, -unit]])
        try:
            design = pc.design_gaussian(pc.LinearQuery(np.eye(2)), adjacency, BUDGET)
        except PrivacyError:
            assert unit < 1e-7
            continue
        with mp.workdps(60):
            root = oracles.matrix(design.noise.factor)
            shifts = [
                mp.norm(mp.lu_solve(root, oracles.matrix(move).T))
                for move in adjacency.directions.T
            ]
            assert (
                max(shifts)
                <= mp.mpf(design.guarantee.gdp)
                <= mp.mpf(pc.core.kappa_inverse(1.0, 1e-2))
            )


@pytest.mark.parametrize("size", [1e-200, 1e-170, 1.0, 1e170, 1e200])
def test_sensitivity_and_shift_do_not_vanish_or_overflow(size):
    query, adjacency = (
        pc.LinearQuery([[3.0, 4.0]]),
        pc.DirectionAdjacency([[size], [size]]),
    )
    guarantee = pc.Mechanism(query, pc.GaussianNoise([1.0])).guarantee(adjacency)
    for found in (query.sensitivity(adjacency), guarantee.gdp):
        assert 7 * mp.mpf(size) <= found <= 7 * mp.mpf(size) * (1 + 1e-13)


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_moves_and_data_off_the_manifold_are_refused_at_any_size(size):
    manifold = pc.AffineManifold([[1.0, 1.0]])
    assert manifold.contains([size, -size])
    assert not manifold.contains([size, size])
    with pytest.raises(ValueError, match="not a move along the manifold"):
        pc.LinearQuery(np.eye(2), manifold).sensitivity(
            pc.DirectionAdjacency([[size], [size]])
        )


def test_cancellation_in_a_query_is_never_on_the_unsafe_side():
    """F m with |F m| a millionth of its terms, against exact rationals."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        N = rng.normal(size=(6, 2))
        F = rng.normal(size=(1, 6))
        F[0, -1] = -(F[0, :-1] @ N[:-1, 0]) / N[-1, 0] * (1 + 1e-6 * rng.normal())
        manifold = pc.AffineManifold.from_kernel(N)
        query, move = pc.LinearQuery(F, manifold), N[:, :1]
        with mp.workdps(60):
            truth = abs((oracles.matrix(F) * oracles.matrix(move))[0])
            found = query.sensitivity(pc.DirectionAdjacency(move))
            shift = (
                pc.Mechanism(query, pc.GaussianNoise([1.0]))
                .guarantee(pc.DirectionAdjacency(move))
                .gdp
            )
            assert truth <= found <= truth + 1e-13
            assert truth <= shift <= truth + 1e-13


def test_given_directions_are_taken_as_they_are_given():
    manifold = pc.AffineManifold.from_kernel([[1.0, 0], [0, 1], [1, 1]])
    for size in (1e10, 1e20):
        adjacency = pc.DirectionAdjacency([[size], [1.0], [size + 1]])
        assert pc.LinearQuery([[0, 1.0, 0]], manifold).sensitivity(
            adjacency
        ) == pytest.approx(1.0, rel=1e-13)


def test_units_of_the_constraints_do_not_change_the_manifold():
    kernel = pc.AffineManifold([[1e8, 1e8, 0], [0, 3e-7, -1e-7]]).kernel[:, 0]
    np.testing.assert_allclose(kernel / kernel[0], [1, -1, -3], rtol=1e-14)


def test_nearly_dependent_constraints_are_paid_for():
    """The kernel is right to 1e-16 / 1e-9 only: its sensitivity is bounded accordingly."""
    D = np.array([[1.0, 1.0, 1.0], [1.0, 1.0 + 1e-9, 1.0 - 1e-9]])
    query = pc.LinearQuery([[1.0, 1.0, 1.0]], pc.AffineManifold(D))
    first, second = [[Fraction(x) for x in row] for row in D.tolist()]
    exact = np.array(
        [
            float(first[i] * second[j] - first[j] * second[i])
            for i, j in ((1, 2), (2, 0), (0, 1))
        ]
    )
    exact /= np.linalg.norm(exact)
    assert query.sensitivity(pc.BallAdjacency(1.0)) >= abs(exact.sum())
    kernel = query.manifold.kernel[:, 0]
    assert (
        np.abs(np.abs(kernel) - np.abs(exact)).max()
        <= kernel_error(query.manifold) * (1 + 1e-6)
        < 1e-5
    )


@pytest.mark.parametrize("matrix", [[1.0, 0.0], [[1.0], [0.0]]])
def test_what_no_noise_reaches_is_said(matrix):
    guarantee = plane(matrix).guarantee(pc.DirectionAdjacency([[1.0], [0.0]]))
    assert "outside the noise's column space, which is published exactly" in text(
        guarantee
    )
    whole = plane(np.eye(2)).guarantee(pc.DirectionAdjacency([[1.0], [0.0]]))
    assert "published exactly" not in text(whole)


def test_what_noise_of_enough_entries_in_the_wrong_place_misses_is_said():
    manifold = pc.AffineManifold.from_kernel([[1.0, 0], [0, 0], [0, 1]], pinned="keep")
    mechanism = pc.Mechanism(
        pc.LinearQuery(np.eye(3), manifold), pc.GaussianNoise(np.eye(3)[:, :2])
    )
    assert "published exactly" in text(
        mechanism.guarantee(pc.DirectionAdjacency([[1.0], [0.0], [0.0]]))
    )


def test_a_trajectory_is_hidden_as_its_plant_moves_not_as_rounded_powers_move():
    """A^t A^-j cancels 4^60; noise that falls like the fast mode sees every digit that is lost."""
    A, C, horizon = np.array([[0.5, 1.0], [0.0, 0.25]]), np.array([[1.0, 0.0]]), 60
    query = pc.output_query(ct.ss(A, [[0], [1]], C, 0, 1), horizon)
    std = 0.25 ** np.arange(horizon) * 0.25 ** -(horizon - 1.0)
    claimed = (
        pc.Mechanism(query, pc.GaussianNoise(std)).guarantee(pc.StateAdjacency(1.0)).gdp
    )
    with mp.workdps(100):
        worst, state = mp.mpf(0), oracles.matrix(A)
        for move in oracles.state_moves(A, [1.0, 1.0], range(horizon)):
            total = mp.mpf(0)
            for t in range(horizon):
                total += (move[0] / mp.mpf(std[t])) ** 2
                move = state * move
            worst = max(worst, mp.sqrt(total))
        assert worst <= claimed <= worst * (1 + 1e-12)


@pytest.mark.parametrize(
    "adjacency, message",
    [
        (lambda: pc.ManifoldAdjacency([5.0, 1.0], entries=(0, "x[0]")), "named twice"),
        (
            lambda: pc.ManifoldAdjacency(1.0, entries=(True, False, True)),
            "True is no entry",
        ),
        (
            lambda: pc.ManifoldAdjacency(1.0, charts=[[0.7, 1.9, 2.0]]),
            "cannot be interpreted as an integer",
        ),
        (lambda: pc.ManifoldAdjacency(1.0, charts=[]), "at least one set of entries"),
        (lambda: pc.ManifoldAdjacency({1: 1.0, "1": 2.0}), "read alike"),
    ],
)
def test_entries_that_could_be_misread_are_refused(adjacency, message):
    with pytest.raises((ValueError, TypeError), match=message):
        pc.LinearQuery(np.eye(3)).sensitivity(adjacency())


@pytest.mark.parametrize(
    "x",
    [
        [41.5, 1j],
        np.ma.masked_array([41.5, 2.0], [True, False]),
        [41.5, "b"],
        [41.5, None],
    ],
)
def test_data_that_are_no_numbers_are_not_released_and_not_shown(x):
    with pytest.raises((ValueError, TypeError)) as caught:
        plane([1.0, 1.0]).release(
            np.ma.asarray(x) if isinstance(x, np.ma.MaskedArray) else np.array(x), rng=0
        )
    assert "41" not in str(caught.value)


def test_a_query_does_not_change_with_the_matrix_that_it_was_made_from():
    for F in (
        np.eye(2),
        scipy.sparse.csr_array(np.eye(2)),
        scipy.sparse.csc_array(np.eye(2)),
    ):
        query = pc.LinearQuery(F)
        before = pc.Mechanism(query, pc.GaussianNoise([1.0, 1.0])).release(
            [1.0, 2.0], rng=0
        )
        F *= 100
        np.testing.assert_array_equal(
            pc.Mechanism(query, pc.GaussianNoise([1.0, 1.0])).release(
                [1.0, 2.0], rng=0
            ),
            before,
        )


@pytest.mark.parametrize("seed", few(range(10), of=3))
def test_array_layout_does_not_change_a_bit(seed):
    rng = np.random.default_rng(seed)
    F, N, moves = (
        rng.normal(size=(4, 5)),
        rng.normal(size=(5, 3)),
        rng.normal(size=(3, 7)),
    )
    designs = [
        pc.design_gaussian(
            pc.LinearQuery(layout(F), pc.AffineManifold.from_kernel(layout(N))),
            pc.DirectionAdjacency(layout(N @ moves)),
            BUDGET,
        )
        for layout in (np.array, lambda a: np.repeat(a, 2, axis=1)[:, ::2])
    ]
    np.testing.assert_array_equal(designs[0].noise.factor, designs[1].noise.factor)
    assert designs[0].guarantee == designs[1].guarantee


def exact_circuits(D):
    """All circuits of the constraints as columns of fractions, by one null vector after the other."""
    exact = fmpq_mat([[fmpq(*x.as_integer_ratio()) for x in row] for row in D.tolist()])
    size, found = D.shape[1], {}
    for support in combinations(range(size), exact.rank() + 1):
        part = fmpq_mat([[exact[i, j] for j in support] for i in range(exact.nrows())])
        echelon, rank = part.rref()
        if rank != len(support) - 1:
            continue
        rows = echelon.table()[:rank]
        pivots = [next(j for j, x in enumerate(row) if x != 0) for row in rows]
        (free,) = set(range(len(support))) - set(pivots)
        move = [Fraction(0)] * size
        move[support[free]] = Fraction(1)
        for row, pivot in zip(rows, pivots):
            move[support[pivot]] = -Fraction(int(row[free].p), int(row[free].q))
        found[tuple(j for j, x in enumerate(move) if x)] = move
    return list(found.values())


def true_sizes(F, D, radius):
    """||F v|| of every worst circuit v, exactly up to one root, and the responses."""
    rows = [[Fraction(x) for x in row] for row in F.tolist()]
    for move in exact_circuits(D):
        scale = max(Fraction(radius) / abs(x) for x in move if x)
        yield [scale * sum(f * x for f, x in zip(row, move)) for row in rows]


NEARLY = 2.0**-42
NEARLY_TIED = (
    np.array([[0, 1, -2 + NEARLY, -2, 2], [NEARLY, 0, 2 + NEARLY, -1, -2]]),
    np.array([[0, 1, -1, -1, -1], [1, 0, 0, 0, -1], [-1, -1, -1, -1, 1.0]]),
)


@pytest.mark.parametrize("seed", [None, *range(12)])
def test_circuits_of_nearly_dependent_constraints_are_certified_as_returned(seed):
    """Small integers perturbed by 2^-42: the worst circuits are long, and cancel in the query."""
    if seed is None:
        D, F = NEARLY_TIED
    else:
        rng = np.random.default_rng(seed)
        D = rng.integers(-2, 3, (2, 5)) + NEARLY * rng.integers(-1, 2, (2, 5))
        F = rng.integers(-1, 2, (3, 5)).astype(float)
    if np.linalg.matrix_rank(D) < 2 or not F.any():
        pytest.skip("no two constraints, or no query")
    query = pc.LinearQuery(F, pc.AffineManifold(D, pinned="keep"))
    adjacency = pc.ManifoldAdjacency(1.0)
    responses = list(true_sizes(F, D, 1.0))
    exact = max(sum(x * x for x in response) for response in responses)
    claimed = Fraction(query.sensitivity(adjacency))
    assert exact <= claimed**2 <= exact * (1 + Fraction(1, 10**9))
    try:
        design = pc.design_gaussian(query, adjacency, BUDGET)
    except pc.UncertifiableError:  # honest, where moves differ too much
        assert seed is not None
        return
    with mpmath.workdps(80):
        root = mpmath.matrix(design.noise.factor.tolist())
        covariance = root * root.T
        padding = design.mechanism.padding
        for i in range(len(F)):
            covariance[i, i] += 0 if padding is None else mpmath.mpf(padding[i]) ** 2
        seen = [i for i in range(len(F)) if covariance[i, i]]
        block = mpmath.matrix(len(seen))
        for a, i in enumerate(seen):
            for b, j in enumerate(seen):
                block[a, b] = covariance[i, j]
        inverse = mpmath.inverse(block)
        for response in responses:
            assert not any(x for i, x in enumerate(response) if i not in seen)
            column = mpmath.matrix(
                [
                    mpmath.mpf(response[i].numerator) / response[i].denominator
                    for i in seen
                ]
            )
            square = (column.T * inverse * column)[0]
            assert square <= mpmath.mpf(design.guarantee.gdp) ** 2


@pytest.mark.parametrize("kind", ["moves", "ball", "data"])
def test_a_sensitivity_counts_what_rounding_has_hidden(kind):
    """Queries that nearly cancel the moves: without the error bounds half of these are too small."""
    below = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        kernel = rng.standard_normal((6, 1))
        row = rng.standard_normal(6)
        row -= kernel[:, 0] * (row @ kernel[:, 0]) / (kernel[:, 0] @ kernel[:, 0])
        manifold = pc.AffineManifold.from_kernel(kernel)
        query = pc.LinearQuery(row[None], manifold)
        exact = abs(
            sum(
                Fraction(x) * Fraction(y)
                for x, y in zip(row.tolist(), kernel[:, 0].tolist())
            )
        )
        if kind == "moves":
            claimed = FiniteMoves(np.ones((1, 1))).sensitivity(query)
        elif kind == "ball":
            claimed = EllipsoidMoves(np.ones((1, 1))).sensitivity(query)
        else:
            claimed = query.sensitivity(pc.DirectionAdjacency(kernel))
        assert exact <= Fraction(claimed)
        below += Fraction(abs(float(query.response[0, 0]))) < exact
    assert below > 5


def test_a_query_across_the_rounded_kernel_is_bounded_by_the_true_one():
    """The query cancels the rounded kernel and not the true tangent, 1e-7 away from it."""
    D = np.array([[1.0, 1.0, 1.0], [1.0, 1.0 + 1e-9, 1.0 - 1e-9]])
    manifold = pc.AffineManifold(D)
    kernel = manifold.kernel[:, 0]
    first, second = [[Fraction(x) for x in row] for row in D.tolist()]
    true = [
        first[i] * second[j] - first[j] * second[i] for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    length = Fraction(float(np.linalg.norm([float(x) for x in true])))
    row = np.array([0.0, kernel[2], -kernel[1]])
    exact = abs(sum(Fraction(f) * x for f, x in zip(row.tolist(), true))) / length
    query = pc.LinearQuery(row[None], manifold)
    assert abs(float(query.response[0, 0])) < 1e-15 < 1e-9 < exact
    assert exact <= Fraction(query.sensitivity(pc.BallAdjacency(1.0)))


@pytest.mark.parametrize("norm", [1, 2, np.inf])
@pytest.mark.parametrize("unit", [5e-324, 1e-310, 1e-200, 1e200])
def test_a_kernel_that_doubles_cannot_square_is_refused(norm, unit):
    """A box on a kernel of 5e-324 had a sensitivity of zero, as if nothing could move."""
    kernel = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    with pytest.raises(ValueError, match="lengths between"):
        pc.AffineManifold.from_kernel(unit * kernel)
    near = pc.AffineManifold.from_kernel(1e-90 * kernel)
    exact = {1: np.sqrt(0.5), 2: 1.0, np.inf: np.sqrt(2)}[norm]
    found = pc.LinearQuery(np.eye(3), near).sensitivity(
        pc.BallAdjacency(1.0, norm=norm)
    )
    assert exact * (1 - 1e-15) <= found <= exact * (1 + 1e-9)


@pytest.mark.parametrize("unit", [1.0, 1e160, 1e200, 1e307])
def test_points_off_a_manifold_in_huge_units_are_off_it(unit):
    """The square of an offset above 1e154 is no double, so every point seemed to be on it."""
    for constraint, offset in (([[1.0, 1.0]], [unit]), ([[unit, unit]], [0.0])):
        manifold = pc.AffineManifold(constraint, offset)
        assert not manifold.contains([0.0, 1.0])
        assert not manifold.contains([1e-3 * unit, 0.0])
    assert pc.AffineManifold([[1.0, 1.0]], [unit]).contains([-unit, 0.0])
    with pytest.raises(ValueError, match="contradict"):
        pc.AffineManifold([[1.0, 1.0], [1.0, 1.0]], [unit, -unit])


def test_entries_of_an_array_are_protected_like_those_of_a_list():
    query = pc.LinearQuery(np.eye(3), pc.AffineManifold([[1.0, 1.0, 1.0]]))
    listed = pc.ManifoldAdjacency(1.0, entries=[0, 1])
    counted = pc.ManifoldAdjacency(1.0, entries=np.array([0, 1]))
    assert counted == listed
    assert hash(counted) == hash(listed)
    assert pc.design_gaussian(query, counted, BUDGET).guarantee.to_dict()


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_queries_that_publish_nothing_are_refused(kind):
    for shape in ((0, 2), (2, 0)):
        with pytest.raises(ValueError, match="expected shape"):
            pc.LinearQuery(kind(np.zeros(shape)))


def test_sparse_integers_are_read_as_numbers():
    """The absolute value of -128 in eight bits is -128."""
    F = np.array([[-128, 1], [3, 127]])
    query = pc.LinearQuery(scipy.sparse.csr_array(F.astype(np.int8)))
    assert (query.rounding >= 0).all()
    assert query.sensitivity(pc.DirectionAdjacency([[2.0], [-2.0]])) >= np.hypot(
        258, 248
    )


@pytest.mark.parametrize("unit", [1e-300, 1e-200, 1e-170, 1e170, 1e200, 1e300])
@pytest.mark.parametrize("norm", [1, 2, np.inf])
@pytest.mark.parametrize("ball", [1, 2, np.inf])
def test_sensitivities_to_balls_grow_with_the_query_at_any_size(ball, norm, unit):
    """Squares of rows below 1e-162 are zero: the 1-norm of their responses was, too."""
    F = np.random.default_rng(0).standard_normal((3, 4))
    adjacency = pc.BallAdjacency(1.0, norm=ball)
    plain = pc.LinearQuery(F).sensitivity(adjacency, norm)
    found = pc.LinearQuery(unit * F).sensitivity(adjacency, norm)
    assert found / unit == pytest.approx(plain, rel=1e-12)


@pytest.mark.parametrize("unit", [1e-250, 1e-170, 1e170, 1e250])
def test_errors_of_a_ball_count_at_any_size(unit):
    shifts = np.diag([1.0, 2.0])
    moves = EllipsoidMoves(np.eye(2))
    grown = moves.enlarged(unit * shifts, 1e-3 * unit * shifts)
    assert moves.worst_shift(grown) >= 2.002 * unit * (1 - 1e-12)


@pytest.mark.parametrize("unit", [1e-200, 1e-12, 1.0, 1e12, 1e200])
def test_a_constraint_in_small_units_is_a_constraint(unit):
    """A second constraint in units far below the first was met by any point, and by none."""
    D = np.array([[1.0, 1.0, 0.0], [0.0, unit, -unit]])
    manifold = pc.AffineManifold(D, [0.0, 3.0 * unit])
    assert manifold.contains(manifold.origin)
    assert manifold.contains([1.0, -1.0, 2.0])
    assert not manifold.contains([1.0, -1.0, 5.0])
    assert not manifold.contains([1.0, 1.0, 4.0])
    with pytest.raises(ValueError, match="contradict"):
        pc.AffineManifold(np.vstack([D, D[1:]]), [0.0, 3.0 * unit, 4.0 * unit])
