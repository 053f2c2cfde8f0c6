"""Loops around nonlinear plants: simulated by hand, and refused where nothing is known."""

import pickle
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import control as ct
import numpy as np
import pytest
from nonlinear_cases import TANK_REGION, tank
from scipy.optimize import brentq
from scipy.stats import binom

import privcontrol as pc
from privcontrol.noise.process import promising

LIMITS = [[2.5, 3.5], [2.5, 3.5]]


def private_noise(box, secret, horizon=30, **keywords):
    return pc.design_output_noise(
        box.nominal,
        horizon=horizon,
        budget=pc.PrivacyBudget(gdp=1.0),
        adjacency=pc.StateAdjacency(secret, times=0),
        family="iid-gaussian",
        models=box,
        **keywords,
    )


@pytest.fixture(scope="module")
def plant():
    return tank()


@pytest.fixture(scope="module")
def box(plant):
    splits = {"h1": 2, "h2": 2, "h3": 2, "h4": 2}
    return pc.jacobian_polytope(plant, TANK_REGION, splits=splits)


@pytest.fixture(scope="module")
def noise(box):
    return private_noise(box, {"h1": 0.1})


@pytest.fixture(scope="module")
def point(plant):
    return ct.find_operating_point(plant, [12, 12, 1.6, 1.4], [3.0, 3.0])


@pytest.fixture(scope="module")
def loop(plant, noise, point):
    pi = ct.ss(ct.tf([0.6, -0.5], [1, -1], 5.0))
    return pc.private_feedback(plant, ct.append(pi, pi), noise, operating_point=point)


def test_plant_and_controller_of_a_trial_agree_with_steps_by_hand(loop, plant, point):
    response = loop.simulate(reference=[0.2, -0.2], trials=3, rng=0, saturation=LIMITS)
    pi = ct.ss(ct.tf([0.6, -0.5], [1, -1], 5.0))
    for k in range(3):
        published = response.outputs[:2, k]
        inputs = response.outputs[2:, k]
        states = response.states[:4, k]
        assert states[:, 0] == pytest.approx(point.states)
        for t in range(29):
            after = plant.dynamics(0, states[:, t], inputs[:, t])
            np.testing.assert_allclose(states[:, t + 1], after, rtol=1e-12)
        errors = (
            np.array([[0.2], [-0.2]]) - published + np.array(point.outputs)[:, None]
        )
        for i in range(2):
            asked = ct.forced_response(pi, response.t, errors[i]).outputs
            expected = np.clip(point.inputs[i] + asked, 2.5, 3.5)
            np.testing.assert_allclose(inputs[i], expected, atol=1e-9)
        gamma = published - np.array([plant.output(0, x, [0, 0]) for x in states.T]).T
        assert 0.2 < np.std(gamma) / loop.noise.std.max() < 5


def test_a_linear_function_is_simulated_as_the_linear_plant():
    A, B, C = np.array([[0.9, 0.1], [0.0, 0.8]]), np.array([[0.0], [1.0]]), [1.0, 0.0]
    names = dict(states=["level", "valve"], inputs=["u"], outputs=["y"], dt=1.0)
    linear = ct.ss(A, B, [C], 0, **names)
    sys = ct.nlsys(lambda t, x, u, p: A @ x + B @ u, lambda t, x, u, p: x[:1], **names)
    box = pc.jacobian_polytope(sys, {"level": (-9, 9)})
    noise = private_noise(box, {"level": 0.1}, horizon=20)
    K, L = [[0.1, 0.2]], [[0.3], [0.1]]
    exact = pc.design_output_noise(
        linear,
        horizon=20,
        budget=pc.PrivacyBudget(gdp=1.0),
        adjacency=pc.StateAdjacency({"level": 0.1}, times=0),
        family="iid-gaussian",
    ).with_std(float(noise.std[0]))
    run = dict(initial_state=[1.0, 0.5], reference=[0.3, 0.1], feedforward=[0.2])
    run |= dict(trials=40, rng=3, measurement_noise=np.full((1, 20), 0.1))
    run |= dict(disturbance=np.full((2, 20), 0.01))
    nonlinear = pc.private_loop(sys, K, L, noise).simulate(**run)
    expected = pc.private_loop(linear, K, L, exact).simulate(**run)
    np.testing.assert_allclose(nonlinear.states, expected.states, atol=1e-9)
    np.testing.assert_allclose(nonlinear.outputs, expected.outputs, atol=1e-9)
    assert nonlinear.mse()["level"][-1] == pytest.approx(expected.mse()["level"][-1])


def _stable(t, x, u, params):
    return [0.9 * x[0] + 0.05 * np.tanh(x[0]) + u[0]]


