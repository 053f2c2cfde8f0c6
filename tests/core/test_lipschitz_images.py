"""Convolutions, average pooling and residual blocks: their constants are never below those of their matrices."""

import itertools

import numpy as np
import pytest
import scipy.signal

from privcontrol.core import (
    SLLConvolution,
    SLLLayer,
    SLLNetwork,
    feedforward_lipschitz,
    induced_norm,
)
from privcontrol.core.lipschitz import operators
from privcontrol.core.lipschitz.operators import Residual, average, convolution

NORMS = (1, 2, np.inf)


class _Tensor:
    def __init__(self, array):
        self.array = np.asarray(array, np.float32)

    def detach(self):
        return self

    cpu = detach

    def numpy(self):
        return self.array


def torch_module(name, *children, weight=None, **attributes):
    """A stand-in for a torch module: the same class name, home, iteration and tensors."""
    home = {"__module__": "torch.nn.modules.fake"}
    made = type(name, (), home | {"__iter__": lambda self: iter(children)})()
    if weight is not None:
        made.weight = _Tensor(weight)
    vars(made).update(attributes)
    return made


def random_convolution(seed):
    rng = np.random.default_rng(seed)
    groups = int(rng.choice([1, 2]))
    kernel = rng.standard_normal(
        (2 * groups, int(rng.integers(1, 3)), *rng.integers(1, 4, 2))
    )
    stride, padding, dilation = (
        rng.integers(1, 3, 2),
        rng.integers(0, 3, 2),
        rng.integers(1, 3, 2),
    )
    shape = (kernel.shape[1] * groups, *rng.integers(5, 8, 2).tolist())
    return kernel, convolution(kernel, shape, groups, stride, padding, dilation)


def applied(operator, kernel, x):
    """The convolution of an image channel by channel, by scipy."""
    groups = operator.shape[0] // kernel.shape[1]
    padded = np.pad(x, ((0, 0), *((p, p) for p in operator.padding)))
    each = len(kernel) // groups
    outputs = []
    for o, taps in enumerate(kernel):
        wide = np.zeros(
            (
                len(taps),
                *(d * (k - 1) + 1 for d, k in zip(operator.dilation, taps.shape[1:])),
            )
        )
        wide[:, :: operator.dilation[0], :: operator.dilation[1]] = taps
        first = o // each * kernel.shape[1]
        image = sum(
            scipy.signal.correlate2d(padded[first + i], wide[i], "valid")
            for i in range(len(taps))
        )
        outputs.append(image[:: operator.stride[0], :: operator.stride[1]])
    return np.array(outputs)


@pytest.mark.parametrize("seed", range(12))
def test_the_matrix_of_a_convolution_is_that_of_scipy(seed):
    kernel, operator = random_convolution(seed)
    x = np.random.default_rng(seed).standard_normal(operator.shape)
    expected = applied(operator, kernel, x)
    assert expected.shape == operator.output_shape
    np.testing.assert_allclose(
        operator.matrix() @ x.ravel(), expected.ravel(), atol=1e-12
    )


@pytest.mark.parametrize("seed", range(12))
def test_norms_of_convolutions_are_above_those_of_their_matrices(seed):
    _, operator = random_convolution(seed)
    matrix = operator.matrix()
    for p, q in itertools.product(NORMS, NORMS):
        bound = float(operator.norm(p, q))
        if np.isfinite(bound):
            assert induced_norm(matrix, p, q) <= bound * (1 + 1e-14)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_norms_of_convolutions_are_tight_on_large_images(size):
    rng = np.random.default_rng(size)
    operator = convolution(rng.standard_normal((2, 2, size, size)), (2, 22, 22))
    matrix = operator.matrix()
    ratio = float(operator.norm(2, 2)) / np.linalg.norm(matrix, 2)
    assert 1 <= ratio < 1.05
    for norm in (1, np.inf):
        assert float(operator.norm(norm, norm)) == pytest.approx(
            float(induced_norm(matrix, norm, norm)), rel=1e-12
        )


