"""Noise without a horizon, as users see it."""

import itertools
import json
import pickle
import tracemalloc

import control as ct
import numpy as np
import pytest
from repeats import few

import privcontrol as pc

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
ROOM = ct.ss(
    [[0.9, 0.05], [0.1, 0.8]],
    [[0.5], [0.1]],
    [[1.0, 0.0]],
    0,
    300.0,
    states=["air", "wall"],
    inputs=["people"],
    outputs=["temperature"],
)
PEOPLE = pc.DisturbanceAdjacency({"people": 0.3}, duration=4, shape="level")


def design(sys=ROOM, adjacency=PEOPLE, **options):
    options = {"horizon": np.inf} | options
    return pc.design_output_noise(sys, budget=BUDGET, adjacency=adjacency, **options)


@pytest.fixture(scope="module")
def noise():
    return design()


def test_the_noise_is_within_its_gap_and_says_so(noise):
    assert noise.horizon == np.inf
    assert 0 <= noise.design.gap <= 0.01
    assert noise.design.cost == pytest.approx(np.sum(noise.std**2), rel=1e-9)
    assert noise.guarantee.satisfies(BUDGET)
    text = noise.guarantee.sentence
    assert "one run of any length" in text
    assert "for 1 to 4 samples" in text
    assert "k new beginnings count as k + 1 releases" in text
    assert repr(noise).endswith("1 output, no horizon)")


@pytest.mark.slow
def test_a_smaller_gap_takes_more_states(noise):
    finer = design(gap=1e-4)
    assert finer.system.nstates > noise.system.nstates
    assert finer.design.cost < noise.design.cost
    assert design(order=1).system.nstates == 1


def test_the_noise_survives_pickling_and_its_guarantee_json(noise):
    assert pickle.loads(pickle.dumps(noise)) == noise
    text = json.dumps(noise.guarantee.to_dict())
    assert pc.PrivacyGuarantee.from_dict(json.loads(text)) == noise.guarantee


def test_a_stream_begins_with_the_sample_of_the_same_seed(noise):
    samples = 3000
    stream = itertools.islice(noise.stream(rng=5), samples)
    sampled = noise.sample(trials=1, rng=5, horizon=samples)[:, 0].T
    assert np.allclose(np.array(list(stream)), sampled, rtol=0, atol=1e-12)
    longer = noise.sample(trials=3, rng=5, horizon=samples)
    assert np.allclose(longer[:, 0].T, sampled, rtol=0, atol=1e-12)


def test_a_stream_takes_constant_memory(noise):
    stream = noise.stream(rng=0)
    next(stream)
    tracemalloc.start()
    for _ in range(20_000):
        next(stream)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200_000


@pytest.mark.slow
def test_samples_have_the_stationary_covariance_from_the_first_on(noise):
    """Empirical moments of 40,000 runs; the limit is five standard errors.

    Five standard errors are 3.5 %, so noise 10 % too small fails.
    """
    runs = noise.sample(trials=40_000, rng=1, horizon=6)[0]
    error = 5 * np.sqrt(2 / 40_000)
    for t, lag in [(0, 0), (5, 0), (3, 3), (4, 1)]:
        measured = np.mean(runs[:, t] * runs[:, t - lag])
        exact = noise.covariance(lag)[0, 0]
        assert abs(measured - exact) < error * noise.covariance()[0, 0]


def test_covariances_are_those_of_the_dense_map(noise):
    run = noise.over(30)
    dense = run.process.responses.reshape(30, -1)
    covariance = dense @ dense.T
    for t, s in [(0, 0), (29, 29), (12, 5), (5, 12)]:
        assert run.covariance(t, s)[0, 0] == pytest.approx(covariance[t, s])
        assert noise.covariance(t - s)[0, 0] == pytest.approx(covariance[t, s])


