"""Co-designs of many directions are those of Newton's equations solved directly."""

import cases
import numpy as np
import pytest
import scipy.linalg

import privcontrol as pc
from privcontrol.loop import optimum
from privcontrol.loop.optimum import NoiseProgram


def loop_of(states, inputs=2):
    """A loop whose noise hides all of x(0)."""
    size = {"states": states, "inputs": inputs, "outputs": 2}
    plant = cases.random_plant(0, radius=0.95, **size)
    noise = pc.design_output_noise(
        plant,
        horizon=20,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency(1.0, times=0),
        models="exact",
    )
    return pc.private_lqg(plant, 1, 1, 0.01, 0.01, noise=noise, P0=np.eye(states))


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(optimum, "_KNOWN", {})


@pytest.mark.parametrize("states", [3, 8])
def test_conjugate_gradients_find_the_optimum_of_the_dense_equations(
    monkeypatch, states
):
    program = NoiseProgram.of(loop_of(states).data)
    direct = program.solved(10.0)
    monkeypatch.setattr(optimum, "_KNOWN", {})
    monkeypatch.setattr(optimum, "_MOST_DENSE", 0)
    found = program.solved(10.0)
    assert found.information is not direct.information
    assert found.value == pytest.approx(direct.value, rel=2e-6)
    assert found.capped <= direct.value
    assert 0 <= found.gap <= 1e-6 * found.value
    assert np.all(program.left(found.information) > 0)


def test_products_are_those_of_the_dense_hessian():
    program = NoiseProgram.of(loop_of(5).data)
    rng = np.random.default_rng(0)
    shape = rng.normal(size=(5, 5))
    X = 0.3 * np.eye(5) + 0.01 * shape @ shape.T
    weight, least = 0.02, 0.01
    system = optimum._NewtonSystem.of(program, X, weight, least)
    S = rng.normal(size=(5, 5))
    S = S + S.T
    within = np.linalg.solve(system.back, S)
    within = np.linalg.solve(system.back, within.T).T
    _, curved = program.slope_and_hessian(X)
    above = np.linalg.inv(X - least * np.eye(5))
    left = program.left(X)
    seen = np.sum(program.moves * (S @ program.moves), axis=0) / left**2
    wanted = (curved @ S.ravel()).reshape(5, 5) / weight + above @ S @ above
    wanted += (program.moves * seen) @ program.moves.T
    np.testing.assert_allclose(
        system.hessian(within),
        system.back.T @ wanted @ system.back,
        rtol=1e-9,
        atol=1e-9,
    )


def test_a_large_co_design_is_within_a_millionth_of_the_optimum():
    """The bound is from the dual of the linear problem, and another noise is no better."""
    loop = loop_of(24)
    best = optimum.optimal_loop(loop.data, 10.0, progress=False)
    report = optimum.optimality(best)
    assert 0 <= report.gap <= 1e-6
    assert report.cost < loop.optimality.cost
    assert report.lower_bound == pytest.approx(loop.optimality.lower_bound, rel=1e-6)


def test_tangents_are_those_of_the_dense_equations(monkeypatch):
    """A lower weight moves the least point of the barrier as its derivative says."""
    monkeypatch.setattr(optimum, "_SOLVED", 1e-24)
    program = NoiseProgram.of(loop_of(5).data)
    rng = np.random.default_rng(1)
    shape = rng.normal(size=(5, 5))
    X = 0.3 * np.eye(5) + 0.01 * shape @ shape.T
    weight, least, lower = 0.02, 0.01, 0.003
    step, _ = optimum._NewtonSystem.of(program, X, weight, least, lower).solved()
    steep, curved = program.slope_and_hessian(X)
    above = np.linalg.inv(X - least * np.eye(5))
    shares = program.moves / program.left(X)
    outer = np.einsum("is,js->sij", shares, program.moves)
    pushed = outer.sum(axis=0) - above
    rows = outer.reshape(len(outer), -1)
    bent = curved + weight * (np.kron(above, above) + rows.T @ rows)
    wanted = np.linalg.solve(bent, (steep - lower * pushed).ravel())
    np.testing.assert_allclose(step.ravel(), wanted, rtol=1e-7, atol=1e-9)


def test_tangents_stay_within_the_bounds():
    program = NoiseProgram.of(loop_of(24, inputs=1).data)
    whole = np.eye(24)
    least = 0.01
    weight = 1e-3 * program.value(whole)
    X = 0.5 * whole
    for _ in range(4):
        X = program._descended(X, weight, least, 1e-3)
        moved, lower = program._ahead(X, weight, least, 0.05 * weight)
        assert 0.05 * weight <= lower <= 0.8 * weight
        share = 0.49 * lower / weight
        ends = moved - least * whole, X - least * whole
        assert scipy.linalg.eigh(*ends, eigvals_only=True)[0] >= share
        assert np.all(program.left(moved) >= share * program.left(X))
        after = program._descended(moved, lower, least, 1e-3)
        assert np.linalg.norm(after - moved) < 0.8 * np.linalg.norm(after - X)
        X, weight = after, lower


def test_few_products_solve_the_equations_near_the_optimum(monkeypatch):
    """Where the cost hardly bends the equations are turned to what it bends there."""
    program = NoiseProgram.of(loop_of(40, inputs=1).data)
    found = program.solved(10.0)
    weight = 0.8 * 9e-7 * found.value / sum(program.moves.shape)
    system = optimum._NewtonSystem.of(program, found.information, weight, 0.01)
    products = []
    whole = optimum._NewtonSystem.hessian
    monkeypatch.setattr(
        optimum._NewtonSystem,
        "hessian",
        lambda self, S: products.append(1) or whole(self, S),
    )
    monkeypatch.setattr(optimum, "_SOLVED", 1e-6)
    system.solved()
    assert len(products) < 100
