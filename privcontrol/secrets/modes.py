"""Which modes of a plant make privacy over a horizon expensive, and why, by name.

A mode is a group of eigenvalues that double precision cannot distinguish, with its
invariant subspace. What is said here explains and warns, and no guarantee rests on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse.csgraph
from numpy.typing import ArrayLike, NDArray

from ..core.adjacency import Adjacency
from ..numerics.errors import warn_user
from ..numerics.linalg import EPS
from ..numerics.thresholds import BLOCK, UNSEEN
from ..privacy.sentences import about
from ..systems.linear import Plant
from .secrets import Secrets

#: Distance of eigenvalues below which they are one mode. Rounding splits a chain of four
#: by about as much.
_TOGETHER = 1e-4

#: Norm of a projection onto a mode from which on it is merged with its neighbours, since
#: they would cancel.
_SKEWED = 1e3

#: Growth of the noise over the horizon, in standard deviation, that is worth a warning.
COSTLY = 30.0

#: Part of the largest share from which on a state takes part in a mode.
_SHARE = 0.3


@dataclass(frozen=True)
class Mode:
    """A mode that protected moves excite and outputs see.

    ``eigenvalue`` is the middle one of the group by modulus, and ``states`` are those that
    take part most. For each horizon ``sizes`` (H,) is the largest output that a hidden move
    has through this mode. Noise that hides it with privacy shift y has at least 1/y times
    this standard deviation along it. ``growth`` is the size of the last horizon over that
    of a horizon of n samples.
    """

    eigenvalue: complex
    kind: str
    states: tuple[str, ...]
    sizes: NDArray[np.float64]
    growth: float

    @property
    def name(self) -> str:
        """Eigenvalue and states, such as ``0.9 (level)``."""
        return _name_of(self.eigenvalue, self.states)

    def explanation(self, horizon: int) -> str:
        """Why this mode is expensive, and the ways out."""
        factor = "more than 1e308 times"
        if np.isfinite(self.growth):
            factor = f"{about(self.growth)} times"
        longer = f"{factor} its size over a short horizon"
        if self.kind == "unstable":
            return (
                f"the unstable mode {self.name} is excited by the noise that hides the "
                f"state: over {horizon} samples that noise is {longer}, and the true error "
                "of any controller that sees private outputs only grows like it. Hiding "
                "this state and stabilising this mode are in conflict; shorten the horizon, "
                "or protect other states"
            )
        if self.kind == "chain":
            return (
                f"the mode {self.name} grows along a chain of integrators: over {horizon} "
                f"samples the noise that hides the protected moves is {longer}. Shorten the "
                "horizon, or protect other states"
            )
        return (
            f"the contracting mode {self.name} makes the noise grow: a small move at the "
            f"end of {horizon} samples is a large one at their start, and the noise that "
            f"hides it is {longer}. Protect fewer times (StateAdjacency(times=...)), shorten "
            "the horizon, or protect other states. If all modes decay, noise without a "
            "horizon hides a disturbance (DisturbanceAdjacency, horizon=np.inf)"
        )


def growing_mode(plant: Plant) -> str:
    """Name of the mode of largest modulus, such as ``1.2 (tilt)``."""
    return largest_mode(plant.A, plant.states)


def largest_mode(A: NDArray[np.float64], names: Sequence[str]) -> str:
    """Name of the mode of A of largest modulus, by the names of its states."""
    values, vectors = np.linalg.eig(A)
    largest = np.abs(values).argmax()
    states = _leading_states(names, np.abs(vectors[:, largest]))
    return _name_of(values[largest], states)


def unseen_mode(
    A: NDArray[np.float64], C: NDArray[np.float64], states: Sequence[str]
) -> str:
    """Return the name of a mode of A that does not decay and that C does not see, or "".

    By the rank of [A - z I; C] (Popov, Belevitch and Hautus); of A' and B' it is a mode
    that no input reaches.
    """
    for value in np.linalg.eigvals(A):
        if abs(value) < 1:
            continue
        pencil = np.vstack([A - value * np.eye(len(A)), C])
        sizes, rows = np.linalg.svd(pencil)[1:]
        if sizes[-1] <= UNSEEN * sizes[0]:
            return _name_of(value, _leading_states(states, np.abs(rows[-1])))
    return ""


def _name_of(value: complex, states: Sequence[str]) -> str:
    """An eigenvalue and states, such as ``0.9 (level)``."""
    text = f"{value.real:.4g}"
    if abs(value.imag) > 1e-6 * abs(value):
        text += f"\N{PLUS-MINUS SIGN}{abs(value.imag):.4g}i"
    return f"{text} ({', '.join(states)})"


def _leading_states(
    states: Sequence[str], shares: NDArray[np.float64]
) -> tuple[str, ...]:
    """Names of the at most three states that take part most."""
    relative = (shares / shares.max()).round(6)  # ties stay in the plant's order
    order = np.argsort(-relative, kind="stable")
    leading = order[relative[order] > _SHARE]
    names = [states[k] for k in leading[:3]]
    return tuple(names)


def modes(plant: Plant, adjacency: Adjacency, horizons: ArrayLike) -> tuple[Mode, ...]:
    """The modes of a plant that protected moves excite and outputs see.

    They hold their sizes for each horizon. There is none for a disturbance,
    nor of a plant that varies.
    """
    horizons = np.asarray(horizons)
    hidden = Secrets(adjacency)
    if hidden.disturbances or plant.varies:
        return ()
    (secret,) = hidden.parts
    directions = secret.starting(plant, int(horizons.max())).system.B
    times = secret._move_times
    # units do not matter
    balance = scipy.linalg.matrix_balance(plant.A, permute=False, separate=True)[1][0]
    A = plant.A * balance / balance[:, None]
    C = plant.C * balance
    moves = directions / balance[:, None]
    found = []
    for space in _subspaces(A):
        mode = _mode(plant, C, moves, times, space, horizons)
        if mode is not None:
            found.append(mode)
    return tuple(found)


def warn_of_costly_modes(
    plant: Plant,
    adjacency: Adjacency,
    horizon: int,
    kinds: Sequence[str],
) -> None:
    """Warn of the costliest mode among the kinds, if it dominates what must be hidden.

    Each part of a joint adjacency that is about states has a warning of its own.
    """
    for part in adjacency.parts:
        found = modes(plant, part, [horizon])
        costly = [mode for mode in found if mode.kind in kinds and mode.growth > COSTLY]
        if not costly:
            continue
        worst = max(costly, key=lambda mode: mode.sizes[-1])
        largest = max(mode.sizes[-1] for mode in found)
        if 2 * worst.sizes[-1] >= largest:
            text = worst.explanation(horizon)
            warn_user(text)


#: The block N, the basis V and the coordinates W of an invariant subspace: A V = V N,
#: W V = I and W A = N W.
_Subspace: TypeAlias = tuple[
    NDArray[np.complex128], NDArray[np.complex128], NDArray[np.complex128]
]


def _subspaces(A: NDArray[np.float64]) -> list[_Subspace]:
    """Invariant subspaces of groups of eigenvalues, merged until they are well apart.

    Eigenvalues belong together as conjugates or neighbours.
    """
    A = A.astype(complex)
    values = np.diag(scipy.linalg.schur(A, output="complex")[0])
    upper = np.where(values.imag < 0, values.conj(), values)
    distances = np.abs(upper[:, None] - upper) / np.maximum(1.0, np.abs(upper))
    together = _TOGETHER
    while True:
        near = scipy.sparse.csgraph.connected_components(distances < together)
        groups = [values[near[1] == label] for label in range(near[0])]
        spaces = [_subspace(A, group) for group in groups]
        skew = max(np.linalg.norm(V @ W, 2) for _, V, W in spaces)
        if len(spaces) == 1 or skew < _SKEWED:
            return spaces
        together *= 3


def _subspace(A: NDArray[np.inexact], group: NDArray[np.inexact]) -> _Subspace:
    """The invariant subspace of some eigenvalues of A, by an ordered Schur form.

    A Sylvester equation takes the other ones apart.
    """
    # the stub of schur knows a ``sort`` of two real numbers, as of a real form
    triangle, basis, _ = scipy.linalg.schur(  # type: ignore[call-overload]
        A, output="complex", sort=lambda value: value in group
    )
    size = len(group)
    block = triangle[:size, :size]
    dual = np.eye(size, len(A), dtype=complex)
    if size < len(A):
        rest, between = triangle[size:, size:], triangle[:size, size:]
        dual[:, size:] = scipy.linalg.solve_sylvester(block, -rest, between)
    return block, basis[:, :size], dual @ basis.conj().T


def _mode(
    plant: Plant,
    C: NDArray[np.float64],
    moves: NDArray[np.float64],
    times: Sequence[int] | None,
    space: _Subspace,
    horizons: NDArray[np.intp],
) -> Mode | None:
    """The mode of a subspace, or None if no move excites it or no output sees it."""
    block, basis, coordinates = space
    values = np.diag(block)
    longest = int(horizons.max())
    first = 0 if times is None else min(times)
    latest = longest - 1 if times is None else max(times)
    sizes = _sizes_by_age(space, C, moves, latest, longest)
    if sizes is None:
        return None

    def peak(horizon: int) -> float:
        """The largest norm over the ages that a horizon has."""
        oldest = latest if times is not None else min(horizon - 1, latest)
        return sizes[latest - oldest : latest + max(1, horizon - first)].max()

    peaks = np.array([peak(horizon) for horizon in horizons.tolist()])
    base = peak(min(plant.order, longest))
    with np.errstate(over="ignore", invalid="ignore"):
        growth = float(peaks[-1] / base) if base > 0 else np.inf
    shares = np.abs(np.einsum("ik,ki->i", basis, coordinates))
    sorted_values = values[np.argsort(np.abs(values))]
    middle = sorted_values[len(values) // 2]
    return Mode(
        eigenvalue=complex(middle.real, abs(middle.imag)),
        kind=_kind(float(np.abs(values).max()), len(values), growth),
        states=_leading_states(plant.states, shares),
        sizes=peaks,
        growth=growth,
    )


def _sizes_by_age(
    space: _Subspace,
    C: NDArray[np.float64],
    moves: NDArray[np.float64],
    latest: int,
    longest: int,
) -> NDArray[np.float64] | None:
    """The largest outputs of a subspace after moves, at ages from -latest to longest - 1.

    None if no move excites it or no output sees it.
    """
    block, basis, coordinates = space
    excited = coordinates @ moves
    lengths = np.linalg.norm(basis @ excited, axis=0)
    present = lengths > UNSEEN * np.linalg.norm(moves, axis=0)
    if not present.any():
        return None
    excited = excited[:, present]
    largest = float(np.abs(np.diag(block)).max())
    radius = largest if largest > EPS else 1.0  # a pure delay decays by itself
    scaled = block / radius
    outputs = C @ basis
    past = np.full(latest, np.inf)
    if scaled.diagonal().all():  # no pure delay
        inverse = np.linalg.inv(scaled)
        past = _sizes(outputs, inverse, inverse @ excited, latest)[::-1]
    sizes = np.append(past, _sizes(outputs, scaled, excited, longest))
    seen = np.linalg.norm(C, 2) * lengths[present].max()
    if not sizes[latest : latest + len(block)].max() > UNSEEN * seen:
        return None
    ages = np.arange(-latest, len(sizes) - latest, dtype=float)
    with np.errstate(over="ignore"):
        return sizes * radius**ages


def _sizes(
    C: NDArray[np.inexact],
    block: NDArray[np.inexact],
    states: NDArray[np.inexact],
    count: int,
) -> NDArray[np.float64]:
    """The largest ||C block^age w|| over some states w, for ages 0 .. count - 1."""
    width = len(C) * max(1, len(block), states.shape[1])
    length = max(1, min(count, BLOCK // width))
    rows = np.empty((length, *C.shape), complex)  # C block^age
    row = C
    for age in range(length):
        rows[age] = row
        row = row @ block
    jump = np.linalg.matrix_power(block, length)
    sizes = np.empty(count)
    for start in range(0, count, length):
        outputs = rows[: count - start] @ states
        stretch = np.linalg.norm(outputs, axis=1).max(axis=1)
        sizes[start : start + length] = stretch
        states = jump @ states
    return sizes


def _kind(radius: float, size: int, growth: float) -> str:
    slack = max(1e-6, 10 * EPS ** (1 / size))
    if radius > 1 + slack:
        return "unstable"
    if radius < 1 - slack:
        return "contracting"
    if growth > 2:
        return "chain"
    return "bounded"
