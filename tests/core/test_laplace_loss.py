"""Privacy loss of product Laplace mechanisms: every bound holds, and is sharp, by a second route."""

import math
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad

from privcontrol.core._losses.laplace_numbers import (
    delta_bounds,
    epsilon_upper,
    gdp_upper,
    pareto_moves,
    rdp,
    zcdp_upper,
)
from privcontrol.core._losses.laplace_profile import grid_profile, profile
from privcontrol.core.calibration import kappa


def equal_shifts(d, a, epsilon):
    """delta of d equal shifts: counts of atoms, and the density of a sum of truncated exponentials."""
    a, epsilon, total = mp.mpf(a), mp.mpf(epsilon), mp.mpf(0)

    def gain(loss):
        return -mp.expm1(epsilon - loss) if loss > epsilon else mp.mpf(0)

    for up in range(d + 1):
        for down in range(d + 1 - up):
            middle = d - up - down
            weight = (
                mp.factorial(d)
                / mp.factorial(up)
                / mp.factorial(down)
                / mp.factorial(middle)
            )
            weight *= mp.mpf(1) / 2**up * (mp.exp(-a) / 2) ** down
            top = (up - down + middle) * a
            if not middle:
                total += weight * gain(top)
                continue

            def density(s, middle=middle):
                powers = (
                    (-1) ** j
                    * mp.binomial(middle, j)
                    * max(s - j * a, 0) ** (middle - 1)
                    for j in range(middle)
                )
                return (
                    mp.mpf(2) ** -middle
                    * mp.exp(-s)
                    * sum(powers)
                    / mp.factorial(middle - 1)
                )

            cuts = {j * a for j in range(middle + 1)} | {
                min(max((top - epsilon) / 2, 0), middle * a)
            }
            total += weight * mp.quad(
                lambda s, top=top, f=density: f(s) * gain(top - 2 * s), sorted(cuts)
            )
    return total


def one_by_one(epsilon, shifts, y):
    """delta by conditioning on the loss of one coordinate after the other (adaptive quadrature)."""
    if not shifts:
        if y == 0:
            return -math.expm1(min(epsilon, 0.0))
        positive = kappa(abs(epsilon), y)
        return (
            positive
            if epsilon >= 0
            else -math.expm1(epsilon) + math.exp(epsilon) * positive
        )
    a, *rest = shifts
    kinks = sorted(
        {min(max(epsilon + s, -a), a) for s in (sum(rest), -sum(rest), 0)} | {-a, a}
    )
    inside = sum(
        quad(
            lambda l: math.exp((l - a) / 2) / 4 * one_by_one(epsilon - l, rest, y),
            *ends,
            epsabs=1e-11,
        )[0]
        for ends in pairwise(kinks)
    )
    return (
        one_by_one(epsilon - a, rest, y) / 2
        + math.exp(-a) / 2 * one_by_one(epsilon + a, rest, y)
        + inside
    )


@pytest.mark.parametrize(
    "d, a, epsilon, golden",
    [
        (2, 0.5, 0.3, 0.1719914946),
        (3, 0.7, 0.8, 0.1958863645),
        (5, 0.4, 1.0, 0.0748796342),
    ],
)
def test_equal_shifts_match_the_law_written_out(d, a, epsilon, golden):
    lower, upper = delta_bounds(epsilon, [a] * d)
    truth = equal_shifts(d, a, epsilon)
    assert lower <= truth <= upper and upper - lower < 1e-15
    assert upper == pytest.approx(golden, abs=1e-10)


def test_one_shift_has_the_closed_form():
    for a in (1e-9, 0.3, 2.0, 40.0):
        for epsilon in (0.0, 0.1 * a, 0.9 * a, a, 2 * a):
            lower, upper = delta_bounds(epsilon, [a])
            truth = max(-mp.expm1((mp.mpf(epsilon) - mp.mpf(a)) / 2), 0)
            assert lower <= truth <= upper and upper - lower <= 4e-15 * upper


