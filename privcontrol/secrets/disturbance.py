"""Disturbance adjacency, for a secret signal that enters the plant during the run.

Structured noise that hides the initial state hides none of it. The data are the initial
state and the signal, every value of which is possible. A change of the signal reaches the
outputs through the plant's shifted impulse responses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..core.adjacency import Adjacency, Radius
from ..core.manifold import AffineManifold, EllipsoidMoves, FiniteMoves, Moves
from ..numerics.arguments import helpful_fields
from ..numerics.checks import (
    instance_of,
    one_of,
    positive_integer,
    positive_number,
    real_array,
    sample_count,
    sequence_of,
)
from ..numerics.thresholds import LONGEST
from ..privacy.hidden import rounded_down
from ..privacy.repetition import Change, Spacing
from ..privacy.sentences import fits
from ..systems.linear import LinearSystem, Plant, beside, queue_of, stacks_of
from ..systems.varying import VaryingPlant
from .disturbed import (
    DisturbedManifold,
    entered_by_signals,
    forced_outputs,
)
from .moved_events import MovedEvents
from .secret import (
    Responses,
    SecretInputs,
    SignalMoves,
    UncertainMoves,
    WindowMoves,
    Windows,
)
from .states import PlantAdjacency

#: Caveats of a disturbance adjacency.
INITIAL_STATE = "the initial state"
_LONGER = "longer ones"  # behind what is said of a change that repeats
#: Why events that are moved need one plant for the whole run.
OF_ONE_PLANT = (
    "moved, which: they compare an event with itself at another time or signal, which "
    "needs one plant for the whole run; pass a list of models in place of a region"
)


@helpful_fields(
    "an input is named in a mapping: DisturbanceAdjacency({{'{unknown}': 1.0}})"
)
@dataclass(frozen=True, eq=False)
class DisturbanceAdjacency(PlantAdjacency):
    """Hide a signal w that enters x(t+1) = A x + B u + E w, y = C x + D u + F w.

    Two runs are adjacent if they have the same x(0) and u, and their signals w differ
    by one adjacent move in the whole run, unless ``events`` says more: at one entry, by
    at most its radius over at most ``duration`` samples in a row (``single``), or by
    any signal with sum over t and i of (dw_i(t) / mu_i)^2 <= 1 (``l2``). Where the
    controller's u reacts to w, it does so through published data.

    ``single`` hides no change longer than ``duration``. A change of k samples at mu has
    the energy k mu^2, so l2 with the radius sqrt(k) mu covers it, at a higher price
    than ``duration=k``. A step of any length is one entry at the input of an
    integrator: give the plant a state load(t+1) = load(t) in place of the input, and
    pass ``DisturbanceAdjacency({"load": mu})``.

    In a simulation the secret enters as ``disturbance=plant.B[:, [k]] * load`` for input k
    and a load (T,), with that input's row of K zero. ``feedforward`` is public.

    Parameters
    ----------
    radius : float, array_like or mapping
        Largest move mu in the units of the signal, one for all or one for each. A mapping
        by name protects the named signals only.
    inputs : sequence of str or int, optional
        Which signals are secret, all inputs of the plant by default. For the name or
        position of an input, E and F are its columns of B and D. For the name of a state, E
        is its unit vector and F = 0.
    times : int or sequence of int, optional
        Sample indices at which a change may start, and with ``l2`` all those at which the
        signal may move. The whole horizon by default.
    norm : {"single", "l2"}, optional
    duration : int, optional
        A change lasts for at most this many samples, such as hours that people stay.
    shape : {"any", "level"}, optional
        Any values within the radius at each sample, or one level that is kept for 1 to
        ``duration`` samples. A level needs less noise, which may reveal a change that
        varies (`PrivacyGuarantee.any_shape`).
    together : bool, optional
        Whether all named signals change at once, within the same samples, each within its
        radius. By default one of them does.
    profiles : sequence of array_like, shapes (k,), optional
        Shapes of a change over time, scaled by the radius and cut off at the horizon.
    events : int, optional
        Largest number of changes in one run, each at its own time or input. Over a
        finite horizon more than one needs a separation. Without one, events that are
        ``moved``, or on which signal they are, may also come together: k of them take k
        times the noise of one. So they do with a separation of at most ``moved`` samples,
        since two may then change places. Events that keep a distance move as wholes.
    separation : int, optional
        Least number of samples from the beginning of one change to the beginning of the
        next, on whichever signals. Changes may overlap. If they are far apart, k
        changes take sqrt(k) times the noise of one; if no separation is known, as with
        plants of a region, they take k times.
    moved : int, optional
        The event happens in both runs, and no part of it moves by more than this many
        samples: its time is hidden, but not that it happens. Any redistribution in time
        is covered whose moved parts add up to at most the radius, in the signal's unit
        times samples. With a ``duration`` the event is a level for 1 to ``duration``
        samples and moves as a whole. The plant may have a simple pole at one: tanks,
        stores and meters have noise for runs of any length.
    which : bool, optional
        Whether the event may be on another secret signal in the other run, by the same
        fraction of its radius. With ``moved`` it may also be at another time.
    window : int, optional
        Samples within which all of the signal's change falls, with ``norm="l2"`` (`person`).
        Noise hides changes of that energy wherever they fall, so guarantees are upper bounds.

    Raises
    ------
    ValueError
        If a radius is not positive, a name is unknown or belongs to both an input and a
        state, a time is outside the horizon, a profile is empty, zero or not finite, or
        duration, profiles and events do not go with each other or the norm.

    See Also
    --------
    StateAdjacency, InitialStateAdjacency, design_output_noise, options

    Examples
    --------
    >>> import privcontrol as pc
    >>> pc.DisturbanceAdjacency(0.1, inputs=["occupancy"]).statement
    'one change per run: occupancy by at most 0.1, at one sample'
    """

    radius: Radius
    inputs: tuple[str | int, ...] | None = None
    times: tuple[int, ...] | None = None
    norm: str = "single"
    duration: int = 1
    profiles: tuple[NDArray[np.float64], ...] | None = None
    events: int = 1
    separation: int = 0
    window: int | None = None
    shape: str = field(default="any", kw_only=True)
    together: bool = field(default=False, kw_only=True)
    moved: int = field(default=0, kw_only=True)
    which: bool = field(default=False, kw_only=True)

    _field = "inputs"
    _signals = "secret signals"

    def __post_init__(self) -> None:
        one_of(self.norm, "norm", ("single", "l2"))
        one_of(self.shape, "shape", ("any", "level"))
        instance_of(self.together, bool, "together")
        self._set(
            duration=sample_count(self.duration, "duration"),
            events=positive_integer(self.events, "events"),
            separation=sample_count(self.separation, "separation", zero=True),
        )
        if self.window is not None:
            self._set(window=sample_count(self.window, "window"))
        self._check_fields()
        if self.profiles is not None:
            self._set(profiles=_checked_profiles(self.profiles))
        if self.duration > LONGEST:
            raise ValueError(
                f"duration: expected at most {LONGEST} samples, got {self.duration}; "
                "a value that is kept longer is a state r+ = r (StateAdjacency)"
            )
        if self.profiles is not None and self.duration > 1:
            raise ValueError(
                "duration: expected a duration or profiles, got both; add the shapes "
                "np.ones(k) to the profiles"
            )
        shaped = self.profiles is not None or self.duration > 1 or self.events > 1
        if self.norm == "l2" and (shaped or self.separation):
            raise ValueError(
                'duration, profiles, events, separation: they are for norm="single"; '
                'norm="l2" hides any signal of bounded energy'
            )
        self._check_shape()
        self._check_moving()
        if self.norm != "l2" and self.window:
            raise ValueError(
                'window: expected norm="l2" with it; DisturbanceAdjacency.person gives '
                "the radius of a person's use within a window"
            )

    def _check_shape(self) -> None:
        """Refuse a shape of changes that have one, and signals that no window holds."""
        own = self.profiles is not None or self.norm == "l2"
        if self.shape == "level" and own:
            raise ValueError(
                'shape: a level is for norm="single" without profiles; add np.ones(k) to '
                "the profiles, or leave shape out"
            )
        if self.together and own:
            raise ValueError(
                'together: it is for norm="single" without profiles; norm="l2" hides '
                "signals that change at once within the ball of their energies"
            )
        if self.together and self.shape == "level" and self.duration > 1:
            raise ValueError(
                "together: levels of several signals at once are changes of any shape; "
                'pass shape="any", which covers them'
            )

    @property
    def is_varying(self) -> bool:
        """Whether changes of any shape are hidden, rather than given ones."""
        if self.norm == "l2" or self.profiles is not None or self.is_moving:
            return False
        return self.together or (self.shape == "any" and self.duration > 1)

    def _windows(self, count: int) -> list[list[int]]:
        """Return which of so many signals change at once."""
        every = list(range(count))
        return [every] if self.together else [[column] for column in every]

    def _check_moving(self) -> None:
        """Refuse options that do not go with events whose time or signal is secret."""
        self._set(moved=sample_count(self.moved, "moved", zero=True))
        instance_of(self.which, bool, "which")
        if not self.is_moving:
            return
        if self.norm == "l2" or self.profiles is not None:
            raise ValueError(
                'moved, which: they are for norm="single" without profiles; a profile is '
                "covered as a change (leave them out), which hides its time too"
            )
        if self.together:
            raise ValueError(
                "together: an event that is moved is on one signal; leave together out"
            )
        if self.duration > 1 and self.shape != "level":
            raise ValueError(
                'shape: an event of several samples moves as a whole, got shape="any"; pass '
                'shape="level", or duration=1, which covers any redistribution of an event'
            )
        if self.moved and self.times is not None:
            raise ValueError(
                "times: an event that is moved may come at every sample; leave times out"
            )
        if self.moved * self.duration > LONGEST:
            raise ValueError(
                f"moved: expected at most {LONGEST} samples, times the duration, got "
                f"{self.moved * self.duration}; a time that is secret within longer "
                "needs noise that hides whether the event happens"
            )
        if self.moved and self.which and self.duration > 1:
            raise ValueError(
                "duration: who or when is for events of one sample; pass which or moved "
                "alone for levels"
            )

    @property
    def is_moving(self) -> bool:
        """Whether the time or the signal of an event is hidden, not that it happens."""
        return self.which or self.moved > 0

    @property
    def _spacing(self) -> Spacing:
        """How many changes may come in one run, and how far apart."""
        return Spacing(self.events, self.separation)

    @property
    def _moved_events(self) -> MovedEvents:
        """The events, where their time or signal is hidden."""
        return MovedEvents(self._spacing, self.duration, self.moved, self.which)

    @property
    def _compares_shares(self) -> bool:
        """Whether an event on another signal is of another size, as are their radii."""
        given = self.radius
        sizes = given.values() if isinstance(given, Mapping) else np.atleast_1d(given)
        return self.which and len(set(sizes)) > 1

    @classmethod
    def person(
        cls,
        power: float,
        energy: float,
        *,
        inputs: Sequence[str | int] | None = None,
        window: int,
    ) -> DisturbanceAdjacency:
        """Hide one person's use within any one window of time.

        The use is a signal s with abs(s) <= power at every sample and input,
        and sum abs(s) <= energy over the samples and inputs of a window. Hence
        sum s^2 <= max abs(s) sum abs(s) <= power energy, a ball of radius
        sqrt(power energy) with ``norm="l2"``, whenever the person uses it.

        The guarantee is about one window. To hide the use in k windows, wherever they
        are, pass k times the energy, since their energies add up: it takes sqrt(k)
        times the noise. The guarantee claims nothing about years of use together.

        Parameters
        ----------
        power : float
            Most that the person uses at a sample, in the signal's unit.
        energy : float
            Most that the samples of a window add up to, in the signal's unit times samples.
        inputs : sequence of str or int, optional
            Which signals are secret, all inputs of the plant by default.
        window : int
            Samples of a window, such as a day's.

        Returns
        -------
        DisturbanceAdjacency

        Raises
        ------
        ValueError
            If a number is not positive.

        Examples
        --------
        >>> import privcontrol as pc
        >>> secret = pc.DisturbanceAdjacency.person(2.0, 18.0, inputs="load", window=96)
        >>> secret.radius
        6.0
        """
        power = positive_number(power, "power")
        energy = positive_number(energy, "energy")
        radius = math.sqrt(min(power, energy) * energy)
        window = sample_count(window, "window")
        return cls(radius, inputs, norm="l2", window=window)  # type: ignore[arg-type]

    @property
    def shapes(self) -> tuple[NDArray[np.float64], ...]:
        """Shapes (k,) of a change over time, for a radius of one."""
        if self.profiles is not None:
            return self.profiles
        return self._moved_events.shapes

    def starts(self, horizon: int) -> NDArray[np.intp]:
        """Sample indices at which a change may begin, over a finite horizon."""
        if self.events > 1 and not self.separation:
            raise ValueError(
                "events: over a finite horizon several changes need a separation, got "
                f"events={self.events} without one; pass separation=, design with "
                "horizon=np.inf, or multiply the radius by events, which covers them"
            )
        return self._times_within(horizon)

    def signals(self, plant: Plant) -> tuple[str, ...]:
        """Return the names of the secret signals, as labels of the plant."""
        names = (*plant.inputs, *plant.states)
        unknown = (
            f"is no input and no state of the plant; known: {', '.join(names)}, or the "
            "position of an input"
        )
        index = self._positions(names, len(plant.inputs), unknown, plant.elsewhere)
        return tuple(names[k] for k in index)

    def system(self, plant: Plant) -> LinearSystem:
        """Return G, from the secret signals to the outputs."""
        return entered_by_signals(plant, self.signals(plant))

    def radii(self, plant: Plant) -> NDArray[np.float64]:
        """Return mu of each secret signal (q,)."""
        return self._radii(len(self.signals(plant)))

    def _columns(
        self, system: LinearSystem, radii: NDArray[np.float64], horizon: int
    ) -> NDArray[np.float64]:
        """Responses (T p, M) of a system to every shape at every time and signal."""
        if self.is_moving:
            return self._moving_columns(system, radii, horizon)[0]
        starts = self.starts(horizon)
        columns = starts[:, None] * len(radii) + np.arange(len(radii))
        every = []
        for shape in self.shapes:
            forced = forced_outputs(system, horizon, shape)
            if len(starts) < horizon:
                forced = forced[:, columns.ravel()]
            every.append(forced)
        together = np.hstack(every) if len(every) > 1 else every[0]
        together *= np.tile(radii, len(starts) * len(every))  # in place: it is large
        return together

    def _moving_columns(
        self, system: LinearSystem, radii: NDArray[np.float64], horizon: int
    ) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Responses (T p, M) to events that are moved, and when these begin."""
        columns, starts = self._moved_events.columns(system, radii, horizon)
        if self.times is None:
            return columns, starts
        among = np.isin(starts, self._times_within(horizon))
        return columns[:, among], starts[among]

    def responses(self, plant: Plant, horizon: int) -> Responses:
        system = self.system(plant)
        if self.is_moving and self.events > 1:
            self.starts(horizon)  # refuses events without a separation
            radii = self.radii(plant)
            columns, starts = self._moving_columns(system, radii, horizon)
            found = Responses.several(columns, starts, self._spacing)
            if not self._moved_events.add_up:
                return found
            (apart,) = found.apart
            return Responses.of(apart.spacing.events * columns, False, exact=False)
        if self.is_varying:
            return self._responses_of_any_shape(system, self.radii(plant), horizon)
        together = self._columns(system, self.radii(plant), horizon)
        if self.events > 1:
            starts = np.repeat(self.starts(horizon), system.input_count)
            each = np.tile(starts, len(self.shapes))
            return Responses.several(together, each, self._spacing)
        is_ball = self.norm == "l2"
        return Responses.of(together, is_ball, exact=self.window is None)

    def _responses_of_any_shape(
        self, system: LinearSystem, radii: NDArray[np.float64], horizon: int
    ) -> Responses:
        """Return the responses to impulses, by the windows that a change fills.

        One that would last beyond the horizon is cut off there, and is part of the last
        window that begins within it, where windows may begin everywhere.
        """
        columns = forced_outputs(system, horizon) * np.tile(radii, horizon)
        starts = self.starts(horizon)
        length = min(self.duration, horizon)
        if self.times is None and self.events == 1:
            starts = starts[: horizon - length + 1]
        count = len(radii)
        index = []
        begins = []
        for start in starts.tolist():
            samples = np.arange(start, min(start + length, horizon))
            for signals in self._windows(count):
                places = samples[:, None] * count + np.array(signals)
                index.append(places.ravel())
                begins.append(start)
        fitting = self._spacing.within(int(np.ptp(starts)))
        found = Windows(columns, tuple(index), np.array(begins), fitting)
        empty = np.empty((len(columns), 0))
        return Responses(empty, (), False, (), (found,))

    def starting(self, plant: Plant, horizon: int) -> SecretInputs:
        return self.entering(plant)

    def entering(self, plant: Plant) -> SecretInputs:
        """Return the changes, whenever they start, which covers those at some times."""
        if self.is_moving:
            return self._moved_events.entering(self.system(plant), self.radii(plant))
        system = self.system(plant)
        radii = self.radii(plant)
        if self.norm == "l2":
            return SecretInputs(system, energies=radii)
        if self.is_varying:
            windows = []
            for signals in self._windows(len(radii)):
                windows.append(
                    WindowMoves(
                        tuple(signals),
                        radii[signals],
                        self.duration,
                        spacing=self._spacing,
                    )
                )
            return SecretInputs(system, windows=tuple(windows))
        lasting = self.profiles is None
        shapes = self.shapes[-1:] if lasting else self.shapes
        moved: list[SignalMoves] = []
        for column, radius in enumerate(radii.tolist()):
            moves = SignalMoves(
                column,
                radius,
                shapes,
                lasting,
                spacing=self._spacing,
            )
            moved.append(moves)
        return SecretInputs(system, tuple(moved))

    def _over_periods(self, plant: VaryingPlant) -> Adjacency:
        is_plain = (self.norm, self.duration, self.events) == ("single", 1, 1)
        is_shaped = self.is_moving or self.together or self.profiles is not None
        if not is_plain or is_shaped or self.times is not None:
            return super()._over_periods(plant)
        signals = self.signals(plant)
        states = [name for name in signals if name not in plant.inputs]
        if states:
            raise ValueError(
                f"adjacency: {', '.join(states)} is a state, which signals enter at each "
                "sample of a period; without a horizon a list of plants takes inputs, so "
                "give it one there (a column of B)"
            )
        named = zip(signals, self.radii(plant).tolist(), strict=True)
        return DisturbanceAdjacency(
            {f"{name}@{t}": size for name, size in named for t in range(plant.samples)}
        )

    def uncertain(
        self, plant: Plant, widths: LinearSystem, horizon: int
    ) -> UncertainMoves:
        if self.is_moving:
            raise ValueError(OF_ONE_PLANT)
        # the plant has a queue for each signal, of its values to come, so entries of B and
        # D are entries of its dynamics and its readout
        signals = self.signals(plant)
        secret = self.system(plant)
        B = np.zeros_like(secret.B)
        D = np.zeros_like(secret.D)
        for k, name in enumerate(signals):
            if name in plant.inputs:
                column = plant.inputs.index(name)
                B[:, k] = widths.B[:, column]
                D[:, k] = widths.D[:, column]
        count = max(len(shape) for shape in self.shapes)
        queue = reduce(beside, [queue_of(count)] * len(signals))
        still = replace(queue, A=np.zeros_like(queue.A))
        queued = secret.after(queue)
        spread = LinearSystem(widths.A, B, widths.C, D).after(still)
        axes = []
        for k, radius in enumerate(self.radii(plant)):
            if self.is_varying:  # the ball of the values of a window holds their box
                size = self.events * radius * math.sqrt(self._values(len(signals)))
                place = k * count
                axes += list(size * np.eye(count, queued.order, place))
                continue
            for shape in self.shapes:
                start = np.zeros(queued.order)
                values = self.events * radius * shape
                start[k * count : k * count + len(shape)] = values
                axes.append(start)
        return UncertainMoves(
            np.vstack([queued.A, queued.C]),
            np.vstack([spread.A, spread.C]),
            np.column_stack(axes),
            self.starts(horizon),
            horizon,
            forwards=True,
            is_ball=self.norm == "l2" or self.is_varying,
        )

    def _values(self, signals: int) -> int:
        """Return the number of values of a change of any shape, of so many signals."""
        return self.duration * (signals if self.together else 1)

    def moves(self, manifold: AffineManifold) -> Moves:
        if not isinstance(manifold, DisturbedManifold):
            raise TypeError(
                "adjacency: expected a StateAdjacency or an InitialStateAdjacency, got a DisturbanceAdjacency, which is about "
                "a signal that enters during the run; it goes to design_output_noise and tradeoff"
            )
        if self.events > 1:
            raise ValueError(
                f"events: one change is a move, {self.events} of them are too many to "
                "list; ask the noise for its guarantee"
            )
        if self.is_varying:
            raise ValueError(
                "shape: changes of any shape are too many to list as moves; ask the noise "
                'for its guarantee, or name some of them, by shape="level" or profiles; '
                "an audit of those takes a claim, claim=budget"
            )
        plant = manifold.plant
        places = [manifold.signals.index(one) for one in self.signals(plant)]
        itself = LinearSystem.gain(np.eye(len(manifold.signals))[:, places])
        changes = self._columns(itself, self.radii(plant), manifold.horizon)
        still = np.zeros((plant.order, changes.shape[1]))
        kind = FiniteMoves if self.norm == "single" else EllipsoidMoves
        return kind(np.vstack([still, changes]), exact=self.window is None)

    @property
    def change(self) -> Change:
        if self.norm == "l2":
            return Change(
                f"{self._sizes('any input')} in the root of its energy",
                self.window,
                energy=True,
                start=self._starting,
            )
        if self.is_moving:
            return self._moving_change
        each = " each" if self.events > 1 else ""
        sizes = self._sizes("any input")
        names, within = self._names_within
        varying = ""
        if self.profiles is not None:
            words = f"{sizes}, with one of {len(self.profiles)} given profiles"
        elif self.is_varying:
            words = f"{self._varying_names}{self._of_any_shape}"
            if not fits(f"one change per run{self._starting}: {words}"):
                short = f", any shape{within}, at most {self.duration} samples"
                words = f"{self._varying_names}{short}"
        elif self.duration == 1:
            words = f"{sizes}, at one sample{each}"
        else:
            level = "to one other level" if self.events == 1 else "a level"
            lasts = f"1 to {self.duration} samples"
            words = f"{names}, {level}{within}{each}, kept for {lasts}"
            varying = f"{names}{self._of_any_shape}"
        return Change(
            words,
            max(map(len, self.shapes)),
            self.events,
            self.separation,
            varying=varying,
            within=within,
            start=self._starting,
        )

    @property
    def _names_within(self) -> tuple[str, str]:
        """Which signals move, and within what if that is one number, in words."""
        if isinstance(self.radius, Mapping):
            sizes = set(self.radius.values())
            if len(sizes) == 1:
                names = " or ".join(map(str, self.radius))
                return names, f" within {rounded_down(sizes.pop())}"
            alike = []
            for name, mu in self.radius.items():
                alike.append(f"{name} (within {rounded_down(mu)})")
            return " or ".join(alike), ""
        every = "any input"
        if self._chosen is not None:
            every = " or ".join(map(str, self._chosen))
        if isinstance(self.radius, tuple):
            sizes_in_words = ", ".join(map(rounded_down, self.radius))
            return every, f" within {sizes_in_words} in turn"
        return every, f" within {rounded_down(self.radius)}"

    @property
    def _varying_names(self) -> str:
        """Return which signals change, one of them or all at once, in words."""
        names, _ = self._names_within
        if not self.together:
            return names
        if isinstance(self.radius, Mapping) or self._chosen is not None:
            return names.replace(" or ", " and ") + " together"
        return "all inputs together"

    @property
    def _moving_change(self) -> Change:
        """The event of which the time, or the signal, is hidden, in words."""
        names, within = self._names_within
        shares = self._compares_shares
        events = self._moved_events
        words = events.words(self.events, names, within, shares)
        several = events.words(max(self.events, 2), names, within, shares)
        return Change(
            words,
            max(max(map(len, self.shapes)), self.moved),
            self.events,
            self.separation,
            within=within,
            start=self._starting,
            differs=events.differs,
            each="" if several == words else several,
        )

    @property
    def _of_any_shape(self) -> str:
        """A change of any shape in words, as short as its line asks for."""
        _, within = self._names_within
        if self.duration == 1:
            each = " each" if self.events > 1 else ""
            return f"{within}, at one sample{each}"
        if self.events == 1:
            return (
                f", of any shape{within}, over at most {self.duration} samples in a row"
            )
        if self.separation:
            return f", any shape{within}, {self.duration} samples"
        return f", of any shape{within}, over {self.duration} samples each"

    @property
    def _starting(self) -> str:
        """At which samples a change may start, in words, nothing for any.

        A change of bounded energy is nowhere else.
        """
        if self.times is None:
            return ""
        if self.norm == "l2":
            return f", at {self._when} and at no other sample"
        several = "one of " if len(self.times) > 1 else ""
        return f", starting at {several}{self._when}"

    @property
    def statement(self) -> str:
        return self.change.statement

    def to_dict(self) -> dict[str, Any]:
        return self._told_of_shape(super().to_dict())

    def _saved_fields(self) -> dict[str, object]:
        return self._told_of_shape(super()._saved_fields())

    def _told_of_shape(self, named: dict[str, Any]) -> dict[str, Any]:
        """Leave out what earlier files have not, where it says no more than they do."""
        if not self.is_varying:
            del named["shape"]
        if not self.together:
            del named["together"]
        if not self.moved:
            del named["moved"]
        if not self.which:
            del named["which"]
        return named

    @classmethod
    def _restored(cls, saved: dict[str, Any]) -> Self:
        own = saved["profiles"] is not None or saved["norm"] == "l2"
        earlier = {} if own else {"shape": "level"}  # what files without one are about
        return super()._restored(earlier | saved)

    def caveats(self, manifold: Any) -> tuple[str, ...]:
        left = []
        if self.is_moving:
            left += self._moved_events.caveats(
                len(self.signals(manifold.plant)),
                manifold.horizon != math.inf,
                self._compares_shares,
            )
        elif self.norm == "single":
            left.append(self._of_other_shape(manifold))
        if self.events > 1 and self.separation:
            left.append(
                f"{self.change.kind}s less than {self.separation} samples apart"
            )
        elif self.events > 1 and not (self.is_moving or self.is_varying):
            left.append("changes of one signal that start together")
        if self.times is not None:
            left.append("changes at other times")
        one_at_a_time = self.norm == "single" and not self.together
        if one_at_a_time and self.events == 1 and len(self.signals(manifold.plant)) > 1:
            left.append("changes of several signals at once")
        return (*left, "changes of another signal", INITIAL_STATE)

    def _of_other_shape(self, manifold: Any) -> str:
        """Return the caveat for a change of another length or shape."""
        if self.profiles is not None:
            return "changes of another shape"
        if self.duration > 1:
            return _LONGER
        plant = manifold.plant
        signals = self.signals(plant)
        if all(_is_integrator(name, plant) for name in signals):
            return f"a second step of {' or '.join(signals)}"
        return _LONGER


def _is_integrator(name: str, plant: Plant) -> bool:
    """Return whether a signal enters at a state that keeps its value, load(t+1) = load(t)."""
    if name in plant.inputs:
        return False
    state = plant.states.index(name)
    rows = stacks_of(plant)[0][..., state, :]
    return bool((rows == np.eye(plant.order)[state]).all())


def _checked_profiles(profiles: object) -> tuple[NDArray[np.float64], ...]:
    """Profiles as read-only arrays (k,), none of them empty or zero."""
    given = sequence_of(profiles, "profiles", "arrays (k,)")
    shapes = tuple(real_array(shape, "profiles", ndim=1) for shape in given)
    if not shapes or not all(shape.any() for shape in shapes):
        raise ValueError(
            "profiles: expected at least one array of numbers that are not all zero"
        )
    return shapes
