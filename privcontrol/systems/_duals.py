"""Derivatives of a user's function over a whole box, by interval arithmetic.

`differentiate` calls the function once with numbers that carry an interval and its
derivatives. Sums, products, quotients and roots are rounded outwards in doubles. Other
functions are enclosed in ball arithmetic. A function whose path depends on a comparison
that the box does not decide is refused, and so is everything that cannot be enclosed.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core._balls import Ball, lower_float, upper_float, working_bits

Interval = tuple[float, float]
Slopes = dict[int, Interval]

#: Everything: what is known of a number of which nothing is known.
_ALL = (-math.inf, math.inf)
_ZERO = (0.0, 0.0)
_ONE = (1.0, 1.0)


class NotEnclosedError(TypeError):
    """A function that interval arithmetic cannot follow; the message says where."""


def differentiate(
    function: Callable[[NDArray], Any], box: Sequence[Interval]
) -> tuple[NDArray, NDArray]:
    """Enclosures of a function's values and of its derivatives over a box.

    Parameters
    ----------
    function : callable
        From an object array (k,) to m numbers.
    box : sequence of (low, high), k of them
        A bound may be infinite.

    Returns
    -------
    values : ndarray, shape (2, m)
        Least and largest values.
    slopes : ndarray, shape (2, m, k)
        Least and largest derivatives. Where nothing bounds one it is infinite. For
        functions with kinks these are bounds of all difference quotients.

    Raises
    ------
    NotEnclosedError
        If the function uses what is not enclosed.
    """
    refusals: list[str] = []
    point = np.empty(len(box), object)
    for k, interval in enumerate(box):
        point[k] = Dual(interval, {k: (1.0, 1.0)}, refusals)
    try:
        with working_bits(64):
            answer = function(point)
    finally:
        if refusals:  # also one that the function's own try statement has caught
            raise NotEnclosedError(refusals[0])
    entries = np.ravel(np.asarray(answer, object)).tolist()
    values = np.empty((2, len(entries)))
    slopes = np.zeros((2, len(entries), len(box)))
    for i, entry in enumerate(entries):
        dual = _as_dual(entry, refusals)
        if dual is NotImplemented:
            raise NotEnclosedError(
                f"expected numbers from the function, got {type(entry).__name__}"
            )
        values[:, i] = dual.range
        for k, slope in dual.slopes.items():
            slopes[:, i, k] = slope
    return values, slopes


class Dual:
    """An interval that holds a number, and intervals that hold its derivatives.

    A derivative that is left out is exactly zero. Every refusal is also recorded, so
    that no function can hide one.
    """

    __slots__ = ("range", "refusals", "slopes")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, range: Interval, slopes: Slopes, refusals: list[str]) -> None:
        self.range = range
        self.slopes = slopes
        self.refusals = refusals

    def refuse(self, message: str) -> NotEnclosedError:
        """Record why the function cannot be followed; the caller raises the error."""
        self.refusals.append(message)
        return NotEnclosedError(message)

    def _made(self, range: Interval, slopes: Slopes) -> Dual:
        return Dual(range, slopes, self.refusals)

    def _scaled(self, factor: Interval) -> Slopes:
        """The derivatives times a number; none are left for zero."""
        if factor == _ZERO:
            return {}
        return {k: _times(factor, slope) for k, slope in self.slopes.items()}

    def followed(self, rule: Rule) -> Dual:
        """f(x) for a function f with this rule."""
        if not rule.covers(self.range):
            raise self.refuse(rule.refusal)
        value = rule.value(self.range)
        return self._made(value, self._scaled(rule.slope(self.range, value)))

    def __getattr__(self, name: str) -> Callable[..., Dual]:
        """A function of numpy's, which looks for it here by its name."""
        function = _FUNCTIONS.get(name)
        if function is None:
            raise AttributeError(name)
        return lambda *others: function(self, *others)

    # -- arithmetic ----------------------------------------------------------------

    def __add__(self, other: object) -> Dual:
        dual = _as_dual(other, self.refusals)
        if dual is NotImplemented:
            return NotImplemented
        slopes = dict(self.slopes)
        for k, slope in dual.slopes.items():
            slopes[k] = _plus(slopes[k], slope) if k in slopes else slope
        return self._made(_plus(self.range, dual.range), slopes)

    __radd__ = __add__

    def __neg__(self) -> Dual:
        slopes = {k: _minus(slope) for k, slope in self.slopes.items()}
        return self._made(_minus(self.range), slopes)

    def __pos__(self) -> Dual:
        return self

    def __sub__(self, other: object) -> Dual:
        dual = _as_dual(other, self.refusals)
        if dual is NotImplemented:
            return NotImplemented
        return self + (-dual)

    def __rsub__(self, other: object) -> Dual:
        return (-self) + other

    def __mul__(self, other: object) -> Dual:
        if other is self:
            return self._power(2)
        dual = _as_dual(other, self.refusals)
        if dual is NotImplemented:
            return NotImplemented
        product = _times(self.range, dual.range)
        left = self._made(product, self._scaled(dual.range))
        right = self._made(_ZERO, dual._scaled(self.range))
        return left + right

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> Dual:
        dual = _as_dual(other, self.refusals)
        if dual is NotImplemented:
            return NotImplemented
        return self * dual.followed(_RULES["reciprocal"])

    def __rtruediv__(self, other: object) -> Dual:
        return self.followed(_RULES["reciprocal"]) * other

    def __pow__(self, exponent: Dual | float) -> Dual:
        if isinstance(exponent, Dual):
            return (self.log() * exponent).exp()
        number = float(exponent)
        if number == int(number) and abs(number) <= 64:
            return self._power(int(number))
        if not self.range[0] > 0:
            raise self.refuse(
                f"a power {number:g} of an interval that does not lie above zero"
            )
        return (self.log() * number).exp()

    def __rpow__(self, base: object) -> Dual:
        return (_as_dual(base, self.refusals).log() * self).exp()

    def _power(self, exponent: int) -> Dual:
        if exponent < 0:
            return 1.0 / self._power(-exponent)
        if exponent == 0:
            return self._made(_ONE, {})
        times = (float(exponent), float(exponent))
        derivative = _times(times, _integer_power(self.range, exponent - 1))
        value = _integer_power(self.range, exponent)
        return self._made(value, self._scaled(derivative))

    def __abs__(self) -> Dual:
        low, high = self.range
        if low >= 0:
            return self
        if high <= 0:
            return -self
        return self._made((0.0, max(-low, high)), self._scaled((-1.0, 1.0)))

    # -- kinks: both sides are enclosed --------------------------------------------

    def maximum(self, other: object) -> Dual:
        """The larger one; where the box does not tell which, derivatives of both."""
        dual = _as_dual(other, self.refusals)
        if self.range[0] >= dual.range[1]:
            return self
        if dual.range[0] >= self.range[1]:
            return dual
        low = max(self.range[0], dual.range[0])
        high = max(self.range[1], dual.range[1])
        slopes = {}
        for k in {**self.slopes, **dual.slopes}:
            mine = self.slopes.get(k, _ZERO)
            its = dual.slopes.get(k, _ZERO)
            slopes[k] = (min(mine[0], its[0]), max(mine[1], its[1]))
        return self._made((low, high), slopes)

    def minimum(self, other: object) -> Dual:
        """The smaller one, as `maximum`."""
        dual = _as_dual(other, self.refusals)
        return -((-self).maximum(-dual))

    def clip(self, low: object = None, high: object = None, **options: object) -> Dual:
        """Limited from below and above, as ``np.clip`` does it."""
        clipped = self
        if low is not None:
            clipped = clipped.maximum(low)
        if high is not None:
            clipped = clipped.minimum(high)
        return clipped

    # -- comparisons: decided by the whole box, or refused --------------------------

    def _decided(self, holds: bool, fails: bool) -> bool:
        if holds or fails:
            return holds
        raise self.refuse(
            "a comparison (if, np.where, max) that the region does not decide: the "
            "function may jump there. Choose a region on one side of the branch, or "
            "write a continuous branch as np.maximum, np.minimum, np.clip or abs"
        )

    def __lt__(self, other: object) -> bool:
        low, high = _range_of(other, self.refusals)
        return self._decided(self.range[1] < low, self.range[0] >= high)

    def __le__(self, other: object) -> bool:
        low, high = _range_of(other, self.refusals)
        return self._decided(self.range[1] <= low, self.range[0] > high)

    def __gt__(self, other: object) -> bool:
        return not self <= other

    def __ge__(self, other: object) -> bool:
        return not self < other

    def __eq__(self, other: object) -> bool:
        low, high = _range_of(other, self.refusals)
        same = self.range[0] == self.range[1] == low == high
        return self._decided(same, self.range[1] < low or self.range[0] > high)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return self != 0.0

    def __float__(self, *others: object) -> float:
        raise self.refuse(
            "a conversion to a plain number: use np.sin and the like in place of "
            "math.sin, and np.array([...]) or np.zeros_like(x) in place of np.zeros(n)"
        )

    __int__ = __index__ = __complex__ = __round__ = __float__

    def __mod__(self, *others: object) -> Dual:
        raise self.refuse("a remainder or a whole quotient, which jumps")

    __rmod__ = __floordiv__ = __rfloordiv__ = __divmod__ = __rdivmod__ = __mod__

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **options: object
    ) -> Any:
        """What numpy calls for ``np.sin(x)``, ``np.maximum(x, 0)`` or ``array * x``."""
        operation = _FUNCTIONS.get(ufunc.__name__)
        if operation is None or method != "__call__" or options:
            raise self.refuse(f"np.{ufunc.__name__}, which is not enclosed")
        arrays = np.broadcast_arrays(*(_boxed(value) for value in inputs))
        shape = arrays[0].shape
        columns = [array.ravel().tolist() for array in arrays]
        answers = []
        for entries in zip(*columns, strict=True):
            first = _as_dual(entries[0], self.refusals)
            answers.append(operation(first, *entries[1:]))
        if not shape:
            return answers[0]
        result = np.empty(len(answers), object)
        result[:] = answers
        return result.reshape(shape)