def test_the_largest_singular_value_between_the_samples_is_covered(monkeypatch):
    """With few samples a peak between them is missed by the samples, and not by the bound."""
    rng = np.random.default_rng(0)
    kernels = rng.standard_normal((40, 1, 1, 3, 3))
    fine = [float(convolution(K, (1, 9, 9)).norm(2, 2)) for K in kernels]
    monkeypatch.setattr(operators, "_FREQUENCIES", 7)
    missed = 0
    for K, truth in zip(kernels, fine):
        samples = np.abs(np.fft.fft2(K[0, 0], (24, 24))).max()
        bound = float(convolution(K, (1, 9, 9)).norm(2, 2))
        missed += samples < truth * (1 - 2e-3)
        assert bound >= truth * (1 - 1.3e-3)  # the fine bound is itself above the truth
    assert missed > 5


def test_average_pooling():
    pool = average((3, 6, 6), (2, 2), (2, 2), (0, 0))
    image = np.random.default_rng(0).standard_normal((3, 6, 6))
    expected = image.reshape(3, 3, 2, 3, 2).mean(axis=(2, 4))
    np.testing.assert_allclose(pool.matrix() @ image.ravel(), expected.ravel())
    assert np.linalg.norm(pool.matrix(), 2) == pytest.approx(0.5)
    assert float(pool.norm(np.inf, np.inf)) == pytest.approx(1.0)
    assert 0.5 <= float(pool.norm(2, 2)) <= 1.001


def test_residual_blocks_stretch_by_at_most_the_sum():
    rng = np.random.default_rng(3)
    W = [rng.standard_normal((4, 4)) / 4 for _ in range(4)]
    network = [W[0], Residual([W[1], W[2]]), W[3]]
    bounds = {}
    for p in NORMS:
        bounds[p] = feedforward_lipschitz(network, p=p, q=p, method="product")
        norms = [float(induced_norm(M, p, p)) for M in W]
        expected = norms[0] * (1 + norms[1] * norms[2]) * norms[3]
        assert bounds[p] == pytest.approx(expected, rel=1e-12)
    assert feedforward_lipschitz(network) == bounds[2]

    def run(x):
        x = np.maximum(x @ W[0].T, 0)
        x = x + np.maximum(x @ W[1].T, 0) @ W[2].T
        return np.maximum(x, 0) @ W[3].T

    x = rng.standard_normal((2000, 4))
    y = x + 0.1 * rng.standard_normal(x.shape)
    for p in NORMS:
        moved = np.linalg.norm(run(x) - run(y), p, axis=1)
        assert (moved / np.linalg.norm(x - y, p, axis=1)).max() <= bounds[p]
    # a projection in the shortcut, and sizes that do not fit
    projected = Residual([np.ones((2, 4))], [W[0][:2]])
    assert feedforward_lipschitz([projected], method="product") == pytest.approx(
        np.sqrt(8) + np.linalg.norm(W[0][:2], 2)
    )
    with pytest.raises(ValueError, match="shortcut from 4 to 2"):
        feedforward_lipschitz([Residual([np.ones((2, 4))])])


def conv2d(kernel, stride=(1, 1), padding=(0, 0), groups=1, **changes):
    attributes = {
        "stride": stride,
        "padding": padding,
        "dilation": (1, 1),
        "groups": groups,
        "padding_mode": "zeros",
    } | changes
    return torch_module("Conv2d", weight=kernel, **attributes)


def pool2d(size=2, **changes):
    attributes = {
        "kernel_size": size,
        "stride": size,
        "padding": 0,
        "ceil_mode": False,
        "count_include_pad": True,
        "divisor_override": None,
    } | changes
    return torch_module("AvgPool2d", **attributes)


