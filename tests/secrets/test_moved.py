"""Events of which the time, or the signal, is secret: numbers, transport, ends of runs.

Second routes: the numbers of the theory's other code, covariances of the noise over long
runs in double precision, and redistributions drawn at random.
"""

import json

import cases
import control as ct
import numpy as np
import pytest
import scipy.linalg
import scipy.signal
from design_files import digest_of
from repeats import few

import privcontrol as pc
from privcontrol import verify
from privcontrol.secrets.moving import (
    difference_of,
    difference_without_one,
    still_lasts,
)
from privcontrol.systems.linear import LinearSystem

BUDGET = pc.PrivacyBudget(gdp=0.5)


def lag(pole, through=0.0):
    return ct.ss(pole, 1, 1, through, 1.0, states=["x"], inputs=["u"], outputs=["y"])


def lasting(plant, adjacency, **options):
    return pc.design_output_noise(
        plant, horizon=np.inf, budget=BUDGET, adjacency=adjacency, **options
    )


def covariance(noise, samples):
    lags = [noise.covariance(lag)[0, 0] for lag in range(samples)]
    return scipy.linalg.toeplitz(lags)


def impulse(plant, samples):
    response = [plant.D[0, 0]]
    state = plant.B[:, 0]
    for _ in range(samples - 1):
        response.append(float(plant.C[0] @ state))
        state = plant.A @ state
    return np.array(response)


# -- numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pole, moved, ratio",
    [
        (0.0, 4, 1.370),
        (0.9, 4, 1.051),
        (0.99, 4, 0.732),
        (0.999, 4, 0.548),
        pytest.param(0.0, 24, 1.406, marks=pytest.mark.slow),
        pytest.param(0.9, 24, 1.344, marks=pytest.mark.slow),
        (0.99, 24, 1.076),
        pytest.param(0.999, 24, 0.821, marks=pytest.mark.slow),
    ],
)
def test_when_costs_so_many_times_what_whether_costs(pole, moved, ratio):
    when = lasting(
        lag(pole), pc.DisturbanceAdjacency({"u": 1.0}, moved=moved), gap=0.002
    )
    whether = lasting(lag(pole), pc.DisturbanceAdjacency({"u": 1.0}), gap=0.002)
    np.testing.assert_allclose(when.std / whether.std, ratio, rtol=2e-3)
    assert (when.std < np.sqrt(2) * whether.std).all()


@pytest.mark.parametrize("moved, std", [(4, 3.1358), (24, 4.7098)])
def test_a_store_hides_when_in_runs_of_any_length(moved, std):
    secret = pc.DisturbanceAdjacency({"u": 1.0}, moved=moved)
    noise = lasting(lag(1.0), secret, gap=1e-4)
    np.testing.assert_allclose(noise.std, std, rtol=1e-4)
    assert noise.guarantee.gdp <= 0.5
    with pytest.raises(ValueError, match="never decays"):
        lasting(lag(1.0), pc.DisturbanceAdjacency({"u": 1.0}))


def test_who_costs_less_than_whether():
    pair = ct.ss(
        np.diag([0.9, 0.8]),
        np.eye(2),
        [[1, 1]],
        0,
        1.0,
        states=["x", "z"],
        inputs=["u", "v"],
        outputs=["y"],
    )
    who = lasting(pair, pc.DisturbanceAdjacency(1.0, which=True), gap=1e-3)
    np.testing.assert_allclose(who.std, 0.739, rtol=1e-3)
    whether = lasting(pair, pc.DisturbanceAdjacency(1.0), gap=1e-3)
    np.testing.assert_allclose(whether.std, 2.904, rtol=1e-3)
    both = lasting(pair, pc.DisturbanceAdjacency(1.0, which=True, moved=3))
    gamma = covariance(both, 160)
    first, second = (0.9 ** np.arange(79), 0.8 ** np.arange(79))
    squares = []
    for one, other in ((first, first), (first, second), (second, first)):
        for later in range(4):
            change = np.zeros(160)
            change[80 : 80 + 79] += one
            change[80 + later : 159] -= other[: 79 - later]
            squares.append(change @ np.linalg.solve(gamma, change))
    assert np.sqrt(max(squares)) <= both.guarantee.gdp
    np.testing.assert_allclose(np.sqrt(max(squares)), 0.5, rtol=1e-3)


