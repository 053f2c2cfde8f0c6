"""Private loops: trials per second, time of exact moments, and cost of noise by design on random loops.

    python tests/benchmarks/bench_cloud.py

Run with one BLAS thread (``OMP_NUM_THREADS=1``). Times are medians; the simulation and python-control's
``forced_response`` take turns in one run.
"""

import sys
import time
import warnings
from pathlib import Path

import control as ct
import numpy as np

import privcontrol as pc

sys.path.insert(0, str(Path(__file__).parents[1]))
import cases

DRAWN = {"disturbance": "design", "measurement_noise": "design"}


def seconds(function, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        function()
    return (time.perf_counter() - start) / repeats


def simulation(trials=20_000):
    """Trials of the vehicle, T = 100, against one ``ct.forced_response`` per trial of the same system."""
    loop = pc.private_lqg(pc.plants.vehicle(), 20, 1, 2, 1, cases.vehicle_noise())
    system, start = loop.system, [-20.0, 0, 0, 0, 0, 0]
    inputs = np.zeros((system.ninputs, 100))
    inputs[-1, 0] = 1.0
    turns = [
        (
            seconds(lambda: ct.forced_response(system, loop.noise.timepts, inputs, start), 20),
            seconds(lambda: loop.simulate(initial_state=[-20, 0], trials=trials, rng=0), 1) / trials,
        )
        for _ in range(9)
    ]
    one, ours = np.median(turns, axis=0)
    print(
        f"simulation, vehicle, T = 100: {1 / ours:,.0f} trials/s, forced_response {1 / one:,.0f}/s, {one / ours:.0f} x"
    )


def moments():
    """Exact mean-square error and cost over the whole horizon of the vehicle."""
    for family in ("gaussian", "iid-gaussian"):
        loop = pc.private_lqg(pc.plants.vehicle(), 20, 1, 2, 1, cases.vehicle_noise(family=family))
        for options in ({}, DRAWN):
            times = [
                1e3 * np.median([seconds(lambda: method(initial_state=[-20, 0], **options), 20) for _ in range(9)])  # noqa: B023
                for method in (loop.mean_square_error, loop.cost)
            ]
            drawn = "with disturbances" if options else "without"
            print(f"{family}, {drawn}: mean_square_error {times[0]:.2f} ms, cost {times[1]:.2f} ms")


def ratios(loops=30):
    """Privacy cost of loop-optimal noise relative to trace-optimal and independent noise, same gains."""
    found = []
    for seed in range(loops):
        loop, plant = cases.random_loop(seed, states=3), cases.random_plant(seed, states=3)
        adjacency = pc.StateAdjacency([1.0, 0.5, 2.0], times=range(4))
        request = {"horizon": 10, "budget": cases.BUDGET, "adjacency": adjacency}
        noises = [
            pc.design_output_noise(plant, **request, **options)
            for options in ({"weight": loop}, {}, {"family": "iid-gaussian"})
        ]
        found.append([loop.with_noise(noise).cost().privacy for noise in noises] + [noises[0].design.gap])
    costs = np.array(found)
    for name, other in (("trace-optimal", costs[:, 1]), ("independent", costs[:, 2])):
        low, mid, high = np.quantile(costs[:, 0] / other, [0, 0.5, 1])
        print(f"loop-optimal / {name} on {loops} loops: median {mid:.3f}, from {low:.3f} to {high:.9f}")
    print(f"largest certified gap {costs[:, 3].max():.1e}")


def codesign(loops=6):
    """Cost of the co-design relative to the separate design and to independent noise with its own gains."""
    found = []
    for seed in range(loops):
        plant = cases.random_plant(seed, states=3)
        weights, request = {"Q": 1, "R": 1, "QN": 0.3, "RN": 0.2}, {"horizon": 15, "delta": 1e-2, "epsilons": [1.0]}
        adjacency = pc.StateAdjacency(1.0, times=range(4))
        result = pc.tradeoff(plant, **weights, **request, adjacency=adjacency, designs=["loop", "iid", "codesign"])
        found.append([result.total(design)[0] for design in ("codesign", "loop", "iid")])
    costs = np.array(found)
    for name, other in (("loop-optimal, better of two gains", costs[:, 1]), ("independent, re-tuned", costs[:, 2])):
        ratio = costs[:, 0] / other
        print(f"co-design / {name} on {loops} loops: median {np.median(ratio):.3f}, largest {ratio.max():.6f}")


if __name__ == "__main__":
    warnings.simplefilter("ignore", pc.PrivacyWarning)
    simulation()
    moments()
    ratios()
    codesign()
