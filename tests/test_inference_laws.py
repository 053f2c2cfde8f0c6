"""Input perturbation with radial noise of a row."""

import math

import numpy as np
import pytest
from scipy import stats

import privcontrol as pc
from privcontrol.core import (
    InputPerturbation,
    LipschitzBound,
    OutputPerturbation,
    ball_rate,
)

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-5)


def perturbation(family, size=2, budget=BUDGET, **options):
    return InputPerturbation(
        lambda x: x, budget, radius=0.5, family=family, size=size, **options
    )


@pytest.mark.parametrize("size, ratio", [(1, 0.379), (2, 0.464), (3, 0.533)])
def test_the_noise_is_smaller_by_the_laws_ratio(size, ratio):
    gaussian, ball = perturbation("gaussian", size), perturbation("ball", size)
    assert ball.guarantee.satisfies(BUDGET)
    assert ball.scale == pytest.approx(0.5 / ball_rate(1.0, 1e-5, size), rel=1e-5)
    std = ball.scale * math.sqrt(size + 1)
    assert std / gaussian.scale == pytest.approx(ratio, abs=6e-4)


@pytest.mark.usefixtures("repeated_bits")
@pytest.mark.parametrize("family, size", [("ball", 3), ("truncated", 2)])
def test_rows_have_lengths_of_their_own(family, size):
    """20,000 simulated rows, and 400 exact ones, at 1e-5."""
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    private = perturbation(family, size, budget)
    rows = private(np.zeros((20_000, size)), rng=1)
    lengths = np.linalg.norm(rows, axis=1)
    if family == "ball":
        law = stats.gamma(size, scale=private.scale)
        assert stats.kstest(lengths, law.cdf).pvalue > 1e-5
    exact = np.linalg.norm(private(np.zeros((400, size))), axis=1)
    assert stats.ks_2samp(exact, lengths).pvalue > 1e-5
    assert stats.ks_2samp(2 * exact, lengths).pvalue < 1e-5


@pytest.mark.parametrize("family", ["ball", "truncated"])
def test_moves_are_hidden_by_brute_force(family):
    """The hockey stick of the longest move of two entries, from 1,000,000 draws."""
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    private = perturbation(family, 2, budget)
    eta = private(np.zeros((1_000_000, 2)), rng=2) / private.scale
    moved = np.linalg.norm(eta - np.array([0.3, 0.4]) / private.scale, axis=1)
    bound = np.linalg.norm(eta, axis=1).max() if family == "truncated" else math.inf
    losses = np.where(moved > bound, math.inf, moved - np.linalg.norm(eta, axis=1))
    excess = np.maximum(-np.expm1(1.0 - losses), 0.0)
    error = excess.std() / 1000
    assert abs(excess.mean() - 1e-2) <= 6 * error
    assert private.guarantee.delta(1.0) <= 1e-2


def test_several_releases_are_counted():
    twice = perturbation("ball", releases=2)
    assert twice.guarantee.released(2).satisfies(BUDGET)
    assert twice.scale > perturbation("ball").scale


def test_what_it_needs_is_named():
    with pytest.raises(ValueError, match="size: radial noise of a row"):
        perturbation("ball", size=None)
    with pytest.raises(ValueError, match='at most 2 directions, got 3; take "ball"'):
        perturbation("truncated", size=3)


def answers(family, outputs=2, budget=BUDGET, **options):
    gain = LipschitzBound(2.0, p=2, q=2, method="slope")
    return OutputPerturbation(
        lambda x: 2 * x,
        budget,
        radius=0.5,
        family=family,
        lipschitz=gain,
        outputs=outputs,
        **options,
    )


@pytest.mark.parametrize("outputs, ratio", [(1, 0.379), (2, 0.464), (3, 0.533)])
def test_answers_have_radial_noise_of_their_entries(outputs, ratio):
    gaussian, ball = answers("gaussian", None), answers("ball", outputs)
    assert ball.guarantee.satisfies(BUDGET)
    assert ball.scale == pytest.approx(1.0 / ball_rate(1.0, 1e-5, outputs), rel=1e-5)
    std = ball.scale * math.sqrt(outputs + 1)
    assert std / gaussian.scale == pytest.approx(ratio, abs=6e-4)
    assert "2-Lipschitz from the 2-norm to the 2-norm" in ball.guarantee.explain()


@pytest.mark.usefixtures("repeated_bits")
def test_answers_of_a_batch_are_drawn_row_by_row():
    """20,000 simulated rows, and 400 exact ones, at 1e-5."""
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    private = answers("truncated", 2, budget)
    lengths = np.linalg.norm(private(np.zeros((20_000, 2)), rng=1), axis=1)
    exact = np.linalg.norm(private(np.zeros((400, 2))), axis=1)
    assert stats.ks_2samp(exact, lengths).pvalue > 1e-5
    assert stats.ks_2samp(2 * exact, lengths).pvalue < 1e-5
    with pytest.raises(ValueError, match="model: expected 2 outputs of a row"):
        private(np.zeros((4, 3)))


def test_answers_need_their_number_and_the_2_norm():
    with pytest.raises(ValueError, match="outputs: radial noise of a row"):
        answers("ball", None)
    with pytest.raises(ValueError, match="to the 2-norm of ball noise"):
        OutputPerturbation(
            np.tanh,
            BUDGET,
            radius=0.5,
            family="ball",
            lipschitz=LipschitzBound(2.0, p=2, q=1, method="slope"),
            outputs=2,
        )
