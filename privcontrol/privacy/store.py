"""Keep what ledgers and gateways must not lose: a chain of entries, notes and one state.

The digest of an entry covers its text and the digest before it. Notes have names, and
each has a digest. The state counts its revisions, and its digest covers it, both ends of
the chain and the sum of the notes' digests, so a file that was altered, shortened or mixed
up does not verify, nor one that was put back while a process knows a newer state. A
process verifies all of it once, and later what is new and what it reads, so its work does
not grow with the file. Digests reveal accidents, not forgers, who can compute digests as
well.

Nothing is computed inside a transaction. A user of a store reads a snapshot, does its
reckoning, and appends if the snapshot is still the newest one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from inspect import CO_GENERATOR
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from ..numerics.errors import PrivacyError
from ..numerics.saved import finished_file

if TYPE_CHECKING:
    import sqlite3

    from filelock import FileLock

#: What is done in a transaction returns this.
Result = TypeVar("Result")

#: How long a transaction waits for other processes, in seconds.
_PATIENCE = 60.0
#: Speed: how long one attempt waits while it holds the lock of this process.
_ATTEMPT = 0.05
#: What SQLite leaves next to a file, and rolls back into whichever file has its name.
_JOURNALS = ("-journal", "-wal", "-shm")

# Held for every attempt and every fork, so no child inherits half a transaction.
_lock = threading.Lock()
#: How many forks lie between the first process and this one.
_generation = 0


def _forked() -> None:
    global _generation
    _generation += 1
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire,
        after_in_parent=_lock.release,
        after_in_child=_forked,
    )


def this_process() -> tuple[int, int]:
    """Return what distinguishes this process from its forks.

    Process numbers alone do not: the first process of a namespace has number 1, and so
    may its child in another one.
    """
    return os.getpid(), _generation


class Here(threading.local):
    """The call of this thread that a handler of signals must not wait for.

    It is known by its frame. One that an exception has left, between any two lines, is no
    longer among the callers, and counts for nothing.
    """

    frame: FrameType | None = None

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Mark the call of the function that enters this, until it leaves."""
        self.frame = _caller_of_managers()
        try:
            yield
        finally:
            self.frame = None

    @property
    def is_interrupted(self) -> bool:
        """Whether that call goes on below the present one, which a signal began."""
        caller: FrameType | None = sys._getframe(1)
        while self.frame is not None and caller is not None:
            if caller is self.frame:
                return True
            caller = caller.f_back
        return False


_here = Here()


def in_transaction() -> bool:
    """Return whether this thread is inside a transaction, which a signal interrupted.

    Whoever waits for a transaction of another thread then would never return.
    """
    return _here.is_interrupted


