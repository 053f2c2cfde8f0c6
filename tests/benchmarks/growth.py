"""Processor time of jobs at three sizes or more, with the exponent at which it grows.

    python tests/benchmarks/growth.py               # all of them, as a table
    python tests/benchmarks/growth.py co-design     # one of them
    python tests/benchmarks/growth.py co-design 40  # at one size, as JSON

Each size has a process of its own. What takes more than `LIMIT` processor seconds says
so, and an exponent is fitted to what did not. A design also tells its certified gap. Times
before, and goals, are those of a machine on which the loop of `speed` takes `LOOP` seconds.
"""

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import control as ct
import networkx as nx
import numpy as np
import scipy.sparse

sys.path.insert(0, str(Path(__file__).parents[1]))

import cases
import nonlinear_cases
from nonlinear_cases import CRANE_REGION

import privcontrol as pc

LIMIT = 120  # seconds
#: Seconds of the loop of `speed` where times before, and goals, come from.
LOOP = 0.25
BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)


def noise_of_start(states, horizon):
    """Noise that hides every state at the start of a run."""
    plant = cases.random_plant(0, states=states, inputs=1, outputs=2, radius=0.95)
    secret = pc.StateAdjacency(1.0, times=0)
    noise = pc.design_output_noise(
        plant, horizon=horizon, budget=BUDGET, adjacency=secret, models="exact"
    )
    return plant, noise


def codesign(states):
    plant, noise = noise_of_start(states, 40)
    weights = (1.0, 1.0, 0.01, 0.01)
    P0 = np.eye(states)
    return lambda: (
        pc.private_lqg(plant, *weights, noise=noise, P0=P0, codesign=True).optimality
    )


def start(states):
    return lambda: noise_of_start(states, 100)[1]


def structured(horizon):
    secret = pc.StateAdjacency({"position": 1.0})
    plant = pc.plants.vehicle()
    options = {"budget": BUDGET, "adjacency": secret, "models": "exact"}
    return lambda: pc.design_output_noise(plant, horizon=horizon, **options)


def box(entries):
    plant = cases.random_plant(0, states=4, inputs=1, outputs=2, radius=0.95)
    widths = np.zeros(16)
    widths[:entries] = 1e-3
    models = pc.PlantBox(plant, A=widths.reshape(4, 4))
    options = {
        "horizon": 100,
        "budget": BUDGET,
        "adjacency": pc.StateAdjacency({"s0": 1.0}, times=0),
        "models": models,
        "floor": "auto",
    }
    return lambda: pc.design_output_noise(plant, **options)


def rooms(count):
    """Equal rooms without a horizon, each with people of its own."""
    eye = np.eye(count)
    names = [f"people{k}" for k in range(count)]
    plant = ct.ss(0.9 * eye, eye, eye, 0 * eye, 60.0, inputs=names)
    secret = pc.DisturbanceAdjacency(0.1, inputs=names)
    options = {"horizon": np.inf, "budget": BUDGET, "adjacency": secret}
    return lambda: pc.design_output_noise(plant, **options)


def air_and_walls(door):
    """One room whose air loses heat through a door, sampled at a quarter of an hour."""
    rates = np.array([[-3.1 - door, 2.7], [0.18, -0.19]])
    room = ct.ss(rates, [[0.17], [0]], [[1, 0]], 0).sample(0.25)
    return room.A, room.B


def rooms_of_waves(doors):
    """Rooms around a ring with a door of so much for each wave, without a horizon."""
    count = len(doors)
    waves = map(air_and_walls, doors)
    around = [
        np.fft.ifft(stack, axis=0).real
        for stack in map(np.array, zip(*waves, strict=True))
    ]
    places = np.subtract.outer(np.arange(count), np.arange(count))
    A, B = (
        matrices[places].swapaxes(1, 2).reshape(2 * count, -1) for matrices in around
    )
    plant = ct.ss(A, B, np.kron(np.eye(count), [[1.0, 0.0]]), 0, 0.25)
    secret = pc.DisturbanceAdjacency(1.0, duration=12, shape="level")
    options = {"horizon": np.inf, "budget": BUDGET, "adjacency": secret}
    return lambda: pc.design_output_noise(plant, max_std=np.inf, **options)


def corridor(count):
    """Rooms whose air meets on one corridor."""
    return rooms_of_waves(np.minimum(np.arange(count), 1.0))


def court(count):
    """Rooms around a court, whose air meets that of the two next to it."""
    return rooms_of_waves(1 - np.cos(2 * np.pi * np.arange(count) / count))


