"""Changes of any shape, beside all signs of their values and beside dense covariances."""

import itertools
import json

import control as ct
import numpy as np
import pytest
import scipy.linalg
from repeats import few

import privcontrol as pc
from privcontrol import verify
from privcontrol.designs import endless_design, long_design
from privcontrol.designs.problem import DesignProblem
from privcontrol.noise import _patterns, _varying
from privcontrol.noise._autoregression import shift_behind_autoregression
from privcontrol.noise._endless import shift_behind
from privcontrol.noise._patterns import (
    PatternSearch,
    bound_of,
    largest_pattern,
    largest_signs,
    relaxation,
)
from privcontrol.noise.parts import Correlated, Filtered
from privcontrol.noise.shift import certified_shift
from privcontrol.numerics.ellipsoid import rough_shape
from privcontrol.secrets.disturbed import causal_map
from privcontrol.secrets.secrets import Secrets
from privcontrol.systems.linear import LinearSystem, Plant, frequency_response

ONE = pc.PrivacyBudget(gdp=1.0)


def lag(pole):
    return ct.ss(pole, 1, 1, 0, 1, states=["level"], inputs=["w"], outputs=["y"])


def change(duration, **options):
    return pc.DisturbanceAdjacency(
        {"w": 1.0}, duration=duration, shape="any", **options
    )


def designed(plant, secret, horizon=np.inf, **options):
    options = {"gap": 0.003, "budget": ONE, "max_std": np.inf} | options
    return pc.design_output_noise(plant, horizon=horizon, adjacency=secret, **options)


def responses(plant, horizon):
    """The outputs' responses (T p, T, q) to impulses of all inputs, sample by sample."""
    A, B, C, D = plant.A, plant.B, plant.C, plant.D
    found = np.zeros((horizon, len(C), horizon, B.shape[1]))
    for start in range(horizon):
        state = B
        found[start, :, start] = D
        for t in range(start + 1, horizon):
            found[t, :, start] = C @ state
            state = A @ state
    return found.reshape(horizon * len(C), horizon, -1)


def largest_of_all_signs(whitened, duration, together):
    """The largest norm of all changes (m, T, q) of whitened responses, sign by sign."""
    samples, inputs = whitened.shape[1:]
    every = list(range(inputs))
    largest = 0.0
    for start in range(samples):
        rows = whitened[:, start : start + duration]
        for signals in [every] if together else [[k] for k in every]:
            columns = rows[:, :, signals].reshape(len(rows), -1)
            signs = np.array(list(itertools.product([1, -1], repeat=columns.shape[1])))
            largest = max(largest, np.linalg.norm(columns @ signs.T, axis=0).max())
    return largest


@pytest.mark.parametrize("seed", few(range(12), of=3))
def test_no_signs_of_a_run_show_more_and_some_show_as_much(seed):
    rng = np.random.default_rng(seed)
    states, outputs, inputs = (int(rng.integers(1, most)) for most in (4, 3, 3))
    horizon, duration = int(rng.integers(4, 9)), int(rng.integers(2, 6))
    together = bool(seed % 2)
    A = rng.normal(size=(states, states))
    A *= rng.uniform(0.3, 1.1) / np.abs(np.linalg.eigvals(A)).max()
    B = rng.normal(size=(states, inputs))
    C, D = rng.normal(size=(outputs, states)), rng.normal(size=(outputs, inputs))
    names = [f"w{k}" for k in range(inputs)]
    plant = ct.ss(A, B, C, D, 1, inputs=names)
    radii = rng.uniform(0.5, 2.0, inputs)
    secret = pc.DisturbanceAdjacency(
        dict(zip(names, radii)), duration=duration, shape="any", together=together
    )
    size = horizon * outputs
    root = np.tril(rng.normal(size=(size, size))) + 3 * np.eye(size)
    parts = (Correlated(root, outputs),)
    found = certified_shift(parts, secret, [Plant.of(plant)], horizon).value
    moved = np.linalg.solve(root, responses(plant, horizon).reshape(size, -1))
    whitened = moved.reshape(size, horizon, inputs) * radii
    attained = largest_of_all_signs(whitened, duration, together)
    assert attained <= found <= attained * (1 + 1e-10)


