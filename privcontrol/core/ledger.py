"""Spend a budget: a ledger of what was released, and releases with public answers.

A privacy ledger keeps what has been spent, in memory or on a file. Charge before the
release. A charge is recorded as a whole or not at all. One that was acknowledged is never
lost, and the budget is never exceeded, whichever processes, threads and forks share the
file and whenever they are killed.

In a run of adaptive releases data arrive in steps (DPAM eq. (11)). After each release
somebody may act on what was published, and the next data depend on it in a known way:
D x + b(Y) = 0, where b(Y) follows from public numbers. Queries and noise may be chosen from
them as well. What was agreed before the first release is the manifold's D, the hidden
moves, and a budget for the whole run.
"""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._linalg import (
    EPS,
    RationalMatrix,
    Seed,
    float_above,
    generator,
    instance_of,
    positive_integer,
    quoted,
    real_array,
    round_up,
)
from ._objects import as_path, encode
from ._store import (
    Change,
    FileStore,
    Kind,
    MemoryStore,
    Snapshot,
    Store,
    chained_digest,
    this_process,
)
from .adjacency import Adjacency, checked_adjacency, checked_manifold
from .budget import PrivacyBudget, checked_budget
from .errors import BudgetExceededError, PrivacyError
from .guarantee import (
    SIMULATED,
    PrivacyGuarantee,
    Scope,
    checked_guarantee,
    counted,
    shown,
)
from .manifold import AffineManifold
from .mechanism import FRESH, LinearQuery, Mechanism, beside, padding_of
from .noise import Noise, family_of
from .release import (
    ENTRIES,
    SYSTEM_BITS,
    BitSource,
    SeededBits,
    StandardEntry,
    Step,
    exact_data,
    exact_product,
    exact_release,
)

_FORMAT = "privcontrol ledger 4"
_KIND = Kind(
    "privacy ledger",
    0o666,  # less what the process withholds
    "do not release; restore the newest backup, and charge by hand what was released "
    "since",
)


