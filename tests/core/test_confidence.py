"""Confidence regions of regressions hold as often as they say, each in its own setting."""

import math

import numpy as np
import pytest
from scipy import stats

from privcontrol.core.confidence import (
    first_samples,
    independent_region,
    instrumented_region,
    sequential_region,
)

THETA = np.array([0.8, -0.5, 0.3])
FITS = 1000
# five standard deviations of a share of 1000 fits at 90 %
SPREAD = 5 * math.sqrt(0.9 * 0.1 / FITS)


def test_independent_regressors_have_the_nominal_coverage_as_ellipsoid_and_as_box():
    rng = np.random.default_rng(0)
    regressors = rng.normal(size=(25, 3)) @ np.array(
        [[1, 0.8, 0], [0, 1, 0.5], [0, 0, 2]]
    )
    in_region = in_box = in_wider_box = 0
    for _ in range(FITS):
        targets = regressors @ THETA + 0.1 * rng.normal(size=25)
        region = independent_region(regressors, targets, 0.1)
        around = np.sqrt(region.size * np.diag(np.linalg.inv(region.shape)))
        in_region += region.contains(THETA)
        in_box += region.box_contains(THETA)
        in_wider_box += (np.abs(THETA - region.centre) <= around).all()
    assert abs(in_region / FITS - 0.9) < SPREAD
    assert -SPREAD < in_box / FITS - 0.9 < SPREAD + 0.005
    assert (
        in_wider_box > in_box
    )  # the box around the ellipsoid holds the truth more often


def test_one_parameter_has_the_interval_of_student():
    rng = np.random.default_rng(1)
    x, e = rng.normal(size=(2, 20))
    region = independent_region(x[:, None], 2 * x + e, 0.05)
    fit = stats.linregress(x, 2 * x + e)  # with an intercept, for the scale only
    energy = x @ x
    estimate = x @ (2 * x + e) / energy
    std = math.sqrt(np.sum((2 * x + e - estimate * x) ** 2) / 19 / energy)
    width = stats.t.isf(0.025, 19) * std
    assert region.centre == pytest.approx(estimate)
    assert region.widths == pytest.approx(width)
    assert abs(fit.slope - estimate) < 1
    assert math.sqrt(region.size / energy) == pytest.approx(width)


def autoregression(rng, pole, count):
    y = np.zeros(count + 1)
    u = rng.normal(size=count)
    e = rng.normal(size=count)
    for t in range(count):
        y[t + 1] = pole * y[t] + u[t] + e[t]
    return y, u


def test_past_states_as_regressors_break_the_f_region_and_not_the_sequential_one():
    # a random walk with an unknown drift of zero: the regression of Dickey and Fuller
    rng = np.random.default_rng(2)
    truth = np.array([1.0, 0.0])
    fits = 400
    hits = np.zeros(2)
    for _ in range(fits):
        y = np.cumsum(np.r_[0.0, rng.normal(size=60)])
        regressors = np.column_stack([y[:-1], np.ones(60)])
        for k, region in enumerate(
            (
                independent_region(regressors, y[1:], 0.1),
                sequential_region(regressors, y[1:], 0.1),
            )
        ):
            hits[k] += region.contains(truth)
    assert hits[0] / fits < 0.8
    assert hits[1] / fits > 0.9


def test_instruments_give_the_nominal_coverage_whatever_the_regressors():
    rng = np.random.default_rng(2)
    truth = np.array([1.0, 1.0])
    hits = 0
    for _ in range(FITS):
        y, u = autoregression(rng, 1.0, 60)
        regressors = np.column_stack([y[:-1], u])
        instruments = np.column_stack([np.cumsum(np.r_[0.0, u[:-1]]), u])
        try:
            region = instrumented_region(regressors, y[1:], instruments, 0.1)
        except ValueError:  # nothing is claimed
            hits += 1
            continue
        hits += region.contains(truth)
    assert abs(hits / FITS - 0.9) < SPREAD


def test_the_sequential_region_is_the_ratio_of_predicted_to_largest_likelihood():
    rng = np.random.default_rng(3)
    y, u = autoregression(rng, 0.7, 80)
    regressors, targets = np.column_stack([y[:-1], u]), y[1:]
    region = sequential_region(regressors, targets, 0.05)
    first = first_samples(80, 2)
    predicted = 0.0
    for t in range(first, 80):
        before, known = regressors[:t], targets[:t]
        estimate, residue, *_ = np.linalg.lstsq(before, known, rcond=None)
        freedom = t - 2
        row = regressors[t]
        spread = 1 + row @ np.linalg.solve(before.T @ before, row)
        scale = math.sqrt(residue[0] / freedom * spread)
        predicted += stats.t.logpdf(targets[t], freedom, row @ estimate, scale)
    direction = np.array([0.6, -0.8])
    reach = math.sqrt(region.size / (direction @ region.shape @ direction))
    theta = region.centre + reach * direction
    left = targets[first:] - regressors[first:] @ theta
    best = stats.norm.logpdf(left, scale=math.sqrt(np.mean(left**2))).sum()
    assert predicted - best == pytest.approx(math.log(1 / 0.05), abs=1e-6)


def test_the_instrumented_region_ends_where_the_f_test_rejects():
    rng = np.random.default_rng(4)
    y, u = autoregression(rng, 0.7, 80)
    regressors = np.column_stack([y[:-1], u])
    lags = np.column_stack([u, np.r_[0.0, u[:-1]], np.r_[0.0, 0.0, u[:-2]]])
    region = instrumented_region(regressors, y[1:], lags, 0.05)
    direction = np.array([0.6, 0.8])
    reach = math.sqrt(region.size / (direction @ region.shape @ direction))
    left = y[1:] - regressors @ (region.centre - reach * direction)
    inside = lags @ np.linalg.lstsq(lags, left, rcond=None)[0]
    ratio = np.sum(inside**2) / 3 / (np.sum((left - inside) ** 2) / 77)
    assert ratio == pytest.approx(stats.f.isf(0.05, 3, 77), rel=1e-6)


@pytest.mark.parametrize(
    ("regressors", "targets", "cause"),
    [
        (np.ones((30, 2)), np.arange(30.0), "do not tell"),
        (
            np.eye(30)[:, :2] + 1,
            np.eye(30)[:, :2].sum(axis=1) + 2,
            "to the last digits",
        ),
    ],
)
def test_data_that_tell_nothing_are_refused(regressors, targets, cause):
    with pytest.raises(ValueError, match=cause):
        independent_region(regressors, targets, 0.1)


def test_inputs_that_excite_nothing_have_no_bounded_region():
    rng = np.random.default_rng(5)
    y, u = autoregression(rng, 0.7, 80)
    with pytest.raises(ValueError, match="excite the plant too little"):
        instrumented_region(
            np.column_stack([y[:-1], u]), y[1:], rng.normal(size=(80, 2)), 0.05
        )
