"""Laplace noise: the paper's Example 1, Algorithm 2 to the letter, and shapes that are never worse than it."""

import itertools

import cases
import numpy as np
import pytest
import scipy.linalg
from repeats import few
from scipy.spatial import ConvexHull

import privcontrol as pc
from privcontrol.core import ManifoldAdjacency, design_laplace

PURE = pc.PrivacyBudget(epsilon=0.8)


def pure_epsilon(mechanism, moves):
    """max ||Lambda^+ s||_1 by a dense pseudo-inverse."""
    return (
        np.abs(
            np.linalg.pinv(mechanism.noise.factor) @ mechanism.query.response @ moves
        )
        .sum(axis=0)
        .max()
    )


@pytest.mark.parametrize("k", [0.25, 0.5, 1.0, 2.0, 4.0])
def test_example_1_independent_noise_loses_and_correlated_noise_keeps_epsilon(k):
    query = pc.LinearQuery(np.eye(2), pc.AffineManifold([[k, -1.0]]))
    adjacency = ManifoldAdjacency(1.0)
    independent = pc.Mechanism(query, pc.LaplaceNoise([1 / 0.8, 1 / 0.8])).guarantee(
        adjacency
    )
    assert independent.epsilon(0.0) == pytest.approx(
        max(1 + k, 1 + 1 / k) * 0.8, rel=1e-12
    )
    correlated = pc.LaplaceNoise(max(1, 1 / k) / 0.8 * np.array([[1.0], [k]]))
    assert pc.Mechanism(query, correlated).guarantee(adjacency).epsilon(
        0.0
    ) == pytest.approx(0.8, rel=1e-12)
    design = design_laplace(query, adjacency, PURE)
    np.testing.assert_allclose(
        design.noise.covariance, correlated.covariance, rtol=1e-9
    )


@pytest.mark.parametrize("seed", few(range(15), of=2))
def test_the_designed_shape_meets_the_budget_and_is_never_worse_than_algorithm_2(seed):
    query, adjacency, weight = cases.random_problem(seed, weighted=seed % 2 == 1)
    design = design_laplace(query, adjacency, PURE, weight=weight)
    basis = scipy.linalg.orth(query.response)
    paper = design_laplace(query, adjacency, PURE, weight=weight, basis=basis)
    for found in (design, paper):
        assert pure_epsilon(found.mechanism, adjacency.directions) <= 0.8 * (1 + 1e-9)
        assert found.guarantee.satisfies(PURE)
        # a queried direction that rounding left outside of the noise is padded
        assert found.guarantee.epsilon(0.0) == pytest.approx(0.8, rel=1e-7)
    assert design.cost <= paper.cost * (1 + 1e-9)
    assert design.lower_bound <= design.cost
    weight = np.eye(query.size) if weight is None else weight
    assert design.cost == pytest.approx(
        np.trace(weight @ design.noise.covariance), rel=1e-9
    )


def test_algorithm_2_scales_the_basis_and_its_size_does_not_matter():
    # the printed transpose in the place of the inverse would make the noise depend on it
    query, adjacency, _ = cases.random_problem(4, rank=3)
    basis = query.response
    designs = [
        design_laplace(query, adjacency, PURE, basis=size * basis)
        for size in (1.0, 1e-3, 1e3, 1e-200, 1e200)
    ]
    for design in designs:
        ratio = design.noise.factor / basis
        np.testing.assert_allclose(ratio, ratio.flat[0], rtol=1e-12)
        np.testing.assert_allclose(
            design.noise.covariance, designs[0].noise.covariance, rtol=1e-9
        )
    assert np.isnan(designs[0].gap)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("unit", [1e-200, 1e200])
@pytest.mark.parametrize("correlated", [True, False])
def test_noise_whose_variance_is_no_double_is_not_taken_for_none(unit, correlated):
    """At 1e200 the advice was to publish without noise: every cost was infinite."""
    F = np.random.default_rng(0).standard_normal((3, 4))
    stds = []
    for size in (1.0, unit):
        query = pc.LinearQuery(size * F)
        if correlated:
            design = design_laplace(query, pc.BallAdjacency(1.0), PURE)
        else:
            design = pc.design_iid(query, pc.BallAdjacency(1.0), PURE, family="laplace")
        assert design.guarantee.satisfies(PURE)
        stds.append(design.noise.std / size)
    np.testing.assert_allclose(stds[0], stds[1], rtol=1e-9)


def test_one_direction_gets_the_scalar_scale():
    design = design_laplace(
        pc.LinearQuery([[3.0]]), pc.DirectionAdjacency([[2.0]]), PURE
    )
    assert abs(design.noise.factor.item()) == pytest.approx(
        pc.core.laplace_scale(0.8, 6.0), rel=1e-12
    )


def test_a_delta_above_zero_makes_the_noise_smaller():
    query, adjacency, _ = cases.random_problem(6, rank=2)
    loose = pc.PrivacyBudget(epsilon=0.8, delta=0.02)
    pure, approximate = (
        design_laplace(query, adjacency, PURE),
        design_laplace(query, adjacency, loose),
    )
    assert approximate.cost < pure.cost
    assert approximate.guarantee.satisfies(loose)
    assert not approximate.guarantee.satisfies(PURE)
    thinner = pc.Mechanism(query, pc.LaplaceNoise(0.999 * approximate.noise.factor))
    assert not thinner.guarantee(adjacency).satisfies(loose)


