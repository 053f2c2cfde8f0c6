"""Certify how far Laplace noise hides a secret of a run.

It is structured noise, noise that is drawn again at every sample, or Lambda eta over the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..core.mechanism import Mechanism
from ..core.noise import LaplaceNoise
from ..numerics.balls import rational_matrix
from ..numerics.errors import NotRealizableError, PrivacyError
from ..numerics.linalg import EPS, float_above, round_up
from ..privacy.loss import KEPT, PrivacyLoss, one_coordinate
from ..secrets.hiding import LEAVES
from ..secrets.secrets import Secrets
from ..secrets.squares import laplace_shifts, laplace_size
from ..systems.linear import Plant
from ..systems.powers import tell_apart
from .grid import shift_of_resolution
from .parts import DrawnOnce, NoisePart, PartSum, Structured, White
from .whitened import output_sizes


def laplace_loss(
    parts: Sequence[NoisePart],
    secret: Secrets,
    plants: Sequence[Plant],
    run: int,
    resolution: NDArray[np.float64] | None,
) -> PrivacyLoss:
    """Return the loss of structured or independent Laplace noise of a run.

    It is attained under one plant whose outputs determine all entries of eta.
    """
    if len(parts) != 1 or type(parts[0]) not in (Structured, White, DrawnOnce):
        raise ValueError(
            "family: expected one part of Laplace noise, since a sum of several has "
            f"another law, got {', '.join(type(part).__name__ for part in parts)}"
        )
    total = PartSum(parts)
    columns = total.part(DrawnOnce)
    if columns is not None:
        if resolution is not None:
            raise PrivacyError(
                "resolution: readings on a grid need noise that is drawn again at every "
                "sample"
            )
        return _of_columns(columns, secret, plants, run)
    white = total.white
    if white.any():
        return _of_every_sample(secret, white, plants, run, resolution)
    every = []
    balls = []
    for plant in plants:
        form = total.form(plant, run)
        if form is None:
            raise ValueError("family: expected structured or independent Laplace noise")
        for moves in secret.moves(plant, run):
            if moves.is_ball:
                balls.append(laplace_size(form, moves, plant))
            else:
                every.append(laplace_shifts(form, moves, plant))
    if balls:
        sums = [shifts.sum(axis=0).max() * (1 + EPS * len(shifts)) for shifts in every]
        return one_coordinate(float_above(max(balls + sums), 4))
    shifts = np.hstack(every)
    exact = len(plants) == 1 and tells_entries(parts[0], plants[0], run)
    if exact:
        exact = all(moves.exact for moves in secret.moves(plants[0], run))
    return PrivacyLoss.laplace(shifts, exact=exact)


def _of_columns(
    part: DrawnOnce, secret: Secrets, plants: Sequence[Plant], run: int
) -> PrivacyLoss:
    """Return the loss of noise Lambda eta over a run (DPAM Theorem 2).

    Shifts are w = Lambda^+ s of the responses s. Lambda must reach every direction, since
    nothing is added to it: then every response is in its column space.
    """
    losses = []
    for plant in plants:
        mechanism = Mechanism(secret.query(plant, run), LaplaceNoise(part.columns))
        if mechanism.padding is not None:
            raise NotRealizableError(LEAVES.format(name=plant.name))
        losses.append(mechanism.guarantee(secret.adjacency).loss)
    if len(losses) == 1:
        return losses[0]
    return one_coordinate(max(loss.pure for loss in losses))


def _of_every_sample(
    secret: Secrets,
    scale: NDArray[np.float64],
    plants: Sequence[Plant],
    horizon: int,
    resolution: NDArray[np.float64] | None,
) -> PrivacyLoss:
    """Return the loss of independent Laplace noise of scales (p,), under any plant.

    Every sample that a move changes is a coordinate of its own. Of balls of moves, and of
    more numbers than a loss keeps, only the sum of the shifts counts.
    """
    rounding = 1 + 8 * EPS * horizon * len(scale)
    found = [output_sizes(secret, plant, horizon, 1) for plant in plants]
    sizes = np.concatenate([of_plant for of_plant, _ in found])
    grid = shift_of_resolution(resolution, scale, horizon, 1)
    largest = sizes.max() / scale.min() * rounding
    bound = float_above(largest + grid, 4)
    if len(sizes) * horizon * len(scale) > KEPT:
        exact = resolution is None and len(plants) == 1 and found[0][1]
        worst = (int(sizes.argmax()),) if exact and np.ptp(scale) == 0 else ()
        return replace(one_coordinate(bound), moves=(worst,))
    responses = secret.responses(plants, horizon)
    if responses.balls or responses.apart or responses.windows:
        return one_coordinate(bound)
    outputs = len(scale)
    moved = np.abs(responses.points).reshape(horizon, outputs, -1)
    if resolution is not None:
        moved += resolution[:, None]
    shifts = moved / scale[:, None] * rounding
    shifts = round_up(shifts).reshape(horizon * outputs, -1)
    exact = resolution is None and len(plants) == 1 and responses.exact
    return PrivacyLoss.laplace(shifts, exact=exact)


def tells_entries(part: NoisePart, plant: Plant, horizon: int) -> bool:
    """Return whether outputs determine each standard entry of structured noise."""
    if not isinstance(part, Structured) or part.plant != plant:
        return False
    if rational_matrix(part.factor).rank() < part.factor.shape[1]:
        return False
    noisy = np.flatnonzero(part.factor.any(axis=1))
    return tell_apart(plant, noisy, horizon)