class PrivacyLedger:
    """Count guarantees against one budget for one secret.

    ``PrivacyLedger(budget, path)`` makes a file or opens an existing one,
    ``PrivacyLedger.open(path)`` requires an existing one. A chain of digests over the
    charges is verified whenever the file is read, so an emptied, truncated, altered
    or replaced file is refused. A new process cannot tell an older copy from the newest
    file, so keep `head` elsewhere and pass it as ``known`` to `open`. Nothing helps
    against somebody who may write the file and wants to deceive.

    A charge returns once it is on the disk, after some 10 ms. Charge before a run, and not
    at every sample.

    Parameters
    ----------
    budget : PrivacyBudget, optional
        What all releases together may cost; an existing file's own by default.
    path : str or Path, optional
        SQLite file on a local disk. Without it the ledger lives in this process only, and
        refuses to be pickled, copied or used after a fork.
    adjacency : Adjacency, optional
        What is hidden; otherwise the first charge fixes it, as it fixes the manifold.

    Raises
    ------
    ValueError
        If the file is empty, altered or no ledger, or holds another budget or another
        adjacency; without a budget, if there is no file.
    TypeError
        If an argument is of another type.
    OSError
        If the file cannot be read or made.

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
        adjacency: Adjacency | None = None,
    ) -> None:
        if isinstance(budget, (str, Path)):
            raise TypeError(
                f"budget: expected a PrivacyBudget, got {type(budget).__name__}; write "
                "path= for the file"
            )
        if adjacency is not None:
            checked_adjacency(adjacency)
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
        number, _, digest = known.partition(":")
        if not (number.isdecimal() and digest):
            raise ValueError(
                "known: expected the head of a ledger, such as ledger.head gave it"
            )
        if ledger._store.digest(int(number)) != digest:
            raise ValueError(
                "known: the file does not hold this head: it is an older copy, such as a "
                "restored backup, or another ledger. Charge what is missing before anything "
                "is released"
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
            If the budget does not cover it. No error records anything.
        ValueError
            If the guarantee is about another secret, the identity is that of another
            charge, or the file was altered.
        TypeError
            If it is no guarantee: of a design or a loop charge its ``.guarantee``.
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
                    f"the charge of {counted(count, 'release')} would raise what is spent "
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

    def reached(self, identity: str) -> tuple[int, str | None]:
        """Return up to which sample a gateway may have published, and its file's mark."""
        name = f"gateway {identity}"
        index, mark = self._store.snapshot([name]).notes.get(name, (0, None))
        return index, mark

    def reach(self, identity: str, index: int, before: str | None, mark: str) -> None:
        """Note that a gateway may now publish up to a sample, and not beyond it.

        Of the files that hold the mark of the last note, as copies do, one alone makes
        the next.

        Parameters
        ----------
        identity : str
            Of the gateway.
        index : int
            How far it comes now.
        before : str or None
            The mark of the last note, None for the first one.
        mark : str
            A fresh one, which the gateway's file already holds.

        Raises
        ------
        PrivacyError
            If the last note has another mark: a copy of the file was faster.
        """

        instance_of(identity, str, "identity", "gateway.identity")
        place = positive_integer(index, "index", zero=True)
        for given in (mark,) if before is None else (before, mark):
            instance_of(given, str, "mark", "secrets.token_hex(16)")
        name = f"gateway {identity}"

        def further(known: Snapshot) -> Change:
            reached, last = known.notes.get(name, (0, None))
            if last != before:
                raise another_copy(reached)
            return Change(None, known.state, {name: (place, mark)})

        self._store.update(further, [name])

    def can_charge(self, guarantee: PrivacyGuarantee, count: int = 1) -> bool:
        """Return whether `charge` would succeed now. Only `charge` reserves anything.

        Parameters and errors are those of `charge`.
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

    def _charges(self) -> list[dict]:
        """Return all charges in order."""
        return [entry for entry in self._store.entries() if "guarantee" in entry]

    @property
    def history(self) -> tuple:
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
        """Return what was spent in each period in which something was charged.

        The charges of a period are composed with each other alone, which is what an
        attacker learns who sees this period alone. `spent` is about one who collects
        them all, and it has no bound if every day may spend as much as the one before.

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
        times = self.times
        for charged_at, (_, count, guarantee) in zip(times, self.history):
            first = min(times).replace(hour=0, minute=0, second=0, microsecond=0)
            start = first + (charged_at - first) // length * length
            charged = guarantee.released(count)
            found[start] = found[start] + charged if start in found else charged
        return [(start, self._used(found[start])) for start in sorted(found)]

    @property
    def identity(self) -> str:
        """The name that tells this ledger from any other, and that its copies share."""
        return self._store.snapshot().opening

    @property
    def head(self) -> str:
        """The number and the digest of the newest entry, which no older state has."""
        known = self._store.snapshot()
        return f"{known.number}:{known.digest}"

    def __reduce__(self) -> tuple:
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


def another_copy(reached: int) -> PrivacyError:
    """Return the error for a gateway's file that is not the one that went on."""
    return PrivacyError(
        f"path: this file does not agree with what is known of it, that samples up to "
        f"{reached} may have been published: another copy of it went on and this is an "
        "older copy, or the ledger is. "
        "Resume the newest file with the newest ledger; if it is lost, a new gateway "
        "continues the run (start=...)"
    )


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
    state: dict = opening | {"spent": None, "adjacency": None}
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


def _about(scope: Scope) -> dict:
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


def _check_secret(state: dict, scope: Scope, name: str) -> None:
    """Raise an error if the ledger is about another adjacency."""
    if state["adjacency"] in (None, scope.adjacency):
        return
    # by their descriptions if the words are equal
    word = "adjacency" if state["statement"] == scope.statement else "statement"
    raise ValueError(
        f"{name}: the ledger is about the adjacency: {state[word]}; got one about: "
        f"{getattr(scope, word)}; keep one ledger for each secret"
    )


def _total(state: dict, guarantee: PrivacyGuarantee, count: int) -> PrivacyGuarantee:
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


# -- releases with public answers in between -----------------------------------------

_PUBLIC_ANSWERS = (
    "the offsets, the queries and the noise of each step were computed from what was "
    "published before, and from nothing else of the data"
)

_DRAWN_ONCE = "the noise drawn once for the run"

#: Relative size up to which data may miss a constraint by rounding.
_ON_MANIFOLD = 1e-9

#: Relative share of what remains that is left to the rounding of shifts.
_SHARE_OF_ROUNDING = 1e-11