# -- the reduction is exact --------------------------------------------------------------


def tank(pole=0.7, delays=2, through=0.0):
    """A lag that fills a tank, whose level is read some samples later."""
    n = 2 + delays
    A = np.zeros((n, n))
    A[0, 0] = pole
    A[1, :2] = 0.3, 1.0
    for k in range(delays):
        A[2 + k, 1 + k] = 1.0
    B = np.eye(n, 1)
    C = np.eye(1, n, n - 1)
    names = ["flow", "level", *(f"read[{k}]" for k in range(delays))]
    return ct.ss(A, B, C, through, 1.0, states=names, inputs=["u"], outputs=["y"])


@pytest.mark.parametrize("plant", [tank(), tank(0.95, 0), tank(0.7, 1, 0.4)])
def test_tanks_with_lags_and_delays_agree_with_dense_covariances(plant):
    moved = 5
    noise = lasting(plant, pc.DisturbanceAdjacency({"u": 1.0}, moved=moved))
    gamma = covariance(noise, 240)
    response = impulse(plant, 120)
    squares = []
    for later in range(1, moved + 1):
        change = np.zeros(240)
        change[120:] += response
        change[120 + later :] -= response[:-later]
        squares.append(change @ np.linalg.solve(gamma, change))
    shift = np.sqrt(max(squares))
    assert shift <= noise.guarantee.gdp
    np.testing.assert_allclose(shift, 0.5, rtol=1e-3)


@pytest.mark.parametrize(
    "A, named",
    [
        ([[1, 1], [0, 1]], "1"),
        ([[np.cos(1), np.sin(1)], [-np.sin(1), np.cos(1)]], "0.54"),
        ([[1.2, 0], [0, 0.5]], "1.2"),
        ([[0.9, 0.1], [0.1, 0.9]], "1"),
    ],
    ids=["double integrator", "undamped", "unstable", "rounded tanks"],
)
def test_other_lasting_modes_are_refused_by_name(A, named):
    plant = ct.ss(
        A,
        [[0.3], [1]],
        [[1, 0.2]],
        0,
        1.0,
        states=["x", "v"],
        inputs=["u"],
        outputs=["y"],
    )
    with pytest.raises(
        ValueError, match=f"(moved: .*|the mode that never decays) {named}"
    ):
        lasting(plant, pc.DisturbanceAdjacency({"u": 1.0}, moved=3))


@pytest.mark.parametrize("gain", [1.0, -1.0])
def test_time_and_signal_of_an_event_in_a_tank_are_refused_together(gain):
    """It said that one simple pole at one, such as a tank's, is no obstacle."""
    tank = ct.ss(1, [[1, gain]], 1, 0, 1.0, states=["level"], inputs=["in", "out"])
    times = pc.DisturbanceAdjacency(1.0, moved=3)
    assert lasting(tank, times).guarantee.satisfies(BUDGET)
    both = pc.DisturbanceAdjacency(1.0, moved=3, which=True)
    with pytest.raises(ValueError, match=r"1 \(level\).*the time alone") as caught:
        lasting(tank, both)
    assert "simple pole" not in str(caught.value)


def test_a_tank_with_two_sensors_is_refused_for_its_pole():
    """It said that C (A - I) is rounded, whose entries are a half and a quarter here."""
    A = [[1, 0], [0.25, 0.5]]
    tank = ct.ss(A, [[1], [0]], np.eye(2), 0, 1.0, inputs=["inflow"])
    with pytest.raises(pc.PrivacyError, match="pole at one .* as many outputs as"):
        lasting(tank, pc.DisturbanceAdjacency(1.0, moved=3))


