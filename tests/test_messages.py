"""What a user meets who types something else than what is meant: the error says what to do."""

import re
import warnings

import control as ct
import numpy as np
import pytest
from scipy.signal import lfilter

import privcontrol as pc
from privcontrol.deploy import Relay

VEHICLE = pc.plants.vehicle()
REQUEST = {
    "horizon": 20,
    "budget": pc.PrivacyBudget(epsilon=1.0, delta=1e-3),
    "adjacency": pc.StateAdjacency({"position": 1.0}),
    "models": "exact",
}
TWO_MODES = {"states": ["drift", "lag"], "inputs": ["u"], "outputs": ["y"]}


def design(plant=VEHICLE, **changes):
    return pc.design_output_noise(plant, **REQUEST | changes)


def test_a_horizon_counts_samples():
    with pytest.raises(TypeError, match="horizon: expected a whole number of samples"):
        design(horizon=10.5)
    with pytest.raises(TypeError, match=r"np\.inf for a run of any length, got None"):
        design(horizon=None)


def test_an_input_is_protected_as_a_disturbance():
    with pytest.raises(ValueError, match=r"DisturbanceAdjacency\(\{'u': ...\}\)"):
        design(adjacency=pc.StateAdjacency({"u": 1.0}))


def test_frequency_responses_are_no_nonlinear_plant():
    responses = ct.frd(VEHICLE, [0.1, 0.2])
    with pytest.raises(ct.ControlArgument, match="fit a model") as caught:
        design(responses)
    assert "nominal" not in str(caught.value)


def test_a_reference_names_the_states_that_it_is_for():
    loop = pc.private_lqg(VEHICLE, 1, 1, 1, 1, design())
    with pytest.raises(ct.ControlDimension, match="one for each of position, velocity"):
        loop.simulate(reference=[1.0])


@pytest.mark.parametrize("modulus", [1.0, 1.2])
def test_a_missing_kalman_gain_names_the_mode_that_nobody_sees(modulus):
    """[A - z I; C] loses rank for the drift alone; a lag that is not seen decays, and has a gain."""
    A, B = np.diag([modulus, 0.5]), np.ones((2, 1))
    plant = ct.ss(A, B, [[0, 1]], 0, 0.1, **TWO_MODES)
    name = re.escape(f"{modulus:g} (drift)")
    with pytest.raises(ValueError, match=f"outputs do not see the mode {name}"):
        pc.private_lqg(plant, 1, 1, 1, 1)
    seen = ct.ss(A, B, [[1, 0]], 0, 0.1, **TWO_MODES)
    assert np.abs(pc.private_lqg(seen, 1, 1, 1, 1).poles()).max() < 1


def test_a_missing_feedback_gain_names_the_mode_that_no_input_reaches():
    A = np.diag([1.2, 0.5])
    plant = ct.ss(A, [[0], [1]], [[1, 1]], 0, 0.1, **TWO_MODES)
    with pytest.raises(ValueError, match=r"do not reach the mode 1.2 \(state 0\)"):
        pc.private_lqg(plant, 1, 1, 1, 1)


@pytest.mark.parametrize("limit", [1e-3, 1e-160])
def test_a_limit_that_no_epsilon_meets_is_answered_in_gdp(limit):
    with pytest.raises(pc.PrivacyError) as caught:
        design(max_std=limit)
    text = str(caught.value)
    assert "epsilon = inf" not in text
    assert re.search("epsilon = |gdp = ", text)


def test_models_that_are_no_polytope_are_not_called_one():
    plant = ct.ss(1.0, 1.0, 1.0, 0, 1.0, states=["x"], inputs=["u"], outputs=["y"])
    secret = pc.DisturbanceAdjacency({"u": 1.0})
    box = pc.PlantBox(plant, A=[[0.1]])
    with pytest.raises(Exception, match="^models: no bound") as caught:
        design(plant, adjacency=secret, models=box, horizon=np.inf)
    assert "polytope" not in str(caught.value).lower()


