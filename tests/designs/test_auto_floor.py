"""floor="auto": the cheapest floor for all models and the sensor's grid together."""

import contextlib
import tracemalloc
import warnings
from dataclasses import replace

import cases
import control as ct
import cvxpy as cp
import numpy as np
import oracles
import pytest
from repeats import few

import privcontrol as pc
from privcontrol.core import kappa_inverse
from privcontrol.designs import cheapest_floor, design, designed, table
from privcontrol.designs.request import Request
from privcontrol.designs.useful import check_models
from privcontrol.systems.linear import Plant

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
ALLOWED = kappa_inverse(1.0, 1e-2)


def plant_of(A, C):
    return ct.ss(A, np.zeros((len(A), 1)), C, 0, 1.0)


def least_cost_of_any_floor(plants, adjacency, horizon):
    """min tr(O Sigma O^T + F) over Sigma and F = diag(variances) at once, by CVXPY."""
    stacks = [oracles.dense_observability(sys.A, sys.C, horizon) for sys in plants]
    stack = stacks[0]
    sigma = cp.Variable((stack.shape[1],) * 2, PSD=True)
    variances = cp.Variable(plants[0].noutputs, nonneg=True)
    pick = np.tile(np.eye(plants[0].noutputs), (horizon, 1))
    total = stack @ sigma @ stack.T + cp.diag(pick @ variances)
    cover = []
    for sys, other in zip(plants, stacks, strict=True):
        manifold = pc.trajectory_manifold(sys, horizon)
        images = other @ adjacency.moves(manifold).columns
        cover += [cp.matrix_frac(s, total) <= ALLOWED**2 for s in images.T]
    problem = cp.Problem(cp.Minimize(cp.trace(total)), cover)
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize("outputs", few([2, 3], of=1))
@pytest.mark.parametrize("seed", few(range(3), of=1))
def test_floors_of_several_outputs_are_those_of_the_convex_optimum(outputs, seed):
    """The costs agree to 1 in 100,000, for outputs that differ in size."""
    rng = np.random.default_rng([seed, outputs])
    A = 0.9 * np.linalg.qr(rng.normal(size=(2, 2)))[0]
    C = rng.normal(size=(outputs, 2)) * 10 ** rng.uniform(-1, 1, (outputs, 1))
    models = [plant_of(A * (1 + 0.03 * rng.normal(size=(2, 2))), C) for _ in range(2)]
    adjacency = pc.StateAdjacency(1.0, times=range(2))
    sys = plant_of(A, C)
    request = {"horizon": 5, "budget": BUDGET, "adjacency": adjacency}
    noise = pc.design_output_noise(sys, **request, floor="auto", models=models)
    least = least_cost_of_any_floor([sys, *models], adjacency, 5)
    assert noise.design.cost == pytest.approx(least, rel=1e-4)


@pytest.mark.parametrize("seed", few(range(3), of=1))
def test_auto_floor_is_within_one_percent_of_the_convex_optimum(seed):
    rng = np.random.default_rng(seed)
    A = 0.9 * np.linalg.qr(rng.normal(size=(2, 2)))[0]
    C = rng.normal(size=(1 + seed % 2, 2))
    models = [plant_of(A * (1 + 0.03 * rng.normal(size=(2, 2))), C) for _ in range(2)]
    adjacency = pc.StateAdjacency(1.0, times=range(2))
    sys = plant_of(A, C)
    noise = pc.design_output_noise(
        sys,
        horizon=5,
        budget=BUDGET,
        adjacency=adjacency,
        floor="auto",
        models=models,
    )
    best = least_cost_of_any_floor([sys, *models], adjacency, 5)
    assert best * (1 - 1e-4) < noise.design.cost < 1.01 * best
    assert noise.guarantee_for(models).satisfies(BUDGET)
    assert noise.guarantee.satisfies(BUDGET)


