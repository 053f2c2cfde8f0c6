"""Derivatives of a user's function over a whole box, by interval arithmetic.

`differentiate` calls the function once with numbers that carry an interval of mpmath and
its derivatives. A function whose path depends on a comparison that the box does not decide
is refused, and so is everything that cannot be enclosed.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from mpmath.ctx_iv import MPIntervalContext
from numpy.typing import NDArray

#: Intervals of doubles, rounded outwards.
_IV = MPIntervalContext()
Interval: TypeAlias = Any

_WHOLE = (-math.inf, math.inf)
_WRITTEN = "an interval that does not lie above zero"


class NotEnclosedError(TypeError):
    """A function that interval arithmetic cannot follow; the message says where."""


def differentiate(
    function: Callable[[NDArray], Any], box: Sequence[tuple[float, float]]
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
    for k, ends in enumerate(box):
        point[k] = Dual(_IV.mpf(ends), {k: _IV.mpf(1)}, refusals)
    try:
        answer = function(point)
    finally:
        if refusals:  # also one that the function's own try statement has caught
            raise NotEnclosedError(refusals[0])
    entries = np.ravel(np.asarray(answer, object)).tolist()
    values = np.empty((2, len(entries)))
    slopes = np.zeros((2, len(entries), len(box)))
    for i, entry in enumerate(entries):
        dual = _as_dual(entry, refusals)
        values[:, i] = _ends(dual.range)
        for k, slope in dual.slopes.items():
            slopes[:, i, k] = _ends(slope)
    return values, slopes


def _ends(interval: Interval) -> tuple[float, float]:
    """Doubles between which an interval lies."""
    low = float(interval.a)
    high = float(interval.b)
    if not _IV.mpf(low) <= interval.a:  # one without an exponent that small
        low = math.nextafter(low, -math.inf)
    if not interval.b <= _IV.mpf(high):
        high = math.nextafter(high, math.inf)
    return low, high


def _hull(*intervals: Interval) -> Interval:
    """The interval from the least to the largest end of some."""
    ends = [_ends(interval) for interval in intervals]
    return _IV.mpf([min(low for low, _ in ends), max(high for _, high in ends)])


class Dual:
    """An interval that holds a number, and intervals that hold its derivatives.

    A derivative that is left out is exactly zero. Every refusal is also recorded, so
    that no function can hide one.
    """

    __slots__ = ("range", "refusals", "slopes")
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self, range: Interval, slopes: dict[int, Interval], refusals: list[str]
    ) -> None:
        self.range = range
        self.slopes = slopes
        self.refusals = refusals

    def refuse(self, message: str) -> NotEnclosedError:
        """Record why the function cannot be followed; the caller raises the error."""
        self.refusals.append(message)
        return NotEnclosedError(message)

    def followed(self, value: Interval, slope: Interval) -> Dual:
        """f(x) of a function f with this value and derivative."""
        return self._combined(value, slope, self, 0)

    def _combined(
        self, value: Interval, slope: Interval, other: Dual, its: Interval
    ) -> Dual:
        """f(x, y) of a function f with this value, and its derivatives by x and by y."""
        slopes: dict[int, Interval] = {}
        for dual, factor in ((self, slope), (other, its)):
            if factor == 0:  # also times an unbounded, but finite number
                continue
            for k, own in dual.slopes.items():
                slopes[k] = slopes.get(k, 0) + factor * own
        return Dual(value, slopes, self.refusals)

    def __getattr__(self, name: str) -> Callable[..., Dual]:
        """A function of numpy's, which looks for it here by its name."""
        function = _FUNCTIONS.get(name)
        if function is None:
            raise AttributeError(name)
        return lambda *others: function(self, *others)

    # -- arithmetic ----------------------------------------------------------------

    def __add__(self, other: object) -> Dual:
        if not isinstance(other, (Dual, Real)):
            return NotImplemented
        dual = _as_dual(other, self.refusals)
        return self._combined(self.range + dual.range, 1, dual, 1)

    __radd__ = __add__

    def __neg__(self) -> Dual:
        return self.followed(-self.range, -1)

    def __pos__(self) -> Dual:
        return self

    def __sub__(self, other: object) -> Dual:
        return -(-self + other)

    def __rsub__(self, other: object) -> Dual:
        return -self + other

    def __mul__(self, other: object) -> Dual:
        if not isinstance(other, (Dual, Real)):
            return NotImplemented
        if other is self:
            return self**2
        dual = _as_dual(other, self.refusals)
        product = self.range * dual.range
        if self.range == 0 or dual.range == 0:
            product = _IV.mpf(0)
        return self._combined(product, dual.range, dual, self.range)

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> Dual:
        if not isinstance(other, (Dual, Real)):
            return NotImplemented
        return self * _as_dual(other, self.refusals) ** -1

    def __rtruediv__(self, other: object) -> Dual:
        return self**-1 * other

    def __pow__(self, exponent: Dual | float) -> Dual:
        if isinstance(exponent, Dual):
            return (_logarithm(self) * exponent).exp()
        number = float(exponent)
        power = int(number) if number.is_integer() else number
        if power < 0 and 0 in self.range:
            raise self.refuse("a division by an interval that contains zero")
        if isinstance(power, float) and not self.range.a > 0:
            raise self.refuse(f"a power {number:g} of {_WRITTEN}")
        if power == 0:
            return _as_dual(1.0, self.refusals)
        slope = power * self.range ** (power - 1)
        return self.followed(self.range**power, slope)

    def __rpow__(self, base: float) -> Dual:
        return (_logarithm(_as_dual(base, self.refusals)) * self).exp()

    def __abs__(self) -> Dual:
        return self.maximum(-self)

    # -- kinks: both sides are enclosed --------------------------------------------

    def maximum(self, other: object) -> Dual:
        """The larger one; where the box does not tell which, derivatives of both."""
        dual = _as_dual(other, self.refusals)
        if _compared(self.range, dual.range, operator.ge):
            return self
        if _compared(dual.range, self.range, operator.ge):
            return dual
        (low, high), (least, largest) = _ends(self.range), _ends(dual.range)
        none = _IV.mpf(0)
        slopes = {
            k: _hull(self.slopes.get(k, none), dual.slopes.get(k, none))
            for k in {**self.slopes, **dual.slopes}
        }
        larger = _IV.mpf([max(low, least), max(high, largest)])
        return Dual(larger, slopes, self.refusals)

    def minimum(self, other: object) -> Dual:
        """The smaller one, as `maximum`."""
        return -((-self).maximum(-_as_dual(other, self.refusals)))

    def clip(self, low: object = None, high: object = None, **options: object) -> Dual:
        """Limited from below and above, as ``np.clip`` does it."""
        clipped = self if low is None else self.maximum(low)
        return clipped if high is None else clipped.minimum(high)

    # -- comparisons: decided by the whole box, or refused --------------------------

    def _decided(self, other: object, compare: Callable) -> bool:
        """The answer that all numbers of both intervals give."""
        answer = _compared(self.range, _as_dual(other, self.refusals).range, compare)
        if answer is None:
            raise self.refuse(
                "a comparison (if, np.where, max) that the region does not decide: the "
                "function may jump there. Choose a region on one side of the branch, or "
                "write a continuous branch as np.maximum, np.minimum, np.clip or abs"
            )
        return bool(answer)

    def __lt__(self, other: object) -> bool:
        return self._decided(other, operator.lt)

    def __le__(self, other: object) -> bool:
        return self._decided(other, operator.le)

    def __gt__(self, other: object) -> bool:
        return self._decided(other, operator.gt)

    def __ge__(self, other: object) -> bool:
        return self._decided(other, operator.ge)

    def __eq__(self, other: object) -> bool:
        return self._decided(other, operator.eq)

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
        function = _FUNCTIONS.get(ufunc.__name__)
        if function is None or method != "__call__" or options:
            raise self.refuse(f"np.{ufunc.__name__}, which is not enclosed")

        def of_entries(first: object, *others: object) -> Any:
            return function(_as_dual(first, self.refusals), *others)

        boxed = [np.asarray(value, object) for value in inputs]
        return np.frompyfunc(of_entries, len(inputs), 1)(*boxed)


