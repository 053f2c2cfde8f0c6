"""Changes of a secret signal, and how much clearer they show when they repeat.

A guarantee about one change says nothing of two. Let y be the most that one change is
shifted by, in standard deviations of whitened noise, and let r(tau) bound the correlation
of any two changes that start tau samples apart or more, relative to y^2. Then n changes
that start b samples apart or more are shifted by at most

    y sqrt(n + 2 sum over m = 1 .. n - 1 of (n - m) r(m b)),

since in the order of time n - m pairs are m places apart. Where no correlation is known,
n changes show at most n times as clearly as one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..numerics.linalg import EPS, largest_later
from ..numerics.saved import Saved, check_fields
from ..numerics.thresholds import ROUNDED

#: Durations from the start of one change to that of the next one, where none is stated.
_DURATIONS_APART = 8
#: Pairs of changes, by their distance, of which each has a correlation of its own.
_MOST_PLACES = 4096


@dataclass(frozen=True)
class Spacing:
    """Say how many changes may come in one run, and how far apart any two of them start.

    Attributes
    ----------
    events : int
        Number of changes.
    separation : int
        Samples from the start of one to that of the next one at least, zero for any.
    """

    events: int = 1
    separation: int = 0

    @property
    def is_apart(self) -> bool:
        """Whether several changes may come, at a distance."""
        return self.events > 1 and self.separation > 0

    @property
    def lags(self) -> range:
        """Least lags of changes that are 1, 2, ... places apart, if all keep a distance."""
        if self.events == 1:
            return range(0)
        step = self.separation
        return range(step, self.events * step, step)

    def within(self, room: int) -> Spacing:
        """Return as many of these changes as may start within ``room`` samples of one."""
        if self.events == 1:
            return self
        fitting = 1 + room // self.separation
        return Spacing(min(self.events, fitting), self.separation)

    @staticmethod
    def joint(every: Sequence[Spacing]) -> Spacing:
        """Return the spacing of changes of several kinds that may come together."""
        events = max(each.events for each in every)
        return Spacing(events, min(each.separation for each in every))


#: One change in a run.
ONCE = Spacing()


class Spaced(Saved):
    """Base of changes with a ``spacing``, whose two numbers files hold by themselves."""

    spacing: Spacing

    def _saved_fields(self) -> dict[str, object]:
        saved = super()._saved_fields()
        del saved["spacing"]
        return saved | asdict(self.spacing)

    @classmethod
    def _restored(cls, saved: dict[str, Any]) -> Self:
        spacing = Spacing(saved.pop("events"), saved.pop("separation"))
        check_fields(spacing)
        return super()._restored(saved | {"spacing": spacing})


class Correlations(Saved, ABC):
    """Say how far whitened noise is shifted by changes beyond the one that is promised."""

    @abstractmethod
    def growth(self, spacing: Spacing) -> float:
        """Bound the shift of changes at a distance, relative to that of one."""

    def promised(self, spacing: Spacing) -> float:
        """Bound the same for the changes of a promise, no higher than it says itself.

        A promise of several changes may be better than what is known of two at a time.
        """
        return self.growth(spacing)

    @abstractmethod
    def any_shape(self) -> tuple[float, NDArray[np.float64]]:
        """Bound the shift of a change of any shape, relative to that of one level.

        The other value is the pattern (k,) of signs that shows most, as far as it is known.
        """

    def settled(self) -> Correlations:
        """Return the same in few numbers, as files hold it."""
        return self


class Deferred(Correlations):
    """Hold what `settled` works out, until it is asked for."""

    @abstractmethod
    def settled(self) -> Correlations:
        """Return the same in few numbers, worked out once."""

    def growth(self, spacing: Spacing) -> float:
        return self.settled().growth(spacing)

    def promised(self, spacing: Spacing) -> float:
        return self.settled().promised(spacing)

    def any_shape(self) -> tuple[float, NDArray[np.float64]]:
        return self.settled().any_shape()


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
    varying : str
        The words of a change of any shape, where only levels that are kept are hidden.
    within : str
        The size of a change in words, with a space before it.
    energy : bool
        Whether only its energy counts, so that the energies of separate ones add up.
    start : str
        The samples at which it may start, or of an energy may be, in words, empty for any.
    differs : str
        What of an event is hidden that happens anyway, such as "time". Empty for changes.
    each : str
        Its words where it is one of several, empty for the same.
    period : int
        Samples of the plant that count as one here, zero where each is one.
    """

    _omitted = ("differs", "each", "period")

    words: str
    longest: int | None = 1
    events: int = 1
    separation: int = 0
    varying: str = ""
    within: str = ""
    energy: bool = False
    start: str = ""
    differs: str = ""
    each: str = ""
    period: int = 0

    @property
    def spacing(self) -> Spacing:
        """How many of them are hidden in one run, and how far apart."""
        return Spacing(self.events, self.separation)

    @property
    def kind(self) -> str:
        """What comes once or several times in a run."""
        return "event" if self.differs else "change"

    @property
    def statement(self) -> str:
        """Say how often the change comes, and what it is."""
        if self.differs and self.events == 1:
            return f"{self.words}{self.start}"
        kind, several = self.kind, f"{self.kind}s"
        if self.energy and self.longest is not None:
            length = f"of {self.longest} samples"
            kind, several = f"window {length}", f"windows {length}"
        if self.events == 1:
            return f"one {kind} per run{self.start}: {self.words}"
        apart = ", whenever they start"
        if not self.differs:
            apart = ", each at a time or signal of its own"
        if self.separation:
            apart = f", starts >= {self.separation} samples apart"
        words = self.each or self.words
        return f"{self.events} {several} per run{apart}{self.start}: {words}"

    @property
    def of_any_shape(self) -> Change:
        """The change of any shape that is as long and as large."""
        return replace(self, words=self.varying, varying="")

    def apart(self, distance: int, unit: str = "") -> str:
        """Return a distance of starts in words: in periods where these count as samples."""
        unit = "period" if self.period else unit
        if unit:
            unit = f" {unit}" if distance == 1 else f" {unit}s"
        return f"{distance}{unit} apart"

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
            return 1.0 if count == 1 else float(count)
        bounds = [float(count)]
        if self.energy:
            if self.longest is not None and separation >= self.longest:
                bounds.append(math.sqrt(count) * (1 + 2 * EPS))
            return min(bounds)
        if separation >= self.separation:  # as many groups of changes as are promised
            bounds.append(float(math.ceil(count / self.events)))
        if self._change_places(separation):
            return min(bounds)
        if correlations is not None and self.events == 1:
            bounds.append(correlations.growth(Spacing(count, separation)))
        elif correlations is not None and self.separation:
            many = correlations.growth(Spacing(count, separation))
            promised = correlations.promised(self.spacing)
            bounds.append(max(1.0, many / promised * (1 + 4 * ROUNDED)))
        return min(bounds)

    def _change_places(self, separation: int) -> bool:
        """Whether events that start so many samples apart may be in another order.

        Two of them, of opposite signs, at each other's sample are one twice as large.
        """
        return "time" in self.differs and separation <= (self.longest or math.inf)

    def times_one(self, correlations: Correlations) -> float:
        """Bound all changes, as if they came at once, over the number promised for one.

        That is their number, over how many times as clearly as one the promise lets them
        show together.
        """
        if not self.spacing.is_apart:
            return float(self.events)
        promised = correlations.promised(self.spacing)
        return min(self.events / promised * (1 + 4 * ROUNDED), float(self.events))


