"""Radial noise in blocks for a weight that does not read all of a secret, by other routes."""

import json
import math
from functools import cache

import control as ct
import matplotlib.pyplot as plt
import numpy as np
import pytest
from gateway_cases import published_in_two_runs
from twins import (
    ANY_TIME,
    SAMPLES,
    TIGHT,
    TURNING,
    TWINS,
    WEIGHTS,
    designed,
    moved_entries,
)

import privcontrol as pc
from privcontrol import deploy, verify
from privcontrol.core import audit, ball_rate, blocks
from privcontrol.designs import radial
from privcontrol.noise.parts import Blocks

LOOSE = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
OF_PLANE = np.diag([1.0, 1.0, 0.0])
OF_SUM = np.ones((2, 2))


@cache
def of_plane(family="ball", budget=TIGHT, **options):
    return designed(
        family, TURNING, ANY_TIME, budget, horizon=SAMPLES, weight=OF_PLANE, **options
    )


# -- what they cost ------------------------------------------------------------------


def test_the_sum_of_two_lags_costs_what_one_number_costs():
    """18.913 Gaussian and 8.107 with one radial law in a loop; here 3/2 of one number."""
    powers = sum(0.9 ** (2 * t) for t in range(20))
    one_number = 2 / ball_rate(1.0, 1e-5, 1) ** 2 * powers
    noise = designed("ball", weight=OF_SUM)
    assert noise.parts[0].sizes == (1, 1)
    assert noise.family == "ball"
    assert one_number < noise.design.cost < 1.002 * one_number
    one_law = 3 / ball_rate(1.0, 1e-5, 2) ** 2 * powers
    truncated = designed("truncated", weight=OF_SUM)
    assert truncated.design.cost == pytest.approx(one_law, rel=2e-3)
    assert not isinstance(truncated.parts[0], Blocks)


@pytest.mark.slow
def test_a_weight_of_a_loop_that_reads_one_direction_does_the_same():
    plain = designed("gaussian")
    loop = pc.private_lqg(TWINS, noise=plain, **WEIGHTS)
    costs = {law: designed(law, weight=loop).design.cost for law in ("ball", "laplace")}
    gaussian = designed("gaussian", weight=loop).design.cost
    assert costs["ball"] == pytest.approx(costs["laplace"], rel=2e-3)
    assert costs["ball"] < 0.15 * gaussian


@pytest.mark.slow
@pytest.mark.parametrize("budget", [TIGHT, LOOSE])
def test_a_plane_costs_what_it_costs_alone(budget):
    """The lag is hidden for nothing; one radial law of all three costs a third more."""
    noise = of_plane(budget=budget)
    assert noise.parts[0].sizes == (2, 1)
    both = pc.StateAdjacency({"east": 1.0, "north": 1.0})
    plane = ct.ss(
        TURNING.A[:2, :2],
        TURNING.B[:2],
        np.eye(2),
        0,
        1.0,
        states=TURNING.state_labels[:2],
    )
    alone = designed("ball", plane, both, budget, horizon=SAMPLES).design.cost
    assert alone * (1 - 1e-9) < noise.design.cost < 1.003 * alone
    assert noise.design.cost >= noise.design.universal_bound
    one_law = 4 / ball_rate(*budget.pair, 3) ** 2 * 2 * SAMPLES
    assert noise.design.cost < 0.9 * one_law
    laplace = of_plane("laplace", budget).design.cost
    assert noise.design.cost < 0.9 * laplace
    auto = of_plane("auto", budget)
    assert auto.design.cost == pytest.approx(noise.design.cost, rel=1e-9)


@pytest.mark.slow
def test_what_the_weight_does_not_read_is_not_larger_than_it_has_to_be():
    """A lag that moves alone has nearly its own least noise, at times up to 11 of it.

    What shares its moves with others goes up to a thousand times the least.
    """
    noise = of_plane()
    largest = max(0.8**-time for time in range(SAMPLES))
    least = math.sqrt(2) * largest
    assert noise.std[2] < 2.1 * least
    twins = designed("ball", weight=OF_SUM)
    least = designed("ball", TWINS, pc.StateAdjacency({"first": 1.0}, times=[0])).std[0]
    assert 300 < twins.std.max() / least < 1000


def test_blocks_are_searched_for_only_where_a_direction_is_hardly_read(monkeypatch):
    """At 0.02 of the largest price both are read, at 0.005 one is not."""
    asked = []
    monkeypatch.setattr(blocks, "cheapest_blocks", lambda *_: asked.append(1) or [])
    across = np.array([[1.0, -1.0], [-1.0, 1.0]])
    for share, count in ((0.02, 0), (0.005, 1)):
        asked.clear()
        designed("ball", weight=OF_SUM + share * across)
        assert len(asked) == count, share
    asked.clear()
    designed("ball", TWINS, pc.InitialStateAdjacency(1.0), weight=OF_SUM)
    designed("ball")
    designed("gaussian", weight=OF_SUM)
    assert not asked


