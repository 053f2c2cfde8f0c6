"""Pairs of doubles enclose what exact rationals say, and tell when they do not know it."""

import operator
from fractions import Fraction

import numpy as np
import pytest
from repeats import few

from privcontrol.numerics import pairs
from privcontrol.numerics.balls import (
    Ball,
    ball_matrix,
    midpoints,
    upper_bounds,
    working_bits,
)
from privcontrol.numerics.pairs import Pairs


def drawn(rng, shape):
    """Pairs of sizes over many decades, with errors, and the ends of what they enclose."""
    high = rng.normal(size=shape) * 10.0 ** rng.uniform(-12, 12, shape)
    low = high * 2.0**-54 * rng.uniform(-1, 1, shape)
    error = np.abs(high) * 10.0 ** rng.uniform(-40, -10, shape)
    error[rng.random(shape) < 0.3] = 0.0
    end = rng.choice([-1, 1], shape)
    exact = [
        [Fraction(h) + Fraction(l) + int(s) * Fraction(e) for h, l, e, s in zip(*row)]
        for row in zip(high, low, error, end, strict=True)
    ]
    return Pairs(high, low, error), exact


def encloses(found, exact):
    rows = zip(exact, found.high, found.low, found.error, strict=True)
    for values, *parts in rows:
        for value, high, low, error in zip(values, *parts, strict=True):
            assert abs(value - Fraction(high) - Fraction(low)) <= Fraction(error)
            assert high == high + low


@pytest.mark.parametrize("seed", few(range(30), of=5))
def test_products_enclose_the_exact_ones(seed):
    rng = np.random.default_rng(seed)
    rows, inner, columns = rng.integers(1, 7, 3)
    left, exact_left = drawn(rng, (rows, inner))
    right, exact_right = drawn(rng, (inner, columns))
    exact = [
        [sum(a * b for a, b in zip(row, column)) for column in zip(*exact_right)]
        for row in exact_left
    ]
    encloses(left @ right, exact)


@pytest.mark.parametrize("seed", few(range(20), of=5))
def test_products_in_pieces_are_the_whole_ones(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    rows, inner, columns = rng.integers(1, 7, 3)
    left, right = drawn(rng, (rows, inner))[0], drawn(rng, (inner, columns))[0]
    sharp = Pairs.exact(np.abs(left.high)), Pairs.exact(np.abs(right.high))
    monkeypatch.setattr(pairs, "_AT_ONCE", int(rng.integers(1, 9)))
    for a, b in ((left, right), sharp):
        whole = a @ b
        for name in ("high", "low"):
            found, error = a.read_product(b, operator.attrgetter(name))
            np.testing.assert_allclose(found, getattr(whole, name), rtol=1e-12)
            np.testing.assert_allclose(error, whole.error, rtol=1e-12)
        nearest = a.nearest_to_product(b)
        assert (nearest is None) == (not whole.is_sharp)
        assert a.tells_product(b) <= whole.is_sharp
    assert sharp[0].tells_product(sharp[1])
    np.testing.assert_array_equal(nearest, whole.high)


@pytest.mark.parametrize("bits, is_told", [(36, True), (40, False)])
def test_a_product_that_cancels_by_too_much_does_not_tell_its_nearest_doubles(
    bits, is_told
):
    """Errors are 144 times 2^-106 of the sizes, which leaves 60 bits of 2^-38 of them."""
    ones = Pairs.exact(np.array([[1.0, -1.0]]))
    near = Pairs.exact(np.array([[1 + 2.0**-bits], [1.0]]))
    assert ones.tells_product(near) == is_told
    assert (ones.nearest_to_product(near) is None) == (not is_told)
    assert not ones.tells_product(Pairs.exact(np.ones((2, 1))))


@pytest.mark.parametrize("seed", few(range(10), of=3))
def test_scaled_columns_and_upper_bounds_enclose_the_exact_ones(seed):
    rng = np.random.default_rng(seed)
    some, exact = drawn(rng, (3, 5))
    scales = rng.normal(size=5)
    scaled = some.scaled(scales)
    exact = [[x * Fraction(s) for x, s in zip(row, scales)] for row in exact]
    encloses(scaled, exact)
    for values, bounds in zip(exact, scaled.upper(), strict=True):
        for value, bound in zip(values, bounds, strict=True):
            assert abs(value) <= Fraction(bound)
    assert some.scaled(np.ones(5)) is some


def test_thirty_digits_are_known_where_terms_do_not_cancel():
    rng = np.random.default_rng(0)
    left, right = rng.uniform(1, 2, (4, 6)), rng.uniform(1, 2, (6, 5))
    product = Pairs.exact(left) @ Pairs.exact(right)
    assert (product.error < 1e-28 * product.high).all()
    with working_bits(320):
        balls = ball_matrix(left) * ball_matrix(right)
        assert (product.high == midpoints(balls)).all()
        assert (product.upper() == upper_bounds(balls)).all()


def test_only_what_is_exact_has_no_error():
    left = Pairs(np.array([[0.0, 2.0]]), np.zeros((1, 2)), np.array([[1e-140, 0.0]]))
    right = Pairs(np.zeros((2, 1)), np.zeros((2, 1)), np.array([[1e-140], [0.0]]))
    assert 0 < (left @ right).error[0, 0] < 1e-139
    assert not (left @ right).is_sharp
    none = Pairs.exact(np.zeros((2, 1)))
    assert (left @ none).error[0, 0] == 0
    assert (left @ none).upper()[0, 0] == 0
    assert (left @ none).is_sharp


def test_an_error_is_none_or_large_enough_for_products():
    balls = ball_matrix([[Ball(1, 1e-200), Ball(1), Ball(0, 1e-200)]])
    assert Pairs.of_balls(balls).error.tolist() == [[1e-150, 0.0, 1e-150]]


@pytest.mark.parametrize(
    "size, is_known", [(2e-100, True), (5e-101, False), (5e99, True), (2e100, False)]
)
def test_numbers_whose_products_would_leave_the_doubles_are_not_multiplied(
    size, is_known
):
    one = Pairs.exact(np.ones((1, 1)))
    extreme = Pairs.exact(np.full((1, 1), size))
    for found in (one @ extreme, extreme @ one, extreme.scaled(np.array([3.0]))):
        assert np.isfinite(found.error).all() == is_known
    wide = Pairs(np.ones((1, 1)), np.zeros((1, 1)), np.full((1, 1), size))
    assert np.isfinite((wide @ one).error).all() == (size < 1e100)


def test_a_ball_of_no_number_is_not_known():
    found = Pairs.of_balls(ball_matrix([[Ball("nan")]]))
    assert not found.is_sharp
    assert np.isinf((found @ found).error).all()


def test_pairs_are_sharp_to_sixty_bits():
    high = np.array([[-1.0]])
    for bits, is_sharp in ((61, True), (59, False)):
        found = Pairs(high, np.zeros((1, 1)), np.array([[2.0**-bits]]))
        assert found.is_sharp == is_sharp
