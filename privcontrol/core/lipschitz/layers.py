"""Networks that are 1-Lipschitz by construction, as a numpy forward pass.

SDP-based Lipschitz layers (Araujo, Havens, Delattre, Allauzen and Hu, ICLR 2023), dense
and convolutional. Training is left to others; every layer here carries its certificate.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privcontrol.core._balls import Ball, ball_matrix, upper_float, working_bits
from privcontrol.core._linalg import EPS, positive_integer, real_array, sequence_of
from privcontrol.core.lipschitz.bound import LipschitzBound
from privcontrol.core.lipschitz.norms import induced_norm


class _Layer(ABC):
    """A layer on R^n with a certificate."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of entries n."""

    @abstractmethod
    def certificate(self) -> float:
        """A proven upper bound c <= 1 of the squared norm of W T^{-1/2}."""

    @abstractmethod
    def _apply(self, x: NDArray) -> NDArray:
        """The outputs (batch, n) of checked inputs (batch, n)."""

    def __call__(self, x: ArrayLike) -> NDArray:
        """The layer's output for x of shape (n,) or, with a batch on axis 0, (batch, n)."""
        inputs = _checked_inputs(x, self.size)
        return self._apply(np.atleast_2d(inputs)).reshape(inputs.shape)

    @property
    def lipschitz(self) -> LipschitzBound:
        """The l2 constant max(1, 2c - 1), c the certificate, as a ``LipschitzBound``."""
        with working_bits():
            stretched = upper_float(2 * Ball(self.certificate()) - 1)
        return LipschitzBound(max(1.0, stretched), p=2, q=2, method="sll")

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if "inverse_T" in values and not self.certificate() <= 1 + 1e-9:
            raise ValueError(
                "SLL layer: weight and q span too many decades for a certificate; "
                "rescale them"
            )


def _checked_inputs(x: ArrayLike, size: int) -> NDArray:
    inputs = real_array(x, "x")
    if inputs.ndim not in (1, 2) or inputs.shape[-1] != size:
        raise ValueError(
            f"x: expected shape ({size},) or (batch, {size}), got {inputs.shape}"
        )
    return inputs


def _checked_scales(q: ArrayLike, count: int) -> NDArray:
    scales = real_array(q, "q", shape=(count,))
    if not (scales > 0).all():
        raise ValueError(
            "q: expected positive scales, got zero or negative ones; use q = exp(r)"
        )
    return scales


def _inverse_T(rows: NDArray, alive: NDArray, terms: int) -> NDArray:
    """T^{-1} for row sums of T, rounded down, and zero for a neuron without weights."""
    shrink = 1 - 8 * (terms + 4) * EPS  # more than the round-off of the row sums
    inverse = np.divide(shrink, rows, out=np.zeros(len(rows)), where=alive)
    inverse.flags.writeable = False
    return inverse


@dataclass(frozen=True, eq=False, repr=False)
class SLLLayer(_Layer):
    r"""A dense SDP-based Lipschitz layer.

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

    Raises
    ------
    ValueError
        If the shapes do not fit, or an entry of q is not positive.

    Examples
    --------
    >>> layer = SLLLayer([[1.0, 0.5], [0.0, 1.0]], [0.0, 0.1], [1.0, 1.0])
    >>> layer([1.0, 2.0]).shape, layer.certificate() <= 1, float(layer.lipschitz)
    ((2,), True, 1.0)

    Notes
    -----
    T - W'W, scaled by q, is diagonally dominant, hence W'W <= T; a slope matrix S in [0, I] then gives the
    Jacobian I - 2 B S B', B = W T^{-1/2}, ||B|| <= 1, with eigenvalues in [-1, 1].
    """

    weight: NDArray
    bias: NDArray
    q: NDArray
    inverse_T: NDArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        weight = real_array(self.weight, "weight", ndim=2)
        count = weight.shape[1]
        bias = real_array(self.bias, "bias", shape=(count,))
        q = _checked_scales(self.q, count)
        rows = np.abs(weight.T @ weight) @ q / q
        alive = np.asarray(weight.any(axis=0))
        inverse_T = _inverse_T(rows, alive, sum(weight.shape))
        self._set(weight=weight, bias=bias, q=q, inverse_T=inverse_T)

    def __repr__(self) -> str:
        return f"SLLLayer(width={self.weight.shape[0]}, neurons={self.weight.shape[1]})"

    @property
    def size(self) -> int:
        """Number of entries n."""
        return len(self.weight)

    def _apply(self, x: NDArray) -> NDArray:
        active = np.maximum(x @ self.weight + self.bias, 0) * self.inverse_T
        return x - 2 * active @ self.weight.T

    def certificate(self) -> float:
        """A proven upper bound c of the largest eigenvalue of T^{-1/2} W'W T^{-1/2}.

        The layer needs c <= 1. It is the largest of T_ii^{-1} sum_j |W'W|_ij q_j / q_i
        in ball arithmetic, for the T in use.
        """
        with working_bits():
            W = ball_matrix(self.weight)
            scales = self.q.tolist()
            largest = 0.0
            gram = (W.transpose() * W).tolist()
            for row, t, scale in zip(gram, self.inverse_T.tolist(), scales):
                total = sum((abs(g) * q for g, q in zip(row, scales)), Ball(0))
                largest = max(largest, upper_float(total * Ball(t) / Ball(scale)))
            return largest


