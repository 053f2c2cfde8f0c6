"""Noise Lambda eta of the user's own with Laplace entries, by all admissible moves."""

import itertools

import control as ct
import numpy as np
import oracles
import pytest

import privcontrol as pc
from privcontrol.privacy.loss import PrivacyLoss

BUDGET = pc.PrivacyBudget(epsilon=1.0)
T = 6
VEHICLE = pc.plants.vehicle()
POSITION = pc.StateAdjacency({"position": 1.0})
PUSH = pc.DisturbanceAdjacency(0.5, duration=2, shape="level")
RNG = np.random.default_rng(0)
FULL = RNG.normal(size=(T, T)) + 3 * np.eye(T)


def design(factor, adjacency=POSITION, **options):
    asked = {"horizon": T, "budget": BUDGET, "models": "exact", "family": "laplace"}
    options = asked | {"scale": True, "max_std": np.inf} | options
    return pc.design_output_noise(
        VEHICLE, adjacency=adjacency, factor=factor, **options
    )


def responses(adjacency, plant=VEHICLE):
    """What every admissible move adds to the outputs, by the plant's recursion."""
    A, B, C = plant.A, plant.B, plant.C
    moves = []
    if adjacency is POSITION:
        for t in range(T):
            moves.append((np.linalg.matrix_power(np.linalg.inv(A), t)[:, 0], None))
    else:
        for first, length in itertools.product(range(T), (1, 2)):
            if first + length <= T:
                level = np.zeros(T)
                level[first : first + length] = 0.5
                moves.append((np.zeros(2), level))
    columns = []
    for state, pushed in moves:
        column = []
        for t in range(T):
            column.append(C @ state)
            state = A @ state + (0 if pushed is None else B[:, 0] * pushed[t])
        columns.append(np.concatenate(column))
    return np.array(columns).T


def lambda_of(noise):
    """Lambda (T p, r) from the noise's answers to unit entries."""
    return noise.process.responses.reshape(T, -1)


@pytest.mark.parametrize("adjacency", [POSITION, PUSH], ids=["state", "input"])
def test_the_worst_admissible_move_costs_epsilon(adjacency):
    noise = design(FULL, adjacency)
    moves = np.linalg.solve(lambda_of(noise), responses(adjacency))
    sizes = np.abs(moves).sum(axis=0)
    assert sizes.max() == pytest.approx(1.0, rel=1e-9)
    assert noise.guarantee.epsilon(0.0) == pytest.approx(sizes.max(), rel=1e-9)
    assert sizes.max() <= noise.guarantee.epsilon(0.0) * (1 + 1e-12) <= 1 + 1e-12
    # the densities themselves: entries beyond a shift tell the most
    worst = moves[:, sizes.argmax()]
    drawn = np.random.default_rng(1).laplace(size=(2000, T))
    drawn = np.vstack([drawn, -10 * np.abs(drawn) * np.sign(worst)])
    ratios = np.abs(drawn - worst).sum(axis=1) - np.abs(drawn).sum(axis=1)
    assert ratios.max() == pytest.approx(noise.guarantee.epsilon(0.0), rel=1e-9)
    assert lambda_of(noise) / lambda_of(noise)[0, 0] == pytest.approx(
        FULL / FULL[0, 0], rel=1e-12
    )


def test_loss_over_the_curve_is_that_of_the_coordinates():
    noise = design(FULL)
    moves = np.abs(np.linalg.solve(lambda_of(noise), responses(POSITION)))
    expected = PrivacyLoss.laplace(moves * (1 + 1e-12))
    for epsilon in (0.2, 0.5, 0.8):
        found = noise.guarantee.delta(epsilon)
        assert found == pytest.approx(expected.delta(epsilon), abs=1e-9)


def test_lambda_that_meets_the_budget_is_kept():
    large = design(100 * lambda_of(design(FULL)), scale=False)
    assert large.guarantee.epsilon(0.0) == pytest.approx(0.01, rel=1e-9)
    assert "as given" in repr(large)
    assert "times" in repr(design(FULL))


