"""Noise: what a family knows, and that noise stays what a guarantee was given for."""

import copy
import math
import pickle

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import privcontrol as pc

FAMILIES = {"gaussian": pc.GaussianNoise, "laplace": pc.LaplaceNoise}
LAWS = {"gaussian": scipy.stats.norm(), "laplace": scipy.stats.laplace()}
NOISES = [pc.GaussianNoise([[1.0, 0.5], [2.0, -1.0]]), pc.LaplaceNoise([1.0, 2.0])]


def test_families_are_found_by_name_and_listed_when_not():
    query, adjacency = pc.LinearQuery([[1.0]]), pc.DirectionAdjacency([[1.0]])
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    for name, law in FAMILIES.items():
        design = pc.design_iid(query, adjacency, budget, family=name)
        assert type(design.noise) is law
    with pytest.raises(ValueError, match="'gaussian', 'laplace', got 'cauchy'"):
        pc.design_iid(query, adjacency, budget, family="cauchy")


@pytest.mark.parametrize("name", FAMILIES)
def test_variance_and_sampler_are_those_of_scipys_law(name):
    law = LAWS[name]
    assert FAMILIES[name].unit_variance == law.var()
    eta = FAMILIES[name].standard(np.random.default_rng(0), (20_000,))
    # the 5 % point of the test is .0096; noise 10 % too small is .024 away
    assert scipy.stats.kstest(eta, law.cdf).statistic < 1.36 / math.sqrt(20_000)
    assert scipy.stats.kstest(0.9 * eta, law.cdf).statistic > 1.36 / math.sqrt(20_000)


@pytest.mark.parametrize("name", FAMILIES)
def test_likelihood_ratio_is_that_of_scipys_densities(name):
    rng = np.random.default_rng(1)
    eta, shift = rng.standard_normal((3, 50)), rng.standard_normal((3, 1))
    law = LAWS[name]
    ratio = FAMILIES[name].log_likelihood_ratio(eta, shift)
    expected = (law.logpdf(eta) - law.logpdf(eta - shift)).sum(axis=0)
    np.testing.assert_allclose(ratio, expected, atol=1e-12)


@pytest.mark.parametrize("name", FAMILIES)
def test_loss_of_size_is_the_hockey_stick_of_one_coordinate(name):
    law, size, epsilon = LAWS[name], 1.3, 0.4

    def excess(t):
        return max(0.0, law.pdf(t) - math.exp(epsilon) * law.pdf(t + size))

    delta, _ = scipy.integrate.quad(excess, -40, 40, limit=1000, points=[-size, 0, 1])
    loss = FAMILIES[name].loss_of_size(size)
    assert loss.delta(epsilon) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("releases", [1, 7])
def test_allowed_shift_meets_the_budget_and_little_more_does_not(name, releases):
    budget = pc.PrivacyBudget(epsilon=0.9, delta=1e-3 if name == "gaussian" else 0.0)
    allowed = FAMILIES[name].allowed_shift(budget, releases=releases)

    def meets(shift):
        loss = FAMILIES[name].loss_of_size(shift)
        return loss.released(releases).satisfies(budget)

    assert meets(allowed)
    assert not meets(allowed * (1 + 1e-9))


def test_laplace_noise_refuses_an_epsilon_of_zero():
    with pytest.raises(ValueError, match="epsilon"):
        pc.LaplaceNoise.allowed_shift(pc.PrivacyBudget(epsilon=0.0, delta=0.1))


@pytest.mark.parametrize("noise", NOISES)
def test_noise_cannot_be_changed(noise):
    with pytest.raises(AttributeError, match="immutable"):
        noise.factor = 0 * noise.factor
    with pytest.raises(AttributeError, match="immutable"):
        noise.unit_variance = 0.0
    with pytest.raises(AttributeError, match="immutable"):
        noise.standard = lambda rng, shape: np.zeros(shape)
    with pytest.raises(AttributeError, match="immutable"):
        del noise.factor
    with pytest.raises(ValueError, match="read-only"):
        noise.factor[...] = 0.0


def test_a_design_cannot_be_made_to_publish_exact_data():
    query = pc.LinearQuery([[1.0, 1.0]])
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    design = pc.design_gaussian(query, pc.BallAdjacency(1.0), budget)
    with pytest.raises(AttributeError, match="immutable"):
        design.noise.factor = 0
    with pytest.raises(ValueError, match="read-only"):
        design.worst_moves[...] = 0.0
    assert design.release([1.0, 2.0], rng=0)[0] != 3.0
    assert hash(design) == hash(copy.copy(design))
    assert design == copy.copy(design)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    "twin", [copy.copy, copy.deepcopy, lambda noise: pickle.loads(pickle.dumps(noise))]
)
def test_copies_are_equal_and_as_immutable(noise, twin):
    other = twin(noise)
    assert other == noise
    assert hash(other) == hash(noise)
    assert not other.factor.flags.writeable


def test_noise_differs_by_family_factor_and_shape_only():
    gaussian = pc.GaussianNoise([1.0, 0.0])
    assert gaussian == pc.GaussianNoise([1.0, -0.0])
    assert hash(gaussian) == hash(pc.GaussianNoise([1.0, -0.0]))
    assert gaussian != pc.LaplaceNoise([1.0, 0.0])
    assert gaussian != pc.GaussianNoise([[1.0], [0.0]])
    assert gaussian != pc.GaussianNoise([1.0, 1.0])
    assert gaussian != "gaussian"
    assert len({gaussian, pc.GaussianNoise([1.0, -0.0])}) == 1


@pytest.mark.parametrize("size", [-1, True, 2.0, "3"])
def test_a_number_of_draws_is_a_number_of_draws(size):
    with pytest.raises((TypeError, ValueError), match="size: expected"):
        pc.GaussianNoise([1.0]).sample(size)
