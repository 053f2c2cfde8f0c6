"""Steps by the matrices of a loop against the plant and the controller in turns."""

from functools import partial

import cases
import control as ct
import numpy as np
import pytest
from cases import BUDGET

import privcontrol as pc
from privcontrol.loop import simulation, stepping
from privcontrol.loop.dynamics import Rows
from privcontrol.loop.stepping import diagonal_blocks
from privcontrol.numerics.linalg import product

SAMPLES = 12


def loop_with(states, **options):
    """A loop whose filter starts from a prior, so its gains vary."""
    plant = cases.random_plant(3, states=states, inputs=2, outputs=2, radius=0.9)
    secret = pc.StateAdjacency(1.0, times=0)
    noise = pc.design_output_noise(
        plant, horizon=SAMPLES, budget=BUDGET, adjacency=secret, models="exact"
    )
    given = {"noise": noise, "P0": np.eye(states), **options}
    return pc.private_lqg(plant, 1.0, 1.0, 0.01, 0.02, **given)


def in_turns(dynamics, initial, drives, samples, first=0):
    """States and what is published of a loop whose plant and controller take turns."""
    steps = dynamics._turns(initial, drives, samples, None, first)
    states, published = zip(*((each.copy(), told.copy()) for each, told in steps))
    return np.array(states), np.array(published[:samples])


@pytest.mark.parametrize(
    "options",
    [{}, {"form": "predictor"}, {"controls": ["u[0]"]}, {"integral": ["y[0]"]}],
    ids=["filter", "predictor", "free input", "integral"],
)
@pytest.mark.parametrize("runs", [1, 7])
@pytest.mark.parametrize("first", [0, 5])
def test_matrices_of_all_samples_step_as_plant_and_controller(options, runs, first):
    dynamics = loop_with(3, **options).data.dynamics
    assert dynamics.varies
    rng = np.random.default_rng(runs)
    samples = SAMPLES - first
    drives = {}
    for name, place in dynamics.places.items():
        drives[name] = rng.normal(size=(samples, place.stop - place.start, runs))
    initial = rng.normal(size=(dynamics.size, runs))
    found = dynamics.run(initial, drives, samples, None, first)
    expected = in_turns(dynamics, initial, drives, samples, first)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def own_controller(order):
    """A loop with a controller of its own, of a reference, for a plant of so many states."""
    plant = cases.random_plant(3, states=order, inputs=2, outputs=2, radius=0.9)
    secret = pc.StateAdjacency(1.0, times=0)
    noise = pc.design_output_noise(
        plant, horizon=SAMPLES, budget=BUDGET, adjacency=secret, models="exact"
    )
    rng = np.random.default_rng(order)
    shapes = ((3, 3), (3, 4), (2, 3), (2, 4))
    matrices = [0.01 * rng.normal(size=shape) for shape in shapes]
    controller = ct.ss(*matrices, plant.dt)
    return pc.private_loop(plant, controller=controller, noise=noise)


@pytest.mark.parametrize("loop", [partial(loop_with, 3), partial(own_controller, 2)])
def test_errors_are_rows_of_states_and_inputs(loop):
    """Sample by sample where gains vary, and of all samples together where they do not."""
    dynamics = loop().data.dynamics
    rng = np.random.default_rng(2)
    order = dynamics.side.order
    width = order + len(dynamics.side.inputs)
    rows = Rows(rng.normal(size=(2, width)), rng.normal(size=(2, order)))
    drives = {}
    for name, place in dynamics.places.items():
        drives[name] = rng.normal(size=(SAMPLES, place.stop - place.start, 3))
    initial = rng.normal(size=(dynamics.size, 3))
    found = dynamics.errors(rows, drives, SAMPLES, initial)
    states, published = in_turns(dynamics, initial, drives, SAMPLES)
    states = states[:, :order]
    both = np.hstack([states[:-1], published[:, dynamics.outputs :]])
    np.testing.assert_allclose(found[:-1], rows.each @ both, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found[-1], rows.last @ states[-1], rtol=1e-12)


@pytest.mark.parametrize("held", [10**7, 10**4])
@pytest.mark.parametrize(
    "loop",
    [
        partial(loop_with, 40),
        partial(loop_with, 40, integral=["y[0]"]),
        partial(loop_with, 40, controls=["u[1]"]),
        partial(own_controller, 2),
        partial(own_controller, 45),
    ],
    ids=["filter", "integral", "free input", "own", "own of 45"],
)
def test_large_loops_step_block_by_block_as_plant_and_controller(
    loop, held, monkeypatch
):
    monkeypatch.setattr(stepping, "BLOCK", held)
    dynamics = loop().data.dynamics
    rng = np.random.default_rng(1)
    runs = 64
    drives = {}
    for name, place in dynamics.places.items():
        wide = 1 if name in ("reference", "exogenous") else runs
        drives[name] = rng.normal(size=(SAMPLES, place.stop - place.start, wide))
    initial = rng.normal(size=(dynamics.size, runs))
    found = dynamics.run(initial, drives, SAMPLES)
    expected = in_turns(dynamics, initial, drives, SAMPLES)
    for ours, theirs in zip(found, expected, strict=True):
        size = 1e-11 * np.abs(theirs).max()
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=size)


