"""Where a privacy ledger keeps its entries, in memory or in an SQLite file of many processes.

Both keep a chain. The digest of an entry covers its text and the digest before it, and the
digest of the state covers the last of them, so that an altered, shortened or mixed-up file
does not verify. Digests tell accidents, not forgers, who can compute digests as well.

Nothing is computed inside a transaction. A charge reads a snapshot, does its reckoning,
and is then appended if the snapshot is still the newest one.
"""

import json
import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ._sqlite import chained_digest, new_file, translated

#: How long a transaction waits for other processes, in seconds.
_PATIENCE = 60.0
#: How long one attempt waits while it holds the lock of this process.
_ATTEMPT = 0.05

# Held for every attempt and every fork, so that no child inherits half a transaction.
_lock = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire,
        after_in_parent=_lock.release,
        after_in_child=_lock.release,
    )

_TABLES = (
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, text TEXT NOT NULL, "
    "digest TEXT NOT NULL)",
    "CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), text TEXT NOT NULL, "
    "digest TEXT NOT NULL)",
)


@dataclass(frozen=True)
class Snapshot:
    """A state of the ledger and the place in the chain at which it stood."""

    number: int
    digest: str
    state: dict


class Store(ABC):
    """A chain in SQLite tables, with a row for each entry and one for the last state."""

    path: Path | None = None
    _verified: Snapshot | None = None

    @abstractmethod
    def _transaction(self, begin: str) -> AbstractContextManager[sqlite3.Connection]:
        """Open a transaction that is committed on leaving, or rolled back."""

    def snapshot(self) -> Snapshot:
        """Return the newest state, after what is new was verified."""
        with self._transaction("BEGIN") as connection:
            return self._read(connection)

    def append(self, known: Snapshot, entry: dict, state: dict) -> bool:
        """Add an entry and its state durably, unless the snapshot is no longer the newest."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            newest = self._read(connection)
            if newest.digest != known.digest:
                return False
            _write(connection, known.number + 1, known.digest, entry, state)
            return True

    def entries(self) -> list[dict]:
        """Return all entries in order, the opening first."""
        with self._transaction("BEGIN") as connection:
            self._read(connection)
            rows = connection.execute("SELECT text FROM entries ORDER BY number")
            return [json.loads(text) for (text,) in rows]

    def digest(self, number: int) -> str | None:
        """Return the digest of an entry, None if there are not so many."""
        with self._transaction("BEGIN") as connection:
            self._read(connection)
            row = connection.execute(
                "SELECT digest FROM entries WHERE number = ?", (number,)
            ).fetchone()
            return row and row[0]

    def _read(self, connection: sqlite3.Connection) -> Snapshot:
        """Return the newest state, whose entries must continue those verified before."""
        known = self._verified
        self._check_tables(connection)
        if known is None:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise self._altered("its pages do not fit together")
            known = Snapshot(-1, "", {})
        query = (
            "SELECT number, text, digest FROM entries WHERE number >= ? ORDER BY number"
        )
        rows = connection.execute(query, (known.number,)).fetchall()
        if known.number >= 0:
            if not rows or rows.pop(0)[2] != known.digest:
                raise self._altered("entries that it had are gone or were replaced")
        elif not rows:
            raise self._altered("it has no entries")
        number = known.number
        digest = known.digest
        for place, text, written in rows:
            number += 1
            if place != number or not isinstance(text, str):
                raise self._altered(f"entry {number} is missing")
            digest = chained_digest(digest, text)
            if written != digest:
                raise self._altered(f"entry {number} does not verify")
        states = connection.execute("SELECT text, digest FROM state").fetchall()
        if len(states) != 1 or not isinstance(states[0][0], str):
            raise self._altered("its state is missing")
        text, written = states[0]
        if written != chained_digest(digest, text):
            raise self._altered("its state does not verify, or its last entry is gone")
        if rows:
            self._verified = Snapshot(number, digest, json.loads(text))
        return self._verified or known

    def _check_tables(self, connection: sqlite3.Connection) -> None:
        """Raise an error if the file is no ledger of this version."""
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        tables = {name for (name,) in connection.execute(query)}
        if not tables:
            raise ValueError(
                f"path: the file at {str(self.path)!r} is empty and holds no privacy "
                "ledger: restore it, or delete it if nothing was ever released under it"
            )
        if tables != {"entries", "state"}:
            raise ValueError(
                "path: expected a privacy ledger, got another database at "
                f"{str(self.path)!r}"
            )

    def _altered(self, why: str) -> ValueError:
        return ValueError(
            f"path: the ledger at {str(self.path)!r} was altered or damaged ({why}): do "
            "not release; restore the newest backup, and charge by hand whatever was "
            "released since"
        )


class MemoryStore(Store):
    """A chain in the process that made it."""

    def __init__(self, entry: dict, state: dict) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )
        _fill(self._connection, entry, state)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        if os.getpid() != self._owner:
            raise RuntimeError(
                "a ledger in memory belongs to the process that made it; give the ledger a "
                "path"
            )
        with self._lock, self._connection:
            self._connection.execute(begin)
            yield self._connection


class FileStore(Store):
    """A chain in a file."""

    def __init__(self, path: Path) -> None:
        self.path: Path = path

    def create(self, entry: dict, state: dict) -> None:
        """Make the file with its first entry, unless another process was faster."""
        with suppress(FileExistsError), new_file(self.path) as temporary:
            with self._translated(), _lock:
                with closing(_connected(temporary, "rwc")) as connection:
                    connection.execute("PRAGMA synchronous = EXTRA")
                    _fill(connection, entry, state)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        # The connection lives no longer than the transaction, so that neither threads nor
        # forks ever share one.
        deadline = time.monotonic() + _PATIENCE
        with self._translated():
            while True:
                with _lock, closing(_connected(self.path, "rw")) as connection:
                    if _begun(connection, begin, deadline):
                        # the commit waits for readers only, which are short
                        patience = int(1000 * _PATIENCE)
                        connection.execute(f"PRAGMA busy_timeout = {patience}")
                        yield connection
                        connection.execute("COMMIT")
                        return
                time.sleep(1e-3)

    def _translated(self) -> AbstractContextManager[None]:
        """Turn SQLite's complaints into errors that say what to do."""
        where = repr(str(self.path))
        return translated(
            TimeoutError(
                f"other processes kept {where} busy for {_PATIENCE:g} s: nothing was "
                "recorded, try again"
            ),
            f"the ledger at {where} cannot be used: nothing was acknowledged, do not "
            "release; restore the file and check its folder, its permissions and the "
            "space left on the disk",
            "path: expected a privacy ledger, got another or a damaged file at "
            + where,
        )


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    address = f"{path.as_uri()}?mode={mode}"
    return sqlite3.connect(address, uri=True, timeout=_ATTEMPT, isolation_level=None)


def _begun(connection: sqlite3.Connection, begin: str, deadline: float) -> bool:
    """Begin and lock, or return False if another process holds the file for now."""
    try:
        # with EXTRA the removal of the journal is synchronised as well
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute(begin)
        connection.execute("SELECT count(*) FROM sqlite_master")  # BEGIN locks nothing
    except sqlite3.OperationalError as error:
        if "locked" not in str(error) or time.monotonic() > deadline:
            raise
        return False
    return True


def _fill(connection: sqlite3.Connection, entry: dict, state: dict) -> None:
    """Make the tables with their first entry."""
    connection.execute("BEGIN IMMEDIATE")
    for table in _TABLES:
        connection.execute(table)
    _write(connection, 0, "", entry, state)
    connection.execute("COMMIT")


def _write(
    connection: sqlite3.Connection, number: int, before: str, entry: dict, state: dict
) -> None:
    text = json.dumps(entry, sort_keys=True)
    digest = chained_digest(before, text)
    connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (number, text, digest))
    text = json.dumps(state, sort_keys=True)
    row = (1, text, chained_digest(digest, text))
    connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?, ?)", row)
