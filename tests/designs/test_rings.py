"""Noise of units around a ring, beside dense covariances, whole systems and balls."""

import control as ct
import mpmath as mp
import numpy as np
import pytest
from designs.test_fleets import (
    BUDGET,
    ENDLESS,
    ROOM,
    check_dense,
    corridor,
    designed,
    named,
    stay,
)
from repeats import few

import privcontrol as pc
from privcontrol.designs.endless_design import endless
from privcontrol.designs.problem import DesignProblem
from privcontrol.noise._whitened_response import WhitenedResponse
from privcontrol.noise._windows import square_of_window
from privcontrol.noise.fleet import SeparateUnits
from privcontrol.noise.parts import Filtered
from privcontrol.noise.ring import RingUnits, _Energy, _Waves, shift_behind_waves
from privcontrol.noise.shift import certified_shift
from privcontrol.numerics.balls import working_bits
from privcontrol.numerics.linalg import EPS
from privcontrol.secrets.fleet import symmetric_plant
from privcontrol.secrets.ring import Ring, _waves
from privcontrol.secrets.secret import WindowMoves
from privcontrol.systems.linear import LinearSystem, Plant


def links(count, further=0.0):
    """What each unit has of its neighbours', and of those two places away."""
    around = np.zeros((count, count))
    for step, size in ((1, 1.0), (2, further)):
        for k in range(count):
            around[k, (k + step) % count] += size
            around[k, (k - step) % count] += size
    return around - np.diag(around.sum(axis=1))


def rooms(count, by="unit", further=0.0):
    """Rooms around a court, whose air meets that of both neighbours."""
    door = 0.5 * links(count, further)
    air = np.array([[1.0, 0.0]])
    eye = np.eye(count)

    def joined(one, other):
        return np.kron(one, other) if by == "unit" else np.kron(other, one)

    A = joined(eye, ROOM) + joined(door, air.T @ air)
    B = joined(eye, 0.17 * air.T)
    return ct.ss(A, B, joined(eye, air), 0, **named(count)).sample(0.25)


@pytest.mark.parametrize("shape", few(["any", "level"], of=1))
@pytest.mark.parametrize("count, by", [(4, "unit"), (5, "kind")])
def test_dense_covariances_hide_as_much_around_a_ring(count, by, shape):
    plant = rooms(count, by)
    noise = designed(plant, stay(shape, 4))
    waves = count // 2 + 1
    assert noise.design.symmetry == f"{count} equal units around a ring, {waves} waves"
    check_dense(noise, plant, shape)


def random_filter(rng):
    a, c, d = rng.uniform([-0.6, -0.6, 0.5], [0.6, 0.6, 2.0])
    return LinearSystem(*map(np.array, ([[a]], [[1.0]], [[0.3 * c]], [[d]])))


@pytest.mark.parametrize("duration, shape", [(1, "level"), (5, "level"), (6, "any")])
@pytest.mark.parametrize("count", [4, 7])
def test_the_whole_system_is_certified_for_the_same(count, duration, shape):
    """Waves claim what the matrices of all units do, within 4e-6 and never less."""
    rng = np.random.default_rng(count)
    plant = Plant.of(rooms(count, further=0.3))
    waves = count // 2 + 1
    homes = np.minimum(np.arange(waves), 1)
    unit = RingUnits((random_filter(rng), random_filter(rng)), homes, count, 1.7)
    secret = stay(shape, duration)
    by_waves = certified_shift([unit], secret, [plant], ENDLESS).value
    whole = certified_shift([Filtered(unit.model)], secret, [plant], ENDLESS).value
    assert whole * (1 - 1e-12) <= by_waves <= whole * (1 + 4e-6)


