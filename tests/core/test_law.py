"""Tails of the laws of noise: closed forms, and 4,000,000 draws."""

import math

import numpy as np
import pytest
from repeats import few
from scipy import stats

from privcontrol.privacy.law import BallLaw, GaussianLaw, LaplaceLaw

TAILS = np.array([0.1, 0.01, 1e-4])
LAWS = [
    (GaussianLaw(), 2),
    (LaplaceLaw(), 1),
    (LaplaceLaw(), 3),
    (BallLaw(1), 1),
    (BallLaw(3), 3),
    (BallLaw(1, 4.46), 1),
    (BallLaw(2, 6.0), 2),
]


@pytest.mark.parametrize("law, count", LAWS)
def test_entries_have_the_variance_and_stay_within_the_bound(law, count):
    eta = law.standard(np.random.default_rng(1), (200_000, count))
    spread = np.std(eta**2) / math.sqrt(eta.size)
    assert abs(np.mean(eta**2) - law.unit_variance) < 5 * spread
    if getattr(law, "bound", math.inf) < math.inf:
        assert np.linalg.norm(eta, axis=1).max() <= law.bound


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_length_of_ball_noise_has_a_gamma_law(count):
    """P(|eta| > c) is that of Gamma(r); the radius is at most 2 % above it."""
    law = BallLaw(count)
    exact = stats.gamma.isf(TAILS, count) / math.sqrt(law.unit_variance)
    found = law.radii(TAILS, count, alone=True)
    assert (found >= exact).all()
    assert found == pytest.approx(exact, rel=0.02)


def test_one_laplace_number_has_an_exponential_tail():
    exact = -np.log(TAILS) / math.sqrt(2)
    found = LaplaceLaw().radii(TAILS, 1, alone=True)
    assert (found >= exact).all()
    assert found == pytest.approx(exact, rel=0.02)


def test_truncated_noise_is_never_beyond_its_bound():
    law = BallLaw(1, 4.0)
    found = law.radii(np.array([1e-3, 1e-12]), 1, alone=True)
    assert found[1] == 4.0 / math.sqrt(law.unit_variance)
    assert law.radii(np.array([1e-12]), 1, alone=False) > found[1]


def test_the_gaussian_tails_are_those_of_its_quantiles():
    law = GaussianLaw()
    assert law.multiple(0.01, 1) == pytest.approx(stats.norm.isf(0.005), rel=1e-12)
    exact = np.sqrt(stats.chi2.isf(TAILS, 3))
    assert law.radii(TAILS, 3, alone=False) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("law, count", LAWS[1:])
@pytest.mark.parametrize("share", few([0.0, 0.3, 0.8], of=2))
def test_tails_beside_gaussian_numbers_hold(law, count, share):
    """400,000 draws at 1 %, five deviations; Gaussian quantiles are exceeded.

    ``share`` is the Gaussian part of the variance.
    """
    rng = np.random.default_rng(4)
    eta = law.standard(rng, (400_000, count)) / math.sqrt(law.unit_variance)
    gaussian = rng.standard_normal(eta.shape)
    weights = rng.standard_normal(count)
    weights /= np.linalg.norm(weights)
    mixed = (math.sqrt(1 - share) * eta + math.sqrt(share) * gaussian) @ weights
    most = 0.01 + 5 * math.sqrt(0.01 / len(eta))
    assert np.mean(np.abs(mixed) > law.multiple(0.01, count)) <= most
    information = 1 / (1 - share)  # F, of which eta has one
    whitened = eta + math.sqrt(information - 1) * gaussian
    lengths = np.linalg.norm(whitened, axis=1) / math.sqrt(information)
    (radius,) = law.radii(np.array([0.01]), count, alone=share == 0)
    assert np.mean(lengths > radius) <= most
    if share == 0 and getattr(law, "bound", math.inf) == math.inf:
        quantile = math.sqrt(stats.chi2.isf(0.01, count))
        assert np.mean(lengths > quantile) > most
