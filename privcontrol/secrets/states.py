"""State adjacency: which states may move at which times by how much.

"Entry k of the state at time j moves by at most mu_k, the others at that time held" is the
move z = mu_k A^-j e_k of the initial state (DPAM Theorem 3, eq. (22)). It names its charts
and is not all of DPAM's Definition 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.adjacency import Adjacency, Radius, listed, public_radius
from ..core.manifold import AffineManifold, EllipsoidMoves, FiniteMoves, Moves
from ..numerics.arguments import helpful_fields
from ..numerics.balls import (
    rational_matrix,
)
from ..numerics.checks import one_of, sequence_of
from ..numerics.objects import CheckedFields
from ..privacy.hidden import rounded_down
from ..systems.linear import LinearSystem, Plant, stacks_of
from ..systems.powers import delayed_inputs, delayed_outputs
from ..systems.varying import VaryingPlant
from .secret import Secret, SecretInputs, UncertainMoves
from .state_moves import StateMoves
from .trajectory import TrajectoryManifold, trajectory_manifold
from .varying import VaryingMoves


def _check_movable(plant: Plant, index: Sequence[int]) -> None:
    """Make sure that the protected states can be moved on their own at every time.

    Delays cannot: at t > 0 they are what entered, or what was read, before. The other
    states can if A is nonsingular on them.

    Raises
    ------
    ValueError
        If they cannot.
    """
    entered = delayed_inputs(plant.A)
    read = delayed_outputs(plant.A)
    kinds = ((entered, "input", "entered"), (read, "output", "was read"))
    for delays, kind, what in kinds:
        fixed = [plant.states[k] for k in index if delays[k]]
        if fixed:
            is_one = len(fixed) == 1
            those = f"a delayed {kind}" if is_one else f"delayed {kind}s"
            it_is = "it is" if is_one else "they are"
            raise ValueError(
                f"{listed(fixed, 'others', 'and')}: {those}, at t > 0 {it_is} what {what} "
                "before. Protect a disturbance (DisturbanceAdjacency), or the initial state "
                "(StateAdjacency(..., times=0)), and name the other states here"
            )
    others = np.flatnonzero(~entered & ~read)
    if rational_matrix(plant.A[np.ix_(others, others)]).det() == 0:
        raise ValueError(
            f"A of {plant.name} is singular beyond its delays: a state at t > 0 cannot "
            "always be moved on its own, and A^-1 does not exist. Protect the initial state "
            "(StateAdjacency(..., times=0) or InitialStateAdjacency), or a "
            "disturbance (DisturbanceAdjacency)"
        )


class PlantAdjacency(CheckedFields, Secret):
    """Base of frozen dataclasses about signals of a plant that move by a radius.

    A subclass names the field that chooses signals, and calls `_check_fields` on
    construction.
    """

    radius: Radius
    times: tuple[int, ...] | None = None

    #: Name of the field that chooses signals, and what it chooses.
    _field: ClassVar[str]
    _signals: ClassVar[str]

    def _saved_fields(self) -> dict[str, object]:
        """Return the fields, with the order of a mapping's names, which JSON has not."""
        order = list(self.radius) if isinstance(self.radius, Mapping) else None
        return super()._saved_fields() | {"signals": order}

    @classmethod
    def _restored(cls, saved: dict[str, Any]) -> Self:
        order = saved.pop("signals", None)  # schema 2 has none
        if order is not None:
            radius = saved["radius"]
            if sorted(order) != sorted(radius):
                raise ValueError("signals: expected the names that have a radius")
            saved["radius"] = {name: radius[name] for name in order}
        return cls(**saved)

    @property
    def _chosen(self) -> tuple[str | int, ...] | None:
        """The signals that move, None for all of them."""
        return getattr(self, self._field)

    def _check_fields(self) -> None:
        """Bring radius, times and the chosen names into their public form."""
        if isinstance(self.radius, str):
            raise TypeError(
                f"radius: expected a number, got a name; with its radius, {self.radius!r} "
                f"is written {{{self.radius!r}: 0.05}}"
            )
        self._set(radius=public_radius(self.radius))
        if self.times is not None:
            self._set(times=_sample_indices(self.times))
        if self._chosen is None:
            return
        self._set(**{self._field: _labels_of(self._chosen, self._field)})
        if isinstance(self.radius, Mapping):
            raise ValueError(
                f"radius already names the {self._signals}; drop {self._field}, or pass "
                "an array of radii"
            )

    def _positions(
        self,
        labels: tuple[str, ...],
        numbered: int,
        unknown: str,
        elsewhere: Callable[[object], str],
        inputs: tuple[str, ...] = (),
    ) -> list[int]:
        """Positions among labels, of which the first so many may be given by number.

        Keys of a mapping of radii are text, also where they were given as numbers. What
        is ``unknown`` may be the name of something else in the plant.
        """
        given = self._chosen
        what = self._field
        if isinstance(self.radius, Mapping):
            given = tuple(self.radius)
            what = "radius"
        index = []
        for name in labels[:numbered] if given is None else given:
            is_number = str(name).isdecimal() and (
                what == "radius" or not isinstance(name, str)
            )
            place = int(name) if is_number else -1
            if name in labels:
                if labels.count(name) > 1:
                    raise ValueError(
                        f"{what}: {name!r} is the name of two signals of the plant; give "
                        "them different names"
                    )
                if is_number and place != labels.index(name):
                    raise ValueError(
                        f"{what}: {name!r} is the name of number {labels.index(name)}; "
                        "rename the signals of the plant, so none is called by a "
                        "number"
                    )
                place = labels.index(name)
            elif not 0 <= place < numbered:
                hint = elsewhere(name)
                if name in inputs:
                    hint = (
                        f"; it is an input: DisturbanceAdjacency({{{name!r}: ...}}) hides "
                        "changes there"
                    )
                raise ValueError(f"{what}: {name!r} {unknown}{hint}")
            index.append(place)
        if len(set(index)) < len(index):
            raise ValueError(
                f"{what}: one of the {self._signals} is named twice; name each one once"
            )
        return index

    def _radii(self, count: int) -> NDArray[np.float64]:
        """Radii (count,) of the signals that move."""
        radii = self.radius
        if isinstance(radii, Mapping):
            radii = tuple(radii.values())
        elif not isinstance(radii, tuple):
            radii = (radii,) * count
        if not count:
            raise ValueError(
                f"radius: expected at least one of the {self._signals}, got none"
            )
        if len(radii) != count:
            raise ValueError(
                f"radius: expected {count} radii, one for each of the {self._signals}, "
                f"got {len(radii)}"
            )
        return np.array(radii)

    def _times_within(self, horizon: int) -> NDArray[np.intp]:
        """Protected sample indices within a horizon, by default all of them."""
        if self.times is None:
            return np.arange(horizon)
        if self.times[-1] >= horizon:
            raise ValueError(
                f"times: expected sample indices below the horizon {horizon}, "
                f"got {self.times[-1]}"
            )
        return np.array(self.times)

    @property
    def _when(self) -> str:
        """Protected sample indices in words."""
        times = self.times
        if times is None:
            return "the run"
        if len(times) > 2 and times == tuple(range(times[0], times[-1] + 1)):
            return f"t = {times[0]}..{times[-1]}"
        return f"t = {', '.join(map(str, times))}"

    @property
    def _once(self) -> str:
        """Return the one time of a move in words."""
        if self.times is None:
            return "at any one time"
        return f"at one of {self._when}" if len(self.times) > 1 else f"at {self._when}"

    def _sizes(self, every: str) -> str:
        """Which signals move by how much, in words, where ``every`` means all."""
        if isinstance(self.radius, Mapping):
            alike: dict[float, list[str]] = {}
            for name, mu in self.radius.items():
                alike.setdefault(mu, []).append(str(name))
            return " or ".join(
                f"{' or '.join(names)} by at most {rounded_down(mu)}"
                for mu, names in alike.items()
            )
        if self._chosen is not None:
            every = " or ".join(map(str, self._chosen))
        if isinstance(self.radius, tuple):
            return f"{every} by at most {list(self.radius)}"
        return f"{every} by at most {rounded_down(self.radius)}"

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {"type": type(self).__name__}
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, tuple):
                value = [np.asarray(part).tolist() for part in value]
            data[each.name] = value
        return data


