"""The privacy loss of products and mixtures: every number is on the private side, and sharp, by a second route.

The second routes are the law written out in mpmath, adaptive quadrature, draws, and a convolution on a grid of its own.
"""

import itertools
import math
import sys
import time
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from oracles import delta_bounds
from repeats import few
from scipy.integrate import quad
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from privcontrol.core import PrivacyBudget, UncertifiableError, kappa, kappa_inverse
from privcontrol.numerics.saved import decode, encode
from privcontrol.privacy import loss as loss_module
from privcontrol.privacy.joint import (
    _curve,
    _is_below_gaussian,
    alone_gdp,
    joint_gdp,
)
from privcontrol.privacy.loss import (
    LaplaceShift,
    PrivacyLoss,
    Product,
    composed,
    detection,
    exact_measures,
    gaussian_detection,
    scaled,
    worst_moves,
)


@pytest.fixture
def bare(monkeypatch):
    """As if dp-accounting were not installed."""
    for name in [name for name in sys.modules if name.startswith("dp_accounting")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    loss_module._distribution.cache_clear()
    loss_module._discretised.cache_clear()
    assert loss_module._distribution(Product(((0.5, 2),))) is None
    yield
    loss_module._distribution.cache_clear()


def laplace(*shifts):
    """The loss of one move with these shifts."""
    return PrivacyLoss.laplace(np.array(shifts, float)[:, None])


def mixed(shifts, y):
    known = laplace(*shifts)
    return composed(known, PrivacyLoss.gaussian(y, (0,))) if y else known


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
    few(
        [
            (2, 0.5, 0.3, 0.1719914946),
            (3, 0.7, 0.8, 0.1958863645),
            (5, 0.4, 1.0, 0.0748796342),
        ],
        of=2,
    ),
)
def test_equal_shifts_match_the_law_written_out(d, a, epsilon, golden):
    truth = equal_shifts(d, a, epsilon)
    assert truth <= laplace(*[a] * d).delta(epsilon) <= truth * (1 + mp.mpf(1e-5))
    assert truth == pytest.approx(golden, abs=1e-10)


def test_one_shift_has_the_closed_form():
    for a in (1e-9, 0.3, 2.0, 40.0):
        one = laplace(a)
        assert exact_measures(one) == ("delta", "epsilon", "rdp", "zcdp")
        for epsilon in (0.0, 0.1 * a, 0.9 * a, a, 2 * a):
            truth = max(-mp.expm1((mp.mpf(epsilon) - mp.mpf(a)) / 2), 0)
            assert truth <= one.delta(epsilon) <= truth * (1 + mp.mpf(1e-14))


@pytest.mark.parametrize(
    "shifts, y",
    [([0.3], 0.5), ([1.1, 0.2], 0.0), ([1.1, 0.2], 0.7), ([0.5, 0.3, 0.9], 0.0)],
)
def test_unequal_shifts_match_quadrature(shifts, y):
    for epsilon in (0.0, 0.25, 0.8):
        truth = one_by_one(epsilon, shifts, y)
        assert (
            truth * (1 - 1e-8) <= mixed(shifts, y).delta(epsilon) <= truth * (1 + 1e-4)
        )


@pytest.mark.parametrize("seed", few(range(12), of=3))
def test_every_product_is_between_the_bounds_of_a_convolution(seed):
    rng = np.random.default_rng(seed)
    shifts = rng.exponential(rng.choice([0.05, 0.5, 3.0]), rng.integers(1, 8))
    y = rng.choice([0.0, 0.05, 0.9])
    for fraction in (0.0, 0.3, 0.8):
        epsilon = fraction * (shifts.sum() + y)
        low, high = delta_bounds(epsilon, shifts, y)
        assert low <= mixed(shifts, y).delta(epsilon) <= high * (1 + 1e-3) + 2e-12


@pytest.mark.parametrize(
    "r, a, y", few([(100, 0.03, 0.6), (40, 0.2, 0.1), (1000, 0.03, 0.0)], of=2)
)
def test_many_equal_shifts_are_between_the_bounds_of_a_convolution(r, a, y):
    """The convolution squares the law of one shift; its two bounds are r steps apart."""
    known = composed(laplace(a).released(r), PrivacyLoss.gaussian(y, (0,)))
    spread = math.sqrt(r) * a
    for epsilon in (0.2 * spread, 1.5 * spread, 3 * spread):
        truth = normal_limit(epsilon, r, a, y)
        assert known.delta(epsilon) == pytest.approx(truth, rel=2e-3)
        assert known.delta(epsilon) >= truth * (1 - 1e-6)


