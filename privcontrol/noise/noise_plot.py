"""Draw output noise and what hides behind it, over time or over frequency."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import control as ct
import numpy as np
from numpy.typing import NDArray

from .._figures import (
    AxesLike,
    Panel,
    Style,
    control_style,
    draw_panels,
    finished_plot,
    panel_axes,
)
from ..core._linalg import Seed, positive_integer
from ..core._objects import own_axes, time_axis, with_units
from ..systems.linear import frequency_response
from ..systems.plant import Plant
from .summed import Pricing, SummedNoise

#: Points of lines that a figure shows.
_MOST_POINTS = 1_000_000
#: Frequencies of a plot.
_PLOTTED = 400


@contextmanager
def stacked_axes(
    ax: AxesLike,
    count: int,
    plant: Plant,
    title: str,
    time_unit: str | None = None,
) -> Iterator[NDArray]:
    """Axes (count, 1) in python-control's style, which share their time axis.

    They are the given ones, or those of a new figure with this title.
    """
    with control_style():
        axes = panel_axes(ax, count, 1, title)
        yield axes
        axes[-1, 0].set_xlabel(time_axis(plant.time_label, time_unit))
        axes[0, 0].legend(loc="best")


def plot_samples(
    noise: SummedNoise,
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
        panels.append(Panel(label, runs[k], band=2 * noise.stds[k]))
    style = Style((0.0, 1.0), samples=trials)
    clock = time_axis(plant.time_label, time_unit)
    columns = {"": panels}
    return draw_panels(
        noise.timepts, columns, style, ax, time_label=clock, title="Output noise"
    )


def plot_spectrum(
    noise: SummedNoise,
    ax: AxesLike,
    loop: Pricing | None,
    time_unit: str | None,
    units: Mapping[str, str] | None,
) -> ct.ControlPlot:
    """Plot the spectra of noise without a horizon and of what it hides.

    With a loop, so is the root of the cost that noise of size one causes in it.
    """
    ax = own_axes(ax)
    lasts = _longest_change(noise)
    hidden = "secret" if lasts == 1 else f"secret, up to {lasts} samples long"
    secret = noise.design.secret
    curves = {"noise": noise.total.model, hidden: secret}
    if loop is not None:
        curves["loop, cost of unit noise"] = loop.noise_weight(math.inf)
    angles = np.geomspace(1e-3, np.pi, _PLOTTED)
    frequencies = angles / (2 * np.pi * noise.plant_data.step)
    lines = []
    for label, curve in curves.items():
        responses = frequency_response(curve, np.exp(1j * angles))
        gains = np.linalg.norm(responses, axis=(1, 2))
        if label == hidden:
            delays = np.exp(-1j * np.outer(angles, np.arange(lasts)))
            gains = gains * np.abs(delays.cumsum(axis=1)).max(axis=1)
        style = "k" if label == "noise" else ""
        lines += ax.loglog(frequencies, gains, style, label=label)
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
