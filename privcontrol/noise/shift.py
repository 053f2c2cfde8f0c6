"""Certify how far output noise hides a secret: the one place that promises it.

`certify` takes the parts of the noise, the secret and the `World` in which it must hold, and
returns the privacy loss. Designs propose parts, files claim a loss, and both ask here.

The shift y of a hidden move is its effect on the outputs once the noise is whitened, in
standard deviations of white noise. Three routes certify it. Moves of a state under
structured noise and a floor need n x n matrices in balls, for any horizon. Other noise of a
run is a dense triangular root. Runs of any length, and plants that vary, need the
energy over all times, in balls or by linear matrix inequalities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.adjacency import Adjacency
from ..core.ball_noise import RADIAL_LAWS
from ..core.manifold import attaining
from ..numerics.errors import NotRealizableError, PrivacyError, UncertifiableError
from ..numerics.linalg import EPS, float_above, one_thread
from ..numerics.thresholds import CERTAIN
from ..privacy.horizon import Horizon, horizon_of
from ..privacy.loss import PrivacyLoss, composed
from ..secrets.disturbance import disturbances, is_covered
from ..secrets.hiding import LEAVES, NoiseForm, Split, laplace_shifts, squares_of
from ..secrets.secret import SecretInputs, all_responses, secret_inputs
from ..secrets.trajectory import trajectory_manifold
from ..systems.linear import Plant
from ._endless import secrets_of
from ._laplace import laplace_loss, tells_entries
from ._patterns import MOST_EXACT
from ._varying import inverted_at_entry, shift_between
from .fleet import shift_of_fleet
from .grid import grid_shift
from .parts import Blocks, Driven, Filtered, NoisePart, PartSum, Radial, White
from .whitened import dense_root, shift_sizes
from .within import Bound, walls_of

#: Where noise is not kept within a bound.
NO_BOUND = (
    "bound: moves that the past chooses void it, as those of a region of plants, and of "
    "readings on a grid under feedback; leave models or resolution out, or the bound"
)


@dataclass(frozen=True, eq=False)
class Shift:
    """Hold how far the worst hidden move shifts Gaussian noise.

    Attributes
    ----------
    value : float
        A number that no privacy shift exceeds.
    exact : bool
        Whether some move attains it.
    squares : ndarray, shape (M,)
        Bounds of y^2 for each move and each ball, where they are distinguished.
    single : bool
        Whether the squares are those of the adjacency's moves in order, one for each.
    """

    value: float
    exact: bool = False
    squares: NDArray = field(default_factory=lambda: np.zeros(0))
    single: bool = False

    def __post_init__(self) -> None:
        """Refuse what is no number, which no comparison would notice later."""
        if not self.value >= 0:
            raise UncertifiableError(
                "no bound of the shift is verified: in double precision it is no number; "
                "rescale the plant, or shorten the horizon"
            )

    @classmethod
    def joined(cls, found: Sequence[Shift]) -> Shift:
        """Return the largest shift under several plants."""
        if len(found) == 1:
            return found[0]
        value = max(each.value for each in found)
        exact = all(each.exact for each in found)
        return cls(value, exact, np.concatenate([each.squares for each in found]))

    @classmethod
    def of_squares(cls, squares: NDArray, exact: bool, single: bool = False) -> Shift:
        """Return the largest shift of moves of certified squares."""
        largest = math.sqrt(squares.max())
        return cls(float_above(largest), exact, squares, single)

    @property
    def moves(self) -> tuple[int, ...]:
        """Indices of the moves that attain the shift, as far as they are known."""
        if not (self.exact and self.single and self.value):
            return ()
        return attaining(np.sqrt(self.squares))

    def beside_grid(self, grid: float) -> PrivacyLoss:
        """Return the loss, with what a sensor's grid adds to every shift."""
        if grid == 0:
            return PrivacyLoss.gaussian(self.value, self.moves, self.exact)
        shift = float_above(self.value + grid)
        return PrivacyLoss.gaussian(shift, (), False)


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
    resolution: NDArray | None = None
    bound: Bound | None = None


@one_thread
def certify(
    parts: Sequence[NoisePart],
    secret: Adjacency,
    world: World,
    family: str = "gaussian",
) -> PrivacyLoss:
    """Return the privacy loss of output noise, as it is: every promise is made here.

    Parameters
    ----------
    parts : sequence of NoisePart
        Their sum is the noise.
    secret : Adjacency
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
        If the noise or the secret has no such bound, with the reason.
    """
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
        shift = certified_shift(parts, secret, world.plants, world.horizon)
    else:
        shift = world.region.shift(parts, secret, world.horizon)
    loss = shift.beside_grid(grid_shift(parts, world.resolution, world.horizon))
    if world.bound is None:
        return loss
    if world.region is not None or world.resolution is not None:
        raise PrivacyError(NO_BOUND)
    walls = walls_of(parts, secret, world.plants, world.bound, shift.value)
    return loss.within(walls)


