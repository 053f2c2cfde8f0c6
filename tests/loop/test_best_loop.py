"""The loop with a public prior: its exact cost, its optimum, and what a second route says."""

import dataclasses
import pickle
import warnings
from itertools import pairwise

import cases
import control as ct
import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from repeats import few

import privcontrol as pc

WEIGHTS = {"Q": 1, "R": 5, "QN": [1e-4, 1e-2], "RN": 1e-2}
#: Secret, epsilon, horizon, variance of x(0); cost without noise, with the filter that
#: knows the noise, and with the best noise too.
TABLE = [
    ({"position": 1.0}, 1.0, 60, 4.0, 371.84, 440.39, 440.39),
    ({"position": 1.0, "velocity": 0.5}, 1.0, 60, 4.0, 371.84, 893.93, 890.00),
    ({"position": 1.0}, 0.3, 200, 0.25, 173.23, 217.807, 217.807),
    ({"position": 1.0}, 1.0, 100, 1.0, 155.52, 215.56, 215.56),
    ({"position": 1.0}, 1.0, 60, 100.0, 8234.5, 8358.3, 8358.3),
]


def vehicle_noise(secret, epsilon=1.0, horizon=60, **options):
    options = {"models": "exact", "max_std": np.inf} | options
    return pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=horizon,
        adjacency=pc.StateAdjacency(secret),
        budget=pc.PrivacyBudget(epsilon=epsilon, delta=1e-2),
        **options,
    )


def vehicle_loop(noise, **options):
    return pc.private_lqg(pc.plants.vehicle(), **WEIGHTS, noise=noise, **options)


def test_what_is_said_of_the_optimum_counts_noise_of_any_size():
    """With the default cap the loop costs 0.06 % more than with another one."""
    A = [[1.0, 0.1], [0.0, 0.9]]
    plant = ct.ss(A, [[-0.6], [0.1]], [[1.3, -0.3]], 0, True)
    noise = pc.design_output_noise(
        plant,
        horizon=6,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency(1.0),
        models="exact",
        max_std=np.inf,
    )
    weights = {"Q": np.diag([1.0, 1e-6]), "R": 1, "QN": 1e-3, "RN": 1e-3}
    given = {
        **weights,
        "P0": [1.0, 20.0],
        "terminal": 0,
        "noise": noise,
        "codesign": True,
    }
    near = pc.private_lqg(plant, **given)
    far = pc.private_lqg(plant, cap=1e3, **given)
    saved = near.optimality.cost / far.optimality.cost - 1
    assert saved > 10 * near.optimality.gap
    said = str(near.optimality)
    assert float(said.split()[1]) >= 100 * saved
    assert said.endswith("% of that of every law")
    universal = near.optimality.cost / near.optimality.universal_bound - 1
    assert float(said.split()[-7]) >= 100 * universal


def test_no_law_costs_less_than_the_bound_of_a_laplace_loop_around_a_ball():
    """The bound was that of a ball sqrt(2) times as large: 12.7925, the ball law costs 12.7861."""
    start = pc.InitialStateAdjacency(1.0)
    noise = pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=6,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=start,
        models="exact",
        max_std=np.inf,
    )
    weights = {"Q": 1, "R": 1, "QN": 1e-2, "RN": 1e-2, "P0": 1.0, "terminal": 0}
    found = {
        family: pc.private_lqg(
            pc.plants.vehicle(), **weights, noise=noise, codesign=True, family=family
        ).optimality
        for family in ("gaussian", "laplace", "ball", "truncated")
    }
    least = min(one.cost for one in found.values())
    for one in found.values():
        assert one.universal_bound < least
        assert one.universal_bound == pytest.approx(found["ball"].universal_bound)


@pytest.mark.parametrize(
    "secret, epsilon, horizon, P0, public, knowing, best", few(TABLE, of=2)
)
def test_the_table_of_costs(secret, epsilon, horizon, P0, public, knowing, best):
    noise = vehicle_noise(secret, epsilon, horizon)
    loop = vehicle_loop(noise, P0=P0, terminal=0)
    quiet = vehicle_loop(None, P0=P0)
    designed = vehicle_loop(noise, P0=P0, terminal=0, codesign=True)
    cost = loop.cost(**cases.DRAWN)
    assert cost.total == pytest.approx(knowing, rel=2e-5)
    assert designed.cost(**cases.DRAWN).total == pytest.approx(best, rel=2e-5)
    assert designed.guarantee.satisfies(noise.request.budget)
    assert 0 <= designed.optimality.gap < 1e-6
    assert designed.optimality.excess < 3e-3
    without = quiet.cost(noise.timepts, **cases.DRAWN)
    assert without.total > public  # its gains have the terminal term in view
    assert public < cost.total


def test_the_terminal_term_of_the_riccati_equation():
    loop = vehicle_loop(vehicle_noise({"position": 1.0}), P0=4.0)
    cost = loop.cost(**cases.DRAWN)
    assert cost.total == pytest.approx(447.79, rel=1e-5)
    assert cost.total + cost.terminal == pytest.approx(504.94, rel=1e-5)
    assert loop.K.shape == (1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        observer = vehicle_loop(loop.noise)
    np.testing.assert_array_equal(loop.K, observer.K)


# -- a second route: conditional covariances of all samples together -----------------------


def random_plant(seed, states=3, outputs=2, inputs=2, radius=0.95):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(states, states))
    A *= radius / np.abs(np.linalg.eigvals(A)).max()
    names = [f"s{i}" for i in range(states)]
    B = rng.normal(size=(states, inputs))
    C = rng.normal(size=(outputs, states))
    labels = [f"u{i}" for i in range(inputs)]
    return ct.ss(A, B, C, 0, 1.0, states=names, inputs=labels)


