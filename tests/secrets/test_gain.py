"""System gains are certified from above, attained, and named for the signal norms that they are for."""

import math

import control as ct
import numpy as np
import pytest

from privcontrol import UncertifiableError, system_gain
from privcontrol.core import LipschitzBound


def random_system(seed, states, outputs, inputs, margin=0.05):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((states, states))
    A *= (1 - margin) / np.abs(np.linalg.eigvals(A)).max()
    B, C, D = (
        rng.standard_normal(shape)
        for shape in ((states, inputs), (outputs, states), (outputs, inputs))
    )
    return ct.ss(A, B, C, D, True)


SHAPES = [(2, 1, 1), (5, 2, 3), (12, 3, 2), (3, 1, 2), (15, 2, 2)]
SYSTEMS = [random_system(seed, *shape) for seed, shape in enumerate(SHAPES)]
SYSTEMS.append(
    ct.ss(np.diag(np.ones(4), -1), np.eye(5)[:, :1], [[1, -2, 3, 0, 0.5]], 0.25, True)
)  # a delay line
SYSTEMS.append(
    ct.ss([[0.9, 1e6], [0, 0.8]], [[0], [1e-4]], [[1e-3, 0]], 0, True)
)  # badly scaled


def response(sys, frequencies):
    z = np.exp(1j * np.asarray(frequencies))[..., None, None]
    entered = np.linalg.solve(z * np.eye(sys.nstates) - sys.A, sys.B + 0j * z)
    return np.linalg.svd(sys.C @ entered + sys.D, compute_uv=False)[..., 0]


def sampled_peak(sys):
    """The largest sampled singular value, refined around its best sample."""
    grid = np.linspace(0, np.pi, 4000)
    best = grid[np.argmax(response(sys, grid))]
    for width in (1e-2, 1e-4, 1e-6):
        local = best + width * np.linspace(-1, 1, 201) * max(best, 1e-3)
        best = local[np.argmax(response(sys, local))]
    return response(sys, best)


# --- hinf -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", range(len(SYSTEMS)))
def test_hinf_is_just_above_the_largest_frequency_response(k):
    bound, peak = system_gain(SYSTEMS[k]), sampled_peak(SYSTEMS[k])
    assert isinstance(bound, LipschitzBound)
    assert (bound.p, bound.q, bound.method) == (2, 2, "hinf")
    assert peak * (1 - 1e-12) <= bound <= peak * (1 + 1e-4)


def test_hinf_of_many_peaks_between_poles_is_that_of_the_highest():
    """60 taps have some 30 peaks, and their poles are all at zero."""
    taps = np.random.default_rng(2).standard_normal(60)
    line = ct.ss(np.eye(60, k=-1), np.eye(60, 1), taps[None], 0, True)
    peak = np.abs(np.fft.fft(taps, 1 << 18)).max()
    assert peak * (1 - 1e-12) <= system_gain(line) <= peak * (1 + 1e-6)


def test_hinf_closed_forms():
    assert 2 <= system_gain(ct.ss(0.5, 1, 1, 0, True)) <= 2 * (1 + 1e-7)
    radius, angle = 0.999, 0.5  # a resonance: 1 / |z^2 - 2 r cos(a) z + r^2|
    shape = [[0, 1], [-(radius**2), 2 * radius * np.cos(angle)]]
    resonance = ct.ss(shape, [[0], [1]], [[1, 0]], 0, True)
    peak = (1 + radius**2) * np.cos(angle) / (2 * radius)
    z = peak + 1j * np.sqrt(1 - peak**2)
    exact = 1 / abs(z * z - 2 * radius * np.cos(angle) * z + radius**2)
    assert exact * (1 - 1e-12) <= system_gain(resonance) <= exact * (1 + 1e-6)


def test_hinf_bounds_signals_and_is_nearly_attained():
    sys = ct.ss([[0.9, 0.4], [-0.4, 0.9]], [[0], [0.1]], [[1, 0]], 0, True)
    grid = np.linspace(0, np.pi, 100001)
    worst = grid[np.argmax([response(sys, w) for w in grid[::10]]) * 10]
    t = np.arange(8000)
    U = np.sin(worst * t) * (t < 7000)
    Y = ct.forced_response(sys, t, U).outputs
    ratio = np.linalg.norm(Y) / np.linalg.norm(U)
    assert 0.99 * system_gain(sys) < ratio <= system_gain(sys)


# --- l1 ---------------------------------------------------------------------------------------------------------------


def peak_gain_by_simulation(sys):
    """From below, up to rounding: the largest row sum of the absolute impulse response, long enough."""
    total, X = np.abs(sys.D), sys.B
    for _ in range(4000):
        total, X = total + np.abs(sys.C @ X), sys.A @ X
    return total.sum(axis=1).max()


@pytest.mark.parametrize("k", range(len(SYSTEMS)))
def test_l1_is_just_above_the_summed_impulse_response(k):
    bound, total = (
        system_gain(SYSTEMS[k], norm="l1"),
        peak_gain_by_simulation(SYSTEMS[k]),
    )
    assert (bound.p, bound.q, bound.method) == (math.inf, math.inf, "l1")
    assert total * (1 - 1e-10) <= bound <= total * (1 + 1e-9)