def _stubborn(t, x, u, params):
    """The same function for one trial at a time."""
    if x[0] < -1e9:
        return [0.0]
    return [0.9 * x[0] + 0.05 * np.tanh(np.max(x)) + u[0]]


def _mixing(t, x, u, params):
    """The same function for one trial; columns of trials would be mixed."""
    return [0.9 * x[0] + 0.05 * np.tanh(np.mean(x)) + u[0]]


def _scalar_loop(rates, trials=60):
    names = dict(states=["a"], inputs=["u"], outputs=["a"], dt=1.0)
    sys = ct.nlsys(rates, None, **names)
    box = pc.jacobian_polytope(sys, {"a": (-50, 50), "u": (-5, 5)})
    noise = private_noise(box, {"a": 0.1}, horizon=12)
    loop = pc.private_loop(sys, [[0.2]], [[0.5]], noise)
    return loop.simulate(initial_state=[1.0], trials=trials, rng=1)


def test_functions_of_one_trial_at_a_time_give_the_same_numbers():
    together = _scalar_loop(_stable)
    for other in (_stubborn, _mixing):
        np.testing.assert_allclose(
            _scalar_loop(other).states, together.states, atol=1e-12
        )


def test_fewer_trials_are_the_first_ones_and_executors_change_nothing(loop):
    keywords = dict(rng=5, saturation=LIMITS)
    many = loop.simulate(trials=40, **keywords)
    few = loop.simulate(trials=7, **keywords)
    assert np.array_equal(few.states, many.states[:, :7])
    again = pickle.loads(pickle.dumps(loop))
    with ProcessPoolExecutor(1) as executor:
        other = again.simulate(trials=7, executor=executor, **keywords)
    assert np.array_equal(other.outputs, few.outputs)


def test_trials_that_leave_the_region_are_counted_and_warned_of(loop, box):
    with warnings.catch_warnings():
        warnings.simplefilter("error", pc.PrivacyWarning)
        inside = loop.simulate(trials=50, rng=0, saturation=LIMITS)
    assert box.invariant
    assert not inside.left_region.any()
    with pytest.warns(pc.PrivacyWarning, match="trials left the region"):
        free = loop.simulate(reference=[0.5, 0.5], trials=50, rng=0)
    low, high = box.region.low[:, None, None], box.region.high[:, None, None]
    signals = np.concatenate([free.states[:4], free.outputs[2:]])
    left = ((signals < low) | (signals > high)).any(axis=(0, 2))
    assert left.any()
    np.testing.assert_array_equal(free.left_region, left)
    counted = replace(loop.noise.request, region=replace(box, miss=left.mean()))
    noise = promising(loop.noise, request=counted)
    stated = loop.with_noise(noise)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pc.PrivacyWarning)
        stated.simulate(reference=[0.5, 0.5], trials=50, rng=0)


@pytest.mark.parametrize("chance, warned", [(0.02, False), (0.005, True)])
def test_more_runs_outside_than_one_in_a_hundred_sees_are_warned_of(
    loop, box, chance, warned
):
    """So many of 50 runs leave the region with this chance, if the stated one holds."""

    def simulated(stated):
        return stated.simulate(reference=[0.5, 0.5], trials=50, rng=0)

    with warnings.catch_warnings(record=True):
        left = int(simulated(loop).left_region.sum())
    miss = brentq(lambda p: binom.sf(left - 1, 50, p) - chance, 1e-9, 1 - 1e-9)
    counted = replace(loop.noise.request, region=replace(box, miss=miss))
    with warnings.catch_warnings(record=True) as said:
        simulated(loop.with_noise(promising(loop.noise, request=counted)))
    assert any("left the region" in str(one.message) for one in said) == warned


def test_the_guarantee_says_where_it_holds(loop):
    text = " ".join(loop.guarantee.explain().split())
    assert "both runs start in h1 7.6..18.5 cm" in text
    assert "v1 2.5..3.5 V" in text
    assert "certified by interval arithmetic" in text
    assert "rk4, 1 step a sample" in text


def test_a_thousand_trials_take_seconds(loop):
    began = time.process_time()
    loop.simulate(trials=1000, rng=0, saturation=LIMITS)
    assert time.process_time() - began < 20


def test_exogenous_inputs_act_on_the_plant_itself(plant, box, point):
    noise = private_noise(box, {"h1": 0.1}, horizon=10)
    gain = ct.ss([], [], [], [[-0.1, 0.0]], 5.0)
    loop = pc.private_loop(
        plant, controller=gain, controls=["v1"], noise=noise, operating_point=point
    )
    pump = np.linspace(2.6, 3.4, 10)
    response = loop.simulate(exogenous={"v2": pump}, trials=2, rng=0)
    u = np.array([response.outputs[2, 1], pump])
    for t in range(9):
        after = plant.dynamics(0, response.states[:4, 1, t], u[:, t])
        np.testing.assert_allclose(response.states[:4, 1, t + 1], after, rtol=1e-12)


