"""Noise for plants that vary in a known way, beside dense covariances and constant plants."""

import control as ct
import known_variation as kv
import numpy as np
import pytest
import scipy.stats
from repeats import few

import privcontrol as pc
from privcontrol.systems.linear import VaryingSystem
from privcontrol.systems.transitions import spanned_back

pytestmark = pytest.mark.filterwarnings("ignore::privcontrol.PrivacyWarning")

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
ALLOWED = pc.core.kappa_inverse(1.0, 1e-2)
VEHICLE = pc.plants.vehicle()
T = 24

SECRETS = {
    "position": dict(adjacency=pc.StateAdjacency({"position": 1.0})),
    "some times": dict(adjacency=pc.StateAdjacency(1.0, times=range(5))),
    "ball": dict(adjacency=pc.InitialStateAdjacency(1.0)),
    "corners": dict(adjacency=pc.InitialStateAdjacency([1.0, 0.2], norm=np.inf)),
    "all charts": dict(adjacency=pc.StateAdjacency(1.0, charts="all"), horizon=4),
    "floor": dict(adjacency=pc.StateAdjacency(1.0), floor=0.5),
    "cheapest floor": dict(
        adjacency=pc.StateAdjacency({"position": 1.0}), floor="auto", models=[VEHICLE]
    ),
    "independent": dict(adjacency=pc.StateAdjacency(1.0), family="iid-gaussian"),
    "independent laplace": dict(
        adjacency=pc.StateAdjacency(1.0),
        family="iid-laplace",
        budget=pc.PrivacyBudget(epsilon=1.0),
    ),
    "laplace": dict(
        adjacency=pc.StateAdjacency({"velocity": 1.0}),
        family="laplace",
        budget=pc.PrivacyBudget(epsilon=1.0),
    ),
    "radial": dict(
        adjacency=pc.StateAdjacency(1.0),
        family="ball",
        budget=pc.PrivacyBudget(epsilon=1.0),
    ),
    "disturbance": dict(adjacency=pc.DisturbanceAdjacency(1.0)),
    "levels": dict(adjacency=pc.DisturbanceAdjacency(1.0, duration=3, shape="level")),
    "energy": dict(adjacency=pc.DisturbanceAdjacency(1.0, norm="l2")),
    "events": dict(adjacency=pc.DisturbanceAdjacency(1.0, events=2, separation=5)),
    "joint": dict(
        adjacency=[
            pc.DisturbanceAdjacency(1.0),
            pc.StateAdjacency({"velocity": 1.0}, times=0),
        ]
    ),
    "own S": dict(adjacency=pc.StateAdjacency({"position": 1.0}), factor=[[3.0], [0]]),
    "own Lambda": dict(
        adjacency=pc.StateAdjacency({"position": 1.0}),
        factor=2 * pc.observability_stack(VEHICLE, T),
        floor=0.1,
    ),
    "releases": dict(adjacency=pc.StateAdjacency({"position": 1.0}), releases=3),
    "grid": dict(
        adjacency=pc.StateAdjacency({"position": 1.0}), floor=2.0, resolution=0.01
    ),
}


@pytest.mark.parametrize("case", SECRETS)
def test_the_code_for_variation_agrees_with_that_for_constant_plants(case):
    asked = {"horizon": T, "budget": BUDGET, **SECRETS[case]}
    constant = pc.design_output_noise(VEHICLE, **asked)
    plant = kv.as_varying(VEHICLE, asked["horizon"])
    if "models" in asked:
        asked["models"] = [plant]
    varying = pc.design_output_noise(plant, **asked)
    # an l2 ball is a dense root here, where a constant plant is driven; a floor is found
    # by a search
    tol = {"energy": 1e-6, "events": 1e-6, "cheapest floor": 1e-3}.get(case, 1e-9)
    np.testing.assert_allclose(varying.stds, constant.stds, rtol=tol, atol=1e-12)
    loss, same = varying.guarantee, constant.guarantee
    assert loss.epsilon(1e-2) == pytest.approx(same.epsilon(1e-2), rel=tol)
    assert loss.loss.attained == same.loss.attained
    assert loss.scope.caveats == same.scope.caveats


