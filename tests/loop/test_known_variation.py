"""Loops of plants and weights that vary in a known way, beside dense conditioning."""

import control as ct
import known_variation as kv
import numpy as np
import pytest
from repeats import few

import privcontrol as pc

pytestmark = pytest.mark.filterwarnings("ignore::privcontrol.PrivacyWarning")

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
VEHICLE = pc.plants.vehicle()
WEIGHTS = {"Q": [1.0, 0.1], "R": 0.1, "QN": [1e-4, 1e-3], "RN": 0.01}
T = 20
DRAWN = {"disturbance": "design", "measurement_noise": "design"}


def noise_for(plants, **options):
    asked = {"adjacency": pc.StateAdjacency(1.0, times=[0, 2]), "budget": BUDGET}
    return pc.design_output_noise(
        plants, horizon=len(plants), max_std=np.inf, **(asked | options)
    )


def turning(horizon=T, seed=11, **sizes):
    sizes = {"states": 2, "outputs": 1, "inputs": 1} | sizes
    return kv.random_plants(np.random.default_rng(seed), horizon, **sizes)


@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize("seed", few(range(4), of=2))
def test_the_cost_is_that_of_dense_conditioning(seed, varying):
    rng = np.random.default_rng(seed)
    plants = kv.random_plants(rng, int(rng.integers(4, 12)), states=1 + seed)
    order = len(plants[0].A)
    weights = kv.random_weights(rng, plants, varying=varying)
    noise = noise_for(plants, floor=0.2 if seed % 2 else 0.0)
    P0 = np.diag(rng.uniform(0.5, 2.0, order))
    terminal = np.diag(rng.uniform(0.0, 1.0, order))
    loop = pc.private_lqg(plants, **weights, noise=noise, P0=P0, terminal=terminal)
    cost = loop.cost(initial_state="design", **DRAWN)
    expected = kv.lqg_cost(plants, weights, kv.covariance(noise), P0, terminal)
    assert cost.total + cost.terminal == pytest.approx(expected, rel=1e-10)


def test_weights_of_each_sample_serve_a_constant_plant():
    rng = np.random.default_rng(2)
    plants = [VEHICLE] * 8
    weights = kv.random_weights(rng, plants, varying=True)
    noise = noise_for(plants)
    loop = pc.private_lqg(VEHICLE, **weights, noise=noise, P0=1.0, terminal=0)
    cost = loop.cost(initial_state="design", **DRAWN)
    total = kv.covariance(noise)
    expected = kv.lqg_cost(plants, weights, total, np.eye(2), np.zeros((2, 2)))
    assert cost.total == pytest.approx(expected, rel=1e-10)
    short = weights | {"Q": weights["Q"][:5]}
    with pytest.raises(ValueError, match="Q: expected one matrix, or a list of 8"):
        pc.private_lqg(VEHICLE, **short, noise=noise, P0=1.0)


@pytest.mark.parametrize(
    "options",
    [
        {"P0": [4.0, 1.0]},
        {"estimator": "kalman"},
        {"P0": 1.0, "terminal": 0},
        {"P0": 1.0, "form": "predictor"},
        {"P0": 1.0, "codesign": True, "terminal": 0},
        {"P0": 1.0, "integral": "y"},
    ],
    ids=str,
)
def test_the_code_for_variation_agrees_with_that_for_constant_plants(options):
    varying = kv.as_varying(VEHICLE, T)
    secret = pc.StateAdjacency({"position": 1.0})
    start = "design" if "P0" in options else [1.0, 0.0]
    found = []
    for plant in (VEHICLE, varying):
        noise = pc.design_output_noise(
            plant, horizon=T, budget=BUDGET, adjacency=secret, floor=0.3
        )
        loop = pc.private_lqg(plant, **WEIGHTS, noise=noise, **options)
        run = loop.simulate(trials=4, rng=0, initial_state=start, **DRAWN)
        cost = loop.cost(initial_state=start, **DRAWN)
        errors = loop.mean_square_error(initial_state=start, **DRAWN)
        margins = loop.margins([1.0, 0.0], probability=0.01)[3:]
        found.append(
            (run.states, run.outputs, cost.total, cost.terminal, errors, margins)
        )
    for one, other in zip(*found):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_a_list_of_equal_plants_makes_the_same_loop():
    noise = pc.design_output_noise(
        VEHICLE,
        horizon=T,
        budget=BUDGET,
        adjacency=pc.StateAdjacency({"position": 1.0}),
    )
    listed = pc.private_lqg([VEHICLE] * T, **WEIGHTS, noise=noise, P0=1.0)
    assert listed == pc.private_lqg(VEHICLE, **WEIGHTS, noise=noise, P0=1.0)


