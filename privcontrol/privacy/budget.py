"""The privacy budget, what a user asks for, and the sizes of noise that it asks for.

A budget is a pair (epsilon, delta), or one number of Gaussian differential privacy. Here
are the curve kappa of DPAM eq. (7), its inverse, and the standard deviation or scale of
a budget. What is inverted is rounded towards more noise. A rule of the literature that
would break its own claim is refused rather than followed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import NoReturn, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, log_ndtr, ndtri

from ..numerics.arguments import helpful_arguments
from ..numerics.checks import (
    one_of,
    positive_integer,
    positive_number,
    real_array,
    sample_count,
)
from ..numerics.errors import PrivacyError, UncertifiableError, warn_user
from ..numerics.linalg import EPS, float_above, round_up
from ..numerics.saved import Saved
from ..numerics.thresholds import MOST_ROUNDS, SMALLEST

LARGEST_EPSILON = 1e4

_SQRT_2PI = math.sqrt(2 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
_SQRT_HALF_PI = math.sqrt(math.pi / 2)

#: Bound of the rounding errors of a root of kappa. SciPy's erfcx is good to ten units of
#: 2^-53. In 480,000 roots that were checked with ball arithmetic there were at most 9.
_ROUND_OFF = float(10 * EPS)
#: Rounding errors of the rules of the literature, which use SciPy's normal quantile.
_RULE_ROUND_OFF = float(16 * EPS)

#: The smallest positive number that is not subnormal.
_LEAST = sys.float_info.min

#: A number, or an array of them.
Numbers = float | NDArray[np.float64]


def kappa(epsilon: ArrayLike, y: ArrayLike) -> Numbers:
    """Return the delta of a Gaussian mechanism whose sensitivity is `y` standard deviations.

    ``kappa = Phi(y/2 - epsilon/y) - exp(epsilon) Phi(-y/2 - epsilon/y)``, DPAM eq. (7),
    increases with y from 0 to 1. The result is exact for an argument within a few
    rounding errors of `y`, on either side.

    Parameters
    ----------
    epsilon : float or array_like
        Privacy loss, finite and not negative.
    y : float or array_like
        Sensitivity over standard deviation, finite and not negative.

    Returns
    -------
    float or ndarray
        Delta in [0, 1], of the broadcast shape.

    Raises
    ------
    ValueError
        If an argument is negative or not finite.

    See Also
    --------
    core.kappa_inverse, core.gaussian_std

    Examples
    --------
    >>> round(kappa(1.0, 0.532517), 6)
    0.01
    """
    if _is_number(epsilon) and _is_number(y):
        return _kappa(float(epsilon), float(y))
    levels, sizes = real_array(epsilon, "epsilon"), real_array(y, "y")
    if sizes.ndim == 0 and sizes > 0 and (levels >= 0).all():
        return _plain(kappa_of_levels(levels, float(sizes)))
    return _each(_kappa, levels, sizes)


def kappa_upper(epsilon: ArrayLike, y: ArrayLike) -> Numbers:
    """Return `kappa` rounded up, a delta that may be promised.

    Parameters, shapes and errors are those of `kappa`, but for a `y` of infinity, where
    it is one. The result is zero only where `y` is, and never a subnormal number, which a
    processor may take for zero once a library has told it to.

    Examples
    --------
    >>> bool(kappa_upper(1.0, 0.5) > kappa(1.0, 0.5))
    True
    >>> kappa(1.0, 0.02) == 0, bool(kappa_upper(1.0, 0.02) > 0)
    (True, True)
    """
    if _is_number(epsilon) and _is_number(y):
        size = float(y)
        above = _kappa(float(epsilon), min(size * (1 + _ROUND_OFF), sys.float_info.max))
        for _ in range(8):
            above = math.nextafter(above, math.inf)
        return min(max(above, _LEAST), 1.0) if size else 0.0
    with np.errstate(over="ignore"):
        larger = np.minimum(np.multiply(y, 1 + _ROUND_OFF), sys.float_info.max)
    delta = np.clip(round_up(kappa(epsilon, larger), ulps=8), _LEAST, 1.0)
    return _plain(np.where(np.equal(y, 0), 0.0, delta))


def kappa_inverse(epsilon: ArrayLike, delta: ArrayLike) -> Numbers:
    """Return the largest `y` with ``kappa(epsilon, y) <= delta``, rounded down.

    It is below the root by less than 5e-15 of it.

    Parameters
    ----------
    epsilon, delta : float or array_like
        As in `gaussian_std`.

    Returns
    -------
    float or ndarray
        Sensitivity over standard deviation, of the broadcast shape.

    Raises
    ------
    ValueError
        If `delta` is zero (no Gaussian noise achieves it), or an argument is out of range.

    See Also
    --------
    core.kappa, PrivacyBudget

    Examples
    --------
    >>> round(kappa_inverse(1.0, 0.01), 6)
    0.532517
    """
    if _is_number(epsilon) and _is_number(delta):
        return _kappa_inverse(float(epsilon), float(delta))
    epsilons = real_array(epsilon, "epsilon")
    return _each(_kappa_inverse, epsilons, real_array(delta, "delta"))


def gaussian_std(
    epsilon: ArrayLike,
    delta: ArrayLike,
    sensitivity: ArrayLike = 1.0,
    *,
    method: str = "analytic",
) -> Numbers:
    """Return the standard deviation of Gaussian noise for (epsilon, delta), rounded up.

    Parameters
    ----------
    epsilon : float or array_like
        Privacy loss, from 0 to 1e4.
    delta : float or array_like
        Probability of a larger loss, from 1e-300 to below 1.
    sensitivity : float or array_like
        Largest Euclidean distance of two adjacent answers, positive, in the unit of the
        answer.
    method : {"analytic", "lenypappas", "classical"}
        ``analytic`` is the least that satisfies the budget, ``sensitivity /
        kappa_inverse(epsilon, delta)``. ``lenypappas`` is ``sensitivity (K + sqrt(K^2 + 2
        epsilon)) / (2 epsilon)``, K the upper delta-quantile of the normal law, for
        epsilon > 0 and delta < 1/2. ``classical`` is ``sensitivity sqrt(2
        log(1.25/delta)) / epsilon``, for epsilon > 0.

    Returns
    -------
    float or ndarray
        Standard deviation in the unit of the sensitivity, of the broadcast shape.

    Raises
    ------
    PrivacyError
        If the noise of the method is too small for the budget; the message gives the true
        delta.
    UncertifiableError
        If the standard deviation exceeds the largest float.
    ValueError
        If an argument is out of range (delta = 0 needs Laplace noise), or the method is
        unknown.

    See Also
    --------
    core.kappa, core.laplace_scale, PrivacyBudget

    References
    ----------
    :cite:t:`BalleWang2018` and DPAM, eq. (7), for ``analytic``; :cite:t:`LeNyPappas2014`
    for ``lenypappas``, behind the numbers of DPAM sections 5.3 and 6.3; IP, Definitions 4
    and 5, for ``classical``, where it is proved for epsilon <= 1.

    Examples
    --------
    >>> round(gaussian_std(1.0, 0.01), 7)
    1.8778756
    >>> round(gaussian_std(1.0, 0.01, method="lenypappas"), 7)
    2.5244137
    """
    rule = _RULES[one_of(method, "method", tuple(_RULES))]
    exact = kappa_inverse(epsilon, delta)
    if rule is None:
        return _size(sensitivity, exact)

    def granted(epsilon: float, delta: float) -> float:
        y = rule(epsilon, delta) * (1 - _RULE_ROUND_OFF)
        if y <= _kappa_inverse(epsilon, delta):
            return y
        raise PrivacyError(
            f"method {method!r} claims (epsilon, delta) = ({epsilon:g}, {delta:g}), but "
            f"the true delta of its noise is {kappa_upper(epsilon, y):.6g}; use "
            "method='analytic'"
        )

    return _size(sensitivity, _each(granted, epsilon, delta))


def laplace_scale(epsilon: ArrayLike, sensitivity: ArrayLike = 1.0) -> Numbers:
    """Return the scale of Laplace noise that hides a sensitivity, rounded up.

    Parameters
    ----------
    epsilon : float or array_like
        Privacy loss, positive and finite; delta is zero.
    sensitivity : float or array_like
        Largest l1 distance of two adjacent answers, positive, in the unit of the answer.

    Returns
    -------
    float or ndarray
        Scale (the standard deviation over the square root of 2), of the broadcast shape.

    Raises
    ------
    UncertifiableError
        If the scale exceeds the largest float.
    ValueError
        If an argument is not positive and finite; no Laplace noise achieves epsilon = 0.

    See Also
    --------
    core.gaussian_std, LaplaceNoise

    References
    ----------
    DPAM, Theorem 2.

    Examples
    --------
    >>> round(laplace_scale(0.5, 3.0), 12)
    6.0
    """
    hint = "; epsilon = 0 needs Gaussian noise with delta > 0"
    return _size(sensitivity, _positive(epsilon, "epsilon", hint))


# -- rules of the literature ---------------------------------------------------------


def _lenypappas(epsilon: float, delta: float) -> float:
    if epsilon < SMALLEST or delta >= 0.5:
        raise ValueError(
            "method 'lenypappas': expected epsilon > 0 and delta < 1/2; use "
            "method='analytic'"
        )
    quantile = -float(ndtri(delta))
    return 2 * epsilon / (quantile + math.sqrt(quantile**2 + 2 * epsilon))


def _classical(epsilon: float, delta: float) -> float:
    if epsilon < SMALLEST:
        raise ValueError(
            "method 'classical': expected epsilon > 0; use method='analytic'"
        )
    return epsilon / math.sqrt(2 * math.log(1.25 / delta))


_RULES = {"analytic": None, "lenypappas": _lenypappas, "classical": _classical}


# -- kappa and its root --------------------------------------------------------------

# With u, v = epsilon/y -+ y/2 and the Mills ratio R = (1 - Phi)/phi, exp(epsilon) phi(v) =
# phi(u) turns eq. (7) into kappa = phi(u) (R(u) - R(v)), free of exp(epsilon), and 1 -
# kappa = phi(u) (R(-u) + R(v)). All that is computed is their ratio to y phi(u), the
# complement's with a minus sign. As dkappa/dy = phi(u), an absolute error in this ratio is
# the relative error in y that it causes, so no cancellation below about 1 can hurt.


def _mills(t: float) -> float:
    """Return the Mills ratio R(t)."""
    return float(_SQRT_HALF_PI * erfcx(t * _SQRT_HALF))


def _tail(epsilon: float, y: float) -> float:
    """Return (R(u) - R(v))/y."""
    centre = epsilon / y
    return (_mills(centre - y / 2) - _mills(centre + y / 2)) / y


def _complement(epsilon: float, y: float) -> float:
    """Return -(R(-u) + R(v))/y."""
    centre = epsilon / y
    return -(_mills(y / 2 - centre) + _mills(centre + y / 2)) / y


def _series(epsilon: float, y: float) -> float:
    """Return (R(u) - R(v))/y by its Taylor series in h = y/2 about c = epsilon/y.

    It is for small epsilon and y, where dividing the difference by y would magnify the
    round-off. Term k (odd) is -h^(k-1) R^(k)(c)/k! > 0, largest at c = 0, where it is
    h^(k-1)/k!!. The rest is < 1e-17. R' = c R - 1 links three terms, and forward
    recursion is stable since c h = epsilon/2 is small.
    """
    h = y / 2
    half = epsilon / 2
    square = h * h
    c = epsilon / y
    ratio = _mills(c)
    first = 1 - c * ratio
    odd = first
    even = (h * ratio - half * odd) / 2
    others = 0.0
    last = 14 + int(10 * y)
    for k in range(3, last, 2):
        odd = (square * odd - half * even) / k
        even = (square * even - half * odd) / (k + 1)
        others = others + odd
    return first + others


def _kappa(epsilon: float, y: float) -> float:
    if not (epsilon >= 0 and y >= 0):
        raise ValueError(f"expected epsilon >= 0 and y >= 0, got {(epsilon, y)}")
    if y == 0:
        return 0.0
    u = epsilon / y - y / 2
    if abs(u) > 40:  # phi(u) underflows
        return float(u < 0)
    scale = math.exp(-u * u / 2) / _SQRT_2PI * y
    if u < -1:
        return 1 + scale * _complement(epsilon, y)
    ratio_of = _series if epsilon < 1.5 and y < 1.6 else _tail
    return scale * ratio_of(epsilon, y)


def kappa_of_levels(levels: NDArray[np.float64], y: float) -> NDArray[np.float64]:
    """Return `kappa` at an array of levels >= 0 of one y > 0, bit by bit.

    Array operations take a tenth of the time of so many numbers.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # in branches not taken
        centre = levels / y
        u, v = centre - y / 2, centre + y / 2
        # NumPy's exponentials differ from those of one number in the last bit
        exponentials = [*map(math.exp, (-u * u / 2).flat)]
        scale = np.reshape(exponentials, u.shape) / _SQRT_2PI * y
        upper = _SQRT_HALF_PI * erfcx(v * _SQRT_HALF)
        tail = (_SQRT_HALF_PI * erfcx(np.maximum(u, -1) * _SQRT_HALF) - upper) / y
        beyond = _SQRT_HALF_PI * erfcx(np.maximum(-u, 1) * _SQRT_HALF) + upper
        values = np.where(u < -1, 1 - scale * (beyond / y), scale * tail)
    if y < 1.6:
        near = (levels < 1.5) & (u >= -1)
        values[near] = scale[near] * _series_of_levels(levels[near], y)
    return np.where(np.abs(u) > 40, u < 0, values)


