"""Noise without a horizon: its cost by order, against other noises, the time of its design and of its stream."""

import itertools
import time
import tracemalloc
import warnings

import control as ct
import numpy as np
from benchmarks.measure import duration

import privcontrol as pc

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)


def endless(sys, adjacency, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pc.PrivacyWarning)
        return pc.design_output_noise(
            sys, horizon=np.inf, budget=BUDGET, adjacency=adjacency, **options
        )


def lag(pole):
    return ct.ss(pole, 1, 1, 0, 1, states=["x"], inputs=["w"], outputs=["y"])


def ladder(states, outputs, rng):
    """Rooms in a row: heat flows between neighbours and outdoors; the inputs are heat and people."""
    conductance = rng.uniform(0.02, 0.3, states + 1)
    A = np.diag(1 - conductance[:-1] - conductance[1:])
    for k in range(states - 1):
        A[k, k + 1] = A[k + 1, k] = conductance[k + 1]
    A -= 0.02 * np.eye(states)
    spots = np.linspace(0, states - 1, outputs).astype(int)
    C = np.eye(states)[spots]
    heat = rng.uniform(0.0, 0.2, (states, 1))
    people = np.eye(states)[:, spots] * 0.1
    names = [f"people{k}" for k in range(outputs)]
    return ct.ss(A, np.hstack([heat, people]), C, 0, 300.0, inputs=["heat", *names])


def people_of(sys, **options):
    return pc.DisturbanceAdjacency(dict.fromkeys(sys.input_labels[1:], 1.0), **options)


def test_gap_by_order(benchmark, table):
    out = table(
        "Noise without a horizon for a lag 1/(z - a), by its order",
        "Cost above the lower bound of any Gaussian noise, relatively; (epsilon, delta) = (1, 1e-2), one event of size "
        "one. Driven noise is the plant's response to white noise.",
        *("a", "lower bound", "order 1", "2", "3", "4", "driven", "white"),
    )
    for pole in (0.5, 0.9, 0.99, 0.999):
        secret = pc.DisturbanceAdjacency(1.0)
        found = [endless(lag(pole), secret, order=k).design for k in (1, 2, 3, 4)]
        driven = endless(lag(pole), pc.DisturbanceAdjacency(1.0, norm="l2")).design
        white = endless(lag(pole), secret, family="iid-gaussian").design
        bound = found[0].lower_bound
        gaps = [design.gap for design in found]
        rest = (driven.cost / bound - 1, white.cost / bound - 1)
        out.add(f"{pole:g}", f"{bound:.6f}", *gaps, *rest)
    benchmark.pedantic(lambda: endless(lag(0.9), secret), rounds=3)


def test_cost_against_driven_and_white_noise(benchmark, table):
    out = table(
        "Cost of a loop with noise without a horizon, against driven and white noise",
        "Rooms in a row with heating and people; the cost is the steady-state LQ cost that the noise adds to one and "
        "the same loop. The loop of the last column is the best one of each noise, its total cost relative to ours.",
        *(
            "plants",
            "states",
            "outputs",
            "driven / ours, median",
            "least",
            "white / ours, median",
            "least",
            "total",
        ),
    )
    for states, outputs in ((4, 1), (6, 1), (8, 2), (12, 2)):
        ratios = []
        for seed in range(5):
            sys = ladder(states, outputs, np.random.default_rng(seed))
            tuning = {"Q": 1.0, "R": 1.0, "QN": 1e-3, "RN": 1e-3, "controls": ["heat"]}
            loop = pc.private_lqg(sys, **tuning)
            ours = endless(sys, people_of(sys), weight=loop)
            driven = endless(sys, people_of(sys, norm="l2"))
            white = endless(sys, people_of(sys), family="iid-gaussian")
            same = [
                loop.with_noise(noise).steady_state_cost().privacy
                for noise in (ours, driven, white)
            ]
            best = [
                pc.private_lqg(sys, **tuning, noise=noise).steady_state_cost().total
                for noise in (ours, white)
            ]
            ratios.append([same[1] / same[0], same[2] / same[0], best[1] / best[0]])
        middle, least = np.median(ratios, axis=0), np.min(ratios, axis=0)
        row = (middle[0], least[0], middle[1], least[1], middle[2])
        out.add(5, states, outputs, *row)
    benchmark.pedantic(lambda: loop.with_noise(ours).steady_state_cost(), rounds=3)


def test_design_time(benchmark, table):
    out = table(
        "Time of a design without a horizon",
        "Random plants with as many secrets as outputs, spectral radius 0.95, gap 1 %. Goals: 0.1, 0.5, 2 and 20 s.",
        *("states", "outputs", "order", "gap", "time"),
    )
    for states, outputs in ((2, 1), (6, 2), (12, 2), (40, 3)):
        rng = np.random.default_rng(states)
        A = rng.standard_normal((states, states))
        A *= 0.95 / np.abs(np.linalg.eigvals(A)).max()
        B = rng.standard_normal((states, outputs))
        C = rng.standard_normal((outputs, states))
        sys = ct.ss(A, B, C, 0, 1)
        times = []
        for _ in range(3):
            start = time.process_time()
            noise = endless(sys, pc.DisturbanceAdjacency(1.0))
            times.append(time.process_time() - start)
        design = noise.design
        order = noise.system.nstates
        out.add(states, outputs, order, design.gap, duration(float(np.median(times))))
    benchmark.pedantic(
        lambda: endless(lag(0.9), pc.DisturbanceAdjacency(1.0)), rounds=3
    )


def test_long_finite_runs(benchmark, table):
    out = table(
        "Designs for disturbances over finite horizons",
        "One room with people. From 300 samples on noise of low order is used where it is within 1 %.",
        *("samples", "noise", "gap", "time"),
    )
    room = ladder(2, 1, np.random.default_rng(0))
    for samples in (100, 200, 500, 1000, 2000):
        start = time.process_time()
        noise = pc.design_output_noise(
            room, horizon=samples, budget=BUDGET, adjacency=people_of(room)
        )
        seconds = time.process_time() - start
        kind = noise.parts[0].label(True)
        out.add(samples, kind, noise.design.gap, duration(seconds))
    benchmark.pedantic(lambda: noise.sample(rng=0), rounds=3)


def test_stream(benchmark, table):
    out = table(
        "A stream of noise without a horizon",
        "Processor time of a sample, over ten million samples, and the largest memory that the stream itself takes "
        "over a million. Goal: 2 us and constant memory.",
        *("order", "outputs", "time a sample", "memory"),
    )
    for sys in (lag(0.9), ladder(8, 2, np.random.default_rng(0))):
        secret = pc.DisturbanceAdjacency(1.0) if sys.ninputs == 1 else people_of(sys)
        noise = endless(sys, secret)
        stream = noise.stream(rng=0)
        next(stream)
        start = time.process_time()
        for _ in itertools.islice(stream, 10_000_000):
            pass
        seconds = (time.process_time() - start) / 1e7
        tracemalloc.start()
        for _ in itertools.islice(noise.stream(rng=0), 1_000_000):
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        size = f"{peak / 1e3:.0f} kB"
        out.add(noise.system.nstates, noise.outputs, duration(seconds), size)
    benchmark.pedantic(lambda: next(stream), rounds=100)
