"""From a plant, a horizon, a budget and an adjacency to the output noise that costs least.

`design_output_noise` is the door. A `Request` checks its arguments once. The table
`DESIGNS` has each way to size noise, with the requests that it is for and the reasons for
which it refuses some of them. The first one that suits a request sizes the noise, and
`finished` makes the promise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import control as ct
from numpy.typing import ArrayLike

from ..core._linalg import (
    check_room,
    one_thread,
)
from ..core._objects import helpful_arguments
from ..core._progress import piece, timed_bar
from ..core.adjacency import Adjacency
from ..core.budget import PrivacyBudget
from ..core.errors import PrivacyError, UncertifiableError, warn_user
from ..noise._endless import UNDAMPED
from ..noise.parts import Structured
from ..secrets.disturbance import disturbances
from ..secrets.secret import as_secret
from ..systems.linear import Plant, spectral_radius
from .correlated import correlated, driven, is_energy_ball
from .endless_design import endless, least_cost_of_white, long_noise
from .output_noise import OutputNoise
from .problem import (
    DesignProblem,
    Proposal,
    Weight,
    finished,
    is_dense,
)
from .region_design import of_region, of_varying_plant, with_cheapest_floor
from .request import Models, Request, check_models, check_size, joined
from .robust import floored
from .structured import (
    constrained_shape,
    independent,
    own_shape,
    radial,
    structured,
)

#: Relative difference of costs that are alike, which may be rounding.
_ALIKE = 1e-6
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
    S that is returned. A design of any kind returns the cheapest certified noise of all
    that it tried, independent noise of the same promise among them.

    Parameters
    ----------
    sys : control.StateSpace
        Discrete-time plant with n states and p outputs.
    horizon : int or inf
        Number of samples T that are published, t = 0 .. T-1. With ``np.inf`` the guarantee
        holds for one run of any length, and the noise is a linear system of low order. The
        secret's effect on the outputs must then decay.
    budget : PrivacyBudget
        With delta > 0, or ``gdp``, for Gaussian noise.
    adjacency : StateAdjacency, InitialStateAdjacency, DisturbanceAdjacency, or a list
        What must be hidden. A list is protected jointly, all moves in one design. Noise for
        a disturbance is correlated over the whole horizon and causal. Except for an l2 ball
        the run time of its design grows with the cube of the horizon, and memory with the
        square of T p. From 50 samples on it is noise of low order wherever that is
        certified to be within ``gap``.
    family : {"gaussian", "laplace", "iid-gaussian", "iid-laplace", "ball", "truncated", "auto"}, optional
        Structured noise, or independent noise of one size on every sample and output.
        Laplace noise gives pure differential privacy (delta = 0); its shape is a local
        optimum. "ball" and "truncated" are radial noise of states over a horizon without
        a floor, see `core.BallNoise`; "truncated" is for one or two directions. "auto" is
        the cheapest law of these and the first two that keeps an epsilon and delta, and
        Gaussian noise for everything that the others do not cover.
    weight : array_like, shape (p,), (p, p) or (T p, T p), or loop, optional
        Cost of the noise: prices of the outputs' variances or positive semidefinite W for
        every sample alike, W for all samples, or an object with ``noise_weight(horizon)``
        such as a `PrivateLoop`, which prices noise with the filter that it has. For the
        filter that `PrivateLoop.with_noise` designs next, other noise may cost less;
        ``private_lqg(codesign=True)`` chooses both.
        The trace of the output noise by default, which adds
        squares of different units. ``weight=1 / sizes**2``, with the size (p,) of noise at
        which each output is as bad as the others, makes Hz and pu comparable.
    releases : int, optional
        The budget covers that many independent releases of the same trajectory.
    floor : float, array_like of shape (p,), or "auto", optional
        Least standard deviation, in the outputs' units, of independent Gaussian noise that
        is part of every sample. The structured part is the least costly one beside it, and
        where independent noise alone is cheaper, that is taken. Without
        a floor structured noise protects under the exact model only. ``"auto"`` searches for
        the floor of least cost for all ``models`` and the ``resolution``.
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
        10,000 times the most that the secret does to an output over the run is refused, and
        from 100 times on there is a warning; ``np.inf`` lifts both. The growth of unstable
        modes is not counted.
    order : int, optional
        Without a horizon: largest number of states of the system that shapes the noise,
        the least one within ``gap`` by default.
    gap : float, optional
        Without a horizon, and for disturbances over 50 samples and more: largest relative
        distance of the cost to the lower bound of any Gaussian noise. Without a horizon
        it is that of the filtered part, to which a floor adds. Dense noise of fewer than
        128 dimensions for fewer than 1,000 hidden changes comes within 1e-6. Where no noise
        that was tried is as close, the closest one is returned, with a warning.
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
        what the secret does to an output; `horizon_growth` shows the modes of states. If
        the noise costs more than ``gap`` above its lower bound, as it mostly does for
        several changes in one run (``events``), whose bound is loose.

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
    is_open = isinstance(family, str) and family == "auto"
    law = "gaussian" if is_open else family
    request = Request(
        horizon, budget, joined(adjacency), law, releases, order=order, gap=gap
    ).of_plant(
        plant,
        floor=floor,
        models=models,
        resolution=resolution,
        factor=factor,
        covariance=covariance,
        scale=scale,
    )
    if is_open and not isinstance(floor, str) and constraints is None:
        request = _of_cheapest_law(request, plant, weight)
    check_models(request, plant, max_std)
    chooses_floor = isinstance(floor, str) and not request.drawn_afresh

    with one_thread, timed_bar(progress, "design", _faster(request, plant)):
        if chooses_floor:
            problem = DesignProblem(plant, request.without_miss(), weight)
            best = cheapest(problem, with_cheapest_floor(problem, sized))
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


def _of_cheapest_law(request: Request, plant: Plant, weight: Weight) -> Request:
    """Return the request with the law of least cost that keeps its budget."""
    budget = request.budget
    is_plain = request.floor is None and request.factor is None
    covered = is_plain and not any(refuses(request) for refuses in _OF_RADIAL.values())
    if not covered or not budget.epsilon:
        return request
    laws = ["laplace", "ball"]
    if not budget.pure:
        laws = ["gaussian", *laws, "truncated"]
    costs = {}
    for law in laws:
        try:
            noise = designed(replace(request, family=law), plant, weight=weight)
        except ValueError:  # more directions than the law is for
            continue
        costs[law] = noise.design.cost
    least = min(costs.values()) * (1 + _ALIKE)
    return replace(request, family=next(law for law in costs if costs[law] <= least))


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
    check_room(_OF_SOLVER * entries**4, what, _faster(request, plant))
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
    return finished(problem, cheapest(problem, sized(problem)), request)


def cheapest(problem: DesignProblem, found: Proposal) -> Proposal:
    """Return independent noise in place of a design that costs more.

    A `PrivacyWarning` says where the gap that was asked for is missed.
    """
    request = problem.request
    other = _independent(problem, found)
    if other is not None:
        gap = other.cost / found.bound - 1
        found = replace(other.bounded(found.bound), gap=min(found.gap, gap))
    if found.gap > request.gap:
        reason = "no noise that was tried comes closer"
        if request.region is not None:
            reason = (
                "the bound is for plants that stay the same, the guarantee for every "
                "sequence of plants of the region; over a finite horizon less noise may do"
            )
        elif any(part.events > 1 for part in disturbances(request.adjacency)):
            reason = "a bound that is loose, since it leaves out what changes share"
        elif request.order is not None:
            reason = (
                f"none of order {request.order} or less that was tried comes closer"
            )
        warn_user(
            f"the noise costs {100 * found.gap:.3g} % more than the lower bound, where "
            f"gap={request.gap:g} was asked for: {reason}"
        )
    return found


def _independent(problem: DesignProblem, found: Proposal) -> Proposal | None:
    """Return independent noise of the same promise, None if it does not cost less."""
    request = problem.request
    is_own = request.factor is not None or request.family.startswith("iid-")
    is_own |= problem.is_radial
    was_tried = request.has_models and request.drawn_afresh
    most = found.cost * (1 - _ALIKE)
    if is_own or was_tried or most <= found.bound:
        return None
    secrets = map(as_secret, request.adjacency.parts)
    is_plain = all(secret.is_plain_change for secret in secrets)
    if is_plain and problem.horizon < math.inf:
        if least_cost_of_white(problem) >= most:
            return None
    alone = replace(request, family=f"iid-{request.family}")
    requests = [alone.standing]
    if request.region is not None:  # whose bound takes longer
        requests.append(alone)
    for asked in requests:
        try:
            other = sized(replace(problem, request=asked))
        except (PrivacyError, UncertifiableError):
            return None
        if other.cost >= most:
            return None
    return other


# -- which design ------------------------------------------------------------------------


Condition = Callable[[Request], bool]


@dataclass(frozen=True)
class Design:
    """A way to size noise, the problems that it suits, and why it refuses some of them.

    It holds so many ``matrices`` (T p, T p) at once, None if that shows later.
    """

    suits: Callable[[DesignProblem], bool]
    size: Callable[[DesignProblem], Proposal]
    refusals: Mapping[str, Condition] = field(default_factory=dict)
    matrices: int | None = None


def sized(problem: DesignProblem) -> Proposal:
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


def _correlated(problem: DesignProblem) -> Proposal:
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

#: What radial noise does not cover, by what a user would have to give up.
_OF_RADIAL: dict[str, Condition] = {
    "horizon: radial noise hides states over a finite horizon; pass one, or "
    'family="gaussian"': lambda request: request.horizon == math.inf,
    "adjacency: radial noise hides states, got a disturbance or a ball of states beside "
    'other secrets; pass family="gaussian"': lambda request: is_dense(
        request.adjacency
    ),
    "models: radial noise has no floor, so it is for the exact plant; pass "
    'family="gaussian" with a floor': lambda request: request.has_models,
    "resolution: readings on a grid leave the column space of structured noise; pass "
    'family="gaussian" with a floor': lambda request: request.resolution is not None,
}

#: The first design whose condition holds is taken.
DESIGNS = (
    Design(lambda problem: problem.is_radial, radial, _OF_RADIAL, 0),
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
        _faster(problem.request, problem.plant),
    )


def _faster(request: Request, plant: Plant) -> str:
    """Name what would make a design faster and smaller.

    Noise without a horizon is for plants whose modes all decay.
    """
    if request.horizon == math.inf:
        return "protect shorter changes, let fewer entries vary, or raise gap"
    if request.region is not None:
        return "shorten the horizon, or let fewer entries of the models vary"
    ways = "shorten the horizon, or protect fewer times or shorter changes"
    decays = spectral_radius(plant) < 1 - UNDAMPED
    if disturbances(request.adjacency) and decays:
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
