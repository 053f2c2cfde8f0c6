"""The Mills ratio is good to a fraction of a unit roundoff, and with it roots of kappa to 2e-15 of their size; both
proved for the arguments tried, in ball arithmetic."""

import numpy as np
import pytest
from flint import arb, ctx
from scipy.special import erfcx

from privcontrol.core._mills import LARGEST, LEAST, mills_pair, mills_pair_number
from privcontrol.core.calibration import kappa, kappa_inverse, kappa_upper

UNIT = 2.0**-53


def arguments(number=3000):
    """Spread over the domain, beside every boundary of an interval, and at the ends."""
    rng = np.random.default_rng(0)
    octave, place = np.divmod(np.arange(256), 32)
    edges = np.ldexp(1 + place / 32, octave) - 3
    spread = [
        rng.uniform(-2, 2, number),
        rng.uniform(0, 40, number),
        10 ** rng.uniform(-9, np.log10(253), number),
    ]
    beside = [
        edges,
        np.nextafter(edges, -np.inf)[1:],
        np.nextafter(edges, np.inf),
        [np.nextafter(LARGEST, 0)],
    ]
    return np.concatenate(spread + beside)


def worst_error(t, values):
    """Largest relative error, in units of 2^-53, of sums of pairs of floats."""
    worst = 0.0
    with ctx.workprec(300):
        for x, (high, low) in zip(t.tolist(), values):
            x = arb(x)
            exact = (
                (arb.pi() / 2).sqrt() * (x * x / 2).exp() * (x / arb(2).sqrt()).erfc()
            )
            worst = max(
                worst, float(abs((arb(high) + arb(low)) / exact - 1).upper()) / UNIT
            )
    return worst


def test_mills_ratio_is_within_a_quarter_of_a_unit_roundoff():
    t = arguments()
    assert t.min() == LEAST and t.max() < LARGEST
    assert worst_error(t, zip(*(part.tolist() for part in mills_pair(t)))) < 0.25
    assert worst_error(t, map(mills_pair_number, t.tolist())) < 0.25
    assert (
        worst_error(
            t, ((float(x), 0.0) for x in np.sqrt(np.pi / 2) * erfcx(t / np.sqrt(2)))
        )
        > 5
    )  # the check bites


def test_mills_ratio_beyond_its_tables_is_that_of_erfcx():
    t = np.array([-30.0, -2.1, 0.5, 253.0, 1e9, 1e300, np.inf])
    high, low = mills_pair(t)
    np.testing.assert_allclose(
        high + low, np.sqrt(np.pi / 2) * erfcx(t / np.sqrt(2)), rtol=1e-12
    )
    assert [mills_pair_number(x) for x in t.tolist()] == list(
        zip(high.tolist(), low.tolist())
    )


def ball_error(epsilon, delta, y):
    """(y - root) / root in units of 2^-53, from one Newton step in ball arithmetic."""
    epsilon, delta, y = arb(epsilon), arb(delta), arb(y)
    for bits in (256, 512, 1024, 2048, 4096):
        with ctx.workprec(bits):
            u, v, root = epsilon / y - y / 2, epsilon / y + y / 2, arb(2).sqrt()
            excess = ((u / root).erfc() - epsilon.exp() * (v / root).erfc()) / 2 - delta
            error = excess * (2 * arb.pi()).sqrt() * (u * u / 2).exp() / y / arb(UNIT)
            if error.rad() < 1e-3:
                return float(error.mid())
    raise ArithmeticError((epsilon, delta))


def budgets(number, seed):
    """The whole domain, the range of daily use, and large deltas, where the rounding errors are largest."""
    rng = np.random.default_rng(seed)
    wide = 10 ** rng.uniform(-12, 4, number), 10 ** rng.uniform(-300, 0, number)
    daily = rng.uniform(0, 2.5, number) ** 2, 10 ** rng.uniform(-8, 0, number)
    linear = (
        rng.uniform(0, 2, number) * (rng.random(number) < 0.8),
        rng.uniform(0, 1, number),
    )
    return np.clip(
        np.concatenate([wide, daily, linear], axis=1),
        [[0], [1e-300]],
        [[1e4], [1 - UNIT]],
    )


def test_roots_of_kappa_are_below_the_truth_by_2_to_18_unit_roundoffs():
    epsilon, delta = budgets(4000, seed=1)
    together = kappa_inverse(epsilon, delta)
    for e, d, y in zip(epsilon.tolist(), delta.tolist(), together.tolist()):
        assert -18 < ball_error(e, d, y) < -2, (e, d)
        assert -18 < ball_error(e, d, kappa_inverse(e, d)) < -2, (e, d)


@pytest.mark.parametrize("epsilon", [0.0, 1e-5, 0.3, 1.5, 50.0, 1e4])
def test_delta_is_one_where_almost_nothing_is_hidden(epsilon):
    """Also where the density at the threshold is denormal or underflows: u = epsilon/y - y/2 from -36 to -45."""
    u = -np.linspace(36, 45, 400)
    y = -u + np.sqrt(u**2 + 2 * epsilon)
    assert (kappa(epsilon, y) == 1).all() and (kappa_upper(epsilon, y) == 1).all()
    assert all(kappa(epsilon, x) == 1 for x in y.tolist())
