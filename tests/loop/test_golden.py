"""Observer loops give the numbers that an earlier, separate recursion of observers gave.

`python tests/loop/test_golden.py` writes the file again. Sizes of designed noise are divided out, so the numbers
are those of the loop alone.
"""

import json
from pathlib import Path

import cases
import numpy as np
import pytest

import privcontrol as pc

GOLDEN = Path(__file__).with_name("golden_observer_loops.json")
HORIZON = 12
CASES = [
    (seed, form, family)
    for seed in (0, 1)
    for form in ("predictor", "filter")
    for family in ("gaussian", "iid-gaussian")
]


def observer_loop(seed, form, family):
    rng = np.random.default_rng(seed)
    plant = cases.random_plant(seed, states=3, radius=0.8, feedthrough=True)
    secret = pc.StateAdjacency({"s0": 1.0}, times=0)
    noise = pc.design_output_noise(
        plant, horizon=HORIZON, budget=cases.BUDGET, adjacency=secret, family=family
    )
    gains = {"K": 0.1 * rng.normal(size=(2, 3)), "L": 0.1 * rng.normal(size=(3, 2))}
    weights = {"Q": np.eye(3), "R": 2.0, "QN": 0.3, "RN": 0.1}
    cross = 0.1 * np.ones((3, 2))
    return pc.private_loop(plant, **gains, noise=noise, **weights, N=cross, form=form)


def numbers(seed, form, family):
    """All that the loop computes, by name, with the noise's own size divided out."""
    loop = observer_loop(seed, form, family)
    size = loop.noise.covariance(0).trace()
    rng = np.random.default_rng(seed + 100)
    given = {
        "reference": rng.normal(size=(3, HORIZON)),
        "feedforward": rng.normal(size=(2, HORIZON)),
        "initial_state": rng.normal(size=3),
        "initial_estimate": rng.normal(size=3),
        "disturbance": rng.normal(size=(3, HORIZON)),
        "measurement_noise": rng.normal(size=(2, HORIZON)),
    }
    drawn = {"disturbance": "design", "measurement_noise": "design"}
    quiet, time = loop.with_noise(None), loop.noise.timepts
    cost = loop.cost(**drawn)
    system = loop.closed_loop
    columns = np.random.default_rng(7).normal(size=(2 * HORIZON, 2))
    weighted = loop.noise_weight(HORIZON)(columns)
    found = {
        "mean square error": quiet.mean_square_error(time, **given),
        "disturbances drawn": quiet.mean_square_error(time, **drawn),
        "privacy": loop.mean_square_error() / size,
        "cost": quiet.cost(time, **given).total,
        "cost of disturbances": cost.disturbance,
        "cost of privacy": cost.privacy / size,
        "noise weight": weighted.T @ weighted,
    }
    for name in "ABCD":
        found[name] = getattr(system, name)
    if family == "gaussian":
        response = loop.simulate(rng=0)
        eta = response.inputs[-1, 0, 0] * np.sqrt(size)
        found["states"] = np.asarray(response.states)[:, 0] / eta
        found["published"] = np.asarray(response.outputs)[:, 0] / eta
    return {name: np.asarray(value).tolist() for name, value in found.items()}


@pytest.mark.parametrize("case", range(len(CASES)))
def test_observer_loops_give_the_numbers_they_gave(case):
    golden = json.loads(GOLDEN.read_text())[case]
    now = numbers(*CASES[case])
    assert set(now) == set(golden)
    for name, expected in golden.items():
        size = np.abs(expected).max()
        np.testing.assert_allclose(
            now[name], expected, rtol=0, atol=1e-12 * size, err_msg=name
        )


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps([numbers(*case) for case in CASES]))