def test_a_function_that_has_no_estimate_is_told_what_it_needs():
    room = ct.ss(0.9, [[1, 1]], 1, 0, 1, inputs=["heat", "people"])
    noise = design(room, adjacency=pc.DisturbanceAdjacency({"people": 1.0}))
    law = {"controller": lambda t, yhat, estimate, r: -0.1 * yhat, "controls": ["heat"]}
    with pytest.warns(pc.PrivacyWarning, match="estimate is None.* pass P0"):
        pc.private_loop(room, noise=noise, **law, QN=1.0, RN=1.0)


# -- arguments and names that are not taken ------------------------------------------

RECORDED = np.random.default_rng(0).normal(size=(3, 80))


def lacked(find):
    """What is said of a name that is not there."""
    with pytest.raises(AttributeError) as caught:
        find()
    return str(caught.value)


def test_a_missing_name_is_answered_with_the_near_ones():
    said = lacked(lambda: pc.design_noise)
    assert "did you mean" in said
    assert "privcontrol.design_output_noise" in said
    assert "design_" in lacked(lambda: pc.core.design_nois)
    elsewhere = lacked(lambda: pc.pair_keys)
    assert "did you mean privcontrol.consensus.pair_keys" in elsewhere
    assert "privcontrol.private_lqg" in lacked(lambda: pc.core.private_lqg)
    assert "dir(privcontrol.consensus)" in lacked(lambda: pc.consensus.qqq)
    assert not hasattr(pc, "__wrapped__")


TAKEN = {
    "risks by position": (
        lambda: pc.PrivacyBudget.from_risk(0.05, 0.15),
        TypeError,
        r"from_risk\(\) takes nothing by position.*false_alarm, detection",
    ),
    "a risk alone": (
        lambda: pc.PrivacyBudget.from_risk(detection=0.15),
        TypeError,
        r"from_risk\(\) needs false_alarm; known are",
    ),
    "a state as a keyword": (
        lambda: pc.StateAdjacency(q=1.0),
        TypeError,
        r"StateAdjacency\(\) got .* 'q'; known are radius.*StateAdjacency\(\{'q': 1.0\}",
    ),
    "an initial state as a keyword": (
        lambda: pc.InitialStateAdjacency(q=1.0),
        TypeError,
        r"known are radius.*InitialStateAdjacency\(\{'q': 1.0\}",
    ),
    "an input as a keyword": (
        lambda: pc.DisturbanceAdjacency(people=1.0),
        TypeError,
        r"known are radius.*DisturbanceAdjacency\(\{'people': 1.0\}",
    ),
    "no radius": (
        lambda: pc.StateAdjacency(),
        TypeError,
        r"StateAdjacency\(\) needs radius; known are radius",
    ),
    "entries without a seed": (
        lambda: design().process.draw(),
        TypeError,
        r"draw\(\) needs rng, trials.*noise\.sample\(trials, rng=rng\)",
    ),
    "a controller of two inputs": (
        lambda: pc.private_feedback(VEHICLE, ct.ss(0.5, [[1, 1]], 1, 0, 0.1)),
        ct.ControlDimension,
        r"expected 1 inputs, one for the error.*got 2;.*private_loop\(sys, controller=C",
    ),
    "a gain of two inputs": (
        lambda: pc.private_feedback(VEHICLE, [[1.0, 2.0]]),
        ct.ControlDimension,
        r"got 2;.*private_loop\(sys, controller=C",
    ),
    "a state as an output with a sum": (
        lambda: pc.private_lqg(VEHICLE, 1, 1, 1, 1, integral=["position"]),
        ValueError,
        r"position is a state \(the outputs that read it: y\)",
    ),
    "a state as an output with a limit": (
        lambda: design(max_std={"velocity": 1.0}),
        ValueError,
        r"known outputs: y; velocity is a state \(no output reads it\)",
    ),
    "a state as an output that is read": (
        lambda: pc.Gateway(design(), grid=0.1).publish({"position": 1.0}),
        ValueError,
        "expected the outputs y, got other names; position is a state",
    ),
    "a state as an output with a delay": (
        lambda: pc.with_delays(VEHICLE, {"position": 1}),
        ValueError,
        "known names: u, y; position is a state",
    ),
    "an output as a state": (
        lambda: design(adjacency=pc.StateAdjacency({"y": 1.0})),
        ValueError,
        r"known states: position, velocity; y is an output .*it reads: position\)",
    ),
    "an output as a disturbance": (
        lambda: design(adjacency=pc.DisturbanceAdjacency({"y": 1.0})),
        ValueError,
        r"no input and no state.*y is an output .*it reads: position\)",
    ),
    "a state as a control": (
        lambda: pc.private_lqg(VEHICLE, 1, 1, 1, 1, controls=["position"]),
        ValueError,
        "known inputs are u; position is a state",
    ),
    "a floor by name": (
        lambda: design(floor={"y": 0.1}),
        TypeError,
        "floor: expected an array of real numbers, got a dict; pass them without names",
    ),
    "a plant to identify outputs of": (
        lambda: pc.identify_outputs(VEHICLE, RECORDED[:1], order=1, dt=0.1),
        TypeError,
        "outputs: expected recorded outputs, got a StateSpace; no plant is needed",
    ),
    "outputs called like states": (
        lambda: pc.identify_outputs(VEHICLE, RECORDED[:1], RECORDED[1:2]),
        TypeError,
        "takes outputs, inputs by position, got StateSpace, ndarray.*order, dt.*no plant",
    ),
}


