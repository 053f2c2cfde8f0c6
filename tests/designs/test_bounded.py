"""Noise that never leaves a bound: its leak, its size, its draws, its gateway, refusals.

Second routes: the exact curve of one truncated Gaussian number in 40 digits, simulation in
two and six dimensions, and the numbers of the theory's other code.
"""

import contextlib
import itertools
import json
import math
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path

import control as ct
import mpmath as mp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from repeats import few
from scipy.special import erfinv

import privcontrol as pc
from privcontrol.noise import _rooms_of_blocks, _walls_of_blocks
from privcontrol.noise._counted_walls import leak_of
from privcontrol.noise._room import Room
from privcontrol.noise._rooms_of_blocks import InnovationBlocks
from privcontrol.noise.bound import Bound
from privcontrol.noise.exact import ExactNoise
from privcontrol.noise.parts import Filtered
from privcontrol.noise.within import room_of, walls_of
from privcontrol.numerics.balls import ball_matrix
from privcontrol.privacy.loss import PrivacyLoss
from privcontrol.privacy.radial import leak
from privcontrol.privacy.walls import Wall, ball_leak, slab_leak
from privcontrol.secrets.secrets import Secrets
from privcontrol.systems.linear import LinearSystem

sys.path.insert(0, str(Path(__file__).parents[1] / "stress"))

import kill_gateways

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
EVENT = pc.DisturbanceAdjacency({"u": 1.0})


def lag(pole=0.9):
    return ct.ss(pole, 1, 1, 0, 1.0, states=["x"], inputs=["u"], outputs=["y"])


def designed(**options):
    request = {"horizon": np.inf, "budget": BUDGET, "adjacency": EVENT, "order": 1}
    if options.get("horizon", np.inf) < np.inf:
        del request["order"]
    return pc.design_output_noise(lag(), **request | options)


# -- one number, exactly --------------------------------------------------------------------


def exact_delta(epsilon, move, radius):
    """Return delta of a standard Gaussian number within a radius that moves, in 40 digits."""
    with mp.workdps(40):
        a, c, e = mp.mpf(move), mp.mpf(radius), mp.mpf(epsilon)
        kept = mp.ncdf(c) - mp.ncdf(-c)
        told = mp.ncdf(min(a - c, c)) - mp.ncdf(-c)
        turn = a / 2 - e / a
        shared = mp.mpf(0)
        if turn > a - c:
            end = min(turn, c)
            ours = mp.ncdf(end) - mp.ncdf(a - c)
            theirs = mp.ncdf(end - a) - mp.ncdf(-c)
            shared = ours - mp.e**e * theirs
        return (told + shared) / kept


CASES = list(
    itertools.product(
        (0.05, 0.2, 0.5, 0.8, 1.0, 1.5, 2.2, 3.0),
        (1.5, 2.0, 3.0, 4.0, 5.0),
        (*np.arange(0.0, 1.0, 0.1), *np.arange(1.0, 9.0, 1.0)),
    )
)[:689]


@pytest.mark.parametrize("step", few([3, 1], of=1))
def test_689_curves_are_below_what_is_claimed(step):
    below_half = 0
    for move, radius, epsilon in CASES[::step]:
        loss = PrivacyLoss.gaussian(move, walls=[Wall(radius, move)])
        exact = exact_delta(epsilon, move, radius)
        assert exact <= loss.delta(epsilon)
        below_half += epsilon < move**2 / 2
    assert len(CASES) == 689
    assert below_half > 100 / step


def test_the_numbers_of_one_pair_of_walls():
    loss = PrivacyLoss.gaussian(0.5, walls=[Wall(3.0, 0.5)])
    assert slab_leak(3.0, 0.5) == pytest.approx(0.004872923193, rel=3e-9)
    assert loss.delta(0.0) == pytest.approx(0.2013235979, rel=1e-8)
    assert loss.delta(1.0) == pytest.approx(0.01166923808, rel=1e-7)
    assert float(exact_delta(0, 0.5, 3)) == pytest.approx(0.1979470681, rel=1e-9)
    assert float(exact_delta(1, 0.5, 3)) == pytest.approx(0.009173867813, rel=1e-9)


@pytest.mark.parametrize("move", [1e-9, 1e-6, 3e-6, 1e-5, 1e-4, 0.1, 1.0, 2.9, 3.1])
def test_a_leak_is_rounded_up(move):
    with mp.workdps(40):
        c, a = mp.mpf(3), mp.mpf(move)
        exact = (mp.ncdf(a - c) - mp.ncdf(-c)) / (1 - 2 * mp.ncdf(-c))
    assert exact <= slab_leak(3.0, move)
    if move < 3:
        # the density at the nearer end bounds a short interval, by a c / 2 of it
        short = 1.5 * move if move < 1e-5 / 3 else 0.0
        assert slab_leak(3.0, move) <= float(exact) * (1 + 2e-9 + short)


BALLS = [(1.0, 2, 1e-3), (3.0, 2, 0.4), (9.0, 3, 0.4), (12.0, 100, 0.4)]
BALLS += [(1.0, 2, 0.4), (3.0, 2, 1e-3), (9.0, 3, 1e-3), (12.0, 100, 1e-3)]


@pytest.mark.parametrize("radius, dimension, move", few(BALLS, of=3))
def test_the_leak_of_a_ball_is_an_integral_over_the_distance(radius, dimension, move):
    """By the chance of a direction at each distance from the centre, in 30 digits."""
    with mp.workdps(30):
        c, a, n = mp.mpf(radius), mp.mpf(move), dimension

        def beyond(r):  # P(|e - t| > c) at |e| = r, by the cosine of the angle
            cosine = (r * r + a * a - c * c) / (2 * r * a)
            half = mp.mpf(n - 1) / 2
            share = min(max((1 + cosine) / 2, 0), 1)
            return mp.betainc(half, half, 0, share, regularized=True)

        def density(r):
            return r ** (n - 1) * mp.exp(-(r**2) / 2)

        told = mp.quad(lambda r: density(r) * beyond(r), [c - a, c - a / 2, c])
        kept = mp.quad(density, mp.linspace(0, c, 13))
    found = ball_leak(radius, move, dimension)
    assert 5e-9 < found / float(told / kept) - 1 < 2e-8


