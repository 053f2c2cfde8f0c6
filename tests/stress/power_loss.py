"""Replay power losses: what a disk may hold of a gateway and its ledger, at every instant.

    python tests/stress/power_loss.py                  # every prefix, 2,000 subsets
    python tests/stress/power_loss.py --states 100     # so many states, at random

A run of a gateway with a ledger is recorded by `recorded.c`, call by call: two sessions
with a clean end, and one that is cut off. Calls that a synchronisation covers are on the
disk. Of later ones a power loss leaves any subset, and of a write any number of sectors.
In each such state the gateway must go on: behind all that was published, with the same
noise, charged once. Only before the first sample may its files be missing.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from gateway_cases import noise

import privcontrol as pc

SOURCE = Path(__file__).with_name("recorded.c")
LARGE = pc.PrivacyBudget(epsilon=50.0, delta=1e-2)
KINDS = ("structured", "driven", "endless floored")
SECTOR = 512


# -- the run that is recorded ----------------------------------------------------------


def session(folder, kind):
    """Publish in three sessions, and note each sample when `publish` has returned."""
    ledger = pc.PrivacyLedger(LARGE, folder / "ledger")
    path = folder / "gateway"
    notes = os.open(folder / "notes", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    options = {"floating": True, "block": 2}
    gateway = pc.Gateway(noise(kind), path=path, ledger=ledger, **options)
    for calls in (3, 4, 3):
        for _ in range(calls):
            gateway.publish(0.0)
            os.write(notes, f"{json.dumps(noted(gateway))}\n".encode())
        if gateway.next_index < 10:
            gateway.close()
            gateway = pc.Gateway.resume(path, ledger=ledger)


def noted(gateway):
    """The last sample's index, and the bits of what it was made of."""
    t = gateway.next_index - 1
    exact = gateway._exact
    numbers = [*range(exact.once), *exact.numbers(t, t + 1)]
    bits = {}
    for number in numbers:
        entry = exact.entries.get(number)
        if entry is not None:
            bits[number] = f"{entry.value:0{entry.count}b}"
    return {"index": t, "bits": bits}


@dataclass(frozen=True)
class Call:
    """One call of the recorded process: a file as what it is named then."""

    kind: str
    path: str
    other: str
    offset: int
    data: bytes


