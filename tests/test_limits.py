"""Sizes at the ends of doubles, hostile files, and calls that would not end.

Each of these raised an error from the depths of numpy or Python, gave nonsense, or hung.
"""

import json
import random
import time
import warnings
from decimal import Decimal

import cases
import control as ct
import numpy as np
import pytest
from design_files import digest_of
from gateway_cases import noise

import privcontrol as pc
from privcontrol import core
from privcontrol.consensus.runs import step_count
from privcontrol.numerics.checks import check_memory
from privcontrol.privacy.horizon import horizon_of
from privcontrol.secrets.effects import effects_of, growth_of
from privcontrol.secrets.secret import SecretInputs, SignalMoves
from privcontrol.secrets.secrets import Secrets
from privcontrol.systems.linear import LinearSystem, Plant, response_from_rest

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
LAG = ct.ss(0.5, 1.0, 1.0, 0.0, 1.0)
SILENT = ct.ss(0.5, 1.0, 0.0, 0.0, 1.0)  # C = 0
VEHICLE = pc.plants.vehicle()


@pytest.mark.parametrize("size", [1e300, 1e200, 1e-200, 5e-324])
@pytest.mark.parametrize(
    "secret",
    [
        pc.BallAdjacency,
        pc.StateAdjacency,
        pc.InitialStateAdjacency,
        pc.DisturbanceAdjacency,
        lambda size: pc.StateAdjacency({"x[0]": size}),
        lambda size: pc.StateAdjacency([1.0, size]),
    ],
)
def test_sizes_whose_squares_are_no_doubles_are_refused(secret, size):
    with pytest.raises(ValueError, match=r"between 1e-100 and 1e\+100"):
        secret(size)


@pytest.mark.parametrize("size", [1e-100, 1e-60, 1e60, 1e100])
@pytest.mark.parametrize("horizon", [6, np.inf])
def test_extreme_sizes_are_designed_for_or_refused_with_a_reason(size, horizon):
    secrets = [
        pc.DisturbanceAdjacency(size),
        pc.DisturbanceAdjacency(size, norm="l2"),
        pc.StateAdjacency(size, times=0),
        pc.InitialStateAdjacency(size),
    ]
    for secret in secrets:
        for floor in (0.0, 1.0):
            try:
                design = pc.design_output_noise(
                    LAG,
                    horizon=horizon,
                    budget=BUDGET,
                    adjacency=secret,
                    floor=floor,
                    max_std=np.inf,
                )
            except (pc.UncertifiableError, pc.PrivacyError) as refusal:
                assert len(str(refusal)) > 40
                continue
            assert design.guarantee.satisfies(BUDGET)


@pytest.mark.parametrize("horizon", [np.inf, 400])
@pytest.mark.parametrize("gap", [3.0, 1e108, 1e300])
def test_a_large_gap_is_no_gap(gap, horizon):
    design = pc.design_output_noise(
        LAG,
        horizon=horizon,
        budget=BUDGET,
        adjacency=pc.DisturbanceAdjacency(1.0),
        gap=gap,
    )
    assert design.guarantee.satisfies(BUDGET)


@pytest.mark.parametrize("floor", [0.0, 1.0])
def test_a_plant_whose_outputs_read_nothing_needs_no_noise(floor):
    for secret in (pc.StateAdjacency(1.0), pc.DisturbanceAdjacency(1.0)):
        with pytest.raises(pc.PrivacyError, match="no noise"):
            pc.design_output_noise(
                SILENT, horizon=5, budget=BUDGET, adjacency=secret, floor=floor
            )


@pytest.mark.parametrize("family", ["laplace", "iid-laplace", "gaussian"])
@pytest.mark.parametrize("epsilon", [1e-300, 5e-324, 1e300])
def test_budgets_at_the_ends_of_doubles(family, epsilon):
    delta = 0.0 if "laplace" in family else 1e-300
    try:
        design = pc.design_output_noise(
            LAG,
            horizon=5,
            budget=pc.PrivacyBudget(epsilon=epsilon, delta=delta),
            adjacency=pc.StateAdjacency(1.0),
            family=family,
            max_std=np.inf,
        )
    except (ValueError, pc.UncertifiableError, pc.PrivacyError) as refusal:
        assert "budget" in str(refusal) or "epsilon" in str(refusal)
    else:
        assert np.isfinite(design.std).all()


def test_a_controller_of_nan_is_refused():
    nothing = ct.ss([[np.nan]], [[1.0]], [[1.0]], [[0.0]], 0.1)
    with pytest.raises(ValueError, match="controller: .*finite"):
        pc.private_loop(VEHICLE, controller=nothing, noise=noise("floored"))


