"""Time and memory of the jobs on the page "How long will it take", each in its own process.

    python tests/benchmarks/how_long.py                  # all of them, as four tables
    python tests/benchmarks/how_long.py --only device    # rows whose names have this
    python tests/benchmarks/how_long.py --table rows.md  # in pieces
    python tests/benchmarks/how_long.py --long           # what takes minutes, too
    python tests/benchmarks/how_long.py "wind on a ship, T = 300" # one of them, as JSON

Times are processor seconds of the call alone, with its load average. Memory is the peak
of the process. The second table tells how times grow (`growth.py`), with those before and
the goals, and the third those of other packages in the same run (`beside_peers.py`). The
last names what takes minutes with its command and its goal; ``--long`` runs the commands.
A file of ``--table`` is written after each row, and rows that it has are not measured
again.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from functools import partial
from itertools import pairwise
from pathlib import Path

import control as ct
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import cases
from benchmarks import growth
from benchmarks.cloud_goals import designed
from benchmarks.measure import peak_gigabytes

import privcontrol as pc

LIMIT = 180  # seconds
POSITION = pc.StateAdjacency({"position": 1.0})


def three_area_grid():
    """Three areas and their tie lines: 11 states, 5 outputs, loads as disturbances."""
    inertia, droop, tie = 10.0, 0.05, 2.0
    A = np.zeros((11, 11))
    B = np.zeros((11, 6))
    C = np.zeros((5, 11))
    for area in range(3):
        frequency, turbine, governor = range(3 * area, 3 * area + 3)
        A[frequency, [frequency, turbine]] = -1 / inertia, 1 / inertia
        A[turbine, [turbine, governor]] = -2.0, 2.0
        A[governor, [governor, frequency]] = -5.0, -5.0 / droop
        B[governor, area] = 5.0
        B[frequency, 3 + area] = -1 / inertia
        C[area, frequency] = 1.0
    A[9, [0, 3]] = tie, -tie
    A[10, [3, 6]] = tie, -tie
    A[[0, 3, 3, 6], [9, 9, 10, 10]] = np.array([-1, 1, -1, 1]) / inertia
    C[[3, 4], [9, 10]] = 1.0
    inputs = ["u1", "u2", "u3", "load1", "load2", "load3"]
    return ct.ss(A, B, C, 0, inputs=inputs).sample(0.1)


def ship():
    """Nomoto's second-order model with wind, and a rudder delayed by 1.5 s."""
    T1, T2, T3, K = 118.0, 7.8, 18.5, 0.185
    A = [[0, 1, 0], [0, 0, 1], [0, -1 / (T1 * T2), -(T1 + T2) / (T1 * T2)]]
    fast = K * T3 / (T1 * T2)
    slow = K / (T1 * T2) - fast * (T1 + T2) / (T1 * T2)
    B = [[0, 0], [fast, 0.01], [slow, 0]]
    continuous = ct.ss(A, B, [[1, 0, 0]], 0, inputs=["rudder", "wind"])
    return pc.with_delays(continuous, {"rudder": 1.5}, dt=1.0)


def beside_floor(horizon):
    return designed(pc.plants.vehicle(), horizon, POSITION, floor=0.1)


def structured(horizon):
    return designed(pc.plants.vehicle(), horizon, POSITION, models="exact")


def load(horizon):
    secret = pc.DisturbanceAdjacency({"load2": 0.01}, duration=20, shape="level")
    return designed(three_area_grid(), horizon, secret)


def jointly(horizon):
    secret = [POSITION, pc.DisturbanceAdjacency(0.1)]
    return designed(pc.plants.vehicle(), horizon, secret)


def wind(horizon):
    secret = pc.DisturbanceAdjacency({"wind": 0.05}, duration=20, shape="level")
    return designed(ship(), horizon, secret)


def stay(horizon):
    """One stay in a room, of any shape, which is what a duration means by default."""
    A, B = [[-3.1, 2.7], [0.18, -0.19]], [[0.17], [0.0]]
    room = ct.ss(A, B, [[1, 0]], 0, inputs=["people"]).sample(0.25)
    secret = pc.DisturbanceAdjacency({"people": 1.0}, duration=12)
    return designed(room, horizon, secret)


def dense_beside_floor(horizon):
    plant = cases.random_plant(0, states=7, inputs=1, outputs=3, radius=0.99)
    return designed(plant, horizon, pc.DisturbanceAdjacency(0.1), floor=0.1)


def slow_lag(horizon):
    """A dense design: the plant forgets too slowly for noise of low order."""
    plant = ct.ss(0.999, 1.0, 1.0, 0, 1.0)
    return designed(plant, horizon, pc.DisturbanceAdjacency(0.1))


def independent(horizon):
    return designed(pc.plants.vehicle(), horizon, POSITION, family="iid-gaussian")