def normal_limit(epsilon, r, a, y):
    """delta by inverting the characteristic function of the loss (Gil-Pelaez), in quadrature."""

    def moment(s):
        """E exp(s L) of one Laplace loss under P, and of the Gaussian one."""
        inside = (np.exp(a * s) - np.exp(-a * (s + 1))) / (4 * (s + 0.5))
        one = np.exp(a * s) / 2 + np.exp(-a * (s + 1)) / 2 + inside
        return one**r * np.exp(y * y / 2 * (s + s * s))

    # delta = (1/2 pi) int M(z) exp(-eps z) / (z (z + 1)) over Re z = c > 0, by the Laplace transform of (1 - e^(eps-L))_+
    c = max((epsilon - r * a * a / 2) / (r * a * a + y * y), 0.5)
    width = 12 / math.sqrt(r * a * a + y * y)
    t = np.linspace(-width, width, 400_001)
    z = c + 1j * t
    values = moment(z) * np.exp(-epsilon * z) / (z * (z + 1))
    return float(np.trapezoid(values.real, t)) / (2 * math.pi)


def test_losses_drawn_at_random_agree_in_both_directions():
    """400,000 losses each way: six standard errors, while 10 % less noise is off by more than eleven."""
    shifts, y, epsilon, n = np.array([0.9, 0.4, 0.6]), 0.5, 0.7, 400_000
    rng = np.random.default_rng(7)
    x, g = rng.laplace(size=(n, 3)), rng.normal(size=n)
    claimed = mixed(shifts, y).delta(epsilon)
    weaker = mixed(shifts / 0.9, y / 0.9).delta(epsilon)
    forward = (abs(x - shifts) - abs(x)).sum(axis=1) + y * y / 2 - y * g
    backward = (abs(x + shifts) - abs(x)).sum(axis=1) + y * y / 2 + y * g
    for lost in (forward, backward):
        sample = -np.expm1(np.minimum(epsilon - lost, 0))
        error = sample.std() / math.sqrt(n)
        assert abs(sample.mean() - claimed) < 6 * error
        assert abs(sample.mean() - weaker) > 11 * error


def test_the_worst_move_changes_with_epsilon_and_none_that_matters_is_skipped():
    moves = np.array([[1.0, 0.51], [0.0, 0.51]])
    both = PrivacyLoss.laplace(moves)
    assert both.delta(0.0) == pytest.approx(-math.expm1(-0.5), rel=1e-13)
    assert both.epsilon(0.0) == pytest.approx(1.02, rel=1e-15)
    rng = np.random.default_rng(3)
    for _ in range(10):
        columns, epsilon = rng.exponential(0.4, (3, 12)), rng.uniform(0, 1.5)
        each = [laplace(*column).delta(epsilon) for column in columns.T]
        assert PrivacyLoss.laplace(columns).delta(epsilon) == pytest.approx(
            max(each), rel=1e-12
        )


def test_epsilon_is_certified_and_the_smallest():
    rng = np.random.default_rng(1)
    for _ in range(12):
        columns, y = rng.exponential(0.5, (3, 4)), rng.choice([0.0, 0.4])
        delta = 10 ** rng.uniform(-9, -0.5)
        known = PrivacyLoss.laplace(columns)
        known = composed(known, PrivacyLoss.gaussian(y)) if y else known
        epsilon = known.epsilon(delta)
        assert known.delta(epsilon) <= delta
        assert epsilon == 0 or known.delta(epsilon * (1 - 1e-9)) > delta
        assert known.epsilon(2 * delta) <= epsilon


def test_pure_epsilon_is_the_sum_rounded_up_and_no_gaussian_is_pure():
    shifts = [0.1] * 10
    assert laplace(*shifts).epsilon(0.0) == laplace(*shifts).pure == 1.0
    assert laplace(*shifts).delta(1.0) == 0.0
    assert mixed(shifts, 1e-3).epsilon(0.0) == math.inf
    assert laplace(0.0).epsilon(0.0) == 0.0
    assert laplace(*shifts).epsilon(0.9) == 0.0


@pytest.mark.parametrize("a", [1e-9, 1e-4, 0.05, 1.0, 6.0, 300.0])
@pytest.mark.parametrize("alpha", [1.0001, 1.5, 2.0, 30.0, 1e4])
def test_renyi_divergence_matches_the_closed_form_and_is_rounded_up(a, alpha):
    with mp.workdps(60):
        a_, o = mp.mpf(a), mp.mpf(alpha)
        moment = o * mp.exp((o - 1) * a_) + (o - 1) * mp.exp(-o * a_)
        truth = mp.log(moment / (2 * o - 1)) / (o - 1)
        assert truth <= laplace(a).rdp(alpha)
        slack = mp.mpf(1e-4) if a < 1e-3 else mp.mpf(1e-6)
        assert laplace(a).rdp(alpha) <= truth * (1 + slack)
        both = 2 * truth + o * mp.mpf(0.3) ** 2 / 2
        assert both <= mixed([a, a], 0.3).rdp(alpha) <= both * (1 + slack)


