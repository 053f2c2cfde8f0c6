"""Privacy guarantees: what a release promises, for which secret, under which assumptions, in one sentence.

A guarantee is frozen data. It composes with others about the same secret only, and says so when asked to do more.
"""

import json
import math
from dataclasses import dataclass, field, replace

from ._linalg import positive_integer
from ._loss import GaussianLoss


@dataclass(frozen=True)
class Scope:
    """What a guarantee is about: two guarantees compose only if their scopes agree.

    ``adjacency`` is the adjacency's public description, ``statement`` the same in words, ``domain`` names the
    manifold, ``horizon`` its number of samples (None where the data are no trajectory). ``assumptions`` and
    ``caveats`` are clauses for the text: what is taken for granted, and what is not hidden.
    """

    adjacency: str
    statement: str
    domain: str
    horizon: int | None = None
    assumptions: tuple = field(default=(), compare=False)
    caveats: tuple = field(default=(), compare=False)

    @classmethod
    def of(cls, adjacency, manifold, *, assumptions=(), caveats=()):
        """The scope of an adjacency on a manifold."""
        return cls(
            json.dumps(adjacency.to_dict(), sort_keys=True),
            adjacency.statement,
            manifold.domain,
            manifold.horizon,
            tuple(assumptions),
            tuple(adjacency.caveats(manifold)) + tuple(caveats),
        )


_LOSSES = {"Gaussian": lambda d: GaussianLoss(d["gdp"], tuple(d["active"]), d["exact"])}


@dataclass(frozen=True)
class PrivacyGuarantee:
    """A differential-privacy guarantee with its adjacency, horizon and number of releases.

    Made by ``Mechanism.guarantee``, by designs and by loops; rarely by hand.

    Attributes
    ----------
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

    loss: object
    scope: Scope
    releases: int = 1
    #: The delta at which the text quotes epsilon; it has no other meaning.
    quoted_delta: float = field(default=1e-5, compare=False)

    def __post_init__(self):
        positive_integer(self.releases, "releases")

    def epsilon(self, delta):
        """The smallest epsilon for which (epsilon, delta) holds, rounded up; infinite if none does."""
        return self.loss.epsilon(delta)

    def delta(self, epsilon):
        """The smallest delta for which (epsilon, delta) holds, rounded up (DPAM eq. (7))."""
        return self.loss.delta(epsilon)

    def satisfies(self, budget):
        """Whether the guarantee meets a `PrivacyBudget`."""
        return self.loss.satisfies(budget)

    @property
    def gdp(self):
        """mu of Gaussian differential privacy (Dong, Roth, Su 2022)."""
        return self.loss.gdp

    @property
    def zcdp(self):
        """rho of zero-concentrated differential privacy (Bun, Steinke 2016)."""
        return self.loss.zcdp

    def rdp(self, alpha):
        """Renyi differential privacy of order alpha > 1 (Mironov 2017)."""
        if not alpha > 1:
            raise ValueError(f"alpha: expected an order above 1, got {alpha}")
        return self.loss.rdp(alpha)

    @property
    def exact(self):
        """True where the numbers are attained by a hidden move, False where they are upper bounds."""
        return self.loss.exact

    @property
    def horizon(self):
        """Number of samples covered, or None where the data are no trajectory."""
        return self.scope.horizon

    def compose(self, *others):
        """The guarantee of all these releases of the same secret together.

        Raises
        ------
        ValueError
            If adjacency, manifold or horizon differ: a move of one secret is not a move of another.
        """
        total = self
        for other in others:
            if not isinstance(other, PrivacyGuarantee):
                raise TypeError(f"compose: expected PrivacyGuarantee objects, got {type(other).__name__}")
            total._same_secret(other)
            loss = total.loss.compose(other.loss)
            scope = replace(
                total.scope,
                assumptions=tuple(dict.fromkeys(total.scope.assumptions + other.scope.assumptions)),
                caveats=tuple(c for c in total.scope.caveats if c in other.scope.caveats),
            )
            total = PrivacyGuarantee(loss, scope, total.releases + other.releases, total.quoted_delta)
        return total

    def _same_secret(self, other):
        for name in ("horizon", "adjacency", "domain"):
            mine, theirs = getattr(self.scope, name), getattr(other.scope, name)
            if mine != theirs:
                raise ValueError(
                    f"guarantees of different {'manifolds' if name == 'domain' else name.replace('adjacency', 'adjacencies')} "
                    f"do not add: {mine} against {theirs}. A hidden move of one secret is another move of the other; "
                    "stack both queries on one manifold and design or evaluate them together"
                )

    def __add__(self, other):
        return self.compose(other) if isinstance(other, PrivacyGuarantee) else NotImplemented

    def __radd__(self, other):
        return self if other == 0 else NotImplemented  # for sum()

    def to_dict(self):
        """JSON-ready form; `from_dict` restores an equal guarantee."""
        scope = {name: getattr(self.scope, name) for name in ("adjacency", "statement", "domain", "horizon")}
        scope |= {"assumptions": list(self.scope.assumptions), "caveats": list(self.scope.caveats)}
        return {
            "loss": self.loss.to_dict(),
            "scope": scope,
            "releases": self.releases,
            "quoted_delta": self.quoted_delta,
        }

    @classmethod
    def from_dict(cls, data):
        """The guarantee that `to_dict` wrote."""
        scope = dict(data["scope"])
        scope["assumptions"], scope["caveats"] = tuple(scope["assumptions"]), tuple(scope["caveats"])
        loss = _LOSSES[data["loss"]["family"]](data["loss"])
        return cls(loss, Scope(**scope), data["releases"], data["quoted_delta"])

    def __str__(self):
        epsilon = self.epsilon(self.quoted_delta)
        size = f"epsilon = {epsilon:.4g}" if math.isfinite(epsilon) else "no finite epsilon"
        parts = [
            f"{self.loss.family} differential privacy, {size} at delta = {self.quoted_delta:g} ({self.gdp:.4g}-GDP, "
            f"{'exact' if self.exact else 'upper bound'}), for adjacency: {self.scope.statement}",
            f"horizon {self.horizon} samples" if self.horizon else self.scope.domain,
            f"{self.releases} release{'s' * (self.releases > 1)}",
        ]
        if self.scope.assumptions:
            parts.append("assumes " + ", ".join(self.scope.assumptions))
        if self.scope.caveats:
            parts.append("does not hide " + ", ".join(self.scope.caveats))
        return "; ".join(parts) + "."