@pytest.mark.parametrize("case", TAKEN)
def test_what_is_not_taken_is_answered_with_what_is(case):
    call, kind, said = TAKEN[case]
    with pytest.raises(kind, match=said):
        call()


def test_recorded_tables_are_read_by_the_names_of_their_columns():
    pandas = pytest.importorskip("pandas")
    x, u = RECORDED[:2], RECORDED[2:]
    table = pandas.DataFrame(
        {"u": u[0], "velocity": x[1], "note": "dry", "position": x[0]}
    )
    wanted = pc.identify_states(VEHICLE, x, u)
    split = pandas.DataFrame({"u": u[0]})
    for given in ((table,), (table, split), ([table],), ([table], [split]), (table, u)):
        assert pc.identify_states(VEHICLE, *given).box == wanted.box
    arrays = {"output_names": ["position"], "input_names": ["u"]}
    options = {"order": 1, "dt": 0.1}
    known = pc.identify_outputs(x[:1], u, **arrays, **options)
    assert pc.identify_outputs(table, **arrays, **options).box == known.box
    read = pc.identify_outputs(table[["position"]], split, **options)
    assert read.box == known.box
    both = pc.identify_outputs(table[["position", "u"]], input_names=["u"], **options)
    assert both.box == known.box
    with pytest.raises(ValueError, match="column for each of position, velocity"):
        pc.identify_states(VEHICLE, table[["position"]])


def test_outputs_without_inputs_have_one_that_stays_zero():
    """It ended in python-control's error about the matrix B."""
    y = lfilter([1.0], [1.0, -0.8], RECORDED[:1])
    alone = pc.identify_outputs(y, order=1, dt=0.1)
    assert alone.system.B.tolist() == [[0.0]]
    assert not alone.box.B.any()
    slope = np.linalg.lstsq(y[:, :-1].T, y[0, 1:])[0]
    assert abs(alone.system.A[0, 0] - slope[0]) < alone.box.A[0, 0] < 1.0


# -- cures that cure -----------------------------------------------------------------


@pytest.mark.parametrize(
    "modulus, is_advised", [(0.9, True), (1.0, False), (1.1, False)]
)
def test_the_note_on_time_names_an_infinite_horizon_only_where_noise_has_one(
    modulus, is_advised, monkeypatch
):
    plant = ct.ss(modulus, 1, 1, 0, 1, states=["x"], inputs=["u"], outputs=["y"])
    secret = pc.DisturbanceAdjacency({"u": 1.0})
    monkeypatch.setattr("privcontrol.numerics.progress.PATIENCE", 0.0)
    with pytest.warns(pc.PrivacyWarning, match="so far") as caught:
        design(plant, adjacency=secret, horizon=60, max_std=np.inf)
    said = next(str(w.message) for w in caught if "so far" in str(w.message))
    assert ("horizon=np.inf" in said) == is_advised
    if not is_advised:
        with pytest.raises(ValueError, match="no noise of bounded size"):
            design(plant, adjacency=secret, horizon=np.inf)


