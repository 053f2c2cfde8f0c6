"""Time of ``import privcontrol`` over ``import control``, and what it leaves unloaded until it is used."""

import json
import subprocess
import sys

import numpy as np
from benchmarks.measure import duration

LATE = ("cvxpy", "networkx", "tqdm", "matplotlib", "pandas")
PROBE = """
import json, sys, time
start = time.process_time()
{first}
middle = time.process_time()
{second}
end = time.process_time()
print(json.dumps([middle - start, end - middle, [name for name in {late} if name in sys.modules]]))
"""


def probe(first, second):
    """Processor seconds of two statements in a fresh interpreter, and which packages they loaded."""
    code = PROBE.format(first=first, second=second, late=LATE)
    return json.loads(
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True
        ).stdout
    )


def test_import(benchmark, table):
    out = table(
        "Import",
        "Processor time in fresh interpreters, medians of seven; the goal is 0.2 s over control. Names are loaded when "
        "they are first used. python-control itself loads matplotlib.",
        *("", "time", "loaded of " + ", ".join(LATE)),
    )
    use_all = "import privcontrol; [getattr(privcontrol, name) for name in privcontrol.__all__]"
    cases = {
        "import control": ("pass", "import control"),
        "import privcontrol.core": ("pass", "import privcontrol.core"),
        "import privcontrol, over control": ("import control", "import privcontrol"),
        "every public name, over control": ("import control", use_all),
    }
    found = {name: [] for name in cases}
    for _ in range(7):
        for name, statements in cases.items():
            found[name].append(probe(*statements))
    for name, runs in found.items():
        out.add(
            name,
            duration(float(np.median([run[1] for run in runs]))),
            ", ".join(runs[0][2]) or "none",
        )
    benchmark.pedantic(probe, args=("pass", "import privcontrol"), rounds=5)
    assert (
        np.median([run[1] for run in found["import privcontrol, over control"]]) < 0.2
    )
    assert not set(LATE) & set(found["import privcontrol.core"][0][2])
    assert set(found["import privcontrol, over control"][0][2]) <= {"matplotlib"}
