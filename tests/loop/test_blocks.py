"""Radial noise in independent blocks that are chosen for the loop, by other routes."""

import itertools
import math
from dataclasses import replace
from functools import cache

import control as ct
import numpy as np
import pytest
import scipy.stats
from gateway_cases import published_in_two_runs
from repeats import few
from scipy.optimize import approx_fprime, differential_evolution
from twins import (
    ANY_TIME,
    COS,
    SAMPLES,
    SIN,
    TIGHT,
    TURNING,
    TWINS,
    WEIGHTS,
    designed,
    moved_entries,
    price_of_sum,
    private_loop,
    quiet_cost,
)

import privcontrol as pc
from privcontrol import verify
from privcontrol.core import audit, blocks as search
from privcontrol.core.ball_noise import BlockNoise
from privcontrol.core.blocks import _Norm, cheapest_rows, partitions, rank_read
from privcontrol.core.manifold import EllipsoidMoves
from privcontrol.designs.designed import designed as of_request
from privcontrol.loop import optimum
from privcontrol.loop.moments import expected_total
from privcontrol.loop.noise_program import NoiseProgram
from privcontrol.noise.exact import ExactNoise
from privcontrol.noise.parts import Blocks
from privcontrol.noise.process import promising
from privcontrol.privacy.law import BlockLaw
from privcontrol.privacy.loss import PrivacyLoss

LOOSE = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
OF_STATES = {"Q": 1.0, "R": 1.0, "QN": 1e-3, "RN": 1e-2, "P0": 4.0}


@cache
def turning(family="ball", budget=TIGHT):
    noise = designed("gaussian", TURNING, ANY_TIME, budget, horizon=SAMPLES)
    return private_loop(family, noise=noise, weights=OF_STATES, plant=TURNING)


def test_the_bound_of_one_block_is_said_to_be_that():
    """Two blocks of the same law cost less than the bound, which is of one."""
    alone = pc.private_lqg(TWINS, noise=designed("ball"), **WEIGHTS)
    assert not isinstance(alone.noise.parts[0], Blocks)
    blocks = private_loop("ball", cap=1000.0)
    found = alone.optimality
    assert expected_total(blocks.data) < found.cost / (1 + found.excess)
    assert "least cost of radial noise of this law in one block" in str(found)
    assert found.universal_bound < expected_total(blocks.data)
    assert "least cost of noise of this law" in str(blocks.optimality)


def of_budget(budget):
    """The blocks of the tight budget, scaled to another one."""
    noise = turning().noise
    return of_request(noise.request, noise.plant_data, budget=budget)


def block_draws(sizes, count, seed):
    """Gaussian numbers times the root of a chi-square share, block by block."""
    rng = np.random.default_rng(seed)
    drawn = []
    for size in sizes:
        shares = rng.chisquare(size + 1, size=(count, 1)) / (size + 1)
        drawn.append(rng.standard_normal((count, size)) * np.sqrt(shares))
    return np.hstack(drawn)


def losses_of(sizes, eta, shift):
    """The privacy loss of draws (N, r), each block's density by itself."""
    total, start = 0.0, 0
    for size in sizes:
        own = slice(start, start + size)
        start += size
        moved = np.linalg.norm(eta[:, own] - shift[own], axis=1)
        total = total + math.sqrt(size + 1) * (
            moved - np.linalg.norm(eta[:, own], axis=1)
        )
    return total


# -- what they cost ------------------------------------------------------------------


def test_a_loop_that_reads_one_direction_takes_two_blocks():
    """18.91 Gaussian and 8.107 with one radial law, 5.951 in blocks without a cap."""
    one_law = 3 / pc.core.ball_rate(1.0, 1e-5, 2) ** 2
    assert price_of_sum(one_law) == pytest.approx(8.107, abs=2e-3)
    loop = private_loop("ball", cap=1000.0)
    assert loop.noise.parts[0].sizes == (1, 1)
    assert loop.noise.family == "ball"
    assert loop.noise.guarantee.satisfies(TIGHT)
    price = expected_total(loop.data) - quiet_cost(designed("gaussian"))
    least = price_of_sum(2.0)
    assert least == pytest.approx(5.951, abs=1e-3)
    assert least * (1 - 1e-4) < price < least * 1.003
    found = loop.optimality
    assert found.universal_bound == found.lower_bound < found.cost