@pytest.mark.parametrize(
    "shifts, y",
    [([0.3], 0.5), ([1.1, 0.2], 0.0), ([1.1, 0.2], 0.7), ([0.5, 0.3, 0.9], 0.0)],
)
def test_unequal_shifts_match_quadrature(shifts, y):
    for epsilon in (0.0, 0.25, 0.8):
        lower, upper = delta_bounds(epsilon, shifts, y)
        assert upper == pytest.approx(one_by_one(epsilon, shifts, y), rel=1e-8)
        assert upper - lower <= 1e-14 * upper


def test_gaussian_part_alone_is_kappa():
    for epsilon in (0.0, 0.5, 4.0):
        lower, upper = delta_bounds(epsilon, [0.0, 0.0], 0.8)
        assert (
            lower * (1 - 1e-13) <= kappa(epsilon, 0.8) <= upper * (1 + 1e-13)
            and upper - lower <= 1e-15
        )


def test_the_worst_move_changes_with_epsilon():
    moves = [[1.0, 0.0], [0.51, 0.51]]
    assert delta_bounds(0.0, moves)[1] == pytest.approx(-math.expm1(-0.5), rel=1e-14)
    assert delta_bounds(0.0, moves[1])[1] == pytest.approx(0.2464, abs=1e-4)
    assert epsilon_upper(0.0, moves) == pytest.approx(1.02)


def test_the_maximum_over_moves_skips_none_that_matters():
    rng = np.random.default_rng(3)
    for _ in range(20):
        moves, y = rng.exponential(0.4, (12, 3)), rng.choice([0.0, 0.6], 12)
        epsilon = rng.uniform(0, 1.5)
        each = [delta_bounds(epsilon, move, part) for move, part in zip(moves, y)]
        assert delta_bounds(epsilon, moves, y) == tuple(np.max(each, axis=0))


def test_both_routes_bound_the_same_delta():
    rng = np.random.default_rng(0)
    for _ in range(60):
        r, y = rng.integers(1, 8), rng.choice([0.0, 0.05, 0.9])
        shifts = rng.exponential(rng.choice([0.01, 0.5, 3.0]), r)
        epsilon = rng.uniform(0, 1.1) * shifts.sum()
        lower, upper = profile(epsilon, shifts, y)
        low, high = grid_profile(epsilon, shifts, y)
        assert low <= lower <= upper <= high
        assert high - low <= 1e-4 * high or high < 1e-8


@pytest.mark.parametrize(
    "r, a, fraction",
    [(40, 0.2, 0.05), (60, 0.2, 0.5), (60, 0.2, 0.87), (150, 0.05, 0.6)],
)
def test_many_shifts_are_convolved_to_four_digits_down_to_tiny_delta(r, a, fraction):
    epsilon = fraction * r * a
    lower, upper = profile(epsilon, np.full(r, a), 0.0)
    low, high = grid_profile(epsilon, np.full(r, a), 0.0)
    assert low <= lower <= upper <= high <= (1.0001 if low > 1e-8 else 1.002) * low
    assert upper - lower <= 1e-14 * upper


def test_losses_drawn_at_random_agree_in_both_directions():
    """400,000 losses each way: six standard errors, while 10 % less noise is off by more than eleven."""
    shifts, y, epsilon, n = np.array([0.9, 0.4, 0.6]), 0.5, 0.7, 400_000
    rng = np.random.default_rng(7)
    x, g = rng.laplace(size=(n, 3)), rng.normal(size=n)
    claimed, weaker = (
        delta_bounds(epsilon, shifts, y)[1],
        delta_bounds(epsilon, shifts / 0.9, y / 0.9)[1],
    )
    forward = (abs(x - shifts) - abs(x)).sum(axis=1) + y * y / 2 - y * g
    backward = (abs(x + shifts) - abs(x)).sum(axis=1) + y * y / 2 + y * g
    for loss in (forward, backward):
        sample = -np.expm1(np.minimum(epsilon - loss, 0))
        error = sample.std() / math.sqrt(n)
        assert abs(sample.mean() - claimed) < 6 * error
        assert abs(sample.mean() - weaker) > 11 * error


