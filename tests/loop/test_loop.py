"""The private loop: published facts of the paper, exact moments, python-control's own simulation, and refusals."""

import pickle
import warnings

import cases
import control as ct
import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.linalg
from repeats import few
from scipy.stats import norm

import privcontrol as pc

STEPS = np.arange(100)
REFERENCE = np.array([np.tanh(STEPS), 1 - np.abs(np.tanh(STEPS - 9))])
SETUP = dict(reference=REFERENCE, initial_state=[-20.0, 0.0])


def mimo_loop(seed=0, family="gaussian", **sizes):
    sizes = dict(states=6, inputs=2, outputs=2, radius=1.02) | sizes
    plant = cases.random_plant(seed, feedthrough=True, **sizes)
    adjacency = pc.StateAdjacency({"s0": 1.0, "s1": 0.5}, times=range(3))
    noise = pc.design_output_noise(
        plant, horizon=20, budget=cases.BUDGET, adjacency=adjacency, family=family
    )
    return cases.random_loop(seed, noise, feedthrough=True, **sizes)


def five_errors(samples, exact):
    """Whether sample means of squares are within five standard errors of the exact mean squares."""
    error = samples.std(axis=1) / np.sqrt(samples.shape[1])
    return np.all(
        np.abs(samples.mean(axis=1) - exact) <= 5 * error + 1e-9 * np.abs(exact).max()
    )


def test_a_reference_of_zero_is_the_origin():
    noise = pc.design_output_noise(
        pc.plants.vehicle(), horizon=5, budget=pc.PrivacyBudget(gdp=1.0),
        adjacency=pc.StateAdjacency({"position": 1.0}), models="exact",
    )  # fmt: skip
    loop = pc.private_lqg(pc.plants.vehicle(), 1, 1, 1, 1, noise, P0=1.0)
    origin = loop.simulate(reference=0, trials=2, rng=0)
    np.testing.assert_array_equal(
        origin.outputs, loop.simulate(reference=[0, 0], trials=2, rng=0).outputs
    )
    for number in (1.0, False):  # metres, or metres a second?
        with pytest.raises((ct.ControlDimension, TypeError)):
            loop.simulate(reference=number, trials=2, rng=0)


def test_a_number_is_the_reference_of_a_loop_that_has_one():
    noise = pc.design_output_noise(
        pc.plants.vehicle(), horizon=5, budget=pc.PrivacyBudget(gdp=1.0),
        adjacency=pc.StateAdjacency({"position": 1.0}), models="exact",
    )  # fmt: skip
    loop = pc.private_feedback(
        pc.plants.vehicle(), ct.tf([1.0, -0.9], [1.0, 0.0], 0.1), noise
    )
    kept = loop.simulate(reference=2.5, trials=2, rng=0)
    listed = loop.simulate(reference=[2.5], trials=2, rng=0)
    np.testing.assert_array_equal(kept.outputs, listed.outputs)
    assert np.any(kept.outputs != loop.simulate(trials=2, rng=0).outputs)


def test_published_setup_structured_error_is_the_noise_in_position_and_vanishes_in_velocity():
    loop = cases.vehicle_loop(cases.vehicle_noise(budget=cases.PAPER_BUDGET))
    position, velocity = loop.mean_square_error(**SETUP)[:, 99]
    assert position == pytest.approx(2.5244137**2, abs=0.02)
    assert velocity < 1e-3
    iid = cases.vehicle_loop(
        cases.vehicle_noise(budget=cases.PAPER_BUDGET, family="iid-gaussian")
    )
    position_iid, velocity_iid = iid.mean_square_error(**SETUP)[:, 99]
    assert velocity_iid > 100
    assert position_iid > 10 * position


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
def test_exact_mean_square_errors_agree_with_40_000_trials(family):
    loop = cases.vehicle_loop(
        cases.vehicle_noise(pc.StateAdjacency(1.0), family=family)
    )
    exact = loop.mean_square_error(**SETUP)
    squares = np.concatenate(
        [
            (
                loop.simulate(trials=20_000, rng=seed, **SETUP).states[:2]
                - REFERENCE[:, None]
            )
            ** 2
            for seed in range(2)
        ],
        axis=1,
    )
    assert squares.shape[1] == 40_000
    assert five_errors(np.asarray(squares), exact)
    assert not five_errors(
        0.81 * np.asarray(squares), exact
    )  # noise 10 % too small would be seen