@one_thread
def certified_shift(
    parts: Sequence[NoisePart],
    adjacency: Adjacency,
    plants: Sequence[Plant],
    horizon: float,
    *,
    varying: bool = False,
    largest: float = math.inf,
) -> Shift:
    """Return how far Gaussian noise, as it is, hides a secret of some plants.

    Parameters
    ----------
    parts : sequence of NoisePart
        Their sum is the noise.
    adjacency : Adjacency
    plants : sequence of Plant
        One of them is the true one. With ``varying`` the true one may be another weighted
        mean of them at every sample.
    horizon : int or inf
    largest : float, optional
        A bound above it is of no use, and may be given as inf.

    Raises
    ------
    NotRealizableError
        If a move leaves what the noise covers.
    UncertifiableError
        If no bound is verified.
    ValueError
        If the noise or the secret has no such bound, with the reason.
    """
    horizon = horizon_of(horizon)
    lasting = not horizon.ends or any(isinstance(part, Filtered) for part in parts)
    if not (varying or lasting):
        run = int(horizon)
        return Shift.joined([_of_run(parts, adjacency, each, run) for each in plants])
    length = horizon if varying else math.inf
    each = [plants] if varying else [[plant] for plant in plants]
    bounds = []
    secrets = []
    for those in each:
        fleet = None if varying else shift_of_fleet(parts, adjacency, those[0])
        if fleet is None:
            secrets.append(secrets_of(adjacency, those))
            bounds.append(shift_between(parts, secrets[-1], length, largest))
        else:
            bounds.append(fleet)
    exact = False
    if not horizon.ends and len(plants) == 1 and secrets:
        ((secret,),) = secrets
        exact = _is_attained(parts, adjacency, secret)
    return Shift(float(np.max(bounds)), exact)


def _is_attained(
    parts: Sequence[NoisePart], adjacency: Adjacency, secret: SecretInputs
) -> bool:
    """Return whether some hidden change has the shift of lasting noise, rather than less.

    A floor hides too, and an l2 gain is a bound. A state at the start is also hidden by
    what the noise was before, which nobody has seen.
    """
    if len(parts) > 1 or secret.several or is_covered(adjacency):
        return False
    if any(part.events > 1 and part.separation for part in disturbances(adjacency)):
        return False
    if any(window.size > MOST_EXACT for window in secret.windows):
        return False
    if len(disturbances(adjacency)) < len(adjacency.parts):
        return False
    entered, _ = parts[0].drive or (None, None)
    return entered is None or secret.energies is not None


# -- over a horizon ----------------------------------------------------------------------


def _of_run(
    parts: Sequence[NoisePart], adjacency: Adjacency, plant: Plant, horizon: int
) -> Shift:
    """Certify how far noise hides the moves of a run of one plant."""
    form = PartSum(parts).form(plant, horizon)
    changes = disturbances(adjacency)
    if form is not None and not changes:
        return _of_form(form, adjacency, plant, horizon)
    is_alone = len(parts) == len(changes) == len(adjacency.parts) == 1
    if is_alone and not plant.varies:
        own = inverted_at_entry(parts[0], secret_inputs(adjacency, plant))
        if own is not None:
            square = own.shift(horizon) ** 2
            exact = isinstance(parts[0], Driven) and not is_covered(adjacency)
            return Shift.of_squares(np.array([square * (1 + 1e-15)]), exact)
    responses = all_responses(adjacency, plant, horizon)
    if not responses.moved.any():
        return Shift.of_squares(np.zeros(1), True)
    root, error_bound = dense_root(parts, horizon)
    if root is None:
        raise NotRealizableError(LEAVES.format(name=plant.name))
    sizes = shift_sizes(root, responses) * (1 + error_bound)
    exact = responses.exact and error_bound < CERTAIN
    single = not (responses.balls or responses.apart or responses.windows)
    return Shift.of_squares(sizes**2 * (1 + 1e-15), exact, single)


def _of_form(
    form: NoiseForm, adjacency: Adjacency, plant: Plant, horizon: int
) -> Shift:
    """Certify how far structured noise, a floor, or both hide moves of the state."""
    manifold = trajectory_manifold(plant, horizon)
    moves = [part.moves(manifold) for part in adjacency.parts]
    every = [squares_of(form, each, plant) for each in moves]
    exact = all(each.exact for each in moves) and form.attains(plant)
    single = not any(each.is_ball for each in moves)
    return Shift.of_squares(np.concatenate(every), exact, single)


def _radial_loss(
    parts: Sequence[NoisePart], secret: Adjacency, world: World, family: str
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
    if world.region is not None or not world.horizon.ends or disturbances(secret):
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
    shift = certified_shift(parts, secret, world.plants, world.horizon)
    exact = shift.exact and len(world.plants) == 1
    exact = exact and tells_entries(part, world.plants[0], int(world.horizon))
    return PrivacyLoss.radial(
        shift.value, part.once, part.bound, shift.moves if exact else (), exact
    )


def _loss_of_blocks(part: Blocks, secret: Adjacency, world: World) -> PrivacyLoss:
    """Return the loss of independent blocks of radial noise, for listed moves."""
    form = NoiseForm(part.plant, int(world.horizon), part.factor, None)
    every = []
    for plant in world.plants:
        manifold = trajectory_manifold(plant, int(world.horizon))
        for one in secret.parts:
            moves = one.moves(manifold)
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
    part: Radial, floor: White, secret: Adjacency, world: World
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
            sizes.append(certified_shift((part,), secret, (plant,), run).value)
            continue
        except NotRealizableError:
            if plant == part.plant:
                raise
        manifold = trajectory_manifold(plant, run)
        for one in secret.parts:
            moves = one.moves(manifold)
            for found, is_left in ((sizes, False), (lefts, True)):
                squares = squares_of(Split(form, is_left), moves, plant)
                found.append(float_above(math.sqrt(squares.max()), 2))
    grid = grid_shift((floor,), world.resolution, world.horizon)
    left = max(lefts)
    return max(sizes), float_above(left + grid) if grid else left