def _series_of_levels(levels: NDArray[np.float64], y: float) -> NDArray[np.float64]:
    """Return `_series` (K,) at many levels."""
    h, half, centre = y / 2, levels / 2, levels / y
    square = h * h
    ratio = _SQRT_HALF_PI * erfcx(centre * _SQRT_HALF)
    first = odd = 1 - centre * ratio
    even = (h * ratio - half * odd) / 2
    others = np.zeros(len(levels))
    for k in range(3, 14 + int(10 * y), 2):
        odd = (square * odd - half * even) / k
        even = (square * even - half * odd) / (k + 1)
        others += odd
    return first + others


def _kappa_inverse(epsilon: float, delta: float) -> float:
    """Solve kappa(epsilon, y) = delta by Halley's iteration, in three or four steps.

    It is for log kappa, or log(1 - kappa), as a function of log y. It starts from the
    larger of two lower bounds, Phi(-u) = delta and the chord at epsilon = 0.
    """
    if not 0 <= epsilon <= LARGEST_EPSILON:
        raise ValueError(
            f"epsilon: expected a number from 0 to {LARGEST_EPSILON:g}, got {epsilon}"
        )
    if delta == 0:
        raise ValueError(
            "delta: Gaussian noise cannot achieve delta = 0; use Laplace noise, or a "
            "delta > 0"
        )
    if not SMALLEST <= delta < 1:
        raise ValueError(
            f"delta: expected a number from {SMALLEST:g} to below 1, got {delta}"
        )
    ratio_of = _series if epsilon < 1.5 else _tail
    target = delta
    quantile = abs(float(ndtri(delta)))
    y = quantile + math.sqrt(quantile * quantile + 2 * epsilon)
    if delta >= 0.5:
        ratio_of = _complement
        target = 1 - delta
    else:
        y = 2 * epsilon / y
    y = max(y, _SQRT_2PI * delta)
    for _ in range(20):
        u = epsilon / y - y / 2
        v = epsilon / y + y / 2
        ratio = ratio_of(epsilon, y)
        mass = y * abs(ratio) / _SQRT_2PI
        excess = math.log(mass / target) - u * u / 2
        newton = ratio * excess
        curvature = 1 + u * v - 1 / ratio
        step = newton / (1 - newton * curvature / 2)
        y = y + y * math.expm1(-step)
        # the next step would be < step^3 (1 + v^2)/2 < 1e-16
        if abs(step * (1 + v)) < 5e-6:
            return y * (1 - _ROUND_OFF)
    raise UncertifiableError("kappa_inverse did not converge; please report the budget")


