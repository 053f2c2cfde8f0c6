"""Privacy guarantees: what a release promises, for which secret and under which assumptions.

A guarantee is frozen data. It composes with others about the same secret only, and says so when asked to do more.
"""

from __future__ import annotations

import html
import json
import math
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from decimal import ROUND_CEILING, Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ._events import event_of
from ._linalg import positive_integer, positive_number
from .adjacency import Adjacency
from .budget import PrivacyBudget, checked_budget
from .loss import (
    BlackBoxLoss,
    GaussianLoss,
    PrivacyLoss,
    checked_delta,
    composed,
    loss_from_dict,
)

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from matplotlib.axes import Axes

    from .manifold import AffineManifold


@dataclass(frozen=True)
class Scope:
    """What a guarantee is about: two guarantees compose only if their scopes agree.

    ``adjacency`` is the adjacency's public description, ``statement`` the same in words, ``domain`` names the
    manifold, ``horizon`` its number of samples (None where the data are no trajectory). ``assumptions`` and
    ``caveats`` are clauses for the text: what is taken for granted, and what is not hidden. ``radius`` is the size of
    a hidden move where one number says it; ``constrained`` is False only where no public constraint ties the entries
    of the data to each other. ``models`` are the fingerprints of the plants for which the guarantee was evaluated, and
    ``window`` the samples (start, stop) of the run that the trajectory comprises. ``released`` says how what is
    published is computed, `EXACTLY` or `SIMULATED`, where it is known.
    """

    adjacency: str
    statement: str
    domain: str
    horizon: float | None = None
    assumptions: tuple = field(default=(), compare=False)
    caveats: tuple = field(default=(), compare=False)
    radius: float | None = None
    constrained: bool = True
    models: tuple = ()
    window: tuple | None = None
    released: str = field(default="", compare=False)

    @classmethod
    def of(
        cls,
        adjacency: Adjacency,
        manifold: Any,
        *,
        assumptions: Iterable[str] = (),
        caveats: Iterable[str] = (),
        models: Iterable[str] | None = None,
    ) -> Scope:
        """The scope of an adjacency on a manifold.

        ``models`` are fingerprints of plants. By default they are those of the manifold itself, if it has any.
        """
        size = getattr(manifold, "size", None)
        if models is None:
            models = getattr(manifold, "models", ())
        window = None if manifold.horizon is None else (0, manifold.horizon)
        return cls(
            json.dumps(adjacency.to_dict(), sort_keys=True),
            adjacency.statement,
            manifold.domain,
            manifold.horizon,
            tuple(assumptions),
            tuple(adjacency.caveats(manifold)) + tuple(caveats),
            _plain_radius(adjacency),
            size is None or getattr(manifold, "dimension", None) != size,
            tuple(sorted(set(models))),
            window,
        )

    @classmethod
    def foreign(cls, adjacency: Adjacency) -> Scope:
        """The scope of a release that somebody else made, of data on no stated manifold."""
        description = json.dumps(adjacency.to_dict(), sort_keys=True)
        return cls(
            description,
            adjacency.statement,
            _FOREIGN,
            radius=_plain_radius(adjacency),
            constrained=False,
        )

    def to_dict(self) -> dict:
        """JSON-ready form; `from_dict` restores an equal scope."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in values.items():
            if isinstance(value, tuple):
                values[name] = list(value)
        return values

    @classmethod
    def from_dict(cls, data: dict) -> Scope:
        """The scope that `to_dict` wrote."""
        values: dict[str, Any] = dict(data)
        for name, value in data.items():
            if isinstance(value, list):
                values[name] = tuple(value)
        words = ("adjacency", "statement", "domain")
        if not all(isinstance(values[name], str) for name in words):
            raise ValueError("scope: expected texts, got something else")
        json.loads(values["adjacency"])
        return cls(**values)

    def told_from(self, other: Scope) -> str:
        """The adjacency in words, or its description where the other one has the same words."""
        return self.statement if self.statement != other.statement else self.adjacency

    def joined(self, other: Scope) -> Scope:
        """The scope of both: whatever either release assumes is assumed, whatever either leaves bare is bare."""
        return replace(
            self,
            assumptions=tuple(dict.fromkeys(self.assumptions + other.assumptions)),
            caveats=tuple(dict.fromkeys(self.caveats + other.caveats)),
            released=self._released_with(other),
        )

    def _released_with(self, other: Scope) -> str:
        """How both were released: as simulations if one was, exactly if both were."""
        manners = {self.released, other.released}
        if SIMULATED in manners:
            return SIMULATED
        return manners.pop() if len(manners) == 1 else ""


#: Rate of false alarms at which the text says what the guarantee means, and the length of its lines.
_FALSE_ALARM = 0.05
_LINE = 120

_FOREIGN = "data on no stated manifold"

#: How a release was computed: rounded once from real numbers, or in doubles, whose last bits tell something.
EXACTLY, SIMULATED = "released exactly", "simulated in double precision"


_STACK = (
    "A hidden move of one secret is another move of the other; stack both queries on one manifold and evaluate them "
    "together (for a foreign release, say which manifold it is about)"
)
_WINDOWS = (
    "A move that is small late in one window may be large at the start of another; windows_guarantee([noise, ...]) "
    "evaluates consecutive windows of one run together"
)
_MODELS = (
    "What one release promises under one model and another under another holds under neither; evaluate each release "
    "over all models, noise.guarantee_for([model, ...]), and add those"
)

# Fields of two scopes that must agree: how they are called in an error, and what to do.
_COMPARED = {
    "horizon": ("horizons", _STACK + ", or with windows_guarantee"),
    "adjacency": ("adjacencies", _STACK),
    "models": ("models", _MODELS),
    "window": ("windows", _WINDOWS),
    "domain": ("manifolds", _STACK),
}


def _plain_radius(adjacency: Adjacency) -> float | None:
    """The radius of an adjacency, if one number says it."""
    radius = getattr(adjacency, "radius", None)
    if isinstance(radius, bool) or not isinstance(radius, Real):
        return None
    size = float(radius)
    return size if 0 < size < math.inf else None


def shown(value: float, rounding: str = ROUND_CEILING) -> str:
    """Four digits of a loss, rounded up (or down); what is a short number but for round-off is shown as that number."""
    if not 0 < value < math.inf:
        return f"{value:g}"
    slack = -1e-9 if rounding == ROUND_CEILING else 1e-9
    exact = Decimal(value * (1 + slack))
    last = Decimal(1).scaleb(exact.adjusted() - 3)
    return f"{float(exact.quantize(last, rounding)):.4g}"


@dataclass(frozen=True)
class PrivacyGuarantee:
    """A differential-privacy guarantee with its adjacency, horizon and number of releases.

    Made by ``Mechanism.guarantee``, by designs and by loops, or by `black_box` for a release made elsewhere. As a
    string it is a few labelled lines, `sentence` is one line. Its numbers are rounded up. It names the manifold by
    sizes and, in brackets, a fingerprint (see `AffineManifold.domain`), and adds only to guarantees with the same one.

    Attributes
    ----------
    loss : PrivacyLoss
        The numbers; the guarantee's own methods ask it.
    scope : Scope
        Adjacency, manifold and horizon, with the assumptions and what is not hidden.
    releases : int
        How many releases of the same secret are counted.

    Examples
    --------
    >>> import privcontrol.core as core
    >>> design = core.design_gaussian(
    ...     core.LinearQuery([[1.0]]), core.DirectionAdjacency([[2.0]]), core.PrivacyBudget(epsilon=1, delta=1e-2))
    >>> round(design.guarantee.gdp, 4), design.guarantee.satisfies(core.PrivacyBudget(epsilon=1, delta=1e-2))
    (0.5325, True)
    >>> round((design.guarantee + design.guarantee).gdp / design.guarantee.gdp, 4)
    1.4142
    """

    loss: PrivacyLoss
    scope: Scope
    releases: int = 1
    #: The delta at which the text quotes epsilon (a larger one where foreign releases leave none); no other meaning.
    quoted_delta: float = field(default=1e-5, compare=False)

    def __post_init__(self) -> None:
        positive_integer(self.releases, "releases")
        checked_delta(self.quoted_delta)

    @classmethod
    def black_box(
        cls,
        budget: PrivacyBudget,
        adjacency: Adjacency | Scope,
        *,
        manifold: AffineManifold | None = None,
    ) -> PrivacyGuarantee:
        """The guarantee of a foreign release of which only (epsilon, delta) is known.

        Without a manifold it composes with other foreign releases for the same adjacency only: what a circuit or a
        ball on some manifold moves is another matter. With the manifold, or with the scope of one of this package's
        guarantees, it composes with that guarantee.

        Parameters
        ----------
        budget : PrivacyBudget
            What the release promises for this adjacency, taken at its word.
        adjacency : Adjacency or Scope
            What the promise hides; ``guarantee.scope`` says: the same secret as in this guarantee.
        manifold : AffineManifold, optional
            Where the data live.

        Raises
        ------
        TypeError
            If an argument is of another type.

        Examples
        --------
        >>> from privcontrol.core import *
        >>> foreign = PrivacyGuarantee.black_box(PrivacyBudget(epsilon=0.5), DirectionAdjacency([[1.0]]))
        >>> (foreign + foreign).epsilon(0.0)
        1.0
        """
        budget = checked_budget(budget)
        if not isinstance(adjacency, Adjacency | Scope):
            raise TypeError(
                f"adjacency: expected an Adjacency or a guarantee's scope, got {type(adjacency).__name__}"
            )
        if isinstance(adjacency, Scope):
            scope = adjacency
        elif manifold is None:
            scope = Scope.foreign(adjacency)
        else:
            scope = Scope.of(adjacency, manifold)
        scope = replace(
            scope,
            assumptions=(*scope.assumptions, "a foreign release keeps its promise"),
        )
        if budget.gdp is not None:
            return cls(GaussianLoss(budget.gdp, exact=False, proportional=False), scope)
        quoted = budget.delta or cls.quoted_delta
        return cls(BlackBoxLoss(((budget.epsilon, budget.delta, 1),)), scope, 1, quoted)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon for which (epsilon, delta) holds, rounded up; infinite if none does."""
        return float(self.loss.epsilon(delta))

    def delta(self, epsilon: float) -> float:
        """The smallest delta for which (epsilon, delta) holds, rounded up (DPAM eq. (7))."""
        return float(self.loss.delta(epsilon))

    def satisfies(self, budget: PrivacyBudget) -> bool:
        """Whether the guarantee meets a `PrivacyBudget`."""
        return bool(self.loss.satisfies(checked_budget(budget)))

    @property
    def gdp(self) -> float:
        """mu of Gaussian differential privacy (Dong, Roth, Su 2022); infinite if there is none."""
        return float(self.loss.gdp)

    @property
    def zcdp(self) -> float:
        """rho of zero-concentrated differential privacy (Bun, Steinke 2016); infinite if there is none."""
        return float(self.loss.zcdp)

    def rdp(self, alpha: float) -> float:
        """Renyi differential privacy of order alpha > 1 (Mironov 2017); infinite if there is none.

        Raises
        ------
        ValueError
            If alpha is not above 1.
        """
        infinite = isinstance(alpha, float) and alpha == math.inf
        if not infinite and not positive_number(alpha, "alpha") > 1:
            raise ValueError(f"alpha: expected an order above 1, got {alpha}")
        return float(self.loss.rdp(alpha))

    def detection(self, false_alarm: float) -> float:
        """How often a test detects a hidden move at most, at a given rate of false alarms.

        Parameters
        ----------
        false_alarm : float
            Probability in (0, 1) with which the test reports a move that was not there.

        Returns
        -------
        float
            A probability, rounded up. For Gaussian noise it is Phi(Phi^-1(false_alarm) + gdp).

        Raises
        ------
        ValueError
            If the rate is not in (0, 1).

        Examples
        --------
        >>> from privcontrol.core import DirectionAdjacency, PrivacyBudget, PrivacyGuarantee
        >>> known = PrivacyGuarantee.black_box(PrivacyBudget(gdp=0.5), DirectionAdjacency([[1.0]]))
        >>> round(known.detection(0.05), 4)
        0.1261

        References
        ----------
        Dong, Roth and Su, Gaussian differential privacy (2022), Propositions 2.4 and 2.12.
        """
        if not 0 < positive_number(false_alarm, "false_alarm") < 1:
            raise ValueError(
                f"false_alarm: expected a probability in (0, 1), got {false_alarm}"
            )
        return float(self.loss.detection(float(false_alarm)))

    @property
    def advantage(self) -> float:
        """The largest excess of detections over false alarms of any test, delta at epsilon = 0, rounded up."""
        return self.delta(0.0)

    @property
    def exact(self) -> tuple[str, ...]:
        """Names of the numbers that a hidden move attains; the others are upper bounds. Empty: all are bounds."""
        return self.loss.exact_measures

    @property
    def horizon(self) -> float | None:
        """Number of samples covered, or None where the data are no trajectory."""
        return self.scope.horizon

    def compose(self, *others: PrivacyGuarantee) -> PrivacyGuarantee:
        """The guarantee of all these releases of the same secret together.

        Two guarantees about a trajectory are releases of the same samples, such as two runs from one secret start.
        For noise of a window that continues a run see `in_window`.

        Raises
        ------
        ValueError
            If adjacency, manifold, horizon, window or models differ: a move of one secret is not a move of another.
        TypeError
            If one is no `PrivacyGuarantee`; says how to make it one.
        """
        total = self
        for other in others:
            total._same_secret(checked_guarantee(other))
            total = PrivacyGuarantee(
                composed(total.loss, other.loss),
                total.scope.joined(other.scope),
                total.releases + other.releases,
                max(total.quoted_delta, other.quoted_delta),
            )
        return total

    def repeated(self, count: int) -> PrivacyGuarantee:
        """The guarantee of `count` independent releases by this very mechanism."""
        return replace(
            self,
            loss=self.loss.repeated(count),
            releases=self.releases * positive_integer(count, "count"),
        )

    def in_window(self, start: int) -> PrivacyGuarantee:
        """The same promise for a later window of a run, which begins at sample ``start``.

        Times of the adjacency are counted from the window's start. Guarantees of different windows of one run do not
        add, because a move is another one in each of them: `windows_guarantee` evaluates consecutive windows together.

        Parameters
        ----------
        start : int
            Not negative; 0 for the window in which the run begins.

        Returns
        -------
        PrivacyGuarantee

        Raises
        ------
        ValueError
            If the guarantee is not about a trajectory, or says already which part of a longer run it is about, or the
            start is negative.
        """
        if self.horizon is None:
            raise ValueError(
                "in_window: expected the guarantee of a trajectory; these data have no samples in time"
            )
        known = self.scope.window
        if known is not None and known[1] - known[0] != self.horizon:
            raise ValueError(
                f"in_window: the guarantee is about samples {known[0]} to {known[1] - 1} of a run of {self.horizon} samples "
                "already; noise of design_windows keeps its window"
            )
        first = positive_integer(start, "start") if start else 0
        window = (first, first + self.horizon)
        return replace(self, scope=replace(self.scope, window=window))

    def _same_secret(self, other: PrivacyGuarantee) -> None:
        for name, (plural, advice) in _COMPARED.items():
            mine, theirs = getattr(self.scope, name), getattr(other.scope, name)
            if mine == theirs:
                continue
            if name == "adjacency":
                mine = self.scope.told_from(other.scope)
                theirs = other.scope.told_from(self.scope)
            raise ValueError(
                f"guarantees of different {plural} do not add: {_listed(mine)} against {_listed(theirs)}. {advice}"
            )

    def __add__(self, other: object) -> PrivacyGuarantee:
        return (
            self.compose(other)
            if isinstance(other, PrivacyGuarantee)
            else NotImplemented
        )

    def __radd__(self, other: object) -> PrivacyGuarantee:
        return self if other == 0 else NotImplemented  # for sum()

    def released(self, manner: str) -> PrivacyGuarantee:
        """The same promise for releases that were computed in this manner, `EXACTLY` or `SIMULATED`."""
        return replace(self, scope=replace(self.scope, released=manner))

    def __mul__(self, other: object) -> NoReturn:
        raise TypeError(
            "a guarantee is no number: write guarantee.repeated(4) for four releases by the same mechanism"
        )

    __rmul__ = __mul__

    def to_dp_event(self) -> DpEvent:
        """Return this privacy loss as an event of dp-accounting, for an account there.

        A Gaussian mechanism with shift y becomes a Gaussian event with the noise
        multiplier 1/y. Laplace noise becomes one Laplace event for each shift. The event
        carries neither secret nor horizon nor model, so see to it that the account is
        about this secret alone.

        Raises
        ------
        ImportError
            If dp-accounting is missing, the extra ``accounting``.
        ValueError
            If no event costs the same or more, as for black boxes.

        Examples
        --------
        >>> import privcontrol as pc
        >>> query = pc.LinearQuery([[1.0]])
        >>> mechanism = pc.Mechanism(query, pc.GaussianNoise([2.0]))
        >>> guarantee = mechanism.guarantee(pc.DirectionAdjacency([[1.0]]))
        >>> round(guarantee.to_dp_event().noise_multiplier, 6)
        2.0
        """
        return event_of(self.loss)

    def to_dict(self) -> dict:
        """JSON-ready form; `from_dict` restores an equal guarantee."""
        return {
            "loss": self.loss.to_dict(),
            "scope": self.scope.to_dict(),
            "releases": self.releases,
            "quoted_delta": self.quoted_delta,
        }

    @classmethod
    def from_dict(cls, data: dict) -> PrivacyGuarantee:
        """The guarantee that `to_dict` wrote.

        Raises
        ------
        TypeError
            If the data are no dictionary.
        ValueError
            If something in it is missing or makes no guarantee.
        """
        if not isinstance(data, dict):
            raise TypeError(
                f"data: expected the dictionary that to_dict wrote, got {type(data).__name__}"
            )
        try:
            scope = Scope.from_dict(data["scope"])
            loss = loss_from_dict(data["loss"])
            return cls(loss, scope, data["releases"], data["quoted_delta"])
        except (
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            ArithmeticError,
        ) as error:
            raise ValueError(
                f"data: expected what PrivacyGuarantee.to_dict wrote, got something else ({type(error).__name__})"
            ) from error

    def __repr__(self) -> str:
        size = f"epsilon = {shown(self.epsilon(self.quoted_delta))}"
        if math.isfinite(self.gdp):
            size = self._shown_gdp
        return f"PrivacyGuarantee({self.loss.family}, {size}, {self._counted})"

    @property
    def _counted(self) -> str:
        return f"{self.releases} release{'s' * (self.releases > 1)}"

    @property
    def _shown_gdp(self) -> str:
        """mu in words, rounded up; "at most" where epsilon is exact and mu is not."""
        bound = "at most " if self.exact and "gdp" not in self.exact else ""
        return f"{bound}{shown(self.gdp)}-GDP"

    def _size(self) -> str:
        """Epsilon at the quoted delta, mu, and whether they are attained, in words."""
        delta, epsilon = self.quoted_delta, self.epsilon(self.quoted_delta)
        if epsilon == math.inf and self.loss.failure > 0:
            delta = min(2 * self.loss.failure, 0.999)
            epsilon = self.epsilon(delta)
        size = "no finite epsilon"
        if math.isfinite(epsilon):
            size = f"epsilon = {shown(epsilon)}"
        manner = "exact" if self.loss.attains(delta) else "upper bound"
        notes = [manner]
        if math.isfinite(self.gdp):
            notes = [self._shown_gdp, manner]
            if notes[0].startswith("at most"):
                notes = [f"{manner}; {notes[0]}"]
        if "black-box" in self.loss.family:
            notes.append("foreign releases by the optimal composition theorem")
        return f"{size} at delta = {delta:.4g} ({', '.join(notes)})"

    def _manner(self) -> str:
        """How what is published is computed, where the scope does not say."""
        if self.scope.domain == _FOREIGN:
            return "not by this library"
        if self.horizon:
            return "exactly by a Gateway; simulations are in double precision"
        return "exactly, unless rng= is given: then simulated in double precision"

    def _span(self) -> str:
        """The samples that the guarantee is about, as a clause."""
        return f"{'' if self.horizon == math.inf else 'horizon '}{self._horizon()}"

    def _horizon(self) -> str:
        if self.horizon == math.inf:
            return "runs of any length"
        words = f"{self.horizon} samples"
        start, stop = self.scope.window or (0, self.horizon)
        if stop - start < self.horizon:
            words += f" in all, of which {start} to {stop - 1} are published"
        elif start > 0:
            words += f" ({start} to {stop - 1} of the run)"
        return words

    @property
    def sentence(self) -> str:
        """All of the guarantee in one line."""
        scope = self.scope
        parts = [
            f"{self.loss.family} differential privacy, {self._size()}, for adjacency: {scope.statement}",
            self._span() if self.horizon else scope.domain,
            self._counted,
        ]
        if scope.released:
            parts.append(scope.released)
        if scope.assumptions:
            parts.append("assumes " + ", ".join(scope.assumptions))
        if scope.caveats:
            parts.append("does not hide " + ", ".join(scope.caveats))
        return "; ".join(parts) + "."

    def _labelled(self) -> dict[str, str]:
        """The guarantee as label and text."""
        scope = self.scope
        alarm = 100 * _FALSE_ALARM
        found = shown(100 * self.detection(_FALSE_ALARM))
        lines = {
            "Budget": f"{self._size()}; {self.loss.family} noise, {self._counted}",
            "Meaning": f"a test with {alarm:g} % false alarms detects a hidden move at most {found} % of the time",
            "Hides": scope.statement,
            "Horizon": self._horizon() if self.horizon else f"none; {scope.domain}",
            "Assumes": "; ".join(scope.assumptions) or "nothing further",
            "NOT hidden": "; ".join(scope.caveats) or "nothing known",
            "Released": scope.released or self._manner(),
        }
        if "black-box" in self.loss.family:
            lines["Budget"] = f"{self._size()}; {self.loss.family}, {self._counted}"
        return lines

    def __str__(self) -> str:
        width = max(map(len, self._labelled())) + 2
        return "\n".join(
            textwrap.fill(
                f"{label + ':':{width}}{text}",
                _LINE,
                subsequent_indent=" " * width,
                break_on_hyphens=False,
            )
            for label, text in self._labelled().items()
        )

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        rows = (
            f"<tr><th style='text-align: left'>{html.escape(label)}</th>"
            f"<td style='text-align: left'>{html.escape(text)}</td></tr>"
            for label, text in self._labelled().items()
        )
        return f"<table>{''.join(rows)}</table>"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how often a test detects a hidden move at most, against its rate of false alarms.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; new axes by default.

        Returns
        -------
        matplotlib.axes.Axes

        Examples
        --------
        >>> from privcontrol.core import DirectionAdjacency, PrivacyBudget, PrivacyGuarantee
        >>> ax = PrivacyGuarantee.black_box(PrivacyBudget(epsilon=0.5), DirectionAdjacency([[1.0]])).plot()
        >>> ax.get_xlabel()
        'false alarms'
        """
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots()
        alarms = np.concatenate(
            [np.geomspace(1e-4, 0.02, 12), np.linspace(0.03, 1, 98)]
        )
        found = [self.detection(float(alarm)) for alarm in alarms[:-1]]
        ax.plot([0.0, *alarms], [self.loss.failure, *found, 1.0], label="at most")
        ax.plot([0, 1], [0, 1], linestyle="--", color="0.6", label="guessing")
        ax.set(xlabel="false alarms", ylabel="detections", xlim=(0, 1), ylim=(0, 1))
        ax.set_aspect("equal")
        ax.legend()
        return ax


def _listed(value: object) -> object:
    """A field of a scope as it stands in an error."""
    if isinstance(value, tuple):
        return "(" + ", ".join(str(part) for part in value) + ")"
    return value


def checked_guarantee(guarantee: PrivacyGuarantee) -> PrivacyGuarantee:
    """The guarantee itself, or a ``TypeError`` that says how to come by one."""
    if isinstance(guarantee, PrivacyGuarantee):
        return guarantee
    if isinstance(guarantee, PrivacyBudget):
        hint = "; write PrivacyGuarantee.black_box(budget, adjacency) for a release of which only the pair is known"
    elif isinstance(guarantee, (list, tuple)) or hasattr(guarantee, "__next__"):
        hint = "; unpack it: *guarantees"
    elif callable(getattr(type(guarantee), "guarantee", None)):
        hint = "; pass its .guarantee(adjacency)"
    elif "guarantee" in dir(guarantee):
        hint = "; pass its .guarantee"
    else:
        hint = ""
    raise TypeError(
        f"expected a PrivacyGuarantee, got {type(guarantee).__name__}{hint}"
    )
