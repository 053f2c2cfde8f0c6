"""Draw output noise and what hides behind it, over time or over frequency."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import control as ct
import numpy as np
from matplotlib.axes import Axes

from .._figures import control_style, finished_plot, panel_axes
from ..core._linalg import Seed, positive_integer
from ..core._shown import own_axes, time_axis, with_units
from ..systems.linear import frequency_response
from ..systems.plant import Plant
from .summed import Pricing, SummedNoise

#: Points of lines that a figure shows.
_MOST_POINTS = 1_000_000
#: Frequencies of a plot.
_PLOTTED = 400


@contextmanager
def stacked_axes(
    ax: Any,
    count: int,
    plant: Plant,
    title: str,
    time_unit: str | None = None,
) -> Iterator[Any]:
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
    ax: Any,
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
    time = noise.timepts
    plant = noise.plant_data
    lines = np.empty((noise.outputs, 1), object)
    names = with_units(plant.outputs, units)
    title = "Output noise"
    with stacked_axes(ax, len(lines), plant, title, time_unit) as axes:
        for k, name in enumerate(names):
            axis = axes[k, 0]
            band = 2 * noise.stds[k]
            axis.fill_between(time, -band, band, color="0.85", lw=0, label="two std")
            lines[k, 0] = axis.plot(time, runs[k].T, linewidth=0.9)
            axis.set_ylabel(f"noise on\n{name}")
            axis.margins(x=0)
    return ct.ControlPlot(lines, axes, axes[0, 0].figure)


def plot_spectrum(
    noise: SummedNoise,
    ax: Axes | None,
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