@pytest.mark.parametrize("duration", [2, 7, 14])
def test_no_signs_of_a_run_of_any_length_show_more(duration):
    shaping = LinearSystem(*map(np.array, ([[0.5]], [[1.0]], [[0.7]], [[1.0]])))
    secret = Secrets(change(duration)).entering(Plant.of(lag(0.9)))
    found = shift_behind(shaping, secret)
    undone = shaping.inverse()
    samples = 500
    left = undone.after(secret.system).impulse_response(samples)[:, 0, 0]
    moved = np.zeros((samples, samples, 1))
    for start in range(duration):
        moved[start:, start, 0] = left[: samples - start]
    rows = moved[:, :duration, 0]
    signs = np.array(list(itertools.product([1, -1], repeat=duration)))
    attained = np.linalg.norm(rows @ signs.T, axis=0).max()
    assert attained * (1 - 1e-12) <= found <= attained * (1 + 1e-9)


def test_the_dual_is_proven_where_signs_are_too_many():
    """At 30 samples a factor proves sum d, which is above what some signs attain."""
    shaping = LinearSystem(*map(np.array, ([[0.2]], [[1.0]], [[-0.6]], [[1.0]])))
    plant = Plant.of(ct.ss(-0.7, 1, 1, 0.4, 1, inputs=["w"], outputs=["y"]))
    secret = Secrets(change(30)).entering(plant)
    found = shift_behind(shaping, secret) ** 2
    left = shaping.inverse().after(secret.system).impulse_response(400)[:, 0, 0]
    rows = np.array([np.r_[np.zeros(k), left[: 400 - k]] for k in range(30)])
    gram = rows @ rows.T
    weights, _ = relaxation(gram)
    assert found == pytest.approx(bound_of(gram, weights), rel=1e-6)
    _, signs = largest_pattern(gram)
    attained = signs @ gram @ signs
    assert attained <= found <= attained * np.pi / 2


@pytest.mark.parametrize("short", [0.0, 1e-9, 1e-3])
def test_weights_that_are_too_small_grow_until_they_bound_all_signs(short):
    gram = scipy.linalg.toeplitz(0.9 ** np.arange(30))
    largest = gram.sum()  # of signs alike
    weights = gram.sum(axis=1)  # diag(weights) - gram is semidefinite
    found = bound_of(gram, weights * (1 - short))
    assert largest < found < largest * (1 + short + 1e-11)


def test_errors_of_products_count_for_every_pair_of_signs():
    gram = scipy.linalg.toeplitz(0.9 ** np.arange(30))
    known, _ = largest_pattern(gram)
    found, _ = largest_pattern(gram, 1e-9)
    assert found - known == pytest.approx(900 * 1e-9)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("size", [10, 30])
def test_signs_are_searched_unless_they_are_many_and_matrices_too(size, quick):
    root = np.random.default_rng(size).normal(size=(size, size))
    gram = root @ root.T
    bound, signs = largest_pattern(gram, quick=quick)
    assert signs @ gram @ signs <= bound
    assert (bound < 0.9 * np.abs(gram).sum()) == (size == 10 or not quick)
    of_ones, _ = largest_pattern(np.ones((size, size)), quick=quick)
    assert size**2 < of_ones < size**2 * (1 + 1e-11)  # rounding counts


def test_signs_of_several_axes_are_turned():
    """Those of the largest axis alone end at 0.91 of the largest value."""
    root = np.random.default_rng(52).normal(size=(20, 20))
    gram = root @ root.T
    values, _ = largest_signs(gram, np.ones((1, 20)))
    assert values[0] == pytest.approx(largest_pattern(gram)[0], rel=1e-9)


@pytest.mark.parametrize("size, is_searched", [(400, True), (401, False)])
def test_up_to_400_signs_are_relaxed(size, is_searched):
    """Of three signs two are alike, and the dual is 9. Sizes of entries add up to 12."""
    gram = np.eye(size)
    gram[:3, :3] = 3 * np.eye(3) - 1
    bound, _ = largest_pattern(gram)
    assert bound == pytest.approx(size - 3 + (9 if is_searched else 12), rel=1e-6)


@pytest.mark.parametrize("seed", few(range(4), of=2))
def test_the_dual_is_above_the_exact_maximum(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(11, 11))
    gram = root @ root.T
    exact, _ = largest_pattern(gram)
    weights, _ = relaxation(gram)
    assert exact * (1 - 1e-9) <= bound_of(gram, weights) <= exact * np.pi / 2


