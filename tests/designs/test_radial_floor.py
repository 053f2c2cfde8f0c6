"""Radial noise beside a white floor, for several models, by second routes."""

import contextlib
import math

import cases
import control as ct
import numpy as np
import pytest
from repeats import few
from scipy import stats

import privcontrol as pc
from privcontrol.core import audit, kappa, truncated_radius
from privcontrol.deploy import Gateway
from privcontrol.loop.moments import expected_total
from privcontrol.privacy.law import BallLaw
from privcontrol.privacy.radial_design import truncation_beside

TIGHT = pc.PrivacyBudget(epsilon=1.0, delta=1e-5)
LOOSE = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
VEHICLE = pc.plants.vehicle()
BOTH = pc.StateAdjacency({"position": 1.0, "velocity": 0.5}, times=[0])
SAMPLES = 12


def other(plant, **changes):
    """The plant with some entries of A multiplied."""
    A = plant.A.copy()
    for (i, j), times in changes.get("A", {}).items():
        A[i, j] *= times
    labels = {
        "states": plant.state_labels,
        "inputs": plant.input_labels,
        "outputs": plant.output_labels,
    }
    return ct.ss(A, plant.B, plant.C, plant.D, plant.dt, **labels)


SLOWER = other(VEHICLE, A={(1, 1): 0.98})
FASTER = other(VEHICLE, A={(1, 1): 1.01, (0, 1): 1.02})


def designed(family, budget=LOOSE, plant=VEHICLE, adjacency=BOTH, **options):
    options = {"horizon": SAMPLES, "models": [SLOWER, FASTER], "floor": 0.5, **options}
    return pc.design_output_noise(
        plant, budget=budget, adjacency=adjacency, family=family, **options
    )


def stack(plant, states, samples=SAMPLES):
    rows = []
    for _ in range(samples):
        rows.append(plant.C @ states)
        states = plant.A @ states
    return np.vstack(rows)


@pytest.mark.parametrize("budget", few([TIGHT, LOOSE], of=1))
def test_both_shifts_are_those_of_dense_least_squares(budget):
    """The entries that leave least of a model's moves, and what they leave."""
    noise = designed("ball", budget)
    assert noise.guarantee.satisfies(budget)
    (row,) = noise.guarantee.loss.rows
    (((size, dimension, bound), count),) = row.radial
    assert (dimension, bound, count) == (2, math.inf, 1)
    own = stack(VEHICLE, noise.factor) / 0.5
    sizes, lefts = [], []
    for plant in (VEHICLE, SLOWER, FASTER):
        moved = stack(plant, np.diag([1.0, 0.5])) / 0.5
        entries = np.linalg.lstsq(own, moved, rcond=None)[0]
        sizes.append(np.linalg.norm(entries, axis=0).max())
        lefts.append(np.linalg.norm(moved - own @ entries, axis=0).max())
    assert size == pytest.approx(max(sizes), rel=1e-9)
    assert size >= max(sizes) * (1 - 1e-12)
    assert math.sqrt(row.square) == pytest.approx(max(lefts), rel=1e-6)
    assert lefts[0] < 1e-12 < lefts[1]


@pytest.mark.slow
def test_outputs_are_hidden_by_brute_force():
    """The hockey stick of the outputs' own densities, from integrals over one number."""
    lag = ct.ss(0.9, 1, 1, 0, 1.0, states=["x"], inputs=["u"], outputs=["y"])
    model = other(lag, A={(0, 0): 0.8})
    secret = pc.StateAdjacency({"x": 1.0}, times=[0])
    options = {"plant": lag, "adjacency": secret, "horizon": 3, "models": [model]}
    noise = designed("ball", **options)
    c = stack(lag, noise.factor, 3)[:, 0]
    xi, weights = np.polynomial.legendre.leggauss(600)
    xi, weights = 30 * xi, 30 * weights
    mixed = np.log(weights / 2) - np.abs(xi)

    def log_density(values):
        apart = values[:, :, None] - c[:, None] * xi
        logs = mixed - np.sum((apart / 0.5) ** 2, axis=1) / 2
        top = logs.max(axis=1)
        return top + np.log(np.exp(logs - top[:, None]).sum(axis=1))

    rng = np.random.default_rng(2)
    drawn = rng.laplace(size=(40_000, 1)) * c + 0.5 * rng.standard_normal((40_000, 3))
    worst = 0.0
    for plant in (lag, model):
        moved = stack(plant, np.ones((1, 1)), 3)[:, 0]
        for shift in (moved, -moved, 0.5 * moved):
            found = []
            for part in np.split(drawn, 8):
                found.append(log_density(part) - log_density(part - shift))
            excess = np.maximum(-np.expm1(1.0 - np.concatenate(found)), 0.0)
            error = excess.std() / math.sqrt(len(excess))
            assert excess.mean() <= 1e-2 + 4 * error
            worst = max(worst, excess.mean())
    assert worst > 3e-3
    # with the floor's share left out the model's moves would not be hidden
    assert noise.guarantee.loss.rows[0].square > 0


