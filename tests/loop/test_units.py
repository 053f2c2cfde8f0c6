"""Loops in units far apart, and noise far above or below the plant's own size.

A change of units by powers of two changes no digit of what is computed, so all results
must follow it up to rounding. The other oracle is the filter in 250 digits.
"""

import warnings

import control as ct
import mpmath as mp
import numpy as np
import pytest
from cases import BUDGET
from repeats import few

import privcontrol as pc

SAMPLES = 8
DRAWN = {
    "initial_state": "design",
    "disturbance": "design",
    "measurement_noise": "design",
}


def plant_in_units(seed, states, inputs, outputs, spread, *, through=0.0):
    """Matrices of a random plant and its loop, in units of up to 2^spread, and these."""
    rng = np.random.default_rng(seed)

    def covariance(size, scale):
        square = rng.normal(size=(size, size))
        return scale * (square @ square.T + 0.1 * np.eye(size))

    A = rng.normal(size=(states, states))
    A *= 0.95 / np.abs(np.linalg.eigvals(A)).max()
    B = rng.normal(size=(states, inputs))
    C = rng.normal(size=(outputs, states))
    D = through * rng.normal(size=(outputs, inputs))
    Q, R, P0 = covariance(states, 1), covariance(inputs, 1), covariance(states, 1)
    QN, RN = covariance(states, 0.01), covariance(outputs, 0.1)
    x, u, y = (
        2.0 ** rng.integers(-spread, spread + 1, size)
        for size in (states, inputs, outputs)
    )
    labels = {
        "states": [f"s{i}" for i in range(states)],
        "inputs": [f"u{i}" for i in range(inputs)],
    }
    system = ct.ss(
        x[:, None] * A / x,
        x[:, None] * B / u,
        y[:, None] * C / x,
        y[:, None] * D / u,
        0.5,
        **labels,
    )
    weights = {
        "Q": Q / np.outer(x, x),
        "R": R / np.outer(u, u),
        "QN": QN * np.outer(x, x),
        "RN": RN * np.outer(y, y),
    }
    return system, weights, P0 * np.outer(x, x), (x, u, y)


def hidden(kind, system, units, size=1.0):
    """Noise of a kind, sized and priced in the plant's units."""
    x, u, y = units
    options = {"weight": y**-2.0, "models": "exact", "max_std": np.inf}
    secret = pc.StateAdjacency({"s0": size * x[0], "s1": 0.3 * size * x[1]}, times=0)
    budget = BUDGET
    if kind == "floored":
        options["floor"] = 0.3 * y
    if kind == "laplace":
        secret = pc.StateAdjacency({"s0": size * x[0]}, times=0)
        budget = pc.PrivacyBudget(epsilon=1.0)
        options["family"] = "laplace"
    if kind in ("correlated", "endless"):
        secret = pc.DisturbanceAdjacency({"u0": size * u[0]})
    horizon = SAMPLES
    if kind == "endless":
        horizon = np.inf
        options = {}
    return pc.design_output_noise(
        system, horizon=horizon, adjacency=secret, budget=budget, **options
    )


def results(loop, units):
    """What a loop claims, in units in which all were one."""
    x, u, y = units
    n = len(x)
    squares = np.outer(x, x)
    samples = SAMPLES if loop.noise is None or loop.noise.horizon == np.inf else None
    times = 0.5 * np.arange(SAMPLES)
    cost = loop.cost(times, **DRAWN)
    found = {
        "K": loop.K * x / u[:, None],
        "cost": [cost.total, cost.privacy, cost.disturbance, cost.terminal],
        "errors": loop.mean_square_error(times, **DRAWN) / x[:, None] ** 2,
    }
    if loop.L is not None:
        found["L"] = loop.L[..., :n, :] * y / x[:, None]
    if loop.data.knows_noise and loop.noise is not None:
        direction = np.arange(1.0, n + 1) / x
        found["covariance"] = loop.estimate_covariance / squares
        found["margins"] = loop.margins(direction, probability=0.1, horizon=samples)
        if loop.noise.family == "gaussian":
            found["bound"] = [loop.optimality.lower_bound]
    return found


def loop_in_units(kind, seed, spread, sizes=(6, 2, 3), **options):
    """The results of a loop in units of up to 2^spread, and what it warned of."""
    through = 1.0 if options.get("form") == "predictor" else 0.0
    system, weights, P0, units = plant_in_units(seed, *sizes, spread, through=through)
    noise = None if kind == "public" else hidden(kind, system, units)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        loop = pc.private_lqg(system, noise=noise, **weights, P0=P0, **options)
        found = results(loop, units)
    texts = {str(warning.message) for warning in said}
    return found, {text for text in texts if not text.startswith("controls")}


