"""Privacy guarantees, what a release promises for which secret.

A guarantee is frozen data. It composes with others about the same secret only, and says
so when asked to do more.

Composition in sequence, in parallel over chunks, and by chaining are the paper "Inference
Privacy" (IP), Propositions 2 to 4. Where the mechanism is known they are sharper than the
paper's bounds, which remain for releases known by (epsilon, delta) alone.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from functools import reduce
from numbers import Real
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from ..numerics.checks import (
    instance_of,
    positive_integer,
    positive_number,
    sample_count,
)
from ..numerics.labels import html_table
from ..numerics.saved import Saved, decode, encode
from ..numerics.thresholds import ROUNDED
from . import sentences
from .budget import PrivacyBudget, checked_budget, checked_rate
from .hidden import Data, Hidden
from .horizon import horizon_of
from .loss import (
    BLACK_BOX,
    RADIAL,
    PrivacyLoss,
    attains,
    checked_delta,
    composed,
    decimal,
    detection,
    exact_measures,
    family_in_words,
    float_up,
    scaled,
)
from .record import Curator, Record, curated, record
from .repetition import Change, Correlations


@dataclass(frozen=True)
class Scope(Saved):
    """The subject of a guarantee. Two guarantees compose only if their scopes agree."""

    _omitted = ("has_event",)

    adjacency: str  # its public description
    statement: str  # the same in words
    domain: str  # names the manifold
    horizon: float | None = None  # samples; None where the data are no trajectory
    #: What is taken for granted, and what is not hidden.
    assumptions: tuple[str, ...] = field(default=(), compare=False)
    caveats: tuple[str, ...] = field(default=(), compare=False)
    radius: float | None = None  # of a hidden move, where one number says it
    constrained: bool = True  # False only where nothing ties the entries together
    models: tuple[str, ...] = ()  # fingerprints of the plants it was evaluated for
    #: (start, stop) of the trajectory's samples in the run.
    window: tuple[int, float] | None = None
    released: str = field(default="", compare=False)  # EXACTLY, ... or unknown
    change: Change | None = None  # of a signal that enters, None for other secrets
    #: Whether one of other secrets is of an event that happens anyway.
    has_event: bool = field(default=False, compare=False)

    @classmethod
    def of(
        cls,
        adjacency: Hidden,
        manifold: Data,
        *,
        assumptions: Iterable[str] = (),
        caveats: Iterable[str] = (),
        further: Iterable[str] = (),
        models: Iterable[str] | None = None,
        statement: str = "",
    ) -> Scope:
        """Return the scope of an adjacency on a manifold.

        ``models`` are fingerprints of plants, by default those of the manifold, and
        ``statement`` what is hidden in words, by default that of the adjacency. Caveats
        come before those of the adjacency, and ``further`` ones behind them.
        """
        size = getattr(manifold, "size", None)
        if models is None:
            models = getattr(manifold, "models", ())
        horizon = manifold.horizon
        return replace(
            cls.foreign(adjacency),
            statement=statement or adjacency.statement,
            domain=manifold.domain,
            horizon=horizon,
            assumptions=tuple(assumptions),
            caveats=(*caveats, *adjacency.caveats(manifold), *further, _LARGER),
            constrained=size is None or getattr(manifold, "dimension", None) != size,
            models=tuple(sorted(set(models))),
            window=None if horizon is None else (0, horizon),
        )

    @classmethod
    def foreign(cls, adjacency: Hidden) -> Scope:
        """Return the scope of somebody else's release, of data on no stated manifold."""
        given = getattr(adjacency, "radius", None)
        radius: float | None = None  # where one number says it
        if isinstance(given, Real) and not isinstance(given, bool):
            radius = float(given) if 0 < float(given) < math.inf else None
        words = adjacency.statement
        description = json.dumps(adjacency.to_dict(), sort_keys=True)
        change = adjacency.change
        parts = getattr(adjacency, "parts", ()) if change is None else ()
        changes = [part.change for part in parts if part.change is not None]
        return cls(
            description,
            words,
            _FOREIGN,
            radius=radius,
            constrained=False,
            change=change,
            has_event=any(each.differs for each in changes),
            caveats=(_LARGER,),
        )

    @classmethod
    def _restored(cls, saved: dict[str, Any]) -> Scope:
        texts = (saved["adjacency"], saved["statement"], saved["domain"])
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("scope: expected texts, got something else")
        json.loads(saved["adjacency"])
        return cls(**saved)

    def repeated(self, count: int, separation: int | None) -> Scope:
        """Return the scope of several changes, with so many samples between starts."""
        if self.change is None or count == self.change.events == 1:
            return self
        change = replace(self.change, events=count, separation=separation or 0)
        return self._with_change(
            change, repeated={"count": count, "separation": separation}
        )

    def of_any_shape(self) -> Scope:
        """Return the scope of a change of any shape that is as long and as large."""
        if self.change is None:
            return self
        return self._with_change(self.change.of_any_shape, shape="any")

    def _with_change(self, change: Change, **described: object) -> Scope:
        """Return the scope of another kind of change, which is described."""
        description = json.loads(self.adjacency) | described
        return replace(
            self,
            adjacency=json.dumps(description, sort_keys=True),
            statement=change.statement,
            change=change,
        )

    def told_from(self, other: Scope) -> str:
        """Return the adjacency in words, unless the other one has the same."""
        if self.statement == other.statement:
            return self.adjacency
        return self.statement

    def joined(self, other: Scope) -> Scope:
        """Return the scope of both, which assumes and leaves bare what either does."""
        manners = {self.released, other.released}
        released = self.released if len(manners) == 1 else ""
        if len(manners) > 1 and manners & {ELSEWHERE, PARTLY}:
            released = PARTLY
        if SIMULATED in manners:
            released = SIMULATED
        return replace(
            self,
            assumptions=with_more(self.assumptions, other.assumptions),
            caveats=with_more(self.caveats, other.caveats),
            released=released,
        )


