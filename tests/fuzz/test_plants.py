"""Plants, names and sizes chosen to break a claim: what the library promises about trajectories, it keeps there too."""

import pickle

import control as ct
import numpy as np
import pytest

import privcontrol as pc
from privcontrol.core import LaplaceNoise, Mechanism, UncertifiableError

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
INITIAL = pc.StateAdjacency(1.0, times=0)


def plant(A, C, *, dt=1, **names):
    A, C = np.atleast_2d(A).astype(float), np.atleast_2d(C).astype(float)
    return ct.ss(A, np.ones((len(A), 1)), C, np.zeros((len(C), 1)), dt, **names)


def laplace(adjacency, states=("p", "v")):
    """One Laplace release of both states of a plant at one time."""
    query = pc.output_query(plant(np.eye(2), np.eye(2), states=list(states)), 1)
    return Mechanism(query, LaplaceNoise([1.0, 1.0])).guarantee(adjacency)


@pytest.mark.parametrize(
    "adjacency",
    [
        lambda radii: pc.StateAdjacency(radii, times=0),
        lambda radii: pc.InitialStateAdjacency(radii, norm=1),
    ],
)
def test_releases_compose_the_same_whatever_the_order_in_which_radii_are_named(
    adjacency,
):
    one, other = adjacency({"p": 1.0, "v": 0.1}), adjacency({"v": 0.1, "p": 1.0})
    assert one == other
    both = laplace(one) + laplace(other)
    assert both.epsilon(0.0) >= 2.0  # the move of p costs 1 in each
    assert both.epsilon(0.0) == (laplace(one) + laplace(one)).epsilon(0.0)


def test_releases_about_differently_named_states_do_not_compose():
    radii = pc.StateAdjacency({"p": 1.0, "v": 0.1}, times=0)
    with pytest.raises(ValueError, match="different models"):
        laplace(radii) + laplace(radii, states=("v", "p"))


@pytest.mark.parametrize("kind", ["states", "inputs", "outputs"])
def test_equal_names_within_a_plant_are_refused(kind):
    sys = ct.ss(np.eye(2), np.eye(2), np.eye(2), 0, 1, **{kind: ["a", "a"]})
    with pytest.raises(ValueError, match=f"2 different {kind[:-1]} names"):
        pc.output_query(sys, 3)


@pytest.mark.parametrize("dt", [np.inf, np.nan])
def test_a_sampling_time_that_is_no_time_is_refused(dt):
    with pytest.raises(ct.ControlArgument, match="positive finite sampling time"):
        pc.output_query(plant(1.0, 1.0, dt=dt), 3)


def test_a_measurement_cannot_enter_the_gate_as_noise():
    sys = plant(np.eye(2), [[1, 0]], states=["a", "b"], outputs=["eta[0]"])
    noise = pc.design_output_noise(sys, horizon=3, budget=BUDGET, adjacency=INITIAL)
    with pytest.raises(ValueError, match="rename the plant's outputs"):
        pc.create_channel_iosystem(noise)
    assert pc.create_channel_iosystem(noise, inputs=["y", "eta"]).ninputs == 2


def test_a_move_too_small_for_doubles_is_not_left_bare():
    """v = 1e-100 at t = 380 is a move by 2e-329 of v(0), and 1e-100 again in the output then."""
    sys = plant(np.diag([1.0, 4.0]), np.eye(2), states=["p", "v"])
    with pytest.raises(UncertifiableError, match="below 1e-323"):
        pc.StateAdjacency({"p": 1.0, "v": 1e-100}, times=380).moves(
            pc.trajectory_manifold(sys, 381)
        )


@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
def test_certified_noise_cannot_be_changed_afterwards(family):
    noise = pc.design_output_noise(
        pc.plants.vehicle(), horizon=3, budget=BUDGET, adjacency=INITIAL, family=family
    )
    for size in (noise.factor, noise.process.scale):
        if size is not None:
            with pytest.raises(ValueError, match="read-only"):
                size[...] = 0.0


def test_a_state_may_be_named_by_any_integer():
    assert pc.StateAdjacency(1.0, states=np.int64(0)) == pc.StateAdjacency(
        1.0, states=0
    )


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_a_guarantee_is_called_exact_only_where_the_outputs_tell_the_noise_entries_apart(
    family,
):
    """Two equal modes seen as one sum: the outputs show one mixture of noise entries.

    The loss of two entries is above that of their mixture. Of Gaussian noise that of the
    mixture is certified, which is exact; of Laplace noise a bound. Laplace noise that is
    designed has one entry there.
    """
    budget = BUDGET if family == "gaussian" else pc.PrivacyBudget(epsilon=1.0)
    request = {"horizon": 3, "budget": budget, "adjacency": INITIAL, "family": family}
    apart, alike = plant(np.diag([1.0, 0.5]), [[1, 1]]), plant(np.eye(2), [[1, 1]])
    assert pc.design_output_noise(apart, **request).guarantee.exact
    mixed = pc.design_output_noise(alike, factor=np.eye(2), scale=True, **request)
    assert bool(mixed.guarantee.exact) == (family == "gaussian")
    noise = pc.design_output_noise(alike, **request)
    assert noise.guarantee.exact
    # the output is (1, 1) S eta, and a move of one state by 1 moves it by 1
    ahead = noise.factor.sum(axis=0)
    shift = (
        noise.guarantee.gdp if family == "gaussian" else noise.guarantee.epsilon(0.0)
    )
    assert 1 / np.linalg.norm(ahead) == pytest.approx(shift, rel=1e-12)


def test_the_radii_of_an_adjacency_do_not_change_behind_a_guarantee():
    adjacency = pc.StateAdjacency({"position": 1.0})
    for change in (
        lambda r: r.update(position=1e-9),
        lambda r: r.__setitem__("position", 1e-9),
        lambda r: r.clear(),
    ):
        with pytest.raises(TypeError, match="make another adjacency"):
            change(adjacency.radius)
    assert pickle.loads(pickle.dumps(adjacency)) == adjacency
    assert adjacency.to_dict()["radius"] == {"position": 1.0}
