"""Lipschitz constants of feed-forward networks, from weights alone.

Layers are affine, and slopes of activations lie in known intervals. Biases do not matter,
and the bound holds for all inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from .._balls import (
    Ball,
    BallMatrix,
    ball_matrix,
    block_balls,
    diagonal_balls,
    is_positive_definite,
    midpoints,
    spectral_norm,
    upper_float,
    working_bits,
)
from .._linalg import one_of, real_array, sequence_of
from .norms import LipschitzBound, checked_norm, induced_norm

#: Neurons up to which "sdp" is solved, within some minutes.
MOST_NEURONS = 100
#: By how much the matrix inequality is tightened, until balls prove what is found.
_MARGINS = (1e-9, 1e-8, 1e-7, 1e-6, 1e-4)
#: Relative width of an interval of slopes below which a solver loses its digits.
_THIN = 1e-4
#: Slopes of scikit-learn's activations.
_SLOPES = {
    "identity": (1.0, 1.0),
    "logistic": (0.0, 0.25),
    "tanh": (0.0, 1.0),
    "relu": (0.0, 1.0),
}

Slopes = Sequence[tuple[float, float]]


def feedforward_lipschitz(
    weights: Any,
    *,
    p: float = 2,
    q: float = 2,
    method: str = "sdp",
    slopes: ArrayLike = (0, 1),
) -> LipschitzBound:
    r"""Bound the Lipschitz constant of a feed-forward network from above.

    The network is :math:`f(x) = W_K \phi(\cdots \phi(W_0 x + b_0) \cdots) + b_K`.

    Parameters
    ----------
    weights : sequence of array_like, each (out, in), or a model
        The matrices from input to output; the last layer has no activation. Of a torch
        model these are ``[layer.weight for layer in model if hasattr(layer, "weight")]``.
        Or a fitted scikit-learn ``MLPClassifier`` or ``MLPRegressor``. For a classifier
        the logits are bounded; softmax and logistic outputs move no more than they do in
        the norms 1, 2 and inf.
    p, q : float
        Norm of the inputs and of the outputs, as `induced_norm` takes them.
    method : {"sdp", "product"}
        "product" multiplies induced norms. "sdp" is LipSDP with one multiplier per neuron,
        for p = q = 2 and at most 100 neurons, never above the product.
    slopes : (alpha, beta) or a sequence of such pairs
        Least and greatest slope of the activations, of all or of each hidden layer: (0, 1)
        for ReLU and tanh, (0, 1/4) for the logistic function; alpha may be negative. A
        scikit-learn model brings its own.

    Returns
    -------
    LipschitzBound
        ``.method`` is "sdp", or "product" or "spectral" where these are as good. The bound
        is for the exact function: the model's own round-off is not counted.

    Raises
    ------
    ValueError
        If shapes do not chain, the slopes are no intervals, the norms do not fit the
        method, or the network has too many neurons for "sdp".
    TypeError
        If the model is not known.

    References
    ----------
    IP Definitions 3 and 4. LipSDP-Neuron of Fazlyab, Robey, Hassani, Morari and Pappas,
    NeurIPS 2019.

    Examples
    --------
    The function relu(x) - relu(x - 5) has constant 1:

    >>> W = [[[1], [1]], [[1, -1]]]
    >>> round(feedforward_lipschitz(W), 5), round(feedforward_lipschitz(W, method="product"), 5)
    (1.0, 2.0)
    """
    method = one_of(method, "method", ("sdp", "product"))
    p = checked_norm(p, "p")
    q = checked_norm(q, "q")
    if method == "sdp" and (p, q) != (2, 2):
        raise ValueError(
            f"method 'sdp' bounds the l2 -> l2 constant, got p={p}, q={q}; use "
            "method='product'"
        )
    matrices, intervals = _network(weights, slopes)
    product = _product(matrices, intervals, p, q)
    best = LipschitzBound(product, p=p, q=q, method="product")
    if method == "product" or product == 0:
        return best
    with working_bits():
        layers, intervals = _merged(matrices, intervals)
        if not intervals:
            value = upper_float(spectral_norm(layers[0]))
            return LipschitzBound(min(value, product), p=2, q=2, method="spectral")
        value = _lipsdp(layers, intervals)
    if value < product:
        return LipschitzBound(value, p=2, q=2, method="sdp")
    return best


# -- reading a network ---------------------------------------------------------------


def _network(weights: Any, slopes: ArrayLike) -> tuple[list[NDArray], Slopes]:
    """Return the matrices of a network, and the slopes of each hidden layer."""
    if hasattr(weights, "hidden_layer_sizes"):
        if np.ravel(slopes).tolist() != [0, 1]:
            raise ValueError(
                f"slopes: a model brings its own, got {slopes!r}; leave them out"
            )
        weights, slopes = _scikit_learn(weights)
    elif not isinstance(weights, list | tuple | np.ndarray):
        raise TypeError(
            "weights: expected a list of (out, in) matrices or a fitted scikit-learn "
            f"MLPClassifier or MLPRegressor, got {type(weights).__name__}; pass the "
            "weights of its layers, or use induced_norm(model.coef_, p, q) where its "
            "scores are coef_ @ x + intercept_"
        )
    layers = sequence_of(weights, "weights", "layers")
    if layers and all(np.ndim(W) == 1 for W in layers):
        raise ValueError(
            "weights: expected a list of (out, in) matrices, got rows; write [W] for "
            "a single matrix W"
        )
    matrices = [real_array(W, f"weights[{k}]", ndim=2) for k, W in enumerate(layers)]
    if not matrices or not all(W.size for W in matrices):
        raise ValueError(
            "weights: expected at least one (out, in) matrix, all with entries"
        )
    for k, (before, after) in enumerate(pairwise(matrices)):
        if after.shape[1] != len(before):
            raise ValueError(
                f"weights[{k + 1}]: expected (out, in) with in = {len(before)}, the "
                f"rows of weights[{k}], got {after.shape}; transpose matrices stored as "
                "(in, out)"
            )
    return matrices, _intervals(slopes, len(matrices) - 1)


def _scikit_learn(model: Any) -> tuple[list[NDArray], tuple[float, float]]:
    """Return the matrices and the slopes of a fitted multi-layer perceptron."""
    if not hasattr(model, "coefs_"):
        raise ValueError(
            f"weights: expected a fitted {type(model).__name__}; call its fit method first"
        )
    outputs = ("identity", "softmax", "logistic")  # none moves more than the logits
    known = [(model.activation, tuple(_SLOPES)), (model.out_activation_, outputs)]
    for activation, names in known:
        if activation not in names:
            raise TypeError(
                f"weights: expected an activation among {', '.join(names)}; got "
                f"{activation!r}"
            )
    return [np.asarray(W, float).T for W in model.coefs_], _SLOPES[model.activation]


def _intervals(slopes: ArrayLike, count: int) -> Slopes:
    """Return one slope interval for each hidden layer."""
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
        raise ValueError("slopes: every alpha must be at most its beta")
    return pairs


# -- bounds --------------------------------------------------------------------------


def _product(matrices: list[NDArray], slopes: Slopes, p: float, q: float) -> float:
    """Return the least product of induced norms, one layer of which leads from p to q."""
    with working_bits():
        steepness = Ball(1)
        for pair in slopes:
            steepness *= Ball(max(map(abs, pair)))
        changes = range(1 if p == q else len(matrices))
        products = []
        for k in changes:
            norms = [induced_norm(W, p, p) for W in matrices[:k]]
            norms.append(induced_norm(matrices[k], p, q))
            norms += [induced_norm(W, q, q) for W in matrices[k + 1 :]]
            total = steepness
            for norm in norms:
                total *= Ball(float(norm))
            products.append(upper_float(total))
    return min(products)


def _merged(
    matrices: list[NDArray], slopes: Slopes
) -> tuple[list[BallMatrix], list[tuple[float, float]]]:
    """Return the network without linear activations, whose neighbours are multiplied."""
    kept = [ball_matrix(matrices[0])]
    intervals = []
    for W, (alpha, beta) in zip(matrices[1:], slopes):
        if alpha == beta:
            kept[-1] = ball_matrix(W) * kept[-1] * Ball(alpha)
        else:
            kept.append(ball_matrix(W))
            least = _THIN * max(abs(alpha), abs(beta))
            intervals.append((min(alpha, beta - least), beta))
    return kept, intervals


def _lipsdp(weights: list[BallMatrix], slopes: Slopes) -> float:
    """Return a certified l2 bound of the network with these weights and hidden slopes.

    With u_i = e_i - alpha a_i and v_i = e_i - beta a_i, where a_i reads neuron i's input
    and e_i its output from the stacked increments h of input and neurons, slopes in
    [alpha, beta] mean (u_i'h)(v_i'h) <= 0. Hence P(rho, t) = rho E_0'E_0 + sum_i t_i
    (u_i v_i' + v_i u_i') - E_K' W_K'W_K E_K >= 0 and t >= 0 give ||W_K h_K||^2 <= rho
    ||h_0||^2. CVXPY proposes rho and t, and balls prove the inequality. The variant that
    couples neurons is left out on purpose: it returns about 0 for relu(x) - relu(x - 5),
    whose constant is 1.
    """
    cp = import_module("cvxpy")  # takes seconds
    neurons = sum(W.nrows() for W in weights[:-1])
    if neurons > MOST_NEURONS:
        raise ValueError(
            f"method 'sdp': expected at most {MOST_NEURONS} neurons, got {neurons}, which "
            "take a solver minutes; use method='product'"
        )
    exponents = []
    scaled = []
    for W in weights:
        _, exponent = math.frexp(np.linalg.norm(midpoints(W), 2))
        exponents.append(exponent)
        scaled.append(W * arb(2) ** -exponent)
    scaled[0] = _compressed(scaled[0])
    U = _directions(scaled, slopes, 0)
    V = _directions(scaled, slopes, 1)
    size = U.ncols()
    inputs = scaled[0].ncols()
    last = scaled[-1]
    reads = block_balls([[BallMatrix(last.nrows(), size - last.ncols()), last]])
    output = reads.transpose() * reads
    rho = cp.Variable()
    t = cp.Variable(U.nrows(), nonneg=True)
    half = midpoints(U).T @ cp.diag(t) @ midpoints(V)
    first = np.diag(np.arange(size) < inputs).astype(float)
    left = rho * first + half + half.T - midpoints(output)
    for margin in _MARGINS:
        problem = cp.Problem(cp.Minimize(rho), [left >> margin * np.eye(size)])
        try:
            problem.solve(solver=cp.CLARABEL)
        except cp.SolverError:
            continue
        if rho.value is None:
            continue
        multipliers = np.maximum(t.value, 0.0).tolist()
        product = U.transpose() * diagonal_balls(multipliers) * V
        corner = diagonal_balls([float(rho.value)] * inputs + [0.0] * (size - inputs))
        if is_positive_definite(corner + product + product.transpose() - output):
            return upper_float(arb(float(rho.value)).sqrt() * arb(2) ** sum(exponents))
    return math.inf


def _compressed(W: BallMatrix) -> BallMatrix:
    """Return a square L with LL' > W W', proven, if W has more columns than rows.

    Then W x = L y for some y no longer than x, and a bound for L is one for W.
    """
    rows = W.nrows()
    if W.ncols() <= rows:
        return W
    gram = W * W.transpose()
    middle = midpoints(gram)
    ridge = 1e-11 * np.trace(middle) / rows * np.eye(rows)
    factor = ball_matrix(np.linalg.cholesky(middle + ridge))
    if is_positive_definite(factor * factor.transpose() - gram):
        return factor
    return W


def _directions(weights: list[BallMatrix], slopes: Slopes, side: int) -> BallMatrix:
    """Return the columns u_i (side 0) or v_i (side 1) of all neurons, as rows."""
    size = sum(W.ncols() for W in weights)
    rows = []
    read = 0  # where the inputs of a layer begin
    for W, bounds in zip(weights[:-1], slopes):
        neurons = read + W.ncols()
        scaled = W * -arb(bounds[side])
        for i, row in enumerate(scaled.tolist()):
            line = [arb(0)] * size
            line[read:neurons] = row
            line[neurons + i] = arb(1)
            rows.append(line)
        read = neurons
    return ball_matrix(rows)
