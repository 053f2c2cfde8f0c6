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

from ..core._shown import time_axis, with_units
from ..designs._eavesdropper import eavesdropper
from ..noise.parts import Structured, White
from ._loop_data import LoopData
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
    title = f"Privacy of {loop.name}"
    known = [*loop.side.plant.outputs, *loop.side.plant.states]
    outputs = zip(with_units(loop.side.plant.outputs, units, known), noise.std)
    levels = [(name, f"{std:.4g}") for name, std in outputs]
    states = with_units(loop.side.plant.states, units, known)
    length = loop.side.plant.step * noise.horizon
    clock = time_axis(loop.side.plant.time_label, time_unit).removeprefix("Time ")
    run = f"<p>The run takes {length:g} {clock.strip('[]')}.</p>"
    sections = [
        f"<h1>{html.escape(title)}</h1>",
        "<h2>What is guaranteed</h2>",
        loop.guarantee._repr_html_() + run,
        "<h2>Noise on what is published</h2>",
        _table(("Output", "Largest standard deviation, in its unit"), levels),
        "<h2>What an eavesdropper can tell</h2>",
        _known_to_others(loop, states),
        "<h2>What it costs</h2>",
        _cost(loop),
        "<h2>Error of the states</h2>",
        _errors(loop, states, time_unit),
    ]
    page = (
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>"
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(sections)}</body></html>"
    )
    written = Path(path)
    temporary = written.with_name(f".{written.name}.part")
    temporary.write_text(page, encoding="utf-8")
    temporary.replace(written)
    return written


def _known_to_others(loop: LoopData, states: list[str]) -> str:
    """Errors of the best estimates, or detections where the start is no secret."""
    if not loop.private_noise.total.consists_of(Structured, White):
        return _detections(loop)
    spy = eavesdropper(loop)
    rows = []
    for name, std in zip(states, spy.std):
        sizes = [_HIDDEN, _HIDDEN]
        for k, size in enumerate((std[0], std[-1])):
            if np.isfinite(size):
                sizes[k] = f"{size:.4g}"
        rows.append((name, *sizes))
    explanation = (
        "<p>Standard deviations, in the states' units, of the best linear estimate "
        "from all that is published, by somebody who knows model and gains and nothing "
        "else about the state.</p>"
    )
    head = ("State", "Error at the start", "Error at the end")
    return explanation + _table(head, rows)


def _detections(loop: LoopData) -> str:
    """The power of the best test for a hidden move."""
    rows = []
    for alarms in (0.01, 0.05, 0.2):
        rows.append((f"{alarms:.0%}", f"{loop.guarantee.detection(alarms):.1%}"))
    head = ("False alarms, and detections by guessing", "Detections of a hidden move")
    return "<p>No test detects more.</p>" + _table(head, rows)


def _cost(loop: LoopData) -> str:
    """The expected cost by cause, if the loop has weights."""
    if loop.weights.Q is None or loop.weights.R is None:
        return "<p>The loop has no weights Q and R.</p>"
    drawn = {}
    if loop.weights.QN is not None:
        drawn["disturbance"] = "design"
    if loop.weights.RN is not None:
        drawn["measurement_noise"] = "design"
    cost = expected_cost(*over_run(loop, **drawn))
    rows = [
        ("Disturbances and measurement noise", f"{cost.disturbance:.4g}"),
        ("Privacy noise", f"{cost.privacy:.4g}"),
        ("Total", f"{cost.total:.4g}"),
    ]
    head = ("Cause", "Expected cost over the horizon, units of x'Qx + u'Ru")
    return _table(head, rows)


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


def _table(head: tuple[str, ...], rows: list) -> str:
    """Rows of texts as a table."""
    lines = [_row("th", head)]
    for row in rows:
        lines.append(_row("td", row))
    return f"<table>{''.join(lines)}</table>"


def _row(tag: str, texts: Sequence[str]) -> str:
    cells = [f"<{tag}>{html.escape(text)}</{tag}>" for text in texts]
    return f"<tr>{''.join(cells)}</tr>"
