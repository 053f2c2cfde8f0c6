"""One page about a private loop, for those who answer for the data.

The page is public. It holds the model, the gains and the guarantee, and no signal of
any run.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from ..core._objects import finished_file, time_axis, with_units
from ..designs._eavesdropper import eavesdropper
from ..noise.parts import Structured, White
from ._loop_data import LoopData
from .checks import RunSignals
from .moments import expected_cost, mean_square_errors
from .signals import over_run

_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:50em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;margin:.5em 0}"
    "td,th{padding:.25em .8em .25em 0;border-bottom:1px solid #ddd;text-align:left;"
    "vertical-align:top}img{max-width:100%}"
)
_HIDDEN = "cannot be estimated"


def write_report(
    loop: LoopData,
    path: str | Path,
    time_unit: str | None,
    units: Mapping[str, str] | None,
) -> Path:
    """Write the page of `PrivateLoop.report` and return its path."""
    noise = loop.private_noise
    plant = loop.side.plant
    known = [*plant.outputs, *plant.states]
    outputs = with_units(plant.outputs, units, known)
    states = with_units(plant.states, units, known)
    levels = [("Output", "Largest standard deviation, in its unit")]
    levels += [(name, f"{std:.4g}") for name, std in zip(outputs, noise.std)]
    clock = time_axis(plant.time_label, time_unit).removeprefix("Time ").strip("[]")
    run = f"<p>The run takes {plant.step * noise.horizon:g} {clock}.</p>"
    sections = {
        "What is guaranteed": loop.guarantee._repr_html_() + run,
        "Noise on what is published": _table(levels),
        "What an eavesdropper can tell": _known_to_others(loop, states),
        "What it costs": _cost(loop),
        "Error of the states": _errors(loop, states, time_unit),
    }
    title = html.escape(f"Privacy of {loop.name}")
    page = (
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>"
        f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>"
    )
    for heading, text in sections.items():
        page += f"<h2>{heading}</h2>{text}"
    written = Path(path)
    with finished_file(written, replace=True) as temporary:
        temporary.write_text(f"{page}</body></html>", encoding="utf-8")
    return written


def _known_to_others(loop: LoopData, states: list[str]) -> str:
    """Errors of the best estimates, or detections where the start is no secret."""
    if not loop.private_noise.total.consists_of(Structured, White):
        rows = [
            ("False alarms, and detections by guessing", "Detections of a hidden move")
        ]
        for alarms in (0.01, 0.05, 0.2):
            detected = loop.guarantee.detection(alarms)
            rows.append((f"{alarms:.0%}", f"{detected:.1%}"))
        return "<p>No test detects more.</p>" + _table(rows)
    table = [("State", "Error at the start", "Error at the end")]
    for name, std in zip(states, eavesdropper(loop).std):
        first, last = (
            f"{size:.4g}" if np.isfinite(size) else _HIDDEN for size in std[[0, -1]]
        )
        table.append((name, first, last))
    explanation = (
        "<p>Standard deviations, in the states' units, of the best linear estimate "
        "from all that is published, by somebody who knows model and gains and nothing "
        "else about the state.</p>"
    )
    return explanation + _table(table)


def _cost(loop: LoopData) -> str:
    """The expected cost by cause, if the loop has weights."""
    if loop.weights.Q is None or loop.weights.R is None:
        return "<p>The loop has no weights Q and R.</p>"
    drawn: RunSignals = {}
    if loop.weights.QN is not None:
        drawn["disturbance"] = "design"
    if loop.weights.RN is not None:
        drawn["measurement_noise"] = "design"
    cost = expected_cost(*over_run(loop, **drawn))
    return _table(
        [
            ("Cause", "Expected cost over the horizon, units of x'Qx + u'Ru"),
            ("Disturbances and measurement noise", f"{cost.disturbance:.4g}"),
            ("Privacy noise", f"{cost.privacy:.4g}"),
            ("Total", f"{cost.total:.4g}"),
        ]
    )


def _errors(loop: LoopData, states: list[str], time_unit: str | None) -> str:
    """A figure of the root mean square error that the privacy noise causes."""
    times = loop.private_noise.timepts
    sizes = np.sqrt(sum(mean_square_errors(*over_run(loop))))
    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    for name, size in zip(states, sizes):
        axes.plot(times, size, label=name)
    axes.set_xlabel(time_axis(loop.side.plant.time_label, time_unit))
    axes.set_ylabel("rms error by privacy noise\n[units of the states]")
    axes.legend(fontsize="small")
    axes.grid(alpha=0.3)
    stored = io.BytesIO()
    figure.savefig(stored, format="png", dpi=120)
    plt.close(figure)
    text = base64.b64encode(stored.getvalue()).decode()
    return f"<img alt='figure' src='data:image/png;base64,{text}'>"


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of texts as a table, the first one as its head."""
    lines = []
    for k, row in enumerate(rows):
        tag = "td" if k else "th"
        cells = [f"<{tag}>{html.escape(text)}</{tag}>" for text in row]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"
