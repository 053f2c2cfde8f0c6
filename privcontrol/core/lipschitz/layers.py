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

from .._balls import Ball, upper_float, working_bits
from .._frozen import CheckedFields
from .._linalg import EPS, positive_integer, real_array, sequence_of
from .norms import LipschitzBound, induced_norm


class _Layer(CheckedFields, ABC):
    """A layer on R^n with a certificate."""

    weight: NDArray
    bias: NDArray
    q: NDArray
    inverse_T: NDArray

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of entries n."""

    @abstractmethod
    def _overlaps(self) -> NDArray:
        """Upper bounds (m, m) of what two neurons have in common, |W'W| if dense."""

    @abstractmethod
    def _apply(self, x: NDArray) -> NDArray:
        """The outputs (batch, n) of checked inputs (batch, n)."""

    def _check_neurons(self, count: int) -> None:
        """Read the bias and the scales of so many neurons."""
        bias = real_array(self.bias, "bias", shape=(count,))
        q = real_array(self.q, "q", shape=(count,))
        if not (q > 0).all():
            raise ValueError(
                "q: expected positive scales, got zero or negative ones; use q = exp(r)"
            )
        self._set(bias=bias, q=q)

    def _weigh(self, alive: NDArray, terms: int) -> None:
        """Set T^{-1}, rounded down, and zero for a neuron without weights."""
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
        """A proven upper bound c of the squared norm of W T^{-1/2}.

        The layer needs c <= 1. It is the largest of T_ii^{-1} sum_j |W'W|_ij q_j / q_i for
        the T in use, with bounds of the rounding errors.
        """
        return float(np.max(self._row_sums() * self.inverse_T) * (1 + 4 * EPS))

    def __call__(self, x: ArrayLike) -> NDArray:
        """The layer's output for x of shape (n,) or, with a batch on axis 0, (batch, n)."""
        inputs = checked_inputs(x, self.size)
        return self._apply(np.atleast_2d(inputs)).reshape(inputs.shape)

    @property
    def lipschitz(self) -> LipschitzBound:
        """The l2 constant max(1, 2c - 1), c the certificate, as a ``LipschitzBound``."""
        with working_bits():
            stretched = upper_float(2 * Ball(self.certificate()) - 1)
        return LipschitzBound(max(1.0, stretched), p=2, q=2, method="sll")


def checked_inputs(x: ArrayLike, size: int) -> NDArray:
    """Inputs (in,) or (batch, in)."""
    inputs = real_array(x, "x")
    if inputs.ndim not in (1, 2) or inputs.shape[-1] != size:
        raise ValueError(
            f"x: expected shape ({size},) or (batch, {size}), got {inputs.shape}"
        )
    return inputs


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
        self._check_neurons(weight.shape[1])
        self._weigh(np.asarray(weight.any(axis=0)), sum(weight.shape))

    def __repr__(self) -> str:
        return f"SLLLayer(width={self.weight.shape[0]}, neurons={self.weight.shape[1]})"

    @property
    def size(self) -> int:
        """Number of entries n."""
        return len(self.weight)

    def _apply(self, x: NDArray) -> NDArray:
        active = np.maximum(x @ self.weight + self.bias, 0) * self.inverse_T
        return x - 2 * active @ self.weight.T

    def _overlaps(self) -> NDArray:
        sizes = np.abs(self.weight)
        slack = (len(sizes) + 2) * EPS * (sizes.T @ sizes)
        return np.abs(self.weight.T @ self.weight) + slack


@dataclass(frozen=True, eq=False, repr=False)
class SLLConvolution(_Layer):
    r"""A convolutional SDP-based Lipschitz layer.

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
        if padding != 0:
            padding = positive_integer(padding, "padding")
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
        self._check_neurons(len(weight))
        self._weigh(np.asarray(weight.any(axis=(1, 2, 3))), weight.size)

    def __repr__(self) -> str:
        return f"SLLConvolution(shape={self.shape}, filters={len(self.weight)})"

    @property
    def size(self) -> int:
        """Number of entries of an image."""
        return math.prod(self.shape)

    def _overlaps(self) -> NDArray:
        """sum_s |(K_i * K_j)(s)| over all shifts s of one filter against another."""
        m, _, height, width = self.weight.shape
        sizes = np.zeros((m, m))
        axes = ([1, 2, 3], [1, 2, 3])
        for down in range(1 - height, height):
            for right in range(1 - width, width):
                here = self._overlapping(down, right)
                there = self._overlapping(-down, -right)
                sizes += np.abs(np.tensordot(here, there, axes))
                magnitudes = np.tensordot(np.abs(here), np.abs(there), axes)
                slack = (here[0].size + 2) * EPS
                sizes += slack * magnitudes
        return sizes

    def _overlapping(self, down: int, right: int) -> NDArray:
        """The taps of all filters that overlap with filters moved by so many taps."""
        return self.weight[:, :, _overlap(down), _overlap(right)]

    def _apply(self, x: NDArray) -> NDArray:
        images = x.reshape(-1, *self.shape)
        patches = self._patches(images)
        filters = self.weight.reshape(len(self.weight), -1)
        places = math.prod(patches.shape[:3])
        seen = patches.reshape(places, -1) @ filters.T
        hidden = np.maximum(seen + self.bias, 0)
        active = hidden * self.inverse_T
        spread = active @ filters
        changes = spread.reshape(patches.shape)
        back = self._images(changes)
        return x - 2 * back.reshape(x.shape)

    def _patches(self, images: NDArray) -> NDArray:
        """What the filters see around each pixel: (images, rows, columns, *taps)."""
        windows = np.lib.stride_tricks.sliding_window_view(
            self._padded(images), self.weight.shape[2:], (2, 3)
        )
        return windows.transpose(0, 2, 3, 1, 4, 5)

    def _images(self, patches: NDArray) -> NDArray:
        """Images, each entry the sum of what the patches around it have there."""
        count, rows, columns, _, height, width = patches.shape
        taps = patches.transpose(4, 5, 0, 3, 1, 2)
        blank = np.zeros((count, *self.shape))
        padded = self._padded(blank)
        for a, b in np.ndindex(height, width):
            below = a + rows
            beside = b + columns
            padded[:, :, a:below, b:beside] += taps[a, b]
        p = self.padding or 0
        _, down, across = self.shape
        bottom = p + down
        right = p + across
        return padded[:, :, p:bottom, p:right]

    def _padded(self, images: NDArray) -> NDArray:
        p = self.padding or 0
        return np.pad(images, ((0, 0), (0, 0), (p, p), (p, p)))


def _overlap(shift: int) -> slice:
    """The part of a filter that overlaps with itself moved by so many taps."""
    return slice(shift, None) if shift >= 0 else slice(None, shift)


@dataclass(frozen=True, eq=False, repr=False)
class SLLNetwork:
    """SLL layers of one width, and an affine head, whose spectral norm counts.

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
        object.__setattr__(self, "layers", layers)
        object.__setattr__(self, "head", head)
        object.__setattr__(self, "head_bias", bias)

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
