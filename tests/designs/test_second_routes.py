"""Claims that were refuted once, each by a second route."""

import cases
import control as ct
import mpmath as mp
import numpy as np
import pytest
from repeats import few

import privcontrol as pc

BUDGET = cases.BUDGET
NON_MINIMUM_PHASE = ct.ss([[0.9, 0.3], [0, 0.5]], [[0.3], [0.7]], [[1.0, -0.5]], 0, 1.0)


def forced(A, B, C, D, T):
    """The lower triangular map from w to y in mpmath, for one input and one output."""
    A, B, C = (mp.matrix(M.tolist()) for M in (A, B, C))
    impulse, state = [mp.mpf(float(D[0, 0]))], B
    for _ in range(T - 1):
        impulse.append((C * state)[0])
        state = A * state
    return mp.matrix(T, T), impulse


def toeplitz(impulse):
    T = len(impulse)
    matrix = mp.matrix(T, T)
    for t in range(T):
        for s in range(t + 1):
            matrix[t, s] = impulse[t - s]
    return matrix


@pytest.mark.parametrize("T", [10, 30])
def test_driven_noise_of_a_non_minimum_phase_plant_hides_what_it_claims(T):
    noise = pc.design_output_noise(
        NON_MINIMUM_PHASE,
        horizon=T,
        budget=BUDGET,
        adjacency=pc.DisturbanceAdjacency(1.0, norm="l2"),
    )
    (part,) = noise.parts
    with mp.workdps(120):
        P = noise.plant
        _, plant_impulse = forced(P.A, P.B, P.C, P.D, T)
        _, own = forced(P.A, part.response.B, P.C, part.response.D, T)
        # the first sample has no feedthrough: outputs 1.. answer to inputs 0..
        moves = toeplitz(plant_impulse[1:])
        drawn = toeplitz([entry * mp.mpf(float(part.sizes[0])) for entry in own[1:]])
        shifts = drawn**-1 * moves
        worst = max(mp.norm(shifts[:, k]) for k in range(T - 1))
        assert abs(shifts[1, 0]) < mp.mpf(10) ** -60  # a multiple of the same entry
    assert float(worst) <= noise.guarantee.gdp * (1 + 1e-15)
    assert float(worst) == pytest.approx(noise.guarantee.gdp, rel=1e-12)
    # rounding sigma into E and F entry by entry is what broke the claim
    again = noise.guarantee_for([NON_MINIMUM_PHASE])
    assert again.gdp == pytest.approx(noise.guarantee.gdp, rel=1e-12)
    single = noise.guarantee_for(
        [NON_MINIMUM_PHASE], adjacency=pc.DisturbanceAdjacency(2.0)
    )
    assert single.gdp == pytest.approx(2 * noise.guarantee.gdp, rel=1e-12)


@pytest.mark.parametrize("norm", ["l2", "single"])
@pytest.mark.parametrize("hidden", ["ac", "abc"])
@pytest.mark.parametrize("radii", [{"a": 1.0, "b": 2.0}, {"a": 1.0, "c": 0.1}])
def test_signals_of_one_ball_that_enter_alike_add_up(radii, hidden, norm):
    """Two signals that enter where one noise does, by singular values."""
    B = np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 0.5]])
    plant = ct.ss([[0.8, 0.3], [0, 0.5]], B, np.eye(2), 0, 1, inputs=["a", "b", "c"])
    T = 6
    sizes = dict(zip(hidden, (1.0, 2.0, 3.0)))
    noise = pc.design_output_noise(
        plant,
        horizon=T,
        budget=BUDGET,
        adjacency=pc.DisturbanceAdjacency(sizes, norm="l2"),
    )
    assert noise.guarantee_for([plant]).gdp == pytest.approx(noise.guarantee.gdp)
    claimed = noise.guarantee_for(
        [plant], adjacency=pc.DisturbanceAdjacency(radii, norm=norm)
    )
    own = noise.parts[0].responses(T)[1:].reshape(2 * (T - 1), -1)
    impulse = [np.linalg.matrix_power(plant.A, t) @ B for t in range(T - 1)]
    frames = np.zeros((T - 1, 2, T - 1, 3))
    for t in range(T - 1):
        for s in range(t + 1):
            frames[t, :, s] = impulse[t - s]
    moved = np.tile([radii.get(name, 0.0) for name in "abc"], T - 1)
    moves = frames.reshape(2 * (T - 1), -1) * moved
    shifts = np.linalg.pinv(own) @ moves
    assert np.allclose(own @ shifts, moves, atol=1e-12)
    exact = np.linalg.norm(shifts, axis=0).max()
    if norm == "l2":
        exact = np.linalg.norm(shifts, 2)
    assert exact <= claimed.gdp * (1 + 1e-12)
    assert claimed.gdp == pytest.approx(exact, rel=1e-9)


