"""Lipschitz constants are never below the truth, and as tight as they say."""

import itertools
import math
import pickle
import warnings
from fractions import Fraction

import cvxpy as cp
import mpmath
import numpy as np
import pytest
from repeats import few

from privcontrol.core import (
    LipschitzBound,
    SLLLayer,
    SLLNetwork,
    feedforward_lipschitz,
    induced_norm,
)

NORMS = (1, 2, np.inf)
DIRTY = [
    np.array([[1.0, 1.0], [0.0, 0.0]]),
    np.array([[3.0]]),
    np.eye(4),
    np.random.default_rng(1).standard_normal((5, 7)),
    np.random.default_rng(2).standard_normal((7, 5)) * np.logspace(-9, 9, 5),
    np.outer([1, 2, 3.0], [1e-3, 1, 1e3])
    + 1e-13 * np.random.default_rng(3).standard_normal((3, 3)),
    np.full((3, 4), 1e200),
]


def random_network(rng, hidden=2, low=3, high=10):
    widths = rng.integers(low, high, hidden + 2)
    return [
        rng.standard_normal((after, before)) / np.sqrt(before)
        for before, after in itertools.pairwise(widths)
    ]


def jacobian_norms(weights, slopes, rng, p=2, q=2, trials=400):
    """The largest induced norm of Jacobians with slopes anywhere in the interval, mostly at its ends: attained by some
    network with these weights and such activations."""
    low, high = slopes
    best = 0.0
    for _ in range(trials):
        J = weights[0]
        for W in weights[1:]:
            J = W @ (np.where(rng.random(len(J)) < 0.5, low, high)[:, None] * J)
        if (p, q) == (2, 2):
            best = max(best, np.linalg.norm(J, 2))
        else:
            X = rng.choice([-1.0, 0.0, 1.0], (J.shape[1], 50)) + 1e-3
            best = max(
                best,
                np.max(np.linalg.norm(J @ X, q, axis=0) / np.linalg.norm(X, p, axis=0)),
            )
    return best * (1 - 1e-12)


def oracle(weights, low, high):
    """LipSDP-Neuron as it is written in the paper, by CVXPY."""
    widths = [weights[0].shape[1]] + [len(W) for W in weights[:-1]]
    size, hidden = sum(widths), sum(widths[1:])
    A = np.zeros((hidden, size))
    row = column = 0
    for W in weights[:-1]:
        A[row : row + W.shape[0], column : column + W.shape[1]] = W
        row, column = row + W.shape[0], column + W.shape[1]
    B = np.eye(size)[widths[0] :]
    t, rho = cp.Variable(hidden, nonneg=True), cp.Variable()
    T, E0, EK = cp.diag(t), np.eye(size)[: widths[0]], np.eye(size)[size - widths[-1] :]
    M = (
        -2 * low * high * A.T @ T @ A
        + (low + high) * (A.T @ T @ B + B.T @ T @ A)
        - 2 * B.T @ T @ B
    )
    M = M - rho * E0.T @ E0 + EK.T @ weights[-1].T @ weights[-1] @ EK
    problem = cp.Problem(cp.Minimize(rho), [(M + M.T) / 2 << 0])
    problem.solve(solver=cp.CLARABEL)
    return math.sqrt(rho.value)


# --- the number -------------------------------------------------------------------------------------------------------


def test_a_bound_is_a_float_that_remembers_its_norms():
    bound = LipschitzBound(1.5, p=1, q=np.inf, method="columns")
    assert bound == 1.5
    assert isinstance(bound, float)
    assert type(2 * bound) is float
    assert f"{bound:.2f}" == "1.50"
    again = pickle.loads(pickle.dumps(bound))
    assert (float(again), again.p, again.q, again.method) == (1.5, 1, np.inf, "columns")
    assert repr(again) == "LipschitzBound(1.5, p=1, q=inf, method='columns')"
    with pytest.raises(AttributeError):
        bound.p = 2


