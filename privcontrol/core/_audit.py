"""Audit: a lower bound on epsilon, with stated confidence, from what a mechanism really draws.

Releases at two adjacent inputs are told apart by a region that is chosen on draws of its own and counted on fresh
ones, so that the bound holds whatever the choice rested on. An audit can refute a claim; passing proves nothing.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy.linalg
from scipy.special import betaincinv, ndtr, ndtri

from ._linalg import positive_integer, positive_number, real_array
from ._losses.gaussian import checked_delta
from ._losses.laplace_numbers import delta_bounds
from ._random import generator
from .budget import PrivacyBudget
from .errors import NotRealizableError
from .guarantee import PrivacyGuarantee
from .mechanism import Mechanism
from .noise import LaplaceNoise

#: Part of the trials on which the region is chosen, and as many again where a classifier is learned.
_CHOOSING = 0.2
#: Fewer trials than this decide nothing.
_FEWEST = 1000
#: Moves that are tried out before one is audited.
_MOVES = 3
#: Entries of one block of releases: 16 MB.
_BLOCK = 1 << 21
#: Most entries of a release for which a classifier is learned, and of the sample that it learns from.
_LEARNED, _LESSON = 2048, 1 << 24


@dataclass(frozen=True)
class AuditResult:
    """What an audit found; made by `audit`.

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
    >>> AuditResult(epsilon_lower=0.86, epsilon_claimed=1.0, delta=1e-2, trials=200_000, confidence=0.999).passed
    True
    """

    epsilon_lower: float
    epsilon_claimed: float
    delta: float
    trials: int
    confidence: float

    @property
    def passed(self):
        """Whether the draws are compatible with the claim; False refutes it at this confidence."""
        return self.epsilon_lower <= self.epsilon_claimed

    def __str__(self):
        verdict = "passed (not refuted)" if self.passed else "FAILED"
        return (
            f"audit {verdict}: epsilon >= {self.epsilon_lower:.4g} at delta = {self.delta:g} with confidence "
            f"{self.confidence:g}, claimed {self.epsilon_claimed:.4g}, {self.trials} trials"
        )


def audit(mechanism, adjacency=None, *, inputs=None, claim=None, delta=1e-2, trials, confidence=0.999, rng=None):
    """Test a privacy claim on draws from the mechanism itself.

    For a region S of releases, (epsilon, delta)-privacy demands P(S) <= e^epsilon Q(S) + delta, hence
    epsilon >= log(P(S)/Q(S)) + log(1 - delta/P(S)). Both terms are bounded by Clopper-Pearson intervals. S is a
    level set of the likelihood ratio of a worst move where the law of the noise is known, otherwise of a classifier;
    it is chosen on a fifth of the draws (a classifier takes another fifth) and counted on the others only.

    Parameters
    ----------
    mechanism : Mechanism, NoiseDesign, OutputNoise, PrivateLoop or callable
        An OutputNoise is audited through its ``sample``, a loop by a classifier of all that its ``simulate`` publishes
        (which leaves more to chance). A callable ``mech(x, rng=...)`` takes and returns a batch along axis 0.
    adjacency : Adjacency, optional
        What must be hidden; by default what an OutputNoise or a loop was designed for. Not for a callable.
    inputs : (array_like, array_like), optional
        Two adjacent inputs of a callable, in place of the adjacency. That they are adjacent is taken at your word.
    claim : PrivacyBudget or PrivacyGuarantee, optional
        What is tested; the mechanism's own guarantee by default.
    delta : float, optional
        Where a guarantee is tested; 0 for the pure epsilon of Laplace noise. A budget brings its own delta.
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
        If there is no claim to test, the claim is about another adjacency or has no finite epsilon at this delta, or
        the releases are too large to learn a classifier.

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
    rng, trials = generator(rng), positive_integer(trials, "trials")
    confidence = positive_number(confidence, "confidence")
    if trials < _FEWEST or confidence >= 1:
        raise ValueError(f"expected at least {_FEWEST} trials and a confidence below 1, got {trials} and {confidence}")
    if adjacency is None and inputs is None:
        adjacency = _own_adjacency(mechanism)
    if (adjacency is None) == (inputs is None):
        raise TypeError("audit: expected an adjacency, or inputs=(x, x2) for a callable; exactly one of them")
    epsilon, delta = _claimed(mechanism, adjacency, claim, delta)
    pairs = _pairs(mechanism, adjacency, epsilon, delta) if inputs is None else [_batched(mechanism, inputs)]
    left = trials
    for i, pair in enumerate(pairs):
        if not pair.scores:
            size = int(_CHOOSING * trials / 2)
            pairs[i], left = _learned(pair, size, rng), left - 2 * size
    size = int(_CHOOSING * trials / (2 * len(pairs)))
    left -= 2 * size * len(pairs)
    # intervals about as wide as those of the counted draws, and somewhat wider against the luck of the best of many
    level = float(ndtr(ndtri(1 - confidence) * math.sqrt(2 * size / left) - 1.5))
    region = max((_region(pair, size, delta, level, rng) for pair in pairs), key=lambda region: region.bound)
    # Each draw comes from either input by the toss of a coin, so that hits share out as P(S) : Q(S) exactly.
    size = int(rng.binomial(left, 0.5))
    hits, strays = region.count(0, size, rng), region.count(1, left - size, rng)
    bound = float(_epsilon_bound(hits, strays, size, delta, 1 - confidence))
    return AuditResult(bound, epsilon, delta, trials, confidence)


