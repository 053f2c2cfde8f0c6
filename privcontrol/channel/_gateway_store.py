"""Keep the design of a gateway, and the random bits of its noise before they are used.

On disk it is one SQLite file that only its owner can read and only one process can use.
Every row carries a digest over itself and the row before it. In memory nothing is kept.
"""

import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..core._files import sync_folder

_TABLE = (
    "CREATE TABLE records "
    "(number INTEGER PRIMARY KEY, block INTEGER, text TEXT, digest TEXT)"
)


@dataclass(frozen=True)
class Draw:
    """Random bits that were committed together.

    More bits of an entry are a draw of that entry alone, with all its bits.
    """

    start: int  # samples start .. stop - 1 may be published once the bits are kept
    stop: int
    first: int  # number of the first entry of eta
    bits: tuple[tuple[int, int], ...]  # value and count of the bits of each entry
    states: tuple[tuple[str, ...], ...] = ()  # of the noise before the first sample

    def to_dict(self) -> dict:
        pairs = [f"{value:x}/{count}" for value, count in self.bits]
        return {
            "start": self.start,
            "stop": self.stop,
            "first": self.first,
            "bits": pairs,
            "states": [list(state) for state in self.states],
        }

    @classmethod
    def from_dict(cls, data: dict) -> "Draw":
        bits = []
        for pair in data["bits"]:
            value, count = pair.split("/")
            bits.append((int(value, 16), int(count)))
        fields = {
            **data,
            "bits": tuple(bits),
            "states": tuple(map(tuple, data["states"])),
        }
        return cls(**fields)


class MemoryStore:
    """Keep nothing. The gateway ends with its process."""

    path = None

    def append(
        self, record: dict, block: int | None = None, forget: int | None = None
    ) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is open."""


class FileStore:
    """Records in an SQLite file, durable when `append` returns.

    Records of a block may be dropped later. The digest of every record covers the one
    before it that stays.
    """

    def __init__(self, path: Path, opening: dict | None = None) -> None:
        self.path = path
        self._unfinished = False  # an append was interrupted, and may have been made
        if opening is not None:
            _create(path, opening)
        elif not path.exists():
            raise FileNotFoundError(
                f"path: expected the file of a gateway, got none at {str(path)!r}; "
                "Gateway(noise, path=...) makes one. Where a run goes on, it is another "
                "window of it: see start in Gateway"
            )
        with _translated(path):
            self._connection = _connect(path)
        try:
            self._lock()
            self.records = self._read()
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        """Keep every other process from the file until it is closed."""
        with _translated(self.path):
            self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._connection.execute("BEGIN EXCLUSIVE")
            self._connection.execute("COMMIT")

    def _read(self) -> list[dict]:
        with _translated(self.path):
            tables = self._connection.execute("SELECT name FROM sqlite_master")
            if [name for (name,) in tables] != ["records"]:
                raise sqlite3.DatabaseError("it holds other tables")
            rows = self._connection.execute(
                "SELECT number, block, text, digest FROM records ORDER BY number"
            ).fetchall()
        records = []
        self._digest = ""
        self._number = 0
        for number, block, text, digest in rows:
            if digest != _digest(self._digest, block, text):
                raise ValueError(_ALTERED.format(path=str(self.path)))
            if block is None:
                self._digest = digest
            self._number = number + 1
            records.append(json.loads(text))
        if not records or rows[0][0] != 0:
            raise ValueError(_ALTERED.format(path=str(self.path)))
        return records

    def append(
        self, record: dict, block: int | None = None, forget: int | None = None
    ) -> None:
        """Add a record of the block that begins at a sample, on the disk at once.

        Records of blocks that begin before ``forget`` are dropped.
        """
        if self._unfinished:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._read()
        self._unfinished = True
        text = json.dumps(record)
        digest = _digest(self._digest, block, text)
        row = (self._number, block, text, digest)
        execute = self._connection.execute
        with _translated(self.path):
            execute("BEGIN IMMEDIATE")
            try:
                execute("INSERT INTO records VALUES (?, ?, ?, ?)", row)
                if forget is not None:
                    execute("DELETE FROM records WHERE block < ?", (forget,))
                execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    execute("ROLLBACK")
                raise
        self._number += 1
        if block is None:
            self._digest = digest
        self._unfinished = False

    def close(self) -> None:
        """Let another process have the file."""
        self._connection.close()


_ALTERED = (
    "path: the file of the gateway at {path!r} was altered or damaged: nothing is "
    "published. A new gateway that continues the run publishes another window of it: "
    "see start in Gateway"
)


def _digest(before: str, block: int | None, text: str) -> str:
    return hashlib.sha256(f"{before}\n{block}\n{text}".encode()).hexdigest()


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw",
        uri=True,
        timeout=1.0,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA synchronous = EXTRA")
    return connection


def _create(path: Path, opening: dict) -> None:
    """Make the file with its first record. It is complete before it has its name."""
    exists = FileExistsError(
        f"path: a gateway exists at {str(path)!r}; Gateway.resume(path) takes it up"
    )
    if path.exists():
        raise exists
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with _translated(path):
            connection = _connect(temporary)
            try:
                text = json.dumps(opening)
                row = (0, None, text, _digest("", None, text))
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(_TABLE)
                connection.execute("INSERT INTO records VALUES (?, ?, ?, ?)", row)
                connection.execute("COMMIT")
            finally:
                connection.close()
        os.link(temporary, path)
    except FileExistsError:
        raise exists from None
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """SQLite's complaints as errors that say what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise OSError(
                f"the gateway at {str(path)!r} is used by another process; only one may "
                "publish"
            ) from error
        raise OSError(
            f"the file of the gateway at {str(path)!r} cannot be used ({error}): nothing "
            "is published; check the disk, the folder and its permissions"
        ) from error
    except sqlite3.DatabaseError as error:
        raise ValueError(f"{_ALTERED.format(path=str(path))} ({error})") from error
