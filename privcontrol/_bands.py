"""Panels of many trials that stay readable: a median, a band of quantiles, a few single trials and a reference.

Nothing here knows about privacy; the arrays it is given are drawn as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import control as ct
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import StrMethodFormatter
from numpy.typing import ArrayLike, NDArray

from .core._linalg import real_array

COLORS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
)  # Okabe and Ito, for colour-blind readers
CURVES = ("--", ":", "-.")
MANY = 20  # single trials that are drawn as separate lines


@dataclass(frozen=True, eq=False)
class Panel:
    """One signal: its label, its traces (trials, T) and named curves (T,) to draw over them."""

    label: str
    traces: np.ndarray
    curves: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Style:
    """How the trials of a panel are drawn: the band of quantiles, the median and the first `samples` trials."""

    quantiles: tuple
    band: bool
    median: bool
    samples: int
    label: str | None = None
    color: str | None = None


def quantile_pair(quantiles: ArrayLike) -> tuple[float, float]:
    """Lower and upper quantile as floats."""
    low, high = real_array(quantiles, "quantiles", shape=(2,))
    if not 0 <= low < high <= 1:
        raise ValueError(
            f"quantiles: expected 0 <= low < high <= 1, got ({low:g}, {high:g})"
        )
    return float(low), float(high)


def enough_trials(trials: int, quantiles: tuple[float, float]) -> bool:
    """Whether an empirical band says anything: at least one trial outside, on average, on either side."""
    tails = [tail for tail in (quantiles[0], 1 - quantiles[1]) if tail > 0]
    return trials > 1 and all(trials * tail >= 1 - 1e-9 for tail in tails)


class BandPlot(ct.ControlPlot):
    """A ControlPlot whose title keeps the constrained layout, and with it the legend below the panels."""

    def set_plot_title(self, title: str, frame: str = "axes") -> None:
        """Set the figure's title; `frame` is python-control's, both are centred alike here."""
        self.figure.suptitle(title)


def draw_panels(
    time: NDArray,
    columns: Sequence[tuple[str | None, Sequence[Panel]]],
    style: Style,
    *,
    ax: Any = None,
    time_label: str = "Time [s]",
    title: str | None = None,
) -> BandPlot:
    """Draw columns of panels that share their time axis.

    Parameters
    ----------
    time : ndarray, (T,)
        Sample times.
    columns : sequence of (str or None, sequence of Panel)
        Heading and panels of each column, from top to bottom.
    style : Style
        What is drawn of the trials.
    ax : Axes or array of Axes, optional
        Where to draw, one per panel of the grid; a new figure by default.
    time_label, title : str, optional
        Label of the time axes and title of the figure.

    Returns
    -------
    control.ControlPlot
    """
    shape = max(len(panels) for _, panels in columns), len(columns)
    with plt.rc_context(ct.config.defaults["ctrlplot.rcParams"]):
        axes = _new_axes(shape) if ax is None else _given_axes(ax, shape)
        lines = np.empty(shape, object)
        for place in np.ndindex(*shape):
            heading, panels = columns[place[1]]
            drawn = place[0] < len(panels)
            lines[place] = (
                _draw_panel(axes[place], time, panels[place[0]], style) if drawn else []
            )
            axes[place].set_visible(drawn)
            if place[0] == 0 and heading is not None:
                axes[place].set_title(heading)
            if place[0] == len(panels) - 1:
                axes[place].set_xlabel(time_label)
                axes[place].tick_params(labelbottom=True)
        figure = axes[0, 0].figure
        figure.align_ylabels()
        if title is not None:
            figure.suptitle(title)
        legend = _draw_legend(figure, axes, own=ax is None)
    return BandPlot(lines, axes, figure, legend=legend)


def readable_log_ticks(ax: Axes) -> None:
    """Plain numbers on logarithmic axes that span less than a decade, where no power of ten would be labelled."""
    for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        if high < 10 * low:
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.set_minor_formatter(StrMethodFormatter("{x:g}"))


def _new_axes(shape: tuple[int, int]) -> Any:
    """Axes in the current figure if it is empty, as python-control does, else in a new one."""
    figure = plt.gcf()
    if figure.axes:
        figure = plt.figure()
    figure.set_size_inches(
        3.6 * shape[1] + (1.4 if shape[1] == 1 else 0), 0.9 + 1.5 * shape[0]
    )
    figure.set_layout_engine("constrained")
    return figure.subplots(*shape, sharex=True, squeeze=False)


def _given_axes(ax: Any, shape: tuple[int, int]) -> Any:
    axes = np.atleast_1d(np.asarray(ax, object))
    if axes.size != shape[0] * shape[1]:
        raise ValueError(
            f"ax: expected {shape[0]} x {shape[1]} axes, one per panel, got {axes.size}"
        )
    return axes.reshape(shape)


def _draw_panel(ax: Axes, time: NDArray, panel: Panel, style: Style) -> list:
    """The lines of one panel, from back to front."""
    color = (
        style.color
        or COLORS[sum(line.get_gid() == "trials" for line in ax.lines) % len(COLORS)]
    )
    prefix = "" if style.label is None else f"{style.label}: "
    count = len(panel.traces)
    trials = f"{count} trial{'s' * (count != 1)}"
    if style.band:
        low, high = np.quantile(panel.traces, style.quantiles, axis=0)
        percent = "\N{EN DASH}".join(
            f"{100 * quantile:.4g}" for quantile in style.quantiles
        )
        label = f"{prefix}{percent} % of {trials}"
        ax.fill_between(
            time, low, high, color=color, alpha=0.25, linewidth=0, label=label
        )
    samples = panel.traces[: style.samples]
    lines = _draw_samples(
        ax,
        time,
        samples,
        prefix + ("single trials" if style.band else trials),
        color,
        style.band,
    )
    if style.median:
        line_color = color if style.band else "black"
        lines += ax.plot(
            time,
            np.median(panel.traces, axis=0),
            color=line_color,
            linewidth=1.6,
            label=f"{prefix}median",
        )
    if lines:
        lines[-1].set_gid("trials")
    for (name, curve), dashes in zip(panel.curves.items(), CURVES * len(panel.curves)):
        lines += ax.plot(
            time, curve, color="black", linestyle=dashes, linewidth=1.1, label=name
        )
    ax.set_ylabel(panel.label)
    ax.margins(x=0)
    return lines


def _draw_samples(ax, time, traces, label, color, band):
    """Single trials: thin over a band; many of them as one collection, which draws quickly."""
    if len(traces) == 0:
        return []
    width = 1.4 if len(traces) == 1 else 0.9
    if band or len(traces) > MANY:
        width = 0.5
    if len(traces) <= MANY:
        lines = ax.plot(time, traces.T, color=color, linewidth=width, alpha=0.85)
        lines[0].set_label(label)
        return lines
    segments = np.stack([np.broadcast_to(time, traces.shape), traces], axis=-1)
    alpha = max(0.03, MANY / len(traces))
    ax.add_collection(
        LineCollection(
            segments, color=color, linewidth=width, alpha=alpha, rasterized=True
        )
    )
    ax.autoscale_view()
    return ax.plot(
        [], [], color=color, linewidth=width, label=label
    )  # the collection's entry in the legend


def _draw_legend(figure: Any, axes: NDArray, own: bool) -> Any:
    """One legend for all panels: below a figure of our own, else in the first of the given axes."""
    entries: dict[str, Any] = {}
    for ax in axes.flat:
        entries |= {
            name: handle
            for handle, name in zip(*ax.get_legend_handles_labels())
            if name not in entries
        }
    if not entries:
        return None
    if not (own or figure.legends):
        return axes[0, 0].legend(entries.values(), entries.keys())
    for legend in list(figure.legends):
        legend.remove()
    inches = 0.45 + 0.052 * max(
        map(len, entries)
    )  # of the widest entry, at python-control's legend size
    columns = max(1, min(len(entries), int(figure.get_figwidth() / inches)))
    return figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
    )