@pytest.mark.parametrize("dimension", [3, 10_000, 100_000])
def test_the_leak_of_a_ball_in_many_dimensions(dimension):
    """By an adaptive rule over the other dimensions, whose length is nearly known."""
    radius, move = math.sqrt(dimension) + 2, 0.5
    half = (dimension - 1) / 2
    scale = math.log(2) * (half - 1) + math.lgamma(half)
    cdf = scipy.special.ndtr

    def lost(length):
        wall = math.sqrt(radius**2 - length**2)
        beyond = cdf(min(wall, move - wall)) - cdf(-wall)
        if length == 0:
            return 0.0
        # the density of the length, that of a chi variable
        return beyond * math.exp(
            (dimension - 2) * math.log(length) - length**2 / 2 - scale
        )

    kink = math.sqrt(radius**2 - (move / 2) ** 2)
    points = [kink, *(radius - np.arange(0.25, 8, 0.25))]
    ends = [max(radius - 9, 0.0), *sorted(x for x in points if x > 0), radius]
    told = 0.0
    for low, high in itertools.pairwise(ends):
        told += scipy.integrate.quad(lost, low, high, epsrel=1e-11, epsabs=0)[0]
    kept = scipy.stats.chi(dimension).cdf(radius)
    assert ball_leak(radius, move, dimension) == pytest.approx(told / kept, rel=1e-6)


@pytest.mark.parametrize("dimension, radius", [(2, 3.0), (6, 4.0)])
def test_balls_by_simulation(dimension, radius):
    """400,000 draws: a leak 10 % off would be seen at 4 deviations or more."""
    move, rng = 0.8, np.random.default_rng(dimension)
    drawn = rng.normal(size=(400_000, dimension))
    drawn = drawn[np.linalg.norm(drawn, axis=1) <= radius]
    shifted = drawn - np.eye(dimension)[0] * move
    told = np.linalg.norm(shifted, axis=1) > radius
    leak = ball_leak(radius, move, dimension)
    deviation = math.sqrt(leak / len(drawn))
    assert abs(told.mean() - leak) < 4 * deviation
    assert leak * 0.1 > 4 * deviation
    # and the whole curve: log of the ratio on what both laws share
    ratios = move * (move / 2 - drawn[:, 0])
    loss = PrivacyLoss.gaussian(move, walls=[Wall(radius, move, 1.0, dimension)])
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        excess = np.where(told, 1.0, np.maximum(1 - np.exp(epsilon - ratios), 0.0))
        slack = 4 * excess.std() / math.sqrt(len(excess))
        assert excess.mean() - slack <= loss.delta(epsilon)
    detected = np.quantile(ratios[~told], 0.95)
    assert detected < math.inf


def test_a_ball_of_two_dimensions():
    assert ball_leak(5.0, 0.5325, 2) == pytest.approx(1.07e-5, rel=5e-3)
    assert ball_leak(3.0, 0.5, 2) < 2.1 * slab_leak(3.0, 0.5)


@pytest.mark.parametrize(
    "leak_of_move",
    [
        lambda move: slab_leak(60.0, move),
        lambda move: ball_leak(60.0, move, 3),
        lambda move: leak(move, 1, 1e4),
        lambda move: leak(move, 2, 1e4),
    ],
)
def test_what_a_far_bound_excludes_is_not_rounded_to_zero(leak_of_move):
    """It is below what doubles hold, and a promise without any failure would be false."""
    assert 0 < leak_of_move(0.5) < 1e-299
    assert leak_of_move(0.0) == 0


def test_detection_by_a_test_that_sees_the_walls():
    """The best test on the exact laws detects no more than is claimed."""
    move, radius = 0.5, 2.5
    loss = PrivacyLoss.gaussian(move, walls=[Wall(radius, move)])
    guarantee = pc.PrivacyGuarantee(
        loss, pc.PrivacyGuarantee.black_box(pc.PrivacyBudget(gdp=1.0), EVENT).scope
    )
    with mp.workdps(30):
        kept = mp.ncdf(radius) - mp.ncdf(-radius)
        for alarm in (0.001, 0.05, 0.3):
            # reject above a threshold under the law at zero
            level = mp.findroot(
                lambda x, rate=alarm: (mp.ncdf(radius) - mp.ncdf(x)) / kept - rate, 1.0
            )
            found = 1 - (mp.ncdf(level - move) - mp.ncdf(-radius)) / kept
            assert found <= guarantee.detection(alarm)
    assert guarantee.gdp == math.inf
    assert loss.shift == move


# -- responses that last --------------------------------------------------------------------


def walls_at(noise, multiple, horizon=35_000):
    bound = Bound(noise.std * multiple, np.array([np.inf]), horizon)
    walls = walls_of(
        noise.parts, Secrets(EVENT), (noise.plant_data,), bound, noise.guarantee.gdp
    )
    return leak_of(walls), room_of(noise.parts, bound)


@pytest.mark.parametrize("multiple, leak", [(4, 7.5496e-4), (5, 9.5755e-6)])
def test_the_leak_of_a_lag(multiple, leak):
    assert walls_at(designed(), multiple)[0] == pytest.approx(leak, rel=2e-3)


def test_the_share_of_lives_that_are_kept():
    noise = designed()
    assert walls_at(noise, 5)[1].acceptance == pytest.approx(0.980, abs=5e-4)
    assert walls_at(noise, 5, 350_000)[1].acceptance == pytest.approx(0.818, abs=5e-4)