# -- checks --------------------------------------------------------------------------


def _size(sensitivity: ArrayLike, y: Numbers) -> Numbers:
    """Return sensitivity / y, rounded up."""
    hint = "; an answer that never changes needs no noise"
    with np.errstate(over="ignore"):
        given = _positive(sensitivity, "sensitivity", hint)
        _pairs(given, y)
        size = round_up(given / y)
    if not np.isfinite(size).all():
        raise UncertifiableError(
            "expected a size below 1.8e308, got more; rescale or relax the budget"
        )
    return _plain(size)


def _positive(value: ArrayLike, name: str, hint: str) -> NDArray[np.float64]:
    """Return positive finite numbers."""
    array = real_array(value, name)
    if (array <= 0).any():
        raise ValueError(f"{name}: expected numbers > 0, got {array.min()}{hint}")
    return array


def _is_number(value: ArrayLike) -> TypeGuard[float]:
    """Return whether a value is a plain number that a float can hold."""
    return isinstance(value, (float, int)) and abs(value) <= sys.float_info.max


def _plain(values: NDArray[np.float64]) -> Numbers:
    """Return an array, or the float that it holds if it has no dimension."""
    return values if np.ndim(values) else float(values)


def _pairs(first: ArrayLike, second: ArrayLike) -> np.broadcast:
    """Return broadcast arrays side by side, or say which shapes do not fit."""
    try:
        return np.broadcast(first, second)
    except ValueError:
        shapes = f"{np.shape(first)} and {np.shape(second)}"
        raise ValueError(
            f"expected two numbers, or arrays that broadcast, got shapes {shapes}"
        ) from None


