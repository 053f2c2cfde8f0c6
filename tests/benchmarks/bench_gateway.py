"""What a published sample costs: 1 and 8 outputs, with and without a horizon.

    python tests/benchmarks/bench_gateway.py

Samples are published at a pace, as a device does; noise is drawn ahead meanwhile. The last
column publishes as fast as it can, and waits for the noise.
"""

import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import control as ct
import numpy as np

import privcontrol as pc

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)


def room(outputs):
    """As many rooms as outputs, each with people that come and go."""
    names = [f"people{k}" for k in range(outputs)]
    eye = np.eye(outputs)
    return ct.ss(0.9 * eye, eye, eye, 0 * eye, 1e-3, inputs=names)


def noises(outputs):
    """Noise of each kind for so many outputs."""
    plant = room(outputs)
    start = pc.InitialStateAdjacency(1.0)
    visits = pc.DisturbanceAdjacency(0.1, inputs=plant.input_labels)
    options = {"budget": BUDGET, "floor": 0.05}
    finite = {"horizon": 3000, "adjacency": start, **options}
    yield "structured and floored", pc.design_output_noise(plant, **finite)
    endless = {"horizon": np.inf, "adjacency": visits, **options}
    yield "without a horizon", pc.design_output_noise(plant, **endless)


def latencies(noise, samples, period):
    """Seconds that each `publish` took."""
    taken = np.empty(samples)
    reading = np.full(noise.process.outputs, 123)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gateway.sqlite"
        with pc.Gateway(
            noise, path=path, grid="0.001", resolution="0.001", block=250
        ) as gateway:
            gateway.publish(reading)
            for k in range(samples):
                started = time.perf_counter()
                gateway.publish(reading)
                taken[k] = time.perf_counter() - started
                time.sleep(period)
    return taken


def main():
    warnings.simplefilter("ignore")
    for outputs in (1, 8):
        for name, noise in noises(outputs):
            paced = latencies(noise, 2000, 2e-3 * outputs) * 1e6
            fast = latencies(noise, 2000, 0.0)
            p50, p99, worst = np.percentile(paced, [50, 99, 100])
            hurried = np.percentile(fast, 99) * 1e6
            print(
                f"{outputs} outputs, {name}: p50 {p50:.0f} us, p99 {p99:.0f} us, largest "
                f"{worst:.0f} us; without a pause {2000 / fast.sum():.0f} samples a "
                f"second, p99 {hurried:.0f} us"
            )


if __name__ == "__main__":
    main()
