"""Calibrated sizes hold in exact arithmetic: ball arithmetic and mpmath bracket the true root of kappa, so
every assertion about "never below" is a proof for the budgets tried, not a comparison of floats."""

import sys
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from flint import arb, ctx
from scipy.stats import norm

from privcontrol.core import (
    DirectionAdjacency,
    PrivacyBudget,
    PrivacyError,
    PrivacyGuarantee,
    UncertifiableError,
    gaussian_std,
    kappa,
    kappa_inverse,
    laplace_scale,
)
from privcontrol.privacy import budget
from privcontrol.privacy.budget import kappa_of_levels

EPSILONS = [0, 1e-6, 1e-4, 1e-2, 0.1, 1, 10, 50, 100, 500, 1e4]
DELTAS = [1e-300, 1e-100, 1e-50, 1e-12, 1e-5, 1e-2, 0.1, 0.5]
UNIT = 2.0**-53
MOVE = DirectionAdjacency([[1.0]])


@np.vectorize(otypes=[float])
def kappa_upper(epsilon, y):
    """The delta that a guarantee promises for a Gaussian shift y."""
    if y == 0:
        return 0.0
    known = PrivacyGuarantee.black_box(PrivacyBudget(gdp=float(y)), MOVE)
    return known.delta(float(epsilon))


def ball_kappa(epsilon, y, shift, bits):
    """Eq. (7) at y (1 + shift) in ball arithmetic: a comparison of the result is true only if it is certain."""
    with ctx.workprec(bits):
        epsilon, y = arb(epsilon), arb(y) * (1 + arb(shift))
        u, v, root = epsilon / y - y / 2, epsilon / y + y / 2, arb(2).sqrt()
        return ((u / root).erfc() - epsilon.exp() * (v / root).erfc()) / 2


def ball_between(lower, epsilon, y, upper, shift=0.0):
    """Whether lower <= kappa(epsilon, y (1 + shift)) <= upper, doubling the precision until it is decided."""
    for bits in (256, 512, 1024, 2048, 4096):
        value = ball_kappa(epsilon, y, shift, bits)
        if value >= lower and value <= upper:
            return True
        if value < lower or value > upper:
            return False
    raise ArithmeticError((epsilon, y))


def random_budgets(number, seed):
    """Budgets over the whole domain, its edges, and the range of daily use, in equal parts."""
    rng = np.random.default_rng(seed)
    part = number // 4
    wide = 10 ** rng.uniform(-12, 4, part), 10 ** rng.uniform(-300, 0, part)
    daily = rng.uniform(0, 2.5, part) ** 2, 10 ** rng.uniform(-8, 0, part)
    linear = rng.uniform(0, 2, part) * (rng.random(part) < 0.8), rng.uniform(0, 1, part)
    deltas = np.concatenate(
        [
            [1e-300, 1e-299, 0.5, np.nextafter(0.5, 1), 1 - UNIT],
            1 - 10.0 ** -np.arange(1, 16),
        ]
    )
    edges = rng.choice([0, 1e-300, 1e-9, 1.5, 30, 1e4], part), rng.choice(deltas, part)
    epsilon, delta = np.concatenate([wide, daily, linear, edges], axis=1)
    return epsilon, np.clip(delta, 1e-300, 1 - UNIT)


def is_bracketed(epsilon, delta, y, width=5e-15):
    """Proof that the root of kappa = delta lies in [y, y (1 + width)]."""
    return ball_between(0, epsilon, y, delta) and ball_between(
        delta, epsilon, y, 1, shift=width
    )


def test_inverse_is_below_the_true_root_by_less_than_5e_15_of_it():
    pairs = zip(*random_budgets(520, seed=0))
    wrong = [(e, d) for e, d in pairs if not is_bracketed(e, d, kappa_inverse(e, d))]
    assert not wrong


def test_the_bracket_notices_a_root_that_is_off_by_6e_15():
    y = kappa_inverse(1.0, 1e-5)
    assert not is_bracketed(1.0, 1e-5, y * (1 + 6e-15))
    assert not is_bracketed(1.0, 1e-5, y * (1 - 6e-15))


def ball_error(epsilon, delta, y):
    """(y - root) / root in units of 2^-53, from one Newton step in ball arithmetic."""
    epsilon, delta, y = arb(epsilon), arb(delta), arb(y)
    for bits in (256, 512, 1024, 2048, 4096):
        with ctx.workprec(bits):
            u = epsilon / y - y / 2
            excess = ball_kappa(epsilon, y, 0.0, bits) - delta
            error = excess * (2 * arb.pi()).sqrt() * (u * u / 2).exp() / y / arb(UNIT)
            if error.rad() < 1e-3:
                return float(error.mid())
    raise ArithmeticError((epsilon, delta))


