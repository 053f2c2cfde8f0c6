"""One page about a loop, for those who answer for the data.

It holds the model, the gains and the guarantee, and no signal of any run.
"""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_FLOOR
from importlib import metadata
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from ..designs._eavesdropper import eavesdropper
from ..designs.output_noise import OutputNoise
from ..noise.parts import Structured, White
from ..numerics.labels import time_axis, with_units
from ..numerics.saved import as_path, content_of, finished_file
from ..numerics.thresholds import ROUNDED
from ..privacy.guarantee import shown
from ..privacy.repetition import Change
from .data import LoopData, over_run
from .moments import Expected, InSteadyState, mean_square_errors

_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:50em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;margin:.5em 0}"
    "td,th{padding:.25em .8em .25em 0;border-bottom:1px solid #ddd;text-align:left;"
    "vertical-align:top}img{max-width:100%}"
)
_HIDDEN = "cannot be estimated"
_SIGNED = ("_" * 24,) * 3
_COMPARED = (
    "The cost of privacy is the difference of the totals. A filter for noisier readings "
    "corrects disturbances less; the table counts this part as cost of the disturbances."
)
#: Names of systems that python-control makes up, and of loops around them.
_UNNAMED = re.compile(r"sys\[\d+\](\$\w+)*")
_CHEAPER = (
    "The loop without privacy costs more here, so its gains are not those of least cost in "
    "this table (those of private_lqg also weigh the state after the last sample, unless "
    "terminal=0). The difference of the totals is then no cost of privacy."
)
_UNSTABLE = "The loop is not stable, and has no steady state."


def write_report(
    loop: LoopData,
    path: str | Path,
    time_unit: str | None,
    units: Mapping[str, str] | None,
    date: str,
) -> Path:
    """Write the page of `PrivateLoop.report` and return its path."""
    noise = loop.private_noise
    plant = loop.side.plant
    known = [*plant.outputs, *plant.states]
    outputs = with_units(plant.outputs, units, known)
    states = with_units(plant.states, units, known)
    levels = [("Output", "Largest standard deviation, in its unit")]
    levels += [
        (name, f"{std:.4g}") for name, std in zip(outputs, noise.std, strict=True)
    ]
    clock = time_axis(plant.time_label, time_unit).removeprefix("Time ").strip("[]")
    run = f"<p>{noise.horizon.pace(plant.step, clock)}</p>"
    sections = {
        "What this is about": _identity(noise, date),
        "What is guaranteed": noise.guarantee._repr_html_() + run,
        "Noise on the published signals": _table(levels),
        "What an eavesdropper learns": _known_to_others(loop, states),
        "What it costs": _cost(loop),
        "Error of the states": _errors(loop, states, time_unit),
        "Who answers for it": _table([("Name", "Date", "Signature"), _SIGNED]),
    }
    name = "a loop" if _UNNAMED.fullmatch(loop.name) else loop.name
    title = html.escape(f"Privacy of {name}")
    page = (
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>"
        f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>"
    )
    for heading, text in sections.items():
        page += f"<h2>{heading}</h2>{text}"
    written = as_path(path)
    with finished_file(written, replace=True) as temporary:
        temporary.write_text(f"{page}</body></html>", encoding="utf-8")
    return written


def _installed_version() -> str:
    """Return the version of this library, as the environment knows it."""
    try:
        return metadata.version("privcontrol")
    except metadata.PackageNotFoundError:
        return "of a clone that is not installed"


def _identity(noise: OutputNoise, date: str) -> str:
    """Identity of this report: date, version, design file and events."""
    changes = [noise.guarantee.scope.change]
    if changes == [None] and noise.request is not None:
        changes = [secret.change for secret in noise.request.adjacency.parts]
    events = dict.fromkeys(map(_changes, changes))
    rows = [
        ("Report", ""),
        ("Date", date),
        ("Made with", f"privcontrol {_installed_version()}"),
        ("Digest of the noise's design file (SHA-256)", content_of(noise)["digest"]),
        ("Changes that are hidden", ", or ".join(events)),
        ("Releases that are counted", str(noise.guarantee.releases)),
    ]
    return _table(rows)


def _changes(change: Change | None) -> str:
    """Return how many changes of a signal are hidden, None where a state is."""
    if change is None:
        return "one secret start"
    words = f"{change.events} in one run"
    if change.separation:
        words += f", starts at least {change.separation} samples apart"
    return words


def _known_to_others(loop: LoopData, states: list[str]) -> str:
    """Errors of the best estimates, or detections where the start is no secret."""
    starts = loop.private_noise.process.total.consists_of(Structured, White)
    if loop.never_ends or not starts:
        rows = [
            ("False alarms, and detections by guessing", "Detections of a hidden move")
        ]
        for alarms in (0.01, 0.05, 0.2):
            detected = shown(100 * loop.private_noise.guarantee.detection(alarms))
            rows.append((f"{100 * alarms:g} %", f"{detected} %"))
        return "<p>No test detects a larger share.</p>" + _table(rows)
    table = [("State", "Error at the start", "Error at the end")]
    for name, std in zip(states, eavesdropper(loop).std, strict=True):
        first, last = (
            shown(size, ROUND_FLOOR) if np.isfinite(size) else _HIDDEN
            for size in std[[0, -1]]
        )
        table.append((name, first, last))
    explanation = (
        "<p>Standard deviations, in the states' units, of the best linear estimate "
        "that somebody makes from all published data, who knows model and gains and "
        "nothing else about the state.</p>"
    )
    return explanation + _table(table)


def _cost(loop: LoopData) -> str:
    """The expected cost by cause, if the loop has weights."""
    if loop.weights.Q is None or loop.weights.R is None:
        return "<p>The loop has no weights Q and R.</p>"
    expected = Expected.of(loop, None if loop.design is None else loop.design.P0)
    if not expected.is_known(loop):
        return f"<p>{_UNSTABLE}</p>"
    cost = expected.cost(loop)
    rows = [("Cause", f"Expected cost {loop.horizon.costs}, units of x'Qx + u'Ru")]
    if cost.regulation:
        rows.append(("Start of the run", f"{cost.regulation:.4g}"))
    rows += [
        ("Disturbances and measurement noise", f"{cost.disturbance:.4g}"),
        ("Privacy noise", f"{cost.privacy:.4g}"),
        ("Total", f"{cost.total:.4g}"),
    ]
    public = loop.with_noise(None)
    if not expected.is_known(public):
        return _table(rows)
    total = expected.cost(public).total
    rows.append(("Total without privacy", f"{total:.4g}"))
    explained = _COMPARED if cost.total >= total * (1 - ROUNDED) else _CHEAPER
    return _table(rows) + f"<p>{explained}</p>"


def _errors(loop: LoopData, states: list[str], time_unit: str | None) -> str:
    """A figure of the root mean square error that the privacy noise causes.

    Without a horizon it is a table of the errors in steady state, next to those by
    disturbances and measurement noise.
    """
    expected = Expected.of(loop)
    if not expected.is_known(loop):
        return f"<p>{_UNSTABLE}</p>"
    if isinstance(expected, InSteadyState):
        quiet, noisy = np.sqrt(expected.errors(loop))
        table = [("State", "rms error by disturbances", "rms error by privacy noise")]
        table += [
            (name, f"{one:.4g}", f"{other:.4g}")
            for name, (one,), (other,) in zip(states, quiet, noisy, strict=True)
        ]
        return _table(table)
    times = loop.private_noise.timepts
    _, squares = mean_square_errors(*over_run(loop))
    sizes = np.sqrt(squares)
    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    for name, size in zip(states, sizes, strict=True):
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