def _boxed(value: object) -> NDArray:
    """A value as an object array, without asking it what it is."""
    if isinstance(value, np.ndarray):
        return value.astype(object)
    box = np.empty((), object)
    box[()] = value
    return box


def _as_dual(value: object, refusals: list[str]) -> Any:
    """A number as a Dual without derivatives, or NotImplemented."""
    if isinstance(value, Dual):
        return value
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return _as_dual(value.item(), refusals)
    if isinstance(value, (int, float, np.integer, np.floating)):
        number = float(value)
        if math.isnan(number):
            return Dual(_ALL, {}, refusals)
        return Dual((number, number), {}, refusals)
    return NotImplemented


def _range_of(value: object, refusals: list[str]) -> Interval:
    dual = _as_dual(value, refusals)
    if dual is NotImplemented:
        raise NotEnclosedError(f"a comparison with a {type(value).__name__}")
    return dual.range


# -- intervals of doubles ------------------------------------------------------------


def _below(value: float) -> float:
    return math.nextafter(value, -math.inf)


def _above(value: float) -> float:
    return math.nextafter(value, math.inf)


def _outwards(low: float, high: float) -> Interval:
    """The interval with what rounding may have taken from its ends."""
    if math.isnan(low) or math.isnan(high):
        return _ALL
    return _below(low), _above(high)


