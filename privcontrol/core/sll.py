"""Networks that are 1-Lipschitz by construction, as a numpy forward pass.

SDP-based Lipschitz layers (Araujo, Havens, Delattre, Allauzen and Hu, ICLR 2023), dense
and convolutional. Training is left to others; every layer here carries its certificate.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from ._balls import Ball, upper_float, working_bits
from ._linalg import EPS, positive_integer, real_array, sequence_of
from ._objects import CheckedFields
from .lipschitz import LipschitzBound, checked_inputs, induced_norm


class _Layer(CheckedFields, ABC):
    """A layer on R^n with a certificate."""

    weight: NDArray
    bias: NDArray
    q: NDArray
    inverse_T: NDArray

    @property
    @abstractmethod
    def matrix(self) -> NDArray | scipy.sparse.csr_array:
        """W, with the columns of each neuron's places beside each other."""

    @abstractmethod
    def _overlaps(self) -> NDArray:
        """Upper bounds (m, m) of what two neurons have in common, |W'W| if dense."""

    @property
    def size(self) -> int:
        """Number of entries n."""
        return self.matrix.shape[0]

    def _weigh(self, alive: NDArray, terms: int) -> None:
        """Read bias and scales, and set T^{-1}, rounded down.

        It is zero for a neuron without weights.
        """
        bias = real_array(self.bias, "bias", shape=alive.shape)
        q = real_array(self.q, "q", shape=alive.shape)
        if not (q > 0).all():
            raise ValueError(
                "q: expected positive scales, got zero or negative ones; use q = exp(r)"
            )
        self._set(bias=bias, q=q)
        rows = self._row_sums()
        shrink = 1 - 8 * (terms + 4) * EPS  # more than the round-off of the row sums
        inverse = np.divide(shrink, rows, out=np.zeros(len(rows)), where=alive)
        inverse.flags.writeable = False
        self._set(inverse_T=inverse)
        if not self.certificate() <= 1 + 1e-9:
            raise ValueError(
                "SLL layer: weight and q span too many decades for a certificate; "
                "rescale them"
            )

    def _row_sums(self) -> NDArray:
        """sum_j |W'W|_ij q_j / q_i, rounded up."""
        sizes = self._overlaps()
        terms = sizes.size + len(sizes)
        spread = self.q.max() / self.q.min()
        lost = 1e-300 * (1 + spread)  # more than what underflows
        sums = sizes @ self.q / self.q
        return sums * (1 + 4 * terms * EPS) + lost

    def certificate(self) -> float:
        """Return a proven upper bound c of the squared norm of W T^{-1/2}.

        The layer needs c <= 1. It is the largest of T_ii^{-1} sum_j |W'W|_ij q_j / q_i for
        the T in use, with bounds of the rounding errors.
        """
        return float(np.max(self._row_sums() * self.inverse_T) * (1 + 4 * EPS))

    def __call__(self, x: ArrayLike) -> NDArray:
        """The layer's output for x of shape (n,) or, with a batch on axis 0, (batch, n)."""
        inputs = checked_inputs(x, self.size)
        rows = np.atleast_2d(inputs)
        W = self.matrix
        places = W.shape[1] // len(self.bias)
        hidden = np.maximum(rows @ W + np.repeat(self.bias, places), 0)
        active = hidden * np.repeat(self.inverse_T, places)
        return (rows - 2 * active @ W.T).reshape(inputs.shape)

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

    Examples
    --------
    >>> layer = SLLLayer([[1.0, 0.5], [0.0, 1.0]], [0.0, 0.1], [1.0, 1.0])
    >>> layer([1.0, 2.0]).shape, layer.certificate() <= 1, float(layer.lipschitz)
    ((2,), True, 1.0)

    Notes
    -----
    T - W'W, scaled by q, is diagonally dominant, hence W'W <= T. Slopes S in [0, I] give
    the Jacobian I - 2 B S B' with B = W T^{-1/2}, whose eigenvalues lie in [-1, 1].
    """

    weight: NDArray
    bias: NDArray
    q: NDArray
    inverse_T: NDArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        weight = real_array(self.weight, "weight", ndim=2)
        self._set(weight=weight)
        self._weigh(np.asarray(weight.any(axis=0)), sum(weight.shape))

    def __repr__(self) -> str:
        return f"SLLLayer(width={self.weight.shape[0]}, neurons={self.weight.shape[1]})"

    @property
    def matrix(self) -> NDArray:
        return self.weight

    def _overlaps(self) -> NDArray:
        sizes = np.abs(self.weight)
        slack = (len(sizes) + 2) * EPS * (sizes.T @ sizes)
        return np.abs(self.weight.T @ self.weight) + slack


@dataclass(frozen=True, eq=False, repr=False)
class SLLConvolution(_Layer):
    r"""Apply a convolutional SDP-based Lipschitz layer.

    It maps images to :math:`x - 2 W T^{-1} \mathrm{relu}(W^T x + b)`, W^T a convolution.

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

    Attributes and errors are those of `SLLLayer`.

    Examples
    --------
    >>> layer = SLLConvolution(np.ones((2, 1, 3, 3)), np.zeros(2), np.ones(2), (1, 8, 8))
    >>> layer(np.zeros((5, 64))).shape, layer.certificate() <= 1
    ((5, 64), True)

    Notes
    -----
    On the whole plane T_ii = sum_j sum_s \|(K_i * K_j)(s)\| q_j / q_i with the
    correlations K_i * K_j of the filters. Images with zeros around them see a part of it.
    """

    weight: NDArray
    bias: NDArray
    q: NDArray
    shape: tuple[int, int, int]
    padding: int | None = None
    inverse_T: NDArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        weight = real_array(self.weight, "weight", ndim=4)
        padding = self.padding
        if padding is None:
            padding = weight.shape[2] // 2
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

    def _overlaps(self) -> NDArray:
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

    Examples
    --------
    >>> layer = SLLLayer(np.eye(2), [0.0, 0.1], [1.0, 1.0])
    >>> network = SLLNetwork([layer, layer], [[0.6, 0.8]])
    >>> network(np.zeros((5, 2))).shape, round(network.lipschitz, 12)
    ((5, 1), 1.0)
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
        self._set(layers=layers, head=head, head_bias=bias)

    def __repr__(self) -> str:
        return f"SLLNetwork({len(self.layers)} layers, outputs={len(self.head)})"

    def __call__(self, x: ArrayLike) -> NDArray:
        """The outputs (outputs,) or (batch, outputs) for x of shape (n,) or (batch, n)."""
        inside = checked_inputs(x, self.head.shape[1])
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