@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
@pytest.mark.parametrize(
    "drawn", [{}, {"disturbance": "design", "measurement_noise": "design"}]
)
def test_exact_mean_square_errors_of_a_mimo_loop_with_disturbances(family, drawn):
    loop = mimo_loop(family=family)
    setup = dict(
        reference=[1.0, 0, 0, 0, 0, -1],
        initial_state=np.arange(6.0),
        initial_estimate=np.ones(6),
        **drawn,
    )
    exact = loop.mean_square_error(**setup)
    response = loop.simulate(trials=20_000, rng=5, **setup)
    squares = (
        np.asarray(response.states[:6]) - np.array([1.0, 0, 0, 0, 0, -1])[:, None, None]
    )
    assert five_errors(squares**2, exact)


@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
def test_python_control_simulates_the_same_trials(family):
    loop = mimo_loop(family=family)
    response = loop.simulate(
        reference=[1.0, 0, 0, 0, 0, 0], initial_state=np.arange(6.0), trials=4, rng=2
    )
    for k in (0, 3):
        start = np.r_[np.arange(6.0), np.zeros(loop.system.nstates - 6)]
        again = ct.forced_response(
            loop.system, response.time, response.inputs[:, k], start
        )
        size = np.abs(again.outputs).max()
        np.testing.assert_allclose(
            again.outputs, response.outputs[:, k], atol=1e-11 * size
        )
        np.testing.assert_allclose(
            again.states[:12], response.states[:, k], atol=1e-11 * size
        )
    assert response.output_labels == loop.system.output_labels
    assert response.input_labels == loop.system.input_labels


def test_interconnection_by_signal_names_gives_the_simulated_trajectory():
    noise, K, L = (
        cases.vehicle_noise(),
        np.array(cases.PAPER_K),
        np.array(cases.PAPER_L),
    )
    loop, plant = cases.vehicle_loop(noise), pc.plants.vehicle()
    gate = pc.create_channel_iosystem(noise)
    A, B, C = plant.A, plant.B, plant.C
    cloud = ct.ss(
        A - B @ K - L @ C, np.hstack([L, B @ K]), -K, np.hstack([np.zeros((1, 1)), K]), 0.1,
        inputs=["yhat[0]", "xd[0]", "xd[1]"], outputs=["u"], name="cloud",
    )  # fmt: skip
    whole = ct.interconnect(
        [plant, gate, cloud],
        inputs=["xd[0]", "xd[1]", "eta[0]"],
        outputs=["yhat[0]", "u"],
        name="whole",
    )
    response = loop.simulate(trials=2, rng=1, **SETUP)
    drives = response.inputs[["xd[0]", "xd[1]", "eta[0]"], "trial[1]"]
    start = [-20.0, 0.0] + [0.0] * (whole.nstates - 2)
    again = ct.forced_response(whole, response.time, drives, start)
    np.testing.assert_allclose(again.outputs, response.outputs[:, 1], atol=1e-10)


def test_closed_loop_has_the_poles_of_regulator_and_observer():
    loop = mimo_loop()
    A, B, C = loop.plant.A, loop.plant.B, loop.plant.C
    poles = np.concatenate(
        [np.linalg.eigvals(A - B @ loop.K), np.linalg.eigvals(A - loop.L @ C)]
    )
    np.testing.assert_allclose(
        sorted(np.abs(loop.closed_loop.poles())), sorted(np.abs(poles)), atol=1e-6
    )
    assert loop.closed_loop.input_labels[-2:] == ["gamma[0]", "gamma[1]"]
    assert loop.system.nstates == 3 * 6
    assert loop.system.dt == loop.plant.dt


