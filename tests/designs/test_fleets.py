"""Noise of many units, beside dense covariances, whole systems and designs of one unit."""

from dataclasses import replace

import control as ct
import numpy as np
import pytest
import scipy.linalg
from mpmath import mp
from repeats import few

import privcontrol as pc
from privcontrol.designs import fitted
from privcontrol.designs.correlated import correlated
from privcontrol.designs.endless_design import endless
from privcontrol.designs.problem import DesignProblem
from privcontrol.noise.fleet import (
    AlikeUnits,
    SeparateUnits,
    UnitNoise,
    beyond_symmetry,
    shift_behind_modes,
)
from privcontrol.noise.parts import Filtered
from privcontrol.noise.shift import certified_shift
from privcontrol.noise.whitened import Whitening
from privcontrol.privacy.horizon import horizon_of
from privcontrol.secrets.fleet import _odd_ones, parted, symmetric_plant
from privcontrol.systems.linear import LinearSystem, Plant

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
ENDLESS = horizon_of(np.inf)
ROOM = np.array([[-3.1, 2.7], [0.18, -0.19]])  # air and walls; h, K, kW


def named(count, states="aw"):
    return {
        "inputs": [f"people{i}" for i in range(count)],
        "outputs": [f"T{i}" for i in range(count)],
        "states": [f"{k}{i}" for i in range(count) for k in states],
    }


def sampled(door):
    return ct.ss(ROOM - np.diag([door, 0.0]), [[0.17], [0]], [[1, 0]], 0).sample(0.25)


def corridor(count):
    """Rooms whose air meets on a corridor, sampled in their modes."""
    mean, own = sampled(0.0), sampled(1.0)
    among = np.full((count, count), 1 / count)
    within = np.eye(count) - among
    A, B = (
        np.kron(within, one) + np.kron(among, all_of)
        for one, all_of in ((own.A, mean.A), (own.B, mean.B))
    )
    C = np.kron(np.eye(count), [[1.0, 0.0]])
    return ct.ss(A, B, C, 0, 0.25, **named(count))


def stay(shape="level", duration=12, radius=1.0):
    return pc.DisturbanceAdjacency(radius, duration=duration, shape=shape)


def designed(plant, secret, **options):
    options = {"gap": 0.003, "budget": BUDGET, "max_std": np.inf} | options
    return pc.design_output_noise(plant, horizon=np.inf, adjacency=secret, **options)


def whitened(noise, plant, samples):
    """Responses (T p, T, q) to impulses behind the root of the dense covariance."""
    p = noise.process.outputs
    blocks = [noise.covariance(lag) for lag in range(samples)]
    dense = np.zeros((samples, p, samples, p))
    for t in range(samples):
        for s in range(t + 1):
            dense[t, :, s] = blocks[t - s]
            dense[s, :, t] = blocks[t - s].T
    size = samples * p
    root = scipy.linalg.cholesky(dense.reshape(size, size), lower=True)
    impulse = np.zeros((samples, p, plant.ninputs))
    state = plant.B
    impulse[0] = plant.D
    for t in range(1, samples):
        impulse[t] = plant.C @ state
        state = plant.A @ state
    every = np.zeros((samples, p, samples, plant.ninputs))
    for start in range(samples):
        every[start:, :, start] = impulse[: samples - start]
    flat = every.reshape(size, -1)
    left = scipy.linalg.solve_triangular(root, flat, lower=True)
    return left.reshape(size, samples, -1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "count, std",
    [(1, 0.19573), (2, 0.17144), (3, 0.16336), (10, 0.15206), (1000, 0.14727)],
)
def test_rooms_on_a_corridor_cost_what_the_theory_says(count, std):
    noise = designed(corridor(count), stay())
    assert noise.std == pytest.approx(np.full(count, std), rel=1e-3)
    assert noise.design.gap <= 0.003
    assert noise.guarantee.gdp <= BUDGET.shift()
    if count > 2:
        assert noise.design.symmetry == f"{count} equal units, 2 modes"