def wind_turbine():
    """Rotor, shaft, generator and pitch; the wind turns the rotor."""
    A = [[-0.2, -5, 0.1, -0.8], [1, 0, -1, 0], [1, 50, -1.2, 0], [0, 0, 0, -1 / 0.3]]
    B = [[0, 0.2], [0, 0], [0, 0], [1 / 0.3, 0]]
    return ct.ss(A, B, [[0, 0, 1, 0]], 0, inputs=["pitch", "wind"]).sample(0.1)


def identified(plant, horizon, secret, samples, noise):
    """Noise for a plant that is known from recorded states and inputs."""
    rng = np.random.default_rng(0)
    states = np.zeros((plant.nstates, samples))
    inputs = rng.normal(size=(plant.ninputs, samples))
    for t in range(samples - 1):
        moved = plant.A @ states[:, t] + plant.B @ inputs[:, t]
        states[:, t + 1] = moved + noise * rng.normal(size=plant.nstates)
    models = pc.identify_states(plant, states, inputs, confidence=0.995)
    return designed(models.system, horizon, secret, models=models, floor="auto")


def of_recorded(horizon):
    plant = cases.random_plant(0, states=3, inputs=1, outputs=2, radius=0.9)
    secret = pc.StateAdjacency(1.0, times=0)
    return identified(plant, horizon, secret, 400, 0.01)


def gust(horizon):
    secret = pc.DisturbanceAdjacency({"wind": 1.0}, duration=10, shape="level")
    return identified(wind_turbine(), horizon, secret, 4000, 1e-3)


def reactor():
    """Seborg's stirred tank with a local loop of its temperature."""

    def rates(t, x, u, params):
        concentration, temperature = x
        coolant = 300.0 + 8.0 * (u[0] - temperature)
        rate = 7.2e10 * np.exp(-8750.0 / temperature) * concentration
        cooled = 5e4 / 23900 * (coolant - temperature)
        heated = 350.0 - temperature + 5e4 / 239.0 * rate + cooled
        return [u[1] - concentration - rate, heated]

    return ct.nlsys(
        rates,
        lambda t, x, u, params: [x[1]],
        states=["Ca", "T"],
        inputs=["Tset", "feed"],
        outputs=["Tm"],
    )


def of_reactor(horizon):
    """Noise for all plants between the Jacobians of a region."""
    ranges = {"Ca": (0.45, 0.55), "T": (345.0, 355.0)}
    ranges |= {"Tset": (295.0, 305.0), "feed": (0.97, 1.03)}
    sampled = pc.sample_nonlinear(reactor(), 0.05)
    models = pc.jacobian_polytope(sampled, ranges)
    secret = pc.DisturbanceAdjacency({"feed": 0.02}, duration=5, shape="level")
    return designed(models.nominal, horizon, secret, models=models, floor=0.3)


def box(entries):
    """Noise for a box of so many entries of A, of a plant with four states."""
    plant = cases.random_plant(0, states=4, inputs=1, outputs=2, radius=0.95)
    widths = np.zeros(16)
    widths[:entries] = 1e-3
    models = pc.PlantBox(plant, A=widths.reshape(4, 4))
    secret = pc.StateAdjacency({"s0": 1.0}, times=0)
    return designed(plant, 100, secret, models=models, floor="auto")


#: What takes minutes, its goal on a quiet machine with two cores, and what measures it.
LONG = (
    (
        "random designs",
        "p90 0.5 s, regions below 2 s each",
        "python tests/stress/random_designs.py",
    ),
    ("the tests", "4 min", "python -m pytest --numprocesses=auto"),
    (
        "the documentation",
        "6 min",
        "python -m sphinx -W --keep-going -j auto docs docs/_build/html",
    ),
)

JOBS = {
    "state beside a floor, T = 10,000": ("0.2 s", lambda: beside_floor(10_000)),
    "state beside a floor, T = 100,000": ("2 s", lambda: beside_floor(100_000)),
    "state without a floor, T = 10,000": ("none", lambda: structured(10_000)),
    "state without a floor, T = 1,000,000": ("10 s", lambda: structured(1_000_000)),
    "independent noise, T = 40,000": ("none", lambda: independent(40_000)),
    "load on a grid, T = 50": ("none", lambda: load(50)),
    "load on a grid, T = 200": ("none", lambda: load(200)),
    "load on a grid, T = 300": ("3 s", lambda: load(300)),
    "load on a grid, T = 1,000": ("10 s", lambda: load(1000)),
    "load on a grid, T = 10,000": ("none", lambda: load(10_000)),
    "load on a grid, no horizon": ("none", lambda: load(np.inf)),
    "state and disturbance, T = 300": ("3 s", lambda: jointly(300)),
    "state and disturbance, T = 1,000": ("15 s", lambda: jointly(1000)),
    "wind on a ship, T = 300": ("none", lambda: wind(300)),
    "wind on a ship, T = 600": ("15 s", lambda: wind(600)),
    "stay of any shape in a room, T = 288": ("none", lambda: stay(288)),
    "stay of any shape in a room, T = 1,000": ("10 s", lambda: stay(1000)),
    "disturbance of a slow lag, T = 1,000": ("none", lambda: slow_lag(1000)),
    "disturbance beside a floor, T = 100": ("none", lambda: dense_beside_floor(100)),
    "disturbance beside a floor, T = 400": ("15 s", lambda: dense_beside_floor(400)),
    "identified plant, T = 50": ("5 s", lambda: of_recorded(50)),
    "identified plant, T = 100": ("15 s", lambda: of_recorded(100)),
    "gust on an identified wind turbine, T = 100": ("15 s", lambda: gust(100)),
    "feed of a reactor in a region, T = 60": ("5 s", lambda: of_reactor(60)),
    "box of 6 entries, T = 100": ("2 s", lambda: box(6)),
    "box of 16 entries, T = 100": ("10 s", lambda: box(16)),
}


