"""Several changes of one run, and changes of any shape, beside sums of responses and all patterns."""

import copy
import itertools
import json
import pickle
import runpy
from dataclasses import replace
from pathlib import Path

import control as ct
import numpy as np
import pytest
import scipy.linalg
from repeats import few
from scipy.stats import norm

import privcontrol as pc
from privcontrol.core import PrivacyGuarantee
from privcontrol.noise._changes_of_region import ChangesOfRegion
from privcontrol.noise._changes_of_run import ChangesOfRun
from privcontrol.noise._fading import Fading
from privcontrol.noise._patterns import largest_pattern
from privcontrol.noise.shift import certified_shift
from privcontrol.numerics.saved import decode, encode
from privcontrol.privacy.repetition import Change, Spacing, growth_apart, growth_of_run
from privcontrol.secrets.secret import SignalMoves, WindowMoves
from privcontrol.systems.linear import Plant

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
EXAMPLE = Path(__file__).parents[2] / "examples" / "two_offices.py"
#: Samples in which README's rooms forget a person to 1e-13.
FORGOTTEN = 1500


PEOPLE = {"people east": 1.0, "people west": 1.0}


def lag(pole):
    return ct.ss(pole, 1, 1, 0, 1, states=["level"], inputs=["w"], outputs=["y"])


def designed(plant, secret, horizon=np.inf, **options):
    return pc.design_output_noise(
        plant,
        horizon=horizon,
        budget=BUDGET,
        adjacency=secret,
        max_std=np.inf,
        **({"models": "exact"} | options),
    )


@pytest.fixture(scope="module")
def readme(tmp_path_factory):
    """Noise for one level in README's offices, whose script is the shipped example."""
    folder = tmp_path_factory.mktemp("figure")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        script = runpy.run_path(str(EXAMPLE))
    secret = pc.DisturbanceAdjacency(PEOPLE, duration=12, shape="level")
    return designed(script["offices"], secret, weight=script["public"])


def impulse(system, samples):
    """The response (samples, p, q) of A, B, C, D in doubles."""
    A, B, C, D = system
    found = [D]
    state = B
    for _ in range(samples - 1):
        found.append(C @ state)
        state = A @ state
    return np.array(found)


def whitened(noise, samples, signals):
    """Responses (q, samples, p) of M^-1 G to unit impulses, from the noise's own numbers."""
    (part,) = noise.parts
    A, B, C, D = part.shaping.matrices
    back = np.linalg.inv(D)
    undo = (A - B @ back @ C, B @ back, -back @ C, back)
    plant = noise.plant
    entry = [plant.input_labels.index(name) for name in signals]
    G = impulse((plant.A, plant.B[:, entry], plant.C, plant.D[:, entry]), samples)
    M = impulse(undo, samples)
    size = 2 * samples
    spectrum = np.fft.rfft(M, size, axis=0) @ np.fft.rfft(G, size, axis=0)
    return np.fft.irfft(spectrum, size, axis=0)[:samples].transpose(2, 0, 1)


def levels(responses, longest):
    """Responses to levels of 1 to ``longest`` samples."""
    found = []
    for response in responses:
        kept = np.zeros_like(response)
        for k in range(longest):
            kept[k:] += response[: len(response) - k]
            found.append(kept.copy())
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "count, bound, attained",
    [
        (2, 0.7983, 0.7933),
        (5, 1.3322, 1.3124),
        (20, 2.7437, 2.6885),
        (60, 4.7824, 4.6809),
        (365, 11.826, 11.570),
    ],
)
def test_a_stay_a_day_is_found_the_more_often_the_longer_it_goes_on(
    readme, count, bound, attained
):
    """README's loop: the bound is certified, and equal stays at equal distance come near it."""
    found = readme.guarantee.repeated(count, separation=96)
    assert found.gdp == pytest.approx(bound, rel=1e-4)
    changes = levels(whitened(readme, FORGOTTEN, PEOPLE), 12)
    sizes = []
    for change in changes:
        shared = [
            np.sum(change[m * 96 :] * change[: len(change) - m * 96]) for m in range(15)
        ]
        places = np.arange(1, min(count, 15))
        square = count * shared[0] + 2 * np.dot(count - places, np.take(shared, places))
        sizes.append(np.sqrt(square))
    assert max(sizes) == pytest.approx(attained, rel=1e-4)
    assert max(sizes) <= found.gdp
    assert readme.guarantee.repeated(count).gdp == pytest.approx(
        count * readme.guarantee.gdp, rel=1e-12
    )


def test_the_correlation_of_stays_a_day_apart(readme):
    """s = 1 + 2 sum r(96 m), from the growth of the square at many changes."""
    y = readme.guarantee.gdp
    more = [readme.guarantee.repeated(n, separation=96).gdp ** 2 for n in (1000, 2000)]
    grown = (more[1] - more[0]) / 1000 / y**2
    changes = levels(whitened(readme, FORGOTTEN, PEOPLE), 12)
    largest = np.einsum("ctp,ctp->c", changes, changes).max()
    later = [
        np.abs(np.einsum("ctp,dtp->cd", changes[:, lag:], changes[:, :-lag])).max()
        for lag in range(96, FORGOTTEN, 96)
    ]
    correlation = 1 + 2 * np.sum(later) / largest
    assert 1.35 < correlation <= grown < correlation * (1 + 3e-5)


def test_changes_at_any_distance_and_on_any_signal_stay_below_the_bound(readme):
    """Random stays of both signals, of all lengths and signs, at random distances."""
    rng = np.random.default_rng(0)
    changes = levels(whitened(readme, FORGOTTEN, PEOPLE), 12)
    for apart, count in ((1, 4), (5, 6), (13, 8), (40, 5)):
        bound = readme.guarantee.repeated(count, separation=apart).gdp
        assert bound <= count * readme.guarantee.gdp * (1 + 1e-12)
        largest = 0.0
        for _ in range(60):
            starts = np.cumsum(apart + rng.integers(0, 3, count) * rng.integers(0, 2))
            total = np.zeros((FORGOTTEN + starts[-1], 2))
            alike = rng.random() < 0.5
            for start in starts:
                change = changes[11] if alike else changes[rng.integers(24)]
                sign = 1.0 if alike else rng.choice([-1.0, 1.0])
                total[start : start + FORGOTTEN] += sign * change
            largest = max(largest, np.linalg.norm(total))
        assert largest <= bound * (1 + 1e-12)
        assert largest >= 0.7 * bound