@pytest.mark.parametrize("value, p", [(-1.0, 2), (np.inf, 2), (np.nan, 2), (1.0, 0.5)])
def test_a_bound_refuses_what_bounds_nothing(value, p):
    with pytest.raises(ValueError, match="expected"):
        LipschitzBound(value, p=p, q=2, method="given")


# --- norms of matrices ------------------------------------------------------------------------------------------------


def test_the_constant_of_one_norm_does_not_bound_another():
    M = [[1, 1], [0, 0]]
    assert induced_norm(M, 1, 1) == 1.0
    assert math.sqrt(2) <= induced_norm(M, 2, 2) <= math.sqrt(2) * (1 + 1e-14)


@pytest.mark.parametrize("M", DIRTY)
@pytest.mark.parametrize(
    "p, q", [(1, 1), (1, 2), (1, np.inf), (2, 2), (2, np.inf), (np.inf, np.inf)]
)
def test_polynomial_norms_are_exact_and_rounded_up(M, p, q):
    bound = induced_norm(M, p, q)
    with mpmath.workdps(60):
        if (p, q) == (2, 2):
            exact = max(mpmath.svd_r(mpmath.matrix(M.tolist()), compute_uv=False))
        else:
            vectors, norm = (M.T, q) if p == 1 else (M, {2: 2, np.inf: 1}[p])
            exact = max(
                mpmath.mpf(str(1)) * mpmath.norm(mpmath.matrix(v.tolist()), norm)
                for v in vectors
            )
        assert exact <= mpmath.mpf(float(bound)) <= exact * (1 + mpmath.mpf("1e-13"))
    assert (bound.p, bound.q) == (p, q)


@pytest.mark.parametrize("p, q", [(1, 1), (np.inf, np.inf)])
def test_sums_are_the_next_float_above_the_exact_sum(p, q):
    M = np.random.default_rng(5).standard_normal((6, 6))
    lines = (M.T if p == 1 else M).tolist()
    exact = max(sum(abs(Fraction(entry)) for entry in line) for line in lines)
    bound = float(induced_norm(M, p, q))
    assert Fraction(math.nextafter(bound, 0)) < exact <= Fraction(bound)


@pytest.mark.parametrize("p", [2, np.inf])
def test_norms_from_one_and_to_infinity_are_attained(p):
    M = np.random.default_rng(14).standard_normal((5, 3))
    columns = max(np.linalg.norm(M, p, axis=0))
    assert columns <= induced_norm(M, 1, p) * (1 + 1e-15) <= columns * (1 + 1e-13)
    rows = []
    for row in M:  # the move that attains Hoelder's inequality
        dual = np.sign(row)
        if p < np.inf:
            dual = dual * np.abs(row) ** (1 / (p - 1))
        rows.append(row @ dual / np.linalg.norm(dual, p))
    bound = induced_norm(M, p, np.inf)
    assert max(rows) <= bound * (1 + 1e-15) <= max(rows) * (1 + 1e-13)
    assert induced_norm(M[:1], p, 1) == pytest.approx(rows[0], rel=1e-13)


def attained(M, p, q, rng):
    """The largest ||M x||_q / ||x||_p that Boyd's power method finds, from below."""
    best = 0.0
    for x in rng.normal(size=(6, M.shape[1])):
        for _ in range(100):
            y = M @ x
            gradient = np.sign(y) * np.abs(y / np.abs(y).max()) ** (q - 1)
            z = M.T @ gradient
            power = 0.0 if p == np.inf else 1 / (p - 1)
            x = np.sign(z) * np.abs(z / np.abs(z).max()) ** power
        best = max(best, np.linalg.norm(M @ x, q) / np.linalg.norm(x, p))
    return best


