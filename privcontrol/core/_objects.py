"""Our objects do not change, are equal by what they hold, and are saved and shown.

Design files are JSON whose numbers are exact and whose content carries a digest. A number
with a fraction is ``{"float": "0x1.8p+1"}``, an array
``{"shape": [2, 1], "floats": [...]}`` in row-major order, and an object of a `Saved` class
names it as ``kind`` before its fields. The first key of a file is ``schema``, the last one
``digest``: the SHA-256 sum of everything else as JSON with sorted keys and no spaces.
"""

from __future__ import annotations

import hashlib
import html
import inspect
import io
import json
import os
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import Field, fields
from difflib import get_close_matches
from functools import singledispatch, wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


# -- objects that do not change ------------------------------------------------------


class Compared:
    """Base of classes whose objects are equal if their `_identity` is."""

    def _identity(self) -> tuple:
        """The hashable facts that make two objects of this class equal."""
        return (id(self),)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self is other or self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((type(self), self._identity()))


class ByContent(Compared):
    """Base of frozen dataclasses (with ``eq=False``) that are equal if their fields are.

    Arrays are equal if their shapes and entries are. Fields with ``compare=False`` do
    not count.
    """

    __dataclass_fields__: ClassVar[dict[str, Field]]  # subclasses are dataclasses

    def _identity(self) -> tuple:
        compared = (field.name for field in fields(self) if field.compare)
        return tuple(comparable(getattr(self, name)) for name in compared)


class CheckedFields:
    """Base of objects that do not change, and set the fields that they have checked.

    A constructor, or ``__post_init__`` of a frozen dataclass, calls
    ``self._set(name=value, ...)``.
    """

    def _set(self, **fields: object) -> None:
        self.__dict__.update(fields)


class Frozen(CheckedFields, Compared):
    """Base of classes whose public promises rest on their fields.

    Cached properties work. Setting or deleting an attribute after construction raises an
    ``AttributeError``.
    """

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"{type(self).__name__} is immutable: guarantees rest on its {name}; "
            "make another one"
        )

    def __delattr__(self, name: str) -> NoReturn:
        self.__setattr__(name, None)


def freeze_arrays(record: DataclassInstance) -> None:
    """Make the arrays of a frozen dataclass read-only copies."""
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, np.ndarray) and value.flags.writeable:
            value = value.copy()
            value.flags.writeable = False
            object.__setattr__(record, field.name, value)


def array_identity(array: NDArray) -> tuple:
    """The shape and bytes of an array, with zeros of one sign."""
    return array.shape, (np.ascontiguousarray(array) + 0.0).tobytes()


def comparable(value: object) -> Any:
    """A value that is equal to another one's if their contents are."""
    if isinstance(value, np.ndarray):
        return array_identity(value)
    if isinstance(value, (tuple, list)):
        return tuple(comparable(part) for part in value)
    return value


# -- what files hold -----------------------------------------------------------------

SCHEMA = 3
#: Bytes of a design file at most: dense noise of 3,000 samples and outputs has 230 MB.
_LARGEST = 1 << 29

#: It imports every class of the package whose objects files hold. A ledger may hold the
#: guarantee of noise that nothing else in its process knows.
_ALL_KINDS = "privcontrol.deploy.files"
#: Every class whose objects files hold, by its name in lower case.
_KINDS: dict[str, type[Saved]] = {}


class Saved:
    """Base of classes whose objects design files hold.

    A file holds the fields with which a dataclass is made, which make it again. A class
    that wants others says so in both methods.
    """

    __dataclass_fields__: ClassVar[dict[str, Field]]  # subclasses are dataclasses

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _KINDS[cls.__name__.lower()] = cls

    def _saved_fields(self) -> dict[str, object]:
        """Return what a file holds of this object, by name."""
        made_with = (field for field in fields(self) if field.init)
        return {field.name: getattr(self, field.name) for field in made_with}

    @classmethod
    def _restored(cls, saved: dict[str, Any]) -> Self:
        """Return the object of which a file holds this."""
        return cls(**saved)


@singledispatch
def encode(value: object) -> Any:
    """Return a value of saved objects, mappings, sequences and numbers as exact JSON."""
    return value


@encode.register
def _(value: Saved) -> dict:
    return {"kind": type(value).__name__.lower(), **encode(value._saved_fields())}


@encode.register
def _(value: Mapping) -> dict:
    return {name: encode(part) for name, part in value.items()}


@encode.register(list)
@encode.register(tuple)
def _(value: list | tuple) -> list:
    return [encode(part) for part in value]


@encode.register(float)
@encode.register(np.floating)
def _(value: float) -> dict:
    return {"float": float(value).hex()}


@encode.register
def _(value: np.integer) -> int:
    return int(value)


@encode.register
def _(value: np.ndarray) -> dict:
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
    return _KINDS[kind]._restored(saved)


def as_path(path: str | os.PathLike) -> Path:
    """Return a path, or raise an error that says what is expected."""
    if isinstance(path, (str, os.PathLike)) and str(path) and "\0" not in str(path):
        named = Path(path)
        if named.name:
            return named
    raise TypeError(
        f"path: expected a text or Path that names a file, got a {type(path).__name__} "
        "that names none"
    )


