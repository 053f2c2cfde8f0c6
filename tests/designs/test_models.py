"""Guarantees when the plant is not the model: exact over several plants, refused where nothing protects."""

import cases
import control as ct
import numpy as np
import oracles
import pytest
from repeats import few

import privcontrol as pc
from privcontrol.core import kappa_inverse

ALLOWED = kappa_inverse(1.0, 1e-2)


def changed(sys, *, name="model", **matrices):
    """The plant with other matrices."""
    parts = {key: matrices.get(key, getattr(sys, key)) for key in "ABCD"}
    labels = dict(
        states=sys.state_labels,
        inputs=sys.input_labels,
        outputs=sys.output_labels,
        name=name,
    )
    return ct.ss(*parts.values(), sys.dt, **labels)


def vehicle(A_11=1.0, A_12=0.1):
    return changed(pc.plants.vehicle(), A=np.array([[A_11, A_12], [0, 1]]))


def state_images(plant, adjacency, horizon):
    moves = adjacency.moves(pc.trajectory_manifold(plant, horizon)).columns
    return oracles.dense_observability(plant.A, plant.C, horizon) @ moves


def test_without_a_floor_a_wrong_model_lets_the_eavesdropper_find_the_position_exactly():
    # the harm: position private, v(0) known; the noise is one constant, the wrong mode 0.999^t p(0) is not
    noise, T = cases.vehicle_noise(), 100
    p0, v0 = -20.0, 1.5
    state, y = np.array([p0, v0]), np.empty(T)
    for t in range(T):
        y[t] = state[0]
        state = vehicle(0.999).A @ state
    published = y + noise.sample(1, rng=0)[0, 0]
    stack = oracles.dense_observability(vehicle(0.999).A, [[1.0, 0]], T)
    known = published - stack[:, 1] * v0
    found, offset = np.linalg.lstsq(
        np.column_stack([stack[:, 0], np.ones(T)]), known, rcond=None
    )[0]
    assert found == pytest.approx(p0, abs=1e-9)
    assert offset == pytest.approx(noise.sample(1, rng=0)[0, 0, 0], abs=1e-9)
    with pytest.raises(
        pc.NotRealizableError, match="leaves the column space of the noise.*white floor"
    ):
        noise.guarantee_for([vehicle(0.999)])


def test_a_floor_of_one_metre_bounds_what_a_wrong_model_reveals():
    noise = cases.vehicle_noise(floor=1.0)
    covariance = oracles.stacked_covariance(noise)
    for a in (0.999, 0.9995, 1.0, 1.001):
        images = state_images(vehicle(a), cases.POSITION, 100)
        truth = oracles.shift(covariance, images)
        assert noise.guarantee_for([vehicle(a)]).gdp == pytest.approx(truth, rel=1e-9)
    worst = noise.guarantee_for([vehicle(a) for a in np.linspace(0.999, 1.001, 21)])
    assert worst.gdp == pytest.approx(
        0.636801, abs=1e-6
    )  # above the budget: the floor must be designed for it
    assert "one of 21 models" in worst.sentence


def test_a_design_for_models_meets_the_budget_under_each():
    models = [vehicle(0.999), vehicle(1.001)]
    noise = cases.vehicle_noise(floor=1.0, models=models)
    covariance = oracles.stacked_covariance(noise)
    for model in (vehicle(), *models):
        images = state_images(model, cases.POSITION, 100)
        truth = oracles.shift(covariance, images)
        assert truth <= noise.guarantee.gdp * (1 + 1e-9)
        assert noise.guarantee.gdp <= ALLOWED
    assert noise.guarantee.gdp == pytest.approx(ALLOWED, rel=1e-6)
    assert noise.design.gap < 1e-6
    assert noise.design.cost > cases.vehicle_noise(floor=1.0).design.cost
    with pytest.raises(pc.PrivacyError, match="raise the floor"):
        cases.vehicle_noise(floor=1e-3, models=models)


