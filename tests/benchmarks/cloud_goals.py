"""Time and memory of large designs and long trials, each in a process of its own.

    python tests/benchmarks/cloud_goals.py            # all of them, as a list
    python tests/benchmarks/cloud_goals.py "weight=loop, room, T = 1,440"

Times are processor seconds of the call alone. Memory is the peak of the process, beside
that after the imports.
"""

import json
import subprocess
import sys
import time
import warnings
from pathlib import Path

import control as ct
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import cases
from benchmarks.measure import peak_gigabytes

import privcontrol as pc

TUNING = {"Q": 1, "R": 1, "QN": 1e-2, "RN": 1e-2}


def area_grid():
    """Three areas in a ring: frequency, turbine and governor each, two angle differences."""
    A = np.zeros((11, 11))
    B = np.zeros((11, 6))
    C = np.zeros((5, 11))
    for area in range(3):
        frequency, turbine, governor = range(3 * area, 3 * area + 3)
        A[frequency, [frequency, turbine]] = -0.1, 0.1
        A[turbine, [turbine, governor]] = -2.0, 2.0
        A[governor, [governor, frequency]] = -5.0, -20.0
        B[governor, area] = 5.0
        B[frequency, 3 + area] = -0.1
        C[area, frequency] = 1.0
    A[9, [0, 3]] = 1.0, -1.0
    A[10, [3, 6]] = 1.0, -1.0
    A[0, [9, 10]] = -0.4, -0.2
    A[3, [9, 10]] = 0.2, -0.2
    A[6, [9, 10]] = 0.2, 0.4
    C[[3, 4], [9, 10]] = 1.0
    inputs = ["P0", "P1", "P2", "load0", "load1", "load2"]
    return ct.ss(A, B, C, 0, inputs=inputs).sample(0.5)


def designed(plant, horizon, secret, **options):
    return pc.design_output_noise(
        plant,
        horizon=horizon,
        budget=cases.BUDGET,
        adjacency=secret,
        max_std=np.inf,
        **options,
    )


def grid():
    plant = area_grid()
    loop = pc.private_lqg(plant, **TUNING, controls=["P0", "P1", "P2"])
    loads = pc.DisturbanceAdjacency({"load0": 0.1, "load1": 0.1, "load2": 0.1})
    return designed(plant, 200, loads, weight=loop).design.gap


def room():
    plant = ct.ss(0.98, [[1, 0.1]], 1, 0, 60.0, states=["air"], outputs=["reading"])
    plant = ct.ss(plant, inputs=["heat", "people"])
    loop = pc.private_lqg(plant, **TUNING, controls=["heat"])
    people = pc.DisturbanceAdjacency({"people": 1.0})
    return designed(plant, 1440, people, weight=loop).design.gap


def trial():
    plant = pc.plants.vehicle()
    start = pc.StateAdjacency({"position": 1.0}, times=0)
    noise = designed(plant, 100_000, start, models="exact")
    loop = pc.private_lqg(plant, 20, 1, 2, 1, noise)
    loop.simulate(trials=1, rng=0, disturbance="design")
    return noise.design.gap


def all_states(states):
    plant = cases.random_plant(0, states=states)
    return designed(plant, 20, pc.StateAdjacency(1.0)).design.gap


def three_states():
    plant = cases.random_plant(0, states=3, inputs=1, outputs=1, radius=0.999)
    return designed(plant, 100_000, pc.StateAdjacency(1.0, times=0)).design.gap


GOALS = {
    "weight=loop, grid of three areas, T = 200": ("5 s", grid),
    "weight=loop, room, T = 1,440": ("5 s, 0.1 GB over the imports", room),
    "one trial and its noise, vehicle, T = 100,000": ("0.2 GB", trial),
    "all states at all times, n = 50, T = 20": ("1 s", lambda: all_states(50)),
    "all states at all times, n = 100, T = 20": ("5 s", lambda: all_states(100)),
    "state at t = 0 of 3 states, T = 100,000": ("1.7 GB once", three_states),
}


def measured(name):
    """Seconds, gigabytes after the imports and at the end, and the certified gap."""
    warnings.simplefilter("ignore")
    for public in pc.__all__:
        getattr(pc, public)
    imports = peak_gigabytes()
    wall, processor = time.perf_counter(), time.process_time()
    gap = GOALS[name][1]()
    return {
        "wall": time.perf_counter() - wall,
        "processor": time.process_time() - processor,
        "imports": imports,
        "peak": peak_gigabytes(),
        "gap": gap,
    }


def measured_apart(name):
    """The same from a process of its own."""
    command = [sys.executable, __file__, name]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measured(sys.argv[1])))
    else:
        for goal in GOALS:
            print(goal, measured_apart(goal), f"goal {GOALS[goal][0]}", flush=True)