@pytest.mark.parametrize("case", SECRETS)
def test_a_list_of_equal_plants_is_that_plant_bit_for_bit(case):
    asked = {"horizon": T, "budget": BUDGET, **SECRETS[case]}
    constant = pc.design_output_noise(VEHICLE, **asked)
    listed = pc.design_output_noise([pc.plants.vehicle()] * asked["horizon"], **asked)
    assert listed == constant
    assert listed.guarantee == constant.guarantee
    assert (listed.process.responses == constant.process.responses).all()


@pytest.mark.parametrize("seed", few(range(10), of=3))
def test_no_move_of_a_state_is_shifted_further_than_promised(seed):
    rng = np.random.default_rng(seed)
    horizon = int(rng.integers(2, 40))
    plants = kv.random_plants(rng, horizon)
    order = len(plants[0].A)
    radii = rng.uniform(0.5, 2.0, order)
    times = sorted(rng.choice(horizon, min(horizon, 6), replace=False).tolist())
    secret = pc.StateAdjacency(radii, times=times)
    noise = pc.design_output_noise(
        plants, horizon=horizon, budget=BUDGET, adjacency=secret, max_std=np.inf
    )
    moves = kv.state_moves(plants, radii, times)
    found = kv.shift(kv.covariance(noise), kv.observability(plants) @ moves)
    assert found <= noise.guarantee.gdp * (1 + 1e-6)
    assert found == pytest.approx(noise.guarantee.gdp, rel=1e-5)
    assert noise.guarantee.gdp <= ALLOWED
    assert noise.design.gap < 1e-6


@pytest.mark.parametrize("seed", few(range(6), of=2))
def test_no_change_of_a_signal_is_shifted_further_than_promised(seed):
    rng = np.random.default_rng(100 + seed)
    horizon = int(rng.integers(3, 25))
    plants = kv.random_plants(rng, horizon, growth=0.1)
    duration = int(rng.integers(1, 4))
    secret = pc.DisturbanceAdjacency({"u0": 0.7}, duration=duration, shape="level")
    floor = 0.3 if seed % 2 else 0.0
    noise = pc.design_output_noise(
        plants, horizon=horizon, budget=BUDGET, adjacency=secret, floor=floor,
        max_std=np.inf,
    )  # fmt: skip
    impulses = kv.forced(plants, [0])
    changes = []
    for length in range(1, duration + 1):
        changes += [
            0.7 * impulses[:, start : start + length].sum(axis=1)
            for start in range(horizon)
        ]
    found = kv.shift(kv.covariance(noise), np.array(changes).T)
    assert found <= noise.guarantee.gdp * (1 + 1e-7)


def test_a_state_that_no_output_sees_is_refused():
    """A size of zero is exact: rounded up it made noise of 1e-323."""
    hidden = [
        ct.ss([[a]], [[1.0]], [[0.0]], 0, True, states=["x"]) for a in (1.25, 1.3, 0.7)
    ]
    with pytest.raises(pc.PrivacyError, match="no noise is needed"):
        pc.design_output_noise(
            hidden,
            horizon=3,
            budget=BUDGET,
            adjacency=pc.StateAdjacency({"x": 1.0}, times=[1, 2]),
            family="iid-gaussian",
        )


def test_models_that_vary_are_covered_beside_a_floor():
    rng = np.random.default_rng(3)
    plants = kv.random_plants(rng, 15, states=2, outputs=1)
    others = [ct.ss(1.01 * s.A, s.B, s.C, s.D, 1.0, states=s.state_labels,
                    inputs=s.input_labels, outputs=s.output_labels) for s in plants]  # fmt: skip
    secret = pc.StateAdjacency(1.0, times=[0, 3])
    asked = dict(horizon=15, budget=BUDGET, adjacency=secret)
    noise = pc.design_output_noise(plants, **asked, floor=1.5, models=[others])
    total = kv.covariance(noise)
    for each in (plants, others):
        moves = kv.state_moves(each, [1.0, 1.0], [0, 3])
        found = kv.shift(total, kv.observability(each) @ moves)
        assert found <= noise.guarantee.gdp * (1 + 1e-9)
    alone = pc.design_output_noise(plants, **asked, floor=1.5)
    under = alone.guarantee_for([others])
    moves = kv.state_moves(others, [1.0, 1.0], [0, 3])
    images = kv.observability(others) @ moves
    assert under.gdp == pytest.approx(kv.shift(kv.covariance(alone), images), rel=1e-8)
    assert alone.guarantee_for(others).gdp == under.gdp
    bare = pc.design_output_noise(plants, **asked)
    with pytest.raises(pc.NotRealizableError, match="floor"):
        bare.guarantee_for([others])