@pytest.mark.parametrize(
    "duration, low, high",
    few(
        [
            (1, 2.10785, 2.10785),
            (12, 60.57, 60.63),
            (4, 15.73, 15.75),
            (24, 125.91, 126.0),
            (96, 505.26, 505.7),
        ],
        of=2,
    ),
)
def test_the_variance_for_a_lag_is_that_of_the_theory(duration, low, high):
    noise = designed(lag(0.9), change(duration))
    assert low / 1.003 <= noise.design.lower_bound <= high
    assert low * 0.9999 <= noise.std[0] ** 2 <= high * 1.003
    assert noise.design.gap <= 0.003
    assert noise.guarantee.gdp <= 1.0


@pytest.mark.parametrize("order", [5, 20, 45])
def test_responses_behind_a_schur_form_are_those_of_a_solve_at_each_point(order):
    rng = np.random.default_rng(order)
    A = rng.normal(size=(order, order))
    A *= 0.99 / np.abs(np.linalg.eigvals(A)).max()
    B, C = rng.normal(size=(order, 3)), rng.normal(size=(2, order))
    D = rng.normal(size=(2, 3))
    points = np.exp(1j * np.linspace(0, np.pi, 60))
    found = frequency_response(LinearSystem(A, B, C, D), points)
    for z, response in zip(points, found, strict=True):
        exact = C @ np.linalg.solve(z * np.eye(order) - A, B) + D
        assert response == pytest.approx(exact, rel=1e-10, abs=1e-10)


def test_units_of_many_states_change_nothing_of_a_response_to_frequencies():
    """Units from 1e-6 to 1e6 made it wrong by 5e-4, behind a Schur form of A as given."""
    rng = np.random.default_rng(0)
    A = 0.97 * np.linalg.qr(rng.normal(size=(16, 16)))[0]
    B, C, D = rng.normal(size=(16, 2)), rng.normal(size=(1, 16)), np.zeros((1, 2))
    units = 10.0 ** rng.uniform(-6, 6, 16)
    points = np.exp(1j * np.linspace(0, 3, 200))
    turned = LinearSystem(A * units[:, None] / units, B * units[:, None], C / units, D)
    found = frequency_response(turned, points)
    each = [C @ np.linalg.solve(z * np.eye(16) - A, B) for z in points]
    np.testing.assert_allclose(found, each, rtol=0, atol=1e-11 * np.abs(each).max())


