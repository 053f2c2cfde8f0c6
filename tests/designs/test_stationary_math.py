"""Noise without a horizon: its optimum, its realisation and its certificate, by second routes."""

import control as ct
import numpy as np
import pytest
import scipy.linalg

import privcontrol as pc
from privcontrol.core.ellipsoid import enclosing_ellipsoid, rough_shape
from privcontrol.core.errors import UncertifiableError
from privcontrol.designs._realisation import (
    balanced_realisation,
    truncated,
    unwarped,
)
from privcontrol.designs._spectrum import (
    FrequencyGrid,
    Responses,
    best_spectrum,
    outer_factors,
    spectral_factor,
)
from privcontrol.designs.endless_design import (
    _bound_of_run,
    nuclear_norm_below,
    price_of,
)
from privcontrol.designs.stationary import stationary_design
from privcontrol.noise._secret import endless_secret
from privcontrol.noise._shift import shift_behind
from privcontrol.secrets.disturbance import causal_map
from privcontrol.secrets.secret import SecretInputs, SignalMoves
from privcontrol.systems.linear import (
    LinearSystem,
    frequency_response,
    impulse_energies,
    poles_of,
    response_from_rest,
)
from privcontrol.systems.plant import Plant

ALLOWED = float(pc.core.kappa_inverse(1.0, 1e-2))


def lag(pole):
    """1 / (z - a), with the disturbance at its input."""
    return ct.ss(pole, 1, 1, 0, 1, states=["level"], inputs=["w"], outputs=["y"])


def design(sys, adjacency, **options):
    secret = endless_secret(adjacency, Plant.of(sys))
    weight = options.pop("weight", LinearSystem.gain(np.eye(sys.noutputs)))
    return stationary_design(secret, ALLOWED, weight, **options)


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


def toeplitz(impulse):
    """The lower block triangular map (T p, T q) of an impulse response (T, p, q)."""
    samples, outputs, inputs = impulse.shape
    dense = np.zeros((samples, outputs, samples, inputs))
    for t in range(samples):
        dense[t, :, : t + 1] = impulse[t::-1].swapaxes(0, 1)
    return dense.reshape(samples * outputs, samples * inputs)


def dense_noise(noise, samples):
    """The lower triangular map (T p, T p) of a square noise from rest, in law."""
    rotation = np.linalg.qr(noise.D.T)[0]  # white noise stays white
    return toeplitz(noise.after(LinearSystem.gain(rotation)).impulse_response(samples))


def dense_shifts(noise, plant, samples):
    """Shifts of unit changes of each input at the first sample, by a triangular solve.

    The solve is checked: what it leaves uncovered must be rounding.
    """
    gamma = dense_noise(noise, samples)
    system = LinearSystem(plant.A, plant.B, plant.C, plant.D)
    moved = system.impulse_response(samples).reshape(len(gamma), -1)
    whitened = scipy.linalg.solve_triangular(gamma, moved, lower=True)
    assert np.abs(gamma @ whitened - moved).max() < 1e-9 * np.abs(moved).max()
    return np.linalg.norm(whitened, axis=0)


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


def test_pulses_of_three_lengths_cost_what_the_dense_problem_does():
    shapes = [np.ones(1), np.ones(5), np.ones(20)]
    adjacency = pc.DisturbanceAdjacency(1.0, profiles=shapes)
    secret = endless_secret(adjacency, Plant.of(lag(0.9)))
    grid = FrequencyGrid.fitting(np.array([0.9]))
    grid = FrequencyGrid(grid.warp, 2**13)
    responses = Responses.of(secret, secret.system, grid.points)
    weight = np.ones((len(grid.points), 1, 1), complex)
    best = best_spectrum(grid, weight, responses, 1e-7)
    assert best.cost < best.lower_bound * (1 + 1e-7)
    assert best.lower_bound / ALLOWED**2 == pytest.approx(340.153, abs=1e-3)
    rough = best_spectrum(grid, weight, responses, 1e-7, updates=1)
    assert rough.lower_bound < 0.99 * best.cost < rough.cost


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
        assert found.shaping.order == order
        assert 0 <= found.gap < gap


