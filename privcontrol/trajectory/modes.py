"""Which modes of a plant make privacy over a horizon expensive, and why, by name.

A mode is a group of eigenvalues that double precision cannot tell apart, with its invariant subspace. What is said
here explains and warns; no guarantee rests on it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from ..core._linalg import EPS
from ..core.adjacency import Adjacency
from ..core.errors import PrivacyWarning
from .adjacency import StateAdjacency
from .manifold import trajectory_manifold
from .plant import Plant

_TOGETHER = 1e-4  # distance of eigenvalues below which they are one mode: rounding splits a chain of four by 1e-4
_SKEWED = 1e3  # norm of a projection onto a mode above which it is one with its neighbours: apart they would cancel
_ABSENT = 1e-10  # relative size below which a mode is not excited, or not seen
_COSTLY = 30.0  # growth of the noise over the horizon, in standard deviation, that is worth a warning


@dataclass(frozen=True)
class Mode:
    """A mode that protected moves excite and outputs see.

    Attributes
    ----------
    eigenvalue : complex
        The middle one of the group by modulus, with nonnegative imaginary part.
    kind : {"contracting", "chain", "unstable", "bounded"}
    states : tuple of str
        The states that take part most.
    sizes : ndarray, shape (H,)
        For each horizon the largest output that a hidden move has through this mode, in the outputs' units: noise
        that hides the move with privacy shift y has at least 1/y times this standard deviation along it.
    growth : float
        ``sizes`` of the last horizon over that of a horizon of n samples.
    """

    eigenvalue: complex
    kind: str
    states: tuple
    sizes: np.ndarray
    growth: float

    @property
    def name(self) -> str:
        """Eigenvalue and states, such as ``0.9 (level)``."""
        value = f"{self.eigenvalue.real:.4g}"
        if self.eigenvalue.imag > 1e-6 * abs(self.eigenvalue):
            value += f"\N{PLUS-MINUS SIGN}{self.eigenvalue.imag:.4g}i"
        return f"{value} ({', '.join(self.states)})"

    def explanation(self, horizon: int) -> str:
        """Why this mode is expensive, and what to do about it."""
        factor = (
            f"{self.growth:.2g} times"
            if np.isfinite(self.growth)
            else "more than 1e308 times"
        )
        if self.kind == "unstable":
            return (
                f"the unstable mode {self.name} is excited by the noise that hides the state: over {horizon} samples that "
                f"noise is {factor} what it is over a short horizon, and the true error of any controller that sees "
                "private outputs only grows like it. Hiding this state and stabilising this mode are in conflict; "
                "shorten the horizon, or protect other states"
            )
        if self.kind == "chain":
            return (
                f"the mode {self.name} grows along a chain of integrators: over {horizon} samples the noise that hides "
                f"the protected moves is {factor} what it is over a short horizon. Shorten the horizon, or protect "
                "other states"
            )
        return (
            f"the contracting mode {self.name} makes the noise grow: what moves little at the end of {horizon} samples "
            f"moved far at their start, and the noise that hides it is {factor} what it is over a short horizon. Protect "
            "fewer times (StateAdjacency(times=...)), shorten the horizon, or protect other states. Since the plant "
            "forgets this state, noise without a horizon hides what enters it (DisturbanceAdjacency, horizon=np.inf)"
        )


def growing_mode(plant: Plant) -> str:
    """Name of the mode of largest modulus, such as ``1.2 (tilt)``."""
    values, vectors = np.linalg.eig(plant.A)
    k = np.abs(values).argmax()
    share = np.abs(vectors[:, k])
    states = tuple(
        plant.states[i]
        for i in np.argsort(-share, kind="stable")
        if share[i] > 0.3 * share.max()
    )[:3]
    value = complex(values[k].real, abs(values[k].imag))
    return Mode(value, "unstable", states, np.empty(0), np.inf).name


def modes(plant: Plant, adjacency: Adjacency, horizons: ArrayLike) -> tuple[Mode, ...]:
    """The modes of a plant that protected moves excite and outputs see, with their sizes for each horizon."""
    horizons = np.asarray(horizons)
    directions, times = _protected(plant, adjacency, int(horizons.max()))
    balance = scipy.linalg.matrix_balance(plant.A, permute=False, separate=True)[1][
        0
    ]  # units do not matter
    A, C, moves = (
        plant.A * balance / balance[:, None],
        plant.C * balance,
        directions / balance[:, None],
    )
    values = np.linalg.eigvals(A)
    spaces = _subspaces(A, values)
    found = (
        _mode(plant, C, moves, times, values[group], space, horizons)
        for group, space in spaces
    )
    return tuple(mode for mode in found if mode is not None)


def warn_of_costly_modes(
    plant: Plant,
    adjacency: Adjacency,
    horizon: int,
    kinds: Sequence[str],
    stacklevel: int = 3,
) -> None:
    """One `PrivacyWarning` that names the costliest mode among the kinds, if it dominates what must be hidden."""
    found = modes(plant, adjacency, [horizon])
    largest = max((mode.sizes[-1] for mode in found), default=0.0)
    costly = [
        mode
        for mode in found
        if mode.kind in kinds
        and mode.growth > _COSTLY
        and 2 * mode.sizes[-1] >= largest
    ]
    if costly:
        worst = max(costly, key=lambda mode: mode.sizes[-1])
        warnings.warn(worst.explanation(horizon), PrivacyWarning, stacklevel=stacklevel)


def _protected(
    plant: Plant, adjacency: Adjacency, horizon: int
) -> tuple[NDArray, Sequence[int] | None]:
    """Protected moves at one time as columns (n, M), and the protected times or None."""
    if isinstance(adjacency, StateAdjacency):
        return adjacency.moves_at_first_sample(plant), adjacency.times
    moves = adjacency.moves(trajectory_manifold(plant, horizon))
    return moves.vectors, (0,)


def _subspaces(
    A: NDArray, values: NDArray
) -> list[tuple[NDArray, tuple[NDArray, NDArray, NDArray]]]:
    """Groups of eigenvalues, as indices, with their `_subspace`, merged until the projections are well conditioned."""
    together = _TOGETHER
    while True:
        spaces = [
            (group, _subspace(A, values, group)) for group in _groups(values, together)
        ]
        if (
            len(spaces) == 1
            or max(np.linalg.norm(space[0] @ space[2], 2) for _, space in spaces)
            < _SKEWED
        ):
            return spaces
        together *= 3


def _groups(values: NDArray, together: float) -> list[NDArray]:
    """Indices of eigenvalues that belong together, as conjugates or neighbours."""
    upper = np.real(values) + 1j * np.abs(np.imag(values))
    close = np.abs(upper[:, None] - upper) < together * np.maximum(1.0, np.abs(upper))
    for _ in range(len(values)):
        close = close @ close
    return [np.flatnonzero(row) for row in np.unique(close, axis=0)]


def _mode(
    plant: Plant,
    C: NDArray,
    moves: NDArray,
    times: Sequence[int] | None,
    values: NDArray,
    space: tuple[NDArray, NDArray, NDArray],
    horizons: NDArray,
) -> Mode | None:
    basis, block, coordinates = space
    excited = coordinates @ moves
    present = np.linalg.norm(basis @ excited, axis=0) > _ABSENT * np.linalg.norm(
        moves, axis=0
    )
    if not present.any():
        return None
    largest = float(np.abs(values).max())
    radius = largest if largest > EPS else 1.0  # a pure delay decays by itself
    latest, first = (
        (int(horizons.max()) - 1, 0) if times is None else (max(times), min(times))
    )
    sizes = _sizes(
        C @ basis, block / radius, excited[:, present], latest, int(horizons.max())
    )
    ages = np.arange(-latest, len(sizes) - latest)
    seen = (
        np.linalg.norm(C, 2) * np.linalg.norm(basis @ excited[:, present], axis=0).max()
    )
    if not sizes[latest : latest + len(values)].max() > _ABSENT * seen:
        return None
    with np.errstate(over="ignore"):
        sizes = sizes * radius ** ages.astype(float)
    earliest = (lambda T: T - 1) if times is None else (lambda T: latest)
    peak = [sizes[latest - earliest(T) : latest + T - first].max() for T in horizons]
    short = min(plant.order, int(horizons.max()))
    base = sizes[
        latest - min(earliest(short), latest) : latest + max(1, short - first)
    ].max()
    share = np.abs(np.einsum("ik,ki->i", basis, coordinates))
    order = [
        k for k in np.argsort(-share, kind="stable") if share[k] > 0.3 * share.max()
    ][:3]
    middle = values[np.argsort(np.abs(values))[len(values) // 2]]
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        growth = float(peak[-1] / base) if base > 0 else np.inf
    kind = _kind(largest, len(values), growth)
    return Mode(
        complex(middle.real, abs(middle.imag)),
        kind,
        tuple(plant.states[k] for k in order),
        np.array(peak),
        growth,
    )


def _subspace(
    A: NDArray, values: NDArray, group: NDArray
) -> tuple[NDArray, NDArray, NDArray]:
    """Basis V (n, k), block (k, k) with A V = V block, and coordinates W (k, n) with W V = I, W A = block W."""

    def chosen(value: complex) -> bool:
        return np.abs(values - value).argmin() in group

    block, basis, size = scipy.linalg.schur(
        A.astype(complex), output="complex", sort=chosen
    )
    _, dual, _ = scipy.linalg.schur(A.T.astype(complex), output="complex", sort=chosen)
    basis, dual = basis[:, :size], dual[:, :size]
    return basis, block[:size, :size], np.linalg.solve(dual.T @ basis, dual.T)


def _sizes(
    C: NDArray, block: NDArray, excited: NDArray, back: int, forward: int
) -> NDArray:
    """max over moves of ||C block^age w|| for age = -back .. forward - 1, of a block of spectral radius one."""
    future = C @ _powers(block, forward) @ excited
    sizes = np.linalg.norm(future, axis=1).max(axis=1)
    if not back:
        return sizes
    try:
        past = C @ _powers(np.linalg.inv(block), back + 1)[1:] @ excited
    except np.linalg.LinAlgError:  # a pure delay
        return np.concatenate([np.full(back, np.inf), sizes])
    return np.concatenate([np.linalg.norm(past, axis=1).max(axis=1)[::-1], sizes])


def _powers(matrix: NDArray, count: int) -> NDArray:
    """I, M, M^2, .. (count, k, k) by doubling."""
    powers = np.empty((count, *matrix.shape), matrix.dtype)
    powers[0] = np.eye(len(matrix))
    done, leap = 1, matrix
    while done < count:
        part = min(done, count - done)
        powers[done : done + part] = leap @ powers[:part]
        done, leap = done + part, leap @ leap
    return powers


def _kind(radius: float, size: int, growth: float) -> str:
    slack = max(1e-6, 10 * EPS ** (1 / size))
    if radius > 1 + slack:
        return "unstable"
    if radius < 1 - slack:
        return "contracting"
    return "chain" if growth > 2 else "bounded"