@pytest.mark.parametrize("seed", few(range(50), of=8))
def test_guarantee_equals_the_dense_computation_on_random_plants(seed):
    rng = np.random.default_rng(seed)
    plant, T = cases.random_plant(seed, states=2 + seed % 3, outputs=1 + seed % 2), 12
    models = [
        changed(plant, A=plant.A * (1 + 0.05 * rng.normal(size=plant.A.shape)),
                C=plant.C * (1 + 0.05 * rng.normal(size=plant.C.shape))) for _ in range(2)
    ]  # fmt: skip
    adjacency = pc.StateAdjacency(1.0, times=range(3))
    options = [
        dict(floor=rng.uniform(0.5, 2, plant.noutputs)),
        dict(family="iid-gaussian"),
    ][seed % 2]
    noise = pc.design_output_noise(
        plant,
        horizon=T,
        budget=cases.BUDGET,
        adjacency=adjacency,
        max_std=np.inf,
        **options,
    )
    images = np.hstack([state_images(model, adjacency, T) for model in models])
    assert noise.guarantee_for(models).gdp == pytest.approx(
        oracles.shift(oracles.stacked_covariance(noise), images), rel=1e-9
    )


def test_models_of_one_column_space_need_no_floor():
    # with the position private the sampling time in A_12 does not matter: every move is a constant
    noise = cases.vehicle_noise()
    assert noise.guarantee_for(
        [vehicle(A_12=0.2), vehicle(A_12=0.05)]
    ).gdp == pytest.approx(noise.guarantee.gdp)
    assert cases.vehicle_noise(models=[vehicle(A_12=0.2)]).guarantee.gdp <= ALLOWED
    with pytest.raises(pc.NotRealizableError, match="model"):
        cases.vehicle_noise(models=[vehicle(0.999)])


def test_a_model_that_scales_its_output_needs_more_noise_of_the_same_space():
    noise = cases.vehicle_noise(pc.StateAdjacency(1.0))
    double = changed(pc.plants.vehicle(), C=[[2.0, 0.0]])
    assert noise.guarantee_for([double]).gdp == pytest.approx(
        2 * noise.guarantee.gdp, rel=1e-12
    )
    enlarged = cases.vehicle_noise(pc.StateAdjacency(1.0), models=[double])
    assert enlarged.guarantee_for([double]).gdp == pytest.approx(ALLOWED, rel=1e-9)
    assert enlarged.guarantee.gdp <= ALLOWED
    assert enlarged.design.cost == pytest.approx(4 * noise.design.cost, rel=1e-9)


def test_laplace_noise_of_one_column_space_has_a_guarantee_over_models():
    noise = cases.vehicle_noise(family="laplace", budget=pc.PrivacyBudget(epsilon=1.0))
    assert noise.guarantee_for([vehicle(A_12=0.3)]).epsilon(0.0) == pytest.approx(1.0)


def test_independent_noise_is_sized_for_the_worst_model():
    models = [vehicle(0.99), vehicle(1.01)]
    noise = cases.vehicle_noise(family="iid-gaussian", models=models)
    images = np.hstack(
        [state_images(model, cases.POSITION, 100) for model in (vehicle(), *models)]
    )
    assert np.linalg.norm(images, axis=0).max() / noise.process.scale[
        0
    ] == pytest.approx(noise.guarantee.gdp, rel=1e-9)
    assert noise.guarantee.gdp <= ALLOWED


def test_a_ball_and_joint_moves_are_followed_through_the_model():
    adjacency = pc.InitialStateAdjacency({"position": 1.0, "velocity": 0.1})
    noise = cases.vehicle_noise(adjacency, horizon=20, floor=1.0)
    images = oracles.dense_observability(vehicle(0.99).A, [[1.0, 0]], 20) * [1.0, 0.1]
    truth = np.sqrt(
        np.linalg.norm(
            images.T @ np.linalg.solve(oracles.stacked_covariance(noise), images), 2
        )
    )
    assert noise.guarantee_for([vehicle(0.99)]).gdp == pytest.approx(truth, rel=1e-9)


def test_models_of_another_kind_are_refused():
    with pytest.raises(ct.ControlDimension, match="expected plants with outputs y"):
        cases.vehicle_noise(floor=1.0, models=[cases.random_plant(0)])
    with pytest.raises(ValueError, match="at least one plant"):
        cases.vehicle_noise(floor=1.0).guarantee_for([])


