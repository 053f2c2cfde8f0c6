"""Draw panels of many trials that stay readable.

A panel shows a median, a band of quantiles, a few single trials and a reference. Nothing
here knows about privacy. The arrays that it is given are drawn as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import control as ct
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from numpy.typing import ArrayLike, NDArray

from .core._linalg import real_array

#: Okabe and Ito, for colour-blind readers.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
CURVES = ("--", ":", "-.")
#: Single trials that are drawn as separate lines.
MANY = 20


@dataclass(frozen=True, eq=False)
class Panel:
    """One signal with its traces (trials, T), and named curves (T,) to draw over them."""

    label: str
    traces: np.ndarray
    curves: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Style:
    """Which of band, median and first `samples` trials are drawn, and how."""

    quantiles: tuple
    band: bool
    median: bool
    samples: int
    label: str | None = None
    color: str | None = None

    @property
    def prefix(self) -> str:
        """What stands before every entry of the legend."""
        if self.label is None:
            return ""
        return f"{self.label}: "


def quantile_pair(quantiles: ArrayLike) -> tuple[float, float]:
    """Lower and upper quantile as floats."""
    low, high = real_array(quantiles, "quantiles", shape=(2,))
    if not 0 <= low < high <= 1:
        raise ValueError(
            f"quantiles: expected 0 <= low < high <= 1, got ({low:g}, {high:g})"
        )
    return float(low), float(high)


def enough_trials(trials: int, quantiles: tuple[float, float]) -> bool:
    """Whether at least one trial is outside the band, on average, on either side."""
    low, high = quantiles
    for tail in (low, 1 - high):
        if tail > 0 and trials * tail < 1 - 1e-9:
            return False
    return trials > 1


class BandPlot(ct.ControlPlot):
    """A ControlPlot whose title leaves the legend below the panels in its place."""

    def set_plot_title(self, title: str, frame: str = "axes") -> None:
        """Set the figure's title, centred alike for both frames of python-control."""
        self.figure.suptitle(title)


def draw_panels(
    time: NDArray,
    columns: Sequence[tuple[str | None, Sequence[Panel]]],
    style: Style,
    ax: object = None,
    time_label: str = "Time [s]",
    title: str | None = None,
) -> BandPlot:
    """Draw columns of panels that share their time axis, each with a heading.

    They are drawn on the given axes, one for each panel of the grid, or on new ones.
    """
    most = max(len(panels) for _, panels in columns)
    shape = (most, len(columns))
    with plt.rc_context(ct.config.defaults["ctrlplot.rcParams"]):
        if ax is None:
            axes = _new_axes(shape)
        else:
            axes = _given_axes(ax, shape)
        lines = np.empty(shape, object)
        for column, (heading, panels) in enumerate(columns):
            for row, axis in enumerate(axes[:, column]):
                lines[row, column] = []
                if row < len(panels):
                    lines[row, column] = _draw_panel(axis, time, panels[row], style)
                axis.set_visible(row < len(panels))
            if heading is not None:
                axes[0, column].set_title(heading)
            lowest = axes[len(panels) - 1, column]
            lowest.set_xlabel(time_label)
            lowest.tick_params(labelbottom=True)
        figure = axes[0, 0].figure
        figure.align_ylabels()
        if title is not None:
            figure.suptitle(title)
        legend = _draw_legend(figure, axes, own=ax is None)
    return BandPlot(lines, axes, figure, legend=legend)


def log_plot(ax: Axes, lines: list) -> ct.ControlPlot:
    """Finish logarithmic axes, and return them and their lines as a `ControlPlot`.

    Plain numbers stand on axes that span less than a decade.
    """
    for axis in (ax.xaxis, ax.yaxis):
        low, high = axis.get_view_interval()
        if high < 10 * low:
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("{x:g}")
    ax.grid(alpha=0.3, which="major")
    legend = ax.legend(fontsize="small")
    return ct.ControlPlot(
        np.array([[lines]], dtype=object), np.array([[ax]]), ax.figure, legend=legend
    )


