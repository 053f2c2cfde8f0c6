"""Keep the design of a gateway, and the random bits of its noise before they are used.

On disk it is one SQLite file that only its owner can read and only one process can use.
Every row carries a digest over itself and the row before it. In memory nothing is kept.
"""

import json
import os
import sqlite3
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path

from ..core._sqlite import chained_digest, new_file, translated

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
            self._create(opening)
        elif not path.exists():
            raise FileNotFoundError(
                f"path: expected the file of a gateway, got none at {str(path)!r}; "
                "Gateway(noise, path=...) makes one. Where a run goes on, it is another "
                "window of it: see start in Gateway"
            )
        with self._translated():
            self._connection = _connected(path)
        try:
            with self._translated():
                # keeps every other process from the file until it is closed
                self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                self._connection.execute("BEGIN EXCLUSIVE")
                self._connection.execute("COMMIT")
            self.records = self._read()
        except BaseException:
            self.close()
            raise

    def _create(self, opening: dict) -> None:
        """Make the file with its first record, readable by its owner only."""
        try:
            with new_file(self.path) as temporary, self._translated():
                os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                with closing(_connected(temporary)) as connection, connection:
                    connection.execute("BEGIN IMMEDIATE")
                    connection.execute(_TABLE)
                    _insert(connection, 0, None, json.dumps(opening), "")
        except FileExistsError:
            raise FileExistsError(
                f"path: a gateway exists at {str(self.path)!r}; Gateway.resume(path) "
                "takes it up"
            ) from None

    def _read(self) -> list[dict]:
        with self._translated():
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
                raise ValueError(self._altered)
            if block is None:
                self._digest = digest
            self._number = number + 1
            records.append(json.loads(text))
        if not records or rows[0][0] != 0:
            raise ValueError(self._altered)
        return records

    def append(
        self, record: dict, block: int | None = None, forget: int | None = None
    ) -> None:
        """Add a record of the block that begins at a sample, on the disk at once.

        Records of blocks that begin before ``forget`` are dropped.
        """
        connection = self._connection
        if self._unfinished:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._read()
        self._unfinished = True
        text = json.dumps(record)
        with self._translated(), connection:
            connection.execute("BEGIN IMMEDIATE")
            digest = _insert(connection, self._number, block, text, self._digest)
            if forget is not None:
                connection.execute("DELETE FROM records WHERE block < ?", (forget,))
        self._number += 1
        if block is None:
            self._digest = digest
        self._unfinished = False

    def close(self) -> None:
        """Let another process have the file."""
        self._connection.close()

    @property
    def _altered(self) -> str:
        return (
            f"path: the file of the gateway at {str(self.path)!r} was altered or damaged: "
            "nothing is published. A new gateway that continues the run publishes another "
            "window of it: see start in Gateway"
        )

    def _translated(self) -> AbstractContextManager[None]:
        """Turn SQLite's complaints into errors that say what to do."""
        where = repr(str(self.path))
        return translated(
            OSError(
                f"the gateway at {where} is used by another process; only one may publish"
            ),
            f"the file of the gateway at {where} cannot be used: nothing is published; "
            "check the disk, the folder and its permissions",
            self._altered,
        )


def _digest(before: str, block: int | None, text: str) -> str:
    return chained_digest(f"{before}\n{block}", text)


def _insert(
    connection: sqlite3.Connection,
    number: int,
    block: int | None,
    text: str,
    before: str,
) -> str:
    """Add a row to the records and return its digest."""
    digest = _digest(before, block, text)
    row = (number, block, text, digest)
    connection.execute("INSERT INTO records VALUES (?, ?, ?, ?)", row)
    return digest


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw",
        uri=True,
        timeout=1.0,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA synchronous = EXTRA")
    return connection
