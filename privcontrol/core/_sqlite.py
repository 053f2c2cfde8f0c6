"""What SQLite files of ledgers and gateways share: names, digests and errors."""

import hashlib
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ._files import sync_folder


def chained_digest(before: str, text: str) -> str:
    """Return the digest of a text that follows another digest."""
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Give a temporary path, whose file takes the name ``path`` at the end.

    So it is complete before it has its name. A ``FileExistsError`` says that the name is
    taken. Nothing is left of a file that was not finished.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        yield temporary
        os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path)


@contextmanager
def translated(busy: OSError, unusable: str, damaged: str) -> Iterator[None]:
    """Turn SQLite's complaints into errors that say what to do.

    The file is ``busy`` in other hands, ``unusable`` for lack of space or permissions, or
    ``damaged``.
    """
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise busy from error
        raise OSError(f"{unusable} ({error})") from error
    except sqlite3.DatabaseError as error:
        raise ValueError(f"{damaged} ({error})") from error