@pytest.mark.parametrize("seed", few(range(6), of=1))
def test_noise_begun_anew_hides_an_old_change_too(seed):
    """A change at sample -k has moved the plant's state when fresh noise begins.

    From rest that state can cost more than the change itself (1.6 times for the first
    plant); from the stationary law it never does.
    """
    rng = np.random.default_rng(seed)
    order = int(rng.integers(2, 4))
    A = rng.standard_normal((order, order))
    A *= 0.95 / np.abs(np.linalg.eigvals(A)).max()
    B, C = rng.standard_normal((order, 1)), rng.standard_normal((1, order))
    slow = design(ct.ss(A, B, C, 0, 1), pc.DisturbanceAdjacency(1.0))
    samples = 250
    stationary = slow.over(samples).process.responses.reshape(samples, -1)
    resting = stationary[:, slow.process.total.once :]
    state = B
    worst = {"stationary": 0.0, "resting": 0.0}
    for _ in range(30):
        left = state
        outputs = np.empty(samples)
        for t in range(samples):
            outputs[t] = (C @ left).item()
            left = A @ left
        for name, dense in (("stationary", stationary), ("resting", resting)):
            found = np.linalg.lstsq(dense, outputs, rcond=None)[0]
            worst[name] = max(worst[name], np.linalg.norm(found))
        state = A @ state
    assert worst["stationary"] <= slow.guarantee.gdp * (1 + 1e-9)
    if seed == 0:
        assert worst["resting"] > 1.5 * slow.guarantee.gdp


def test_the_gate_adds_the_drawn_noise_to_the_measurement(noise):
    run = noise.over(40)
    gate = pc.create_channel_iosystem(run)
    eta = run.process.draw(np.random.default_rng(3), 1)
    measured = np.linspace(20.0, 21.0, 40)
    inputs = np.vstack([measured, run.process.inputs(eta)[0].T])
    published = ct.forced_response(gate, run.timepts, inputs).outputs
    assert np.allclose(published, measured + run.process.signal(eta)[0, :, 0])


def test_the_system_is_for_analysis(noise):
    assert noise.system.ninputs == 1
    assert ct.system_norm(noise.system) ** 2 == pytest.approx(noise.covariance()[0, 0])
    assert pc.create_noise_iosystem(noise).nstates == noise.system.nstates
    assert np.abs(noise.system.poles()).max() < 1


@pytest.mark.parametrize("norm", ["single", "l2"])
def test_independent_noise_is_dearer(norm):
    adjacency = pc.DisturbanceAdjacency(0.3, norm=norm)
    white = design(adjacency=adjacency, family="iid-gaussian")
    shaped = design(adjacency=adjacency)
    assert white.guarantee.satisfies(BUDGET)
    assert shaped.design.cost < white.design.cost
    size = white.std[0]
    response = ct.ss(ROOM.A, ROOM.B, ROOM.C, ROOM.D, True)
    if norm == "single":
        gain = 0.3 * ct.system_norm(response)
    else:
        gain = 0.3 * float(pc.system_gain(response))
    assert gain / size == pytest.approx(white.guarantee.gdp, rel=1e-6)


def test_outputs_with_prices_get_noise_where_it_is_cheap():
    plant = ct.ss(
        [[0.8, 0.0], [0.1, 0.5]], np.eye(2), np.eye(2), 0, 1, inputs=["a", "b"]
    )
    adjacency = pc.DisturbanceAdjacency(1.0)
    even = design(plant, adjacency)
    priced = design(plant, adjacency, weight=[100.0, 1.0])
    same = design(plant, adjacency, weight=np.diag([100.0, 1.0]))
    assert priced.std[0] < even.std[0]
    assert np.allclose(priced.std, same.std)
    cost = 100 * priced.std[0] ** 2 + priced.std[1] ** 2
    assert priced.design.cost == pytest.approx(cost)


def test_an_initial_state_and_people_together():
    both = [PEOPLE, pc.InitialStateAdjacency({"air": 0.5})]
    noise = design(adjacency=both)
    assert noise.guarantee.satisfies(BUDGET)
    assert noise.design.cost >= design().design.cost / 1.01


def test_a_secret_that_moves_all_outputs_leaves_none_of_their_combinations():
    alone = design(ROOM, pc.DisturbanceAdjacency({"people": 0.3}, norm="l2"))
    assert "combinations of outputs" not in alone.guarantee.sentence
    matrices = ROOM.A, np.eye(2), np.eye(2), 0, 300.0
    two = ct.ss(*matrices, inputs=["people", "sun"])
    both = design(two, pc.DisturbanceAdjacency(0.3, norm="l2"))
    assert "combinations of outputs" not in both.guarantee.sentence
    equal = ct.ss(ROOM.A, [[1, 1], [0, 0]], np.eye(2), 0, 300.0, inputs=["a", "b"])
    same = design(equal, pc.DisturbanceAdjacency(0.3, norm="l2"))
    assert "combinations of outputs" in same.guarantee.sentence