@pytest.mark.parametrize(
    "p, q", [(1.2, 1.5), (1.5, 1.5), (1.5, 4), (2, 7), (3, 3), (4, 9.5)]
)
def test_norms_between_known_ones_are_interpolated_and_never_too_small(p, q):
    rng = np.random.default_rng(0)
    for _ in range(10):
        M = rng.normal(size=rng.integers(2, 6, 2))
        bound = induced_norm(M, p, q)
        below = attained(M, p, q, rng)
        assert bound.method == "interpolation"
        assert below <= bound * (1 + 1e-12) <= 1.35 * below
    assert induced_norm(np.eye(3), p, q) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("p, q", [(np.inf, 1), (np.inf, 2.5), (2, 1), (4, 1)])
def test_hard_norms_are_enumerated_for_a_dozen_columns_and_refused_for_more(p, q):
    rng = np.random.default_rng(1)
    M = rng.normal(size=(4, 5))
    bound = induced_norm(M, p, q)
    table = M if p == np.inf else M.T
    corners = np.array(list(itertools.product((-1, 1), repeat=table.shape[1])))
    power = q if p == np.inf else p / (p - 1)
    exact = np.linalg.norm(corners @ table.T, power, axis=1).max()
    assert exact <= bound <= exact * (1 + 1e-13)
    with pytest.raises(ValueError, match="NP-hard; take p <= q, such as"):
        induced_norm(rng.normal(size=(13, 13)), p, q)


def test_a_sum_that_cancels_is_rounded_up():
    M = np.array([[1.0, -1.0, 1e-17], [1.0, -1.0, 1e-17]])
    assert induced_norm(M, np.inf, 2) >= np.sqrt(2) * (2 + 1e-17)
    with pytest.raises(ValueError, match="NP-hard"):
        induced_norm(np.eye(3), 3, 2)


@pytest.mark.parametrize("p", [0.5, 0, -1, np.nan, True, "2", None, [2]])
def test_norms_refuse_other_exponents(p):
    with pytest.raises(ValueError, match="p: expected a number from 1 to inf"):
        induced_norm(np.eye(2), p, 2)


def test_norms_refuse_bad_matrices():
    with pytest.raises(ValueError, match="finite"):
        induced_norm([[np.nan]], 2, 2)
    assert induced_norm(np.zeros((2, 3)), np.inf, 1) == 0


# --- networks ---------------------------------------------------------------------------------------------------------


def test_sdp_lies_between_sampled_and_product_bound_on_20_networks():
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(20):
        weights = random_network(rng, hidden=int(rng.integers(1, 4)))
        sdp, product = (
            feedforward_lipschitz(weights),
            feedforward_lipschitz(weights, method="product"),
        )
        sampled = jacobian_norms(weights, (0, 1), rng)
        assert sampled <= sdp <= product
        ratios.append((sdp / product, sdp / sampled))
    middle = np.median(ratios, axis=0)
    print(f"median of sdp/product {middle[0]:.3f}, of sdp/sampled {middle[1]:.3f}")
    assert middle[0] < 0.75
    assert middle[1] < 1.5


@pytest.mark.parametrize(
    "slopes",
    few(
        [[0, 1], [-2, 0.5], [-3, -1], [0, 0.25], [-0.2, 1], [0.1, 1], [-1, 1]],
        of=3,
    ),
)
def test_sdp_is_the_optimum_of_lipsdp_neuron(slopes):
    rng = np.random.default_rng(11)
    for hidden in (1, 2):
        weights = random_network(rng, hidden, high=7)
        bound = feedforward_lipschitz(weights, slopes=slopes)
        assert bound == pytest.approx(oracle(weights, *slopes), rel=2e-6)
        assert jacobian_norms(weights, slopes, rng) <= bound


def test_two_neurons_at_different_slopes():
    weights = [
        [[1.0], [1.0]],
        [[1.0, -1.0]],
    ]  # relu(x) - relu(x - 5), where coupled multipliers claim about 0
    assert 1 <= feedforward_lipschitz(weights) <= 1 + 1e-6
    assert feedforward_lipschitz(weights, method="product") == pytest.approx(2)


