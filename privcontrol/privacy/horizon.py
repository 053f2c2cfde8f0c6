"""How many samples a run publishes, and what follows from it.

A horizon is a number that answers for itself. `Run` is the number of samples T of a run
that ends, and `Endless` is infinity. Both compare, add and print as the numbers that they
are, so users read ``noise.horizon`` as before.

Examples
--------
>>> run, endless = horizon_of(100), horizon_of(float("inf"))
>>> run.text, endless.text
('horizon 100', 'no horizon')
>>> run.first(20) + 1, endless.first(20) + 1
(21, 21)
>>> run.room(30), endless.room(30)  # for changes that begin 30 samples apart
(4, inf)
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from ..numerics.checks import sample_count

_NO_SAMPLES = "horizon: expected a number of samples, got noise without a horizon"


class Run(int):
    """The number of samples T of a run, t = 0 .. T-1."""

    __slots__ = ()

    ends: ClassVar[Literal[True]] = True
    #: What costs are counted over.
    costs: ClassVar[str] = "over the horizon"
    #: What a guarantee takes for granted of the noise.
    drawn: ClassVar[str] = "the noise drawn once for the horizon"

    @property
    def text(self) -> str:
        """The horizon in two words."""
        return f"horizon {self}"

    @property
    def samples(self) -> str:
        """The number of samples, in words."""
        return f"{self} samples"

    @property
    def distinct(self) -> int:
        """Number of first samples whose noise has every law that occurs."""
        return int(self)

    def words(self, releases: int, window: tuple[float, float] | None) -> str:
        """Return the samples of so many releases of a window of the run, in words."""
        words = self.samples
        start, stop = window or (0, self)
        if stop - start < self:
            words += f" in all, of which {start} to {stop - 1} are published"
        elif start > 0:
            words += f" ({start} to {stop - 1} of the run)"
        return words

    def count(self, advice: str = "") -> Run:
        """Return T. `Endless` raises a ``ValueError`` with the advice in its place."""
        return self

    def count_or(self, other: int) -> int:
        """Return T, where `Endless` returns the other number."""
        return int(self)

    def first(self, count: int) -> Run:
        """Return the horizon of a run's first samples.

        Raises
        ------
        ValueError
            If the run has fewer.
        """
        samples = sample_count(count, "horizon")
        if samples > self:
            raise ValueError(
                f"horizon: expected at most the {self} samples that the guarantee "
                f"covers, got {samples}"
            )
        return Run(samples)

    def room(self, distance: int) -> float:
        """Return how many changes that begin so many samples apart fit into a run."""
        return 1 + (self - 1) // distance

    def pair(self, t: int) -> tuple[int, int]:
        """Return the samples whose covariance is asked for by one index, both t."""
        return t, t

    def lasts(self, step: float, unit: str) -> str:
        """Return the samples and how long they take, in words."""
        return f"{self.samples} or {step * self:g} {unit}"

    def pace(self, step: float, unit: str) -> str:
        """Return how long a run or a sample takes, as a sentence."""
        return f"The run takes {step * self:g} {unit}."

    def left(self, passed: int) -> str:
        """Return how much of a run is left after some samples, in words."""
        return f"{self - passed} samples remaining"


class Endless(float):
    """Infinity: the guarantee is one for a run of any length, and costs are those of a sample."""

    __slots__ = ()

    ends: ClassVar[Literal[False]] = False
    costs: ClassVar[str] = "of a sample in steady state"
    drawn: ClassVar[str] = (
        "noise that never begins again (k new beginnings count as k + 1 releases)"
    )
    text: ClassVar[str] = "no horizon"
    samples: ClassVar[str] = text
    distinct: ClassVar[int] = 1

    def __new__(cls) -> Endless:
        return super().__new__(cls, math.inf)

    def __getnewargs__(self) -> tuple[()]:  # type: ignore[override]
        return ()

    def words(self, releases: int, window: tuple[float, float] | None) -> str:
        return "one run of any length" if releases == 1 else "runs of any length"

    def count(self, advice: str = _NO_SAMPLES) -> Run:
        raise ValueError(advice)

    def count_or(self, other: int) -> int:
        return other

    def first(self, count: int) -> Run:
        return Run(sample_count(count, "horizon"))

    def room(self, distance: int) -> float:
        return math.inf

    def pair(self, t: int) -> tuple[int, int]:
        """Return two samples that are t apart, which may be negative."""
        return max(t, 0), max(-t, 0)

    def lasts(self, step: float, unit: str) -> str:
        return self.text

    def pace(self, step: float, unit: str) -> str:
        return f"The loop takes a sample every {step:g} {unit}."

    def left(self, passed: int) -> str:
        return self.text


NO_HORIZON = Endless()
Horizon = Run | Endless


def horizon_of(samples: float) -> Horizon:
    """Return the horizon of a number of samples, or of infinity.

    Raises
    ------
    TypeError, ValueError
        If it is neither a positive integer nor ``np.inf``.
    """
    if isinstance(samples, Run | Endless):
        return samples
    if isinstance(samples, float | np.floating) and samples == math.inf:
        return NO_HORIZON
    if samples is None:
        raise TypeError(
            "horizon: expected a whole number of samples, or np.inf for a run of any "
            "length, got None"
        )
    return Run(sample_count(samples, "horizon"))