class AdaptiveReleases:
    """Release data, take a public answer and the next data, under one budget.

    Two runs that publish the same numbers differ by a tangent move z of the manifold,
    for any answers b(Y). A release shows Lambda^+ F N z of it, which is added
    up for each hidden move (squared for Gaussian noise). Where eta is drawn once, the
    releases are one, with their F and Lambda stacked, as in the paper. A release that
    would take a move beyond the budget is refused, so the budget holds for the whole run,
    even where an adversary chooses queries and noise.

    Parameters
    ----------
    manifold : AffineManifold
        All data of the run, made of constraints D. Its own b is not used: each offset
        arrives with the data. With `trajectory_manifold` the data of a release are the
        state x(t) (n,), and the offset is B u(t-1).
    adjacency : Adjacency
        The moves to be hidden.
    budget : PrivacyBudget
        For everything that is published in the run.
    family : {"gaussian", "laplace"}, optional
        Of the noise of all releases. Laplace noise uses epsilon only.
    fresh : bool, optional
        Whether each release draws its own eta. If not, it is drawn once, at the first
        release, and release t brings its factor Lambda_t (m_t, r), always with the same r.

    The draw and what is left of the budget stay in this object: a copy, a pickle and a
    fork publish nothing more.

    Attributes
    ----------
    published : tuple of ndarray

    Raises
    ------
    ValueError
        If the manifold was made of a kernel and is no trajectory's, or no noise of the
        family meets the budget.
    TypeError
        If an argument is of another type.

    References
    ----------
    DPAM, eq. (11), offsets b(Y). Smith and Thakurta (2022), arXiv 2210.17520, the filter.

    Examples
    --------
    A shop hides its stock to ten units. A supplier sees noisy levels only.

    >>> from privcontrol.core import *
    >>> days = AffineManifold([[-1.0, 1.0]])  # stock on day 1 = day 0 + delivery
    >>> secret = DirectionAdjacency([[10.0], [10.0]])
    >>> run = AdaptiveReleases(days, secret, PrivacyBudget(epsilon=1.0, delta=1e-2))
    >>> run.extend([120.0])
    >>> level = run.release([[1.0]], GaussianNoise([30.0]), rng=0)
    >>> delivery = max(0.0, 150.0 - level.item())
    >>> run.extend([120.0 + delivery], offset=[-delivery])
    >>> again = run.release([[0.0, 1.0]], GaussianNoise([30.0]), rng=1)
    >>> round(run.spent, 4), round(run.remaining, 4)
    (0.4714, 0.2477)

    One number of noise hides all days as well as the first (with 1e-9 left for rounding):

    >>> run = AdaptiveReleases(days, secret, PrivacyBudget(gdp=0.5), fresh=False)
    >>> run.extend([120.0])
    >>> level = run.release([[1.0]], GaussianNoise([[20.01]]), rng=0)
    >>> delivery = max(0.0, 150.0 - level.item())
    >>> run.extend([120.0 + delivery], offset=[-delivery])
    >>> again = run.release([[0.0, 1.0]], GaussianNoise([[20.01]]), rng=0)
    >>> round(run.spent, 4), abs(again - level - delivery).item() < 1e-4
    (0.4998, True)
    """

    def __init__(
        self,
        manifold: AffineManifold,
        adjacency: Adjacency,
        budget: PrivacyBudget,
        *,
        family: str = "gaussian",
        fresh: bool = True,
    ) -> None:
        given = checked_manifold(manifold)._constraint is not None
        if not given and manifold.horizon is None:
            raise ValueError(
                "manifold: expected one made of constraints, AffineManifold(D), got one "
                "made of a kernel; the offsets b(Y) belong to the rows of D"
            )
        self._fresh = instance_of(fresh, bool, "fresh")
        self._eta: list[StandardEntry] = []
        self._source: BitSource = SYSTEM_BITS
        self._stack: Mechanism | None = None
        self._owner = this_process()
        self._turn = threading.Lock()
        self._family = family_of(family)
        self._manifold = manifold
        self._adjacency = checked_adjacency(adjacency)
        self._moves = adjacency.moves(manifold)
        self._limit = self._family.allowed_shift(checked_budget(budget))
        self._shown = np.zeros(1)
        self._data = np.zeros(0)
        self._published: list[NDArray] = []

    def __repr__(self) -> str:
        left = shown(self.remaining, ROUND_FLOOR)
        return (
            f"AdaptiveReleases({len(self._data)} of {self._manifold.size} entries there, "
            f"{len(self._published)} releases, {left} remaining)"
        )

    def __getstate__(self) -> dict[str, Any]:
        kept = set(self.__dict__) - {"_eta", "_source", "_moves", "_turn"}
        return {name: self.__dict__[name] for name in kept} | {"_owner": None}

    @property
    def published(self) -> tuple[NDArray, ...]:
        """The releases so far, in order."""
        return tuple(release.copy() for release in self._published)

    @property
    def spent(self) -> float:
        """Largest shift that the releases so far show of a hidden move, rounded up."""
        return self._size(self._shown)

    @property
    def remaining(self) -> float:
        """Shift that one more release may show of any hidden move, rounded down."""
        norm = self._family.shift_norm
        rest = max(0.0, self._limit**norm - float(self._shown.max()))
        return rest ** (1 / norm) * (1 - _SHARE_OF_ROUNDING)

    def extend(self, entries: ArrayLike, offset: ArrayLike = ()) -> None:
        """Take in the next private ``entries`` (k,) of the data.

        Parameters
        ----------
        entries : array_like, shape (k,)
        offset : array_like, shape (q,)
            b(Y) of the constraints whose last entry is among these, in the order of D's
            rows. It is public, computed from `published` alone.

        Raises
        ------
        ValueError
            If there are more entries than the manifold has, the offset has another
            length, or the data miss a constraint. No message holds an entry.
        """
        fresh = real_array(entries, "entries")
        start = len(self._data)
        left = self._manifold.size - start
        if fresh.ndim != 1 or not 0 < len(fresh) <= left:
            raise ValueError(
                f"entries: expected between 1 and {left} entries in one dimension, got "
                f"shape {fresh.shape}"
            )
        horizon = self._manifold.horizon
        if horizon is not None and horizon * len(fresh) != self._manifold.size:
            raise ValueError(
                f"entries: expected the {self._manifold.size // horizon} states of one "
                f"sample, got {len(fresh)}"
            )
        data = np.concatenate([self._data, fresh])
        # the constraints whose last entry is among the new ones
        D = self._manifold.D
        later = [(D[:, end:] != 0).any(axis=1) for end in (start, len(data))]
        rows = D[later[0] & ~later[1]]
        known = real_array(offset, "offset", shape=(len(rows),))
        terms = rows[:, : len(data)] * data
        missed = np.abs(terms.sum(axis=1) + known)
        sizes = np.abs(terms).sum(axis=1) + np.abs(known)
        if (missed > _ON_MANIFOLD * sizes).any():
            raise ValueError(
                "entries: off the manifold D x + b = 0 (D x = c is b = -c): the guarantee "
                "does not cover them; check D and the offset"
            )
        self._data = data

    def release(
        self,
        F: ArrayLike,
        noise: Noise,
        *,
        rng: int | np.random.SeedSequence | np.random.Generator | None = None,
        grid: Step | None = None,
    ) -> NDArray:
        """Publish F x + gamma of the entries so far, if the budget allows it.

        Parameters
        ----------
        F : array_like, shape (m, k)
            One column for each entry that is there, or for each state of the last sample
            of a trajectory. Public, as is the noise.
        noise : GaussianNoise or LaplaceNoise
        rng, grid
            As for `Mechanism.release`.

        Returns
        -------
        ndarray, shape (m,)

        Raises
        ------
        BudgetExceededError
            If the release would take a hidden move beyond the budget. Nothing was
            published.
        NotRealizableError
            If the noise misses a protected direction.
        ValueError
            If F or the noise does not fit; or if only some releases of one draw have rng.
        PrivacyError
            If this is a copy of a run, or that of a process before a fork.
        """
        if self._owner != this_process():
            raise PrivacyError(
                "this copy of a run has neither its noise nor its budget; publish with the "
                "object that made the first release, in its own process"
            )
        with self._turn:
            return self._release(F, noise, rng, grid)

    def _release(
        self,
        F: ArrayLike,
        noise: Noise,
        rng: int | np.random.SeedSequence | np.random.Generator | None,
        grid: Step | None,
    ) -> NDArray:
        """Publish F x + gamma, while no other thread does."""
        data = self._data  # all that is there now
        matrix, judged, shown = self._with(F, noise, len(data))
        size = self._size(shown)
        if size > self._limit:
            raise BudgetExceededError(
                f"this release would show {size:.4g} of a hidden move, in units of the "
                f"noise, and the budget allows {self._limit:.4g}; publish less, or with "
                "more noise"
            )
        if not self._fresh:
            self._draw_once(noise.factor.shape[-1], rng)
        # What fails from here on counts as published.
        self._shown = shown
        self._stack = judged
        data = data[len(data) - matrix.shape[1] :]
        if self._fresh:
            mechanism = Mechanism(LinearQuery(matrix), noise)
            answer = mechanism.release(data, rng=rng, grid=grid)
        else:
            exact, _ = exact_data(data, "entries")
            column = RationalMatrix(len(exact), 1, exact)
            answer = exact_release(
                exact_product(matrix, column).entries(),
                beside(noise.factor, padding_of(noise)),
                noise.family,
                grid=grid,
                source=self._source,
                eta=self._eta,
            )
        self._published.append(answer)
        return answer.copy()

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The promise of the whole run, however its releases are chosen: the budget."""
        loss = self._family.loss_of_size(self._limit)
        draws = FRESH if self._fresh else _DRAWN_ONCE
        scope = Scope.of(
            self._adjacency, self._manifold, assumptions=(draws, _PUBLIC_ANSWERS)
        )
        quoted = self._family.quoted_delta
        return PrivacyGuarantee(loss, scope, quoted_delta=quoted)

    def _draw_once(self, count: int, rng: Seed) -> None:
        """Draw eta before the first release, and see that later ones are of its kind."""
        if self._stack is None:
            if rng is not None:
                self._source = SeededBits(generator(rng))
            entry = ENTRIES[self._family.family]
            self._eta = [entry(self._source) for _ in range(count)]
        if isinstance(self._source, SeededBits) != (rng is not None):
            raise ValueError(
                "rng: a run that draws its noise once is released exactly, without rng, "
                "or simulated with an rng in every release"
            )

    def _with(
        self, F: ArrayLike, noise: Noise, count: int
    ) -> tuple[NDArray, Mechanism, NDArray]:
        """Return F, what a release is judged by, and what moves would have shown after it.

        It is about the first ``count`` entries, and is judged by itself, or by all releases
        so far where they share a draw.
        """
        horizon = self._manifold.horizon
        width = count if horizon is None else self._manifold.size // horizon
        matrix = real_array(F, "F", shape=(None, min(width, count)))
        if not isinstance(noise, self._family):
            raise TypeError(
                f"noise: expected {self._family.__name__}, the family of this run, got "
                f"{type(noise).__name__}"
            )
        padded = np.zeros((len(matrix), self._manifold.size))
        padded[:, count - matrix.shape[1] : count] = matrix
        judged = Mechanism(LinearQuery(padded, self._manifold), noise)
        shown_before = self._shown
        if not self._fresh:
            judged = self._stacked(judged)
            shown_before = np.zeros(1)
        shifts = self._moves.enlarged(*judged.shifts(self._moves))
        norm = self._family.shift_norm
        sizes = self._moves.sizes(shifts, norm) * (1 + 2 * EPS)
        return matrix, judged, round_up(shown_before + sizes**norm, 2)

    def _stacked(self, release: Mechanism) -> Mechanism:
        """Return all releases so far, and this one, as one release of the same eta."""
        factor = release.noise.factor
        before = self._stack
        width = factor.shape[-1] if before is None else before.noise.factor.shape[-1]
        if factor.ndim != 2 or factor.shape[1] != width:
            raise ValueError(
                "noise: expected a factor Lambda_t (m, r) with the run's number of "
                f"columns, {width}, got shape {factor.shape}; noise drawn once has one r"
            )
        if before is None:
            return release
        queries = np.vstack([before.query.matrix, release.query.matrix])
        factors = np.vstack([before.noise.factor, factor])
        return Mechanism(LinearQuery(queries, self._manifold), self._family(factors))

    def _size(self, shown: NDArray) -> float:
        """Return the largest shift of sums that `_with` made, rounded up."""
        largest = float(shown.max())
        if self._family.shift_norm == 1 or largest == 0:
            return largest
        return float_above(np.sqrt(largest))