def check_dense(noise, plant, shape, duration=4, samples=110):
    """A change of one room attains what is certified, by the dense covariance."""
    left = whitened(noise, plant, samples)
    patterns = np.tril(np.ones((duration, duration)))
    if shape == "any":
        numbers = np.arange(2**duration)[:, None] >> np.arange(duration) & 1
        patterns = 1.0 - 2.0 * numbers
    largest = 0.0
    for start in (0, 7, 20):
        moved = left[:, start : start + duration]
        for unit in range(plant.ninputs):
            sizes = np.linalg.norm(moved[:, :, unit] @ patterns.T, axis=0)
            largest = max(largest, sizes.max())
    gdp = noise.guarantee.gdp
    assert largest <= gdp * (1 + 1e-9)
    assert largest >= gdp * (1 - 1e-2)  # walls are slow


@pytest.mark.parametrize("shape", few(["any", "level"], of=1))
@pytest.mark.parametrize("count", few([3, 4], of=1))
def test_dense_covariances_hide_as_much_in_coupled_rooms(count, shape):
    plant = corridor(count)
    check_dense(designed(plant, stay(shape, 4)), plant, shape)


@pytest.mark.parametrize("count", [3, 5])
def test_the_whole_system_is_certified_for_the_same(count):
    """Modes claim what the matrices of all units do, within 4e-6."""
    plant = Plant.of(corridor(count))
    own = LinearSystem(*map(np.array, ([[0.8]], [[0.1]], [[0.3]], [[0.2]])))
    mean = LinearSystem(*map(np.array, ([[0.9]], [[0.2]], [[0.3]], [[0.25]])))
    unit = AlikeUnits(own, mean, count)
    secret = stay(duration=5)
    by_modes = certified_shift([unit], secret, [plant], ENDLESS).value
    whole = certified_shift([Filtered(unit.model)], secret, [plant], ENDLESS).value
    assert whole * (1 - 1e-12) <= by_modes <= whole * (1 + 4e-6)


def random_symmetric(rng, count):
    """Units of two states beside two shared ones, all to all alike, shuffled."""
    m, shared = 2, 2

    def both(rows, columns):
        one, other = rng.normal(size=(2, rows, columns))
        among = np.ones((count, count)) / count
        return np.kron(np.eye(count), one) + np.kron(among, other)

    ones = np.ones((count, 1))
    A = np.block(
        [
            [both(m, m), np.kron(ones, rng.normal(size=(m, shared)))],
            [
                np.kron(ones.T, rng.normal(size=(shared, m))),
                rng.normal(size=(shared,) * 2),
            ],
        ]
    )
    A *= 0.8 / np.abs(np.linalg.eigvals(A)).max()
    B = np.vstack([both(m, 1), np.kron(ones.T, rng.normal(size=(shared, 1)))])
    C = np.hstack([both(1, m), np.kron(ones, rng.normal(size=(1, shared)))])
    states, outputs = rng.permutation(len(A)), rng.permutation(count)
    A, B, C = A[np.ix_(states, states)], B[states], C[np.ix_(outputs, states)]
    return A, B, C, both(1, 1)[outputs]