@pytest.mark.parametrize("seed", range(8))
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
    longest = 300
    for samples in (5, 40, longest):
        shifts = dense_shifts(noise.output, plant, samples)
        assert shifts.max() <= noise.shift * (1 + 1e-9)
    assert shifts.max() == pytest.approx(noise.shift, rel=1e-6)
    assert noise.shift == pytest.approx(ALLOWED, rel=1e-9)


@pytest.mark.slow
def test_two_hundred_random_plants_up_to_two_thousand_samples():
    worst = 0.0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        outputs = int(rng.integers(1, 3))
        inputs = int(rng.integers(outputs, 4))
        plant = random_plant(
            rng,
            int(rng.integers(1, 6)),
            outputs,
            inputs,
            feedthrough=float(rng.integers(2)),
            delay=int(rng.integers(3)),
            radius=float(rng.choice([0.5, 0.9, 0.97])),
        )
        noise = design(plant, pc.DisturbanceAdjacency(1.0), gap=0.05)
        lengths = (5, 50, 500) if seed % 20 else (5, 50, 500, 2000)
        for samples in lengths:
            shifts = dense_shifts(noise.output, plant, samples)
            assert shifts.max() <= noise.shift * (1 + 1e-9)
        worst = max(worst, 1 - shifts.max() / noise.shift)
    assert worst < 1e-6


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
    assert noise.output.order == plant.nstates + noise.shaping.order
    # the response of the shaping's inverse to an impulse, summed
    undone = noise.shaping.inverse().impulse_response(400)
    assert np.linalg.norm(undone) == pytest.approx(noise.shift, rel=1e-9)
    # and against the dense covariance of both outputs, where it is well conditioned
    samples = 8
    gamma = toeplitz(noise.output.impulse_response(samples))
    system = LinearSystem(plant.A, plant.B, plant.C, plant.D)
    moved = system.impulse_response(samples).reshape(-1, 1)
    shift = np.linalg.norm(np.linalg.lstsq(gamma, moved, rcond=1e-12)[0])
    assert shift <= noise.shift * (1 + 1e-9)


@pytest.mark.parametrize("norm", ["single", "l2"])
def test_the_design_is_that_of_the_dense_problem_in_mid_run(norm):
    """Costs of the dense optimum for T samples approach the stationary one from below."""
    plant = ct.ss([[0.5]], [[1.0]], [[1.0]], 0, 1)
    adjacency = pc.DisturbanceAdjacency(1.0, norm=norm)
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    dense = pc.design_output_noise(
        plant, horizon=60, budget=budget, adjacency=adjacency
    )
    middle = float(np.squeeze(dense.covariance(30)))
    endless = design(plant, adjacency, gap=1e-9)
    tolerance = 1e-6 if norm == "single" else 1e-9
    assert middle == pytest.approx(endless.cost, rel=tolerance)


def test_a_lasting_change_is_hidden_at_every_length():
    noise = design(lag(0.9), pc.DisturbanceAdjacency(1.0, duration=6))
    whitened = noise.output.inverse().after(
        LinearSystem(*map(np.asarray, (lag(0.9).A, lag(0.9).B, lag(0.9).C, lag(0.9).D)))
    )
    impulse = whitened.impulse_response(400)[:, 0, 0]
    shifts = [
        np.linalg.norm(np.convolve(impulse, np.ones(length))) for length in range(1, 7)
    ]
    assert max(shifts) == pytest.approx(noise.shift, rel=1e-9)


