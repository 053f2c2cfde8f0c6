"""Bounds of what is left of a secret over a horizon, where a plant varies."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..numerics.balls import (
    CERTIFICATE_BITS,
    Ball,
    BallMatrix,
    ball_matrix,
    largest_eigenvalue,
    midpoints,
    upper_float,
    working_bits,
)
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import float_above
from ..numerics.thresholds import NEGLIGIBLE
from ..secrets.secret import SecretInputs
from ..systems.linear import LinearSystem, queue_of
from ._program import is_proven
from ._vertices import FAINT, VaryingSecret, envelope, principal_axes

_TOO_LONG = "models: the {} within the horizon; shorten the horizon"


def varying_shift_within(left: VaryingSecret, horizon: int, largest: float) -> float:
    """Bound every privacy shift over so many samples, for any sequence of vertices.

    It is inf as soon as it is above ``largest``. Matrices P_j bound the energy of the
    last j samples, P_j >= A^T P_(j-1) A + C^T C at every vertex. Each is the last right
    side plus what the other ones exceed it by, in coordinates in which all states of the
    mean plant are alike.

    Raises
    ------
    UncertifiableError
        If an inequality is not verified.
    ValueError
        For signals of bounded energy.
    """
    if left.secret.energies is not None:
        raise ValueError(
            'adjacency: norm="l2" under a time-varying plant needs modes that decay; '
            "protect single changes or a duration, or narrow the models"
        )
    bound = 0.0
    with working_bits(CERTIFICATE_BITS):
        for moves in left.secret.signals:
            # the move of a state is an impulse one sample before the run
            samples = horizon + 1 if moves.rounded else horizon
            entered = [vertex.entered_by([moves.column]) for vertex in left.vertices]
            for shape in moves.shapes:
                # the values of a change that are still to come wait in a queue
                queue = queue_of(len(shape)).in_balls()
                queued = tuple(vertex.after(queue) for vertex in entered)
                changes = moves.beginnings(shape)
                order = queued[0].order
                starts = np.zeros((order, len(changes)))
                for k, values in enumerate(changes):
                    starts[: len(values), k] = values
                size = Ball(moves.radius) * moves.spacing.events
                columns = ball_matrix(starts) * size
                for form in _energies(queued, columns, samples):
                    squares = [form[k, k] for k in range(len(changes))]
                    worst = max(squares, key=upper_float)
                    bound = max(bound, float_above(upper_float(worst.sqrt())))
                    if bound > largest:
                        return math.inf
        for index in left.secret.balls:
            columns = left.vertices[0].entered_by(index).B
            *_, form = _energies(left.vertices, columns, horizon)
            size = largest_eigenvalue(form).sqrt()
            bound = max(bound, float_above(upper_float(size)))
    return bound


def _energies(
    vertices: tuple[LinearSystem, ...], columns: BallMatrix, samples: int
) -> Iterator[BallMatrix]:
    """Yield verified X^T P_j X for j = 1 .. samples, of columns X (n, k) of states.

    The coordinates are those in which the states of the mean plant after X have the
    identity as their sum of squares, up to faint directions.
    """
    left = VaryingSecret(vertices, SecretInputs(vertices[0]))
    states = midpoints(columns)
    A = left.mean.A
    reached = np.zeros_like(A)
    for _ in range(samples):
        reached = reached + states @ states.T
        states = A @ states
        if not np.isfinite(states).all():
            raise UncertifiableError(_TOO_LONG.format("free response exceeds 1e308"))
    vectors, roots = principal_axes(reached, FAINT)
    basis = vectors * roots
    scaled = left.transformed(basis, 1.0).vertices
    moved = ball_matrix(basis).inv() * columns
    plain = []
    for vertex in scaled:
        plain.append((midpoints(vertex.A), midpoints(vertex.C)))
    P = np.zeros_like(A)
    for _ in range(samples):
        before = ball_matrix(P)
        rights = [A.T @ P @ A + C.T @ C for A, C in plain]
        upper = envelope(rights)
        padding = NEGLIGIBLE * np.trace(upper)
        P = upper + padding * np.eye(len(P))
        after = ball_matrix(P)
        if not all(is_proven(after, before, each.A, each.C) for each in scaled):
            raise UncertifiableError(_TOO_LONG.format("bound is lost to rounding"))
        yield moved.transpose() * after * moved