def test_a_period_is_repeated_until_the_horizon():
    rng = np.random.default_rng(5)
    turn = kv.random_plants(rng, 4, states=2, outputs=1)
    asked = dict(horizon=10, budget=BUDGET, adjacency=pc.StateAdjacency(1.0))
    noise = pc.design_output_noise(turn, period=4, **asked)
    whole = (turn * 3)[:10]
    assert noise == pc.design_output_noise(whole, **asked)
    assert len(noise.plant) == 10
    stack = pc.observability_stack(turn, 10, period=4)
    np.testing.assert_allclose(stack, kv.observability(whole), rtol=1e-13)


@pytest.mark.slow
def test_ten_thousand_samples_take_seconds():
    steps = 0.1 + 0.05 * np.sin(np.arange(10_000) / 7)
    plants = [
        ct.ss([[1, h], [0, 1]], [[h * h / 2], [h]], [[1, 0]], 0, 0.1) for h in steps
    ]
    noise = pc.design_output_noise(
        plants, horizon=10_000, budget=BUDGET,
        adjacency=pc.StateAdjacency({"x[0]": 1.0}), models="exact",
    )  # fmt: skip
    assert noise.std[0] == pytest.approx(1 / ALLOWED, rel=1e-9)


def season(count, unstable=False):
    """A plant whose pace goes up and down within a period, with two inputs and a D."""
    named = dict(inputs=["u", "d"], outputs=["y"], states=["a", "b"])
    plants = []
    for t in range(count):
        pace = (1.2 if unstable else 0.8) + 0.1 * np.sin(2 * np.pi * t / count)
        A = [[pace, 0.1], [0.0, 0.7]]
        plants.append(ct.ss(A, [[0, 1], [1, 0]], [[1, 0]], [[0, 0.3]], 2.0, **named))
    return plants


@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
def test_without_a_horizon_a_period_is_one_sample(count, family):
    """Changes at each sample of eight periods, seen through the plants one by one."""
    plants = season(count)
    noise = pc.design_output_noise(
        plants, horizon=np.inf, budget=BUDGET, models="exact", family=family,
        adjacency=pc.DisturbanceAdjacency({"d": 1.0}),
    )  # fmt: skip
    lifted = noise.plant
    assert lifted.output_labels == [f"y@{t}" for t in range(count)]
    assert lifted.dt == 2.0 * count
    images = kv.forced(plants * 8, [1])
    found = kv.shift(kv.covariance(noise.over(8)), images)
    assert found <= noise.guarantee.gdp * (1 + 1e-7)
    assert found == pytest.approx(noise.guarantee.gdp, rel=1e-4)  # of eight periods
    # samples of the guarantee are periods, and its text counts them so
    assert "(2, 7, 20 changes 8 periods apart: found in" in str(noise.guarantee)
    images = kv.forced(
        plants * 9, [1]
    )  # of two changes, eight periods or samples apart
    total = kv.covariance(noise.over(9))
    for apart in (8 * count, 8):
        pairs = images[:, :-apart] + images[:, apart:]
        found = max(
            kv.shift(total, pairs),
            kv.shift(total, images[:, :-apart] - images[:, apart:]),
        )
        claim = noise.guarantee.repeated(2, separation=8).gdp
        assert (found <= claim * (1 + 1e-7)) == (apart > 8)
    with pytest.raises(ValueError, match="a loop reads each sample"):
        pc.private_lqg(plants, 1, 1, 1, 1, noise=noise, P0=1.0)


