"""Loops whose controller is a function or a ct.nlsys, against linear loops of the same law."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import cases
import control as ct
import numpy as np
import pytest
from scipy.stats import binom

import privcontrol as pc

DT = 0.1
LEAD = ct.ss(ct.tf([-6.0, 5.6], [1.0, -0.6], DT))
#: From (y, v, r) to (v, u), whose names are not in the plant's order.
WIRED = ct.ss(
    [[0.5, 0.1], [0.0, 0.8]],
    [[0.2, 0.1, 0.3], [0.1, -0.4, 0.2]],
    [[1.0, 0.0], [0.3, -0.7]],
    [[0.0, 0.2, 0.0], [-1.0, -2.0, 0.5]],
    DT,
    inputs=["v", "r", "y"],
    outputs=["push", "u"],
)


def as_nlsys(law, **names):
    """A linear system as functions."""
    labels = {"inputs": law.input_labels, "outputs": law.output_labels}
    return ct.nlsys(
        lambda t, x, u, params: law.A @ x + law.B @ u,
        lambda t, x, u, params: law.C @ x + law.D @ u,
        states=law.nstates,
        dt=DT,
        **{**labels, **names},
    )


class Lead:
    """The lead filter as a function that keeps its own state, with a reference beside."""

    def __init__(self):
        self.state = np.zeros(1)
        self.times = []

    def __call__(self, t, yhat, estimate, reference):
        assert yhat.shape == (1,)
        if t == 0:
            self.state = np.zeros(1)
        self.times.append(t)
        u = LEAD.C @ self.state + LEAD.D @ yhat
        self.state = LEAD.A @ self.state + LEAD.B @ yhat
        return u if reference is None else u + reference.sum()


RUN = {"initial_state": [1.0, -0.5], "trials": 40, "rng": 3}


def same(a, b):
    alike = [x == y for x, y in zip(a.state_labels, b.state_labels)]
    n = [*alike, False].index(False)
    assert n >= 1
    np.testing.assert_allclose(a.outputs, b.outputs, atol=1e-9)
    np.testing.assert_allclose(a.states[:n], b.states[:n], atol=1e-9)
    np.testing.assert_array_equal(a.inputs[-1], b.inputs[-1])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"disturbance": "design", "measurement_noise": "design"},
        {"saturation": 2.0},
        {"timepts": DT * np.arange(7)},
    ],
    ids=["plain", "disturbed", "saturated", "short"],
)
@pytest.mark.parametrize("law", [as_nlsys(LEAD), Lead()], ids=["nlsys", "function"])
def test_a_function_runs_as_the_linear_law_that_it_is(law, options):
    vehicle, noise = pc.plants.vehicle(), cases.vehicle_noise(horizon=30)
    known = {"QN": 0.01, "RN": 0.04}
    linear = pc.private_loop(vehicle, controller=LEAD, noise=noise, **known)
    own = pc.private_loop(vehicle, controller=law, noise=noise, **known)
    expected = linear.simulate(**RUN, **options)
    got = own.simulate(**RUN, **options)
    same(expected, got)
    assert str(own.guarantee) == str(noise.guarantee)
    few = own.simulate(**{**RUN, "trials": 5}, **options)
    np.testing.assert_array_equal(few.states, got.states[:, :5])


def test_signals_are_wired_by_name_and_references_reach_the_law():
    B = [[0.005, 0.01, 0.0], [0.1, 0.2, 0.05]]
    names = {"states": ["position", "velocity"], "outputs": ["y", "v"]}
    plant = ct.ss(
        [[1, DT], [0, 1]], B, np.eye(2), 0, DT, inputs=["u", "push", "wind"], **names
    )
    noise = pc.design_output_noise(
        plant,
        horizon=25,
        budget=pc.PrivacyBudget(gdp=0.5),
        adjacency=pc.StateAdjacency({"position": 1.0}),
        models="exact",
    )
    options = {"noise": noise, "controls": ["u", "push"]}
    linear = pc.private_loop(plant, controller=WIRED, **options)
    own = pc.private_loop(plant, controller=as_nlsys(WIRED), **options)
    rng = np.random.default_rng(0)
    run = {"reference": rng.normal(size=(1, 25)), "trials": 3, "rng": 1}
    run["exogenous"] = {"wind": rng.normal(size=(3, 25))}
    same(linear.simulate(**run), own.simulate(**run))
    assert own.simulate(**run).input_labels == linear.simulate(**run).input_labels

    def added(t, yhat, estimate, reference):
        return [0.0, 0.0] if reference is None else reference[:2] - reference[2]

    summed = pc.private_loop(plant, controller=added, **options)
    still = summed.simulate(trials=1, rng=0)
    assert not still.outputs[2:].any()
    followed = rng.normal(size=(3, 25))
    sent = summed.simulate(reference=followed, trials=1, rng=0).outputs[2:, 0]
    np.testing.assert_allclose(sent, followed[:2] - followed[2], atol=1e-12)


PRIOR = {"P0": [0.5, 0.1], "initial_state": [1.0, -0.2], "QN": 0.01, "RN": 0.04}
DRAWN = {
    "initial_state": "design",
    "disturbance": "design",
    "measurement_noise": "design",
}
GAIN = np.array([[0.8, 1.1]])


def fed_back(t, yhat, estimate, reference):
    return -GAIN @ estimate


@pytest.mark.parametrize("floor", [0.0, 0.2])
def test_the_estimate_is_that_of_the_loop_with_the_same_prior(floor):
    """A function that feeds the estimate back is private_lqg's own filter and feedback."""
    vehicle = pc.plants.vehicle()
    noise = pc.design_output_noise(
        vehicle,
        horizon=25,
        budget=pc.PrivacyBudget(gdp=0.5),
        adjacency=pc.StateAdjacency({"position": 1.0}),
        floor=floor,
        models="exact",
    )
    best = pc.private_lqg(vehicle, Q=1, R=1, noise=noise, **PRIOR)
    law = replace(best.data.law, K=GAIN)
    best = replace(best, data=replace(best.data, law=law))
    own = pc.private_loop(vehicle, controller=fed_back, noise=noise, **PRIOR)
    run = {"trials": 5, "rng": 2, "saturation": 1.0, **DRAWN}
    expected = best.simulate(**run)
    got = own.simulate(**run)
    np.testing.assert_allclose(got.outputs, expected.outputs, atol=1e-9)
    np.testing.assert_allclose(got.states, expected.states, atol=1e-9)
    assert got.state_labels == expected.state_labels
    again = own.with_noise(noise).simulate(**run)
    np.testing.assert_array_equal(again.outputs, got.outputs)
    free = own.simulate(trials=1, rng=2, **DRAWN)
    cloud = own.online()
    steps = [cloud.step(yhat) for yhat in free.outputs[:1, 0].T]
    np.testing.assert_allclose(np.transpose(steps), free.outputs[1:, 0], atol=1e-10)


