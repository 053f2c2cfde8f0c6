"""Cost of Laplace noise relative to DPAM's Algorithm 2 with an SVD basis, on 100 random problems.

python tests/benchmarks/bench_laplace.py
"""

import time

import numpy as np
import scipy.linalg

import privcontrol as pc

PURE = pc.PrivacyBudget(epsilon=1.0)


def costs(problems=100, seed=0):
    """Ratio of the designed cost to Algorithm 2's, and seconds, of each problem."""
    rng = np.random.default_rng(seed)
    for _ in range(problems):
        rank = int(rng.integers(2, 7))
        moves = int(rng.integers(max(5, rank), 201))
        query = pc.LinearQuery(rng.normal(size=(rank, rank)))
        adjacency = pc.DirectionAdjacency(rng.normal(size=(rank, moves)))
        images = query.response @ adjacency.directions
        start = time.perf_counter()
        designed = pc.design_laplace(query, adjacency, PURE)
        seconds = time.perf_counter() - start
        paper = pc.design_laplace(
            query,
            adjacency,
            PURE,
            basis=scipy.linalg.svd(images, full_matrices=False)[0],
        )
        yield designed.cost / paper.cost, seconds


if __name__ == "__main__":
    ratios, seconds = np.array(list(costs())).T
    print(
        "Laplace noise cost relative to Algorithm 2 with an SVD basis, 100 random problems (r 2..6, M 5..200):"
    )
    print(
        f"  median {np.median(ratios):.3f}, least {ratios.min():.3f}, largest {ratios.max():.3f}"
    )
    print(
        f"  seconds a design: median {np.median(seconds):.2f}, largest {seconds.max():.2f}"
    )
