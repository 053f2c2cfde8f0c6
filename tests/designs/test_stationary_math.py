"""Noise without a horizon: its optimum, its realisation and its certificate, by second routes.

Its matrices are taken from the design that a user gets. Everything else is dense algebra.
"""

import functools
import warnings

import cases
import control as ct
import numpy as np
import pytest
import scipy.linalg
from repeats import few

import privcontrol as pc
from privcontrol.designs.realisation import outer_factor
from privcontrol.designs.spectrum import (
    FrequencyGrid,
    Responses,
    adjoint,
    best_spectrum,
)
from privcontrol.noise._autoregression import is_stable
from privcontrol.secrets.decaying import endless_secret
from privcontrol.secrets.secrets import Secrets
from privcontrol.systems.linear import (
    LinearSystem,
    Plant,
    frequency_response,
    poles_of,
    spectral_radius,
)

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
ALLOWED = float(pc.core.kappa_inverse(1.0, 1e-2))


def lag(pole):
    """1 / (z - a), with the disturbance at its input."""
    return ct.ss(pole, 1, 1, 0, 1, states=["level"], inputs=["w"], outputs=["y"])


def design(sys, adjacency, **options):
    """The certificate of the noise that hides a secret for ever."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pc.PrivacyWarning)
        noise = pc.design_output_noise(
            sys,
            horizon=np.inf,
            budget=BUDGET,
            adjacency=adjacency,
            max_std=np.inf,
            **options,
        )
    assert noise.guarantee.gdp == noise.design.shift
    return noise.design


def random_plant(rng, states, outputs, inputs, *, feedthrough, delay=0, radius=0.9):
    """A random stable plant; a random zero is outside the unit circle as often as not."""
    A = rng.standard_normal((states, states))
    A *= radius / np.abs(np.linalg.eigvals(A)).max()
    B = rng.standard_normal((states, inputs))
    C = rng.standard_normal((outputs, states))
    D = rng.standard_normal((outputs, inputs)) * feedthrough
    for _ in range(delay):  # one more sample before the input arrives
        A = np.block([[A, B], [np.zeros((inputs, len(A) + inputs))]])
        B = np.vstack([np.zeros((len(B), inputs)), np.eye(inputs)])
        C = np.hstack([C, D])
        D = np.zeros_like(D)
    return ct.ss(A, B, C, D, 1)


def impulse(system, samples):
    """Responses (T, p, q) of anything with A, B, C and D to an impulse at each input."""
    A, B, C, D = (np.asarray(system.A), np.asarray(system.B), system.C, system.D)
    responses, state = [np.asarray(D)], B
    for _ in range(samples - 1):
        responses.append(C @ state)
        state = A @ state
    return np.array(responses)


def response(system, points):
    """The transfer function (N, p, q) at points z (N,)."""
    unit = np.eye(len(system.A))
    inner = np.linalg.solve(points[:, None, None] * unit - system.A, system.B)
    return system.C @ inner + system.D


def toeplitz(responses):
    """The lower block triangular map (T p, T q) of an impulse response (T, p, q)."""
    samples, outputs, inputs = responses.shape
    dense = np.zeros((samples, outputs, samples, inputs))
    for t in range(samples):
        dense[t, :, : t + 1] = responses[t::-1].swapaxes(0, 1)
    return dense.reshape(samples * outputs, samples * inputs)


def left_of(noise, moved):
    """What is left of responses (T, p, M) once a square noise from rest is undone.

    The solve is checked: what it leaves uncovered must be rounding.
    """
    samples = len(moved)
    responses = impulse(noise, samples)
    rotation = np.linalg.qr(responses[0].T)[0]  # white noise stays white
    gamma = toeplitz(responses @ rotation)
    columns = moved.reshape(len(gamma), -1)
    whitened = scipy.linalg.solve_triangular(gamma, columns, lower=True)
    assert np.abs(gamma @ whitened - columns).max() < 1e-9 * np.abs(columns).max()
    return whitened


def shifts_of(noise, plant, samples, *pulses):
    """Shifts of changes of each input at the first sample, of the given shapes."""
    unit = impulse(plant, samples)
    moved = []
    for pulse in pulses or [np.ones(1)]:
        changed = np.zeros_like(unit)
        for k, size in enumerate(pulse):
            changed[k:] += size * unit[: samples - k]
        moved.append(changed)
    return np.linalg.norm(left_of(noise, np.concatenate(moved, axis=2)), axis=0)


@pytest.mark.parametrize(
    "pole, cost",
    [(0.5, 4.061443), (0.9, 7.433147), (0.99, 16.102495), (0.999, 28.8847)],
)
def test_a_lag_costs_its_closed_form(pole, cost):
    """The scalar optimum is (mean |G|)^2 / y^2, here by quadrature on a fine grid."""
    angles = np.pi * (np.arange(200_000) + 0.5) / 200_000
    mean = np.mean(1 / np.abs(np.exp(1j * angles) - pole))
    found = design(lag(pole), pc.DisturbanceAdjacency(1.0), gap=1e-4)
    assert found.lower_bound == pytest.approx(mean**2 / ALLOWED**2, rel=1e-9)
    assert found.lower_bound == pytest.approx(cost, abs=5e-5)
    assert found.lower_bound <= found.cost <= found.lower_bound * (1 + 1e-4)


@pytest.mark.slow
def test_pulses_of_three_lengths_cost_what_the_dense_problem_does():
    shapes = [np.ones(1), np.ones(5), np.ones(20)]
    adjacency = pc.DisturbanceAdjacency(1.0, profiles=shapes)
    found = design(lag(0.9), adjacency, gap=1e-5)
    assert 340.153 * (1 - 1e-4) < found.lower_bound < 340.153 * (1 + 1e-5)
    shifts = shifts_of(found.output, lag(0.9), 400, *shapes)
    assert 0.999 * found.shift < shifts.max() <= found.shift * (1 + 1e-9)


@pytest.mark.parametrize(
    "pole, gaps",
    [
        (0.9, [9.1e-3, 9.4e-5, 1e-6]),
        (0.99, [0.14, 6.1e-3, 3.2e-4, 1.7e-5]),
        (0.999, [0.72, 0.052, 5.4e-3, 1.3e-3]),
    ],
)
def test_the_gap_falls_with_the_order(pole, gaps):
    for order, gap in enumerate(gaps, 1):
        found = design(lag(pole), pc.DisturbanceAdjacency(1.0), order=order)
        assert found.part.shaping.order == order
        assert 0 <= found.gap < gap


@pytest.mark.parametrize("seed", few(range(8), of=3))
@pytest.mark.parametrize(
    "outputs, inputs, options",
    [
        (1, 1, {"feedthrough": 0.0}),
        (1, 1, {"feedthrough": 1.0}),
        (1, 1, {"feedthrough": 0.0, "delay": 3}),
        (2, 2, {"feedthrough": 1.0}),
        (2, 3, {"feedthrough": 0.0, "delay": 1}),
    ],
)
def test_no_run_of_any_length_exceeds_the_certified_shift(
    seed, outputs, inputs, options
):
    rng = np.random.default_rng([seed, outputs, inputs])
    plant = random_plant(rng, int(rng.integers(1, 6)), outputs, inputs, **options)
    noise = design(plant, pc.DisturbanceAdjacency(1.0))
    for samples in (5, 40, 300):
        shifts = shifts_of(noise.output, plant, samples)
        assert shifts.max() <= noise.shift * (1 + 1e-9)
    assert shifts.max() == pytest.approx(noise.shift, rel=1e-6)
    assert noise.shift == pytest.approx(ALLOWED, rel=1e-9)
    assert noise.gap <= 0.01


@pytest.mark.parametrize("zero", [0.5, 7.5])
def test_fewer_secrets_than_outputs_are_hidden_where_they_enter(zero):
    """With one input and two outputs the shift is that of the shaping, for any zeros."""
    plant = ct.ss(
        [[0.5, 1.0], [0.0, 0.2]],
        [[0.0], [1.0]],
        [[1.0, 0.0], [0.2 - zero, 1.0]],
        0,
        1,
    )
    noise = design(plant, pc.DisturbanceAdjacency(1.0))
    assert noise.output.order == plant.nstates + noise.part.shaping.order
    # what is left of an impulse where it enters
    impulse_itself = np.zeros((400, 1, 1))
    impulse_itself[0] = 1.0
    undone = left_of(noise.part.shaping, impulse_itself)
    assert np.linalg.norm(undone) == pytest.approx(noise.shift, rel=1e-9)
    # and against the dense covariance of both outputs, where it is well conditioned
    gamma = toeplitz(impulse(noise.output, 8))
    moved = impulse(plant, 8).reshape(-1, 1)
    shift = np.linalg.norm(np.linalg.lstsq(gamma, moved, rcond=1e-12)[0])
    assert shift <= noise.shift * (1 + 1e-9)


@pytest.mark.parametrize("norm", ["single", "l2"])
def test_the_design_is_that_of_the_dense_problem_in_mid_run(norm):
    """Costs of the dense optimum for T samples approach the stationary one from below."""
    plant = ct.ss([[0.5]], [[1.0]], [[1.0]], 0, 1)
    adjacency = pc.DisturbanceAdjacency(1.0, norm=norm)
    dense = pc.design_output_noise(
        plant, horizon=60, budget=BUDGET, adjacency=adjacency
    )
    middle = float(np.squeeze(dense.covariance(30)))
    endless = design(plant, adjacency, gap=1e-9)
    tolerance = 1e-6 if norm == "single" else 1e-9
    assert middle == pytest.approx(endless.cost, rel=tolerance)


def test_a_lasting_change_is_hidden_at_every_length():
    noise = design(lag(0.9), pc.DisturbanceAdjacency(1.0, duration=6, shape="level"))
    lengths = [np.ones(length) for length in range(1, 7)]
    shifts = shifts_of(noise.output, lag(0.9), 400, *lengths)
    assert shifts.max() == pytest.approx(noise.shift, rel=1e-9)


def test_the_longest_pulse_alone_leaves_shorter_ones_bare():
    """Why every length is a move: hiding 20 samples at once does not hide 10."""
    longest = design(lag(0.9), pc.DisturbanceAdjacency(1.0, profiles=[np.ones(20)]))
    shorter = shifts_of(longest.output, lag(0.9), 400, np.ones(10))
    assert shorter.max() > 1.1 * longest.shift
    lasting = design(lag(0.9), pc.DisturbanceAdjacency(1.0, duration=20, shape="level"))
    assert lasting.cost > longest.cost


@pytest.mark.parametrize("events", [2, 3])
def test_several_events_are_hidden_wherever_they_fall(events):
    noise = design(lag(0.8), pc.DisturbanceAdjacency(1.0, events=events))
    left = left_of(noise.output, impulse(lag(0.8), 60))[:, 0]
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(3000):
        times = rng.choice(10, events, replace=False)
        signs = rng.choice([-1.0, 1.0], events)
        shift = np.zeros(70)
        for time, sign in zip(times, signs):
            shift[time : time + 60] += sign * left
        worst = max(worst, np.linalg.norm(shift))
    assert worst <= noise.shift * (1 + 1e-9)
    assert worst >= 0.9 * noise.shift


def test_events_of_a_scaled_impulse_are_scaled_too():
    """A profile of one sample with the value 2 is twice the radius, also for two events."""
    doubled = [
        pc.DisturbanceAdjacency(2.0, events=2),
        pc.DisturbanceAdjacency(1.0, profiles=[[2.0]], events=2),
    ]
    costs = [design(lag(0.8), adjacency).cost for adjacency in doubled]
    assert costs[1] >= costs[0] * (1 - 1e-12)


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_an_initial_state_is_hidden_in_its_ball(norm):
    rng = np.random.default_rng(3)
    plant = random_plant(rng, 3, 2, 1, feedthrough=0.0)
    adjacency = pc.InitialStateAdjacency([1.0, 2.0, 0.5], norm=norm)
    noise = design(plant, adjacency)
    powers = [np.linalg.matrix_power(plant.A, t) for t in range(200)]
    whitened = left_of(noise.output, np.array([plant.C @ power for power in powers]))
    if norm == 2:
        shift = np.linalg.norm(whitened * [1.0, 2.0, 0.5], 2)
    else:
        corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1)
        axes = corners if norm == np.inf else np.eye(3)
        shift = np.linalg.norm(whitened @ (np.diag([1.0, 2.0, 0.5]) @ axes), axis=0)
    assert np.max(shift) == pytest.approx(noise.shift, rel=1e-6)


def test_a_list_of_secrets_hides_each_of_them():
    parts = [
        pc.DisturbanceAdjacency(0.5, duration=3, shape="level"),
        pc.InitialStateAdjacency(1.0),
    ]
    both = design(lag(0.9), parts)
    lengths = [0.5 * np.ones(length) for length in (1, 2, 3)]
    assert shifts_of(both.output, lag(0.9), 200, *lengths).max() <= both.shift * (
        1 + 1e-9
    )
    state = 0.9 ** np.arange(200)[:, None, None]
    assert np.linalg.norm(left_of(both.output, state)) <= both.shift * (1 + 1e-9)
    for part in parts:
        assert design(lag(0.9), part).cost <= both.cost * 1.01


def test_a_loop_that_feels_slow_noise_gets_fast_noise():
    """With the price |H|^2 the cost is (mean |G H|)^2 / y^2, below both comparators."""
    plant = ct.ss(0.9, [[1, 1]], 1, 0, 1, inputs=["w", "u"])
    start = pc.design_output_noise(
        plant,
        horizon=np.inf,
        budget=BUDGET,
        adjacency=pc.DisturbanceAdjacency({"w": 1.0}),
    )
    loop = pc.private_lqg(plant, 1, 1, 1, 1, start, controls=["u"])
    angles = np.pi * (np.arange(20_000) + 0.5) / 20_000
    z = np.exp(1j * angles)
    price = loop.noise_weight(np.inf)
    H = np.linalg.norm(response(price, z), axis=(1, 2))
    G = np.abs(1 / (z - 0.9))
    secret = pc.DisturbanceAdjacency({"w": 1.0})
    found = design(plant, secret, weight=loop, gap=1e-5)
    assert found.lower_bound == pytest.approx((np.mean(G * H) / ALLOWED) ** 2, rel=1e-9)
    driven = np.mean((G * H) ** 2) / ALLOWED**2
    white = np.mean(G**2) * np.mean(H**2) / ALLOWED**2
    assert found.cost < min(driven, white)
    M = np.abs(response(found.output, z)[:, 0, 0])
    assert found.cost == pytest.approx(np.mean((H * M) ** 2), rel=1e-9)


@pytest.mark.parametrize(
    "plant, adjacency, message",
    [
        (
            ct.ss(1, 1, 1, 0, 1, states=["tank"], inputs=["w"], outputs=["y"]),
            pc.DisturbanceAdjacency(1.0),
            r"never decays 1 \(tank\).*duration=",
        ),
        (
            ct.ss(1.2, 1, 1, 0, 1, states=["tilt"], inputs=["w"], outputs=["y"]),
            pc.DisturbanceAdjacency(1.0),
            r"unstable mode 1\.2 \(tilt\).*finite horizon",
        ),
        (lag(0.5), pc.DisturbanceAdjacency(1.0, times=[3]), "leave times out"),
        (lag(0.5), pc.StateAdjacency(1.0), "times=0"),
        (
            lag(0.5),
            [pc.DisturbanceAdjacency(1.0, norm="l2"), pc.InitialStateAdjacency(1.0)],
            "designed alone",
        ),
    ],
)
def test_what_has_no_such_noise_is_refused(plant, adjacency, message):
    with pytest.raises(ValueError, match=message):
        design(plant, adjacency)


def test_modes_that_the_secret_does_not_reach_may_be_anything():
    """An integrator beside the secret's lag, and an unstable mode that no output sees."""
    plant = ct.ss(
        np.diag([0.5, 1.0, 2.0]),
        [[1.0], [0.0], [1.0]],
        [[1.0, 1.0, 0.0]],
        0,
        1,
    )
    found = design(plant, pc.DisturbanceAdjacency(1.0), gap=1e-4)
    assert found.lower_bound == pytest.approx(4.061443, abs=1e-6)