@pytest.mark.parametrize("seed", few(range(4), of=2))
def test_plants_near_a_ring_are_certified_as_they_are(seed):
    """The bound of a disturbed plant is above what its own matrices come to."""
    rng = np.random.default_rng(seed)
    count = 5
    given = rooms(count)
    unit = RingUnits((random_filter(rng),), np.zeros(3, int), count)
    secret = stay("any", 3)
    exact = None
    for size in (0.0, 1e-11, 1e-9):
        moved = [
            matrix + size * rng.normal(size=matrix.shape) * (matrix != 0)
            for matrix in (given.A, given.B, given.C, given.D)
        ]
        plant = Plant.of(ct.ss(*moved, 0.25))
        near = symmetric_plant(secret, plant)
        assert isinstance(near, Ring)
        assert size / 10 <= max(near.distances) <= 100 * size + 1e-12
        by_waves = shift_behind_waves(unit, secret, plant)
        whole = certified_shift([Filtered(unit.model)], secret, [plant], ENDLESS).value
        assert whole * (1 - 1e-13) <= by_waves
        exact = exact or by_waves
        assert by_waves <= exact * (1 + 1e7 * size + 1e-6)


def test_no_search_without_waves_finds_less_noise():
    plant = rooms(4)
    noise = designed(plant, stay(duration=3))
    problem = DesignProblem(Plant.of(plant), noise.request)
    assert endless(problem).lower_bound == pytest.approx(
        noise.design.lower_bound, rel=2e-3
    )
    assert noise.design.gap <= 0.003
    assert noise.guarantee.gdp <= BUDGET.shift()


def test_many_rooms_around_a_court_share_filters():
    noise = designed(rooms(60), stay())
    (part,) = noise.parts
    assert isinstance(part, RingUnits)
    assert len(part.filters) < 20
    assert noise.design.gap <= 0.003
    assert 0.14 < noise.std[0] < 0.16  # between that of a corridor and of one room
    assert np.ptp(noise.std) < 1e-12
    fewer = designed(rooms(20), stay())
    assert noise.std[0] == pytest.approx(fewer.std[0], rel=2e-3)
    drawn = noise.sample(300, rng=0, horizon=40)  # 7e5 samples
    assert drawn[:, :, 10].std() == pytest.approx(noise.std[0], rel=0.03)
    beside = np.mean(drawn[:, :, 10] * np.roll(drawn, 1, axis=0)[:, :, 12])
    expected = noise.covariance(2)[0, 1]
    assert expected > 0.01 * noise.std[0] ** 2
    assert beside == pytest.approx(expected, abs=0.03 * noise.std[0] ** 2)


def test_samples_are_those_of_the_whole_system():
    rng = np.random.default_rng(0)
    for count in (4, 5):
        part = RingUnits(
            (random_filter(rng), random_filter(rng)), np.array([0, 1, 1]), count, 0.7
        )
        first, fresh = rng.normal(size=(3, part.once)), rng.normal(size=(3, 20, count))
        expected, _ = part.model.run(first @ part.state_root.T, fresh)
        assert part.signal(first, fresh) == pytest.approx(expected)
        going = part.stream(first[0])
        streamed = np.concatenate([going(fresh[0, :7]), going(fresh[0, 7:])])
        assert streamed == pytest.approx(expected[0])
        assert part.turn.T @ part.turn == pytest.approx(np.eye(count), abs=1e-14)
        response = part.model.impulse_response(200)
        for lag in (0, 2):
            dense = np.einsum("tik,tjk->ij", response[lag:], response[: 200 - lag])
            assert part.covariance(lag + 5, 5) == pytest.approx(dense, abs=1e-9)
            assert dense == pytest.approx(np.roll(dense, (1, 1), (0, 1)), abs=1e-9)
        assert part.variances(3)[2] == pytest.approx(np.diag(part.covariance(0, 0)))
        twice = part.scaled(2.0)
        assert twice.covariance(1, 0) == pytest.approx(4 * part.covariance(1, 0))


def shown_by(products, lags):
    """The largest sums over patterns of signs of 1 .. lags samples, of products."""
    found = []
    for k in range(1, lags + 1):
        gram = products[np.abs(np.subtract.outer(np.arange(k), np.arange(k)))]
        signs = 1.0 - 2.0 * (np.arange(2**k)[:, None] >> np.arange(k) & 1)
        found.append(np.einsum("ki,ij,kj->k", signs, gram, signs).max())
    return np.array(found)


def exactly_shown(system, lags):
    """The same of the whole system, in balls."""
    with working_bits(256):
        found = WhitenedResponse.of(system.in_balls())
        windows = [WindowMoves((0,), np.ones(1), k) for k in range(1, lags + 1)]
        squares = [square_of_window(found, window) for window in windows]
        return np.array(list(map(float, squares)))