@pytest.mark.parametrize(
    "step",
    [10**4000, "1e999999999", "1e-999999999", "nan", "1/0", Decimal("1e-9999999")],
)
def test_steps_of_a_grid_are_of_this_world(step):
    with pytest.raises(ValueError, match="between 1e-300 and 1e300"):
        pc.Gateway(noise("floored"), resolution=step)


def test_numbers_of_other_types_are_read_or_refused():
    risk = pc.PrivacyBudget.from_risk(
        false_alarm=np.longdouble("0.05"), detection=np.longdouble("0.1")
    )
    assert risk == pc.PrivacyBudget.from_risk(false_alarm=0.05, detection=0.1)
    for hidden in (np.ma.masked, np.ma.array([1.0, 2.0], mask=[1, 0])):
        with pytest.raises(ValueError, match="masked"):
            core.kappa(1.0, hidden)
    for entry in (np.nan, np.inf, 1.5):
        with pytest.raises(TypeError, match="indices or names"):
            pc.ManifoldAdjacency(1.0, entries=[entry])


def test_a_change_that_lasts_for_ever_is_refused_before_it_fills_the_memory():
    """A design file of 1e9 samples took 20 GB."""
    with pytest.raises(ValueError, match="at most 10000 samples"):
        pc.DisturbanceAdjacency(1.0, duration=10**9, shape="level")


def test_what_fuzzing_found():
    with pytest.raises(ValueError, match="at least one"):
        pc.feedforward_lipschitz([])
    with pytest.raises(TypeError, match="max_std"):
        pc.design_output_noise(
            LAG,
            horizon=5,
            budget=BUDGET,
            adjacency=pc.StateAdjacency(1.0, times=0),
            max_std="abc",
        )
    query = pc.LinearQuery(np.eye(2))
    design = pc.design_gaussian(query, pc.BallAdjacency(1.0), BUDGET, tol=1e308)
    assert design.guarantee.satisfies(BUDGET)


def test_what_would_not_end_is_refused_at_once():
    design = noise("floored")
    loop = pc.private_lqg(VEHICLE, np.eye(2), 1, np.eye(2), 1, design)
    network = pc.private_consensus(0.2 * (1 - np.eye(3)), radius=1.0, budget=BUDGET)
    calls = {
        "samples": lambda: design.plot(samples=10**6),
        "trials: expected 1000 to 1e": lambda: pc.audit(design, trials=10**9),
        "trials: the results": lambda: loop.simulate(trials=2**31),
        "trials: the": lambda: design.sample(trials=2**31),
        "trials:": lambda: network.simulate([1.0, 2.0, 3.0], 50, trials=2**31),
    }
    for text, call in calls.items():
        start = time.process_time()
        with pytest.raises(ValueError, match=text):
            call()
        assert time.process_time() - start < 10


# -- hostile design files ----------------------------------------------------------------

HOSTILE = (
    *({"float": text} for text in ("0x1p99999", "nan", "inf", "x", None, "0x1p-1074")),
    *(0, -1, 10**9, 10**400, 1.5, None, True, "", [], {}, "text", [[]], "1e999999999"),
    {"shape": [2], "floats": ["0x1p0"]},
    {"shape": [-1], "floats": ["0x1p0"]},
    {"shape": [10**12], "floats": []},
    {"shape": [1], "floats": ["0x1p9999"]},
    {"shape": [1, 1], "floats": ["nan"]},
    {"type": "StateAdjacency"},
    {"kind": "plant"},
)


def places(data, path=()):
    """Paths of all values of a file, of long lists the first two."""
    numbers = isinstance(data, dict) and set(data) in ({"float"}, {"shape", "floats"})
    if path:
        yield path
    if isinstance(data, dict) and not numbers:
        for name in data:
            yield from places(data[name], (*path, name))
    elif isinstance(data, list):
        for index in range(min(len(data), 2)):
            yield from places(data[index], (*path, index))


@pytest.mark.parametrize("kind", ["structured", "laplace", "endless floored", "loop"])
def test_hostile_values_in_a_design_file_are_refused(kind, tmp_path):
    path = tmp_path / "design.json"
    if kind == "loop":
        weights = np.eye(2), 1, np.eye(2), 1
        pc.private_lqg(VEHICLE, *weights, noise("floored", 4)).save(path)
    else:
        noise(kind, 4).save(path)
    whole = path.read_text()
    chosen = random.Random(kind).choices(list(places(json.loads(whole))), k=30)
    for place in chosen:
        data = json.loads(whole)
        for hostile in random.Random(str(place)).sample(HOSTILE, 2):
            inner = data
            for name in place[:-1]:
                inner = inner[name]
            inner[place[-1]] = hostile
            data.pop("digest", None)
            data["digest"] = digest_of(data)
            path.write_text(json.dumps(data))
            try:
                pc.load(path)
            except (ValueError, pc.PrivacyError):
                continue