def measured(name):
    """Processor seconds, peak gigabytes, the certified gap and the machine's load."""
    warnings.simplefilter("ignore")
    for public in pc.__all__:
        getattr(pc, public)
    start = time.process_time()
    noise = JOBS[name][1]()
    seconds = time.process_time() - start
    load_average = os.getloadavg()[0]
    gap = float(noise.design.gap)
    peak = peak_gigabytes()
    return {"seconds": seconds, "peak": peak, "gap": gap, "load": load_average}


def row(name):
    """A line of the table, measured in a process of its own."""
    command = [sys.executable, __file__, name]
    goal = JOBS[name][0]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return f"| {name} | {goal} | not within {LIMIT} s | | | |"
    found = json.loads(done.stdout.splitlines()[-1])
    return (
        f"| {name} | {goal} | {found['seconds']:.2g} s | {found['peak']:.2f} GB "
        f"| {found['gap']:.1g} | {found['load']:.1f} |"
    )


def beside_peers():
    """The rows of another script, which take their turns in one process."""
    script = Path(__file__).with_name("beside_peers.py")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True
    )
    return "\n".join(done.stdout.splitlines()[2:])


def of_command(job, goal, command, *, runs):
    """What takes minutes: how long it took, and the processor seconds of all of it."""
    took = ""
    if runs:
        start, before = time.monotonic(), sum(os.times()[2:4])
        done = subprocess.run(command, shell=True, capture_output=True, check=False)
        minutes = (time.monotonic() - start) / 60
        spent = (sum(os.times()[2:4]) - before) / 60
        took = f"{minutes:.1f} min, {spent:.1f} of the processor"
        took += f", exit {done.returncode}" * (done.returncode != 0)
    return f"| {job} | {goal} | {took} | `{command}` |"


#: Their rows are known after they ran.
PEERS = "beside other packages"


def tables(runs_long):
    """The heading of each table, and by name what measures its rows."""
    yield (
        "| job | goal | processor time | memory | certified gap | load |",
        {name: partial(row, name) for name in JOBS},
    )
    yield (
        growth.HEADING,
        {growth.label(name): partial(growth.row, name) for name in growth.JOBS},
    )
    yield "| job | beside | ours | theirs | ours / theirs |", {PEERS: beside_peers}
    yield (
        "| job | goal | took | command |",
        {long[0]: partial(of_command, *long, runs=runs_long) for long in LONG},
    )


def rule(heading):
    """The line below a heading."""
    return "|---" * (heading.count("|") - 1) + "|"


def read(path):
    """The rows of a file by the heading of their table."""
    found, heading = {}, None
    lines = path.read_text().splitlines() if path and path.exists() else []
    for line, following in pairwise([*lines, ""]):
        if line.startswith("|") and following == rule(line):
            heading = line
            found[heading] = []
        elif line.startswith("| ") and heading:
            found[heading].append(line)
    return found


def measured_tables(path, only, runs_long):
    """Print all tables; keep rows in a file, which says when each run of them began."""
    known = read(path)
    head = growth.heading()
    print(head)
    if known:
        head = f"{path.read_text().split('|', 1)[0].strip()}\n{head}"
    for heading, rows in tables(runs_long):
        old, kept = known.get(heading, []), {}
        known[heading] = old
        print(f"\n{heading}\n{rule(heading)}")
        for name, measure in rows.items():
            mine = [
                line
                for line in old
                if name == PEERS or line[2:].startswith(f"{name} |")
            ]
            if not mine and any(part in name for part in only):
                mine = measure().splitlines()
                print("\n".join(mine), flush=True)
            kept[name] = mine
            known[heading] = [line for lines in kept.values() for line in lines]
            known[heading] += [line for line in old if line not in known[heading]]
            if path:
                parts = [f"{h}\n{rule(h)}\n" + "\n".join(r) for h, r in known.items()]
                path.write_text("\n\n".join([head, *parts]) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("job", nargs="?", help="one job of the first table, as JSON")
    parser.add_argument("--only", action="append", help="rows whose names have this")
    parser.add_argument("--table", type=Path, help="a file of the rows, to go on with")
    parser.add_argument("--long", action="store_true", help="run what takes minutes")
    options = parser.parse_args()
    if options.job:
        print(json.dumps(measured(options.job)))
    else:
        measured_tables(options.table, options.only or [""], options.long)


if __name__ == "__main__":
    main()
