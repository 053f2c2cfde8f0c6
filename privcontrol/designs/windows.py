"""Publish several horizons of one plant, each with noise of its own.

A move z of the first window's state is A^t z in a window that starts t samples later.
Windows therefore do not compose like releases of one secret. They are stacked on one
trajectory, and each move is followed through all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import control as ct
import numpy as np

from ..core._linalg import instance_of, positive_integer, round_up, sequence_of
from ..core._progress import SHORT, progress_bar
from ..core.adjacency import Adjacency
from ..core.budget import PrivacyBudget, checked_budget, scale_to_budget
from ..core.design import NoiseDesign
from ..core.errors import PrivacyError, UncertifiableError
from ..core.guarantee import PrivacyGuarantee, Scope
from ..core.loss import PrivacyLoss
from ..core.manifold import attaining
from ..core.mechanism import Mechanism
from ..core.noise import GaussianNoise
from ..noise.parts import Structured, White
from ..noise.shift import Shift, squares_of_windows
from ..secrets.adjacency import StateAdjacency
from ..secrets.hiding import NoiseForm, structured_factor
from ..secrets.manifold import (
    RUN_ASSUMPTIONS,
    TrajectoryManifold,
    output_query,
    trajectory_manifold,
)
from ..systems.linear import Plant
from .certify import grid_of
from .output_noise import OutputNoise
from .problem import Weight, promised, weight_root_of
from .request import Request

#: Share of the budget's square below which nothing of it is left for a move.
_NOTHING_LEFT = 1e-6


def windows_guarantee(
    noises: Sequence[OutputNoise], *, adjacency: Adjacency | None = None
) -> PrivacyGuarantee:
    """Return the guarantee of consecutive windows, each with Gaussian noise of its own.

    The run of all windows' samples is one trajectory, and the adjacency is about all of it.
    With t_i the start of window i, a move z of x(0) has y^2 = sum_i of that of A^(t_i) z
    under the noise of window i. Along a chain of integrators this is far above the root of
    k that releases of one secret would give. There a small move of a velocity late in the
    run is a large move of the position at its start. The shift is exact, and an upper bound
    where the noise was designed for readings on a grid.

    Parameters
    ----------
    noises : sequence of OutputNoise
        In the order of the windows, for one plant, Gaussian, without the part that
        hides disturbances.
    adjacency : StateAdjacency or InitialStateAdjacency, optional
        About the whole run. By default the one that all noises were designed for, at all
        times of the run.

    Raises
    ------
    ValueError
        If the noises are for different plants or adjacencies, or not Gaussian.
    NotRealizableError
        If a window's noise leaves a move bare that another window hides.

    Examples
    --------
    >>> import privcontrol as pc
    >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    >>> adjacency = pc.StateAdjacency(1.0)
    >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=100,
    ...     budget=budget, adjacency=adjacency, models="exact")
    >>> together = pc.windows_guarantee([noise, noise])
    >>> together.horizon, round(together.gdp / noise.guarantee.gdp, 4)
    (200, 2.6702)

    References
    ----------
    DPAM Theorem 3 for one window; the stacking is that of several queries on one
    manifold (DPAM eq. (2)).
    """
    noises = sequence_of(noises, "noises", "OutputNoise, one for each window")
    if not noises:
        raise TypeError("noises: expected one OutputNoise for each window, got none")
    instance_of(noises[0], OutputNoise, "noises")
    plant = noises[0].plant_data
    windows = _stacked(noises, plant)
    if adjacency is None:
        adjacency = _common_adjacency(noises)
    instance_of(adjacency, Adjacency, "adjacency", "StateAdjacency")
    run = trajectory_manifold(plant, _length(windows))
    loss = _loss(windows, adjacency, run, _grid(noises))
    fresh = "the noise of each window drawn once, for itself"
    assumptions = ("A and C exact", fresh, *RUN_ASSUMPTIONS[1:])
    scope = Scope.of(adjacency, run, assumptions=assumptions)
    caveats = list(scope.caveats)
    for noise in noises:
        caveats += noise.guarantee.scope.caveats
    scope = replace(scope, caveats=tuple(dict.fromkeys(caveats)))
    return PrivacyGuarantee(loss, scope, 1, noises[0].guarantee.quoted_delta)


def design_windows(
    sys: ct.StateSpace,
    *,
    horizons: Sequence[int],
    budget: PrivacyBudget,
    adjacency: StateAdjacency,
    spent: Sequence[OutputNoise] = (),
    weight: Weight = None,
    progress: bool = False,
) -> tuple[OutputNoise, ...]:
    """Design Gaussian noise for consecutive windows that together meet one budget.

    Each window gets fresh structured noise gamma(t) = C A^t S_i eta_i. For every move of
    the run the budget that the windows already published leave is shared equally among the
    new windows. The least costly S_i for these shares is found, and all of them are shrunk
    by what the joint guarantee leaves unused. One draw for the whole run,
    ``design_output_noise(horizon=sum(horizons))``, never costs more where it can be kept.

    Parameters
    ----------
    sys : control.StateSpace
    horizons : sequence of int
        Numbers of samples of the new windows.
    budget : PrivacyBudget
        Of the whole run: the windows already published and the new ones.
    adjacency : StateAdjacency
        About the whole run; protected times are counted from the start of its first
        window.
    spent : sequence of OutputNoise, optional
        Of the windows already published, from the first on.
    weight, progress : optional
        Cost of the noise in each window and a bar, as in `design_output_noise`.

    Returns
    -------
    tuple of OutputNoise
        One for each new window. The guarantee of each is about the whole run and that
        window's release alone, and does not add to that of another window. That of all
        together is ``windows_guarantee([*spent, *new], adjacency=adjacency)``.

    Raises
    ------
    PrivacyError
        If the windows already published have spent the budget for some move of the run.

    Examples
    --------
    >>> import privcontrol as pc
    >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    >>> adjacency = pc.StateAdjacency({"position": 1.0})
    >>> first, second = pc.design_windows(
    ...     pc.plants.vehicle(), horizons=[50, 50], budget=budget, adjacency=adjacency)
    >>> pc.windows_guarantee([first, second], adjacency=adjacency).satisfies(budget)
    True
    """
    instance_of(adjacency, StateAdjacency, "adjacency")
    checked_budget(budget)
    lengths = sequence_of(horizons, "horizons", "numbers of samples, such as [50, 50]")
    lengths = [positive_integer(length, "horizons") for length in lengths]
    if not lengths:
        raise ValueError("horizons: expected numbers of samples, such as [50, 50]")
    plant = Plant.of(sys)
    published = _stacked(spent, plant)
    start = _length(published)
    run = trajectory_manifold(plant, start + sum(lengths))
    allowed = GaussianNoise.allowed_shift(budget)
    grid = _grid(spent)
    left = np.array(allowed**2 * (1 - 1e-12))
    if published:
        squares = _shift(published, adjacency, run).squares
        left = left - round_up((np.sqrt(squares) + grid) ** 2, 4)
    spent_moves = left <= _NOTHING_LEFT * allowed**2
    if spent_moves.any():
        raise PrivacyError(
            f"the {start} samples already published leave nothing of the budget "
            f"for {int(spent_moves.sum())} moves of the longer run: raise the budget, "
            "protect fewer times, or design all windows together from the start"
        )
    shares = np.sqrt(left / len(lengths)) / allowed
    windows = []
    with progress_bar(len(lengths), progress, "window", delay=SHORT) as bar:
        for length in lengths:
            moves = adjacency.moves_from(run, start, length)
            moves = moves.stretched(np.broadcast_to(1 / shares, moves.scales.shape))
            root = weight_root_of(weight, len(plant.C), length)
            found = structured_factor(plant, moves, length, root, allowed)
            windows.append(NoiseForm(plant, length, found.factor, None, start))
            start += length
            bar.update(1)

    def evaluated(size: float) -> tuple[list[NoiseForm], float]:
        scaled = []
        for window in windows:
            scaled.append(replace(window, factor=np.asarray(window.factor) * size))
        joint = _shift([*published, *scaled], adjacency, run)
        return scaled, joint.beside_grid(grid).gdp / allowed

    # all new windows shrink by what their joint guarantee leaves unused
    used = _shift(windows, adjacency, run).squares / left
    shrink = float(round_up(np.sqrt(used.max() * (1 + 1e-14)), 2))
    windows, _, excess = scale_to_budget(evaluated, shrink)
    if excess > 1:
        raise UncertifiableError(
            "horizons: the windows exceed their joint budget when evaluated back; pass "
            "fewer of them, or shorter ones"
        )
    request = Request(run.horizon, budget, adjacency)
    return tuple(_alone(window, request, run, weight) for window in windows)


def _alone(
    window: NoiseForm, request: Request, run: TrajectoryManifold, weight: Weight
) -> OutputNoise:
    """Return the structured noise of a window, with what it alone tells of the run."""
    plant = window.plant
    factor = np.asarray(window.factor)
    parts = (Structured(plant, factor),)
    loss = _loss([window], request.adjacency, run, 0.0)
    guarantee = promised(plant, request, parts, loss)
    # another window's noise is another release, which `windows_guarantee` counts
    end = window.start + window.horizon
    scope = replace(guarantee.scope, window=(window.start, end))
    guarantee = replace(guarantee, scope=scope)
    responses = plant.free_response(factor, window.horizon)
    root = weight_root_of(weight, len(plant.C), window.horizon)
    mechanism = Mechanism(output_query(plant, window.horizon), GaussianNoise(responses))
    cost = float(np.sum(root(responses) ** 2))
    design = NoiseDesign(mechanism, guarantee, cost, math.nan, tangent_factor=factor)
    return OutputNoise(plant, window.horizon, "gaussian", parts, guarantee, design)


def _shift(
    windows: Sequence[NoiseForm], adjacency: Adjacency, run: TrajectoryManifold
) -> Shift:
    """Return the certified shift of windows of a run."""
    squares = squares_of_windows(windows, adjacency, run.plant, run.horizon)
    return Shift.joined([squares])


def _loss(
    windows: Sequence[NoiseForm],
    adjacency: Adjacency,
    run: TrajectoryManifold,
    grid: float,
) -> PrivacyLoss:
    """Return the loss of windows, with the moves that attain it where they are known."""
    shift = _shift(windows, adjacency, run)
    if grid or not shift.exact or adjacency.moves(run).is_ball:
        return shift.beside_grid(grid)
    return PrivacyLoss.gaussian(shift.value, attaining(np.sqrt(shift.squares)))


def _stacked(noises: Sequence[OutputNoise], plant: Plant) -> list[NoiseForm]:
    """Return the windows of one run of a plant, one after the other."""
    windows: list[NoiseForm] = []
    for noise in noises:
        instance_of(noise, OutputNoise, "noises")
        different = plant.differences(noise.plant_data)
        if different:
            raise ValueError(
                "noises: expected windows of one plant, got another "
                f"{' and '.join(different)}"
            )
        if noise.family != "gaussian" or not noise.total.consists_of(Structured, White):
            raise ValueError(
                "noises: expected Gaussian noise about states in every window; design "
                "other noise, such as that for a disturbance, for the whole run at once"
            )
        start = _length(windows)
        form = NoiseForm(plant, noise.samples, noise.factor, noise.scale, start)
        windows.append(form)
    return windows


def _length(windows: Sequence[NoiseForm]) -> int:
    return sum(window.horizon for window in windows)


def _grid(noises: Sequence[OutputNoise]) -> float:
    """Return what the sensor's grid adds to the shift of all windows together."""
    return float(np.linalg.norm([grid_of(noise) for noise in noises]))


def _common_adjacency(noises: Sequence[OutputNoise]) -> Adjacency:
    """Return what all noises were designed for, which must be about the whole run."""
    known = [getattr(noise.request, "adjacency", None) for noise in noises]
    first = known[0]
    if first is None or any(other != first for other in known):
        raise ValueError(
            "adjacency: the windows were designed for different adjacencies; say what is "
            "to be hidden"
        )
    if getattr(first, "times", None) is not None:
        raise ValueError(
            "adjacency: the protected times are counted from the start of each window; "
            "say which times of the whole run are protected"
        )
    return first