def test_lambda_of_low_rank_covers_the_moves_or_is_refused():
    stack = oracles.dense_observability(VEHICLE.A, VEHICLE.C, T)
    noise = design(stack[:, :1])
    structured = design(np.array([[1.0], [0.0]]))
    assert noise.std == pytest.approx(structured.std, rel=1e-4)
    assert noise.process.responses.shape == (T, 1, 1 + T)  # with its padding
    assert "outside the span of the noise" in noise.guarantee.sentence
    with pytest.raises(pc.NotRealizableError, match=r"column space of Lambda"):
        design(stack[:, 1:])
    with pytest.raises(pc.NotRealizableError, match=r"rows of zeros"):
        design(np.vstack([np.zeros((1, T)), FULL[1:]]), PUSH)


def test_lambda_hides_under_every_model():
    A = np.array(VEHICLE.A)
    A[0, 1] *= 1.5
    model = pc.plants.vehicle()
    model.A = A
    noise = design(FULL, PUSH, models=[model])
    sizes = []
    for plant in (VEHICLE, model):
        moves = np.linalg.solve(lambda_of(noise), responses(PUSH, plant))
        sizes.append(np.abs(moves).sum(axis=0).max())
    assert noise.guarantee.epsilon(0.0) == pytest.approx(max(sizes), rel=1e-9)
    assert sizes[0] != pytest.approx(sizes[1], rel=1e-3)


def test_draws_have_the_covariance_and_come_sample_by_sample():
    noise = design(FULL)
    own = lambda_of(noise)
    drawn = noise.sample(trials=40_000, rng=1)[0]
    covariance = drawn.T @ drawn / len(drawn)
    exact = 2 * own @ own.T
    assert np.abs(covariance - exact).max() < 0.05 * exact.max()
    assert noise.covariance(2, 4) == pytest.approx(exact[2:3, 4:5])
    assert noise.stds[0] == pytest.approx(np.sqrt(np.diag(exact)))
    streamed = np.array(list(noise.stream(rng=3))).T
    assert streamed == pytest.approx(noise.sample(1, rng=3)[:, 0], rel=1e-12)
    # the first entries of a run decide on all of its samples
    entries = np.linalg.solve(own, drawn.T)
    assert np.abs(entries).mean() == pytest.approx(1.0, rel=0.02)


def test_lambda_is_saved_priced_and_published(tmp_path):
    noise = design(FULL)
    noise.save(tmp_path / "noise.json")
    loaded = pc.load(tmp_path / "noise.json")
    assert loaded == noise
    assert loaded.guarantee == noise.guarantee
    with pytest.warns(pc.PrivacyWarning):
        loop = pc.private_lqg(VEHICLE, Q=1, R=1, QN=1, RN=1, noise=noise)
    loop.save(tmp_path / "loop.json")
    assert pc.load(tmp_path / "loop.json") == loop
    response = loop.simulate(trials=20_000, rng=0)
    squares = np.sum(response.states[:2] ** 2, axis=(0, 2))
    costs = squares + np.sum(response.outputs[1] ** 2, axis=1)
    error = costs.std() / np.sqrt(len(costs))
    expected = loop.cost().total
    assert abs(costs.mean() - expected) < 4 * error < 0.1 * expected
    assert pc.audit(noise, trials=5000, rng=0).passed
    gateway = pc.Gateway(noise, floating=True)
    published = [gateway.publish([1.0]) for _ in range(T)]
    assert len({float(value[0]) for value in published}) == T


@pytest.mark.parametrize(
    "more",
    [{"duration": 3, "shape": "any"}, {"events": 2, "separation": 2, "duration": 2}],
    ids=["any shape", "two"],
)
def test_changes_that_are_no_list_of_moves_are_refused(more):
    with pytest.raises(pc.PrivacyError, match=r"Laplace noise of your own Lambda"):
        design(FULL, pc.DisturbanceAdjacency(0.5, **more))


def test_of_many_independent_shifts_only_their_sum_counts():
    """300 moves of 300 samples are more than a loss keeps apart, and 100 are not."""
    lag = ct.ss(0.99, 1, 1, 0, 1.0)
    for times, is_kept in ((range(100), True), (range(300), False)):
        noise = pc.design_output_noise(
            lag,
            horizon=300,
            budget=BUDGET,
            adjacency=pc.StateAdjacency(1.0, times=list(times)),
            models="exact",
            family="iid-laplace",
            max_std=np.inf,
        )
        loss = noise.guarantee.loss
        assert len(loss.rows) == (100 if is_kept else 1)
        shifts = (
            sum(0.99 ** (t - times[-1]) for t in range(300)) / noise.process.scale[0]
        )
        assert shifts <= loss.pure <= shifts * (1 + 1e-9)