def test_the_leak_by_simulation():
    """100,000 runs around an event: a leak 20 % off would be seen at 3 deviations."""
    noise = designed()
    limit, samples = 3 * noise.std[0], 30
    leak, _ = walls_at(noise, 3, samples)
    gamma = noise.sample(100_000, rng=5, horizon=samples)[0]
    kept = gamma[np.abs(gamma).max(axis=1) <= limit]
    event = np.zeros(samples)
    event[5:] = 0.9 ** np.arange(samples - 5)
    told = np.abs(kept - event).max(axis=1) > limit
    deviation = math.sqrt(leak / len(kept))
    assert told.mean() <= leak + 4 * deviation
    assert told.mean() >= 0.7 * leak  # the sum over walls counts some twice
    assert 0.2 * leak > 3 * deviation


def test_blocks_of_innovations():
    """Lag .9, blocks of 300, 6.916 deviations: no leak above that of a common multiple.

    With five deviations for all walls and for the state the leak was 1.08e-5.
    """
    noise = designed()
    leak, room = walls_at(noise, 6.916, np.inf)
    assert 1e-6 < leak < 1.08e-5
    assert room.block.radii.min() > 0.9 * 5
    assert room.acceptance > 0.999


def moved_by(span, order, limits, changes=math.inf):
    """InnovationBlocks of noise behind the lag that hides when, and the inputs of the secret."""
    when = pc.DisturbanceAdjacency({"u": 1.0}, moved=span)
    noise = designed(adjacency=when, order=order)
    bound = Bound(noise.std * limits, np.array([changes * noise.std[0]]), np.inf)
    (secret,) = Secrets(when).under([noise.plant_data])
    return room_of(noise.parts, bound), secret


def made_by_innovations(room, entries, place):
    """What entries (N,) of a block from a place on make (2 BLOCK - place, views)."""
    response = room.block.system.impulse_response(2 * _walls_of_blocks.BLOCK)[:, :, 0]
    return np.array([np.convolve(entries, view) for view in response.T]).T[
        : 2 * _walls_of_blocks.BLOCK - place
    ]


@pytest.mark.slow
def test_what_a_change_adds_to_its_blocks_is_what_their_entries_add():
    """By convolution of the entries of each block, alone, over it and the next one."""
    room, secret = moved_by(2, 4, 16.0, 20.0)
    lift, shown, states = room.block._lifted(room.part.shaping, secret)
    for offset in (0, 7, 299):
        made, left = room.block._made(shown, states, offset)
        edges = [
            0,
            *range(_walls_of_blocks.BLOCK - offset, len(shown), _walls_of_blocks.BLOCK),
        ]
        for block, (first, last) in enumerate(itertools.pairwise(edges)):
            place = offset if first == 0 else 0
            for k, entries in enumerate(lift[first:last, 0].T):
                found = made_by_innovations(room, entries, place)
                known = made[block, place:, :, k] * room.block.stds[place:]
                np.testing.assert_allclose(known, np.abs(found), atol=1e-9)
                assert not made[block, :place, :, k].any()
        assert len(left) == len(edges) - 1


@pytest.mark.slow
def test_what_is_counted_leaks_at_least_as_much_as_each_change(monkeypatch):
    """Wall by wall, at many offsets, for moves and noise of other sizes too."""
    room, secret = moved_by(3, 4, 7.0, 7.0)
    _, shown, states = room.block._lifted(room.part.shaping, secret)
    walls = [wall for wall in room.walls_of_inputs(secret) if wall.dimension == 1]
    has_wall = np.isfinite(room.block.radii)
    radii = room.block.radii[has_wall][:, None]
    largest = 0.0
    for offset in (0, 3, 100, 280, 298, 299):
        made, _ = room.block._made(shown, states, offset)
        for change in range(made.shape[3]):
            moves = made[:, has_wall, change].T
            for times, gain in ((1, 1), (3, 0.9), (1, 1.2)):
                near = np.where(moves > 1e-5, moves * gain * times, 0.0)
                c = np.broadcast_to(radii * gain, near.shape)
                lost = scipy.stats.norm.sf(c - near) - scipy.stats.norm.sf(c)
                leak = (lost / (1 - 2 * scipy.stats.norm.sf(c))).sum()
                said = leak_of([wall.scaled(times).beside(gain) for wall in walls])
                assert leak <= said
                if times == gain == 1:
                    largest = max(largest, leak / said)
    assert 0.5 < largest
    followed = leak_of(room.walls_of_inputs(secret))
    monkeypatch.setattr(_walls_of_blocks, "_FOLLOWED", 2 * _walls_of_blocks.BLOCK)
    bounded = leak_of(room.walls_of_inputs(secret))
    assert followed <= bounded * (1 + 1e-9)
    assert bounded <= 3 * followed
    monkeypatch.setattr(_walls_of_blocks, "LATEST", 2 * _walls_of_blocks.BLOCK)
    with pytest.raises(pc.PrivacyError, match="lasts for more than"):
        room.walls_of_inputs(secret)


@pytest.mark.slow
def test_how_walls_are_chosen_and_counted():
    """The leak and the ball of one design: each number that they depend on changes them."""
    room, secret = moved_by(2, 3, 6.0, 6.0)
    assert leak_of(room.walls_of_inputs(secret)) == pytest.approx(
        1.7058976e-3, rel=1e-5
    )
    assert room.block.ball == pytest.approx(5.470376, rel=1e-5)


def are_within(room, entries):
    """Whether blocks of entries (runs, BLOCK) are within their walls and their ball."""
    padded = np.concatenate([entries, np.zeros_like(entries)], axis=1)[:, :, None]
    rest = np.zeros((len(entries), room.block.system.order))
    made, _ = room.block.system.run(rest, padded)
    _, state = room.block.system.run(rest, entries[:, :, None])
    walls = np.where(room.block.stds > 0, room.block.radii * room.block.stds, np.inf)
    coordinates = np.linalg.solve(room.block.state_root, state.T)
    in_ball = np.linalg.norm(coordinates, axis=0) <= room.block.ball
    return (np.abs(made) <= walls).all(axis=(1, 2)) & in_ball


