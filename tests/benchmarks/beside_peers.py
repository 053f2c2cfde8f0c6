"""Processor time of jobs beside the same job of other packages, or written out by hand.

    python tests/benchmarks/beside_peers.py

Each pair takes turns in one process, and the least of them counts; what takes seconds is
called once. What is not installed is left out: CVXPY with Clarabel, dp-accounting,
jax-privacy.
"""

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import control as ct
import numpy as np
from benchmarks import bench_cloud, bench_design, bench_simulation
from benchmarks.measure import duration, peer

import privcontrol as pc
from privcontrol.core import gaussian_std

#: Seconds that one side of a pair may take, and the most turns.
ENOUGH, TURNS = 3.0, 25

#: A job, ours and theirs, and the name of the peer.
Pair = tuple[str, str, Callable, Callable]


def shapes() -> Iterator[Pair]:
    if peer("cvxpy") is None:
        return
    points = bench_design.random_points(4, 300, "normal")
    job = "covariance of least trace around 300 moves in 4 dimensions"
    for name, form in (
        ("CVXPY, precision", bench_design.by_precision),
        ("CVXPY, matrix inequalities", bench_design.by_blocks),
    ):
        yield (
            job,
            name,
            lambda: bench_design.ours(points),
            lambda form=form: form(points),
        )


def calibration() -> Iterator[Pair]:
    module = peer("dp_accounting.gaussian_mechanism")
    if module is None:
        return
    yield (
        "size of Gaussian noise for one budget",
        "dp-accounting",
        lambda: gaussian_std(1.0, 1e-5),
        lambda: module.get_sigma_gaussian(1.0, 1e-5),
    )


def sums() -> Iterator[Pair]:
    module = peer("jax_privacy.matrix_factorization.buffered_toeplitz")
    if module is None:
        return
    leaky = ct.ss(1 - 0.5 / 1000, 1, 1, 0, 1)
    options = {"budget": bench_simulation.BUDGET, "horizon": np.inf}
    options["adjacency"] = pc.DisturbanceAdjacency(1.0)
    yield (
        "noise of low order for sums of 1,000 numbers",
        "jax-privacy, buffered Toeplitz",
        lambda: pc.design_output_noise(leaky, **options),
        lambda: module.optimize(n=1000, min_buffers=3, max_buffers=3),
    )


def trials() -> Iterator[Pair]:
    loop = bench_cloud.vehicle_loop()
    system, times = loop.system, loop.noise.timepts
    start = np.array([-20.0, *np.zeros(system.nstates - 1)])
    inputs = np.zeros((system.ninputs, len(times)))
    inputs[-1, 0] = 1.0
    yield (
        "one trial of a vehicle's loop, 100 samples",
        "control.forced_response",
        lambda: loop.simulate(initial_state=[-20, 0], trials=1, rng=0),
        lambda: ct.forced_response(system, times, inputs, start),
    )


def batches() -> Iterator[Pair]:
    for states in (2, 10, 40):
        loop = bench_simulation.loop_of(states)
        for gusts in (False, True):
            given = bench_simulation.GUSTS if gusts else {}
            yield (
                f"1,000 runs of a loop with {states} states"
                + (" and disturbances" if gusts else ""),
                "a batch written by hand",
                lambda given=given, loop=loop: loop.simulate(
                    trials=bench_simulation.TRIALS, rng=0, **given
                ),
                lambda gusts=gusts, loop=loop: bench_simulation.batch(loop, gusts),
            )


def least(ours: Callable, theirs: Callable) -> tuple[float, float]:
    """Processor seconds of both, the least of the turns that they take."""
    seconds = [np.inf, np.inf]
    spent = [0.0, 0.0]
    for _ in range(TURNS):
        for k, job in enumerate((ours, theirs)):
            start = time.process_time()
            job()
            taken = time.process_time() - start
            spent[k] += taken
            seconds[k] = min(seconds[k], taken)
        if max(spent) > ENOUGH:
            break
    return seconds[0], seconds[1]


def main():
    warnings.simplefilter("ignore")
    for public in pc.__all__:
        getattr(pc, public)
    print("| job | beside | ours | theirs | ours / theirs |\n|---|---|---|---|---|")
    for pairs in (shapes, calibration, sums, trials, batches):
        for job, name, ours, theirs in pairs():
            own, other = least(ours, theirs)
            times = f"{duration(own)} | {duration(other)} | {own / other:.2g}"
            print(f"| {job} | {name} | {times} |", flush=True)


if __name__ == "__main__":
    main()
