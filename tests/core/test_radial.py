"""Radial noise: its curve by three routes, the sizes that keep a budget, and its loss."""

import math

import mpmath
import numpy as np
import pytest
from repeats import few
from scipy import integrate
from scipy.special import betainc, gammainc

from privcontrol.core import kappa_inverse
from privcontrol.numerics.saved import decode, encode
from privcontrol.privacy import loss as loss_module
from privcontrol.privacy.loss import (
    LaplaceShift,
    PrivacyLoss,
    RadialShift,
    composed,
    detection,
    exact_measures,
    scaled,
)
from privcontrol.privacy.radial import (
    ball_delta,
    ball_rate,
    is_resolved,
    leak,
    truncated_delta,
    truncated_radius,
)

#: Std of the ball law over that of Gaussian noise, for r = 1 to 6.
AGAINST_GAUSSIAN = {
    (1.0, 1e-2): (0.738, 0.848, 0.903, 0.932, 0.949, 0.960),
    (1.0, 1e-5): (0.379, 0.464, 0.533, 0.591, 0.638, 0.676),
    (0.3, 1e-2): (0.969, 1.032, 1.041, 1.040, 1.037, 1.033),
    (3.0, 1e-5): (0.339, 0.415, 0.478, 0.532, 0.578, 0.617),
    (0.1, 1e-6): (0.390, 0.477, 0.547, 0.605, 0.652, 0.690),
}
BUDGETS = list(AGAINST_GAUSSIAN)


def direct_delta(epsilon, rate, r):
    """delta by an average over the distance, with another integral for each: no foci."""

    def below(cosine):
        if r == 1:
            return 0.5 * (cosine > -1) + 0.5 * (cosine > 1)
        half = (r - 1) / 2
        return betainc(half, half, (1 + np.clip(cosine, -1, 1)) / 2)

    def at(distance):
        a = distance / rate
        t = np.linspace(epsilon / rate, 1, 401)
        values = (
            rate * np.exp(epsilon - rate * t) * below((1 - 2 * a * t - t * t) / (2 * a))
        )
        return integrate.simpson(values, x=t)

    distances = np.linspace(1e-9, 20 + 4 * r, 1501)
    weights = distances ** (r - 1) * np.exp(-distances) / math.gamma(r)
    return integrate.simpson(weights * [at(a) for a in distances], x=distances)


def drawn(r, count, rng):
    eta = rng.standard_normal((count, r))
    return eta * (rng.gamma(r, size=count) / lengths(eta))[:, None]


def lengths(rows):
    return np.sqrt(np.einsum("ij,ij->i", rows, rows))


def losses_of(eta, size):
    moved = eta.copy()
    moved[:, 0] -= size
    return lengths(moved) - lengths(eta)


def exact_delta(epsilon, rate, r, places=(0,)):
    """delta in 30 digits, by the law of the loss in coordinates with two foci.

    The integral over the angle is split at ``places``.
    """
    with mpmath.workdps(30):
        epsilon, s = mpmath.mpf(epsilon), mpmath.mpf(rate)
        if r == 1:
            return 1 - mpmath.exp((epsilon - s) / 2)
        k = mpmath.mpf(r) / 2

        def moment(order):
            gamma = mpmath.gamma(order + mpmath.mpf(1) / 2) / mpmath.sqrt(mpmath.pi)
            return gamma * (4 / s) ** order * mpmath.besselk(order, s / 2)

        wide, narrow = moment(k), moment(k - 1)
        constant = (s / 2) ** r / mpmath.gamma(r) / mpmath.beta(0.5, k - 0.5)

        def density(angle):
            v = s * mpmath.cos(angle)
            shape = (
                wide * mpmath.sin(angle) ** (r - 2) + narrow * mpmath.sin(angle) ** r
            )
            return shape * mpmath.exp(v / 2) * -mpmath.expm1(epsilon - v)

        end = mpmath.acos(epsilon / s)
        inside = sorted({0, *(place for place in places if place < end)})
        return constant * mpmath.quad(density, [*inside, end])


# -- sizes for a budget ------------------------------------------------------------------


@pytest.mark.parametrize("budget", BUDGETS)
def test_ball_rates_are_those_of_the_table(budget):
    found = [
        math.sqrt(r + 1) / ball_rate(*budget, r) * kappa_inverse(*budget)
        for r in range(1, 7)
    ]
    assert np.round(found, 3) == pytest.approx(AGAINST_GAUSSIAN[budget], abs=1.01e-3)
    assert abs(np.array(found) - AGAINST_GAUSSIAN[budget]).max() < 6e-4