@pytest.mark.parametrize("width", [1.0, 0.01])
def test_directions_of_runge_kutta_are_not_fewer_in_a_narrow_region(width):
    """A cart with a pole: 132 vertices at any width, 16 by Euler's method."""

    def rates(t, x, u, params):
        sine, cosine = np.sin(x[2]), np.cos(x[2])
        mass = 1 + 0.1 * sine**2
        push = u[0] + 0.1 * sine * (x[3] ** 2 + 9.8 * cosine)
        turn = -u[0] * cosine - 0.1 * x[3] ** 2 * cosine * sine + 10.8 * sine
        return [x[1], push / mass, x[3], turn / mass]

    names = ["place", "speed", "angle", "rate"]
    cart = ct.nlsys(rates, lambda t, x, u, p: x, states=names, inputs=["u"], outputs=4)
    region = dict.fromkeys([*names, "u"], (-width, width))
    region["angle"] = (-0.2 * width, 0.2 * width)
    secret = pc.StateAdjacency({"place": 0.1}, times=0)

    def vertices(method):
        sampled = pc.sample_nonlinear(cart, 0.02, method=method)
        return pc.jacobian_polytope(sampled, region, max_vertices=16).plants(secret)

    with pytest.raises(ValueError, match='narrower region has .*method="euler"'):
        vertices("rk4")
    assert len(vertices("euler")) == 16


def test_a_mode_that_no_output_sees_is_to_be_left_out():
    """Two masses on a spring, whose place no reading of their distance tells."""
    A = [[0, 1, 0, 0], [-1, -1, 1, 0], [0, 0, 0, 1], [1, 0, -1, -1]]
    names = {"states": ["p", "v", "q", "w"], "inputs": ["push"], "outputs": ["gap"]}
    C = [[1, 0, -1, 0]]
    masses = ct.ss(A, [[0], [1], [0], [0]], C, 0, **names).sample(0.1)
    push = pc.DisturbanceAdjacency({"push": 1.0})
    with pytest.raises(ValueError, match=r"1 \(p, q\).*with differences of states"):
        design(masses, horizon=np.inf, adjacency=push)


def net_of_tanks(leak=0.0):
    """Three tanks beside each other, of which the middle one is drawn from."""
    flow = 2 * np.eye(3) - np.eye(3, k=1) - np.eye(3, k=-1)
    flow[0, 0] = flow[2, 2] = 1
    A = -0.1 * flow - leak * np.eye(3)
    net = ct.ss(A, [[0], [-1], [0]], np.eye(3), 0, inputs=["demand"])
    return net.sample(0.25)


LATE = pc.DisturbanceAdjacency({"demand": 0.2}, duration=4, moved=4, shape="level")


def test_a_moved_event_in_a_net_of_tanks_is_told_what_helps():
    """Sampling rounds the pole of all water in sum, so it does not cancel exactly."""
    with pytest.raises(ValueError, match=r"moved: .* finite horizon, or close") as told:
        design(net_of_tanks(), horizon=np.inf, adjacency=LATE)
    assert "mode[" not in str(told.value)


@pytest.mark.slow
@pytest.mark.parametrize("leak, horizon", [(0.0, 40), (0.1, np.inf)])
def test_what_helps_a_moved_event_in_a_net_of_tanks(leak, horizon):
    noise = design(net_of_tanks(leak), horizon=horizon, adjacency=LATE)
    assert noise.horizon == horizon


