"""Several levels of one signal: what they share at most, and noise designed for that."""

import itertools

import control as ct
import numpy as np
import pytest
import scipy.linalg
import scipy.signal
from repeats import few

import privcontrol as pc
from privcontrol.designs.spectrum import FrequencyGrid
from privcontrol.designs.sums import LevelSums
from privcontrol.noise._autoregression import changes_behind
from privcontrol.noise._levels import Levels
from privcontrol.privacy.repetition import Spacing
from privcontrol.secrets.secrets import Secrets
from privcontrol.systems.linear import Autoregression, Plant

#: Samples of a level at most, and lags at which what is left of impulses is correlated.
LONGEST = 3
LAGS = 12


def correlations(kind, lags=200):
    """Of white noise through random taps, zero after them."""
    rng = np.random.default_rng(kind)
    taps = rng.normal(size=LAGS) * 0.8 ** np.arange(LAGS)
    if kind % 2:
        taps = np.diff(
            taps, prepend=0
        )  # levels that follow one another have other signs
    own = np.correlate(taps, taps, "full")[LAGS - 1 :]
    return np.r_[own, np.zeros(lags - LAGS)]


def largest_sum(own, count, separation):
    """The largest energy of so many levels, by all lengths, signs and short waits."""
    gram = scipy.linalg.toeplitz(own)
    largest = 0.0
    choices = {2: range(12), 3: range(4)}.get(count, (0, 2))
    waits = itertools.product(choices, repeat=count - 1)
    for wait in waits:
        starts = np.r_[0, np.cumsum(separation + np.array(wait, int))]
        for lengths in itertools.product(range(1, LONGEST + 1), repeat=count):
            shapes = np.zeros((count, len(own)))
            for row, start, length in zip(shapes, starts, lengths, strict=True):
                row[start : start + length] = 1
            products = shapes @ gram @ shapes.T
            for signs in itertools.product((1, -1), repeat=count - 1):
                signed = np.r_[1, signs]
                largest = max(largest, signed @ products @ signed)
    return largest


@pytest.mark.parametrize("kind", few(range(4), of=2))
@pytest.mark.parametrize("count, separation", [(2, 3), (3, 1), (3, 4), (4, 4)])
def test_no_sum_of_levels_is_above_the_bound_and_some_come_close(
    kind, count, separation
):
    own = correlations(kind)
    levels = Levels(own, 0.0, LONGEST, 0.0)
    square = levels.square(Spacing(count, separation))
    attained = largest_sum(own, count, separation)
    assert attained <= square * (1 + 1e-9)
    tight = 1 - 1e-7 if count == 2 and separation == 3 else 0.8
    assert attained >= tight * square
    wider = Levels(own, 1e-3, LONGEST, 1e-3).square(Spacing(count, separation))
    assert wider >= square + count * LONGEST**2 * 1e-3


@pytest.mark.parametrize("kind", range(4))
def test_sums_of_many_levels_are_bounded_as_their_products_say(kind):
    """Signs alone, of levels of one sample, by a sum over all of their patterns."""
    own = correlations(kind)
    levels = Levels(own, 0.0, 1, 0.0)
    count = 9
    later = [np.maximum.accumulate((sign * own)[::-1])[::-1] for sign in (1, -1)]
    pairs = list(itertools.combinations(range(count), 2))
    sums = []
    for signs in itertools.product((1, -1), repeat=count):
        shared = [later[signs[i] != signs[j]][2 * (j - i)] for i, j in pairs]
        sums.append(count * own[0] + 2 * sum(shared))
    square = levels.square(Spacing(count, 2))
    assert max(sums) <= square * (1 + 1e-9)
    assert square <= 1.15 * max(sums)


def test_signs_of_the_last_three_levels_are_known():
    """Of levels of one sample whose correlations are negative: no three differ in sign."""
    own = np.r_[1.0, np.full(3, -0.25), np.zeros(60)]
    square = Levels(own, 0.0, 1, 0.0).square(Spacing(9, 1))
    opposed = []
    for signs in itertools.product((1, -1), repeat=9):
        pairs = itertools.combinations(range(9), 2)
        near = [signs[i] != signs[j] for i, j in pairs if j - i <= 3]
        opposed.append(sum(near))
    assert square == pytest.approx(9 + 2 * 0.25 * max(opposed), rel=1e-7)


def test_lengths_are_told_apart_as_long_as_that_takes_a_second():
    own = 0.5 ** np.arange(600)
    levels = Levels(own, 0.0, 120, 0.0)
    assert levels.square(Spacing(800, 130)) < np.inf
    assert levels.square(Spacing(900, 130)) == np.inf


def test_correlations_are_known_until_they_are_a_billionth():
    """Of 2,048, 8,192 and at most 32,768 lags, behind white noise on a lag."""
    longest = 4
    secret = pc.DisturbanceAdjacency({"w": 1.0}, duration=longest, shape="level")
    reaches = (2**11, 2**13, 2**15)
    cases = [(0.99997, 2)]
    for k, reach in enumerate(reaches[:2]):
        left = 1 / (reach - 2 * longest - 2)
        cases += [(5e-10**left, k), (5e-9**left, k + 1)]
    for pole, k in cases:
        plant = ct.ss(pole, 1, 1, 0, 1, inputs=["w"], outputs=["y"])
        (inputs,) = Secrets(secret).under([Plant.of(plant)])
        white = Autoregression.of(np.zeros(1), 1.0)
        found = changes_behind(white, inputs)
        assert len(found.products) == reaches[k] - longest + 1
        shared = found.products / found.square
        lags = np.arange(len(shared))
        assert (shared >= pole**lags * (1 - 1e-9)).all()
        assert shared[100] == pytest.approx(pole ** (100 - longest + 1), rel=0.05)


