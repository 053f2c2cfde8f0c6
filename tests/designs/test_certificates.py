"""What certifies a promise, by its definition: brute force, rationals, many digits."""

import itertools
from dataclasses import replace
from fractions import Fraction

import control as ct
import mpmath
import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
from repeats import few

import privcontrol as pc
from privcontrol.designs import shaping_problem
from privcontrol.noise import shift as shift_module
from privcontrol.noise.parts import Structured, White
from privcontrol.noise.shift import Shift, certified_shift
from privcontrol.noise.whitened import dense_root
from privcontrol.numerics.balls import Ball, current_bits
from privcontrol.regions import halving
from privcontrol.regions.region import box_around, matrix_of
from privcontrol.secrets.secret import UncertainMoves
from privcontrol.secrets.squares import certified
from privcontrol.systems.linear import Plant

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
RNG = np.random.default_rng(7)


def plant_of(A, C, **names):
    n = len(A)
    return ct.ss(A, np.eye(n)[:, :1], C, np.zeros((len(C), 1)), 1, **names)


# -- plants that vary --------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [12, np.inf])
def test_noise_for_plants_that_vary_hides_all_of_several_events(horizon):
    """Two events in a row on a slow plant add up; a bound for one is half as large."""
    names = {"states": ["air"], "inputs": ["people"]}
    plants = [ct.ss([[a]], [[1.0]], [[1.0]], 0, 1, **names) for a in (0.9, 0.901)]
    region = pc.PlantPolytope(plants, varying=True)
    secret = pc.DisturbanceAdjacency({"people": 1.0}, events=2)
    noise = pc.design_output_noise(
        plants[0],
        horizon=horizon,
        budget=BUDGET,
        adjacency=secret,
        models=region,
        family="iid-gaussian",
    )
    samples = 60 if horizon == np.inf else horizon
    if horizon == np.inf:
        first = [noise.covariance(lag).item() for lag in range(samples)]
        covariance = scipy.linalg.toeplitz(first)
    else:
        every = itertools.product(range(samples), repeat=2)
        entries = [noise.covariance(t, s).item() for t, s in every]
        covariance = np.reshape(entries, (samples, samples))
    response = np.concatenate([[0.0], 0.9 ** np.arange(samples - 1)])
    later = np.concatenate([[0.0], response[:-1]])
    both = response + later
    truth = np.sqrt(both @ np.linalg.solve(covariance, both))
    one = np.sqrt(response @ np.linalg.solve(covariance, response))
    assert truth > 1.8 * one
    assert truth <= noise.guarantee.gdp * (1 + 1e-9)


# -- boxes -------------------------------------------------------------------------------


@pytest.mark.parametrize("entries", [3, 6, 8])
def test_the_vertices_of_a_box_are_around_all_of_it(entries):
    """Corners of the box are weighted means of the vertices, also of more than five entries."""
    size = 3
    spread = np.zeros((size, size))
    spread.flat[:entries] = 0.01 * (1 + np.arange(entries))
    nominal = plant_of(0.5 * np.eye(size) + 0.1, np.eye(size))
    box = pc.PlantBox(nominal, A=spread)
    vertices = box.plants(pc.StateAdjacency(1.0))
    assert len(vertices) == (2**entries if entries <= 5 else 2 * entries)
    reach = 1 if entries <= 5 else entries
    for vertex in vertices:
        offsets = np.abs(vertex.A - nominal.A).ravel()[:entries]
        moved = offsets > 0
        wanted = reach * spread.ravel()[:entries][moved]
        assert offsets[moved] == pytest.approx(wanted, rel=1e-13, abs=0.0)
        for entry, centre, width in zip(
            vertex.A.ravel(), nominal.A.ravel(), spread.ravel()
        ):
            distance = abs(Fraction(entry) - Fraction(centre))
            assert distance == 0 or distance >= reach * Fraction(width)
    columns = np.column_stack([matrix_of(each).ravel() for each in vertices])
    stacked = np.vstack([columns, 1e3 * np.ones(len(vertices))])
    for turns in itertools.product((-1, 1), repeat=entries):
        corner = np.array(nominal.A)
        corner.flat[:entries] += np.multiply(turns, spread.flat[:entries])
        moved = ct.ss(corner, nominal.B, nominal.C, nominal.D, 1)
        wanted = np.append(matrix_of(Plant.of(moved)).ravel(), 1e3)
        _, distance = scipy.optimize.nnls(stacked, wanted)
        assert distance < 1e-9


