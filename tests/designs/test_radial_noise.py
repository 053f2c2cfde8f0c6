"""Output noise of radial laws: its promise by brute force, its files, and what it does not cover."""

import math
from dataclasses import replace

import control as ct
import numpy as np
import pytest

import privcontrol as pc
from privcontrol.core import ball_rate, kappa_inverse
from privcontrol.core.loss import PrivacyLoss
from privcontrol.deploy import Gateway
from privcontrol.loop.optimum import expected_total
from privcontrol.noise.parts import Radial, Structured
from privcontrol.noise.shift import certify
from privcontrol.verify import main as verify

VEHICLE = pc.plants.vehicle()
POSITION = pc.StateAdjacency({"position": 1.0})
LOOSE = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
TIGHT = pc.PrivacyBudget(epsilon=1.0, delta=1e-5)
LAWS = ("gaussian", "laplace", "ball", "truncated")


def designed(family, budget=LOOSE, adjacency=POSITION, plant=VEHICLE, **options):
    options = {"horizon": 60, "models": "exact", **options}
    return pc.design_output_noise(
        plant, budget=budget, adjacency=adjacency, family=family, **options
    )


def plant_of(states, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((states, states))
    A *= 0.95 / np.abs(np.linalg.eigvals(A)).max()
    names = [f"x{k}" for k in range(states)]
    C = rng.standard_normal((1, states))
    return ct.ss(A, np.ones((states, 1)), C, 0, 1.0, states=names)


CASES = [
    (VEHICLE, POSITION),
    (VEHICLE, pc.InitialStateAdjacency(1.0)),
    (plant_of(3, 1), pc.StateAdjacency({"x0": 1.0, "x2": 0.5}, times=[0])),
    (plant_of(4, 2), pc.InitialStateAdjacency(1.0)),
]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("family", ["ball", "truncated"])
def test_each_move_is_hidden_by_brute_force(case, family):
    """The hockey-stick divergence of outputs with and without a move, from 400,000 draws."""
    plant, adjacency = CASES[case]
    rank = designed("gaussian", LOOSE, adjacency, plant, max_std=np.inf).factor.shape[1]
    if family == "truncated" and rank > 2:
        with pytest.raises(ValueError, match='at most 2 directions, .*; take "ball"'):
            designed(family, LOOSE, adjacency, plant, max_std=np.inf)
        return
    noise = designed(family, LOOSE, adjacency, plant, max_std=np.inf)
    assert noise.guarantee.satisfies(LOOSE)
    (part,) = noise.parts
    responses = part.responses(60)[:, 0, :]
    query = noise.design.mechanism.query
    moves = query.response @ adjacency.moves(query.manifold).vectors
    # of a ball also along the axis that noise hides least
    shifts = np.linalg.lstsq(responses, moves, rcond=None)[0]
    if adjacency.moves(query.manifold).is_ball:
        moves = moves @ np.linalg.svd(shifts)[2].T
    eta = part.law.standard(np.random.default_rng(case), (400_000, part.once))
    lengths = np.linalg.norm(eta, axis=1)
    worst = 0.0
    sizes = np.linalg.norm(shifts, axis=0)
    for move in moves.T[np.argsort(-sizes)[:2]]:
        shift, *_ = np.linalg.lstsq(responses, move, rcond=None)
        assert responses @ shift == pytest.approx(move, abs=1e-6)
        for scale in (1.0, 0.6):  # smaller moves are neighbours too
            moved = np.linalg.norm(eta - scale * shift, axis=1)
            losses = np.where(moved > part.bound, np.inf, moved - lengths)
            excess = np.maximum(-np.expm1(1.0 - losses), 0.0)
            assert excess.mean() <= 1e-2 + 5 * excess.std() / math.sqrt(len(eta))
            worst = max(worst, excess.mean())
    assert worst >= 0.9e-2  # and the budget is used


def test_samples_have_the_covariance_and_streams_are_their_prefix():
    for family in ("ball", "truncated"):
        noise = designed(family, adjacency=pc.InitialStateAdjacency(1.0))
        draws = noise.sample(20_000, rng=1)[0]
        sizes = draws.std(axis=0) / noise.stds[0]
        assert np.abs(sizes - 1).max() < 0.05
        stream = np.array(list(noise.stream(rng=5)))[:, 0]
        assert stream == pytest.approx(noise.sample(1, rng=5)[0, 0], rel=1e-9)


def test_costs_are_those_of_the_law():
    gaussian = designed("gaussian", TIGHT)
    ball = designed("ball", TIGHT)
    std = math.sqrt(2) / ball_rate(1.0, 1e-5, 1)
    assert ball.std[0] == pytest.approx(std, rel=1e-9)
    assert gaussian.std[0] == pytest.approx(1 / kappa_inverse(1.0, 1e-5), rel=1e-9)
    assert designed("truncated", LOOSE).std[0] == pytest.approx(1.29, abs=1e-4)
    assert abs(ball.design.gap) < 1e-9


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("budget", [LOOSE, TIGHT, pc.PrivacyBudget(epsilon=1.0)])
def test_auto_is_never_dearer_than_another_law(case, budget):
    plant, adjacency = CASES[case]
    options = {"adjacency": adjacency, "plant": plant, "max_std": np.inf}
    auto = designed("auto", budget, **options)
    assert auto.guarantee.satisfies(budget)
    for law in ("laplace",) if budget.pure else ("laplace", "gaussian"):
        other = designed(law, budget, **options)
        assert auto.design.cost <= other.design.cost * (1 + 2e-6)


def test_auto_is_gaussian_for_what_other_laws_do_not_cover():
    assert designed("auto", pc.PrivacyBudget(gdp=1.0)).family == "gaussian"
    assert designed("auto", floor=0.1).family == "gaussian"
    # several releases turn the order of the laws
    assert designed("auto", releases=1).family == "truncated"
    assert designed("auto", releases=4).family == "gaussian"


@pytest.mark.parametrize("family", ["ball", "truncated"])
def test_files_come_back_bit_by_bit(tmp_path, family):
    for adjacency in (POSITION, pc.InitialStateAdjacency(1.0)):
        noise = designed(family, TIGHT, adjacency)
        noise.save(tmp_path / "noise.json")
        loaded = pc.load(tmp_path / "noise.json")
        assert loaded == noise
        assert loaded.guarantee.loss == noise.guarantee.loss
        assert verify([str(tmp_path / "noise.json")]) == 2  # not covered


def test_altered_files_are_refused(tmp_path):
    noise = designed("ball", TIGHT)
    (part,) = noise.parts
    for other in (part.scaled(0.9), replace(part, bound=3.0)):
        claimed = replace(noise, parts=(other,), promised=None)
        claimed.save(tmp_path / "noise.json")
        with pytest.raises((ValueError, pc.PrivacyError), match="path: the"):
            pc.load(tmp_path / "noise.json")


def test_laws_and_parts_must_agree():
    noise = designed("ball")
    (part,) = noise.parts
    world = noise.request.world(noise.plant_data)
    alike = Structured(part.plant, part.factor)
    for parts, family in [
        ((part,), "gaussian"),
        ((part,), "truncated"),
        ((alike,), "ball"),
    ]:
        with pytest.raises(ValueError, match="family"):
            certify(parts, POSITION, world, family)
    assert isinstance(part, Radial)
    assert certify((part,), POSITION, world, "ball") == noise.guarantee.loss


def test_a_larger_move_costs_what_its_size_says():
    noise = designed("ball", TIGHT)
    twice = noise.with_std(noise.std[0] / 2)
    size = 2 * ball_rate(1.0, 1e-5, 1)
    expected = PrivacyLoss.radial(size, 1).delta(1.0)
    assert twice.guarantee.delta(1.0) == pytest.approx(expected, rel=1e-6)
    cut = designed("truncated", LOOSE)
    assert cut.with_std(2 * cut.std[0]).guarantee.delta(1.0) < 1e-2


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"horizon": np.inf}, "horizon: radial noise"),
        (
            {"adjacency": pc.DisturbanceAdjacency({"acceleration": 1.0})},
            "adjacency: radial",
        ),
        ({"models": [VEHICLE]}, "models: radial noise has no floor"),
        ({"resolution": 0.1}, "resolution: readings on a grid"),
        ({"floor": 0.1}, "floor: a white floor is added to Gaussian noise only"),
        ({"factor": [[1.0], [0.0]]}, "factor, covariance"),
    ],
)
def test_what_radial_noise_does_not_cover_is_named(options, match):
    for family in ("ball", "truncated"):
        with pytest.raises((ValueError, pc.PrivacyError), match=match):
            designed(family, **options)


