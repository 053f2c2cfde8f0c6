"""Lower bounds on epsilon, with stated confidence, from what a mechanism really draws.

A region distinguishes releases at two adjacent inputs. It is chosen on draws of its own and
counted on fresh ones, so the bound holds for any choice. An audit can
refute a claim, and passing it proves nothing.

Along the worst moves of a linear mechanism a region is a level set of the likelihood
ratio. Of anything else it is one of independent entries with the same centres and spreads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtr, ndtri

from ..numerics.arguments import helpful_arguments
from ..numerics.checks import Seed, generator, positive_integer, real_array
from ..numerics.errors import NotRealizableError, answer
from ..numerics.linalg import column_norms
from ..numerics.thresholds import BLOCK, CERTAIN, MOST_HELD, MOST_STEPS
from ..privacy.budget import PrivacyBudget, checked_rate
from ..privacy.guarantee import PrivacyGuarantee, Scope, shown
from ..privacy.hidden import rounded_down
from ..privacy.loss import PrivacyLoss, checked_delta, composed
from .adjacency import Adjacency, checked_adjacency
from .inference import Released
from .manifold import AffineManifold
from .mechanism import Mechanism
from .noise import Noise, times, whiten
from .query import LinearQuery

#: Part of the trials on which the region is chosen, or scores are fitted.
_CHOOSING = 0.2
#: Fewer trials than this decide nothing.
_FEWEST = 1000
#: Where a claim is tested that quotes no delta of its own.
_DELTA = 1e-2
#: Moves that are tried out before one is audited.
_MOVES = 3

#: Maps releases to numbers (size,) that are large where input 0 is the likelier.
Score = Callable[[NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True, repr=False)
class AuditResult:
    """Hold the result of `audit`.

    Attributes
    ----------
    epsilon_lower : float
        No smaller epsilon holds at `delta`, but for a share 1 - `confidence` of audits.
    epsilon_claimed : float
    delta : float
    trials : int
        Releases drawn, at both inputs and for the choice of the region together.
    confidence : float

    See Also
    --------
    audit

    Examples
    --------
    >>> AuditResult(0.86, 1.0, delta=1e-2, trials=200_000, confidence=0.999).passed
    True
    """

    epsilon_lower: float
    epsilon_claimed: float
    delta: float
    trials: int
    confidence: float

    @property
    def passed(self) -> bool:
        """Return whether the draws are compatible with the claim, which False refutes."""
        return self.epsilon_lower <= self.epsilon_claimed

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"AuditResult(passed={self.passed}, {values})"

    def __str__(self) -> str:
        verdict = "passed (not refuted)" if self.passed else "FAILED"
        proven = shown(self.epsilon_lower, ROUND_FLOOR)
        return (
            f"audit {verdict}: epsilon >= {proven} at delta = {rounded_down(self.delta)} "
            f"with confidence {rounded_down(self.confidence)}, claimed "
            f"{self.epsilon_claimed:.4g}, {self.trials} trials"
        )


@helpful_arguments
def audit(
    mechanism: object,
    adjacency: Adjacency | None = None,
    *,
    inputs: tuple[ArrayLike, ArrayLike] | None = None,
    claim: PrivacyBudget | PrivacyGuarantee | None = None,
    delta: float | None = None,
    trials: int,
    confidence: float = 0.999,
    rng: Seed = None,
) -> AuditResult:
    """Test a privacy claim on draws from the mechanism itself.

    For a region S of releases, (epsilon, delta)-privacy demands P(S) <= e^epsilon Q(S)
    + delta, hence epsilon >= log(P(S)/Q(S)) + log(1 - delta/P(S)), which
    Clopper-Pearson intervals bound. S is a level set of the likelihood ratio of a worst
    move where the law of the noise is known, otherwise the ratio of independent
    entries, fitted to a fifth of the draws. It is chosen on another fifth and counted
    on the others only.

    Parameters
    ----------
    mechanism : Mechanism, NoiseDesign, OutputNoise, PrivateLoop or callable
        An OutputNoise is audited by its ``sample``, a loop by all that its ``simulate``
        publishes from two initial states; a secret that enters later is audited by the
        loop's noise. A callable ``mech(x, rng=...)`` takes and returns a batch.
    adjacency : Adjacency, optional
        The secret; by default the one that output noise or a loop was designed for.
        Not for a callable.
    inputs : (array_like, array_like), optional
        Two adjacent inputs of a callable, in place of the adjacency. A guarantee for a
        ball must hold them.
    claim : PrivacyBudget or PrivacyGuarantee, optional
        The claim to test; the mechanism's own guarantee by default. It must be about
        this adjacency and manifold.
    delta : float, optional
        Delta at which the claim is tested; by default the delta of a budget or the one
        that a guarantee quotes, and 0.01 where that is 0, leaves no finite epsilon or
        is not known. A smaller delta needs more trials.
    trials : int
        Number of releases to draw, at least 1000. Noise 10 % too small shows at one to two
        millions.
    confidence : float, optional
        A correct mechanism fails no more often than 1 - confidence.
    rng : None, int, SeedSequence or Generator, optional

    Returns
    -------
    AuditResult

    Raises
    ------
    ValueError
        If there is no claim to test, the claim is about another adjacency or manifold, or
        has no finite epsilon at this delta; if the secret of a loop is no initial state.
    TypeError
        If the mechanism does not say which inputs are adjacent, or an argument is of
        another type.
    RuntimeError
        If a callable raised an exception, whose text is withheld.

    See Also
    --------
    PrivacyGuarantee, core.AuditResult

    References
    ----------
    Jagielski, Ullman, Oprea, "Auditing differentially private machine learning" (2020).
    The region: Neyman and Pearson; DPAM eq. (7) is its value for Gaussian noise.

    Examples
    --------
    >>> from privcontrol.core import *
    >>> query, adjacency = LinearQuery([[1.0]]), DirectionAdjacency([[1.0]])
    >>> budget = PrivacyBudget(epsilon=1.0, delta=1e-2)
    >>> design = design_gaussian(query, adjacency, budget)
    >>> audit(design, adjacency, trials=100_000, rng=0).passed
    True
    >>> careless = Mechanism(query, GaussianNoise(0.8 * design.noise.factor))
    >>> audit(careless, adjacency, claim=budget, trials=200_000, rng=0).passed
    False
    """
    rng = generator(rng)
    trials = positive_integer(trials, "trials")
    confidence = checked_rate(confidence, "confidence")
    if not _FEWEST <= trials <= MOST_STEPS:
        raise ValueError(
            f"trials: expected {_FEWEST} to {MOST_STEPS:.0e}, which determine epsilon to three "
            f"digits, got {trials}"
        )
    if adjacency is None and inputs is None:  # what it was designed for
        designed = getattr(mechanism, "noise", None), mechanism
        for known in designed:
            known = getattr(known, "request", known)
            adjacency = getattr(known, "adjacency", None) or adjacency
    if delta is None and claim is None and isinstance(mechanism, Mechanism):
        delta = _DELTA
    if adjacency is not None and inputs is None:
        claim = _claim(mechanism, checked_adjacency(adjacency), claim)
        epsilon, delta = _tested(claim, delta)
        tests = _linear_tests(mechanism, adjacency)
    elif adjacency is None and inputs is not None:
        if claim is None:
            claim = getattr(mechanism, "guarantee", None)
        epsilon, delta = _tested(claim, delta)
        tests = [_batched(mechanism, inputs, claim)]
    else:
        raise TypeError(
            "audit: expected an adjacency, or inputs=(x, x2) for a callable; exactly one "
            "of them"
        )
    bound = _largest_bound(tests, delta, trials, confidence, rng)
    return AuditResult(bound, epsilon, delta, trials, confidence)


# -- claims --------------------------------------------------------------------------


def _claim(
    mechanism: object,
    adjacency: Adjacency,
    claim: PrivacyBudget | PrivacyGuarantee | None,
) -> PrivacyBudget | PrivacyGuarantee | None:
    """Return what is tested, if it is about this adjacency on the mechanism's manifold."""
    own = getattr(mechanism, "guarantee", None)
    whose = "the claim"
    if claim is None:
        whose = "the mechanism's guarantee"
        claim = own(adjacency) if callable(own) else own
    if not isinstance(claim, PrivacyGuarantee):
        return claim
    scope = claim.scope
    audited = Scope.of(adjacency, _linear_mechanism(mechanism).query.manifold)
    known = [audited.domain]
    if isinstance(own, PrivacyGuarantee):
        known.append(own.scope.domain)
    if scope.adjacency != audited.adjacency:
        raise ValueError(
            f"claim: {whose} is for another adjacency, {scope.told_from(audited)}; audited "
            f"is {audited.told_from(scope)}. Pass the adjacency that it is about, or the "
            "claim to be tested as claim="
        )
    if scope.domain not in known:
        raise ValueError(
            f"claim: {whose} is about another manifold, {scope.domain}; audited is "
            f"{audited.domain}. Pass the mechanism that it is about, or a PrivacyBudget as "
            "claim"
        )
    return claim


