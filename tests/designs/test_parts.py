"""The parts of output noise: each answers the same questions in the same way."""

import pickle
from functools import cache

import cases
import control as ct
import numpy as np
import pytest

import privcontrol as pc
from privcontrol.noise.process import promising

SYS = cases.random_plant(1, states=3, outputs=2)
HORIZON = 7
SECRETS = {
    "structured": dict(adjacency=pc.InitialStateAdjacency(1.0)),
    "driven": dict(adjacency=pc.DisturbanceAdjacency(1.0, norm="l2")),
    "correlated": dict(adjacency=pc.DisturbanceAdjacency(1.0)),
    "white": dict(adjacency=pc.DisturbanceAdjacency(1.0), family="iid-gaussian"),
    "filtered": dict(adjacency=pc.DisturbanceAdjacency(1.0), horizon=np.inf),
}


@cache
def designed(kind):
    options = dict(horizon=HORIZON, budget=cases.BUDGET, max_std=np.inf)
    return pc.design_output_noise(SYS, models="exact", **options | SECRETS[kind])


def part_of(kind):
    (part,) = designed(kind).parts
    return part


def noise_of(part):
    """The noise that a part alone is, over the horizon."""
    noises = [designed(kind) for kind in SECRETS]
    (noise,) = [noise for noise in noises if noise.parts == (part,)]
    return noise.over(HORIZON)


def parts():
    return [part_of(kind) for kind in SECRETS]


@pytest.fixture(params=SECRETS)
def part(request):
    return part_of(request.param)


def drawn(part, trials=3):
    rng = np.random.default_rng(1)
    first = rng.normal(size=(trials, part.once))
    return first, rng.normal(size=(trials, HORIZON, part.width))


def test_its_signal_is_that_of_its_system(part):
    first, fresh = drawn(part)
    noise = noise_of(part)
    system = pc.create_noise_iosystem(noise)
    eta = np.concatenate([np.zeros((3, HORIZON, part.once)), fresh], axis=2)
    eta[:, 0, : part.once] = first
    entries = noise.process.inputs(eta if part.width else first)
    times = noise.plant_data.step * np.arange(HORIZON)
    for k, signal in enumerate(part.signal(first, fresh)):
        response = ct.forced_response(system, times, entries[k].T)
        np.testing.assert_allclose(response.outputs.T, signal, atol=1e-12)


def test_its_signal_is_the_sum_of_its_responses_and_its_white_entries(part):
    first, fresh = drawn(part)
    entries = np.hstack([first, fresh.reshape(3, -1)])
    responses = part.responses(HORIZON)
    expected = np.zeros((3, HORIZON, 2))
    if responses.shape[2]:
        expected += np.einsum("tpr,kr->ktp", responses, entries)
    if part.white.any():
        expected += fresh * part.white
    np.testing.assert_allclose(part.signal(first, fresh), expected, atol=1e-12)


def test_its_stream_is_its_signal_in_pieces(part):
    first, fresh = drawn(part)
    going_on = part.stream(first[0])
    windows = (slice(0, 3), slice(3, 4), slice(4, HORIZON))
    pieces = [going_on(fresh[0, samples]) for samples in windows]
    expected = part.signal(first, fresh)[0]
    np.testing.assert_allclose(np.vstack(pieces), expected, atol=1e-12)


def test_its_covariance_and_variances_follow_from_its_responses(part):
    responses = part.responses(HORIZON)
    for t in range(HORIZON):
        for s in range(HORIZON):
            expected = responses[t] @ responses[s].T + np.diag(part.white**2) * (t == s)
            np.testing.assert_allclose(part.covariance(t, s), expected, atol=1e-12)
        variances = np.diag(part.covariance(t, t))
        np.testing.assert_allclose(part.variances(HORIZON)[t], variances, atol=1e-12)


def test_it_scales(part):
    first, fresh = drawn(part)
    twice = part.scaled(2.0).signal(first, fresh)
    np.testing.assert_allclose(twice, 2 * part.signal(first, fresh), rtol=1e-14)


def test_it_is_a_value_that_cannot_be_changed(part):
    again = pickle.loads(pickle.dumps(part))
    assert part == again
    assert hash(part) == hash(again)
    assert part != part.scaled(2.0)
    assert len({*parts(), part}) == len(SECRETS)
    (name,) = {"factor", "sizes", "root", "scale", "shaping"} & set(vars(part))
    array = part.shaping.A if name == "shaping" else getattr(part, name)
    with pytest.raises(ValueError, match="read-only"):
        array[...] = 0.0
    with pytest.raises(AttributeError):
        setattr(part, name, 0.0)


def test_noise_is_equal_to_noise_of_the_same_design():
    noise, again = cases.vehicle_noise(), cases.vehicle_noise()
    assert noise == again
    assert hash(noise) == hash(again)
    assert noise == pickle.loads(pickle.dumps(noise))
    assert noise != cases.vehicle_noise(horizon=99)
    parts = tuple(x.scaled(2.0) for x in noise.parts)
    assert noise != promising(noise, parts=parts)