def _each(
    function: Callable[[float, float], float], first: ArrayLike, second: ArrayLike
) -> Numbers:
    """Return a function of two numbers for broadcast arrays of them."""
    pairs = _pairs(first, second)
    values = [function(float(a), float(b)) for a, b in pairs]
    return _plain(np.reshape(values, pairs.shape))


# -- sizes of noise -----------------------------------------------------------------

#: A delta above this is allowed, with a warning.
_LARGE_DELTA = 0.1

#: What is sized to meet a budget.
Sized = TypeVar("Sized")


def _by_name(cls: type[Sized]) -> type[Sized]:
    """Let a class whose arguments are keywords say so when it gets numbers by position."""
    init: Callable[..., None] = cls.__init__
    known = set(signature(init).parameters)

    @wraps(init)
    def checked(self: object, *unnamed: object, **named: object) -> None:
        if unnamed:
            raise TypeError(
                f"{cls.__name__}: expected keywords, got {len(unnamed)} values by "
                f"position; write {cls.__name__}(epsilon=1.0, delta=1e-2) or "
                f"{cls.__name__}(gdp=0.5), with your own numbers"
            )
        unknown = ", ".join(sorted(set(named) - known))
        if unknown:
            raise TypeError(
                f"{cls.__name__}: got an unexpected keyword {unknown}; expected epsilon, "
                "delta, gdp or leak"
            )
        init(self, **named)

    setattr(cls, "__init__", checked)  # noqa: B010 (assigned, mypy refuses it)
    return cls


