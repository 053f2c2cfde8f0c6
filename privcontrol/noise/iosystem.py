"""Hand output noise to python-control: as systems, and as its figures.

The measurement passes only through the gate. A noise block next to a summing junction
publishes the raw output when a signal name does not match. The gate cannot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import control as ct
import numpy as np
from numpy.typing import NDArray

from .._figures import (
    COLORS,
    PUBLISHED,
    TRUE,
    AxesLike,
    Panel,
    Style,
    draw_panels,
    finished_plot,
    own_axes,
)
from ..numerics.checks import Seed, positive_integer
from ..numerics.labels import time_axis, with_units
from ..systems.linear import (
    LinearSystem,
    SampledSystem,
    VaryingSystem,
    by_sample,
    frequency_response,
    sum_of,
)
from .parts import Pricing
from .process import SummedNoise

#: Points of lines that a figure shows.
_MOST_POINTS = 1_000_000


def create_channel_iosystem(
    noise: SummedNoise,
    *,
    name: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    states: Sequence[str] | None = None,
) -> ct.StateSpace | ct.NonlinearIOSystem:
    """Make the gate yhat(t) = y(t) + gamma(t), a python-control StateSpace.

    Parameters
    ----------
    noise : OutputNoise
    name : str, optional
        Name of the system, ``channel`` by default.
    inputs, outputs, states : list of str, optional
        Names of the p measurements and then of the noise drives, of what is published, and
        of the noise model's states; by default the plant's output labels and ``eta[i]``,
        ``yhat[i]``, ``xi[i]``.

    Returns
    -------
    control.StateSpace
        Drive it with ``noise.process.inputs(noise.process.draw(rng, trials))``, shape
        (trials, T, channels). For structured noise eta is the draw at sample 0 and zero afterwards,
        for driven and independent noise a fresh draw at each sample, and for correlated
        noise the noise itself. ``ct.impulse_response`` scales its impulse by 1/dt.

    Raises
    ------
    TypeError
        If ``noise`` is no OutputNoise.
    ValueError
        If names are not as many as signals, or two inputs have one name, such as a plant's
        output named ``eta[0]``.

    See Also
    --------
    create_noise_iosystem, private_loop

    Examples
    --------
    A measurement goes through the gate with the drives of the noise:

    >>> import control as ct, numpy as np, privcontrol as pc
    >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=100,
    ...     budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
    ...     adjacency=pc.StateAdjacency({"position": 1.0}))
    >>> gate = pc.create_channel_iosystem(noise)
    >>> gate.input_labels, gate.output_labels
    (['y', 'eta[0]'], ['yhat[0]'])
    >>> entries = noise.process.draw(np.random.default_rng(), trials=1)
    >>> eta = noise.process.inputs(entries)[0].T
    >>> signals = np.vstack([np.zeros(100), eta])
    >>> published = ct.forced_response(gate, noise.timepts, signals).outputs
    """
    model = noise_system(noise)
    p, drives = model.output_count, model.input_count
    if inputs is None:
        inputs = [*noise.plant_data.outputs, *numbered("eta", drives)]
    if len(inputs) != p + drives:
        raise ValueError(
            f"inputs: expected {p} names of measurements, then {drives} of noise "
            f"drives, got {len(inputs)} names"
        )
    # python-control would keep one of two, and a measurement would enter as noise
    if len(set(inputs)) < len(inputs):
        raise ValueError(
            f"inputs: expected different names, got {inputs}; rename the plant's outputs, "
            "or pass inputs=..."
        )

    def gate(now: LinearSystem) -> LinearSystem:
        entry = np.hstack([np.zeros((now.order, p)), now.B])
        return LinearSystem(now.A, entry, now.C, np.hstack([np.eye(p), now.D]))

    return iosystem(
        by_sample(gate, model),
        noise.plant_data,
        name=_block_name(name, "channel"),
        inputs=inputs,
        outputs=_names(outputs, "outputs", "yhat", p),
        states=_names(states, "states", "xi", model.order),
    )


def create_noise_iosystem(
    noise: SummedNoise,
    *,
    name: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    states: Sequence[str] | None = None,
) -> ct.StateSpace | ct.NonlinearIOSystem:
    """Make the noise alone, eta -> gamma, a python-control StateSpace for analysis.

    Structured noise is the exosystem (A, A S, C, C S) with a pulse eta at sample 0,
    driven noise is the plant itself with fresh eta at each sample, and independent
    noise is a static gain. Noise correlated in another way has no system of finite
    order, so its own samples pass through a unit gain. To publish a measurement use
    `create_channel_iosystem`, whose errors are the same.

    Parameters
    ----------
    noise : OutputNoise
    name : str, optional
        Name of the system, ``noise`` by default.
    inputs, outputs, states : list of str, optional
        Names, by default ``eta[i]``, ``gamma[i]`` and ``xi[i]``.

    Returns
    -------
    control.StateSpace

    See Also
    --------
    create_channel_iosystem, OutputNoise, private_feedback

    Examples
    --------
    >>> import privcontrol as pc
    >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=100,
    ...     budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
    ...     adjacency=pc.StateAdjacency({"position": 1.0}))
    >>> pc.create_noise_iosystem(noise).nstates
    2
    """
    system = noise_system(noise)
    return iosystem(
        system,
        noise.plant_data,
        name=_block_name(name, "noise"),
        inputs=_names(inputs, "inputs", "eta", system.input_count),
        outputs=_names(outputs, "outputs", "gamma", noise.process.outputs),
        states=_names(states, "states", "xi", system.order),
    )


def iosystem(
    system: LinearSystem, plant: SampledSystem, **names: Any
) -> ct.StateSpace | ct.NonlinearIOSystem:
    """Return a system of python-control with a plant's time, a ``ct.nlsys`` where it varies."""
    if not isinstance(system, VaryingSystem):
        return ct.ss(*system.matrices, plant.dt, **names)
    return varying_iosystem(system.at, system.samples, plant, **names)