def small_network(rng):
    """A convolution, pooling and a linear layer on 6 x 6 images, and the same as matrices."""
    kernel = rng.standard_normal((2, 1, 3, 3)).astype(np.float32)
    head = rng.standard_normal((2, 18)).astype(np.float32)
    modules = [
        conv2d(kernel, padding=(1, 1)),
        torch_module("ReLU"),
        pool2d(),
        torch_module("Flatten"),
        torch_module("Linear", weight=head),
    ]
    first = convolution(kernel, (1, 6, 6), padding=(1, 1)).matrix()
    second = average((2, 6, 6), (2, 2), (2, 2), (0, 0)).matrix()
    return modules, [first, head.astype(float) @ second]


def test_small_convolutional_networks_get_the_bound_of_their_matrices():
    modules, matrices = small_network(np.random.default_rng(5))
    sequential = torch_module("Sequential", *modules)
    for model in (sequential, modules):
        bound = feedforward_lipschitz(model, input_shape=(1, 6, 6))
        assert bound.method == "sdp"
        assert bound == pytest.approx(feedforward_lipschitz(matrices), rel=1e-8)
    product = feedforward_lipschitz(sequential, input_shape=(1, 6, 6), method="product")
    assert bound <= product
    assert product >= feedforward_lipschitz(matrices, method="product") * (1 - 1e-9)
    for p in (1, np.inf):
        options = {"p": p, "q": p, "method": "product"}
        images = feedforward_lipschitz(modules, input_shape=(1, 6, 6), **options)
        assert images >= feedforward_lipschitz(matrices, **options) * (1 - 1e-12)


def test_residual_blocks_of_convolutions():
    rng = np.random.default_rng(6)
    kernel = rng.standard_normal((1, 1, 3, 3)).astype(np.float32) / 9
    block = Residual(
        [conv2d(kernel, padding=(1, 1)), torch_module("ReLU")],
    )
    bound = feedforward_lipschitz([block], input_shape=(1, 8, 8))
    matrix = convolution(kernel, (1, 8, 8), padding=(1, 1)).matrix()
    assert 1 + np.linalg.norm(matrix, 2) <= bound
    assert bound == pytest.approx(1 + np.linalg.norm(matrix, 2), rel=0.1)


@pytest.mark.parametrize(
    "modules, shape, error, message",
    [
        ([conv2d(np.ones((1, 1, 3, 3)))], None, ValueError, "pass input_shape="),
        ([conv2d(np.ones((1, 2, 3, 3)))], (1, 5, 5), ValueError, "of 1 channels"),
        ([conv2d(np.ones((1, 1, 3, 3)))], (1, 2, 2), ValueError, "as large as the"),
        (
            [conv2d(np.ones((1, 1, 1, 1)), padding="same")],
            (1, 5, 5),
            TypeError,
            "padding='same'",
        ),
        (
            [conv2d(np.ones((1, 1, 1, 1)), padding_mode="circular")],
            (1, 5, 5),
            TypeError,
            "circular",
        ),
        ([pool2d(ceil_mode=True)], (1, 5, 5), TypeError, "ceil_mode=False"),
        (
            [pool2d(padding=1, count_include_pad=False)],
            (1, 4, 4),
            TypeError,
            "count_include_pad=True",
        ),
        (
            [conv2d(np.ones((1, 1, 1, 1))), torch_module("Linear", weight=np.eye(3))],
            (1, 5, 5),
            ValueError,
            "25 entries into Linear",
        ),
        ([conv2d(np.ones((1, 1, 1, 1)))], "image", ValueError, "input_shape: expected"),
        ([conv2d(np.ones((1, 1, 1, 1)))], (0, 5, 5), ValueError, "input_shape"),
    ],
)
def test_mistakes_are_named(modules, shape, error, message):
    with pytest.raises(error, match=message):
        feedforward_lipschitz(modules, input_shape=shape)


def test_a_pair_of_norms_without_a_bound_is_named():
    with pytest.raises(ValueError, match="no bound of a convolution is known"):
        feedforward_lipschitz(
            [conv2d(np.ones((1, 1, 3, 3)))],
            input_shape=(1, 5, 5),
            p=np.inf,
            q=1,
            method="product",
        )


