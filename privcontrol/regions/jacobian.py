"""Polytopes of the Jacobians of a nonlinear plant over a region of states and inputs.

The difference of two runs of a nonlinear plant with the same published history obeys a
linear plant that varies within the Jacobians, as long as both runs stay in the region
(mean value theorem). What hides a secret of every such plant therefore hides it of the
nonlinear one. Nothing is claimed for runs that leave the region.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from itertools import pairwise, product
from typing import Any

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from ..core.adjacency import Adjacency
from ..numerics.checks import instance_of, positive_integer, real_array, sequence_of
from ..numerics.linalg import EPS
from ..numerics.objects import ByContent
from ..numerics.saved import Saved
from ..numerics.thresholds import FINE, ROUGH
from ..privacy.hidden import rounded_down
from ..secrets.secrets import Secrets
from ..systems.linear import Plant
from ..systems.nonlinear import (
    NonlinearPlant,
    NotEnclosedError,
    differentiate,
    entries_of,
)
from .region import (
    PlantBox,
    PlantPolytope,
    box_between,
    checked_miss,
    exception_of,
    matrix_of,
)

CERTIFIED, GIVEN = "certified", "given"

#: End of the names of linear plants in a polytope.
_LINEARISED = "$linearised"
#: Boxes into which a region may be split.
_MOST_BOXES = 100_000
#: How much larger the wide entries' intervals may be made to take in the narrow ones.
_MOST_ENLARGED = 0.25
#: Correlation of two entries from which on they are taken together.
_CORRELATED = 0.9


@dataclass(frozen=True, eq=False)
class Region(ByContent, Saved):
    """A box of states and inputs; what it leaves out is unbounded.

    Attributes
    ----------
    names : tuple of str
        All n states, then all m inputs.
    states : int
        Number n of states.
    low, high : ndarray, shape (n + m,)
    units : tuple of str
        For texts; empty where none is known.
    """

    names: tuple[str, ...]
    states: int
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    units: tuple[str, ...]

    @classmethod
    def of(cls, plant: NonlinearPlant, given: object) -> Region:
        """The region from a mapping of names to (low, high) or (low, high, unit).

        Raises
        ------
        TypeError, ValueError
            If it is none, or a name is unknown.
        """
        names = (*plant.states, *plant.inputs)
        if len(set(names)) < len(names):
            raise ValueError("region: a state and an input have one name; rename one")
        if not isinstance(given, Mapping) or not given:
            raise TypeError(
                "region: expected a mapping of states and inputs to (low, high), got "
                f"{type(given).__name__}"
            )
        low = np.full(len(names), -np.inf)
        high = np.full(len(names), np.inf)
        units = [""] * len(names)
        for name, bounds in given.items():
            if name not in names:
                raise ValueError(
                    f"region: {name!r} is no state or input; known are "
                    f"{', '.join(names)}"
                )
            k = names.index(name)
            low[k], high[k], units[k] = _bounds_of(name, bounds)
        low.flags.writeable = high.flags.writeable = False
        return cls(names, plant.order, low, high, tuple(units))

    @property
    def bounded(self) -> NDArray[np.bool_]:
        """Mask (n + m,) of bounded states and inputs."""
        return np.isfinite(self.low)

    @property
    def ends(self) -> NDArray[np.float64]:
        """Its ends (2, n + m), zero where it is unbounded."""
        return np.where(self.bounded, [self.low, self.high], 0.0)

    @property
    def middle(self) -> NDArray[np.float64]:
        """Its centre (n + m,), zero where it is unbounded."""
        return (self.ends / 2).sum(axis=0)

    @property
    def sizes(self) -> NDArray[np.float64]:
        """Half-widths (n + m,), one where it is unbounded or a point."""
        low, high = self.ends
        return np.where(high > low, (high - low) / 2, 1.0)

    def boxes(self, splits: NDArray[np.intp]) -> Iterator[list[tuple[float, float]]]:
        """The region in (n + m,) equal parts along each axis."""
        axes = []
        for low, high, parts in zip(self.low, self.high, splits, strict=True):
            edges = [low, high]
            if parts > 1:
                edges = np.linspace(low, high, parts + 1).tolist()
            axes.append(list(pairwise(edges)))
        for box in product(*axes):
            yield [(float(low), float(high)) for low, high in box]

    def outside(
        self, states: NDArray[np.float64], inputs: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Mask (trials,) of states (n, trials) and inputs (m, trials) that are not in it."""
        values = np.vstack([states, inputs]).T
        inside = (values >= self.low) & (values <= self.high)
        return np.logical_not(inside.all(axis=1))

    def text(self, first: int = 0, last: int | None = None) -> str:
        """Return what it says of states and inputs, or of some of them."""
        bounds = list(zip(self.names, self.low, self.high, self.units, strict=True))
        words = [
            f"{name} {_within(low, high)} {unit}".rstrip()
            for name, low, high, unit in bounds[first:last]
            if np.isfinite(low)
        ]
        return ", ".join(words)

    @property
    def unbounded(self) -> str:
        """Names of unbounded states and inputs."""
        return ", ".join(np.array(self.names)[~self.bounded])


