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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from ..core.adjacency import Adjacency
from ..core.ball_noise import RADIAL_LAWS
from ..core.manifold import EllipsoidMoves, attaining
from ..core.mechanism import Mechanism
from ..core.noise import LaplaceNoise, family_of
from ..numerics.balls import rational_matrix
from ..numerics.ellipsoid import solution_error
from ..numerics.errors import NotRealizableError, PrivacyError, UncertifiableError
from ..numerics.linalg import EPS, column_norms, float_above, one_thread, round_up
from ..privacy.horizon import Horizon, horizon_of
from ..privacy.loss import PrivacyLoss, composed, one_coordinate
from ..secrets.disturbance import disturbances, query_of
from ..secrets.hiding import (
    LEAVES,
    NoiseForm,
    Split,
    laplace_shifts,
    window_squares,
)
from ..secrets.run_moves import RunMoves
from ..secrets.secret import (
    Responses,
    SecretInputs,
    all_responses,
    as_secret,
    secret_inputs,
)
from ..secrets.trajectory import trajectory_manifold
from ..systems.linear import LinearSystem, Plant
from ..systems.powers import largest_gain, tell_apart
from ._apart import largest_apart
from ._endless import secrets_of
from ._patterns import MOST_EXACT
from ._varying import inverted_at_entry, shift_between
from ._windows import largest_of_windows
from .fleet import shift_of_fleet
from .parts import (
    Correlated,
    DrawnOnce,
    Driven,
    Filtered,
    NoisePart,
    PartSum,
    Radial,
    Structured,
    White,
)
from .within import Bound, walls_of

#: Shifts of independent Laplace noise that are distinguished.
_MOST_COORDINATES = 1 << 20
#: Relative error of a triangular root above which a shift is a bound and not exact.
LARGEST_ERROR = 1e-6
#: One above which no shift is certified with the root, where no floor bounds it.
_LARGEST_ERROR_BOUND = 1e-3
#: Rows from which on a root is looked at for parts that zeros keep apart, and their most.
_MANY_ROWS = 128
_MOST_PARTS = 64


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
        return _laplace_loss(parts, secret, world)
    if family in RADIAL_LAWS or PartSum(parts).part(Radial) is not None:
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
    every = [as_secret(part) for part in adjacency.parts]
    if len(parts) > 1 or secret.several:
        return False
    if any(window.size > MOST_EXACT for window in secret.windows):
        return False
    if any(part.is_covered or not part.enters_the_run for part in every):
        return False
    entered, _ = parts[0].drive or (None, None)
    return entered is None or secret.energies is not None


# -- over a horizon ----------------------------------------------------------------------


def _of_run(
    parts: Sequence[NoisePart], adjacency: Adjacency, plant: Plant, horizon: int
) -> Shift:
    """Certify how far noise hides the moves of a run of one plant."""
    form = _form_of(parts, plant, horizon)
    changes = disturbances(adjacency)
    if form is not None and not changes:
        return shift_of_windows([form], adjacency, plant, horizon)
    is_alone = len(parts) == len(changes) == len(adjacency.parts) == 1
    if is_alone and not plant.varies:
        own = inverted_at_entry(parts[0], secret_inputs(adjacency, plant))
        if own is not None:
            square = own.shift(horizon) ** 2
            exact = (
                isinstance(parts[0], Driven) and not as_secret(changes[0]).is_covered
            )
            return Shift.of_squares(np.array([square * (1 + 1e-15)]), exact)
    responses = all_responses(adjacency, plant, horizon)
    if not responses.moved.any():
        return Shift.of_squares(np.zeros(1), True)
    root, error_bound = dense_root(parts, horizon)
    if root is None:
        raise NotRealizableError(LEAVES.format(name=plant.name))
    sizes = shift_sizes(root, responses) * (1 + error_bound)
    exact = responses.exact and error_bound < LARGEST_ERROR
    single = not (responses.balls or responses.apart or responses.windows)
    return Shift.of_squares(sizes**2 * (1 + 1e-15), exact, single)