@pytest.mark.parametrize("r", [1, 2, 3, 4, 5, 6])
def test_delta_is_that_of_an_integral_over_the_distance(r):
    for epsilon, delta in [(1.0, 1e-2)]:
        rate = ball_rate(epsilon, delta, r)
        assert direct_delta(epsilon, rate, r) == pytest.approx(delta, rel=2e-3)


@pytest.mark.parametrize("r", [2, 3, 6])
def test_delta_is_that_of_draws(r):
    # 400,000 draws; 5 standard errors of a mean of numbers within [0, 1]
    losses = losses_of(drawn(r, 400_000, np.random.default_rng(r)), 1.3)
    for level in (0.0, 0.5, 1.0):
        excess = np.maximum(-np.expm1(level - losses), 0.0)
        error = 5 * excess.std() / math.sqrt(len(losses))
        assert ball_delta(level, 1.3, r) == pytest.approx(excess.mean(), abs=error)
        # noise that is 10 % off is told apart
        assert abs(ball_delta(level, 1.43, r) - excess.mean()) > error


@pytest.mark.parametrize(
    "size, r",
    few([(1e-6, 2), (0.6, 256), (1e-6, 120), (0.01, 160), (0.3, 256), (6.0, 40)], of=2),
)
def test_the_curve_is_above_the_exact_one_by_a_billionth(size, r):
    """Bessel functions of the second kind are beyond the doubles in three of them."""
    # nearly all of the angle's law is within some deviations of a right angle
    mean, spread = mpmath.pi / 2, 1 / mpmath.sqrt(r)
    places = [mean - k * spread for k in (12, 8, 5, 3, 2, 1, 0)]
    exact = exact_delta(0.0, size, r, [place for place in places if place > 0.01])
    above = float(ball_delta(0.0, size, r) / exact - 1)
    assert 5e-10 < above < 2e-9
    assert PrivacyLoss.radial(size, r).delta(0.0) >= exact


def test_curves_are_resolved_between_these_sizes_and_dimensions():
    assert all(is_resolved(*one) for one in [(1e-6, 2), (600.0, 2), (1.0, 256)])
    beyond = [(0.9e-6, 2), (601.0, 2), (1.0, 257), (1.0, 1)]
    assert not any(is_resolved(*one) for one in beyond)


@pytest.mark.parametrize("r", [1, 2])
def test_curves_of_truncated_noise_are_exact_up_to_moves_of_a_hundred(r):
    assert PrivacyLoss.radial(100.0, r, 300.0).attained
    assert not PrivacyLoss.radial(101.0, r, 300.0).attained


@pytest.mark.parametrize("r", [2, 40, 200, 256])
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 2.0])
def test_no_larger_rate_by_a_few_of_1e12_keeps_delta(epsilon, r):
    rate = ball_rate(epsilon, 1e-3, r)
    assert ball_delta(epsilon, rate, r) <= 1e-3
    assert ball_delta(epsilon, rate * (1 + 4e-12), r) > 1e-3


def test_what_is_no_number_is_no_promise(monkeypatch):
    def nothing(levels, size, dimension):
        return np.full(np.shape(levels), np.nan)

    monkeypatch.setattr(loss_module, "ball_delta", nothing)
    assert PrivacyLoss.radial(0.5, 3).delta(0.0) == PrivacyLoss.laplace([[0.5]]).delta(
        0.0
    )


@pytest.mark.parametrize("count", few([20, 60], of=1))
def test_ball_rates_never_exceed_delta_and_waste_nothing(count):
    rng = np.random.default_rng(1)
    for _ in range(count):
        epsilon = 10 ** rng.uniform(-2, 1.3)
        delta = 10 ** rng.uniform(-12, -0.5)
        r = int(rng.integers(1, 12))
        rate = ball_rate(epsilon, delta, r)
        back = exact_delta(epsilon, rate, r)
        assert back <= mpmath.mpf(delta), (epsilon, delta, r)
        assert back > mpmath.mpf(delta) * (1 - mpmath.mpf("1e-4")), (epsilon, delta, r)


def test_one_dimension_has_a_closed_form():
    assert ball_rate(1.0, 1e-2, 1) == pytest.approx(
        1 - 2 * math.log1p(-1e-2), rel=1e-14
    )
    e = (math.e - 1) / 2e-2
    assert truncated_radius(1.0, 1e-2, 1) == pytest.approx(math.log1p(e), rel=1e-8)


@pytest.mark.parametrize("r, std", [(1, 1.2900), (2, 1.5801)])
def test_truncated_noise_is_as_small_as_it_was(r, std):
    bound = truncated_radius(1.0, 1e-2, r)
    variance = (r + 1) * gammainc(r + 2, bound) / gammainc(r, bound)
    assert math.sqrt(variance) == pytest.approx(std, abs=6e-5)


