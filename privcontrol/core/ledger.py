"""A privacy ledger: what has been spent of a budget, in memory or on a file that outlives its processes.

Charge before the release. A charge is recorded as a whole or not at all; one that was acknowledged is never lost, and
the budget is never exceeded, whichever processes, threads and forks share the file and whenever they are killed.
"""

import json
from dataclasses import asdict
from pathlib import Path

from ._ledger_store import FileStore, MemoryStore
from ._linalg import positive_integer
from .adjacency import Adjacency
from .budget import PrivacyBudget
from .errors import BudgetExceededError
from .guarantee import PrivacyGuarantee

_FORMAT = "privcontrol ledger 1"


class PrivacyLedger:
    """Counts guarantees against one budget for one secret.

    Parameters
    ----------
    budget : PrivacyBudget
        What all releases together may cost.
    path : str or Path, optional
        SQLite file on a local disk; made if it does not exist. Without it the ledger lives in this process only, and
        refuses to be pickled, copied or used after a fork: two copies would spend the budget twice.
    adjacency : Adjacency, optional
        What is hidden; otherwise the first charge fixes it. The first charge fixes manifold and horizon in any case.

    Raises
    ------
    ValueError
        If the file holds another budget or another adjacency, or is no ledger.

    Examples
    --------
    >>> from privcontrol.core import DirectionAdjacency, PrivacyBudget, PrivacyGuarantee
    >>> ledger = PrivacyLedger(PrivacyBudget(epsilon=1.0))
    >>> release = PrivacyGuarantee.black_box(PrivacyBudget(epsilon=0.25), DirectionAdjacency([[1.0]]))
    >>> ledger.charge(release, note="monthly report", count=3).epsilon(0.0), ledger.remaining
    (0.75, 0.25)
    >>> ledger.can_charge(release, count=2)
    False
    """

    def __init__(self, budget, path=None, *, adjacency=None):
        if not isinstance(budget, PrivacyBudget):
            raise TypeError(f"budget: expected a PrivacyBudget, got {type(budget).__name__}")
        if adjacency is not None and not isinstance(adjacency, Adjacency):
            raise TypeError(f"adjacency: expected an Adjacency, got {type(adjacency).__name__}")
        self.budget = budget
        described = None if adjacency is None else json.dumps(adjacency.to_dict(), sort_keys=True)
        self._store = MemoryStore() if path is None else FileStore(Path(path).absolute())
        with self._store.transaction(create=True) as record:
            state = record.load()
            if state is None:
                record.save({"format": _FORMAT, "budget": asdict(budget), "adjacency": described, "spent": None})
                return
            self._check(state)
            if described is not None and state["adjacency"] not in (None, described):
                raise ValueError(f"adjacency: the ledger is about {state['adjacency']}, got {described}; {_ONE_EACH}")
            if described is not None and state["adjacency"] is None:
                record.save(state | {"adjacency": described})

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
            spent = {"adjacency": guarantee.scope.adjacency, "spent": total.to_dict()}
            record.save(state | spent, note, count, guarantee.to_dict())
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
        return tuple((note, count, PrivacyGuarantee.from_dict(guarantee)) for note, count, guarantee in entries)

    def _state(self):
        with self._store.transaction(write=False) as record:
            return self._check(record.load())

    def _check(self, state):
        if state is None or state.get("format") != _FORMAT:
            raise ValueError("path: the file holds no privacy ledger that this version can read; restore it")
        if state["budget"] != asdict(self.budget):
            raise ValueError(f"budget: the ledger was opened with {state['budget']}, got {asdict(self.budget)}")
        return state

    def __reduce__(self):
        if isinstance(self._store, MemoryStore):
            raise TypeError("a ledger in memory cannot be copied or sent to another process; give it a path")
        return PrivacyLedger, (self.budget, self._store.path)

    def __repr__(self):
        where = "in memory" if isinstance(self._store, MemoryStore) else f"at {str(self._store.path)!r}"
        return f"PrivacyLedger({self.budget!r}, {where})"


_ONE_EACH = "keep one ledger for each secret"


def _total(state, guarantee, count):
    """The guarantee of everything charged and of `count` more releases."""
    if not isinstance(guarantee, PrivacyGuarantee):
        raise TypeError(f"guarantee: expected a PrivacyGuarantee, got {type(guarantee).__name__}")
    if state["adjacency"] not in (None, guarantee.scope.adjacency):
        raise ValueError(
            f"guarantee: the ledger is about the adjacency {state['adjacency']}, got one about "
            f"{guarantee.scope.adjacency}; {_ONE_EACH}"
        )
    added = guarantee.repeated(positive_integer(count, "count"))
    return added if state["spent"] is None else PrivacyGuarantee.from_dict(state["spent"]) + added
