"""What is left of a secret at each vertex of a plant that varies, in any coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..numerics.balls import Ball, ball_matrix, midpoints
from ..secrets.secret import SecretInputs
from ..systems.linear import LinearSystem, transformed

#: Size of directions of the state that the noise hardly lets through, in the coordinates.
FAINT = 1e-7


@dataclass(frozen=True, eq=False)
class VaryingSecret:
    """Hold what is left of a secret after noise is inverted, at each vertex.

    Attributes
    ----------
    vertices : tuple of LinearSystem
        In balls, with the same sizes.
    secret : SecretInputs
        Changes of their inputs.
    free : int
        Number of last inputs that may be chosen to leave least of the secret. They enter
        alike at all vertices.
    """

    vertices: tuple[LinearSystem, ...]
    secret: SecretInputs
    free: int = 0

    @property
    def order(self) -> int:
        return self.vertices[0].order

    @property
    def inputs(self) -> int:
        """Number of inputs of the secret."""
        return self.vertices[0].input_count - self.free

    @property
    def radii(self) -> NDArray[np.float64]:
        """Sizes (q,) of what is hidden at each input, one where any impulse is."""
        if self.secret.energies is not None:
            return self.secret.energies
        radii = np.ones(self.inputs)
        for moves in self.secret.signals:
            largest = max(map(np.linalg.norm, moves.shapes))
            radii[moves.column] = moves.radius * moves.spacing.events * largest
        for window in self.secret.windows:
            most = window.spacing.events * math.sqrt(window.longest)
            radii[list(window.columns)] = most * window.radii
        return radii

    @property
    def mean(self) -> LinearSystem:
        """The mean of the vertices in doubles."""
        every = []
        for alike in zip(*(vertex.matrices for vertex in self.vertices), strict=True):
            matrices = [midpoints(matrix) for matrix in alike]
            every.append(np.mean(matrices, axis=0))
        return LinearSystem(*every)

    def closed(self, gains: Sequence[NDArray[np.float64]]) -> VaryingSecret:
        """Close the free inputs with gains (f, n + q) of the state and the inputs.

        Each vertex has gains of its own. Between vertices the free inputs are the same
        convex combinations as the matrices, so they still bound what is left.
        """
        inputs = self.inputs
        vertices = []
        for vertex, gain in zip(self.vertices, gains, strict=True):
            A, B, C, D = vertex.entered_by(range(inputs)).matrices
            free = vertex.entered_by(range(inputs, inputs + self.free))
            of_state = ball_matrix(gain[:, : self.order])
            of_secret = ball_matrix(gain[:, self.order :])
            closed = LinearSystem(
                A + free.B * of_state,
                B + free.B * of_secret,
                C + free.D * of_state,
                D + free.D * of_secret,
            )
            vertices.append(closed)
        return VaryingSecret(tuple(vertices), self.secret)

    def transformed(self, basis: NDArray[np.float64], size: float) -> VaryingSecret:
        """Change to coordinates z = basis z', and divide all sizes by ``size``."""
        into = ball_matrix(basis)
        unit = 1 / Ball(size)
        vertices = []
        for vertex in self.vertices:
            moved = transformed(vertex, into)
            vertices.append(moved.scaled(unit))
        return replace(self, vertices=tuple(vertices))


def is_stable(A: NDArray[np.float64]) -> bool:
    """Return whether all eigenvalues lie inside the unit circle, in doubles."""
    if not np.isfinite(A).all():
        return False
    sizes = np.abs(np.linalg.eigvals(A))
    return bool(sizes.max() < 1)


def root_diagonal(form: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return roots (n,) of the diagonal of a quadratic form, one where it is zero."""
    diagonal = np.maximum(np.diag(form), 0.0)
    return np.where(diagonal > 0, np.sqrt(diagonal), 1.0)


def orthonormal(
    form: NDArray[np.float64], sizes: NDArray[np.float64], faint: float
) -> NDArray[np.float64]:
    """Return coordinates (n, n) in which a form is the identity, but faint directions.

    States of given sizes (n,) are alike. A form of another size has the same coordinates,
    up to their size.
    """
    scaled = form * np.outer(sizes, sizes)
    vectors, roots = principal_axes(scaled, faint)
    return sizes[:, None] * (vectors / roots) @ vectors.T


def principal_axes(
    form: NDArray[np.float64], faint: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a form's directions (n, n) and its roots (n,), faint ones made larger."""
    values, vectors = scipy.linalg.eigh(symmetric(form))
    raised = np.maximum(values, faint * values[-1])
    return vectors, np.sqrt(raised)


def symmetric(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    return (matrix + matrix.T) / 2


def envelope(matrices: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return a symmetric matrix that is at least each of several ones."""
    upper, *others = matrices
    for matrix in others:
        values, vectors = np.linalg.eigh(symmetric(matrix - upper))
        beyond = np.maximum(values, 0.0)
        upper = upper + (vectors * beyond) @ vectors.T
    return symmetric(upper)