def test_a_box_around_plants_holds_each_to_the_last_digit():
    """In rationals: middle and half-width are rounded, and their sum is not."""
    names = {"states": ["x[0]", "x[1]"], "outputs": ["y[0]"], "inputs": ["u[0]"]}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        plants = [
            Plant.of(plant_of(rng.normal(size=(2, 2)), [[1.0, rng.normal()]], **names))
            for _ in range(3)
        ]
        box = box_around(plants)
        middle = matrix_of(box.sys).ravel()
        widths = np.block([[box.A, box.B], [box.C, box.D]]).ravel()
        every = np.array([matrix_of(plant).ravel() for plant in plants])
        half = np.ptp(every, axis=0) / 2
        np.testing.assert_allclose(widths, half, rtol=1e-14, atol=1e-15)
        assert (widths[half == 0] == 0).all()
        assert (half == 0).sum() >= 4
        for plant in plants:
            for entry, centre, width in zip(matrix_of(plant).ravel(), middle, widths):
                distance = abs(Fraction(entry) - Fraction(centre))
                assert distance <= Fraction(width)


def test_the_largest_norm_over_corners_is_the_one_of_all_of_them():
    """An ascent from the middle ends at a corner that others exceed in some of the cases."""
    lower = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        middle = 0.1 * rng.normal(size=(4, 3))
        slopes = rng.normal(size=(4, 4, 3))
        turns = np.array(list(itertools.product((-1.0, 1.0), repeat=4)))
        corners = middle + np.tensordot(turns, slopes, 1)
        norms = np.linalg.norm(corners, 2, axis=(1, 2))
        (found,) = halving._largest_norm(middle, slopes, turns)
        assert norms.max() <= found <= norms.max() * (1 + 1e-9)
        lower += ascended(middle, slopes) < norms.max() * (1 - 1e-6)
    assert lower > 5


def ascended(middle, slopes):
    """Where the first-order ascent ends."""
    corner, largest = middle, 0.0
    while True:
        left, sizes, right = np.linalg.svd(corner, full_matrices=False)
        if sizes[0] <= largest * (1 + 1e-12):
            return largest
        largest = sizes[0]
        rises = left[:, 0] @ slopes @ right[0]
        corner = middle + np.tensordot(np.where(rises < 0, -1.0, 1.0), slopes, 1)


