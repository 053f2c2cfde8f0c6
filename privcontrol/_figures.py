"""Draw columns of panels in python-control's style, and finish logarithmic plots.

Nothing here knows about privacy. The arrays that it is given are drawn as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import control as ct
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.rcsetup import cycler
from matplotlib.ticker import LogLocator
from numpy.typing import ArrayLike, NDArray

from .numerics.checks import real_array

#: Axes to draw on, one for each panel, or None for new ones.
AxesLike = Axes | NDArray[np.float64] | Sequence[Axes] | None

#: Okabe and Ito, for colour-blind readers: what is true, published and estimated, in
#: every figure of the project.
TRUE, PUBLISHED, ESTIMATE = "black", "#D55E00", "#0072B2"
#: Those that are left, for all that a figure compares.
COLORS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")
#: Single trials that are drawn at most.
MANY = 100
#: Panels that stand in one column. More of signals that are named are drawn in two; of
#: those that are not, the first ones are drawn.
TALLEST = 6


@dataclass(frozen=True, eq=False)
class Panel:
    """One signal with its traces (trials, T), and what is drawn with them.

    That is the reference (T,) that it follows, and a band of half this width (T,). The
    colour is that of the first curves on its axes; others are compared with them.
    """

    label: str
    traces: NDArray[np.float64]
    reference: NDArray[np.float64] | None = None
    band: NDArray[np.float64] | None = None
    color: str | None = None


@dataclass(frozen=True)
class Style:
    """Quantiles of a band, how many single trials are drawn, and a legend's prefix."""

    quantiles: tuple[float, float]
    samples: int
    label: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.label, str | None):
            raise TypeError(
                f"label: expected text or None, got a {type(self.label).__name__}"
            )

    def entry(self, text: str) -> str:
        """An entry of the legend."""
        return text if self.label is None else f"{self.label}: {text}"


class PanelPlot(ct.ControlPlot):
    """A ControlPlot whose title leaves the legend below the panels in its place."""

    def set_plot_title(self, title: str, frame: str = "axes") -> None:
        """Set the figure's title, centred alike for both frames of python-control."""
        self.figure.suptitle(title)


def control_style() -> AbstractContextManager[None]:
    """The style of python-control's own figures, for the time of a ``with``.

    Colours are ours, and legends have the size of labels, to be read at 3.5 inches.
    """
    colors = cycler(color=COLORS)
    own = {"axes.prop_cycle": colors, "legend.fontsize": "small"}
    return plt.rc_context(ct.config.defaults["ctrlplot.rcParams"] | own)


