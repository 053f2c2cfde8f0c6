"""Output noise in time: the plant's free response, its covariance, its stream, and its python-control systems."""

import tracemalloc

import cases
import control as ct
import numpy as np
import pytest

import privcontrol as pc
from privcontrol.noise.process import promising

MIMO = cases.random_plant(1, states=4, outputs=2)


def mimo_noise(**options):
    return pc.design_output_noise(
        MIMO,
        horizon=15,
        budget=cases.BUDGET,
        adjacency=pc.StateAdjacency(1.0, times=range(4)),
        **options,
    )


def test_structured_noise_is_the_free_response_from_a_random_initial_state():
    noise = mimo_noise()
    gamma = noise.sample(trials=7, rng=3)
    eta = np.random.default_rng(3).standard_normal((7, noise.process.total.once))
    for k in range(7):
        free = ct.forced_response(
            MIMO, noise.timepts, np.zeros((2, 15)), noise.factor @ eta[k]
        )
        np.testing.assert_allclose(
            gamma[:, k], free.outputs, atol=1e-12 * np.abs(gamma).max()
        )


@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
def test_covariance_is_that_of_the_samples(family):
    noise = mimo_noise(family=family)
    gamma = noise.sample(trials=100_000, rng=0)
    for t, s in [(0, 0), (3, 3), (2, 9)]:
        scale = np.sqrt(
            np.outer(np.diag(noise.covariance(t)), np.diag(noise.covariance(s)))
        )
        estimate = gamma[:, :, t] @ gamma[:, :, s].T / 100_000
        # standard error of an entry is at most sqrt(2 / trials) of its scale; 10 % off would be 30 of them
        assert (np.abs(estimate - noise.covariance(t, s)) / scale).max() < 5 * np.sqrt(
            2 / 100_000
        )


@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
def test_stream_is_the_sample_one_step_at_a_time(family):
    noise = mimo_noise(family=family)
    streamed = np.array(list(noise.stream(rng=8))).T
    np.testing.assert_allclose(
        streamed, noise.sample(rng=8)[:, 0], atol=1e-12 * np.abs(streamed).max()
    )
    assert streamed.shape == (2, 15)


def test_fewer_trials_are_a_prefix_of_more():
    for family in ("gaussian", "iid-gaussian"):
        noise = mimo_noise(family=family)
        np.testing.assert_array_equal(
            noise.sample(3, rng=1), noise.sample(50, rng=1)[:, :3]
        )


def test_noise_system_driven_by_eta_makes_the_samples():
    noise = mimo_noise()
    eta = np.random.default_rng(3).standard_normal((1, noise.process.total.once))[0]
    pulse = np.zeros((noise.process.total.once, 15))
    pulse[:, 0] = eta
    system = pc.create_noise_iosystem(noise)
    response = ct.forced_response(system, noise.timepts, pulse)
    np.testing.assert_allclose(
        response.outputs,
        noise.sample(rng=3)[:, 0],
        atol=1e-12 * np.abs(response.outputs).max(),
    )
    assert system.output_labels == ["gamma[0]", "gamma[1]"]
    assert system.dt == MIMO.dt


@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
def test_the_gate_adds_the_noise_to_the_measurement(family):
    noise = mimo_noise(family=family)
    gate = pc.create_channel_iosystem(noise)
    y = np.random.default_rng(0).normal(size=(2, 15))
    if family == "gaussian":
        drive = np.zeros((noise.process.total.once, 15))
        drive[:, 0] = np.random.default_rng(3).standard_normal(noise.process.total.once)
    else:
        drive = np.random.default_rng(3).standard_normal((15, 2)).T
    published = ct.forced_response(gate, noise.timepts, np.vstack([y, drive])).outputs
    np.testing.assert_allclose(
        published, y + noise.sample(rng=3)[:, 0], atol=1e-12 * np.abs(published).max()
    )
    assert gate.input_labels[:2] == MIMO.output_labels
    assert gate.output_labels == [
        "yhat[0]",
        "yhat[1]",
    ]


