"""The circuits of a manifold: which, how many, and refused where they would take for ever."""

import pickle
import time

import numpy as np
import pytest

import privcontrol as pc
from privcontrol.core import UncertifiableError


def columns(manifold, radius):
    return manifold.circuit_moves(np.broadcast_to(radius, manifold.size)).columns


@pytest.mark.parametrize("n", [2, 20, 100])
def test_shares_of_a_sum_move_in_pairs(n):
    manifold = pc.AffineManifold(np.ones((1, n)), [-1.0])
    query, adjacency = pc.LinearQuery(np.eye(n), manifold), pc.ManifoldAdjacency(0.05)
    start = time.process_time()
    assert columns(manifold, 0.05).shape[1] == n * (n - 1) // 2
    assert (
        0.05 * np.sqrt(2)
        <= query.sensitivity(adjacency)
        <= 0.05 * np.sqrt(2) * (1 + 1e-8)
    )
    assert 0.1 <= query.sensitivity(adjacency, norm=1) <= 0.1 * (1 + 1e-8)
    assert time.process_time() - start < 2


def test_weighted_shares_with_radii_by_entry_have_a_closed_form():
    n, rng = 25, np.random.default_rng(0)
    weights, radius = rng.uniform(0.5, 9, n), rng.choice([0.0, 1.0, 2.5], n)
    manifold = pc.AffineManifold(weights[None])
    protected = np.flatnonzero(radius)
    adjacency = pc.ManifoldAdjacency(radius[protected], entries=protected.tolist())
    best = max(
        max(radius[i] * weights[i], radius[j] * weights[j])
        * np.hypot(1 / weights[i], 1 / weights[j])
        for i in range(n)
        for j in range(i)
    )
    query = pc.LinearQuery(np.eye(n), manifold)
    assert best <= query.sensitivity(adjacency) <= best * (1 + 1e-10)
    best = 0.05 * np.hypot(1, weights[0] / weights[1:].min())
    assert (
        best
        <= query.sensitivity(pc.ManifoldAdjacency(0.05, entries=[0]))
        <= best * (1 + 1e-10)
    )


def test_entries_that_nothing_ties_together_are_counted_apart():
    budgets = pc.AffineManifold(np.kron(np.eye(5), np.ones((1, 12))))
    assert columns(budgets, 1.0).shape[1] == 5 * 66
    moves = budgets.kernel @ columns(budgets, 1.0)
    assert (np.abs(moves).round(9) == 1).sum(axis=0).tolist() == [2] * 330
    free = pc.AffineManifold([[1.0, 1.0, 0.0, 0.0]])
    assert columns(free, 1.0).shape[1] == 3
    everything = pc.AffineManifold.from_kernel(np.diag(np.arange(1.0, 51.0)))
    np.testing.assert_allclose(
        columns(everything, 1.0), np.diag(1 / np.arange(1.0, 51.0)), rtol=1e-12
    )
    pinned = pc.AffineManifold([[1.0, 0, 0], [0, 1.0, 1.0]], pinned="keep")
    assert columns(pinned, 1.0).shape[1] == 1
    assert columns(pinned, [1.0, 0.0, 0.0]).shape == (1, 0)


def test_what_would_take_for_ever_is_refused_before_it_starts():
    D = np.random.default_rng(0).standard_normal((15, 30))
    for manifold in (pc.AffineManifold(D), pc.AffineManifold.from_kernel(D.T)):
        start = time.process_time()
        with pytest.raises(
            ValueError,
            match="30 entries tied by 15 constraints.*DirectionAdjacency.*BallAdjacency.*charts",
        ):
            manifold.circuit_moves(np.ones(30))
        with pytest.raises(ValueError, match="DirectionAdjacency"):
            pc.LinearQuery(np.eye(30), manifold).sensitivity(pc.ManifoldAdjacency(1.0))
        assert time.process_time() - start < 2
    chart = pc.AffineManifold(D).circuit_moves(np.ones(30), [range(15)])
    assert chart.columns.shape == (15, 15)


def test_charts_of_many_entries_are_the_inverse_of_their_rows():
    N = np.random.default_rng(1).standard_normal((24, 20))
    manifold, chart = pc.AffineManifold.from_kernel(N), list(range(2, 22))
    moves = manifold.circuit_moves(np.full(24, 0.5), [chart]).columns
    np.testing.assert_allclose(moves, 0.5 * np.linalg.inv(N[chart]), rtol=1e-9)


def test_constraints_whose_rank_depends_on_rounding_are_refused():
    D = np.array([[1.0, 1.0, 1.0], [0.1 + 0.2, 0.3, 0.3]])
    manifold = pc.AffineManifold(D)
    assert manifold.dimension == 2
    with pytest.raises(
        UncertifiableError,
        match="ties 2 to others in exact arithmetic and 1 in floating point",
    ):
        manifold.circuit_moves(np.ones(3))


def test_the_equations_of_a_manifold():
    """D and b as given; rows across a kernel; eq. (20) of the paper for a plant."""
    D, b = [[1.0, -2.0, 0.0], [2.0, -4.0, 0.0]], [3.0, 6.0]
    given = pc.AffineManifold(D, b)
    assert (given.D.tolist(), given.b.tolist()) == (D, b)
    with pytest.raises(ValueError, match="read-only"):
        given.D[0, 0] = 5.0
    spanned = pc.AffineManifold.from_kernel([[1.0], [2.0], [2.0]], [1.0, 0.0, 0.0])
    assert spanned.D.shape == (2, 3)
    np.testing.assert_allclose(spanned.D @ [1.0, 2.0, 2.0], 0, atol=1e-14)
    np.testing.assert_allclose(spanned.D @ [3.0, 4.0, 4.0] + spanned.b, 0, atol=1e-14)
    again = pc.AffineManifold(spanned.D, spanned.b)
    assert again.contains([3.0, 4.0, 4.0])
    assert not again.contains([3.0, 4.0, 5.0])
    plant, u = pc.plants.vehicle(), np.array([[1.0, -2.0, 5.0]])
    run = pc.trajectory_manifold(plant, 3, u)
    x = [np.array([1.0, 2.0])]
    for t in range(2):
        x.append(plant.A @ x[-1] + plant.B @ u[:, t])
    assert run.D.shape == (4, 6)
    np.testing.assert_allclose(run.D @ np.concatenate(x) + run.b, 0, atol=1e-14)
    np.testing.assert_array_equal(run.D[2:, 2:4], plant.A)
    np.testing.assert_array_equal(run.D[2:, 4:], -np.eye(2))
    assert pc.trajectory_manifold(plant, 1).D.shape == (0, 2)


def test_a_manifold_pickles_after_its_circuits_were_made():
    manifold = pc.AffineManifold([[1.0, -2.0, 1.0]])
    pc.ManifoldAdjacency(1.0).moves(manifold)
    assert pickle.loads(pickle.dumps(manifold)) == manifold


def test_the_sign_of_a_zero_tells_no_secrets_apart():
    """The negative of a D with zeros has zeros of the other sign."""
    hidden = pc.DirectionAdjacency([[0.0], [1.0], [0.0]])
    assert pc.DirectionAdjacency([[-0.0], [1.0], [-0.0]]) == hidden
    promises = []
    for D in ([[1.0, 0.0, 1.0]], [[1.0, -0.0, 1.0]]):
        query = pc.LinearQuery([[0.0, 1.0, 0.0]], pc.AffineManifold(D))
        promises.append(pc.Mechanism(query, pc.GaussianNoise([1.0])).guarantee(hidden))
    assert promises[0].scope == promises[1].scope
    assert sum(promises).releases == 2
