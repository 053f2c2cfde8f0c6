"""Runs of a loop beside the same batch written out in NumPy, with and without gusts.

    python tests/benchmarks/bench_simulation.py

Both draw 1,000 trials of 100 samples, and keep states, estimates, outputs and inputs. They
take turns in one process; the least processor time of each counts.
"""

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import cases
import numpy as np

import privcontrol as pc

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
SAMPLES = 100
TRIALS = 1000
#: Turns of each, of which the fastest counts.
TURNS = 25
GUSTS = {"disturbance": "design", "measurement_noise": "design"}


def loop_of(states):
    """A loop whose noise hides every state at the start."""
    plant = cases.random_plant(0, states=states, inputs=1, outputs=2, radius=0.95)
    secret = pc.StateAdjacency(1.0, times=0)
    noise = pc.design_output_noise(
        plant, horizon=SAMPLES, budget=BUDGET, adjacency=secret, models="exact"
    )
    return pc.private_lqg(plant, 1.0, 1.0, 0.01, 0.01, noise=noise, P0=np.eye(states))


def batch(loop, gusts):
    """What somebody writes for these loops: all trials side by side, sample by sample."""
    plant = loop.plant
    A, B, C = plant.A, plant.B, plant.C
    n, m, p = plant.nstates, plant.ninputs, plant.noutputs
    law = loop.data.law  # its observer knows the noise, so it has more states
    observed = len(law.A)
    rng = np.random.default_rng(0)
    eta = rng.standard_normal((loop.noise.process.responses.shape[2], TRIALS))
    x = np.zeros((n, TRIALS))
    predicted = np.zeros((observed, TRIALS))
    states = np.empty((SAMPLES, n + observed, TRIALS))
    published = np.empty((SAMPLES, p + m, TRIALS))
    for t in range(SAMPLES):
        y = C @ x + loop.noise.process.responses[t] @ eta
        if gusts:
            y += 0.1 * rng.standard_normal((p, TRIALS))
        innovation = y - law.C @ predicted
        estimate = predicted[:n] + law.correct[t, :n] @ innovation
        u = -law.K @ estimate
        states[t, :n], states[t, n:] = x, predicted
        published[t, :p], published[t, p:] = y, u
        predicted = law.A @ predicted + law.B @ u + law.advance[t] @ innovation
        x = A @ x + B @ u
        if gusts:
            x += 0.1 * rng.standard_normal((n, TRIALS))
    return states, published


def least(jobs: list[Callable]) -> list[float]:
    """Processor seconds of each job, the least of turns that they take."""
    seconds = [float("inf")] * len(jobs)
    for _ in range(TURNS):
        for k, job in enumerate(jobs):
            start = time.process_time()
            job()
            seconds[k] = min(seconds[k], time.process_time() - start)
    return seconds


def row(loop, states, gusts):
    """A line of the table."""
    given = GUSTS if gusts else {}
    ours, by_hand = least(
        [
            lambda: loop.simulate(trials=TRIALS, rng=0, **given),
            lambda: batch(loop, gusts),
        ]
    )
    return (
        f"| {states} | {'yes' if gusts else 'no'} | {1e3 * ours:.1f} ms "
        f"| {1e3 * by_hand:.1f} ms | {ours / by_hand:.2f} |"
    )


def main():
    warnings.simplefilter("ignore")
    print("| states | gusts | ours | by hand | ratio |\n|---|---|---|---|---|")
    for states in (2, 10, 40):
        loop = loop_of(states)
        for gusts in (False, True):
            print(row(loop, states, gusts), flush=True)


if __name__ == "__main__":
    main()
