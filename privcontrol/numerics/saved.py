"""Objects on file: exact numbers as JSON, written whole or not at all.

Design files are JSON whose numbers are exact and whose content carries a digest. A number
with a fraction is ``{"float": "0x1.8p+1"}``, an array
``{"shape": [2, 1], "floats": [...]}`` in row-major order, and an object of a `Saved` class
names it as ``kind`` before its fields. The first key of a file is ``schema``, the last one
``digest``: the SHA-256 sum of everything else as JSON with sorted keys and no spaces.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import Field, fields, is_dataclass
from functools import cache, singledispatch
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from .thresholds import MOST_HELD

SCHEMA = 3
#: Bytes of a design file at most: each number of the largest table has 16 digits. Dense
#: noise of 3,000 samples and outputs has 230 MB.
_LARGEST = 16 * MOST_HELD

#: It imports every class of the package whose objects files hold. A ledger may hold the
#: guarantee of noise that nothing else in its process knows.
_ALL_KINDS = "privcontrol.deploy.files"
#: Every class whose objects files hold, by its name in lower case.
_KINDS: dict[str, type[Saved]] = {}


class Saved:
    """Base of classes whose objects design files hold.

    A file holds the fields with which a dataclass is made, which make it again. A class
    that wants others says so in both methods. Fields that ``_omitted`` names are left out
    where they have their default, so a file says nothing of what it does not have.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # subclasses are dataclasses
    _omitted: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _KINDS[cls.__name__.lower()] = cls

    def _saved_fields(self) -> dict[str, object]:
        """Return the fields of this object in a file, by name."""
        made_with = {field.name: field for field in fields(self) if field.init}
        saved = {name: getattr(self, name) for name in made_with}
        for name in self._omitted:
            if _is_default(saved[name], made_with[name]):
                del saved[name]
        return saved

    @classmethod
    def _restored(cls, saved: dict[str, Any]) -> Self:
        """Return the object of which a file holds this."""
        return cls(**saved)


def _is_default(value: object, field: Field[Any]) -> bool:
    """Return whether a field is as it is by default: None, an empty tuple or text, zero."""
    if value is None:
        return field.default is None
    return isinstance(value, (str, tuple, int, float)) and value == field.default


@singledispatch
def encode(value: object) -> Any:
    """Return a value of saved objects, mappings, sequences and numbers as exact JSON."""
    return value


@encode.register
def _(value: Saved) -> dict[str, Any]:
    return {"kind": type(value).__name__.lower(), **encode(value._saved_fields())}


@encode.register(Mapping)
def _(value: Mapping[str, object]) -> dict[str, Any]:
    return {name: encode(part) for name, part in value.items()}


@encode.register(list)
@encode.register(tuple)
def _(value: list[Any] | tuple[Any, ...]) -> list[Any]:
    return [encode(part) for part in value]


@encode.register(float)
@encode.register(np.floating)
def _(value: float) -> dict[str, Any]:
    return {"float": float(value).hex()}


@encode.register
def _(value: np.integer) -> int:
    return int(value)


@encode.register(np.ndarray)
def _(value: NDArray[np.float64]) -> dict[str, Any]:
    numbers = [number.hex() for number in value.ravel().astype(float).tolist()]
    return {"shape": list(value.shape), "floats": numbers}


def decode(value: object) -> Any:
    """Return what `encode` was given, with tuples for sequences and read-only arrays.

    What a file says is believed as far as the classes check what they are made with.
    """
    if isinstance(value, list):
        return tuple(decode(part) for part in value)
    if not isinstance(value, dict):
        return value
    if set(value) == {"float"} and isinstance(value["float"], str):
        return float.fromhex(value["float"])
    if set(value) == {"shape", "floats"}:
        numbers = [float.fromhex(number) for number in value["floats"]]
        array = np.array(numbers, float).reshape(value["shape"])
        array.flags.writeable = False
        return array
    saved = {name: decode(part) for name, part in value.items()}
    kind = saved.get("kind")
    if not isinstance(kind, str):
        return saved
    if kind not in _KINDS:
        import_module(_ALL_KINDS)
    if kind not in _KINDS:
        raise ValueError(
            f"path: expected the file of a noise or a loop, got {kind!r} in it, which is "
            "not defined here; import what defines it"
        )
    del saved["kind"]
    made = _KINDS[kind]._restored(saved)
    check_fields(made)
    return made


def check_fields(made: Any) -> None:
    """Refuse an object of a file if a field is not of the type that its class says.

    Classes check what users type. A file may hold anything, such as a text for a number.
    """
    kind: Any = type(made)
    for name, expected in _types_of(kind).items():
        value = getattr(made, name)
        if not _is_of(value, expected):
            raise ValueError(
                f"path: expected another {name} of the {kind.__name__.lower()} in the "
                f"file, got one of the type {type(value).__name__}; save the design again"
            )


@cache
def _types_of(kind: Any) -> dict[str, Any]:
    """Return the types of the fields with which a dataclass is made.

    None of a class whose annotations only a type checker resolves.
    """
    if not is_dataclass(kind):
        return {}
    try:
        types = get_type_hints(kind)
    except NameError:
        return {}
    return {field.name: types[field.name] for field in fields(kind) if field.init}