@pytest.mark.parametrize("known", [True, False])
def test_large_noise_names_the_models_only_where_there_are_some(known):
    models = "exact"
    if not known:
        models = pc.PlantBox(VEHICLE, A=[[0, 0.001], [0, 0]])
    with pytest.warns(pc.PrivacyWarning, match="raise the budget") as caught:
        design(
            budget=pc.PrivacyBudget(epsilon=1e-3, delta=1e-3),
            family="iid-gaussian",
            models=models,
        )
    assert ("narrow the models" in str(caught[0].message)) != known


def test_moves_at_one_time_are_said_once():
    secret = pc.StateAdjacency({"position": 1.0}, times=0)
    assert secret.statement.startswith("position by at most 1 at t = 0, ")
    assert "two times" not in design(adjacency=secret).guarantee.sentence
    both = pc.StateAdjacency(1.0, times=0)
    assert "two states moved" in design(adjacency=both).guarantee.sentence
    spread = pc.StateAdjacency({"position": 1.0}, times=[0, 3])
    assert "at one of t = 0, 3" in spread.statement
    assert "two times moved" in design(adjacency=spread).guarantee.sentence


PEOPLE = ct.ss(0.9, [[0.1, 0.1]], 1, 0, 1.0, inputs=["heat", "people"], states=["air"])
GUESTS = {**REQUEST, "adjacency": pc.DisturbanceAdjacency({"people": 1.0})}
WEIGHTS = {"Q": 1.0, "R": 1.0, "QN": 1.0, "RN": 1.0}
WARNED = {
    "an exact model": lambda: design(models=None),
    "a large delta": lambda: pc.PrivacyBudget(epsilon=1.0, delta=0.5),
    "an unstable loop": lambda: pc.private_feedback(VEHICLE, -1.0),
    "a secret input that is driven": lambda: pc.private_lqg(
        PEOPLE, **WEIGHTS, noise=pc.design_output_noise(PEOPLE, **GUESTS)
    ),
    "a prior that is the secret": lambda: pc.private_lqg(
        VEHICLE, **WEIGHTS, noise=design(), P0=[0.0, 1.0]
    ),
}