@pytest.mark.parametrize("norm", ["single", "l2"])
@pytest.mark.parametrize("seen", [np.eye(2), np.array([[1.0, 1.0], [2.0, 2.0]])])
def test_combinations_that_no_secret_moves_are_named_over_a_run_too(norm, seen):
    """A sum of two outputs, and an output, whose noise has no variance at any time."""
    plant = ct.ss(np.diag([0.9, 0.5]), np.eye(2), seen, 0, 300.0, inputs=["a", "b"])
    words = "combinations of outputs that no secret moves, which carry "
    one = {"a": 0.3}
    noise = design(plant, pc.DisturbanceAdjacency(one, norm=norm), horizon=8)
    bare = np.array([[0.0, 1.0], [2.0, -1.0]])[int(seen[0, 1])]
    # dense noise of a sum that nothing moves is there for rounding's sake
    variance = max(bare @ noise.covariance(t) @ bare for t in range(8))
    words += "no noise" if variance < 1e-15 else "hardly any noise"
    assert variance < 1e-10
    assert words in noise.guarantee.scope.caveats
    beside = pc.DisturbanceAdjacency(one, norm=norm)
    floored = design(plant, beside, horizon=8, floor=0.1)
    assert "combinations of outputs" not in floored.guarantee.sentence
    if seen[0, 1] == 0:
        both = design(plant, pc.DisturbanceAdjacency(0.3, norm=norm), horizon=8)
        assert "combinations of outputs" not in both.guarantee.sentence


def test_fewer_secrets_than_outputs():
    plant = ct.ss(ROOM.A, ROOM.B, np.eye(2), 0, 300.0, inputs=["people"])
    noise = design(plant, pc.DisturbanceAdjacency(0.3))
    assert noise.process.outputs == 2
    assert "combinations of outputs" in noise.guarantee.sentence
    energy = design(plant, pc.DisturbanceAdjacency(0.3, norm="l2"))
    assert "combinations of outputs" in energy.guarantee.sentence
    covariance = noise.over(8).process.responses.reshape(16, -1)
    moved = [0.3 * ROOM.B]
    for _ in range(6):
        moved.append(ROOM.A @ moved[-1])
    change = np.concatenate([np.zeros((2, 1)), *moved])
    found = np.linalg.lstsq(covariance, change, rcond=None)[0]
    assert np.allclose(covariance @ found, change)
    assert np.linalg.norm(found) <= noise.guarantee.gdp * (1 + 1e-9)


def test_the_plot_has_a_curve_for_noise_secret_and_loop(noise):
    plot = noise.plot()
    lines = plot.axes[0, 0].get_lines()
    assert [line.get_label() for line in lines] == [
        "noise",
        "secret, up to 4 samples long",
    ]
    assert len({line.get_linestyle() for line in lines}) == 2  # told apart in grey
    assert plot.axes[0, 0].get_title() == "Noise for ε = 1 at δ = 0.01"
    amplitude = lines[1].get_ydata()[0] / 4
    assert amplitude == pytest.approx(0.3 * abs(ROOM.dcgain().item()), rel=1e-3)


def test_the_plot_draws_a_stay_at_its_full_length():
    """At frequency zero a change of twelve samples is twelve times one of a single sample."""
    secret = pc.DisturbanceAdjacency(
        {ROOM.input_labels[0]: 0.3}, duration=12, shape="level"
    )
    stay = pc.design_output_noise(
        ROOM, horizon=np.inf, budget=BUDGET, adjacency=secret, models="exact"
    )
    line = stay.plot().axes[0, 0].get_lines()[1]
    assert line.get_label() == "secret, up to 12 samples long"
    least = 12 * 0.3 * abs(ROOM.dcgain().item())
    assert line.get_ydata()[0] == pytest.approx(least, rel=1e-3)
    one = 0.3 * np.abs(ROOM.frequency_response([np.pi / ROOM.dt]).frdata).item()
    assert line.get_ydata()[-1] == pytest.approx(one, rel=1e-3)  # one sample shows most