def _labels_of(given: object, name: str) -> tuple[Any, ...]:
    """Names or indices as a tuple, from one of them or a sequence."""
    if isinstance(given, (str, int, np.integer)):
        return (given,)
    labels = sequence_of(given, name, "names or indices")
    for label in labels:
        if not isinstance(label, (str, int, np.integer)):
            raise TypeError(
                f"{name}: expected names or indices, got {type(label).__name__}"
            )
    return tuple(labels)


def _sample_indices(times: ArrayLike) -> tuple[int, ...]:
    """Protected times as a sorted tuple of sample indices."""
    try:
        given = np.atleast_1d(np.asarray(times))
    except Exception:  # an array's own text may show what it holds
        given = np.empty(0)
    if not given.size or given.dtype.kind not in "iu" or given.min() < 0:
        shown = type(times).__name__
        if given.dtype.kind in "iuf" and given.size:
            shown = repr(times)
        if given.dtype.kind == "f":
            shown += "; to get indices from seconds divide by dt"
        raise ValueError(
            "times: expected sample indices >= 0, such as 0 or range(10), got " + shown
        )
    return tuple(np.unique(given).tolist())


class _OfStates(PlantAdjacency):
    """Hold what adjacencies about states share."""

    states: tuple[str | int, ...] | None = None
    _field = "states"
    _signals = "protected states"

    def _trajectory(self, manifold: AffineManifold) -> TrajectoryManifold:
        if not isinstance(manifold, TrajectoryManifold):
            raise TypeError(
                f"{type(self).__name__} is about a plant's trajectory; use it with "
                f"output_query or trajectory_manifold, not with {type(manifold).__name__}"
            )
        return manifold

    def _index_and_radii(self, plant: Plant) -> tuple[list[int], NDArray[np.float64]]:
        """Positions and radii of the protected states."""
        if not plant.order:
            raise ValueError(
                "adjacency: the plant has no states that could be secret; protect its inputs "
                "with a DisturbanceAdjacency"
            )
        unknown = f"is no state of the plant; known states: {', '.join(plant.states)}"
        if plant.states == tuple(f"x[{k}]" for k in range(plant.order)):
            unknown += (
                "; name them in ct.ss(..., states=[...]), or by copy_names=True where "
                "linearize made the plant"
            )
        index = self._positions(
            plant.states, plant.order, unknown, plant.elsewhere, plant.inputs
        )
        return index, self._radii(len(index))

    def entering(self, plant: Plant) -> SecretInputs:
        return self.starting(plant, 1)

    def _moves_at_first_sample(self, plant: Plant) -> NDArray[np.float64]:
        """Return columns mu_k e_k (n, q) by which the protected states move at t = 0."""
        index, radii = self._index_and_radii(plant)
        return np.eye(plant.order)[:, index] * radii

    def caveats(self, manifold: Any) -> tuple[str, ...]:
        plant = manifold.plant
        index, _ = self._index_and_radii(plant)
        rest = [name for k, name in enumerate(plant.states) if k not in index]
        clauses = self._together(plant, len(index))
        if self.times is not None:
            clauses.append("moves at other times")
        if rest:
            clauses.append(f"moves of {', '.join(rest)}")
        return tuple(clauses)

    def _together(self, plant: Plant, states: int) -> list[str]:
        """Return which moves of several entries at once are not hidden."""
        return []