def crane(horizon):
    """A load on a rope below a trolley, in a narrow region; the load's push is hidden."""

    def designed():
        models = pc.jacobian_polytope(nonlinear_cases.crane(), CRANE_REGION)
        secret = pc.DisturbanceAdjacency({"push": 0.1}, duration=5, shape="level")
        options = {"budget": BUDGET, "adjacency": secret, "models": models}
        options |= {"horizon": horizon, "floor": 0.01}
        return pc.design_output_noise(models.nominal, **options)

    return designed


def axis(horizon, count=1):
    """One axis of a drone, two integrators, whose wind is hidden, or several."""
    one = [[1, 0.1], [0, 1]], [[0.005], [0.1]], [[1, 0]]
    names = [f"wind{k}" for k in range(count)]
    matrices = [np.kron(np.eye(count), matrix) for matrix in one]
    plant = ct.ss(*matrices, 0, 0.1, inputs=names)
    secret = pc.DisturbanceAdjacency(0.1, inputs=names)
    options = {"horizon": horizon, "budget": BUDGET, "adjacency": secret}
    return lambda: pc.design_output_noise(plant, max_std=np.inf, **options)


def drone(horizon):
    """Three axes that nothing connects."""
    return axis(horizon, count=3)


def slow_lag(horizon):
    """A plant that forgets too slowly for noise of low order."""
    plant = ct.ss(0.999, 1.0, 1.0, 0, 1.0)
    secret = pc.DisturbanceAdjacency(0.1)
    options = {"horizon": horizon, "budget": BUDGET, "adjacency": secret}
    return lambda: pc.design_output_noise(plant, max_std=np.inf, **options)


def simulation(states):
    plant, noise = noise_of_start(states, 100)
    loop = pc.private_lqg(plant, 1.0, 1.0, 0.01, 0.01, noise=noise, P0=np.eye(states))
    return lambda: loop.simulate(0.1 * np.arange(100), trials=1000, rng=0)


def gusts(states):
    plant, noise = noise_of_start(states, 100)
    loop = pc.private_lqg(plant, 1.0, 1.0, 0.01, 0.01, noise=noise, P0=np.eye(states))
    gusty = {"disturbance": "design", "measurement_noise": "design"}
    return lambda: loop.simulate(0.1 * np.arange(100), trials=1000, rng=0, **gusty)


def device(lines):
    """A line of JSON in, one out, by the command, whose file `begin` has made."""
    folder = Path(tempfile.mkdtemp())
    secret = pc.StateAdjacency({"position": 1.0})
    noise = pc.design_output_noise(
        pc.plants.vehicle(), horizon=40_000, budget=BUDGET, adjacency=secret, floor=0.1
    )
    noise.save(folder / "noise.json")
    command = [sys.executable, "-m", "privcontrol.deploy"]
    where = ["noise.json", "--state", "gateway.sqlite"]
    quiet = {"cwd": folder, "check": True, "capture_output": True}
    grid = ["--grid", "0.001", "--resolution", "0.001"]
    subprocess.run([*command, "begin", *where, *grid], **quiet)
    text = "".join(f'{{"y": {k / 1000}}}\n' for k in range(lines)).encode()
    return lambda: subprocess.run([*command, "publish", *where], input=text, **quiet)


def ring(nodes):
    k = np.arange(nodes)
    ends = (np.append(k, k), np.append((k + 1) % nodes, (k - 1) % nodes))
    shape = (nodes, nodes)
    graph = scipy.sparse.coo_array((np.full(2 * nodes, 1 / 3), ends), shape=shape)
    network = pc.consensus.read_network(graph)
    return lambda: network.rate


def coalition(nodes):
    """Agents with eight neighbours each, but for seven with two, whom four may join."""
    graph = nx.random_regular_graph(8, nodes - 7, seed=1)
    for weak in range(7):
        for k in range(2):
            graph.add_edge(nodes - 7 + weak, (11 * weak + 5 * k) % (nodes - 7))
    options = {"weights": "metropolis", "pairwise_std": "auto", "coalition": 4}
    return lambda: pc.consensus.private_consensus(graph, BUDGET, 1.0, **options)


def endless(duration):
    """A change of any shape, up to so long, of a plant with lags of .99 and .999."""
    plant = ct.ss(np.diag([0.99, 0.999]), [[1.0], [0.1]], [[1.0, 1.0]], 0, True)
    secret = pc.DisturbanceAdjacency(0.1, inputs=["u[0]"], duration=duration)
    options = {"horizon": np.inf, "budget": BUDGET, "adjacency": secret}
    return lambda: pc.design_output_noise(plant, **options)


@dataclass(frozen=True)
class Job:
    """What is done at some sizes, what they are, the times it once took, and the goal."""

    sizes: tuple[int, ...]
    unit: str
    make: Callable
    before: str = "not measured"
    goal: str = "none"


_BY_HAND = "1.1 of a batch by hand, see beside_peers.py"