#: What no adjacency hides.
_LARGER = "anything larger"
#: Rate of false alarms at which the text says what the guarantee means.
FALSE_ALARM = 0.05
#: Changes up to which it is looked for what a share of detection leaves.
_MOST_CHANGES = 1 << 20
_WRAPPER = textwrap.TextWrapper(
    sentences.LINE, subsequent_indent=" " * sentences.MARGIN, break_on_hyphens=False
)
_FOREIGN = "data on no stated manifold"
_FOREIGN_SUM = "foreign releases by the optimal composition theorem"
#: What reading altered data may raise.
_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError)
#: A release that was rounded once from real numbers.
EXACTLY = "released exactly"
#: A release computed in doubles, whose last bits reveal something.
SIMULATED = "simulated in double precision"
#: A release of which only a promise is known.
ELSEWHERE = "released elsewhere"
PARTLY = "released elsewhere in part"
_STACK = (
    "A hidden move of one secret is another move of the other; stack both queries on one "
    "manifold and evaluate them together (for a foreign release, say which manifold it is "
    "about)"
)
_WINDOWS = (
    "A move that is small late in one window may be large at the start of another; "
    "evaluate the whole run, Mechanism(output_query(sys, T), GaussianNoise(block_diag("
    "factor, ...))).guarantee(adjacency), with the factor of each window"
)
_MODELS = (
    "What one release promises under one model and another under another holds under "
    "neither; evaluate each release over all models, noise.guarantee_for([model, ...]), "
    "and add those"
)
#: Fields of two scopes that must agree, what an error calls them, and what to do.
_COMPARED = {
    "horizon": ("horizons", _STACK),
    "adjacency": ("adjacencies", _STACK),
    "models": ("models", _MODELS),
    "window": ("windows", _WINDOWS),
    "domain": ("manifolds", _STACK),
}