def varying_iosystem(
    at: Callable[[int], LinearSystem],
    samples: float,
    plant: SampledSystem,
    **names: Any,
) -> ct.NonlinearIOSystem:
    """Return a ``ct.nlsys`` of a system ``at`` each sample, with a plant's time.

    After the last of the ``samples`` it stays as it was there, since python-control asks
    for the state after it.
    """

    def now(time: float) -> LinearSystem:
        t = round(time / plant.step)
        return at(int(min(max(t, 0), samples - 1)))

    def update(
        t: float, x: NDArray[np.float64], u: NDArray[np.float64], params: object
    ) -> NDArray[np.float64]:
        system = now(t)
        return system.A @ x + system.B @ u

    def read(
        t: float, x: NDArray[np.float64], u: NDArray[np.float64], params: object
    ) -> NDArray[np.float64]:
        system = now(t)
        return system.C @ x + system.D @ u

    return ct.nlsys(update, read, dt=plant.dt, **names)


def _names(
    given: Sequence[str] | None, argument: str, prefix: str, count: int
) -> Sequence[str]:
    """Return the names that were given, as many as there are signals, or numbers."""
    if given is None:
        return numbered(prefix, count)
    if len(given) != count:
        raise ValueError(f"{argument}: expected {count} names, got {len(given)}")
    return given


def numbered(prefix: str, count: int) -> list[str]:
    """Return names such as ``eta[0]``, ``eta[1]``."""
    return [f"{prefix}[{i}]" for i in range(count)]


def _block_name(name: str | None, default: str) -> str:
    """Return the name of a system, checked."""
    if name is None:
        return default
    if not isinstance(name, str):
        raise TypeError(f"name: expected text, got {type(name).__name__}")
    if "." in name:
        raise ValueError("name: expected a name without dots, which join signals to it")
    return name