def shift_of_windows(
    windows: Sequence[NoiseForm], adjacency: Adjacency, plant: Plant, horizon: int
) -> Shift:
    """Certify how far the moves of a run are hidden.

    The run's samples are published in windows, each with noise of its own.
    """
    manifold = trajectory_manifold(plant, horizon)
    every = [window_squares(windows, part, manifold) for part in adjacency.parts]
    moves = [part.moves(manifold) for part in adjacency.parts]
    exact = all(each.exact for each in moves)
    exact = exact and all(window.attains(plant) for window in windows)
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
    part, floor = total.part(Radial), total.part(White)
    count = 1 if floor is None else 2
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
    if floor is not None:
        size, left = shifts_apart(part, floor, secret, world)
        return beside_radial(part, size, left)
    if world.resolution is not None:
        raise PrivacyError(
            "resolution: readings on a grid leave the column space of structured noise"
        )
    shift = certified_shift(parts, secret, world.plants, world.horizon)
    exact = shift.exact and len(world.plants) == 1
    exact = exact and _tells_entries(part, world.plants[0], int(world.horizon))
    return PrivacyLoss.radial(
        shift.value, part.once, part.bound, shift.moves if exact else (), exact
    )


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
            for found, is_left in ((sizes, False), (lefts, True)):
                squares = window_squares([Split(form, is_left)], one, manifold)
                found.append(float_above(math.sqrt(squares.max()), 2))
    grid = grid_shift((floor,), world.resolution, world.horizon)
    left = max(lefts)
    return max(sizes), float_above(left + grid) if grid else left


def _laplace_loss(
    parts: Sequence[NoisePart], secret: Adjacency, world: World
) -> PrivacyLoss:
    """Return the loss of structured or independent Laplace noise.

    It is attained under one plant whose outputs determine all entries of eta.
    """
    if world.region is not None:
        raise ValueError(
            "models: a region of plants needs Gaussian noise, got family='laplace'"
        )
    run = int(world.horizon)
    columns = PartSum(parts).part(DrawnOnce)
    if columns is not None and len(parts) == 1:
        return _laplace_of_columns(columns, secret, world)
    white = PartSum(parts).white
    if white.any():
        return _independent_laplace(secret, white, world)
    every = []
    largest = [0.0]  # of balls
    for plant in world.plants:
        form = _form_of(parts, plant, run)
        if form is None:
            raise ValueError("family: expected structured or independent Laplace noise")
        manifold = trajectory_manifold(plant, run)
        for part in secret.parts:
            shifts = laplace_shifts(form, part, manifold)
            every.append(shifts)
            if part.moves(manifold).is_ball:
                # sum |shifts u| is at most the sum of the axes' own sums times |u|
                largest.append(column_norms(shifts.sum(axis=0)[:, None])[0])
    shifts = np.hstack(every)
    if len(largest) > 1:
        size = max(*largest, shifts.sum(axis=0).max())
        return one_coordinate(float_above(size * (1 + EPS * len(shifts)), 4))
    exact = len(world.plants) == 1 and _tells_entries(parts[0], world.plants[0], run)
    if exact:
        manifold = trajectory_manifold(world.plants[0], run)
        exact = all(part.moves(manifold).exact for part in secret.parts)
    return PrivacyLoss.laplace(shifts, exact=exact)


def _laplace_of_columns(
    part: DrawnOnce, secret: Adjacency, world: World
) -> PrivacyLoss:
    """Return the loss of noise Lambda eta over a run (DPAM Theorem 2).

    Shifts are w = Lambda^+ s of the responses s. Lambda must reach every direction, since
    nothing is added to it: then every response is in its column space.
    """
    if world.resolution is not None:
        raise PrivacyError(
            "resolution: readings on a grid need noise that is drawn again at every sample"
        )
    run = int(world.horizon)
    losses = []
    for plant in world.plants:
        query = query_of(plant, run, secret)
        mechanism = Mechanism(query, LaplaceNoise(part.columns))
        if mechanism.padding is not None:
            raise NotRealizableError(LEAVES.format(name=plant.name))
        losses.append(mechanism.guarantee(secret).loss)
    if len(losses) == 1:
        return losses[0]
    return one_coordinate(max(loss.pure for loss in losses))


