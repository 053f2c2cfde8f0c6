"""Plants that change from sample to sample: a bound that no sequence of plants exceeds.

The second route is dense: the covariance of a run of the noise, and the outputs' response to
a change under sequences of vertices, all of them or many.
"""

import itertools
from dataclasses import replace

import cases
import control as ct
import numpy as np
import pytest
from repeats import few
from varying_cases import forced, whitening, worst_energy

import privcontrol as pc
from privcontrol.designs import varying_design
from privcontrol.designs.request import joined
from privcontrol.noise import _program
from privcontrol.noise._program import Program
from privcontrol.noise._vertices import VaryingSecret
from privcontrol.noise.parts import White
from privcontrol.numerics.balls import ball_matrix, working_bits
from privcontrol.regions import halving
from privcontrol.secrets.secret import SecretInputs, SignalMoves
from privcontrol.systems.linear import LinearSystem

NAMES = dict(states=["air"], inputs=["people"], outputs=["temperature"])
PEOPLE = pc.DisturbanceAdjacency({"people": 1.0})
ALLOWED = cases.BUDGET.shift()


def lag(pole, gain=1.0):
    return ct.ss(pole, gain, 1.0, 0.0, 300.0, **NAMES)


def between(*poles, **options):
    return pc.PlantPolytope([lag(pole) for pole in poles], **options)


def spread(plant, share, entry=(0, 1)):
    """Two plants whose entry of A differs by a share to both sides."""
    vertices = []
    for sign in (-1, 1):
        A = plant.A.copy()
        A[entry] *= 1 + sign * share
        names = dict(states=plant.state_labels, outputs=plant.output_labels)
        vertices.append(ct.ss(A, plant.B, plant.C, plant.D, plant.dt, **names))
    return pc.PlantPolytope(vertices)


def design(plant, adjacency=PEOPLE, horizon=np.inf, **options):
    return pc.design_output_noise(
        plant, horizon=horizon, budget=cases.BUDGET, adjacency=adjacency, **options
    )


SECRETS = {
    "single": PEOPLE,
    "lasting": pc.DisturbanceAdjacency({"people": 1.0}, duration=4, shape="level"),
    "shaped": pc.DisturbanceAdjacency({"people": 0.5}, profiles=[[1.0, -2.0]]),
    "state": pc.StateAdjacency({"air": 1.0}, times=0),
    "ball": pc.InitialStateAdjacency(1.0),
    "several": [PEOPLE, pc.InitialStateAdjacency(1.0)],
    "energy": pc.DisturbanceAdjacency({"people": 1.0}, norm="l2"),
}


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
def test_without_spread_the_guarantee_is_that_of_the_exact_plant(name, family):
    options = dict(floor=0.3) if family == "gaussian" else {}
    noise = design(lag(0.5), SECRETS[name], family=family, **options)
    found = noise.guarantee_for(between(0.5, 0.5)).gdp
    expected = noise.guarantee.gdp
    assert found == pytest.approx(expected, rel=2e-8)
    assert noise.guarantee_for([lag(0.5)]).gdp == pytest.approx(found, rel=1e-8)


@pytest.mark.parametrize("share, slack", [(0.02, 1.024), (0.1, 1.12), (0.2, 1.27)])
@pytest.mark.parametrize("duration", [1, 3])
def test_the_bound_is_close_to_the_worst_of_all_sequences(share, slack, duration):
    poles = (0.5 * (1 - share), 0.5 * (1 + share))
    secret = pc.DisturbanceAdjacency({"people": 1.0}, duration=duration, shape="level")
    noise = design(lag(0.5), secret)
    vertices = [lag(pole) for pole in poles]
    T = 10
    root = whitening(noise, T)
    # the noise of a run from its stationary law hides a little more than that from rest
    every = list(itertools.product(range(2), repeat=T))
    responses = root @ forced(vertices, every, 0, 0, np.ones(duration))
    worst = np.linalg.norm(responses, axis=0).max()
    bound = noise.guarantee_for(between(*poles)).gdp
    assert worst <= bound <= slack * worst * 1.05


@pytest.mark.parametrize("seed", few(range(4), of=2))
@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
def test_no_sampled_sequence_of_a_larger_plant_exceeds_the_bound(seed, family):
    plant = cases.random_plant(seed, states=3, outputs=2, radius=0.8)
    secret = pc.DisturbanceAdjacency({"u[0]": 1.0, "u[1]": 0.5})
    noise = design(plant, secret, family=family)
    polytope = spread(plant, 0.1)
    bound = noise.guarantee_for(polytope).gdp
    T, rng = 40, np.random.default_rng(seed)
    root = whitening(noise, T)
    vertices = [ct.ss(v.A, v.B, v.C, v.D, v.dt) for v in polytope.vertices]
    worst = 0.0
    for column, size in enumerate((1.0, 0.5)):
        runs = [np.full(T, k) for k in range(2)] + list(rng.integers(2, size=(150, T)))
        responses = root @ forced(vertices, runs, column, 0, [size])
        worst = max(worst, np.linalg.norm(responses, axis=0).max())
    assert worst <= bound <= 1.15 * worst


