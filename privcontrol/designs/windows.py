"""Publish several horizons of one plant, each with noise of its own.

A move z of the first window's state is A^t z in a window that starts t samples later.
Windows therefore do not compose like releases of one secret. They are stacked on one
trajectory, and each move is followed through all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._linalg import instance_of, positive_integer, round_up, sequence_of
from ..core._progress import SHORT, progress_bar
from ..core.adjacency import Adjacency
from ..core.budget import PrivacyBudget, checked_budget, scale_to_budget
from ..core.design import NoiseDesign, quoted
from ..core.errors import PrivacyError, UncertifiableError
from ..core.guarantee import PrivacyGuarantee, Scope
from ..core.loss import PrivacyLoss
from ..core.mechanism import Mechanism
from ..core.moves import Moves, attaining
from ..core.noise import GaussianNoise, LaplaceNoise
from ..noise.parts import Structured, White
from ..secrets._exact_design import structured_factor
from ..secrets._forms import NoiseForm, laplace_shifts, window_squares
from ..secrets.adjacency import StateAdjacency, StateMoves
from ..secrets.manifold import (
    RUN_ASSUMPTIONS,
    TrajectoryManifold,
    output_query,
    trajectory_manifold,
)
from ..systems.plant import Plant
from .certify import resolution_shift
from .output_noise import OutputNoise
from .problem import uncovered, weight_root_of

_FRESH = "the noise of each window drawn once, for itself"
#: Share of the budget's square below which nothing of it is left for a move.
_NOTHING_LEFT = 1e-6


def windows_guarantee(
    noises: Sequence[OutputNoise], *, adjacency: Adjacency | None = None
) -> PrivacyGuarantee:
    """Return the exact guarantee of consecutive windows, each with noise of its own.

    The run of all windows' samples is one trajectory, and the adjacency is about all of it.
    With t_i the start of window i, a move z of x(0) has y^2 = sum_i of that of A^(t_i) z
    under the noise of window i. Along a chain of integrators this is far above the root of
    k that releases of one secret would give. There a small move of a velocity late in the
    run is a large move of the position at its start.

    Parameters
    ----------
    noises : sequence of OutputNoise
        In the order of the windows, for one plant, of one law, without the part that
        hides disturbances.
    adjacency : StateAdjacency or InitialStateAdjacency, optional
        About the whole run. By default the one that all noises were designed for, at all
        times of the run.

    Raises
    ------
    ValueError
        If the noises are for different plants, laws or adjacencies.
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
    family = noises[0].family
    _check_windows(noises, plant, family)
    if adjacency is None:
        adjacency = _common_adjacency(noises)
    instance_of(adjacency, Adjacency, "adjacency", "StateAdjacency")
    run = _Run.of(noises, adjacency, plant)
    loss = run.gaussian_loss() if family == "gaussian" else run.laplace_loss()
    assumptions = ("A and C exact", _FRESH, *RUN_ASSUMPTIONS[1:])
    scope = Scope.of(adjacency, run.manifold, assumptions=assumptions)
    clauses = list(scope.caveats)
    for noise in noises:
        clauses += noise.guarantee.scope.caveats
    scope = replace(scope, caveats=tuple(dict.fromkeys(clauses)))
    return PrivacyGuarantee(loss, scope, 1, noises[0].guarantee.quoted_delta)


