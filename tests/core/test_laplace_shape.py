"""The shape of Laplace noise: always feasible, never worse than Algorithm 2, certified where the problem is convex."""

from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq, fmpq_mat

from privcontrol.core import UncertifiableError
from privcontrol.core.noise import enclosing_cross_polytope as laplace_shape


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
