"""Publish private outputs for readings, one sample at a time."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..designs.guarantees import guarantee_on_grid
from ..designs.output_noise import OutputNoise
from ..noise.exact import ExactNoise
from ..noise.process import promising
from ..numerics.arguments import helpful_arguments, helpful_fields
from ..numerics.checks import (
    instance_of,
    positive_integer,
    sample_index,
)
from ..numerics.errors import PrivacyError, warn_user
from ..numerics.linalg import round_up
from ..numerics.saved import as_path, decode, encode
from ..privacy.guarantee import EXACTLY, PrivacyGuarantee, released
from ..privacy.ledger import PrivacyLedger
from ..privacy.release import Step, exact_numbers, step_size, step_sizes
from ..privacy.store import FileStore, MemoryStore
from .publisher import FORMAT, KIND, Publisher, Signals

if TYPE_CHECKING:
    import pandas as pd

#: Assumption of a finite horizon on the samples before it.
_ANEW = ("the run begins again with this gateway",)
_CONTINUED = (
    "earlier windows of the run are counted together with this one",
    "times of the secret are counted from the window's first sample",
)
_UNPLANNED_GRID = (
    "resolution: the noise was not designed for readings on a grid, so the gateway "
    "promises less than the noise: print gateway.guarantee; "
)
_COVERED = "pass resolution= to design_output_noise too, with a floor"
_NEVER_COVERED = (
    "noise without a horizon covers no grid, so design for a finite horizon where the "
    "step is not small compared with the noise"
)
_LAST_BITS = "the additional leak of the last bits of readings in floating point"
_REAL_READINGS = "readings that are real numbers and not the doubles next to them"
_FINE_READINGS = (
    "readings whose last bits in floating point are small next to the noise's floor"
)
_SAME_MULTIPLES = (
    "readings in floating point that are published as the same multiples of the grid as "
    "the real numbers next to them"
)
#: Least part of the noise's size that a grid or a floor has if it takes the last bits of
#: readings away. A finer one is near their spacing.
_LEAST_PART = 2.0**-20


@helpful_fields("design_output_noise makes the noise, and load reads it from a file")
class Gateway(Publisher):
    """Publish the outputs of a plant with exact noise, and survive being killed.

    Before its first sample is published the ledger is charged, once however often the
    gateway is resumed. Random bits come from the operating system. They are drawn in
    advance for a block of samples. Before a sample of it is published, the disk has those
    on which other samples depend, and where the block ends. After a crash the gateway
    continues after the last sample that it could have published: no sample is published
    twice, and no noise is drawn again for a sample that may have been published.
    Threads may share a gateway. Processes may not: one process at a time holds the
    file, by a lock on the file ``path.lock`` next to it.

    Parameters
    ----------
    noise : OutputNoise
    path : str or Path, optional
        File on a local disk that keeps the noise, as secret as the plant's outputs; mode
        0600. Over a network two machines may both get its lock, and publish one sample
        with two draws of noise. Without it the gateway ends with its process.
    ledger : PrivacyLedger, optional
        Is charged with ``guarantee`` before the first sample, and records how far the
        gateway has come, with a mark that its file holds too. So it refuses an older
        copy of the file, and if several copies are in use, all but one. A copy of both
        agrees with itself, so keep the ledger elsewhere. From then on the file needs
        this ledger: see `resume`.
    start : int, optional
        Sample of the run at which the noise begins, if the gateway continues a run that
        another one published with noise of its own. Such windows do not add: a
        `Mechanism` with their factors as blocks of one matrix counts them together.
    grid : number or sequence of p numbers, optional
        Publish multiples of this step; by default the nearest doubles. Noise without a
        ``floor`` then assumes, without a ``resolution``, that the last bits of readings
        do not change which multiples these are.
    resolution : number or sequence of p numbers, optional
        Readings are multiples of this step, and others are rounded to the nearest
        multiple. If the noise was not designed for it, ``guarantee`` counts the grid's
        contribution, or says that it does not cover the grid.
    floating : bool, optional
        Accept readings in floating point. The last bits of sums of doubles can exclude
        a neighbour with certainty, so noise that gives no output independent noise of
        its own (a ``floor``) needs a ``resolution`` or a ``grid``. Floors and grids
        count from a millionth of the noise on. Otherwise the guarantee says that it is
        about real numbers only.
    note : str, optional
        For the ledger's history. Keep private values out of it.
    block : int, optional
        Samples in a block, by default as many as are published in about a second, and
        at most 1,024. A crash may cost two blocks.

    Raises
    ------
    FileExistsError
        If the path exists; `resume` continues it.
    OSError
        If the file cannot be made, or if a journal of a deleted file is next to it.
    PrivacyError
        If there is no ``resolution``, and neither a floor nor a ``grid`` of a millionth
        of the noise.
    TypeError, ValueError
        If an argument has another type or value than it should.

    See Also
    --------
    PrivacyLedger, load, PrivateLoop.online

    Examples
    --------
    >>> import privcontrol as pc
    >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=100,
    ...     budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
    ...     adjacency=pc.StateAdjacency({"position": 1.0}))
    >>> with pc.Gateway(noise, grid=0.001) as gateway:
    ...     published = gateway.publish(-20.0)
    >>> published.shape, gateway.remaining
    ((1,), 99)
    """

    def __init__(
        self,
        noise: OutputNoise,
        *,
        path: str | Path | None = None,
        ledger: PrivacyLedger | None = None,
        start: int = 0,
        grid: Step | Sequence[Step] | None = None,
        resolution: Step | Sequence[Step] | None = None,
        floating: bool = False,
        note: str = "",
        block: int | None = None,
    ) -> None:
        instance_of(note, str, "note", "note='line 3'")
        self._prepare(
            noise,
            path,
            ledger,
            start=start,
            grid=grid,
            resolution=resolution,
            floating=floating,
            note=note,
            block=None if block is None else positive_integer(block, "block"),
        )

    def _prepare(
        self,
        noise: OutputNoise,
        path: str | Path | None,
        ledger: PrivacyLedger | None,
        *,
        start: int = 0,
        grid: Step | Sequence[Step] | None,
        resolution: Step | Sequence[Step] | None,
        floating: bool = False,
        **told: str | int | None,
    ) -> None:
        """Bind the guarantee to the grids and the window, and make the store."""
        instance_of(noise, OutputNoise, "noise", "design_output_noise(sys, ...)")
        instance_of(floating, bool, "floating", "floating=True")
        if path is not None and as_path(path).exists():
            raise _taken(as_path(path))
        noise = _in_window(on_grid(noise, resolution), start)
        if resolution is None:
            noise = _beside_last_bits(noise, grid, floating)
        steps = {
            "grid": _texts(grid, "grid", noise.process.outputs),
            "resolution": _texts(resolution, "resolution", noise.process.outputs),
        }
        self._make(noise, path, ledger, told | steps)

    def _make(
        self,
        noise: OutputNoise,
        path: str | Path | None,
        ledger: PrivacyLedger | None,
        told: dict[str, Any],
    ) -> None:
        """Make the store, with what is said of the run in addition to its noise."""
        exact = ExactNoise(noise)  # before a file is made
        signals = _signals(noise)
        # a device without the design draws no noise again until it is within a bound
        recipe = exact.recipe() if noise.kept is None else None
        if recipe is not None:
            recipe = {"signals": encode(list(signals)), "noise": recipe}
        opening = {
            "format": FORMAT,
            "identity": secrets.token_hex(16),
            "note": "",
            "block": None,
            "design": None,
            **told,
            "noise": encode(replace(noise, request=None)),
            "recipe": recipe,
        }
        if exact.room.rule is not None:
            opening["walls"] = exact.room.rule
        state = {
            "charged": ledger is None,
            "committed": 0,  # samples before it may have been published
            "unused": None,  # after a clean end the first sample that was not
            "once": None,
            "ledger": None if ledger is None else ledger.identity,
            "marks": [None],  # the ledger has one of them
        }
        self._noise = noise
        if path is None:
            self._begin(signals, exact, MemoryStore(KIND, opening, state), ledger)
            return
        store = FileStore(as_path(path), KIND)
        if not store.create(opening, state):
            raise _taken(store.path)
        store.hold()
        self._begin(signals, exact, store, ledger)

    @classmethod
    @helpful_arguments
    def resume(
        cls,
        path: str | Path,
        *,
        ledger: PrivacyLedger | None = None,
        known: int | None = None,
        unguarded: bool = False,
    ) -> Gateway:
        """Continue a gateway's file, behind the last sample that it may have published.

        After `close` that is the next one. After a kill it lies behind the block that
        was drawn ahead.

        Parameters
        ----------
        path : str or Path
        ledger : PrivacyLedger, optional
            Is charged before the gateway continues, unless it was charged before. A
            file that was made or continued with a ledger needs that ledger, which knows
            how far the gateway has come: without it a copy of the file would publish
            the same noise again.
        known : int, optional
            An earlier `next_index`, kept elsewhere. A file that is behind it is an
            older copy, and is refused.
        unguarded : bool, optional
            Continue without the ledger that the file needs, or with another one in its
            place. You then guarantee yourself that no copy of the file was used.

        Returns
        -------
        Gateway
            Of the same file, ready for the next reading.

        Raises
        ------
        FileNotFoundError
            If there is no file.
        OSError
            If another process uses it, or it cannot be written.
        PrivacyError
            If the file is behind ``known`` or the ledger, the ledger noted another copy
            of it, or the file needs its ledger and ``unguarded`` is not set.
        ValueError
            If it is no gateway, was altered, or may not have been charged.

        Examples
        --------
        >>> import tempfile, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = folder + "/gateway"
        ...     with pc.Gateway(noise, path=path, grid=0.001) as gateway:
        ...         published = gateway.publish(-20.0)
        ...     with pc.Gateway.resume(path) as gateway:
        ...         print(gateway.next_index)
        1
        """
        instance_of(unguarded, bool, "unguarded", "unguarded=True")
        store = FileStore(as_path(path), KIND)
        if not store.path.is_file():
            raise FileNotFoundError(
                "path: expected the file of a gateway, got none at "
                f"{str(store.path)!r}; Gateway(noise, path=...) makes one. Where a run "
                "goes on, it is another window of it: see start in Gateway"
            )
        try:
            store.hold()
            opening = store.entries()[0]
            if opening.get("format") != FORMAT:
                raise ValueError(
                    "path: expected the file of a gateway of this version, got another "
                    f"one at {path!s}"
                )
            noise = decode(opening["noise"])
            gateway = cls.__new__(cls)
            gateway._noise = noise
            exact = ExactNoise(noise)
            _check_rule(opening, exact.room.rule, path)
            draws = gateway._begin(_signals(noise), exact, store, ledger)
            gateway._check_known(known)
            gateway._check_guard(unguarded)
            gateway._restore(draws)
            if ledger is not None:
                gateway._noted(ledger)
        except BaseException:
            store.close()
            raise
        return gateway

    @property
    def noise(self) -> OutputNoise:
        """The noise that is published."""
        return self._noise

    def _hint(self, name: str) -> str:
        return self._noise.plant_data.elsewhere(name)

    def _charge(self) -> None:
        if self._owes and self._ledger is not None:
            self._ledger.charge(self.guarantee, self._note, identity=self._identity)
            self._owes = False

    def _check_guard(self, unguarded: bool) -> None:
        """Raise an error if the file needs a ledger that is not there."""
        if not self._state["charged"] and self._ledger is None:
            raise ValueError(
                "ledger: the gateway was made with a ledger and may not have been "
                "charged; pass it: Gateway.resume(path, ledger=ledger)"
            )
        needed = self._state["ledger"]
        if needed is None or unguarded:
            return
        if self._ledger is None or self._ledger.identity != needed:
            came = "none" if self._ledger is None else "another one"
            raise PrivacyError(
                "ledger: expected the ledger that this gateway's file was used with, "
                f"which refuses copies of the file, got {came}: pass it "
                "(ledger=ledger; the command's --ledger). If it is lost and no copy of "
                "the file was ever used, say so: unguarded=True (the command's "
                "--unguarded)"
            )

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The promise of the whole run, and its assumptions on the run before it."""
        promise = released(self._noise.guarantee, EXACTLY)
        scope = promise.scope
        if not self._noise.horizon.ends:
            return promise  # the noise begins in its stationary law
        continued = scope.window is not None and scope.window[0] > 0
        clauses = _CONTINUED if continued else _ANEW
        assumptions = (*scope.assumptions, *clauses)
        return replace(promise, scope=replace(scope, assumptions=assumptions))

    def publish_frame(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Publish a table of readings, a row for each sample from the next one on.

        Parameters
        ----------
        frame : pandas.DataFrame
            With the plant's output names as columns. Numbers are values, never counts.

        Returns
        -------
        pandas.DataFrame
            With the same index, and the outputs in the plant's order.

        Raises
        ------
        ValueError
            If columns are missing or more than the outputs, an entry is no finite
            number, or the rows do not fit into the horizon; nothing was published.

        Examples
        --------
        >>> import pandas as pd, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> gateway = pc.Gateway(noise, grid=0.001)
        >>> readings = pd.DataFrame({"y": [1.0, 2.0]})
        >>> gateway.publish_frame(readings).shape
        (2, 1)
        >>> gateway.close()
        """
        names = list(self._noise.plant_data.outputs)
        if not hasattr(frame, "columns"):
            raise TypeError(
                f"frame: expected a pandas.DataFrame, got a {type(frame).__name__}; "
                "publish(y) takes one reading"
            )
        if sorted(frame.columns) != sorted(names):
            raise ValueError(
                f"frame: expected the columns {', '.join(names)}, got others; select "
                "them with frame[[...]]"
            )
        if len(frame) > self.remaining:
            raise ValueError(
                f"frame: expected at most {self.remaining} rows, which are left of the "
                f"horizon, got {len(frame)}"
            )
        # numbers of Python: a column of doubles would round large integers
        columns = [frame[name].tolist() for name in names]
        rows = [list(row) for row in zip(*columns, strict=True)]
        if not _are_numbers(rows):  # outside a handler, so nothing refers to that error
            raise ValueError(
                "frame: expected columns of finite numbers, got an entry that is none; "
                "clean the data first"
            )
        published = [self.publish(row) for row in rows]
        table = np.reshape(published, (len(rows), len(names)))
        return type(frame)(table, index=frame.index, columns=names)

    # --------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return public facts of the gateway: no reading and nothing of the noise.

        Returns
        -------
        dict
            JSON-ready: file, samples, steps, and the guarantee as text.

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> gateway = pc.Gateway(noise, grid=0.001)
        >>> gateway.status()["next_index"]
        0
        >>> gateway.close()
        """
        path = self._store.path
        return {
            "identity": self._identity,
            "path": None if path is None else str(path),
            "next_index": self._next,
            "remaining": self.remaining,
            "grid": self._grid,
            "resolution": self._resolution,
            "charged": self._state["charged"],
            "closed": self._closed,
            "guarantee": str(self.guarantee),
        }

    def __repr__(self) -> str:
        return f"Gateway({self.noise!r}, {self._noise.horizon.left(self._next)})"


def made_for(
    design: str,
    noise: OutputNoise,
    *,
    path: Path,
    ledger: PrivacyLedger | None,
    grid: Step | Sequence[Step] | None,
    resolution: Step | Sequence[Step] | None,
) -> Gateway:
    """Make a gateway whose file names the design file that its noise was certified from.

    ``design`` is the digest of that file. `taken_up` need not certify it again.
    """
    gateway = Gateway.__new__(Gateway)
    gateway._prepare(
        noise, path, ledger, grid=grid, resolution=resolution, design=design
    )
    return gateway


def _are_numbers(rows: list[list[Any]]) -> bool:
    """Return whether a table holds finite numbers alone, and no truth value."""
    try:
        for row in rows:
            exact_numbers(row, "frame")
    except (TypeError, ValueError):  # their texts may show entries
        return False
    return True


def _taken(path: Path) -> FileExistsError:
    return FileExistsError(
        f"path: a gateway exists at {str(path)!r}; Gateway.resume(path) continues it"
    )


def _check_rule(opening: dict[str, Any], rule: str | None, path: str | Path) -> None:
    """Raise an error if a run of blocks began by another rule for their walls."""
    if opening.get("walls") != rule:
        raise ValueError(
            f"path: the run at {path!s} began with a version that keeps blocks within "
            "other walls; where both meet, the noise could pass its bound. End the run "
            "with that version, or begin a new one, which is another release"
        )


def _signals(noise: OutputNoise) -> Signals:
    """Return what a publisher knows of the noise's plant."""
    plant = noise.plant_data
    return Signals(tuple(plant.outputs), plant.step, noise.horizon)


def _beside_last_bits(
    noise: OutputNoise, grid: Step | Sequence[Step] | None, accepted: bool
) -> OutputNoise:
    """Return noise whose guarantee says what it assumes of the last bits of readings.

    A floor covers them where it is large next to them, and a grid rounds almost all of
    them away.
    """
    floors = noise.process.total.white
    least = _LEAST_PART * noise.std
    covered = (floors > 0) & (floors >= least)
    assumed = (_FINE_READINGS,) if covered.any() else ()
    if covered.all():
        return _assuming(noise, assumed)
    steps = np.zeros(len(least))
    if grid is not None:
        steps = np.array([float(each) for each in step_sizes(grid, "grid", len(least))])
    if not (covered | ((steps > 0) & (steps >= least))).all():
        return _in_floating_point(noise, accepted)
    return _assuming(noise, (*assumed, _SAME_MULTIPLES))


def _assuming(noise: OutputNoise, more: tuple[str, ...]) -> OutputNoise:
    """Return noise whose guarantee assumes more."""
    scope = noise.guarantee.scope
    scope = replace(scope, assumptions=(*scope.assumptions, *more))
    return replace(noise, guarantee=replace(noise.guarantee, scope=scope))


def _in_floating_point(noise: OutputNoise, accepted: bool) -> OutputNoise:
    """Return noise whose guarantee is about real numbers, if that is accepted."""
    if not accepted:
        raise PrivacyError(
            "resolution: expected the step of the sensor's readings, got none, and the "
            "noise has no floor: the last bits of readings in floating point exclude a "
            "neighbour with certainty. Pass resolution= or grid= (the command's "
            "--resolution, --grid), design the noise with a floor, or accept it with "
            "floating=True. A floor or a grid counts from a millionth of the noise on"
        )
    scope = noise.guarantee.scope
    scope = replace(
        scope,
        assumptions=(*scope.assumptions, _REAL_READINGS),
        caveats=(*scope.caveats, _LAST_BITS),
    )
    return replace(noise, guarantee=replace(noise.guarantee, scope=scope))


def _in_window(noise: OutputNoise, start: int) -> OutputNoise:
    """The noise with the guarantee of a window that begins at this sample.

    Times of the adjacency are counted from there. A move is another one in each window,
    so guarantees of different windows do not add.
    """
    start = sample_index(start, "start", math.inf)
    if start == 0:
        return noise
    noise.horizon.count(
        "start: noise without a horizon begins in its stationary law at any sample; "
        "leave start out, and the ledger counts each beginning as a release"
    )
    scope = noise.guarantee.scope
    # the promise of the first samples of noise is that of all of them
    window = (start, start + (scope.horizon or noise.horizon))
    scope = replace(scope, window=window)
    return promising(noise, guarantee=replace(noise.guarantee, scope=scope))


def on_grid(
    noise: OutputNoise, resolution: Step | Sequence[Step] | None
) -> OutputNoise:
    """The noise with its guarantee for readings on a grid.

    A grid coarser than the one that the noise was designed for is refused. Of noise
    that was not designed for any the guarantee becomes weaker, with a warning.
    """
    given = None
    if resolution is not None:
        given = step_sizes(resolution, "resolution", noise.process.outputs)
    designed = getattr(noise.request, "resolution", None)
    if designed is None:
        if given is None:
            return noise
        way_out = _COVERED if noise.horizon.ends else _NEVER_COVERED
        warn_user(_UNPLANNED_GRID + way_out)
        steps = round_up([float(step) for step in given])
        return promising(noise, guarantee=guarantee_on_grid(noise, steps))
    allowed = [step_size(step, "resolution") for step in np.ravel(designed).tolist()]
    if given is None:
        raise ValueError(
            "resolution: the noise was designed for readings on a grid; pass its step, "
            f"resolution={[str(step) for step in allowed]}"
        )
    if any(mine > planned for mine, planned in zip(given, allowed, strict=True)):
        raise ValueError(
            "resolution: expected steps no larger than those that the noise was "
            f"designed for, {[str(step) for step in allowed]}, got "
            f"{[str(step) for step in given]}"
        )
    return noise


def _texts(
    steps: Step | Sequence[Step] | None, name: str, outputs: int
) -> list[str] | None:
    """Steps as texts that mean them exactly."""
    if steps is None:
        return None
    return [str(step) for step in step_sizes(steps, name, outputs)]
