"""Networks on a public box of inputs, whose Lipschitz constant is smaller than over all inputs.

What is sound is a *public* region: the input is clipped to it first, and the clipped network has the constant for all
inputs. The constant on a ball around the private input is another matter and is not offered: it depends on the input,
so that noise sized with it differs between adjacent inputs, and its size alone can tell them apart. No (epsilon, delta)
follows from it; the same holds for a radius, or a choice between models, made by looking at the input.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from flint import arb, arb_mat

from privcontrol.core._balls import ball_matrix, upper_float, working_bits
from privcontrol.core._linalg import EPS, one_of, real_array, round_up
from privcontrol.core._withheld import private_array
from privcontrol.core.lipschitz import LipschitzBound, feedforward_lipschitz

#: Slopes are kept above this, or at zero: a product with a weight must not underflow.
_LEAST = 2.0**-200
_FUNCTIONS = {
    "relu": lambda z: np.maximum(z, 0),
    "tanh": np.tanh,
    "logistic": lambda z: 0.5 + 0.5 * np.tanh(z / 2),
    "identity": lambda z: z,
}


@dataclass(frozen=True, eq=False)
class ClippedNetwork:
    r"""The network :math:`x \mapsto f(\min(\max(x, low), high))`, f affine maps with activations in between.

    Clipping moves no two inputs apart in any norm, so the constant of f on the box is one of the clipped network for
    *all* inputs: inputs outside the box are protected too. Neurons that are off, or saturated, on the whole box count
    as much less than they do in the global constant.

    Parameters
    ----------
    weights : sequence of array_like, each (out, in)
        From input to output; the last one has no activation.
    biases : sequence of array_like, each (out,)
    low, high : array_like, (in,) or float
        The box. Public: chosen without looking at the private input, from what the inputs are known to be.
    activation : {"relu", "tanh", "logistic", "identity"}, optional

    Raises
    ------
    ValueError
        If shapes do not chain, or the box is empty.

    Examples
    --------
    The second neuron of relu(x) - relu(x - 5) is off below 5:

    >>> network = ClippedNetwork([[[1], [1]], [[1, -1]]], [[0, -5], [0]], low=-1, high=4)
    >>> network([2.0]), network([9.0]), float(network.lipschitz(method="product"))
    (array([2.]), array([4.]), 1.0)

    References
    ----------
    IP, section VI a, asks for local constants; of these, the ones on a public region keep the guarantee.
    """

    weights: tuple
    biases: tuple
    low: np.ndarray
    high: np.ndarray
    activation: str = "relu"

    def __post_init__(self):
        weights = tuple(
            real_array(W, f"weights[{k}]", ndim=2) for k, W in enumerate(self.weights)
        )
        if not weights or len(weights) != len(self.biases):
            raise ValueError(
                f"biases: expected one for each of {len(weights)} weights, got {len(self.biases)}"
            )
        biases = tuple(
            real_array(b, f"biases[{k}]", shape=(len(W),))
            for k, (b, W) in enumerate(zip(self.biases, weights))
        )
        for k, (before, after) in enumerate(pairwise(weights)):
            if after.shape[1] != len(before):
                raise ValueError(
                    f"weights[{k + 1}]: expected {len(before)} columns, got shape {after.shape}"
                )
        inputs = (weights[0].shape[1],)
        low, high = (
            real_array(np.broadcast_to(v, inputs), n)
            for v, n in ((self.low, "low"), (self.high, "high"))
        )
        if not (low < high).all():
            raise ValueError("low, high: expected low < high in every entry; swap them")
        one_of(self.activation, "activation", tuple(_FUNCTIONS))
        values = {"weights": weights, "biases": biases, "low": low, "high": high}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __call__(self, x):
        """The outputs (out,) or (batch, out) for x of shape (in,) or (batch, in)."""
        x = private_array(x, "x")
        if x.ndim not in (1, 2) or x.shape[-1] != len(self.low):
            raise ValueError(
                f"x: expected shape ({len(self.low)},) or (batch, {len(self.low)}), got {x.shape}"
            )
        x = np.clip(x, self.low, self.high)
        for W, b in zip(self.weights[:-1], self.biases):
            x = _FUNCTIONS[self.activation](x @ W.T + b)
        return x @ self.weights[-1].T + self.biases[-1]

    def lipschitz(self, *, p=2, q=2, method="sdp"):
        """A certified Lipschitz constant of the clipped network, for all inputs.

        Interval arithmetic on the box gives every neuron an interval of slopes; its upper end is moved into the next
        weight, and `feedforward_lipschitz` bounds what remains.

        Parameters
        ----------
        p, q, method
            As for `feedforward_lipschitz`.

        Returns
        -------
        LipschitzBound
            ``.method`` ends in "on a box".
        """
        weights, slopes = [self.weights[0]], []
        for W, (least, greatest) in zip(self.weights[1:], self._slopes()):
            greatest = np.where(greatest > 0, np.maximum(greatest, _LEAST), 0.0)
            alive = greatest > 0
            ratio = (
                np.where(least < greatest, least * (1 - 4 * EPS), greatest)[alive]
                / greatest[alive]
            )
            slopes.append((float(ratio.min(initial=1.0)), 1.0))
            weights[-1] = weights[-1] * alive[:, None]
            weights.append(W * greatest)
        bound = feedforward_lipschitz(
            weights, p=p, q=q, method=method, slopes=slopes or (0, 1)
        )
        # rounding of W * greatest changes the Jacobian by at most that many units of the product of the |W|
        sizes = feedforward_lipschitz(
            [np.abs(W) for W in weights], p=p, q=q, method="product", slopes=(0, 1)
        )
        slack = (
            0.0
            if self.activation in ("relu", "identity")
            else EPS * len(weights) * float(sizes)
        )
        value = float(round_up(bound + slack)) if slack else float(bound)
        return LipschitzBound(value, p=p, q=q, method=f"{bound.method} on a box")

    def _slopes(self):
        """For each hidden layer the least and greatest slope of every neuron on the box, rounded outward."""
        with working_bits():
            x = [
                arb(lo).union(arb(hi))
                for lo, hi in zip(self.low.tolist(), self.high.tolist())
            ]
            found = []
            for W, b in zip(self.weights[:-1], self.biases):
                z = ball_matrix(W) * arb_mat([[entry] for entry in x]) + ball_matrix(
                    b[:, None]
                )
                ends = [(entry.lower(), entry.upper()) for entry in z.entries()]
                least, greatest = zip(
                    *(_slope_interval(self.activation, *pair) for pair in ends)
                )
                found.append((np.array(least), np.array(greatest)))
                x = [
                    _value(self.activation, lo).union(_value(self.activation, hi))
                    for lo, hi in ends
                ]
            return found


def _value(activation, z):
    """The activation, which increases, of an exact number."""
    if activation == "relu":
        return max(z, arb(0))
    if activation == "identity":
        return z
    return z.tanh() if activation == "tanh" else (1 + (z / 2).tanh()) / 2


def _slope_interval(activation, low, high):
    """Floats below and above all slopes on [low, high]; tanh and the logistic function are steepest at 0."""
    if activation == "identity":
        return 1.0, 1.0
    if activation == "relu":
        return float(low >= 0), float(high > 0)
    far = max(abs(low), abs(high))
    near = arb(0) if low <= 0 <= high else min(abs(low), abs(high))
    least, greatest = (_derivative(activation, z) for z in (far, near))
    return max(-upper_float(-least), 0.0), upper_float(greatest)


def _derivative(activation, z):
    return 1 / z.cosh() ** 2 if activation == "tanh" else 1 / (z / 2).cosh() ** 2 / 4
