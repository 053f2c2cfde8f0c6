"""Laplace noise whose independent numbers are chosen for the loop, by other routes."""

import math

import control as ct
import numpy as np
import pytest
from scipy.optimize import differential_evolution
from twins import (
    EACH,
    TIGHT,
    TWINS,
    WEIGHTS,
    designed,
    price_of_sum,
    private_loop,
    quiet_cost,
)

import privcontrol as pc
from privcontrol.loop.moments import expected_total
from privcontrol.loop.noise_program import NoiseProgram


@pytest.mark.slow
def test_one_direction_costs_what_one_number_of_each_law_costs():
    """J* = y^2 1 1' of the sum: 18.9 Gaussian, 5.95 independent numbers.

    The second route is the loop of the sum, with one number of the law's variance.
    """
    quiet = quiet_cost(designed("gaussian"))
    variances = {"gaussian": 1 / TIGHT.shift() ** 2, "laplace": 2.0}
    known = {"gaussian": 18.913, "laplace": 5.951}
    for family, variance in variances.items():
        loop = private_loop(family, cap=1000.0)
        assert loop.noise.family == family
        assert loop.noise.guarantee.satisfies(TIGHT)
        least = price_of_sum(variance)
        assert least == pytest.approx(known[family], abs=2e-3)
        assert least * (1 - 1e-6) < expected_total(loop.data) - quiet < least * 1.004
    auto = private_loop("auto", cap=1000.0)
    assert auto.noise.family in ("laplace", "ball")
    bound = auto.optimality.universal_bound - quiet
    assert 0.5 < bound / 5.951 < 1


@pytest.mark.slow
@pytest.mark.parametrize("cap", [3.0, 10.0])
def test_no_direction_has_noise_beyond_the_cap(cap):
    """In units of one number that hides a move of one, of which the least noise is."""
    noise = private_loop("laplace", cap=cap).noise
    covariance = noise.initial_state_covariance
    largest = math.sqrt(np.linalg.eigvalsh(covariance)[-1] / 2)
    assert 0.98 * cap < largest < cap * (1 + 1e-6)
    smaller = private_loop("laplace", cap=1.5)
    assert expected_total(private_loop("laplace", cap=cap).data) < expected_total(
        smaller.data
    )


CASES = [
    (TWINS, EACH, WEIGHTS),
    (
        ct.ss(
            [[0.9, 0.3, 0.0], [-0.2, 0.8, 0.1], [0.0, 0.1, 0.7]],
            [[1.0], [0.3], [-0.5]],
            np.eye(3),
            0,
            1.0,
            states=["a", "b", "c"],
        ),
        pc.StateAdjacency({"a": 1.0, "b": 0.5, "c": 2.0}, times=[0]),
        {"Q": 1.0, "R": 1.0, "QN": 1e-3, "RN": 1e-2, "P0": 4.0},
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", range(len(CASES)))
def test_a_global_search_finds_nothing_cheaper(case):
    """Differential evolution over all rows, which needs neither slopes nor starts."""
    plant, adjacency, weights = CASES[case]
    noise = designed("laplace", plant, adjacency)
    plain = pc.private_lqg(plant, noise=noise, **weights)
    best = pc.private_lqg(plant, noise=noise, codesign=True, **weights)
    assert best.noise.family == "laplace"
    program = NoiseProgram.of(plain.data, 1 / math.sqrt(2))
    r = len(program.moves)

    def cost(entries):
        rows = entries.reshape(r, r)
        size = np.abs(rows @ program.moves).sum(axis=0).max()
        if not size:
            return 1e6
        information = rows.T @ rows / size**2
        least = np.linalg.eigvalsh(information)[0]
        if least < 0.01:
            return 1e6 * (1 - least)
        return program.value(information)

    found = differential_evolution(
        cost, [(-1, 1)] * r**2, seed=1, maxiter=150, popsize=12, tol=1e-9
    )
    quiet = quiet_cost(noise, plant, weights)
    price = expected_total(best.data) - quiet
    assert price <= found.fun * 1.002
    assert expected_total(best.data) < expected_total(plain.data)


def test_the_moves_are_hidden_by_brute_force():
    """Each move's loss is the sum over the entries that make up for it, and is used."""
    noise = private_loop("laplace").noise
    responses = noise.process.responses.reshape(-1, 2)
    moved = TWINS.C @ np.eye(2)
    moved = np.vstack([moved * 0.9**t for t in range(20)])
    entries, left, *_ = np.linalg.lstsq(responses, moved, rcond=None)
    assert left.max() < 1e-18
    losses = np.abs(entries).sum(axis=0)
    assert losses.max() <= 1 + 1e-9
    assert losses.min() > 0.99  # both moves use the budget
    # and draws say the same: a test of the loss over 400,000 of them
    eta = np.random.default_rng(1).laplace(size=(400_000, 2))
    for shift in entries.T:
        ratio = np.abs(eta - shift).sum(axis=1) - np.abs(eta).sum(axis=1)
        assert ratio.max() <= 1 + 1e-9
        assert ratio.max() > 0.99


def test_what_laplace_noise_cannot_choose_is_kept():
    """One direction, a ball, and independent noise of one size leave nothing to choose."""
    vehicle = pc.plants.vehicle()
    weights = {"Q": 1.0, "R": 5.0, "QN": 1e-3, "RN": 1e-2, "P0": 4.0}
    for adjacency in (
        pc.StateAdjacency({"position": 1.0}),
        pc.InitialStateAdjacency(1.0),
    ):
        noise = designed("laplace", vehicle, adjacency)
        plain = pc.private_lqg(vehicle, noise=noise, **weights)
        best = pc.private_lqg(vehicle, noise=noise, codesign=True, **weights)
        assert expected_total(best.data) == pytest.approx(
            expected_total(plain.data), rel=1e-9
        )
    noise = designed("iid-laplace", vehicle, pc.StateAdjacency({"position": 1.0}))
    with pytest.raises(ValueError, match="this one is laplace"):
        pc.private_lqg(vehicle, noise=noise, codesign=True, **weights)
