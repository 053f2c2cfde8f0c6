"""The methods of the literature: every number that is known, and one cost for all.

Numbers are those of the papers and their code, or closed forms. The cost of a loop is
compared with a Kalman recursion and simulated runs, the privacy of consensus with the
dense map from noises to messages.
"""

import importlib
import math
import sys
from decimal import Decimal
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from consensus.networks import TEN_AGENTS, TEN_VALUES

import privcontrol as pc

matplotlib.use("Agg")

FOLDER = Path(__file__).parents[1] / "examples" / "literature"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))


def loaded():
    """The scripts as modules, without leaving their folder on the path."""
    sys.path.insert(0, str(FOLDER))
    try:
        return {name: importlib.import_module(name) for name in NAMES}
    finally:
        sys.path.remove(str(FOLDER))


SCRIPTS = loaded()
METHODS = {name: m for name, m in SCRIPTS.items() if hasattr(m, "golden")}
averaging, comparison = SCRIPTS["averaging"], SCRIPTS["comparison"]
huang, nozari, mo_murray = SCRIPTS["huang"], SCRIPTS["nozari"], SCRIPTS["mo_murray"]
NETWORK = pc.consensus.read_network(TEN_AGENTS)
W = NETWORK.iteration
BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
ROUNDS = 12
FRESH = averaging.Algorithm(np.eye(ROUNDS + 1))
ALGORITHMS = {
    "kept": SCRIPTS["one_draw"].algorithm(ROUNDS),
    "kept, Gaussian": SCRIPTS["one_draw"].algorithm(ROUNDS, "gaussian"),
    "fresh": FRESH,
    "Huang": huang.algorithm(ROUNDS),
    "Huang, own decay": huang.algorithm(ROUNDS, 0.8, 0.7),
    "Nozari, optimal": nozari.algorithm(ROUNDS),
    "Nozari, s < 1": nozari.algorithm(ROUNDS, 0.6, 0.7),
    "Nozari, s > 1": nozari.algorithm(ROUNDS, 1.3, 0.7),
    "Mo, Murray": mo_murray.algorithm(ROUNDS),
    "Mo, Murray, 0.7": mo_murray.algorithm(ROUNDS, 0.7),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_known_number_comes_out_to_its_last_digit(method):
    for what, found, known in method.golden():
        if isinstance(known, str):
            places = -Decimal(known).as_tuple().exponent
            assert round(float(found), places) == float(known), what
        else:
            assert found == pytest.approx(known, rel=1e-8), what


def test_the_two_block_filter_has_the_numbers_of_its_code():
    """1.6244783 for the sum, 5.1394810 for D = I, 1.0567161 when calibrated exactly."""
    found = {what: f"{number:.7f}" for what, number, _ in METHODS["two_block"].golden()}
    assert found["semidefinite program"] == found["its D"] == "1.6244783"
    assert found["D = I"] == "5.1394810"
    assert found["D = 1', exact calibration"] == "1.0567161"


def test_methods_look_alike():
    for name, method in METHODS.items():
        lines = (FOLDER / f"{name}.py").read_text(encoding="utf8").splitlines()
        assert len(lines) < 130
        assert lines[-1] == "    comparison.main(sys.modules[__name__])"
        assert "adversary" in method.SOURCE or "from who" in method.SOURCE
        assert callable(method.design)


# loops


def loop(**changes):
    return SCRIPTS["side_by_side"].vehicle_loop(**changes)


def recursion(plant, noise):
    """Least cost by Riccati and Kalman recursions, for white noise of this covariance."""
    A, B, C = plant.sys.A, plant.sys.B, plant.sys.C
    S, prices, total = np.zeros_like(A), [], 0.0
    for _ in range(plant.horizon):
        total += np.trace(S @ plant.QN)
        K = np.linalg.solve(plant.R + B.T @ S @ B, B.T @ S @ A)
        prices.append(K.T @ (plant.R + B.T @ S @ B) @ K)
        S = plant.Q + A.T @ S @ (A - B @ K)
    total += np.trace(S @ plant.P0)
    P = plant.P0
    for price in reversed(prices):
        gain = P @ C.T @ np.linalg.inv(C @ P @ C.T + plant.RN + noise)
        after = P - gain @ C @ P
        total += np.trace(price @ after)
        P = A @ after @ A.T + plant.QN
    return total


def test_the_cost_is_that_of_the_recursions():
    plant = loop(horizon=40)
    noise = np.array([[3.0]])
    dense = plant.cost(np.kron(np.eye(40), noise))
    assert dense == pytest.approx(recursion(plant, noise), rel=1e-10)


def test_the_cost_of_a_filtered_release_is_that_of_simulated_runs():
    """20,000 runs of the loop that reads u plus noise; 4 standard errors."""
    plant = loop(horizon=8)
    A, B, C = plant.sys.A, plant.sys.B, plant.sys.C
    H = plant.filter
    noise = np.diag(np.linspace(0.5, 2.0, 8))
    rng = np.random.default_rng(0)
    runs = 20000
    _, outputs, cross = plant.covariances
    total = H @ outputs @ H.T + noise
    gains = np.einsum("ij,jtn->itn", H, cross)
    S, feedback = np.zeros((2, 2)), []
    for _ in range(8):
        K = np.linalg.solve(plant.R + B.T @ S @ B, B.T @ S @ A)
        feedback.append(K)
        S = plant.Q + A.T @ S @ (A - B @ K)
    feedback.reverse()
    x = rng.multivariate_normal(np.zeros(2), plant.P0, runs)
    known = np.zeros((runs, 2))  # what the inputs add to the state
    readings = np.zeros((runs, 8))
    released = np.zeros((runs, 8))
    blur = rng.standard_normal((runs, 8)) * np.sqrt(np.diag(noise))
    cost = np.zeros(runs)
    for t in range(8):
        y = (x - known) @ C.T + rng.standard_normal((runs, 1)) * 0.1
        readings[:, t] = y[:, 0]
        released[:, t] = readings[:, : t + 1] @ H[t, : t + 1] + blur[:, t]
        past = slice(0, t + 1)
        weights = np.linalg.solve(total[past, past], gains[past, t])
        u = -(released[:, past] @ weights + known) @ feedback[t].T
        cost += np.einsum("ri,ij,rj->r", x, plant.Q, x) + 5 * u[:, 0] ** 2
        w = rng.multivariate_normal(np.zeros(2), plant.QN, runs)
        x, known = x @ A.T + u @ B.T + w, known @ A.T + u @ B.T
    error = cost.std() / math.sqrt(runs)
    assert abs(cost.mean() - plant.cost(noise, H)) < 4 * error
    assert 4 * error < 0.05 * cost.mean()


def test_equal_guarantees_and_ours_costs_least():
    """Where a method costs less it counts on more: none does for the vehicle."""
    entries = comparison.compare(
        loop(), pc.StateAdjacency({"position": 1.0}), BUDGET,
        SCRIPTS["side_by_side"].FOR_LOOPS,
    )  # fmt: skip
    names = list(entries)
    assert names[0].startswith("This library")
    assert len(names) == 7
    costs = [entry.cost for entry in entries.values()]
    assert min(costs) == costs[0]
    for entry in entries.values():
        if entry.guarantee is not None:
            assert BUDGET.shift() * (1 - 1e-6) < entry.guarantee.gdp
            assert entry.guarantee.gdp <= BUDGET.shift()


# consensus


def sent(algorithm):
    """Messages of rounds 0 .. T-1 as H x(0) + F eta, dense."""
    n, drawn = len(NETWORK), algorithm.mixing.shape[1]
    each = np.eye(drawn * n).reshape(drawn, n, -1)
    F = algorithm.run(W, np.zeros((n, drawn * n)), each)[0][:ROUNDS]
    H = algorithm.run(W, np.eye(n), np.zeros((drawn, n, n)))[0][:ROUNDS]
    return H.reshape(ROUNDS * n, n), F.reshape(ROUNDS * n, -1)


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_privacy_is_that_of_the_noises_that_explain_the_same_messages(algorithm):
    """By least squares over all noises that a node's move is mistaken for."""
    H, F = sent(algorithm)
    displaced, *_ = np.linalg.lstsq(F, H, rcond=1e-12)
    assert np.abs(F @ displaced - H).max() < 1e-9
    order = 2 if algorithm.family == "gaussian" else 1
    loss = np.linalg.norm(displaced, order, axis=0).max()
    assert loss == pytest.approx(np.linalg.norm(algorithm.shifts, order), rel=1e-6)
    guarantee = algorithm.guarantee(pc.NodeAdjacency(1.0), len(NETWORK))
    found = guarantee.gdp if order == 2 else guarantee.epsilon(0.0)
    assert found == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_exact_errors_lie_within_five_standard_errors_of_5_000_runs(algorithm):
    rng = np.random.default_rng(0)
    drawn = algorithm.mixing.shape[1]
    draw = rng.laplace if algorithm.family == "laplace" else rng.normal
    noise = draw(size=(drawn, 10, 5000))
    plant = averaging.Averaging(NETWORK, TEN_VALUES / 10, ROUNDS)
    initial = np.repeat(plant.values[:, None], 5000, axis=1)
    exact = algorithm.errors(plant)
    for name, readout in algorithm.readouts(W, initial, noise).items():
        errors = ((readout - plant.values.mean()) ** 2).sum(axis=0)
        assert abs(errors.mean() - exact[name]) < 5 * errors.std() / math.sqrt(5000)


@pytest.mark.parametrize("make", [
    lambda r, q: huang.algorithm(100, 1 - r, q),
    lambda r, q: nozari.algorithm(100, 1 - r, r ** (1 / 3) if q is None else q),
])  # fmt: skip
@pytest.mark.parametrize("r", [0.1, 0.4])
def test_the_default_decay_is_the_best_one(make, r):
    plant = averaging.ten_agents(100)
    pure = pc.PrivacyBudget(epsilon=1.0, delta=0.0)

    def error(q):
        return make(r, q).calibrated(pure, 1.0).errors(plant)["state"]

    best = r ** (1 / 3)
    assert error(None) == pytest.approx(error(best))
    assert error(best) < min(error(0.98 * best), error(1.02 * best))


def test_who_sees_all_links_undoes_the_noise_of_mo_and_murray():
    """The running sums of the noises leave the readings x(0) + phi^t v(t)."""
    algorithm = mo_murray.algorithm(60)
    noise = np.random.default_rng(0).standard_normal((61, 10, 1))
    messages, states = algorithm.run(W, TEN_VALUES[:, None], noise)
    assert abs(states[-1].mean() - 15) < 0.9**59 * 5
    published = messages[:, :, 0]
    increments = np.vstack([published[:1], published[1:] - published[:-1] @ W])
    readings = np.cumsum(increments, axis=0)
    expected = TEN_VALUES + 0.9 ** np.arange(61)[:, None] * noise[:, :, 0]
    assert np.allclose(readings, expected, atol=1e-10)


@pytest.mark.parametrize("attempt", [
    lambda: huang.algorithm(5, s=1.0),
    lambda: huang.algorithm(5, s=0.5, q=0.4),
    lambda: nozari.algorithm(5, s=2.0),
    lambda: nozari.algorithm(5, s=0.5, q=0.5),
    lambda: nozari.algorithm(5, s=0.9, q=0.0),
])  # fmt: skip
def test_parameters_without_a_guarantee_are_refused(attempt):
    with pytest.raises(ValueError, match="expected"):
        attempt()


@pytest.mark.parametrize("name", ["side_by_side", "consensus_comparison"])
def test_the_tables_write_their_figure(name, tmp_path):
    SCRIPTS[name].main(tmp_path)
    assert (tmp_path / f"{name}.png").stat().st_size > 20_000