def test_the_certificate_does_not_trust_the_solver(monkeypatch):
    weights = random_network(np.random.default_rng(3))
    honest = feedforward_lipschitz(weights)
    product = feedforward_lipschitz(weights, method="product")
    solve = cp.Problem.solve

    def too_good(problem, **options):
        solve(problem, **options)
        (rho,) = (v for v in problem.variables() if v.ndim == 0)
        rho.value = 0.999 * rho.value

    def nonsense(problem, **options):
        solve(problem, **options)
        (t,) = (v for v in problem.variables() if v.ndim == 1)
        t.value = np.full(t.size, 1e-3)

    for broken in (too_good, nonsense):
        monkeypatch.setattr(cp.Problem, "solve", broken)
        assert honest < feedforward_lipschitz(weights) <= product


def test_large_networks_are_refused_with_the_way_out():
    weights = [np.ones((200, 2)), np.ones((1, 200))]
    with pytest.raises(ValueError, match="got 200.*method='product'"):
        feedforward_lipschitz(weights)
    product = feedforward_lipschitz(weights, method="product")
    assert product == pytest.approx(20 * math.sqrt(200), rel=1e-12)


def test_wide_inputs_are_compressed_without_loss():
    rng = np.random.default_rng(4)
    weights = [
        rng.standard_normal((5, 40)),
        rng.standard_normal((4, 5)),
        rng.standard_normal((2, 4)),
    ]
    narrow = [np.linalg.qr(weights[0].T, mode="r").T, *weights[1:]]
    assert feedforward_lipschitz(weights) == pytest.approx(
        feedforward_lipschitz(narrow), rel=1e-6
    )


@pytest.mark.parametrize(
    "p, q", [(1, 1), (1, 2), (1, np.inf), (2, 2), (2, np.inf), (np.inf, np.inf)]
)
def test_product_bound_in_every_pair_of_norms(p, q):
    rng = np.random.default_rng(6)
    weights = random_network(rng, high=6)
    bound = feedforward_lipschitz(weights, p=p, q=q, method="product", slopes=(-0.5, 1))
    assert (bound.p, bound.q, bound.method) == (p, q, "product")
    assert jacobian_norms(weights, (-0.5, 1), rng, p, q, trials=100) <= bound
    assert feedforward_lipschitz(
        weights[:1], p=p, q=q, method="product"
    ) == induced_norm(weights[0], p, q)


def test_product_bound_of_equal_norms_is_the_product():
    weights = random_network(np.random.default_rng(8))
    expected = math.prod(np.linalg.norm(W, 2) for W in weights) / 16
    assert feedforward_lipschitz(
        weights, method="product", slopes=(0, 0.25)
    ) == pytest.approx(expected, rel=1e-12)


def test_linear_activations_are_merged():
    weights = random_network(np.random.default_rng(9))
    bound = feedforward_lipschitz(weights, slopes=(1, 1))
    assert bound.method == "spectral"
    assert bound == pytest.approx(
        np.linalg.norm(weights[2] @ weights[1] @ weights[0], 2), rel=1e-12
    )
    mixed = feedforward_lipschitz(weights, slopes=[(0, 1), (2, 2)])
    assert mixed == pytest.approx(
        feedforward_lipschitz([weights[0], 2 * weights[2] @ weights[1]]), rel=1e-6
    )


def test_dead_neurons_and_dead_networks():
    rng = np.random.default_rng(10)
    first, second = rng.standard_normal((4, 3)), rng.standard_normal((2, 4))
    first[1] = 0
    alive = [0, 2, 3]
    expected = feedforward_lipschitz([first[alive], second[:, alive]])
    assert feedforward_lipschitz([first, second]) == pytest.approx(expected, rel=1e-5)
    assert feedforward_lipschitz([first, np.zeros((2, 4))]) == 0
    first = np.array([[1.0], [0.0]])
    for rest in ([[[0.0, 5.0]], [[1.0]]], [[[0.0, 5.0]]]):
        # no path from input to output
        assert feedforward_lipschitz([first, *rest]) < 1e-2


