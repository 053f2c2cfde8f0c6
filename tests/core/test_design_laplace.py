"""Laplace noise: the paper's Example 1, Algorithm 2 to the letter, and shapes that are never worse than it."""

import cases
import numpy as np
import pytest
import scipy.linalg
from scipy.optimize import linprog

import privcontrol as pc
from privcontrol.core import ManifoldAdjacency, design_iid, design_laplace

PURE = pc.PrivacyBudget(epsilon=0.8)


def pure_epsilon(mechanism, moves):
    """max ||Lambda^+ s||_1 by a dense pseudo-inverse."""
    return np.abs(np.linalg.pinv(mechanism.noise.factor) @ mechanism.query.response @ moves).sum(axis=0).max()


def least_norm(noise, images):
    """max over the images of min ||a||_1 subject to factor a = s, by linear programs: the pure epsilon of any factor."""
    factor = noise.factor if noise.factor.ndim == 2 else np.diag(noise.factor)
    both, ones = np.hstack([factor, -factor]), np.ones(2 * factor.shape[1])
    return max(linprog(ones, A_eq=both, b_eq=image).fun for image in images.T)


def shares_problem(size, radius=0.05):
    """Shares that sum to one, of which one gives to another."""
    pairs = [radius * (np.eye(size)[i] - np.eye(size)[j]) for i in range(size) for j in range(i)]
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
    query = pc.LinearQuery((np.eye(size), subtotal, np.diag(rng.uniform(0.3, 3, size)))[seed % 3], manifold)
    weight = None if seed % 4 else np.diag(rng.uniform(0.1, 5.0, query.size))
    return query, ManifoldAdjacency(1.0 if seed % 2 else rng.uniform(0.5, 2, size)), weight


@pytest.mark.parametrize("k", [0.25, 0.5, 1.0, 2.0, 4.0])
def test_example_1_independent_noise_loses_and_correlated_noise_keeps_epsilon(k):
    query = pc.LinearQuery(np.eye(2), pc.AffineManifold([[k, -1.0]]))
    adjacency = ManifoldAdjacency(1.0)
    independent = pc.Mechanism(query, pc.LaplaceNoise([1 / 0.8, 1 / 0.8])).guarantee(adjacency)
    assert independent.epsilon(0.0) == pytest.approx(max(1 + k, 1 + 1 / k) * 0.8, rel=1e-12)
    correlated = pc.LaplaceNoise(max(1, 1 / k) / 0.8 * np.array([[1.0], [k]]))
    assert pc.Mechanism(query, correlated).guarantee(adjacency).epsilon(0.0) == pytest.approx(0.8, rel=1e-12)
    design = design_laplace(query, adjacency, PURE)
    np.testing.assert_allclose(design.noise.covariance, correlated.covariance, rtol=1e-9)


@pytest.mark.parametrize("seed", range(15))
def test_the_designed_shape_meets_the_budget_and_is_never_worse_than_algorithm_2(seed):
    query, adjacency, weight = cases.random_problem(seed, weighted=seed % 2 == 1)
    design = design_laplace(query, adjacency, PURE, weight=weight)
    basis = scipy.linalg.orth(query.response)
    paper = design_laplace(query, adjacency, PURE, weight=weight, basis=basis)
    for found in (design, paper):
        assert pure_epsilon(found.mechanism, adjacency.directions) <= 0.8 * (1 + 1e-9)
        assert found.guarantee.satisfies(PURE) and found.guarantee.epsilon(0.0) == pytest.approx(0.8, rel=1e-9)
    assert design.cost <= paper.cost * (1 + 1e-9)
    assert design.lower_bound <= design.cost
    weight = np.eye(query.size) if weight is None else weight
    assert design.cost == pytest.approx(np.trace(weight @ design.noise.covariance), rel=1e-9)


def test_algorithm_2_scales_the_basis_and_its_size_does_not_matter():
    # the printed transpose in the place of the inverse would make the noise depend on it
    query, adjacency, _ = cases.random_problem(4, rank=3)
    basis = query.response
    designs = [design_laplace(query, adjacency, PURE, basis=size * basis) for size in (1.0, 1e-3, 1e3)]
    for design in designs:
        ratio = design.noise.factor / basis
        np.testing.assert_allclose(ratio, ratio.flat[0], rtol=1e-12)
        np.testing.assert_allclose(design.noise.covariance, designs[0].noise.covariance, rtol=1e-10)
    assert np.isnan(designs[0].gap)