@pytest.mark.parametrize("pole", [0.9, -0.9, 0.5])
@pytest.mark.parametrize("count, apart", [(3, 1), (7, 4), (50, 10)])
def test_a_single_mode_has_the_closed_form(pole, count, apart):
    """Behind white noise a change is pole^t: r(tau) = |pole|^tau, up to what is far apart."""
    plant = lag(pole)
    noise = designed(plant, pc.DisturbanceAdjacency(1.0), order=0)
    pairs = sum((count - m) * abs(pole) ** (m * apart) for m in range(1, count))
    growth = min(np.sqrt(count + 2 * pairs), count)
    found = noise.guarantee.repeated(count, separation=apart).gdp
    assert growth <= found / noise.guarantee.gdp * (1 + 1e-9)
    assert found / noise.guarantee.gdp <= growth * (1 + 1e-6)


def test_of_more_than_4096_changes_the_last_correlation_stands_for_the_others():
    """The closed form of a mode of 0.999, of which 0.017 is left after 4096 samples."""
    count = 5000
    pairs = sum((count - m) * 0.999**m for m in range(1, count))
    growth = np.sqrt(count + 2 * pairs)
    found = growth_apart(Spacing(count, 1), lambda lag: 0.999**lag)
    assert growth * (1 + 1e-4) < found < growth * (1 + 1e-2)


def test_the_text_says_what_repetition_does(readme):
    lines = str(readme.guarantee).splitlines()
    assert max(map(len, lines)) <= 120
    assert lines[1] == (
        "Meaning:    a test wrong in 5 % of the runs without the change finds at most 13.3 "
        "% of those with it (guessing: 5 %)"
    )
    assert lines[2] == (
        "Hides:      one change per run: people east or people west, to one other level "
        "within 1, kept for 1 to 12 samples"
    )
    assert lines[3].startswith(
        "Not hidden: repetition (2, 7, 20 changes 96 apart: found in up to 19.9, 48, 86.5 "
        "%); "
    )
    told = " ".join(readme.guarantee.explain().split())
    assert (
        "a change that varies meanwhile (any shape within 1: found in up to 19.2 %)"
        in told
    )
    assert (
        "of runs with changes 96 samples apart a test finds at most 13.3 % with 1, 19.9 % "
        "with 2, 37.8 % with 5, 86.5 % with 20, 99.92 % with 60, 100 % with 365; "
        in told
    )
    assert "at most 25 % with up to 2, 50 % with up to 7, 90 % with up to 22" in told
    for count, share in ((2, 0.25), (7, 0.5), (22, 0.9)):
        y = [
            readme.guarantee.repeated(n, separation=96).gdp for n in (count, count + 1)
        ]
        found = norm.cdf(norm.ppf(0.05) + np.array(y))
        assert found[0] <= share < found[1]
    for words in ("for ever", "whatever", "at any time"):
        assert words not in told


def test_a_million_changes_are_the_most_that_are_told(monkeypatch):
    secret = pc.DisturbanceAdjacency({"w": 1.0}, duration=2, shape="level")
    noise = designed(lag(0.5), secret)
    monkeypatch.setattr(PrivacyGuarantee, "_found", lambda self, count: 0.0)
    told = " ".join(noise.guarantee.explain().split())
    assert "at most 25 % with up to 1048576, 50 % with up to 1048576" in told


def test_the_numbers_travel_with_the_guarantee(readme, tmp_path):
    g = readme.guarantee
    far = g.repeated(20, separation=96).gdp
    copies = [
        pickle.loads(pickle.dumps(g)),
        copy.deepcopy(g),
        PrivacyGuarantee.from_dict(json.loads(json.dumps(g.to_dict()))),
    ]
    readme.save(tmp_path / "noise.json")
    copies.append(pc.load(tmp_path / "noise.json").guarantee)
    assert all(other == g for other in copies)
    assert str(copies[-1]) == str(g)
    assert copies[-1].repeated(20, separation=96).gdp == far
    assert copies[-1].any_shape().gdp == g.any_shape().gdp
    assert "inverted" not in (tmp_path / "noise.json").read_text()
    assert g.released(3).repeated(20, separation=96).gdp == pytest.approx(
        np.sqrt(3) * far, rel=1e-12
    )


def test_repeated_changes_are_another_secret(readme):
    g = readme.guarantee
    twice = g.repeated(2, separation=96)
    assert twice.scope.statement.startswith(
        "2 changes per run, starts >= 96 samples apart: people east"
    )
    with pytest.raises(ValueError, match="different adjacencies"):
        g + twice
    assert g.repeated(1, separation=5) == g
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="count"):
            g.repeated(wrong)
        with pytest.raises(ValueError, match="separation"):
            g.repeated(2, separation=wrong)
    with pytest.raises(TypeError, match="separation"):
        g.repeated(2, separation=1.5)


def test_other_secrets_are_released_and_not_repeated():
    noise = designed(
        pc.plants.vehicle(), pc.StateAdjacency({"position": 1.0}), horizon=10
    )
    with pytest.raises(ValueError, match=r"released\(n\)"):
        noise.guarantee.repeated(2)
    with pytest.raises(ValueError, match="levels that are kept"):
        noise.guarantee.any_shape()
    assert noise.guarantee.released(4).gdp == pytest.approx(
        2 * noise.guarantee.gdp, rel=1e-12
    )


def test_a_design_for_several_changes_goes_on_from_them():
    secret = pc.DisturbanceAdjacency(
        {"w": 1.0}, events=5, separation=24, duration=3, shape="level"
    )
    noise = designed(lag(0.9), secret)
    g = noise.guarantee
    assert g.repeated(5, separation=24).gdp == g.gdp
    assert g.repeated(3, separation=30).gdp == g.gdp
    ten = g.repeated(10, separation=24).gdp
    assert g.gdp * np.sqrt(2) <= ten <= g.gdp * np.sqrt(2) * 1.05
    assert g.repeated(5).gdp == pytest.approx(5 * g.gdp, rel=1e-12)
    text = str(g).splitlines()[3]
    assert "repetition (10, 35, 100 changes 24 apart" in text
    one = designed(
        lag(0.9), pc.DisturbanceAdjacency({"w": 1.0}, duration=3, shape="level")
    )
    # a design for several changes is never dearer than one change's, scaled to them
    growth = one.guarantee.repeated(5, separation=24).gdp / one.guarantee.gdp
    assert noise.std <= one.std * growth * 1.011


