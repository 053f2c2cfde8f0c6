"""What every design of output noise promises, for any kind.

Moves are drawn from definitions (`moves`), covariances are the noise's own, dense.
"""

import pickle
from itertools import islice

import numpy as np
import pytest
from contract import moves, table
from repeats import few

import privcontrol as pc

EVERY = list(table.noise_requests())
SCALED = [name for name in EVERY if not table.is_filtered(name)]
FILTERED = [name for name in EVERY if table.is_filtered(name)]
#: Every fourth one first.
SPREAD = [name for first in range(4) for name in SCALED[first::4]]


def covariance_of(noise, horizon):
    """The covariance (T p, T p) of a run."""
    if noise.horizon == np.inf:
        blocks = [
            [noise.covariance(t - s) for s in range(horizon)] for t in range(horizon)
        ]
    else:
        blocks = [
            [noise.covariance(t, s) for s in range(horizon)] for t in range(horizon)
        ]
    return np.block(blocks)


def whitened(covariance, columns):
    """Gamma^(-1/2) s in the noise's own directions, which must hold all of s."""
    values, vectors = np.linalg.eigh(covariance)
    noisy = values > 1e-11 * values[-1]
    inside = vectors[:, noisy].T @ columns
    outside = np.linalg.norm(vectors[:, ~noisy].T @ columns, axis=0)
    assert (outside <= 1e-5 * np.linalg.norm(columns, axis=0)).all()
    return inside / np.sqrt(values[noisy])[:, None]


def is_structured(noise):
    """Whether the noise is C A^t S eta and nothing else."""
    return noise.factor is not None and not noise.process.total.white.any()


def undone(noise, request, columns):
    """Moves in standard entries eta of the noise, of which gamma is an image."""
    if is_structured(noise):
        stack = pc.observability_stack(request.plant, noise.horizon)
        gamma = stack @ noise.factor
        eta, *_ = np.linalg.lstsq(gamma, columns, rcond=1e-14)
        left = np.linalg.norm(gamma @ eta - columns, axis=0)
        assert (left <= 1e-8 * np.linalg.norm(columns, axis=0)).all()
        return eta
    if noise.family.endswith("laplace"):
        scales = noise.stds.T.ravel() / np.sqrt(2)
        return columns / scales[:, None]
    return whitened(covariance_of(noise, request.samples), columns)


def jittered(columns, step, rng):
    """Moves of readings on a grid: up to a step more at each, to either side."""
    if not step:
        return columns
    every = [columns, columns + step * np.sign(columns)]
    every.extend(
        columns + step * rng.choice([-1.0, 1.0], size=columns.shape) for _ in range(8)
    )
    return np.hstack(every)


def of_ball(eta, rng):
    """Directions of a ball (q, 30), from which the 1-norm of eta has been climbed."""
    directions = rng.normal(size=(eta.shape[1], 30))
    for _ in range(20):
        directions = directions / np.linalg.norm(directions, axis=0)
        directions = eta.T @ np.sign(eta @ directions)
    return directions / np.linalg.norm(directions, axis=0)


def drawn_shifts(request, noise, rng):
    """Shifts of moves under each of the plants, the worst of a ball included."""
    norm = 1 if noise.family.endswith("laplace") else 2
    models = (request.plant, *request.models)
    for plants in moves.sequences(models, request.samples, request.varying, rng):
        for adjacency in request.secrets:
            kind, columns = moves.responses(adjacency, plants, request.own)
            if kind == "ball" and norm == 2:
                yield np.linalg.norm(undone(noise, request, columns), 2)
            if kind == "ball":
                eta = undone(noise, request, columns)
                columns = columns @ of_ball(eta, rng)
            columns = jittered(columns, request.resolution, rng)
            eta = undone(noise, request, columns)
            yield np.linalg.norm(eta, norm, axis=0).max()


def certified(noise):
    """The certified size of a shift: in GDP, or epsilon without delta."""
    if noise.family.endswith("laplace"):
        return noise.guarantee.epsilon(0.0)
    gdp = noise.guarantee.gdp
    if np.isfinite(gdp):
        return gdp
    # a region that may miss the plant takes its share of delta
    return pc.core.kappa_inverse(table.BUDGET.epsilon, table.BUDGET.delta)


@pytest.mark.parametrize("name", EVERY)
def test_a_design_meets_its_budget(name):
    request = table.noise_requests()[name]
    noise = table.designed(name)
    releases = request.asked.get("releases", 1)
    assert noise.guarantee.released(releases).satisfies(request.asked["budget"])
    design = noise.design
    assert not design.lower_bound > design.cost * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_no_sampled_move_exceeds_the_certified_shift(name):
    request = table.noise_requests()[name]
    noise = table.designed(name)
    rng = np.random.default_rng(0)
    found = max(drawn_shifts(request, noise, rng))
    assert found <= certified(noise) * (1 + 1e-7)
    if request.exact:
        assert found >= certified(noise) * (1 - 1e-6)


@pytest.mark.parametrize("name", EVERY)
def test_saved_and_pickled_noise_is_the_same(name, tmp_path):
    noise = table.designed(name)
    path = tmp_path / "noise.json"
    noise.save(path)
    for same in (pickle.loads(pickle.dumps(noise)), pc.load(path)):
        assert same == noise
        assert hash(same) == hash(noise)
        assert same.guarantee == noise.guarantee
        assert repr(same) == repr(noise)


@pytest.mark.parametrize("name", EVERY)
def test_a_stream_is_the_sample_of_the_same_seed(name):
    noise = table.designed(name)
    horizon = table.noise_requests()[name].samples
    only = {"horizon": horizon} if noise.horizon == np.inf else {}
    sampled = noise.sample(1, rng=3, **only)[:, 0].T
    streamed = np.array(list(islice(noise.stream(rng=3), horizon)))
    np.testing.assert_allclose(streamed, sampled, rtol=0, atol=1e-11 * noise.std.max())
    three = noise.sample(3, rng=3, **only)[:, 0].T
    np.testing.assert_allclose(three, sampled, rtol=0, atol=1e-12 * noise.std.max())


@pytest.mark.parametrize("name", EVERY)
def test_deviations_are_those_of_the_covariance(name):
    noise = table.designed(name)
    if noise.horizon == np.inf:
        largest = np.sqrt(np.diag(noise.covariance(0)))
    else:
        every = [np.diag(noise.covariance(t)) for t in range(noise.horizon)]
        largest = np.sqrt(np.max(every, axis=0))
    np.testing.assert_allclose(noise.std, largest, rtol=1e-9)


@pytest.mark.parametrize("name", few(SPREAD, of=len(SCALED[::4])))
def test_noise_twice_as_large_has_half_the_shift(name):
    request = table.noise_requests()[name]
    noise = table.designed(name)
    double = noise.with_std(2 * noise.std.max())
    np.testing.assert_allclose(double.std, 2 * noise.std, rtol=1e-12)
    found = max(drawn_shifts(request, double, np.random.default_rng(0)))
    half = certified(noise) / 2
    assert found <= half * (1 + 1e-6)
    if np.isfinite(double.guarantee.gdp):
        assert certified(double) == pytest.approx(half, rel=1e-6)


@pytest.mark.parametrize("name", FILTERED)
def test_filtered_noise_says_how_to_get_another_size(name):
    with pytest.raises(ValueError, match="inversely proportional to the gdp"):
        table.designed(name).with_std(1.0)
