"""The shape of Laplace noise: always feasible, never worse than Algorithm 2, certified where the problem is convex."""

from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from flint import fmpq, fmpq_mat

from privcontrol.core.ellipsoid import enclosing_ellipsoid
from privcontrol.core.errors import UncertifiableError
from privcontrol.core.laplace_shape import (
    best_scales,
    enclosing_cross_polytope as laplace_shape,
    wide_factor,
)


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


def test_every_point_is_inside_in_exact_arithmetic():
    rng = np.random.default_rng(0)
    for _ in range(6):
        points, L = random_problem(rng)
        points = points * 10.0 ** rng.integers(-3, 4, (len(points), 1))
        shape = laplace_shape(points, L)
        assert (
            1 - 1e-9
            <= exact_norm(shape.factor, points[:, shape.active])
            <= exact_norm(shape.factor, points)
            <= 1
        )
        assert np.abs(np.linalg.solve(shape.factor, points)).sum(axis=0).max() <= 1
        cost = 2 * np.trace(L @ L.T @ shape.factor @ shape.factor.T)
        assert shape.lower_bound <= cost <= shape.cost * (
            1 + 1e-13
        ) and shape.cost <= cost * (1 + 1e-10)


def test_one_dimension_is_the_largest_move():
    shape = laplace_shape([[-3.0, 2.0, 0.0]], [[0.5]])
    assert abs(shape.factor[0, 0]) == pytest.approx(3, rel=1e-14)
    assert shape.cost == pytest.approx(2 * 9 * 0.25, rel=1e-14)
    assert shape.gap < 1e-8 and shape.active.tolist() == [0]


def test_signed_axes_are_their_own_noise_and_attain_the_lower_bound():
    lengths = np.array([3.0, 0.01, 40.0, 1.0])
    points = np.hstack([np.diag(lengths), -np.diag(lengths)])
    shape = laplace_shape(points, np.diag([1.0, 5.0, 0.2, 1.0]))
    assert shape.factor @ shape.factor.T == pytest.approx(np.diag(lengths**2), rel=1e-9)
    assert 0 <= shape.gap < 1e-8
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    assert laplace_shape(turn @ points).gap < 1e-8


def test_two_points_are_covered_by_the_cheapest_parallelogram():
    """All pairs of directions in steps of 4 degrees, each with its best scales: no pair is better by 0.1 %."""
    rng = np.random.default_rng(5)
    angles = np.arange(45) * np.pi / 45
    directions = np.array([np.cos(angles), np.sin(angles)])
    for count in (2, 5):
        points = rng.normal(size=(2, count)) * [[2.0], [0.7]]
        best = np.inf
        for i in range(45):
            for j in range(i):
                basis = directions[:, [i, j]]
                scales, _ = best_scales(
                    np.abs(np.linalg.solve(basis, points)).T, np.ones(2)
                )
                best = min(best, 2 * np.sum(scales**-2.0))
        shape = laplace_shape(points)
        assert shape.lower_bound <= shape.cost <= 1.001 * best
        assert best <= 1.25 * shape.cost


def test_scales_along_given_directions_are_optimal():
    rng = np.random.default_rng(1)
    for k in range(12):
        r, count = int(rng.integers(1, 7)), int(rng.integers(1, 300))
        loads = rng.random((count, r)) * 10.0 ** rng.uniform(-1, 1, r) + 1e-3
        costs = 10.0 ** rng.uniform(-1, 1, r)
        scales, bound = best_scales(loads, costs)
        value = np.sum(costs / scales**2)
        assert (loads @ scales).max() <= 1 + 1e-14
        assert bound * (1 - 1e-12) <= value <= bound * (1 + 1e-10)
        if k < 6:
            p = cp.Variable(r, pos=True)
            oracle = cp.Problem(
                cp.Minimize(costs @ cp.power(p, -2)), [loads @ p <= 1]
            ).solve(solver="CLARABEL")
            assert value == pytest.approx(oracle, rel=1e-6)


def test_scales_stay_certified_for_many_points_and_wide_spreads():
    rng = np.random.default_rng(2)
    loads = np.abs(rng.normal(size=(20_000, 5))) * np.array(
        [1e-6, 1.0, 1e6, 10.0, 1e-3]
    )
    costs = np.array([1e-12, 1.0, 1e12, 1e-24, 1.0])
    scales, bound = best_scales(loads, costs)
    assert (loads @ scales).max() <= 1 + 1e-14
    assert np.sum(costs / scales**2) <= bound * (1 + 1e-10)


