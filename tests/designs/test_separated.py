"""Events that keep a distance: their bound by closed forms, and by sums of responses."""

import itertools
import math
from dataclasses import replace

import control as ct
import cvxpy
import numpy as np
import pytest
import scipy.linalg
from mpmath import mpf, sqrt, workdps
from repeats import few

import privcontrol as pc
from privcontrol.designs.robust import covering_ellipsoid
from privcontrol.designs.sums import sums_of_run
from privcontrol.noise import _apart
from privcontrol.noise._apart import bounds_apart, largest_apart
from privcontrol.noise._whitened_response import WhitenedResponse
from privcontrol.noise._windows import largest_of_windows
from privcontrol.noise.whitened import shift_sizes
from privcontrol.numerics.balls import CERTIFICATE_BITS, Ball, ball_matrix, working_bits
from privcontrol.privacy.repetition import ONCE, Spacing
from privcontrol.secrets.secret import Apart, SignalMoves, Windows
from privcontrol.systems.linear import LinearSystem, Plant

BUDGET = pc.PrivacyBudget(gdp=1.0)
#: Samples of the dense route, after which a mode of .9 has faded to 1e-18.
LONG = 400


def lag(pole):
    names = dict(states=["level"], inputs=["w"], outputs=["y"])
    return ct.ss(pole, 1, 1, 0, 1, **names)


def designed(plant, secret, horizon=np.inf, **options):
    return pc.design_output_noise(
        plant,
        horizon=horizon,
        budget=BUDGET,
        adjacency=secret,
        max_std=np.inf,
        **options,
    )


def size(plant, **secret):
    """The noise of a secret without a horizon, beside that of one change."""
    one = designed(plant, pc.DisturbanceAdjacency(1.0))
    return designed(plant, pc.DisturbanceAdjacency(1.0, **secret)).std / one.std


@pytest.mark.parametrize(
    "pole, events, separation, apart, anywhere",
    [
        (0.9, 7, 96, 2.634, 4.747),
        (0.99, 7, 96, 2.876, 5.611),
        (0.9, 20, 4, 5.206, 10.245),
    ],
)
def test_a_distance_saves_what_it_should(pole, events, separation, apart, anywhere):
    plant = lag(pole)
    kept = size(plant, events=events, separation=separation)
    assert kept == pytest.approx(apart, rel=1e-3)
    assert size(plant, events=events) == pytest.approx(anywhere, rel=1e-3)


def test_what_changes_of_a_slow_plant_share_is_known_lag_by_lag_for_long():
    """In closed form: up to 16,384 samples each lag, and no more than twice as late later."""
    pole = 0.9999
    matrices = ([[pole]], [[1.0]], [[1.0]], [[0.0]])
    with working_bits(CERTIFICATE_BITS):
        system = LinearSystem(*map(np.array, matrices)).in_balls()
        gramian = ball_matrix(np.eye(1)) * (1 / (1 - Ball(pole) ** 2))
        energy = 1 / (1 - pole**2)
        response = WhitenedResponse(system, gramian)
        found = bounds_apart(response, [SignalMoves(0, 1.0)], 1, energy)
    for lag in (1, 100, 16_000):
        assert found.at(lag) == pytest.approx(pole**lag * energy, rel=1e-9)
    for lag in (20_000, 100_000):
        assert pole**lag <= found.at(lag) / energy <= pole ** (lag / 2 - 1)


def impulse_of(sys, count):
    """The response (T, p, q) to an impulse at each input."""
    A, B, C = sys.A, sys.B, sys.C
    response = [sys.D]
    for _ in range(count - 1):
        response.append(C @ B)
        B = A @ B
    return np.array(response)


def undone_by(noise, plant):
    """What filtered noise leaves (T, p, q) of impulses at each input, in its own units."""
    (part,) = noise.parts
    inverse = ct.ss(*part.shaping.inverse().matrices, 1)
    if part.response is not None:  # the noise enters with the secret
        return impulse_of(inverse, LONG)
    return impulse_of(
        ct.series(ct.ss(plant.A, plant.B, plant.C, plant.D, 1), inverse), LONG
    )


def white_shift(plant, **secret):
    """The certified shift through white noise of one, without a horizon."""
    hidden = pc.DisturbanceAdjacency(1.0, **secret)
    noise = designed(plant, hidden, family="iid-gaussian")
    return noise.std[0] * noise.guarantee.gdp