@pytest.mark.slow
@pytest.mark.parametrize("offset, part", [(150, 0.0), (299, 0.6)])
def test_the_leak_of_blocks_by_simulation(offset, part):
    """6,000 draws of three blocks each, which a change reaches from an offset on.

    Walls are near, so that draws reveal often which of two runs they are of. Walls of
    neighbouring samples are passed together, which their sum counts several times.
    """
    room, secret = moved_by(2, 2, 3.5)
    leak = leak_of(room.walls_of_inputs(secret))
    lift, _, _ = room.block._lifted(room.part.shaping, secret)
    rng = np.random.default_rng(4)
    shifted = np.zeros((3 * _walls_of_blocks.BLOCK, lift.shape[2]))
    shifted[offset:] = lift[: len(shifted) - offset, 0]
    told = np.zeros((lift.shape[2], 0), dtype=bool)
    for _ in range(6):  # so that not all are held at once
        seen = np.zeros((lift.shape[2], 1000), dtype=bool)
        for shifts in shifted.reshape(3, _walls_of_blocks.BLOCK, -1):
            drawn = rng.standard_normal((1500, _walls_of_blocks.BLOCK))
            kept = drawn[are_within(room, drawn)][:1000]
            assert len(kept) == 1000
            for change, shift in enumerate(shifts.T):
                seen[change] |= ~are_within(room, kept - shift)
        told = np.concatenate([told, seen], axis=1)
    deviation = math.sqrt(leak / told.shape[1])
    assert (told.mean(axis=1) <= leak + 4 * deviation).all()
    assert told.mean(axis=1).max() >= part * leak


@pytest.mark.parametrize(
    "span, order, limits", few([(1, 1, 7.0), (3, 4, 8.0), (40, 2, 9.0)], of=2)
)
def test_the_walls_of_blocks_add_up_to_the_limit(span, order, limits):
    """The largest that blocks, and the state that a run begins with, make together.

    A linear program finds the largest near part, and a sum over 20 blocks all that comes
    before.
    """
    room, _ = moved_by(span, order, limits, limits)
    limit = np.concatenate([room.bound.limits, room.bound.changes])
    size = _walls_of_blocks.BLOCK
    walls = np.where(room.block.stds > 0, room.block.radii * room.block.stds, np.inf)
    own = np.where(room.block.stds[:size] > 0, walls[:size], 0.0)
    earlier = np.zeros_like(own)
    state = room.block.state_root
    for block in range(20):
        free = room.block.system.free_response(state, size).reshape(
            size, len(limit), -1
        )
        most = room.block.ball * np.linalg.norm(free, axis=2)
        earlier += np.minimum(most, walls[size:]) if block == 0 else most
        state = np.linalg.matrix_power(room.block.system.A, size) @ state
    assert (own + earlier <= limit).all()
    assert (own + earlier).max(axis=0) == pytest.approx(limit, rel=1e-5)
    assert (own + room.most <= limit).all()


def test_blocks_that_make_what_their_walls_allow_stay_within():
    """Every block is moved to its walls, and the worst signs of all follow each other."""
    room, _ = moved_by(3, 4, 8.0, 8.0)
    rng = np.random.default_rng(2)
    fresh = []
    for _ in range(12):
        entries = rng.standard_normal((_walls_of_blocks.BLOCK, 1)) + rng.normal()
        share = room.share(np.empty(0), entries)
        fresh.append(entries / share * (1 - 1e-12))
        assert room.share(np.empty(0), fresh[-1]) == pytest.approx(1.0)
    first = rng.standard_normal(room.total.once)
    first /= room.share(first, np.empty((0, 1)))
    gamma = room.total.signal(first[None], np.concatenate(fresh)[None])[0]
    assert room.bound.share(gamma) <= 1
    apart = 1.2 * np.concatenate(fresh)
    assert room.bound.share(room.total.signal(1.2 * first[None], apart[None])[0]) > 0.5


def test_states_that_forget_slowly_are_kept_by_the_ball_alone():
    """Where a block's state lasts for many blocks, its walls are as good as none."""
    noise = designed(adjacency=pc.DisturbanceAdjacency({"u": 1.0}))
    slow = replace(
        noise.parts[0],
        shaping=LinearSystem(
            np.array([[0.9995]]), np.ones((1, 1)), np.ones((1, 1)), np.zeros((1, 1))
        ),
    )
    room = room_of((slow,), Bound(np.array([400.0]), np.array([np.inf]), np.inf))
    assert not np.isfinite(room.block.radii[_walls_of_blocks.BLOCK :]).any()
    drawn = np.concatenate(
        [
            fresh
            for _, (_, fresh) in zip(range(5), room.draws(rng_draw(4)), strict=False)
        ]
    )
    gamma = room.total.signal(np.zeros((1, room.total.once)), drawn[None])[0]
    assert np.abs(gamma).max() <= 400.0


class Wear:
    """Price b(t)^2 + 3 (b(t) - b(t-1))^2 of a battery's charge, as the study does."""

    def noise_weight(self, horizon):
        root = math.sqrt(3.0)
        return ct.ss(0, 1, [[0], [-root]], [[1], [root]], True)


@pytest.mark.slow
def test_a_battery_hides_without_end():
    """9.3 kWh and 7.8 kW at leak 1e-5; 1 % less is too little.

    With one multiple of the deviations for both parts of the noise the least was 11.2 kWh.
    """
    meter = ct.ss(1, 1, 1, 0, 0.25, inputs=["load"], outputs=["reading"])
    request = {
        "horizon": np.inf,
        "budget": pc.PrivacyBudget(gdp=0.532517, leak=1e-5),
        "adjacency": pc.DisturbanceAdjacency({"load": 0.1}, moved=96),
        "weight": Wear(),
        "order": 5,
        "gap": 0.027,
    }
    limits = np.array([9.3 / 2, 7.8 / 4])
    noise = pc.design_output_noise(meter, bound={"reading": limits}, **request)
    assert noise.leak <= 1e-5
    assert noise.acceptance > 0.9999
    stream = noise.stream(rng=0)
    charge = np.array([next(stream)[0] for _ in range(3_000)])
    assert np.abs(charge).max() <= limits[0]
    assert np.abs(np.diff(charge)).max() <= limits[1]
    with pytest.raises(pc.PrivacyError, match=r"least one .* reading: 4\.64"):
        pc.design_output_noise(meter, bound={"reading": 0.99 * limits}, **request)