def test_estimates_without_a_prior_are_least_squares():
    """Two readings of a plant without disturbance determine position and velocity."""
    noise = pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=3,
        budget=pc.PrivacyBudget(gdp=0.5),
        adjacency=pc.StateAdjacency({"position": 1.0}),
        models="exact",
    )
    seen = []

    def watch(t, yhat, estimate, reference):
        seen.append((yhat[0], estimate))
        return 0.0

    loop = pc.private_loop(
        pc.plants.vehicle(), controller=watch, noise=noise, QN=0.0, RN=0.0
    )
    loop.simulate(initial_state=[2.0, -1.0], rng=0)
    (first, _), (second, estimate), _ = seen
    np.testing.assert_allclose(estimate[1], (second - first) / 0.1, atol=1e-6)


def test_a_prior_goes_with_the_covariances_and_with_functions_only():
    noise = cases.vehicle_noise(horizon=5)
    vehicle = pc.plants.vehicle()
    with pytest.raises(ValueError, match="P0: the estimate .* pass QN and RN"):
        pc.private_loop(vehicle, controller=fed_back, noise=noise, P0=1.0)
    for way in ({"K": GAIN, "L": [0.5, 0.5]}, {"controller": LEAD}):
        with pytest.raises(ValueError, match=r"P0, initial_state: .*private_lqg"):
            pc.private_loop(vehicle, noise=noise, P0=1.0, **way)
    with pytest.warns(pc.PrivacyWarning, match="declares that part of the secret pub"):
        pc.private_loop(
            vehicle, controller=fed_back, noise=noise, QN=1, RN=1, P0=[0.0, 1.0]
        )
    unknown = pc.private_loop(vehicle, controller=proportional, noise=noise)
    with pytest.raises(ValueError, match="initial_estimate: "):
        unknown.simulate(initial_estimate=[0.0, 0.0], rng=0)


def test_runs_follow_each_other_and_begin_at_zero():
    law = Lead()
    loop = pc.private_loop(
        pc.plants.vehicle(), controller=law, noise=cases.vehicle_noise(horizon=4)
    )
    loop.simulate(trials=3, rng=0)
    assert law.times == pytest.approx(3 * [0.0, 0.1, 0.2, 0.3])


def proportional(t, yhat, estimate, reference):
    return -0.5 * yhat


