"""Loops of any linear controller: exact moments against trials, python-control's own simulation, and refusals."""

import datetime
import json
import pickle
import re
import warnings
from dataclasses import replace

import cases
import control as ct
import numpy as np
import pytest
import scipy.linalg
from repeats import few

import privcontrol as pc

BUDGET = cases.BUDGET


def noise_for(plant, secret, horizon, **options):
    return pc.design_output_noise(
        plant, horizon=horizon, budget=BUDGET, adjacency=secret, **options
    )


def dc_motor_with_pid():
    """Speed of a DC motor under a discrete PID controller with a filtered derivative."""
    motor = ct.ss([[-10, 1], [-0.02, -2]], [[0], [2]], [[1, 0]], 0).sample(0.05)
    motor = ct.ss(
        motor, states=["speed", "current"], inputs=["voltage"], outputs=["tacho"]
    )
    z = ct.tf([1, 0], [1], 0.05)
    pid = 8 + 12 * 0.05 / (z - 1) + 0.2 * (z - 1) / (0.05 * (z - 0.5))
    secret = pc.StateAdjacency({"speed": 0.5}, times=0)
    noise = noise_for(motor, secret, 60, family="iid-gaussian")
    loop = pc.private_feedback(
        motor, pid, noise, QN=1e-3, RN=1e-2, Q=1, R=1e-3, name="motor"
    )
    return loop, {"reference": [2.0], "target": [2.0, 0.0]}


def f16_with_h_infinity():
    """Short-period motion of an F-16 (Stevens and Lewis, section 3.7) under an H-infinity controller."""
    A = np.array([[-1.01887, 0.90506], [0.82225, -1.07741]])
    B = np.array([[-0.00215], [-0.17555]])
    C = np.diag([57.2958, 57.2958])
    aircraft = ct.ss(A, B, C, 0)
    generalised = ct.ss(
        A,
        np.hstack([0.1 * np.eye(2), np.zeros((2, 2)), B]),
        np.vstack([np.eye(2), np.zeros((1, 2)), C]),
        np.block(
            [
                [np.zeros((2, 5))],
                [np.zeros((1, 4)), 0.05],
                [np.zeros((2, 2)), 0.5 * np.eye(2), np.zeros((2, 1))],
            ]
        ),
    )
    K, *_ = ct.hinfsyn(generalised, 2, 1)
    plant = ct.ss(
        aircraft.sample(0.02),
        states=["alpha", "q"],
        inputs=["elevator"],
        outputs=["alpha_deg", "q_deg"],
    )
    controller = K.sample(0.02)
    controller = ct.ss(controller.A, controller.B, controller.C, 0, 0.02)
    secret = pc.StateAdjacency({"alpha": 0.02}, times=0)
    noise = noise_for(plant, secret, 80)
    loop = pc.private_loop(
        plant, controller=controller, noise=noise, QN=1e-6, RN=1e-2, Q=1, R=1e-3
    )
    return loop, {}


def quadruple_tank_with_integral_action():
    """Johansson's quadruple tank around its minimum-phase point, levels one and two held by LQG with integral action."""
    T = [62.0, 90.0, 23.0, 30.0]
    A = np.diag([-1 / t for t in T])
    A[0, 2], A[1, 3] = 28 / (32 * T[2]), 32 / (28 * T[3])
    B = np.array([[0.083, 0], [0, 0.063], [0, 0.048], [0.031, 0]])
    C = 0.5 * np.eye(2, 4)
    tanks = ct.ss(A, B, C, 0).sample(5.0)
    plant = ct.ss(
        tanks,
        states=["h1", "h2", "h3", "h4"],
        inputs=["pump1", "pump2"],
        outputs=["level1", "level2"],
    )
    noise = noise_for(plant, pc.StateAdjacency({"h1": 0.5}, times=0), 80)
    loop = pc.private_lqg(
        plant, 1, 0.1, 1e-3, 1e-3, noise, integral={"level1": 0.05, "level2": 0.05}
    )
    return loop, {"reference": [1.0, 0.5], "target": [2.0, 1.0, 0, 0]}


LOOPS = {
    "PID": dc_motor_with_pid,
    "H-infinity": f16_with_h_infinity,
    "integral": quadruple_tank_with_integral_action,
}
DRAWN = {"disturbance": "design", "measurement_noise": "design"}


@pytest.fixture(scope="module", params=LOOPS)
def case(request):
    if request.param == "H-infinity":
        pytest.importorskip("slycot")
    return LOOPS[request.param]()


@pytest.mark.parametrize("options", few([DRAWN, {}], of=1))
def test_exact_errors_agree_with_20_000_trials_and_see_noise_ten_percent_off(
    case, options
):
    loop, given = case
    start = np.linspace(0.1, 0.2, loop.plant.nstates)
    signals = {"initial_state": start, **options}
    simulated = {key: value for key, value in given.items() if key != "target"}
    response = loop.simulate(trials=20_000, rng=3, **simulated, **signals)
    target = np.zeros(loop.plant.nstates)
    target[:] = given.get("target", target)
    states = np.asarray(response.states[: loop.plant.nstates])
    squares = (states - target[:, None, None]) ** 2
    error = squares.std(axis=1) / np.sqrt(squares.shape[1])
    exact = loop.mean_square_error(**given, **signals)
    slack = 1e-12 * np.abs(exact).max()
    assert np.all(np.abs(squares.mean(axis=1) - exact) <= 5 * error + slack)
    spread = states.var(axis=1)
    wrong = np.abs(squares.mean(axis=1) - exact - 0.21 * spread)
    assert (wrong > 5 * error).any()