def rng_draw(seed):
    return np.random.default_rng(seed).standard_normal


# -- designs --------------------------------------------------------------------------------


def test_the_least_bound_of_one_number():
    request = {
        "horizon": 50,
        "budget": BUDGET,
        "adjacency": pc.StateAdjacency({"position": 1.0}),
        "models": "exact",
    }
    with pytest.raises(pc.PrivacyError, match=r"least one .* y: 6.20"):
        pc.design_output_noise(pc.plants.vehicle(), bound=5.0, **request)
    noise = pc.design_output_noise(pc.plants.vehicle(), bound=6.203, **request)
    np.testing.assert_allclose(noise.std, 2.118, rtol=1e-2)
    assert noise.guarantee.satisfies(BUDGET)
    assert noise.guarantee.delta(1.0) == pytest.approx(0.01, rel=1e-3)
    assert np.abs(noise.sample(2000, rng=0)).max() <= 6.203


def test_a_life_keeps_its_budget_and_its_bound():
    noise = designed(bound={"y": 14.0}, life=500)
    assert noise.horizon == 500
    assert noise.guarantee.satisfies(BUDGET)
    assert 0 < noise.leak < 1e-4
    assert noise.acceptance > 0.99
    np.testing.assert_array_equal(noise.bound, [14.0])
    assert np.abs(noise.sample(50, rng=0)).max() <= 14.0
    free = designed()
    assert noise.std[0] >= free.std[0]


def test_a_bound_of_changes():
    noise = designed(bound={"y": (14.0, 9.0)}, life=300)
    drawn = noise.sample(50, rng=0)[0]
    assert np.abs(np.diff(drawn, axis=1)).max() <= 9.0
    assert noise.leak > designed(bound=14.0, life=300).leak


def test_runs_of_any_length_never_leave_the_bound():
    """30,000 samples; tests/stress/bounded_noise.py streams a million."""
    noise = designed(bound=16.0)
    assert noise.horizon == math.inf
    stream = noise.stream(rng=0)
    drawn = np.array([next(stream)[0] for _ in range(6_000)])
    assert np.abs(drawn).max() <= 16.0
    assert drawn.std() == pytest.approx(noise.std[0], rel=0.1)
    np.testing.assert_allclose(
        noise.sample(1, rng=0, horizon=700)[0, 0], drawn[:700], atol=1e-12
    )


def test_a_budget_in_gdp_names_its_leak():
    budget = pc.PrivacyBudget(gdp=0.5, leak=1e-4)
    noise = designed(bound=16.0, life=200, budget=budget)
    assert noise.guarantee.satisfies(budget)
    assert not noise.guarantee.satisfies(pc.PrivacyBudget(gdp=0.5))
    assert "but for a leak" in noise.guarantee.explain()
    with pytest.raises(pc.PrivacyError, match="leak"):
        designed(bound=16.0, life=200, budget=pc.PrivacyBudget(gdp=0.5))


def test_independent_draws_add_their_leaks():
    noise = designed(bound=14.0, life=200)
    both = noise.guarantee + noise.guarantee
    leak = noise.leak
    assert both.loss.failure == pytest.approx(1 - (1 - leak) ** 2, rel=1e-6)
    assert both.loss.shift == pytest.approx(noise.guarantee.loss.shift * math.sqrt(2))


@pytest.mark.slow
def test_a_detector_that_sees_a_whole_feedback_loop_finds_no_more_than_is_claimed():
    """20,000 runs of a loop closed over what is published, with an event and without.

    The detector knows the plant, the controller and the time of the event. It subtracts
    what the controls do, calls what leaves the bound by its name, and compares densities.
    """
    runs, horizon, start, gain, wall = 20_000, 30, 8, 0.6, 4.7
    budget = pc.PrivacyBudget(gdp=1.0, leak=0.03)
    noise = designed(horizon=horizon, budget=budget, bound=wall)
    assert 0.01 < noise.leak <= 0.03
    gamma = noise.sample(runs, rng=3)[0]
    event = np.zeros(horizon)
    event[start + 1 :] = 0.9 ** np.arange(horizon - start - 1)

    def published(happens):
        state = np.zeros(runs)
        seen, controls = np.empty((2, runs, horizon))
        for t in range(horizon):
            seen[:, t] = state + gamma[:, t]
            controls[:, t] = -gain * seen[:, t]
            state = 0.9 * state + controls[:, t] + happens * (t == start)
        return seen, controls

    seen, controls = published(0)
    assert np.abs(seen - gamma).max() > 1  # the loop reacts to the noise
    covariance = np.array(
        [[noise.covariance(t, s)[0, 0] for s in range(horizon)] for t in range(horizon)]
    )
    weights = np.linalg.lstsq(covariance, event, rcond=1e-9)[0]  # none at sample zero
    np.testing.assert_allclose(covariance @ weights, event, atol=1e-9)
    scores = []
    for happens in (0, 1):
        seen, controls = published(happens)
        known = np.zeros((runs, horizon))
        for t in range(1, horizon):
            known[:, t] = 0.9 * known[:, t - 1] + controls[:, t - 1]
        left = seen - known
        np.testing.assert_allclose(left, gamma + happens * event, atol=1e-9)
        score = left @ weights
        score[np.abs(left).max(axis=1) > wall + 1e-9] = math.inf  # only with the event
        score[np.abs(left - event).max(axis=1) > wall + 1e-9] = -math.inf  # or without
        scores.append(score)
    told = np.isposinf(scores[1]).mean()
    deviation = math.sqrt(noise.leak / runs)
    assert 0.5 * noise.leak < told <= noise.leak + 5 * deviation
    assert not np.isposinf(scores[0]).any()
    for alarm in (0.01, 0.05, 0.3):
        threshold = np.quantile(scores[0], 1 - alarm)
        found = (scores[1] > threshold).mean()
        claimed = noise.guarantee.detection(alarm)
        slack = 5 * math.sqrt(claimed / runs)
        assert 0.85 * claimed < found <= claimed + slack


