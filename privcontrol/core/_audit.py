"""Lower bounds on epsilon, with stated confidence, from what a mechanism really draws.

A region tells releases at two adjacent inputs apart. It is chosen on draws of its own and
counted on fresh ones, so that the bound holds whatever the choice rested on. An audit can
refute a claim, and passing it proves nothing.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtr, ndtri

from privcontrol.core._random import Seed

from ._audit_pairs import (
    Pair,
    batched,
    learned,
    linear_mechanism,
    linear_pairs,
    own_adjacency,
)
from ._linalg import positive_integer, positive_number
from ._random import generator
from .adjacency import Adjacency, checked_adjacency
from .budget import PrivacyBudget
from .guarantee import PrivacyGuarantee, Scope
from .loss import GaussianLoss, checked_delta
from .mechanism import Mechanism

#: Part of the trials on which the region is chosen, or a classifier is learned.
_CHOOSING = 0.2
#: Fewer trials than this decide nothing.
_FEWEST = 1000
#: Where a claim is tested that quotes no delta of its own.
_DELTA = 1e-2


@dataclass(frozen=True, repr=False)
class AuditResult:
    """What `audit` found.

    Attributes
    ----------
    epsilon_lower : float
        With probability `confidence` or more over the draws, no smaller epsilon holds at `delta`.
    epsilon_claimed : float
    delta : float
    trials : int
        Releases drawn, at both inputs and for the choice of the region together.
    confidence : float

    Examples
    --------
    >>> AuditResult(epsilon_lower=0.86, epsilon_claimed=1.0, delta=1e-2, trials=200_000, confidence=0.999)
    AuditResult(passed=True, epsilon_lower=0.86, epsilon_claimed=1.0, delta=0.01, trials=200000, confidence=0.999)
    """

    epsilon_lower: float
    epsilon_claimed: float
    delta: float
    trials: int
    confidence: float

    @property
    def passed(self) -> bool:
        """Whether the draws are compatible with the claim, which False refutes."""
        return self.epsilon_lower <= self.epsilon_claimed

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"AuditResult(passed={self.passed}, {values})"

    def __str__(self) -> str:
        verdict = "passed (not refuted)" if self.passed else "FAILED"
        return (
            f"audit {verdict}: epsilon >= {self.epsilon_lower:.4g} at delta = "
            f"{self.delta:g} with confidence {self.confidence:g}, claimed "
            f"{self.epsilon_claimed:.4g}, {self.trials} trials"
        )


def audit(
    mechanism: Any,
    adjacency: Any = None,
    *,
    inputs: tuple[ArrayLike, ArrayLike] | None = None,
    claim: Any = None,
    delta: float | None = None,
    trials: int,
    confidence: float = 0.999,
    rng: Seed = None,
) -> AuditResult:
    """Test a privacy claim on draws from the mechanism itself.

    For a region S of releases, (epsilon, delta)-privacy demands P(S) <= e^epsilon Q(S) + delta, hence
    epsilon >= log(P(S)/Q(S)) + log(1 - delta/P(S)). Both terms are bounded by Clopper-Pearson intervals. S is a
    level set of the likelihood ratio of a worst move where the law of the noise is known, otherwise of a classifier;
    it is chosen on a fifth of the draws (a classifier takes another fifth) and counted on the others only.

    Parameters
    ----------
    mechanism : Mechanism, NoiseDesign, PrivateConsensus, OutputNoise, PrivateLoop or callable
        What holds a Mechanism as ``.mechanism`` is audited by the releases of that, an OutputNoise by its ``sample``, a
        loop by all that its ``simulate`` publishes. A callable ``mech(x, rng=...)`` takes and returns a batch.
    adjacency : Adjacency, optional
        What must be hidden; by default what output noise, a loop or a network was designed for. Not for a callable.
    inputs : (array_like, array_like), optional
        Two adjacent inputs of a callable, in place of the adjacency. A guarantee for a ball must hold them.
    claim : PrivacyBudget or PrivacyGuarantee, optional
        What is tested; the mechanism's own guarantee by default. It must be about this adjacency and manifold.
    delta : float, optional
        Where the claim is tested; by default the delta of a budget or the one that a guarantee quotes, and 0.01 where
        that is 0, leaves no finite epsilon or is not known. A smaller delta needs more trials.
    trials : int
        Number of releases to draw, at least 1000. Noise 10 % too small shows at one to two millions.
    confidence : float, optional
        Probability, at least, that the bound holds: a correct mechanism fails no more often than 1 - confidence.
    rng : None, int, SeedSequence or Generator, optional

    Returns
    -------
    AuditResult

    Raises
    ------
    ValueError
        If there is no claim to test, the claim is about another adjacency or manifold, or has no finite epsilon at this
        delta, or the releases are too large to learn a classifier.
    TypeError
        If the mechanism does not say which inputs are adjacent, or an argument is of another type.
    RuntimeError
        If a callable raised an exception; its text is withheld, it may show the inputs.

    Examples
    --------
    >>> from privcontrol.core import *
    >>> query, adjacency = LinearQuery([[1.0]]), DirectionAdjacency([[1.0]])
    >>> budget = PrivacyBudget(epsilon=1.0, delta=1e-2)
    >>> design = design_gaussian(query, adjacency, budget)
    >>> audit(design, adjacency, trials=100_000, rng=0).passed
    True
    >>> careless = Mechanism(query, GaussianNoise(0.8 * design.noise.factor))
    >>> print(audit(careless, adjacency, claim=budget, trials=200_000, rng=0))  # doctest: +ELLIPSIS
    audit FAILED: epsilon >= 1.1... at delta = 0.01 with confidence 0.999, claimed 1, 200000 trials

    References
    ----------
    Jagielski, Ullman, Oprea, "Auditing differentially private machine learning" (2020). The region: Neyman and
    Pearson; DPAM eq. (7) is its value for Gaussian noise.
    """
    rng = generator(rng)
    trials = positive_integer(trials, "trials")
    confidence = positive_number(confidence, "confidence")
    if trials < _FEWEST or confidence >= 1:
        raise ValueError(
            f"expected at least {_FEWEST} trials and a confidence below 1, got {trials} and {confidence}"
        )
    if adjacency is None and inputs is None:
        adjacency = own_adjacency(mechanism)
    if (adjacency is None) == (inputs is None):
        raise TypeError(
            "audit: expected an adjacency, or inputs=(x, x2) for a callable; exactly one of them"
        )
    if delta is None and claim is None and isinstance(mechanism, Mechanism):
        delta = _DELTA
    if inputs is None:
        claim = _claim(mechanism, checked_adjacency(adjacency), claim)
        epsilon, delta = _tested(claim, delta)
        pairs = linear_pairs(mechanism, adjacency, epsilon, delta)
    else:
        if claim is None:
            claim = getattr(mechanism, "guarantee", None)
        epsilon, delta = _tested(claim, delta)
        pairs = [batched(mechanism, inputs, claim)]
    bound = _largest_bound(pairs, delta, trials, confidence, rng)
    return AuditResult(bound, epsilon, delta, trials, confidence)


def _largest_bound(
    pairs: list[Pair],
    delta: float,
    trials: int,
    confidence: float,
    rng: np.random.Generator,
) -> float:
    """The bound of the region that was best on draws of its own, counted on the other draws."""
    left = trials
    for i, pair in enumerate(pairs):
        if not pair.scores:
            size = int(_CHOOSING * trials / 2)
            pairs[i] = learned(pair, size, rng)
            left -= 2 * size
    size = int(_CHOOSING * trials / (2 * len(pairs)))
    left -= 2 * size * len(pairs)
    # intervals about as wide as those of the counted draws, and somewhat wider against the luck of the best of many
    level = float(ndtr(ndtri(1 - confidence) * math.sqrt(2 * size / left) - 1.5))
    regions = [
        region for pair in pairs for region in _regions(pair, size, delta, level, rng)
    ]
    region = max(regions, key=lambda region: region.bound)
    # Each draw comes from either input by the toss of a coin, so that hits share out as P(S) : Q(S) exactly.
    size = int(rng.binomial(left, 0.5))
    hits = region.count(0, size, rng)
    strays = region.count(1, left - size, rng)
    return float(_epsilon_bound(hits, strays, size, delta, 1 - confidence))


def _epsilon_bound(
    hits: ArrayLike, strays: ArrayLike, size: int, delta: float, level: float
) -> NDArray:
    """Lower bound on epsilon from hits of S in `size` draws of P and strays of Q, wrong with probability `level`."""
    hits = np.asarray(hits, float)
    strays = np.asarray(strays, float)
    if delta > 0:  # two intervals, each with half of the level
        level = level / 2
    some = np.maximum(hits, 1.0)
    misses = np.maximum(size - some, 0)
    # of P(S) in P(S) + Q(S), and P(S) itself
    share = np.where(hits > 0, betaincinv(some, strays + 1, level), 0.0)
    mass = np.where(hits > 0, betaincinv(some, misses + 1, level), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.log(share) - np.log1p(-share)
        if delta > 0:
            bound = bound + np.log1p(-np.minimum(delta / mass, 1.0))
    return np.maximum(np.nan_to_num(bound, nan=0.0), 0.0)


def _claim(mechanism: Any, adjacency: Adjacency, claim: Any) -> Any:
    """What is tested, once it is known to be about this adjacency on the mechanism's manifold."""
    own = getattr(mechanism, "guarantee", None)
    whose = "the claim"
    if claim is None:
        whose = "the mechanism's guarantee"
        claim = own(adjacency) if callable(own) else own
    if not isinstance(claim, PrivacyGuarantee):
        return claim
    scope = claim.scope
    audited = Scope.of(adjacency, linear_mechanism(mechanism).query.manifold)
    known = [audited.domain]
    if isinstance(own, PrivacyGuarantee):
        known.append(own.scope.domain)
    if scope.adjacency != audited.adjacency:
        raise ValueError(
            f"claim: {whose} is for another adjacency, {scope.told_from(audited)}; audited is "
            f"{audited.told_from(scope)}. Pass the adjacency that it is about, or what is to be tested as claim"
        )
    if scope.domain not in known:
        raise ValueError(
            f"claim: {whose} is about another manifold, {scope.domain}; audited is {audited.domain}. Pass the mechanism "
            "that it is about, or a PrivacyBudget as claim"
        )
    return claim


