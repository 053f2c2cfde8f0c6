"""How far triangular noise covers responses: bounds that hold in sixty digits."""

import mpmath
import numpy as np
import pytest
import scipy.linalg

from privcontrol.noise._responses import shift_sizes
from privcontrol.secrets.secret import Responses


@pytest.mark.parametrize("seed", range(20))
def test_shift_sizes_are_above_the_true_shifts_of_nearly_dependent_noise(seed):
    """Solving loses up to eight digits here; what is lost is in the bounds."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(3, 9))
    lower = np.tril(rng.standard_normal((size, size)))
    lower[np.diag_indices(size)] = 10.0 ** rng.uniform(-3, 0, size)
    points = rng.standard_normal((size, 5))
    ball = rng.standard_normal((size, 2))
    bounds = shift_sizes(lower, Responses(points, (ball,)))
    with mpmath.workdps(60):
        inverse = mpmath.inverse(mpmath.matrix(lower.tolist()))
        for j in range(5):
            exact = mpmath.norm(inverse * mpmath.matrix(points[:, j].tolist()))
            assert exact <= mpmath.mpf(bounds[j]) <= exact * (1 + mpmath.mpf(1e-4))
        shifts = inverse * mpmath.matrix(ball.tolist())
        exact = max(mpmath.svd_r(shifts, compute_uv=False))
        assert exact <= mpmath.mpf(bounds[5]) <= exact * (1 + mpmath.mpf(1e-3))


def test_the_bound_counts_what_the_triangular_solve_loses():
    """Some norms that floating point finds are below the true ones by several roundings."""
    losses = []
    for seed in range(20, 40):
        rng = np.random.default_rng(seed)
        lower = np.tril(rng.standard_normal((12, 12)))
        lower[np.diag_indices(12)] = 10.0 ** rng.uniform(-1, 0, 12)
        points = rng.standard_normal((12, 5))
        solved = scipy.linalg.solve_triangular(lower, points, lower=True)
        size = mpmath.mpf(np.linalg.norm(solved, axis=0)[2])
        with mpmath.workdps(60):
            column = mpmath.matrix(points[:, 2].tolist())
            inverse = mpmath.inverse(mpmath.matrix(lower.tolist()))
            exact = mpmath.norm(inverse * column)
            bound = mpmath.mpf(shift_sizes(lower, Responses(points, ()))[2])
            losses.append(float(exact / size - 1))
            assert exact <= bound <= exact * (1 + mpmath.mpf(1e-6))
    assert max(losses) > 1e-15
