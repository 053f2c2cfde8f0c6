"""A gateway and a copy of its file, in every order of their steps, killed after each.

Steps are looks at the ledger, and writes of a file or of the ledger. The stores are in
memory; tests/stress has real files and real kills. Two orders that differ in steps which
do not see each other are one.
"""

import copy
import queue
import random
import shutil
import sqlite3
import threading
from contextlib import suppress

import pytest
from gateway_cases import noise

import privcontrol as pc
from privcontrol.deploy import gateway as maker, publisher as module
from privcontrol.deploy.worker import Task
from privcontrol.noise.exact import ExactNoise
from privcontrol.privacy import release
from privcontrol.privacy.store import MemoryStore, Snapshot

LARGE = pc.PrivacyBudget(epsilon=50.0, delta=1e-2)
HORIZON = 12
PATIENCE = 60.0

here = threading.local()


class Killed(BaseException):
    """The process ended here."""


class Process(threading.Thread):
    """Run a program from one step to the next, and end it at any of them."""

    def __init__(self, program):
        super().__init__(daemon=True)
        self.program = program
        self.asked = queue.SimpleQueue()
        self.told = queue.SimpleQueue()
        self.is_dead = False
        self.error = None
        self.start()
        self.following = self.told.get(timeout=PATIENCE)

    def run(self):
        here.process = self
        try:
            self.program()
        except (Killed, pc.PrivacyError):
            pass
        except BaseException as error:
            self.error = error
        self.told.put(None)

    def pause(self, following):
        if not self.is_dead:
            self.told.put(following)
            self.is_dead = not self.asked.get(timeout=PATIENCE)
        if self.is_dead:
            raise Killed

    def go(self, is_dead=False):
        self.asked.put(not is_dead)
        self.following = self.told.get(timeout=PATIENCE)


def pause(store, kind):
    process = getattr(here, "process", None)
    if process is not None:
        process.pause((store, kind))


class OneThread:
    """Do what a gateway's thread does when it is waited for, so steps have one order."""

    def ask(self, task):
        pass

    def finish(self, task):
        task.run()

    def do(self, work, *arguments):
        task = Task(work, *arguments)
        task.run()
        return task.result()


class Published:
    """All samples of a gateway, and what was drawn for them."""

    def __init__(self):
        self.indices = []
        self.drawn = {}

    def publish(self, gateway):
        """Publish a sample, and check that it is a new one of the same noise."""
        gateway.publish(0.0)
        t = gateway.next_index - 1
        assert t not in self.indices, "a sample was published twice"
        self.indices.append(t)
        exact = gateway._exact
        first = 0 if exact.has_memory else t
        for number in [*range(exact.once), *exact.numbers(first, t + 1)]:
            self.check_draw(number, exact.entries[number])

    def check_draw(self, number, entry):
        """Check that it is the one draw of an entry, of which more bits may be known."""
        value, count = self.drawn.setdefault(number, (entry.value, entry.count))
        common = min(count, entry.count)
        assert value >> (count - common) == entry.value >> (entry.count - common), (
            "a second draw of an entry"
        )
        if entry.count > count:
            self.drawn[number] = entry.value, entry.count


class World:
    """A ledger, a gateway's file, a copy of it, and all that was published."""

    def __init__(self, gateway, ledger, folder, monkeypatch, count):
        self.ledger = ledger
        self.folder = folder
        self.files = {"own": gateway._store}
        for place in (maker, module):
            monkeypatch.setattr(place, "FileStore", self.opened)
        self.published = Published()
        self.processes = (
            Process(lambda: self.publish("own", count)),
            Process(lambda: self.copied() or self.publish("copy", count)),
        )

    def opened(self, path, kind):
        """Open a file as another process does."""
        store = copy.copy(self.files[path.name])
        store._verified = Snapshot()
        store.path = path
        return store

    def copied(self):
        pause("own", "read")
        own = self.files["own"]
        store = copy.copy(own)
        store._connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )
        own._connection.backup(store._connection)
        self.files["copy"] = store

    def publish(self, name, count):
        """Go on with a file."""
        path = self.folder / name
        path.touch()
        gateway = pc.Gateway.resume(path, ledger=self.ledger)
        for _ in range(min(count, gateway.remaining)):
            self.published.publish(gateway)


