"""Noise for plants that vary, but stay close to one, over a run."""

import sys
from pathlib import Path

import control as ct
import numpy as np
import pytest
from repeats import few

import privcontrol as pc

sys.path.insert(0, str(Path(__file__).parents[1]))
import cases
import nonlinear_cases

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)


def polytope(seed, relative, states=3, outputs=2):
    plant = cases.random_plant(seed, states, inputs=1, outputs=outputs, radius=0.9)
    box = pc.PlantBox.around(plant, relative=relative)
    return pc.PlantPolytope([plant, *box.sampled(4, rng=0)[-4:]]), plant


def whitened(noise):
    """The map from outputs of a run to what the noise leaves of them."""
    return np.linalg.inv(np.linalg.cholesky(noise.design.noise.covariance))


def run(plants, start, entering):
    """Outputs of plants, one a sample, from a state with one input."""
    x = start
    outputs, states = [], []
    for plant, w in zip(plants, entering, strict=True):
        states.append(x)
        outputs.append(plant.C @ x + plant.D[:, 0] * w)
        x = plant.A @ x + plant.B[:, 0] * w
    return np.concatenate(outputs), np.array(states)


def worst_sequence(vertices, white, start, entering):
    """A sequence of vertices that leaves much: each sample takes its best in turn."""
    samples = len(entering)
    chosen = [0] * samples
    best = 0.0
    for _ in range(2):
        for t in range(samples):
            sizes = []
            for k in range(len(vertices)):
                tried = [*chosen[:t], k, *chosen[t + 1 :]]
                outputs, _ = run([vertices[i] for i in tried], start, entering)
                sizes.append(np.linalg.norm(white @ outputs))
            chosen[t] = int(np.argmax(sizes))
            best = max(best, *sizes)
    return best


SECRETS = {
    "state": pc.StateAdjacency({"s0": 0.5}, times=0),
    "level": pc.DisturbanceAdjacency({"u[0]": 0.5}, duration=3, shape="level"),
    "ball": pc.InitialStateAdjacency(0.5),
}


def moves_of(kind, samples, order):
    """Some of the hidden moves: a state at the start, and what enters."""
    none = np.zeros(samples)
    if kind == "state":
        yield 0.5 * np.eye(order)[0], none
    elif kind == "ball":
        for start in np.random.default_rng(0).normal(size=(6, order)):
            yield 0.5 * start / np.linalg.norm(start), none
    else:
        for first in (0, 4, samples - 4):
            level = none.copy()
            level[first : first + 3] = 0.5
            yield np.zeros(order), level


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("seed", few(range(3), of=1))
def test_no_sequence_of_plants_shifts_noise_beyond_its_promise(kind, seed):
    samples = 12
    region, plant = polytope(seed, 1e-3)
    noise = pc.design_output_noise(
        plant,
        horizon=samples,
        budget=BUDGET,
        adjacency=SECRETS[kind],
        models=region,
        floor=0.3,
        max_std=np.inf,
    )
    assert not any(part.drive for part in noise.parts)  # drawn for the whole run
    promised = noise.guarantee.gdp
    white = whitened(noise)
    worst, nominal = 0.0, 0.0
    for start, entering in moves_of(kind, samples, plant.nstates):
        outputs, _ = run([plant] * samples, start, entering)
        nominal = max(nominal, np.linalg.norm(white @ outputs))
        found = worst_sequence(region.vertices, white, start, entering)
        worst = max(worst, found)
    assert nominal < worst <= promised
    if kind != "ball":  # of which six moves are tried
        assert promised <= 1.1 * nominal


@pytest.mark.parametrize("enters", [False, True])
def test_the_bound_of_a_chain_is_exact(enters):
    """One path from the secret to one sample: all differences add up, none cancels."""
    first, second, read, entry = 0.8, 0.7, 1.2, 0.9
    step = 1e-3

    def chain(sign):
        A = np.diag([first + sign * step, second + 2 * sign * step], -1)
        B = [[entry + 3 * sign * step], [0], [0]]
        return ct.ss(A, B, [[0, 0, read + 4 * sign * step]], 0, True)

    region = pc.PlantPolytope([chain(-1), chain(1)])
    largest = (first + step) * (second + 2 * step) * (read + 4 * step)
    secret = pc.StateAdjacency({"x[0]": 1.0}, times=0)
    if enters:
        largest *= entry + 3 * step
        secret = pc.DisturbanceAdjacency({"u[0]": 1.0}, times=0)
    noise = pc.design_output_noise(
        chain(0),
        horizon=3 + enters,
        budget=BUDGET,
        adjacency=secret,
        models=region,
        floor=0.5,
        max_std=np.inf,
    )
    assert not any(part.drive for part in noise.parts)
    std = np.sqrt(noise.design.noise.covariance[-1, -1])
    assert noise.guarantee.gdp == pytest.approx(largest / std, rel=1e-7)
    assert noise.guarantee.gdp >= largest / std


