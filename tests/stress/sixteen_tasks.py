"""Sixteen tasks of a control engineer, on plants of no example.

    python tests/stress/sixteen_tasks.py              all of them
    python tests/stress/sixteen_tasks.py crane kettle only these

Each line has the processor time, then at one output the noise, what the secret does there
and the signal (standard deviations, and the secret's largest effect), then the answer that
the engineer wanted. Warnings stand below. A task fails that raises, that takes ten seconds
without a word, or whose answer is not as its function demands.
"""

import csv
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import control as ct
import numpy as np

import privcontrol as pc

RISK = pc.PrivacyBudget.from_risk(false_alarm=0.05, detection=0.15)
SILENT = 10.0  # seconds that a task may take without a word
FOUND = 0.15 + 1e-12  # what RISK allows, and the rounding of what is printed


class Answer(NamedTuple):
    """The sizes at one output in its unit, and what the engineer wanted to know."""

    noise: float
    secret: float
    signal: float
    unit: str
    text: str
    holds: bool


def designed(plant, secret, horizon=np.inf, **options):
    """Noise for RISK and for this plant alone, unless the task asks otherwise."""
    asked = {"budget": RISK, "models": "exact"} | options
    return pc.design_output_noise(plant, horizon=horizon, adjacency=secret, **asked)


def effect(plant, inputs, samples, output=0):
    """The largest reading of an output, from rest, under rows of inputs."""
    response = ct.forced_response(plant, np.arange(samples) * plant.dt, inputs)
    return float(np.abs(np.atleast_2d(response.outputs)[output]).max())


def pulse(plant, name, size, kept, samples):
    """Inputs (m, T) of one change that begins at once."""
    inputs = np.zeros((plant.ninputs, samples))
    inputs[plant.input_labels.index(name), :kept] = size
    return inputs


def errors(public, private, state, **asked):
    """A state's standard deviation without and with the gate, after a long time."""
    return [
        loop.steady_state_error(**asked)[state] ** 0.5 for loop in (public, private)
    ]


def wind():
    """A drone holds its place over the sea; its drift shows gusts, and so where it is."""
    drone = ct.ss(
        [[0, 1], [0, -0.4]],
        [[0, 0], [1, 0.4]],
        np.eye(2),
        0,
        states=["place", "speed"],
        inputs=["thrust", "gust"],
        outputs=["GPS", "Doppler"],
    ).sample(0.5)
    drone = pc.with_local_loop(
        drone, ct.ss([], [], [], [[-0.3, -0.8]], 0.5,
                     inputs=["GPS", "Doppler"], outputs=["thrust"]),
    )  # fmt: skip
    gust = pc.DisturbanceAdjacency({"gust": 3.0}, duration=6)
    noise = designed(drone, gust, horizon=60)
    seen = effect(drone, pulse(drone, "gust", 3.0, 6, 60), 60)
    signal = np.sqrt(ct.dlyap(drone.A, drone.B @ drone.B.T)[0, 0])
    share = noise.guarantee.detection(0.05)
    return Answer(noise.stds[0].max(), seen, signal, "m",
                  f"a gust of 3 m/s is found in {share:.1%}", share <= FOUND)  # fmt: skip


def recipe():
    """A batch reactor; the charge of the catalyst is the recipe, 2 % of it is hidden."""
    batch = ct.ss(
        [[-0.05, 0, 0], [0.05, -0.02, 0.3], [0, 0, -0.01]],
        [[0], [0.1], [0]],
        [[0, 1, 0]],
        0,
        states=["educt", "temperature", "catalyst"],
        inputs=["cooling"],
        outputs=["T"],
    ).sample(1.0)
    charge = pc.StateAdjacency({"catalyst": 0.02}, times=0)
    noise = designed(batch, charge, horizon=90)
    run = [np.linalg.matrix_power(batch.A, t) for t in range(90)]
    seen = max(abs((batch.C @ power)[0, 2]) * 0.02 for power in run)
    signal = max((batch.C @ power @ [1.0, 0.0, 0.5]).item() for power in run)
    return Answer(noise.stds.max(), seen, signal, "K",
                  f"the noise is {noise.stds.max() / signal:.1%} of the peak",
                  noise.stds.max() < signal)  # fmt: skip