def test_simulated_runs_have_the_cost_and_the_errors_that_are_stated():
    plants = turning(12)
    loop = pc.private_lqg(
        plants, **WEIGHTS, noise=noise_for(plants), P0=1.0, terminal=0
    )
    run = loop.simulate(trials=4000, rng=3, initial_state="design", **DRAWN)
    errors = loop.mean_square_error(initial_state="design", **DRAWN)
    empirical = (run.states[:2] ** 2).mean(axis=1)
    deviation = (run.states[:2] ** 2).std(axis=1) / np.sqrt(4000)
    # 24 Gaussian means: the largest is beyond 4.5 in one of 6,000 correct programs
    assert (np.abs(empirical - errors) < 4.5 * deviation).all()
    wrong = np.abs(1.2 * empirical - errors)
    assert (wrong > 4.5 * deviation).any()


def test_what_runs_online_is_what_is_simulated():
    plants = turning(10)
    loop = pc.private_lqg(
        plants, **WEIGHTS, noise=noise_for(plants), P0=1.0, terminal=0
    )
    run = loop.simulate(trials=2, rng=0, initial_state="design", **DRAWN)
    cloud = loop.online()
    for t in range(10):
        asked = cloud.step(run.outputs[0, 1, t])
        assert asked[0] == pytest.approx(run.outputs[1, 1, t], rel=1e-9, abs=1e-9)
    cloud = loop.online()
    cloud.step(run.outputs[0, 1, 0])
    assert np.isfinite(cloud.step(None)).all()


def test_python_control_runs_the_loop_and_its_noise():
    plants = turning(9)
    noise = noise_for(plants)
    loop = pc.private_lqg(plants, **WEIGHTS, noise=noise, P0=1.0, terminal=0)
    run = loop.simulate(trials=1, rng=5, initial_state=[1.0, -1.0])
    whole = loop.system
    assert isinstance(whole, ct.NonlinearIOSystem)
    start = np.zeros(whole.nstates)
    start[:2] = [1.0, -1.0]
    answer = ct.input_output_response(whole, noise.timepts, run.inputs[:, 0], start)
    np.testing.assert_allclose(answer.outputs, run.outputs[:, 0], rtol=1e-8, atol=1e-8)
    eta = noise.process.draw(np.random.default_rng(1), 1)
    gate = pc.create_channel_iosystem(noise)
    drives = np.vstack([np.zeros((1, 9)), noise.process.inputs(eta)[0].T])
    published = ct.input_output_response(gate, noise.timepts, drives).outputs
    np.testing.assert_allclose(
        published.ravel(), noise.process.signal(eta)[0, :, 0], rtol=1e-9
    )


def test_systems_that_vary_stay_after_the_last_sample_as_they_were_there():
    plants = turning(9)
    noise = noise_for(plants)
    loop = pc.private_lqg(plants, **WEIGHTS, noise=noise, P0=1.0, terminal=0)
    for system in (loop.system, pc.create_channel_iosystem(noise)):
        states, inputs = np.ones(system.nstates), np.ones(system.ninputs)
        last, later = (system.dynamics(t, states, inputs) for t in (8.0, 9.0))
        np.testing.assert_array_equal(later, last)
        before = system.dynamics(7.0, states, inputs)
        assert not np.array_equal(before, last)


def test_gains_of_each_sample_make_a_loop():
    plants = turning(8)
    noise = noise_for(plants)
    best = pc.private_lqg(
        plants, **WEIGHTS, noise=noise, P0=1.0, terminal=0, form="predictor"
    )
    K, L = np.asarray(best.K), np.asarray(best.L)[:, :2]
    loop = pc.private_loop(plants, K, L, noise, **WEIGHTS)
    state = np.array([0.5, -0.2])
    found = loop.mean_square_error(initial_state=state)
    x, estimate, covariance = state, np.zeros(2), []
    joint = np.zeros((4, noise.process.responses.shape[2]))
    for t, plant in enumerate(plants):
        covariance.append(x**2 + (joint[:2] ** 2).sum(axis=1))
        A, B, C = plant.A, plant.B, plant.C
        move = np.block([[A, -B @ K[t]], [L[t] @ C, A - B @ K[t] - L[t] @ C]])
        mean = move @ np.append(x, estimate)
        x, estimate = mean[:2], mean[2:]
        joint = move @ joint + np.vstack(
            [np.zeros((2, joint.shape[1])), L[t] @ noise.process.responses[t]]
        )
    np.testing.assert_allclose(found, np.array(covariance).T, rtol=1e-9)


