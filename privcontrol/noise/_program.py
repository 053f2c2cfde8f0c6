"""Semidefinite programs whose answers bound an energy, and their proof in balls.

Symmetric matrices have to meet demands V >= X^T W X + Y^T Y with the least squared shift t.
A solver finds them, with some to spare. Ball arithmetic verifies every inequality, and only
what is verified is returned.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..numerics.balls import (
    Ball,
    BallMatrix,
    ball_matrix,
    block_balls,
    diagonal_balls,
    identity_balls,
    is_positive_definite,
    midpoints,
    submatrix,
)
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import float_above
from ..numerics.thresholds import ROUNDED
from ..secrets.secret import SignalMoves, WindowMoves
from ._vertices import VaryingSecret, symmetric

if TYPE_CHECKING:
    from cvxpy import Problem

#: Speed: so many demands alike are asked for at once, and one where there are more.
_MOST_ASKED = 4
#: Cubes of the entries of matrices asked for, for which the solver takes half a minute.
_MOST_WORK = 2e9

_TOO_LARGE = (
    "models: the search for a bound would take minutes or more; protect shorter changes, "
    "or take models with fewer states"
)


@dataclass(frozen=True, eq=False)
class _Demand:
    """V >= X^T W X + Y^T Y, for symmetric matrices named ``held`` and ``value``.

    Where V is smaller than that, or there is none, t times the identity goes on with its
    diagonal, or the numbers of the names ``weights``.
    """

    held: str | None
    value: str
    X: BallMatrix
    Y: BallMatrix
    weights: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Program:
    """Demands on symmetric matrices, of which t, the squared shift, is to be least.

    It is solved in numbers of nine places, and those with the same ones are equal: what
    solves one is verified for noise of another size. The search for a t that must be above ``most`` is given up. It is at
    least each of the ``sums`` of numbers.
    """

    sizes: dict[str, int]
    demands: tuple[_Demand, ...]
    most: float = math.inf
    sums: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, left: VaryingSecret) -> Program:
        sizes = {"P": left.order}
        demands = []
        secret = left.secret
        for vertex in left.vertices:
            A, B, C, D = vertex.matrices
            X, Y = A, C
            if secret.energies is not None:
                radii = diagonal_balls(secret.energies.tolist())
                X = block_balls([[A, B * radii]])
                Y = block_balls([[C, D * radii]])
            demands.append(_Demand("P", "P", X, Y))
        for index in secret.balls:
            for vertex in left.vertices:
                _, B, _, D = vertex.entered_by(index).matrices
                demands.append(_Demand(None, "P", B, D))
        for k, moves in enumerate(secret.signals):
            for i, shape in enumerate(moves.shapes):
                name = f"Q{k}.{i}."
                demands += _of_shape(left, moves, shape, name, sizes)
        sums = []
        for k, window in enumerate(secret.windows):
            found, weights = _of_window(left, window, f"W{k}.", sizes)
            demands += found
            sums.append(weights)
        return cls(sizes, tuple(demands), sums=tuple(sums))

    @cached_property
    def _entries(self) -> NDArray[np.float64]:
        """All numbers of the demands, as they are solved."""
        blocks = [block for each in self.demands for block in (each.X, each.Y)]
        return np.concatenate([_in_places(block).ravel() for block in blocks])

    def __hash__(self) -> int:
        return hash(tuple(self.sizes))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Program) or self.sizes != other.sizes:
            return False
        return np.array_equal(self._entries, other._entries)

    def _target(
        self, demand: _Demand
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return E and F with the larger side E V E^T + t F of a demand."""
        size = demand.X.ncols()
        held = self.sizes.get(demand.held or "", 0)
        rest = np.eye(size)
        rest[:held] = 0.0
        return np.eye(size, held), rest

    def solve(self, margin: float) -> dict[str, NDArray[np.float64]] | None:
        """Find matrices that meet every demand with so much to spare.

        Of many demands alike one is asked for. Among the others, the one that the answer
        meets least is asked for as well until all are met.

        Raises
        ------
        GivenUp
            If even some of the demands need a t above ``most``.
        UncertifiableError
            If it would take minutes or more.
        """
        alike = defaultdict(list)
        for k, demand in enumerate(self.demands):
            kind = (demand.held, demand.value, demand.X.ncols(), demand.weights)
            alike[kind].append(k)
        asked: set[int] = set()
        for group in alike.values():
            asked.update(group if len(group) <= _MOST_ASKED else group[:1])
        while True:
            demands = [self.demands[k] for k in sorted(asked)]
            if takes_minutes(each.X.ncols() for each in demands):
                raise UncertifiableError(_TOO_LARGE)
            found = self._meeting(demands, margin)
            if found is None:
                return None
            if found["t"][0, 0] > self.most:
                raise GivenUp
            lacking: list[int] = []
            for group in alike.values():
                left = {self._spare(k, found): k for k in group if k not in asked}
                if left and min(left) < margin / 2:
                    lacking.append(left[min(left)])
            if not lacking:
                return found
            asked.update(lacking)

    def _rest(self, demand: _Demand, known: Mapping[str, Any]) -> Any:
        """Return what the larger side of a demand exceeds the other one by."""
        E, F = self._target(demand)
        X = _in_places(demand.X)
        Y = _in_places(demand.Y)
        later = X.T @ known[demand.value] @ X
        rest = known["t"][0, 0] * F - later - Y.T @ Y
        if demand.weights:
            rest = -later - Y.T @ Y
            for place, name in zip(
                np.flatnonzero(F.any(axis=0)), demand.weights, strict=True
            ):
                rest = rest + known[name][0, 0] * np.outer(F[place], F[place])
        if demand.held is not None:
            rest = rest + E @ known[demand.held] @ E.T
        return rest

    def _spare(self, k: int, found: dict[str, NDArray[np.float64]]) -> float:
        """Return what a demand has to spare."""
        rest = self._rest(self.demands[k], found)
        return float(np.linalg.eigvalsh(rest)[0])

    def _meeting(
        self, asked: Sequence[_Demand], margin: float
    ) -> dict[str, NDArray[np.float64]] | None:
        """Find matrices of least t that meet some demands with so much to spare."""
        cp: ModuleType = import_module("cvxpy")  # takes seconds
        unknown: dict[str, Any] = {"t": cp.Variable((1, 1))}
        constraints = []
        for name, size in self.sizes.items():
            unknown[name] = cp.Variable((size, size), symmetric=True)
            constraints.append(unknown[name] >> margin * np.eye(size))
        for demand in asked:
            rest = self._rest(demand, unknown)
            size, _ = rest.shape
            constraints.append(rest >> margin * np.eye(size))
        square = unknown["t"][0, 0]
        for names in self.sums:
            total = sum(unknown[name][0, 0] for name in names)
            constraints.append(square >= total * (1 + margin))
        problem = cp.Problem(cp.Minimize(square), constraints)
        if not solve(problem, 1e-11):
            return None
        return {name: symmetric(matrix.value) for name, matrix in unknown.items()}

    def verified(self, found: dict[str, NDArray[np.float64]]) -> float | None:
        """Return t, if the matrices are proven to meet every demand."""
        square = float(found["t"][0, 0])
        balls = {name: ball_matrix(found[name]) for name in self.sizes}
        if not all(map(is_positive_definite, balls.values())):
            return None
        for demand in self.demands:
            E, F = self._target(demand)
            target = ball_matrix(F) * Ball(square)
            if demand.weights:
                numbers = np.zeros(len(F))
                found_weights = [float(found[name][0, 0]) for name in demand.weights]
                numbers[F.any(axis=0)] = found_weights
                target = diagonal_balls(numbers.tolist())
            if demand.held is not None:
                onto = ball_matrix(E)
                target += onto * balls[demand.held] * onto.transpose()
            value = balls[demand.value]
            if not is_proven(target, value, demand.X, demand.Y):
                return None
        for names in self.sums:
            total = math.fsum(float(found[name][0, 0]) for name in names)
            square = max(square, float_above(total))
        return square


