"""Delays as states: past inputs and past outputs, exactly and by name."""

import math
from collections.abc import Mapping
from typing import Any

import control as ct
import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core._linalg import positive_number, real_array

#: Share of a sample below which a delay counts as a whole number of samples.
_WHOLE = 1e-9
_MOST_SAMPLES = 10_000


def with_delays(
    sys: ct.StateSpace, delays: Mapping[str, float], dt: float | None = None
) -> ct.StateSpace:
    """A plant whose inputs or outputs are delayed, with the past as further states.

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
    Delayed inputs at t > 0 are what was published before, so that a `StateAdjacency` names
    the other states. What is published d samples later is as private as what is published
    at once: for the guarantee a delay of an output may be left out.

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
    for name in delays:
        if (name in sys.input_labels) == (name in sys.output_labels):
            known = ", ".join([*sys.input_labels, *sys.output_labels])
            raise ValueError(
                f"delays: {name!r} is not the name of one input or output; known names: "
                f"{known}"
            )
    steps = {
        name: positive_number(delay, name, zero=True) for name, delay in delays.items()
    }
    late = {name: step for name, step in steps.items() if name in sys.input_labels}
    is_continuous = sys.dt == 0
    period = 0.0
    if is_continuous:
        if dt is None:
            raise ct.ControlArgument(
                "dt: expected the sampling time of a continuous plant, got None"
            )
        period = positive_number(dt, "dt")
        with np.errstate(over="ignore"):
            steps = {
                name: float(np.divide(step, period)) for name, step in steps.items()
            }
        late = {name: steps[name] for name in late}
    for name, step in steps.items():
        if step > _MOST_SAMPLES:
            raise ValueError(
                f"delays: expected at most {_MOST_SAMPLES} samples for {name}, got {step:g}"
            )
    if is_continuous:
        dt = period
        entries = _sampled(sys, late, period)
        A = scipy.linalg.expm(np.asarray(sys.A) * period)
    else:
        if dt is not None or sys.dt is None:
            raise ct.ControlArgument(
                "sys, dt: expected a discrete-time plant without dt, or a continuous one "
                "with it"
            )
        dt = sys.dt
        whole = {name: _whole(step, name) for name, step in late.items()}
        entries = {}
        for k, name in enumerate(sys.input_labels):
            entries[name] = {whole.get(name, 0): np.asarray(sys.B)[:, k]}
        A = np.asarray(sys.A)
    outputs = {
        name: _whole(steps[name], name) for name in sys.output_labels if name in steps
    }
    return _assembled(sys, dt, A, entries, late, outputs)


def _whole(step: float, name: str) -> int:
    nearest = round(step)
    if abs(step - nearest) > _WHOLE * max(step, 1.0):
        raise ValueError(
            f"delays: expected a whole number of samples for {name}, got {step:g}; a part "
            "of a sample is exact for inputs of a continuous plant only (dt=...)"
        )
    return nearest


def _lag_at_sample(step: float) -> int:
    """How many samples old the input is that acts right at a sample."""
    nearest = round(step)
    if abs(step - nearest) <= _WHOLE * max(step, 1.0):
        return nearest
    return math.ceil(step)


def _sampled(sys: Any, late: Mapping[str, float], dt: float) -> dict:
    """Columns of B by input and by samples of delay, for inputs that are held."""
    A = np.asarray(sys.A)
    found = {}
    for k, name in enumerate(sys.input_labels):
        column = np.asarray(sys.B)[:, [k]]
        step = late.get(name, 0.0)
        if abs(step - round(step)) <= _WHOLE * max(step, 1.0):
            step = round(step)
        whole = math.floor(step)
        rest = (step - whole) * dt
        found[name] = {whole: _held(A, column, dt - rest)}
        if rest:
            after = scipy.linalg.expm(A * (dt - rest))
            found[name][whole + 1] = after @ _held(A, column, rest)
    return found


def _held(A: NDArray, column: NDArray, time: float) -> NDArray:
    """What an input that is held for some time adds to the state."""
    order = len(A)
    both = np.zeros((order + 1, order + 1))
    both[:order, :order] = A
    both[:order, order:] = column
    return scipy.linalg.expm(both * time)[:order, order]


def _assembled(
    sys: Any,
    dt: Any,
    A: NDArray,
    entries: Mapping[str, Mapping[int, NDArray]],
    late: Mapping[str, float],
    outputs: Mapping[str, int],
) -> ct.StateSpace:
    """The plant with queues of past inputs and outputs."""
    direct = np.asarray(sys.D)
    seen = {name: _lag_at_sample(late.get(name, 0.0)) for name in sys.input_labels}
    queues = []
    for k, name in enumerate(sys.input_labels):
        length = max(entries[name])
        if direct[:, k].any():
            length = max(length, seen[name])
        queues.append((name, length))
    queues += list(outputs.items())
    lengths = dict(queues)
    states = list(sys.state_labels)
    first = {}
    for name, length in queues:
        first[name] = len(states)
        states += [f"{name}_{k}" for k in range(1, length + 1)]
    if len(set(states)) != len(states):
        raise ValueError("delays: a state of the past has the name of another state")
    order, size = len(A), len(states)
    whole_A = np.zeros((size, size))
    whole_A[:order, :order] = A
    B = np.zeros((size, sys.ninputs))
    C = np.zeros((sys.noutputs, size))
    C[:, :order] = sys.C
    D = np.zeros((sys.noutputs, sys.ninputs))
    for k, name in enumerate(sys.input_labels):
        places = {0: (B, k)}
        for lag in range(1, lengths[name] + 1):
            places[lag] = (whole_A, first[name] + lag - 1)
        for lag, column in entries[name].items():
            matrix, place = places[lag]
            matrix[:order, place] += np.ravel(column)
        if seen[name] and direct[:, k].any():
            C[:, first[name] + seen[name] - 1] += direct[:, k]
        else:
            D[:, k] += direct[:, k]
        if lengths[name]:
            B[first[name], k] = 1.0
        _shift(whole_A, first[name], lengths[name])
    for name, length in outputs.items():
        if not length:
            continue
        row = sys.output_labels.index(name)
        start = first[name]
        whole_A[start] = C[row]
        B[start] = D[row]
        C[row], D[row] = 0.0, 0.0
        C[row, start + length - 1] = 1.0
        _shift(whole_A, start, length)
    labels = {
        "states": states,
        "inputs": sys.input_labels,
        "outputs": sys.output_labels,
    }
    matrices = [real_array(matrix, "sys") for matrix in (whole_A, B, C, D)]
    return ct.ss(*matrices, dt, **labels, name=f"{sys.name}_delayed")


def _shift(A: NDArray, start: int, length: int) -> None:
    """Links that move each value of the past one place on."""
    for k in range(start + 1, start + length):
        A[k, k - 1] = 1.0
