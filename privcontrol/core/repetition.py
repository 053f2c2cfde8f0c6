"""Changes of a secret signal, and how much clearer they show when they repeat.

A guarantee about one change says nothing of two. Let y be the most that one change is
shifted by, in standard deviations of whitened noise, and r(tau) a bound of the correlation
of any two changes whose starts are tau samples apart or more, relative to y^2. Then n
changes whose starts are b samples apart or more are shifted by at most

    y sqrt(n + 2 sum over m = 1 .. n - 1 of (n - m) r(m b)),

since in the order of time n - m pairs are m places apart. Where no correlation is known,
n changes show at most n times as clearly as one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._linalg import EPS, positive_integer
from ._objects import Saved

#: What two evaluations of one promise may differ by.
_TWO_WAYS = 4e-9
#: Durations from the start of one change to that of the next one, where none is stated.
_DURATIONS_APART = 8


class Correlations(Saved, ABC):
    """Say what whitened noise leaves of changes beyond the one that is promised."""

    @abstractmethod
    def beyond(self, lags: Sequence[int]) -> NDArray:
        """Return upper bounds of r at given lags (k,), in samples, in rising order.

        Each bounds the correlation of any two changes that start so many samples apart or
        more, relative to the largest square of one.
        """

    @abstractmethod
    def any_shape(self) -> tuple[float, NDArray] | None:
        """Return how much clearer a change of any shape shows, and the worst one (k,).

        The shape is one of signs. None where only levels were promised nowhere.
        """


@dataclass(frozen=True)
class Change(Saved):
    """State the kind of change of a secret signal that a guarantee is about.

    Attributes
    ----------
    words : str
        Which signals, of what shape and size, as a public clause.
    longest : int or None
        Samples that it lasts at most, None where that is not limited.
    events : int
        How many of them are hidden in one run.
    separation : int
        Samples from the start of one to that of the next one, zero for any.
    level : bool
        Whether it keeps one level, so that a change that varies is another one.
    energy : bool
        Whether only its energy counts, so that the energies of separate ones add up.
    start : str
        The samples at which it may start in words, empty for any.
    """

    words: str
    longest: int | None = 1
    events: int = 1
    separation: int = 0
    level: bool = False
    energy: bool = False
    start: str = ""

    @property
    def statement(self) -> str:
        """Say how often the change comes, and what it is."""
        return f"{self._often}: {self.words}"

    @property
    def _often(self) -> str:
        if self.energy:
            kind = (
                "change"
                if self.longest is None
                else f"window of {self.longest} samples"
            )
        else:
            kind = "change"
        if self.events == 1:
            return f"one {kind} per run{self.start}"
        apart = ", whenever they start"
        if self.separation:
            apart = f", starts >= {self.separation} samples apart"
        return f"{self.events} {kind}s per run{apart}{self.start}"

    @property
    def is_one(self) -> bool:
        """Whether it is one change in a run, at any of its samples."""
        return self.events == 1 and not self.start and not self.energy

    @property
    def distance(self) -> int | None:
        """Samples between starts at which the text says what repetition does."""
        if self.separation:
            return self.separation
        if self.longest is None or self.events > 1:
            return None
        return self.longest if self.energy else _DURATIONS_APART * self.longest

    def growth(
        self,
        count: int,
        separation: int | None,
        correlations: Correlations | None = None,
    ) -> float:
        """Return how many times as clearly as promised so many changes show at most.

        Parameters
        ----------
        count : int
            Number of changes in one run.
        separation : int or None
            Samples from the start of one to that of the next one at least.
        correlations : Correlations or None
            What is known of changes that do not coincide.
        """
        if separation is None:
            return float(count)
        bounds = [float(count)]
        if separation >= max(self.separation, 1) and not self.energy:
            bounds.append(float(math.ceil(count / self.events)))
        if self.energy:
            if self.longest is not None and separation >= self.longest:
                bounds.append(math.sqrt(count) * (1 + 2 * EPS))
        elif correlations is not None and self.events == 1:
            bounds.append(_growth_of_one(count, separation, correlations))
        elif correlations is not None and self.separation:
            many = _growth_of_one(count, separation, correlations)
            promised = _growth_of_one(self.events, self.separation, correlations)
            bounds.append(max(1.0, many / promised * (1 + _TWO_WAYS)))
        return min(bounds)


def _growth_of_one(count: int, separation: int, correlations: Correlations) -> float:
    """Return the bound of the module's head over y."""
    if count == 1:
        return 1.0
    places = np.arange(1, count)
    shared = correlations.beyond((places * separation).tolist())
    square = count + 2 * float(np.dot(count - places, shared))
    return min(math.sqrt(square * (1 + 4 * count * EPS)), float(count))


def checked_distance(separation: object) -> int | None:
    """Return a separation in samples, None where changes may start anywhere."""
    if separation is None:
        return None
    return positive_integer(separation, "separation")
