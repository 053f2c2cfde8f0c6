"""Noise that never leaves a bound: where it is kept, what that leaks, how it is drawn.

The noise is drawn again until it is within, and never clipped. Entries that are drawn once
are kept within a ball. Other noise of a run is kept within the bound at every sample, and
drawn ahead as one. Runs of any length are drawn in blocks of innovations, each of which is
kept within a multiple of its own standard deviation, and what it leaves behind within an
ellipsoid, so the blocks are independent of each other. What a move does to each of these
walls is its leak (`privcontrol.privacy.walls`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..core.adjacency import Adjacency
from ..numerics.balls import Ball, BallMatrix, ball_matrix, submatrix
from ..numerics.errors import PrivacyError
from ..numerics.linalg import EPS
from ..numerics.objects import ByContent
from ..numerics.saved import Saved
from ..numerics.thresholds import ROUNDED
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
from ._endless import secrets_of
from .parts import Filtered, NoisePart, PartSum, Structured

#: Draws so many standard entries.
Drawing: TypeAlias = Callable[[int], NDArray]

#: Samples of a block of innovations.
BLOCK = 300
#: States up to which a block's end is kept in an ellipsoid.
_MOST_STATES = 24
#: Walls of a move that are counted one by one. The others count as many of the largest.
_ALONE = 48
#: Numbers of responses that are held at once, and samples that they are followed for.
_MOST_NUMBERS = 40_000_000
_LONGEST = 1 << 15
#: Samples for which what noise makes up for a change may last in runs of any length.
_LATEST = 1 << 18
#: Speed: of these are followed at each wall; the others are bounded together.
_FOLLOWED = 40 * BLOCK
#: Samples and outputs of a run up to which all moves are compared.
_SHORT = 1000
#: Part of its largest value below which the end of a response is negligible.
_NEGLIGIBLE = 1e-12
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
class Room:
    """Where noise is kept, and how it is drawn there.

    Attributes
    ----------
    total : PartSum
    bound : Bound
    samples : int
        How many are drawn ahead as one.
    radius : float
        Of the ball of entries that are drawn once, infinite without one.
    blocks : Blocks or None
        What the innovations of a run of any length are kept within.
    """

    total: PartSum
    bound: Bound
    samples: int
    radius: float = math.inf
    blocks: Blocks | None = None

    @classmethod
    def of(cls, parts: Sequence[NoisePart], bound: Bound) -> Room:
        """Return the room of noise that never passes a bound.

        Raises
        ------
        PrivacyError
            If noise of this kind is not kept within a bound.
        """
        total = PartSum(tuple(parts))
        run = bound.samples
        if not run.ends:
            blocks = Blocks.of(total, bound)
            return cls(total, bound, BLOCK, blocks.multiple, blocks)
        if total.consists_of(Structured) and len(total.parts) == 1:
            return cls(total, bound, run, _ball_radius(total, bound, run))
        return cls(total, bound, run)

    @property
    def is_once(self) -> bool:
        """Whether only entries that are drawn once are kept within."""
        return self.blocks is None and self.radius < math.inf

    def share(self, first: NDArray, fresh: NDArray) -> float:
        """Return the largest part of a limit that entries of a draw reach.

        They are those that are drawn once (once,), and those of its samples (T, width).
        Entries drawn once come alone where they are kept within a ball.
        """
        if len(first) and self.radius < math.inf:
            return self.share_of_first(first)
        if self.blocks is not None:
            return self.blocks.share(fresh)
        gamma = self.total.signal(first[None], fresh[None])[0]
        return self.bound.share(gamma)

    def share_of_first(self, first: NDArray) -> float:
        """Return the part of the ball's radius that entries drawn once reach."""
        return float(np.linalg.norm(first)) / self.radius

    def uncertainty(self, first: NDArray, fresh: NDArray) -> float:
        """Return how far the share of `share` may be from the true one, by rounding.

        It is large where terms cancel that are much larger than the noise.
        """
        if len(first) and self.radius < math.inf:
            return len(first) * _ROUNDINGS * EPS * (1 + self.share_of_first(first))
        if self.blocks is not None:
            return self.blocks.uncertainty(fresh)
        if self.total.model is None:
            sums = np.abs(self.total.responses(self.samples)).sum(axis=2)
            most = sums.max(axis=0) * np.abs(fresh).max(initial=0.0)
            errors = fresh.size * _ROUNDINGS * EPS * most
        else:
            errors = self._recursion.errors(self.total.state_root, first, fresh)
        return self.bound.share_of_size(errors)

    @cached_property
    def _recursion(self) -> Recursion:
        if self.total.model is None:
            raise ValueError("correlated noise is no recursion")
        return Recursion.of(self.total.model, self.samples)

    def decided(self, first: BallMatrix, fresh: BallMatrix) -> bool | None:
        """Return whether entries (once, 1) and (T, width) in balls are within.

        None where the balls do not decide it. Entries drawn once come alone where they are
        kept within a ball, and those of a block without them.
        """
        if first.nrows() and self.radius < math.inf:
            square = (first.transpose() * first)[0, 0]
            return _at_most(square, Ball(self.radius) ** 2)
        if self.blocks is not None:
            return self.blocks.decided(fresh)
        model = self.total.model
        if model is None:
            return _all_at_most(self._dense_shares(fresh))
        system = model.in_balls()
        state = ball_matrix(self.total.state_root) * first
        limits = [*self.bound.limits.tolist()]
        shares = []
        last = None
        for t in range(fresh.nrows()):
            entries = submatrix(fresh, [t], range(fresh.ncols())).transpose()
            gamma = system.C * state + system.D * entries
            shares += _shares(gamma, limits)
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
        """The probability at least that a draw is within."""
        if self.is_once:
            return kept_share(self.radius, self.total.once)
        if self.blocks is not None:
            return self.blocks.acceptance
        stds, steps = deviations(self.total, Run(self.samples))
        total = 0.0
        for sizes, limits in ((stds, self.bound.limits), (steps, self.bound.changes)):
            for size, limit in zip(sizes.tolist(), limits.tolist(), strict=True):
                if size > 0 and limit < math.inf:
                    total += self.samples * math.log(kept_share(limit / size))
        return math.exp(total)

    def draws(self, draw: Drawing) -> Iterator[tuple[NDArray, NDArray]]:
        """Yield entries of one run that are within, block by block.

        ``draw(count)`` returns fresh standard entries (count,). The first ones of a run
        come with its first block.
        """
        once, width = self.total.once, self.total.width
        none = np.empty(0)
        if self.blocks is not None:
            first = self._within(lambda: draw(once), self.share_of_first)
            while True:
                fresh = self._within(
                    lambda: draw(self.samples * width).reshape(-1, width),
                    self.blocks.share,
                )
                yield first, fresh
                first = none
        if self.is_once:
            first = self._within(lambda: draw(once), self.share_of_first)
            yield first, np.empty((self.samples, 0))
            return

        def share(drawn: NDArray) -> float:
            return self.share(drawn[:once], drawn[once:].reshape(-1, width))

        drawn = self._within(lambda: draw(once + self.samples * width), share)
        yield drawn[:once], drawn[once:].reshape(-1, width)

    def _within(
        self, draw: Callable[[], NDArray], share: Callable[[NDArray], float]
    ) -> NDArray:
        """Return the first draw whose share of a limit is at most one."""
        for _ in range(MOST_DRAWS):
            drawn = draw()
            if share(drawn) <= 1:
                return drawn
        raise PrivacyError(
            f"bound: none of {MOST_DRAWS} draws is within; raise the bound, or shorten "
            "the life"
        )


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

    def errors(self, root: NDArray, first: NDArray, fresh: NDArray) -> NDArray:
        """Return errors (p,) of the outputs for entries (once,) and (T, width)."""
        A, B, C, D = (np.abs(matrix) for matrix in self.system.matrices)
        states = self._largest_states(root, first, fresh)
        entries = np.abs(fresh).max(axis=0, initial=0.0)
        rounded = A @ states + B @ entries + np.abs(root) @ np.abs(first)
        carried = C @ (self.lasting @ rounded + states) + D @ entries
        terms = self.system.order + self.system.input_count + len(first)
        return (terms + _ROUNDINGS) * EPS * carried

    def of_last_state(self, fresh: NDArray) -> NDArray:
        """Return errors (n,) of the state that entries (T, width) lead to from rest."""
        order = self.system.order
        return Recursion(to_states(self.system), self.lasting).errors(
            np.zeros((order, 0)), np.empty(0), fresh
        )

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
    room = Room.of(parts, bound)
    if room.is_once:
        return (Wall(room.radius, shift, 1.0, room.total.once),)
    times = float(max(getattr(part, "events", 1) for part in secret.parts))
    walls: list[Wall] = []
    if room.blocks is not None:
        for inputs in _secrets(secret, plants):
            walls = max(walls, room.blocks.walls(inputs), key=leak_of)
        return tuple(wall.scaled(times) for wall in walls)
    moved = _responses(secret, tuple(plants), bound.samples)
    stds, steps = deviations(room.total, bound.samples)
    kinds = (
        (np.abs(moved), stds, bound.limits),
        (np.abs(np.diff(moved, axis=0, prepend=0.0)), steps, bound.changes),
    )
    for sizes, deviation, limits in kinds:
        for output, limit in enumerate(limits.tolist()):
            if limit < math.inf and deviation[output] > 0:
                moves = _envelope(sizes[:, output]) / deviation[output]
                walls += _walls(limit / deviation[output], moves)
    return tuple(wall.scaled(times) for wall in walls)


