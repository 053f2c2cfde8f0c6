"""Lipschitz constants of feed-forward networks, from weights alone: affine layers and activations whose slopes lie
in a known interval. Biases do not matter, and the bound holds for all inputs."""

from itertools import pairwise

import numpy as np
from flint import arb, arb_mat

from privcontrol.core._balls import (
    ball_matrix,
    spectral_norm,
    upper_float,
    working_bits,
)
from privcontrol.core._linalg import one_of, real_array
from privcontrol.core.lipschitz._lipsdp import lipsdp
from privcontrol.core.lipschitz.adapters import is_model, layers_of
from privcontrol.core.lipschitz.bound import NORMS, LipschitzBound
from privcontrol.core.lipschitz.norms import induced_norm


def feedforward_lipschitz(weights, *, p=2, q=2, method="sdp", slopes=(0, 1)):
    r"""A Lipschitz constant of :math:`f(x) = W_K \phi(\cdots \phi(W_0 x + b_0) \cdots) + b_K`, from above.

    Parameters
    ----------
    weights : sequence of array_like, each (out, in), or a model
        The matrices from input to output; the last layer has no activation. Or a fitted scikit-learn
        ``MLPClassifier`` or ``MLPRegressor``, or a torch ``Sequential`` of ``Linear``, ``ReLU``, ``Tanh``,
        ``Sigmoid`` and ``Identity``. For a classifier the logits are bounded; softmax and logistic outputs move
        no more than they do in any of the three norms.
    p, q : {1, 2, inf}
        Norm of the inputs and of the outputs.
    method : {"sdp", "product"}
        "product" multiplies induced norms, for p != q along the best chain of norms between p and q. "sdp" is
        LipSDP with one multiplier per neuron, for p = q = 2 only, never above the product.
    slopes : (alpha, beta) or a sequence of such pairs
        Least and greatest slope of the activations, of all or of each hidden layer: (0, 1) for ReLU and tanh,
        (0, 1/4) for the logistic function; alpha may be negative. A model brings its own.

    Returns
    -------
    LipschitzBound
        ``.method`` is "sdp", or "product" or "spectral" where these are as good. The certificate is verified
        in ball arithmetic and does not depend on a solver's tolerance.

    Raises
    ------
    ValueError
        If shapes do not chain, the slopes are no intervals, or the norms do not fit the method.
    TypeError
        If the model or one of its layers is not known.

    Examples
    --------
    The function relu(x) - relu(x - 5) has constant 1:

    >>> W = [[[1], [1]], [[1, -1]]]
    >>> round(feedforward_lipschitz(W), 6), round(feedforward_lipschitz(W, method="product"), 6)
    (1.0, 2.0)

    Notes
    -----
    The sensitivity that output perturbation needs (IP Definitions 3 and 4). Memory grows with the square and time with
    the cube of the number of neurons. It is a property of the exact function: the model's own round-off is not counted.
    LipSDP-Neuron of Fazlyab, Robey, Hassani, Morari and Pappas, NeurIPS 2019.
    """
    method = one_of(method, "method", ("sdp", "product"))
    p, q = one_of(p, "p", NORMS), one_of(q, "q", NORMS)
    if method == "sdp" and (p, q) != (2, 2):
        raise ValueError(
            f"method 'sdp' bounds the l2 -> l2 constant, got p={p}, q={q}; use method='product'"
        )
    weights, slopes = _network(weights, slopes)
    product = _product(weights, slopes, p, q)
    if method == "product" or product == 0:
        return LipschitzBound(product, p=p, q=q, method="product")
    weights, slopes = _alive(*_merged([ball_matrix(W) for W in weights], slopes))
    if not slopes:
        value, method = (
            (upper_float(spectral_norm(weights[0])) if weights else 0.0),
            "spectral",
        )
    else:
        value = lipsdp(weights, slopes)
    if value < product:
        return LipschitzBound(value, p=2, q=2, method=method)
    return LipschitzBound(product, p=2, q=2, method="product")


def _network(weights, slopes):
    """Validated matrices and one slope interval for each hidden layer."""
    if is_model(weights):
        if np.ravel(slopes).tolist() != [0, 1]:
            raise ValueError(
                f"slopes: a model brings its own, got {slopes}; leave them out"
            )
        weights, slopes = layers_of(weights)
    weights = list(weights)
    if weights and all(np.ndim(W) == 1 for W in weights):
        raise ValueError(
            "weights: expected a list of (out, in) matrices, got rows; write [W] for a single matrix W"
        )
    weights = [real_array(W, f"weights[{k}]", ndim=2) for k, W in enumerate(weights)]
    if not weights:
        raise ValueError("weights: expected at least one (out, in) matrix, got none")
    for k, (before, after) in enumerate(pairwise(weights)):
        if after.shape[1] != before.shape[0]:
            raise ValueError(
                f"weights[{k + 1}]: expected (out, in) with in = {before.shape[0]}, the rows of weights[{k}], "
                f"got {after.shape}; transpose matrices stored as (in, out)"
            )
    if any(0 in W.shape for W in weights):
        raise ValueError("weights: expected matrices with entries, got an empty one")
    table = real_array(slopes, "slopes")
    if table.ndim == 1:
        table = np.tile(table, (len(weights) - 1, 1))
    if table.shape != (len(weights) - 1, 2) and not (
        len(weights) == 1 and table.size == 0
    ):
        raise ValueError(
            f"slopes: expected (alpha, beta) or {len(weights) - 1} such pairs, got shape {table.shape}"
        )
    pairs = [tuple(map(float, pair)) for pair in table]
    if any(alpha > beta for alpha, beta in pairs):
        raise ValueError("slopes: expected alpha <= beta in every pair; swap them")
    return weights, pairs


def _product(weights, slopes, p, q):
    """The least product of induced norms over chains of norms that go from p to q and never back."""
    between = sorted(
        {norm for norm in NORMS if min(p, q) <= norm <= max(p, q)}, reverse=p > q
    )
    with working_bits():
        reach = {p: arb(1)}
        for W, (alpha, beta) in zip(weights, [*slopes, (1.0, 1.0)]):
            slope = arb(max(abs(alpha), abs(beta)))
            reach = {
                after: min(
                    (
                        reach[before]
                        * slope
                        * arb(float(induced_norm(W, before, after)))
                    ).upper()
                    for before in between[: i + 1]
                    if before in reach
                )
                for i, after in enumerate(between)
            }
        return upper_float(reach[q])


def _merged(weights, slopes):
    """The network without its linear activations (alpha = beta): neighbours are multiplied, in balls."""
    with working_bits():
        kept, intervals = [weights[0]], []
        for W, (alpha, beta) in zip(weights[1:], slopes):
            if alpha == beta:
                kept[-1] = W * kept[-1] * arb(alpha)
            else:
                kept.append(W)
                intervals.append((alpha, beta))
    return kept, intervals


def _alive(weights, slopes):
    """The network without the neurons whose inputs never move; empty when no input reaches the output."""
    weights = list(weights)
    for k in range(len(slopes)):
        rows = weights[k].tolist()
        alive = [
            i for i, row in enumerate(rows) if not all(entry == 0 for entry in row)
        ]
        if not alive:
            return [], []
        weights[k] = arb_mat([rows[i] for i in alive])
        weights[k + 1] = arb_mat(
            [[row[i] for i in alive] for row in weights[k + 1].tolist()]
        )
    if all(entry == 0 for entry in weights[-1].entries()):
        return [], []
    return weights, slopes