def _within(low: float, high: float) -> str:
    """Return ends in six digits, rounded inwards, or all digits where they would cross."""
    first = -float(rounded_down(-low))
    last = float(rounded_down(high))
    return f"{first:g}..{last:g}" if first <= last else f"{low!s}..{high!s}"


def _bounds_of(name: str, bounds: object) -> tuple[float, float, str]:
    if not isinstance(bounds, (tuple, list)) or len(bounds) not in (2, 3):
        raise TypeError(
            f"region: expected (low, high) for {name!r}, got something else"
        )
    low, high = real_array(bounds[:2], f"region {name!r}", shape=(2,))
    if not low <= high:
        raise ValueError(f"region: expected low <= high for {name!r}")
    unit = bounds[2] if len(bounds) == 3 else ""
    if not isinstance(unit, str):
        raise TypeError(
            f"region: expected (low, high, 'unit') for {name!r}, got another third entry"
        )
    return float(low), float(high), unit


@dataclass(frozen=True, eq=False, repr=False)
class JacobianPolytope(PlantPolytope):
    """All Jacobians of a nonlinear plant over a region; made by `jacobian_polytope`.

    Attributes
    ----------
    plant : NonlinearPlant or None
        None if the polytope is one of a design file, which holds no functions.
    region : Region
    basis : {"certified", "given"}
        Where the bounds of the Jacobians come from.
    invariant : bool
        Whether it is certified that states in the region stay there as long as the inputs
        are in it.
    parts : ndarray, shape (2, K, n + p, n + m)
        Least and largest entries of [[A, B], [C, D]] over each of K parts of the region.
    max_vertices : int

    See Also
    --------
    jacobian_polytope, PlantPolytope

    Examples
    --------
    >>> import control as ct, numpy as np, privcontrol as pc
    >>> def level(t, x, u, params):
    ...     return [u[0] - 0.2 * np.sqrt(x[0])]
    >>> names = dict(states=["level"], inputs=["flow"], outputs=["level"])
    >>> tank = pc.sample_nonlinear(ct.nlsys(level, None, **names), 1.0)
    >>> box = pc.jacobian_polytope(tank, {"level": (1.0, 4.0), "flow": (0.2, 0.4)})
    >>> box.basis, len(box.vertices)
    ('certified', 4)
    """

    _: KW_ONLY
    plant: NonlinearPlant | None = field(default=None, compare=False)
    region: Region = field(compare=False)
    basis: str = CERTIFIED
    invariant: bool = False
    parts: NDArray[np.float64] = field(compare=False)
    max_vertices: int = field(default=256, compare=False)

    def _saved_fields(self) -> dict[str, object]:
        return super()._saved_fields() | {"plant": None}

    @property
    def clause(self) -> str:
        """The assumption of a guarantee for the polytope about the plant."""
        return f"the plant is the nonlinear {self.name}"

    @property
    def name(self) -> str:
        """Name of the nonlinear plant."""
        return self.plant_data.name.removesuffix(_LINEARISED)

    def __repr__(self) -> str:
        return f"JacobianPolytope({self.name} over {self.region.text()}, {self.basis})"

    @property
    def low(self) -> NDArray[np.float64]:
        """Least entries (n + p, n + m) of [[A, B], [C, D]] over the region."""
        return self.parts[0].min(axis=0)

    @property
    def high(self) -> NDArray[np.float64]:
        """Largest entries (n + p, n + m) of [[A, B], [C, D]] over the region."""
        return self.parts[1].max(axis=0)

    @cached_property
    def _hull(self) -> PlantBox:
        """The box of the Jacobians, which is smaller than that of the vertices."""
        return box_between(self.plant_data, self.low, self.high)

    def plants(self, adjacency: Adjacency) -> tuple[Plant, ...]:
        """Plants between which two runs differ that may differ by a given secret.

        Inputs at which no secret enters are the same in both runs.

        Raises
        ------
        ValueError
            If too many entries of the Jacobians vary.
        """
        instance_of(adjacency, Adjacency, "adjacency", "StateAdjacency")
        secret = Secrets(adjacency).signals(self.plant_data)
        parts = self.parts.copy()
        known = matrix_of(self.plant_data)
        for k, name in enumerate(self.plant_data.inputs, start=self.plant_data.order):
            if name not in secret:
                parts[:, :, :, k] = known[:, k]
        units = _entry_units(self.region, parts.shape[2])
        matrices = _vertices(parts, units, self.max_vertices, _MOST_ENLARGED)
        return tuple(_as_plant(self.plant_data, matrix) for matrix in matrices)