@pytest.mark.parametrize("kind", SECRETS)
def test_noise_for_close_plants_costs_little_more_than_for_one(kind):
    region, plant = polytope(1, 3e-4)
    options = dict(horizon=15, budget=BUDGET, adjacency=SECRETS[kind], max_std=np.inf)
    for floor in (0.3, "auto"):
        noise = pc.design_output_noise(plant, models=region, floor=floor, **options)
        own = 0.3
        if floor == "auto":
            own = next(p.white for p in noise.parts if p.white.all())
        alone = pc.design_output_noise(plant, models="exact", floor=own, **options)
        assert alone.design.cost * (1 - 1e-9) <= noise.design.cost
        assert noise.design.cost <= 1.25 * alone.design.cost
        bound = noise.design.lower_bound
        assert bound <= alone.design.cost * (1 + 1e-9)
        assert noise.design.cost <= 1.25 * bound


def level_hidden(region, plant, **options):
    options |= {"horizon": 15, "models": region, "max_std": np.inf}
    return pc.design_output_noise(
        plant, budget=BUDGET, adjacency=SECRETS["level"], **options
    )


def test_close_plants_are_certified_again_from_a_file(tmp_path):
    noise = level_hidden(*polytope(2, 1e-3), floor=0.3, resolution=1e-4)
    assert noise.guarantee.satisfies(BUDGET)
    noise.save(tmp_path / "noise.json")
    assert pc.load(tmp_path / "noise.json").guarantee == noise.guarantee


def test_far_plants_get_noise_that_is_drawn_again():
    noise = level_hidden(*polytope(0, 0.2), floor=0.05)
    assert noise.guarantee.satisfies(BUDGET)
    assert all(part.drive or part.white.all() for part in noise.parts)


# -- a crane -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crane():
    """Noise that hides a push of the load, for all of a narrow region and for one plant."""
    sampled = nonlinear_cases.crane()
    region = pc.jacobian_polytope(sampled, nonlinear_cases.CRANE_REGION)
    secret = pc.DisturbanceAdjacency({"push": 0.1}, duration=5, shape="level")
    options = dict(horizon=40, budget=BUDGET, adjacency=secret, floor=0.003)
    noise = pc.design_output_noise(region.nominal, models=region, **options)
    exact = pc.design_output_noise(region.nominal, models="exact", **options)
    return sampled, noise, exact


def test_noise_of_a_crane_is_close_to_that_of_its_linear_model(crane):
    _, noise, exact = crane
    assert exact.std[0] <= noise.std[0] <= 1.05 * exact.std[0]
    assert noise.std[0] < 0.011  # m


def test_no_pair_of_runs_of_a_crane_differs_by_more_than_is_promised(crane):
    sampled, noise, _ = crane
    white = whitened(noise)
    rng = np.random.default_rng(0)
    names = [*sampled.state_labels, "force"]
    low, high = np.transpose([nonlinear_cases.CRANE_REGION[name] for name in names])
    worst = 0.0
    inside = 0
    for _ in range(60):
        first = 0.1 * rng.uniform(low[:4], high[:4])
        states = np.array([first, first])
        force = 0.1 * rng.uniform(low[4], high[4], 40)
        begin = int(rng.integers(0, 20))
        difference = np.zeros(40)
        stays = True
        for t in range(40):
            difference[t] = states[1, 0] - states[0, 0]
            push = 0.1 if begin <= t < begin + 5 else 0.0
            states = np.array(
                [
                    sampled.dynamics(t * 0.05, states[0], [force[t], 0.0]),
                    sampled.dynamics(t * 0.05, states[1], [force[t], push]),
                ]
            )
            stays = stays and (np.abs(states) <= high[:4]).all()
        if stays:
            inside += 1
            worst = max(worst, np.linalg.norm(white @ difference))
    assert inside >= 15
    assert 0.8 * noise.guarantee.gdp < worst <= noise.guarantee.gdp
