"""Designed Laplace noise never costs more than independent noise, also where that takes more columns than directions."""

import numpy as np
import pytest
from repeats import few
from scipy.optimize import linprog

import privcontrol as pc
from privcontrol.core import ManifoldAdjacency, design_iid, design_laplace

PURE = pc.PrivacyBudget(epsilon=0.8)


def least_norm(noise, images):
    """max over the images of min ||a||_1 subject to factor a = s, by linear programs: the pure epsilon of any factor."""
    factor = noise.factor if noise.factor.ndim == 2 else np.diag(noise.factor)
    both, ones = np.hstack([factor, -factor]), np.ones(2 * factor.shape[1])
    return max(linprog(ones, A_eq=both, b_eq=image).fun for image in images.T)


def shares_problem(size, radius=0.05):
    """Shares that sum to one, of which one gives to another."""
    pairs = [
        radius * (np.eye(size)[i] - np.eye(size)[j])
        for i in range(size)
        for j in range(i)
    ]
    query = pc.LinearQuery(np.eye(size), pc.AffineManifold(np.ones((1, size)), [-1.0]))
    return query, pc.DirectionAdjacency(np.transpose(pairs))


def sums_problem(seed):
    """Entries, some with their subtotal, some in other units, whose sums are public; and a weight or None."""
    rng = np.random.default_rng(seed)
    size, count = int(rng.integers(3, 9)), int(rng.integers(1, 3))
    sums = (rng.random((count, size)) < 0.7).astype(float)
    sums[0] = 1.0
    manifold = pc.AffineManifold(sums, -sums @ np.ones(size), pinned="keep")
    subtotal = np.vstack([np.eye(size), np.arange(size) < size // 2])
    query = pc.LinearQuery(
        (np.eye(size), subtotal, np.diag(rng.uniform(0.3, 3, size)))[seed % 3], manifold
    )
    weight = None if seed % 4 else np.diag(rng.uniform(0.1, 5.0, query.size))
    return (
        query,
        ManifoldAdjacency(1.0 if seed % 2 else rng.uniform(0.5, 2, size)),
        weight,
    )


@pytest.mark.parametrize("seed", few(range(30), of=2))
def test_the_design_never_costs_more_than_independent_noise(seed):
    query, adjacency, weight = sums_problem(seed)
    design = design_laplace(query, adjacency, PURE, weight=weight)
    independent = design_iid(query, adjacency, PURE, family="laplace").noise.covariance
    weight = np.eye(query.size) if weight is None else weight
    assert (
        design.lower_bound <= design.cost <= np.trace(weight @ independent) * (1 + 1e-9)
    )
    assert design.cost == pytest.approx(
        np.trace(weight @ design.noise.covariance), rel=1e-9
    )
    assert design.guarantee.satisfies(PURE)
    images = query.response @ adjacency.moves(query.manifold).columns
    assert (
        0.9 * 0.8 <= least_norm(design.noise, images) <= 0.8 * (1 + 1e-6)
    )  # the bound is safe, and wastes little
    if design.tangent_factor is not None:
        responses = query.response @ design.tangent_factor
        factor = design.noise.factor
        np.testing.assert_allclose(responses, factor, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", few([3, 5, 10, 20], of=3))
def test_noise_for_shares_is_at_most_independent_noise(size):
    query, adjacency = shares_problem(size)
    design = design_laplace(query, adjacency, PURE)
    independent = design_iid(query, adjacency, PURE, family="laplace")
    assert design.cost <= independent.cost * (1 + 1e-9)
    assert least_norm(design.noise, adjacency.directions) <= 0.8 * (1 + 1e-6)


@pytest.mark.parametrize("seed", few(range(6), of=1))
def test_with_a_delta_too_the_design_never_costs_more_than_independent_noise(seed):
    query, adjacency, _ = sums_problem(4 * seed + 1)
    budget = pc.PrivacyBudget(epsilon=0.8, delta=0.02)
    design = design_laplace(query, adjacency, budget)
    assert design.guarantee.satisfies(budget)
    assert np.isnan(design.gap)
    assert design.cost <= design_iid(
        query, adjacency, budget, family="laplace"
    ).cost * (1 + 5e-6)


def test_around_a_ball_the_design_never_costs_more_than_independent_noise():
    rng = np.random.default_rng(0)
    query, adjacency = (
        pc.LinearQuery(
            np.diag([3.0, 0.1, 0.0]) + 0.01 * rng.normal(size=(3, 3))[:, :1]
        ),
        pc.BallAdjacency(1.0),
    )
    independent = design_iid(query, adjacency, PURE, family="laplace")
    for weight in (None, np.diag([1.0, 0.0, 0.0]), np.diag([0.0, 1.0, 1.0])):
        design = design_laplace(query, adjacency, PURE, weight=weight)
        price = np.trace(
            independent.noise.covariance
            if weight is None
            else weight @ independent.noise.covariance
        )
        assert design.cost <= price * (1 + 1e-9)
        assert design.guarantee.satisfies(PURE)
