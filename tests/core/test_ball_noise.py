"""Radial noise as a mechanism: what it is, what it promises, and what it costs beside other laws."""

import copy
import math
import pickle

import numpy as np
import pytest
from repeats import few
from scipy.stats import gamma, kstest

from privcontrol.core import (
    AffineManifold,
    BallAdjacency,
    BallNoise,
    DirectionAdjacency,
    LinearQuery,
    ManifoldAdjacency,
    Mechanism,
    PrivacyBudget,
    ball_rate,
    design_gaussian,
    design_laplace,
    design_noise,
    truncated_radius,
)
from privcontrol.core.ball_noise import BlockNoise, _RadialEntry
from privcontrol.privacy.release import SeededBits

ONE = LinearQuery([[1.0]])
LAWS = [(1, math.inf), (2, math.inf), (3, math.inf), (1, 2.0), (2, 3.0)]


@pytest.mark.parametrize("r, bound", LAWS)
def test_draws_have_the_law(r, bound):
    # 20,000 draws against the distribution of the length; 10 % off is rejected
    factor = np.eye(r)
    noise = BallNoise(factor, rate=1.5, bound=bound)
    draws = noise.sample(20_000, rng=0)
    lengths = np.linalg.norm(draws, axis=1)
    assert lengths.max() <= bound

    def law(scale):
        whole = gamma(r, scale=scale).cdf(bound)
        return lambda x: gamma(r, scale=scale).cdf(x) / whole

    assert kstest(lengths, law(1 / 1.5)).pvalue > 1e-3
    assert kstest(lengths, law(1.1 / 1.5)).pvalue < 1e-3
    variance = np.mean(draws**2)
    assert variance == pytest.approx(noise.covariance[0, 0], rel=0.05)
    assert np.abs(draws.mean(axis=0)).max() < 5 * noise.std[0] / math.sqrt(20_000)


@pytest.mark.parametrize("r, bound", LAWS)
def test_exact_entries_have_the_law(r, bound):
    noise = BallNoise(np.eye(r), rate=1.5, bound=bound)
    source = SeededBits(np.random.default_rng(3))
    drawn = [[float(one.ball()) for one in noise.entries(source)] for _ in range(700)]
    lengths = np.linalg.norm(drawn, axis=1) / 1.5
    assert lengths.max() <= bound

    def law(x):
        own = gamma(r, scale=1 / 1.5)
        return own.cdf(x) / own.cdf(bound)

    assert kstest(lengths, law).pvalue > 1e-3


def test_more_bits_of_an_entry_lie_within_fewer():
    source = SeededBits(np.random.default_rng(5))
    for entry in BallNoise(np.eye(3), rate=1.0).entries(source):
        assert isinstance(entry, _RadialEntry)
        for _ in range(3):
            known = entry.ball()
            entry.refine()
            assert known.contains(entry.ball().mid())
            assert entry.ball().rad() < known.rad()


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_a_mechanism_promises_what_its_rate_says(rows):
    rng = np.random.default_rng(rows)
    r = min(rows, 2)
    matrix = rng.standard_normal((rows, r))
    for budget in [(1.0, 1e-2), (0.3, 1e-5)]:
        rate = ball_rate(*budget, r)
        for bound in (math.inf, truncated_radius(*budget, r)):
            own = rate if bound == math.inf else budget[0]
            noise = BallNoise(matrix * (1 + 1e-7), rate=own, bound=bound)
            mechanism = Mechanism(LinearQuery(matrix), noise)
            guarantee = mechanism.guarantee(BallAdjacency(1.0))
            delta = guarantee.delta(budget[0])
            assert delta <= budget[1] * (1 + 1e-9)
            assert delta >= budget[1] * (1 - 2e-3)
            larger = mechanism.guarantee(BallAdjacency(1.01))
            assert larger.delta(budget[0]) > budget[1]


@pytest.mark.usefixtures("repeated_bits")
def test_exact_releases_are_the_data_plus_the_noise():
    matrix = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    for bound in (math.inf, 4.0):
        noise = BallNoise(matrix, rate=2.0, bound=bound)
        mechanism = Mechanism(LinearQuery(matrix), noise)
        released = mechanism.release([10.0, -3.0], size=600)
        exact = released - matrix @ [10.0, -3.0]
        # the padding beside it is 2^-20 of each entry's own size
        assert np.abs(exact[:, 2] - exact[:, 0] - exact[:, 1] / 2).max() < 1e-3
        ratio = np.mean(exact**2, axis=0) / np.diag(noise.covariance)
        assert ratio == pytest.approx(np.ones(3), abs=0.25)
        on_grid = mechanism.release([10.0, -3.0], grid=0.5)
        assert (on_grid / 0.5 == np.round(on_grid / 0.5)).all()