def test_a_controller_of_ones_own_closes_the_loop():
    plants = turning(8)
    noise = noise_for(plants)
    gain = pc.private_feedback(plants, 0.3, noise, Q=1, R=1)
    own = pc.private_loop(plants, controller=lambda t, yhat, estimate, r: -0.3 * yhat,
                          noise=noise)  # fmt: skip
    one = gain.simulate(trials=2, rng=0, initial_state=[1.0, 0.0])
    other = own.simulate(trials=2, rng=0, initial_state=[1.0, 0.0])
    np.testing.assert_allclose(one.outputs, other.outputs, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="vary from sample to sample"):
        gain.poles()


def test_secret_inputs_stay_free_and_the_exact_cost_is_that_of_runs():
    plants = turning(8, inputs=2)
    noise = noise_for(plants, adjacency=pc.DisturbanceAdjacency({"u1": 1.0}))
    loop = pc.private_lqg(
        plants, **WEIGHTS, noise=noise, P0=1.0, controls=["u0"], terminal=0
    )
    entering = {"u1": np.r_[0, 1.0, np.zeros(6)]}
    cost = loop.cost(exogenous=entering)
    assert loop.data.side.free_labels == ["u1"]
    assert cost.regulation >= 0
    assert cost.total > loop.cost().regulation


def test_what_is_for_constant_plants_says_so():
    plants = turning(6)
    noise = noise_for(plants)
    with pytest.raises(ValueError, match='estimator="kalman"'):
        pc.private_lqg(plants, **WEIGHTS, noise=noise, estimator="observer")
    assert pc.private_lqg(plants, **WEIGHTS, noise=noise).K.shape == (6, 1, 2)
    with pytest.raises(ValueError, match="another A"):
        pc.private_lqg(turning(6, seed=12), **WEIGHTS, noise=noise, P0=1.0)
    through = [ct.ss(s.A, s.B, s.C, [[float(t)]], 1.0, states=s.state_labels,
                     inputs=s.input_labels, outputs=s.output_labels)
               for t, s in enumerate(plants)]  # fmt: skip
    with pytest.raises(ct.ControlArgument, match="delay that input"):
        pc.private_lqg(through, **WEIGHTS, P0=1.0)
    public = pc.private_lqg(plants, **WEIGHTS, P0=1.0, terminal=0)
    assert public.data.horizon == 6
    with pytest.raises(ValueError, match="at most the 6 samples"):
        public.cost(np.arange(7.0))


def test_files_and_gateways_hold_plants_that_vary(tmp_path):
    plants = turning(7)
    noise = noise_for(plants, floor=0.2)
    loop = pc.private_lqg(plants, **WEIGHTS, noise=noise, P0=1.0, terminal=0)
    for each, name in ((noise, "noise"), (loop, "loop")):
        each.save(tmp_path / f"{name}.json")
        assert pc.load(tmp_path / f"{name}.json") == each
    with pc.Gateway(noise, resolution=0.01) as gate:
        published = [float(np.ravel(gate.publish(0.5))[0]) for _ in range(7)]
    assert len(set(published)) == 7
    sensed = noise_for(plants)
    with pc.Gateway(sensed, resolution=0.01, floating=True) as gate:
        first = float(np.ravel(gate.publish(0.0))[0])
        second = float(np.ravel(gate.publish(0.0))[0])
    assert first != second


def test_an_eavesdropper_sees_no_more_than_the_noise_leaves():
    plants = turning(9)
    noise = noise_for(plants, floor=0.2)
    spy = pc.eavesdropper(noise, prior=np.eye(2))
    rows = kv.observability(plants)
    read = rows @ rows.T + kv.covariance(noise)
    left = np.eye(2) - rows.T @ np.linalg.solve(read, rows)
    phi = kv.transitions(plants)
    for t in (0, 4, 8):
        expected = phi[t] @ left @ phi[t].T
        np.testing.assert_allclose(spy.error_covariance(t), expected, rtol=1e-7)
    change = noise_for(plants, adjacency=pc.DisturbanceAdjacency(1.0))
    assert pc.eavesdropper(change).std.min() >= 1 / change.guarantee.gdp * (1 - 1e-9)