def recorded(kind):
    """Return the calls of a run of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        library = folder / "recorded.so"
        build = ["cc", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"]
        subprocess.run(build, check=True)
        (folder / "run").mkdir()
        environment = os.environ | {
            "LD_PRELOAD": str(library),
            "RECORDED": str(folder / "run"),
            "RECORD": str(folder / "log"),
        }
        code = "import sys; from power_loss import *; session(Path(sys.argv[1]), sys.argv[2])"
        subprocess.run(
            [sys.executable, "-c", code, folder / "run", kind],
            env=environment,
            cwd=SOURCE.parent,
            check=True,
        )
        return parsed((folder / "log").read_bytes(), str(folder / "run"))


def parsed(log, folder):
    calls = []
    while log:
        head, _, log = log.partition(b"\n")
        kind, path, other, offset, length = head.decode().rsplit(" ", 4)
        data, log = log[: int(length)], log[int(length) :]
        names = [name.removeprefix(folder).strip("/") for name in (path, other)]
        calls.append(Call(kind, *names, int(offset), data))
    return calls


# -- what a disk holds -----------------------------------------------------------------


@dataclass
class File:
    """What is on the disk for sure, and the calls that may be as well."""

    kept: bytes = b""
    pending: list = field(default_factory=list)


@dataclass
class Disk:
    """Files, the names that they have for sure, and the changes that may be kept."""

    names: dict = field(default_factory=dict)
    pending: list = field(default_factory=list)
    now: dict = field(default_factory=dict)  # names as the process sees them

    def apply(self, call):
        if call.kind == "create":
            self._rename([(call.path, File())])
        elif call.kind == "unlink":
            self._rename([(call.path, None)])
        elif call.kind == "link":
            self._rename([(call.other, self.now[call.path])])
        elif call.kind == "rename":
            self._rename([(call.other, self.now[call.path]), (call.path, None)])
        elif call.kind in ("write", "truncate"):
            self.now[call.path].pending.append(call)
        elif call.kind == "sync" and call.path == "":
            for change in self.pending:
                renamed(self.names, change)
            self.pending = []
        elif call.kind == "sync":
            file = self.now[call.path]
            for change in file.pending:
                file.kept = changed(file.kept, change)
            file.pending = []
        else:
            raise ValueError(f"call: expected one that is known, got {call.kind}")

    def _rename(self, change):
        self.pending.append(change)
        renamed(self.now, change)

    def lost(self, keeps):
        """Return file and content by name after a power loss.

        ``keeps`` says what it left. Two names may be of one file.
        """
        names = dict(self.names)
        for change in self.pending:
            if keeps():
                renamed(names, change)
        left = {}
        for file in {id(file): file for file in names.values()}.values():
            content = file.kept
            for change in file.pending:
                content = changed(content, change, keeps)
            left[id(file)] = content
        return {name: (id(file), left[id(file)]) for name, file in names.items()}


def renamed(names, change):
    for name, file in change:
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file


def changed(content, call, keeps=lambda: True):
    """Return a file after a write, each sector of which is kept or not."""
    if call.kind == "truncate":
        if not keeps():
            return content
        return content[: call.offset].ljust(call.offset, b"\0")
    for start in range(0, len(call.data), SECTOR):
        if not keeps():
            continue
        sector = call.data[start : start + SECTOR]
        place = call.offset + start
        content = content.ljust(place, b"\0")
        content = content[:place] + sector + content[place + len(sector) :]
    return content


# -- every state -----------------------------------------------------------------------


def check(contents, notes, folder):
    """Go on in a state of the disk, after these samples were published."""
    placed = {}
    for name, (file, content) in contents.items():
        if file in placed:
            os.link(placed[file], folder / name)
        elif name in ("ledger", "gateway") or name.endswith(("-journal", ".part")):
            (folder / name).write_bytes(content)
            placed[file] = folder / name
    try:
        ledger = pc.PrivacyLedger.open(folder / "ledger")
        gateway = pc.Gateway.resume(folder / "gateway", ledger=ledger)
    except FileNotFoundError:
        assert not notes, "a file is gone"
        return
    with gateway:
        last = max((note["index"] for note in notes), default=-1)
        assert gateway.next_index > last, "a sample would be published twice"
        for note in notes:
            for number, bits in note["bits"].items():
                entry = gateway._exact.entries.get(int(number))
                if entry is not None:
                    kept = f"{entry.value:0{entry.count}b}"
                    assert bits.startswith(kept) or kept.startswith(bits), (
                        "another draw of an entry"
                    )
        assert len(ledger.history) == 1 or not notes, "not charged"
        gateway.publish(0.0)
    assert len(ledger.history) == 1, "charged twice"
    with pc.Gateway.resume(folder / "gateway", ledger=ledger) as gateway:
        gateway.publish(0.0)


def run(states=None, subsets=2000, seed=0, report=print, kinds=KINDS):
    """Return how many states were checked.

    Every prefix with all of its calls, and with those alone that are on the disk for
    sure, then subsets at random instants. With ``states`` so many of each at random.
    """
    rng = random.Random(seed)
    total = 0
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    for kind in kinds:
        began = time.perf_counter()
        calls = recorded(kind)
        places = range(len(calls) + 1)
        plans = [(place, how) for place in places for how in ("all", "sure")]
        count = subsets // len(kinds)
        if states is not None:
            plans = rng.sample(plans, states // 2 // len(kinds))
            count = states // len(kinds) - len(plans)
        plans += [(rng.choice(places), "any") for _ in range(count)]
        plans.sort(key=lambda plan: plan[0])
        disk = Disk()
        notes = []
        done = 0
        for place, how in plans:
            for call in calls[done:place]:
                if call.path == "notes" and call.kind == "write":
                    notes.append(json.loads(call.data))
                disk.apply(call)
            done = place
            share = {"all": 1.0, "sure": 0.0}.get(how, rng.random())
            contents = disk.lost(lambda share=share: rng.random() < share)
            with tempfile.TemporaryDirectory(dir=fast) as folder:
                try:
                    check(contents, notes, Path(folder))
                except BaseException:
                    print(f"{kind}: {how} of the first {place} calls, seed {seed}")
                    raise
        total += len(plans)
        report(
            f"{kind}: {len(calls)} calls, {len(plans)} states of the disk, "
            f"{time.perf_counter() - began:.0f} s: all go on"
        )
    return total


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--states", type=int)
    parser.add_argument("--subsets", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    given = parser.parse_args()
    print(run(given.states, given.subsets, given.seed), "states")
