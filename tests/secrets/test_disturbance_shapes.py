"""Changes of a disturbance that last: durations, recorded profiles and several events."""

import control as ct
import numpy as np
import pytest
from oracles import stacked_covariance
from scipy.special import ndtr

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
        ({"duration": 4, "shape": "level"}, [np.ones(k) for k in range(1, 5)]),
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
            adjacency=pc.DisturbanceAdjacency(0.3, duration=duration, shape="level"),
        ).design.cost
        for duration in (1, 2, 5)
    ]
    assert costs == sorted(costs)
    assert costs[2] > 2 * costs[0]


def test_the_text_says_how_long_a_change_lasts():
    adjacency = pc.DisturbanceAdjacency(0.3, duration=4, shape="level", events=2)
    assert adjacency.statement == (
        "2 changes per run, each at a time or signal of its own: any input, a level within "
        "0.3 each, kept for 1 to 4 samples"
    )
    left = adjacency.caveats(None)
    assert left[0] == "longer ones"
    once = pc.DisturbanceAdjacency({"a": 1.0, "b": 1.0}, duration=12, shape="level")
    assert once.statement == (
        "one change per run: a or b, to one other level within 1, kept for 1 to 12 samples"
    )
    several = pc.DisturbanceAdjacency(
        {"a": 1.0, "b": 2.0}, duration=3, shape="level", times=[2, 5]
    )
    assert several.statement == (
        "one change per run, starting at one of t = 2, 5: a (within 1) or b (within 2), "
        "to one other level, kept for 1 to 3 samples"
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


def uses(rng, power, energy, window, inputs):
    """A person's use within a window that spends as much as the two limits allow."""
    used = np.zeros((window, inputs))
    left = energy
    for place in rng.permutation(used.size):
        used.flat[place] = min(power, left) * rng.choice([-1.0, 1.0])
        left -= abs(used.flat[place])
    return used


@pytest.mark.parametrize("inputs", [1, 2])
def test_a_person_is_in_the_ball_of_power_times_energy(inputs):
    """Between the two limits the energy of what is used is at most their product."""
    rng = np.random.default_rng(0)
    secret = pc.DisturbanceAdjacency.person(2.0, 9.0, window=12)
    sizes = [np.linalg.norm(uses(rng, 2.0, 9.0, 12, inputs)) for _ in range(100)]
    sizes.append(
        np.linalg.norm(uses(rng, 2.0, 8.0, 12, inputs))
    )  # attained at 8 = 4 * 2
    assert max(sizes) <= secret.radius == pytest.approx(np.sqrt(18.0))
    full = pc.DisturbanceAdjacency.person(2.0, 8.0, window=12)
    assert sizes[-1] == pytest.approx(full.radius)
    short = pc.DisturbanceAdjacency.person(5.0, 3.0, window=12)
    assert short.radius == 3.0  # no more at once than in all


def test_a_person_is_hidden_with_certified_noise():
    """Random uses through the dense covariance, in one window, and in k with sqrt(k)."""
    secret = pc.DisturbanceAdjacency.person(2.0, 8.0, window=6)
    noise = pc.design_output_noise(
        ROOM, horizon=24, budget=BUDGET, adjacency=secret, max_std=np.inf
    )
    inverse = np.linalg.pinv(stacked_covariance(noise), rcond=1e-12, hermitian=True)
    rng = np.random.default_rng(1)
    for windows in (1, 3):
        for _ in range(200):
            signal = np.zeros((24, 1))
            for start in 6 * rng.choice(4, windows, replace=False):
                signal[start : start + 6] = uses(rng, 2.0, 8.0, 6, 1)
            move = room_response(signal[:, 0])
            shift = np.sqrt(move @ inverse @ move)
            allowed = noise.guarantee.gdp * np.sqrt(windows)
            assert shift <= allowed * (1 + 1e-6)


def room_response(signal):
    """What a signal at the room's input adds to its outputs, by the recursion."""
    state, outputs = np.zeros(ROOM.nstates), []
    for value in signal:
        outputs.append(ROOM.C @ state + ROOM.D[:, 0] * value)
        state = ROOM.A @ state + ROOM.B[:, 0] * value
    return np.concatenate(outputs)


def test_the_text_of_a_person_names_the_window():
    secret = pc.DisturbanceAdjacency.person(2.0, 8.0, inputs=["load"], window=96)
    assert secret.statement == (
        "one window of 96 samples per run: load by at most 4 in the root of its energy"
    )


@pytest.mark.parametrize("numbers", [(0.0, 1.0), (1.0, -1.0)])
def test_a_person_uses_something(numbers):
    with pytest.raises(ValueError, match="power|energy"):
        pc.DisturbanceAdjacency.person(*numbers, window=4)


@pytest.mark.parametrize("horizon", [8, np.inf])
@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
def test_what_is_hidden_within_a_window_is_a_bound_and_no_optimum(horizon, family):
    """A change of one sample shows less than the ball, and cheaper noise hides it."""
    lag = ct.ss([[0.8]], [[1.0]], [[1.0]], [[0.0]], 1.0)
    budget = pc.PrivacyBudget(gdp=1.0)
    keywords = {"horizon": horizon, "budget": budget, "family": family}
    secret = pc.DisturbanceAdjacency(1.0, norm="l2", window=1)
    noise = pc.design_output_noise(lag, adjacency=secret, **keywords)
    assert noise.guarantee.satisfies(budget)
    assert not noise.guarantee.exact
    assert np.isnan(noise.design.lower_bound)
    single = pc.DisturbanceAdjacency(1.0)
    assert pc.design_output_noise(lag, adjacency=single, **keywords).design.cost <= (
        noise.design.cost * (1 + 1e-9)
    )


def test_an_audit_does_not_refute_a_claim_about_a_window_by_longer_changes():
    lag = ct.ss([[0.8]], [[1.0]], [[1.0]], [[0.0]], 1.0)
    secret = pc.DisturbanceAdjacency(1.0, norm="l2", window=1)
    noise = pc.design_output_noise(
        lag,
        horizon=8,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=secret,
        family="iid-gaussian",
    )
    response = 0.8 ** np.arange(7)  # to a change at the first sample
    shift = np.linalg.norm(response) / noise.std[0]
    true = ndtr(shift / 2 - 0.5 / shift) - np.exp(0.5) * ndtr(-shift / 2 - 0.5 / shift)
    assert true < 1e-2
    claim = pc.PrivacyBudget(epsilon=0.5, delta=1e-2)
    with pytest.raises(ValueError, match="would refute nothing"):
        pc.audit(noise, claim=claim, trials=1000, rng=0)