@pytest.mark.parametrize(
    "options, message",
    [
        ({"family": "laplace"}, "epsilon grows with every sample"),
        ({"family": "iid-laplace"}, "epsilon grows with every sample"),
        ({"resolution": 0.1}, "resolution.*finite horizon"),
        ({"resolution": 0.1, "floor": 1.0}, "resolution.*finite horizon"),
        ({"factor": np.eye(2)}, "has a horizon"),
        ({"weight": np.eye(7)}, "weight: expected shape"),
        ({"order": -1}, "order"),
        ({"gap": 0.0}, "gap"),
    ],
)
def test_what_cannot_be_without_a_horizon_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        design(**options)


def test_an_order_needs_noise_without_a_horizon():
    with pytest.raises(ValueError, match="horizon=np.inf"):
        pc.design_output_noise(
            ROOM, horizon=20, budget=BUDGET, adjacency=PEOPLE, order=2
        )


@pytest.mark.parametrize("name", ["timepts", "stds"])
def test_what_needs_a_length_says_so(noise, name):
    with pytest.raises(ValueError, match=r"noise\.over"):
        getattr(noise, name)
    with pytest.raises(ValueError, match="expected at most the 30 samples"):
        noise.over(30).over(31)
    with pytest.raises(ValueError, match="horizon=T"):
        noise.sample(rng=0)


@pytest.mark.parametrize("length", [None, 20])
def test_what_would_need_another_certificate_is_refused(noise, length, tmp_path):
    part = noise if length is None else noise.over(length)
    assert part.guarantee_for([ROOM]).gdp == pytest.approx(part.guarantee.gdp)
    if length is not None:
        with pytest.raises(ValueError, match="noise of which it is a run"):
            part.save(tmp_path / "noise.json")
    with pytest.raises(ValueError, match="gdp"):
        part.with_std(1.0)


def test_an_integrator_is_refused_by_name_with_a_way_out():
    tank = ct.ss(1, 1, 1, 0, 1, states=["level"], inputs=["inflow"], outputs=["y"])
    said = r"never decays 1 \(level\).*finite horizon; hide when .*moved= of"
    with pytest.raises(ValueError, match=said):
        design(tank, pc.DisturbanceAdjacency(1.0))
    assert design(tank, pc.DisturbanceAdjacency(1.0, moved=4)).std[0] > 0
    double = ct.ss([[1, 1], [0, 1]], [[0], [1]], [[1, 0]], 0, 1)
    with pytest.raises(ValueError, match="finite horizon; protect"):
        design(double, pc.DisturbanceAdjacency(1.0))


@pytest.mark.slow
def test_long_runs_get_noise_of_low_order_within_the_gap():
    """Against the dense optimum: not below its bound, and at most the gap above it."""
    lag = ct.ss(0.5, 1, 1, 0, 1, inputs=["w"], states=["x"], outputs=["y"])
    asked = {
        "horizon": 400,
        "budget": BUDGET,
        "adjacency": pc.DisturbanceAdjacency(1.0, duration=2, shape="level"),
    }
    low = pc.design_output_noise(lag, **asked, gap=0.02)
    dense = pc.design_output_noise(lag, **asked, gap=1e-9)
    assert "filtered" in repr(low)
    assert "correlated" in repr(dense)
    assert low.design.lower_bound <= dense.design.cost * (1 + 1e-9)
    assert dense.design.cost <= low.design.cost <= 1.02 * dense.design.cost
    root = low.process.responses.reshape(400, -1)
    assert low.design.cost == pytest.approx(np.sum(root**2), rel=1e-9)
    impulse = 0.5 ** np.arange(399)
    moved = np.zeros((400, 2))
    moved[1:, 0] = impulse
    moved[1:, 1] = impulse
    moved[2:, 1] += impulse[:-1]
    shifts = np.linalg.norm(np.linalg.solve(root, moved), axis=0)
    assert shifts.max() <= low.guarantee.gdp * (1 + 1e-9)
    assert low.guarantee.scope.horizon == 400
    assert low.guarantee.satisfies(BUDGET)


def test_a_grid_of_readings_is_not_forgotten_in_long_runs():
    """Noise of low order has no floor for roundings, so it must not be used."""
    with pytest.raises(pc.PrivacyError, match="floor"):
        pc.design_output_noise(
            ROOM,
            horizon=400,
            budget=BUDGET,
            adjacency=pc.DisturbanceAdjacency(0.3),
            resolution=0.1,
        )