def commute(first, second):
    """Whether two steps may change places: they see two files, or only look."""
    return first[0] != second[0] or first[1] == second[1] == "read"


def redundant(done, who, following):
    """Whether a step that now comes could have come before the last one of the other."""
    return bool(done) and who < done[-1][0] and commute(done[-1][1], following)


def schedules(begin, check, most):
    """Run every order of steps of two processes, and every beginning of it.

    Where they are more than ``most``, so many of them at random.
    """
    rng = random.Random(0)
    waiting = [()]
    count = 0
    while waiting and count < most:
        schedule = waiting.pop(rng.randrange(len(waiting)))
        count += 1
        for order in (("own", "copy"), ("copy", "own")):
            world = begin()
            done = []
            for who in schedule:
                done.append((who, world.processes[who].following))
                world.processes[who].go()
            following = [process.following for process in world.processes]
            for process in world.processes:
                if process.following:
                    process.go(is_dead=True)
                assert process.error is None
            check(world, order)
        for who, step in enumerate(following):
            if step and not redundant(done, who, step):
                waiting.append((*schedule, who))
    return count


def in_one_thread(monkeypatch):
    monkeypatch.setattr(module, "Worker", OneThread)
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)


def bit_by_bit(monkeypatch):
    """Let many samples ask for more bits of their entries."""
    monkeypatch.setattr(release, "FIRST_BITS", 56)
    monkeypatch.setattr(release.StandardEntry.refine, "__defaults__", (1,))


def hooked(monkeypatch, method, kind):
    """Make calls of a store steps, where another process may see them."""
    call = getattr(MemoryStore, method)

    def paused(store, *arguments, **options):
        place = getattr(store, "path", None)
        name = place.name if place else "ledger"
        if (name, kind) not in (("own", "read"), ("copy", "read")):
            pause(name, kind)
        return call(store, *arguments, **options)

    monkeypatch.setattr(MemoryStore, method, paused)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, block, is_fresh, orders",
    [
        ("driven", 1, False, 110),
        ("structured", 1, False, 110),
        ("driven", 1, True, 60),
        ("structured", 1, True, 60),
        ("driven", 2, False, 60),
    ],
)
def test_of_a_file_and_its_copy_one_goes_on_whenever_they_are_killed(
    kind, block, is_fresh, orders, tmp_path, monkeypatch
):
    """All 110 orders after a first sample, 60 of 1825 before it, and 60 of larger blocks.

    No sample is published twice, of no entry there are two draws, and the ledger is
    charged once. Of file and copy one can be resumed, whatever happened. In larger blocks
    entries are drawn bit by bit, so what is in memory draws more of them later.
    """
    design = noise(kind, horizon=HORIZON)
    in_one_thread(monkeypatch)
    if block > 1:
        bit_by_bit(monkeypatch)
    for method, kind_of_step in (("snapshot", "read"), ("append", "write")):
        hooked(monkeypatch, method, kind_of_step)

    def begin():
        ledger = pc.PrivacyLedger(LARGE)
        gateway = pc.Gateway(design, ledger=ledger, floating=True, block=block)
        if not is_fresh:
            gateway.publish(0.0)
        return World(gateway, ledger, tmp_path, monkeypatch, 2 * block - 1)

    def check(world, order):
        resumed = 0
        for name in 2 * order:
            if name in world.files:
                with suppress(pc.PrivacyError):
                    world.publish(name, block)
                    resumed += 1
        assert resumed
        assert len(world.ledger.history) == 1

    assert schedules(begin, check, orders) == orders


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["driven", "correlated and floored", "endless"])
@pytest.mark.parametrize("is_done", [False, True])
def test_errors_at_every_step_lose_samples_and_no_more(kind, is_done, monkeypatch):
    """The process goes on, after an error of the disk before a step or behind it.

    The file then holds what was drawn for the samples, as many bits as were used.
    """
    design = noise(kind, horizon=6)
    in_one_thread(monkeypatch)
    bit_by_bit(monkeypatch)
    steps = 0
    fails_at = 0

    def failing(method):
        call = getattr(MemoryStore, method)

        def counted(store, *arguments, **options):
            nonlocal steps
            steps += 1
            result = None
            if is_done or steps != fails_at:
                result = call(store, *arguments, **options)
            if steps == fails_at:
                raise OSError("the disk is full")
            return result

        monkeypatch.setattr(MemoryStore, method, counted)

    failing("snapshot")
    failing("append")
    while steps >= fails_at:
        ledger = pc.PrivacyLedger(LARGE)
        gateway = pc.Gateway(design, ledger=ledger, floating=True, block=2)
        published = Published()
        steps = 0
        fails_at += 1
        for _ in range(6):
            if gateway.next_index < 6:
                with suppress(OSError, pc.PrivacyError):
                    published.publish(gateway)
        assert len(ledger.history) == 1
        assert is_done or len(published.indices) > 2
        kept = ExactNoise(design)
        draws = gateway._store.entries()[1:]
        once = {"first": 0, "bits": gateway._state["once"] or []}
        for draw in [once, *draws]:
            for number, bits in enumerate(draw["bits"], draw["first"]):
                value, count = bits.split("/")
                kept.restore(number, int(value, 16), int(count))
        for number, (value, count) in published.drawn.items():
            entry = kept.entries.get(number)
            if entry is not None:  # white noise and states are not kept
                shared = min(count, entry.count)
                kept_bits = entry.value >> (entry.count - shared)
                assert kept_bits == value >> (count - shared)
    assert fails_at > 15