def jacobian_polytope(
    sys: ct.NonlinearIOSystem,
    region: Mapping[str, tuple[float, float]],
    *,
    splits: int | Mapping[str, int] = 1,
    bounds: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    max_vertices: int = 256,
    leaving: float = 0.0,
) -> JacobianPolytope:
    """Return the plants between which two runs of a nonlinear plant differ.

    The Jacobians of the plant's functions are enclosed over the whole region by
    interval arithmetic, which calls the functions with intervals that numpy accepts as
    numbers. For functions with kinks (``np.maximum``, ``np.minimum``, ``np.clip``,
    ``abs``) both sides are enclosed. Branches that the region does not decide (``if``,
    ``np.where``) are refused, since the plant might jump there.

    Parameters
    ----------
    sys : control.NonlinearIOSystem
        In discrete time; `sample_nonlinear` converts one in continuous time.
    region : mapping of str to (low, high) or (low, high, unit)
        Box of states and inputs, by name, in their units. Both of the runs that are to be
        hidden from each other must surely stay in it. Names that it leaves out are
        unbounded, and must not enter the Jacobians.
    splits : int or mapping of str to int, optional
        Parts into which the region is cut along each state and input that it bounds, or
        along those named. More parts give tighter bounds, show how entries vary
        together, and take longer.
    bounds : mapping of "A", "B", "C", "D" to (low, high), optional
        Your own bounds of the Jacobians in place of computed ones, each an array or a
        number. The guarantee says that they are yours.
    max_vertices : int, optional
        Largest number of vertices. With more directions in which the Jacobians vary than
        log2 of it, the narrowest ones are taken into a slightly larger polytope.
    leaving : float, optional
        Bound on the probability that a run leaves the region: this run, or one that
        differs from it by the secret and publishes the same. Every guarantee adds it to
        delta. By default a guarantee holds as long as both runs stay in the region.

    Returns
    -------
    JacobianPolytope
        For ``models=`` of `design_output_noise`. Its ``nominal`` is the linearisation at
        the centre of the region.

    Raises
    ------
    control.ControlArgument
        If ``sys`` is linear, or not in discrete time.
    ValueError
        If a name is unknown, if interval arithmetic cannot follow the functions, if a
        Jacobian is not bounded over the region, or if too many entries vary.

    See Also
    --------
    regions.JacobianPolytope, PlantPolytope, along

    Examples
    --------
    >>> import control as ct, numpy as np, privcontrol as pc
    >>> def level(t, x, u, params):
    ...     return [u[0] - 0.2 * np.sqrt(x[0])]
    >>> tank = pc.sample_nonlinear(
    ...     ct.nlsys(level, None, states=["level"], inputs=["flow"], outputs=["level"]), 1.0
    ... )
    >>> box = pc.jacobian_polytope(
    ...     tank, {"level": (0.8, 4.5, "m"), "flow": (0.2, 0.4)}, splits=8
    ... )
    >>> np.round([box.low[0, 0], box.high[0, 0]], 2), box.invariant
    (array([0.89, 0.95]), True)
    """
    plant = NonlinearPlant.of(sys)
    box = Region.of(plant, region)
    counts = _checked_splits(box, splits)
    allowed = positive_integer(max_vertices, "max_vertices")
    basis = CERTIFIED if bounds is None else GIVEN
    if bounds is None:
        parts, invariant = _certified_bounds(plant, box, counts)
        _, centre = _enclosed_at(plant, box.middle)
    else:
        centre = _given_bounds(plant, bounds)
        parts, invariant = centre[:, None].copy(), False
    nominal = centre[0] / 2 + centre[1] / 2
    parts.flags.writeable = False
    units = _entry_units(box, parts.shape[2])
    matrices = _vertices(parts, units, allowed, np.inf)
    return JacobianPolytope(
        tuple(_as_plant(plant, matrix) for matrix in matrices),
        nominal=_as_plant(plant, nominal),
        assumptions=_clauses(plant, box, basis, invariant, leaving),
        miss=leaving,
        plant=plant,
        region=box,
        basis=basis,
        invariant=invariant,
        parts=parts,
        max_vertices=allowed,
    )


