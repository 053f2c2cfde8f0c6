"""Plants with many states: the ways to simulate them that are chosen by size give the trials of python-control."""

import cases
import control as ct
import numpy as np
import pytest

import privcontrol as pc


@pytest.fixture(scope="module")
def loop():
    plant = cases.random_plant(3, states=40, inputs=3, outputs=2)
    adjacency = pc.StateAdjacency(1.0, states=["s0", "s1"], times=[0])
    noise = pc.design_output_noise(
        plant, horizon=60, budget=cases.BUDGET, adjacency=adjacency
    )
    return pc.private_lqg(plant, 1, 1, 1, 1, noise)


def test_trials_of_a_large_plant_are_forced_responses(loop):
    response = loop.simulate(initial_state=np.ones(40), trials=40, rng=0)
    for trial in (0, 17, 39):
        start = np.r_[np.ones(40), np.zeros(loop.system.nstates - 40)]
        inputs = np.asarray(response.inputs[:, trial])
        exact = ct.forced_response(loop.system, response.time, inputs, start)
        scale = np.abs(exact.states).max()
        np.testing.assert_allclose(
            response.states[:80, trial], exact.states[:80], atol=1e-10 * scale
        )
        np.testing.assert_allclose(
            response.outputs[:, trial], exact.outputs, atol=1e-10 * scale
        )


def test_trials_do_not_depend_on_how_many_are_asked_for(loop):
    few, many = (loop.simulate(trials=trials, rng=1) for trials in (5, 90))
    np.testing.assert_array_equal(few.states, np.asarray(many.states)[:, :5])
