"""Shared thresholds decide where their reasons say, within a factor of ten."""

from types import SimpleNamespace

import numpy as np
import pytest
from flint import fmpq

from privcontrol.core import (
    AffineManifold,
    BallAdjacency,
    LinearQuery,
    UncertifiableError,
)
from privcontrol.core.manifold import FiniteMoves, rounded
from privcontrol.core.noise import _priced
from privcontrol.designs.coupled_units import _Modes
from privcontrol.designs.windowed import SpectrumProblem
from privcontrol.noise.iosystem import plot_samples
from privcontrol.privacy.budget import kappa_inverse, scale_to_budget
from privcontrol.systems.linear import LinearSystem


def test_a_size_that_never_settles_is_tried_60_times():
    tried = []

    def evaluate(scale):
        tried.append(scale)
        return scale, 1.5

    scale_to_budget(evaluate, 1.0)
    assert len(tried) == 60


def test_the_smallest_delta_is_some_room_above_what_underflows():
    assert kappa_inverse(1.0, 2e-300) > 0
    with pytest.raises(ValueError, match="delta: expected a number from 1e-300"):
        kappa_inverse(1.0, 5e-301)


def test_moves_of_more_than_268_megabytes_are_refused():
    move = [(0,), [fmpq(1)]]
    with pytest.raises(ValueError, match="more than can be stored"):
        rounded([move], (1 << 25) + 1)


@pytest.mark.parametrize("angle, placed", [(2e-8, True), (2e-9, False)])
def test_a_ball_is_placed_where_its_error_is_below_a_millionth(angle, placed):
    manifold = AffineManifold.from_kernel([[1.0, 1.0], [0.0, angle]])
    if placed:
        BallAdjacency(1.0).moves(manifold)
        return
    with pytest.raises(UncertifiableError, match="too nearly parallel"):
        BallAdjacency(1.0).moves(manifold)


@pytest.mark.parametrize("error, in_balls", [(5e-11, False), (2e-10, True)])
def test_balls_are_asked_where_errors_are_worth_their_work(
    error, in_balls, monkeypatch
):
    asked = []
    in_doubles = FiniteMoves.ball_responses

    def noted(self, query):
        asked.append(query)
        return in_doubles(self, query)

    monkeypatch.setattr(FiniteMoves, "ball_responses", noted)
    moves = FiniteMoves(np.array([[1.0]]), errors=np.array([[error]]))
    moves.sensitivity(LinearQuery([[1.0]]))
    assert bool(asked) == in_balls


@pytest.mark.parametrize("singular, least", [(0.0, 1e-6), (2e-6, 2e-6)])
def test_a_free_direction_has_a_price_of_a_millionth(singular, least):
    triangle, free = _priced(np.diag([1.0, singular]))
    assert free == (singular == 0)
    assert np.linalg.svd(triangle, compute_uv=False)[-1] == pytest.approx(least)


def test_a_gain_that_vanishes_is_widened_to_a_billionth():
    systems = [LinearSystem.gain(np.eye(1)), LinearSystem.gain(np.zeros((1, 1)))]
    modes = SimpleNamespace(
        near=SimpleNamespace(systems=systems),
        grid=SimpleNamespace(points=np.array([1.0 + 0j])),
    )
    assert _Modes.gains.func(modes).ravel().tolist() == [1.0, 1e-9]


def test_a_spectrum_that_vanishes_keeps_what_a_sum_leaves_out():
    search = SimpleNamespace(circle=SimpleNamespace(weights=np.array([0.5, 0.5])))
    step = SpectrumProblem._scalar_step(search, np.array([[1.0], [0.0]]), np.ones(1))
    assert step.roots[:, 0, 0].tolist() == [1.0, 1e-13]


def test_a_figure_of_noise_has_at_most_a_million_points():
    noise = SimpleNamespace(horizon=1000)
    with pytest.raises(ValueError, match="at most 1000 lines of 1000 points"):
        plot_samples(noise, "", 1001, None, None, None, None)
