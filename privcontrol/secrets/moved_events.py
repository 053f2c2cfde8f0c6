"""Events of which the time is secret, or the signal, rather than whether they happen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..privacy.repetition import ONCE, Spacing
from ..systems.linear import LinearSystem, VaryingSystem
from .disturbed import forced_outputs
from .moving import either_signal, either_time, moved_columns, other_columns
from .secret import SecretInputs, SignalMoves


@dataclass(frozen=True)
class MovedEvents:
    """Events that happen in both runs, at another sample or on another signal.

    Attributes
    ----------
    spacing : Spacing
        How many of them come in one run, and how far apart.
    duration : int
        An event is a level for 1 to so many samples.
    moved : int
        Samples by which an event, or a part of it, moves at most.
    which : bool
        Whether it may be on another signal in the other run.
    """

    spacing: Spacing
    duration: int
    moved: int
    which: bool

    @property
    def add_up(self) -> bool:
        """Whether several events count as one that is as large as all of them.

        They may come together, or change places: one that grows by r and one that falls by
        r, each at the other's sample in the other run, are one that moves by 2 r.
        """
        several = self.spacing.events > 1 and (self.which or self.moved > 0)
        return several and self.spacing.separation <= self.moved

    @property
    def shapes(self) -> tuple[NDArray[np.float64], ...]:
        """Shapes (k,) of a change over time, for a radius of one.

        Moved events are changes of the input of (1 - z^-1) G.
        """
        levels = tuple(np.ones(k) for k in range(1, self.duration + 1))
        if self.which or not self.moved:
            return levels
        pulses = tuple(np.ones(k) for k in range(1, self.moved + 1))
        if self.duration == 1:
            return pulses
        return tuple(np.convolve(a, b) for a in levels for b in pulses)

    def columns(
        self, system: LinearSystem, radii: NDArray[np.float64], horizon: int
    ) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Return a system's responses (T p, M) to moves of events, and when these begin."""
        self._check_signals(radii)
        every = []
        count = len(radii)
        for length in range(1, self.duration + 1):
            forced = forced_outputs(system, horizon, np.ones(length))
            forced = forced * np.tile(radii, horizon)
            if self.which:
                every.append(other_columns(forced, count, self.moved))
            if self.moved:
                every.append(moved_columns(forced, count, self.moved))
        columns = np.hstack([found for found, _ in every])
        return columns, np.concatenate([start for _, start in every])

    def entering(
        self, system: LinearSystem, radii: NDArray[np.float64]
    ) -> SecretInputs:
        """Return moves of events as changes of inputs of one system, in endless runs."""
        if isinstance(system, VaryingSystem) and self.moved:
            raise ValueError(
                "moved: without a horizon it needs a plant that stays the same, since an "
                "event later is another one in a plant that varies; design for a finite "
                "horizon"
            )
        spacing = self.spacing
        if self.add_up:
            radii = np.nextafter(self.spacing.events * radii, np.inf)
            spacing = ONCE
        if not self.which:
            lasting = self.duration == 1
            shapes = self.shapes[-1:] if lasting else self.shapes
            moved = tuple(
                SignalMoves(column, radius, shapes, lasting, spacing=spacing)
                for column, radius in enumerate(radii.tolist())
            )
            return SecretInputs.of_differences(system, moved)
        self._check_signals(radii)
        if self.moved:
            mixed, rounded = either_time(system, radii, self.moved)
        else:
            mixed, rounded = either_signal(system, radii)
        level = (np.ones(self.duration),)
        moves = (
            SignalMoves(column, 1.0, level, True, spacing=spacing, rounded=rounded)
            for column in range(mixed.input_count)
        )
        return SecretInputs(mixed, tuple(moves))

    def _check_signals(self, radii: NDArray[np.float64]) -> None:
        """Refuse to hide on which signal an event is where there is only one."""
        if self.which and len(radii) < 2:
            raise ValueError(
                f"which: expected at least two secret signals, got {len(radii)}; name "
                "the inputs on one of which the event is"
            )

    # -- in words --

    @property
    def differs(self) -> str:
        """The hidden property of an event: time, signal or both."""
        hidden = {"time": self.moved, "signal": self.which}
        return " or ".join(what for what, differs in hidden.items() if differs)

    def words(self, events: int, names: str, within: str, shares: bool) -> str:
        """Say what so many events of one run are, which move as wholes if they are several.

        ``names`` are the signals' names, ``within`` is the size of an event, and
        ``shares`` says whether sizes on different signals are compared as shares of their
        radii.
        """
        size = within.replace(" within ", "at most ") or "at most its radius"
        what = f"{size} in all"
        if self.duration > 1:
            what = f"a level{within} for 1 to {self.duration} samples"
        if events > 1:
            what = f"{size} each"
            if self.duration > 1:
                what = f"a level{within}, 1 to {self.duration} samples each"
        if shares:
            what += ", the same share of its radius on each signal"
        by = f", no part of it moved by more than {self.moved} samples"
        if self.duration > 1 or events > 1:
            by = f", moved by at most {self.moved} samples"
        if self.which and self.moved:
            return f"when, and on which of {names}, an event is: {what}{by}"
        if self.which:
            return f"on which of {names} an event is: {what}"
        return f"when {names} happens: {what}{by}"

    def caveats(self, signals: int, ends: bool, shares: bool) -> list[str]:
        """Return the properties of an event on one of some signals that are not hidden.

        ``ends`` says whether the run does, and ``shares`` is as for `words`.
        """
        told = ["its size as a share of the radius" if shares else "its size"]
        if self.duration > 1:
            told.append("how long it lasts")
        if not self.which and signals > 1:
            told.append("on which signal it is")
        if not self.moved:
            told.append("when it is")
        left = ["that it happens", " and ".join(told)]
        if self.moved:
            left.append(f"a move by more than {self.moved} samples")
            if ends:
                left.append("an event moved into the run from before it")
        if self.moved and self.spacing.is_apart:
            left.append("events of which only a part is moved")
        return left