def test_a_controller_callable_replaces_the_gain():
    loop = mimo_loop()
    setup = dict(
        reference=[1.0, 0, 0, 0, 0, 0], initial_state=np.arange(6.0), trials=300, rng=4
    )
    linear = loop.simulate(**setup)
    by_hand = loop.simulate(
        controller=lambda t, xhat, xd: -loop.K @ (xhat - xd), **setup
    )
    np.testing.assert_allclose(
        by_hand.states, linear.states, atol=1e-9 * np.abs(linear.states).max()
    )
    clipped = loop.simulate(
        controller=lambda t, xhat, xd: np.clip(-loop.K @ (xhat - xd), -1, 1), **setup
    )
    assert np.abs(clipped.outputs[2:]).max() <= 1.0
    constant = loop.simulate(controller=lambda t, xhat, xd: [0.5, -1], **setup)
    np.testing.assert_array_equal(
        constant.outputs[2:], np.broadcast_to([[[0.5]], [[-1]]], (2, 300, 20))
    )
    with pytest.raises(
        ValueError,
        match=r"shape \(2, 512\) \(inputs, trials\), or \(2,\) .* got \(3,\); .* blocks of 512",
    ):
        loop.simulate(controller=lambda t, xhat, xd: np.zeros(3), **setup)
    with pytest.raises(
        TypeError,
        match="expected a function .* got ndarray; a gain K of your own goes to private_loop",
    ):
        loop.simulate(controller=loop.K, **setup)


def test_a_controller_callable_gets_the_references_of_integral_action():
    noise = cases.vehicle_noise(horizon=6)
    loop = pc.private_lqg(pc.plants.vehicle(), 1, 1, 1, 1, noise, integral="y")
    seen = []

    def still(t, xhat, xd):
        seen.append((t, xd.item()))
        return [0.0]

    followed = np.arange(6.0)[None]
    loop.simulate(reference=followed, controller=still, rng=0)
    np.testing.assert_allclose(seen, np.column_stack([noise.timepts, followed[0]]))


def test_what_is_published_of_an_output_is_found_under_the_plants_label_too():
    plant = cases.random_plant(1, states=3)
    plant.set_outputs(["speed [Hz]", "s0"])  # s0 is a state as well
    noise = pc.design_output_noise(
        plant, horizon=9, budget=cases.BUDGET, adjacency=pc.StateAdjacency(1.0, times=0)
    )
    loop = pc.private_lqg(plant, 1, 1, 1, 1, noise)
    response = pickle.loads(pickle.dumps(loop.simulate(trials=30, rng=0)))
    np.testing.assert_array_equal(response.outputs["speed [Hz]"], response.outputs[0])
    np.testing.assert_array_equal(response.mean("speed [Hz]"), response.mean("yhat[0]"))
    np.testing.assert_array_equal(
        response.mean("s0")[0], np.mean(response.states[0], axis=0)
    )
    assert response.output_labels == ["yhat[0]", "yhat[1]", "u[0]", "u[1]"]


