"""Certify how well output noise hides a secret: the one place that promises it.

`certify` takes the parts of the noise, the secret and the `World` in which it must hold, and
returns the privacy loss. Designs propose parts, files claim a loss, and both ask here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.adjacency import Adjacency
from ..core.ball_noise import RADIAL_LAWS
from ..numerics.checks import one_of
from ..numerics.errors import NotRealizableError, PrivacyError
from ..numerics.linalg import EPS, float_above, one_thread
from ..privacy.horizon import Horizon
from ..privacy.loss import PrivacyLoss, composed
from ..secrets.hiding import NoiseForm, Split
from ..secrets.secrets import Secrets
from ..secrets.squares import laplace_shifts, squares_of
from ..systems.linear import Plant
from ._laplace import laplace_loss, tells_entries
from .bound import Bound
from .grid import grid_shift
from .parts import Blocks, NoisePart, PartSum, Radial, White
from .shift import Shift, certified_shift
from .within import walls_of

#: Laws whose output noise has a certificate. A law of `privcontrol.core` alone has none.
CERTIFIED = ("gaussian", "laplace", *RADIAL_LAWS)

#: Where noise is not kept within a bound.
NO_BOUND = (
    "bound: moves that the past chooses void it, as those of a region of plants, and of "
    "readings on a grid under feedback; leave models or resolution out, or the bound"
)


class Region(Protocol):
    """A set of plants that certifies how far noise hides a secret of each of them."""

    def shift(
        self, parts: Sequence[NoisePart], adjacency: Adjacency, horizon: float
    ) -> Shift: ...


@dataclass(frozen=True)
class World:
    """State in which runs of which plants a promise holds.

    Attributes
    ----------
    plants : tuple of Plant
        One of them is the true one, unless there is a region.
    horizon : Horizon
        Of a run.
    region : PlantRegion, optional
        The true plant is one of it.
    resolution : ndarray, shape (p,), optional
        Steps of the grid on which the sensors round.
    bound : Bound, optional
        What the noise never leaves.
    """

    plants: tuple[Plant, ...]
    horizon: Horizon
    region: Region | None = None
    resolution: NDArray[np.float64] | None = None
    bound: Bound | None = None


@one_thread
def certify(
    parts: Sequence[NoisePart],
    adjacency: Adjacency,
    world: World,
    family: str = "gaussian",
) -> PrivacyLoss:
    """Return the privacy loss of output noise, as it is: every promise is made here.

    Parameters
    ----------
    parts : sequence of NoisePart
        Their sum is the noise.
    adjacency : Adjacency
        Of the secret.
    world : World
    family : {"gaussian", "laplace", "ball", "truncated"}, optional
        Law of the noise's standard entries.

    Raises
    ------
    NotRealizableError
        If a move leaves what the noise covers.
    UncertifiableError
        If no bound is verified.
    PrivacyError
        If the noise does not cover the sensor's grid.
    ValueError
        If the law has no certificate, or the noise or the secret no such bound, with the
        reason.
    """
    one_of(family, "family", CERTIFIED)
    kinds = {type(part) for part in parts}
    if len(kinds) < len(parts) or PartSum in kinds:
        raise ValueError("parts: expected one part of a kind, got two; add them up")
    secret = Secrets(adjacency)
    if family == "laplace":
        if world.region is not None:
            raise ValueError(
                "models: a region of plants needs Gaussian noise, got family='laplace'"
            )
        run = int(world.horizon)
        return laplace_loss(parts, secret, world.plants, run, world.resolution)
    total = PartSum(parts)
    is_radial = total.part(Radial) is not None or total.part(Blocks) is not None
    if family in RADIAL_LAWS or is_radial:
        return _radial_loss(parts, secret, world, family)
    if world.region is None:
        shift = certified_shift(parts, adjacency, world.plants, world.horizon)
    else:
        shift = world.region.shift(parts, adjacency, world.horizon)
    loss = shift.beside_grid(grid_shift(parts, world.resolution, world.horizon))
    if world.bound is None:
        return loss
    if world.region is not None or world.resolution is not None:
        raise PrivacyError(NO_BOUND)
    walls = walls_of(parts, secret, world.plants, world.bound, shift.value)
    return loss.within(walls)


def _radial_loss(
    parts: Sequence[NoisePart], secret: Secrets, world: World, family: str
) -> PrivacyLoss:
    """Return the loss of structured radial noise.

    The shift is that of Gaussian noise of the same factor, the least 2-norm of the entries
    that make up for a move. The loss follows from it, since the law is radial. A floor
    hides what the entries leave of a move, and its loss composes with theirs.
    """
    total = PartSum(parts)
    blocks = total.part(Blocks)
    part = blocks if blocks is not None else total.part(Radial)
    floor = total.part(White)
    count = 1 if floor is None or blocks is not None else 2
    if part is None or len(parts) != count:
        raise ValueError(
            f"family: {family!r} is about one part of structured noise, and a floor"
        )
    if family != part.law.name:
        raise ValueError(f"family: the noise's law is not {family!r}")
    if world.region is not None or not world.horizon.ends or secret.disturbances:
        raise ValueError(
            f"family: {family!r} hides states over a finite horizon, of plants in a list"
        )
    if isinstance(part, Radial) and floor is not None:
        size, left = shifts_apart(part, floor, secret, world)
        return beside_radial(part, size, left)
    if world.resolution is not None:
        raise PrivacyError(
            "resolution: readings on a grid leave the column space of structured noise"
        )
    if isinstance(part, Blocks):
        return _loss_of_blocks(part, secret, world)
    shift = certified_shift(parts, secret.adjacency, world.plants, world.horizon)
    exact = shift.exact and len(world.plants) == 1
    exact = exact and tells_entries(part, world.plants[0], int(world.horizon))
    return PrivacyLoss.radial(
        shift.value, part.once, part.bound, shift.moves if exact else (), exact
    )


def _loss_of_blocks(part: Blocks, secret: Secrets, world: World) -> PrivacyLoss:
    """Return the loss of independent blocks of radial noise, for listed moves."""
    form = NoiseForm(part.plant, int(world.horizon), part.factor, None)
    every = []
    for plant in world.plants:
        for moves in secret.moves(plant, int(world.horizon)):
            if moves.is_ball:
                raise ValueError(
                    "adjacency: blocks of radial noise hide listed moves, got a ball; one "
                    "radial law hides it"
                )
            every.append(laplace_shifts(form, moves, plant))
    shifts = np.hstack(every)
    rounding = 1 + EPS * (8 + len(shifts))
    return PrivacyLoss.blocks(part.law.lengths(shifts) * rounding, part.sizes)


def beside_radial(part: Radial, size: float, left: float) -> PrivacyLoss:
    """Return the loss of moves by ``size`` of radial noise and ``left`` of a floor.

    The outputs are a function of the two, which are independent.
    """
    loss = PrivacyLoss.radial(size, part.once, part.bound, (), False)
    if not left:
        return loss
    return composed(loss, PrivacyLoss.gaussian(left, (), False))


def shifts_apart(
    part: Radial, floor: White, secret: Secrets, world: World
) -> tuple[float, float]:
    """Return the largest shifts of radial entries and of the floor, for all plants.

    Under its own plant, and those that share its column space, the entries make up for a
    move alone. Under others the floor hides what they leave of it, and the sensor's grid.
    """
    run = int(world.horizon)
    form = NoiseForm(part.plant, run, part.factor, floor.scale)
    sizes, lefts = [], [0.0]
    for plant in world.plants:
        try:
            own = certified_shift((part,), secret.adjacency, (plant,), run)
            sizes.append(own.value)
            continue
        except NotRealizableError:
            if plant == part.plant:
                raise
        for moves in secret.moves(plant, run):
            for found, is_left in ((sizes, False), (lefts, True)):
                squares = squares_of(Split(form, is_left), moves, plant)
                found.append(float_above(math.sqrt(squares.max()), 2))
    grid = grid_shift((floor,), world.resolution, world.horizon)
    left = max(lefts)
    return max(sizes), float_above(left + grid) if grid else left
