"""Consensus with radial noise of each agent's number."""

import math

import numpy as np
import pytest
from repeats import few
from scipy import stats

import privcontrol as pc
from privcontrol.consensus import PrivateConsensus

RING = np.diag(np.full(5, 0.25), 1) + np.diag(np.full(5, 0.25), -1)
RING[0, 5] = RING[5, 0] = 0.25
LOOSE = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
TIGHT = pc.PrivacyBudget(epsilon=1.0, delta=1e-5)


def error(family, budget=TIGHT, **options):
    agents = pc.private_consensus(RING, budget, 2.0, family=family, **options)
    assert agents.guarantee.satisfies(budget)
    return agents.limit_mean_square_error()


def test_the_limit_error_falls_by_the_ratio_of_the_variances():
    ratio = error("gaussian") / error("ball")
    assert ratio == pytest.approx(6.96, abs=0.005)
    assert error("auto") == error("truncated") < error("ball")
    assert error("ball") < error("laplace")


def test_truncated_noise_is_smaller_than_laplace_noise():
    ratio = error("laplace", LOOSE) / error("truncated", LOOSE)
    assert ratio == pytest.approx(2 / 1.29**2, rel=1e-4)
    assert error("auto", LOOSE) == error("truncated", LOOSE)


@pytest.mark.parametrize("entries", [1, 2, 3])
@pytest.mark.parametrize("budget", few([LOOSE, TIGHT], of=1), ids=["loose", "tight"])
@pytest.mark.parametrize("family", ["ball", "truncated"])
def test_vectors_are_hidden_by_brute_force(family, budget, entries):
    """The hockey stick of the longest move of a vector, from 1,000,000 messages."""
    options = dict(family=family, dimension=entries)
    if family == "truncated" and entries > 2:
        with pytest.raises(ValueError, match="at most 2 directions"):
            pc.private_consensus(RING, budget, 2.0, **options)
        return
    agents = pc.private_consensus(RING, budget, 2.0, **options)
    assert agents.guarantee.satisfies(budget)
    drawn, _ = agents.noise.draw(np.random.default_rng(5), 170_000 * entries)
    gamma = drawn.reshape(-1, entries)
    variance = np.mean(gamma**2, axis=0)
    assert variance == pytest.approx(agents.noise.variance[0], rel=0.02)
    scale = agents.scales[0]
    lengths = np.linalg.norm(gamma, axis=1) / scale
    move = np.full(entries, 2.0 / math.sqrt(entries))
    moved = np.linalg.norm(gamma - move, axis=1) / scale
    bound = agents.bound
    assert lengths.max() <= bound
    losses = np.where(moved > bound, math.inf, moved - lengths)
    excess = np.maximum(-np.expm1(budget.epsilon - losses), 0.0)
    error = excess.std() / 1e3
    assert abs(excess.mean() - budget.delta) <= 6 * error + 1e-9


@pytest.mark.usefixtures("repeated_bits")
def test_agents_draw_their_vectors_exactly():
    agents = pc.private_consensus(RING, LOOSE, 2.0, family="ball", dimension=2)
    shown = [agents.agent(k % 6, [1.0, -1.0]).message() for k in range(300)]
    lengths = np.linalg.norm(np.array(shown) - [1.0, -1.0], axis=1)
    law = stats.gamma(2, scale=agents.scales[0])
    assert stats.kstest(lengths, law.cdf).pvalue > 1e-5
    with pytest.raises(ValueError, match="expected 2 numbers"):
        agents.agent(0, 1.0)
    cut = pc.private_consensus(RING, LOOSE, 2.0, family="truncated")
    shown = [cut.agent(k % 6, 0.0).message() for k in range(300)]
    assert max(map(abs, shown)) <= cut.bound * cut.scales[0]
    assert np.std(shown) == pytest.approx(2.58, rel=0.2)
    with pytest.raises(ValueError, match="no law of all agents"):
        _ = cut.mechanism


def test_errors_of_vectors_are_those_of_trials():
    agents = pc.private_consensus(RING, LOOSE, 2.0, family="ball", dimension=2)
    values = np.zeros((6, 2))
    found, error = agents.simulate(values, 60, trials=4000, rng=1).mean_square_error()
    assert abs(found[-1] - agents.mean_square_error(values, 60)[-1]) <= 6 * error[-1]


def test_a_radius_goes_with_truncated_noise_of_one_budget():
    budgets = [pc.PrivacyBudget(epsilon=e, delta=1e-2) for e in (1, 1, 2, 2, 3, 3)]
    with pytest.raises(ValueError, match="one budget of all agents, got 3"):
        pc.private_consensus(RING, budgets, 1.0, family="truncated")
    agents = pc.private_consensus(RING, LOOSE, 1.0)
    for options in ({"bound": 3.0}, {"family": "truncated"}):
        with pytest.raises(ValueError, match="expected a radius with family"):
            PrivateConsensus(agents.network, 1.0, agents.adjacency, **options)


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
    [{"moves": "pair"}, {"pairwise_std": 1.0, "coalition": 0}],
)
@pytest.mark.parametrize("family", ["ball", "truncated"])
def test_what_it_does_not_cover_is_named_and_auto_is_gaussian(options, family):
    with pytest.raises(ValueError, match="the value of one agent at a time"):
        pc.private_consensus(RING, TIGHT, 1.0, family=family, **options)
    agents = pc.private_consensus(RING, TIGHT, 1.0, family="auto", **options)
    assert agents.family == "gaussian"
    with pytest.raises(ValueError, match="the value of one agent at a time"):
        pc.private_consensus(RING, pc.PrivacyBudget(gdp=1.0), 1.0, family=family)


def test_auto_is_gaussian_where_that_is_smaller():
    loose = [pc.PrivacyBudget(epsilon=e, delta=0.1) for e in (0.1,) * 3 + (0.2,) * 3]
    assert pc.private_consensus(RING, loose, 1.0, family="auto").family == "gaussian"
    assert error("auto", loose[0]) < error("gaussian", loose[0])  # truncated
