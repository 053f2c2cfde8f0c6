"""The privacy budget, what a user asks for.

A budget is a pair (epsilon, delta), or one number of Gaussian differential privacy.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import NoReturn, TypeVar

from scipy.special import log_ndtr, ndtri

from ._files import Saved
from ._linalg import EPS, positive_integer, positive_number, round_up
from .calibration import kappa_inverse
from .errors import PrivacyWarning

#: A delta above this is allowed, with a warning.
_LARGE_DELTA = 0.1

#: Passes in which a size must settle. Each takes away what rounding left of the last.
_PASSES = 100

#: What is sized to meet a budget.
Sized = TypeVar("Sized")


def _by_name(cls: type[Sized]) -> type[Sized]:
    """Let a class whose arguments are keywords say so when it gets numbers by position."""
    init: Callable[..., None] = cls.__init__

    @wraps(init)
    def checked(self: object, *unnamed: object, **named: object) -> None:
        if unnamed:
            raise TypeError(
                f"{cls.__name__}: expected keywords, got {len(unnamed)} values by "
                f"position; write {cls.__name__}(epsilon=1.0, delta=1e-2) or "
                f"{cls.__name__}(gdp=0.5), with your own numbers"
            )
        unknown = sorted(set(named) - {"epsilon", "delta", "gdp"})
        if unknown:
            raise TypeError(
                f"{cls.__name__}: got an unexpected keyword {', '.join(unknown)}; "
                "expected epsilon, delta or gdp"
            )
        init(self, **named)

    setattr(cls, "__init__", checked)  # noqa: B010 (assigned, mypy refuses it)
    return cls


@_by_name
@dataclass(frozen=True, kw_only=True, repr=False)
class PrivacyBudget(Saved):
    """State what releases may cost, by (epsilon, delta) or ``gdp``, all by name.

    Budgets do not add, the guarantees of releases compose. A pair that is known of a
    release made elsewhere becomes one by ``PrivacyGuarantee.black_box(budget, adjacency)``.

    Parameters
    ----------
    epsilon : float, optional
        Bound on the privacy loss in nats, finite, at least 0. None if ``gdp`` is given.
    delta : float, optional
        Probability with which the bound may fail, in [0, 1). Zero asks for pure
        differential privacy, which Gaussian noise cannot give. Of a secret of many people
        it should be far below one over their number. None if ``gdp`` is given.
    gdp : float, optional
        mu of Gaussian differential privacy :cite:p:`DongRothSu2022`, positive. Telling two
        hidden data sets apart is to be no easier than telling N(0, 1) from N(mu, 1).
        Gaussian noise meets it with the privacy shift mu, Laplace noise if its whole
        trade-off curve does. See `from_risk`.

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

    Examples
    --------
    >>> PrivacyBudget(epsilon=1.0, delta=1e-2), PrivacyBudget(gdp=0.5)
    (PrivacyBudget(epsilon=1.0, delta=0.01), PrivacyBudget(gdp=0.5))
    """

    epsilon: float | None = None
    delta: float | None = 0.0
    gdp: float | None = None

    def __post_init__(self) -> None:
        if self.gdp is not None:
            self._check_one_number()
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
            warnings.warn(
                f"delta = {delta:g} is large: a mechanism that publishes the whole secret "
                "with this probability meets such a budget. Values of 0.01 and below are "
                "usual, far below one over the number of people",
                PrivacyWarning,
                stacklevel=4,
            )

    def _check_one_number(self) -> None:
        if self.epsilon is not None or self.delta not in (None, 0.0):
            raise ValueError(
                "PrivacyBudget: expected gdp alone or epsilon and delta, got both; a budget "
                "in one number has no delta"
            )
        object.__setattr__(self, "gdp", positive_number(self.gdp, "gdp"))
        object.__setattr__(self, "delta", None)

    @classmethod
    def from_risk(cls, *, false_alarm: float, detection: float) -> PrivacyBudget:
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

        Raises
        ------
        ValueError
            If a probability is out of range.

        Examples
        --------
        >>> round(PrivacyBudget.from_risk(false_alarm=0.05, detection=0.10).gdp, 4)
        0.3633

        References
        ----------
        :cite:t:`DongRothSu2022`, Definition 2.6.
        """
        rates = {"false_alarm": false_alarm, "detection": detection}
        for name, value in rates.items():
            rates[name] = positive_number(value, name)
            if not 0 < rates[name] < 1:
                raise ValueError(f"{name}: expected a probability in (0, 1)")
        low = float(ndtri(rates["false_alarm"]))
        high = float(ndtri(rates["detection"]))
        gdp = high - low - 8 * EPS * (1 + abs(high) + abs(low))
        if gdp <= 0:
            raise ValueError(
                f"detection: expected a probability above false_alarm = {false_alarm:g}, "
                f"which a guess attains, got {detection:g}"
            )
        return cls(gdp=gdp)

    @property
    def pair(self) -> tuple[float, float]:
        """(epsilon, delta), which a budget in ``gdp`` has not."""
        if self.epsilon is None or self.delta is None:
            raise ValueError(f"budget: expected epsilon and delta, got {self!r}")
        return self.epsilon, self.delta

    @property
    def pure(self) -> bool:
        """Whether delta is zero, which only noise of bounded privacy loss meets."""
        return self.delta == 0

    def shift(self, releases: int = 1) -> float:
        """Return the largest privacy shift y that each of some Gaussian releases may have.

        It is rounded down.

        Parameters
        ----------
        releases : int

        Raises
        ------
        ValueError
            If delta is zero (no Gaussian noise meets that), or releases below 1.
        """
        releases = positive_integer(releases, "releases")
        shift = self.gdp
        if shift is None:
            shift = float(kappa_inverse(*self.pair))
        if releases == 1:
            return shift
        return shift / float(round_up(math.sqrt(releases), 2))

    def laplace_epsilon(self, releases: int = 1) -> float:
        """Return the largest pure epsilon that each of some Laplace releases may have.

        It is rounded down, and good for all moves. For (epsilon, delta) it is a share of
        epsilon. For ``gdp`` it is a with 1 - exp(-a/2)/2 = Phi(y/2), where one Laplace
        coordinate with shift a is exactly y-GDP, y = gdp over the root of ``releases``.
        """
        releases = positive_integer(releases, "releases")
        if self.gdp is None:
            epsilon, _ = self.pair
            if releases == 1:
                return epsilon
            return math.nextafter(epsilon / releases, 0.0)
        y = self.shift(releases) * (1 - 2e-12)  # gdp of a loss is that inexact
        shift = -2 * (math.log(2) + float(log_ndtr(-y / 2)))
        rounding = 128 * EPS * (1 + shift)
        return max(shift - rounding, 0.0)

    def each_of(self, periods: int) -> PrivacyBudget:
        """Return the budget of each of some periods that together keep within this one.

        It is in ``gdp``, which composes without loss: mu of all over the root of
        ``periods``. A pure budget is a share of epsilon. Both are rounded down.

        An attacker who collects all these periods is up against this budget, one who goes
        on collecting is not: n days at mu come to mu sqrt(n), so a budget of a day claims
        nothing about years.

        Parameters
        ----------
        periods : int
            Such as the days of a year.

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

    def to_dict(self) -> dict:
        """Return a JSON-ready form, the keywords that make an equal budget."""
        if self.gdp is not None:
            return {"gdp": self.gdp}
        return {"epsilon": self.epsilon, "delta": self.delta}

    def __repr__(self) -> str:
        numbers = [f"{name}={value!r}" for name, value in self.to_dict().items()]
        return f"PrivacyBudget({', '.join(numbers)})"

    def __str__(self) -> str:
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
    for _ in range(_PASSES):
        sized, excess = evaluate(scale)
        if excess <= 1 or excess > largest_excess:
            break
        scale *= float(round_up(excess, 4))
    return sized, scale, excess


def checked_budget(budget: PrivacyBudget) -> PrivacyBudget:
    """Return the budget itself, or raise an error that says how to write one."""
    if isinstance(budget, PrivacyBudget):
        return budget
    raise TypeError(
        f"budget: expected a PrivacyBudget, got {type(budget).__name__}; "
        "write PrivacyBudget(epsilon=1.0, delta=1e-3), with your own numbers"
    )
