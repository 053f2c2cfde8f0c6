"""Plants from recorded data: the right parameters, the right region, the right words."""

from dataclasses import replace

import control as ct
import numpy as np
import pytest

import privcontrol as pc
from privcontrol.designs.design import designed

A = np.array([[0.9, 0.2], [-0.1, 0.8]])
B = np.array([[0.5], [1.0]])
TRUTH = ct.ss(A, B, [[1.0, 0.0]], 0, 0.5, states=["heat", "flow"], outputs=["y"])


def recorded(samples, seed=0, gain=0.0, std=0.1):
    rng = np.random.default_rng(seed)
    x = np.zeros((2, samples))
    u = rng.normal(size=(1, samples))
    for t in range(samples - 1):
        u[:, t] -= gain * x[0, t]
        noise = std * rng.normal(size=2)
        x[:, t + 1] = A @ x[:, t] + B @ u[:, t] + noise
    return x, u


@pytest.mark.parametrize("data", ["feedback", "open-loop"])
def test_more_data_give_a_smaller_region_that_holds_the_truth(data):
    widths = []
    for samples in (200, 800, 3200):
        x, u = recorded(samples, gain=0.3 if data == "feedback" else 0.0)
        found = pc.identify_states(TRUTH, x, u, confidence=0.999, data=data)
        assert found.contains(TRUTH)
        assert found.contains(TRUTH)
        widths.append(found.box.A.max())
    assert widths[0] > widths[1] > widths[2]
    assert widths[2] < 0.4 * widths[0]
    assert found.system.state_labels == ["heat", "flow"]
    assert found.system.dt == 0.5


def test_known_entries_stay_what_they_are():
    x, u = recorded(300)
    unknown = [[False, True], [False, False]]
    nothing = [[False], [False]]
    found = pc.identify_states(TRUTH, x, u, A=unknown, B=nothing, confidence=0.999)
    assert len(found.box.widths) == 1
    assert np.array_equal(found.box.A > 0, unknown)
    assert np.array_equal(found.plant.B, B)
    assert found.contains(TRUTH)
    all_unknown = pc.identify_states(TRUTH, x, u, confidence=0.999)
    assert found.box.A[0, 1] < all_unknown.box.A[0, 1]


def test_outputs_are_realised_with_the_same_response():
    rng = np.random.default_rng(1)
    count, order = 4000, 2
    first = np.array([[1.2, 0.1], [0.0, 0.9]])
    second = np.array([[-0.4, 0.0], [0.1, -0.2]])
    driven = np.array([[1.0], [0.5]])
    y, u = np.zeros((2, count)), rng.normal(size=(1, count))
    for t in range(2, count):
        y[:, t] = first @ y[:, t - 1] + second @ y[:, t - 2] + driven @ u[:, t - 2]
        y[:, t] += 0.02 * rng.normal(size=2)
    found = pc.identify_outputs(y, u, order=order, dt=1.0, data="open-loop")
    markov = [np.zeros((2, 1)), np.zeros((2, 1))]
    for t in range(8):
        later = first @ markov[-1] + second @ markov[-2] + (t == 1) * driven
        markov.append(later)
    plant = found.system
    response = [
        plant.C @ np.linalg.matrix_power(plant.A, t) @ plant.B for t in range(8)
    ]
    assert np.array(response) == pytest.approx(np.array(markov[2:]), abs=0.02)
    truth = ct.ss(
        np.block([[first, np.eye(2)], [second, np.zeros((2, 2))]]),
        np.vstack([0 * driven, driven]),
        np.eye(2, 4),
        0,
        1.0,
    )
    assert found.contains(truth)
    assert found.contains(truth)


def test_several_runs_count_like_one_long_run():
    runs = [recorded(60, seed) for seed in range(10)]
    found = pc.identify_states(
        TRUTH,
        [x for x, _ in runs],
        [u for _, u in runs],
        data="open-loop",
        confidence=0.999,
    )
    assert found.samples == 590
    assert found.contains(TRUTH)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"states": np.zeros((3, 50))}, r"expected shape \(2, any\)"),
        ({"states": recorded(20)[0], "inputs": recorded(20)[1]}, "at least 40 steps"),
        ({"inputs": np.ones((1, 40))}, "shape"),
        ({"confidence": 1.0}, "probability"),
        ({"data": "closed"}, "open-loop"),
        ({"A": [[2, 1], [1, 1]]}, "True for unknown"),
        ({"A": np.zeros((2, 2), bool), "B": np.zeros((2, 1), bool)}, "at least one"),
    ],
)
def test_what_does_not_fit_is_refused(change, cause):
    x, u = recorded(100)
    given = {"states": x, "inputs": u, **change}
    with pytest.raises(ValueError, match=cause):
        pc.identify_states(TRUTH, **given)


def test_data_without_noise_are_refused():
    x, u = recorded(100, std=0.0)
    with pytest.raises(ValueError, match="PlantBox"):
        pc.identify_states(TRUTH, x, u)


def identified_room():
    """A room with a heater, identified from 1500 samples at a confidence of 99.5 %."""
    room = ct.ss([[0.9]], [[0.5]], [[1.0]], 0, 1.0, states=["air"], inputs=["heat"])
    rng = np.random.default_rng(0)
    x, u = np.zeros((1, 1500)), rng.normal(size=(1, 1500))
    for t in range(1499):
        x[:, t + 1] = 0.9 * x[:, t] + 0.5 * u[:, t] + 0.1 * rng.normal()
    return pc.identify_states(room, x, u, confidence=0.995, data="open-loop")