def test_l1_closed_forms_of_lags():
    assert 10 <= system_gain(ct.ss(0.9, 1, 1, 0, True), norm="l1") <= 10 * (1 + 1e-10)
    # the sum of .999^k - .1^k, and the feedthrough
    stiff = ct.ss(np.diag([0.999, 0.1]), [[1], [1]], [[1, -1]], 0.5, True)
    exact = 1000 - 1 / 0.9 + 0.5
    assert exact * (1 - 1e-12) <= system_gain(stiff, norm="l1") <= exact * (1 + 1e-9)
    line = SYSTEMS[5]  # 0.25 + 1 + 2 + 3 + 0 + 0.5
    assert 6.75 <= system_gain(line, norm="l1") <= 6.75 * (1 + 1e-9)


def test_l1_waits_for_what_comes_late():
    line = ct.ss(np.eye(100, k=-1), np.eye(100, 1), 3 * np.eye(100)[-1:], 0, True)
    assert 3 <= system_gain(line, norm="l1") <= 3 * (1 + 1e-9)
    slow = ct.ss(0.99999, 1, 1, 0, True)
    with pytest.raises(UncertifiableError, match="boundary of stability"):
        system_gain(slow, norm="l1")
    assert 1000 <= system_gain(ct.ss(0.999, 1, 1, 0, True), norm="l1") <= 1000.001


def test_l1_sums_rows_not_columns():
    tall = ct.ss([], [], [], [[1.0], [2.0]], True)
    wide = ct.ss([], [], [], [[1.0, 2.0]], True)
    assert system_gain(tall, norm="l1") == 2
    assert system_gain(wide, norm="l1") == 3


def test_l1_is_attained_by_a_signal_of_signs():
    sys, horizon = SYSTEMS[0], 400
    h = ct.impulse_response(sys, np.arange(horizon)).outputs
    U = np.sign(h[::-1])
    Y = ct.forced_response(sys, np.arange(horizon), U).outputs
    assert np.abs(Y).max() == pytest.approx(system_gain(sys, norm="l1"), rel=1e-8)


def test_unreachable_modes_do_not_count():
    sampled = ct.ss(np.diag([0.9, 0.5]), [[1], [0]], [[0, 1]], 0, True)
    assert system_gain(sampled, norm="l1") <= 1e-8
    assert system_gain(sampled) <= 1e-6


# --- h2 and refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, 1, 2])
def test_h2_is_a_plain_float_and_no_l2_gain(k):
    energy = system_gain(SYSTEMS[k], norm="h2")
    assert type(energy) is float
    assert energy == pytest.approx(ct.norm(SYSTEMS[k], 2), rel=1e-9)
    lag = ct.ss(0.9, 1, 1, 0, True)
    assert system_gain(lag, norm="h2") < 0.25 * system_gain(lag)


@pytest.mark.parametrize("norm", ["hinf", "l1", "h2"])
@pytest.mark.parametrize("pole, dt", [(1.0, True), (-1.02, 0.1)])
def test_unstable_systems_have_no_gain(norm, pole, dt):
    with pytest.raises(ValueError, match="expected a stable system"):
        system_gain(ct.ss(pole, 1, 1, 0, dt), norm=norm)


@pytest.mark.parametrize("norm", ["hinf", "l1"])
def test_a_barely_stable_system_is_certified_or_refused(norm):
    sys = ct.ss(1 - 2.0**-30, 1, 1, 0, True)
    try:
        assert system_gain(sys, norm=norm) >= 2.0**30
    except UncertifiableError as error:
        assert "boundary of stability" in str(error)


def test_other_systems_are_refused_by_name():
    with pytest.raises(
        ct.ControlArgument, match=r"TransferFunction; convert .* ct\.ss"
    ):
        system_gain(ct.tf([1], [1, 0.5], True))
    for dt in (None, 0):
        with pytest.raises(ct.ControlArgument, match="discrete-time"):
            system_gain(ct.ss(-0.5, 1, 1, 0, dt))
    with pytest.raises(ValueError, match="'hinf', 'l1', 'h2'"):
        system_gain(SYSTEMS[0], norm="l2")


@pytest.mark.parametrize(
    "norm, k", [("hinf", 1), ("hinf", 2), ("hinf", 4), ("l1", 1), ("l1", 2)]
)
def test_units_of_the_states_do_not_matter(norm, k):
    sys = SYSTEMS[k]
    units = 2.0 ** np.random.default_rng(k).integers(-40, 40, sys.nstates)
    scaled = ct.ss(
        sys.A * units[:, None] / units,
        sys.B * units[:, None],
        sys.C / units,
        sys.D,
        sys.dt,
    )
    assert system_gain(scaled, norm=norm) == pytest.approx(
        system_gain(sys, norm=norm), rel=2e-3
    )