def test_the_system_simulates_every_trial_as_forced_response_does(case):
    loop, given = case
    start = np.linspace(0.1, 0.2, loop.plant.nstates)
    simulated = {key: value for key, value in given.items() if key != "target"}
    response = loop.simulate(initial_state=start, trials=3, rng=1, **simulated)
    system = loop.system
    whole = np.zeros(system.nstates)
    whole[: loop.plant.nstates] = start
    for k in (0, 2):
        drives = np.asarray(response.inputs[:, k])
        again = ct.forced_response(system, response.time, drives, whole)
        own = loop.closed_loop.nstates
        for expected, got in (
            (again.outputs, response.outputs[:, k]),
            (again.states[:own], response.states[:, k]),
        ):
            for signal, mine in zip(expected, np.asarray(got)):
                error = np.abs(mine - signal).max()
                assert error <= 1e-12 * np.abs(signal).max()
    assert system.input_labels == response.input_labels
    assert system.output_labels == response.output_labels


def test_cost_is_the_mean_over_trials_of_each_trials_cost(case):
    loop, given = case
    simulated = {key: value for key, value in given.items() if key != "target"}
    n, p = loop.plant.nstates, len(loop.plant.C)
    response = loop.simulate(trials=20_000, rng=8, **simulated, **DRAWN)
    target = np.zeros(n)
    target[:] = given.get("target", target)
    e = np.asarray(response.states)[:n] - target[:, None, None]
    u = np.asarray(response.outputs)[p:]
    totals = np.einsum("ikt,ij,jkt->k", e, loop.Q, e)
    totals += np.einsum("ikt,ij,jkt->k", u, loop.R, u)
    error = totals.std() / np.sqrt(len(totals))
    cost = loop.cost(**given, **DRAWN)
    assert abs(totals.mean() - cost.total) < 5 * error
    assert cost.total == cost.regulation + cost.disturbance + cost.privacy


def test_feedback_of_plant_and_controller_has_the_same_poles(case):
    loop, _ = case
    plant = ct.ss(loop.plant.A, loop.plant.B, loop.plant.C, loop.plant.D, loop.plant.dt)
    published = loop.controller[:, : len(loop.plant.C)]
    whole = ct.feedback(plant, published, 1)
    np.testing.assert_allclose(
        np.sort_complex(whole.poles()), np.sort_complex(loop.poles()), atol=1e-6
    )


def test_a_loop_pickles_and_keeps_its_controller(case):
    loop, given = case
    again = pickle.loads(pickle.dumps(loop))
    np.testing.assert_array_equal(
        again.mean_square_error(**given), loop.mean_square_error(**given)
    )


@pytest.mark.parametrize("form", ["predictor", "filter"])
@pytest.mark.parametrize("feedthrough", [False, True])
def test_an_observer_given_as_a_controller_makes_the_same_loop(form, feedthrough):
    plant = cases.random_plant(4, states=3, feedthrough=feedthrough)
    if feedthrough and form == "filter":
        pytest.skip("u(t) and yhat(t) depend on each other: refused as a controller")
    secret = pc.StateAdjacency({"s0": 1.0}, times=0)
    noise = noise_for(plant, secret, 10)
    loop = pc.private_lqg(plant, 1, 1, 0.1, 0.1, noise, form=form)
    given = pc.private_loop(plant, controller=loop.controller, noise=noise, Q=1, R=1)
    start = [1.0, -1.0, 0.5]
    np.testing.assert_allclose(
        given.mean_square_error(initial_state=start),
        loop.mean_square_error(initial_state=start),
        rtol=1e-9,
    )
    np.testing.assert_allclose(
        given.noise_weight(10)(np.eye(20)).T @ given.noise_weight(10)(np.eye(20)),
        loop.noise_weight(10)(np.eye(20)).T @ loop.noise_weight(10)(np.eye(20)),
        atol=1e-9,
    )


def test_integral_action_holds_its_outputs_at_their_references():
    loop = quadruple_tank_with_integral_action()[0]
    quiet = loop.with_noise(None)
    system = quiet.closed_loop
    levels = system.dcgain()[:2, :2]  # from references to published levels
    np.testing.assert_allclose(levels, np.eye(2), atol=1e-9)
    assert loop.K.shape == (2, 6)
    assert loop.data.law.tracked == (0, 1)


def test_private_feedback_is_the_feedback_of_python_control():
    loop, _ = dc_motor_with_pid()
    motor = ct.ss(loop.plant.A, loop.plant.B, loop.plant.C, loop.plant.D, loop.plant.dt)
    z = ct.tf([1, 0], [1], 0.05)
    pid = 8 + 12 * 0.05 / (z - 1) + 0.2 * (z - 1) / (0.05 * (z - 0.5))
    whole = ct.feedback(motor * ct.ss(pid), 1)
    times = loop.noise.timepts
    expected = ct.forced_response(whole, times, np.ones(len(times))).outputs
    system = loop.closed_loop
    drives = np.vstack([np.ones(len(times)), np.zeros(len(times))])
    got = ct.forced_response(system, times, drives).outputs[0]
    np.testing.assert_allclose(got, expected, atol=1e-10)
    positive = pc.private_feedback(motor, -pid, sign=1)
    np.testing.assert_allclose(
        np.sort_complex(positive.poles()), np.sort_complex(loop.poles()), atol=1e-8
    )