def _plus(a: Interval, b: Interval) -> Interval:
    if b == _ZERO:
        return a
    if a == _ZERO:
        return b
    return _outwards(a[0] + b[0], a[1] + b[1])


def _minus(a: Interval) -> Interval:
    return -a[1], -a[0]


def _times(a: Interval, b: Interval) -> Interval:
    if a == _ONE:
        return b
    if b == _ONE:
        return a
    if _ZERO in (a, b):
        return _ZERO  # also times an unbounded, but finite number
    corners = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
    if any(math.isnan(corner) for corner in corners):
        return _ALL
    return _outwards(min(corners), max(corners))


def _inverse(a: Interval) -> Interval:
    """1 / x over an interval on one side of zero, which may be one of its ends."""
    low = 1 / a[1] if a[1] else -math.inf
    high = 1 / a[0] if a[0] else math.inf
    return _outwards(low, high)


def _square(a: Interval) -> Interval:
    return _integer_power(a, 2)


def _integer_power(a: Interval, exponent: int) -> Interval:
    """x ** exponent for an exponent >= 0, without the loss of a repeated product."""
    if exponent == 0:
        return _ONE
    if exponent == 1:
        return a
    ends = []
    for end in a:
        power: Interval = (end, end)
        for _ in range(exponent - 1):
            power = _times(power, (end, end))
        ends.append(power)
    low, high = min(ends[0][0], ends[1][0]), max(ends[0][1], ends[1][1])
    if exponent % 2 == 0:
        low = 0.0 if a[0] <= 0 <= a[1] else max(low, 0.0)
    return low, high


def _rising(function: Callable[[Ball], Ball]) -> Callable[[Interval], Interval]:
    """An increasing function over an interval, enclosed at its two ends."""

    def over(a: Interval) -> Interval:
        low = lower_float(function(Ball(a[0])))
        high = upper_float(function(Ball(a[1])))
        if math.isnan(low) or math.isnan(high):
            return _ALL
        return low, high

    return over


def _cosh(a: Interval) -> Interval:
    ends = abs(a[0]), abs(a[1])
    near = 0.0 if a[0] <= 0 <= a[1] else min(ends)
    return _rising(Ball.cosh)((near, max(ends)))


def _tanh(a: Interval) -> Interval:
    low, high = _rising(Ball.tanh)(a)
    return max(low, -1.0), min(high, 1.0)


def _cosine(a: Interval) -> Interval:
    """cos over an interval; it is 1 or -1 at the multiples k of pi."""
    return _wave(Ball.cos, a, 0.0)


def _sine(a: Interval) -> Interval:
    """sin over an interval; it is 1 or -1 at the multiples k + 1/2 of pi."""
    return _wave(Ball.sin, a, 0.5)