@pytest.mark.parametrize("duration, share", [(1, 0.99), (3, 0.99)])
def test_a_long_run_costs_at_least_its_bound(duration, share):
    """Against the least ellipsoid around all changes of the run, by dense updates."""
    samples = 150
    secret = pc.DisturbanceAdjacency(1.0, duration=duration, shape="level")
    asked = dict(horizon=samples, budget=BUDGET, adjacency=secret)
    low = pc.design_output_noise(lag(0.9), gap=0.02, **asked)
    assert "filtered" in repr(low)
    moved = toeplitz(impulse(lag(0.9), samples))
    points = []
    for length in range(1, duration + 1):
        pulse = sum(np.eye(samples, samples, -k) for k in range(length))
        points.append((moved @ pulse)[1:, : samples - 1])
    points = np.hstack(points) / ALLOWED
    # any weights of the moves are a bound; these are scaled by their constraints
    weights = np.full(points.shape[1], 1 / points.shape[1])
    for _ in range(200):
        values, vectors = np.linalg.eigh((points * weights) @ points.T)
        roots = np.sqrt(np.maximum(values, 1e-14 * values.max()))
        bound = roots.sum() ** 2
        inside = np.sum((vectors.T @ points) ** 2 / roots[:, None], axis=0)
        weights = weights * inside / roots.sum()
        weights = weights / weights.sum()
    assert share * bound <= low.design.lower_bound
    assert low.design.lower_bound <= bound * inside.max() / roots.sum() * (1 + 1e-9)
    assert bound * (1 - 1e-9) <= low.design.cost


