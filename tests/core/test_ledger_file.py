"""The file of a ledger: what is emptied, truncated, altered or put back is refused, and what fails records nothing."""

import json
import os
import pickle
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from privcontrol.core import (
    DirectionAdjacency,
    GaussianNoise,
    LaplaceNoise,
    LinearQuery,
    Mechanism,
    PrivacyBudget,
    PrivacyGuarantee,
    PrivacyLedger,
)
from privcontrol.privacy import store

BUDGET = PrivacyBudget(epsilon=1.0, delta=1e-2)
ADJACENCY = DirectionAdjacency([[1.0]])


def foreign(epsilon):
    return PrivacyGuarantee.black_box(PrivacyBudget(epsilon=epsilon), ADJACENCY)


@pytest.fixture
def path(tmp_path):
    """A ledger with three charges."""
    path = tmp_path / "ledger.sqlite"
    ledger = PrivacyLedger(BUDGET, path)
    for day in ("Monday", "Tuesday", "Wednesday"):
        ledger.charge(foreign(0.1), note=day)
    return path


def account(ledger):
    """Everything that a reader of a ledger sees."""
    notes = [(note, count, guarantee) for note, count, guarantee in ledger.history]
    return (ledger.budget, ledger.spent, ledger.remaining, notes, ledger.times)


def edited(path, statement, *values):
    with sqlite3.connect(path) as connection:
        connection.execute(statement, values)


def test_a_ledger_needs_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="expected an existing folder"):
        PrivacyLedger(BUDGET, tmp_path / "none" / "ledger")


def test_open_demands_an_existing_file_and_takes_its_budget(path, tmp_path):
    assert account(PrivacyLedger.open(str(path))) == account(
        PrivacyLedger(BUDGET, path)
    )
    with pytest.raises(FileNotFoundError, match="PrivacyLedger.budget, path. makes"):
        PrivacyLedger.open(tmp_path / "nowhere.sqlite")
    assert os.listdir(tmp_path) == [path.name]


def test_charges_carry_their_time_in_utc(path):
    times = PrivacyLedger.open(path).times
    assert len(times) == 3
    assert list(times) == sorted(times)
    assert all(moment.utcoffset() == timedelta(0) for moment in times)
    assert abs(datetime.now(UTC) - times[-1]) < timedelta(minutes=5)


def test_an_emptied_file_is_refused(path):
    ledger = PrivacyLedger.open(path)
    path.write_bytes(b"")
    for use in (
        lambda: PrivacyLedger(BUDGET, path),
        lambda: PrivacyLedger.open(path),
        lambda: ledger.charge(foreign(0.1)),
        lambda: ledger.remaining,
    ):
        with pytest.raises(ValueError, match="is empty and holds no privacy ledger"):
            use()
    assert path.read_bytes() == b""


def test_a_truncated_file_is_refused(path):
    whole = path.read_bytes()
    for length in range(1, len(whole), 509):
        path.write_bytes(whole[:length])
        with pytest.raises((ValueError, OSError)):
            PrivacyLedger(BUDGET, path).charge(foreign(0.1))
    path.write_bytes(whole)
    assert len(PrivacyLedger.open(path).history) == 3


@pytest.mark.parametrize(
    "statement, why",
    [
        ("DELETE FROM entries WHERE number = 3", "last entry is gone"),
        ("DELETE FROM entries WHERE number = 2", "entry 2 is missing"),
        ("DELETE FROM entries", "no entries"),
        ("DELETE FROM state", "state is missing"),
        (
            "UPDATE entries SET text = replace(text, 'Tuesday', 'Tuesdae')",
            "entry 2 does not verify",
        ),
        (
            "UPDATE entries SET text = replace(text, '\"count\": 1', '\"count\": 2')",
            "entry 1 does not verify",
        ),
        (
            "UPDATE entries SET text = replace(text, 'time\": \"2', 'time\": \"1')",
            "entry 0 does not verify",
        ),
        (
            "UPDATE state SET text = replace(text, 'releases', 'release')",
            "does not verify",
        ),
        (
            "UPDATE entries SET digest = upper(digest) WHERE number = 3",
            "entry 3 does not verify",
        ),
        ("UPDATE entries SET text = CAST(text AS BLOB)", "entry 0 is missing"),
    ],
)
def test_an_altered_file_is_refused(path, statement, why):
    edited(path, statement)
    for use in (lambda: PrivacyLedger(BUDGET, path), lambda: PrivacyLedger.open(path)):
        with pytest.raises(ValueError, match=f"altered or damaged.*{why}"):
            use()