def _caller_of_managers() -> FrameType:
    """Return the frame of the function whose with statement is being entered."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_flags & CO_GENERATOR
        or frame.f_code.co_filename == contextlib.__file__
    ):
        frame = frame.f_back
    return frame


@contextmanager
def _one_transaction() -> Iterator[None]:
    """Keep the handler of a signal from waiting for the transaction that it interrupts."""
    if _here.is_interrupted:
        raise PrivacyError(
            "this was called from a handler of signals, in the middle of another call "
            "that it waits for: let the handler set a flag, and call this in the main "
            "loop"
        )
    with _here.entered():
        yield


# The last page is one that is filled, so that a file cut short is noticed.
_TABLES = (
    "CREATE TABLE notes (name TEXT PRIMARY KEY, text TEXT NOT NULL, "
    "digest TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, text TEXT NOT NULL, "
    "digest TEXT NOT NULL)",
    "CREATE TABLE state (revision INTEGER PRIMARY KEY, text TEXT NOT NULL, "
    "digest TEXT NOT NULL)",
)
#: Sums of digests are taken modulo this.
_MODULUS = 1 << (8 * hashlib.sha256().digest_size)


@dataclass(frozen=True)
class Snapshot:
    """A state, and the place in the chain at which it stood."""

    number: int = -1  # of the newest entry
    digest: str = ""  # of the newest entry
    opening: str = ""  # digest of entry 0
    revision: int = -1
    version: str = ""  # digest of the state
    state: dict[str, Any] = field(default_factory=dict)
    sum: str = ""  # of the digests of all notes
    notes: Mapping[str, Any] = field(default_factory=dict)  # those that were asked for


@dataclass(frozen=True)
class Change:
    """What is to be written: an entry or None, the state after it, and notes by name."""

    entry: dict[str, Any] | None
    state: dict[str, Any]
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Kind:
    """Describe a kind of file: what it holds, and how errors call it."""

    name: str
    mode: int  # of the file
    remedy: str  # after it was altered or damaged


class Store(ABC):
    """A chain in SQLite tables: a row for each entry and note, one for the last state."""

    path: Path | None = None
    kind: Kind
    _verified = Snapshot()

    def hold(self) -> None:
        """Keep every other process and every other store from holding the file."""
        return

    def check_place(self) -> None:
        """Raise an error if the file that is held was deleted or replaced."""
        return

    def close(self) -> None:
        """Let another process hold the file."""
        return

    @abstractmethod
    def _transaction(
        self, begin: str, work: Callable[[sqlite3.Connection], Result]
    ) -> Result:
        """Return what work returns, in a transaction that is committed or rolled back.

        All that it holds is let go in one frame, by statements that no handler of
        signals comes between. A context manager of Python would hold it for as long as
        somebody keeps the error of a handler that interrupted its entry. For the same
        reason work fetches all rows at once: one that is half read keeps its connection
        open, and with it the lock of the file.
        """

    def snapshot(self, names: Iterable[str] = ()) -> Snapshot:
        """Return the newest state, and the notes of these names that there are.

        What is new is verified before.
        """

        def found(connection: sqlite3.Connection) -> Snapshot:
            newest = self._read(connection)
            return replace(newest, notes=self._notes(connection, names))

        return self._transaction("BEGIN", found)

    def append(
        self,
        known: Snapshot,
        entry: dict[str, Any] | None,
        state: dict[str, Any],
        *,
        notes: Mapping[str, Any] | None = None,
        forget: bool = False,
    ) -> Snapshot | None:
        """Add an entry and its state durably, unless the snapshot is no longer the newest.

        Without an entry only the state changes, and the notes that are given. If all
        entries but the opening are to be forgotten, the chain begins again behind it.
        """

        def written(connection: sqlite3.Connection) -> Snapshot | None:
            newest = self._read(connection)
            if newest.version != known.version:
                return None
            change = Change(entry, state, notes or {})
            return _write(connection, newest, change, forget)

        appended = self._transaction("BEGIN IMMEDIATE", written)
        if appended is not None:
            self._advance(appended)
        return appended

    def update(
        self, change: Callable[[Snapshot], Change | None], names: Iterable[str] = ()
    ) -> dict[str, Any]:
        """Append what follows from the newest state, and return the state after it.

        ``change`` is given a snapshot with the notes of these names. It returns what is
        to be written, or None for nothing. It is asked again if somebody else was faster.
        """
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            known = self.snapshot(names)
            changed = change(known)
            if changed is None:
                return known.state
            written = self.append(
                known, changed.entry, changed.state, notes=changed.notes
            )
            if written is not None:
                return written.state
        raise TimeoutError(
            f"other processes wrote to the {self.kind.name} without a pause for "
            f"{_PATIENCE:g} s: nothing was recorded, try again"
        )

    def entries(self) -> list[dict[str, Any]]:
        """Return all entries in order, the opening first."""
        rows = self._verified_rows("SELECT text FROM entries ORDER BY number")
        return [json.loads(text) for (text,) in rows]

    def digest(self, number: int) -> str | None:
        """Return the digest of an entry, None if there are not so many."""
        query = "SELECT digest FROM entries WHERE number = ?"
        for (digest,) in self._verified_rows(query, number):
            return str(digest)
        return None

    def _verified_rows(self, query: str, *values: int) -> list[tuple[Any, ...]]:
        """Return the rows of a query, after what is new is verified."""

        def found(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            self._read(connection)
            return connection.execute(query, values).fetchall()

        return self._transaction("BEGIN", found)

    def _advance(self, found: Snapshot) -> None:
        """Accept nothing older from now on."""
        if found.revision > self._verified.revision:
            self._verified = found

    def _read(self, connection: sqlite3.Connection) -> Snapshot:
        """Return the newest state, whose entries must continue those verified before."""
        known = self._verified
        self._check_tables(connection)
        is_first = known.number < 0
        if is_first:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise self.altered("its pages do not fit together")
        number, digest, opening = self._chained(connection)
        query = "SELECT revision, text, digest FROM state"
        states = connection.execute(query).fetchall()
        if len(states) != 1 or not isinstance(states[0][1], str):
            raise self.altered("its state is missing")
        revision, content, version = states[0]
        if version != _version(opening, digest, revision, content):
            raise self.altered("its state does not verify, or its last entry is gone")
        held = json.loads(content)
        if is_first and held["sum"] != self._sum(connection):
            raise self.altered("a note is gone, or was replaced")
        is_older = revision < known.revision
        if is_older or (revision == known.revision and version != known.version):
            raise self.altered("an older state was put back, or that of a copy")
        state = held["state"]
        found = Snapshot(number, digest, opening, revision, version, state, held["sum"])
        self._advance(found)
        return found

    def _chained(self, connection: sqlite3.Connection) -> tuple[int, str, str]:
        """Return the number and digest of the newest entry, and the digest of entry 0.

        What is new must continue what was verified before.
        """
        known = self._verified
        query = (
            "SELECT number, text, digest FROM entries WHERE number >= ? ORDER BY number"
        )
        rows = connection.execute(query, (known.number,)).fetchall()
        if known.number >= 0:
            if not rows or rows.pop(0)[2] != known.digest:
                raise self.altered("entries that it had are gone or were replaced")
        elif not rows:
            raise self.altered("it has no entries")
        number = known.number
        digest = known.digest
        opening = known.opening
        for place, text, written in rows:
            number += 1
            if place != number or not isinstance(text, str):
                raise self.altered(f"entry {number} is missing")
            digest = chained_digest(digest, text)
            if written != digest:
                raise self.altered(f"entry {number} does not verify")
            opening = opening or digest
        return number, digest, opening

    def _sum(self, connection: sqlite3.Connection) -> str:
        """Return the sum of the digests of all notes, each of which is verified."""
        total = 0
        rows = connection.execute("SELECT * FROM notes").fetchall()
        for name, text, digest in rows:
            self._check_note(name, text, digest)
            total += int(digest, 16)
        return f"{total % _MODULUS:x}"

    def _notes(
        self, connection: sqlite3.Connection, names: Iterable[str]
    ) -> dict[str, Any]:
        """Return the notes of these names."""
        found = {}
        for name in names:
            query = "SELECT text, digest FROM notes WHERE name = ?"
            for text, digest in connection.execute(query, (name,)).fetchall():
                self._check_note(name, text, digest)
                found[name] = json.loads(text)
        return found

    def _check_note(self, name: object, text: object, digest: object) -> None:
        if digest != chained_digest(f"{name}", f"{text}"):
            raise self.altered("a note does not verify")

    def _check_tables(self, connection: sqlite3.Connection) -> None:
        """Raise an error if the file is no store of this version."""
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        tables = {name for (name,) in connection.execute(query).fetchall()}
        if not tables:
            raise ValueError(
                f"path: the file at {str(self.path)!r} is empty and holds no "
                f"{self.kind.name}: restore it, or delete it if nothing was ever released "
                "under it"
            )
        if tables != {"entries", "state", "notes"}:
            raise ValueError(
                f"path: expected a {self.kind.name} of this version, got another "
                f"database at {str(self.path)!r}; use the version that wrote it"
            )

    def altered(self, why: str) -> ValueError:
        """Return the error for a file that does not verify."""
        return ValueError(
            f"path: the {self.kind.name} at {str(self.path)!r} was altered or damaged "
            f"({why}): {self.kind.remedy}"
        )


class MemoryStore(Store):
    """A chain in the process that made it."""

    def __init__(
        self, kind: Kind, entry: dict[str, Any], state: dict[str, Any]
    ) -> None:
        self.kind = kind
        self._owner = this_process()
        self._lock = threading.Lock()
        self._connection = _sqlite().connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )
        _fill(self._connection, entry, state)

    def _transaction(
        self, begin: str, work: Callable[[sqlite3.Connection], Result]
    ) -> Result:
        if this_process() != self._owner:
            raise RuntimeError(
                f"a {self.kind.name} in memory belongs to the process that made it; give "
                "it a path"
            )
        with _one_transaction(), self._lock, self._connection:
            self._connection.execute(begin)
            return work(self._connection)


class FileStore(Store):
    """A chain in a file, of many processes or held by one."""

    def __init__(self, path: Path, kind: Kind) -> None:
        self.path: Path = Path(os.path.realpath(path))  # one lock for all its names
        self.kind = kind
        self._held: FileLock | None = None
        self._file: BinaryIO | None = None
        self._kept: os.stat_result | None = None  # of that file, which stays the same
        self._place = os.fspath(self.path)

    def create(self, entry: dict[str, Any], state: dict[str, Any]) -> bool:
        """Make the file with its first entry. Return False if another has its name."""
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                f"path: expected an existing folder, got {str(self.path.parent)!r}"
            )
        for suffix in _JOURNALS:
            journal = Path(f"{self.path}{suffix}")
            if journal.exists() and not self.path.exists():
                raise OSError(
                    f"path: expected no journal of another file, got {str(journal)!r}, "
                    "which would be rolled back into the new one: restore the file to "
                    "which it belongs, or delete it if that file is gone for good"
                )
        try:
            with (
                _one_transaction(),
                finished_file(self.path) as temporary,
                self._translated(),
                _lock,
            ):
                flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
                os.close(os.open(temporary, flags, self.kind.mode))
                with closing(_connected(temporary)) as connection:
                    connection.execute("PRAGMA synchronous = EXTRA")
                    _fill(connection, entry, state)
        except FileExistsError:
            return False
        if self.entries()[0] != json.loads(json.dumps(entry)):
            raise self.altered("it does not begin with the entry that was just written")
        return True

    def hold(self) -> None:
        filelock: ModuleType = import_module("filelock")
        lock = filelock.FileLock(f"{self.path}.lock", mode=0o600, thread_local=False)
        try:
            with self._translated():
                lock.acquire(blocking=False)
        except filelock.Timeout as error:
            raise OSError(
                f"the {self.kind.name} at {str(self.path)!r} is open in another process, "
                "or in this one a second time: close it there first, only one may "
                "publish"
            ) from error
        self._held = lock
        # kept open, so no other file becomes the same one
        with self._translated():
            self._file = open(self.path, "rb")  # noqa: SIM115
            self._kept = os.fstat(self._file.fileno())

    def check_place(self) -> None:
        try:
            there = os.stat(self._place)
        except FileNotFoundError:
            there = None
        kept = self._kept
        if not (there and kept and os.path.samestat(there, kept)):
            raise OSError(
                f"path: expected the file of the {self.kind.name} at {str(self.path)!r}, "
                "which is gone or was replaced: nothing is published. Put it back"
            )

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        if self._held is not None:
            self._held.release()

    def _transaction(
        self, begin: str, work: Callable[[sqlite3.Connection], Result]
    ) -> Result:
        # The connection lives no longer than the transaction, so neither threads nor
        # forks ever share one.
        deadline = time.monotonic() + _PATIENCE
        with _one_transaction(), self._translated():
            while True:
                with _lock:
                    connection = _connected(self.path)
                    try:
                        self._check_names()
                        if _begun(connection, begin, deadline):
                            # the commit waits for readers only, which are short
                            patience = int(1000 * _PATIENCE)
                            connection.execute(f"PRAGMA busy_timeout = {patience}")
                            result = work(connection)
                            _commit(connection)
                            return result
                    finally:
                        connection.close()
                time.sleep(1e-3)

    def _check_names(self) -> None:
        """Refuse a file that has another name, since a journal belongs to one name.

        What a kill cuts off under one name would be read as finished under the other, and
        be undone when the file is opened by the first name again.
        """
        if os.stat(self._place).st_nlink > 1:
            self._remove_unfinished()
        names = os.stat(self._place).st_nlink
        if names > 1 or _is_mounted_alone(self._place):
            found = f"{names} hard links" if names > 1 else "a mount of the file alone"
            raise OSError(
                f"path: expected one name of the {self.kind.name} at {str(self.path)!r}, "
                f"got {found}: an entry that a crash cuts off under one name is not seen under "
                "another, so nothing is recorded and nothing is published. Keep the name "
                "that has a journal next to it, if one has, and mount whole folders"
            )

    def _remove_unfinished(self) -> None:
        """Remove the temporary name of the file, if its creator was killed before."""
        for part in self.path.parent.glob(".*.part"):
            with contextlib.suppress(FileNotFoundError):
                if part.samefile(self.path):
                    part.unlink()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn complaints of SQLite and the system into errors that say what to do."""
        where = repr(str(self.path))
        try:
            yield
        except OSError as error:
            if error.errno is None:  # it says what to do
                raise
            raise OSError(error.errno, self._unusable(error)) from error
        except _InDoubt as error:
            raise OSError(
                f"the {self.kind.name} at {where} cannot be used: the end of a write "
                "failed, so the disk may hold it or not, and nothing is published: do not "
                "release, and look into the file before you write again "
                f"({error})"
            ) from error
        except _sqlite().OperationalError as error:
            if "locked" in str(error):
                raise TimeoutError(
                    f"other processes kept {where} busy for {_PATIENCE:g} s: nothing was "
                    "recorded, try again"
                ) from error
            raise OSError(self._unusable(error)) from error
        except _sqlite().DatabaseError as error:
            raise ValueError(
                f"path: expected a {self.kind.name}, got another or a damaged file at "
                f"{where} ({error})"
            ) from error

    def _unusable(self, error: Exception) -> str:
        """Return what to do where neither file nor folder can be used."""
        return (
            f"the {self.kind.name} at {str(self.path)!r} cannot be used: nothing was "
            "recorded and nothing is published, do not release; restore the file and "
            f"check its folder, its permissions and the space left on the disk ({error})"
        )