def test_epsilon_is_certified_and_the_smallest():
    rng = np.random.default_rng(1)
    for _ in range(25):
        moves, y = rng.exponential(0.5, (4, 3)), rng.choice([0.0, 0.4]) * rng.random(4)
        delta = 10 ** rng.uniform(-9, -0.5)
        epsilon = epsilon_upper(delta, moves, y)
        assert delta_bounds(epsilon, moves, y)[1] <= delta
        assert epsilon == 0 or delta_bounds(epsilon * (1 - 1e-10), moves, y)[1] > delta


def test_epsilon_of_many_releases_is_certified():
    shifts = np.random.default_rng(2).uniform(0.01, 0.3, 40)
    epsilon = epsilon_upper(1e-5, shifts)
    assert (
        delta_bounds(epsilon, shifts)[1]
        <= 1e-5
        < delta_bounds(epsilon * (1 - 1e-4), shifts)[1]
    )


def test_pure_epsilon_is_the_sum_rounded_up_and_no_gaussian_is_pure():
    shifts = [0.1] * 10
    assert math.fsum(shifts) <= epsilon_upper(0.0, shifts) <= math.nextafter(1.0, 2)
    assert delta_bounds(epsilon_upper(0.0, shifts), shifts) == (0.0, 0.0)
    assert epsilon_upper(0.0, shifts, 1e-3) == math.inf
    assert epsilon_upper(0.0, [0.0]) == 0.0 and epsilon_upper(0.9, shifts) == 0.0


@pytest.mark.parametrize("a", [0.05, 1.0, 6.0])
@pytest.mark.parametrize("alpha", [0.25, 0.5, 0.999999, 1.0, 1.5, 2.0, 30.0])
def test_renyi_divergence_matches_quadrature_and_is_rounded_up(a, alpha):
    with mp.workdps(40):
        a_, alpha_ = mp.mpf(a), mp.mpf(alpha)
        middle = mp.quad(
            lambda x: mp.exp(-x + (alpha_ - 1) * (a_ - 2 * x)) / 2, [0, a_]
        )
        moment = mp.exp((alpha_ - 1) * a_) / 2 + middle + mp.exp(-a_ * alpha_) / 2
        truth = mp.log(moment) / (alpha_ - 1) if alpha != 1 else a_ + mp.exp(-a_) - 1
        assert truth <= rdp(alpha, [a]) <= truth * (1 + mp.mpf(1e-14))
        truth = 2 * truth + alpha_ * mp.mpf(0.3) ** 2 / 2
        assert (
            truth <= rdp(alpha, [[a, a], [a, 0.0]], 0.3) <= truth * (1 + mp.mpf(1e-14))
        )


def test_renyi_divergence_of_infinite_order_is_the_pure_epsilon():
    assert rdp(math.inf, [[0.5, 0.25], [0.6, 0.0]]) == pytest.approx(0.75)
    assert rdp(math.inf, [0.5], 0.1) == math.inf


def test_zcdp_bounds_every_order_and_is_attained_at_one():
    for a in (1e-6, 0.3, 1.0, 5.0, 60.0):
        rho = zcdp_upper([a])
        assert rdp(1.0, [a]) <= rho * (1 + 1e-14)
        assert rho <= min(a * a / 2, a) * (1 + 1e-14)
        orders = 1 + np.logspace(-9, 6, 200)
        assert max(rdp(alpha, [a]) / alpha for alpha in orders) <= rho * (1 + 1e-14)
        assert rdp(1 + 1e-9, [a]) / (1 + 1e-9) == pytest.approx(rho, rel=1e-7)
    assert zcdp_upper([[0.5, 0.5], [0.7, 0.0]], [0.2, 0.9]) == pytest.approx(
        0.7 + math.exp(-0.7) - 1 + 0.405
    )


def test_gdp_of_one_shift_is_exact():
    for a in (1e-6, 0.2, 1.0, 9.0, 300.0, 4000.0):
        mu = mp.mpf(gdp_upper([a]))
        with mp.workdps(30):
            assert (
                mp.erfc(mu / mp.sqrt(8))
                <= mp.exp(-mp.mpf(a) / 2)
                <= mp.erfc(mu * (1 - mp.mpf(1e-14)) / mp.sqrt(8))
            )
    for epsilon in np.linspace(0, 3, 40):
        assert delta_bounds(epsilon, [1.3])[0] <= kappa(epsilon, gdp_upper([1.3])) * (
            1 + 1e-13
        )
    assert delta_bounds(0.0, [1.3])[0] > kappa(0.0, gdp_upper([1.3]) * (1 - 1e-12))


