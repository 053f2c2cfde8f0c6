"""How far ``floor="auto"`` is from the best floor of a fine grid, on 20 random plants.

    python tests/stress/cheapest_floors.py [plants]

Twelve plants have one output and a grid of 200 floors. Eight have two outputs and a grid
of 20 x 20 floors that is refined twice about its best point.
"""

import sys
import time
import warnings

import control as ct
import numpy as np

import privcontrol as pc

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)


def case(seed: int) -> tuple[ct.StateSpace, dict]:
    """A stable random plant with models around it, and for every third one a grid."""
    rng = np.random.default_rng(seed)
    outputs = 1 if seed % 5 < 3 else 2
    order = int(rng.integers(2, 4))
    A = np.linalg.qr(rng.normal(size=(order, order)))[0]
    A = A * rng.uniform(0.85, 0.99)
    C = rng.normal(size=(outputs, order)) * 10 ** rng.uniform(-1, 1, (outputs, 1))
    sys = ct.ss(A, np.zeros((order, 1)), C, 0, 1.0)
    spread = 10 ** rng.uniform(-5, -2)
    models = []
    for _ in range(4):
        changed = A * (1 + spread * rng.choice([-1, 1], size=A.shape))
        models.append(ct.ss(changed, sys.B, C, 0, 1.0))
    request = dict(
        horizon=20,
        budget=BUDGET,
        adjacency=pc.StateAdjacency(1.0, times=range(3)),
        models=models,
    )
    if seed % 3 == 0:
        request["resolution"] = 0.01 * np.abs(C).max(axis=1)
    return sys, request


def cost(sys: ct.StateSpace, request: dict, floor: np.ndarray) -> float:
    """Cost of the design with a given floor; infinite where there is none."""
    try:
        noise = pc.design_output_noise(sys, **request, floor=floor)
    except (pc.PrivacyError, pc.UncertifiableError):
        return np.inf
    return noise.design.cost


def best_of_grid(sys: ct.StateSpace, request: dict) -> float:
    """The least cost on a grid of floors, refined about its best point."""
    outputs = sys.noutputs
    white = pc.design_output_noise(sys, **{**request, "family": "iid-gaussian"}).std
    points = 200 if outputs == 1 else 20
    axes = [np.geomspace(1e-5 * std, 4 * std, points) for std in white]
    best = np.inf
    for _ in range(1 if outputs == 1 else 3):
        grids = np.meshgrid(*axes, indexing="ij")
        floors = np.stack([grid.ravel() for grid in grids], axis=1)
        costs = [cost(sys, request, floor) for floor in floors]
        best = min(best, *costs)
        centre = floors[int(np.argmin(costs))]
        ratios = [axis[1] / axis[0] for axis in axes]
        axes = [
            middle * np.geomspace(ratio**-1.5, ratio**1.5, points // 2)
            for middle, ratio in zip(centre, ratios)
        ]
    return best


def main(count: int = 20) -> float:
    """Print the ratio of each plant; returns the largest."""
    warnings.simplefilter("ignore", pc.PrivacyWarning)
    worst = 0.0
    for seed in range(count):
        sys_, request = case(seed)
        begin = time.perf_counter()
        noise = pc.design_output_noise(sys_, **request, floor="auto")
        seconds = time.perf_counter() - begin
        ratio = noise.design.cost / best_of_grid(sys_, request)
        worst = max(worst, ratio)
        print(
            f"plant {seed}: {sys_.nstates} states, {sys_.noutputs} outputs, floor "
            f"{noise.process.total.white.round(4)}, {ratio:.4f} of the best, {seconds:.1f} s",
            flush=True,
        )
    print(f"largest ratio {worst:.4f}")
    return worst


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
