"""Lipschitz constants of feed-forward networks, from weights alone.

Layers are affine, and slopes of activations lie in known intervals. Biases do not matter,
and the bound holds for all inputs.
"""

import math
from itertools import pairwise
from typing import Any

import numpy as np

from privcontrol.core._balls import (
    Ball,
    BallMatrix,
    ball_matrix,
    spectral_norm,
    upper_float,
    working_bits,
)
from privcontrol.core._linalg import one_of, real_array, sequence_of
from privcontrol.core.lipschitz._lipsdp import lipsdp
from privcontrol.core.lipschitz.adapters import is_model, is_module, stages_of
from privcontrol.core.lipschitz.bound import NORMS, LipschitzBound
from privcontrol.core.lipschitz.operators import (
    Dense,
    Identity,
    Operator,
    Residual,
    Stage,
    product_bound,
    summed,
)

#: Entries of the matrix of a convolution, and neurons of its network, up to which "sdp"
#: takes it as a dense one.
_MOST_ENTRIES = 10**6
_MOST_NEURONS = 600


def feedforward_lipschitz(
    weights: Any,
    *,
    p: float = 2,
    q: float = 2,
    method: str = "sdp",
    slopes: Any = (0, 1),
    input_shape: tuple[int, int, int] | None = None,
) -> LipschitzBound:
    r"""A Lipschitz constant of a feed-forward network, from above.

    The network is :math:`f(x) = W_K \phi(\cdots \phi(W_0 x + b_0) \cdots) + b_K`.

    Parameters
    ----------
    weights : sequence of array_like, each (out, in), or a model
        The matrices from input to output; the last layer has no activation. Or a fitted
        scikit-learn ``MLPClassifier`` or ``MLPRegressor``, or a torch ``Sequential`` or list
        of ``Linear``, ``Conv2d``, ``AvgPool2d``, ``Flatten``, ``ReLU``, ``Tanh``,
        ``Sigmoid`` and ``Identity``. A list may hold residual blocks (`Residual`). For a
        classifier the logits are bounded; softmax and logistic outputs move no more than
        they do in any of the three norms.
    p, q : {1, 2, inf}
        Norm of the inputs and of the outputs.
    method : {"sdp", "product"}
        "product" multiplies induced norms. "sdp" is LipSDP with one multiplier per neuron,
        for p = q = 2 only, never above the product, which it is with residual blocks, or
        convolutions of more than 600 neurons. Its memory grows with the square and its time
        with the cube of the number of neurons.
    slopes : (alpha, beta) or a sequence of such pairs
        Least and greatest slope of the activations, of all or of each hidden layer: (0, 1)
        for ReLU and tanh, (0, 1/4) for the logistic function; alpha may be negative. A model
        brings its own.
    input_shape : (channels, height, width), optional
        Of the images that a convolution takes. Its norm is that on the whole plane.

    Returns
    -------
    LipschitzBound
        ``.method`` is "sdp", or "product" or "spectral" where these are as good. The bound
        is for the exact function: the model's own round-off is not counted.

    Raises
    ------
    ValueError
        If shapes do not chain, the slopes are no intervals, or the norms do not fit the
        method.
    TypeError
        If the model or one of its layers is not known.

    References
    ----------
    IP Definitions 3 and 4. LipSDP-Neuron of Fazlyab, Robey, Hassani, Morari and Pappas,
    NeurIPS 2019.

    Examples
    --------
    The function relu(x) - relu(x - 5) has constant 1:

    >>> W = [[[1], [1]], [[1, -1]]]
    >>> round(feedforward_lipschitz(W), 6), round(feedforward_lipschitz(W, method="product"), 6)
    (1.0, 2.0)
    """
    method = one_of(method, "method", ("sdp", "product"))
    one_of(p, "p", NORMS)
    one_of(q, "q", NORMS)
    if method == "sdp" and (p, q) != (2, 2):
        raise ValueError(
            f"method 'sdp' bounds the l2 -> l2 constant, got p={p}, q={q}; use "
            "method='product'"
        )
    stages = _stages(weights, slopes, input_shape)
    with working_bits():
        product = product_bound(stages, p, q)
    if product == math.inf:
        raise ValueError(
            f"p, q: no bound of a convolution is known from p={p} to q={q}, or the "
            "weights are too large; use p = q"
        )
    best = LipschitzBound(product, p=p, q=q, method="product")
    if method == "product" or product == 0:
        return best
    dense = _dense(stages)
    if dense is None:
        return best
    matrices, intervals = dense
    layers = [ball_matrix(W) for W in matrices]
    layers, intervals = _merged(layers, intervals)
    if intervals:
        value = lipsdp(layers, intervals)
    else:
        value = upper_float(spectral_norm(layers[0]))
        method = "spectral"
    if value < product:
        return LipschitzBound(value, p=2, q=2, method=method)
    return best


