"""A plant's manifold, observability stack and output query against matrix powers; and plants that are refused."""

import cases
import control as ct
import numpy as np
import oracles
import pytest
from repeats import few

import privcontrol as pc
from privcontrol.systems import linear
from privcontrol.systems.linear import Plant


@pytest.mark.parametrize("seed", few(range(5), of=2))
def test_observability_stack_is_made_of_matrix_powers(seed):
    plant = cases.random_plant(seed)
    np.testing.assert_allclose(
        pc.observability_stack(plant, 12),
        oracles.dense_observability(plant.A, plant.C, 12),
        atol=1e-12,
    )


def test_trajectories_lie_on_their_manifold():
    plant = cases.random_plant(1, states=3, inputs=2)
    inputs = np.random.default_rng(0).normal(size=(2, 8))
    manifold = pc.trajectory_manifold(plant, 8, inputs)
    response = ct.forced_response(
        plant, U=inputs, X0=[1.0, -2.0, 0.5], T=plant.dt * np.arange(8)
    )
    trajectory = response.states.T.ravel()
    assert manifold.contains(trajectory)
    np.testing.assert_allclose(
        manifold.origin + manifold.kernel @ [1.0, -2.0, 0.5], trajectory, atol=1e-12
    )
    assert not manifold.contains(trajectory + 1e-3 * np.eye(24)[5])
    assert manifold.labels[3] == "s0(1)"
    assert manifold.size == 24
    assert manifold.dimension == 3


def test_output_query_publishes_the_outputs_of_the_free_response():
    plant = cases.random_plant(2, states=3)
    query = pc.output_query(plant, 6)
    free = ct.forced_response(
        plant, U=np.zeros((2, 6)), X0=[1.0, 2, 3], T=plant.dt * np.arange(6)
    )
    np.testing.assert_allclose(
        query.response @ [1.0, 2, 3], free.outputs.T.ravel(), atol=1e-12
    )
    np.testing.assert_allclose(
        query.matrix @ free.states.T.ravel(), free.outputs.T.ravel(), atol=1e-12
    )


@pytest.mark.parametrize("samples", [1, 63, 64, 200, 64 * 9, 64 * 9 + 7])
def test_a_free_response_is_the_same_however_many_samples_are_taken_together(
    samples, monkeypatch
):
    plant = Plant.of(cases.random_plant(2, states=3, inputs=1, outputs=2, radius=0.99))
    starts = np.random.default_rng(0).normal(size=(3, 2))
    together = plant.free_response(starts, samples)
    monkeypatch.setattr(linear, "CACHED", 1)
    np.testing.assert_array_equal(plant.free_response(starts, samples), together)
    for t in {0, samples // 2, samples - 1}:
        sample = plant.C @ np.linalg.matrix_power(plant.A, t) @ starts
        np.testing.assert_allclose(together[2 * t : 2 * t + 2], sample, rtol=1e-10)


def test_delays_pin_entries_and_they_are_listed():
    delay = ct.ss(
        [[0, 1.0], [0, 0]], [[0], [1]], [[1, 0]], 0, 1, states=["out", "store"]
    )
    assert pc.trajectory_manifold(delay, 3).pinned == ("store(1)", "out(2)", "store(2)")


def test_off_manifold_directions_are_refused():
    query = pc.output_query(pc.plants.vehicle(), 3)
    good = query.manifold.kernel @ [[1.0], [2.0]]
    assert query.sensitivity(pc.DirectionAdjacency(good)) == pytest.approx(
        np.linalg.norm([1, 1.2, 1.4])
    )
    with pytest.raises(ValueError, match="no difference of two trajectories"):
        query.sensitivity(pc.DirectionAdjacency(good + np.eye(6)[:, [4]]))


@pytest.mark.parametrize(
    "system, error, message",
    [
        (
            ct.tf([1], [1, 0.5], 0.1),
            ct.ControlArgument,
            r"got TransferFunction; convert it with ct.ss",
        ),
        (
            ct.ss([[-1.0]], [[1]], [[1]], 0),
            ct.ControlArgument,
            r"continuous time \(dt = 0\); discretise it with sys.sample",
        ),
        (
            ct.ss([[0.5]], [[1]], [[1]], 0, None),
            ct.ControlArgument,
            r"unspecified time \(dt = None\)",
        ),
        (
            ct.nlsys(None, lambda t, x, u, p: u, inputs=1, outputs=1),
            ct.ControlArgument,
            "for a nonlinear system",
        ),
        (
            ct.ss([[0.5]], [[1.0]], np.zeros((0, 1)), np.zeros((0, 1)), 0.1),
            ValueError,
            "at least one output",
        ),
        (np.eye(2), ct.ControlArgument, "expected a StateSpace, got ndarray"),
    ],
)
def test_plants_that_cannot_be_used_are_refused(system, error, message):
    for use in (pc.observability_stack, pc.trajectory_manifold, pc.output_query):
        with pytest.raises(error, match=message):
            use(system, 5)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ((0,), ValueError, "horizon: expected an integer >= 1, got 0"),
        ((2.5,), TypeError, "horizon: expected a whole number of samples, got float"),
        (
            (5, np.zeros((1, 4))),
            ct.ControlDimension,
            r"inputs: expected shape \(1, 5\)",
        ),
        ((5, np.full((1, 5), np.nan)), ValueError, "inputs: expected finite numbers"),
    ],
)
def test_bad_horizons_and_inputs_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        pc.trajectory_manifold(pc.plants.vehicle(), *arguments)


def test_a_plant_with_nan_is_refused():
    plant = pc.plants.vehicle()
    plant.A = np.array([[np.nan, 0], [0, 1]])
    with pytest.raises(ValueError, match="sys.A: expected finite numbers"):
        pc.output_query(plant, 3)
