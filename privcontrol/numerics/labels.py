"""Units, axes and tables that users see."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping, Sequence


def html_table(rows: Mapping[str, str]) -> str:
    """Return labels and texts as a table of HTML."""
    left = "style='text-align: left'"
    lines = ""
    for label, text in rows.items():
        lines += f"<tr><th {left}>{html.escape(label)}</th>"
        lines += f"<td {left}>{html.escape(text)}</td></tr>"
    return f"<table>{lines}</table>"


def with_units(
    names: Sequence[str],
    units: Mapping[str, str] | None,
    known: Collection[str] | None = None,
) -> list[str]:
    """Return names with their units, as in ``"T [K]"``, where ``units`` has one.

    ``known`` are the names that may have units, by default those that are shown.
    """
    if not isinstance(units, Mapping | None):
        raise TypeError(
            "units: expected a mapping such as {'y': 'K'}, got "
            f"{type(units).__name__}"
        )
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
        raise TypeError(
            f"time_unit: expected text such as 'h', got {type(unit).__name__}"
        )
    return f"Time [{unit}]"
