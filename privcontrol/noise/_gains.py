"""Gains of free inputs that leave little of a secret, under a plant that varies."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..numerics.balls import midpoints
from ..systems.linear import (
    LinearSystem,
    observability_gramian,
    reachability_gramian,
)
from ._program import solve, takes_minutes
from ._vertices import VaryingSecret, is_stable, orthonormal, root_diagonal

if TYPE_CHECKING:
    from cvxpy import Expression, Variable

#: Bounds of Y for the gains of free inputs.
_LARGEST = (1e5, 1e7, 1e4, 1e2)
#: Size of faint directions in the coordinates in which these gains are found.
_FAINT_OF_GAINS = 1e-2


def good_gains(
    secret: VaryingSecret, start: list[NDArray[np.float64]]
) -> Iterator[list[NDArray[np.float64]]]:
    """Yield gains of the free inputs, for each vertex, that leave little of a secret.

    They are those of H-infinity control with the state and the secret known. With P the
    inverse of Y and W = K Y, K the gains of the state, the demands are linear in Y, W and
    the gains L of the secret. Later ones are for a solver that had trouble with the first.
    ``start`` are gains that choose the coordinates.
    """
    closed = secret.closed(start)
    mean = closed.mean
    if not is_stable(mean.A):
        return
    radii = LinearSystem.gain(np.diag(closed.radii))
    weighted = mean.after(radii)
    sizes = root_diagonal(reachability_gramian(weighted))
    basis = orthonormal(observability_gramian(mean), sizes, _FAINT_OF_GAINS)
    at_once = float(np.linalg.norm(weighted.D, 2))
    tiny = float(np.finfo(float).tiny)
    scaled = secret.transformed(basis, max(at_once, tiny))
    cp: ModuleType = import_module("cvxpy")  # takes seconds
    Y = cp.Variable((secret.order, secret.order), symmetric=True)
    square = cp.Variable()
    constraints = []
    unknown = []
    for vertex in scaled.vertices:
        W = cp.Variable((secret.free, secret.order))
        L = cp.Variable((secret.free, secret.inputs))
        unknown.append((W, L))
        constraints += _demands_on_gains(secret, vertex, (Y, W, L), square)
    if takes_minutes(each.shape[0] for each in constraints):
        return
    for largest in _LARGEST:
        bound = Y << largest * np.eye(secret.order)
        problem = cp.Problem(cp.Minimize(square), [*constraints, bound])
        if solve(problem, 1e-8):
            into = np.linalg.inv(basis @ Y.value)
            gains = []
            for W, L in unknown:
                gains.append(np.hstack([W.value @ into, L.value]))
            yield gains


def _demands_on_gains(
    secret: VaryingSecret,
    vertex: LinearSystem,
    unknown: tuple[Any, Any, Any],
    square: Variable,
) -> list[Any]:
    """Demand of Y, W and L at a vertex to leave at most ``square`` of the secret."""
    cp: ModuleType = import_module("cvxpy")
    Y, W, L = unknown
    A, B, C, D = map(midpoints, vertex.matrices)
    inputs = secret.inputs
    through = np.vstack([B, D])
    free = through[:, inputs:]
    radii = np.diag(secret.radii)
    onward = np.vstack([A, C])
    of_state = onward @ Y + free @ W
    of_secret = (through[:, :inputs] + free @ L) @ radii
    energy = square * np.eye(inputs)

    def both(first: Expression, second: Expression | NDArray[np.float64]) -> Expression:
        rows, _ = first.shape
        columns, _ = second.shape
        corner = np.zeros((rows, columns))
        return cp.bmat([[first, corner], [corner.T, second]])

    after = both(Y, np.eye(len(C)))
    steps = [(Y, of_state), (energy, of_secret)]
    if secret.secret.energies is not None:
        step = cp.hstack([of_state, of_secret])
        steps = [(both(Y, energy), step)]
    demands = []
    for start, step in steps:
        whole = cp.bmat([[start, step.T], [step, after]])
        demands.append(whole >> 0)
    return demands