def wind_farm():
    """Five turbines behind one wake; a curtailment of one is hidden in the farm's power."""
    A = 0.8 * np.eye(5) + 0.1 * np.eye(5, k=-1)
    farm = ct.ss(A, 0.2 * np.eye(5), np.ones((1, 5)), 0, 60.0,
                 states=[f"rotor {k}" for k in range(5)],
                 inputs=[f"order {k}" for k in range(5)], outputs=["MW"])  # fmt: skip
    order = pc.DisturbanceAdjacency({f"order {k}": 0.5 for k in range(5)}, duration=10)
    noise = designed(farm, order)
    seen = effect(farm, pulse(farm, "order 0", 0.5, 10, 60), 60)
    power = 15.0  # five turbines of 3 MW
    return Answer(noise.std[0], seen, power, "MW",
                  f"the farm's power is known to {noise.std[0] / power:.0%}",
                  noise.std[0] < power)  # fmt: skip


def water_net():
    """Six tanks in a row; a household's draw from any of them is hidden without end."""
    A = 0.9 * np.eye(6) + 0.04 * (np.eye(6, k=1) + np.eye(6, k=-1))
    B = np.hstack([0.5 * np.eye(6)[:, :1], -0.1 * np.eye(6)])
    names = [f"tank {k}" for k in range(6)]
    draws = [f"draw {k}" for k in range(6)]
    net = ct.ss(A, B, np.eye(6), 0, 900.0, states=names, inputs=["pump", *draws],
                outputs=[f"level {k}" for k in range(6)])  # fmt: skip
    secret = pc.DisturbanceAdjacency(dict.fromkeys(draws, 0.1), duration=4)
    noise = designed(net, secret)
    public = pc.private_lqg(net, Q=np.eye(6), R=1, QN=1e-4 * np.eye(6),
                            RN=1e-4 * np.eye(6), controls=["pump"])  # fmt: skip
    before, after = errors(public, public.with_noise(noise), 0)
    seen = effect(net, pulse(net, "draw 0", 0.1, 4, 60), 60)
    return Answer(noise.std[0], seen, before, "m",
                  f"tank 0 is held to {after:.3f} m, {before:.3f} m without the gate",
                  after < 2 * before)  # fmt: skip


def charging_site():
    """Ten chargers behind one meter; one car's session of an hour is hidden."""
    site = ct.ss([], [], [], [[1]], 0.25, inputs=["cars"], outputs=["kW"])
    session = pc.DisturbanceAdjacency({"cars": 11.0}, duration=4)
    ways = pc.options(site, horizon=np.inf, budget=RISK, adjacency=session)
    noise = designed(site, session)
    return Answer(noise.std[0], 11.0, 60.0, "kW", ways[0].verdict,
                  noise.std[0] > 11.0)  # fmt: skip


def elevator():
    """The drive's torque shows how many people ride; the load is a constant state."""
    lift = ct.ss(
        [[0.9, 0.01], [0, 1.0]],
        [[0.1], [0]],
        [[1, 0], [0.5, 0.2]],
        0,
        0.1,
        states=["speed", "load"],
        inputs=["torque"],
        outputs=["encoder", "current"],
    )
    person = pc.StateAdjacency({"load": 1.0}, times=0)
    noise = designed(lift, person, horizon=100)
    seen = max(
        abs((lift.C @ np.linalg.matrix_power(lift.A, t))[1, 1]) for t in range(100)
    )
    return Answer(noise.stds[1].max(), seen, 4 * seen, "A",
                  f"one of 4 people is found in {noise.guarantee.detection(0.05):.1%}",
                  noise.guarantee.detection(0.05) <= FOUND)  # fmt: skip


