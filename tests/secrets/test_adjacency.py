"""State adjacency: the moves of Theorem 3, by name and by time, against many digits; and what is refused."""

import cases
import control as ct
import numpy as np
import oracles
import pytest

import privcontrol as pc
from privcontrol.core import LinearQuery
from privcontrol.secrets import JointAdjacency


def columns(adjacency, plant, horizon):
    return adjacency.moves(pc.trajectory_manifold(plant, horizon)).columns


def test_moves_are_powers_of_the_inverse():
    plant = cases.random_plant(0, states=3)
    moves = columns(pc.StateAdjacency([1.0, 2.0, 0.5]), plant, 4)
    powers = [
        np.linalg.matrix_power(np.linalg.inv(plant.A), j) * [1.0, 2.0, 0.5]
        for j in range(4)
    ]
    np.testing.assert_allclose(moves, np.hstack(powers), rtol=1e-10)


def test_each_move_changes_one_state_at_its_time_by_its_radius():
    plant = cases.random_plant(4, states=3)
    manifold = pc.trajectory_manifold(plant, 5)
    moves = columns(pc.StateAdjacency({"s1": 0.3, "s2": 4.0}, times=[0, 3]), plant, 5)
    for column, (time, state, radius) in enumerate(
        [(0, 1, 0.3), (0, 2, 4.0), (3, 1, 0.3), (3, 2, 4.0)]
    ):
        at_time = (manifold.kernel @ moves[:, column]).reshape(5, 3)[time]
        np.testing.assert_allclose(at_time, radius * np.eye(3)[state], atol=1e-12)


def test_ways_to_name_the_same_adjacency_agree():
    plant = pc.plants.vehicle()
    by_name = columns(pc.StateAdjacency({"position": 2.0}), plant, 6)
    np.testing.assert_array_equal(
        by_name, columns(pc.StateAdjacency(2.0, states=["position"]), plant, 6)
    )
    np.testing.assert_array_equal(
        by_name, columns(pc.StateAdjacency([2.0], states=[0]), plant, 6)
    )
    np.testing.assert_array_equal(
        by_name, columns(pc.StateAdjacency({"position": 2.0}, times=range(6)), plant, 6)
    )
    assert pc.StateAdjacency({"position": 2.0}) == pc.StateAdjacency({"position": 2})
    assert pc.StateAdjacency({"position": 2.0}) != pc.StateAdjacency(
        {"position": 2.0}, times=0
    )


def test_hiding_the_position_of_the_vehicle_is_one_offset():
    np.testing.assert_array_equal(
        columns(cases.POSITION, pc.plants.vehicle(), 100),
        np.outer([1.0, 0.0], np.ones(100)),
    )