CASES = [
    ("public", {}),
    ("structured", {}),
    ("structured", {"terminal": 0}),
    ("structured", {"form": "predictor"}),
    ("structured", {"estimator": "observer"}),
    ("floored", {}),
    ("laplace", {}),
    ("correlated", {}),
    ("endless", {"sizes": (3, 2, 1)}),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind, options", CASES)
@pytest.mark.parametrize("seed", few(range(2), of=1))
def test_loops_follow_a_change_of_units(kind, options, seed):
    spread = 15 if kind == "endless" else 25
    plain, warned = loop_in_units(kind, seed, 0, **options)
    found, told = loop_in_units(kind, seed, spread, **options)
    assert {text[:20] for text in told} == {text[:20] for text in warned}
    assert found.keys() == plain.keys()
    for name, expected in plain.items():
        size = np.abs(expected).max()
        np.testing.assert_allclose(
            found[name], expected, rtol=1e-5, atol=1e-6 * size, err_msg=name
        )


@pytest.mark.parametrize("seed", [0, 3])
def test_riccati_equations_are_solved_in_units_of_their_solution(seed):
    plain, _ = loop_in_units("public", seed, 0)
    found, _ = loop_in_units("public", seed, 40)
    for name in ("K", "L"):
        np.testing.assert_allclose(found[name], plain[name], rtol=0, atol=1e-8)


# -- noise far above the plant's own size ----------------------------------------------


def exact(matrix):
    return mp.matrix(np.atleast_2d(matrix).tolist())


def blocks(first, second):
    n, m = first.rows, first.cols
    both = mp.zeros(n + second.rows, m + second.cols)
    both[:n, :m] = first
    both[n:, m:] = second
    return both


def exact_filter(system, weights, P0, factor):
    """Covariances after each reading and the least cost over the run, in 250 digits."""
    with mp.workdps(250):
        A, B, C = (exact(m) for m in (system.A, system.B, system.C))
        Q, R, W, V = (exact(weights[name]) for name in ("Q", "R", "QN", "RN"))
        n = A.rows
        later = mp.zeros(n)
        prices = []
        values = [later]
        for _ in range(SAMPLES):
            paid = R + B.T * later * B
            gain = mp.inverse(paid) * B.T * later * A
            later = Q + A.T * later * (A - B * gain)
            prices.insert(0, gain.T * paid * gain)
            values.insert(0, later)
        start = exact(P0)
        cost = trace(values[0] * start)
        noise = exact(factor) * exact(factor).T
        C = exact(np.hstack([system.C, system.C]))
        spread = blocks(start, noise)
        move = blocks(A, A)
        fresh = blocks(W, mp.zeros(n))
        found = []
        for t in range(SAMPLES):
            gain = spread * C.T * mp.inverse(C * spread * C.T + V)
            spread = spread - gain * C * spread
            own = spread[:n, :n]
            found.append(np.array(own.tolist(), float))
            cost += trace(prices[t] * own) + trace(values[t + 1] * W)
            spread = move * spread * move.T + fresh
        return np.array(found), float(cost)


def trace(matrix):
    return mp.fsum(matrix[i, i] for i in range(matrix.rows))


def sized_loop(secret, **options):
    system, weights, P0, _ = plant_in_units(0, 3, 2, 2, 0)
    noise = pc.design_output_noise(
        system,
        horizon=SAMPLES,
        adjacency=pc.StateAdjacency(secret, times=0),
        budget=BUDGET,
        models="exact",
        max_std=np.inf,
    )
    return pc.private_lqg(system, noise=noise, **weights, **options), P0, weights


@pytest.mark.parametrize("codesign", [False, True])
@pytest.mark.parametrize("size", [1e-12, 1.0, 1e6, 1e10])
def test_the_filter_keeps_its_digits_beside_large_noise(size, codesign):
    system, weights, P0, _ = plant_in_units(0, 3, 2, 2, 0)
    loop, *_ = sized_loop(
        {"s0": size, "s1": min(size, 1.0)}, P0=P0, terminal=0, codesign=codesign
    )
    covariances, cost = exact_filter(system, weights, P0, loop.noise.factor)
    deviations = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    units = deviations[:, :, None] * deviations[:, None]
    found = loop.estimate_covariance / units
    np.testing.assert_allclose(found, covariances / units, rtol=0, atol=1e-8)
    assert loop.cost(**DRAWN).total == pytest.approx(cost, rel=1e-6)


@pytest.mark.parametrize("size", [1e6, 1e10])
def test_no_bound_of_the_cost_is_above_what_a_loop_with_large_noise_costs(size):
    system, weights, P0, _ = plant_in_units(1, 3, 2, 2, 0)
    noise = pc.design_output_noise(
        system,
        horizon=SAMPLES,
        adjacency=pc.StateAdjacency({"s0": size, "s1": 0.3 * size}, times=range(3)),
        budget=BUDGET,
        models="exact",
        max_std=np.inf,
    )
    loop = pc.private_lqg(system, noise=noise, **weights, P0=P0, terminal=0)
    # beside noise as large as this no reading tells anything, and all noise costs alike
    assert 0 <= loop.optimality.excess < 1e-6


def test_margins_beside_large_noise_are_those_of_noise_that_hides_all():
    found = []
    for size in (1e8, 1e12):
        secret = {"s0": size, "s1": size, "s2": size}
        _, _, P0, _ = plant_in_units(0, 3, 2, 2, 0)
        loop, *_ = sized_loop(secret, P0=3 * P0)
        found.append(loop.margins([1, 1, 1], probability=0.1))
    np.testing.assert_allclose(*found, rtol=1e-4)


@pytest.mark.parametrize("size", [1e14, 1e54])
def test_noise_that_no_double_tells_from_the_readings_is_refused(size):
    _, _, P0, _ = plant_in_units(0, 3, 2, 2, 0)
    with pytest.raises(ValueError, match=r"1e\+13 times \(1e\+08 without P0\)"):
        sized_loop({"s0": size}, P0=P0)
    with pytest.raises(ValueError, match="times the uncertainty of the outputs"):
        sized_loop({"s0": size}, estimator="kalman")
    # exact readings of a state that is known exactly leave nothing to lose
    system = ct.ss(0.9, 1, 1, 0, 1.0, states=["s"])
    noise = pc.design_output_noise(
        system,
        horizon=SAMPLES,
        adjacency=pc.StateAdjacency({"s": size}),
        budget=BUDGET,
        models="exact",
        max_std=np.inf,
    )
    with pytest.warns(pc.PrivacyWarning, match="declares that part"):
        loop = pc.private_lqg(system, 1, 1, 0, 0, noise, P0=0)
    assert not loop.estimate_covariance.any()


def test_a_prior_that_no_double_tells_from_the_readings_is_refused():
    system, weights, P0, _ = plant_in_units(0, 3, 2, 2, 0)
    with pytest.raises(pc.UncertifiableError, match="leave P0 out"):
        sized_loop({"s0": 1.0}, P0=1e28 * P0)
    loop, *_ = sized_loop({"s0": 1.0}, P0=1e24 * P0)
    covariances, _ = exact_filter(system, weights, 1e24 * P0, loop.noise.factor)
    found = loop.estimate_covariance[-1]
    np.testing.assert_allclose(found, covariances[-1], rtol=1e-4)


def test_gains_that_do_not_know_the_noise_pass_any_size_of_it():
    costs = []
    for size in (1.0, 1e54):
        with pytest.warns(pc.PrivacyWarning, match="costs"):
            loop, _, _ = sized_loop({"s0": size})
        costs.append(loop.cost().privacy / size**2)
    assert costs[1] == pytest.approx(costs[0], rel=1e-12)


def test_noise_without_a_horizon_may_be_large_at_several_outputs():
    system, weights, *_ = plant_in_units(0, 2, 2, 2, 0)
    costs = []
    for size in (1e5, 1e6):
        noise = pc.design_output_noise(
            system,
            horizon=np.inf,
            adjacency=pc.DisturbanceAdjacency({"u1": size}),
            budget=BUDGET,
        )
        loop = pc.private_lqg(
            system, noise=noise, **weights | {"R": 1}, controls=["u0"]
        )
        costs.append(loop.steady_state_cost().total)
    # there is nothing left of the readings to lose
    assert costs[1] == pytest.approx(costs[0], rel=1e-7)


def test_noise_without_a_horizon_that_is_too_large_names_its_size():
    """Between 1e8 and 1e12 rounding decides, and so the processor."""
    system, weights, *_ = plant_in_units(0, 2, 2, 2, 0)
    noise = pc.design_output_noise(
        system,
        horizon=np.inf,
        adjacency=pc.DisturbanceAdjacency({"u1": 1e20}),
        budget=BUDGET,
    )
    with pytest.raises(ValueError, match="1e-14 of the noise's variance"):
        pc.private_lqg(system, noise=noise, **weights | {"R": 1}, controls=["u0"])