def leak_of(walls: Sequence[Wall]) -> float:
    """Return the leak of walls together, rounded up."""
    return min(math.fsum(wall.leak for wall in walls) * (1 + ROUNDED), 1.0)


def _secrets(secret: Adjacency, plants: Sequence[Plant]) -> list[SecretInputs]:
    """Return the secret under each plant."""
    return [secrets_of(secret, [plant])[0] for plant in plants]


def _envelope(sizes: NDArray) -> NDArray:
    """Return sizes (T,), falling, that dominate those (T, M) of every move in order.

    A wall's leak is convex and grows with the move, so theirs dominate too.
    """
    ordered = -np.sort(-sizes, axis=0)
    return ordered.max(axis=1) * (1 + ROUNDED)


def _walls(radius: float, moves: NDArray, dimension: int = 1) -> list[Wall]:
    """Return walls at a radius that are come nearer to by falling moves (T,)."""
    if not moves.size or not moves[0] > 0:
        return []
    if radius - moves[0] < 1:  # it leaks much, and smaller noise may leak more
        return [Wall(radius, max(float(moves[0]), 2 * radius), 1.0, dimension)]
    walls = [Wall(radius, move, 1.0, dimension) for move in moves[:_ALONE].tolist()]
    rest = moves[_ALONE:]
    if rest.size and rest[0] > 0:
        count = float(rest.sum() / rest[0])
        walls.append(Wall(radius, float(rest[0]), count * (1 + ROUNDED), dimension))
    return [wall for wall in walls if wall.move > 0]


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
    if count * samples * inputs.inputs > _MOST_NUMBERS:
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
        if last <= _NEGLIGIBLE * np.abs(frames).max() or samples >= horizon:
            return frames
        if samples >= _LONGEST:
            raise PrivacyError(
                f"bound: the secret's effect lasts for more than {_LONGEST} samples; "
                "shorten the horizon"
            )
        samples *= 2