def kettle():
    """A PI controller and a kettle in ct.interconnect, with the gate between them."""
    boiler = ct.ss(0.98, [[0.5, 0.5]], 1, 0, 10.0, states=["water"],
                   inputs=["heat", "cup"], outputs=["T"], name="kettle")  # fmt: skip
    cup = pc.DisturbanceAdjacency({"cup": 1.0}, duration=3)
    noise = designed(boiler, cup)
    run = noise.over(400)
    gate = pc.create_channel_iosystem(run, name="gate", outputs=["seen"])
    drives = gate.input_labels[1:]
    pi = ct.ss(1, 1, 0.004, 0.1, 10.0, inputs=["e"], outputs=["heat"], name="pi")
    loop = ct.interconnect(
        [boiler, gate, pi, ct.summing_junction(["set", "-seen"], "e", name="sum")],
        connections=[["gate.T", "kettle.T"], ["pi.e", "sum.e"], ["kettle.heat", "pi.heat"],
                     ["sum.seen", "gate.seen"]],
        inputs=["set", "cup", *drives],
        outputs=["T", "seen"],
    )  # fmt: skip
    eta = run.process.inputs(run.process.draw(np.random.default_rng(0), 1))[0].T
    inputs = np.vstack([np.ones(400), np.zeros(400), eta])
    response = ct.forced_response(loop, np.arange(400) * 10.0, inputs)
    rest = response.outputs[0, 200:].std()
    seen = effect(boiler, pulse(boiler, "cup", 1.0, 3, 60), 60)
    return Answer(noise.std[0], seen, 1.0, "K",
                  f"the water stays within {rest:.2f} K of its set point",
                  np.abs(loop.poles()).max() < 1)  # fmt: skip


def recording(path, samples=1500):
    """A file of a motor's current and speed, as a logger writes it."""
    rng = np.random.default_rng(0)
    y, u = np.zeros(samples), rng.normal(size=samples)
    for t in range(2, samples):
        y[t] = 1.2 * y[t - 1] - 0.4 * y[t - 2] + 0.5 * u[t - 1] + 0.05 * rng.normal()
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["current", "speed"])
        rows.writerows(zip(u, y, strict=True))


def csv_only():
    """No model, only a file: identify, and hide a knock on the shaft for all such plants."""
    path = Path(tempfile.mkdtemp(), "log.csv")
    recording(path)
    u, y = np.loadtxt(path, delimiter=",", skiprows=1).T
    found = pc.identify_outputs(y[None], u[None], order=2, dt=0.01, data="open-loop",
                                output_names=["speed"], input_names=["current"])  # fmt: skip
    knock = pc.DisturbanceAdjacency({"current": 1.0}, duration=1)
    noise = designed(found.system, knock, horizon=10, models=found, floor="auto",
                     budget=pc.PrivacyBudget(epsilon=1.0, delta=2e-2))  # fmt: skip
    seen = effect(found.system, pulse(found.system, "current", 1.0, 1, 10), 10)
    return Answer(noise.stds.max(), seen, y.std(), "rad/s",
                  f"a knock of 1 A is found in {noise.guarantee.detection(0.05):.1%}",
                  noise.guarantee.detection(0.05) <= FOUND)  # fmt: skip


def lqg_script():
    """The vectored-thrust aircraft of python-control's documentation, linear at hover."""
    m, g, J, r, c = 4.0, 9.8, 0.0475, 0.25, 0.05
    A = np.zeros((6, 6))
    A[:3, 3:] = np.eye(3)
    A[3, 2], A[3, 3], A[4, 4] = -g, -c / m, -c / m
    B = np.zeros((6, 2))
    B[3, 0], B[4, 1], B[5, 0] = 1 / m, 1 / m, r / J
    aircraft = ct.ss(A, B, np.eye(6)[:3], 0,
                     states=["x", "y", "theta", "vx", "vy", "omega"],
                     inputs=["F1", "F2"], outputs=["x seen", "y seen", "theta seen"],
                     ).sample(0.05)  # fmt: skip
    public = pc.private_lqg(aircraft, Q=np.diag([10, 10, 100, 1, 1, 1]), R=np.eye(2),
                            QN=1e-4 * np.eye(6), RN=1e-4 * np.eye(3),
                            P0=np.eye(6), horizon=200)  # fmt: skip
    start = pc.StateAdjacency({"x": 0.05, "y": 0.05}, times=0)
    noise = designed(aircraft, start, horizon=200)
    asked = {"disturbance": "design", "measurement_noise": "design"}
    costs = [loop.cost(**asked).total for loop in (public, public.with_noise(noise))]
    return Answer(noise.stds[0].max(), 0.05, 1.0, "m",
                  f"the loop pays {costs[1] / costs[0] - 1:.1%} more",
                  costs[1] < 2 * costs[0])  # fmt: skip