def test_a_secret_signal_enters_as_a_disturbance_and_a_warning_meets_it_as_feedforward():
    vehicle, load = pc.plants.vehicle(), np.full((1, 20), 0.05)
    plant = ct.ss(
        vehicle.A,
        np.hstack([vehicle.B, [[0], [1]]]),
        vehicle.C,
        0,
        0.1,
        inputs=["u", "load"],
    )
    secret = pc.DisturbanceAdjacency({"load": 0.05})
    noise = pc.design_output_noise(
        plant, horizon=20, budget=cases.BUDGET, adjacency=secret
    )
    loop = pc.private_loop(plant, [*cases.PAPER_K, [0, 0]], cases.PAPER_L, noise)
    with pytest.warns(
        pc.PrivacyWarning,
        match=r"disturbance at load, .* disturbance=plant.B\[:, \[k\]\] \* w",
    ):
        told = loop.simulate(feedforward=np.vstack([0 * load, load]), rng=0)
    np.testing.assert_allclose(told.outputs["load", 0], 0.05, atol=1e-15)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = loop.simulate(
            disturbance=plant.B[:, [1]] * load,
            feedforward=np.vstack([load, 0 * load]),
            rng=0,
        )
        calm = loop.simulate(feedforward=np.vstack([load, 0 * load]), rng=0)
    assert not kept.outputs["load", 0].any()
    moved = ct.forced_response(
        plant,
        kept.time,
        np.vstack([kept.outputs["u", 0] - calm.outputs["u", 0], load[0]]),
    ).states
    np.testing.assert_allclose(
        kept.states[:2, 0] - calm.states[:2, 0], moved, atol=1e-9
    )


def test_given_disturbances_of_each_trial_are_used_in_order():
    loop = mimo_loop()
    w = np.random.default_rng(0).normal(size=(6, 600, 20))
    each = loop.simulate(trials=600, rng=4, disturbance=w)
    for k in (0, 599):
        alone = loop.simulate(trials=600, rng=4, disturbance=w[:, k])
        np.testing.assert_allclose(
            alone.states[:, k], each.states[:, k], atol=1e-9 * np.abs(each.states).max()
        )


def test_fewer_trials_are_a_prefix_of_more_and_seeds_repeat():
    for loop in (mimo_loop(), mimo_loop(family="iid-gaussian")):
        few, many = loop.simulate(trials=3, rng=9), loop.simulate(trials=600, rng=9)
        np.testing.assert_array_equal(few.states, many.states[:, :3])


def test_only_published_signals_are_outputs_and_the_noise_hides_in_no_observer():
    # the observer tracks the virtual state x + A^t xi; nothing filters structured noise out
    loop = cases.vehicle_loop(cases.vehicle_noise())
    response = loop.simulate(trials=50, rng=0, **SETUP)
    assert list(response.output_labels) == ["yhat[0]", "u"]
    offset = loop.noise.factor[0, 0] * response.inputs["eta[0]", :, 0]
    np.testing.assert_allclose(
        response.states["xhat[0]", :, 99] - response.states["position", :, 99],
        offset,
        atol=1e-3,
    )


def test_a_loop_without_noise_can_be_analysed_but_not_run():
    loop = cases.vehicle_loop()
    assert np.abs(loop.system.poles()).max() < 1
    assert loop.mean_square_error(timepts=0.1 * STEPS, **SETUP)[1, 99] < 1e-3
    for use in (lambda: loop.guarantee, loop.simulate):
        with pytest.raises(ValueError, match="the loop has no noise"):
            use()
    assert (
        loop.with_noise(cases.vehicle_noise()).guarantee
        == cases.vehicle_noise().guarantee
    )
    with pytest.raises(ValueError, match="timepts: the loop has no noise"):
        loop.mean_square_error()


def test_loops_and_responses_pickle_and_show_sizes_only():
    loop = mimo_loop()
    again = pickle.loads(pickle.dumps(loop))
    np.testing.assert_array_equal(
        again.simulate(trials=2, rng=0).states, loop.simulate(trials=2, rng=0).states
    )
    assert repr(loop).startswith(
        "PrivateLoop('random0$private': 6 states, 2 inputs, 2 outputs"
    )
    response = pickle.loads(pickle.dumps(loop.simulate(trials=2, rng=0)))
    assert response.guarantee == loop.guarantee


