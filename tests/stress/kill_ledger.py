"""Kill processes that charge one ledger, and check that nothing acknowledged is lost and the budget holds.

    python tests/stress/kill_ledger.py --kills 500

It prints its findings as JSON, and fails if one of them is wrong.
"""

import argparse
import json
import os
import random
import select
import signal
import sys
import tempfile
import time
from pathlib import Path

import privcontrol.core as core
from privcontrol.core import BudgetExceededError, PrivacyBudget, PrivacyLedger

BUDGET = PrivacyBudget(epsilon=1.0, delta=1e-2)
ADJACENCY = core.DirectionAdjacency([[1.0]])


def release(charges):
    """One of that many Gaussian releases which fill the budget."""
    query = core.LinearQuery([[1.0]])
    design = core.design_gaussian(query, ADJACENCY, BUDGET, releases=charges)
    return design.guarantee


def spender(path, one, pipe, name):
    """Charge forever; acknowledge each charge only after `charge` has returned."""
    ledger, number = PrivacyLedger(BUDGET, path), 0
    while True:
        try:
            ledger.charge(one, note=f"{name}.{number}")
            os.write(pipe, f"{name}.{number}\n".encode())
            number += 1
        except BudgetExceededError:
            os.write(pipe, b"full\n")
            time.sleep(0.02)


def storm(path, processes, kills, charges):
    """Notes acknowledged by processes of which random ones are killed, until the budget is full and all kills done.

    Also how many processes were started, and how many were killed before the first of them saw a full budget.
    """
    rng = random.Random(0)
    one = release(charges)
    alive, started, early, said, full = [], 0, 0, b"", False
    read, write = os.pipe()
    while kills or not full:
        while len(alive) < processes:
            child = os.fork()
            if child == 0:
                spender(path, one, write, started)
            alive.append(child)
            started += 1
        if select.select([read], [], [], rng.uniform(0, 0.05))[0]:
            said += os.read(read, 1 << 16)
        if kills and rng.random() < 0.5:
            victim = alive.pop(rng.randrange(len(alive)))
            os.kill(victim, signal.SIGKILL)
            os.waitpid(victim, 0)
            kills -= 1
            early += b"full" not in said
        full = said[-500:].count(b"full\n") >= processes
    for child in alive:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    os.close(write)
    while more := os.read(read, 1 << 16):
        said += more
    notes = [note for note in said.decode().split() if note != "full"]
    return notes, started, early


def findings(path, processes, kills, charges):
    """What the storm left behind, for the test and for the eye."""
    began = time.perf_counter()
    acknowledged, started, early = storm(path, processes, kills, charges)
    seconds = time.perf_counter() - began
    ledger = PrivacyLedger.open(path)
    recorded = [note for note, _, _ in ledger.history]
    return {
        "kills": kills,
        "kills while charges were going on": early,
        "processes": started,
        "acknowledged": len(acknowledged),
        "recorded": len(recorded),
        "acknowledged but lost": len(set(acknowledged) - set(recorded)),
        "recorded twice": len(recorded) - len(set(recorded)),
        "releases counted": ledger.spent.releases,
        "gdp": ledger.spent.gdp,
        "within the budget": ledger.spent.satisfies(BUDGET),
        "another fits": ledger.can_charge(release(charges)),
        "seconds": round(seconds, 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", type=Path)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--charges", type=int, default=2000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = given.path or Path(folder) / "ledger.sqlite"
        found = findings(path, given.processes, given.kills, given.charges)
    print(json.dumps(found, indent=1))
    right = found["acknowledged but lost"] == found["recorded twice"] == 0
    right &= found["releases counted"] == found["recorded"] == given.charges
    sys.exit(0 if right and found["within the budget"] else 1)


if __name__ == "__main__":
    main()