def test_diagonal_blocks_leave_nothing_but_zeros_and_join_small_neighbours():
    rng = np.random.default_rng(0)
    matrix = np.zeros((100, 100))
    for start, stop in ((0, 40), (40, 50), (50, 65), (65, 99)):
        matrix[start:stop, start:stop] = rng.normal(size=(stop - start, stop - start))
    assert diagonal_blocks(matrix) == [
        slice(0, 40),
        slice(40, 65),
        slice(65, 99),
        slice(99, 100),
    ]
    matrix[99, 0] = 1.0
    assert diagonal_blocks(matrix) == [slice(0, 100)]


def test_a_controller_that_is_a_function_has_no_form():
    loop = loop_with(3)
    plant, noise = loop.plant, loop.noise
    asked = pc.private_loop(plant, controller=lambda *known: [0.0, 0.0], noise=noise)
    assert not asked.data.law.has_form
    with pytest.raises(ValueError, match="no form of matrices"):
        asked.data.law.form(slice(0, 1))


@pytest.mark.parametrize("states", [2, 40])
@pytest.mark.parametrize("signals", [{}, {"disturbance": "design"}])
def test_trials_are_the_same_however_many_there_are(states, signals):
    loop = loop_with(states)
    reference = np.zeros((states, SAMPLES))
    many = loop.simulate(reference=reference, trials=150, rng=4, **signals)
    for trials in (1, 33, 128):
        few = loop.simulate(reference=reference, trials=trials, rng=4, **signals)
        np.testing.assert_array_equal(few.states, many.states[:, :trials])
        np.testing.assert_array_equal(few.outputs, many.outputs[:, :trials])


@pytest.mark.parametrize("size", [2, 5, SAMPLES])
@pytest.mark.parametrize("kind", ["one size", "own sizes", "mixed", "varying"])
def test_trials_are_the_same_however_many_samples_are_drawn_at_a_time(
    monkeypatch, kind, size
):
    root = np.random.default_rng(2).normal(size=(3, 3))
    covariances = {
        "one size": 0.01,
        "own sizes": np.diag([0.01, 0.04, 0.09]),
        "mixed": root @ root.T,
        "varying": [(1 + t) * root @ root.T for t in range(SAMPLES)],
    }
    noise = loop_with(3).noise
    loop = pc.private_loop(
        noise.plant,
        controller=ct.ss([], [], [], -0.1 * np.eye(2), noise.plant.dt),
        noise=noise,
        QN=covariances[kind],
        RN=0.02,
    )
    drawn = {"disturbance": "design", "measurement_noise": "design"}
    answers = []
    block = 512
    monkeypatch.setattr(simulation, "_trials_at_once", lambda states: block)
    for samples in (1, size):
        monkeypatch.setattr(simulation, "CACHED", samples * 3 * block)
        answers.append(loop.simulate(trials=20, rng=4, **drawn))
    alone, together = answers
    np.testing.assert_array_equal(together.states, alone.states)
    np.testing.assert_array_equal(together.outputs, alone.outputs)


def test_trials_are_those_of_a_loop_written_out_by_hand():
    loop = loop_with(40)
    trials = 5
    begun = {"reference": np.zeros((40, SAMPLES)), "initial_state": np.ones(40)}
    response = loop.simulate(**begun, trials=trials, rng=1)
    plant = loop.data.side.plant
    noise = loop.noise
    eta = response.inputs[-noise.process.total.once :, :, 0]
    law = loop.data.law
    x = np.ones((40, trials))
    memory = np.zeros((law.order, trials))
    still = np.zeros((len(law.references), trials))
    for t in range(SAMPLES):
        np.testing.assert_allclose(response.states[:40, :, t], x, 1e-9, 1e-9)
        y = plant.C @ x + noise.process.responses[t] @ eta
        u = law.decide(t, memory, y, still)
        np.testing.assert_allclose(
            response.outputs[:, :, t], np.vstack([y, u]), 1e-9, 1e-9
        )
        memory = law.follow(t, memory, y, u, still)
        x = plant.A @ x + plant.B @ u


def test_products_of_stacks_are_those_of_each_matrix():
    rng = np.random.default_rng(0)
    for rows in (3, 90):
        left = rng.normal(size=(4, rows, 80))
        for right in (rng.normal(size=(80, 70)), rng.normal(size=(4, 80, 70))):
            found = product(left, right)
            np.testing.assert_allclose(found, left @ right, rtol=1e-12, atol=1e-12)
