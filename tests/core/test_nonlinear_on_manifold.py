"""Nonlinear queries on a manifold, by a Lipschitz constant along it."""

import itertools
import math

import numpy as np
import pytest

from privcontrol.core import (
    AffineManifold,
    BallAdjacency,
    DirectionAdjacency,
    GaussianNoise,
    LinearQuery,
    LipschitzBound,
    ManifoldAdjacency,
    ManifoldPerturbation,
    Mechanism,
    PrivacyBudget,
    audit,
    feedforward_lipschitz,
    kappa_inverse,
    lipschitz_along,
)

BUDGET = PrivacyBudget(epsilon=1.0, delta=1e-2)
PURE = PrivacyBudget(epsilon=1.0)


def network(weights, biases, x):
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        x = np.tanh(x @ weight.T + bias)
    return x @ weights[-1].T + biases[-1]


def random_case(seed):
    """A manifold, a network that looks across it as well as along it, and biases."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(3, 8)), int(rng.integers(1, 3))
    if seed % 2:
        manifold = AffineManifold(rng.normal(size=(n - k, n)))
    else:
        units = 10.0 ** rng.uniform(-3, 3, k)
        manifold = AffineManifold.from_kernel(rng.normal(size=(n, k)) * units)
    sizes = [n, 6, 5, 2]
    weights = [
        rng.normal(size=(out, given)) / math.sqrt(given)
        for given, out in itertools.pairwise(sizes)
    ]
    return manifold, weights, [rng.normal(size=out) for out in sizes[1:]]


@pytest.mark.parametrize("method", ["sdp", "product"])
@pytest.mark.parametrize("seed", range(20))
def test_slopes_along_a_manifold_stay_below_the_bound(seed, method):
    """Against Jacobians at random points and near them, along tangent directions."""
    manifold, weights, biases = random_case(seed)
    rng = np.random.default_rng(seed)
    bound = lipschitz_along(manifold, weights, method=method)
    everywhere = feedforward_lipschitz(weights, method=method)
    assert bound <= everywhere * (1 + 1e-9)
    basis = np.linalg.qr(manifold.kernel)[0]
    steepest = 0.0
    for _ in range(60):
        x = manifold.origin + basis @ rng.normal(size=basis.shape[1])
        step = 1e-4 * basis.T
        ahead = network(weights, biases, x + step)
        behind = network(weights, biases, x - step)
        jacobian = (ahead - behind) / 2e-4
        steepest = max(steepest, np.linalg.norm(jacobian, 2))
    assert steepest <= bound * (1 + 1e-6)
    assert steepest > 0.01 * bound


@pytest.mark.parametrize("seed", range(20))
def test_one_layer_has_the_norm_of_its_response(seed):
    """A linear query: the largest singular value of F on an orthonormal tangent basis."""
    manifold, weights, _ = random_case(seed)
    bound = lipschitz_along(manifold, weights[:1])
    truth = np.linalg.norm(weights[0] @ np.linalg.qr(manifold.kernel)[0], 2)
    assert truth * (1 - 1e-12) <= bound <= truth * (1 + 1e-8)


def test_a_network_that_looks_across_the_manifold_needs_little_noise():
    """What a public total tells costs nothing, and a global constant would count it."""
    shares = AffineManifold(np.ones((1, 4)), [-100.0])
    weights = [np.array([[1.0, 1.0, 1.0, 1.02], [1.0, 1.01, 1.0, 1.0]]), np.eye(2)]
    along = lipschitz_along(shares, weights)
    ratio = feedforward_lipschitz(weights) / along
    assert ratio > 100
    assert lipschitz_along(shares, [np.ones((1, 4)), [[1.0]]]) < 1e-13


@pytest.mark.parametrize("seed", range(10))
def test_a_linear_model_has_the_guarantee_of_its_mechanism_or_more_noise(seed):
    """One published number: the bound is attained, so both are equal."""
    rng = np.random.default_rng(seed)
    manifold = AffineManifold(rng.normal(size=(2, 4)))
    F = rng.normal(size=(1, 4))
    adjacency = BallAdjacency(0.7)
    private = ManifoldPerturbation(
        lambda x: F @ x,
        manifold,
        adjacency,
        BUDGET,
        lipschitz=lipschitz_along(manifold, [F]),
    )
    plain = Mechanism(LinearQuery(F, manifold), GaussianNoise([private.scale]))
    truth = plain.guarantee(adjacency).gdp
    assert private.guarantee.gdp == pytest.approx(truth, rel=1e-7)
    assert private.guarantee.gdp >= truth * (1 - 1e-9)
    assert private.guarantee.satisfies(BUDGET)


@pytest.mark.parametrize(
    "family, budget, q", [("gaussian", BUDGET, 2), ("laplace", PURE, 1)]
)
@pytest.mark.parametrize("p", [1, 2, math.inf])
def test_the_widest_move_in_the_bound_s_own_norm(family, budget, q, p):
    """Circuits of x_1 + x_2 + x_3 = c move two entries by the radius."""
    manifold = AffineManifold(np.ones((1, 3)))
    private = ManifoldPerturbation(
        np.tanh,
        manifold,
        ManifoldAdjacency(2.0),
        budget,
        lipschitz=LipschitzBound(1.5, p=p, q=q, method="slope"),
        family=family,
    )
    widest = np.linalg.norm([2.0, -2.0, 0.0], p)
    allowed = kappa_inverse(1.0, 1e-2) if family == "gaussian" else 1.0
    assert private.scale == pytest.approx(1.5 * widest / allowed, rel=1e-9)
    assert private.scale >= 1.5 * widest / allowed * (1 - 1e-14)


def test_an_audit_passes_the_claim_and_catches_noise_of_the_wrong_move():
    """The steepest pair on the manifold; noise for half of its distance is caught."""
    manifold = AffineManifold([[1.0, 1.0]])
    move = np.array([[3.0], [-3.0]])

    def model(x):
        return np.arctan(x[..., :1] - x[..., 1:]) + x[..., :1]

    steepest = 3 / math.sqrt(2)  # 2 / sqrt 2 + 1 / sqrt 2 along (1, -1), at the origin
    near = DirectionAdjacency(move / 100)
    pair = (-move[:, 0] / 200, move[:, 0] / 200)
    right = ManifoldPerturbation(model, manifold, near, BUDGET, lipschitz=steepest)
    shift = (model(pair[1]) - model(pair[0])).item()
    assert shift / right.scale == pytest.approx(right.guarantee.gdp, rel=1e-3)
    assert shift / right.scale < right.guarantee.gdp
    passed = audit(right, inputs=pair, trials=10_000, delta=1e-2, rng=0)
    assert passed.passed
    assert passed.epsilon_lower > 0.3
    wrong = ManifoldPerturbation(model, manifold, near, BUDGET, lipschitz=steepest / 2)
    caught = audit(wrong, inputs=pair, claim=BUDGET, trials=10_000, delta=1e-2, rng=0)
    assert not caught.passed


def test_a_release_is_exact_and_data_off_the_manifold_are_refused():
    manifold = AffineManifold([[1.0, 1.0]], [-100.0])
    private = ManifoldPerturbation(
        np.tanh, manifold, ManifoldAdjacency(1.0), BUDGET, lipschitz=1.0
    )
    assert (private([40.0, 60.0], grid=0.25) % 0.25 == 0).all()
    largest = private.then(np.max)
    assert largest([40.0, 60.0], rng=0).shape == ()
    with pytest.raises(ValueError, match="off the manifold") as caught:
        private([41.23, 60.0])
    assert "41.23" not in str(caught.value)
    assert "along the manifold" in private.guarantee.sentence


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"lipschitz": 0}, ValueError, "never changes"),
        ({"model": 3}, TypeError, "callable"),
        ({"family": "gauss"}, ValueError, "family"),
        ({"lipschitz": LipschitzBound(1.0, p=2, q=1, method="x")}, ValueError, "q=1"),
        ({"adjacency": 1.0}, TypeError, "adjacency"),
        ({"releases": 0}, ValueError, "releases"),
    ],
)
def test_mistakes_are_named(changes, error, message):
    asked = {
        "model": np.tanh,
        "manifold": AffineManifold([[1.0, 1.0]]),
        "adjacency": ManifoldAdjacency(1.0),
        "budget": BUDGET,
        "lipschitz": 1.0,
    } | changes
    with pytest.raises(error, match=message):
        ManifoldPerturbation(**asked)
    with pytest.raises(ValueError, match="weights"):
        lipschitz_along(AffineManifold([[1.0, 1.0]]), [np.eye(3)])