def test_releases_share_the_budget():
    query, adjacency, _ = cases.random_problem(8)
    design = design_laplace(query, adjacency, PURE, releases=4)
    assert sum([design.guarantee] * 4).satisfies(PURE)
    assert not sum([design.guarantee] * 5).satisfies(PURE)


def test_independent_laplace_noise_is_the_1_norm_sensitivity():
    query, adjacency, _ = cases.random_problem(5)
    design = pc.design_iid(query, adjacency, PURE, family="laplace")
    worst = np.abs(query.response @ adjacency.directions).sum(axis=0).max()
    np.testing.assert_allclose(design.noise.factor, worst / 0.8, rtol=1e-12)


@pytest.mark.parametrize("family", ["laplace", "iid-laplace"])
def test_output_noise_of_a_plant_is_pure(family):
    plant = cases.random_plant(1, states=3)
    adjacency = pc.StateAdjacency([1.0, 0.5, 2.0])
    noise = pc.design_output_noise(
        plant,
        horizon=8,
        budget=PURE,
        adjacency=adjacency,
        family=family,
        max_std=np.inf,
    )
    moves = adjacency.moves(pc.trajectory_manifold(plant, 8)).columns
    if family == "laplace":
        shifts = np.linalg.solve(noise.factor, moves)
    else:
        shifts = pc.observability_stack(plant, 8) @ moves / noise.process.scale[0]
    assert np.abs(shifts).sum(axis=0).max() == pytest.approx(
        0.8, rel=1e-6
    )  # the moves span nine decades
    assert noise.guarantee.satisfies(PURE)
    assert noise.guarantee.sentence.startswith("Laplace")
    gamma = noise.sample(trials=100_000, rng=0)
    variance = np.diag(noise.covariance(2))
    # the fourth moment of a Laplace sum is at most 6 times the squared variance
    assert np.abs(gamma[:, :, 2].var(axis=1) / variance - 1).max() < 5 * np.sqrt(
        5 / 100_000
    )


@pytest.mark.parametrize(
    "change, error, message",
    [
        (
            {"basis": np.eye(2)},
            ValueError,
            r"basis: expected shape \(3, any\), got \(2, 2\)",
        ),
        (
            {"basis": np.eye(3)[:, :2]},
            pc.NotRealizableError,
            "does not cover a protected direction",
        ),
        ({"basis": "best"}, ValueError, "basis: expected one of 'optimal'"),
        ({"weight": -np.eye(3)}, ValueError, "positive semidefinite"),
        (
            {"weight": np.ones(3)},
            ValueError,
            r"weight: expected shape \(3, 3\), got \(3,\); write np.diag\(weight\)",
        ),
        ({"releases": 0}, ValueError, "releases: expected an integer >= 1"),
    ],
)
def test_bad_input_says_what_was_expected(change, error, message):
    with pytest.raises(error, match=message):
        design_laplace(
            pc.LinearQuery(np.eye(3)), pc.DirectionAdjacency(np.eye(3)), PURE, **change
        )


@pytest.mark.parametrize("seed", range(6))
def test_laplace_noise_around_a_ball_costs_least(seed):
    """The 1-norm of the shifts by all signs, and the cost of other shapes of any width.

    Shapes of more columns than directions hide the ball if each direction is a combination
    of columns with coefficients of a sum of at most epsilon.
    """
    rng = np.random.default_rng(seed)
    q = int(rng.integers(2, 4))
    F = rng.normal(size=(q + seed % 2, q)) * [1.0, 0.1, 10.0][:q]
    H = rng.normal(size=(2, len(F)))
    weight = H.T @ H if seed % 3 == 0 and q == 2 else np.eye(len(F))
    design = design_laplace(
        pc.LinearQuery(F), pc.BallAdjacency(1.5), PURE, weight=weight
    )
    shifts = np.linalg.pinv(design.noise.factor) @ (1.5 * F)
    signs = np.array(list(itertools.product([-1, 1], repeat=q)))
    worst = np.linalg.norm(signs @ shifts, axis=1).max()
    assert worst == pytest.approx(PURE.epsilon, rel=1e-6)
    assert design.guarantee.epsilon(0.0) == pytest.approx(worst, rel=1e-6)
    assert design.gap < 1e-6

    def cost(corners):  # of the columns (q, k), as large as the ball needs them
        hull = ConvexHull(np.hstack([corners, -corners]).T)
        factor = 1.5 * F @ corners / np.abs(hull.equations[:, -1]).min()
        return 2 * np.trace(weight @ factor @ factor.T) / PURE.epsilon**2

    own = np.linalg.lstsq(1.5 * F, design.noise.factor, rcond=None)[0]
    assert cost(own) == pytest.approx(design.cost, rel=1e-6)
    for _ in range(200):
        others = own @ rng.normal(size=(q, q + int(rng.integers(3))))
        assert cost(others) > design.lower_bound
        assert cost(own + 0.05 * others[:, :q]) > design.lower_bound


def test_a_ball_of_which_the_weight_reads_nothing_has_laplace_noise_too():
    query = pc.LinearQuery([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    design = design_laplace(
        query, pc.BallAdjacency(1.0), PURE, weight=np.diag([1, 0, 0])
    )
    assert design.cost == 0
    np.testing.assert_allclose(design.noise.std, [0, 2 / 0.8, 2 / 0.8], rtol=1e-6)
