"""Bounds of loops by their definitions: what is certified is not what a solver hopes for."""

import math
from types import SimpleNamespace

import control as ct
import numpy as np
import pytest
import scipy.linalg
from repeats import few

import privcontrol as pc
from privcontrol.loop import margins, noise_program, optimality
from privcontrol.loop.dense_filter import noise_covariance

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)


def read(information):
    """What has the information F = I + R'R of a vector, as a filter's reading."""
    size = len(information)
    root = np.linalg.cholesky(information - np.eye(size)).T
    turn = np.linalg.inv(np.linalg.cholesky(information)).T  # V V' = F^-1
    return margins._Read(SimpleNamespace(root=root, open=np.eye(size)), turn)


@pytest.mark.parametrize("gap, is_lost", [(0.0099, False), (0.0101, True)])
def test_a_search_that_ends_a_hundredth_above_its_bound_is_lost(
    monkeypatch, gap, is_lost
):
    ends = [noise_program.Solved(np.eye(1), 1.0, 1.0 - x, 1.0) for x in (2 * gap, gap)]
    monkeypatch.setattr(noise_program, "_minima", lambda program, least: iter(ends))
    program = SimpleNamespace(is_ball=False, spread=np.ones(1))
    solved = noise_program._solved.__wrapped__
    if is_lost:
        with pytest.raises(pc.UncertifiableError, match="does not find the noise"):
            solved(program, 10.0)
    else:
        assert solved(program, 10.0) is ends[1]


def test_a_filter_of_all_readings_is_refused_where_its_matrices_are_too_large():
    noise = SimpleNamespace(samples=1000, outputs=6)
    with pytest.raises(ValueError, match=r"\(6000, 6000\); at most 5792 are taken"):
        noise_covariance(noise)


def test_the_growth_between_two_readings_is_that_of_their_information():
    """The least q with F_2 <= q F_1, by a generalised eigenvalue."""
    rng = np.random.default_rng(0)
    for size in (1, 2, 4):
        roots = rng.normal(size=(2, size, size + 2))
        first = 1.1 * np.eye(size) + roots[0] @ roots[0].T
        last = first + roots[1] @ roots[1].T
        most = scipy.linalg.eigh(last, first, eigvals_only=True)[-1]
        found = margins._growth(read(first), read(last))
        assert found == pytest.approx(most, rel=1e-10)


def test_epochs_of_a_growth_take_the_reflection_principle_each():
    """Information from 2 to 32 in fine steps: m epochs of growth 16^(1/m), and 2 m tails.

    A martingale leaves an interval with at most twice the probability of its end, so one
    epoch may not take the tail of its end alone.
    """
    growing = [read(np.array([[value]])) for value in np.geomspace(2, 32, 2001)]
    found = {round(tails / 2): growth for growth, tails in margins._epochs(growing)}
    assert sorted(found) == list(range(1, 13))
    for count, growth in found.items():
        assert growth == pytest.approx(16 ** (1 / count), rel=3e-3)
    assert all(tails == 2 * round(tails / 2) for _, tails in margins._epochs(growing))


def test_a_brownian_error_leaves_its_epoch_twice_as_often_as_its_end():
    """What the two tails of an epoch are for: one tail is too few, two are enough."""
    rng = np.random.default_rng(1)
    steps = rng.normal(size=(20_000, 400)) / 20
    paths = np.cumsum(steps, axis=1)
    limit = 1.5
    left = np.mean(np.abs(paths).max(axis=1) > limit)
    at_its_end = math.erfc(limit / math.sqrt(2))
    assert 1.5 * at_its_end < left < 2 * at_its_end


# -- the best noise ----------------------------------------------------------------------


def program(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(2, 2))
    A *= 0.9 / np.abs(np.linalg.eigvals(A)).max()
    plant = ct.ss(A, rng.normal(size=(2, 1)), [[1.0, 0.5]], 0, 1)
    secret = pc.StateAdjacency({"x[0]": 1.0, "x[1]": 2.0}, times=range(2))
    asked = dict(horizon=6, budget=BUDGET, adjacency=secret, models="exact")
    noise = pc.design_output_noise(plant, **asked, max_std=np.inf)
    loop = pc.private_lqg(plant, np.eye(2), 1, 0.1, 0.2, noise, P0=np.eye(2))
    return noise_program.NoiseProgram.of(loop.data)


