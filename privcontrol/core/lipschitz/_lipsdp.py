"""LipSDP with one multiplier per neuron (Fazlyab, Robey, Hassani, Morari, Pappas, NeurIPS 2019). A barrier method
proposes the multipliers and ball arithmetic proves the bound they give, so no solver tolerance enters it.

The variant that couples neurons is left out on purpose: it returns about 0 for relu(x) - relu(x - 5), whose
constant is 1.
"""

import math

import numpy as np
import scipy.linalg
from flint import arb, arb_mat

from privcontrol.core._balls import (
    ball_matrix,
    is_positive_definite,
    midpoints,
    spectral_norm,
    upper_float,
    working_bits,
)
from privcontrol.core.lipschitz._barrier import central_path, minus_log_det

GAP = 1e-9  # relative gap of rho, the square of the bound


def lipsdp(weights, slopes):
    """A certified l2 bound of the network with these (ball) weights and hidden slopes, all layers alive.

    With u_i = e_i - alpha a_i and v_i = e_i - beta a_i, where a_i reads neuron i's input and e_i its output from
    the stacked increments h of input and neurons, slopes in [alpha, beta] mean (u_i'h)(v_i'h) <= 0. Hence
    P(rho, t) = rho E_0'E_0 + sum_i t_i (u_i v_i' + v_i u_i') - E_K' W_K'W_K E_K >= 0 and t >= 0 give
    ||W_K h_K||^2 <= rho ||h_0||^2.
    """
    with working_bits():
        weights, exponent = _normalised(weights)
        weights[0] = _compressed(weights[0])
        problem = _float_problem(weights, slopes)
        for rho, multipliers in reversed(
            _optimised(*problem, *_start(weights, slopes))
        ):
            if is_positive_definite(_certificate(weights, slopes, rho, multipliers)):
                return upper_float(arb(rho).sqrt() * arb(2) ** exponent)
    return math.inf


def _normalised(weights):
    """The weights divided by powers of two that bring their norms close to 1, and the sum of the exponents."""
    exponents = [math.frexp(np.linalg.norm(midpoints(W), 2))[1] for W in weights]
    return [W * arb(2) ** -e for W, e in zip(weights, exponents)], sum(exponents)


def _compressed(W):
    """A square L with LL' > W W', proven, where W has more columns than rows.

    Then W x = L y for some y no longer than x, and a bound for L is one for W.
    """
    rows, columns = W.nrows(), W.ncols()
    if columns <= rows:
        return W
    gram = W * W.transpose()
    middle = midpoints(gram)
    factor = ball_matrix(
        np.linalg.cholesky(middle + 1e-11 * np.trace(middle) / rows * np.eye(rows))
    )
    return factor if is_positive_definite(factor * factor.transpose() - gram) else W


def _directions(weights, slopes, side):
    """The columns u_i (side 0) or v_i (side 1) of all neurons, as rows: shape (neurons, input + neurons)."""
    widths = [weights[0].ncols()] + [W.nrows() for W in weights[:-1]]
    starts = np.concatenate([[0], np.cumsum(widths)])
    rows = []
    for k, (W, bounds) in enumerate(zip(weights[:-1], slopes)):
        scaled = (W * -arb(bounds[side])).tolist()
        for i, row in enumerate(scaled):
            line = [0] * int(starts[-1])
            line[starts[k] : starts[k + 1]] = row
            line[starts[k + 1] + i] = 1
            rows.append(line)
    return arb_mat(rows)


def _output_gram(weights, size):
    """W_K'W_K in the last block of a size x size matrix."""
    gram = (weights[-1].transpose() * weights[-1]).tolist()
    first = size - len(gram)
    return arb_mat([[0] * size] * first + [[0] * first + row for row in gram])


def _certificate(weights, slopes, rho, multipliers):
    """P(rho, t) in balls."""
    U, V = (_directions(weights, slopes, side) for side in (0, 1))
    scaled = arb_mat(
        [
            [arb(t) * entry for entry in row]
            for t, row in zip(multipliers.tolist(), U.tolist())
        ]
    )
    product = scaled.transpose() * V
    size, inputs = product.nrows(), weights[0].ncols()
    corner = np.zeros((size, size))
    corner[range(inputs), range(inputs)] = rho
    return (
        ball_matrix(corner)
        + product
        + product.transpose()
        - _output_gram(weights, size)
    )


def _float_problem(weights, slopes):
    """U', V', the output block and the number of inputs, in floats."""
    U, V = (midpoints(_directions(weights, slopes, side)).T for side in (0, 1))
    return U, V, midpoints(_output_gram(weights, len(U))), weights[0].ncols()


def _start(weights, slopes):
    """A strictly feasible point: the multipliers that reproduce the product bound, with every norm 5 % larger."""
    rho, multipliers = 1.1 * float(spectral_norm(weights[-1])) ** 2, []
    for W, (alpha, beta) in zip(weights[-2::-1], slopes[::-1]):
        slope = max(abs(alpha), abs(beta))
        multipliers.append(np.full(W.nrows(), rho * slope / (beta - alpha)))
        rho *= 1.1 * (slope * float(spectral_norm(W))) ** 2
    return rho, np.concatenate(multipliers[::-1])


def _optimised(U, V, output, inputs, rho, multipliers):
    """Points (rho, t) of the central path of min rho subject to P(rho, t) > 0, t > 0."""

    def matrix(point):
        P = (U * point[1:]) @ V.T
        P += P.T - output
        P[range(inputs), range(inputs)] += point[0]
        return P

    def barrier(point):
        return minus_log_det(matrix(point)) - np.log(point[1:]).sum()

    def derivatives(point):
        factor = np.linalg.cholesky(matrix(point))
        e, u, v = (
            scipy.linalg.solve_triangular(factor, X, lower=True)
            for X in (np.eye(len(U), inputs), U, V)
        )
        uv = u.T @ v
        gradient = -np.concatenate([[np.sum(e**2)], 2 * np.diag(uv) + 1 / point[1:]])
        hessian = np.empty((len(point), len(point)))
        hessian[0, 0] = np.sum((e.T @ e) ** 2)
        hessian[0, 1:] = hessian[1:, 0] = 2 * np.sum((e.T @ u) * (e.T @ v), axis=0)
        hessian[1:, 1:] = 2 * ((u.T @ u) * (v.T @ v) + uv * uv.T) + np.diag(
            point[1:] ** -2.0
        )
        return gradient, hessian

    point = np.concatenate([[rho], multipliers])
    cost = np.eye(len(point))[0]
    path = central_path(
        cost, barrier, derivatives, point, order=len(U) + len(multipliers), gap=GAP
    )
    return [(float(point[0]), point[1:]) for point in path]
