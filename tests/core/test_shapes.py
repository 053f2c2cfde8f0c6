"""Shapes of noise that hold every point exactly, at a cost between true bounds.

The ellipsoid of Gaussian noise is the cheapest one. The cross-polytope of Laplace noise is
never worse than Algorithm 2, and certified where the problem is convex.
"""

from fractions import Fraction

import cvxpy as cp
import flint
import mpmath
import numpy as np
import pytest
import scipy.linalg
from flint import fmpq, fmpq_mat
from repeats import few

from privcontrol.core import UncertifiableError, noise as families
from privcontrol.core.noise import enclosing_cross_polytope as laplace_shape
from privcontrol.numerics.ellipsoid import (
    Weights,
    _Cover,
    _Iterate,
    _newton_matrix,
    cost_above,
    cost_below,
    enclosing_ellipsoid,
    rough_shape,
    rough_shape_over_time,
    row_permuted_triangle,
    solution_error,
)

# -- ellipsoids --------------------------------------------------------------------------


def exact_largest_square(factor, points):
    """max ||S^{-1} p||^2 as a ball of 400 bits, the entries of S and p taken as the exact numbers they are."""
    with flint.ctx.workprec(400):
        inside = flint.arb_mat(factor.tolist()).solve(flint.arb_mat(points.tolist()))
        squares = [
            sum((inside[i, j] ** 2 for i in range(len(points))), flint.arb(0))
            for j in range(points.shape[1])
        ]
        return max(squares, key=lambda ball: float(ball.mid()))


def assert_certified(found, points, weight_factor=None, gap=1e-9):
    """Feasible exactly and in floating point, tight, with cost and lower bound on the right sides of the truth."""
    weight_factor = np.eye(len(points)) if weight_factor is None else weight_factor
    largest = exact_largest_square(found.factor, points)
    assert largest <= 1
    assert np.linalg.norm(np.linalg.solve(found.factor, points), axis=0).max() <= 1
    with mpmath.workdps(60):
        L, S = (
            mpmath.matrix(weight_factor.tolist()),
            mpmath.matrix(found.factor.tolist()),
        )
        cost = sum(entry**2 for entry in L.T * S)
        weights = [mpmath.mpf(float(w)) for w in found.weights]
        image = L.T * mpmath.matrix(points[:, found.support].tolist())
        roots = mpmath.diag([mpmath.sqrt(w / sum(weights)) for w in weights])
        dual = sum(mpmath.svd_r(image * roots, compute_uv=False)) ** 2
        assert cost <= found.cost <= cost * (1 + mpmath.mpf(1e-9))
        assert (
            dual * (1 - mpmath.mpf(1e-9))
            <= found.lower_bound
            <= dual * (1 + mpmath.mpf(1e-15))
        )
    assert found.gap == found.cost / found.lower_bound - 1 <= gap


def oracle(points, weight_factor):
    """Least tr(W Sigma) by Clarabel, as min tr(L^T X^{-1} L) subject to p^T X p <= 1."""
    X = cp.Variable((len(points),) * 2, PSD=True)
    inside = [cp.sum(cp.multiply(np.outer(p, p), X)) <= 1 for p in points.T]
    return cp.Problem(cp.Minimize(cp.matrix_frac(weight_factor, X)), inside).solve(
        solver=cp.CLARABEL
    )


def geometric(rng, size, horizon, spread):
    """Columns A^{-j} v for a diagonal A: coordinates that grow at different rates, up to 10^spread."""
    rates = 10 ** (rng.uniform(0, spread, size) / horizon)
    start = rng.standard_normal((size, size))
    return np.concatenate(
        [rates[:, None] ** np.arange(horizon) * v[:, None] for v in start.T], axis=1
    )


def rotation(rng, size):
    return np.linalg.qr(rng.standard_normal((size, size)))[0]


@pytest.mark.parametrize("seed", few(range(12), of=6))
def test_agrees_with_clarabel(seed):
    rng = np.random.default_rng(seed)
    size = 1 + seed % 6
    points = rng.standard_normal((size, int(rng.integers(size, 30))))
    weight_factor = (
        rng.standard_normal((size, size + seed % 3)) if seed % 2 else np.eye(size)
    )
    found = enclosing_ellipsoid(points, weight_factor)
    assert found.gap <= 1e-9
    assert found.cost == pytest.approx(oracle(points, weight_factor), rel=1e-6)


@pytest.mark.parametrize("seed", few(range(6), of=2))
def test_certificate_is_true_in_exact_arithmetic(seed):
    rng = np.random.default_rng(100 + seed)
    size = 2 + seed
    points = rng.standard_normal((size, 60))
    weight_factor = rng.standard_normal((size, size + 1))
    found = enclosing_ellipsoid(points, weight_factor)
    assert_certified(found, points, weight_factor)
    # tight, so a factor smaller by a millionth of a millionth fails the same check
    assert exact_largest_square(found.factor * (1 - 1e-12), points) > 1