def test_a_given_basis_is_scaled_as_in_algorithm_2():
    rng = np.random.default_rng(3)
    points, L = random_problem(rng)
    basis = rng.normal(size=(len(points), len(points)))
    sigma = np.abs(np.linalg.inv(basis) @ points).sum(axis=0).max()
    for scale in (1.0, 1e-3, 7e5):
        shape = laplace_shape(points, L, basis=scale * basis)
        assert shape.factor == pytest.approx(sigma * basis, rel=1e-10)
        assert shape.cost == pytest.approx(
            2 * np.sum((L.T @ shape.factor) ** 2), rel=1e-12
        )
        assert exact_norm(shape.factor, points) <= 1
        assert shape.lower_bound is None and np.isnan(shape.gap)


def test_never_worse_than_algorithm_2():
    rng = np.random.default_rng(4)
    ratios = []
    for _ in range(15):
        points, L = random_problem(rng)
        shape = laplace_shape(points, L)
        bases = [singular_basis(points), np.eye(len(points)), singular_basis(L)]
        ratios.append(
            [shape.cost / laplace_shape(points, L, basis=basis).cost for basis in bases]
        )
        assert (
            shape.lower_bound
            <= laplace_shape(
                points, L, basis=rng.normal(size=2 * points.shape[:1])
            ).cost
        )
    assert np.max(ratios) <= 1
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
        assert other.cost == pytest.approx((scale * price) ** 2 * shape.cost, rel=1e-10)


def test_signs_order_and_copies_of_the_points_do_not_matter():
    rng = np.random.default_rng(7)
    points, L = random_problem(rng)
    order = rng.permutation(points.shape[1])
    mirrored = (points * rng.choice([-1.0, 1.0], points.shape[1]))[:, order]
    other = laplace_shape(
        np.hstack([mirrored, points[:, :3], np.zeros((len(points), 2))]), L
    )
    assert other.cost == pytest.approx(laplace_shape(points, L).cost, rel=1e-3)


def test_bad_problems_are_refused():
    with pytest.raises(UncertifiableError):
        laplace_shape([[1.0, 2.0], [1.0, 2.0]])
    with pytest.raises(UncertifiableError, match="independent columns"):
        laplace_shape(np.eye(2), basis=[[1.0, 1.0], [0.0, 0.0]])
    with pytest.raises(UncertifiableError, match="nearly singular"):
        laplace_shape(np.eye(2), basis=[[1.0, 1.0], [1.0, 1.0 + 1e-15]])
    with pytest.raises(ValueError, match=r"basis: expected shape \(2, 2\)"):
        laplace_shape(np.eye(2), basis=np.eye(3))
    with pytest.raises(ValueError, match="weight_factor: expected shape"):
        laplace_shape(np.eye(2), np.eye(3))


def test_more_columns_than_directions_hold_every_point_and_improve_on_their_starts():
    rng = np.random.default_rng(8)
    for _ in range(5):
        points, L = random_problem(rng)
        r = len(points)
        responses, prices = rng.normal(size=(r + 2, r)), rng.uniform(0.5, 2, r + 2)
        factor, cost = wide_factor(responses, points, L, prices)
        inverse = np.linalg.pinv(factor)
        assert np.abs(inverse @ points).sum(axis=0).max() == pytest.approx(1, rel=1e-9)
        assert cost == pytest.approx(
            2 * np.trace(L @ L.T @ factor @ factor.T), rel=1e-12
        )
        scales, _ = best_scales(np.abs(responses @ points).T, prices)
        for start in (responses, responses * scales[:, None]):
            cut = np.linalg.pinv(start) * np.abs(start @ points).sum(axis=0).max()
            assert cost <= 2 * np.sum((L.T @ cut) ** 2) * (1 + 1e-6)
        assert enclosing_ellipsoid(points, L).lower_bound * 2 <= cost
        other = factor + rng.normal(size=factor.shape) @ (
            np.eye(r + 2) - inverse @ factor
        )  # another right inverse
        assert (
            other @ inverse == pytest.approx(np.eye(r), abs=1e-9)
            and np.sum((L.T @ other) ** 2) > cost / 2
        )