def noise_of(kind, plant, horizon):
    """Output noise of a kind: structured, with a floor, independent, driven, or filtered."""
    options = {"models": "exact", "max_std": np.inf}
    secret = pc.StateAdjacency({"s0": 1.0}, times=0)
    if kind == "floored":
        options["floor"] = 0.5
    if kind == "rank two":
        secret = pc.StateAdjacency({"s0": 1.0, "s1": 0.3}, times=range(3))
    if kind == "independent":
        options["family"] = "iid-gaussian"
    if kind == "laplace":
        options["family"] = "laplace"
    budget = pc.PrivacyBudget(epsilon=1.0, delta=0.0 if kind == "laplace" else 1e-2)
    if kind == "driven":
        secret = pc.DisturbanceAdjacency({"u0": 1.0}, norm="l2")
    if kind == "correlated":
        secret = pc.DisturbanceAdjacency({"u0": 1.0})
    return pc.design_output_noise(
        plant, horizon=horizon, budget=budget, adjacency=secret, **options
    )


KINDS = [
    "structured",
    "floored",
    "rank two",
    "independent",
    "laplace",
    "driven",
    "correlated",
]


def dense(loop, P0):
    """Error covariances of x(t) given yhat(0 .. t) and yhat(0 .. t-1), by one conditioning each."""
    plant = loop.plant
    noise = loop.noise
    T = noise.horizon
    n = plant.nstates
    p = len(plant.C)
    W = loop.G @ loop.QN @ loop.G.T
    power = [np.linalg.matrix_power(plant.A, t) for t in range(T + 1)]
    var = [P0]
    for _ in range(T):
        var.append(plant.A @ var[-1] @ plant.A.T + W)
    X = np.zeros((T, n, T, n))
    for t in range(T):
        for s in range(t + 1):
            X[t, :, s] = power[t - s] @ var[s]
            X[s, :, t] = X[t, :, s].T
    gamma = np.zeros((T, p, T, p))
    for t in range(T):
        for s in range(T):
            gamma[t, :, s] = noise.covariance(t, s)
    cross = np.einsum("tisj,qj->tisq", X, plant.C)
    Y = np.einsum("pi,tisq->tpsq", plant.C, cross) + gamma
    for t in range(T):
        Y[t, :, t] += loop.RN
    after = []
    before = []
    for t in range(T):
        for count, found in ((t + 1, after), (t, before)):
            seen = Y[:count, :, :count].reshape(count * p, count * p)
            onto = cross[t, :, :count].reshape(n, count * p)
            found.append(X[t, :, t] - onto @ np.linalg.pinv(seen, 1e-13) @ onto.T)
    return np.array(after), np.array(before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("radius", [0.7, 1.05])
def test_covariances_are_those_of_all_samples_conditioned_at_once(kind, radius):
    plant = random_plant(3, radius=radius)
    noise = noise_of(kind, plant, 8)
    P0 = np.diag([2.0, 0.5, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loop = pc.private_lqg(plant, 1, 1, 0.1, 0.2, noise, P0=P0)
    after, before = dense(loop, P0)
    np.testing.assert_allclose(loop.estimate_covariance, after, atol=1e-9)
    np.testing.assert_allclose(loop.prediction_covariance, before, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_cost_is_that_of_its_formula(kind):
    """m'S_0 m + tr S_0 P0 + sum tr S_{t+1} W + sum tr N_t Sigma_t, Sigma_t by the second route."""
    plant = random_plant(5)
    T = 7
    noise = noise_of(kind, plant, T)
    P0 = np.diag([1.0, 2.0, 0.3])
    mean = np.array([1.0, -2.0, 0.5])
    terminal = np.diag([1.0, 0.0, 3.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loop = pc.private_lqg(
            plant, 1, 2, 0.1, 0.2, noise, P0=P0, initial_state=mean, terminal=terminal
        )
    after, _ = dense(loop, P0)
    value = terminal
    expected = 0.0
    for t in reversed(range(T)):
        price = loop.R + plant.B.T @ value @ plant.B
        gain = np.linalg.solve(price, plant.B.T @ value @ plant.A)
        np.testing.assert_allclose(loop.K[t], gain, atol=1e-12)
        expected += np.trace(value @ loop.QN)
        expected += np.trace(gain.T @ price @ gain @ after[t])
        value = loop.Q + plant.A.T @ value @ (plant.A - plant.B @ gain)
    expected += mean @ value @ mean + np.trace(value @ P0)
    cost = loop.cost(**cases.DRAWN)
    assert cost.total + cost.terminal == pytest.approx(expected, rel=1e-10)


def test_singular_readings_and_exact_knowledge_need_no_regularisation():
    """RN = 0, QN = 0 and P0 = 0 in a measured direction: V_t is singular from the start."""
    plant = ct.ss(
        [[0.9, 0.2], [0, 0.8]], [[0], [1]], np.eye(2), 0, 1.0, states=["a", "b"]
    )
    noise = pc.design_output_noise(
        plant,
        horizon=6,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency({"a": 1.0}, times=0),
        models="exact",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loop = pc.private_lqg(plant, 1, 1, 1e-3, 0, noise, P0=[4, 0])
        exact = pc.private_lqg(plant, 1, 1, 1e-3, 0.1, noise, P0=[4, 0])
    after, _ = dense(loop, np.diag([4.0, 0]))
    np.testing.assert_allclose(loop.estimate_covariance, after, atol=1e-10)
    after, _ = dense(exact, np.diag([4.0, 0]))
    np.testing.assert_allclose(exact.estimate_covariance, after, atol=1e-10)
    with pytest.warns(
        pc.PrivacyWarning, match="declares that part of the secret public"
    ):
        pc.private_lqg(plant, 1, 1, 1e-3, 0.1, noise, P0=[0, 4])


@pytest.mark.parametrize("kind", ["structured", "rank two", "floored", "independent"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_nothing_known_is_the_limit_of_a_large_prior(kind, outputs):
    plant = random_plant(11, outputs=outputs)
    noise = noise_of(kind, plant, 9)
    options = {"noise": noise, "form": "predictor"}
    nothing = pc.private_lqg(plant, 1, 1, 0.1, 0.2, estimator="kalman", **options)
    large = pc.private_lqg(plant, 1, 1, 0.1, 0.2, P0=1e8, **options)
    known = np.isfinite(nothing.estimate_covariance).all(axis=(1, 2))
    assert known[3:].all()
    np.testing.assert_allclose(
        nothing.estimate_covariance[known], large.estimate_covariance[known], 1e-4, 1e-5
    )
    np.testing.assert_allclose(nothing.L, large.L, rtol=1e-4, atol=1e-5)
    assert nothing.estimate_covariance[0].diagonal().max() == np.inf
    for t in range(9):  # unbiased for any start, once it is known
        assert np.isfinite(nothing.L[t]).all()


# -- simulation, the cloud's side and files -------------------------------------------------


@pytest.mark.parametrize("kind", ["floored", "driven", "correlated"])
@pytest.mark.parametrize("form", ["filter", "predictor"])
def test_the_cloud_answers_as_the_simulation_does(form, kind):
    plant = random_plant(2)
    noise = noise_of(kind, plant, 12)
    rng = np.random.default_rng(0)
    mean = rng.normal(size=3)
    loop = pc.private_lqg(
        plant, 1, 1, 0.1, 0.2, noise, P0=1, initial_state=mean, terminal=2, form=form
    )
    reference = rng.normal(size=(3, 12))
    fed = rng.normal(size=(2, 12))
    limits = [0.7, 0.5]
    response = loop.simulate(
        reference=reference, feedforward=fed, saturation=limits, rng=1, **cases.DRAWN
    )
    yhat, sent = np.split(np.asarray(response.outputs)[:, 0], [2])
    cloud = loop.online()
    np.testing.assert_array_equal(cloud.estimate, mean)
    known = loop.estimate_covariance
    if form == "predictor":
        known = loop.prediction_covariance
    applied = None
    for t in range(12):
        asked = cloud.step(
            yhat[:, t], reference[:, t], feedforward=fed[:, t], applied=applied
        )
        applied = np.clip(asked, -np.array(limits), limits)
        np.testing.assert_allclose(applied, sent[:, t], rtol=0, atol=1e-10)
        np.testing.assert_allclose(cloud.covariance, known[t], rtol=0, atol=1e-12)
    with pytest.raises(pc.PrivacyError, match="12 samples"):
        cloud.step(yhat[:, 0])


@pytest.mark.parametrize("kind", ["structured", "correlated"])
def test_a_function_gets_the_estimate_of_the_best_loop(kind):
    plant = random_plant(2)
    noise = noise_of(kind, plant, 8)
    best = pc.private_lqg(plant, 1, 1, 0.1, 0.2, noise, P0=1)

    def controller(t, yhat, estimate, reference):
        return -best.K @ estimate

    own = pc.private_loop(
        plant, controller=controller, noise=noise, QN=0.1, RN=0.2, P0=1
    )
    published = own.simulate(trials=3, rng=0).outputs
    expected = best.simulate(trials=3, rng=0).outputs
    np.testing.assert_allclose(published, expected, atol=1e-9)


@pytest.mark.parametrize("form", ["predictor", "filter"])
def test_the_cloud_takes_its_own_input_out_of_readings_that_pass_it_on(form):
    tank = ct.ss([[0.9, 0.1], [0, 0.8]], [[0], [1]], [[1, 0]], [[0.5]], 1.0)
    secret = pc.StateAdjacency({"x[0]": 0.1}, times=0)
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    noise = pc.design_output_noise(
        tank, horizon=20, adjacency=secret, budget=budget, models="exact"
    )
    gains = [[0.2, 0.3]], [[0.4], [0.1]]
    loop = pc.private_loop(tank, *gains, noise, form=form)
    run = loop.simulate(rng=0, initial_state=[1.0, 0.0])
    cloud = loop.online()
    asked = [cloud.step(yhat)[0] for yhat in run.outputs[0, 0]]
    np.testing.assert_allclose(asked, run.outputs[1, 0], atol=1e-12)


def test_a_lost_sample_is_predicted_and_the_filter_knows_it():
    plant = random_plant(2)
    noise = noise_of("structured", plant, 6)
    loop = pc.private_lqg(plant, 1, 1, 0.1, 0.2, noise, P0=1)
    blind = pc.private_lqg(plant, 1, 1, 0.1, 1e12, noise, P0=1)
    cloud = loop.online()
    cloud.step([0.3, -0.2])
    cloud.step(None)
    predicted = loop.prediction_covariance[1]
    np.testing.assert_allclose(cloud.covariance, predicted, atol=1e-12)
    cloud.step([0.1, 0.1])
    assert np.all(np.diag(cloud.covariance) > np.diag(loop.estimate_covariance[2]))
    alone = blind.online()
    for _ in range(3):
        alone.step(None)
    np.testing.assert_allclose(
        alone.covariance, blind.estimate_covariance[2], rtol=1e-6, atol=1e-9
    )


@pytest.mark.slow
@pytest.mark.parametrize("form", ["filter", "predictor"])
def test_the_cloud_knows_the_errors_of_its_estimates(form):
    """Against 1,500 runs stepped here, with a lost sample: four standard errors."""
    trials, samples, lost = 1500, 5, 2
    lag = ct.ss([[0.9, 0.3], [0, 0.7]], [[0], [1]], [[1, 0]], 0, 1)
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    secret = pc.StateAdjacency({"x[0]": 1.0}, times=0)
    noise = pc.design_output_noise(
        lag, horizon=samples, adjacency=secret, budget=budget, models="exact"
    )
    loop = pc.private_lqg(lag, 1, 1, 0.1, 0.2, noise, P0=1, form=form)
    rng = np.random.default_rng(5)
    state = rng.normal(size=(trials, 2))
    gamma = (
        rng.normal(size=(trials, noise.process.responses.shape[2]))
        @ noise.process.responses[:, 0].T
    )
    clouds = [loop.online() for _ in range(trials)]
    for t in range(samples):
        reading = state[:, 0] + gamma[:, t] + rng.normal(0, 0.2**0.5, trials)
        given = [None if t == lost else y for y in reading]
        asked = [cloud.step(y)[0] for cloud, y in zip(clouds, given)]
        errors = state - [cloud.estimate for cloud in clouds]
        expected = clouds[0].covariance
        found = errors.T @ errors / trials
        variance = np.diag(expected)
        spread = (np.outer(variance, variance) + expected**2) / trials
        assert (np.abs(found - expected) < 4 * np.sqrt(spread)).all()
        state = state @ lag.A.T + np.outer(asked, lag.B)
        state += rng.normal(0, 0.1**0.5, state.shape)


@pytest.mark.parametrize("options", [{}, {"terminal": 0}, {"integral": "y[0]"}])
def test_a_loaded_loop_and_a_system_run_the_same_numbers(options, tmp_path):
    plant = random_plant(4)
    noise = noise_of("structured", plant, 10)
    loop = pc.private_lqg(plant, 1, 1, 0.1, 0.2, noise, P0=[1, 2, 3], **options)
    loop.save(tmp_path / "loop.json")
    loaded = pc.load(tmp_path / "loop.json")
    response = loop.simulate(rng=3, **cases.DRAWN)
    same = loaded.simulate(rng=3, **cases.DRAWN)
    np.testing.assert_array_equal(response.outputs, same.outputs)
    assert loaded.cost(**cases.DRAWN) == loop.cost(**cases.DRAWN)
    assert pickle.loads(pickle.dumps(loop)).cost(**cases.DRAWN) == loop.cost(
        **cases.DRAWN
    )
    cloud = loop.online()
    again = loaded.online()
    for yhat in np.asarray(response.outputs)[:2, 0].T:
        np.testing.assert_array_equal(cloud.step(yhat), again.step(yhat))
    quiet = loop.simulate(rng=5)
    start = np.zeros(loop.system.nstates)
    answer = ct.input_output_response(
        loop.system, quiet.time, np.asarray(quiet.inputs)[:, 0], start
    )
    np.testing.assert_allclose(
        answer.outputs, np.asarray(quiet.outputs)[:, 0], atol=1e-12
    )


def test_the_controller_goes_into_an_interconnection():
    loop = vehicle_loop(vehicle_noise({"position": 1.0}, horizon=20), P0=1.0)
    vehicle = pc.plants.vehicle()
    gate = pc.create_channel_iosystem(loop.noise)
    whole = ct.interconnect(
        [vehicle, gate, loop.controller],
        inplist=["eta[0]"],
        outlist=["yhat[0]", "u"],
        inputs=["eta[0]"],
        outputs=["yhat[0]", "u"],
    )
    response = loop.simulate(rng=0)
    eta = np.asarray(response.inputs)[-1, 0]
    answer = ct.input_output_response(whole, response.time, eta)
    np.testing.assert_allclose(
        answer.outputs, np.asarray(response.outputs)[:, 0], atol=1e-12
    )
    with pytest.raises(ValueError, match="gains of this loop, or its plant, vary"):
        loop.poles()


def test_exact_cost_and_errors_are_those_of_trials_and_a_filter_told_wrong_is_seen():
    """20,000 trials, 4 standard errors; the claim of a filter told of smaller noise is off."""
    noise = vehicle_noise({"position": 1.0}, horizon=40)
    loop = vehicle_loop(noise, P0=1.0)
    told = vehicle_loop(noise.with_std(0.9 * float(noise.std[0])), P0=1.0)
    wrong = dataclasses.replace(told, data=dataclasses.replace(told.data, noise=noise))
    for one, claim in ((loop, loop), (wrong, told)):
        response = one.simulate(trials=20_000, rng=0, **cases.DRAWN)
        states = np.asarray(response.states)
        error = (states[0] - states[2])[:, -1]  # before the reading
        squares = error**2
        spread = squares.std() / np.sqrt(len(squares))
        excess = squares.mean() - claim.prediction_covariance[-1, 0, 0]
        assert (abs(excess) < 4 * spread) == (one is loop)
        exact = one.mean_square_error(**cases.DRAWN)[0, -1]
        squares = states[0, :, -1] ** 2
        spread = squares.std() / np.sqrt(len(squares))
        assert abs(squares.mean() - exact) < 4 * spread


# -- margins ---------------------------------------------------------------------------------


@pytest.mark.parametrize("P0, margin, bonferroni", [(1.0, 3.04, 3.45), (4.0, 4.51, 5.34), (None, 5.21, 7.31)])  # fmt: skip
def test_margins_of_the_vehicle(P0, margin, bonferroni):
    """After the reading they are 2.97, 4.44 and 5.14 (tests/stress/best_loops.py)."""
    loop = vehicle_loop(
        vehicle_noise({"position": 1.0}, horizon=100), P0=P0, estimator="kalman"
    )
    margins = loop.margins([1, 0], probability=0.01)
    assert margins[-1] == pytest.approx(margin, abs=0.01)
    tail = scipy.stats.norm.isf(0.005 / 100)
    spread = np.sqrt(loop.prediction_covariance[-1, 0, 0])
    assert tail * spread == pytest.approx(bonferroni, abs=0.01)


@pytest.mark.parametrize(
    "kind", ["structured", "rank two", "floored", "independent", "correlated"]
)
def test_margins_hold_jointly_over_the_run(kind):
    """5,000 runs at 10 %; 0.6 of the margin does not hold."""
    plant = random_plant(7, radius=1.0)
    loop = pc.private_lqg(plant, 1, 1, 0.01, 0.1, noise_of(kind, plant, 30), P0=1)
    direction = np.array([1.0, -0.5, 0.2])
    margins = loop.margins(direction, probability=0.1)
    states = np.asarray(loop.simulate(trials=5_000, rng=2, **cases.DRAWN).states)
    errors = np.abs(np.tensordot(direction, states[:3] - states[3:6], 1))
    assert (errors > margins).any(axis=1).mean() <= 0.1
    assert (errors > 0.6 * margins).any(axis=1).mean() > 0.1


@pytest.mark.parametrize("seed", range(3))
def test_noise_that_no_reading_reveals_is_one_vector(seed):
    """Nothing is known of x(0), so no reading tells A^t S eta from the plant's own state."""
    plant = random_plant(seed, radius=1.0)
    samples, probability = 60, 0.05
    noise = pc.design_output_noise(
        plant,
        horizon=samples,
        budget=cases.BUDGET,
        adjacency=pc.StateAdjacency(1.0, times=0),
        models="exact",
    )
    loops = [
        pc.private_lqg(plant, 1, 1, 1e-4, 1e-2, own, P0=None, estimator="kalman")
        for own in (noise, None)
    ]
    direction = np.array([1.0, -0.5, 0.2])
    margins = loops[0].margins(direction, probability=probability)
    quiet = loops[1].margins(direction, probability=probability, horizon=samples)
    each = scipy.stats.norm.isf(probability / (2 * samples))
    rest = quiet / each
    caused = np.empty(samples)
    column = noise.factor
    for t in range(samples):
        caused[t] = np.linalg.norm(direction @ column)
        column = plant.A @ column
    candidates = [each * np.hypot(rest, caused)]
    for share in np.linspace(0.01, 0.99, 99):
        radius = scipy.stats.chi.isf(probability * share, noise.factor.shape[1])
        tail = scipy.stats.norm.isf(probability * (1 - share) / (2 * samples))
        candidates.append(tail * rest + radius * caused)
    known = np.isfinite(margins)
    least = min(candidates, key=lambda each: each[known].sum())
    np.testing.assert_allclose(margins[known], least[known], rtol=1e-6)


# -- the optimum -----------------------------------------------------------------------------


def small_request(seed, states, horizon, outputs=1):
    plant = random_plant(seed, states=states, outputs=outputs)
    rng = np.random.default_rng(seed + 50)
    secret = pc.StateAdjacency(
        {f"s{i}": float(rng.uniform(0.3, 2)) for i in range(states)}, times=0
    )
    asked = {
        "horizon": horizon,
        "adjacency": secret,
        "budget": pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        "models": "exact",
        "max_std": np.inf,
    }
    return plant, asked


def whole_cost(loop):
    cost = loop.cost(**cases.DRAWN)
    return cost.total + cost.terminal


@pytest.mark.parametrize("seed", few(range(6), of=3))
def test_a_codesign_never_costs_more_however_far_apart_the_moves_are(seed):
    """Modes that contract make moves of later samples up to 1e11 times as large."""
    rng = np.random.default_rng(seed)
    states = 6 if seed == 0 else int(rng.integers(1, 7))
    plant = random_plant(seed, states, radius=[0.95, 0.95, 1.05][seed % 3])
    noise = pc.design_output_noise(
        plant,
        horizon=20,
        adjacency=pc.StateAdjacency(1.0, times=None if seed == 0 else range(6)),
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        models="exact",
        max_std=np.inf,
    )
    given = pc.private_lqg(plant, 1, 1, 0.01, 0.01, noise, P0=1)
    best = pc.private_lqg(plant, 1, 1, 0.01, 0.01, noise, P0=1, codesign=True)
    assert whole_cost(best) <= whole_cost(given)
    assert best.guarantee.satisfies(noise.request.budget)
    if seed == 0:
        assert whole_cost(best) < 0.99 * whole_cost(given)


@pytest.mark.parametrize("states, horizon", [(6, 100), (4, 40)])
def test_noise_that_double_precision_cannot_filter_says_what_to_do(states, horizon):
    """Moves of modes that have decayed are 1e16 and 1e53 times as large at the start."""
    plant = random_plant(0, states)
    noise = pc.design_output_noise(
        plant,
        horizon=horizon,
        adjacency=pc.StateAdjacency(1.0),
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        models="exact",
        max_std=np.inf,
    )
    with pytest.raises(pc.UncertifiableError, match="protect fewer times"):
        pc.private_lqg(plant, 1, 1, 0.01, 0.01, noise, P0=1)


@pytest.mark.parametrize("seed", range(2))
def test_a_codesign_for_fewer_moves_than_states_finds_the_optimum(seed):
    """The least noise has a direction as small as rounding, which hides no move."""
    plant = random_plant(seed, 4, radius=1.1)
    noise = pc.design_output_noise(
        plant,
        horizon=7,
        adjacency=pc.StateAdjacency({"s0": 1.0}, times=range(3)),
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        models="exact",
        max_std=np.inf,
    )
    assert noise.factor.shape == (4, 4)
    given = pc.private_lqg(plant, 1, 1, 0.01, 0.01, noise, P0=1)
    best = pc.private_lqg(plant, 1, 1, 0.01, 0.01, noise, P0=1, codesign=True)
    assert whole_cost(best) < 0.99 * whole_cost(given)
    assert 0 <= best.optimality.gap < 1e-6
    assert best.optimality.excess < 1e-3
    assert best.guarantee.satisfies(noise.request.budget)


def test_no_bound_of_the_cost_is_below_that_of_a_loop_without_noise():
    plant = random_plant(0, 4, outputs=1, inputs=1, radius=1.1)
    noise = pc.design_output_noise(
        plant,
        horizon=7,
        adjacency=pc.DisturbanceAdjacency({"u0": 0.5}),
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        models="exact",
        max_std=np.inf,
    )
    loop = pc.private_lqg(plant, 1, 1, 0.01, 0.1, noise, P0=1)
    quiet = loop.with_noise(None).cost(noise.timepts, **cases.DRAWN)
    found = loop.optimality
    assert found.lower_bound >= (quiet.total + quiet.terminal) * (1 - 1e-12)
    assert found.excess >= 0


@pytest.mark.parametrize(
    "seed, form", few([(0, "filter"), (1, "predictor"), (1, "filter")], of=2)
)
def test_a_search_over_all_shapes_of_noise_ends_at_the_certified_optimum(seed, form):
    plant, asked = small_request(seed, 2, 5)
    noise = pc.design_output_noise(plant, **asked)
    options = {"P0": 1, "codesign": True, "form": form}
    loop = pc.private_lqg(plant, 1, 1, 0.1, 0.2, noise, **options)
    assert 0 <= loop.optimality.gap < 1e-6
    assert loop.guarantee.satisfies(loop.noise.request.budget)
    assert loop.optimality.cost == pytest.approx(whole_cost(loop), rel=1e-12)

    def priced(shape):
        factor = np.array([[np.exp(shape[0]), 0], [shape[1], np.exp(-shape[0])]])
        other = pc.design_output_noise(plant, factor=factor, scale=True, **asked)
        return whole_cost(loop.with_noise(other))

    options = {
        "initial_simplex": [[0, 0], [1, 0], [0, 1]],
        "xatol": 0.02,
        "fatol": 1e-3,
    }
    found = scipy.optimize.minimize(
        priced, (0, 0), method="Nelder-Mead", options=options
    ).fun
    uncapped = loop.optimality.cost / (1 + loop.optimality.excess)
    assert uncapped * (1 - 1e-9) <= found
    assert found == pytest.approx(loop.optimality.cost, rel=1e-4)


@pytest.mark.parametrize("seed", few([0, 15], of=1))
def test_the_bound_of_a_disturbance_beside_an_unstable_plant_is_found(seed):
    """Its best noise is 400 times as large in directions that cost nothing."""
    plant = random_plant(seed, radius=1.05)
    secret = pc.DisturbanceAdjacency({"u1": 1.0})
    noise = pc.design_output_noise(
        plant,
        horizon=9,
        adjacency=secret,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        max_std=np.inf,
    )
    asked = {"controls": ["u0"], "P0": 1, "codesign": True}
    best = pc.private_lqg(plant, 1, 1, 0.1, 0.05, noise, **asked)
    assert 0 <= best.optimality.gap < 0.1


# -- what the second route says of the guarantee --------------------------------------------


def test_a_wrong_public_prior_costs_accuracy_and_no_privacy():
    """The shift of all that is published, by the loop's own response to a move of x(0)."""
    noise = vehicle_noise({"position": 1.0}, horizon=30)
    claim = noise.guarantee.gdp
    for P0, told in ((4.0, {}), (0.04, {}), (100.0, {"initial_state": [3.0, 1.0]})):
        loop = vehicle_loop(noise, P0=P0, terminal=0, **told)
        T = noise.horizon
        moved = loop.data.dynamics.run(np.eye(loop.data.dynamics.size, 1), {}, T)[1]
        drawn = loop.data.dynamics.run(
            np.zeros((loop.data.dynamics.size, 1)),
            {"noise": noise.process.responses},
            T,
        )[1]
        move = moved[:, :, 0].ravel()
        factor = drawn.reshape(len(move), -1)
        coordinates = np.linalg.lstsq(factor, move, rcond=None)[0]
        np.testing.assert_allclose(factor @ coordinates, move, atol=1e-9)
        assert np.linalg.norm(coordinates) <= claim * (1 + 1e-9)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "laplace"])
def test_wrong_public_weights_and_priors_leave_the_privacy_of_all_kinds(kind):
    """Sampled moves through the closed loop, against the noise of all that is published."""
    plant = random_plant(5)
    T = 8
    noise = noise_of(kind, plant, T)
    rng = np.random.default_rng(0)
    white = np.eye(T * noise.process.outputs) * np.tile(noise.process.total.white, T)
    white = white.reshape(T, noise.process.outputs, -1)[
        :, :, np.tile(noise.process.total.white, T) > 0
    ]
    eta = np.concatenate([noise.process.responses, white], axis=2)
    told = [
        {"QN": 0.1, "RN": 0.2, "P0": 1.0},
        {"QN": 7.0, "RN": 1e-3, "P0": 0.02, "initial_state": [1.0, -2.0, 3.0]},
    ]
    for public in told:
        QN, RN = public.pop("QN"), public.pop("RN")
        loop = pc.private_lqg(plant, 1, 1, QN, RN, noise, **public)
        dynamics = loop.data.dynamics
        rest = np.zeros((dynamics.size, 1))
        drawn = dynamics.run(rest, {"noise": eta}, T)[1]
        starts = np.eye(dynamics.size, 2)
        hidden = {"rank two": [1.0, 0.3]}.get(kind, [1.0, 0.0])
        if kind in ("driven", "correlated"):
            B = loop.plant.B[:, 0]
            moved = []
            for _ in range(6):
                w = (
                    rng.normal(size=T)
                    if kind == "driven"
                    else np.eye(T)[rng.integers(T)]
                )
                w = w / np.linalg.norm(w)
                drive = {"disturbance": (w[:, None] * B)[:, :, None]}
                moved.append(dynamics.run(rest, drive, T)[1])
            moves = np.concatenate(moved, axis=2)
        else:
            moves = dynamics.run(starts * hidden, {}, T)[1]
        factor = drawn.reshape(-1, drawn.shape[2])
        columns = moves.reshape(len(factor), -1)
        left = np.linalg.lstsq(factor, columns, rcond=1e-11)[0]
        np.testing.assert_allclose(factor @ left, columns, atol=1e-7)
        assert np.linalg.norm(left, axis=0).max() <= noise.guarantee.gdp * (1 + 1e-6)


def test_noise_without_a_finite_state_is_no_system_and_needs_a_prior():
    plant = random_plant(2)
    noise = noise_of("correlated", plant, 6)
    loop = pc.private_lqg(plant, 1, 1, 0.1, 0.2, noise, P0=1)
    assert loop.L is None
    for name in ("system", "closed_loop", "controller"):
        with pytest.raises(ValueError, match="no finite state"):
            getattr(loop, name)
    with pytest.raises(ValueError, match="needs a covariance of x"):
        pc.private_lqg(plant, 1, 1, 0.1, 0.2, noise, estimator="kalman")
    with pytest.raises(ValueError, match="singular together with this noise"):
        pc.private_lqg(plant, 1, 1, 0, 0, noise, P0=0)


@pytest.mark.parametrize("P0, true", [(0.04, 592), (100.0, 495)])
def test_a_wrong_prior_claims_what_does_not_hold(P0, true):
    noise = vehicle_noise({"position": 1.0}, horizon=60)
    loop = vehicle_loop(noise, P0=P0, terminal=0)
    cost = loop.cost(disturbance="design", measurement_noise="design")
    starts = [loop.cost(initial_state=2.0 * axis) for axis in np.eye(2)]
    total = cost.total + sum(start.regulation for start in starts)
    assert total == pytest.approx(true, rel=2e-3)


# -- never worse ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", few(range(8), of=3))
def test_a_right_prior_never_costs_more_than_other_loops(seed):
    """Cost and terminal term, beside those of the papers' observer and of no control."""
    rng = np.random.default_rng(seed)
    states = int(rng.integers(1, 5))
    plant = random_plant(
        seed, states=states, outputs=min(states, 2), radius=rng.uniform(0.6, 1.1)
    )
    kind = rng.choice(["structured", "floored", "independent", "driven", "correlated"])
    noise = noise_of(kind, plant, 15)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"noise": noise, "P0": float(rng.uniform(0.1, 5))}
        best = pc.private_lqg(plant, 1, 1, 0.1, 0.1, **options)
        observer = pc.private_lqg(
            plant, 1, 1, 0.1, 0.1, estimator="observer", **options
        )
    idle = pc.private_lqg(plant, 1, 1e12, 0.1, 0.1, **options)
    idle = dataclasses.replace(
        best, data=dataclasses.replace(best.data, law=idle.data.law)
    )
    costs = [whole_cost(loop) for loop in (best, observer, idle)]
    assert costs[0] <= min(costs[1:]) * (1 + 1e-9)


# -- disturbances, in turns ---------------------------------------------------------------------


def tank_loop(horizon=15, beside=(), **options):
    tank = ct.ss(
        [[0.9, 0.1], [0, 0.8]],
        [[0, 1.0], [1, 0]],
        [[1, 0]],
        0,
        1.0,
        states=["a", "b"],
        inputs=["u", "w"],
    )
    noise = pc.design_output_noise(
        tank,
        horizon=horizon,
        adjacency=[pc.DisturbanceAdjacency({"w": 1.0}, **options), *beside],
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
    )
    weights = {"Q": 1, "R": 1, "QN": 0.1, "RN": 0.1, "controls": ["u"]}
    return pc.private_lqg(tank, **weights, noise=noise, P0=1, codesign=True)


@pytest.mark.parametrize(
    "options",
    [{}, {"horizon": 8, "duration": 3, "shape": "level"}, {"norm": "l2"}],
)
def test_turns_end_near_the_certified_optimum_of_a_disturbance(options):
    loop = tank_loop(**options)
    steps = [cost for _, cost in loop.history]
    assert all(later < earlier for earlier, later in pairwise(steps))
    optimality = loop.optimality
    assert 0 <= optimality.gap < 3e-3
    assert loop.guarantee.satisfies(loop.noise.request.budget)
    cost = loop.cost(**cases.DRAWN)
    assert optimality.cost == pytest.approx(cost.total + cost.terminal, rel=1e-12)


BESIDE = [pc.InitialStateAdjacency({"a": 0.5})]


@pytest.mark.parametrize("options", [{}, {"norm": "l2", "beside": BESIDE}])
def test_no_other_noise_for_the_disturbance_is_below_the_bound(options):
    """Sixty random noises that keep the budget, with their own filters."""
    loop = tank_loop(horizon=8, **options)
    assert 0 <= loop.optimality.gap < 0.1
    noise = loop.noise
    request = noise.request
    asked = {"horizon": 8, "adjacency": request.adjacency, "budget": request.budget}
    lower = loop.optimality.lower_bound
    best = [[noise.covariance(t, s)[0, 0] for s in range(8)] for t in range(8)]
    known = np.linalg.pinv(best)
    rng = np.random.default_rng(0)
    for k in range(30):
        root = rng.normal(size=(8, 8))
        information = root @ root.T
        if k % 2:
            scale = np.linalg.norm(known) / np.linalg.norm(information)
            information = known + 0.1 * scale * information
        factor = np.linalg.cholesky(np.linalg.inv(information))
        other = pc.design_output_noise(
            loop.plant, factor=factor, scale=True, **asked, max_std=np.inf
        )
        assert whole_cost(loop.with_noise(other)) >= lower


def test_a_loop_that_never_stops_has_a_gap_too():
    room = ct.ss(
        0.9, [[1, 0.1]], 1, 0, 300.0, states=["air"], inputs=["heat", "people"]
    )
    noise = pc.design_output_noise(
        room,
        horizon=np.inf,
        adjacency=pc.DisturbanceAdjacency({"people": 1.0}),
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
    )
    weights = {"Q": 1, "R": 1, "QN": 1e-2, "RN": 1e-2, "controls": ["heat"]}
    separate = pc.private_lqg(room, **weights, noise=noise)
    together = pc.private_lqg(room, **weights, noise=noise, codesign=True)
    assert 0 <= together.optimality.gap < 0.02
    assert separate.optimality.gap > together.optimality.gap
    assert separate.optimality.lower_bound <= together.optimality.cost


def battery_loop(**given):
    """A store that a meter reads: dear in few directions, so noise may grow at will."""
    house = ct.ss(1.0, [[0.25, -0.25]], 1.0, 0, 0.25, inputs=["charger", "load"])
    noise = pc.design_output_noise(
        house,
        horizon=12,
        adjacency=pc.DisturbanceAdjacency({"load": 2.0}, duration=2),
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
    )
    weights = {"Q": 1, "R": 0.1, "QN": 0.01, "RN": 0.01, "controls": ["charger"]}
    return pc.private_lqg(house, **weights, noise=noise, P0=1.0, **given)


@pytest.mark.parametrize("cap", [1.5, 10.0])
def test_turns_choose_no_noise_far_above_that_of_least_variance(cap):
    """It was 60 times as large, for a cost that is equal to 5e-5."""
    plain = battery_loop()
    best = battery_loop(codesign=True, cap=cap)
    assert np.sum(best.noise.stds**2) <= cap**2 * np.sum(plain.noise.stds**2)
    assert (best.noise.std < 2.5 * plain.noise.std).all()
    steps = [cost for _, cost in best.history]
    assert steps[-1] < 0.9996 * steps[0]
    one, other = (loop.cost(**cases.DRAWN) for loop in (plain, best))
    assert steps[0] == pytest.approx(one.total + one.terminal)
    assert steps[-1] == pytest.approx(other.total + other.terminal)


def test_of_windows_only_the_loop_without_noise_is_known():
    """Within 1060 % of the least cost of noise of this law, was said of good noise."""
    loop = battery_loop()
    found = loop.optimality
    quiet = battery_loop().with_noise(None)
    cost = quiet.cost(**cases.DRAWN)
    assert found.lower_bound == pytest.approx(cost.total + cost.terminal)
    assert str(found).endswith(
        "% of the least cost of a loop without noise, the only bound known for this secret"
    )
    level = tank_loop(horizon=8, duration=3, shape="level").optimality
    assert "of the least cost of noise of this law" in str(level)
