"""A ledger of what was released: count guarantees against one budget.

A privacy ledger keeps what has been spent, in memory or on a file. Charge before the
release. A charge is recorded as a whole or not at all. One that was acknowledged is never
lost, and the budget is never exceeded, whichever processes, threads and forks share the
file and whenever they are killed, as long as each of them opens it as a ledger only.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

from ..numerics.checks import (
    instance_of,
    positive_integer,
    quoted,
)
from ..numerics.errors import BudgetExceededError
from ..numerics.saved import as_path, encode
from .budget import PrivacyBudget, checked_budget
from .guarantee import (
    SIMULATED,
    PrivacyGuarantee,
    Scope,
    checked_guarantee,
    counted,
    shown,
)
from .hidden import Hidden, checked_hidden
from .store import (
    Change,
    FileStore,
    Kind,
    MemoryStore,
    Snapshot,
    Store,
    another_copy,
    chained_digest,
)

_FORMAT = "privcontrol ledger 4"
_KIND = Kind(
    "privacy ledger",
    0o666,  # less what the process withholds
    "do not release; restore the newest backup, and charge by hand all later releases",
)


class PrivacyLedger:
    """Count guarantees against one budget for one secret.

    ``PrivacyLedger(budget, path)`` makes a file or opens an existing one,
    ``PrivacyLedger.open(path)`` requires an existing one. A chain of digests over the
    charges is verified whenever the file is read, so an emptied, truncated, altered
    or replaced file is refused. A new process cannot distinguish an older copy from the
    newest file, so keep `head` elsewhere and pass it as ``known`` to `open`. Nothing
    protects against somebody who may write the file and wants to deceive.
    Back it up from a process that does not charge it: one that reads the file itself, such
    as by `shutil.copy`, drops its lock, and of two charges at that time one may be lost.

    A charge returns once it is on the disk, after some 10 ms. Charge before a run, and not
    at every sample.

    Parameters
    ----------
    budget : PrivacyBudget, optional
        Budget of all releases together; an existing file's own by default.
    path : str or Path, optional
        SQLite file on a local disk. Without it the ledger lives in this process only, and
        refuses to be pickled, copied or used after a fork.
    adjacency : Adjacency, optional
        The secret; otherwise the first charge fixes it, as it fixes the manifold.

    Raises
    ------
    ValueError
        If the file is empty, altered or no ledger, or holds another budget or another
        adjacency; without a budget, if there is no file.
    TypeError
        If an argument is of another type.
    OSError
        If the file cannot be read or made.

    See Also
    --------
    Gateway, PrivacyBudget, PrivacyGuarantee

    Examples
    --------
    >>> from privcontrol.core import DirectionAdjacency, PrivacyBudget, PrivacyGuarantee
    >>> ledger = PrivacyLedger(PrivacyBudget(epsilon=1.0))
    >>> quarter = PrivacyBudget(epsilon=0.25)
    >>> release = PrivacyGuarantee.black_box(quarter, DirectionAdjacency([[1.0]]))
    >>> ledger.charge(release, note="monthly report", count=3).epsilon(0.0)
    0.75
    >>> ledger.remaining, ledger.can_charge(release, count=2)
    (0.25, False)
    >>> ledger
    PrivacyLedger(PrivacyBudget(epsilon=1.0, delta=0.0), spent epsilon = 0.75 by 1 charge of 3 releases, 0.25 remaining, in memory)
    """

    def __init__(
        self,
        budget: PrivacyBudget | None = None,
        path: str | Path | None = None,
        *,
        adjacency: Hidden | None = None,
    ) -> None:
        if isinstance(budget, (str, Path)):
            raise TypeError(
                f"budget: expected a PrivacyBudget, got {type(budget).__name__}; write "
                "path= for the file"
            )
        if adjacency is not None:
            checked_hidden(adjacency)
        if budget is not None:
            checked_budget(budget)
        if path is not None:
            path = as_path(path).absolute()
        self._store = _store(budget, path)
        state = self._store.snapshot().state
        if state.get("format") != _FORMAT:
            raise ValueError(
                "path: the file holds a privacy ledger that this version cannot read; use "
                "the version that wrote it"
            )
        self._budget = PrivacyBudget(**state["budget"])
        if budget not in (None, self.budget):
            raise ValueError(
                f"budget: the ledger was opened with {self.budget!r}, got {budget!r}; "
                "leave the budget out to take the ledger's, or keep another ledger"
            )
        if adjacency is not None:
            self._store.update(partial(_fixed, Scope.foreign(adjacency)))

    @property
    def budget(self) -> PrivacyBudget:
        """The budget that may be spent."""
        return self._budget

    @classmethod
    def open(cls, path: str | Path, *, known: str | None = None) -> PrivacyLedger:
        """Return the ledger in an existing file, with the file's own budget.

        Parameters
        ----------
        path : str or Path
        known : str, optional
            An earlier `head` of this ledger, kept elsewhere. A file without it is an
            older copy or another ledger, and is refused.

        Returns
        -------
        PrivacyLedger

        Raises
        ------
        FileNotFoundError
            If there is no file.
        ValueError
            If the file is empty, altered, no ledger, or does not hold ``known``.

        Examples
        --------
        >>> import tempfile
        >>> from privcontrol.core import PrivacyBudget
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = folder.name + "/spent.sqlite"
        >>> head = PrivacyLedger(PrivacyBudget(epsilon=1.0), path).head
        >>> PrivacyLedger.open(path, known=head).remaining
        1.0
        """
        path = as_path(path).absolute()
        if not path.is_file():
            raise FileNotFoundError(
                f"path: expected an existing ledger, got none at {str(path)!r}; "
                "PrivacyLedger(budget, path) makes one"
            )
        ledger = cls(None, path)
        if known is None:
            return ledger
        instance_of(known, str, "known", "ledger.head")
        # heads had two parts, before they said how often the file was written
        found = re.fullmatch("([0-9]+):([0-9a-f]+)(?::([0-9]+))?", known)
        if not found:
            raise ValueError(
                "known: expected the head of a ledger, such as ledger.head gave it"
            )
        number, digest, written = found.groups(default="0")
        is_older = ledger._store.snapshot().revision < int(written)
        if is_older or ledger._store.digest(int(number)) != digest:
            raise ValueError(
                "known: the file does not hold this head: it is an older copy, such as a "
                "restored backup, or another ledger. Charge the missing releases before the "
                "next one"
            )
        return ledger

    def charge(
        self,
        guarantee: PrivacyGuarantee,
        note: str = "",
        count: int = 1,
        *,
        identity: str | None = None,
    ) -> PrivacyGuarantee:
        """Record `count` releases of this guarantee before they are made, all or none.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
        note : str, optional
            For the history, stored as it is: keep private values out of it.
        count : int, optional
        identity : str, optional
            Of the release, whose charge is made once however often it is asked for. One
            of another size is refused.

        Returns
        -------
        PrivacyGuarantee
            Of everything charged so far.

        Raises
        ------
        BudgetExceededError
            If the budget does not cover it. No error of these kinds records anything,
            but for one of the disk that says so.
        ValueError
            If the guarantee is about another secret, another charge has the identity,
            or the file was altered.
        TypeError
            If it is no guarantee: for a design or a loop, charge its ``.guarantee``.
        OSError
            If the file cannot be written, for example because the disk is full.
        TimeoutError
            If other processes keep the file busy.
        """
        instance_of(note, str, "note")
        if isinstance(guarantee, PrivacyGuarantee):
            # what further changes show is no business of a sum of releases
            guarantee = replace(guarantee, correlations=None)
        if identity is not None:
            instance_of(identity, str, "identity", "'run 7'")

        name = None if identity is None else f"release {identity}"
        made = {} if name is None else {name: _told(guarantee, count)}

        def charged(known: Snapshot) -> Change | None:
            state = known.state
            if name in known.notes:
                if known.notes != made:
                    raise ValueError(
                        "identity: a charge of this identity was made, for another loss "
                        "or count: give each release an identity of its own"
                    )
                return None
            total = _total(state, guarantee, count)
            if not total.satisfies(self.budget):
                raise BudgetExceededError(
                    f"the charge of {counted(count, 'release')} would raise the total "
                    f"to {self._used(total):.6g}, the budget is {self.budget}; nothing was "
                    "recorded, do not release"
                )
            entry = {
                "time": _now(),
                "note": note,
                "count": int(count),
                "guarantee": guarantee.to_dict(),
                "release": identity,
            }
            about = _about(guarantee.scope)
            return Change(entry, state | about | {"spent": total.to_dict()}, made)

        return PrivacyGuarantee.from_dict(self._store.update(charged, made)["spent"])

    def _reached(self, identity: str) -> tuple[int, str | None]:
        """Return up to which sample a gateway may have published, and its file's mark."""
        name = f"gateway {identity}"
        index, mark = self._store.snapshot([name]).notes.get(name, (0, None))
        return index, mark

    def _reach(self, identity: str, index: int, before: str | None, mark: str) -> None:
        """Note that a gateway may now publish up to a sample, and not beyond it.

        Of the files that hold the mark of the last note, as copies do, one alone makes
        the next.

        Parameters
        ----------
        identity : str
            Of the gateway, ``gateway.identity``.
        index : int
            Index of the last sample that may be published, at least 0.
        before, mark : str
            Mark of the last note, None at the first one, and that of this note.

        Raises
        ------
        PrivacyError
            If the last note has another mark: a copy of the file was faster.
        """
        name = f"gateway {identity}"

        def further(known: Snapshot) -> Change:
            reached, last = known.notes.get(name, (0, None))
            if last != before:
                raise another_copy(reached)
            return Change(None, known.state, {name: (index, mark)})

        self._store.update(further, [name])

    def can_charge(self, guarantee: PrivacyGuarantee, count: int = 1) -> bool:
        """Return whether `charge` would succeed now. Only `charge` reserves anything.

        Parameters and errors as for `charge`.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
        count : int, optional
            Number of releases.

        Returns
        -------
        bool
        """
        state = self._store.snapshot().state
        return _total(state, guarantee, count).satisfies(self.budget)

    @property
    def spent(self) -> PrivacyGuarantee | None:
        """The guarantee of everything charged so far, or None."""
        spent = self._store.snapshot().state["spent"]
        return None if spent is None else PrivacyGuarantee.from_dict(spent)

    @property
    def remaining(self) -> float:
        """The rest of the budget, a number to look at. `can_charge` decides.

        Epsilon at the budget's delta, or the parameter of one further release in GDP.
        """
        used = self._used(self.spent)
        if self.budget.gdp is not None:
            square = self.budget.gdp**2 - used**2
            return max(square, 0.0) ** 0.5
        epsilon, _ = self.budget.pair
        return max(epsilon - used, 0.0)

    def _used(self, spent: PrivacyGuarantee | None) -> float:
        """Return mu of a guarantee, or epsilon at the budget's delta."""
        if spent is None:
            return 0.0
        if self.budget.gdp is not None:
            return spent.gdp
        return spent.epsilon(self.budget.pair[1])

    def _charges(self) -> list[dict[str, Any]]:
        """Return all charges in order."""
        return [entry for entry in self._store.entries() if "guarantee" in entry]

    @property
    def history(self) -> tuple[Any, ...]:
        """All charges in order, as (note, count, guarantee)."""
        return tuple(
            (
                entry["note"],
                entry["count"],
                PrivacyGuarantee.from_dict(entry["guarantee"]),
            )
            for entry in self._charges()
        )

    @property
    def times(self) -> tuple[datetime, ...]:
        """The time of each charge in UTC, by the clock of the process that made it."""
        return tuple(datetime.fromisoformat(entry["time"]) for entry in self._charges())

    def by_period(self, period: str) -> list[tuple[datetime, float]]:
        """Return the loss of each period that has a charge.

        The charges of each period are composed separately: an attacker who sees only
        the releases of one period learns no more. A charge counts when it is made, so a
        run that is published over several periods counts in the first one alone.
        `spent` is about an attacker who collects all periods, and it has no bound if
        every day may spend as much as the one before.

        Parameters
        ----------
        period : str
            Number and unit of time, ``"30min"``, ``"12h"`` or ``"1D"``. Periods follow each
            other from midnight (UTC) before the first charge, by the clocks of the
            processes that made the charges.

        Returns
        -------
        list of (datetime, float)
            Start of each period in UTC, and epsilon at the budget's delta, or mu of a
            budget in ``gdp``.

        Raises
        ------
        ValueError
            If ``period`` is no such time.

        Examples
        --------
        >>> PrivacyLedger(PrivacyBudget(epsilon=1.0)).by_period("1D")
        []
        """
        length = _duration(period)
        found: dict[datetime, PrivacyGuarantee] = {}
        charges = self._charges()  # at once: another process may charge meanwhile
        times = [datetime.fromisoformat(entry["time"]) for entry in charges]
        earliest = min(times, default=datetime.now(UTC))
        first = earliest.replace(hour=0, minute=0, second=0, microsecond=0)
        for charged_at, entry in zip(times, charges, strict=True):
            start = first + (charged_at - first) // length * length
            guarantee = PrivacyGuarantee.from_dict(entry["guarantee"])
            charged = guarantee.released(entry["count"])
            found[start] = found[start] + charged if start in found else charged
        return [(start, self._used(found[start])) for start in sorted(found)]

    @property
    def identity(self) -> str:
        """The name that distinguishes this ledger from any other, and that its copies share."""
        return self._store.snapshot().opening

    @property
    def head(self) -> str:
        """The newest entry's number and digest, and how often the file was written.

        No older state has it: a gateway that publishes further writes to its ledger.
        """
        known = self._store.snapshot()
        return f"{known.number}:{known.digest}:{known.revision}"

    def __reduce__(self) -> tuple[object, ...]:
        if isinstance(self._store, MemoryStore):
            raise TypeError(
                "a ledger in memory cannot be copied or sent to another process; give it a "
                "path"
            )
        return partial(PrivacyLedger.open, known=self.head), (self._store.path,)

    def __repr__(self) -> str:
        where = "in memory"
        if isinstance(self._store, FileStore):
            where = f"at {str(self._store.path)!r}"
        return f"PrivacyLedger({self.budget!r}, {self._account()}, {where})"

    def _account(self) -> str:
        """Return what is spent (rounded up) and left (rounded down), in words."""
        try:
            charges = counted(len(self._charges()), "charge")
            spent = self.spent
            left = shown(self.remaining, ROUND_FLOOR)
        except (OSError, RuntimeError, ValueError) as error:  # a display must not fail
            return f"cannot be read: {type(error).__name__}"
        if spent is None:
            return "nothing spent"
        used = shown(self._used(spent))
        used = f"epsilon = {used}" if self.budget.gdp is None else f"{used}-GDP"
        releases = counted(spent.releases, "release")
        return f"spent {used} by {charges} of {releases}, {left} remaining"