@pytest.mark.parametrize(
    "pole, events, separation",
    [
        (0.9, 2, 1),
        (0.9, 5, 0),
        (0.9, 5, 3),
        (-0.9, 4, 5),
        (0.5, 3, 40),
        (0.9999, 4, 1500),
    ],
)
def test_white_noise_on_a_lag_has_the_shift_of_the_closed_form(
    pole, events, separation
):
    """Equal spacing attains it: (sum over m of (k - m) a^(m b)) is what k pulses share."""
    apart = max(separation, 1)  # two changes of one input are a sample apart anyway
    with workdps(40):
        size = abs(mpf(pole))
        pairs = sum((events - m) * size ** (m * apart) for m in range(1, events))
        exact = sqrt((events + 2 * pairs) / (1 - size**2))
        found = white_shift(lag(pole), events=events, separation=separation)
        # of products below 1e-7 only their bound counts
        assert exact <= found <= exact * (1 + 1e-6)


@pytest.mark.parametrize("seed", few(range(6), of=2))
@pytest.mark.parametrize("length", [1, 2])
def test_no_placement_of_changes_of_two_inputs_exceeds_the_claim(seed, length):
    """Three changes, each at an input and a sample of its own, of which two may be at once."""
    rng = np.random.default_rng(seed)
    plant = random_plant(rng, 2, 2)
    found = white_shift(plant, profiles=[np.ones(length)], events=3)
    impulse = impulse_of(plant, LONG)
    responses = {}
    for column, start in itertools.product(range(2), range(4)):
        padded = np.zeros((LONG + 8, 2))
        for lag_of_shape in range(length):
            begin = start + lag_of_shape
            padded[begin : begin + LONG] += impulse[:, :, column]
        responses[column, start] = padded
    worst = 0.0
    for slots in itertools.combinations(responses, 3):
        for signs in itertools.product((1, -1), repeat=2):
            total = responses[slots[0]].copy()
            for slot, sign in zip(slots[1:], signs):
                total += sign * responses[slot]
            worst = max(worst, np.linalg.norm(total))
    assert worst <= found * (1 + 1e-12)
    assert found <= 1.3 * worst


def test_overlapping_changes_share_what_they_share():
    """Pulses of five samples, two of them three samples apart: two samples in common."""
    still = ct.ss(0, 0, 0, 1, 1)
    found = white_shift(still, profiles=[np.ones(5)], events=2, separation=3)
    assert found == pytest.approx(math.sqrt(5 + 5 + 2 * 2), rel=1e-12)


def random_plant(rng, inputs, outputs):
    states = int(rng.integers(1, 4))
    A = rng.normal(size=(states, states))
    A *= rng.uniform(0.3, 0.9) / np.abs(np.linalg.eigvals(A)).max()
    B, C = rng.normal(size=(states, inputs)), rng.normal(size=(outputs, states))
    return ct.ss(A, B, C, rng.normal(size=(outputs, inputs)), 1)


def pulses(undone, shapes):
    """What is left of each shape at each input (T, p, M), from an impulse response."""
    every = []
    for column in range(undone.shape[2]):
        for shape in shapes:
            left = np.zeros(undone.shape[:2])
            for delay, value in enumerate(shape):
                left[delay:] += value * undone[: len(left) - delay, :, column]
            every.append(left)
    return np.stack(every, axis=2)


def summed(left, starts, chosen, signs):
    """The 2-norm of changes ``chosen`` that begin at ``starts``."""
    total = np.zeros((len(left) + max(starts), left.shape[1]))
    for start, which, sign in zip(starts, chosen, signs):
        total[start : start + len(left)] += sign * left[:, :, which]
    return np.linalg.norm(total)


def worst_of_placements(left, events, separation, rng, count):
    """Random placements, changes and signs, and the best signs at equal spacing."""
    worst = 0.0
    kinds = left.shape[2]
    for _ in range(count):
        gaps = separation + rng.geometric(0.4, events - 1) - 1
        starts = np.append(0, np.cumsum(gaps))
        chosen = rng.integers(kinds, size=events)
        signs = rng.choice([-1.0, 1.0], events)
        worst = max(worst, summed(left, starts, chosen, signs))
    for kind in range(kinds):
        for gap in range(separation, separation + 6):
            for sign in (1.0, -1.0):
                starts = gap * np.arange(events)
                signs = sign ** np.arange(events)
                worst = max(worst, summed(left, starts, [kind] * events, signs))
    return worst


