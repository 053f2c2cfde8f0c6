"""Ball arithmetic against exact rationals and mpmath."""

import threading
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import ctx
from repeats import few

from privcontrol.core import LinearQuery
from privcontrol.numerics import balls


def as_fraction(value):
    return Fraction(int(value.p), int(value.q))


def exact_product(left, right):
    left = [[Fraction(x) for x in row] for row in left.tolist()]
    right = [[Fraction(x) for x in row] for row in right.tolist()]
    return [
        [sum(a * b for a, b in zip(row, column)) for column in zip(*right)]
        for row in left
    ]


@pytest.mark.parametrize("value", [0.1, -3.0, 5e-324, 1.7e308, 2.0**-1074 * 3])
def test_rational_is_the_double_itself(value):
    assert as_fraction(balls.rational(value)) == Fraction(value)
    assert as_fraction(balls.rational_matrix([[value]])[0, 0]) == Fraction(value)


@pytest.mark.parametrize("seed", few(range(20), of=5))
def test_enclosures_contain_the_exact_product(seed):
    rng = np.random.default_rng(seed)
    spread = 10.0 ** rng.uniform(-60, 60, (4, 3))
    left, right = rng.normal(size=(4, 3)) * spread, rng.normal(size=(3, 5))
    with balls.working_bits(int(rng.integers(20, 200))):
        product = balls.ball_matrix(left) * balls.ball_matrix(right)
        values, errors = balls.enclosure(product)
        above = balls.upper_bounds(product)
    for i, row in enumerate(exact_product(left, right)):
        for j, exact in enumerate(row):
            assert abs(exact - Fraction(values[i, j])) <= Fraction(errors[i, j])
            assert abs(exact) <= Fraction(above[i, j])


def test_upper_and_lower_floats_are_the_neighbours():
    third = balls.rational(1) / 3
    with balls.working_bits(128):
        above, below = balls.upper_float(third), -balls.upper_float(-third)
    assert Fraction(below) < Fraction(1, 3) < Fraction(above)
    assert np.nextafter(below, 1) == above
    assert balls.upper_float(balls.Ball(0.1)) == 0.1
    assert balls.upper_float(balls.Ball("nan")) == np.inf
    with balls.working_bits(64):
        assert balls.upper_float(balls.Ball(2) ** 5000) == np.inf
        assert 0 < balls.upper_float(balls.Ball(2) ** -5000) == 5e-324


def test_blocks_and_submatrices_are_those_of_numpy():
    a, b = np.arange(6.0).reshape(2, 3), np.ones((2, 1))
    block = balls.block_balls([[balls.ball_matrix(a), balls.ball_matrix(b)]] * 2)
    expected = np.block([[a, b], [a, b]])
    np.testing.assert_array_equal(balls.midpoints(block), expected)
    part = balls.submatrix(block, np.array([3, 0]), [1, 3])
    np.testing.assert_array_equal(balls.midpoints(part), expected[[3, 0]][:, [1, 3]])
    assert balls.midpoints(balls.diagonal_balls([1.0, balls.Ball(2)])).tolist() == [
        [1.0, 0.0],
        [0.0, 2.0],
    ]
    assert balls.ball_matrix(np.zeros((0, 3))).ncols() == 3


def test_norms_are_above_those_of_mpmath():
    rng = np.random.default_rng(0)
    for _ in range(10):
        matrix = rng.normal(size=(5, 4)) * 10.0 ** rng.integers(-8, 8, (5, 1))
        bound = balls.spectral_norm(balls.ball_matrix(matrix))
        with mpmath.workdps(60):
            exact = max(mpmath.svd_r(mpmath.matrix(matrix.tolist()), compute_uv=False))
            ratio = mpmath.mpf(balls.upper_float(bound)) / exact
        assert 1 <= ratio < 1 + 1e-13


def test_doubles_are_enclosed_without_an_error():
    tiny = balls.Ball(2) ** -2000
    table = [[balls.Ball(0.0), balls.Ball(0.1)], [balls.Ball(0.0, tiny), tiny]]
    values, errors = balls.enclosure(balls.ball_matrix(table))
    assert values.tolist() == [[0.0, 0.1], [0.0, 0.0]]
    assert errors.tolist() == [[0.0, 0.0], [5e-324, 5e-324]]


