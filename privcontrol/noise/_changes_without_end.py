"""Several changes in runs of any length, and changes of any shape.

Noise without a horizon whitens a change to the response of V = M^-1 G. Each independent
noise hides the changes of each plant that may be the true one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..numerics.objects import ByContent
from ..numerics.thresholds import MOST_STATES_IN_BALLS
from ..privacy.repetition import Correlations, Spacing
from ..secrets.secrets import Secrets
from ..systems.linear import Autoregression, Plant, spectral_radius
from ._apart import are_many
from ._autoregression import ChangesBehind, are_told_apart, changes_behind
from ._changes_left import ChangesLeft
from ._endless import joint_shift
from ._varying import Inverted, inverted
from .parts import NoisePart


def changes_without_end(
    parts: Sequence[NoisePart], secret: Secrets, plants: Sequence[Plant]
) -> EndlessChanges | None:
    """Return whitened changes behind noise without a horizon, None if no bound is known."""
    if any(part.of_units for part in parts):
        return None
    noises = []
    for plant in plants:
        (inputs,) = secret.under([plant])
        if are_many(inputs.signals):
            return None
        found = [each for each in inverted(parts, [inputs]) if each is not None]
        for each in found:
            system = each.secrets[0].system
            if each.response is not None or not spectral_radius(system) < 1:
                return None
            if each.square.order > MOST_STATES_IN_BALLS and not _is_long(each):
                return None
        noises.append(tuple(found))
    return EndlessChanges(tuple(noises))


@dataclass(frozen=True, eq=False)
class EndlessChanges(ByContent, Correlations):
    """Hold changes that are whitened by noise without a horizon.

    Attributes
    ----------
    noises : tuple of tuple of Inverted
        For each plant that may be the true one the independent noises that hide it.
    """

    noises: tuple[tuple[Inverted, ...], ...]

    def __getstate__(self) -> dict[str, object]:
        return {"noises": self.noises}  # without what was evaluated, which is in balls

    @cached_property
    def _left(self) -> tuple[tuple[ChangesLeft | ChangesBehind, ...], ...]:
        """The changes behind each noise, without noises of which no bound is known."""
        every = []
        for noises in self.noises:
            found: list[ChangesLeft | ChangesBehind] = []
            for k, noise in enumerate(noises):
                left = _by_lags(noise) or ChangesLeft(noise)
                if k == 0 or left.is_bounded:
                    found.append(left)
            every.append(tuple(found))
        return tuple(every)

    @cached_property
    def _shift(self) -> float:
        """The shift of one change."""
        return max(joint_shift(*[left.shift for left in lefts]) for lefts in self._left)

    def growth(self, spacing: Spacing) -> float:
        shifts = []
        for lefts in self._left:
            shifts.append(joint_shift(*[left.of_several(spacing) for left in lefts]))
        return max(shifts) / self._shift

    def any_shape(self) -> tuple[float, NDArray[np.float64]]:
        shifts = []
        patterns = []
        for lefts in self._left:
            found = [left.of_any_shape for left in lefts]
            shifts.append(joint_shift(*[shift for shift, _ in found]))
            patterns.append(found[0][1])
        worst = int(np.argmax(shifts))
        return max(shifts[worst] / self._shift, 1.0), patterns[worst]


def _by_lags(noise: Inverted) -> ChangesBehind | None:
    """Return changes behind a long autoregression, from their correlations.

    None for other noise.
    """
    shaping = noise.square
    if not isinstance(shaping, Autoregression) or not _is_long(noise):
        return None
    return changes_behind(shaping, noise.secrets[0].once)


def _is_long(noise: Inverted) -> bool:
    """Return whether noise is a long autoregression."""
    is_plain = isinstance(noise.square, Autoregression) and noise.response is None
    return (
        is_plain
        and noise.square.order > MOST_STATES_IN_BALLS
        and are_told_apart(noise.secrets[0])
    )