def _as_dual(value: Any, refusals: list[str]) -> Dual:
    """A number as a Dual without derivatives."""
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value.item()
    if isinstance(value, Dual):
        return value
    if not isinstance(value, Real):
        refusals.append(f"a {type(value).__name__} in place of a number")
        raise NotEnclosedError(refusals[-1])
    number = float(value)
    return Dual(_IV.mpf(_WHOLE if math.isnan(number) else number), {}, refusals)


def _compared(x: Interval, y: Interval, compare: Callable) -> bool | None:
    """A comparison of all numbers of two intervals, None if their answers differ."""
    answers = {bool(compare(a, b)) for a in (x.a, x.b) for b in (y.a, y.b)}
    if compare is operator.eq and not (x.b < y.a or y.b < x.a):
        answers.add(True)  # they share a number
    return answers.pop() if len(answers) == 1 else None


# -- functions that numpy calls by name ------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """A function of one number: its range over an interval, and that of its derivative.

    The derivative may be told from the interval or from the range.
    """

    value: Callable[[Interval], Interval]
    slope: Callable[[Interval, Interval], Interval]
    covers: Callable[[Interval], bool] = lambda x: True
    refusal: str = ""

    def __call__(self, dual: Dual) -> Dual:
        """The function of a number with derivatives."""
        x = dual.range
        if not self.covers(x):
            raise dual.refuse(self.refusal)
        value = self.value(x)
        return dual.followed(value, self.slope(x, value))


def _arctangent(x: Interval) -> Interval:
    return _IV.atan2(x, 1)


def _arcsine(x: Interval) -> Interval:
    """The increasing arc at both ends."""
    return _hull(*(_IV.atan2(end, _IV.sqrt(1 - end**2)) for end in (x.a, x.b)))


def _hyperbolic_sine(x: Interval) -> Interval:
    return (_IV.exp(x) - _IV.exp(-x)) / 2


def _hyperbolic_cosine(x: Interval) -> Interval:
    return _IV.sqrt(1 + _hyperbolic_sine(x) ** 2)


def _hyperbolic_tangent(x: Interval) -> Interval:
    return 1 - 2 / (_IV.exp(2 * x) + 1)


_root = Rule(
    _IV.sqrt,
    lambda x, value: 1 / (2 * value),
    lambda x: x.a >= 0,
    "a square root of an interval with negative numbers; "
    "np.sqrt(np.maximum(x, least)) bounds it from below",
)
_logarithm = Rule(
    _IV.log, lambda x, value: 1 / x, lambda x: x.a > 0, f"a logarithm of {_WRITTEN}"
)
_arc = Rule(_arctangent, lambda x, value: 1 / (1 + x**2))
_sine_arc = Rule(
    _arcsine,
    lambda x, value: 1 / _IV.sqrt(1 - x**2),
    lambda x: -1 < x.a and x.b < 1,
    "an arc of an interval that is not inside (-1, 1)",
)


def _angle(y: Dual, x: Any) -> Dual:
    base = _as_dual(x, y.refusals)
    if base.range.a > 0:
        return _arc(y / base)
    raise y.refuse(
        "np.arctan2(y, x) of an x that is not surely positive: the angle jumps"
    )


#: numpy's functions and what they are on a `Dual` and the other arguments.
_FUNCTIONS: dict[str, Callable] = {
    "sqrt": _root,
    "log": _logarithm,
    "arctan": _arc,
    "arcsin": _sine_arc,
    "exp": Rule(_IV.exp, lambda x, value: value),
    "sin": Rule(_IV.sin, lambda x, value: _IV.cos(x)),
    "cos": Rule(_IV.cos, lambda x, value: -_IV.sin(x)),
    "tan": Rule(
        _IV.tan,
        lambda x, value: 1 + value**2,
        lambda x: 0 not in _IV.cos(x),
        "a tangent of an interval that may contain a pole",
    ),
    "sinh": Rule(_hyperbolic_sine, lambda x, value: _hyperbolic_cosine(x)),
    "cosh": Rule(_hyperbolic_cosine, lambda x, value: _hyperbolic_sine(x)),
    "tanh": Rule(_hyperbolic_tangent, lambda x, value: 1 - value**2),
    "square": lambda x: x**2,
    "expm1": lambda x: x.exp() - 1.0,
    "log1p": lambda x: _logarithm(1.0 + x),
    "log10": lambda x: _logarithm(x) / _logarithm(_as_dual(10.0, x.refusals)),
    "log2": lambda x: _logarithm(x) / _logarithm(_as_dual(2.0, x.refusals)),
    "arccos": lambda x: 2.0 * _arc(_as_dual(1.0, x.refusals)) - _sine_arc(x),
    "hypot": lambda x, y: _root(x**2 + y**2),
    "arctan2": _angle,
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