@pytest.mark.parametrize("seed", few(range(6), of=1))
def test_plants_near_a_symmetric_one_are_certified_as_they_are(seed):
    """The bound of a disturbed plant is above what its own matrices come to."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(3, 6))
    matrices = random_symmetric(rng, count)
    own, mean = (
        LinearSystem(*map(np.array, ([[a]], [[1.0]], [[c]], [[1.0]])))
        for a, c in rng.uniform(-0.5, 0.5, (2, 2))
    )
    unit = AlikeUnits(own, mean, count)
    secret = stay("any", 3)
    exact = None
    for size in (0.0, 1e-11, 1e-9):
        moved = [
            matrix + size * rng.normal(size=matrix.shape) * (matrix != 0)
            for matrix in matrices
        ]
        plant = Plant.of(ct.ss(*moved, 1.0))
        near = symmetric_plant(secret, plant)
        assert near.count == count
        assert size / 10 <= max(near.distances) <= 100 * size + 1e-12
        by_modes = shift_behind_modes(unit, secret, plant)
        whole = certified_shift([Filtered(unit.model)], secret, [plant], ENDLESS).value
        assert whole * (1 - 1e-13) <= by_modes
        exact = exact or by_modes
        assert by_modes <= exact * (1 + 1e5 * size + 1e-9)


def test_a_plant_that_is_not_symmetric_has_no_modes():
    plant = corridor(4)
    plant.A[0, 0] += 1e-3
    assert symmetric_plant(stay(), Plant.of(plant)) is None or (
        max(symmetric_plant(stay(), Plant.of(plant)).distances) > 1e-4
    )
    noise = designed(corridor(12), stay())
    assert isinstance(noise.parts[0], AlikeUnits)
    other = corridor(12)
    other.A[0, 0] += 0.2
    with pytest.raises(pc.UncertifiableError, match="coupled alike"):
        noise.guarantee_for(other)


@pytest.mark.parametrize("shape", few(["level", "any"], of=1))
def test_equal_units_apart_are_one_unit_each(shape):
    one = designed(corridor(1), stay(shape))
    names = named(2)
    parts = (np.kron(np.eye(2), each) for each in (sampled(0.0).A, sampled(0.0).B))
    plant = ct.ss(*parts, np.kron(np.eye(2), [[1.0, 0.0]]), 0, 0.25, **names)
    noise = designed(plant, stay(shape))
    assert noise.design.symmetry == "2 equal units"
    assert noise.std == pytest.approx(np.repeat(one.std, 2), rel=1e-9)
    assert noise.design.gap == pytest.approx(one.design.gap, rel=1e-6)
    assert noise.covariance(3) == pytest.approx(
        np.eye(2) * one.covariance(3)[0, 0], rel=1e-9
    )
    # the ordinary search, which sees no units, finds no less
    problem = DesignProblem(Plant.of(plant), noise.request)
    assert endless(problem).lower_bound == pytest.approx(
        noise.design.lower_bound, rel=2e-3
    )


def lags(count, pole=0.9, first=0):
    names = {
        kind: [f"{letter}{i}" for i in range(first, first + count)]
        for kind, letter in (("inputs", "w"), ("outputs", "y"), ("states", "x"))
    }
    poles = np.broadcast_to(pole, count)
    eye = np.eye(count)
    return ct.ss(np.diag(poles), eye, eye, 0, 1.0, **names)


def test_many_units_apart_are_drawn_unit_by_unit():
    noise = designed(lags(40), stay(duration=6))
    (part,) = noise.parts
    assert isinstance(part, SeparateUnits)
    assert part.groups[0].count == 40
    one = designed(lags(1), stay(duration=6))
    assert noise.std == pytest.approx(np.repeat(one.std, 40))
    drawn = noise.sample(400, rng=0, horizon=60)  # 1e6 samples
    assert drawn.shape == (40, 400, 60)
    assert drawn[:, :, 10].std() == pytest.approx(one.std[0], rel=0.03)
    lagged = np.mean(drawn[:, :, 10] * drawn[:, :, 13])
    assert lagged == pytest.approx(one.covariance(3)[0, 0], rel=0.1)
    across = np.corrcoef(drawn[:, :, 5])
    assert np.abs(across - np.eye(40)).max() < 0.3
    stream = noise.stream(rng=3)
    first = np.array([next(stream) for _ in range(50)])
    assert first.T == pytest.approx(noise.sample(1, rng=3, horizon=50)[:, 0])


@pytest.mark.parametrize("kind", ["alike", "apart"])
def test_samples_are_those_of_the_whole_system(kind):
    rng = np.random.default_rng(0)
    own, mean = (
        LinearSystem(
            rng.uniform(-0.4, 0.4, (2, 2)), rng.normal(size=(2, 1)),
            rng.normal(size=(1, 2)), np.ones((1, 1)),
        )
        for _ in range(2)
    )  # fmt: skip
    part = AlikeUnits(own, mean, 4)
    if kind == "apart":
        groups = (
            UnitNoise(Filtered(own), np.array([[1], [3]])),
            UnitNoise(AlikeUnits(own, mean, 3), np.array([[4, 0, 2]])),
        )
        part = SeparateUnits(groups, 5)
    first, fresh = rng.normal(size=(3, part.once)), rng.normal(size=(3, 20, part.width))
    expected, _ = part.model.run(first @ part.state_root.T, fresh)
    assert part.signal(first, fresh) == pytest.approx(expected)
    going = part.stream(first[0])
    streamed = np.concatenate([going(fresh[0, :7]), going(fresh[0, 7:])])
    assert streamed == pytest.approx(expected[0])
    # the stationary law of the whole system
    response = part.model.impulse_response(200)
    for lag in (0, 2):
        dense = np.einsum("tik,tjk->ij", response[lag:], response[: 200 - lag])
        assert part.covariance(lag + 5, 5) == pytest.approx(dense, abs=1e-9)
        assert part.covariance(5, lag + 5) == pytest.approx(dense.T, abs=1e-9)
    assert part.variances(3)[2] == pytest.approx(np.diag(part.covariance(0, 0)))
    assert part.scaled(2.0).covariance(1, 0) == pytest.approx(4 * part.covariance(1, 0))


def test_units_of_several_kinds_each_have_their_noise():
    """Slow and fast lags, a pair with two outputs, prices, and an output of no secret."""
    poles = [0.9, 0.5, 0.9, 0.5, 0.9, 0.3]
    A = np.diag(poles)
    A[4, 5] = 0.2
    names = named(6, "x")
    names["inputs"] = names["inputs"][:5]
    plant = ct.ss(A, np.eye(6, 5), np.eye(6), 0, 1.0, **names)
    secret = pc.DisturbanceAdjacency(
        {"people0": 1, "people1": 2, "people2": 1, "people3": 2}, duration=4
    )
    weight = np.array([1.0, 3.0, 1.0, 3.0, 1.0, 1.0])
    noise = designed(plant, secret, weight=weight)
    assert noise.design.symmetry == "2 equal units and 2 equal units"
    slow = designed(lags(1), stay("any", 4))
    fast = designed(lags(1, 0.5), stay("any", 4, 2.0))
    expected = [slow.std[0], fast.std[0]] * 2 + [0.0, 0.0]
    assert noise.std == pytest.approx(expected, rel=1e-6)
    cost = 2 * slow.std[0] ** 2 + 6 * fast.std[0] ** 2
    assert noise.design.cost == pytest.approx(cost, rel=1e-6)
    assert any("no noise" in text for text in noise.guarantee.scope.caveats)
    # a change of one unit, behind the root of the covariance of those that have noise
    units = ct.ss(A[:4, :4], np.eye(4), np.eye(4), 0, 1.0)
    rest = designed(lags(4, poles[:4]), secret_of(units), weight=weight[:4])
    assert rest.std == pytest.approx(expected[:4], rel=1e-6)
    left = whitened(rest, units, 90)[:, 5:9] * np.array([1, 2, 1, 2])
    signs = 1.0 - 2.0 * (np.arange(16)[:, None] >> np.arange(4) & 1)
    sizes = [np.linalg.norm(left[:, :, k] @ signs.T, axis=0).max() for k in range(4)]
    assert max(sizes) <= rest.guarantee.gdp * (1 + 1e-9)
    assert min(sizes) >= 0.999 * rest.guarantee.gdp


def secret_of(units):
    return pc.DisturbanceAdjacency({"w0": 1, "w1": 2, "w2": 1, "w3": 2}, duration=4)


def test_moved_events_of_many_stores_are_hidden_store_by_store():
    secret = pc.DisturbanceAdjacency(1.0, moved=6)
    one = designed(lags(1, 1.0), secret)
    noise = designed(lags(3, 1.0), secret)
    assert noise.design.symmetry == "3 equal units"
    assert noise.std == pytest.approx(np.repeat(one.std, 3), rel=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"which": True},
        {"together": True},
        {"events": 2},
        {"norm": "l2"},
        {"events": 2, "separation": 5},
    ],
)
def test_secrets_that_units_share_are_designed_together(options):
    """Signs of units may not be turned alone where several move, or one or another."""
    secret = pc.DisturbanceAdjacency(1.0, **options)
    assert parted(secret, Plant.of(lags(3))) is None
    noise = designed(lags(3), secret, gap=0.05)
    assert noise.design.symmetry is None


def test_files_keep_noise_of_many_units(tmp_path):
    for noise in (designed(lags(40), stay(duration=6)), designed(corridor(12), stay())):
        path = tmp_path / "noise.json"
        noise.save(path)
        loaded = pc.load(path)
        assert loaded == noise
        assert str(loaded.guarantee) == str(noise.guarantee)
        assert loaded.design.cost == pytest.approx(noise.design.cost)


def test_noise_of_few_units_is_one_system_that_a_gateway_publishes():
    noise = designed(lags(3), stay(duration=3))
    assert isinstance(noise.parts[0], Filtered)
    gateway = pc.Gateway(noise, resolution=1e-3)
    assert len(gateway.publish([0.0, 0.0, 0.0])) == 3


def test_noise_of_up_to_200_states_is_one_system():
    for count, kind in ((200, Filtered), (201, SeparateUnits)):
        noise = designed(lags(count), pc.DisturbanceAdjacency(1.0), order=1)
        assert isinstance(noise.parts[0], kind)


def test_entries_are_alike_up_to_a_ten_millionth():
    for size, places in ((3e-8, [-1, -1]), (3e-7, [2, -1])):
        rows = np.ones((2, 5))
        rows[0, 2] += size
        np.testing.assert_array_equal(_odd_ones(rows, 1.0), places)


def test_what_noise_of_many_units_does_not_do_is_refused():
    noise = designed(lags(40), stay(duration=6))
    with pytest.raises(pc.PrivacyError, match="too large for one gateway"):
        pc.Gateway(noise, resolution=1e-3)
    with pytest.raises(ValueError, match="many units"):
        noise.plot()
    with pytest.raises(ValueError, match="many units"):
        pc.eavesdropper(noise)
    with pytest.raises(pc.PrivacyError, match="so many units"):
        designed(lags(40), stay(duration=6), bound=100.0)
    coupled = lags(40)
    coupled.A[0, 1] = 0.1
    with pytest.raises(pc.UncertifiableError, match="nothing connects"):
        noise.guarantee_for(coupled)


def test_a_lost_unit_is_not_certified():
    """Noise that leaves out a unit, or takes another's, is none for the plant."""
    plant = Plant.of(lags(4))
    unit = Filtered(LinearSystem.gain(np.eye(1) * 5.0))
    whole = SeparateUnits((UnitNoise(unit, np.arange(4)[:, None]),), 4)
    fewer = SeparateUnits((UnitNoise(unit, np.arange(3)[:, None]),), 4)
    found = certified_shift([whole], stay(duration=2), [plant], ENDLESS)
    single = certified_shift([unit], stay(duration=2), [Plant.of(lags(1))], ENDLESS)
    assert found.value == single.value
    with pytest.raises(pc.UncertifiableError, match="nothing connects"):
        certified_shift([fewer], stay(duration=2), [plant], ENDLESS)
    with pytest.raises(ValueError, match="different outputs"):
        SeparateUnits((UnitNoise(unit, np.array([[0], [0]])),), 2)
    with pytest.raises(ValueError, match="places"):
        UnitNoise(unit, np.array([[0.5]]))
    with pytest.raises(ValueError, match="one input to one output"):
        AlikeUnits(LinearSystem.gain(np.eye(2)), LinearSystem.gain(np.eye(1)), 3)