def test_the_worst_vertex_counts_and_not_their_mean():
    noise = design(lag(0.5), family="iid-gaussian")
    bound = noise.guarantee_for(between(0.2, 0.8)).gdp
    size = float(noise.std[0])
    constant = 1 / np.sqrt(1 - 0.8**2) / size
    assert constant <= bound <= constant * (1 + 1e-6)


@pytest.mark.parametrize("poles", [(0.5, 1.05), (0.9, 1.0), (-1.2, 0.3)])
def test_a_vertex_that_never_forgets_does_not_pass(poles):
    noise = design(lag(0.5))
    with pytest.raises(pc.UncertifiableError, match="does not decay"):
        noise.guarantee_for(between(*poles))
    with pytest.raises(pc.UncertifiableError, match="does not decay"):
        design(lag(np.mean(poles)), models=between(*poles))


def test_stable_vertices_that_grow_by_turns_do_not_pass():
    A = np.array([[0.5, 2.0], [0.0, 0.5]])
    names = dict(states=["a", "b"], inputs=["u"], outputs=["y"])
    B, C = np.ones((2, 1)), np.ones((1, 2))
    vertices = [ct.ss(matrix, B, C, 0, 1.0, **names) for matrix in (A, A.T)]
    assert np.abs(np.linalg.eigvals(A @ A.T)).max() > 1
    noise = design(vertices[0], pc.DisturbanceAdjacency(1.0), family="iid-gaussian")
    with pytest.raises(pc.UncertifiableError, match="does not decay"):
        noise.guarantee_for(pc.PlantPolytope(vertices))


@pytest.mark.parametrize("duration", few([3, 1], of=1))
def test_a_finite_run_of_a_plant_that_never_forgets_has_a_bound(duration):
    polytope = between(0.95, 1.05)
    secret = pc.DisturbanceAdjacency({"people": 1.0}, duration=duration, shape="level")
    options = dict(horizon=11, models=polytope)
    vertices = [lag(0.95), lag(1.05)]
    sequences = list(itertools.product(range(2), repeat=11))
    every = np.hstack(
        [forced(vertices, sequences, 0, start, np.ones(duration)) for start in (0, 5)]
    )
    costs = []
    for family, least in (("iid-gaussian", 0.96), ("gaussian", 0.7)):
        noise = design(lag(1.0), secret, family=family, **options)
        assert noise.guarantee.gdp <= ALLOWED
        root = np.linalg.cholesky(noise.design.noise.covariance)
        worst = np.linalg.norm(np.linalg.solve(root, every), axis=0).max()
        assert least * ALLOWED <= worst <= noise.guarantee.gdp
        costs.append(noise.design.cost)
    assert costs[1] < costs[0]


def test_the_vehicle_is_hidden_at_its_start_while_its_time_step_varies():
    vehicle = pc.plants.vehicle()
    names = dict(
        states=vehicle.state_labels,
        inputs=vehicle.input_labels,
        outputs=vehicle.output_labels,
    )
    vertices = [
        ct.ss([[1, step], [0, 1]], vehicle.B, vehicle.C, 0, 0.1, **names)
        for step in (0.08, 0.12)
    ]
    secret = pc.StateAdjacency({"position": 1.0, "velocity": 1.0}, times=0)
    models = pc.PlantPolytope(vertices)
    noise = design(vehicle, secret, horizon=30, models=models, family="iid-gaussian")
    # the worst velocity: the longest step at every sample
    worst = np.linalg.norm(0.12 * np.arange(30)) / noise.std[0]
    assert worst <= noise.guarantee.gdp <= worst * 1.02
    with pytest.raises(ValueError, match="state at a later time"):
        noise.guarantee_for(
            pc.PlantPolytope(vertices), adjacency=pc.StateAdjacency({"velocity": 1.0})
        )


@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
def test_signals_of_bounded_energy_are_hidden_under_every_sequence(family):
    secret = pc.DisturbanceAdjacency({"people": 1.0}, norm="l2")
    options = dict(floor=0.4) if family == "gaussian" else {}
    polytope = between(0.45, 0.55)
    noise = design(lag(0.5), secret, family=family, models=polytope, **options)
    worst = worst_energy(noise, [lag(0.45), lag(0.55)], 30)
    assert 0.95 * ALLOWED <= worst <= noise.guarantee.gdp <= ALLOWED


