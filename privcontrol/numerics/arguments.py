"""Errors that name the argument that was meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
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
            rest = (
                f"pass by keyword: {', '.join(others)}"
                if others
                else "it takes no more"
            )
            raise refused(
                f"takes {', '.join(placed) or 'nothing'} by position, got {kinds}; {rest}"
            )
        found = {*placed[: len(given)], *kwargs}
        lacking = [keyword for keyword in needed if keyword not in found]
        if lacking:
            raise refused(f"needs {', '.join(lacking)}; known are {', '.join(known)}")
        return function(*args, **kwargs)

    checked.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    return checked


Class = TypeVar("Class", bound=type)


def helpful_fields(advice: str) -> Callable[[Class], Class]:
    """Decorate a class so that its making is checked as `helpful_arguments` checks."""

    def decorated(cls: Class) -> Class:
        making = vars(cls)["__init__"]
        checked = helpful_arguments(making, name=cls.__name__, advice=advice)
        setattr(cls, "__init__", checked)  # noqa: B010
        return cls

    return decorated
