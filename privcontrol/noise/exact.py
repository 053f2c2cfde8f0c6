"""Make exact noise of a designed one: the matrices of its parts, and nothing rounded.

What they are drawn with, and how samples are enclosed, is `privcontrol.noise.drawn`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from ..numerics.errors import PrivacyError
from ..systems.gain import largest_gain
from ..systems.linear import Autoregression, LinearSystem, VaryingSystem
from ._room import Room
from .drawn import (
    COARSE_BITS,
    FINE_BITS,
    BlockPart,
    CorrelatedPart,
    DrawnNoise,
    DrivenPart,
    Entries,
    ExactPart,
    RadialPart,
    StatePart,
    StructuredPart,
    WhitePart,
)
from .parts import (
    Blocks,
    Correlated,
    DrawnOnce,
    Driven,
    Filtered,
    NoisePart,
    Radial,
    Structured,
    White,
)
from .process import SummedNoise
from .within import room_of

#: Rounding of a state, relative to the noise that hides it, which is negligible: after 1e18
#: samples the roundings together are below 1e-15.
_UNSEEN_ROUNDING = 1e-24


class ExactNoise(DrawnNoise):
    """The samples of output noise as enclosures, in time order."""

    def __init__(self, noise: SummedNoise) -> None:
        parts: list[ExactPart] = []
        for part in noise.parts:
            if isinstance(part, Filtered):
                parts.append(_hidden_state(part, noise.process.total.white))
            else:
                parts.append(exact_part(part))
        is_radial = any(isinstance(part, Radial | Blocks) for part in noise.parts)
        family = "gaussian" if is_radial else noise.family
        super().__init__(family, noise.process.outputs, parts)
        if noise.kept is not None:
            self.room = room_of(noise.parts, noise.kept)

    def drawn_within(self, numbers: Sequence[int]) -> Entries:
        """Return fresh entries that are drawn again until they are within the room.

        They are those that are drawn once, those of a block, or all of a life.
        """
        room = self.room
        if not isinstance(room, Room):
            return super().drawn_within(numbers)
        once = sum(number < self.once for number in numbers)

        def is_within(entries: Entries) -> bool:
            return room.holds([entries[number] for number in numbers], once)

        return room.drawn_until(is_within, lambda: self.draw(numbers))


@singledispatch
def exact_part(part: NoisePart) -> ExactPart:
    """Return a part of noise as a gateway publishes it.

    Another family of noise registers its own, ``@exact_part.register(Family)``.
    """
    if part.of_units:
        raise PrivacyError(
            f"noise: that of {part} is too large for one gateway; publish units that "
            "nothing connects by a gateway each, with noise designed for the plant of "
            "that unit"
        )
    raise PrivacyError(
        f"noise: expected parts that can be published exactly, got {part}; register "
        "how with privcontrol.noise.exact.exact_part"
    )


@exact_part.register
def _(part: Structured) -> ExactPart:
    return StructuredPart(*_free(part), part.factor)


@exact_part.register
def _(part: Radial) -> ExactPart:
    bound = part.bound if part.law.is_cut else 0.0
    return RadialPart(*_free(part), part.factor, bound)


@exact_part.register
def _(part: Blocks) -> ExactPart:
    return BlockPart(*_free(part), part.factor, np.array(part.sizes, float))


def _free(part: Structured) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return A and C of a part's plant, with a leading axis of samples where it varies."""
    plant = part.plant
    if isinstance(plant, VaryingSystem):
        A, _, C, _ = plant.along
        return A, C
    return plant.A, plant.C


@exact_part.register
def _(part: Driven) -> ExactPart:
    return DrivenPart(*part.response.matrices, part.sizes)


@exact_part.register
def _(part: Correlated) -> ExactPart:
    return CorrelatedPart(part.root, part.outputs)


@exact_part.register
def _(part: DrawnOnce) -> ExactPart:
    A, _, C, _ = part.model.along
    return StructuredPart(A, C, part.state_root)


@exact_part.register
def _(part: White) -> ExactPart:
    return WhitePart(part.scale)


def _hidden_state(part: Filtered, floor: NDArray[np.float64]) -> StatePart:
    """Return a filtered part on the coarsest grid whose rounding nobody sees."""
    largest = np.sqrt(np.diag(part.state_covariance).max(initial=0.0))
    of_part = (*part.system.matrices, part.state_root, float(largest))
    coarse = StatePart(*of_part, COARSE_BITS)
    with suppress(PrivacyError):
        _check_rounding(part, coarse, floor)
        return coarse
    fine = StatePart(*of_part, FINE_BITS)
    _check_rounding(part, fine, floor)
    return fine


def _check_rounding(
    part: Filtered, exact: StatePart, floor: NDArray[np.float64]
) -> None:
    """Refuse noise in which the rounding of the state could be seen.

    A floor (p,) hides it, and so does the noise itself, where a system undoes it.
    """
    order = part.system.order
    if not order:
        return
    # from errors of the state to what is left of them
    left = []
    if floor.all():
        seen = part.system.C / floor[:, None]
        left.append((part.system.A, seen))
    shaping = part.shaping
    if isinstance(shaping, Autoregression) and part.response is None:
        # an error is seen at most p times, by |a|_1 / s
        seen = 1 + float(np.abs(shaping.coefficients).sum())
        error = 2 * order * float(exact.grid)
        if error * seen / shaping.std < _UNSEEN_ROUNDING:
            return
    elif part.response is None:
        left.append((shaping.inverse().A, np.linalg.solve(shaping.D, shaping.C)))
    if not left:
        raise PrivacyError(
            "noise: the rounding of its state would be seen, because its outputs "
            "outnumber the secret signals; add a white floor (floor=...)"
        )
    error = 2 * math.sqrt(order) * float(exact.grid)
    for A, C in left:
        still = np.zeros((len(C), order))
        gain = largest_gain(LinearSystem(A, np.eye(order), C, still))
        if gain * error < _UNSEEN_ROUNDING:
            return
    raise PrivacyError(
        "noise: the rounding of its state is not negligible, because its inverse is "
        "almost unstable or the floor vanishes next to it; raise the white floor "
        "(floor=...)"
    )
