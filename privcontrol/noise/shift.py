"""How far output noise hides a secret: the one place that answers.

The shift y of a hidden move is what it changes of the outputs once the noise is undone, in
standard deviations of white noise. Three routes certify it. Moves of a state beside
structured noise and a floor need n x n matrices in balls, for any horizon. Other noise of a
run is a dense triangular root. Runs of any length, and plants that vary, need the
energy over all times, in balls or by linear matrix inequalities.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..core._linalg import EPS, round_up
from ..core.adjacency import Adjacency
from ..core.errors import NotRealizableError, PrivacyError
from ..core.loss import PrivacyLoss, one_coordinate
from ..secrets._forms import LEAVES, NoiseForm, laplace_shifts, window_squares
from ..secrets.disturbance import DisturbanceAdjacency, disturbances
from ..secrets.manifold import trajectory_manifold
from ..secrets.secret import all_responses
from ..systems.gain import largest_gain
from ..systems.linear import LinearSystem
from ..systems.plant import Plant
from ._responses import dense_root, output_sizes, shift_sizes
from ._secret import secrets_of
from ._undone import shift_between
from .parts import Driven, NoisePart, PartSum, Structured, White

#: Shifts of independent Laplace noise that are told apart.
_MOST_COORDINATES = 1 << 20


@dataclass(frozen=True, eq=False)
class Shift:
    """How far the worst hidden move shifts Gaussian noise.

    Attributes
    ----------
    value : float
        A number that no privacy shift exceeds.
    exact : bool
        Whether some move attains it.
    squares : ndarray, shape (M,)
        Bounds of y^2 for each move and each ball, where they are told apart.
    """

    value: float
    exact: bool = False
    squares: NDArray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def joined(cls, found: Iterable[tuple[NDArray, bool]]) -> Shift:
        """The largest shift of moves of certified squares, and whether it is attained."""
        every, exact = zip(*found)
        squares = np.concatenate(every)
        return cls(float(round_up(np.sqrt(squares.max()))), all(exact), squares)

    def beside_grid(self, grid: float) -> PrivacyLoss:
        """The loss of the noise, with what a sensor's grid adds to every shift."""
        if grid == 0:
            return PrivacyLoss.gaussian(self.value, (), self.exact)
        return PrivacyLoss.gaussian(float(round_up(self.value + grid)), (), False)


def certified_shift(
    parts: Sequence[NoisePart],
    adjacency: Adjacency,
    plants: Sequence[Plant],
    horizon: float,
    *,
    varying: bool = False,
) -> Shift:
    """How far Gaussian noise, as it is, hides a secret of some plants.

    Parameters
    ----------
    parts : sequence of NoisePart
        Their sum is the noise.
    adjacency : Adjacency
    plants : sequence of Plant
        One of them is the true one. With ``varying`` the true one may be another weighted
        mean of them at every sample.
    horizon : int or inf

    Raises
    ------
    NotRealizableError
        If a move leaves what the noise covers.
    UncertifiableError
        If no bound is verified.
    ValueError
        If the noise or the secret has no such bound, with the reason.
    """
    if varying:
        return Shift(shift_between(parts, secrets_of(adjacency, plants), horizon))
    if horizon == math.inf:
        every = [secrets_of(adjacency, [plant]) for plant in plants]
        return Shift(max(shift_between(parts, secret, horizon) for secret in every))
    run = int(horizon)
    return Shift.joined(_squares(parts, adjacency, plant, run) for plant in plants)


def certified_loss(
    parts: Sequence[NoisePart],
    adjacency: Adjacency,
    plants: Sequence[Plant],
    horizon: float,
    *,
    family: str = "gaussian",
    resolution: NDArray | None = None,
) -> PrivacyLoss:
    """The privacy loss of noise, as it is, for a secret of each of some plants.

    ``resolution`` (p,) are the steps of the sensor's grid. For the rest see
    `certified_shift`.
    """
    if family == "gaussian":
        shift = certified_shift(parts, adjacency, plants, horizon)
        return shift.beside_grid(grid_shift(parts, resolution, horizon))
    run = int(horizon)
    white = PartSum(parts).white
    if white.any():
        return _independent_laplace(adjacency, plants, run, white, resolution)
    every = []
    for plant in plants:
        form = _form_of(parts, plant, run)
        if form is None:
            raise ValueError("family: expected structured or independent Laplace noise")
        manifold = trajectory_manifold(plant, run)
        for part in adjacency.parts:
            every.append(laplace_shifts(form, part, manifold))
    return PrivacyLoss.laplace(np.hstack(every), exact=False)


# -- over a horizon ----------------------------------------------------------------------


def _squares(
    parts: Sequence[NoisePart], adjacency: Adjacency, plant: Plant, horizon: int
) -> tuple[NDArray, bool]:
    """Bounds of y^2 of all moves under one plant, and whether they are attained."""
    form = _form_of(parts, plant, horizon)
    if form is not None and not disturbances(adjacency):
        manifold = trajectory_manifold(plant, horizon)
        every = [window_squares([form], part, manifold) for part in adjacency.parts]
        exact = all(part.moves(manifold).exact for part in adjacency.parts)
        return np.concatenate(every), exact
    if len(parts) == 1 and isinstance(parts[0], Driven):
        shift = _driven_shift(parts[0], plant, adjacency)
        if shift is not None:
            return np.array([shift**2 * (1 + 1e-15)]), False
    root, error_bound = dense_root(parts, horizon)
    if root is None:
        raise NotRealizableError(LEAVES.format(name=plant.name))
    responses = all_responses(adjacency, plant, horizon)
    sizes = shift_sizes(root, responses) * (1 + error_bound)
    return sizes**2 * (1 + 1e-15), responses.exact