def test_auto_floor_beats_every_floor_of_a_grid_beside_a_resolution():
    sys = pc.plants.vehicle()
    models = pc.PlantBox(sys, A=[[1e-3, 0], [0, 0]]).corners()
    request = dict(
        horizon=30,
        budget=BUDGET,
        adjacency=pc.StateAdjacency({"position": 1.0}),
        models=models,
        resolution=0.02,
    )
    noise = pc.design_output_noise(sys, floor="auto", **request)
    costs = [
        pc.design_output_noise(sys, floor=floor, **request).design.cost
        for floor in np.geomspace(0.3, 6, 14)
    ]
    assert noise.design.cost < 1.01 * min(costs)
    assert noise.guarantee.satisfies(BUDGET)


def test_auto_floor_saves_and_names_its_numbers(tmp_path):
    sys = pc.plants.vehicle()
    noise = pc.design_output_noise(
        sys,
        horizon=10,
        budget=BUDGET,
        adjacency=pc.StateAdjacency({"position": 1.0}),
        resolution=0.02,
        floor="auto",
    )
    noise.save(tmp_path / "noise.json")
    assert pc.load(tmp_path / "noise.json") == noise
    assert noise.request.floor == pytest.approx(noise.process.total.white)


@pytest.mark.parametrize(
    "changes, cause",
    [
        ({}, "neither"),
        ({"models": "exact"}, "neither"),
        ({"floor": "most"}, "auto"),
        ({"family": "laplace", "resolution": 0.1}, "added to Gaussian and to radial"),
    ],
)
def test_auto_floor_says_what_it_needs(changes, cause):
    request = {"floor": "auto", **changes}
    with pytest.raises(ValueError, match=cause):
        pc.design_output_noise(
            pc.plants.vehicle(),
            horizon=10,
            budget=pc.PrivacyBudget(epsilon=1.0, delta=0.01),
            adjacency=pc.StateAdjacency({"position": 1.0}),
            **request,
        )