@pytest.mark.parametrize(
    "share, slack, floor",
    few(
        [
            *((0.02, 1.024, 0.3), (0.2, 1.27, 3.0), (0.1, 1.12, 0.3)),
            *((0.02, 1.024, 3.0), (0.2, 1.27, 0.3), (0.1, 1.12, 3.0)),
        ],
        of=2,
    ),
)
def test_noise_that_enters_with_the_secret_follows_a_plant_that_varies(
    share, slack, floor
):
    plant = cases.random_plant(1, states=3, outputs=2, radius=0.7)
    secret = pc.DisturbanceAdjacency(1.0, norm="l2")
    noise = design(plant, secret, floor=floor)
    polytope = spread(plant, share)
    bound = noise.guarantee_for(polytope).gdp
    vertices = [ct.ss(v.A, v.B, v.C, v.D, v.dt) for v in polytope.vertices]
    worst = worst_energy(noise, vertices, 40)
    assert worst <= bound <= slack * worst


def test_gains_that_would_take_minutes_are_not_searched_for(monkeypatch):
    plant = cases.random_plant(1, states=3, outputs=2, radius=0.7)
    secret = pc.DisturbanceAdjacency(1.0, norm="l2")
    noise = design(plant, secret, floor=0.3)
    polytope = spread(plant, 0.1)
    bound = noise.guarantee_for(polytope).gdp
    monkeypatch.setattr("privcontrol.noise._program._MOST_WORK", 1e6)
    without = noise.guarantee_for(polytope).gdp
    assert 1.01 * bound < without < 100 * bound


def test_designs_for_a_varying_plant_meet_the_budget_and_beat_white_noise():
    polytope = between(0.8, 0.9)
    noise = design(lag(0.85), models=polytope)
    white = design(lag(0.85), models=polytope, family="iid-gaussian")
    for found in (noise, white):
        assert ALLOWED * (1 - 1e-6) <= found.guarantee.gdp <= ALLOWED
        assert found.guarantee.scope.models == (polytope.fingerprint,)
        assert "between 2 given plants, at every sample" in found.guarantee.sentence
    assert noise.design.cost < 0.5 * white.design.cost
    assert 0 < noise.design.gap < 0.2
    exact = design(lag(0.85))
    with pytest.raises(ValueError, match="different models"):
        noise.guarantee + exact.guarantee
    assert exact.guarantee_for(polytope).gdp > ALLOWED


def test_the_region_keeps_its_assumptions_and_must_hold_the_plant():
    polytope = between(0.8, 0.9, assumptions=["closed windows"])
    assert "closed windows" in design(lag(0.85), models=polytope).guarantee.sentence
    with pytest.raises(ValueError, match="is not in the PlantPolytope"):
        design(lag(0.7), models=polytope)
    box = pc.PlantBox.around(lag(0.5), relative=0.01)
    with pytest.raises(ValueError, match="is not in the PlantBox"):
        design(lag(0.6), models=box, horizon=10, floor=1.0)


@pytest.mark.parametrize("floor", [1.0, "auto"])
def test_a_box_is_designed_for_and_certified_as_a_whole(floor):
    box = pc.PlantBox.around(lag(0.5), relative=0.02)
    noise = design(lag(0.5), horizon=8, models=box, floor=floor)
    assert ALLOWED * 0.998 <= noise.guarantee.gdp <= ALLOWED
    for plant in box.sampled(5, rng=0):
        assert noise.guarantee_for([plant]).gdp <= noise.guarantee.gdp
    assert noise.guarantee.scope.models == (box.fingerprint,)
    with pytest.raises(pc.PrivacyError, match="white floor"):
        design(lag(0.5), horizon=8, models=box)


def test_a_constant_plant_of_a_polytope_needs_no_more_than_a_varying_one():
    constant = design(lag(0.85), models=between(0.8, 0.9, varying=False), horizon=20, floor=1.0)  # fmt: skip
    varying = design(lag(0.85), models=between(0.8, 0.9), horizon=20, floor=1.0)
    assert constant.design.cost < varying.design.cost
    assert "the same for the whole run" in constant.guarantee.sentence