# -- autoregressions for long changes -------------------------------------------------------


@pytest.mark.slow
def test_noise_for_a_long_level_of_a_slow_plant_is_within_the_gap():
    """Covariances of long lags by the points of a warped grid gave a std of 8e9."""
    slow = ct.ss(0.999, 1e-3, 1, 0, True, inputs=["w"])
    secret = pc.DisturbanceAdjacency(1.0, duration=96, shape="level")
    found = design(slow, secret, models="exact")
    assert found.gap < 0.01
    assert 0 < found.lower_bound <= found.cost < 0.066


def behind_actuators(outputs, lags):
    """A plant of two oscillating modes, which slow and fast lags drive."""
    A = scipy.linalg.block_diag([[0, 1], [-1, -0.1]], [[0, 1], [-9, -0.3]])
    C = np.array([[1.0, 0, 0.1, 0], [0, 0.2, 0, 0.3], [0, 0, 0, 1]])[:outputs]
    sys = ct.ss(A, [[0], [1], [0], [1]], C, 0)
    for rate in lags:
        sys = sys * ct.ss(-rate, rate, 1, 0)
    return sys.sample(0.05)


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("duration", [1, 15])
@pytest.mark.parametrize("lags", [[2, 10], [1, 5, 20]])
def test_noise_behind_actuators_is_within_the_gap(outputs, duration, lags):
    """The best noise at their input rises as steeply as they fall."""
    plant = behind_actuators(outputs, lags)
    found = design(
        plant, pc.DisturbanceAdjacency(1.0, duration=duration, shape="level")
    )
    assert found.gap <= 0.01
    assert found.part.shaping.order <= 24


