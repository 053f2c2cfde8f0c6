"""Doors that are found by inspection: what every kind of object can be asked, or made of.

Each public name is a door, each public class with the fields of an object of the
contract's table, and each documented method of such an object, with the defaults of its
arguments. A method is documented for users if its docstring has a section of parameters,
or if it needs none; others are between objects of the package. A required argument begins
as None, and is mutated like the others.
"""

import inspect
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from contract import objects
from fuzz.doors import Door

import privcontrol as pc
from privcontrol import consensus, core, deploy, designs, loop, regions, response

ROOMS = (pc, consensus, core, deploy, designs, loop, regions, response, pc.plants)
#: Objects of a class whose methods are doors.
MOST = 6
#: Methods that wait for somebody, or whose answer has no end.
LEFT_OUT = {"stream", "online"}


def public_names() -> dict[str, Any]:
    """All that the packages show, by name."""
    found = {}
    for room in ROOMS:
        for name in room.__all__:
            found[name] = getattr(room, name)
    return {name: thing for name, thing in found.items() if callable(thing)}


def taken(call: Any) -> dict[str, Any]:
    """Keywords of a call with their defaults, None where there is none."""
    keywords = {}
    for parameter in inspect.signature(call).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            continue
        is_bare = parameter.default is parameter.empty
        keywords[parameter.name] = None if is_bare else parameter.default
    return keywords


def methods(thing: Any) -> Iterator[str]:
    """Names of an object's public methods that are the package's own."""
    for name in dir(type(thing)):
        if name in LEFT_OUT or (name.startswith("_") and name != "__call__"):
            continue
        own = inspect.getattr_static(type(thing), name)
        own = getattr(own, "__func__", own)
        module = str(getattr(own, "__module__", ""))
        if callable(own) and module.startswith("privcontrol") and is_documented(own):
            yield name


def is_documented(method: Any) -> bool:
    """Whether a method is told to users, or needs no argument."""
    bare = []
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        named = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        bare.append(named and parameter.default is parameter.empty)
    return not any(bare) or "Parameters\n" in (inspect.getdoc(method) or "")


def inspected_doors() -> Iterator[Door]:
    """Each method of objects, each class of theirs, and each public name."""
    asked: Counter[str] = Counter()
    classes = public_names()
    for group in objects.GROUPS:
        for _, thing in objects.made(group):
            kind = type(thing)
            if kind.__name__ not in classes:
                continue
            for method in methods(thing):
                name = f"{kind.__name__}.{method}"
                if asked[name] < MOST:
                    asked[name] += 1
                    call = getattr(thing, method)
                    yield Door(name, call, (), taken(call))
            if is_dataclass(kind) and not asked[kind.__name__]:
                asked[kind.__name__] += 1
                held = {f.name: getattr(thing, f.name) for f in fields(thing) if f.init}
                yield Door(kind.__name__, kind, (), held)
    for name, thing in classes.items():
        if not (inspect.isclass(thing) and issubclass(thing, BaseException)):
            yield Door(name, thing, (), taken(thing))