def test_what_is_not_known_of_a_nonlinear_plant_is_refused(loop, plant, box, tmp_path):
    for call in (loop.mean_square_error, loop.cost, loop.steady_state_cost):
        with pytest.raises(ValueError, match="moments are those of a linear plant"):
            call()
    with pytest.raises(ValueError, match="cannot be written"):
        loop.save(tmp_path / "loop.json")
    with pytest.raises(ValueError, match="best linear estimate is one of a linear"):
        pc.eavesdropper(loop)
    with pytest.raises(ValueError, match="around a linear plant"):
        loop.simulate(controller=lambda t, xhat, xd: xhat[:2])
    linear_noise = pc.design_output_noise(
        box.nominal,
        horizon=30,
        budget=pc.PrivacyBudget(gdp=1.0),
        adjacency=pc.StateAdjacency({"h1": 0.1}, times=0),
        family="iid-gaussian",
    )
    gain = np.zeros((2, 2))
    with pytest.raises(ValueError, match="hides nothing of this nonlinear plant"):
        pc.private_feedback(plant, gain, linear_noise)
    with pytest.raises(ValueError, match="hides nothing of this nonlinear plant"):
        pc.private_feedback(tank(5.0), gain, linear_noise)
    with pytest.raises(ValueError, match="hides nothing of this nonlinear plant"):
        loop.with_noise(linear_noise)
    with pytest.raises(TypeError, match="needs noise"):
        pc.private_feedback(plant, gain)
    with pytest.raises(TypeError, match="belongs to a nonlinear plant"):
        pc.private_loop(
            pc.plants.vehicle(), [[1, 1]], [[1], [1]], operating_point=([0, 0], [0])
        )
    with pytest.raises(
        ct.ControlDimension, match=r"operating_point inputs: expected shape \(2,\)"
    ):
        pc.private_feedback(plant, gain, loop.noise, operating_point=([1] * 4, [3.0]))


def test_noise_of_a_file_keeps_its_claim_without_the_functions(noise, plant, tmp_path):
    noise.save(tmp_path / "noise.json")
    loaded = pc.load(tmp_path / "noise.json")
    assert loaded == noise
    assert loaded.guarantee == noise.guarantee
    assert loaded.request.region.region == noise.request.region.region
    with pytest.raises(ValueError, match="file holds no functions"):
        pc.private_feedback(plant, np.zeros((2, 2)), loaded)


def test_another_function_is_another_plant(noise):
    """Noise for one nonlinear plant hides nothing of one with other functions."""
    with pytest.raises(ValueError, match="hides nothing of this nonlinear plant"):
        pc.private_feedback(tank(5.0).__class__(
            lambda t, x, u, p: x, lambda t, x, u, p: x[:2], states=["h1", "h2", "h3", "h4"],
            inputs=["v1", "v2"], outputs=["y1", "y2"], dt=5.0,
        ), np.zeros((2, 2)), noise)  # fmt: skip


def test_an_output_that_reads_its_own_input_is_refused():
    def reads(t, x, u, params):
        return [x[0] + 0.1 * u[0]]

    names = dict(states=["a"], inputs=["u"], outputs=["y"], dt=1.0)
    sys = ct.nlsys(_stable, reads, **names)
    box = pc.jacobian_polytope(sys, {"a": (-5, 5)})
    noise = private_noise(box, {"a": 0.1}, horizon=5)
    with pytest.raises(ValueError, match="delay that input"):
        pc.private_loop(sys, [[0.1]], [[0.1]], noise)


def test_what_the_function_raises_shows_no_state():
    def rates(t, x, u, params):
        if x[0] > 3.0:
            raise RuntimeError(f"the level is {x[0]}")
        return [1.5 * x[0]]

    names = dict(states=["a"], inputs=["u"], outputs=["a"], dt=1.0)
    sys = ct.nlsys(rates, None, **names)
    bounds = {"A": (0.5, 0.5), "B": (0, 0), "C": (1, 1), "D": (0, 0)}
    box = pc.jacobian_polytope(sys, {"a": (-1, 1)}, bounds=bounds)
    noise = private_noise(box, {"a": 0.1}, horizon=8)
    loop = pc.private_loop(sys, [[0.0]], [[0.1]], noise)
    with pytest.raises(RuntimeError, match="raised RuntimeError at t = ") as caught:
        loop.simulate(initial_state=[1.0], rng=0)
    assert "level" not in str(caught.value)
    assert caught.value.__cause__ is None