def _new_axes(shape: tuple[int, int]) -> Any:
    """Axes in the current figure if it is empty, else in a new one."""
    rows, columns = shape
    figure = plt.gcf()
    if figure.axes:
        figure = plt.figure()
    width = 5.0 if columns == 1 else 3.6 * columns
    figure.set_size_inches(width, 0.9 + 1.5 * rows)
    figure.set_layout_engine("constrained")
    return figure.subplots(rows, columns, sharex=True, squeeze=False)


def _given_axes(ax: object, shape: tuple[int, int]) -> Any:
    rows, columns = shape
    axes = np.atleast_1d(np.asarray(ax, object))
    if axes.size != rows * columns:
        raise ValueError(
            f"ax: expected {rows} x {columns} axes, one per panel, got {axes.size}"
        )
    return axes.reshape(shape)


def _draw_panel(ax: Axes, time: NDArray, panel: Panel, style: Style) -> list:
    """The lines of one panel, from back to front."""
    color = style.color
    if color is None:
        drawn = sum(line.get_gid() == "trials" for line in ax.lines)
        color = COLORS[drawn % len(COLORS)]
    count = len(panel.traces)
    trials = f"{count} trial{'s' * (count != 1)}"
    median_color = "black"
    entry = trials
    if style.band:
        entry = "single trials"
        median_color = color
        low, high = np.quantile(panel.traces, style.quantiles, axis=0)
        first, last = (f"{100 * quantile:.4g}" for quantile in style.quantiles)
        label = f"{style.prefix}{first}\N{EN DASH}{last} % of {trials}"
        ax.fill_between(time, low, high, color=color, alpha=0.25, lw=0, label=label)
    samples = panel.traces[: style.samples]
    lines = _draw_samples(ax, time, samples, style.prefix + entry, color, style.band)
    if style.median:
        middle = np.median(panel.traces, axis=0)
        label = f"{style.prefix}median"
        lines += ax.plot(time, middle, color=median_color, linewidth=1.6, label=label)
    if lines:
        lines[-1].set_gid("trials")
    for (name, curve), dashes in zip(panel.curves.items(), CURVES * len(panel.curves)):
        lines += ax.plot(time, curve, "black", ls=dashes, linewidth=1.1, label=name)
    ax.set_ylabel(panel.label)
    ax.margins(x=0)
    return lines


def _draw_samples(
    ax: Axes, time: NDArray, traces: NDArray, label: str, color: str, band: bool
) -> list:
    """Lines of single trials, many of them as one collection."""
    count = len(traces)
    if count == 0:
        return []
    width = 0.9
    if count == 1:
        width = 1.4
    if band or count > MANY:
        width = 0.5
    if count <= MANY:
        lines = ax.plot(time, traces.T, color=color, linewidth=width, alpha=0.85)
        lines[0].set_label(label)
        return lines
    segments: Any = np.stack([np.broadcast_to(time, traces.shape), traces], axis=-1)
    look: dict[str, Any] = {"color": color, "linewidth": width}
    alpha = max(0.03, MANY / count)
    ax.add_collection(LineCollection(segments, alpha=alpha, rasterized=True, **look))
    ax.autoscale_view()
    return ax.plot([], [], label=label, **look)  # the collection's entry in the legend


def _draw_legend(figure: Any, axes: NDArray, own: bool) -> Any:
    """One legend for all panels, below a figure of our own or in the first given axes."""
    entries: dict[str, Any] = {}
    for ax in axes.flat:
        for handle, name in zip(*ax.get_legend_handles_labels()):
            entries.setdefault(name, handle)
    if not entries:
        return None
    if not (own or figure.legends):
        return axes[0, 0].legend(entries.values(), entries.keys())
    for legend in list(figure.legends):
        legend.remove()
    # width of the widest entry at python-control's size of letters
    inches = 0.45 + 0.052 * max(map(len, entries))
    fitting = int(figure.get_figwidth() / inches)
    return figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower center",
        ncols=max(1, min(len(entries), fitting)),
        frameon=False,
    )
