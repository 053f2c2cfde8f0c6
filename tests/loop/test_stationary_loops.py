"""Loops with noise that has no horizon: observers, steady states, co-design, finite runs."""

import dataclasses
import warnings

import control as ct
import numpy as np
import pytest
import scipy.linalg

import privcontrol as pc
from privcontrol.loop import moments, optimality

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
ROOM = ct.ss(
    [[0.9, 0.05], [0.1, 0.8]],
    [[0.5, 0.3], [0.0, 0.1]],
    [[1.0, 0.0]],
    0,
    300.0,
    states=["air", "wall"],
    inputs=["heat", "people"],
    outputs=["temperature"],
)
PEOPLE = pc.DisturbanceAdjacency({"people": 0.3}, duration=3, shape="level")
TUNING = {"Q": np.diag([1.0, 0.1]), "R": 0.1, "QN": 1e-2, "RN": 1e-3}


def design(**options):
    return pc.design_output_noise(
        ROOM, horizon=np.inf, budget=BUDGET, adjacency=PEOPLE, **options
    )


def lqg(noise, **options):
    return pc.private_lqg(ROOM, **TUNING, noise=noise, controls=["heat"], **options)


@pytest.fixture(scope="module")
def noise():
    return design()


def test_a_secret_input_that_the_controller_drives_is_warned_of(noise):
    with pytest.warns(pc.PrivacyWarning, match=r"drives people .* controls=\['heat'\]"):
        pc.private_lqg(ROOM, **TUNING, noise=noise)


def test_named_controls_are_not_warned_of(noise):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lqg(noise)
        pc.private_lqg(ROOM, **TUNING, noise=noise, controls=["heat", "people"])


@pytest.mark.parametrize("form", ["predictor", "filter"])
def test_a_finite_run_approaches_the_steady_state(noise, form):
    loop = lqg(noise, form=form)
    samples = 400
    errors = loop.mean_square_error(
        300.0 * np.arange(samples), disturbance="design", measurement_noise="design"
    )
    assert np.allclose(errors[:, -1], loop.steady_state_error(), rtol=1e-9)
    runs = [
        loop.cost(
            300.0 * np.arange(count), disturbance="design", measurement_noise="design"
        )
        for count in (samples, samples + 1)
    ]
    steady = loop.steady_state_cost()
    assert runs[1].total - runs[0].total == pytest.approx(steady.total, rel=1e-8)
    assert runs[1].privacy - runs[0].privacy == pytest.approx(steady.privacy, rel=1e-8)


@pytest.mark.parametrize("form", ["predictor", "filter"])
def test_the_observer_is_python_controls_filter_of_plant_and_noise(noise, form):
    """With independent process and measurement noise the gain is that of ``ct.dlqe``.

    The noise's state is moved one sample earlier, so nothing acts at once on both.
    """
    model = noise.process.total.model
    k = model.order
    loop = lqg(noise, form=form)
    delayed = np.block([[model.A, model.B], [np.zeros((1, k + 1))]])
    A = np.block([[ROOM.A, np.zeros((2, k + 1))], [np.zeros((k + 1, 2)), delayed]])
    C = np.hstack([ROOM.C, model.C, model.D])
    entry = np.zeros((k + 3, 3))
    entry[:2, :2], entry[-1, 2] = 0.1 * np.eye(2), 1.0
    _, covariance, _ = ct.dlqe(A, entry, C, np.eye(3), [[1e-3]], method="scipy")
    innovation = C @ covariance @ C.T + 1e-3
    corrected = covariance @ C.T / innovation
    expected = corrected[:2] if form == "filter" else (A @ corrected)[:2]
    assert np.allclose(loop.L[:2], expected, rtol=1e-6, atol=1e-9)


def test_knowing_the_noise_beats_taking_it_for_white(noise):
    loop = lqg(noise)
    informed = loop.steady_state_cost().total
    for scale in (0.0, 1.0, 10.0):
        spread = 1e-3 + scale * noise.std[0] ** 2
        gain = ct.dlqe(ROOM.A, np.eye(2), ROOM.C, 1e-2 * np.eye(2), [[spread]])[0]
        other = pc.private_loop(
            ROOM,
            loop.K,
            gain,
            noise,
            **{**TUNING, "QN": 1e-2 * np.eye(2)},
            controls=["heat"],
        )
        assert informed < other.steady_state_cost().total


