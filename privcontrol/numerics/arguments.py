"""Errors that name the argument that was meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import wraps
from typing import ParamSpec, TypeVar

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
    end with the ``advice``, in which ``{unknown}`` is replaced by the keyword at fault.
    """
    signature = inspect.signature(function)
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
    taken = _Taken.of(shown, name or function.__name__, advice)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> Answer:
        taken.check(args, kwargs)
        return function(*args, **kwargs)

    checked.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    return checked


@dataclass(frozen=True)
class _Taken:
    """Say what a function takes, and refuse what it does not take or lacks.

    Attributes
    ----------
    called : str
        Its name in errors.
    advice : str
        The end of each error, if there is one.
    known, placed, needed : list of str
        All of its arguments, those that it takes by position, and those without a default.
    bound : int
        One if the first argument is the object that it is a method of.
    """

    called: str
    advice: str
    known: list[str]
    placed: list[str]
    needed: list[str]
    bound: int

    @classmethod
    def of(cls, shown: Sequence[inspect.Parameter], called: str, advice: str) -> _Taken:
        """Return what a function with these parameters takes."""
        own = [one for one in shown if one.name not in ("self", "cls")]
        return cls(
            called,
            advice,
            [one.name for one in own],
            [one.name for one in own if one.kind is one.POSITIONAL_OR_KEYWORD],
            [one.name for one in own if one.default is one.empty],
            len(shown) - len(own),
        )

    def check(self, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """Raise an error if a call with these arguments would fail."""
        for keyword in kwargs:
            if keyword not in self.known:
                raise self._unexpected(keyword)
        given = args[self.bound :]
        if len(given) > len(self.placed):
            raise self._too_many(given)
        found = {*self.placed[: len(given)], *kwargs}
        lacking = [keyword for keyword in self.needed if keyword not in found]
        if lacking:
            known = ", ".join(self.known)
            raise self._refused(f"needs {', '.join(lacking)}; known are {known}")

    def _refused(self, text: str, unknown: str = "name") -> TypeError:
        more = f"; {self.advice.format(unknown=unknown)}" if self.advice else ""
        return TypeError(f"{self.called}() {text}{more}")

    def _unexpected(self, keyword: str) -> TypeError:
        """Return the error for a keyword that is none of them."""
        close = [*_SYNONYMS.get(keyword, []), *get_close_matches(keyword, self.known)]
        meant = [one for one in close if one in self.known]
        hint = f" (did you mean {meant[0]}?)" if meant else ""
        return self._refused(
            f"got an unexpected keyword argument {keyword!r}{hint}; known are "
            f"{', '.join(self.known)}",
            keyword,
        )

    def _too_many(self, given: Sequence[object]) -> TypeError:
        """Return the error for more arguments by position than it takes."""
        others = [keyword for keyword in self.known if keyword not in self.placed]
        rest = f"pass by keyword: {', '.join(others)}" if others else "it takes no more"
        placed = ", ".join(self.placed) or "nothing"
        kinds = ", ".join(type(one).__name__ for one in given)
        return self._refused(f"takes {placed} by position, got {kinds}; {rest}")


Class = TypeVar("Class", bound=type)


def helpful_fields(advice: str) -> Callable[[Class], Class]:
    """Decorate a class so that its making is checked as `helpful_arguments` checks."""

    def decorated(cls: Class) -> Class:
        making = vars(cls)["__init__"]
        checked = helpful_arguments(making, name=cls.__name__, advice=advice)
        setattr(cls, "__init__", checked)  # noqa: B010
        return cls

    return decorated
