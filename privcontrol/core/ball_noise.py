"""Noise of some numbers whose joint law is radial: a shape times |g'| g.

In few dimensions it is smaller than Gaussian noise that keeps the same epsilon and delta.
Its typical loss is larger for that: `PrivacyLoss.radial` is the whole curve.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..numerics.balls import Ball, Rational, rational, working_bits
from ..numerics.checks import instance_of, positive_number, real_array
from ..numerics.ellipsoid import MoveBasis, Shape, gaussian_shape
from ..numerics.linalg import EPS, column_norms, float_above, smallest
from ..numerics.objects import array_identity
from ..numerics.thresholds import ALIKE
from ..privacy.budget import PrivacyBudget
from ..privacy.law import BallLaw, BlockLaw
from ..privacy.loss import MOST_TRUNCATED, PrivacyLoss
from ..privacy.release import (
    MORE_BITS,
    SYSTEM_BITS,
    BitSource,
    GaussianEntry,
    StandardEntry,
)
from .manifold import Moves
from .noise import Noise

#: The least share of draws that a radius may leave.
_LEAST_KEPT = 1e-3


#: The laws of radial noise by name, whole and cut off at a radius.
RADIAL_LAWS = ("ball", "truncated")


class BallNoise(Noise):
    """gamma = factor @ eta, eta of joint density proportional to exp(-rate |eta|).

    The law is radial, so all moves within the ellipsoid of the factor cost no more than
    those on its boundary, (rate, 0) in differential privacy and less in delta at any
    smaller epsilon. With a ``bound`` there is no eta beyond that radius, and with a small
    probability a neighbour is excluded with certainty.

    Parameters
    ----------
    factor : array_like, shape (m, r)
        Lambda, in the unit of the published data.
    rate : float
        Positive. `ball_rate` returns the rate for a budget.
    bound : float, optional
        Radius in which eta lies, for one or two dimensions r; `truncated_radius` has that
        of a budget.

    Raises
    ------
    ValueError
        If a number is out of range, the factor has another shape, or noise with a bound
        has more than two dimensions.
    TypeError
        If an argument is not real.

    See Also
    --------
    core.ball_rate, core.truncated_radius, GaussianNoise, LaplaceNoise

    Examples
    --------
    >>> from privcontrol.core import ball_rate
    >>> noise = BallNoise([[2.0]], rate=ball_rate(1.0, 1e-2, 1))
    >>> noise.std.round(4), noise.sample(3, rng=0).shape
    (array([2.7727]), (3, 1))
    """

    family = "ball"
    shift_norm = 2
    quoted_delta = 1e-5
    needs_delta = False

    rate: float
    bound: float

    def __init__(
        self, factor: ArrayLike, *, rate: float, bound: float = math.inf
    ) -> None:
        array = real_array(factor, "factor")
        if array.ndim != 2 or not array.size:
            raise ValueError(f"factor: expected shape (m, r), got {array.shape}")
        rate = positive_number(rate, "rate")
        if not (isinstance(bound, float) and bound == math.inf):
            bound = positive_number(bound, "bound")
            if array.shape[1] > MOST_TRUNCATED:
                raise ValueError(
                    f"bound: expected a factor of at most {MOST_TRUNCATED} columns, got "
                    f"{array.shape[1]}; leave the bound out"
                )
        family = BallLaw(array.shape[1], bound).name
        self._set(factor=array, rate=rate, bound=bound, family=family)
        if bound < math.inf and self.law.kept < _LEAST_KEPT:
            raise ValueError(
                f"bound: expected a radius that leaves {_LEAST_KEPT:g} of the law, got "
                f"{bound}; choose a larger one"
            )

    def __reduce__(self) -> tuple[object, ...]:
        return _made, (self.factor, self.rate, self.bound)

    def _identity(self) -> tuple[object, ...]:
        return (*array_identity(self.factor), self.rate, self.bound)

    @property
    def dimension(self) -> int:
        """Number of entries r of eta."""
        return self.factor.shape[1]

    @property
    def _radius(self) -> float:
        """The bound in units of 1 / rate."""
        return self.rate * self.bound

    @property
    def law(self) -> BallLaw:  # type: ignore[override]
        """The law of ``rate`` times eta."""
        return BallLaw(self.dimension, self._radius)

    @property
    def unit_variance(self) -> float:  # type: ignore[override]
        """Variance of one entry of eta."""
        return self.law.unit_variance / self.rate**2

    def scaled(self, gain: float) -> Self:
        """Return the same noise, ``gain`` times as large."""
        return type(self)(self.factor * gain, rate=self.rate, bound=self.bound)

    # -- the law -----------------------------------------------------------------------

    def standard(  # type: ignore[override]
        self, rng: np.random.Generator, shape: tuple[int, ...]
    ) -> NDArray[np.float64]:
        return self.law.standard(rng, shape) / self.rate

    def log_likelihood_ratio(  # type: ignore[override]
        self, eta: NDArray[np.float64], shift: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        moved = column_norms(eta - shift)
        losses = self.rate * (moved - column_norms(eta))
        return np.where(moved > self.bound, np.inf, losses)

    def loss(  # type: ignore[override]
        self, shifts: NDArray[np.float64], moves: Moves, full_rank: bool = True
    ) -> PrivacyLoss:
        size = moves.worst_shift(shifts, self.shift_norm)
        attained = moves.attaining(shifts, self.shift_norm)
        return self.loss_of_size(size, attained, moves.exact and full_rank)

    def loss_of_columns(  # type: ignore[override]
        self,
        shifts: NDArray[np.float64],
        moves: Iterable[int] | None = None,
        attained: tuple[int, ...] = (),
    ) -> PrivacyLoss:
        size = float_above(column_norms(shifts).max(), 4 + len(shifts))
        return self.loss_of_size(size, attained)

    def loss_of_size(  # type: ignore[override]
        self, size: float, attained: tuple[int, ...] = (), exact: bool = False
    ) -> PrivacyLoss:
        size = float_above(self.rate * size, 2)
        return PrivacyLoss.radial(size, self.dimension, self._radius, attained, exact)

    def allowed_shift(  # type: ignore[override]
        self, budget: PrivacyBudget, releases: int = 1
    ) -> float:
        def meets(scale: float) -> bool:
            loss = self.loss_of_size(1 / scale)
            return loss.released(releases).satisfies(budget)

        scale = smallest(meets, 0.0, self.rate, tolerance=ALIKE, limit=1e300)
        return math.nextafter(1 / scale, 0.0)

    @staticmethod
    def shape(
        basis: MoveBasis, rows: NDArray[np.float64], *, counted: int | None = None
    ) -> Shape:
        return gaussian_shape(basis, rows, counted=counted)

    # -- exact releases ----------------------------------------------------------------

    @cached_property
    def reciprocal(self) -> Rational:
        """1 / rate, exactly, the size of the `entries` in units of the factor."""
        return 1 / rational(self.rate)

    @property
    def units(self) -> list[Rational]:
        """Multipliers of the `entries`, in units of the factor."""
        return [self.reciprocal] * self.dimension

    def entries(self, source: BitSource = SYSTEM_BITS) -> list[StandardEntry]:
        """Draw rate eta, entries whose joint density is exp(-|eta|) within the bound.

        They are Gaussian numbers times one length, that of r + 1 others. A draw beyond
        the bound is drawn again. ``source`` is where the random bits come from.
        """
        instance_of(source, BitSource, "source", "SYSTEM_BITS")
        while True:
            length = _Length(source, self.dimension + 1)
            numbers = [GaussianEntry(source) for _ in range(self.dimension)]
            if not self.law.is_cut or self._lies_within(length, numbers):
                return [_RadialEntry(number, length) for number in numbers]

    def _lies_within(self, length: _Length, numbers: list[GaussianEntry]) -> bool:
        """Decide with as many bits as it takes whether entries lie within the bound."""
        while True:
            with working_bits(2 * length.count):
                most = Ball(rational(self.rate) * rational(self.bound))
                size = length.ball() * _norm(numbers)
            if size.is_finite() and size <= most:
                return True
            if size.is_finite() and size > most:
                return False
            length.refine()
            for number in numbers:
                number.refine()


class BlockNoise(BallNoise):
    """gamma = factor eta of independent blocks of radial entries, of variance one."""

    sizes: tuple[int, ...]

    def __init__(self, factor: NDArray[np.float64], sizes: tuple[int, ...]) -> None:
        self._set(sizes=sizes)
        super().__init__(factor, rate=1.0)

    def __reduce__(self) -> tuple[object, ...]:
        return BlockNoise, (self.factor, self.sizes)

    def _identity(self) -> tuple[object, ...]:
        return (*super()._identity(), self.sizes)

    @property
    def law(self) -> BlockLaw:  # type: ignore[override]
        return BlockLaw(self.sizes)

    @property
    def unit_variance(self) -> float:  # type: ignore[override]
        return 1.0

    def scaled(self, gain: float) -> Self:
        return type(self)(self.factor * gain, self.sizes)

    def log_likelihood_ratio(  # type: ignore[override]
        self, eta: NDArray[np.float64], shift: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        moved = self.law.lengths(eta - np.reshape(shift, (len(shift), -1)))
        return (moved - self.law.lengths(eta)).sum(axis=0)

    def loss(  # type: ignore[override]
        self, shifts: NDArray[np.float64], moves: Moves, full_rank: bool = True
    ) -> PrivacyLoss:
        lengths = self.law.lengths(shifts)
        if moves.is_ball:
            # each block of a combination of axes moves by no more than all of them in squares
            lengths = np.linalg.norm(lengths, axis=1, keepdims=True)
        slack = 1 + EPS * (8 + sum(self.sizes))
        return PrivacyLoss.blocks(lengths * slack, self.sizes)

    def loss_of_size(  # type: ignore[override]
        self, size: float, attained: tuple[int, ...] = (), exact: bool = False
    ) -> PrivacyLoss:
        lengths = size / np.array(self.law.units)
        most = float(np.linalg.norm(lengths))  # of the sum, by Cauchy and Schwarz
        return PrivacyLoss.radial(float_above(most, 4 + len(lengths)), 1, exact=False)

    @property
    def units(self) -> list[Rational]:
        each = zip(self.sizes, self.law.units, strict=True)
        return [rational(unit) for size, unit in each for _ in range(size)]

    def entries(self, source: BitSource = SYSTEM_BITS) -> list[StandardEntry]:
        drawn: list[StandardEntry] = []
        for size in self.sizes:
            drawn += BallNoise(np.eye(size), rate=1.0).entries(source)
        return drawn


def _made(factor: NDArray[np.float64], rate: float, bound: float) -> BallNoise:
    return BallNoise(factor, rate=rate, bound=bound)


def _norm(numbers: Iterable[StandardEntry]) -> Ball:
    """Return an interval of the root of the sum of squares."""
    total = Ball(0)
    for number in numbers:
        ball = number.ball()
        total = total + ball * ball
    return total.sqrt()


class _Length:
    """The length of a vector of standard Gaussian numbers."""

    def __init__(self, source: BitSource, count: int) -> None:
        self._numbers = [GaussianEntry(source) for _ in range(count)]

    @property
    def count(self) -> int:
        return self._numbers[0].count

    def refine(self, count: int = MORE_BITS) -> None:
        for number in self._numbers:
            number.refine(count)

    def ball(self) -> Ball:
        return _norm(self._numbers)


class _RadialEntry(StandardEntry):
    """One of some Gaussian numbers that share a random length."""

    def __init__(self, number: GaussianEntry, length: _Length) -> None:
        self._number = number
        self._length = length
        self._known = None

    @property
    def count(self) -> int:  # type: ignore[override]
        return max(self._number.count, self._length.count)

    def refine(self, count: int = MORE_BITS) -> None:
        self._number.refine(count)
        self._length.refine(count)
        self._known = None

    def _enclosure(self) -> Ball:
        return self._number.ball() * self._length.ball()