def test_tanks_that_exchange_exactly_are_reduced_by_rationals():
    A = [[0.75, 0.25], [0.25, 0.75]]  # both columns add up to one, in doubles too
    plant = ct.ss(
        A,
        [[1], [0]],
        [[0, 1]],
        0,
        1.0,
        states=["left", "right"],
        inputs=["u"],
        outputs=["y"],
    )
    noise = lasting(plant, pc.DisturbanceAdjacency({"u": 1.0}, moved=3))
    gamma = covariance(noise, 120)
    response = impulse(plant, 60)
    change = np.zeros(120)
    change[60:] += response
    change[63:] -= response[:-3]
    shift = np.sqrt(change @ np.linalg.solve(gamma, change))
    assert shift <= noise.guarantee.gdp
    assert shift >= 0.45


# -- what is covered ---------------------------------------------------------------------


def shapes_of(noise, plant, moved, samples=160):
    """Return a solver of whitened norms, and responses to events at each sample."""
    gamma = covariance(noise, samples)
    root = scipy.linalg.cholesky(gamma, lower=True)
    response = impulse(plant, samples)
    return root, scipy.linalg.toeplitz(response, np.zeros(samples))


@pytest.mark.parametrize("pole", [1.0, 0.9, 0.999])
def test_any_redistribution_of_the_mass_is_covered(pole):
    """1,000 redistributions each; the full size is tests/stress/redistributions.py."""
    moved, plant = 4, lag(pole)
    noise = lasting(plant, pc.DisturbanceAdjacency({"u": 1.0}, moved=moved))
    root, events = shapes_of(noise, plant, moved)
    rng = np.random.default_rng(0)
    changes = np.zeros((160, 1000))
    for trial in range(changes.shape[1]):
        parts = rng.integers(1, 6)
        sizes = rng.dirichlet(np.ones(parts)) * rng.choice([-1, 1], parts)
        for size in sizes:
            start = rng.integers(moved, 160 - moved)
            end = start + rng.integers(-moved, moved + 1)
            changes[start, trial] += size
            changes[end, trial] -= size
    whitened = scipy.linalg.solve_triangular(root, events @ changes, lower=True)
    norms = np.linalg.norm(whitened, axis=0)
    assert norms.max() <= noise.guarantee.gdp * (1 + 1e-12)  # they are doubles
    assert norms.max() >= 0.3  # the test draws events that show


def test_parts_of_both_signs_add_up():
    """+1 and -1 moved apart count two, as the guarantee's words say."""
    moved, plant = 4, lag(1.0)
    noise = lasting(plant, pc.DisturbanceAdjacency({"u": 1.0}, moved=moved))
    root, events = shapes_of(noise, plant, moved)
    change = np.zeros(160)
    change[[80, 84, 90, 94]] = 1.0, -1.0, -1.0, 1.0
    norm = np.linalg.norm(
        scipy.linalg.solve_triangular(root, events @ change, lower=True)
    )
    assert noise.guarantee.gdp < norm <= 2 * noise.guarantee.gdp


@pytest.mark.parametrize("pole", [1.0, 0.9])
def test_events_that_cross_an_end_of_the_run_are_covered(pole):
    moved, plant, samples = 4, lag(pole), 60
    noise = lasting(plant, pc.DisturbanceAdjacency({"u": 1.0}, moved=moved))
    gamma = covariance(noise, samples)
    response = impulse(plant, 200)
    for start in (*range(-6, 1), *range(samples - 6, samples)):
        for later in range(1, moved + 1):
            change = np.zeros(samples + 60)
            change[60 + start :] += response[: samples - start]
            rest = max(samples - start - later, 0)
            change[len(change) - rest :] -= response[:rest]
            shown = change[60:]
            assert shown @ np.linalg.solve(gamma, shown) <= noise.guarantee.gdp**2


@pytest.mark.parametrize("pole", [1.0, 0.5])
def test_over_a_horizon_all_moves_within_the_run_are_covered(pole):
    plant, samples, moved = lag(pole), 14, 3
    adjacency = pc.DisturbanceAdjacency({"u": 2.0}, moved=moved)
    noise = pc.design_output_noise(
        plant, horizon=samples, budget=BUDGET, adjacency=adjacency
    )
    gamma = np.array(
        [[noise.covariance(t, s)[0, 0] for s in range(samples)] for t in range(samples)]
    )
    events = 2 * scipy.linalg.toeplitz(impulse(plant, samples), np.zeros(samples))
    noisy = np.diag(gamma) > 0
    squares = []
    for start in range(samples):
        for later in range(1, moved + 1):
            change = events[:, start].copy()
            if start + later < samples:
                change -= events[:, start + later]
            solved = np.linalg.solve(gamma[np.ix_(noisy, noisy)], change[noisy])
            squares.append(change[noisy] @ solved)
    np.testing.assert_allclose(np.sqrt(max(squares)), noise.guarantee.gdp, rtol=1e-6)