@dataclass(frozen=True, eq=False, repr=False)
class SLLConvolution(_Layer):
    r"""A convolutional SDP-based Lipschitz layer.

    It maps images to :math:`x - 2 W T^{-1} \mathrm{relu}(W^T x + b)`, W^T a convolution.

    Parameters
    ----------
    weight : array_like, (m, c, height, width)
        Filters of W^T, of stride one.
    bias : array_like, (m,)
        b, one for each filter.
    q : array_like, (m,)
        Positive scales of the filters.
    shape : (c, rows, columns)
        Of an image; it is flattened.
    padding : int, optional
        Zeros around an image, half of the filter's height by default.

    Attributes
    ----------
    inverse_T : ndarray, (m,)
        The diagonal of T^{-1}, one entry for each filter, rounded down.

    Raises
    ------
    ValueError
        If the shapes do not fit, or an entry of q is not positive.

    Examples
    --------
    >>> layer = SLLConvolution(np.ones((2, 1, 3, 3)), np.zeros(2), np.ones(2), (1, 8, 8))
    >>> layer(np.zeros((5, 64))).shape, layer.certificate() <= 1
    ((5, 64), True)

    Notes
    -----
    On the whole plane W'W is a convolution, and T - W'W, scaled by q, is diagonally
    dominant for T_ii = sum_j sum_s \|(K_i * K_j)(s)\| q_j / q_i with the correlations
    K_i * K_j of the filters. Images with zeros around them see a part of T^{-1/2} W',
    whose norm is at most that of the whole.
    """

    weight: NDArray
    bias: NDArray
    q: NDArray
    shape: tuple[int, int, int]
    padding: int | None = None
    inverse_T: NDArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        weight = real_array(self.weight, "weight", ndim=4)
        count = len(weight)
        bias = real_array(self.bias, "bias", shape=(count,))
        q = _checked_scales(self.q, count)
        padding = self.padding
        if padding is None:
            padding = weight.shape[2] // 2
        if padding != 0:
            padding = positive_integer(padding, "padding")
        lengths = sequence_of(self.shape, "shape", "three lengths")
        shape = tuple(positive_integer(length, "shape") for length in lengths)
        if len(shape) != 3 or shape[0] != weight.shape[1]:
            raise ValueError(
                f"shape: expected ({weight.shape[1]}, rows, columns), the channels of "
                f"the filters, got {shape}"
            )
        if min(self._counts(shape, padding, weight)) < 1:
            raise ValueError(
                f"shape: expected images at least as large as the filters, got {shape} "
                f"with padding {padding} for filters {weight.shape[2:]}"
            )
        self._set(weight=weight, bias=bias, q=q, shape=shape, padding=padding)
        alive = np.asarray(weight.reshape(count, -1).any(axis=1))
        inverse_T = _inverse_T(self._row_sums(), alive, weight.size)
        self._set(inverse_T=inverse_T)

    def __repr__(self) -> str:
        return f"SLLConvolution(shape={self.shape}, filters={len(self.weight)})"

    @property
    def size(self) -> int:
        """Number of entries of an image."""
        return math.prod(self.shape)

    @staticmethod
    def _counts(
        shape: tuple[int, ...], padding: int, weight: NDArray
    ) -> tuple[int, int]:
        """Rows and columns of what the filters see."""
        rows = shape[1] + 2 * padding - weight.shape[2] + 1
        return rows, shape[2] + 2 * padding - weight.shape[3] + 1

    def _row_sums(self) -> NDArray:
        """sum_j sum_s |(K_i * K_j)(s)| q_j / q_i, rounded up."""
        m, _, height, width = self.weight.shape
        sizes = np.zeros((m, m))
        for down in range(1 - height, height):
            for right in range(1 - width, width):
                here = self.weight[:, :, _overlap(down), _overlap(right)]
                there = self.weight[:, :, _overlap(-down), _overlap(-right)]
                axes = ([1, 2, 3], [1, 2, 3])
                sizes += np.abs(np.tensordot(here, there, axes))
                magnitudes = np.tensordot(np.abs(here), np.abs(there), axes)
                sizes += (here[0].size + 2) * EPS * magnitudes
        return sizes @ self.q / self.q * (1 + 4 * (sizes.size + m) * EPS)

    def _apply(self, x: NDArray) -> NDArray:
        p = self.padding or 0
        m, _, height, width = self.weight.shape
        images = x.reshape(-1, *self.shape)
        padded = np.pad(images, ((0, 0), (0, 0), (p, p), (p, p)))
        windows = np.lib.stride_tricks.sliding_window_view(
            padded, (height, width), (2, 3)
        )
        filters = self.weight.reshape(m, -1)
        patches = windows.transpose(0, 2, 3, 1, 4, 5)  # (images, rows, columns, taps)
        count, rows, columns = patches.shape[:3]
        seen = patches.reshape(count * rows * columns, -1) @ filters.T
        active = np.maximum(seen + self.bias, 0) * self.inverse_T
        spread = (active @ filters).reshape(patches.shape)
        back = np.zeros_like(padded)
        for a, b in np.ndindex(height, width):
            tap = spread[..., a, b].transpose(0, 3, 1, 2)
            back[:, :, a : a + rows, b : b + columns] += tap
        inside = back[:, :, p : p + self.shape[1], p : p + self.shape[2]]
        return x - 2 * inside.reshape(x.shape)

    def certificate(self) -> float:
        """An upper bound c of the squared norm of W T^{-1/2}, where the layer needs c <= 1.

        It is the largest T_ii^{-1} sum_j sum_s |(K_i * K_j)(s)| q_j / q_i for the T in
        use, with bounds of the rounding errors.
        """
        return float(np.max(self._row_sums() * self.inverse_T) * (1 + 4 * EPS))


