"""Further parts of a request, and how each is taken off before the design.

A `Reduction` asks for something simpler and makes of the answer the one that was wanted.
It may ask more than once, with what the last answer was or in spite of a refusal, so it is
given the way to ask and not one answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ..privacy.budget import RepeatedBudget
from .output_noise import OutputNoise
from .problem import DesignProblem
from .request import Request


@dataclass(frozen=True, eq=False)
class Asked:
    """Hold a problem, and the parts of a request that no design of the table takes.

    Attributes
    ----------
    problem : DesignProblem
    together : RepeatedBudget or None
        That of several changes, where the problem's budget is for one of them.
    law_is_open, floor_is_open : bool
        Whether the cheapest one is asked for.
    constraints : callable or None
        From the covariance to convex constraints on it.
    """

    problem: DesignProblem
    together: RepeatedBudget | None = None
    law_is_open: bool = False
    floor_is_open: bool = False
    constraints: Callable[[Any], Any] | None = None

    @property
    def request(self) -> Request:
        """The problem's request."""
        return self.problem.request

    @property
    def searches_floor(self) -> bool:
        """Return whether a floor is searched for.

        Noise that is drawn again at every sample has that of its own design.
        """
        return self.floor_is_open and not self.request.drawn_afresh

    def having(self, **changes: Any) -> Asked:
        """Return the same with some fields of the request changed."""
        request = replace(self.request, **changes)
        return replace(self, problem=replace(self.problem, request=request))


#: Answers what a reduction has left.
Ask = Callable[[Asked], OutputNoise]


class Reduction(Protocol):
    """Takes one thing off what is asked."""

    def accepts(self, asked: Asked) -> bool:
        """Return whether it is there."""

    def answer(self, asked: Asked, ask: Ask) -> OutputNoise:
        """Return noise that has it, from designs for the rest of the request."""