def test_each_autoregression_is_certified_once_and_then_as_it_is_promised(monkeypatch):
    """Larger noise has a smaller shift by as much, so its size takes no second search."""
    seen = []

    def counted(noise, secret):
        shift = shift_behind_autoregression(noise, secret)
        seen.append((len(noise.coefficients), noise.std, shift))
        return shift

    for module in (endless_design, _varying):
        monkeypatch.setattr(module, "shift_behind_autoregression", counted)
    noise = designed(lag(0.99), change(48), gap=0.02)
    *tried, (order, size, claimed) = seen
    orders = [each[0] for each in tried]
    assert orders == [96, 192]
    _, unit, shift = tried[orders.index(order)]
    assert claimed == noise.guarantee.gdp <= ONE.gdp
    assert size == pytest.approx(unit * shift, rel=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("pole", [0.99, 0.999])
def test_a_day_of_any_shape_comes_within_a_percent_behind_slow_plants(pole, tmp_path):
    """Signs that show much behind the dense covariance show what is promised, no more."""
    noise = designed(lag(pole), change(96), gap=0.01)
    assert noise.design.gap <= 0.01
    samples = 1400
    response = noise.parts[0].system.impulse_response(30_000)[:, 0, 0]
    power = np.abs(np.fft.rfft(response, 2 * len(response))) ** 2
    covariance = np.fft.irfft(power)[:samples]
    root = scipy.linalg.cholesky(scipy.linalg.toeplitz(covariance), lower=True)
    moved = scipy.linalg.toeplitz(
        np.r_[0.0, pole ** np.arange(samples - 1)], np.zeros(96)
    )
    left = scipy.linalg.solve_triangular(root, moved, lower=True)
    gram = left.T @ left
    _, signs = largest_pattern(gram)
    attained = np.sqrt(signs @ gram @ signs)
    gdp = noise.guarantee.gdp
    assert 0.97 * gdp <= attained <= gdp * (1 + 1e-9)  # the rest comes later
    if pole == 0.99:  # an autoregression
        noise.save(tmp_path / "noise.json")
        assert verify.main([str(tmp_path / "noise.json")]) == 0


def test_noise_over_a_horizon_hides_every_sign():
    horizon, duration = 14, 4
    noise = designed(lag(0.9), change(duration), horizon, gap=0.01)
    times = range(horizon)
    covariance = [[noise.covariance(t, s)[0, 0] for s in times] for t in times]
    root = np.linalg.cholesky(np.array(covariance)[1:, 1:])  # y(0) is not moved
    moved = np.linalg.solve(root, responses(lag(0.9), horizon)[1:, :, 0])
    attained = largest_of_all_signs(moved[:, :, None], duration, False)
    assert attained == pytest.approx(noise.guarantee.gdp, rel=1e-6)
    assert noise.design.gap < 0.01
    level = pc.DisturbanceAdjacency({"w": 1.0}, duration=duration, shape="level")
    of_level = noise.guarantee_for([lag(0.9)], adjacency=level).gdp
    assert of_level <= attained * (1 + 1e-9)  # both are rounded


@pytest.mark.slow
def test_a_long_run_has_noise_of_low_order_whose_bound_is_one_of_dense_noise():
    """The bound of a run is below what another search pays, and every sign is hidden."""
    plant = ct.ss(
        [[0.86, 0.27], [-0.27, 0.86]],
        [[1, 0.2], [0.5, 1]],
        [[1, 0.3]],
        0,
        1,
        inputs=["w", "v"],
    )
    secret = pc.DisturbanceAdjacency(
        {"w": 1.0, "v": 0.5}, duration=4, shape="any", together=True
    )
    horizon = 240
    noise = designed(plant, secret, horizon, gap=0.01)
    assert isinstance(noise.parts[0], Filtered)
    assert noise.design.gap <= 0.01
    dense = designed(plant, secret, horizon, gap=0.01, floor=1e-6)
    assert isinstance(dense.parts[0], Correlated)
    assert noise.design.lower_bound <= dense.design.cost <= noise.design.cost
    assert not noise.parts[0].starts_stationary
    moved = responses(plant, horizon)[1:, :-1]  # y(0) is not moved
    impulse = noise.parts[0].system.impulse_response(horizon - 1)[:, 0, 0]
    root = scipy.linalg.toeplitz(impulse, np.zeros(horizon - 1))  # from rest
    whitened = np.linalg.solve(root, moved.reshape(horizon - 1, -1))
    whitened = whitened.reshape(horizon - 1, -1, 2) * np.array([1.0, 0.5])
    attained = largest_of_all_signs(whitened[:, 100:140], 4, True)
    assert 0.999 * noise.guarantee.gdp <= attained <= noise.guarantee.gdp * (1 + 1e-9)


def test_a_floor_counts():
    without = designed(lag(0.9), change(3), 10)
    beside = designed(lag(0.9), change(3), 10, floor=0.5)
    assert beside.guarantee.gdp <= 1.0
    assert without.design.cost * (1 - 0.01) <= beside.design.cost
    assert beside.parts[-1].white[0] == 0.5


@pytest.mark.slow
def test_windows_that_overlap_beside_a_floor_come_near_the_bound():
    """Each spectrum of the search leaves other signs; the mean of all leaves less."""
    A = np.array(
        [
            [-1.06, 0.39, -0.21, 1.0, -0.04],
            [-0.1, 0.74, 0.21, 1.15, -0.72],
            [0.33, 0.5, 0.41, 0.83, 0.75],
            [0.05, -0.37, 0.72, 0.07, 0.71],
            [0.99, 0.18, -0.59, -0.13, 0.6],
        ]
    )
    B = [[1.26], [0.22], [-0.01], [-0.25], [-0.69]]
    C = [[-1.44, -0.57, 0.99, 1.5, -0.15], [1.03, -1.91, 0.82, 0.36, -1.16]]
    options = {
        "budget": pc.PrivacyBudget(epsilon=1.0, delta=1e-4),
        "floor": 0.05,
        "gap": 0.01,
    }
    gaps = []
    for seed in range(4):  # rounding alone moves each gap by a half
        near = A + 1e-10 * np.random.default_rng(seed).normal(size=A.shape)
        plant = ct.ss(near, B, C, 0, 1, inputs=["w"])
        gaps.append(designed(plant, change(12), 15, **options).design.gap)
    assert np.mean(gaps) < 0.006


def test_polytopes_have_weights_of_their_own():
    """THEORY F34: lag .9 +- .02; spread zero agrees with the plant itself."""
    shaping = LinearSystem(*map(np.array, ([[0.5]], [[1.0]], [[0.7]], [[1.0]])))
    parts = (Filtered(shaping),)
    alone = certified_shift(parts, change(6), [Plant.of(lag(0.9))], np.inf).value
    ends = [Plant.of(lag(0.88)), Plant.of(lag(0.92))]
    constant = certified_shift(parts, change(6), ends, np.inf).value
    varying = certified_shift(parts, change(6), ends, np.inf, varying=True).value
    assert alone < constant <= varying * (1 + 1e-9) <= constant * 1.001


def test_several_changes_at_a_distance():
    horizon, duration, apart = 24, 3, 8
    noise = designed(lag(0.9), change(duration), horizon, gap=0.01)
    found = noise.guarantee.repeated(2, separation=apart).gdp
    times = range(horizon)
    covariance = [[noise.covariance(t, s)[0, 0] for s in times] for t in times]
    root = np.linalg.cholesky(np.array(covariance)[1:, 1:])
    moved = np.linalg.solve(root, responses(lag(0.9), horizon)[1:, :, 0])
    signs = np.array(list(itertools.product([1, -1], repeat=duration)))
    largest = 0.0
    for first in range(horizon - apart):
        for second in range(first + apart, horizon):
            one = moved[:, first : first + duration]
            two = moved[:, second : second + duration]
            one = one @ signs[:, : one.shape[1]].T
            two = two @ signs[:, : two.shape[1]].T
            square = np.sum(one**2, axis=0)[:, None] + np.sum(two**2, axis=0)
            largest = max(largest, (square + 2 * one.T @ two).max())
    assert np.sqrt(largest) <= found <= np.sqrt(largest) * 1.02


def test_several_changes_are_designed_for():
    once = designed(lag(0.5), change(3))
    five = designed(lag(0.5), change(3, events=5, separation=9))
    assert five.guarantee.gdp <= 1.0
    grown = once.guarantee.repeated(5, separation=9).gdp / once.guarantee.gdp
    assert five.std[0] <= once.std[0] * grown * (1 + 1e-9)


def test_files_without_a_shape_are_about_levels(tmp_path):
    level = pc.DisturbanceAdjacency({"w": 1.0}, duration=3, shape="level")
    path = tmp_path / "noise.json"
    designed(lag(0.5), level).save(path)
    assert "shape" not in json.loads(path.read_text())["request"]["adjacency"]
    assert pc.load(path).request.adjacency == level
    noise = designed(lag(0.5), change(3))
    noise.save(path)
    loaded = pc.load(path)
    assert loaded == noise
    assert loaded.request.adjacency == change(3) != level
    assert str(loaded.guarantee) == str(noise.guarantee)


def test_the_price_of_both_shapes():
    noise = designed(lag(0.9), change(6))
    price = noise.design.price
    assert price["any"] == noise.std
    assert price["level"] == pytest.approx(
        designed(
            lag(0.9), pc.DisturbanceAdjacency({"w": 1.0}, duration=6, shape="level")
        ).std
    )
    with pytest.raises(ValueError, match="changes that last"):
        _ = designed(lag(0.9), change(1)).design.price


def test_the_promise_in_words():
    text = str(designed(lag(0.5), change(3)).guarantee)
    assert "w, of any shape within 1, over at most 3 samples in a row" in text
    both = pc.DisturbanceAdjacency({"a": 1.0, "b": 2.0}, together=True)
    assert both.statement == (
        "one change per run: a (within 1) and b (within 2) together, at one sample"
    )
    assert pc.DisturbanceAdjacency(1.0, duration=3).shape == "any"


@pytest.mark.parametrize(
    "options, words",
    [
        ({"shape": "ramp"}, "shape"),
        ({"shape": "level", "profiles": [[1.0]]}, "profiles"),
        ({"shape": "level", "norm": "l2"}, "level"),
        ({"together": True, "norm": "l2"}, "together"),
        ({"together": True, "duration": 3, "shape": "level"}, "together"),
    ],
)
def test_what_has_no_shape_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        pc.DisturbanceAdjacency({"w": 1.0}, **options)


@pytest.mark.slow
def test_a_day_of_any_shape_comes_within_a_percent_behind_two_slow_lags():
    """The frequencies in use resolve its spectrum's oscillations all around the circle."""
    plant = ct.ss(np.diag([0.99, 0.999]), [[1.0], [0.1]], [[1.0, 1.0]], 0, True)
    secret = pc.DisturbanceAdjacency(0.1, inputs=["u[0]"], duration=96)
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    noise = pc.design_output_noise(
        plant, horizon=np.inf, budget=budget, adjacency=secret
    )
    assert noise.design.gap <= 0.01


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("share", [0.0, 0.99, np.inf])
def test_no_noise_of_a_run_costs_less_than_its_bound(outputs, share):
    """The bound of a run beside a search that begins with equal weights."""
    horizon, duration = 60, 3
    price = LinearSystem.gain(np.eye(outputs))
    plant = ct.ss(0.9, 1, np.ones((outputs, 1)), 0, 1, inputs=["w"])
    secret = Secrets(change(duration)).entering(Plant.of(plant))
    signs = np.array(list(itertools.product([1, -1], repeat=duration)))[:4]
    changes = np.zeros((horizon, 1, 4))
    changes[:duration, 0] = signs.T
    points = responses(plant, horizon)[:, :, 0] @ causal_map(changes)
    exact = rough_shape(points, 1e-3)
    shares = np.array([0.7, 0.1, 0.1, 0.1])
    found = long_design._bound_of_run(
        secret, price, changes, shares, horizon, share * exact.cost
    )
    assert found <= exact.cost
    if share < np.inf:  # of which there is one
        assert found >= share * exact.lower_bound


@pytest.mark.parametrize("outputs", [1, 2])
def test_weights_of_times_prove_what_they_are_said_to(outputs):
    rng = np.random.default_rng(outputs)
    impulse = rng.normal(size=(30, outputs, 2)) * 0.8 ** np.arange(30)[:, None, None]
    by_time = long_design._products_by_time(impulse)
    roots = by_time / np.linalg.norm(by_time)
    weighted = causal_map(impulse) * np.repeat(roots, 2)
    nuclear = np.linalg.svd(weighted, compute_uv=False).sum()
    bound = long_design._bound_of_products(by_time)
    assert 0.9 * nuclear**2 <= bound <= nuclear**2


# -- windows that are much alike ---------------------------------------------------------


def matrices_of_windows(rng, size, rise):
    """The products (k, k) of responses cut off later and later, one of them grown."""
    responses = rng.normal(size=(3 * size, size))
    found = [responses[: len(responses) - cut].T for cut in range(4)]
    grams = [rows @ rows.T for rows in found]
    tail = np.outer(*[rng.choice([-1.0, 1.0], size)] * 2)
    grams.insert(2, grams[0] + rise * float(np.trace(grams[0])) / size * tail)
    return grams


@pytest.mark.parametrize("rise", [0.0, 1e-13, 1e-8, 1e-2])
@pytest.mark.parametrize("seed", few(range(8), of=2))
def test_windows_alike_are_bounded_by_the_one_that_was_searched(rise, seed):
    """All signs of all of them are listed; a window that shows more is searched too."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 11))
    search = PatternSearch()
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=size)))
    largest = 0.0
    for gram in matrices_of_windows(rng, size, rise):
        search.add(gram, 0.0)
        values = np.einsum("ij,ij->i", signs @ gram, signs)
        largest = max(largest, float(values.max()))
        assert largest <= search.largest <= largest * (1 + 2e-10)
        assert search.attained <= largest


def test_windows_within_others_are_not_searched_again(monkeypatch):
    """457 of 459 windows of 24 samples were, each 0.3 s."""
    searched = []

    def counted(gram, error=0.0, **options):
        searched.append(gram)
        return largest_pattern(gram, error, **options)

    monkeypatch.setattr(_patterns, "largest_pattern", counted)
    search = PatternSearch()
    for gram in matrices_of_windows(np.random.default_rng(3), 18, 0.0):
        search.add(gram, 0.0)
    assert len(searched) == 1


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("seed", few(range(6), of=2))
def test_independent_noise_never_costs_less_than_its_quick_bound(together, seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(3, 3))
    A *= rng.uniform(0.5, 1.1) / np.abs(np.linalg.eigvals(A)).max()
    matrices = A, rng.normal(size=(3, 2)), rng.normal(size=(2, 3)), 0, True
    plant = ct.ss(*matrices, inputs=["w", "v"])
    secret = pc.DisturbanceAdjacency(
        {"w": 1.0, "v": 0.3}, duration=int(rng.integers(1, 7)), together=together
    )
    asked = dict(horizon=15, budget=ONE, adjacency=secret, max_std=np.inf)
    noise = pc.design_output_noise(plant, **asked, family="iid-gaussian")
    shaped = pc.design_output_noise(plant, **asked)
    problem = DesignProblem(Plant.of(plant), shaped.request)
    bound = long_design.least_cost_of_white(problem)
    assert 0.1 * noise.design.cost < bound <= noise.design.cost
