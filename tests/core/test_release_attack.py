"""The attack on floating point (Mironov 2012), on trajectories, scalars and long inputs.

Published doubles are sums that were rounded. A secret is excluded with certainty if no
noise what explains all of its roundings. In simulations neighbours are; in exact
releases they never are.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

import privcontrol.core as pc
from privcontrol.core.release import exact_data, exact_release

SIGMA = 3.730631  # of the position for (epsilon, delta) = (1, 1e-5), in metres
MILLIMETRE = 0.001
MARGIN = np.longdouble(2) ** -62  # far below half a last bit of any sum here


def counts(samples, runs=1, seed=0):
    """Positions (runs, samples) in millimetres: within 20 m, at up to 0.5 m/s, every 0.1 s."""
    rng = np.random.default_rng(seed)
    start = rng.uniform(-20000, 20000, (runs, 1))
    speed = rng.uniform(-50, 50, (runs, 1))
    return np.round(start + speed * np.arange(samples)).astype(int)


def is_excluded(published, readings, half_widths):
    """Whether no one noise, drawn once, explains all roundings of readings + noise."""
    middle = published.astype(np.longdouble) - readings.astype(np.longdouble)
    low = (middle - half_widths).max(axis=-1)
    high = (middle + half_widths).min(axis=-1)
    return low > high + MARGIN


def is_excluded_exactly(published, counted, width=Fraction(0)):
    """The same in rational numbers, for readings that are counts of a millimetre.

    ``width`` is half a step of the grid, where the release was rounded to one.
    """
    low, high = -math.inf, math.inf
    for value, count in zip(published.tolist(), counted.tolist(), strict=True):
        half = Fraction(math.ulp(value)) / 2 + width
        middle = Fraction(value) - Fraction(count, 1000)
        low = max(low, middle - half)
        high = min(high, middle + half)
    return low > high


def half_last_bits(published):
    return np.spacing(np.abs(published)).astype(np.longdouble) / 2


@pytest.mark.parametrize(
    "samples, rate", [(10, 0.18), (30, 0.34), (100, 0.61), (1000, 0.97)]
)
def test_simulations_exclude_neighbours_with_certainty(samples, rate):
    """A neighbour one metre away, 1,000 runs. The truth is never excluded."""
    readings = counts(samples, 1000, seed=samples)
    gamma = SIGMA * np.random.default_rng(samples + 1).standard_normal((1000, 1))
    published = readings * MILLIMETRE + gamma
    halves = half_last_bits(published)
    assert not is_excluded(published, readings * MILLIMETRE, halves).any()
    excluded = is_excluded(published, (readings + 1000) * MILLIMETRE, halves)
    assert excluded.mean() == pytest.approx(rate, abs=0.06)


def exactly(samples, runs, resolution, grid):
    readings = counts(samples)[0]
    if resolution is None:
        readings = readings * MILLIMETRE
    values, _ = exact_data(readings, "x", resolution)
    factor = np.full((samples, 1), SIGMA)
    return np.array(
        [exact_release(values, factor, "gaussian", grid=grid) for _ in range(runs)]
    )


@pytest.mark.parametrize(
    "samples, runs", [(10, 1000), (30, 300), (100, 100), (1000, 20)]
)
@pytest.mark.parametrize("grid", [None, MILLIMETRE])
def test_exact_releases_of_declared_readings_exclude_nobody(samples, runs, grid):
    """On the grid, and as nearest doubles: every neighbour is as possible as the truth.

    Readings of a neighbour differ by 1,000 steps exactly, in rational numbers.
    """
    published = exactly(samples, runs, MILLIMETRE, grid)
    width = Fraction(0) if grid is None else Fraction(1, 2000)
    for shift in (0, 1000, -1000, 1):
        readings = counts(samples)[0] + shift
        for run in published:
            assert not is_excluded_exactly(run, readings, width)


def test_doubles_beside_the_grid_exclude_some_and_a_grid_cures_them():
    """Without a declared resolution a neighbour's doubles are not one metre away exactly."""
    neighbour = (counts(100)[0] + 1000) * MILLIMETRE
    published = exactly(100, 100, None, None)
    truth = counts(100)[0] * MILLIMETRE
    assert not is_excluded(published, truth, half_last_bits(published)).any()
    assert is_excluded(published, neighbour, half_last_bits(published)).mean() > 0.02
    coarse = exactly(100, 100, None, MILLIMETRE)
    halves = half_last_bits(coarse) + np.longdouble(1) / 2000
    assert not is_excluded(coarse, neighbour, halves).any()


def unlike_sums_with_one(values):
    """Values near zero that 1 + noise never is in doubles: no multiples of 2^-53."""
    near = values[np.abs(values) < 0.25]
    return np.mean(near * 2.0**53 % 1 != 0)


def test_scalar_laplace_at_zero_against_one():
    """Simulated: some releases of 0 exclude 1. Exact: both have such releases alike.

    4,000 exact releases each; a difference of .1 is five standard errors.
    """
    mechanism = pc.Mechanism(pc.LinearQuery([[1.0]]), pc.LaplaceNoise([1.0]))
    rates = [
        unlike_sums_with_one(mechanism.release([x], size=200_000, rng=3)[:, 0])
        for x in (0.0, 1.0)
    ]
    assert rates[0] > 0.3 and rates[1] == 0.0
    rates = []
    for x in (0.0, 1.0):
        values, _ = exact_data(np.full(4000, x), "x")
        released = exact_release(values, np.ones(4000), "laplace")
        rates.append(unlike_sums_with_one(released))
    assert min(rates) > 0.3 and abs(rates[0] - rates[1]) < 0.2


def no_double_explains(published, x):
    """Entries that are not x + g, rounded, for any double g."""
    guess = published - x
    explained = np.zeros(published.shape, bool)
    for noise in (guess, np.nextafter(guess, np.inf), np.nextafter(guess, -np.inf)):
        explained |= x + noise == published
    return ~explained


def test_inputs_of_784_entries():
    """An image of zeros against one of 1/16: simulated, one entry excludes the other image.

    Of exact releases this attack "excludes" the truth as well: it tells nothing.
    """
    mechanism = pc.InputPerturbation(
        lambda x: x, pc.PrivacyBudget(epsilon=1.0, delta=1e-5), radius=1.75
    )
    zeros, other = np.zeros(784), np.full(784, 0.0625)
    for seed in range(1000):
        published = mechanism(zeros, rng=seed)
        assert no_double_explains(published, other).any()
        assert not no_double_explains(published, zeros).any()
        assert not no_double_explains(mechanism(other, rng=seed), other).any()
    found = [no_double_explains(mechanism(other), other).sum() for _ in range(20)]
    assert min(found) > 0
    coarse = [mechanism(x, grid="1/256") * 256 % 1 for x in (zeros, other)]
    assert not np.any(coarse)
