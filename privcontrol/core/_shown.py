"""How results look: tables in notebooks, labels with units, and the axes of figures."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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


def own_axes(ax: object) -> Axes:
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