def _overlap(shift: int) -> slice:
    """The part of a filter that overlaps with itself moved by so many taps."""
    return slice(shift, None) if shift >= 0 else slice(None, shift)


@dataclass(frozen=True, eq=False, repr=False)
class SLLNetwork:
    """SLL layers of one width, and an affine head.

    Parameters
    ----------
    layers : sequence of SLLLayer or SLLConvolution
        All on R^n; images are flattened.
    head : array_like, (outputs, n)
        Weight of the last, affine map.
    head_bias : array_like, (outputs,), optional
        Its bias, zero by default.

    Raises
    ------
    TypeError
        If one of the layers is another object.
    ValueError
        If the widths differ.

    Examples
    --------
    >>> layer = SLLLayer(np.eye(2), [0.0, 0.1], [1.0, 1.0])
    >>> network = SLLNetwork([layer, layer], [[0.6, 0.8]])
    >>> network(np.zeros((5, 2))).shape, round(network.lipschitz, 12)
    ((5, 1), 1.0)

    Notes
    -----
    A head with unit rows (as in the paper) may have a spectral norm up to the square root of the number of
    classes: ``.lipschitz`` counts it. The map is continuous in exact arithmetic; round-off is not counted.
    """

    layers: Sequence[SLLLayer | SLLConvolution]
    head: NDArray
    head_bias: NDArray | None = None

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
        object.__setattr__(self, "layers", layers)
        object.__setattr__(self, "head", head)
        object.__setattr__(self, "head_bias", bias)

    def __repr__(self) -> str:
        return f"SLLNetwork({len(self.layers)} layers, outputs={len(self.head)})"

    def __call__(self, x: ArrayLike) -> NDArray:
        """The outputs (outputs,) or (batch, outputs) for x of shape (n,) or (batch, n)."""
        inside = _checked_inputs(x, self.head.shape[1])
        for layer in self.layers:
            inside = layer(inside)
        return inside @ self.head.T + self.head_bias

    @property
    def lipschitz(self) -> LipschitzBound:
        """The l2 constant of all layers and the head's spectral norm."""
        with working_bits():
            product = Ball(float(induced_norm(self.head, 2, 2)))
            for layer in self.layers:
                product *= Ball(float(layer.lipschitz))
            return LipschitzBound(upper_float(product), p=2, q=2, method="sll")