def test_the_warning_of_exact_models_names_the_call_that_changes_it():
    with pytest.warns(pc.PrivacyWarning, match='floor="auto" with models='):
        pc.design_output_noise(
            pc.plants.vehicle(),
            horizon=10,
            budget=BUDGET,
            adjacency=pc.StateAdjacency({"position": 1.0}),
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error", pc.PrivacyWarning)
        pc.design_output_noise(
            pc.plants.vehicle(),
            horizon=10,
            budget=BUDGET,
            adjacency=pc.StateAdjacency({"position": 1.0}),
            floor="auto",
            resolution=0.01,
        )


STATE = pc.StateAdjacency({"x[0]": 1.0}, times=0)
GUST = pc.DisturbanceAdjacency({"u[0]": 1.0}, duration=3, shape="level")


@pytest.mark.slow
@pytest.mark.parametrize("secret", [STATE, GUST], ids=["state", "gust"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_auto_floor_beats_every_floor_of_a_grid_in_a_box(secret, outputs):
    C = np.array([[1.0, 0.5], [0.0, 2.0]])[:outputs]
    sys = ct.ss([[0.9, 0.2], [-0.1, 0.8]], [[0.5], [1.0]], C, 0, 1.0)
    box = pc.PlantBox(sys, A=[[0.05, 0.0], [0.025, 0.0]])
    request = dict(horizon=8, budget=BUDGET, adjacency=secret, models=box)
    noise = pc.design_output_noise(sys, floor="auto", **request)
    costs = []
    for floor in np.geomspace(0.2, 0.8, 4) * noise.std.max():
        with contextlib.suppress(pc.PrivacyError, pc.UncertifiableError):
            found = pc.design_output_noise(sys, floor=floor, **request)
            costs.append(found.design.cost)
    assert len(costs) > 2
    assert noise.design.cost < 1.01 * min(costs)
    assert noise.design.lower_bound < min(costs)
    assert noise.guarantee.satisfies(BUDGET)
    assert noise.guarantee_for(box.sampled(20, rng=0)).satisfies(BUDGET)


@pytest.mark.parametrize("width", [0.1, 0.2])
def test_auto_floor_is_searched_far_above_independent_noise(width):
    plant = pc.plants.vehicle()
    request = dict(
        horizon=60,
        budget=BUDGET,
        adjacency=pc.StateAdjacency({"position": 1.0}, times=0),
        max_std=np.inf,
        models=pc.PlantBox(plant, A=width * np.eye(2)),
    )
    noise = pc.design_output_noise(plant, floor="auto", **request)
    least = noise.parts[-1].scale * np.array([[0.5], [2.0]])
    for floor in least:
        with contextlib.suppress(pc.PrivacyError, pc.UncertifiableError):
            other = pc.design_output_noise(plant, floor=floor, **request)
            assert noise.design.cost <= other.design.cost * 1.02


def counted_designs(monkeypatch):
    """Every design that is made from here on, whether it succeeds or not."""
    made = []
    size = table.sized

    def counted(problem):
        made.append(problem)
        return size(problem)

    for module in (design, designed, cheapest_floor):
        monkeypatch.setattr(module, "sized", counted)
    return made


def runaway(pole):
    names = dict(states=["x"], inputs=["w"], outputs=["y"])
    return ct.ss(pole, 1, 1, 0, 1.0, **names)


RUNAWAY = dict(horizon=60, budget=BUDGET, adjacency=pc.DisturbanceAdjacency({"w": 1.0}))


def test_models_of_which_one_runs_away_are_refused_before_a_design(monkeypatch):
    """Under the pole 1.6 the secret ends as 1.6^58, so its noise is above 1e4 times one."""
    made = counted_designs(monkeypatch)
    box = pc.PlantBox(runaway(0.9), A=[[0.7]])
    for models in ([runaway(1.6)], box):
        with pytest.raises(pc.PrivacyError, match="changes y by 6.9e[+]11"):
            pc.design_output_noise(runaway(0.9), models=models, floor="auto", **RUNAWAY)
    assert not made


def test_a_start_far_from_the_least_floor_takes_few_designs(monkeypatch):
    made = counted_designs(monkeypatch)
    noise = pc.design_output_noise(
        runaway(0.9), models=[runaway(2.5)], floor="auto", max_std=np.inf, **RUNAWAY
    )
    assert noise.guarantee.satisfies(BUDGET)
    assert len(made) < 30
    largest = 2.5**58 / BUDGET.shift()
    assert largest / np.sqrt(60) < noise.std[0] < 2 * largest


@pytest.mark.slow
@pytest.mark.parametrize("pole", [0.95, 1.05, 1.1, 1.2])
def test_models_are_refused_only_where_no_noise_is_small_enough(pole):
    request = dict(models=[runaway(pole)], floor="auto", **RUNAWAY)
    noise = pc.design_output_noise(runaway(0.9), max_std=np.inf, **request)
    again = pc.design_output_noise(runaway(0.9), max_std=noise.std, **request)
    assert np.array_equal(again.std, noise.std)
    needed = pole**58 / BUDGET.shift() / np.sqrt(60)
    with pytest.raises(pc.PrivacyError, match="under one of them|has a standard"):
        pc.design_output_noise(runaway(0.9), max_std=0.99 * needed, **request)


def test_models_of_a_long_run_are_looked_at_in_little_memory():
    """All changes of a run of 200,000 samples would be numbers of 256 MB."""
    plant = ct.ss(0.5 * np.eye(4), np.zeros((4, 1)), np.eye(4)[:1], 0, 1.0)
    request = Request(200_000, BUDGET, pc.InitialStateAdjacency(1.0, norm=1))
    request = replace(request, models=(Plant.of(plant),))
    tracemalloc.start()
    check_models(request, Plant.of(plant), None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6


def test_a_floor_that_hides_nearly_all_leaves_noise_that_meets_its_budget():
    """It was refused for an excess of 4e-15, since the size of the rest hardly counts."""
    rng = np.random.default_rng(70)
    states, outputs = int(rng.integers(1, 5)), int(rng.integers(1, 3))
    plant = cases.random_plant(70, states, 1, outputs, rng.uniform(0.5, 1))
    request = {
        "horizon": 15,
        "budget": pc.PrivacyBudget(gdp=0.5),
        "adjacency": pc.DisturbanceAdjacency({"u[0]": 1.0}, norm="l2"),
        "models": "exact",
        "resolution": 0.7259318069453653,
        "max_std": np.inf,
    }
    noise = pc.design_output_noise(plant, floor="auto", **request)
    alone = pc.design_output_noise(plant, family="iid-gaussian", **request)
    assert noise.guarantee.gdp <= 0.5
    assert noise.design.cost <= alone.design.cost
