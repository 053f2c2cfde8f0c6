"""Time and memory of simulated consensus, against bare ``scipy.sparse`` products and the per-agent loops of the paper.

    python tests/benchmarks/bench_consensus.py 100000 1000000 100 100

runs one case by itself, in its own process, which resets peak memory. A case is: nodes, edges of a random network with
Metropolis weights, steps, trials, and how often to run it, 5 unless told. Runs of blocks on all cores, runs on one core, bare
products and simulations of one block take turns, so all see the same machine. The goal is at most 1.3 times the
bare products.
"""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sparse

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.measure import duration, peak_gigabytes

from privcontrol.consensus import private_consensus
from privcontrol.consensus.runs import trial_block
from privcontrol.core import PrivacyBudget
from privcontrol.plants import ten_agent_graph, ten_agent_values

BUDGET = PrivacyBudget(epsilon=1, delta=1e-2)
CASES = [(100_000, 1_000_000, 100, 100), (1_000_000, 5_000_000, 100, 10, 1)]
GROWTH = {
    "nodes and edges": (
        0,
        [(n, 10 * n, 10, 100) for n in (12_500, 25_000, 50_000, 100_000)],
    ),
    "edges": (1, [(25_000, m, 20, 10) for m in (125_000, 250_000, 500_000, 1_000_000)]),
    "steps": (2, [(25_000, 250_000, steps, 20) for steps in (20, 40, 80, 160)]),
    "trials": (3, [(25_000, 250_000, 20, trials) for trials in (20, 40, 80, 160)]),
}


def random_network(nodes, edges, seed=0):
    """A ring, for connectedness, and random edges; unit weights."""
    rng = np.random.default_rng(seed)
    ring = np.arange(nodes)
    i = np.concatenate([ring, rng.integers(nodes, size=edges - nodes)])
    j = np.concatenate([(ring + 1) % nodes, rng.integers(nodes, size=edges - nodes)])
    half = sparse.coo_array((np.ones(len(i)), (i, j)), shape=(nodes, nodes)).tocsr()
    return half + half.T


def bare_products(iteration, steps, trials):
    """`steps` products for some trials, ten at a time: scipy's best, which at twenty leaves the cache."""
    start = np.random.default_rng(0).standard_normal((iteration.shape[0], 10))
    for _ in range(0, trials, 10):
        y = start
        for _ in range(steps):
            y = iteration @ y


def spent(function):
    """Wall and processor seconds of a call."""
    start = np.array([time.perf_counter(), time.process_time()])
    function()
    return np.array([time.perf_counter(), time.process_time()]) - start


