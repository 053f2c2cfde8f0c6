"""From a plant, a horizon, a budget and an adjacency to the output noise that costs least.

`design_output_noise` is the door. A `Request` checks its arguments once. The table
`DESIGNS` has each way to size noise, with the requests that it is for and the reasons for
which it refuses some of them. The first one that suits a request sizes the noise, and
`finished` makes the promise.

`design_windows` designs several horizons of one plant, each with noise of its own. A move z
of the first window's state is A^t z in a window that starts t samples later. Windows
therefore do not compose like releases of one secret. They are stacked on one trajectory,
and each move is followed through all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import control as ct
import numpy as np
from numpy.typing import ArrayLike

from ..core._linalg import (
    check_room,
    float_above,
    instance_of,
    one_thread,
    positive_integer,
    round_up,
    sequence_of,
)
from ..core._objects import helpful_arguments
from ..core._progress import piece, timed_bar
from ..core.adjacency import Adjacency
from ..core.budget import PrivacyBudget, checked_budget, scale_to_budget
from ..core.errors import PrivacyError, UncertifiableError, warn_user
from ..core.guarantee import PrivacyGuarantee, Scope
from ..core.loss import PrivacyLoss
from ..core.manifold import attaining
from ..core.noise import GaussianNoise
from ..noise.parts import Structured, White
from ..noise.shift import Shift, squares_of_windows
from ..secrets.adjacency import StateAdjacency
from ..secrets.disturbance import disturbances
from ..secrets.hiding import NoiseForm, structured_factor
from ..secrets.manifold import (
    RUN_ASSUMPTIONS,
    TrajectoryManifold,
    trajectory_manifold,
)
from ..systems.linear import Plant
from .correlated import correlated, driven, is_energy_ball
from .endless_design import endless, long_noise
from .output_noise import OutputNoise, grid_of
from .problem import (
    DesignProblem,
    SizedNoise,
    Weight,
    finished,
    is_dense,
    weight_root_of,
)
from .region_design import of_region, of_varying_plant, with_cheapest_floor
from .request import Models, Request, check_models, check_size, joined
from .robust import floored
from .structured import constrained_shape, independent, own_shape, structured

#: Share of the budget's square below which nothing of it is left for a move.
_NOTHING_LEFT = 1e-6
#: Numbers that a design for states holds at least for each state and sample, and output.
_OF_STATE, _OF_OUTPUT = 20, 4
#: Matrices (T p, T p) that a dense design holds at once.
_DENSE_MATRICES = 8
#: Numbers that a solver of matrix inequalities holds for the fourth power of a size.
_OF_SOLVER = 2

_EXACT_MODEL = (
    "structured noise without a floor protects under the exact model only; pass "
    'floor="auto" with models=[...] for a model that is not, or models="exact" if it is'
)


@helpful_arguments
def design_output_noise(
    sys: ct.StateSpace,
    *,
    horizon: float,
    budget: PrivacyBudget,
    adjacency: Adjacency | Sequence[Adjacency],
    family: str = "gaussian",
    weight: Weight = None,
    releases: int = 1,
    floor: ArrayLike | str = 0.0,
    models: Models = None,
    factor: ArrayLike | None = None,
    covariance: ArrayLike | None = None,
    scale: bool = False,
    resolution: ArrayLike = 0.0,
    max_std: ArrayLike | Mapping[str, float] | None = None,
    order: int | None = None,
    gap: float = 0.01,
    constraints: Callable[[Any], Any] | None = None,
    progress: bool = False,
) -> OutputNoise:
    """Design the noise that makes the outputs of a plant differentially private.

    Structured noise is the plant's free response gamma(t) = C A^t S eta (DPAM Theorem 3).
    tr(W Gamma) is minimal among all Gaussian noises of the same guarantee, and the distance
    to that minimum is certified. The guarantee is checked in ball arithmetic for the factor
    S that is returned.

    Parameters
    ----------
    sys : control.StateSpace
        Discrete-time plant with n states and p outputs.
    horizon : int or inf
        Number of samples T that are published, t = 0 .. T-1. With ``np.inf`` the guarantee
        holds for runs of any length, and the noise is a linear system of low order. The
        plant must then forget the secret.
    budget : PrivacyBudget
        With delta > 0, or ``gdp``, for Gaussian noise.
    adjacency : StateAdjacency, InitialStateAdjacency, DisturbanceAdjacency, or a list
        What must be hidden. A list is protected jointly, all moves in one design. Noise for
        a disturbance is correlated over the whole horizon and causal. Except for an l2 ball
        the run time of its design grows with the cube of the horizon, and memory with the
        square of T p. From 50 samples on it is noise of low order wherever that is
        certified to be within ``gap``.
    family : {"gaussian", "laplace", "iid-gaussian", "iid-laplace"}, optional
        Structured noise, or independent noise of one size on every sample and output.
        Laplace noise gives pure differential privacy (delta = 0); its shape is a local
        optimum.
    weight : array_like, shape (p,), (p, p) or (T p, T p), or loop, optional
        Cost of the noise: prices of the outputs' variances or positive semidefinite W for
        every sample alike, W for all samples, or an object with ``noise_weight(horizon)``
        such as a `PrivateLoop`. The trace of the output noise by default, which adds
        squares of different units. ``weight=1 / sizes**2``, with the size (p,) of noise at
        which each output is as bad as the others, makes Hz and pu comparable.
    releases : int, optional
        The budget covers that many independent releases of the same trajectory.
    floor : float, array_like of shape (p,), or "auto", optional
        Standard deviation, in the outputs' units, of independent Gaussian noise that is
        part of every sample. The structured part is the least costly one beside it. Without
        a floor structured noise protects under the exact model only. ``"auto"`` finds the
        floor that makes the design cheapest for all ``models`` and the ``resolution``.
    models : sequence of StateSpace, PlantBox, PlantPolytope, IdentifiedPlant, or "exact", optional
        Plants under each of which, as under ``sys``, every move must be hidden. Unless
        they share the column space of the nominal plant's free responses, structured noise
        needs a floor for it. A box or polytope contains ``sys`` and covers every plant in
        it. For a plant that varies the noise is drawn again at every sample. The
        probability that the region misses the plant is part of delta. ``"exact"`` says that
        you know A and C exactly, and silences the warning about it.
    factor : array_like, shape (n, r) or (T p, r), optional
        Your own S (DPAM eq. (22)), or Lambda of Gaussian noise over the horizon, time-major
        (DPAM Theorem 1). n rows are S. It is kept as given where it meets the budget, and
        the guarantee is then its own, stricter than the budget. It is scaled up, all
        entries alike, where it does not. Nothing is claimed of its cost.
    covariance : array_like, shape (n, n), optional
        The same as S S^T, the covariance of the random initial state.
    scale : bool, optional
        Scale the factor or the covariance, up or down, until it just meets the budget.
    resolution : float or array_like, shape (p,), optional
        Step of the grid on which the readings lie, in the outputs' units. Readings of two
        runs then differ by up to a full step more than the outputs do. It needs a floor, or
        independent noise, and a finite horizon.
    max_std : float, array_like (p,), mapping by output name, or inf, optional
        Largest useful standard deviation of the noise at each output. By default noise of
        10,000 times what the secret does to an output within the first samples is refused,
        and from 100 times on there is a warning; ``np.inf`` lifts both.
    order : int, optional
        Without a horizon: number of states of the system that shapes the noise, the least
        one within ``gap`` by default.
    gap : float, optional
        Without a horizon, and for disturbances over 50 samples and more: largest relative
        distance of the cost to the lower bound of any Gaussian noise. Without a horizon
        it is that of the filtered part, to which a floor adds. Dense noise of fewer than
        128 dimensions for fewer than 1,000 hidden changes comes within 1e-6.
    constraints : callable, optional
        A function from the covariance Gamma (T p, T p) of Gaussian noise over the horizon,
        time-major, to a list of convex CVXPY constraints, as `design_gaussian` takes it.
        Nothing is claimed of the cost. For some dozens of samples: the time grows with the
        sixth power of T p.
    progress : bool, optional
        Show a tqdm bar where a design takes more than two seconds, with the time that is
        left for designs that are made of several pieces.

    Returns
    -------
    OutputNoise
        The gap of its design is certified among all Gaussian noises for exact models
        without a floor, and among all of the form Gamma = O_T Sigma O_T^T + diag(floor^2)
        with one. It is not known for several models without a floor.

    Raises
    ------
    control.ControlArgument
        If ``sys`` is not a discrete-time StateSpace.
    control.ControlDimension
        If models have other outputs or another sampling time.
    ValueError
        If the plant is singular and a time after 0 is protected, a time is beyond the
        horizon, or delta is 0.
    PrivacyError
        If no output depends on the secret, a model or the resolution needs a larger floor,
        or the noise is larger than is useful.
    NotRealizableError
        If a model, or your own factor, leaves a move outside the column space of
        structured noise, and there is no floor.
    UncertifiableError
        If double precision cannot certify a design.
    MemoryError
        If a design needs more memory than is free.

    Warns
    -----
    PrivacyWarning
        If structured noise has no floor and no models. If the noise is 100 times or more
        what the secret does to an output; `horizon_growth` shows the modes of states.

    Examples
    --------
    >>> import privcontrol as pc
    >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    >>> adjacency = pc.StateAdjacency({"position": 1.0})
    >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=100,
    ...     budget=budget, adjacency=adjacency, models="exact")
    >>> noise.factor.round(4)
    array([[1.8779],
           [0.    ]])
    >>> noise.std.round(4)
    array([1.8779])
    """
    plant = Plant.of(sys)
    _check_loop(weight, plant)
    request = Request(
        horizon, budget, joined(adjacency), family, releases, order=order, gap=gap
    ).of_plant(
        plant,
        floor=floor,
        models=models,
        resolution=resolution,
        factor=factor,
        covariance=covariance,
        scale=scale,
    )
    check_models(request, plant, max_std)
    chooses_floor = isinstance(floor, str) and not request.drawn_afresh

    with one_thread, timed_bar(progress, "design", _faster(request)):
        if chooses_floor:
            problem = DesignProblem(plant, request.without_miss(), weight)
            best = with_cheapest_floor(problem, sized)
            request = replace(request, floor=best.parts[-1].white)
            problem = replace(problem, request=request.without_miss())
            noise = finished(problem, best, request)
        elif constraints is not None:
            noise = _constrained(plant, request, weight, constraints)
        else:
            noise = designed(request, plant, weight=weight)
    check_size(noise, max_std)
    is_alone = noise.total.consists_of(Structured) and not request.has_models
    if is_alone and not isinstance(models, str):
        warn_user(_EXACT_MODEL)
    return noise


def _constrained(
    plant: Plant, request: Request, weight: Weight, constraints: Callable[[Any], Any]
) -> OutputNoise:
    """Design noise whose covariance over the horizon satisfies constraints."""
    if request.horizon == math.inf or request.region is not None:
        raise ValueError(
            "constraints: expected a finite horizon and no region of models, over which "
            "noise has a covariance of its own"
        )
    problem = DesignProblem(plant, request, weight)
    entries = request.horizon * len(plant.C)
    what = f"constraints: a covariance of {entries} samples and outputs"
    check_room(_OF_SOLVER * entries**4, what, _faster(request))
    factor, check = constrained_shape(problem, constraints)
    request = replace(request, factor=factor, scale=False)
    noise = designed(request, plant, weight=weight)
    check(noise.design.noise.covariance)
    return noise


@one_thread
def designed(
    request: Request,
    sys: ct.StateSpace | Plant,
    *,
    weight: Weight = None,
    **changes: Any,
) -> OutputNoise:
    """Design noise for a request, up to the arguments given, without warnings."""
    request = replace(request, **changes)
    problem = DesignProblem(Plant.of(sys), request.without_miss(), weight)
    return finished(problem, sized(problem), request)


# -- which design ------------------------------------------------------------------------


Condition = Callable[[Request], bool]


@dataclass(frozen=True)
class Design:
    """A way to size noise, the problems that it suits, and why it refuses some of them.

    It holds so many ``matrices`` (T p, T p) at once, None if that shows later.
    """

    suits: Callable[[DesignProblem], bool]
    size: Callable[[DesignProblem], SizedNoise]
    refusals: Mapping[str, Condition] = field(default_factory=dict)
    matrices: int | None = None


def sized(problem: DesignProblem) -> SizedNoise:
    """Return noise for a problem, by the first design that suits it."""
    design = next(design for design in DESIGNS if design.suits(problem))
    for reason, refuses in design.refusals.items():
        if refuses(problem.request):
            raise PrivacyError(reason)
    if design.matrices is not None:
        _check_room(problem, design.matrices)
    return design.size(problem)


def _has_own_lambda(problem: DesignProblem) -> bool:
    own = problem.request.factor
    return own is not None and len(own) != problem.plant.order


def _is_driven(problem: DesignProblem) -> bool:
    request = problem.request
    alone = not request.models and request.floor is None
    return alone and is_energy_ball(request.adjacency)


def _correlated(problem: DesignProblem) -> SizedNoise:
    """Return noise of low order where that is nearly the best, or a dense design."""
    with piece(0, 2):
        lasting = long_noise(problem)
    if lasting is not None:
        return lasting
    _check_room(problem, _DENSE_MATRICES)
    with piece(1, 2):
        return correlated(problem)


_BARE: dict[str, Condition] = {
    "resolution: readings on a grid leave the column space of structured noise; add a "
    "white floor (floor=...), which covers them": lambda request: (
        request.resolution is not None and request.floor is None
    ),
}
_OF_DENSE: dict[str, Condition] = {
    **_BARE,
    "factor, covariance: S is for secrets about states, got a disturbance or a ball beside "
    "other secrets; pass factor=Lambda of shape (T p, r)": lambda request: (
        request.factor is not None
    ),
    'family: expected "gaussian" or an iid family for a disturbance, or for a 2-norm ball '
    "of initial states beside other secrets (norm=1 will do)": lambda request: (
        request.family != "gaussian"
    ),
}
_OF_NO_END: dict[str, Condition] = {
    "family: Laplace noise has no guarantee for runs of any length, since its pure epsilon "
    "grows with every sample that a change moves; use Gaussian noise with delta > 0, or a "
    "finite horizon": lambda request: request.family.endswith("laplace"),
    "resolution: without a horizon no noise covers a sensor's grid, since however small a "
    "change has become it may still move every later reading by a full step; design for a "
    "finite horizon with a floor": lambda request: request.resolution is not None,
    "factor, covariance: they shape structured noise, which has a horizon; pass a finite "
    "one": lambda request: request.factor is not None,
}
_OF_VARYING: dict[str, Condition] = {
    "models: a plant that varies, or models without a horizon, need Gaussian noise that is "
    "drawn again at every sample; leave factor and covariance out, and pass "
    'family="gaussian" or family="iid-gaussian"': lambda request: (
        request.family.endswith("laplace") or request.factor is not None
    ),
    "resolution: without a horizon no noise covers a sensor's grid; design for a finite "
    "horizon with a floor": lambda request: (
        request.resolution is not None and request.horizon == math.inf
    ),
}


_OF_REGION: dict[str, Condition] = {
    "models: noise for all plants of a region needs Gaussian noise with a white floor "
    '(floor="auto" finds the cheapest one)': lambda request: (
        request.family.endswith("laplace")
        or (
            request.family == "gaussian"
            and request.floor is None
            and not request.is_one
        )
    ),
}

#: The first design whose condition holds is taken.
DESIGNS = (
    Design(
        lambda problem: problem.request.has_models and problem.request.drawn_afresh,
        of_varying_plant,
        _OF_VARYING,
    ),
    Design(
        lambda problem: problem.request.region is not None,
        lambda problem: of_region(problem, sized),
        _OF_REGION,
    ),
    Design(lambda problem: problem.horizon == math.inf, endless, _OF_NO_END),
    Design(
        lambda problem: problem.request.family.startswith("iid-"),
        independent,
        matrices=0,
    ),
    Design(_has_own_lambda, own_shape, _BARE, _DENSE_MATRICES),
    Design(_is_driven, driven, _OF_DENSE, matrices=2),
    Design(lambda problem: is_dense(problem.request.adjacency), _correlated, _OF_DENSE),
    Design(lambda problem: problem.request.factor is not None, own_shape, _BARE, 0),
    Design(lambda problem: problem.request.floor is not None, floored, matrices=0),
    Design(lambda problem: True, structured, _BARE, 0),
)


def _check_room(problem: DesignProblem, matrices: int) -> None:
    """Refuse a design of so many matrices (T p, T p) that the memory does not hold."""
    outputs = len(problem.plant.C)
    size = problem.horizon * outputs
    moves = 0
    for part in disturbances(problem.request.adjacency):
        columns = len(part.starts(problem.horizon)) * len(part.signals(problem.plant))
        moves += len(part.shapes) * columns
    of_sample = problem.plant.order * (_OF_STATE + _OF_OUTPUT * outputs)
    what = f"horizon: a design over {problem.horizon} samples"
    check_room(
        problem.horizon * of_sample + size * (2 * moves + matrices * size),
        f"{what} for {moves} hidden changes" if moves else what,
        _faster(problem.request),
    )


def _faster(request: Request) -> str:
    """Name what would make a design faster and smaller."""
    if request.horizon == math.inf:
        return "protect shorter changes, let fewer entries vary, or raise gap"
    if request.region is not None:
        return "shorten the horizon, or let fewer entries of the models vary"
    ways = "shorten the horizon, or protect fewer times or shorter changes"
    if disturbances(request.adjacency):
        ways = f"design with horizon=np.inf, {ways}"
    return ways


def _check_loop(weight: Weight, plant: Plant) -> None:
    """Make sure that a loop that prices the noise is one of this plant."""
    controlled = getattr(weight, "plant", None)
    if controlled is None:
        return
    different = " and ".join(Plant.of(controlled).differences(plant))
    if different:
        raise ValueError(f"weight: the loop is one of a plant with another {different}")


# -- windows of one run ------------------------------------------------------------------


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
    run = trajectory_manifold(plant, _end(windows))
    loss = _loss(windows, adjacency, run, _grid(noises))
    fresh = "the noise of each window drawn once, for itself"
    assumptions = ("A and C exact", fresh, *RUN_ASSUMPTIONS[1:])
    scope = Scope.of(adjacency, run, assumptions=assumptions)
    caveats = dict.fromkeys(scope.caveats)
    for noise in noises:
        caveats |= dict.fromkeys(noise.guarantee.scope.caveats)
    scope = replace(scope, caveats=tuple(caveats))
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
    start = _end(published)
    request = Request(start + sum(lengths), budget, adjacency)
    _check_room(DesignProblem(plant, request), 0)
    run = trajectory_manifold(plant, request.horizon)
    allowed = request.allowed_shift
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
    windows: list[NoiseForm] = []

    def evaluated(size: float) -> tuple[list[NoiseForm], float]:
        scaled = []
        for window in windows:
            scaled.append(replace(window, factor=np.asarray(window.factor) * size))
        joint = _shift([*published, *scaled], adjacency, run)
        return scaled, joint.beside_grid(grid).gdp / allowed

    with (
        one_thread,
        timed_bar(progress, "design", "pass fewer windows, or shorter ones"),
    ):
        for number, length in enumerate(lengths):
            with piece(number, len(lengths) + 1):
                moves = adjacency.moves_from(run, start, length)
                gains = np.broadcast_to(1 / shares, moves.scales.shape)
                root = weight_root_of(weight, len(plant.C), length)
                moves = moves.stretched(gains)
                found = structured_factor(plant, moves, length, root, allowed)
            windows.append(NoiseForm(plant, length, found.factor, None, start))
            start += length
        # all new windows shrink by what their joint guarantee leaves unused
        used = _shift(windows, adjacency, run).squares / left
        shrink = float_above(np.sqrt(used.max() * (1 + 1e-14)), 2)
        with piece(len(lengths), len(lengths) + 1):
            windows, _, excess = scale_to_budget(evaluated, shrink)
        if excess > 1:
            raise UncertifiableError(
                "horizons: the windows exceed their joint budget when evaluated back; "
                "pass fewer of them, or shorter ones"
            )
        return tuple(_alone(window, request, run, weight) for window in windows)


def _alone(
    window: NoiseForm, request: Request, run: TrajectoryManifold, weight: Weight
) -> OutputNoise:
    """Return the structured noise of a window, with what it alone tells of the run."""
    factor = np.asarray(window.factor)
    problem = DesignProblem(run.plant, replace(request, horizon=window.horizon), weight)
    responses = run.plant.free_response(factor, window.horizon)
    sized = SizedNoise(
        (Structured(run.plant, factor),),
        _loss([window], request.adjacency, run, 0.0),
        problem.cost(responses),
        GaussianNoise(responses),
        tangent_factor=factor,
    )
    noise = finished(problem, sized, request)
    # another window's noise is another release, which `windows_guarantee` counts
    scope = replace(noise.guarantee.scope, window=(window.start, _end([window])))
    promise = replace(noise.guarantee, scope=scope)
    design = replace(noise.design, guarantee=promise)
    return replace(noise, guarantee=promise, design=design, request=None, promised=None)


def _shift(
    windows: Sequence[NoiseForm], adjacency: Adjacency, run: TrajectoryManifold
) -> Shift:
    """Return the certified shift of windows of a run."""
    return Shift.joined(
        [squares_of_windows(windows, adjacency, run.plant, run.horizon)]
    )


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
        shape = (noise.factor, noise.scale)
        windows.append(NoiseForm(plant, noise.samples, *shape, _end(windows)))
    return windows


def _end(windows: Sequence[NoiseForm]) -> int:
    """Return the sample that follows consecutive windows."""
    return windows[-1].start + windows[-1].horizon if windows else 0


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
