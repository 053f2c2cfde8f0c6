"""Figures with one pair of logarithmic axes."""

from __future__ import annotations

import control as ct
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from .._bands import readable_log_ticks


def single_axes(ax: Axes | None) -> Axes:
    """The given axes, or those of a new figure."""
    if ax is None:
        return plt.subplots(figsize=(6.4, 4.0), layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise TypeError(
            f"ax: expected matplotlib Axes or None, got {type(ax).__name__}; "
            "plt.subplots()[1] makes them"
        )
    return ax


def log_plot(ax: Axes, lines: list) -> ct.ControlPlot:
    """Finish ticks, grid and legend, and return axes and lines as a `ControlPlot`."""
    readable_log_ticks(ax)
    ax.grid(alpha=0.3, which="major")
    legend = ax.legend(fontsize="small")
    return ct.ControlPlot(
        np.array([[lines]], dtype=object), np.array([[ax]]), ax.figure, legend=legend
    )
