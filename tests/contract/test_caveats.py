"""What a guarantee does not hide is named in its text.

Moves outside each adjacency are drawn: larger, longer, repeated, of another shape, signal,
start or time, and hidden ones under another plant. How often the best test detects them
follows from the noise's dense covariance, without the package's certificates. A move that is
detected with more than twice the promised excess over guessing must be named by a clause of
``Not hidden:`` or ``Assumes:`` in ``guarantee.explain()``.
"""

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import control as ct
import numpy as np
import oracles
import pytest
from contract import moves, table
from numpy.typing import NDArray
from scipy.stats import norm

import privcontrol as pc

ALARMS = 0.05
#: Words that name each kind of move.
NAMES = {
    "larger": r"anything larger|any other move",
    "longer": r"longer ones|another shape",
    "repeated": r"repe(at|tition)|more than \d+ changes|more than one window|second step",
    "shape": r"(changes|varies) meanwhile|another shape",
    "signal": r"another signal|moves of |any other move",
    "start": r"initial state",
    "time": r"at other times|any other move",
    "together": r"at once|any other move",
    "near": r"less than \d+ samples apart",
    "happens": r"that it happens",
    "size": r"its size",
    "length": r"how long it lasts",
    "which": r"on which signal it is",
    "when": r"when it is",
    "far": r"a move by more than",
    "before": r"into the run from before it",
    "plant": r"exact\b|plant differs|is one of|varies among|each within|between",
    "entering": r"disturbances that enter",
}


@dataclass(frozen=True)
class Case:
    """A design, and moves outside its adjacency by their kinds.

    ``outside`` takes the number of samples and returns (kind, outputs (T p,)).
    """

    plant: ct.StateSpace | list[ct.StateSpace]
    asked: dict
    outside: Callable[[int], Iterator[tuple[str, NDArray]]]
    samples: int

    def design(self) -> pc.OutputNoise:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pc.PrivacyWarning)
            return pc.design_output_noise(self.plant, **self.asked)


# -- plants ------------------------------------------------------------------------------


def room(pole: float = 0.9) -> ct.StateSpace:
    """A room that people and the sun heat."""
    return ct.ss(
        [[pole, 0.05], [0.1, 0.8]],
        [[0.5, 0.3], [0.1, 0.0]],
        [[1.0, 0.0]],
        0,
        300.0,
        states=["air", "wall"],
        inputs=["people", "sun"],
        outputs=["temperature"],
    )


ROOM, OTHER = room(), room(0.7)
VEHICLE = pc.plants.vehicle()
SLOWED = ct.ss(
    [[0.95, 0.1], [0.0, 1.0]],
    VEHICLE.B,
    VEHICLE.C,
    0,
    VEHICLE.dt,
    states=VEHICLE.state_labels,
    inputs=VEHICLE.input_labels,
    outputs=VEHICLE.output_labels,
)


TANK = ct.ss(
    1.0,
    [[1.0, 0.5]],
    1.0,
    0,
    300.0,
    states=["level"],
    inputs=["draw", "fill"],
    outputs=["meter"],
)


def through(plant, samples: int) -> list[ct.StateSpace]:
    """The plant of each sample, of one that stays or of a list that begins again."""
    plants = plant if isinstance(plant, list) else [plant]
    return (plants * samples)[:samples]


@cache
def impulse(plant: ct.StateSpace, name: str, samples: int) -> NDArray:
    """Outputs (T, p) of a plant at rest that one enters at once, by its recursion."""
    outputs = moves.run(
        [plant] * samples, np.zeros(plant.nstates), {0: moves._entry(plant, name)}
    )
    return outputs.reshape(samples, -1)


def forced(plant, name: str, signal) -> NDArray:
    """Outputs (T p,) of a plant at rest that a signal (T,) enters."""
    samples = len(signal)
    if not isinstance(plant, list):
        each = impulse(plant, name, samples).T
        sums = [np.convolve(signal, column)[:samples] for column in each]
        return np.transpose(sums).ravel()
    plants = through(plant, samples)
    entering = {}
    for t, value in enumerate(signal):
        into, past = moves._entry(plants[t], name)
        entering[t] = (into * value, past * value)
    return moves.run(plants, np.zeros(plants[0].nstates), entering)


def free(plant, start, samples: int) -> NDArray:
    """Outputs (T p,) of a plant from a state."""
    return moves.run(through(plant, samples), np.asarray(start, float), {})


