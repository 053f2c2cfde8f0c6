"""The layers of networks as operators that know their norms from above."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privcontrol.core._balls import Ball, upper_float
from privcontrol.core._linalg import EPS, real_array
from privcontrol.core.lipschitz.bound import NORMS
from privcontrol.core.lipschitz.norms import induced_norm

Pair = tuple[int, int]

#: Frequencies in each direction at which the symbol of a convolution is sampled.
_FREQUENCIES = 128


class Operator(ABC):
    """A layer of a network without its activation."""

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """Numbers of entries of its input and its output."""

    @property
    def inputs(self) -> int:
        return self.sizes[0]

    @property
    def outputs(self) -> int:
        return self.sizes[1]

    @abstractmethod
    def norm(self, p: float, q: float) -> Ball:
        """An upper bound of its Lipschitz constant from the p-norm to the q-norm.

        It is infinite where none is known.
        """

    @abstractmethod
    def matrix(self) -> NDArray | None:
        """Its matrix (outputs, inputs) in doubles, exactly, or None if it has none."""


@dataclass(frozen=True, eq=False)
class Dense(Operator):
    """A matrix (outputs, inputs)."""

    weight: NDArray

    @property
    def sizes(self) -> tuple[int, int]:
        return self.weight.shape[1], len(self.weight)

    def norm(self, p: float, q: float) -> Ball:
        return Ball(float(induced_norm(self.weight, p, q)))

    def matrix(self) -> NDArray:
        return self.weight


@dataclass(frozen=True, eq=False)
class Convolution(Operator):
    """A two-dimensional convolution of zero-padded images, as in torch.

    Attributes
    ----------
    weight : ndarray, shape (outputs, inputs, height, width)
        Of the channels.
    shape : tuple
        (channels, height, width) of an input.
    stride, padding, dilation : pair of int
        In each direction.
    """

    weight: NDArray
    shape: tuple[int, int, int]
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)

    def __post_init__(self) -> None:
        if self.weight.shape[1] != self.shape[0]:
            raise ValueError(
                f"weights: expected a convolution of {self.shape[0]} channels, got one "
                f"of {self.weight.shape[1]}"
            )
        if min(self.output_shape) < 1:
            raise ValueError(
                f"weights: expected images at least as large as the kernel, got "
                f"{self.shape[1:]} with padding {self.padding} for a kernel "
                f"{self.weight.shape[2:]}"
            )

    @property
    def output_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of the output."""
        images = self.shape[1:]
        kernel = self.weight.shape[2:]
        axes = zip(images, kernel, self.stride, self.padding, self.dilation)
        lengths = []
        for entries, taps, stride, padding, dilation in axes:
            free = entries + 2 * padding - 1 - (taps - 1) * dilation
            lengths.append(free // stride + 1)
        height, width = lengths
        return (len(self.weight), height, width)

    @property
    def sizes(self) -> tuple[int, int]:
        return math.prod(self.shape), math.prod(self.output_shape)

    def norm(self, p: float, q: float) -> Ball:
        """The norm on the whole plane, of which images and strides see a part."""
        sizes = np.abs(self.weight)
        slack = 1 + 4 * (self.weight.size + 8) * EPS
        if (p, q) == (2, 2):
            return Ball(self._spectral)
        if p == 1:  # what one entry of the input reaches
            reached = sizes.swapaxes(0, 1).reshape(sizes.shape[1], -1)
            gains = np.linalg.norm(reached, q, axis=1)
            return Ball(float(gains.max() * slack))
        if q == math.inf:  # what reaches one entry of the output
            dual = {2: 2, math.inf: 1}[p]
            reaching = sizes.reshape(len(sizes), -1)
            gains = np.linalg.norm(reaching, dual, axis=1)
            return Ball(float(gains.max() * slack))
        return Ball.pos_inf()

    @cached_property
    def _spectral(self) -> float:
        """The largest singular value of the symbol K(w) over all frequencies, from above.

        A real trigonometric polynomial of degree d is at most 1 / cos(pi d / N) times
        its largest value at N > 2 d equispaced points (Ehlich and Zeller 1964). So is
        u* K(w) v for all u and v, in each of the two directions. A shift of the kernel
        that centres it, and a dilation, which only repeats frequencies, change nothing.
        """
        lengths = self.weight.shape[2:]
        samples = max(_FREQUENCIES, 8 * max(lengths))
        symbol = np.fft.rfft2(self.weight, s=(samples, samples))
        symbol = symbol.transpose(2, 3, 0, 1)
        norms = np.linalg.norm(symbol, 2, axis=(2, 3))
        largest = float(norms.max())
        between = 1.0
        for length in lengths:
            degree = length // 2
            between *= math.cos(math.pi * degree / samples)
        total = float(np.abs(self.weight).sum())
        rounding = 64 * EPS * math.log2(samples) * total
        slack = 1 + 8 * sum(self.weight.shape) * EPS
        return (largest + rounding) / between * slack

    def _reached(self, axis: int, tap: int) -> tuple[NDArray, NDArray]:
        """Outputs along an axis, and the entries of the image that a tap shows them."""
        outputs = self.output_shape[1 + axis]
        entries = self.shape[1 + axis]
        offset = tap * self.dilation[axis]
        first = offset - self.padding[axis]
        places = np.arange(outputs)
        seen = first + self.stride[axis] * places
        inside = (seen >= 0) & (seen < entries)
        return places[inside], seen[inside]

    def matrix(self) -> NDArray:
        table = np.zeros((*self.output_shape, *self.shape))
        height, width = self.weight.shape[2:]
        for a in range(height):
            rows, seen_rows = self._reached(0, a)
            down = rows[:, None]
            seen_down = seen_rows[:, None]
            for b in range(width):
                right, seen_right = self._reached(1, b)
                weights = self.weight[:, :, a, b]
                table[:, down, right, :, seen_down, seen_right] = weights
        return table.reshape(self.outputs, self.inputs)


@dataclass(frozen=True, eq=False)
class Identity(Operator):
    """The map x -> x."""

    size: int

    @property
    def sizes(self) -> tuple[int, int]:
        return self.size, self.size

    def norm(self, p: float, q: float) -> Ball:
        if p <= q:
            return Ball(1)
        exponent = 1 / q - (0.0 if p == math.inf else 1 / p)
        return Ball(self.size) ** Ball(exponent)

    def matrix(self) -> NDArray:
        return np.eye(self.size)


@dataclass(frozen=True, eq=False)
class Stage:
    """An operator, and the interval of slopes of the activation before it (None at first)."""

    operator: Operator
    slopes: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class Sum(Operator):
    """A residual block x -> shortcut(x) + branch(x)."""

    branch: Sequence[Stage]
    shortcut: Sequence[Stage]

    @property
    def sizes(self) -> tuple[int, int]:
        return self.branch[0].operator.inputs, self.branch[-1].operator.outputs

    def norm(self, p: float, q: float) -> Ball:
        bounds = [product_bound(part, p, q) for part in (self.branch, self.shortcut)]
        return Ball(bounds[0]) + Ball(bounds[1])

    def matrix(self) -> None:
        return None


def product_bound(stages: Sequence[Stage], p: float, q: float) -> float:
    """The least product of norms along chains of norms from p to q and never back."""
    between = [norm for norm in NORMS if min(p, q) <= norm <= max(p, q)]
    if p > q:
        between.reverse()
    reach: dict[float, Ball] = {p: Ball(1)}
    for stage in stages:
        steepest = Ball(1)
        if stage.slopes is not None:
            steepest = Ball(max(abs(slope) for slope in stage.slopes))
        following = {}
        for i, after in enumerate(between):
            bounds = []
            for before in between[: i + 1]:
                if before in reach:
                    norm = stage.operator.norm(before, after)
                    bounds.append(upper_float(reach[before] * steepest * norm))
            best = min(bounds, default=math.inf)
            if math.isfinite(best):
                following[after] = Ball(best)
        reach = following
    if q not in reach:
        return math.inf
    return upper_float(reach[q])


@dataclass(frozen=True, eq=False)
class Residual:
    """A residual block x -> shortcut(x) + branch(x), in a list of layers.

    Attributes
    ----------
    branch : list of layers, or a torch ``Sequential``
    shortcut : list of layers or a torch module, optional
        The identity by default.

    Examples
    --------
    >>> from privcontrol.core import feedforward_lipschitz
    >>> block = Residual([[[0.5]], [[1.0]]])
    >>> float(feedforward_lipschitz([block], method="product"))
    1.5
    """

    branch: object
    shortcut: object = None


def summed(branch: Sequence[Stage], shortcut: Sequence[Stage]) -> Sum:
    """The residual block of two networks, whose sizes must fit."""
    block = Sum(branch, shortcut)
    inputs = shortcut[0].operator.inputs
    outputs = shortcut[-1].operator.outputs
    if inputs != block.inputs or outputs != block.outputs:
        raise ValueError(
            f"weights: expected a shortcut from {block.inputs} to {block.outputs} "
            f"entries, as its branch, got {inputs} to {outputs}"
        )
    return block


def average(
    shape: tuple[int, int, int], size: Pair, stride: Pair, padding: Pair
) -> Convolution:
    """Average pooling as a convolution of each channel with itself."""
    channels = shape[0]
    weight = np.zeros((channels, channels, *size))
    diagonal = range(channels)
    weight[diagonal, diagonal] = 1 / math.prod(size)
    return Convolution(weight, shape, stride, padding)


def convolution(
    weight: ArrayLike,
    shape: tuple[int, int, int],
    groups: int = 1,
    stride: Pair = (1, 1),
    padding: Pair = (0, 0),
    dilation: Pair = (1, 1),
) -> Convolution:
    """A convolution of groups of channels, with zeros between the groups."""
    kernel = real_array(weight, "weight", ndim=4)
    outputs, inputs, *lengths = kernel.shape
    full = np.zeros((outputs, inputs * groups, *lengths))
    each = outputs // groups
    for g in range(groups):
        row = g * each
        column = g * inputs
        part = kernel[row : row + each]
        full[row : row + each, column : column + inputs] = part
    return Convolution(full, shape, stride, padding, dilation)