def test_scales_do_not_matter():
    weights = random_network(np.random.default_rng(12))
    scaled = [weights[0] * 1e-8, weights[1] * 1e12, weights[2] * 1e-3]
    assert feedforward_lipschitz(scaled) == pytest.approx(
        10 * feedforward_lipschitz(weights), rel=1e-6
    )


@pytest.mark.parametrize(
    "arguments, options, message",
    [
        ([np.ones((2, 3)), np.ones((2, 3))], {}, r"weights\[1\]: expected .* in = 2"),
        ([], {}, "at least one"),
        ([np.eye(2), np.eye(2)], {"slopes": (1, 0)}, "at most its beta"),
        ([np.eye(2), np.eye(2)], {"slopes": [(0, 1), (0, 1)]}, "1 such pairs"),
        ([np.eye(2)], {"p": 1}, "method='product'"),
        ([np.eye(2)], {"method": "network"}, "'sdp', 'product'"),
    ],
)
def test_mistakes_are_named(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        feedforward_lipschitz(arguments, **options)


# --- models of other packages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "activation, slopes",
    [("relu", (0, 1)), ("tanh", (0, 1)), ("logistic", (0, 0.25)), ("identity", (1, 1))],
)
def test_scikit_learn_regressor(activation, slopes):
    neural = pytest.importorskip("sklearn.neural_network")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 3))
    model = neural.MLPRegressor(
        hidden_layer_sizes=(8, 6),
        activation=activation,
        solver="lbfgs",
        max_iter=30,
        random_state=0,
    )
    with warnings.catch_warnings(action="ignore"):  # it has not converged: no matter
        model.fit(X, X[:, :2] ** 2)
    bound = feedforward_lipschitz(model)
    assert bound == feedforward_lipschitz([W.T for W in model.coefs_], slopes=slopes)
    pairs = rng.standard_normal((2, 3000, 3)) * 3
    pairs[1] = pairs[0] + 1e-3 * rng.standard_normal((3000, 3))
    moved = np.linalg.norm(model.predict(pairs[0]) - model.predict(pairs[1]), axis=1)
    sampled = np.max(moved / np.linalg.norm(pairs[0] - pairs[1], axis=1))
    assert 0.2 * bound < sampled <= bound


def test_scikit_learn_classifier_bounds_the_logits():
    neural = pytest.importorskip("sklearn.neural_network")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    model = neural.MLPClassifier(hidden_layer_sizes=(10,), max_iter=40, random_state=0)
    with pytest.raises(ValueError, match="fit"):
        feedforward_lipschitz(model)
    with warnings.catch_warnings(action="ignore"):
        model.fit(X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 0))
    bound = feedforward_lipschitz(model)
    assert bound == feedforward_lipschitz([W.T for W in model.coefs_])
    near = X + 1e-3 * rng.standard_normal(X.shape)
    moved = np.linalg.norm(model.predict_proba(X) - model.predict_proba(near), axis=1)
    assert np.all(moved <= bound * np.linalg.norm(X - near, axis=1))
    with pytest.raises(ValueError, match="brings its own"):
        feedforward_lipschitz(model, slopes=(0, 0.5))