def during(samples: int, *changes: tuple[int, int, float]) -> NDArray:
    """A signal (T,) that keeps levels: (start, length, level) each."""
    signal = np.zeros(samples)
    for start, length, level in changes:
        signal[start : start + length] += level
    return signal


# -- moves outside -----------------------------------------------------------------------


def outside_a_change(
    length: int = 1, apart: int = 4, *, only_at: int | None = None, shape=None
) -> Callable[[int], Iterator[tuple[str, NDArray]]]:
    """Moves outside "one change of the people within 1, kept for up to ``length``"."""
    usual = np.ones(length) if shape is None else np.asarray(shape)

    def every(samples: int) -> Iterator[tuple[str, NDArray]]:
        at = 0 if only_at is None else only_at
        last = samples - at
        one = during(samples)
        one[at : at + len(usual)] = usual[:last]
        yield "larger", forced(ROOM, "people", 5 * one)
        yield "plant", forced(OTHER, "people", one)
        longer = during(samples, (at, 4 * length + 4, 1.0))
        yield "longer", forced(ROOM, "people", longer)
        again = np.zeros(samples)
        for start in range(at, samples - len(usual) + 1, len(usual) + apart):
            again[start : start + len(usual)] = usual
        yield "repeated", forced(ROOM, "people", again)
        rng = np.random.default_rng(0)
        for _ in range(200 if length > 2 else 0):
            signs = during(samples)
            signs[at : at + length] = rng.choice([-1.0, 1.0], length)[:last]
            yield "shape", forced(ROOM, "people", signs)
        yield "signal", forced(ROOM, "sun", 5 * one)
        yield "start", free(ROOM, [1.0, 0.0], samples)
        if only_at is not None:
            elsewhere = during(samples, (at + 3, length, 1.0))
            yield "time", forced(ROOM, "people", elsewhere)

    return every


PEOPLE = {"people": 1.0}


def outside_any_shape(
    length: int,
    *,
    plant=ROOM,
    secrets: dict[str, float] = PEOPLE,
    apart: int | None = None,
    only_at: int | None = None,
) -> Callable[[int], Iterator[tuple[str, NDArray]]]:
    """Moves outside "one change of any shape within 1, over ``length`` samples".

    Several secret signals change one at a time; with ``apart`` two changes keep it.
    """

    def every(samples: int) -> Iterator[tuple[str, NDArray]]:
        at = only_at or 0
        one = during(samples, (at, length, 1.0))
        for name, radius in secrets.items():
            yield "larger", forced(plant, name, 5 * radius * one)
            longer = during(samples, (at, 4 * length + 4, radius))
            yield "longer", forced(plant, name, longer)
            again = during(samples)
            for start in range(at, samples - length, 2 * length + 2):
                again += during(samples, (start, length, radius))
            yield "repeated", forced(plant, name, again)
        if len(secrets) > 1:
            both = [forced(plant, name, mu * one) for name, mu in secrets.items()]
            yield "together", sum(both)
        else:
            yield "signal", forced(plant, "sun", 9 * one)
        if apart is not None:
            once = forced(plant, "people", one)
            later = during(samples, (at + 1, length, 1.0))
            yield "near", once + forced(plant, "people", later)
        yield "start", free(plant, [9.0, 0.0], samples)
        if plant is ROOM:
            yield "plant", forced(OTHER, "people", one)
        if only_at is not None:
            elsewhere = during(samples, (at + 2 * length, length, 1.0))
            yield "time", forced(plant, "people", elsewhere)

    return every


def outside_together(length: int) -> Callable[[int], Iterator[tuple[str, NDArray]]]:
    """Moves outside "people and sun together, of any shape within 1"."""

    def every(samples: int) -> Iterator[tuple[str, NDArray]]:
        def both(signal):
            return forced(ROOM, "people", signal) + forced(ROOM, "sun", signal)

        one = during(samples, (0, length, 1.0))
        yield "larger", both(5 * one)
        yield "longer", both(during(samples, (0, 4 * length + 4, 1.0)))
        again = during(samples)
        for start in range(0, samples - length, 2 * length + 2):
            again += during(samples, (start, length, 1.0))
        yield "repeated", both(again)
        yield "start", free(ROOM, [3.0, 0.0], samples)
        yield "signal", forced(ROOM, "wall", 9 * one)

    return every