# -- the door ----------------------------------------------------------------------------


def _checked_splits(box: Region, splits: int | Mapping[str, int]) -> NDArray[np.intp]:
    """Parts (n + m,) of each axis."""
    parts = np.ones(len(box.names), int)
    wide = box.bounded & (box.high > box.low)
    if isinstance(splits, Mapping):
        for name, count in splits.items():
            if name not in box.names or not wide[box.names.index(name)]:
                raise ValueError(f"splits: {name!r} is no name of the region")
            parts[box.names.index(name)] = positive_integer(count, f"splits {name!r}")
    else:
        parts[wide] = positive_integer(splits, "splits")
    if np.prod(parts.astype(float)) > _MOST_BOXES:
        raise ValueError(
            f"splits: expected at most {_MOST_BOXES} boxes, got "
            f"{np.prod(parts.astype(float)):.3g}; split only the names that the Jacobians "
            "depend on, splits={'name': parts}"
        )
    return parts


def _given_bounds(
    plant: NonlinearPlant, bounds: Mapping[str, tuple[ArrayLike, ArrayLike]]
) -> NDArray[np.float64]:
    """Bounds (2, n + p, n + m) of [[A, B], [C, D]] from those of its blocks."""
    n = plant.order
    m = len(plant.inputs)
    p = len(plant.outputs)
    shapes = {"A": (n, n), "B": (n, m), "C": (p, n), "D": (p, m)}
    if not isinstance(bounds, Mapping) or set(bounds) != set(shapes):
        raise ValueError("bounds: expected (low, high) for each of A, B, C and D")
    blocks = {}
    for name, shape in shapes.items():
        pair = sequence_of(bounds[name], f"bounds {name}", "two ends, low and high")
        if len(pair) != 2:
            raise ValueError(
                f"bounds {name}: expected (low, high), got {len(pair)} entries"
            )
        low, high = (real_array(end, f"bounds {name}") for end in pair)
        if not {low.shape, high.shape} <= {(), shape} or not (low <= high).all():
            raise ValueError(
                f"bounds {name}: expected low <= high, numbers or arrays of shape {shape}"
            )
        blocks[name] = [np.broadcast_to(end, shape) for end in (low, high)]
    ends = zip(*blocks.values(), strict=True)
    return np.array([np.block([[A, B], [C, D]]) for A, B, C, D in ends])