def test_simulated_errors_are_the_exact_ones(noise):
    """2000 trials of 60 samples; the limit is six standard errors of a variance."""
    loop = lqg(noise)
    timepts = 300.0 * np.arange(60)
    response = loop.simulate(timepts, trials=2000, rng=0)
    exact = loop.mean_square_error(timepts)
    measured = np.mean(response.states[:2] ** 2, axis=1)
    error = 6 * np.sqrt(2 / 2000)
    assert np.all(np.abs(measured - exact)[:, 5:] < error * exact[:, 5:])
    assert response.guarantee == noise.guarantee


def test_one_trial_is_that_of_python_control(noise):
    loop = lqg(noise)
    timepts = 300.0 * np.arange(30)
    response = loop.simulate(timepts, reference=[1.0, 0.0], trials=2, rng=3)
    inputs = response.inputs[:, 1]
    initial = np.zeros(loop.system.nstates)
    theirs = ct.forced_response(loop.system, timepts, inputs, initial)
    assert np.allclose(theirs.outputs, response.outputs[:, 1])


@pytest.mark.parametrize("form", ["predictor", "filter"])
def test_a_controller_of_ones_own_gets_the_observers_estimate(noise, form):
    loop = lqg(noise, form=form)
    timepts = 300.0 * np.arange(20)
    theirs = loop.simulate(timepts, trials=2, rng=1)
    mine = loop.simulate(
        timepts, trials=2, rng=1, controller=lambda t, xhat, xd: -loop.K @ (xhat - xd)
    )
    assert np.allclose(mine.outputs, theirs.outputs)


def test_times_must_be_given(noise):
    with pytest.raises(ValueError, match="pass the time points"):
        lqg(noise).simulate(trials=1, rng=0)


def test_noise_for_the_loop_costs_the_loop_less(noise):
    loop = lqg(noise)
    shaped = design(weight=loop)
    kept = dataclasses.replace(loop, data=dataclasses.replace(loop.data, noise=shaped))
    assert kept.steady_state_cost().privacy < loop.steady_state_cost().privacy
    assert kept.steady_state_cost().privacy == pytest.approx(shaped.design.cost)
    tuned = loop.with_noise(shaped)
    assert tuned.steady_state_cost().total < kept.steady_state_cost().total
    white = loop.with_noise(design(family="iid-gaussian"))
    assert tuned.steady_state_cost().total < white.steady_state_cost().total


def test_codesign_only_improves(noise):
    separate = lqg(noise)
    together = lqg(noise, codesign=True)
    costs = [cost for _, cost in together.history]
    assert costs[0] == pytest.approx(separate.steady_state_cost().total)
    assert together.steady_state_cost().total == pytest.approx(costs[-1])
    assert costs[-1] <= costs[0]
    assert together.guarantee.satisfies(BUDGET)
    # a loop that does worse than no measurement at all would be a defect
    heedless = pc.private_loop(
        ROOM, together.K, np.zeros((2, 1)), None, **TUNING, controls=["heat"]
    )
    assert costs[-1] <= heedless.steady_state_cost().total


def test_the_tradeoff_without_a_horizon_falls_with_epsilon():
    result = pc.tradeoff(
        ROOM,
        np.diag([1.0, 0.1]),
        0.1 * np.eye(2),
        1e-2,
        1e-3,
        horizon=np.inf,
        adjacency=PEOPLE,
        epsilons=[0.3, 1.0],
        delta=1e-2,
        designs=("trace", "loop", "iid", "codesign"),
    )
    for name in ("trace", "loop", "iid", "codesign"):
        costs = result.total(name)
        assert costs[0] > costs[1] > result.public.total
        loop = result.loop(name, 1.0)
        assert loop.steady_state_cost().total == pytest.approx(costs[1])
        assert np.all(costs <= result.open_loop.total)
    assert np.all(result.total("loop") <= result.total("trace"))
    assert np.all(result.total("codesign") <= result.total("loop") * (1 + 1e-9))
    assert repr(result).endswith("no horizon)")
    assert "of a sample" in result.plot().axes[0, 0].get_ylabel()