@_by_name
@dataclass(frozen=True, kw_only=True, repr=False)
class PrivacyBudget(Saved):
    """State the budget of releases, by (epsilon, delta) or ``gdp``, all by name.

    For each set of outcomes that an observer may look for: its probability with the secret
    is at most exp(epsilon) times that without, plus delta, and the other way round. Delta
    is not the probability that the factor is exceeded: Gaussian noise of exactly (1, 0.01)
    exceeds exp(1) with probability 5.35 %.

    Numbers mean the decimals that Python prints for them, so ten releases of epsilon = 0.1
    keep within epsilon = 1. Budgets do not add; the guarantees of releases compose.
    ``PrivacyGuarantee.black_box(budget, adjacency)`` is the guarantee of a release made
    elsewhere.

    Parameters
    ----------
    epsilon : float, optional
        Bound on the privacy loss in nats, finite, at least 0. None if ``gdp`` is given.
    delta : float, optional
        Excess of probabilities, in [0, 1). Zero asks for pure differential privacy,
        which Gaussian noise cannot give. For a secret of many people it should be far
        below one over their number. None if ``gdp`` is given.
    gdp : float, optional
        mu of Gaussian differential privacy :cite:p:`DongRothSu2022`, positive.
        Distinguishing two hidden data sets is at least as hard as distinguishing N(0,
        1) from N(mu, 1). Gaussian noise meets it with the privacy shift mu, Laplace
        noise if its whole trade-off curve does. See `from_risk`.
    leak : float, optional
        In addition to gdp, the probability with which noise that never leaves a bound
        may reveal the secret (``design_output_noise(bound=)``), zero for other noise.

    Raises
    ------
    ValueError
        If a number is out of range, epsilon and delta are both zero (nothing could be
        published), or gdp is given together with epsilon or delta.
    TypeError
        If a number is given by position, none is given, or budgets are added.

    Warns
    -----
    PrivacyWarning
        If delta is above 0.1.

    See Also
    --------
    PrivacyGuarantee, PrivacyLedger, design_output_noise

    Examples
    --------
    >>> PrivacyBudget(epsilon=1.0, delta=1e-2), PrivacyBudget(gdp=0.5)
    (PrivacyBudget(epsilon=1.0, delta=0.01), PrivacyBudget(gdp=0.5))
    """

    _omitted = ("leak",)

    epsilon: float | None = None
    delta: float | None = 0.0
    gdp: float | None = None
    leak: float = 0.0

    def __post_init__(self) -> None:
        leak = positive_number(self.leak, "leak", zero=True)
        object.__setattr__(self, "leak", leak)
        if leak and (self.gdp is None or leak >= 1):
            raise ValueError(
                "leak: expected a probability below 1 next to gdp; with epsilon and delta "
                "the leak is part of delta"
            )
        if self.gdp is not None:
            is_bare = isinstance(self.delta, int | float | None) and not self.delta
            if self.epsilon is not None or not is_bare:
                raise ValueError(
                    "PrivacyBudget: expected gdp alone or epsilon and delta, got both; a "
                    "budget in one number has no delta"
                )
            object.__setattr__(self, "gdp", positive_number(self.gdp, "gdp"))
            object.__setattr__(self, "delta", None)
            return
        if self.epsilon is None:
            raise TypeError(
                "PrivacyBudget: expected epsilon (and delta) or gdp, got neither; write "
                "PrivacyBudget(epsilon=1.0, delta=1e-3) or PrivacyBudget(gdp=0.5), with your "
                "own numbers"
            )
        epsilon = positive_number(self.epsilon, "epsilon", zero=True)
        delta = positive_number(self.delta, "delta", zero=True)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        if delta >= 1:
            raise ValueError(
                f"delta: expected a probability in [0, 1), got {delta}; delta = 1 promises "
                "nothing"
            )
        if epsilon == 0 == delta:
            raise ValueError(
                "epsilon and delta are both 0: only data-independent noise meets that; raise "
                "one of them"
            )
        if delta > _LARGE_DELTA:
            warn_user(
                f"delta = {delta:g} is large: a mechanism that publishes the whole secret "
                "with this probability meets such a budget. Values of 0.01 and below are "
                "usual, far below one over the number of people"
            )

    @classmethod
    @helpful_arguments
    def from_risk(
        cls,
        *,
        false_alarm: float,
        detection: float,
        events: int = 1,
        separation: int | None = None,
    ) -> PrivacyBudget:
        """Return the budget under which no test detects a hidden move more often than this.

        A test of an eavesdropper who raises a false alarm with probability
        ``false_alarm`` detects a hidden move with probability at most ``detection``. That
        is gdp = Phi^-1(detection) - Phi^-1(false_alarm), rounded down. The budget bounds
        the tests with other false-alarm rates as well.

        Parameters
        ----------
        false_alarm : float
            In (0, 1).
        detection : float
            In (0, 1), above ``false_alarm``: guessing alone detects that often.
        events : int, optional
            Number of changes such as the secret that, all together, no test detects
            more often. The budget is for one of them: gdp divided by their number.
        separation : int, optional
            Least number of samples from the start of one to the start of the next. The
            budget of one is then about gdp divided by the root of their number. The
            correlation of changes at that distance depends on plant and noise, so only
            `design_output_noise` takes such a budget, and makes the noise larger by it.
            A sample is one of the plant, also where a list of plants is a period.

        Returns
        -------
        PrivacyBudget
            In ``gdp``.

        Raises
        ------
        ValueError
            If a probability is out of range, or a separation comes without events.

        References
        ----------
        :cite:t:`DongRothSu2022`, Definition 2.6.

        Examples
        --------
        >>> round(PrivacyBudget.from_risk(false_alarm=0.05, detection=0.10).gdp, 4)
        0.3633
        """
        low, high = (
            float(ndtri(checked_rate(value, name)))
            for name, value in (("false_alarm", false_alarm), ("detection", detection))
        )
        gdp = high - low - 8 * EPS * (1 + abs(high) + abs(low))
        if gdp <= 0:
            raise ValueError(
                f"detection: expected a probability above false_alarm = {false_alarm:g}, "
                f"which a guess attains, got {detection:g}"
            )
        events = positive_integer(events, "events")
        if separation is None:
            return cls(gdp=gdp / events * (1 - EPS))
        separation = sample_count(separation, "separation")
        if events == 1:
            raise ValueError(
                "separation: expected events with it, the number of changes that are so "
                "far apart"
            )
        one = gdp / math.sqrt(events)
        return RepeatedBudget(
            gdp=one, together=gdp, events=events, separation=separation
        )

    @property
    def pair(self) -> tuple[float, float]:
        """(epsilon, delta), which a budget in ``gdp`` has not."""
        if self.epsilon is None or self.delta is None:
            raise ValueError(
                f"budget: expected epsilon and delta, got {self!r}; "
                "PrivacyBudget(epsilon=, delta=) has them"
            )
        return self.epsilon, self.delta

    @property
    def pure(self) -> bool:
        """Return whether delta is zero, which only noise of bounded privacy loss meets."""
        return self.delta == 0

    def shift(self, releases: int = 1) -> float:
        """Return the largest privacy shift y that each of some Gaussian releases may have.

        It is rounded down.

        Parameters
        ----------
        releases : int

        Returns
        -------
        float
            In standard deviations of the noise.

        Raises
        ------
        ValueError
            If delta is zero (no Gaussian noise meets that), or releases below 1.

        Examples
        --------
        >>> round(PrivacyBudget(gdp=0.5).shift(), 6)
        0.5
        """
        releases = positive_integer(releases, "releases")
        shift = self.gdp
        if shift is None:
            shift = float(kappa_inverse(*self.pair))
        if releases == 1:
            return shift
        return shift / float_above(math.sqrt(releases), 2)

    def laplace_epsilon(self, releases: int = 1) -> float:
        """Return the largest pure epsilon that each of some Laplace releases may have.

        It is rounded down, and good for all moves. For (epsilon, delta) it is a share of
        epsilon. For ``gdp`` it is a with 1 - exp(-a/2)/2 = Phi(y/2), where one Laplace
        coordinate with shift a is exactly y-GDP, y = gdp over the root of ``releases``.

        Parameters
        ----------
        releases : int, optional
            How many releases share the budget.

        Returns
        -------
        float

        Examples
        --------
        >>> round(PrivacyBudget(epsilon=1.0).laplace_epsilon(4), 6)
        0.25
        """
        releases = positive_integer(releases, "releases")
        if self.gdp is None:
            epsilon, _ = self.pair
            if releases == 1:
                return epsilon
            return math.nextafter(epsilon / releases, 0.0)
        y = self.shift(releases) * (1 - 2e-12)  # gdp of a loss is that inexact
        shift = -2 * (math.log(2) + float(log_ndtr(-y / 2)))
        shift = min(shift, sys.float_info.max)
        rounding = 128 * EPS * (1 + shift)
        return max(shift - rounding, 0.0)

    def each_of(self, periods: int) -> PrivacyBudget:
        """Return the budget of each of some periods that together keep within this one.

        It is in ``gdp``, which composes without loss: mu of all over the root of
        ``periods``. A pure budget is a share of epsilon. Both are rounded down.

        An attacker who collects all these periods is up against this budget, one who goes
        on collecting is not: n days at mu make mu sqrt(n), so a budget of a day claims
        nothing about years.

        Parameters
        ----------
        periods : int
            Such as the days of a year.

        Returns
        -------
        PrivacyBudget

        Raises
        ------
        ValueError
            If ``periods`` is below 1.

        Examples
        --------
        >>> round(PrivacyBudget(gdp=1.0).each_of(365).gdp, 4)
        0.0523
        """
        if self.pure:
            return PrivacyBudget(epsilon=self.laplace_epsilon(periods))
        return PrivacyBudget(gdp=self.shift(periods))

    def to_dict(self) -> dict[str, float | None]:
        """Return a JSON-ready form, the keywords that make an equal budget.

        Returns
        -------
        dict

        Examples
        --------
        >>> PrivacyBudget(epsilon=1.0, delta=1e-2).to_dict()
        {'epsilon': 1.0, 'delta': 0.01}
        """
        if self.gdp is not None and self.leak:
            return {"gdp": self.gdp, "leak": self.leak}
        if self.gdp is not None:
            return {"gdp": self.gdp}
        return {"epsilon": self.epsilon, "delta": self.delta}

    def __repr__(self) -> str:
        numbers = [f"{name}={value!r}" for name, value in self.to_dict().items()]
        return f"PrivacyBudget({', '.join(numbers)})"

    def __str__(self) -> str:
        if self.gdp is not None and self.leak:
            return f"{self.gdp:.6g}-GDP but for a leak of {self.leak:g}"
        if self.gdp is not None:
            return f"{self.gdp:.6g}-GDP"
        return f"epsilon = {self.epsilon:g} at delta = {self.delta:g}"

    def __add__(self, other: object) -> NoReturn:
        raise TypeError(
            "budgets do not add, guarantees of releases do: give each pair its secret with "
            "PrivacyGuarantee.black_box(budget, adjacency), and add those"
        )

    __radd__ = __add__


