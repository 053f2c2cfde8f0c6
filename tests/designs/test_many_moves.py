"""Squares of thousands of moves in doubles against all of them in balls."""

import control as ct
import numpy as np
import pytest
import scipy.linalg
from cases import BUDGET
from repeats import few

import privcontrol as pc
from privcontrol.designs import state_factor
from privcontrol.noise.parts import Structured, White
from privcontrol.noise.shift import certified_shift
from privcontrol.secrets import squares, states
from privcontrol.systems import powers
from privcontrol.systems.linear import Plant

HORIZON = 400


def turning(seed):
    """A random plant with poles about the unit circle, and noise of a random shape."""
    rng = np.random.default_rng(seed)
    order = 2 + seed % 3
    turn = rng.normal(size=(order, order))
    A = scipy.linalg.expm(0.3 * (turn - turn.T)) * rng.uniform(0.98, 1.02)
    basis = np.eye(order) + 0.3 * rng.normal(size=(order, order))
    A = np.linalg.solve(basis, A @ basis)
    C = rng.normal(size=(1 + seed % 2, order))
    names = {"states": [f"s{k}" for k in range(order)]}
    plant = ct.ss(A, np.ones((order, 1)), C, np.zeros((len(C), 1)), True, **names)
    shape = rng.normal(size=(order, order)) * 10.0 ** rng.uniform(-3, 3, order)
    return Plant.of(plant), shape


@pytest.mark.parametrize("seed", few(range(50), of=8))
def test_bounds_in_doubles_are_those_in_balls(seed, monkeypatch):
    plant, shape = turning(seed)
    secret = pc.StateAdjacency({"s0": 0.3, "s1": 2.0} if seed % 4 else {"s0": 1.0})
    parts = (Structured(plant, shape), White(np.full(len(plant.C), 0.01)))[
        : 1 + seed % 2
    ]
    whole = certified_shift(parts, secret, [plant], HORIZON)
    monkeypatch.setattr(squares, "CACHED", 100 + seed)  # some moves at a time
    found = certified_shift(parts, secret, [plant], HORIZON)
    np.testing.assert_allclose(found.squares, whole.squares, rtol=1e-12)
    monkeypatch.setattr(squares, "MANY_DIMENSIONS", np.inf)
    slow = certified_shift(parts, secret, [plant], HORIZON)
    largest = slow.squares.max()
    assert slow.squares.shape == found.squares.shape
    assert slow.value * (1 - 1e-15) <= found.value <= slow.value * (1 + 1e-9)
    assert (found.squares >= slow.squares - 1e-25 * largest).all()
    assert (found.squares <= slow.squares + 1e-9 * largest).all()
    assert set(found.moves) == set(slow.moves)


def test_bounds_in_doubles_follow_the_unit_of_the_noise_to_the_last_digit():
    plant, shape = turning(0)
    secret = pc.StateAdjacency({"s0": 1.0})
    squares_of = []
    for unit in (1.0, 2.0**-20):
        parts = (Structured(plant, unit * shape),)
        squares_of.append(certified_shift(parts, secret, [plant], HORIZON).squares)
    np.testing.assert_array_equal(squares_of[1], squares_of[0] * 2.0**40)


def test_few_moves_near_the_largest_one_are_evaluated_in_balls(monkeypatch):
    plant, shape = turning(0)
    counted = []
    true = squares.certified

    def counting(evaluate, *rest):
        counted.append(sum(1 for _ in evaluate()))
        return true(evaluate, *rest)

    monkeypatch.setattr(squares, "certified", counting)
    secret = pc.StateAdjacency({"s0": 1.0})
    certified_shift((Structured(plant, shape),), secret, [plant], HORIZON)
    assert len(counted) == 1
    assert 0 < counted[0] < HORIZON / 2


def test_moves_that_all_stay_alike_have_the_bound_of_one():
    # the position of the vehicle moved at any time is the same move of its start
    secret = pc.StateAdjacency({"position": 1.0})
    once = pc.StateAdjacency({"position": 1.0}, times=0)
    request = {"horizon": HORIZON, "budget": BUDGET, "models": "exact"}
    plant = pc.plants.vehicle()
    every = pc.design_output_noise(plant, adjacency=secret, **request)
    first = pc.design_output_noise(plant, adjacency=once, **request)
    np.testing.assert_allclose(every.std, first.std, rtol=1e-9)


@pytest.mark.parametrize("seed", few(range(12), of=4))
@pytest.mark.parametrize("times", [None, (200, 201, 230, 231, 232, 390)])
def test_noise_for_long_runs_in_pairs_of_doubles_is_that_in_balls(
    seed, times, monkeypatch
):
    plant, _ = turning(seed)
    radii = {"s0": 0.3, "s1": 2.0} if seed % 4 else {"s0": 1.0}
    secret = pc.StateAdjacency(radii, times=times)
    request = {"horizon": HORIZON, "budget": BUDGET, "adjacency": secret}

    def designed():
        states._state_moves.cache_clear()
        return pc.design_output_noise(
            plant.statespace(), models="exact", max_std=np.inf, **request
        )

    slow = designed()
    counted = []
    true = state_factor._Problem._solved_in_pairs

    def counting(*asked):
        counted.append(true(*asked))
        return counted[-1]

    monkeypatch.setattr(powers, "_LONG", 1)
    monkeypatch.setattr(state_factor._Problem, "_solved_in_pairs", counting)
    quick = designed()
    assert any(found is not None for found in counted)
    assert quick.guarantee.satisfies(BUDGET)
    np.testing.assert_allclose(
        quick.guarantee.loss.shift, slow.guarantee.loss.shift, rtol=1e-14
    )
    np.testing.assert_allclose(quick.factor, slow.factor, rtol=1e-9, atol=1e-12)
    assert quick.design.cost <= slow.design.cost * (1 + 1e-12)
