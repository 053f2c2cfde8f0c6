"""Same seed, same numbers: serial, threads, processes and a dask cluster, bit for bit."""

import math
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import cases
import numpy as np
import pytest

import privcontrol as pc

TRIALS = 600  # three blocks


def saturated(time, estimate, goal):
    """A nonlinear controller that processes can pickle."""
    return np.clip(
        -3.0 * (estimate[:1] - goal[:1]) - 4.0 * estimate[1:], -5.0, 5.0
    ) + 0.1 * math.sin(time)


def _runs():
    noises = {
        "structured": cases.vehicle_noise(),
        "iid": cases.vehicle_noise(family="iid-gaussian"),
    }
    for name, noise in noises.items():
        for form in ("predictor", "filter"):
            loop = pc.private_lqg(
                pc.plants.vehicle(), 20, 1, 0.1, 0.1, noise, form=form
            )
            yield pytest.param(loop, {}, id=f"{name}-{form}")
            drawn = {
                "disturbance": "design",
                "measurement_noise": "design",
                "controller": saturated,
            }
            yield pytest.param(loop, drawn, id=f"{name}-{form}-controller")


RUNS = list(_runs())


def numbers(loop, options, executor=None, trials=TRIALS):
    response = loop.simulate(
        initial_state=[-20, 0], trials=trials, rng=7, executor=executor, **options
    )
    return {
        name: np.asarray(getattr(response, name))
        for name in ("states", "outputs", "inputs")
    }


def assert_same_bits(one, other):
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


@pytest.mark.parametrize("loop, options", RUNS)
def test_threads_give_the_numbers_of_the_serial_run(loop, options):
    with ThreadPoolExecutor(3) as pool:
        assert_same_bits(numbers(loop, options), numbers(loop, options, pool))


def test_two_processes_give_the_numbers_of_the_serial_run():
    with ProcessPoolExecutor(2) as pool:
        for loop, options in (run.values for run in RUNS):
            assert_same_bits(numbers(loop, options), numbers(loop, options, pool))


def test_a_dask_cluster_gives_the_numbers_of_the_serial_run():
    """Its workers are threads; tests/stress/scale_consensus.py starts processes."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False}
    with (
        distributed.LocalCluster(**options, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        pool = client.get_executor()
        for loop, given in (run.values for run in RUNS):
            assert_same_bits(numbers(loop, given), numbers(loop, given, pool))


@pytest.mark.parametrize("loop, options", RUNS)
def test_fewer_trials_are_a_prefix_of_more(loop, options):
    few, many = numbers(loop, options, trials=3), numbers(loop, options, trials=300)
    assert_same_bits(few, {name: array[:, :3] for name, array in many.items()})


def test_another_seed_gives_other_numbers():
    loop, options = RUNS[0].values
    one = numbers(loop, options)["outputs"]
    other = np.asarray(
        loop.simulate(initial_state=[-20, 0], trials=TRIALS, rng=8, **options).outputs
    )
    assert not np.any(one[0, :, 0] == other[0, :, 0])