def scale_to_budget(
    evaluate: Callable[[float], tuple[Sized, float]],
    scale: float,
    *,
    largest_excess: float = math.inf,
) -> tuple[Sized, float, float]:
    """Scale noise until its evaluated guarantee meets the budget.

    Parameters
    ----------
    evaluate : callable
        From a scale to what has that size and its excess, how many times too small it is:
        at most 1 where it meets the budget.
    scale : float
        A first guess. The next ones are larger by the excess, rounded up.
    largest_excess : float, optional
        An excess above it is not rounding, and ends the search.

    Returns
    -------
    sized, scale, excess
        The last ones. The budget is not met if the excess is above 1.
    """
    for _ in range(MOST_ROUNDS):
        sized, excess = evaluate(scale)
        if excess <= 1 or excess > largest_excess:
            break
        scale *= float_above(excess, 4)
    return sized, scale, excess


def checked_rate(value: float, name: str) -> float:
    """Return a probability in (0, 1) as a float."""
    rate = positive_number(value, name)
    if rate >= 1:
        raise ValueError(f"{name}: expected a probability in (0, 1), got {value}")
    return rate


@_by_name
@dataclass(frozen=True, kw_only=True, repr=False)
class RepeatedBudget(PrivacyBudget):
    """State what several changes at a distance may cost together.

    ``gdp`` is that of one of them if they shared nothing, ``together`` that of all.
    """

    together: float = math.inf
    events: int = 1
    separation: int = 1

    @property
    def single(self) -> PrivacyBudget:
        """The budget of one of the changes."""
        return PrivacyBudget(gdp=self.shift())

    def __repr__(self) -> str:
        return (
            f"PrivacyBudget(gdp={self.together:.6g} for {self.events} changes, starts >= "
            f"{self.separation} samples apart)"
        )


def checked_budget(budget: PrivacyBudget) -> PrivacyBudget:
    """Return the budget itself, or raise an error that says how to write one."""
    if isinstance(budget, RepeatedBudget):
        raise ValueError(
            "budget: how much several changes at a distance share depends on plant and "
            "noise, so a budget with separation= is for design_output_noise; leave the "
            "separation out, which counts them as if they came at once"
        )
    if isinstance(budget, PrivacyBudget):
        return budget
    raise TypeError(
        f"budget: expected a PrivacyBudget, got {type(budget).__name__}; "
        "write PrivacyBudget(epsilon=1.0, delta=1e-3), with your own numbers"
    )
