"""Co-design against many random restarts, and its curve against the open loop.

    python tests/stress/codesign_restarts.py restarts --plants 10 --restarts 200 --states 2 3
    python tests/stress/codesign_restarts.py curves --plants 30

``restarts`` prints, for random plants, the cost of a co-design over that of the best of
many restarts: gains of the Riccati equations for random weights, the noise shaped for
them, and gains and noise descended in turns, the best one to the end. The goal is 1.02. ``curves`` prints for
each plant, and for the tutorial's, whether the costs fall with epsilon and by how much
they exceed the open loop, once with x(0) of the covariance of the Kalman filter, and
once with x(0) = 0.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import cases

import privcontrol as pc
from privcontrol.cloud.codesign import GainProblem, descend, reshaped
from privcontrol.cloud.gains import observer_gain

EPSILONS = [0.2, 0.5, 1.0, 2.0]


def codesigned(seed, states, epsilons, **options):
    """The trade-off of co-design for a random plant."""
    return pc.tradeoff(
        cases.random_plant(seed, states=states, inputs=1, outputs=1),
        1,
        1,
        0.3,
        0.2,
        horizon=10,
        adjacency=pc.StateAdjacency(1.0, times=range(3)),
        epsilons=epsilons,
        delta=1e-2,
        designs=("codesign",),
        **options,
    )


def descended(loop, P0, K, L, tolerance):
    """The loop after a descent of its gains, shaped for them, and the cost before."""
    run = descend(GainProblem(loop, P0), K, L, tolerance)
    return reshaped(run.loop), run.cost


def restarted(loop, P0, rng, turns=3):
    """The loop after a few turns of gains and noise from random gains, and its cost."""
    current = reshaped(loop.with_gains(*cases.random_gains(loop, rng)))
    least = np.inf
    for _ in range(turns):
        current, cost = descended(current, P0, current.K, current.L, 1e-2)
        least = min(least, cost)
    return current, least


def against_restarts(seed, states, restarts):
    """Costs of a co-design and of restarts, the best of them descended to the end."""
    result = codesigned(seed, states, [1.0])
    loop = result.loop("codesign", 1.0)
    P0 = observer_gain(loop.plant, loop.weights, None, loop.form)[1]
    rng = np.random.default_rng(seed)
    ends = [restarted(loop, P0, rng) for _ in range(restarts)]
    costs = np.array([cost for _, cost in ends])
    current = ends[costs.argmin()][0]
    best = costs.min()
    for _ in range(5):
        current, cost = descended(current, P0, current.K, current.L, 1e-4)
        best = min(best, cost)
    return result.total("codesign")[0], best, costs


def print_restarts(plants, restarts, sizes):
    worst = 0.0
    for states in sizes:
        for seed in range(plants):
            start = time.perf_counter()
            cost, best, costs = against_restarts(seed, states, restarts)
            worst = max(worst, cost / best)
            seconds = time.perf_counter() - start
            print(
                f"{states} states, plant {seed}: {cost:.4f} / {best:.4f} = "
                f"{cost / best:.4f}; restarts' median {np.median(costs):.4f}, "
                f"largest {costs.max():.4f} ({seconds:.0f} s)",
                flush=True,
            )
    print(f"largest ratio {worst:.4f}, goal 1.02")


def print_curves(plants):
    results = {}
    for seed in range(plants):
        states = 2 + seed % 2
        results[f"plant {seed}"] = codesigned(seed, states, EPSILONS)
        at_rest = np.zeros((states, states))
        rested = codesigned(seed, states, EPSILONS, P0=at_rest)
        results[f"plant {seed}, x(0) = 0"] = rested
    results["tutorial"] = cases.tutorial_codesigns(EPSILONS)
    worst_rise = worst_excess = -np.inf
    for name, result in results.items():
        curve = result.total("codesign")
        rise = np.max(curve[1:] / curve[:-1]) - 1
        excess = np.max(curve) / result.open_loop.total - 1
        worst_rise = max(worst_rise, rise)
        worst_excess = max(worst_excess, excess)
        print(f"{name}: {curve.round(4)}, open loop {result.open_loop.total:.4f}")
    print(f"largest rise {worst_rise:.2e}, largest excess {worst_excess:.2e}; goals 0")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("restarts", "curves"))
    parser.add_argument("--plants", type=int, default=10)
    parser.add_argument("--restarts", type=int, default=200)
    parser.add_argument("--states", type=int, nargs="+", default=[2, 3])
    given = parser.parse_args()
    warnings.simplefilter("ignore", pc.PrivacyWarning)
    if given.what == "restarts":
        print_restarts(given.plants, given.restarts, given.states)
    else:
        print_curves(given.plants)


if __name__ == "__main__":
    main()