# --- 1-Lipschitz layers of images -------------------------------------------------------


def sll_convolution(seed, padding=None):
    rng = np.random.default_rng(seed)
    channels, filters = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    height, width = rng.integers(1, 4, 2)
    shape = (channels, *rng.integers(4, 8, 2).tolist())
    return SLLConvolution(
        rng.standard_normal((filters, channels, height, width)),
        rng.standard_normal(filters),
        np.exp(rng.standard_normal(filters)),
        shape,
        padding,
    )


@pytest.mark.parametrize("padding", [None, 0, 2])
@pytest.mark.parametrize("seed", range(8))
def test_convolutional_sll_layers_follow_their_formula_and_never_stretch(seed, padding):
    layer = sll_convolution(seed, padding)
    p = layer.padding
    matrix = convolution(layer.weight, layer.shape, padding=(p, p)).matrix()
    each = len(matrix) // len(layer.weight)
    inverse_T = np.repeat(layer.inverse_T, each)
    bias = np.repeat(layer.bias, each)
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((5, layer.size))
    expected = x - 2 * (np.maximum(x @ matrix.T + bias, 0) * inverse_T) @ matrix
    np.testing.assert_allclose(layer(x), expected, atol=1e-12)
    np.testing.assert_allclose(layer(x[2]), expected[2], atol=1e-12)
    # W'W <= T by eigenvalues of the whole matrix
    scaled = matrix * np.sqrt(inverse_T)[:, None]
    assert np.linalg.norm(scaled, 2) ** 2 <= layer.certificate() <= 1
    assert layer.lipschitz == 1
    y = x + 0.1 * rng.standard_normal(x.shape)
    moved = np.linalg.norm(layer(x) - layer(y), axis=1)
    assert (moved <= np.linalg.norm(x - y, axis=1) * (1 + 1e-12)).all()


def test_the_certificate_of_a_convolution_notices_a_smaller_T():
    layer = SLLConvolution(np.ones((1, 1, 1, 1)), [0.0], [1.0], (1, 3, 3))
    assert layer.certificate() == pytest.approx(1, abs=1e-12)
    object.__setattr__(layer, "inverse_T", layer.inverse_T / 0.9)
    assert layer.certificate() == pytest.approx(1 / 0.9)
    assert layer.lipschitz == pytest.approx(2 / 0.9 - 1)
    # every entry is active: x - 2 x / .9
    assert np.abs(layer(np.full(9, 1.0)) + (2 / 0.9 - 1)).max() < 1e-12


def test_convolutional_and_dense_layers_make_one_network():
    layers = [sll_convolution(3)]
    size = layers[0].size
    rng = np.random.default_rng(0)
    layers.append(SLLLayer(rng.standard_normal((size, 3)), np.zeros(3), np.ones(3)))
    network = SLLNetwork(layers, rng.standard_normal((2, size)) / np.sqrt(size))
    assert network(np.zeros((4, size))).shape == (4, 2)
    assert network.lipschitz == pytest.approx(np.linalg.norm(network.head, 2))


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"shape": (2, 5, 5)}, r"shape: expected \(1, rows, columns\)"),
        ({"shape": (1, 2, 2), "padding": 0}, "at least as large as the filters"),
        ({"bias": [0.0]}, "bias: expected shape"),
        ({"q": [1.0, 0.0]}, "positive scales"),
        ({"weight": np.ones((2, 3))}, "weight: expected 4 dimension"),
        ({"padding": -1}, "padding: expected an integer"),
    ],
)
def test_mistakes_of_layers_are_named(changes, message):
    arguments = {
        "weight": np.ones((2, 1, 3, 3)),
        "bias": np.zeros(2),
        "q": np.ones(2),
        "shape": (1, 5, 5),
    }
    with pytest.raises(ValueError, match=message):
        SLLConvolution(**(arguments | changes))