@pytest.mark.parametrize("radius", [0.7, 0.85, 0.95, 1.0, 1.1])
@pytest.mark.parametrize("horizon", [1, 10, 80, 300])
def test_sensitivity_of_a_mimo_plant_equals_60_digits_or_is_refused(radius, horizon):
    plant = cases.random_plant(int(100 * radius), states=5, radius=radius)
    radii = [1.0, 0.1, 3.0, 0.01, 1.0]
    try:
        found = pc.output_query(plant, horizon).sensitivity(pc.StateAdjacency(radii))
    except pc.UncertifiableError as refusal:
        assert "contracts too fast" in str(refusal)
        assert min(np.abs(np.linalg.eigvals(plant.A))) ** -horizon > 1e300
        return
    times = sorted({*range(0, horizon, max(1, horizon // 4)), horizon - 1})
    truth = float(oracles.output_sensitivity(plant.A, plant.C, radii, times, horizon))
    assert found >= truth * (1 - 1e-15)
    part = pc.output_query(plant, horizon).sensitivity(
        pc.StateAdjacency(radii, times=times)
    )
    assert part == pytest.approx(truth, rel=1e-8)
    assert part >= truth * (1 - 1e-15)


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_sensitivity_equals_the_dense_maximum_in_every_norm(norm):
    plant = cases.random_plant(8, states=3)
    adjacency = pc.StateAdjacency(0.5)
    dense = pc.observability_stack(plant, 7) @ columns(adjacency, plant, 7)
    truth = np.linalg.norm(dense, ord=norm, axis=0).max()
    found = pc.output_query(plant, 7).sensitivity(adjacency, norm)
    assert found == pytest.approx(truth, rel=1e-11)
    assert found >= truth * (1 - 1e-15)


def test_initial_state_balls():
    plant = pc.plants.vehicle()
    query = pc.output_query(plant, 4)
    O = pc.observability_stack(plant, 4) * [2.0, 0.5]
    corners = np.array([[1, 1], [1, -1]]).T
    for norm, truth in [
        (2, np.linalg.norm(O, 2)),
        (1, np.linalg.norm(O, axis=0).max()),
        (np.inf, np.linalg.norm(O @ corners, axis=0).max()),
    ]:
        found = query.sensitivity(
            pc.InitialStateAdjacency({"position": 2.0, "velocity": 0.5}, norm=norm)
        )
        assert found == pytest.approx(truth, rel=1e-12)


def test_all_charts_are_definition_4_with_the_radii_of_the_states():
    plant = cases.random_plant(2, states=2)
    manifold = pc.trajectory_manifold(plant, 6)
    every = columns(pc.StateAdjacency([1.0, 0.5], charts="all"), plant, 6)
    np.testing.assert_array_equal(
        every, pc.ManifoldAdjacency(np.tile([1.0, 0.5], 6)).moves(manifold).columns
    )
    early = columns(
        pc.StateAdjacency({"s1": 0.5}, times=[0, 1], charts="all"), plant, 6
    )
    truth = (
        pc.ManifoldAdjacency(0.5, entries=["s1(0)", "s1(1)"]).moves(manifold).columns
    )
    np.testing.assert_array_equal(early, truth)


def test_a_singular_plant_protects_the_initial_state_only():
    delay = ct.ss(
        [[0.5, 1.0], [0, 0]], [[0], [1]], [[1, 0]], 0, 1, states=["level", "store"]
    )
    with pytest.raises(
        ValueError,
        match="store: a delayed input.*times=0",
    ):
        pc.output_query(delay, 5).sensitivity(pc.StateAdjacency(1.0))
    at_start = pc.output_query(delay, 5).sensitivity(pc.StateAdjacency(1.0, times=0))
    O = pc.observability_stack(delay, 5)
    assert at_start == pytest.approx(np.linalg.norm(O, axis=0).max(), rel=1e-12)


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: pc.StateAdjacency(0.0),
            "radius: expected a finite number > 0, got 0.0",
        ),
        (
            lambda: pc.StateAdjacency({"position": 1.0, "velocity": 0}),
            r"radius\['velocity'\]: .* got 0; name only what is secret",
        ),
        (
            lambda: pc.StateAdjacency([1.0, 0.0]),
            "radius: .* got 0; name only what is secret",
        ),
        (
            lambda: pc.StateAdjacency({"position": np.nan}),
            r"radius\['position'\]: expected a finite number",
        ),
        (
            lambda: pc.StateAdjacency([1.0, -1.0]),
            "radius: expected a finite number > 0",
        ),
        (
            lambda: pc.StateAdjacency(1.0, times=-1),
            "times: expected sample indices >= 0",
        ),
        (
            lambda: pc.StateAdjacency(1.0, times=0.5),
            "times: expected sample indices >= 0",
        ),
        (lambda: pc.StateAdjacency(1.0, charts="every"), "charts: expected one of"),
        (
            lambda: pc.InitialStateAdjacency(1.0, norm=3),
            "norm: expected one of 1, 2, inf",
        ),
    ],
)
def test_adjacencies_that_mean_nothing_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@pytest.mark.parametrize(
    "adjacency, message",
    [
        (
            pc.StateAdjacency({"posture": 1.0}),
            "'posture' is no state of the plant; known states: position, velocity",
        ),
        (
            pc.StateAdjacency(1.0, states=["position", 0]),
            "one of the protected states is named twice",
        ),
        (pc.StateAdjacency([1.0, 2.0, 3.0]), "radius: expected 2 radii"),
        (
            pc.StateAdjacency(1.0, times=5),
            "times: expected sample indices below the horizon 5, got 5",
        ),
        (pc.StateAdjacency({}), "at least one of the protected states"),
    ],
)
def test_adjacencies_that_do_not_fit_the_plant_are_refused(adjacency, message):
    with pytest.raises(ValueError, match=message):
        pc.output_query(pc.plants.vehicle(), 5).sensitivity(adjacency)


def test_a_radius_that_names_states_goes_without_other_names():
    with pytest.raises(ValueError, match="radius already names the protected states"):
        pc.StateAdjacency({"position": 1.0}, states=["position"])


def test_state_adjacency_needs_a_trajectory():
    with pytest.raises(
        TypeError, match="is about a plant's trajectory; use it with output_query"
    ):
        pc.LinearQuery(np.eye(2)).sensitivity(pc.StateAdjacency(1.0))


@pytest.mark.parametrize(
    "make, error, message",
    [
        (
            lambda: pc.StateAdjacency("Pm1 [pu]", 0.05),
            TypeError,
            r"got a name; with its radius, 'Pm1 \[pu\]' is written {'Pm1",
        ),
        (lambda: pc.InitialStateAdjacency("Pm1"), TypeError, "{'Pm1': 0.05}"),
        (lambda: pc.DisturbanceAdjacency("load"), TypeError, "{'load': 0.05}"),
        (
            lambda: pc.StateAdjacency(1.0, times=[0, 0.1]),
            ValueError,
            r"got \[0, 0.1\]; .* from seconds divide by dt",
        ),
        (
            lambda: pc.DisturbanceAdjacency(1.0, times=-1),
            ValueError,
            "sample indices >= 0, such as 0 or range.*, got -1",
        ),
    ],
)
def test_names_and_seconds_in_the_wrong_place_are_met_with_the_right_form(
    make, error, message
):
    with pytest.raises(error, match=message):
        make()


def test_radii_that_are_too_few_say_that_there_is_one_per_state():
    with pytest.raises(
        ValueError,
        match="expected 2 radii, one for each of the protected states, got 3",
    ):
        cases.vehicle_noise(pc.StateAdjacency([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("joint", [False, True])
def test_any_query_on_a_trajectory_has_the_sensitivity_of_the_same_output_query(joint):
    plant = cases.random_plant(3, states=3, outputs=2)
    adjacency = pc.StateAdjacency([1.0, 0.2, 3.0])
    if joint:
        adjacency = JointAdjacency([adjacency, pc.InitialStateAdjacency(1.0, norm=1)])
    outputs = pc.output_query(plant, 6)
    same = LinearQuery(np.kron(np.eye(6), plant.C), pc.trajectory_manifold(plant, 6))
    expected = outputs.sensitivity(adjacency)
    assert same.sensitivity(adjacency) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("norm", [1, 2])
def test_a_state_in_far_smaller_units_keeps_its_sensitivity(norm):
    """The squares of its response vanish beside those of the other state."""
    poles = np.array([0.5, 0.5])
    plant = ct.ss(np.diag(poles), np.ones((2, 1)), [[1.0, 1e-180]], 0, 1.0)
    adjacency = pc.StateAdjacency({"x[0]": 1e-90, "x[1]": 1e95})
    found = pc.output_query(plant, 3).sensitivity(adjacency, norm)
    response = 1e-85 * np.array([4.0, 2.0, 1.0])  # of a move at the last sample
    assert found == pytest.approx(np.linalg.norm(response, norm), rel=1e-12)