def test_noise_of_low_order_for_a_long_run_is_saved_and_certified_anew(tmp_path):
    noise = pc.design_output_noise(
        ROOM, horizon=500, budget=BUDGET, adjacency=pc.DisturbanceAdjacency(0.3)
    )
    noise.save(tmp_path / "noise.json")
    loaded = pc.load(tmp_path / "noise.json")
    assert loaded == noise
    assert loaded.design.cost == pytest.approx(noise.design.cost)


def test_a_shape_of_ones_own_is_not_forgotten_in_long_runs():
    with pytest.raises(ValueError, match="secrets about states"):
        pc.design_output_noise(
            ROOM,
            horizon=400,
            budget=BUDGET,
            adjacency=pc.DisturbanceAdjacency(0.3),
            factor=np.eye(2),
        )


def test_what_is_long_but_not_plain_keeps_its_dense_design():
    lag = ct.ss(0.5, 1, 1, 0, 1, inputs=["w"], states=["x"], outputs=["y"])
    noise = pc.design_output_noise(
        lag,
        horizon=300,
        budget=BUDGET,
        adjacency=pc.DisturbanceAdjacency(1.0, times=[0, 1]),
    )
    assert "correlated" in repr(noise)


def test_finite_designs_point_to_noise_without_a_horizon():
    lag = ct.ss(0.5, 1, 1, 0, 1, inputs=["w"], states=["level"], outputs=["y"])
    with pytest.warns(pc.PrivacyWarning, match=r"horizon=np\.inf"):
        pc.design_output_noise(
            lag, horizon=8, budget=BUDGET, adjacency=pc.StateAdjacency(1.0)
        )
    with pytest.raises(pc.PrivacyError, match=r"horizon=np\.inf"):
        pc.design_output_noise(
            lag, horizon=20, budget=BUDGET, adjacency=pc.StateAdjacency(1.0)
        )
    growth = pc.horizon_growth(lag, pc.StateAdjacency(1.0), [1, 20])
    assert "horizon=np.inf" in growth.explanations[0]
    with pytest.raises(TypeError, match=r"options\(.* and without one"):
        pc.horizon_growth(lag, pc.DisturbanceAdjacency(1.0), [1, 20])


# -- a floor hides as well ---------------------------------------------------------------


@pytest.mark.parametrize(
    "floor, claimed", [(1.0, 0.5), (10.0, 0.229416), (40.0, 0.0573539)]
)
def test_a_floor_counts_towards_the_budget(floor, claimed):
    """It was added on top: a floor of 10, which is enough alone, came with noise of .5."""
    lag = ct.ss(0.9, 1.0, 1.0, 0.0, 1.0)
    noise = pc.design_output_noise(
        lag,
        horizon=np.inf,
        budget=pc.PrivacyBudget(gdp=0.5),
        adjacency=pc.DisturbanceAdjacency(1.0),
        floor=floor,
    )
    assert noise.guarantee.gdp == pytest.approx(claimed, rel=1e-4)
    long = noise.over(120)
    dense = long.process.responses.reshape(120, -1)
    covariance = dense @ dense.T + np.diag(np.tile(long.process.total.white**2, 120))
    response = np.append(0.0, 0.9 ** np.arange(119))
    worst = np.sqrt(response @ np.linalg.solve(covariance, response))
    assert worst <= noise.guarantee.gdp * (1 + 1e-9)
    assert worst >= 0.9 * noise.guarantee.gdp
    assert noise.design.cost < 8.5 + floor**2  # of noise on top of the floor
    assert noise.design.cost == pytest.approx(noise.std**2)
    if claimed < 0.5:
        assert noise.std == pytest.approx([floor])


def test_signals_of_bounded_energy_are_hidden_by_a_floor_too():
    lag = ct.ss(0.9, 1.0, 1.0, 0.0, 1.0)
    request = {
        "horizon": np.inf,
        "budget": pc.PrivacyBudget(gdp=0.5),
        "adjacency": pc.DisturbanceAdjacency(1.0, norm="l2"),
    }
    enough = pc.design_output_noise(lag, floor=40.0, **request)
    assert enough.guarantee.gdp == pytest.approx(10 / 40, rel=1e-6)  # gain 1 / (1 - .9)
    assert enough.std == pytest.approx([40.0])
    partly = pc.design_output_noise(lag, floor=15.0, **request)
    size = np.sqrt(0.5**-2 - 1.5**2)  # of the noise that enters with the secret
    assert partly.std**2 == pytest.approx(15**2 + size**2 / 0.19, rel=1e-6)
    alone = pc.design_output_noise(lag, **request)
    assert partly.design.cost - 15**2 < alone.design.cost