def test_one_dimension_is_the_largest_point():
    found = enclosing_ellipsoid([[1.0, -3.0, 2.0, 0.0]], np.array([[2.0, 1.0]]))
    assert found.factor[0, 0] == pytest.approx(3, rel=1e-12)
    assert found.factor[0, 0] >= 3
    assert found.cost == pytest.approx(45, rel=1e-12)
    assert found.support.tolist() == [1]
    assert found.weights.tolist() == [1.0]


def test_a_single_point():
    assert enclosing_ellipsoid([[-0.5]]).cost == pytest.approx(0.25, rel=1e-12)


@pytest.mark.parametrize("spread", [0, 6, 12])
def test_orthogonal_points_give_their_own_squares(spread):
    """In coordinates where W = I, points c_i e_i have Sigma = diag(c_i^2)."""
    rng = np.random.default_rng(spread)
    size = 5
    lengths = 10 ** rng.uniform(0, spread, size)
    found = enclosing_ellipsoid(np.diag(lengths))
    assert found.gap <= 1e-9
    assert found.cost == pytest.approx((lengths**2).sum(), rel=1e-9)
    assert found.weights == pytest.approx(
        lengths[found.support] ** 2 / (lengths**2).sum(), rel=1e-4, abs=1e-9
    )
    assert_certified(found, np.diag(lengths))


@pytest.mark.parametrize("size", [2, 4, 8])
def test_cube_has_more_active_points_than_the_optimum_needs(size):
    """All 2^r corners lie on Sigma = diag(sum_b sqrt(W_b) / sqrt(W_a)), whose cost is (sum_a sqrt(W_a))^2."""
    corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * size)).reshape(size, -1)
    price = np.arange(1.0, size + 1)
    found = enclosing_ellipsoid(corners, np.diag(np.sqrt(price)))
    assert found.gap <= 1e-9
    assert found.cost == pytest.approx(np.sqrt(price).sum() ** 2, rel=1e-9)
    expected = np.diag(np.sqrt(price).sum() / np.sqrt(price))
    assert found.factor @ found.factor.T == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_full_circle_is_its_own_ellipsoid():
    angle = 2 * np.pi * np.arange(720) / 720
    found = enclosing_ellipsoid(np.array([np.cos(angle), np.sin(angle)]))
    assert found.cost == pytest.approx(2, rel=1e-9)
    assert found.factor @ found.factor.T == pytest.approx(np.eye(2), abs=1e-4)


@pytest.mark.parametrize("count", [20, 200])
def test_a_gap_that_rounding_hides_is_no_harm(count):
    """Newton's matrix then is singular to its last digit, and takes a ridge."""
    angle = np.pi * np.arange(count) / count
    found = enclosing_ellipsoid(np.array([np.cos(angle), np.sin(angle)]), tol=1e-15)
    assert found.cost == pytest.approx(2, rel=1e-12)


def test_signs_duplicates_and_zeros_change_nothing():
    rng = np.random.default_rng(3)
    points = rng.standard_normal((4, 40))
    plain = enclosing_ellipsoid(points)
    busy = enclosing_ellipsoid(
        np.concatenate([points, -points, np.zeros((4, 7)), points], axis=1)
    )
    assert busy.gap <= 1e-9
    assert busy.cost == pytest.approx(plain.cost, rel=2e-9)


@pytest.mark.parametrize("scale", [1e-120, 1e120])
def test_units_change_nothing(scale):
    points = np.random.default_rng(4).standard_normal((3, 50))
    found = enclosing_ellipsoid(points * scale)
    assert found.gap <= 1e-9
    assert found.cost / scale**2 == pytest.approx(
        enclosing_ellipsoid(points).cost, rel=2e-9
    )


@pytest.mark.parametrize("seed", few(range(4), of=2))
def test_change_of_coordinates_changes_no_cost(seed):
    """x -> T x with W -> T^{-T} W T^{-1} is the same problem, also for T with entries from 1 to 10^12."""
    rng = np.random.default_rng(seed)
    points, weight_factor = rng.standard_normal((4, 80)), rng.standard_normal((4, 4))
    plain = enclosing_ellipsoid(points, weight_factor)
    stretch = 10 ** rng.uniform(0, 12, 4)
    stretched = enclosing_ellipsoid(
        stretch[:, None] * points, weight_factor / stretch[:, None]
    )
    assert stretched.gap <= 1e-9
    assert stretched.cost == pytest.approx(plain.cost, rel=2e-9)
    T = rng.standard_normal((4, 4))
    moved = enclosing_ellipsoid(T @ points, np.linalg.solve(T.T, weight_factor))
    assert moved.gap <= 1e-9
    assert moved.cost == pytest.approx(plain.cost, rel=2e-9)