def _tested(
    claim: PrivacyBudget | PrivacyGuarantee | None, delta: float | None
) -> tuple[float, float]:
    """Return the tested pair (epsilon, delta)."""
    quoted = 0.0
    if isinstance(claim, PrivacyGuarantee):
        loss = claim.loss
        quoted = claim.quoted_delta
    elif not isinstance(claim, PrivacyBudget):
        raise TypeError(
            "claim: expected a PrivacyBudget or a PrivacyGuarantee, got "
            f"{type(claim).__name__}"
        )
    elif claim.gdp is not None:
        loss = PrivacyLoss.gaussian(claim.gdp)
        if claim.leak:
            loss = composed(loss, PrivacyLoss.black_box([(0.0, claim.leak, 1)]))
    elif delta is None:
        return claim.pair
    else:
        loss = PrivacyLoss.black_box([(*claim.pair, 1)])
    if delta is None:
        delta = quoted
        if delta == 0 or not math.isfinite(loss.epsilon(delta)):
            delta = _DELTA
    delta = checked_delta(delta)
    epsilon = loss.epsilon(delta)
    if not math.isfinite(epsilon):
        raise ValueError(
            f"delta: the claim has no finite epsilon at delta = {delta:g}; test it at a "
            "larger delta"
        )
    return epsilon, delta