def test_levels_move_as_a_whole():
    plant, moved, longest = lag(1.0), 3, 2
    adjacency = pc.DisturbanceAdjacency(
        {"u": 1.0}, moved=moved, duration=longest, shape="level"
    )
    noise = lasting(plant, adjacency)
    root, events = shapes_of(noise, plant, moved)
    norms = []
    for length in range(1, longest + 1):
        for later in range(1, moved + 1):
            change = np.zeros(160)
            change[80 : 80 + length] += 1
            change[80 + later : 80 + later + length] -= 1
            solved = scipy.linalg.solve_triangular(root, events @ change, lower=True)
            norms.append(np.linalg.norm(solved))
    assert max(norms) <= noise.guarantee.gdp
    np.testing.assert_allclose(max(norms), 0.5, rtol=1e-3)


def test_events_at_a_distance_compose():
    plant, moved, distance = lag(1.0), 3, 12
    adjacency = pc.DisturbanceAdjacency(
        {"u": 1.0}, moved=moved, events=3, separation=distance
    )
    noise = lasting(plant, adjacency)
    root, events = shapes_of(noise, plant, moved)
    rng = np.random.default_rng(1)
    for _ in range(300):
        change = np.zeros(160)
        start = 40
        for _ in range(3):
            later = rng.integers(1, moved + 1)
            size = rng.choice([-1, 1])
            change[start] += size
            change[start + later] -= size
            start += distance + rng.integers(0, 3)
        solved = scipy.linalg.solve_triangular(root, events @ change, lower=True)
        assert np.linalg.norm(solved) <= noise.guarantee.gdp


@pytest.mark.parametrize("horizon", [12, np.inf])
@pytest.mark.parametrize("distance, moved", [(1, 1), (1, 3), (2, 3), (3, 3)])
def test_events_that_may_change_places_are_hidden(distance, moved, horizon, tmp_path):
    """One that grows and one that falls, each at the other's sample in the other run."""
    plant = lag(0.5, 1.0)
    noise = pc.design_output_noise(
        plant,
        horizon=horizon,
        budget=BUDGET,
        adjacency=pc.DisturbanceAdjacency(
            {"u": 1.0}, moved=moved, events=2, separation=distance
        ),
        family="iid-gaussian",
        models="exact",
    )
    seen = impulse(plant, 40)
    shifts = []
    for later in range(distance, moved + 1):
        change = np.zeros(40)
        change[2] = 2.0
        change[2 + later] = -2.0
        response = np.convolve(change, seen)[: int(min(horizon, 40))]
        shifts.append(np.linalg.norm(response) / noise.std[0])
    assert 0.4 < max(shifts) <= noise.guarantee.gdp
    noise.save(tmp_path / "noise.json")
    assert verify.main([str(tmp_path / "noise.json")]) == 0


def test_repeated_events_that_may_change_places_count_as_one():
    once = pc.design_output_noise(
        lag(0.5, 1.0),
        horizon=12,
        budget=BUDGET,
        adjacency=pc.DisturbanceAdjacency({"u": 1.0}, moved=3),
        models="exact",
    ).guarantee
    assert once.repeated(2, separation=3).gdp == pytest.approx(2 * once.gdp)
    assert once.repeated(2, separation=4).gdp < 1.7 * once.gdp
    words = once.repeated(2, separation=4).scope.statement
    assert words.endswith("when u happens: at most 1 each, moved by at most 3 samples")