@pytest.mark.parametrize("r", [1, 2, 3])
def test_leaks_are_those_of_draws(r):
    eta = drawn(r, 400_000, np.random.default_rng(r))
    for size, bound in [(1.3, 3.0), (2.0, 1.5), (0.2, 2.0)]:
        inside = eta[np.linalg.norm(eta, axis=1) <= bound]
        beyond = losses_of(inside, size) + np.linalg.norm(inside, axis=1) > bound
        error = 5 * beyond.std() / math.sqrt(len(beyond))
        assert leak(size, r, bound) == pytest.approx(beyond.mean(), abs=error)
        assert leak(1.1 * size, r, bound) > beyond.mean() + error


@pytest.mark.parametrize(
    "size, bound", [(0.01, 3.0), (1.0, 1.2), (3.0, 3.1), (5.0, 30.0)]
)
def test_truncated_curves_are_above_adaptive_quadratures_by_billionths(size, bound):
    """Over both coordinates with two foci, of what neither law excludes."""

    def mass(angle):
        share = math.cos(angle)
        reach = math.acosh(max(2 * bound / size - abs(share), 1.0))

        def density(u):
            far = math.cosh(u)
            return math.exp(-size / 2 * (far - share)) * (far**2 - share**2)

        return integrate.quad(density, 0, reach, epsabs=0, epsrel=1e-12)[0]

    def total(function, *ends):
        return integrate.quad(function, *ends, epsabs=0, epsrel=1e-11)[0]

    right = math.pi / 2
    shared = total(mass, 0, right) + total(mass, right, math.pi)
    for level in (0.0, 0.7 * size):

        def lost(angle, level=level):
            return mass(angle) * -math.expm1(level - size * math.cos(angle))

        exact = total(lost, 0, math.acos(level / size)) / shared
        above = float(truncated_delta(level, size, 2, bound)) / exact - 1
        assert 5e-10 < above < 4e-9


def test_truncated_radii_never_exceed_delta():
    rng = np.random.default_rng(2)
    for _ in range(40):
        epsilon = 10 ** rng.uniform(-1, 1)
        delta = 10 ** rng.uniform(-9, -2)
        bound = mpmath.mpf(truncated_radius(epsilon, delta, 1)) * mpmath.mpf(epsilon)
        with mpmath.workdps(30):
            left = mpmath.exp(epsilon - bound) * -mpmath.expm1(-mpmath.mpf(epsilon))
            back = left / (-2 * mpmath.expm1(-bound))
        assert delta * (1 - 1e-6) < back <= delta


def test_sizes_refuse_budgets_that_they_cannot_meet():
    assert ball_rate(0.7, 0.0, 3) == 0.7
    with pytest.raises(ValueError, match="epsilon and delta are both 0"):
        ball_rate(0.0, 0.0, 2)
    with pytest.raises(ValueError, match="below 1, got 1.0"):
        ball_rate(1.0, 1.0, 2)
    with pytest.raises(ValueError, match="take the ball law for delta = 0"):
        truncated_radius(1.0, 0.0, 1)
    with pytest.raises(ValueError, match="end within the move"):
        truncated_radius(1.0, 0.6, 1)
    with pytest.raises((TypeError, ValueError), match="dimension"):
        ball_rate(1.0, 0.1, 0)


# -- the loss ----------------------------------------------------------------------------


def test_one_radial_number_is_a_laplace_number():
    levels = np.linspace(0, 2, 9)
    radial, laplace = RadialShift(1.7, 1), LaplaceShift(1.7)
    assert radial.delta(levels) == pytest.approx(laplace.delta(levels), rel=1e-14)
    assert (radial.gdp, radial.zcdp, radial.rdp(3)) == (
        laplace.gdp,
        laplace.zcdp,
        laplace.rdp(3),
    )
    assert detection(PrivacyLoss.radial(1.0, 1), 0.05) == pytest.approx(
        0.1359, abs=1e-4
    )
    assert PrivacyLoss.radial(1.0, 1).delta(0.0) == pytest.approx(0.3935, abs=1e-4)
    assert PrivacyLoss.radial(1.0, 1).gdp == pytest.approx(1.030, abs=1e-3)