# -- blocks of innovations ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Blocks:
    """What the innovations of each block are kept within.

    Its own part g of the noise, from rest at its beginning, is kept within ``multiple``
    standard deviations at each sample, and the state that it hands over within an
    ellipsoid of as many. The noise is the sum of the own parts and of what all earlier
    states still add.
    """

    system: LinearSystem  # from fresh entries to outputs, then their changes
    part: Filtered
    stds: NDArray  # (BLOCK, views) of the own part
    state_root: NDArray  # of the covariance of the state that a block hands over
    multiple: float

    @classmethod
    def of(cls, total: PartSum, bound: Bound) -> Blocks:
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
        impulse = system.impulse_response(BLOCK)
        own = np.sqrt(np.cumsum(np.sum(impulse**2, axis=2), axis=0))
        state_root = np.zeros((0, 0))
        if system.order:
            reached = to_states(system).impulse_response(BLOCK + 1)[1:]
            state_root = root(np.einsum("kiq,kjq->ij", reached, reached))
        later = _later(system, state_root)
        most = (own + later).max(axis=0) * (1 + 1e-6)
        limits = np.concatenate([bound.limits, bound.changes[_limited(bound)]])
        views = np.isfinite(limits) & (most > 0)
        multiple = float((limits[views] / most[views]).min())
        return cls(system, part, own, state_root, multiple)

    def share(self, fresh: NDArray) -> float:
        """Return the largest part of its limit that a block's entries (T, width) reach."""
        still = np.zeros((1, self.system.order))
        gamma, state = self.system.run(still, fresh[None])
        sizes = np.abs(gamma[0]) / self._safe_stds
        last = self._whitened(state.T)
        return float(max(sizes.max(), np.linalg.norm(last)) / self.multiple)

    def uncertainty(self, fresh: NDArray) -> float:
        """Return how far the share of `share` may be from the true one, by rounding."""
        none = np.empty(0)
        root = np.zeros((self.system.order, 0))
        sizes = self._recursion.errors(root, none, fresh) / self._safe_stds
        last = np.abs(self._whitening) @ self._recursion.of_last_state(fresh)
        return float(max(sizes.max(), np.linalg.norm(last)) / self.multiple)

    @cached_property
    def _recursion(self) -> Recursion:
        return Recursion.of(self.system, BLOCK)

    def decided(self, fresh: BallMatrix) -> bool | None:
        """Return whether a block's entries (T, width) in balls are within, or None."""
        system = self.system.in_balls()
        state = BallMatrix(self.system.order, 1)
        shares: list[Ball] = []
        for t in range(fresh.nrows()):
            entries = submatrix(fresh, [t], range(fresh.ncols())).transpose()
            gamma = system.C * state + system.D * entries
            shares += _shares(gamma, (self.multiple * self._safe_stds[t]).tolist())
            state = system.A * state + system.B * entries
        if self.system.order:
            last = ball_matrix(self._whitening) * state
            square = (last.transpose() * last)[0, 0]
            shares.append((square / Ball(self.multiple) ** 2).sqrt())
        return _all_at_most(shares)

    @cached_property
    def _safe_stds(self) -> NDArray:
        return np.where(self.stds > 0, self.stds, np.inf)

    @cached_property
    def _whitening(self) -> NDArray:
        """The inverse (n, n) of the root of the state that a block hands over."""
        if not self.system.order:
            return np.zeros((0, 0))
        return np.linalg.pinv(self.state_root, rcond=1e-10)

    @cached_property
    def _onward(self) -> NDArray:
        """Powers of A (BLOCK + 1, n, n)."""
        return orbit(self.system, np.eye(self.system.order), BLOCK + 1)

    @cached_property
    def _free(self) -> NDArray:
        """Outputs (BLOCK, views, n) that each state leads to."""
        return self.system.C @ self._onward[:BLOCK]

    def _whitened(self, states: NDArray) -> NDArray:
        return self._whitening @ states

    @property
    def acceptance(self) -> float:
        """The probability at least that a block is within."""
        noisy = int((self.stds > 0).sum())
        share = kept_share(self.multiple) ** noisy
        if self.system.order:
            share *= kept_share(self.multiple, self.system.order)
        return share

    def walls(self, secret: SecretInputs) -> list[Wall]:
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
        slabs = np.zeros(0)
        balls = np.zeros(0)
        for offset in range(BLOCK):
            own, ends = self._own(shown, states, offset)
            slabs = _joined(slabs, _envelope(own))
            balls = _joined(balls, _envelope(ends))
        found = _walls(self.multiple, slabs)
        late = _norms_before(lift[_FOLLOWED - BLOCK :])[BLOCK:]
        if late.size:
            found += _walls(
                self.multiple, _envelope(np.tile(late, (len(self.stds.T), 1)))
            )
        if self.system.order:
            found += _walls(self.multiple, balls, self.system.order)
            if late.size:
                ends = np.maximum.reduceat(late, np.arange(0, len(late), BLOCK))
                found += _walls(self.multiple, _envelope(ends), self.system.order)
        return found

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
            if last <= _NEGLIGIBLE * np.abs(lift).max():
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

    def _own(
        self, shown: NDArray, states: NDArray, offset: int
    ) -> tuple[NDArray, NDArray]:
        """Return what changes at an offset of their block add to its walls (N, M).

        The first samples are followed. Later on no wall is come nearer to by more than the
        entries of its block, by Cauchy and Schwarz.
        """
        samples, views, moves = shown.shape
        starts = np.arange(BLOCK - offset, samples, BLOCK)
        # blocks that are whole, the last one with nothing behind the end
        whole = np.zeros((len(starts) * BLOCK, views, moves))
        whole[: samples - starts[0]] = shown[starts[0] :]
        handed = states[starts]
        free = np.einsum("tvn,bnm->btvm", self._free, handed)
        later = whole.reshape(len(starts), BLOCK, views, moves) - free
        sizes = np.abs(later) / self._safe_stds[:, :, None]
        first = np.abs(shown[: starts[0]]) / self._safe_stds[offset:, :, None]
        own = np.concatenate([first.reshape(-1, moves), sizes.reshape(-1, moves)])
        ends = np.zeros((1, moves))
        if self.system.order:
            left = handed.copy()
            left[1:] -= self._onward[BLOCK] @ handed[:-1]
            ends = np.linalg.norm(self._whitened(left), axis=1)
        return own, ends


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


def _joined(first: NDArray, second: NDArray) -> NDArray:
    """Return the larger of two falling sequences, place by place."""
    length = max(len(first), len(second))
    padded = [np.pad(each, (0, length - len(each))) for each in (first, second)]
    return np.maximum(*padded)


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


def _later(system: LinearSystem, state_root: NDArray) -> NDArray:
    """Return the most (BLOCK, views) that earlier blocks' states add, at a radius of one.

    The sum is over blocks until it is negligible.
    """
    total = np.zeros((BLOCK, len(system.C)))
    if not system.order:
        return total
    onward = np.linalg.matrix_power(system.A, BLOCK)
    handed = state_root
    while True:
        free = system.free_response(handed, BLOCK)
        sizes = np.linalg.norm(free.reshape(BLOCK, len(system.C), -1), axis=2)
        total += sizes
        if sizes.max() <= _NEGLIGIBLE * total.max():
            return total
        handed = onward @ handed
