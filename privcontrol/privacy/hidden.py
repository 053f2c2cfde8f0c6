"""What a guarantee hides: said in words, saved and compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from decimal import ROUND_FLOOR, Context
from numbers import Real
from typing import Any, Protocol

from ..numerics.saved import Saved
from .repetition import Change

_SIX_DIGITS = Context(prec=6, rounding=ROUND_FLOOR)


def rounded_down(value: float) -> str:
    """Return six digits of a number, never above it, so no text promises more than holds."""
    below = _SIX_DIGITS.create_decimal(repr(float(value)))
    return f"{float(below):g}"


class Data(Protocol):
    """What a guarantee asks of the manifold on which the data lie."""

    @property
    def domain(self) -> str:
        """Name of the manifold."""

    @property
    def horizon(self) -> float | None:
        """Samples of the run; None where the data are no trajectory."""


class Hidden(Saved, ABC):
    """A secret as a guarantee knows it: a text, a public description, a kind of change.

    How a secret moves the data is the business of `Adjacency`.
    """

    @property
    @abstractmethod
    def statement(self) -> str:
        """State the hidden moves and their sizes, in one public clause."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready public description. Equal ones mean equal adjacencies.

        Returns
        -------
        dict
            Strings, numbers and lists of them.

        Examples
        --------
        >>> from privcontrol.core import *
        >>> BallAdjacency(2.0).to_dict()
        {'type': 'BallAdjacency', 'radius': 2.0, 'norm': '2.0'}
        """

    @property
    def change(self) -> Change | None:
        """The kind of change of a signal that is hidden, None for other secrets."""
        return None

    def caveats(self, manifold: Any) -> tuple[str, ...]:
        """Return what this adjacency does not hide, in clauses for the guarantee's text."""
        return ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hidden) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(repr(self.to_dict()))


def checked_hidden(adjacency: object) -> Hidden:
    """Return the adjacency itself, or raise an error that says how to write one."""
    if isinstance(adjacency, Hidden):
        return adjacency
    raise no_adjacency(adjacency)


def no_adjacency(adjacency: object) -> TypeError:
    """Return the error that says how to write an adjacency."""
    hint = (
        "such as ManifoldAdjacency, BallAdjacency or DirectionAdjacency; mind the order "
        "of the arguments"
    )
    if isinstance(adjacency, (Real, Mapping)):
        hint = "a radius? write ManifoldAdjacency(radius) or BallAdjacency(radius)"
    return TypeError(
        f"adjacency: expected an Adjacency, got {type(adjacency).__name__}; {hint}"
    )
