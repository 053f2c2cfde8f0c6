"""Shifts in ball arithmetic enclose the exact ones, and leave to floating point what is too large or undecided."""

import flint
import numpy as np
import pytest

from privcontrol.core import GaussianNoise
from privcontrol.core._balls import ball_matrix, working_bits
from privcontrol.core.ellipsoid import thickening


def exact_product(left, right):
    with working_bits(400):
        return ball_matrix(left) * ball_matrix(right)


def exact_shifts(factor, images, errors):
    return GaussianNoise(factor).whiten_in_balls(images, errors)


def rationals(matrix):
    return flint.fmpq_mat(
        [[flint.fmpq(*float(x).as_integer_ratio()) for x in row] for row in matrix]
    )


def thin_factor(rng, rows, rank, decades):
    """A factor whose columns are mixtures of directions that many decades apart."""
    lengths = np.logspace(0, -decades, rank)
    return (
        rng.standard_normal((rows, rank))
        * lengths
        @ np.linalg.qr(rng.standard_normal((rank, rank)))[0]
    )


@pytest.mark.parametrize("decades", [0, 8, 14])
@pytest.mark.parametrize("rows", [3, 7])
def test_shifts_are_those_of_rational_arithmetic(rows, decades):
    rng = np.random.default_rng(decades)
    factor, query, moves = (
        thin_factor(rng, rows, 3, decades),
        rng.standard_normal((rows, 5)),
        rng.standard_normal((5, 9)),
    )
    balls = exact_product(query, moves)
    shifts, errors = exact_shifts(factor, balls, np.zeros((rows, 9)))
    L, s = rationals(factor), rationals(query) * rationals(moves)
    exact = (L.transpose() * L).inv() * L.transpose() * s
    for i in range(3):
        for j in range(9):
            gap = abs(flint.fmpq(*float(shifts[i, j]).as_integer_ratio()) - exact[i, j])
            assert gap <= flint.fmpq(*float(errors[i, j]).as_integer_ratio())
            assert errors[i, j] <= 1e-15 * abs(shifts[i, j])


def test_errors_of_the_images_are_passed_on():
    factor = np.array([[1.0, 1.0], [0.0, 1e-6]])
    doubt = np.array([[0.0], [2.0**-40]])  # exact beside one
    shifts, errors = exact_shifts(
        factor, exact_product(np.eye(2), np.ones((2, 1))), doubt
    )
    moved, own_errors = exact_shifts(
        factor, exact_product(np.eye(2), np.ones((2, 1)) + doubt), np.zeros((2, 1))
    )
    assert (np.abs(moved - shifts) <= errors + own_errors).all()
    assert errors == pytest.approx(2.0**-40 * 1e6, rel=1e-3)


def test_dependent_columns_and_large_problems_are_left_alone():
    assert (
        exact_shifts(
            np.ones((2, 2)), exact_product(np.eye(2), np.eye(2)), np.zeros((2, 2))
        )
        is None
    )
    large = exact_product(np.eye(128), np.ones((128, 1)))
    assert exact_shifts(np.eye(128), large, np.zeros((128, 1))) is None


def test_thickening_keeps_wide_directions_and_what_it_hides():
    rng = np.random.default_rng(0)
    assert thickening(rng.standard_normal((5, 3)), lambda columns: columns) is None
    factor = thin_factor(rng, 5, 3, 12)
    thicker = factor @ thickening(factor, lambda columns: columns)
    assert np.sum(thicker**2) == pytest.approx(np.sum(factor**2), rel=1e-11)
    moves = factor @ rng.standard_normal((3, 200))
    images = exact_product(np.eye(5), moves)
    before, after = (
        np.linalg.norm(exact_shifts(part, images, np.zeros((5, 200)))[0], axis=0)
        for part in (factor, thicker)
    )
    assert (after <= before * (1 + 1e-10)).all()