def axes(sizes):
    """Axes of drones, two integrators each, that nothing connects; states are mixed."""
    count = len(sizes)
    order = np.arange(2 * count).reshape(count, 2).T.ravel()
    A = np.kron(np.eye(count), [[1, 0.1], [0, 1]])[np.ix_(order, order)]
    B = np.kron(np.diag(sizes), [[0.005], [0.1]])[order]
    C = np.kron(np.eye(count), [[1, 0]])[:, order]
    return ct.ss(A, B, C, 0, 0.1, inputs=[f"wind{k}" for k in range(count)])


def dense_sizes(root, plant, horizon, patterns):
    """Sizes of changes of one signal behind a root, with responses sample by sample."""
    pulse = [plant.D] + [
        plant.C @ np.linalg.matrix_power(plant.A, t) @ plant.B for t in range(horizon)
    ]
    noisy = root.any(axis=1)
    found = []
    for start in range(horizon):
        for pattern in patterns:
            moved = np.zeros((horizon, plant.noutputs, plant.ninputs))
            for late, size in enumerate(pattern):
                for t in range(start + late, horizon):
                    moved[t] += size * pulse[t - start - late]
            flat = moved.reshape(len(root), -1)
            assert not flat[~noisy].any()
            left = np.linalg.solve(root[np.ix_(noisy, noisy)], flat[noisy])
            found.append(np.linalg.norm(left, axis=0))
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("shape, duration", [("level", 1), ("level", 3), ("any", 2)])
def test_axes_apart_are_designed_one_by_one_over_a_horizon(shape, duration):
    horizon, sizes = 50, (1.0, 2.0, 1.0)
    plant = axes(sizes)
    secret = stay(shape, duration)
    options = {"budget": BUDGET, "adjacency": secret, "max_std": np.inf, "gap": 0.01}
    noise = pc.design_output_noise(plant, horizon=horizon, **options)
    ones = [
        pc.design_output_noise(axes([size]), horizon=horizon, **options)
        for size in sizes
    ]
    cost, bound = (
        sum(getattr(one.design, name) for one in ones)
        for name in ("cost", "lower_bound")
    )
    assert noise.design.cost == pytest.approx(cost, rel=1e-7)
    assert noise.design.lower_bound == pytest.approx(bound, rel=1e-7)
    assert noise.design.gap <= 0.01
    # all of the noise, behind its own root, hides what it promises and no more
    (part,) = noise.parts
    patterns = [np.ones(k) for k in range(1, duration + 1)]
    if shape == "any":
        patterns = [np.array([1.0, 1.0]), np.array([1.0, -1.0])]
    largest = dense_sizes(part.root, plant, horizon, patterns).max()
    gdp = noise.guarantee.gdp
    assert gdp * (1 - 1e-4) <= largest <= gdp * (1 + 1e-9)
    # a design of all axes at once, within its own gap
    whole = correlated(DesignProblem(Plant.of(plant), noise.request))
    assert whole.lower_bound <= cost * (1 + 1e-9)
    assert bound <= whole.cost * (1 + 1e-9)


