"""Delays as states: past inputs and past outputs, exactly and by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce
from typing import Any

import control as ct
import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core._linalg import positive_number, real_array
from .linear import LinearSystem, beside

#: Share of a sample below which a delay counts as a whole number of samples.
_WHOLE = 1e-9
_MOST_SAMPLES = 10_000


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
    sys : control.StateSpace
        In discrete time, or in continuous time if ``dt`` is given.
    delays : mapping
        By name of an input or output: samples (integers), or seconds for a continuous
        plant.
    dt : float, optional
        Sampling time of a continuous plant, in seconds.

    Returns
    -------
    control.StateSpace
        With the names of ``sys``; states of the past come last.

    Raises
    ------
    ValueError
        If a name is no input or output, or is both, a delay is negative or no whole number
        where it must be, or a state of the past has the name of another state.
    control.ControlArgument
        If ``sys`` is no StateSpace, or its time is not the one that ``dt`` says.

    Notes
    -----
    A `StateAdjacency` of t > 0 names the states of ``sys``. Delayed inputs are what was
    published before. Delayed outputs follow the states: what is published d samples later
    is as private as what is published at once.

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
    period = positive_number(dt, "dt") if is_continuous else 1.0
    lags = {}
    for name, delay in delays.items():
        is_input = name in sys.input_labels
        if is_input == (name in sys.output_labels):
            known = ", ".join([*sys.input_labels, *sys.output_labels])
            raise ValueError(
                f"delays: {name!r} is not the name of one input or output; known names: "
                f"{known}"
            )
        lags[name] = _samples(delay, name, period)
        if lags[name][1] and not (is_continuous and is_input):
            raise ValueError(
                f"delays: expected a whole number of samples for {name}, got "
                f"{sum(lags[name]):g}; a part of a sample is exact for inputs of a "
                "continuous plant only (dt=...)"
            )
    A = np.asarray(sys.A)
    entries = []
    for name, column in zip(sys.input_labels, np.asarray(sys.B).T):
        whole, part = lags.get(name, (0, 0.0))
        if not is_continuous:
            entries.append({whole: column})
            continue
        rest = period * (1 - part)
        entry = {whole: _held(A, column, rest)}
        if part:
            entry[whole + 1] = scipy.linalg.expm(A * rest) @ _held(
                A, column, period * part
            )
        entries.append(entry)
    if is_continuous:
        A = scipy.linalg.expm(A * period)
    outputs = {name: lags[name][0] for name in sys.output_labels if name in lags}
    return _assembled(sys, period if is_continuous else sys.dt, A, entries, outputs)


def _samples(delay: float, name: str, period: float) -> tuple[int, float]:
    """A delay as whole samples and the part of a sample that is left."""
    with np.errstate(over="ignore"):
        samples = float(np.divide(positive_number(delay, name, zero=True), period))
    if samples > _MOST_SAMPLES:
        raise ValueError(
            f"delays: expected at most {_MOST_SAMPLES} samples for {name}, got {samples:g}"
        )
    if abs(samples - round(samples)) <= _WHOLE * max(samples, 1.0):
        return round(samples), 0.0
    whole = math.floor(samples)
    return whole, samples - whole


def _held(A: NDArray, column: NDArray, time: float) -> NDArray:
    """What an input that is held for some time adds to the state."""
    order = len(A)
    both = np.zeros((order + 1, order + 1))
    both[:order, :order] = A
    both[:order, order] = column
    after = scipy.linalg.expm(both * time)
    return after[:order, order]


def _assembled(
    sys: Any,
    dt: Any,
    A: NDArray,
    entries: list[dict[int, NDArray]],
    outputs: Mapping[str, int],
) -> ct.StateSpace:
    """The plant between queues of past inputs and of past outputs.

    ``entries`` has the columns of B of each input by the age of what enters. What passes
    at once is as old as the oldest of them.
    """
    columns = []
    passing = []
    for entry, through in zip(entries, np.asarray(sys.D, float).T):
        for age, column in entry.items():
            columns.append(column)
            passing.append(through * (age == max(entry)))
    B = np.reshape(columns, (-1, len(A))).T
    D = np.reshape(passing, (-1, sys.noutputs)).T
    plant = LinearSystem(A, B, np.asarray(sys.C, float), D)
    before = [_queue(sorted(entry)) for entry in entries]
    after = [_queue([outputs.get(name, 0)]) for name in sys.output_labels]
    nothing = LinearSystem.gain(np.zeros((0, 0)))
    entered = reduce(beside, before, nothing)
    whole = reduce(beside, after, nothing).after(plant.after(entered))
    lengths = {name: max(entry) for name, entry in zip(sys.input_labels, entries)}
    states = list(sys.state_labels)
    for name, length in [*lengths.items(), *outputs.items()]:
        states += [f"{name}_{k}" for k in range(1, length + 1)]
    if len(set(states)) != len(states):
        raise ValueError("delays: a state of the past has the name of another state")
    # the plant's own states come first
    first, second = entered.order, entered.order + len(A)
    order = np.r_[first:second, :first, second : whole.order]
    return ct.ss(
        real_array(whole.A[np.ix_(order, order)], "sys"),
        real_array(whole.B[order], "sys"),
        real_array(whole.C[:, order], "sys"),
        whole.D,
        dt,
        states=states,
        inputs=sys.input_labels,
        outputs=sys.output_labels,
        name=f"{sys.name}_delayed",
    )


def _queue(ages: list[int]) -> LinearSystem:
    """From a signal to its values at some ages, the largest of which is the length."""
    length = ages[-1]
    values = np.vstack([np.zeros((1, length)), np.eye(length)])
    now = np.eye(length + 1, 1)
    return LinearSystem(
        np.eye(length, k=-1), np.eye(length, 1), values[ages], now[ages]
    )
