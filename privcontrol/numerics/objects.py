"""Objects that do not change and are equal by their content."""

from __future__ import annotations

from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Compared:
    """Base of classes whose objects are equal if their `_identity` is."""

    def _identity(self) -> tuple[object, ...]:
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

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # subclasses are dataclasses

    def _identity(self) -> tuple[object, ...]:
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


def array_identity(array: NDArray[Any]) -> tuple[tuple[int, ...], bytes]:
    """The shape and bytes of an array, with zeros of one sign."""
    return array.shape, (np.ascontiguousarray(array) + 0.0).tobytes()


def comparable(value: object) -> Any:
    """A value that is equal to another one's if their contents are."""
    if isinstance(value, np.ndarray):
        return array_identity(value)
    if isinstance(value, (tuple, list)):
        return tuple(comparable(part) for part in value)
    return value