@pytest.mark.slow
def test_the_cheaper_of_both_laws_is_taken():
    for budget in (LOOSE, TIGHT):
        for floor in (0.25, 0.5, 1.0):
            costs = {}
            for family in ("gaussian", "ball", "truncated", "auto"):
                noise = designed(family, budget, floor=floor)
                assert noise.guarantee.satisfies(budget)
                costs[family] = noise.design.cost
            least = min(costs[law] for law in costs.keys() - {"auto"})
            assert costs["auto"] == pytest.approx(least, rel=1e-9)
            rows = noise.design.laws
            assert [row.law for row in rows] == sorted(
                costs.keys() - {"auto"}, key=costs.get
            )
            assert all(row.turns is None for row in rows)
    # a model that shares the column space takes nothing of the budget
    alike = designed("ball", TIGHT, models=[other(VEHICLE)])
    assert not alike.guarantee.loss.rows[0].square
    assert alike.std[0] == pytest.approx(
        math.hypot(designed("ball", TIGHT, models="exact", floor=0.0).std[0], 0.5),
        rel=2e-5,
    )


@pytest.mark.parametrize("budget", [LOOSE, TIGHT])
@pytest.mark.parametrize("rank", [1, 2])
def test_truncated_noise_is_hidden_beside_a_floor_by_draws(budget, rank):
    """The hockey stick of both draws together, at the shifts of dense least squares.

    The leak counts as a loss without end. With noise of 0.8 times the size a move is seen.
    """
    plant, secret, models = VEHICLE, BOTH, [SLOWER, FASTER]
    if rank == 1:
        plant = ct.ss(0.9, 1, 1, 0, 1.0, states=["x"], inputs=["u"], outputs=["y"])
        models = [other(plant, A={(0, 0): 0.88})]
        secret = pc.StateAdjacency({"x": 1.0}, times=[0])
    noise = designed("truncated", budget, plant, secret, models=models, floor=3.0)
    assert noise.guarantee.satisfies(budget)
    part, floor = noise.parts
    assert (part.once, noise.family) == (rank, "truncated")
    own = stack(plant, noise.factor) / floor.scale[0]
    sizes, lefts = [], []
    for model in (plant, *models):
        moved = stack(model, np.eye(rank) if rank == 1 else np.diag([1.0, 0.5])) / 3.0
        entries = np.linalg.lstsq(own, moved, rcond=None)[0]
        sizes.append(np.linalg.norm(entries, axis=0).max())
        lefts.append(np.linalg.norm(moved - own @ entries, axis=0).max())
    (row,) = noise.guarantee.loss.rows
    assert row.radial[0][0] == pytest.approx((max(sizes), rank, part.bound), rel=1e-9)
    assert math.sqrt(row.square) == pytest.approx(max(lefts), rel=1e-6)
    assert max(lefts) > 1e-3
    epsilon, delta = budget.pair
    found = []
    for gain in (1.0, 1 / 0.8):
        rng = np.random.default_rng(rank)
        eta = part.law.standard(rng, (400_000, rank))
        moved = eta.copy()
        moved[:, 0] -= max(sizes) * gain
        lengths = np.linalg.norm(moved, axis=1)
        losses = lengths - np.linalg.norm(eta, axis=1)
        losses += max(lefts) * rng.standard_normal(len(eta)) + max(lefts) ** 2 / 2
        excess = np.maximum(-np.expm1(epsilon - losses), 0.0)
        excess[lengths > part.bound] = 1.0
        found.append((excess.mean(), excess.std() / math.sqrt(len(eta))))
    assert found[0][0] <= delta + 4 * found[0][1]
    assert found[1][0] > delta + 4 * found[1][1]