@pytest.mark.parametrize("kind", range(4))
def test_the_search_for_sums_finds_what_all_of_them_show(kind):
    own = correlations(kind)
    sums = LevelSums(LONGEST, Spacing(3, 4))
    found = max(square for square, _ in sums.largest(own[: sums.reach]))
    attained = largest_sum(own, 3, 4)
    assert 0.95 * attained <= found
    for square, each in sums.largest(own[: sums.reach]):
        starts = np.sort(each.starts)
        assert (np.diff(starts) >= 4).all()
        shape = np.zeros(len(own))
        for start, length, sign in zip(
            each.starts, each.lengths, each.signs, strict=True
        ):
            shape[start : start + length] += sign
        assert shape @ scipy.linalg.toeplitz(own) @ shape == pytest.approx(square)
        z = np.exp(0.3j)
        assert each.transform(z) == pytest.approx(shape @ z ** -np.arange(len(own)))


def test_many_levels_count_in_sums_that_a_run_has_room_for():
    for events in (2, 12, 13, 96, 365):
        sums = LevelSums(4, Spacing(events, 10))
        assert sums.count * sums.times <= events < 1.1 * sums.count * sums.times
        assert sums.count <= 12


@pytest.mark.parametrize("pole", [0.999, 0.9, -0.99])
def test_means_over_the_circle_are_sums_over_time_of_long_shapes(pole):
    samples, span = 40_000, 768
    shape = np.zeros(span)
    for start, sign in ((0, 1), (96, -1), (300, 1), (span - 96, -1)):
        shape[start : start + 96] = sign
    response = scipy.signal.lfilter([1], [1, -pole], np.r_[shape, np.zeros(samples)])
    grid = FrequencyGrid.fitting_shapes(np.array([pole]), span)
    z = grid.points
    transform = np.polyval(shape[::-1], 1 / z) / (1 - pole / z)
    assert grid.mean(np.abs(transform) ** 2) == pytest.approx(
        response @ response, rel=1e-9
    )
    assert grid.count <= 2**15


# -- designs -----------------------------------------------------------------------------


def left_behind(noise, pole, samples):
    """Whitened responses (T, T) of moved impulses, from the covariances of the noise."""
    response = noise.parts[0].system.impulse_response(4096)[:, 0, 0]
    power = np.abs(np.fft.rfft(response, 2 * len(response))) ** 2
    covariance = np.fft.irfft(power)[:samples]
    root = scipy.linalg.cholesky(scipy.linalg.toeplitz(covariance), lower=True)
    impulse = np.diff(np.r_[0.0, pole ** np.arange(samples - 1)], prepend=0.0)
    moved = scipy.linalg.toeplitz(impulse, np.zeros(samples))
    return scipy.linalg.solve_triangular(root, moved, lower=True)


@pytest.mark.parametrize("pole, count", few([(0.9, 4), (1.0, 7)], of=1))
def test_events_that_are_moved_far_take_hardly_more_noise_than_their_sums_ask_for(
    pole, count
):
    """The second route is the dense covariance of a run: sums of levels by a beam."""
    moved, samples = 32, 420
    plant = ct.ss(pole, 1, 1, 0, 1, states=["x"], inputs=["w"], outputs=["y"])
    apart = moved + 1  # so that no two of them change places
    secret = pc.DisturbanceAdjacency(1.0, moved=moved, events=count, separation=apart)
    budget = pc.PrivacyBudget(gdp=1.0)
    with pytest.warns(pc.PrivacyWarning, match="the joint effect of changes in part"):
        noise = pc.design_output_noise(
            plant, horizon=np.inf, budget=budget, adjacency=secret
        )
    assert noise.design.gap < 0.13
    once = pc.design_output_noise(
        plant,
        horizon=np.inf,
        budget=budget,
        adjacency=pc.DisturbanceAdjacency(1.0, moved=moved),
    )
    scaled = once.guarantee.repeated(count, separation=apart).gdp
    assert (noise.std <= 0.98 * scaled * once.std).all()
    left = left_behind(noise, pole, samples)
    sums = np.cumsum(left, axis=1)
    known = [(0.0, 100 - apart, np.zeros(samples))]
    lengths = np.r_[1, np.arange(4, moved + 1, 4)]
    for _ in range(count):
        further = []
        for _, before, total in known:
            for wait in (0, 1, 2, 4):
                start = before + apart + wait
                each = sums[:, start - 1 + lengths] - sums[:, [start - 1]]
                both = total[:, None] + np.hstack([each, -each])
                sizes = np.linalg.norm(both, axis=0)
                further += [(*one, start) for one in zip(sizes, both.T, strict=True)]
        further.sort(key=lambda found: -found[0])
        known = [(size, start, total) for size, total, start in further[:200]]
    shown = known[0][0]
    assert 0.94 <= shown <= noise.guarantee.gdp * (1 + 1e-9)
    # no noise is cheaper than the bound, so neither is this one at what it shows
    assert noise.design.lower_bound <= noise.design.cost * (shown * 1.01) ** 2