def test_the_longest_pulse_alone_leaves_shorter_ones_bare():
    """Why every length is a move: hiding 20 samples at once does not hide 10."""
    longest = design(lag(0.9), pc.DisturbanceAdjacency(1.0, profiles=[np.ones(20)]))
    plant = lag(0.9)
    system = LinearSystem(plant.A, plant.B, plant.C, plant.D)
    shorter = SignalMoves(0, 1.0, (np.ones(10),))
    secret = SecretInputs(system, (shorter,))
    assert shift_behind(longest.output, secret) > 1.15 * longest.shift
    lasting = SignalMoves(0, 1.0, (np.ones(20),), lasting=True)
    secret = SecretInputs(system, (lasting,))
    assert shift_behind(longest.output, secret) > 1.15 * longest.shift


@pytest.mark.parametrize("events", [2, 3])
def test_several_events_are_hidden_wherever_they_fall(events):
    noise = design(lag(0.8), pc.DisturbanceAdjacency(1.0, events=events))
    plant = lag(0.8)
    system = LinearSystem(plant.A, plant.B, plant.C, plant.D)
    impulse = noise.output.inverse().after(system).impulse_response(60)[:, 0, 0]
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(3000):
        times = rng.choice(10, events, replace=False)
        signs = rng.choice([-1.0, 1.0], events)
        shift = np.zeros(70)
        for time, sign in zip(times, signs):
            shift[time : time + 60] += sign * impulse
        worst = max(worst, np.linalg.norm(shift))
    assert worst <= noise.shift * (1 + 1e-9)
    assert worst >= 0.9 * noise.shift


def test_events_of_a_scaled_impulse_are_scaled_too():
    """A profile of one sample with the value 2 is twice the radius, also for two events."""
    plant = lag(0.8)
    system = LinearSystem(plant.A, plant.B, plant.C, plant.D)
    noise = LinearSystem.gain(np.eye(1))
    shifts = [
        shift_behind(
            noise, SecretInputs(system, (SignalMoves(0, radius, shapes, events=2),))
        )
        for radius, shapes in ((2.0, (np.ones(1),)), (1.0, (np.array([2.0]),)))
    ]
    assert shifts[1] >= shifts[0] * (1 - 1e-12)


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_an_initial_state_is_hidden_in_its_ball(norm):
    rng = np.random.default_rng(3)
    plant = random_plant(rng, 3, 2, 1, feedthrough=0.0)
    adjacency = pc.InitialStateAdjacency([1.0, 2.0, 0.5], norm=norm)
    noise = design(plant, adjacency)
    samples = 200
    gamma = dense_noise(noise.output, samples)
    free = LinearSystem(plant.A, np.eye(3), plant.C, np.zeros((2, 3)))
    outputs = free.impulse_response(samples + 1)[1:].reshape(len(gamma), 3)
    whitened = scipy.linalg.solve_triangular(gamma, outputs, lower=True)
    if norm == 2:
        shift = np.linalg.norm(whitened * [1.0, 2.0, 0.5], 2)
    else:
        corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1)
        axes = corners if norm == np.inf else np.eye(3)
        shift = np.linalg.norm(whitened @ (np.diag([1.0, 2.0, 0.5]) @ axes), axis=0)
    assert np.max(shift) == pytest.approx(noise.shift, rel=1e-6)


def test_a_list_of_secrets_hides_each_of_them():
    parts = [
        pc.DisturbanceAdjacency(0.5, duration=3),
        pc.InitialStateAdjacency(1.0),
    ]
    both = design(lag(0.9), pc.secrets.JointAdjacency(parts))
    for part in parts:
        secret = endless_secret(part, Plant.of(lag(0.9)))
        alone = shift_behind(both.output, secret)
        assert alone <= both.shift
        assert design(lag(0.9), part).cost <= both.cost * 1.01


