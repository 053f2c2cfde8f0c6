"""How results look: tables in notebooks, and the figures of designs and ledgers."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from .budget import PrivacyBudget

#: A ledger's figure evaluates the total at no more charges than this.
_CHARGES_DRAWN = 200


def html_table(rows: Mapping[str, str]) -> str:
    """Return labels and texts as a table of HTML."""
    left = "style='text-align: left'"
    lines = [
        f"<tr><th {left}>{html.escape(label)}</th><td {left}>{html.escape(text)}</td></tr>"
        for label, text in rows.items()
    ]
    return f"<table>{''.join(lines)}</table>"


def with_units(
    names: Sequence[str],
    units: Mapping[str, str] | None,
    known: Collection[str] | None = None,
) -> list[str]:
    """Return names with their units, as in ``"T [K]"``, where ``units`` has one.

    ``known`` are the names that may have units, by default those that are shown.
    """
    given = dict(units or {})
    known = names if known is None else known
    unknown = [str(name) for name in given if name not in known]
    if unknown:
        raise ValueError(
            f"units: expected names among {', '.join(known)}, got {', '.join(unknown)}"
        )
    return [f"{name} [{given[name]}]" if name in given else name for name in names]


def time_axis(label: str, unit: str | None) -> str:
    """Return the label of a time axis, with the unit that the user counts dt in."""
    if unit is None:
        return label
    if not isinstance(unit, str):
        raise TypeError(f"time_unit: expected text such as 'h', got {unit!r}")
    return f"Time [{unit}]"


def own_axes(ax: Axes | None) -> Axes:
    """Return the given axes, or those of a new figure."""
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes

    if ax is None:
        return plt.subplots(figsize=(6.4, 4.0), layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise TypeError(
            f"ax: expected matplotlib Axes or None, got {type(ax).__name__}; "
            "plt.subplots()[1] makes them"
        )
    return ax


def plot_ledger(budget: PrivacyBudget, history: Sequence, ax: Axes | None) -> Axes:
    """Draw what was spent after each charge, below the budget.

    An entry of the history is a note, a count and a guarantee.
    """
    if budget.gdp is None:
        limit, delta = budget.pair
        label = f"spent ε at δ = {delta:g}"
    else:
        limit = budget.gdp
        label = "spent shift y"
    shown = set(np.linspace(1, len(history), _CHARGES_DRAWN).astype(int))
    releases = 0
    total = None
    steps = [(0, 0.0)]
    for number, (_, count, guarantee) in enumerate(history, start=1):
        charged = guarantee.repeated(count)
        total = charged if total is None else total + charged
        releases += count
        if number in shown:
            size = total.epsilon(delta) if budget.gdp is None else total.gdp
            steps.append((releases, size))
    from matplotlib.ticker import MaxNLocator

    ax = own_axes(ax)
    ax.plot(*zip(*steps), marker="o", markersize=4, label="spent")
    ax.axhline(limit, color="black", linestyle="--", linewidth=1, label="budget")
    ax.set(xlabel="Releases", ylabel=label, ylim=(0, 1.1 * limit))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(frameon=False)
    return ax


def plot_design(noise: NDArray, changes: NDArray, ax: Axes | None) -> Axes:
    """Draw the noise (m,) of the published entries beside their largest hidden changes."""
    entries = np.arange(len(noise))
    from matplotlib.ticker import MaxNLocator

    ax = own_axes(ax)
    ax.bar(entries, noise, color="0.75", label="noise, one standard deviation")
    ax.plot(
        entries,
        changes,
        "o",
        color="#D55E00",
        markersize=4,
        label="largest change by a worst hidden move",
    )
    ax.set(xlabel="Published entry", ylabel="Size [unit of the entry]")
    ax.set_ylim(0, 1.3 * max(noise.max(), changes.max()))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(frameon=False)
    return ax