def test_a_grid_costs_what_the_filtered_noise_leaves_of_it():
    polytope, h, T = between(0.8, 0.9), 0.05, 30
    noise = design(lag(0.85), models=polytope, horizon=T, resolution=h)
    without = design(lag(0.85), models=polytope, horizon=T)
    assert noise.design.cost > without.design.cost
    root = whitening(noise, T)
    rng = np.random.default_rng(0)
    rest = max(np.linalg.norm(root @ rng.choice([-h, h], T)) for _ in range(200))
    scale = float(noise.std[0] / without.std[0])
    assert ALLOWED / scale + rest <= noise.guarantee.gdp <= ALLOWED
    with pytest.raises(ValueError, match="resolution: without a horizon"):
        design(lag(0.85), models=polytope, resolution=h)


def test_noise_that_is_drawn_once_has_no_guarantee_for_a_varying_plant():
    vehicle = pc.plants.vehicle()
    polytope = spread(vehicle, 0.01)
    noise = cases.vehicle_noise(horizon=10)
    secret = pc.StateAdjacency({"position": 1.0}, times=0)
    with pytest.raises(ValueError, match="drawn again"):
        noise.guarantee_for(polytope, adjacency=secret)
    laplace = cases.vehicle_noise(family="iid-laplace", horizon=10)
    with pytest.raises(ValueError, match="needs Gaussian noise"):
        laplace.guarantee_for(polytope, adjacency=secret)


@pytest.mark.parametrize(
    "models, options",
    [
        (between(0.8, 0.9), {}),
        (between(0.8, 0.9), dict(horizon=20)),
        (between(0.8, 0.9), dict(family="iid-gaussian", horizon=20)),
        (pc.PlantBox.around(lag(0.85), relative=0.01), dict(floor=1.0, horizon=10)),
    ],
)
def test_a_design_file_keeps_the_region_and_is_certified_anew(
    models, options, tmp_path
):
    noise = design(lag(0.85), models=models, **options)
    path = tmp_path / "noise.json"
    noise.save(path)
    again = pc.load(path)
    assert again == noise
    assert again.request.region.fingerprint == models.fingerprint


def test_a_bound_is_a_ten_millionth_above_the_worst_plant():
    """That of the slowest plant that stays the same. Inequalities have that much to spare."""
    noise = design(lag(0.5), family="iid-gaussian")
    bound = noise.guarantee_for(between(0.3, 0.6)).gdp * noise.std[0]
    worst = 1 / np.sqrt(1 - 0.6**2)
    assert worst <= bound <= worst * (1 + 3e-7)


@pytest.mark.parametrize("states, is_asked", [(40, True), (50, False)])
def test_a_solver_is_asked_for_two_vertices_of_up_to_44_states(
    states, is_asked, monkeypatch
):
    """Matrices of k states have k (k + 1) / 2 numbers, whose cubes add up to 2e9."""
    asked = []
    monkeypatch.setattr(_program, "solve", lambda problem, tolerance: asked.append(1))
    one = np.ones((1, states))
    with working_bits(128):
        matrices = (0.5 * np.eye(states), one.T, one, np.zeros((1, 1)))
        vertex = LinearSystem(*map(ball_matrix, matrices))
        secret = SecretInputs(vertex, (SignalMoves(0, 1.0),))
        program = Program.of(VaryingSecret((vertex, vertex), secret))
    if is_asked:
        assert program.solve(1e-7) is None
        assert asked
        return
    with pytest.raises(pc.UncertifiableError, match="would take minutes"):
        program.solve(1e-7)
    assert not asked


def test_a_matrix_that_is_not_positive_proves_nothing():
    """P = c^2 / (1 - a^2) solves the inequality of an unstable plant, and is negative."""
    impulse = SignalMoves(0, 1.0)
    with working_bits(128):
        unstable = LinearSystem(*map(ball_matrix, ([[1.2]], [[1.0]], [[1.0]], [[0.0]])))
        secret = SecretInputs(unstable, (impulse,))
        program = Program.of(VaryingSecret((unstable,), secret))
        P = np.array([[1 / (1 - 1.2**2) - 0.1]])
        assert (P - 1.44 * P - 1 > 0).all()
        assert program.verified({"P": P, "t": np.array([[1.0]])}) is None


def test_a_short_change_counts_where_it_is_worse_than_a_long_one():
    """w(t) - 2 w(t-1) + w(t-2) has the energy 6 for one sample, and 4 for two and three."""
    A, B = [[0, 0], [1, 0]], [[1], [0]]
    names = dict(states=["last", "before"], inputs=["w"], outputs=["y"])
    vertices = [ct.ss(A, B, [[-2, c]], 1, True, **names) for c in (1.0, 0.98)]
    secret = pc.DisturbanceAdjacency({"w": 1.0}, duration=3, shape="level")
    noise = design(vertices[0], secret, family="iid-gaussian")
    bound = noise.guarantee_for(pc.PlantPolytope(vertices)).gdp * noise.std[0]
    assert np.sqrt(6) <= bound <= np.sqrt(6) * 1.01