def _tells_entries(part: NoisePart, plant: Plant, horizon: int) -> bool:
    """Return whether outputs determine each standard entry of structured noise."""
    if not isinstance(part, Structured) or part.plant != plant:
        return False
    if rational_matrix(part.factor).rank() < part.factor.shape[1]:
        return False
    noisy = np.flatnonzero(part.factor.any(axis=1))
    return tell_apart(plant, noisy, horizon)


def _form_of(
    parts: Sequence[NoisePart], plant: Plant, horizon: int
) -> NoiseForm | None:
    """Return structured noise, a floor, or both, None if there are other parts."""
    factor = scale = None
    for part in parts:
        if isinstance(part, Structured):
            plant, factor = part.plant, part.factor
        elif isinstance(part, White):
            scale = part.scale
        else:
            return None
    return NoiseForm(plant, horizon, factor, scale)


def _independent_laplace(
    adjacency: Adjacency, scale: NDArray, world: World
) -> PrivacyLoss:
    """Return the loss of independent Laplace noise of scales (p,), under any plant.

    Every sample that a move changes is a coordinate of its own. Of balls of moves, and of
    very many moves, only the sum of the shifts counts.
    """
    plants, resolution = world.plants, world.resolution
    horizon = int(world.horizon)
    rounding = 1 + 8 * EPS * horizon * len(scale)
    sizes = np.concatenate(
        [output_sizes(adjacency, plant, horizon, 1)[0] for plant in plants]
    )
    grid = shift_of_resolution(resolution, scale, horizon, 1)
    largest = sizes.max() / scale.min() * rounding
    bound = float_above(largest + grid, 4)
    if len(sizes) * horizon * len(scale) > _MOST_COORDINATES:
        return one_coordinate(bound)
    responses = all_responses(adjacency, plants, horizon)
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


# -- dense responses ---------------------------------------------------------------------


def output_sizes(
    adjacency: Adjacency, plant: Plant, horizon: int, norm: int
) -> tuple[NDArray, bool]:
    """Bound the norms of the responses to moves, and say whether they are attained."""
    if len(adjacency.parts) == 1 and not disturbances(adjacency):
        moves = adjacency.moves(trajectory_manifold(plant, horizon))
        if isinstance(moves, RunMoves):
            return moves.output_sizes(plant, norm), True
    responses = all_responses(adjacency, plant, horizon)
    exact = responses.exact
    sizes = column_norms(responses.points, norm).tolist()
    for ball in responses.balls:
        sizes.append(EllipsoidMoves.largest(ball, norm))
        exact &= norm != 1 or len(ball) == 1
    for apart in responses.apart:
        if norm == 2:
            unit = np.abs(apart.columns).max() or 1.0  # its square may be no double
            sizes.append(unit * largest_apart(apart, apart.columns / unit, 0.0))
        else:
            largest = np.linalg.norm(apart.columns, 1)
            sizes.append(apart.events * float(largest))
    for windows in responses.windows:
        exact = False
        unit = np.abs(windows.columns).max() or 1.0
        scaled = windows.columns / unit
        if norm == 2:
            sizes.append(unit * largest_of_windows(windows, scaled, 0.0)[0])
        else:
            sums = np.abs(scaled).sum(axis=0)
            most = max(float(sums[index].sum()) for index in windows.index)
            sizes.append(unit * windows.events * most)
    rounding = 4 * EPS * len(responses.points)
    return np.array(sizes) * (1 + rounding), exact


