"""The room of noise in runs of any length, which is drawn in blocks of innovations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..numerics.balls import Ball, BallMatrix, ball_matrix, submatrix
from ..numerics.errors import PrivacyError
from ..numerics.linalg import EPS
from ..numerics.thresholds import CERTAIN, NEGLIGIBLE
from ..privacy.walls import Wall, kept_share
from ..secrets.secret import SecretInputs
from ..secrets.secrets import Secrets
from ..systems.linear import LinearSystem, Plant, root, to_states
from ._counted_walls import for_events, leak_of
from ._room import (
    ROUNDINGS,
    Drawing,
    Recursion,
    Room,
    all_at_most,
    shares_of,
)
from ._shared_limits import shared_limits
from ._walls_of_blocks import BLOCK, BlockWalls
from .bound import Bound
from .parts import Filtered, PartSum

#: By which rule the walls of blocks are chosen. A run goes on by the rule that it began by:
#: where blocks of two rules meet, the noise could pass its limit.
RULE = "own, near, far"
#: States up to which a block's end is kept in an ellipsoid.
_MOST_STATES = 24
_TOO_MANY_STATES = (
    f"bound: noise of more than {_MOST_STATES} states is not kept within a bound in runs "
    "of any length; pass life=, the samples of a run that is drawn ahead as one, or a "
    "lower order="
)


@dataclass(frozen=True, eq=False)
class InnovationBlocks(Room):
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

    part: Filtered
    block: BlockWalls
    most: NDArray[
        np.float64
    ]  # (BLOCK, views) that the state may make that a run begins with

    rule = RULE

    @classmethod
    def of_noise(cls, total: PartSum, bound: Bound) -> InnovationBlocks:
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
        block = BlockWalls(system, stds, radii, state_root, ball)
        return cls(total, bound, BLOCK, part, block, most)

    # -- draws --

    def spans(self, start: int, stop: int) -> list[range]:
        first = start - start % BLOCK
        return [range(t, t + BLOCK) for t in range(first, stop, BLOCK)]

    def share(self, first: NDArray[np.float64], fresh: NDArray[np.float64]) -> float:
        if len(first):
            made = self.block.system.free_response(self._start @ first[:, None], BLOCK)
            sizes = np.abs(made).reshape(self.most.shape) / self.most
            return float(max(sizes.max(), np.linalg.norm(first) / self.block.ball))
        if not len(fresh):
            return 0.0
        still = np.zeros((1, self.block.system.order))
        gamma, state = self.block.system.run(still, fresh[None])
        made = self.block.system.free_response(state.T, self._followed - BLOCK)
        after = made.reshape(-1, gamma.shape[2])
        sizes = np.abs(np.concatenate([gamma[0], after])) / self._walls_at
        last = np.linalg.norm(self.block.whitening @ state[0])
        return float(max(sizes.max(), last / self.block.ball))

    def uncertainty(
        self, first: NDArray[np.float64], fresh: NDArray[np.float64]
    ) -> float:
        followed = np.zeros((BLOCK, self.block.system.input_count))
        if len(first):
            outputs, _ = self._recursion.errors(self._start, first, followed)
            ball = (
                len(first)
                * ROUNDINGS
                * EPS
                * (1 + np.linalg.norm(first) / self.block.ball)
            )
            return float(max((outputs / self.most.min(axis=0)).max(), ball))
        if not len(fresh):
            return 0.0
        none, rest = np.empty(0), np.zeros((self.block.system.order, 0))
        padded = np.concatenate([fresh, followed])
        outputs, states = self._recursion.errors(rest, none, padded)
        sizes = outputs / self._walls_at.min(axis=0)
        last = np.linalg.norm(np.abs(self.block.whitening) @ states)
        return float(max(sizes.max(), last / self.block.ball))

    def decided(self, first: BallMatrix, fresh: BallMatrix) -> bool | None:
        system = self.block.system.in_balls()
        state = ball_matrix(self._start) * first
        shares: list[Ball] = []
        if first.nrows():
            for t in range(BLOCK):
                shares += shares_of(system.C * state, self.most[t].tolist())
                state = system.A * state
            shares.append(_length(first) / Ball(self.block.ball))
            return all_at_most(shares)
        state = BallMatrix(self.block.system.order, 1)
        for t in range(fresh.nrows()):
            entries = submatrix(fresh, [t], range(fresh.ncols())).transpose()
            gamma = system.C * state + system.D * entries
            shares += shares_of(gamma, self._walls_at[t].tolist())
            state = system.A * state + system.B * entries
        if self.block.system.order and fresh.nrows():
            last = ball_matrix(self.block.whitening) * state
            shares.append(_length(last) / Ball(self.block.ball))
            for walls in self._walls_at[BLOCK:].tolist():
                shares += shares_of(system.C * state, walls)
                state = system.A * state
        return all_at_most(shares)

    @cached_property
    def _start(self) -> NDArray[np.float64]:
        """Root (n, once) of the state that a run begins with, changes included."""
        root = self.total.state_root
        still = np.zeros((self.block.system.order - len(root), root.shape[1]))
        return np.concatenate([root, still])

    @cached_property
    def _followed(self) -> int:
        """Places, from a block's first on, up to its last wall."""
        walls = np.logical_or.reduce(np.isfinite(self.block.radii), axis=1)
        walls[:BLOCK] = True
        return int(np.flatnonzero(walls)[-1]) + 1

    @cached_property
    def _walls_at(self) -> NDArray[np.float64]:
        """Sizes (places, views) of what a block makes at most."""
        return (self.block.radii * self.block.safe_stds)[: self._followed]

    @cached_property
    def _recursion(self) -> Recursion:
        return Recursion.of(self.block.system, 2 * BLOCK)

    @property
    def acceptance(self) -> float:
        walls = self.block.radii[np.isfinite(self.block.radii)].tolist()
        share = math.prod(kept_share(radius) for radius in walls)
        if self.block.system.order:
            share *= kept_share(self.block.ball, self.block.system.order)
        return share

    def draws(
        self, draw: Drawing
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        first, _ = self._within(draw, self.total.once, 0)
        while True:
            _, fresh = self._within(draw, 0, BLOCK)
            yield first, fresh
            first = np.empty(0)

    # -- what changes do to the walls --

    def walls(
        self, secret: Secrets, plants: tuple[Plant, ...], shift: float
    ) -> tuple[Wall, ...]:
        walls: list[Wall] = []
        for plant in plants:
            (inputs,) = secret.under([plant])
            walls = max(walls, self.walls_of_inputs(inputs), key=leak_of)
        return for_events(walls, secret.events)

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
        return self.block.walls(self.part.shaping, secret)


def _length(column: BallMatrix) -> Ball:
    """Return the 2-norm of a column in balls."""
    return (column.transpose() * column)[0, 0].sqrt()


def _limited(bound: Bound) -> NDArray[np.intp]:
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


def _later(
    system: LinearSystem, state_root: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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


def _deviations_from(
    system: LinearSystem, states: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return deviations (BLOCK, views) that a random state S eta (n, r) makes."""
    free = system.free_response(states, BLOCK)
    return np.linalg.norm(free.reshape(BLOCK, len(system.C), -1), axis=2)