def test_noise_of_a_long_run_is_certified_once_and_not_before(monkeypatch):
    """It holds all moves with a margin for rounding, so one certificate will do."""
    looked, certified = [], []
    certify = DesignProblem.certify

    def noted(problem, parts):
        certified.append(certify(problem, parts))
        return certified[-1]

    monkeypatch.setattr(DesignProblem, "certify", noted)
    monkeypatch.setattr(fitted, "shift_sizes", lambda *given: looked.append(given))
    noise = pc.design_output_noise(
        axes((1.0, 1.0)),
        horizon=150,
        budget=BUDGET,
        adjacency=stay("level", 1),
        max_std=np.inf,
        gap=0.01,
    )
    assert not looked
    assert len(certified) == 1
    allowed = noise.request.allowed_shift
    assert allowed * (1 - 1e-6) <= noise.guarantee.gdp <= allowed
    assert noise.design.gap <= 0.01


def test_prices_that_join_axes_are_designed_together():
    plant = axes((1.0, 1.0, 1.0))
    weight = np.eye(3) + 0.5
    options = {"budget": BUDGET, "adjacency": stay("level", 1), "max_std": np.inf}
    noise = pc.design_output_noise(plant, horizon=50, weight=weight, **options)
    each = pc.design_output_noise(plant, horizon=50, **options)
    roots = [one.parts[0].root.reshape(50, 3, 50, 3) for one in (noise, each)]
    joined, apart = (np.abs(root[:, 0, :, 1]).max() for root in roots)
    assert apart == 0
    assert joined > 0