def _store(budget: PrivacyBudget | None, path: Path | None) -> Store:
    """Open or make the store of a ledger, with its first entry."""
    if path is not None and path.exists():
        return FileStore(path, _KIND)
    if budget is None:
        where = "no path of a ledger" if path is None else f"no ledger at {str(path)!r}"
        raise ValueError(
            f"budget: expected a PrivacyBudget for a new ledger, got none and {where} to "
            "take it from"
        )
    opening = {"format": _FORMAT, "budget": budget.to_dict()}
    entry = opening | {"identity": token_hex(16), "time": _now()}
    state: dict[str, Any] = opening | {"spent": None, "adjacency": None}
    if path is None:
        return MemoryStore(_KIND, entry, state)
    store = FileStore(path, _KIND)
    store.create(entry, state)
    return store


def _duration(period: str) -> timedelta:
    """Return the length of a period such as "1D"."""
    units = {"min": "minutes", "h": "hours", "D": "days"}
    found = None
    if isinstance(period, str):
        found = re.fullmatch(r"([1-9][0-9]{0,5})(min|h|D)", period)
    if not found:
        raise ValueError(
            'period: expected a number and a unit of time such as "30min", "12h" or "1D", '
            f"got {quoted(period)}"
        )
    count, unit = found.groups()
    return timedelta(**{units[unit]: int(count)})


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _about(scope: Scope) -> dict[str, Any]:
    """Return what a ledger notes of its adjacency."""
    return {"adjacency": scope.adjacency, "statement": scope.statement}


