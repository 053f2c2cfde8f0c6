"""Sets of moves: enlarged shifts are at least as large as all within their errors."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from repeats import few

import privcontrol as pc

SPACE = pc.AffineManifold.from_kernel(np.eye(4))
SINGLE = pc.DirectionAdjacency(np.eye(4)).moves(SPACE)


@pytest.mark.parametrize("norm", [1, 2])
def test_enlarged_shifts_of_single_moves_are_the_largest_within_the_errors(norm):
    rng = np.random.default_rng(0)
    shifts = rng.standard_normal((3, 4))
    errors = rng.random((3, 4))
    claimed = SINGLE.worst_shift(SINGLE.enlarged(shifts, errors), norm)
    corners = shifts + errors * rng.choice([-1.0, 1.0], (5000, 3, 4))
    sizes = np.linalg.norm(corners, ord=norm, axis=1)
    assert sizes.max() <= claimed <= sizes.max() * (1 + 1e-9)


@pytest.mark.parametrize("share", [1e-17, 1e-30, 1e-3])
def test_errors_below_a_unit_of_rounding_are_not_lost(share):
    """Pure epsilon adds the decimals that Python prints: these must not be too low either."""
    rng = np.random.default_rng(3)
    shifts = rng.standard_normal((50, 4))
    errors = share * rng.random((50, 4))
    enlarged = SINGLE.enlarged(shifts, errors)
    assert (np.sign(enlarged) == np.sign(shifts)).all()
    triples = zip(shifts.flat, errors.flat, enlarged.flat)
    for shift, error, found in triples:
        assert Fraction(repr(float(abs(found)))) >= Fraction(abs(shift)) + Fraction(
            error
        )
    np.testing.assert_array_equal(SINGLE.enlarged(shifts, 0 * errors), shifts)


def test_pure_epsilon_is_at_least_the_exact_1_norm_of_every_shift():
    """By elimination in fractions, for noise whose rows are in far units."""
    rng = np.random.default_rng(197)
    for _ in range(30):
        units = 10.0 ** rng.uniform(-8, 8, (3, 1))
        factor = units * rng.standard_normal((3, 3))
        query = pc.LinearQuery(units * rng.standard_normal((3, 4)))
        noise = pc.LaplaceNoise(factor)
        moves = np.eye(4)
        claimed = pc.Mechanism(query, noise).guarantee(pc.DirectionAdjacency(moves))
        rows = [
            list(map(Fraction, row))
            for row in np.hstack([factor, query.matrix]).tolist()
        ]
        for i in range(3):
            rows[i] = [entry / rows[i][i] for entry in rows[i]]
            for j in {0, 1, 2} - {i}:
                rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i])]
        largest = max(sum(abs(row[3 + k]) for row in rows) for k in range(4))
        assert (
            largest <= Fraction(claimed.epsilon(0.0)) <= largest * Fraction("1.000001")
        )


@pytest.mark.parametrize("unit", [1e-20, 1.0, 1e20])
def test_a_ball_on_directions_of_very_different_length_is_placed_without_a_warning(
    unit,
):
    """The manifold is all of the plane, so its ball has radius 1 whatever the kernel's units."""
    kernel = np.array([[1.0, unit], [-1.0, 2 * unit]])
    query = pc.LinearQuery([[3.0, 4.0]], pc.AffineManifold.from_kernel(kernel))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = query.sensitivity(pc.BallAdjacency(1.0))
    assert 5 <= found <= 5 * (1 + 1e-12)


@pytest.mark.parametrize("norm", [1, 2])
def test_enlarged_shifts_of_a_ball_hold_every_ball_within_the_errors(norm):
    rng = np.random.default_rng(1)
    shifts = rng.standard_normal((3, 4))
    errors = 0.1 * rng.random((3, 4))
    moves = pc.BallAdjacency(1.0).moves(SPACE)
    claimed = moves.worst_shift(moves.enlarged(shifts, errors), norm)
    units = rng.standard_normal((4, 300))
    units /= np.linalg.norm(units, axis=0)
    for signs in rng.choice([-1.0, 1.0], (200, 3, 4)):
        images = (shifts + errors * signs) @ units
        assert np.linalg.norm(images, ord=norm, axis=0).max() <= claimed
    assert moves.attaining(shifts) == ()


def test_errors_of_moves_in_data_space_count_in_their_responses():
    rng = np.random.default_rng(2)
    query = pc.LinearQuery(rng.standard_normal((3, 4)))
    data = rng.standard_normal((4, 5))
    errors = 1e-3 * rng.random((4, 5))
    _, bounds = type(SINGLE)(data, data=data, errors=errors).output_responses(query)
    assert (bounds >= np.abs(query.matrix) @ errors).all()
    _, exact = type(SINGLE)(data, data=data).output_responses(query)
    assert (exact < 1e-12).all()


def test_of_many_moves_that_are_hidden_alike_64_are_named():
    query = pc.LinearQuery(np.eye(70))
    noise = pc.GaussianNoise(np.ones(70))
    alike = pc.DirectionAdjacency(np.eye(70))
    guarantee = pc.Mechanism(query, noise).guarantee(alike)
    assert guarantee.loss.moves == (tuple(range(64)),)


@pytest.mark.parametrize("seed", few(range(10), of=3))
def test_the_one_norm_of_a_balls_image_is_bounded_closely(seed):
    """The largest 1-norm of B u is that of B^T s over signs s: all 4096 of them."""
    rng = np.random.default_rng(seed)
    states = int(rng.integers(1, 5))
    step = rng.standard_normal((states, states))
    step *= 0.95 / np.abs(np.linalg.eigvals(step)).max()
    state = np.eye(states)
    image = np.zeros((12, states))  # the last rows stay zero
    for t in range(11):
        image[t] = rng.standard_normal(states) @ state if seed % 2 else state[0]
        state = step @ state
    signs = 1.0 - 2.0 * np.indices((2,) * 12).reshape(12, -1)
    largest = np.linalg.norm(image.T @ signs, axis=0).max()
    claimed = pc.BallAdjacency(1.0).moves(SPACE).largest(image, 1)
    assert largest * (1 - 1e-12) <= claimed <= largest * 1.04