@pytest.mark.parametrize("through", [False, True])
@pytest.mark.parametrize("outputs, inputs", [(1, 1), (3, 1), (3, 2)])
def test_an_outer_factor_has_the_sizes_of_its_system_and_a_stable_inverse(
    outputs, inputs, through
):
    plant = cases.random_plant(2, 5, inputs, outputs, feedthrough=through)
    system = LinearSystem(*ct.ssdata(plant))
    factor = outer_factor(system)
    points = np.exp(1j * np.linspace(0, np.pi, 60))
    H = frequency_response(system, points)
    F = frequency_response(factor, points)
    np.testing.assert_allclose(adjoint(F) @ F, adjoint(H) @ H, rtol=1e-9, atol=1e-12)
    assert spectral_radius(factor.inverse()) < 1


def test_a_system_that_vanishes_at_a_frequency_has_no_outer_factor_with_an_inverse():
    rising = LinearSystem(*ct.ssdata(ct.tf2ss([1, -1], [1, -0.5], 1)))
    with pytest.raises(pc.UncertifiableError, match="not stable"):
        outer_factor(rising)


@pytest.mark.parametrize("moved, order", [(3, 10), (9, 17), (20, 29)])
def test_noise_that_enters_with_an_event_of_secret_time_has_a_size(moved, order):
    """Its price vanishes at frequency zero, and its inverse would be an integrator.

    One was taken for stable, at a pole of 1 - 4e-16: the noise then had no covariance, a
    size of zero, and no `Gateway` drew it.
    """
    plant = ct.ss(
        [[0.9, 0.05], [0.02, 0.8]], [[0.2], [0.1]], np.eye(2), 0, 1, inputs=["inflow"]
    )
    noise = pc.design_output_noise(
        plant,
        horizon=np.inf,
        budget=BUDGET,
        adjacency=pc.DisturbanceAdjacency(2.0, moved=moved),
        models="exact",
    )
    (part,) = noise.process.parts
    assert spectral_radius(part.shaping) < 0.999
    assert part.shaping.order <= order
    assert noise.design.gap < 0.002
    samples = 150
    response = ct.forced_response(plant, inputs=np.eye(1, samples).ravel()).outputs
    step = 2 * np.hstack([np.zeros((2, 20)), response])[:, :samples]
    lags = [noise.covariance(lag) for lag in range(samples)]
    covariance = np.zeros((samples, 2, samples, 2))
    for t in range(samples):
        for s in range(t + 1):
            covariance[t, :, s] = lags[t - s]
            covariance[s, :, t] = lags[t - s].T
    covariance = covariance.reshape(2 * samples, -1)
    root = np.linalg.cholesky(covariance + 1e-12 * np.eye(2 * samples))
    shifts = []
    for later in range(1, moved + 1):
        moves = step - np.hstack([np.zeros((2, later)), step])[:, :samples]
        shifts.append(np.linalg.norm(np.linalg.solve(root, moves.T.ravel())))
    assert 0.99 * noise.guarantee.gdp < max(shifts) <= noise.guarantee.gdp