def paper_machine():
    """Basis weight 8 samples of machine behind the valve; a change of the stock is hidden."""
    machine = ct.ss(0.85, [[0.15, 0.15]], 1, 0, 10.0, states=["weight"],
                    inputs=["valve", "stock"], outputs=["scanner"])  # fmt: skip
    late = pc.with_delays(machine, {"valve": 8})
    change = pc.DisturbanceAdjacency({"stock": 2.0}, duration=6)
    public = pc.private_lqg(late, Q=np.diag([1, *np.zeros(8)]), R=0.5, QN=0.05 * np.eye(9),
                            RN=0.05, controls=["valve"])  # fmt: skip
    noise = designed(late, change, weight=public)
    before, after = errors(public, public.with_noise(noise), 0)
    seen = effect(machine, pulse(machine, "stock", 2.0, 6, 60), 60)
    return Answer(noise.std[0], seen, before, "g/m^2",
                  f"weight within {after:.2f}, {before:.2f} without the gate",
                  after < 5 * before)  # fmt: skip


def rod():
    """A rod with 50 thermometers; how warm two places were at first is hidden."""
    n = 50
    A = np.eye(n) * 0.6 + 0.195 * (np.eye(n, k=1) + np.eye(n, k=-1))
    names = [f"T {k}" for k in range(n)]
    plant = ct.ss(A, np.eye(n)[:, :1], np.eye(n), 0, 1.0, states=names,
                  inputs=["heat"], outputs=[f"y {k}" for k in range(n)])  # fmt: skip
    spot = pc.StateAdjacency({"T 20": 1.0, "T 21": 1.0}, times=0)
    noise = designed(plant, spot, horizon=100)
    return Answer(noise.stds[20].max(), 1.0, 5.0, "K",
                  f"{np.count_nonzero(noise.stds.max(axis=1) > 1e-3)} of {n} sensors have noise",
                  noise.stds[20].max() > 1.0)  # fmt: skip


def crane():
    """A container crane; where the load is picked up is hidden for the whole move."""
    plant = ct.ss(
        [[0, 1, 0, 0], [0, -0.2, 1.5, 0], [0, 0, 0, 1], [0, 0.1, -1.8, -0.05]],
        [[0], [1], [0], [-0.4]],
        np.eye(4)[[0, 2]],
        0,
        states=["place", "speed", "angle", "rate"],
        inputs=["drive"],
        outputs=["rail", "rope"],
    ).sample(0.2)
    pick = pc.StateAdjacency({"place": 2.0}, times=0)
    noise = designed(plant, pick, horizon=150)
    public = pc.private_lqg(plant, Q=np.diag([1, 0, 10, 0]), R=1, QN=1e-4 * np.eye(4),
                            RN=1e-4 * np.eye(2), P0=np.eye(4), horizon=150)  # fmt: skip
    swing = public.with_noise(noise).simulate(trials=100, rng=0).states["angle"]
    return Answer(noise.stds[0].max(), 2.0, 20.0, "m",
                  f"the rope swings to {np.abs(swing).max():.2f} rad at most",
                  noise.stds[1].max() < 1e-6)  # fmt: skip


def agents():
    """200 agents on a ring with chords agree on the mean of their values."""
    n = 200
    ring = np.roll(np.eye(n), 1, axis=0)
    chord = np.roll(np.eye(n), 17, axis=0)
    weights = (ring + ring.T + chord + chord.T) / 5
    group = pc.private_consensus(weights, pc.PrivacyBudget(epsilon=1, delta=1e-2), 1.0)
    error = (group.limit_mean_square_error() / n) ** 0.5
    return Answer(group.scales[0], 1.0, 1.0, "",
                  f"the mean is found to {error:.3f} by each agent", error < 1.0)  # fmt: skip