@pytest.mark.parametrize("text", ["[", '{"a":', '{"digest":' + "[" * 60_000])
def test_nested_brackets_are_no_design_file(text, tmp_path):
    path = tmp_path / "deep.json"
    path.write_text(text * 60_000 if len(text) < 10 else text)
    with pytest.raises(ValueError, match="design file"):
        pc.load(path)


@pytest.mark.parametrize("size", [1e-150, 1e-60, 1e60, 1e150])
def test_an_own_shape_beside_a_tiny_or_huge_floor_is_certified_in_more_digits(size):
    """Too few bits took a Gramian for singular."""
    shape = np.array([[0.3, -1.0], [2.0, 0.1]]) * size
    try:
        design = pc.design_output_noise(
            VEHICLE,
            horizon=6,
            budget=BUDGET,
            adjacency=pc.StateAdjacency(1.0, times=0),
            factor=shape,
            floor=1 / size,
            max_std=np.inf,
        )
    except (pc.PrivacyError, pc.UncertifiableError):
        return
    except ValueError as error:
        assert "floor: expected sizes up to 1e+100" in str(error)
        return
    assert design.guarantee.satisfies(BUDGET)


def test_results_beyond_32_gigabytes_are_refused():
    check_memory(4_000_000_000, "trials")
    with pytest.raises(ValueError, match=r"trials: .* 5.0e\+09 numbers where 4.3e\+09"):
        check_memory(5_000_000_000, "trials")


def test_a_gap_of_rounding_is_refused():
    def designed(gap):
        return pc.design_output_noise(
            LAG,
            horizon=np.inf,
            budget=BUDGET,
            adjacency=pc.DisturbanceAdjacency(1.0),
            models="exact",
            gap=gap,
        )

    with pytest.raises(ValueError, match="gap: expected at least 1e-12, got 5e-13"):
        designed(5e-13)


def test_growth_of_rounding_is_none():
    """Double integrators have a radius of 1 + 1e-8 by rounding."""
    for radius, grown in ((1 + 3e-7, 1.0), (1 + 3e-6, 1 + 3e-6)):
        assert growth_of(Plant.of(ct.ss(radius, 1, 1, 0, 1.0))) == grown


def test_effects_of_changes_of_one_sample_are_those_of_simulated_ones():
    """Several shapes of one sample each, of two inputs, the second of which enters at once."""
    plant = Plant.of(cases.random_plant(0, states=3, feedthrough=True))
    system = LinearSystem(*plant.matrices)
    signals = (
        SignalMoves(1, 0.5, (np.array([2.0]), np.array([-3.0]))),
        SignalMoves(0, 2.0, (np.array([-1.0]),)),
    )
    secret = SecretInputs(system, signals)
    simulated = np.abs(response_from_rest(system, secret.changes(7)))
    wanted = simulated.max(axis=(0, 2))
    np.testing.assert_allclose(secret.effects(6), wanted, rtol=1e-12)


def test_effects_are_looked_at_for_two_thousand_samples():
    """An impulse moves what integrates twice by one more each sample, from the next on."""
    twice = ct.ss([[1, 1], [0, 1]], [[0], [1]], [[1, 0]], 0, 1.0, inputs=["w"])
    secret = pc.DisturbanceAdjacency({"w": 1.0})
    assert effects_of(Secrets(secret), Plant.of(twice), horizon_of(np.inf)) == [1998.0]


@pytest.mark.parametrize(
    "ratio, kind", [(50, None), (200, "warned"), (5_000, "warned"), (20_000, "refused")]
)
def test_noise_is_large_from_a_hundred_and_absurd_from_ten_thousand_times(ratio, kind):
    """Of what a state does to its own reading: white noise for mu is 1 / mu times that."""
    request = dict(
        horizon=1,
        budget=pc.PrivacyBudget(gdp=1 / ratio),
        adjacency=pc.StateAdjacency(1.0, times=0),
        models="exact",
        family="iid-gaussian",
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if kind == "refused":
            with pytest.raises(pc.PrivacyError, match="max_std=np.inf"):
                pc.design_output_noise(LAG, **request)
        else:
            noise = pc.design_output_noise(LAG, **request)
            assert noise.std == pytest.approx([ratio])
    assert len(caught) == (kind == "warned")


def test_a_hundred_million_steps_of_averaging_are_the_most():
    with pytest.raises(ValueError, match="steps: expected at most 100000000, got"):
        step_count(10**8 + 1)
    assert step_count(10**8) == 10**8
