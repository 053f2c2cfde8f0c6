"""Consecutive windows of one plant: stacked on one trajectory, never composed like releases of one secret."""

import time

import cases
import control as ct
import numpy as np
import oracles
import pytest

import privcontrol as pc
from privcontrol.core import kappa_inverse

ALLOWED = kappa_inverse(1.0, 1e-2)
BOTH = pc.StateAdjacency(1.0)


def stacked_shift(noises, plant, moves):
    """sup over moves of x(0) of the root of summed squares, window by window from dense pseudo-inverses."""
    start, total = 0, 0.0
    for noise in noises:
        horizon, p = noise.horizon, plant.noutputs
        blocks = [
            [noise.covariance(t, s) for s in range(horizon)] for t in range(horizon)
        ]
        stack = oracles.dense_observability(
            plant.A, plant.C, horizon
        ) @ np.linalg.matrix_power(plant.A, start)
        inverse = np.linalg.pinv(np.block(blocks), rcond=1e-11, hermitian=True)
        images = stack @ moves
        total = total + np.einsum("im,ij,jm->m", images, inverse, images)
        start += horizon
        assert inverse.shape == (horizon * p, horizon * p)
    return np.sqrt(np.max(total))


def run_moves(plant, horizon):
    back = np.linalg.inv(plant.A)
    return np.hstack([np.linalg.matrix_power(back, j) for j in range(horizon)])


@pytest.mark.parametrize("count, ratio", [(1, 1.0), (2, 2.670211), (5, 10.385488)])
def test_fresh_noise_for_each_window_of_the_vehicle_costs_far_more_than_the_root_of_their_number(
    count, ratio
):
    noise = cases.vehicle_noise(BOTH)
    together = pc.windows_guarantee([noise] * count)
    assert together.gdp / noise.guarantee.gdp == pytest.approx(ratio, rel=1e-6)
    assert together.horizon == 100 * count and "gdp" in together.exact


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
def test_joint_guarantee_is_that_of_the_stacked_query(seed, family):
    plant = cases.random_plant(seed, states=3, outputs=1 + seed % 2)
    noises = [
        pc.design_output_noise(
            plant,
            horizon=h,
            budget=cases.BUDGET,
            adjacency=BOTH,
            family=family,
            max_std=np.inf,
        )
        for h in (3, 4)
    ]
    truth = stacked_shift(noises, plant, run_moves(plant, 7))
    assert pc.windows_guarantee(noises).gdp == pytest.approx(truth, rel=1e-7)


def test_a_ball_of_initial_states_is_followed_through_the_windows():
    plant, adjacency = cases.random_plant(4, states=3), pc.InitialStateAdjacency(1.0)
    noises = [
        pc.design_output_noise(
            plant, horizon=h, budget=cases.BUDGET, adjacency=adjacency, max_std=np.inf
        )
        for h in (3, 4)
    ]
    rng = np.random.default_rng(0)
    moves = rng.normal(size=(3, 20_000))
    sampled = stacked_shift(noises, plant, moves / np.linalg.norm(moves, axis=0))
    exact = pc.windows_guarantee(noises).gdp
    assert sampled <= exact <= 1.01 * sampled


@pytest.mark.parametrize(
    "adjacency", [BOTH, cases.POSITION, pc.StateAdjacency(1.0, times=range(0, 60, 7))]
)
def test_windows_designed_together_fill_one_budget(adjacency):
    noises = pc.design_windows(
        pc.plants.vehicle(),
        horizons=[20, 30, 10],
        budget=cases.BUDGET,
        adjacency=adjacency,
    )
    together = pc.windows_guarantee(noises, adjacency=adjacency)
    assert together.satisfies(cases.BUDGET) and together.gdp == pytest.approx(
        ALLOWED, rel=1e-6
    )
    alone = [noise.guarantee.gdp for noise in noises]
    assert max(alone) <= together.gdp <= np.linalg.norm(alone) * (1 + 1e-12)
    one = cases.vehicle_noise(adjacency, horizon=60)
    assert sum(noise.design.cost for noise in noises) >= one.design.cost


def test_sums_of_guarantees_of_windows_are_exact():
    """Two runs with the same windows have the same worst moves, whose squares add."""
    noise = cases.vehicle_noise(BOTH, horizon=10)
    together = pc.windows_guarantee([noise, noise])
    twice = together + together
    assert twice.gdp == pytest.approx(np.sqrt(2) * together.gdp, rel=1e-12)
    assert "gdp" in twice.exact


def test_guarantees_of_windows_designed_together_do_not_add():
    first, second = pc.design_windows(
        pc.plants.vehicle(),
        horizons=[20, 30],
        budget=cases.BUDGET,
        adjacency=cases.POSITION,
    )
    with pytest.raises(ValueError, match="windows_guarantee"):
        first.guarantee + second.guarantee
    with pytest.raises(ValueError, match="keeps its window"):
        second.guarantee.in_window(50)
    assert second.guarantee.scope.window == (20, 50)
    assert (
        "50 samples in all, of which 20 to 49 are published"
        in second.guarantee.explain()
    )