def _is_mounted_alone(path: str) -> bool:
    """Return whether a file is a mount of its own, as a container may have one.

    It may come from the file system of its folder, so devices do not show it.
    """
    if os.path.ismount(path):
        return True
    mounts = {_mount_number(path), _mount_number(os.path.dirname(path))}
    return len(mounts) > 1


def _mount_number(path: str) -> str | None:
    """Return the number of the mount on which a path lies, where the system tells it."""
    only_a_place = getattr(os, "O_PATH", None)
    if only_a_place is None:
        return None
    # any other descriptor of a database would drop SQLite's locks when it is closed
    number = os.open(path, only_a_place)
    try:
        lines = Path(f"/proc/self/fdinfo/{number}").read_text("ascii").splitlines()
    except OSError:  # there is no /proc
        return None
    finally:
        os.close(number)
    return next((line for line in lines if line.startswith("mnt_id")), None)


def chained_digest(before: str, text: str) -> str:
    """Return the digest of a text that follows another digest."""
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def _version(opening: str, digest: str, revision: int, text: str) -> str:
    """Return the digest of a state at both ends of its chain."""
    return chained_digest(f"{opening}\n{digest}\n{revision}", text)


def _sqlite() -> ModuleType:
    return import_module("sqlite3")  # a megabyte, for stores alone