def _told(guarantee: PrivacyGuarantee, count: int) -> str:
    """Return the digest of a charge's loss and count."""
    loss = checked_guarantee(guarantee).loss
    count = positive_integer(count, "count")
    return chained_digest(str(count), json.dumps(encode(loss), sort_keys=True))


def _fixed(scope: Scope, known: Snapshot) -> Change | None:
    """Note the adjacency, or refuse another one than was fixed before."""
    state = known.state
    _check_secret(state, scope, "adjacency")
    if state["adjacency"] is not None:
        return None
    about = _about(scope)
    return Change({"time": _now(), "about": about}, state | about)


def _check_secret(state: dict[str, Any], scope: Scope, name: str) -> None:
    """Raise an error if the ledger is about another adjacency."""
    if state["adjacency"] in (None, scope.adjacency):
        return
    # by their descriptions if the words are equal
    word = "adjacency" if state["statement"] == scope.statement else "statement"
    raise ValueError(
        f"{name}: the ledger is about the adjacency: {state[word]}; got one about: "
        f"{getattr(scope, word)}; keep one ledger for each secret"
    )


def _total(
    state: dict[str, Any], guarantee: PrivacyGuarantee, count: int
) -> PrivacyGuarantee:
    """Return the guarantee of everything charged and of `count` more releases."""
    scope = checked_guarantee(guarantee).scope
    if scope.released == SIMULATED:
        raise ValueError(
            "guarantee: expected one of a release, got one of a simulation in double "
            "precision, which must not be published: charge the guarantee of the "
            "mechanism, the noise or the loop, and release without rng= or with a Gateway"
        )
    _check_secret(state, scope, "guarantee")
    added = guarantee.released(positive_integer(count, "count"))
    if state["spent"] is None:
        return added
    return PrivacyGuarantee.from_dict(state["spent"]) + added