def test_the_closed_form_of_the_divergence_is_the_integral():
    for a, alpha in ((0.7, 2.5), (2.0, 1.2)):

        def density(x, a=a, alpha=alpha):
            return math.exp(-x + (alpha - 1) * (a - 2 * x)) / 2

        inside = quad(density, 0, a)[0]
        moment = math.exp((alpha - 1) * a) / 2 + inside + math.exp(-a * alpha) / 2
        truth = math.log(moment) / (alpha - 1)
        assert laplace(a).rdp(alpha) == pytest.approx(truth, rel=1e-9)


def test_zcdp_bounds_every_order_and_is_attained_at_one():
    for a in (1e-12, 1e-6, 9.99e-4, 1.01e-3, 0.3, 1.0, 5.0, 60.0):
        with mp.workdps(50):
            exact = mp.mpf(a) + mp.exp(-mp.mpf(a)) - 1
            assert exact <= LaplaceShift(a).zcdp <= exact * (1 + mp.mpf(1e-10))
        orders = 1 + np.logspace(-9, 6, 100)
        ratios = [laplace(a).rdp(alpha) / alpha for alpha in orders]
        assert max(ratios) <= LaplaceShift(a).zcdp * (1 + 1e-14)


def test_gdp_of_one_shift_is_exact():
    for a in (1e-6, 0.2, 0.999, 1.0, 9.0, 300.0, 4000.0):
        mu = mp.mpf(LaplaceShift(a).gdp)
        with mp.workdps(30):
            assert (
                mp.erfc(mu / mp.sqrt(8))
                <= mp.exp(-mp.mpf(a) / 2)
                <= mp.erfc((mu * (1 - mp.mpf(2e-12)) - 3e-14) / mp.sqrt(8))
            )


def test_gdp_of_a_response_covers_its_corner_and_that_of_tiny_ones():
    """A test that errs with 1/(1 + e^epsilon) both ways is the corner of the trade-off curve."""
    for epsilon in np.geomspace(1e-8, 30, 60):
        mu = mp.mpf(PrivacyLoss.black_box(((float(epsilon), 0.0, 1),)).gdp)
        with mp.workdps(30):
            odds = mp.exp(mp.mpf(float(epsilon)))
            assert mp.ncdf(mu / 2) >= odds / (1 + odds)
            assert mp.ncdf(mu * (1 - mp.mpf(1e-11)) / 2 - 2e-14) < odds / (1 + odds)


@pytest.mark.parametrize("seed", few(range(6), of=2))
def test_gdp_covers_products_and_never_exceeds_that_of_their_pure_epsilon(seed):
    rng = np.random.default_rng(seed)
    shifts, y = rng.exponential(0.7, rng.integers(1, 6)), rng.choice([0.0, 0.5])
    mu = mixed(shifts, y).gdp
    for epsilon in np.linspace(0, shifts.sum() + 4 * y, 9):
        assert delta_bounds(epsilon, shifts, y)[0] <= kappa(epsilon, mu) * (1 + 1e-9)
    assert y or mu <= LaplaceShift(shifts.sum()).gdp * (1 + 1e-13)


def response_errors(epsilons):
    """(false alarms, misses) of all likelihood-ratio tests of responses, with both ends."""
    chances = [
        (math.exp(e) / (1 + math.exp(e)), 1 / (1 + math.exp(e))) for e in epsilons
    ]
    outcomes = []
    for answers in itertools.product((0, 1), repeat=len(epsilons)):
        without = math.prod(one[answer] for one, answer in zip(chances, answers))
        with_it = math.prod(one[1 - answer] for one, answer in zip(chances, answers))
        outcomes.append((with_it / without, without, with_it))
    outcomes.sort(reverse=True)
    alarms = np.cumsum([0.0] + [without for _, without, _ in outcomes])
    found = np.cumsum([0.0] + [with_it for _, _, with_it in outcomes])
    return alarms, 1 - found


@pytest.mark.parametrize(
    "epsilons, claimed, by_squares",
    [
        ((1.0, 2.0), 2.358, 2.660),
        ((0.5,) * 5, 1.169, 1.395),
        ((0.3, 2.0), 2.358, 2.388),
    ],
)
def test_gdp_of_pure_releases_is_that_of_their_trade_off_curve(
    epsilons, claimed, by_squares
):
    """The curve is above that of mu, and 1 % less than mu is above it somewhere."""
    loss = PrivacyLoss.black_box((one, 0.0, 1) for one in epsilons)
    alone = [PrivacyLoss.black_box(((one, 0.0, 1),)).gdp for one in epsilons]
    assert math.hypot(*alone) == pytest.approx(by_squares, abs=5e-4)
    assert loss.gdp == pytest.approx(claimed, abs=5e-4)
    grid = np.linspace(1e-6, 1 - 1e-6, 20_001)
    curve = np.interp(grid, *response_errors(epsilons))

    def gaussian(mu):
        return ndtr(-ndtri(grid) - mu)

    assert (gaussian(loss.gdp) <= curve).all()
    assert (gaussian(0.99 * loss.gdp) > curve).any()