def test_linear_models_are_refused_with_the_norm_that_is_their_constant():
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(50, 3)), rng.normal(size=(50, 2))
    for model, constant in (
        (linear.Ridge().fit(X, Y[:, 0]), r"induced_norm\(model.coef_, p, q\)"),
        (linear.Ridge().fit(X, Y), r"induced_norm\(model.coef_, p, q\)"),
        (
            linear.LogisticRegression().fit(X, Y[:, 0] > 0),
            r"induced_norm\(model.coef_, p, q\)",
        ),
    ):
        with pytest.raises(TypeError, match=constant):
            feedforward_lipschitz(model)
        scores = getattr(model, "decision_function", model.predict)
        bound = induced_norm(np.atleast_2d(model.coef_), 2, 2)
        moved = np.reshape(scores(X[1:]) - scores(X[:-1]), (49, -1))
        ratios = np.linalg.norm(moved, axis=1) / np.linalg.norm(X[1:] - X[:-1], axis=1)
        assert 0.5 * bound < ratios.max() <= bound * (1 + 1e-12)
    with pytest.raises(ValueError, match=r"write M\[None\]"):
        induced_norm(np.ones(3), 2, 2)
    with pytest.raises(ValueError, match=r"write \[W\]"):
        feedforward_lipschitz(np.ones((2, 3)))


def test_scikit_learn_exponential_output_is_refused():
    neural = pytest.importorskip("sklearn.neural_network")
    model = neural.MLPRegressor(hidden_layer_sizes=(3,))
    model.coefs_, model.out_activation_ = (
        [np.eye(3), np.eye(3)],
        "exp",
    )  # of loss="poisson": no Lipschitz constant
    with pytest.raises(ValueError, match="'softmax', 'logistic', got 'exp'"):
        feedforward_lipschitz(model)


# --- 1-Lipschitz layers -----------------------------------------------------------------------------------------------


def sll(rng, n, m, spread=2.0):
    return SLLLayer(
        rng.standard_normal((n, m)),
        rng.standard_normal(m),
        np.exp(spread * rng.standard_normal(m)),
    )


def test_sll_layers_follow_their_formula():
    rng = np.random.default_rng(0)
    layer = sll(rng, 4, 6)
    W, q = layer.weight, layer.q
    T = np.array(
        [sum(abs(W[:, i] @ W[:, j]) * q[j] / q[i] for j in range(6)) for i in range(6)]
    )
    X = rng.standard_normal((7, 4))
    rows = [x - 2 * W @ np.diag(1 / T) @ np.maximum(W.T @ x + layer.bias, 0) for x in X]
    np.testing.assert_allclose(layer(X), rows, rtol=1e-11)
    np.testing.assert_allclose(layer(X)[3], layer(X[3:4])[0], rtol=1e-14)
    np.testing.assert_allclose(layer(X[3]), rows[3], rtol=1e-11)