def test_entries_of_another_ledger_do_not_continue_this_one(path, tmp_path):
    other = tmp_path / "other.sqlite"
    ledger = PrivacyLedger(BUDGET, other)
    for _ in range(3):
        ledger.charge(foreign(0.1), note="Monday")
    with sqlite3.connect(other) as connection:
        rows = connection.execute("SELECT * FROM entries WHERE number = 3").fetchall()
    edited(path, "INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", *rows[0])
    with pytest.raises(ValueError, match="entry 3 does not verify"):
        PrivacyLedger.open(path)


def test_a_restored_backup_is_noticed_by_whoever_knew_more(path, tmp_path):
    backup = tmp_path / "backup.sqlite"
    shutil.copy(path, backup)
    ledger = PrivacyLedger.open(path)
    old, _ = ledger.head, ledger.charge(foreign(0.1), note="Thursday")
    head, sent = ledger.head, pickle.dumps(ledger)
    assert PrivacyLedger.open(path, known=old).spent.releases == 4
    shutil.copy(backup, path)
    for use in (lambda: ledger.charge(foreign(0.1)), lambda: ledger.spent):
        with pytest.raises(ValueError, match="entries that it had are gone"):
            use()
    for use in (
        lambda: PrivacyLedger.open(path, known=head),
        lambda: pickle.loads(sent),
    ):
        with pytest.raises(ValueError, match="older copy, such as a restored backup"):
            use()
    with pytest.raises(ValueError, match="expected the head of a ledger"):
        PrivacyLedger.open(path, known="four")
    # what no file can tell: a new process that knows of no newer head
    assert PrivacyLedger.open(path).spent.releases == 3


def test_a_ledger_put_in_the_place_of_another_is_noticed(path):
    ledger = PrivacyLedger.open(path)
    head = ledger.head
    path.unlink()
    other = PrivacyLedger(BUDGET, path)
    with pytest.raises(ValueError, match="entries that it had are gone"):
        ledger.charge(foreign(0.1))
    for _ in range(3):  # as many entries, and then more
        other.charge(foreign(0.01))
        with pytest.raises(ValueError, match="gone"):
            ledger.charge(foreign(0.1))
    with pytest.raises(ValueError, match="gone or were replaced"):
        assert ledger.spent
    with pytest.raises(ValueError, match="older copy.*or another ledger"):
        PrivacyLedger.open(path, known=head)
    other.charge(foreign(0.01))
    with pytest.raises(ValueError, match="gone or were replaced"):
        assert ledger.spent


@pytest.mark.slow
def test_a_flipped_bit_anywhere_is_refused_or_harmless(tmp_path):
    """tests/stress/flip_stores.py flips every bit."""
    path = tmp_path / "ledger.sqlite"
    PrivacyLedger(BUDGET, path).charge(foreign(0.1), note="Monday")
    ledger = PrivacyLedger.open(path)
    whole, truth = path.read_bytes(), (ledger.spent, ledger.history)
    refused = harmless = 0
    # the header, and every twentieth byte
    places = [*range(200), *range(200, len(whole), 20)]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        try:
            ledger = PrivacyLedger.open(path)
            found = (ledger.spent, ledger.history)
        except (ValueError, OSError):
            refused += 1
        else:
            assert found == truth, place
            harmless += 1
    assert refused + harmless == len(places)
    assert refused > 200


# --- what fails records nothing -------------------------------------------------------------------------------------


def in_a_child(use):
    """The exit code of a forked process that runs `use`, which returns one."""
    child = os.fork()
    if child == 0:
        try:
            code = use()
        except BaseException as error:  # the parent asserts on the code
            print(repr(error), file=sys.stderr)
            code = 99
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_full_disk_records_nothing(path):
    """A limit on the size of files, as a disk of that size: charges until it is full, then none."""

    def fill():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        size = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 8192, size + 8192))
        ledger, charged = PrivacyLedger.open(path), 0
        try:
            while True:
                ledger.charge(foreign(1e-6), note="x" * 1000)
                charged += 1
        except OSError as error:
            assert "space left on the disk" in str(error)
        assert len(ledger.history) == 3 + charged
        return charged

    charged = in_a_child(fill)
    assert 0 < charged < 50
    ledger = PrivacyLedger.open(path)
    assert len(ledger.history) == ledger.spent.releases == 3 + charged
    assert ledger.charge(foreign(0.1)).releases == 4 + charged


def test_a_read_only_file_can_be_read_and_not_charged():
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o755)
        path = folder / "ledger.sqlite"
        PrivacyLedger(BUDGET, path).charge(foreign(0.1))
        path.chmod(0o444)

        def use():
            if os.getuid() == 0:  # root may write everything
                os.setuid(65534)
            ledger = PrivacyLedger.open(path)
            assert ledger.spent.releases == 1
            with pytest.raises(OSError, match="permissions"):
                ledger.charge(foreign(0.1))
            assert ledger.spent.releases == 1
            return 0

        assert in_a_child(use) == 0
        assert PrivacyLedger.open(path).spent.releases == 1
    finally:
        shutil.rmtree(folder)


