"""Noise that never leaves a bound: in which room it is kept, and what that leaks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ..privacy.walls import Wall
from ..secrets.secrets import Secrets
from ..systems.linear import Plant
from ._room import Room
from ._rooms_of_blocks import InnovationBlocks
from ._rooms_of_runs import Life, Once, ball_radius
from .bound import Bound
from .parts import NoisePart, PartSum, Structured


def room_of(parts: Sequence[NoisePart], bound: Bound) -> Room:
    """Return the room of noise that never passes a bound.

    Raises
    ------
    PrivacyError
        If noise of this kind is not kept within a bound.
    """
    total = PartSum(tuple(parts))
    run = bound.samples
    if not run.ends:
        return InnovationBlocks.of_noise(total, bound)
    if total.consists_of(Structured) and len(total.parts) == 1:
        return Once(total, bound, run, ball_radius(total, bound, run))
    return Life(total, bound, run)


def walls_of(
    parts: Sequence[NoisePart],
    secret: Secrets,
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
    secret: Secrets,
    plants: tuple[Plant, ...],
    bound: Bound,
    shift: float,
) -> tuple[Wall, ...]:
    return room_of(parts, bound).walls(secret, plants, shift)