def test_the_noise_of_periods_is_stored_and_covers_first_states(tmp_path):
    plants = season(3)
    for secret in (pc.InitialStateAdjacency(1.0), pc.StateAdjacency(1.0, times=0)):
        noise = pc.design_output_noise(
            plants, horizon=np.inf, period=3, budget=BUDGET, adjacency=secret, floor=0.2,
            models=[plants, season(3)],
        )  # fmt: skip
        total, images = kv.covariance(noise.over(6)), kv.observability(plants * 6)
        if isinstance(secret, pc.InitialStateAdjacency):
            square = images.T @ np.linalg.solve(total, images)
            found = np.sqrt(np.linalg.eigvalsh(square)[-1])
        else:
            found = kv.shift(total, images)
        assert found <= noise.guarantee.gdp * (1 + 1e-9)
        noise.save(tmp_path / "noise.json")
        assert pc.load(tmp_path / "noise.json") == noise
    with pc.Gateway(noise, resolution=0.01) as gate:
        assert np.shape(gate.publish([0.5, 0.4, 0.3])) == (3,)


@pytest.mark.parametrize(
    "changed, message",
    [
        (dict(sys=season(25)), "there may be 24, got 25 plants"),
        (
            dict(adjacency=pc.StateAdjacency(1.0)),
            "a change over samples of two periods",
        ),
        (
            dict(adjacency=pc.DisturbanceAdjacency(1.0, duration=2)),
            "hides one change of one signal",
        ),
        (dict(adjacency=pc.DisturbanceAdjacency({"a": 1.0})), "a is a state"),
        (dict(sys=season(3, unstable=True)), "drives the unstable mode"),
        (dict(models=[season(4)]), "expected lists of 3 plants.*got 4"),
        (dict(sys=season(3)[0], models=[season(3)]), "go with a list as sys"),
    ],
)
def test_periods_that_cannot_be_lifted_are_refused_with_the_reason(changed, message):
    asked = dict(
        sys=season(3), horizon=np.inf, budget=BUDGET, floor=0.1,
        adjacency=pc.DisturbanceAdjacency({"d": 1.0}),
    )  # fmt: skip
    with pytest.raises(ValueError, match=message):
        pc.design_output_noise(**(asked | changed))


def test_least_noise_and_options_are_those_of_the_list():
    rng = np.random.default_rng(8)
    plants = kv.random_plants(rng, 12, states=2, outputs=1, inputs=1)
    secret = pc.StateAdjacency({"x0": 1.0}, times=[0, 1])
    growth = pc.horizon_growth(plants, secret, [2, 12])
    images = kv.observability(plants) @ kv.state_moves(plants, [1.0, 0.0], [0, 1])
    for k, count in enumerate((2, 12)):
        largest = np.linalg.norm(images[:count], axis=0).max()
        assert growth.least_noise[k] == pytest.approx(largest / np.sqrt(count))
    assert growth.modes == ()
    ways = pc.options(plants, horizon=12, budget=BUDGET, adjacency=secret)
    noise = pc.design_output_noise(
        plants, horizon=12, budget=BUDGET, adjacency=secret, models="exact"
    )
    assert [way.way for way in ways][:2] == ["shaped", "independent"]
    np.testing.assert_array_equal(ways[0].std, noise.std)
    with pytest.raises(ValueError, match="a period as one sample"):
        pc.options(plants, horizon=np.inf, budget=BUDGET, adjacency=secret)
    with pytest.raises(ct.ControlArgument, match="constant gains of one plant"):
        pc.tradeoff(
            plants, 1, 1, 1, 1, horizon=12, delta=1e-2, epsilons=1.0, adjacency=secret
        )
    with pytest.raises(ValueError, match="list of 11 plants"):
        pc.horizon_growth(plants, secret, [2, 11])


@pytest.mark.parametrize(
    "changed, error, message",
    [
        (dict(dt=0.2), ct.ControlArgument, "one sampling time"),
        (dict(states=["a", "b"]), ct.ControlDimension, "same states at each sample"),
        (dict(outputs=["z"]), ct.ControlDimension, "same outputs at each sample"),
        (dict(inputs=["w"]), ct.ControlDimension, "same inputs at each sample"),
        (dict(dt=0), ct.ControlArgument, "sample 2 of the list.*continuous"),
    ],
)
def test_plants_that_do_not_fit_each_other_are_refused(changed, error, message):
    named = dict(states=["p", "v"], inputs=["u"], outputs=["y"], dt=0.1)
    fitting = ct.ss(VEHICLE.A, VEHICLE.B, VEHICLE.C, VEHICLE.D, **named)
    strange = ct.ss(
        0.9 * VEHICLE.A, VEHICLE.B, VEHICLE.C, VEHICLE.D, **(named | changed)
    )
    with pytest.raises(error, match=message):
        pc.trajectory_manifold([fitting, fitting, strange], 3)