@pytest.mark.parametrize("units", [[1e8, 1e-8, 1.0], [1.0, 1e11, 1e-2]])
def test_units_of_the_states_change_nothing_of_the_noise(units):
    """Variances of states far apart were half wrong, and so was the first sample."""
    A = np.array([[0.2, 0.6, -0.3], [-0.5, 0.4, 0.2], [0.1, 0.3, 0.5]])
    B = np.array([[1.0], [-0.4], [0.7]])
    C = np.array([[1.0, 0.3, 0.0], [0.2, -1.0, 0.5], [0.0, 0.4, 1.0]])
    unit = np.array(units)
    stds = []
    for plant in (
        ct.ss(A, B, C, 0, 1),
        ct.ss(A * unit[:, None] / unit, B * unit[:, None], C / unit, 0, 1),
    ):
        noise = design(plant, pc.DisturbanceAdjacency(1.0))
        stds.append(noise.over(3).stds)
    ordinary, odd = stds
    assert odd == pytest.approx(ordinary, rel=1e-9)
    assert odd == pytest.approx(np.repeat(odd[:, :1], 3, axis=1), rel=1e-9)


@pytest.mark.parametrize(
    "secret, exact",
    [
        (pc.InitialStateAdjacency({"air": 1.0}), False),
        (pc.StateAdjacency({"air": 1.0}, times=0), False),
        (pc.DisturbanceAdjacency({"people": 1.0}), True),
    ],
)
def test_a_claim_without_a_horizon_is_exact_if_late_changes_attain_it(secret, exact):
    """A state at the start was said to attain what 200 samples show 5 % less of."""
    T = 200
    noise = design(adjacency=secret)
    responses = noise.over(T).process.responses.reshape(T, -1)
    covariance = responses @ responses.T
    free = [ROOM.C @ np.linalg.matrix_power(ROOM.A, t) for t in range(T)]
    change = np.array(free)[:, 0, 0]
    if exact:  # people who come half way
        entered = [response @ ROOM.B for response in free[: T // 2]]
        change = np.append(np.zeros(T // 2 + 1), np.ravel(entered)[:-1])
    shift = np.sqrt(change @ np.linalg.solve(covariance, change))
    assert bool(noise.guarantee.exact) == exact
    claim = noise.guarantee.gdp
    assert shift <= claim * (1 + 1e-9)
    assert (shift > claim * (1 - 1e-6)) == exact


def test_beside_a_floor_the_gap_is_that_of_the_filtered_part():
    """Both together cost more than the best noise, of which the bound is."""
    noise = design(adjacency=pc.DisturbanceAdjacency({"people": 1.0}), floor=0.5)
    _, white = noise.parts
    floor = float(white.scale @ white.scale)
    own = np.linalg.norm(noise.design.secret.impulse_response(400)) / 0.5
    left = (noise.guarantee.gdp**-2 - own**-2) ** -0.5
    alone = design(
        adjacency=pc.DisturbanceAdjacency({"people": 1.0}), floor=0.0, gap=1e-3
    )
    best = alone.design.lower_bound * (alone.guarantee.gdp / left) ** 2
    assert noise.design.cost - floor <= best * 1.011
    assert noise.design.gap > 0.011


def test_moves_that_cancel_to_rounding_errors_are_named():
    """Six rooms and one meter: the slowest mode is at 0.92, and was blamed."""
    count = 6
    row = np.eye(count, k=1) + np.eye(count, k=-1)
    rooms = ct.ss(
        0.15 * row - 0.6 * np.eye(count),
        0.1 * np.eye(count),
        np.full((1, count), 1 / count),
        0,
    ).sample(0.25)
    which = pc.DisturbanceAdjacency(1.0, which=True)
    with pytest.raises(pc.UncertifiableError, match="between inputs of nearly equal"):
        design(rooms, which, order=4, models="exact")