def test_gdp_of_laplace_releases_is_that_of_their_joint_law():
    """Four shifts of 0.1 are 0.2069-GDP by their closed form, and the squares give 0.2447."""
    together = laplace(*[0.1] * 4)
    assert together.gdp == pytest.approx(0.20689, abs=2e-5)
    assert laplace(0.1).gdp * 2 == pytest.approx(0.24465, abs=1e-5)
    for epsilon in (0.0, 0.102, 0.25):
        truth = float(equal_shifts(4, 0.1, epsilon))
        assert truth <= kappa(epsilon, together.gdp)
        if epsilon == 0.102:
            assert truth > kappa(epsilon, 0.999 * together.gdp)


@pytest.mark.parametrize("seed", few(range(3), of=1))
def test_gdp_of_releases_of_unlike_sizes_is_nearly_that_of_their_joint_law(seed):
    """By losses on a grid of their own, rounded down: never below what they demand."""
    rng = np.random.default_rng(seed)
    shifts = rng.exponential(0.5, 3 + 2 * seed) + 0.05
    levels = np.linspace(0, 0.9 * shifts.sum(), 30)
    lower = np.array([delta_bounds(level, shifts)[0] for level in levels])
    seen = lower > 1e-9
    mu = laplace(*shifts).gdp
    assert (lower[seen] <= kappa(levels[seen], mu)).all()
    least = max(map(kappa_inverse, levels[seen], lower[seen]))
    assert mu <= 1.02 * least
    assert mu < 0.98 * math.hypot(*(laplace(shift).gdp for shift in shifts))


def test_a_chord_is_above_the_gaussian_curve_by_its_sag():
    """A curve that touches mu-GDP at two far levels is above it in between, and refused."""
    for mu in (0.3, 1.0, 3.0):
        levels = np.array([0.0, mu, 2 * mu])
        touching = kappa(levels, mu) * (1 - 1e-6)
        assert not _is_below_gaussian(levels, touching, mu)
        fine = np.linspace(0.0, 2 * mu, 2001)
        below = 0.999 * kappa(fine, mu)
        assert _is_below_gaussian(fine, below, mu)
        for place in (0, 1000, 2000):
            above = np.where(np.arange(2001) == place, 1.01 * below, below)
            assert not _is_below_gaussian(fine, above, mu)


def test_gdp_of_large_shifts_is_that_of_their_joint_law_as_well():
    """Three of 15 each: 3 % less than the root of the sum of squares, and no less."""
    loss = laplace(*[15.0] * 3)
    assert loss.gdp < 0.97 * math.hypot(*[laplace(15.0).gdp] * 3)
    levels = [1.0, 10.0, 30.0, 40.0]
    assert all(equal_shifts(3, 15.0, e) <= kappa(e, loss.gdp) for e in levels)


def test_mu_of_a_group_is_found_to_a_hundred_thousandth():
    for size, count in ((0.03, 4), (0.1, 7), (0.7, 5), (1.0, 4), (3.0, 2)):
        group = [(LaplaceShift(size), count)]
        mu = joint_gdp(group)
        assert _is_below_gaussian(*_curve(group), mu)
        assert not _is_below_gaussian(*_curve(group), mu * (1 - 1.2e-5))


@pytest.mark.parametrize("size", [0.1, 1.0, 4.0])
def test_curves_are_compared_with_more_to_spare_than_rounding_takes(size):
    """On the grid they are those of the law, and above them by a billionth."""
    levels, deltas = _curve([(LaplaceShift(size), 1)])
    truth = [-mp.expm1((level - mp.mpf(size)) / 2) for level in levels[:-20].tolist()]
    above = [
        float(found / true - 1) for found, true in zip(deltas, truth, strict=False)
    ]
    assert len(above) > 80
    assert min(above) > 9e-10
    assert max(above) < 2e-9


def test_mu_of_the_smallest_sizes():
    """Of 3e-100 it is searched for, of less what is known without a search remains."""
    mu = alone_gdp(LaplaceShift(3e-100), 1.0)
    assert mu == pytest.approx(3e-100 * math.sqrt(math.pi / 2), rel=2e-3)
    assert alone_gdp(LaplaceShift(3e-101), 1.0) == 1.0


