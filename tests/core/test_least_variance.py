"""The least variance of any additive law: its table, laws at random, and all of ours."""

import math
from fractions import Fraction

import numpy as np
import pytest
from repeats import few
from scipy.optimize import linprog

import privcontrol as pc
from privcontrol.core import (
    BallAdjacency,
    LinearQuery,
    PrivacyBudget,
    ball_rate,
    design_noise,
    truncated_radius,
)
from privcontrol.privacy.law import BallLaw
from privcontrol.privacy.least_variance import least_variance

#: Standard deviations of the best laws on the integers that have the mean zero.
INTEGERS = {
    (1, 1e-2): 1.23138,
    (1, 1e-5): 1.35632,
    (1, 1e-6): 1.35687,
    (3, 1e-5): 0.33205,
    (0.3, 1e-5): 4.68864,
    (0.3, 1e-2): 3.60318,
}


@pytest.mark.parametrize("epsilon, delta", INTEGERS)
def test_the_bound_is_just_below_the_best_law_on_the_integers(epsilon, delta):
    std = math.sqrt(least_variance(epsilon, delta))
    best = INTEGERS[epsilon, delta]
    assert best * (1 - 2e-4) < std < best + 1e-5


def test_the_integers_by_a_primal_program():
    """The least E k^2 of masses p with sum (p_k - e p_(k+1))+ <= delta in both orders."""
    epsilon, delta, reach = 1.0, 1e-2, 14
    places = np.arange(-reach, reach + 1)
    count = len(places)
    ahead = np.eye(count) - math.e * np.eye(count, k=1)
    behind = np.eye(count) - math.e * np.eye(count, k=-1)
    none = np.zeros((count, count))
    rows = np.block([[ahead, -np.eye(count), none], [behind, none, -np.eye(count)]])
    spent = np.zeros((2, 3 * count))
    spent[0, count : 2 * count] = spent[1, 2 * count :] = 1.0
    cost = np.r_[places**2, np.zeros(2 * count)]
    mass = np.r_[np.ones(count), np.zeros(2 * count)][None]
    found = linprog(
        cost,
        A_ub=np.vstack([rows, spent]),
        b_ub=np.r_[np.zeros(2 * count), delta, delta],
        A_eq=mass,
        b_eq=[1.0],
    )
    assert math.sqrt(found.fun) == pytest.approx(1.23138, abs=1e-5)
    assert least_variance(epsilon, delta) <= found.fun


def test_without_epsilon_it_is_a_uniform_law():
    """On 100 integers of mass 0.01 each."""
    assert least_variance(0.0, 1e-2) == pytest.approx((100**2 - 1) / 12, rel=1e-6)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-4])
@pytest.mark.parametrize("delta", [0.1, 0.5])
def test_next_to_no_epsilon_it_is_nearly_a_uniform_law(epsilon, delta):
    """The pure law's variance, 1 / epsilon^2, is far from that of the best one."""
    uniform = (1 / delta**2 - 1) / 12
    assert (1 - 1e-3) * uniform < least_variance(epsilon, delta) < uniform


@pytest.mark.parametrize("seed", few(range(8), of=1))
def test_no_law_at_random_is_below_the_bound(seed):
    """Masses on a lattice with any offset, and the delta that they have."""
    rng = np.random.default_rng(seed)
    for _ in range(5):
        epsilon = float(rng.choice([0.2, 0.7, 1.5, 4.0]))
        places = np.arange(-12, 13) + rng.uniform()
        rate = epsilon * rng.uniform(0.7, 1.3)
        masses = np.exp(-rate * np.abs(places - rng.uniform(-0.5, 0.5)))
        masses[np.abs(places) > rng.integers(3, 12)] = 0.0
        masses /= masses.sum()
        padded = np.pad(masses, 1)
        odds = math.exp(epsilon)
        deltas = [
            np.maximum(padded[1:] - odds * padded[:-1], 0).sum(),
            np.maximum(padded[:-1] - odds * padded[1:], 0).sum(),
        ]
        mean = masses @ places
        variance = masses @ (places - mean) ** 2
        delta = min(max(deltas) * (1 + 1e-9), 0.999)
        assert least_variance(epsilon, max(delta, 1e-15)) <= variance


@pytest.mark.parametrize("epsilon, delta", [(0.05, 1e-6), (0.3, 1e-2), (1, 1e-5), (3, 1e-2), (9, 1e-4)])  # fmt: skip
def test_no_law_of_ours_is_below_the_bound(epsilon, delta):
    least = least_variance(epsilon, delta)
    assert least > 0
    assert least < BallLaw(1).unit_variance / ball_rate(epsilon, delta, 1) ** 2
    cut = BallLaw(1, epsilon * truncated_radius(epsilon, delta, 1))
    assert least < cut.unit_variance / epsilon**2
    assert least_variance(epsilon, 0.0) >= least


def test_pure_noise_is_geometric():
    """2 q / (1 - q)^2, summed here over the integers."""
    q = Fraction(3678794411714423, 10**16)
    share = (1 - q) / (1 + q)
    variance = share * sum(2 * k**2 * q**k for k in range(1, 80))
    assert least_variance(1.0, 0.0) == pytest.approx(float(variance), rel=1e-9)


def test_extremes_are_bounds_too():
    assert 0 < least_variance(25.0, 1e-3) < least_variance(20.0, 1e-3)
    assert least_variance(1e-3, 1e-3) > 0
    assert least_variance(1.0, 0.999) >= 0


# -- of designs ----------------------------------------------------------------------------

BUDGETS = [
    PrivacyBudget(epsilon=1.0),
    PrivacyBudget(epsilon=1.0, delta=1e-2),
    PrivacyBudget(epsilon=3.0, delta=1e-5),
]


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("releases", [1, 3])
def test_queries_have_the_bound_whatever_their_law(budget, releases):
    query = LinearQuery([[1.0, 0.5], [0.0, 2.0]])
    bounds = []
    for family in ("gaussian", "laplace", "ball", "truncated"):
        if budget.pure and family in ("gaussian", "truncated"):
            continue
        design = design_noise(query, BallAdjacency(1.0), budget, family=family, releases=releases)  # fmt: skip
        assert 0 < design.universal_bound <= design.cost
        bounds.append(design.universal_bound)
    assert np.ptp(bounds) <= 1e-9 * bounds[0]
    if releases == 1:
        unit = 1.0 + 0.25 + 4.0
        least = least_variance(*budget.pair)
        assert bounds[0] == pytest.approx(unit * least, rel=1e-6)


@pytest.mark.parametrize("budget", BUDGETS)
def test_outputs_have_the_bound_whatever_their_law(budget):
    """Of one direction it is V times the squares of the outputs' response to the move."""
    options = {
        "horizon": 20,
        "budget": budget,
        "adjacency": pc.StateAdjacency({"position": 2.0}),
        "models": "exact",
    }
    for family in ("gaussian", "laplace", "ball", "truncated"):
        if budget.pure and family in ("gaussian", "truncated"):
            continue
        design = pc.design_output_noise(
            pc.plants.vehicle(), family=family, **options
        ).design
        expected = 20 * 4.0 * least_variance(*budget.pair)
        assert design.universal_bound == pytest.approx(expected, rel=1e-9)
        assert design.universal_bound <= design.cost


def test_beside_a_floor_nothing_is_claimed():
    noise = pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=20,
        budget=BUDGETS[1],
        adjacency=pc.StateAdjacency({"position": 1.0}),
        floor=0.1,
    )
    assert math.isnan(noise.design.universal_bound)