def test_truncated_noise_beside_a_floor_takes_the_best_share_of_epsilon():
    """No rate of a grid, with the radius that its leak leaves, has less variance."""
    left, delta = 0.05, 1e-2
    size = truncation_beside(LOOSE, 1, left)
    rate, radius = size.rate, size.bound
    best = BallLaw(1, rate * radius).unit_variance / rate**2
    others = []
    for rest in np.linspace(0.01, 0.6, 120):
        leak = delta - kappa(rest, left)
        if leak > 0:
            own = 1 - rest
            bound = own * truncated_radius(own, leak, 1)
            others.append(BallLaw(1, bound).unit_variance / own**2)
    assert best == pytest.approx(min(others), rel=1e-3)
    assert best > BallLaw(1, truncated_radius(1.0, delta, 1)).unit_variance
    alone = truncation_beside(LOOSE, 1, 0.0)
    known = 1.0, truncated_radius(1.0, delta, 1)
    assert (alone.rate, alone.bound) == pytest.approx(known, rel=1e-12)
    near = truncation_beside(LOOSE, 1, 1e-12)
    assert (near.rate, near.bound) == pytest.approx((alone.rate, alone.bound), rel=1e-4)
    most = LOOSE.shift() * (1 - 1e-12)
    with pytest.raises(pc.PrivacyError, match='nearly nothing .* pass family="ball"'):
        truncation_beside(LOOSE, 1, most)
    with pytest.raises(ValueError, match="at most 2 directions"):
        truncation_beside(LOOSE, 3, left)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [LOOSE, TIGHT])
def test_the_floor_is_searched_for_beside_radial_noise(budget):
    """No floor of a grid is cheaper by one in a hundred, and "auto" takes the best law."""
    costs = {}
    for family in ("gaussian", "ball", "truncated"):
        noise = designed(family, budget, floor="auto")
        assert noise.family == family
        assert noise.guarantee.satisfies(budget)
        assert noise.guarantee_for([SLOWER, FASTER]).satisfies(budget)
        assert noise.request.floor == pytest.approx(noise.process.total.white)
        costs[family] = noise.design.cost
    for family in ("ball", "truncated"):
        for floor in np.geomspace(0.2, 1.5, 4):
            with contextlib.suppress(pc.PrivacyError):
                other = designed(family, budget, floor=floor)
                assert costs[family] <= 1.01 * other.design.cost
    auto = designed("auto", budget, floor="auto")
    assert auto.design.cost == pytest.approx(min(costs.values()), rel=1e-9)
    assert [row.cost for row in auto.design.laws] == sorted(costs.values())
    assert auto.family == auto.design.laws[0].law == min(costs, key=costs.get)


def test_auto_is_gaussian_where_a_chosen_floor_has_no_other_law():
    gdp = pc.PrivacyBudget(gdp=0.5)
    assert designed("auto", gdp, floor="auto").family == "gaussian"
    box = pc.PlantBox(VEHICLE, A=[[1e-3, 0], [0, 0]])
    assert designed("auto", floor="auto", models=box).family == "gaussian"
    with pytest.raises(ValueError, match="delta"):
        designed(None, pc.PrivacyBudget(epsilon=1.0), floor="auto")


def test_moments_and_draws_are_those_of_both_parts():
    noise = designed("ball")
    draws = noise.sample(30_000, rng=1)[0]
    assert draws.std(axis=0) == pytest.approx(noise.stds[0], rel=0.03)
    once = noise.process.law.unit_variance * stack(VEHICLE, noise.factor)
    once = once @ stack(VEHICLE, noise.factor).T
    whole = once + 0.25 * np.eye(SAMPLES)
    for t, s in ((0, 0), (3, 3), (5, 2), (2, 5)):
        assert noise.covariance(t, s)[0, 0] == pytest.approx(whole[t, s], rel=1e-9)
    stream = np.array(list(noise.stream(rng=5)))[:, 0]
    assert stream == pytest.approx(noise.sample(1, rng=5)[0, 0], rel=1e-9)
    core = noise.design.mechanism.noise
    assert core.covariance == pytest.approx(whole, rel=1e-9)
    drawn = core.sample(30_000, rng=2)
    assert np.cov(drawn.T) == pytest.approx(whole, abs=0.05 * whole.max())
    assert noise.design.cost == pytest.approx(np.trace(whole), rel=1e-9)


LOOP = cases.RUN | {"terminal": 0}


def test_a_loop_costs_as_with_gaussian_noise_of_the_same_covariance():
    """Linear filters see covariances only; margins hold for the law itself."""
    noise = designed("ball", models=[SLOWER])
    loop = pc.private_lqg(VEHICLE, noise=noise, **LOOP)
    factor = noise.factor * math.sqrt(noise.process.law.unit_variance)
    loose = pc.PrivacyBudget(gdp=10.0)
    alike = designed("gaussian", loose, factor=factor, models=[SLOWER])
    assert alike.stds == pytest.approx(noise.stds, rel=1e-9)
    same = pc.private_lqg(VEHICLE, noise=alike, **LOOP)
    assert expected_total(loop.data) == pytest.approx(
        expected_total(same.data), rel=1e-9
    )
    assert loop.cost().total == pytest.approx(same.cost().total, rel=1e-9)
    known = pc.eavesdropper(noise).error_covariance(3)
    assert known == pytest.approx(pc.eavesdropper(alike).error_covariance(3), rel=1e-6)
    margins = loop.margins([1, 0], probability=0.01)
    assert (margins > same.margins([1, 0], probability=0.01)).any()
    response = loop.simulate(trials=20_000, rng=3, **cases.DRAWN)
    states = np.asarray(response.states)
    errors = np.abs(states[0] - states[2])
    assert (errors > margins).any(axis=1).mean() <= 0.01
    assert (errors > 0.6 * margins).any(axis=1).mean() > 0.01
    best = pc.private_lqg(VEHICLE, noise=noise, codesign=True, family="auto", **LOOP)
    assert expected_total(best.data) <= expected_total(loop.data) * (1 + 1e-9)
    assert best.noise.guarantee.satisfies(LOOSE)


