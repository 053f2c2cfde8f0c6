"""Pairs of adjacent inputs to audit, with scores that tell their releases apart.

Along the worst moves of a linear mechanism the score is the likelihood ratio. Of anything
else classifiers are learned.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from ._linalg import real_array
from ._withheld import answer
from .adjacency import Adjacency
from .errors import NotRealizableError
from .guarantee import PrivacyGuarantee, Scope
from .inference.perturbation import Released
from .loss import LaplaceLoss
from .mechanism import Mechanism
from .noise import Noise

#: Moves that are tried out before one is audited.
_MOVES = 3

#: Moves by their sizes, among which the one of the largest delta is sought.
_CANDIDATES = 32

#: Entries of one block of releases, 16 MB.
_BLOCK = 1 << 21

#: Most entries of a release for which a classifier is learned, and of its sample.
_LEARNED = 2048
_LESSON = 1 << 24

_TINY = np.finfo(float).tiny

#: Maps releases to numbers (size,) that are large where input 0 is the likelier.
Score = Callable[[NDArray], NDArray]


@dataclass(frozen=True)
class Pair:
    """Two adjacent inputs with the scores that tell their releases apart.

    ``draw(which, size, rng)`` gives releases (size, entries) at input 0 or 1.
    """

    draw: Callable
    entries: int
    scores: tuple[Score, ...] = ()

    def blocks(
        self, which: int, size: int, rng: np.random.Generator
    ) -> Iterator[NDArray]:
        step = max(1, _BLOCK // self.entries)
        for start in range(0, size, step):
            yield self.draw(which, min(step, size - start), rng)


def linear_mechanism(mechanism: Any) -> Mechanism:
    """The linear mechanism that is audited, or that what is audited holds."""
    held = getattr(mechanism, "mechanism", mechanism)
    if isinstance(held, Mechanism):
        return held
    noise = mechanism
    if hasattr(mechanism, "simulate"):
        noise = getattr(mechanism, "noise", None)
        if noise is None:
            raise ValueError(
                "mechanism: the loop has no noise and publishes the plain data; use "
                "with_noise"
            )
    held = getattr(getattr(noise, "design", None), "mechanism", None)
    if isinstance(held, Mechanism):
        return held
    raise TypeError(
        f"mechanism: {type(mechanism).__name__} does not say which inputs are adjacent; "
        "pass inputs=(x, x2) for a callable, or a Mechanism, or what holds one as "
        ".mechanism"
    )


def own_adjacency(mechanism: Any) -> Adjacency | None:
    """What output noise, a loop or a network was designed for, if it is one of them."""
    noise = mechanism
    if hasattr(mechanism, "simulate"):
        noise = getattr(mechanism, "noise", None)
    designed = getattr(noise, "request", None) or mechanism
    return getattr(designed, "adjacency", None)


def linear_pairs(
    mechanism: Any, adjacency: Adjacency, epsilon: float, delta: float
) -> list[Pair]:
    """Pairs of inputs along the worst moves of a linear mechanism, one for a loop."""
    linear = linear_mechanism(mechanism)
    moves = _worst_moves(linear, adjacency, epsilon, delta)
    is_linear = isinstance(getattr(mechanism, "mechanism", mechanism), Mechanism)
    if not is_linear and hasattr(mechanism, "simulate"):
        return [_published(mechanism, moves[: mechanism.plant.order, 0])]
    pairs = []
    for move in moves.T:
        image = linear.query.matrix @ move
        if is_linear:
            draw = partial(_released, linear, move)
        else:
            draw = partial(_sampled, mechanism.sample, image)
        score = _likelihood_ratio(linear.noise, image)
        pairs.append(Pair(draw, linear.query.size, (score,)))
    return pairs


def _released(
    mechanism: Mechanism, move: NDArray, which: int, size: int, rng: np.random.Generator
) -> NDArray:
    """Releases of the mechanism at x or x + move, less F x."""
    query = mechanism.query
    x = query.manifold.origin
    released = mechanism.release(x + which * move, size=size, rng=rng)
    return released - query.matrix @ x


def _sampled(
    sample: Callable, image: NDArray, which: int, size: int, rng: np.random.Generator
) -> NDArray:
    """Draws of output noise (p, size, T) as rows, time-major, moved by the image or not."""
    drawn = sample(size, rng=rng).transpose(1, 2, 0)
    return drawn.reshape(size, -1) + which * image


def _published(loop: Any, move: NDArray) -> Pair:
    """Everything that a loop publishes from the initial state 0 or from the move."""

    def draw(which: int, size: int, rng: np.random.Generator) -> NDArray:
        response = loop.simulate(initial_state=which * move, trials=size, rng=rng)
        rows = np.asarray(response.outputs).transpose(1, 0, 2)
        return rows.reshape(size, -1)

    signals = len(loop.plant.C) + loop.plant.B.shape[1]
    return Pair(draw, signals * loop.noise.horizon)


def batched(mechanism: Any, inputs: tuple[ArrayLike, ArrayLike], claim: Any) -> Pair:
    """Releases of a callable at two given inputs."""
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
        _check_adjacent(first - second, claim.scope)

    def called(batch: NDArray, rng: np.random.Generator) -> NDArray:
        return np.asarray(mechanism(batch, rng=rng), float)

    advice = (
        "Try it on a batch of public inputs: mech(batch, rng=np.random.default_rng(0))"
    )
    ask: Callable = partial(answer, called, "mechanism", advice)
    if isinstance(mechanism, Released):  # it withholds what a model says by itself
        ask = called

    def draw(which: int, size: int, rng: np.random.Generator) -> NDArray:
        batch = np.repeat((first, second)[which][None], size, axis=0)
        released = ask(batch, rng=rng)
        if released.shape[:1] != (size,):
            raise ValueError(
                f"mechanism: expected a batch of {size} releases along axis 0, got "
                f"shape {released.shape}"
            )
        return released.reshape(size, -1)

    entries = draw(0, 2, np.random.default_rng(0)).shape[1]
    return Pair(draw, max(entries, first.size))


def _check_adjacent(difference: NDArray, scope: Scope) -> None:
    """Refuse inputs that a guarantee for a ball does not call adjacent."""
    ball = json.loads(scope.adjacency)
    if ball.get("type") != "BallAdjacency":
        return
    gap = np.linalg.norm(difference.ravel(), float(ball["norm"]))
    if gap > ball["radius"] * (1 + 1e-9):
        raise ValueError(
            f"inputs: expected two that the claim calls adjacent, so that "
            f"{scope.statement}; got two further apart, which refute nothing"
        )


def _worst_moves(
    mechanism: Mechanism, adjacency: Adjacency, epsilon: float, delta: float
) -> NDArray:
    """Data-space moves (n, s), no two nearly parallel, that show the most."""
    manifold = mechanism.query.manifold
    moves = adjacency.moves(manifold)
    if not moves.exact:
        raise ValueError(
            f"{type(adjacency).__name__} has no exact list of moves on this manifold, "
            "only a bound: a failure would refute nothing. Audit one of its moves: "
            "DirectionAdjacency"
        )
    try:  # the shifts choose what is tested, and the draws decide
        shifts, _ = mechanism.shifts(moves, certified=False)
    except NotRealizableError as error:
        direction: Any = error.direction  # the noise leaves it bare, nothing shows more
        return direction[:, None]
    columns = moves.vectors
    norm = mechanism.noise.shift_norm
    if moves.is_ball:
        steepest = _steepest(shifts, norm)
        columns = columns @ steepest
        shifts = shifts @ steepest
    chosen: list[int] = []
    units = shifts / np.maximum(np.linalg.norm(shifts, axis=0), _TINY)
    for i in _order(np.abs(shifts), norm, epsilon, delta).tolist():
        if (np.abs(units[:, i] @ units[:, chosen]) < 0.99).all():
            chosen.append(i)
        if len(chosen) == _MOVES:
            break
    return manifold.kernel @ columns[:, chosen]


def _order(sizes: NDArray, norm: float, epsilon: float, delta: float) -> NDArray:
    """The worst moves first.

    Which Laplace move is worst depends on epsilon, and pure epsilon needs the 1-norm.
    """
    lengths = np.linalg.norm(sizes, axis=0)
    if norm == 2:
        return np.argsort(-lengths, kind="stable")
    # among equal sums a move of few coordinates shows its full loss most often
    order = np.argsort(-sizes.sum(axis=0) - 1e-6 * lengths, kind="stable")
    if delta == 0:
        return order
    order = np.union1d(order[:_CANDIDATES], np.argsort(-lengths)[:_CANDIDATES])
    deltas = [LaplaceLoss.of(sizes[:, [i]]).delta(epsilon) for i in order]
    return order[np.argsort(-np.array(deltas), kind="stable")]


def _steepest(shifts: NDArray, norm: float) -> NDArray:
    """Unit vectors u as columns at which ||shifts @ u|| is (locally) largest."""
    found = scipy.linalg.svd(shifts, full_matrices=False)[2].T
    if norm == 1:
        for _ in range(50):
            found = shifts.T @ np.sign(shifts @ found)
            found = found / np.maximum(np.linalg.norm(found, axis=0), _TINY)
    return found


def _likelihood_ratio(noise: Noise, image: NDArray) -> Score:
    """The log likelihood ratio against the moved noise, or what leaves its span."""
    shift = noise.whiten(image[:, None])
    bare = image - noise.times(shift)[:, 0]
    if np.linalg.norm(bare) > 1e-10 * np.linalg.norm(image):
        return lambda released: 0.5 - released @ (bare / (bare @ bare))
    return lambda released: noise.log_likelihood_ratio(noise.whiten(released.T), shift)


def learned(pair: Pair, size: int, rng: np.random.Generator) -> Pair:
    """The pair with two classifiers learned from at most `size` draws at either input."""
    if pair.entries > _LEARNED:
        raise ValueError(
            f"a release of {pair.entries} entries is too large to learn a classifier "
            f"from, at most {_LEARNED}: audit a shorter horizon, or the noise of the "
            "loop, whose law is known"
        )
    size = min(size, max(_LESSON // pair.entries, 8 * pair.entries))
    first = np.vstack(list(pair.blocks(0, size, rng)))
    second = np.vstack(list(pair.blocks(1, size, rng)))
    scores = (_gaussian_classifier(first, second), _laplace_classifier(first, second))
    return replace(pair, scores=scores)


def _floor(first: NDArray, second: NDArray) -> float:
    """A spread that no sample falls below."""
    return 1e-9 * max(np.abs(first).max(), np.abs(second).max(), 1e-300)


def _gaussian_classifier(first: NDArray, second: NDArray) -> Score:
    """Fisher's linear discriminant. A gap without noise scores high."""
    gap = first.mean(axis=0) - second.mean(axis=0)
    middle = (first.mean(axis=0) + second.mean(axis=0)) / 2
    spread = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 2)
    spread = np.maximum(spread, _floor(first, second))
    covariance = np.cov(first.T / spread[:, None]) + np.cov(second.T / spread[:, None])
    covariance = np.atleast_2d(covariance / 2)
    ridge = 1e-13 * np.trace(covariance) + 1e-30
    covariance = covariance + ridge * np.eye(len(covariance))
    direction = scipy.linalg.lstsq(covariance, gap / spread)[0] / spread
    return lambda released: (released - middle) @ direction


def _laplace_classifier(first: NDArray, second: NDArray) -> Score:
    """Likelihood ratio of independent Laplace entries of fitted centres and scales."""
    floor = _floor(first, second)
    near = np.median(first, axis=0)
    far = np.median(second, axis=0)
    near_scale = np.maximum(np.abs(first - near).mean(axis=0), floor)
    far_scale = np.maximum(np.abs(second - far).mean(axis=0), floor)
    offset = np.log(far_scale / near_scale).sum()

    def score(released: NDArray) -> NDArray:
        loss = np.abs(released - far) @ (1 / far_scale)
        return loss - np.abs(released - near) @ (1 / near_scale) + offset

    return score