def _epsilon_bound(hits, strays, size, delta, level):
    """Lower bound on epsilon from hits of S in `size` draws of P and strays of Q; wrong with probability `level`."""
    level = level / 2 if delta > 0 else level
    hits, strays = np.asarray(hits, float), np.asarray(strays, float)
    some = np.maximum(hits, 1.0)
    share = np.where(hits > 0, betaincinv(some, strays + 1, level), 0.0)  # of P(S) in P(S) + Q(S)
    mass = np.where(hits > 0, betaincinv(some, np.maximum(size - some, 0) + 1, level), 0.0)  # P(S)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.log(share) - np.log1p(-share) + np.log1p(-np.minimum(delta / mass, 1.0) if delta else 0.0)
    return np.maximum(np.nan_to_num(bound, nan=0.0), 0.0)


def _own_adjacency(mechanism):
    """What the noise of a plant or loop was designed for; None of anything else."""
    noise = getattr(mechanism, "noise", None) if hasattr(mechanism, "simulate") else mechanism
    return getattr(getattr(noise, "request", None), "adjacency", None)


def _claimed(mechanism, adjacency, claim, delta):
    """The tested pair (epsilon, delta)."""
    if isinstance(claim, PrivacyBudget):
        return claim.epsilon, claim.delta
    own = claim is None
    if own:
        claim = getattr(mechanism, "guarantee", None)
        claim = claim(adjacency) if callable(claim) and adjacency is not None else claim
    if not isinstance(claim, PrivacyGuarantee):
        raise TypeError(f"claim: expected a PrivacyBudget or a PrivacyGuarantee, got {type(claim).__name__}")
    if own and adjacency is not None and claim.scope.adjacency != json.dumps(adjacency.to_dict(), sort_keys=True):
        raise ValueError(
            f"the mechanism's guarantee is for another adjacency, {claim.scope.statement}; pass what is tested as claim"
        )
    delta = checked_delta(delta)
    if not math.isfinite(epsilon := claim.epsilon(delta)):
        raise ValueError(f"delta: the claim has no finite epsilon at delta = {delta:g}; test it at a larger delta")
    return epsilon, delta


