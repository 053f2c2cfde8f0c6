"""Noise for disturbances and for wrong models: cost beside independent noise, time, memory, and the referee's vehicle.

python tests/benchmarks/bench_robustness.py
"""

import sys
import time
from pathlib import Path

import numpy as np

import privcontrol as pc

sys.path.insert(0, str(Path(__file__).parents[1]))
import cases
from benchmarks.measure import peak_gigabytes


def design(plant, horizon, norm, family="gaussian"):
    adjacency = pc.DisturbanceAdjacency(1.0, norm=norm)
    noise = pc.design_output_noise(
        plant, horizon=horizon, budget=cases.BUDGET, adjacency=adjacency, family=family
    )
    return noise.design


def disturbances(plants=20, horizon=100):
    """Cost of independent over optimal noise on random stable plants."""
    for norm in ("single", "l2"):
        ratios, gaps = [], []
        for seed in range(plants):
            plant = cases.random_plant(seed, states=4, inputs=1, outputs=1)
            best = design(plant, horizon, norm)
            ratios.append(design(plant, horizon, norm, "iid-gaussian").cost / best.cost)
            gaps.append(best.gap)
        print(f"disturbance, {norm}, {plants} plants, T = {horizon}: independent / optimal cost median "
              f"{np.median(ratios):.3g} ({min(ratios):.3g} to {max(ratios):.3g}), largest gap {max(gaps):.1e}")  # fmt: skip


def sizes():
    """Time and memory of the optimal noise for one entry at one time."""
    for horizon in (100, 500):
        start = time.perf_counter()
        gap = design(
            cases.random_plant(0, states=4, inputs=1, outputs=1), horizon, "single"
        ).gap
        memory = 1e3 * peak_gigabytes()
        print(
            f"T = {horizon}: {time.perf_counter() - start:.2f} s, {memory:.0f} MB resident, gap {gap:.1e}"
        )


def wrong_models():
    """The vehicle with its position private and a floor of 1 m, A_11 within .999 .. 1.001."""
    vehicle = pc.plants.vehicle()
    box = pc.PlantBox(vehicle, A=[[0.001, 0], [0, 0]])
    nominal, covered = (
        cases.vehicle_noise(floor=1.0),
        cases.vehicle_noise(floor=1.0, models=box.corners()),
    )
    print(f"floor 1 m, designed for A_11 = 1: y = {nominal.guarantee.gdp:.4f} there, at most "
          f"{nominal.guarantee_for(box).gdp:.4f} in [.999, 1.001]")  # fmt: skip
    print(f"designed for .999 and 1.001: at most {covered.guarantee_for(box).gdp:.4f}, cost {covered.design.cost:.4g} "
          f"against {nominal.design.cost:.4g}")  # fmt: skip


if __name__ == "__main__":
    disturbances()
    sizes()
    wrong_models()