@pytest.mark.parametrize("seed", few(range(20), of=5))
def test_sll_networks_never_stretch(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    layers = [sll(rng, n, int(rng.integers(1, 20))) for _ in range(4)]
    head = rng.standard_normal((3, n))
    network = SLLNetwork(layers, head / np.linalg.norm(head, 2), rng.standard_normal(3))
    for layer in layers:
        assert 0.99 < layer.certificate() <= 1
        assert layer.lipschitz == 1
        scaled = layer.weight * np.sqrt(layer.inverse_T)
        assert (
            np.linalg.eigvalsh(scaled.T @ scaled)[-1] <= 1 + 1e-12
        )  # W'W <= T by another route
    assert network.lipschitz <= 1 + 1e-9
    X = 3 * rng.standard_normal((500, n))
    for size in (1e-3, 1.0):
        Y = X + size * rng.standard_normal(X.shape)
        ratio = np.linalg.norm(network(X) - network(Y), axis=1) / np.linalg.norm(
            X - Y, axis=1
        )
        assert ratio.max() <= 1 + 1e-12


def test_sll_certificate_notices_a_smaller_T():
    layer = SLLLayer(
        np.eye(3)[:, [0, 0, 1]], np.zeros(3), [1.0, 1.0, 2.0]
    )  # two equal columns: T is tight
    assert layer.certificate() == pytest.approx(1, abs=1e-12)
    object.__setattr__(layer, "inverse_T", layer.inverse_T / 0.9)
    assert layer.certificate() == pytest.approx(1 / 0.9)
    assert layer.lipschitz == pytest.approx(2 / 0.9 - 1)
    x = np.array([[5.0, 0, 0], [6.0, 0, 0]])
    assert np.ptp(layer(x)[:, 0]) == pytest.approx(
        layer.lipschitz
    )  # and stretches by exactly that


def test_sll_heads_count_with_their_spectral_norm():
    network = SLLNetwork([], [[1.0, 0.0], [1.0, 0.0]])  # unit rows, and yet sqrt 2
    assert math.sqrt(2) <= network.lipschitz <= math.sqrt(2) * (1 + 1e-12)


@pytest.mark.parametrize("scale", [1e-200, 1e-100, 1.0, 1e100, 1e200])
@pytest.mark.parametrize("size", [1e-119, 1.0, 1e119])
def test_sll_layers_count_by_ratios_of_their_scales(size, scale):
    """W'W and q are 1e-238 and 1e-100, or 1e238 and 1e100: products leave the doubles."""
    weight = size * np.array([[3.0, 1.0], [4.0, 0.0]])
    layer = SLLLayer(weight, [0.0, 0.0], [scale, 2 * scale])
    with mpmath.workdps(50):
        W = mpmath.matrix(weight.tolist())
        image = W * mpmath.diag(layer.inverse_T.tolist()) * W.T
        largest = max(mpmath.eigsy(image, eigvals_only=True))
        assert 0.5 < largest <= layer.certificate() <= 1


def test_sll_zero_columns_extreme_scales_and_pickles():
    layer = SLLLayer([[1.0, 0.0], [2.0, 0.0]], [0.0, 1.0], [1e-12, 1e12])
    again = pickle.loads(pickle.dumps(layer))
    np.testing.assert_array_equal(again([1.0, 2.0]), layer([1.0, 2.0]))
    assert layer.inverse_T[1] == 0
    assert again.certificate() == layer.certificate() <= 1


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: SLLLayer(np.eye(2), [0, 0], [1, 0]), ValueError, "positive scales"),
        (
            lambda: SLLLayer(np.eye(2), [0], [1, 1]),
            ValueError,
            r"bias: expected shape \(2\)|expected shape \(2",
        ),
        (
            lambda: SLLLayer(np.eye(2), [0, 0], [1, 1])(np.ones(3)),
            ValueError,
            "x: expected shape",
        ),
        (lambda: SLLNetwork([np.eye(2)], np.eye(2)), TypeError, "SLLLayer objects"),
        (
            lambda: SLLNetwork([sll(np.random.default_rng(0), 3, 2)], np.eye(2)),
            ValueError,
            "width 2",
        ),
    ],
)
def test_sll_mistakes_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("slopes", [(0.0, 0.25), (0.1, 0.25)])
def test_a_flatter_activation_is_the_same_network_with_smaller_weights(slopes):
    """The solver once stopped 13 % above the bound that it found in other units."""
    rng = np.random.default_rng(4)
    sizes = (3, 7, 9, 8, 2)
    weights = [
        rng.standard_normal((after, before)) / 2
        for before, after in itertools.pairwise(sizes)
    ]
    bound = feedforward_lipschitz(weights, slopes=slopes)
    smaller = [weights[0], *(0.25 * W for W in weights[1:])]
    units = tuple(slope / 0.25 for slope in slopes)
    assert bound == pytest.approx(
        feedforward_lipschitz(smaller, slopes=units), rel=1e-5
    )


@pytest.mark.parametrize("width", [1e-3, 1e-6, 1e-12])
def test_nearly_linear_activations_have_nearly_the_norm_of_the_matrix(width):
    rng = np.random.default_rng(5)
    weights = [rng.standard_normal(shape) for shape in ((6, 4), (5, 6), (3, 5))]
    norm = np.linalg.norm(weights[2] @ weights[1] @ weights[0], 2)
    bound = feedforward_lipschitz(weights, slopes=(1 - width, 1.0))
    assert (1 - width) ** 2 * norm * (1 - 1e-9) <= bound
    assert bound <= norm * (1 + 2 * width + 1e-7)
