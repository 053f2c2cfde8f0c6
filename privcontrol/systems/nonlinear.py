"""Nonlinear plants as plain data, and their derivatives over a whole box.

The functions stay the user's own. They are called with one state or with a column for
each trial, and by `differentiate` once with numbers that carry an interval of mpmath and
its derivatives. A function whose path depends on a comparison that the box does not decide
is refused, and so is everything that cannot be enclosed.
"""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from numbers import Real
from typing import Any, TypeAlias

import control as ct
import numpy as np
from mpmath.ctx_iv import MPIntervalContext
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import ArrayLike, NDArray

from ..numerics.checks import one_of, positive_integer, positive_number
from ..numerics.linalg import EPS
from ..numerics.objects import comparable
from .linear import SampledSystem

_METHODS = ("rk4", "euler")

#: Intervals of doubles, rounded outwards.
_IV = MPIntervalContext()
Interval: TypeAlias = Any
#: mpmath's exp, log and atan2 miss the outward rounding by less than that.
_ROUNDED = _IV.mpf([1 - EPS, 1 + EPS])

_WHOLE = (-math.inf, math.inf)
_WRITTEN = "an interval that does not lie above zero"


@dataclass(frozen=True, eq=False)
class NonlinearPlant(SampledSystem):
    """x(t+1) = update(t, x, u), y(t) = read(t, x, u), in discrete time.

    ``read`` is None where the outputs are the states. Two plants are equal if their
    functions are the same objects, and parameters, names and sampling time are equal.
    """

    update: Callable[..., Any]
    read: Callable[..., Any] | None
    params: Mapping[str, Any]

    @classmethod
    def of(cls, sys: ct.NonlinearIOSystem) -> NonlinearPlant:
        """The plant of a discrete-time NonlinearIOSystem.

        Raises
        ------
        control.ControlArgument
            If it is linear, or not in discrete time.
        """
        if not is_nonlinear(sys):
            raise ct.ControlArgument(
                f"sys: expected a NonlinearIOSystem, got {type(sys).__name__}"
            )
        if not ct.isdtime(sys, strict=True):
            raise ct.ControlArgument(
                "sys: expected a discrete-time system, got continuous time; sample it "
                "with sample_nonlinear(sys, Ts), so the Jacobians and the "
                "simulation are those of one and the same integrator"
            )
        if not sys.nstates or not sys.noutputs:
            raise ct.ControlArgument(
                "sys: expected the names of states and outputs; pass states= and "
                "outputs= to ct.nlsys"
            )
        return cls.as_given(sys)

    @classmethod
    def as_given(cls, sys: ct.NonlinearIOSystem) -> NonlinearPlant:
        """The functions and names of a system, which is not checked."""
        return cls(
            update=sys.updfcn,
            read=sys.outfcn,
            params=copy.deepcopy(dict(sys.params)),
            dt=sys.dt,
            states=tuple(sys.state_labels),
            inputs=tuple(sys.input_labels or ()),
            outputs=tuple(sys.output_labels),
            name=sys.name,
        )

    def _identity(self) -> tuple[object, ...]:
        params = [(name, self.params[name]) for name in sorted(self.params)]
        named = (self.dt, self.states, self.inputs, self.outputs)
        return self.update, self.read, comparable(params), *named

    @property
    def integrator(self) -> str:
        """Say how the plant was made from one in continuous time; empty if it was not."""
        if isinstance(self.update, _Integrated):
            return self.update.text
        return ""

    def next_states(
        self, t: float, states: NDArray[np.float64], inputs: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """x(t+1) (n,) or (n, trials) of states and inputs (m,) or (m, trials)."""
        given = self.called(self.update, t, states, inputs)
        return _rows(given, self.order, states.shape, "update function")

    def read_outputs(
        self, t: float, states: NDArray[np.float64], inputs: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """y(t) (p,) or (p, trials)."""
        count = len(self.outputs)
        if self.read is None:
            return states[:count].copy()
        given = self.called(self.read, t, states, inputs)
        return _rows(given, count, states.shape, "output function")

    def called(
        self,
        function: Callable[..., Any],
        t: float,
        states: NDArray[Any],
        inputs: NDArray[Any],
    ) -> Any:
        """Return what the user's function returns for copies of its arguments."""
        return function(t, states.copy(), inputs.copy(), dict(self.params))


def is_nonlinear(sys: object) -> bool:
    """Return whether a system is one of nonlinear functions."""
    linear = (ct.StateSpace, ct.TransferFunction)
    return isinstance(sys, ct.NonlinearIOSystem) and not isinstance(sys, linear)


def entries_of(values: ArrayLike) -> list[Any]:
    """Read what a function returned as a list of numbers."""
    if np.ndim(values) == 0 and not isinstance(values, np.ndarray):
        return [values]
    return np.ravel(np.asarray(values, object)).tolist()


def _rows(
    given: ArrayLike, count: int, shape: tuple[int, ...], what: str
) -> NDArray[np.float64]:
    """Read what a function returned as (count,) or (count, trials)."""
    if isinstance(given, (list, tuple)):
        given = np.stack([np.broadcast_to(row, shape[1:]) for row in given])
    rows = np.asarray(given, float)
    if rows.ndim < 2 and len(shape) == 1:
        rows = rows.reshape(-1)
    if rows.shape != (count, *shape[1:]):
        raise ct.ControlDimension(
            f"{what}: expected shape {(count, *shape[1:])}, got {rows.shape}"
        )
    return rows


@dataclass(frozen=True)
class _Integrated:
    """The update function of a continuous-time system over one sample, input held."""

    rate: Callable[..., Any]
    step: float
    substeps: int
    method: str

    @property
    def text(self) -> str:
        steps = "1 step" if self.substeps == 1 else f"{self.substeps} steps"
        return f"sampled every {self.step:g} by {self.method}, {steps} a sample"

    def __call__(
        self, t: float, x: NDArray[Any], u: NDArray[Any], params: Mapping[str, object]
    ) -> NDArray[Any]:
        def rate(time: float, state: NDArray[Any]) -> NDArray[Any]:
            values = self.rate(time, state, u, params)
            if state.dtype == object:
                return np.array(entries_of(values), object)
            return _rows(values, len(state), state.shape, "update function")

        h = self.step / self.substeps
        for _ in range(self.substeps):
            slope = rate(t, x)
            if self.method == "rk4":
                middle = t + h / 2
                second = rate(middle, x + h / 2 * slope)
                third = rate(middle, x + h / 2 * second)
                last = rate(t + h, x + h * third)
                slope = (slope + 2 * second + 2 * third + last) / 6
            x = x + h * slope
            t = t + h
        return x


def sample_nonlinear(
    sys: ct.NonlinearIOSystem, Ts: float, *, method: str = "rk4", substeps: int = 1
) -> ct.NonlinearIOSystem:
    """Sample a nonlinear system by an integrator of fixed step.

    Inputs are held over a sample. Guarantees and simulations are about this system, so
    choose steps that are short enough for the continuous one.

    Parameters
    ----------
    sys : control.NonlinearIOSystem
        Continuous-time system with n states.
    Ts : float
        Sampling time in the plant's unit of time.
    method : {"rk4", "euler"}, optional
        Classical Runge-Kutta steps of fourth order, or Euler steps.
    substeps : int, optional
        Steps in a sample.

    Returns
    -------
    control.NonlinearIOSystem
        With the names of ``sys``.

    Raises
    ------
    control.ControlArgument
        If ``sys`` is linear or in discrete time.
    ValueError
        If the sampling time is not positive, or ``substeps`` no positive integer.

    See Also
    --------
    along, jacobian_polytope

    Examples
    --------
    >>> import control as ct, numpy as np, privcontrol as pc
    >>> def level(t, x, u, params):
    ...     return [u[0] - 0.2 * np.sqrt(x[0])]
    >>> tank = ct.nlsys(level, None, states=["level"], inputs=["flow"], outputs=["level"])
    >>> sampled = pc.sample_nonlinear(tank, 1.0, substeps=2)
    >>> sampled.dynamics(0, [4.0], [0.4]).round(6)
    array([4.])
    """
    if not is_nonlinear(sys):
        raise ct.ControlArgument(
            f"sys: expected a NonlinearIOSystem, got {type(sys).__name__}; sample a "
            "linear one with sys.sample(Ts)"
        )
    if ct.isdtime(sys, strict=True):
        raise ct.ControlArgument(
            f"sys: expected continuous time, got discrete time with dt = {sys.dt}"
        )
    if not sys.nstates:
        raise ct.ControlArgument(
            "sys: expected the names of the states; pass states= to ct.nlsys"
        )
    update = _Integrated(
        sys.updfcn,
        positive_number(Ts, "Ts"),
        positive_integer(substeps, "substeps"),
        one_of(method, "method", _METHODS),
    )
    return ct.nlsys(
        update,
        sys.outfcn,
        params=sys.params,
        inputs=sys.input_labels,
        outputs=sys.output_labels,
        states=sys.state_labels,
        dt=float(Ts),
        name=sys.name,
    )


# -- derivatives over a box --------------------------------------------------------------


class NotEnclosedError(TypeError):
    """A function that interval arithmetic cannot follow; the message says where."""


def differentiate(
    function: Callable[[NDArray[np.float64]], Any], box: Sequence[tuple[float, float]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
    anything = Dual(_IV.mpf(_WHOLE), {}, refusals)
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
        dual = anything.constant(entry)
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


class Dual(NDArrayOperatorsMixin):
    """An interval that holds a number, and intervals that hold its derivatives.

    A derivative that is left out is exactly zero. Operators are numpy's functions, which
    `_FUNCTIONS` knows by name. Every refusal is also recorded, so no function can
    hide one.
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

    def constant(self, value: object) -> Dual:
        """A number, or what is a Dual already, for the same function."""
        if isinstance(value, np.ndarray) and not value.ndim:
            value = value.item()
        if isinstance(value, Dual):
            return value
        if not isinstance(value, Real):
            raise self.refuse(f"a {type(value).__name__} in place of a number")
        number = float(value)
        interval = _IV.mpf(_WHOLE if math.isnan(number) else number)
        return Dual(interval, {}, self.refusals)

    def followed(
        self,
        value: Interval,
        slope: Interval,
        other: Dual | None = None,
        its: Interval = 0,
    ) -> Dual:
        """f(x, y) of a function f with this value, and its derivatives by x and by y."""
        slopes: dict[int, Interval] = {}
        for dual, factor in ((self, slope), (other, its)):
            if (
                dual is None or factor == 0
            ):  # also times an unbounded, but finite number
                continue
            for k, own in dual.slopes.items():
                slopes[k] = slopes.get(k, 0) + factor * own
        return Dual(value, slopes, self.refusals)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **options: Any
    ) -> Any:
        """Answer what numpy calls for ``np.sin(x)``, ``x + 1`` or ``array * x``."""
        function = _FUNCTIONS.get(ufunc.__name__)
        (out,) = options.pop("out", (self,))  # itself for x += 1
        if function is None or method != "__call__" or options or out is not self:
            raise self.refuse(f"np.{ufunc.__name__}, which is not enclosed")

        def of_entries(*entries: object) -> Any:
            return function(*(self.constant(entry) for entry in entries))

        boxed = [np.asarray(value, object) for value in inputs]
        return np.frompyfunc(of_entries, len(inputs), 1)(*boxed)

    def __getattr__(self, name: str) -> Callable[..., Dual]:
        """A function of numpy's, which looks for it here in arrays of objects."""
        if name not in _FUNCTIONS:
            raise AttributeError(name)
        return partial(getattr(np, name), self)

    def clip(self, low: object = None, high: object = None, **options: object) -> Dual:
        """Limited from below and above, as ``np.clip`` does it."""
        clipped = self if low is None else self.maximum(low)
        return clipped if high is None else clipped.minimum(high)

    def __bool__(self) -> bool:
        return bool(self != 0.0)

    def __float__(self, *others: object) -> float:
        raise self.refuse(
            "a conversion to a plain number: use np.sin and the like in place of "
            "math.sin, and np.array([...]) or np.zeros_like(x) in place of np.zeros(n)"
        )

    __int__ = __index__ = __complex__ = __round__ = __float__


# -- arithmetic, kinks and comparisons ---------------------------------------------------


def _product(x: Dual, y: Dual) -> Dual:
    if x is y:
        return _power(x, x.constant(2))
    product = x.range * y.range
    if x.range == 0 or y.range == 0:  # also times an unbounded number
        product = _IV.mpf(0)
    return x.followed(product, y.range, y, x.range)


def _power(x: Dual, y: Dual) -> Dual:
    low, high = _ends(y.range)
    if y.slopes or low != high:
        return (x.log() * y).exp()
    power = int(low) if low.is_integer() else _IV.mpf(low)
    if power < 0 and 0 in x.range:
        raise x.refuse("a division by an interval that contains zero")
    if not isinstance(power, int) and not x.range.a > 0:
        raise x.refuse(f"a power {low:g} of {_WRITTEN}")
    if power == 0:
        return x.constant(1)
    return x.followed(_raised(x.range, power), power * _raised(x.range, power - 1))


def _raised(x: Interval, power: Interval | int) -> Interval:
    return x**power if isinstance(power, int) else x**power * _ROUNDED


def _larger(x: Dual, y: Dual) -> Dual:
    """The larger one; where the box does not decide which, derivatives of both."""
    if _compared(x, y, operator.ge):
        return x
    if _compared(y, x, operator.ge):
        return y
    none = _IV.mpf(0)
    slopes = {
        k: _hull(x.slopes.get(k, none), y.slopes.get(k, none))
        for k in {**x.slopes, **y.slopes}
    }
    larger = zip(_ends(x.range), _ends(y.range), strict=True)
    return Dual(_IV.mpf([max(ends) for ends in larger]), slopes, x.refusals)


def _compared(x: Dual, y: Dual, compare: Callable[..., Any]) -> bool | None:
    """A comparison of all numbers of two intervals, None if their answers differ."""
    first, second = x.range, y.range
    pairs = product((first.a, first.b), (second.a, second.b))
    answers = {bool(compare(*pair)) for pair in pairs}
    if compare is operator.eq and not (first.b < second.a or second.b < first.a):
        answers.add(True)  # they share a number
    return answers.pop() if len(answers) == 1 else None


def _decided(compare: Callable[..., Any]) -> Callable[[Dual, Dual], bool]:
    """A comparison that the whole box decides, or that is refused."""

    def answer(x: Dual, y: Dual) -> bool:
        found = _compared(x, y, compare)
        if found is None:
            raise x.refuse(
                "a comparison (if, np.where, max) that the region does not decide: the "
                "function may jump there. Choose a region on one side of the branch, or "
                "write a continuous branch as np.maximum, np.minimum, np.clip or abs"
            )
        return found

    return answer


# -- functions of one number -------------------------------------------------------------


def _rule(
    value: Callable[[Interval], Interval],
    slope: Callable[[Interval, Interval], Interval],
    covers: Callable[[Interval], bool] = lambda x: True,
    refusal: str = "",
) -> Callable[[Dual], Dual]:
    """A function with this range over an interval, and this range of its derivative.

    The derivative may be a function of the interval or of the range.
    """

    def function(x: Dual) -> Dual:
        if not covers(x.range):
            raise x.refuse(refusal)
        found = value(x.range)
        return x.followed(found, slope(x.range, found))

    return function


def _exponential(x: Interval) -> Interval:
    return _IV.mpf(1) if x == 0 else _IV.exp(x) * _ROUNDED


def _logarithm(x: Interval) -> Interval:
    return _IV.log(x) * _ROUNDED


def _arctangent(y: Interval, x: Interval) -> Interval:
    return _IV.atan2(y, x) * _ROUNDED


def _arcsine(x: Interval) -> Interval:
    """The increasing arc at both ends."""
    return _hull(*(_arctangent(end, _IV.sqrt(1 - end**2)) for end in (x.a, x.b)))


def _hyperbolic_sine(x: Interval) -> Interval:
    return (_exponential(x) - _exponential(-x)) / 2


def _hyperbolic_cosine(x: Interval) -> Interval:
    return _IV.sqrt(1 + _hyperbolic_sine(x) ** 2)


def _angle(y: Dual, x: Dual) -> Dual:
    if x.range.a > 0:
        return (y / x).arctan()
    raise y.refuse(
        "np.arctan2(y, x) of an x that is not surely positive: the angle jumps"
    )


#: numpy's functions and what they are of `Dual` numbers.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x.followed(x.range + y.range, 1, y, 1),
    "subtract": lambda x, y: x.followed(x.range - y.range, 1, y, -1),
    "multiply": _product,
    "divide": lambda x, y: x * y**-1,
    "negative": lambda x: x.followed(-x.range, -1),
    "positive": lambda x: x,
    "power": _power,
    "float_power": _power,
    "square": lambda x: x**2,
    "absolute": lambda x: _larger(x, -x),
    "fabs": lambda x: _larger(x, -x),
    "maximum": _larger,
    "fmax": _larger,
    "minimum": lambda x, y: -_larger(-x, -y),
    "fmin": lambda x, y: -_larger(-x, -y),
    "less": _decided(operator.lt),
    "less_equal": _decided(operator.le),
    "greater": _decided(operator.gt),
    "greater_equal": _decided(operator.ge),
    "equal": _decided(operator.eq),
    "not_equal": lambda x, y: not x == y,  # noqa: SIM201 - of intervals != may be None
    "sqrt": _rule(
        _IV.sqrt,
        lambda x, value: 1 / (2 * value),
        lambda x: x.a >= 0,
        "a square root of an interval with negative numbers; "
        "np.sqrt(np.maximum(x, least)) bounds it from below",
    ),
    "log": _rule(
        _logarithm,
        lambda x, value: 1 / x,
        lambda x: x.a > 0,
        f"a logarithm of {_WRITTEN}",
    ),
    "arctan": _rule(lambda x: _arctangent(x, 1), lambda x, value: 1 / (1 + x**2)),
    "arcsin": _rule(
        _arcsine,
        lambda x, value: 1 / _IV.sqrt(1 - x**2),
        lambda x: x.a > -1 and x.b < 1,
        "an arc of an interval that is not inside (-1, 1)",
    ),
    "exp": _rule(_exponential, lambda x, value: value),
    "sin": _rule(_IV.sin, lambda x, value: _IV.cos(x)),
    "cos": _rule(_IV.cos, lambda x, value: -_IV.sin(x)),
    "tan": _rule(
        _IV.tan,
        lambda x, value: 1 + value**2,
        lambda x: 0 not in _IV.cos(x),
        "a tangent of an interval that may contain a pole",
    ),
    "sinh": _rule(_hyperbolic_sine, lambda x, value: _hyperbolic_cosine(x)),
    "cosh": _rule(_hyperbolic_cosine, lambda x, value: _hyperbolic_sine(x)),
    "tanh": _rule(
        lambda x: 1 - 2 / (_exponential(2 * x) + 1), lambda x, value: 1 - value**2
    ),
    "expm1": lambda x: x.exp() - 1.0,
    "log1p": lambda x: (1.0 + x).log(),
    "log10": lambda x: x.log() / x.constant(10).log(),
    "log2": lambda x: x.log() / x.constant(2).log(),
    "arccos": lambda x: 2.0 * x.constant(1).arctan() - x.arcsin(),
    "hypot": lambda x, y: (x**2 + y**2).sqrt(),
    "arctan2": _angle,
}
