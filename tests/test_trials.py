"""Trials: one seed, the same numbers on every executor, and a prefix for fewer trials.

Processes and dask are in tests/loop/test_scaleout.py.
"""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import cases
import numpy as np
import pytest

import privcontrol as pc

#: Trials of several blocks, whose size depends on the loop and not on their number.
MANY = 1100


@pytest.fixture(scope="module")
def loop():
    noise = cases.vehicle_noise(horizon=4, family="iid-gaussian")
    return pc.private_lqg(pc.plants.vehicle(), 1, 1, 1, 1, noise)


def run(loop, trials, rng=7, **options):
    response = loop.simulate(
        trials=trials, rng=rng, disturbance="design", initial_state=[1, 0], **options
    )
    return np.asarray(response.outputs)


@pytest.fixture(scope="module")
def serial(loop):
    return run(loop, MANY)


@pytest.mark.parametrize("trials", [1, 10, 511, 512, 513, 1024, MANY - 1])
def test_fewer_trials_are_a_prefix_bit_for_bit(loop, serial, trials):
    assert np.array_equal(run(loop, trials), serial[:, :trials])


def test_trials_differ_within_and_across_blocks(serial):
    runs = {trial.tobytes() for trial in serial.transpose(1, 0, 2)}
    assert len(runs) == MANY


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_threads_give_the_serial_numbers(loop, serial, workers):
    with ThreadPoolExecutor(workers) as executor:
        assert np.array_equal(run(loop, MANY, executor=executor), serial)


def test_products_give_the_same_bits_for_every_number_of_blas_threads():
    script = (
        "import hashlib, numpy as np; from privcontrol.numerics.linalg import product\n"
        "g = np.random.default_rng(0)\n"
        "for rows, width, trials in ((12, 12, 64), (600, 600, 64), (1, 2000, 300)):\n"
        "    m = g.standard_normal((rows, width))\n"
        "    x = g.standard_normal((2, width, trials))\n"
        "    assert np.allclose(product(m, x), m @ x, rtol=1e-12, atol=1e-12)\n"
        "    print(hashlib.sha256(product(m, x).tobytes()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2", "3")
    }
    assert len(digests) == 1
    assert len(digests.pop().split()) == 3


class Counting(Executor):
    """Records how many blocks are in flight at most, and of how many there were."""

    def __init__(self, workers):
        self._max_workers, self.open, self.peak, self.blocks = workers, 0, 0, 0
        self.lock = threading.Lock()
        self.pool = ThreadPoolExecutor(1)

    def submit(self, function, /, *args, **kwargs):
        with self.lock:
            self.open += 1
            self.blocks += 1
            self.peak = max(self.peak, self.open)
        future = Future()

        def work():
            result = function(*args, **kwargs)
            with self.lock:
                self.open -= 1
            future.set_result(result)

        self.pool.submit(work)
        return future


def test_only_a_few_blocks_per_worker_are_in_flight(loop, serial):
    executor = Counting(1)
    outputs = run(loop, 6000, executor=executor)
    assert np.array_equal(outputs[:, :MANY], serial)
    assert executor.blocks > 8
    assert executor.peak <= 3


@pytest.mark.parametrize("workers", [0, 1])
def test_an_exception_propagates_and_cancels_the_rest(loop, workers):
    calls = []

    def controller(t, estimate, reference):
        calls.append(t)
        if len(calls) == 1:
            raise ArithmeticError("first block")
        time.sleep(0.2)
        return np.zeros((1, estimate.shape[1]))

    executor = ThreadPoolExecutor(workers) if workers else None
    with pytest.raises(ArithmeticError, match="first block"):
        run(loop, 10_000, executor=executor, controller=controller)
    if executor is not None:
        executor.submit(int, "3").result()  # the caller's executor stays open
        executor.shutdown()
    # what had started may end, and what was queued is gone
    assert len(calls) <= 1 + 4 * workers


def test_no_global_state_and_one_draw_from_a_generator(loop):
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    generators = [np.random.default_rng(5), np.random.default_rng(5)]
    short, long = (run(loop, k, rng=g) for k, g in zip((3, 600), generators))
    assert np.array_equal(short, long[:, :3])
    assert generators[0].random() == generators[1].random()
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert not np.array_equal(run(loop, 3, rng=generators[0]), short)


def test_whatever_default_rng_accepts(loop):
    kinds = (
        11,
        [11],
        np.random.SeedSequence(11),
        np.random.PCG64(11),
        np.random.default_rng(11),
    )
    numbers = [run(loop, 3, rng=rng) for rng in kinds]
    assert all(np.array_equal(numbers[0], other) for other in numbers[1:])
    assert not np.array_equal(run(loop, 3, rng=None), run(loop, 3, rng=None))


@pytest.mark.parametrize(
    "rng, error",
    [
        (np.random.RandomState(3), TypeError),
        ("31415926", TypeError),
        (-31415926, ValueError),
    ],
)
def test_other_random_sources_are_refused_and_not_shown(loop, rng, error):
    with pytest.raises(error, match="rng: expected") as caught:
        run(loop, 3, rng=rng)
    assert "31415926" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_progress_counts_trials(loop, capsys):
    pytest.importorskip("tqdm")
    with ThreadPoolExecutor(2) as executor:
        run(loop, MANY, executor=executor, progress=True)
    shown = capsys.readouterr().err
    assert f"{MANY}/{MANY}" in shown
    assert "trial" in shown
    run(loop, 3)
    assert capsys.readouterr().err == ""


def test_progress_without_tqdm_names_the_package(loop, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match="pip install tqdm"):
        run(loop, 3, progress=True)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"trials": 0}, ValueError, "trials"),
        ({"trials": 2.5}, TypeError, "trials"),
        ({"executor": "threads"}, TypeError, "concurrent.futures.Executor"),
        ({"progress": "yes"}, TypeError, "progress"),
    ],
)
def test_wrong_arguments_are_named(loop, arguments, error, message):
    with pytest.raises(error, match=message):
        run(loop, **({"trials": 3} | arguments))


@pytest.mark.parametrize("trials", [3, 513])
def test_given_data_reach_their_own_trials(loop, trials):
    """Trial k gets its own disturbance and the same draws as ever."""
    pushed = np.zeros((2, trials, 4))
    pushed[0, :, 0] = np.arange(trials)
    plain = loop.simulate(trials=trials, rng=4)
    with ThreadPoolExecutor(2) as executor:
        for where in (None, executor):
            moved = loop.simulate(
                trials=trials, rng=4, disturbance=pushed, executor=where
            )
            added = (
                np.asarray(moved.outputs)[0, :, 1] - np.asarray(plain.outputs)[0, :, 1]
            )
            np.testing.assert_allclose(added, np.arange(trials), atol=1e-9)