def test_the_norm_of_balls_around_zero_is_that_of_their_ends():
    table = [[balls.Ball(0.0, 3.0)], [balls.Ball(-1.0, 3.0)]]
    bound = balls.frobenius_norm(balls.ball_matrix(table))
    assert 5.0 <= balls.upper_float(bound) <= 5.0 * (1 + 1e-6)


@pytest.mark.parametrize("seed", few(range(12), of=3))
def test_definiteness_is_proven_exactly_when_it_holds(seed):
    """Integer Gram matrices, shifted by their exact smallest eigenvalue up or down."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 9))
    factor = rng.integers(-3, 4, (size, size)).astype(float)
    gram = factor @ factor.T
    tiny = 2.0**-30
    assert balls.is_positive_definite(balls.ball_matrix(gram + tiny * np.eye(size)))
    short = gram[:, :]
    short[0, 0] -= 1 + gram[0, 0]
    assert not balls.is_positive_definite(balls.ball_matrix(short))


def test_an_indefinite_matrix_within_the_radii_is_not_proven():
    wide = balls.Ball(0, 1)
    wide = balls.ball_matrix([[balls.Ball(1), wide], [wide, balls.Ball(1)]])
    assert not balls.is_positive_definite(wide)
    narrow = balls.Ball(0, 0.999)
    narrow = balls.ball_matrix([[balls.Ball(1), narrow], [narrow, balls.Ball(1)]])
    assert balls.is_positive_definite(narrow)


@pytest.mark.parametrize("seed", few(range(12), of=3))
def test_what_rounding_lets_a_factorisation_pass_is_not_proven(seed):
    """Gram matrices of lower rank, which doubles factorise now and then, less 1e-18."""
    factor = np.random.default_rng(seed).integers(-9, 10, (6, 5)) / 3
    with balls.working_bits(200):
        rows = balls.ball_matrix(factor)
        short = rows * rows.transpose() - balls.identity_balls(6) * 1e-18
        assert not balls.is_positive_definite(short)
        assert balls.is_positive_definite(short + balls.identity_balls(6) * 1e-17)


def test_what_doubles_cannot_factor_is_proven_by_elimination():
    """The second pivot is 2^-60, which one and a double next to it do not hold."""
    one = balls.Ball(1)
    with balls.working_bits(200):
        above = balls.Ball(1 + balls.rational(2.0**-60))
        assert balls.is_positive_definite(balls.ball_matrix([[one, one], [one, above]]))
        singular = balls.ball_matrix([[one, one], [one, one]])
        assert not balls.is_positive_definite(singular)
        below = balls.ball_matrix([[above, above], [above, one]])
        assert not balls.is_positive_definite(below)


def test_what_is_near_a_definite_matrix_is_definite_up_to_its_least_eigenvalue():
    """Of 3 I - ones (3, 3) + 2^-10 I the least eigenvalue is 2^-10."""
    middle = (3 + 2.0**-10) * np.eye(3) - np.ones((3, 3))
    assert balls.is_definite_around(middle, 0.0)
    assert balls.is_definite_around(middle, 2.0**-12)
    away = 1.01 * 2.0**-10 * np.ones((3, 3)) / 3  # of norm 1.01 2^-10, along ones
    assert np.linalg.eigvalsh(middle - away)[0] < 0
    assert not balls.is_definite_around(middle, 1.01 * 2.0**-10)
    assert not balls.is_definite_around(middle - 2.0**-9 * np.eye(3), 0.0)
    assert not balls.is_definite_around(np.full((2, 2), np.nan), 0.0)


def test_the_largest_eigenvalue_is_bounded_and_close():
    rng = np.random.default_rng(2)
    for rank in (1, 3, 8):
        factor = rng.normal(size=(8, rank))
        with balls.working_bits(256):
            left = balls.ball_matrix(factor)
            bound = balls.largest_eigenvalue(left * left.transpose())
        with mpmath.workdps(50):
            M = mpmath.matrix(factor.tolist())
            exact = max(mpmath.eigsy(M * M.T, eigvals_only=True))
            ratio = mpmath.mpf(balls.upper_float(bound)) / exact
        assert 1 <= ratio < 1 + 1e-12


def test_the_precision_is_restored_and_other_threads_wait():
    before = ctx.prec
    seen = []
    with balls.working_bits(77):
        with balls.working_bits(500):
            assert ctx.prec == 500

        def other():
            with balls.working_bits(40):
                seen.append(ctx.prec)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.05)
        assert not seen
        assert ctx.prec == 77
    thread.join()
    assert seen == [40]
    assert ctx.prec == before


def test_definiteness_is_proven_or_denied():
    assert balls.is_positive_definite(
        balls.ball_matrix([[1.0, 1 - 1e-12], [1 - 1e-12, 1.0]])
    )
    assert not balls.is_positive_definite(balls.ball_matrix([[1.0, 1.0], [1.0, 1.0]]))
    assert not balls.is_positive_definite(balls.ball_matrix([[1.0, 2.0], [2.0, 1.0]]))
    hilbert = np.array([[1 / (i + j + 1) for j in range(20)] for i in range(20)])
    exact = mpmath.matrix(hilbert.tolist())
    with mpmath.workdps(60):
        least = min(mpmath.eigsy(exact, eigvals_only=True))
    assert least < 0
    assert not balls.is_positive_definite(balls.ball_matrix(hilbert))


@pytest.mark.parametrize("size", [2, 20, 33, 70])
@pytest.mark.parametrize("sparse", [False, True])
def test_inverses_enclose_those_of_rationals(size, sparse):
    """Triangles with rows in any order, those without some entries too, and full ones."""
    rng = np.random.default_rng(size)
    full = rng.normal(size=(size, size))
    lower = np.tril(full, -1) + np.diag(rng.uniform(1, 2, size))
    if sparse:
        lower *= (rng.random((size, size)) < 0.5) | np.eye(size, dtype=bool)
    above = lower.copy()
    above[size // 2 - 1, size // 2] = 1.0  # no triangle
    for matrix in (full, above, lower[rng.permutation(size)]):
        exact = balls.rational_matrix(matrix).inv()
        for bits in (128, 320):
            with balls.working_bits(bits):
                found = balls.inverse_balls(matrix)
                largest = balls.upper_bounds(found).max()
                widest = max(entry.rad() for entry in found.entries())
            assert found.contains(exact)
            assert widest < 2.0 ** (40 - bits) * largest


def test_matrices_without_an_inverse_are_told():
    last = np.tril(np.ones((70, 70)))
    last[-1, -1] = 0
    for matrix in (np.zeros((3, 3)), np.ones((70, 70)), last):
        with balls.working_bits(128), pytest.raises(ZeroDivisionError):
            balls.inverse_balls(matrix)


def test_residues_are_taken_modulo_a_prime():
    """By the test of Lucas and Lehmer for 2^61 - 1."""
    prime, rest = balls._PRIME, 4
    assert prime == 2**61 - 1
    for _ in range(59):
        rest = (rest * rest - 2) % prime
    assert rest == 0


def test_products_of_two_doubles_are_exact():
    third = balls.Ball(1 / 3)
    with balls.working_bits():
        product = third * third
    assert product.rad() == 0


def test_products_that_cancel_keep_their_digits():
    one = 1 + 2.0**-52
    query = LinearQuery([[one, -1.0]])
    with balls.working_bits(balls.FINE_BITS):
        sums = balls.ball_matrix([[1.0, 1e-90]]) * balls.ball_matrix([[1.0], [1e-20]])
        left = sums[0, 0] - 1
    assert left.rad() < 1e-9 * left
    product = query._ball_product(np.array([[1.0], [one]]))
    assert product is not None
    assert balls.midpoints(product)[0, 0] == 0


def test_the_rank_of_residues_is_that_of_even_pivots_too():
    assert balls.residue_rank([2, 1, 4, 3], 2) == 2
    assert balls.residue_rank([2, 1, 4, 2], 2) == 1
    tens = [2, 1, 0, 0, 5, 1, 0, 0, 10]
    assert balls.residue_rank(tens, 3) == 3