@pytest.mark.parametrize("samples", [1, 2, 3, 37, 64, 5000])
def test_runs_of_any_length_are_those_of_the_recursion_step_by_step(samples):
    plant = ct.ss([[0.9, 0.2], [-0.3, 1.01]], [[0], [1]], [[1, 0]], 0, 1.0)
    loop = pc.private_loop(plant, [[0.1, 0.3]], [[0.4], [0.2]])
    rng = np.random.default_rng(0)
    start, drift = rng.normal(size=2), rng.normal(size=(2, samples))
    x, estimate, expected = start, np.zeros(2), []
    for t in range(samples):
        expected.append(x**2)
        u = -loop.K @ estimate
        innovation = plant.C @ (x - estimate)
        estimate = plant.A @ estimate + plant.B @ u + loop.L @ innovation
        x = plant.A @ x + plant.B @ u + drift[:, t]
    times = np.arange(samples)
    errors = loop.mean_square_error(times, initial_state=start, disturbance=drift)
    np.testing.assert_allclose(errors, np.transpose(expected), rtol=1e-10)


def test_a_growing_mode_that_nothing_excites_does_not_overflow():
    plant = ct.ss(np.diag([0.5, 1e4]), [[1], [0]], [[1, 0]], 0, 1.0)
    with pytest.warns(UserWarning, match="unstable"):
        loop = pc.private_loop(plant, [[0.0, 0.0]], [[0.0], [0.0]])
    times = np.arange(200)
    errors = loop.mean_square_error(times, initial_state=[1.0, 0.0])
    np.testing.assert_allclose(errors, [0.25**times, 0 * times], rtol=1e-12)


def test_noise_is_compared_with_the_plant_once(monkeypatch):
    vehicle = pc.plants.vehicle()
    noise = cases.vehicle_noise()
    compared = []
    differences = type(noise.plant_data).differences

    def counted(plant, other):
        compared.append(other)
        return differences(plant, other)

    monkeypatch.setattr(type(noise.plant_data), "differences", counted)
    loop = pc.private_lqg(vehicle, 1, 1, 1, 1, noise)
    loop.simulate(rng=0)
    loop.cost()
    assert len(compared) == 1


def test_noise_of_another_plant_is_refused():
    slower = ct.ss([[1, 0.1], [0, 0.999]], [[0.005], [0.1]], [[1, 0]], 0, 0.1)
    with pytest.raises(
        ValueError, match="noise was designed for a plant with another A"
    ):
        pc.private_loop(slower, cases.PAPER_K, cases.PAPER_L, cases.vehicle_noise())
    faster = ct.ss([[1, 0.1], [0, 1]], [[0.005], [0.1]], [[1, 0]], 0, 0.2)
    with pytest.raises(ValueError, match="another .*dt \\(0.1 in place of 0.2\\)"):
        pc.private_loop(faster, cases.PAPER_K, cases.PAPER_L, cases.vehicle_noise())


@pytest.mark.parametrize(
    "change, error, message",
    [
        (
            {"K": [[1.0]]},
            ct.ControlDimension,
            r"K: expected shape \(1, 2\), got \(1, 1\)",
        ),
        (
            {"L": [[1.0, 2.0]]},
            ct.ControlDimension,
            r"L: expected shape \(2, 1\), got \(1, 2\)",
        ),
        ({"K": [[np.nan, 1.0]]}, ValueError, "K: expected finite numbers"),
        (
            {"K": ct.dlqr(pc.plants.vehicle(), np.eye(2), 1)},
            TypeError,
            r"K: expected an array, got a tuple; .*take \[0\]",
        ),
        (
            {"L": ct.dlqe(pc.plants.vehicle(), np.eye(1), 1)},
            TypeError,
            r"L: expected an array, got a tuple; .*take \[0\]",
        ),
        ({"Q": -np.eye(2)}, ValueError, "Q: expected a positive semidefinite matrix"),
        (
            {"QN": np.eye(3)},
            ct.ControlDimension,
            r"QN .*: expected shape \(2, 2\), got \(3, 3\)",
        ),
        ({"RN": [[0, 1], [0, 0]]}, ct.ControlDimension, r"RN: expected shape \(1, 1\)"),
        ({"noise": "gaussian"}, TypeError, "noise: expected OutputNoise"),
        ({"gain": 1}, TypeError, "unexpected keyword argument 'gain'"),
        ({"sys": ct.tf([1], [1, 1])}, ct.ControlArgument, "got TransferFunction"),
    ],
)
def test_bad_loops_say_what_was_expected(change, error, message):
    call = {"sys": pc.plants.vehicle(), "K": cases.PAPER_K, "L": cases.PAPER_L} | change
    with pytest.raises(error, match=message):
        pc.private_loop(**call)