def test_lists_of_a_wrong_length_or_kind_are_refused():
    other = ct.ss(0.9 * VEHICLE.A, VEHICLE.B, VEHICLE.C, VEHICLE.D, 0.1)
    turn = [VEHICLE, VEHICLE]
    turn[1] = ct.ss(
        0.9 * VEHICLE.A, VEHICLE.B, VEHICLE.C, VEHICLE.D, 0.1,
        states=VEHICLE.state_labels, inputs=["u"], outputs=["y"],
    )  # fmt: skip
    secret = pc.StateAdjacency({"position": 1.0})
    asked = dict(budget=BUDGET, adjacency=secret)
    with pytest.raises(
        ValueError, match=r"list of 5 plants.*got 2; .* period=2, which"
    ):
        pc.design_output_noise(turn, horizon=5, **asked)
    with pytest.raises(ValueError, match=r"number of plants in the list, 2, got 3"):
        pc.design_output_noise(turn, horizon=5, period=3, **asked)
    with pytest.raises(ValueError, match="period: it repeats a list"):
        pc.design_output_noise(VEHICLE, horizon=5, period=3, **asked)
    with pytest.raises(ct.ControlArgument, match="at least one plant"):
        pc.design_output_noise([], horizon=5, **asked)
    with pytest.raises(ct.ControlArgument, match="sample 1 of the list"):
        pc.design_output_noise([VEHICLE, 3], horizon=2, **asked)
    with pytest.raises(ct.ControlArgument, match="one list for each model"):
        pc.design_output_noise(turn, horizon=2, models=[other, other], **asked)
    box = pc.PlantBox.around(VEHICLE, relative=0.01)
    with pytest.raises(ValueError, match="a region holds plants around one"):
        pc.design_output_noise(turn, horizon=2, models=box, floor=1.0, **asked)
    with pytest.raises(ct.ControlArgument, match="expected a StateSpace, got list"):
        pc.system_gain(turn)


def test_a_singular_sample_refuses_later_times_and_no_first_ones():
    plants = [VEHICLE] * 6
    plants[3] = ct.ss(
        [[1, 0.1], [1, 0.1]], VEHICLE.B, VEHICLE.C, VEHICLE.D, 0.1,
        states=VEHICLE.state_labels, inputs=["u"], outputs=["y"],
    )  # fmt: skip
    asked = dict(horizon=6, budget=BUDGET)
    with pytest.raises(ValueError, match="singular at sample 3"):
        pc.design_output_noise(plants, adjacency=pc.StateAdjacency(1.0), **asked)
    for times in (0, [0, 3]):
        secret = pc.StateAdjacency(1.0, times=times)
        noise = pc.design_output_noise(plants, adjacency=secret, **asked)
        assert noise.guarantee.gdp <= ALLOWED


def test_definition_4_over_a_plant_that_varies_is_that_of_its_manifold():
    plants = kv.random_plants(np.random.default_rng(8), 4, states=2, outputs=1)
    manifold = pc.trajectory_manifold(plants, 4)
    plain = pc.AffineManifold(*manifold._equations)
    secret = pc.ManifoldAdjacency(1.0)
    ours = secret.moves(manifold)
    theirs = secret.moves(plain)
    query = pc.output_query(plants, 4)
    dense = pc.LinearQuery(query.matrix.toarray(), plain)
    assert ours.sensitivity(query) == pytest.approx(theirs.sensitivity(dense), rel=1e-9)


def test_a_list_of_equal_plants_needs_no_lifting():
    secret = pc.DisturbanceAdjacency(1.0)
    lag = ct.ss(0.5, 1.0, 1.0, 0.0, 1.0)
    asked = dict(horizon=np.inf, budget=BUDGET, adjacency=secret)
    assert pc.design_output_noise([lag] * 3, **asked) == pc.design_output_noise(
        lag, **asked
    )