def test_noise_does_not_change_and_is_equal_by_what_it_holds():
    noise = BallNoise([[1.0], [2.0]], rate=2.0, bound=3.0)
    for other in (pickle.loads(pickle.dumps(noise)), copy.deepcopy(noise)):
        assert other == noise
        assert hash(other) == hash(noise)
    assert noise != BallNoise([[1.0], [2.0]], rate=2.0)
    assert noise.scaled(2.0).std == pytest.approx(2 * noise.std)
    with pytest.raises(AttributeError, match="immutable"):
        noise.rate = 1.0


def test_blocks_do_not_change_either_and_travel_to_other_processes():
    noise = BlockNoise(np.diag([1.0, 2.0, 3.0]), (2, 1))
    again = pickle.loads(pickle.dumps(noise))
    assert again == noise != BlockNoise(np.diag([1.0, 2.0, 3.0]), (1, 2))
    assert again.scaled(2.0).std == pytest.approx(2 * noise.std)


def test_what_is_no_radial_noise_is_refused():
    with pytest.raises(ValueError, match="expected shape"):
        BallNoise([1.0, 2.0], rate=1.0)
    with pytest.raises(ValueError, match="at most 2 columns, got 3"):
        BallNoise(np.eye(3), rate=1.0, bound=2.0)
    with pytest.raises(ValueError, match="rate"):
        BallNoise([[1.0]], rate=0.0)
    with pytest.raises(ValueError, match="choose a larger one"):
        BallNoise([[1.0]], rate=1.0, bound=9e-4)


def test_a_radius_that_leaves_a_thousandth_is_small_enough():
    assert BallNoise([[1.0]], rate=1.0, bound=1.1e-3).law.kept < 1.1e-3


@pytest.mark.parametrize(
    "epsilon, releases",
    few(
        [
            (0.2, 1),
            (3.0, 1),
            (1.0, 2),
            (0.2, 2),
            (3.0, 2),
            (0.2, 5),
            (1.0, 5),
            (3.0, 5),
        ],
        of=3,
    ),
)
def test_no_move_longer_by_a_few_millionths_is_allowed(releases, epsilon):
    budget = PrivacyBudget(epsilon=epsilon, delta=1e-4)
    noise = BallNoise(np.eye(3), rate=1.0)
    longest = noise.allowed_shift(budget, releases)
    kept, broken = (
        noise.loss_of_size(length).released(releases).satisfies(budget)
        for length in (longest, longest * (1 + 3e-6))
    )
    assert kept
    assert not broken


# -- designs -----------------------------------------------------------------------------

BUDGETS = [
    {"epsilon": 1.0, "delta": 1e-5},
    {"epsilon": 1.0, "delta": 1e-2},
    {"epsilon": 3.0, "delta": 1e-5},
    {"epsilon": 0.7},
]


def cases():
    rng = np.random.default_rng(4)
    yield ONE, BallAdjacency(1.0)
    yield LinearQuery(np.eye(2), AffineManifold([[2.0, -1.0]])), ManifoldAdjacency(1.0)
    yield LinearQuery(rng.standard_normal((4, 3))), BallAdjacency(1.0)
    moves = DirectionAdjacency(rng.standard_normal((2, 4)))
    yield LinearQuery(rng.standard_normal((3, 2))), moves


@pytest.mark.parametrize("budget", few([BUDGETS[1], BUDGETS[3], BUDGETS[2]], of=2))
def test_the_cheapest_law_is_never_dearer_than_another_and_keeps_its_budget(budget):
    budget = PrivacyBudget(**budget)
    for query, adjacency in cases():
        design = design_noise(query, adjacency, budget, family="auto")
        assert design.guarantee.satisfies(budget)
        others = [design_laplace(query, adjacency, budget).cost]
        if not budget.pure:
            others.append(design_gaussian(query, adjacency, budget).cost)
        assert design.cost <= min(others) * (1 + 1e-5)
        assert [row.cost for row in design.laws] == sorted(r.cost for r in design.laws)
        assert design.cost == pytest.approx(design.laws[0].cost, rel=1e-5)
        direct = float(np.trace(design.noise.covariance))
        assert design.cost == pytest.approx(direct, rel=1e-9)
        # noise a little smaller does not
        if isinstance(design.noise, BallNoise):
            smaller = Mechanism(query, design.noise.scaled(0.999))
            assert not smaller.guarantee(adjacency).satisfies(budget)