def test_an_unstable_closed_loop_warns_and_names_its_largest_pole():
    vehicle, K, L = (
        pc.plants.vehicle(),
        np.array(cases.PAPER_K),
        np.array(cases.PAPER_L),
    )
    worst = max(np.linalg.eigvals(vehicle.A + vehicle.B @ K), key=abs)
    with pytest.warns(
        UserWarning,
        match=rf"closed loop is unstable: its largest pole is {worst.real:.4g}.* signs of K",
    ):
        loop = pc.private_loop(vehicle, -K, L)
    assert np.abs(loop.closed_loop.poles()).max() == pytest.approx(abs(worst))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pc.private_loop(vehicle, K, L)
        pc.private_loop(
            vehicle, 0 * K, L
        )  # a double pole at one, which rounding throws to either side


@pytest.mark.parametrize(
    "signals, error, message",
    [
        (
            {"timepts": 0.1 * np.arange(101)},
            ValueError,
            "at most the 100 samples of the noise's horizon, got 101",
        ),
        (
            {"timepts": 0.2 * np.arange(10)},
            ValueError,
            r"with dt = 0.1, got 0, 0.2, 0.4, ..; .* np.arange\(10\) \* 0.1",
        ),
        (
            {"timepts": np.arange(50)},
            ValueError,
            r"got 0, 1, 2, ..; for the first 50 samples pass np.arange\(50\) \* 0.1",
        ),
        (
            {"timepts": 50},
            ValueError,
            r"time points such as np.arange\(50\) \* 0.1, got an array of shape \(\)",
        ),
        (
            {"timepts": 0.1 * np.arange(10, 50)},
            ValueError,
            "got 1, 1.1, 1.2, ..; .* start of the run",
        ),
        ({"timepts": []}, ValueError, "got an array of shape"),
        (
            {"reference": [1.0, 2.0, 3.0]},
            ct.ControlDimension,
            r"reference: expected shape \(2,\) or \(2, 100\)",
        ),
        (
            {"reference": [np.nan, 0.0]},
            ValueError,
            "reference: expected finite numbers",
        ),
        (
            {"feedforward": np.zeros((2, 100))},
            ct.ControlDimension,
            r"feedforward: expected shape \(1,\) or \(1, 100\)",
        ),
        (
            {"initial_state": [1.0]},
            ct.ControlDimension,
            r"initial_state: expected shape \(2,\), got \(1,\)",
        ),
        (
            {"initial_estimate": np.zeros(3)},
            ct.ControlDimension,
            r"initial_estimate: expected shape \(2,\)",
        ),
        (
            {"disturbance": "design"},
            ValueError,
            "draws from QN, which the loop was not given",
        ),
        ({"disturbance": "white"}, ValueError, 'expected an array, None or "design"'),
        (
            {"measurement_noise": np.zeros((2, 100))},
            ct.ControlDimension,
            r"measurement_noise: expected shape \(1, 100\)",
        ),
        ({"trials": 0}, ValueError, "trials: expected an integer >= 1"),
        ({"rng": np.random.RandomState(0)}, TypeError, "RandomState"),
        (
            {"inital_state": [0, 0]},
            TypeError,
            "unexpected keyword argument 'inital_state'",
        ),
    ],
)
def test_bad_signals_say_what_was_expected(signals, error, message):
    with pytest.raises(error, match=message):
        cases.vehicle_loop(cases.vehicle_noise()).simulate(**signals)