@pytest.mark.parametrize(
    "wrong_in, lags",
    [("", 7), ("ABCD", 7), ("A", 1), ("B", 1), ("C", 1), ("D", 2), ("A", 6)],
)
@pytest.mark.parametrize("seed", range(3))
def test_errors_of_waves_bound_what_doubles_and_rounded_filters_get_wrong(
    seed, wrong_in, lags
):
    """Systems within the errors have products within theirs, by balls."""
    rng = np.random.default_rng(seed)
    n = 4
    A = rng.normal(size=(1, n, n))
    A *= 0.95 / np.abs(np.linalg.eigvals(A)).max()
    scale = 10.0 ** rng.integers(-3, 3, n)
    A = A * scale / scale[:, None]
    B, C = (
        rng.normal(size=(1, n, 1)) / scale[:, None],
        rng.normal(size=(1, 1, n)) * scale,
    )
    matrices = [A, B, C, np.zeros((1, 1, 1))]
    sizes = [np.abs(A), np.abs(B), np.abs(C), np.ones((1, 1, 1))]
    errors = [
        1e-9 * (name in wrong_in) * size
        for name, size in zip("ABCD", sizes, strict=True)
    ]
    values, wrong = _Waves(matrices, errors).products(lags)
    assert wrong[0] < 1e4 * (bool(wrong_in) * 1e-9 + 1e-12) * values[0, 0]
    shown = shown_by(values[0], lags)
    allowed = np.arange(1, lags + 1) ** 2 * wrong[0] + 1e-14 * shown
    for _ in range(5):
        true = [
            (matrix + error * rng.choice([-1, 1], matrix.shape))[0]
            for matrix, error in zip(matrices, errors, strict=True)
        ]
        off = np.abs(exactly_shown(LinearSystem(*true), lags) - shown)
        assert (off <= allowed).all()


def test_rings_of_one_direction_and_others_have_no_waves():
    plant = rooms(5)
    turned = plant.A.copy()
    turned[0::2, 0::2] += 1e-3 * np.roll(np.eye(5), 1, axis=0)  # from one side only
    other = ct.ss(turned, plant.B, plant.C, 0, 0.25)
    assert not isinstance(symmetric_plant(stay(), Plant.of(other)), Ring)
    uneven = plant.A.copy()
    uneven[0, 0] += 1e-3
    other = ct.ss(uneven, plant.B, plant.C, 0, 0.25)
    assert not isinstance(symmetric_plant(stay(), Plant.of(other)), Ring)
    assert symmetric_plant(stay(), Plant.of(corridor(5))).count == 5
    assert not isinstance(symmetric_plant(stay(), Plant.of(corridor(5))), Ring)
    noise = designed(rooms(16), stay())
    assert isinstance(noise.parts[0], RingUnits)
    for strange in (corridor(16), rooms(18)):
        with pytest.raises((pc.UncertifiableError, ValueError)):
            noise.guarantee_for(strange)


def test_files_keep_noise_around_a_ring(tmp_path):
    noise = designed(rooms(16), stay())
    path = tmp_path / "noise.json"
    noise.save(path)
    loaded = pc.load(path)
    assert loaded == noise
    assert str(loaded.guarantee) == str(noise.guarantee)
    with pytest.raises(pc.PrivacyError, match="too large for one gateway"):
        pc.Gateway(noise, resolution=1e-3)


def test_noise_around_a_small_ring_is_one_system_that_a_gateway_publishes():
    noise = designed(rooms(4), stay(duration=2))
    assert isinstance(noise.parts[0], Filtered)
    gateway = pc.Gateway(noise, resolution=1e-3)
    assert len(gateway.publish([0.0] * 4)) == 4


def test_several_rings_apart_are_designed_once():
    one = rooms(4)
    names = named(8)
    both = ct.ss(
        *(np.kron(np.eye(2), m) for m in (one.A, one.B, one.C)), 0, 0.25, **names
    )
    noise = designed(both, stay(duration=2))
    assert noise.design.symmetry == "2 times 4 equal units around a ring, 3 waves"
    alone = designed(one, stay(duration=2))
    assert noise.std == pytest.approx(np.tile(alone.std, 2), rel=1e-9)


