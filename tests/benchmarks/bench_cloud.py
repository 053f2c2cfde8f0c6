"""Private loops: simulation and exact moments against python-control and plain loops, and what design by the loop gains."""

import warnings
from functools import partial

import cases
import control as ct
import numpy as np
import pytest
from benchmarks.cloud_goals import GOALS, measured_apart
from benchmarks.measure import duration

import privcontrol as pc

DRAWN = {"disturbance": "design", "measurement_noise": "design"}


@pytest.fixture(autouse=True)
def no_privacy_warnings():
    """Random plants may be unstable; that is not what is measured."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pc.PrivacyWarning)
        yield


def vehicle_loop(**options):
    return pc.private_lqg(
        pc.plants.vehicle(), 20, 1, 2, 1, cases.vehicle_noise(**options)
    )


def plain_loop(loop, eta, start):
    """One trial step by step in numpy, as it is written down."""
    A, B, C = loop.system.A, loop.system.B, loop.system.C
    x, drive, states, outputs = start, np.zeros(B.shape[1]), [], []
    for t in range(loop.noise.horizon):
        drive[-1] = eta if t == 0 else 0.0
        states.append(x)
        outputs.append(C @ x + loop.system.D @ drive)
        x = A @ x + B @ drive
    return np.array(states).T, np.array(outputs).T


@pytest.mark.peers
def test_simulation(turns, table):
    loop, trials = vehicle_loop(), 20_000
    system, start = loop.system, np.array([-20.0, 0, 0, 0, 0, 0])[: loop.system.nstates]
    inputs = np.zeros((system.ninputs, 100))
    inputs[-1, 0] = 1.0
    times = loop.noise.timepts
    functions = {
        "privcontrol": lambda: loop.simulate(
            initial_state=[-20, 0], trials=trials, rng=0
        ),
        "privcontrol, disturbances drawn": lambda: loop.simulate(
            initial_state=[-20, 0], trials=trials, rng=0, **DRAWN
        ),
        "numpy, step by step": lambda: plain_loop(loop, 1.0, start),
        "control.forced_response": lambda: ct.forced_response(
            system, times, inputs, start
        ),
        "control.input_output_response": lambda: ct.input_output_response(
            system, times, inputs, start
        ),
    }
    timed = turns(functions)
    out = table(
        "Simulation: trials of the vehicle",
        "T = 100, privcontrol by 20,000 trials, the others by one, as they come; goal 700,000 trials a second. Trials of "
        "privcontrol and forced_response agree to the last entry of the last column.",
        *(
            "",
            "wall, one trial",
            "processor, one trial",
            "trials a second",
            "ratio",
            "difference",
        ),
    )
    response = timed.values["privcontrol"]
    inputs[-1, 0] = response.inputs[-1, 0, 0]
    exact = ct.forced_response(system, times, inputs, start).states
    states = np.asarray(response.states)[:, 0]
    difference = np.abs(states - exact[: len(states)]).max() / np.abs(exact).max()
    base = timed.processor["privcontrol"] / trials
    for name in functions:
        count = trials if name.startswith("privcontrol") else 1
        wall, processor = timed.wall[name] / count, timed.processor[name] / count
        last = difference if name == "control.forced_response" else None
        out.add(
            name,
            duration(wall),
            duration(processor),
            round(1 / processor),
            processor / base,
            last,
        )
    assert difference < 1e-12


def rod(points=100):
    """Heat conduction along a rod, heated and measured at every tenth point."""
    A = 0.99 * (
        0.5 * np.eye(points) + 0.25 * np.eye(points, k=1) + 0.25 * np.eye(points, k=-1)
    )
    pick = np.eye(points)[:: points // 10]
    return ct.ss(A, pick.T, pick, 0, 0.1, states=[f"s{i}" for i in range(points)])


@pytest.mark.peers
def test_large_plant(turns, table):
    trials, horizon = 1000, 1000
    plant, adjacency = rod(), pc.StateAdjacency(1.0, times=[0])
    noise = pc.design_output_noise(
        plant, horizon=horizon, budget=cases.BUDGET, adjacency=adjacency
    )
    loop = pc.private_lqg(plant, 1, 1, 1, 1, noise)
    A, generator = np.asarray(loop.closed_loop.A), np.random.default_rng(0)
    start = generator.standard_normal((200, 20))

    def products(keep=True, draws=0):
        kept = np.empty((horizon, 200, trials if keep else 20))
        for first in range(0, trials, 20):
            x = start
            for t in range(horizon):
                x = A @ x
                generator.standard_normal(draws * 20)
                if keep:
                    kept[t, :, first : first + 20] = x
        return kept

    timed = turns(
        {
            "privcontrol, structured noise": lambda: loop.simulate(
                trials=trials, rng=0
            ),
            "privcontrol, disturbances drawn": lambda: loop.simulate(
                trials=trials, rng=0, **DRAWN
            ),
            "matrix products of the loop alone": lambda: products(keep=False),
            "products, states kept": products,
            "products, states kept, disturbances' normal numbers": lambda: products(
                draws=110
            ),
        }
    )
    out = table(
        "Simulation: a plant with 100 states",
        "T = 1,000, 1,000 trials, 10 inputs and outputs, noise of rank 100. The products are those of the 200 states of the "
        "loop, 20 trials at a time; goal: as fast as these. privcontrol returns 1.76 GB.",
        *("", "wall", "processor", "ratio"),
    )
    for name in timed.wall:
        ratio = timed.ratio(name, "matrix products of the loop alone")
        out.add(
            name, duration(timed.wall[name]), duration(timed.processor[name]), ratio
        )


def test_exact_moments(turns, table):
    loops = {
        "gaussian": vehicle_loop(),
        "iid-gaussian": vehicle_loop(family="iid-gaussian"),
    }
    functions = {
        f"{method}, {family}{drawn}": partial(
            getattr(loop, method), initial_state=[-20, 0], **options
        )
        for family, loop in loops.items()
        for method in ("mean_square_error", "cost")
        for drawn, options in (("", {}), (", disturbances drawn", DRAWN))
    }
    timed = turns(functions)
    out = table(
        "Exact moments of the vehicle over T = 100",
        "Goal: 1 ms. The last column is how far the mean over 20,000 trials is off, relative to the largest error.",
        *("", "wall", "processor", "error of 20,000 trials"),
    )
    response = loops["gaussian"].simulate(initial_state=[-20, 0], trials=20_000, rng=0)
    exact = timed.values["mean_square_error, gaussian"]
    error = float(
        (
            np.abs(np.asarray(response.mse(0)) - exact)
            / exact.max(axis=1, keepdims=True)
        ).max()
    )
    for name in functions:
        last = error if name == "mean_square_error, gaussian" else None
        out.add(name, duration(timed.wall[name]), duration(timed.processor[name]), last)


def test_noise_by_design(table):
    found = []
    for seed in range(30):
        loop, plant = (
            cases.random_loop(seed, states=3),
            cases.random_plant(seed, states=3),
        )
        adjacency = pc.StateAdjacency([1.0, 0.5, 2.0], times=range(4))
        request = {
            "horizon": 10,
            "budget": cases.BUDGET,
            "adjacency": adjacency,
            "max_std": np.inf,
        }
        noises = [
            pc.design_output_noise(plant, **request, **options)
            for options in ({"weight": loop}, {}, {"family": "iid-gaussian"})
        ]
        found.append(
            [loop.with_noise(noise).cost().privacy for noise in noises]
            + [noises[0].design.gap]
        )
    costs = np.array(found)
    out = table(
        "Cost of privacy by design of the noise",
        f"30 random loops of 3 states, same gains; largest certified gap {costs[:, 3].max():.1e}.",
        *("loop-optimal noise relative to", "least", "median", "largest"),
    )
    for name, other in (("trace-optimal", costs[:, 1]), ("independent", costs[:, 2])):
        out.add(
            name, *(float(q) for q in np.quantile(costs[:, 0] / other, [0, 0.5, 1]))
        )
    assert (costs[:, 0] <= costs[:, 1:3].min(axis=1) * (1 + 1e-8)).all()


def test_codesign(table):
    found = []
    for seed in range(6):
        plant = cases.random_plant(seed, states=3)
        weights, request = (
            {"Q": 1, "R": 1, "QN": 0.3, "RN": 0.2},
            {"horizon": 15, "delta": 1e-2, "epsilons": [1.0]},
        )
        adjacency = pc.StateAdjacency(1.0, times=range(4))
        result = pc.tradeoff(
            plant,
            **weights,
            **request,
            adjacency=adjacency,
            designs=["loop", "iid", "codesign"],
            P0=1.0,
        )
        found.append(
            [result.total(design)[0] for design in ("codesign", "loop", "iid")]
        )
    costs = np.array(found)
    out = table(
        "Co-design of noise and gains",
        "Whole cost on 6 random plants of 3 states.",
        *("co-design relative to", "least", "median", "largest"),
    )
    for name, other in (
        ("loop-optimal noise, better of two gains", costs[:, 1]),
        ("independent noise", costs[:, 2]),
    ):
        out.add(
            name, *(float(q) for q in np.quantile(costs[:, 0] / other, [0, 0.5, 1]))
        )
    assert (costs[:, 0] <= costs[:, 1] * (1 + 1e-8)).all()


def test_large_designs_and_long_trials(table):
    out = table(
        "Large designs and long trials",
        "Each in a process of its own; the last memory is that of the imports alone. The gap is certified.",
        *("", "goal", "wall", "processor", "memory", "imports", "gap"),
    )
    for name, (goal, _) in GOALS.items():
        found = measured_apart(name)
        out.add(
            name,
            goal,
            duration(found["wall"]),
            duration(found["processor"]),
            f"{found['peak']:.2f} GB",
            f"{found['imports']:.2f} GB",
            found["gap"],
        )