def test_an_uncertain_block_design_leaves_one_law(monkeypatch):
    def failing(problem):
        raise pc.UncertifiableError("nothing")

    monkeypatch.setattr(radial, "_in_blocks", failing)
    noise = designed("ball", weight=OF_SUM)
    assert not isinstance(noise.parts[0], Blocks)


# -- what they hide ------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("budget", [TIGHT, LOOSE])
def test_each_move_is_hidden_by_brute_force(budget):
    """Smaller moves too; 400,000 draws see a delta that is 10 % of a hundredth off."""
    noise = of_plane(budget=budget)
    entries = moved_entries(noise, TURNING, SAMPLES)
    rng = np.random.default_rng(5)
    eta, losses_of = [], []
    for size in noise.parts[0].sizes:
        shares = rng.chisquare(size + 1, size=(400_000, 1)) / (size + 1)
        eta.append(rng.standard_normal((400_000, size)) * np.sqrt(shares))
        losses_of.append(math.sqrt(size + 1))
    epsilon, delta = budget.pair
    largest = 0.0
    for shift in entries.T:
        for scale in (1.0, 0.5):
            losses, start = 0.0, 0
            for drawn, rate in zip(eta, losses_of, strict=True):
                own = scale * shift[start : start + drawn.shape[1]]
                start += drawn.shape[1]
                moved = np.linalg.norm(drawn - own, axis=1)
                losses = losses + rate * (moved - np.linalg.norm(drawn, axis=1))
            excess = np.maximum(-np.expm1(epsilon - losses), 0.0)
            error = excess.std() / math.sqrt(len(excess))
            assert excess.mean() <= delta + 4 * error
            largest = max(largest, excess.mean())
    if budget is LOOSE:
        assert largest > 0.95 * delta  # all of the budget is used


@pytest.mark.slow
def test_several_releases_keep_their_budget():
    noise = of_plane(releases=2)
    assert noise.guarantee.released(2).satisfies(TIGHT)
    assert not noise.guarantee.released(3).satisfies(TIGHT)


# -- what is done with them ------------------------------------------------------------


@pytest.mark.slow
def test_the_table_of_laws_names_the_blocks():
    noise = designed("auto", weight=OF_SUM)
    rows = {option.law: option for option in noise.design.laws}
    assert rows["ball"].blocks == (1, 1)
    assert rows["ball"].turns is None
    assert str(rows["ball"]).startswith("ball in blocks of 1, 1: advantage ")
    assert rows["truncated"].blocks == ()
    assert "ball in blocks of 1, 1" in noise.design.explain()


def test_everything_that_takes_noise_takes_it(tmp_path, capsys):
    noise = of_plane()
    path = str(tmp_path / "noise.json")
    noise.save(path)
    assert pc.load(path) == noise
    assert deploy.main(["show", path]) == 0
    shown = capsys.readouterr().out
    assert "structured rank 3, radial in blocks of 2, 1" in shown
    assert deploy.main(["check", path]) == 0
    capsys.readouterr()
    assert verify.main(["--json", path]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "holds"
    with pytest.warns(pc.PrivacyWarning, match="resolution"):
        published = published_in_two_runs(noise, tmp_path / "state.json")
    assert np.isfinite(published).all()
    stream = np.array([*noise.stream(rng=2)])
    np.testing.assert_allclose(stream, noise.sample(1, rng=2)[:, 0].T)
    found = audit(noise.design.mechanism, ANY_TIME, trials=20_000, rng=0)
    assert 0.5 < found.epsilon_lower <= 1.0
    noise.plot()
    plt.close("all")
    told = pc.eavesdropper(noise)
    # the best linear estimate of the start errs by the noise's own covariance
    np.testing.assert_allclose(
        told.error_covariance(0), noise.initial_state_covariance, rtol=1e-6, atol=1e-3
    )


def test_loops_take_it_and_say_how_good_it_is():
    noise = designed("ball", weight=OF_SUM)
    loop = pc.private_lqg(TWINS, noise=noise, **WEIGHTS)
    assert loop.guarantee.satisfies(TIGHT)
    plain = pc.private_lqg(TWINS, noise=designed("gaussian"), **WEIGHTS)
    assert loop.cost().total < plain.cost().total
    found = loop.optimality
    # nothing is known of other blocks
    assert found.lower_bound == found.universal_bound < found.cost


def test_a_secret_that_one_direction_hides_is_one_law():
    vehicle = pc.plants.vehicle()
    noise = designed(
        "ball", vehicle, pc.StateAdjacency({"position": 1.0}), weight=[1.0]
    )
    assert not isinstance(noise.parts[0], Blocks)
