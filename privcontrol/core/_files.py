"""Design files are JSON whose numbers are exact and whose content carries a digest.

A number with a fraction is ``{"float": "0x1.8p+1"}``, an array
``{"shape": [2, 1], "floats": [...]}`` in row-major order. The first keys of a file are
``schema`` and ``kind``, the last one is ``digest``: the SHA-256 sum of everything else as
JSON with sorted keys and no spaces.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

SCHEMA = 1


def encode(value: object) -> Any:
    """Return a value of dictionaries, lists, texts, numbers and arrays as exact JSON."""
    if isinstance(value, (np.floating, float)):
        return {"float": float(value).hex()}
    if isinstance(value, np.ndarray):
        numbers = [number.hex() for number in value.ravel().astype(float).tolist()]
        return {"shape": list(value.shape), "floats": numbers}
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, dict):
        return {name: encode(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(part) for part in value]
    return value


def decode(value: object) -> Any:
    """Return what `encode` was given, with lists for tuples."""
    if isinstance(value, list):
        return [decode(part) for part in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"float"}:
        return float.fromhex(value["float"])
    if set(value) == {"shape", "floats"}:
        numbers = [float.fromhex(number) for number in value["floats"]]
        return np.array(numbers, float).reshape(value["shape"])
    return {name: decode(part) for name, part in value.items()}


def as_path(path: str | os.PathLike) -> Path:
    """Return a path, or raise an error that says what is expected."""
    if isinstance(path, (str, os.PathLike)) and str(path) and "\0" not in str(path):
        return Path(path)
    raise TypeError(
        f"path: expected a text or Path that names a file, got {type(path).__name__}"
    )


def digest_of(content: dict) -> str:
    """Return the SHA-256 sum of encoded content."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def write(path: str | Path, kind: str, content: dict) -> None:
    """Write a design file, which is complete before it has its name."""
    data = {"schema": SCHEMA, "kind": kind, **encode(content)}
    data["digest"] = digest_of(data)
    text = json.dumps(data, indent=1) + "\n"
    with finished_file(as_path(path), replace=True) as temporary:
        with open(temporary, "x", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def finished_file(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Give a temporary path, whose file takes the name ``path`` at the end.

    So it is complete before it has its name, and nothing is left of a file that was not
    finished. Nobody can guess the temporary name, so nobody can plant a link there. A
    ``FileExistsError`` says that the name is taken, unless that file is to be replaced.
    """
    temporary = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        yield temporary
        if replace:
            os.replace(temporary, path)
        else:
            os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path)


def sync_folder(path: str | Path) -> None:
    """Make the name of a new file survive a power failure, where systems can do that."""
    try:
        folder = os.open(Path(path).absolute().parent, os.O_RDONLY)
    except OSError:  # folders cannot be opened on every system
        return
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read(path: str | Path) -> tuple[str, dict]:
    """Return kind and content of a design file, or raise an error if it was altered."""
    file = as_path(path)
    damaged = (
        f"path: expected a design file of privcontrol, got another one at {path!s}"
    )
    try:
        data = json.loads(file.read_bytes().decode("ascii"))
    except ValueError as error:
        raise ValueError(f"{damaged} ({type(error).__name__})") from error
    if not isinstance(data, dict) or "digest" not in data:
        raise ValueError(damaged)
    if data.pop("digest") != digest_of(data):
        raise ValueError(
            f"path: the content of {path!s} does not match its digest: it was altered or "
            "damaged; save the design again"
        )
    if data.pop("schema", None) != SCHEMA:
        raise ValueError(
            f"path: expected schema {SCHEMA} at {path!s}, got another one; use the version "
            "of privcontrol that wrote it"
        )
    return data.pop("kind", ""), decode(data)