JOBS = {
    "co-design": Job(
        (10, 20, 40, 100),
        "states",
        codesign,
        "10: 0.30 s; 20: 1.37 s; 40: 23.5 s",
        "40: 2 s; 100: 10 s",
    ),
    "all of x(0)": Job(
        (20, 50, 100, 200),
        "states",
        start,
        "20: 0.24 s; 50: 2.35 s; 100: 8.6 s",
        "200: 2 s",
    ),
    "structured": Job(
        (10_000, 100_000, 1_000_000), "samples", structured, "1,000,000: 12 s", "1 s"
    ),
    "box": Job((2, 6, 16), "entries", box, "2.8 to 6.3 s", "2 s"),
    "rooms": Job((10, 100, 1000), "rooms", rooms, "2: a gap of 341 %", "1,000: 2 s"),
    "corridor": Job((10, 100, 1000), "rooms", corridor, goal="1,000: 10 s"),
    "court": Job((10, 100, 1000), "rooms", court, "10: no end in 120 s"),
    "crane": Job((10, 20, 40), "samples", crane, "no end in 140 s", "10 s"),
    "drone's axis": Job((150, 300, 600, 1500), "samples", axis, "600: 4.9 s"),
    "drone": Job(
        (150, 300, 600, 1500),
        "samples",
        drone,
        "1,500: no end in 200 s",
        "1,500: 10 s",
    ),
    "slow lag": Job((250, 500, 1000), "samples", slow_lag, "1,000: 8.9 s"),
    "simulation": Job((2, 10, 40), "states", simulation, "40: 0.24 s", _BY_HAND),
    "simulation with gusts": Job((2, 10, 40), "states", gusts, "40: 0.46 s", _BY_HAND),
    "device": Job(
        (2_000, 10_000, 20_000),
        "lines",
        device,
        "2 s to start, 317 us a line",
        "0.3 s to start, 50 us a line",
    ),
    "ring": Job(
        (10_000, 100_000, 1_000_000),
        "nodes",
        ring,
        "100,000: 4.7 s; 1,000,000: no end",
    ),
    "coalition": Job((50, 100, 200), "nodes", coalition),
    "endless": Job(
        (24, 48, 96), "samples", endless, "96: a gap of 3 to 6 %", "96: a gap of 1 %"
    ),
}


def measured(name, size):
    """Processor seconds of a job at a size, with those of its child processes, and the gap."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))  # a signal ends the process
    warnings.simplefilter("ignore")
    for public in pc.__all__:
        getattr(pc, public)
    job = JOBS[name].make(size)
    before = sum(os.times()[:4])
    found = job()
    seconds = sum(os.times()[:4]) - before
    gap = getattr(getattr(found, "design", None), "gap", np.nan)
    return {"seconds": seconds, "gap": None if np.isnan(gap) else float(gap)}


def speed():
    """Processor seconds of a loop over ten million integers, to compare machines with."""
    start = time.process_time()
    total = 0
    for k in range(10**7):
        total += k
    return time.process_time() - start


#: Of the table.
HEADING = "| job | before | now | exponent | goal |"


def label(name):
    """What the table calls a job."""
    return f"{name}, {JOBS[name].unit}"


def heading():
    """When and where it was measured."""
    loop = speed()
    return (
        f"Processor time on {time.strftime('%Y-%m-%d')}, load "
        f"{os.getloadavg()[0]:.1f}, {platform.machine()} with {os.cpu_count()} cores; "
        f"a loop over ten million integers takes {loop:.2f} s, {loop / LOOP:.1f} times "
        "what it takes where times before, and goals, come from"
    )


def row(name):
    """A line of the table."""
    job = JOBS[name]
    cells = []
    known = []
    for size in job.sizes:
        command = [sys.executable, __file__, name, str(size)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode < 0:
            cells.append(f"{size:,}: not within {LIMIT} s")
            break  # larger ones take longer
        if done.returncode:
            cells.append(f"{size:,}: {done.stderr.splitlines()[-1][:60]}")
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        known.append((size, found["seconds"]))
        gap = "" if found["gap"] is None else f" (gap {found['gap']:.1g})"
        cells.append(f"{size:,}: {found['seconds']:.2g} s{gap}")
    exponent = ""
    if len(known) > 2:
        x, y = np.log(np.array(known)).T
        exponent = f"{np.polyfit(x, y, 1)[0]:.1f}"
    now = "; ".join(cells)
    return f"| {label(name)} | {job.before} | {now} | {exponent} | {job.goal} |"


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(json.dumps(measured(sys.argv[1], int(sys.argv[2]))))
    else:
        print(heading())
        print(f"{HEADING}\n|---|---|---|---|---|")
        for name in sys.argv[1:] or JOBS:
            print(row(name), flush=True)
