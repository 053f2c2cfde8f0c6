"""Promises of guarantees, losses and ledgers, attacked where a number could come out too small: underflow, many
releases, precision that another thread changes. The second route is exact arithmetic or a closed form."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from privcontrol.core import (
    BudgetExceededError,
    DirectionAdjacency,
    InputPerturbation,
    OutputPerturbation,
    PrivacyBudget,
    PrivacyGuarantee,
    PrivacyLedger,
    UncertifiableError,
)
from privcontrol.privacy.loss import PrivacyLoss, composed

ADJACENCY = DirectionAdjacency([[1.0]])
MANY = 2000

#: Losses of many small pure releases, each with the exact sum of its epsilons; e^-1000 is no float.
MANY_RELEASES = {
    "Laplace": (PrivacyLoss.laplace([[0.001]]).released(MANY), Fraction(2)),
    "black boxes": (PrivacyLoss.black_box(((0.001, 0.0, MANY),)), Fraction(2)),
    "both": (
        composed(
            PrivacyLoss.laplace([[0.001]]).released(MANY),
            PrivacyLoss.black_box(((0.001, 0.0, MANY),)),
        ),
        Fraction(4),
    ),
}


@pytest.mark.parametrize("name", MANY_RELEASES)
def test_pure_privacy_holds_from_the_sum_of_all_epsilons_and_not_before(name):
    loss, total = MANY_RELEASES[name]
    assert Fraction(loss.epsilon(0.0)) >= total
    assert loss.epsilon(0.0) <= float(total) * (1 + 1e-12)
    for share in (0.5, 0.9, 0.95, 1 - 1e-9):
        budget = PrivacyBudget(epsilon=share * float(total))
        assert not loss.satisfies(budget)
        assert loss.delta(budget.epsilon) > 0
    assert loss.satisfies(PrivacyBudget(epsilon=loss.epsilon(0.0)))
    assert loss.delta(loss.epsilon(0.0)) == 0


def test_no_pure_privacy_beside_gaussian_noise_however_small():
    loss = composed(
        PrivacyLoss.gaussian(1e-6), PrivacyLoss.laplace([[0.001]]).released(MANY)
    )
    for epsilon in (1.9, 2.1, 1e3):
        assert loss.delta(epsilon) > 0
        assert not loss.satisfies(PrivacyBudget(epsilon=epsilon))
    assert loss.epsilon(0.0) == math.inf


def test_the_ledger_counts_two_thousand_small_releases_in_full():
    release = PrivacyGuarantee.black_box(PrivacyBudget(epsilon=0.001), ADJACENCY)
    ledger = PrivacyLedger(PrivacyBudget(epsilon=1.9))
    with pytest.raises(BudgetExceededError):
        ledger.charge(release, count=MANY)
    assert ledger.charge(release, count=1900).epsilon(0.0) == 1.9
    assert ledger.remaining == 0.0
    assert not ledger.can_charge(release)


@pytest.mark.parametrize("shift", [1e-150, 1e-163, 1e-200, 1e-300])
def test_a_shift_too_small_to_be_squared_still_costs_delta(shift):
    """Two coordinates cost more than one, whose delta at epsilon = 0 is 1 - e^(-a/2), in floats a/2."""
    assert shift / 2 < PrivacyLoss.laplace([[shift], [shift]]).delta(0.0) < 1e-140


def test_no_mechanism_is_made_whose_noise_is_no_number():
    budget = PrivacyBudget(epsilon=1e-3, delta=1e-5)
    with pytest.raises(ValueError, match="choose another unit"):
        InputPerturbation(np.tanh, budget, radius=1e308)
    with pytest.raises((ValueError, UncertifiableError)):
        OutputPerturbation(np.tanh, budget, radius=1e308, lipschitz=1.0)
    with pytest.raises(ValueError, match="finite number > 0, got inf"):
        OutputPerturbation(np.tanh, budget, radius=1e99, lipschitz=1e300)


@pytest.mark.parametrize(
    "noise", [InputPerturbation, partial(OutputPerturbation, lipschitz=1.0)]
)
def test_a_masked_entry_is_not_published(noise):
    private = noise(np.tanh, PrivacyBudget(epsilon=1.0, delta=1e-5), radius=0.1)
    with pytest.raises(ValueError, match="masked") as refused:
        private(np.ma.masked_array([17.25, 2.0], mask=[True, False]), rng=0)
    assert "17.25" not in str(refused.value)
