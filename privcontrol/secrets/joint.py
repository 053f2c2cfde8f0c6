"""Several secrets as one, and the outputs as a query of all that they move."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np

from ..core.adjacency import Adjacency
from ..core.manifold import AffineManifold, FiniteMoves, Moves
from ..numerics.objects import Frozen
from ..privacy.repetition import Change
from ..privacy.sentences import unknown_repetition
from .disturbance import INITIAL_STATE, DisturbanceAdjacency
from .disturbed import (
    DisturbedManifold,
)
from .run_moves import BallMoves


class JointAdjacency(Adjacency, Frozen):
    """Moves of any one of several adjacencies.

    A release that hides the joint one hides each of them. A list passed as adjacency to `design_output_noise` becomes one.

    Parameters
    ----------
    parts : sequence of StateAdjacency, InitialStateAdjacency or DisturbanceAdjacency

    Examples
    --------
    >>> import privcontrol as pc
    >>> from privcontrol.secrets import JointAdjacency
    >>> level = pc.StateAdjacency({"level": 1.0}, times=0)
    >>> joint = JointAdjacency([level, pc.DisturbanceAdjacency(0.1, inputs=["u"])])
    >>> print(joint.statement)  # doctest: +ELLIPSIS
    either level by at most 1 at t = 0, ..., or one change per run: u by at most 0.1, at one sample
    """

    _parts: tuple[Adjacency, ...]

    def __init__(self, parts: Iterable[Adjacency]) -> None:
        parts = tuple(parts)
        if not parts or not all(isinstance(part, Adjacency) for part in parts):
            raise TypeError("adjacency: expected a list of Adjacency objects")
        inner = chain.from_iterable(part.parts for part in parts)
        self._set(_parts=tuple(inner))

    @property
    def parts(self) -> tuple[Adjacency, ...]:
        return self._parts

    def __repr__(self) -> str:
        return f"JointAdjacency({list(self.parts)})"

    def moves(self, manifold: AffineManifold) -> Moves:
        """All moves together, which several balls have not."""
        found = []
        for part in self.parts:
            of_states = not isinstance(part, DisturbanceAdjacency)
            if of_states and isinstance(manifold, DisturbedManifold):
                found.append(manifold.embedded(part))
            else:
                found.append(part.moves(manifold))
        if len(found) == 1:
            return found[0]
        if any(moves.is_ball for moves in found):
            raise ValueError(
                "adjacency: a ball next to other moves is hidden part by part; look at one "
                "part"
            )
        if isinstance(manifold, DisturbedManifold):
            columns = np.hstack([moves.vectors for moves in found])
            return FiniteMoves(columns, exact=all(moves.exact for moves in found))
        return BallMoves.side_by_side(found)

    @property
    def change(self) -> Change | None:
        """One change of any part, where each part is about one change in a run."""
        changes = [part.change for part in self.parts]
        if len(changes) == 1:
            return changes[0]
        once = [each for each in changes if each is not None and each.is_one]
        if len(once) < len(changes):
            return None
        lengths = [each.longest for each in once]
        longest = None if None in lengths else max(filter(None, lengths))
        words = ", or ".join(each.words for each in once)
        events = [each.differs for each in once if each.differs]
        differs = ""
        if len(events) == len(once):
            hidden = dict.fromkeys(" or ".join(events).split(" or "))
            differs = " or ".join(hidden)
        elif events:  # what happens anyway is no change that comes once
            differs = "secret"
            words = ", or ".join(each.statement for each in once)
        varying = ""
        if any(each.varying for each in once):
            varying = ", or ".join(each.varying or each.words for each in once)
        return Change(words, longest, varying=varying, differs=differs)

    @property
    def statement(self) -> str:
        if self.change is not None:
            return self.change.statement
        return "either " + ", or ".join(part.statement for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        return {
            "type": "JointAdjacency",
            "parts": [part.to_dict() for part in self.parts],
        }

    def _saved_fields(self) -> dict[str, object]:
        return {"parts": self.parts}

    def caveats(self, manifold: AffineManifold) -> tuple[str, ...]:
        inner = getattr(manifold, "trajectory", manifold)
        clauses = []
        changes = [part.change for part in self.parts if part.change is not None]
        if self.change is None and changes:
            clauses.append(unknown_repetition(max(each.events for each in changes)))
        for part in sorted(self.parts, key=lambda part: part.change is None):
            clauses += part.caveats(inner)
        clauses.append("moves of several parts at once")
        if not all(isinstance(part, DisturbanceAdjacency) for part in self.parts):
            clauses = [text for text in clauses if text != INITIAL_STATE]
        return tuple(dict.fromkeys(clauses))
