"""What a package answers who is asked for a name that it does not have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any


def suggesting(
    find: Callable[[str], Any], home: str, known: Sequence[str], others: Sequence[str]
) -> Callable[[str], Any]:
    """Return a package's ``__getattr__`` that says which names are near a missing one.

    Parameters
    ----------
    find : callable
        The package's own ``__getattr__``.
    home : str
        Name of the package.
    known : sequence of str
        Its names.
    others : sequence of str
        Packages in which the name is looked for too.
    """

    def found(name: str) -> Any:
        try:
            return find(name)
        except AttributeError:
            if name in known or name.startswith("_"):
                raise
        near = [f"{home}.{close}" for close in get_close_matches(name, known, 2)]
        for other in others:
            if name in import_module(other).__all__:
                near.insert(0, f"{other}.{name}")
        advice = f"dir({home}) lists its names"
        if near:
            advice = f"did you mean {' or '.join(near)}?"
        raise AttributeError(f"{home} has no attribute {name!r}; {advice}")

    return found