def design_windows(
    sys: ct.StateSpace,
    *,
    horizons: Sequence[int],
    budget: PrivacyBudget,
    adjacency: StateAdjacency,
    spent: Sequence[OutputNoise] = (),
    weight: ArrayLike | object = None,
    progress: bool = False,
) -> tuple[OutputNoise, ...]:
    """Gaussian noise for consecutive windows of one plant that together meet one budget.

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
    _check_windows(spent, plant, "gaussian")
    run = _Run.of(spent, adjacency, plant, sum(lengths))
    allowed = GaussianNoise.allowed_shift(budget)
    left = allowed**2 * (1 - 1e-12) - run.squares()
    spent_moves = left <= _NOTHING_LEFT * allowed**2
    if spent_moves.any():
        raise PrivacyError(
            f"the {run.published} samples already published leave nothing of the budget "
            f"for {int(spent_moves.sum())} moves of the longer run: raise the budget, "
            "protect fewer times, or design all windows together from the start"
        )
    shares = np.sqrt(left / len(lengths)) / allowed
    windows = []
    start = run.published
    with progress_bar(len(lengths), progress, "window", delay=SHORT) as bar:
        for length in lengths:
            moves = run.moves_in(start, length).stretched(1 / shares)
            root = weight_root_of(weight, len(plant.C), length)
            found = structured_factor(plant, moves, length, root, allowed)
            windows.append(NoiseForm(plant, length, found.factor, None, start))
            start += length
            bar.update(1)
    new = sum(run.squares_of(window) for window in windows)
    # all new windows shrink by what their joint guarantee leaves unused
    used = (new / left).max() * (1 + 1e-14)
    shrink = float(round_up(np.sqrt(used), 2))

    def evaluated(size: float) -> tuple[_Run, float]:
        whole = run.ending_in([_scaled(window, size) for window in windows])
        return whole, whole.gaussian_loss().gdp / allowed

    whole, _, excess = scale_to_budget(evaluated, shrink)
    if excess > 1:
        raise UncertifiableError(
            "horizons: the windows exceed their joint budget when evaluated back; pass "
            "fewer of them, or shorter ones"
        )
    new_windows = whole.windows[len(spent) :]
    return tuple(run.noise_of(window, budget, weight) for window in new_windows)


def _scaled(window: NoiseForm, size: float) -> NoiseForm:
    """Structured noise of another size."""
    return replace(window, factor=np.asarray(window.factor) * size)


@dataclass(frozen=True)
class _Run:
    """One trajectory through all windows, and what must be hidden of it.

    ``grids`` are what a sensor's grid adds to every shift in each of the windows.
    """

    windows: tuple[NoiseForm, ...]
    grids: tuple[float, ...]
    adjacency: Any
    manifold: TrajectoryManifold

    @classmethod
    def of(
        cls,
        noises: Sequence[OutputNoise],
        adjacency: Adjacency,
        plant: Plant,
        more: int = 0,
    ) -> _Run:
        """The run of windows that were published, and ``more`` samples after them."""
        windows = []
        start = 0
        for noise in noises:
            windows.append(replace(noise.form, start=start))
            start += noise.horizon
        grids = tuple(resolution_shift(noise) for noise in noises)
        manifold = trajectory_manifold(plant, start + more)
        return cls(tuple(windows), grids, adjacency, manifold)

    def ending_in(self, windows: Sequence[NoiseForm]) -> _Run:
        """The run with windows after those that were published."""
        grids = (*self.grids, *[0.0 for _ in windows])
        return replace(self, windows=(*self.windows, *windows), grids=grids)

    @property
    def published(self) -> int:
        """Number of samples of the windows."""
        return sum(window.horizon for window in self.windows)

    @cached_property
    def moves(self) -> Moves:
        return self.adjacency.moves(self.manifold)

    def moves_in(self, start: int, length: int) -> StateMoves:
        """The moves of the run, as moves of a window's first state."""
        return self.adjacency.moves_from(self.manifold, start, length)

    def squares_of(self, *windows: NoiseForm, grid: float = 0.0) -> NDArray:
        """Upper bounds of y^2 in some windows for every move of the run, or of a ball."""
        squares = window_squares(windows, self.adjacency, self.manifold)
        return round_up((np.sqrt(squares) + grid) ** 2, 4) if grid else squares

    def squares(self) -> NDArray:
        """The sum of these over all windows."""
        if self.moves.is_ball:
            # the shifts of all windows are one vector, and so are what the grids add
            grid = math.sqrt(sum(grid**2 for grid in self.grids))
            return self.squares_of(*self.windows, grid=grid)
        total = np.zeros(self.moves.vectors.shape[1])
        for window, grid in zip(self.windows, self.grids):
            total += self.squares_of(window, grid=grid)
        return total

    def gaussian_loss(self) -> PrivacyLoss:
        squares = self.squares() * (1 + 1e-15 * len(self.windows))
        sizes = round_up(np.sqrt(squares))
        shift = float(sizes.max())
        if any(self.grids):
            return PrivacyLoss.gaussian(shift, (), False)
        active = () if self.moves.is_ball else attaining(sizes)
        return PrivacyLoss.gaussian(shift, active, self.moves.exact)

    def laplace_loss(self) -> Any:
        shifts = map(self._laplace_shifts, self.windows, self.grids)
        loss: Any = LaplaceNoise.loss(np.vstack(list(shifts)), self.moves)
        if any(window.scale is not None for window in self.windows):
            return loss.as_bound()
        return loss

    def _laplace_shifts(self, window: NoiseForm, grid: float) -> NDArray:
        """Shifts of Laplace noise in one window for every move of the run.

        Of independent noise their sum stands for all of them.
        """
        if window.scale is None:
            return laplace_shifts(window, self.adjacency, self.manifold)
        if not isinstance(self.adjacency, StateAdjacency) or window.factor is not None:
            raise ValueError(
                "noises: windows of independent Laplace noise are compared for a "
                "StateAdjacency only"
            )
        moves_here = self.moves_in(window.start, window.horizon)
        scaled = self.manifold.plant.C / window.scale[:, None]
        return moves_here.output_sizes(scaled, 1)[None] * (1 + 1e-15) + grid

    def noise_of(
        self, window: NoiseForm, budget: PrivacyBudget, weight: ArrayLike | object
    ) -> OutputNoise:
        """The structured noise of a window, with what it alone tells of the run."""
        plant = window.plant
        length = window.horizon
        factor: Any = window.factor
        sizes = round_up(np.sqrt(self.squares_of(window)))
        loss = PrivacyLoss.gaussian(float(sizes.max()), attaining(sizes))
        scope = Scope.of(
            self.adjacency,
            self.manifold,
            assumptions=("A and C exact", *RUN_ASSUMPTIONS),
            caveats=uncovered(plant, length, factor),
        )
        # another window's noise is another release, which `windows_guarantee` counts
        scope = replace(scope, window=(window.start, window.start + length))
        guarantee = quoted(PrivacyGuarantee(loss, scope), budget)
        query = output_query(plant, length)
        responses = plant.free_response(factor, length)
        priced = weight_root_of(weight, len(plant.C), length)(responses)
        design = NoiseDesign(
            Mechanism(query, GaussianNoise(responses)),
            guarantee,
            float(np.sum(priced**2)),
            math.nan,
            self.moves_in(window.start, length).attained(loss.active),
            factor,
        )
        parts = (Structured(plant, factor),)
        return OutputNoise(plant, length, "gaussian", parts, guarantee, design)


def _check_windows(noises: Sequence[OutputNoise], plant: Plant, family: str) -> None:
    """Refuse windows of another plant or family, or with parts for disturbances."""
    for noise in noises:
        instance_of(noise, OutputNoise, "noises")
        different = plant.differences(noise.plant_data)
        if different:
            raise ValueError(
                "noises: expected windows of one plant, got another "
                f"{' and '.join(different)}"
            )
        if noise.family != family:
            raise ValueError(
                "noises: expected one law in all windows, "
                f"got {family} and {noise.family}"
            )
        if not noise.consists_of(Structured, White):
            raise ValueError(
                "noises: noise that hides disturbances covers one horizon; design it for "
                "the whole run in one piece"
            )


def _common_adjacency(noises: Sequence[OutputNoise]) -> Adjacency:
    """What all noises were designed for, which must be about the whole run."""
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