def run(nodes, edges, steps, trials, rounds=5):
    """What one case measures; the caller's graph is dropped once it is read."""
    imports, graph = peak_gigabytes(), random_network(nodes, edges)
    built = time.process_time()
    consensus = private_consensus(graph, BUDGET, 1.0, weights="metropolis")
    built, graph = time.process_time() - built, None
    values, network = (
        np.random.default_rng(1).uniform(-100, 100, nodes),
        peak_gigabytes(),
    )
    block, few = trial_block(nodes), min(steps, 10_000_000 // nodes)

    def simulated(steps, trials, **options):
        return consensus.simulate(
            values, steps, trials=trials, rng=0, keep_states=False, **options
        )

    mean, error = simulated(steps, trials).mean_square_error()
    peak = peak_gigabytes()
    shared = private_consensus(
        random_network(nodes, edges),
        BUDGET,
        1.0,
        weights="metropolis",
        pairwise_std="auto",
        coalition=0,
    )
    with ThreadPoolExecutor() as pool:
        functions = {
            "cores": lambda: simulated(steps, trials, executor=pool),
            "core": lambda: simulated(steps, trials),
            "shared": lambda: shared.simulate(
                values, steps, trials=trials, rng=0, keep_states=False
            ),
            "block": lambda: simulated(few, block),
            "bare": lambda: bare_products(consensus.network.iteration, few, block),
        }
        turns = [
            [spent(function) for function in functions.values()] for _ in range(rounds)
        ]
    medians = dict(zip(functions, np.median(turns, axis=0).tolist()))
    return {
        "edges": consensus.network.edges,
        "built": built,
        "cores": medians["cores"][0],
        "core": medians["core"][0],
        "processor": medians["core"][1],
        "ratio": medians["block"][1] / medians["bare"][1],
        "shared": medians["shared"][1] / medians["core"][1],
        "gain": consensus.limit_mean_square_error() / shared.limit_mean_square_error(),
        "memory": (peak, network, imports),
        "mean": mean[-1],
        "error": error[-1],
        "limit": consensus.limit_mean_square_error(),
    }


def measured(case):
    """`run` in its own process."""
    path = os.pathsep.join(
        filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")])
    )
    command = [sys.executable, __file__, *map(str, case)]
    done = subprocess.run(
        command, check=True, capture_output=True, env=os.environ | {"PYTHONPATH": path}
    )
    return json.loads(done.stdout)


@pytest.mark.peers
def test_size(table):
    out = table(
        "Consensus: large networks",
        f"Random networks with Metropolis weights, messages of the last step kept; wall time on {os.cpu_count()} cores and on "
        "one, medians of five runs (of one run for the larger network); goal for the first: 7 s and 0.3 GB. The ratio is "
        "that of the processor time on one core to bare scipy.sparse products of ten columns, goal 1.3. Shared is the "
        "processor time with noise that neighbours share over that with independent noise, goal 2, and gain the ratio of "
        "their variances at the same guarantee towards an outsider. Peak memory is "
        "that of the whole process; in brackets what it was when the network was read, and after the imports alone. The "
        "last columns are the mean-square error after the last step, its standard error, and its exact limit.",
        *(
            "nodes",
            "edges",
            "steps",
            "trials",
            "set up",
            "wall",
            "one core",
            "ratio",
            "shared",
            "gain",
            "peak memory",
            "error",
            "limit",
        ),
    )
    for case in CASES:
        found = measured(case)
        times = [duration(found[name]) for name in ("built", "cores", "core")]
        memory = "{:.3f} GB ({:.2f}, {:.2f})".format(*found["memory"])
        error = f"{found['mean']:.4g} +- {found['error']:.1g}"
        out.add(
            case[0],
            found["edges"],
            *case[2:4],
            *times,
            found["ratio"],
            found["shared"],
            f"{found['gain']:.6g}",
            memory,
            error,
            f"{found['limit']:.4g}",
        )


def test_growth(table):
    out = table(
        "Consensus: growth",
        "Processor time on one core as one size doubles three times; linear growth doubles it. With the nodes, blocks "
        "shrink from 100 to 20 trials to stay in the cache: fewer share what an entry of the matrix costs, about 1 ns beside "
        "0.4 ns for each trial, and their messages no longer fit into the second-level cache.",
        *("what grows", "from", "to", "times", "growth per doubling"),
    )
    for name, (place, cases) in GROWTH.items():
        seconds = np.array([measured(case)["processor"] for case in cases])
        texts = ", ".join(map(duration, seconds.tolist()))
        out.add(
            name,
            cases[0][place],
            cases[-1][place],
            texts,
            float((seconds[-1] / seconds[0]) ** (1 / 3)),
        )


def per_agent(weights, deviation, values, steps, rng):
    """The loops of DPAM section 6: every agent reads its neighbours' messages and updates its own state."""
    agents = range(len(values))
    x, noise = list(values), deviation * rng.standard_normal(len(values))
    for _ in range(steps):
        y = [x[i] + noise[i] for i in agents]
        x = [
            x[i] + sum(weight * (y[j] - y[i]) for j, weight in weights[i])
            for i in agents
        ]
    return x


@pytest.mark.peers
def test_ten_agents(turns, table):
    graph, values, steps, trials = ten_agent_graph(), ten_agent_values(), 50, 10_000
    consensus = private_consensus(graph, BUDGET, 1.0)
    weights = [
        [(j - 1, graph[i][j]["weight"]) for j in graph[i]] for i in sorted(graph)
    ]
    rng, deviation = np.random.default_rng(0), np.asarray(consensus.scales)
    timed = turns(
        {
            "privcontrol": lambda: consensus.simulate(
                values, steps, trials=trials, rng=0
            ),
            "per-agent loops, as the paper's": lambda: per_agent(
                weights, deviation, values, steps, rng
            ),
        }
    )
    out = table(
        "Consensus: the paper's ten agents",
        "50 steps; privcontrol by 10,000 trials with every state kept, the loops by one.",
        *("", "wall, one trial", "processor, one trial", "ratio"),
    )
    base = timed.processor["privcontrol"] / trials
    for name, count in (
        ("privcontrol", trials),
        ("per-agent loops, as the paper's", 1),
    ):
        wall, processor = timed.wall[name] / count, timed.processor[name] / count
        out.add(name, duration(wall), duration(processor), processor / base)


if __name__ == "__main__":
    print(json.dumps(run(*map(int, sys.argv[1:]))))