def car(t, x, u, params):
    return np.array([x[0] + np.cos(x[2]), x[1] + np.sin(x[2]), x[2] + u[0]])


def test_along_gives_the_jacobians_of_each_sample():
    named = dict(states=["e", "n", "h"], inputs=["steer"], outputs=["x", "y"])
    plant = ct.nlsys(car, lambda t, x, u, params: x[:2], dt=0.5, **named)
    heading = np.linspace(0.0, 2.0, 12)
    path = np.vstack([np.cumsum(np.cos(heading)), np.cumsum(np.sin(heading)), heading])
    curve = pc.along(plant, path, np.full((1, 12), 0.1))
    assert [one.dt for one in curve] == [0.5] * 12
    assert curve[0].state_labels == named["states"]
    for one, angle in zip(curve, heading):
        expected = [[1, 0, -np.sin(angle)], [0, 1, np.cos(angle)], [0, 0, 1]]
        np.testing.assert_allclose(one.A, expected, atol=1e-5)
    secret = pc.StateAdjacency({"h": 0.1}, times=0)
    noise = pc.design_output_noise(curve, horizon=12, budget=BUDGET, adjacency=secret)
    assert noise.guarantee.gdp <= ALLOWED


def test_along_samples_a_continuous_plant_exactly():
    lag = ct.nlsys(
        lambda t, x, u, params: -x + u, None, inputs=1, outputs=1, states=1, dt=0
    )
    curve = pc.along(lag, np.zeros((1, 3)), np.zeros((1, 3)), dt=0.1)
    np.testing.assert_allclose(curve[0].A, np.exp(-0.1), rtol=1e-5)
    np.testing.assert_allclose(curve[0].B, 1 - np.exp(-0.1), rtol=1e-5)


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"sys": VEHICLE}, ct.ControlArgument, "NonlinearIOSystem"),
        ({"states": np.zeros((2, 4))}, ct.ControlDimension, r"\(3, T\)"),
        ({"inputs": np.zeros((1, 3))}, ct.ControlDimension, r"\(1, T\)"),
        ({"dt": 0.1}, ct.ControlArgument, "none for one in discrete time"),
    ],
)
def test_along_refuses_what_is_no_trajectory(change, error, message):
    plant = ct.nlsys(car, None, inputs=1, outputs=3, states=3, dt=1.0)
    given = {
        "sys": plant,
        "states": np.zeros((3, 4)),
        "inputs": np.zeros((1, 4)),
    } | change
    with pytest.raises(error, match=message):
        pc.along(**given)


def test_along_does_not_show_what_functions_raise():
    def broken(t, x, u, params):
        raise RuntimeError(f"secret {x[0]}")

    plant = ct.nlsys(broken, None, inputs=1, outputs=1, states=1, dt=1.0)
    with pytest.raises(ValueError, match="raised RuntimeError at sample 0") as caught:
        pc.along(plant, np.full((1, 2), 7.5), np.zeros((1, 2)))
    assert "7.5" not in str(caught.value)


def delayed_outputs(plants, start, inputs, late_in, late_out):
    """y(t - late_out) of a run, u entering late_in samples after it is sent."""
    state, read = start, []
    for t, plant in enumerate(plants):
        read.append(plant.C @ state)
        sent = inputs[t - late_in] if t >= late_in else np.zeros(plant.ninputs)
        state = plant.A @ state + plant.B @ sent
    still = [np.zeros(plants[0].noutputs)] * late_out
    return np.array(still + read)[: len(plants)]


def test_delays_of_a_list_are_those_of_each_sample():
    rng = np.random.default_rng(4)
    plants = kv.random_plants(rng, 9, states=2, outputs=1, inputs=1)
    late = pc.with_delays(plants, {"u0": 2, "y0": 1})
    inputs = rng.normal(size=(9, 1))
    start = np.array([1.0, -0.5])
    plant = pc.trajectory_manifold(late, 9).plant
    states = np.zeros((1, plant.order))
    states[0, :2] = start
    outputs, _ = plant.run(states, inputs[None])
    expected = delayed_outputs(plants, start, inputs, 2, 1)
    np.testing.assert_allclose(outputs[0], expected, atol=1e-12)
    asked = dict(horizon=9, budget=BUDGET)
    with pytest.raises(ValueError, match="delays make a plant singular"):
        pc.design_output_noise(late, adjacency=pc.StateAdjacency({"x0": 1.0}), **asked)
    first = pc.StateAdjacency({"x0": 1.0}, times=0)
    assert (
        pc.design_output_noise(late, adjacency=first, **asked).guarantee.gdp <= ALLOWED
    )