def triangular_root(factor: NDArray) -> NDArray:
    """Return L (m, m), triangular, with the covariance and zero rows of a factor."""
    size = len(factor)
    noisy = factor.any(axis=1)
    rows = factor[noisy]
    (triangle,) = scipy.linalg.qr(rows.T, mode="r")
    upper = triangle[: len(rows)]
    upper[np.diag(upper) < 0] *= -1.0
    lower = np.zeros((size, size))
    lower[np.ix_(noisy, noisy)] = upper.T
    return lower


def whitened_by(lower: NDArray) -> Callable[[NDArray], tuple[NDArray, NDArray]]:
    """Return what takes columns to Lambda^-1 times them, and to bounds of the errors.

    Lambda (m, m) is triangular. Rows without noise are left out. Rows that exact zeros keep
    apart are solved for apart, and equal blocks share the bound of their errors.
    """
    noisy = lower.any(axis=1)
    root = lower[np.ix_(noisy, noisy)]
    blocks: list[tuple[NDArray, NDArray]] = []
    kinds: list[tuple[NDArray, int]] = []
    for rows in _rows_apart(root):
        block = root[np.ix_(rows, rows)]
        kind = _first_equal(block, [one for one, _ in blocks])
        if kind == len(blocks):
            # once for the solve, once for the last places of the responses
            blocks.append((block, 2 * solution_error(block)))
        kinds.append((rows, kind))

    def solved(kind: int, entries: NDArray) -> tuple[NDArray, NDArray]:
        block, error = blocks[kind]
        found = scipy.linalg.solve_triangular(block, entries, lower=True)
        return found, error @ np.abs(found)

    def whitened(columns: NDArray) -> tuple[NDArray, NDArray]:
        entries = columns[noisy]
        if len(kinds) == 1:
            return solved(0, entries)
        every, wrong = np.zeros_like(entries), np.zeros_like(entries)
        done: list[tuple[int, NDArray, tuple[NDArray, NDArray]]] = []
        for rows, kind in kinds:
            own = np.ix_(rows, entries[rows].any(axis=0))
            given = entries[own]
            alike = [one for one in done if one[0] == kind]
            number = _first_equal(given, [one for _, one, _ in alike])
            if number == len(alike):
                alike.append((kind, given, solved(kind, given)))
                done.append(alike[-1])
            every[own], wrong[own] = alike[number][2]
        return every, wrong

    return whitened


def _first_equal(matrix: NDArray, others: Sequence[NDArray]) -> int:
    """Return the position of the first equal matrix, and their number if there is none."""
    equal = (k for k, one in enumerate(others) if np.array_equal(one, matrix))
    return next(equal, len(others))


def _rows_apart(root: NDArray) -> list[NDArray]:
    """Return the rows of each part of a large matrix (m, m) that exact zeros keep apart."""
    everything = [np.arange(len(root))]
    if len(root) < _MANY_ROWS:
        return everything
    links = scipy.sparse.csr_array(root != 0)
    count, labels = connected_components(links, directed=False)
    if count > _MOST_PARTS:
        return everything
    return [np.flatnonzero(labels == k) for k in range(count)]


def shift_sizes(lower: NDArray, responses: Responses) -> NDArray:
    """Return upper bounds of ||Lambda^-1 s||_2 of each single move, then of each ball.

    Lambda (m, m) is triangular. A move of an output without noise is an error.
    """
    if responses.moved[~lower.any(axis=1)].any():
        raise NotRealizableError(
            "the noise does not cover a protected direction: a hidden move changes an output "
            "without noise"
        )
    whitened = whitened_by(lower)
    sizes: list[float] = []
    if responses.points.shape[1]:
        solved, wrong = whitened(responses.points)
        outermost = np.abs(solved) + wrong
        sizes += np.linalg.norm(outermost, axis=0).tolist()
    for ball in responses.balls:
        solved, wrong = whitened(ball)
        slack = np.linalg.norm(wrong) + 1e-13 * np.linalg.norm(solved)
        size = np.linalg.norm(solved, 2) + slack
        sizes.append(float(size))
    for apart in responses.apart:
        solved, wrong = whitened(apart.columns)
        sizes.append(largest_apart(apart, solved, wrong))
    for windows in responses.windows:
        solved, wrong = whitened(windows.columns)
        sizes.append(largest_of_windows(windows, solved, wrong)[0])
    rounding = 1 + EPS * (len(lower) + 4)
    return round_up(np.array(sizes) * rounding, 2)


