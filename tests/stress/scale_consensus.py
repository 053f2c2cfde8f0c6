"""Run consensus of a million agents on one core, and through an executor.

    python tests/stress/scale_consensus.py
    python tests/stress/scale_consensus.py --executor dask --agents 100000 --goal 1.5

prints the seconds of both runs, the speedup, and the machine's load before each, which
has to be near 0 for a speedup of two workers on two cores. Numbers have to be the same. A
random network has five links for each agent; the trials make two blocks for each
worker. With ``--goal`` the exit code is 1 if the speedup is below it.
"""

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.bench_consensus import random_network
from benchmarks.measure import peak_gigabytes

import privcontrol as pc
from privcontrol.consensus.runs import trial_block


@contextmanager
def workers(kind, count):
    """Yield an executor of local workers."""
    if kind == "threads":
        with ThreadPoolExecutor(count) as pool:
            yield pool
    elif kind == "processes":
        with ProcessPoolExecutor(count) as pool:
            yield pool
    else:
        from distributed import Client, LocalCluster

        with (
            LocalCluster(
                n_workers=count, threads_per_worker=1, dashboard_address=None
            ) as cluster,
            Client(cluster) as client,
            client.get_executor() as pool,
        ):
            yield pool


def measured(name, run, executor=None):
    """Print how long a run takes, here and in all; return that and its squared errors."""
    load = os.getloadavg()[0]
    start = np.array([time.perf_counter(), time.process_time()])
    response = run(executor)
    wall, processor = np.array([time.perf_counter(), time.process_time()]) - start
    print(
        f"{name:9s} {wall:7.2f} s, {processor:.2f} s of processor in this process; load "
        f"before {load:.2f}"
    )
    return wall, response.squared_error("message")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agents", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--blocks", type=int, default=2, help="for each worker")
    parser.add_argument("--workers", type=int, default=2)
    kinds = ("processes", "threads", "dask")
    parser.add_argument("--executor", choices=kinds, default="processes")
    parser.add_argument("--goal", type=float, default=0.0)
    options = parser.parse_args()
    agents = pc.private_consensus(
        random_network(options.agents, 5 * options.agents),
        pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        radius=1.0,
        weights="metropolis",
    )
    values = np.random.default_rng(1).uniform(-100, 100, options.agents)
    block = trial_block(options.agents)
    trials = options.workers * options.blocks * block

    def run(executor, trials=trials, steps=options.steps):
        return agents.simulate(
            values, steps, trials=trials, rng=0, keep_states=False, executor=executor
        )

    cores = len(os.sched_getaffinity(0))
    print(
        f"{options.agents} agents, {options.steps} steps, {trials} trials in blocks of "
        f"{block}; {options.workers} workers ({options.executor}) on {cores} cores"
    )
    one, serial = measured("one core", run)
    print(f"peak      {peak_gigabytes():7.2f} GB")
    with workers(options.executor, options.workers) as pool:
        run(pool, trials=1, steps=1)  # workers are there, with what they import
        many, parallel = measured("workers", run, pool)
    speedup = one / many
    print(f"speedup   {speedup:7.2f}")
    if not np.array_equal(serial, parallel):
        sys.exit("the numbers are not those of the serial run")
    if speedup < options.goal:
        sys.exit(f"the goal is a speedup of {options.goal:g}")


if __name__ == "__main__":
    main()