def vehicle_with_load():
    vehicle = pc.plants.vehicle()
    plant = ct.ss(
        vehicle.A,
        np.hstack([vehicle.B, [[0], [1]]]),
        vehicle.C,
        [[0.0, 0.3]],
        0.1,
        inputs=["u", "load"],
    )
    secret = pc.DisturbanceAdjacency({"load": 0.05})
    return plant, noise_for(plant, secret, 20)


def test_exogenous_inputs_enter_by_name_and_are_not_published():
    plant, noise = vehicle_with_load()
    loop = pc.private_lqg(plant, 1, 1, 0.1, 0.1, noise, controls=["u"])
    load = np.random.default_rng(0).normal(size=20)
    by_name = loop.simulate(exogenous={"load": load}, trials=3, rng=0)
    smuggled = loop.simulate(
        disturbance=plant.B[:, [1]] * load,
        measurement_noise=plant.D[:, [1]] * load,
        trials=3,
        rng=0,
    )
    np.testing.assert_allclose(by_name.states, smuggled.states, atol=1e-12)
    np.testing.assert_allclose(by_name.outputs, smuggled.outputs, atol=1e-12)
    assert by_name.output_labels == ["yhat[0]", "u"]
    assert loop.system.input_labels[3] == "load"
    again = ct.forced_response(
        loop.system,
        by_name.time,
        np.asarray(by_name.inputs[:, 1]),
        np.zeros(loop.system.nstates),
    )
    np.testing.assert_allclose(again.outputs, by_name.outputs[:, 1], atol=1e-11)
    np.testing.assert_allclose(
        loop.mean_square_error(exogenous={"load": load}),
        loop.mean_square_error(
            disturbance=plant.B[:, [1]] * load, measurement_noise=plant.D[:, [1]] * load
        ),
        rtol=1e-10,
        atol=1e-14,
    )
    each = np.stack([load, 2 * load, 0 * load])
    many = loop.simulate(exogenous={"load": each}, trials=3, rng=0)
    np.testing.assert_allclose(
        many.states[:, 0], by_name.states[:, 0], rtol=1e-13, atol=1e-13
    )
    assert loop.K.shape == (1, 2)
    assert loop.R.shape == (1, 1)


def test_saturated_inputs_are_published_and_an_observer_knows_them():
    noise = cases.vehicle_noise()
    loop = cases.vehicle_loop(noise)
    free = loop.simulate(initial_state=[-20, 0], trials=40, rng=0)
    assert np.abs(free.outputs["u"]).max() > 3
    held = loop.simulate(initial_state=[-20, 0], trials=40, rng=0, saturation=3.0)
    assert np.abs(held.outputs["u"]).max() == 3.0
    between = loop.simulate(
        initial_state=[-20, 0], trials=40, rng=0, saturation=[[-1.0, 2.0]]
    )
    assert (between.outputs["u"].min(), between.outputs["u"].max()) == (-1.0, 2.0)
    wide = loop.simulate(initial_state=[-20, 0], trials=40, rng=0, saturation=1e9)
    np.testing.assert_allclose(wide.states, free.states, atol=1e-9)
    # Plant and observer, written down: both move with the input that acts.
    A, B, C = loop.plant.A, loop.plant.B, loop.plant.C
    x, xhat = np.array([-20.0, 0]), np.zeros(2)
    gamma = np.asarray(held.outputs["yhat[0]", 0]) - (
        C @ np.asarray(held.states[:2, 0])
    )
    for t in range(100):
        np.testing.assert_allclose(held.states[:2, 0, t], x, atol=1e-9)
        u = np.clip(-loop.K @ xhat, -3, 3)
        innovation = C @ x + gamma[:, t] - C @ xhat
        x, xhat = A @ x + B @ u, A @ xhat + B @ u + loop.L @ innovation


def test_systems_of_python_control_are_taken():
    vehicle = pc.plants.vehicle()
    noise = cases.vehicle_noise(horizon=40)
    K = np.array([[1.0, 1.5]])
    QN, RN = np.eye(1), np.eye(1)
    settled = ct.dlqe(vehicle.A, vehicle.B, vehicle.C, QN, RN)[1]
    estimator = ct.create_estimator_iosystem(
        vehicle, QN, RN, P0=settled, measurement_labels=["y"], name="estimator"
    )
    feedback, _ = ct.create_statefbk_iosystem(
        vehicle, K, estimator=estimator, name="feedback"
    )
    cloud = ct.interconnect(
        [estimator, feedback],
        inputs=["xd[0]", "xd[1]", "ud[0]", "y"],
        outputs=["u"],
        dt=0.1,
    )
    loop = pc.private_loop(vehicle, controller=cloud, noise=noise)
    L = ct.dlqe(vehicle.A, vehicle.B, vehicle.C, QN, RN)[0]
    same = pc.private_loop(vehicle, K, L, noise)
    np.testing.assert_allclose(
        loop.mean_square_error(initial_state=[1.0, 0.0]),
        same.mean_square_error(initial_state=[1.0, 0.0]),
        rtol=1e-6,
    )
    chained = ct.interconnect(
        [
            ct.ss(0.5, 1, 1, 0, 0.1, inputs=["u"], outputs=["force"], name="actuator"),
            ct.ss(0.9, 1, 1, 0, 0.1, inputs=["force"], outputs=["y"], name="body"),
        ],
        inputs=["u"],
        outputs=["y"],
    )
    assert (
        pc.private_loop(chained, controller=ct.tf([-0.1], [1], 0.1)).poles().size == 2
    )