@pytest.mark.parametrize("seed", few(range(40), of=8))
def test_no_placement_exceeds_the_claim_and_some_come_close(seed):
    """Over 40 plants 1,000 placements each: one signal or two, white noise or designed."""
    rng = np.random.default_rng(seed)
    plant = random_plant(rng, inputs=1 + seed % 2, outputs=1 + seed // 2 % 2)
    events, separation = int(rng.integers(2, 6)), int(rng.integers(1, 9))
    shapes = [[1.0]] if seed % 3 else [[1.0, 1.0, 1.0], [1.0, -0.5]]
    family = ("gaussian", "iid-gaussian")[seed // 4 % 2]
    secret = pc.DisturbanceAdjacency(
        1.0, profiles=shapes, events=events, separation=separation
    )
    noise = designed(plant, secret, family=family)
    undone = impulse_of(plant, LONG) / noise.std.max()
    if family == "gaussian":
        undone = undone_by(noise, plant)
    left = pulses(undone, shapes)
    worst = worst_of_placements(left, events, separation, rng, 1000)
    assert worst <= noise.guarantee.gdp * (1 + 1e-9)
    assert worst >= 0.8 * noise.guarantee.gdp


@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
@pytest.mark.parametrize("pole, events, separation", [(0.9, 4, 3), (0.8, 6, 2)])
def test_equal_spacing_attains_the_claim_on_a_lag(family, pole, events, separation):
    secret = pc.DisturbanceAdjacency(1.0, events=events, separation=separation)
    noise = designed(lag(pole), secret, family=family)
    undone = impulse_of(lag(pole), LONG) / noise.std.max()
    if family == "gaussian":
        undone = undone_by(noise, lag(pole))
    left = pulses(undone, [[1.0]])
    worst = worst_of_placements(left, events, separation, np.random.default_rng(0), 0)
    assert 0.95 * noise.guarantee.gdp <= worst <= noise.guarantee.gdp * (1 + 1e-9)


def horizon_shifts(noise, plant, secret, rng, count=1000):
    """Shifts of sums of changes over a horizon, from the noise's dense covariance."""
    steps, outputs = noise.horizon, plant.noutputs
    blocks = [[noise.covariance(t, s) for s in range(steps)] for t in range(steps)]
    inverse = np.linalg.pinv(np.block(blocks), rcond=1e-13, hermitian=True)
    left = pulses(impulse_of(plant, steps), secret.shapes)
    fitting = min(secret.events, 1 + (steps - 1) // secret.separation)
    for _ in range(count):
        spare = steps - 1 - (fitting - 1) * secret.separation
        places = np.sort(rng.integers(spare + 1, size=fitting))
        starts = places + secret.separation * np.arange(fitting)
        total = np.zeros((steps, outputs))
        for start in starts:
            which = rng.integers(left.shape[2])
            total[start:] += rng.choice([-1.0, 1.0]) * left[: steps - start, :, which]
        move = total.ravel()
        yield math.sqrt(move @ inverse @ move)


@pytest.mark.parametrize("seed", few(range(12), of=2))
def test_no_placement_exceeds_the_claim_over_a_horizon(seed):
    rng = np.random.default_rng(seed)
    plant = random_plant(rng, inputs=1 + seed % 2, outputs=1)
    options = ({}, {"floor": 0.5}, {"family": "iid-gaussian"})[seed % 3]
    secret = pc.DisturbanceAdjacency(
        1.0,
        duration=1 + seed % 4,
        shape="level",
        events=4,
        separation=int(rng.integers(1, 9)),
    )
    noise = designed(plant, secret, horizon=20, **options)
    worst = max(horizon_shifts(noise, plant, secret, rng))
    assert worst <= noise.guarantee.gdp * (1 + 1e-6)
    assert worst >= 0.4 * noise.guarantee.gdp


def test_white_noise_over_a_horizon_has_the_shift_of_the_worst_placement():
    """Products of a lag fall with the distance, so the bound is attained."""
    plant, steps, events, separation = lag(0.9), 30, 4, 5
    secret = pc.DisturbanceAdjacency(1.0, events=events, separation=separation)
    noise = designed(plant, secret, horizon=steps, family="iid-gaussian")
    moves = [0.9 ** np.arange(steps - 1 - start) for start in range(steps)]
    padded = np.array([np.append(np.zeros(steps - len(move)), move) for move in moves])
    products = padded @ padded.T
    square = 0.0
    for starts in itertools.combinations(range(steps), events):
        if np.diff(starts).min() >= separation:
            square = max(square, products[np.ix_(starts, starts)].sum())
    assert noise.std == pytest.approx(math.sqrt(square), rel=1e-9)


def test_only_as_many_events_count_as_the_horizon_has_room_for():
    one = designed(lag(0.9), pc.DisturbanceAdjacency(1.0), horizon=12)
    alone = pc.DisturbanceAdjacency(1.0, events=9, separation=12)
    assert designed(lag(0.9), alone, horizon=12).std == pytest.approx(one.std, rel=1e-9)
    pair = pc.DisturbanceAdjacency(1.0, events=2, separation=8)
    many = pc.DisturbanceAdjacency(1.0, events=9, separation=8)
    found = [designed(lag(0.9), secret, horizon=12).std for secret in (pair, many)]
    assert found[0] == pytest.approx(found[1], rel=1e-12)


def test_one_event_and_no_distance_are_what_they_were():
    for options in (
        {"duration": 3, "shape": "level"},
        {"events": 3},
        {"profiles": [[1.0, -1.0]]},
    ):
        before = designed(lag(0.9), pc.DisturbanceAdjacency(1.0, **options))
        same = designed(lag(0.9), pc.DisturbanceAdjacency(1.0, **options, separation=0))
        assert (same.std == before.std).all()
    one = designed(lag(0.9), pc.DisturbanceAdjacency(1.0, events=1, separation=9))
    assert (one.std == designed(lag(0.9), pc.DisturbanceAdjacency(1.0)).std).all()
    for horizon in (20, np.inf):
        one = pc.DisturbanceAdjacency(1.0, separation=9)
        plain = pc.DisturbanceAdjacency(1.0)
        found = [designed(lag(0.9), secret, horizon).std for secret in (one, plain)]
        assert (found[0] == found[1]).all()


def test_a_distance_never_costs_anything():
    for separation in (1, 2, 8):
        kept = size(lag(0.9), events=3, separation=separation)
        assert kept <= size(lag(0.9), events=3)


def test_the_distance_is_kept_across_signals():
    """Two signals that enter alike are one: pulses on both, at any two different times."""
    one = lag(0.9)
    both = ct.ss(0.9, [[1.0, 1.0]], 1, np.zeros((1, 2)), 1)
    assert white_shift(both, events=3, separation=4) == pytest.approx(
        white_shift(one, events=3, separation=4), rel=1e-12
    )


def test_many_shapes_count_as_if_nothing_were_known_of_the_distance():
    lasting = pc.DisturbanceAdjacency(
        1.0, duration=250, shape="level", events=3, separation=300
    )
    alone = pc.DisturbanceAdjacency(1.0, duration=250, shape="level")
    white = dict(family="iid-gaussian")
    sizes = [designed(lag(0.5), secret, **white).std for secret in (lasting, alone)]
    assert sizes[0] == pytest.approx(3 * sizes[1], rel=1e-9)


def test_in_a_region_that_varies_events_count_by_their_distance():
    apart = pc.DisturbanceAdjacency(1.0, events=3, separation=8)
    one = pc.DisturbanceAdjacency(1.0)
    lags = pc.PlantPolytope([lag(0.9), lag(0.88)])
    several, alone = (designed(lag(0.9), each, models=lags) for each in (apart, one))
    growth = alone.guarantee.repeated(3, separation=8).gdp / alone.guarantee.gdp
    assert alone.std < several.std < 0.97 * growth * alone.std
    assert growth < 2.1


def test_in_a_region_of_one_plant_events_count_as_if_they_came_at_once():
    apart = pc.DisturbanceAdjacency(1.0, events=3, separation=8)
    one = pc.DisturbanceAdjacency(1.0)
    box = pc.PlantBox(lag(0.9), A=[[0.01]])
    noise = designed(lag(0.9), apart, horizon=20, floor=0.5, models=box)
    shifts = [noise.guarantee_for(box, adjacency=secret).gdp for secret in (apart, one)]
    assert shifts[0] == pytest.approx(3 * shifts[1], rel=1e-6)
    assert shifts[0] <= 1


@pytest.mark.parametrize(
    "separation, through, floor",
    few(
        [
            *((1, 0.0, 0.0), (2, 1.0, 0.7), (4, 0.0, 0.7), (2, 0.0, 0.0)),
            *((4, 1.0, 0.0), (1, 1.0, 0.7), (1, 0.0, 0.7), (1, 1.0, 0.0)),
            *((2, 0.0, 0.7), (2, 1.0, 0.0), (4, 0.0, 0.0), (4, 1.0, 0.7)),
        ],
        of=6,
    ),
)
def test_no_noise_for_events_is_cheaper_than_the_bound(through, separation, floor):
    """By CVXPY: the least trace that hides every sum of changes, all of them listed."""
    plant = ct.ss(0.9, 1, 1, through, 1)
    steps = 5
    secret = pc.DisturbanceAdjacency(1.0, events=2, separation=separation)
    noise = designed(plant, secret, horizon=steps, floor=floor)
    (left,) = pulses(impulse_of(plant, steps), [[1.0]]).transpose(2, 0, 1)[:, :, 0:1]
    changes = [
        np.append(np.zeros(start), left[: steps - start, 0]) for start in range(steps)
    ]
    sums = list(changes)
    for one, other in itertools.combinations(range(steps), 2):
        if other - one >= separation:
            sums += [changes[one] + changes[other], changes[one] - changes[other]]
    covariance = cvxpy.Variable((steps, steps), symmetric=True)
    kept = [covariance >> floor**2 * np.eye(steps)]
    for move in sums:
        corner = np.ones((1, 1))
        bordered = cvxpy.bmat([[covariance, move[:, None]], [move[None], corner]])
        kept.append(bordered >> 0)
    least = cvxpy.Problem(cvxpy.Minimize(cvxpy.trace(covariance)), kept)
    least.solve(solver="CLARABEL")
    assert noise.design.lower_bound <= least.value * (1 + 1e-5)
    assert noise.design.lower_bound >= least.value / 4 * (1 - 1e-5)
    assert noise.design.cost >= least.value * (1 - 1e-5)


def test_several_changes_are_not_a_list_of_moves():
    secret = pc.DisturbanceAdjacency(1.0, events=2, separation=3)
    noise = designed(lag(0.9), secret, horizon=10)
    with pytest.raises(ValueError, match="too many to list"):
        secret.moves(noise.design.mechanism.query.manifold)


def test_the_text_says_how_often_and_how_far_apart():
    secret = pc.DisturbanceAdjacency(
        {"w": 1.0}, events=7, separation=96, duration=4, shape="level"
    )
    assert secret.statement == (
        "7 changes per run, starts >= 96 samples apart: w, a level within 1 each, kept "
        "for 1 to 4 samples"
    )
    noise = designed(lag(0.9), secret)
    assert "changes less than 96 samples apart" in noise.guarantee.scope.caveats


@pytest.mark.parametrize(
    "options, message",
    [
        ({"separation": -1}, "separation"),
        ({"separation": 3, "norm": "l2"}, "bounded energy"),
        ({"window": 5}, 'norm="l2"'),
        ({"window": -5, "norm": "l2"}, "window"),
    ],
)
def test_a_distance_that_means_nothing_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        pc.DisturbanceAdjacency(1.0, **options)


@pytest.mark.parametrize(
    "stops, correlated, white", [(4, 5.85, 7.46), (12, 7.67, 12.9), (24, 8.79, 18.3)]
)
def test_rides_on_a_bus_take_the_noise_of_the_study(stops, correlated, white):
    bus = ct.ss(0, 0, 0, 1, 1)
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-5)
    ride = pc.DisturbanceAdjacency(1.0, duration=stops, shape="level")
    request = {"horizon": np.inf, "budget": budget, "adjacency": ride}
    noise = pc.design_output_noise(bus, **request)
    assert noise.std == pytest.approx(correlated, abs=0.005)
    assert noise.design.gap < 0.01
    alone = pc.design_output_noise(bus, family="iid-gaussian", **request)
    assert alone.std == pytest.approx(white, abs=0.05)
    mu = float(pc.core.kappa_inverse(1.0, 1e-5))
    assert alone.std == pytest.approx(math.sqrt(stops) / mu, rel=1e-9)


@pytest.mark.parametrize("options", few([{}, {"floor": 0.2}], of=1))
def test_a_horizon_costs_hardly_more_than_none(options):
    """The best shape for single changes alone would cost 1.4 times as much, and more."""
    secret = pc.DisturbanceAdjacency(
        1.0, duration=4, shape="level", events=7, separation=12
    )
    endless = designed(lag(0.9), secret)
    noise = designed(lag(0.9), secret, horizon=100, **options)
    assert noise.design.cost <= 1.2 * 100 * endless.std[0] ** 2


def test_a_shaping_of_low_order_is_taken_where_it_costs_less():
    secret = pc.DisturbanceAdjacency(
        1.0, duration=12, shape="level", events=5, separation=20
    )
    one = designed(lag(0.9), secret, order=1)
    for options in ({}, {"order": 8}):
        noise = designed(lag(0.9), secret, **options)
        assert noise.std == pytest.approx(one.std, rel=1e-9)
        assert noise.design.part.shaping.order == 1


@pytest.mark.parametrize("T, floor", [(9, 0.1), (2, 0.006)])
def test_events_beside_a_floor_that_doubles_do_not_carry_are_refused(T, floor):
    """Scales went on to where their squares are no doubles."""
    plant = ct.ss(0.5, 1, [[1e8], [1e-2], [-3e8]], [[1e7], [1.0], [1e2]], 1)
    secret = pc.DisturbanceAdjacency(
        3e8, events=2, separation=1, duration=2, shape="level"
    )
    with pytest.raises(pc.UncertifiableError):
        designed(plant, secret, T, floor=floor)


def test_events_at_a_distance_that_are_moved_far_have_noise_of_their_own():
    """Long moves take autoregressions, whose shift is that of one event and not of three.

    The second route is the dense covariance: a beam goes through the times of three events
    and how far each is moved.
    """
    moved, count, apart = 32, 3, 40
    secret = pc.DisturbanceAdjacency(1.0, moved=moved, events=count, separation=apart)
    noise = designed(lag(0.5), secret, gap=1.0)
    assert noise.guarantee.gdp == pytest.approx(1.0, rel=1e-9)
    samples = 240
    dense = scipy.linalg.toeplitz([noise.covariance(k)[0, 0] for k in range(samples)])
    root = np.linalg.cholesky(dense)
    single = scipy.linalg.toeplitz(0.5 ** np.arange(samples), np.zeros(samples))
    left = scipy.linalg.solve_triangular(root, single, lower=True)

    def moves(start):
        later = left[:, start + 1 : start + moved + 1]
        each = left[:, [start]] - later
        return np.hstack([each, -each])

    known = [(0.0, 20 - apart, np.zeros(samples))]
    for _ in range(count):
        further = []
        for _, before, total in known:
            for wait in (0, 1, 3):
                sums = total[:, None] + moves(before + apart + wait)
                sizes = np.linalg.norm(sums, axis=0)
                for best in np.argsort(sizes)[-4:]:
                    further.append((sizes[best], before + apart + wait, sums[:, best]))
        known = sorted(further, key=lambda each: -each[0])[:40]
    shown = known[0][0]
    assert 0.9 <= shown <= noise.guarantee.gdp * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "secret",
    [
        dict(events=2, separation=12, duration=3, shape="level"),
        dict(events=2, separation=12, duration=3),
        dict(events=2, separation=24, moved=4),
    ],
)
def test_a_larger_gap_that_is_missed_is_no_dearer_than_the_usual_one(secret):
    adjacency = pc.DisturbanceAdjacency(1.0, **secret)
    usual = designed(lag(0.9), adjacency).design
    for gap in (0.05, 0.15, 0.5):
        found = designed(lag(0.9), adjacency, gap=gap).design
        assert found.gap <= gap or found.cost <= usual.cost * (1 + 1e-9)
        assert found.lower_bound <= usual.lower_bound * (1 + 1e-9)


def least_trace(moves):
    """The least trace of a covariance that hides each move, by CVXPY: its inverse is X."""
    horizon = moves.shape[1]
    X = cvxpy.Variable((horizon, horizon), PSD=True)
    squares = (moves[:, :, None] * moves[:, None]).reshape(len(moves), -1)
    demands = [squares @ cvxpy.vec(X, order="C") <= 1]
    trace = cvxpy.matrix_frac(np.eye(horizon), X)
    return cvxpy.Problem(cvxpy.Minimize(trace), demands).solve(solver=cvxpy.CLARABEL)


@pytest.mark.parametrize("shape, duration", [("level", 1), ("level", 2), ("any", 2)])
@pytest.mark.parametrize("events, separation", [(2, 2), (2, 4), (3, 3)])
def test_the_bound_of_several_changes_is_below_the_best_noise_for_all_their_sums(
    shape, duration, events, separation
):
    """CVXPY finds the covariance of least trace that hides each sum, one by one."""
    horizon = 9
    plant = ct.ss(0.8, 1, 1, 1, 1, states=["x"], inputs=["u"], outputs=["y"])
    secret = pc.DisturbanceAdjacency(
        1.0, duration=duration, shape=shape, events=events, separation=separation
    )
    noise = pc.design_output_noise(
        plant,
        horizon=horizon,
        budget=pc.PrivacyBudget(gdp=1.0),
        adjacency=secret,
        models="exact",
        gap=5.0,
    )
    impulse = np.r_[1.0, 0.8 ** np.arange(horizon - 1)]
    response = scipy.linalg.toeplitz(impulse, np.zeros(horizon))
    single = []
    for start in range(horizon):
        lengths = range(1, 1 + min(duration, horizon - start))
        signs = [
            [1.0, *rest]
            for length in lengths
            for rest in itertools.product([1.0, -1.0], repeat=length - 1)
            if shape == "any" or -1.0 not in rest
        ]
        single.append([response[:, start : start + len(w)] @ w for w in signs])
    sums = []
    for count in range(1, events + 1):
        for starts in itertools.combinations(range(horizon), count):
            if np.diff(starts).min(initial=horizon) < separation:
                continue
            for each in itertools.product(*(single[start] for start in starts)):
                for turns in itertools.product([1.0, -1.0], repeat=count - 1):
                    sums.append(each[0] + sum(map(np.multiply, turns, each[1:])))
    least = least_trace(np.array(sums))
    assert 0.6 * least <= noise.design.lower_bound <= least * (1 + 1e-6)
    assert least <= noise.design.cost * (1 + 1e-6)


# -- sums over a run -------------------------------------------------------------------------


def sums_over_run(changes, spacing):
    """All sums (m, S) of at most so many changes at their distance, with either sign."""
    found = []
    for count in range(1, spacing.events + 1):
        for index in itertools.combinations(range(len(changes.starts)), count):
            starts = np.sort(changes.starts[list(index)])
            if (np.diff(starts) >= spacing.separation).all():
                for signs in itertools.product((1, -1), repeat=count - 1):
                    found.append(
                        changes.columns[:, list(index)] @ np.array([1, *signs])
                    )
    return np.transpose(found)


@pytest.mark.parametrize("events, separation", [(2, 3), (3, 2), (3, 4)])
@pytest.mark.parametrize("floor", [{}, {"floor": 0.3}])
def test_a_bound_of_several_changes_is_below_the_noise_for_all_their_sums(
    events, separation, floor
):
    """All sums of a short run are listed, and the cheapest ellipsoid around them."""
    plant = ct.ss([[0.95, 0.3], [0, 0.8]], [[0], [1]], [[1, 0]], 0, 1, inputs=["w"])
    secret = pc.DisturbanceAdjacency(
        1.0, duration=2, shape="level", events=events, separation=separation
    )
    noise = designed(plant, secret, horizon=10, models="exact", **floor)
    responses = secret.responses(Plant.of(plant), 10)
    (changes,) = responses.apart
    moved = changes.columns[responses.moved]
    sums = sums_over_run(replace(changes, columns=moved), changes.spacing)
    unit = np.eye(len(moved))
    balls = [floor["floor"] * unit] if floor else []
    optimum = covering_ellipsoid(sums, balls, unit).lower_bound
    optimum += floor.get("floor", 0.0) ** 2 * (10 - len(moved))
    assert 0.99 * optimum < noise.design.lower_bound <= optimum * (1 + 1e-6)
    assert optimum <= noise.design.cost * (1 + 1e-6)
    assert noise.design.cost <= 1.1 * optimum


def test_sums_over_a_run_keep_their_distance():
    rng = np.random.default_rng(3)
    starts = np.repeat(np.arange(12), 2)
    changes = Apart(rng.normal(size=(15, 24)), starts, Spacing(3, 4))
    signs = sums_of_run(changes.columns, changes)
    assert signs.shape[0] == 24
    assert np.abs(signs).max() == 1
    for column in signs.T:
        chosen = np.sort(starts[column != 0])
        assert 1 <= len(chosen) <= 3
        assert (np.diff(chosen) >= 4).all()
    largest = np.linalg.norm(changes.columns @ signs, axis=0).max()
    each = sums_over_run(changes, changes.spacing)
    assert 0.9 * np.linalg.norm(each, axis=0).max() <= largest


def placements(starts, spacing):
    """Numbers of changes that may come in one run."""
    for count in range(1, spacing.events + 1):
        for chosen in itertools.combinations(range(len(starts)), count):
            apart = np.diff(np.sort(starts[list(chosen)]))
            if (apart >= spacing.separation).all():
                yield chosen


def worst_of_run(columns, apart):
    """The 2-norm of the largest sum of changes (m, M), of which all are listed."""
    sums = sums_over_run(replace(apart, columns=columns), apart.spacing)
    return np.linalg.norm(sums, axis=0).max()


@pytest.mark.parametrize("rank", [1, 2, 14])
@pytest.mark.parametrize("count, separation", [(2, 3), (3, 2), (4, 2)])
def test_no_sum_of_changes_of_a_run_exceeds_its_bound(rank, count, separation):
    """Two changes, parallel ones that become smaller and orthogonal ones attain it."""
    rng = np.random.default_rng(rank + count)
    starts = np.repeat(np.arange(7), 2)
    for _ in range(5):
        columns = rng.standard_normal((rank, 14))
        if rank == 1:
            columns = np.exp(-starts[None] / 3) * rng.choice([-1.0, 1.0], 14)
        elif rank == 14:
            columns = np.diag(rng.uniform(0.1, 1.0, 14))
        order = rng.permutation(14)
        apart = Apart(columns[:, order], starts[order], Spacing(count, separation))
        bound = largest_apart(apart, apart.columns, 0.0)
        largest = worst_of_run(apart.columns, apart)
        assert largest <= bound
        if rank != 2 or count == 2:
            assert bound <= largest * (1 + 1e-12)


@pytest.mark.parametrize("error", [1e-3, 1e-2])
def test_a_bound_of_a_run_holds_for_changes_that_are_known_within_an_error(error):
    """The worst sum of two is moved away from zero, entry by entry."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        apart = Apart(rng.standard_normal((4, 6)), np.arange(6), Spacing(2, 2))
        sums = sums_over_run(apart, apart.spacing)
        worst = sums[:, np.linalg.norm(sums, axis=0).argmax()]
        turned = apart.columns * np.sign(apart.columns.T @ worst)
        further = replace(apart, columns=turned + error * np.sign(worst)[:, None])
        bound = largest_apart(apart, apart.columns, error)
        assert worst_of_run(further.columns, further) <= bound


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("count, separation", [(2, 2), (3, 2), (2, 3)])
def test_no_sum_of_windows_of_a_run_exceeds_its_bound(rank, count, separation):
    """All signs of three samples in a row, at all placements."""
    rng = np.random.default_rng(rank + count)
    starts = np.arange(5)
    index = tuple(np.arange(k, k + 3) for k in starts)
    for _ in range(5):
        columns = rng.standard_normal((rank, 7))
        if rank == 1:
            columns = np.exp(-np.arange(7)[None] / 3)
        windows = Windows(columns, index, starts, Spacing(count, separation))
        bound, _ = largest_of_windows(windows, columns, 0.0)
        alone, _ = largest_of_windows(replace(windows, spacing=ONCE), columns, 0.0)
        largest = 0.0
        for chosen in placements(starts, windows.spacing):
            own = np.concatenate([index[k] for k in chosen])
            signs = np.array([*itertools.product([1.0, -1.0], repeat=len(own))])
            sums = signs @ columns[:, own].T
            largest = max(largest, np.linalg.norm(sums, axis=1).max())
        assert largest <= bound <= count * alone * (1 + 1e-12)
        if rank == 1:
            assert bound <= largest * (1 + 1e-12)


@pytest.mark.parametrize("shape", ["level", "any"])
def test_many_changes_of_a_run_are_bounded_by_their_distance_alone(shape, monkeypatch):
    """It takes less time and knows less."""
    secret = pc.DisturbanceAdjacency(
        1.0, duration=2, shape=shape, events=3, separation=3
    )
    responses = secret.responses(Plant.of(lag(0.9)), 12)
    sharp = shift_sizes(np.eye(12), responses).max()
    monkeypatch.setattr(_apart, "_MOST_STEPS", 0)
    rough = shift_sizes(np.eye(12), responses).max()
    assert sharp < 0.99 * rough
    assert rough < 1.2 * sharp
