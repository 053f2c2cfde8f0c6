"""Which design sizes the noise of a problem, and which requests it refuses.

The table `DESIGNS` has each way to size noise. The first one that suits a problem is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..numerics.checks import check_room
from ..numerics.errors import PrivacyError
from ..numerics.progress import piece
from ..numerics.thresholds import ROUNDED
from ..systems.linear import Plant, spectral_radius
from .correlated import correlated, driven
from .endless_design import endless
from .fleet import fleet, fleet_of_run, is_fleet, is_fleet_of_run
from .long_design import long_noise
from .own_shape import own_shape
from .problem import DesignProblem, Proposal
from .radial import radial, radial_beside_floor
from .region_design import of_region
from .request import Request
from .robust import floored
from .structured import independent, structured
from .varying_design import of_varying_plant

#: Numbers that a design for states holds at least for each state and sample, and output.
_OF_STATE, _OF_OUTPUT = 20, 4
#: Matrices (T p, T p) that a dense design holds at once.
_DENSE_MATRICES = 8


@dataclass(frozen=True)
class Refusal:
    """Say which requests a design does not take, and why."""

    refuses: Callable[[Request], bool]
    reason: str


@dataclass(frozen=True)
class Design:
    """A way to size noise, the problems that it suits, and why it refuses some of them.

    It holds so many ``matrices`` (T p, T p) at once, None if that shows later.
    """

    suits: Callable[[DesignProblem], bool]
    size: Callable[[DesignProblem], Proposal]
    refusals: tuple[Refusal, ...] = ()
    matrices: int | None = None


def sized(problem: DesignProblem) -> Proposal:
    """Return noise for a problem, by the first design that suits it."""
    design = next(design for design in DESIGNS if design.suits(problem))
    check_covered(problem.request, design.refusals)
    if design.matrices is not None:
        _check_room(problem, design.matrices)
    return design.size(problem)


def check_covered(request: Request, refusals: Sequence[Refusal]) -> None:
    """Raise the first refusal of a request."""
    for refusal in refusals:
        if refusal.refuses(request):
            raise PrivacyError(refusal.reason)


def _has_own_lambda(problem: DesignProblem) -> bool:
    own = problem.request.factor
    return own is not None and len(own) != problem.plant.order


def _is_driven(problem: DesignProblem) -> bool:
    request = problem.request
    alone = not request.models and request.floor is None
    alone = alone and not problem.varies  # a dense root does the same
    return alone and request.secret.is_energy_ball


def _correlated(problem: DesignProblem) -> Proposal:
    """Return noise of low order where that is nearly the best, or a dense design."""
    with piece(0, 2):
        lasting = long_noise(problem)
    if lasting is not None:
        return lasting
    _check_room(problem, _DENSE_MATRICES)
    with piece(1, 2):
        return correlated(problem)


def _of_units(problem: DesignProblem) -> Proposal:
    """Return noise of low order for all units, or a dense design of each kind of them."""
    with piece(0, 2):
        lasting = long_noise(problem)
    if lasting is not None:
        return lasting
    with piece(1, 2):
        return fleet_of_run(problem, sized)


def _has_grid(request: Request) -> bool:
    return request.resolution is not None


def _has_bare_grid(request: Request) -> bool:
    return _has_grid(request) and request.floor is None


def _has_endless_grid(request: Request) -> bool:
    return _has_grid(request) and _is_endless(request)


def _has_shape(request: Request) -> bool:
    return request.factor is not None


def _has_region(request: Request) -> bool:
    return request.region is not None


def _has_bare_models(request: Request) -> bool:
    return request.has_models and request.floor is None


def _hides_more_than_states(request: Request) -> bool:
    return request.secret.is_dense


def _is_endless(request: Request) -> bool:
    return not request.horizon.ends


def _is_laplace(request: Request) -> bool:
    return request.family.endswith("laplace")


def _is_not_gaussian(request: Request) -> bool:
    return request.family != "gaussian"


def _is_shaped_or_laplace(request: Request) -> bool:
    return _has_shape(request) or _is_laplace(request)


def _lacks_floor(request: Request) -> bool:
    """Return whether noise of a region is none that covers all of its plants."""
    is_plain = request.family == "gaussian" and request.floor is None
    return _is_laplace(request) or (is_plain and not request.is_one)


_BARE = (
    Refusal(
        _has_bare_grid,
        "resolution: readings on a grid leave the column space of structured noise; add "
        "a white floor (floor=...), which covers them",
    ),
)
_OF_DENSE = (
    *_BARE,
    Refusal(
        _has_shape,
        "factor, covariance: S is for secrets about states, got a disturbance or a ball "
        "with other secrets; pass factor=Lambda of shape (T p, r)",
    ),
    Refusal(
        _is_not_gaussian,
        'family: expected "gaussian" or an iid family for a disturbance, or for a 2-norm '
        "ball of initial states with other secrets (norm=1 will do)",
    ),
)
_OF_NO_END = (
    Refusal(
        _is_laplace,
        "family: Laplace noise has no guarantee for runs of any length, since its pure "
        "epsilon grows with every sample that a change moves; use Gaussian noise with "
        "delta > 0, or a finite horizon",
    ),
    Refusal(
        _has_grid,
        "resolution: without a horizon no noise covers a sensor's grid, since however "
        "small a change has become it may still move every later reading by a full step; "
        "design for a finite horizon with a floor",
    ),
    Refusal(
        _has_shape,
        "factor, covariance: they shape structured noise, which has a horizon; pass a "
        "finite one",
    ),
)
_OF_VARYING = (
    Refusal(
        _is_shaped_or_laplace,
        "models: a plant that varies, or models without a horizon, need Gaussian noise "
        "that is drawn again at every sample; leave factor and covariance out, and pass "
        'family="gaussian" or family="iid-gaussian"',
    ),
    Refusal(
        _has_endless_grid,
        "resolution: without a horizon no noise covers a sensor's grid; design for a "
        "finite horizon with a floor",
    ),
)
_OF_REGION = (
    Refusal(
        _lacks_floor,
        "models: noise for all plants of a region needs Gaussian noise with a white floor "
        '(floor="auto" finds the cheapest one)',
    ),
)
#: What radial noise does not cover, by what a user would have to give up.
OF_RADIAL = (
    Refusal(
        _is_endless,
        "horizon: radial noise hides states over a finite horizon; pass one, or "
        'family="gaussian"',
    ),
    Refusal(
        _hides_more_than_states,
        "adjacency: radial noise hides states, got a disturbance or a ball of states "
        'with other secrets; pass family="gaussian"',
    ),
    Refusal(
        _has_region,
        "models: radial noise covers models in a list, with a floor, and no region of "
        'plants; pass family="gaussian" with a floor',
    ),
    Refusal(
        _has_bare_models,
        "models: radial noise without a floor is for the exact plant; pass a "
        'floor (floor="auto" finds one)',
    ),
    Refusal(
        _has_bare_grid,
        "resolution: readings on a grid leave the column space of structured noise; pass "
        'a floor (floor="auto" finds one)',
    ),
)

#: The first design whose condition holds is taken.
DESIGNS = (
    Design(
        lambda problem: problem.is_radial and problem.request.floor is not None,
        radial_beside_floor,
        OF_RADIAL,
        0,
    ),
    Design(lambda problem: problem.is_radial, radial, OF_RADIAL, 0),
    Design(
        lambda problem: problem.request.has_models and problem.request.drawn_afresh,
        lambda problem: of_varying_plant(problem, sized),
        _OF_VARYING,
    ),
    Design(
        lambda problem: problem.request.region is not None,
        lambda problem: of_region(problem, sized),
        _OF_REGION,
    ),
    Design(is_fleet, fleet, _OF_NO_END),
    Design(lambda problem: _is_endless(problem.request), endless, _OF_NO_END),
    Design(
        lambda problem: problem.request.family.startswith("iid-"),
        independent,
        matrices=0,
    ),
    Design(_has_own_lambda, own_shape, _BARE, _DENSE_MATRICES),
    Design(is_fleet_of_run, _of_units, _OF_DENSE, matrices=2),
    Design(_is_driven, driven, _OF_DENSE, matrices=2),
    Design(lambda problem: problem.request.secret.is_dense, _correlated, _OF_DENSE),
    Design(lambda problem: problem.request.factor is not None, own_shape, _BARE, 0),
    Design(lambda problem: problem.request.floor is not None, floored, matrices=0),
    Design(lambda problem: True, structured, _BARE, 0),
)


def _check_room(problem: DesignProblem, matrices: int) -> None:
    """Refuse a design of so many matrices (T p, T p) that the memory does not hold."""
    outputs = problem.plant.output_count
    size = problem.horizon * outputs
    moves = 0
    for part in problem.request.secret.disturbances:
        columns = len(part.starts(problem.horizon)) * len(part.signals(problem.plant))
        moves += len(part.shapes) * columns
    of_sample = problem.plant.order * (_OF_STATE + _OF_OUTPUT * outputs)
    what = f"horizon: a design over {problem.horizon} samples"
    check_room(
        problem.horizon * of_sample + size * (2 * moves + matrices * size),
        f"{what} for {moves} hidden changes" if moves else what,
        faster(problem.request, problem.plant),
    )


def faster(request: Request, plant: Plant) -> str:
    """Name the ways to a faster and smaller design.

    Noise without a horizon is for plants whose modes all decay.
    """
    if not request.horizon.ends:
        if request.region is None:
            return "protect shorter changes or fewer inputs, or raise gap"
        return "protect shorter changes, let fewer entries of the models vary, or raise gap"
    if request.region is not None:
        return "shorten the horizon, or let fewer entries of the models vary"
    ways = "shorten the horizon, or protect fewer times or shorter changes"
    changes = request.secret.disturbances and not plant.varies
    if changes and spectral_radius(plant) < 1 - ROUNDED:
        ways = f"design with horizon=np.inf, {ways}"
    return ways