def test_a_gateway_refuses_radial_noise_clearly(tmp_path):
    with pytest.raises(
        pc.PrivacyError, match=r"got 'ball' noise.*noise\.design\.release"
    ):
        Gateway(designed("ball"), path=tmp_path / "state.json", floating=True)


def test_a_run_is_released_exactly():
    noise = designed("ball")
    zero = np.zeros(noise.design.mechanism.query.manifold.size)
    runs = noise.design.release(zero, size=300)
    assert np.ptp(runs, axis=1).max() < 1e-3  # one offset for the whole run
    assert runs[:, 0].std() == pytest.approx(noise.std[0], rel=0.3)


def test_the_truncated_law_says_that_it_excludes_neighbours():
    text = designed("truncated").guarantee.explain()
    assert "with probability up to delta" in text


# -- in the loop -------------------------------------------------------------------------

LOOP = {
    "Q": np.diag([1, 0.1]),
    "R": 0.1,
    "QN": np.diag([1e-4, 1e-3]),
    "RN": 0.01,
    "P0": np.diag([4.0, 1.0]),
    "terminal": 0,
}
#: The vehicle's price of privacy over 60 samples, of which 42.23 are those without.
PRICES = {
    (LOOSE, "gaussian"): 95.63,
    (LOOSE, "ball"): 66.23,
    (LOOSE, "truncated"): 59.95,
    (TIGHT, "gaussian"): 158.57,
    (TIGHT, "ball"): 68.02,
}


