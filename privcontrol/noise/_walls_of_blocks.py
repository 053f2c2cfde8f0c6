"""The walls of blocks of innovations, and how far hidden changes come nearer to them.

`InnovationBlocks` keeps noise in runs of any length within these walls. The share of
a change in each block is followed for a time, and bounded together from then on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..numerics.errors import PrivacyError
from ..numerics.linalg import EPS, product
from ..numerics.thresholds import BLOCK as NUMBERS_AT_ONCE, LATEST, NEGLIGIBLE
from ..privacy.walls import Wall
from ..secrets.secret import SecretInputs
from ..systems.linear import LinearSystem, orbit, to_states
from ._counted_walls import CountedWalls, envelope, joined, walls_at
from ._room import changes_of

#: Samples of a block of innovations.
BLOCK = 300
#: Speed: of these are followed at each wall; the others are bounded together.
_FOLLOWED = 40 * BLOCK


@dataclass(frozen=True, eq=False)
class BlockWalls:
    """The walls of a block of innovations, in standard deviations.

    Attributes
    ----------
    system : LinearSystem
        From innovations to outputs, then to their changes.
    stds, radii : ndarray, shape (2 BLOCK, views)
        Deviations of the outputs due to a block's own innovations at each place of it, then
        at each place of the next one, and the walls of both.
    state_root : ndarray, shape (n, n)
        Root of the covariance of the state that a block hands over.
    ball : float
        Radius of the ball of that state, where it is standard Gaussian.
    """

    system: LinearSystem
    stds: NDArray[np.float64]
    radii: NDArray[np.float64]
    state_root: NDArray[np.float64]
    ball: float

    @cached_property
    def safe_stds(self) -> NDArray[np.float64]:
        """Deviations, infinite at places that no innovation reaches."""
        return np.where(self.stds > 0, self.stds, math.inf)

    @cached_property
    def whitening(self) -> NDArray[np.floating]:
        """The inverse (n, n) of the root of the state that a block hands over."""
        if not self.system.order:
            return np.zeros((0, 0))
        return np.linalg.pinv(self.state_root, rcond=1e-10)

    def walls(self, shaping: LinearSystem, secret: SecretInputs) -> list[Wall]:
        """Return the walls that changes come nearer to, wherever in a block they begin.

        ``shaping`` makes the noise of its innovations.
        """
        lift, shown, states = self._lifted(shaping, secret)
        norms = np.linalg.norm(lift.reshape(-1, lift.shape[2]), axis=0)
        slabs = CountedWalls(self.radii.ravel(), float(norms.max()))
        balls = np.zeros(0)
        count = max(1, NUMBERS_AT_ONCE // max(1, 2 * shown.shape[0] * shown.shape[1]))
        for first in range(0, lift.shape[2], count):
            some = slice(first, first + count)
            for offset in range(BLOCK):
                made, left = self._made(shown[..., some], states[..., some], offset)
                slabs.include(made.reshape(len(made), -1, made.shape[3]))
                ends = np.linalg.norm(self.whitening @ left, axis=1)
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

    def _lifted(
        self, shaping: LinearSystem, secret: SecretInputs
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return what changes add to the entries, the outputs and the states (T, ., M).

        They are those of the noise whose entries make up for a change.
        """
        lifted = shaping.inverse().after(secret.system)
        changes = changes_of(secret, secret.longest)
        samples = max(secret.longest + 64, 2 * BLOCK)
        while True:
            lift = _followed(lifted, changes, samples)
            last = np.abs(lift[-samples // 8 :]).max()
            if last <= NEGLIGIBLE * np.abs(lift).max():
                break
            if samples >= LATEST:
                raise PrivacyError(
                    "bound: the noise that hides a change lasts for more than "
                    f"{LATEST} samples; pass life=, or a lower order="
                )
            samples *= 2
        early = min(samples, _FOLLOWED)
        shown = _followed(self.system.after(lifted), changes, early)
        of_states = to_states(self.system).after(lifted)
        return lift, shown, _followed(of_states, changes, early)

    def _made(
        self, shown: NDArray[np.float64], states: NDArray[np.float64], offset: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
        made /= self.safe_stds[:, :, None]
        return made, left

    @cached_property
    def _onward(self) -> NDArray[np.float64]:
        """Powers of A (BLOCK + 1, n, n)."""
        return orbit(self.system, np.eye(self.system.order), BLOCK + 1)

    @cached_property
    def _free(self) -> NDArray[np.float64]:
        """Outputs (BLOCK, views, n) that each state leads to."""
        return self.system.C @ self._onward[:BLOCK]


def _followed(
    system: LinearSystem, changes: NDArray[np.float64], samples: int
) -> NDArray[np.float64]:
    """Return outputs (T, p, M) of changes (L, q, M) from rest, and after they are over."""
    length, _, moves = changes.shape
    rest = np.zeros((moves, system.order))
    during, states = system.run(rest, changes.transpose(2, 0, 1))
    later = system.free_response(states.T, samples - length)
    later = later.reshape(samples - length, len(system.C), moves)
    return np.concatenate([during.transpose(1, 2, 0), later])


def _norms_before(lift: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return norms (T, M) of the entries (T, r, M) of a block's length up to each sample."""
    squares = np.sum(lift**2, axis=1)
    total = np.cumsum(squares, axis=0)
    total[BLOCK:] -= total[:-BLOCK].copy()
    rounding = len(lift) * EPS * squares.sum(axis=0)
    return np.sqrt(np.maximum(total, 0.0) + rounding)