@pytest.mark.parametrize("name", WARNED)
def test_a_warning_names_the_line_of_the_user(name):
    """Some named lines of the package, and each wrapper more would have moved them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        WARNED[name]()
    assert caught
    assert {each.filename for each in caught} == {__file__}


def test_a_warning_of_one_line_comes_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            pc.PrivacyBudget(epsilon=1.0, delta=0.51)
    assert len(caught) == 1


def test_arguments_that_a_design_does_not_take_list_those_that_it_takes():
    with pytest.raises(
        TypeError, match=r"'T' \(did you mean horizon\?\); known are sys"
    ):
        design(T=20)
    with pytest.raises(TypeError, match=r"'weights' \(did you mean weight\?\)"):
        design(weights=1.0)
    with pytest.raises(
        TypeError, match=r"takes sys by position, got StateSpace, int, .*horizon, b"
    ):
        pc.design_output_noise(VEHICLE, 20, REQUEST["budget"])
    with pytest.raises(TypeError, match="takes graph, budget, radius by position"):
        pc.private_consensus(np.eye(2), REQUEST["budget"], 1.0, "laplace")
    loop = pc.private_lqg(VEHICLE, **WEIGHTS)
    with pytest.raises(TypeError, match="takes timepts, reference by position"):
        loop.simulate(None, None, None)


def test_plots_say_what_axes_and_units_are():
    noise = design()
    with pytest.raises(TypeError, match=r"ax: expected matplotlib Axes.*got int"):
        noise.plot(ax=3)
    with pytest.raises(TypeError, match=r"units: expected a mapping.*got str"):
        noise.plot(units="m")


def test_seconds_where_samples_are_counted_name_the_step():
    """Infinity is no time in seconds, so it has no such cure, nor has what counts others."""
    for refused in (
        lambda: pc.DisturbanceAdjacency(1.0, duration=2.5),
        lambda: design(horizon=20.5),
        lambda: pc.DisturbanceAdjacency(1.0, duration=1, events=2, separation=4.5),
    ):
        with pytest.raises(
            TypeError, match=r"counts samples, pass round\(seconds / dt\)"
        ):
            refused()
    with pytest.raises(TypeError) as endless:
        pc.DisturbanceAdjacency(1.0, duration=np.inf)
    assert "seconds" not in str(endless.value)
    with pytest.raises(TypeError, match="events: expected an integer") as counted:
        pc.DisturbanceAdjacency(1.0, duration=1, events=2.5, separation=4)
    assert "seconds" not in str(counted.value)


def test_a_list_of_another_length_than_the_run_names_both_cures():
    plants = [VEHICLE] * 5
    with pytest.raises(ValueError, match=r"pass horizon=5, or period=5"):
        pc.design_output_noise(plants, **REQUEST | {"horizon": 3})
    for cure in ({"horizon": 5}, {"horizon": 8, "period": 5}):
        noise = pc.design_output_noise(plants, **REQUEST | cure)
        assert noise.horizon == cure["horizon"]


def test_a_run_without_a_prior_says_what_each_cure_knows():
    weights = {"Q": np.eye(2), "R": 1, "QN": np.eye(2), "RN": 1, "horizon": 5}
    with pytest.raises(
        ValueError, match=r"P0, the covariance of x\(0\), or estimator="
    ):
        pc.private_lqg(VEHICLE, **weights)
    for cure in ({"P0": np.eye(2)}, {"estimator": "kalman"}):
        assert pc.private_lqg(VEHICLE, **weights, **cure).data.horizon == 5


def test_too_many_arguments_name_no_empty_list_of_keywords():
    noise = design()
    with pytest.raises(TypeError, match="takes rng, trials by position.*takes no more"):
        noise.process.draw(np.random.default_rng(0), 1, 20)
    with pytest.raises(TypeError, match="pass by keyword: [a-z]"):
        pc.design_output_noise(VEHICLE, 20)


def rocket(t):
    """A plant at sample t that grows lighter, whose height and speed are the states."""
    push = 0.5 / (1 - 0.01 * t)
    return ct.ss([[1, 0.5], [0, 0.98]], [[0.25 * push], [push]], [[1, 0]], 0, 0.5,
                 states=["h", "v"], inputs=["thrust"], outputs=["radar"])  # fmt: skip


OF_ROCKET = {"Q": np.diag([1, 0.1]), "R": 1, "QN": 1e-3 * np.eye(2), "RN": 1e-2}


def test_a_tradeoff_of_a_loop_or_of_a_list_names_what_it_takes():
    given = {"horizon": 20, "epsilons": [0.3, 3.0], "delta": 1e-2}
    secret = pc.StateAdjacency({"h": 2.0}, times=0)
    loop = pc.private_lqg(rocket(0), **OF_ROCKET)
    with pytest.raises(TypeError, match=r"needs Q, R, QN, RN; .* and no loop$"):
        pc.tradeoff(loop, adjacency=secret, **given)
    plants = [rocket(t) for t in range(20)]
    with pytest.raises(ct.ControlArgument) as refused:
        pc.tradeoff(plants, **OF_ROCKET, adjacency=secret, **given)
    assert str(refused.value).endswith(
        "private_lqg(sys, ..., P0=..., noise=noise).cost(disturbance='design', "
        "measurement_noise='design', initial_state='design')"
    )
    # followed for copies of one plant, the advice leads to that plant's curve
    P0 = np.diag([4, 0.1])
    same = [rocket(0)] * 20
    curve = pc.tradeoff(rocket(0), **OF_ROCKET, P0=P0, adjacency=secret, **given)
    whole = dict.fromkeys(
        ("disturbance", "measurement_noise", "initial_state"), "design"
    )
    for epsilon, total in zip(given["epsilons"], curve.total("trace"), strict=True):
        budget = pc.PrivacyBudget(epsilon=epsilon, delta=1e-2)
        noise = design(same, adjacency=secret, budget=budget)
        followed = pc.private_lqg(same, **OF_ROCKET, P0=P0, noise=noise)
        assert total <= followed.cost(**whole).total <= 1.001 * total
        assert followed.cost().total < 0.9 * total  # of the noise alone


def test_options_beside_a_loop_without_a_steady_state_name_one_that_has_it():
    """It said that the loop has no poles, and nothing of what to pass."""
    asked = {
        "horizon": 20,
        "budget": REQUEST["budget"],
        "adjacency": pc.StateAdjacency({"h": 2.0}, times=0),
    }
    prior = {"P0": np.diag([4, 0.1]), "horizon": 20}
    plants = [rocket(t) for t in range(20)]
    for sys in (plants, rocket(0)):
        varying = pc.private_lqg(sys, **OF_ROCKET, **prior)
        assert pc.options(sys, loop=varying, **asked)[0].signal is not None
    with pytest.raises(
        ValueError, match="loop: expected constant gains .* horizon of its run"
    ):
        pc.options(rocket(0), loop=varying, **asked | {"horizon": np.inf})
    constant = pc.private_lqg(rocket(0), **OF_ROCKET)
    assert pc.options(rocket(0), loop=constant, **asked)[0].signal is not None
    assert pc.options(plants, **asked)[0].signal is None


def test_the_growth_of_noise_for_a_change_is_asked_of_options():
    """The advice was noise without a horizon, which a plant with an integrator refuses."""
    store = ct.ss(1, 1, 1, 0, 1, states=["level"], inputs=["draw"], outputs=["y"])
    change = pc.DisturbanceAdjacency({"draw": 1.0}, duration=2)
    with pytest.raises(
        TypeError, match=r"disturbance, .* options\(sys, horizon="
    ) as it:
        pc.horizon_growth(store, change, [4, 8])
    assert "np.inf" not in str(it.value)
    ways = pc.options(
        store, horizon=4, budget=REQUEST["budget"], adjacency=change
    ).to_pandas()
    assert {"shaped", "8 samples"} <= set(ways["way"])


def test_states_without_names_say_how_to_name_them():
    def move(t, x, u, params):
        return [x[1], u[0] - np.sin(x[1])]

    crane = ct.nlsys(move, lambda t, x, u, params: x[:1], inputs=["pull"],
                     states=["trolley", "speed"], outputs=["encoder"])  # fmt: skip
    secret = pc.StateAdjacency({"trolley": 1.0})
    plain = crane.linearize([0, 0], [0]).sample(0.1)
    with pytest.raises(
        ValueError, match=r"known states: x\[0\], .* by copy_names=True"
    ):
        design(plain, adjacency=secret)
    named = crane.linearize([0, 0], [0], copy_names=True).sample(0.1)
    assert design(named, adjacency=secret).std[0] > 0
    with pytest.raises(ValueError, match="known states: position, velocity$"):
        design(adjacency=secret)


def test_a_response_in_place_of_an_array_names_its_parts():
    response = ct.forced_response(VEHICLE, 0.1 * np.arange(9), np.zeros((1, 9)))
    with pytest.raises(
        TypeError, match=r"states: .*TimeResponseData; pass its .states"
    ):
        pc.identify_states(VEHICLE, response, np.zeros((1, 9)))


def test_a_gain_for_all_inputs_is_told_which_ones_the_controller_drives():
    room = ct.ss(0.9, [[1, 0.1]], 1, 0, 1.0, inputs=["heat", "people"])
    both = ct.dlqr(room, np.eye(1), np.eye(2))[0]
    with pytest.raises(
        ct.ControlDimension, match=r"K: .*\(1, 1\), .* row for each of heat"
    ):
        pc.private_loop(room, both, 0.1, controls=["heat"])
    pc.private_loop(room, both, [[0.1]])


def test_a_covariance_in_place_of_a_disturbance_is_told_what_draws_from_it():
    loop = pc.private_lqg(VEHICLE, 1, 1, 1, 1, design())
    with pytest.raises(ct.ControlDimension, match='"design", which draws it from QN'):
        loop.simulate(disturbance=np.eye(2))
    with pytest.raises(ct.ControlDimension, match='"design", which draws it from RN'):
        loop.simulate(measurement_noise=0.1)


def test_a_start_in_place_of_a_trajectory_says_how_to_make_one():
    def move(t, x, u, params):
        return [x[1], u[0] - np.sin(x[1])]

    crane = ct.nlsys(move, lambda t, x, u, params: x[:1], inputs=1, outputs=1, states=2)
    with pytest.raises(ValueError, match=r"\(2, T\) and \(1, T\), got \(2,\)") as it:
        pc.along(crane, [0, 0], np.zeros((1, 5)), dt=0.1)
    assert "ct.input_output_response(sys, times, inputs, start).states" in str(it.value)
    times = 0.1 * np.arange(5)
    path = ct.input_output_response(crane, times, np.zeros((1, 5)), [0, 0]).states
    assert len(pc.along(crane, path, np.zeros((1, 5)), dt=0.1)) == 5


def test_a_network_is_given_a_radius_and_no_adjacency():
    with pytest.raises(TypeError, match=r"'adjacency'.* the secret is a radius"):
        pc.private_consensus(None, REQUEST["budget"], adjacency=pc.NodeAdjacency(1.0))


def test_an_audit_names_what_it_needs():
    with pytest.raises(TypeError, match=r"audit\(\) needs trials; known are"):
        pc.audit(design())


def test_an_audit_of_what_lists_no_moves_says_what_can_be_audited():
    lag = ct.ss(0.9, [[1, 1]], 1, 0, 1, inputs=["u", "w"], outputs=["y"])
    change = pc.DisturbanceAdjacency({"w": 1.0}, duration=3)
    budget = REQUEST["budget"]
    drawn = {"trials": 2000, "rng": 0}
    listed = design(lag, adjacency=change)
    with pytest.raises(ValueError, match=r"by shape=\"level\" .* claim=budget$"):
        pc.audit(listed, **drawn)
    level = pc.DisturbanceAdjacency({"w": 1.0}, duration=3, shape="level")
    assert pc.audit(listed, level, claim=budget, **drawn).passed
    noise = design(lag, adjacency=change, horizon=np.inf)
    for endless in (noise, noise.over(20)):
        with pytest.raises(TypeError, match="noise without a horizon has no moves"):
            pc.audit(endless, **drawn)
    T, k = 20, 0
    x = np.zeros(T)
    x2 = lfilter([0, 1], [1, -0.9], np.arange(T) < 3)

    def audited(scale):
        return pc.audit(
            lambda x, rng: x + scale * noise.over(T).sample(len(x), rng=rng)[k],
            inputs=(x, x2),
            claim=noise.guarantee,
            trials=20000,
            rng=0,
        )

    assert audited(1).passed
    assert not audited(0.3).passed


LOOP = pc.private_lqg(VEHICLE, 1, 1, 1e-4, 1e-2)
AGENTS = pc.private_consensus([[0, 0.25], [0.25, 0]], REQUEST["budget"], 1.0)


@pytest.mark.parametrize(
    "called, lacking",
    [
        (lambda: pc.options(pc.plants.vehicle()), "horizon, budget, adjacency"),
        (lambda: pc.load(), "path"),
        (lambda: pc.Gateway(), "noise"),
        (lambda: pc.Gateway.resume(), "path"),
        (lambda: Relay(epoch=0.0), "gateway"),
        (lambda: LOOP.margins([1, 0]), "probability"),
        (lambda: LOOP.report(date="2026-12-31"), "path"),
        (lambda: pc.consensus.read_network(weights="given"), "graph"),
        (lambda: pc.consensus.NodeAdjacency(moves="pair"), "radius"),
        (lambda: pc.consensus.PrivateConsensus(), "network, scales, adjacency"),
        (lambda: pc.consensus.optimal_consensus_epsilon(1.0), "nodes, radius"),
        (lambda: AGENTS.simulate([1.0, 2.0]), "steps"),
        (lambda: AGENTS.agent(0), "value"),
        (lambda: pc.consensus.plot_error(AGENTS), "initial_values, steps"),
    ],
)
def test_doors_say_which_arguments_they_need(called, lacking):
    with pytest.raises(TypeError, match=rf"\(\) needs {lacking}; known are"):
        called()