def test_loops_of_functions_that_pickle_do():
    noise = cases.vehicle_noise(horizon=10)
    loop = pc.private_loop(pc.plants.vehicle(), controller=proportional, noise=noise)
    here = loop.simulate(trials=70, rng=0)
    again = pickle.loads(pickle.dumps(loop)).simulate(trials=70, rng=0)
    np.testing.assert_array_equal(again.outputs, here.outputs)
    with ProcessPoolExecutor(2) as pool:
        there = loop.simulate(trials=70, rng=0, executor=pool)
    np.testing.assert_array_equal(there.outputs, here.outputs)


def test_a_function_acts_on_a_nonlinear_plant_with_whole_signals():
    """About an operating point away from zero: yhat and u are those of the plant."""
    names = {"states": ["level"], "inputs": ["flow"], "outputs": ["y"]}
    tank = ct.nlsys(
        lambda t, x, u, params: x - 0.02 * x**2 + 0.1 * u,
        lambda t, x, u, params: x,
        dt=1.0,
        **names,
    )
    box = pc.jacobian_polytope(tank, {"level": (1.0, 3.0), "flow": (0.0, 2.0)})
    noise = pc.design_output_noise(
        box.nominal,
        horizon=20,
        budget=pc.PrivacyBudget(gdp=1.0),
        adjacency=pc.StateAdjacency({"level": 0.05}, times=0),
        models=box,
    )
    point = ([2.0], [0.8])
    gain = ct.ss([], [], [], [[-0.5]], None)
    linear = pc.private_loop(tank, controller=gain, noise=noise, operating_point=point)

    def whole(t, yhat, estimate, reference):
        return 0.8 - 0.5 * (yhat - 2.0)

    own = pc.private_loop(tank, controller=whole, noise=noise, operating_point=point)
    run = {"initial_state": [2.1], "trials": 6, "rng": 0}
    same(linear.simulate(**run), own.simulate(**run))
    np.testing.assert_array_equal(
        linear.simulate(**run).left_region, own.simulate(**run).left_region
    )
    seen = []

    def watch(t, yhat, estimate, reference):
        seen.append(estimate[0])
        return 0.8

    exact = {"QN": 1e-8, "RN": 1e-8, "P0": 1e-8, "initial_state": [2.1]}
    known = pc.private_loop(
        tank, controller=watch, noise=noise, operating_point=point, **exact
    )
    states = known.simulate(rng=0).states[0, 0]
    np.testing.assert_allclose(seen[:2], states[:2], atol=0.01)


@pytest.mark.parametrize(
    "what",
    [
        lambda loop: loop.cost(),
        lambda loop: loop.mean_square_error(),
        lambda loop: loop.steady_state_cost(),
        lambda loop: loop.poles(),
        lambda loop: loop.closed_loop,
        lambda loop: loop.system,
        lambda loop: loop.noise_weight(5)(np.eye(5)),
        lambda loop: loop.report("page.html"),
    ],
)
def test_what_a_function_has_not_is_refused_with_the_reason(what):
    noise = cases.vehicle_noise(horizon=5)
    loop = pc.private_loop(
        pc.plants.vehicle(), controller=proportional, noise=noise, Q=1, R=1, QN=1, RN=1
    )
    with pytest.raises(ValueError, match=r"controller is a function, .*simulate\("):
        what(loop)


def test_a_loop_of_a_function_is_shown_but_not_saved(tmp_path):
    noise = cases.vehicle_noise(horizon=5)
    loop = pc.private_loop(pc.plants.vehicle(), controller=proportional, noise=noise)
    assert "Poles" not in loop._repr_html_()
    assert "position" in loop._repr_html_()
    with pytest.raises(ValueError, match=r"^controller: .*loop\.online\(\) runs it"):
        _ = loop.controller
    with pytest.raises(ValueError, match=r"functions cannot be written to a file"):
        loop.save(tmp_path / "loop.json")


