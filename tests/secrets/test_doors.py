"""What adjacencies of plants take, what they refuse, and what their guarantees say."""

import control as ct
import numpy as np
import pytest

import privcontrol as pc

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)


def named(states, inputs=("u",)):
    A, B, C = [[0.9, 0.1], [0, 0.8]], [[0.5], [1.0]], [[1.0, 0]]
    return ct.ss(A, B, C, 0, 1.0, states=list(states), inputs=list(inputs))


@pytest.mark.parametrize("index", [0, 1])
def test_radii_may_be_given_by_position(index):
    plant = named(["level", "flow"])
    by_name = pc.StateAdjacency({plant.state_labels[index]: 2.0}, times=0)
    for kind in (pc.StateAdjacency, pc.InitialStateAdjacency):
        options = {"times": 0} if kind is pc.StateAdjacency else {}
        manifold = pc.trajectory_manifold(plant, 3)
        moves = kind({index: 2.0}, **options).moves(manifold)
        columns = moves.factor if hasattr(moves, "factor") else moves.columns
        np.testing.assert_array_equal(columns, by_name.moves(manifold).columns)


def test_a_number_that_is_another_states_name_is_ambiguous():
    adjacency = pc.StateAdjacency({0: 1.0})
    with pytest.raises(ValueError, match="'0' is the name of number 1"):
        adjacency.moves(pc.trajectory_manifold(named(["1", "0"]), 3))
    named_alike = pc.trajectory_manifold(named(["0", "1"]), 3)
    assert not adjacency.moves(named_alike).columns[1].any()


def test_inputs_may_be_given_by_position_within_their_number():
    adjacency = pc.DisturbanceAdjacency({0: 1.0})
    plant = named(["level", "flow"], ["heat"])
    query = pc.output_query(plant, 2)
    assert adjacency.signals(query.plant) == ("heat",)
    for wrong in (
        pc.DisturbanceAdjacency({1: 1.0}),
        pc.DisturbanceAdjacency(1.0, inputs=[3]),
    ):
        with pytest.raises(ValueError, match="or the position of an input"):
            wrong.signals(query.plant)


def test_a_load_that_keeps_its_value_is_a_step_and_called_one():
    A = [[0.9, 0.1], [0, 1.0]]
    plant = ct.ss(A, [[1.0], [0]], [[1.0, 0]], 0, 1.0, states=["T", "load"])
    request = dict(horizon=6, budget=BUDGET)
    step = pc.DisturbanceAdjacency({"load": 1.0})
    text = pc.design_output_noise(plant, adjacency=step, **request).guarantee.sentence
    assert "longer ones" not in text
    assert "a second step of load" in text
    pulse = pc.DisturbanceAdjacency({"T": 1.0})
    text = pc.design_output_noise(plant, adjacency=pulse, **request).guarantee.sentence
    assert "longer ones" in text
    assert "second step" not in text


@pytest.mark.parametrize(
    "adjacency",
    [
        pc.StateAdjacency(1.0, times=0),
        pc.InitialStateAdjacency(1.0),
        pc.DisturbanceAdjacency(1.0),
    ],
)
def test_the_guarantee_of_the_mechanism_assumes_what_that_of_the_noise_does(adjacency):
    noise = pc.design_output_noise(
        named(["level", "flow"]), horizon=4, budget=BUDGET, adjacency=adjacency
    )
    again = noise.design.mechanism.guarantee(adjacency)
    assert again.scope.assumptions == noise.guarantee.scope.assumptions
    assert again.gdp == pytest.approx(noise.guarantee.gdp, rel=1e-9)