def dense_shift(noise, plant, adjacency):
    """The largest shift of single moves from dense matrices."""
    T = noise.horizon
    gamma = np.block([[noise.covariance(t, s) for s in range(T)] for t in range(T)])
    moves = adjacency.moves(pc.trajectory_manifold(plant, T)).columns
    images = pc.observability_stack(plant, T) @ moves
    return np.sqrt(np.sum(images * np.linalg.solve(gamma, images), axis=0).max())


@pytest.mark.parametrize("seed", few(range(40), of=8))
def test_a_floor_over_fewer_outputs_than_states_is_designed(seed):
    rng = np.random.default_rng(seed)
    n, p, T = 3, int(rng.integers(1, 3)), int(rng.integers(1, 3))
    matrices = rng.normal(size=(n, n)), np.ones((n, 1)), rng.normal(size=(p, n))
    plant = ct.ss(*matrices, 0, 1.0)
    radius = {"x[0]": 1.0} if seed % 2 else 1.0
    adjacency = pc.StateAdjacency(radius)
    floor = 0.5 * (1 + seed % 3)
    noise = pc.design_output_noise(
        plant,
        horizon=T,
        budget=BUDGET,
        adjacency=adjacency,
        floor=floor,
        max_std=np.inf,
    )
    shift = dense_shift(noise, plant, adjacency)
    assert shift <= noise.guarantee.gdp * (1 + 1e-9)
    assert shift == pytest.approx(noise.guarantee.gdp, rel=1e-3)
    assert noise.design.gap < 1e-3


def two_outputs():
    return ct.ss([[1, 0.1], [0, 1]], [[0.005], [0.1]], np.eye(2), 0, 0.1)


def renamed():
    vehicle = pc.plants.vehicle()
    return ct.ss(vehicle, outputs=["z"], states=["position", "velocity"])


def slower():
    A, B, C = [[1, 0.1], [0, 1]], [[0.005], [0.1]], [[1, 0]]
    return ct.ss(A, B, C, 0, 0.2, states=["position", "velocity"], outputs=["y"])


@pytest.mark.parametrize(
    "model",
    [
        two_outputs(),
        renamed(),
        slower(),
        pc.PlantBox(two_outputs(), A=1e-3 * np.eye(2)),
    ],
)
def test_models_of_other_outputs_are_refused(model):
    noise = cases.vehicle_noise(floor=1.0)
    with pytest.raises(
        ct.ControlDimension, match="models: expected plants with outputs y"
    ):
        noise.guarantee_for(model)


def test_a_laplace_ball_in_a_list_is_called_a_ball():
    secrets = [pc.InitialStateAdjacency(1.0), pc.StateAdjacency(1.0, times=0)]
    with pytest.raises(ValueError, match="for a 2-norm ball of initial states with"):
        cases.vehicle_noise(
            secrets, family="laplace", budget=pc.PrivacyBudget(epsilon=1.0)
        )


def test_a_lone_ball_has_structured_noise():
    noise = cases.vehicle_noise(pc.InitialStateAdjacency(1.0))
    assert noise.factor is not None
    assert "A and C exact" in noise.guarantee.sentence


@pytest.mark.parametrize(
    "call",
    [
        lambda noise: noise.covariance("now"),
        lambda noise: noise.covariance(0.5),
        lambda noise: noise.guarantee_for([pc.plants.vehicle()], adjacency=()),
        lambda noise: noise.guarantee_for(3),
        lambda noise: pc.create_noise_iosystem([1]),
        lambda noise: pc.create_noise_iosystem(noise, name=3),
        lambda noise: pc.eavesdropper(noise).error_covariance(0.5),
        lambda noise: cases.vehicle_noise(models=3),
    ],
)
def test_plausible_mistakes_are_answered_in_words(call):
    with pytest.raises((TypeError, ct.ControlArgument), match="expected"):
        call(cases.vehicle_noise())


def test_a_model_that_leaves_the_column_space_after_some_samples_is_refused():
    """The first outputs agree with structured noise, and a later one does not."""
    one = ct.ss(1.0, 1.0, 1.0, 0, 1.0, states=["p"])
    late = ct.ss(
        [[1.0, 1.0], [0, 1]], [[0], [1.0]], [[1.0, 0]], 0, 1.0, states=["p", "v"]
    )
    noise = pc.design_output_noise(
        one, horizon=6, budget=BUDGET, adjacency=pc.StateAdjacency(1.0, times=0)
    )
    position = pc.StateAdjacency({"p": 1.0}, times=0)
    kept = noise.guarantee_for([late], adjacency=position)
    assert kept.gdp == pytest.approx(noise.guarantee.gdp)
    with pytest.raises(pc.NotRealizableError, match="leaves the column space"):
        noise.guarantee_for([late])  # a move of v is silent at t = 0 only
