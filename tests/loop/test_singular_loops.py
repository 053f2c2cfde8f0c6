"""Loops whose RN, QN and P0 may be singular, beside filters of many digits and of rationals."""

import warnings
from fractions import Fraction

import control as ct
import flint
import numpy as np
import pytest
from repeats import few
from stress import singular_loops

import privcontrol as pc
from privcontrol.loop.kalman import _is_singular

pytestmark = pytest.mark.filterwarnings("ignore::privcontrol.PrivacyWarning")


def loop_of(seed, **options):
    plant, given = singular_loops.random_loop(seed)
    return pc.private_lqg(plant, **given, **options)


def total(loop):
    cost = loop.cost(**singular_loops.DRAWN)
    return cost.total + cost.terminal


# -- costs and covariances -------------------------------------------------------------


@pytest.mark.parametrize("first", few(range(0, 40, 10), of=1))
def test_random_loops_cost_what_a_filter_of_300_digits_costs(first):
    """More of them: tests/stress/singular_loops.py."""
    seen = 0
    for seed in range(first, first + 10):
        try:
            off, error, _, _ = singular_loops.compared(seed)
        except ValueError as refusal:
            assert "no noise is needed" in str(refusal) or "nothing of them" in str(
                refusal
            )
            continue
        assert max(off, error) <= singular_loops.AGREES
        seen += 1
    assert seen >= 8


@pytest.mark.parametrize(
    "seed, cost",
    [
        (109, 0.01101770898),
        (208, 5615.72524),  # 7.6e64 where ranks were decided by the present rows
        (1238, 0.7443787097),  # its filter makes errors grow 2.57 times a sample
        (1318, 2862.894157),
        (2041, 6.378966729),  # 10,805.6
        (2103, 0.02728504433),
        (4697, 18.9218917326),  # RN of rank two, whose third eigenvalue is 1e-16
    ],
)
def test_what_is_known_exactly_is_not_taken_for_what_is_known_well(seed, cost):
    off, error, claimed, _ = singular_loops.compared(seed)
    assert claimed == pytest.approx(cost, rel=1e-8)
    assert max(off, error) <= singular_loops.AGREES


def rational(array):
    array = np.atleast_2d(array)
    entries = [flint.fmpq(*float(entry).as_integer_ratio()) for entry in array.ravel()]
    return flint.fmpq_mat(*array.shape, entries)


def left_of(variance, cross, readings):
    """Covariance of x given readings, by rational elimination of them one by one."""
    n = variance.nrows()
    size = readings.nrows()
    table = [
        [readings[i, j] for j in range(size)] + [cross[k, i] for k in range(n)]
        for i in range(size)
    ]
    left = [[variance[i, j] for j in range(n)] for i in range(n)]
    for k in range(size):
        pivot = table[k][k]
        if pivot == 0:
            continue
        column = table[k][size:]
        for i in range(n):
            for j in range(n):
                left[i][j] -= column[i] * column[j] / pivot
        for i in range(k + 1, size):
            share = table[i][k] / pivot
            table[i] = [a - share * b for a, b in zip(table[i], table[k])]
    return np.array(
        [[float(Fraction(int(x.p), int(x.q))) for x in row] for row in left]
    )