# -- what is drawn -------------------------------------------------------------------


@dataclass(frozen=True)
class _Test:
    """Two adjacent inputs, and a score that is large where input 0 is the likelier.

    ``draw(which, size, rng)`` gives releases (size, entries) at input 0 or 1. Without a
    score one is fitted.
    """

    draw: Callable[[int, int, np.random.Generator], NDArray[np.float64]]
    entries: int
    score: Score | None = None

    def blocks(
        self, which: int, size: int, rng: np.random.Generator
    ) -> Iterator[NDArray[np.float64]]:
        """Draw releases, or their scores, in blocks that fit in memory."""
        step = max(1, BLOCK // self.entries)
        for start in range(0, size, step):
            released = self.draw(which, min(step, size - start), rng)
            yield released if self.score is None else self.score(released)


def _linear_mechanism(mechanism: object) -> Mechanism:
    """Return the linear mechanism that is audited, or that what is audited holds."""
    noise = mechanism
    if hasattr(mechanism, "simulate"):
        noise = getattr(mechanism, "noise", None)
    for holder in (mechanism, getattr(noise, "design", None)):
        held = getattr(holder, "mechanism", holder)
        if isinstance(held, Mechanism):
            return held
    if noise is None:
        raise ValueError(
            "mechanism: the loop has no noise and publishes the plain data; use with_noise"
        )
    if hasattr(noise, "over"):
        raise TypeError(
            "mechanism: noise without a horizon has no moves to draw from; audit some "
            "samples of it as a callable, lambda x, rng: x + noise.over(T).sample(len(x), "
            "rng=rng)[k] for output k, with two adjacent inputs=(x, x2) of T numbers and "
            "claim=noise.guarantee"
        )
    raise TypeError(
        f"mechanism: {type(mechanism).__name__} does not say which inputs are adjacent; "
        "pass inputs=(x, x2) for a callable, or a Mechanism, or an object that holds one "
        "as .mechanism"
    )


def _linear_tests(mechanism: object, adjacency: Adjacency) -> list[_Test]:
    """Return tests along the worst moves of a linear mechanism, one test of a loop."""
    linear = _linear_mechanism(mechanism)
    moves = _worst_moves(linear, adjacency)
    if isinstance(getattr(mechanism, "mechanism", mechanism), Mechanism):
        return [_along(linear, move, None) for move in moves.T]
    held: Any = mechanism  # output noise or a loop, of which the core knows nothing
    if not hasattr(held, "simulate"):
        return [_along(linear, move, held.sample) for move in moves.T]
    plant = held.plant
    images = linear.query.matrix @ moves
    starts = [
        move[: len(plant.A)]
        for move, image in zip(moves.T, images.T, strict=True)
        if _starts_from(plant, move[: len(plant.A)], image)
    ]
    if not starts:
        raise ValueError(
            "mechanism: a simulated loop begins at two initial states, and no worst move "
            "of this secret is one: disturbances would be left out, and any loop would "
            "pass. Audit the loop's noise (loop.noise)"
        )
    entries = sum(plant.D.shape) * held.noise.horizon
    return [_published(held.simulate, starts[0], entries)]


def _starts_from(
    plant: Any, state: NDArray[np.float64], image: NDArray[np.float64]
) -> bool:
    """Return whether a move of the initial state alone makes an image of the outputs."""
    outputs = []
    for _ in range(len(image) // len(plant.C)):
        outputs.append(plant.C @ state)
        state = plant.A @ state
    gap = np.linalg.norm(np.concatenate(outputs) - image)
    return bool(gap <= CERTAIN * np.linalg.norm(image))


def _along(
    linear: Mechanism, move: NDArray[np.float64], sample: Callable[..., Any] | None
) -> _Test:
    """Return the test of a move of the data, by the likelihood ratio.

    Releases are those of the mechanism at zero and at the move, without its manifold's
    offset, or samples (p, size, T) of output noise.
    """
    image = linear.query.matrix @ move
    manifold = linear.query.manifold
    if manifold.origin.any():  # next to a large one doubles would round the move
        manifold = AffineManifold.from_kernel(manifold.kernel, pinned="keep")
        query = LinearQuery(linear.query.matrix, manifold)
        linear = replace(linear, query=query)

    def draw(which: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        if sample is None:
            return linear.release(which * move, size=size, rng=rng)
        drawn = sample(size, rng=rng).transpose(1, 2, 0)  # time-major
        return drawn.reshape(size, -1) + which * image

    return _Test(draw, linear.query.size, _likelihood_ratio(linear.noise, image))


def _published(
    simulate: Callable[..., Any], move: NDArray[np.float64], entries: int
) -> _Test:
    """Return the test of all that a loop publishes from the state 0 or from the move."""

    def draw(which: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        response = simulate(initial_state=which * move, trials=size, rng=rng)
        rows = np.asarray(response.outputs).transpose(1, 0, 2)
        return rows.reshape(size, -1)

    return _Test(draw, entries)


def _batched(
    mechanism: object, inputs: tuple[ArrayLike, ArrayLike], claim: object
) -> _Test:
    """Return the test of a callable at two given inputs."""
    if not callable(mechanism):
        raise TypeError(
            "inputs: expected a callable mech(x, rng=...), got "
            f"{type(mechanism).__name__}"
        )
    first, second = (np.atleast_1d(real_array(x, "inputs")) for x in inputs)
    if first.shape != second.shape:
        raise ValueError(
            f"inputs: expected two arrays of one shape, got {first.shape} and "
            f"{second.shape}"
        )
    if isinstance(claim, PrivacyGuarantee):
        ball = json.loads(claim.scope.adjacency)
        if ball.get("type") == "BallAdjacency":
            apart = (first - second).ravel() / np.asarray(ball["radius"])
            gap = np.linalg.norm(apart, float(ball["norm"]))
            if gap > 1 + 1e-9:
                raise ValueError(
                    "inputs: expected two that the claim calls adjacent, so "
                    f"{claim.scope.statement}; got two further apart, which refute "
                    "nothing"
                )

    def called(
        batch: NDArray[np.float64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        return np.asarray(mechanism(batch, rng=rng), float)

    ask: Callable[..., Any] = called
    if not isinstance(mechanism, Released):  # it withholds what a model says by itself
        trial = "mech(batch, rng=np.random.default_rng(0))"
        advice = f"Try it on a batch of public inputs: {trial}"
        ask = partial(answer, called, "mechanism", advice)

    def draw(which: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        batch = np.repeat((first, second)[which][None], size, axis=0)
        released = ask(batch, rng=rng)
        if released.shape[:1] != (size,):
            raise ValueError(
                f"mechanism: expected a batch of {size} releases along axis 0, got "
                f"shape {released.shape}"
            )
        return released.reshape(size, -1)

    entries = draw(0, 2, np.random.default_rng(0)).shape[1]
    return _Test(draw, max(entries, first.size))


def _worst_moves(mechanism: Mechanism, adjacency: Adjacency) -> NDArray[np.float64]:
    """Return data-space moves (n, s) that show the most, in different directions."""
    manifold = mechanism.query.manifold
    moves = adjacency.moves(manifold)
    if not moves.exact:
        raise ValueError(
            f"{type(adjacency).__name__} has no exact list of moves on this manifold, "
            "only a bound: a failure would refute nothing. Audit one of its moves: "
            "DirectionAdjacency"
        )
    try:
        shifts, _ = mechanism.shifts(moves, certified=False)
    except NotRealizableError as error:
        # the noise leaves it bare, nothing shows more
        return np.asarray(error.direction)[:, None]
    columns = moves.vectors
    norm = mechanism.noise.shift_norm
    if moves.is_ball:
        # unit vectors u as columns at which ||shifts @ u|| is (locally) largest
        steepest = scipy.linalg.svd(shifts, full_matrices=False)[2].T
        for _ in range(50 if norm == 1 else 0):
            steepest = shifts.T @ np.sign(shifts @ steepest)
            steepest /= np.maximum(column_norms(steepest), np.finfo(float).tiny)
        columns = columns @ steepest
        shifts = shifts @ steepest
    # among equal sums a move of few coordinates shows its full loss most often
    dangers = column_norms(shifts, norm) + 1e-6 * column_norms(shifts)
    _, order = scipy.linalg.qr(shifts, mode="r", pivoting=True)
    chosen = dict.fromkeys([int(dangers.argmax()), *order[: _MOVES - 1].tolist()])
    return manifold.kernel @ columns[:, list(chosen)]


# -- scores --------------------------------------------------------------------------


def _likelihood_ratio(noise: Noise, image: NDArray[np.float64]) -> Score:
    """Return the log likelihood ratio against the moved noise, or what leaves its span."""
    shift = whiten(noise, image[:, None])
    bare = image - times(noise.factor, shift)[:, 0]
    if np.linalg.norm(bare) > 1e-10 * np.linalg.norm(image):
        direction = bare / (bare @ bare)
        return lambda released: 0.5 - released @ direction

    def score(released: NDArray[np.float64]) -> NDArray[np.float64]:
        eta = whiten(noise, released.T)
        return noise.log_likelihood_ratio(eta, shift)

    return score


def _fitted(test: _Test, size: int, rng: np.random.Generator) -> list[_Test]:
    """Return tests by the likelihood ratios of independent entries of two families.

    Centres and spreads of the entries are those of `size` draws at either input.
    """
    size = min(size, max(MOST_HELD // test.entries, 1))
    samples = [np.vstack(list(test.blocks(which, size, rng))) for which in (0, 1)]
    least = 1e-9 * max(1e-300, *(np.abs(drawn).max() for drawn in samples))
    tests = []
    for power in (2, 1):  # of Gaussian and Laplace densities
        laws = []
        for drawn in samples:
            centre = np.median(drawn, axis=0)
            moment = (np.abs(drawn - centre) ** power).mean(axis=0)
            laws.append((centre, np.maximum(moment ** (1 / power), least)))

        def score(
            released: NDArray[np.float64], power: int = power, laws: list[Any] = laws
        ) -> NDArray[np.float64]:
            near, far = (
                (np.abs(released - centre) / spread) ** power / power + np.log(spread)
                for centre, spread in laws
            )
            return (far - near).sum(axis=1)

        tests.append(replace(test, score=score))
    return tests


# -- regions and bounds --------------------------------------------------------------


def _largest_bound(
    tests: list[_Test],
    delta: float,
    trials: int,
    confidence: float,
    rng: np.random.Generator,
) -> float:
    """Return the bound of the region that was best on draws of its own, on the others.

    A region holds the releases with sign * score > threshold; for the sign -1 the inputs
    change their roles.
    """
    left = trials
    if tests[0].score is None:
        size = int(_CHOOSING * trials / 2)
        left -= 2 * size
        tests = _fitted(tests[0], size, rng)
    size = int(_CHOOSING * trials / (2 * len(tests)))
    left -= 2 * size * len(tests)
    # about as wide as the intervals of the counted draws, and somewhat wider against the
    # luck of the best of many
    level = float(ndtr(ndtri(1 - confidence) * math.sqrt(2 * size / left) - 1.5))
    regions = []
    for test in tests:
        drawn = [
            np.concatenate(list(test.blocks(which, size, rng))) for which in (0, 1)
        ]
        for sign in (1, -1):
            likely, other = (sign * scores for scores in drawn[::sign])
            bound, threshold = _best_threshold(likely, other, delta, level)
            regions.append((bound, threshold, sign, test))
    _, threshold, sign, test = max(regions, key=lambda region: region[0])

    def hits(which: int, size: int) -> int:
        blocks = test.blocks(which ^ (sign < 0), size, rng)
        return sum(int(np.sum(sign * scores > threshold)) for scores in blocks)

    # Each draw comes from either input by the toss of a coin, so hits share out as
    # P(S) : Q(S) exactly.
    size = int(rng.binomial(left, 0.5))
    inside = hits(0, size)
    strays = hits(1, left - size)
    return float(_epsilon_bound(inside, strays, size, delta, 1 - confidence))


def _best_threshold(
    likely: NDArray[np.float64], other: NDArray[np.float64], delta: float, level: float
) -> tuple[float, float]:
    """Return the largest bound of a level set of scores on its draws, and its threshold."""
    size = len(likely)
    ranks = np.unique(np.geomspace(min(10, size), size, 80).astype(int))
    likely = np.sort(likely)
    levels = likely[size - ranks]
    # an atom of the loss scatters by rounding
    finite = np.isfinite(levels)  # within a bound some neighbours are excluded
    levels[finite] -= 1e-9 * (1 + np.abs(levels[finite]))
    hits = size - np.searchsorted(likely, levels, side="right")
    strays = size - np.searchsorted(np.sort(other), levels, side="right")
    bounds = _epsilon_bound(hits, strays, size, delta, level)
    top = int(bounds.argmax())
    return float(bounds[top]), float(levels[top])


def _epsilon_bound(
    hits: ArrayLike, strays: ArrayLike, size: int, delta: float, level: float
) -> NDArray[np.float64]:
    """Return a lower bound on epsilon that is wrong with probability `level`.

    S was hit by `hits` of `size` draws of P, and by `strays` draws of Q.
    """
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