def test_a_loop_that_feels_slow_noise_gets_fast_noise():
    """With the price |H|^2 the cost is (mean |G H|)^2 / y^2, below both comparators."""
    plant = lag(0.9)
    price = LinearSystem(
        np.array([[0.8]]), np.eye(1), 0.2 * np.eye(1), np.zeros((1, 1))
    )
    angles = np.pi * (np.arange(20_000) + 0.5) / 20_000
    z = np.exp(1j * angles)
    G, H = np.abs(1 / (z - 0.9)), np.abs(0.2 / (z - 0.8))
    found = design(plant, pc.DisturbanceAdjacency(1.0), weight=price, gap=1e-5)
    assert found.lower_bound == pytest.approx((np.mean(G * H) / ALLOWED) ** 2, rel=1e-9)
    driven = np.mean((G * H) ** 2) / ALLOWED**2
    white = np.mean(G**2) * np.mean(H**2) / ALLOWED**2
    assert found.cost < min(driven, white)
    gamma = price.after(found.output)
    assert found.cost == pytest.approx(impulse_energies(gamma).sum(), rel=1e-12)


def test_the_factor_multiplies_back_to_its_spectrum():
    rng = np.random.default_rng(1)
    plant = random_plant(rng, 4, 3, 3, feedthrough=1.0)
    system = LinearSystem(plant.A, plant.B, plant.C, plant.D)
    grid = FrequencyGrid.fitting(poles_of(system))
    response = frequency_response(system, grid.points)
    spectrum = response @ response.conj().swapaxes(1, 2)
    factor = spectral_factor(grid, spectrum)
    values = grid.values(factor)
    rebuilt = values @ values.conj().swapaxes(1, 2)
    assert np.abs(rebuilt - spectrum).max() < 1e-9 * np.abs(spectrum).max()
    # outer: log |det M(infinity)| is the mean of log |det M| in the grid's variable
    mean = np.mean(np.log(np.abs(np.linalg.det(np.fft.fft(factor, 2**13, axis=0)))))
    assert np.log(abs(np.linalg.det(factor[0]))) == pytest.approx(mean, abs=1e-6)


def test_truncation_agrees_with_slycot():
    """Balanced truncation by SLICOT's AB09AD (``ct.balred`` is for continuous time)."""
    slycot = pytest.importorskip("slycot")
    rng = np.random.default_rng(2)
    plant = random_plant(rng, 6, 1, 1, feedthrough=1.0, radius=0.7)
    system = LinearSystem(plant.A, plant.B, plant.C, plant.D)
    impulse = system.impulse_response(200)
    mine = truncated(balanced_realisation(impulse, impulse, 6), 3)
    matrices = plant.A.copy(), plant.B.copy(), plant.C.copy()
    _, A, B, C, _ = slycot.ab09ad("D", "B", "N", 6, 1, 1, *matrices, nr=3)
    theirs = LinearSystem(A, B, C, plant.D)
    assert np.allclose(
        mine.impulse_response(20), theirs.impulse_response(20), atol=1e-6
    )


def test_the_grids_variable_is_undone_exactly():
    rng = np.random.default_rng(4)
    plant = random_plant(rng, 4, 2, 2, feedthrough=1.0)
    system = LinearSystem(plant.A, plant.B, plant.C, plant.D)
    warp = 0.7
    back = unwarped(unwarped(system, warp), -warp)
    z = np.exp(1j * np.linspace(0.1, 3.0, 7))
    assert np.allclose(frequency_response(back, z), frequency_response(system, z))
    s = (z - warp) / (1 - warp * z)
    assert np.allclose(
        frequency_response(unwarped(system, warp), z), frequency_response(system, s)
    )


