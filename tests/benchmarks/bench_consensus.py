"""Time and memory of simulated consensus on large networks, against bare ``scipy.sparse`` products on the same blocks.

    python tests/benchmarks/bench_consensus.py            # every case in its own process, which resets peak memory
    python tests/benchmarks/bench_consensus.py 100000 1000000 100 100

A case is: nodes, edges of a random network with Metropolis weights, steps, trials. Bare products and simulations take
turns block by block, so that both see the same machine, and the medians of at least five blocks are compared; the whole
run is simulated beside. The goal is a ratio of at most 1.3.
"""

import resource
import subprocess
import sys
import time

import numpy as np
import scipy.sparse as sparse

from privcontrol.consensus import private_consensus
from privcontrol.consensus._propagation import trial_block
from privcontrol.core import PrivacyBudget

CASES = [(100_000, 1_000_000, 100, 100), (1_000_000, 5_000_000, 100, 10)]


def random_network(nodes, edges, seed=0):
    """A ring, for connectedness, and random edges; unit weights."""
    rng = np.random.default_rng(seed)
    ring = np.arange(nodes)
    i = np.concatenate([ring, rng.integers(nodes, size=edges - nodes)])
    j = np.concatenate([(ring + 1) % nodes, rng.integers(nodes, size=edges - nodes)])
    half = sparse.coo_array((np.ones(len(i)), (i, j)), shape=(nodes, nodes)).tocsr()
    return half + half.T


def bare_products(iteration, steps, block):
    """Seconds of `steps` products on one block."""
    y = np.random.default_rng(0).standard_normal((iteration.shape[0], block))
    start = time.perf_counter()
    for _ in range(steps):
        y = iteration @ y
    return time.perf_counter() - start


def peak_gigabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def run(nodes, edges, steps, trials):
    graph = random_network(nodes, edges)
    start = time.perf_counter()
    consensus = private_consensus(graph, PrivacyBudget(epsilon=1, delta=1e-2), 1.0, weights="metropolis")
    built = time.perf_counter() - start
    values = np.random.default_rng(1).uniform(-100, 100, nodes)
    block, before = trial_block(nodes), peak_gigabytes()
    bare, ours = [], []
    for part in range(max(5, -(-trials // block))):  # every simulation of `block` trials is one block
        bare.append(bare_products(consensus.network.iteration, steps, block))
        start = time.perf_counter()
        consensus.simulate(values, steps, trials=block, rng=part, keep_states=False)
        ours.append(time.perf_counter() - start)
    start = time.perf_counter()
    response = consensus.simulate(values, steps, trials=trials, rng=0, keep_states=False)
    whole = time.perf_counter() - start
    mean, error = response.mean_square_error()
    expected = np.median(bare) * -(-trials // block)
    print(
        f"{nodes} nodes, {consensus.network.edges} edges, {steps} steps, {trials} trials in blocks of {block}: checked "
        f"and designed in {built:.1f} s; simulated in {whole:.1f} s; bare products {expected:.1f} s; ratio "
        f"{np.median(ours) / np.median(bare):.3f} (medians of {len(bare)} blocks), {whole / expected:.3f} (whole run); "
        f"peak memory {peak_gigabytes():.2f} GB, {before:.2f} GB of it with the network alone; final mean-square error "
        f"{mean[-1]:.4g} +- {error[-1]:.1g}, limit {consensus.limit_mean_square_error():.4g}"
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(*map(int, sys.argv[1:]))
    else:
        for case in CASES:
            subprocess.run([sys.executable, __file__, *map(str, case)], check=True)