def digest_of(content: dict) -> str:
    """Return the SHA-256 sum of JSON with sorted keys and no spaces."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def write(path: str | Path, design: Saved) -> None:
    """Write a design file, which is complete before it has its name."""
    data = {"schema": SCHEMA, **encode(design)}
    data["digest"] = digest_of(data)
    text = json.dumps(data, indent=1) + "\n"
    try:
        with finished_file(as_path(path), replace=True) as temporary:
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
    """Return what a design file holds, or raise an error if it was altered."""
    file = as_path(path)
    damaged = (
        f"path: expected a design file of privcontrol, got another one at {path!s}"
    )
    try:
        data = json.loads(_content(file).decode("ascii"))
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


def _content(file: Path) -> bytes:
    """Return what a file holds, unless it is no design or larger than one can be."""
    with open(file, "rb") as source:
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


def _update(data: dict) -> None:
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


# -- what users see ------------------------------------------------------------------

#: What users of other libraries type, and what it may be called here.
_SYNONYMS = {
    "seed": ["rng"],
    "random_state": ["rng"],
    "x0": ["initial_state"],
    "X0": ["initial_state"],
    "T": ["timepts", "horizon"],
    "t": ["timepts"],
    "n_trials": ["trials"],
    "ref": ["reference"],
    "epsilon": ["budget"],
    "secret": ["adjacency"],
}

P = ParamSpec("P")
Answer = TypeVar("Answer")


def helpful_arguments(
    function: Callable[P, Answer],
    packed: Mapping[str, type] | None = None,
    leading: type | None = None,
    *,
    name: str = "",
    advice: str = "",
) -> Callable[P, Answer]:
    """Decorate a function so arguments that it does not take, or lacks, list its own.

    Its signature shows the keywords that a type of ``packed`` holds, by its annotation.
    Those of the ``leading`` type come before other keywords. Errors call it ``name``, and
    end with the ``advice``, in which ``{unknown}`` stands for the keyword at fault.
    """
    signature = inspect.signature(function)
    called = name or function.__name__
    shown = []
    for parameter in signature.parameters.values():
        if parameter.kind is not parameter.VAR_KEYWORD:
            shown.append(parameter)
            continue
        kind = (packed or {})[parameter.annotation]
        names = kind.__annotations__
        for keyword in names:
            shown.append(
                inspect.Parameter(keyword, parameter.KEYWORD_ONLY, default=None)
            )
        if kind is leading:
            shown.sort(key=lambda one: (one.kind, one.name not in names))
    own = [one for one in shown if one.name not in ("self", "cls")]
    known = [parameter.name for parameter in own]
    placed = [one.name for one in own if one.kind is one.POSITIONAL_OR_KEYWORD]
    bound = len(shown) - len(own)
    needed = [one.name for one in own if one.default is one.empty]

    def refused(text: str, unknown: str = "name") -> TypeError:
        more = f"; {advice.format(unknown=unknown)}" if advice else ""
        return TypeError(f"{called}() {text}{more}")

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> Answer:
        for keyword in kwargs:
            if keyword not in known:
                close = [
                    *_SYNONYMS.get(keyword, []),
                    *get_close_matches(keyword, known),
                ]
                meant = [one for one in close if one in known]
                hint = f" (did you mean {meant[0]}?)" if meant else ""
                raise refused(
                    f"got an unexpected keyword argument {keyword!r}{hint}; known are "
                    f"{', '.join(known)}",
                    keyword,
                )
        given = args[bound:]
        if len(given) > len(placed):
            others = [keyword for keyword in known if keyword not in placed]
            kinds = ", ".join(type(one).__name__ for one in given)
            raise refused(
                f"takes {', '.join(placed) or 'nothing'} by position, got {kinds}; pass "
                f"by keyword: {', '.join(others)}"
            )
        found = {*placed[: len(given)], *kwargs}
        lacking = [keyword for keyword in needed if keyword not in found]
        if lacking:
            raise refused(f"needs {', '.join(lacking)}; known are {', '.join(known)}")
        return function(*args, **kwargs)

    checked.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    return checked


Class = TypeVar("Class", bound=type)


def helpful_fields(advice: str = "") -> Callable[[Class], Class]:
    """Decorate a class so that its making is checked as `helpful_arguments` checks."""

    def decorated(cls: Class) -> Class:
        making = vars(cls)["__init__"]
        checked = helpful_arguments(making, name=cls.__name__, advice=advice)
        setattr(cls, "__init__", checked)  # noqa: B010
        return cls

    return decorated


def html_table(rows: Mapping[str, str]) -> str:
    """Return labels and texts as a table of HTML."""
    left = "style='text-align: left'"
    lines = ""
    for label, text in rows.items():
        lines += f"<tr><th {left}>{html.escape(label)}</th>"
        lines += f"<td {left}>{html.escape(text)}</td></tr>"
    return f"<table>{lines}</table>"


def with_units(
    names: Sequence[str],
    units: Mapping[str, str] | None,
    known: Collection[str] | None = None,
) -> list[str]:
    """Return names with their units, as in ``"T [K]"``, where ``units`` has one.

    ``known`` are the names that may have units, by default those that are shown.
    """
    if not isinstance(units, Mapping | None):
        raise TypeError(
            "units: expected a mapping such as {'y': 'K'}, got "
            f"{type(units).__name__}"
        )
    given = dict(units or {})
    known = names if known is None else known
    unknown = [str(name) for name in given if name not in known]
    if unknown:
        raise ValueError(
            f"units: expected names among {', '.join(known)}, got {', '.join(unknown)}"
        )
    return [f"{name} [{given[name]}]" if name in given else name for name in names]


def time_axis(label: str, unit: str | None) -> str:
    """Return the label of a time axis, with the unit that the user counts dt in."""
    if unit is None:
        return label
    if not isinstance(unit, str):
        raise TypeError(
            f"time_unit: expected text such as 'h', got {type(unit).__name__}"
        )
    return f"Time [{unit}]"
