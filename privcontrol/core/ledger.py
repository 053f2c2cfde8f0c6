"""A privacy ledger: what has been spent of a budget, in memory or on a file that outlives its processes.

Charge before the release. A charge is recorded as a whole or not at all; one that was acknowledged is never lost, and
the budget is never exceeded, whichever processes, threads and forks share the file and whenever they are killed.
"""

import json
from dataclasses import asdict
from decimal import ROUND_FLOOR
from pathlib import Path

from ._ledger_store import FileStore, MemoryStore
from ._linalg import positive_integer
from .adjacency import checked_adjacency
from .budget import PrivacyBudget, checked_budget
from .errors import BudgetExceededError
from .guarantee import PrivacyGuarantee, checked_guarantee, shown

_FORMAT = "privcontrol ledger 1"


class PrivacyLedger:
    """Counts guarantees against one budget for one secret.

    Parameters
    ----------
    budget : PrivacyBudget, optional
        What all releases together may cost. Without it an existing file's own: ``PrivacyLedger(path="spent.sqlite")``.
    path : str or Path, optional
        SQLite file on a local disk; made if it does not exist. Without it the ledger lives in this process only, and
        refuses to be pickled, copied or used after a fork: two copies would spend the budget twice.
    adjacency : Adjacency, optional
        What is hidden; otherwise the first charge fixes it. The first charge fixes manifold and horizon in any case.

    Raises
    ------
    ValueError
        If the file holds another budget or another adjacency, or is no ledger; without a budget, if there is no file.
    TypeError
        If an argument is of another type.

    Examples
    --------
    >>> from privcontrol.core import DirectionAdjacency, PrivacyBudget, PrivacyGuarantee
    >>> ledger = PrivacyLedger(PrivacyBudget(epsilon=1.0))
    >>> release = PrivacyGuarantee.black_box(PrivacyBudget(epsilon=0.25), DirectionAdjacency([[1.0]]))
    >>> ledger.charge(release, note="monthly report", count=3).epsilon(0.0), ledger.remaining
    (0.75, 0.25)
    >>> ledger.can_charge(release, count=2)
    False
    >>> ledger
    PrivacyLedger(PrivacyBudget(epsilon=1.0, delta=0.0), spent epsilon = 0.75 by 1 charge of 3 releases, 0.25 remaining, in memory)
    """

    def __init__(self, budget=None, path=None, *, adjacency=None):
        if isinstance(budget, (str, Path)):
            raise TypeError(
                f"budget: expected a PrivacyBudget, got {type(budget).__name__}; write path= for the file"
            )
        if adjacency is not None:
            checked_adjacency(adjacency)
        path = None if path is None else Path(path).absolute()
        if budget is None and (path is None or not path.exists()):
            where = (
                "no path of a ledger" if path is None else f"no ledger at {str(path)!r}"
            )
            raise ValueError(
                f"budget: expected a PrivacyBudget for a new ledger, got none and {where} to take it from"
            )
        self.budget = None if budget is None else checked_budget(budget)
        self._store = MemoryStore() if path is None else FileStore(path)
        with self._store.transaction(create=budget is not None) as record:
            self._open(record, adjacency)

    def _open(self, record, adjacency):
        """Begin a new record, or take up the one that is there."""
        state, about = record.load(), None if adjacency is None else _about(adjacency)
        if state is None and self.budget is not None:
            fixed = about or {"adjacency": None}
            record.save(
                {
                    "format": _FORMAT,
                    "budget": asdict(self.budget),
                    **fixed,
                    "spent": None,
                }
            )
            return
        self._check(state)
        if about is not None and state["adjacency"] not in (None, about["adjacency"]):
            raise ValueError(f"adjacency: {_differ(state, **about)}")
        if about is not None and state["adjacency"] is None:
            record.save(state | about)

    def charge(self, guarantee, note="", count=1):
        """Record `count` releases of this guarantee, all of them or none; call it before the release.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
        note : str, optional
            For the history. It is stored as it is: keep private values out of it.
        count : int, optional

        Returns
        -------
        PrivacyGuarantee
            Of everything charged so far.

        Raises
        ------
        BudgetExceededError
            If the budget does not cover it; nothing was recorded.
        ValueError
            If the guarantee is about another secret than the ledger; nothing was recorded.
        TypeError
            If it is no guarantee: of a design or a loop charge its ``.guarantee``.
        TimeoutError
            If other processes keep the file busy; nothing was recorded.
        """
        if not isinstance(note, str):
            raise TypeError(f"note: expected a string, got {type(note).__name__}")
        with self._store.transaction() as record:
            state = self._check(record.load())
            total = _total(state, guarantee, count)
            if not total.satisfies(self.budget):
                raise BudgetExceededError(
                    f"the charge of {count} release{'s' * (count > 1)} would raise epsilon to "
                    f"{total.epsilon(self.budget.delta):.6g} at delta = {self.budget.delta:g}, the budget is epsilon = "
                    f"{self.budget.epsilon:g}; nothing was recorded, do not release"
                )
            about = {
                "adjacency": guarantee.scope.adjacency,
                "statement": guarantee.scope.statement,
            }
            record.save(
                state | about | {"spent": total.to_dict()},
                note,
                count,
                guarantee.to_dict(),
            )
        return total

    def can_charge(self, guarantee, count=1):
        """Whether `charge` would succeed now; only `charge` itself reserves anything."""
        return _total(self._state(), guarantee, count).satisfies(self.budget)

    @property
    def spent(self):
        """The guarantee of everything charged so far, or None."""
        spent = self._state()["spent"]
        return None if spent is None else PrivacyGuarantee.from_dict(spent)

    @property
    def remaining(self):
        """Epsilon left at the budget's delta; a number to look at, `can_charge` decides."""
        spent = self.spent
        used = 0.0 if spent is None else spent.epsilon(self.budget.delta)
        return max(self.budget.epsilon - used, 0.0)

    @property
    def history(self):
        """All charges in order, as (note, count, guarantee)."""
        with self._store.transaction(write=False) as record:
            self._check(record.load())
            entries = record.history()
        return tuple(
            (note, count, PrivacyGuarantee.from_dict(guarantee))
            for note, count, guarantee in entries
        )

    def _state(self):
        with self._store.transaction(write=False) as record:
            return self._check(record.load())

    def _check(self, state):
        if state is None or state.get("format") != _FORMAT:
            raise ValueError(
                "path: the file holds no privacy ledger that this version can read; restore it"
            )
        if self.budget is None:
            self.budget = PrivacyBudget(**state["budget"])
        if state["budget"] != asdict(self.budget):
            theirs, mine = (
                f"epsilon = {b['epsilon']} at delta = {b['delta']}"
                for b in (state["budget"], asdict(self.budget))
            )
            raise ValueError(
                f"budget: the ledger was opened with {theirs}, got {mine}; leave the budget out to take the ledger's, or "
                "keep another ledger"
            )
        return state

    def __reduce__(self):
        if isinstance(self._store, MemoryStore):
            raise TypeError(
                "a ledger in memory cannot be copied or sent to another process; give it a path"
            )
        return PrivacyLedger, (self.budget, self._store.path)

    def __repr__(self):
        where = (
            "in memory"
            if isinstance(self._store, MemoryStore)
            else f"at {str(self._store.path)!r}"
        )
        return f"PrivacyLedger({self.budget!r}, {self._account()}, {where})"

    def _account(self):
        """What is spent (rounded up) and left (rounded down), in words; a display must not fail."""
        try:
            with self._store.transaction(write=False) as record:
                spent, charges = (
                    self._check(record.load())["spent"],
                    len(record.history()),
                )
        except (OSError, RuntimeError, ValueError) as error:
            return f"cannot be read: {type(error).__name__}"
        if spent is None:
            return "nothing spent"
        spent = PrivacyGuarantee.from_dict(spent)
        epsilon = spent.epsilon(self.budget.delta)
        left = shown(max(self.budget.epsilon - epsilon, 0.0), ROUND_FLOOR)
        counted = f"{charges} charge{'s' * (charges > 1)} of {spent.releases} release{'s' * (spent.releases > 1)}"
        return f"spent epsilon = {shown(epsilon)} by {counted}, {left} remaining"


_ONE_EACH = "keep one ledger for each secret"


def _about(adjacency):
    """What a ledger notes of its adjacency."""
    return {
        "adjacency": json.dumps(adjacency.to_dict(), sort_keys=True),
        "statement": adjacency.statement,
    }


def _differ(state, adjacency, statement):
    """The two adjacencies in words, or by their descriptions where the words are the same (or were not noted)."""
    known = state.get("statement")
    pair = (
        (state["adjacency"], adjacency)
        if known in (None, statement)
        else (known, statement)
    )
    return f"the ledger is about the adjacency: {pair[0]}; got one about: {pair[1]}; {_ONE_EACH}"


def _total(state, guarantee, count):
    """The guarantee of everything charged and of `count` more releases."""
    scope = checked_guarantee(guarantee).scope
    if state["adjacency"] not in (None, scope.adjacency):
        raise ValueError(
            f"guarantee: {_differ(state, scope.adjacency, scope.statement)}"
        )
    added = guarantee.repeated(positive_integer(count, "count"))
    return (
        added
        if state["spent"] is None
        else PrivacyGuarantee.from_dict(state["spent"]) + added
    )