@pytest.mark.slow
def test_a_plane_and_a_line_are_two_blocks():
    """A circle of moves costs 1.5 times a number's variance, and three numbers twice."""
    prices = {}
    for family in ("gaussian", "laplace", "ball", "auto"):
        loop = turning(family)
        prices[family] = expected_total(loop.data)
    assert turning().noise.parts[0].sizes == (2, 1)
    quiet = quiet_cost(turning("gaussian").noise, TURNING, OF_STATES)
    assert prices["ball"] - quiet < 0.9 * (prices["laplace"] - quiet)
    assert prices["auto"] == pytest.approx(min(prices.values()), rel=1e-9)
    # noise of the whole plane and the lag, one radial law: four instead of three
    program = NoiseProgram.of(
        turning("gaussian").data, pc.core.ball_rate(1.0, 1e-5, 3) / math.sqrt(4)
    )
    one_law = program.value(program.solved(10.0).information)
    assert prices["ball"] - quiet < 0.9 * one_law


def test_one_radial_law_is_kept_where_it_is_cheaper():
    """Moves all around two states, of which the loop reads both."""
    plant = ct.ss(
        [[COS, -SIN], [SIN, COS]], [[1.0], [0.5]], np.eye(2), 0, 1.0, states=["a", "b"]
    )
    noise = designed("gaussian", plant, pc.StateAdjacency({"a": 1.0, "b": 1.0}))
    loop = private_loop("ball", noise=noise, weights=OF_STATES, plant=plant)
    assert not isinstance(loop.noise.parts[0], Blocks)
    assert -1e-9 <= loop.optimality.gap < 1e-3
    vehicle = pc.plants.vehicle()
    noise = designed("gaussian", vehicle, pc.InitialStateAdjacency(1.0))
    loop = private_loop("ball", noise=noise, weights=OF_STATES, plant=vehicle)
    assert not isinstance(loop.noise.parts[0], Blocks)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(2, 1), (1, 2)])
def test_a_global_search_finds_no_cheaper_blocks(sizes):
    """Differential evolution over all rows; r + 1 is the variance of a block's number."""
    moves = np.random.default_rng(4).standard_normal((3, 6))
    prices = np.diag([4.0, 1.0, 0.01])
    least = 1e-3

    def priced(X):
        inverse = np.linalg.inv(X)
        return float(np.sum(prices * inverse)), inverse @ prices @ inverse

    def cost(entries):
        rows = entries.reshape(3, 3)
        lengths, start = 0.0, 0
        for size in sizes:
            images = rows[start : start + size] @ moves
            lengths = lengths + math.sqrt((size + 1) / 2) * np.linalg.norm(
                images, axis=0
            )
            start += size
        information = rows.T @ rows / lengths.max() ** 2
        lowest = np.linalg.eigvalsh(information)[0]
        return priced(information)[0] if lowest >= least else 1e6 * (1 - lowest)

    shape = np.linalg.inv(moves @ moves.T)
    rows, found = cheapest_rows(priced, moves, shape, least, sizes)
    assert found == pytest.approx(cost(rows.ravel()), rel=1e-9)
    best = differential_evolution(
        cost, [(-1, 1)] * 9, seed=2, maxiter=250, popsize=12, tol=1e-9
    )
    assert found <= best.fun * 1.002


@pytest.mark.parametrize("family", few(["ball", "laplace"], of=1))
def test_the_search_prices_noise_as_the_loop_pays_for_it(family, monkeypatch):
    """With another variance than that of the law it would choose other directions."""
    found = []

    def watched(*args):
        rows, cost = cheapest_rows(*args)
        found.append(cost)
        return rows, cost

    place = optimum if family == "laplace" else search
    monkeypatch.setattr(place, "cheapest_rows", watched)
    loop = private_loop(family, cap=10.0)
    price = expected_total(loop.data) - quiet_cost(designed("gaussian"))
    assert price == pytest.approx(min(found), rel=1e-5)


def test_slopes_of_the_smooth_norm_are_those_of_differences():
    norm = _Norm((2, 1, 3))
    images = np.random.default_rng(1).standard_normal(6)
    values, slopes = norm.with_slope(images[:, None], 0.1)
    expected = approx_fprime(images, lambda x: norm.of(x[:, None], 0.1)[0], 1e-7)
    np.testing.assert_allclose(slopes[:, 0], expected, rtol=1e-5)
    assert values[0] == norm.of(images[:, None], 0.1)[0] > norm.of(images[:, None])[0]
    own = math.sqrt(1.5) * math.hypot(*images[:2]) + abs(images[2])
    own += math.sqrt(2) * np.linalg.norm(images[3:])
    assert norm.of(images[:, None])[0] == pytest.approx(own)