def test_moved_events_next_to_others_count_as_one_if_they_repeat():
    """Two that change places are hidden as twice one, which brute force attains nearly."""
    plant = lag(0.5, 1.0)
    noise = pc.design_output_noise(
        plant,
        horizon=12,
        budget=BUDGET,
        adjacency=[
            pc.DisturbanceAdjacency({"u": 1.0}, moved=3),
            pc.DisturbanceAdjacency({"x": 0.5}),
        ],
        family="iid-gaussian",
    )
    change = np.zeros(12)
    change[2], change[5] = 2.0, -2.0
    response = np.convolve(change, impulse(plant, 12))[:12]
    shown = np.linalg.norm(response) / noise.std[0]
    assert shown > 1.9 * noise.guarantee.gdp
    assert noise.guarantee.repeated(2, separation=3).gdp >= shown


def test_a_verifier_refuses_two_events_that_change_places_and_claim_less(tmp_path):
    """Noise for events four samples apart, in a file that says one sample."""
    noise = lasting(
        lag(0.5, 1.0),
        pc.DisturbanceAdjacency({"u": 1.0}, moved=3, events=2, separation=4),
    )
    noise.save(tmp_path / "noise.json")
    data = json.loads((tmp_path / "noise.json").read_text())
    data["request"]["adjacency"]["separation"] = 3
    del data["digest"]
    data["digest"] = digest_of(data)
    (tmp_path / "closer.json").write_text(json.dumps(data))
    assert verify.main([str(tmp_path / "noise.json")]) == 0
    assert verify.main([str(tmp_path / "closer.json")]) == 1


# -- words and refusals ------------------------------------------------------------------


def test_the_promise_says_what_is_moved():
    noise = lasting(lag(1.0), pc.DisturbanceAdjacency({"u": 0.1}, moved=3))
    text = str(noise.guarantee)
    assert (
        "Hides:      when u happens: at most 0.1 in all, no part of it moved by more than "
        "3 samples" in text
    )
    assert "; that it happens; " in text.splitlines()[-1]
    assert "with one time finds" in text.splitlines()[1]


def test_an_event_on_signals_of_other_sizes_is_compared_by_its_share():
    """An event of 1 on u is not hidden from one of 1 on v, of which the radius is 2."""
    shares = pc.DisturbanceAdjacency({"u": 1.0, "v": 2.0}, which=True)
    words = "at most its radius in all, the same share of its radius on each signal"
    assert shares.statement.endswith(words)
    alike = pc.DisturbanceAdjacency({"u": 2.0, "v": 2.0}, which=True)
    assert alike.statement == "on which of u or v an event is: at most 2 in all"
    in_turn = pc.DisturbanceAdjacency([1.0, 2.0], which=True, moved=3)
    assert "the same share of its radius on each signal" in in_turn.statement
    plant = ct.ss([[0.5]], [[1.0, 1.0]], [[1.0]], 0, 1.0, inputs=["u", "v"])
    noise = pc.design_output_noise(
        plant, horizon=6, budget=BUDGET, adjacency=shares, floor=1.0
    )
    assert "its size as a share of the radius" in noise.guarantee.explain()


def test_a_signal_that_is_hidden_at_one_time_is_said_to_be():
    adjacency = pc.DisturbanceAdjacency({"u": 0.1, "v": 0.1}, which=True, times=3)
    assert adjacency.statement.endswith("at most 0.1 in all, starting at t = 3")


@pytest.mark.parametrize(
    "options, words",
    [
        ({"moved": 3, "norm": "l2"}, "norm"),
        ({"moved": 3, "profiles": [[1.0, 2.0]]}, "profiles"),
        ({"moved": 3, "times": 0}, "times"),
        ({"moved": -1}, "moved"),
        ({"moved": 3, "which": True, "duration": 2, "shape": "level"}, "duration"),
        ({"moved": 20_000}, "10000"),
    ],
)
def test_what_does_not_go_with_moves_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        pc.DisturbanceAdjacency({"u": 1.0}, **options)


def test_one_signal_has_no_other():
    with pytest.raises(ValueError, match="which: expected at least two"):
        lasting(lag(0.5), pc.DisturbanceAdjacency({"u": 1.0}, which=True))


def test_files_keep_moves(tmp_path):
    for pole in (1.0, 0.9):
        noise = lasting(lag(pole), pc.DisturbanceAdjacency({"u": 1.0}, moved=4))
        noise.save(tmp_path / "noise.json")
        assert pc.load(tmp_path / "noise.json") == noise


