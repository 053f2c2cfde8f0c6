"""Benchmarks against named peers, each a table of times, ratios and accuracy from one run.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m pytest tests/benchmarks/bench_*.py -m peers --tables docs/benchmarks.md

writes the tables with peers; without ``-m peers`` all of them, and without ``--tables``
they are only printed. Functions that are compared take turns, at least five each, so
all see the same machine; wall and processor times are medians, ratios are those of the
processor times.
"""

import os
import platform
import re
import sys
import textwrap
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from benchmarks.measure import Table, Turns

#: Around the command and the machine on the page.
START = "<!-- What follows is written by the command below. -->\n"
END = "<!-- Until here. -->\n"
COMMAND = (__doc__ or "").splitlines()[2].strip()
PACKAGES = (
    "privcontrol",
    "numpy",
    "scipy",
    "control",
    "python-flint",
    "cvxpy",
    "clarabel",
    "networkx",
)
PEERS = ("dp-accounting", "opendp", "autodp", "jax-privacy")
_TABLES = pytest.StashKey()


@pytest.fixture
def turns(benchmark):
    """`Turns` whose first function is ours: pytest-benchmark times it too, and keeps the ratios with its record."""

    def run(functions, **options):
        result = Turns(functions, **options)
        ours = next(iter(functions))
        benchmark.extra_info.update(
            {f"{name} / {ours}": result.ratio(name, ours) for name in functions}
        )
        benchmark.pedantic(functions[ours], rounds=5)
        return result

    return run


@pytest.fixture
def table(request):
    """Makes a table that the run prints in the end."""

    def make(title, note, *columns):
        made = Table(title, note, columns)
        request.config.stash.setdefault(_TABLES, []).append(made)
        return made

    return make


def pytest_addoption(parser):
    parser.addoption(
        "--tables",
        metavar="PAGE",
        help="page whose tables of these titles are replaced",
    )


def pytest_terminal_summary(terminalreporter, config):
    tables = config.stash.get(_TABLES, [])
    if not tables:
        return
    machine = _machine()
    text = "\n".join([machine, *(table.markdown() for table in tables)])
    terminalreporter.write_line("\n" + text)
    if page := config.getoption("--tables", default=None):
        path = Path(page)
        before, rest = path.read_text().split(START)
        page = before + START + f"\n{machine}\n" + END + rest.split(END)[1]
        for table in tables:
            page = replaced(page, table)
        path.write_text(page)


def replaced(page, table):
    """The page with this table where one of its title was, or at the end."""
    old = re.search(
        rf"^(##+) {re.escape(table.title)}\n.*?(?=^##|\Z)", page, re.M | re.S
    )
    new = table.markdown()
    if old is None:
        return f"{page}\n{new}"
    parts = (
        page[: old.start()],
        old[1],
        new.removeprefix("##"),
        "\n",
        page[old.end() :],
    )
    return "".join(parts).rstrip("\n") + "\n"


def _machine():
    """Command, processor and versions."""
    found = []
    for package in PACKAGES + PEERS:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} not installed")
    name = next(
        (
            line.split(":")[1].strip()
            for line in _cpuinfo()
            if line.startswith("model name")
        ),
        "unknown",
    )
    threads = os.environ.get("OMP_NUM_THREADS", "not set")
    machine = (
        f"Taken on {date.today()}: {platform.system()} on {name}, {os.cpu_count()} cores, OMP_NUM_THREADS "
        f"{threads}; Python {sys.version.split()[0]}, {', '.join(found)}."
    )
    return f"    {COMMAND}\n\n{textwrap.fill(machine, 88, break_on_hyphens=False)}\n"


def _cpuinfo():
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []
