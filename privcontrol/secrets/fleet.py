"""Plants of many units: which of them nothing connects, and which are alike.

What exact zeros keep apart is hidden apart. If one change of one unit is hidden, noise that
is independent from unit to unit is the best, since the signs of a unit's signals may be
turned. Units that are coupled, all to all in the same way, are seen through two systems: the
mean of the units, and what one differs by from the mean. A plant need not have that symmetry
to the last digit. `Symmetric` says how far it is from one that has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from ..core.adjacency import Adjacency
from ..numerics.linalg import EPS
from ..numerics.thresholds import SYMMETRIC
from ..systems.linear import LinearSystem, Plant, sum_of
from .disturbance import DisturbanceAdjacency
from .disturbed import entered_by_signals
from .joint import JointAdjacency
from .ring import Ring
from .secret import SecretInputs, seen_of
from .secrets import Secrets

#: Units from which on a symmetry is looked for.
_FEWEST = 3


# -- units that nothing connects ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Units:
    """Units of a plant that are equal but for their names, and that nothing connects.

    Attributes
    ----------
    plant : Plant
        The first of them, with its secret inputs alone.
    adjacency : Adjacency
        What is secret of it.
    outputs : ndarray, shape (N, p)
        The whole plant's outputs that are those of each unit.
    prices : ndarray, shape (p, p), or None
        Of its outputs.
    """

    plant: Plant
    adjacency: Adjacency
    outputs: NDArray[np.intp]
    prices: NDArray[np.float64] | None = None

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.outputs)


def parted(
    adjacency: Adjacency, plant: Plant, prices: NDArray[np.float64] | None = None
) -> list[Units] | None:
    """Return the units that exact zeros keep apart, equal ones together.

    Units without a secret that an output sees are left out. None for secrets of which
    several parts move at once, or that compare one unit with another.
    """
    secret = Secrets(adjacency)
    every = secret.disturbances
    if plant.varies or secret.hides_start or not all(map(_is_of_one_signal, every)):
        return None
    names = secret.signals(plant)
    system = entered_by_signals(plant, names)
    labels, count = _labels_of(system, prices)
    n, p = plant.order, plant.output_count
    if len(labels) and count == 1:
        return [Units(plant, adjacency, np.arange(p)[None], prices)]
    of_states, of_outputs, of_inputs = np.split(labels, [n, n + p])
    radii = [_radii_of(part, plant) for part in every]
    kinds: dict[
        tuple[object, ...], tuple[list[str], NDArray[np.intp], list[NDArray[np.intp]]]
    ] = {}
    members = [_members(each, count) for each in (of_states, of_outputs, of_inputs)]
    for states, outputs, inputs in zip(*members, strict=True):
        if not (len(outputs) and len(inputs)):
            continue
        own = [names[k] for k in inputs.tolist()]
        sizes = [[radius.get(name, 0.0) for name in own] for radius in radii]
        matrices = [
            system.A[np.ix_(states, states)],
            system.B[np.ix_(states, inputs)],
            system.C[np.ix_(outputs, states)],
            system.D[np.ix_(outputs, inputs)],
            np.array(sizes),
        ]
        if prices is not None:
            matrices.append(prices[np.ix_(outputs, outputs)])
        key = tuple((each.shape, (each + 0.0).tobytes()) for each in matrices)
        kinds.setdefault(key, (own, states, []))[2].append(outputs)
    found = []
    for own, states, places in kinds.values():
        unit = _unit(plant, own, states, places[0])
        restricted = _restricted(every, plant, own)
        if not _is_seen(restricted, unit):
            continue
        priced = None if prices is None else prices[np.ix_(places[0], places[0])]
        found.append(Units(unit, restricted, np.array(places), priced))
    return found


def _is_of_one_signal(secret: DisturbanceAdjacency) -> bool:
    """Return whether one change of one signal is hidden, at any time."""
    if secret.norm != "single" or secret.which or secret.together:
        return False
    return secret.events == 1 and secret.times is None


def _radii_of(secret: DisturbanceAdjacency, plant: Plant) -> dict[str, float]:
    """Return the radius of each secret signal by its name."""
    radii = secret.radii(plant).tolist()
    return dict(zip(secret.signals(plant), radii, strict=True))


def _labels_of(
    system: LinearSystem, prices: NDArray[np.float64] | None
) -> tuple[NDArray[np.integer], int]:
    """Return labels of the states, outputs and inputs that zeros connect, and their number."""
    A, B, C, D = system.matrices
    n, p, q = system.order, system.output_count, system.input_count
    links = [[A != 0, None, B != 0], [C != 0, None, D != 0], [None, None, None]]
    links[1][1] = np.zeros((p, p), bool) if prices is None else prices != 0
    sizes = (n, p, q)
    blocks = [
        [
            scipy.sparse.csr_array((sizes[i], sizes[j]), dtype=bool)
            if link is None
            else scipy.sparse.csr_array(link)
            for j, link in enumerate(row)
        ]
        for i, row in enumerate(links)
    ]
    whole = scipy.sparse.block_array(blocks)
    count, labels = connected_components(whole, directed=False)
    return labels, int(count)


def _members(labels: NDArray[np.integer], count: int) -> list[NDArray[np.intp]]:
    """Return the positions of each of so many labels, in order."""
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=count))[:-1]
    return np.split(order, ends)


def _unit(
    plant: Plant,
    names: Sequence[str],
    states: NDArray[np.intp],
    outputs: NDArray[np.intp],
) -> Plant:
    """Return a part of a plant, with some of its inputs alone."""
    own = [plant.inputs.index(name) for name in names if name in plant.inputs]
    inputs = np.array(own, int)
    return replace(
        plant,
        A=plant.A[np.ix_(states, states)],
        B=plant.B[np.ix_(states, inputs)],
        C=plant.C[np.ix_(outputs, states)],
        D=plant.D[np.ix_(outputs, inputs)],
        states=tuple(plant.states[k] for k in states.tolist()),
        inputs=tuple(plant.inputs[k] for k in own),
        outputs=tuple(plant.outputs[k] for k in outputs.tolist()),
    )


def _restricted(
    secrets: Sequence[DisturbanceAdjacency], plant: Plant, names: Sequence[str]
) -> Adjacency:
    """Return what is secret of some of the signals."""
    found: list[Adjacency] = []
    for part in secrets:
        radii = _radii_of(part, plant)
        own = {name: radii[name] for name in names if name in radii}
        if own:
            found.append(replace(part, radius=own, inputs=None))
    return found[0] if len(found) == 1 else JointAdjacency(found)


def _is_seen(adjacency: Adjacency, plant: Plant) -> bool:
    """Return whether some output sees a change."""
    inputs = Secrets(adjacency).entering(plant)
    kept = inputs.keeping(seen_of([inputs])).system
    return bool(kept.C.any() or kept.D.any())


def whole_of(
    parts: Sequence[tuple[LinearSystem, NDArray[np.intp]]], outputs: int
) -> LinearSystem:
    """Return systems side by side, each with its places among so many outputs."""
    order = sum(system.order for system, _ in parts)
    width = sum(system.input_count for system, _ in parts)
    A, B = np.zeros((order, order)), np.zeros((order, width))
    C, D = np.zeros((outputs, order)), np.zeros((outputs, width))
    n = q = 0
    for system, places in parts:
        states = slice(n, n + system.order)
        inputs = slice(q, q + system.input_count)
        A[states, states], B[states, inputs] = system.A, system.B
        C[places, states], D[places, inputs] = system.C, system.D
        n, q = states.stop, inputs.stop
    return LinearSystem(A, B, C, D)


def apart_by(
    system: LinearSystem, places: Sequence[NDArray[np.intp]]
) -> list[LinearSystem] | None:
    """Return the parts of a square system at some outputs, None where they share a state."""
    labels, count = _labels_of(system, None)
    n, p = system.order, system.output_count
    of_states, of_outputs, of_inputs = np.split(labels, [n, n + p])
    owner = np.full(count, -1)
    for k, outputs in enumerate(places):
        if not (owner[of_outputs[outputs]] == -1).all():
            return None
        owner[of_outputs[outputs]] = k
    found = []
    of_states, of_inputs = owner[of_states], owner[of_inputs]
    states = _members(of_states + 1, len(places) + 1)[1:]
    inputs = _members(of_inputs + 1, len(places) + 1)[1:]
    for outputs, own, entries in zip(places, states, inputs, strict=True):
        if len(entries) != len(outputs):
            return None
        found.append(
            LinearSystem(
                system.A[np.ix_(own, own)],
                system.B[np.ix_(own, entries)],
                system.C[np.ix_(outputs, own)],
                system.D[np.ix_(outputs, entries)],
            )
        )
    return found


# -- units that are coupled alike -----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Symmetric:
    """A plant of N units that are coupled all to all alike, next to one that is given.

    Its response is P mean + (I - P) own with the projection P onto equal numbers: ``own``
    and ``mean`` lead from one input to one output, and are exact as they are. The mean's
    states are those of a unit times sqrt(N), and then what the units share.

    Attributes
    ----------
    count : int
        N.
    own, mean : LinearSystem
    secret : SecretInputs
        The changes of one unit's input, as those of a system with one input.
    distances : tuple of float
        Bounds of the spectral norms of what A, the column of B and of D of a unit, and C
        differ by: of A, B, C, D.
    """

    count: int
    own: LinearSystem
    mean: LinearSystem
    secret: SecretInputs
    distances: tuple[float, float, float, float]

    @classmethod
    def near(cls, system: LinearSystem, one: SecretInputs) -> Symmetric | None:
        """Return the plant of equal units that is nearest to a plant, or None."""
        count = system.input_count
        if count < _FEWEST or system.output_count != count:
            return None
        units = _units_of(system)
        if units is None:
            return None
        places, shared = units
        ordered = _in_order(system, places)
        if ordered is None:
            return None
        own, mean, distances = _modes(ordered, places, shared)
        return cls(count, own, mean, one, distances)

    @property
    def systems(self) -> tuple[LinearSystem, LinearSystem]:
        """Those of the mean and of a difference."""
        return self.mean, self.own

    @property
    def sizes(self) -> NDArray[np.intp]:
        """How often each comes, 1 and N - 1."""
        return np.array([1, self.count - 1])

    def effects(self, samples: int) -> float:
        """Return the largest effect of a change of a unit on its own output."""
        of_mean, of_own = self.sizes / self.count
        both = sum_of(self.mean.scaled(of_mean), self.own.scaled(of_own))
        system = both.after(LinearSystem.gain(np.ones((2, 1))))
        return float(replace(self.secret, system=system).effects(samples)[0])


@lru_cache(maxsize=4)  # a design asks again for what it found
def symmetric_plant(adjacency: Adjacency, plant: Plant) -> Symmetric | Ring | None:
    """Return the symmetric plant that is nearest to one, with the secret of a unit.

    One that is a ring to rounding is taken as one, if its units are not all alike.
    """
    inputs = Secrets(adjacency).entering(plant)
    secret = inputs.keeping(seen_of([inputs]))
    one = _of_one_input(secret)
    if one is None:
        return None
    found = Symmetric.near(secret.system, one)
    if found is not None and max(found.distances) <= SYMMETRIC:
        return found
    return Ring.near(secret.system, one) or found


def _of_one_input(secret: SecretInputs) -> SecretInputs | None:
    """Return the changes of one input where those of all are alike, else None."""
    plain = secret.energies is None and secret.origin is None and not secret.balls
    if not plain or secret.several:
        return None
    unit = LinearSystem.gain(np.eye(1))
    found: list[SecretInputs] = []
    for column in range(secret.inputs):
        signals = tuple(
            replace(moves, column=0)
            for moves in secret.signals
            if moves.column == column
        )
        windows = tuple(
            replace(window, columns=(0,))
            for window in secret.windows
            if window.columns == (column,)
        )
        found.append(SecretInputs(unit, signals, windows=windows))
        if found[-1] != found[0] or any(moves.rounded for moves in signals):
            return None
    counted = sum(len(each.signals) + len(each.windows) for each in found)
    if counted != len(secret.signals) + len(secret.windows) or not counted:
        return None  # some window has several signals
    return found[0]


def _odd_ones(rows: NDArray[np.float64], scale: float) -> NDArray[np.intp]:
    """Return the position of the entry of each row that is unlike all others, or -1."""
    middle = np.median(rows, axis=1, keepdims=True)
    distances = np.abs(rows - middle)
    odd = distances.argmax(axis=1)
    largest = distances.max(axis=1)
    rest = distances.copy()
    rest[np.arange(len(rows)), odd] = 0.0
    is_odd = (largest > SYMMETRIC * scale) & (rest.max(axis=1) <= SYMMETRIC * scale)
    return np.where(is_odd, odd, -1)


def _units_of(system: LinearSystem) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
    """Return the states (N, m) of each unit, and those that all share.

    A state is one of the unit whose input moves it unlike all others do, or whose states
    are so coupled to it.
    """
    A, B, C, _ = system.matrices
    if not (B.any() and C.any()):
        return None
    owner = _odd_ones(B, float(np.abs(B).max()))
    scale = float(np.abs(A).max(initial=0.0))
    for _ in range(system.order):
        places = _places(system, owner)
        if places is None:
            return None
        before = owner
        for states in places.T:
            for links in (A[:, states], A[states].T):
                odd = _odd_ones(links, scale)
                owner = np.where(owner == -1, odd, owner)
        if (owner == before).all():
            break
    shared = np.flatnonzero(owner == -1)
    if places is None or not places.size:
        return None
    return places, shared


def _in_order(system: LinearSystem, places: NDArray[np.intp]) -> LinearSystem | None:
    """Return the system with the output of each unit in turn, None where that is not told."""
    A, B, C, D = system.matrices
    links = [C[:, states] for states in places.T] + [D]
    owner = np.full(len(C), -1)
    for each in links:
        scale = float(np.abs(each).max(initial=0.0))
        owner = np.where(owner == -1, _odd_ones(each, scale), owner)
    order = np.argsort(owner, kind="stable")
    if (owner[order] != np.arange(len(C))).any():
        return None
    return LinearSystem(A, B, C[order], D[order])


def _places(system: LinearSystem, owner: NDArray[np.intp]) -> NDArray[np.intp] | None:
    """Return the states (N, m) of each unit, None where one has more than another.

    Those of a unit are in the order of what they do to themselves and to the outputs.
    """
    A, B, C, _ = system.matrices
    count = system.input_count
    found = _members(owner + 1, count + 1)[1:]
    if len({len(states) for states in found}) > 1:
        return None
    places = np.array(found)
    weights = np.random.default_rng(0).random(2)  # generic, the same for every plant
    signs = np.diag(A) + weights @ [C.sum(axis=0), B.sum(axis=1)]
    scale = SYMMETRIC * float(np.abs(signs).max(initial=0.0))
    told = np.round(signs / scale) if scale else signs
    order = np.argsort(told[places], axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1)


class _Parts:
    """A plant of N units as blocks (N, a, N, b) from one unit to another, and the rest.

    The states that the units share are outside of the blocks.
    """

    def __init__(
        self, system: LinearSystem, places: NDArray[np.intp], shared: NDArray[np.intp]
    ) -> None:
        A, B, C, D = system.matrices
        N, m = places.shape
        units = places.ravel()
        self.count = N
        self.A = A[np.ix_(units, units)].reshape(N, m, N, m)
        self.B = B[units].reshape(N, m, N, 1)
        self.C = C[:, units].reshape(N, 1, N, m)
        self.D = D.reshape(N, 1, N, 1)
        self.to_units = A[np.ix_(units, shared)].reshape(N, m, -1)
        self.from_units = A[np.ix_(shared, units)].reshape(-1, N, m)
        self.common = A[np.ix_(shared, shared)]
        self.entered = B[shared]
        self.read = C[:, shared]


def _modes(
    system: LinearSystem, places: NDArray[np.intp], shared: NDArray[np.intp]
) -> tuple[LinearSystem, LinearSystem, tuple[float, float, float, float]]:
    """Return the systems of a difference and of the mean, and how far they are away."""
    parts = _Parts(system, places, shared)
    root = math.sqrt(parts.count)
    A_own, A_mean = _both(parts.A)
    B_own, B_mean = _both(parts.B)
    C_own, C_mean = _both(parts.C)
    D_own, D_mean = _both(parts.D)
    own = LinearSystem(A_own, B_own, C_own, D_own)
    to_units = root * parts.to_units.mean(axis=0)
    from_units = root * parts.from_units.mean(axis=1)
    entered = root * parts.entered.mean(axis=1, keepdims=True)
    read = root * parts.read.mean(axis=0, keepdims=True)
    mean = LinearSystem(
        np.block([[A_mean, to_units], [from_units, parts.common]]),
        np.vstack([B_mean, entered]),
        np.hstack([C_mean, read]),
        D_mean,
    )
    return own, mean, _distances(parts, own, mean)


def _distances(
    parts: _Parts, own: LinearSystem, mean: LinearSystem
) -> tuple[float, float, float, float]:
    """Bound how far A, B, C and D are from those of a plant with these systems.

    A and C in the Frobenius norm, and of B and D the norm of a column.
    """
    m = own.order
    root = math.sqrt(parts.count)
    of_units = _differences(parts.A, own.A, mean.A[:m, :m])
    to_units = _from_one(parts.to_units, mean.A[:m, m:] / root)
    from_units = parts.from_units.swapaxes(0, 1)
    from_units = _from_one(from_units, mean.A[m:, :m][None] / root)
    of_A = sum(float(np.sum(wrong**2)) for wrong in (of_units, to_units, from_units))
    of_units = _differences(parts.B, own.B, mean.B[:m])
    of_B = np.sum(of_units**2, axis=(0, 1, 3))
    of_B += np.sum(_from_one(parts.entered, mean.B[m:] / root) ** 2, axis=0)
    of_units = _differences(parts.C, own.C, mean.C[:, :m])
    read = _from_one(parts.read, mean.C[:, m:] / root)
    of_C = sum(float(np.sum(wrong**2)) for wrong in (of_units, read))
    of_units = _differences(parts.D, own.D, mean.D)
    of_D = np.sum(of_units**2, axis=(0, 1, 3))
    a, b, c, d = (
        math.sqrt(square) * (1 + 1e-9)
        for square in (of_A, float(of_B.max()), of_C, float(of_D.max()))
    )
    return a, b, c, d


def _differences(
    blocks: NDArray[np.float64], own: NDArray[np.float64], mean: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Bound the entries of blocks (N, a, N, b) beside those of equal units."""
    N = len(blocks)
    each = np.arange(N)
    among = (mean - own) / N
    sizes = (np.abs(mean) + np.abs(own)) / N
    wrong = np.abs(blocks - among[:, None])
    wrong += 8 * EPS * (np.abs(blocks) + sizes[:, None])
    within = blocks[each, :, each] - (own + among)
    wrong[each, :, each] = np.abs(within) + 8 * EPS * (
        np.abs(blocks[each, :, each]) + np.abs(own) + sizes
    )
    return wrong


def _from_one(
    given: NDArray[np.float64], near: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Bound the differences of entries from what they all are in a symmetric plant."""
    return np.abs(given - near) + 8 * EPS * (np.abs(given) + np.abs(near))


def _both(
    blocks: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what blocks (N, a, N, b) come to on differences and on the mean."""
    N = len(blocks)
    within = np.einsum("iaib->ab", blocks) / N
    among = (blocks.sum(axis=(0, 2)) - N * within) / (N * (N - 1))
    return within - among, within + (N - 1) * among