def test_roots_are_below_the_truth_by_8_to_32_unit_roundoffs():
    """The rounding errors alone stay below 12, and 20 are subtracted."""
    epsilon, delta = random_budgets(3000, seed=1)
    together = kappa_inverse(epsilon, delta)
    for e, d, y in zip(epsilon.tolist(), delta.tolist(), together.tolist()):
        assert -32 < ball_error(e, d, y) < -8, (e, d)
        assert -32 < ball_error(e, d, kappa_inverse(e, d)) < -8, (e, d)


@pytest.mark.parametrize("epsilon", [0.0, 1e-5, 0.3, 1.5, 50.0, 1e4])
def test_delta_is_one_where_almost_nothing_is_hidden(epsilon):
    """Also where phi(u) is denormal or underflows: u = epsilon/y - y/2 from -36 to -45."""
    u = -np.linspace(36, 45, 145)
    y = -u + np.sqrt(u**2 + 2 * epsilon)
    assert (kappa(epsilon, y) == 1).all()
    assert (kappa_upper(epsilon, y) == 1).all()
    assert all(kappa(epsilon, x) == 1 for x in y.tolist())


@pytest.mark.slow
def test_std_against_mpmath_on_the_grid():
    std = gaussian_std(np.array(EPSILONS)[:, None], np.array(DELTAS))
    with mp.workdps(370):  # at epsilon = 0 the two terms of eq. (7) cancel 300 digits
        for i, epsilon in enumerate(EPSILONS):
            for j, delta in enumerate(DELTAS):
                y, e = mp.mpf(kappa_inverse(epsilon, delta)), mp.mpf(epsilon)
                for _ in range(
                    3
                ):  # Newton from the answer itself: each pass doubles its 14 digits
                    value = mp.ncdf(y / 2 - e / y) - mp.exp(e) * mp.ncdf(-y / 2 - e / y)
                    y -= (value - mp.mpf(delta)) / mp.npdf(y / 2 - e / y)
                for answer in (std[i, j], gaussian_std(epsilon, delta)):
                    assert 0 <= mp.mpf(answer) * y - 1 < 5.4e-15, (epsilon, delta)


def test_inverse_evaluated_back_never_exceeds_delta():
    epsilon, delta = random_budgets(16_000, seed=1)
    y = kappa_inverse(epsilon, delta)
    assert (kappa(epsilon, y) <= delta).all()
    assert (kappa(epsilon, y * (1 + 60 * UNIT)) >= delta * (1 - 4 * UNIT)).all()


def test_numbers_and_arrays_agree():
    """The array iterates until its hardest entry converges, a number stops as soon as it may."""
    epsilon, delta = random_budgets(12_000, seed=2)
    together = kappa_inverse(epsilon, delta)
    alone = np.array(
        [kappa_inverse(e, d) for e, d in zip(epsilon.tolist(), delta.tolist())]
    )
    np.testing.assert_allclose(alone, together, rtol=12 * UNIT)
    curve = np.array([kappa(e, y) for e, y in zip(epsilon.tolist(), together.tolist())])
    np.testing.assert_allclose(curve, kappa(epsilon, together), rtol=2e-12)


def test_kappa_is_exact_for_a_neighbour_of_its_argument_and_kappa_upper_never_below():
    epsilon, delta = random_budgets(400, seed=3)
    for e, y in zip(epsilon, kappa_inverse(epsilon, delta)):
        value, promised = kappa(e, y), float(kappa_upper(e, y))
        assert ball_between(0, e, y, value * (1 + 6 * UNIT), shift=-16 * UNIT), (e, y)
        assert ball_between(value * (1 - 6 * UNIT), e, y, 1, shift=16 * UNIT), (e, y)
        assert ball_between(0, e, y, promised), (e, y)
        assert ball_between(promised * (1 - 30 * UNIT), e, y, 1, shift=56 * UNIT), (
            e,
            y,
        )


