"""Noise that never leaves a bound: where it is kept, what that leaks, how it is drawn.

The noise is drawn again until it is within, and never clipped. Entries that are drawn once
are kept within a ball. Other noise of a run is kept within the bound at every sample, and
drawn ahead as one. Runs of any length are drawn in blocks of innovations (`Blocks`). What a
move does to each wall of these rooms is its leak (`privcontrol.privacy.walls`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..core.adjacency import Adjacency
from ..numerics.balls import Ball, BallMatrix, ball_matrix, submatrix
from ..numerics.errors import PrivacyError
from ..numerics.linalg import EPS, product
from ..numerics.objects import ByContent
from ..numerics.saved import Saved
from ..numerics.thresholds import (
    BLOCK as NUMBERS_AT_ONCE,
    CERTAIN,
    MOST_HELD,
    NEGLIGIBLE,
    ROUNDED,
)
from ..privacy.horizon import NO_HORIZON, Horizon, Run, horizon_of
from ..privacy.walls import Wall, kept_share
from ..secrets.disturbance import disturbances
from ..secrets.secret import SecretInputs, all_responses
from ..systems.linear import (
    LinearSystem,
    Plant,
    orbit,
    response_from_rest,
    root,
    to_states,
)
from ._counted_walls import (
    CountedWalls,
    envelope,
    for_events,
    joined,
    leak_of,
    walls_at,
)
from ._endless import secrets_of
from ._shared_limits import shared_limits
from .drawn import Unbounded
from .parts import Filtered, NoisePart, PartSum, Structured

#: Draws so many standard entries.
Drawing: TypeAlias = Callable[[int], NDArray]

#: Samples of a block of innovations.
BLOCK = 300
#: By which rule the walls of blocks are chosen. A run goes on by the rule that it began by:
#: where blocks of two rules meet, the noise could pass its limit.
RULE = "own, near, far"
#: States up to which a block's end is kept in an ellipsoid.
_MOST_STATES = 24
#: Samples that responses are followed for.
_LONGEST = 1 << 15
#: Samples for which what noise makes up for a change may last in runs of any length.
_LATEST = 1 << 18
#: Speed: of these are followed at each wall; the others are bounded together.
_FOLLOWED = 40 * BLOCK
#: Samples and outputs of a run up to which all moves are compared.
_SHORT = 1000
#: Roundings of a sample, beside one for each of its terms, when a run goes in blocks.
_ROUNDINGS = 128
#: Draws after which no life within the bound is looked for any more.
MOST_DRAWS = 10_000

_TOO_MANY_STATES = (
    f"bound: noise of more than {_MOST_STATES} states is not kept within a bound in runs "
    "of any length; pass life=, the samples of a run that is drawn ahead as one, or a "
    "lower order="
)


@dataclass(frozen=True, eq=False)
class Bound(ByContent, Saved):
    """Limits of noise at each output, which it never passes.

    Attributes
    ----------
    limits : ndarray, shape (p,)
        Of its absolute value, infinite where there is none.
    changes : ndarray, shape (p,)
        Of its change from one sample to the next, infinite where there is none.
    samples : Horizon
        Of a run that is drawn ahead as one; none for blocks of innovations.
    """

    limits: NDArray
    changes: NDArray
    samples: Horizon = NO_HORIZON

    def __post_init__(self) -> None:
        object.__setattr__(self, "samples", horizon_of(self.samples))

    def draws(
        self, parts: Sequence[NoisePart], draw: Drawing
    ) -> Iterator[tuple[NDArray, NDArray]]:
        """Yield entries of one run that are within, block by block."""
        return Room.of(parts, self).draws(draw)

    def share(self, gamma: NDArray) -> float:
        """Return the largest part of a limit that noise (T, p) reaches."""
        parts = np.abs(gamma) / self.limits
        steps = np.abs(np.diff(gamma, axis=0)) / self.changes
        return float(max(parts.max(), steps.max(initial=0.0)))

    def share_of_size(self, sizes: NDArray) -> float:
        """Return the largest part of a limit that noise of sizes (p,) at most reaches."""
        return float(max((sizes / self.limits).max(), (2 * sizes / self.changes).max()))

    def scaled(self, factor: float) -> Bound:
        """Return limits that are as many times as far."""
        return Bound(self.limits * factor, self.changes * factor, self.samples)


# -- where noise is kept -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Room(Unbounded, ABC):
    """Where noise is kept, and how it is drawn there.

    Attributes
    ----------
    total : PartSum
    bound : Bound
    samples : int
        How many are drawn ahead as one.
    """

    total: PartSum
    bound: Bound
    samples: int

    @staticmethod
    def of(parts: Sequence[NoisePart], bound: Bound) -> Room:
        """Return the room of noise that never passes a bound.

        Raises
        ------
        PrivacyError
            If noise of this kind is not kept within a bound.
        """
        total = PartSum(tuple(parts))
        run = bound.samples
        if not run.ends:
            return Blocks.of_noise(total, bound)
        if total.consists_of(Structured) and len(total.parts) == 1:
            return Once(total, bound, run, _ball_radius(total, bound, run))
        return Life(total, bound, run)

    @abstractmethod
    def share(self, first: NDArray, fresh: NDArray) -> float:
        """Return the largest part of a limit that entries of a draw reach.

        They are those that are drawn once (once,), and those of its samples (T, width).
        Where all of a life is not drawn together, one of the two is empty.
        """

    @abstractmethod
    def uncertainty(self, first: NDArray, fresh: NDArray) -> float:
        """Return how far the share of `share` may be from the true one, by rounding.

        It is large where terms cancel that are much larger than the noise.
        """

    @abstractmethod
    def decided(self, first: BallMatrix, fresh: BallMatrix) -> bool | None:
        """Return whether entries (once, 1) and (T, width) in balls are within.

        None where the balls do not decide it.
        """

    @property
    @abstractmethod
    def acceptance(self) -> float:
        """The probability at least that a draw is within."""

    @abstractmethod
    def draws(self, draw: Drawing) -> Iterator[tuple[NDArray, NDArray]]:
        """Yield entries of one run that are within, block by block.

        ``draw(count)`` returns fresh standard entries (count,). The first ones of a run
        come with its first block.
        """

    @abstractmethod
    def walls(
        self, secret: Adjacency, plants: tuple[Plant, ...], shift: float
    ) -> tuple[Wall, ...]:
        """Return the walls that hidden moves of a privacy shift come nearer to."""

    def _within(
        self, draw: Drawing, once: int, samples: int
    ) -> tuple[NDArray, NDArray]:
        """Return the first draw whose share of a limit is at most one."""
        for _ in range(MOST_DRAWS):
            drawn = draw(once + samples * self.total.width)
            first, fresh = drawn[:once], drawn[once:].reshape(samples, self.total.width)
            if self.share(first, fresh) <= 1:
                return first, fresh
        raise PrivacyError(
            f"bound: none of {MOST_DRAWS} draws is within; raise the bound, or shorten "
            "the life"
        )


@dataclass(frozen=True, eq=False)
class Once(Room):
    """Entries that are drawn once, in a ball of a radius."""

    radius: float

    def share(self, first: NDArray, fresh: NDArray) -> float:
        return float(np.linalg.norm(first)) / self.radius

    def uncertainty(self, first: NDArray, fresh: NDArray) -> float:
        return len(first) * _ROUNDINGS * EPS * (1 + self.share(first, fresh))

    def decided(self, first: BallMatrix, fresh: BallMatrix) -> bool | None:
        square = (first.transpose() * first)[0, 0]
        return _at_most(square, Ball(self.radius) ** 2)

    @property
    def acceptance(self) -> float:
        return kept_share(self.radius, self.total.once)

    def draws(self, draw: Drawing) -> Iterator[tuple[NDArray, NDArray]]:
        first, _ = self._within(draw, self.total.once, 0)
        yield first, np.empty((self.samples, 0))

    def walls(
        self, secret: Adjacency, plants: tuple[Plant, ...], shift: float
    ) -> tuple[Wall, ...]:
        return (Wall(self.radius, shift, 1.0, self.total.once),)


@dataclass(frozen=True, eq=False)
class Life(Room):
    """All entries of a run, which are drawn ahead as one."""

    @property
    def ahead(self) -> int:
        return self.samples

    def spans(self, start: int, stop: int) -> list[range]:
        return []

    def share(self, first: NDArray, fresh: NDArray) -> float:
        return self.bound.share(self.total.signal(first[None], fresh[None])[0])

    def uncertainty(self, first: NDArray, fresh: NDArray) -> float:
        if self.total.model is None:
            sums = np.abs(self.total.responses(self.samples)).sum(axis=2)
            most = sums.max(axis=0) * np.abs(fresh).max(initial=0.0)
            errors = fresh.size * _ROUNDINGS * EPS * most
        else:
            errors, _ = self._recursion.errors(self.total.state_root, first, fresh)
        return self.bound.share_of_size(errors)

    @cached_property
    def _recursion(self) -> Recursion:
        if self.total.model is None:
            raise ValueError("correlated noise is no recursion")
        return Recursion.of(self.total.model, self.samples)

    def decided(self, first: BallMatrix, fresh: BallMatrix) -> bool | None:
        model = self.total.model
        if model is None:
            return _all_at_most(self._dense_shares(fresh))
        system = model.in_balls()
        state = ball_matrix(self.total.state_root) * first
        shares = []
        last = None
        for t in range(fresh.nrows()):
            entries = submatrix(fresh, [t], range(fresh.ncols())).transpose()
            gamma = system.C * state + system.D * entries
            shares += _shares(gamma, self.bound.limits.tolist())
            if last is not None:
                shares += _shares(gamma - last, self.bound.changes.tolist())
            state = system.A * state + system.B * entries
            last = gamma
        return _all_at_most(shares)

    def _dense_shares(self, fresh: BallMatrix) -> list[Ball]:
        """Return the parts of the limits that correlated noise reaches."""
        outputs = len(self.bound.limits)
        factor = self.total.responses(self.samples)
        flat = factor.reshape(len(factor) * outputs, -1)
        entries = BallMatrix(flat.shape[1], 1, fresh.entries())
        gamma = ball_matrix(flat) * entries
        shares = []
        for row in range(gamma.nrows()):
            limit = float(self.bound.limits[row % outputs])
            if limit < math.inf:
                shares.append(abs(gamma[row, 0]) / Ball(limit))
            change = float(self.bound.changes[row % outputs])
            if row >= outputs and change < math.inf:
                step = gamma[row, 0] - gamma[row - outputs, 0]
                shares.append(abs(step) / Ball(change))
        return shares

    @property
    def acceptance(self) -> float:
        stds, steps = deviations(self.total, Run(self.samples))
        total = 0.0
        for sizes, limits in ((stds, self.bound.limits), (steps, self.bound.changes)):
            for size, limit in zip(sizes.tolist(), limits.tolist(), strict=True):
                if size > 0 and limit < math.inf:
                    total += self.samples * math.log(kept_share(limit / size))
        return math.exp(total)

    def draws(self, draw: Drawing) -> Iterator[tuple[NDArray, NDArray]]:
        yield self._within(draw, self.total.once, self.samples)

    def walls(
        self, secret: Adjacency, plants: tuple[Plant, ...], shift: float
    ) -> tuple[Wall, ...]:
        moved = _responses(secret, plants, self.bound.samples)
        stds, steps = deviations(self.total, self.bound.samples)
        kinds = (
            (np.abs(moved), stds, self.bound.limits),
            (np.abs(np.diff(moved, axis=0, prepend=0.0)), steps, self.bound.changes),
        )
        walls: list[Wall] = []
        for sizes, deviation, limits in kinds:
            for output, limit in enumerate(limits.tolist()):
                if limit < math.inf and deviation[output] > 0:
                    moves = envelope(sizes[:, output]) / deviation[output]
                    walls += walls_at(limit / deviation[output], moves)
        return for_events(walls, secret)


@dataclass(frozen=True, eq=False)
class Recursion:
    """A system that is run in doubles, and how far its states may be from the true ones.

    Each step rounds the state anew, and the powers of A carry that on: an error at one
    sample is later at most |A^k| times as large, entry by entry.
    """

    system: LinearSystem
    lasting: NDArray  # sum (n, n) of |A^k| over a run

    @classmethod
    def of(cls, system: LinearSystem, samples: int) -> Recursion:
        """Return the recursion of a system over a run."""
        power = np.eye(system.order)
        lasting = np.zeros_like(power)
        for _ in range(samples):
            size = np.abs(power)
            lasting += size
            if size.max(initial=0.0) <= EPS * lasting.max(initial=0.0):
                break
            power = system.A @ power
        return cls(system, lasting)

    def errors(
        self, root: NDArray, first: NDArray, fresh: NDArray
    ) -> tuple[NDArray, NDArray]:
        """Return errors (p,) and (n,) of outputs and states.

        They are for entries (once,) and (T, width).
        """
        A, B, C, D = (np.abs(matrix) for matrix in self.system.matrices)
        states = self._largest_states(root, first, fresh)
        entries = np.abs(fresh).max(axis=0, initial=0.0)
        rounded = A @ states + B @ entries + np.abs(root) @ np.abs(first)
        carried = self.lasting @ rounded + states
        terms = self.system.order + self.system.input_count + len(first)
        rounding = (terms + _ROUNDINGS) * EPS
        return rounding * (C @ carried + D @ entries), rounding * carried

    def _largest_states(self, root: NDArray, first: NDArray, fresh: NDArray) -> NDArray:
        start = (root @ first)[None]
        states, last = to_states(self.system).run(start, fresh[None])
        return np.abs(np.concatenate([states[0], last])).max(axis=0)


def _shares(gamma: BallMatrix, limits: Sequence[float]) -> list[Ball]:
    """Return what parts of their limits some numbers (p, 1) reach."""
    shares = []
    for row, limit in enumerate(limits):
        if limit < math.inf:
            shares.append(abs(gamma[row, 0]) / Ball(limit))
    return shares


def _at_most(value: Ball, limit: Ball) -> bool | None:
    """Return whether a ball is at most a limit, None where the ball does not decide it."""
    if value <= limit:
        return True
    return False if value > limit else None


def _all_at_most(shares: Sequence[Ball]) -> bool | None:
    """Return whether all shares are at most one, None where the balls do not decide it."""
    found = [_at_most(share, Ball(1)) for share in shares]
    if False in found:
        return False
    return None if None in found else True


def _ball_radius(total: PartSum, bound: Bound, horizon: int) -> float:
    """Return the largest radius of the entries at which no output passes its limit."""
    responses, _ = total.parts[0]._impulses(horizon)
    lengths = np.linalg.norm(responses, axis=2).max(axis=0)
    steps = np.linalg.norm(np.diff(responses, axis=0), axis=2).max(axis=0, initial=0.0)
    radius = math.inf
    for sizes, limits in ((lengths, bound.limits), (steps, bound.changes)):
        for size, limit in zip(sizes.tolist(), limits.tolist(), strict=True):
            if size > 0:
                radius = min(radius, limit / size / (1 + ROUNDED))
    return radius


def deviations(total: PartSum, horizon: Horizon) -> tuple[NDArray, NDArray]:
    """Return the largest deviations (p,) of the noise, and of its change in a sample."""
    if not horizon.ends or _is_stationary(total):
        now = np.diag(total.covariance(0, 0))
        shared = np.diag(total.covariance(1, 0))
        steps = 2 * np.maximum(now - shared, 0.0)
        return np.sqrt(now) * (1 + ROUNDED), np.sqrt(steps) * (1 + ROUNDED)
    stds = np.sqrt(total.variances(horizon).max(axis=0)) * (1 + ROUNDED)
    if total.model is not None:
        once, fresh = total._impulses(horizon)
        steps = np.diff(fresh, axis=0, prepend=0.0)
        arrived = np.cumsum(np.sum(steps**2, axis=2), axis=0)
        begun = np.sum(np.diff(once, axis=0, prepend=once[:1]) ** 2, axis=2)
        return stds, np.sqrt((arrived + begun).max(axis=0)) * (1 + ROUNDED)
    every = np.diff(total.responses(horizon), axis=0)
    changes = np.sum(every**2, axis=2).max(axis=0, initial=0.0) + 2 * total.white**2
    return stds, np.sqrt(changes) * (1 + ROUNDED)


def _is_stationary(total: PartSum) -> bool:
    """Return whether all parts keep their law over time."""
    for part in total.parts:
        is_filtered = isinstance(part, Filtered) and part.starts_stationary
        is_white = part.model is not None and part.model.order == 0
        if not (is_filtered or is_white):
            return False
    return True


# -- what a move does to the walls ---------------------------------------------------------


def walls_of(
    parts: Sequence[NoisePart],
    secret: Adjacency,
    plants: Sequence[Plant],
    bound: Bound,
    shift: float,
) -> tuple[Wall, ...]:
    """Return the walls that hidden moves come nearer to.

    ``shift`` is the certified privacy shift.

    Raises
    ------
    PrivacyError
        If noise or secret of this kind have no such bound.
    """
    return _walls_for(tuple(parts), secret, tuple(plants), bound, shift)


@lru_cache(maxsize=8)  # a design asks again for what it found
def _walls_for(
    parts: tuple[NoisePart, ...],
    secret: Adjacency,
    plants: tuple[Plant, ...],
    bound: Bound,
    shift: float,
) -> tuple[Wall, ...]:
    return Room.of(parts, bound).walls(secret, plants, shift)


def _secrets(secret: Adjacency, plants: Sequence[Plant]) -> list[SecretInputs]:
    """Return the secret under each plant."""
    return [secrets_of(secret, [plant])[0] for plant in plants]


@lru_cache(maxsize=4)  # a search for a size asks again and again
def _responses(secret: Adjacency, plants: tuple[Plant, ...], horizon: float) -> NDArray:
    """Return responses (T, p, M) of the outputs to hidden moves, or larger ones."""
    outputs = len(plants[0].C)
    enters = len(disturbances(secret)) == len(secret.parts)
    if horizon * outputs <= _SHORT or not enters:
        found = all_responses(secret, plants, int(horizon))
        columns = [found.points]
        columns += [np.linalg.norm(ball, axis=1)[:, None] for ball in found.balls]
        for several in found.windows:
            sizes = np.abs(several.columns)
            columns += [sizes[:, index].sum(axis=1)[:, None] for index in several.index]
        return np.hstack(columns).reshape(int(horizon), outputs, -1)
    frames = [_settled(inputs, horizon) for inputs in _secrets(secret, plants)]
    longest = max(len(frame) for frame in frames)
    padded = [
        np.pad(frame, ((0, longest - len(frame)), (0, 0), (0, 0))) for frame in frames
    ]
    return np.concatenate(padded, axis=2)


def _changes(inputs: SecretInputs, samples: int) -> NDArray:
    """Return every change (T, q, M), all beginnings of shapes that last."""
    count = sum(
        len(moves.beginnings(shape))
        for moves in inputs.signals
        for shape in moves.shapes
    )
    if count * samples * inputs.inputs > MOST_HELD:
        raise PrivacyError(
            "bound: too many lengths of a change to follow each of them; protect "
            "shorter changes"
        )
    found = []
    for moves in inputs.signals:
        for shape in moves.shapes:
            for values in moves.beginnings(shape):
                change = np.zeros((samples, inputs.inputs))
                during = values[:samples]
                change[: len(during), moves.column] = moves.radius * during
                found.append(change)
    return np.stack(found, axis=2)


def _settled(inputs: SecretInputs, horizon: float) -> NDArray:
    """Return responses (T, p, M) to changes at the first sample, until they are nothing.

    Changes of any shape count with all their samples of the worst sign.
    """
    if inputs.energies is not None or inputs.balls:
        raise PrivacyError(
            'bound: a long run needs changes of single signals; norm="l2" and balls of '
            "states have a leak over short horizons only"
        )
    samples = inputs.longest + 64
    while True:
        samples = int(min(samples, horizon, _LONGEST))
        found = []
        if inputs.signals:
            found.append(response_from_rest(inputs.system, _changes(inputs, samples)))
        for window in inputs.windows:
            impulse = np.abs(inputs.system.impulse_response(samples))
            sizes = impulse[:, :, list(window.columns)] @ window.radii
            kernel = np.ones(window.longest)
            summed = [np.convolve(line, kernel)[:samples] for line in sizes.T]
            found.append(np.array(summed).T[:, :, None])
        frames = np.concatenate(found, axis=2)
        last = np.abs(frames[-max(samples // 8, 1) :]).max()
        if last <= NEGLIGIBLE * np.abs(frames).max() or samples >= horizon:
            return frames
        if samples >= _LONGEST:
            raise PrivacyError(
                f"bound: the secret's effect lasts for more than {_LONGEST} samples; "
                "shorten the horizon"
            )
        samples *= 2


# -- blocks of innovations ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Blocks(Room):
    """What the innovations of each block are kept within, in runs of any length.

    The noise at a place t of a block is the sum of what its own innovations make there, of
    what those of the block before still do, and of what all earlier blocks do:

        gamma(t) = own(t) + near(t) + far(t).

    Each is linear in the innovations of one block, or of several. A block is drawn again
    until |own(t)| <= w(t), until the state that it hands over has |near(t)| <= h(t) at each
    place of the next block, and until that state lies in a ball of the radius K, in the
    coordinates in which it is a standard Gaussian vector. A state in this ball makes at
    most K times its own deviation at any place, so |far(t)| <= K f(t) with the sum f(t) of
    the deviations of all blocks before the last two. The walls obey

        w(t) + h(t) + K f(t) <= limit

    at each place and output, so the noise never passes the limit. Its changes from one
    sample to the next are outputs as well. The state that a run begins with is kept within
    h(t) + K f(t) at each place of the first block, and within the ball: it is a sum of
    states of all earlier blocks, and its deviation at most the sum of theirs.

    The law of each block depends on nothing but the walls, and they on nothing but noise
    and limits. So blocks are independent, and a change shifts their innovations by t. The
    room is the product of the rooms of blocks, symmetric and convex. So its leak is at most
    the sum of those of all walls, in all blocks that the change reaches, wherever in its
    block it begins (`privcontrol.privacy.walls`).

    How a limit is divided between w, h and K is free. Here the probabilities of passing the
    walls together are least, for noise that is small enough to keep all of them about
    `COMPARED` deviations away: so the walls of noise of another size are the same, in
    proportion. No h(t) is needed where the ball alone gives one.
    """

    system: LinearSystem  # from fresh entries to outputs, then their changes
    part: Filtered
    stds: NDArray  # (2 BLOCK, views) of own, then of near
    radii: NDArray  # (2 BLOCK, views) of walls, in deviations
    most: NDArray  # (BLOCK, views) that the state may make that a run begins with
    state_root: NDArray  # of the covariance of the state that a block hands over
    ball: float  # its radius, in deviations

    rule = RULE

    @classmethod
    def of_noise(cls, total: PartSum, bound: Bound) -> Blocks:
        """Return the blocks of noise that never passes a bound."""
        part = total.parts[0]
        if len(total.parts) > 1 or not isinstance(part, Filtered):
            raise PrivacyError(
                "bound: in runs of any length filtered noise alone is kept within a bound; "
                "leave the floor out, or pass life="
            )
        system = _with_changes(part.system, bound)
        if system.order > _MOST_STATES:
            raise PrivacyError(_TOO_MANY_STATES)
        squares = np.sum(system.impulse_response(2 * BLOCK) ** 2, axis=2)
        own = np.sqrt(np.cumsum(squares[:BLOCK], axis=0))
        state_root = np.zeros((0, 0))
        if system.order:
            reached = to_states(system).impulse_response(BLOCK + 1)[1:]
            state_root = root(np.einsum("kiq,kjq->ij", reached, reached))
        near, far = _later(system, state_root)
        limits = np.concatenate([bound.limits, bound.changes[_limited(bound)]])
        limits = np.tile(limits / (1 + CERTAIN), (BLOCK, 1))
        radii, ball = shared_limits(own, near, far, limits, system.order)
        stds = np.concatenate([own, near])
        walls = np.where(radii[BLOCK:] < math.inf, radii[BLOCK:], ball) * near
        most = walls + ball * far + CERTAIN / 10 * limits
        return cls(
            total, bound, BLOCK, system, part, stds, radii, most, state_root, ball
        )

    # -- draws --

    def spans(self, start: int, stop: int) -> list[range]:
        first = start - start % BLOCK
        return [range(t, t + BLOCK) for t in range(first, stop, BLOCK)]

    def share(self, first: NDArray, fresh: NDArray) -> float:
        if len(first):
            made = self.system.free_response(self._start @ first[:, None], BLOCK)
            sizes = np.abs(made).reshape(self.most.shape) / self.most
            return float(max(sizes.max(), np.linalg.norm(first) / self.ball))
        if not len(fresh):
            return 0.0
        still = np.zeros((1, self.system.order))
        gamma, state = self.system.run(still, fresh[None])
        made = self.system.free_response(state.T, self._followed - BLOCK)
        after = made.reshape(-1, gamma.shape[2])
        sizes = np.abs(np.concatenate([gamma[0], after])) / self._walls_at
        last = np.linalg.norm(self._whitening @ state[0])
        return float(max(sizes.max(), last / self.ball))

    def uncertainty(self, first: NDArray, fresh: NDArray) -> float:
        followed = np.zeros((BLOCK, self.system.input_count))
        if len(first):
            outputs, _ = self._recursion.errors(self._start, first, followed)
            ball = (
                len(first) * _ROUNDINGS * EPS * (1 + np.linalg.norm(first) / self.ball)
            )
            return float(max((outputs / self.most.min(axis=0)).max(), ball))
        if not len(fresh):
            return 0.0
        none, rest = np.empty(0), np.zeros((self.system.order, 0))
        padded = np.concatenate([fresh, followed])
        outputs, states = self._recursion.errors(rest, none, padded)
        sizes = outputs / self._walls_at.min(axis=0)
        last = np.linalg.norm(np.abs(self._whitening) @ states)
        return float(max(sizes.max(), last / self.ball))

    def decided(self, first: BallMatrix, fresh: BallMatrix) -> bool | None:
        system = self.system.in_balls()
        state = ball_matrix(self._start) * first
        shares: list[Ball] = []
        if first.nrows():
            for t in range(BLOCK):
                shares += _shares(system.C * state, self.most[t].tolist())
                state = system.A * state
            shares.append(_length(first) / Ball(self.ball))
            return _all_at_most(shares)
        state = BallMatrix(self.system.order, 1)
        for t in range(fresh.nrows()):
            entries = submatrix(fresh, [t], range(fresh.ncols())).transpose()
            gamma = system.C * state + system.D * entries
            shares += _shares(gamma, self._walls_at[t].tolist())
            state = system.A * state + system.B * entries
        if self.system.order and fresh.nrows():
            last = ball_matrix(self._whitening) * state
            shares.append(_length(last) / Ball(self.ball))
            for walls in self._walls_at[BLOCK:].tolist():
                shares += _shares(system.C * state, walls)
                state = system.A * state
        return _all_at_most(shares)

    @cached_property
    def _start(self) -> NDArray:
        """Root (n, once) of the state that a run begins with, changes included."""
        root = self.total.state_root
        still = np.zeros((self.system.order - len(root), root.shape[1]))
        return np.concatenate([root, still])

    @cached_property
    def _followed(self) -> int:
        """Places, from a block's first on, up to its last wall."""
        walls = np.isfinite(self.radii).any(axis=1)
        walls[:BLOCK] = True
        return int(np.flatnonzero(walls)[-1]) + 1

    @cached_property
    def _walls_at(self) -> NDArray:
        """Sizes (places, views) of what a block makes at most."""
        return (self.radii * self._safe_stds)[: self._followed]

    @cached_property
    def _recursion(self) -> Recursion:
        return Recursion.of(self.system, 2 * BLOCK)

    @cached_property
    def _safe_stds(self) -> NDArray:
        return np.where(self.stds > 0, self.stds, math.inf)

    @cached_property
    def _whitening(self) -> NDArray:
        """The inverse (n, n) of the root of the state that a block hands over."""
        if not self.system.order:
            return np.zeros((0, 0))
        return np.linalg.pinv(self.state_root, rcond=1e-10)

    @property
    def acceptance(self) -> float:
        walls = self.radii[np.isfinite(self.radii)].tolist()
        share = math.prod(kept_share(radius) for radius in walls)
        if self.system.order:
            share *= kept_share(self.ball, self.system.order)
        return share

    def draws(self, draw: Drawing) -> Iterator[tuple[NDArray, NDArray]]:
        first, _ = self._within(draw, self.total.once, 0)
        while True:
            _, fresh = self._within(draw, 0, BLOCK)
            yield first, fresh
            first = np.empty(0)

    # -- what changes do to the walls --

    def walls(
        self, secret: Adjacency, plants: tuple[Plant, ...], shift: float
    ) -> tuple[Wall, ...]:
        walls: list[Wall] = []
        for inputs in _secrets(secret, plants):
            walls = max(walls, self.walls_of_inputs(inputs), key=leak_of)
        return for_events(walls, secret)

    def walls_of_inputs(self, secret: SecretInputs) -> list[Wall]:
        """Return the walls that changes come nearer to, wherever in a block they begin."""
        if secret.windows or secret.balls or secret.energies is not None:
            raise PrivacyError(
                "bound: in runs of any length it is for given changes of single signals; "
                'pass life=, or shape="level"'
            )
        if self.part.response is not None:
            raise PrivacyError(
                "bound: noise that enters the plant with the secret is kept within a "
                "bound over a life only; pass life="
            )
        lift, shown, states = self._lifted(secret)
        norms = np.linalg.norm(lift.reshape(-1, lift.shape[2]), axis=0)
        slabs = CountedWalls(self.radii.ravel(), float(norms.max()))
        balls = np.zeros(0)
        count = max(1, NUMBERS_AT_ONCE // max(1, 2 * shown.shape[0] * shown.shape[1]))
        for first in range(0, lift.shape[2], count):
            some = slice(first, first + count)
            for offset in range(BLOCK):
                made, left = self._made(shown[..., some], states[..., some], offset)
                slabs.include(made.reshape(len(made), -1, made.shape[3]))
                ends = np.linalg.norm(self._whitening @ left, axis=1)
                balls = joined(balls, envelope(ends))
        found = slabs.walls()
        late = _norms_before(lift[_FOLLOWED - BLOCK :])[BLOCK:]
        if self.system.order:
            found += walls_at(self.ball, balls, self.system.order)
        if late.size:
            ends = np.maximum.reduceat(late, np.arange(0, len(late), BLOCK))
            every = np.concatenate(
                [
                    np.tile(late, (len(self.stds.T), 1)),
                    np.tile(ends, (self._reached, 1)),
                ]
            )
            found += walls_at(float(self.radii.min()), envelope(every))
            if self.system.order:
                found += walls_at(self.ball, envelope(ends), self.system.order)
        return found

    @property
    def _reached(self) -> int:
        """How many walls there are of what the state makes that a block hands over."""
        return int(np.isfinite(self.radii[BLOCK:]).sum())

    def _lifted(self, secret: SecretInputs) -> tuple[NDArray, NDArray, NDArray]:
        """Return what changes add to the entries, the outputs and the states (T, ., M).

        They are those of the noise whose entries make up for a change.
        """
        lifted = self.part.shaping.inverse().after(secret.system)
        changes = _changes(secret, secret.longest)
        samples = max(secret.longest + 64, 2 * BLOCK)
        while True:
            lift = _followed(lifted, changes, samples)
            last = np.abs(lift[-samples // 8 :]).max()
            if last <= NEGLIGIBLE * np.abs(lift).max():
                break
            if samples >= _LATEST:
                raise PrivacyError(
                    "bound: what noise makes up for a change lasts for more than "
                    f"{_LATEST} samples; pass life=, or a lower order="
                )
            samples *= 2
        early = min(samples, _FOLLOWED)
        shown = _followed(self.system.after(lifted), changes, early)
        of_states = to_states(self.system).after(lifted)
        return lift, shown, _followed(of_states, changes, early)

    def _made(
        self, shown: NDArray, states: NDArray, offset: int
    ) -> tuple[NDArray, NDArray]:
        """Return what changes at an offset of their block add to walls and to states.

        They are sizes (blocks, 2 BLOCK, views, M) in deviations, of the own part and of the
        near one, and what each block adds to the state that is handed over, shape
        (blocks - 1, n, M). The first samples are followed. Later on no wall is come nearer
        to by more than the entries of its block, by Cauchy and Schwarz.
        """
        samples, views, moves = shown.shape
        starts = np.arange(BLOCK - offset, samples, BLOCK)
        # the first block from the offset on, the last one with nothing behind the end
        whole = np.zeros(((len(starts) + 1) * BLOCK, views, moves))
        whole[offset : offset + samples] = shown
        made = np.zeros((len(starts) + 1, 2 * BLOCK, views, moves))
        made[:, :BLOCK] = whole.reshape(len(starts) + 1, BLOCK, views, moves)
        handed = states[starts]
        free = self._free.reshape(BLOCK * views, -1)
        made[1:, :BLOCK] -= product(free, handed).reshape(-1, BLOCK, views, moves)
        left = handed.copy()
        left[1:] -= self._onward[BLOCK] @ handed[:-1]
        made[:-1, BLOCK:] = product(free, left).reshape(-1, BLOCK, views, moves)
        np.abs(made, out=made)
        made /= self._safe_stds[:, :, None]
        return made, left

    @cached_property
    def _onward(self) -> NDArray:
        """Powers of A (BLOCK + 1, n, n)."""
        return orbit(self.system, np.eye(self.system.order), BLOCK + 1)

    @cached_property
    def _free(self) -> NDArray:
        """Outputs (BLOCK, views, n) that each state leads to."""
        return self.system.C @ self._onward[:BLOCK]


def _length(column: BallMatrix) -> Ball:
    """Return the 2-norm of a column in balls."""
    return (column.transpose() * column)[0, 0].sqrt()


def _followed(system: LinearSystem, changes: NDArray, samples: int) -> NDArray:
    """Return outputs (T, p, M) of changes (L, q, M) from rest, and after they are over."""
    length, _, moves = changes.shape
    rest = np.zeros((moves, system.order))
    during, states = system.run(rest, changes.transpose(2, 0, 1))
    later = system.free_response(states.T, samples - length)
    later = later.reshape(samples - length, len(system.C), moves)
    return np.concatenate([during.transpose(1, 2, 0), later])


def _norms_before(lift: NDArray) -> NDArray:
    """Return norms (T, M) of the entries (T, r, M) of a block's length up to each sample."""
    squares = np.sum(lift**2, axis=1)
    total = np.cumsum(squares, axis=0)
    total[BLOCK:] -= total[:-BLOCK].copy()
    rounding = len(lift) * EPS * squares.sum(axis=0)
    return np.sqrt(np.maximum(total, 0.0) + rounding)


def _limited(bound: Bound) -> NDArray:
    """Return the outputs whose change is limited."""
    return np.flatnonzero(np.isfinite(bound.changes))


def _with_changes(system: LinearSystem, bound: Bound) -> LinearSystem:
    """Return noise whose outputs are followed by those changes that are limited."""
    changed = _limited(bound)
    if not len(changed):
        return system
    A, B, C, D = system.matrices
    n, p = system.order, len(changed)
    onward = np.block([[A, np.zeros((n, p))], [C[changed], np.zeros((p, p))]])
    entry = np.vstack([B, D[changed]])
    levels = np.hstack([C, np.zeros((len(C), p))])
    steps = np.hstack([C[changed], -np.eye(p)])
    return LinearSystem(
        onward, entry, np.vstack([levels, steps]), np.vstack([D, D[changed]])
    )


def _later(system: LinearSystem, state_root: NDArray) -> tuple[NDArray, NDArray]:
    """Return deviations (BLOCK, views) that a state makes, and all earlier ones together.

    The latter are a sum over blocks, until it is negligible.
    """
    near = np.zeros((BLOCK, len(system.C)))
    far = np.zeros_like(near)
    if not system.order:
        return near, far
    onward = np.linalg.matrix_power(system.A, BLOCK)
    handed = state_root
    near = sizes = _deviations_from(system, handed)
    while sizes.max() > NEGLIGIBLE * near.max():
        handed = onward @ handed
        sizes = _deviations_from(system, handed)
        far = far + sizes
    return near, far


def _deviations_from(system: LinearSystem, states: NDArray) -> NDArray:
    """Return deviations (BLOCK, views) that a random state S eta (n, r) makes."""
    free = system.free_response(states, BLOCK)
    return np.linalg.norm(free.reshape(BLOCK, len(system.C), -1), axis=2)
