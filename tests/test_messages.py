"""What a user meets who types something else than what is meant: the error says what to do."""

import re
import warnings

import control as ct
import numpy as np
import pytest

import privcontrol as pc

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
    assert "epsilon = inf" not in text and re.search("epsilon = |gdp = ", text)


def test_models_that_are_no_polytope_are_not_called_one():
    plant = ct.ss(1.0, 1.0, 1.0, 0, 1.0, states=["x"], inputs=["u"], outputs=["y"])
    secret = pc.DisturbanceAdjacency({"u": 1.0})
    box = pc.PlantBox(plant, A=[[0.1]])
    with pytest.raises(Exception) as caught:
        design(plant, adjacency=secret, models=box, horizon=np.inf)
    assert "polytope" not in str(caught.value).lower()


def test_a_function_that_has_no_estimate_is_told_what_it_needs():
    room = ct.ss(0.9, [[1, 1]], 1, 0, 1, inputs=["heat", "people"])
    noise = design(room, adjacency=pc.DisturbanceAdjacency({"people": 1.0}))
    law = {"controller": lambda t, yhat, estimate, r: -0.1 * yhat, "controls": ["heat"]}
    with pytest.warns(pc.PrivacyWarning, match="estimate is None.* pass P0"):
        pc.private_loop(room, noise=noise, **law, QN=1.0, RN=1.0)


def test_a_mode_that_no_output_sees_is_to_be_left_out():
    """Two masses on a spring, whose place no reading of their distance tells."""
    A = [[0, 1, 0, 0], [-1, -1, 1, 0], [0, 0, 0, 1], [1, 0, -1, -1]]
    names = {"states": ["p", "v", "q", "w"], "inputs": ["push"], "outputs": ["gap"]}
    C = [[1, 0, -1, 0]]
    masses = ct.ss(A, [[0], [1], [0], [0]], C, 0, **names).sample(0.1)
    push = pc.DisturbanceAdjacency({"push": 1.0})
    with pytest.raises(ValueError, match=r"1 \(p, q\).*with differences of states"):
        design(masses, horizon=np.inf, adjacency=push)


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
    assert caught and {each.filename for each in caught} == {__file__}


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
        TypeError, match=r"takes sys by position; pass the .*horizon, b"
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