def test_gdp_covers_products_and_never_exceeds_that_of_their_pure_epsilon():
    rng = np.random.default_rng(4)
    for _ in range(30):
        shifts, y = rng.exponential(0.7, rng.integers(1, 6)), rng.choice([0.0, 0.5])
        mu = gdp_upper(shifts, y)
        for epsilon in np.linspace(0, shifts.sum() + 4 * y, 9):
            assert delta_bounds(epsilon, shifts, y)[0] <= kappa(epsilon, mu) * (
                1 + 1e-12
            )
        assert y or mu <= gdp_upper([shifts.sum()]) * (1 + 1e-14)


def test_larger_shifts_are_never_more_private():
    rng = np.random.default_rng(5)
    for _ in range(30):
        shifts, y = rng.exponential(0.5, 3), rng.choice([0.0, 0.4])
        larger, epsilon = shifts + rng.choice([0, 0.05], 3), rng.uniform(0, 1.5)
        assert (
            delta_bounds(epsilon, shifts, y)[0]
            <= delta_bounds(epsilon, larger[::-1], y + 0.01)[1]
        )


def test_dropped_moves_are_dominated_and_change_no_guarantee():
    rng = np.random.default_rng(6)
    moves, y = rng.exponential(0.3, (60, 3)), rng.choice([0.0, 0.3], 60)
    kept, part, exact = pareto_moves(moves, y)
    assert exact and len(kept) < 40
    ordered = -np.sort(-moves, axis=1)
    above = (ordered[:, None] <= kept).all(axis=2) & (y[:, None] <= part)
    assert above.any(axis=1).all()
    strictly = (kept[:, None] <= kept).all(axis=2) & (part[:, None] <= part)
    assert (strictly == np.eye(len(kept), dtype=bool)).all()
    for epsilon in (0.0, 0.5, 1.5):
        assert delta_bounds(epsilon, kept, part) == delta_bounds(epsilon, moves, y)
    for measure in (
        zcdp_upper,
        gdp_upper,
        lambda *loss: rdp(3.0, *loss),
        lambda *loss: epsilon_upper(1e-3, *loss),
    ):
        assert measure(kept, part) == pytest.approx(measure(moves, y), rel=1e-14)


@pytest.mark.parametrize("limit", [1, 2, 10, 100])
def test_too_many_moves_are_rounded_up_and_said_so(limit):
    rng = np.random.default_rng(8)
    moves = rng.dirichlet(np.ones(3), 400)
    kept, part, exact = pareto_moves(moves, limit=limit)
    assert not exact and len(kept) <= limit and not part.any()
    assert (-np.sort(-moves, axis=1)[:, None] <= kept).all(axis=2).any(axis=1).all()
    assert delta_bounds(0.2, kept)[1] >= delta_bounds(0.2, moves)[0]
    if limit == 100:
        assert epsilon_upper(0.0, kept) <= 1.1


def test_zero_moves_cost_nothing():
    kept, part, exact = pareto_moves(np.zeros((4, 2)))
    assert kept.shape == (1, 0) and part.tolist() == [0.0] and exact
    for measure in (
        zcdp_upper,
        gdp_upper,
        lambda s: rdp(2.0, s),
        lambda s: epsilon_upper(0.1, s),
    ):
        assert measure([0.0, 0.0]) == 0.0
    assert delta_bounds(0.0, [0.0]) == (0.0, 0.0)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="negative entry; pass absolute values"):
        delta_bounds(1.0, [-0.5])
    with pytest.raises(ValueError, match="expected a number or shape"):
        delta_bounds(1.0, [[0.5], [0.2]], [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="expected a probability"):
        epsilon_upper(1.0, [0.5])
    with pytest.raises(ValueError, match="expected a finite number >= 0"):
        delta_bounds(-0.1, [0.5])
    with pytest.raises(ValueError, match="expected a finite number > 0"):
        rdp(0.0, [0.5])