ANSWERS = {
    "two": (
        [1.0, 2.0],
        "expected 1 inputs, shape \\(1,\\), got list of shape \\(2,\\)",
    ),
    "none": (None, "expected finite inputs, .* at sample 0; an optimisation may be"),
    "nan": ([np.nan], "expected finite inputs"),
    "text": ("much", "expected 1 inputs, .* got str"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_answers_that_are_no_inputs_are_refused(case):
    answer, message = ANSWERS[case]
    loop = pc.private_loop(
        pc.plants.vehicle(),
        controller=lambda t, yhat, estimate, reference: answer,
        noise=cases.vehicle_noise(horizon=5),
    )
    with pytest.raises(ValueError, match=message):
        loop.simulate(rng=0)


def test_a_number_is_an_answer_for_one_input():
    noise = cases.vehicle_noise(horizon=5)
    vehicle = pc.plants.vehicle()
    loop = pc.private_loop(vehicle, controller=lambda t, y, x, r: 3.0, noise=noise)
    assert (loop.simulate(rng=0).outputs["u"] == 3.0).all()


def test_doors_refuse_what_does_not_go_together():
    noise = cases.vehicle_noise(horizon=5)
    vehicle = pc.plants.vehicle()
    with pytest.raises(TypeError, match="takes the place of K and L"):
        pc.private_loop(vehicle, [1.0, 1.0], [1.0, 1.0], noise, controller=proportional)
    loop = pc.private_loop(vehicle, controller=proportional, noise=noise)
    with pytest.raises(ValueError, match="has a function of its own already"):
        loop.simulate(controller=lambda t, xhat, xd: 0 * xhat[:1], rng=0)
    direct = ct.ss([[0.5]], [[1.0]], [[1.0]], [[0.1]], DT)
    with pytest.raises(ValueError, match=r"delay that input by one sample"):
        pc.private_loop(direct, controller=proportional)
    slow = ct.nlsys(None, lambda t, x, u, p: u**2, inputs=1, outputs=1, dt=0.3)
    with pytest.raises(ct.ControlArgument, match="3 times slower"):
        pc.private_loop(vehicle, controller=slow)


def systems():
    """Estimator and state feedback as python-control makes them."""
    vehicle = pc.plants.vehicle()
    estimator = ct.create_estimator_iosystem(
        vehicle, np.eye(1), np.eye(1), P0=np.eye(2), measurement_labels=["y"], name="e"
    )
    feedback, _ = ct.create_statefbk_iosystem(
        vehicle, np.array([[1.0, 1.5]]), estimator=estimator, name="f"
    )
    return feedback, estimator


def test_systems_in_the_place_of_gains_are_told_where_to_go():
    feedback, estimator = systems()
    noise = cases.vehicle_noise(horizon=5)
    with pytest.raises(ct.ControlArgument, match=r"K: expected a gain, .*controller="):
        pc.private_loop(pc.plants.vehicle(), feedback, estimator, noise)
    with pytest.raises(ct.ControlArgument, match=r"L: expected a gain, .*controller="):
        pc.private_loop(pc.plants.vehicle(), [1.0, 1.5], estimator, noise)


def test_an_estimator_with_its_own_prior_is_not_settled_silently():
    feedback, estimator = systems()
    cloud = ct.interconnect(
        [estimator, feedback],
        inputs=["xd[0]", "xd[1]", "ud[0]", "y"],
        outputs=["u"],
        dt=DT,
    )
    with pytest.warns(UserWarning, match=r"P0 that was passed .*private_lqg\(P0="):
        pc.private_loop(pc.plants.vehicle(), controller=cloud)


class ToTheWall:
    """The last step of an MPC: a prediction that touches the wall less its margin."""

    def __init__(self, margins):
        self.margins = margins

    def __call__(self, t, yhat, estimate, reference):
        sample = round(t / 0.5) + 1
        ahead = self.margins[min(sample, len(self.margins) - 1)]
        return (8.0 - ahead - estimate) / 0.5


@pytest.mark.slow
def test_margins_keep_a_function_from_a_wall_as_often_as_stated():
    """2,000 runs that touch a wall at all times: at most 5 % cross it.

    More than 150 would be seen with probability 1e-6 at 5 %. With margins of half the
    size far more runs cross.
    """
    cart = ct.ss(1, 0.5, 1, 0, 0.5, states=["place"])
    noise = pc.design_output_noise(
        cart,
        horizon=12,
        budget=pc.PrivacyBudget(gdp=0.5),
        adjacency=pc.StateAdjacency(0.5),
        models="exact",
    )
    known = {"P0": 0.09, "initial_state": [0.0], "QN": 4e-4, "RN": 4e-4}
    crossed = {}
    margins = pc.private_loop(
        cart, controller=ToTheWall(np.zeros(12)), noise=noise, **known
    ).margins([1.0], probability=0.05)
    for size in (1.0, 0.5):
        law = ToTheWall(size * margins)
        loop = pc.private_loop(cart, controller=law, noise=noise, **known)
        run = loop.simulate(trials=2000, rng=7, **DRAWN)
        crossed[size] = int((run.states[0] > 8.0).any(axis=1).sum())
    assert crossed[1.0] <= binom.ppf(1 - 1e-6, 2000, 0.05) < 155 < crossed[0.5]