# -- long durations ----------------------------------------------------------------------


def left_of_event(noise, plant, samples=4000):
    """Return what one change of the input leaves once the noise is undone, in doubles."""
    shaping = noise.parts[0].shaping
    taps = np.concatenate([[1.0], shaping.coefficients]) / shaping.std
    return scipy.signal.fftconvolve(impulse(plant, samples), taps)[:samples]


@pytest.mark.parametrize(
    "pole, moved", few([(1.0, 40), (0.9, 40), (0.99, 96), (1.0, 96), (0.9, 96)], of=2)
)
def test_long_moves_are_hidden_by_an_autoregression(pole, moved):
    plant = lag(pole)
    noise = lasting(plant, pc.DisturbanceAdjacency({"u": 1.0}, moved=moved))
    assert noise.parts[0].system.order in (2 * moved, 4 * moved)
    assert noise.design.gap < 0.01
    assert_long_moves_are_hidden(noise, plant, moved)


def assert_long_moves_are_hidden(noise, plant, moved):
    one = left_of_event(noise, plant)
    pulses = []
    for later in range(1, moved + 1):
        change = one.copy()
        change[later:] -= one[:-later]
        pulses.append(np.linalg.norm(change))
    assert max(pulses) <= noise.guarantee.gdp * (1 + 1e-12)
    np.testing.assert_allclose(max(pulses), noise.guarantee.gdp, rtol=1e-9)


def test_a_long_level_is_hidden_by_an_autoregression():
    plant = lag(0.6)
    level = pc.DisturbanceAdjacency({"u": 1.0}, duration=40, shape="level")
    noise = lasting(plant, level)
    assert noise.design.gap < 0.01
    one = left_of_event(noise, plant)
    norms, level = [], np.zeros(len(one))
    for later in range(40):
        level[later:] += one[: len(one) - later]
        norms.append(np.linalg.norm(level))
    np.testing.assert_allclose(max(norms), noise.guarantee.gdp, rtol=1e-9)


def test_a_day_of_quarter_hours_costs_what_the_theory_says():
    """Order 2 d; order 4 d costs 5.9515, and 48 states cost 6.081."""
    noise = lasting(lag(1.0), pc.DisturbanceAdjacency({"u": 1.0}, moved=96))
    assert_long_moves_are_hidden(noise, lag(1.0), 96)
    np.testing.assert_allclose(noise.std, 5.9597, rtol=2e-5)
    np.testing.assert_allclose(np.sqrt(noise.design.lower_bound), 5.9512, rtol=2e-5)


def test_an_autoregression_is_saved_in_few_numbers_and_published(tmp_path):
    noise = lasting(lag(1.0), pc.DisturbanceAdjacency({"u": 1.0}, moved=40))
    noise.save(tmp_path / "noise.json")
    assert (tmp_path / "noise.json").stat().st_size < 20_000
    assert pc.load(tmp_path / "noise.json") == noise
    with pc.Gateway(noise, grid=0.001) as gateway:
        published = [gateway.publish(0.0)[0] for _ in range(3)]
    assert len(set(published)) == 3


# -- with what it goes -------------------------------------------------------------------


WHEN = pc.DisturbanceAdjacency({"u": 1.0}, moved=3)


@pytest.mark.parametrize(
    "options",
    [
        {"horizon": 12},
        {"horizon": 12, "floor": 1.0},
        {"horizon": 12, "floor": 1.0, "models": [lag(0.8)]},
        {"horizon": 12, "floor": 1.0, "resolution": 0.01},
        {"horizon": np.inf, "floor": 1.0},
        {"horizon": np.inf, "releases": 2},
        {"horizon": 12, "adjacency": [WHEN, pc.DisturbanceAdjacency({"u": 0.1})]},
    ],
)
def test_events_that_are_moved_go_with(options):
    request = {"budget": BUDGET, "adjacency": WHEN} | options
    assert pc.design_output_noise(lag(0.9), **request).guarantee.gdp <= 0.5 + 1e-9


