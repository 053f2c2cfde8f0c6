"""LipSDP with one multiplier per neuron (Fazlyab, Robey, Hassani, Morari, Pappas, NeurIPS 2019).

A barrier method proposes the multipliers and ball arithmetic proves the bound they give,
so no solver tolerance enters it. The variant that couples neurons is left out on
purpose: it returns about 0 for relu(x) - relu(x - 5), whose constant is 1.
"""

import math
from collections.abc import Sequence

import numpy as np
from flint import arb
from numpy.typing import NDArray

from privcontrol.core._balls import (
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
from privcontrol.core._barrier import PairProgram

Slopes = Sequence[tuple[float, float]]


def lipsdp(weights: list[BallMatrix], slopes: Slopes) -> float:
    """A certified l2 bound of the network with these weights and hidden slopes.

    All layers are alive. With u_i = e_i - alpha a_i and v_i = e_i - beta a_i, where a_i
    reads neuron i's input and e_i its output from the stacked increments h of input and
    neurons, slopes in [alpha, beta] mean (u_i'h)(v_i'h) <= 0. Hence P(rho, t) = rho
    E_0'E_0 + sum_i t_i (u_i v_i' + v_i u_i') - E_K' W_K'W_K E_K >= 0 and t >= 0 give
    ||W_K h_K||^2 <= rho ||h_0||^2.
    """
    with working_bits():
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
        output = _output_gram(scaled, size)
        start = _start(scaled, slopes)
        first = np.eye(size, inputs)  # E_0'
        program = PairProgram(
            prices=np.eye(len(start))[0],
            left=np.hstack([first, midpoints(U).T]),
            right=np.hstack([first / 2, midpoints(V).T]),
            widths=np.append(inputs, np.ones(len(start) - 1, int)),
            constant=midpoints(output),
        )
        for rho, *multipliers in reversed(program.central_path(start)):
            product = U.transpose() * diagonal_balls(multipliers) * V
            corner = diagonal_balls([rho] * inputs + [0.0] * (size - inputs))
            certificate = corner + product + product.transpose() - output
            if is_positive_definite(certificate):
                return upper_float(arb(rho).sqrt() * arb(2) ** sum(exponents))
    return math.inf


def _compressed(W: BallMatrix) -> BallMatrix:
    """A square L with LL' > W W', proven, if W has more columns than rows.

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
    """The columns u_i (side 0) or v_i (side 1) of all neurons, as rows."""
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


def _output_gram(weights: list[BallMatrix], size: int) -> BallMatrix:
    """W_K'W_K in the last block of a size x size matrix."""
    last = weights[-1]
    hidden = BallMatrix(last.nrows(), size - last.ncols())
    whole = block_balls([[hidden, last]])
    return whole.transpose() * whole


def _start(weights: list[BallMatrix], slopes: Slopes) -> NDArray:
    """A strictly feasible (rho, t), from the product bound with every norm 5 % larger."""
    last = float(spectral_norm(weights[-1]))
    rho = 1.1 * last**2
    multipliers = []
    for W, (alpha, beta) in zip(weights[-2::-1], slopes[::-1]):
        slope = max(abs(alpha), abs(beta))
        multiplier = rho * slope / (beta - alpha)
        multipliers.append(np.full(W.nrows(), multiplier))
        size = float(spectral_norm(W))
        steepness = slope * size
        rho *= 1.1 * steepness**2
    multipliers.reverse()
    return np.concatenate([[rho], *multipliers])