@pytest.mark.parametrize(
    "kind", ["diagonal", "geometric", "norms", "geometric, other prices"]
)
@pytest.mark.parametrize("size", [2, 4, 8])
def test_spread_of_twelve_decades_is_certified(kind, size):
    rng = np.random.default_rng(size)
    points, weight_factor = rng.standard_normal((size, 50)), None
    if kind == "diagonal":
        points = 10 ** np.linspace(0, 12, size)[:, None] * points
    elif kind == "norms":
        points = points * 10 ** rng.uniform(0, 12, 50)
    else:
        points = geometric(rng, size, 40, 12)
        if kind != "geometric":
            weight_factor = np.diag(10 ** rng.uniform(0, 6, size))
    found = enclosing_ellipsoid(points, weight_factor)
    assert found.gap <= 1e-9
    assert_certified(found, points, weight_factor)


@pytest.mark.parametrize("spread", [9, 12])
def test_spread_in_mixed_coordinates_is_certified(spread):
    """A factor of doubles can be 1e-4 off in its thinnest direction."""
    rng = np.random.default_rng(spread)
    for size in (2, 4, 8):
        points = rotation(rng, size) @ geometric(rng, size, 40, spread)
        found = enclosing_ellipsoid(points)
        assert_certified(found, points, gap=1e-9 if spread < 12 else 1e-3)


def test_polynomial_growth():
    """Moves A^{-j} v of a chain of integrators, where a few points decide about every direction."""
    A, points = np.eye(4) + np.diag(np.ones(3), 1), [np.eye(4)]
    for _ in range(60):
        points.append(A @ points[-1])
    points = np.concatenate(points, axis=1)
    found = enclosing_ellipsoid(points)
    assert found.gap <= 1e-9
    assert_certified(found, points)


def test_many_points_are_all_inside():
    rng = np.random.default_rng(5)
    t = np.linspace(0, 1, 50_000)
    curve = np.array([np.cos(3 * t), np.sin(5 * t), t**2, np.exp(t)])
    sphere = rng.standard_normal((4, 50_000))
    sphere /= np.linalg.norm(sphere, axis=0)
    for points in (curve, sphere, rng.standard_normal((16, 20_000))):
        found = enclosing_ellipsoid(points)
        assert found.gap <= 1e-9
        assert np.linalg.norm(np.linalg.solve(found.factor, points), axis=0).max() <= 1


def test_prefix_sums_beat_the_square_root_factorisation():
    """Lower triangular ones: S = A^{1/2} (Toeplitz, explicit) is feasible after scaling, and nearly optimal."""
    size = 200
    points = np.tril(np.ones((size, size)))
    coefficient = np.cumprod(np.append(1.0, 1 - 0.5 / np.arange(1, size)))
    square = (coefficient**2).cumsum()
    explicit = (
        square[-1] * square.sum()
    )  # max column norm of A^{1/2} times its Frobenius norm, both squared
    found = enclosing_ellipsoid(points)
    assert found.gap <= 1e-9
    assert np.linalg.norm(np.linalg.solve(found.factor, points), axis=0).max() <= 1
    assert 0.85 * explicit < found.lower_bound <= found.cost < explicit


def test_impulse_responses_of_a_long_horizon():
    horizon = 150
    response = 0.95 ** np.arange(horizon) * np.cos(0.3 * np.arange(horizon))
    points = np.array(
        [
            [response[i - j] if i >= j else 0.0 for j in range(horizon)]
            for i in range(horizon)
        ]
    )
    found = enclosing_ellipsoid(points)
    assert found.gap <= 1e-9
    assert np.linalg.norm(np.linalg.solve(found.factor, points), axis=0).max() <= 1


def test_gap_is_reported_when_the_tolerance_is_missed():
    points = np.random.default_rng(6).standard_normal((4, 100))
    found = enclosing_ellipsoid(points, tol=1e-16)
    assert 1e-16 < found.gap < 1e-11
    assert_certified(found, points)


def test_a_loose_tolerance_is_met_with_fewer_steps():
    points = np.random.default_rng(7).standard_normal((6, 300))
    loose, tight = enclosing_ellipsoid(points, tol=1e-2), enclosing_ellipsoid(points)
    assert tight.gap < loose.gap <= 1e-2
    assert loose.lower_bound <= tight.cost
    assert tight.lower_bound <= loose.cost


