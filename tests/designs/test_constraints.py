"""Output noise under constraints on its covariance, against designs that need no solver."""

import cases
import cvxpy as cp
import numpy as np
import pytest

import privcontrol as pc

HORIZON = 5
BALL = pc.InitialStateAdjacency(1.0)
CHANGE = pc.DisturbanceAdjacency(1.0, inputs=["u"])


@pytest.mark.parametrize("adjacency", [cases.POSITION, BALL, [cases.POSITION, CHANGE]])
def test_equal_independent_noise_is_that_of_the_sensitivity(adjacency):
    equal = cases.vehicle_noise(
        adjacency,
        horizon=HORIZON,
        constraints=lambda Gamma: [Gamma == Gamma[0, 0] * np.eye(HORIZON)],
    )
    known = cases.vehicle_noise(adjacency, horizon=HORIZON, family="iid-gaussian")
    np.testing.assert_allclose(equal.std, known.std, rtol=1e-5)
    assert equal.guarantee.satisfies(cases.BUDGET)


def test_no_constraint_costs_what_the_design_costs():
    free = cases.vehicle_noise(CHANGE, horizon=HORIZON)
    same = cases.vehicle_noise(CHANGE, horizon=HORIZON, constraints=lambda Gamma: [])
    assert same.design.cost == pytest.approx(free.design.cost, rel=1e-5)
    assert same.guarantee.satisfies(cases.BUDGET)


def test_a_ceiling_is_kept_and_one_too_low_is_refused():
    free = cases.vehicle_noise(CHANGE, horizon=HORIZON).design.noise.covariance
    ceiling = 0.8 * free[1, 1]
    noise = cases.vehicle_noise(
        CHANGE, horizon=HORIZON, constraints=lambda Gamma: [Gamma[1, 1] <= ceiling]
    )
    covariance = noise.design.noise.covariance
    assert covariance[1, 1] <= ceiling * (1 + 1e-6)
    assert np.trace(covariance) > 1.01 * np.trace(free)
    with pytest.raises(pc.PrivacyError, match="no Gaussian noise of this budget"):
        cases.vehicle_noise(
            CHANGE, horizon=HORIZON, constraints=lambda Gamma: cp.trace(Gamma) <= 1e-6
        )


@pytest.mark.parametrize(
    "options",
    [
        {"floor": 0.1},
        {"floor": "auto", "resolution": 0.01},
        {"family": "laplace"},
        {"horizon": np.inf},
    ],
)
def test_what_has_no_such_covariance_is_refused(options):
    options = {"horizon": HORIZON, "constraints": lambda Gamma: [], **options}
    adjacency = CHANGE if options["horizon"] == np.inf else cases.POSITION
    with pytest.raises(ValueError, match="constraints"):
        cases.vehicle_noise(adjacency, **options)
