"""Loops in units far apart, and noise far above or below the plant's own size.

A change of units by powers of two changes no digit of what is computed, so all results
must follow it up to rounding. The other oracle is the filter in 250 digits.
"""

import warnings

import control as ct
import numpy as np
import pytest
from cases import BUDGET

import privcontrol as pc

SAMPLES = 8
DRAWN = {
    "initial_state": "design",
    "disturbance": "design",
    "measurement_noise": "design",
}


def plant_in_units(seed, states, inputs, outputs, spread, *, through=0.0):
    """Matrices of a random plant and its loop, in units of up to 2^spread, and these."""
    rng = np.random.default_rng(seed)

    def covariance(size, scale):
        square = rng.normal(size=(size, size))
        return scale * (square @ square.T + 0.1 * np.eye(size))

    A = rng.normal(size=(states, states))
    A *= 0.95 / np.abs(np.linalg.eigvals(A)).max()
    B = rng.normal(size=(states, inputs))
    C = rng.normal(size=(outputs, states))
    D = through * rng.normal(size=(outputs, inputs))
    Q, R, P0 = covariance(states, 1), covariance(inputs, 1), covariance(states, 1)
    QN, RN = covariance(states, 0.01), covariance(outputs, 0.1)
    x, u, y = (
        2.0 ** rng.integers(-spread, spread + 1, size)
        for size in (states, inputs, outputs)
    )
    labels = {
        "states": [f"s{i}" for i in range(states)],
        "inputs": [f"u{i}" for i in range(inputs)],
    }
    system = ct.ss(
        x[:, None] * A / x,
        x[:, None] * B / u,
        y[:, None] * C / x,
        y[:, None] * D / u,
        0.5,
        **labels,
    )
    weights = {
        "Q": Q / np.outer(x, x),
        "R": R / np.outer(u, u),
        "QN": QN * np.outer(x, x),
        "RN": RN * np.outer(y, y),
    }
    return system, weights, P0 * np.outer(x, x), (x, u, y)


def hidden(kind, system, units, size=1.0):
    """Noise of a kind, sized and priced in the plant's units."""
    x, u, y = units
    options = {"weight": y**-2.0, "models": "exact", "max_std": np.inf}
    secret = pc.StateAdjacency({"s0": size * x[0], "s1": 0.3 * size * x[1]}, times=0)
    budget = BUDGET
    if kind == "floored":
        options["floor"] = 0.3 * y
    if kind == "laplace":
        secret = pc.StateAdjacency({"s0": size * x[0]}, times=0)
        budget = pc.PrivacyBudget(epsilon=1.0)
        options["family"] = "laplace"
    if kind in ("correlated", "endless"):
        secret = pc.DisturbanceAdjacency({"u0": size * u[0]})
    horizon = SAMPLES
    if kind == "endless":
        horizon = np.inf
        options = {}
    return pc.design_output_noise(
        system, horizon=horizon, adjacency=secret, budget=budget, **options
    )


def results(loop, units):
    """What a loop claims, in units in which all were one."""
    x, u, y = units
    n = len(x)
    squares = np.outer(x, x)
    samples = SAMPLES if loop.noise is None or loop.noise.horizon == np.inf else None
    times = 0.5 * np.arange(SAMPLES)
    cost = loop.cost(times, **DRAWN)
    found = {
        "K": loop.K * x / u[:, None],
        "cost": [cost.total, cost.privacy, cost.disturbance, cost.terminal],
        "errors": loop.mean_square_error(times, **DRAWN) / x[:, None] ** 2,
    }
    if loop.L is not None:
        found["L"] = loop.L[..., :n, :] * y / x[:, None]
    if loop.knows_noise and loop.noise is not None:
        direction = np.arange(1.0, n + 1) / x
        found["covariance"] = loop.estimate_covariance / squares
        found["margins"] = loop.margins(direction, probability=0.1, horizon=samples)
        if loop.noise.family == "gaussian":
            found["bound"] = [loop.optimality.lower_bound]
    return found


def loop_in_units(kind, seed, spread, sizes=(6, 2, 3), **options):
    """The results of a loop in units of up to 2^spread, and what it warned of."""
    through = 1.0 if options.get("form") == "predictor" else 0.0
    system, weights, P0, units = plant_in_units(seed, *sizes, spread, through=through)
    noise = None if kind == "public" else hidden(kind, system, units)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        loop = pc.private_lqg(system, noise=noise, **weights, P0=P0, **options)
        found = results(loop, units)
    texts = {str(warning.message) for warning in said}
    return found, {text for text in texts if not text.startswith("controls")}


CASES = [
    ("public", {}),
    ("structured", {}),
    ("structured", {"terminal": 0}),
    ("structured", {"form": "predictor"}),
    ("structured", {"estimator": "observer"}),
    ("floored", {}),
    ("laplace", {}),
    ("correlated", {}),
    ("endless", {"sizes": (3, 2, 1)}),
]


@pytest.mark.parametrize("kind, options", CASES)
@pytest.mark.parametrize("seed", range(2))
def test_loops_follow_a_change_of_units(kind, options, seed):
    spread = 15 if kind == "endless" else 25
    plain, warned = loop_in_units(kind, seed, 0, **options)
    found, told = loop_in_units(kind, seed, spread, **options)
    assert {text[:20] for text in told} == {text[:20] for text in warned}
    assert found.keys() == plain.keys()
    for name, expected in plain.items():
        size = np.abs(expected).max()
        np.testing.assert_allclose(
            found[name], expected, rtol=1e-5, atol=1e-6 * size, err_msg=name
        )
