"""The trial engine: one seed, the same numbers on every executor, and a prefix for fewer trials."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest

from privcontrol._trials import draw_entropy, run_trials


@dataclass(frozen=True)
class Loop:
    """A small closed loop, x+ = A x + noise; its product makes the bits depend on the block's shape."""

    matrix: np.ndarray
    steps: int = 12

    def __call__(self, generator, block, keep):
        x = np.empty((block, len(self.matrix), self.steps))
        x[:, :, 0] = generator.standard_normal((block, len(self.matrix)))
        for t in range(1, self.steps):
            x[:, :, t] = x[:, :, t - 1] @ self.matrix + generator.standard_normal(
                (block, len(self.matrix))
            )
        return {"states": x, "absent": None, "first": x[:, 0, 0].copy()}


LOOP = Loop(0.1 * np.random.default_rng(1).standard_normal((12, 12)))


def same(a, b):
    return np.array_equal(a["states"], b["states"]) and np.array_equal(
        a["first"], b["first"]
    )


@pytest.fixture(scope="module")
def serial():
    return run_trials(LOOP, 300, rng=7, block=64)


def test_blocks_are_drawn_from_the_spawned_children_of_one_seed(serial):
    children = np.random.SeedSequence(draw_entropy(7)).spawn(5)
    expected = np.concatenate(
        [LOOP(np.random.default_rng(child), 64, 64)["states"] for child in children]
    )[:300]
    assert np.array_equal(serial["states"], expected)
    assert serial["absent"] is None
    assert serial["states"].flags.c_contiguous


@pytest.mark.parametrize("trials", [1, 10, 63, 64, 65, 128, 299])
def test_fewer_trials_are_a_prefix_bit_for_bit(serial, trials):
    fewer = run_trials(LOOP, trials, rng=7, block=64)
    assert np.array_equal(fewer["states"], serial["states"][:trials])


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_threads_give_the_serial_numbers(serial, workers):
    with ThreadPoolExecutor(workers) as executor:
        assert same(run_trials(LOOP, 300, rng=7, block=64, executor=executor), serial)


def test_two_processes_give_the_serial_numbers(serial):
    with ProcessPoolExecutor(2) as executor:
        assert same(run_trials(LOOP, 300, rng=7, block=64, executor=executor), serial)


def test_loky_gives_the_serial_numbers(serial):
    loky = pytest.importorskip("loky")
    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with loky.get_reusable_executor(max_workers=2) as executor:
        assert same(run_trials(LOOP, 300, rng=7, block=64, executor=executor), serial)


def test_a_dask_cluster_gives_the_serial_numbers(serial):
    distributed = pytest.importorskip("distributed")
    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    cluster = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": None,
    }
    with distributed.Client(**cluster) as client, client.get_executor() as executor:
        assert same(run_trials(LOOP, 300, rng=7, block=64, executor=executor), serial)
        with pytest.raises(TypeError, match=r"get_executor\(\)"):
            run_trials(LOOP, 3, executor=client)