def test_weights_are_a_distribution_on_boundary_points():
    points = np.random.default_rng(8).standard_normal((3, 200))
    found = enclosing_ellipsoid(points)
    assert found.weights.sum() == pytest.approx(1)
    assert found.weights.min() > 0
    on = np.linalg.norm(np.linalg.solve(found.factor, points[:, found.support]), axis=0)
    assert on == pytest.approx(1, abs=1e-6)
    assert not found.factor.flags.writeable


@pytest.mark.parametrize("spread", [0, 5, 9])
def test_rounding_error_bound_covers_the_true_error(spread):
    """|x - S^{-1} p| <= E |x| entry by entry, against 400 bits, for well and ill conditioned S."""
    rng = np.random.default_rng(spread)
    basis = (
        rotation(rng, 6) @ np.diag(10 ** np.linspace(0, spread, 6)) @ rotation(rng, 6)
    )
    _, lower = row_permuted_triangle(basis)
    points = lower @ rng.uniform(-1, 1, (6, 50))
    computed = np.linalg.solve(lower, points)
    with flint.ctx.workprec(400):
        exact = flint.arb_mat(lower.tolist()).solve(flint.arb_mat(points.tolist()))
        true = [
            [exact[i, j] - flint.arb(computed[i, j]) for j in range(50)]
            for i in range(6)
        ]
        error = np.abs(
            np.array([[float(entry.mid()) for entry in row] for row in true])
        )
    allowed = solution_error(lower) @ np.abs(computed)
    assert (error <= allowed).all()
    assert (error > 1e-4 * allowed).any()  # and is not idle


@pytest.mark.parametrize("seed", few(range(5), of=2))
def test_any_weights_bound_the_cost_of_any_feasible_factor(seed):
    rng = np.random.default_rng(seed)
    points, weight_factor = rng.standard_normal((4, 25)), rng.standard_normal((4, 5))
    least = enclosing_ellipsoid(points, weight_factor)
    assert (
        cost_below(weight_factor, points, rng.dirichlet(np.full(25, 0.3)))
        < least.lower_bound
    )
    other = rng.standard_normal((4, 4))
    other *= np.linalg.norm(np.linalg.solve(other, points), axis=0).max()
    assert cost_above(weight_factor, other) > least.cost


def test_sums_that_cancel_leave_a_gap():
    """A weight that cancels the points: a cost of 2 from terms of 10^20. Rounding costs 1e-4, and the gap says so."""
    T = np.array([[1.0, 1e5], [1.0, 1e5 + 1.0]])
    inverse = np.array([[1e5 + 1.0, -1e5], [-1.0, 1.0]])  # of T, exactly
    found = enclosing_ellipsoid(T, inverse.T)
    assert exact_largest_square(found.factor, T) <= 1
    assert found.lower_bound <= 2 <= found.cost
    assert 1e-9 < found.gap < 1e-3


@pytest.mark.parametrize(
    "points",
    [
        np.ones((2, 5)),
        np.eye(3)[:, :2],
        np.zeros((2, 4)),
        np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]),
        np.array([[1.0, 1.0, 2.0], [1.0, 1.0 + 1e-15, 2.0]]),
        rotation(np.random.default_rng(9), 3) @ np.diag([1.0, 1e8, 1e17]),
    ],
)
def test_points_that_do_not_certifiably_span_are_refused(points):
    with pytest.raises(
        UncertifiableError, match=r"dimensions that double precision|in each of"
    ):
        enclosing_ellipsoid(points)


def test_costs_beyond_a_double_are_refused():
    for scale in (1e-170, 1e170):
        with pytest.raises(UncertifiableError, match="rescale"):
            enclosing_ellipsoid(scale * np.eye(2))
    for scale in (1e-300, 1e300):
        with pytest.raises(UncertifiableError, match="between 1e-270 and 1e270"):
            enclosing_ellipsoid(scale * np.eye(2), np.eye(2) / scale)


def test_a_rough_shape_holds_all_points_and_its_bound_is_below_the_optimum():
    rng = np.random.default_rng(0)
    for size, count in ((3, 40), (12, 200), (40, 90)):
        points = rng.normal(size=(size, count)) * np.logspace(0, -3, size)[:, None]
        best = enclosing_ellipsoid(points)
        rough = rough_shape(points, 1e-2)
        solved = np.linalg.solve(rough.factor, points)
        assert np.linalg.norm(solved, axis=0).max() <= 1 + 1e-9
        assert np.sum(rough.factor**2) == pytest.approx(rough.cost, rel=1e-9)
        assert rough.lower_bound <= best.cost
        assert best.lower_bound <= rough.cost <= rough.lower_bound * 1.01