def test_an_audit_of_a_design_for_models_passes_under_each_and_fails_with_ten_percent_less_noise():
    budget, models = (
        pc.PrivacyBudget(epsilon=1.0, delta=0.1),
        [vehicle(0.99), vehicle(1.01)],
    )
    noise = cases.vehicle_noise(horizon=20, floor=1.0, models=models, budget=budget)
    loose = 0.9 * noise.design.mechanism.noise.factor
    for model, tight in [(models[0], False), (models[1], True)]:
        query = pc.output_query(model, 20)
        honest = pc.Mechanism(query, pc.GaussianNoise(loose / 0.9))
        assert pc.audit(
            honest, cases.POSITION, claim=budget, trials=200_000, rng=0
        ).passed
        if tight:  # the model in which the budget is filled
            careless = pc.Mechanism(query, pc.GaussianNoise(loose))
            assert not pc.audit(
                careless, cases.POSITION, claim=budget, trials=200_000, rng=0
            ).passed


def test_another_secret_can_be_asked_of_a_floored_noise():
    noise, plant = cases.vehicle_noise(horizon=20, floor=1.0), pc.plants.vehicle()
    secret = pc.DisturbanceAdjacency({"u": 3.0})
    impulse = np.array(
        [
            ct.forced_response(plant, noise.timepts, np.eye(20)[t]).outputs
            for t in range(20)
        ]
    ).T
    found = noise.guarantee_for([plant], adjacency=secret)
    assert found.gdp == pytest.approx(
        oracles.shift(oracles.stacked_covariance(noise), 3.0 * impulse), rel=1e-9
    )
    assert "u by at most 3, at one sample" in found.sentence
    assert "one given model" in found.sentence
    with pytest.raises(pc.NotRealizableError):
        cases.vehicle_noise(horizon=20).guarantee_for([plant], adjacency=secret)


def test_several_other_secrets_are_hidden_as_well_as_the_worst_of_them():
    plant = pc.plants.vehicle()
    noise = cases.vehicle_noise(horizon=20, floor=1.0)
    secrets = [pc.StateAdjacency({"velocity": 0.2}), pc.InitialStateAdjacency(0.5)]
    alone = [noise.guarantee_for([plant], adjacency=secret).gdp for secret in secrets]
    together = noise.guarantee_for([plant], adjacency=secrets)
    assert together.gdp == pytest.approx(max(alone), rel=1e-12)
    assert abs(alone[0] - alone[1]) > 0.01


def test_a_secret_that_no_output_sees_is_hidden_by_any_noise():
    """Noise without a floor was said to leave it bare, or perhaps so."""
    plant = ct.ss(np.diag([0.5, 0.8]), np.eye(2), [[1.0, 0.0]], 0, 1)
    noise = pc.design_output_noise(
        plant,
        horizon=5,
        budget=pc.PrivacyBudget(gdp=1.0),
        adjacency=pc.StateAdjacency({"x[0]": 1.0}),
        models="exact",
    )
    unseen = pc.DisturbanceAdjacency({"u[1]": 1.0})
    assert noise.guarantee_for(plant, adjacency=unseen).gdp < 1e-300
    seen = pc.DisturbanceAdjacency({"u[0]": 1.0})
    with pytest.raises(pc.NotRealizableError):
        noise.guarantee_for(plant, adjacency=seen)


@pytest.mark.parametrize("horizon", [20, np.inf])
def test_a_guarantee_for_a_signal_under_a_model_assumes_its_B(horizon):
    """It named A and C alone: a B twice as large doubles what the noise lets through."""
    plants = [
        ct.ss(0.8, B, 1, 0, 1, inputs=["people"], outputs=["T"]) for B in (1.0, 2.0)
    ]
    noise = pc.design_output_noise(
        plants[0],
        horizon=horizon,
        budget=pc.PrivacyBudget(gdp=0.5),
        adjacency=pc.DisturbanceAdjacency(1.0),
        models="exact",
    )
    found = noise.guarantee_for(plants[1:])
    assert found.gdp == pytest.approx(1.0, rel=1e-6)
    assert "A, B and C those of one given model" in found.scope.assumptions
    start = noise_for_start(plants[0])
    about_start = start.guarantee_for(plants[1:]).scope.assumptions
    assert "A and C those of one given model" in about_start


def noise_for_start(plant):
    return pc.design_output_noise(
        plant,
        horizon=20,
        budget=pc.PrivacyBudget(gdp=0.5),
        adjacency=pc.StateAdjacency(1.0, times=0),
        models="exact",
    )