def test_noise_of_a_ring_has_a_filter_for_each_wave():
    unit = LinearSystem.gain(np.eye(1))
    for homes in ([0, 0], [0, 0, 1], [0, 0, 0, 0]):
        with pytest.raises(ValueError, match="homes"):
            RingUnits((unit,), np.array(homes), 4)
    with pytest.raises(ValueError, match="homes"):
        RingUnits((unit, unit), np.zeros(3, int), 4)
    with pytest.raises(ValueError, match="one input to one output"):
        RingUnits((LinearSystem.gain(np.eye(2)),), np.zeros(3, int), 4)
    assert isinstance(RingUnits((unit,), np.zeros(3, int), 4).waves, SeparateUnits)


def test_waves_whose_errors_are_large_are_refused():
    """Filters with a zero near the circle are certified to 0.05 %, or not at all."""
    plant, secret = Plant.of(rooms(4)), stay(duration=1)
    near = symmetric_plant(secret, plant)
    excesses, refused = [], 0
    for zero in 1 - np.logspace(-1, -12, 67):
        noise = LinearSystem(*map(np.array, ([[0.0]], [[1.0]], [[-zero]], [[1.0]])))
        unit = RingUnits((noise,), np.zeros(3, int), 4)
        inverse = noise.inverse()
        exact = [(matrix, np.zeros_like(matrix)) for matrix in inverse.matrices]
        values, _ = _Waves.behind(exact, near.stacks).products(1)
        try:
            shift = shift_behind_waves(unit, secret, plant)
        except pc.UncertifiableError as error:
            assert "not proven to be stable" in str(error)
            refused += 1
            continue
        expected = np.sqrt(near.sizes @ values[:, 0] / 4)
        excesses.append(shift / expected - 1)
    assert refused > 5
    assert 3e-4 < max(excesses) < 1e-3


def test_a_ring_is_known_by_inputs_in_any_order():
    """Names sort u[10] before u[2], and a secret has its signals sorted by name."""
    count = 12
    plain = rooms(count)
    plant = ct.ss(plain.A, plain.B, plain.C, plain.D, plain.dt)
    options = {"horizon": np.inf, "budget": pc.PrivacyBudget(gdp=1.0)}
    alike, named = (
        pc.design_output_noise(
            plant, adjacency=pc.DisturbanceAdjacency(radius), **options
        )
        for radius in (1.0, dict.fromkeys(plant.input_labels, 1.0))
    )
    assert list(named.request.adjacency.signals(Plant.of(plant)))[2] == "u[11]"
    assert named.design.cost == alike.design.cost
    assert named.design.symmetry == alike.design.symmetry


def test_a_plant_counts_as_a_ring_up_to_rounding():
    plant = rooms(6)
    for size, is_ring in ((3e-7, True), (3e-6, False)):
        other = ct.ss(plant.A, plant.B, plant.C, 0, 0.25)
        other.A[0, 0] += size
        near = symmetric_plant(stay(), Plant.of(other))
        assert isinstance(near, Ring) == is_ring


@pytest.mark.parametrize("count", [4, 5, 16])
def test_the_distance_of_a_ring_is_the_rounding_of_its_waves(count):
    """What the waves are off, by 40 digits, and no more than some roundings."""
    blocks = links(count, 0.3)[:, None, :, None]
    waves, distance = _waves(blocks)
    row = blocks[0, 0, :, 0].tolist()
    with mp.workdps(40):
        for k, wave in enumerate(waves[:, 0, 0].tolist()):
            angles = [2 * mp.pi * k * d / count for d in range(count)]
            exact = mp.fsum(mp.cos(a) * x for a, x in zip(angles, row, strict=True))
            assert abs(exact - wave) <= distance
    assert distance <= (count + 30) * EPS * np.abs(row).sum()


def test_norms_in_bounds_of_waves_have_a_billionth_to_spare():
    """Y = 1 / (1 - a^2) of one state: rounding takes 1e-15 of it."""
    found = _Energy.of_powers(np.array([[[0.5]]]), np.zeros(1))
    assert 3e-10 < found.most[0] * (1 - 0.5**2) - 1 < 3e-9