def _tested(
    claim: PrivacyBudget | PrivacyGuarantee, delta: float | None
) -> tuple[float, float]:
    """The tested pair (epsilon, delta)."""
    if isinstance(claim, PrivacyBudget):
        if claim.gdp is None:
            return claim.pair
        if delta is None:
            delta = _DELTA
        delta = checked_delta(delta)
        return GaussianLoss(claim.gdp).epsilon(delta), delta
    if not isinstance(claim, PrivacyGuarantee):
        raise TypeError(
            f"claim: expected a PrivacyBudget or a PrivacyGuarantee, got {type(claim).__name__}"
        )
    if delta is None:
        delta = claim.quoted_delta
        if delta == 0 or not math.isfinite(claim.epsilon(delta)):
            delta = _DELTA
    delta = checked_delta(delta)
    epsilon = claim.epsilon(delta)
    if not math.isfinite(epsilon):
        raise ValueError(
            f"delta: the claim has no finite epsilon at delta = {delta:g}; test it at a larger delta"
        )
    return epsilon, delta


@dataclass(frozen=True)
class _Region:
    """The releases with sign * score > threshold; for -1 the inputs change their roles."""

    pair: Pair
    score: Callable
    sign: int
    threshold: float
    bound: float

    def count(self, which: int, size: int, rng: np.random.Generator) -> int:
        """Releases in S among `size` at the likelier (0) or the other input (1)."""
        if self.sign < 0:
            which = 1 - which
        total = 0
        for block in self.pair.blocks(which, size, rng):
            inside = self.sign * self.score(block) > self.threshold
            total += int(np.count_nonzero(inside))
        return total


def _regions(
    pair: Pair, size: int, delta: float, level: float, rng: np.random.Generator
) -> Iterator[_Region]:
    """For each score and sign the level set with the largest bound on `size` draws at either input."""
    drawn = []
    for which in (0, 1):
        blocks = pair.blocks(which, size, rng)
        drawn.append(
            np.hstack([[score(block) for score in pair.scores] for block in blocks])
        )
    ranks = np.unique(np.geomspace(min(10, size), size, 80).astype(int))
    for k, score in enumerate(pair.scores):
        for sign in (1, -1):
            likelier = 0 if sign > 0 else 1
            likely = np.sort(sign * drawn[likelier][k])
            other = np.sort(sign * drawn[1 - likelier][k])
            levels = likely[size - ranks]
            # an atom of the loss scatters by rounding
            levels = levels - 1e-9 * (1 + np.abs(levels))
            hits = size - np.searchsorted(likely, levels, side="right")
            strays = size - np.searchsorted(other, levels, side="right")
            bounds = _epsilon_bound(hits, strays, size, delta, level)
            top = int(bounds.argmax())
            yield _Region(pair, score, sign, float(levels[top]), float(bounds[top]))