def test_all_ways_to_part_few_directions_are_tried():
    assert partitions(2, 1) == [(1, 1)]
    assert partitions(3, 1) == [(2, 1), (1, 1, 1)]
    assert partitions(4, 4) == [(3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1)]
    assert partitions(6, 2) == [(1,) * 6, (2, 4), (2, 1, 1, 1, 1)]
    assert partitions(6, 6) == [(1,) * 6]
    # at a cap of 10 the least information is 0.01, and what is above 0.1 is read
    assert rank_read(np.diag([0.01, 0.09, 0.12, 1.0]), 10.0) == 2
    assert rank_read(np.diag([0.01, 0.01]), 10.0) == 1


# -- what they hide ------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("budget", [TIGHT, LOOSE])
def test_each_move_is_hidden_by_brute_force(budget):
    """Smaller moves too; 400,000 draws see a delta that is 10 % of a hundredth off."""
    noise = of_budget(budget)
    (part,) = noise.parts
    entries = moved_entries(noise, TURNING, SAMPLES)
    eta = block_draws(part.sizes, 400_000, 5)
    epsilon, delta = budget.pair
    largest = 0.0
    for shift in entries.T:
        for scale in (1.0, 0.5):
            excess = -np.expm1(epsilon - losses_of(part.sizes, eta, scale * shift))
            excess = np.maximum(excess, 0.0)
            error = excess.std() / math.sqrt(len(excess))
            assert excess.mean() <= delta + 4 * error
            largest = max(largest, excess.mean())
    rows = noise.guarantee.loss
    assert largest <= rows.delta(epsilon) * (1 + 4e-2) + 1e-5
    # the loss that all blocks have together is used
    sums = [losses_of(part.sizes, np.zeros((1, 3)), shift)[0] for shift in entries.T]
    assert max(sums) <= rows.pure * (1 + 1e-9)
    assert rows.pure <= max(sums) * (1 + 1e-4)  # moves that hardly differ are one
    # at most what a plane alone may lose
    assert epsilon < rows.pure <= pc.core.ball_rate(*budget.pair, 2)
    if budget is LOOSE:
        assert largest > 0.95 * delta  # all of the budget is used


@pytest.mark.slow
def test_the_curve_is_that_of_draws_at_every_epsilon():
    noise = of_budget(LOOSE)
    (part,) = noise.parts
    entries = moved_entries(noise, TURNING, SAMPLES)
    eta = block_draws(part.sizes, 400_000, 6)
    for epsilon in (0.0, 0.3, 0.7):
        drawn = 0.0
        for shift in entries.T:
            excess = -np.expm1(epsilon - losses_of(part.sizes, eta, shift))
            drawn = max(drawn, float(np.maximum(excess, 0.0).mean()))
        assert drawn == pytest.approx(noise.guarantee.loss.delta(epsilon), rel=0.02)


@pytest.mark.slow
def test_several_releases_of_blocks_keep_their_budget():
    noise = designed("gaussian", releases=3)
    loop = private_loop("ball", cap=100.0, noise=noise)
    assert isinstance(loop.noise.parts[0], Blocks)
    assert loop.noise.guarantee.released(3).satisfies(TIGHT)
    assert not loop.noise.guarantee.released(4).satisfies(TIGHT)


# -- losses --------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 0.8])
def test_a_product_of_blocks_is_the_integral_over_both(epsilon):
    """By quadrature of the density of a plane and a line, on a grid of points."""
    radii = (np.arange(1200) + 0.5) * 0.02
    angles = (np.arange(400) + 0.5) * math.pi / 400
    here, turn = np.meshgrid(radii, angles, indexing="ij")
    there = np.sqrt(here**2 + 0.7**2 - 2 * here * 0.7 * np.cos(turn))
    mass = (np.exp(-here) * here).ravel()
    mass /= mass.sum()
    first = (there - here).ravel()
    points = (np.arange(4000) + 0.5) * 0.01 - 20
    weights = np.exp(-np.abs(points))
    weights /= weights.sum()
    second = np.abs(points - 0.5) - np.abs(points)
    # the second one's expectation, for each loss of the first one
    levels = np.linspace(-0.7, 0.7, 1401)
    excess = -np.expm1(epsilon - levels[:, None] - second)
    given = np.maximum(excess, 0.0) @ weights
    expected = float(np.interp(first, levels, given) @ mass)
    loss = PrivacyLoss.blocks([[0.7], [0.5]], (2, 1))
    assert loss.delta(epsilon) == pytest.approx(expected, rel=2e-3)
    assert loss.pure == pytest.approx(1.2)