@pytest.mark.parametrize("r", [2, 3, 5])
def test_divergences_are_those_of_draws(r):
    losses = losses_of(drawn(r, 400_000, np.random.default_rng(r)), 1.2)
    one = RadialShift(1.2, r)
    for order in (1.5, 2.0, 4.0):
        moment = np.exp((order - 1) * losses)
        error = 5 * moment.std() / math.sqrt(len(losses)) / moment.mean() / (order - 1)
        found = math.log(moment.mean()) / (order - 1)
        assert one.rdp(order) == pytest.approx(found, abs=error)
        assert one.rdp(order) <= order * one.zcdp
    assert one.rdp(1 + 1e-5) == pytest.approx(one.zcdp, rel=1e-4)


@pytest.mark.parametrize(
    "r, bound", few([(2, math.inf), (1, 3.0), (3, math.inf), (2, 4.0)], of=2)
)
def test_releases_cost_no_less_than_draws_of_their_sum(r, bound):
    eta = drawn(r, 4 * 400_000, np.random.default_rng(r))
    eta = eta[lengths(eta) <= bound]
    losses = losses_of(eta, 0.8)
    losses[losses + lengths(eta) > bound] = np.inf
    loss = PrivacyLoss.radial(0.8, r, bound)
    count = len(losses) // 4
    together = losses[: 4 * count].reshape(4, count).sum(axis=0)
    for each, values in [(loss, losses), (loss.released(4), together)]:
        for level in (0.0, 0.5, 1.5):
            excess = np.maximum(-np.expm1(level - values), 0.0)
            error = 5 * excess.std() / math.sqrt(len(values)) + 1e-3 * excess.mean()
            assert each.delta(level) == pytest.approx(excess.mean(), abs=error)


def test_gdp_of_the_whole_curve_holds():
    for r in (2, 4, 8):
        one = RadialShift(1.5, r)
        levels = np.linspace(0, 1.5, 40)
        gaussian = [float(PrivacyLoss.gaussian(one.gdp).delta(x)) for x in levels]
        assert (one.delta(levels) <= gaussian).all()
        less = [float(PrivacyLoss.gaussian(one.gdp * 0.99).delta(x)) for x in levels]
        assert (one.delta(levels) > less).any()


def test_smaller_moves_are_hidden_better():
    for law in [(1,), (2,), (5,), (1, 4.0), (2, 4.0)]:
        curves = []
        for size in np.linspace(0.05, 2, 30):
            loss = PrivacyLoss.radial(size, *law)
            curves.append([loss.delta(level) for level in (0.0, 0.4, 1.0)])
        assert (np.diff(curves, axis=0) >= 0).all()


def test_losses_come_back_from_files_and_old_rows_stay_as_they_were():
    for loss in (PrivacyLoss.radial(0.8, 3), PrivacyLoss.radial(0.8, 2, 4.0)):
        both = composed(loss.released(3), PrivacyLoss.gaussian(0.5))
        for each in (loss, both):
            assert decode(encode(each)) == each
    assert "radial" not in encode(PrivacyLoss.gaussian(1.0))["rows"][0]
    broken = encode(PrivacyLoss.radial(0.8, 3))
    broken["rows"][0]["radial"][0][0][1] = -1
    with pytest.raises((TypeError, ValueError), match="dimension"):
        decode(broken)


def test_a_move_three_times_as_large_costs_what_its_size_says():
    from fractions import Fraction

    loss = PrivacyLoss.radial(0.4, 2, 5.0)
    larger = scaled(loss, Fraction(3))
    assert larger.delta(0.5) == pytest.approx(
        PrivacyLoss.radial(1.2, 2, 5.0).delta(0.5), rel=1e-9
    )


def test_a_truncated_law_may_fail_openly():
    bound = truncated_radius(1.0, 1e-2, 2)
    loss = PrivacyLoss.radial(1.0, 2, bound)
    assert loss.gdp == loss.zcdp == loss.rdp(2.0) == math.inf
    assert 0.999e-2 < loss.delta(1.0) <= 1e-2
    assert loss.delta(1e9) == loss.failure == loss.delta(1.0)
    assert loss.released(2).failure == pytest.approx(1 - 0.99**2, rel=1e-6)
    with pytest.raises(ValueError, match="at most 2 of truncated noise"):
        PrivacyLoss.radial(1.0, 3, 5.0)


def test_numbers_out_of_reach_are_bounds_and_not_exact():
    tiny = PrivacyLoss.radial(1e-9, 4)
    assert tiny.delta(0.0) == PrivacyLoss.laplace([[1e-9]]).delta(0.0)
    assert exact_measures(tiny) == ()
    assert "delta" in exact_measures(PrivacyLoss.radial(1.0, 4))
    many = PrivacyLoss.radial(1.0, 1000)
    assert many.delta(0.0) == PrivacyLoss.laplace([[1.0]]).delta(0.0)