def test_a_further_window_knows_what_the_first_ones_spent():
    larger = pc.PrivacyBudget(epsilon=2.0, delta=1e-2)
    first = cases.vehicle_noise(horizon=40)
    (second,) = pc.design_windows(
        pc.plants.vehicle(),
        horizons=[25],
        budget=larger,
        adjacency=cases.POSITION,
        spent=[first],
    )
    together = pc.windows_guarantee([first, second], adjacency=cases.POSITION)
    assert together.gdp == pytest.approx(
        kappa_inverse(2.0, 1e-2), rel=1e-6
    ) and together.satisfies(larger)
    # position moves are worst at once in both: the rest of the budget is a difference of squares
    left = np.sqrt(kappa_inverse(2.0, 1e-2) ** 2 - ALLOWED**2)
    np.testing.assert_allclose(np.abs(second.factor), [[1 / left], [0.0]], rtol=1e-6)


def test_a_spent_budget_is_refused():
    with pytest.raises(
        pc.PrivacyError,
        match="100 samples already published leave nothing of the budget",
    ):
        pc.design_windows(
            pc.plants.vehicle(),
            horizons=[100],
            budget=cases.BUDGET,
            adjacency=BOTH,
            spent=[cases.vehicle_noise(BOTH)],
        )


def test_windows_of_different_plants_laws_or_adjacencies_are_refused():
    noise = cases.vehicle_noise()
    plant = cases.random_plant(0, states=2, outputs=1)
    other = pc.design_output_noise(
        plant, horizon=5, budget=cases.BUDGET, adjacency=BOTH, max_std=np.inf
    )
    with pytest.raises(ValueError, match="one plant"):
        pc.windows_guarantee([noise, other])
    with pytest.raises(ValueError, match="Gaussian noise about states"):
        pc.windows_guarantee([noise, cases.vehicle_noise(family="laplace")])
    with pytest.raises(ValueError, match="different adjacencies"):
        pc.windows_guarantee(
            [noise, cases.vehicle_noise(pc.StateAdjacency({"position": 2.0}))]
        )
    with pytest.raises(ValueError, match="which times of the whole run"):
        pc.windows_guarantee([cases.vehicle_noise(pc.StateAdjacency(1.0, times=0))] * 2)
    with pytest.raises(pc.NotRealizableError, match="column space"):
        pc.windows_guarantee([noise, noise], adjacency=BOTH)


def test_windows_with_a_white_floor_are_stacked_too():
    plant = pc.plants.vehicle()
    noises = [cases.vehicle_noise(BOTH, horizon=h, floor=2.0) for h in (6, 9)]
    truth = stacked_shift(noises, plant, run_moves(plant, 15))
    assert pc.windows_guarantee(noises).gdp == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("shape", [{}, {"floor": 0.1}])
@pytest.mark.parametrize("at_once", [1, 4])
def test_moves_in_blocks_have_the_shifts_of_all_moves_at_once(
    monkeypatch, shape, at_once
):
    A = np.array([[0.9, 0.2, 0.0], [0.0, 0.8, 0.1], [0.1, 0.0, 0.7]])
    plant = ct.ss(A, np.ones((3, 1)), [[1, 0, 1], [0, 1, 0]], 0, 1, name="mixed")
    secret = pc.StateAdjacency({"x[0]": 1.0, "x[2]": 0.3})
    request = {"budget": cases.BUDGET, "adjacency": secret, "max_std": np.inf, **shape}
    noises = [pc.design_output_noise(plant, horizon=T, **request) for T in (5, 9)]
    whole = pc.windows_guarantee(noises, adjacency=secret).gdp
    monkeypatch.setattr("privcontrol.secrets.adjacency._BALLS_AT_ONCE", at_once)
    assert pc.windows_guarantee(noises, adjacency=secret).gdp == whole
    run = pc.trajectory_manifold(plant, 14)
    moves = secret.moves(run)
    np.testing.assert_array_equal(
        np.array(moves.balls(range(3)), float), secret.moves(run).vectors
    )
    for t in range(14):
        back = np.linalg.inv(np.linalg.matrix_power(A, t))
        expected = back[:, [0, 2]] * [1.0, 0.3]
        np.testing.assert_allclose(
            moves.vectors[:, 2 * t : 2 * t + 2], expected, rtol=1e-9
        )


@pytest.mark.parametrize("lengths", [(3, 3), (2, 4)])
def test_circuits_of_a_run_are_followed_through_its_windows(lengths):
    """Definition 4 over two windows, against dense covariances of both."""
    plant = ct.ss([[1, 0.1], [0, 1]], [[0], [1]], [[1, 0]], 0, 0.1)
    adjacency = pc.StateAdjacency(1.0, charts="all")
    noises = [
        pc.design_output_noise(
            plant, horizon=T, budget=cases.BUDGET, adjacency=BOTH, floor=1.0
        )
        for T in lengths
    ]
    vectors = adjacency.moves(pc.trajectory_manifold(plant, sum(lengths))).vectors
    truth = stacked_shift(noises, plant, vectors)
    together = pc.windows_guarantee(noises, adjacency=adjacency)
    assert together.gdp == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("seed", [46, 50, 62, 78, 132])