@pytest.mark.parametrize("seed", few(range(5), of=2))
def test_orders_of_an_inverse_bound_all_that_the_box_does_to_it(seed):
    """At the corners: A^-1 E A^-1 by the first, and what is left of (A + E)^-1 by the rest."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(2, 2)) + 2 * np.eye(2)
    spread = 0.05 * rng.random((2, 2))
    inverse = np.linalg.inv(A)
    first, higher = halving._orders_of_inverse(np.abs(inverse), spread)
    most = np.zeros((2, 2))
    for turns in itertools.product((-1, 1), repeat=4):
        E = np.reshape(turns, (2, 2)) * spread
        linear = inverse @ E @ inverse
        assert (np.abs(linear) <= first * (1 + 1e-12)).all()
        left = np.abs(np.linalg.inv(A + E) - inverse + linear)
        assert (left <= higher).all()
        most = np.maximum(most, left)
    assert most.max() > 0.1 * higher.max()


def moved(A, C, axes, horizon, uncertain=(0, 0)):
    """Moves at the start of a plant of which one entry is uncertain."""
    matrix = np.vstack([A, C])
    spread = np.zeros_like(matrix)
    spread[uncertain] = 1e-3
    return UncertainMoves(
        matrix, spread, axes, np.zeros(1, int), horizon, forwards=True
    )


def in_rationals(matrix, columns, samples):
    """A^t V of doubles, exactly."""
    step = np.vectorize(Fraction, otypes=[object])(matrix)
    every = [np.vectorize(Fraction, otypes=[object])(columns)]
    for _ in range(samples - 1):
        every.append(step @ every[-1])
    return np.array(every)


def check_within(found, exact, errors):
    """Make sure that no number is further from the exact one than its bound says."""
    for value, truth, error in zip(found.flat, exact.flat, errors.flat, strict=True):
        assert abs(Fraction(float(value)) - truth) <= Fraction(float(error))


@pytest.mark.parametrize("seed", few(range(8), of=2))
def test_free_moves_in_doubles_are_as_near_as_they_say(seed):
    """A plant behind a queue of inputs, stable and growing, against rationals."""
    rng = np.random.default_rng(seed)
    A = np.zeros((5, 5))
    A[:3, :4] = rng.normal(size=(3, 4))
    A[:3, :3] *= [0.9, 1.3][seed % 2] / np.abs(np.linalg.eigvals(A[:3, :3])).max()
    A[3, 4] = 1.0
    C = np.hstack([rng.normal(size=(2, 3)), np.zeros((2, 2))])
    axes = rng.normal(size=(5, 2))
    moves = moved(A, C, axes, 25)
    free = halving._FreeMoves.of(moves, A, C)
    assert free.driven.tolist() == [0, 1, 2]  # the queue passes on what it holds
    start = np.hstack([np.eye(5)[:, :3], axes])
    exact = in_rationals(A, start, 25)
    check_within(free.states, exact, free.state_errors)
    outputs = np.array([np.vectorize(Fraction)(C) @ x for x in exact])
    check_within(free.outputs, outputs, free.output_errors)
    sizes = np.linalg.norm(free.outputs)
    assert 1e-16 * sizes < np.linalg.norm(free.output_errors) < 1e-12 * sizes


def test_a_row_that_only_passes_on_is_driven_where_it_is_uncertain():
    A, C = np.diag([1.0, 1.0], 1), np.eye(1, 3)
    for row, driven in ((0, [0]), (2, [2])):
        moves = moved(A, C, np.eye(3), 5, (row, 1))
        moves = replace(moves, times=np.array([0, 3]))
        free = halving._FreeMoves.of(moves, A, C)
        assert free.driven.tolist() == driven
        assert len(free.states) == 5  # as many as follow the first time


def test_free_moves_that_cancel_are_told_by_balls():
    """Two states of 1e8 next to each other, of which the outputs see the difference."""
    A = np.array([[0.9, 0.3], [0.3, 0.9]])
    C = np.array([[1.0, -1.0]])
    axes = np.array([[1e8 + 1e-6], [1e8]])
    moves = moved(A, C, axes, 40)
    doubles = halving._FreeMoves._ahead(moves, A, C, 39)
    free = halving._FreeMoves.of(moves, A, C)
    exact = in_rationals(A, axes, 40)
    outputs = np.array([np.vectorize(Fraction)(C) @ x for x in exact])
    check_within(doubles.outputs[:, :, -1:], outputs, doubles.output_errors[:, :, -1:])
    check_within(free.outputs[:, :, -1:], outputs, free.output_errors[:, :, -1:])
    sizes = np.abs(free.outputs[:, :, -1])
    assert (free.output_errors[:, :, -1] < 1e-13 * sizes).all()
    assert (doubles.output_errors[1:, :, -1] > 1e-3 * sizes[1:]).all()


# -- numbers with a proof ----------------------------------------------------------------


def test_the_error_of_a_dense_root_covers_its_rounding():
    """Shifts by the root of nearly dependent columns, against the same in 60 digits."""
    worst = 0.0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        A = np.diag([0.9, 0.9 - 1e-4, 0.5])
        plant = Plant.of(plant_of(A, [[1.0, 1.0, 1.0]]))
        part = Structured(plant, rng.normal(size=(3, 3)))
        root, error = dense_root((part,), 3)
        columns = part.responses(3).reshape(3, -1)
        change = columns @ rng.normal(size=3)
        found = np.linalg.norm(scipy.linalg.solve_triangular(root, change, lower=True))
        with mpmath.workdps(60):
            solved = mpmath.lu_solve(mpmath.matrix(columns), mpmath.matrix(change))
            truth = mpmath.norm(solved)
            wrong = float(abs(truth - mpmath.mpf(float(found))) / truth)
        assert wrong <= error < 1e-3
        worst = max(worst, wrong)
    assert worst > 1e-14


def test_certified_bounds_are_as_sharp_as_they_say():
    """(1 + 2^-90) - 1 is a wide ball of 64 bits; more bits are taken until it is not."""
    tiny = Fraction(1, 2**90)
    asked = []

    def evaluate():
        one = Ball(1)
        asked.append(one)
        return [(one + one / 2**90) - one, one / 3 * tiny.numerator / tiny.denominator]

    bounds = certified(evaluate, bits=64)
    assert Fraction(float(bounds[0])) >= tiny
    assert bounds[0] == pytest.approx(float(tiny), rel=1e-9, abs=0.0)
    assert Fraction(float(bounds[1])) >= tiny / 3
    assert len(asked) == 2  # 128 bits are enough


def test_bounds_are_finite_and_sharp_next_to_the_largest():
    asked = []

    def evaluate():
        asked.append(current_bits())
        return [Ball(1), Ball(0, 1e-12 if asked[1:] else np.inf)]

    assert np.isfinite(certified(evaluate, bits=64)).all()
    assert asked == [64, 128]


def test_bounds_that_stay_wide_are_sought_in_4096_bits():
    asked = []

    def evaluate():
        asked.append(current_bits())
        return [Ball(1, 0.5)]

    (found,) = certified(evaluate, bits=64)
    assert 1.5 <= found < 1.5 + 1e-8
    assert asked == [64, 128, 256, 512, 1024, 2048, 4096]


@pytest.mark.parametrize("bounds", [(1.0, np.nan), (np.nan, 1.0), (np.nan,)])
def test_a_bound_that_is_no_number_is_no_promise(monkeypatch, bounds):
    """Of several plants the largest counts, which no comparison with nan finds."""
    plant = Plant.of(ct.ss(0.5, 1.0, 1.0, 0.0, 1.0))
    found = iter(bounds)
    monkeypatch.setattr(shift_module, "shift_between", lambda *_: next(found))
    noise = (White(np.ones(1)),)
    event = pc.DisturbanceAdjacency({plant.inputs[0]: 1.0}, duration=1)
    with pytest.raises(pc.UncertifiableError, match="no number"):
        certified_shift(noise, event, [plant] * len(bounds), np.inf)
    with pytest.raises(pc.UncertifiableError, match="no number"):
        Shift.of_squares(np.array(bounds), True)


def test_noise_whose_shift_is_no_number_is_not_taken_for_small_enough(monkeypatch):
    plant = ct.ss(0.5, 1.0, 1.0, 0.0, 1.0)
    monkeypatch.setattr(shaping_problem, "shift_behind", lambda *_: np.nan)
    with pytest.raises(pc.UncertifiableError, match="does not meet its budget"):
        pc.design_output_noise(
            plant,
            horizon=np.inf,
            budget=pc.PrivacyBudget(gdp=1.0),
            adjacency=pc.DisturbanceAdjacency({0: 1.0}, duration=2, shape="level"),
        )