def test_a_person_in_several_windows():
    secret = pc.DisturbanceAdjacency.person(2.0, 8.0, inputs=["w"], window=24)
    g = designed(lag(0.9), secret).guarantee
    assert g.repeated(9, separation=24).gdp == pytest.approx(3 * g.gdp, rel=1e-12)
    assert g.repeated(9, separation=23).gdp == pytest.approx(9 * g.gdp, rel=1e-12)
    assert "one window of 24 samples per run" in str(g)
    assert "repetition (2, 7, 20 changes 24 apart" in str(g)
    assert "2 windows of 24 samples per run" in g.repeated(2).scope.statement


def test_where_no_correlation_is_known_changes_add_up():
    secret = pc.DisturbanceAdjacency({"w": 1.0})
    box = pc.PlantBox(lag(0.9), A=[[0.01]])
    region = designed(lag(0.9), secret, horizon=12, models=box, floor=1.0).guarantee
    known = PrivacyGuarantee.black_box(BUDGET, secret)
    for g in (region, known):
        assert g.repeated(3, separation=50).loss == g.repeated(3).loss
        assert "a change that repeats (n of them may show n times as clearly)" in str(g)
        assert "a change that repeats" in g.explain().partition("Repetition:")[2]
    assert region.repeated(3).gdp == pytest.approx(3 * region.gdp, rel=1e-12)
    # a path of three moves, each hidden by the pair
    assert known.repeated(3).epsilon(0.5) <= 3.0


# -- where a plant varies ------------------------------------------------------------

SWITCHING = (0.88, 0.92)


def varying_impulses(poles, samples):
    """Responses (T, T) of a lag whose pole changes, to an impulse at each sample."""
    found = np.zeros((samples, samples))
    for start in range(samples):
        state = 1.0
        for t in range(start + 1, samples):
            found[t, start] = state
            state *= poles[t]
    return found


def dense_root(noise, samples):
    covariance = scipy.linalg.toeplitz(
        [noise.covariance(lag)[0, 0] for lag in range(samples)]
    )
    return scipy.linalg.cholesky(covariance, lower=True)


