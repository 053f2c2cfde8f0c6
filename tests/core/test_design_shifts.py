"""Shifts in ball arithmetic enclose the exact ones, and leave to floating point what is too large or undecided."""

import flint
import numpy as np
import pytest

from privcontrol.core import (
    DirectionAdjacency,
    GaussianNoise,
    LinearQuery,
    Mechanism,
    covered as covered_module,
)


def shifts_of(factor, query, moves):
    """Shifts (r, M) of the columns of moves, and bounds of their errors."""
    mechanism = Mechanism(LinearQuery(query), GaussianNoise(factor))
    hidden = DirectionAdjacency(moves).moves(mechanism.query.manifold)
    return mechanism.shifts(hidden, certified=False)


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


@pytest.mark.parametrize("decades, sharp", [(0, 1e-12), (8, 1e-15), (14, 1e-15)])
def test_shifts_are_those_of_rational_arithmetic(decades, sharp):
    rng = np.random.default_rng(decades)
    factor = thin_factor(rng, 3, 3, decades)
    query = rng.standard_normal((3, 5))
    moves = rng.standard_normal((5, 9))
    shifts, errors = shifts_of(factor, query, moves)
    exact = rationals(factor).inv() * rationals(query) * rationals(moves)
    for i in range(3):
        for j in range(9):
            gap = abs(flint.fmpq(*float(shifts[i, j]).as_integer_ratio()) - exact[i, j])
            assert gap <= flint.fmpq(*float(errors[i, j]).as_integer_ratio())
            assert errors[i, j] <= sharp * np.abs(shifts).max()


@pytest.mark.parametrize("balls", [True, False])
@pytest.mark.parametrize("decades", [0, 4, 8])
def test_bounds_of_shifts_enclose_those_of_rational_arithmetic(
    decades, balls, monkeypatch
):
    """In doubles, too, the bounds hold and are no more than the condition demands."""
    if not balls:
        monkeypatch.setattr(covered_module, "is_quick", lambda *lengths: False)
    rng = np.random.default_rng(decades)
    for _ in range(10):
        factor = thin_factor(rng, 4, 4, decades)
        query = rng.standard_normal((4, 6))
        moves = rng.standard_normal((6, 9))
        shifts, errors = shifts_of(factor, query, moves)
        exact = rationals(factor).inv() * rationals(query) * rationals(moves)
        truth = np.array([[int(x.p) / int(x.q) for x in row] for row in exact.tolist()])
        off = np.abs(shifts - truth)
        assert (off <= errors + 1e-15 * np.abs(truth)).all()
        assert errors.max() <= 1e-12 * 10.0**decades * np.abs(shifts).max()
        assert balls or off.max() > 0


def test_large_and_wide_problems_stay_in_floating_point():
    for factor in (np.eye(128), np.hstack([np.eye(3), np.eye(3)])):
        size = len(factor)
        shifts, errors = shifts_of(factor, np.eye(size), np.ones((size, 1)))
        np.testing.assert_allclose(factor @ shifts, np.ones((size, 1)), rtol=1e-14)
        assert errors.max() < 1e-10