def counted(number: int, what: str) -> str:
    """Return a number of things in words."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def shown(value: float, rounding: str = ROUND_CEILING) -> str:
    """Return four digits of a loss, rounded up or down.

    What is a short number but for round-off is shown as that number.
    """
    if not 0 < value < math.inf:
        return f"{value:g}"
    slack = -ROUNDED if rounding == ROUND_CEILING else ROUNDED
    exact = Decimal(value * (1 + slack))
    last = Decimal(1).scaleb(exact.adjusted() - 3)
    return f"{float(exact.quantize(last, rounding)):.4g}"


def with_more(clauses: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    """Return clauses and more of them, each once."""
    return tuple(dict.fromkeys(clauses + more))


def _clause(words: str, items: tuple[str, ...]) -> str:
    """Return items behind some words, nothing if there are none."""
    return words + ", ".join(items) if items else ""


def _in_one_line(given: tuple[str, ...]) -> str:
    """Return clauses as one line, the first of them if all are too long."""
    clauses = [sentences.visible(clause) for clause in given]
    for count in range(len(clauses), 0, -1):
        left = len(clauses) - count
        text = "; ".join(clauses[:count])
        if left:
            text += f"; {left} more in .explain()"
        if sentences.fits(text):
            return text
    room = sentences.LINE - sentences.MARGIN
    return textwrap.shorten(clauses[0], room, placeholder=" ... (all in .explain())")


class Accounted:
    """The numbers of a ``loss``, all rounded up, in the terms of the literature."""

    loss: PrivacyLoss

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon for which (epsilon, delta) holds, or inf.

        Parameters
        ----------
        delta : float
            In [0, 1].

        Returns
        -------
        float
            Rounded up.

        Examples
        --------
        >>> from privcontrol.core import *
        >>> budget = PrivacyBudget(epsilon=1.0)
        >>> known = PrivacyGuarantee.black_box(budget, DirectionAdjacency([[1.0]]))
        >>> round(known.epsilon(1e-2), 4)
        0.9862
        """
        return float(self.loss.epsilon(delta))

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta for which (epsilon, delta) holds.

        Parameters
        ----------
        epsilon : float
            Not negative.

        Returns
        -------
        float
            In [0, 1], rounded up.

        Examples
        --------
        >>> from privcontrol.core import *
        >>> budget = PrivacyBudget(epsilon=1.0)
        >>> known = PrivacyGuarantee.black_box(budget, DirectionAdjacency([[1.0]]))
        >>> round(known.delta(0.5), 4)
        0.2876
        """
        return float(self.loss.delta(epsilon))

    def satisfies(self, budget: PrivacyBudget) -> bool:
        """Return whether the guarantee meets a `PrivacyBudget`.

        Parameters
        ----------
        budget : PrivacyBudget

        Returns
        -------
        bool
        """
        return bool(self.loss.satisfies(checked_budget(budget)))

    @property
    def gdp(self) -> float:
        """mu of Gaussian differential privacy, or inf. See :cite:t:`DongRothSu2022`."""
        return float(self.loss.gdp)

    @property
    def zcdp(self) -> float:
        """rho of zero-concentrated differential privacy, or inf.

        See :cite:t:`BunSteinke2016`.
        """
        return float(self.loss.zcdp)

    def rdp(self, alpha: float) -> float:
        """Return the Renyi divergence of order alpha > 1, or inf.

        See :cite:t:`Mironov2017`.

        Parameters
        ----------
        alpha : float
            Order of the divergence, above 1.

        Returns
        -------
        float
            Rounded up.

        Raises
        ------
        ValueError
            If alpha is not above 1.

        Examples
        --------
        >>> from privcontrol.core import *
        >>> budget = PrivacyBudget(epsilon=1.0)
        >>> known = PrivacyGuarantee.black_box(budget, DirectionAdjacency([[1.0]]))
        >>> round(known.rdp(2.0), 4)
        1.0
        """
        infinite = isinstance(alpha, float) and alpha == math.inf
        if not infinite and not positive_number(alpha, "alpha") > 1:
            raise ValueError(f"alpha: expected an order above 1, got {alpha}")
        return float(self.loss.rdp(alpha))

    def detection(self, false_alarm: float = FALSE_ALARM) -> float:
        """Return how often a test with a given rate of false alarms detects a move at most.

        It is a probability, rounded up, and for Gaussian noise Phi(Phi^-1(false_alarm) +
        gdp) (:cite:t:`DongRothSu2022`, Propositions 2.4 and 2.12).

        Parameters
        ----------
        false_alarm : float, optional
            Rate at which the test finds a move that was not made, in (0, 1).

        Returns
        -------
        float
            In (0, 1].

        Raises
        ------
        ValueError
            If the rate is not in (0, 1).

        Examples
        --------
        >>> from privcontrol.core import *
        >>> budget = PrivacyBudget(gdp=0.5)
        >>> known = PrivacyGuarantee.black_box(budget, DirectionAdjacency([[1.0]]))
        >>> round(known.detection(0.05), 4)
        0.1261
        """
        return float(detection(self.loss, checked_rate(false_alarm, "false_alarm")))

    @property
    def advantage(self) -> float:
        """The largest excess of detections over false alarms of any test, delta at epsilon 0."""
        return self.delta(0.0)

    @property
    def exact(self) -> tuple[str, ...]:
        """Names of the numbers that a hidden move attains. The others are upper bounds."""
        return exact_measures(self.loss)


@dataclass(frozen=True)
class PrivacyGuarantee(Accounted, Saved):
    """Promise differential privacy, with adjacency, horizon and number of releases.

    Made by ``Mechanism.guarantee``, by designs and by loops, or by `black_box` for a
    release made elsewhere. As a string it is four labelled lines, `explain` says all of
    it, and `sentence` is one line.
    Its numbers are rounded up. It adds only to guarantees with the same adjacency,
    manifold, horizon, window and models.

    Attributes
    ----------
    loss : PrivacyLoss
        The numbers; the guarantee's own methods ask it.
    scope : Scope
        Adjacency, manifold and horizon, with assumptions and caveats.
    releases : int
        How many releases of the same secret are counted.
    quoted_delta : float
        The delta at which the text quotes epsilon, or a larger one where foreign releases
        leave none. It has no other meaning.
    correlations : Correlations or None
        Correlations of changes of a signal at a distance, where they are known.

    See Also
    --------
    PrivacyBudget, PrivacyLedger, audit

    Examples
    --------
    >>> from privcontrol.core import *
    >>> budget = PrivacyBudget(epsilon=1, delta=1e-2)
    >>> query = LinearQuery([[1.0]])
    >>> guarantee = design_gaussian(query, DirectionAdjacency([[2.0]]), budget).guarantee
    >>> round(guarantee.gdp, 4), guarantee.satisfies(budget)
    (0.5325, True)
    >>> round((guarantee + guarantee).gdp / guarantee.gdp, 4)
    1.4142
    """

    loss: PrivacyLoss
    scope: Scope
    releases: int = 1
    quoted_delta: float = field(default=1e-5, compare=False)
    correlations: Correlations | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        instance_of(self.loss, PrivacyLoss, "loss")
        instance_of(self.scope, Scope, "scope")
        positive_integer(self.releases, "releases")
        checked_delta(self.quoted_delta)

    @classmethod
    def black_box(
        cls,
        budget: PrivacyBudget,
        adjacency: Hidden | Scope,
        *,
        manifold: Data | None = None,
    ) -> PrivacyGuarantee:
        """Return the guarantee of a foreign release of which only (epsilon, delta) is known.

        Parameters
        ----------
        budget : PrivacyBudget
            The guarantee of the release for this adjacency, taken at its word.
        adjacency : Adjacency or Scope
            The secret of the promise. The scope of another guarantee means its secret,
            so the two compose.
        manifold : AffineManifold, optional
            Where the data live. Without it the release composes with other foreign
            releases for the same adjacency only.

        Returns
        -------
        PrivacyGuarantee

        Raises
        ------
        TypeError
            If an argument is of another type.
        ValueError
            If the budget has a leak, whose growth for larger moves depends on the noise;
            says which (epsilon, delta) it implies.

        Examples
        --------
        >>> from privcontrol.core import *
        >>> budget = PrivacyBudget(epsilon=0.5)
        >>> foreign = PrivacyGuarantee.black_box(budget, DirectionAdjacency([[1.0]]))
        >>> (foreign + foreign).epsilon(0.0)
        1.0
        """
        budget = checked_budget(budget)
        if not isinstance(adjacency, Hidden | Scope):
            raise TypeError(
                "adjacency: expected an Adjacency or a guarantee's scope, got "
                f"{type(adjacency).__name__}"
            )
        if isinstance(adjacency, Scope):
            scope = adjacency
        elif manifold is None:
            scope = Scope.foreign(adjacency)
        else:
            scope = Scope.of(adjacency, manifold)
        assumptions = (*scope.assumptions, "a foreign release keeps its promise")
        scope = replace(scope, assumptions=assumptions, released=ELSEWHERE)
        if budget.leak:
            delta = min(2 * budget.leak, 0.999)
            epsilon = PrivacyLoss.gaussian(budget.shift()).epsilon(delta - budget.leak)
            raise ValueError(
                "budget: expected gdp without a leak, whose growth for larger moves depends "
                f"on the noise; pass PrivacyBudget(epsilon={shown(epsilon)}, "
                f"delta={shown(delta)}), which it implies"
            )
        if budget.gdp is not None:
            loss = PrivacyLoss.gaussian(budget.gdp, exact=False, proportional=False)
            return cls(loss, scope)
        loss = PrivacyLoss.black_box([(*budget.pair, 1)])
        return cls(loss, scope, 1, budget.delta or cls.quoted_delta)

    def compose(self, *others: PrivacyGuarantee) -> PrivacyGuarantee:
        """Return the guarantee of all these releases of the same secret together.

        Two guarantees about a trajectory are releases of the same samples, such as two
        runs from one secret start.

        Parameters
        ----------
        *others : PrivacyGuarantee
            Of other releases of the same secret.

        Returns
        -------
        PrivacyGuarantee

        Raises
        ------
        ValueError
            If adjacency, manifold, horizon, window or models differ, because a move of
            one secret is not a move of another.
        TypeError
            If one is no `PrivacyGuarantee`; says how to make it one.

        Examples
        --------
        >>> from privcontrol.core import *
        >>> budget = PrivacyBudget(epsilon=1.0)
        >>> known = PrivacyGuarantee.black_box(budget, DirectionAdjacency([[1.0]]))
        >>> known.compose(known).epsilon(0.0)
        2.0
        """
        for other in others:
            self._same_secret(checked_guarantee(other))
        together = (self, *others)
        is_alike = all(one.correlations == self.correlations for one in others)
        return PrivacyGuarantee(
            reduce(composed, [one.loss for one in together]),
            reduce(Scope.joined, [one.scope for one in together]),
            sum(one.releases for one in together),
            delta_of_all(together),
            self.correlations if is_alike else None,
        )

    def released(self, count: int) -> PrivacyGuarantee:
        """Return the guarantee of `count` independent releases by this very mechanism.

        Parameters
        ----------
        count : int

        Returns
        -------
        PrivacyGuarantee

        Raises
        ------
        ValueError, TypeError
            If the count is not a whole number of at least one.

        Examples
        --------
        >>> from privcontrol.core import *
        >>> budget = PrivacyBudget(epsilon=1.0)
        >>> known = PrivacyGuarantee.black_box(budget, DirectionAdjacency([[1.0]]))
        >>> known.released(3).epsilon(0.0)
        3.0
        """
        count = positive_integer(count, "count")
        delta = self.quoted_delta
        if is_black_box(self):
            delta = quotable(decimal(delta) * count)
        loss = self.loss.released(count)
        return replace(
            self, loss=loss, releases=self.releases * count, quoted_delta=delta
        )

    def repeated(
        self, count: int, *, separation: int | None = None
    ) -> PrivacyGuarantee:
        """Return the guarantee of several changes of one run, all of them together.

        A change that is hard to detect once is easier to detect when it comes every
        day. Where the guarantee knows the correlations of changes at a distance, after
        whitening the noise, n changes have about sqrt(n) times the shift of one,
        otherwise n times.

        Parameters
        ----------
        count : int
            Number of changes such as the guarantee is about.
        separation : int, optional
            Least number of samples from the start of one to the start of the next, on
            whichever signals. By default they may coincide. Where a list of plants
            has noise without a horizon a sample is a whole period, as the guarantee's
            assumptions say: changes s samples of the plant apart are s // period apart.

        Returns
        -------
        PrivacyGuarantee

        Raises
        ------
        ValueError
            If the guarantee is not about a change of a signal, for which `released`
            counts runs, or a number is below one.

        Examples
        --------
        >>> import privcontrol as pc
        >>> from privcontrol.core import *
        >>> person = pc.DisturbanceAdjacency(1.0, inputs="people")
        >>> once = PrivacyGuarantee.black_box(PrivacyBudget(gdp=0.5), person)
        >>> once.repeated(4).gdp / once.gdp
        4.0
        """
        count = positive_integer(count, "count")
        distance = separation
        if separation is not None:
            distance = sample_count(separation, "separation")
        change = self.scope.change
        if change is None:
            raise ValueError(
                "repeated: expected the guarantee of a change of a signal "
                f"(DisturbanceAdjacency), got one about: {self.scope.statement}; "
                "released(n) is the guarantee of n independent releases of it"
            )
        loss = self.loss
        growth = float(count)
        if self._is_linear:
            growth = change.growth(count, distance, self.correlations)
        if growth > 1:  # changes may add up at a wall, wherever they start
            loss = scaled(loss, Fraction(growth), float(count))
        return replace(self, loss=loss, scope=self.scope.repeated(count, distance))

    def any_shape(self) -> AnyShapeGuarantee:
        """Return the guarantee for a change of any shape in place of one that is kept.

        A change of the same length that is at no sample larger may be easier to detect
        than every constant level, since it can vary at frequencies where the noise is
        small.

        Returns
        -------
        AnyShapeGuarantee
            With the pattern of signs (k,) that shows most, as far as it is known, as
            ``.worst``.

        Raises
        ------
        ValueError
            If the guarantee is not about levels of a signal that are kept.

        Examples
        --------
        >>> import control as ct, privcontrol as pc
        >>> room = ct.ss(0.9, 1, 1, 0, 1.0, inputs=["people"])
        >>> noise = pc.design_output_noise(room, horizon=5, models="exact",
        ...     budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        ...     adjacency=pc.DisturbanceAdjacency({"people": 1.0}, duration=3, shape="level"))
        >>> noise.guarantee.any_shape().gdp >= noise.guarantee.gdp
        True
        """
        change = self.scope.change
        if change is None or not change.varying:
            raise ValueError(
                "any_shape: expected the guarantee of levels that are kept "
                "(DisturbanceAdjacency with a duration), got one about: "
                f"{self.scope.statement}"
            )
        # each sample of it is a level of its own
        growth, worst = float(change.longest or 1), None
        if self.correlations is not None and self._is_linear:
            growth, worst = self.correlations.any_shape()
            growth *= change.times_one(self.correlations)
        else:
            growth *= change.events
        nearer = float(change.events * (change.longest or 1))
        loss = self.loss
        if growth > 1:
            loss = scaled(loss, Fraction(growth), nearer)
        return AnyShapeGuarantee(
            loss,
            self.scope.of_any_shape(),
            self.releases,
            self.quoted_delta,
            worst=worst,
        )

    def _same_secret(self, other: PrivacyGuarantee) -> None:
        """Raise an error if the other guarantee is about another secret."""
        for name, (plural, advice) in _COMPARED.items():
            mine = getattr(self.scope, name)
            theirs = getattr(other.scope, name)
            if mine == theirs:
                continue
            if name == "adjacency":
                mine = self.scope.told_from(other.scope)
                theirs = other.scope.told_from(self.scope)
            raise ValueError(
                f"guarantees of different {plural} do not add: {mine} against {theirs}. "
                f"{advice}"
            )

    def __add__(self, other: object) -> PrivacyGuarantee:
        if not isinstance(other, PrivacyGuarantee):
            return NotImplemented
        return self.compose(other)

    def __radd__(self, other: object) -> PrivacyGuarantee:
        return self if other == 0 else NotImplemented  # for sum()

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form, from which `from_dict` restores an equal guarantee.

        Returns
        -------
        dict

        Examples
        --------
        >>> from privcontrol.core import *
        >>> budget = PrivacyBudget(epsilon=1.0)
        >>> known = PrivacyGuarantee.black_box(budget, DirectionAdjacency([[1.0]]))
        >>> known.to_dict()["releases"]
        1
        """
        return dict(encode(self))

    @curated
    def record(self, **known: Unpack[Curator]) -> Record:
        """Return the record for the registry of deployments of OpenDP and NIST.

        It is a dictionary, and its text is YAML. Fields that only the curator knows
        stay empty unless they are passed; the registry refuses empty fields.

        Parameters
        ----------
        name : str, optional
            Name of the publication.
        curators : sequence of str, optional
            Who publishes it. They are the record's authors too.
        use : str, optional
            Purpose of the publication.
        region : str, optional
            Which the data describe.
        date : datetime.date or str, optional
            Of the first publication, a text as "2026-12-31".

        Returns
        -------
        Record
            A dict, and YAML as text.

        Examples
        --------
        >>> from privcontrol.core import *
        >>> budget = PrivacyBudget(epsilon=0.5)
        >>> known = PrivacyGuarantee.black_box(budget, DirectionAdjacency([[1.0]]))
        >>> loss = known.record(name="A room")["deployment"]["privacy_loss"]
        >>> loss["privacy_unit"] == known.scope.statement
        True
        """
        return record(self, **known)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> PrivacyGuarantee:
        """Return the guarantee that `to_dict` wrote.

        Parameters
        ----------
        data : dict
            From `to_dict`.

        Returns
        -------
        PrivacyGuarantee

        Raises
        ------
        TypeError
            If the data are no dictionary.
        ValueError
            If something in it is missing or makes no guarantee.

        Examples
        --------
        >>> from privcontrol.core import *
        >>> budget = PrivacyBudget(epsilon=1.0)
        >>> known = PrivacyGuarantee.black_box(budget, DirectionAdjacency([[1.0]]))
        >>> PrivacyGuarantee.from_dict(known.to_dict()) == known
        True
        """
        if not isinstance(data, dict):
            raise TypeError(
                "data: expected the dictionary that to_dict wrote, got "
                f"{type(data).__name__}"
            )
        expected = (
            "data: expected the output of PrivacyGuarantee.to_dict, got something else"
        )
        try:
            found = decode(data)
        except _UNREADABLE as error:
            raise ValueError(f"{expected} ({type(error).__name__})") from error
        if not isinstance(found, cls):
            raise ValueError(expected)
        return found

    def _saved_fields(self) -> dict[str, object]:
        saved = super()._saved_fields()
        if self.correlations is not None:
            saved["correlations"] = self.correlations.settled()
        return saved

    @classmethod
    def _restored(cls, saved: dict[str, Any]) -> PrivacyGuarantee:
        names = [field.name for field in fields(cls)]
        return cls(**{name: saved[name] for name in names})

    def __repr__(self) -> str:
        size = f"epsilon = {shown(self.epsilon(self.quoted_delta))}"
        if math.isfinite(self.gdp):
            size = self._shown_gdp
        releases = counted(self.releases, "release")
        return f"PrivacyGuarantee({family_in_words(self.loss)}, {size}, {releases})"

    @property
    def _shown_gdp(self) -> str:
        """mu in words, rounded up, "at most" where epsilon is exact and mu is not."""
        words = f"{shown(self.gdp)}-GDP"
        if self.exact and "gdp" not in self.exact:
            return f"at most {words}"
        return words

    def _size(self) -> str:
        """Return epsilon at the quoted delta, mu, and whether they are attained."""
        delta = self.quoted_delta
        epsilon = self.epsilon(delta)
        if epsilon == math.inf and self.loss.failure > 0:
            delta = min(2 * self.loss.failure, 0.999)
            epsilon = self.epsilon(delta)
        size = "no finite epsilon"
        if math.isfinite(epsilon):
            size = f"epsilon = {shown(epsilon)}"
        notes = "exact" if attains(self.loss, delta) else "upper bound"
        if any(row.walls for row in self.loss.rows):
            mu, leak = shown(self.loss.shift), shown(self.loss.failure)
            notes = f"{mu}-GDP but for a leak of {leak}, {notes}"
        if math.isfinite(self.gdp):
            gdp = self._shown_gdp
            if gdp.startswith("at most"):
                notes = f"{notes}; {gdp}"
            else:
                notes = f"{gdp}, {notes}"
        return f"{size} at delta = {shown(delta)} ({notes})"

    def _horizon(self) -> str:
        """Return the samples that the guarantee is about, in words."""
        if not self.scope.horizon:
            return ""
        return horizon_of(self.scope.horizon).words(self.releases, self.scope.window)

    def _sum(self) -> str:
        """Return how foreign releases add, in words."""
        foreign = "black-box" in family_in_words(self.loss)
        return _FOREIGN_SUM if foreign else ""

    @property
    def sentence(self) -> str:
        """All of the guarantee in one line."""
        scope = self.scope
        horizon = self._horizon() or scope.domain
        if self.scope.horizon and math.isfinite(self.scope.horizon):
            horizon = f"horizon {horizon}"
        clauses = (
            f"{family_in_words(self.loss)} differential privacy, {self._size()}, for "
            f"adjacency: {scope.statement}",
            horizon,
            counted(self.releases, "release"),
            self._sum(),
            scope.released,
            _clause("assumes ", scope.assumptions),
            _clause("does not hide ", self._bare()),
        )
        return sentences.visible("; ".join(filter(None, clauses)) + ".")

    def _summary(self) -> dict[str, tuple[str, ...]]:
        """Return what everybody has to read as label and clauses."""
        scope = self.scope
        kind = family_in_words(self.loss)
        if not self._sum():
            kind = f"{kind} noise"
        releases = f"{kind}, {counted(self.releases, 'release')}"
        share = shown(100 * self.detection())
        is_run = self.scope.horizon is not None and self.releases == 1
        cases = "runs" if is_run else "cases"
        differs = "secret" if scope.has_event else ""
        if scope.change is not None:
            differs = scope.change.differs
        meaning = sentences.meaning(FALSE_ALARM, share, cases, differs)
        return {
            "Budget": tuple(filter(None, (self._size(), releases, self._horizon()))),
            "Meaning": (meaning,),
            "Hides": (scope.statement,),
            "Not hidden": self._bare() or ("nothing known",),
        }

    def _bare(self) -> tuple[str, ...]:
        """Return what is not hidden, a change that repeats first of all."""
        change = self.scope.change
        caveats = self.scope.caveats
        if self.loss.excludes:
            caveats = (*caveats, sentences.excluded(shown(self.loss.failure)))
        if change is None:
            return caveats
        varying: tuple[str, ...] = ()
        if change.varying:
            found = self.any_shape().detection()
            varying = (sentences.varying(change.within, found),)
        return (self._repeating(change), *caveats, *varying)

    def _repeating(self, change: Change) -> str:
        """Return how often a change that repeats is found, where that is known."""
        distance = self._distance
        if distance is None:
            return sentences.unknown_repetition(change.events, change.kind)
        room = self._fitting(distance)
        # fewer where a clause about the event must fit behind them
        few = (2, 7) if change.differs else (2, 7, 20)
        counts = [change.events * times for times in few]
        counts = [count for count in counts if count <= room] or [int(room)]
        shares = [self._found(count) for count in counts]
        apart = change.apart(distance)
        return sentences.repetition(counts, apart, shares, change.kind)

    @property
    def _distance(self) -> int | None:
        """Samples between changes at which the text says what repetition does.

        None where they are not known to show less than n times as clearly.
        """
        change = self.scope.change
        if change is None or change.distance is None:
            return None
        is_known = self.correlations is not None or change.energy
        if not is_known or not self._is_linear:
            return None
        distance = change.distance
        if self._fitting(distance) < 2 and change.longest and not change.separation:
            distance = change.longest  # one after the other
        return distance if self._fitting(distance) > change.events else None

    def _fitting(self, distance: int) -> float:
        """Return how many changes at a distance a run has room for."""
        return horizon_of(self.scope.horizon or math.inf).room(distance)

    @property
    def _is_linear(self) -> bool:
        """Whether a move times a number is shifted by as many times as much."""
        return self.loss.proportional and BLACK_BOX not in self.loss.kinds

    def _found(self, count: int) -> float:
        """Return how often so many changes at the text's distance are found at most."""
        return self.repeated(count, separation=self._distance).detection()

    def _repetitions(self) -> tuple[str, ...]:
        """Return what several changes at the text's distance do, in words."""
        change = self.scope.change
        distance = self._distance
        if change is None:
            return ()
        if distance is None:
            return (self._repeating(change),)
        room = self._fitting(distance)
        counts = [count for count in (1, 2, 5, 20, 60, 365) if count <= room]
        shares = [self._found(count) for count in counts]
        most = int(min(room, _MOST_CHANGES))
        levels = (0.25, 0.5, 0.9)
        reached = [self._most_within(level, most) for level in levels]
        apart = change.apart(distance, "sample")
        return (
            sentences.repetitions(counts, apart, shares, change.kind),
            sentences.lasting(levels, reached, room),
        )

    def _most_within(self, level: float, most: int) -> int:
        """Return how many changes at the text's distance are found no more often."""
        if self._found(1) > level:
            return 0
        kept, lost = 1, most + 1
        while lost - kept > 1:
            count = (kept + lost) // 2 if lost <= most else min(2 * kept, most)
            if self._found(count) <= level:
                kept = count
            else:
                lost = count
            if kept == most:
                break
        return kept

    def _details(self) -> dict[str, tuple[str, ...]]:
        """Return what `explain` adds to the summary."""
        scope = self.scope
        manner = "exactly, unless rng= is given: then simulated in double precision"
        if self.scope.horizon:
            manner = "exactly by a Gateway; simulations are in double precision"
            if self.scope.horizon == math.inf and sentences.BARE in self.scope.caveats:
                manner = sentences.NO_GATEWAY
        accounts = []
        for delta in (1e-2, 1e-3, 1e-5):
            epsilon = self.epsilon(delta)
            if math.isfinite(epsilon):
                accounts.append(f"epsilon = {shown(epsilon)} at delta = {delta:g}")
        if math.isfinite(self.zcdp):
            accounts.append(f"{shown(self.zcdp)}-zCDP")
        accounts.append(f"advantage {shown(100 * self.advantage)} %")
        repetition = self._repetitions()
        first = {}
        if RADIAL in self.loss.kinds:  # of which the typical loss is large
            first["Advantage"] = (f"{shown(100 * self.advantage)} % in one run",)
        return {
            **first,
            **({"Repetition": repetition} if repetition else {}),
            "Horizon": (self._horizon() or f"none; {scope.domain}",),
            "Assumes": scope.assumptions or ("nothing further",),
            "Released": (scope.released.removeprefix("released ") or manner,),
            "Accounts": tuple(filter(None, (*accounts, self._sum()))),
        }

    def explain(self) -> str:
        """Return the whole guarantee in labelled lines, with all that it assumes.

        ``str(guarantee)`` has four of them, each cut to one line. The accounts are the
        same promise at other deltas, in zero-concentrated differential privacy and as
        `advantage`.

        Returns
        -------
        str
            Several lines.

        Examples
        --------
        >>> from privcontrol.core import *
        >>> budget = PrivacyBudget(epsilon=0.5)
        >>> known = PrivacyGuarantee.black_box(budget, DirectionAdjacency([[1.0]]))
        >>> [line.partition(":")[0] for line in known.explain().splitlines()][4:7]
        ['Horizon', 'Assumes', 'Released']
        """
        lines = []
        for label, clauses in (self._summary() | self._details()).items():
            text = f"{label}:".ljust(sentences.MARGIN) + "; ".join(clauses)
            lines.append(_WRAPPER.fill(sentences.visible(text)))
        return "\n".join(lines)

    def __str__(self) -> str:
        lines = []
        for label, clauses in self._summary().items():
            lines.append(f"{label}:".ljust(sentences.MARGIN) + _in_one_line(clauses))
        return "\n".join(lines)

    def _labels(self) -> dict[str, str]:
        """Return the whole guarantee in words, by label."""
        rows = self._summary() | self._details()
        return {
            label: sentences.visible("; ".join(text)) for label, text in rows.items()
        }

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        return html_table(self._labels())