def test_noise_with_a_horizon_has_no_steady_state():
    finite = pc.design_output_noise(ROOM, horizon=20, budget=BUDGET, adjacency=PEOPLE)
    with pytest.raises(ValueError, match="ends after 20 samples"):
        lqg(finite).steady_state_cost()


def test_an_unstable_loop_has_no_steady_state(noise):
    plant = ct.ss(1.1, [[1.0, 0.0]], 1.0, 0, 1)
    loop = pc.private_loop(plant, [[0.0], [0.0]], [[0.5]], Q=1, R=np.eye(2))
    with pytest.raises(ValueError, match="not stable"):
        loop.steady_state_cost()


def test_long_runs_of_a_loop_get_noise_of_low_order_within_the_gap():
    """Against the dense optimum, and the loop's own expected cost."""
    loop = lqg(None)
    event = pc.DisturbanceAdjacency({"people": 0.3})
    asked = {"horizon": 300, "budget": BUDGET, "adjacency": event, "weight": loop}
    low = pc.design_output_noise(ROOM, **asked, gap=0.1)
    dense = pc.design_output_noise(ROOM, **asked, gap=1e-9)
    assert "filtered" in repr(low)
    assert "correlated" in repr(dense)
    assert low.design.gap <= 0.1
    assert low.design.lower_bound <= dense.design.cost * (1 + 1e-6)
    assert dense.design.lower_bound <= low.design.cost <= 1.1 * dense.design.cost
    assert loop.with_noise(low).cost().privacy == pytest.approx(
        low.design.cost, rel=1e-9
    )
    assert low.guarantee.satisfies(BUDGET)


@pytest.mark.parametrize("form", ["predictor", "filter"])
@pytest.mark.parametrize("is_public", [False, True])
def test_covariance_and_gains_after_lost_samples_count_what_was_read(
    noise, form, is_public
):
    """A Riccati recursion of plant and noise that skips the readings that were lost."""
    if is_public:
        loop = lqg(None, P0=1.0, form=form)
        model = ct.ss([], [], [], 0, 300.0)
    else:
        loop = lqg(noise, form=form)
        model = noise.process.total.model
    A = scipy.linalg.block_diag(ROOM.A, model.A)
    C = np.hstack([ROOM.C, model.C])
    moved = scipy.linalg.block_diag(0.1 * np.eye(2), model.B)
    read = np.hstack([np.zeros((1, 2)), model.D])
    fresh = moved @ moved.T
    V = read @ read.T + 1e-3
    cross = moved @ read.T
    P = np.eye(2)
    if not is_public:
        P = scipy.linalg.solve_discrete_are(A.T, C.T, fresh, V, s=cross)
    z = np.zeros(len(A))
    cloud = loop.online()
    B = np.vstack([ROOM.B[:, [0]], np.zeros((len(A) - 2, 1))])
    rng = np.random.default_rng(0)
    for t in range(12):
        yhat = None if t in (3, 4, 8) else rng.normal(size=1)
        u = cloud.step(yhat)
        gain = advance = np.zeros((len(A), 1))
        if yhat is not None:
            weight = np.linalg.inv(C @ P @ C.T + V)
            gain = P @ C.T @ weight
            advance = (A @ P @ C.T + cross) @ weight
        innovation = np.zeros(1) if yhat is None else yhat - C @ z
        estimate = z + gain @ innovation
        known = estimate if form == "filter" else z
        np.testing.assert_allclose(u, -loop.K @ known[:2], rtol=1e-7, atol=1e-9)
        error = P - gain @ C @ P if form == "filter" else P
        np.testing.assert_allclose(cloud.covariance, error[:2, :2], rtol=1e-7)
        spread = advance @ (C @ P @ C.T + V) @ advance.T
        P = A @ P @ A.T + fresh - spread
        z = A @ z + B @ u + advance @ innovation


