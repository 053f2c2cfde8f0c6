"""Plants that vary in a known way, at full size: python known_variation.py [plants loops runs samples]

By default 100 designs beside dense covariances, 20 LQG loops beside dense conditioning,
50,000 simulated runs beside the exact cost, and 10,000 samples against the clock.
"""

import sys
import time
import warnings
from pathlib import Path

import control as ct
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import known_variation as kv

import privcontrol as pc

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
DRAWN = {"disturbance": "design", "measurement_noise": "design"}


def of_states(rng, plants, horizon):
    """The certified shift of moves of states, and that of the dense covariance."""
    radii = rng.uniform(0.5, 2.0, len(plants[0].A))
    times = sorted(rng.choice(horizon, min(horizon, 8), replace=False).tolist())
    noise = pc.design_output_noise(
        plants,
        horizon=horizon,
        budget=BUDGET,
        adjacency=pc.StateAdjacency(radii, times=times),
        floor=float(rng.choice([0.0, 0.3])),
        max_std=np.inf,
    )
    images = kv.observability(plants) @ kv.state_moves(plants, radii, times)
    return noise, images


def of_signals(rng, plants, horizon):
    """The same for changes of one input."""
    duration = int(rng.integers(1, 4))
    noise = pc.design_output_noise(
        plants,
        horizon=horizon,
        budget=BUDGET,
        adjacency=pc.DisturbanceAdjacency(
            {"u0": 0.7}, duration=duration, shape="level"
        ),
        floor=float(rng.choice([0.0, 0.3])),
        max_std=np.inf,
    )
    impulses = 0.7 * kv.forced(plants, [0])
    images = [
        impulses[:, start : start + length].sum(axis=1)
        for length in range(1, duration + 1)
        for start in range(horizon)
    ]
    return noise, np.array(images).T


def designs(count):
    """Print by how much dense shifts exceed certified ones, over random plants."""
    ratios = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        signals = seed % 4 == 3
        horizon = int(rng.integers(2, 41 if signals else 201))
        plants = kv.random_plants(rng, horizon)
        noise, images = (of_signals if signals else of_states)(rng, plants, horizon)
        ratios.append(kv.shift(kv.covariance(noise), images) / noise.guarantee.gdp)
    above = sum(ratio > 1 + 1e-7 for ratio in ratios)
    print(
        f"{count} plants: {above} above, largest ratio - 1 = {max(ratios) - 1:.1e}, ",
        end="",
    )
    print(f"least {min(ratios) - 1:.1e}")


def loops(count):
    """Print how far costs are from dense conditioning."""
    worst = 0.0
    for seed in range(count):
        rng = np.random.default_rng(1000 + seed)
        plants = kv.random_plants(rng, int(rng.integers(4, 31)), states=1 + seed % 6)
        order = len(plants[0].A)
        weights = kv.random_weights(rng, plants, varying=bool(seed % 2))
        noise = pc.design_output_noise(
            plants,
            horizon=len(plants),
            budget=BUDGET,
            adjacency=pc.StateAdjacency(1.0, times=[0, 2]),
            floor=0.2 * (seed % 3),
            max_std=np.inf,
        )
        P0, last = np.eye(order), np.diag(rng.uniform(0, 1, order))
        loop = pc.private_lqg(plants, **weights, noise=noise, P0=P0, terminal=last)
        cost = loop.cost(initial_state="design", **DRAWN)
        expected = kv.lqg_cost(plants, weights, kv.covariance(noise), P0, last)
        worst = max(worst, abs((cost.total + cost.terminal) / expected - 1))
    print(f"{count} loops: largest relative difference of costs {worst:.1e}")


def runs(count):
    """Print the mean cost of simulated runs in standard deviations from the exact one."""
    rng = np.random.default_rng(7)
    plants = kv.random_plants(rng, 20, states=3, outputs=2, inputs=1)
    weights = kv.random_weights(rng, plants, varying=True)
    secret = pc.StateAdjacency(1.0, times=[0, 4])
    noise = pc.design_output_noise(plants, horizon=20, budget=BUDGET, adjacency=secret)
    loop = pc.private_lqg(plants, **weights, noise=noise, P0=1.0, terminal=0)
    run = loop.simulate(trials=count, rng=1, initial_state="design", **DRAWN)
    states, inputs = np.asarray(run.states)[:3], np.asarray(run.outputs)[2:]
    each = np.zeros(count)
    for t in range(20):
        each += np.einsum(
            "ik,ij,jk->k", states[:, :, t], weights["Q"][t], states[:, :, t]
        )
        each += weights["R"][t][0, 0] * inputs[0, :, t] ** 2
    exact = loop.cost(initial_state="design", **DRAWN).total
    error = (each.mean() - exact) / (each.std() / np.sqrt(count))
    print(f"{count} runs: mean {each.mean():.4f}, exact {exact:.4f}, z = {error:.2f}")


def long(samples):
    """Print the seconds of processor time of a design and of its loop."""
    steps = 0.1 + 0.05 * np.sin(np.arange(samples) / 7)
    named = {"states": ["position", "velocity"], "inputs": ["u"], "outputs": ["y"]}
    plants = [
        ct.ss([[1, h], [0, 1]], [[h * h / 2], [h]], [[1, 0]], 0, 0.1, **named)
        for h in steps
    ]
    secret = pc.StateAdjacency({"position": 1.0})
    begun = time.process_time()
    noise = pc.design_output_noise(
        plants, horizon=samples, budget=BUDGET, adjacency=secret
    )
    designed = time.process_time() - begun
    begun = time.process_time()
    weights = {"Q": 1.0, "R": 1.0, "QN": 1e-4, "RN": 1e-2}
    pc.private_lqg(plants, **weights, noise=noise, P0=1.0, terminal=0)
    closed = time.process_time() - begun
    print(
        f"{samples} samples: design {designed:.1f} s, LQG loop {closed:.1f} s of processor time"
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sizes = [int(size) for size in sys.argv[1:]] or [100, 20, 50_000, 10_000]
    for check, size in zip((designs, loops, runs, long), sizes, strict=True):
        check(size)
