"""Consensus with radial noise of each agent's number."""

import math

import numpy as np
import pytest

import privcontrol as pc

RING = np.diag(np.full(5, 0.25), 1) + np.diag(np.full(5, 0.25), -1)
RING[0, 5] = RING[5, 0] = 0.25
TIGHT = pc.PrivacyBudget(epsilon=1.0, delta=1e-5)


def error(family, budget=TIGHT, **options):
    agents = pc.private_consensus(RING, budget, 2.0, family=family, **options)
    assert agents.guarantee.satisfies(budget)
    return agents.limit_mean_square_error()


def test_the_limit_error_falls_by_the_ratio_of_the_variances():
    ratio = error("gaussian") / error("ball")
    assert ratio == pytest.approx(6.96, abs=0.005)
    assert error("auto") == error("ball")
    assert error("ball") < error("laplace")


def test_the_delta_is_used_by_brute_force():
    """The hockey stick of one number, integrated on a grid of 400,001 points."""
    budget = pc.PrivacyBudget(epsilon=0.7, delta=0.05)
    agents = pc.private_consensus(RING, budget, 2.0, family="ball")
    scale = float(agents.scales[0])
    grid = np.linspace(-80, 80, 400_001)
    here = np.exp(-np.abs(grid) / scale) / (2 * scale)
    moved = np.exp(-np.abs(grid - 2.0) / scale) / (2 * scale)
    excess = np.maximum(moved - math.exp(0.7) * here, 0.0)
    delta = excess.sum() * (grid[1] - grid[0])
    assert delta == pytest.approx(0.05, rel=1e-4)
    assert agents.guarantee.delta(0.7) <= 0.05
    assert agents.guarantee.quoted_delta == 0.05


def test_each_agent_has_its_own_budget():
    budgets = [pc.PrivacyBudget(epsilon=e, delta=1e-5) for e in (1, 1, 2, 2, 3, 3)]
    agents = pc.private_consensus(RING, budgets, 1.0, family="ball")
    scales = agents.scales
    assert scales[0] == scales[1] > scales[2] == scales[3] > scales[4]
    assert scales[0] == pytest.approx(1 / pc.core.ball_rate(1.0, 1e-5, 1), rel=1e-12)


def test_pure_budgets_are_those_of_laplace_noise():
    pure = pc.PrivacyBudget(epsilon=1.0)
    assert error("ball", pure) == pytest.approx(error("laplace", pure), rel=1e-12)
    assert error("auto", pure) == error("ball", pure)


@pytest.mark.parametrize(
    "options",
    [{"moves": "pair"}, {"dimension": 2}, {"pairwise_std": 1.0, "coalition": 0}],
)
def test_what_it_does_not_cover_is_named_and_auto_is_gaussian(options):
    with pytest.raises(ValueError, match="one number of one agent at a time"):
        pc.private_consensus(RING, TIGHT, 1.0, family="ball", **options)
    agents = pc.private_consensus(RING, TIGHT, 1.0, family="auto", **options)
    assert agents.family == "gaussian"
    with pytest.raises(ValueError, match="one number of one agent at a time"):
        pc.private_consensus(RING, pc.PrivacyBudget(gdp=1.0), 1.0, family="ball")


def test_auto_is_gaussian_where_that_is_smaller():
    loose = pc.PrivacyBudget(epsilon=0.1, delta=0.1)
    assert pc.private_consensus(RING, loose, 1.0, family="auto").family == "gaussian"