def growth_apart(spacing: Spacing, correlation: Callable[[int], float]) -> float:
    """Return the bound of the module's head over y, from r of a number of samples."""
    count = spacing.events
    lags = spacing.lags[:_MOST_PLACES]
    places = np.arange(1, len(lags) + 1)
    shared = np.array([correlation(lag) for lag in lags])
    square = count + 2 * float(np.dot(count - places, shared))
    further = count - 1 - len(places)
    if further > 0:  # places p + 1 .. n - 1, each of no more than the last correlation
        square += float(shared[-1]) * further * (further + 1)
    return min(math.sqrt(square * (1 + 4 * ROUNDED)), float(count))


def growth_of_run(
    sizes: NDArray[np.float64], products: NDArray[np.float64], spacing: Spacing
) -> float:
    """Bound the shift of changes of a run from those of changes by their starts (T,).

    ``products`` (T,) bound what two changes share, for each lag and all later ones. Two
    changes share no more than the product of their sizes either. The largest sum over all
    placements is found backwards in time, with each pair counted at its earlier change.
    """
    horizon = len(sizes)
    rest = largest_later(sizes)
    squares = sizes**2
    shared = np.zeros(horizon)
    total, alike = squares, sizes
    largest, added = float(total.max()), float(alike.max())
    for lag in spacing.lags:
        if lag >= horizon:
            break
        pairs = np.minimum(products[lag], sizes[:-lag] * rest[lag:])
        shared[:-lag] += 2 * pairs
        total = squares + shared + _before(total, spacing.separation)
        alike = sizes + _before(alike, spacing.separation)
        largest = max(largest, float(total.max()))
        added = max(added, float(alike.max()))
    return math.sqrt(min(largest, added**2) * (1 + 4 * ROUNDED))


def _before(values: NDArray[np.float64], separation: int) -> NDArray[np.float64]:
    """Return the largest value so many samples later or more, minus infinity for none."""
    found = np.full(len(values), -np.inf)
    found[:-separation] = largest_later(values)[separation:]
    return found