def test_a_file_and_its_ledger_that_were_copied_together_need_an_index_from_elsewhere(
    tmp_path,
):
    """Nothing in the copied folder tells it from the newest one."""
    folder, backup = tmp_path / "newest", tmp_path / "backup"
    folder.mkdir()
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    ledger = pc.PrivacyLedger(budget, path=folder / "ledger")
    pc.Gateway(
        noise("structured"), path=folder / "state", ledger=ledger, grid=1e-3
    ).close()
    shutil.copytree(folder, backup)
    with pc.Gateway.resume(folder / "state", ledger=ledger) as gateway:
        gateway.publish(0.0)
        known = gateway.next_index
    older = pc.PrivacyLedger.open(backup / "ledger")
    with pytest.raises(pc.PrivacyError, match="another copy of it went on"):
        pc.Gateway.resume(backup / "state", ledger=older, known=known)
    with pytest.raises(pc.PrivacyError, match="another copy of it went on"):
        pc.Gateway.resume(backup / "state", ledger=ledger)
    pc.Gateway.resume(backup / "state", ledger=older).close()


def test_a_head_from_elsewhere_refuses_a_file_and_ledger_copied_before_more_samples(
    tmp_path,
):
    """No charge lies between the copies and the newest files, only samples do."""
    names = [tmp_path / "gateway", tmp_path / "ledger"]
    path, place = names
    ledger = pc.PrivacyLedger(LARGE, place)
    design = noise("independent")
    with pc.Gateway(design, path=path, ledger=ledger, grid=1e-3, block=2) as gateway:
        gateway.publish(0.0)
    early = ledger.head
    copies = [shutil.copy(name, f"{name} copy") for name in names]
    with pc.Gateway.resume(path, ledger=ledger) as gateway:
        gateway.publish(0.0)
    late = ledger.head
    assert late != early
    assert pc.PrivacyLedger.open(place, known=early).head == late
    assert pc.PrivacyLedger.open(place, known=late.rpartition(":")[0]).head == late
    for name, copied in zip(names, copies, strict=True):
        shutil.copy(copied, name)
    with pytest.raises(ValueError, match="older copy"):
        pc.PrivacyLedger.open(place, known=late)
    assert pc.PrivacyLedger.open(place, known=early).head == early