def _in_places(block: BallMatrix) -> NDArray[np.float64]:
    """Return numbers with nine places, so that rounding does not change what is solved."""
    return np.round(midpoints(block) / ROUNDED) * ROUNDED


class GivenUp(Exception):
    """The answer of a program is found to be of no use before it is known."""


@lru_cache(maxsize=8)
def solved(program: Program, margin: float) -> dict[str, NDArray[np.float64]] | None:
    """Return what `Program.solve` finds, for noise of another size again."""
    return program.solve(margin)


def _of_shape(
    left: VaryingSecret,
    moves: SignalMoves,
    shape: NDArray[np.float64],
    name: str,
    sizes: dict[str, int],
) -> list[_Demand]:
    """Return demands for a change of one shape.

    The energy that is still to come with j values of the change left is a quadratic
    function of (z, 1), from j = 0, which is z^T P z, up to the start, where z = 0. Every
    stage where a change may start bounds t.
    """
    demands = []
    goes_on = [BallMatrix(1, left.order), identity_balls(1)]
    value = "P"
    last = len(shape)
    for j, amplitude in enumerate(shape[::-1].tolist(), start=1):
        size = Ball(amplitude * moves.radius * moves.spacing.events)
        own = f"{name}{j}"
        for vertex in left.vertices:
            entered = vertex.entered_by([moves.column])
            D = entered.D * size
            rows = [[vertex.A, entered.B * size]]
            if j > 1:
                rows.append(goes_on)
            step = block_balls(rows)
            if moves.lasting or j == last:
                start = submatrix(step, range(step.nrows()), [left.order])
                demands.append(_Demand(None, value, start, D))
            if j < last:
                read = block_balls([[vertex.C, D]])
                demands.append(_Demand(own, value, step, read))
        if j < last:
            sizes[own] = left.order + 1
            value = own
    return demands