def _wave(function: Callable[[Ball], Ball], a: Interval, offset: float) -> Interval:
    """A wave at the two ends, and the extrema (k + offset) pi that may lie between."""
    low, high = a
    if not (abs(low) < 1e6 and abs(high) < 1e6) or high - low >= 2 * math.pi:
        return (-1.0, 1.0)
    ends = [function(Ball(end)) for end in a]
    least = min(lower_float(end) for end in ends)
    largest = max(upper_float(end) for end in ends)
    # the margin is far above the rounding of these quotients
    first = math.ceil(low / math.pi - offset - 1e-9)
    last = math.floor(high / math.pi - offset + 1e-9)
    for k in range(first, last + 1):
        if k % 2:
            least = -1.0
        else:
            largest = 1.0
    return max(least, -1.0), min(largest, 1.0)


def _from_one(a: Interval) -> Interval:
    """1 - x^2 over an interval, where it is not negative."""
    low, high = _plus(_ONE, _minus(_square(a)))
    return max(low, 0.0), high


# -- functions that numpy calls by name ------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """A function of one number: its range over an interval, and that of its derivative."""

    value: Callable[[Interval], Interval]
    slope: Callable[[Interval, Interval], Interval]  # of the interval and of the range
    covers: Callable[[Interval], bool] = lambda a: True
    refusal: str = ""


_root = _rising(Ball.sqrt)

_RULES = {
    "reciprocal": Rule(
        _inverse,
        lambda a, value: _minus(_square(value)),
        lambda a: not a[0] <= 0 <= a[1],
        "a division by an interval that contains zero",
    ),
    "sqrt": Rule(
        _root,
        lambda a, value: _times((0.5, 0.5), _inverse(value)),
        lambda a: a[0] >= 0,
        "a square root of an interval with negative numbers; "
        "np.sqrt(np.maximum(x, least)) bounds it from below",
    ),
    "exp": Rule(_rising(Ball.exp), lambda a, value: value),
    "log": Rule(
        _rising(Ball.log),
        lambda a, value: _inverse(a),
        lambda a: a[0] > 0,
        "a logarithm of an interval that does not lie above zero",
    ),
    "sin": Rule(_sine, lambda a, value: _cosine(a)),
    "cos": Rule(_cosine, lambda a, value: _minus(_sine(a))),
    "tan": Rule(
        _rising(Ball.tan),
        lambda a, value: _plus(_ONE, _square(value)),
        lambda a: not _cosine(a)[0] <= 0 <= _cosine(a)[1],
        "a tangent of an interval that may contain a pole",
    ),
    "arctan": Rule(
        _rising(Ball.atan), lambda a, value: _inverse(_plus(_ONE, _square(a)))
    ),
    "arcsin": Rule(
        _rising(Ball.asin),
        lambda a, value: _inverse(_root(_from_one(a))),
        lambda a: -1 < a[0] and a[1] < 1,
        "an arc of an interval that is not inside (-1, 1)",
    ),
    "sinh": Rule(_rising(Ball.sinh), lambda a, value: _cosh(a)),
    "cosh": Rule(_cosh, lambda a, value: _rising(Ball.sinh)(a)),
    "tanh": Rule(_tanh, lambda a, value: _from_one(value)),
}


def _by_rule(rule: Rule) -> Callable[[Dual], Dual]:
    return lambda x: x.followed(rule)


def _arctan2(y: Dual, x: object) -> Dual:
    base = _as_dual(x, y.refusals)
    if base.range[0] > 0:
        return (y / base).arctan()
    raise y.refuse(
        "np.arctan2(y, x) of an x that is not surely positive: the angle jumps"
    )


def _logarithm(x: Dual, base: float) -> Dual:
    return x.log() / _as_dual(base, x.refusals).log()


#: numpy's functions and what they are on a `Dual` and the other arguments.
_FUNCTIONS: dict[str, Callable] = {
    **{name: _by_rule(rule) for name, rule in _RULES.items()},
    "square": lambda x: x * x,
    "expm1": lambda x: x.exp() - 1.0,
    "log1p": lambda x: (1.0 + x).log(),
    "log10": lambda x: _logarithm(x, 10.0),
    "log2": lambda x: _logarithm(x, 2.0),
    "arccos": lambda x: 2.0 * _as_dual(1.0, x.refusals).arctan() - x.arcsin(),
    "hypot": lambda x, y: (x * x + y * y).sqrt(),
    "arctan2": _arctan2,
    "absolute": operator.abs,
    "fabs": operator.abs,
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "power": operator.pow,
    "float_power": operator.pow,
    "negative": operator.neg,
    "positive": operator.pos,
    "maximum": Dual.maximum,
    "minimum": Dual.minimum,
    "fmax": Dual.maximum,
    "fmin": Dual.minimum,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}