@pytest.mark.parametrize("floor", [0.1, 0.3, 0.5, 1.0])
def test_a_rough_shape_beside_a_floor_has_the_cost_that_cvxpy_finds(floor):
    """Nothing is needed beside the largest floor, and something in all directions beside none."""
    rng = np.random.default_rng(1)
    points = rng.normal(size=(5, 12)) * np.logspace(0, -1, 5)[:, None]
    points /= np.linalg.norm(points, axis=0).max()
    rough = rough_shape(points, 1e-3, floor=floor)
    sigma = cp.Variable((5, 5), PSD=True)
    covered = [cp.matrix_frac(p, sigma) <= 1 for p in points.T]
    above = sigma >> floor**2 * np.eye(5)
    problem = cp.Problem(cp.Minimize(cp.trace(sigma)), [*covered, above])
    problem.solve(solver=cp.CLARABEL)
    assert rough.lower_bound <= problem.value * (1 + 1e-7)
    assert problem.value * (1 - 1e-7) <= rough.cost <= rough.lower_bound * 1.001
    solved = np.linalg.solve(rough.factor, points)
    assert np.linalg.norm(solved, axis=0).max() <= 1 + 1e-9
    covariance = rough.factor @ rough.factor.T
    assert np.linalg.eigvalsh(covariance)[0] >= floor**2 * (1 - 1e-9)


@pytest.mark.parametrize(
    "floor, count, widths",
    [(0.0, 0, (2, 5, 7)), (0.05, 6, (2, 5, 7)), (0.4, 6, (2, 5, 7)), (0.4, 0, (4,))],
)
def test_a_rough_shape_around_balls_has_the_cost_that_cvxpy_finds(floor, count, widths):
    rng = np.random.default_rng(2)
    scales = np.logspace(0, -1, 5)[:, None]
    points = 0.7 * rng.normal(size=(5, count)) * scales
    balls = [rng.normal(size=(5, width)) * scales for width in widths]
    rough = rough_shape(points, 1e-3, floor=floor, balls=balls)
    sigma = cp.Variable((5, 5), PSD=True)
    covered = [cp.matrix_frac(p, sigma) <= 1 for p in points.T]
    above = [sigma >> root @ root.T for root in (floor * np.eye(5), *balls)]
    problem = cp.Problem(cp.Minimize(cp.trace(sigma)), [*covered, *above])
    problem.solve(solver=cp.CLARABEL)
    assert rough.lower_bound <= problem.value * (1 + 1e-7)
    assert problem.value * (1 - 1e-7) <= rough.cost <= rough.lower_bound * 1.001
    for root in (points[:, [k]] for k in range(count)):
        assert np.linalg.norm(np.linalg.solve(rough.factor, root)) <= 1 + 1e-9
    for root in balls:
        assert np.linalg.norm(np.linalg.solve(rough.factor, root), 2) <= 1 + 1e-9


def test_a_rough_shape_begins_with_the_weights_of_a_like_one(monkeypatch):
    rng = np.random.default_rng(3)
    points = rng.normal(size=(20, 60))
    balls = [rng.normal(size=(20, 8))]
    begun = Weights()

    def search(floor, around=balls):
        return rough_shape(points, 1e-3, floor=floor, balls=around, begun=begun)

    _, first = sizes_of_eigenvalue_problems(monkeypatch, lambda: search(0.5))
    _, again = sizes_of_eigenvalue_problems(monkeypatch, lambda: search(0.6))
    assert 4 * len(again) <= len(first)
    assert search(0.6).cost == pytest.approx(
        rough_shape(points, 1e-3, floor=0.6, balls=balls).cost, rel=1e-3
    )
    other = [rng.normal(size=(20, 9))]  # weights of eight axes are no use for nine
    assert search(0.5, other).gap <= 1e-3


def test_a_rough_shape_rests_points_that_are_zero_and_stops_at_a_bound(monkeypatch):
    points = np.hstack([np.eye(4), np.zeros((4, 3)), 0.1 * np.eye(4)])
    assert rough_shape(points, 1e-3).cost == pytest.approx(4, rel=1e-3)
    reached = rough_shape(points, 0.0, enough=3.5)
    assert 3.5 <= reached.lower_bound <= 4
    hopeless, sizes = sizes_of_eigenvalue_problems(
        monkeypatch, lambda: rough_shape(points, 0.0, enough=5.0)
    )
    assert hopeless.lower_bound <= 4 <= hopeless.cost < 5
    assert len(sizes) <= 3  # none is looked for that cannot be


def sizes_of_eigenvalue_problems(monkeypatch, search):
    """What a search returns, and the sizes of the eigenvalue problems that it solves."""
    sizes = []
    solve = scipy.linalg.eigh

    def counted(matrix, **options):
        sizes.append(len(matrix))
        return solve(matrix, **options)

    monkeypatch.setattr(scipy.linalg, "eigh", counted)
    found = search()
    monkeypatch.undo()
    return found, np.array(sizes)