@pytest.mark.parametrize("width", [12, 100, 600])
def test_products_give_the_same_bits_for_every_number_of_blas_threads(width):
    script = (
        "import hashlib, numpy as np; from privcontrol.core._linalg import product\n"
        f"g = np.random.default_rng(0); m, x = g.standard_normal(({width}, {width})), g.standard_normal((2, {width}, 64))\n"
        "assert np.allclose(product(m, x), m @ x, rtol=1e-12, atol=1e-12)\n"
        "print(hashlib.sha256(product(m, x).tobytes()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(digests) == 1


def test_a_single_block_is_not_copied():
    made = []

    def task(generator, block, keep):
        made.append(generator.standard_normal((block, 3)))
        return {"made": made[-1]}

    whole = run_trials(task, 256, rng=0)["made"]
    assert np.shares_memory(whole, made[-1])
    few = run_trials(task, 2, rng=0)["made"]
    assert few.base is None and np.array_equal(few, whole[:2])


class Counting(Executor):
    """Completes the oldest block only when asked for more than it may hold; records the peak in flight."""

    def __init__(self, workers):
        self._max_workers, self.open, self.peak = workers, 0, 0
        self.lock = threading.Lock()
        self.pool = ThreadPoolExecutor(1)

    def submit(self, function, /, *args, **kwargs):
        with self.lock:
            self.open += 1
            self.peak = max(self.peak, self.open)
        future = Future()

        def work():
            result = function(*args, **kwargs)
            with self.lock:
                self.open -= 1
            future.set_result(result)

        self.pool.submit(work)
        return future


@pytest.mark.parametrize("workers", [1, 3])
def test_only_a_few_blocks_per_worker_are_in_flight(workers):
    executor = Counting(workers)

    def task(generator, block, keep):
        return {"zeros": np.zeros((block, 1))}

    array = run_trials(task, 60, block=1, executor=executor)["zeros"]
    assert array.shape == (60, 1)
    assert executor.peak <= 2 * workers + 1


@pytest.mark.parametrize("workers", [0, 1])
def test_an_exception_propagates_and_cancels_the_rest(workers):
    calls = []

    def task(generator, block, keep):
        calls.append(block)
        if len(calls) == 1:
            raise ArithmeticError("first block")
        time.sleep(0.2)
        return {"zeros": np.zeros((block, 1))}

    executor = ThreadPoolExecutor(workers) if workers else None
    with pytest.raises(ArithmeticError, match="first block"):
        run_trials(task, 200, block=1, executor=executor)
    if executor is not None:
        executor.submit(int, "3").result()  # the caller's executor stays open
        executor.shutdown()
    assert (
        len(calls) <= 1 + workers
    )  # what had started may end, what was queued is gone


def test_no_global_state_and_one_draw_from_a_generator():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    generators = [np.random.default_rng(5), np.random.default_rng(5)]
    short, long = (
        run_trials(LOOP, k, rng=g, block=8) for k, g in zip((3, 40), generators)
    )
    assert np.array_equal(short["states"], long["states"][:3])
    assert generators[0].random() == generators[1].random()
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    again = run_trials(LOOP, 3, rng=generators[0], block=8)
    assert not np.array_equal(again["states"], short["states"])


def test_whatever_default_rng_accepts():
    numbers = [
        run_trials(LOOP, 3, rng=rng)["first"]
        for rng in (
            11,
            [11],
            np.random.SeedSequence(11),
            np.random.PCG64(11),
            np.random.default_rng(11),
        )
    ]
    assert all(np.array_equal(numbers[0], other) for other in numbers[1:])
    fresh = [run_trials(LOOP, 3)["first"] for _ in range(2)]
    assert not np.array_equal(*fresh)


@pytest.mark.parametrize(
    "rng, error",
    [
        (np.random.RandomState(3), TypeError),
        ("31415926", TypeError),
        (-31415926, ValueError),
    ],
)
def test_other_random_sources_are_refused_and_not_shown(rng, error):
    with pytest.raises(error, match="rng: expected") as caught:
        run_trials(LOOP, 3, rng=rng)
    assert "31415926" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_progress_counts_trials(capsys):
    pytest.importorskip("tqdm")
    with ThreadPoolExecutor(2) as executor:
        run_trials(LOOP, 300, rng=7, block=64, executor=executor, progress=True)
    shown = capsys.readouterr().err
    assert "300/300" in shown and "trial" in shown
    run_trials(LOOP, 3, rng=7)
    assert capsys.readouterr().err == ""


def test_progress_without_tqdm_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match="pip install tqdm"):
        run_trials(LOOP, 3, progress=True)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"trials": 0}, ValueError, "trials"),
        ({"trials": 2.5}, TypeError, "trials"),
        ({"executor": "threads"}, TypeError, "concurrent.futures.Executor"),
        ({"progress": "yes"}, TypeError, "progress"),
    ],
)
def test_wrong_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        run_trials(**({"task": LOOP, "trials": 3} | arguments))


def shifted(generator, block, keep, offset):
    draws = generator.standard_normal((block, 2))
    return {"sum": offset + draws[:keep], "rows": np.full((keep,), len(offset))}


@pytest.mark.parametrize("trials", [3, 8, 50])
def test_given_data_reach_their_own_trials(trials):
    """Trial k gets row k of the data and the same draw as ever; the last block may be shorter."""
    offset = 100.0 * np.arange(50)[:, None] * np.ones((50, 2))
    plain = run_trials(shifted, 50, rng=4, block=8, data={"offset": np.zeros((50, 2))})[
        "sum"
    ]
    with ThreadPoolExecutor(2) as executor:
        for where in (None, executor):
            out = run_trials(
                shifted,
                trials,
                rng=4,
                block=8,
                executor=where,
                data={"offset": offset[:trials]},
            )
            assert np.array_equal(out["sum"], (offset + plain)[:trials])
            sizes = [
                len(range(k - k % 8, min(k - k % 8 + 8, trials))) for k in range(trials)
            ]
            assert out["rows"].tolist() == sizes