def test_a_killed_creator_leaves_no_half_of_a_ledger(tmp_path, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    path = tmp_path / "ledger.sqlite"
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", killed)
        with pytest.raises(KeyboardInterrupt):
            PrivacyLedger(BUDGET, path)
    assert not path.exists()
    assert PrivacyLedger(BUDGET, path).spent is None


def test_a_creator_killed_at_the_end_leaves_a_whole_ledger(tmp_path):
    """Its temporary name is still there, and goes when the file is used."""
    path = tmp_path / "ledger.sqlite"
    PrivacyLedger(BUDGET, path)
    os.link(path, tmp_path / ".0123456789abcdef.part")
    (tmp_path / ".another.part").touch()
    assert PrivacyLedger.open(path).spent is None
    assert sorted(os.listdir(tmp_path)) == [".another.part", path.name]


def test_two_creators_share_the_ledger_of_the_first(tmp_path):
    path, ledgers = tmp_path / "ledger.sqlite", []
    threads = [
        threading.Thread(target=lambda: ledgers.append(PrivacyLedger(BUDGET, path)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for ledger in ledgers:
        ledger.charge(foreign(0.05))
    assert [ledger.spent.releases for ledger in ledgers] == [8] * 8
    assert os.listdir(tmp_path) == [path.name]


def test_a_slow_evaluation_holds_up_nobody(tmp_path, monkeypatch):
    """While one charge is evaluated, another ledger and another charge of the same file go through."""
    path = tmp_path / "ledger.sqlite"
    slow, fast = PrivacyLedger(BUDGET, path), PrivacyLedger(BUDGET, path)
    elsewhere = PrivacyLedger(BUDGET, tmp_path / "other.sqlite")
    satisfies = PrivacyGuarantee.satisfies
    entered, others_are_through, waited = threading.Event(), threading.Event(), []

    def dawdling(guarantee, budget):
        if guarantee.releases >= 100 and not entered.is_set():
            entered.set()
            waited.append(others_are_through.wait(60))
        return satisfies(guarantee, budget)

    monkeypatch.setattr(PrivacyGuarantee, "satisfies", dawdling)
    thread = threading.Thread(target=lambda: slow.charge(foreign(1e-6), count=100))
    thread.start()
    entered.wait()
    fast.charge(foreign(0.1))
    elsewhere.charge(foreign(0.1))
    others_are_through.set()
    thread.join()
    assert waited == [True]
    assert fast.spent.releases == 101


def test_a_ledger_that_another_process_changes_is_charged_on_top(path):
    """Two objects of one file: neither charges from a stale state."""
    first, second = PrivacyLedger.open(path), PrivacyLedger.open(path)
    assert first.charge(foreign(0.1)).releases == 4
    assert second.charge(foreign(0.1)).releases == 5
    assert first.charge(foreign(0.1)).releases == 6
    assert json.dumps(first.spent.to_dict()) == json.dumps(second.spent.to_dict())


def test_a_budget_in_one_number_is_counted_in_gdp(tmp_path):
    def known(gdp):
        return PrivacyGuarantee.black_box(PrivacyBudget(gdp=gdp), foreign(0.1).scope)

    path, budget = tmp_path / "ledger.sqlite", PrivacyBudget(gdp=0.5)
    ledger, one = PrivacyLedger(budget, path), known(0.3)
    ledger.charge(one)
    assert ledger.remaining == pytest.approx(0.4, rel=1e-12)
    assert ledger.can_charge(known(0.3999999))
    assert not ledger.can_charge(known(0.4000001))
    assert "spent 0.3-GDP by 1 charge of 1 release, 0.4" in repr(ledger)
    assert PrivacyLedger.open(path).budget == budget
    with pytest.raises(ValueError, match=r"opened with .*gdp=0.5.*, got .*epsilon=1.0"):
        PrivacyLedger(BUDGET, path)


@pytest.mark.slow
def test_a_thousand_mixed_charges_stay_fast(tmp_path):
    """Gaussian and Laplace releases of five sizes each, in turn, most of the budget.

    Time of the processor: how long the disk takes to synchronise is its own affair.
    """
    budget = PrivacyBudget(epsilon=2.0, delta=1e-3)
    ledger = PrivacyLedger(budget, tmp_path / "ledger.sqlite")
    query, adjacency, seconds = LinearQuery([[1.0]]), DirectionAdjacency([[1.0]]), []
    sizes = [0.0145 * (1 + k / 10) for k in range(5)]
    releases = [
        Mechanism(query, (GaussianNoise, LaplaceNoise)[k % 2]([1 / size])).guarantee(
            adjacency
        )
        for k, size in enumerate(sizes * 2)
    ]
    for count in range(1000):
        began = time.process_time()
        ledger.charge(releases[count % 10], note=str(count))
        seconds.append(time.process_time() - began)
    assert ledger.spent.releases == len(ledger.history) == 1000
    assert ledger.remaining < 0.5
    assert sorted(seconds)[500] < 0.01
    began = time.process_time()
    PrivacyLedger.open(tmp_path / "ledger.sqlite")
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize("place", ["memory", "file"])
def test_a_charge_reads_no_more_of_a_longer_ledger(place, tmp_path, monkeypatch):
    """Gateways that are charged and noted; it took 15 ms at the 605th charge."""
    ledger = PrivacyLedger(BUDGET, tmp_path / "ledger" if place == "file" else None)
    loads = json.loads
    read = []

    def counted(text):
        read.append(len(text))
        return loads(text)

    monkeypatch.setattr(json, "loads", counted)
    sizes = []
    for number in range(120):
        read.clear()
        identity = f"{number:032x}"
        for _ in range(2):
            ledger.charge(foreign(1e-4), identity=identity)
        ledger._reach(identity, 10, None, "a" * 32)
        assert ledger._reached(identity) == (10, "a" * 32)
        sizes.append(sum(read))
    assert ledger.spent.releases == len(ledger.history) == 120
    assert max(sizes[10:]) <= 1.1 * sizes[10]


def test_a_note_that_was_altered_or_put_back_is_refused(path):
    ledger = PrivacyLedger.open(path)
    ledger._reach("one", 4, None, "a")
    ledger._reach("two", 4, None, "b")
    before = path.read_bytes()
    ledger._reach("one", 8, "a", "c")
    after = path.read_bytes()
    rows = []
    for content in (before, after):
        path.write_bytes(content)
        with sqlite3.connect(path) as connection:
            rows.append(connection.execute("SELECT * FROM notes").fetchall())
        connection.close()
    older = rows[0][0]
    for statement, values in (
        (
            "UPDATE notes SET text = ?, digest = ? WHERE name = ?",
            (*older[1:], older[0]),
        ),
        ("UPDATE notes SET text = '[9, \"c\"]'", ()),
        ("DELETE FROM notes WHERE name LIKE '%one'", ()),
    ):
        path.write_bytes(after)
        edited(path, statement, *values)
        with pytest.raises(ValueError, match="altered or damaged .*note"):
            PrivacyLedger.open(path)


class Failing(sqlite3.Connection):
    """A disk that fails to synchronise the folder after the journal is gone."""

    is_writing = False

    def execute(self, query, *arguments):
        found = super().execute(query, *arguments)
        self.is_writing |= query == "BEGIN IMMEDIATE"
        if query == "COMMIT" and self.is_writing:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorname = "SQLITE_IOERR_DIR_FSYNC"
            raise error
        return found


def test_a_charge_whose_end_failed_is_said_to_be_in_doubt(path, monkeypatch):
    """It said that nothing was recorded, and the file had the charge."""
    ledger = PrivacyLedger.open(path)
    before = len(ledger.history)
    connect = sqlite3.connect
    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", partial(connect, factory=Failing))
        with pytest.raises(OSError, match="the disk may hold it or not") as caught:
            ledger.charge(foreign(0.1))
    assert "nothing was recorded" not in str(caught.value)
    assert len(ledger.history) == before + 1


INTERRUPTED = """
import sys
sys.path.insert(0, sys.argv[1])
from interruptions import interrupted
from privcontrol.core import PrivacyBudget, PrivacyLedger

ledger = PrivacyLedger(PrivacyBudget(epsilon=1.0), sys.argv[2])

ledger._reach("one", 0, None, "mark")
errors = [None]
while errors[-1] or len(errors) == 1:
    _, mark = ledger._reached("one")
    reach = lambda: ledger._reach("one", len(errors), mark, f"mark {len(errors)}")
    errors.append(interrupted(reach, len(errors)))  # kept, as by a console
assert ledger._reached("one") == (len(errors) - 1, f"mark {len(errors) - 1}")
errors.clear()
print("all go on")
"""


class Clock:
    """A clock on which each wait takes five seconds."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, _seconds):
        self.now += 5.0


def test_a_file_that_another_process_holds_is_waited_for_a_minute(path, monkeypatch):
    ledger = PrivacyLedger(path=path)
    clock = Clock()
    monkeypatch.setattr(store, "time", clock)
    monkeypatch.setattr(store, "_ATTEMPT", 0.0)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(TimeoutError, match="busy for 60 s: nothing was recorded"):
            ledger.charge(foreign(0.1))
    assert 60.0 <= clock.now <= 70.0


@pytest.mark.slow
def test_a_write_that_is_interrupted_at_any_step_holds_up_no_other(tmp_path):
    """A row that was half read kept the file locked for as long as the error was kept."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            INTERRUPTED,
            str(Path(__file__).parents[1]),
            tmp_path / "new",
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "all go on\n", done.stderr