def outside_a_time(
    by: int, length: int = 1, *, secrets: tuple[str, ...] = ("draw",), apart: int = 0
) -> Callable[[int], Iterator[tuple[str, NDArray]]]:
    """Moves outside "when the tank is drawn from, by up to so many samples"."""

    def every(samples: int) -> Iterator[tuple[str, NDArray]]:
        def event(start, lasts=length, size=1.0, name="draw"):
            return forced(TANK, name, during(samples, (start, lasts, size)))

        at = samples // 4
        yield "happens", event(at)
        yield "size", event(at) - event(at + by, size=3.0)
        yield "size", 9 * (event(at) - event(at + by))
        yield "far", event(at) - event(at + 6 * by)
        step = apart or 2 * (by + length)
        starts = range(0, samples - by - length, step)
        yield "repeated", sum(event(start) - event(start + by) for start in starts)
        yield "start", free(TANK, [1.0], samples)
        yield "before", event(1) - free(TANK, [float(length)], samples)
        if len(secrets) > 1:
            yield "which", event(at) - event(at, name="fill")
            both = event(at, name="fill") - event(at + by, name="fill")
            yield "together", 2 * (event(at) - event(at + by) + both)
        else:
            yield "signal", event(at, size=9.0, name="fill")
        if length > 1:
            yield "length", event(at) - event(at, lasts=3 * length)
        if apart:
            near = event(at + 1) - event(at + 1 + by)
            yield "near", event(at) - event(at + by) + near
        yield "plant", forced(SLOW_TANK, "draw", during(samples, (at, 1, 1.0)))

    return every


SLOW_TANK = ct.ss(
    0.9,
    TANK.B,
    TANK.C,
    0,
    TANK.dt,
    states=TANK.state_labels,
    inputs=TANK.input_labels,
    outputs=TANK.output_labels,
)


def outside_a_signal(
    length: int = 1, *, by: int = 0, only_at: int | None = None
) -> Callable[[int], Iterator[tuple[str, NDArray]]]:
    """Moves outside "on which of people and sun an event is" (or when it is, too)."""

    def every(samples: int) -> Iterator[tuple[str, NDArray]]:
        def event(name, start, lasts=length):
            return forced(ROOM, name, during(samples, (start, lasts, 1.0)))

        at = 2 if only_at is None else only_at
        yield "happens", 2 * event("people", at)
        yield "size", 9 * (event("people", at) - event("sun", at))
        if by:
            yield "far", event("people", at) - event("people", at + 4 * by)
        else:
            yield "when", event("people", at) - event("people", at + 9)
        starts = range(at, samples - length, 2 * length + 2 * by)
        others = [event("people", s) - event("sun", s + by) for s in starts]
        yield "repeated", sum(others)
        yield "start", free(ROOM, [3.0, 0.0], samples)
        if length > 1:
            yield "length", event("people", at) - event("sun", at, 5 * length)
        if only_at is not None:
            yield "time", 3 * (event("people", at + 4) - event("sun", at + 4))

    return every