def test_one_direction_gets_the_scalar_scale():
    design = design_laplace(pc.LinearQuery([[3.0]]), pc.DirectionAdjacency([[2.0]]), PURE)
    assert abs(design.noise.factor.item()) == pytest.approx(pc.laplace_scale(0.8, 6.0), rel=1e-12)


def test_a_delta_above_zero_makes_the_noise_smaller():
    query, adjacency, _ = cases.random_problem(6, rank=2)
    loose = pc.PrivacyBudget(epsilon=0.8, delta=0.02)
    pure, approximate = design_laplace(query, adjacency, PURE), design_laplace(query, adjacency, loose)
    assert approximate.cost < pure.cost and approximate.guarantee.satisfies(loose)
    assert not approximate.guarantee.satisfies(PURE)
    thinner = pc.Mechanism(query, pc.LaplaceNoise(0.999 * approximate.noise.factor))
    assert not thinner.guarantee(adjacency).satisfies(loose)


def test_releases_share_the_budget():
    query, adjacency, _ = cases.random_problem(8)
    design = design_laplace(query, adjacency, PURE, releases=4)
    assert sum([design.guarantee] * 4).satisfies(PURE) and not sum([design.guarantee] * 5).satisfies(PURE)


def test_independent_laplace_noise_is_the_1_norm_sensitivity():
    query, adjacency, _ = cases.random_problem(5)
    design = pc.design_iid(query, adjacency, PURE, family="laplace")
    worst = np.abs(query.response @ adjacency.directions).sum(axis=0).max()
    np.testing.assert_allclose(design.noise.factor, worst / 0.8, rtol=1e-12)


@pytest.mark.parametrize("seed", range(30))
def test_the_design_never_costs_more_than_independent_noise(seed):
    query, adjacency, weight = sums_problem(seed)
    design = design_laplace(query, adjacency, PURE, weight=weight)
    independent = design_iid(query, adjacency, PURE, family="laplace").noise.covariance
    weight = np.eye(query.size) if weight is None else weight
    assert design.lower_bound <= design.cost <= np.trace(weight @ independent) * (1 + 1e-9)
    assert design.cost == pytest.approx(np.trace(weight @ design.noise.covariance), rel=1e-9)
    assert design.guarantee.satisfies(PURE)
    images = query.response @ adjacency.moves(query.manifold).columns
    assert 0.9 * 0.8 <= least_norm(design.noise, images) <= 0.8 * (1 + 1e-6)  # the bound is safe, and wastes little
    np.testing.assert_allclose(query.response @ design.tangent_factor, design.noise.factor, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [3, 4, 5, 6, 8, 9, 10, 12, 16, 20])
def test_noise_for_shares_is_at_most_independent_noise_cut_to_the_sum(size):
    query, adjacency = shares_problem(size)
    design = design_laplace(query, adjacency, PURE)
    cut = 2 * (0.1 / 0.8) ** 2 * (size - 1)
    assert design.cost <= cut * (1 + 1e-9) < design_iid(query, adjacency, PURE, family="laplace").cost
    assert least_norm(design.noise, adjacency.directions) <= 0.8 * (1 + 1e-6)
    assert np.abs(design.noise.factor.sum(axis=0)).max() < 1e-12
    if design.noise.factor.shape[1] >= size:
        assert "epsilon" not in design.guarantee.exact and design.guarantee.satisfies(PURE)