def test_a_local_loop_closes_around_each_sample():
    plants = kv.random_plants(
        np.random.default_rng(6), 5, states=2, outputs=1, inputs=1
    )
    gain = ct.ss([], [], [], [[-0.4, 0.4]], None, inputs=["y0", "wish"], outputs=["u0"])
    closed = pc.with_local_loop(plants, gain)
    assert closed[3].input_labels == ["u0", "wish"]
    for one, plant in zip(closed, plants):
        np.testing.assert_allclose(one.A, plant.A - 0.4 * plant.B @ plant.C)
    secret = pc.DisturbanceAdjacency({"wish": 1.0}, duration=2, shape="level")
    noise = pc.design_output_noise(closed, horizon=5, budget=BUDGET, adjacency=secret)
    assert noise.guarantee.gdp <= ALLOWED


def test_releases_of_a_run_share_the_budget():
    plants = kv.random_plants(np.random.default_rng(7), 6, states=2, outputs=1)
    asked = dict(horizon=6, budget=BUDGET, adjacency=pc.StateAdjacency(1.0))
    one = pc.design_output_noise(plants, **asked)
    four = pc.design_output_noise(plants, releases=4, **asked)
    np.testing.assert_allclose(four.stds, 2 * one.stds, rtol=1e-9)
    assert four.guarantee.gdp <= ALLOWED


@pytest.mark.parametrize("enters", [False, True])
def test_a_growing_mode_that_no_output_sees_takes_no_digits_of_the_others(enters):
    """y(t) = -1 to the end, as the difference of two states that grow by 1.5 a sample."""
    samples = 300

    def stage(t):
        B = [[1.0, 0.0], [0.0, 1.0 + t % 2]]
        return ct.ss([[1.5, 0], [0.5, 1.0]], B, [[-1, 1]], 0, 1.0, inputs=["u", "w"])

    secret = pc.StateAdjacency({"x[0]": 1.0}, times=0)
    if enters:
        secret = pc.DisturbanceAdjacency({"u": 1.0}, times=[0])
    noise = pc.design_output_noise(
        [stage(t) for t in range(samples)],
        horizon=samples,
        budget=pc.PrivacyBudget(epsilon=1.0),
        adjacency=secret,
        models="exact",
        family="iid-laplace",
        max_std=np.inf,
    )
    assert noise.guarantee.epsilon(0.0) >= (samples - enters) / noise.process.scale[0]
    assert noise.process.scale[0] == pytest.approx(samples - enters, rel=1e-9)


def test_changes_some_samples_apart_are_detected_no_more_often_than_asked():
    """A budget's separation is in samples of the plant, the noise's sample is a period."""
    plants = [
        ct.ss([[pole]], [[gain]], [[1.0]], 0, 1.0, inputs=["u"], outputs=["y"])
        for pole, gain in ((0.5, 1.0), (0.9, 2.0), (0.3, 1.0))
    ]
    budget = pc.PrivacyBudget.from_risk(
        false_alarm=0.05, detection=0.3, events=3, separation=3
    )
    noise = pc.design_output_noise(
        plants, horizon=np.inf, budget=budget, models="exact", max_std=np.inf, gap=0.5,
        adjacency=pc.DisturbanceAdjacency({"u": 1.0}),
    )  # fmt: skip
    images = kv.forced(plants * 6, [0])
    sums = [
        images[:, [a, b, c]] @ np.array([1, sign, other])
        for a in range(18)
        for b in range(a + 3, 18)
        for c in range(b + 3, 18)
        for sign in (-1, 1)
        for other in (-1, 1)
    ]
    found = kv.shift(kv.covariance(noise.over(6)), np.array(sums).T)
    assert scipy.stats.norm.cdf(found + scipy.stats.norm.ppf(0.05)) <= 0.3
    said = " ".join(noise.guarantee.explain().split())
    assert "each sample counted here a period of 3 samples of the plant" in said


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("duration", [1, 2])
def test_changes_that_are_seen_after_the_run_alone_need_no_noise(together, duration):
    lag = ct.ss([[0.5]], [[1.0, 1.0]], [[1.0]], 0, 1.0)
    secret = pc.DisturbanceAdjacency(1.0, together=together, duration=duration, times=1)
    for sys in (lag, [lag, ct.ss([[0.4]], [[1.0, 1.0]], [[1.0]], 0, 1.0)]):
        with pytest.raises(pc.PrivacyError, match="no hidden move changes"):
            pc.design_output_noise(sys, horizon=2, budget=BUDGET, adjacency=secret)