@pytest.mark.parametrize(
    "options, white",
    few(
        [
            *(({}, {"floor": 1.0}), ({"duration": 3}, {"floor": 1.0})),
            ({"duration": 3, "shape": "level"}, {}),
            ({"duration": 3, "shape": "level"}, {"floor": 1.0}),
            *(({}, {}), ({"duration": 3}, {})),
        ],
        of=3,
    ),
)
def test_changes_of_a_plant_that_varies_stay_below_the_bound(options, white, tmp_path):
    """Chains of changes of all patterns under sequences of both vertices, densely."""
    samples, apart = 70, 8
    secret = pc.DisturbanceAdjacency({"w": 1.0}, **options)
    region = pc.PlantPolytope(list(map(lag, SWITCHING)))
    noise = designed(lag(0.9), secret, models=region, **white)
    g = noise.guarantee
    bounds = [g.repeated(n, separation=apart).gdp for n in (1, 2, 4)]
    is_level = options.get("shape") == "level"  # it leaves a slow mode of the noise
    assert bounds[2] <= (4 if is_level else 2.7) * g.gdp
    root = dense_root(noise, samples)
    length = options.get("duration", 1)
    shapes = [np.ones(k) for k in range(1, length + 1)]
    if not is_level:
        shapes = [
            np.array([1.0, *signs])
            for signs in itertools.product((-1.0, 1.0), repeat=length - 1)
        ]
    rng = np.random.default_rng(0)
    sequences = [np.full(samples, pole) for pole in SWITCHING]
    sequences += [np.array(SWITCHING)[np.arange(samples) // k % 2] for k in (1, 5)]
    sequences += [rng.choice(SWITCHING, samples) for _ in range(6)]
    largest = np.zeros(3)
    for poles in sequences:
        left = scipy.linalg.solve_triangular(
            root, varying_impulses(poles, samples), lower=True
        )
        for shape in shapes:
            changes = [
                left[:, start : start + len(shape)] @ shape
                for start in range(5, 5 + 4 * apart, apart)
            ]
            for k, count in enumerate((1, 2, 4)):
                for signs in itertools.product((-1.0, 1.0), repeat=count - 1):
                    total = np.transpose(changes[:count]) @ np.array([1.0, *signs])
                    largest[k] = max(largest[k], np.linalg.norm(total))
    assert (largest <= np.array(bounds) * (1 + 1e-9)).all()
    assert (largest >= (0.6 if is_level else 0.9) * np.array(bounds)).all()
    if is_level:
        assert g.any_shape().gdp <= 3 * g.gdp
    noise.save(tmp_path / "noise.json")
    again = pc.load(tmp_path / "noise.json").guarantee
    assert again == g
    assert again.repeated(4, separation=apart).gdp == bounds[2]


@pytest.mark.parametrize("poles", few([[0.9], list(SWITCHING)], of=1))
def test_levels_that_repeat_bound_changes_of_any_shape_that_do(poles):
    """Chains of three changes of all signs, densely, under sequences of both vertices."""
    samples, apart, count, length = 60, 10, 3, 3
    options = {"duration": length, "shape": "level"}
    secret = pc.DisturbanceAdjacency(
        {"w": 1.0}, events=count, separation=apart, **options
    )
    models = {}
    if len(poles) > 1:
        models = {"models": pc.PlantPolytope(list(map(lag, poles))), "floor": 1.0}
    noise = designed(lag(0.9), secret, **models)
    claimed = noise.guarantee.any_shape().gdp
    once = designed(
        lag(0.9), pc.DisturbanceAdjacency({"w": 1.0}, **options), **models
    ).guarantee
    one = once.any_shape().gdp / once.gdp
    times = claimed / noise.guarantee.gdp / one  # three, if nothing were known of them
    assert times <= (1.2 if models else 1.6)
    root = dense_root(noise, samples)
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(6):
        left = scipy.linalg.solve_triangular(
            root, varying_impulses(rng.choice(poles, samples), samples), lower=True
        )
        patterns = list(itertools.product((-1.0, 1.0), repeat=length))
        each = [
            left[:, start : start + length] @ np.transpose(patterns)
            for start in range(5, 5 + count * apart, apart)
        ]
        for chosen in itertools.product(range(len(patterns)), repeat=count):
            changes = zip(each, chosen, strict=True)
            total = sum(change[:, k] for change, k in changes)
            largest = max(largest, np.linalg.norm(total))
    assert largest <= claimed * (1 + 1e-9)
    assert largest >= (0.3 if models else 0.6) * claimed


@pytest.mark.parametrize("horizon", [np.inf, 40])
@pytest.mark.parametrize("options", [{}, {"floor": 0.5}, {"family": "iid-gaussian"}])
def test_several_changes_claim_no_less_than_their_growth_of_one(horizon, options):
    """So all of them at once show at most `Change.times_one` of what is claimed."""
    one = pc.DisturbanceAdjacency({"w": 1.0}, duration=3, shape="level")
    four = replace(one, events=4, separation=6)
    noise = designed(lag(0.9), four, horizon, **options)
    promise = noise.guarantee
    alone = certified_shift(noise.parts, one, [Plant.of(lag(0.9))], horizon).value
    growth = promise.correlations.promised(Spacing(4, 6))
    assert promise.gdp >= growth * alone * (1 - 4e-9)  # as much as sums are rounded by
    times = promise.scope.change.times_one(promise.correlations)
    assert 4 * alone <= times * promise.gdp
    assert times < 3


@pytest.mark.parametrize("horizon", few([np.inf, 40], of=1))
def test_a_risk_of_many_changes_is_kept_where_a_plant_varies(horizon):
    asked = {"false_alarm": 0.05, "detection": 0.2}
    budget = pc.PrivacyBudget.from_risk(**asked, events=4, separation=10)
    alone = pc.PrivacyBudget.from_risk(**asked)
    secret = pc.DisturbanceAdjacency({"w": 1.0})
    options = {
        "horizon": horizon,
        "adjacency": secret,
        "models": pc.PlantPolytope(list(map(lag, SWITCHING))),
        "floor": 1.0,
    }
    noise, one = (
        pc.design_output_noise(lag(0.9), budget=each, **options)
        for each in (budget, alone)
    )
    together = noise.guarantee.repeated(4, separation=10)
    assert 0.195 <= together.detection(0.05) <= 0.2
    assert together.gdp < 2.7 * noise.guarantee.gdp  # and not four times
    root = (dense_root_of_run if horizon < np.inf else dense_root)(noise, 40)
    shown = largest_chain(root, 40, 10, 4)
    assert 0.85 * together.gdp <= shown <= together.gdp
    assert (noise.std > one.std).all()


def test_several_levels_of_a_plant_that_varies_take_no_more_noise_than_any_shape():
    """Chains of levels of both signs and all lengths under sequences, densely."""
    samples, apart, count = 60, 10, 3
    region = pc.PlantPolytope(list(map(lag, SWITCHING)))
    often = {"duration": 3, "events": count, "separation": apart}
    levels, anything = (
        designed(
            lag(0.9),
            pc.DisturbanceAdjacency({"w": 1.0}, shape=shape, **often),
            models=region,
        )
        for shape in ("level", "any")
    )
    assert levels.std[0] <= anything.std[0]
    root = dense_root(levels, samples)
    kinds = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]]).T
    kinds = np.hstack([kinds, -kinds])
    rng = np.random.default_rng(0)
    shown = 0.0
    sequences = [np.full(samples, pole) for pole in SWITCHING]
    sequences += [rng.choice(SWITCHING, samples) for _ in range(6)]
    for poles in sequences:
        left = scipy.linalg.solve_triangular(
            root, varying_impulses(poles, samples), lower=True
        )
        each = [left[:, 5 + k * apart :][:, :3] @ kinds for k in range(count)]
        for chosen in itertools.product(range(kinds.shape[1]), repeat=count):
            total = sum(each[k][:, kind] for k, kind in enumerate(chosen))
            shown = max(shown, float(np.linalg.norm(total)))
    assert 0.75 * levels.guarantee.gdp <= shown <= levels.guarantee.gdp