def _form_of(
    parts: Sequence[NoisePart], plant: Plant, horizon: int
) -> NoiseForm | None:
    """Structured noise, a floor, or both, None if there are other parts."""
    factor = scale = None
    for part in parts:
        if isinstance(part, Structured):
            plant, factor = part.plant, part.factor
        elif isinstance(part, White):
            scale = part.scale
        else:
            return None
    return NoiseForm(plant, horizon, factor, scale)


def _driven_shift(part: Driven, plant: Plant, adjacency: Adjacency) -> float | None:
    """The largest shift of the entries of driven noise, for any zeros of the plant.

    A change dw of the signal that drives the noise is a shift of eta by dw / sizes. Where
    several enter alike, the variances of the noise add up, and so do the squared radii of
    one ball. None if the plant is another one, or other signals change.
    """
    drawn = part.response
    same = np.array_equal(plant.A, drawn.A) and np.array_equal(plant.C, drawn.C)
    if not same:
        return None
    if not isinstance(adjacency, DisturbanceAdjacency) or adjacency.events > 1:
        return None
    hidden = adjacency.system(plant)
    variances = _entering_alike(hidden, drawn) @ part.sizes**2
    if not variances.all():
        return None
    squares = adjacency.radii(plant) ** 2
    if adjacency.norm == "l2":
        squares = _entering_alike(hidden, hidden) @ squares
    longest = max(np.linalg.norm(shape) for shape in adjacency.shapes)
    root = math.sqrt((squares / variances).max())
    return float(round_up(root * longest * (1 + 1e-14), 2))


def _entering_alike(system: LinearSystem, other: LinearSystem) -> NDArray:
    """Which inputs (q, q') of two systems with the same states enter alike."""
    columns = np.vstack([system.B, system.D])[:, :, None]
    return (columns == np.vstack([other.B, other.D])[:, None, :]).all(axis=0)


def _independent_laplace(
    adjacency: Adjacency,
    plants: Sequence[Plant],
    horizon: int,
    scale: NDArray,
    resolution: NDArray | None,
) -> PrivacyLoss:
    """The loss of independent Laplace noise of scales (p,), under each of several plants.

    Every sample that a move changes is a coordinate of its own. Of balls of moves, and of
    very many moves, only the sum of the shifts counts.
    """
    steps = np.zeros(len(scale)) if resolution is None else resolution
    rounding = 1 + 8 * EPS * horizon * len(scale)
    sizes = [
        output_sizes(adjacency, plant, horizon, 1)[0] / scale.min() for plant in plants
    ]
    grid = shift_of_resolution(resolution, scale, horizon, 1)
    bound = float(round_up(np.concatenate(sizes).max() * rounding + grid, 4))
    count = sum(map(len, sizes))
    if count * horizon * len(scale) > _MOST_COORDINATES:
        return one_coordinate(bound)
    found = [all_responses(adjacency, plant, horizon) for plant in plants]
    if any(responses.balls or responses.apart for responses in found):
        return one_coordinate(bound)
    moved = np.abs(np.hstack([responses.points for responses in found]))
    moved += np.tile(steps, horizon)[:, None]
    shifts = round_up(moved / np.tile(scale, horizon)[:, None] * rounding)
    exact = resolution is None and len(plants) == 1 and found[0].exact
    return PrivacyLoss.laplace(shifts, exact=exact)


# -- readings on a grid ------------------------------------------------------------------


def grid_shift(
    parts: Sequence[NoisePart],
    resolution: NDArray | None,
    horizon: float,
    family: str = "gaussian",
) -> float:
    """What a sensor's grid adds to the shift of noise at most, zero without a grid.

    Two readings differ by up to a step h_i more than the outputs do, at each of T samples.
    Beside a white floor f that is at most the norm of all h_i / f_i. Filtered Gaussian
    noise M nu leaves at most sqrt(T p) times the largest gain of M^-1 diag(h). Of several
    parts the smallest bound holds.

    Raises
    ------
    PrivacyError
        If no part is drawn again at every output and sample.
    """
    if resolution is None:
        return 0.0
    run = int(horizon)
    white = PartSum(parts).white
    if family != "gaussian":
        return shift_of_resolution(resolution, white, run, 1)
    bounds = []
    if white.all():
        bounds.append(shift_of_resolution(resolution, white, run, 2))
    for part in parts:
        if part.drive is not None and part.drive[0] is None:
            _, shaping = part.drive
            left = shaping.inverse().after(LinearSystem.gain(np.diag(resolution)))
            gain = largest_gain(left) * math.sqrt(run * len(resolution))
            bounds.append(float(round_up(gain * (1 + 1e-9))))
    if not bounds:
        raise PrivacyError(
            "resolution: readings on a grid need noise that is drawn again at every "
            "output and sample; add a white floor (floor=...)"
        )
    return min(bounds)


def shift_of_resolution(
    resolution: NDArray | None, sizes: NDArray, horizon: int, norm: int
) -> float:
    """What a sensor's grid adds to every shift at most, rounded up.

    Two readings on a grid h differ by up to h more than the outputs do, at each sample.
    Independent noise of the given sizes (p,) whitens that to (h / size) at each of T p
    entries. Other parts of the noise can only lower it.
    """
    if resolution is None:
        return 0.0
    entries = np.tile(resolution / sizes, horizon)
    size = np.linalg.norm(entries, ord=norm)
    return float(round_up(size * (1 + 1e-15 * len(entries)), 2))