def test_moves_of_which_none_is_the_largest_are_all_kept():
    sizes = np.array([[0.9, 0.1, 0.5, 0.4], [0.1, 0.9, 0.5, 0.5]])
    loss = PrivacyLoss.blocks(sizes, (2, 1))
    assert len(loss.rows) == 3  # the last one is below the third
    each = [PrivacyLoss.blocks(column[:, None], (2, 1)) for column in sizes.T]
    for epsilon in (0.0, 0.3, 0.6):
        worst = max(one.delta(epsilon) for one in each)
        assert loss.delta(epsilon) == pytest.approx(worst, rel=1e-6)
    # two releases of the line cost more than any one of the plane
    assert loss.released(2).delta(0.3) > loss.delta(0.3)


def test_very_many_moves_are_one_number():
    angles = np.linspace(0.01, 1.56, 80)
    loss = PrivacyLoss.blocks([np.cos(angles), np.sin(angles)], (2, 1))
    assert len(loss.rows) == 1
    assert loss.pure == pytest.approx(math.sqrt(2), rel=1e-3)
    few = PrivacyLoss.blocks([np.cos(angles[::2]), np.sin(angles[::2])], (2, 1))
    assert len(few.rows) == 40
    assert few.delta(0.5) < loss.delta(0.5)


def test_moves_that_hardly_differ_are_one_of_at_most_a_ten_thousandth_more():
    turns = np.linspace(0, 1, 30)
    sizes = np.array([1 - 2e-5 * turns, 3e-5 * turns])
    loss = PrivacyLoss.blocks(sizes, (2, 1))
    assert len(loss.rows) == 1
    assert sizes.sum(axis=0).max() < loss.pure <= (1 + 1e-4) * 1.00001
    for column in sizes.T:
        own = PrivacyLoss.blocks(column[:, None], (2, 1))
        assert own.delta(0.5) <= loss.delta(0.5) <= own.delta(0.5) + 1e-4
    apart = np.array([1 - 2e-4 * turns, 3e-4 * turns])
    assert len(PrivacyLoss.blocks(apart, (2, 1)).rows) > 1


def test_the_core_noise_prices_balls_of_moves_from_above():
    """The sum of lengths over all directions of a ball is at most what is claimed."""
    rng = np.random.default_rng(3)
    shifts = rng.standard_normal((3, 3))
    noise = BlockNoise(np.eye(3), (2, 1))
    ball = EllipsoidMoves(np.eye(3))
    claimed = noise.loss(shifts, ball).pure
    directions = rng.standard_normal((3, 20_000))
    directions /= np.linalg.norm(directions, axis=0)
    images = shifts @ directions
    sums = math.sqrt(3) * np.linalg.norm(images[:2], axis=0)
    sums += math.sqrt(2) * np.abs(images[2])
    assert 0.5 * claimed < sums.max() <= claimed
    alone = noise.loss_of_size(1.0).pure
    assert alone == pytest.approx(math.sqrt(5))
    half = noise.scaled(2.0)
    assert half != noise
    np.testing.assert_allclose(half.covariance, 4 * np.eye(3), rtol=1e-12)


# -- what is done with them ------------------------------------------------------------


def test_draws_have_variance_one_and_the_covariance():
    law = BlockLaw((2, 1, 3))
    eta = law.standard(np.random.default_rng(0), (100_000, 6))
    np.testing.assert_allclose(eta.var(axis=0), 1.0, atol=0.03)
    squares = np.corrcoef((eta**2).T)
    assert squares[0, 1] > 0.1  # they share a length
    assert abs(squares[0, 2]) < 0.02  # these do not
    noise = turning().noise
    drawn = noise.sample(40_000, rng=1)
    np.testing.assert_allclose(
        drawn.var(axis=1).T,
        [np.diag(noise.covariance(t)) for t in range(12)],
        rtol=0.05,
    )
    stream = np.array(list(itertools.islice(noise.stream(rng=2), SAMPLES)))
    np.testing.assert_allclose(stream, noise.sample(1, rng=2)[:, 0].T)