@pytest.mark.parametrize(
    "options, words",
    [
        ({"models": pc.PlantBox.around(lag(0.9), relative=0.01)}, "one plant"),
        ({"adjacency": [WHEN, pc.DisturbanceAdjacency({"u": 0.1})]}, "designed alone"),
        ({"resolution": 0.01, "floor": 1.0}, "grid"),
        ({"family": "laplace"}, "Laplace"),
    ],
)
def test_without_a_horizon_they_are_refused_beside(options, words):
    request = {"budget": BUDGET, "adjacency": WHEN, "horizon": np.inf} | options
    with pytest.raises((ValueError, pc.PrivacyError), match=words):
        pc.design_output_noise(lag(0.9), **request)


def test_plants_that_vary_hide_when_over_a_horizon_only():
    plants = [lag(0.9), lag(0.8)] * 6
    noise = pc.design_output_noise(plants, horizon=12, budget=BUDGET, adjacency=WHEN)
    assert noise.guarantee.gdp <= 0.5 + 1e-9
    with pytest.raises(ValueError, match="horizon"):
        pc.design_output_noise(
            plants[:2], horizon=np.inf, budget=BUDGET, adjacency=WHEN
        )


def test_a_mode_lasts_within_a_millionth_of_the_circle():
    for pole, lasts in ((1 - 3e-7, True), (1 - 3e-6, False)):
        system = LinearSystem(*map(np.atleast_2d, (pole, 1.0, 1.0, 0.0)))
        assert still_lasts(system, np.array([True])) == lasts


def test_simple_poles_at_one_are_taken_out_of_up_to_64_states():
    """A tank and lags behind it."""
    for lags, is_taken in ((40, True), (64, False)):
        A = np.diag([1.0, *np.full(lags, 0.5)])
        system = LinearSystem(
            A, np.ones((lags + 1, 1)), np.ones((1, lags + 1)), np.zeros((1, 1))
        )
        order = difference_without_one(system).order
        assert (order == difference_of(system).order - 1) == is_taken


def test_a_long_level_of_an_unknown_signal_is_certified_as_verify_finds_it(tmp_path):
    """Differences of columns are rounded, which 24 steps of a plant must not multiply."""
    plant = cases.random_plant(0, states=4, inputs=3, outputs=1, radius=0.95)
    secret = pc.DisturbanceAdjacency(0.1, which=True, duration=24, shape="level")
    noise = pc.design_output_noise(
        plant,
        horizon=np.inf,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=secret,
        max_std=np.inf,
    )
    assert noise.design.gap <= 0.01
    noise.save(tmp_path / "noise.json")
    assert verify.main([str(tmp_path / "noise.json")]) == 0


MOVED = pc.DisturbanceAdjacency({"u": 1.0}, moved=2)
CHANGED = pc.DisturbanceAdjacency({"w": 1.0})


@pytest.mark.parametrize(
    "secrets, what",
    [
        ([MOVED, pc.DisturbanceAdjacency({"w": 1.0}, moved=3)], "time"),
        ([MOVED, pc.DisturbanceAdjacency(1.0, which=True)], "time or signal"),
        ([MOVED, CHANGED], "secret"),
        ([pc.InitialStateAdjacency(1.0), MOVED], "secret"),
    ],
)
def test_runs_without_an_event_of_a_list_are_not_promised_to_be_alike(secrets, what):
    """That the event happens is not hidden, so no sentence is about runs without it."""
    plant = ct.ss(0.9, [[1.0, 0.3]], 1, 0, 1.0, states=["x"], inputs=["u", "w"])
    noise = pc.design_output_noise(
        plant, horizon=12, budget=BUDGET, adjacency=secrets, models="exact"
    )
    text = noise.guarantee.explain()
    assert f"runs with one {what} finds at most" in text
    assert "without the change" not in text
    assert "that it happens" in text
    response = 0.9 ** np.arange(11)  # of the event at the first sample, and of none
    total = np.block([[noise.covariance(t, s) for s in range(12)] for t in range(12)])
    shown = np.linalg.solve(total[1:, 1:], response) @ response
    assert np.sqrt(shown) > 1.05 * noise.guarantee.gdp
    again = pc.PrivacyGuarantee.from_dict(noise.guarantee.to_dict())
    assert again.explain() == text