def _of_window(
    left: VaryingSecret, window: WindowMoves, name: str, sizes: dict[str, int]
) -> tuple[list[_Demand], tuple[str, ...]]:
    """Return demands for a change of any shape, and the names of the weights d of its values.

    With j values left the energy that is still to come is below z^T P_j z + sum d w^2,
    with P_0 = P: blkdiag(P_j, d_j) >= [A B]^T P_{j-1} [A B] + [C D]^T [C D].
    """
    demands = []
    names = []
    later = "P"
    sizes_of_changes = (window.spacing.events * np.asarray(window.radii)).tolist()
    for j in range(1, window.longest + 1):
        own = tuple(f"{name}{j}.d{i}" for i in range(len(window.columns)))
        names += list(own)
        is_first = j == window.longest  # it begins at rest
        held = None if is_first else f"{name}{j}"
        for vertex in left.vertices:
            A, B, C, D = vertex.entered_by(list(window.columns)).matrices
            radii = diagonal_balls(sizes_of_changes)
            X, Y = B * radii, D * radii
            if not is_first:
                X, Y = block_balls([[A, X]]), block_balls([[C, Y]])
            demands.append(_Demand(held, later, X, Y, own))
        sizes |= dict.fromkeys(own, 1)
        if held is not None:
            sizes[held] = left.order
            later = held
    return demands, tuple(names)


def takes_minutes(sizes: Iterable[int]) -> bool:
    """Return whether the solver takes so long for matrices of these sizes."""
    return sum((size * (size + 1) / 2) ** 3 for size in sizes) > _MOST_WORK


def is_proven(
    target: BallMatrix, value: BallMatrix, X: BallMatrix, Y: BallMatrix
) -> bool:
    """Return whether target > X^T value X + Y^T Y is certain."""
    later = X.transpose() * value * X
    now = Y.transpose() * Y
    return is_positive_definite(target - later - now)


def solve(problem: Problem, tolerance: float) -> bool:
    """Return whether the solver of semidefinite programs returns numbers, good or not.

    What it calls inaccurate is verified, or solved again.
    """
    cp: ModuleType = import_module("cvxpy")
    asked = dict(tol_gap_abs=tolerance, tol_gap_rel=tolerance, tol_feas=tolerance)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
        try:
            problem.solve(solver=cp.CLARABEL, max_iter=200, **asked)  # type: ignore[no-untyped-call]
        except cp.SolverError:
            return False
    return problem.value is not None and np.isfinite(problem.value)
