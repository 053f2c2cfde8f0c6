"""Convolutional layers that are 1-Lipschitz by construction, beside their formula."""

import numpy as np
import pytest
import scipy.sparse
from repeats import few
from scipy.signal import correlate

from privcontrol.core import (
    SLLConvolution,
    SLLLayer,
    SLLNetwork,
)


def matrix_of(layer):
    """The matrix of the layer's convolution, one unit image after the other by scipy."""
    p = layer.padding
    columns = []
    for unit in np.eye(layer.size).reshape(-1, *layer.shape):
        padded = np.pad(unit, ((0, 0), (p, p), (p, p)))
        seen = [correlate(padded, kernel, "valid") for kernel in layer.weight]
        columns.append(np.ravel(seen))
    return np.array(columns).T


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
@pytest.mark.parametrize("seed", few(range(8), of=3))
def test_convolutional_sll_layers_follow_their_formula_and_never_stretch(seed, padding):
    layer = sll_convolution(seed, padding)
    matrix = matrix_of(layer)
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


def test_the_matrix_of_a_convolution_is_sparse():
    layer = sll_convolution(4)
    assert scipy.sparse.issparse(layer.matrix)
    np.testing.assert_allclose(layer.matrix.toarray(), matrix_of(layer).T)


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