@helpful_fields("a state is named in a mapping: StateAdjacency({{'{unknown}': 1.0}})")
@dataclass(frozen=True, eq=False)
class StateAdjacency(_OfStates):
    """Hide moves of one state at one time by at most its radius, the others held.

    Two trajectories are adjacent if they obey the same dynamics and inputs and, at some
    protected time j, differ in one protected state k only, by at most mu_k. At all other
    times they differ as the dynamics demand. These are the T block charts of DPAM Theorem 3
    (eq. (22)). Definition 4 has more, such as {p(0), p(1)} for a vehicle, which moves its
    velocity by mu / T_s.

    At t > 0 the states of a delay are not held: delayed inputs do not differ, and
    delayed outputs differ as the other states did before, also before the first sample.
    At t = 0 the guarantee covers delayed outputs that are held and delayed outputs that
    differ in this way; with ``times=0`` alone only those that are held.

    Parameters
    ----------
    radius : float, array_like or mapping
        Largest move mu in the units of the state, one for all protected states or one for
        each. A mapping by name protects the named states only.
    states : sequence of str or int, optional
        Protected states, all by default.
    times : int or sequence of int, optional
        Protected times j as sample indices, all of 0 .. T-1 by default.
    charts : {"times", "all"}, optional
        Which sets of entries move freely: the state at one time, or every free set as
        in Definition 4, which is discontinuous in A.

    Raises
    ------
    ValueError
        If a radius is not positive, a state is unknown, a time is outside the horizon, or
        a protected state at t > 0 is a delay or of a singular part of A.

    See Also
    --------
    InitialStateAdjacency, DisturbanceAdjacency, design_output_noise

    Examples
    --------
    >>> import privcontrol as pc
    >>> pc.StateAdjacency({"position": 1.0}).statement
    'position by at most 1 at any one time, the other states at that time held'
    """

    radius: Radius
    states: tuple[str | int, ...] | None = None
    times: tuple[int, ...] | None = None
    charts: str = "times"

    def __post_init__(self) -> None:
        one_of(self.charts, "charts", ("times", "all"))
        self._check_fields()

    def moves(self, manifold: AffineManifold) -> Moves:
        trajectory = self._trajectory(manifold)
        if self.charts == "times":
            return _state_moves(self, trajectory.plant, trajectory.horizon)
        index, radii = self._index_and_radii(trajectory.plant)
        each = np.zeros((trajectory.horizon, trajectory.plant.order))
        times = self._times_within(trajectory.horizon)
        each[np.ix_(times, np.array(index))] = radii
        return trajectory.circuit_moves(each.ravel())

    def entering(self, plant: Plant) -> SecretInputs:
        self._index_and_radii(plant)  # names are wrong for any horizon
        if self.times is None:
            raise ValueError(
                "times: without a horizon a state is protected at the first samples "
                "only, since a small move late in the run was a large one at its start; "
                "pass times=0, or protect a disturbance with a DisturbanceAdjacency"
            )
        if self.charts != "times":
            raise ValueError(
                'charts: the moves of charts="all" depend on the horizon; use '
                'charts="times", or design for a finite horizon'
            )
        moves = self.moves(trajectory_manifold(plant, max(self.times) + 1))
        return SecretInputs.of_moves(plant, moves.vectors, moves.is_ball)

    def _first_moves(self, plant: Plant, horizon: int) -> Moves:
        return FiniteMoves(self._moves_at_first_sample(plant))

    @property
    def _move_times(self) -> tuple[int, ...] | None:  # type: ignore[override]
        return self.times

    @property
    def _suits_any_plant(self) -> bool:  # type: ignore[override]
        return self.charts == "times" and self.times == (0,)

    def _over_periods(self, plant: VaryingPlant) -> Adjacency:
        return self if self.times == (0,) else super()._over_periods(plant)

    def uncertain(
        self, plant: Plant, widths: LinearSystem, horizon: int
    ) -> UncertainMoves:
        # without delayed inputs, which the moves leave as they are
        if self.charts != "times":
            return super().uncertain(plant, widths, horizon)
        moves = _state_moves(self, plant, horizon)
        if isinstance(moves, VaryingMoves):
            raise ValueError("models: a region holds plants around one StateSpace")
        delays = np.zeros(plant.order, bool)
        if moves.times.any():
            delays = delayed_inputs(plant.A)
            if delayed_outputs(plant.A).any():
                raise ValueError(
                    "models: a PlantBox with delayed outputs is bounded for times=0; leave "
                    "the delay of the outputs out, since a later publication is as private"
                )
        if widths.A[delays][:, ~delays].any():
            raise ValueError(
                "models: a half-width makes a delayed input depend on other states, "
                "so these cannot be moved alone; leave its row of A out"
            )
        kept = np.append(~delays, np.ones(plant.output_count, bool))
        return UncertainMoves(
            np.vstack([plant.A, plant.C])[np.ix_(kept, ~delays)],
            np.vstack([widths.A, widths.C])[np.ix_(kept, ~delays)],
            (moves.axes * moves.radii)[~delays],
            moves.times,
            horizon,
        )

    def _together(self, plant: Plant, states: int) -> list[str]:
        kinds = []
        if states > 1:
            kinds.append("two states")
        if self.times is None or len(self.times) > 1:
            kinds.append("two times")
        clauses = [f"{' or '.join(kinds)} moved at will at once"] if kinds else []
        if self.times == (0,) and _has_delayed_outputs(plant):
            clauses.append("delayed outputs that moved with a state before t = 0")
        return clauses

    @property
    def statement(self) -> str:
        held = "the other states at that time"
        if self.charts == "all":
            held = "the other entries of any free set (Definition 4)"
        return f"{self._sizes('any state')} {self._once}, {held} held"