def largest_chain(root, samples, apart, count):
    """The largest norm of so many impulses behind a root, under sequences of vertices."""
    rng = np.random.default_rng(0)
    sequences = [np.full(samples, pole) for pole in SWITCHING]
    sequences += [np.array(SWITCHING)[np.arange(samples) // k % 2] for k in (1, 5)]
    sequences += [rng.choice(SWITCHING, samples) for _ in range(6)]
    found = 0.0
    for poles in sequences:
        left = scipy.linalg.solve_triangular(
            root, varying_impulses(poles, samples), lower=True
        )
        for first in range(samples - (count - 1) * apart):
            changes = left[:, first : first + count * apart : apart]
            for signs in itertools.product((-1.0, 1.0), repeat=count - 1):
                total = changes @ np.array([1.0, *signs])
                found = max(found, np.linalg.norm(total))
    return found


def dense_root_of_run(noise, samples):
    every = range(samples)
    covariance = [[noise.covariance(t, s)[0, 0] for s in every] for t in every]
    noisy = np.diag(covariance) > 0
    return scipy.linalg.cholesky(np.array(covariance)[np.ix_(noisy, noisy)], lower=True)


@pytest.mark.parametrize(
    "options", few([{"floor": 1.0}, {"family": "iid-gaussian"}, {}], of=2)
)
def test_changes_of_a_run_of_a_plant_that_varies(options, tmp_path):
    """Chains of changes in 30 samples, of which four that are 8 apart find room."""
    horizon, apart = 30, 8
    secret = pc.DisturbanceAdjacency({"w": 1.0})
    region = pc.PlantPolytope(list(map(lag, SWITCHING)))
    noise = designed(lag(0.9), secret, horizon, models=region, **options)
    g = noise.guarantee
    bounds = [g.repeated(n, separation=apart).gdp for n in (1, 2, 4)]
    root = dense_root_of_run(noise, horizon)
    shown = [largest_chain(root, horizon, apart, n) for n in (1, 2, 4)]
    assert (np.array(shown) <= np.array(bounds) * (1 + 1e-9)).all()
    assert (np.array(shown) >= 0.85 * np.array(bounds)).all()
    assert g.repeated(40, separation=apart).gdp == bounds[-1]
    assert g.repeated(4).gdp == pytest.approx(4 * g.gdp, rel=1e-12)
    noise.save(tmp_path / "noise.json")
    again = pc.load(tmp_path / "noise.json").guarantee
    assert again.repeated(4, separation=apart).gdp == bounds[-1]


@pytest.mark.slow
@pytest.mark.parametrize("horizon, options", [(np.inf, {}), (34, {"floor": 1.0})])
def test_several_changes_of_a_region_are_designed_for_by_what_they_share(
    horizon, options
):
    """Chains of three changes, which cost less than three times the noise for one."""
    samples, apart = 34, 10
    region = pc.PlantPolytope(list(map(lag, SWITCHING)))
    once = pc.DisturbanceAdjacency({"w": 1.0})
    alone = designed(lag(0.9), once, horizon, models=region, **options)
    growth = alone.guarantee.repeated(3, separation=apart).gdp / alone.guarantee.gdp
    secret = pc.DisturbanceAdjacency({"w": 1.0}, events=3, separation=apart)
    noise = designed(lag(0.9), secret, horizon, models=region, **options)
    assert noise.std[0] <= alone.std[0] * growth * (1 + 1e-6) < 2.1 * alone.std[0]
    root = (dense_root_of_run if horizon < np.inf else dense_root)(noise, samples)
    shown = largest_chain(root, samples, apart, 3)
    gdp = noise.guarantee.gdp
    assert 0.85 * gdp <= shown <= gdp * (1 + 1e-9)
    # four of them are no more than two such groups, and share something
    several = noise.guarantee.repeated(4, separation=apart).gdp
    assert gdp * 1.1 <= several <= gdp * 1.25


def test_changes_of_a_region_that_come_closer_than_promised_show_more():
    """Two of a promise for 6 samples apart, one sample apart, under the nominal plant."""
    samples, pole = 20, 0.5
    noise = designed(
        lag(pole),
        pc.DisturbanceAdjacency({"w": 1.0}, events=2, separation=6),
        models=pc.PlantBox.around(lag(pole), relative=0.02),
        floor=1.0,
    )
    g = noise.guarantee
    root = dense_root(noise, samples)
    impulses = varying_impulses(np.full(samples, pole), samples)
    left = scipy.linalg.solve_triangular(root, impulses, lower=True)
    near = np.linalg.norm(left[:, 1] + left[:, 2])
    row = np.linalg.norm(left[:, 1:4].sum(axis=1))
    assert near > 1.05 * g.gdp
    assert near <= g.repeated(2, separation=1).gdp < 1.5 * near
    assert row <= g.repeated(3, separation=1).gdp < 1.5 * row
    assert g.repeated(2, separation=6).gdp == g.gdp


def test_a_promise_of_several_counts_as_what_it_claims():
    """Two whose products may be 1 are promised to show 1.5 times as much as one."""
    change = Change("w by at most 1", events=2, separation=3)
    run = (np.ones(8), 1.0, np.ones(1))
    assert change.growth(2, 1, ChangesOfRun(*run)) == pytest.approx(1.0)
    known = ChangesOfRun(*run, several=1.5)
    assert change.growth(2, 1, known) == pytest.approx(2 / 1.5)
    assert change.growth(2, 3, known) == 1.0
    assert ChangesOfRun(*run, several=2.5).promised(Spacing(2, 3)) == pytest.approx(2.0)
    fading = Fading(2.0, 2.0, np.array([1.0, 0.5, 0.25]), 0.1, np.ones(1))
    region = ChangesOfRegion((fading,), several=2.2)
    assert region.promised(Spacing(2, 3)) == pytest.approx(1.1)
    assert change.growth(2, 1, region) == pytest.approx(
        region.growth(Spacing(2, 1)) / 1.1
    )


def test_promises_below_what_fades_count_from_what_they_claim():
    """A promise may follow from a closer bound than that of one change that fades."""
    known = Fading(2.0, 2.0, np.array([1.0, 0.5, 0.25]), 0.1, np.ones(1))
    chain = known.of_several(Spacing(3, 3))
    assert chain == pytest.approx(np.sqrt(3 * 4 + 2 * (2 * 2 * 0.25 + 2 * 0.025)))
    claimed = ChangesOfRegion((known,), 1.6)
    assert claimed.growth(Spacing(3, 3)) == pytest.approx(chain / 1.6)
    assert claimed.growth(Spacing(1, 3)) == 1.0
    assert claimed.any_shape()[0] == 1.0
    assert ChangesOfRegion((known,), 0.1).growth(Spacing(3, 3)) == 3.0
    assert ChangesOfRegion((known,), 9.0).growth(Spacing(3, 3)) == pytest.approx(
        chain / 2
    )
    assert ChangesOfRegion((known,)).growth(Spacing(3, 3)) == pytest.approx(chain / 2)
    assert ChangesOfRegion((known,), 1.6, 4).growth(Spacing(3, 3)) == pytest.approx(
        known.of_several(Spacing(2, 3)) / 1.6
    )


@pytest.mark.parametrize(
    "horizon, longest, is_known",
    [(600, 1, True), (601, 1, False), (100, 80, True), (100, 81, False)],
)
def test_changes_of_a_run_are_compared_as_long_as_that_takes_seconds(
    horizon, longest, is_known
):
    """Runs of up to 600 numbers, and up to 8,000 changes."""
    shape = {"duration": longest, "shape": "level"} if longest > 1 else {}
    secret = pc.DisturbanceAdjacency({"w": 1.0}, **shape)
    noise = designed(lag(0.5), secret, horizon, family="iid-gaussian")
    assert (noise.guarantee.correlations is not None) == is_known


def test_what_is_left_of_a_change_falls_by_the_proven_factor():
    """A lag behind white noise: s(t) = pole^(t-1), so its energy from m samples on is known."""
    region = pc.PlantPolytope(list(map(lag, SWITCHING)))
    secret = pc.DisturbanceAdjacency({"w": 1.0})
    noise = designed(lag(0.9), secret, models=region, family="iid-gaussian")
    (fading,) = noise.guarantee.correlations.settled().noises
    slow = max(SWITCHING)
    for lag_of_two in (1, 2, 30, 64, 65, 100, 400):
        known = slow ** (lag_of_two - 1) * fading.shift
        assert known * (1 - 1e-6) <= fading.after(lag_of_two) <= known * (1 + 1e-4)
    assert fading.factor == pytest.approx(slow**64, rel=1e-4)


def test_a_region_that_is_one_plant_to_the_secret_counts_as_that():
    plants = [ct.ss(np.diag([0.9, pole]), [[1.0], [0.0]], [[1.0, 0.0]], 0, 1,
                    states=["a", "b"], inputs=["w"], outputs=["y"])
              for pole in (0.5, 0.6)]  # fmt: skip
    secret = pc.DisturbanceAdjacency({"w": 1.0})
    region = designed(plants[0], secret, models=pc.PlantPolytope(plants))
    alone = designed(lag(0.9), secret)
    for g in (region.guarantee, alone.guarantee):
        assert g.repeated(7, separation=96).gdp <= 2.65


# -- long autoregressions ------------------------------------------------------------


def left_by(noise, pole, samples, differenced):
    """Whitened responses (T, T) to impulses, from the covariances of the noise's response."""
    response = noise.parts[0].system.impulse_response(6000)[:, 0, 0]
    power = np.abs(np.fft.rfft(response, 2 * len(response))) ** 2
    covariance = np.fft.irfft(power)[:samples]
    root = scipy.linalg.cholesky(scipy.linalg.toeplitz(covariance), lower=True)
    impulse = np.r_[0.0, pole ** np.arange(samples - 1)]
    if differenced:
        impulse = np.diff(impulse, prepend=0.0)
    moved = scipy.linalg.toeplitz(impulse, np.zeros(samples))
    return scipy.linalg.solve_triangular(root, moved, lower=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, tight", [("level", 0.95), ("moved", 0.95), ("any", 0.85)]
)
def test_changes_at_a_distance_behind_a_long_autoregression(kind, tight, tmp_path):
    """Three changes of up to 33 samples, by search over signs, lengths and waits."""
    longest, apart, samples, pole = 33, 40, 260, 0.95
    kinds = {
        "level": {"duration": longest, "shape": "level"},
        "moved": {"moved": longest},
        "any": {"duration": longest},
    }
    secret = pc.DisturbanceAdjacency({"w": 1.0}, **kinds[kind])
    gap = 0.01 if kind == "any" else 0.05  # at which it is the first one tried
    noise = designed(lag(pole), secret, gap=gap)
    assert type(noise.parts[0].shaping).__name__ == "Autoregression"
    g = noise.guarantee
    claims = [g.repeated(n, separation=apart).gdp for n in (1, 2, 3)]
    assert claims[0] == g.gdp
    assert claims[2] < 2.5 * claims[0]
    left = left_by(noise, pole, samples, kind == "moved")
    gram = left.T @ left
    largest = [0.0, 0.0, 0.0]
    for waits in itertools.product((0, 1, 7), repeat=2):
        starts = 60 + np.r_[0, np.cumsum(apart + np.array(waits))]
        if kind == "any":
            for n in (1, 2, 3):
                own = (starts[:n, None] + np.arange(longest)).ravel()
                block = gram[np.ix_(own, own)]
                _, signs = largest_pattern(block)
                largest[n - 1] = max(largest[n - 1], np.sqrt(signs @ block @ signs))
            continue
        lengths = (1, 2, longest // 2, longest - 1, longest)
        for chosen in itertools.product(lengths, repeat=3):
            each = [
                left[:, start : start + length].sum(axis=1)
                for start, length in zip(starts, chosen, strict=True)
            ]
            for signs in itertools.product((1.0, -1.0), repeat=2):
                for n in (1, 2, 3):
                    total = np.transpose(each[:n]) @ np.r_[1.0, signs][:n]
                    largest[n - 1] = max(largest[n - 1], np.linalg.norm(total))
    assert (np.array(largest) <= np.array(claims) * (1 + 1e-9)).all()
    assert (np.array(largest) >= tight * np.array(claims)).all()
    far = g.repeated(4, separation=5000).gdp
    assert far == pytest.approx(2 * g.gdp, rel=1e-6)
    noise.save(tmp_path / "noise.json")
    again = pc.load(tmp_path / "noise.json").guarantee
    assert again.repeated(3, separation=apart).gdp == claims[2]


# -- any shape -----------------------------------------------------------------------


def test_a_change_of_any_shape_shows_as_its_worst_pattern_of_signs(readme):
    """All 2^12 patterns of both signals, from sums of responses."""
    found = readme.guarantee.any_shape()
    largest = 0.0
    for response in whitened(readme, FORGOTTEN, PEOPLE):
        shifted = np.zeros((12, *response.shape))
        for k in range(12):
            shifted[k, k:] = response[: FORGOTTEN - k]
        flat = shifted.reshape(12, -1)
        gram = flat @ flat.T
        for signs in itertools.product((-1.0, 1.0), repeat=11):
            w = np.array([1.0, *signs])
            largest = max(largest, w @ gram @ w)
        if np.isclose(found.worst @ gram @ found.worst, largest, rtol=1e-9):
            reached = True
    assert reached
    assert found.gdp == pytest.approx(np.sqrt(largest), rel=1e-9)
    assert found.gdp >= np.sqrt(largest) * (1 - 1e-12)
    assert 100 * found.detection() == pytest.approx(19.2, abs=0.05)
    assert found.scope.statement == (
        "one change per run: people east or people west, of any shape within 1, over at "
        "most 12 samples in a row"
    )
    assert found.worst.shape == (12,)
    back = PrivacyGuarantee.from_dict(found.to_dict())
    assert back == found
    assert np.array_equal(back.worst, found.worst)


@pytest.mark.parametrize("size", [1, 2, 5, 10])
def test_the_largest_pattern_is_found_among_all(size):
    rng = np.random.default_rng(size)
    for _ in range(5):
        root = rng.standard_normal((size, size + 2))
        gram = root @ root.T
        every = np.array(list(itertools.product((-1.0, 1.0), repeat=size)))
        exact = np.einsum("ij,jk,ik->i", every, gram, every).max()
        bound, signs = largest_pattern(gram)
        assert exact <= bound <= exact * (1 + 1e-12)
        assert largest_pattern(gram, quick=True)[0] == bound
        assert signs @ gram @ signs == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("size", [25, 60, 300])
def test_longer_patterns_are_bounded_from_above(size):
    """Where all products have one sign, constants are the worst and the bound is attained."""
    gram = scipy.linalg.toeplitz(0.9 ** np.arange(size))
    bound, signs = largest_pattern(gram)
    assert gram.sum() <= bound <= gram.sum() * (1 + 1e-6)
    assert abs(signs.sum()) == size
    rng = np.random.default_rng(0)
    if size <= 200:
        root = rng.standard_normal((size, 9))
        gram = root @ root.T + np.eye(size)
        bound, signs = largest_pattern(gram)
        reached = signs @ gram @ signs
        assert reached <= bound <= reached * np.pi / 2
        assert bound <= largest_pattern(gram, quick=True)[0]


# -- over a horizon ------------------------------------------------------------------


@pytest.mark.parametrize("count, apart", few([(2, 1), (3, 4), (2, 9), (4, 5)], of=2))
def test_over_a_horizon_all_pairs_of_levels_stay_below_the_bound(
    count, apart, tmp_path
):
    """By brute force over all starts, lengths, signs of two changes, and by chains of more."""
    plant, horizon = lag(0.9), 16
    secret = pc.DisturbanceAdjacency({"w": 1.0}, duration=3, shape="level")
    noise = designed(plant, secret, horizon=horizon, floor=0.3)
    g = noise.guarantee
    bound = g.repeated(count, separation=apart).gdp
    covariance = np.zeros((horizon, horizon))
    for part in noise.process.responses.reshape(horizon, -1).T:
        covariance += np.outer(part, part)
    covariance += np.diag(np.tile(noise.process.total.white, horizon) ** 2)
    root = np.linalg.cholesky(covariance)
    unit = scipy.linalg.toeplitz(
        [0.0, *0.9 ** np.arange(horizon - 1)], np.zeros(horizon)
    )
    white = scipy.linalg.solve_triangular(root, unit, lower=True)
    levels_at = [
        [white[:, t : t + k].sum(axis=1) for k in (1, 2, 3)] for t in range(horizon)
    ]
    one = max(np.linalg.norm(level) for start in levels_at for level in start)
    assert one == pytest.approx(g.gdp, rel=1e-6)
    largest = 0.0
    chains = [range(first, horizon, apart) for first in range(horizon)]
    for chain in chains:
        starts = list(chain)[:count]
        for kinds in itertools.product(range(3), (-1.0, 1.0), repeat=len(starts)):
            lengths, signs = kinds[::2], kinds[1::2]
            each = zip(starts, lengths, signs)
            total = sum(sign * levels_at[t][k] for t, k, sign in each)
            largest = max(largest, np.linalg.norm(total))
    # the largest product at a lag is not met by all pairs of four
    assert (0.7 if count == 4 else 0.9) * bound <= largest <= bound
    assert bound <= count * g.gdp * (1 + 1e-12)
    shape = g.any_shape()
    worst = 0.0
    for start in range(horizon):
        rows = white[:, start : start + 3]
        for signs in itertools.product((-1.0, 1.0), repeat=rows.shape[1]):
            worst = max(worst, np.linalg.norm(rows @ np.array(signs)))
    assert worst <= shape.gdp <= worst * (1 + 1e-6)
    back = PrivacyGuarantee.from_dict(json.loads(json.dumps(g.to_dict())))
    assert back.repeated(count, separation=apart).gdp == bound
    assert back.any_shape().gdp == shape.gdp
    assert len(json.dumps(g.to_dict())) < 6000
    noise.save(tmp_path / "noise.json")
    again = pc.load(tmp_path / "noise.json").guarantee
    assert again.repeated(count, separation=apart).gdp == pytest.approx(bound, rel=1e-9)
    # room for six changes one after the other, and for one at eight durations
    assert "repetition (2 changes 3 apart: found in up to" in str(g)
    assert "% with 5" in " ".join(g.explain().split())
    assert "% with 20" not in " ".join(g.explain().split())


@pytest.mark.parametrize(
    "shape, count, apart", [("level", 3, 4), ("any", 3, 4), ("any", 4, 3)]
)
def test_over_a_horizon_each_start_counts_with_a_shift_of_its_own(shape, count, apart):
    """All placements of changes of two samples and all their signs.

    Behind independent noise a level that lasts shows less the later it begins.
    """
    plant, horizon = lag(0.98), 14
    secret = pc.DisturbanceAdjacency({"w": 1.0}, duration=2, shape=shape)
    noise = designed(plant, secret, horizon=horizon, family="iid-gaussian")
    g = noise.guarantee
    size = np.sqrt(noise.covariance(3, 3)[0, 0])
    late = np.arange(horizon)[:, None] - np.arange(horizon) - 1
    white = np.where(late >= 0, 0.98 ** np.maximum(late, 0), 0.0) / size
    at = []
    for t in range(horizon):
        after = white[:, t + 1] if t + 1 < horizon else np.zeros(horizon)
        second = (0.0, 1.0) if shape == "level" else (-1.0, 1.0)
        at.append([white[:, t] + way * after for way in second])
    largest = 0.0
    for starts in itertools.combinations(range(horizon), count):
        if np.diff(starts).min() < apart:
            continue
        for ways in itertools.product(range(2), repeat=count):
            each = np.array([at[t][way] for t, way in zip(starts, ways)])
            gram = each @ each.T
            for signs in itertools.product((-1.0, 1.0), repeat=count - 1):
                w = np.array([1.0, *signs])
                largest = max(largest, w @ gram @ w)
    bound = g.repeated(count, separation=apart).gdp
    assert np.sqrt(largest) <= bound <= 1.05 * np.sqrt(largest)
    known = g.correlations.settled()
    once = ChangesOfRun(known.products, known.shape, known.worst)  # as older files hold
    growth = once.growth(Spacing(count, apart))
    assert growth >= 1.04 * bound / g.gdp
    again = ChangesOfRun(**once._saved_fields())
    assert again.growth(Spacing(count, apart)) == growth


@pytest.mark.parametrize("rank", [1, 2, 9])
@pytest.mark.parametrize("count, apart", [(2, 3), (3, 2), (4, 1)])
def test_the_largest_sum_of_a_run_is_bounded_over_all_placements(rank, count, apart):
    """Vectors that are parallel, random and orthogonal; the first and the last ones meet the bound."""
    rng = np.random.default_rng(rank + count)
    horizon = 9
    for _ in range(20):
        vectors = rng.standard_normal((horizon, rank))
        if rank == horizon:
            vectors = np.diag(rng.uniform(0.1, 1.0, horizon))
        vectors /= np.linalg.norm(vectors, axis=1).max()
        sizes = np.linalg.norm(vectors, axis=1)
        gram = np.abs(vectors @ vectors.T)
        products = [
            max(gram[s, t] for s in range(horizon) for t in range(s + m, horizon))
            for m in range(horizon)
        ]
        bound = growth_of_run(sizes, np.array(products), Spacing(count, apart))
        largest = 0.0
        for k in range(1, count + 1):
            for starts in itertools.combinations(range(horizon), k):
                if k == 1 or np.diff(starts).min() >= apart:
                    signs = np.array([*itertools.product((-1.0, 1.0), repeat=k)])
                    totals = np.linalg.norm(signs @ vectors[list(starts)], axis=1)
                    largest = max(largest, totals.max())
        assert largest <= bound
        if rank != 2:
            assert bound <= largest * (1 + 1e-8)


@pytest.mark.parametrize("family, is_known", [("gaussian", True), ("laplace", False)])
def test_independent_noise_over_a_horizon(family, is_known):
    """Correlations are those of Gaussian noise; pure epsilons of changes add up."""
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2 if is_known else 0.0)
    g = pc.design_output_noise(
        lag(0.5),
        horizon=12,
        budget=budget,
        adjacency=pc.DisturbanceAdjacency({"w": 1.0}),
        family=f"iid-{family}",
        max_std=np.inf,
    ).guarantee
    far = g.repeated(2, separation=8)
    if is_known:
        assert far.gdp == pytest.approx(np.sqrt(2) * g.gdp, rel=0.01)
    else:
        assert far.epsilon(0.0) == pytest.approx(2 * g.epsilon(0.0), rel=1e-9)


@pytest.mark.parametrize("floor", [0.0, 2.0])
def test_a_budget_of_a_year_of_changes_is_kept_by_all_of_them(floor):
    """365 changes 96 samples apart are detected in at most half of the cases."""
    risk = {"false_alarm": 0.05, "detection": 0.5}
    budget = pc.PrivacyBudget.from_risk(**risk, events=365, separation=96)
    plant, secret = lag(0.99), pc.DisturbanceAdjacency({"w": 1.0})
    options = {"models": "exact", "floor": floor, "max_std": np.inf}
    noise = pc.design_output_noise(
        plant, horizon=np.inf, budget=budget, adjacency=secret, **options
    )
    together = noise.guarantee.repeated(365, separation=96)
    assert together.detection(false_alarm=0.05) <= 0.5
    assert together.gdp == pytest.approx(norm.ppf(0.5) - norm.ppf(0.05), rel=1e-4)
    # changes at such a distance share something, so one of them may cost less
    assert noise.guarantee.gdp < budget.gdp * (1 - 1e-3)
    if not floor:
        (response,) = whitened(noise, 1500, ["w"])
        shared = [
            np.sum(response[m * 96 :] * response[: len(response) - m * 96])
            for m in range(15)
        ]
        square = 365 * shared[0]
        square += 2 * sum((365 - m) * shared[m] for m in range(1, 15))
        assert np.sqrt(square) <= together.gdp * (1 + 1e-9)
        assert np.sqrt(square) >= 0.98 * together.gdp


def test_a_budget_of_changes_at_any_distance_is_one_of_each():
    risk = {"false_alarm": 0.05, "detection": 0.5}
    once = pc.PrivacyBudget.from_risk(**risk)
    assert pc.PrivacyBudget.from_risk(**risk, events=10).gdp == pytest.approx(
        once.gdp / 10, rel=1e-12
    )
    apart = pc.PrivacyBudget.from_risk(**risk, events=10, separation=5)
    assert apart.gdp == pytest.approx(once.gdp / np.sqrt(10), rel=1e-12)
    assert "10 changes, starts >= 5 samples apart" in repr(apart)
    with pytest.raises(ValueError, match="separation: expected events"):
        pc.PrivacyBudget.from_risk(**risk, separation=5)
    with pytest.raises(ValueError, match="is for design_output_noise"):
        pc.PrivacyLedger(apart)
    with pytest.raises(ValueError, match="expected the guarantee of a change"):
        pc.design_output_noise(
            lag(0.9), horizon=5, budget=apart, models="exact",
            adjacency=pc.StateAdjacency({"level": 1.0}),
        )  # fmt: skip


def test_the_table_counts_samples_and_ends_with_what_fits_into_a_run():
    """It said "90 % for up to 3" of runs that have room for three."""
    store = ct.ss(1.0, 1.0, 1.0, 0, 1.0, inputs=["load"])
    noise = pc.design_output_noise(
        store,
        horizon=48,
        budget=pc.PrivacyBudget.from_risk(false_alarm=0.05, detection=0.15),
        adjacency=pc.DisturbanceAdjacency({"load": 1.0}, duration=2),
        models="exact",
    )
    text = " ".join(noise.guarantee.explain().split())
    distance = noise.guarantee._distance
    assert (
        f"of runs with changes {distance} samples apart a test finds at most 15 % with 1,"
        in text
    )
    room = 1 + 47 // distance
    assert noise.guarantee.repeated(room, separation=distance).detection() < 0.9
    assert f"% with all {room} that fit into a run Horizon:" in text


@pytest.mark.parametrize(
    "kind", [SignalMoves(0, 2.0), WindowMoves((0,), np.ones(1), 3)]
)
def test_files_hold_how_often_and_how_far_apart_as_two_numbers(kind):
    moves = replace(kind, spacing=Spacing(4, 6))
    written = encode(moves)
    assert (written["events"], written["separation"]) == (4, 6)
    assert "spacing" not in written
    assert decode(written) == moves
    with pytest.raises(ValueError, match="events"):
        decode({**written, "events": "4"})


def test_changes_of_two_kinds_are_as_many_and_as_near_as_those_of_either():
    spacing = Spacing.joint([Spacing(4, 5), Spacing(2, 3)])
    assert spacing == Spacing(4, 3)
    assert list(spacing.lags) == [3, 6, 9]
    assert spacing.within(5) == Spacing(2, 3)
    assert spacing.within(6) == Spacing(3, 3)