@pytest.mark.parametrize("count", [2, 7, 31])
def test_roots_of_sums_of_squares_are_rounded_up_by_little(count):
    one = LaplaceShift(1e-120)
    squares = Fraction(joint_gdp([(one, count)])) ** 2 / (
        count * Fraction(one.gdp) ** 2
    )
    assert 1 <= squares <= 1 + Fraction(1, 10**13)


def test_gdp_of_many_releases_nears_that_of_the_central_limit():
    """The root of the sum of squares stays 25 % above a root(n) for n shifts a."""
    for count, above in ((33, 1.015), (1000, 1.006), (10**7, 1.006)):
        gdp = laplace(0.01).released(count).gdp
        assert 1 < gdp / (0.01 * math.sqrt(count)) < above


def test_gdp_of_many_moves_is_that_of_the_worst():
    shifts = np.random.default_rng(5).exponential(0.3, (3, 15))
    loss = PrivacyLoss.laplace(shifts)
    each = [PrivacyLoss.laplace(column[:, None]).gdp for column in shifts.T]
    assert loss.gdp == pytest.approx(max(each), rel=1e-9)


# --- without dp-accounting ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", few(range(8), of=3))
def test_without_the_distributions_closed_forms_bound_the_same_curve(seed, bare):
    rng = np.random.default_rng(seed)
    shifts, y = rng.exponential(0.4, rng.integers(2, 7)), rng.choice([0.0, 0.3, 0.9])
    known = mixed(shifts, y)
    for epsilon in np.linspace(0, shifts.sum() + 3 * y, 7):
        low, high = delta_bounds(epsilon, shifts, y)
        assert low <= known.delta(epsilon)
        assert known.delta(epsilon) <= 30 * high or high < 1e-3
    for delta in (1e-6, 1e-2):
        assert known.delta(known.epsilon(delta)) <= delta


def test_what_is_closed_form_needs_no_distribution(bare):
    known = laplace(0.7)
    assert known.delta(0.2) == pytest.approx(-math.expm1(-0.25), rel=1e-13)
    assert laplace(0.3, 0.4).epsilon(0.0) == 0.7
    assert PrivacyLoss.gaussian(0.5325).delta(1.0) == pytest.approx(0.01, rel=1e-3)


def test_the_distributions_are_sharper_than_the_closed_forms():
    known = mixed([0.5] * 4, 0.5)
    (one,) = known._products
    assert known.delta(1.0) < 0.75 * one.ceiling(1.0)


def test_of_many_moves_that_one_dominates_a_single_distribution_is_made():
    """A pulse at each of 200 samples, each response a part of the first one's."""
    response = 0.1 * 0.9 ** np.arange(200)
    columns = np.zeros((200, 200))
    for start in range(200):
        columns[start:, start] = response[: 200 - start]
    known = PrivacyLoss.laplace(columns)
    loss_module._distribution.cache_clear()
    found = detection(known, 0.05)
    assert loss_module._distribution.cache_info().misses == 1
    assert found == detection(PrivacyLoss.laplace(columns[:, :1]), 0.05)


def test_moves_of_which_none_dominates_keep_their_distributions():
    known = PrivacyLoss.laplace(np.random.default_rng(3).exponential(0.1, (6, 50)))
    loss_module._distribution.cache_clear()
    detection(known, 0.05)
    assert loss_module._distribution.cache_info().misses <= 50


# --- black boxes ----------------------------------------------------------------------------------------------------


def answers(pairs):
    """(probability, loss) of every joint answer of the worst mechanisms of (epsilon, delta); loss inf is failure."""
    one = [
        [(d, math.inf)] + [((1 - d) / (1 + math.exp(-s * e)), s * e) for s in (-1, 1)]
        for e, d in pairs
    ]
    for outcome in itertools.product(*one):
        yield math.prod(p for p, _ in outcome), sum(lost for _, lost in outcome)


@pytest.mark.parametrize("installed", [True, False])
def test_many_unequal_black_boxes_beside_others_are_the_enumeration(installed, request):
    if not installed:
        request.getfixturevalue("bare")
    pairs = [(0.31, 1e-3), (0.17, 0.0), (0.31, 1e-3), (0.45, 1e-4)]
    y, a = 0.6, 0.25
    boxes = PrivacyLoss.black_box(tuple((e, d, 1) for e, d in pairs))
    both = composed(composed(boxes, PrivacyLoss.gaussian(y)), laplace(a))
    for epsilon in (0.0, 0.5, 1.5):
        low = high = 0.0
        for probability, lost in answers(pairs):
            if lost == math.inf:
                bounds = (1.0, 1.0)
            elif epsilon >= lost:
                bounds = delta_bounds(epsilon - lost, [a], y)
            else:
                ahead = delta_bounds(lost - epsilon, [a], y)
                bounds = [1 - math.exp(epsilon - lost) * (1 - value) for value in ahead]
            low += probability * bounds[0]
            high += probability * bounds[1]
        assert low <= both.delta(epsilon)
        assert both.delta(epsilon) <= high * (1 + 1e-3 if installed else 3)


