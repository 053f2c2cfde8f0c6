"""A place that noise never leaves, and how far doubles are from deciding that it is there.

The noise is drawn again until it is within, and never clipped. What a move does to each wall
of a room is its leak (`privcontrol.privacy.walls`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..numerics.balls import Ball, BallMatrix, working_bits
from ..numerics.errors import PrivacyError
from ..numerics.linalg import EPS
from ..numerics.thresholds import MOST_HELD, ROUNDED
from ..privacy.release import StandardEntry
from ..privacy.walls import Wall
from ..secrets.secret import SecretInputs
from ..secrets.secrets import Secrets
from ..systems.linear import LinearSystem, Plant, to_states
from .bound import Bound
from .drawn import Unbounded
from .parts import PartSum

T = TypeVar("T")

#: Draws so many standard entries.
Drawing: TypeAlias = Callable[[int], NDArray[np.float64]]
#: Roundings of a sample, beside one for each of its terms, when a run goes in blocks.
ROUNDINGS = 128
#: Draws after which no life within the bound is looked for any more.
MOST_DRAWS = 10_000


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

    @abstractmethod
    def share(self, first: NDArray[np.float64], fresh: NDArray[np.float64]) -> float:
        """Return the largest part of a limit that entries of a draw reach.

        They are those that are drawn once (once,), and those of its samples (T, width).
        Where all of a life is not drawn together, one of the two is empty.
        """

    @abstractmethod
    def uncertainty(
        self, first: NDArray[np.float64], fresh: NDArray[np.float64]
    ) -> float:
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
    def draws(
        self, draw: Drawing
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Yield entries of one run that are within, block by block.

        ``draw(count)`` returns fresh standard entries (count,). The first ones of a run
        come with its first block.
        """

    @abstractmethod
    def walls(
        self, secret: Secrets, plants: tuple[Plant, ...], shift: float
    ) -> tuple[Wall, ...]:
        """Return the walls that hidden moves of a privacy shift come nearer to."""

    def _within(
        self, draw: Drawing, once: int, samples: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the first draw whose share of a limit is at most one."""
        width = self.total.width

        def drawn() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            entries = draw(once + samples * width)
            return entries[:once], entries[once:].reshape(samples, width)

        return self.drawn_until(lambda entries: self.share(*entries) <= 1, drawn)

    def drawn_until(self, is_within: Callable[[T], bool], draw: Callable[[], T]) -> T:
        """Return the first of many draws that is within."""
        for _ in range(MOST_DRAWS):
            drawn = draw()
            if is_within(drawn):
                return drawn
        raise PrivacyError(
            f"bound: none of {MOST_DRAWS} draws is within; design the noise for a larger "
            "bound or a shorter life"
        )

    def holds(self, entries: Sequence[StandardEntry], once: int) -> bool:
        """Return whether a draw is within, after as many bits as that takes.

        The first ``once`` entries are those that are drawn once, then come those of each
        sample. Balls decide where double precision might not.
        """
        for entry in entries:
            while not _is_sharp(entry.ball()):
                entry.refine()
        width = max(self.total.width, 1)
        values = np.array([float(entry.ball().mid()) for entry in entries])
        first, fresh = values[:once], values[once:].reshape(-1, width)
        share = self.share(first, fresh)
        if abs(share - 1) > max(ROUNDED, self.uncertainty(first, fresh)):
            return bool(share < 1)
        while True:
            with working_bits(2 * max(entry.count for entry in entries)):
                balls = [entry.ball() for entry in entries]
                decided = self.decided(
                    BallMatrix(once, 1, balls[:once]),
                    BallMatrix(len(fresh), width, balls[once:]),
                )
            if decided is not None:
                return bool(decided)
            for entry in entries:
                entry.refine()


@dataclass(frozen=True, eq=False)
class Recursion:
    """A system that is run in doubles, and how far its states may be from the true ones.

    Each step rounds the state anew, and the powers of A carry that on: an error at one
    sample is later at most |A^k| times as large, entry by entry.
    """

    system: LinearSystem
    lasting: NDArray[np.float64]  # sum (n, n) of |A^k| over a run

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
        self,
        root: NDArray[np.float64],
        first: NDArray[np.float64],
        fresh: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return errors (p,) and (n,) of outputs and states.

        They are for entries (once,) and (T, width).
        """
        A, B, C, D = (np.abs(matrix) for matrix in self.system.matrices)
        states = self._largest_states(root, first, fresh)
        entries = np.abs(fresh).max(axis=0, initial=0.0)
        rounded = A @ states + B @ entries + np.abs(root) @ np.abs(first)
        carried = self.lasting @ rounded + states
        terms = self.system.order + self.system.input_count + len(first)
        rounding = (terms + ROUNDINGS) * EPS
        return rounding * (C @ carried + D @ entries), rounding * carried

    def _largest_states(
        self,
        root: NDArray[np.float64],
        first: NDArray[np.float64],
        fresh: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        start = (root @ first)[None]
        states, last = to_states(self.system).run(start, fresh[None])
        return np.abs(np.concatenate([states[0], last])).max(axis=0)


def _is_sharp(ball: Ball) -> bool:
    """Return whether a ball is no wider than the rounding of its middle."""
    if not ball.is_finite():
        return False
    size = max(1.0, abs(float(ball.mid())))
    return bool(float(ball.rad()) <= EPS * size)


def shares_of(gamma: BallMatrix, limits: Sequence[float]) -> list[Ball]:
    """Return what parts of their limits some numbers (p, 1) reach."""
    shares = []
    for row, limit in enumerate(limits):
        if limit < math.inf:
            shares.append(abs(gamma[row, 0]) / Ball(limit))
    return shares


def at_most(value: Ball, limit: Ball) -> bool | None:
    """Return whether a ball is at most a limit, None where the ball does not decide it."""
    if value <= limit:
        return True
    return False if value > limit else None


def all_at_most(shares: Sequence[Ball]) -> bool | None:
    """Return whether all shares are at most one, None where the balls do not decide it."""
    found = [at_most(share, Ball(1)) for share in shares]
    if False in found:
        return False
    return None if None in found else True


def changes_of(inputs: SecretInputs, samples: int) -> NDArray[np.float64]:
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