def test_more_columns_than_directions_keep_epsilon_by_the_density_itself():
    """Three Laplace variables cut to the plane of sum zero; their density is an integral along (1, 1, 1)."""
    mechanism = pc.Mechanism(shares_problem(3)[0], pc.LaplaceNoise(0.1 * (np.eye(3) - 1 / 3)))
    move = np.array([0.05, -0.05, 0.0])
    epsilon = mechanism.guarantee(pc.DirectionAdjacency(move[:, None])).epsilon(0.0)
    lines = np.linspace(-60, 60, 60_001)

    def log_density(y):
        return np.log(np.exp(-sum(np.abs(entry / 0.1 + lines) for entry in y)).sum())

    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    plane = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) / np.sqrt([[2.0], [6.0]])
    points = [size * (np.cos(a) * plane[0] + np.sin(a) * plane[1]) for a in angles for size in (0.02, 0.2, 1.0)]
    ratios = [log_density(y) - log_density(y + move) for y in points]
    assert max(ratios) <= epsilon * (1 + 1e-6) and max(ratios) >= 0.999 * epsilon


@pytest.mark.parametrize("seed", range(6))
def test_with_a_delta_too_the_design_never_costs_more_than_independent_noise(seed):
    query, adjacency, _ = sums_problem(4 * seed + 1)
    budget = pc.PrivacyBudget(epsilon=0.8, delta=0.02)
    design = design_laplace(query, adjacency, budget)
    assert design.guarantee.satisfies(budget) and np.isnan(design.gap)
    assert design.cost <= design_iid(query, adjacency, budget, family="laplace").cost * (1 + 5e-6)


def test_around_a_ball_the_design_never_costs_more_than_independent_noise():
    rng = np.random.default_rng(0)
    query, adjacency = (
        pc.LinearQuery(np.diag([3.0, 0.1, 0.0]) + 0.01 * rng.normal(size=(3, 3))[:, :1]),
        pc.BallAdjacency(1.0),
    )
    independent = design_iid(query, adjacency, PURE, family="laplace")
    for weight in (None, np.diag([1.0, 0.0, 0.0]), np.diag([0.0, 1.0, 1.0])):
        design = design_laplace(query, adjacency, PURE, weight=weight)
        price = np.trace(independent.noise.covariance if weight is None else weight @ independent.noise.covariance)
        assert design.cost <= price * (1 + 1e-9) and design.guarantee.satisfies(PURE)
        np.testing.assert_allclose(query.response @ design.tangent_factor, design.noise.factor, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("family", ["laplace", "iid-laplace"])
def test_output_noise_of_a_plant_is_pure(family):
    plant = cases.random_plant(1, states=3)
    adjacency = pc.StateAdjacency([1.0, 0.5, 2.0])
    noise = pc.design_output_noise(plant, horizon=8, budget=PURE, adjacency=adjacency, family=family)
    moves = adjacency.moves(pc.trajectory_manifold(plant, 8)).columns
    if family == "laplace":
        shifts = np.linalg.solve(noise.factor, moves)
    else:
        shifts = pc.observability_stack(plant, 8) @ moves / noise.scale[0]
    assert np.abs(shifts).sum(axis=0).max() == pytest.approx(0.8, rel=1e-6)  # the moves span nine decades
    assert noise.guarantee.satisfies(PURE) and str(noise.guarantee).startswith("Laplace")
    gamma = noise.sample(trials=100_000, rng=0)
    variance = np.diag(noise.covariance(2))
    # the fourth moment of a Laplace sum is at most 6 times the squared variance
    assert np.abs(gamma[:, :, 2].var(axis=1) / variance - 1).max() < 5 * np.sqrt(5 / 100_000)


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"basis": np.eye(2)}, ValueError, r"basis: expected shape \(3, any\), got \(2, 2\)"),
        ({"basis": np.eye(3)[:, :2]}, pc.NotRealizableError, "leaves a protected direction bare"),
        ({"basis": "best"}, ValueError, "basis: expected one of 'optimal'"),
        ({"weight": -np.eye(3)}, ValueError, "positive semidefinite"),
        ({"weight": np.ones(3)}, ValueError, r"weight: expected shape \(3, 3\), got \(3,\); write np.diag\(weight\)"),
        ({"releases": 0}, ValueError, "releases: expected an integer >= 1"),
    ],
)
def test_bad_input_says_what_was_expected(change, error, message):
    with pytest.raises(error, match=message):
        design_laplace(pc.LinearQuery(np.eye(3)), pc.DirectionAdjacency(np.eye(3)), PURE, **change)
