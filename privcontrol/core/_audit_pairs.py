"""Pairs of adjacent inputs to audit: how releases are drawn at either, and the scores that tell them apart.

Along the worst moves of a linear mechanism the score is the likelihood ratio; of anything else classifiers are learned.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ._withheld import answer, private_array
from .adjacency import Adjacency
from .errors import NotRealizableError
from .inference.perturbation import Released
from .loss import LaplaceLoss
from .mechanism import Mechanism

#: Moves that are tried out before one is audited.
_MOVES = 3
#: Entries of one block of releases: 16 MB.
_BLOCK = 1 << 21
#: Most entries of a release for which a classifier is learned, and of the sample that it learns from.
_LEARNED, _LESSON = 2048, 1 << 24


@dataclass(frozen=True)
class Pair:
    """Two adjacent inputs: ``draw(which, size, rng)`` gives releases (size, entries) at input 0 or 1, and each score
    maps releases to numbers (size,) that are large where input 0 is the likelier."""

    draw: Callable
    entries: int
    scores: tuple = ()

    def blocks(
        self, which: int, size: int, rng: np.random.Generator
    ) -> Iterator[NDArray]:
        step = max(1, _BLOCK // self.entries)
        for start in range(0, size, step):
            yield self.draw(which, min(step, size - start), rng)


def linear_mechanism(mechanism: Any) -> Mechanism:
    """The linear mechanism in what is audited: itself, or what a design, a network, output noise or a loop holds.

    Raises
    ------
    TypeError
        If there is none; says what to pass.
    """
    held = getattr(mechanism, "mechanism", mechanism)
    if isinstance(held, Mechanism):
        return held
    noise = mechanism
    if (
        hasattr(mechanism, "simulate")
        and (noise := getattr(mechanism, "noise", None)) is None
    ):
        raise ValueError(
            "mechanism: the loop has no noise and publishes the plain data; use with_noise"
        )
    held = getattr(getattr(noise, "design", None), "mechanism", None)
    if isinstance(held, Mechanism):
        return held
    raise TypeError(
        f"mechanism: {type(mechanism).__name__} does not say which inputs are adjacent; pass inputs=(x, x2) for a "
        "callable, or a Mechanism, or what holds one as .mechanism"
    )


def own_adjacency(mechanism: Any) -> Adjacency | None:
    """What output noise, a loop or a network was designed for; None of anything else."""
    noise = (
        getattr(mechanism, "noise", None)
        if hasattr(mechanism, "simulate")
        else mechanism
    )
    request = getattr(noise, "request", None)
    return getattr(mechanism if request is None else request, "adjacency", None)


def linear_pairs(
    mechanism: Any, adjacency: Adjacency, epsilon: float, delta: float
) -> list[Pair]:
    """Pairs of inputs along the worst few moves of a linear mechanism, or along the worst one for a loop."""
    linear = linear_mechanism(mechanism)
    moves = _worst_moves(linear, adjacency, epsilon, delta)
    held = isinstance(getattr(mechanism, "mechanism", mechanism), Mechanism)
    if not held and hasattr(mechanism, "simulate"):
        return [_published(mechanism, moves[: mechanism.plant.order, 0])]
    query, noise = linear.query, linear.noise
    images = query.matrix @ moves
    draws = [
        partial(_released, linear, move)
        if held
        else partial(_sampled, mechanism.sample, image)
        for image, move in zip(images.T, moves.T)
    ]
    return [
        Pair(draw, query.size, (_likelihood_ratio(noise, image),))
        for draw, image in zip(draws, images.T)
    ]


def _released(
    mechanism: Mechanism, move: NDArray, which: int, size: int, rng: np.random.Generator
) -> NDArray:
    """Releases of the mechanism at x or x + move, less F x."""
    x = mechanism.query.manifold.origin
    return (
        mechanism.release(x + which * move, size=size, rng=rng)
        - mechanism.query.matrix @ x
    )


def _sampled(
    sample: Callable, image: NDArray, which: int, size: int, rng: np.random.Generator
) -> NDArray:
    """Draws of output noise (p, size, T) as rows, time-major, moved by the image or not."""
    return sample(size, rng=rng).transpose(1, 2, 0).reshape(size, -1) + which * image


def _published(loop: Any, move: NDArray) -> Pair:
    """Everything that a loop publishes from the initial state 0 or from the move, row by row."""

    def draw(which: int, size: int, rng: np.random.Generator) -> NDArray:
        published = loop.simulate(
            initial_state=which * move, trials=size, rng=rng
        ).outputs
        return np.asarray(published).transpose(1, 0, 2).reshape(size, -1)

    return Pair(draw, (len(loop.plant.C) + loop.plant.B.shape[1]) * loop.noise.horizon)


def batched(mechanism, inputs, claim):
    """Releases of a callable at two given inputs."""
    if not callable(mechanism):
        raise TypeError(
            f"inputs: expected a callable mech(x, rng=...), got {type(mechanism).__name__}"
        )
    first, second = (np.atleast_1d(private_array(x, "inputs")) for x in inputs)
    if first.shape != second.shape:
        raise ValueError(
            f"inputs: expected two arrays of one shape, got {first.shape} and {second.shape}"
        )
    scope = getattr(claim, "scope", None)  # a budget has none
    ball = json.loads(scope.adjacency) if scope is not None else {}
    if ball.get("type") == "BallAdjacency":
        gap = np.linalg.norm((first - second).ravel(), float(ball["norm"]))
        if gap > ball["radius"] * (1 + 1e-9):
            raise ValueError(
                f"inputs: expected two that the claim calls adjacent, so that {scope.statement}; got two further apart, "
                "which refute nothing"
            )

    def called(batch: NDArray, rng: np.random.Generator) -> NDArray:
        return np.asarray(mechanism(batch, rng=rng), float)

    def draw(which: int, size: int, rng: np.random.Generator) -> NDArray:
        released = ask(np.repeat((first, second)[which][None], size, axis=0), rng=rng)
        if released.shape[:1] != (size,):
            raise ValueError(
                f"mechanism: expected a batch of {size} releases along axis 0, got shape {released.shape}"
            )
        return released.reshape(size, -1)

    advice = (
        "Try it on a batch of public inputs: mech(batch, rng=np.random.default_rng(0))"
    )
    # this package's own withhold what a model says, and say the rest themselves
    ask = (
        called
        if isinstance(mechanism, Released)
        else partial(answer, called, "mechanism", advice)
    )
    return Pair(draw, max(draw(0, 2, np.random.default_rng(0)).shape[1], first.size))


def _worst_moves(
    mechanism: Mechanism, adjacency: Adjacency, epsilon: float, delta: float
) -> NDArray:
    """Data-space moves (n, s) that show the most at the tested (epsilon, delta), no two of them nearly parallel."""
    manifold = mechanism.query.manifold
    moves: Any = adjacency.moves(manifold)
    if not getattr(moves, "exact", True):
        raise ValueError(
            f"{type(adjacency).__name__} has no exact list of moves on this manifold, only a bound: a failure would refute "
            "nothing. Audit one of its moves: DirectionAdjacency"
        )
    try:
        shifts, _ = mechanism.shifts(
            moves, certified=False
        )  # they choose what is tested; the draws decide
    except (
        NotRealizableError
    ) as error:  # a move that the noise leaves bare; nothing shows more
        direction: Any = error.direction
        return direction[:, None]
    norm = mechanism.noise.shift_norm
    columns = getattr(moves, "columns", None)
    if columns is None:  # an ellipsoid
        steepest = _steepest(shifts, norm)
        columns, shifts = moves.factor @ steepest, shifts @ steepest
    chosen: list[tuple[int, NDArray]] = []
    for i in _order(np.abs(shifts), norm, epsilon, delta):
        unit = shifts[:, i] / max(np.linalg.norm(shifts[:, i]), np.finfo(float).tiny)
        if all(abs(unit @ other) < 0.99 for _, other in chosen):
            chosen.append((i, unit))
        if len(chosen) == _MOVES:
            break
    return manifold.kernel @ columns[:, [i for i, _ in chosen]]


def _order(sizes: NDArray, norm: float, epsilon: float, delta: float) -> NDArray:
    """Moves from worst to best; which Laplace move is worst depends on epsilon, and pure epsilon needs the 1-norm."""
    if norm == 2:
        return np.argsort(-np.linalg.norm(sizes, axis=0), kind="stable")
    # among equal sums the move with the fewest coordinates shows its full loss most often
    order = np.argsort(
        -sizes.sum(axis=0) - 1e-6 * np.linalg.norm(sizes, axis=0), kind="stable"
    )
    if delta == 0:
        return order
    few = np.union1d(
        order[:16], np.argsort(-np.linalg.norm(sizes, axis=0), kind="stable")[:16]
    )
    return few[
        np.argsort([-_laplace_delta(epsilon, sizes[:, i]) for i in few], kind="stable")
    ]


def _laplace_delta(epsilon: float, shifts: NDArray) -> float:
    """delta of one move, as it may be promised."""
    return LaplaceLoss.of(shifts[:, None]).delta(epsilon)


def _steepest(shifts: NDArray, norm: float) -> NDArray:
    """Unit vectors u as columns at which ||shifts @ u|| is largest, or locally largest in the 1-norm."""
    found = scipy.linalg.svd(shifts, full_matrices=False)[2].T
    if norm == 1:
        for _ in range(50):
            found = shifts.T @ np.sign(shifts @ found)
            found = found / np.maximum(
                np.linalg.norm(found, axis=0), np.finfo(float).tiny
            )
    return found


def _likelihood_ratio(noise: Any, image: NDArray) -> Callable[[NDArray], NDArray]:
    """The score log P/Q of gamma against gamma + image, or a sharper one where the image leaves the noise's span."""
    shift = noise.whiten(image[:, None])
    bare = image - noise.times(shift)[:, 0]
    if np.linalg.norm(bare) > 1e-10 * np.linalg.norm(image):
        return lambda released: 0.5 - released @ (bare / (bare @ bare))
    return lambda released: noise.log_likelihood_ratio(noise.whiten(released.T), shift)