@dataclass(frozen=True)
class AnyShapeGuarantee(PrivacyGuarantee):
    """Promise what `PrivacyGuarantee.any_shape` returns.

    Attributes
    ----------
    worst : ndarray, shape (k,), or None
        Signs of the change that shows most, sample by sample, None where none is known.
    """

    worst: NDArray[np.float64] | None = field(default=None, compare=False, repr=False)


def released(guarantee: PrivacyGuarantee, manner: str) -> PrivacyGuarantee:
    """Return the same promise for releases made `EXACTLY`, or `SIMULATED`."""
    return replace(guarantee, scope=replace(guarantee.scope, released=manner))


def checked_guarantee(guarantee: PrivacyGuarantee) -> PrivacyGuarantee:
    """Return the guarantee itself, or raise an error that says how to come by one."""
    if isinstance(guarantee, PrivacyGuarantee):
        return guarantee
    hint = ""
    if isinstance(guarantee, PrivacyBudget):
        hint = (
            "; write PrivacyGuarantee.black_box(budget, adjacency) for a release of which "
            "only the pair is known"
        )
    elif isinstance(guarantee, (list, tuple)) or hasattr(guarantee, "__next__"):
        hint = "; unpack it: *guarantees"
    elif callable(getattr(type(guarantee), "guarantee", None)):
        hint = "; pass its .guarantee(adjacency)"
    elif "guarantee" in dir(guarantee):
        hint = "; pass its .guarantee"
    raise TypeError(
        f"expected a PrivacyGuarantee, got {type(guarantee).__name__}{hint}"
    )


def is_black_box(guarantee: PrivacyGuarantee) -> bool:
    """Return whether it is one of black boxes alone, whose deltas add."""
    return family_in_words(guarantee.loss) == "black-box" and guarantee.loss.failure > 0


def delta_of_all(guarantees: Sequence[PrivacyGuarantee]) -> float:
    """Return the delta at which releases together are quoted.

    It is the sum over black boxes, in sequence and in parallel over chunks (IP Propositions
    2 and 3), and the largest of the others.
    """
    failing = [one.quoted_delta for one in guarantees if is_black_box(one)]
    total = quotable(sum(map(decimal, failing), Fraction(0)))
    return max([total, *(one.quoted_delta for one in guarantees)])


def quotable(delta: Fraction) -> float:
    """Return the smallest float that is not below delta, and at most 0.999."""
    return min(float_up(delta), 0.999)


#: What a guarantee assumes that counts a sensor's steps beside the move.
ON_GRID = "readings on a grid of "