@dataclass(frozen=True)
class _Pair:
    """Two adjacent inputs: ``draw(which, size, rng)`` gives releases (size, entries) at input 0 or 1, and each score
    maps releases to numbers (size,) that are large where input 0 is the likelier."""

    draw: Callable
    entries: int
    scores: tuple = ()

    def blocks(self, which, size, rng):
        step = max(1, _BLOCK // self.entries)
        for start in range(0, size, step):
            yield self.draw(which, min(step, size - start), rng)


@dataclass(frozen=True)
class _Region:
    """S = {sign * score > threshold}; for sign -1 the inputs change their roles."""

    pair: _Pair
    score: Callable
    sign: int
    threshold: float
    bound: float

    def count(self, which, size, rng):
        """Releases in S among `size` at the likelier (0) or the other input (1)."""
        draws = self.pair.blocks(which if self.sign > 0 else 1 - which, size, rng)
        return sum(int(np.count_nonzero(self.sign * self.score(block) > self.threshold)) for block in draws)


def _region(pair, size, delta, level, rng):
    """The level set with the largest bound on `size` draws at either input."""
    values = [
        np.hstack([[score(block) for score in pair.scores] for block in pair.blocks(which, size, rng)])
        for which in (0, 1)
    ]
    best = None
    for k, score in enumerate(pair.scores):
        for sign in (1, -1):
            likely, other = (np.sort(sign * values[which][k]) for which in ((0, 1) if sign > 0 else (1, 0)))
            levels = likely[size - np.unique(np.geomspace(min(10, size), size, 80).astype(int))]
            levels = levels - 1e-9 * (1 + np.abs(levels))  # an atom of the loss scatters by rounding
            hits, strays = (size - np.searchsorted(sample, levels, side="right") for sample in (likely, other))
            bounds = _epsilon_bound(hits, strays, size, delta, level)
            top = int(bounds.argmax())
            if best is None or bounds[top] > best.bound:
                best = _Region(pair, score, sign, float(levels[top]), float(bounds[top]))
    return best


def _pairs(mechanism, adjacency, epsilon, delta):
    """Pairs of inputs along the worst few moves of a linear mechanism, or along the worst one for a loop."""
    simulate, design = getattr(mechanism, "simulate", None), getattr(mechanism, "design", None)
    if simulate is not None:
        if mechanism.noise is None:
            raise ValueError("mechanism: the loop has no noise and publishes the plain data; use with_noise")
        linear = mechanism.noise.design.mechanism
    else:
        linear = getattr(mechanism if design is None else design, "mechanism", mechanism)
    if not isinstance(linear, Mechanism):
        raise TypeError(
            f"mechanism: {type(mechanism).__name__} does not say which inputs are adjacent; pass inputs=(x, x2)"
        )
    moves = _worst_moves(linear, adjacency, epsilon, delta)
    if simulate is not None:
        return [_published(mechanism, moves[: mechanism.plant.order, 0])]
    query, noise = linear.query, linear.noise
    images = query.matrix @ moves
    draws = [
        partial(_sampled, mechanism.sample, image) if design is not None else partial(_released, linear, move)
        for image, move in zip(images.T, moves.T)
    ]
    return [_Pair(draw, query.size, (_likelihood_ratio(noise, image),)) for draw, image in zip(draws, images.T)]


def _released(mechanism, move, which, size, rng):
    """Releases of the mechanism at x or x + move, less F x."""
    x = mechanism.query.manifold.origin
    return mechanism.release(x + which * move, size=size, rng=rng) - mechanism.query.matrix @ x


def _sampled(sample, image, which, size, rng):
    """Draws of output noise (p, size, T) as rows, time-major, moved by the image or not."""
    return sample(size, rng=rng).transpose(1, 2, 0).reshape(size, -1) + which * image


def _published(loop, move):
    """Everything that a loop publishes from the initial state 0 or from the move, row by row."""

    def draw(which, size, rng):
        published = loop.simulate(initial_state=which * move, trials=size, rng=rng).outputs
        return np.asarray(published).transpose(1, 0, 2).reshape(size, -1)

    return _Pair(draw, (len(loop.plant.C) + loop.plant.B.shape[1]) * loop.noise.horizon)


def _batched(mechanism, inputs):
    """Releases of a callable at two given inputs."""
    if not callable(mechanism):
        raise TypeError(f"inputs: expected a callable mech(x, rng=...), got {type(mechanism).__name__}")
    first, second = (real_array(np.atleast_1d(x), "inputs") for x in inputs)
    if first.shape != second.shape:
        raise ValueError(f"inputs: expected two arrays of one shape, got {first.shape} and {second.shape}")

    def draw(which, size, rng):
        batch = np.repeat((first, second)[which][None], size, axis=0)
        released = np.asarray(mechanism(batch, rng=rng), float)
        if released.shape[:1] != (size,):
            raise ValueError(f"mechanism: expected a batch of {size} releases along axis 0, got shape {released.shape}")
        return released.reshape(size, -1)

    return _Pair(draw, max(draw(0, 2, np.random.default_rng(0)).shape[1], first.size))


def _worst_moves(mechanism, adjacency, epsilon, delta):
    """Data-space moves (n, s) that show the most at the tested (epsilon, delta), no two of them nearly parallel."""
    manifold = mechanism.query.manifold
    moves = adjacency.moves(manifold)
    if not getattr(moves, "exact", True):
        raise ValueError(
            f"{type(adjacency).__name__} has no exact list of moves on this manifold, only a bound: a failure would refute "
            "nothing. Audit one of its moves: DirectionAdjacency"
        )
    try:
        shifts, _ = mechanism.shifts(moves, certified=False)  # they choose what is tested; the draws decide
    except NotRealizableError as error:  # a move that the noise leaves bare; nothing shows more
        return error.direction[:, None]
    laplace = isinstance(mechanism.noise, LaplaceNoise)
    columns = getattr(moves, "columns", None)
    if columns is None:  # an ellipsoid
        steepest = _steepest(shifts, 1 if laplace else 2)
        columns, shifts = moves.factor @ steepest, shifts @ steepest
    chosen = []
    for i in _order(np.abs(shifts), laplace, epsilon, delta):
        unit = shifts[:, i] / max(np.linalg.norm(shifts[:, i]), np.finfo(float).tiny)
        if all(abs(unit @ other) < 0.99 for _, other in chosen):
            chosen.append((i, unit))
        if len(chosen) == _MOVES:
            break
    return manifold.kernel @ columns[:, [i for i, _ in chosen]]


def _order(sizes, laplace, epsilon, delta):
    """Moves from worst to best; which Laplace move is worst depends on epsilon, and pure epsilon needs the 1-norm."""
    if not laplace:
        return np.argsort(-np.linalg.norm(sizes, axis=0), kind="stable")
    # among equal sums the move with the fewest coordinates shows its full loss most often
    order = np.argsort(-sizes.sum(axis=0) - 1e-6 * np.linalg.norm(sizes, axis=0), kind="stable")
    if delta == 0:
        return order
    few = np.union1d(order[:16], np.argsort(-np.linalg.norm(sizes, axis=0), kind="stable")[:16])
    return few[np.argsort([-delta_bounds(epsilon, sizes[:, i])[0] for i in few], kind="stable")]


def _steepest(shifts, norm):
    """Unit vectors u as columns at which ||shifts @ u|| is largest, or locally largest in the 1-norm."""
    found = scipy.linalg.svd(shifts, full_matrices=False)[2].T
    if norm == 1:
        for _ in range(50):
            found = shifts.T @ np.sign(shifts @ found)
            found = found / np.maximum(np.linalg.norm(found, axis=0), np.finfo(float).tiny)
    return found


def _likelihood_ratio(noise, image):
    """The score log P/Q of gamma against gamma + image, or a sharper one where the image leaves the noise's span."""
    shift = noise.whiten(image[:, None])[0]
    bare = image - (noise.factor * shift.T if noise.factor.ndim == 1 else shift.T @ noise.factor.T)[0]
    if np.linalg.norm(bare) > 1e-10 * np.linalg.norm(image):
        return lambda released: 0.5 - released @ (bare / (bare @ bare))
    if isinstance(noise, LaplaceNoise):
        return lambda released: _laplace_ratio(noise.whiten(released.T)[0], shift)
    return lambda released: (shift * (shift / 2 - noise.whiten(released.T)[0])).sum(axis=0)


def _laplace_ratio(eta, shift):
    return (np.abs(eta - shift) - np.abs(eta)).sum(axis=0)


def _learned(pair, size, rng):
    """The pair with two classifiers learned from at most `size` draws at either input."""
    if pair.entries > _LEARNED:
        raise ValueError(
            f"a release of {pair.entries} entries is too large to learn a classifier from, at most {_LEARNED}: audit "
            "a shorter horizon, or the noise of the loop, whose law is known"
        )
    size = min(size, max(_LESSON // pair.entries, 8 * pair.entries))
    samples = [np.vstack(list(pair.blocks(which, size, rng))) for which in (0, 1)]
    return replace(pair, scores=(_gaussian_classifier(*samples), _laplace_classifier(*samples)))


def _gaussian_classifier(first, second):
    """Fisher's linear discriminant. Its small ridge turns a difference without noise into a very large score."""
    middle, gap = (first.mean(axis=0) + second.mean(axis=0)) / 2, first.mean(axis=0) - second.mean(axis=0)
    spread = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 2)
    spread = np.maximum(spread, 1e-9 * max(np.abs(first).max(), np.abs(second).max(), 1e-300))
    covariance = (np.cov(first.T / spread[:, None]) + np.cov(second.T / spread[:, None])) / 2
    covariance = np.atleast_2d(covariance)
    covariance += 1e-13 * np.trace(covariance) * np.eye(len(covariance)) + 1e-30 * np.eye(len(covariance))
    direction = scipy.linalg.lstsq(covariance, gap / spread)[0] / spread
    return lambda released: (released - middle) @ direction


def _laplace_classifier(first, second):
    """Likelihood ratio of independent Laplace entries, each with its own centre and scale under either input."""
    centres = [np.median(sample, axis=0) for sample in (first, second)]
    floor = 1e-9 * max(np.abs(first).max(), np.abs(second).max(), 1e-300)
    scales = [np.maximum(np.abs(s - c).mean(axis=0), floor) for s, c in zip((first, second), centres)]
    offset = np.log(scales[1] / scales[0]).sum()

    def score(released):
        near, far = (np.abs(released - c) @ (1 / b) for c, b in zip(centres, scales))
        return far - near + offset

    return score