def binomial_delta(count, answer, epsilon, terms):
    """Sum over k of the chance of k losses of ``answer`` of count, for all above epsilon."""
    with mp.workdps(40):
        answer = mp.mpf(answer)
        p = 1 / (1 + mp.exp(-answer))
        k = int((count + epsilon / answer) // 2) + 1
        ways = mp.loggamma(count + 1) - mp.loggamma(k + 1) - mp.loggamma(count - k + 1)
        mass = mp.exp(ways + k * mp.log(p) + (count - k) * mp.log(1 - p))
        less, step = mp.exp(epsilon - (2 * k - count) * answer), mp.exp(-2 * answer)
        odds = p / (1 - p)
    # decimals of 40 digits are many times as fast
    with localcontext(prec=40):
        mass, less, step, odds = (
            Decimal(mp.nstr(x, 40)) for x in (mass, less, step, odds)
        )
        total = Decimal(0)
        for more in range(k, min(count, k + terms) + 1):
            total += mass * (1 - less)
            mass *= odds * (count - more) / (more + 1)
            less *= step
    with mp.workdps(40):
        return mp.mpf(str(total))


def test_identical_black_boxes_are_the_binomial_sum_and_more_are_bounded():
    one = PrivacyLoss.black_box(((0.02, 0.0, 1),))
    for count in (50, 5000, 40_000):
        many = one.released(count)
        epsilon = 0.02 * math.sqrt(count)
        total = binomial_delta(count, 0.02, epsilon, terms=14 * math.isqrt(count))
        assert total * (1 - mp.mpf(1e-9)) <= many.delta(epsilon)
        assert many.delta(epsilon) <= total * (1 + mp.mpf(2e-3))


@pytest.mark.parametrize("epsilon", few([2.97, 2.49, 3.44], of=1))
def test_deltas_of_a_million_answers_are_above_the_rounding_of_their_transform(epsilon):
    """The losses lie on the grid, so nothing but the margin covers the rounding errors."""
    count, answer = 1_686_304, 3 / 2**13
    total = binomial_delta(count, answer, epsilon, terms=6 * math.isqrt(count))
    delta = PrivacyLoss.black_box(((answer, 0.0, count),)).delta(epsilon)
    assert total <= delta <= total + 1e-8


def test_counts_of_any_size_are_answered_at_once():
    began = time.process_time()
    epsilon = laplace(1e-3).released(10**9).epsilon(1e-5)
    limit = PrivacyLoss.gaussian(1e-3 * math.sqrt(1e9)).epsilon(1e-5)
    assert limit <= epsilon <= 1.6 * limit
    assert time.process_time() - began < 1


def test_losses_of_the_smallest_and_the_largest_shifts_are_probabilities():
    assert laplace(5e-324, 5e-324).delta(0.0) <= 1e-12
    assert laplace(5e-324, 5e-324).epsilon(1e-300) <= 1e-323
    assert 1 - 1e-12 <= laplace(1e3).delta(0.0) <= 1
    assert laplace(1e308, 1e308).delta(0.0) == 1


# --- the rest -------------------------------------------------------------------------------------------------------


def test_larger_shifts_are_never_more_private():
    rng = np.random.default_rng(5)
    for _ in range(15):
        shifts, y = rng.exponential(0.5, 3), rng.choice([0.0, 0.4])
        larger, epsilon = shifts + rng.choice([0, 0.05], 3), rng.uniform(0, 1.5)
        less, more = mixed(shifts, y), mixed(larger[::-1], y and y + 0.01)
        assert less.delta(epsilon) <= more.delta(epsilon) * (1 + 1e-4)


def test_dominated_moves_are_dropped_from_the_evaluation_and_from_nothing_else():
    rng = np.random.default_rng(6)
    columns = rng.exponential(0.3, (3, 60))
    known = PrivacyLoss.laplace(columns)
    assert len(known.rows) == len(known.moves) == 60
    assert len(known._products) < 40
    every = known.rows
    for epsilon in (0.0, 0.5, 1.5):
        truth = max(one.delta(epsilon) for one in every)
        assert known.delta(epsilon) == pytest.approx(truth, rel=1e-12)
    assert known.gdp == max(one.gdp for one in every)
    assert known.pure == max(one.pure for one in every)


def test_too_many_moves_are_one_bound(monkeypatch):
    columns = np.random.default_rng(8).exponential(0.2, (3, 400))
    full = PrivacyLoss.laplace(columns)
    monkeypatch.setattr(loss_module, "KEPT", 10)
    bound = PrivacyLoss.laplace(columns)
    assert len(bound.rows) == 1
    assert exact_measures(bound) == ()
    assert worst_moves(bound) == worst_moves(full)
    assert bound.pure == full.pure
    assert bound.delta(0.2) >= full.delta(0.2)


@pytest.mark.parametrize("moves, rows", [(64, 64), (67, 1)])
def test_moves_of_up_to_65536_numbers_are_kept_each(moves, rows):
    shifts = np.random.default_rng(0).exponential(0.1, (1000, moves))
    assert len(PrivacyLoss.laplace(shifts).rows) == rows


@pytest.mark.parametrize("moves, rows", [(64, 64), (65, 1)])
def test_up_to_64_moves_of_blocks_are_kept_each(moves, rows):
    """On a quarter of a circle no move is within another one."""
    angles = np.linspace(0.1, 1.4, moves)
    sizes = [np.cos(angles), np.sin(angles)]
    assert len(PrivacyLoss.blocks(sizes, [2, 1]).rows) == rows


def test_releases_compose_move_by_move():
    first = PrivacyLoss.laplace([[0.1, 0.2, 0.3], [0.5, 0.0, 0.2]])
    second = PrivacyLoss.laplace([[0.2, 0.4, 0.1]])
    both = composed(first, second)
    assert [row.shifts for row in both.rows] == [
        ((0.5, 1), (0.2, 1), (0.1, 1)),
        ((0.4, 1), (0.2, 1)),
        ((0.3, 1), (0.2, 1), (0.1, 1)),
    ]
    assert both.moves == ((0,), (1,), (2,))
    assert both.attained
    assert both.aligned
    gaussian = PrivacyLoss.gaussian(0.5, (1, 2))
    for mixed_loss in (composed(both, gaussian), composed(gaussian, both)):
        assert mixed_loss.kinds == ("Gaussian", "Laplace")
        assert not mixed_loss.attained
        assert [row.shifts for row in mixed_loss.rows] == [r.shifts for r in both.rows]
        assert {row.square for row in mixed_loss.rows} == {Fraction(1, 4)}
        assert mixed_loss.moves == ((), (1,), (2,))


@pytest.mark.parametrize("aligned", [True, False])
def test_losses_of_unlike_moves_compose_to_a_bound_of_all_pairs(aligned):
    moves = None if aligned else (4, 7)
    first = PrivacyLoss.laplace([[0.1, 0.4], [0.6, 0.2]], moves=moves)
    others = [[0.3, 0.2, 0.5], [0.1, 0.4, 0.0]][: 2 if aligned else 1]
    second = PrivacyLoss.laplace(np.array(others)[:, : 3 if aligned else 2])
    both = composed(first, second)
    assert len(both.rows) == 1
    assert both.moves == ((),)
    assert not both.attained
    assert both.pure == pytest.approx(first.pure + second.pure, rel=1e-15)
    for row, other in itertools.product(first.rows, second.rows):
        for epsilon in (0.0, 0.3, 0.9):
            assert (row + other).delta(epsilon) <= both.delta(epsilon) * (1 + 1e-9)


def test_losses_survive_their_dictionaries():
    for known in (
        PrivacyLoss.gaussian(0.3, (1, 2)),
        PrivacyLoss.laplace([[0.1, 0.2], [0.3, 0.0]]),
        PrivacyLoss.black_box(((0.1, 1e-6, 3),)),
        composed(PrivacyLoss.gaussian(0.3), laplace(0.2)),
    ):
        again = decode(encode(known))
        assert again == known
        assert scaled(again, Fraction(2)) == scaled(known, Fraction(2))


@pytest.mark.parametrize("alarm", [1e-6, 0.01, 0.05, 0.5, 0.99])
def test_detections_are_those_of_the_best_test(alarm):
    """Gaussian: Phi(Phi^-1(a) + y). One Laplace coordinate: its trade-off function, written out."""
    with mp.workdps(30):
        y = mp.mpf(0.8)
        quantile = mp.sqrt(2) * mp.erfinv(2 * mp.mpf(alarm) - 1)
        truth = mp.ncdf(quantile + y)
        assert truth <= gaussian_detection(alarm, 0.8) <= truth * (1 + mp.mpf(1e-12))
    a = 0.8
    ends = math.exp(-a) / 2
    if alarm <= ends:
        power = math.exp(a) * alarm
    elif alarm <= 0.5:
        power = 1 - math.exp(-a) / (4 * alarm)
    else:
        power = 1 - math.exp(-a) * (1 - alarm)
    found = detection(laplace(a), alarm)
    assert power * (1 - 1e-12) <= found <= power * (1 + 1e-3)


def test_a_likelihood_ratio_test_of_a_product_detects_no_more():
    """200,000 trials: four standard errors; noise 10 % too small detects more than that."""
    shifts, alarm, n = np.array([0.5, 0.9]), 0.05, 200_000
    rng = np.random.default_rng(2)
    claimed = detection(laplace(*shifts), alarm)

    def attained(scale):
        null, moved = (
            rng.laplace(size=(n, 2)),
            rng.laplace(size=(n, 2)) + shifts / scale,
        )
        score = lambda x: (abs(x) - abs(x - shifts / scale)).sum(axis=1)  # noqa: E731
        jitter = 1e-9 * rng.normal(size=(2, n))
        limit = np.quantile(score(null) + jitter[0], 1 - alarm)
        return np.mean(score(moved) + jitter[1] > limit)

    error = math.sqrt(claimed * (1 - claimed) / n)
    assert attained(1.0) <= claimed + 4 * error
    assert attained(0.9) > claimed + 4 * error


def test_a_thousand_mixed_charges_are_evaluated_fast():
    """Alternating Gaussian and Laplace releases until the budget is full; the median evaluation below 10 ms."""
    budget, known, seconds = PrivacyBudget(epsilon=2.0, delta=1e-3), None, []
    y = kappa_inverse(2.0, 1e-3) / math.sqrt(1000)
    parts = [PrivacyLoss.gaussian(y, (0,)), laplace(y)]
    for count in range(1000):
        part = parts[count % 2]
        known = part if known is None else composed(known, part)
        if count % 9:
            continue
        began = time.process_time()
        assert known.satisfies(budget), count
        seconds.append(time.process_time() - began)
        if count >= 900:
            break
    assert np.median(seconds) < 0.01


def test_the_probability_that_an_assumption_fails_is_added():
    """It may fail where the noise itself hides best: then both deltas add up exactly."""
    epsilon, beta = 0.5, 0.02
    away = float(mp.sqrt(2) * mp.erfinv(1 - 2 * beta))  # P(N(0, 1) > away) = beta
    # the noisy number moves by one, and beyond `away` the release tells the truth
    apart = quad(
        lambda y: max(norm.pdf(y) - math.exp(epsilon) * norm.pdf(y, 1), 0), -10, away
    )[0]
    exact = apart + beta
    loss = composed(PrivacyLoss.gaussian(1.0), PrivacyLoss.black_box(((0.0, beta, 1),)))
    assert loss.delta(epsilon) >= exact * (1 - 1e-7)
    assert loss.delta(epsilon) == pytest.approx(exact, rel=1e-6)
    assert loss.released(3).delta(epsilon) == pytest.approx(
        kappa(epsilon, math.sqrt(3)) + 3 * beta, rel=1e-9
    )
    beside = composed(loss, PrivacyLoss.black_box(((0.0, 0.01, 2), (0.1, 1e-3, 1))))
    assert 1e-3 + 0.04 < beside.failure <= 0.041 * (1 + 1e-12)


@pytest.mark.parametrize("delta", [1e-17, 1e-12, 3e-9, 1e-4])
@pytest.mark.parametrize("false_alarm", [1e-17, 1e-12, 1e-9, 1e-4])
def test_detections_of_rare_events_are_rounded_up(delta, false_alarm):
    """Two laws that differ on an event of probability delta only add it to the alarms."""
    loss = PrivacyLoss.black_box([(0.0, delta, 1)])
    exact = Fraction(false_alarm) + Fraction(delta)
    known = Fraction(detection(loss, false_alarm))
    assert exact <= known <= exact * (1 + Fraction(1, 10**12))


def test_losses_at_the_end_of_the_doubles_are_numbers_or_infinite():
    """Sums of two losses above 1e308, and shifts whose squares no double holds."""
    wide = PrivacyLoss.laplace([[1.5e308], [1.1e308]])
    assert (wide.zcdp, wide.rdp(2.0), wide.epsilon(0.1)) == (math.inf,) * 3
    assert wide.delta(0.1) == 1.0
    many = PrivacyLoss.gaussian(1e308).released(10**9)
    assert many.gdp == math.inf
    assert many.delta(1.0) == 1.0
    assert PrivacyLoss.gaussian(1.79e308).delta(1e4) == 1.0
    with pytest.raises(UncertifiableError, match="smaller radius"):
        scaled(wide, Fraction(10**9))
    with pytest.raises(UncertifiableError, match="smaller radius"):
        scaled(PrivacyLoss.black_box([(1e300, 0.0, 1)]), Fraction(10) ** 400)
    far = scaled(PrivacyLoss.gaussian(1.0), Fraction(10) ** 400)
    assert far.gdp == math.inf
