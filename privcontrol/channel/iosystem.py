"""Make python-control systems of output noise, alone and as the gate of a measurement.

The measurement passes only through the gate. A noise block beside a summing junction
publishes the raw output when a signal name does not match. The gate cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import control as ct
import numpy as np
import scipy.linalg

from .parts import PartSystem

if TYPE_CHECKING:
    from .output_noise import OutputNoise


def create_channel_iosystem(
    noise: OutputNoise,
    *,
    name: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    states: Sequence[str] | None = None,
) -> ct.StateSpace:
    """The gate yhat(t) = y(t) + gamma(t) as a python-control StateSpace.

    Parameters
    ----------
    noise : OutputNoise
    name : str, optional
        Name of the system, ``channel`` by default.
    inputs : list of str, optional
        Names of the p measurements, then of the noise drives; the plant's output labels and
        ``eta[i]`` by default.
    outputs : list of str, optional
        Names of what is published, ``yhat[i]`` by default.
    states : list of str, optional
        Names of the noise model's states, ``xi[i]`` by default; independent noise has none.

    Returns
    -------
    control.StateSpace
        Of structured noise, eta is to be its draw at sample 0 and zero after. Of driven and
        independent noise it is fresh at each sample, and for correlated noise it is that
        noise itself. ``noise.inputs(noise.draw(rng, trials))`` has them all, as
        (trials, T, channels). (``ct.impulse_response`` scales its impulse by 1/dt.)

    Raises
    ------
    TypeError
        If ``noise`` is no OutputNoise.
    ValueError
        If names are not as many as signals, or two inputs have one name, such as a plant's
        output named ``eta[0]``.

    Examples
    --------
    >>> import privcontrol as pc
    >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    >>> adjacency = pc.StateAdjacency({"position": 1.0})
    >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=100,
    ...     budget=budget, adjacency=adjacency)
    >>> gate = pc.create_channel_iosystem(noise)
    >>> gate.input_labels, gate.output_labels
    (['y', 'eta[0]'], ['yhat[0]'])

    A measurement goes through the gate beside the drives of the noise:

    >>> import control as ct, numpy as np
    >>> eta = noise.inputs(noise.draw(np.random.default_rng(), 1))[0].T
    >>> signals = np.vstack([np.zeros(100), eta])
    >>> published = ct.forced_response(gate, noise.timepts, signals).outputs
    """
    _check_noise(noise)
    A, B, C, D = _noise_system(noise)
    order = len(A)
    p = len(D)
    if inputs is None:
        inputs = [*noise.plant.outputs, *numbered("eta", noise.channels)]
    if len(inputs) != p + noise.channels:
        raise ValueError(
            f"inputs: expected {p} names of measurements, then {noise.channels} of noise "
            f"drives, got {len(inputs)} names"
        )
    # python-control would keep one of two, and a measurement would enter as noise
    if len(set(inputs)) < len(inputs):
        raise ValueError(
            f"inputs: expected different names, got {inputs}; rename the plant's outputs, "
            "or pass inputs=..."
        )
    return ct.ss(
        A,
        np.hstack([np.zeros((order, p)), B]),
        C,
        np.hstack([np.eye(p), D]),
        noise.plant.dt,
        inputs=inputs,
        outputs=outputs or numbered("yhat", p),
        states=states or numbered("xi", order),
        name=_system_name(name, "channel"),
    )


def create_noise_iosystem(
    noise: OutputNoise,
    *,
    name: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    states: Sequence[str] | None = None,
) -> ct.StateSpace:
    """The noise alone, eta -> gamma, as a python-control StateSpace, for analysis.

    Structured noise is the exosystem (A, A S, C, C S) driven by eta as a one-sample unit at
    sample 0, driven noise the plant itself from fresh eta, and independent noise a static
    gain. Noise correlated in another way has no system of finite order, so that its own
    samples pass through a unit gain. Names default to ``eta[i]``, ``gamma[i]``, ``xi[i]``.
    To publish a measurement use `create_channel_iosystem`.

    Examples
    --------
    >>> import privcontrol as pc
    >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    >>> adjacency = pc.StateAdjacency({"position": 1.0})
    >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=100,
    ...     budget=budget, adjacency=adjacency)
    >>> pc.create_noise_iosystem(noise).nstates
    2
    """
    _check_noise(noise)
    system = _noise_system(noise)
    return ct.ss(
        *system,
        noise.plant.dt,
        inputs=inputs or numbered("eta", noise.channels),
        outputs=outputs or numbered("gamma", len(system.D)),
        states=states or numbered("xi", len(system.A)),
        name=_system_name(name, "noise"),
    )


def _check_noise(noise: Any) -> None:
    # an import of OutputNoise would go in a circle
    if not hasattr(noise, "channels"):
        hint = "; pass loop.noise" if hasattr(noise, "noise") else ""
        raise TypeError(
            f"noise: expected an OutputNoise, got {type(noise).__name__}{hint}"
        )


def numbered(prefix: str, count: int) -> list[str]:
    """Names such as ``eta[0]``, ``eta[1]``."""
    return [f"{prefix}[{i}]" for i in range(count)]


def _system_name(name: str | None, default: str) -> str:
    if name is None:
        return default
    if not isinstance(name, str):
        raise TypeError(f"name: expected text, got {type(name).__name__}")
    if "." in name:
        raise ValueError("name: expected a name without dots, which join signals to it")
    return name


def _noise_system(noise: OutputNoise) -> PartSystem:
    """All parts side by side, with the entries that are drawn once as first inputs."""
    systems = [part.statespace() for part in noise.parts]
    once: list[int] = []
    fresh: list[int] = []
    start = 0
    for part in noise.parts:
        middle = start + part.once
        once += range(start, middle)
        start = middle + part.width
        fresh += range(middle, start)
    order = once + fresh
    return PartSystem(
        scipy.linalg.block_diag(*(system.A for system in systems)),
        scipy.linalg.block_diag(*(system.B for system in systems))[:, order],
        np.hstack([system.C for system in systems]),
        np.hstack([system.D for system in systems])[:, order],
    )
