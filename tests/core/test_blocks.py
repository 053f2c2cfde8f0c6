"""Blocks of radial noise of a query whose weight does not read a direction, by other routes."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from privcontrol.core import (
    AffineManifold,
    DirectionAdjacency,
    LinearQuery,
    PrivacyBudget,
    PrivacyLedger,
    audit,
    ball_rate,
    design_noise,
)
from privcontrol.core.ball_noise import BlockNoise
from privcontrol.core.blocks import _Norm, partitions
from privcontrol.privacy import loss as loss_module
from privcontrol.privacy.loss import PrivacyLoss, Product, by_kind, composed
from privcontrol.privacy.walls import Wall

TIGHT = PrivacyBudget(epsilon=1.0, delta=1e-5)
LOOSE = PrivacyBudget(epsilon=1.0, delta=1e-2)
TURNS = np.linspace(0, math.pi, 9)
#: A circle of moves in two entries, and one of a third entry by itself; a fourth one makes
#: all of them add up to one.
CIRCLE = np.vstack([np.cos(TURNS), np.sin(TURNS), 0 * TURNS])
MOVES = np.hstack([CIRCLE, [[0.0], [0.0], [1.0]]])
ADDED = AffineManifold(np.ones((1, 4)), [-1.0])
SECRET = DirectionAdjacency(np.vstack([MOVES, -MOVES.sum(axis=0)]))
QUERY = LinearQuery(np.eye(3, 4), ADDED)


@cache
def designed(
    budget=TIGHT, family="ball", query=QUERY, prices=(1.0, 1.0, 0.0), **options
):
    weight = None if prices is None else np.diag(prices)
    return design_noise(query, SECRET, budget, family=family, weight=weight, **options)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [TIGHT, LOOSE])
def test_a_plane_costs_what_one_law_of_two_numbers_costs(budget):
    design = designed(budget)
    assert design.noise.sizes == (2, 1)
    alone = 2 * 3 / ball_rate(*budget.pair, 2) ** 2
    assert alone * (1 - 1e-9) < design.cost < 1.003 * alone
    assert design.guarantee.satisfies(budget)
    assert design.cost >= design.universal_bound
    one_law = 2 * 4 / ball_rate(*budget.pair, 3) ** 2
    assert design.cost < 0.9 * one_law
    costs = {law: designed(budget, law).cost for law in ("gaussian", "laplace")}
    assert design.cost < 0.9 * min(costs.values())
    auto = designed(budget, "auto")
    assert auto.cost == pytest.approx(design.cost, rel=1e-9)
    assert auto.laws[0].blocks == (2, 1)
    assert math.isnan(design.gap)


def test_without_a_weight_or_with_a_full_one_there_is_one_law():
    for prices in (None, (1.0, 1.0, 0.5)):
        assert not isinstance(designed(prices=prices).noise, BlockNoise)


def test_each_move_is_hidden_by_brute_force():
    """200,000 draws see a delta that is 10 % of a hundredth off."""
    noise = designed(LOOSE).noise
    shifts = np.linalg.solve(noise.factor, MOVES)
    rng = np.random.default_rng(1)
    plane = rng.standard_normal((200_000, 2)) * np.sqrt(rng.chisquare(3, (200_000, 1)))
    line = rng.laplace(size=200_000)
    nearness = np.hypot(*plane.T) + np.abs(line)
    largest = 0.0
    for x, y, z in shifts.T * np.sqrt([3.0, 3.0, 2.0]):
        losses = np.hypot(plane[:, 0] - x, plane[:, 1] - y) + np.abs(line - z)
        losses -= nearness
        excess = np.maximum(-np.expm1(1.0 - losses), 0.0)
        assert excess.mean() <= 1e-2 + 4 * excess.std() / math.sqrt(len(excess))
        largest = max(largest, float(excess.mean()))
    assert largest > 0.95e-2


def test_two_designs_together_hide_each_move_by_brute_force():
    """The line moves by 0.96 twice: delta(1) is 0.225, of the plane alone 0.148."""
    noise = designed(LOOSE).noise
    shift = math.sqrt(2) * np.linalg.solve(noise.factor, MOVES)[2, -1]
    rng = np.random.default_rng(2)
    line = rng.laplace(size=(2, 200_000))
    losses = (np.abs(line - shift) - np.abs(line)).sum(axis=0)
    excess = np.maximum(-np.expm1(1.0 - losses), 0.0)
    found = excess.mean() - 4 * excess.std() / math.sqrt(len(excess))
    assert found > 0.22
    once = designed(LOOSE).guarantee
    ledger = PrivacyLedger(PrivacyBudget(epsilon=3.0, delta=1e-2))
    ledger.charge(once)
    ledger.charge(once)
    for both in (once + once, once.released(2), ledger.spent):
        assert both.delta(1.0) >= found
    assert (once + once).delta(1.0) < 1.001 * once.released(2).delta(1.0)


@pytest.mark.parametrize("most", [64, 3])  # all pairs of rows, or one that bounds them
def test_losses_of_blocks_compose_to_a_bound_of_all_pairs(monkeypatch, most):
    first = PrivacyLoss.blocks([[1.0, 0.0, 0.3], [0.0, 0.99, 0.6]], [3, 1])
    first = first.released(2)
    shifts = PrivacyLoss.laplace([[0.2, 0.3], [0.4, 0.0]])
    second = composed(PrivacyLoss.blocks([[0.7, 0.0], [0.0, 0.69]], [2, 1]), shifts)
    monkeypatch.setattr(loss_module, "_EVALUATED", most)
    both = composed(first, second)
    assert len(both.rows) == (1 if most == 3 else len(first.rows) * len(second.rows))
    for row, other in itertools.product(first.rows, second.rows):
        for epsilon in (0.0, 0.6, 1.2, 2.4, 3.1):
            pair = PrivacyLoss((row + other,), ((),), ("Laplace", "radial"))
            assert pair.delta(epsilon) <= both.delta(epsilon) * (1 + 1e-9)
        assert pair.gdp <= both.gdp * (1 + 1e-9)
    assert not both.attained


def test_what_all_rows_have_stays_and_of_the_rest_the_largest_counts():
    shared, own, other = (0.5, 2, math.inf), (0.9, 1, math.inf), (0.7, 3, math.inf)
    rows = [
        Product(radial=((shared, 3), (own, 1))),
        Product(radial=((shared, 1), (other, 2))),
    ]
    found = dict(loss_module._one_radial(rows))
    assert found == {shared: 1, own: 1, (0.7, 1, math.inf): 1, (0.5, 1, math.inf): 1}


def test_a_kind_of_several_keeps_what_each_move_shows():
    blocks = PrivacyLoss.blocks([[1.0, 0.0], [0.0, 0.99]], [3, 1])
    both = composed(blocks, PrivacyLoss.gaussian(0.5))
    gaussian, radial = by_kind(both)
    assert gaussian.gdp == 0.5
    assert radial.delta(0.5) == blocks.delta(0.5)


def test_walls_stay_with_the_gaussian_noise_that_is_kept_within_them():
    kept = Product(square=Fraction(1, 4), walls=((Wall(6.0, 0.5), 1),))
    inside = replace(PrivacyLoss.gaussian(0.5), rows=(kept,))
    gaussian, laplace = by_kind(composed(inside, PrivacyLoss.laplace([[0.3]])))
    assert gaussian.rows == (kept,)
    assert not laplace.rows[0].walls


def test_releases_are_drawn_and_audited():
    design = designed(LOOSE)
    x = np.array([0.25, 0.25, 0.25, 0.25])
    drawn = design.release(x, size=4000, rng=0)
    spread = np.cov(drawn.T)
    np.testing.assert_allclose(
        np.diag(spread), np.diag(design.noise.covariance), rtol=0.15
    )
    exact = design.release(x, size=20, grid=0.01)
    assert exact.shape == (20, 3)
    assert len(np.unique(exact[:, 0])) > 10
    found = audit(design.mechanism, SECRET, trials=20_000, rng=0)
    assert 0.4 < found.epsilon_lower <= 1.0


@pytest.mark.slow
def test_noise_of_low_rank_has_its_padding():
    """A fourth entry is published, whose moves are those of the others."""
    query = LinearQuery(np.eye(4), ADDED)
    design = designed(LOOSE, query=query, prices=(1.0, 1.0, 0.0, 0.0))
    assert design.noise.sizes == (2, 1)
    assert design.guarantee.satisfies(LOOSE)
    assert design.mechanism.padding is not None
    assert design.release(np.full(4, 0.25), grid=0.01).shape == (4,)


@pytest.mark.slow
def test_several_releases_share_the_budget():
    design = designed(TIGHT, releases=2)
    assert design.noise.sizes == (2, 1)
    assert design.guarantee.released(2).satisfies(TIGHT)
    assert not design.guarantee.released(3).satisfies(TIGHT)


def test_all_ways_to_part_up_to_four_directions_are_tried():
    assert partitions(4, 2) == [(3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1)]
    assert partitions(5, 2) == [(1, 1, 1, 1, 1), (2, 3), (2, 1, 1, 1)]


def test_blocks_that_nobody_reads_grow_into_half_of_what_is_left():
    norm = _Norm((2, 1))
    rows = np.diag([1.0, 1.0, 1e-3]) / math.sqrt(1.5)
    moves = np.eye(3)
    filled = norm.filled(rows, moves)
    images = norm.of(filled @ moves)
    assert images[:2] == pytest.approx(1.0, abs=2e-5)
    assert 0.49 < images[2] < 0.51
    # one that shares its moves with others keeps its size
    shared = norm.filled(rows, np.hstack([moves, [[1.0], [0.0], [1.0]]]))
    assert norm.of(shared @ moves)[2] < 1e-2