def test_files_gateways_and_audits_take_it(tmp_path):
    noise = designed("ball")
    noise.save(tmp_path / "noise.json")
    assert pc.load(tmp_path / "noise.json") == noise
    with Gateway(noise, path=tmp_path / "run.json", resolution=1e-3) as gateway:
        promise = gateway.guarantee
        values = [gateway.publish([0.25])[0] for _ in range(SAMPLES)]
    assert len(set(values)) > 1
    # the grid takes sqrt(T) h / f of the floor
    grid = math.sqrt(SAMPLES) * 1e-3 / 0.5
    own = math.sqrt(noise.guarantee.loss.rows[0].square)
    assert math.sqrt(promise.loss.rows[0].square) == pytest.approx(own + grid, rel=1e-9)
    assert promise.loss.rows[0].radial == noise.guarantee.loss.rows[0].radial
    found = audit(noise.design.mechanism, BOTH, trials=20_000, rng=0)
    assert "not refuted" in str(found)
    core = noise.design.mechanism.noise
    assert core.scaled(2.0).std == pytest.approx(2 * core.std)
    larger = noise.with_std(2 * noise.std[0])
    halved = larger.guarantee.loss.rows[0]
    assert math.sqrt(halved.square) == pytest.approx(own / 2, rel=1e-9)
    assert halved.radial[0][0][0] == pytest.approx(
        noise.guarantee.loss.rows[0].radial[0][0][0] / 2, rel=1e-9
    )


@pytest.mark.usefixtures("repeated_bits")
@pytest.mark.slow
def test_exact_samples_have_the_law_of_the_sum(tmp_path):
    """600 first samples of gateways against draws, at 1e-4; half more noise is seen."""
    noise = designed("ball")
    found = []
    for k in range(600):
        with Gateway(noise, path=tmp_path / f"{k}.json", resolution=1e-6) as gateway:
            found.append(gateway.publish([0.0])[0])
    drawn = noise.sample(60_000, rng=4)[0, :, 0]
    assert stats.ks_2samp(found, drawn).pvalue > 1e-4
    assert stats.ks_2samp(1.5 * np.array(found), drawn).pvalue < 1e-4


def test_a_grid_beside_the_floor_is_counted():
    noise = designed("ball", resolution=0.01)
    plain = designed("ball")
    grid = math.sqrt(SAMPLES) * 0.01 / 0.5
    for one, other in zip(
        noise.guarantee.loss.rows, plain.guarantee.loss.rows, strict=True
    ):
        assert math.sqrt(one.square) == pytest.approx(math.sqrt(other.square) + grid)
    assert noise.std[0] > plain.std[0]
    assert noise.guarantee.satisfies(LOOSE)


def test_releases_compose():
    noise = designed("ball", releases=3)
    assert noise.guarantee.released(3).satisfies(LOOSE)
    assert not designed("ball").guarantee.released(3).satisfies(LOOSE)


REGION = pc.PlantBox(VEHICLE, A=0.01 * np.abs(VEHICLE.A))
REFUSED = [
    ({"family": "laplace"}, "added to Gaussian and to radial noise"),
    ({"family": "truncated", "floor": 0.02}, "raise the floor by more than"),
    (
        {"family": "ball", "floor": "auto", "models": REGION},
        "no region of plants",
    ),
    (
        {"family": "ball", "floor": "auto", "models": "exact"},
        "for models or for a resolution",
    ),
    ({"family": "ball", "floor": 0.0}, "without a floor is for the exact plant"),
    (
        {"family": "ball", "floor": 0.0, "models": "exact", "resolution": 0.1},
        "readings on a grid .* pass a floor",
    ),
    ({"family": "ball", "floor": 0.02}, "raise the floor by more than"),
    (
        {"family": "ball", "models": REGION},
        "no region of plants",
    ),
]


@pytest.mark.parametrize("options, match", REFUSED)
def test_what_it_does_not_cover_is_named(options, match):
    with pytest.raises((ValueError, pc.PrivacyError), match=match):
        designed(**options)
