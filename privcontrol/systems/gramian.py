"""Observability Gramians of a run in balls, by doubling or from few rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from ..numerics.balls import Ball, BallMatrix, diagonal_balls
from .linear import LinearSystem, VaryingSystem
from .powers import moved_on
from .transitions import gramian_of_run

#: Speed: up to so many times n rows C A^t Gramians are sums over these.
_FEW_ROWS = 8


def gramian(system: LinearSystem, weights: Sequence[Ball], horizon: int) -> BallMatrix:
    """sum over t < horizon of (C A^t)^T diag(weights) C A^t, by doubling."""
    if isinstance(system, VaryingSystem):
        return gramian_of_run(system, weights, horizon)
    step, _, outputs, _ = system.in_balls().matrices
    if horizon * system.output_count <= _FEW_ROWS * system.order:
        return _gramian_of_rows(step, outputs, weights, horizon)
    part = outputs.transpose() * diagonal_balls(weights) * outputs
    total = 0 * part
    power = step**0
    # part is the sum over 2^k samples, and step is A^(2^k)
    while horizon:
        if horizon & 1:
            total = total + power.transpose() * part * power
            power = power * step
        horizon >>= 1
        if horizon:
            part = part + step.transpose() * part * step
            step = step * step
    return total


def _gramian_of_rows(
    step: BallMatrix, outputs: BallMatrix, weights: Sequence[Ball], horizon: int
) -> BallMatrix:
    """Return `gramian` from the rows C A^t, where they are few."""
    total = outputs.transpose() * diagonal_balls(weights) * outputs
    if horizon == 1:
        return total
    ahead = moved_on(step, outputs, horizon - 1)
    weighted = []
    for line, weight in zip(ahead.tolist(), cycle(weights)):
        weighted.append([weight * entry for entry in line])
    return total + ahead.transpose() * BallMatrix(weighted)
