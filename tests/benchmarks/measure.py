"""What benchmarks measure with: functions that take turns, and tables of what came out."""

import importlib
import textwrap
import time
from pathlib import Path

import numpy as np


def peak_gigabytes():
    """Peak memory of this process; ``getrusage`` would count what its parent held when it was started."""
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM"))
    return int(peak.split()[1]) * 1024 / 1e9


class Table:
    """A titled table; `add` appends a row of texts and numbers, which may be None where there is nothing to say."""

    def __init__(self, title, note, columns):
        self.title, self.note, self.columns, self.rows = title, note, columns, []

    def add(self, *row):
        self.rows.append([_text(entry) for entry in row])

    def markdown(self):
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        return "\n".join(
            [
                f"## {self.title}\n",
                *(f"| {' | '.join(line)} |" for line in lines),
                "",
                textwrap.fill(self.note, 88, break_on_hyphens=False),
                "",
            ]
        )


def _text(entry):
    if entry is None:
        return ""
    return (
        entry
        if isinstance(entry, str)
        else f"{entry:,}"
        if isinstance(entry, int)
        else f"{entry:.3g}"
    )


def duration(seconds):
    """Seconds as a short text with its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


class Turns:
    """Medians of wall and processor seconds per call, and the last value, of functions that take turns."""

    def __init__(self, functions, rounds=5, least=0.02):
        repeats, times, self.values = {}, {name: [] for name in functions}, {}
        for name, function in functions.items():
            function()  # warms up
            start = time.perf_counter()
            self.values[name] = function()
            repeats[name] = max(1, int(least / (time.perf_counter() - start)))
        for _ in range(rounds):
            for name, function in functions.items():
                wall, processor = time.perf_counter(), time.process_time()
                for _ in range(repeats[name]):
                    self.values[name] = function()
                spent = time.perf_counter() - wall, time.process_time() - processor
                times[name].append(np.array(spent) / repeats[name])
        medians = {name: np.median(spent, axis=0) for name, spent in times.items()}
        self.wall = {name: float(pair[0]) for name, pair in medians.items()}
        self.processor = {name: float(pair[1]) for name, pair in medians.items()}

    def ratio(self, name, base):
        """How many times the processor time of `base` the function `name` takes."""
        return self.processor[name] / self.processor[base]


def peer(name):
    """A module, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