def test_kappa_at_the_ends_of_its_domain():
    assert kappa(0.0, 0.0) == kappa(1e4, 0.0) == kappa_upper(3.0, 0.0) == 0
    assert kappa(1e4, 1e-320) == 0
    assert 0 < kappa_upper(1e4, 1e-320) < 1e-300
    # 4e-323 counts as zero where a library has set the processor to flush such numbers
    assert sys.float_info.min <= kappa_upper(40.0, 0.53) < 1e-300
    both = budget.kappa_upper([40.0, 40.0], [0.53, 0.0])
    assert both.tolist() == [sys.float_info.min, 0]
    np.testing.assert_array_equal(kappa(1.0, [0, 1e-320, 1e300]), [0, 0, 1])
    assert kappa(0.0, 1e-310) == pytest.approx(1e-310 / np.sqrt(2 * np.pi), rel=1e-12)


def test_kappa_without_privacy_loss_is_the_total_variation():
    y = np.geomspace(1e-8, 15, 300)
    np.testing.assert_allclose(
        kappa(0.0, y), norm.cdf(y / 2) - norm.cdf(-y / 2), rtol=1e-7
    )


def test_published_numbers():
    exact = [gaussian_std(epsilon, 0.01) for epsilon in (1, 0.1, 0.01)]
    bound = [
        gaussian_std(epsilon, 0.01, method="lenypappas") for epsilon in (1, 0.1, 0.01)
    ]
    np.testing.assert_allclose(exact, [1.8778756, 9.5418231, 27.7008826], atol=6e-8)
    np.testing.assert_allclose(bound, [2.5244137, 23.4764581, 232.8495184], atol=6e-8)


def test_rules_of_the_literature_are_their_formula_rounded_up():
    rng = np.random.default_rng(4)
    epsilon, delta = 10 ** rng.uniform(-6, 0.5, 200), 10 ** rng.uniform(-12, -0.31, 200)
    bound = gaussian_std(epsilon, delta, method="lenypappas")
    classical = gaussian_std(epsilon, delta / 10, method="classical")
    with mp.workdps(40):
        for e, d, size, other in zip(epsilon, delta, bound, classical):
            k = mp.sqrt(2) * mp.erfinv(1 - 2 * mp.mpf(d))
            formula = (k + mp.sqrt(k**2 + 2 * mp.mpf(e))) / (2 * mp.mpf(e))
            assert 0 <= mp.mpf(size) / formula - 1 < 5.4e-15
            formula = mp.sqrt(2 * mp.log(mp.mpf(1.25) / mp.mpf(d / 10))) / mp.mpf(e)
            assert 0 <= mp.mpf(other) / formula - 1 < 5.4e-15
    assert (bound > gaussian_std(epsilon, delta)).all()


@pytest.mark.parametrize("delta, largest", [(1e-2, 6.772), (1e-5, 8.420)])
def test_classical_rule_is_refused_exactly_where_it_breaks_its_claim(delta, largest):
    granted = gaussian_std(largest - 1e-3, delta, method="classical")
    assert kappa_upper(largest - 1e-3, 1 / granted) <= delta
    with pytest.raises(PrivacyError, match="classical"):
        gaussian_std(largest + 1e-3, delta, method="classical")


def test_refusal_states_the_method_the_claim_and_the_true_delta():
    with pytest.raises(
        PrivacyError, match=r"'classical'.*\(10, 1e-05\).* 2\.26537e-05"
    ):
        gaussian_std([1.0, 10.0], 1e-5, method="classical")


def test_gaussian_noise_has_the_claimed_delta_and_a_tenth_less_noise_does_not():
    """Hockey-stick divergence by Monte Carlo, 400,000 draws: threshold 4.5 standard errors, 9 apart."""
    epsilon, delta, draws = 1.0, 0.01, 400_000
    rng = np.random.default_rng(5)

    def estimate(std):
        def loss(x):
            return (x - 0.5) / std**2  # log density ratio of N(1, std^2) to N(0, std^2)

        one = loss(1 + std * rng.standard_normal(draws)) > epsilon
        zero = np.exp(epsilon) * (loss(std * rng.standard_normal(draws)) > epsilon)
        return one.mean() - zero.mean(), np.sqrt((one.var() + zero.var()) / draws)

    std = gaussian_std(epsilon, delta)
    value, error = estimate(std)
    assert abs(value - delta) < 4.5 * error
    value, error = estimate(0.9 * std)
    assert value - delta > 4.5 * error


def test_laplace_scale_is_rounded_up_and_the_density_ratio_is_epsilon():
    rng = np.random.default_rng(6)
    epsilon, sensitivity = 10 ** rng.uniform(-8, 4, 300), 10 ** rng.uniform(-3, 3, 300)
    for e, s, scale in zip(epsilon, sensitivity, laplace_scale(epsilon, sensitivity)):
        assert 0 <= Fraction(scale) * Fraction(e) / Fraction(s) - 1 < Fraction(5e-16)
        assert scale == laplace_scale(float(e), float(s))