def test_moves_that_stick_out_are_held_at_the_least_cost():
    """Beside the covariances of other sizes, and a linear solve."""
    rng = np.random.default_rng(4)
    vectors = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    spread = np.logspace(0, -2, 6)
    sigma = (vectors * spread) @ vectors.T
    root = vectors * np.sqrt(spread)
    points = root @ rng.normal(size=(6, 9)) * np.array([1.2] + 8 * [0.45])
    ball = 0.5 * root @ rng.normal(size=(6, 3))
    limits = np.sum(np.linalg.solve(root, points) ** 2, axis=0)
    whitened = np.linalg.solve(root, ball)
    values, axes = np.linalg.eigh(whitened.T @ whitened)
    every = np.append(limits, values)
    moves = np.hstack([points, ball @ axes])

    def cost(size):
        out = every > size
        columns = moves[:, out] * np.sqrt(1 - size / every[out])
        return np.trace(size * sigma + columns @ columns.T)

    looks = [(limits, points), (values, ball @ axes)]
    cover = _Cover.cheapest(vectors, spread, looks)
    assert cover.columns.shape[1] > 1  # more than a multiple of sigma
    assert cover.cost <= min(cost(size) for size in np.linspace(1, every.max(), 500))
    for floor in (0.0, 0.1):
        factor = cover.factor(floor)
        assert np.sum(factor**2) == pytest.approx(cover.cost, rel=1e-9)
        solved = np.linalg.solve(factor, points)
        assert np.linalg.norm(solved, axis=0).max() <= 1 + 1e-9
        assert np.linalg.norm(np.linalg.solve(factor, ball), 2) <= 1 + 1e-9
    gram = factor.T @ factor  # beside a floor the columns are orthogonal
    assert gram == pytest.approx(np.diag(np.diag(gram)), abs=1e-12)


@pytest.mark.parametrize("spread", [0.3, 0.03])
def test_balls_of_plants_that_hardly_differ_take_few_eigenvalue_problems(
    monkeypatch, spread
):
    """A multiple of Sigma for the worst direction would take some 50 to 70."""
    rng = np.random.default_rng(5)
    scales = np.logspace(0, -2, 30)[:, None]
    alike = rng.normal(size=(30, 12))
    others = [alike + spread * rng.normal(size=alike.shape) for _ in range(4)]
    balls = [scales * root for root in others]
    found, sizes = sizes_of_eigenvalue_problems(
        monkeypatch,
        lambda: rough_shape(np.zeros((30, 0)), 1e-3, floor=0.1, balls=balls),
    )
    assert found.gap <= 1e-3
    assert len(sizes) <= 40


def test_a_search_over_some_times_keeps_what_the_first_one_weighs(monkeypatch):
    """Nine tenths of the weight of pushes of a mass are the first push's."""
    samples = 300
    points = scipy.linalg.toeplitz(np.arange(samples) + 0.5, np.zeros(samples))
    found, sizes = sizes_of_eigenvalue_problems(
        monkeypatch, lambda: rough_shape_over_time(points, 1e-2, period=1)
    )
    assert found.weights[0] > 0.8
    assert found.gap <= 1e-2
    assert np.sum(sizes == samples) <= 3


def ramps_of_two_signals(samples):
    """Responses of a double and of a leaky integrator to pushes, at one time each."""
    t = np.arange(samples)
    ramp = scipy.linalg.toeplitz(0.01 * t + 0.01, np.zeros(samples))
    decay = scipy.linalg.toeplitz(0.9**t, np.zeros(samples))
    points = np.zeros((2 * samples, 2 * samples))
    points[::2, ::2] = ramp
    points[1::2, 1::2] = decay
    points[1::2, ::2] = 0.3 * decay
    return points


@pytest.mark.parametrize("floor", [0.0, 0.2])
def test_a_search_over_some_times_leads_to_all_of_them(monkeypatch, floor):
    """The dual by singular values, the moves by a linear solve, the optimum from both sides."""
    points = ramps_of_two_signals(150)
    rough, sizes = sizes_of_eigenvalue_problems(
        monkeypatch,
        lambda: rough_shape_over_time(points, 1e-2, period=2, floor=floor),
    )
    plain, alone = sizes_of_eigenvalue_problems(
        monkeypatch, lambda: rough_shape(points, 1e-2, floor=floor)
    )
    assert np.sum(sizes == len(points)) < 0.75 * len(alone)
    assert sizes.min() < len(points) / 3
    assert rough.cost <= rough.lower_bound * 1.01
    assert rough.lower_bound <= plain.cost
    assert plain.lower_bound <= rough.cost
    solved = np.linalg.solve(rough.factor, points)
    assert np.linalg.norm(solved, axis=0).max() <= 1 + 1e-9
    assert np.sum(rough.factor**2) == pytest.approx(rough.cost, rel=1e-9)
    if floor:
        assert np.linalg.svd(rough.factor)[1].min() >= floor * (1 - 1e-9)
    else:
        shares = rough.weights / rough.weights.sum()
        dual = np.linalg.norm(points * np.sqrt(shares), "nuc") ** 2
        assert rough.lower_bound == pytest.approx(dual, rel=1e-3)
        assert rough.lower_bound <= dual * (1 + 1e-9)