def test_the_gate_connects_to_its_plant_by_signal_names():
    noise = cases.vehicle_noise()
    plant = pc.plants.vehicle()
    gate = pc.create_channel_iosystem(noise)
    published = ct.interconnect(
        [plant, gate], inputs=["u", "eta[0]"], outputs=["yhat[0]"], name="published"
    )
    pulse = np.zeros((2, 100))
    pulse[1, 0] = 1.3
    response = ct.forced_response(published, noise.timepts, pulse, X0=[4.0, 1.0, 0, 0])
    truth = 4.0 + 0.1 * np.arange(100) + 1.3 * noise.factor[0, 0]
    np.testing.assert_allclose(response.outputs[0], truth, atol=1e-12)


def test_names_of_the_systems_can_be_chosen():
    gate = pc.create_channel_iosystem(
        cases.vehicle_noise(),
        name="gate",
        inputs=["y", "drive"],
        outputs=["public"],
        states=["a", "b"],
    )
    assert (gate.name, gate.input_labels, gate.output_labels, gate.state_labels) == (
        "gate", ["y", "drive"], ["public"], ["a", "b"],
    )  # fmt: skip
    assert pc.create_noise_iosystem(
        cases.vehicle_noise(), name="n", inputs=["e"]
    ).input_labels == ["e"]


@pytest.mark.parametrize("options", [{}, {"family": "iid-gaussian"}, {"floor": 1.0}])
def test_inputs_of_the_gate_are_trials_by_samples_by_channels_and_give_the_samples(
    options,
):
    noise = cases.vehicle_noise(**options)
    inputs = noise.process.inputs(noise.process.draw(7, 3))
    assert inputs.shape == (
        3,
        100,
        noise.process.total.once + noise.process.total.width,
    )
    for trial, sample in zip(inputs, noise.sample(3, rng=7)[0]):
        gamma = ct.forced_response(
            pc.create_noise_iosystem(noise), noise.timepts, trial.T
        ).outputs
        np.testing.assert_allclose(np.ravel(gamma), sample, atol=1e-12)


def test_the_gate_says_which_names_it_takes_and_what_it_is_made_of():
    noise = cases.vehicle_noise()
    with pytest.raises(
        ValueError,
        match="inputs: expected 1 names of measurements, then 1 of noise drives, got 1",
    ):
        pc.create_channel_iosystem(noise, inputs=["a"])
    with pytest.raises(
        TypeError, match="expected an OutputNoise, got PrivateLoop; pass loop.noise"
    ):
        pc.create_channel_iosystem(cases.vehicle_loop(noise))


def test_noise_outside_its_horizon_is_refused():
    noise = cases.vehicle_noise()
    with pytest.raises(
        ValueError, match=r"t: expected a sample index in 0 .. 99, got 100"
    ):
        noise.covariance(100)
    with pytest.raises(ValueError, match="trials: expected an integer >= 1"):
        noise.sample(trials=0)
    with pytest.raises(TypeError, match="legacy RandomState"):
        noise.sample(rng=np.random.RandomState(1))
    assert len(list(noise.stream())) == 100


def test_a_million_samples_are_streamed_in_constant_memory():
    noise = promising(cases.vehicle_noise(floor=1.0), horizon=10**6)
    streamed = np.fromiter(
        (gamma[0] for gamma in noise.stream(rng=4)), float, count=10**6
    )
    whole = noise.sample(rng=4)[0, 0]
    np.testing.assert_allclose(
        streamed, whole, atol=1e-9
    )  # A^t in a million steps, or in a thousand leaps
    stream = noise.stream(rng=4)
    tracemalloc.start()
    for _ in range(50_000):
        next(stream)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**18  # the samples alone take more


@pytest.mark.parametrize("gain", [0.5, 1.0, 3.0])
def test_the_bound_on_all_mechanisms_follows_the_size_of_the_noise(gain):
    """Noise scaled to a gdp is the design for that gdp, with the bounds of that one."""
    asked = dict(horizon=20, adjacency=cases.POSITION, models="exact", max_std=np.inf)
    noise = pc.design_output_noise(pc.plants.vehicle(), budget=cases.BUDGET, **asked)
    scaled = noise.with_std(gain * noise.std.max())
    budget = pc.PrivacyBudget(gdp=scaled.guarantee.gdp)
    other = pc.design_output_noise(pc.plants.vehicle(), budget=budget, **asked)
    found, expected = scaled.design, other.design
    assert found.lower_bound == pytest.approx(expected.lower_bound, rel=1e-8)
    assert found.universal_bound == pytest.approx(expected.universal_bound, rel=1e-8)
    assert found.universal_bound <= found.lower_bound <= found.cost
