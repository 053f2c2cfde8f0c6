"""Plants made of a plant and additions on site: delays, or a controller.

A delay adds the past as states, exactly and by name. A setpoint that a controller on site
follows is an exogenous input of the closed loop, which a `DisturbanceAdjacency` hides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import reduce, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import control as ct
import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..numerics.arguments import helpful_arguments
from ..numerics.checks import positive_number, real_array
from ..numerics.linalg import EPS
from ..numerics.thresholds import LONGEST, ROUNDED
from .linear import LinearSystem, beside

#: Names of the signals that leave the plant through the gate.
_PUBLISHED = re.compile(r"yhat(\[.*\])?")


SystemT = TypeVar("SystemT", ct.StateSpace, list[ct.StateSpace])
Arguments = ParamSpec("Arguments")


def for_each_sample(
    made: Callable[Concatenate[ct.StateSpace, Arguments], ct.StateSpace],
) -> Callable[Concatenate[SystemT, Arguments], SystemT]:
    """Decorate what makes a plant of a plant so it makes a list of a list.

    A system that is added has the same matrices at each sample.
    """
    checked = helpful_arguments(made)

    @wraps(made)
    def for_plants(*args: Any, **kwargs: Any) -> Any:
        given = args[0] if args else kwargs.get("sys")
        if not isinstance(given, list | tuple) or not given:
            return checked(*args, **kwargs)
        others = {name: value for name, value in kwargs.items() if name != "sys"}
        known: dict[int, ct.StateSpace] = {}
        for plant in given:
            if id(plant) not in known:
                known[id(plant)] = checked(plant, *args[1:], **others)
        return [known[id(plant)] for plant in given]

    return cast("Any", for_plants)


@for_each_sample
def with_delays(
    sys: ct.StateSpace, delays: Mapping[str, float], dt: float | None = None
) -> ct.StateSpace:
    """Delay inputs or outputs of a plant, with the past as further states.

    Nothing is approximated. A delay of d samples of an input ``u`` adds the states ``u_1``
    to ``u_d``, its values 1 to d samples ago, and one of an output likewise. A continuous
    plant is sampled with inputs that are constant between samples. Its inputs may then be
    delayed by any time, also by a part of a sample.

    Parameters
    ----------
    sys : control.StateSpace, or list of control.StateSpace
        In discrete time, or in continuous time if ``dt`` is given. A list has the plant
        of each sample, and gives a list. A delayed input entered, and a delayed output
        was read, with the matrices of its own sample.
    delays : mapping
        By name of an input or output: samples (integers), or seconds for a continuous
        plant. A float is refused where samples are not of one second.
    dt : float, optional
        Sampling time of a continuous plant, in seconds.

    Returns
    -------
    control.StateSpace
        With the names of ``sys``; states of the past come last.

    Raises
    ------
    ValueError
        If a name is no input or output, or is both, a delay is negative, or no integer
        where it must be, or a state of the past has the name of another state.
    control.ControlArgument
        If ``sys`` is no StateSpace, or its time is not the one that ``dt`` says.

    See Also
    --------
    with_local_loop, design_output_noise

    Notes
    -----
    A `StateAdjacency` of t > 0 names the states of ``sys``. Delayed inputs are earlier
    publications. Delayed outputs follow the states: a reading published d samples later
    is as private as one published at once.

    Examples
    --------
    >>> import control as ct, privcontrol as pc
    >>> tank = ct.ss(-0.5, 1.0, 1.0, 0.0, states=["level"], inputs=["pump"])
    >>> late = pc.with_delays(tank, {"pump": 2.5}, dt=1.0)
    >>> late.state_labels
    ['level', 'pump_1', 'pump_2', 'pump_3']
    >>> late.A.round(3)[0]
    array([0.607, 0.   , 0.442, 0.345])
    """
    if not isinstance(sys, ct.StateSpace):
        raise ct.ControlArgument(
            f"sys: expected a StateSpace, got {type(sys).__name__}; convert it with ct.ss"
        )
    if not isinstance(delays, Mapping):
        raise TypeError(
            "delays: expected a mapping by name, such as {'u': 2}, "
            f"got {type(delays).__name__}"
        )
    period = _period(sys, dt)
    lags = {name: _lag(sys, name, delay, period) for name, delay in delays.items()}
    of_inputs = [lags.get(name, (0, 0.0)) for name in sys.input_labels]
    late = [lags.get(name, (0, 0.0))[0] for name in sys.output_labels]
    ages = [[whole, whole + 1] if part else [whole] for whole, part in of_inputs]
    past = [entries[-1] for entries in ages] + late
    states = list(sys.state_labels)
    for name, length in zip(sys.input_labels + sys.output_labels, past, strict=True):
        states += [f"{name}_{k}" for k in range(1, length + 1)]
    if len(set(states)) != len(states):
        raise ValueError("delays: a state of the past has the name of another state")
    plant = _entered_by_age(sys, [part for _, part in of_inputs], period)
    entered = _beside_each_other([_past(entries) for entries in ages])
    read = _beside_each_other([_past([length]) for length in late])
    whole_plant = read.after(plant.after(entered))
    order = np.arange(len(states))
    own = slice(entered.order, entered.order + sys.nstates)
    order = np.append(order[own], np.delete(order, own))
    return ct.ss(
        real_array(whole_plant.A[np.ix_(order, order)], "sys"),
        real_array(whole_plant.B[order], "sys"),
        whole_plant.C[:, order],
        whole_plant.D,
        period if sys.dt == 0 else sys.dt,
        states=states,
        inputs=sys.input_labels,
        outputs=sys.output_labels,
        name=f"{sys.name}_delayed",
    )


def _period(sys: ct.StateSpace, dt: float | None) -> float:
    """Return the time of a sample in the unit of delays: seconds, or samples."""
    is_continuous = sys.dt == 0
    if is_continuous and dt is None:
        raise ct.ControlArgument(
            "dt: expected the sampling time of a continuous plant, got None"
        )
    if not is_continuous and (dt is not None or sys.dt is None):
        raise ct.ControlArgument(
            "sys, dt: expected a discrete-time plant without dt, or a continuous one "
            "with it"
        )
    return positive_number(dt, "dt") if is_continuous else 1.0


def _lag(
    sys: ct.StateSpace, name: str, delay: float, period: float
) -> tuple[int, float]:
    """Return a delay as whole samples, and the part of a sample that is left."""
    is_input = name in sys.input_labels
    if is_input == (name in sys.output_labels):
        known = ", ".join([*sys.input_labels, *sys.output_labels])
        hint = f"; {name} is a state" if name in sys.state_labels else ""
        raise ValueError(
            f"delays: {name!r} is not the name of one input or output; known names: "
            f"{known}{hint}"
        )
    whole, part = _samples(delay, name, period)
    is_continuous = sys.dt == 0
    if part and not (is_continuous and is_input):
        raise ValueError(
            f"delays: expected a whole number of samples for {name}, got "
            f"{whole + part:g}; a part of a sample is exact for inputs of a "
            "continuous plant only (dt=...)"
        )
    has_unit = is_continuous or sys.dt == 1
    if not has_unit and not part and isinstance(delay, float | np.floating):
        raise ValueError(  # 60.0 may be meant in seconds
            f"delays: expected a whole number of samples for {name}, got a float, "
            f"which may be seconds; of {sys.dt:g} s each they are "
            "int(round(seconds / dt))"
        )
    return whole, part


def _entered_by_age(
    sys: ct.StateSpace, parts: list[float], period: float
) -> LinearSystem:
    """Return the plant in discrete time, with an input for each age of what enters.

    What is late by a part of a sample enters with two ages, the younger one first.
    """
    A = np.asarray(sys.A)
    is_continuous = sys.dt == 0
    columns = []
    for column, part in zip(np.asarray(sys.B).T, parts, strict=True):
        rest = period * (1 - part)
        columns.append(_held(A, column, rest) if is_continuous else column)
        if part:
            before = _held(A, column, period * part)
            columns.append(scipy.linalg.expm(A * rest) @ before)
    B = np.reshape(columns, (-1, len(A))).T
    D = np.zeros((sys.noutputs, B.shape[1]))
    oldest = np.cumsum([2 if part else 1 for part in parts], dtype=int) - 1
    D[:, oldest] = sys.D  # passes at once, as old as the oldest
    if is_continuous:
        A = scipy.linalg.expm(A * period)
    return LinearSystem(A, B, sys.C, D)


def _past(ages: list[int]) -> LinearSystem:
    """Return the last samples of a signal as states, and those of some ages as outputs."""
    length = ages[-1]
    read = np.eye(length + 1)[ages]
    shift = np.eye(length, k=-1)
    return LinearSystem(shift, np.eye(length, 1), read[:, 1:], read[:, :1])


def _beside_each_other(systems: list[LinearSystem]) -> LinearSystem:
    return reduce(beside, systems, LinearSystem.gain(np.zeros((0, 0))))


def _samples(delay: float, name: str, period: float) -> tuple[int, float]:
    """A delay as whole samples and the part of a sample that is left."""
    with np.errstate(over="ignore"):
        samples = float(np.divide(positive_number(delay, name, zero=True), period))
    if samples > LONGEST:
        raise ValueError(
            f"delays: expected at most {LONGEST} samples for {name}, got {samples:g}"
        )
    if abs(samples - round(samples)) <= ROUNDED * max(samples, 1.0):
        return round(samples), 0.0
    whole = math.floor(samples)
    return whole, samples - whole


def _held(
    A: NDArray[np.float64], column: NDArray[np.float64], time: float
) -> NDArray[np.float64]:
    """Return what an input that is held for some time adds to the state."""
    order = len(A)
    both = np.zeros((order + 1, order + 1))
    both[:order, :order] = A
    both[:order, order] = column
    after = scipy.linalg.expm(both * time)
    return after[:order, order]


@for_each_sample
def with_local_loop(
    sys: ct.StateSpace, controller: ct.StateSpace | ct.TransferFunction
) -> ct.StateSpace:
    """Close a linear controller's loop on site, and return it as a plant.

    The controller's outputs drive the inputs of ``sys`` of the same name, and its inputs
    read the outputs of ``sys`` of the same name. Every other input of the controller is
    a reference. There is no hidden sign: for a negative feedback the controller's gain
    from the output is negative.

    Parameters
    ----------
    sys : control.StateSpace, or list of control.StateSpace
        Plant with n states, or a list with the plant of each sample.
    controller : control.StateSpace or control.TransferFunction
        With k states and the sampling time of ``sys``; a gain needs none.

    Returns
    -------
    control.StateSpace
        Its outputs are the outputs of ``sys``. Its inputs are the inputs of ``sys``,
        where the cloud's signal is added to the controller's, then the references in
        the controller's order. Its states are the states of ``sys``, then ``local[i]``.

    Raises
    ------
    control.ControlArgument
        If one of the two is not linear, their sampling times differ, an output of the
        controller is no input of ``sys``, it reads no output of ``sys``, it reads
        published outputs (``yhat[i]``), a reference or a state has a name that is
        taken, or both have direct feedthrough, which is an algebraic loop.

    See Also
    --------
    with_delays, options, design_output_noise

    Notes
    -----
    Noise for the returned plant hides a reference r only if the controller is linear and
    time-invariant, reads the *true* outputs, starts in the same state in both runs, and
    its outputs to the plant are not published. A controller that reads the published
    outputs is public
    feedback: its reference then acts through the open loop. Saturation and anti-windup are
    not linear, and are not covered.

    ``DisturbanceAdjacency({"r": radius}, duration=d)`` hides a change of r that lasts at
    most d samples. A level that is kept for the whole run is another secret, a *state*
    with r(t+1) = r(t): give it to the controller, and protect it by `StateAdjacency`. If
    the plant starts settled at r, its state and the controller's move with r.

    Examples
    --------
    A thermostat on site; the temperature that somebody asks for is the secret:

    >>> import control as ct, numpy as np, privcontrol as pc
    >>> room = ct.ss(0.9, [[0.1]], 1, 0, 1, states=["air"], inputs=["heat"], outputs=["y"])
    >>> thermostat = ct.ss([], [], [], [[-2.0, 2.0]], 1, inputs=["y", "wish"], outputs=["heat"])
    >>> plant = pc.with_local_loop(room, thermostat)
    >>> plant.input_labels, plant.A.item().__round__(3)
    (['heat', 'wish'], 0.7)
    >>> noise = pc.design_output_noise(plant, horizon=np.inf, budget=pc.PrivacyBudget(gdp=0.5),
    ...                                adjacency=pc.DisturbanceAdjacency({"wish": 2.0}, duration=3))
    """
    plant = _linear(sys, "sys")
    law = _linear(controller, "controller")
    _check_times(plant, law)
    sensed, driven, references = _wiring(plant, law)
    read = [k for k in range(law.ninputs) if k not in references]
    gain = law.D[:, read]
    through = plant.D[np.ix_(sensed, driven)]
    rounding = 8 * EPS * len(sensed) * np.abs(through) @ np.abs(gain)
    if (np.abs(through @ gain) > rounding).any():
        raise ct.ControlArgument(
            "controller: it and the plant both pass their input on at once, which is an "
            "algebraic loop; delay the controller by one sample"
        )
    # rows over (x, public inputs, local x, references); the controller asks for u
    outer = np.block([[plant.A, plant.B], [plant.C, plant.D]])
    inner = np.block([[law.A, law.B[:, references]], [law.C, law.D[:, references]]])
    both = scipy.linalg.block_diag(outer, inner)
    ends = np.cumsum([plant.nstates, plant.noutputs, law.nstates])
    moved, outputs, local, asked = np.split(both, ends)
    asked = asked + gain @ (outputs[sensed] + through @ asked)
    outputs = outputs + plant.D[:, driven] @ asked
    moved = moved + plant.B[:, driven] @ asked
    local = local + law.B[:, read] @ outputs[sensed]
    is_state = np.zeros(both.shape[1], dtype=bool)
    is_state[: plant.nstates] = True
    is_state[len(outer[0]) :][: law.nstates] = True
    states = np.vstack([moved, local])
    return ct.ss(
        states[:, is_state],
        states[:, ~is_state],
        outputs[:, is_state],
        outputs[:, ~is_state],
        plant.dt,
        states=[*plant.state_labels, *_local_states(law)],
        inputs=[*plant.input_labels, *(law.input_labels[k] for k in references)],
        outputs=plant.output_labels,
        name=f"{plant.name}_local",
    )


def _linear(system: object, name: str) -> ct.StateSpace:
    """The StateSpace of a linear system; `ControlArgument` for any other."""
    if isinstance(system, ct.TransferFunction):
        labels = {"inputs": system.input_labels, "outputs": system.output_labels}
        return ct.ss(system, **labels)
    if not isinstance(system, ct.StateSpace):
        raise ct.ControlArgument(
            f"{name}: expected a StateSpace or a TransferFunction, got "
            f"{type(system).__name__}: a local loop is covered only if it is linear; "
            "linearise a controller without limits, and see jacobian_polytope for others"
        )
    return system


def _check_times(plant: ct.StateSpace, law: ct.StateSpace) -> None:
    """Refuse a controller of another sampling time. A gain needs none."""
    is_gain = law.dt is None and not law.nstates
    if plant.dt is None or not (is_gain or plant.dt == law.dt):
        raise ct.ControlArgument(
            "controller: expected the sampling time of the plant, got dt = "
            f"{plant.dt} of the plant and dt = {law.dt} of the controller; state both "
            "with the systems, or sample one with sample(Ts)"
        )


def _wiring(
    plant: ct.StateSpace, law: ct.StateSpace
) -> tuple[list[int], list[int], list[int]]:
    """Outputs of the plant that are read, inputs that are driven, and the law's references."""
    for name in law.input_labels:
        if _PUBLISHED.fullmatch(name):
            raise ct.ControlArgument(
                f"controller: it reads {name}, which the gate publishes. Such a "
                "controller is public feedback, and noise for its closed loop does not "
                "hide its reference; let it read the true outputs "
                f"{', '.join(plant.output_labels)}"
            )
    strangers = [n for n in law.output_labels if n not in plant.input_labels]
    if strangers:
        raise ct.ControlArgument(
            f"controller: its outputs {', '.join(strangers)} are no inputs of the plant, "
            f"which are {', '.join(plant.input_labels)}; give them the same names"
        )
    sensed = []
    references = []
    for k, name in enumerate(law.input_labels):
        if name in plant.output_labels:
            sensed.append(plant.output_labels.index(name))
        else:
            references.append(k)
    if not sensed:
        raise ct.ControlArgument(
            "controller: none of its inputs is an output of the plant, which are "
            f"{', '.join(plant.output_labels)}; give those that it reads the same names"
        )
    taken = [name for name in law.input_labels if name in plant.input_labels]
    taken += [name for name in _local_states(law) if name in plant.state_labels]
    if taken:
        raise ct.ControlArgument(
            f"controller: {', '.join(taken)} would be the name of two signals; rename "
            "them with update_names(inputs=..., states=...)"
        )
    driven = [plant.input_labels.index(name) for name in law.output_labels]
    return sensed, driven, references


def _local_states(law: ct.StateSpace) -> list[str]:
    return [f"local[{i}]" for i in range(law.nstates)]