def test_std_is_proportional_to_the_sensitivity_and_broadcasts():
    std = gaussian_std(np.array([[0.5], [2.0]]), [1e-6, 1e-2, 0.3], sensitivity=7.0)
    assert std.shape == (2, 3)
    np.testing.assert_allclose(
        std, 7 * gaussian_std([[0.5], [2]], [1e-6, 1e-2, 0.3]), rtol=1e-15
    )
    assert type(gaussian_std(1, 0.01)) is float
    assert type(kappa(1, 2)) is float
    assert isinstance(gaussian_std(1, 0.01, np.float32(2)), float)
    assert kappa_inverse(np.empty(0), 0.1).shape == (0,)
    assert kappa(np.ones((2, 1)), np.ones(3)).shape == (2, 3)


@pytest.mark.parametrize("method", ["analytic", "lenypappas", "classical"])
def test_every_method_grants_at_most_the_exact_y(method):
    epsilon, delta = np.geomspace(1e-4, 1, 20)[:, None], np.geomspace(1e-12, 0.4, 20)
    y = 1 / gaussian_std(epsilon, delta, method=method)
    assert (kappa_upper(epsilon, y * (1 - 40 * UNIT)) <= delta).all()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: gaussian_std(1.0, 0.0), "Laplace"),
        (lambda: gaussian_std([1.0, 1.0], [0.1, 0.0]), "Laplace"),
        (lambda: kappa_inverse(1.0, 1.0), "below 1, got 1.0"),
        (lambda: kappa_inverse(1.0, 1e-310), "from 1e-300"),
        (lambda: kappa_inverse(-0.1, 0.1), "from 0 to 10000, got -0.1"),
        (lambda: kappa_inverse(2e4, 0.1), "from 0 to 10000"),
        (lambda: kappa_inverse(float("nan"), 0.1), "NaN"),
        (lambda: kappa_inverse(1.0, [0.1, np.nan]), "NaN"),
        (lambda: kappa(1.0, -1.0), "y >= 0"),
        (lambda: kappa(1.0, [1.0, np.nan]), "finite"),
        (lambda: kappa(np.inf, 1.0), "finite"),
        (
            lambda: gaussian_std(1.0, 0.1, 0.0),
            "sensitivity: expected numbers > 0, got 0.0",
        ),
        (lambda: gaussian_std(1.0, 0.1, [1.0, -2.0]), "got -2.0"),
        (lambda: laplace_scale(0.0), "Gaussian"),
        (lambda: laplace_scale([1.0, 0.0]), "Gaussian"),
        (
            lambda: gaussian_std(1.0, 0.1, method="exact"),
            "'analytic', 'lenypappas', 'classical'",
        ),
        (
            lambda: gaussian_std(0.0, 0.1, method="lenypappas"),
            "epsilon > 0 and delta < 1/2",
        ),
        (
            lambda: gaussian_std(1.0, 0.5, method="lenypappas"),
            "epsilon > 0 and delta < 1/2",
        ),
        (lambda: gaussian_std(0.0, 0.1, method="classical"), "epsilon > 0"),
    ],
)
def test_arguments_out_of_range_are_refused_with_advice(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "size",
    [lambda: laplace_scale(1e-10, 1e300), lambda: gaussian_std(0, [1e-300], 1e10)],
)
def test_a_size_beyond_the_floats_is_refused(size):
    with pytest.raises(UncertifiableError, match=r"1\.8e308"):
        size()


def test_epsilons_up_to_ten_thousand_have_a_shift():
    assert 100 < kappa_inverse(1e4, 0.1) < 200
    with pytest.raises(
        ValueError, match="expected a number from 0 to 10000, got 10001"
    ):
        kappa_inverse(10_001.0, 0.1)


def test_many_levels_have_the_numbers_of_each():
    """By series, tail and complement, and where the density underflows."""
    rng = np.random.default_rng(0)
    for y in (1e-6, 0.01, 0.7, 1.59, 1.61, 4.0, 60.0):
        levels = np.array([0.0, 1e-9, 1.4999, 1.5, *10 ** rng.uniform(-3, 3, 60)])
        each = [kappa(level, y) for level in levels]
        assert kappa_of_levels(levels, y).tolist() == each
        above = [budget.kappa_upper(level, y) for level in levels.tolist()]
        assert budget.kappa_upper(levels, y).tolist() == above