def test_larger_moves_are_reckoned_again_at_the_wall():
    noise = designed(bound=14.0, life=200)
    twice = noise.guarantee.repeated(2)
    assert twice.loss.failure > 3 * noise.leak  # not twice: it is convex
    assert slab_leak(3, 1.0) > 4 * slab_leak(3, 0.5)


def test_ledgers_hold_rows_with_a_leak(tmp_path):
    noise = designed(bound=14.0, life=200)
    loose = pc.PrivacyBudget(epsilon=3.0, delta=0.05)
    ledger = pc.PrivacyLedger(loose, tmp_path / "ledger.db")
    ledger.charge(noise.guarantee)
    again = pc.PrivacyLedger.open(tmp_path / "ledger.db")
    assert again.spent.delta(1.0) == noise.guarantee.delta(1.0)
    assert again.spent.loss.failure == noise.leak


@pytest.mark.parametrize("options", few([{"life": 200}, {"horizon": 30}, {}], of=2))
def test_files_keep_the_bound(tmp_path, options):
    noise = designed(bound={"y": (22.0, 22.0)}, **options)
    noise.save(tmp_path / "noise.json")
    assert pc.load(tmp_path / "noise.json") == noise
    text = (tmp_path / "noise.json").read_text()
    data = json.loads(text)
    assert data["kept"]["limits"] == data["request"]["bound"]["limits"]


# -- gateways -------------------------------------------------------------------------------


def standard(text):
    value, count = text.split("/")
    offset = 2 * int(value, 16) + 1 - (1 << int(count))
    return math.sqrt(2) * float(erfinv(offset / 2 ** int(count)))


def test_a_killed_gateway_continues_the_same_life(tmp_path):
    """The run ends without a close, as in a kill, and what is on the disk goes on."""
    noise = designed(bound=14.0, life=200)
    gateway = pc.Gateway(
        noise, path=tmp_path / "state", grid=1e-9, block=20, floating=True
    )
    before = [gateway.publish(0.0)[0] for _ in range(5)]
    gateway._worker.end()
    gateway._store.close()
    again = pc.Gateway.resume(tmp_path / "state")
    start = again.next_index
    after = [again.publish(0.0)[0] for _ in range(5)]
    entries = again._store.entries()[1:]
    bits = dict(enumerate(again._state["once"]))
    for entry in entries:
        bits |= dict(enumerate(entry["bits"], entry["first"]))
    again.close()
    once = noise.process.total.once
    eta = np.array([standard(bits[k]) for k in range(once + 200)])
    gamma = noise.process.total.signal(eta[None, :once], eta[once:].reshape(1, 200, 1))
    path = gamma[0, :, 0]
    assert np.abs(path).max() <= 14.0
    np.testing.assert_allclose(before, path[:5], atol=2e-9)
    np.testing.assert_allclose(after, path[start : start + 5], atol=2e-9)


def test_a_run_of_blocks_goes_on_by_the_rule_that_it_began_by(tmp_path, monkeypatch):
    """Where blocks of two rules meet, the noise could pass its bound."""
    noise = designed(bound=16.0)
    for path, rule in (("old", "another"), ("new", _rooms_of_blocks.RULE)):
        with monkeypatch.context() as patched:
            patched.setattr(InnovationBlocks, "rule", rule)
            pc.Gateway(noise, path=tmp_path / path, grid=1e-9, floating=True).close()
    with pytest.raises(ValueError, match="other walls; where both meet"):
        pc.Gateway.resume(tmp_path / "old")
    pc.Gateway.resume(tmp_path / "new").close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no fork here")
@pytest.mark.parametrize("options", [{"bound": 14.0, "life": 60}, {"bound": 16.0}])
def test_a_process_killed_in_mid_life_continues_the_same_path(options, tmp_path):
    """Lives of 60 samples, until six kills at random; the file has the path of a life."""
    noise = designed(**options)
    total = 0
    for number in range(60):
        path, notes = tmp_path / f"gateway{number}", tmp_path / f"notes{number}"
        jobs = [(path, notes, None, noise)]
        done, kills = kill_gateways.kill_until_done(jobs, 6 - total)
        assert [code for _, code in done] == [0]
        kill_gateways.check_run(path, notes, noise)
        found, _ = kill_gateways.published(notes)
        shown = np.array([value for _, value in found]) - kill_gateways.READING
        assert np.abs(shown).max() <= options["bound"]
        if "life" in options:
            gamma = path_in_file(path, noise, 60)
            times = [t for t, _ in found]
            np.testing.assert_allclose(shown, gamma[times], atol=1e-9)
        total += kills
        if total == 6:
            break
    assert total == 6