@pytest.mark.usefixtures("repeated_bits")
def test_exact_entries_have_the_law_of_blocks():
    """Lengths of a plane and a line have Gamma laws, the plane's angle is uniform.

    4,000 draws, at 1e-4; lengths that are 10 % off are seen.
    """
    noise = turning().noise
    drawn = ExactNoise(noise)
    first = []
    for _ in range(4000):
        drawn.entries = drawn.draw(range(drawn.once))
        first.append([float(ball.mid()) for ball in drawn.sample(0)])
    entries = np.array(first) @ np.linalg.inv(noise.process.responses[0]).T
    plane = math.sqrt(3) * np.linalg.norm(entries[:, :2], axis=1)
    line = math.sqrt(2) * np.abs(entries[:, 2])
    for lengths, law in ((plane, scipy.stats.gamma(2)), (line, scipy.stats.gamma(1))):
        assert scipy.stats.kstest(lengths, law.cdf).pvalue > 1e-4
        assert scipy.stats.kstest(0.9 * lengths, law.cdf).pvalue < 1e-4
    angles = np.arctan2(entries[:, 1], entries[:, 0])
    assert scipy.stats.kstest(angles / (2 * math.pi) + 0.5, "uniform").pvalue > 1e-4
    assert scipy.stats.spearmanr(plane, line).pvalue > 1e-4


def test_files_gateways_and_audits_take_blocks(tmp_path, capsys):
    loop = turning()
    noise = loop.noise
    noise.save(tmp_path / "noise.json")
    assert pc.load(tmp_path / "noise.json") == noise
    loop.save(tmp_path / "loop.json")
    assert pc.load(tmp_path / "loop.json") == loop
    files = [str(tmp_path / f"{name}.json") for name in ("noise", "loop")]
    assert verify.main(files) == 0
    assert capsys.readouterr().out.count(": holds") == 2
    with pytest.warns(pc.PrivacyWarning, match="resolution"):
        published = published_in_two_runs(noise, tmp_path / "state.json")
    assert np.isfinite(published).all()
    assert np.abs(np.diff(published, axis=0)).max() > 1e-3
    found = audit(noise.design.mechanism, ANY_TIME, trials=20_000, rng=0)
    assert 0.5 < found.epsilon_lower <= 1.0


def test_smaller_noise_and_other_blocks_than_claimed_are_refused(tmp_path):
    noise = turning().noise
    (part,) = noise.parts
    for other in (part.scaled(0.9), replace(part, sizes=(1, 1, 1))):
        claimed = promising(noise, parts=(other,))
        claimed.save(tmp_path / "noise.json")
        with pytest.raises((ValueError, pc.PrivacyError), match="path: the"):
            pc.load(tmp_path / "noise.json")
        assert verify.checked(tmp_path / "noise.json")["status"] == 1


def test_margins_of_blocks_hold_jointly_over_the_run():
    """20,000 runs at 1 %; 0.6 of the margin does not hold."""
    loop = private_loop("ball", cap=10.0)
    margins = loop.margins([1, 1], probability=0.01)
    drawn = dict.fromkeys(
        ["initial_state", "disturbance", "measurement_noise"], "design"
    )
    response = loop.simulate(trials=20_000, rng=3, **drawn)
    states = np.asarray(response.states)
    errors = np.abs(states[:2].sum(axis=0) - states[2:4].sum(axis=0))
    assert (errors > margins).any(axis=1).mean() <= 0.01
    assert (errors > 0.6 * margins).any(axis=1).mean() > 0.01


def test_blocks_must_be_those_of_the_factor():
    plant = turning().noise.plant_data
    with pytest.raises(ValueError, match="expected 3 entries in all"):
        Blocks(plant, np.eye(3), (2, 2))
    with pytest.raises(ValueError, match="expected an integer >= 1"):
        Blocks(plant, np.eye(3), (3, 0))
    part = Blocks(plant, np.eye(3), (2, 1))
    assert str(part.scaled(2.0)) == "structured rank 3, radial in blocks of 2, 1"


def test_what_blocks_do_not_hide_is_named():
    vehicle = pc.plants.vehicle()
    noise = designed("ball", vehicle, pc.InitialStateAdjacency(1.0))
    asked = replace(noise.request, blocks=(1, 1))
    with pytest.raises(ValueError, match="expected a factor whose columns they are"):
        of_request(asked, noise.plant_data)
    with pytest.raises(ValueError, match="blocks of radial noise hide listed moves"):
        of_request(asked, noise.plant_data, factor=np.eye(2))