def estimated(plant, K):
    """State feedback of an estimate and its estimator, as python-control makes them."""
    QN, RN = np.eye(plant.ninputs), np.eye(plant.noutputs)
    settled = ct.dlqe(plant.A, plant.B, plant.C, QN, RN)[1]
    estimator = ct.create_estimator_iosystem(
        plant,
        QN,
        RN,
        P0=settled,
        measurement_labels=plant.output_labels,
        name="estimator",
    )
    feedback, _ = ct.create_statefbk_iosystem(
        plant, K, estimator=estimator, name="feedback"
    )
    return feedback, estimator


def test_a_state_feedback_without_its_estimator_is_not_fed_the_reading_as_xd():
    """yhat went into xd[0]: u = K1 yhat closed a stable loop with A + B K C."""
    plant = ct.ss(
        [[0.9, 0.1], [0.0, 0.5]],
        [[0.0], [0.1]],
        [[1.0, 0.0]],
        0,
        0.1,
        states=["x", "v"],
        inputs=["u"],
        outputs=["y"],
    )
    K = np.array([[0.5, 0.2]])
    feedback, estimator = estimated(plant, K)
    by_order = ct.ss([], [], [], feedback.D, 0.1)  # with python-control's own names
    poles = pc.private_loop(plant, controller=by_order).poles()
    wrong = plant.A + plant.B @ K[:, :1] @ plant.C
    np.testing.assert_allclose(np.sort(poles), np.sort(np.linalg.eigvals(wrong)))
    assert abs(poles).max() < 1
    with pytest.raises(
        ct.ControlArgument, match="it feeds back an estimate"
    ) as refused:
        pc.private_loop(plant, controller=feedback)
    message = str(refused.value)
    inputs, outputs = "['xd[0]', 'xd[1]', 'ud[0]', 'y']", "['u']"
    assert f"[estimator, controller], inputs={inputs}, outputs={outputs})" in message
    joined = ct.interconnect(
        [estimator, feedback], inputs=eval(inputs), outputs=eval(outputs)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        loop = pc.private_loop(plant, controller=joined)
    L = ct.dlqe(plant.A, plant.B, plant.C, np.eye(1), np.eye(1))[0]
    gains = pc.private_loop(plant, K, L)
    np.testing.assert_allclose(
        np.sort_complex(loop.poles()), np.sort_complex(gains.poles()), atol=1e-6
    )


def test_a_feedback_of_all_states_is_wired_by_its_names():
    """xd and ud come first, and are the references."""
    names = {"states": ["x", "v"], "inputs": ["u"], "outputs": ["y", "w"]}
    plant = ct.ss([[1, 0.1], [0, 1]], [[0], [0.1]], np.eye(2), 0, 0.1, **names)
    K = np.array([[1.0, 1.5]])
    feedback, closed = ct.create_statefbk_iosystem(plant, K)
    loop = pc.private_loop(plant, controller=feedback)
    np.testing.assert_allclose(
        np.sort_complex(loop.poles()), np.sort_complex(closed.poles())
    )
    renamed = ct.ss(plant, outputs=["position", "velocity"])
    with pytest.raises(
        ct.ControlArgument, match=r"update_names\(inputs=\['position', "
    ):
        pc.private_loop(renamed, controller=feedback)


def unnamed(**names):
    return ct.ss(0.5, [[1.0]], [[1.0]], [[-0.1]], 0.1, **names)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "controller",
    [
        ct.tf([-1.0, 0.9], [1, -0.5], 0.1),
        ct.tf2ss(ct.tf([-1.0, 0.9], [1, -0.5], 0.1)),
        ct.series(unnamed(inputs="y", outputs="e"), unnamed()),
        -0.1 * unnamed(inputs="e"),
        unnamed(inputs="y", outputs="force"),
        unnamed(inputs="yhat[0]", outputs="u[0]"),
    ],
    ids=["tf", "tf2ss", "series", "product", "one output", "yhat"],
)
def test_names_of_python_control_s_own_say_nothing(controller):
    loop = pc.private_loop(pc.plants.vehicle(), controller=controller)
    assert loop.poles().size == 2 + (ct.ss(controller).nstates)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_names_that_do_not_fit_are_refused_with_what_to_do():
    vehicle = pc.plants.vehicle()
    with pytest.raises(ct.ControlArgument, match=r"got e\. .*private_feedback\("):
        pc.private_loop(vehicle, controller=unnamed(inputs="e"))
    pc.private_feedback(vehicle, unnamed(inputs="e"))
    scalar = ct.ss(0.9, 1, 1, 0, 0.1, inputs="u", outputs="y", states="x")
    _, estimator = estimated(scalar, np.array([[0.1]]))
    assert estimator.input_labels == ["y", "u"]
    assert estimator.noutputs == 1
    with pytest.raises(ct.ControlArgument, match="the controller drives u itself"):
        pc.private_loop(scalar, controller=estimator)
    two = ct.ss(0.9, [[1, 1]], 1, 0, 0.1, inputs=["left", "right"], outputs="y")
    gain = ct.ss([], [], [], [[-0.1], [-0.2]], 0.1, outputs=["a", "b"])
    with pytest.raises(ct.ControlArgument, match=r"outputs=\['left', 'right'\]\)"):
        pc.private_loop(two, controller=gain)
    gain.update_names(outputs=["right", "left"])
    assert pc.private_loop(two, controller=gain).data.law.D.tolist() == [[-0.2], [-0.1]]