@pytest.mark.parametrize(
    "P0, QN", [([0, 1], 0), ([0, 1], [0, 0.25]), ([4, 0], 0.5), (0, 1)]
)
def test_the_filter_of_many_digits_is_that_of_rationals(P0, QN):
    """All readings conditioned at once, with ranks that are exact."""
    A = np.array([[0.5, 0.25], [-0.125, 0.75]])
    C = np.array([[1.0, 0.0], [1.0, 2.0]])
    plant = ct.ss(A, [[0], [1]], C, 0, 1.0, states=["a", "b"])
    T = 4
    noise = pc.design_output_noise(
        plant,
        horizon=T,
        adjacency=pc.StateAdjacency({"a": 1.0}, times=0),
        budget=singular_loops.BUDGET,
        models="exact",
    )
    loop = pc.private_lqg(plant, 1, 1, QN, [0, 0.5], noise, P0=P0, terminal=1)
    S = rational(noise.factor)
    rows = rational(C)
    moves = rational(A)
    power = [rational(np.eye(2))]
    for _ in range(T):
        power.append(moves * power[-1])
    variances = [rational(loop.data.design.P0)]
    for _ in range(T):
        ahead = moves * variances[-1] * moves.transpose() + rational(loop.QN)
        variances.append(ahead)
    hidden = S * S.transpose()

    def between(t, s):
        if t < s:
            return between(s, t).transpose()
        return power[t - s] * variances[s]

    for t in range(T):
        blocks = {}
        for i in range(t + 1):
            for j in range(t + 1):
                both = between(i, j) + power[i] * hidden * power[j].transpose()
                blocks[i, j] = rows * both * rows.transpose()
                if i == j:
                    blocks[i, j] += rational(loop.RN)
        size = 2 * (t + 1)
        readings = flint.fmpq_mat(size, size)
        cross = flint.fmpq_mat(2, size)
        for i in range(size):
            seen = between(t, i // 2) * rows.transpose()
            for k in range(2):
                cross[k, i] = seen[k, i % 2]
            for j in range(size):
                readings[i, j] = blocks[i // 2, j // 2][i % 2, j % 2]
        expected = left_of(variances[t], cross, readings)
        np.testing.assert_allclose(loop.estimate_covariance[t], expected, atol=1e-14)
        _, known = singular_loops.truth(loop)
        np.testing.assert_allclose(known[t], expected, atol=1e-14)


def test_a_filter_that_makes_rounding_grow_is_refused():
    """A zero at -5: rounding of what is known exactly grows as 5^t."""
    plant = ct.ss([[0.5, 1], [0, 0.4]], [[1], [1]], [[1, -0.8]], 0, 1.0)
    noise = pc.design_output_noise(
        plant,
        horizon=60,
        adjacency=pc.StateAdjacency({"x[0]": 1.0}, times=0),
        budget=singular_loops.BUDGET,
        models="exact",
    )
    given = {"G": plant.B, "P0": 0, "terminal": 1}
    with pytest.raises(
        pc.UncertifiableError, match="after 17 samples .*rounding errors"
    ):
        pc.private_lqg(plant, 1, 1, 1, 0, noise, **given)
    pc.private_lqg(plant, 1, 1, 1, 1e-12, noise, **given)


@pytest.mark.parametrize("roundings, is_one", [(16, True), (256, False)])
def test_readings_whose_noise_differs_by_64_roundings_are_two(roundings, is_one):
    """Nearer ones carry one noise, and their difference is read exactly."""
    noise = np.array([[1.0, 0.0], [1.0, roundings * np.finfo(float).eps]])
    assert _is_singular(noise) is is_one


# -- bounds ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seed, claimed",
    [(50, 0.0869802), (117, 6.550344), (147, 19635.54674686347), (183, 3.801656)],
)
def test_no_bound_is_above_the_cost_of_a_loop(seed, claimed):
    """It was, with what is told exactly left out: at 117 by 1.2 %."""
    loop = loop_of(seed)
    found = loop.optimality
    assert found.cost == pytest.approx(singular_loops.truth(loop)[0], rel=1e-9)
    assert found.lower_bound <= found.cost
    assert found.gap >= 0
    assert found.excess >= 0
    if seed != 147:
        assert found.lower_bound < claimed * (1 - 1e-3)
    best = loop_of(seed, codesign=True)
    assert found.lower_bound <= total(best) * (1 + 1e-9) <= total(loop) * (1 + 2e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [117, 10, 15])
def test_no_other_noise_costs_less_than_the_bound_of_a_singular_loop(seed):
    loop = loop_of(seed)
    request = loop.noise.request
    lower = loop.optimality.lower_bound
    rng = np.random.default_rng(seed)
    columns = loop.noise.factor.shape[1]
    costs = []
    for k in range(25):
        turn = rng.normal(size=(columns, columns))
        if k % 2:
            turn = np.eye(columns) + 0.1 * turn
        other = pc.design_output_noise(
            loop.plant,
            horizon=request.horizon,
            adjacency=request.adjacency,
            budget=request.budget,
            models="exact",
            max_std=np.inf,
            factor=loop.noise.factor @ turn,
        )
        costs.append(total(loop.with_noise(other)))
    assert min(costs) >= lower * (1 - 1e-9)


def of_second_state(plant):
    return pc.design_output_noise(
        plant,
        horizon=10,
        adjacency=pc.StateAdjacency({"b": 1.0}, times=0),
        budget=singular_loops.BUDGET,
        models="exact",
    )


def test_a_run_asks_for_no_filter_in_steady_state():
    """A mode on the unit circle that nothing excites has none: 38 of 293 random loops."""
    plant = ct.ss(np.diag([1.0, 0.5]), np.eye(2), [[1, 1]], 0, 1.0, states=["a", "b"])
    noise = of_second_state(plant)
    loop = pc.private_lqg(plant, 1, 1, [0, 1], 0.1, noise, P0=1, terminal=0)
    assert 0 <= loop.optimality.gap < 1e-6


def test_noise_that_costs_nothing_has_no_gap():
    room = ct.ss(
        0.9, [[1, 0.1]], 1, 0, 300.0, states=["air"], inputs=["heat", "people"]
    )
    budget = singular_loops.BUDGET
    people = pc.DisturbanceAdjacency({"people": 1.0})
    weights = {"Q": 0, "R": 1, "QN": 1e-2, "RN": 1e-2, "controls": ["heat"]}
    for horizon, prior in ((np.inf, {}), (8, {"P0": 1.0})):
        noise = pc.design_output_noise(
            room, horizon=horizon, adjacency=people, budget=budget
        )
        found = pc.private_lqg(room, **weights, noise=noise, **prior).optimality
        assert (found.cost, found.lower_bound, found.gap) == (0, 0, 0)


def test_margins_hold_where_readings_tell_the_noise_exactly():
    """P(some t above the margin) of 2,000 runs, with what is told exactly at t = 0."""
    plant = ct.ss(
        [[0.9, 0.2], [0, 0.8]], [[0], [1]], np.eye(2), 0, 1.0, states=["a", "b"]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noise = pc.design_output_noise(
            plant,
            horizon=20,
            budget=singular_loops.BUDGET,
            adjacency=pc.StateAdjacency({"a": 1.0, "b": 0.5}, times=0),
            models="exact",
        )
        loop = pc.private_lqg(plant, 1, 1, [1e-3, 0], 0, noise, P0=[4, 0])
    margins = loop.margins([1, 0], probability=0.1)
    run = loop.simulate(trials=2000, rng=0, **singular_loops.DRAWN)
    states = np.asarray(run.states)
    errors = np.abs(states[0] - states[2])
    assert (errors > margins + 1e-9).any(axis=1).mean() <= 0.1 + 3 * np.sqrt(
        0.09 / 2000
    )
    assert (errors > 0.5 * margins).any(axis=1).mean() > 0.1


# -- loops without noise ---------------------------------------------------------------


def conditioned(loop, T):
    """Error covariances after the reading at t, of a plant without singular data."""
    A, C = loop.plant.A, loop.plant.C
    spread = loop.data.design.P0
    found = []
    for _ in range(T):
        gain = spread @ C.T @ np.linalg.inv(C @ spread @ C.T + loop.RN)
        found.append(spread - gain @ C @ spread)
        spread = A @ found[-1] @ A.T + loop.QN
    return np.array(found)


def test_a_loop_without_noise_knows_its_errors_and_its_horizon():
    vehicle = pc.plants.vehicle()
    weights = {"Q": 1, "R": 5, "QN": [1e-4, 1e-2], "RN": 1e-2}
    noise = pc.design_output_noise(
        vehicle,
        horizon=60,
        adjacency=pc.StateAdjacency({"position": 1.0}),
        budget=singular_loops.BUDGET,
        models="exact",
    )
    loop = pc.private_lqg(vehicle, **weights, P0=4.0, terminal=0, horizon=60)
    bare = pc.private_lqg(vehicle, **weights, noise=noise, P0=4.0, terminal=0)
    for quiet in (loop, bare.with_noise(None)):
        cost = quiet.cost(**singular_loops.DRAWN)
        assert cost.total == pytest.approx(371.84, rel=2e-5)
        assert quiet.K.shape == (60, 1, 2)
        np.testing.assert_allclose(
            quiet.estimate_covariance, conditioned(quiet, 60), rtol=1e-9
        )
        assert quiet.margins([1, 0], probability=0.01).shape == (60,)
    settled = pc.private_lqg(vehicle, **weights)
    expected = conditioned(loop, 400)[-1]
    np.testing.assert_allclose(settled.estimate_covariance, expected, rtol=1e-6)
    ahead = vehicle.A @ expected @ vehicle.A.T + loop.QN
    np.testing.assert_allclose(settled.prediction_covariance, ahead, rtol=1e-6)
    with pytest.raises(ValueError, match="no horizon; pass the time points"):
        settled.cost(**singular_loops.DRAWN)


def test_a_loop_without_noise_keeps_its_horizon_in_a_file(tmp_path):
    vehicle = pc.plants.vehicle()
    loop = pc.private_lqg(vehicle, 1, 5, 1e-2, 1e-2, P0=4.0, terminal=0, horizon=9)
    loop.save(tmp_path / "loop.json")
    loaded = pc.load(tmp_path / "loop.json")
    assert loaded.cost(**singular_loops.DRAWN) == loop.cost(**singular_loops.DRAWN)


def test_a_horizon_is_one_of_a_run_without_noise_and_with_a_prior():
    vehicle = pc.plants.vehicle()
    noise = pc.design_output_noise(
        vehicle,
        horizon=60,
        adjacency=pc.StateAdjacency({"position": 1.0}),
        budget=singular_loops.BUDGET,
    )
    with pytest.raises(ValueError, match="the noise has 60 samples, got 50"):
        pc.private_lqg(vehicle, 1, 1, 1, 1, noise, P0=1, horizon=50)
    with pytest.raises(ValueError, match="runs of any length; pass P0"):
        pc.private_lqg(vehicle, 1, 1, 1, 1, horizon=50)


def test_a_run_needs_no_stabilising_gain_and_the_error_says_so():
    plant = ct.ss(np.diag([1.0, 0.5]), [[0], [1]], [[1, 1]], 0, 1.0, states=["a", "b"])
    noise = of_second_state(plant)
    given = {"noise": noise, "P0": 1}
    with pytest.raises(ValueError, match="do not reach the mode .* pass terminal=0"):
        pc.private_lqg(plant, 1, 1, 0.1, 0.1, **given)
    loop = pc.private_lqg(plant, 1, 1, 0.1, 0.1, terminal=0, **given)
    assert total(loop) == pytest.approx(singular_loops.truth(loop)[0], rel=1e-12)
    assert 0 <= loop.optimality.gap < 1e-6
    assert total(loop.with_noise(None)) < total(loop)
