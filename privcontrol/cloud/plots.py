"""Figures of trade-offs and of noise over horizons."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import control as ct
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from .._bands import readable_log_ticks

if TYPE_CHECKING:
    from .growth import HorizonGrowth
    from .sweep import Tradeoff

#: What the legend calls each design of a trade-off.
DESIGNS = {
    "trace": "structured, least variance",
    "loop": "structured, least loop cost",
    "iid": "independent",
    "codesign": "structured, gains and noise co-designed",
    "laplace": "structured Laplace, \N{GREEK SMALL LETTER DELTA} = 0",
}
#: A loop without measurements that costs more than this many times the dearest private one is off the plot.
_FAR = 3.0
_MODES = {"contracting": "--", "chain": "-.", "unstable": ":", "bounded": "-"}


def plot_growth(growth: HorizonGrowth, ax: Axes | None = None) -> ct.ControlPlot:
    """Least noise and the sizes of the modes over the horizon, both axes logarithmic."""
    ax = _axes(ax)
    shown = np.isfinite(growth.least_noise) & (growth.least_noise > 0)
    lines = ax.loglog(
        growth.horizons[shown],
        growth.least_noise[shown],
        "k",
        lw=2,
        label="least noise (root mean square)",
    )
    for mode in growth.modes:
        shown = np.isfinite(mode.sizes) & (mode.sizes > 0)
        lines += ax.loglog(
            growth.horizons[shown],
            mode.sizes[shown],
            _MODES[mode.kind],
            label=f"{mode.kind} mode {mode.name}",
        )
    ax.set(
        xlabel="Horizon T [samples]",
        ylabel="Output noise for privacy shift y = 1\n[units of the outputs]",
    )
    return _finished(ax, lines)


def plot_tradeoff(tradeoff: Tradeoff, ax: Axes | None = None) -> ct.ControlPlot:
    """Total cost against epsilon, with the costs of no privacy and of no measurement."""
    ax = _axes(ax)
    lines = []
    dearest = 0.0
    for design in tradeoff.costs:
        totals = tradeoff.total(design)
        dearest = max(dearest, totals.max())
        lines += ax.loglog(tradeoff.epsilons, totals, ".-", label=DESIGNS[design])
    levels = {"no privacy": (tradeoff.public.total, "-")}
    if tradeoff.open_loop.total < _FAR * dearest:
        open_loop = (tradeoff.open_loop.total, ":")
        levels["no measurements (open loop)"] = open_loop
    for label, (level, style) in levels.items():
        lines.append(ax.axhline(level, color="black", lw=0.8, ls=style, label=label))
    price = "expected cost over the horizon\n[units of x'Qx + u'Ru]"
    if tradeoff.horizon == math.inf:
        price = "expected cost of a sample\n[units of x'Qx + u'Ru]"
    ax.set(
        xlabel=(
            f"\N{GREEK SMALL LETTER EPSILON} [nats]  (\N{GREEK SMALL LETTER DELTA} = "
            f"{tradeoff.delta:g}, {tradeoff.span})"
        ),
        ylabel=price,
    )
    return _finished(ax, lines)


def _axes(ax: Axes | None) -> Axes:
    """The given axes, or those of a new figure."""
    if ax is None:
        return plt.subplots(figsize=(6.4, 4.0), layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise TypeError(
            f"ax: expected matplotlib Axes or None, got {type(ax).__name__}; "
            "plt.subplots()[1] makes them"
        )
    return ax


def _finished(ax: Axes, lines: list) -> ct.ControlPlot:
    readable_log_ticks(ax)
    ax.grid(alpha=0.3, which="major")
    legend = ax.legend(fontsize="small")
    return ct.ControlPlot(
        np.array([[lines]], dtype=object), np.array([[ax]]), ax.figure, legend=legend
    )