def test_noise_for_an_identified_plant_counts_the_miss_in_delta(tmp_path):
    found = identified_room()
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    request = {
        "horizon": 10,
        "budget": budget,
        "adjacency": pc.StateAdjacency({"air": 1.0}, times=0),
    }
    noise = pc.design_output_noise(found.system, models=found, floor=0.5, **request)
    guarantee = noise.guarantee
    assert guarantee.satisfies(budget)
    assert guarantee.epsilon(1e-2) == pytest.approx(1.0, abs=2e-3)
    assert guarantee.delta(50.0) == pytest.approx(
        found.miss
    )  # what no noise takes away
    assert not guarantee.satisfies(pc.PrivacyBudget(epsilon=50.0, delta=0.004))
    # second route: the shift of corners of the box, and the sum of both probabilities
    shift = max(noise.guarantee_for([plant]).gdp for plant in found.box.corners())
    total = found.miss + pc.core.kappa(1.0, shift)
    assert total <= 1e-2
    assert total == pytest.approx(1e-2, rel=2e-2)
    assert noise.guarantee_for(found).delta(1.0) == pytest.approx(
        guarantee.delta(1.0), rel=1e-6
    )
    assert "counted in delta" in guarantee.sentence
    louder = noise.with_std(3 * float(noise.std.max()))
    assert found.miss <= louder.guarantee.delta(1.0) < guarantee.delta(1.0)
    louder.save(tmp_path / "louder.json")
    assert pc.load(tmp_path / "louder.json") == louder
    with pytest.raises(ValueError, match="part of delta"):
        pc.design_output_noise(
            found.system,
            models=found,
            floor=0.5,
            **{**request, "budget": pc.PrivacyBudget(epsilon=1.0, delta=0.004)},
        )
    noise.save(tmp_path / "noise.json")
    again = pc.load(tmp_path / "noise.json")
    assert again == noise
    assert again.guarantee.scope.models == (found.box.fingerprint,)
    assert again.guarantee_for(again.request.region).delta(1.0) <= guarantee.delta(1.0)
    assert designed(again.request, found.system).guarantee.satisfies(budget)
    surer = replace(noise.request, region=replace(found.box, miss=1e-9))
    replace(noise, request=surer, promised=None).save(tmp_path / "altered.json")
    with pytest.raises(pc.PrivacyError, match="does not keep"):
        pc.load(tmp_path / "altered.json")


def test_noise_without_a_horizon_counts_the_miss_as_well():
    found = identified_room()
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    request = {"horizon": np.inf, "adjacency": pc.DisturbanceAdjacency({"heat": 1.0})}
    noise = pc.design_output_noise(found.system, models=found, budget=budget, **request)
    assert noise.guarantee.satisfies(budget)
    assert not noise.guarantee.satisfies(pc.PrivacyBudget(epsilon=50.0, delta=0.004))
    assert "counted in delta" in noise.guarantee.sentence
    # second route: the shift of corners of the box, and the sum of both probabilities
    shift = max(noise.guarantee_for([plant]).gdp for plant in found.box.corners())
    total = found.miss + pc.core.kappa(1.0, shift)
    assert 0.85e-2 < total <= 1e-2


def test_noise_that_is_designed_again_counts_the_miss_again():
    """For another weight or budget, as trade-offs and co-design do."""
    x, u = recorded(1500)
    unknown = {"A": [[1, 0], [0, 0]], "B": [[0], [1]]}
    found = pc.identify_states(TRUTH, x, u, confidence=0.995, **unknown)
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    secret = pc.DisturbanceAdjacency({"u[0]": 1.0})
    noise = pc.design_output_noise(
        found.system,
        horizon=10,
        budget=budget,
        adjacency=secret,
        models=found,
        floor=0.1,
    )
    assert noise.request.budget == budget
    again = designed(noise.request, found.system, weight=np.diag([2.0]))
    wider = pc.PrivacyBudget(epsilon=2.0, delta=1e-2)
    other = designed(noise.request, found.system, budget=wider)
    for promise, allowed in ((again.guarantee, budget), (other.guarantee, wider)):
        assert promise.satisfies(allowed)
        assert not promise.satisfies(pc.PrivacyBudget(epsilon=50.0, delta=0.004))
        assert "counted in delta" in promise.sentence


def test_rows_share_the_probability_that_the_box_misses():
    """Four rows that each missed with 30 % would all hold in 24 % of the records.

    Of 300 records the box holds in 70 % to 78 %, known within 13 %.
    """
    rng = np.random.default_rng(6)
    plant = ct.ss(0.5 * np.eye(4), np.zeros((4, 1)), np.eye(4), 0, 1.0)
    hits = 0
    for _ in range(300):
        starts = rng.normal(size=(40, 4))
        steps = 0.5 * starts + 0.3 * rng.normal(size=(40, 4))
        runs = [np.column_stack(pair) for pair in zip(starts, steps)]
        found = pc.identify_states(
            plant,
            runs,
            A=np.eye(4, dtype=bool),
            B=np.zeros((4, 1), bool),
            confidence=0.7,
            data="independent",
        )
        hits += found.contains(plant)
    assert 0.7 - 0.13 < hits / 300 < 0.78 + 0.13
