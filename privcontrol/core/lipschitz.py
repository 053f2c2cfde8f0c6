"""Lipschitz constants that a privacy claim may rest on, and the networks that have them.

Norms of matrices between l_p spaces, feed-forward networks from their weights alone,
networks on a public box of inputs, and networks that are 1-Lipschitz by construction.
Every number is certified from above, by ball arithmetic where floating point could err
towards too little noise. Biases do not matter, and a bound holds for all inputs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Self
from warnings import catch_warnings, simplefilter

import numpy as np
import scipy.sparse
from flint import arb
from numpy.typing import ArrayLike, NDArray

from ..numerics.balls import (
    Ball,
    BallMatrix,
    ball_matrix,
    block_balls,
    diagonal_balls,
    frobenius_norm,
    is_positive_definite,
    midpoints,
    row_sum_norm,
    spectral_norm,
    upper_float,
    working_bits,
)
from ..numerics.checks import (
    checked_norm,
    one_of,
    positive_integer,
    positive_number,
    real_array,
    sequence_of,
)
from ..numerics.linalg import EPS, float_above, nonzero
from ..numerics.objects import CheckedFields, Frozen
from ..numerics.thresholds import LARGEST_SIZE, MOST_SIGNS, THINNEST

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: Neurons up to which "sdp" is solved, within some minutes.
MOST_NEURONS = 100
#: By how much the matrix inequality is tightened, until balls prove what is found.
_MARGINS = (1e-9, 1e-8, 1e-7, 1e-6, 1e-4)
#: Slopes of scikit-learn's activations.
_SLOPES = {
    "identity": (1.0, 1.0),
    "logistic": (0.0, 0.25),
    "tanh": (0.0, 1.0),
    "relu": (0.0, 1.0),
}

Slopes = Sequence[Sequence[float]]


class LipschitzBound(float, Frozen):
    """Hold a certified Lipschitz constant with its norms, a float.

    It bounds sup ||f(x) - f(x')||_q / ||x - x'||_p from above. The input norm p belongs
    to the radius, and the output norm q to the noise: 2 for Gaussian and 1 for Laplace
    noise (IP Definitions 1, 3 and 4). Arithmetic with it gives plain floats.

    Parameters
    ----------
    value : float
        The bound. One that is negative, infinite or NaN is a ``ValueError``.
    p, q : float
        Norm of the inputs and of the outputs, from 1 to inf.
    method : str
        How the bound was found.

    See Also
    --------
    feedforward_lipschitz

    Examples
    --------
    >>> gain = LipschitzBound(1.5, p=2, q=1, method="signs")
    >>> gain, 2 * gain
    (LipschitzBound(1.5, p=2, q=1, method='signs'), 3.0)
    """

    p: float
    q: float
    method: str

    def __new__(cls, value: float, *, p: float, q: float, method: str) -> Self:
        number = positive_number(value, "Lipschitz bound", zero=True)
        self = super().__new__(cls, number)
        self._set(p=checked_norm(p, "p"), q=checked_norm(q, "q"), method=method)
        return self

    def __repr__(self) -> str:
        norms = f"p={self.p}, q={self.q}"
        return f"LipschitzBound({float(self)!r}, {norms}, method={self.method!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return partial(LipschitzBound, **vars(self)), (float(self),)


def checked_inputs(x: ArrayLike, size: int) -> NDArray[np.float64]:
    """Inputs (in,) or (batch, in)."""
    inputs = real_array(x, "x")
    if inputs.ndim not in (1, 2) or inputs.shape[-1] != size:
        raise ValueError(
            f"x: expected shape ({size},) or (batch, {size}), got {inputs.shape}"
        )
    return inputs


def induced_norm(M: ArrayLike, p: float, q: float) -> LipschitzBound:
    r"""Bound the norm of a matrix from the p-norm to the q-norm, never below the truth.

    It is sup ||M x||_q / ||x||_p. The gain for one pair of norms does not bound
    another's: [[1, 1], [0, 0]] has l1 gain 1 and l2 gain sqrt 2.

    Between two pairs of norms that are known the logarithm is at most linear in
    (1/p, 1/q) (Riesz and Thorin), which bounds all pairs with p <= q. For p > q only
    two cases are answered: p = inf, where the largest value is at one of the corners
    (at most twelve columns), and q = 1, which is the transpose's norm from inf to the
    conjugate of p (at most twelve rows).

    Parameters
    ----------
    M : array_like, (m, n)
        The matrix, a row for each output: of a linear scikit-learn model ``coef_``, or
        ``coef_[None]`` if it is 1-D.
    p, q : float
        Norm of the inputs and of the outputs, from 1 to inf.

    Returns
    -------
    LipschitzBound
        ``.method`` says how. "columns" (p = 1), "rows" (q = inf), "spectral" (2 -> 2) and
        "corners" (p = inf or q = 1) are exact up to upward rounding, "interpolation" is an
        upper bound.

    Raises
    ------
    ValueError
        If M is not a finite matrix, p or q is below 1, or the norm is NP-hard and has no
        bound here, as for p > q with more than twelve columns or rows.

    See Also
    --------
    feedforward_lipschitz, system_gain

    References
    ----------
    The Lipschitz constants of IP Definitions 3 and 4, in any norms.

    Examples
    --------
    >>> [float(induced_norm([[1, 1], [0, 0]], p, p)) for p in (1, np.inf)]
    [1.0, 2.0]
    >>> M = [[1.0, 2.0], [-1.0, 1.0]]
    >>> induced_norm(M, 1.5, 3).method, induced_norm(M, np.inf, 1).method
    ('interpolation', 'corners')
    """
    array = real_array(M, "M")
    if array.ndim == 1:
        raise ValueError(
            f"M: expected a matrix (outputs, inputs), got shape {array.shape}; write "
            "M[None], such as coef_[None], for a single output"
        )
    matrix = real_array(array, "M", ndim=2)
    p = checked_norm(p, "p")
    q = checked_norm(q, "q")
    rows, columns = matrix.shape
    if not matrix.any():
        return LipschitzBound(0.0, p=p, q=q, method="zero")
    if p == 1 or columns == 1:
        value = _largest(matrix.T, q)
        method = "columns"
    elif q == math.inf or rows == 1:  # Hoelder's inequality is attained
        value = _largest(matrix, _conjugate(p))
        method = "rows"
    elif p == q == 2:
        value = upper_float(spectral_norm(ball_matrix(matrix)))
        method = "spectral"
    elif p <= q:
        value = _interpolated(matrix, p, q)
        method = "interpolation"
    elif p == math.inf and columns <= MOST_SIGNS:
        value = _at_corners(matrix, q)
        method = "corners"
    elif q == 1 and rows <= MOST_SIGNS:
        value = _at_corners(matrix.T, _conjugate(p))
        method = "corners"
    else:
        raise ValueError(
            f"p, q: the norm from p={p:g} to q={q:g} is NP-hard; take p <= q, such as "
            "p = q = 2 for Gaussian noise and p = q = 1 for Laplace noise, or, with at "
            f"most {MOST_SIGNS} columns p = inf, or with as many rows q = 1"
        )
    return LipschitzBound(value, p=p, q=q, method=method)


def _conjugate(p: float) -> float:
    """Return q with 1/p + 1/q = 1."""
    if p == 1:
        return math.inf
    return 1.0 if p == math.inf else p / (p - 1)


def _largest(vectors: NDArray[np.float64], norm: float) -> float:
    """Return the largest norm of the rows, rounded up."""
    if norm == math.inf:
        return float(np.abs(vectors).max())
    with working_bits():
        if norm == 1:
            return upper_float(row_sum_norm(ball_matrix(vectors)))
        if norm == 2:
            sizes = [frobenius_norm(ball_matrix(row)) for row in vectors]
            return max(map(upper_float, sizes))
    return float(_sizes(vectors, norm).max())


def _sizes(vectors: NDArray[np.float64], norm: float) -> NDArray[np.float64]:
    """Return the p-norms of the rows for a finite p, rounded up.

    The power p makes p times the entries' relative error, and its root undoes that. A
    rounded p moves the norm by less than the factor n^(1e-16).
    """
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    scaled = np.abs(vectors) / nonzero(largest)
    sums = (scaled**norm).sum(axis=1) ** (1 / norm)
    return largest[:, 0] * sums * (1 + (vectors.shape[1] + 20) * EPS)


def _at_corners(matrix: NDArray[np.float64], q: float) -> float:
    """Return max ||M s||_q over signs s, where a convex function on a box is largest."""
    columns = matrix.shape[1]
    size = float(np.abs(matrix).max())
    scaled = matrix / size
    count = 2 ** (columns - 1)
    bits = np.arange(count)[:, None] >> np.arange(columns - 1)
    signs = np.ones((count, columns))
    signs[:, 1:] -= 2.0 * (bits & 1)
    found = _sizes(signs @ scaled.T, q).max()
    # entries near zero are sums that cancel: their errors are those of the terms
    lost = (columns + 2) * EPS * _sizes(np.abs(scaled).sum(axis=1)[None], q)[0]
    return float_above((found + lost) * size, 4)


class _Known(NamedTuple):
    """The logarithm of a matrix's norm from l_(1/a) to l_(1/b), where it is known."""

    a: float
    b: float
    log: float

    @classmethod
    def to_largest(cls, matrix: NDArray[np.float64], a: float) -> _Known:
        """Return that to l_inf."""
        return cls(a, 0.0, math.log(_largest(matrix, _conjugate(1 / a))))

    @classmethod
    def from_sum(cls, matrix: NDArray[np.float64], b: float) -> _Known:
        """Return that from l_1."""
        q = 1 / b if b else math.inf
        return cls(1.0, b, math.log(_largest(matrix.T, q)))

    def up_to(self, other: _Known, a: float, b: float, entries: int) -> float:
        """Bound the logarithm on the line from here to another one, at (a, b)."""
        width, height = other.a - self.a, other.b - self.b
        is_wide = abs(width) >= abs(height)
        theta = (a - self.a) / width if is_wide else (b - self.b) / height
        doubt = 64 + abs(self.log) + abs(other.log) + math.log(entries)
        return (1 - theta) * self.log + theta * other.log + 2 * EPS * doubt


def _interpolated(matrix: NDArray[np.float64], p: float, q: float) -> float:
    """Bound the norm for p <= q by Riesz and Thorin, from the cheapest pair of norms.

    A line through (1/p, 1/q) ends where the norm is known: at (1/2, 1/2), at (1, s), the
    norm from p = 1, and at (s, 0), the norm to q = inf. All of these are the same for
    complex vectors, for which the theorem is one.
    """
    a, b = 1 / p, 1 / q
    spectral = upper_float(spectral_norm(ball_matrix(matrix)))
    middle = _Known(0.5, 0.5, math.log(spectral))
    if a > 0.5 and a + b >= 1:  # from the middle to the edge a = 1
        height = 0.5 + (b - 0.5) * 0.5 / (a - 0.5)
        edge = _Known.from_sum(matrix, min(max(height, 0.0), 1.0))
    else:  # from the middle to the edge b = 0
        start = 0.5 + (a - 0.5) * 0.5 / (0.5 - b)
        edge = _Known.to_largest(matrix, min(max(start, EPS), 1.0))
    lines = [(middle, edge)]
    if b < a < 1:
        for share in np.linspace(0, 1, 9)[1:-1]:
            height = b + share * (a - b)  # of the end at a = 1
            start = a - b * (1 - a) / (height - b)  # of the end at b = 0
            if start > 0:
                ends = _Known.from_sum(matrix, height), _Known.to_largest(matrix, start)
                lines.append(ends)
    least = min(one.up_to(other, a, b, matrix.size) for one, other in lines)
    return float_above(math.exp(least) * (1 + 1e-14), 4)


# -- feed-forward networks ----------------------------------------------------------------


def feedforward_lipschitz(
    weights: object,
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
        method, or the network has too many neurons for "sdp" or an unknown activation.

    See Also
    --------
    InputPerturbation, OutputPerturbation, core.ClippedNetwork, core.induced_norm

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
    p = checked_norm(p, "p")
    q = checked_norm(q, "q")
    method = one_of(method, "method", ("sdp", "product"))
    if method == "sdp" and (p, q) != (2, 2):
        raise ValueError(
            f"method 'sdp' bounds the l2 -> l2 constant, got p={p}, q={q}; use "
            "method='product'"
        )
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
    matrices = _chained(weights)
    table = real_array(slopes, "slopes")
    count = len(matrices) - 1
    if table.shape not in ((2,), (count, 2)):
        raise ValueError(
            f"slopes: expected (alpha, beta) or {count} such pairs, got shape "
            f"{table.shape}"
        )
    if (table[..., 0] > table[..., 1]).any():
        raise ValueError("slopes: every alpha must be at most its beta")
    intervals = np.broadcast_to(table, (count, 2)).tolist()
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


def _chained(weights: object) -> list[NDArray[np.float64]]:
    """Return matrices (out, in), each of which takes what the one before gives."""
    layers = sequence_of(weights, "weights", "layers")
    matrices = [real_array(W, f"weights[{k}]") for k, W in enumerate(layers)]
    if matrices and all(W.ndim == 1 for W in matrices):
        raise ValueError(
            "weights: expected a list of (out, in) matrices, got rows; write [W] for "
            "a single matrix W"
        )
    if not matrices or not all(W.ndim == 2 and W.size for W in matrices):
        raise ValueError(
            "weights: expected (out, in) matrices with entries, at least one"
        )
    for k, (before, after) in enumerate(pairwise(matrices)):
        if after.shape[1] != len(before):
            raise ValueError(
                f"weights[{k + 1}]: expected (out, in) with in = {len(before)}, the "
                f"rows of weights[{k}], got {after.shape}; transpose matrices stored as "
                "(in, out)"
            )
    return matrices


def _scikit_learn(
    model: BaseEstimator,
) -> tuple[list[NDArray[np.float64]], tuple[float, float]]:
    """Return the matrices and the slopes of a fitted multi-layer perceptron."""
    if not hasattr(model, "coefs_"):
        raise ValueError(
            f"weights: expected a fitted {type(model).__name__}; call its fit method first"
        )
    one_of(model.activation, "weights: the model's activation", tuple(_SLOPES))
    outputs = ("identity", "softmax", "logistic")  # none moves more than the logits
    one_of(model.out_activation_, "weights: the model's output activation", outputs)
    return [np.asarray(W, float).T for W in model.coefs_], _SLOPES[model.activation]


# -- bounds --------------------------------------------------------------------------


def _product(
    matrices: list[NDArray[np.float64]], slopes: Slopes, p: float, q: float
) -> float:
    """Return the least product of induced norms, one layer of which leads from p to q."""
    with working_bits():
        steepness = Ball(1)
        for pair in slopes:
            steepness *= Ball(max(map(abs, pair)))
        products = []
        for k in range(1 if p == q else len(matrices)):
            total = steepness
            for j, W in enumerate(matrices):
                norm = induced_norm(W, p if j <= k else q, p if j < k else q)
                total *= Ball(float(norm))
            products.append(upper_float(total))
    return min(products)


def _merged(
    matrices: list[NDArray[np.float64]], slopes: Slopes
) -> tuple[list[BallMatrix], Slopes]:
    """Return the network without linear activations, whose neighbours are multiplied."""
    kept = [ball_matrix(matrices[0])]
    intervals = []
    for W, (alpha, beta) in zip(matrices[1:], slopes, strict=True):
        if alpha == beta:
            kept[-1] = ball_matrix(W) * kept[-1] * Ball(alpha)
        else:
            kept.append(ball_matrix(W))
            least = THINNEST * max(abs(alpha), abs(beta))
            intervals.append((min(alpha, beta - least), beta))
    return kept, intervals


def _lipsdp(weights: list[BallMatrix], slopes: Slopes) -> float:
    """Return a certified l2 bound of the network with these weights and hidden slopes.

    A neuron with slopes in [c - r^2, c + r^2] answers a_i with e_i = c a_i + r d_i, where
    d_i^2 <= r^2 a_i^2. In the stacked increments g of the input and of all d, P(rho, s) =
    rho E_0'E_0 + sum_i s_i (D_i'D_i - r_i^2 A_i'A_i) - R'R >= 0 and s >= 0 give |R g|^2 <=
    rho |E_0 g|^2, where D_i and A_i take d_i and a_i from g, and R the outputs. CVXPY
    proposes rho and s, and balls prove the inequality. It is that of slopes (e_i - alpha
    a_i)(e_i - beta a_i) <= 0 in coordinates in which s stays near one however narrow the
    slopes are. The variant that couples neurons is left out on purpose: it returns about 0
    for relu(x) - relu(x - 5), whose constant is 1.
    """
    neurons = sum(W.nrows() for W in weights[:-1])
    if neurons > MOST_NEURONS:
        raise ValueError(
            f"method 'sdp': expected at most {MOST_NEURONS} neurons, got {neurons}, which "
            "take a solver minutes; use method='product'"
        )
    scaled, slopes, exponent = _near_one(weights, slopes)
    scaled[0] = _compressed(scaled[0])
    inequality = _Inequality.of(scaled, slopes)
    for rho, multipliers in inequality.proposals():
        if inequality.is_proven(rho, multipliers):
            return upper_float(arb(rho).sqrt() * arb(2) ** exponent)
    return math.inf


@dataclass(frozen=True)
class _Inequality:
    """P(rho, s) >= 0 of a network, as `_lipsdp` states it.

    ``sums`` has the rows A_i and ``output`` is R'R. ``squares`` are r_i^2, of each neuron.
    """

    inputs: int
    sums: BallMatrix
    output: BallMatrix
    squares: list[arb]

    @classmethod
    def of(cls, weights: list[BallMatrix], slopes: Slopes) -> _Inequality:
        """Return that of a network with these weights and hidden slopes."""
        sums, outputs = _stacked(weights, slopes)
        squares = []
        for W, (low, high) in zip(weights[:-1], slopes, strict=True):
            squares += [arb(high) / 2 - arb(low) / 2] * W.nrows()
        output = outputs.transpose() * outputs
        return cls(weights[0].ncols(), sums, output, squares)

    def proposals(self) -> Iterator[tuple[float, list[float]]]:
        """Yield rho and s that CVXPY finds, with a larger margin each time."""
        cp = import_module("cvxpy")  # takes seconds
        neurons = len(self.squares)
        size = self.inputs + neurons
        rho = cp.Variable()
        s = cp.Variable(neurons, nonneg=True)
        first = np.diag(np.arange(size) < self.inputs).astype(float)
        own = np.eye(size)[self.inputs :]
        wide = np.array([float(square.mid()) for square in self.squares])
        read = midpoints(self.sums)
        moved = own.T @ cp.diag(s) @ own
        answered = read.T @ cp.diag(cp.multiply(wide, s)) @ read
        left = rho * first + (moved - answered) - midpoints(self.output)
        for margin in _MARGINS:
            problem = cp.Problem(cp.Minimize(rho), [left >> margin * np.eye(size)])
            with catch_warnings(), suppress(cp.SolverError):
                simplefilter("ignore", UserWarning)  # the proof shows it
                problem.solve(solver=cp.CLARABEL)
            if rho.value is not None:
                yield float(rho.value), np.maximum(s.value, 0.0).tolist()

    def is_proven(self, rho: float, multipliers: list[float]) -> bool:
        """Return whether balls prove the inequality for these numbers."""
        weighed = [
            square * weight
            for square, weight in zip(self.squares, multipliers, strict=True)
        ]
        product = self.sums.transpose() * diagonal_balls(weighed) * self.sums
        corner = diagonal_balls([rho] * self.inputs + multipliers)
        return is_positive_definite(corner - product - self.output)


def _near_one(
    weights: list[BallMatrix], slopes: Slopes
) -> tuple[list[BallMatrix], Slopes, int]:
    """Return the network in units in which norms and steepest slopes are near one.

    The units are powers of two, of which the last exponent is the product's. A solver
    stops at errors that are small against one.
    """
    total = 0
    pairs = []
    for low, high in slopes:
        exponent = math.frexp(max(abs(low), abs(high)))[1] - 1
        pairs.append((math.ldexp(low, -exponent), math.ldexp(high, -exponent)))
        total += exponent
    scaled = []
    for W in weights:
        _, exponent = math.frexp(np.linalg.norm(midpoints(W), 2))
        scaled.append(W * arb(2) ** -exponent)
        total += exponent
    return scaled, pairs, total


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


def _stacked(
    weights: list[BallMatrix], slopes: Slopes
) -> tuple[BallMatrix, BallMatrix]:
    """Return the sums a of all neurons and the outputs, as rows over (input, d)."""
    sizes = [weights[0].ncols(), *(W.nrows() for W in weights[:-1])]
    sums = []
    answers = diagonal_balls([1.0] * sizes[0])
    for W, (low, high) in zip(weights[:-1], slopes, strict=True):
        reads = W * answers
        sums.append(reads)
        middle = arb(low) / 2 + arb(high) / 2
        radius = (arb(high) / 2 - arb(low) / 2).sqrt()
        own = diagonal_balls([radius] * W.nrows())
        answers = block_balls([[reads * middle, own]])
    width = sum(sizes)
    rows = []
    for reads in sums:
        rows.append([reads, BallMatrix(reads.nrows(), width - reads.ncols())])
    return block_balls(rows), weights[-1] * answers


# -- on a public box ------------------------------------------------------------------


class _Activation(NamedTuple):
    """An increasing activation, by its values and its slopes.

    ``slopes(low, high)`` are floats below and above all slopes between these points.
    """

    values: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    value: Callable[[Ball], Ball]
    slopes: Callable[[Ball, Ball], tuple[float, float]]


def _steepest_at_zero(
    slope: Callable[[Ball], Ball], low: Ball, high: Ball
) -> tuple[float, float]:
    """Return floats below and above slopes that fall on both sides of zero."""
    sizes = [abs(low), abs(high)]
    near = Ball(0) if low <= 0 <= high else min(sizes)
    least = -upper_float(-slope(max(sizes)))
    return max(least, 0.0), upper_float(slope(near))


_ACTIVATIONS = {
    "relu": _Activation(
        lambda z: np.maximum(z, 0),
        lambda z: max(z, Ball(0)),
        lambda low, high: (float(low >= 0), float(high > 0)),
    ),
    "tanh": _Activation(
        np.tanh,
        lambda z: z.tanh(),
        partial(_steepest_at_zero, lambda z: 1 / z.cosh() ** 2),
    ),
    "logistic": _Activation(
        lambda z: 0.5 + 0.5 * np.tanh(z / 2),
        lambda z: (1 + (z / 2).tanh()) / 2,
        partial(_steepest_at_zero, lambda z: 1 / (z / 2).cosh() ** 2 / 4),
    ),
    "identity": _Activation(lambda z: z, lambda z: z, lambda low, high: (1.0, 1.0)),
}


@dataclass(frozen=True, eq=False)
class ClippedNetwork(CheckedFields):
    """Clip the inputs of a feed-forward network to a public box.

    Clipping moves no two inputs apart in any norm, so the constant of the network on the box
    is one of the clipped network for *all* inputs. Neurons that are off, or saturated, on
    the whole box count less than in the global constant. It is a local constant in the
    sense of IP, section VI a.

    Parameters
    ----------
    weights : sequence of array_like, each (out, in)
        From input to output; the last one has no activation.
    biases : sequence of array_like, each (out,)
    low, high : array_like, (in,) or float
        The box. Public: chosen without looking at the private input.
    activation : {"relu", "tanh", "logistic", "identity"}, optional

    Raises
    ------
    ValueError
        If shapes do not chain, or the box is empty.

    See Also
    --------
    feedforward_lipschitz, InputPerturbation

    Examples
    --------
    The second neuron of relu(x) - relu(x - 5) is off below 5:

    >>> network = ClippedNetwork([[[1], [1]], [[1, -1]]], [[0, -5], [0]], low=-1, high=4)
    >>> network([2.0]), network([9.0]), float(network.lipschitz(method="product"))
    (array([2.]), array([4.]), 1.0)
    """

    weights: Sequence[NDArray[np.float64]]
    biases: Sequence[NDArray[np.float64]]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    activation: str = "relu"

    def __post_init__(self) -> None:
        weights = _chained(self.weights)
        vectors = sequence_of(self.biases, "biases", "vectors")
        if len(weights) != len(vectors):
            raise ValueError(
                f"biases: expected {len(weights)}, one a weight, got {len(vectors)}"
            )
        biases = []
        for k, (W, b) in enumerate(zip(weights, vectors, strict=True)):
            biases.append(real_array(b, f"biases[{k}]", shape=(len(W),)))
        inputs = weights[0].shape[1:]
        ends = {}
        for name in ("low", "high"):
            end = real_array(getattr(self, name), name)
            if end.ndim == 0:
                end = np.full(inputs, end)
            ends[name] = real_array(end, name, shape=inputs)
        if not (ends["low"] < ends["high"]).all():
            raise ValueError("low, high: every low must be below its high")
        one_of(self.activation, "activation", tuple(_ACTIVATIONS))
        self._set(weights=tuple(weights), biases=tuple(biases), **ends)

    def __call__(self, x: ArrayLike) -> NDArray[np.float64]:
        """The outputs (out,) or (batch, out) for x of shape (in,) or (batch, in)."""
        inputs = checked_inputs(x, len(self.low))
        inside = np.clip(inputs, self.low, self.high)
        activation = _ACTIVATIONS[self.activation]
        sums = inside @ self.weights[0].T + self.biases[0]
        for W, b in zip(self.weights[1:], self.biases[1:], strict=True):
            sums = activation.values(sums) @ W.T + b
        return sums

    def lipschitz(
        self, *, p: float = 2, q: float = 2, method: str = "sdp"
    ) -> LipschitzBound:
        """Return a certified Lipschitz constant of the clipped network, for all inputs.

        Interval arithmetic on the box gives every neuron an interval of slopes; its
        upper end is moved into the next weight, and `feedforward_lipschitz`, whose
        arguments these are, bounds the rest. ``.method`` ends in "on a box".

        Parameters
        ----------
        p, q : float, optional
            Norm of the inputs and of the outputs.
        method : {"sdp", "product"}, optional
            How the network behind the clipping is bounded.

        Returns
        -------
        LipschitzBound
        """
        weights = [self.weights[0]]
        slopes = []
        for W, (least, greatest) in zip(self.weights[1:], self._slopes(), strict=True):
            greatest = np.where(
                greatest > 0, np.maximum(greatest, 1 / LARGEST_SIZE), 0.0
            )
            alive = greatest > 0
            tiny = np.abs(W * greatest) < np.finfo(float).tiny
            greatest[alive & (tiny & (W != 0)).any(axis=0)] = 1.0
            below = np.where(least < greatest, least * (1 - 4 * EPS), greatest)
            ratio = below[alive] / greatest[alive]
            slopes.append((float(ratio.min(initial=1.0)), 1.0))
            weights[-1] = weights[-1] * alive[:, None]
            weights.append(W * greatest)
        bound = feedforward_lipschitz(
            weights, p=p, q=q, method=method, slopes=slopes or (0, 1)
        )
        value = float(bound)
        if self.activation not in ("relu", "identity"):
            # rounding of W * greatest changes the Jacobian by at most that many units of
            # the product of the |W|
            sizes = feedforward_lipschitz(
                [np.abs(W) for W in weights], p=p, q=q, method="product"
            )
            value = float_above(value + EPS * len(weights) * float(sizes))
        return LipschitzBound(value, p=p, q=q, method=f"{bound.method} on a box")

    def _slopes(self) -> list[NDArray[np.float64]]:
        """The least and greatest slope (2, m) on the box of m neurons, by layers."""
        activation = _ACTIVATIONS[self.activation]
        found = []
        with working_bits():
            x = [
                Ball(lo).union(Ball(hi))
                for lo, hi in zip(self.low, self.high, strict=True)
            ]
            for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
                column = ball_matrix([[entry] for entry in x])
                z = ball_matrix(W) * column + ball_matrix(b[:, None])
                slopes = []
                x = []
                for entry in z.entries():
                    low, high = entry.lower(), entry.upper()
                    slopes.append(activation.slopes(low, high))
                    x.append(activation.value(low).union(activation.value(high)))
                found.append(np.array(slopes).T)
        return found


# -- SDP-based Lipschitz layers (Araujo and others, ICLR 2023), trained elsewhere ------


@dataclass(frozen=True, eq=False, repr=False)
class _Layer(CheckedFields, ABC):
    """A layer on R^n with a certificate."""

    weight: NDArray[np.float64]
    bias: NDArray[np.float64]
    q: NDArray[np.float64]
    inverse_T: NDArray[np.float64] = field(init=False)

    @property
    @abstractmethod
    def matrix(self) -> NDArray[np.float64] | scipy.sparse.csr_array:
        """W, with the columns of each neuron's places next to each other."""

    @abstractmethod
    def _overlaps(self) -> NDArray[np.float64]:
        """Upper bounds (m, m) of what two neurons have in common, |W'W| if dense."""

    @property
    def size(self) -> int:
        """Number of entries n."""
        return self.matrix.shape[0]

    def _weigh(self, alive: NDArray[np.bool_], terms: int) -> None:
        """Read bias and scales, and set T^{-1}, rounded down.

        It is zero for a neuron without weights.
        """
        bias = real_array(self.bias, "bias", shape=alive.shape)
        q = real_array(self.q, "q", shape=alive.shape)
        if not (q.size and (q > 0).all()):
            raise ValueError(
                "q: expected positive scales, got none, zero or negative ones; use "
                "q = exp(r)"
            )
        self._set(bias=bias, q=q)
        shrink = 1 - 8 * (terms + 4) * EPS  # more than the round-off of the row sums
        inverse = np.where(alive, shrink / self._row_sums(), 0.0)
        self._set(inverse_T=real_array(inverse, "T^{-1}"))
        if not self.certificate() <= 1 + 1e-9:
            raise ValueError(
                "SLL layer: weight and q span too many decades for a certificate; "
                "rescale them"
            )

    def _row_sums(self) -> NDArray[np.float64]:
        """sum_j |W'W|_ij q_j / q_i, rounded up."""
        sizes = self._overlaps()
        terms = sizes.size + len(sizes)
        # only ratios count, and a power of two changes no digit
        q = np.ldexp(self.q, -np.frexp(self.q.max())[1])
        lost = 1e-300 * (1 + 1 / q.min())  # more than what underflows
        return sizes @ q / q * (1 + 4 * terms * EPS) + lost

    def certificate(self) -> float:
        """Return a proven upper bound c of the squared norm of W T^{-1/2}.

        The layer needs c <= 1. It is the largest of T_ii^{-1} sum_j |W'W|_ij q_j / q_i for
        the T in use, with bounds of the rounding errors.

        Returns
        -------
        float
            Without unit, rounded up.
        """
        return float(np.max(self._row_sums() * self.inverse_T) * (1 + 4 * EPS))

    def __call__(self, x: ArrayLike) -> NDArray[np.float64]:
        """The layer's output for x of shape (n,) or, with a batch on axis 0, (batch, n)."""
        inputs = checked_inputs(x, self.size)
        return self._answers(np.atleast_2d(inputs)).reshape(inputs.shape)

    def _answers(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """The layer's output (batch, n) for a batch that has been checked."""
        W = self.matrix
        places = W.shape[1] // len(self.bias)
        hidden = np.maximum(rows @ W + np.repeat(self.bias, places), 0)
        active = hidden * np.repeat(self.inverse_T, places)
        return rows - 2 * active @ W.T

    @property
    def lipschitz(self) -> LipschitzBound:
        """The l2 constant max(1, 2c - 1), c the certificate, as a ``LipschitzBound``."""
        with working_bits():
            stretched = upper_float(2 * Ball(self.certificate()) - 1)
        return LipschitzBound(max(1.0, stretched), p=2, q=2, method="sll")


@dataclass(frozen=True, eq=False, repr=False)
class SLLLayer(_Layer):
    r"""Apply a dense SDP-based Lipschitz layer.

    It maps x to :math:`x - 2 W T^{-1} \mathrm{relu}(W^T x + b)` with the diagonal
    T_ii = sum_j |W'W|_ij q_j / q_i.

    Parameters
    ----------
    weight : array_like, (n, m)
        W. A zero column, where T vanishes, contributes nothing.
    bias : array_like, (m,)
        b.
    q : array_like, (m,)
        Positive scales, in training q = exp(r). Any of them gives a 1-Lipschitz layer.

    Attributes
    ----------
    inverse_T : ndarray, (m,)
        The diagonal of T^{-1}, rounded down.

    See Also
    --------
    core.SLLConvolution, core.SLLNetwork

    Notes
    -----
    T - W'W, scaled by q, is diagonally dominant, hence W'W <= T. Slopes S in [0, I] give
    the Jacobian I - 2 B S B' with B = W T^{-1/2}, whose eigenvalues lie in [-1, 1].

    Examples
    --------
    >>> layer = SLLLayer([[1.0, 0.5], [0.0, 1.0]], [0.0, 0.1], [1.0, 1.0])
    >>> layer([1.0, 2.0]).shape, layer.certificate() <= 1, float(layer.lipschitz)
    ((2,), True, 1.0)
    """

    def __post_init__(self) -> None:
        weight = real_array(self.weight, "weight", ndim=2)
        self._set(weight=weight)
        self._weigh(np.asarray(weight.any(axis=0)), sum(weight.shape))

    def __repr__(self) -> str:
        return f"SLLLayer(width={self.weight.shape[0]}, neurons={self.weight.shape[1]})"

    @property
    def matrix(self) -> NDArray[np.float64]:
        return self.weight

    def _overlaps(self) -> NDArray[np.float64]:
        sizes = np.abs(self.weight)
        slack = (len(sizes) + 2) * EPS * (sizes.T @ sizes)
        return np.abs(self.weight.T @ self.weight) + slack


@dataclass(frozen=True, eq=False, repr=False)
class SLLConvolution(_Layer):
    r"""Apply an `SLLLayer` to images, with a convolution W^T.

    Attributes and errors as for `SLLLayer`.

    Parameters
    ----------
    weight : array_like, (m, c, height, width)
        Filters of W^T, of stride one.
    bias, q : array_like, (m,)
        b and positive scales, one for each filter.
    shape : (c, rows, columns)
        Of an image; it is flattened.
    padding : int, optional
        Zeros around an image, half of the filter's height by default.

    See Also
    --------
    core.SLLLayer, core.SLLNetwork

    Notes
    -----
    On the whole plane T_ii = sum_j sum_s \|(K_i * K_j)(s)\| q_j / q_i with the
    correlations K_i * K_j of the filters. Images with zeros around them see a part of it.

    Examples
    --------
    >>> layer = SLLConvolution(np.ones((2, 1, 3, 3)), np.zeros(2), np.ones(2), (1, 8, 8))
    >>> layer(np.zeros((5, 64))).shape, layer.certificate() <= 1
    ((5, 64), True)
    """

    shape: tuple[int, int, int]
    padding: int | None = None

    def __post_init__(self) -> None:
        weight = real_array(self.weight, "weight", ndim=4)
        padding = weight.shape[2] // 2 if self.padding is None else self.padding
        padding = positive_integer(padding, "padding", zero=True)
        lengths = sequence_of(self.shape, "shape", "three lengths")
        shape = tuple(positive_integer(length, "shape") for length in lengths)
        if len(shape) != 3 or shape[0] != weight.shape[1]:
            raise ValueError(
                f"shape: expected ({weight.shape[1]}, rows, columns), the channels of "
                f"the filters, got {shape}"
            )
        if min(np.add(shape[1:], 2 * padding) - weight.shape[2:]) < 0:
            raise ValueError(
                f"shape: expected images at least as large as the filters, got {shape} "
                f"with padding {padding} for filters {weight.shape[2:]}"
            )
        self._set(weight=weight, shape=shape, padding=padding)
        self._weigh(np.asarray(weight.any(axis=(1, 2, 3))), weight.size)

    def __repr__(self) -> str:
        return f"SLLConvolution(shape={self.shape}, filters={len(self.weight)})"

    @cached_property
    def matrix(self) -> scipy.sparse.csr_array:
        p = self.padding or 0
        numbers = np.arange(1, math.prod(self.shape) + 1).reshape(self.shape)
        padded = np.pad(numbers, ((0, 0), (p, p), (p, p)))
        windows = np.lib.stride_tricks.sliding_window_view(
            padded, self.weight.shape[1:]
        )
        seen = windows.reshape(-1, self.weight[0].size)  # numbers of entries, 0 outside
        place, tap = np.nonzero(seen)
        blocks = []
        for taps in self.weight.reshape(len(self.weight), -1):
            entries = (taps[tap], (seen[place, tap] - 1, place))
            shape = (numbers.size, len(seen))
            blocks.append(scipy.sparse.coo_array(entries, shape=shape))
        return scipy.sparse.hstack(blocks, format="csr")

    def _overlaps(self) -> NDArray[np.float64]:
        """sum_s |(K_i * K_j)(s)| over all shifts s of one filter against another."""
        _, channels, height, width = self.weight.shape
        around = [(0, 0), (0, 0), (height - 1,) * 2, (width - 1,) * 2]
        padded = np.pad(self.weight, around)
        shifted = np.lib.stride_tricks.sliding_window_view(
            padded, (height, width), (2, 3)
        )
        common = np.tensordot(shifted, self.weight, axes=((1, 4, 5), (1, 2, 3)))
        sizes = np.abs(common).sum(axis=(1, 2))
        sums = np.abs(self.weight).sum(axis=(2, 3))
        slack = (channels + 5) * (height * width + 2) * EPS
        return sizes + slack * (sums @ sums.T)


@dataclass(frozen=True, eq=False, repr=False)
class SLLNetwork(CheckedFields):
    """Apply SLL layers of one width, then an affine head, whose spectral norm counts.

    Parameters
    ----------
    layers : sequence of SLLLayer or SLLConvolution
        All on R^n; images are flattened.
    head : array_like, (outputs, n)
        Weight of the last, affine map.
    head_bias : array_like, (outputs,), optional
        Its bias, zero by default.

    See Also
    --------
    core.SLLLayer, core.SLLConvolution, feedforward_lipschitz

    Examples
    --------
    >>> layer = SLLLayer(np.eye(2), [0.0, 0.1], [1.0, 1.0])
    >>> network = SLLNetwork([layer, layer], [[0.6, 0.8]])
    >>> network(np.zeros((5, 2))).shape, round(network.lipschitz, 12)
    ((5, 1), 1.0)
    """

    layers: Sequence[SLLLayer | SLLConvolution]
    head: NDArray[np.float64]
    head_bias: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        layers = tuple(sequence_of(self.layers, "layers", "layers"))
        head = real_array(self.head, "head", ndim=2)
        for layer in layers:
            if not isinstance(layer, _Layer):
                raise TypeError(
                    "layers: expected SLLLayer objects or SLLConvolution objects, got "
                    f"{type(layer).__name__}"
                )
            if layer.size != head.shape[1]:
                raise ValueError(
                    f"layers: expected width {head.shape[1]} as in the head, got "
                    f"{layer.size}"
                )
        bias = np.zeros(len(head)) if self.head_bias is None else self.head_bias
        bias = real_array(bias, "head_bias", shape=(len(head),))
        self._set(layers=layers, head=head, head_bias=bias)

    def __repr__(self) -> str:
        return f"SLLNetwork({len(self.layers)} layers, outputs={len(self.head)})"

    def __call__(self, x: ArrayLike) -> NDArray[np.float64]:
        """The outputs (outputs,) or (batch, outputs) for x of shape (n,) or (batch, n)."""
        inputs = checked_inputs(x, self.head.shape[1])
        inside = np.atleast_2d(inputs)
        for layer in self.layers:
            inside = layer._answers(inside)
        answers = inside @ self.head.T + self.head_bias  # type: ignore[operator]
        return answers.reshape(*inputs.shape[:-1], len(self.head))

    @property
    def lipschitz(self) -> LipschitzBound:
        """The l2 constant of all layers and the head's spectral norm."""
        with working_bits():
            product = Ball(float(induced_norm(self.head, 2, 2)))
            for layer in self.layers:
                product *= Ball(float(layer.lipschitz))
            return LipschitzBound(upper_float(product), p=2, q=2, method="sll")