def test_no_message_shows_the_private_initial_state():
    loop = cases.vehicle_loop(cases.vehicle_noise())
    with pytest.raises(ct.ControlDimension) as caught:
        loop.simulate(initial_state=[-20.12345, 1.0, 2.0])
    assert "20.12" not in str(caught.value)
    with pytest.raises(ValueError, match="finite") as caught:
        loop.simulate(initial_state=[-20.12345, np.nan])
    assert "20.12" not in str(caught.value)
    assert "20.12" not in repr(loop.simulate(initial_state=[-20.12345, 1.0], trials=2))


def test_time_points_of_an_unspecified_step_may_have_any_spacing():
    plant = ct.ss([[0.5]], [[1]], [[1]], 0, True, states=["level"])
    noise = pc.design_output_noise(
        plant, horizon=5, budget=cases.BUDGET, adjacency=pc.StateAdjacency(1.0)
    )
    loop = pc.private_loop(plant, [[0.1]], [[0.1]], noise)
    response = loop.simulate(timepts=0.3 * np.arange(4), rng=0)
    assert response.time[-1] == pytest.approx(0.9)
    assert response.time_label == "Time [samples]"
    assert loop.simulate(rng=0).band_plot().axes[-1, 0].get_xlabel() == "Time [samples]"
    plt.close("all")


@pytest.mark.parametrize("family", few(["gaussian", "iid-gaussian"], of=1))
def test_a_budget_by_risk_is_what_the_best_test_of_published_runs_reaches(family):
    """200,000 runs with and without the move, told apart by the ratio of likelihoods.

    The test knows all that a loop publishes, and raises 5 % false alarms. The detections
    are 20 % to five standard errors, which would see noise that is ten percent off.
    """
    trials = 200_000
    vehicle = pc.plants.vehicle()
    noise = pc.design_output_noise(
        vehicle,
        horizon=8,
        budget=pc.PrivacyBudget.from_risk(false_alarm=0.05, detection=0.2),
        adjacency=pc.StateAdjacency({"position": 1.0}, times=0),
        family=family,
    )
    loop = cases.vehicle_loop(noise)
    assert loop.guarantee.detection(0.05) == pytest.approx(0.2, rel=1e-9)
    assert pc.audit(noise, claim=loop.guarantee, trials=trials, rng=0).passed
    moved = ct.initial_response(vehicle, noise.timepts, [1.0, 0.0]).outputs
    covariance = [[noise.covariance(t, s).item() for s in range(8)] for t in range(8)]
    weights = np.linalg.pinv(covariance, rcond=1e-9) @ moved
    threshold = norm.ppf(0.95) * np.sqrt(weights @ covariance @ weights)
    rates = []
    for seed, position in enumerate((0.0, 1.0)):
        start = [position, 0.0]
        response = loop.simulate(initial_state=start, trials=trials, rng=seed)
        yhat, u = np.asarray(response.outputs)
        known = ct.impulse_response(vehicle, noise.timepts).outputs * vehicle.dt
        of_inputs = scipy.linalg.toeplitz(known, np.zeros(8))
        rates.append(np.mean((yhat - u @ of_inputs.T) @ weights > threshold))
    errors = [5 * np.sqrt(rate * (1 - rate) / trials) for rate in (0.05, 0.2)]
    assert abs(rates[0] - 0.05) < errors[0]
    assert abs(rates[1] - 0.2) < errors[1]
    shift = norm.ppf(0.2) - norm.ppf(0.05)
    for wrong in (0.9, 1.1):
        assert abs(norm.sf(norm.ppf(0.95) - shift / wrong) - 0.2) > 2 * errors[1]