def _connected(path: Path) -> sqlite3.Connection:
    address = f"{path.as_uri()}?mode=rw"
    return _sqlite().connect(address, uri=True, timeout=_ATTEMPT, isolation_level=None)


def _begun(connection: sqlite3.Connection, begin: str, deadline: float) -> bool:
    """Begin and lock, or return False if another process holds the file for now."""
    try:
        # with EXTRA the removal of the journal is synchronised as well
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute(begin)
        connection.execute("SELECT count(*) FROM sqlite_master")  # BEGIN locks nothing
    except _sqlite().OperationalError as error:
        if "locked" not in str(error) or time.monotonic() > deadline:
            raise
        return False
    return True


class _InDoubt(Exception):
    """The end of a write failed."""


def _commit(connection: sqlite3.Connection) -> None:
    """End a transaction.

    Once its journal is gone a write counts, and then the folder is synchronised. All else
    fails before, and is rolled back.
    """
    try:
        connection.execute("COMMIT")
    except _sqlite().OperationalError as error:
        if error.sqlite_errorname != "SQLITE_IOERR_DIR_FSYNC":
            raise
        raise _InDoubt(str(error)) from error


def _fill(
    connection: sqlite3.Connection, entry: dict[str, Any], state: dict[str, Any]
) -> None:
    """Make the tables with their first entry."""
    connection.execute("BEGIN IMMEDIATE")
    for table in _TABLES:
        connection.execute(table)
    _write(connection, Snapshot(), Change(entry, state), False)
    connection.execute("COMMIT")