def test_roots_with_zeros_certify_plants_that_have_none():
    """What a root keeps apart a coupled plant joins, and the shift is that plant's."""
    horizon, plant = 50, axes((1.0, 1.0, 1.0))
    options = {"budget": BUDGET, "adjacency": stay("level", 1), "max_std": np.inf}
    noise = pc.design_output_noise(plant, horizon=horizon, **options)
    coupled = axes((1.0, 1.0, 1.0))
    coupled.A[3, 1] = 0.2
    coupled.A[4, 2] = -0.1
    (part,) = noise.parts
    found = certified_shift([part], stay("level", 1), [Plant.of(coupled)], horizon)
    sizes = dense_sizes(part.root, coupled, horizon, [[1.0]])
    assert found.value == pytest.approx(sizes.max(), rel=1e-6)
    assert found.value >= sizes.max() * (1 - 1e-12)
    assert found.value > 1.01 * noise.guarantee.gdp
    assert found.squares == pytest.approx(sizes.ravel() ** 2, rel=1e-6)


def test_errors_of_blocks_bound_what_doubles_get_wrong():
    rng = np.random.default_rng(0)
    block = np.tril(0.3 * rng.normal(size=(30, 30)), -1) + np.eye(30)
    other = np.tril(0.2 * rng.normal(size=(40, 40)), -1) + np.diag(np.arange(1, 41.0))
    first = np.sort(rng.permutation(130)[:30])
    rest = np.setdiff1d(np.arange(130), first)
    order = [first, rest[:30], rest[30:70], rest[70:]]
    root = np.zeros((130, 130))
    for rows, own in zip(order, (block, block, other, np.eye(30)), strict=True):
        root[np.ix_(rows, rows)] = own
    columns = rng.normal(size=(130, 12))
    columns[order[1], :6] = columns[order[0], :6]
    columns[order[0], 7:] = 0.0
    solved, wrong = Whitening(root)(columns)
    exact: list[mp.mpf] = []
    with mp.workdps(40):
        for row, entry in zip(root, columns[:, 3], strict=True):
            done = mp.fdot(zip(row[: len(exact)].tolist(), exact, strict=True))
            exact.append((mp.mpf(entry) - done) / mp.mpf(row[len(exact)]))
        errors = [
            abs(one - mp.mpf(x)) for one, x in zip(exact, solved[:, 3], strict=True)
        ]
    assert all(mp.mpf(w) >= error for w, error in zip(wrong[:, 3], errors, strict=True))
    assert np.linalg.solve(root, columns) == pytest.approx(solved, rel=1e-9)
    assert wrong.max() < 1e-8 * np.abs(solved).max()


def test_plants_far_from_a_symmetric_one_are_covered_until_their_modes_say_nothing():
    """The bound of what A adds is a geometric series, which ends at one."""
    near = symmetric_plant(stay(), Plant.of(corridor(4)))
    size = beyond_symmetry(replace(near, distances=(0.0, 1.0, 0.0, 0.0)), 0, 0, 1, 0)
    for share in (0.3, 0.7, 0.99):
        far = replace(near, distances=(share, 0.0, 0.0, 0.0))
        added = beyond_symmetry(far, 1.0, 1.0, 1.0, 0.0)
        assert added == pytest.approx(size * share / (1 - share), rel=1e-8)
        assert added >= size * share / (1 - share)
    far = replace(near, distances=(0.5, 0.0, 0.0, 0.0))
    for states in (2.0, 3.0, np.inf, np.nan):
        with pytest.raises(pc.UncertifiableError, match="A by 0.5"):
            beyond_symmetry(far, states, 1.0, 1.0, 0.0)
