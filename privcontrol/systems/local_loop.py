"""Plants whose inputs a controller on site drives: the closed local loop is the plant.

A setpoint that such a controller follows is then an exogenous input, which a
`DisturbanceAdjacency` hides. Controllers that are not linear are refused.
"""

from __future__ import annotations

import re

import control as ct
import numpy as np

from ..core._linalg import EPS

#: Names of what leaves the plant through the gate.
_PUBLISHED = re.compile(r"yhat(\[.*\])?")


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
    sys : control.StateSpace
        Plant with n states.
    controller : control.StateSpace or control.TransferFunction
        With k states and the sampling time of ``sys``; a gain needs none.

    Returns
    -------
    control.StateSpace
        Its outputs are those of ``sys``. Its inputs are those of ``sys``, where what the
        cloud sends is added to what the controller asks for, then the references in the
        controller's order. Its states are those of ``sys``, then ``local[i]``.

    Raises
    ------
    control.ControlArgument
        If one of the two is not linear, their sampling times differ, an output of the
        controller is no input of ``sys``, it reads no output of ``sys``, it reads what is
        published (``yhat[i]``), a reference or a state has a name that is taken, or both
        pass their input on at once, which is an algebraic loop.

    Notes
    -----
    Noise for the returned plant hides a reference r only if the controller is linear and
    time-invariant, reads the *true* outputs, starts alike in both runs, and what it sends
    to the plant is not published. A controller that reads the published outputs is public
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
    # Rows over (x, x_local, inputs, references); u is what the controller asks for.
    order = plant.nstates + law.nstates
    width = order + plant.ninputs + len(references)
    cuts = [plant.nstates, order, order + plant.ninputs]
    state, local, public, reference = np.split(np.arange(width), cuts)
    outer = np.zeros((plant.nstates + plant.noutputs, width))
    outer[:, [*state, *public]] = np.block([[plant.A, plant.B], [plant.C, plant.D]])
    inner = np.zeros((law.nstates + law.noutputs, width))
    own = np.vstack([law.B[:, references], law.D[:, references]])
    inner[:, [*local, *reference]] = np.hstack([np.vstack([law.A, law.C]), own])
    moved, asked = np.split(inner, [law.nstates])
    outputs = outer[plant.nstates :]
    asked = asked + gain @ (outputs[sensed] + through @ asked)
    entry = np.vstack([plant.B[:, driven], plant.D[:, driven]])
    outer = outer + entry @ asked
    outputs = outer[plant.nstates :]
    moved = moved + law.B[:, read] @ outputs[sensed]
    states = np.vstack([outer[: plant.nstates], moved])
    return ct.ss(
        states[:, :order],
        states[:, order:],
        outputs[:, :order],
        outputs[:, order:],
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
            "linearise what has no limits, and see jacobian_polytope for what has"
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
                f"controller: it reads {name}, which is what the gate publishes. Such a "
                "controller is public feedback, and noise for its closed loop does not "
                "hide its reference; let it read the true outputs "
                f"{', '.join(plant.output_labels)}"
            )
    strangers = [n for n in law.output_labels if n not in plant.input_labels]
    if strangers:
        raise ct.ControlArgument(
            f"controller: its outputs {', '.join(strangers)} are no inputs of the plant, "
            f"which are {', '.join(plant.input_labels)}; name them alike"
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
            f"{', '.join(plant.output_labels)}; name those that it reads alike"
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
