"""Several changes where a plant varies, and changes of any shape.

Only the energies are known that are left of a change some samples later (see ``_varying``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..numerics.errors import UncertifiableError
from ..numerics.objects import ByContent
from ..privacy.horizon import Horizon
from ..privacy.repetition import Correlations, Deferred, Spacing
from ._endless import (
    joint_shift,
)
from ._fading import Fading
from ._varying import Inverted


@dataclass(frozen=True, eq=False)
class ChangesOfRegion(ByContent, Correlations):
    """Hold how what is left of a change fades, however a plant varies within a region.

    Attributes
    ----------
    noises : tuple of Fading
        Behind each of the independent noises.
    unit : float or None
        The shift that is promised over the number of changes that it is about, which may
        be less than follows from ``noises``. None where it is what does, and of changes
        that keep a distance.
    most : int or None
        Samples of the run, None where it has no end.
    several : float or None
        The shift that is promised of several changes that keep a distance.
    """

    _omitted = ("unit", "most", "several")

    noises: tuple[Fading, ...]
    unit: float | None = None
    most: int | None = None
    several: float | None = None

    @property
    def _one(self) -> float:
        """The shift of one change, as far as a promise says it."""
        shift = joint_shift(*[noise.shift for noise in self.noises])
        return shift if self.unit is None else min(shift, self.unit)

    def growth(self, spacing: Spacing) -> float:
        if self.most is not None:
            spacing = spacing.within(self.most - 1)
        shifts = [noise.of_several(spacing) for noise in self.noises]
        return min(joint_shift(*shifts) / self._one, float(spacing.events))

    def promised(self, spacing: Spacing) -> float:
        bound = self.growth(spacing)
        return bound if self.several is None else min(bound, self.several / self._one)

    def any_shape(self) -> tuple[float, NDArray[np.float64]]:
        shift = joint_shift(*[noise.of_any_shape for noise in self.noises])
        count = len(self.noises[0].values)
        return float(np.clip(shift / self._one, 1.0, count)), np.ones(count)


@dataclass(frozen=True, eq=False)
class RegionOfChanges(ByContent, Deferred):
    """Hold how the noises of a region are undone, until it is asked for."""

    noises: tuple[Inverted, ...]
    horizon: Horizon
    unit: float | None
    is_from_rest: bool
    several: float | None = None

    def settled(self) -> ChangesOfRegion:
        return self._settled

    @cached_property
    def _settled(self) -> ChangesOfRegion:
        found = tuple(_fading_of(self.noises))
        most = int(self.horizon) if self.horizon.ends else None
        unit = self.unit if self.is_from_rest else None
        if most is not None and unit is not None and len(found) == 1:
            # the promise may follow from what comes within the run alone
            (fading,) = found
            found = (replace(fading, shift=min(fading.shift, unit)),)
        return ChangesOfRegion(found, self.unit, most, self.several)


def _fading_of(noises: Sequence[Inverted]) -> Iterator[Fading]:
    """Yield how a change fades behind each noise, as far as the shift counts them."""
    first, *others = noises
    yield first.fading()
    if first.response is not None:  # the floor is in it already
        return
    for other in others:
        with suppress(UncertifiableError):
            yield other.fading()