def _write(
    connection: sqlite3.Connection, known: Snapshot, change: Change, forget: bool
) -> Snapshot:
    """Write what follows a snapshot, and return the next one."""
    number = known.number
    digest = known.digest
    if change.entry is not None:
        if forget:
            connection.execute("DELETE FROM entries WHERE number > 0")
            number = 0
            digest = known.opening
        number += 1
        text = json.dumps(change.entry, sort_keys=True)
        digest = chained_digest(digest, text)
        row = (number, text, digest)
        connection.execute("INSERT INTO entries VALUES (?, ?, ?)", row)
    total = int(known.sum or "0", 16)
    for name, note in change.notes.items():
        total += _write_note(connection, name, note)
    opening = known.opening or digest
    revision = known.revision + 1
    summed = f"{total % _MODULUS:x}"
    text = json.dumps({"state": change.state, "sum": summed}, sort_keys=True)
    version = _version(opening, digest, revision, text)
    connection.execute("DELETE FROM state")
    connection.execute("INSERT INTO state VALUES (?, ?, ?)", (revision, text, version))
    state = json.loads(text)["state"]
    return Snapshot(number, digest, opening, revision, version, state, summed)


def _write_note(connection: sqlite3.Connection, name: str, note: object) -> int:
    """Write a note in place of the one of its name, and return how the sum changes."""
    changed = 0
    query = "SELECT digest FROM notes WHERE name = ?"
    for (digest,) in connection.execute(query, (name,)).fetchall():
        changed -= int(digest, 16)
    text = json.dumps(note, sort_keys=True)
    digest = chained_digest(name, text)
    row = (name, text, digest)
    connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", row)
    return changed + int(digest, 16)


def another_copy(reached: int) -> PrivacyError:
    """Return the error for a gateway's file that is not the one that went on."""
    return PrivacyError(
        f"path: this file does not agree with the ledger, by which samples up to {reached} "
        "may have been published: another copy of it went on and this is an "
        "older copy, or the ledger is. "
        "Resume the newest file with the newest ledger; if it is lost, a new gateway "
        "continues the run (start=...)"
    )