def _clauses(
    plant: NonlinearPlant,
    box: Region,
    basis: str,
    invariant: bool,
    leaving: float,
) -> tuple[str, ...]:
    """Return the assumptions of guarantees for the polytope."""
    states = box.text(last=box.states)
    inputs = box.text(first=box.states)
    everything = box.text()
    stays = f"as long as both runs stay in {everything}"
    if leaving:
        stays = f"both runs stay in {everything}{exception_of(checked_miss(leaving))}"
    elif invariant and inputs:
        stays = (
            f"both runs start in {states}, and their inputs stay in {inputs} (their states "
            "are then certified to stay there too)"
        )
    elif invariant:
        stays = f"both runs start in {states} (they are then certified to stay there)"
    reasons = {
        CERTIFIED: "its Jacobians there certified by interval arithmetic",
        GIVEN: "its Jacobians there within bounds that the user gave",
    }
    clauses = [stays, reasons[basis]]
    if plant.integrator:
        clauses.append(plant.integrator)
    return tuple(clauses)


# -- bounds of the Jacobians -------------------------------------------------------------


def enclosures(
    plant: NonlinearPlant, box: Sequence[tuple[float, float]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values (2, n + p) of x+ and y over a box of (x, u), and Jacobians (2, n + p, n + m).

    The time may be any. A ``ValueError`` says why interval arithmetic cannot follow
    a function.
    """
    n = plant.order
    p = len(plant.outputs)

    def both(point: NDArray[Any]) -> list[Any]:
        given = (point[0], point[1 : n + 1], point[n + 1 :])
        outputs = point[1 : p + 1]
        if plant.read is not None:
            outputs = plant.called(plant.read, *given)
        return entries_of(plant.called(plant.update, *given)) + entries_of(outputs)

    refusal = ""
    values = np.empty((2, 0))
    slopes = np.empty((2, 0, 0))
    try:
        values, slopes = differentiate(both, [(0.0, np.inf), *box])
    except NotEnclosedError as error:
        refusal = str(error)
    except Exception as error:  # what the user's own function raises
        refusal = f"the function raised a {type(error).__name__} on intervals"
    if refusal:
        raise ValueError(
            f"{plant.name}: interval arithmetic cannot follow this plant: {refusal}. "
            "Or pass bounds of the Jacobians, bounds={'A': (low, high), ...}"
        )
    if values.shape[1] != n + p:
        raise ct.ControlDimension(
            f"{plant.name}: expected {n} states and {p} outputs from its functions, got "
            f"{values.shape[1]} numbers together"
        )
    return values, slopes[:, :, 1:]


def _certified_bounds(
    plant: NonlinearPlant, box: Region, counts: NDArray[np.intp]
) -> tuple[NDArray[np.float64], bool]:
    """Bounds (2, K, n + p, n + m) over the parts, and whether states stay in the region."""
    n = plant.order
    every = []
    invariant = bool(box.bounded[:n].any())
    for small in box.boxes(counts):
        values, slopes = enclosures(plant, small)
        every.append(slopes)
        if invariant:
            least, largest = _next_states(plant, small, values, slopes)
            inside = (least >= box.low[:n]) & (largest <= box.high[:n])
            invariant = bool(inside.all())
    parts = np.array(every).swapaxes(0, 1)
    unbounded = np.argwhere(~np.isfinite(parts).all(axis=(0, 1)))
    if len(unbounded):
        row, column = unbounded[0]
        names = (*plant.states, *plant.outputs)
        hint = "narrow the region there"
        if box.unbounded:
            hint = f"bound {box.unbounded} in the region too, or narrow it"
        raise ValueError(
            f"region: the derivative of {names[row]} by {box.names[column]} is not "
            f"bounded over it; {hint}"
        )
    return parts, invariant


def _next_states(
    plant: NonlinearPlant,
    small: Sequence[tuple[float, float]],
    values: NDArray[np.float64],
    slopes: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Least and largest next states (n,) of a small box.

    The values themselves, and those at its middle with the slopes times the distance to
    it, are both bounds; the tighter one counts.
    """
    n = plant.order
    ends = np.array(small).T
    low, high = ends
    finite_low, finite_high = np.where(np.isfinite(ends), ends, 0.0)
    middle = finite_low / 2 + finite_high / 2
    farthest = np.maximum(high - middle, middle - low)
    reach = farthest * (1 + 4 * EPS)
    steepness = np.abs(slopes[:, :n])
    steepest = steepness.max(axis=0)
    felt = np.where(steepest > 0, reach, 0.0)
    total = (steepest * felt).sum(axis=1)
    spread = total * (1 + 4 * len(reach) * EPS)
    centre, _ = _enclosed_at(plant, middle)
    centre_low, centre_high = centre[:, :n]
    least = centre_low - spread
    largest = centre_high + spread
    sizes = np.abs(least) + np.abs(largest)
    slack = 4 * EPS * sizes
    values_low, values_high = values[:, :n]
    tighter_least = np.maximum(least - slack, values_low)
    tighter_largest = np.minimum(largest + slack, values_high)
    return tighter_least, tighter_largest


def _enclosed_at(
    plant: NonlinearPlant, point: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Intervals of the values and of the slopes at a point (n + m,)."""
    return enclosures(plant, [(x, x) for x in point.tolist()])


# -- from intervals to vertices ----------------------------------------------------------


def _entry_units(box: Region, rows: int) -> NDArray[np.float64]:
    """By what the entries (rows, n + m) are divided to be comparable."""
    sizes = box.sizes
    of_rows = np.ones(rows)
    of_rows[: box.states] = sizes[: box.states]
    return of_rows[:, None] / sizes


def _vertices(
    parts: NDArray[np.float64],
    units: NDArray[np.float64],
    allowed: int,
    most_enlarged: float,
) -> list[NDArray[np.float64]]:
    """Matrices whose convex combinations are all matrices of all parts.

    Entries that vary together over the parts are told by their principal directions, and
    the matrices lie in a box along these. The k widest directions take both of their
    ends, in 2^k vertices. The narrow ones move one at a time, in two vertices each, with
    the wide ones in the middle. A point with shares 1 - l and l of both lies among the
    convex combinations if the wide directions are 1 / (1 - l) times as wide as they are,
    and the narrow ones 1 / l times their number.
    """
    low, high = parts
    varying = (low.min(axis=0) < high.max(axis=0)).ravel()
    origin = low.min(axis=0) / 2 + high.max(axis=0) / 2
    if not varying.any():
        return [origin]
    scales = units.ravel()[varying]
    flat = origin.ravel()[varying]
    ends = [(part.reshape(len(part), -1)[:, varying] - flat) / scales for part in parts]
    # doubles are rounded, and the principal directions nearly orthogonal
    slack = FINE * float((np.abs(flat) / scales).sum())
    directions, centre, reach = _box_around(ends[0], ends[1], slack)
    middle = directions @ centre
    vertices = []
    for offset in _offsets(directions, reach, allowed, most_enlarged):
        vertex = origin.ravel().copy()
        vertex[varying] += (middle + offset) * scales
        vertices.append(vertex.reshape(origin.shape))
    return vertices


def _offsets(
    directions: NDArray[np.float64],
    reach: NDArray[np.float64],
    allowed: int,
    most_enlarged: float,
) -> list[NDArray[np.float64]]:
    """Vertices of a polytope that holds the box of half-widths along directions."""
    order = np.argsort(-reach, kind="stable")
    wide, share = _wide_directions(reach[order], allowed, most_enlarged)
    steps = directions * reach
    offsets = []
    if wide:
        spread = steps[:, order[:wide]] / (1 - share)
        for signs in product((-1, 1), repeat=wide):
            offsets.append(spread @ np.array(signs))
    narrow = order[wide:]
    total = reach[narrow].sum()
    for k in narrow:
        # every narrow direction has its own share of the narrow ones' weight
        offset = steps[:, k] / (share * reach[k] / total)
        offsets += [-offset, offset]
    return offsets


def _box_around(
    low: NDArray[np.float64], high: NDArray[np.float64], slack: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Directions (k, k), and the centre and half-widths (k,) of a box along them.

    The box holds the intervals low to high (K, k) of every part. Entries that are
    correlated over the parts get their principal directions, if the box is smaller then.
    """
    count = low.shape[1]
    middles = low / 2 + high / 2
    radii = high - middles
    slack += FINE * float(np.abs(middles).sum(axis=1).max())
    directions = np.eye(count)
    centre = np.empty(count)
    reach = np.empty(count)
    for group in _correlated(middles):
        own = middles[:, group]
        spread = own - own.mean(axis=0)
        _, principal = np.linalg.eigh(spread.T @ spread)
        best = np.inf
        for basis in (np.eye(len(group)), principal):
            least, largest = _ends_along(basis, own, radii[:, group], slack)
            lengths = largest - least
            volume = float(np.log(lengths).sum())
            if volume < best:
                best = volume
                directions[np.ix_(group, group)] = basis
                centre[group] = least / 2 + largest / 2
                reach[group] = lengths / 2
    return directions, centre, reach


def _ends_along(
    basis: NDArray[np.float64],
    middles: NDArray[np.float64],
    radii: NDArray[np.float64],
    slack: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ends (k,) along directions (k, k) between which all intervals (K, k) lie."""
    along = middles @ basis
    beside = radii @ np.abs(basis)
    beside = beside * (1 + FINE) + slack
    low = along - beside
    high = along + beside
    return low.min(axis=0), high.max(axis=0)


def _correlated(middles: NDArray[np.float64]) -> list[NDArray[np.intp]]:
    """Groups of columns that are correlated over the rows, directly or through others."""
    deviations = middles - middles.mean(axis=0)
    sizes = middles.std(axis=0)
    positive = np.maximum(sizes, np.finfo(float).tiny)
    scaled = deviations / positive
    correlations = np.abs(scaled.T @ scaled) / len(scaled)
    linked = correlations > _CORRELATED
    count, labels = connected_components(linked, directed=False)
    return [np.flatnonzero(labels == label) for label in range(count)]


def _wide_directions(
    reach: NDArray[np.float64], allowed: int, most_enlarged: float
) -> tuple[int, float]:
    """Count the directions, widest first, that take both ends; the narrow ones' share."""
    count = len(reach)
    best = (0, 1.0)
    for wide in range(1, count + 1):
        if 2 * (count - wide) + 2**wide > allowed:
            break
        share = 0.0
        if wide < count:
            share = float(np.sqrt(reach[wide:].sum() / reach[:wide].sum()))
        if share < 1:
            best = (wide, share)
        if share <= ROUGH:
            break
    if count > 1 and best[1] > most_enlarged:
        raise ValueError(
            f"jacobian_polytope: the Jacobians vary in {count} directions, too many for "
            f"{allowed} vertices, and a narrower region has as many directions. Where "
            "the plant is sampled by Runge-Kutta, fewer entries vary by Euler's method, "
            'sample_nonlinear(sys, Ts, method="euler"); or split the region (splits=), '
            "or raise max_vertices"
        )
    return best


def _as_plant(plant: NonlinearPlant | Plant, matrix: NDArray[np.float64]) -> Plant:
    """The linear plant of [[A, B], [C, D]] with the nonlinear one's names."""
    n = plant.order
    return Plant(
        real_array(matrix[:n, :n], "A"),
        real_array(matrix[:n, n:], "B"),
        real_array(matrix[n:, :n], "C"),
        real_array(matrix[n:, n:], "D"),
        dt=plant.dt,
        states=plant.states,
        inputs=plant.inputs,
        outputs=plant.outputs,
        name=plant.name.removesuffix(_LINEARISED) + _LINEARISED,
    )
