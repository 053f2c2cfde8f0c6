"""Draw output noise and what hides behind it, one panel below the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import control as ct
import matplotlib.pyplot as plt
import numpy as np

from ..core._linalg import positive_integer
from ..core._random import Seed
from ..core._shown import time_axis, with_units
from ..systems.plant import Plant
from .summed import SummedNoise

#: Points of lines that a figure shows.
_MOST_POINTS = 1_000_000


@contextmanager
def stacked_axes(
    ax: Any,
    count: int,
    what: str,
    plant: Plant,
    title: str,
    time_unit: str | None = None,
) -> Iterator[Any]:
    """Axes (count, 1) in python-control's style, which share their time axis.

    They are the given ones, or those of a new figure with this title.
    """
    with plt.rc_context(ct.config.defaults["ctrlplot.rcParams"]):
        if ax is None:
            size = (5.0, 0.9 + 1.5 * count)
            figure = plt.figure(figsize=size, layout="constrained")
            figure.suptitle(title)
            ax = figure.subplots(count, 1, sharex=True, squeeze=False)
        axes = np.asarray(ax, object).reshape(-1, 1)
        if len(axes) != count:
            raise ValueError(
                f"ax: expected {count} axes, one per {what}, got {len(axes)}"
            )
        yield axes
        axes[-1, 0].set_xlabel(time_axis(plant.time_label, time_unit))
        axes[0, 0].legend(loc="best")


def plot_noise(
    noise: SummedNoise,
    samples: int,
    rng: Seed,
    ax: Any,
    time_unit: str | None,
    units: Mapping[str, str] | None,
) -> ct.ControlPlot:
    """`OutputNoise.plot`."""
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
    with stacked_axes(ax, len(lines), "output", plant, title, time_unit) as axes:
        for k, name in enumerate(names):
            axis = axes[k, 0]
            band = 2 * noise.stds[k]
            axis.fill_between(time, -band, band, color="0.85", lw=0, label="two std")
            lines[k, 0] = axis.plot(time, runs[k].T, linewidth=0.9)
            axis.set_ylabel(f"noise on\n{name}")
            axis.margins(x=0)
    return ct.ControlPlot(lines, axes, axes[0, 0].figure)
