"""Co-designs of many directions are those of Newton's equations solved directly."""

import cases
import numpy as np
import pytest

import privcontrol as pc
from privcontrol.loop import moments, noise_program, regulator
from privcontrol.loop.noise_program import NoiseProgram
from privcontrol.loop.optimality import optimality
from privcontrol.loop.optimum import optimal_loop


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


def hessian(program, X):
    """The Hessian (r r, r r) of the cost: sum_t M_t (x) B_t + B_t (x) M_t, M_t the inverses."""
    _, inverses, passed = program.slope(X)
    curved = np.zeros((X.size, X.size))
    for inverse, rows in zip(inverses, passed, strict=True):
        bent = rows.T @ rows
        curved += np.kron(inverse, bent) + np.kron(bent, inverse)
    return curved


def dense_minimum(program, last, least):
    """The least point of the barrier by Newton's equations as one dense matrix."""
    r = len(program.moves)
    X = 0.5 * np.eye(r)
    for weight in np.repeat(np.geomspace(program.value(X), last, 20), 20):
        steep, _, _ = program.slope(X)
        above = np.linalg.inv(X - least * np.eye(r))
        shares = program.moves / program.left(X)
        rows = np.einsum("is,js->sij", shares, program.moves).reshape(-1, r * r)
        gradient = rows.sum(axis=0) - (above + steep / weight).ravel()
        lengths = rows.T @ rows
        whole = hessian(program, X) / weight + lengths + np.kron(above, above)
        step = -np.linalg.solve(whole, gradient).reshape(r, r)
        size = 1.0
        while (program.left(X + size * step) <= 0).any() or (
            np.linalg.eigvalsh(X + size * step)[0] <= least
        ):
            size /= 2
        decrement = -np.sum(gradient * step.ravel())
        X = X + size / (1 + max(decrement, 0) ** 0.5) * step
    return X


@pytest.mark.parametrize("states", [3, 8])
def test_conjugate_gradients_find_the_optimum_of_the_dense_equations(states):
    program = NoiseProgram.of(loop_of(states).data)
    found = program.solved(10.0)
    weight = 2e-8 * found.value / sum(program.moves.shape)
    direct = program.value(dense_minimum(program, weight, 0.01))
    assert found.value == pytest.approx(direct, rel=1e-6)
    assert found.capped <= direct
    assert 0 <= found.gap <= 1e-6 * found.value
    assert np.all(program.left(found.information) > 0)


def test_products_are_those_of_the_dense_hessian():
    program = NoiseProgram.of(loop_of(5).data)
    rng = np.random.default_rng(0)
    shape = rng.normal(size=(5, 5))
    X = 0.3 * np.eye(5) + 0.01 * shape @ shape.T
    weight, least = 0.02, 0.01
    barrier = noise_program._Barrier(program, weight, least)
    system = noise_program._NewtonSystem.of(barrier, X)
    S = rng.normal(size=(5, 5))
    S = S + S.T
    within = np.linalg.solve(system.back, S)
    within = np.linalg.solve(system.back, within.T).T
    above = np.linalg.inv(X - least * np.eye(5))
    left = program.left(X)
    seen = np.sum(program.moves * (S @ program.moves), axis=0) / left**2
    wanted = (hessian(program, X) @ S.ravel()).reshape(
        5, 5
    ) / weight + above @ S @ above
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
    best = optimal_loop(loop.data, 10.0, progress=False)
    report = optimality(best)
    assert 0 <= report.gap <= 1e-6
    assert report.cost < loop.optimality.cost
    assert report.lower_bound == pytest.approx(loop.optimality.lower_bound, rel=1e-6)


@pytest.mark.parametrize("thin", [1.0, 1e-9])
def test_the_search_begins_inside_near_the_centre_of_the_bounds(thin):
    """It is the centre itself for as many moves as directions, of length one each."""
    rng = np.random.default_rng(0)
    moves = rng.normal(size=(8, 8)) * np.append(np.ones(7), thin)[:, None]
    moves /= np.linalg.norm(moves, axis=0)
    least = 0.01
    X = noise_program._centre(moves, least)
    left = 1 - np.sum(moves * (X @ moves), axis=0)
    assert left.min() > 0.4
    assert np.linalg.eigvalsh(X)[0] > least
    if thin == 1:
        slope = (moves / left) @ moves.T - np.linalg.inv(X - least * np.eye(8))
        assert np.abs(slope).max() < 1e-9 * np.abs(np.linalg.inv(X)).max()


def test_a_co_design_that_is_asked_how_good_it_is_repeats_no_riccati_equation(
    monkeypatch,
):
    solved, costs, designed = [], [], []
    equation, cost = regulator.riccati, moments.expected_cost

    def counted(*matrices):
        solved.append(1)
        return equation(*matrices)

    def priced(*run):
        costs.append(1)
        return cost(*run)

    def least(*asked):
        designed.append(1)
        return tangent(*asked)

    tangent = noise_program.tangent_noise
    monkeypatch.setattr(noise_program, "tangent_noise", least)
    noise_program._hidden_moves.cache_clear()
    monkeypatch.setattr(regulator, "riccati", counted)
    monkeypatch.setattr(moments, "expected_cost", priced)
    regulator._settled.cache_clear()
    moments.expected_total.cache_clear()
    loop = loop_of(6)
    best = optimal_loop(loop.data, 10.0, progress=False)
    optimality(best)
    assert len(solved) == 1
    assert len(designed) == 2  # for each of two loops
    assert len(costs) == 3  # of two noises, and without noise


def test_few_products_solve_the_equations_near_the_optimum(monkeypatch):
    """Where the cost hardly bends the equations are turned to what it bends there."""
    program = NoiseProgram.of(loop_of(40, inputs=1).data)
    found = program.solved(10.0)
    weight = 2e-8 * found.value / sum(program.moves.shape)
    barrier = noise_program._Barrier(program, weight, 0.01)
    system = noise_program._NewtonSystem.of(barrier, found.information)
    products = []
    whole = noise_program._NewtonSystem.hessian
    monkeypatch.setattr(
        noise_program._NewtonSystem,
        "hessian",
        lambda self, S: products.append(1) or whole(self, S),
    )
    monkeypatch.setattr(noise_program, "ROUGH", 1e-6)
    system.solved()
    assert len(products) < 100