def outside_an_energy(samples: int) -> Iterator[tuple[str, NDArray]]:
    """Moves outside "any signal of the people with an energy of 1"."""
    one = during(samples, (0, samples // 4, (samples // 4) ** -0.5))
    yield "larger", forced(ROOM, "people", 5 * one)
    yield "plant", forced(OTHER, "people", one)
    yield "signal", forced(ROOM, "sun", 5 * one)
    yield "start", free(ROOM, [1.0, 0.0], samples)


def outside_a_person(samples: int) -> Iterator[tuple[str, NDArray]]:
    """Moves outside "an energy of 1 within any window of 8 samples"."""
    yield from outside_an_energy(samples)
    every_window = np.full(samples, 8**-0.5)
    yield "repeated", forced(ROOM, "people", every_window)


def outside_a_state(
    plant: ct.StateSpace,
    other: ct.StateSpace,
    *,
    only_at: int | None = None,
    ball: bool = False,
) -> Callable[[int], Iterator[tuple[str, NDArray]]]:
    """Moves outside "the first state by 1 at any one time" (or at one time)."""

    def every(samples: int) -> Iterator[tuple[str, NDArray]]:
        first, second = np.eye(plant.nstates)[:2]
        yield "larger", free(plant, 5 * first, samples)
        yield "plant", free(other, first, samples)
        yield "entering", forced(plant, plant.input_labels[0], 5 * np.ones(samples))
        if ball:
            return
        yield "signal", free(plant, 5 * second, samples)
        back = np.linalg.inv(plant.A)
        late = np.linalg.matrix_power(back, 3) @ first
        if only_at is not None:
            yield "time", free(plant, late, samples)
            return
        last = np.linalg.matrix_power(back, samples - 1)
        for signs in (1.0, -1.0):
            yield "together", free(plant, late + signs * last @ first, samples)

    return every


def outside_both(samples: int) -> Iterator[tuple[str, NDArray]]:
    """Moves outside "the air by 1 at the start, or one sample of people by 1"."""
    impulse = outside_a_change()(samples)
    yield from ((kind, columns) for kind, columns in impulse if kind != "start")
    yield "larger", free(ROOM, [5.0, 0.0], samples)
    yield "signal", free(ROOM, [0.0, 5.0], samples)
    together = forced(ROOM, "people", during(samples, (0, 1, 3.0)))
    yield "together", together + free(ROOM, [1.0, 0.0], samples)


def outside_directions(samples: int) -> Iterator[tuple[str, NDArray]]:
    """Moves outside "the vehicle stands 1 m off"."""
    yield from outside_a_state(VEHICLE, SLOWED, only_at=0)(samples)


# -- designs -----------------------------------------------------------------------------


def cases() -> dict[str, Case]:
    """Each adjacency, with the kinds of noise that make texts of their own."""
    people = PEOPLE
    change = pc.DisturbanceAdjacency
    profile = [1.0, -2.0, 0.5]
    position = {"position": 1.0}
    found = {}

    def add(name, adjacency, outside, plant=ROOM, horizon=40, samples=None, **options):
        is_pure = options.pop("pure", "laplace" in str(options.get("family")))
        budget = table.PURE if is_pure else table.BUDGET
        asked = dict(horizon=horizon, adjacency=adjacency, budget=budget)
        asked |= dict(max_std=np.inf, **options)
        found[name] = Case(plant, asked, outside, samples or horizon)

    endless = dict(horizon=np.inf, samples=160)
    level = change(people, duration=12, shape="level")
    add("level", level, outside_a_change(12))
    add("level, endless", level, outside_a_change(12), **endless)
    for name, options in {
        "floor": dict(floor=0.3),
        "independent": dict(family="iid-gaussian"),
        "two plants": dict(floor=0.3, models=[room(0.88)]),
        "own factor": dict(factor=np.eye(40)),
    }.items():
        add(f"level, {name}", level, outside_a_change(12), **options)
    laplace = dict(horizon=16, family="iid-laplace")
    add("level, Laplace", level, outside_a_change(12), **laplace)
    two_rooms = dict(floor=0.3, models=[ROOM, room(0.88)])
    add("level, endless, floor", level, outside_a_change(12), floor=0.1, **endless)
    add("level, endless, two", level, outside_a_change(12), **endless, **two_rooms)
    white = dict(family="iid-gaussian")
    add("level, endless, white", level, outside_a_change(12), **endless, **white)
    varying = pc.PlantPolytope([ROOM, room(0.88)])
    region = dict(models=varying, **endless)
    short = change(people, duration=4, shape="level")
    add("level, varying", short, outside_a_change(4), **region)
    box = pc.PlantBox(ROOM, A=[[0.01, 0.0], [0.0, 0.0]])
    add("one sample, box", change(people), outside_a_change(), models=box, floor=0.3)
    add("one sample", change(people), outside_a_change())
    add("one sample, endless", change(people), outside_a_change(), **endless)
    early = change(people, times=[2])
    add("one time", early, outside_a_change(only_at=2))
    shaped = change(people, profiles=[profile])
    add("profile", shaped, outside_a_change(3, shape=profile))
    add("profile, endless", shaped, outside_a_change(3, shape=profile), **endless)
    twice = change(people, duration=3, shape="level", events=2, separation=8)
    add("two changes", twice, outside_a_change(3, 5))
    add("two changes, endless", twice, outside_a_change(3, 5), **endless)
    anywhere = change(people, duration=3, shape="level", events=2)
    add("two changes anywhere", anywhere, outside_a_change(3, 5), **endless)
    energy = change(people, norm="l2")
    add("energy", energy, outside_an_energy)
    add("energy, endless", energy, outside_an_energy, **endless)
    person = change(people, norm="l2", window=8)
    add("person", person, outside_a_person)
    add("person, endless", person, outside_a_person, **endless)
    step = ct.ss(
        [[0.9, 0.5], [0.0, 1.0]],
        [[0.0, 0.3], [0.0, 0.0]],
        [[1.0, 0.0]],
        0,
        300.0,
        states=["air", "load"],
        inputs=["people", "sun"],
        outputs=["temperature"],
    )

    def outside_a_step(samples):
        load = during(samples, (2, 1, 1.0))
        yield "larger", forced(step, "load", 5 * load)
        yield "repeated", forced(step, "load", during(samples, (2, 20, 1.0)))
        yield "start", free(step, [1.0, 0.0], samples)
        yield "signal", forced(step, "sun", 5 * load)

    add("step", change({"load": 1.0}), outside_a_step, step)

    whenever = dict(horizon=np.inf, samples=80)
    free_shape = change(people, duration=6)
    for name, options in {
        "": {},
        ", endless": whenever,
        ", floor": dict(floor=0.3),
        ", independent": dict(family="iid-gaussian"),
        ", bound": dict(bound={"temperature": 30.0}),
    }.items():
        add(f"any shape{name}", free_shape, outside_any_shape(6), **options)
    as_warm = {"people": 1.0, "sun": 1.6}
    either = change(as_warm, duration=4)
    names = dict(secrets=as_warm)
    add("either", either, outside_any_shape(4, **names))
    add("either, endless", either, outside_any_shape(4, **names), **whenever)
    single = change(as_warm)
    add("either, one sample", single, outside_any_shape(1, **names))
    often = change(people, duration=3, events=2, separation=12)
    add("any shape twice", often, outside_any_shape(3, apart=12))
    shaped_early = change(people, duration=3, times=[2])
    add("any shape at one time", shaped_early, outside_any_shape(3, only_at=2))
    for length in (1, 4):
        both_at_once = change(
            {"people": 1.0, "sun": 1.0}, duration=length, together=True
        )
        add(f"together, {length}", both_at_once, outside_together(length))
    add("together, endless", both_at_once, outside_together(4), **whenever)
    seasons = [ROOM, room(0.7)]
    varied = outside_any_shape(3, plant=seasons * 20)
    add("any shape, list", change(people, duration=3), varied, seasons * 20)
    period = outside_any_shape(1, plant=seasons)
    add("list, endless", change(people), period, seasons, **whenever)

    draw = {"draw": 1.0}
    add("moved", change(draw, moved=4), outside_a_time(4), TANK)
    add("moved, endless", change(draw, moved=4), outside_a_time(4), TANK, **whenever)
    levels = change(draw, moved=4, duration=3, shape="level")
    add("moved level", levels, outside_a_time(4, 3), TANK, **whenever)
    anyone = change({"draw": 1.0, "fill": 1.0}, moved=4)
    either_tank = outside_a_time(4, secrets=("draw", "fill"))
    add("moved, either", anyone, either_tank, TANK, **whenever)
    moved_twice = change(draw, moved=4, events=2, separation=12)
    add("moved twice", moved_twice, outside_a_time(4, apart=12), TANK, **whenever)
    who = {"people": 1.0, "sun": 1.0}
    add("which", change(who, which=True), outside_a_signal())
    add("which, endless", change(who, which=True), outside_a_signal(), **whenever)
    level_of = change(who, which=True, duration=4, shape="level")
    add("which level", level_of, outside_a_signal(4))
    at_three = change(who, which=True, times=3)
    add("which at one time", at_three, outside_a_signal(only_at=3))
    add("who or when", change(who, which=True, moved=3), outside_a_signal(by=3))

    exact = dict(models="exact")
    state = pc.StateAdjacency(position)
    vehicle = outside_a_state(VEHICLE, SLOWED)
    small = dict(plant=VEHICLE, horizon=20)
    add("state", state, vehicle, **small, **exact)
    add("state, floor", state, vehicle, **small, floor=0.5)
    for law in ("ball", "truncated"):
        add(f"state, {law}", state, vehicle, **small, **exact, family=law)
    add("state, pure ball", state, vehicle, **small, **exact, family="ball", pure=True)
    within = dict(bound={"y": 1000.0}, floor=0.5)
    add("state, bound", state, vehicle, **small, **within)
    air_of_list = outside_a_state(ROOM, OTHER, only_at=0)
    first_air = pc.StateAdjacency({"air": 1.0}, times=0)
    add("first air, list", first_air, air_of_list, [ROOM] * 20, horizon=20, **exact)
    add("state, independent", state, vehicle, **small, family="iid-gaussian")
    vehicle_box = pc.PlantBox.around(VEHICLE, relative=1e-4)
    add("state, box", state, vehicle, **small, floor=2.0, models=vehicle_box)
    first = pc.StateAdjacency(position, times=0)
    at_first = outside_a_state(VEHICLE, SLOWED, only_at=0)
    add("first state", first, at_first, **small, **exact)
    air = pc.StateAdjacency({"air": 1.0}, times=0)
    warm = outside_a_state(ROOM, OTHER, only_at=0)
    add("first air", air, warm, horizon=20, **exact)
    add("first air, floor", air, warm, horizon=20, floor=0.3)
    both = pc.StateAdjacency({"air": 1.0, "wall": 1.0}, times=0)
    cold = outside_a_state(ROOM, OTHER, ball=True)
    add("two states", both, cold, horizon=20, **exact)
    ball = pc.InitialStateAdjacency(1.0)
    add("ball", ball, cold, horizon=20, **exact)
    add("ball, floor", ball, cold, horizon=20, floor=0.3)
    add("ball, independent", ball, cold, horizon=20, family="iid-gaussian")
    for name, kind in (("diamond", 1), ("cube", np.inf)):
        adjacency = pc.InitialStateAdjacency(1.0, norm=kind)
        add(name, adjacency, cold, horizon=20, **exact)
    one_of_ball = pc.InitialStateAdjacency(position)
    add("ball of one state", one_of_ball, at_first, **small, **exact)
    joint = [air, change(people)]
    add("air or people", joint, outside_both, horizon=20)
    add("air or people, floor", joint, outside_both, horizon=20, floor=0.2)
    metre = np.tile([[1.0], [0.0]], (20, 1))
    add("direction", pc.DirectionAdjacency(metre), outside_directions, **small, **exact)
    entry = pc.ManifoldAdjacency(1.0)
    whole = outside_a_state(VEHICLE, SLOWED, ball=True)
    add("entry", entry, whole, **small, **exact)
    add("ball of data", pc.BallAdjacency(0.5), whole, **small, **exact)
    return found


CASES = cases()


# -- the second route --------------------------------------------------------------------


def covariance_of(noise: pc.OutputNoise, samples: int) -> NDArray:
    """The covariance (T p, T p) of a run's first samples."""
    if noise.horizon < np.inf:
        return oracles.stacked_covariance(noise)
    # of a list of plants a sample is a period; each of these plants has one output
    count = samples // len(noise.covariance(0))
    lags = [noise.covariance(lag) for lag in range(count)]
    return np.block(
        [
            [lags[t - s] if t >= s else lags[s - t].T for s in range(count)]
            for t in range(count)
        ]
    )


@dataclass(frozen=True)
class Detector:
    """The best test against a design's noise."""

    noise: pc.OutputNoise
    values: NDArray
    vectors: NDArray

    @classmethod
    def of(cls, noise: pc.OutputNoise, samples: int) -> "Detector":
        return cls(noise, *np.linalg.eigh(covariance_of(noise, samples)))

    def __call__(self, changes: list[NDArray]) -> float:
        """How often it detects the clearest of some changes, at `ALARMS` false alarms."""
        if self.noise.family.endswith("laplace"):
            scales = self.noise.stds.T.ravel() / np.sqrt(2)
            shifts = max((move / scales for move in changes), key=lambda s: sum(abs(s)))
            return power_of_laplace(shifts)
        power = self._power
        if self.noise.family in ("ball", "truncated"):
            power = self._power_of_radial
        return max(map(power, changes))

    def _whitened(self, move: NDArray) -> NDArray | None:
        """The move in standard deviations of what is noisy, None where it leaves that."""
        noisy = self.values > 1e-11 * self.values[-1]
        outside = np.linalg.norm(self.vectors[:, ~noisy].T @ move)
        if outside > 1e-5 * np.linalg.norm(move):
            return None
        return self.vectors[:, noisy].T @ move / np.sqrt(self.values[noisy])

    def _power_of_radial(self, move: NDArray) -> float:
        """Draws of the density exp(-|eta|) within a radius, and their likelihood ratios."""
        whitened = self._whitened(move)
        if whitened is None:
            return 1.0
        draws, radius = radial_draws(self.noise, len(whitened))
        shift = np.linalg.norm(whitened) * draws[:, 0].std()

        def ratios(eta):
            here = np.linalg.norm(eta, axis=1)
            there = np.linalg.norm(eta - shift * np.eye(len(whitened))[0], axis=1)
            with np.errstate(invalid="ignore"):
                with_it = np.where(there > radius, -np.inf, -there)
                return with_it - np.where(here > radius, -np.inf, -here)

        without, moved = ratios(draws), ratios(draws + shift * np.eye(len(whitened))[0])
        level = np.quantile(without, 1 - ALARMS, method="higher")
        return float(np.mean(moved > level))

    def _power(self, move: NDArray) -> float:
        eta = self._whitened(move)
        if eta is None:
            return 1.0  # no noise covers it
        return float(norm.cdf(norm.ppf(ALARMS) + np.linalg.norm(eta)))


def radial_draws(noise: pc.OutputNoise, dimension: int) -> tuple[NDArray, float]:
    """Draws (N, r) of the density exp(-|eta|) within a radius, and that radius."""
    rng = np.random.default_rng(0)
    (part,) = noise.parts
    lengths = rng.gamma(dimension, size=200_000)
    lengths = lengths[lengths <= part.bound]
    directions = rng.normal(size=(len(lengths), dimension))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return lengths[:, None] * directions, part.bound


def power_of_laplace(shifts: NDArray) -> float:
    """The best test's detections, from below: the least a e^epsilon + delta(epsilon)."""
    levels = np.linspace(0.0, min(8.0, np.abs(shifts).sum()), 9)
    bounds = []
    for level in levels:
        delta, _ = oracles.delta_bounds(level, shifts, points=1 << 11)
        bounds.append(ALARMS * np.exp(level) + delta)
    # between two levels the bound is above the one with the lower of either
    pairs = zip(levels, levels[1:], bounds[1:])
    least = [b - ALARMS * (np.exp(high) - np.exp(low)) for low, high, b in pairs]
    return min(1.0, bounds[0], *least)


@cache
def designed(name: str) -> pc.OutputNoise:
    """The noise of a case."""
    return CASES[name].design()


@cache
def detections(name: str) -> dict[str, float]:
    """The largest detection of each kind of move outside a case."""
    case = CASES[name]
    detects = Detector.of(designed(name), case.samples)
    drawn: dict[str, list[NDArray]] = {}
    for kind, move in case.outside(case.samples):
        drawn.setdefault(kind, []).append(move)
    return {kind: detects(changes) for kind, changes in drawn.items()}


def clauses_of(text: str) -> list[str]:
    """The clauses of ``Not hidden:`` and ``Assumes:`` of a guarantee's whole text."""
    joined = re.sub(r"\n +", " ", text)
    lines = [line.partition(":") for line in joined.splitlines()]
    found = {label: words.strip() for label, _, words in lines}
    return [*found["Not hidden"].split("; "), *found["Assumes"].split("; ")]


def unnamed(name: str, clauses: list[str]) -> list[str]:
    """Kinds of moves that are detected and that no clause names."""
    promised = designed(name).guarantee.detection(ALARMS)
    most = ALARMS + 2 * (promised - ALARMS)
    text = "; ".join(clauses)
    return [
        f"{kind}: {100 * found:.1f} %"
        for kind, found in detections(name).items()
        if found > most and not re.search(NAMES[kind], text)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_what_is_detected_is_named(name):
    noise = designed(name)
    assert unnamed(name, clauses_of(noise.guarantee.explain())) == []


#: Cases in which each clause of a text is needed, and what the clauses begin with.
NEEDED = {
    "level, endless": ("repetition", "longer ones"),
    "level": (
        "longer ones",
        "a change that varies meanwhile",
        "changes of another signal",
        "the initial state",
        "anything larger",
    ),
    "two changes": ("repetition",),
    "one time": ("changes at other times",),
    "profile": ("changes of another shape",),
    "person": ("repetition",),
    "state": ("disturbances that enter", "A and C exact", "two times moved"),
    "state, independent": ("disturbances that enter", "moves of velocity"),
    "first air, floor": ("moves at other times",),
    "air or people": ("a change that repeats", "longer ones"),
    "any shape, endless": ("repetition", "longer ones", "the initial state"),
    "either": ("changes of several signals",),
    "moved, endless": ("repetition", "that it happens", "its size", "a move by more"),
    "moved": ("an event moved into",),
    "moved level": ("its size and how long",),
    "moved, either": ("its size and on which",),
    "which": ("that it happens", "its size and when"),
    "which at one time": ("changes at other times",),
    "state, ball": ("disturbances that enter", "A and C exact"),
}


@pytest.mark.parametrize("name", NEEDED)
def test_a_clause_that_is_left_out_is_missed(name):
    noise = designed(name)
    clauses = clauses_of(noise.guarantee.explain())
    for words in NEEDED[name]:
        kept = [clause for clause in clauses if not clause.startswith(words)]
        assert len(kept) < len(clauses)
        assert unnamed(name, kept)


@pytest.mark.parametrize(
    "name", ["level, endless", "one sample", "level, floor", "any shape", "either"]
)
def test_the_short_text_names_repetition_and_longer_changes(name):
    noise = designed(name)
    line = str(noise.guarantee).splitlines()[-1]
    named = line.removeprefix("Not hidden: ").split("; ")
    assert re.match(NAMES["repeated"] + "|a change that repeats", named[0])
    assert named[1] == "longer ones"


@pytest.mark.parametrize("name", ["moved, endless", "which", "moved level"])
def test_the_short_text_says_that_the_event_itself_shows(name):
    noise = designed(name)
    line = str(noise.guarantee).splitlines()[-1]
    assert line.split("; ")[1] == "that it happens"


@pytest.mark.parametrize("kind", ["one", "pair", "known-total"])
def test_what_is_detected_of_several_agents_is_named(kind):
    """The messages are the values and independent noise; later ones follow from them."""
    graph = pc.plants.ten_agent_graph()
    agents = pc.private_consensus(graph, table.BUDGET, radius=1.0, moves=kind)
    scales = np.asarray(agents.scales)
    promised = agents.guarantee.detection(ALARMS)

    def detected(move):
        return norm.cdf(norm.ppf(ALARMS) + np.linalg.norm(move / scales))

    one, two = np.eye(10)[:2]
    hidden = {"one": one, "pair": one + two, "known-total": one - two}[kind]
    assert detected(hidden) <= promised * (1 + 1e-9)
    outside = {"anything larger": 5 * hidden}
    if kind == "one":
        outside["two nodes that move together"] = np.ones(10)
    if kind == "pair":
        outside["three nodes or more that move together"] = np.ones(10)
    if kind == "known-total":
        outside["the total of the initial values"] = 5 * one
    clauses = clauses_of(agents.guarantee.explain())
    for words, move in outside.items():
        assert detected(move) > 2 * promised - ALARMS
        assert words in clauses


def test_what_is_detected_of_inputs_is_named():
    """An input of a model is one row; a person may send several of them."""
    mechanism = pc.InputPerturbation(np.sum, table.BUDGET, radius=0.5)
    promised = mechanism.guarantee.detection(ALARMS)
    clauses = clauses_of(mechanism.guarantee.explain())
    outside = {"anything larger": 5 * 0.5, "several inputs of one person": 9**0.5 * 0.5}
    for words, length in outside.items():
        power = norm.cdf(norm.ppf(ALARMS) + length / mechanism.scale)
        assert power > 2 * promised - ALARMS
        assert words in clauses
    box = pc.InputPerturbation(
        np.sum, table.BUDGET, radius=np.inf, domain=(0.0, 1.0), size=2
    )
    assert clauses_of(box.guarantee.explain())[0] == "several inputs of one person"


def truncated_promises() -> Iterator[tuple[str, pc.PrivacyGuarantee]]:
    """Promises of noise that ends somewhere, of each room."""
    law = dict(family="truncated")
    query, ball = pc.LinearQuery(np.eye(2)), pc.BallAdjacency(1.0)
    graph = pc.plants.ten_agent_graph()
    yield "a query", pc.core.design_noise(query, ball, table.BUDGET, **law).guarantee
    yield (
        "agents",
        pc.private_consensus(graph, table.BUDGET, radius=1.0, **law).guarantee,
    )
    for name in ("state, truncated", "any shape, bound", "state, bound"):
        yield name, designed(name).guarantee


def test_noise_that_ends_says_that_a_value_may_exclude_the_secret():
    """By how much one law leaves the support of the other, and no more than is said."""
    for name, guarantee in truncated_promises():
        (said,) = [c for c in clauses_of(guarantee.explain()) if "another one" in c]
        share = float(re.search(r"up to (\S+),", said)[1])
        assert guarantee.loss.failure <= share <= 1e-2 * (1 + 1e-3), name
    noise = designed("state, truncated")
    draws, radius = radial_draws(noise, noise.factor.shape[1])
    # all of the pair's delta lies beyond the radius, at this epsilon or above
    size = noise.guarantee.loss.rows[0].radial[0][0][0]
    moved = np.linalg.norm(draws + size * np.eye(draws.shape[1])[0], axis=1)
    assert np.mean(moved > radius) == pytest.approx(
        noise.guarantee.loss.failure, rel=0.1
    )
    plain = designed("state")
    assert "another one" not in plain.guarantee.explain()
