"""Noise for plants without states, y = D w: everything enters at once, and is forgotten."""

import cases
import control as ct
import numpy as np
import pytest
from repeats import few

import privcontrol as pc

GAINS = np.array([[1.0, 0.5], [0.0, 1.0]])
STAY = pc.DisturbanceAdjacency({"load": 1.0}, duration=3, shape="level")
SECRETS = {
    "pulse": pc.DisturbanceAdjacency(1.0),
    "stay": STAY,
    "energy": pc.DisturbanceAdjacency(1.0, norm="l2"),
    "events": pc.DisturbanceAdjacency(
        1.0, duration=2, shape="level", events=2, separation=3
    ),
}


def static(gains=GAINS):
    """Meters of a load and of what others draw."""
    names = dict(inputs=["load", "others"], outputs=["meter", "other meter"])
    return ct.ss([], [], [], gains, 1.0, **names)


def with_a_state():
    """The same plant with a state that nothing reaches and nobody sees."""
    names = dict(inputs=["load", "others"], outputs=["meter", "other meter"])
    still = np.zeros((1, 1))
    return ct.ss(still, np.zeros((1, 2)), np.zeros((2, 1)), GAINS, 1.0, **names)


def design(secret=STAY, horizon=np.inf, plant=None, **options):
    plant = static() if plant is None else plant
    asked = dict(horizon=horizon, budget=cases.BUDGET, adjacency=secret, **options)
    return pc.design_output_noise(plant, **asked)


#: Events of 60 samples, the last ones, take seconds.
EVERY = [(kind, horizon) for kind in SECRETS for horizon in (8, np.inf, 60)]


@pytest.mark.parametrize("kind, horizon", few(EVERY, of=len(EVERY) - 1))
@pytest.mark.filterwarnings("ignore:the noise costs")
def test_a_static_plant_costs_what_it_does_with_an_idle_state(kind, horizon, tmp_path):
    noise = design(SECRETS[kind], horizon)
    same = design(SECRETS[kind], horizon, with_a_state())
    assert noise.std == pytest.approx(same.std, rel=1e-6)
    assert noise.guarantee.satisfies(cases.BUDGET)
    noise.save(tmp_path / "noise.json")
    loaded = pc.load(tmp_path / "noise.json")
    assert loaded.guarantee == noise.guarantee
    assert loaded.plant.nstates == 0


@pytest.mark.parametrize("horizon", [1, 8, np.inf])
def test_a_pulse_is_hidden_by_noise_of_its_gains(horizon):
    """One sample sees it: S >= g g^T / y*^2 for each column g of the gains."""
    noise = design(pc.DisturbanceAdjacency(1.0), horizon)
    covariance = noise.covariance(0) if horizon == np.inf else noise.covariance(0, 0)
    left = np.linalg.solve(covariance, GAINS)
    squares = np.einsum("ij,ij->j", GAINS, left)
    shift = cases.BUDGET.shift()
    assert squares.max() <= shift**2 * (1 + 1e-9)
    assert squares.max() >= shift**2 * 0.99


@pytest.mark.parametrize("horizon", [8, np.inf])
@pytest.mark.parametrize(
    "secret",
    [
        pc.StateAdjacency(1.0),
        pc.StateAdjacency({"x": 1.0}, times=0),
        pc.InitialStateAdjacency(1.0),
        [STAY, pc.InitialStateAdjacency(1.0)],
    ],
)
def test_states_of_a_static_plant_are_no_secret(secret, horizon):
    with pytest.raises(ValueError, match="no states that could be secret"):
        design(secret, horizon)


def test_models_of_a_static_plant():
    other = static(1.1 * GAINS)
    for horizon in (8, np.inf):
        noise = design(horizon=horizon, models=[other])
        assert noise.std[0] == pytest.approx(
            1.1 * design(horizon=horizon).std[0], rel=1e-2
        )
    box = pc.PlantBox.around(static(), relative=0.1)
    covered = design(horizon=8, models=box, floor="auto")
    assert covered.guarantee_for(other).satisfies(cases.BUDGET)
    with pytest.raises(ValueError, match="plants without any pass a list"):
        design(models=box)


def test_a_static_plant_in_a_loop_and_behind_a_gateway(tmp_path):
    noise = design(horizon=8)
    controller = ct.ss([[0.5]], [[1.0, 0.0]], [[-0.1], [0.2]], np.zeros((2, 2)), 1.0)
    loop = pc.private_feedback(static(), controller, noise)
    response = loop.simulate(trials=2, rng=0)
    assert np.isfinite(response.outputs).all()
    assert loop.guarantee.satisfies(cases.BUDGET)
    weights = dict(Q=1.0, R=1.0, QN=1.0, RN=1.0)
    with pytest.raises(ValueError, match="no states that an observer could estimate"):
        pc.private_lqg(static(), **weights, noise=noise)
    empty = dict(K=np.zeros((2, 0)), L=np.zeros((0, 2)))
    with pytest.raises(ValueError, match="no states that an observer could estimate"):
        pc.private_loop(static(), **empty, noise=noise)
    floored = design(horizon=8, floor=0.5, resolution=0.01)
    asked = dict(path=tmp_path / "gateway.json", resolution=["1/100", "1/100"])
    with pc.Gateway(floored, **asked) as gateway:
        published = [gateway.publish([1.0, 2.0]) for _ in range(3)]
    assert np.isfinite(published).all()