def path_in_file(path, noise, life):
    """The noise (T,) of a life whose bits are in a gateway's file."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        ((state,),) = connection.execute("SELECT text FROM state").fetchall()
        rows = connection.execute("SELECT text FROM entries ORDER BY number").fetchall()
    bits = dict(enumerate(json.loads(state)["state"]["once"]))
    for (text,) in rows[1:]:
        entry = json.loads(text)
        bits |= dict(enumerate(entry["bits"], entry["first"]))
    once = noise.process.total.once
    eta = np.array([standard(bits[k]) for k in range(once + life)])
    fresh = eta[once:].reshape(1, life, 1)
    return noise.process.total.signal(eta[None, :once], fresh)[0, :, 0]


def test_a_gateway_publishes_blocks_within_the_bound(tmp_path):
    noise = designed(bound=16.0)
    gateway = pc.Gateway(
        noise, path=tmp_path / "state", grid=1e-9, block=64, floating=True
    )
    drawn = [gateway.publish(0.0)[0] for _ in range(70)]
    gateway._worker.end()
    gateway._store.close()
    with pc.Gateway.resume(tmp_path / "state") as again:
        drawn += [again.publish(0.0)[0] for _ in range(40)]
    assert np.abs(drawn).max() <= 16.0
    assert len(set(drawn)) == len(drawn)


RUNS = {
    "structured": dict(
        sys=pc.plants.vehicle(),
        adjacency=pc.InitialStateAdjacency(1.0),
        models="exact",
        bound=11.0,
    ),
    "correlated": dict(sys=lag(), adjacency=EVENT, bound={"y": (11.0, 9.0)}),
}


def of_run(kind):
    return pc.design_output_noise(
        **RUNS[kind], horizon=12, budget=BUDGET, max_std=np.inf
    )


@pytest.mark.parametrize("kind", RUNS)
def test_a_gateway_keeps_noise_of_a_run_within_the_bound(kind):
    noise = of_run(kind)
    assert kind in str(noise)
    with pc.Gateway(noise, grid=1e-9, floating=True) as gateway:
        published = [gateway.publish(0.0)[0] for _ in range(12)]
    assert 0 < np.abs(published).max() <= 11.0
    assert len(set(published)) == 12


@pytest.mark.parametrize("part, is_within", [(0.999, True), (1.001, False)])
def test_balls_decide_of_a_run_what_its_samples_say(part, is_within):
    noise = of_run("correlated")
    room = room_of(noise.parts, noise.kept)
    total = noise.process.total
    rng = np.random.default_rng(0)
    for _ in range(20):
        fresh = rng.standard_normal((12, total.width))
        gamma = total.signal(np.empty((1, 0)), fresh[None])[0, :, 0]
        reached = max(np.abs(gamma).max() / 11.0, np.abs(np.diff(gamma)).max() / 9.0)
        fresh *= part / reached
        assert room.share(np.empty(0), fresh) == pytest.approx(part, rel=1e-12)
        assert 0 < room.uncertainty(np.empty(0), fresh) < 1e-9
        balls = ball_matrix(np.empty((0, 1))), ball_matrix(fresh)
        assert room.decided(*balls) is is_within


def test_entries_that_are_drawn_once_stay_in_the_ball_that_reaches_the_bound():
    noise = of_run("structured")
    room = room_of(noise.parts, noise.kept)
    rng = np.random.default_rng(0)
    entries = rng.standard_normal((100_000, 2))
    lengths = np.linalg.norm(entries, axis=1)
    kept = scipy.stats.chi2.cdf(room.radius**2, 2)
    assert noise.acceptance <= kept <= noise.acceptance * (1 + 1e-9)
    at_wall = entries / lengths[:, None] * room.radius
    gamma = noise.process.total.signal(at_wall, np.empty((len(at_wall), 12, 0)))
    assert 0.999 <= np.abs(gamma).max() / 11.0 <= 1
    none = np.empty((0, 0))
    for part, is_within in ((0.999, True), (1.001, False)):
        first = part * at_wall[0]
        assert room.share(first, none) == pytest.approx(part, rel=1e-12)
        assert 0 < room.uncertainty(first, none) < 1e-9
        assert room.decided(ball_matrix(first[:, None]), ball_matrix(none)) is is_within


def test_a_life_ends(tmp_path):
    noise = designed(bound=14.0, life=4)
    with pc.Gateway(noise, grid=0.01) as gateway:
        for _ in range(4):
            gateway.publish(0.0)
        with pytest.raises(pc.PrivacyError, match="horizon of 4"):
            gateway.publish(0.0)


def test_balls_decide_next_to_a_wall():
    noise = designed(bound=14.0, life=20)
    room = room_of(noise.parts, noise.kept)
    from privcontrol.numerics.balls import BallMatrix

    once = noise.process.total.once
    first, fresh = next(room.draws(np.random.default_rng(0).standard_normal))
    exact = room.decided(
        BallMatrix(once, 1, first.tolist()), BallMatrix(20, 1, fresh[:, 0].tolist())
    )
    assert exact is True
    far = BallMatrix(20, 1, [100.0] * 20)
    assert room.decided(BallMatrix(once, 1, first.tolist()), far) is False


# -- refusals -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, words",
    [
        ({"bound": 14.0, "resolution": 0.1, "floor": 1.0, "horizon": 20}, "resolution"),
        ({"bound": 14.0, "models": [lag(0.8)]}, "models"),
        ({"bound": 14.0, "budget": pc.PrivacyBudget(epsilon=1.0)}, "leaks"),
        ({"bound": 14.0, "family": "laplace", "horizon": 20}, "Gaussian"),
        ({"bound": {"z": 1.0}}, "no output"),
        ({"bound": -1.0}, "> 0"),
        ({"bound": [1.0, 2.0]}, "one for each output"),
        ({"bound": {"y": (1.0, 2.0, 3.0)}}, "3 numbers"),
        ({"life": 20}, "pass bound="),
        ({"bound": 14.0, "life": 20, "horizon": 30}, "drawn ahead as one"),
        ({"budget": pc.PrivacyBudget(gdp=0.5, leak=0.01)}, "a leak is for"),
        ({"bound": 0.5}, "no size of this noise"),
    ],
)
def test_what_does_not_go_with_a_bound_is_refused(options, words):
    with pytest.raises((pc.PrivacyError, ValueError), match=words):
        designed(**options)


def test_readings_on_a_grid_are_refused_at_the_gateway():
    noise = designed(bound=14.0, life=20)
    with pytest.raises(pc.PrivacyError, match="bound"):
        pc.Gateway(noise, resolution=0.01)


def test_noise_of_many_states_needs_a_life():
    event = pc.DisturbanceAdjacency({"u": 1.0}, moved=40)
    with pytest.raises(pc.PrivacyError, match="pass life="):
        designed(adjacency=event, bound=30.0, order=None)


def test_with_std_is_refused():
    with pytest.raises(ValueError, match="design it again"):
        designed(bound=14.0, life=20).with_std(3.0)


# -- margins --------------------------------------------------------------------------------


def private_vehicle(**options):
    noise = pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=40,
        budget=BUDGET,
        adjacency=pc.StateAdjacency({"position": 1.0}),
        models="exact",
        **options,
    )
    weights = {"Q": 1, "R": 5, "QN": [1e-4, 1e-2], "RN": 1e-2}
    return pc.private_lqg(pc.plants.vehicle(), **weights, noise=noise, P0=1.0)


def test_sure_margins_hold_where_the_noise_is_at_its_wall():
    """2,000 runs, 5 %: a margin 15 % too small would be seen."""
    loop = private_vehicle(bound=7.0)
    margins = loop.margins([1, 0], probability=0.05, sure=True)
    acting = dict.fromkeys(
        ("initial_state", "disturbance", "measurement_noise"), "design"
    )
    run = loop.simulate(**acting, trials=2000, rng=0)
    plant = loop.plant
    truth, found = run.states[:2], run.states[2:4]
    ahead = np.einsum("ij,jkt->ikt", plant.A, found) + np.einsum(
        "ij,jkt->ikt", plant.B, run.outputs[1:]
    )
    errors = np.abs(truth[0, :, 1:] - ahead[0, :, :-1])
    assert (errors > margins[1:]).any(axis=1).mean() <= 0.05
    assert (margins > loop.margins([1, 0], probability=0.05))[1:].all()


def test_sure_margins_need_a_bound():
    with pytest.raises(ValueError, match="sure: expected structured noise"):
        private_vehicle().margins([1, 0], probability=0.05, sure=True)


def test_codesign_is_refused_beside_a_bound():
    noise = designed(bound=14.0, life=20)
    with pytest.raises(pc.PrivacyError, match="weight=loop"):
        pc.private_lqg(lag(), 1, 1, 0.1, 0.1, noise=noise, codesign=True, P0=1.0)


@pytest.mark.parametrize(
    "share, is_within, asked",
    [(1 - 5e-9, True, 0), (1 + 5e-10, True, 1), (1 + 5e-9, False, 0)],
)
def test_balls_decide_within_a_billionth_of_a_wall(share, is_within, asked):
    """Doubles say that a draw is at this part of a limit, and balls that it is within."""
    exact = ExactNoise(designed(bound=14.0, life=20))
    entries = exact.draw(range(exact.once + 20))
    balls = []

    class Next(Room):
        walls = draws = acceptance = None

        def share(self, first, fresh):
            return share

        def uncertainty(self, first, fresh):
            return 0.0

        def decided(self, first, fresh):
            balls.append(fresh)
            return True

    room = Next(exact.room.total, exact.room.bound, 20)
    assert room.holds(list(entries.values()), exact.once) == is_within
    assert len(balls) == asked


@pytest.mark.parametrize("needed", [5_000, 15_000])
def test_noise_is_drawn_again_up_to_10_000_times(needed):
    exact = ExactNoise(designed(bound=14.0, life=20))
    drawn = []

    class Late(Room):
        walls = draws = acceptance = uncertainty = decided = None

        def share(self, first, fresh):
            drawn.append(fresh)
            return 0.5 if len(drawn) == needed else 2.0

    room = Late(exact.room.total, exact.room.bound, 1)
    if needed < 10_000:
        room._within(np.zeros, 0, 1)
        return
    with pytest.raises(pc.PrivacyError, match="none of 10000 draws is within"):
        room._within(np.zeros, 0, 1)


def cancelling(apart, samples, changes=math.inf):
    """Two lags whose outputs cancel all but a part ``apart`` of each other."""
    size = 1.0 / apart
    system = LinearSystem(
        np.diag([0.9, 0.9 * (1 - apart)]),
        np.full((2, 1), size),
        np.array([[1.0, -1.0]]),
        np.ones((1, 1)),
    )
    part = Filtered(system, None, starts_stationary=False)
    return part, Bound(np.array([10.0]), np.array([changes]), samples)


@pytest.mark.parametrize("apart", few([1e-6, 1e-3, 1e-9], of=1))
@pytest.mark.parametrize("samples", [60, math.inf])
@pytest.mark.parametrize("changes", [math.inf, 4.0])
def test_doubles_know_how_far_they_may_be_from_the_share(apart, samples, changes):
    """Where large states cancel, doubles err by far more than a billionth."""
    from privcontrol.numerics.balls import BallMatrix, working_bits

    part, bound = cancelling(apart, samples, changes)
    room = room_of((part,), bound)
    rng = np.random.default_rng(3)
    largest = 0.0
    for _ in range(3):
        fresh = rng.standard_normal((room.samples, 1))
        none = np.empty(0)
        share = room.share(none, fresh)
        uncertain = room.uncertainty(none, fresh)
        balls = BallMatrix(len(fresh), 1, fresh[:, 0].tolist())
        # true shares of walls at both ends of what doubles leave open
        with working_bits(300):
            for factor, answer in (
                (share + uncertain, True),
                (share - uncertain, False),
            ):
                if factor <= 0:
                    continue
                moved = replace(room, bound=bound.scaled(factor))
                if isinstance(room, InnovationBlocks):
                    radii, ball = room.block.radii * factor, room.block.ball * factor
                    block = replace(room.block, radii=radii, ball=ball)
                    moved = replace(room, block=block)
                assert moved.decided(BallMatrix(0, 1), balls) is answer
        largest = max(largest, uncertain)
    assert largest > 1e-17 / apart
    assert largest < 1e-10 / apart
