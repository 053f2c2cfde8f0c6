"""Accuracy against privacy: the least epsilon is that of a design."""

import math

import pytest
from consensus.networks import TEN_AGENTS

from privcontrol.consensus import (
    optimal_consensus_epsilon,
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
def test_the_error_of_a_design_takes_its_epsilon_at_least(
    readout, family, delta, epsilon
):
    budget, options = (
        PrivacyBudget(epsilon=epsilon, delta=delta),
        {"family": family, "readout": readout},
    )
    design = private_consensus(TEN_AGENTS, budget, 2.5, family=family)
    error = design.limit_mean_square_error(readout=readout)
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
}


@pytest.mark.parametrize("attempt, message", REFUSED.values(), ids=REFUSED)
def test_each_unfit_argument_has_its_own_error(attempt, message):
    with pytest.raises(ValueError, match=message):
        attempt()