@pytest.mark.parametrize("last, is_decided", [(1500, True), (1501, False)])
def test_spans_of_two_states_are_decided_over_up_to_1500_samples(last, is_decided):
    """A shear keeps the first state where it is."""
    A = np.broadcast_to(np.array([[1.0, 1.0], [0.0, 1.0]]), (last + 1, 2, 2))
    still = np.zeros((last + 1, 2, 1))
    seen = np.ones((last + 1, 1, 2))
    plant = VaryingSystem((A, still, seen, seen[:, :, :1]))
    axis = np.array([[1.0], [0.0]])
    if is_decided:
        assert spanned_back(plant, axis, [0, last]).tolist() == [[1], [0]]
        return
    with pytest.raises(pc.core.UncertifiableError, match="it is not decided whether"):
        spanned_back(plant, axis, [0, last])


def test_a_stream_of_noise_that_varies_is_its_sample_whatever_is_drawn_at_a_time(
    monkeypatch,
):
    monkeypatch.setattr("privcontrol.noise.process._CHUNK", 5)
    plants = [
        ct.ss(VEHICLE.A * (1 - 0.01 * t), VEHICLE.B, VEHICLE.C, 0, VEHICLE.dt)
        for t in range(T)
    ]
    secret = pc.StateAdjacency({"x[0]": 1.0})
    noise = pc.design_output_noise(
        plants, horizon=T, budget=BUDGET, adjacency=secret, floor=0.1
    )
    streamed = np.array(list(noise.stream(rng=3))).T
    assert streamed == pytest.approx(noise.sample(rng=3)[:, 0], rel=1e-12)


@pytest.mark.parametrize("horizon", [10, 60])
def test_noise_for_a_query_of_a_list_is_that_of_the_plant_whose_outputs_it_has(horizon):
    """Only the first B differs. Rounded moves would cost more by 1e-12 and 9e-11."""
    plant = ct.ss(
        [[0.9, -0.4], [0, 0.5]], np.eye(2), [[1, 0.3]], 0, 1, states=["a", "b"]
    )
    other = ct.ss(plant.A, 2 * plant.B, plant.C, 0, 1, states=["a", "b"])
    adjacency = pc.StateAdjacency({"a": 1.0})
    one, along = (
        pc.core.design_gaussian(pc.output_query(sys, horizon), adjacency, BUDGET)
        for sys in (plant, [other, *[plant] * (horizon - 1)])
    )
    assert along.cost == pytest.approx(one.cost, rel=1e-14)
    assert along.guarantee.gdp == pytest.approx(one.guarantee.gdp, rel=1e-15)


def test_a_model_that_stays_the_same_is_one_of_a_period_at_each_sample():
    slow, fast = (
        ct.ss(pole, 1, 1, 0, 1, inputs=["u"], outputs=["y"]) for pole in (0.9, 0.5)
    )
    asked = dict(
        horizon=np.inf, budget=BUDGET, adjacency=pc.DisturbanceAdjacency(1.0), floor=0.5
    )
    alone, spelled_out = (
        pc.design_output_noise([slow, fast, fast], models=[model], **asked)
        for model in (slow, [slow, slow, slow])
    )
    assert alone.std == pytest.approx(spelled_out.std, rel=1e-12)
    assert alone.guarantee.gdp == spelled_out.guarantee.gdp
