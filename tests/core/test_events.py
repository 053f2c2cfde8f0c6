"""Guarantees as events of dp-accounting, whose accountants find the same privacy."""

from fractions import Fraction

import numpy as np
import pytest

import privcontrol as pc
from privcontrol.core import ManifoldAdjacency

dp_accounting = pytest.importorskip("dp_accounting")
pld = pytest.importorskip("dp_accounting.pld.pld_privacy_accountant")

QUERY = pc.LinearQuery(np.eye(2))
ONE = pc.DirectionAdjacency([[1.0], [0.5]])
SEVERAL = pc.DirectionAdjacency([[1.0, 0.2, 0.7], [0.5, 0.9, 0.6]])
GAUSSIAN = pc.Mechanism(QUERY, pc.GaussianNoise([2.0, 1.0]))
LAPLACE = pc.Mechanism(QUERY, pc.LaplaceNoise([2.0, 1.0]))


def delta_there(event, epsilon):
    """delta by dp-accounting's privacy-loss distributions, rounded up."""
    account = pld.PLDAccountant(value_discretization_interval=1e-4)
    return account.compose(event).get_delta(epsilon)


@pytest.mark.parametrize(
    "guarantee",
    [
        GAUSSIAN.guarantee(ONE),
        LAPLACE.guarantee(ONE),
        GAUSSIAN.guarantee(SEVERAL),
        GAUSSIAN.guarantee(ONE).repeated(7),
        LAPLACE.guarantee(ONE).repeated(3),
        GAUSSIAN.guarantee(ONE) + LAPLACE.guarantee(ONE),
    ],
    ids=["gaussian", "laplace", "moves", "repeated", "three", "mixed"],
)
@pytest.mark.parametrize("epsilon", [0.1, 0.7, 1.5])
def test_the_account_there_agrees(guarantee, epsilon):
    there = delta_there(guarantee.to_dp_event(), epsilon)
    assert there == pytest.approx(guarantee.delta(epsilon), rel=5e-3, abs=1e-6)


def test_an_event_for_several_laplace_moves_costs_at_least_as_much():
    guarantee = LAPLACE.guarantee(SEVERAL)
    event = guarantee.to_dp_event()
    for epsilon in (0.05, 0.3, 0.8, 1.1):
        assert delta_there(event, epsilon) >= guarantee.delta(epsilon) - 1e-12


def test_what_costs_nothing_costs_nothing_there():
    equal = pc.AffineManifold([[1.0, -1.0]])
    difference = pc.LinearQuery([[1.0, -1.0]], equal)
    mechanism = pc.Mechanism(difference, pc.GaussianNoise([1.0]))
    event = mechanism.guarantee(ManifoldAdjacency(1.0)).to_dp_event()
    assert event.noise_multiplier >= 1e299


@pytest.mark.parametrize("size", [1.0, 3.0, 7.0, 0.1, 49.0])
def test_the_noise_is_rounded_down(size):
    """Exact rationals: the event never claims more noise than the guarantee."""
    mechanism = pc.Mechanism(pc.LinearQuery([[1.0]]), pc.GaussianNoise([size]))
    guarantee = mechanism.guarantee(pc.DirectionAdjacency([[1.0]]))
    multiplier = guarantee.to_dp_event().noise_multiplier
    assert Fraction(multiplier) * Fraction(guarantee.gdp) <= 1


def test_black_boxes_have_no_event():
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-3)
    box = pc.PrivacyGuarantee.black_box(budget, ONE)
    with pytest.raises(ValueError, match="no event"):
        box.to_dp_event()