def noise_system(noise: SummedNoise) -> LinearSystem:
    """Return all parts as one system that starts at zero.

    The first inputs are the entries that are drawn once. These are to enter at the first
    sample and to be zero after it.
    """
    if not isinstance(noise, SummedNoise):
        hint = "; pass loop.noise" if hasattr(noise, "noise") else ""
        raise TypeError(
            f"noise: expected an OutputNoise, got {type(noise).__name__}{hint}"
        )
    # what has no system passes its own samples through a unit gain
    unit = LinearSystem.gain(np.eye(noise.process.outputs))
    model = reduce(sum_of, [part.model or unit for part in noise.parts])
    root = noise.process.total.state_root

    def begun(now: LinearSystem) -> LinearSystem:
        entry = np.hstack([now.A @ root, now.B])
        return LinearSystem(now.A, entry, now.C, np.hstack([now.C @ root, now.D]))

    return by_sample(begun, model)


# -- figures -----------------------------------------------------------------------------


def plot_samples(
    noise: SummedNoise,
    title: str,
    samples: int,
    rng: Seed,
    ax: AxesLike,
    time_unit: str | None,
    units: Mapping[str, str] | None,
) -> ct.ControlPlot:
    """Plot simulated samples of the noise at each output within two deviations."""
    trials = positive_integer(samples, "samples")
    if trials * noise.horizon > _MOST_POINTS:
        raise ValueError(
            f"samples: expected at most {_MOST_POINTS // noise.horizon} lines of "
            f"{noise.horizon} points, got {trials}"
        )
    runs = noise.sample(trials, rng)
    plant = noise.plant_data
    panels = []
    for k, name in enumerate(with_units(plant.outputs, units)):
        label = f"noise on\n{name}"
        panels.append(Panel(label, runs[k], band=2 * noise.stds[k], color=PUBLISHED))
    style = Style((0.0, 1.0), samples=trials)
    clock = time_axis(plant.time_label, time_unit)
    columns = {"": panels}
    return draw_panels(noise.timepts, columns, style, ax, time_label=clock, title=title)


def plot_spectrum(
    noise: SummedNoise,
    title: str,
    ax: AxesLike,
    loop: Pricing | None,
    time_unit: str | None,
    units: Mapping[str, str] | None,
) -> ct.ControlPlot:
    """Plot the spectra of noise without a horizon and of what it hides.

    With a loop, so is the root of the cost that noise of size one causes in it.
    """
    is_own = ax is None
    ax = own_axes(ax)
    if is_own:
        ax.set_title(title, fontsize="medium")
    lasts = _longest_change(noise)
    hidden = "secret" if lasts == 1 else f"secret, up to {lasts} samples long"
    secret = noise.design.secret
    if secret is None:
        raise ValueError(
            "plot: the noise is that of many units; plot noise that is designed for one of "
            "them, or fewer"
        )
    curves = {"noise": noise.process.total.model, hidden: secret}
    if loop is not None:
        curves["loop: root cost of unit noise"] = loop.noise_weight(math.inf)
    angles = np.geomspace(1e-3, np.pi, 400)
    frequencies = angles / (2 * np.pi * noise.plant_data.step)
    lines = []
    styles = ((PUBLISHED, "-"), (TRUE, "--"), (COLORS[0], "-."))
    for (label, curve), (color, style) in zip(
        curves.items(), styles, strict=False
    ):  # 2 or 3 curves
        responses = frequency_response(curve, np.exp(1j * angles))
        gains = np.linalg.norm(responses, axis=(1, 2))
        if label == hidden:
            delays = np.exp(-1j * np.outer(angles, np.arange(lasts)))
            gains = gains * np.abs(delays.cumsum(axis=1)).max(axis=1)
        lines += ax.loglog(frequencies, gains, color=color, ls=style, label=label)
    unit = "cycles per sample" if noise.plant_data.dt is True else "Hz"
    if time_unit is not None:
        unit = f"cycles per {time_unit}"
    with_units(noise.plant_data.outputs, units)
    one = set((units or {}).values())
    size = one.pop() if len(one) == 1 else "units of the outputs"
    ax.set(xlabel=f"Frequency [{unit}]", ylabel=f"Amplitude [{size}]")
    return finished_plot(ax, lines)


def _longest_change(noise: SummedNoise) -> int:
    """Samples of the longest hidden change that keeps its value."""
    adjacency = None if noise.request is None else noise.request.adjacency
    parts = () if adjacency is None else adjacency.parts
    return max([getattr(part, "duration", 1) for part in parts], default=1)