def test_the_phase_of_a_scalar_factor_is_all_pass():
    grid = FrequencyGrid.fitting(np.array([0.9]))
    spectrum = (1 / np.abs(grid.points - 0.9))[:, None, None].astype(complex)
    factor, phase = map(grid.values, outer_factors(grid, spectrum))
    exact = (factor / factor.conj())[:, 0, 0]
    causal = np.fft.irfft(exact, grid.count)
    causal[grid.count // 2 :] = 0.0
    assert np.allclose(phase[:, 0, 0], np.fft.rfft(causal), atol=1e-9)


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
        (
            ct.ss(0.5, 1, 1, 0, 1, states=["level"], inputs=["w"], outputs=["y"]),
            pc.DisturbanceAdjacency(1.0, times=[3]),
            "leave times out",
        ),
        (
            ct.ss(0.5, 1, 1, 0, 1, states=["level"], inputs=["w"], outputs=["y"]),
            pc.StateAdjacency(1.0),
            "times=0",
        ),
        (
            ct.ss(0.5, 1, 1, 0, 1, states=["level"], inputs=["w"], outputs=["y"]),
            pc.secrets.JointAdjacency(
                [pc.DisturbanceAdjacency(1.0, norm="l2"), pc.InitialStateAdjacency(1.0)]
            ),
            "designed alone",
        ),
    ],
)
def test_what_has_no_such_noise_is_refused(plant, adjacency, message):
    with pytest.raises(ValueError, match=message):
        endless_secret(adjacency, Plant.of(plant))


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


def test_noise_whose_inverse_is_unstable_is_not_certified():
    noise = LinearSystem(
        np.zeros((1, 1)), np.eye(1), np.array([[2.0]]), np.eye(1)
    )  # 1 + 2 / z, with its zero at -2
    plant = LinearSystem.gain(np.eye(1))
    with pytest.raises(UncertifiableError, match="not proven to be stable"):
        shift_behind(noise, SecretInputs(plant, (SignalMoves(0, 1.0),)))


@pytest.mark.parametrize("outputs, inputs", [(1, 1), (3, 2), (2, 4)])
def test_the_nuclear_norm_of_a_causal_map_is_bounded_from_below(outputs, inputs):
    impulse = np.random.default_rng(0).standard_normal((200, outputs, inputs))
    impulse *= 0.8 ** np.arange(200)[:, None, None]
    for samples, share in ((3, 0.5), (30, 0.85), (200, 0.97)):
        dense = causal_map(impulse[:samples])
        weights = np.full(samples, 1 / samples)
        exact = np.linalg.norm(dense * np.sqrt(np.repeat(weights, inputs)), "nuc")
        bound = nuclear_norm_below(impulse[:samples])
        assert share * exact**2 <= bound
        assert bound <= inputs * rough_shape(dense, 1e-3).cost


def test_a_long_run_costs_at_least_its_bound():
    plant = Plant.of(lag(0.9))
    secret = endless_secret(pc.DisturbanceAdjacency(1.0, duration=3), plant)
    price = price_of(None, 1)
    multipliers = stationary_design(secret, 1.0, price).multipliers
    impulse = response_from_rest(price.after(secret.system), secret.changes(120))
    points = causal_map(impulse)
    moved = points[1:, points.any(axis=0)]  # the input acts one sample later
    least = enclosing_ellipsoid(moved)
    searched = _bound_of_run(secret, price, multipliers, 120, 0.995 * least.cost)
    at_once = nuclear_norm_below(impulse * np.sqrt(multipliers / multipliers.sum()))
    assert 0.995 * least.cost <= searched <= least.cost
    assert 0.8 * least.cost <= at_once <= least.cost


def test_a_linear_system_responds_as_in_python_control():
    rng = np.random.default_rng(0)
    system = LinearSystem(
        0.5 * np.eye(2),
        rng.normal(size=(2, 3)),
        rng.normal(size=(1, 2)),
        np.ones((1, 3)),
    )
    inputs = rng.normal(size=(20, 3, 2))
    outputs = response_from_rest(system, inputs)
    other = ct.ss(system.A, system.B, system.C, system.D, True)
    for run in range(2):
        expected = ct.forced_response(other, inputs=inputs[:, :, run].T).outputs
        np.testing.assert_allclose(
            outputs[:, :, run].T, np.atleast_2d(expected), rtol=1e-12, atol=1e-12
        )