def test_windows_meet_their_joint_budget_after_the_last_rounding(seed):
    rng = np.random.default_rng(seed)
    shape = {"states": int(rng.integers(1, 4)), "outputs": int(rng.integers(1, 3))}
    plant = cases.random_plant(seed, **shape)
    budget = pc.PrivacyBudget(gdp=float(rng.uniform(0.1, 3)))  # by up to 3e-10 before
    adjacency = pc.StateAdjacency(1.0)
    horizons = rng.integers(2, 9, rng.integers(2, 4)).tolist()
    windows = pc.design_windows(
        plant, horizons=horizons, budget=budget, adjacency=adjacency
    )
    joint = pc.windows_guarantee(windows, adjacency=adjacency)
    assert joint.satisfies(budget)
    assert joint.gdp > budget.gdp * (1 - 1e-9)


@pytest.mark.parametrize(
    "secret", [pc.StateAdjacency(1.0), pc.InitialStateAdjacency(1.0)]
)
def test_a_sensors_grid_counts_in_every_window(secret):
    """Two readings differ by up to a step more, in every window for itself."""
    plant = pc.plants.vehicle()
    A = np.asarray(plant.A)
    step, floor, lengths = 0.2, 1.0, (3, 4)
    noises = [
        cases.vehicle_noise(secret, horizon=T, floor=floor, resolution=step)
        for T in lengths
    ]
    moves = secret.moves(pc.trajectory_manifold(plant, sum(lengths)))
    left, grids = [], []
    for noise, start in zip(noises, (0, 3)):
        T = noise.horizon
        dense = noise.responses.reshape(T, -1)
        covariance = dense @ dense.T + floor**2 * np.eye(T)
        root = np.linalg.inv(np.linalg.cholesky(covariance))
        stack = oracles.dense_observability(A, plant.C, T)
        left.append(root @ stack @ np.linalg.matrix_power(A, start) @ moves.vectors)
        grids.append(step * np.sqrt(T) / floor)
    if moves.is_ball:
        shift = np.linalg.norm(np.vstack(left), 2)
    else:
        shift = np.linalg.norm(np.vstack(left), axis=0).max()
    expected = shift + np.linalg.norm(grids)
    claimed = pc.windows_guarantee(noises, adjacency=secret)
    assert claimed.gdp == pytest.approx(expected, rel=1e-6)
    assert "gdp" not in claimed.exact


def test_windows_of_many_states_are_decided_without_large_rationals():
    plant = cases.random_plant(0, states=16, outputs=2, radius=0.95)
    secret = pc.StateAdjacency({"s0": 1.0})
    start = time.process_time()
    windows = pc.design_windows(
        plant, horizons=[60, 60], budget=cases.BUDGET, adjacency=secret
    )
    together = pc.windows_guarantee(windows, adjacency=secret)
    assert together.satisfies(cases.BUDGET)
    assert time.process_time() - start < 4


@pytest.mark.parametrize("states", [["s0"], ["s0", "s2"], None])
@pytest.mark.parametrize("horizons", [[30, 30], [2, 30], [30, 2, 2]])
def test_shifts_are_those_of_the_outputs_in_rationals(states, horizons, monkeypatch):
    """Where noise reaches all that outputs tell, and where it is not asked."""
    plant = cases.random_plant(3, states=5, outputs=2, radius=0.95)
    secret = pc.StateAdjacency(1.0, states)
    asked = dict(horizons=horizons, budget=cases.BUDGET, adjacency=secret)
    told = [noise.factor for noise in pc.design_windows(plant, **asked)]
    form = "privcontrol.secrets.hiding.NoiseForm._told"
    monkeypatch.setattr(form, lambda self, model: None)
    slowly = [noise.factor for noise in pc.design_windows(plant, **asked)]
    for left, right in zip(told, slowly):
        np.testing.assert_allclose(left, right, rtol=1e-13)


def test_a_state_that_is_gone_before_a_window_needs_no_noise_in_it():
    A = [[0.5, 0.2, 0.0], [0.1, 0.4, 0.0], [0.0, 0.0, 0.0]]
    plant = ct.ss(A, np.ones((3, 1)), np.ones((1, 3)), 0, 1)
    secret = pc.StateAdjacency({"x[0]": 1.0, "x[2]": 1.0}, times=0)
    budget = pc.PrivacyBudget(gdp=1.0)
    new = pc.design_windows(plant, horizons=[1, 3], budget=budget, adjacency=secret)
    together = pc.windows_guarantee(new, adjacency=secret)
    assert 0.99 < together.gdp <= 1
    assert not new[1].factor[2].any()