def _is_of(value: object, expected: Any) -> bool:
    """Return whether a value is of an annotated type, as far as files can break it."""
    kind, inner = get_origin(expected) or expected, get_args(expected)
    if kind in (Union, UnionType):
        return any(_is_of(value, one) for one in inner)
    if kind is Any or not isinstance(kind, type):
        return True
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, (float, int))
    if not isinstance(value, kind):
        return False
    if isinstance(value, Mapping) and inner:
        return all(_is_of(one, inner[1]) for one in value.values())
    if not isinstance(value, tuple) or not inner:
        return True
    if kind is tuple and inner[-1] is not ...:
        return len(value) == len(inner) and all(map(_is_of, value, inner))
    return all(_is_of(one, inner[0]) for one in value)


def as_path(path: str | os.PathLike[str]) -> Path:
    """Return a path, or raise an error that names the expected type."""
    if isinstance(path, (str, os.PathLike)) and str(path) and "\0" not in str(path):
        named = Path(path)
        if named.name:
            return named
    raise TypeError(
        f"path: expected a text or Path that names a file, got a {type(path).__name__} "
        "that names none"
    )


def digest_of(content: dict[str, Any]) -> str:
    """Return the SHA-256 sum of JSON with sorted keys and no spaces."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def content_of(design: Saved) -> dict[str, Any]:
    """Return the content of a design file, its digest included."""
    data = {"schema": SCHEMA, **encode(design)}
    data["digest"] = digest_of(data)
    return data


def write(path: str | Path, design: Saved) -> None:
    """Write a design file, which is complete before it has its name."""
    data = content_of(design)
    text = json.dumps(data, indent=1) + "\n"
    try:
        with finished_file(as_path(path), replace=True) as temporary:  # noqa: SIM117
            with open(temporary, "x", encoding="ascii") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        if error.errno is None:  # it says what to do
            raise
        raise OSError(
            error.errno,
            f"path: the design was not saved at {str(path)!r} ({error.strerror}); a file "
            "of that name is whole. Check its folder, its permissions and the space left "
            "on the disk",
        ) from error


def read(path: str | Path) -> Any:
    """Return the content of a design file, or raise an error if it was altered."""
    file = as_path(path)
    damaged = (
        f"path: expected a design file of privcontrol, got another one at {path!s}"
    )
    try:
        text = _content(file).decode("ascii")
        data = json.loads(text, object_pairs_hook=_once_each)
    except ValueError as error:
        if str(error).startswith("path:"):
            raise
        raise ValueError(f"{damaged} ({type(error).__name__})") from error
    if not isinstance(data, dict) or "digest" not in data:
        raise ValueError(damaged)
    if data.pop("digest") != digest_of(data):
        raise ValueError(
            f"path: the content of {path!s} does not match its digest: it was altered or "
            "damaged; save the design again"
        )
    schema = data.pop("schema", None)
    if schema == 2:
        _update(data)
    elif schema != SCHEMA:
        raise ValueError(
            f"path: expected schema {SCHEMA} at {path!s}, got another one; use the version "
            "of privcontrol that wrote it"
        )
    return decode(data)


def _once_each(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return named values as a mapping. Other readers might take others of two alike."""
    if len(dict(fields)) < len(fields):
        raise ValueError(
            "path: expected each name once in a design file, got one twice"
        )
    return dict(fields)


def _content(file: Path) -> bytes:
    """Return the content of a file, unless it is no design or too large for one."""
    try:
        opened = open(file, "rb")  # noqa: SIM115
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"path: expected a design file, got none at {str(file)!r}; noise.save(path) "
            "and loop.save(path) make one"
        ) from error
    with opened as source:
        first = source.read(1)
        if first != b"{":
            raise ValueError("it does not begin with a brace")
        content = io.BytesIO(first)
        content.seek(1)
        while content.tell() <= _LARGEST:
            more = source.read(1 << 20)
            if not more:
                return content.getvalue()
            content.write(more)
    raise ValueError(
        f"path: expected a design file of at most {_LARGEST >> 20} MB, got a larger one "
        f"at {file!s}"
    )


def _update(data: dict[str, Any]) -> None:
    """Make a file of schema 2 one of schema 3, which holds no words of a promise."""
    noise = data.get("noise") if data.get("kind") == "privateloop" else data
    if noise is not None and noise["request"] is not None:
        claimed = noise["guarantee"]
        names = ("loss", "releases", "quoted_delta")
        noise["guarantee"] = {name: claimed[name] for name in names}
        # what attains a loss is certified by other routes now
        claimed["loss"] |= {
            "attained": False,
            "moves": [[]] * len(claimed["loss"]["rows"]),
        }


@contextmanager
def finished_file(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Give a temporary path, whose file takes the name ``path`` at the end.

    So it is complete before it has its name, and nothing is left of a file that was not
    finished. Nobody can guess the temporary name, so nobody can plant a link there. A
    ``FileExistsError`` says that the name is taken, unless that file is to be replaced.
    """
    if not path.absolute().parent.is_dir():
        folder = str(path.absolute().parent)
        raise FileNotFoundError(
            f"path: expected an existing folder, got none at {folder!r}; make it first"
        )
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