def test_what_is_proven_of_noise_is_proven_of_smaller_noise_at_once(monkeypatch):
    cp = pytest.importorskip("cvxpy")
    solve = cp.Problem.solve
    solved = []

    def counted(problem, **options):
        solved.append(problem)
        return solve(problem, **options)

    monkeypatch.setattr(cp.Problem, "solve", counted)
    options = dict(adjacency=SECRETS["several"], family="iid-gaussian")
    options |= dict(horizon=np.inf, models=between(0.7912, 0.8437))

    def std(gdp):
        budget = pc.PrivacyBudget(gdp=gdp)
        return pc.design_output_noise(lag(0.8437), budget=budget, **options).std[0]

    large = std(0.5)
    of_large = len(solved)
    assert std(1.5) == pytest.approx(large / 3, rel=1e-7)
    assert 0 < of_large == len(solved)
    options["models"] = between(0.7912, 0.8438)
    assert std(0.5) > large
    assert len(solved) > of_large


def test_a_vertex_among_many_counts_wherever_it_is():
    poles = np.linspace(0.6, 0.84, 7)
    order = np.random.default_rng(0).permutation(7)
    every = design(lag(0.7), SECRETS["lasting"], models=between(*poles[order]))
    ends = design(lag(0.7), SECRETS["lasting"], models=between(0.6, 0.84))
    assert every.std == pytest.approx(ends.std, rel=1e-6)


@pytest.mark.parametrize("secret", ["single", "lasting", "energy"])
def test_the_search_for_a_bound_is_given_up_only_where_it_is_above_the_largest(secret):
    region = between(*np.linspace(0.6, 0.84, 9), varying=True)
    asked = ([White(np.array([0.7]))], SECRETS[secret], np.inf)
    assert region.shift(*asked, largest=1e-3).value == np.inf
    bound = region.shift(*asked).value
    for enough in (1.0001, 1.1, 10.0):
        found = region.shift(*asked, largest=enough * bound).value
        assert found == pytest.approx(bound, rel=1e-6)
    assert region.shift(*asked, largest=0.8 * bound).value > 0.8 * bound


@pytest.mark.parametrize("secret", ["single", "lasting", "several"])
def test_the_bound_of_a_run_is_given_up_only_where_it_is_above_the_largest(secret):
    region = between(0.9, 1.02)
    asked = ([White(np.array([0.7]))], joined(SECRETS[secret]), 40)
    bound = region.shift(*asked).value
    assert region.shift(*asked, largest=0.999 * bound).value == np.inf
    assert region.shift(*asked, largest=1.001 * bound).value == bound


@pytest.mark.parametrize(
    "secret, floor",
    few(
        [
            *(("lasting", 0.05), ("lasting", 1.0), ("energy", None), ("energy", 1.0)),
            *(("state", None), ("lasting", None), ("energy", 0.05), ("state", 0.05)),
            ("state", 1.0),
        ],
        of=5,
    ),
)
def test_no_noise_that_costs_less_is_given_up(monkeypatch, secret, floor):
    region = between(0.8, 0.85, 0.87, 0.9)
    options = dict(models=region) if floor is None else dict(models=region, floor=floor)
    found = design(lag(0.85), SECRETS[secret], **options)
    monkeypatch.setattr(varying_design._Task, "_largest_size", lambda *_: np.inf)
    every = design(lag(0.85), SECRETS[secret], **options)
    assert found.std == pytest.approx(every.std, rel=1e-7)


@pytest.mark.parametrize("kind", few(["single", "lasting", "ball"], of=1))
def test_a_file_says_to_the_last_bit_what_its_design_said(kind, tmp_path):
    """In a process that has solved no program for noise of another size."""
    plant = cases.random_plant(4, states=3, outputs=3, radius=0.8)
    vertices = pc.PlantBox.around(plant, relative=1e-2).sampled(3, rng=0)
    models = pc.PlantPolytope([plant, *vertices], varying=True)
    secret = SECRETS[kind]
    if kind != "ball":
        secret = replace(secret, radius=0.4, inputs=(plant.input_labels[0],))
    noise = pc.design_output_noise(
        plant,
        horizon=14,
        budget=cases.BUDGET,
        adjacency=secret,
        models=models,
        floor=0.3,
        max_std=np.inf,
    )
    noise.save(tmp_path / "noise.json")
    _program.solved.cache_clear()
    halving.bound_in_units.cache_clear()
    assert pc.load(tmp_path / "noise.json").guarantee == noise.guarantee