@pytest.mark.parametrize("hidden", ["random", "between", "another signal"])
def test_times_that_tell_nothing_of_those_between_do_no_harm(hidden):
    """Sizes that differ by time, moves at the times between alone, a signal left out."""
    rng = np.random.default_rng(3)
    points = rng.normal(size=(260, 260)) * np.exp(rng.normal(size=260))
    if hidden == "between":
        points[:, ::4] = 0.0
        points[:, -1] = 0.0
    if hidden == "another signal":
        points = ramps_of_two_signals(150)
    rough = rough_shape_over_time(points, 2e-3, period=1)
    assert rough.lower_bound <= rough.cost <= rough.lower_bound * 1.002
    seen = points.any(axis=0)
    left = np.linalg.lstsq(rough.factor, points[:, seen])[0]
    assert np.linalg.norm(left, axis=0).max() <= 1 + 1e-9
    assert rough.factor @ left == pytest.approx(points[:, seen], abs=1e-6)


# -- cross-polytopes ---------------------------------------------------------------------


def random_problem(rng):
    r = int(rng.integers(2, 7))
    count = int(rng.integers(max(5, r), 201))
    points = rng.normal(size=(r, r)) @ rng.normal(size=(r, count))
    return points, rng.normal(size=(r, r + 1)) if rng.random() < 0.5 else np.eye(r)


def singular_basis(points):
    return np.linalg.svd(points, full_matrices=False)[0]


def exact_norm(factor, points):
    """max_i ||factor^-1 p_i||_1 in rational arithmetic."""

    def exact(matrix):
        return fmpq_mat(
            *matrix.shape, [fmpq(*float(x).as_integer_ratio()) for x in matrix.ravel()]
        )

    solved = exact(factor).solve(exact(points))
    worst = max(
        sum(abs(solved[i, j]) for i in range(solved.nrows()))
        for j in range(solved.ncols())
    )
    return Fraction(int(worst.p), int(worst.q))


def cost_of(factor, L):
    """tr(W Gamma) of Laplace noise with this factor."""
    return 2 * np.trace(L @ L.T @ factor @ factor.T)


def algorithm_2(basis, points):
    """The basis scaled by sigma = max_i ||basis^-1 p_i||_1."""
    return basis * np.abs(np.linalg.inv(basis) @ points).sum(axis=0).max()


def best_scales(loads):
    """min p^-2 + q^-2 with loads @ (p, q) <= 1, on a fine grid of p / q."""
    ratios = np.tan(np.linspace(0, np.pi / 2, 2001)[1:-1])
    sizes = (loads[:, :1] * ratios + loads[:, 1:]).max(axis=0)
    return np.min((1 + ratios**-2.0) * sizes**2)


def test_every_point_is_inside_in_exact_arithmetic():
    rng = np.random.default_rng(0)
    for _ in range(6):
        points, L = random_problem(rng)
        points = points * 10.0 ** rng.integers(-3, 4, (len(points), 1))
        shape = laplace_shape(points, L)
        assert abs(exact_norm(shape.factor, points) - 1) < 1e-9
        assert shape.lower_bound <= cost_of(shape.factor, L)


def test_one_dimension_is_the_largest_move():
    L = np.array([[0.5]])
    shape = laplace_shape(np.array([[-3.0, 2.0, 0.0]]), L)
    assert abs(shape.factor[0, 0]) == pytest.approx(3, rel=1e-14)
    assert shape.lower_bound == pytest.approx(cost_of(shape.factor, L), rel=1e-8)


def test_signed_axes_are_their_own_noise_and_attain_the_lower_bound():
    lengths = np.array([3.0, 0.01, 40.0, 1.0])
    points = np.hstack([np.diag(lengths), -np.diag(lengths)])
    L = np.diag([1.0, 5.0, 0.2, 1.0])
    shape = laplace_shape(points, L)
    assert shape.factor @ shape.factor.T == pytest.approx(np.diag(lengths**2), rel=1e-9)
    assert shape.lower_bound == pytest.approx(cost_of(shape.factor, L), rel=1e-8)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    turned = laplace_shape(turn @ points, np.eye(4))
    assert turned.lower_bound == pytest.approx(
        cost_of(turned.factor, np.eye(4)), rel=1e-8
    )