def restart():
    """A gateway under a ledger is stopped and goes on; nothing is charged twice."""
    folder = Path(tempfile.mkdtemp())
    motor = ct.ss(0.7, [[0.3, 0.1]], 1, 0, 1.0, states=["speed"],
                  inputs=["volts", "load"], outputs=["rpm"])  # fmt: skip
    load = pc.DisturbanceAdjacency({"load": 2.0}, duration=3)
    noise = designed(motor, load, horizon=50, floor=1.0, resolution=0.01)
    ledger = pc.PrivacyLedger(RISK, path=folder / "ledger")
    gateway = pc.Gateway(noise, path=folder / "run", ledger=ledger, resolution=0.01)
    for t in range(5):
        gateway.publish([float(t)])
    gateway.close()
    charged = ledger.spent
    again = pc.Gateway.resume(folder / "run", ledger=ledger)
    again.publish([5.0])
    seen = effect(motor, pulse(motor, "load", 2.0, 3, 20), 20)
    return Answer(noise.stds.max(), seen, 3.0, "rpm",
                  f"goes on at sample {again.next_index}, nothing more is charged",
                  again.next_index == 6 and ledger.spent == charged)  # fmt: skip


def replay():
    """A day of a log is published by the command, which reads and writes CSV."""
    folder = Path(tempfile.mkdtemp())
    meter = ct.ss([], [], [], [[1]], 0.25, inputs=["load"], outputs=["kW"])
    wash = pc.DisturbanceAdjacency({"load": 1.0}, duration=4)
    noise = designed(meter, wash)
    noise.save(folder / "meter.json")
    rows = "kW\n" + "\n".join(f"{1 + (t % 8) / 8}" for t in range(96)) + "\n"
    (folder / "day.csv").write_text(rows)
    command = [sys.executable, "-m", "privcontrol.deploy", "publish", "meter.json", "--state",
               "state", "--resolution", "0.001", "--grid", "0.001", "--source", "day.csv",
               "--sink", "out.csv"]  # fmt: skip
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    written = (folder / "out.csv").read_text().splitlines()
    return Answer(noise.std[0], 1.0, 0.3, "kW", f"{len(written) - 1} of 96 rows published",
                  len(written) == 97)  # fmt: skip


def curve():
    """A bicycle rides a known curve; where it began is hidden, in a time-varying plant."""

    def move(t, x, u, params):
        turn = 2.0 * np.tan(u[0]) / 1.2
        return np.array([2 * np.cos(x[2]), 2 * np.sin(x[2]), turn])

    bicycle = ct.nlsys(move, lambda t, x, u, params: x[:2], inputs=["steering"],
                       states=["east", "north", "heading"], outputs=["x", "y"])  # fmt: skip
    times = 0.1 * np.arange(60)
    steering = np.full((1, 60), 0.1)
    ride = ct.input_output_response(bicycle, times, steering, [0, 0, 0])
    plants = pc.along(bicycle, ride.states, steering, dt=0.1)
    start = pc.StateAdjacency({"east": 5.0, "north": 5.0}, times=0)
    noise = designed(plants, start, horizon=60)
    return Answer(noise.stds[0].max(), 5.0, np.abs(ride.states[0]).max(), "m",
                  f"found in {noise.guarantee.detection(0.05):.1%}",
                  noise.guarantee.detection(0.05) <= FOUND)  # fmt: skip


TASKS = (
    wind, recipe, wind_farm, water_net, charging_site, elevator, kettle, csv_only,
    lqg_script, paper_machine, rod, crane, agents, restart, replay, curve,
)  # fmt: skip


def done(task):
    """Do a task; its line, its warnings, and whether it failed."""
    began = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", pc.PrivacyWarning)
        try:
            answer = task()
        except Exception as error:
            return (
                f"{task.__name__:14} raises {type(error).__name__}: {error}",
                [],
                True,
            )
    spent = time.process_time() - began
    words = [str(each.message) for each in caught]
    sizes = (
        f"{answer.noise:9.3g} {answer.secret:8.3g} {answer.signal:8.3g} {answer.unit:6}"
    )
    line = f"{task.__name__:14} {spent:6.1f} {sizes} {answer.text}"
    return line, words, not answer.holds or (spent > SILENT and not words)


def main():
    asked = sys.argv[1:]
    failed = []
    print(f"{'task':14} {'s':>6} {'noise':>9} {'secret':>8} {'signal':>8}")
    for task in TASKS:
        if asked and task.__name__ not in asked:
            continue
        line, words, is_wrong = done(task)
        print(line, *(f"    warned: {word}" for word in words), sep="\n", flush=True)
        if is_wrong:
            failed.append(task.__name__)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