def test_costs_are_those_of_the_closed_forms():
    budget = PrivacyBudget(epsilon=1.0, delta=1e-5)
    rows = design_noise(ONE, BallAdjacency(1.0), budget, family="auto").laws
    table = {row.law: row for row in rows}
    assert table["ball"].cost == pytest.approx(2 / ball_rate(1.0, 1e-5, 1) ** 2)
    assert table["ball"].advantage == pytest.approx(0.3935, abs=1e-4)
    assert table["ball"].power == pytest.approx(0.136, abs=1e-3)
    assert table["gaussian"].advantage == pytest.approx(0.107, abs=1e-3)
    assert table["gaussian"].cost == pytest.approx(13.918, abs=1e-3)
    tight = PrivacyBudget(epsilon=1.0, delta=1e-2)
    found = design_noise(ONE, BallAdjacency(1.0), tight, family="truncated")
    assert found.noise.std[0] == pytest.approx(1.29, abs=1e-4)


def test_releases_are_counted():
    # the standard deviation over that of Gaussian noise turns at seven releases
    budget = PrivacyBudget(epsilon=1.0, delta=1e-5)
    expected = {1: 0.379, 6: 0.928, 7: 1.001}
    for releases, ratio in expected.items():
        ball, gaussian = (
            design_noise(ONE, BallAdjacency(1.0), budget, family=law, releases=releases)
            for law in ("ball", "gaussian")
        )
        found = math.sqrt(ball.cost / gaussian.cost)
        assert found == pytest.approx(ratio, abs=2e-3)
        assert ball.guarantee.loss.released(releases).satisfies(budget)
        assert not ball.guarantee.loss.released(releases + 1).satisfies(budget)


def test_the_default_is_gaussian_but_for_pure_budgets():
    pair = PrivacyBudget(epsilon=1.0, delta=1e-2)
    design = design_noise(ONE, BallAdjacency(1.0), pair)
    assert design == design_gaussian(ONE, BallAdjacency(1.0), pair)
    by_gdp = design_noise(
        ONE, BallAdjacency(1.0), PrivacyBudget(gdp=1.0), family="auto"
    )
    assert by_gdp.noise.family == "gaussian"
    three = LinearQuery(np.eye(3))
    pure = design_noise(three, BallAdjacency(1.0), PrivacyBudget(epsilon=1.0))
    assert pure.noise.family == "ball"
    assert pure.cost == pytest.approx(12.0, rel=1e-6)
    assert pure.guarantee.epsilon(0.0) <= 1.0


@pytest.mark.parametrize("epsilon", few([1.0, 0.3, 3.0], of=1))
def test_no_law_passes_the_bound_of_every_law(epsilon):
    budget = PrivacyBudget(epsilon=epsilon)
    for query, adjacency in cases():
        design = design_noise(query, adjacency, budget)
        assert 0 < design.universal_bound <= min(row.cost for row in design.laws)
    # the geometric law on the integers has the bound's variance
    k = np.arange(-2000, 2001)
    mass = math.tanh(epsilon / 2) * np.exp(-epsilon * abs(k))
    bound = design_noise(ONE, BallAdjacency(1.0), budget).universal_bound
    assert bound == pytest.approx(np.sum(mass * k**2), rel=1e-9)


def test_laws_that_cannot_meet_a_budget_say_so():
    with pytest.raises(ValueError, match="needs a budget of epsilon and a delta"):
        design_noise(
            ONE, BallAdjacency(1.0), PrivacyBudget(gdp=1.0), family="truncated"
        )
    three = LinearQuery(np.eye(3))
    budget = PrivacyBudget(epsilon=1.0, delta=1e-2)
    with pytest.raises(ValueError, match='at most 2 directions, got 3; take "ball"'):
        design_noise(three, BallAdjacency(1.0), budget, family="truncated")
    with pytest.raises(ValueError, match="family: expected"):
        design_noise(ONE, BallAdjacency(1.0), budget, family="cauchy")