def test_two_points_are_covered_by_the_cheapest_parallelogram():
    """All pairs of directions in steps of 6 degrees, each with its best scales: no pair is better by 0.1 %."""
    rng = np.random.default_rng(5)
    angles = np.arange(30) * np.pi / 30
    directions = np.array([np.cos(angles), np.sin(angles)])
    for count in (2, 5):
        points = rng.normal(size=(2, count)) * [[2.0], [0.7]]
        best = np.inf
        for i in range(30):
            for j in range(i):
                basis = directions[:, [i, j]]
                loads = np.abs(np.linalg.solve(basis, points)).T
                best = min(best, 2 * best_scales(loads))
        shape = laplace_shape(points, np.eye(2))
        cost = cost_of(shape.factor, np.eye(2))
        assert shape.lower_bound <= cost <= 1.001 * best
        assert best <= 1.3 * cost


@pytest.mark.slow
def test_never_worse_than_algorithm_2():
    rng = np.random.default_rng(4)
    ratios = []
    for _ in range(15):
        points, L = random_problem(rng)
        shape = laplace_shape(points, L)
        cost = cost_of(shape.factor, L)
        bases = [singular_basis(points), np.eye(len(points)), singular_basis(L)]
        scaled = [cost_of(algorithm_2(basis, points), L) for basis in bases]
        ratios.append([cost / other for other in scaled])
        drawn = rng.normal(size=2 * points.shape[:1])
        assert shape.lower_bound <= cost_of(algorithm_2(drawn, points), L)
    assert np.max(ratios) <= 1 + 1e-6
    assert np.median(ratios, axis=0)[0] < 0.6


def test_units_of_points_and_weight_do_not_matter():
    rng = np.random.default_rng(6)
    for scale, price in ((1e-3, 1.0), (np.pi, 1e4), (1e9, 1e-9)):
        points, L = random_problem(rng)
        shape, other = (
            laplace_shape(points, L),
            laplace_shape(scale * points, price * L),
        )
        assert other.factor @ other.factor.T == pytest.approx(
            scale**2 * shape.factor @ shape.factor.T, rel=1e-10
        )
        assert cost_of(other.factor, price * L) == pytest.approx(
            (scale * price) ** 2 * cost_of(shape.factor, L), rel=1e-10
        )


def test_signs_order_and_copies_of_the_points_do_not_matter():
    rng = np.random.default_rng(7)
    points, L = random_problem(rng)
    order = rng.permutation(points.shape[1])
    mirrored = (points * rng.choice([-1.0, 1.0], points.shape[1]))[:, order]
    other = laplace_shape(
        np.hstack([mirrored, points[:, :3], np.zeros((len(points), 2))]), L
    )
    shape = laplace_shape(points, L)
    assert cost_of(other.factor, L) == pytest.approx(cost_of(shape.factor, L), rel=1e-3)


def test_points_that_do_not_span_are_refused():
    with pytest.raises(UncertifiableError):
        laplace_shape(np.array([[1.0, 2.0], [1.0, 2.0]]), np.eye(2))


@pytest.mark.parametrize("cheaper, place", [(4e-7, 0), (4e-6, 1)])
def test_a_factor_has_to_be_cheaper_by_a_millionth_to_be_chosen(cheaper, place):
    """The least part of a cost that rounding, and nothing else, may not decide."""
    factors = [np.eye(2), np.eye(2) * np.sqrt(1 - cheaper)]
    assert families._cheapest(factors, np.eye(2)) == place


@pytest.mark.parametrize("decades", [0, 3, 20])
def test_newtons_matrix_of_many_dimensions_is_the_sum_over_all_of_them(decades):
    """Up to a few thousandths, as an integral in steps, and of any range of prices."""
    rng = np.random.default_rng(decades)
    r, count = 70, 90
    cost = 10.0 ** -rng.permutation(np.linspace(0, decades, r))
    points = rng.normal(size=(r, count)) * cost[:, None] ** 0.25
    multiplier = rng.uniform(0.1, 1, count)
    slack = rng.uniform(0, 0.1, count)
    eye = np.eye(r)
    it = _Iterate(points, cost, eye, eye, multiplier, slack, np.arange(count))
    found = np.triu(_newton_matrix(it))
    wanted = np.diag(slack)
    for row, price in zip(points, cost, strict=True):
        inner = (points.T / (price + cost)) @ points
        wanted += np.outer(row, row) * inner * np.sqrt(np.outer(multiplier, multiplier))
    sizes = np.sqrt(np.diag(wanted))
    error = (found - np.triu(wanted)) / np.outer(sizes, sizes)
    assert np.abs(error).max() < 3e-3
