"""The loop with a public prior: its exact cost, its optimum, and what a second route says."""

import warnings

import numpy as np
import pytest

import privcontrol as pc

DRAWN = {
    "initial_state": "design",
    "disturbance": "design",
    "measurement_noise": "design",
}
WEIGHTS = {"Q": 1, "R": 5, "QN": [1e-4, 1e-2], "RN": 1e-2}
#: Secret, epsilon, horizon, variance of x(0); cost without noise, with the filter that
#: knows the noise, and with the best noise too (THEORY F26).
TABLE = [
    ({"position": 1.0}, 1.0, 60, 4.0, 371.84, 440.39, 440.39),
    ({"position": 1.0, "velocity": 0.5}, 1.0, 60, 4.0, 371.84, 893.93, 890.00),
    ({"position": 1.0}, 0.3, 200, 0.25, 173.23, 217.807, 217.807),
    ({"position": 1.0}, 1.0, 100, 1.0, 155.52, 215.56, 215.56),
    ({"position": 1.0}, 1.0, 60, 100.0, 8234.5, 8358.3, 8358.3),
]


def vehicle_noise(secret, epsilon=1.0, horizon=60, **options):
    options = {"models": "exact", "max_std": np.inf} | options
    return pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=horizon,
        adjacency=pc.StateAdjacency(secret),
        budget=pc.PrivacyBudget(epsilon=epsilon, delta=1e-2),
        **options,
    )


def vehicle_loop(noise, **options):
    return pc.private_lqg(pc.plants.vehicle(), **WEIGHTS, noise=noise, **options)


@pytest.mark.parametrize("secret, epsilon, horizon, P0, public, knowing, best", TABLE)
def test_the_table_of_costs(secret, epsilon, horizon, P0, public, knowing, best):
    noise = vehicle_noise(secret, epsilon, horizon)
    loop = vehicle_loop(noise, P0=P0, terminal=0)
    quiet = vehicle_loop(None, P0=P0)
    designed = vehicle_loop(noise, P0=P0, terminal=0, codesign=True)
    cost = loop.cost(**DRAWN)
    assert cost.total == pytest.approx(knowing, rel=2e-5)
    assert designed.cost(**DRAWN).total == pytest.approx(best, rel=2e-5)
    assert designed.guarantee.satisfies(noise.request.budget)
    assert 0 <= designed.optimality.gap < 1e-6
    assert designed.optimality.excess < 3e-3
    without = quiet.cost(noise.timepts, **DRAWN)
    assert without.total > public  # its gains have the terminal term in view
    assert public < cost.total


def test_the_terminal_term_of_the_riccati_equation():
    loop = vehicle_loop(vehicle_noise({"position": 1.0}), P0=4.0)
    cost = loop.cost(**DRAWN)
    assert cost.total == pytest.approx(447.79, rel=1e-5)
    assert cost.total + cost.terminal == pytest.approx(504.94, rel=1e-5)
    assert loop.K.shape == (1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        observer = vehicle_loop(loop.noise)
    np.testing.assert_array_equal(loop.K, observer.K)
