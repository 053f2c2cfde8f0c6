"""Accuracy against privacy: both directions agree with designs, and unequal scales are optimal."""

import math

import cvxpy as cp
import numpy as np
import pytest
from consensus.networks import TEN_AGENTS
from repeats import few

from privcontrol.consensus import (
    NodeAdjacency,
    PrivateConsensus,
    optimal_consensus_epsilon,
    optimal_consensus_error,
    optimal_consensus_scales,
    private_consensus,
    read_network,
)
from privcontrol.core import PrivacyBudget, kappa

NETWORK = read_network(TEN_AGENTS)


@pytest.mark.parametrize("readout", ["message", "state"])
@pytest.mark.parametrize(
    "family, delta", [("gaussian", 1e-2), ("gaussian", 1e-6), ("laplace", 0.0)]
)
@pytest.mark.parametrize("epsilon", [0.03, 1.0, 5.0])
def test_error_and_epsilon_are_inverse_and_those_of_a_design(
    readout, family, delta, epsilon
):
    budget, options = (
        PrivacyBudget(epsilon=epsilon, delta=delta),
        {"family": family, "readout": readout},
    )
    error = optimal_consensus_error(budget, 10, 2.5, **options)
    design = private_consensus(TEN_AGENTS, budget, 2.5, family=family)
    assert error == pytest.approx(
        design.limit_mean_square_error(readout=readout), rel=1e-13
    )
    back = optimal_consensus_epsilon(error, 10, 2.5, delta=delta, **options)
    assert back == pytest.approx(epsilon, rel=1e-10)


def test_closed_forms_at_ten_agents():
    mse = 7.0
    assert optimal_consensus_epsilon(mse, 10, 1.5, family="laplace") == pytest.approx(
        1.5 * math.sqrt(2 / mse)
    )
    state = optimal_consensus_epsilon(mse, 10, 1.5, family="laplace", readout="state")
    assert state == pytest.approx(1.5 * math.sqrt(2 * 9 / mse))
    for readout, y in (
        ("message", 1.5 / math.sqrt(mse)),
        ("state", 1.5 * 3 / math.sqrt(mse)),
    ):
        epsilon = optimal_consensus_epsilon(mse, 10, 1.5, delta=1e-3, readout=readout)
        assert kappa(epsilon, y) == pytest.approx(1e-3, rel=1e-9)
    paper = (
        math.sqrt(10 / 9) * state
    )  # DPAM's epsilon_op, from the bound in place of the limit
    assert paper == pytest.approx(1.5 * math.sqrt(2 * 10 / mse))


def test_laplace_epsilon_at_a_positive_delta_is_that_of_one_coordinate():
    a = optimal_consensus_epsilon(2.0, 10, 1.0, family="laplace")
    assert optimal_consensus_epsilon(
        2.0, 10, 1.0, delta=0.1, family="laplace"
    ) == pytest.approx(a + 2 * math.log(0.9))


def least_loss(mse, radii, objective, family):
    """The least loss by CVXPY, in the variables sigma_i^2."""
    n, v = len(radii), {"gaussian": 1, "laplace": 2}[family]
    square = cp.Variable(n, pos=True)
    if objective == "worst":
        loss = cp.max(cp.multiply(radii**2, cp.inv_pos(square)))
    elif family == "gaussian":
        loss = cp.sum(cp.multiply(radii**2, cp.inv_pos(square)))
    else:
        loss = cp.sum(cp.multiply(radii, cp.power(square, -0.5)))
    problem = cp.Problem(cp.Minimize(loss), [v / n * cp.sum(square) <= mse])
    return problem.solve(solver=cp.CLARABEL)


def loss_of(scales, radii, objective, family):
    shifts = radii / scales
    if objective == "worst":
        return (shifts**2).max()
    return (shifts**2).sum() if family == "gaussian" else shifts.sum()


@pytest.mark.parametrize("objective", ["worst", "total"])
@pytest.mark.parametrize("family", ["gaussian", "laplace"])
@pytest.mark.parametrize("seed", few(range(6), of=2))
def test_unequal_scales_reach_the_accuracy_with_the_least_loss(objective, family, seed):
    rng = np.random.default_rng(seed)
    radii = rng.uniform(0.2, 5, 10)
    mse = 12.0
    scales = optimal_consensus_scales(mse, radii, objective=objective, family=family)
    consensus = PrivateConsensus(NETWORK, scales, NodeAdjacency(radii), family=family)
    assert consensus.limit_mean_square_error() == pytest.approx(mse, rel=1e-12)
    best = least_loss(mse, radii, objective, family)
    assert loss_of(scales, radii, objective, family) == pytest.approx(best, rel=1e-5)
    if objective == "worst" and family == "gaussian":
        assert consensus.guarantee.gdp**2 == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("objective", ["worst", "total"])
@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_equal_nodes_get_equal_scales(objective, family):
    scales = optimal_consensus_scales(
        5.0, np.full(10, 2.0), objective=objective, family=family, readout="state"
    )
    assert np.ptp(scales) < 1e-14
    variance = 1 if family == "gaussian" else 2
    assert 9 * variance * scales[0] ** 2 == pytest.approx(5.0)


REFUSED = {
    "Gaussian without delta": (
        lambda: optimal_consensus_epsilon(1.0, 10, 1.0),
        "delta > 0, got 0",
    ),
    "one node": (
        lambda: optimal_consensus_epsilon(1.0, 1, 1.0, delta=0.1),
        "at least two",
    ),
    "unknown readout": (
        lambda: optimal_consensus_epsilon(1.0, 10, 1.0, delta=0.1, readout="x"),
        "'message', 'state'",
    ),
    "unknown objective": (
        lambda: optimal_consensus_scales(1.0, np.ones(3), objective="mean"),
        "'worst', 'total'",
    ),
    "zero radius": (
        lambda: optimal_consensus_scales(1.0, np.zeros(3)),
        "positive numbers, got 3",
    ),
}


@pytest.mark.parametrize("attempt, message", REFUSED.values(), ids=REFUSED)
def test_each_unfit_argument_has_its_own_error(attempt, message):
    with pytest.raises(ValueError, match=message):
        attempt()
