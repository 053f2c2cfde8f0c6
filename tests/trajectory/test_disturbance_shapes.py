"""Changes of a disturbance that last: durations, recorded profiles and several events."""

import control as ct
import numpy as np
import pytest

import privcontrol as pc

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
ROOM = ct.ss(
    [[0.9, 0.05], [0.1, 0.8]],
    [[0.5], [0.1]],
    [[1.0, 0.0]],
    [[0.2]],
    300.0,
    states=["air", "wall"],
    inputs=["people"],
    outputs=["temperature"],
)


def dense_responses(shapes, horizon):
    """Outputs of the room to every shape begun at every time, by simulation."""
    columns = []
    for shape in shapes:
        for start in range(horizon):
            signal = np.zeros(horizon)
            part = shape[: horizon - start]
            signal[start : start + len(part)] = part
            timepts = 300.0 * np.arange(horizon)
            response = ct.forced_response(ROOM, timepts, signal)
            columns.append(response.outputs)
    return np.array(columns).T


@pytest.mark.parametrize(
    "options, shapes",
    [
        ({"duration": 4}, [np.ones(k) for k in range(1, 5)]),
        ({"profiles": [[1.0, -0.5, 0.25], [2.0]]}, [[1.0, -0.5, 0.25], [2.0]]),
    ],
)
def test_a_finite_design_hides_every_shape_at_every_time(options, shapes):
    horizon = 12
    adjacency = pc.DisturbanceAdjacency(0.3, **options)
    noise = pc.design_output_noise(
        ROOM, horizon=horizon, budget=BUDGET, adjacency=adjacency
    )
    lags = np.arange(horizon)
    covariance = [[noise.covariance(t, s)[0, 0] for s in lags] for t in lags]
    moved = 0.3 * dense_responses(shapes, horizon)
    shifts = np.sqrt(np.sum(moved * np.linalg.solve(covariance, moved), axis=0))
    assert shifts.max() == pytest.approx(noise.guarantee.gdp, rel=1e-6)
    assert noise.guarantee.satisfies(BUDGET)


def test_longer_changes_cost_more():
    costs = [
        pc.design_output_noise(
            ROOM,
            horizon=10,
            budget=BUDGET,
            adjacency=pc.DisturbanceAdjacency(0.3, duration=duration),
        ).design.cost
        for duration in (1, 2, 5)
    ]
    assert costs == sorted(costs)
    assert costs[2] > 2 * costs[0]


def test_the_text_says_how_long_a_change_lasts():
    adjacency = pc.DisturbanceAdjacency(0.3, duration=4, events=2)
    assert adjacency.statement.endswith("of the horizon, for 1 to 4 samples")
    assert "at each of 2 times" in adjacency.statement
    assert adjacency.caveats(None)[0] == (
        "a disturbance that lasts more than 4 samples"
    )


def test_several_events_need_a_design_without_a_horizon():
    adjacency = pc.DisturbanceAdjacency(0.3, events=2)
    with pytest.raises(ValueError, match=r"horizon=np\.inf"):
        pc.design_output_noise(ROOM, horizon=5, budget=BUDGET, adjacency=adjacency)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"duration": 0}, "integer >= 1"),
        ({"duration": 2, "profiles": [[1.0]]}, "got both"),
        ({"profiles": []}, "at least one"),
        ({"profiles": [[0.0, 0.0]]}, "not all zero"),
        ({"duration": 2, "norm": "l2"}, "bounded energy"),
        ({"events": 2, "norm": "l2"}, "bounded energy"),
    ],
)
def test_shapes_that_mean_nothing_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        pc.DisturbanceAdjacency(0.3, **options)
