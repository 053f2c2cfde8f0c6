"""Certified shifts of nonlinear plants against the worst of many sampled pairs of runs.

    python tests/stress/nonlinear_pairs.py [pairs] [name ...]

A pair starts in the region, differs by the secret, and has the same public inputs, drawn
in stretches between their limits. Pairs that leave the region do not count. What is left
of their difference once the noise is undone is the shift that they attain. The certified
bound must never lie below it.
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import privcontrol as pc

sys.path.insert(0, str(Path(__file__).parents[1]))
import nonlinear_cases as cases

CHUNK = 50_000


@dataclass(frozen=True)
class Case:
    """A plant, the region of its runs, a secret, and white noise of size one."""

    sys: Any
    region: dict
    splits: dict
    secret: str
    radius: float
    horizon: int
    event: bool = False  # an impulse at this input, else a move of this initial state

    def box(self):
        return pc.jacobian_polytope(self.sys, self.region, splits=self.splits)

    def certified(self, box):
        """The bound for white noise of standard deviation one on every output."""
        if self.event:
            secret = pc.DisturbanceAdjacency({self.secret: self.radius})
        else:
            secret = pc.StateAdjacency({self.secret: self.radius}, times=0)
        noise = pc.design_output_noise(
            box.nominal,
            horizon=self.horizon,
            family="iid-gaussian",
            budget=pc.PrivacyBudget(gdp=1.0),
            adjacency=secret,
        )
        return noise.guarantee_for(box).gdp * float(noise.std.max())


CASES = {
    "tank, level 1": Case(
        cases.tank(),
        cases.TANK_REGION,
        {"h1": 4, "h2": 2, "h3": 3, "h4": 2},
        "h1",
        1.0,
        60,
    ),
    "tank, level 3": Case(
        cases.tank(),
        cases.TANK_REGION,
        {"h1": 4, "h2": 2, "h3": 10, "h4": 2, "v2": 5},
        "h3",
        0.5,
        60,
    ),
    "vehicle, heading": Case(
        cases.vehicle(), cases.VEHICLE_REGION, {"heading": 8}, "heading", 0.05, 40
    ),
    "glucose, meal": Case(
        cases.glucose(),
        cases.GLUCOSE_REGION,
        {"glucose": 4, "action": 6, "insulin": 3, "infusion": 2, "meal": 2},
        "meal",
        1.0,
        60,
        event=True,
    ),
}


def sampled(case: Case, box, pairs: int, rng) -> tuple[float, int]:
    """The largest shift that pairs of runs attain, and how many stayed in the region."""
    largest, stayed = 0.0, 0
    for start in range(0, pairs, CHUNK):
        squares, left = _chunk(case, box, min(CHUNK, pairs - start), rng)
        stayed += int((~left).sum())
        largest = max(largest, float(squares[~left].max(initial=0.0)))
    return np.sqrt(largest), stayed


def _chunk(case, box, count, rng):
    plant, region = box.plant, box.region
    n = plant.order
    low = np.where(region.bounded, region.low, -1.0)[:, None]
    high = np.where(region.bounded, region.high, 1.0)[:, None]
    # half of the runs start at corners of the region, or near them
    share = rng.random((n, count))
    share = np.where(rng.random(count) < 0.5, np.round(share), share)
    first = low[:n] + share * (high[:n] - low[:n])
    second = first.copy()
    inputs = _inputs(low[n:], high[n:], count, case.horizon, rng)
    others = inputs.copy()
    if case.event:
        k = plant.inputs.index(case.secret)
        at = rng.integers(0, case.horizon // 3, count)
        chosen = (at, k, np.arange(count))
        inputs[chosen] = np.clip(
            inputs[chosen], region.low[n + k], region.high[n + k] - case.radius
        )
        others[chosen] = inputs[chosen] + case.radius
    else:
        k = plant.states.index(case.secret)
        if region.bounded[k]:
            first[k] = np.minimum(first[k], region.high[k] - case.radius)
        second[k] = first[k] + case.radius
    squares, left = np.zeros(count), np.zeros(count, bool)
    for u, w in zip(inputs, others, strict=True):
        left |= region.outside(first, u) | region.outside(second, w)
        change = plant.read_outputs(0.0, first, u) - plant.read_outputs(0.0, second, w)
        squares += (change**2).sum(axis=0)
        first = plant.next_states(0.0, first, u)
        second = plant.next_states(0.0, second, w)
    return squares, left


def _inputs(low, high, count, horizon, rng):
    """Inputs (T, m, count): constant, in stretches, or alternating, often at the limits."""
    levels = rng.random((horizon, len(low), count))
    at_limits = rng.random(count) < 0.7
    levels = np.where(at_limits, np.round(levels), levels)
    lengths = rng.choice([1, 5, 20, horizon], count)
    index = np.arange(horizon)[:, None] // lengths * lengths
    levels = np.take_along_axis(levels, index[:, None, :], axis=0)
    return low + levels * (high - low)


def main(pairs=1_000_000, names=tuple(CASES)):
    for name in names:
        case = CASES[name]
        began = time.perf_counter()
        box = case.box()
        bound = case.certified(box)
        certified = time.perf_counter() - began
        attained, stayed = sampled(case, box, pairs, np.random.default_rng(0))
        print(
            f"{name}: certified {bound:.5g}, worst of {stayed} of {pairs} pairs "
            f"{attained:.5g}, tightness {attained / bound:.3f}; region "
            f"{'invariant' if box.invariant else 'conditional'}, "
            f"{len(box.parts[0])} parts, certified in {certified:.1f} s",
            flush=True,
        )
        assert attained <= bound


if __name__ == "__main__":
    given = sys.argv[1:]
    main(int(given[0]) if given else 1_000_000, tuple(given[1:]) or tuple(CASES))