@pytest.mark.parametrize("seed", few(range(4), of=2))
def test_the_bound_at_any_point_is_below_the_cost_at_every_other_one(seed):
    """A dual that is not made feasible gives bounds above the optimum."""
    best = program(seed)
    least = 0.01
    costs = []
    points = []
    rng = np.random.default_rng(seed)
    while len(points) < 60:
        root = rng.normal(size=(2, 2)) * 10.0 ** rng.uniform(-1, 1, (2, 1))
        X = least * np.eye(2) + root @ root.T
        worst = np.sum(best.moves * (X @ best.moves), axis=0).max()
        if worst >= 1:
            X = least * np.eye(2) + (X - least * np.eye(2)) * 0.97 * (1 - least) / worst
        if (best.left(X) > 0).all() and np.linalg.eigvalsh(X)[0] >= least:
            points.append(X)
            costs.append(best.value(X))
    known = best.solved(least**-0.5)
    costs.append(known.value)
    for X in points:
        for weight in (1e-3, 0.1, 10.0):
            barrier = noise_program._Barrier(best, weight * best.value(X), least)
            bound = barrier.bounded(X)
            assert bound.capped <= min(costs) * (1 + 1e-9)
            assert bound.uncapped <= bound.capped * (1 + 1e-9) + 1e-12
    assert known.capped >= known.value * (1 - 1e-5)


ONCE = np.ones(1)
TWICE = np.array([1.0, *np.zeros(149), 0.5])


@pytest.mark.parametrize(
    "a, cost_of_heat, profile", [(0.5, 0.1, ONCE), (0.9, 1.0, ONCE), (0.9, 1.0, TWICE)]
)
def test_the_bound_without_a_horizon_is_the_dual_of_one_frequency(
    a, cost_of_heat, profile
):
    """A single change has one column g: y^2 max of spectrum^2 price / |g|^2, less the cost.

    Spectrum and price are taken from the loop's equations at each frequency. The spectrum
    of a change that comes twice has 75 waves, each with the same least value.
    """
    radius = 0.3
    names = dict(states=["air"], inputs=["heat", "people"])
    room = ct.ss(a, [[1, 0.1]], 1, 0, 300.0, **names)
    secret = pc.DisturbanceAdjacency({"people": radius}, profiles=[profile])
    noise = pc.design_output_noise(
        room, horizon=np.inf, budget=BUDGET, adjacency=secret, order=1, gap=0.5
    )
    K, L = 0.4, 0.3
    weights = dict(Q=1, R=cost_of_heat, QN=0.1, RN=0.01)
    loop = pc.private_loop(room, [[K]], [[L]], noise, **weights, controls=["heat"])
    z = np.exp(1j * np.linspace(0, np.pi, 20_001))
    # z x = a x - K e, z e = (a - K - L) e + L (x + noise)
    state = -K / (z - a)
    estimate = L / (z - (a - K - L) - L * state)
    price = np.abs(estimate) ** 2 * (np.abs(state) ** 2 + cost_of_heat * K**2)
    spectrum = np.abs(np.squeeze(noise.system(z))) ** 2
    shape = np.polynomial.Polynomial(profile)(1 / z)
    seen = np.abs(0.1 * radius * shape / (z - a)) ** 2
    privacy = np.trapezoid(spectrum * price, dx=1 / 20_000)
    dual = BUDGET.shift() ** 2 * (spectrum**2 * price / seen).max()
    assert optimality._endless_excess(loop.data) == pytest.approx(
        dual - privacy, rel=2e-3
    )


def test_a_change_without_some_frequency_has_no_bound_of_its_noise():
    """A level of 20 samples vanishes at pi / 10, where the noise does not."""
    names = dict(states=["air"], inputs=["heat", "people"])
    room = ct.ss(0.5, [[1, 0.1]], 1, 0, 300.0, **names)
    secret = pc.DisturbanceAdjacency({"people": 0.3}, profiles=[np.ones(20)])
    noise = pc.design_output_noise(
        room, horizon=np.inf, budget=BUDGET, adjacency=secret, order=1, gap=0.5
    )
    loop = pc.private_lqg(room, 1, 0.1, 0.1, 0.01, noise, controls=["heat"])
    assert np.isnan(optimality._endless_excess(loop.data))
    assert not np.isnan(loop.optimality.lower_bound)
