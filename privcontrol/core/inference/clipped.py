"""Networks on a public box of inputs, whose Lipschitz constant is smaller than over all inputs.

The input is clipped to the box first, and the clipped network has the constant for all
inputs. The constant on a ball around the private input is not offered: noise sized with
it would differ between adjacent inputs, and its size alone could tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._balls import Ball, ball_matrix, upper_float, working_bits
from .._linalg import EPS, one_of, real_array, round_up, sequence_of
from ..lipschitz import LipschitzBound, feedforward_lipschitz
from ..lipschitz.layers import checked_inputs

#: Slopes are kept above this, or at zero: a product with a weight must not underflow.
_LEAST = 2.0**-200


@dataclass(frozen=True)
class _Activation:
    """An increasing activation, whose slopes are largest at zero."""

    values: Callable[[NDArray], NDArray]
    value: Callable[[Ball], Ball]
    slope: Callable[[Ball], Ball] | None = None

    def slopes(self, low: Ball, high: Ball) -> tuple[float, float]:
        """Floats below and above all slopes on [low, high]."""
        if self.slope is None:
            return 1.0, 1.0
        sizes = [abs(low), abs(high)]
        near = Ball(0) if low <= 0 <= high else min(sizes)
        least = -upper_float(-self.slope(max(sizes)))
        greatest = upper_float(self.slope(near))
        return max(least, 0.0), greatest


class _Relu(_Activation):
    """The positive part, whose slope jumps from 0 to 1 at zero."""

    def slopes(self, low: Ball, high: Ball) -> tuple[float, float]:
        return float(low >= 0), float(high > 0)


_ACTIVATIONS = {
    "relu": _Relu(lambda z: np.maximum(z, 0), lambda z: max(z, Ball(0))),
    "tanh": _Activation(np.tanh, lambda z: z.tanh(), lambda z: 1 / z.cosh() ** 2),
    "logistic": _Activation(
        lambda z: 0.5 + 0.5 * np.tanh(z / 2),
        lambda z: (1 + (z / 2).tanh()) / 2,
        lambda z: 1 / (z / 2).cosh() ** 2 / 4,
    ),
    "identity": _Activation(lambda z: z, lambda z: z),
}


@dataclass(frozen=True, eq=False)
class ClippedNetwork:
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

    Examples
    --------
    The second neuron of relu(x) - relu(x - 5) is off below 5:

    >>> network = ClippedNetwork([[[1], [1]], [[1, -1]]], [[0, -5], [0]], low=-1, high=4)
    >>> network([2.0]), network([9.0]), float(network.lipschitz(method="product"))
    (array([2.]), array([4.]), 1.0)
    """

    weights: Sequence[NDArray]
    biases: Sequence[NDArray]
    low: NDArray
    high: NDArray
    activation: str = "relu"

    def __post_init__(self) -> None:
        matrices = sequence_of(self.weights, "weights", "matrices")
        vectors = sequence_of(self.biases, "biases", "vectors")
        if not matrices or len(matrices) != len(vectors):
            raise ValueError(
                f"biases: expected one for each of {len(matrices)} weights, got "
                f"{len(vectors)}"
            )
        weights: list[NDArray] = []
        biases: list[NDArray] = []
        for k, (matrix, vector) in enumerate(zip(matrices, vectors)):
            weight = real_array(matrix, f"weights[{k}]", ndim=2)
            if k and weight.shape[1] != len(weights[-1]):
                raise ValueError(
                    f"weights[{k}]: expected {len(weights[-1])} columns, got shape "
                    f"{weight.shape}"
                )
            weights.append(weight)
            biases.append(real_array(vector, f"biases[{k}]", shape=(len(weight),)))
        low = self._end("low", weights[0].shape[1])
        high = self._end("high", weights[0].shape[1])
        if not (low < high).all():
            raise ValueError("low, high: every low must be below its high")
        one_of(self.activation, "activation", tuple(_ACTIVATIONS))
        object.__setattr__(self, "weights", tuple(weights))
        object.__setattr__(self, "biases", tuple(biases))
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def _end(self, name: str, inputs: int) -> NDArray:
        """One end of the box for each input."""
        end = real_array(getattr(self, name), name)
        if end.ndim == 0:
            end = np.full(inputs, float(end))
        return real_array(end, name, shape=(inputs,))

    def __call__(self, x: ArrayLike) -> NDArray:
        """The outputs (out,) or (batch, out) for x of shape (in,) or (batch, in)."""
        inputs = checked_inputs(x, len(self.low))
        inside = np.clip(inputs, self.low, self.high)
        activation = _ACTIVATIONS[self.activation]
        *hidden, last = zip(self.weights, self.biases)
        for W, b in hidden:
            inside = activation.values(inside @ W.T + b)
        W, b = last
        return inside @ W.T + b

    def lipschitz(
        self, *, p: float = 2, q: float = 2, method: str = "sdp"
    ) -> LipschitzBound:
        """Return a certified Lipschitz constant of the clipped network, for all inputs.

        Interval arithmetic on the box gives every neuron an interval of slopes; its upper
        end is moved into the next weight, and `feedforward_lipschitz` bounds what
        remains.

        Parameters
        ----------
        p, q, method
            As for `feedforward_lipschitz`.

        Returns
        -------
        LipschitzBound
            ``.method`` ends in "on a box".
        """
        weights = [self.weights[0]]
        slopes = []
        for W, (least, greatest) in zip(self.weights[1:], self._slopes()):
            greatest = np.where(greatest > 0, np.maximum(greatest, _LEAST), 0.0)
            alive = greatest > 0
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
            value = float(round_up(value + EPS * len(weights) * float(sizes)))
        return LipschitzBound(value, p=p, q=q, method=f"{bound.method} on a box")

    def _slopes(self) -> list[tuple[NDArray, NDArray]]:
        """The least and greatest slope on the box of every hidden neuron, by layers."""
        activation = _ACTIVATIONS[self.activation]
        found = []
        with working_bits():
            x = [Ball(lo).union(Ball(hi)) for lo, hi in zip(self.low, self.high)]
            for W, b in zip(self.weights[:-1], self.biases):
                column = ball_matrix([[entry] for entry in x])
                z = ball_matrix(W) * column + ball_matrix(b[:, None])
                slopes = []
                x = []
                for entry in z.entries():
                    low, high = entry.lower(), entry.upper()
                    slopes.append(activation.slopes(low, high))
                    least = activation.value(low)
                    greatest = activation.value(high)
                    x.append(least.union(greatest))
                columns = np.array(slopes)
                found.append((columns[:, 0], columns[:, 1]))
        return found