@pytest.mark.parametrize("way", ["lqg", "gains", "controller", "feedback"])
def test_every_way_into_a_loop_warns_where_it_drives_the_secret(way):
    plant, noise = vehicle_with_load()
    K = np.zeros((2, 2))
    L = [[0.8], [0.6]]
    ways = {
        "lqg": lambda **more: pc.private_lqg(plant, 1, 1, 1, 1, noise, **more),
        "gains": lambda **more: pc.private_loop(
            plant, K[: 2 - len(more)], L, noise, **more
        ),
        "controller": lambda **more: pc.private_loop(
            plant,
            noise=noise,
            controller=ct.ss([], [], [], K[: 2 - len(more), :1]),
            **more,
        ),
        "feedback": lambda **more: pc.private_feedback(
            plant, K[: 2 - len(more), :1], noise, **more
        ),
    }
    with pytest.warns(
        pc.PrivacyWarning, match=r"drives load as well.*controls=\['u'\]"
    ):
        ways[way]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ways[way](controls=["u"])


BAD = {
    "sampled slower": (
        {"controller": ct.ss(0.5, 1, 1, 0, 0.3)},
        ct.ControlArgument,
        "3 times slower: such a loop is periodic",
    ),
    "continuous": (
        {"controller": ct.ss(-1, 1, 1, 0)},
        ct.ControlArgument,
        r"discretise it with controller.sample\(0.1\)",
    ),
    "gains too": (
        {"controller": ct.ss(0.5, 1, 1, 0, 0.1), "K": [1.0, 2.0]},
        TypeError,
        "takes the place of K and L",
    ),
    "neither": ({}, TypeError, "expected K and L, or controller"),
    "too many outputs": (
        {"controller": ct.ss(0.5, 1, [[1], [1]], 0, 0.1)},
        ct.ControlDimension,
        "expected 1 outputs",
    ),
    "an array": ({"controller": np.eye(2)}, ct.ControlArgument, "got ndarray"),
    "unknown input": (
        {"K": [1.0, 2.0], "L": [1.0, 0.1], "controls": ["w"]},
        ValueError,
        "controls: 'w' is no input of the plant; known inputs are u",
    ),
    "a signal library's keyword": (
        {"K": [1.0, 2.0], "L": [1.0, 0.1], "seed": 1},
        TypeError,
        "unexpected keyword argument 'seed'; known are sys, K, L, noise, controller",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_controllers_say_what_was_expected(name):
    options, error, message = BAD[name]
    with pytest.raises(error, match=message):
        pc.private_loop(pc.plants.vehicle(), **options)


def test_a_loop_that_is_not_well_posed_is_refused():
    plant = cases.random_plant(2, states=2, inputs=1, outputs=1, feedthrough=True)
    with pytest.raises(ValueError, match="would depend on itself"):
        pc.private_loop(plant, controller=ct.tf([1.0, 0], [1, -0.5], 0.1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loop = pc.private_loop(plant, controller=ct.tf([0.01], [1, -0.5], 0.1))
    closed = ct.feedback(
        ct.ss(plant.A, plant.B, plant.C, plant.D, 0.1), ct.tf([0.01], [1, -0.5], 0.1), 1
    )
    np.testing.assert_allclose(
        np.sort_complex(loop.poles()), np.sort_complex(closed.poles()), atol=1e-9
    )


def test_controls_are_taken_as_numpy_gives_them():
    plant = cases.random_plant(0)
    names = np.array(plant.input_labels)[::-1]
    by_name = pc.private_lqg(plant, 1, 1, 1, 1, controls=list(names))
    by_place = pc.private_lqg(plant, 1, 1, 1, 1, controls=list(np.array([1, 0])))
    assert by_name.data.side.controls == by_place.data.side.controls == (1, 0)


def test_gains_of_one_input_or_output_may_be_vectors():
    loop = pc.private_loop(pc.plants.vehicle(), [3.424, 4.3095], [0.8266, 0.6973])
    np.testing.assert_array_equal(loop.K, cases.PAPER_K)
    np.testing.assert_array_equal(loop.L, cases.PAPER_L)


@pytest.mark.parametrize(
    "keyword, hint",
    [("seed", "rng"), ("x0", "initial_state"), ("T", "timepts"), ("colour", None)],
)
def test_unknown_keywords_of_simulate_list_the_known_ones(keyword, hint):
    loop = cases.vehicle_loop(cases.vehicle_noise())
    meant = "" if hint is None else rf" \(did you mean {hint}\?\)"
    with pytest.raises(
        TypeError,
        match=rf"simulate\(\) got an unexpected keyword argument '{keyword}'{meant}; "
        "known are timepts, reference, feedforward, initial_state",
    ):
        loop.simulate(**{keyword: 1})


def test_no_message_shows_what_a_private_signal_holds():
    loop = cases.vehicle_loop(cases.vehicle_noise())

    class Secretive:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("the position is 771.23")

    for given in (
        {"initial_state": Secretive()},
        {"disturbance": "771.23"},
        {"disturbance": Secretive()},
        {"measurement_noise": "771.23"},
        {"initial_state": ["771.23", 0]},
        {"exogenous": {"u": 771.23}},
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            loop.simulate(**given)
        error = caught.value
        while error is not None:
            assert "771" not in str(error)
            error = error.__context__


def test_lyapunov_solves_the_steady_state_of_a_long_run(case):
    """A second route to the moments of drawn disturbances: the stationary covariance."""
    loop, _ = case
    quiet = loop.with_noise(None)
    times = loop.plant.dt * np.arange(3000)
    exact = quiet.mean_square_error(times, **DRAWN)[:, -1]
    system, n = loop.data.dynamics.fixed, loop.plant.nstates
    places = loop.data.dynamics.places
    onto = system.B[:, places["disturbance"]] @ loop.G
    covariance = onto @ loop.QN @ onto.T
    read = system.B[:, places["noise"]]
    covariance += read @ loop.RN @ read.T
    steady = scipy.linalg.solve_discrete_lyapunov(system.A, covariance)
    np.testing.assert_allclose(exact, np.diag(steady)[:n], rtol=1e-6)


def test_a_report_is_one_page_with_guarantee_noise_cost_and_eavesdropper(tmp_path):
    noise = cases.vehicle_noise(horizon=30)
    loop = pc.private_lqg(pc.plants.vehicle(), 1, 1, 2, 1, noise)
    page = loop.report(tmp_path / "loop.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("data:image/png") == 1
    for text in (
        "position",
        f"{noise.std[0]:.4g}",
        f"{loop.cost().privacy:.4g}",
        f"{pc.eavesdropper(loop).std[0, 0]:.4g}",
        "Assumes",
    ):
        assert text in page
    with pytest.raises(ValueError, match="the loop has no noise"):
        loop.with_noise(None).report(tmp_path / "none.html")
    for name in ("loop.md", "loop.pdf", "loop"):
        with pytest.raises(ValueError, match=rf"path: .*HTML page.*got '{name}'"):
            loop.report(tmp_path / name)
        assert not (tmp_path / name).exists()


def test_a_report_on_a_hidden_disturbance_says_how_often_it_is_detected(tmp_path):
    room = ct.ss(0.9, [[1, 1]], 1, 0, 1, inputs=["heat", "people"], outputs=["T"])
    secret = pc.DisturbanceAdjacency({"people": 1.0}, duration=2, shape="level")
    noise = noise_for(room, secret, 60)
    loop = pc.private_lqg(room, 1, 1, 1, 1, noise, controls=["heat"])
    page = loop.report(tmp_path / "room.html").read_text(encoding="utf-8")
    printed = re.search("<td>5 %</td><td>(.*?) %</td>", page).group(1)
    detected = 100 * noise.guarantee.detection(0.05)
    assert 0 <= float(printed) - detected < 1e-3 * detected


@pytest.mark.parametrize("family", [None, "iid-gaussian"])
def test_a_report_on_noise_without_a_horizon_is_about_the_steady_state(
    tmp_path, family
):
    room = ct.ss(0.9, [[1, 1]], 1, 0, 1, inputs=["heat", "people"], outputs=["T"])
    options = {} if family is None else {"family": family}
    noise = pc.design_output_noise(
        room,
        horizon=np.inf,
        adjacency=pc.DisturbanceAdjacency({"people": 1.0}, duration=2, shape="level"),
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        **options,
    )
    loop = pc.private_lqg(room, 1, 1, 1, 1, noise, controls=["heat"])
    page = loop.report(tmp_path / "room.html").read_text(encoding="utf-8")
    cost = loop.steady_state_cost()
    privacy = re.search("<td>Privacy noise</td><td>(.*?)</td>", page).group(1)
    assert float(privacy) == pytest.approx(cost.privacy, rel=1e-3)
    quiet, noisy = re.search(
        r"<td>x\[0\]</td><td>(.*?)</td><td>(.*?)</td>", page
    ).groups()
    error = np.hypot(float(quiet), float(noisy))
    assert error == pytest.approx(np.sqrt(loop.steady_state_error()[0]), rel=1e-3)
    printed = re.search("<td>5 %</td><td>(.*?) %</td>", page).group(1)
    detected = 100 * noise.guarantee.detection(0.05)
    assert 0 <= float(printed) - detected < 1e-3 * detected
    assert "a sample every 1" in page
    assert "inf" not in page.split("</style>")[1]


def test_a_report_says_when_with_what_and_for_which_file_it_was_made(tmp_path):
    """Date, version, digest of the design file, events with their distance, a line to sign."""
    room = ct.ss(0.9, [[1, 1]], 1, 0, 1, inputs=["heat", "people"], outputs=["T"])
    noise = pc.design_output_noise(
        room,
        horizon=np.inf,
        adjacency=pc.DisturbanceAdjacency({"people": 1.0}, events=3, separation=24),
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
    )
    loop = pc.private_lqg(room, 1, 1, 1, 1, noise, controls=["heat"])
    page = loop.report(
        tmp_path / "r.html", date="2026-12-31", time_unit="h", units={"T": "K"}
    ).read_text(encoding="utf-8")
    noise.save(tmp_path / "noise.json")
    digest = json.loads((tmp_path / "noise.json").read_text())["digest"]
    for text in (
        "<td>2026-12-31</td>",
        f"<td>privcontrol {pc.__version__}</td>",
        f"<td>{digest}</td>",
        "3 in one run, starts at least 24 samples apart",
        "Repetition",
        "T [K]",
        "<th>Signature</th>",
    ):
        assert text in page
    with pytest.raises(ValueError, match="date: expected"):
        loop.report(tmp_path / "r.html", date="yesterday")
    today = datetime.date.today().isoformat()
    assert today in loop.report(tmp_path / "today.html").read_text(encoding="utf-8")


def test_a_report_names_every_secret_and_only_names_that_somebody_gave(tmp_path):
    room = ct.ss(0.9, [[1, 1]], 1, 0, 1, inputs=["heat", "people"], outputs=["T"])
    people = pc.DisturbanceAdjacency({"people": 1.0}, events=3, separation=4)
    secret = [people, pc.InitialStateAdjacency(1.0)]
    noise = noise_for(room, secret, 30)
    loop = pc.private_lqg(room, 1, 1, 1, 1, noise, controls=["heat"])
    page = loop.report(tmp_path / "r.html").read_text(encoding="utf-8")
    every = "3 in one run, starts at least 4 samples apart, or one secret start"
    assert every in page
    assert "<h1>Privacy of a loop</h1>" in page
    room.name = "room"
    loop = pc.private_lqg(room, 1, 1, 1, 1, noise, controls=["heat"])
    page = loop.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<h1>Privacy of room$private</h1>" in page


def test_a_report_draws_only_what_the_noise_adds_to_the_errors(tmp_path, monkeypatch):
    """A public start of 50 m is no error by privacy noise; by the difference of two loops."""
    figures = []
    monkeypatch.setattr("matplotlib.pyplot.close", figures.append)
    known = {"P0": [4, 1], "initial_state": [50.0, 0.0], "estimator": "observer"}
    noise = cases.vehicle_noise(horizon=20)
    loop = pc.private_lqg(pc.plants.vehicle(), 1, 1, 0.01, 0.01, noise, **known)
    loop.report(tmp_path / "r.html")
    drawn = [line.get_ydata() for line in figures[-1].axes[0].lines]
    public = loop.with_noise(None)  # of the same gains
    times = noise.timepts
    added = loop.mean_square_error(times) - public.mean_square_error(times)
    np.testing.assert_allclose(np.square(drawn), added, atol=1e-9)


MODELS = {
    "A": {"A": [[1, 0.1], [0, 0.999]]},
    "B": {"B": [[0.0], [0.2]]},
    "C": {"C": [[2, 0]]},
    "D": {"D": [[5.0]]},
    "dt": {"dt": 0.2},
    "states": {"states": ["velocity", "position"]},
    "inputs": {"inputs": ["force"]},
    "outputs": {"outputs": ["odometer"]},
}


@pytest.mark.parametrize("what", MODELS)
def test_every_way_into_a_loop_refuses_noise_of_another_plant(what):
    vehicle = pc.plants.vehicle()
    given = {name: getattr(vehicle, name) for name in "ABCD"}
    names = {
        "dt": 0.1,
        "states": ["position", "velocity"],
        "inputs": ["u"],
        "outputs": ["y"],
    }
    both = given | names | MODELS[what]
    plant = ct.ss(*(both.pop(name) for name in "ABCD"), both.pop("dt"), **both)
    noise = cases.vehicle_noise(horizon=10)
    K, L = cases.PAPER_K, cases.PAPER_L
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = pc.private_loop(plant, K, L, QN=1, RN=1, Q=1, R=1)
    for use in (
        lambda: pc.private_loop(plant, K, L, noise),
        lambda: pc.private_loop(plant, controller=ct.ss([], [], [], -0.1), noise=noise),
        lambda: pc.private_feedback(plant, 0.1, noise),
        lambda: pc.private_lqg(plant, 1, 1, 1, 1, noise),
        lambda: pc.private_lqg(plant, 1, 1, 1, 1, noise, integral="y"),
        lambda: replace(other.data, noise=noise),
        lambda: other.with_noise(noise),
    ):
        with pytest.raises(ValueError, match=r"noise was designed for .*another"):
            use()
    with pytest.raises(
        ValueError, match="weight: the loop is one of a plant with anot"
    ):
        cases.vehicle_noise(weight=other)


def test_published_signals_alone_are_a_plain_response(tmp_path):
    loop = cases.vehicle_loop(cases.vehicle_noise(horizon=10))
    response = loop.simulate(initial_state=[-20.0, 0.0], trials=4, rng=0)
    published = pickle.loads(pickle.dumps(response.published))
    assert type(published) is ct.TimeResponseData
    np.testing.assert_array_equal(published.y, response.outputs)
    assert list(published.output_labels) == ["yhat[0]", "u"]
    assert published.nstates == 0
    assert published.ninputs == 0
    assert b"position" not in pickle.dumps(response.published)


@pytest.mark.parametrize("form", ["predictor", "filter"])
def test_saturated_inputs_act_on_outputs_at_once_through_feedthrough(form):
    plant = cases.random_plant(4, states=3, feedthrough=True)
    noise = noise_for(plant, pc.StateAdjacency({"s0": 1.0}, times=0), 10)
    loop = pc.private_loop(
        plant, 0.3 * np.ones((2, 3)), 0.1 * np.ones((3, 2)), noise, form=form
    )
    added = []
    for options in ({}, {"saturation": 0.05}):
        response = loop.simulate(initial_state=[1.0, 2, 3], trials=5, rng=0, **options)
        x = np.asarray(response.states[:3])
        u = np.asarray(response.outputs[2:])
        clean = np.einsum("ij,jkt->ikt", plant.C, x)
        clean += np.einsum("ij,jkt->ikt", plant.D, u)
        added.append(np.asarray(response.outputs[:2]) - clean)
    assert np.abs(u).max() == 0.05
    np.testing.assert_allclose(added[1], added[0], atol=1e-9)


def test_exact_errors_of_laplace_noise_are_those_of_its_trials():
    vehicle, pure = pc.plants.vehicle(), pc.PrivacyBudget(epsilon=1.0)
    noise = pc.design_output_noise(
        vehicle,
        horizon=10,
        budget=pure,
        adjacency=cases.POSITION,
        family="iid-laplace",
    )
    loop = pc.private_feedback(vehicle, 0.1, noise)
    squares = np.asarray(loop.simulate(trials=20_000, rng=0).states)[:, :, 1:] ** 2
    error = squares.std(axis=1) / np.sqrt(20_000)
    exact = loop.mean_square_error()[:, 1:]
    assert np.all(np.abs(squares.mean(axis=1) - exact) < 5 * error)
    assert np.all(np.abs(squares.mean(axis=1) - exact / 2) > 5 * error)


def follower(outputs):
    """A first-order lag beside a slower one that it heats, under integral action or a PI law, hardly noisy."""
    plant = ct.ss([[0.9, 0], [0.05, 0.9]], [[0.2], [0]], outputs, 0, 0.1)
    budget = pc.PrivacyBudget(epsilon=1e3, delta=1e-2)
    secret = pc.StateAdjacency({"x[0]": 0.01}, times=0)
    noise = pc.design_output_noise(
        plant, horizon=120, budget=budget, adjacency=secret, family="iid-gaussian"
    )
    return plant, noise


@pytest.mark.parametrize("kind", ["integral", "feedback"])
def test_a_followed_reference_is_no_error(kind):
    """The mean ends on its reference: what is left is the noise, not one; the weights name the states that count."""
    plant, noise = follower([[2.0, 0]])
    first = np.diag([1.0, 0.0])
    if kind == "integral":
        loop = pc.private_lqg(plant, first, 0.1, 1e-3, 1e-3, noise, integral=["y[0]"])
    else:
        law = ct.tf([1.0, -0.9], [1, -1], 0.1)
        loop = pc.private_feedback(plant, law, noise, Q=first, R=0.1)
    with pytest.raises(
        ValueError, match=r"target: .* fixes no goal for x\[1\]; pass target="
    ):
        loop.mean_square_error(reference=[1.0])
    given = loop.mean_square_error(reference=[1.0], target=[0.5, 0.0])
    assert given[0, -1] < 1e-2
    bare = loop.cost(reference=[1.0], target=[0.5, 0.0])
    assert loop.cost(reference=[1.0]) == bare
    assert loop.cost(reference=[1.0], target=[0.0, 0.0]).total > bare.total + 10
    quiet = loop.mean_square_error(reference=[0.0])
    np.testing.assert_array_equal(quiet, loop.mean_square_error())


def test_outputs_that_read_every_state_need_no_target():
    plant, noise = follower(np.eye(2))
    gain = ct.ss([], [], [], [[1.0, 0.0]], 0.1)
    loop = pc.private_feedback(plant, gain, noise)
    goals = {"reference": [1.0, 0.3]}
    np.testing.assert_array_equal(
        loop.mean_square_error(**goals),
        loop.mean_square_error(**goals, target=[1.0, 0.3]),
    )
    opposite = pc.private_feedback(plant, gain, noise, sign=1)
    with pytest.raises(ValueError, match="target"):  # y follows -r, if at all
        opposite.mean_square_error(**goals)


@pytest.mark.parametrize("start", [None, [-20.0, 0.0]])
def test_the_report_says_what_the_loop_costs_without_privacy(tmp_path, start):
    """The noise itself cost 82, and privacy 128: the rest stood among the disturbances."""
    vehicle = pc.plants.vehicle()
    given = {"Q": 20, "R": 1, "QN": 1e-3, "RN": 1e-2, "P0": 1.0, "initial_state": start}
    noise = pc.design_output_noise(
        vehicle,
        horizon=20,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=cases.POSITION,
    )
    loop = pc.private_lqg(vehicle, **given, noise=noise)
    page = loop.report(tmp_path / "page.html").read_text(encoding="utf-8")
    rows = dict(re.findall("<td>([^<]*)</td><td>([^<]*)</td>", page))
    found = {name: float(rows[name]) for name in rows if "otal" in name}
    for name, one in (
        ("Total", loop),
        ("Total without privacy", loop.with_noise(None)),
    ):
        cost = one.cost(**cases.DRAWN).total
        assert found[name] == pytest.approx(cost, rel=1e-3)
    parts = ("Start of the run", "Disturbances and measurement noise", "Privacy noise")
    assert sum(float(rows[part]) for part in parts) == pytest.approx(
        found["Total"], rel=2e-3
    )
    assert "the difference of the totals" in page


def test_a_report_says_why_privacy_may_seem_to_save_costs(tmp_path):
    """The gains weigh x(T), the table does not: the loop costs 1.73 with, 1.73 without noise."""
    A = np.diag([1.0, 0.85, 0.97, 0.95])
    A[3, 1] = 0.01
    B = np.array([[-1e-4, -1e-4], [0.02, 0.02], [0.004, 0.004], [0.01, 0.01]])
    cell = ct.ss(
        A, B, [[0.8, -1, -1, 0], [0, 0, 0, 1]], [[-0.05, -0.05], [0, 0]], 7.3,
        inputs=["charger", "user"],
    )  # fmt: skip
    noise = pc.design_output_noise(
        cell,
        horizon=150,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-3),
        adjacency=pc.DisturbanceAdjacency({"user": 5.0}, duration=20, shape="level"),
        models="exact",
    )
    tuning = {"Q": np.diag([100, 0, 0, 1]), "R": 1e-3}
    tuning |= {"QN": np.diag([1e-8, 1e-6, 1e-6, 1e-4]), "RN": np.diag([1e-4, 1e-2])}
    start = np.diag([1e-4, 1e-6, 1e-6, 1e-2])
    for terminal in ("dare", 0):
        loop = pc.private_lqg(
            cell,
            **tuning,
            P0=start,
            terminal=terminal,
            noise=noise,
            controls=["charger"],
        )
        public = loop.with_noise(None)
        saves = loop.cost(**cases.DRAWN).total < public.cost(**cases.DRAWN).total
        assert saves == (terminal == "dare")
        page = loop.report(tmp_path / f"{terminal}.html").read_text(encoding="utf-8")
        assert ("is then no cost of privacy" in page) == saves
        assert ("The cost of privacy is the difference" in page) != saves