def learned(pair: Pair, size: int, rng: np.random.Generator) -> Pair:
    """The pair with two classifiers learned from at most `size` draws at either input."""
    if pair.entries > _LEARNED:
        raise ValueError(
            f"a release of {pair.entries} entries is too large to learn a classifier from, at most {_LEARNED}: audit "
            "a shorter horizon, or the noise of the loop, whose law is known"
        )
    size = min(size, max(_LESSON // pair.entries, 8 * pair.entries))
    samples = [np.vstack(list(pair.blocks(which, size, rng))) for which in (0, 1)]
    return replace(
        pair, scores=(_gaussian_classifier(*samples), _laplace_classifier(*samples))
    )


def _gaussian_classifier(
    first: NDArray, second: NDArray
) -> Callable[[NDArray], NDArray]:
    """Fisher's linear discriminant. Its small ridge turns a difference without noise into a very large score."""
    middle, gap = (
        (first.mean(axis=0) + second.mean(axis=0)) / 2,
        first.mean(axis=0) - second.mean(axis=0),
    )
    spread = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 2)
    spread = np.maximum(
        spread, 1e-9 * max(np.abs(first).max(), np.abs(second).max(), 1e-300)
    )
    covariance = (
        np.cov(first.T / spread[:, None]) + np.cov(second.T / spread[:, None])
    ) / 2
    covariance = np.atleast_2d(covariance)
    covariance += 1e-13 * np.trace(covariance) * np.eye(
        len(covariance)
    ) + 1e-30 * np.eye(len(covariance))
    direction = scipy.linalg.lstsq(covariance, gap / spread)[0] / spread
    return lambda released: (released - middle) @ direction


def _laplace_classifier(
    first: NDArray, second: NDArray
) -> Callable[[NDArray], NDArray]:
    """Likelihood ratio of independent Laplace entries, each with its own centre and scale under either input."""
    centres = [np.median(sample, axis=0) for sample in (first, second)]
    floor = 1e-9 * max(np.abs(first).max(), np.abs(second).max(), 1e-300)
    scales = [
        np.maximum(np.abs(s - c).mean(axis=0), floor)
        for s, c in zip((first, second), centres)
    ]
    offset = np.log(scales[1] / scales[0]).sum()

    def score(released: NDArray) -> NDArray:
        near, far = (np.abs(released - c) @ (1 / b) for c, b in zip(centres, scales))
        return far - near + offset

    return score
