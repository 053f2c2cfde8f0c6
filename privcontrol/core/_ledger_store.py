"""Where a privacy ledger keeps its state: this process's memory, or one SQLite file shared by many.

A store offers one transaction at a time; inside it the state is read, and either saved as a whole or left alone.
Connections live no longer than their transaction, so that neither threads nor forks ever share one.
"""

import json
import os
import sqlite3
import threading
from contextlib import contextmanager

#: How long a transaction waits for other processes, in seconds.
_PATIENCE = 60.0

# Held around every transaction and every fork: no child inherits a half-done one.
_lock = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire,
        after_in_parent=_lock.release,
        after_in_child=_lock.release,
    )


class MemoryStore:
    """State in the process that made it."""

    def __init__(self):
        self._state, self._entries, self._owner = None, [], os.getpid()

    @contextmanager
    def transaction(self, *, write=True, create=False):
        """The store itself, nobody else using it."""
        with _lock:
            if os.getpid() != self._owner:
                raise RuntimeError(
                    "a ledger in memory belongs to the process that made it; give the ledger a path"
                )
            yield self

    def load(self):
        """The state, or None."""
        return self._state

    def save(self, state, *entry):
        """Replace the state; an entry (note, count, guarantee) goes to the history."""
        self._state = state
        if entry:
            self._entries.append(entry)

    def history(self):
        """All entries in order."""
        return tuple(self._entries)


class FileStore:
    """State in an SQLite file: one row of JSON, and one row for each entry of the history."""

    def __init__(self, path):
        self.path = path

    @contextmanager
    def transaction(self, *, write=True, create=False):
        """Rows of the file, locked against other writers; committed and synchronised on leaving, or rolled back."""
        address = f"{self.path.as_uri()}?mode={'rwc' if create else 'rw'}"
        with _lock, _translated(self.path):
            connection = sqlite3.connect(
                address, uri=True, timeout=_PATIENCE, isolation_level=None
            )
            try:
                connection.execute(
                    "PRAGMA synchronous = EXTRA"
                )  # the journal's removal is synchronised as well
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                yield _Rows(connection, self.path)
                connection.execute("COMMIT")
            finally:
                connection.close()  # rolls back what was not committed


class _Rows:
    def __init__(self, connection, path):
        self._execute, self._path = connection.execute, path

    def _tables(self):
        return {
            name
            for (name,) in self._execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            )
        }

    def load(self):
        tables = self._tables()
        if not tables:
            return None
        if not {"ledger", "charges"} <= tables:
            raise ValueError(
                f"path: expected a privacy ledger, got another database at {str(self._path)!r}"
            )
        return json.loads(self._execute("SELECT state FROM ledger").fetchone()[0])

    def save(self, state, *entry):
        if not self._tables():
            self._execute(
                "CREATE TABLE ledger (id INTEGER PRIMARY KEY CHECK (id = 1), state TEXT NOT NULL)"
            )
            self._execute(
                "CREATE TABLE charges (id INTEGER PRIMARY KEY, note TEXT, count INTEGER, guarantee TEXT)"
            )
        self._execute(
            "INSERT OR REPLACE INTO ledger VALUES (1, ?)", (json.dumps(state),)
        )
        if entry:
            note, count, guarantee = entry
            row = (note, count, json.dumps(guarantee))
            self._execute(
                "INSERT INTO charges (note, count, guarantee) VALUES (?, ?, ?)", row
            )

    def history(self):
        rows = self._execute(
            "SELECT note, count, guarantee FROM charges ORDER BY id"
        ).fetchall()
        return tuple(
            (note, count, json.loads(guarantee)) for note, count, guarantee in rows
        )


@contextmanager
def _translated(path):
    """SQLite's complaints as errors that say what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise TimeoutError(
                f"other processes kept {str(path)!r} busy for {_PATIENCE:g} s: nothing was recorded, try again"
            ) from error
        raise OSError(
            f"the ledger at {str(path)!r} cannot be used ({error}): nothing was acknowledged, do not release; "
            "restore the file and check its folder and permissions"
        ) from error
    except sqlite3.DatabaseError as error:
        raise ValueError(
            f"path: expected a privacy ledger, got another file at {str(path)!r} ({error})"
        ) from error
