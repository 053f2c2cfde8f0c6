"""Noise Lambda eta of the user's own, by dense covariances."""

import numpy as np
import oracles
import pytest

import privcontrol as pc

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
Y = pc.core.kappa_inverse(1.0, 1e-2)
T = 8
VEHICLE = pc.plants.vehicle()
POSITION = pc.StateAdjacency({"position": 1.0})
PUSH = pc.DisturbanceAdjacency(0.5, duration=2, shape="level")
RNG = np.random.default_rng(0)
FULL = RNG.normal(size=(T, T + 3)) + 3 * np.eye(T, T + 3)


def design(factor, adjacency=POSITION, **options):
    asked = {"horizon": T, "budget": BUDGET, "models": "exact", "scale": True}
    options = asked | options
    return pc.design_output_noise(
        VEHICLE, adjacency=adjacency, factor=factor, **options
    )


def responses(adjacency):
    """What hidden moves add to the outputs, by the plant's recursion."""
    A, B, C = VEHICLE.A, VEHICLE.B, VEHICLE.C
    if adjacency is POSITION:
        powers = [np.linalg.matrix_power(np.linalg.inv(A), j) for j in range(T)]
        starts = np.array([power[:, 0] for power in powers]).T
        return oracles.dense_observability(A, C, T) @ starts
    columns = []
    for first in range(T):
        for last in range(first + 1, min(first + 2, T) + 1):
            state = np.zeros(2)
            column = []
            for t in range(T):
                column.append(C @ state)
                state = A @ state + B[:, 0] * 0.5 * (first <= t < last)
            columns.append(np.concatenate(column))
    return np.array(columns).T


@pytest.mark.parametrize("adjacency", [POSITION, PUSH], ids=["state", "input"])
@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_lambda_is_scaled_to_the_budget(adjacency, floor):
    noise = design(FULL, adjacency, floor=floor)
    covariance = oracles.stacked_covariance(noise)
    assert oracles.shift(covariance, responses(adjacency)) == pytest.approx(Y, rel=1e-6)
    assert noise.guarantee.gdp == pytest.approx(Y, rel=1e-6)
    assert noise.guarantee.gdp <= Y
    own = FULL @ FULL.T
    scale = (covariance[0, 0] - floor**2) / own[0, 0]
    expected = scale * own + floor**2 * np.eye(T)
    assert covariance == pytest.approx(expected, abs=1e-9 * covariance.max())
    draws = noise.sample(trials=20_000, rng=1)[0]
    drawn = draws.T @ draws / len(draws)
    assert np.abs(drawn - covariance).max() < 0.05 * covariance.max()


def test_lambda_of_low_rank_covers_the_moves_or_is_refused():
    stack = oracles.dense_observability(VEHICLE.A, VEHICLE.C, T)
    noise = design(stack @ [[2.0], [0.0]])
    structured = design(np.array([[2.0], [0.0]]))
    assert oracles.stacked_covariance(noise) == pytest.approx(
        oracles.stacked_covariance(structured), rel=1e-6
    )
    assert "outside the span of the noise" in noise.guarantee.sentence
    with pytest.raises(pc.NotRealizableError, match=r"column space of Lambda"):
        design(stack @ [[0.0], [2.0]])
    beside = design(stack @ [[0.0], [2.0]], floor=3.0)
    shift = oracles.shift(oracles.stacked_covariance(beside), responses(POSITION))
    assert shift <= Y * (1 + 1e-9)


def test_lambda_is_saved_and_priced_in_a_loop(tmp_path):
    noise = design(FULL)
    noise.save(tmp_path / "noise.json")
    loaded = pc.load(tmp_path / "noise.json")
    assert oracles.stacked_covariance(loaded) == pytest.approx(
        oracles.stacked_covariance(noise), rel=1e-12
    )
    assert loaded.guarantee.gdp == noise.guarantee.gdp
    loop = pc.private_lqg(VEHICLE, Q=1, R=1, QN=1, RN=1, noise=noise)
    response = loop.simulate(trials=2, rng=0)
    assert response.outputs.shape == (2, 2, T)


def test_other_shapes_of_lambda_are_refused():
    with pytest.raises(
        ValueError, match=r"S with 2 rows, .* Lambda with 8, .*\(5, 2\)"
    ):
        design(np.ones((5, 2)))
    with pytest.raises(ValueError, match=r"S is for secrets about states"):
        design(np.eye(2), PUSH)
    with pytest.raises(ValueError, match=r"an entry that is not zero"):
        design(np.zeros((T, 2)))


def test_rows_of_both_lengths_are_those_of_s():
    two = pc.design_output_noise(
        VEHICLE,
        horizon=2,
        budget=BUDGET,
        adjacency=POSITION,
        factor=np.eye(2),
        models="exact",
    )
    assert two.factor is not None