def _has_delayed_outputs(plant: Plant) -> bool:
    """Return whether some states are readings of the past, as their zeros say."""
    A = stacks_of(plant)[0]
    links = np.any(A, axis=0) if plant.varies else A
    return bool(delayed_outputs(links).any())


@lru_cache(maxsize=16)  # a design asks again and again, for a few plants
def _state_moves(
    adjacency: StateAdjacency, plant: Plant, horizon: int
) -> StateMoves | VaryingMoves:
    index, radii = adjacency._index_and_radii(plant)
    times = adjacency._times_within(horizon)
    if isinstance(plant, VaryingPlant):
        return VaryingMoves.of(plant, index, radii, times, horizon)
    if times[-1] > 0:
        _check_movable(plant, index)
    return StateMoves.of(plant, index, radii, times, horizon)


@helpful_fields(
    "a state is named in a mapping: InitialStateAdjacency({{'{unknown}': 1.0}})"
)
@dataclass(frozen=True, eq=False)
class InitialStateAdjacency(_OfStates):
    """Hide moves of the initial state within a ball; the trajectory follows.

    Parameters
    ----------
    radius : float, array_like or mapping
        Radius mu of the ball sum_k |dx_k / mu_k|^p <= 1, as in `StateAdjacency`. States
        that a mapping does not name are held.
    norm : {1, 2, inf}, optional
        p of the ball. A box (inf) is hidden by its 2^(k-1) corners, for at most 16 states.

    Raises
    ------
    ValueError
        If a radius is not positive, or the norm is another one.

    See Also
    --------
    StateAdjacency, DisturbanceAdjacency, design_output_noise

    Examples
    --------
    >>> import privcontrol as pc
    >>> pc.InitialStateAdjacency({"position": 1.0, "velocity": 0.2}).statement
    'the initial state within a 2-norm ball with position by at most 1 or velocity by at most 0.2'
    """

    radius: Radius
    norm: float = 2

    def __post_init__(self) -> None:
        norm = float(one_of(self.norm, "norm", (1, 2, np.inf)))
        self._set(norm=norm)
        self._check_fields()

    def _over_periods(self, plant: VaryingPlant) -> Adjacency:
        return self

    def moves(self, manifold: AffineManifold) -> Moves:
        axes = self._moves_at_first_sample(self._trajectory(manifold).plant)
        count = axes.shape[1]
        if self.norm == 2:
            return EllipsoidMoves(axes)
        if self.norm == 1:
            return FiniteMoves(axes)
        if count > 16:
            raise ValueError(
                f"norm: a box of {count} states has 2^{count - 1} corners; use norm=2 "
                "or 1"
            )
        signs = product([1.0], *[[1.0, -1.0]] * (count - 1))
        return FiniteMoves(axes @ np.array(list(signs)).T)

    @property
    def statement(self) -> str:
        sizes = self._sizes("any state")
        return f"the initial state within a {self.norm:g}-norm ball with {sizes}"

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"norm": str(self.norm)}