def _stages(weights: Any, slopes: Any, input_shape: Any) -> list[Stage]:
    """The network as operators with the slopes of the activations between them."""
    layers = [] if is_model(weights) else sequence_of(weights, "weights", "layers")
    if is_model(weights) or any(is_module(layer) for layer in layers):
        if np.ravel(slopes).tolist() != [0, 1]:
            raise ValueError(
                f"slopes: a model brings its own, got {slopes}; leave them out"
            )
        return stages_of(weights, input_shape)
    if layers and all(np.ndim(W) == 1 for W in layers):
        raise ValueError(
            "weights: expected a list of (out, in) matrices, got rows; write [W] for "
            "a single matrix W"
        )
    operators = [_operator(W, k, slopes) for k, W in enumerate(layers)]
    if not operators:
        raise ValueError("weights: expected at least one (out, in) matrix, got none")
    for k, (before, after) in enumerate(pairwise(operators)):
        if after.inputs != before.outputs:
            raise ValueError(
                f"weights[{k + 1}]: expected (out, in) with in = {before.outputs}, the "
                f"rows of weights[{k}], got {(after.outputs, after.inputs)}; transpose "
                "matrices stored as (in, out)"
            )
    pairs = _intervals(slopes, len(operators) - 1)
    return [Stage(W, s) for W, s in zip(operators, [None, *pairs])]


def _operator(layer: Any, k: int, slopes: Any) -> Operator:
    """One entry of a list of layers."""
    if not isinstance(layer, Residual):
        weight = real_array(layer, f"weights[{k}]", ndim=2)
        if 0 in weight.shape:
            raise ValueError(
                "weights: expected matrices with entries, got an empty one"
            )
        return Dense(weight)
    if np.ndim(slopes) != 1:
        raise ValueError(
            "slopes: expected one pair (alpha, beta) for all layers of residual blocks"
        )
    branch = _stages(layer.branch, slopes, None)
    if layer.shortcut is None:
        shortcut = [Stage(Identity(branch[0].operator.inputs))]
    else:
        shortcut = _stages(layer.shortcut, slopes, None)
    return summed(branch, shortcut)


def _intervals(slopes: Any, count: int) -> list[tuple[float, float]]:
    """One slope interval for each hidden layer."""
    table = real_array(slopes, "slopes")
    if table.ndim == 1:
        table = np.tile(table, (count, 1))
    if table.shape != (count, 2) and not (count == 0 and table.size == 0):
        raise ValueError(
            f"slopes: expected (alpha, beta) or {count} such pairs, got shape "
            f"{table.shape}"
        )
    pairs = [(float(alpha), float(beta)) for alpha, beta in table.reshape(-1, 2)]
    if any(alpha > beta for alpha, beta in pairs):
        raise ValueError("slopes: expected alpha <= beta in every pair; swap them")
    return pairs


def _dense(stages: list[Stage]) -> tuple[list, list] | None:
    """Matrices and slopes of a network, or None if it is too large or has a sum."""
    matrices = []
    for stage in stages:
        operator = stage.operator
        entries = operator.inputs * operator.outputs
        if not isinstance(operator, Dense) and entries > _MOST_ENTRIES:
            return None
        matrix = operator.matrix()
        if matrix is None:
            return None
        matrices.append(matrix)
    neurons = sum(len(matrix) for matrix in matrices[:-1])
    if neurons > _MOST_NEURONS and not all(
        isinstance(stage.operator, Dense) for stage in stages
    ):
        return None
    return matrices, [stage.slopes for stage in stages[1:]]


def _merged(
    weights: list[BallMatrix], slopes: list[tuple[float, float]]
) -> tuple[list[BallMatrix], list[tuple[float, float]]]:
    """The network without linear activations, whose neighbours are multiplied in balls."""
    with working_bits():
        kept = [weights[0]]
        intervals = []
        for W, (alpha, beta) in zip(weights[1:], slopes):
            if alpha == beta:
                kept[-1] = W * kept[-1] * Ball(alpha)
            else:
                kept.append(W)
                intervals.append((alpha, beta))
    return kept, intervals