@pytest.mark.parametrize("P0", [None, 4.0])
def test_margins_hold_from_an_uncertain_start_on(noise, P0):
    """4,000 runs at 20 %; the steady state's variances alone are too small at first."""
    loop = lqg(noise, P0=P0, form="predictor")
    samples = 30
    direction = np.array([1.0, -0.5])
    margins = loop.margins(direction, probability=0.2, horizon=samples)
    start = {} if P0 is None else {"initial_state": "design"}
    drawn = {"disturbance": "design", "measurement_noise": "design", **start}
    run = loop.simulate(300.0 * np.arange(samples), trials=4000, rng=3, **drawn)
    states = np.asarray(run.states)
    errors = np.abs(np.tensordot(direction, states[:2] - states[2:4], 1))
    assert (errors > margins).any(axis=1).mean() <= 0.2
    if P0 is not None:
        settled = margins[-1]
        assert (errors > settled).any(axis=1).mean() > 0.2


def test_a_filter_with_its_last_gains_settles_where_that_without_a_horizon_is(noise):
    known = moments.knowledge(lqg(noise, P0=4.0).data)
    settled = known.covariance(known.settled(), predicted=True)
    np.testing.assert_allclose(known.settling(400)[-1], settled, rtol=1e-9)


def test_a_mode_that_noise_does_not_reach_nor_decays_has_no_gain():
    still = ct.ss([[1.0]], [[1.0]], [[1.0]], 0, 1.0)
    with pytest.raises(ValueError, match="must excite every mode that does not decay"):
        pc.private_lqg(still, 1.0, 1.0, 0.0, 1.0, estimator="kalman")


@pytest.mark.slow
def test_the_bound_sees_a_peak_between_even_frequencies(monkeypatch):
    """It is 1e-4 wide, and even frequencies 8e-4 apart; the bound was 0.04 % too high."""
    angle = 1000.5 * np.pi / 4095
    cos, sin = np.cos(angle), np.sin(angle)
    plant = ct.ss(
        (1 - 1e-4) * np.array([[cos, -sin], [sin, cos]]),
        [[1.0, 0.3], [0.0, 1.0]],
        [[1.0, 0.0]],
        0,
        1,
        inputs=["u", "w"],
    )
    noise = pc.design_output_noise(
        plant,
        horizon=np.inf,
        budget=pc.PrivacyBudget(gdp=1.0),
        adjacency=pc.DisturbanceAdjacency({"w": 1.0}),
        models="exact",
        max_std=np.inf,
    )
    options = {"noise": noise, "controls": ["u"]}
    loop = pc.private_lqg(plant, 1.0, 100.0, 1e-6, 1.0, **options)
    bound = loop.optimality.lower_bound
    monkeypatch.setattr(optimality, "_FREQUENCIES", 2**16)
    monkeypatch.setattr(optimality, "_AROUND_PEAK", np.empty(0))
    finer = optimality.optimality(loop.data).lower_bound
    assert finer * (1 - 1e-5) < bound < finer * (1 + 1e-9)


@pytest.mark.parametrize("with_people", [False, True])
def test_noise_that_fades_with_a_secret_state_is_below_the_stationary_bound(
    with_people,
):
    """The effect of the wall's start is over; so is the noise of a long enough run."""
    wall = pc.StateAdjacency({"wall": 3.0}, times=0)
    for_ever = pc.design_output_noise(
        ROOM,
        horizon=np.inf,
        budget=BUDGET,
        adjacency=[wall, PEOPLE] if with_people else wall,
        models="exact",
    )
    samples = 1000
    fading = pc.design_output_noise(
        ROOM, horizon=samples, budget=BUDGET, adjacency=wall, models="exact"
    )
    spent = fading.design.cost
    beside = 0.0
    if with_people:  # together they hide both
        people = design()
        beside = people.design.cost
        assert people.guarantee.satisfies(BUDGET)
    assert spent / samples + beside < 0.9 * for_ever.design.lower_bound
    assert (
        fading.std[0] > 100 * fading.covariance(samples - 1, samples - 1)[0, 0] ** 0.5
    )
    best = lqg(for_ever, codesign=True)
    quiet = lqg(None).steady_state_cost().total
    if not with_people:  # what the loop costs when the noise is over
        assert quiet < 0.999 * best.optimality.lower_bound
    assert "of the least cost of stationary noise of this law" in str(best.optimality)
    assert "stationary" not in str(lqg(design(), codesign=True).optimality)