def own_axes(ax: object) -> Axes:
    """Return the given axes, or those of a new figure."""
    if ax is None:
        with control_style():
            return plt.subplots(figsize=(4.5, 3.3), layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise TypeError(
            f"ax: expected matplotlib Axes or None, got {type(ax).__name__}; "
            "plt.subplots()[1] makes them"
        )
    return ax


def panel_axes(
    ax: AxesLike, rows: int, columns: int, title: str | None
) -> NDArray[Any]:
    """Axes (rows, columns) that share their time axis: the given ones, or new ones.

    New ones are in the current figure if it is empty, and the title stands above them.
    """
    if ax is not None:
        given = ax
        if not isinstance(ax, list | tuple | np.ndarray):
            given = [own_axes(ax)]
        axes = np.atleast_1d(np.array(given, object))
        for one in axes.flat:
            own_axes(one)
        if axes.size != rows * columns:
            raise ValueError(
                f"ax: expected {rows} x {columns} axes, one per panel, got {axes.size}"
            )
        return axes.reshape(rows, columns)
    figure = plt.gcf()
    if figure.axes:
        figure = plt.figure()
    width = 4.5 if columns == 1 else 3.6 * columns
    figure.set_size_inches(width, 0.9 + 1.5 * rows)
    figure.set_layout_engine("constrained")
    if title is not None:
        figure.suptitle(title)
    return np.asarray(figure.subplots(rows, columns, sharex=True, squeeze=False))


def quantile_pair(quantiles: ArrayLike) -> tuple[float, float]:
    """Lower and upper quantile as floats."""
    low, high = real_array(quantiles, "quantiles", shape=(2,))
    if not 0 <= low < high <= 1:
        raise ValueError(
            f"quantiles: expected 0 <= low < high <= 1, got ({low:g}, {high:g})"
        )
    return float(low), float(high)


def enough_trials(trials: int, quantiles: tuple[float, float]) -> bool:
    """Return whether at least one trial is outside the band, on average, on either side."""
    low, high = quantiles
    rarest = min((tail for tail in (low, 1 - high) if tail > 0), default=1.0)
    return trials > 1 and trials * rarest >= 1 - 1e-9


def draw_panels(
    time: NDArray[np.float64],
    columns: Mapping[str, Sequence[Panel]],
    style: Style,
    ax: AxesLike = None,
    *,
    time_label: str = "Time [s]",
    title: str | None = None,
) -> PanelPlot:
    """Draw columns of panels below their headings, which share time axis and legend.

    They are drawn on the given axes, one for each panel of the grid, or on new ones.
    """
    arranged = list(columns.items())
    if len(arranged) == 1:
        arranged = _folded(*arranged[0], ax)
    rows = max(len(panels) for _, panels in arranged)
    lines = np.empty((rows, len(arranged)), object)
    with control_style():
        axes = panel_axes(ax, rows, len(arranged), title)
        for k, (heading, panels) in enumerate(arranged):
            for row, axis in enumerate(axes[:, k]):
                lines[row, k] = []
                is_used = row < len(panels)
                if is_used:
                    lines[row, k] = _draw_panel(axis, time, panels[row], style)
                axis.set_visible(is_used)
            if heading:
                axes[0, k].set_title(heading)
            lowest = axes[len(panels) - 1, k]
            lowest.set_xlabel(time_label)
            lowest.tick_params(labelbottom=True)
        figure = axes[0, 0].figure
        figure.align_ylabels()
        legend = _draw_legend(figure, axes, own=ax is None)
    return PanelPlot(lines, axes, figure, legend=legend)


def _folded(
    heading: str, panels: Sequence[Panel], ax: AxesLike
) -> list[tuple[str, Sequence[Panel]]]:
    """One long column as two, row by row, unless it is drawn on axes in one column."""
    half = (len(panels) + 1) // 2
    is_long = len(panels) > TALLEST
    if not is_long or (ax is not None and np.array(ax, object).shape != (half, 2)):
        return [(heading, panels)]
    return [(heading, panels[::2]), ("", panels[1::2])]


def _draw_panel(
    ax: Axes, time: NDArray[np.float64], panel: Panel, style: Style
) -> list[Line2D]:
    """The lines of one panel, from back to front."""
    drawn = sum(line.get_gid() == "trials" for line in ax.lines)
    cycle = (*([] if panel.color is None else [panel.color]), *COLORS)
    color = cycle[drawn % len(cycle)]
    count = len(panel.traces)
    trials = f"{count} trial{'s' * (count != 1)}"
    has_band = panel.band is None and enough_trials(count, style.quantiles)
    shown = panel.traces[: style.samples if has_band else MANY]
    lines: list[Line2D] = []
    if panel.band is not None:
        shown = panel.traces
        ax.fill_between(
            time, -panel.band, panel.band, color="0.85", lw=0, label="two std"
        )
    if has_band:
        low, high = np.quantile(panel.traces, style.quantiles, axis=0)
        first, last = (f"{100 * quantile:.4g}" for quantile in style.quantiles)
        label = style.entry(f"{first}\N{EN DASH}{last} % of {trials}")
        ax.fill_between(time, low, high, color=color, alpha=0.25, lw=0, label=label)
    if len(shown):
        width = 0.5 if has_band else 0.9
        lines += ax.plot(time, shown.T, color=color, linewidth=width, alpha=0.85)
        lines[0].set_label(style.entry("single trials" if has_band else trials))
    if has_band:
        middle = np.median(panel.traces, axis=0)
        label = style.entry("median")
        lines += ax.plot(time, middle, color=color, linewidth=1.6, label=label)
    lines[-1].set_gid("trials")
    if panel.reference is not None:
        lines += ax.plot(
            time, panel.reference, "--", color="0.35", linewidth=1.1, label="reference"
        )
    ax.set_ylabel(panel.label)
    ax.margins(x=0)
    return lines


def _draw_legend(figure: Figure, axes: NDArray[Any], own: bool) -> Legend:
    """One legend for all panels, below a figure with room or in the first given axes."""
    named: dict[str, list[Artist]] = {}
    for ax in axes.flat:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            named.setdefault(name, []).append(handle)
    entries = {name: _entry(handles) for name, handles in named.items()}
    if not (own or figure.legends):
        return axes[0, 0].legend(entries.values(), entries.keys())
    for legend in list(figure.legends):
        legend.remove()
    inches = [0.55 + 0.06 * len(entry) for entry in entries]  # at this size of letters
    width = figure.get_figwidth()
    fitting = len(entries) if sum(inches) <= width else int(width / max(inches))
    return figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower center",
        ncols=max(1, fitting),
        frameon=False,
    )


def _entry(handles: list[Artist]) -> Artist:
    """The first of curves, or of bands, or a grey one where their panels' colours differ."""
    lines = [handle for handle in handles if isinstance(handle, Line2D)]
    bands = [handle for handle in handles if isinstance(handle, PolyCollection)]
    if len({str(line.get_color()) for line in lines}) > 1:
        entry = Line2D([], [], color="0.5", ls=lines[0].get_linestyle())
        entry.set_linewidth(lines[0].get_linewidth())
        return entry
    if len({str(band.get_facecolor()) for band in bands}) > 1:
        return Patch(color="0.5", alpha=0.35, lw=0)
    return handles[0]


def finished_plot(ax: Axes, lines: Sequence[Artist]) -> ct.ControlPlot:
    """Finish logarithmic axes, and return them and their lines as a `ControlPlot`.

    Plain numbers stand on axes that span less than two decades, those of 1, 2 and 5 on
    axes of more than one.
    """
    for axis in (ax.xaxis, ax.yaxis):
        low, high = axis.get_view_interval()
        if high >= 100 * low:
            continue
        if high >= 10 * low:
            axis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("{x:g}")
    ax.grid(alpha=0.3, which="major")
    axes = np.array([[ax]])
    figure = axes[0, 0].figure
    is_alone = isinstance(figure, Figure) and len(figure.axes) == 1
    has_room = is_alone and figure.get_layout_engine() is not None
    with control_style():
        legend = _draw_legend(figure, axes, own=has_room)
    drawn = np.array([[lines]], dtype=object)
    return ct.ControlPlot(drawn, axes, figure, legend=legend)