@pytest.mark.parametrize("pole", [0.3, 0.9, 0.999])
def test_covariances_of_a_grid_are_those_of_the_spectrum(pole):
    """That of 1 / (1 - a z^-1) is a^k / (1 - a^2), far from the points that are dense too."""
    grid = FrequencyGrid.fitting(np.array([0.999]), 1)
    spectrum = 1 / np.abs(1 - pole / grid.points) ** 2
    found = grid.covariances(spectrum, 400)
    expected = pole ** np.arange(401.0) / (1 - pole**2)
    np.testing.assert_allclose(found, expected, atol=1e-6 * expected[0])


@pytest.mark.parametrize("order", [1, 6, 40])
def test_an_autoregression_is_stable_where_its_roots_are_within_the_circle(order):
    rng = np.random.default_rng(order)
    for size in (0.999, 1.001):
        angles = rng.uniform(0, np.pi, order // 2)
        roots = np.concatenate([np.exp(1j * angles), np.exp(-1j * angles)])
        roots = size * np.append(roots, 1.0 if order % 2 else [])
        coefficients = np.poly(roots).real[1:]
        assert is_stable(coefficients) == (size < 1)


@pytest.mark.parametrize("seed", range(3))
def test_the_spectrum_for_a_ball_is_proven_to_a_fiftieth_of_the_gap(seed):
    """It hides the ball, and random spectra that hide it cost at least the bound."""
    rng = np.random.default_rng(seed)
    plant = Plant.of(random_plant(rng, 4, 3, 1, feedthrough=0))
    secret = endless_secret(Secrets(pc.InitialStateAdjacency(1.0)), plant)
    grid = FrequencyGrid.fitting(poles_of(secret.system), 1)
    identity = np.tile(np.eye(3), (len(grid.points), 1, 1))
    responses = Responses.of(secret, grid.points)
    found = best_spectrum(grid, identity, responses, 0.01)
    (axes,) = responses.balls

    def largest(spectrum):
        form = axes.conj().swapaxes(1, 2) @ np.linalg.solve(spectrum, axes)
        return np.linalg.eigvalsh(grid.mean(form))[-1]

    def cost(spectrum):
        return grid.mean(np.trace(spectrum, axis1=1, axis2=2))

    assert largest(found.spectrum) == pytest.approx(1, abs=1e-9)
    bound = found.lower_bound
    assert bound <= cost(found.spectrum) <= bound * (1 + 0.02 * 0.01)
    for _ in range(20):
        tilt = np.exp(0.3 * rng.normal() * np.cos(np.angle(grid.points)))
        root = np.eye(3) + 0.2 * rng.normal(size=(3, 3))
        other = root @ found.spectrum @ root.T * tilt[:, None, None]
        assert cost(other) * largest(other) >= bound


def test_an_autoregression_is_stable_up_to_its_last_digits():
    """One pole next to the circle, and 60 poles, whose reflections lose 60 digits."""
    assert is_stable(np.array([-(1 - 2.0**-52)]))
    assert not is_stable(np.array([-1.0]))
    angles = np.random.default_rng(0).uniform(0, np.pi, 30)
    for radius, is_inside in ((0.97, True), (1.03, False)):
        pairs = [[1, -2 * radius * np.cos(angle), radius**2] for angle in angles]
        taps = functools.reduce(np.convolve, pairs)
        assert is_stable(taps[1:]) == is_inside