@pytest.mark.parametrize(("budget", "family"), PRICES)
def test_the_price_of_a_law_in_the_loop(budget, family):
    noise = designed(family, budget)
    loop = pc.private_lqg(VEHICLE, noise=noise, **LOOP)
    price = expected_total(loop) - 42.2283
    assert price == pytest.approx(PRICES[budget, family], abs=0.006)
    assert loop.optimality.excess < 1e-6


def test_the_loops_optimum_of_a_law_has_its_budget_and_costs_no_more():
    plant = plant_of(3, 1)
    adjacency = pc.StateAdjacency({"x0": 1.0, "x2": 0.5}, times=[0])
    weights = {"Q": 1.0, "R": 1.0, "QN": 1e-3, "RN": 1e-2, "P0": 4.0}
    costs = {}
    for family in ("gaussian", "ball", "truncated"):
        noise = designed(family, LOOSE, adjacency, plant, horizon=20)
        plain = pc.private_lqg(plant, noise=noise, **weights)
        best = pc.private_lqg(plant, noise=noise, codesign=True, **weights)
        assert best.noise.guarantee.satisfies(LOOSE)
        assert best.noise.family == family
        assert expected_total(best) <= expected_total(plain) * (1 + 1e-9)
        assert -1e-9 <= best.optimality.gap < 1e-3
        costs[family] = expected_total(best)
    assert costs["truncated"] < costs["ball"] < costs["gaussian"]


def test_margins_refuse_laws_that_are_not_gaussian():
    loop = pc.private_lqg(VEHICLE, noise=designed("ball"), **LOOP)
    with pytest.raises(ValueError, match="margins are those of Gaussian noise"):
        loop.margins([1, 0], probability=0.01)
