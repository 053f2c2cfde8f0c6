"""Shared thresholds decide where their reasons say, within a factor of ten."""

from types import SimpleNamespace

import control as ct
import numpy as np
import pytest
from flint import fmpq

import privcontrol as pc
from privcontrol.core import (
    AffineManifold,
    BallAdjacency,
    LinearQuery,
    UncertifiableError,
)
from privcontrol.core.manifold import FiniteMoves, rounded
from privcontrol.core.noise import _priced
from privcontrol.designs import robust
from privcontrol.designs.bounded import _least_factor
from privcontrol.designs.cheapest_covariance import _tolerance
from privcontrol.designs.coupled_units import _Modes
from privcontrol.designs.windowed import SpectrumProblem
from privcontrol.loop.controller import settled
from privcontrol.noise._patterns import largest_signs
from privcontrol.noise._rooms_of_runs import _responses
from privcontrol.noise.iosystem import plot_samples
from privcontrol.numerics.pairs import Pairs
from privcontrol.privacy.budget import kappa_inverse, scale_to_budget
from privcontrol.privacy.walls import Wall
from privcontrol.secrets.secrets import Secrets
from privcontrol.systems.gain import system_gain
from privcontrol.systems.linear import LinearSystem, Plant


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


@pytest.mark.parametrize("error, is_sharp", [(2.0**-61, True), (2.0**-58, False)])
def test_a_pair_tells_the_nearest_double_from_60_bits_on(error, is_sharp):
    pair = Pairs(np.ones((1, 1)), np.zeros((1, 1)), np.full((1, 1), error))
    assert pair.is_sharp == is_sharp


def test_a_system_is_given_20_000_steps_to_settle():
    asked = []

    def update(t, x, u, params):
        asked.append(t)
        return [x[0] + 1, u[0]]

    ctrl = ct.nlsys(
        update, lambda t, x, u, params: [x[1]], inputs=1, outputs=1, states=2, dt=1
    )
    settled(ctrl)
    assert 20_000 <= len(asked) < 20_100


@pytest.mark.parametrize("size, gap", [(100, 1e-7), (200, 0.009)])
def test_a_search_in_128_dimensions_and_more_ends_at_the_gap_of_the_request(size, gap):
    request = SimpleNamespace(gap=0.01)
    problem = SimpleNamespace(request=request, plants=[None], floor=np.zeros(1))
    responses = SimpleNamespace(singles=np.zeros((size, 3)))
    assert _tolerance(problem, responses) == pytest.approx(gap)


@pytest.mark.parametrize("signs, looked_at", [(12, 2048), (13, 14)])
def test_patterns_of_up_to_12_signs_are_listed(signs, looked_at):
    values, _ = largest_signs(np.eye(signs), np.ones((1, signs)))
    assert len(values) == looked_at


@pytest.mark.parametrize("needed, is_found", [(5e11, True), (2e12, False)])
def test_noise_is_made_larger_by_a_trillion_at_most(needed, is_found):
    keeps = SimpleNamespace(
        largest=lambda walls: 1.0 if walls[0].radius >= needed else None
    )
    factor = _least_factor(keeps, [Wall(1.0, 0.5, 1.0, 1)])
    if not is_found:
        assert factor is None
        return
    assert factor == pytest.approx(needed, rel=1e-3)


@pytest.mark.parametrize("decay, ends", [(2e-4, True), (4e-5, False)])
def test_a_response_is_followed_for_half_a_million_samples(decay, ends):
    """A mode of 1 - d has fallen to 1e-13 after 30 / d samples."""
    slow = ct.ss([[1 - decay]], [[1.0]], [[1.0]], 0, 1.0)
    if ends:
        assert system_gain(slow, norm="l1") == pytest.approx(1 / decay, rel=1e-6)
        return
    with pytest.raises(UncertifiableError, match="cannot be certified in double"):
        system_gain(slow, norm="l1")


@pytest.mark.parametrize("samples, compared", [(1000, True), (1001, False)])
def test_all_moves_of_a_run_of_up_to_1000_samples_are_compared(samples, compared):
    plant = Plant.of(ct.ss(0.5, 1.0, 1.0, 0, 1.0, inputs=["u"]))
    secret = Secrets(pc.DisturbanceAdjacency({"u": 1.0}, norm="l2"))
    if compared:
        assert _responses(secret, (plant,), samples).shape[:2] == (samples, 1)
        return
    with pytest.raises(pc.PrivacyError, match="a long run needs changes of single"):
        _responses(secret, (plant,), samples)


def test_ellipsoids_around_balls_are_first_found_to_a_ten_thousandth(monkeypatch):
    gaps = []
    found = robust.enclosing_ellipsoid

    def noted(points, weight_factor, *, tol):
        gaps.append(tol)
        return found(points, weight_factor, tol=tol)

    monkeypatch.setattr(robust, "enclosing_ellipsoid", noted)
    rng = np.random.default_rng(0)
    points, ball = rng.normal(size=(4, 30)), rng.normal(size=(4, 4))
    robust.covering_ellipsoid(points, [ball], np.eye(4), tol=1e-7)
    assert gaps[0] == pytest.approx(1e-4)
    assert gaps[-1] < 1e-6