def floored_root(parts: NDArray, floor: NDArray) -> tuple[NDArray, float]:
    """Return the root of parts parts^T + diag(floor^2), and its relative error."""
    together = np.hstack([parts, np.diag(floor)])
    root = triangular_root(together)
    stds = column_norms(root.T)
    return root, _error_of(root, (stds / floor).max())


def _error_of(root: NDArray, condition: float) -> float:
    """Return by what part of it a shift may be wrong for the rounding of its root.

    The root is that of M + E for the rows M of the noise, each row of E being some units
    in the last place of that row's length (Higham 2002, Theorem 19.4). So no shift is more
    than ||E|| / s wrong, with the least singular value s of M, both for rows of length one.
    ``condition`` is at least 1 / s.
    """
    return float(16 * len(root) * EPS * condition)


def dense_root(
    parts: Sequence[NoisePart], horizon: int
) -> tuple[NDArray | None, float]:
    """Return the root (T p, T p) of the covariance of a run, and its relative error.

    It is None if double precision does not prove that all changed outputs have noise.
    """
    first = parts[0]
    if len(parts) == 1 and isinstance(first, Correlated):
        return first.root, 0.0
    total = PartSum(parts)
    white = np.tile(total.white, horizon)
    columns = total.responses(horizon).reshape(len(white), -1)
    if white.all():
        return floored_root(columns, white)
    noisy = columns.any(axis=1)
    if noisy.sum() > columns.shape[1]:
        return None, np.inf
    root = triangular_root(columns)
    inner = root[np.ix_(noisy, noisy)]
    stds = column_norms(inner.T)
    least = float(np.linalg.norm(inner / stds[:, None], -2))
    error_bound = _error_of(root, 1 / least) if least else np.inf
    if not error_bound < _LARGEST_ERROR_BOUND:
        return None, np.inf
    return root, error_bound


# -- readings on a grid ------------------------------------------------------------------


def grid_shift(
    parts: Sequence[NoisePart],
    resolution: NDArray | None,
    horizon: float,
    family: str = "gaussian",
) -> float:
    """Bound what a sensor's grid adds to the shift of noise, zero without a grid.

    Two readings differ by up to a step h_i more than the outputs do, at each of T samples.
    With a white floor f that is at most the norm of all h_i / f_i. Filtered Gaussian
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
    bounds = []
    if white.all():
        norm = family_of(family).shift_norm
        bounds.append(shift_of_resolution(resolution, white, run, norm))
    for part in parts:
        if part.drive is not None and part.drive[0] is None:
            _, shaping = part.drive
            steps = LinearSystem.gain(np.diag(resolution))
            left = shaping.inverse().after(steps)
            entries = run * len(resolution)
            bound = largest_gain(left) * math.sqrt(entries)
            bounds.append(float_above(bound * (1 + 1e-9)))
    if not bounds:
        raise PrivacyError(
            "resolution: readings on a grid need noise that is drawn again at every "
            "output and sample; add a white floor (floor=...)"
        )
    return min(bounds)


def shift_of_resolution(
    resolution: NDArray | None, sizes: NDArray, horizon: int, norm: int
) -> float:
    """Return what a sensor's grid adds to every shift at most, rounded up.

    Two readings on a grid h differ by up to h more than the outputs do, at each sample.
    Independent noise of the given sizes (p,) whitens that to (h / size) at each of T p
    entries. Other parts of the noise can only lower it.
    """
    if resolution is None:
        return 0.0
    entries = np.tile(resolution / sizes, horizon)
    rounding = 1 + 1e-15 * len(entries)
    size = np.linalg.norm(entries, ord=norm)
    return float_above(size * rounding, 2)
